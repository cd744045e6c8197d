"""What passes between `read` and the readers of single formats: the options of the user, and the counts of a file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import numpy as np
import pandas as pd

from unmix.base.checks import parameter
from unmix.base.memory import require
from unmix.base.types import Floats, Names
from unmix.counts.canonical import NotACountError
from unmix.counts.counts import Counts
from unmix.io.read.blocks import SMALLER, Blocks
from unmix.io.read.files import texts_in

if TYPE_CHECKING:
    from unmix.fit import Fit

StopWords = str | os.PathLike[str] | Iterable[str] | None
Phrases = str | os.PathLike[str] | Iterable[str | Sequence[str]] | None
Tokenizer = Callable[[str], Iterable[Any]]
BYTES_A_TEXT = 100  # in memory, a short one
TEXTS = 1 << 28  # bytes of texts that are looked at together, at most


@dataclass(frozen=True)
class ReadOptions:
    """Options of `unmix.read`, `unmix.read_texts`, `unmix.shard` and the command line: how counts are read.

    Give them as keywords. An option that does not apply to a file is refused. Those of a command are the same,
    with hyphens: `--text-column` is `text_column`.

    Parameters
    ----------
    layer : str, default=None
        Layer of an AnnData with the counts, if they are not in X. Assay of an R object ("RNA", "RNA/counts"), modality of a
        `.h5mu` ("rna"), genome of a 10x `.h5` file with several.
    raw : bool, default=False
        Whether the counts are in `raw` of an AnnData.
    transpose : bool, default=None
        True if the rows of a table or matrix are features, False if they are samples; None decides by the labels.
    layout : {"long", "wide"}, default=None
        Layout of a table of counts: "long" has one row per count and columns of samples, features and counts, "wide" one
        column per feature. None decides by the cells and the header.
    long_columns : str or list of str, default=None
        Columns of samples, features and counts in a long table, such as "user,item,plays". Of two columns, samples and
        features, every row is one count.
    metadata_columns : str or list of str, default=None
        Columns of numbers that are not counts but describe the samples of a wide table, such as "age,pH".
    text_column : str, default=None
        Column or field with the texts. By default that called `text`, or that which holds sentences.
    id_column : str, default=None
        Column or field with the names of the texts. By default it is found by its name.
    title_column : str, default=None
        Column or field with the titles of the texts. By default it is found by its name.
    snippets : bool, default=False
        Whether to keep the beginning of each text, up to 200 letters, in a column `snippet` of the metadata. Shards do
        not have it.
    encoding : str, default=None
        Encoding of texts and tables, such as "latin-1" or "cp1252"; UTF-8 by default. Files of a folder that are UTF-8
        all the same are read as such.
    skip_bad : bool, default=False
        Whether to skip the files of a folder of texts that cannot be read.
    min_df : int or float, default=None
        Minimum number of documents with a word, or their share if it is a float. By default 1, 2 or 5, where there are
        fewer than 10, fewer than 100, or more documents.
    max_df : int or float, default=None
        Maximum number of documents with a word, or their share if it is a float. By default no word is too frequent.
    stop_words : str, list of str, PathLike or None, default="english"
        Words not to count: "english", another language ("german" or "de", …; it needs the package stop-words), None, a
        list, or a file with one word per line.
    ngrams : int or tuple of two int, default=1
        2 counts pairs of neighbouring words as well as words, (2, 2) pairs alone.
    tokenizer : callable, default=None
        Function from a text to its tokens, such as `jieba.lcut`, a spaCy pipeline or a `CountVectorizer`, instead of the
        rules of unmix. Tokens are counted as they are, except for stop words. A fit remembers the name of the function
        alone: give it again with new texts. Not on the command line.
    phrases : list of str, str or PathLike, default=None
        Phrases that stay whole: "new york" is counted as new_york. A list, or a file with one phrase per line.
    like : Fit, default=None
        Fit made from texts. New texts are counted in the same way, and the columns are the features of the fit.
        It has no effect on tables of counts and matrices.

    Examples
    --------
    >>> import unmix as um
    >>> um.read_texts(["Rote Rosen und der Wein", "Wein und Rosen"], stop_words=["und", "der"]).features.tolist()
    ['rosen', 'rote', 'wein']
    """

    layer: str | None = None
    raw: bool = False
    transpose: bool | None = None
    layout: str | None = None
    long_columns: str | Sequence[str] | None = None
    metadata_columns: str | Sequence[str] | None = None
    text_column: str | None = None
    id_column: str | None = None
    title_column: str | None = None
    snippets: bool = False
    encoding: str | None = None
    skip_bad: bool = False
    min_df: int | float | None = None
    max_df: int | float | None = None
    stop_words: StopWords = "english"
    ngrams: int | tuple[int, int] = 1
    tokenizer: Tokenizer | Any = None
    phrases: Phrases = None
    like: Fit | None = None
    longest: ClassVar[int | None] = None  # letters of a cell of the metadata; columns with longer ones are omitted

    def given(self, *names: str) -> list[str]:
        """Which of these options the user gave."""
        return [name for name in names if getattr(self, name) != getattr(ReadOptions, name)]

    def columns(self, name: str, header: Sequence[str]) -> list[int]:
        """Where the columns stand that the user has named."""
        given = getattr(self, name) or ()
        names = [one.strip() for one in given.split(",")] if isinstance(given, str) else [str(one) for one in given]
        if absent := [one for one in names if one not in header]:
            raise ValueError(f"{parameter(name)} has {listed(absent)}; the columns are {listed(header)}")
        return [header.index(one) for one in names]

    @property
    def earlier_text_column(self) -> str | None:
        """Where the texts of the model `like` came from."""
        return None if self.like is None or self.like.text is None else self.like.text.get("text_column")


class TextKeywords(TypedDict, total=False):
    """The `ReadOptions` of texts in memory, as keywords: for type checkers, which take the types of keywords from here."""

    snippets: bool
    min_df: int | float | None
    max_df: int | float | None
    stop_words: StopWords
    ngrams: int | tuple[int, int]
    tokenizer: Tokenizer | Any
    phrases: Phrases
    like: Fit | None


class ReadKeywords(TextKeywords, total=False):
    """All `ReadOptions`, as keywords."""

    layer: str | None
    raw: bool
    transpose: bool | None
    layout: str | None
    long_columns: str | Sequence[str] | None
    metadata_columns: str | Sequence[str] | None
    text_column: str | None
    id_column: str | None
    title_column: str | None
    encoding: str | None
    skip_bad: bool


@dataclass
class RawCounts:
    """What a file holds, samples × features; `read` gives it unique names, checks it and makes it Counts.

    `notes` are what the user should know; `read` says them once all went well. `bare` is a matrix whose names may lie
    in files next to it.
    """

    matrix: Any  # `Blocks`; or what is in memory, an array or a sparse matrix
    samples: list[str] | None = None
    features: list[str] | Names | None = None  # an array: those of a model, which can be written and are all different
    metadata: pd.DataFrame | None = None
    text: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    bare: bool = False
    reading: str = ""  # how the file was read, in one line
    unknown: Floats | None = None  # words of each text that the model `like` does not know

    def __post_init__(self) -> None:
        if self.metadata is not None and not len(self.metadata.columns):
            self.metadata = None

    def transposed(self) -> RawCounts:
        """Rows become columns. A table that described the rows has no place then, and is omitted."""
        notes = list(self.notes)
        if self.metadata is not None:
            notes.append(f"omitted, as features keep only a name: {listed(self.metadata.columns)}")
        reading = f"{self.reading}; transposed" if self.reading else ""
        samples = None if self.features is None else list(self.features)
        return RawCounts(self.matrix.T, samples, self.samples, None, self.text, notes, self.bare, reading)


def require_numbers(arrays: Iterable[Any]) -> None:
    """Refuse arrays of HDF5 or zarr that are stable something else."""
    for array in arrays:
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{array.name} holds values of type {array.dtype}; unmix needs numbers there")


def require_plain(arrays: Sequence[Any], what: str) -> None:
    """Refuse arrays of HDF5 or zarr, which are to be read whole, unless they hold numbers or texts that fit into memory. An
    array declares its shape, and need not hold a value for that."""
    needed = 0
    for array in arrays:
        if not _is_plain(array.dtype):
            raise ValueError(f"{array.name} holds values of type {array.dtype}; unmix needs numbers or text there")
        size = BYTES_A_TEXT if array.dtype.kind in "OT" else array.dtype.itemsize
        needed += size * max(math.prod(array.shape), math.prod(array.chunks or ()))
    require(2 * needed, what, SMALLER)
    for array in arrays:
        if array.dtype.kind == "O" and array.ndim == 1 and hasattr(array, "asstr"):
            _refuse_shared_texts(array)


def _is_plain(dtype: Any) -> bool:
    if dtype.names:
        return all(_is_plain(dtype[name]) for name in dtype.names)
    if dtype.kind == "O":  # of HDF5 texts, references or lists, as h5py says; of zarr texts, by their codecs
        return (dtype.metadata or {"vlen": str}).get("vlen") in (str, bytes)
    return dtype.subdtype is None and dtype.kind in "biufSUTmM"


def _refuse_shared_texts(texts: Any) -> None:
    """Texts of HDF5 are in the file one by one. But many rows may refer to one long text, which would be read for each."""
    size, total = os.path.getsize(texts.file.filename), 0
    for lengths in texts_in(texts):
        total += int(lengths.sum(dtype=np.int64))
        if total > size:
            raise ValueError(f"{texts.name} has more text than the file has bytes; write the file again")
    total = 0
    step = min(max(64, TEXTS // size), 1 << 16)  # texts at a time, as none is longer than the file
    for first in range(0, len(texts), step):
        total += sum(len(text) for text in texts[first : first + step].tolist() if isinstance(text, bytes))
        if total > size:
            raise ValueError(f"{texts.name} has more text than the file has bytes; write the file again")


def listed(names: Iterable[object]) -> str:
    """'a', 'b', 'c', 'd' and 3 more."""
    quoted = [repr(str(name)) for name in names]
    return ", ".join(quoted[:4]) + (f" and {len(quoted) - 4:,} more" if len(quoted) > 4 else "")


def checked(raw: RawCounts) -> Counts:
    """Counts, or an error about a value that names its sample and feature."""
    with errors_by_name(raw):
        matrix = raw.matrix.whole() if isinstance(raw.matrix, Blocks) else raw.matrix
        if isinstance(raw.features, list | None):
            return Counts(matrix, raw.samples, raw.features, raw.metadata, raw.text)
        counts = Counts(matrix, raw.samples, None, raw.metadata, raw.text)
        counts.features, counts.unknown = raw.features, raw.unknown
        return counts


@contextmanager
def errors_by_name(raw: RawCounts) -> Iterator[None]:
    """Where a value is not a count, name its sample and feature if their names are known."""
    try:
        yield
    except NotACountError as error:
        if raw.samples is None or raw.features is None:
            raise
        sample, feature = raw.samples[error.row], raw.features[error.column]
        raise ValueError(
            f"row {error.row + 1} ({sample!r}), column {error.column + 1} ({feature!r}) is {error.value:g}; "
            "unmix needs finite counts >= 0"
        ) from None
