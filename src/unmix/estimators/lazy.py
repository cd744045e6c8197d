"""Counts that are not in memory yet: an AnnData whose matrix lies in a file, or a dask array.

They are read whole if they fit, and otherwise fitted as shards in a temporary folder.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmix.counts import Counts
from unmix.memory import available, gigabytes

BYTES_A_NONZERO = 24  # of a fit in memory


@contextmanager
def fitting(X: Any) -> Iterator[Any]:
    """What to fit: X itself, or as long as this lasts `Shards` of it, if it would take more than half of the free memory."""
    if (needed := memory_of(X)) <= available() / 2:
        yield X
        return
    with temporary_shards(X, needed) as shards:
        yield shards


@contextmanager
def temporary_shards(source: Any, needed: float, **options: Any) -> Iterator[Any]:
    """`unmix.shard` into a folder that goes in the end, and a word about it."""
    import unmix

    with TemporaryDirectory(prefix="unmix-") as folder:
        warnings.warn(
            f"the counts would need {gigabytes(needed)} of memory: they are written as shards to a temporary folder, {folder}, "
            "and fitted from there; unmix.shard keeps them for the next time",
            UserWarning,
            stacklevel=6,
        )
        yield unmix.shard(source, Path(folder) / "counts.shards", **options)


def layer_names(adata: Any) -> list[str]:
    """The layers that have a name; from anndata 0.13 on X is among the layers too, as None."""
    return [name for name in adata.layers if name is not None]


def memory_of(X: Any) -> float:
    """Bytes of a fit of counts that are not in memory yet; 0 for all others."""
    matrix = X.X if is_anndata(X) else X
    if hasattr(matrix, "group") and "data" in matrix.group:  # a sparse matrix in a file
        return float(BYTES_A_NONZERO * matrix.group["data"].shape[0])
    if type(matrix).__module__.partition(".")[0] in ("dask", "h5py", "zarr") and hasattr(matrix, "shape"):
        return float(BYTES_A_NONZERO * np.prod(matrix.shape, dtype=float))  # at most
    return 0.0


def counts_of(adata: Any) -> Counts:
    """X of an AnnData, with names and obs."""
    matrix = adata.X
    if matrix is None:
        raise ValueError("this AnnData has no X; give one of its layers, such as adata.layers['counts']")
    matrix = matrix.to_memory() if hasattr(matrix, "to_memory") else matrix.compute() if is_dask(matrix) else matrix
    matrix = matrix if sp.issparse(matrix) else np.asarray(matrix)
    return Counts(matrix, samples=adata.obs_names, features=adata.var_names, metadata=adata.obs)


def is_anndata(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "anndata" and hasattr(X, "obs_names")


def is_dask(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "rechunk")
