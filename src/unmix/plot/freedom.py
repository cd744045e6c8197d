"""Ranges of proportions: a lane for every topic, in full colour as far as the data decide, pale where they leave it open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmix.analysis import Freedom, fair_sample, topic_names
from unmix.analysis.features import topic_places
from unmix.analysis.samples import Scale
from unmix.fit import Fit
from unmix.plot.samples import MOST_NAMES, MOST_SAMPLES, axis_title, label_scale, ordered, scale_of
from unmix.plot.style import figure_of, new_grid, tidy, topic_colours

PALE = 0.3


def freedom(
    found: Freedom,
    fit: Fit,
    topics: int | Iterable[int] | None = None,
    order: str | ArrayLike | None = None,
    colours: Sequence[str] | None = None,
) -> NDArray[np.object_]:
    """Draw between which values the proportions of every sample can move; a dark line is where the fit has them.

    Parameters
    ----------
    found : Freedom
        What `unmix.freedom` says of the fit.
    fit : Fit
        The fit itself: it names topics and samples.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    order : str or array-like, default=None
        Samples stand by this number or date: a column of `fit.metadata`, or one value per sample. By default similar samples
        stand side by side.
    colours : sequence of str, default=None
        Of the topics; by default `topic_colours`.

    Returns
    -------
    array of Axes
        One panel a topic.

    Raises
    ------
    ValueError
        If the ranges are of another fit, or the order is not of numbers or dates.

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
    if fit.L.shape != found.low.shape:
        raise ValueError(
            f"the fit has loadings of shape {fit.L.shape}, the ranges {found.low.shape}; give the fit they are of"
        )
    shown = fair_sample(np.zeros(len(fit.L), dtype=np.intp), MOST_SAMPLES)
    places = scale_of(fit, order)
    members = ordered(fit, shown, places)
    drawn = topic_places(fit, topics)
    panels = new_grid(len(drawn), 1, (9, max(0.75, min(1.6, 9 / len(drawn)))), sharex=True, sharey=True)
    names, paint = topic_names(fit), topic_colours(fit) if colours is None else colours
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
    figure_of(panels[0]).supylabel("proportion: decided, and open (pale)", fontsize=9)
    return panels
