"""Texts -> counts of words: a folder of `.txt` files, one `.txt` with one document per line, `.jsonl`, columns of tables."""

from __future__ import annotations

import codecs
import heapq
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from unmix.base.checks import parameter
from unmix.base.memory import available, gigabytes
from unmix.io.read.blocks import ByRows
from unmix.io.read.files import checked_encoding, first_line, lines_of, opened, opened_text, require_inside
from unmix.io.read.names import (
    CONTEXT,
    SUBSTITUTION,
    Naming,
    add_snippets,
    may_name,
    naming,
    whole_numbers,
    writable_name,
)
from unmix.io.read.raw_counts import RawCounts, ReadOptions, listed
from unmix.io.read.words import MOST, about_language, as_before, settings_of, vectorizer_of, without_words

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer


TEXT_FIELD = "text"
NAMELESS = Naming()
BYTE_A_LETTER = re.compile("iso8859-|cp125|koi8|mac-")  # families of encodings
MOST_NAMED = 20  # files that cannot be read, in one message


def read_txt(path: Path, options: ReadOptions) -> RawCounts:
    """One document per line; or, if the lines are numbers between tabs, a table."""
    if is_table(path, options.encoding):
        from unmix.io.read.tables import read_tsv

        raw = read_tsv(path, options)
        raw.notes.insert(0, "its lines are numbers separated by tabs: read as a table")
        return raw
    if options.streamed:
        return stream_lines(path, options)
    lines = lines_of(path, options.encoding)
    return counted(lines, options, samples=[f"line {i}" for i in range(1, len(lines) + 1)])


def is_table(path: Path, encoding: str | None = None) -> bool:
    """Whether the second line of a file is made of numbers between tabs, after a name or the two columns that types of mutations
    may stand in."""
    with opened_text(path, encoding) as file:
        file.readline()
        cells = file.readline().rstrip("\r\n").split("\t")
    names = 2 if len(cells) > 2 and SUBSTITUTION.fullmatch(cells[0]) and CONTEXT.fullmatch(cells[1]) else 1
    return len(cells) > names and all(re.fullmatch(r"\d+(\.\d*)?([eE][+-]?\d+)?", cell) for cell in cells[names:])


