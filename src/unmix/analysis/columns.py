"""Columns of metadata: numbers, dates, or texts, with a word on which can group or tell time, and bins of equal width."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Literal

import numpy as np
import pandas as pd

from unmix.analysis.features import short
from unmix.analysis.samples import natural, understood
from unmix.base.types import Floats, Integers

LONGEST_NAME = 200  # letters; a longer name is a text, not a name
HOUR, DAY = 3_600_000, 86_400_000  # milliseconds
MONTHS = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000)


def clean(name: object) -> str:
    """A name as text of bounded length."""
    return short(str(name), LONGEST_NAME)


MOST_GROUPS = 60  # values of a column by which samples can be grouped

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


def bins_of(column: Column, most: int) -> tuple[Integers, list[str]]:
    """At most so many bins of equal and round width: the number of the bin of each known value, and what bins are called."""
    return (_dates if column.kind == "date" else _numbers)(column.known, most)


def _numbers(values: Floats, most: int) -> tuple[Integers, list[str]]:
    """The number of the bin of each value, and what the bins are called."""
    whole = bool((values == np.round(values)).all())
    lowest, highest = float(values.min()), float(values.max())
    smallest = 0 if whole else int(np.floor(np.log10(max(highest - lowest, 1e-300) / most)))
    for width in (float(f"{digit}e{power}") for power in count(smallest) for digit in (1, 2, 5)):
        first, last = np.floor(lowest / width), np.floor(highest / width)
        if last - first < most:
            break
    starts = np.arange(first, last + 1) * width
    if not whole:
        labels = [f"{start:.6g}–{start + width:.6g}" for start in starts]
    elif width == 1:
        labels = [f"{start:.0f}" for start in starts]
    else:
        labels = [f"{start:.0f}–{start + width - 1:.0f}" for start in starts]
    return (np.floor(values / width) - first).astype(np.intp), labels


def _dates(values: Floats, most: int) -> tuple[Integers, list[str]]:
    for width, unit in ((HOUR, "h"), (DAY, "D"), (7 * DAY, "D")):
        places = np.floor_divide(values, width).astype(np.int64)
        if places.max() - places.min() < most:
            starts = (np.arange(places.min(), places.max() + 1) * width).astype("datetime64[ms]")
            return (places - places.min()).astype(np.intp), starts.astype(f"datetime64[{unit}]").astype(str).tolist()
    months = values.astype(np.int64).astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64) + 1970 * 12
    width = next((width for width in MONTHS if np.ptp(months // width) < most), MONTHS[-1])
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
