"""Tables, such as `.csv` and `.tsv`: wide (one column per feature), long (sample, feature, count) or with texts."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.memory import require
from unmix.io.read.blocks import ByEntries, ByRows, Entries
from unmix.io.read.files import first_line, opened_text
from unmix.io.read.matrices import ONLY_EMPTY_IS_MISSING
from unmix.io.read.names import (
    FEATURE_WORDS,
    INDEX_WORDS,
    as_names,
    long_roles,
    may_name,
    names_samples,
    naming,
    rows_are_features,
    whole_numbers,
    with_mutation_types,
    words_in,
)
from unmix.io.read.raw_counts import BYTES_A_TEXT, SMALLER, RawCounts, ReadOptions, listed
from unmix.io.read.text import LONGEST, TEXT_FIELD, counted, counted_blocks
from unmix.io.write import unguarded_table

MISSING = {"nan", "na", "n/a", "null", "none", "-", "."}
BLOCK = 1000  # columns that are made sparse at once
CELLS = 1 << 22  # that are read at once where the whole is not
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def read_csv(path: Path, options: ReadOptions) -> RawCounts:
    return _separated(path, ",;\t", options)


def read_tsv(path: Path, options: ReadOptions) -> RawCounts:
    return _separated(path, "\t", options)


def _separated(path: Path, separators: str, options: ReadOptions) -> RawCounts:
    chunks = Chunks(lambda: cells_of(path, separators, options.encoding))
    if options.streamed and (raw := stream_table(chunks, options)) is not None:
        return raw
    return from_table(*_cells(path, separators, options.encoding), options)


def _cells(path: Path, separators: str, encoding: str | None) -> tuple[list[str], pd.DataFrame]:
    """The first row as text, and the others as pandas understands them; what may be names stays text."""
    with _parsed(path, separators, encoding) as (header, separator, file, rules):
        table = pd.read_csv(file, **rules)
    return unguarded_table(_checked(path, separator, header, table, encoding), table)


def cells_of(path: Path, separators: str, encoding: str | None) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """The same, some rows at a time."""
    with _parsed(path, separators, encoding) as (header, separator, file, rules):
        rows = max(16, CELLS // max(1, len(header)))
        with pd.read_csv(file, chunksize=rows, **rules) as tables:
            for table in tables:
                yield unguarded_table(_checked(path, separator, header, table, encoding), table)


@contextmanager
def _parsed(
    path: Path, separators: str, encoding: str | None
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


def _checked(path: Path, separator: str, header: list[str], table: pd.DataFrame, encoding: str | None) -> list[str]:
    """The whole header of a table, all of whose rows are as long."""
    width = table.shape[1]
    if len(header) == width - 1:  # R's write.table leaves out the header of the row names
        header = ["", *header]
    if len(header) != width:
        raise ValueError(f"the first row has {len(header)} cells, the second {width}; every row needs as many")
    if table[width - 1].isna().any():  # pandas fills up short rows
        _refuse_short_rows(path, separator, width, encoding)
    return header


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


def from_table(header: list[str], table: pd.DataFrame, options: ReadOptions, named: bool | None = None) -> RawCounts:
    """Texts, a long table or a wide one, whichever the header and the cells show."""
    header, table = with_mutation_types(header, table)
    if (text := _text_column(header, table, options)) is not None:
        return _texts(header, table, text, options)
    if (roles := long_roles(header)) and numbers_in(table[roles[2]])[1].all():
        return _long(header, table, roles, options)
    return _wide(header, table, options, named)


def _text_column(header: list[str], table: pd.DataFrame, options: ReadOptions) -> int | None:
    if (asked := asked_text_column(header, options)) is not None:
        return asked
    for column, name in enumerate(header):
        if is_text_field(name) and np.isnan(numbers_in(table[column])[0]).mean() > 0.5:
            return column  # a text may be "1984", and a count may be mistyped
    return None


def asked_text_column(header: list[str], options: ReadOptions) -> int | None:
    """Where texts are to be taken from, or were for the model `like`."""
    if options.text_column is not None and options.text_column not in header:
        raise ValueError(f"no column {options.text_column!r} to take texts from; there are {listed(header)}")
    wanted = (options.text_column, options.earlier_text_column)
    return next((header.index(name) for name in wanted if name in header), None)


def is_text_field(name: str) -> bool:
    return name.strip().lower() == TEXT_FIELD


def _texts(header: list[str], table: pd.DataFrame, text: int, options: ReadOptions) -> RawCounts:
    others = [column for column in range(len(header)) if column != text]
    named = naming({header[column]: as_names(table[column]) for column in others}, options)
    kept = [column for column in others if header[column] != "" and header[column] not in named.dropped]
    metadata = pd.DataFrame({column: natural(table[column]) for column in kept})
    metadata = metadata.set_axis([header[column] for column in kept], axis=1)
    return counted(as_names(table[text]), options, naming=named, metadata=metadata, column=header[text])


def _long(header: list[str], table: pd.DataFrame, roles: tuple[int, int, int], options: ReadOptions) -> RawCounts:
    """A row for each pair of sample and feature; both in the order in which they first come."""
    sample, feature, count = roles
    require_names(header, table, roles)
    values = counts_in(table[count], count, header[count], None)
    rows, samples = pd.factorize(np.array(as_names(table[sample]), dtype=object))
    columns, features = pd.factorize(np.array(as_names(table[feature]), dtype=object))
    matrix = sp.coo_array((values, (rows, columns)), shape=(len(samples), len(features)))
    raw = RawCounts(matrix, list(samples), list(features))
    if again := int(pd.DataFrame({"row": rows, "column": columns}).duplicated().sum()):
        raw.notes.append(
            f"{again:,} row{'s name' if again > 1 else ' names'} a sample and a feature that came before: counts are added"
        )
    return raw.transposed() if options.transpose else raw


def require_names(header: list[str], table: pd.DataFrame, roles: tuple[int, int, int], first: int = 0) -> None:
    for column in roles[:2]:
        if (missing := np.flatnonzero(table[column].isna())).size:
            raise ValueError(f"row {first + missing[0] + 1} has no {header[column]!r}; every count needs one")


def _wide(header: list[str], table: pd.DataFrame, options: ReadOptions, named: bool | None) -> RawCounts:
    notes: list[str] = []
    if named is None:
        named = first_column_names(header[0], table[0], notes)
    samples = as_names(table[0]) if named else None
    columns = range(int(named), len(header))
    plain = plain_columns(table)
    described = [column for column in columns if named and not plain[column] and _all_text(table[column])]
    counts = [column for column in columns if column not in set(described)]
    features = [header[column] for column in counts]
    refuse_other_layouts(header, features, described)
    matrix = sparse(table, counts, header, samples)
    metadata = table[described].set_axis([header[column] for column in described], axis=1)
    raw = RawCounts(matrix, samples, features, metadata, notes=notes)
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
    plain = plain_columns(table)
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


def plain_columns(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Which columns hold numbers and nothing else, as numpy has them."""
    return np.array([isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in table.dtypes])


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
    values = numbers[[places[text] for text in texts]]
    return values, ~np.isnan(values) | cells.isna().to_numpy()


