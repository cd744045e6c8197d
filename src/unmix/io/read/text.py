"""Texts -> counts of words: a folder of `.txt` files, one `.txt` with one document per line, `.jsonl`, columns of tables."""

from __future__ import annotations

import codecs
import heapq
import json
import re
import tempfile
import weakref
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from unmix.base.checks import parameter
from unmix.base.memory import available, gigabytes
from unmix.base.threads import prefetch
from unmix.base.types import Floats
from unmix.io.options import ReadOptions, listed
from unmix.io.read.blocks import KEPT, Blocks, from_row
from unmix.io.read.files import checked_encoding, first_line, opened, opened_text, require_inside
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
from unmix.io.read.raw_counts import RawCounts
from unmix.io.read.words import (
    MOST,
    TOKENS,
    Words,
    about_language,
    about_segmentation,
    as_before,
    settings_of,
    without_words,
)

TEXT_FIELD = "text"
NAMELESS = Naming()
BYTE_A_LETTER = re.compile("iso8859-|cp125|koi8|mac-")  # families of encodings
MOST_NAMED = 20  # files that cannot be read, in one message


def read_txt(path: Path, options: ReadOptions) -> RawCounts:
    """One document per line; or, if the lines are numbers between tabs or blanks, a table."""
    if is_table(path, options.encoding):
        from unmix.io.read.sheets import read_tsv

        raw = read_tsv(path, options, "\t")
        raw.notes.insert(0, "its lines are numbers separated by tabs or blanks: read as a table")
        return raw

    for name in options.given("layout", "long_columns", "metadata_columns"):
        raise ValueError(f"{parameter(name, getattr(options, name))} is for tables, and these are texts; remove it")

    def documents() -> Iterator[str]:
        with opened_text(path, options.encoding) as file:
            for line in file:
                yield line.removesuffix("\n").removesuffix("\r")

    raw = counted(documents, options)
    raw.samples = [f"line {i}" for i in range(1, raw.matrix.shape[0] + 1)]
    raw.reading = "one text per line"
    return raw


def is_table(path: Path, encoding: str | None = None) -> bool:
    """Whether the line below the header is made of numbers between tabs or blanks, after a name, the two columns that types of
    mutations may stand in, or, where the header has as many cells, fewer words than numbers."""
    from unmix.io.read.sheets import cells_of, head_of

    comments, separator = head_of(path, encoding, "\t")
    with opened_text(path, encoding) as file:
        header, below = (cells_of(line, separator) for line in [*islice(file, comments + 2), "", ""][comments:][:2])
    numbers = [re.fullmatch(r"\d+(\.\d*)?([eE][+-]?\d+)?", cell) is not None for cell in below]
    names = 2 if len(below) > 2 and SUBSTITUTION.fullmatch(below[0]) and CONTEXT.fullmatch(below[1]) else 1
    alike = len(below) - len(header) in (0, 1) and 2 * sum(numbers) > len(below)
    return len(below) > names and (all(numbers[names:]) or alike)


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
    files, notes = readable(folder, files, options)
    documents = lambda: (read_document(file, options.encoding) for file in files)  # noqa: E731
    raw = counted(documents, options, metadata=folders_of(folder, files))
    raw.samples = [sample_name(folder, file) for file in files]
    raw.notes += notes
    raw.reading = "one text per file"
    return raw


def folders_of(folder: Path, files: list[Path]) -> pd.DataFrame | None:
    """In which of several folders each document is."""
    folders = [writable_name(file.parent.relative_to(folder).as_posix()) for file in files]
    return pd.DataFrame({"folder": folders}) if len(set(folders)) > 1 else None


