"""Dates as people write them are times everywhere: `counts.columns`, the order of pictures, and the page."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from unmix.analysis.samples import scale
from unmix.counts.columns import column_of, understood

DAYS = [dt.datetime(2017, 2, 7), dt.datetime(2017, 11, 30), dt.datetime(2018, 1, 25)]
FORMS = [
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%m-%d-%Y", "%d/%m/%y"),
    *("%d %B %Y", "%d %b %Y", "%d-%b-%Y", "%B %d, %Y", "%b %d %Y", "%A, %B %d, %Y"),
    *("%Y-%m-%dT%H:%M:%SZ", "%Y/%m/%d %H:%M", "%m/%d/%Y %I:%M %p", "%a %b %d %H:%M:%S +0000 %Y"),
    "%a, %d %b %Y %H:%M:%S +0000",
]


@pytest.mark.parametrize("form", FORMS)
def test_a_date_is_a_time_in_every_ordinary_form(form) -> None:
    texts = pd.Series([None, *(day.strftime(form) for day in DAYS)])
    read = understood(texts)
    assert read.isna().to_list() == [True, False, False, False]
    assert read.iloc[1:].dt.tz_convert(None).to_list() == [pd.Timestamp(day) for day in DAYS]
    column, numbers = column_of("when", texts), scale(texts)
    assert column.kind == "date"
    assert column.tells_time
    assert numbers is not None
    assert numbers.dates
    np.testing.assert_allclose(column.values / 86_400_000, numbers.numbers)  # noqa: PD011


def test_numbers_without_leading_zeros_and_months_alone_are_dates_too() -> None:
    assert understood(pd.Series(["2017/2/7", "2017/11/30"])).iloc[0] == pd.Timestamp("2017-02-07", tz="UTC")
    assert understood(pd.Series(["7.2.2017", "30.11.2017"])).iloc[0] == pd.Timestamp("2017-02-07", tz="UTC")
    assert understood(pd.Series(["February 2017", "May 2017"])).iloc[0] == pd.Timestamp("2017-02-01", tz="UTC")
    assert understood(pd.Series([20170207, 20171130])).iloc[1] == pd.Timestamp("2017-11-30", tz="UTC")


def test_day_or_month_first_is_never_guessed() -> None:
    assert column_of("date", pd.Series(["2/7/2017", "3/8/2017", "4/9/2017"])).kind == "text"
    assert understood(pd.Series(["2/7/2017", "25/8/2017"])).dt.month.to_list() == [7, 8]
    assert understood(pd.Series(["2/7/2017", "8/25/2017"])).dt.month.to_list() == [2, 8]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1999", "2000", "2001"], "number"),
        (["B cell", "T cell 2", "NK"], "text"),
        (["2017/2/7", "soon", "2018/1/1"], "text"),
        (["2017/2/30", "2017/2/7", "2017/3/1"], "text"),  # no such day
        ([20170207, 20179999, 20170301], "number"),
        ([True, False, True], "text"),
        ([dt.date(2017, 2, 7), dt.date(2018, 1, 1), None], "date"),
        (["1.5", "x", "2"], "text"),
    ],
)
def test_what_is_no_date_stays_what_it_is(values, kind) -> None:
    assert column_of("given", pd.Series(values)).kind == kind
