"""Counts that are not in memory yet: an AnnData whose matrix lies in a file, or a dask array. And which matrix of an AnnData to
take, in memory or in a file.

They are read whole if a fit needs at most 16 GB, and otherwise fitted as shards in a temporary folder. Fits of counts and of
shards are two algorithms, so the size of the data decides, never what happens to be free.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.memory import BYTES_PER_NONZERO, IN_MEMORY, gigabytes, require
from unmix.counts.canonical import sparse_to_csr
from unmix.counts.counts import Counts


@contextmanager
def fitting(X: Any) -> Iterator[Any]:
    """What to fit: X itself, or as long as this lasts `Shards` of it, if it is not in memory and too large for it."""
    if fits_in_memory(needed := memory_of(X)):
        yield X
        return
    with temporary_shards(X, needed) as shards:
        yield shards


def fits_in_memory(needed: float) -> bool:
    """Whether a fit of so many bytes is one in memory; an error if it is, and the memory is not free."""
    if needed > IN_MEMORY:
        return False
    require(needed, "a fit of these counts in memory", "write them with unmix.shard, and fit the shards")
    return True


@contextmanager
def temporary_shards(source: Any, needed: float, **options: Any) -> Iterator[Any]:
    """`unmix.shard` into a folder that goes in the end, and a word about it."""
    import unmix

    with TemporaryDirectory(prefix="unmix-") as folder:
        warnings.warn(
            f"a fit of these counts in memory would need {gigabytes(needed)}, more than {gigabytes(IN_MEMORY)}: they are written "
            f"as shards to a temporary folder, {folder}, and fitted from there; unmix.shard keeps them for the next time",
            UserWarning,
            stacklevel=6,
        )
        yield unmix.shard(source, Path(folder) / "counts.shards", **options)


def memory_of(X: Any) -> float:
    """Bytes of a fit of counts that are not in memory yet; 0 for all others."""
    matrix = X.X if is_anndata(X) else X
    if hasattr(matrix, "group") and "data" in matrix.group:  # a sparse matrix in a file
        return float(BYTES_PER_NONZERO * matrix.group["data"].shape[0])
    if type(matrix).__module__.partition(".")[0] in ("dask", "h5py", "zarr") and hasattr(matrix, "shape"):
        return float(BYTES_PER_NONZERO * np.prod(matrix.shape, dtype=float))  # at most
    return 0.0


def is_anndata(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "anndata" and hasattr(X, "obs_names")


def is_dask(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "rechunk")


def counts_of(adata: Any) -> Counts:
    """X of an AnnData, with names and obs."""
    if adata.X is None:
        raise ValueError("this AnnData has no X; give one of its layers, such as adata.layers['counts']")
    return Counts(in_memory(adata.X), samples=adata.obs_names, features=adata.var_names, metadata=adata.obs)


def in_memory(matrix: Any) -> Any:
    """A sparse matrix whose arrays are sound, or an array, also if it was one of an open file or a lazy one."""
    matrix = matrix.to_memory() if hasattr(matrix, "to_memory") else matrix.compute() if is_dask(matrix) else matrix
    return sparse_to_csr(matrix) if sp.issparse(matrix) else np.asarray(matrix)


def matrices_of(adata: Any) -> dict[str, Any]:
    """The matrices of an AnnData by the words for them: X, layer 'counts', raw. From anndata 0.13 on, X is a layer None too."""
    matrices = {} if adata.X is None else {"X": adata.X}
    matrices |= {f"layer {name!r}": adata.layers[name] for name in adata.layers if name is not None}
    return matrices if adata.raw is None else matrices | {"raw": adata.raw.X}


def chosen(matrices: Mapping[str, Any], layer: str | None, raw: bool, option: str = "raw") -> str:
    """The word for the matrix that is asked for, if it is there. `option` is what the caller calls `raw`."""
    if raw and layer is not None:
        raise ValueError(f"give {parameter('layer')} or {parameter(option, True)}, not both")
    name = "raw" if raw else "X" if layer is None else f"layer {layer!r}"
    if name not in matrices:
        raise ValueError(f"there is no {name} in it; it has {', '.join(matrices) or 'no matrix at all'}")
    return name


def elsewhere(
    matrices: Mapping[str, Any], name: str, values: Callable[[Any], NDArray[Any]], option: str = "raw"
) -> str:
    """Which other matrix holds counts, as the end of a sentence; nothing if none does. `values` gives some of a matrix."""
    for other, matrix in matrices.items():
        if other != name and are_counts(values(matrix)):
            use = {"X": f"leave layer and {option} out", "raw": f"use {parameter(option, True)}"}
            remedy = use.get(other, f"use {parameter('layer', other[7:-1])}")  # of layer 'counts'
            return f"; {other} holds whole numbers: {remedy}"
    return ""


def are_counts(values: NDArray[Any]) -> bool:
    """Whether there are values, and all are whole numbers >= 0."""
    if values.dtype.kind not in "biuf" or not values.size:
        return False
    with np.errstate(invalid="ignore"):
        return bool(((values >= 0) & (values % 1 == 0)).all())
