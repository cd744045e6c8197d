"""Tables, such as `.csv` and `.tsv`: wide (one column per feature), long (sample, feature, count) or with texts."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Any

import numpy as np
import pandas as pd
import regex
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.kinds import DOUBLETS, mutation_type
from unmix.base.memory import besides, limited, require
from unmix.io.options import ReadOptions, listed
from unmix.io.read.blocks import SMALLER, Again, Blocks, Entries, from_row
from unmix.io.read.names import (
    FEATURE_WORDS,
    GENOME_WORDS,
    INDEX_WORDS,
    LONG_FEATURE_WORDS,
    NOTE_WORDS,
    SAMPLE_WORDS,
    TIME_WORDS,
    TOTAL,
    as_names,
    describing,
    is_number,
    long_roles,
    looks_like,
    may_name,
    mutation_columns,
    names_samples,
    naming,
    natural,
    numbers_in,
    numbers_rows,
    rows_are_features,
    speaks_of,
    stands_for_something,
    with_mutation_types,
    words_in,
)
from unmix.io.read.raw_counts import BYTES_A_TEXT, RawCounts
from unmix.io.read.text import TEXT_FIELD, counted, told_roles
from unmix.io.read.words import SEGMENTERS

BLOCK = 1000  # columns that are made sparse at once
CELLS = 1 << 23  # that are read at once
PLAIN = [*"biuf"]  # columns of numbers and nothing else, as numpy has them
Part = tuple[list[str], pd.DataFrame]  # the header of a table, and some of its rows
LAYOUTS = ("long", "wide")
FIRST = 200_000  # rows that show what a table is
SENTENCES = 1_000  # cells that show whether a column holds sentences
LETTERS = 20_000  # of a cell, which say how long it is
FEW = 8  # columns of numbers that may stand next to texts
FEWEST_LABELS = 8  # rows of which half have the label of another: those are groups, or events
DOUBLET_TYPES = frozenset(f"{old}>{new}" for old, many in DOUBLETS.items() for new in many.split())
MOST_LONG = 8  # columns of a long table
WITHOUT_BLANKS = regex.compile(
    f"[{''.join(letters for _, letters, *_ in SEGMENTERS)}]"
)  # letters of scripts without them
GROUPED = r"\d{1,3}([,.' \u00a0\u202f’]\d{3})+([.,]\d+)?|\d+,\d+|\d+([.,]\d+)?\s?%"  # 1,000 or 1,5 or 5%
EMPTY_HEADER = re.compile(r"\s*|Unnamed: \d+|\.\.\.\d+")  # that of pandas, of readr in R
FEWEST_NUMBERED = 10  # rows from which on 0, 1, 2, … or 1, 2, 3, … are their numbers, and no counts
Roles = tuple[int, int, int | None]  # columns of samples, features and counts; without counts every row is one


class Table:
    """A table in parts, which can be gone through more than once. `read` gives them, each after its header; columns that it is
    told of stay text. `named` is how many of the first columns have names, if the file indicates it. `first` are the first rows.

    What a column holds depends on all of its cells: 01 is a number, unless there is an x further down. So all parts are looked
    at first, and where some have numbers in a column and others text, it is read again as text.
    """

    def __init__(self, read: Callable[[frozenset[int]], Iterator[Part]], named: int | None = None) -> None:
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
        """What the columns hold: whether all cells are numbers or empty, any is a number, any text stands for something, how
        many are not numbers, and which whole numbers are fractions elsewhere. Returns the columns of several kinds."""
        self._parts = Again(lambda: read(texts), lambda part: size_of(part[1]))
        self.n = 0
        for header, table in self._parts:
            self.header = ["" if EMPTY_HEADER.fullmatch(name) else name for name in header]
            kind, missing = _kinds(table), table.isna().sum().to_numpy()
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
        for level in range(1, self.named or 0):  # of an index: no counts
            self.fine[level], self.numbers[level], self.text[level], self.blank[level] = False, False, True, self.n
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

    def idle(self, column: int) -> bool:
        """Whether a column without a header has nothing, or nothing but the numbers of rows."""
        return not self.header[column].strip() and bool(
            self.blank[column] == self.n or numbers_rows(self.first[column])
        )

    def columns(
        self, wanted: list[int], longest: int | None = None, always: Container[int] = ()
    ) -> dict[int, pd.Series]:
        """Some columns of the whole, but for those that are stable longer texts, unless they are always wanted."""
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


def size_of(table: pd.DataFrame) -> int:
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
        raise ValueError(f"{parameter('layout', options.layout)}; use {' or '.join(map(repr, LAYOUTS))}")
    if options.long_columns is not None:
        return _long(table, _chosen_roles(table, options), options)
    _refuse_no_header(table)
    if {"Tumor_Sample_Barcode", "Reference_Allele"} <= {*table.header}:
        genes = parameter("long_columns", "Tumor_Sample_Barcode,Hugo_Symbol")
        raise ValueError(
            "a MAF table, with one row per mutation; count their types first, such as with SigProfilerMatrixGenerator, "
            f"or count mutated genes: {genes}"
        )
    if (text := _text_column(table, options)) is not None:
        return _texts(table, text, options)
    if (roles := _long_roles(table, options)) is not None:
        if options.metadata_columns is not None:
            raise ValueError(
                f"{parameter('metadata_columns')} is for wide tables, and this one has a row per count; remove it"
            )
        return _long(table, roles, options)
    return _wide(table, options)


def _refuse_no_header(table: Table) -> None:
    """Where all names of columns are cells, too: those of text further down, and the others numbers."""
    texts = [j for j in range(len(table.header)) if table.text[j] and not table.numbers[j]]
    others = {*range(len(table.header))} - {*texts}
    repeated = all((table.first[j] == table.header[j]).any() for j in texts)
    if texts and repeated and all(is_number(table.header[j]) for j in others):
        raise ValueError(
            f"the first row, {listed(table.header)}, is one as those below it; put a row with the names of the columns above it"
        )


def _chosen_roles(table: Table, options: ReadOptions) -> Roles:
    others = options.given("text_column", "metadata_columns")
    if others or options.layout == "wide":
        raise ValueError(
            f"{parameter('long_columns')} is for tables with one row per count; leave {parameter((*others, 'layout')[0])} out"
        )
    chosen = options.columns("long_columns", table.header)
    if not 2 <= len({*chosen}) == len(chosen) <= 3:
        raise ValueError(
            f"{parameter('long_columns')} needs columns of samples, features and counts, or two without the counts"
        )
    return chosen[0], chosen[1], chosen[2] if len(chosen) > 2 else None


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
            f"use {parameter('text_column', header[text])} to count words, or {parameter('layout', 'wide')} if these are counts"
        )
    roles = long_roles([name if j != text else "" for j, name in enumerate(header)])
    if roles is not None and _are_pairs(table, *roles[:2]):
        raise ValueError(
            f"column {header[text]!r} holds sentences, and the others a number for each pair of names; "
            f"use {parameter('text_column', header[text])} or {parameter('layout', 'long')}"
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


def _long_roles(table: Table, options: ReadOptions) -> Roles | None:
    """Where samples, features and counts stand in a table with a row per count: as the header says, or where two columns hold
    identifiers that come again and again, and each pair of them once; or per event, without a column of counts."""
    header, asked = table.header, options.layout == "long"
    if options.layout == "wide" or not (asked or 2 <= len(header) <= MOST_LONG):
        return None
    said = long_roles(header)
    if said is not None and table.fine[said[2]] and (asked or len(header) == 3 or _are_pairs(table, *said[:2])):
        return said
    words = [words_in(name) for name in header]
    rest = [j for j, known in enumerate(words) if not table.idle(j) and (not known & TIME_WORDS or "times" in known)]
    numbers = [j for j in rest if table.fine[j] and table.numbers[j]]
    if len(rest) == 2 and (asked or _repeat(table, *rest)) and len(numbers) in (0, 2):
        one, two = _samples_first(words, *rest)
        if asked or (words[one] & SAMPLE_WORDS and words[two] & LONG_FEATURE_WORDS):
            return one, two, None
    if len(rest) < 3 or not numbers:
        if asked:
            raise ValueError(f"a long table needs columns of samples, features and counts; there are {listed(header)}")
        return None
    count = numbers[-1]
    sample, feature, *more = (j for j in rest if j != count)
    sample, feature = _samples_first(words, sample, feature)
    if not asked and (more or not _are_pairs(table, sample, feature)):
        return None
    named = all(words[j] & (SAMPLE_WORDS | LONG_FEATURE_WORDS | {"id"}) for j in (sample, feature))
    if asked or named or {sample, feature}.isdisjoint(numbers):
        return sample, feature, count
    if table.n < 20 or min(_repeats(table, sample), _repeats(table, feature)) < 3:
        return None
    raise ValueError(
        f"{header[sample]!r} and {header[feature]!r} may be identifiers, with a count for each pair in {header[count]!r}, or all "
        f"of {listed(header)} may be counts; use {parameter('layout', 'long')} or {parameter('layout', 'wide')}"
    )


def _samples_first(words: list[set[str]], one: int, two: int) -> tuple[int, int]:
    return (two, one) if words[one] & LONG_FEATURE_WORDS and words[two] & SAMPLE_WORDS else (one, two)


def _are_pairs(table: Table, sample: int, feature: int) -> bool:
    """Whether both columns repeat their values, and few pairs of values come twice."""
    pairs = table.first[[sample, feature]]
    return _repeat(table, sample, feature) and len(pairs.drop_duplicates()) > 0.9 * len(pairs)


def _repeat(table: Table, *columns: int) -> bool:
    return min(_repeats(table, column) for column in columns) > 1


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
    if len(header[text].split()) > 4 and not header[text].strip().endswith("?"):
        raw.notes.append(
            f"the first row is taken as names of columns: {listed(header)}; if it is a text, put a row with names above it"
        )
    raw.reading = f"one text per row, column {header[text]!r}" + told_roles(
        {"sample names": [named.column] * (named.column is not None), "metadata": [header[j] for j in kept]}
    )
    return raw


def _long(table: Table, roles: Roles, options: ReadOptions) -> RawCounts:
    """A row for each pair of sample and feature; both in the order in which they first come."""
    header, (sample, feature, count) = table.header, roles
    samples, features = dict[str, int](), dict[str, int]()

    def numbered() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        for first, part in table.parts():
            require_names(header, part, roles, first)
            yield _codes(table.cells(part, sample), samples), _codes(table.cells(part, feature), features)

    def entries() -> Iterator[Entries]:
        for (first, part), (rows, columns) in zip(table.parts(), places, strict=True):
            ones = np.ones(len(part))
            yield rows, columns, ones if count is None else counts_in(part[count], count, header[count], None, first)

    places = Again(numbered, lambda codes: 2 * codes[0].nbytes)
    deque(places, maxlen=0)

    raw = RawCounts(Blocks((len(samples), len(features)), table.n, entries=entries), [*samples], [*features])
    pairs = [rows << 32 | columns for rows, columns in places.kept or ()]
    if count is not None and pairs and (again := table.n - len(np.unique(np.concatenate(pairs)))):
        raw.notes.append(
            f"{again:,} row{'s name' if again > 1 else ' names'} a sample and a feature that came before: counts are added"
        )
    others = [name for j, name in enumerate(header) if j not in roles]
    counts = [] if count is None else [header[count]]
    said = {"samples": [header[sample]], "features": [header[feature]], "counts": counts, "omitted": others}
    raw.reading = f"long, one row per {'event, which counts one' if count is None else 'count'}{told_roles(said)}"
    return raw.transposed() if options.transpose else raw


def _codes(names: pd.Series, known: dict[str, int]) -> NDArray[np.int64]:
    """The numbers of names, of which new ones get the next."""
    places, different = pd.factorize(np.array(as_names(names), dtype=object))
    return np.array([known.setdefault(name, len(known)) for name in different])[places]


def require_names(header: list[str], table: pd.DataFrame, roles: Roles, first: int = 0) -> None:
    for column in roles[:2]:
        if (missing := np.flatnonzero(table[column].isna())).size:
            raise ValueError(f"row {first + missing[0] + 1} has no {header[column]!r}; every count needs one")


def _wide(table: Table, options: ReadOptions) -> RawCounts:
    header, notes = table.header, list[str]()
    first_column = table.columns([0])[0]
    named = first_column_names(header[0], first_column, notes) if table.named is None else table.named > 0
    all_text = ~table.fine & ~table.numbers & table.text
    texts, names = [column for column in range(1, len(header)) if all_text[column]], [0] * named
    if table.named is None and header[0].strip() and 2 * first_column.nunique() <= table.n >= FEWEST_LABELS:
        if named or names_samples(header[0]):
            refuse_events(header, texts, options)
        if named and speaks_of(header[0]) is None and not names_samples(header[0]):
            names, texts = [], [0, *texts]  # labels of groups name nothing
    samples = as_names(first_column) if names else None
    if samples and texts[:1] == [1] and mutation_type(f"{samples[0]}>{table.first[1][0]}") in DOUBLET_TYPES:
        samples = [f"{one}>{two}" for one, two in zip(samples, as_names(table.columns([1])[1]), strict=True)]
        names, texts = [0, 1], texts[1:]
    counts = [column for column in range(len(header)) if column not in {*texts, *names} and not table.idle(column)]
    turned = options.transpose or (
        options.transpose is None and samples and rows_are_features(header[0], samples, [header[j] for j in counts])
    )
    measured = _measured(table, counts, options, turned=bool(turned))
    described = sorted({*texts, *measured})
    counts = [column for column in counts if column not in set(described)]
    features = [header[column] for column in counts]
    refuse_other_layouts(header, features, described, table)
    if samples and options.layout is None and TOTAL.fullmatch(samples[-1].strip()):
        refuse_totals(table, counts, samples)

    def read(start: int) -> Iterator[Any]:
        blocks = (sparse(part, counts, header, samples, first) for first, part in table.parts())
        return from_row(start, blocks)

    metadata = pd.DataFrame(table.columns(described)).set_axis([header[column] for column in described], axis=1)
    raw = RawCounts(Blocks((table.n, len(counts)), None, read), samples, features, metadata, notes=notes)
    across, down = ("sample", "feature") if turned else ("feature", "sample")
    raw.reading = f"wide, one column per {across}, {len(counts):,} in all: {listed(features)}" + told_roles(
        {f"{down} names": [header[j] for j in names], "metadata": [header[j] for j in described]}
    )
    if measured and options.metadata_columns is None and not turned:
        notes.append(
            f"taken as metadata, not as counts: {listed(header[j] for j in measured)}; {parameter('layout', 'wide')} counts them"
        )
    return the_right_way_round(raw, header, texts, counts, options)


def _measured(table: Table, counts: list[int], options: ReadOptions, *, turned: bool) -> list[int]:
    """Columns of numbers that describe the rows: those that the user names, or that significantly do; an error if others
    may."""
    header = table.header
    if options.metadata_columns is not None:
        return options.columns("metadata_columns", header)
    if options.layout == "wide":
        return []
    surely, perhaps = describing(header, table.first, counts)
    if turned:
        return [j for j in surely if words_in(header[j]) & GENOME_WORDS]
    if perhaps and len(counts) > len(surely) + len(perhaps):
        names = [header[j] for j in perhaps]
        raise ValueError(
            f"{listed(names)} may describe samples, while other columns hold counts; use "
            f"{parameter('metadata_columns', ','.join(names))}, or {parameter('layout', 'wide')} to count all"
        )
    return surely


def refuse_events(header: list[str], texts: list[int], options: ReadOptions) -> None:
    if texts and options.layout is None and len(header) <= max(MOST_LONG, 2 * len(texts)):
        raise ValueError(
            f"the names in {header[0]!r} come again and again, so that rows may be events; use {parameter('long_columns')}, the "
            f"columns of samples, features and counts, such as '{header[0]},{header[texts[0]]}', or {parameter('layout', 'wide')}"
        )


def refuse_totals(table: Table, counts: list[int], samples: list[str]) -> None:
    """Where the last row is the sum of the others."""
    parts = [part[counts].apply(pd.to_numeric, errors="coerce") for _, part in table.parts()]
    if len(counts) > 1 and np.allclose(
        sum(part.sum().to_numpy() for part in parts), 2 * parts[-1].iloc[-1].to_numpy(dtype=float)
    ):
        raise ValueError(
            f"row {table.n} ({samples[-1]!r}) is the sum of the others; remove it, or use {parameter('layout', 'wide')}"
        )


def the_right_way_round(
    raw: RawCounts, header: list[str], described: list[int], counts: list[int], options: ReadOptions
) -> RawCounts:
    """A wide table as it is, or transposed if that was asked for or its labels say so; and what to tell of it."""
    samples, features, notes = raw.samples, list(raw.features or ()), raw.notes
    if options.transpose is None and samples and (why := rows_are_features(header[0], samples, features)):
        notes.append(f"rows look like features ({why}): transposed; use {parameter('transpose', False)} to keep")
        return raw.transposed()
    if options.transpose:
        return raw.transposed()
    if described:
        among = [header[column] for column in counts if column < described[-1]] if described[0] == 1 else []
        notes.append(f"taken as metadata, being text: {listed(header[column] for column in described)}")
        notes += [f"taken as counts, being numbers, though it is among metadata: {name!r}" for name in among[:1]]
    return raw


def first_column_names(header: str, first: pd.Series, notes: list[str]) -> bool:
    """Names if the header is empty or a cell is text; numbers are names if the header indicates it and no two are equal."""
    if header.strip() == "" or not numbers_in(first)[1].all():
        return True
    if len(first) >= FEWEST_NUMBERED and numbers_rows(first):
        notes.append(f"the first column, {header!r}, has the numbers of the rows: taken as names")
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


def refuse_other_layouts(header: list[str], features: list[str], described: list[int], table: Table) -> None:
    for j in described:
        grouped = [
            cell for cell in table.first[j].dropna().head(SENTENCES).map(str) if re.fullmatch(GROUPED, cell.strip())
        ]
        if 2 * len(grouped) > min(table.n, SENTENCES) - table.blank[j] + len(grouped) > 0 and not table.numbers[j]:
            raise ValueError(
                f"column {j + 1} ({header[j]!r}) holds numbers such as {grouped[0]!r}; write counts as 1000"
            )
    if not features and described:
        words = [header[j] for j in described if table.text[j] and not table.numbers[j]] or header[:1]
        raise ValueError(
            f"no column holds counts; if {listed(words)} hold{'s' * (len(words) == 1)} texts, give {parameter('text_column')}; "
            f"if every row is an event, such as a user and an item, give {parameter('layout', 'long')}"
        )
    if not features:
        raise ValueError(
            f"one column only, {header[0]!r}; if it holds texts, give {parameter('text_column', header[0])}; else separate the "
            "columns of the table by commas"
        )
    if len(header) == 3 and len(described) == len(features) == 1:
        raise ValueError(
            f"two columns of text and one of numbers, {listed(header)}; if its rows are counts of features in samples, give "
            f"{parameter('layout', 'long')}, or name the columns sample, feature and count; if {header[described[0]]!r} "
            f"holds texts, give {parameter('text_column', header[described[0]])}"
        )
    if all(map(is_number, features)) and not _are_steps([*map(float, features)]):
        raise ValueError("the first row holds counts; put a row with the names of the features above it")


def _are_steps(names: list[float]) -> bool:
    """Whether numbers name features, as years and positions do, and are not counts themselves."""
    steps = np.diff(names)
    return bool((steps > 0).all() and (len(names) > FEW or len({*steps}) < 2))


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
        words = first + row == 0 and isinstance(cells.iloc[row], str) and stands_for_something(cells.iloc[row])
        above = "; if row 1 has the names of the columns, remove what is above it" * words
        raise ValueError(
            f"row {first + row + 1}{name}, column {column + 1} ({header!r}) is {cell}; "
            f"unmix needs finite counts >= 0 in every cell, 0 for none{above}"
        )
    return values
