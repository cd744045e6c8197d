"""LDA-C, the format of Blei's program and of gensim's BleiCorpus: a document a line, "M term:count term:count …", where M is the
number of terms that follow, and terms are counted from 0."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmix.data.read.blocks import ROWS, ByRows
from unmix.data.read.files import lines_of, opened_text
from unmix.data.read.names import vocabulary_beside
from unmix.data.read.raw_counts import RawCounts, ReadOptions, require_room

Document = tuple[list[int], list[float]]  # terms and their counts


def read_ldac(path: Path, options: ReadOptions) -> RawCounts:
    """The counts, and the words of a vocabulary beside it, if no document has a term beyond its end."""
    n, terms, nonzeros = _size(path)
    if not n:
        raise ValueError("there is nothing in it; unmix needs a document a line")
    vocabulary = _vocabulary(path, terms)
    m = terms if vocabulary is None else len(vocabulary)

    def read(start: int) -> Iterator[sp.csr_array]:
        documents = islice(_documents(path), start, None)
        for first in documents:
            yield _rows([first, *islice(documents, ROWS - 1)], m)

    blocks = ByRows((n, m), nonzeros, read)
    if not options.streamed:
        require_room(n, m, nonzeros)
        return RawCounts(sp.vstack(list(read(0)), format="csr"), None, vocabulary, bare=True)
    return RawCounts(blocks, None, vocabulary, bare=True)


def _size(path: Path) -> tuple[int, int, int]:
    """Documents, terms and entries."""
    n = terms = nonzeros = 0
    for found, _ in _documents(path):
        n, nonzeros, terms = n + 1, nonzeros + len(found), max(terms, max(found, default=-1) + 1)
    if n and not terms:
        raise ValueError("none of its documents has a term")
    return n, terms, nonzeros


def _vocabulary(path: Path, terms: int) -> list[str] | None:
    """The words beside the file, if there are enough of them; if not, they are left aside as beside any matrix."""
    file = vocabulary_beside(path)
    words = [] if file is None else lines_of(file)
    return words if len(words) >= terms else None


def _documents(path: Path) -> Iterator[Document]:
    with opened_text(path) as file:
        for number, line in enumerate(file, start=1):
            yield _document(line.split(), number)


def _document(parts: list[str], number: int) -> Document:
    try:
        promised, pairs = int(parts[0]), [part.split(":") for part in parts[1:]]
        terms, counts = [int(term) for term, _ in pairs], [float(count) for _, count in pairs]
    except (ValueError, IndexError):
        raise ValueError(
            f"line {number} is not of the form 2 0:1 7:3, a number of terms and as many term:count"
        ) from None
    if promised != len(terms) or any(term < 0 for term in terms):
        problem = (
            f"promises {promised} terms, {len(terms)} are there" if promised != len(terms) else "has a term below 0"
        )
        raise ValueError(f"line {number} {problem}")
    return terms, counts


def _rows(documents: list[Document], m: int) -> sp.csr_array:
    rows = np.repeat(np.arange(len(documents)), [len(terms) for terms, _ in documents])
    terms, counts = (np.array([value for one in documents for value in one[part]]) for part in (0, 1))
    entries = counts.astype(np.float64), (rows, terms.astype(np.int64))
    return sp.coo_array(entries, shape=(len(documents), m)).tocsr()
