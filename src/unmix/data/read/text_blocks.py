"""Texts that do not fit into memory: a first pass finds the words to count, a second counts them, some documents at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from unmix.data.read.blocks import ByRows
from unmix.data.read.files import opened_text
from unmix.data.read.raw_counts import RawCounts, ReadOptions, listed
from unmix.data.read.text import (
    NAMELESS,
    about_words,
    as_name,
    field_of,
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
    raw.notes += notes
    return raw


def stream_jsonl(path: Path, options: ReadOptions) -> RawCounts:
    encoding = options.encoding
    field = field_of((record for _, record in records(path, encoding)), options)
    names: dict[str, list[str]] = {}
    known: dict[str, None] = {}
    nested: dict[str, None] = {}
    n = 0
    for number, record in records(path, encoding):
        text_of(number, record, field)
        known |= dict.fromkeys(record)
        nested |= {key: None for key, value in record.items() if isinstance(value, dict | list)}
        for key in record:
            if key not in names and key != field and may_name(key, options):
                names[key] = [""] * n
        for key, values in names.items():
            values.append(as_name(record.get(key)))
        n += 1
    if not n:
        raise ValueError("there is nothing in it; unmix needs a JSON object a line")
    plain = {key: values for key, values in names.items() if key not in nested}
    named = naming(plain, options, [key for key in known if key != field])
    texts = lambda: (text_of(number, record, field) for number, record in records(path, encoding))  # noqa: E731
    raw = counted_blocks(texts, options, naming=named, column=field)
    if left := [key for key in nested if key != field]:
        raw.notes.append(f"left out, being lists or records: {listed(left)}")
    return raw


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
