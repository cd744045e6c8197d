"""Which documents are meant: by what column texts are named, which one holds their titles, and how they begin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from unmix.data.read.raw_counts import RawCounts, ReadOptions, listed

IDS = ("id", "docid", "documentid", "articleid", "doc", "textid", "postid", "tweetid", "paperid", "speechid", "uid")
TITLES = ("title", "headline", "heading", "name")
USUAL = ("", "id", "name", "title")  # by which nobody is surprised to find texts named
SNIPPET = "snippet"  # the column of how texts begin
LETTERS, ALL_LETTERS = 200, 20_000_000  # of a snippet, and of all of them
FEWEST_LETTERS = 40  # below which a snippet tells nothing


@dataclass(frozen=True)
class Naming:
    """The names of texts, the columns in which they and their titles stand, and what to tell of that."""

    samples: list[str] | None = None
    column: str | None = None
    title: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def dropped(self) -> set[str]:
        """What is no metadata any more, being the names themselves. A title can be shown beside a name."""
        return {name for name in (self.column,) if name is not None and name != self.title}


def may_name(header: str, options: ReadOptions) -> bool:
    """Whether a column may hold names or titles: the others need not be kept while a large file is read."""
    return header in (options.id_column, options.title_column) or _key(header) in ("", *IDS, *TITLES)


def naming(columns: dict[str, list[str]], options: ReadOptions, known: Sequence[str] | None = None) -> Naming:
    """Names for texts from these columns: an id, else a title. `known` are all columns there are, for errors."""
    for option in ("id_column", "title_column"):
        if (asked := getattr(options, option)) is not None and asked not in columns:
            there = listed(columns if known is None else known)
            raise ValueError(f"{option}={asked!r}: no such column for every text; there are {there}")
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
        notes.append(f"texts are named by {column!r}; {option} chooses another column")
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


def add_snippets(raw: RawCounts, texts: Sequence[str]) -> None:
    """How every text begins, as a column of metadata; of very many texts, a little less of each."""
    letters = min(LETTERS, ALL_LETTERS // len(texts))
    if letters < FEWEST_LETTERS:
        raw.notes.append(f"{len(texts):,} texts are too many to keep snippets of: left out")
    elif raw.metadata is not None and SNIPPET in raw.metadata:
        raw.notes.append(f"there is a column {SNIPPET!r} already: it is kept instead of how texts begin")
    else:
        known = pd.DataFrame(index=range(len(texts))) if raw.metadata is None else raw.metadata
        raw.metadata = known.assign(**{SNIPPET: [beginning(text, letters) for text in texts]})


def beginning(text: str, letters: int = LETTERS) -> str:
    """The first letters of a text in one line, cut at the end of a word.

    >>> beginning("The bees  of\\nAmerica rest", 15)
    'The bees of …'
    """
    line = " ".join(text[: 8 * letters].split())
    if len(line) <= letters:
        return line if len(text) <= 8 * letters else f"{line} …"
    return f"{line[: letters - 1].rpartition(' ')[0] or line[: letters - 2]} …"
