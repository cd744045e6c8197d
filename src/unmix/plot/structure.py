"""The Structure plot: one thin column per sample, stacked by topic, the heaviest topic at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from unmix.analysis import fair_sample, similarity_order, topic_names, topic_order
from unmix.analysis.samples import Scale, groups, scale, values_of
from unmix.analysis.topics import short
from unmix.fit import Fit
from unmix.plot.palette import topic_colours
from unmix.plot.style import figure_of, lay_out, literal, new_axes, tidy
from unmix.types import Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SAMPLES = 2000  # more columns than that do not show in a picture
LONGEST_GROUP = 24  # letters of a name
LEGEND_ROWS = 40


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
        Samples with the same value stand together: a column of `fit.metadata`, or one value per sample.
    order
        Samples stand by this number or date (within their group): a column of `fit.metadata`, or one value per sample; dates
        may be text, as "2021-03-01" or "1 March 2021". By default similar samples stand side by side.
    ax
        Where to draw; by default a new figure.
    colours
        Of the topics; by default `topic_colours`.

    Of more than 2,000 samples a fair part is shown: the same share of each group, the same ones every time.
    """
    names, labels = [""], np.zeros(len(fit.L), dtype=np.intp)
    if group is not None:
        names, labels = groups(values_of(fit, group, "group"))
    places = None if order is None else scale(values_of(fit, order, "order"))
    if order is not None and places is None:
        what = repr(order) if isinstance(order, str) else "the given values"
        raise ValueError(
            f"order: {what} does not hold numbers or dates; give a column of numbers or dates, or use it as group"
        )
    shown = fair_sample(labels, MOST_SAMPLES)
    blocks = []
    for g in range(len(names)):
        members = shown[labels[shown] == g]
        if places is None:
            blocks.append(members[similarity_order(fit.proportions[members])])
        else:
            blocks.append(members[np.argsort(places.numbers[members], kind="stable")])
    if ax is None:
        columns, rows = 1 + (fit.n_topics - 1) // LEGEND_ROWS, min(fit.n_topics, LEGEND_ROWS)
        ax = new_axes(9 + 3 * columns, max(4, 0.19 * rows))
    ends = _stack(ax, fit, blocks, topic_colours(fit) if colours is None else colours)
    about = _axis_title(group, order)
    if group is not None:
        _label_groups(ax, names, ends)
    elif places is not None:
        _label_scale(ax, Scale(places.numbers[blocks[0]], places.dates))
    else:
        ax.set_xticks([])
    if len(shown) < len(labels):
        about += f" ({len(shown):,} of {len(labels):,} samples)"
    ax.set_xlabel(about, parse_math=False)
    ax.set_ylabel("proportion")
    return ax


def _stack(ax: Axes, fit: Fit, blocks: list[Integers], colours: Sequence[str]) -> list[tuple[float, float]]:
    """Draw the blocks with a gap between them, and a legend; the ends of each block along the axis."""
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
    tidy(ax)
    names = topic_names(fit)
    legend = ax.legend(
        areas,
        [names[k] for k in reversed(topics)],
        title="topic: its top features",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.03),
        frameon=False,
        fontsize=9 if len(topics) <= 16 else 7,
        ncols=1 + (len(topics) - 1) // LEGEND_ROWS,
        handlelength=1.0,
        handleheight=1.0,
        alignment="left",
    )
    literal(legend.get_texts())
    return list(zip(lefts, lefts + sizes, strict=True))


def _label_groups(ax: Axes, names: Sequence[str], ends: Sequence[tuple[float, float]]) -> None:
    """Names under their groups: level where all have room, slanted otherwise, and of those too close the largest."""
    size, points = 9, _column_width(ax)
    centres = np.array([(left + right) / 2 for left, right in ends]) * points
    shown = [short(name, LONGEST_GROUP) for name in names]
    widths = np.array([0.7 * size * len(name) for name in shown])
    kept = list(range(len(names)))
    slanted = (np.diff(centres) < (widths[1:] + widths[:-1]) / 2 + size / 4).any()
    if slanted:
        kept = []
        for g in sorted(range(len(names)), key=lambda g: ends[g][0] - ends[g][1]):
            if all(abs(centres[g] - centres[other]) >= 1.5 * size for other in kept):
                kept.append(g)
    ax.set_xticks(centres[kept] / points, [shown[g] for g in kept], fontsize=size, parse_math=False)
    if slanted:
        for label in ax.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor")
    ax.tick_params(axis="x", length=0)


def _column_width(ax: Axes) -> float:
    """Of one sample, in points."""
    lay_out(ax)
    left, right = ax.get_xlim()
    return ax.get_window_extent().width * 72 / figure_of(ax).dpi / (right - left)


def _label_scale(ax: Axes, places: Scale) -> None:
    """Round numbers or dates at the first sample that reaches them, as far as there is room."""
    known = places.numbers[np.isfinite(places.numbers)]
    if not len(known):
        ax.set_xticks([])
        return
    ticks, labels = (_round_dates if places.dates else _round_numbers)(known)
    columns = np.searchsorted(known, ticks) + 0.5
    size = 10
    halves = [0.35 * size * len(label) for label in labels]  # of their widths, in points like all here
    centres = columns * _column_width(ax)
    kept: list[int] = []
    for i, centre in enumerate(centres):
        if not kept or centre - halves[i] - size / 2 > centres[kept[-1]] + halves[kept[-1]]:
            kept.append(i)
    ax.set_xticks(columns[kept], [labels[i] for i in kept], fontsize=size)


def _round_numbers(known: Floats) -> tuple[Floats, list[str]]:
    from matplotlib.ticker import MaxNLocator

    whole = bool((known == np.round(known)).all())
    ticks = MaxNLocator(nbins=12, steps=[1, 2, 5, 10], integer=whole).tick_values(known[0], known[-1])
    ticks = ticks[(ticks >= known[0]) & (ticks <= known[-1])]
    return ticks, [f"{tick:.0f}" if whole else f"{tick:g}" for tick in ticks]


def _round_dates(known: Floats) -> tuple[Floats, list[str]]:
    from matplotlib.dates import AutoDateLocator, num2date

    locator = AutoDateLocator(maxticks=12)
    ticks = np.asarray(locator.tick_values(num2date(known[0]), num2date(known[-1])), dtype=float)
    ticks = ticks[(ticks >= known[0]) & (ticks <= known[-1])]
    closest = np.diff(ticks).min() if len(ticks) > 1 else 1.0
    forms = {365: "%Y", 28: "%Y-%m", 1: "%Y-%m-%d", 0.9 / 1440: "%Y-%m-%d %H:%M", 0: "%H:%M:%S"}  # by least days
    form = next(form for days, form in forms.items() if closest >= days)
    return ticks, [num2date(tick).strftime(form) for tick in ticks]


def _axis_title(group: str | ArrayLike | None, order: str | ArrayLike | None) -> str:
    """What the samples stand by."""
    by = order if isinstance(order, str) else "given order" if order is not None else None
    if group is None:
        return by or "samples, like beside like"
    name = group if isinstance(group, str) else "group"
    return f"{name}, each by {by}" if by else name
