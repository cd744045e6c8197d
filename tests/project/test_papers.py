"""The page "From the papers to the code": every test, name, file and page that it mentions exists, and its counts are told."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from conftest import ROOT

import unmix as um
from unmix.registry import SOLVERS

PAGE = ROOT / "docs" / "papers.md"
TEXT = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
ROWS = [
    [cell.strip() for cell in line.strip()[1:-1].split("|")]
    for line in TEXT.splitlines()
    if re.match(r"\| (?!place|-)", line)
]
STATES = (
    "as printed",
    "differs",
    "part",
    "not there",
    "not in unmix",
    "measured",
    "answered",
    "refuted",
    "reached",
    "corrected",
    "beyond the paper",
)
DEFINED = {
    name
    for file in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M)
}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+…?)`", TEXT))))
def test_every_test_it_names_exists(name: str) -> None:
    assert any(known.startswith(name[:-1]) for known in DEFINED) if name.endswith("…") else name in DEFINED


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`um\.([\w.]+)", TEXT))))
def test_every_public_name_exists(name: str) -> None:
    thing: object = um
    for part in name.split("."):
        thing = getattr(thing, part)


def test_every_solver_and_every_file_it_names_exists() -> None:
    assert set(re.findall(r'solver="([\w-]+)"', TEXT)) <= set(SOLVERS)
    for name in re.findall(r"`([\w-]+\.(?:png|csv))`", TEXT):
        assert (ROOT / "docs" / "results" / name).exists(), name
    for name in re.findall(r"`(reproduce/\w+\.py)`", TEXT):
        assert (ROOT / name).exists(), name
    for command in re.findall(r"`python -m (reproduce\.?\w*)(?: (\w+))?`", TEXT):
        assert (ROOT / "reproduce" / f"{command[1] or command[0].removeprefix('reproduce.')}.py").exists(), command


def test_every_row_says_where_what_and_how_it_stands() -> None:
    assert len(ROWS) >= 140
    for row in ROWS:
        assert len(row) == 5, row
        assert row[-1].startswith(STATES), row
    assert Counter(row[0] for row in ROWS).most_common(1)[0][1] < 12


def test_the_page_counts_its_rows() -> None:
    states = Counter(next(state for state in STATES if row[-1].startswith(state)) for row in ROWS)
    decided = sum(states[state] for state in ("reached", "answered", "refuted", "corrected"))
    others = [states[state] for state in ("not in unmix", "beyond the paper", "differs", "part", "not there")]
    numbers = [len(ROWS), states["as printed"], states["measured"], decided, *others]
    (said,) = re.findall(r"^Of \d+ places .*$", TEXT, re.M)
    assert [int(number) for number in re.findall(r"\d+", said)] == numbers
