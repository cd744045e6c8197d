"""Columns of metadata as the page takes them: numbers, dates, or texts, with a word on which can group or tell time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from unmix.analysis.dates import understood
from unmix.analysis.samples import natural
from unmix.report.encode import Json, clean, packed
from unmix.types import Floats, Integers

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
