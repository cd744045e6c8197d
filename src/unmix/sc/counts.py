"""AnnData -> Counts, or shards: one of its matrices and nothing else, with the names and `obs`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from unmix.base.types import Integers
from unmix.counts.canonical import sparse_to_csr
from unmix.counts.counts import Counts
from unmix.counts.shards import Shards
from unmix.estimators.base import MOST_FRACTIONS, fits_in_memory, layer_names, memory_of, temporary_shards

if TYPE_CHECKING:
    from anndata import AnnData

CELLS_AT_A_TIME = 8192  # of a file
CELLS_LOOKED_AT = 100  # to tell whether another matrix holds counts


def counts_of(adata: AnnData, layer: str | None = None, use_raw: bool = False, genes: Integers | None = None) -> Counts:
    """The counts in `adata.X`, in a layer or in `adata.raw`, of all genes or of those at the places `genes`.

    Of a file that is open (backed mode), only that matrix is read. Warns if it plainly does not hold counts, and says
    which one does.
    """
    if not adata.var_names.is_unique:
        raise ValueError("var_names are not unique; call adata.var_names_make_unique() first")
    place, matrix = _chosen(adata, layer, use_raw)
    matrix = _in_memory(matrix)
    places, names = _columns(adata, use_raw, genes)
    if places is not None:
        matrix = matrix[:, places]
    try:
        counts = Counts(matrix, samples=adata.obs_names, features=names, metadata=adata.obs)
    except ValueError as error:
        raise ValueError(f"{place}: {error}{_elsewhere(adata, place)}") from error
    if (fractional := counts.facts["fractional"]) > MOST_FRACTIONS:
        warnings.warn(
            f"{place}: {fractional:.0%} of the values are not whole numbers, as after normalisation, and topics are "
            f"models of counts{_elsewhere(adata, place)}",
            UserWarning,
            stacklevel=3,
        )
    return counts


@contextmanager
def fittable(
    adata: AnnData, layer: str | None = None, use_raw: bool = False, genes: Integers | None = None
) -> Iterator[Counts | Shards]:
    """`counts_of`, or while this lasts shards of them, if they lie in a file and are too large for memory."""
    place, matrix = _chosen(adata, layer, use_raw)
    if fits_in_memory(needed := memory_of(matrix)):
        yield counts_of(adata, layer, use_raw, genes)
        return
    places, names = _columns(adata, use_raw, genes)

    def blocks() -> Iterator[Any]:
        for first in range(0, adata.n_obs, CELLS_AT_A_TIME):
            block = _in_memory(matrix[first : first + CELLS_AT_A_TIME])
            yield block if places is None else block[:, places]

    with ExitStack() as stack:
        try:
            shards = temporary_shards(blocks(), needed, samples=adata.obs_names, features=names)
            found = stack.enter_context(shards)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        yield found


def _columns(adata: AnnData, use_raw: bool, genes: Integers | None) -> tuple[Integers | None, Any]:
    """The places of genes in the chosen matrix, None for all as they are, and their names."""
    names = adata.var_names if genes is None else adata.var_names[genes]
    if not use_raw:
        return genes, names
    places = adata.raw.var_names.get_indexer(adata.var_names)
    if absent := int((places < 0).sum()):
        raise ValueError(f"adata.raw: {absent:,} genes of adata are not in it; give a layer instead")
    return (places if genes is None else places[genes]), names


def _chosen(adata: AnnData, layer: str | None, use_raw: bool) -> tuple[str, Any]:
    """The name of a matrix, as one would type it, and the matrix."""
    if use_raw:
        if layer is not None:
            raise ValueError("give either a layer or use_raw=True, not both")
        if adata.raw is None:
            raise ValueError("use_raw=True, but adata.raw is empty")
        if not adata.raw.var_names.is_unique:
            raise ValueError("adata.raw: its var_names are not unique; give a layer instead")
        return "adata.raw", adata.raw.X
    if layer is None:
        if (X := adata.X) is None:
            raise ValueError(f"adata.X is empty{_elsewhere(adata, 'adata.X') or '; there are no counts to fit'}")
        return "adata.X", X
    if layer not in adata.layers:
        known = ", ".join(map(repr, layer_names(adata))) or "none"
        raise ValueError(f"there is no layer {layer!r}; the layers of adata are: {known}")
    return f"adata.layers[{layer!r}]", adata.layers[layer]


def _in_memory(matrix: Any) -> Any:
    """A sparse matrix that is sound, or an array, also if it was one of an open file."""
    matrix = matrix.to_memory() if hasattr(matrix, "to_memory") else matrix
    return sparse_to_csr(matrix) if sp.issparse(matrix) else np.asarray(matrix)


def _elsewhere(adata: AnnData, place: str) -> str:
    """Where else counts are, as the end of a sentence; nothing if they are nowhere."""
    others = {"adata.X": ("without layer and use_raw", adata.X)}
    others |= {f"adata.layers[{name!r}]": (f"with layer={name!r}", adata.layers[name]) for name in layer_names(adata)}
    if adata.raw is not None:
        others["adata.raw"] = ("with use_raw=True", adata.raw.X)
    for other, (how, matrix) in others.items():
        if other != place and matrix is not None and _seems_counts(matrix):
            return f"; {other} seems to hold counts: try again {how}"
    return ""


def _seems_counts(matrix: Any) -> bool:
    first = _in_memory(matrix[:CELLS_LOOKED_AT])
    values = first.data if sp.issparse(first) else first
    return values.dtype.kind in "buif" and bool(((values >= 0) & (values % 1 == 0)).all())
