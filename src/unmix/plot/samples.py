"""Figures along samples: Structure plots, loadings, embeddings."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from unmix.analysis import Freedom, Intervals, fair_sample, match_topics, similarity_order, topic_names, topic_order
from unmix.analysis.application import FitLike, fit_of
from unmix.analysis.features import leading_axes, topic_place, topic_places
from unmix.analysis.samples import Scale, groups, means_along, scale, values_of
from unmix.base.checks import choice, short, whole
from unmix.base.types import Floats, Integers, Names
from unmix.fit import Fit
from unmix.plot.style import (
    MANY_POINTS,
    color_bar,
    figure_of,
    lay_out,
    legend_beside,
    new_axes,
    new_grid,
    palette,
    panels_for,
    place_labels,
    shades,
    tidy,
    topic_colors,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axes._secondary_axes import SecondaryAxis
    from matplotlib.collections import PathCollection
    from matplotlib.colors import Colormap


MOST_NAMES = 60  # samples that have their names below them
LONGEST_GROUP = 24  # letters of a name


def label_groups(ax: Axes, names: Sequence[str], ends: Sequence[tuple[float, float]], *, above: bool = False) -> None:
    """Names under their groups, or above: level where all have space, slanted otherwise, and of those too close the largest."""
    size, points = 9, _column_width(ax)
    centres = np.array([(left + right) / 2 for left, right in ends]) * points
    shown = [short(name, LONGEST_GROUP) for name in names]
    widths = np.array([0.7 * size * len(name) for name in shown])
    kept = list(range(len(names)))
    slanted = (np.diff(centres) < (widths[1:] + widths[:-1]) / 2 + size / 4).any()
    if slanted:
        kept = []
        for g in sorted(range(len(names)), key=lambda g: ends[g][0] - ends[g][1]):
            if all(abs(centres[g] - centres[other]) >= 1.5 * size for other in kept):
                kept.append(g)
    where: Axes | SecondaryAxis = ax
    if above:
        where = ax.secondary_xaxis("top")
        where.spines["top"].set_visible(False)
    where.set_xticks(centres[kept] / points, [shown[g] for g in kept], fontsize=size, parse_math=False)
    if slanted:
        for label in where.get_xticklabels():
            label.set(rotation=45, ha="left" if above else "right", rotation_mode="anchor")
    where.tick_params(axis="x", length=0)


def label_samples(ax: Axes, names: Sequence[str], ends: Sequence[tuple[float, float]]) -> None:
    """The name of every sample under it: slanted, or upright where they are close."""
    column = _column_width(ax)
    centres = np.concatenate([left + 0.5 + np.arange(round(right - left)) for left, right in ends])
    upright = column < 13
    ax.set_xticks(centres, names, fontsize=min(9, max(4, 0.9 * column)), parse_math=False)
    for label in ax.get_xticklabels():
        label.set(rotation=90 if upright else 45, ha="right", va="center" if upright else "top", rotation_mode="anchor")
    ax.tick_params(axis="x", length=0)


def told(places: Scale, i: int) -> str:
    """A number or a date as text."""
    number = places.numbers[i]
    if not np.isfinite(number):
        return "(none)"
    if not places.dates:
        return f"{number:.6g}"
    return str(np.datetime64(round(number * 86_400), "s")).replace("T00:00:00", "").replace("T", " ")


def _column_width(ax: Axes) -> float:
    """Of one sample, in points."""
    lay_out(ax)
    left, right = ax.get_xlim()
    return ax.get_window_extent().width * 72 / figure_of(ax).dpi / (right - left)


def label_scale(ax: Axes, places: Scale) -> None:
    """Round numbers or dates at the first sample that reaches them, as space permits."""
    known = places.numbers[np.isfinite(places.numbers)]
    if not len(known):
        ax.set_xticks([])
        return
    ticks, labels = (_round_dates if places.dates else _round_numbers)(known)
    columns = np.searchsorted(known, ticks) + 0.5
    size = 10
    halves = [0.35 * size * len(label) for label in labels]  # of their widths, in points like all here
    centres = columns * _column_width(ax)
    kept: list[int] = []
    for i, centre in enumerate(centres):
        if not kept or centre - halves[i] - size / 2 > centres[kept[-1]] + halves[kept[-1]]:
            kept.append(i)
    ax.set_xticks(columns[kept], [labels[i] for i in kept], fontsize=size)


def _round_numbers(known: Floats) -> tuple[Floats, list[str]]:
    from matplotlib.ticker import MaxNLocator

    whole = bool((known == np.round(known)).all())
    ticks = MaxNLocator(nbins=12, steps=[1, 2, 5, 10], integer=whole).tick_values(known[0], known[-1])
    ticks = ticks[(ticks >= known[0]) & (ticks <= known[-1])]
    return ticks, [f"{tick:.0f}" if whole else f"{tick:g}" for tick in ticks]


def _round_dates(known: Floats) -> tuple[Floats, list[str]]:
    from matplotlib.dates import AutoDateLocator, num2date

    locator = AutoDateLocator(maxticks=12)
    ticks = np.asarray(locator.tick_values(num2date(known[0]), num2date(known[-1])), dtype=float)
    ticks = ticks[(ticks >= known[0]) & (ticks <= known[-1])]
    closest = np.diff(ticks).min() if len(ticks) > 1 else 1.0
    forms = {365: "%Y", 28: "%Y-%m", 1: "%Y-%m-%d", 0.9 / 1440: "%Y-%m-%d %H:%M", 0: "%H:%M:%S"}  # by least days
    form = next(form for days, form in forms.items() if closest >= days)
    return ticks, [num2date(tick).strftime(form) for tick in ticks]


# The Structure plot: one thin column per sample, stacked by topic, the heaviest topic at the bottom.

MOST_SAMPLES = 2000  # more columns than that do not show in a figure
MOST_SINGLE, BARS = 500, 100  # of more samples along a scale means are drawn, in about this many bars
LEGEND_ROWS = 40


def structure(
    fit: FitLike,
    group: str | int | ArrayLike | None = None,
    order: str | ArrayLike | None = None,
    ax: Axes | None = None,
    colors: Sequence[str] | None = None,
    *,
    equal: bool = False,
) -> Axes:
    """Draw the proportions of all samples: one thin column per sample, stacked by topic.

    Up to 60 samples with names have them below. Of more than 500 along a scale the bars are means: of samples that follow each
    other, and of all that have the same number or date. Of more than 2,000 without a scale a fair part is shown: the same share
    of each group, the same ones every time.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    group : str, int or array-like, default=None
        Samples with the same value are shown together: a column of `fit.metadata`, or one value per sample. A number: that many
        clusters of similar proportions, by k-means, the largest first.
    order : str or array-like, default=None
        Samples are sorted by this number or date (within their group): a column of `fit.metadata`, or one value per sample; dates
        may be text, as "2021-03-01" or "1 March 2021". By default similar samples are side by side.
    ax : Axes, default=None
        Where to draw; by default a new figure.
    colors : sequence of str, default=None
        Of the topics; by default `topic_colors`.
    equal : bool, default=False
        Whether large groups are drawn by part, so that all have the same number of columns, or all of theirs.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If there is no such column, there are too few or too many values, or the order is not of numbers or dates.

    See Also
    --------
    write_report, sc.pl.structure

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.structure(fit, group=["insects", "insects", "cats", "cats"])
    """
    fit = fit_of(fit)
    names, labels = [""], np.zeros(len(fit.L), dtype=np.intp)
    if isinstance(group, int):
        group = clusters(fit.proportions, whole("group", group, 1))
    if group is not None:
        names, labels = groups(values_of(fit, group, "group"))
    places = scale_of(fit, order)
    shown = fair_sample(labels, MOST_SAMPLES if places is None else len(labels), equal=equal)
    size = 1 if places is None or len(shown) <= MOST_SINGLE else -(-len(shown) // BARS)
    members = [ordered(fit, shown[labels[shown] == g], places) for g in range(len(names))]
    along = None if places is None or size == 1 else places.numbers
    blocks = [_bars(fit.proportions[block], None if along is None else along[block], size) for block in members]
    if ax is None:
        columns, rows = 1 + (fit.n_topics - 1) // LEGEND_ROWS, min(fit.n_topics, LEGEND_ROWS)
        ax = new_axes(9 + 3 * columns, max(4, 0.19 * rows))
    ends = _stack(ax, fit, blocks, topic_colors(fit) if colors is None else colors)
    about = axis_title(group, order)
    if fit.samples is not None and len(labels) <= MOST_NAMES:
        label_samples(ax, _sample_labels(fit.samples, members, places), ends)
        if group is not None:
            label_groups(ax, names, ends, above=True)
    elif group is not None:
        label_groups(ax, names, ends)
    elif places is not None:
        label_scale(ax, Scale(places.numbers[members[0]], places.dates))
    else:
        ax.set_xticks([])
    if size > 1:
        about += f" (means of {len(labels):,} samples)"
    elif len(shown) < len(labels):
        about += f" ({len(shown):,} of {len(labels):,} samples)"
    ax.set_xlabel(about, parse_math=False)
    ax.set_ylabel("proportion")
    return ax


def clusters(proportions: Floats, n: int) -> Names:
    """Names of clusters of similar samples, "1" the largest."""
    from sklearn.cluster import KMeans

    found = KMeans(min(n, len(proportions)), n_init=10, random_state=0).fit_predict(proportions)
    rank = np.argsort(np.argsort(-np.bincount(found), kind="stable"), kind="stable")
    return np.array([f"cluster {place + 1}" for place in rank])[found]


def scale_of(fit: Fit, order: str | ArrayLike | None) -> Scale | None:
    """Where samples are on a scale of numbers or dates, if there is one."""
    places = None if order is None else scale(values_of(fit, order, "order"))
    if order is not None and places is None:
        what = repr(order) if isinstance(order, str) else "the given values"
        raise ValueError(
            f"order: {what} does not hold numbers or dates; use a column of numbers or dates, or use it as group"
        )
    return places


def ordered(fit: Fit, samples: Integers, places: Scale | None) -> Integers:
    """By their places on a scale, or like next to like."""
    by = similarity_order(fit.proportions[samples]) if places is None else None
    return samples[np.argsort(places.numbers[samples], kind="stable") if places is not None else by]


class Bars(NamedTuple):
    """What is drawn side by side: proportions, and of how many samples."""

    proportions: Floats
    widths: Integers


def _bars(proportions: Floats, places: Floats | None, size: int) -> Bars:
    """Every sample, or where their places on a scale are given means of at least `size`, and of all at the same place: else the
    order among them, which is arbitrary, would show."""
    if places is None:
        return Bars(proportions, np.ones(len(proportions), dtype=np.intp))
    starts = means_along(places, size)
    widths = np.diff(starts, append=len(places))
    return Bars(np.add.reduceat(proportions, starts, axis=0) / widths[:, None], widths)


def _sample_labels(samples: NDArray[np.str_], members: Sequence[Integers], places: Scale | None) -> list[str]:
    """Names in the order of the figure, with where they are on its scale."""
    rows = np.concatenate(members)
    names = [short(str(name), 24) for name in samples[rows]]
    if places is None:
        return names
    return [f"{name} · {told(places, i)}" for name, i in zip(names, rows, strict=True)]


def _stack(ax: Axes, fit: Fit, blocks: list[Bars], colors: Sequence[str]) -> list[tuple[float, float]]:
    """Draw the blocks with a gap between them, and a legend; the ends of each block along the axis."""
    topics = topic_order(fit)
    sizes = np.array([block.widths.sum() for block in blocks])
    gap = sizes.sum() / max(250, 10 * len(blocks))
    lefts = np.concatenate([[0], (sizes + gap).cumsum()[:-1]])
    edges = np.concatenate(
        [left + np.concatenate([[0], block.widths.cumsum()]) for left, block in zip(lefts, blocks, strict=True)]
    )
    nothing = np.zeros((1, len(topics)))  # the height of the gap that follows each block
    heights = np.vstack([part for block in blocks for part in (block.proportions[:, topics].cumsum(axis=1), nothing)])
    # From the full height down, each area over the last and with sharp edges: no other colour can shine through.
    areas = [
        ax.fill_between(
            edges, heights[:, place], step="post", color=colors[topics[place]], linewidth=0, antialiased=False
        )
        for place in reversed(range(len(topics)))
    ]
    ax.set_xlim(0, edges[-1])
    ax.set_ylim(0, 1)
    tidy(ax)
    names, title = topic_names(fit), "topic: its top features" if fit.names is None else "topic"
    look: dict[str, Any] = {"fontsize": 9 if len(topics) <= 16 else 7, "ncols": 1 + (len(topics) - 1) // LEGEND_ROWS}
    look |= {"handlelength": 1.0, "handleheight": 1.0, "alignment": "left"}
    legend_beside(ax, areas, [names[k] for k in reversed(topics)], title=title, **look)
    return list(zip(lefts, lefts + sizes, strict=True))


def axis_title(group: str | ArrayLike | None, order: str | ArrayLike | None) -> str:
    """What the samples are by."""
    by = order if isinstance(order, str) else "given order" if order is not None else None
    if group is None:
        return by or "samples, sorted by similarity"
    name = group if isinstance(group, str) else "group"
    return f"{name}, each by {by}" if by else name


# Do two fits agree? The proportions of all samples in one against those in the other, topic by topic.

MOST_COLUMNS, PANEL_WIDTH = 5, 2.6  # inches


def loadings_scatter(
    one: FitLike, two: FitLike, topics: int | Iterable[int] | None = None, ax: Axes | None = None
) -> Axes | NDArray[np.object_]:
    """One point per sample: its proportion of a topic in fit one (across) and of the matching topic in fit two (up).

    Topics are matched one to one so that the proportions of the samples agree best. What agrees is on the diagonal; r is
    the correlation. Topics that have no match, because the other fit has fewer topics, are not shown. Of more than 2,000
    samples the density is shown.

    Parameters
    ----------
    one, two : Fit, estimator or path
        Of the same samples.
    topics : int or iterable of int, default=None
        Numbers of topics of fit one, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Draw all these topics into it, each in its colour; by default a new figure with one panel per topic.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If samples are others, or none of these topics has a match.

    See Also
    --------
    compare, plot.similarity

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> one, two = (um.TopicModel(3, init="random", tol=1e-4, random_state=seed).fit(X).result_ for seed in (0, 1))
    >>> panels = um.plot.loadings_scatter(one, two)
    """
    one, two = fit_of(one), fit_of(two)
    partners = match_topics(one, two, by="samples")
    shown = [k for k in topic_places(one, topics) if k in partners]
    if not shown:
        raise ValueError("none of these topics has a match, as the other fit has fewer topics; choose others")
    colors, names, many = topic_colors(one), topic_names(one, 2), len(one.L) > MANY_POINTS
    pairs = {k: (one.proportions[:, k], two.proportions[:, partners[k]]) for k in shown}
    if ax is not None:
        for k, (x, y) in pairs.items():
            label = f"{names[k]} ({_correlation(x, y)})"
            size = 3 if many else 10
            ax.scatter(x, y, s=size, color=colors[k], alpha=0.5, linewidths=0, rasterized=many, label=label)
        _frame(ax)
        ax.set(xlabel="proportion in fit one", ylabel="proportion in fit two")
        legend_beside(ax, fontsize=8, markerscale=2)
        return ax
    panels = new_grid(len(pairs), MOST_COLUMNS, (PANEL_WIDTH, PANEL_WIDTH + 0.35), sharex=True, sharey=True)
    for panel, (k, (x, y)) in zip(panels, pairs.items(), strict=True):
        if many:
            cells = shades(colors[k])
            panel.hexbin(x, y, gridsize=40, bins="log", extent=(0, 1, 0, 1), mincnt=1, linewidths=0.1, cmap=cells)
        else:
            panel.scatter(x, y, s=9, color=colors[k], alpha=0.6, linewidths=0)
        _frame(panel)
        title = f"{names[k]}\nwith {partners[k] + 1} of fit two, {_correlation(x, y)}"
        panel.set_title(title, fontsize=8.5, loc="left", parse_math=False)
    columns = panels[0].get_subplotspec().get_gridspec().ncols
    for panel in panels[::columns]:
        panel.set_ylabel("in fit two", fontsize=9)
    for panel in panels[-columns:]:  # also those above the gap of a last row that is not full
        panel.set_xlabel("in fit one", fontsize=9)
        panel.tick_params(labelbottom=True)
    return panels


def _correlation(x: Floats, y: Floats) -> str:
    return "r undefined" if x.std() == 0 or y.std() == 0 else f"r = {np.corrcoef(x, y)[0, 1]:.2f}"


def _frame(ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], color="0.3", linewidth=0.6, zorder=3)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    tidy(ax)


# Samples as points on a plane, like next to like: PCA or UMAP of the square roots of their proportions.

MOST_POINTS = 20_000  # more would not show
MOST_GROUPS_OF_NUMBERS = 12  # a column of more different numbers is a scale of colours, not one colour per value
LONGEST_LEGEND = 24  # letters of a name


def embedding(
    fit: FitLike,
    method: Literal["pca", "umap"] = "pca",
    color: str | int | ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw each sample as a point, by the square roots of its proportions, between which distances are Hellinger's.

    Groups are named at their middle, as space permits. Of more than 20,000 samples a fair part is shown: the same
    share of each group, the same ones every time.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    method : str, default="pca"
        "pca": the two directions in which samples differ most, which keeps distances as far as a plane can. "umap": keeps
        neighbours together and shows clusters; distances between clusters mean little. It needs `umap-learn`,
        which compiles itself when first used: the first figure of a session takes half a minute longer.
    color : str, int or array-like, default=None
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
    >>> ax = um.plot.embedding(fit, color=1)
    """
    fit = fit_of(fit)
    choice("method", method, ("pca", "umap"))
    meaning = _meaning(fit, color)
    labels = meaning.labels if isinstance(meaning, Groups) else np.zeros(len(fit.L), dtype=np.intp)
    # In random order, so that no group is on top of the others.
    shown = np.random.default_rng(0).permutation(fair_sample(labels, MOST_POINTS))
    places, axis_names = (principal_axes if method == "pca" else _umap)(np.sqrt(fit.proportions[shown]))
    ax = new_axes(8, 6) if ax is None else ax
    size = float(np.clip(2e4 / len(shown), 2, 25))
    scatter = partial(ax.scatter, s=size, linewidths=0, alpha=0.8, rasterized=len(shown) > MANY_POINTS)
    ax.set_aspect("equal", adjustable="datalim")
    tidy(ax)
    ax.set(xticks=[], yticks=[], ylabel=axis_names[1])
    part = f"\n({len(shown):,} of {len(labels):,} samples)" if len(shown) < len(labels) else ""
    ax.set_xlabel(axis_names[0] + part)
    if isinstance(meaning, Groups):
        scatter(places[:, 0], places[:, 1], c=[meaning.colors[g] for g in labels[shown]])
        ax.set_title(meaning.title, loc="left", fontsize=10, parse_math=False)
        _name_groups(ax, places, labels[shown], meaning)
    else:
        numbers = meaning.scale.numbers[shown]
        known = np.isfinite(numbers)
        scatter(places[~known, 0], places[~known, 1], color="0.85")
        points = scatter(places[known, 0], places[known, 1], c=numbers[known], cmap=meaning.colors)
        _color_bar(ax, points, meaning)
    return ax


