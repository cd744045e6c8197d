"""Columns of metadata: numbers, dates and texts, and bins of equal width.

Dates as users write them: the one place that says which texts and numbers are times, for tables, formulas and figures.

A column is understood as a whole, in one form: 2017-02-07, 2017/2/7, 20170207, 7.2.2017, 7 Feb 2017, February 7, 2017, 2017-02
and February 2017, with or without a time of day, and what mail and Twitter write. 2/7/2017 is read only where other dates of
the column, such as 25/7/2017, say whether the day or the month stands first: a guess would move half of them by months.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Literal

import numpy as np
import pandas as pd

from unmix.base.checks import short
from unmix.base.types import Floats, Integers

ISO_DATE = r"\d{4}-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?)?"
DAYS = (
    *("%Y/%m/%d", "%Y-%m-%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y", "%d %B %Y", "%d %b %Y", "%d-%b-%Y"),
    *("%B %d, %Y", "%b %d, %Y", "%B %d %Y", "%b %d %Y", "%A, %B %d, %Y", "%Y/%m", "%B %Y", "%b %Y"),
)
EITHER = (("%d/%m/%Y", "%m/%d/%Y"), ("%d-%m-%Y", "%m-%d-%Y"), ("%d/%m/%y", "%m/%d/%y"))  # day first, or month first
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
STAMPS = ("%a %b %d %H:%M:%S %z %Y", "%a, %d %b %Y %H:%M:%S %z")  # of Twitter, of mail
LONGEST = 40  # letters of a date
FIRST_DAY, LAST_DAY = 15_000_101, 21_001_231  # of whole numbers that are dates


def understood(values: pd.Series) -> pd.Series:
    """Numbers, dates, and years that came as objects or text, as what they are; everything else as it came. Dates are in UTC.

    >>> import pandas as pd
    >>> understood(pd.Series(["2017/2/7", None, "2017/11/30"])).dt.strftime("%d %b").to_list()
    ['07 Feb', nan, '30 Nov']
    """
    if isinstance(values.dtype, pd.PeriodDtype):
        return values.dt.to_timestamp().dt.tz_localize("UTC")
    if pd.api.types.is_datetime64_any_dtype(values):
        return pd.to_datetime(values, utc=True)
    known = values.dropna()
    if not len(known) or pd.api.types.is_bool_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype):
        return values
    if pd.api.types.is_numeric_dtype(values):
        return _days_of_numbers(values, known)
    if all(isinstance(value, str) for value in known):
        return _of_texts(values, known.astype(str).str.split().str.join(" "))
    if all(hasattr(value, "isoformat") and hasattr(value, "year") for value in known):
        dates = pd.to_datetime(values, utc=True, errors="coerce")
        return dates if dates.notna().sum() == len(known) else values
    if all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known):
        return pd.to_numeric(values)
    return values


def _days_of_numbers(values: pd.Series, known: pd.Series) -> pd.Series:
    """20170207, if all of them are days."""
    if known.dtype.kind not in "iuf" or known.min() < FIRST_DAY or known.max() > LAST_DAY or (known % 1 != 0).any():
        return values
    dates = _parsed(known.astype(np.int64).astype(str), "%Y%m%d")
    return values if dates is None else dates.reindex(values.index)


def _of_texts(values: pd.Series, texts: pd.Series) -> pd.Series:
    if texts.str.fullmatch(r"\d{4}").all():
        return pd.to_numeric(values)
    if int(texts.str.len().max()) > LONGEST or not texts.str.contains(r"\d").all():
        return values
    if texts.str.fullmatch(ISO_DATE).all():
        dates = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
        return dates.reindex(values.index) if dates.notna().all() else values
    forms = [day + time for day in DAYS for time in TIMES]
    dates = next((found for form in (*forms, *STAMPS) if (found := _parsed(texts, form)) is not None), None)
    if dates is None:
        dates = _decided(texts)
    return values if dates is None else dates.reindex(values.index)


def _decided(texts: pd.Series) -> pd.Series | None:
    """The day or the month first, if only one of the two can be."""
    for pair in EITHER:
        for time in TIMES:
            read = [found for form in pair if (found := _parsed(texts, form + time)) is not None]
            if len(read) == 1:
                return read[0]
    return None


def _parsed(texts: pd.Series, form: str) -> pd.Series | None:
    """All of them in this form, or None; the first one decides whether the others are looked at."""
    if pd.isna(pd.to_datetime(texts.iloc[0], format=form, utc=True, errors="coerce")):
        return None
    dates = pd.to_datetime(texts, format=form, utc=True, errors="coerce")
    return dates if dates.notna().all() else None


def natural(value: object) -> tuple[tuple[float, str], ...]:
    """A key that sorts "cluster 2" before "cluster 10"."""
    parts = re.split(r"(\d+(?:\.\d+)?)", str(value))
    return tuple((float(part), "") if i % 2 else (-np.inf, part) for i, part in enumerate(parts))


# Columns: which of them can group samples, or tell their time

LONGEST_NAME = 200  # letters; a longer name is a text, not a name
HOUR, DAY = 3_600_000, 86_400_000  # milliseconds
MONTHS = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000)
MOST_GROUPS = 60  # values of a column by which samples can be grouped
TIME_WORD = re.compile(r"(?<![a-z])(year|date|time|pseudotime|day|week|month|hour)s?(?![a-z])", re.IGNORECASE)


def clean(name: object) -> str:
    """A name as text of bounded length."""
    return short(str(name), LONGEST_NAME)


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
        return self.kind == "date" or years or bool(TIME_WORD.search(self.name))


def columns_of(table: pd.DataFrame | None) -> list[Column]:
    """All columns of a table that are stable anything."""
    if table is None:
        return []
    columns = [column_of(clean(name), table.iloc[:, place]) for place, name in enumerate(table.columns)]
    return [column for column in columns if column.distinct]


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
    """At most this many bins of equal and round width: the number of the bin of each known value, and what bins are called."""
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
