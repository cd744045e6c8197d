"""Names and what describes the samples: made unique, fetched from files next to a matrix, joined from another table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.kinds import looks_like
from unmix.base.memory import require
from unmix.base.types import check_names
from unmix.io.options import ReadOptions, listed
from unmix.io.read.files import ONLY_EMPTY_IS_MISSING, first_line, lines_of, opened_text, require_inside
from unmix.io.read.raw_counts import RawCounts
from unmix.io.write import unguarded_table

FEATURES_FILE, VOCABULARY_FILE, SAMPLES_FILE = "features.txt", "vocab.txt", "samples.csv"  # may lie next to a matrix
T = TypeVar("T", list[str], pd.DataFrame)
SAMPLE_COLUMNS = ("sample", "Unnamed: 0")  # of samples.csv: where the names are; pandas' word for an empty header cell
MISSING = {"nan", "na", "n/a", "null", "none", "-", "."}
HALF = re.compile("[\ud800-\udfff]")  # half a character: a byte that is not UTF-8 in the name of a file, or broken JSON


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


def writable_name(name: str) -> str:
    r"""A name as it is, with escapes for what cannot be written as UTF-8, such as bytes of a file's name.

    >>> writable_name("caf\udce9")
    'caf\\xe9'
    """
    return HALF.sub(_escape, name)


def _escape(half: re.Match[str]) -> str:
    code = ord(half[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def settle_names(raw: RawCounts) -> None:
    """Names can be written, and so can the metadata. Names that several samples or features share are distinguished, and it is
    said."""
    if raw.metadata is not None:
        raw.metadata = _writable_table(raw.metadata)
    for what in ("samples", "features"):
        if isinstance(getattr(raw, what), list):  # an array holds the names of a model
            names = [writable_name(str(name)) for name in getattr(raw, what)]
            check_names(names, what)
            require(2 * sum(map(len, names)), f"the names of the {what}", "use shorter names")
            setattr(raw, what, unique(names))
            if changed := len(names) - len(set(names)):
                one = what.removesuffix("s")
                raw.notes.append(
                    f"{changed:,} {what if changed > 1 else one} had the name of an earlier {one}: numbered -1, -2, …"
                )


def _writable_table(table: pd.DataFrame) -> pd.DataFrame:
    names = unique([writable_name(str(name)) for name in table.columns])
    check_names(names, "columns of the metadata")
    table = table.set_axis(names, axis=1)
    for place, kind in enumerate(table.dtypes):
        if pd.api.types.is_numeric_dtype(kind):
            continue
        column = table.iloc[:, place]
        cells = column.cat.categories if isinstance(kind, pd.CategoricalDtype) else column
        together = "\n".join({cell for cell in cells.tolist() if isinstance(cell, str)})  # quicker than one by one
        if "\0" in together:
            raise ValueError(f"column {names[place]!r} of the metadata has a NUL character; remove it")
        if HALF.search(together):
            table.isetitem(place, column.map(lambda cell: writable_name(cell) if isinstance(cell, str) else cell))
    return table


def add_neighbours(raw: RawCounts, path: Path) -> None:
    """The names in features.txt and samples.csv next to a matrix, where their lengths fit."""
    n, m = raw.matrix.shape
    if raw.features is None and (file := vocabulary_beside(path)) is not None:
        raw.features = _beside(file, lines_of, m, raw.notes)
    metadata = _beside(path.parent / SAMPLES_FILE, table_of, n, raw.notes)
    if metadata is not None and (column := next((name for name in metadata if name in SAMPLE_COLUMNS), None)):
        raw.samples = as_names(metadata.pop(column))
    if metadata is not None and len(metadata.columns):
        raw.metadata = metadata


def vocabulary_beside(path: Path) -> Path | None:
    """The file with the names of a matrix's columns, one per line: its own, or that of all matrices in the folder."""
    stem = path.name.removesuffix(".gz")
    names = (f"{stem}.vocab", f"{Path(stem).stem}.vocab", FEATURES_FILE, VOCABULARY_FILE)
    return next((path.parent / name for name in names if (path.parent / name).is_file()), None)


def _beside(file: Path, load: Callable[[Path], T], expected: int, notes: list[str]) -> T | None:
    if not file.is_file():
        return None
    try:
        require_inside(file.parent, file)
        rows = load(file)
    except (ValueError, OSError) as error:
        problem = f"cannot be read ({first_line(error)})"
    else:
        if len(rows) == expected:
            return rows
        problem = f"has {len(rows):,} rows for {expected:,}"
    notes.append(f"{file.name}: ignored, it {problem}")
    return None


