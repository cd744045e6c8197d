"""Pages of the site in a browser, where `make docs` has built them: axe-core finds nothing, nothing is wider than the window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SITE = ROOT / "docs" / "_build" / "html"
KINDS = (
    *("index.html", "tutorials/*.html", "start/*.html", "guide/*.html", "gallery/i*.html", "**/command-line.html"),
    "api/*.html",
)
PAGES = [page for kind in KINDS for page in sorted(SITE.glob(kind))[:1]]
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH"),
    pytest.mark.skipif(len(PAGES) < 5, reason="the site is not built here; run make docs first"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize("page_file", PAGES, ids=lambda page: page.stem)
def test_pages_of_the_site_are_accessible_and_fit_the_window(browser: Any, page_file: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(page_file.as_uri())
    found = axe.run(page, options={"runOnly": RULES}).response["violations"]
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.close()
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found] == []
    assert wide <= 1400