def usage(
    fit: FitLike,
    places: ArrayLike,
    topics: int | Iterable[int] | None = None,
    ax: Axes | None = None,
    colors: Sequence[str] | None = None,
    *,
    image: bool = False,
    title: str = "",
) -> Axes | NDArray[np.object_]:
    """Draw how much of each topic samples have, at given places: a panel per topic, in its colour, darker for more.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    places : array-like, n × 2
        Coordinates of samples: an embedding, or where they were taken.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Where to draw one topic; by default a new figure with one panel per topic.
    colors : sequence of str, default=None
        Of the topics; by default `topic_colors`.
    image : bool, default=False
        Whether the second coordinate points down, as in images.
    title : str, default=""
        What the coordinates are called.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If there is no such topic, or there is not one pair of coordinates per sample.

    See Also
    --------
    plot.embedding, sc.pl.usage

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> panels = um.plot.usage(fit, [[0, 0], [0, 1], [5, 5], [5, 6]])
    """
    fit, where = fit_of(fit), np.asarray(places, dtype=float)
    if where.shape != (len(fit.L), 2):
        raise ValueError(f"places has the shape {where.shape} for {len(fit.L)} samples; use two numbers per sample")
    chosen = topic_places(fit, topics)
    panels = panels_for(chosen, ax, 4, (2.6, 2.4))
    paint, names = topic_colors(fit) if colors is None else colors, topic_names(fit, 2)
    shown = fair_sample(fit.proportions.argmax(axis=1), MOST_POINTS)
    for panel, k in zip(panels, chosen, strict=True):
        order = shown[np.argsort(fit.proportions[shown, k], kind="stable")]  # those that have it lie on top
        points = panel.scatter(
            *where[order].T,
            c=fit.proportions[order, k],
            cmap=shades(paint[k]),
            vmin=0,
            vmax=max(float(np.quantile(fit.proportions[:, k], 0.995)), 1e-9),
            s=float(np.clip(8e3 / len(order), 1, 18)),
            linewidths=0,
            rasterized=len(order) > MANY_POINTS,
        )
        bar = color_bar(panel, points, "")
        bar.ax.tick_params(labelsize=7, length=0)
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        panel.set_aspect("equal", adjustable="datalim")
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_visible(False)
        panel.set_title(short(names[k], 32), loc="left", fontsize=8.5, parse_math=False)
        if image and not panel.yaxis_inverted():
            panel.invert_yaxis()
    if ax is None and title:
        part = f" ({len(shown):,} of {len(fit.L):,} samples)" if len(shown) < len(fit.L) else ""
        figure_of(panels[0]).supxlabel(title + part, fontsize=9)
    return panels if ax is None else ax


