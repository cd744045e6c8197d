"""No table that we write has a cell that a spreadsheet would compute, and no name is lost by that."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st

import unmix as um
from unmix.io.write import guarded, unguarded, write_csv, write_fit

NAMES = [
    "=cmd|'/c calc'!A1",
    "+SUM(A1)",
    "-log",
    "@x",
    "\ttab",
    "\rreturn",
    "'=quoted",
    "''-twice",
    "'plain'",
    "+1",
    "-0.5",
    "bee",
]
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@examples(100)
@given(st.text(alphabet="=+-@'\t\r\n1.eab", max_size=8))
def test_what_is_written_is_read_and_never_a_formula(name: str) -> None:
    shown = guarded(name)
    assert unguarded(shown) == name
    if shown.startswith(FORMULA):
        float(shown)  # a number, which does no harm


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_names_survive_our_tables_and_numbers_are_untouched(ending: str, tmp_path: Path) -> None:
    values = np.arange(1.0, 1 + len(NAMES) ** 2).reshape(len(NAMES), -1)
    table = pd.DataFrame(values, index=pd.Index(NAMES, name="sample"), columns=NAMES)
    write_csv(
        table, tmp_path / f"x.{ending}", index=True, sep="," if ending == "csv" else "\t", quoting=csv.QUOTE_NONNUMERIC
    )
    counts = um.read(tmp_path / f"x.{ending}")
    assert counts.samples.tolist() == counts.features.tolist() == NAMES
    np.testing.assert_array_equal(counts.csr.toarray(), values)


def test_every_table_of_a_fit_is_safe(tmp_path: Path) -> None:
    X = um.Counts(np.random.default_rng(0).poisson(3, (len(NAMES), len(NAMES))), NAMES, NAMES)
    fit = um.PoissonNMF(2, random_state=0, max_iter=3, tol=0).fit(X).result_.with_names(["=1+1", "-x"])
    write_fit(fit, tmp_path / "fit")
    tables = sorted((tmp_path / "fit").glob("*.csv"))
    assert len(tables) == 5
    for table in tables:
        with table.open(newline="", encoding="utf-8") as file:
            for cell in (cell for row in csv.reader(file) for cell in row if cell.startswith(FORMULA)):
                float(cell)
    assert um.read(tmp_path / "fit" / "proportions.csv").samples.tolist() == NAMES
    assert um.read(tmp_path / "fit" / "topics.csv", transpose=False).samples.tolist() == NAMES
