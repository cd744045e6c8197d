"""Tables, such as `.csv` and `.tsv`: wide (one column per feature), long (sample, feature, count) or with texts."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.memory import require
from unmix.io.read.blocks import SMALLER, Again, Blocks, Entries, from_row
from unmix.io.read.files import ONLY_EMPTY_IS_MISSING, first_line, opened_text
from unmix.io.read.names import (
    FEATURE_WORDS,
    INDEX_WORDS,
    as_names,
    long_roles,
    may_name,
    mutation_columns,
    names_samples,
    naming,
    rows_are_features,
    whole_numbers,
    with_mutation_types,
    words_in,
)
from unmix.io.read.raw_counts import BYTES_A_TEXT, RawCounts, ReadOptions, listed
from unmix.io.read.text import TEXT_FIELD, counted
from unmix.io.write import unguarded_table

MISSING = {"nan", "na", "n/a", "null", "none", "-", "."}
BLOCK = 1000  # columns that are made sparse at once
CELLS = 1 << 23  # that are read at once
PLAIN = [*"biuf"]  # columns of numbers and nothing else, as numpy has them
Part = tuple[list[str], pd.DataFrame]  # the header of a table, and some of its rows
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def read_csv(path: Path, options: ReadOptions) -> RawCounts:
    return _separated(path, ",;\t", options)


def read_tsv(path: Path, options: ReadOptions) -> RawCounts:
    return _separated(path, "\t", options)


def _separated(path: Path, separators: str, options: ReadOptions) -> RawCounts:
    return from_table(Table(lambda texts: _parts(path, separators, options.encoding, texts)), options)


def _parts(path: Path, separators: str, encoding: str | None, texts: frozenset[int]) -> Iterator[Part]:
    """The first row as text, and the others as pandas understands them, some at a time; what may be names stays text."""
    with _parsed(path, separators, encoding, texts) as (header, separator, file, rules):
        rows, short = max(16, CELLS // max(1, len(header))), False
        with pd.read_csv(file, chunksize=rows, **rules) as tables:
            for table in tables:
                table.index = pd.RangeIndex(len(table))
                width = table.shape[1]
                if len(header) == width - 1:  # R's write.table leaves out the header of the row names
                    header = ["", *header]
                if len(header) != width:
                    problem = f"the first row has {len(header)} cells, the second {width}"
                    raise ValueError(f"{problem}; every row needs as many")
                if not short and table[width - 1].isna().any():  # pandas fills up short rows
                    _refuse_short_rows(path, separator, width, encoding)
                    short = True  # all rows have been looked at
                yield unguarded_table(header, table)


@contextmanager
def _parsed(
    path: Path, separators: str, encoding: str | None, texts: frozenset[int]
) -> Iterator[tuple[list[str], str, IO[str], dict[str, Any]]]:
    """The header of a table, what separates its cells, the file after its header, and how pandas is to read that."""
    with opened_text(path, encoding, nul=False) as file:
        separator = _separator(file.readline(csv.field_size_limit()), separators)
    with opened_text(path, encoding, nul=False) as file:
        header: list[str] = []
        try:
            reader = csv.reader(file, delimiter=separator)
            header = next(reader, [])
            names = {j: str for j, name in enumerate(header) if j == 0 or _may_be_names(name)}
            names |= dict.fromkeys(texts, str)
            rules = {"sep": separator, "header": None, "dtype": names, "low_memory": False}
            yield header, separator, file, rules | ONLY_EMPTY_IS_MISSING
        except pd.errors.EmptyDataError as error:
            missing = "nothing below the names of the features" if header else "nothing in it"
            raise ValueError(f"there is {missing}; unmix needs one row a sample") from error
        except (csv.Error, pd.errors.ParserError) as error:
            if ragged := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
                expected, line, cells = map(int, ragged.groups())
                raise ValueError(
                    f"line {line + reader.line_num} has {cells} cells, those before it {expected}; "
                    "every row needs as many"
                ) from error
            raise ValueError(f"not a table separated by {SEPARATORS[separator]} ({first_line(error)})") from error


def _separator(line: str, separators: str) -> str:
    return next((one for one in separators if len(next(csv.reader([line], delimiter=one), [])) > 1), separators[0])


def _may_be_names(header: str) -> bool:
    return header.strip() != "" and (names_samples(header) or bool(words_in(header) & FEATURE_WORDS))


def _refuse_short_rows(path: Path, separator: str, width: int, encoding: str | None) -> None:
    with opened_text(path, encoding) as file:
        reader = csv.reader(file, delimiter=separator)
        next(reader)
        row = 0
        with suppress(csv.Error):  # a cell too long for Python's reader, though not for that of pandas
            for cells in reader:
                row += bool(cells)
                if 0 < len(cells) < width:
                    raise ValueError(
                        f"row {row} (line {reader.line_num}) has {len(cells)} cells, others {width}; "
                        "every row needs as many"
                    )


class Table:
    """A table in parts, which can be gone through more than once. `read` gives them, each after its header; columns that it is
    told of stay text. `named` is whether the first column has names, if the file says so.

    What a column holds depends on all of its cells: 01 is a number, unless there is an x further down. So all parts are looked at
    first, and where some have numbers in a column and others text, it is read again as text.
    """

    def __init__(self, read: Callable[[frozenset[int]], Iterator[Part]], named: bool | None = None) -> None:
        self.named = named
        if mixed := self._look(read, frozenset()):
            self._look(read, mixed)
        self._mutations = mutation_columns(self._parts)
        if self._mutations is not None:
            header, table = next(iter(self._parts))
            kept = [j for j in range(len(header)) if j not in self._mutations.values()]
            self.header, _ = with_mutation_types(header, table, self._mutations)
            of_types = (("fine", False), ("numbers", False), ("text", True), ("blank", self.n), ("mended", False))
            for name, first in of_types:
                setattr(self, name, np.array([first, *getattr(self, name)[kept]]))

    def _look(self, read: Callable[[frozenset[int]], Iterator[Part]], texts: frozenset[int]) -> frozenset[int]:
        """What the columns hold: whether all cells are numbers or empty, any is a number, any text stands for something, how many
        are no numbers, and which whole numbers are fractions elsewhere. Returns the columns of several kinds."""
        self._parts = Again(lambda: read(texts), lambda part: _size(part[1]))
        self.n = 0
        for header, table in self._parts:
            self.header, kind, missing = header, _kinds(table), table.isna().sum().to_numpy()
            if not self.n:
                self.fine, self.blank = np.ones(len(kind), bool), np.zeros(len(kind), np.int64)
                self.numbers, self.text, whole, part, truth, words, empty = np.zeros((7, len(kind)), bool)
            self.n += len(table)
            plain, there = np.isin(kind, PLAIN), missing < len(table)
            self.numbers |= plain & there
            self.blank += np.where(plain, missing, 0)
            whole |= np.isin(kind, ["i", "u"])
            part |= (kind == "f") & there
            truth |= kind == "b"
            empty |= ~there
            for column in np.flatnonzero(~plain).tolist():
                cells = table[column]
                values, right = numbers_in(cells)
                self.fine[column] &= right.all()
                self.numbers[column] |= not np.isnan(values).all()
                self.text[column] |= any(map(stands_for_something, cells[~right]))
                self.blank[column] += np.isnan(values).sum()
                if kind[column] == "O" and there[column]:
                    (words if any(isinstance(cell, str) for cell in cells) else truth)[column] = True
        if not self.n:
            raise ValueError("a table without cells; unmix needs one row per sample")
        self.mended = whole & (part | empty)
        several = (whole | part).astype(int) + truth + words > 1
        return frozenset(np.flatnonzero(several).tolist())

    def parts(self) -> Iterator[tuple[int, pd.DataFrame]]:
        """Each part after the number of its first row."""
        first = 0
        for header, table in self._parts:
            yield first, table if self._mutations is None else with_mutation_types(header, table, self._mutations)[1]
            first += len(table)

    def cells(self, part: pd.DataFrame, column: int) -> pd.Series:
        """A column of a part, as it is in the whole."""
        return part[column].astype(np.float64) if self.mended[column] else part[column]

    def columns(self, wanted: list[int], longest: int | None = None) -> dict[int, pd.Series]:
        """Some columns of the whole, but for those that hold longer texts."""
        found: dict[int, list[pd.Series]] = {column: [] for column in wanted}
        for first, part in self.parts() if wanted else ():
            require(BYTES_A_TEXT * (first + len(part)), f"a column of the first {first + len(part):,} rows", SMALLER)
            for column in list(found):
                cells = self.cells(part, column)
                if longest and _kind(cells.dtype) == "O" and (cells.dropna().map(str).str.len() > longest).any():
                    del found[column]
                else:
                    found[column].append(cells)
        return {column: _whole_column(cells) for column, cells in found.items()}


def _whole_column(parts: list[pd.Series]) -> pd.Series:
    if all(isinstance(cells.dtype, pd.CategoricalDtype) for cells in parts):
        levels = pd.Index([*dict.fromkeys(level for cells in parts for level in cells.cat.categories)], dtype=object)
        parts = [cells.cat.set_categories(levels) for cells in parts] if len(parts) > 1 else parts
    return pd.concat(parts, ignore_index=True)


def _size(table: pd.DataFrame) -> int:
    """Bytes of a table."""
    texts = np.flatnonzero(~np.isin(_kinds(table), PLAIN)).tolist()
    return 8 * table.size + sum(int(table[column].memory_usage(deep=True)) for column in texts)


def _kinds(table: pd.DataFrame) -> NDArray[np.str_]:
    return np.array([_kind(dtype) for dtype in table.dtypes])


def _kind(dtype: Any) -> str:
    """What a column holds, in the letters of numpy; nothing for other types of pandas."""
    return "O" if isinstance(dtype, pd.StringDtype) else dtype.kind if isinstance(dtype, np.dtype) else ""


def from_table(table: Table, options: ReadOptions) -> RawCounts:
    """Texts, a long table or a wide one, whichever the header and the cells show."""
    if (text := _text_column(table, options)) is not None:
        return _texts(table, text, options)
    if (roles := long_roles(table.header)) and table.fine[roles[2]]:
        return _long(table, roles, options)
    return _wide(table, options)


def _text_column(table: Table, options: ReadOptions) -> int | None:
    """Where texts are to be taken from, or were for the model `like`, or where most cells of a column of that name are text."""
    header = table.header
    if options.text_column is not None and options.text_column not in header:
        raise ValueError(f"no column {options.text_column!r} to take texts from; there are {listed(header)}")
    for name in (options.text_column, options.earlier_text_column):
        if name in header:
            return header.index(name)
    for column, name in enumerate(header):
        if name.strip().lower() == TEXT_FIELD and table.blank[column] > 0.5 * table.n:
            return column  # a text may be "1984", and a count may be mistyped
    return None


def _texts(table: Table, text: int, options: ReadOptions) -> RawCounts:
    header = table.header
    others = [column for column in range(len(header)) if column != text]
    names = table.columns([column for column in others if may_name(header[column], options)])
    known = {header[column]: as_names(cells) for column, cells in names.items()}
    named = naming(known, options, [header[column] for column in others])
    kept = [column for column in others if header[column] != "" and header[column] not in named.dropped]
    described = table.columns(kept, options.longest)
    metadata = pd.DataFrame({column: natural(cells) for column, cells in described.items()})
    metadata = metadata.set_axis([header[column] for column in described], axis=1)

    def documents() -> Iterator[str]:
        for _, part in table.parts():
            yield from as_names(table.cells(part, text))

    return counted(documents, options, naming=named, metadata=metadata, column=header[text])


def _long(table: Table, roles: tuple[int, int, int], options: ReadOptions) -> RawCounts:
    """A row for each pair of sample and feature; both in the order in which they first come."""
    header, (sample, feature, count) = table.header, roles
    samples, features = dict[str, int](), dict[str, int]()

    def numbered() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        for first, part in table.parts():
            require_names(header, part, roles, first)
            yield _codes(table.cells(part, sample), samples), _codes(table.cells(part, feature), features)

    def entries() -> Iterator[Entries]:
        for (first, part), (rows, columns) in zip(table.parts(), places, strict=True):
            yield rows, columns, counts_in(part[count], count, header[count], None, first)

    places = Again(numbered, lambda codes: 2 * codes[0].nbytes)
    deque(places, maxlen=0)

    raw = RawCounts(Blocks((len(samples), len(features)), table.n, entries=entries), [*samples], [*features])
    pairs = [rows << 32 | columns for rows, columns in places.kept or ()]
    if pairs and (again := table.n - len(np.unique(np.concatenate(pairs)))):
        raw.notes.append(
            f"{again:,} row{'s name' if again > 1 else ' names'} a sample and a feature that came before: counts are added"
        )
    return raw.transposed() if options.transpose else raw


def _codes(names: pd.Series, known: dict[str, int]) -> NDArray[np.int64]:
    """The numbers of names, of which new ones get the next."""
    places, different = pd.factorize(np.array(as_names(names), dtype=object))
    return np.array([known.setdefault(name, len(known)) for name in different])[places]


def require_names(header: list[str], table: pd.DataFrame, roles: tuple[int, int, int], first: int = 0) -> None:
    for column in roles[:2]:
        if (missing := np.flatnonzero(table[column].isna())).size:
            raise ValueError(f"row {first + missing[0] + 1} has no {header[column]!r}; every count needs one")


def _wide(table: Table, options: ReadOptions) -> RawCounts:
    header, notes = table.header, list[str]()
    first_column = table.columns([0])[0]
    named = first_column_names(header[0], first_column, notes) if table.named is None else table.named
    samples = as_names(first_column) if named else None
    all_text = ~table.fine & ~table.numbers & table.text
    described = [column for column in range(1, len(header)) if named and all_text[column]]
    counts = [column for column in range(int(named), len(header)) if column not in set(described)]
    features = [header[column] for column in counts]
    refuse_other_layouts(header, features, described)

    def read(start: int) -> Iterator[Any]:
        blocks = (sparse(part, counts, header, samples, first) for first, part in table.parts())
        return from_row(start, blocks)

    metadata = pd.DataFrame(table.columns(described)).set_axis([header[column] for column in described], axis=1)
    raw = RawCounts(Blocks((table.n, len(counts)), None, read), samples, features, metadata, notes=notes)
    return the_right_way_round(raw, header, described, counts, options)


def the_right_way_round(
    raw: RawCounts, header: list[str], described: list[int], counts: list[int], options: ReadOptions
) -> RawCounts:
    """A wide table as it stands, or transposed if that was asked for or its labels say so; and what to tell of it."""
    samples, features, notes = raw.samples, raw.features or [], raw.notes
    if options.transpose is None and samples and (why := rows_are_features(header[0], samples, features)):
        notes.append(f"rows look like features ({why}): transposed; use {parameter('transpose', False)} to keep")
        return raw.transposed()
    if options.transpose:
        return raw.transposed()
    if described:
        among = [header[column] for column in counts if column < described[-1]] if described[0] == 1 else []
        notes.append(f"taken as metadata, being text: {listed(header[column] for column in described)}")
        notes += [f"taken as counts, being numbers, though it stands among metadata: {name!r}" for name in among[:1]]
    return raw


def first_column_names(header: str, first: pd.Series, notes: list[str]) -> bool:
    """Names if the header is empty or a cell is text; numbers are names if the header says so and no two are equal."""
    if header.strip() == "" or not numbers_in(first)[1].all():
        return True
    words = words_in(header)
    if not (names_samples(header) or words & FEATURE_WORDS):
        return False
    if first.is_unique and not first.isna().any():
        notes.append(f"the first column, {header!r}, holds numbers that are all different: taken as names")
        return True
    if words & INDEX_WORDS:
        notes.append(
            f"the first column, {header!r}, holds numbers that repeat, and is taken as counts; "
            "if they are names, leave its header cell empty"
        )
    return False


def refuse_other_layouts(header: list[str], features: list[str], described: list[int]) -> None:
    if not features and described:
        raise ValueError(
            f"no column holds counts; if {listed(header[j] for j in described)} holds texts, "
            f"give it as {parameter('text_column')}"
        )
    if not features:
        raise ValueError("one column only, and it holds names; the columns of the table must be separated by commas")
    if len(header) == 3 and len(described) == 1:
        raise ValueError(
            f"two columns of text and one of numbers; if its rows are counts of features in samples, "
            f"name the columns sample, feature and count (now {listed(header)})"
        )
    if len(set(features)) < len(features) and all(_is_number(name) for name in features):
        raise ValueError("the first row holds counts; put a row with the names of the features above it")


def sparse(
    table: pd.DataFrame, columns: list[int], header: list[str], samples: list[str] | None, first: int = 0
) -> sp.csc_array:
    """The numbers of a table, some columns at a time, so that no second table of its size is made. It may be a part of a whole,
    from row `first` on, of which errors speak."""
    plain = np.isin(_kinds(table), PLAIN)
    blocks = []
    for start in range(0, len(columns), BLOCK):
        block = np.array(columns[start : start + BLOCK])
        values = np.zeros((len(table), len(block)))
        values[:, plain[block]] = table.iloc[:, block[plain[block]]].to_numpy(dtype=np.float64)
        fine = plain[block] & ((values >= 0) & (values < np.inf)).all(axis=0)
        for j in np.flatnonzero(~fine).tolist():  # text that may yet be a number, or a cell to complain about
            values[:, j] = counts_in(table[block[j]], start + j, header[block[j]], samples, first)
        blocks.append(sp.csc_array(values))
    return sp.hstack(blocks, format="csc")


def counts_in(
    cells: pd.Series, column: int, header: str, samples: list[str] | None, first: int = 0
) -> NDArray[np.float64]:
    """The cells of a column as numbers, or an error that names the first that is not a count."""
    values, _ = numbers_in(cells)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~((values >= 0) & (values < np.inf)))
    if bad.size:
        row = int(bad[0])
        name = "" if samples is None else f" ({samples[first + row]!r})"
        cell = "empty" if pd.isna(cells.iloc[row]) else repr(cells.tolist()[row])
        raise ValueError(
            f"row {first + row + 1}{name}, column {column + 1} ({header!r}) is {cell}; "
            "unmix needs finite counts >= 0 in every cell, 0 for none"
        )
    return values


def numbers_in(cells: pd.Series) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The cells as numbers (NaN where they are none), and which of them are numbers or empty."""
    if pd.api.types.is_numeric_dtype(cells.dtype):
        return cells.to_numpy(dtype=np.float64, na_value=np.nan), np.ones(len(cells), dtype=bool)
    if pd.api.types.is_datetime64_any_dtype(cells.dtype) or pd.api.types.is_timedelta64_dtype(cells.dtype):
        return np.full(len(cells), np.nan), np.zeros(len(cells), dtype=bool)
    plain = cells.astype(object)
    texts = plain.where(plain.notna(), np.nan).tolist()
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}  # a long text may repeat
    numbers = pd.to_numeric(pd.Series([*places], dtype=object), errors="coerce").to_numpy(dtype=np.float64)
    if np.isnan(numbers).all():
        return np.full(len(cells), np.nan), cells.isna().to_numpy()
    values = numbers[[places[text] for text in texts]]
    return values, ~np.isnan(values) | cells.isna().to_numpy()


def stands_for_something(cell: object) -> bool:
    return str(cell).strip().lower() not in MISSING


def natural(cells: pd.Series) -> pd.Series:
    """Numbers where all cells are numbers, whole ones if they are, otherwise as they are."""
    if pd.api.types.is_numeric_dtype(cells.dtype):
        return whole_numbers(cells)
    values, fine = numbers_in(cells)
    if not fine.all() or np.isnan(values).all():
        return cells
    return pd.Series(pd.to_numeric(cells.where(cells.notna(), np.nan))).pipe(whole_numbers)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
