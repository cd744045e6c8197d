"""Tables that do not fit into memory, some rows at a time: a first pass finds out what they are and what their names are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unmix.data.read.blocks import ByEntries, ByRows, Entries
from unmix.data.read.files import extra, first_line
from unmix.data.read.labels import long_roles
from unmix.data.read.mutations import with_mutation_types
from unmix.data.read.names import as_names
from unmix.data.read.raw_counts import RawCounts, ReadOptions
from unmix.data.read.tables import (
    CELLS,
    asked_text_column,
    counts_in,
    first_column_names,
    is_text_field,
    natural,
    numbered,
    numbers_in,
    plain_columns,
    refuse_other_layouts,
    require_names,
    sparse,
    stands_for_something,
    the_right_way_round,
)
from unmix.data.read.text_blocks import LONGEST, counted_blocks
from unmix.data.read.titles import may_name, naming


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


def parquet_chunks(path: Path) -> Chunks:
    pyarrow, parquet = (
        extra("pyarrow", "reading .parquet", "parquet"),
        extra("pyarrow.parquet", "reading .parquet", "parquet"),
    )

    def frames() -> Iterator[tuple[list[str], pd.DataFrame, bool | None]]:
        try:
            with parquet.ParquetFile(path) as file:
                rows = max(16, CELLS // max(1, file.metadata.num_columns))
                for batch in file.iter_batches(rows):
                    yield numbered(pyarrow.Table.from_batches([batch]).to_pandas())
        except pyarrow.ArrowException as error:
            raise ValueError(f"not a readable Parquet file ({first_line(error)}); it may be cut short") from error

    parts = frames()
    _, _, named = next(parts, ([], None, None))
    parts.close()  # type: ignore[attr-defined]
    return Chunks(lambda: ((header, table) for header, table, _ in frames()), named)


def stream_table(chunks: Chunks, options: ReadOptions) -> RawCounts | None:
    """As `from_table`. None if what a name is depends on all of the table, as where 01 would be a number but for an x further
    down: it has to be read whole."""
    header = chunks.header
    if (text := _text_column(chunks, header, options)) is not None:
        return _texts(chunks, header, text, options)
    if roles := long_roles(header):
        found = _Names(*roles)
        if all(
            numbers_in(table[roles[2]])[1].all() and found.see(header, first, table) for first, table in chunks.tables()
        ):
            return _long(chunks, header, found, options) if found.consistent else None
    return _wide(chunks, header, options)


def _text_column(chunks: Chunks, header: list[str], options: ReadOptions) -> int | None:
    if (asked := asked_text_column(header, options)) is not None:
        return asked
    for column, name in enumerate(header):
        if is_text_field(name):
            missing = np.concatenate([np.isnan(numbers_in(table[column])[0]) for _, table in chunks.tables()])
            if missing.mean() > 0.5:
                return column
    return None


def _texts(chunks: Chunks, header: list[str], text: int, options: ReadOptions) -> RawCounts | None:
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
    whole = {header[column]: natural(pd.concat(cells, ignore_index=True)) for column, cells in parts.items()}
    return pd.DataFrame(whole) if whole else None


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


def _long(chunks: Chunks, header: list[str], found: _Names, options: ReadOptions) -> RawCounts:
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


def _wide(chunks: Chunks, header: list[str], options: ReadOptions) -> RawCounts | None:
    width = len(header)
    fine, numbers, text = np.ones(width, bool), np.zeros(width, bool), np.zeros(width, bool)
    firsts, kinds = [], set()
    for _, table in chunks.tables():
        firsts.append(table[0])
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
