"""The site as readers use it: short pages, answers in three clicks, searches that find the page that helps.

The searches are tried in a browser at the end of `make docs`, on the site that was built. Here, in all other runs, every search
has to match an entry of the index, a title or a term of the glossary on the page that should come first: these are what
the search ranks highest.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT
from test_docs import DOCS, PAGES, name_of, targets

HTML = Path(os.environ.get("UNMIX_SITE") or DOCS / "_build" / "html")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LONGEST = 2_500

# What readers type, and the pages that help. The first sixteen are those of a review that found none of them, or another page.
QUERIES = {
    "seurat": "how-to/seurat",
    "export csv": "how-to/export-words",
    "GPU": "how-to/threads",
    "differential expression": "guide/differential-features",
    "visualisation": "guide/figures-and-report",
    "glossary": "reference/glossary",
    "hierarchical": "guide/comparing-fits",
    "cite": "reference/cite",
    "citation": "reference/cite",
    "apply saved model": "how-to/apply-a-model",
    "batch effect": "guide/known-topics",
    "rename topics": "how-to/rename-topics",
    "stop words": "how-to/stop-words",
    "uncertainty": "guide/uncertainty",
    "number of topics": "how-to/choose-k guide/number-of-topics",
    "troubleshooting": "reference/troubleshooting",
    "install": "start/installation",
    "not converged": "guide/fitting how-to/not-converged",
    "KKT residual": "guide/fitting reference/glossary",
    "preprocessing": "guide/data",
    "filter genes": "guide/data",
    "normalised data": "guide/data",
    "metadata": "guide/data",
    "result files": "reference/result-files",
    "columns": "reference/result-files",
    "compare groups": "guide/groups-and-time",
    "cases and controls": "guide/groups-and-time",
    "covariates": "guide/groups-and-time guide/covariates",
    "topics over time": "guide/groups-and-time gallery/topics-over-time",
    "merge topics": "how-to/rename-topics",
    "memory": "guide/fitting how-to/ten-million-cells guide/large-data",
    "runtime": "guide/fitting",
    "exposure": "reference/glossary how-to/known-signatures",
    "proportion": "reference/glossary",
    "lfsr": "reference/glossary",
    "p-values": "how-to/test-groups",
    "seeded topics": "guide/known-topics",
    "notebook": "guide/figures-and-report how-to/notebook",
    "reproducible": "how-to/reproducible",
    "random_state": "how-to/reproducible",
    "threads": "how-to/threads",
    "resume": "how-to/resume",
    "SLURM": "how-to/slurm",
    "out of memory": "how-to/ten-million-cells",
    "coherence": "guide/stability",
    "perplexity": "guide/number-of-topics reference/glossary",
    "which model": "guide/choosing-a-model",
    "scikit-learn": "coming-from/scikit-learn",
    "top words": "how-to/export-words",
}

# Questions of users, and the links that lead from the first page to the answer
ANSWERS = {
    "How do I remove or account for a batch effect?": ["guide/index", "guide/known-topics"],
    "What do I cite?": ["reference/cite"],
    "How do I read Seurat or R data?": ["how-to/index", "how-to/seurat"],
    "Why did it not converge, and what is a KKT residual?": ["guide/index", "guide/fitting"],
    "Which files does a fit write, and what are the columns?": ["reference/index", "reference/result-files"],
    "How do I preprocess?": ["guide/index", "guide/data"],
    "How do I compare topics between two groups?": ["guide/index", "guide/groups-and-time"],
    "How do I name, merge, drop or reorder topics?": ["how-to/index", "how-to/rename-topics"],
    "How long will it take, and how much memory?": ["guide/index", "guide/fitting"],
    "What do the words mean?": ["reference/glossary"],
}


def extension(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SITE = extension("pages")
RECORDS = {DOCS / file for file, _ in SITE.RECORDS.values()} | {ROOT / "CHANGELOG.md"}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RECORDS], ids=name_of)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) <= LONGEST


@pytest.mark.parametrize("record", SITE.RECORDS)
def test_a_long_record_becomes_short_pages_without_loss(record: str) -> None:
    sections = SITE.sections(record)
    assert len(sections) > 3
    assert max(section.words for section in sections) <= LONGEST
    text = (DOCS / SITE.RECORDS[record][0]).read_text(encoding="utf-8")
    words = [word for section in sections for word in section.text.split()]
    headings = [word for line in re.findall(r"^###? .*", text, re.MULTILINE) for word in line.split()]
    assert len(text.split()) - len(headings) <= len(words) <= len(text.split())


def test_every_public_object_and_every_command_has_a_page() -> None:
    from unmix.cli.options import COMMANDS

    pages = SITE.generated()
    assert {f"generated/commands/{name}" for name in COMMANDS} <= pages.keys()
    assert {"generated/api/unmix.TopicModel", "generated/api/unmix.plot.structure"} <= pages.keys()
    assert "--layer" in pages["generated/commands/fit"]
    assert len({name.lower() for name in pages}) == len(pages)


def test_links_into_a_record_lead_to_the_page_of_the_section() -> None:
    link = "[x](../background/performance.md#a-million-cells) [y](data.md)"
    page = "generated/performance/large-data-reading-and-start-up.md"
    assert SITE.relinked(link, "guide/fitting", "guide/fitting") == f"[x](../{page}#a-million-cells) [y](data.md)"


@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_is_answered_in_three_clicks(question: str) -> None:
    assert len(ANSWERS) == 10
    path = [DOCS / "index.md", *(DOCS / f"{name}.md" for name in ANSWERS[question])]
    assert len(path) <= 4
    for here, there in pairwise(path):
        assert there.resolve() in {(here.parent / target).resolve() for target in targets(here)}


def entries(page: Path) -> list[str]:
    """What the search ranks highest: entries of the index, titles, terms."""
    text = page.read_text(encoding="utf-8")
    index = [entry for block in re.findall(r"^```\{index\} (.*)$", text, re.MULTILINE) for entry in block.split(",")]
    terms = [
        term for block in re.findall(r"^```\{glossary\}\n(.*?)^```", text, re.M | re.S) for term in block.split("\n")
    ]
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [entry.strip(" !").lower() for entry in [*index, *titles, *(term for term in terms if term[:1].strip())]]


@pytest.mark.parametrize("query", QUERIES)
def test_what_readers_type_is_an_entry_of_the_page_that_helps(query: str) -> None:
    assert len(QUERIES) == 49
    pages = [DOCS / f"{name}.md" for name in QUERIES[query].split()]
    words = query.lower()
    assert any(
        words in entry and len(words) >= len(entry) / 2 for page in pages if page.is_file() for entry in entries(page)
    )


def test_no_other_page_claims_a_searched_entry() -> None:
    """An entry of the index that is exactly what is typed belongs to the pages that help."""
    for query, pages in QUERIES.items():
        claimed = {
            name_of(page)[:-3] for page in PAGES if re.search(rf"! {re.escape(query)}(,|$)", page.read_text(), re.M)
        }
        assert claimed <= {*pages.split()}, query


def test_pictures_of_the_readme_show_what_the_library_says() -> None:
    """Else: `python docs/pictures.py`, and look at them."""
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    assert {pictures.shown(DOCS / "images" / name) for name in ("report.png", "report-dark.png")} == {pictures.labels()}


# --- the site as it was built -------------------------------------------------------------------------------------------


@contextmanager
def served() -> Iterator[str]:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(HTML))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


BUILT = pytest.mark.skipif("UNMIX_SITE" not in os.environ, reason="`make docs` runs this on the site that it has built")


@BUILT
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")
def test_searches_find_the_page_that_helps() -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    first = {}
    with served() as address, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        for query in QUERIES:
            page.goto(f"{address}/search.html?q={query}")
            page.wait_for_selector("#search-results .search li a", timeout=20_000)
            href = page.locator("#search-results .search li a").first.get_attribute("href") or ""
            first[query] = re.sub(r"\.html.*", "", href)
        browser.close()
    useful = {query for query, pages in QUERIES.items() if first[query] in pages.split()}
    print(f"{len(useful)} of {len(QUERIES)} searches find a useful page first")
    assert len(useful) >= 40, {query: first[query] for query in QUERIES if query not in useful}


@BUILT
def test_pages_of_the_site_are_short_and_figures_have_words() -> None:
    for path in HTML.rglob("*.html"):
        html = path.read_text(encoding="utf-8")
        for image in re.findall(r"<img [^>]*>", html):
            alt = re.search(r'alt="([^"]*)"', image)
            assert alt is not None, (path, image)
            assert not alt[1].endswith((".svg", ".png")), (path, image)
