"""Cells that a spreadsheet would take for a formula: written so that it shows them, read as they were.

A text that begins with = + - @, a tab or a line's end is computed by a program that opens the file, and may start others
(CWE-1236; OWASP, "CSV Injection"). It is written after an apostrophe, which makes it text, and our readers take that away again. Numbers are
left alone, and so are texts that are numbers, such as +1 and -0.5. A text that begins with apostrophes before such a letter gets
another one: what was written is what is read.
"""

from __future__ import annotations

import csv
import os
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

FORMULA = re.compile(r"'*[=+\-@\t\r\n\0]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def guarded(text: str) -> str:
    """
    >>> [guarded(text) for text in ("=1+1", "'=1", "bee", "-log", "-1.5")]
    ["'=1+1", "''=1", 'bee', "'-log", '-1.5']
    """
    return f"'{text}" if _is_formula(text) else text


def unguarded(text: str) -> str:
    """
    >>> [unguarded(guarded(text)) for text in ("=1+1", "'=1", "bee", "'bee'", "-1.5")]
    ['=1+1', "'=1", 'bee', "'bee'", '-1.5']
    """
    return text[1:] if text[:1] == "'" and _is_formula(text[1:]) else text


def _is_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None


def write_csv(table: pd.DataFrame, path: str | os.PathLike[str], *, index: bool = False, **how: Any) -> None:
    """A table as CSV in UTF-8. Every table that the library writes goes through here."""
    safe = _texts(table, guarded).rename(columns=_guarded_name)
    if index:
        safe.index = safe.index.map(_guarded_name)
    if _has_returns(safe, index):  # which pandas would write without quotes, as the end of a row
        how = {"quoting": csv.QUOTE_NONNUMERIC} | how
    safe.to_csv(Path(path), index=index, encoding="utf-8", lineterminator="\n", **how)


def _has_returns(table: pd.DataFrame, index: bool) -> bool:
    texts = [column for _, column in table.items() if not pd.api.types.is_numeric_dtype(column.dtype)]
    cells = chain(table.columns, table.index if index else (), *texts)
    return any("\r" in cell for cell in cells if isinstance(cell, str))


def unguarded_table(header: list[str], table: pd.DataFrame) -> tuple[list[str], pd.DataFrame]:
    """What was read of such a file, as it was before it was written."""
    return [unguarded(name) for name in header], _texts(table, unguarded)


def _guarded_name(name: Any) -> Any:
    return guarded(name) if isinstance(name, str) else name


def _texts(table: pd.DataFrame, change: Any) -> pd.DataFrame:
    """With another text in every cell that is one; a table without any is given back as it is."""
    for place, kind in enumerate(table.dtypes):
        if pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
            continue
        column = table.iloc[:, place]
        changed = column.astype(object).map(lambda cell: change(cell) if isinstance(cell, str) else cell)
        if not changed.equals(column.astype(object)):
            table = table.copy(deep=False)
            table.isetitem(place, changed)
    return table
