"""Figures of differences: volcano plots, heat maps, counts of features."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from unmix.analysis import Differences
from unmix.analysis.features import topic_place, topic_places
from unmix.base.checks import choice, short, whole
from unmix.base.types import Floats, Integers
from unmix.plot.style import MANY_POINTS, bare, color_bar, literal, new_axes, place_labels, sentence, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LONGEST_LABEL = 22  # letters
SURE = 0.05  # an lfsr below which a cell has its dot


def differences(
    differences: Differences, n: int = 5, topics: int | Iterable[int] | None = None, ax: Axes | None = None
) -> Axes:
    """The features of each topic that it uses significantly more and that change most, and what they do in all topics.

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
    whole("n", n, 1)
    columns = topic_places(differences, topics)
    rows: dict[int, None] = {}
    for k in columns:
        up = np.flatnonzero((differences.lfsr[:, k] < SURE) & (differences.lfc[:, k] > 0))
        rows |= dict.fromkeys(up[np.argsort(-differences.lfc[up, k], kind="stable")][:n].tolist())
    places = list(rows)
    ax = new_axes(3 + 0.42 * len(columns), 1.6 + 0.19 * max(len(places), 2)) if ax is None else ax
    if not places:
        ax.set_axis_off()
        sentence(ax, "no significant difference")
        return ax
    shown = differences.lfc[np.ix_(places, columns)]
    largest = float(np.nanmax(np.abs(shown), initial=1.0))
    image = ax.imshow(
        np.ma.masked_invalid(shown), cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest"
    )
    ax.set_facecolor("0.93")  # where nothing is known
    sure = np.argwhere(differences.lfsr[np.ix_(places, columns)] < SURE)
    ax.scatter(sure[:, 1], sure[:, 0], s=3, color="0.1", linewidths=0)
    names = [short(differences.names[j], LONGEST_LABEL) for j in places]
    ax.set_yticks(range(len(places)), names, fontsize=8, parse_math=False)
    ax.set_xticks(range(len(columns)), [str(k + 1) for k in columns], fontsize=8)
    bare(ax)
    ax.set_xlabel("topics")
    color_bar(ax, image, f"log₂ fold change against {differences.other}")
    return ax


# What sets a topic apart, with errors: a point a feature, its change across and how sure, or how frequent, it is up.

LONGEST_POINT = 20  # letters
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

    Colours show the local false sign rate.

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
        This many features, those of the largest |change × z| among the significantly different, get their names as far as there
        is space; half of them, or more, are used more.
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
    choice("y", y, ("z", "frequency"))
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
    ax.set_xlabel(f"log₂ fold change, shrunk, against {differences.other}")
    used = "topics found in the same counts" if differences.used_twice else "topics found in other counts"
    ax.set_title(f"topic {topic}: distinctive features ({used})", loc="left", fontsize=11)
    legend = ax.legend(title="lfsr", loc="best", frameon=False, fontsize=8, markerscale=1.6)
    literal(legend.get_texts())
    named = most_different(differences, k, n)
    names = [short(differences.names[j], LONGEST_POINT) for j in named]
    place_labels(ax, changes[named], np.minimum(up[named], highest), names)
    return ax


def most_different(differences: Differences, k: int, n: int) -> Integers:
    """Rows of the significantly different features of a topic with the largest |change × z|: half of them, or more, used
    more."""
    scores = np.abs(differences.lfc[:, k] * differences.z[:, k])
    scores = np.where((differences.lfsr[:, k] < CLASSES[-1][0]) & np.isfinite(scores), scores, 0)
    order = np.argsort(-scores, kind="stable")[: int((scores > 0).sum())]
    more, less = order[differences.lfc[order, k] > 0], order[differences.lfc[order, k] < 0]
    few = max(n, 0) - min(len(less), max(n, 0) // 2)  # names that those used more may have
    return np.concatenate([more[:few], less[: max(n, 0) - min(len(more), few)]])


def _points(ax: Axes, across: Floats, up: Floats, lfsr: Floats, shown: Integers, highest: float) -> None:
    """Class by class of the lfsr, the most significant on top; triangles where they are too high."""
    bounds = [(1.1, UNSURE, f"≥ {CLASSES[-1][0]}"), *((bound, color, f"< {bound}") for bound, color in CLASSES[::-1])]
    for place, (bound, color, name) in enumerate(bounds):
        surer = bounds[place + 1][0] if place + 1 < len(bounds) else -1.0
        mine = shown[(lfsr[shown] < bound) & (lfsr[shown] >= surer)]
        size = 6 if place == 0 else 12
        scatter = partial(ax.scatter, color=color, linewidths=0, zorder=1 + place / 10)
        inside, beyond = mine[up[mine] <= highest], mine[up[mine] > highest]
        scatter(across[inside], up[inside], s=size, label=name, rasterized=len(inside) > MANY_POINTS)
        if len(beyond):
            scatter(across[beyond], np.full(len(beyond), highest), s=2 * size, marker="^", clip_on=False)


# What splitting the counts does to tests.


def held_out(naive: Differences, honest: Differences, ax: Axes | None = None) -> Axes:
    """One point per feature and topic: its z where counts are used twice, and where some were held out for the test.

    What is real is along the dashed line, which is less steep than the dotted one as there are fewer counts; what noise made
    has no z left and is along the axis.

    Parameters
    ----------
    naive, honest : Differences
        What `unmix.differences` found without and with `held_out`, of the same features and topics.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If the two are of different features or topics, or the second was not held out.

    See Also
    --------
    differences

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> model = um.TopicModel(3, tol=1e-4, random_state=0).fit(X)
    >>> ax = um.plot.held_out(um.differences(model, X), um.differences(model, X, held_out=0.5, random_state=0))
    """
    if naive.z.shape != honest.z.shape:
        raise ValueError(
            f"z of shapes {naive.z.shape} and {honest.z.shape}; use differences of the same features and topics"
        )
    if honest.held_out is None:
        raise ValueError("the second of the two was not held out; use one from differences(..., held_out=0.5)")
    known = np.isfinite(naive.z) & np.isfinite(honest.z)
    across, up = naive.z[known], honest.z[known]
    ax = new_axes(5.5, 5.2) if ax is None else ax
    ends = np.array([-1.0, 1.0]) * float(np.abs(np.concatenate([across, up, [1.0]])).max()) * 1.05
    ax.axhspan(-1.96, 1.96, color="0.94", linewidth=0, zorder=0)
    ax.plot(ends, ends, color="0.5", linewidth=0.8, linestyle=":")
    ax.plot(ends, np.sqrt(honest.held_out) * ends, color="0.5", linewidth=0.8, linestyle="--")
    ax.scatter(across, up, s=5, color="#0072B2", alpha=0.4, linewidths=0, rasterized=len(up) > MANY_POINTS)
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    tidy(ax)
    beyond = [float((np.abs(z) > 1.96).mean()) if len(z) else 0.0 for z in (across, up)]
    ax.set_xlabel(f"z from the counts that made the topics ({beyond[0]:.0%} beyond ±1.96)")
    ax.set_ylabel(f"z from counts held out ({beyond[1]:.0%} beyond ±1.96)")
    return ax
