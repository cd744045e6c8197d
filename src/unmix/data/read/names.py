"""Names and what describes the samples: made unique, fetched from files beside a matrix, joined from another table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from unmix.data.read.files import first_line, lines_of, opened_text
from unmix.data.read.labels import names_samples
from unmix.data.read.matrices import ONLY_EMPTY_IS_MISSING
from unmix.data.read.raw_counts import RawCounts, listed
from unmix.data.spreadsheet import unguarded_table

FEATURES_FILE, VOCABULARY_FILE, SAMPLES_FILE = "features.txt", "vocab.txt", "samples.csv"  # may lie beside a matrix
T = TypeVar("T", list[str], pd.DataFrame)
SAMPLE_COLUMNS = ("sample", "Unnamed: 0")  # of samples.csv: where the names are; pandas' word for an empty header cell


def unique(names: list[str]) -> list[str]:
    """The first of several equal names stays; the others get the next free of -1, -2, ….

    >>> unique(["a", "b", "a", "a-1", "a"])
    ['a', 'b', 'a-2', 'a-1', 'a-3']
    """
    taken, seen, fresh = set(names), set(), []
    suffixes: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(1))
    for name in names:
        if name in seen:
            name = next(free for suffix in suffixes[name] if (free := f"{name}-{suffix}") not in taken)
            taken.add(name)
        seen.add(name)
        fresh.append(name)
    return fresh


def make_unique(raw: RawCounts) -> None:
    """Names that several samples or features share are told apart, and it is said."""
    for what in ("samples", "features"):
        if getattr(raw, what) is not None:
            names = list(map(str, getattr(raw, what)))
            setattr(raw, what, unique(names))
            if changed := len(names) - len(set(names)):
                one = what.removesuffix("s")
                raw.notes.append(
                    f"{changed:,} {what if changed > 1 else one} had the name of an earlier {one}: "
                    "told apart with -1, -2, …"
                )


def add_neighbours(raw: RawCounts, path: Path) -> None:
    """The names in features.txt and samples.csv beside a matrix, where their lengths fit."""
    n, m = raw.matrix.shape
    if raw.features is None and (file := vocabulary_beside(path)) is not None:
        raw.features = _beside(file, lines_of, m, raw.notes)
    metadata = _beside(path.parent / SAMPLES_FILE, table_of, n, raw.notes)
    if metadata is not None and (column := next((name for name in metadata if name in SAMPLE_COLUMNS), None)):
        raw.samples = as_names(metadata.pop(column))
    if metadata is not None and len(metadata.columns):
        raw.metadata = metadata


def vocabulary_beside(path: Path) -> Path | None:
    """The file with the names of a matrix's columns, one a line: its own, or that of all matrices in the folder."""
    stem = path.name.removesuffix(".gz")
    names = (f"{stem}.vocab", f"{Path(stem).stem}.vocab", FEATURES_FILE, VOCABULARY_FILE)
    return next((path.parent / name for name in names if (path.parent / name).is_file()), None)


def _beside(file: Path, load: Callable[[Path], T], expected: int, notes: list[str]) -> T | None:
    if not file.is_file():
        return None
    try:
        rows = load(file)
    except (ValueError, OSError) as error:
        problem = f"cannot be read ({first_line(error)})"
    else:
        if len(rows) == expected:
            return rows
        problem = f"has {len(rows):,} rows for {expected:,}"
    notes.append(f"{file.name}: left aside, it {problem}")
    return None


def table_of(file: Path, encoding: str | None = None, **options: Any) -> pd.DataFrame:
    """A CSV or TSV table as it stands; the separator is a tab if the name says so."""
    separator = "\t" if ".tsv" in file.name.lower()[-7:] else ","
    with opened_text(file, encoding) as text:
        try:
            table = pd.read_csv(text, sep=separator, **ONLY_EMPTY_IS_MISSING, **options)
        except pd.errors.EmptyDataError as error:
            raise ValueError("there is nothing in it") from error
        except pd.errors.ParserError as error:
            raise ValueError(first_line(error)) from error
    header, table = unguarded_table(list(map(str, table.columns)), table)
    return table.set_axis(header, axis=1).apply(whole_numbers)


def whole_numbers(column: pd.Series) -> pd.Series:
    """A column as it is; but whole numbers with gaps, which pandas reads as fractions, as whole numbers again."""
    if not isinstance(column.dtype, np.dtype) or column.dtype.kind != "f" or not column.isna().any():
        return column
    known = column.dropna()
    whole = len(known) and ((known % 1 == 0) & (known.abs() < 1 << 53)).all()
    return column.astype("Int64") if whole else column


def as_names(column: pd.Series) -> list[str]:
    return column.astype(object).where(column.notna(), "").map(str).tolist()


def join_metadata(raw: RawCounts, file: Path, encoding: str | None = None) -> None:
    """Add the columns of a table: by the names of the samples where a column has them, otherwise by position."""
    table, words = table_of(file, encoding), table_of(file, encoding, dtype=str)
    n = raw.matrix.shape[0]
    column, absent = _column_of_names(words, raw.samples or [])
    if column is not None and not absent:
        fresh = _by_name(table, as_names(words[column]), column, raw.samples or [])
    elif column is not None:
        raise ValueError(
            f"{n - len(absent):,} of {n:,} samples are in its column {str(column)!r}, not so {listed(absent)}; "
            "give every sample a row"
        )
    elif len(table) == n:
        fresh = _by_position(table, words, raw, file.name)
    else:
        raise ValueError(
            f"{len(table):,} rows for {n:,} samples, and none of their names was found in it; "
            "give a column with the names of the samples, or one row a sample in the same order"
        )
    earlier = [] if raw.metadata is None else [raw.metadata.drop(columns=fresh.columns, errors="ignore")]
    joined = pd.concat([*earlier, fresh], axis=1)
    raw.metadata = joined if len(joined.columns) else None


def _column_of_names(words: pd.DataFrame, samples: list[str]) -> tuple[str | None, list[str]]:
    """The column with the most of the names, be it the first or one whose header says so, and the names not in it."""
    column, fewest = None, samples
    for number, header in enumerate(words.columns):
        if number == 0 or names_samples(str(header)):
            known = set(as_names(words[header]))
            absent = [name for name in samples if name not in known]
            if len(absent) < len(fewest):
                column, fewest = header, absent
    return column, fewest


def _by_position(table: pd.DataFrame, words: pd.DataFrame, raw: RawCounts, file: str) -> pd.DataFrame:
    if raw.samples is not None:
        raw.notes.append(f"{file}: no column has the names of the samples; its rows are taken in their order")
        return table
    names = next((column for column in table if column in SAMPLE_COLUMNS), None)
    if names is None:
        return table
    raw.samples = as_names(words[names])
    return table.drop(columns=names)


def _by_name(table: pd.DataFrame, keys: list[str], column: str, samples: list[str]) -> pd.DataFrame:
    place: dict[str, int] = {}
    wanted = set(samples)
    for row, key in enumerate(keys):
        if key in place and key in wanted:
            raise ValueError(f"{key!r} stands twice in its column {str(column)!r}; give every sample one row")
        place[key] = row
    rows = table.drop(columns=column).iloc[[place[name] for name in samples]]
    return rows.reset_index(drop=True)
