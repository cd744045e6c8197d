"""The pages of docs/: everything public is in the reference, links lead somewhere, the code of tutorials is code.

Building them, which runs the tutorials, is `make docs`.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, random_counts
from sklearn.base import BaseEstimator

import unmix as um
import unmix.plot
import unmix.report
import unmix.sc
from unmix import estimators

DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "generated"} & {*path.parts})
WITH_CODE = [path for path in PAGES if "{code-cell}" in path.read_text(encoding="utf-8")]
MODULES = {"analysis", "datasets", "engines", "maps", "plot", "sc", "solvers"}
REFERENCE = sorted((DOCS / "api").glob("*.md"))
AUTO = re.compile(r"^\.\. auto(?:class|function|method|module):: (\S+)\n(?:   :members: (.*)\n)?", re.MULTILINE)
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!\\)\]\(([^()\s]+)\)")
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^(`{3,}|:{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS))


def documented() -> dict[str, set[str]]:
    """What the reference names, and the members that it names of each."""
    pairs = [pair for page in REFERENCE for pair in AUTO.findall(page.read_text(encoding="utf-8"))]
    return {name: set(members.split(", ")) if members else set() for name, members in pairs}


def functions_of(module: ModuleType) -> set[str]:
    return {
        f"{name}"
        for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__ and name[0] != "_"
    }


def public() -> set[str]:
    """All that a user may call, as the reference should name it."""
    names = {f"unmix.{name}" for name in set(um.__all__) - MODULES - {"__version__"}}
    for module in ("analysis", "datasets", "plot", "solvers"):
        names |= {f"unmix.{module}.{name}" for name in getattr(um, module).__all__}
    names |= {f"unmix.maps.{name}" for name in functions_of(um.maps)}
    names |= {f"unmix.sc.{room}.{name}" for room in ("tl", "pl") for name in functions_of(getattr(unmix.sc, room))}
    names |= {f"unmix.report.{name}" for name in unmix.report.__all__}
    return names | {"unmix.sc.to_fit"}


def found(name: str) -> object:
    """What a dotted name means."""
    thing: object = um
    for part in name.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


def test_everything_public_is_in_the_reference() -> None:
    missing = {
        name
        for name in public() - documented().keys()
        if not any(found(name) is found(other) for other in documented())  # under another name
    }
    assert not missing


def test_the_reference_names_only_what_exists() -> None:
    for name, members in documented().items():
        assert found(name) is not None
        for member in members:
            assert hasattr(found(name), member) or member in getattr(found(name), "__annotations__", {})


ESTIMATORS = [n for n in um.__all__ if inspect.isclass(getattr(um, n)) and issubclass(getattr(um, n), BaseEstimator)]
OF_ALL = {"n_features_in_", "feature_names_in_", "stream_"}  # which the page tells once, for all of them


@cache
def models(name: str) -> list[Any]:
    """An estimator fitted in every way that learns something else."""
    counts, kind = pd.DataFrame(random_counts()).rename(columns=str), getattr(um, name)
    ways = ["bld", "gibbs", "icm"] if name == "AllocationModel" else [None]
    options: list[dict[str, Any]] = [{} if way is None else {"method": way, "sweeps": 6, "thin": 2} for way in ways]
    if name == "BayesianPoissonNMF":
        options += [{"rate_shape": 0.3}]
    fitted = [kind(2, random_state=0, max_iter=3, tol=0, **option).fit(counts) for option in options]
    if name == "GammaPoisson":
        described = um.Counts(counts, metadata=pd.DataFrame({"x": np.arange(float(len(counts)))}))
        fitted.append(kind(2, prevalence="~ x", random_state=0, max_iter=3, tol=0).fit(described))
    if hasattr(kind(2), "partial_fit"):
        fitted.append(kind(2, random_state=0).partial_fit(counts))
    return fitted


def learned(name: str) -> set[str]:
    return {at for model in models(name) for at in dir(model) if re.fullmatch(r"[a-z]\w*_", at) and hasattr(model, at)}


def methods(name: str) -> set[str]:
    """Public ones that this library defines; scikit-learn's own are in its reference."""
    ours = [vars(kind) for kind in getattr(um, name).__mro__ if kind.__module__.startswith("unmix.")]
    names = {at for at in dir(models(name)[0]) if at[0] != "_" and any(at in names for names in ours)}
    requests = re.compile(r"set_\w+_request")  # which scikit-learn makes of signatures
    return {at for at in names if callable(getattr(models(name)[0], at, None)) and not requests.fullmatch(at)}


