"""The page of results says what its tables say: written again from the csv files beside it, it is the same."""

from __future__ import annotations

import json
import re

import pytest
from conftest import ROOT
from reproduce import __main__ as reproduce
from reproduce.common import RESULTS

PAGE = RESULTS / "README.md"


def test_the_page_is_what_its_tables_say() -> None:
    """Else: `python -m reproduce --page`, and look at what has changed."""
    assert reproduce.page() == PAGE.read_text(encoding="utf-8")


def test_a_number_that_changes_in_a_table_changes_the_page(tmp_path, monkeypatch) -> None:
    for file in RESULTS.iterdir():
        if file.suffix in (".csv", ".json"):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    table = (tmp_path / "joint-sparsity.csv").read_text(encoding="utf-8")
    (tmp_path / "joint-sparsity.csv").write_text(table.replace("l2,100.0,", "l2,200.0,"), encoding="utf-8")
    monkeypatch.setattr(reproduce, "RESULTS", tmp_path)
    assert "λ goes from 0 to\n200." in reproduce.page()


@pytest.mark.parametrize("name", reproduce.RESULT_MODULES)
def test_every_section_has_its_stamp(name: str) -> None:
    stamp = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert stamp.keys() == {"full", "version", "date", "threads"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", stamp["date"])
    command = (
        f"`python -m reproduce {name}{' --full' if stamp['full'] else ''}` · unmix {stamp['version']}, {stamp['date']}"
    )
    assert command in PAGE.read_text(encoding="utf-8")


def test_every_picture_and_table_is_of_the_page() -> None:
    text, code = (
        PAGE.read_text(encoding="utf-8"),
        "".join(file.read_text(encoding="utf-8") for file in (ROOT / "reproduce").glob("*.py")),
    )
    for file in RESULTS.iterdir():
        if file.suffix == ".png":
            assert f"({file.name})" in text, file.name
        name, _, what = file.stem.partition("-")
        if file.suffix == ".csv" and name not in ("records", "paper"):
            assert name in reproduce.RESULT_MODULES
            assert not what or what.split("-")[-1] in code, file.name
