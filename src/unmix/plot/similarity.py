"""How alike topics are, within a fit or between two: a heat map of 1 − Hellinger distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unmix.analysis import match_topics, topic_distances, topic_names, topic_order
from unmix.fit import Fit
from unmix.plot.style import figure_of, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_WITH_NUMBERS = 12  # topics; beyond that figures in the cells are too small to read


def similarity(fit: Fit, other: Fit | None = None, ax: Axes | None = None) -> Axes:
    """A cell for each pair of topics: 1 where they are the same, 0 where they share no feature.

    Rows are the topics of `fit`, the heaviest first. Columns are the same, or the topics of the `other` fit, each on the
    diagonal with its match; those without one come last. `unmix.analysis.match_topics` matches them.

    Parameters
    ----------
    fit : Fit
        Of any model.
    other : Fit, default=None
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
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("topics" if other is None else "topics of the other fit")
    ax.set_ylabel("topics")
    if max(len(rows), len(columns)) <= MOST_WITH_NUMBERS:
        for (i, j), value in np.ndenumerate(shown):
            colour = "white" if value > 0.65 else "0.1"
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    figure_of(ax).colorbar(image, ax=ax, label="similarity", shrink=0.8).outline.set_visible(False)
    return ax