def table_of(file: Path, encoding: str | None = None, **options: Any) -> pd.DataFrame:
    """A CSV or TSV table as it is; the separator is a tab if the name indicates it."""
    separator = "\t" if ".tsv" in file.name.lower()[-7:] else ","
    with opened_text(file, encoding, nul=False) as text:
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


# Cells as numbers.


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


def numbers_rows(numbers: pd.Series) -> bool:
    """Whether these are 0, 1, 2, … or 1, 2, 3, …."""
    values, fine = numbers_in(numbers)
    return bool(fine.all() and len(values) and values[0] in (0, 1) and (np.diff(values) == 1).all())


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


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_names(column: pd.Series) -> list[str]:
    names = column.tolist() if column.dtype == object else []
    if {*map(type, names)} == {str}:
        return names
    return column.astype(object).where(column.notna(), "").map(str).tolist()


def join_metadata(raw: RawCounts, file: Path, encoding: str | None = None) -> None:
    """Add the columns of a table: by the names of the samples, or by position where one side has none."""
    table, words = table_of(file, encoding), table_of(file, encoding, dtype=str)
    n = raw.matrix.shape[0]
    column, absent = _column_of_names(words, raw.samples or [])
    if column is not None and not absent:
        fresh = _by_name(table, as_names(words[column]), column, raw.samples or [])
    elif column is not None:
        raise ValueError(
            f"{n - len(absent):,} of {n:,} samples are in its column {str(column)!r}, not so {listed(absent)}; "
            "add a row for each sample"
        )
    elif raw.samples is not None and (len(table) != n or _has_names(table)):
        raise ValueError(
            f"no column has the names of the samples, such as {listed(raw.samples[:2])}; add such a column"
        )
    elif len(table) == n:
        fresh = _by_position(table, words, raw, file.name)
    else:
        raise ValueError(
            f"{len(table):,} rows for {n:,} samples without names; use one row per sample, in the same order"
        )
    earlier = [] if raw.metadata is None else [raw.metadata.drop(columns=fresh.columns, errors="ignore")]
    joined = pd.concat([*earlier, fresh], axis=1)
    raw.metadata = joined if len(joined.columns) else None


def _column_of_names(words: pd.DataFrame, samples: list[str]) -> tuple[str | None, list[str]]:
    """The column with the most of the names, be it the first or one whose header indicates it, and the names not in it."""
    column, fewest = None, samples
    for number, header in enumerate(words.columns):
        if number == 0 or names_samples(str(header)):
            known = set(as_names(words[header]))
            absent = [name for name in samples if name not in known]
            if len(absent) < len(fewest):
                column, fewest = header, absent
    return column, fewest


def _has_names(table: pd.DataFrame) -> bool:
    """Whether a column says that it has names of samples, or the first looks as if: a different text in each row."""
    first = table.iloc[:, 0]
    return any(names_samples(str(header)) for header in table) or (first.dtype == object and first.is_unique)


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
            raise ValueError(f"{key!r} occurs twice in its column {str(column)!r}; keep one row per sample")
        place[key] = row
    rows = table.drop(columns=column).iloc[[place[name] for name in samples]]
    return rows.reset_index(drop=True)


# What labels say: whether a header or a list of names speaks of samples, of features or of counts.
#
# Used to determine which way round a table is. Only what is all but certain counts; everything else is unchanged.


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


SAMPLE_WORDS = _words(
    "sample cell barcode doc document patient subject donor tumor tumour individual person participant spot nucleus "
    "specimen observation obs user customer site plot station speech post article paper file filename visitor session member "
    "account client viewer listener reader buyer household basket order invoice student respondent"
)
FEATURE_WORDS = _words(
    "gene feature word term token mutation symbol ensembl transcript protein peak probe otu asv taxon taxa motif kmer "
    "geneid vocabulary vocab variable ngram lemma hugo entrez taxonomy lineage"
)
COUNT_WORDS = _words(
    "count n value freq frequency umi read tf number abundance weight occurrence rating score play click quantity qty amount "
    "view purchase listen star hit visit vote"
)
TIME_WORDS = _words("time timestamp date datetime created day month year unix")
NOTE_WORDS = _words(
    "note comment description desc remark annotation definition diagnosis citation reference address function"
)
INDEX_WORDS = _words("id index row name title")
MEASURED_WORDS = _words("age latitude longitude lat lon lng altitude elevation ph temperature temp")
GENOME_WORDS = _words("chr chrom chromosome seqnames start end strand length width")
QUALITY = _words(  # what programs for single cells write next to counts, in the letters of `_key`
    "ncounts ngenes totalcounts ncountrna nfeaturerna ngenesbycounts numi ngene percentmt percentmito percentribo "
    "pctcountsmt pctcountsribo doubletscore librarysize sizefactor sizefactors"
)
TOTAL = re.compile(r"(grand |row |column )?(total|sum)s?", re.IGNORECASE)
LONG_FEATURE_WORDS = FEATURE_WORDS | _words(
    "type item product species category pathway movie film song track artist book page url sku game video tag brand merchant"
)