def listed(name: str) -> set[str]:
    """The learned attributes that the docstring lists, and so the reference shows."""
    lines = (inspect.getdoc(getattr(um, name)) or "").partition("Attributes\n----------\n")[2].partition("\n\n")[0]
    return {at for names in re.findall(r"^(\w+(?:, \w+)*) : ", lines, re.MULTILINE) for at in names.split(", ")}


def test_there_are_estimators_to_compare_with_the_reference() -> None:
    assert set(ESTIMATORS) == set(estimators.__all__) - {"from_fit"}
    assert {"fit", "resume", "transform", "perplexity", "credible_intervals"} <= methods("AllocationModel")
    assert {"alpha_", "gamma_", "elbo_", "result_", "n_iter_", "components_", "stream_"} <= learned("LDA")
    assert {"shape_", "rate_"} <= listed("GammaPoisson")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_method_and_learned_attribute_of_an_estimator_is_in_the_reference(name: str) -> None:
    members = documented()[f"unmix.{name}"]
    properties = {at for at in learned(name) if isinstance(getattr(getattr(um, name), at, None), property)}
    assert not (methods(name) | properties) - members
    told = set(re.findall(r"`(\w+_)`", (DOCS / "api" / "estimators.md").read_text(encoding="utf-8")))
    assert not learned(name) - members - listed(name) - told
    assert told >= OF_ALL


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_docstring_lists_what_its_estimator_learns_and_nothing_else(name: str) -> None:
    assert listed(name) == learned(name) - OF_ALL


def targets(page: Path) -> set[str]:
    text = page.read_text(encoding="utf-8")
    outside_code = FENCE.sub("", text)
    links = {link.partition("#")[0] for link in LINK.findall(outside_code) if "://" not in link}
    lines = {line for block in TOCTREE.findall(text) for line in block.split("\n") if line and not line.startswith(":")}
    entries = {re.sub(r"^.* <(.*)>$", r"\1", line) + ".md" for line in lines}
    return {target for target in links | entries if target}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page: Path) -> None:
    assert not [target for target in targets(page) if not (page.parent / target).exists()]


def test_every_page_can_be_reached_from_the_first() -> None:
    reached, left = set(), [DOCS / "index.md"]
    while left:
        page = left.pop().resolve()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            left += [page.parent / target for target in targets(page)]
    assert not [name_of(page) for page in PAGES if page.resolve() not in reached]


def code(cell: str) -> str:
    """Without the options of the cell and the magics of IPython."""
    lines = [line for line in cell.split("\n") if not re.match(r":\w+:|%\w", line)]
    return "" if cell.startswith("%%") else "\n".join(lines)


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_cells_compile(page: Path) -> None:
    cells = CELL.findall(page.read_text(encoding="utf-8"))
    assert cells
    for cell in cells:
        ast.parse(code(cell))


GUIDE_PAGES = sorted(set((DOCS / "guide").glob("*.md")) - {DOCS / "guide" / "index.md"})


