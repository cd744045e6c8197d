"""AnnData -> Counts: one of its matrices and nothing else, with the names and `obs`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from unmix.counts import Counts
from unmix.types import Integers

if TYPE_CHECKING:
    from anndata import AnnData

MOST_FRACTIONS = 0.5  # of the values; a matrix with more is no matrix of counts
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
    if use_raw:
        among_raw = adata.raw.var_names.get_indexer(adata.var_names)
        if absent := int((among_raw < 0).sum()):
            raise ValueError(f"adata.raw: {absent:,} genes of adata are not in it; give a layer instead")
        matrix = matrix[:, among_raw]
    if genes is not None:
        matrix = matrix[:, genes]
    names = adata.var_names if genes is None else adata.var_names[genes]
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
        known = ", ".join(map(repr, adata.layers)) or "none"
        raise ValueError(f"there is no layer {layer!r}; the layers of adata are: {known}")
    return f"adata.layers[{layer!r}]", adata.layers[layer]


def _in_memory(matrix: Any) -> Any:
    """A sparse matrix or an array, also if it was one of an open file."""
    if hasattr(matrix, "to_memory"):
        return matrix.to_memory()
    return matrix if sp.issparse(matrix) else np.asarray(matrix)


def _elsewhere(adata: AnnData, place: str) -> str:
    """Where else counts are, as the end of a sentence; nothing if they are nowhere."""
    others = {"adata.X": ("without layer and use_raw", adata.X)}
    others |= {f"adata.layers[{name!r}]": (f"with layer={name!r}", adata.layers[name]) for name in adata.layers}
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
