"""The door: whatever a user may hand over as counts becomes one canonical matrix, or an error that names the place.

Nothing behind it looks at data again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.kernels import CSR

SMALLEST = np.finfo(float).tiny  # below it, numbers lose their digits
LARGEST = 1e150  # beyond it, squares are not numbers any more


class NotACountError(ValueError):
    """A value that is not finite or below 0, and where it is; rows and columns from 0."""

    def __init__(self, problem: str, row: int, column: int, value: float) -> None:
        super().__init__(f"{problem}: {value:g} at row {row}, column {column}; unmix needs finite counts >= 0")
        self.row, self.column, self.value = row, column, value


def arrays_of(matrix: sp.csr_array | sp.csc_array) -> CSR:
    """The arrays of a compressed matrix, as kernels take them."""
    return CSR(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data)


def as_scipy(rows: CSR, shape: tuple[int, int]) -> sp.csr_array:
    """The same memory as a SciPy array, but for `indptr`: SciPy wants one type for both index arrays, and would rather widen
    `indices` than narrow `indptr`."""
    narrow = len(rows.data) <= np.iinfo(np.int32).max
    indptr = rows.indptr.astype(np.int32) if narrow else rows.indptr
    return sp.csr_array((rows.data, rows.indices, indptr), shape=shape, copy=False)


def narrowed(data: NDArray[Any]) -> NDArray[Any]:
    """Counts as uint16 if that is exact, otherwise as they are."""
    if data.size and not data.max() < 1 << 16:
        return data
    narrow = data.astype(np.uint16)
    return narrow if np.array_equal(narrow, data) else data


def canonical(matrix: Any, first: int = 0) -> sp.csr_array:
    """CSR of positive finite float64, sorted, duplicates summed, explicit zeros dropped. The input is unchanged. If it is
    a part of a whole, from row `first` on, errors speak of the rows of the whole."""
    csr = _to_csr(matrix)
    n, m = csr.shape
    if n == 0 or m == 0:
        axis, what = ("sample", "feature(s)") if n == 0 else ("feature", "sample(s)")
        raise ValueError(
            f"Found array with 0 {axis}(s) (shape={csr.shape}) while a minimum of 1 is required: "
            f"there is nothing to factorise in {max(n, m)} {what} alone"
        )
    owned = not (sp.issparse(matrix) and matrix.format == "csr")  # others have been converted, hence copied
    if csr.data.dtype != np.float64:
        csr = sp.csr_array((csr.data.astype(np.float64), csr.indices, csr.indptr), shape=csr.shape)
        owned = False
    if not all(array.flags.aligned for array in (csr.data, csr.indices, csr.indptr)):
        csr, owned = csr.copy(), True  # arrays that were sent from another process, or mapped, may begin anywhere
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
        owned = True
    if _least(csr, first) == 0:
        csr = csr if owned else csr.copy()
        csr.eliminate_zeros()
    if csr.nnz and (least := csr.data.min()) < SMALLEST:
        raise ValueError(f"the smallest count is {least:g}, too small to work with; multiply all of them by a constant")
    if csr.nnz and (most := csr.data.max()) > LARGEST:
        raise ValueError(f"the counts are too large, up to {most:g}; divide all of them by a constant")
    return csr


def _to_csr(matrix: Any) -> sp.csr_array:
    if sp.issparse(matrix):
        return sparse_to_csr(matrix)
    if isinstance(matrix, pd.DataFrame):
        matrix = _frame_values(matrix)
        if sp.issparse(matrix):
            return _to_csr(matrix)
    if isinstance(matrix, np.ma.MaskedArray) and np.ma.is_masked(matrix):
        row = np.argwhere(np.ma.getmaskarray(matrix))[0]
        raise ValueError(
            f"the entry at {tuple(row.tolist())} is masked; fill masked entries, or drop their rows, first"
        )
    if hasattr(matrix, "toarray") and not isinstance(matrix, np.ndarray):
        matrix = matrix.toarray()
    if isinstance(matrix, Iterator | Mapping | Set):
        raise ValueError(f"the matrix is a {type(matrix).__name__}; use an array, a sparse matrix or a DataFrame")
    if isinstance(matrix, str | os.PathLike):
        raise ValueError(f"{str(matrix)!r} is a name, not counts; unmix.read reads files")
    dense = np.asarray(matrix)
    if dense.dtype.kind in "UT" and dense.ndim == 1:
        raise ValueError("these are texts, not counts; unmix.read_texts counts their words")
    if dense.dtype == object:
        if dense.ndim == 1 and any(isinstance(value, Mapping) for value in dense):
            raise ValueError("the samples are dictionaries; pandas.DataFrame(samples).fillna(0) makes a table of them")
        if any(isinstance(value, str | bytes) for value in dense.flat):
            raise ValueError("the matrix holds text; unmix needs numbers (counts >= 0)")
        if any(isinstance(value, complex) for value in dense.flat):
            _check_dtype(np.dtype(complex))
        dense = dense.astype(np.float64)
    _check_dtype(dense.dtype)
    _check_dimensions(dense.shape)
    dense = dense.astype(dense.dtype.newbyteorder("="), copy=False)
    return sp.csr_array(dense.astype(np.float32) if dense.dtype == np.float16 else dense)


def _frame_values(frame: pd.DataFrame) -> Any:
    """The numbers of a DataFrame: sparse if all its columns are sparse around zero; missing values become NaN."""
    sparse = [dtype for dtype in frame.dtypes if isinstance(dtype, pd.SparseDtype)]
    if sparse and len(sparse) == len(frame.columns):
        return (
            frame.sparse.to_coo()
            if all(dtype.fill_value == 0 and dtype.subtype.kind in "buif" for dtype in sparse)
            else frame.sparse.to_dense().to_numpy()
        )
    if any(pd.api.types.is_extension_array_dtype(dtype) for dtype in frame.dtypes):
        try:
            return frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            pass  # text, which is refused below with a better message
    values = frame.to_numpy()
    for name, column in frame.items() if values.dtype.kind in "OMm" else ():
        dates = pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column)
        if dates or any(isinstance(cell, str | bytes) for cell in column):
            raise ValueError(
                f"the column {name!r} holds {'dates' if dates else 'text'}; unmix needs numbers (counts >= 0) in all columns"
            )
    return values


def _check_dimensions(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"Expected 2D array of samples × features, got an array of {len(shape)} dimension(s) and shape {shape}. "
            "Reshape your data with X.reshape(1, -1) if it is a single sample"
        )
    if max(shape) > (most := np.iinfo(np.int32).max):
        raise ValueError(f"the matrix is {shape[0]} × {shape[1]}; unmix takes up to {most:,} samples and features")


def sparse_to_csr(matrix: Any) -> sp.csr_array:
    """CSR of a sparse matrix of any format. SciPy's conversions trust the arrays of a matrix and read beyond them where they
    point outside, so the arrays are checked first, and SciPy converts what was checked."""
    if matrix.format not in PARTS:
        raise ValueError(f"the sparse matrix has the format {matrix.format!r}; use one of {', '.join(PARTS)}")
    try:
        _check_dtype(np.dtype(matrix.dtype))
        _check_dimensions(matrix.shape)
        return PARTS[matrix.format](matrix)
    except (AttributeError, TypeError, OverflowError, IndexError) as error:
        raise _broken(matrix, f"its parts cannot be used ({error})") from None


def _coo(matrix: Any) -> sp.csr_array:
    if len(matrix.coords) != 2:
        raise _broken(matrix, f"it has {len(matrix.coords)} arrays of coordinates, and 2 dimensions")
    row, column = matrix.coords
    return _from_entries(matrix, row, column, matrix.data)


def _lil(matrix: Any) -> sp.csr_array:
    rows, values = matrix.rows, matrix.data
    if np.shape(rows) != (matrix.shape[0],) or np.shape(values) != np.shape(rows):
        raise _broken(matrix, f"it has {len(rows):,} and {len(values):,} lists for {matrix.shape[0]:,} rows")
    for i, (row, value) in enumerate(zip(rows, values, strict=True)):
        if not isinstance(row, list) or not isinstance(value, list) or len(row) != len(value):
            raise _broken(matrix, f"row {i} does not have two lists of the same length")
    row = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    return _from_entries(matrix, row, _array(matrix, chain(*rows)), _array(matrix, chain(*values), "values"))


def _dok(matrix: Any) -> sp.csr_array:
    keys = list(matrix.keys())
    for key in keys:
        if not isinstance(key, tuple) or len(key) != 2:
            raise _broken(matrix, f"{key!r} is not a pair of a row and a column")
    row, column = (_array(matrix, (key[axis] for key in keys)) for axis in (0, 1))
    return _from_entries(matrix, row, column, _array(matrix, matrix.values(), "values"))


def _dia(matrix: Any) -> sp.csr_array:
    (n, m), offsets, data = matrix.shape, matrix.offsets, matrix.data
    _check_indices(matrix, offsets, -n + 1, m - 1, "diagonals")
    if np.ndim(data) != 2 or len(data) != len(offsets) or len(np.unique(offsets)) != len(offsets):
        raise _broken(matrix, f"data of shape {np.shape(data)} do not have one row for each of its diagonals")
    return sp.csr_array(sp.dia_array((data.astype(np.float64), offsets.astype(np.int64)), shape=matrix.shape))


def _compressed(matrix: Any) -> sp.csr_array:
    """CSR, CSC and BSR, of blocks."""
    n, m = matrix.shape if matrix.format != "csc" else matrix.shape[::-1]
    data, block = matrix.data, np.shape(matrix.data)[1:]
    if len(block) != (2 if matrix.format == "bsr" else 0) or 0 in block or len(data) != len(matrix.indices):
        raise _broken(matrix, f"data of shape {np.shape(data)} do not go with {len(matrix.indices):,} indices")
    if block and (n % block[0] or m % block[1]):
        raise _broken(matrix, f"its blocks of {block[0]} × {block[1]} do not fill {n} × {m}")
    if block:
        n, m = n // block[0], m // block[1]
    indptr = matrix.indptr
    _check_whole(matrix, indptr, "indptr")
    if len(indptr) != n + 1 or indptr[0] != 0 or indptr[-1] > len(data) or (indptr[1:] < indptr[:-1]).any():
        raise _broken(matrix, f"its indptr does not rise from 0 to {len(data):,} in {n:,} steps")
    used = int(indptr[-1])
    what = "rows" if matrix.format == "csc" else "columns" if matrix.format == "csr" else "blocks"
    _check_indices(matrix, matrix.indices[:used], 0, m - 1, what)
    index = np.int32 if max(used, n, m) <= np.iinfo(np.int32).max else np.int64
    indices, indptr = (part.astype(index, copy=False) for part in (matrix.indices[:used], indptr))
    kind = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}[matrix.format]
    return sp.csr_array(
        kind((data[:used].astype(np.float64, copy=False), indices, indptr), shape=matrix.shape, copy=False)
    )


PARTS = {"coo": _coo, "csr": _compressed, "csc": _compressed, "bsr": _compressed, "lil": _lil, "dok": _dok, "dia": _dia}


def _from_entries(matrix: Any, row: Any, column: Any, values: Any) -> sp.csr_array:
    if not np.shape(row) == np.shape(column) == np.shape(values) == (len(values),):
        raise _broken(matrix, f"{len(row):,} rows and {len(column):,} columns for {len(values):,} values")
    _check_indices(matrix, row, 0, matrix.shape[0] - 1, "rows")
    _check_indices(matrix, column, 0, matrix.shape[1] - 1, "columns")
    # as doubles: the conversion sums duplicates, which might overflow a narrow type
    return sp.csr_array(sp.coo_array((values.astype(np.float64), (row, column)), shape=matrix.shape))


def _array(matrix: Any, values: Iterable[Any], what: str = "indices") -> NDArray[Any]:
    """Numbers from Python's lists and dictionaries."""
    numbers = np.array(list(values) or np.zeros(0, np.int64))
    if numbers.ndim != 1 or numbers.dtype.kind not in "biuf":
        raise _broken(matrix, f"some of its {what} are not numbers")
    return numbers


