"""How topics change over time: mean proportions in bins of a column of dates or numbers, every sample counting alike."""

from __future__ import annotations

from itertools import count

import numpy as np

from unmix.report.encode import Json, packed, quantised_proportions
from unmix.report.metadata import Column
from unmix.types import Floats, Integers

MOST_BINS = 60
HOUR, DAY = 3_600_000, 86_400_000  # milliseconds
MONTHS = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000)


def timeline(column: Column, proportions: Floats) -> Json | None:
    """Bins of equal width with their labels, numbers of samples and mean proportions; None where there is but one bin."""
    known = ~np.isnan(column.values)
    places, labels = (_dates if column.kind == "date" else _numbers)(column.values[known])
    if places.max() == 0:
        return None
    samples = np.bincount(places, minlength=len(labels))
    sums = np.column_stack([np.bincount(places, weights, len(labels)) for weights in proportions[known].T])
    means = sums / np.maximum(samples, 1)[:, None]
    return {
        "column": column.name,
        "labels": labels,
        "samples": samples.tolist(),
        "means": packed(quantised_proportions(means)),
    }


def _numbers(values: Floats) -> tuple[Integers, list[str]]:
    """The number of the bin of each value, and what the bins are called."""
    whole = bool((values == np.round(values)).all())
    lowest, highest = float(values.min()), float(values.max())
    smallest = 0 if whole else int(np.floor(np.log10(max(highest - lowest, 1e-300) / MOST_BINS)))
    for width in (float(f"{digit}e{power}") for power in count(smallest) for digit in (1, 2, 5)):
        first, last = np.floor(lowest / width), np.floor(highest / width)
        if last - first < MOST_BINS:
            break
    starts = np.arange(first, last + 1) * width
    if not whole:
        labels = [f"{start:.6g}–{start + width:.6g}" for start in starts]
    elif width == 1:
        labels = [f"{start:.0f}" for start in starts]
    else:
        labels = [f"{start:.0f}–{start + width - 1:.0f}" for start in starts]
    return (np.floor(values / width) - first).astype(np.intp), labels


def _dates(values: Floats) -> tuple[Integers, list[str]]:
    for width, unit in ((HOUR, "h"), (DAY, "D"), (7 * DAY, "D")):
        places = np.floor_divide(values, width).astype(np.int64)
        if places.max() - places.min() < MOST_BINS:
            starts = (np.arange(places.min(), places.max() + 1) * width).astype("datetime64[ms]")
            return (places - places.min()).astype(np.intp), starts.astype(f"datetime64[{unit}]").astype(str).tolist()
    months = values.astype(np.int64).astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64) + 1970 * 12
    width = next((width for width in MONTHS if np.ptp(months // width) < MOST_BINS), MONTHS[-1])
    places = months // width
    labels = [_months(place * width, width) for place in range(places.min(), places.max() + 1)]
    return (places - places.min()).astype(np.intp), labels


def _months(first: int, width: int) -> str:
    """What a run of months is called."""
    last = first + width - 1
    if width % 12 == 0:
        return f"{first // 12}" if width == 12 else f"{first // 12}–{last // 12}"
    begin, end = (f"{month // 12}-{month % 12 + 1:02d}" for month in (first, last))
    return begin if width == 1 else f"{begin} – {end}"
