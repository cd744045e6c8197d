"""Samples: columns of their metadata (numbers, dates, texts, bins of equal width), and typical samples of topics.

Dates as people write them: the one place that says which texts and numbers are times, for tables, pictures and the page.

A column is understood as a whole, in one form: 2017-02-07, 2017/2/7, 20170207, 7.2.2017, 7 Feb 2017, February 7, 2017, 2017-02
and February 2017, with or without a time of day, and what mail and Twitter write. 2/7/2017 is read only where other dates of the
column, such as 25/7/2017, say whether the day or the month stands first: a guess would move half of them by months.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from unmix.analysis.application import FitLike, fit_of
from unmix.base.checks import short
from unmix.base.types import Floats, Integers, Names, numbered
from unmix.fit import Fit

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


# What is known about each sample (its group, a number, a date), a fair part of many samples, and those typical of a topic.


class Scale(NamedTuple):
    """A number for each sample, NaN where unknown; dates are days since 1970, as matplotlib counts them."""

    numbers: Floats
    dates: bool


def fair_sample(labels: Integers, at_most: int, *, equal: bool = False) -> Integers:
    """At most so many of the samples, in their order: the same share of each group, but at least one of each.

    Parameters
    ----------
    labels : array of int
        The group of each sample.
    at_most : int
        How many.
    equal : bool, default=False
        The same number of each group instead, or all of a group that has fewer.

    Returns
    -------
    array of int
        Their places, the same ones every time.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> len(um.analysis.fair_sample(np.repeat([0, 1], [90, 10]), 20))
    20
    """
    if len(labels) <= at_most and not equal:
        return np.arange(len(labels))
    rng = np.random.default_rng(0)
    kept, present = [], np.unique(labels)
    for label in present:
        members = np.flatnonzero(labels == label)
        quota = min(len(members), max(1, at_most // len(present) if equal else len(members) * at_most // len(labels)))
        kept.append(rng.choice(members, quota, replace=False))
    return np.sort(np.concatenate(kept))


def typical_samples(fit: FitLike, n: int = 12) -> list[Integers]:
    """The samples most typical of each topic, the most typical first.

    By proportion, shrunk towards the share of the topic as if each sample had a few more counts of the usual kind, as many as
    a small sample has (a, the lower quartile of sizes s): (s p + a share) / (s + a). So a sample of three words does not win.
    Samples with less of a topic than its share in all counts are not typical of it.

    Parameters
    ----------
    fit : Fit, estimator or path
        With samples.
    n : int, default=12
        How many of each topic.

    Returns
    -------
    list of array of int
        Their row numbers, from 0, for each topic; at most `n` of them.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> [rows.tolist() for rows in um.analysis.typical_samples(fit, 2)]
    [[0, 1], [2, 3]]
    """
    fit = fit_of(fit)
    sizes = fit.sizes[:, None]
    extra = max(float(np.quantile(sizes, 0.25)), np.finfo(float).tiny)
    scores = (sizes * fit.proportions + extra * fit.shares) / (sizes + extra)
    found = []
    for p, score, share in zip(fit.proportions.T, scores.T, fit.shares, strict=True):
        best = np.argsort(-score, kind="stable")[:n]
        found.append(best[p[best] >= share * (1 - 1e-9)])
    return found


def values_of(fit: Fit, given: str | ArrayLike, what: str) -> pd.Series:
    """One value per sample: a column of the fit's metadata, or the values given. `what` names them in errors."""
    return column_or_values(fit.metadata, given, what, len(fit.L))


def column_or_values(table: pd.DataFrame | None, given: str | ArrayLike, what: str, n: int) -> pd.Series:
    """The same of any n samples and their metadata."""
    if isinstance(given, str):
        if table is None or given not in table:
            known = "there is no metadata" if table is None else f"choose one of {', '.join(map(str, table))}"
            raise ValueError(f"{what}: there is no column {given!r}; {known}")
        return table[given]
    values = pd.Series(given) if isinstance(given, pd.Series | pd.Categorical) else pd.Series(np.asarray(given))
    if len(values) != n:
        raise ValueError(f"{what}: {len(values)} values for {n} samples; give one per sample")
    return values


def by_sample_and_topic(samples: Names | None, **values: Floats) -> pd.DataFrame:
    """A row for each sample and topic, of arrays that have a row a sample and a column a topic."""
    n, K = next(iter(values.values())).shape
    places = {"sample": np.repeat(numbered(samples, "sample", n), K), "topic": np.tile(np.arange(1, K + 1), n)}
    return pd.DataFrame(places | {name: array.ravel() for name, array in values.items()})


def groups(values: pd.Series) -> tuple[list[str], Integers]:
    """Names of the groups in their order, and the number of the group of each sample. Those without stand last."""
    if not isinstance(values.dtype, pd.CategoricalDtype):
        key = None if pd.api.types.is_numeric_dtype(values) else natural
        values = values.astype(pd.CategoricalDtype(sorted(values.dropna().unique(), key=key)))
    values = values.cat.remove_unused_categories()
    names, labels = [str(name) for name in values.cat.categories], values.cat.codes.to_numpy(dtype=np.intp)
    return ([*names, "(none)"], np.where(labels < 0, len(names), labels)) if (labels < 0).any() else (names, labels)


def scale(values: pd.Series) -> Scale | None:
    """Numbers as they are; dates, also as text in the forms of `dates`, as days. None if the values are neither."""
    if pd.api.types.is_bool_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype):
        return None
    values = understood(values)
    if pd.api.types.is_numeric_dtype(values):
        return Scale(values.to_numpy(dtype=np.float64, na_value=np.nan), dates=False)
    if not pd.api.types.is_datetime64_any_dtype(values):
        return None
    days = (values - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return Scale(days.to_numpy(dtype=np.float64, na_value=np.nan), dates=True)


def means_along(places: Floats, size: int) -> Integers:
    """Where bars begin that are drawn as means: of at least `size` samples that follow each other, and never parting those at the
    same place. `places` are in order, NaN last.

    >>> means_along(np.array([1.0, 1, 1, 2, 3, 4, 4, np.nan, np.nan]), 2)
    array([0, 3, 5, 7])
    """
    starts = [0]
    for i in range(1, len(places)):
        apart = places[i] != places[i - 1] and not (np.isnan(places[i]) and np.isnan(places[i - 1]))
        if i - starts[-1] >= size and apart:
            starts.append(i)
    if len(starts) > 1 and len(places) - starts[-1] < size and not np.isnan(places[-1]):
        starts.pop()  # too few for a bar of their own
    return np.array(starts)


def natural(value: object) -> tuple[tuple[float, str], ...]:
    """A key that sorts "cluster 2" before "cluster 10"."""
    parts = re.split(r"(\d+(?:\.\d+)?)", str(value))
    return tuple((float(part), "") if i % 2 else (-np.inf, part) for i, part in enumerate(parts))


# Columns of metadata: numbers, dates, or texts; which of them can group samples, or tell their time

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