def words_in(header: str) -> set[str]:
    """'cellBarcodes_ID' -> {'cell', 'barcode', 'id', …}: lower case, also without a plural s."""
    parts = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", header).lower())
    return {*parts, *(part.removesuffix("s") for part in parts)}


def speaks_of(header: str) -> str | None:
    """'sample' or 'feature', if the header of a column of labels says which."""
    words = words_in(header)
    sample, feature = bool(words & SAMPLE_WORDS), bool(words & FEATURE_WORDS)
    if sample == feature:
        return None
    return "sample" if sample else "feature"


def names_samples(header: str) -> bool:
    """Whether a column of this name may hold the names of samples.

    >>> [names_samples(header) for header in ("Sample_ID", "id", "", "age")]
    [True, True, True, False]
    """
    return header.strip() == "" or bool(words_in(header) & (SAMPLE_WORDS | INDEX_WORDS))


def describing(header: Sequence[str], first: pd.DataFrame, columns: Sequence[int]) -> tuple[list[int], list[int]]:
    """Which columns of numbers significantly describe the rows of a wide table, such as years and totals; and which may, being
    measured things, or the few with fractions."""
    surely, perhaps, lower = list[int](), list[int](), [name.strip().lower() for name in header]
    genome = {"start", "end"} <= {*lower} and bool({*lower} & {"chr", "chrom", "chromosome", "seqnames"})
    fractions = list[int]()
    for j in columns:
        words, numbers = words_in(header[j]), first[j].dtype.kind in "iuf"
        if (
            numbers
            and first[j].dtype.kind == "f"
            and 4 * len(fractions) <= len(columns)
            and (first[j] % 1 > 0).mean() > 0.5
        ):
            fractions.append(j)
        dates = numbers and words & TIME_WORDS and (first[j].between(1000, 2100) | (first[j] > 100_000_000)).all()
        if dates or (genome and lower[j] in GENOME_WORDS) or _key(header[j]) in QUALITY:
            surely.append(j)
        elif numbers and words & MEASURED_WORDS and (first[j] > 0).all():
            perhaps.append(j)
        elif numbers and TOTAL.fullmatch(lower[j]) and len(columns) > 2:
            others = first[[other for other in columns if other != j]].sum(axis=1, numeric_only=True)
            surely += [j] * np.allclose(others, first[j])
    few = fractions if 4 * len(fractions) <= min(len(columns), 32) else []
    return surely, sorted({*perhaps, *few} - {*surely})


def long_roles(headers: Sequence[str]) -> tuple[int, int, int] | None:
    """Where samples, features and counts stand among headers, if they say so.

    >>> long_roles(["word", "doc_id", "n"]), long_roles(["userId", "movieId", "rating", "timestamp"])
    ((1, 0, 2), (0, 1, 2))
    """
    said = [words_in(header) for header in headers]
    counts = [i for i, words in enumerate(said) if words & COUNT_WORDS]
    if len(counts) > 1:  # of 'word' and 'word count', the one that says nothing else
        counts = [i for i in counts if said[i] <= COUNT_WORDS | {"s", ""}] or counts
    if len(counts) != 1 or len(headers) < 3:
        return None
    others = [i for i in range(len(headers)) if i != counts[0]]
    for features, samples in ((FEATURE_WORDS, SAMPLE_WORDS | INDEX_WORDS), (LONG_FEATURE_WORDS, SAMPLE_WORDS)):
        pairs = [(i, j) for i in others for j in others if i != j and said[i] & samples and said[j] & features]
        if pairs and (len(pairs) == 1 or len(headers) == 3):
            return *pairs[0], counts[0]
    return None