@pytest.mark.parametrize("page", GUIDE_PAGES, ids=name_of)
def test_a_chapter_shows_python_and_the_command_line_and_checks_what_it_claims(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    cells = CELL.findall(text)
    assert cells or "```python\n" in text
    assert re.search(r"\bunmix \w+", text) or "--model" in text
    assert "**See also:**" in text
    assert not cells or any("assert" in cell for cell in cells)


def extension(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_docstrings_mean_what_they_say() -> None:
    rewritten = extension("plain_docstrings").rewritten
    assert rewritten(["L* and `F*`, alpha_ and x_ij"]) == [r"L\* and ``F*``, alpha\_ and x_ij"]
    assert rewritten(["`.npz`, `save`, `tol=0`, ``F*``"]) == ["``.npz``, `save`, ``tol=0``, ``F*``"]
    assert rewritten(["`Fit.save`"]) == [":py:obj:`Fit.save <unmix.Fit.save>`"]
    equation = ["Where:", "", "    L* = L", "", "and `F`*"]
    assert rewritten(equation) == ["Where:", "", "::", "", "    L* = L", "", r"and `F`\*"]
    parameters = ["Parameters", "----------", "size_ : int, default=1", "    Its size*."]
    assert rewritten(parameters) == [*parameters[:3], r"    Its size\*."]
    returns = ["Returns", "-------", "Fit or None", "    L*."]
    assert rewritten(returns) == [*returns[:2], ":py:obj:`Fit <unmix.Fit>` or None", r"    L\*."]
    also = ["See Also", "--------", "load, Fit.save : Files*.", "", "Examples", "--------", ">>> 2 ** 2"]
    links = r"- :py:obj:`load <unmix.load>`, :py:obj:`Fit.save <unmix.Fit.save>`: Files\*."
    assert rewritten(also) == [*also[:2], links, *also[3:]]


def test_the_type_of_a_property_stands_before_what_it_is() -> None:
    with_type_first = extension("plain_docstrings").with_type_first
    assert with_type_first(["int: how many: K.", "", "More."]) == ["", "*int* – how many: K.", "", "More."]


def test_only_what_a_person_constructs_has_the_signature_of_its_constructor() -> None:
    signature = extension("plain_docstrings").signature
    assert signature(None, "class", "unmix.Choice", um.Choice, None, "(table)", "") == ("", "")
    assert signature(None, "class", "unmix.Counts", um.Counts, None, "(matrix)", "") is None


# --- the contributor's guide ----------------------------------------------------------------------------------------

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL), ids=["solver", "model"])
def test_what_the_guide_shows_runs(code: str) -> None:
    made: dict[str, Any] = {}
    exec(code, made)
    assert {"PatientEM", "model"} & made.keys()


def test_every_step_of_the_tour_names_what_its_file_has() -> None:
    tour = GUIDE.partition("## A tour")[2].partition("\n## ")[0]
    hops = re.findall(r"^\d+\. `([\w.]+)` in `([\w/]+\.py)`", tour, re.MULTILINE)
    assert hops
    for name, file in hops:
        text = (ROOT / "src" / "unmix" / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *(def|class) {name.split('.')[-1]}\b", text, re.MULTILINE), (name, file)


def test_every_file_and_room_is_on_the_map() -> None:
    guide = GUIDE.partition("## Map of the code")[2].partition("\n## ")[0]
    rooms = [path.name for path in (ROOT / "src" / "unmix").iterdir() if not path.name.startswith(("_", "."))]
    assert not [name for name in rooms if f"`{name}" not in guide and name != "py.typed"]


GALLERY = sorted(set((DOCS / "gallery").glob("*.md")) - {DOCS / "gallery" / "index.md"})
QUICK = ("signatures", "stability", "intervals")


def code_of(page: Path) -> str:
    (cell,) = CELL.findall(page.read_text(encoding="utf-8"))
    return cell


def test_the_page_of_the_gallery_shows_all_examples() -> None:
    text = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    cards, contents = re.findall(
        r"^```\{(?:gallery|toctree)\}\n(?::hidden:\n\n)?(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    assert {f"{name}.md" for name in cards.split()} == {page.name for page in GALLERY}
    assert cards == contents


@pytest.mark.parametrize("name", QUICK)
def test_an_example_draws_one_figure(name: str) -> None:
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    exec(compile(code_of(DOCS / "gallery" / f"{name}.md"), name, "exec"), {})
    assert len(plt.get_fignums()) == 1


def test_every_test_that_the_pages_of_guarantees_name_exists() -> None:
    pages = ("reference/guarantees.md", "development/testing.md")
    page = "".join((DOCS / name).read_text(encoding="utf-8") for name in pages)
    known = {
        file.name: set(re.findall(r"^def (test_\w+)", file.read_text(), re.M))
        for file in (ROOT / "tests").rglob("test_*.py")
    }
    named = re.findall(r"`(?:(test_\w+\.py)::)?(test_\w+)`", page)
    assert len(named) > 30
    for file, test in named:
        assert test in (known.get(file, set()) if file else set().union(*known.values())), f"{file}::{test}"