def readable(folder: Path, files: list[Path], options: ReadOptions) -> tuple[list[Path], list[str]]:
    """The files that can be read, and what to tell. Those that cannot are named, all at once, and then what to do about
    them."""
    if options.encoding is not None:
        checked_encoding(options.encoding)
    good, bad, remedies = list[Path](), list[str](), dict[str, None]()
    for file in files:
        try:
            require_inside(folder, file)
            read_document(file, options.encoding)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            problem, _, remedy = str(getattr(error, "strerror", None) or first_line(error)).partition("; ")
            bad.append(f"{file.relative_to(folder).as_posix()} ({problem})")
            remedies |= {f"; {remedy}": None} if remedy else {}
            continue
        good.append(file)
    if not bad:
        return good, []
    more = f" and {len(bad) - MOST_NAMED:,} more" if len(bad) > MOST_NAMED else ""
    what = f"{len(bad):,} of {len(files):,} files cannot be read: {', '.join(bad[:MOST_NAMED])}{more}"
    if not options.skip_bad:
        raise ValueError(f"{what}{''.join(remedies)}; or continue without them with {parameter('skip_bad', True)}")
    return good, [f"{what}; omitted"]


def read_document(file: Path, encoding: str | None) -> str:
    """The text of a file of a folder. Where an encoding has a byte a letter, some files may be UTF-8 all the same: letters
    beyond ASCII that are valid as UTF-8 are nothing else."""
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
    kept = {clean(key): fields.columns[key] for key in fields.plain if key not in named.dropped}
    documents = lambda: (text_of(number, record, field) for number, record in records(path, encoding))  # noqa: E731
    raw = counted(
        documents,
        options,
        naming=named,
        metadata=pd.DataFrame(kept).apply(whole_numbers) if kept else None,
        column=field,
    )
    for left, what in ((fields.nested, "lists or records"), (fields.long, "texts too long to keep with every sample")):
        if left:
            raw.notes.append(f"omitted, being {what}: {listed(left)}")
    raw.reading = f"one text per line, field {field!r}" + told_roles(
        {"sample names": [named.column] * (named.column is not None), "metadata": kept}
    )
    return raw


def told_roles(roles: Mapping[str, Collection[object]]) -> str:
    said = {
        what: listed(columns).replace("''", "a column without a header") for what, columns in roles.items() if columns
    }
    return "".join(f"; {what}: {names}" for what, names in said.items())


