"""Features that set topics apart, as a heat map: features down, topics across, changes as colours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from unmix.analysis import Differences
from unmix.analysis.topics import short, topic_place
from unmix.plot.style import QUIET, figure_of, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_LABEL = 22  # letters
SURE = 0.05  # an lfsr below which a cell has its dot


def differences(
    differences: Differences, n: int = 5, topics: int | Iterable[int] | None = None, ax: Axes | None = None
) -> Axes:
    """The features of each topic that it surely uses more and that change most, and what they do in all topics.

    Red is more, blue is less, by the shrunk log₂ fold change; a dot marks an lfsr below 0.05.

    Parameters
    ----------
    differences : Differences
        What `unmix.differences` found.
    n : int, default=5
        Features of each topic, at most: those of `Differences.top`, without repeats.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If there is no such topic, or n is below 1.

    See Also
    --------
    differences, plot.volcano

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.differences(um.differences(fit, X))
    """
    if n < 1:
        raise ValueError(f"n: {n} features cannot be drawn; give at least 1")
    numbers = topics if isinstance(topics, Iterable) else None if topics is None else [topics]
    heaviest = np.argsort(-differences.shares, kind="stable")
    columns = (
        [int(k) for k in heaviest] if numbers is None else [topic_place(differences, number) for number in numbers]
    )
    rows: dict[int, None] = {}
    for k in columns:
        up = np.flatnonzero((differences.lfsr[:, k] < SURE) & (differences.lfc[:, k] > 0))
        rows |= dict.fromkeys(up[np.argsort(-differences.lfc[up, k], kind="stable")][:n].tolist())
    places = list(rows)
    ax = new_axes(3 + 0.42 * len(columns), 1.6 + 0.19 * max(len(places), 2)) if ax is None else ax
    if not places:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "nothing surely differs", transform=ax.transAxes, ha="center", va="center", color=QUIET)
        return ax
    shown = differences.lfc[np.ix_(places, columns)]
    largest = float(np.nanmax(np.abs(shown), initial=1.0))
    image = ax.imshow(
        np.ma.masked_invalid(shown), cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest"
    )
    ax.set_facecolor("0.93")  # where nothing is known
    sure = np.argwhere(differences.lfsr[np.ix_(places, columns)] < SURE)
    ax.scatter(sure[:, 1], sure[:, 0], s=3, color="0.1", linewidths=0)
    ax.set_yticks(range(len(places)), [short(differences.names[j], LONGEST_LABEL) for j in places], fontsize=8)
    for label in ax.get_yticklabels():
        label.set_parse_math(False)
    ax.set_xticks(range(len(columns)), [str(k + 1) for k in columns], fontsize=8)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("topics")
    against = differences.against if isinstance(differences.against, str) else f"topic {differences.against}"
    bar = figure_of(ax).colorbar(image, ax=ax, shrink=0.8)
    bar.set_label(f"log₂ fold change against {against}")
    bar.outline.set_visible(False)
    return ax
