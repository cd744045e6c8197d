"""The door: whatever a user may hand over as counts becomes one canonical matrix, or an error that names the place.

Nothing behind it looks at data again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from unmix.types import Integers

SMALLEST = np.finfo(float).tiny  # below it, numbers lose their digits
LARGEST = 1e150  # beyond it, squares are no numbers any more


def canonical(matrix: Any, first: int = 0) -> sp.csr_array:
    """CSR of positive finite float64, sorted, duplicates summed, explicit zeros dropped. The input is left as it was. If it is a
    part of a whole, from row `first` on, errors speak of the rows of the whole."""
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
        _check_dtype(matrix.dtype)
        _check_dimensions(matrix.shape)
        _check_structure(matrix)
        if matrix.format == "coo" and matrix.dtype != np.float64:
            matrix = matrix.astype(np.float64)  # the conversion sums duplicates, which might overflow a narrow type
        return sp.csr_array(matrix)
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
        raise ValueError(f"the matrix is a {type(matrix).__name__}; give an array, a sparse matrix or a DataFrame")
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
            if all(dtype.fill_value == 0 for dtype in sparse)
            else frame.sparse.to_dense().to_numpy()
        )
    if any(pd.api.types.is_extension_array_dtype(dtype) for dtype in frame.dtypes):
        try:
            return frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            pass  # text, which is refused below with a better message
    return frame.to_numpy()


def _check_dimensions(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"Expected 2D array of samples × features, got an array of {len(shape)} dimension(s) and shape {shape}. "
            "Reshape your data with X.reshape(1, -1) if it is a single sample"
        )
    if max(shape) > (most := np.iinfo(np.int32).max):
        raise ValueError(f"the matrix is {shape[0]} × {shape[1]}; unmix takes up to {most:,} samples and features")


def _check_structure(matrix: Any) -> None:
    """Sparse matrices that are put together by hand may point outside themselves, which scipy lets pass and a kernel must not."""
    n, m = matrix.shape
    if matrix.format == "coo":
        _check_indices(matrix.row, n, "rows")
        _check_indices(matrix.col, m, "columns")
    elif matrix.format in ("csr", "csc"):
        major, minor = (n, m) if matrix.format == "csr" else (m, n)
        indptr, nonzeros = matrix.indptr, min(len(matrix.indices), len(matrix.data))
        if len(indptr) != major + 1 or indptr[0] != 0 or indptr[-1] > nonzeros or (np.diff(indptr) < 0).any():
            raise ValueError(f"the {matrix.format} matrix is broken: its indptr does not rise from 0 to {nonzeros:,}")
        _check_indices(matrix.indices[: indptr[-1]], minor, "columns" if matrix.format == "csr" else "rows")


def _check_indices(indices: Integers, size: int, what: str) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        bad = indices[(indices < 0) | (indices >= size)][0]
        raise ValueError(f"the sparse matrix is broken: it has an entry in {what} {bad}, and {what} 0 to {size - 1}")


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
    raise ValueError(f"{problem}: {value:g} at row {row}, column {column}; unmix needs finite counts >= 0")
