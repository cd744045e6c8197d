"""A sparse matrix of any format is counted as its dense twin is, or refused where it points outside itself.

SciPy's conversions trust the arrays of a matrix: those of a broken one read memory that is not theirs. So the broken ones are
tried in another process, `python tests/counts/test_sparse_formats.py`, which says what became of each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from unmix.counts.canonical import canonical

X = np.array([[1.0, 0, 2, 0], [0, 3, 0, 0], [4, 0, 5, 6], [0, 0, 0, 7]])
FAR = 1_000_000_000


def _with(kind: Any, **parts: Any) -> Callable[[], Any]:
    """A matrix whose parts were replaced behind the back of SciPy."""

    def build() -> Any:
        matrix = kind(X, blocksize=(2, 2)) if kind in (sp.bsr_array, sp.bsr_matrix) else kind(X)
        for name, value in parts.items():
            object.__setattr__(matrix, name, value)
        return matrix

    return build


def _lists(*rows: Any) -> np.ndarray:
    lists = np.empty(len(rows), dtype=object)
    lists[:] = rows
    return lists


def _lil(rows: np.ndarray, data: np.ndarray) -> Callable[[], Any]:
    return _with(sp.lil_array, rows=rows, data=data)


def _dok(entries: dict[Any, Any]) -> Callable[[], Any]:
    return _with(sp.dok_array, _dict=entries)


def _unknown() -> Any:
    class Odd(sp.csr_array):
        format = "odd"

    return Odd(X)


def _bare(kind: Any, **parts: Any) -> Callable[[], Any]:
    """A matrix that was never built, only given some parts."""

    def build() -> Any:
        matrix = object.__new__(kind)
        matrix.__dict__.update(parts)
        return matrix

    return build


NONE = np.zeros(0, dtype=np.int64)
ONES = _lists([1.0], [1.0], [1.0], [1.0])
BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "csr of nothing": (_bare(sp.csr_array), "its parts cannot be used"),
    "csr without arrays": (_bare(sp.csr_array, _shape=(4, 4)), "its parts cannot be used"),
    "csr of lists": (
        _bare(sp.csr_array, _shape=(1, 1), data=[1], indices=[0], indptr=[0, 1]),
        "its parts cannot be used",
    ),
    "csr of a negative size": (
        _bare(sp.csr_array, _shape=(-1, 5), data=np.ones(0), indices=NONE, indptr=NONE),
        "its parts cannot be used",
    ),
    "lil of nothing": (_bare(sp.lil_array, _shape=(4, 4)), "its parts cannot be used"),
    "bsr, indices beyond": (_with(sp.bsr_array, indices=np.array([0, FAR, 1, 1])), f"blocks {FAR}, and blocks 0 to 1"),
    "bsr, indices negative": (_with(sp.bsr_matrix, indices=np.array([-FAR, 1, 1, 1])), f"blocks -{FAR}"),
    "bsr, indptr beyond": (_with(sp.bsr_array, indptr=np.array([0, 1, FAR])), "indptr does not rise"),
    "bsr, indptr short": (_with(sp.bsr_array, indptr=np.array([0, 3])), "indptr does not rise from 0 to"),
    "bsr, few blocks": (_with(sp.bsr_array, data=np.ones((1, 2, 2))), "do not go with"),
    "bsr, odd blocks": (_with(sp.bsr_array, data=np.ones((4, 3, 3)), indices=np.zeros(4, int)), "do not fill 4 × 4"),
    "bsr, empty blocks": (_with(sp.bsr_array, data=np.ones((4, 0, 0)), indices=np.zeros(4, int)), "do not go with"),
    "bsr, flat data": (_with(sp.bsr_array, data=np.ones(4)), "do not go with"),
    "lil, columns beyond": (_lil(_lists([FAR], [0], [0], [0]), ONES), f"columns {FAR}, and columns 0 to 3"),
    "lil, columns negative": (_lil(_lists([-FAR], [0], [0], [0]), ONES), f"columns -{FAR}"),
    "lil, few values": (_lil(_lists([0, 1, 2], [0], [0], [0]), ONES), "row 0 does not have two lists"),
    "lil, few rows": (_lil(_lists([0]), _lists([1.0])), "1 and 1 lists for 4 rows"),
    "lil, no lists": (_lil(_lists([0], None, [0], [0]), ONES), "row 1 does not have two lists"),
    "lil, columns of text": (_lil(_lists(["a"], [0], [0], [0]), ONES), "some of its indices are not numbers"),
    "lil, columns of fractions": (_lil(_lists([0.5], [0], [0], [0]), ONES), "does not hold whole numbers"),
    "lil, values of text": (_lil(_lists([0], [0], [0], [0]), _lists(["a"], [1], [1], [1])), "values are not numbers"),
    "lil, huge columns": (_lil(_lists([2**70], [0], [0], [0]), ONES), "some of its indices are not numbers"),
    "dok, beyond": (_dok({(0, FAR): 1.0}), f"columns {FAR}"),
    "dok, negative": (_dok({(-FAR, 0): 1.0}), f"rows -{FAR}"),
    "dok, single keys": (_dok({0: 1.0}), "0 is not a pair of a row and a column"),
    "dok, longer keys": (_dok({(0, 0): 1.0, (0, 0, 0): 1.0}), r"\(0, 0, 0\) is not a pair"),
    "dok, keys of text": (_dok({("a", 0): 1.0}), "some of its indices are not numbers"),
    "dok, values of text": (_dok({(0, 0): "a"}), "some of its values are not numbers"),
    "dia, offsets beyond": (_with(sp.dia_array, offsets=np.full(5, FAR)), f"diagonals {FAR}, and diagonals -3 to 3"),
    "dia, few diagonals": (_with(sp.dia_array, data=np.ones((1, 4))), "one row for each of its diagonals"),
    "dia, more offsets": (_with(sp.dia_array, offsets=np.arange(-3, 4)), "one row for each of its diagonals"),
    "dia, offsets twice": (_with(sp.dia_array, offsets=np.zeros(5, int)), "one row for each of its diagonals"),
    "dia, offsets of fractions": (_with(sp.dia_array, offsets=np.zeros(5)), "diagonals does not hold whole numbers"),
    "dia, flat data": (_with(sp.dia_array, data=np.ones(5)), "one row for each of its diagonals"),
    "coo, beyond": (_with(sp.coo_array, coords=(np.arange(7), np.arange(7) * FAR)), "rows 4, and rows 0 to 3"),
    "coo, three axes": (_with(sp.coo_array, coords=(np.zeros(7, int),) * 3), "3 arrays of coordinates"),
    "coo, few rows": (_with(sp.coo_array, coords=(np.zeros(3, int), np.zeros(7, int))), "3 rows and 7 columns for 7"),
    "coo, fractions": (_with(sp.coo_array, coords=(np.zeros(7), np.zeros(7))), "rows does not hold whole numbers"),
    "csr, few values": (_with(sp.csr_array, data=np.ones(2)), "do not go with 7 indices"),
    "csr, few indices": (_with(sp.csr_array, indices=np.zeros(2, int)), "do not go with 2 indices"),
    "csr, fractions": (_with(sp.csr_array, indices=np.zeros(7)), "columns does not hold whole numbers"),
    "csr, indptr of fractions": (_with(sp.csr_array, indptr=np.zeros(5)), "indptr does not hold whole numbers"),
    "csr, indptr falls, unsigned": (_with(sp.csr_array, indptr=np.array([0, 5, 2, 7, 7], "u8")), "does not rise"),
    "csr, lists": (_with(sp.csr_array, indices=[0] * 7), "columns does not hold whole numbers"),
    "csr, nothing": (_with(sp.csr_array, indptr=None), "indptr does not hold whole numbers"),
    "csc, beyond": (_with(sp.csc_array, indices=np.full(7, FAR)), f"rows {FAR}, and rows 0 to 3"),
    "csc, indptr beyond": (_with(sp.csc_array, indptr=np.array([0, 2, 3, 5, FAR])), "does not rise"),
    "unknown": (_unknown, "the sparse matrix has the format 'odd'; use one of coo, csr, csc, bsr, lil, dok, dia"),
    "one dimension": (lambda: sp.coo_array(np.ones(4)), "Expected 2D array"),
    "three dimensions": (lambda: sp.coo_array(np.ones((2, 2, 2))), "Expected 2D array"),
}


def outcome(build: Callable[[], Any]) -> str:
    try:
        canonical(build())
    except ValueError as error:
        return str(error)
    return "taken"


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, (
        f"{[name for name in BROKEN if name not in found][:1]}: {done.returncode} {done.stderr}"
    )
    return found


@pytest.mark.parametrize("name", BROKEN)
def test_a_matrix_that_points_outside_itself_is_refused_in_every_format(name: str, said: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=BROKEN[name][1]):
        raise ValueError(said[name])
    assert "\n" not in said[name]


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "g", ">f8", ">i4", "i1", "u8", "?"])
@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "bsr", "lil", "dok", "dia"])
def test_every_format_holds_the_same_counts_as_the_dense_matrix(kind: str, dtype: str) -> None:
    matrix = sp.coo_array(X).asformat(kind)
    if kind not in ("lil", "dok"):
        matrix.data = matrix.data.astype(dtype)  # SciPy does not convert to all of them
    elif np.dtype(dtype).isnative and dtype != "f2":
        matrix = matrix.astype(dtype)
    expected = X.astype(bool) if matrix.dtype == bool else X
    np.testing.assert_array_equal(canonical(matrix).toarray(), expected)


@pytest.mark.parametrize("index", ["i1", "u1", "i8", "u8", ">i4", ">i8"])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.bsr_array])
def test_indices_of_any_whole_type_are_the_same_indices(kind: Any, index: str) -> None:
    matrix = kind(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    np.testing.assert_array_equal(canonical(matrix).toarray(), X)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_entries_beyond_the_last_row_are_spare_room_and_no_counts(kind: Any) -> None:
    matrix = kind(X)
    matrix.data = np.concatenate([matrix.data, [-5.0, np.nan]])
    matrix.indices = np.concatenate([matrix.indices, [FAR, -1]])
    csr = canonical(matrix)
    np.testing.assert_array_equal(csr.toarray(), X)
    assert len(csr.data) == len(csr.indices) == np.count_nonzero(X)


def test_a_matrix_that_says_it_is_sorted_is_not_believed() -> None:
    matrix = sp.csr_array((np.ones(4), np.array([2, 0, 0, 1]), np.array([0, 4])), shape=(1, 3))
    matrix.has_canonical_format = True
    csr = canonical(matrix)
    assert csr.indices.tolist() == [0, 1, 2]
    assert csr.data.tolist() == [2, 1, 1]


def test_a_sparse_table_holds_the_same_counts_whatever_its_columns_are() -> None:
    frame = pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0))
    np.testing.assert_array_equal(canonical(frame).toarray(), X)
    mixed = frame.assign(truth=pd.arrays.SparseArray([True, False, True, False], fill_value=False))
    np.testing.assert_array_equal(canonical(mixed).toarray(), np.column_stack([X, [1, 0, 1, 0]]))
    text = frame.assign(text=pd.arrays.SparseArray(["a", "b", "c", "d"], fill_value=0, dtype=object))
    with pytest.raises(ValueError, match="numbers"):
        canonical(text)


if __name__ == "__main__":
    for name, (build, _) in BROKEN.items():
        print(json.dumps([name, outcome(build)]), flush=True)