def text_files(folder: Path) -> list[Path]:
    """The .txt files in a folder and in the folders in it, 2 before 10; hidden ones are not looked at. What cannot be read
    is among them, such as a pipe, so that it is said."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    entries += [file for entry in entries if entry.is_dir() for file in entry.iterdir()]
    files = [entry for entry in entries if _is_text(entry.name) and not entry.is_dir()]
    return sorted(files, key=lambda file: _natural_order(file.relative_to(folder).as_posix()))


def _is_text(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith((".txt", ".txt.gz"))


def _natural_order(name: str) -> tuple[list[Any], str]:
    parts = re.split(r"(\d+)", name)  # every second one is a number
    return [int(part) if i % 2 else part.lower() for i, part in enumerate(parts)], name


def read_text_folder(folder: Path, files: list[Path], options: ReadOptions) -> RawCounts:
    """Every file is a document; if they lie in several folders, the metadata say in which."""
    if options.streamed:
        return stream_folder(folder, files, options)
    files, texts, notes = readable(folder, files, options)
    samples = [sample_name(folder, file) for file in files]
    raw = counted(texts, options, samples=samples, metadata=folders_of(folder, files))
    raw.notes += notes
    return raw


def folders_of(folder: Path, files: list[Path]) -> pd.DataFrame | None:
    """In which of several folders each document lies."""
    folders = [writable_name(file.parent.relative_to(folder).as_posix()) for file in files]
    return pd.DataFrame({"folder": folders}) if len(set(folders)) > 1 else None


def readable(folder: Path, files: list[Path], options: ReadOptions) -> tuple[list[Path], list[str], list[str]]:
    """The files that can be read, the texts in them unless they are to be read later, and what to tell. Those that cannot are
    named, all at once, and then what to do about them."""
    if options.encoding is not None:
        checked_encoding(options.encoding)
    good, texts, bad, remedies = list[Path](), list[str](), list[str](), dict[str, None]()
    for file in files:
        try:
            require_inside(folder, file)
            text = read_document(file, options.encoding)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            problem, _, remedy = str(getattr(error, "strerror", None) or first_line(error)).partition("; ")
            bad.append(f"{file.relative_to(folder).as_posix()} ({problem})")
            remedies |= {f"; {remedy}": None} if remedy else {}
            continue
        good.append(file)
        if not options.streamed:
            texts.append(text)
    if not bad:
        return good, texts, []
    more = f" and {len(bad) - MOST_NAMED:,} more" if len(bad) > MOST_NAMED else ""
    what = f"{len(bad):,} of {len(files):,} files cannot be read: {', '.join(bad[:MOST_NAMED])}{more}"
    if not options.skip_bad:
        raise ValueError(f"{what}{''.join(remedies)}; or go on without them with {parameter('skip_bad', True)}")
    return good, texts, [f"{what}; left out"]


def read_document(file: Path, encoding: str | None) -> str:
    """The text of a file of a folder. Where an encoding has a byte a letter, some files may be UTF-8 all the same: letters beyond
    ASCII that are valid as UTF-8 are nothing else."""
    if encoding is not None and BYTE_A_LETTER.match(codecs.lookup(checked_encoding(encoding)).name):
        with suppress(UnicodeError), opened(file) as raw:
            if not (text := raw.read().decode("utf-8-sig")).isascii():
                return text
    with opened_text(file, encoding) as said:
        return said.read()


def sample_name(folder: Path, file: Path) -> str:
    return writable_name(re.sub(r"\.txt(\.gz)?$", "", file.relative_to(folder).as_posix(), flags=re.IGNORECASE))


def read_jsonl(path: Path, options: ReadOptions) -> RawCounts:
    """One JSON object per line: its text, perhaps a name, and what else describes it."""
    if options.streamed:
        return stream_jsonl(path, options)
    numbered = list(records(path, options.encoding))
    if not numbered:
        raise ValueError("there is nothing in it; unmix needs a JSON object a line")
    objects = [record for _, record in numbered]
    field = field_of(objects, options)
    texts = [text_of(number, record, field) for number, record in numbered]
    columns = list(dict.fromkeys(key for record in objects for key in record if key != field))
    nested = [key for key in columns if any(isinstance(record.get(key), dict | list) for record in objects)]
    known = {key: [clean(record.get(key)) for record in objects] for key in columns if key not in nested}
    named = naming({key: [as_name(value) for value in values] for key, values in known.items()}, options, columns)
    metadata = pd.DataFrame({clean(key): values for key, values in known.items() if key not in named.dropped})
    raw = counted(texts, options, naming=named, metadata=metadata.apply(whole_numbers), column=field)
    if nested:
        raw.notes.append(f"left out, being lists or records: {listed(nested)}")
    return raw


def field_of(objects: Iterable[dict[str, Any]], options: ReadOptions) -> str:
    """The field that holds the texts: as asked for, as for the model `like` if there is one, or the usual one."""
    earlier = options.earlier_text_column
    if options.text_column is None and earlier is not None and any(earlier in record for record in objects):
        return earlier
    return options.text_column or TEXT_FIELD


def text_of(number: int, record: dict[str, Any], field: str) -> str:
    if not isinstance(record.get(field), str):
        others = [key for key in record if key != field]
        problem = "is not text" if field in record else f"is not there; it has {listed(others) or 'nothing'}"
        raise ValueError(
            f"line {number}: the field {field!r} {problem}; name the field with {parameter('text_column')}"
        )
    return str(record[field]).encode("utf-8", "replace").decode()  # half a character is no letter of a word


def records(path: Path, encoding: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file, each after the number of its line; empty lines are skipped."""
    with opened_text(path, encoding) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number} is not JSON ({error})") from error
            if not isinstance(record, dict):
                raise ValueError(f'line {number} is not a JSON object in braces, such as {{"text": "…"}}')
            yield number, record


