"""AnnData in files: of a `.h5ad`, or a store of zarr, only the matrix asked for, obs and the names of var are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmix.data.read import old_h5ad
from unmix.data.read.blocks import NONZEROS, ROWS, ByRows
from unmix.data.read.files import extra, opened_hdf5, unless_damaged
from unmix.data.read.raw_counts import SMALLER, RawCounts, ReadOptions, require_room, with_sound_indices
from unmix.data.read.tenx import stored_rows
from unmix.memory import require

SAMPLE = 10_000  # values by which to tell counts from what was normalised


def read_h5ad(path: Path, options: ReadOptions) -> RawCounts:
    extra("anndata", f"reading {path.suffix.lower()}", "anndata")
    if options.raw and options.layer is not None:
        raise ValueError("give layer= or raw=True, not both")
    with opened_anndata(path) as file:
        return _read(file, options, path if options.streamed else None)


@contextmanager
def opened_anndata(path: Path) -> Iterator[Any]:
    """A .h5ad file or a store of zarr, which are asked alike."""
    if not path.is_dir():
        with opened_hdf5(path, "AnnData") as file:
            yield file
        return
    try:
        import zarr
    except ImportError as error:
        raise ValueError("reading .zarr needs zarr; install it with: pip install zarr") from error
    with unless_damaged("not a readable AnnData store ({})", ValueError, MemoryError):
        yield zarr.open_group(str(path), mode="r")


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
    features = _names(names)
    old = old_h5ad.is_old(obs)
    metadata = old_h5ad.table_of(obs, file.get("uns", ())) if old else read_elem(obs)
    if path is not None:
        matrix, samples = stream_element(path, element), metadata.index.tolist()
        return RawCounts(matrix, samples, features, metadata.reset_index(drop=True), notes=[note] if note else [])
    _check_room(element)
    matrix = old_h5ad.matrix_of(element) if old else with_sound_indices(read_elem(element))
    return RawCounts(
        matrix, metadata.index.tolist(), features, metadata.reset_index(drop=True), notes=[note] if note else []
    )


def _names(frame: Any) -> list[str]:
    """The names in obs or var."""
    from anndata.io import read_elem

    return old_h5ad.names_of(frame) if old_h5ad.is_old(frame) else read_elem(frame[frame.attrs["_index"]]).tolist()


def contents(path: Path) -> tuple[dict[str, str], list[str]]:
    """What a file holds, without reading more than a little: each matrix with its size and what its values look like, and the
    columns of obs."""
    with opened_anndata(path) as file:
        told = {name: _described(element) for name, element in _matrices(file).items()}
        obs = file["obs"]
        columns = (
            list(obs.dtype.names or ()) if old_h5ad.is_old(obs) else list(obs.attrs.get("column-order", obs.keys()))
        )
    return told, [str(name) for name in columns if name not in ("index", "_index")]


def _described(element: Any) -> str:
    n, m = old_h5ad.form_of(element)[1] if _is_sparse(element) else element.shape
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
    kind, (n, m) = old_h5ad.form_of(element)
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
        _, (n, m) = old_h5ad.form_of(element)
        nonzeros = max(element["data"].shape[0], element["indices"].shape[0])
        require_room(max(n, element["indptr"].shape[0]), m, nonzeros)
    else:
        require(2 * element.size * element.dtype.itemsize, " × ".join(f"{size:,}" for size in element.shape), SMALLER)


def _values(element: Any) -> NDArray:
    """Some of the values, from the beginning of a matrix."""
    if _is_sparse(element):
        return element["data"][:SAMPLE]
    return element[: max(1, SAMPLE // max(1, element.shape[-1]))]


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
        use = {"X": "leave layer and raw out", "raw": "use raw=True"}.get(better, f"use layer={better[6:]}")
        problem += f"; {better} holds whole numbers: {use}"
    if negative:
        raise ValueError(f"{problem}; unmix needs counts >= 0")
    return problem
