"""AnnData files from before version 0.7 of anndata, which wrote them in another form.

obs and var are arrays of records, whose field `index` has the names; categories of obs lie in uns as `<column>_categories`;
a sparse matrix says what it is in `h5sparse_format` and `h5sparse_shape`; raw lies in `raw.X` and `raw.var`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.memory import require
from unmix.io.read.blocks import NONZEROS, ROWS, ByRows
from unmix.io.read.files import extra
from unmix.io.read.raw_counts import (
    SMALLER,
    RawCounts,
    ReadOptions,
    require_numbers,
    require_plain,
    require_room,
    with_sound_indices,
)
from unmix.io.read.stores import opened_hdf5, opened_zarr
from unmix.io.read.tenx import stored_rows


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


# AnnData in files: of a `.h5ad`, or a store of zarr, only the matrix asked for, obs and the names of var are read.

SAMPLE = 10_000  # values by which to tell counts from what was normalised
WIDEST = 1 << 20  # features that are looked at for that
# What anndata writes for a column; a name that another package has registered would run its reader.
COLUMNS = ("array", "string-array", "categorical", "nullable-integer", "nullable-boolean", "nullable-string-array")


def read_h5ad(path: Path, options: ReadOptions) -> RawCounts:
    extra("anndata", f"reading {path.suffix.lower()}", "anndata")
    if options.raw and options.layer is not None:
        raise ValueError(f"give {parameter('layer')} or {parameter('raw', True)}, not both")
    with opened_anndata(path) as file:
        return _read(file, options, path if options.streamed else None)


@contextmanager
def opened_anndata(path: Path) -> Iterator[Any]:
    """A .h5ad file or a store of zarr, which are asked alike."""
    with opened_zarr(path) if path.is_dir() else opened_hdf5(path, "AnnData") as file:
        yield file


def is_zarr(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("zarr.json", ".zgroup"))


def _read(file: Any, options: ReadOptions, path: Path | None) -> RawCounts:
    """What is asked for of a file, or of a store of the same form; if a path is given, the matrix is read from there later."""
    from anndata.io import read_elem

    matrices = _matrices(file)
    wanted = "raw" if options.raw else "X" if options.layer is None else f"layer {options.layer!r}"
    if wanted not in matrices:
        raise ValueError(f"there is no {wanted} in it; it has {', '.join(matrices) or 'no matrix at all'}")
    element = matrices[wanted]
    obs, names = file["obs"], file["raw/var" if "raw/var" in file else "raw.var"] if options.raw else file["var"]
    note = _not_counts(wanted, matrices)
    old = is_old(obs)
    _require_table(names, "var", whole=False)
    _require_table(obs, "obs", whole=True)
    features = _names(names)
    metadata = table_of(obs, file.get("uns", ())) if old else read_elem(obs)
    require_numbers([element[name] for name in ("data", "indices", "indptr")] if _is_sparse(element) else [element])
    if path is not None:
        matrix, samples = stream_element(path, element), metadata.index.tolist()
        return RawCounts(matrix, samples, features, metadata.reset_index(drop=True), notes=[note] if note else [])
    _check_room(element)
    matrix = matrix_of(element) if old else with_sound_indices(read_elem(element))
    return RawCounts(
        matrix, metadata.index.tolist(), features, metadata.reset_index(drop=True), notes=[note] if note else []
    )


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
    elif _whole(values):
        look = "whole numbers: counts"
    else:
        look = "negative numbers: scaled, no counts" if (values < 0).any() else "fractions: normalised, no counts"
    return f"{n:,} × {m:,}, {look}"


def stream_element(path: Path, element: Any) -> Any:
    """A matrix of a file, block by block: rows as they lie there, columns sorted into rows."""
    place = element.name
    if not _is_sparse(element):
        shape = tuple(int(size) for size in element.shape)
        return ByRows((shape[0], shape[1]), None, lambda start: _dense_rows(path, place, start))
    kind, (n, m) = form_of(element)
    by_rows = kind == "csr"
    rows = stored_rows(lambda: opened_anndata(path), place, (n, m) if by_rows else (m, n))
    return rows if by_rows else rows.T


def _dense_rows(path: Path, place: str, start: int) -> Iterator[NDArray]:
    with opened_anndata(path) as file:
        n, m = file[place].shape
        step = max(1, min(ROWS, NONZEROS // max(1, m)))
        for first in range(start, n, step):
            yield file[place][first : min(first + step, n)]


def _matrices(file: Any) -> dict[str, Any]:
    """The matrices in a file by the words for them: X, layer 'counts', raw."""
    matrices = {"X": file["X"]} if "X" in file and file["X"].attrs.get("encoding-type") != "null" else {}
    matrices |= {f"layer {name!r}": file["layers"][name] for name in file.get("layers", ())}
    raw = next((file[place] for place in ("raw/X", "raw.X") if place in file), None)
    return matrices | ({} if raw is None else {"raw": raw})


def _is_sparse(element: Any) -> bool:
    return hasattr(element, "keys")


def _check_room(element: Any) -> None:
    if _is_sparse(element):
        _, (n, m) = form_of(element)
        nonzeros = max(element["data"].shape[0], element["indices"].shape[0])
        require_room(max(n, element["indptr"].shape[0]), m, nonzeros)
    else:
        require(2 * element.size * element.dtype.itemsize, " × ".join(f"{size:,}" for size in element.shape), SMALLER)


def _values(element: Any) -> NDArray:
    """Some of the values, from the beginning of a matrix."""
    array = element["data"] if _is_sparse(element) else element
    if array.dtype.kind not in "biuf":
        return np.zeros(0)
    require(math.prod(array.chunks or ()) * array.dtype.itemsize, f"a chunk of {array.name}", SMALLER)
    rows = SAMPLE if array.ndim == 1 else max(1, SAMPLE // max(1, array.shape[-1]))
    return array[(slice(rows), slice(WIDEST))[: array.ndim]]


def _whole(values: NDArray) -> bool:
    with np.errstate(invalid="ignore"):
        return bool(values.size and (values >= 0).all() and (values % 1 == 0).all())


def _not_counts(wanted: str, matrices: dict[str, Any]) -> str:
    """What is wrong with the values of a matrix, and which other one in the file holds counts; empty if nothing is."""
    values = _values(matrices[wanted])
    if not values.size or values.dtype.kind not in "iuf" or _whole(values):
        return ""
    negative = bool((values < 0).any())
    problem = f"{wanted} holds {'negative numbers, probably scaled' if negative else 'fractions, probably normalised'}"
    better = next((name for name, other in matrices.items() if name != wanted and _whole(_values(other))), None)
    if better is not None:
        use = {"X": "leave layer and raw out", "raw": f"use {parameter('raw', True)}"}.get(
            better, f"use {parameter('layer', better[7:-1])}"
        )
        problem += f"; {better} holds whole numbers: {use}"
    if negative:
        raise ValueError(f"{problem}; unmix needs counts >= 0")
    return problem
