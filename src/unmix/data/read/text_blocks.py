"""Texts that do not fit into memory: a first pass finds the words to count, a second counts them, some documents at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from unmix.data.read.blocks import ByRows
from unmix.data.read.files import opened_text
from unmix.data.read.names import whole_numbers
from unmix.data.read.raw_counts import RawCounts, ReadOptions, listed
from unmix.data.read.text import (
    NAMELESS,
    about_words,
    as_name,
    clean,
    field_of,
    folders_of,
    read_document,
    readable,
    records,
    sample_name,
    text_of,
)
from unmix.data.read.titles import Naming, may_name, naming
from unmix.data.read.words import as_before, settings_of, vectorizer_of, without_words
from unmix.memory import available, gigabytes

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
