"""AnnData -> Counts, or shards: one of its matrices and nothing else, with the names and `obs`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.types import Integers
from unmix.counts import counts as any_counts
from unmix.counts.counts import Counts, in_memory
from unmix.counts.shards import Shards
from unmix.estimators.base import MOST_FRACTIONS

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
    place, matrix, others = _chosen(adata, layer, use_raw)
    matrix = in_memory(matrix)
    places, names = _columns(adata, use_raw, genes)
    if places is not None:
        matrix = matrix[:, places]
    try:
        counts = Counts(matrix, samples=adata.obs_names, features=names, metadata=adata.obs)
    except ValueError as error:
        raise ValueError(f"{place}: {error}{others()}") from error
    if (fractional := counts.facts["fractional"]) > MOST_FRACTIONS:
        warnings.warn(
            f"{place}: {fractional:.0%} of the values are not whole numbers, as after normalisation, and topics are "
            f"models of counts{others()}",
            UserWarning,
            stacklevel=3,
        )
    return counts


@contextmanager
def fittable(
    adata: AnnData, layer: str | None = None, use_raw: bool = False, genes: Integers | None = None
) -> Iterator[Counts | Shards]:
    """`counts_of`, or while this lasts shards of them, if they lie in a file and are too large for memory."""
    place, matrix, _ = _chosen(adata, layer, use_raw)
    if any_counts.fits_in_memory(needed := any_counts.memory_of(matrix)):
        yield counts_of(adata, layer, use_raw, genes)
        return
    places, names = _columns(adata, use_raw, genes)

    def blocks() -> Iterator[Any]:
        for first in range(0, adata.n_obs, CELLS_AT_A_TIME):
            block = in_memory(matrix[first : first + CELLS_AT_A_TIME])
            yield block if places is None else block[:, places]

    with ExitStack() as stack:
        try:
            shards = any_counts.temporary_shards(blocks(), needed, samples=adata.obs_names, features=names)
            found = stack.enter_context(shards)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        yield found


def _columns(adata: AnnData, use_raw: bool, genes: Integers | None) -> tuple[Integers | None, Any]:
    """The places of genes in the chosen matrix, None for all as they are, and their names."""
    names = adata.var_names if genes is None else adata.var_names[genes]
    if not use_raw:
        return genes, names
    if not adata.raw.var_names.is_unique:
        raise ValueError("adata.raw: its var_names are not unique; give a layer instead")
    places = adata.raw.var_names.get_indexer(adata.var_names)
    if absent := int((places < 0).sum()):
        raise ValueError(f"adata.raw: {absent:,} genes of adata are not in it; give a layer instead")
    return (places if genes is None else places[genes]), names


def _chosen(adata: AnnData, layer: str | None, use_raw: bool) -> tuple[str, Any, Callable[[], str]]:
    """The name of a matrix, as one would type it, the matrix, and a function that says where else counts are."""
    matrices = any_counts.matrices_of(adata)
    name = any_counts.chosen(matrices, layer, use_raw, "use_raw")
    place = f"adata.{name}" if layer is None else f"adata.layers[{layer!r}]"
    return place, matrices[name], lambda: any_counts.elsewhere(matrices, name, _values, "use_raw")


def _values(matrix: Any) -> NDArray[Any]:
    first = in_memory(matrix[:CELLS_LOOKED_AT])
    return first.data if sp.issparse(first) else first
