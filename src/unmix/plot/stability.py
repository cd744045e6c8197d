"""Which topics are found again: a bar for each, all topics of all runs side by side, and how densely they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from unmix.analysis import Stability
from unmix.analysis.topics import short
from unmix.plot.palette import palette
from unmix.plot.style import QUIET, figure_of, new_axes, new_figure, tidy

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
        alike, those of a topic side by side: a stable topic is a dark square. "density": how far the topics of runs are from
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
    if what not in (None, *draw):
        raise ValueError(f"what: {what!r} is unknown; choose 'topics', 'runs', 'density' or neither for all")
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


def _colours(found: Stability) -> list[str]:
    """As `topic_colours` of the reference gives them: in the order of shares."""
    colours = [""] * len(found.table)
    order = np.argsort(-found.table["share"].to_numpy(), kind="stable")
    for k, colour in zip(order, palette(len(order)), strict=True):
        colours[k] = colour
    return colours


def _topics(ax: Axes, found: Stability) -> None:
    table, colours, heights = found.table, _colours(found), np.arange(len(found.table))
    for place, row in enumerate(table.itertuples()):
        colour = colours[place]
        ax.barh(place, row.stability, height=0.62, color=colour, alpha=PALE[row.verdict], linewidth=0)
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
    again = {"halves": "half of the counts", "bootstrap": "counts drawn anew", "none": "another start"}[found.noise]
    ax.set_xlabel(f"stability: likeness to the matched topic of each run, of {again}  ( | unrelated topics)")


def _runs(ax: Axes, found: Stability) -> None:
    K, runs, colours = len(found.table), len(found.similarity), _colours(found)
    centred = -found.similarity  # within a topic, the run most like the reference first
    order = np.concatenate([np.argsort(centred[:, k], kind="stable") * K + k for k in range(K)])
    shown = 1 - found.distances[np.ix_(order, order)]
    others = shown[~np.eye(len(shown), dtype=bool)]  # a topic is like itself, which tells nothing
    ends = {"vmin": others.min(initial=1), "vmax": others.max(initial=0)}
    image = ax.imshow(shown, cmap="Blues", interpolation="nearest", rasterized=True, **ends)
    edges = np.arange(1, K) * runs - 0.5
    ax.hlines(edges, -0.5, K * runs - 0.5, color="white", linewidth=0.8)
    ax.vlines(edges, -0.5, K * runs - 0.5, color="white", linewidth=0.8)
    wide = 0.025 * K * runs
    for k in range(K):
        ax.add_patch(_strip((-0.5 - 1.6 * wide, k * runs - 0.5), wide, runs, colours[k]))
    middles = np.arange(K) * runs + (runs - 1) / 2
    ax.set_yticks(middles, [str(topic) for topic in found.table["topic"]], fontsize=9 if K <= 20 else 6)
    ax.set_xticks([])
    ax.tick_params(length=0, pad=1)
    ax.spines[:].set_visible(False)
    ax.set_xlim(-0.5 - 1.8 * wide, K * runs - 0.5)
    ax.set_title(f"topics of {runs} runs beside each other", loc="left", fontsize=10)
    figure_of(ax).colorbar(image, ax=ax, label="likeness", shrink=0.8).outline.set_visible(False)


def _strip(corner: tuple[float, float], width: float, height: float, colour: str):  # type: ignore[no-untyped-def]
    from matplotlib.patches import Rectangle

    return Rectangle(corner, width, height, color=colour, linewidth=0, clip_on=False)


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
