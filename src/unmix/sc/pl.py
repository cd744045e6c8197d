"""Pictures of the topics in an AnnData: `unmix.plot`, with groups by columns of `obs`.

Each returns its Axes. A picture without an `ax` of its own is a figure of pyplot, as scanpy's are: notebooks show it,
`plt.savefig` saves it, and with `show=True` it is shown at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import pyplot
from numpy.typing import ArrayLike, NDArray

from unmix import plot
from unmix.sc.slots import colours_of, to_fit

if TYPE_CHECKING:
    from anndata import AnnData
    from matplotlib.axes import Axes

__all__ = ["convergence", "structure", "top_features"]


def structure(
    adata: AnnData,
    groupby: str | ArrayLike | None = None,
    order: str | ArrayLike | None = None,
    *,
    key: str = "topics",
    ax: Axes | None = None,
    show: bool = False,
) -> Axes:
    """The Structure plot: one thin column per cell, stacked by topic.

    Parameters
    ----------
    groupby
        Cells with the same value stand together: a column of `adata.obs`, or one value per cell.
    order
        Cells stand by this number (within their group): a column of `adata.obs`, or one value per cell. By default like cells
        stand side by side.
    key
        Under which name `tl.topics` or `tl.project` kept the topics.
    ax, show
        Where to draw, and whether to show it; see above.
    """
    axes = plot.structure(to_fit(adata, key), group=groupby, order=order, ax=ax, colours=colours_of(adata, key))
    if show:
        pyplot.show()
    return axes


def top_features(
    adata: AnnData,
    n_genes: int = 10,
    topics: int | Iterable[int] | None = None,
    *,
    key: str = "topics",
    ax: Axes | None = None,
    show: bool = False,
) -> Axes | NDArray[np.object_]:
    """The most distinctive genes of each topic: of all topics, or of those with these numbers (from 1)."""
    colours = colours_of(adata, key)
    axes = plot.top_features(to_fit(adata, key), n=n_genes, topics=topics, ax=ax, colours=colours)
    if show:
        pyplot.show()
    return axes


def convergence(
    adata: AnnData, *, key: str = "topics", ax: Axes | None = None, show: bool = False
) -> Axes | NDArray[np.object_]:
    """How the fit approached its end."""
    fit = to_fit(adata, key)
    if not len(fit.trace):
        raise ValueError(f"the topics under {key!r} were projected, not fitted; draw the model they came from")
    axes = plot.convergence(fit, ax=ax)
    if show:
        pyplot.show()
    return axes


def __dir__() -> list[str]:
    return __all__