def _check_whole(matrix: Any, indices: Any, what: str) -> None:
    if not isinstance(indices, np.ndarray) or indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise _broken(matrix, f"the array of its {what} does not hold whole numbers")


def _check_indices(matrix: Any, indices: Any, least: int, most: int, what: str) -> None:
    _check_whole(matrix, indices, what)
    if len(indices) and (indices.min() < least or indices.max() > most):
        bad = indices[(indices < least) | (indices > most)][0]
        raise _broken(matrix, f"it has an entry in {what} {bad}, and {what} {least} to {most}")


def _broken(matrix: Any, problem: str) -> ValueError:
    return ValueError(f"the {matrix.format} matrix is broken: {problem}; build it again from its entries")


def _check_dtype(dtype: np.dtype) -> None:
    if dtype.kind == "c":
        raise ValueError("Complex data not supported: counts are real numbers >= 0")
    if dtype.kind not in "buif":
        raise ValueError(f"the matrix has dtype {dtype}; unmix needs numbers (counts >= 0)")


def _least(csr: sp.csr_array, first: int) -> float:
    """The smallest stored value, once all of them are known to be finite and none negative; 1 if there is none."""
    data = csr.data
    if len(data) == 0:
        return 1.0
    if (least := data.min()) >= 0 and data.max() < np.inf:
        return float(least)
    with np.errstate(invalid="ignore"):
        bad = int(np.flatnonzero(~(np.isfinite(data) & (data >= 0)))[0])
    row = first + int(np.searchsorted(csr.indptr, bad, side="right")) - 1
    value, column = data[bad], csr.indices[bad]
    if np.isnan(value):
        problem = "Input X contains NaN"
    elif np.isinf(value):
        problem = "Input X contains infinity"
    else:
        problem = "Negative values in data passed to unmix"
    raise NotACountError(problem, row, int(column), float(value))
