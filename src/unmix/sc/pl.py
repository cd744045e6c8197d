"""Pictures of the topics in an AnnData: `unmix.plot`, with groups by columns of `obs`.

Each returns its Axes. A picture without an `ax` of its own is handed to pyplot, as scanpy's are: notebooks show it,
`plt.savefig` saves it. With `show=True` it is shown at once; with `show=False` pyplot hears nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

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
    show: bool | None = None,
) -> Axes:
    """The Structure plot: one thin column a cell, stacked by topic.

    Parameters
    ----------
    groupby
        Cells with the same value stand together: a column of `adata.obs`, or one value a cell.
    order
        Cells stand by this number (within their group): a column of `adata.obs`, or one value a cell. By default like cells
        stand side by side.
    key
        Under which name `tl.topics` or `tl.project` kept the topics.
    ax, show
        Where to draw, and whether to show it; see above.
    """
    axes = plot.structure(to_fit(adata, key), group=groupby, order=order, ax=ax, colours=colours_of(adata, key))
    return _shown(axes, ax, show)


def top_features(
    adata: AnnData,
    n_genes: int = 10,
    topics: Any = None,
    *,
    key: str = "topics",
    ax: Axes | None = None,
    show: bool | None = None,
) -> Any:
    """The most distinctive genes of each topic: of all topics, or of those with these numbers (from 1)."""
    axes = plot.top_features(to_fit(adata, key), n=n_genes, topics=topics, ax=ax)  # type: ignore[attr-defined, unused-ignore]
    return _shown(axes, ax, show)


def convergence(adata: AnnData, *, key: str = "topics", ax: Axes | None = None, show: bool | None = None) -> Any:
    """How the fit approached its end."""
    fit = to_fit(adata, key)
    if not len(fit.trace):
        raise ValueError(f"the topics under {key!r} were projected, not fitted; draw the model they came from")
    return _shown(plot.convergence(fit, ax=ax), ax, show)


def _shown(axes: Any, ax: Axes | None, show: bool | None) -> Any:
    from matplotlib import pyplot as plt

    if ax is None and show is not False:
        figure = np.ravel(axes)[0].figure.canvas.figure
        canvas = plt.figure(
            figsize=figure.get_size_inches()
        ).canvas  # of pyplot; it gets our figure in place of its own
        canvas.figure = figure
        figure.set_canvas(canvas)
    if show:
        plt.show()
    return axes
