"""Dates as people write them: the one place that says which texts and numbers are times, for tables, pictures and the page.

A column is understood as a whole, in one form: 2017-02-07, 2017/2/7, 20170207, 7.2.2017, 7 Feb 2017, February 7, 2017, 2017-02
and February 2017, with or without a time of day, and what mail and Twitter write. 2/7/2017 is read only where other dates of the
column, such as 25/7/2017, say whether the day or the month stands first: a guess would move half of them by months.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

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
