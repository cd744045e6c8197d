"""AnnData files from before version 0.7 of anndata, which wrote them in another form.

obs and var are arrays of records, whose field `index` has the names; categories of obs lie in uns as `<column>_categories`;
a sparse matrix says what it is in `h5sparse_format` and `h5sparse_shape`; raw lies in `raw.X` and `raw.var`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.data.read.raw_counts import with_sound_indices


def is_old(frame: Any) -> bool:
    """Whether obs or var is an array of records."""
    return not hasattr(frame, "keys")


def names_of(frame: Any) -> list[str]:
    """The names in obs or var."""
    fields = frame.dtype.names or ()
    if not fields:
        raise ValueError("its obs or var is no table; it may be damaged")
    return [str(name) for name in _plain(frame["index" if "index" in fields else fields[0]])]


def table_of(frame: Any, uns: Any) -> pd.DataFrame:
    """obs with its categories, by the names of the samples."""
    fields = [name for name in frame.dtype.names if name not in ("index", frame.dtype.names[0])]
    columns = {name: _column(frame[name], name, uns) for name in fields}
    return pd.DataFrame(columns, index=pd.Index(names_of(frame), dtype=object))


def _column(values: NDArray, name: str, uns: Any) -> Any:
    plain = _plain(values)
    place = f"{name}_categories"
    if place not in uns or plain.dtype.kind not in "iu":
        return plain
    known = [str(level) for level in np.atleast_1d(_plain(uns[place][()]))]
    return pd.Categorical.from_codes(plain.astype(np.int64), known)


def _plain(values: Any) -> NDArray:
    """Numbers as they are, bytes as text."""
    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind not in "SO":
        return array
    return np.array([cell.decode() if isinstance(cell, bytes) else cell for cell in array.tolist()], dtype=object)


def matrix_of(element: Any) -> Any:
    """A matrix of such a file, in memory."""
    if not hasattr(element, "keys"):
        return element[()]
    kind, shape = form_of(element)
    arrays = (element["data"][()], element["indices"][()], element["indptr"][()])
    return with_sound_indices({"csr": sp.csr_array, "csc": sp.csc_array}[kind](arrays, shape=shape))


def form_of(element: Any) -> tuple[str, tuple[int, int]]:
    """'csr' or 'csc', and the shape, of a sparse matrix that an AnnData file of any age holds."""
    told = element.attrs
    kind = str(told.get("encoding-type", told.get("h5sparse_format", ""))).removesuffix("_matrix")
    if kind not in ("csr", "csc"):
        raise ValueError(f"its matrix is of kind {kind!r}, which unmix does not know")
    n, m = (int(size) for size in (told["shape"] if "shape" in told else told["h5sparse_shape"]))
    return kind, (n, m)
