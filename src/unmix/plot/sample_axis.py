"""What stands along samples in a row: their names where they are few, names of groups, or round numbers and dates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unmix.analysis.samples import Scale
from unmix.analysis.topics import short
from unmix.plot.style import figure_of, lay_out
from unmix.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axes._secondary_axes import SecondaryAxis

MOST_NAMES = 60  # samples that have their names below them
LONGEST_GROUP = 24  # letters of a name


def label_groups(ax: Axes, names: Sequence[str], ends: Sequence[tuple[float, float]], *, above: bool = False) -> None:
    """Names under their groups, or above: level where all have room, slanted otherwise, and of those too close the largest."""
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
    where: Axes | SecondaryAxis = ax
    if above:
        where = ax.secondary_xaxis("top")
        where.spines["top"].set_visible(False)
    where.set_xticks(centres[kept] / points, [shown[g] for g in kept], fontsize=size, parse_math=False)
    if slanted:
        for label in where.get_xticklabels():
            label.set(rotation=45, ha="left" if above else "right", rotation_mode="anchor")
    where.tick_params(axis="x", length=0)


def label_samples(ax: Axes, names: Sequence[str], ends: Sequence[tuple[float, float]]) -> None:
    """The name of every sample under it: slanted, or upright where they are close."""
    column = _column_width(ax)
    centres = np.concatenate([left + 0.5 + np.arange(round(right - left)) for left, right in ends])
    upright = column < 13
    ax.set_xticks(centres, names, fontsize=min(9, max(4, 0.9 * column)), parse_math=False)
    for label in ax.get_xticklabels():
        label.set(rotation=90 if upright else 45, ha="right", va="center" if upright else "top", rotation_mode="anchor")
    ax.tick_params(axis="x", length=0)


def told(places: Scale, i: int) -> str:
    """A number or a date in words."""
    number = places.numbers[i]
    if not np.isfinite(number):
        return "(none)"
    if not places.dates:
        return f"{number:.6g}"
    return str(np.datetime64(round(number * 86_400), "s")).replace("T00:00:00", "").replace("T", " ")


def _column_width(ax: Axes) -> float:
    """Of one sample, in points."""
    lay_out(ax)
    left, right = ax.get_xlim()
    return ax.get_window_extent().width * 72 / figure_of(ax).dpi / (right - left)


def label_scale(ax: Axes, places: Scale) -> None:
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
