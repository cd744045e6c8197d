"""Figures of the topics in an AnnData: `unmix.plot`, with groups by columns of `obs`.

Each returns its Axes. A figure without an `ax` of its own is a figure of pyplot, as scanpy's are: notebooks show it,
`plt.savefig` saves it, and with `show=True` it is shown at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from matplotlib import pyplot
from numpy.typing import ArrayLike, NDArray

from unmix import plot
from unmix.analysis import prevalence as means_of
from unmix.sc.slots import colors_of, to_fit

if TYPE_CHECKING:
    from anndata import AnnData
    from matplotlib.axes import Axes

Drawn = TypeVar("Drawn")
__all__ = ["convergence", "prevalence", "structure", "top_features", "usage"]


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
    adata : AnnData
        That has been through `tl.topics` or `tl.project`.
    groupby : str or array-like, default=None
        Cells with the same value are shown together: a column of `adata.obs`, or one value per cell.
    order : str or array-like, default=None
        Cells are sorted by this number (within their group): a column of `adata.obs`, or one value per cell. By default similar
        cells are side by side.
    key : str, default="topics"
        Under which name `tl.topics` or `tl.project` kept the topics.
    ax : Axes, default=None
        Where to draw; by default a new figure of pyplot.
    show : bool, default=False
        Whether to show it at once.

    Returns
    -------
    Axes
        With the figure.

    Raises
    ------
    ValueError
        If there are no topics under that name, or there is no such column.

    See Also
    --------
    plot.structure

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> ax = um.sc.pl.structure(adata)
    """
    return _shown(plot.structure(to_fit(adata, key), groupby, order, ax, colors_of(adata, key)), show)


def top_features(
    adata: AnnData,
    n_genes: int = 10,
    topics: int | Iterable[int] | None = None,
    *,
    key: str = "topics",
    ax: Axes | None = None,
    show: bool = False,
) -> Axes | NDArray[np.object_]:
    """The most distinctive genes of each topic.

    Parameters
    ----------
    adata : AnnData
        That has been through `tl.topics` or `tl.project`.
    n_genes : int, default=10
        How many of each topic.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    key : str, default="topics"
        Under which name `tl.topics` or `tl.project` kept the topics.
    ax : Axes, default=None
        Where to draw one topic; by default a new figure of pyplot with one panel per topic.
    show : bool, default=False
        Whether to show it at once.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If there are no topics under that name, or no such topic.

    See Also
    --------
    plot.top_features, sc.tl.differences

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> panels = um.sc.pl.top_features(adata, n_genes=2)
    """
    colors = colors_of(adata, key)
    return _shown(plot.top_features(to_fit(adata, key), n=n_genes, topics=topics, ax=ax, colors=colors), show)


def convergence(
    adata: AnnData, *, key: str = "topics", ax: Axes | None = None, show: bool = False
) -> Axes | NDArray[np.object_]:
    """How the fit approached its end.

    Parameters
    ----------
    adata : AnnData
        That has been through `tl.topics`.
    key : str, default="topics"
        Under which name it kept the topics.
    ax : Axes, default=None
        Where to draw the gap alone; by default a new figure of pyplot with two panels.
    show : bool, default=False
        Whether to show it at once.

    Returns
    -------
    Axes or array of Axes
        The two panels, or the one Axes if `ax` is given.

    Raises
    ------
    ValueError
        If there are no topics under that name, or they were projected.

    See Also
    --------
    plot.convergence

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> panels = um.sc.pl.convergence(adata)
    """
    fit = to_fit(adata, key)
    if not len(fit.trace):
        raise ValueError(f"the topics under {key!r} were projected, not fitted; draw the model they came from")
    return _shown(plot.convergence(fit, ax=ax), show)


def usage(
    adata: AnnData,
    basis: str | None = None,
    topics: int | Iterable[int] | None = None,
    *,
    key: str = "topics",
    ax: Axes | None = None,
    show: bool = False,
) -> Axes | NDArray[np.object_]:
    """How much of each topic cells have, where they lie in an embedding or in space: a panel per topic, darker for more.

    Parameters
    ----------
    adata : AnnData
        That has been through `tl.topics` or `tl.project`.
    basis : str, default=None
        Name in `adata.obsm` of the coordinates, such as "X_umap", "umap" or "spatial", whose second axis then points down as in
        images; by default the first of spatial, X_umap, X_tsne and X_pca that is there.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    key : str, default="topics"
        Under which name `tl.topics` or `tl.project` kept the topics.
    ax : Axes, default=None
        Where to draw one topic; by default a new figure of pyplot with one panel per topic.
    show : bool, default=False
        Whether to show it at once.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If there are no topics under that name, no such topic, or no such coordinates.

    See Also
    --------
    plot.usage, plot.embedding

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> adata.obsm["X_umap"] = np.array([[0.0, 0], [0, 1], [5, 5], [5, 6]])
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> panels = um.sc.pl.usage(adata)
    """
    known = [name for name in adata.obsm if np.ndim(adata.obsm[name]) == 2 and adata.obsm[name].shape[1] >= 2]
    wanted = [basis, f"X_{basis}"] if basis is not None else COORDINATES
    found = next((name for name in wanted if name in known), None)
    if found is None:
        remedy = f"choose one of {', '.join(known)}" if known else "compute one, as with sc.tl.umap"
        raise ValueError(f"there are no coordinates {basis or 'of an embedding'} in adata.obsm; {remedy}")
    places = np.asarray(adata.obsm[found], dtype=float)[:, :2]
    drawn: Any = {"ax": ax, "colors": colors_of(adata, key), "image": found == "spatial", "title": found}
    return _shown(plot.usage(to_fit(adata, key), places, topics, **drawn), show)


def _shown(axes: Drawn, show: bool) -> Drawn:
    """The same, shown at once if that is wanted."""
    if show:
        pyplot.show()
    return axes


COORDINATES = ("spatial", "X_umap", "X_tsne", "X_pca")


def prevalence(
    adata: AnnData,
    groupby: str | ArrayLike | None = None,
    over: str | ArrayLike | None = None,
    *,
    groups: str | ArrayLike | None = None,
    key: str = "topics",
    ax: Axes | None = None,
    show: bool = False,
    **options: Any,
) -> Axes | NDArray[np.object_]:
    """Mean proportions of topics by groups of cells, or along a number, with intervals: a panel per topic.

    Parameters
    ----------
    adata : AnnData
        That has been through `tl.topics` or `tl.project`.
    groupby : str or array-like, default=None
        Groups to compare: a column of `adata.obs`, or one value per cell.
    over : str or array-like, default=None
        Numbers or dates along which means are a trend: a column of `adata.obs`, or one value per cell.
    groups : str or array-like, default=None
        What makes cells dependent, such as "donor", as in `tl.prevalence`.
    key : str, default="topics"
        Under which name `tl.topics` or `tl.project` kept the topics.
    ax : Axes, default=None
        Where to draw one topic, which `topics` names; by default a new figure of pyplot with one panel per topic.
    show : bool, default=False
        Whether to show it at once.
    **options : dict
        Parameters of `unmix.plot.prevalence`, such as `topics=3`.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If there are no topics under that name, or no such column.

    See Also
    --------
    sc.tl.prevalence, plot.prevalence

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> adata.obs["condition"] = ["a", "a", "b", "b"]
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> panels = um.sc.pl.prevalence(adata, "condition")
    """
    found = means_of(to_fit(adata, key), groupby, over, groups)
    return _shown(plot.prevalence(found, ax=ax, colors=colors_of(adata, key), **options), show)


def __dir__() -> list[str]:
    return __all__