class Fields:
    """What records say besides their texts, a list for each field."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {}
        self.nested: dict[str, None] = {}
        self.long: dict[str, None] = {}
        self.known: dict[str, str] = {}  # words that come again and again take space once

    @property
    def plain(self) -> list[str]:
        return [key for key in self.columns if key not in self.nested | self.long]

    def see(self, record: dict[str, Any], n: int, options: ReadOptions) -> None:
        """The record after n others."""
        for key, value in record.items():
            if isinstance(value, dict | list):
                self.nested[key] = None
            elif (
                options.longest
                and isinstance(value, str)
                and len(value) > options.longest
                and not may_name(key, options)
            ):
                self.long[key] = None
            self.columns.setdefault(key, [None] * n)
        for key, column in self.columns.items():
            value = None if key in self.nested or key in self.long else clean(record.get(key))
            column.append(self.known.setdefault(value, value) if isinstance(value, str) else value)


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


def from_memory(
    texts: list[Any], options: ReadOptions, dictionary: Any = None, metadata: pd.DataFrame | None = None
) -> RawCounts:
    """Counts of the words of texts, of lists of tokens, or of bags of words, which have their counts."""
    if texts and all(map(is_bag, texts)) and (dictionary is not None or not all(map(are_tokens, texts))):
        return _bags(texts, dictionary, metadata)
    for place, entry in enumerate(texts):
        if not isinstance(entry, str) and not are_tokens(entry):
            raise ValueError(
                f"texts[{place}] is {entry!r}; use strings, such as '' where there is nothing, lists of tokens, or bags of words"
            )
    if tokens := [place for place, entry in enumerate(texts) if not isinstance(entry, str)]:
        if len(tokens) < len(texts):
            raise ValueError(f"texts[{tokens[0]}] is a list of tokens, others are strings; use one of the two")
        for name in options.given("tokenizer", "phrases"):
            raise ValueError(f"{parameter(name)} is for texts, and these are lists of tokens; remove it")
        options = replace(options, tokenizer=TOKENS)
    shown = (lambda: map(" ".join, texts)) if tokens else None
    return counted(lambda: iter(texts), options, metadata=metadata, shown=shown)


def are_tokens(entry: Any) -> bool:
    return isinstance(entry, list | tuple) and all(isinstance(token, str) for token in entry)


def is_bag(entry: Any) -> bool:
    pairs = entry.items() if isinstance(entry, Mapping) else entry if isinstance(entry, list | tuple) else (None,)
    return all(isinstance(pair, tuple | list) and len(pair) == 2 and not isinstance(pair[1], str) for pair in pairs)


def _bags(bags: list[Any], dictionary: Any, metadata: pd.DataFrame | None) -> RawCounts:
    """Words and counts, or numbers of words in a dictionary and counts."""
    pairs = [
        (row, *pair) for row, bag in enumerate(bags) for pair in (bag.items() if isinstance(bag, Mapping) else bag)
    ]
    rows, keys, counts = zip(*pairs, strict=True) if pairs else ((), (), ())
    if dictionary is None:
        if numbers := [key for key in keys if not isinstance(key, str)]:
            raise ValueError(
                f"bags of words name the word {numbers[0]!r} by its number; use its {parameter('dictionary')}"
            )
        words: dict[Any, str] = {word: word for word in sorted(set(keys))}
    else:
        dictionary = getattr(dictionary, "token2id", dictionary)
        found = dict(dictionary.items() if isinstance(dictionary, Mapping) else enumerate(dictionary))
        words = (
            {number: word for word, number in found.items()} if any(isinstance(key, str) for key in found) else found
        )
    order = sorted(words) if dictionary is not None else list(words)
    place = {key: j for j, key in enumerate(order)}
    if missing := [key for key in keys if key not in place]:
        raise ValueError(f"no word {missing[0]!r} in the dictionary of {len(words):,} words; use that of these bags")
    columns = [place[key] for key in keys]
    matrix = sp.coo_array((np.array(counts, dtype=np.float64), (rows, columns)), shape=(len(bags), len(words)))
    return RawCounts(matrix, None, [str(words[key]) for key in order], metadata)


# Words are counted some documents at a time. Where the counts of all of them may not be kept in memory, a first pass finds the
# words to count, and the documents are read again.

Documents = Callable[[], Iterator[Any]]  # texts, or lists of tokens
BATCH = 1_000  # documents that are counted at once
BYTES_PER_WORD = 150  # of the dictionary of all words


def counted(
    documents: Documents,
    options: ReadOptions,
    *,
    naming: Naming = NAMELESS,
    metadata: pd.DataFrame | None = None,
    column: str | None = None,
    shown: Documents | None = None,
) -> RawCounts:
    """The words in each text, counted as asked for, or as for the model `like`."""
    notes, known = list(naming.notes), options.like is not None
    if known:
        settings, words = as_before(options)
    else:
        settings = settings_of(options, 1, column, naming.title)
        words = Words(settings)
        words = words if isinstance(options.tokenizer, str | None) else words.tokenized_by(options.tokenizer)
    unknown = list[Floats]()
    blocks = Spilled(lambda: _counts(documents(), words, unknown))
    n, texts_with, totals = 0, np.zeros(0, np.int64), np.zeros(0)
    for block in blocks:
        n += block.shape[0]
        if known:
            continue
        more = np.zeros(len(words.names) - len(totals), np.int64)
        texts_with, totals = np.concatenate([texts_with, more]), np.concatenate([totals, more])
        texts_with += np.bincount(block.indices, minlength=len(totals))
        totals += np.bincount(block.indices, block.data, minlength=len(totals))
        if len(words.names) * BYTES_PER_WORD > (free := available()):
            raise ValueError(
                f"{len(words.names):,} different words in the first {n:,} texts are too many for {gigabytes(free)} of memory; "
                "use fewer ngrams"
            )
    if not n:
        raise ValueError("there are no texts in it")
    if options.like is not None and options.like.features is not None:
        features: Any = options.like.features

        def read(start: int) -> Iterator[Any]:
            return from_row(start, iter(blocks))
    else:
        settings = settings_of(options, n, column, naming.title)
        low, high = (of if isinstance(of, int) else of * n for of in (settings["min_df"], settings["max_df"]))
        notes += (hints := about_segmentation(words.names))
        kept = np.flatnonzero((low <= texts_with) & (texts_with <= high)).tolist()
        order = sorted(kept, key=words.names.__getitem__)
        if not order:
            raise ValueError("; ".join([without_words(n, settings, any_word=bool(words.names)), *hints]))
        notes += about_words({words.names[place]: int(texts_with[place]) for place in order}, options)
        features = [words.names[place] for place in order]
        # of the words of a text, those that other texts have made known
        settings["known"] = round(float(totals[order][texts_with[order] > low].sum() / max(totals.sum(), 1)), 4)

        def read(start: int) -> Iterator[Any]:
            return from_row(start, (_columns(block, order, len(words.names)) for block in blocks))

    raw = RawCounts(Blocks((n, len(features)), None, read), naming.samples, features, metadata, settings, notes)
    raw.unknown = np.concatenate(unknown)[:n] if unknown else None
    if options.snippets:
        add_snippets(raw, shown or documents, n)
    return raw


class Spilled:
    """Blocks of counts that can be gone through more than once. Those that memory has no space for lie in a temporary file;
    where the disk has none either, all are read again."""

    def __init__(self, read: Callable[[], Iterator[sp.csr_array]]) -> None:
        self.read, self.kept, self.whole = read, list[sp.csr_array](), False
        self.file: IO[bytes] | None = None

    def __iter__(self) -> Iterator[sp.csr_array]:
        if not self.whole:
            yield from self._first()
            return
        yield from self.kept
        place, end = 0, 0 if self.file is None else self.file.seek(0, 2)
        while self.file is not None and place < end:
            self.file.seek(place)
            data, indices, indptr, (m,) = (np.load(self.file, allow_pickle=False) for _ in range(4))
            place = self.file.tell()
            yield sp.csr_array((data.astype(np.float64), indices, indptr), shape=(len(indptr) - 1, m))

    def _first(self) -> Iterator[sp.csr_array]:
        self.kept, self.whole, room = [], True, min(KEPT, available() / 8)
        for block in self.read():
            if (room := room - 12 * block.nnz) >= 0:
                self.kept.append(block)
            elif self.whole:
                self.whole = self._written(block)
            yield block

    def _written(self, block: sp.csr_array) -> bool:
        """Whether there was space for it on the disk."""
        small = block.nnz == 0 or block.data.max() <= np.iinfo(np.uint16).max
        data = block.data.astype(np.uint16) if small else block.data
        try:
            if self.file is None:
                self.file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the last reference to this object
                weakref.finalize(self, self.file.close)
            for array in (data, block.indices, block.indptr, np.array(block.shape[1:])):
                np.save(self.file, array)
            self.file.flush()
        except OSError:
            return False
        return True


def _counts(documents: Iterator[Any], words: Words, unknown: list[Floats]) -> Iterator[sp.csr_array]:
    """How often each text has each word, by the number of the word; new words may come with every block. Texts are read ahead.
    Words that a vocabulary does not have are counted in `unknown`."""
    first = list(islice(documents, BATCH))
    later = prefetch(iter(lambda: list(islice(documents, BATCH)), [])) if len(first) == BATCH else ()
    for texts in chain([first] if first else [], later):
        found = [words.of(text) for text in texts]
        indices = np.frombuffer(b"".join(found), dtype=np.intc).astype(np.int32)
        indptr = np.cumsum([0, *map(len, found)]) // np.dtype(np.intc).itemsize
        if words.closed:
            there = np.concatenate([[0], np.cumsum(indices < len(words.names))])[indptr]
            unknown.append(np.diff(indptr - there).astype(np.float64))
            indices, indptr = indices[indices < len(words.names)], there
        block = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(texts), len(words.names)))
        block.sum_duplicates()
        yield block


def _columns(block: sp.csr_array, order: list[int], m: int) -> sp.csr_array:
    """These columns of a block, to which columns have perhaps been added since."""
    return sp.csr_array((block.data, block.indices, block.indptr), shape=(block.shape[0], m))[:, order]


def about_words(texts_with: Mapping[str, int], options: ReadOptions) -> list[str]:
    """What the words that are in the most texts say of the language, given the number of texts that have each word."""
    widespread = heapq.nlargest(MOST, texts_with, key=lambda word: texts_with[word])
    return about_language(widespread, options.stop_words)


def about_empty(empty: int, n: int) -> str:
    return f"{empty:,} of {n:,} documents have no word that is counted: kept, without counts"