def clean(value: Any) -> Any:
    """JSON may hold half characters, which no file in UTF-8 can."""
    return writable_name(value) if isinstance(value, str) else value


def as_name(value: Any) -> str:
    """Python writes NaN for what pandas has no value of."""
    return "" if value is None or value != value else str(clean(value))


def counted(
    texts: list[str],
    options: ReadOptions,
    *,
    samples: list[str] | None = None,
    naming: Naming = NAMELESS,
    metadata: pd.DataFrame | None = None,
    column: str | None = None,
) -> RawCounts:
    """The words in each text, counted as asked for, or as for the model `like`."""
    if not texts:
        raise ValueError("there are no texts in it")
    if options.like is None:
        settings, vocabulary = settings_of(options, len(texts), column, naming.title), None
    else:
        settings, vocabulary = as_before(options.like)
    vectorizer = vectorizer_of(settings, vocabulary)
    matrix = _fitted(vectorizer, texts, settings) if vocabulary is None else vectorizer.transform(texts)
    features = list(vectorizer.get_feature_names_out())
    raw = RawCounts(matrix, naming.samples or samples, features, metadata, settings, list(naming.notes))
    if empty := int((np.diff(matrix.indptr) == 0).sum()):
        raw.notes.append(about_empty(empty, len(texts)))
    if vocabulary is None:
        raw.notes += about_words(
            dict(zip(features, np.bincount(matrix.indices, minlength=len(features)), strict=True)), options
        )
    if options.snippets:
        add_snippets(raw, texts)
    return raw


def about_words(texts_with: Mapping[str, int], options: ReadOptions) -> list[str]:
    """What the words that are in the most texts say of the language, given the number of texts that have each word."""
    widespread = heapq.nlargest(MOST, texts_with, key=lambda word: texts_with[word])
    return about_language(widespread, options.stop_words)


def about_empty(empty: int, n: int) -> str:
    return f"{empty:,} of {n:,} documents have no word that is counted: kept, without counts"


def _fitted(vectorizer: CountVectorizer, texts: list[str], settings: dict[str, Any]) -> sp.csr_matrix:
    try:
        return vectorizer.fit_transform(texts)
    except ValueError as error:
        if "empty vocabulary" not in str(error) and "min_df" not in str(error):
            raise
        raise without_words(len(texts), settings, any_word="empty vocabulary" not in str(error)) from error


# Texts that do not fit into memory: a first pass finds the words to count, a second counts them, some documents at a time.

Documents = Callable[[], Iterator[str]]
BATCH = 1_000  # documents that are counted at once
BYTES_PER_WORD = 100  # of the dictionary of all words
LONGEST = 1_000  # letters of what is kept with every sample


def stream_lines(path: Path, options: ReadOptions) -> RawCounts:
    """One document per line."""

    def documents() -> Iterator[str]:
        with opened_text(path, options.encoding) as file:
            for line in file:
                yield line.removesuffix("\n").removesuffix("\r")

    return counted_blocks(documents, options, names=lambda n: [f"line {i}" for i in range(1, n + 1)])


def stream_folder(folder: Path, files: list[Path], options: ReadOptions) -> RawCounts:
    """Every file is a document."""
    files, _, notes = readable(folder, files, options)
    names = [sample_name(folder, file) for file in files]
    texts = lambda: (read_document(file, options.encoding) for file in files)  # noqa: E731
    raw = counted_blocks(texts, options, names=lambda n: names)
    raw.metadata = folders_of(folder, files)
    raw.notes += notes
    return raw


