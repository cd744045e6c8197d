"""Samples as points on a plane, like beside like: PCA or UMAP of the square roots of their proportions."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unmix.analysis import fair_sample, topic_names
from unmix.analysis.places import leading_axes
from unmix.analysis.samples import Scale, groups, scale, values_of
from unmix.analysis.topics import short, topic_place
from unmix.fit import Fit
from unmix.plot.labels import place_labels
from unmix.plot.palette import palette, topic_colours
from unmix.plot.style import MANY_POINTS, figure_of, new_axes, shades, tidy
from unmix.types import Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.colors import Colormap

MOST_POINTS = 20_000  # more would not show
MOST_GROUPS_OF_NUMBERS = 12  # a column of more different numbers is a scale of colours, not one colour per value
LONGEST_GROUP = 24  # letters of a name


def embedding(
    fit: Fit,
    method: Literal["pca", "umap"] = "pca",
    colour: str | int | ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw each sample as a point, by the square roots of its proportions, between which distances are Hellinger's.

    Groups are named at their middle, as far as there is room. Of more than 20,000 samples a fair part is shown: the same
    share of each group, the same ones every time.

    Parameters
    ----------
    fit : Fit
        Of any model.
    method : str, default="pca"
        "pca": the two directions in which samples differ most, which keeps distances as far as a plane can. "umap": keeps
        neighbours together and shows clusters; distances between clusters mean little. It needs `umap-learn`,
        which compiles itself when first used: the first picture of a session takes half a minute longer.
    colour : str, int or array-like, default=None
        None: the colour of the largest topic of each sample. A number: how much of that topic. A column of `fit.metadata`
        or one value per sample: numbers and dates of more than 12 different values as a scale, all else one colour per group.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If the method is neither, or there is no such topic or column.

    See Also
    --------
    plot.structure

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.embedding(fit, colour=1)
    """
    if method not in ("pca", "umap"):
        raise ValueError(f"method: {method!r} is unknown; choose 'pca' or 'umap'")
    meaning = _meaning(fit, colour)
    labels = meaning.labels if isinstance(meaning, Groups) else np.zeros(len(fit.L), dtype=np.intp)
    # In random order, so that no group lies on top of the others.
    shown = np.random.default_rng(0).permutation(fair_sample(labels, MOST_POINTS))
    places, axis_names = (_pca if method == "pca" else _umap)(np.sqrt(fit.proportions[shown]))
    ax = new_axes(8, 6) if ax is None else ax
    size = float(np.clip(2e4 / len(shown), 2, 25))
    scatter = partial(ax.scatter, s=size, linewidths=0, alpha=0.8, rasterized=len(shown) > MANY_POINTS)
    ax.set_aspect("equal", adjustable="datalim")
    tidy(ax)
    ax.set(xticks=[], yticks=[], ylabel=axis_names[1])
    part = f"\n({len(shown):,} of {len(labels):,} samples)" if len(shown) < len(labels) else ""
    ax.set_xlabel(axis_names[0] + part)
    if isinstance(meaning, Groups):
        scatter(places[:, 0], places[:, 1], c=[meaning.colours[g] for g in labels[shown]])
        ax.set_title(meaning.title, loc="left", fontsize=10, parse_math=False)
        _name_groups(ax, places, labels[shown], meaning)
    else:
        numbers = meaning.scale.numbers[shown]
        known = np.isfinite(numbers)
        scatter(places[~known, 0], places[~known, 1], color="0.85")
        points = scatter(places[known, 0], places[known, 1], c=numbers[known], cmap=meaning.colours)
        _colour_bar(ax, points, meaning)
    return ax


class Groups(NamedTuple):
    """A group, and so a colour, for each sample."""

    title: str
    names: list[str]
    labels: Integers
    colours: list[str]


class Shades(NamedTuple):
    """A place on a scale of colours for each sample."""

    title: str
    scale: Scale
    colours: Colormap | str  # a colour map, or its name


def _meaning(fit: Fit, colour: str | int | ArrayLike | None) -> Groups | Shades:
    if colour is None:
        return Groups("largest topic", topic_names(fit, 1), fit.proportions.argmax(axis=1), topic_colours(fit))
    if isinstance(colour, int | np.integer):
        k = topic_place(fit, int(colour))
        title = "proportion of topic " + topic_names(fit)[k]
        return Shades(title, Scale(fit.proportions[:, k], dates=False), shades(topic_colours(fit)[k]))
    values = values_of(fit, colour, "colour")
    numbers = scale(values) if values.nunique() > MOST_GROUPS_OF_NUMBERS else None
    if numbers is not None:
        return Shades(colour if isinstance(colour, str) else "value", numbers, "viridis")
    names, labels = groups(values)
    return Groups(colour if isinstance(colour, str) else "group", names, labels, palette(len(names)))


def _pca(points: Floats) -> tuple[Floats, tuple[str, str]]:
    """The two principal components, and how much of the variance each explains."""
    centred = points - points.mean(axis=0)
    variances, directions = leading_axes(centred.T @ centred)
    parts = variances.clip(0) / max((centred**2).sum(), np.finfo(float).tiny)
    return centred @ directions, (f"principal component 1 ({parts[0]:.0%})", f"principal component 2 ({parts[1]:.0%})")


def _umap(points: Floats) -> tuple[Floats, tuple[str, str]]:
    from sklearn.neighbors import NearestNeighbors

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of other optional packages
        try:
            from umap import UMAP
        except ImportError:
            raise ImportError(
                "method='umap' needs umap-learn; install it with: pip install 'unmix[umap]', or use method='pca'"
            ) from None
        # Exact neighbours, found here: UMAP's own search is slow for few points and compiles longer for many.
        n_neighbors = min(15, len(points))
        distances, indices = NearestNeighbors(n_neighbors=n_neighbors).fit(points).kneighbors(points)
        reducer = UMAP(
            n_neighbors=n_neighbors,
            precomputed_knn=(indices, distances, None),
            force_approximation_algorithm=True,  # or else it ignores them where there are few points
            init="pca",
            random_state=0,
            n_jobs=1,
        )
        return reducer.fit_transform(points).astype(float), ("UMAP 1", "UMAP 2")


def _colour_bar(ax: Axes, points: PathCollection, meaning: Shades) -> None:
    bar = figure_of(ax).colorbar(points, ax=ax, shrink=0.8)
    bar.set_label(meaning.title, parse_math=False)
    bar.outline.set_visible(False)
    bar.solids.set_alpha(1)  # type: ignore[union-attr]
    if meaning.scale.dates:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        bar.ax.yaxis.set_major_locator(locator := AutoDateLocator())
        bar.ax.yaxis.set_major_formatter(ConciseDateFormatter(locator))


def _name_groups(ax: Axes, places: Floats, labels: Integers, meaning: Groups) -> None:
    """At the median of each group, the largest first."""
    sizes = np.bincount(labels, minlength=len(meaning.names))
    order = [g for g in np.argsort(-sizes, kind="stable") if sizes[g]]
    middles = np.array([np.median(places[labels == g], axis=0) for g in order])
    names = [short(meaning.names[g], LONGEST_GROUP) for g in order]
    place_labels(ax, middles[:, 0], middles[:, 1], names, boxes=[meaning.colours[g] for g in order])
