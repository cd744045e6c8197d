"""Matrices that are not in memory: a shape, and blocks of rows that come one after the other, or entries in any order.

Entries are put in order by a first pass that writes them into files, one for each range of rows, and each of these fits into
memory; or in memory, where the whole is wanted. Either way the transpose is `.T`, as for an array.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.memory import available, gigabytes, require
from unmix.base.threads import prefetch
from unmix.base.types import Integers
from unmix.counts.canonical import canonical, sparse_to_csr

ROWS = 4_096  # most rows of a block
NONZEROS = 1 << 23  # and about the most nonzeros, if they can be predicted
BYTES_A_NONZERO = 32  # of a block, from reading to writing
BUCKET = 1 << 24  # nonzeros of a file of entries, on average
PART = 1 << 25  # bytes of a part of a table
KEPT = 1 << 27  # bytes of what was read once and is needed again
SMALLER = "take fewer samples or features, or fit it from shards (--memory, unmix.shard)"
ENTRY = np.dtype([("row", "<u4"), ("column", "<u4"), ("value", "<f8")])
Entries = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # rows, columns, values
Shape = tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True)
class Blocks:
    """`read(start)` gives blocks, sparse or dense, from row `start` on. Or `entries()` gives entries in any order. The number
    of rows is None if only the end shows it."""

    shape: tuple[int | None, int]
    nonzeros: int | None = None  # at most
    read: Callable[[int], Iterator[Any]] | None = None
    entries: Callable[[], Iterator[Entries]] | None = None
    size: float | None = None  # bytes of the whole in memory, if it is dense and a file declares it
    ahead: bool = True  # whether a thread may read; objects of others may not like that

    def whole(self) -> sp.csr_array | sp.coo_array:
        """All of it in memory, if as much as is declared fits."""
        n, m = self.shape
        assert n is not None
        what = f"a matrix of {n:,} × {m:,}"
        if self.size is not None:
            require(self.size, what, SMALLER)
        if self.nonzeros is not None:
            # 8 bytes per value and 4 per index, once as read and once as kept; 8 bytes for the start of each row and column
            require(24 * self.nonzeros + 16 * (n + m), f"{what} with {self.nonzeros:,} entries", SMALLER)
        if self.entries is not None:
            index = np.int32 if max(n, m) <= np.iinfo(np.int32).max else np.int64
            none = (np.zeros(0, index), np.zeros(0, index), np.zeros(0))
            parts = [(rows.astype(index), columns.astype(index), values) for rows, columns, values in self.entries()]
            row, column, value = (np.concatenate(arrays) for arrays in zip(none, *parts, strict=True))
            return sp.coo_array((value, (row, column)), shape=(n, m))
        blocks, first = [], 0
        for block in self.rows(0):
            blocks.append(canonical(block, first))
            first += block.shape[0]
        return sp.vstack(blocks, format="csr") if blocks else sp.csr_array((n, m))

    def rows(self, start: int, scratch: Path | None = None) -> Iterator[Any]:
        """Blocks from row `start` on; entries are put in order in the folder `scratch`."""
        if self.read is not None:
            return self.read(start)
        assert scratch is not None
        return self._sorted(start, scratch)

    def _sorted(self, start: int, scratch: Path) -> Iterator[sp.coo_array]:
        n, m = self.shape
        assert n is not None
        assert self.entries is not None
        size = ROWS if not self.nonzeros else int(min(ROWS, max(1, BUCKET * n // self.nonzeros)))
        size = max(1, min(size, n))
        if self.nonzeros is not None:
            scratch.mkdir(parents=True, exist_ok=True)
            needed, free = self.nonzeros * ENTRY.itemsize, shutil.disk_usage(scratch).free
            if needed > free:
                raise OSError(28, f"to put its entries in order takes {gigabytes(needed)}, {gigabytes(free)} are free")
        buckets = scratch / "buckets"
        shutil.rmtree(buckets, ignore_errors=True)
        buckets.mkdir(parents=True)
        for rows, columns, values in self.entries():
            _distribute(buckets, rows, columns, values, size, start)
        for bucket in range(start // size, -(-n // size)):
            file, first, last = buckets / str(bucket), max(bucket * size, start), min((bucket + 1) * size, n)
            found = np.fromfile(file, ENTRY) if file.exists() else np.zeros(0, ENTRY)
            file.unlink(missing_ok=True)
            row = found["row"].astype(np.int32) - (first - bucket * size)
            yield sp.coo_array((found["value"], (row, found["column"].astype(np.int32))), shape=(last - first, m))

    def _entries(self) -> Iterator[Entries]:
        """All entries, in any order."""
        if self.entries is not None:
            yield from self.entries()
            return
        first = 0
        for block in self.rows(0):
            some = sp.coo_array(block)
            yield some.row.astype(np.int64) + first, some.col, some.data
            first += block.shape[0]

    @property
    def T(self) -> Blocks:
        n, m = self.shape
        assert n is not None
        return Blocks((m, n), self.nonzeros, None, lambda: ((j, i, x) for i, j, x in self._entries()), self.size)

    def columns(self, kept: Integers) -> Blocks:
        """These columns alone."""
        shape = self.shape[0], len(kept)
        if self.read is not None:
            read = self.read
            return replace(
                self, shape=shape, read=lambda start: (sp.csr_array(block)[:, kept] for block in read(start))
            )
        place = np.full(self.shape[1], -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))

        def entries() -> Iterator[Entries]:
            for rows, columns, values in self._entries():
                inside = place[columns] >= 0
                yield rows[inside], place[columns[inside]], values[inside]

        return replace(self, shape=shape, entries=entries)


def part_size() -> float:
    """Bytes of what is read at a time, and may take several times that on its way."""
    return min(PART, available() / 16)


class Again(Generic[T]):
    """What can be gone through more than once. It is read again each time, unless the first time has shown that it is small
    enough to be kept; `size` gives the bytes of an item."""

    def __init__(self, read: Callable[[], Iterator[T]], size: Callable[[T], float]) -> None:
        self.read, self.size = read, size
        self.kept: list[T] | None = None
        self.too_large = False

    def __iter__(self) -> Iterator[T]:
        if self.kept is not None:
            yield from self.kept
            return
        kept, total = list[T](), 0.0
        most = 0 if self.too_large else min(KEPT, available() / 8)
        for item in self.read():
            total += self.size(item) if total <= most else 0
            kept.append(item) if total <= most else kept.clear()
            yield item
        self.too_large = total > most
        self.kept = None if self.too_large else kept


def from_row(start: int, blocks: Iterable[Any]) -> Iterator[Any]:
    """The rows from `start` on of blocks that begin with the first row."""
    first = 0
    for block in blocks:
        if first + block.shape[0] > start:
            yield block[start - first :] if start > first else block
        first += block.shape[0]


def _distribute(folder: Path, rows: NDArray, columns: NDArray, values: NDArray, size: int, start: int) -> None:
    """Append entries to the files of their rows, in the order in which they came."""
    late = rows >= start
    if not late.all():
        rows, columns, values = rows[late], columns[late], values[late]
    bucket = rows // size
    if bucket.size and bucket.max() < 1 << 16:
        bucket = bucket.astype(np.uint16)  # which numpy sorts by radix
    order = np.argsort(bucket, kind="stable")
    entries = np.empty(len(order), ENTRY)
    entries["row"], entries["column"], entries["value"] = (rows % size)[order], columns[order], values[order]
    bucket = bucket[order]
    cuts = [0, *(np.flatnonzero(np.diff(bucket)) + 1).tolist(), len(bucket)]
    for first, last in pairwise(cuts) if len(bucket) else ():
        with (folder / str(bucket[first])).open("ab") as file:
            entries[first:last].tofile(file)


def blocks_of(matrix: Any, start: int, scratch: Path) -> Generator[Any, None, None]:
    """The rows of any matrix from `start` on, some at a time; read ahead if they must be read."""
    if isinstance(matrix, Blocks):
        rows = matrix.rows(start, scratch)
        yield from prefetch(rows) if matrix.ahead else rows
        return
    if sp.issparse(matrix):
        matrix = sparse_to_csr(matrix)
    yield from slices(matrix.iloc if hasattr(matrix, "iloc") else matrix, matrix.shape[0], start)


def slices(matrix: Any, n: int, start: int = 0) -> Iterator[Any]:
    """Rows of what can be sliced, some at a time."""
    for first in range(start, n, ROWS):
        yield matrix[first : min(first + ROWS, n)]


def csr_blocks(shape: Shape, indptr: NDArray, indices: Any, data: Any, start: int) -> Iterator[sp.csr_array]:
    """Of a matrix whose offsets are in memory, and whose other arrays can be read by slices."""
    n, m = shape
    offsets = sound_offsets(indptr, n, indices.shape[0], data.shape[0])
    for first, last in cuts(offsets, start):
        some = slice(int(offsets[first]), int(offsets[last]))
        yield sound_block(offsets[first : last + 1], indices[some], data[some], m)


def sound_offsets(indptr: NDArray, n: int, indices: int, values: int) -> NDArray[np.int64]:
    """Where rows begin, once that is known to make sense: what reads them trusts us."""
    offsets = np.asarray(indptr).astype(np.int64)
    if len(offsets) != n + 1 or indices != values:
        raise ValueError(
            f"{n:,} rows do not go with {len(offsets):,} starts of rows, {indices:,} indices and {values:,} values"
        )
    if offsets[0] != 0 or offsets[-1] != indices or (np.diff(offsets) < 0).any():
        raise ValueError("its indices are damaged (the starts of its rows are out of order)")
    return offsets


def sound_block(offsets: NDArray[np.int64], indices: NDArray, data: NDArray, m: int) -> sp.csr_array:
    """Some rows, once all their indices lie inside the matrix."""
    if indices.size and not (indices.min() >= 0 and indices.max() < m):
        raise ValueError(f"its indices are damaged (feature {indices.max()} of {m})")
    local = (offsets - offsets[0]).astype(np.int32)
    return sp.csr_array((data, indices.astype(np.int32, copy=False), local), shape=(len(offsets) - 1, m))


def cuts(offsets: NDArray[np.int64], start: int = 0) -> Iterator[tuple[int, int]]:
    """Ranges of rows of about equal size from `start` on, each with at least one row."""
    n = len(offsets) - 1
    while start < n:
        within = int(np.searchsorted(offsets, offsets[start] + NONZEROS, side="right")) - 1
        stop = max(start + 1, min(within, start + ROWS, n))
        if (nonzeros := int(offsets[stop] - offsets[start])) > NONZEROS:  # of one row
            require(BYTES_A_NONZERO * nonzeros, f"row {start + 1:,} with {nonzeros:,} entries", "remove it")
        yield start, stop
        start = stop
