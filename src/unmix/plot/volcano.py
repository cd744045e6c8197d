"""What sets a topic apart, with errors: a point a feature, its change across and how sure, or how frequent, it is up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from unmix.analysis import Differences
from unmix.analysis.topics import short, topic_place
from unmix.plot.labels import place_labels
from unmix.plot.style import MANY_POINTS, literal, new_axes, tidy
from unmix.types import Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_LABEL = 20  # letters
CLASSES = ((0.001, "#D55E00"), (0.01, "#E69F00"), (0.05, "#56B4E9"))  # lfsr below, and colour
UNSURE = "0.8"


def volcano(
    differences: Differences,
    topic: int,
    y: Literal["z", "frequency"] = "z",
    n: int = 20,
    ymax: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One point per feature: its shrunk log₂ fold change in the topic (across), and |z| on a square-root scale (up).

    Colours tell the local false sign rate.

    Parameters
    ----------
    differences : Differences
        What `unmix.differences` found.
    topic : int
        The number of the topic, from 1.
    y : str, default="z"
        "z": how many errors the change is from none. "frequency": how frequent the feature is in all samples, on a log scale,
        which makes it an MA plot.
    n : int, default=20
        So many features, those of the largest |change × z| among the surely different, get their names as far as there is room;
        half of them, or more, are used more.
    ymax : float, default=None
        Points above are shown there, as triangles.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If there is no such topic, or y is neither.

    See Also
    --------
    differences, plot.differences

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.volcano(um.differences(fit, X), topic=1)
    """
    k = topic_place(differences, topic)
    if y not in ("z", "frequency"):
        raise ValueError(f"y: {y!r} is unknown; choose 'z' or 'frequency'")
    changes, lfsr = differences.lfc[:, k], differences.lfsr[:, k]
    up = np.abs(differences.z[:, k]) if y == "z" else differences.frequency
    shown = np.flatnonzero(np.isfinite(changes) & np.isfinite(up))
    highest = np.inf if ymax is None else float(ymax)
    ax = new_axes(8, 5.5) if ax is None else ax
    ax.axvline(0, color="0.6", linewidth=0.8, zorder=0.5)
    _points(ax, changes, up, lfsr, shown, highest)
    if y == "z":
        ax.set_yscale("function", functions=(lambda value: np.sqrt(np.maximum(value, 0)), np.square))
        ax.set_ylim(0, ymax or 1.08 * float(up[shown].max(initial=1.0)))
        ax.set_ylabel("|z|: change in units of its error")
    else:
        ax.set_yscale("log")
        ax.set_ylabel("frequency in all samples")
    ax.margins(x=0.08)
    tidy(ax)
    against = differences.against if isinstance(differences.against, str) else f"topic {differences.against}"
    ax.set_xlabel(f"log₂ fold change, shrunk, against {against}")
    used = "topics found in the same counts" if differences.used_twice else "topics found in other counts"
    ax.set_title(f"topic {topic}: what sets it apart ({used})", loc="left", fontsize=11)
    legend = ax.legend(title="lfsr", loc="best", frameon=False, fontsize=8, markerscale=1.6)
    literal(legend.get_texts())
    named = most_different(differences, k, n)
    names = [short(differences.names[j], LONGEST_LABEL) for j in named]
    place_labels(ax, changes[named], np.minimum(up[named], highest), names)
    return ax


def most_different(differences: Differences, k: int, n: int) -> Integers:
    """Rows of the surely different features of a topic with the largest |change × z|: half of them, or more, used more."""
    scores = np.abs(differences.lfc[:, k] * differences.z[:, k])
    scores = np.where((differences.lfsr[:, k] < CLASSES[-1][0]) & np.isfinite(scores), scores, 0)
    order = np.argsort(-scores, kind="stable")[: int((scores > 0).sum())]
    more, less = order[differences.lfc[order, k] > 0], order[differences.lfc[order, k] < 0]
    few = max(n, 0) - min(len(less), max(n, 0) // 2)  # names that those used more may have
    return np.concatenate([more[:few], less[: max(n, 0) - min(len(more), few)]])


def _points(ax: Axes, across: Floats, up: Floats, lfsr: Floats, shown: Integers, highest: float) -> None:
    """Class by class of the lfsr, the surest on top; triangles where they are too high."""
    bounds = [(1.1, UNSURE, f"≥ {CLASSES[-1][0]}"), *((bound, colour, f"< {bound}") for bound, colour in CLASSES[::-1])]
    for place, (bound, colour, name) in enumerate(bounds):
        surer = bounds[place + 1][0] if place + 1 < len(bounds) else -1.0
        mine = shown[(lfsr[shown] < bound) & (lfsr[shown] >= surer)]
        size = 6 if place == 0 else 12
        for high, mark in ((False, "o"), (True, "^")):
            some = mine[(up[mine] > highest) == high]
            if len(some) or not high:
                ax.scatter(
                    across[some],
                    np.minimum(up[some], highest),
                    s=2 * size if high else size,
                    color=colour,
                    marker=mark,
                    linewidths=0,
                    label="_" if high else name,
                    zorder=1 + place / 10,
                    clip_on=not high,
                    rasterized=len(some) > MANY_POINTS,
                )