def _all_text(cells: pd.Series) -> bool:
    """No cell is a number, and at least one is more than a sign for a missing number."""
    values, fine = numbers_in(cells)
    if fine.all() or not np.isnan(values).all():
        return False
    return any(map(stands_for_something, cells[~fine]))


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


# Tables that do not fit into memory, some rows at a time: a first pass finds out what they are and what their names are.


@dataclass(frozen=True)
class Chunks:
    """A table in parts, each after its header, which can be read again and again. `named` is whether the first column has
    names, if the file says so."""

    read: Callable[[], Iterator[tuple[list[str], pd.DataFrame]]]
    named: bool | None = None

    def tables(self) -> Iterator[tuple[int, pd.DataFrame]]:
        """Each part after the number of its first row."""
        first = 0
        for header, table in self.read():
            yield first, with_mutation_types(header, table)[1].reset_index(drop=True)
            first += len(table)

    @property
    def header(self) -> list[str]:
        parts = self.read()
        header, table = next(parts)
        parts.close()  # type: ignore[attr-defined]
        return with_mutation_types(header, table)[0]


def stream_table(chunks: Chunks, options: ReadOptions) -> RawCounts | None:
    """As `from_table`. None if what a name is depends on all of the table, as where 01 would be a number but for an x further
    down: it has to be read whole."""
    header = chunks.header
    if (text := _text_column_of_chunks(chunks, header, options)) is not None:
        return _text_blocks(chunks, header, text, options)
    if roles := long_roles(header):
        found = _Names(*roles)
        if all(
            numbers_in(table[roles[2]])[1].all() and found.see(header, first, table) for first, table in chunks.tables()
        ):
            return _long_blocks(chunks, header, found, options) if found.consistent else None
    return _wide_blocks(chunks, header, options)


def _text_column_of_chunks(chunks: Chunks, header: list[str], options: ReadOptions) -> int | None:
    if (asked := asked_text_column(header, options)) is not None:
        return asked
    for column, name in enumerate(header):
        if is_text_field(name):
            missing = np.concatenate([np.isnan(numbers_in(table[column])[0]) for _, table in chunks.tables()])
            if missing.mean() > 0.5:
                return column
    return None


