"""The Structure plot: one thin column a sample, stacked by topic, the heaviest topic at the bottom."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage

from unmix.fit import Fit
from unmix.plot.palette import palette

MOST_SAMPLES = 2000  # more columns than that do not show in a picture
LONGEST_FEATURE, LONGEST_GROUP = 16, 24  # letters of a name
LEGEND_ROWS = 40

Integers = NDArray[np.intp]


def topic_order(fit: Fit) -> Integers:
    """Topics from the heaviest to the lightest: the order in which every view shows them."""
    return np.argsort(-fit.shares, kind="stable")


def topic_colours(fit: Fit) -> list[str]:
    """The colour of each topic, given out in `topic_order` so that neighbours in a stack differ most."""
    colours = [""] * fit.n_topics
    for topic, colour in zip(topic_order(fit), palette(fit.n_topics), strict=True):
        colours[topic] = colour
    return colours


def structure(
    fit: Fit,
    group: str | ArrayLike | None = None,
    order: str | ArrayLike | None = None,
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Draw the proportions of all samples.

    Parameters
    ----------
    group
        Samples with the same value stand together: a column of `fit.metadata`, or one value a sample.
    order
        Samples stand by this number (within their group): a column of `fit.metadata`, or one value a sample. By default
        similar samples stand side by side.
    ax
        Where to draw; by default a new figure.
    colours
        Of the topics; by default `topic_colours`.

    Of more than 2,000 samples a fair part is shown: the same share of each group, the same ones every time.
    """
    names, labels = _grouping(fit, group)
    numbers = None if order is None else _numbers(fit, order)
    shown = fair_sample(labels, MOST_SAMPLES)
    blocks = []
    for g in range(len(names)):
        members = shown[labels[shown] == g]
        if numbers is None:
            blocks.append(members[_by_similarity(fit.proportions[members])])
        else:
            blocks.append(members[np.argsort(numbers[members], kind="stable")])
    if ax is None:
        columns, rows = 1 + (fit.n_topics - 1) // LEGEND_ROWS, min(fit.n_topics, LEGEND_ROWS)
        ax = Figure(figsize=(9 + 3 * columns, max(4, 0.19 * rows)), layout="constrained").subplots()
    ends = _stack(ax, fit, blocks, topic_colours(fit) if colours is None else colours)
    about = _axis_title(group, order)
    if group is not None:
        _label_groups(ax, names, ends)
    elif numbers is not None:
        _label_numbers(ax, numbers[blocks[0]])
    else:
        ax.set_xticks([])
    if len(shown) < len(labels):
        about += f" ({len(shown):,} of {len(labels):,} samples)"
    ax.set_xlabel(about, parse_math=False)
    ax.set_ylabel("proportion")
    return ax


