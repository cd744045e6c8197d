"""The most distinctive features of topics as bars, each before a ghost: its frequency in all samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unmix.analysis import distinctive_features
from unmix.analysis.features import feature_names
from unmix.analysis.topics import short, topic_places
from unmix.fit import Fit
from unmix.plot.palette import topic_colours
from unmix.plot.style import figure_of, new_grid, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_LABEL = 18  # letters
MOST_COLUMNS, PANEL_WIDTH = 5, 2.7  # inches


def top_features(
    fit: Fit,
    n: int = 10,
    topics: int | Iterable[int] | None = None,
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes | NDArray[np.object_]:
    """One panel per topic: the features of `fit.top_features`, the most distinctive at the top.

    The coloured bar is the share of the feature in the topic, the grey one behind it its share in all samples.

    Parameters
    ----------
    fit : Fit
        Of any model.
    n : int, default=10
        How many of each topic.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Where to draw one topic; by default a new figure with one panel per topic.
    colours : sequence of str, default=None
        Of the topics; by default `topic_colours`.

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
    places = topic_places(fit, topics)
    if n < 1:
        raise ValueError(f"n: {n} features cannot be drawn; give at least 1")
    if ax is not None and len(places) != 1:
        raise ValueError(f"ax holds one topic, and {len(places)} were asked for; give one, as topics=3, or no ax")
    panels = (
        new_grid(len(places), MOST_COLUMNS, (PANEL_WIDTH, 0.6 + 0.19 * n))
        if ax is None
        else np.array([ax], dtype=object)
    )
    best, names, overall = distinctive_features(fit, n), feature_names(fit), fit.topics @ fit.shares
    colours = topic_colours(fit) if colours is None else colours
    for k, panel in zip(places, panels, strict=True):
        rows, heights = best[k], np.arange(len(best[k]))
        panel.barh(heights, overall[rows], height=0.86, color="0.86")
        panel.barh(heights, fit.topics[rows, k], height=0.5, color=colours[k])
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