class Groups(NamedTuple):
    """A group, and so a colour, for each sample."""

    title: str
    names: list[str]
    labels: Integers
    colors: list[str]


class Shades(NamedTuple):
    """A place on a scale of colours for each sample."""

    title: str
    scale: Scale
    colors: Colormap | str  # a colour map, or its name


def _meaning(fit: Fit, color: str | int | ArrayLike | None) -> Groups | Shades:
    if color is None:
        return Groups("largest topic", topic_names(fit, 1), fit.proportions.argmax(axis=1), topic_colors(fit))
    if isinstance(color, int | np.integer):
        k = topic_place(fit, int(color))
        title = "proportion of topic " + topic_names(fit)[k]
        return Shades(title, Scale(fit.proportions[:, k], dates=False), shades(topic_colors(fit)[k]))
    values = values_of(fit, color, "color")
    numbers = scale(values) if values.nunique() > MOST_GROUPS_OF_NUMBERS else None
    if numbers is not None:
        return Shades(color if isinstance(color, str) else "value", numbers, "viridis")
    names, labels = groups(values)
    return Groups(color if isinstance(color, str) else "group", names, labels, palette(len(names)))


def principal_axes(points: Floats) -> tuple[Floats, tuple[str, str]]:
    """The two principal components, and how much of the variance each explains."""
    centred = points - points.mean(axis=0)
    variances, directions = leading_axes(centred.T @ centred)
    parts = variances.clip(0) / max((centred**2).sum(), np.finfo(float).tiny)
    return centred @ directions, (f"principal component 1 ({parts[0]:.0%})", f"principal component 2 ({parts[1]:.0%})")