def rows_are_features(header: str, rows: Sequence[str], columns: Sequence[str]) -> str | None:
    """Why the rows of a table are its features, or None where that is not certain.

    Evidence for one side is dropped where there is as good evidence for the other: names outweigh headers.
    """
    row_kind, row_look = looks_like(rows)
    column_kind, column_look = looks_like(columns)
    if row_kind == "sample" or column_kind == "feature":
        return None
    if row_kind == "feature":
        return f"they have names of {row_look}"
    if speaks_of(header) == "sample":
        return None
    if speaks_of(header) == "feature":
        return f"their header says {header.strip()!r}"
    if column_kind == "sample":
        return f"the columns have names of {column_look}"
    row_word, column_word = _numbered(rows), _numbered(columns)
    said = speaks_of(row_word), speaks_of(column_word)
    if said[0] == "feature" and said[1] != "feature":
        return f"they are called {row_word} 1, {row_word} 2, …"
    if said == (None, "sample"):
        return f"the columns are called {column_word} 1, {column_word} 2, …"
    return None


def _numbered(names: Sequence[str]) -> str:
    """The word that all names have before a number: OTU_1, OTU_2, …; nothing if there is none."""
    words = {(re.fullmatch(r"(.*[A-Za-z])[ ._-]?\d+", name) or ["", ""])[1] for name in names[:2000]}
    return words.pop() if len(names) > 1 and len(words) == 1 else ""


# Tables of mutations whose types are in two columns, as SigProfiler writes them: "C>A" and "ACA" are A[C>A]A.

SUBSTITUTION = re.compile(r"[CT]>[ACGT]")
CONTEXT = re.compile(r"[ACGT][CT][ACGT]")
JOINED = re.compile(r"[ACGT]\[[CT]>[ACGT]\][ACGT]")
FIRST = 3  # columns, among which the two are looked for


Mutations = dict[re.Pattern[str], int]  # in which column substitutions, contexts, and perhaps types as a whole stand


def mutation_columns(parts: Iterable[tuple[list[str], pd.DataFrame]]) -> Mutations | None:
    """Where types of mutations stand in two columns, if they do in all parts of a table. COSMIC's second version has a third
    column with both already, which is as good."""
    possible: set[tuple[re.Pattern[str], int]] | None = None
    for _, part in parts:
        known = ((pattern, j) for j in range(min(FIRST, part.shape[1])) for pattern in (SUBSTITUTION, CONTEXT, JOINED))
        possible = {(pattern, j) for pattern, j in possible or known if _all(pattern, part[j])}
        if not possible:
            return None
    found = dict(sorted(possible or (), key=lambda pair: -pair[1]))  # of several columns the first
    if SUBSTITUTION not in found or CONTEXT not in found:
        return None
    pairs = (zip(part[found[SUBSTITUTION]], part[found[CONTEXT]], strict=True) for _, part in parts)
    return found if all(context[1] == change[0] for change, context in chain.from_iterable(pairs)) else None


def with_mutation_types(header: list[str], table: pd.DataFrame, found: Mutations) -> tuple[list[str], pd.DataFrame]:
    """A table that begins with the types of mutations in one column, where they were in two.

    >>> table = pd.DataFrame([["C>A", "ACA", 5], ["T>G", "GTC", 7]])
    >>> header = ["Mutation type", "Trinucleotide", "Tumour 1"]
    >>> header, table = with_mutation_types(header, table, mutation_columns([(header, table)]))
    >>> header, table[0].tolist()
    (['Mutation type', 'Tumour 1'], ['A[C>A]A', 'G[T>G]C'])
    """
    pairs = zip(table[found[SUBSTITUTION]], table[found[CONTEXT]], strict=True)
    types = [f"{context[0]}[{change}]{context[2]}" for change, context in pairs]
    others = [column for column in range(len(header)) if column not in found.values()]
    joined = pd.concat([pd.Series(types, index=table.index, dtype=object), table[others]], axis=1)
    return [header[found[SUBSTITUTION]], *(header[j] for j in others)], joined.set_axis(range(len(others) + 1), axis=1)


def _all(pattern: re.Pattern[str], cells: pd.Series) -> bool:
    """Whether all cells are such, the first ones of most tables telling that they are not."""
    return len(cells) > 0 and all(isinstance(cell, str) and pattern.fullmatch(cell) for cell in cells)


# Which documents are meant: by what column texts are named, which one holds their titles, and how they begin.

IDS = ("id", "docid", "documentid", "articleid", "doc", "textid", "postid", "tweetid", "paperid", "speechid", "uid")
TITLES = ("title", "headline", "heading", "name")
USUAL = ("", "id", "name", "title")  # by which no one is surprised to find texts named
SNIPPET = "snippet"  # the column of how texts begin
LETTERS, ALL_LETTERS = 200, 20_000_000  # of a snippet, and of all of them
FEWEST_LETTERS = 40  # below which a snippet shows nothing