def stream_jsonl(path: Path, options: ReadOptions) -> RawCounts:
    encoding = options.encoding
    field = field_of((record for _, record in records(path, encoding)), options)
    fields, n = Fields(), 0
    for number, record in records(path, encoding):
        text_of(number, record, field)
        fields.see({key: value for key, value in record.items() if key != field}, n, options)
        n += 1
    if not n:
        raise ValueError("there is nothing in it; unmix needs a JSON object a line")
    names = {key: [as_name(value) for value in fields.columns[key]] for key in fields.plain if may_name(key, options)}
    named = naming(names, options, list(fields.columns))
    texts = lambda: (text_of(number, record, field) for number, record in records(path, encoding))  # noqa: E731
    raw = counted_blocks(texts, options, naming=named, column=field)
    kept = {clean(key): fields.columns[key] for key in fields.plain if key not in named.dropped}
    raw.metadata = pd.DataFrame(kept).apply(whole_numbers) if kept else None
    for left, what in ((fields.nested, "lists or records"), (fields.long, "texts too long to keep with every sample")):
        if left:
            raw.notes.append(f"left out, being {what}: {listed(left)}")
    return raw


class Fields:
    """What records say besides their texts, a list for each field."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {}
        self.nested: dict[str, None] = {}
        self.long: dict[str, None] = {}
        self.known: dict[str, str] = {}  # words that come again and again take room once

    @property
    def plain(self) -> list[str]:
        return [key for key in self.columns if key not in self.nested | self.long]

    def see(self, record: dict[str, Any], n: int, options: ReadOptions) -> None:
        """The record after n others."""
        for key, value in record.items():
            if isinstance(value, dict | list):
                self.nested[key] = None
            elif isinstance(value, str) and len(value) > LONGEST and not may_name(key, options):
                self.long[key] = None
            self.columns.setdefault(key, [None] * n)
        for key, column in self.columns.items():
            value = None if key in self.nested or key in self.long else clean(record.get(key))
            column.append(self.known.setdefault(value, value) if isinstance(value, str) else value)


def counted_blocks(
    documents: Documents,
    options: ReadOptions,
    *,
    names: Callable[[int], list[str]] | None = None,
    naming: Naming = NAMELESS,
    column: str | None = None,
) -> RawCounts:
    """The words in each text, counted as asked for, or as for the model `like`."""
    notes = list(naming.notes)
    if options.like is None:
        n, texts_with, settings = _vocabulary(documents, options, column, naming.title)
        vocabulary = list(texts_with)
        notes += about_words(texts_with, options)
    else:
        settings, vocabulary = as_before(options.like)
        n = sum(1 for _ in documents())
    if not n:
        raise ValueError("there are no texts in it")
    vectorizer = vectorizer_of(settings, vocabulary)

    def read(start: int) -> Iterator[Any]:
        texts = islice(documents(), start, None)
        for first in texts:
            yield vectorizer.transform([first, *islice(texts, BATCH - 1)])

    samples = naming.samples if names is None else names(n)
    return RawCounts(ByRows((n, len(vocabulary)), None, read), samples, vocabulary, None, settings, notes)


def _vocabulary(
    documents: Documents, options: ReadOptions, column: str | None, title: str | None
) -> tuple[int, dict[str, int], dict[str, Any]]:
    """The number of texts, and of those with each word that is in as many as asked for, in the order of CountVectorizer."""
    analyse = vectorizer_of(settings_of(options, 1, column, title), None).build_analyzer()
    found: Counter[str] = Counter()
    n = 0
    for text in documents():
        found.update(set(analyse(text)))
        n += 1
        if n % BATCH == 0 and len(found) * BYTES_PER_WORD > (free := available()):
            raise ValueError(
                f"{len(found):,} different words in the first {n:,} texts are too many for {gigabytes(free)} of memory; "
                "use fewer ngrams"
            )
    settings = settings_of(options, n, column, title)
    low, high = (of if isinstance(of, int) else of * n for of in (settings["min_df"], settings["max_df"]))
    words = {word: found[word] for word in sorted(found) if low <= found[word] <= high}
    if n and not words:
        raise without_words(n, settings, any_word=bool(found))
    return n, words, settings