def _umap(points: Floats) -> tuple[Floats, tuple[str, str]]:
    from sklearn.neighbors import NearestNeighbors

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it shows of other optional packages
        try:
            from umap import UMAP
        except ImportError:
            raise ImportError(
                "method='umap' needs umap-learn; install it with: pip install umap-learn, or use method='pca'"
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


def _color_bar(ax: Axes, points: PathCollection, meaning: Shades) -> None:
    bar = color_bar(ax, points, meaning.title)
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
    names = [short(meaning.names[g], LONGEST_LEGEND) for g in order]
    place_labels(ax, middles[:, 0], middles[:, 1], names, boxes=[meaning.colors[g] for g in order])


# Ranges of proportions: a lane for every topic, in full colour as far as the data decide, pale where they do not decide it.

PALE = 0.3


def _estimates(found: Freedom | Intervals) -> Fit:
    """What a figure needs of the fit, from the ranges of its proportions and topics alone."""
    proportions = getattr(found, "proportions", None)  # those of intervals are means
    L = found.mean if proportions is None else proportions  # type: ignore[union-attr]
    F = (found.topics_low + found.topics_high) / 2
    return Fit(L, F / F.sum(axis=0), pd.DataFrame(), "converged", np.nan, samples=found.samples)


def freedom(
    found: Freedom | Intervals,
    fit: FitLike | None = None,
    topics: int | Iterable[int] | None = None,
    order: str | ArrayLike | None = None,
    colors: Sequence[str] | None = None,
) -> NDArray[np.object_]:
    """Draw between which values the proportions of every sample can move; a dark line is where the fit has them.

    Parameters
    ----------
    found : Freedom or Intervals
        What `unmix.freedom` or `unmix.intervals` says of the fit.
    fit : Fit, estimator or path, default=None
        The fit itself: it names topics, and has the metadata. By default topics have numbers only.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    order : str or array-like, default=None
        Samples are sorted by this number or date: a column of `fit.metadata`, or one value per sample. By default similar samples
        are side by side.
    colors : sequence of str, default=None
        Of the topics; by default `topic_colors`.

    Returns
    -------
    array of Axes
        One panel per topic.

    Raises
    ------
    ValueError
        If the ranges are of a different fit, or the order is not of numbers or dates.

    See Also
    --------
    freedom

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> panels = um.plot.freedom(um.freedom(fit), fit)
    """
    named, fit = fit is not None, _estimates(found) if fit is None else fit_of(fit)
    if fit.L.shape != found.low.shape:
        raise ValueError(
            f"the fit has loadings of shape {fit.L.shape}, the ranges {found.low.shape}; use the fit they are of"
        )
    shown = fair_sample(np.zeros(len(fit.L), dtype=np.intp), MOST_SAMPLES)
    places = scale_of(fit, order)
    members = ordered(fit, shown, places)
    drawn = topic_places(fit, topics)
    panels = new_grid(len(drawn), 1, (9, max(0.75, min(1.6, 9 / len(drawn)))), sharex=True, sharey=True)
    names = topic_names(fit) if named else [f"topic {k + 1}" for k in range(fit.n_topics)]
    paint = topic_colors(fit) if colors is None else colors
    edges = np.arange(len(members) + 1)
    for ax, k in zip(panels, drawn, strict=True):
        low, high, own = (
            np.append(values[members, k], values[members[-1], k]) for values in (found.low, found.high, fit.proportions)
        )
        ax.fill_between(edges, low, step="post", color=paint[k], linewidth=0)
        ax.fill_between(edges, low, high, step="post", color=paint[k], alpha=PALE, linewidth=0)
        ax.step(edges, own, where="post", color="0.15", linewidth=0.8)
        tidy(ax)
        ax.set_title(names[k], loc="left", fontsize=9, parse_math=False)
        ax.tick_params(axis="x", length=0)
    panels[0].set(xlim=(0, len(members)), ylim=(0, min(1.0, 1.05 * float(found.high[members][:, drawn].max()))))
    last = panels[-1]
    if places is not None:
        label_scale(last, Scale(places.numbers[members], places.dates))
    elif fit.samples is not None and len(members) <= MOST_NAMES:
        last.set_xticks(edges[:-1] + 0.5, fit.samples[members], rotation=90, fontsize=7, parse_math=False)
    else:
        last.set_xticks([])
    part = f" ({len(members):,} of {len(fit.L):,})" if len(members) < len(fit.L) else ""
    last.set_xlabel(f"{axis_title(None, order)}{part}", parse_math=False)
    open_to = "proportion: decided, and open (pale)"
    label = f"proportion, and its {found.level:.0%} interval (pale)" if isinstance(found, Intervals) else open_to
    figure_of(panels[0]).supylabel(label, fontsize=9)
    return panels
