"""AnnData in files: of a `.h5ad`, or a store of zarr, only the matrix asked for, obs and the names of var are read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.base.memory import require
from unmix.counts.counts import are_counts, chosen, elsewhere
from unmix.io.read.blocks import NONZEROS, ROWS, SMALLER, Blocks, slices
from unmix.io.read.files import extra
from unmix.io.read.raw_counts import RawCounts, ReadOptions, require_numbers, require_plain
from unmix.io.read.stores import opened_hdf5, opened_zarr
from unmix.io.read.tenx import stored_rows

SAMPLE = 10_000  # values by which to tell counts from what was normalised
WIDEST = 1 << 20  # features that are looked at for that
# What anndata writes for a column; a name that another package has registered would run its reader.
COLUMNS = ("array", "string-array", "categorical", "nullable-integer", "nullable-boolean", "nullable-string-array")


# AnnData files from before version 0.7 of anndata, which wrote them in another form.
#
# obs and var are arrays of records, whose field `index` has the names; categories of obs lie in uns as `<column>_categories`;
# a sparse matrix says what it is in `h5sparse_format` and `h5sparse_shape`; raw lies in `raw.X` and `raw.var`.


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


def form_of(element: Any) -> tuple[str, tuple[int, int]]:
    """'csr' or 'csc', and the shape, of a sparse matrix that an AnnData file of any age holds."""
    told = element.attrs
    kind = str(told.get("encoding-type", told.get("h5sparse_format", ""))).removesuffix("_matrix")
    if kind not in ("csr", "csc"):
        raise ValueError(f"its matrix is of kind {kind!r}, which unmix does not know")
    n, m = (int(size) for size in (told["shape"] if "shape" in told else told["h5sparse_shape"]))
    return kind, (n, m)


def read_h5ad(path: Path, options: ReadOptions) -> RawCounts:
    """The matrix that is asked for, which is read later, with the names of var and obs."""
    extra("anndata", f"reading {path.suffix.lower()}", "anndata")
    from anndata.io import read_elem

    with opened_anndata(path) as file:
        matrices = _matrices(file)
        name = chosen(matrices, options.layer, options.raw)
        obs, variables = file["obs"], file["var"]
        if options.raw:
            variables = file["raw/var" if "raw/var" in file else "raw.var"]
        note = _not_counts(name, matrices)
        _require_table(variables, "var", whole=False)
        _require_table(obs, "obs", whole=True)
        metadata = table_of(obs, file.get("uns", ())) if is_old(obs) else read_elem(obs)
        samples, metadata = metadata.index.tolist(), metadata.reset_index(drop=True)
        matrix = _blocks(path, matrices[name])
        return RawCounts(matrix, samples, _names(variables), metadata, notes=[note] if note else [])


@contextmanager
def opened_anndata(path: Path) -> Iterator[Any]:
    """A .h5ad file or a store of zarr, which are asked alike."""
    with opened_zarr(path) if path.is_dir() else opened_hdf5(path, "AnnData") as file:
        yield file


def is_zarr(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("zarr.json", ".zgroup"))


def _require_table(frame: Any, what: str, *, whole: bool) -> None:
    """Refuse obs or var unless its names, or all its columns, are in it, are of kinds that are known, and fit into memory."""
    if is_old(frame):
        return require_plain([frame], what)
    there = set(frame.keys())
    columns = [frame.attrs["_index"], *(frame.attrs["column-order"] if whole else ())]
    if lost := [str(name) for name in columns if not (isinstance(name, str) and name in there)]:
        raise ValueError(f"{what} has no column {lost[0]!r}, which it announces; write the file again")
    for name in columns:
        if (kind := frame[name].attrs.get("encoding-type", "array")) not in COLUMNS:
            raise ValueError(f"{what}/{name} is of kind {kind!r}; unmix reads {', '.join(COLUMNS)}")
    require_plain([array for name in columns for array in _arrays_in(frame[name])], what)
    return None


def _arrays_in(column: Any) -> list[Any]:
    """Those that make up a column, such as the codes and the categories."""
    return [column[name] for name in column] if _is_sparse(column) else [column]


def _names(frame: Any) -> list[str]:
    """The names in obs or var."""
    from anndata.io import read_elem

    return names_of(frame) if is_old(frame) else read_elem(frame[frame.attrs["_index"]]).tolist()


def contents(path: Path) -> tuple[dict[str, str], list[str]]:
    """What a file holds, without reading more than a little: each matrix with its size and what its values look like, and the
    columns of obs."""
    with opened_anndata(path) as file:
        told = {name: _described(element) for name, element in _matrices(file).items()}
        obs = file["obs"]
        columns = list(obs.dtype.names or ()) if is_old(obs) else list(obs.attrs.get("column-order", obs.keys()))
    return told, [str(name) for name in columns if name not in ("index", "_index")]


def _described(element: Any) -> str:
    n, m = form_of(element)[1] if _is_sparse(element) else element.shape
    values = _values(element)
    if not values.size or values.dtype.kind not in "iuf":
        look = "no numbers"
    elif are_counts(values):
        look = "whole numbers: counts"
    else:
        look = "negative numbers: scaled, no counts" if (values < 0).any() else "fractions: normalised, no counts"
    return f"{n:,} × {m:,}, {look}"


def _blocks(path: Path, element: Any) -> Blocks:
    """A matrix of a file, block by block: rows as they lie there, columns sorted into rows."""
    require_numbers([element[name] for name in ("data", "indices", "indptr")] if _is_sparse(element) else [element])
    if _is_sparse(element):
        kind, (n, m) = form_of(element)
        rows = stored_rows(lambda: opened_anndata(path), element, (n, m) if kind == "csr" else (m, n))
        return rows if kind == "csr" else rows.T
    n, m = (int(size) for size in element.shape)
    place, step = element.name, max(1, min(ROWS, NONZEROS // max(1, m)))

    def read(start: int) -> Iterator[NDArray]:
        with opened_anndata(path) as file:
            yield from slices(file[place], n, start, step)

    return Blocks((n, m), None, read, size=2.0 * element.size * element.dtype.itemsize)


def _matrices(file: Any) -> dict[str, Any]:
    """The matrices in a file by the words for them: X, layer 'counts', raw."""
    matrices = {"X": file["X"]} if "X" in file and file["X"].attrs.get("encoding-type") != "null" else {}
    matrices |= {f"layer {name!r}": file["layers"][name] for name in file.get("layers", ())}
    raw = next((file[place] for place in ("raw/X", "raw.X") if place in file), None)
    return matrices | ({} if raw is None else {"raw": raw})


def _is_sparse(element: Any) -> bool:
    return hasattr(element, "keys")


def _values(element: Any) -> NDArray:
    """Some of the values, from the beginning of a matrix."""
    array = element["data"] if _is_sparse(element) else element
    if array.dtype.kind not in "biuf":
        return np.zeros(0)
    require(math.prod(array.chunks or ()) * array.dtype.itemsize, f"a chunk of {array.name}", SMALLER)
    rows = SAMPLE if array.ndim == 1 else max(1, SAMPLE // max(1, array.shape[-1]))
    return array[(slice(rows), slice(WIDEST))[: array.ndim]]


def _not_counts(name: str, matrices: dict[str, Any]) -> str:
    """What is wrong with the values of a matrix, and which other one in the file holds counts; empty if nothing is."""
    values = _values(matrices[name])
    if not values.size or values.dtype.kind not in "iuf" or are_counts(values):
        return ""
    negative = bool((values < 0).any())
    problem = f"{name} holds {'negative numbers, probably scaled' if negative else 'fractions, probably normalised'}"
    problem += elsewhere(matrices, name, _values)
    if negative:
        raise ValueError(f"{problem}; unmix needs counts >= 0")
    return problem