@dataclass(frozen=True)
class Naming:
    """The names of texts, the columns in which they and their titles stand, and what to tell of that."""

    samples: list[str] | None = None
    column: str | None = None
    title: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def dropped(self) -> set[str]:
        """What is no metadata any more, being the names themselves. A title can be shown next to a name."""
        return {name for name in (self.column,) if name is not None and name != self.title}


def may_name(header: str, options: ReadOptions) -> bool:
    """Whether a column may hold names or titles: the others need not be kept while a large file is read."""
    return header in (options.id_column, options.title_column) or _key(header) in ("", *IDS, *TITLES)


def naming(columns: dict[str, list[str]], options: ReadOptions, known: Sequence[str] | None = None) -> Naming:
    """Names for texts from these columns: an id, else a title. `known` are all columns there are, for errors."""
    for option in ("id_column", "title_column"):
        if (asked := getattr(options, option)) is not None and asked not in columns:
            there = listed(columns if known is None else known)
            raise ValueError(f"{parameter(option, asked)}: no such column for every text; there are {there}")
    title = options.title_column or _guessed_title(columns)
    guessed = _guessed_id(columns)
    if options.id_column is None and guessed == "" and title is not None and _counts_rows(columns[""]):
        guessed = None  # what pandas writes unasked names nothing
    column = options.id_column or (title if guessed is None else guessed)
    if column is None:
        return Naming()
    samples = [name or f"text {place}" for place, name in enumerate(columns[column], start=1)]
    notes = []
    if column not in (options.id_column, options.title_column) and _key(column) not in USUAL:
        option = "title_column" if column == title else "id_column"
        notes.append(f"texts are named by {column!r}; {parameter(option)} chooses another column")
    return Naming(samples, column, title, notes)


def _key(header: str) -> str:
    """'Article_ID' is 'articleid'."""
    return re.sub(r"[\W_]+", "", header.lower())


def _guessed_id(columns: dict[str, list[str]]) -> str | None:
    """A column without a header; `id`; or another that is called so, if every text has its own."""
    if "" in columns and not _counts_rows(columns[""]):
        return ""
    for wanted in IDS:
        for header, names in columns.items():
            if _key(header) == wanted and (wanted == "id" or (len(set(names)) == len(names) and "" not in names)):
                return header
    return "" if "" in columns else None


def _guessed_title(columns: dict[str, list[str]]) -> str | None:
    """A title of which most are different; a name only if all are, as it may be that of an author."""
    for wanted in TITLES:
        for header, names in columns.items():
            different = len({*names} - {""})
            if _key(header) == wanted and (2 * different > len(names) if wanted != "name" else different == len(names)):
                return header
    return None


def _counts_rows(names: list[str]) -> bool:
    return names in ([str(place) for place in range(first, first + len(names))] for first in (0, 1))


def number_texts(raw: RawCounts) -> None:
    """Texts without names are numbered as topics are, from 1."""
    if raw.text is not None and raw.samples is None:
        raw.samples = [f"text {place}" for place in range(1, raw.matrix.shape[0] + 1)]


def add_snippets(raw: RawCounts, documents: Callable[[], Iterator[str]], n: int) -> None:
    """How each of n texts begins, as a column of metadata; of very many texts, a little less of each."""
    letters = min(LETTERS, ALL_LETTERS // n)
    if letters < FEWEST_LETTERS:
        raw.notes.append(f"{n:,} texts are too many to keep snippets of: omitted")
    elif raw.metadata is not None and SNIPPET in raw.metadata:
        raw.notes.append(f"there is a column {SNIPPET!r} already: it is kept instead of how texts begin")
    else:
        known = pd.DataFrame(index=range(n)) if raw.metadata is None else raw.metadata
        raw.metadata = known.assign(**{SNIPPET: [beginning(text, letters) for text in documents()]})


def beginning(text: str, letters: int = LETTERS) -> str:
    """The first letters of a text in one line, cut at the end of a word.

    >>> beginning("The bees  of\\nAmerica rest", 15)
    'The bees of …'
    """
    line = " ".join(text[: 8 * letters].replace("\0", " ").split())
    if len(line) <= letters:
        return line if len(text) <= 8 * letters else f"{line} …"
    return f"{line[: letters - 1].rpartition(' ')[0] or line[: letters - 2]} …"
