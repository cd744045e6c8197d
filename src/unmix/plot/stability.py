"""Which topics are recovered: a bar for each, all topics of all runs side by side, and how densely they lie."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.analysis import Alignment, Quality, Stability
from unmix.base.checks import choice, short
from unmix.base.types import Floats
from unmix.plot.style import QUIET, bare, color_bar, in_order, new_axes, new_figure, palette, place_labels, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LONGEST_NAME = 34  # letters
PALE = {"stable": 1.0, "unsure": 0.55, "unstable": 0.22, "empty": 0.22}  # how strong the colour of a bar is


def stability(
    found: Stability, what: Literal["topics", "runs", "density"] | None = None, ax: Axes | None = None
) -> Axes | NDArray[np.object_]:
    """Draw what `unmix.stability` found.

    Parameters
    ----------
    found : Stability
        The result.
    what : str, default=None
        "topics": a bar for each topic, as long as its stability, pale where it is not stable; a point for each run, a line at
        the floor, which unrelated topics would reach. "runs": a cell for each two topics of all runs, dark where they are
        similar, those of a topic side by side: a stable topic is a dark square. "density": how far the topics of runs are from
        the nearest others. By default all three, in one figure.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes or array of Axes
        The three panels, or the one Axes if `what` or `ax` is given.

    Raises
    ------
    ValueError
        If `what` is none of these.

    See Also
    --------
    stability

    Examples
    --------
    >>> import unmix as um
    >>> found = um.stability([[90, 10, 0], [80, 20, 10], [0, 10, 70], [10, 0, 80]], 2, runs=4, random_state=0)
    >>> panels = um.plot.stability(found)
    """
    draw = {"topics": _topics, "runs": _runs, "density": _density}
    if what is not None:
        choice("what", what, tuple(draw), "choose one of topics, runs, density, or None for all")
    if what is not None or ax is not None:
        height = 1.2 + 0.32 * len(found.table)
        ax = (new_axes(8, max(2.4, height)) if what in (None, "topics") else new_axes(5.6, 5)) if ax is None else ax
        draw[what or "topics"](ax, found)
        return ax
    figure = new_figure(13, max(5.0, 1.2 + 0.32 * len(found.table)))
    grid = figure.add_gridspec(2, 2, width_ratios=(1.5, 1), height_ratios=(3, 1))
    panels = np.array([figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])])
    for panel, drawn in zip(panels, draw.values(), strict=True):
        drawn(panel, found)
    return panels


def _colors(found: Stability) -> list[str]:
    """As `topic_colors` of the reference gives them: in the order of shares."""
    return in_order(palette(len(found.table)), np.argsort(-found.table["share"].to_numpy(), kind="stable"))


def _topics(ax: Axes, found: Stability) -> None:
    table, colors, heights = found.table, _colors(found), np.arange(len(found.table))
    for place, row in enumerate(table.itertuples()):
        color = colors[place]
        ax.barh(place, row.stability, height=0.62, color=color, alpha=PALE[row.verdict], linewidth=0)
        ax.plot([row.floor, row.floor], [place - 0.4, place + 0.4], color="0.25", linewidth=1.4)
        runs = np.sort(found.similarity[:, place])
        spread = 0.22 * np.linspace(-1, 1, len(runs))[np.argsort(np.random.default_rng(0).random(len(runs)))]
        ax.scatter(runs, place + spread, s=9, color="white", edgecolors="0.25", linewidths=0.6, zorder=3)
        margin = "" if np.isnan(row.margin) else f" · margin {row.margin:.2f}"
        told = f"{row.verdict} · recall {row.recall:.0%}{margin}"
        style = "normal" if row.verdict == "stable" else "italic"
        ax.text(1.02, place, told, va="center", fontsize=8, color=QUIET, style=style)
    names = [
        f"{short(name, LONGEST_NAME)}  {share:.0%}" for name, share in zip(table["name"], table["share"], strict=True)
    ]
    ax.set_yticks(heights, names, fontsize=9, parse_math=False)
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlim(0, 1)
    ax.tick_params(axis="y", length=0)
    tidy(ax, grid="x")
    ax.spines["left"].set_visible(False)
    again = {"halves": "half of the counts", "bootstrap": "resampled counts", "none": "another start"}[found.noise]
    ax.set_xlabel(f"stability: similarity to the matched topic of each run, of {again}  ( | unrelated topics)")


def _runs(ax: Axes, found: Stability) -> None:
    K, runs, colors = len(found.table), len(found.similarity), _colors(found)
    centred = -found.similarity  # within a topic, the run most like the reference first
    order = np.concatenate([np.argsort(centred[:, k], kind="stable") * K + k for k in range(K)])
    shown = 1 - found.distances[np.ix_(order, order)]
    others = shown[~np.eye(len(shown), dtype=bool)]  # a topic is like itself, which shows nothing
    ends = {"vmin": others.min(initial=1), "vmax": others.max(initial=0)}
    image = ax.imshow(shown, cmap="Blues", interpolation="nearest", rasterized=True, **ends)
    edges = np.arange(1, K) * runs - 0.5
    ax.hlines(edges, -0.5, K * runs - 0.5, color="white", linewidth=0.8)
    ax.vlines(edges, -0.5, K * runs - 0.5, color="white", linewidth=0.8)
    wide = 0.025 * K * runs
    for k in range(K):
        ax.bar(-0.5 - 1.1 * wide, runs, wide, k * runs - 0.5, color=colors[k], clip_on=False)
    middles = np.arange(K) * runs + (runs - 1) / 2
    ax.set_yticks(middles, [str(topic) for topic in found.table["topic"]], fontsize=9 if K <= 20 else 6)
    ax.set_xticks([])
    ax.tick_params(pad=1)
    bare(ax)
    ax.set(xlim=(-0.5 - 1.8 * wide, K * runs - 0.5), ylim=(K * runs - 0.5, -0.5))
    ax.set_title(f"topics of {runs} runs side by side", loc="left", fontsize=10)
    color_bar(ax, image, "likeness")


def _density(ax: Axes, found: Stability) -> None:
    verdicts, runs = found.table["verdict"].to_numpy(), len(found.similarity)
    of_each = np.tile(verdicts, runs)
    there = [word for word in found.VERDICTS if word in verdicts]
    shades = {"stable": "#0072B2", "unsure": "#56B4E9", "unstable": "#D55E00", "empty": "0.6"}
    parts = [found.density[of_each == word] for word in there]
    most = 1.1 * max(found.density.max(), 1e-3)
    ax.hist(
        parts, bins=np.linspace(0, most, 41).tolist(), stacked=True, color=[shades[word] for word in there], label=there
    )
    ax.set_xlim(0, most)
    tidy(ax)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    names = [f"{word} topics" for word in there]
    above = (1.0, 0.98)
    ax.legend(
        names, loc="lower right", bbox_to_anchor=above, ncols=len(names), handlelength=1.0, frameon=False, fontsize=8
    )
    ax.set_xlabel("mean distance to the nearest topics of other runs", fontsize=9)


# Topics from fit to fit: a column per fit, a box a topic, as high as its share, and ribbons as wide as what flows between.

BOX = 0.13  # width, where a column is 1 wide
LONGEST_NODE = 40  # letters
GAPS = 0.35  # of the height, in the column with most topics
LOWEST_WITH_NUMBER = 0.022  # a share, below which there is no space for one


def alignment(aligned: Alignment, ax: Axes | None = None) -> Axes:
    """Draw what `unmix.align` found: how topics divide, join and last.

    Boxes and ribbons have the colour of their path, which is that of a topic of the last fit; a ribbon has that of where it
    goes. The last column is labelled with the top features of its topics.

    Parameters
    ----------
    aligned : Alignment
        The result.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    See Also
    --------
    align

    Examples
    --------
    >>> import unmix as um
    >>> fits = um.fit_path([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], range(1, 4), random_state=0)
    >>> ax = um.plot.alignment(um.align(fits))
    """
    table, fits = aligned.table, list(aligned.fits)
    last = table[table["fit"] == fits[-1]]
    most = int(table.groupby("fit").size().max())
    if ax is None:
        ax = new_axes(max(6.0, 1.35 * len(fits) + 3.2), max(3.6, 0.42 * most + 1.6))
    order = last.sort_values("place")["topic"]  # neighbours in the last column differ most
    colors = dict(zip(order, palette(len(order)), strict=True))
    gap = GAPS / max(1, most - 1)
    tops = {name: _tops(table[table["fit"] == name], gap) for name in fits}
    for x, (name, after) in enumerate(pairwise(fits)):
        _ribbons(ax, x, aligned, name, after, tops, colors)
    for x, name in enumerate(fits):
        _boxes(ax, x, table[table["fit"] == name], tops[name], colors)
    for row in last.itertuples():
        middle = tops[fits[-1]][row.topic - 1] + row.share / 2
        label = short(row.name, LONGEST_NODE)
        ax.text(len(fits) - 1 + BOX, middle, label, va="center", fontsize=8.5, parse_math=False)
    ax.set_ylim(1 + GAPS, -0.01)
    ax.set_xlim(-BOX, len(fits) - 1 + BOX)
    ax.set_xticks(range(len(fits)), fits, parse_math=False)
    ax.set_yticks([])
    bare(ax)
    sizes = [str((table["fit"] == name).sum()) for name in fits]
    ax.set_xlabel("number of topics" if sizes == fits else "fit")
    return ax


def _tops(topics: pd.DataFrame, gap: float) -> Floats:
    """Where the box of each topic begins; columns are centred."""
    order = np.argsort(topics["place"].to_numpy())
    shares = topics["share"].to_numpy()[order]
    start = (GAPS - gap * (len(order) - 1)) / 2
    tops = np.empty(len(order))
    tops[order] = start + np.concatenate([[0], (shares + gap).cumsum()[:-1]])
    return tops


def _boxes(ax: Axes, x: int, topics: pd.DataFrame, tops: Floats, colors: dict[int, str]) -> None:
    ax.bar(np.full(len(tops), x), topics["share"], BOX, tops, color=topics["path"].map(colors), linewidth=0, zorder=3)
    for row, top in zip(topics.itertuples(), tops, strict=True):
        if row.share >= LOWEST_WITH_NUMBER:
            middle = top + row.share / 2
            ax.text(x, middle, str(row.topic), ha="center", va="center", fontsize=8, color="white", zorder=4)


def _ribbons(
    ax: Axes, x: int, aligned: Alignment, name: str, after: str, tops: dict[str, Floats], colors: dict[int, str]
) -> None:
    """Those that leave a box, or come to one, lie in the order of their other ends."""
    flows = aligned.flows[aligned.flows["fit"] == name].copy()
    here, there = (aligned.table[aligned.table["fit"] == fit].set_index("topic") for fit in (name, after))
    flows["from_place"] = here["place"][flows["topic"]].to_numpy()
    flows["to_place"] = there["place"][flows["to"]].to_numpy()
    flows = flows.sort_values(["from_place", "to_place"])
    flows["left"] = tops[name][flows["topic"] - 1] + flows.groupby("topic")["flow"].cumsum() - flows["flow"]
    flows = flows.sort_values(["to_place", "from_place"])
    flows["right"] = tops[after][flows["to"] - 1] + flows.groupby("to")["flow"].cumsum() - flows["flow"]
    t = np.linspace(0, 1, 40)
    smooth = t * t * (3 - 2 * t)
    across = x + BOX / 2 + (1 - BOX) * t
    for row in flows.itertuples():
        upper = row.left + (row.right - row.left) * smooth
        ax.fill_between(across, upper, upper + row.flow, color=colors[there["path"][row.to]], alpha=0.42, linewidth=0)


# Topics by how coherent and how exclusive they are: a point for each, as large as its share.

LONGEST_TOPIC = 34  # letters
LARGEST = 900  # the area of a point, in points², of a topic that has half of all counts


def quality(found: Quality, ax: Axes | None = None) -> Axes:
    """Draw what `fit.quality(X)` found: coherence (npmi) across, exclusivity up; a good topic is above and to the right.

    Parameters
    ----------
    found : Quality
        The result.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    See Also
    --------
    analysis.quality

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.quality(fit.quality(X, top=2))
    """
    table = found.table
    known = table[np.isfinite(table["npmi"]) & np.isfinite(table["exclusivity"])].sort_values("share", ascending=False)
    ax = new_axes(7.5, 5) if ax is None else ax
    sizes = np.maximum(2 * LARGEST * known["share"], 12)
    ax.scatter(known["npmi"], known["exclusivity"], s=sizes, c=palette(len(known)), alpha=0.75, linewidths=0)
    ax.margins(0.18)
    tidy(ax, grid="both")
    ax.set_xlabel(f"coherence: npmi of the top {found.top} features")
    ax.set_ylabel("exclusivity")
    names = [short(name, LONGEST_TOPIC) for name in known["name"]]
    place_labels(ax, known["npmi"], known["exclusivity"], names, sizes=np.sqrt(sizes))
    return ax
