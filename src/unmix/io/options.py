"""How counts are to be read, as users say it: one class of options for all readers and the command line, which imports no more
than this file to show them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from unmix.base.checks import parameter

if TYPE_CHECKING:
    from unmix.fit import Fit

StopWords = str | os.PathLike[str] | Iterable[str] | None
Phrases = str | os.PathLike[str] | Iterable[str | Sequence[str]] | None
Tokenizer = Callable[[str], Iterable[Any]]


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
        """Places of the columns that the user has named."""
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


def listed(names: Iterable[object]) -> str:
    """'a', 'b', 'c', 'd' and 3 more."""
    quoted = [repr(str(name)) for name in names]
    return ", ".join(quoted[:4]) + (f" and {len(quoted) - 4:,} more" if len(quoted) > 4 else "")
