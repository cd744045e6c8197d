"""Data of the report: numbers and names encoded for the page, columns of metadata, the timeline."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from unmix.analysis.features import short
from unmix.analysis.samples import natural, understood
from unmix.base.types import Floats, Integers

Json = dict[str, Any]  # an object of JSON
PARTS = 65535  # proportions are sent as whole multiples of 1/PARTS
LOG_STEP = 27.7 / 65534  # weights are sent as whole multiples of this step on a log scale, down to about 1e-12
LONGEST_NAME = 200  # letters; a longer name is a text, not a name


def packed(array: NDArray[np.generic]) -> str:
    """The bytes of an array, little-endian and row by row, as base64."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little.tobytes()).decode("ascii")


def quantised_proportions(proportions: Floats) -> NDArray[np.uint16]:
    """Proportions in [0, 1] as uint16, off by at most 1/131070."""
    return np.rint(np.clip(proportions, 0, 1) * PARTS).astype(np.uint16)


def quantised_weights(weights: Floats) -> NDArray[np.uint16]:
    """Weights in [0, 1] as uint16: 0 for none, else 1 − log(weight) / LOG_STEP; off by at most 0.03 % down to 1e-12."""
    with np.errstate(divide="ignore"):
        steps = np.rint(-np.log(np.minimum(weights, 1.0)) / LOG_STEP)
    return np.where(steps <= PARTS - 1, 1 + np.minimum(steps, PARTS - 1), 0).astype(np.uint16)


def clean(name: object) -> str:
    """A name as text of bounded length."""
    return short(str(name), LONGEST_NAME)


def rounded(values: ArrayLike, digits: int = 6) -> list[float | None]:
    """Numbers with so many significant digits; None where they are not finite, for which JSON has no word."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def embeddable_json(value: object) -> str:
    """JSON for a <script> element: nothing in it can be read as markup, wherever its texts come from."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def size_of(value: object) -> int:
    """Bytes that it takes in the page."""
    return len(embeddable_json(value).encode(errors="replace"))


# How topics change over time: mean proportions in bins of a column of dates or numbers, every sample counting alike.

MOST_BINS = 60
HOUR, DAY = 3_600_000, 86_400_000  # milliseconds
MONTHS = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000)


def timeline(column: Column, proportions: Floats) -> Json | None:
    """Bins of equal width with their labels, numbers of samples and mean proportions; None where there is but one bin."""
    known = ~np.isnan(column.values)
    places, labels = (_dates if column.kind == "date" else _numbers)(column.values[known])  # noqa: PD011
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


# Columns of metadata as the page takes them: numbers, dates, or texts, with a word on which can group or tell time.

MOST_GROUPS = 60  # values of a column by which samples can be grouped
MISSING = 65535  # the code of a text that is not there

_TIME_WORD = re.compile(r"(?<![a-z])(year|date|time|pseudotime|day|week|month|hour)s?(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class Column:
    """One column: numbers, dates as milliseconds since 1970, or texts as places in `levels`; NaN where missing."""

    name: str
    kind: Literal["number", "date", "text"]
    values: Floats
    levels: tuple[str, ...] = ()

    @property
    def known(self) -> Floats:
        return self.values[~np.isnan(self.values)]

    @cached_property
    def distinct(self) -> int:
        return len(np.unique(self.known))

    @property
    def can_group(self) -> bool:
        """Few values, at least one of which is shared."""
        return 0 < self.distinct <= MOST_GROUPS and (self.distinct < len(self.known) or self.distinct == 1)

    @property
    def tells_time(self) -> bool:
        """Dates; whole numbers that could be years; numbers under a name that speaks of time."""
        if self.kind == "text" or self.distinct < 3:
            return False
        known = self.known
        years = bool((known == np.round(known)).all() and known.min() >= 1500 and known.max() <= 2100)
        return self.kind == "date" or years or bool(_TIME_WORD.search(self.name))

    def taken(self, rows: Integers) -> Json:
        """For the page, these rows alone."""
        about: Json = {"name": self.name, "kind": self.kind, "groups": self.can_group}
        values = self.values[rows]
        if self.kind != "text":
            return about | {"values": packed(values)}
        missing = np.isnan(values)
        used, places = np.unique(values[~missing].astype(np.intp), return_inverse=True)
        codes = np.full(len(rows), MISSING, dtype=np.uint16)
        codes[~missing] = places
        return about | {"levels": [self.levels[place] for place in used], "codes": packed(codes)}


def columns_of(table: pd.DataFrame | None) -> list[Column]:
    """All columns of a table that hold anything."""
    if table is None:
        return []
    columns = [column_of(clean(name), table.iloc[:, place]) for place, name in enumerate(table.columns)]
    return [column for column in columns if column.distinct]


def first_view(table: pd.DataFrame | None) -> dict[str, Any]:
    """What to show first: samples in the order of a column that tells time, else by the groups of the first column of text.
    As parameters of `unmix.plot.structure`."""
    table = pd.DataFrame() if table is None else table
    columns = [column_of(name, table[name]) for name in table.columns if isinstance(name, str)]
    for column in columns:
        if column.tells_time:
            return {"order": column.name}
    for column in columns:
        if column.kind == "text" and column.can_group and column.distinct > 1:
            return {"group": column.name}
    return {}


def column_of(name: str, values: pd.Series) -> Column:
    values = understood(values.reset_index(drop=True))
    if pd.api.types.is_datetime64_any_dtype(values):
        stamps = values.dt.tz_convert(None).to_numpy().astype("datetime64[ms]")
        return Column(name, "date", np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64)))
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values) and values.dtype.kind != "c":
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return Column(name, "number", np.where(np.isfinite(numbers), numbers, np.nan))
    if not isinstance(values.dtype, pd.CategoricalDtype):
        texts = values.astype(object).map(clean, na_action="ignore")
        values = texts.astype(pd.CategoricalDtype(sorted(texts.dropna().unique(), key=natural)))
    values = values.cat.remove_unused_categories()
    codes = values.cat.codes.to_numpy(dtype=np.float64)
    return Column(name, "text", np.where(codes < 0, np.nan, codes), tuple(map(clean, values.cat.categories)))
