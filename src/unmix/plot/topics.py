"""Figures of topics: top features, one topic against the others, similarity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from unmix.analysis import (
    distinctive_features,
    log_fold_change,
    match_topics,
    topic_distances,
    topic_names,
    topic_order,
)
from unmix.analysis.application import FitLike, fit_of
from unmix.analysis.assign import Assignment
from unmix.analysis.compare import CatalogueMatch, Comparison
from unmix.analysis.features import distinctiveness, topic_place, topic_places
from unmix.base.checks import choice, short, whole
from unmix.plot.style import (
    MANY_POINTS,
    QUIET,
    bare,
    color_bar,
    figure_of,
    new_axes,
    palette,
    panels_for,
    place_labels,
    tidy,
    topic_colors,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LONGEST_LABEL = 18  # letters
MOST_COLUMNS, PANEL_WIDTH = 5, 2.7  # inches


def top_features(
    fit: FitLike,
    n: int = 10,
    topics: int | Iterable[int] | None = None,
    ax: Axes | None = None,
    colors: Sequence[str] | None = None,
) -> Axes | NDArray[np.object_]:
    """One panel per topic: the features of `fit.top_features`, the most distinctive at the top.

    The coloured bar is the share of the feature in the topic, the grey one behind it its share in all samples.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    n : int, default=10
        How many of each topic.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Where to draw one topic; by default a new figure with one panel per topic.
    colors : sequence of str, default=None
        Of the topics; by default `topic_colors`.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If n is below 1, there is no such topic, or `ax` is to hold several.

    See Also
    --------
    analysis.top_features

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> panels = um.plot.top_features(fit, n=2)
    """
    fit = fit_of(fit)
    places = topic_places(fit, topics)
    whole("n", n, 1)
    panels = panels_for(places, ax, MOST_COLUMNS, (PANEL_WIDTH, 0.6 + 0.19 * n))
    best, names, overall = distinctive_features(fit, n), fit.feature_names, fit.topics @ fit.shares
    colors = topic_colors(fit) if colors is None else colors
    for k, panel in zip(places, panels, strict=True):
        rows, heights = best[k], np.arange(len(best[k]))
        panel.barh(heights, overall[rows], height=0.86, color="0.86")
        panel.barh(heights, fit.topics[rows, k], height=0.5, color=colors[k])
        panel.set_yticks(heights, [short(names[j], LONGEST_LABEL) for j in rows], fontsize=8, parse_math=False)
        panel.set_ylim(max(len(rows), 1) - 0.5, -0.5)
        panel.set_xlim(0, None)
        panel.locator_params(axis="x", nbins=4)
        panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", labelsize=7.5)
        tidy(panel, grid="x")
        panel.spines["left"].set_visible(False)
        panel.set_title(f"{fit.labels[k]} · {fit.shares[k]:.1%}", loc="left", fontsize=10, parse_math=False)
    what = "share of counts: coloured in the topic, grey in all samples"
    if ax is not None:
        ax.set_xlabel(what)
        return ax
    figure_of(panels[0]).supxlabel(what, fontsize=9)
    return panels


# What sets a topic apart: how much more it uses each feature than other topics do, against how frequent it is.

LONGEST_FEATURE = 20  # letters
LOWEST_FREQUENCY = 1e-3  # of the average one, where the figure ends
RAREST = 1e-6  # frequency on the axes of Carbonetto et al.
COMPARED = {"rest": "the others", "next": "the next"}


def topic_features(
    fit: FitLike,
    topic: int,
    against: Literal["rest", "next"] = "rest",
    n: int = 20,
    pseudocount: float = 1.0,
    ax: Axes | None = None,
    *,
    axes: Literal["lift", "frequencies"] = "lift",
) -> Axes:
    """One point per feature: its frequency in all samples (across), and log₂ of its lift in the topic (up).

    Frequencies below a thousandth of the average are shown as that.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    topic : int
        The number of the topic, from 1.
    against : str, default="rest"
        "rest": compared with the other topics, weighted by their shares. "next": with that one of them that uses the
        feature most, which only features of this topic alone survive.
    n : int, default=20
        The most distinctive features, by √share × log lift, get their names, as space permits.
    pseudocount : float, default=1.0
        Counts added to both sides of the comparison. The larger, the closer to zero are features with few counts, whose
        frequencies are mostly noise. See `unmix.analysis.log_fold_change`.
    ax : Axes, default=None
        Where to draw; by default a new figure.
    axes : str, default="lift"
        "frequencies": the frequency in the other topics across and that in the topic up, both at least a millionth, as
        Carbonetto et al. draw them: features of the topic lie above the diagonal.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If there is no such topic, or no other one to compare with.

    See Also
    --------
    plot.volcano : The same question with errors.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.topic_features(fit, 1)
    """
    fit = fit_of(fit)
    k = topic_place(fit, topic)
    changes, overall = log_fold_change(fit, topic, against, pseudocount), fit.topics @ fit.shares
    seen = np.flatnonzero(overall > 0)
    overall = np.maximum(overall, LOWEST_FREQUENCY / len(overall))
    scores = distinctiveness(fit.topics[:, k], 2**changes)
    named = np.argsort(-scores, kind="stable")[: max(n, 0)]
    named = named[scores[named] > 0]
    ax = new_axes(8, 5.5) if ax is None else ax
    labels = ["frequency in all samples", "log₂ lift: frequency in the topic / in " + COMPARED[against]]
    if choice("axes", axes, ("lift", "frequencies")) == "frequencies":
        others = np.maximum(fit.topics @ fit.shares - fit.shares[k] * fit.topics[:, k], 0) / (1 - fit.shares[k])
        overall, changes = np.maximum(others, RAREST), np.maximum(fit.topics[:, k], RAREST)
        labels = ["frequency in the other topics", "frequency in the topic"]
        ax.set_yscale("log")
        ax.axline((RAREST, RAREST), (1, 1), color="0.6", linewidth=0.8, zorder=0.5)
    else:
        ax.axhline(0, color="0.6", linewidth=0.8, zorder=0.5)
    ax.scatter(overall[seen], changes[seen], s=6, color="0.75", linewidths=0, rasterized=len(seen) > MANY_POINTS)
    ax.scatter(overall[named], changes[named], s=18, color=topic_colors(fit)[k], linewidths=0, zorder=2)
    ax.set_xscale("log")
    ax.margins(x=0.06, y=0.06)
    tidy(ax)
    ax.set_title("topic " + topic_names(fit)[k], loc="left", fontsize=11, parse_math=False)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    names = fit.feature_names
    place_labels(ax, overall[named], changes[named], [short(names[j], LONGEST_FEATURE) for j in named])
    return ax


# How alike topics are, within a fit or between two: a heat map of 1 − Hellinger distance.

MOST_WITH_NUMBERS = 12  # topics; beyond that figures in the cells are too small to read


def similarity(fit: FitLike, other: FitLike | None = None, ax: Axes | None = None) -> Axes:
    """A cell for each pair of topics: 1 where they are the same, 0 where they share no feature.

    Rows are the topics of `fit`, the heaviest first. Columns are the same, or the topics of the `other` fit, each on the
    diagonal with its match; those without one come last. `unmix.analysis.match_topics` matches them.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    other : Fit, estimator or path, default=None
        Of the same features; by default the fit itself.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If the features are not the same.

    See Also
    --------
    analysis.topic_distances, compare

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.similarity(fit)
    """
    fit, other = fit_of(fit), None if other is None else fit_of(other)
    rows = topic_order(fit)
    columns = rows
    if other is not None:
        partners = match_topics(fit, other)
        matched = [partners[k] for k in rows if k in partners]
        columns = np.array(matched + [k for k in topic_order(other) if k not in matched], dtype=np.intp)
    if ax is None:
        ax = new_axes(5 + 0.36 * len(columns), (2 if other is None else 3.2) + 0.32 * len(rows))
    shown = (1 - topic_distances(fit, other))[np.ix_(rows, columns)]
    image = ax.imshow(shown, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    names = topic_names(fit)
    others = [str(k + 1) for k in range(fit.n_topics)] if other is None else topic_names(other)
    size = 9 if max(len(rows), len(columns)) <= 20 else 7
    ax.set_yticks(range(len(rows)), [names[k] for k in rows], fontsize=size, parse_math=False)
    across, rotation = [others[k] for k in columns], 0 if other is None else 90
    ax.set_xticks(range(len(columns)), across, fontsize=size, parse_math=False, rotation=rotation)
    bare(ax)
    ax.set_xlabel("topics" if other is None else "topics of the other fit")
    ax.set_ylabel("topics")
    if max(len(rows), len(columns)) <= MOST_WITH_NUMBERS:
        for (i, j), value in np.ndenumerate(shown):
            color = "white" if value > 0.65 else "0.1"
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7.5, color=color)
    color_bar(ax, image, "similarity")
    return ax


def matches(found: Comparison | CatalogueMatch, ax: Axes | None = None) -> Axes:
    """One bar per topic: the cosine similarity to its match in a different fit or in a catalogue.

    Parameters
    ----------
    found : Comparison or CatalogueMatch
        What `unmix.compare` or `unmix.match_catalogue` found.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    See Also
    --------
    compare, match_catalogue, plot.similarity

    Examples
    --------
    >>> import unmix as um
    >>> one = um.PoissonNMF.from_factors([[8, 0], [2, 5], [0, 5]]).result_
    >>> ax = um.plot.matches(um.compare(one, one))
    """
    table = found.table[found.table["topic"].notna()]
    fits = isinstance(found, Comparison)
    partners = table["other_label" if fits else "best"]
    rows = np.arange(len(table))[::-1]
    if ax is None:
        ax = new_axes(7.5, 1.2 + 0.32 * len(table))
    ax.barh(rows, table["cosine"].fillna(0), height=0.7, color=palette(1)[0])
    for row, partner, cosine in zip(rows, partners, table["cosine"], strict=True):
        text = "no match" if np.isnan(cosine) else f"{cosine:.2f}  {partner}"
        ax.text(0.0 if np.isnan(cosine) else cosine, row, f"  {text}", va="center", fontsize=8, parse_math=False)
    ax.set_yticks(rows, [short(str(name), 2 * LONGEST_LABEL) for name in table["label"]], fontsize=8, parse_math=False)
    ax.set(xlim=(0, 1), xlabel=f"cosine similarity to its match in the {'other fit' if fits else 'catalogue'}")
    tidy(ax)
    return ax


MOST_TOPICS = 40  # of a figure
FAINTEST = 0.4  # of a point


def assignment(found: Assignment, ax: Axes | None = None, colors: Sequence[str] | None = None) -> Axes:
    """Draw what `unmix.assign` found: a row per topic, the most frequent first, and a point per sample that has it.

    Points are at the exposure, on a logarithmic scale, and are fainter where the probability is lower. A line marks the
    median, and the number of samples is on the right.

    Parameters
    ----------
    found : Assignment
        The result.
    ax : Axes, default=None
        Where to draw; by default a new figure.
    colors : sequence of str, default=None
        Of the topics, in the order of the catalogue; by default `palette`, the most frequent topic first.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("assigned.png")`.

    Raises
    ------
    ValueError
        If no sample has counts.

    See Also
    --------
    assign, plot.structure, plot.signature

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[80, 9, 11, 0], [1, 49, 70, 21]])
    >>> found = um.assign(X, [[0.8, 0, 0], [0.1, 0.5, 0], [0.1, 0.5, 0.5], [0, 0, 0.5]])
    >>> um.plot.assignment(found).get_xlabel()
    'exposure (counts)'
    """
    names, table = found.names.tolist(), found.summary.head(MOST_TOPICS)
    if not len(table):
        raise ValueError("no sample has counts; there is nothing to draw")
    places = [names.index(name) for name in table["topic"]]
    paint = dict(zip(places, palette(len(places)), strict=True)) if colors is None else dict(enumerate(colors))
    if ax is None:
        ax = new_axes(7.5, 1.1 + 0.27 * len(table))
    spread = np.random.default_rng(0)
    for height, k in enumerate(places):
        rows = np.flatnonzero(found.exposures[:, k] > 0)
        shift = 0.28 * (2 * spread.random(len(rows)) - 1) if len(rows) > 1 else np.zeros(1)
        strength = FAINTEST + (1 - FAINTEST) * found.probabilities[rows, k]
        how = {"s": 12, "color": paint[k], "alpha": strength, "linewidth": 0, "rasterized": len(rows) > MANY_POINTS}
        ax.scatter(found.exposures[rows, k], height + shift, **how)
        ax.plot([np.median(found.exposures[rows, k])] * 2, [height - 0.38, height + 0.38], color="0.15", linewidth=1.2)
    ax.set_xscale("log")
    ax.set_yticks(
        range(len(places)), [short(names[k], 2 * LONGEST_LABEL) for k in places], fontsize=8, parse_math=False
    )
    ax.set_ylim(len(places) - 0.4, -0.6)
    n = int((found.exposures.sum(axis=1) > 0).sum())
    for height, many in enumerate(table["samples"]):
        ax.text(
            1.01,
            height,
            f"{many:,} of {n:,}",
            transform=ax.get_yaxis_transform(),
            va="center",
            fontsize=7.5,
            color=QUIET,
        )
    left = len(found.summary) - len(table)
    ax.set_xlabel("exposure (counts)" + (f"; {left} rarer topics are not shown" if left else ""))
    tidy(ax, grid="x")
    return ax
