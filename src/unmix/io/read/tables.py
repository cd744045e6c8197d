"""Tables, such as `.csv` and `.tsv`: wide (one column per feature), long (sample, feature, count) or with texts."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import regex
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.memory import besides, limited, require
from unmix.io.read.blocks import SMALLER, Again, Blocks, Entries, from_row, part_size
from unmix.io.read.files import ONLY_EMPTY_IS_MISSING, first_line, opened_text
from unmix.io.read.names import (
    FEATURE_WORDS,
    INDEX_WORDS,
    LONG_FEATURE_WORDS,
    NOTE_WORDS,
    SAMPLE_WORDS,
    TIME_WORDS,
    as_names,
    long_roles,
    looks_like,
    may_name,
    mutation_columns,
    names_samples,
    naming,
    rows_are_features,
    speaks_of,
    whole_numbers,
    with_mutation_types,
    words_in,
)
from unmix.io.read.raw_counts import BYTES_A_TEXT, RawCounts, ReadOptions, listed
from unmix.io.read.text import TEXT_FIELD, counted, told_roles
from unmix.io.read.words import SEGMENTERS
from unmix.io.write import unguarded_table

MISSING = {"nan", "na", "n/a", "null", "none", "-", "."}
BLOCK = 1000  # columns that are made sparse at once
CELLS = 1 << 23  # that are read at once
PLAIN = [*"biuf"]  # columns of numbers and nothing else, as numpy has them
Part = tuple[list[str], pd.DataFrame]  # the header of a table, and some of its rows
LAYOUTS = ("long", "wide")
FIRST = 200_000  # rows that show what a table is
SENTENCES = 1_000  # cells that show whether a column holds sentences
LETTERS = 20_000  # of a cell, which say how long it is
FEW = 8  # columns of numbers that may stand beside texts
MOST_LONG = 8  # columns of a long table
WITHOUT_BLANKS = regex.compile(
    f"[{''.join(letters for _, letters, *_ in SEGMENTERS)}]"
)  # letters of scripts without them
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
        most, short = max(16, CELLS // max(1, len(header))), False
        with pd.read_csv(file, iterator=True, **rules) as tables:
            rows = min(most, _rows_of(path, encoding))
            while (table := _next_rows(tables, rows)) is not None:
                rows = max(
                    16, min(most, int(len(table) * part_size() / max(1, _size(table))))
                )  # texts may become longer
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


def _rows_of(path: Path, encoding: str | None) -> int:
    """How many rows have about as many letters as are read at once, as the first lines show."""
    with opened_text(path, encoding, nul=False) as file:
        sample = file.read(1 << 20)
    return max(16, int(part_size()) * (sample.count("\n") + 1) // max(1, len(sample)))


def _next_rows(tables: Any, rows: int) -> pd.DataFrame | None:
    try:
        return tables.get_chunk(rows)
    except StopIteration:
        return None


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
    told of stay text. `named` is whether the first column has names, if the file says so. `first` are the first rows.

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
            self.header, self.first = with_mutation_types(header, table.head(FIRST), self._mutations)
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
                self.first = table.head(FIRST)
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

    def columns(
        self, wanted: list[int], longest: int | None = None, always: Container[int] = ()
    ) -> dict[int, pd.Series]:
        """Some columns of the whole, but for those that hold longer texts, unless they are always wanted."""
        found: dict[int, list[pd.Series]] = {column: [] for column in wanted}
        for first, part in self.parts() if wanted else ():
            with limited(None):  # names and metadata are kept besides what reading may take
                require(
                    BYTES_A_TEXT * (first + len(part)), f"a column of the first {first + len(part):,} rows", SMALLER
                )
            for column in list(found):
                cells = self.cells(part, column)
                long = longest is not None and column not in always and _kind(cells.dtype) == "O"
                if long and (cells.dropna().map(str).str.len() > longest).any():
                    del found[column]
                else:
                    found[column].append(cells.copy())  # a part of a part would keep all of it, long texts too
        besides(sum(cells.memory_usage(deep=True) for parts in found.values() for cells in parts))
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
    """Texts, a long table or a wide one, whichever the cells and the header show; if two of them are plausible, neither."""
    if options.layout not in (None, *LAYOUTS):
        raise ValueError(f"{parameter('layout', options.layout)}; give {' or '.join(map(repr, LAYOUTS))}")
    if (text := _text_column(table, options)) is not None:
        return _texts(table, text, options)
    if (roles := _long_roles(table, options)) is not None:
        return _long(table, roles, options)
    return _wide(table, options)


def _text_column(table: Table, options: ReadOptions) -> int | None:
    """Where texts are to be taken from, or were for the model `like`; where most cells of a column called `text` are text; or
    where cells are sentences, whatever the column is called."""
    header = table.header
    if options.text_column is not None and options.text_column not in header:
        raise ValueError(f"no column {options.text_column!r} to take texts from; there are {listed(header)}")
    for name in (options.text_column, options.earlier_text_column):
        if name in header:
            return header.index(name)
    if options.layout is not None:
        return None
    for column, name in enumerate(header):
        if name.strip().lower() == TEXT_FIELD and table.blank[column] > 0.5 * table.n:
            return column  # a text may be "1984", and a count may be mistyped
    texts = np.flatnonzero(table.text & (table.blank > 0.5 * table.n)).tolist()
    lengths = {column: length for column in texts if (length := _sentences(table, column))}
    numbers = [name for j, name in enumerate(header) if table.fine[j] and table.numbers[j] and not names_samples(name)]
    named = [speaks_of(header[0]), looks_like(as_names(table.first[0]))[0], looks_like(numbers)[0]] if lengths else []
    if not lengths or "feature" in named or named[2] == "sample":  # as of a table of counts with descriptions
        return None
    text, *others = sorted(lengths, key=lengths.__getitem__, reverse=True)
    if others and lengths[text] < 3 * lengths[others[0]]:
        which = listed(header[j] for j in sorted(lengths))
        raise ValueError(f"the columns {which} hold sentences; choose the texts with {parameter('text_column')}")
    if numbers and (len(numbers) > FEW or words_in(header[text]) & NOTE_WORDS):
        raise ValueError(
            f"column {header[text]!r} holds sentences, and {listed(numbers)} {'hold' if len(numbers) > 1 else 'holds'} numbers; "
            f"give {parameter('text_column', header[text])} to count words, or {parameter('layout', 'wide')} if these are counts"
        )
    return text


def _sentences(table: Table, column: int) -> float:
    """How many words the cells of a column have, if most of them are different sentences, or else 0."""
    header, cells = words_in(table.header[column]), table.first[column].dropna().head(SENTENCES)
    cells = cells.map(lambda cell: str(cell)[:LETTERS])
    if header & (FEATURE_WORDS | {"id", "index", "row", "name"}) or not table.header[column].strip() or not len(cells):
        return 0.0
    lengths = cells.map(lambda cell: len(cell.split()) + len(WITHOUT_BLANKS.findall(cell)) / 2)
    return float(lengths.mean()) if lengths.median() >= 5 and 2 * cells.nunique() >= len(cells) else 0.0


def _long_roles(table: Table, options: ReadOptions) -> tuple[int, int, int] | None:
    """Where samples, features and counts stand in a table with a row per count: as the header says, or where two columns hold
    identifiers that come again and again, and each pair of them once."""
    header, asked = table.header, options.layout == "long"
    if options.layout == "wide" or not (asked or 3 <= len(header) <= MOST_LONG):
        return None
    said = long_roles(header)
    if said is not None and table.fine[said[2]] and (asked or len(header) == 3 or _are_pairs(table, *said[:2])):
        return said
    words = [words_in(name) for name in header]
    rest = [j for j, known in enumerate(words) if not known & TIME_WORDS or "times" in known]
    numbers = [j for j in rest if table.fine[j] and table.numbers[j]]
    if len(rest) < 3 or not numbers:
        if asked:
            raise ValueError(f"a long table needs columns of samples, features and counts; there are {listed(header)}")
        return None
    count = numbers[-1]
    sample, feature, *more = (j for j in rest if j != count)
    if words[sample] & LONG_FEATURE_WORDS and words[feature] & SAMPLE_WORDS:
        sample, feature = feature, sample
    if not asked and (more or not _are_pairs(table, sample, feature)):
        return None
    named = all(words[j] & (SAMPLE_WORDS | LONG_FEATURE_WORDS | {"id"}) for j in (sample, feature))
    if asked or named or {sample, feature}.isdisjoint(numbers):
        return sample, feature, count
    if table.n < 20 or min(_repeats(table, sample), _repeats(table, feature)) < 3:
        return None
    raise ValueError(
        f"{header[sample]!r} and {header[feature]!r} may be identifiers, with a count for each pair in {header[count]!r}, or all "
        f"of {listed(header)} may be counts; give {parameter('layout', 'long')} or {parameter('layout', 'wide')}"
    )


def _are_pairs(table: Table, sample: int, feature: int) -> bool:
    """Whether both columns repeat their values, and few pairs of values come twice."""
    pairs = table.first[[sample, feature]]
    both = min(_repeats(table, sample), _repeats(table, feature)) > 1
    return both and len(pairs.drop_duplicates()) > 0.9 * len(pairs)


def _repeats(table: Table, column: int) -> float:
    """How often a value of a column comes, on average."""
    return len(table.first) / max(1, table.first[column].nunique())


def _texts(table: Table, text: int, options: ReadOptions) -> RawCounts:
    header = table.header
    others = [column for column in range(len(header)) if column != text]
    names = {column for column in others if may_name(header[column], options)}
    found = table.columns(others, options.longest, names)
    named = naming({header[j]: as_names(found[j]) for j in others if j in names}, options, [header[j] for j in others])
    kept = [column for column in found if header[column] != "" and header[column] not in named.dropped]
    metadata = pd.DataFrame({column: natural(found[column]) for column in kept})
    metadata = metadata.set_axis([header[column] for column in kept], axis=1)

    def documents() -> Iterator[str]:
        for _, part in table.parts():
            yield from as_names(table.cells(part, text))

    raw = counted(documents, options, naming=named, metadata=metadata, column=header[text])
    raw.reading = f"one text per row, column {header[text]!r}" + told_roles(
        {"sample names": [named.column] * (named.column is not None), "metadata": [header[j] for j in kept]}
    )
    return raw


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
    others = [name for j, name in enumerate(header) if j not in roles]
    said = {"samples": [header[sample]], "features": [header[feature]], "counts": [header[count]], "left out": others}
    raw.reading = f"long, one row per count{told_roles(said)}"
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
    raw.reading = f"wide, one column per feature, {len(counts):,} in all" + told_roles(
        {"sample names": [header[0]] if named else [], "metadata": [header[j] for j in described]}
    )
    return the_right_way_round(raw, header, described, counts, options)


def the_right_way_round(
    raw: RawCounts, header: list[str], described: list[int], counts: list[int], options: ReadOptions
) -> RawCounts:
    """A wide table as it stands, or transposed if that was asked for or its labels say so; and what to tell of it."""
    samples, features, notes = raw.samples, list(raw.features or ()), raw.notes
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
            f"two columns of text and one of numbers, {listed(header)}; if its rows are counts of features in samples, give "
            f"{parameter('layout', 'long')}, or name the columns sample, feature and count"
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