def fair_sample(labels: Integers, at_most: int) -> Integers:
    """At most so many of the samples, in their order: the same share of each group, but at least one of each."""
    if len(labels) <= at_most:
        return np.arange(len(labels))
    rng = np.random.default_rng(0)
    kept = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        quota = max(1, len(members) * at_most // len(labels))
        kept.append(rng.choice(members, quota, replace=False))
    return np.sort(np.concatenate(kept))


def _grouping(fit: Fit, group: str | ArrayLike | None) -> tuple[list[str], Integers]:
    """Names of the groups in their order, and the number of the group of each sample."""
    if group is None:
        return [""], np.zeros(len(fit.L), dtype=np.intp)
    values = _one_value_a_sample(fit, group, "group")
    if not isinstance(values.dtype, pd.CategoricalDtype):
        key = None if pd.api.types.is_numeric_dtype(values) else _natural
        values = values.astype(pd.CategoricalDtype(sorted(values.dropna().unique(), key=key)))
    values = values.cat.remove_unused_categories()
    names, labels = [str(name) for name in values.cat.categories], values.cat.codes.to_numpy(dtype=np.intp)
    return ([*names, "(none)"], np.where(labels < 0, len(names), labels)) if (labels < 0).any() else (names, labels)


def _natural(value: object) -> tuple:
    """A key that sorts "cluster 2" before "cluster 10"."""
    parts = re.split(r"(\d+(?:\.\d+)?)", str(value))
    return tuple((float(part), "") if i % 2 else (-np.inf, part) for i, part in enumerate(parts))


def _numbers(fit: Fit, order: str | ArrayLike) -> NDArray[np.float64]:
    values = _one_value_a_sample(fit, order, "order")
    if not pd.api.types.is_numeric_dtype(values):
        what = repr(order) if isinstance(order, str) else "the given values"
        raise ValueError(f"order: {what} does not hold numbers; give a numeric column, or use it as group")
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _one_value_a_sample(fit: Fit, given: str | ArrayLike, what: str) -> pd.Series:
    if isinstance(given, str):
        table = pd.DataFrame() if fit.metadata is None else fit.metadata
        if given not in table:
            known = f"choose one of {', '.join(map(str, table))}" if len(table) else "this fit has no metadata"
            raise ValueError(f"{what}: there is no column {given!r}; {known}")
        return table[given]
    values = pd.Series(np.asarray(given)) if not isinstance(given, pd.Series | pd.Categorical) else pd.Series(given)
    if len(values) != len(fit.L):
        raise ValueError(f"{what}: {len(values)} values for {len(fit.L)} samples; give one a sample")
    return values


def _by_similarity(proportions: NDArray[np.float64]) -> Integers:
    """An order in which like samples stand together: the leaves of a tree of Hellinger distances."""
    if len(proportions) < 3:
        return np.arange(len(proportions))
    return leaves_list(linkage(np.sqrt(proportions), method="ward", optimal_ordering=len(proportions) <= 500))


def _stack(ax: Axes, fit: Fit, blocks: list[Integers], colours: Sequence[str]) -> list[tuple[float, float]]:
    """Draw the blocks with a gap between them; the ends of each block along the axis."""
    topics = topic_order(fit)
    sizes = np.array([len(members) for members in blocks])
    gap = sizes.sum() / max(250, 10 * len(blocks))
    lefts = np.concatenate([[0], (sizes + gap).cumsum()[:-1]])
    edges = np.concatenate([left + np.arange(size + 1) for left, size in zip(lefts, sizes, strict=True)])
    tops = fit.proportions[:, topics].cumsum(axis=1)
    nothing = np.zeros((1, len(topics)))  # the height of the gap that follows each block
    heights = np.vstack([part for members in blocks for part in (tops[members], nothing)])
    # From the full height down, each area over the last and with sharp edges: no other colour can shine through.
    areas = [
        ax.fill_between(
            edges, heights[:, place], step="post", color=colours[topics[place]], linewidth=0, antialiased=False
        )
        for place in reversed(range(len(topics)))
    ]
    ax.set_xlim(0, edges[-1])
    ax.set_ylim(0, 1)
    ax.spines[["top", "right"]].set_visible(False)
    _legend(ax, areas, _topic_names(fit, topics[::-1]))
    return list(zip(lefts, lefts + sizes, strict=True))


def _topic_names(fit: Fit, topics: Integers) -> list[str]:
    features = {topic: rows["feature"] for topic, rows in fit.top_features(3).groupby("topic")}
    return [f"{k + 1}: " + ", ".join(_short(name, LONGEST_FEATURE) for name in features[k + 1]) for k in topics]


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _legend(ax: Axes, handles: Sequence, labels: Sequence[str]) -> None:
    """To the right of the picture, in the order of the stack."""
    n = len(labels)
    legend = ax.legend(
        handles,
        labels,
        title="topic: its top features",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.03),
        frameon=False,
        fontsize=9 if n <= 16 else 7,
        ncols=1 + (n - 1) // LEGEND_ROWS,
        handlelength=1.0,
        handleheight=1.0,
        alignment="left",
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # a "$" in a name is a "$"


def _label_groups(ax: Axes, names: Sequence[str], ends: Sequence[tuple[float, float]]) -> None:
    """Names under their groups: level where all have room, slanted otherwise, and of those too close the largest."""
    size, style = 9, dict[str, Any]()
    root = ax.figure.canvas.figure
    root.draw_without_rendering()  # so that the layout is known
    points = ax.get_window_extent().width * 72 / root.dpi / ends[-1][1]  # the width of a sample's column
    centres = np.array([(left + right) / 2 for left, right in ends]) * points
    short = [_short(name, LONGEST_GROUP) for name in names]
    widths = np.array([0.7 * size * len(name) for name in short])
    kept = list(range(len(names)))
    if (np.diff(centres) < (widths[1:] + widths[:-1]) / 2 + size / 4).any():
        kept, style = [], {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        for g in sorted(range(len(names)), key=lambda g: ends[g][0] - ends[g][1]):
            if all(abs(centres[g] - centres[other]) >= 1.5 * size for other in kept):
                kept.append(g)
    ax.set_xticks(centres[kept] / points, [short[g] for g in kept], fontsize=size, parse_math=False, **style)
    ax.tick_params(axis="x", length=0)


def _label_numbers(ax: Axes, numbers: NDArray[np.float64]) -> None:
    """Round numbers at the first sample that reaches them."""
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        ax.set_xticks([])
        return
    whole = bool((known == np.round(known)).all())
    ticks = MaxNLocator(nbins=12, steps=[1, 2, 5, 10], integer=whole).tick_values(known[0], known[-1])
    ticks = ticks[(ticks >= known[0]) & (ticks <= known[-1])]
    ax.set_xticks(np.searchsorted(known, ticks) + 0.5, [f"{tick:.0f}" if whole else f"{tick:g}" for tick in ticks])


def _axis_title(group: str | ArrayLike | None, order: str | ArrayLike | None) -> str:
    """What the samples stand by."""
    by = order if isinstance(order, str) else "given order" if order is not None else None
    if group is None:
        return by or "samples, like beside like"
    name = group if isinstance(group, str) else "group"
    return f"{name}, each by {by}" if by else name