def _text_blocks(chunks: Chunks, header: list[str], text: int, options: ReadOptions) -> RawCounts | None:
    others = [column for column in range(len(header)) if column != text and header[column] != ""]
    wanted = [j for j, name in enumerate(header) if j != text and may_name(name, options)]
    names: dict[str, list[str]] = {header[column]: [] for column in wanted}
    kinds: set[tuple[int, str]] = set()
    for _, table in chunks.tables():
        kinds |= {(column, str(table[column].dtype)) for column in (*wanted, text)}
        for column in wanted:
            names[header[column]] += as_names(table[column])
    if len(kinds) > len(wanted) + 1:
        return None
    named = naming(names, options, [name for column, name in enumerate(header) if column != text])

    def documents() -> Iterator[str]:
        for _, table in chunks.tables():
            yield from as_names(table[text])

    raw = counted_blocks(documents, options, naming=named, column=header[text])
    raw.metadata = _described(chunks, header, [column for column in others if header[column] not in named.dropped])
    return raw


def _described(chunks: Chunks, header: list[str], columns: list[int]) -> pd.DataFrame | None:
    """Some columns of the whole table, but for those of long texts."""
    if not columns:
        return None
    parts: dict[int, list[pd.Series]] = {column: [] for column in columns}
    for _, table in chunks.tables():
        for column in list(parts):
            cells = table[column]
            if cells.dtype == object and (cells.dropna().map(str).str.len() > LONGEST).any():
                del parts[column]
            else:
                parts[column].append(cells)
    whole = {column: natural(pd.concat(cells, ignore_index=True)) for column, cells in parts.items()}
    return pd.DataFrame(whole).set_axis([header[column] for column in whole], axis=1) if whole else None


class _Names:
    """The samples and features of a long table, in the order in which they first come."""

    def __init__(self, sample: int, feature: int, count: int) -> None:
        self.roles = sample, feature, count
        self.known: tuple[dict[str, None], dict[str, None]] = {}, {}
        self.kinds: set[tuple[int, str]] = set()
        self.rows = 0

    def see(self, header: list[str], first: int, table: pd.DataFrame) -> bool:
        require_names(header, table, self.roles, first)
        for column, known in zip(self.roles, self.known, strict=False):
            self.kinds.add((column, str(table[column].dtype)))
            known |= dict.fromkeys(pd.unique(np.array(as_names(table[column]), dtype=object)).tolist())
        self.rows += len(table)
        return True

    @property
    def consistent(self) -> bool:
        return len(self.kinds) == 2


def _long_blocks(chunks: Chunks, header: list[str], found: _Names, options: ReadOptions) -> RawCounts:
    samples, features = (list(known) for known in found.known)
    sample, feature, count = found.roles

    def entries() -> Iterator[Entries]:
        places = pd.Index(samples, dtype=object), pd.Index(features, dtype=object)
        for first, table in chunks.tables():
            values = counts_in(table[count], count, header[count], None, first)
            rows, columns = (
                index.get_indexer(np.array(as_names(table[column]), dtype=object))
                for index, column in zip(places, (sample, feature), strict=True)
            )
            yield rows, columns, values

    raw = RawCounts(ByEntries((len(samples), len(features)), found.rows, entries), samples, features)
    return raw.transposed() if options.transpose else raw


def _wide_blocks(chunks: Chunks, header: list[str], options: ReadOptions) -> RawCounts | None:
    width = len(header)
    fine, numbers, text = np.ones(width, bool), np.zeros(width, bool), np.zeros(width, bool)
    firsts, kinds = [], set()
    for _, table in chunks.tables():
        firsts.append(table[0])
        require(
            BYTES_A_TEXT * sum(map(len, firsts)),
            f"the first {sum(map(len, firsts)):,} rows of its first column",
            SMALLER,
        )
        kinds.add(str(table[0].dtype))
        plain = plain_columns(table)
        numbers[plain] |= table.iloc[:, np.flatnonzero(plain)].notna().any().to_numpy()
        for column in np.flatnonzero(~plain).tolist():
            values, right = numbers_in(table[column])
            fine[column] &= right.all()
            numbers[column] |= not np.isnan(values).all()
            text[column] |= any(map(stands_for_something, table[column][~right]))
    if len(kinds) > 1:
        return None
    notes: list[str] = []
    first_column = pd.concat(firsts, ignore_index=True)
    named = chunks.named if chunks.named is not None else first_column_names(header[0], first_column, notes)
    samples = as_names(first_column) if named else None
    all_text = ~fine & ~numbers & text
    described = [column for column in range(1, width) if named and all_text[column]]
    counts = [column for column in range(int(named), width) if column not in set(described)]
    features = [header[column] for column in counts]
    refuse_other_layouts(header, features, described)

    def read(start: int) -> Iterator[Any]:
        for first, table in chunks.tables():
            if first + len(table) > start:
                skip = max(0, start - first)
                yield sparse(table.iloc[skip:].reset_index(drop=True), counts, header, samples, first + skip)

    blocks = ByRows((len(first_column), len(features)), None, read)
    table = pd.concat([part[described] for _, part in chunks.tables()], ignore_index=True) if described else None
    metadata = None if table is None else table.set_axis([header[column] for column in described], axis=1)
    raw = RawCounts(blocks, samples, features, metadata, notes=notes)
    return the_right_way_round(raw, header, described, counts, options)
