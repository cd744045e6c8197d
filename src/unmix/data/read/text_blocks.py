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
    NAME_FIELDS,
    as_before,
    clean,
    field_of,
    name_field,
    read_document,
    records,
    sample_name,
    settings_of,
    text_of,
    vectorizer_of,
    without_words,
)
from unmix.memory import available, gigabytes

Documents = Callable[[], Iterator[str]]
BATCH = 1_000  # documents that are counted at once
BYTES_PER_WORD = 100  # of the dictionary of all words


def stream_lines(path: Path, options: ReadOptions) -> RawCounts:
    """One document per line."""

    def documents() -> Iterator[str]:
        with opened_text(path) as file:
            for line in file:
                yield line.removesuffix("\n").removesuffix("\r")

    return counted_blocks(documents, options, names=lambda n: [f"line {i}" for i in range(1, n + 1)])


def stream_folder(folder: Path, files: list[Path], options: ReadOptions) -> RawCounts:
    """Every file is a document."""
    names = [sample_name(folder, file) for file in files]
    return counted_blocks(lambda: (read_document(folder, file) for file in files), options, names=lambda n: names)


def stream_jsonl(path: Path, options: ReadOptions) -> RawCounts:
    field = field_of((record for _, record in records(path)), options)
    names: dict[str, list[str]] = {}
    known: list[str] = []
    nested: dict[str, None] = {}
    n = 0
    for number, record in records(path):  # names come with every record, or are none
        text_of(number, record, field)
        known += [key for key in record if n == 0 and key.strip().lower() in NAME_FIELDS]
        nested |= {key: None for key, value in record.items() if isinstance(value, dict | list)}
        known = [key for key in known if record.get(key) is not None]
        for key in known:
            names.setdefault(key, []).append(str(clean(record[key])))
        n += 1
    if not n:
        raise ValueError("there is nothing in it; unmix needs a JSON object a line")
    complete = {key: values for key, values in names.items() if key in known and key not in nested and key != field}
    name = name_field(complete)
    found = None if name is None else complete[name]
    texts = lambda: (text_of(number, record, field) for number, record in records(path))  # noqa: E731
    raw = counted_blocks(texts, options, names=lambda n: found, column=field)
    if left := [key for key in nested if key != field]:
        raw.notes.append(f"left out, being lists or records: {listed(left)}")
    return raw


def counted_blocks(
    documents: Documents, options: ReadOptions, *, names: Callable[[int], list[str] | None], column: str | None = None
) -> RawCounts:
    """The words in each text, counted as asked for, or as for the model `like`."""
    if options.like is None:
        n, vocabulary, settings = _vocabulary(documents, options, column)
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

    return RawCounts(ByRows((n, len(vocabulary)), None, read), names(n), vocabulary, None, settings)


def _vocabulary(
    documents: Documents, options: ReadOptions, column: str | None
) -> tuple[int, list[str], dict[str, Any]]:
    """The number of texts, and the words that are in as many of them as asked for, in the order of CountVectorizer."""
    analyse = vectorizer_of(settings_of(options, 1, column), None).build_analyzer()
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
    settings = settings_of(options, n, column)
    low, high = (of if isinstance(of, int) else of * n for of in (settings["min_df"], settings["max_df"]))
    words = sorted(word for word, texts in found.items() if low <= texts <= high)
    if n and not words:
        raise without_words(n, settings, any_word=bool(found))
    return n, words, settings
