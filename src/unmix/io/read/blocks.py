"""Matrices that are not in memory: a shape, and blocks of rows that come one after the other.

`ByRows` reads rows in order. `ByEntries` has entries in any order: a first pass puts them into files, one for each range of
rows, and each of these fits into memory. Either way the other way round is `.T`, as for an array.
"""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.memory import gigabytes, require
from unmix.base.types import Integers
from unmix.counts.canonical import sparse_to_csr

ROWS = 4_096  # most rows of a block
NONZEROS = 1 << 23  # and about the most nonzeros, if they can be foreseen
BYTES_A_NONZERO = 32  # of a block, from reading to writing
BUCKET = 1 << 24  # nonzeros of a file of entries, on average
ENTRY = np.dtype([("row", "<u4"), ("column", "<u4"), ("value", "<f8")])
Entries = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # rows, columns, values
Shape = tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True)
class ByRows:
    """`read(start)` gives blocks, sparse or dense, from row `start` on. The number of rows is None if only the end shows it."""

    shape: tuple[int | None, int]
    nonzeros: int | None
    read: Callable[[int], Iterator[Any]]
    ahead: bool = True  # whether a thread may read; objects of others may not like that

    def rows(self, start: int, scratch: Path) -> Iterator[Any]:
        return self.read(start)

    @property
    def T(self) -> ByEntries:
        def entries() -> Iterator[Entries]:
            first = 0
            for block in self.read(0):
                some = sp.coo_array(block)
                yield some.col, some.row.astype(np.int64) + first, some.data
                first += block.shape[0]

        n, m = self.shape
        assert n is not None
        return ByEntries((m, n), self.nonzeros, entries)

    def columns(self, kept: Integers) -> ByRows:
        """These columns alone."""

        def read(start: int) -> Iterator[Any]:
            return (sp.csr_array(block)[:, kept] for block in self.read(start))

        return replace(self, shape=(self.shape[0], len(kept)), read=read)


@dataclass(frozen=True)
class ByEntries:
    shape: Shape
    nonzeros: int | None
    entries: Callable[[], Iterator[Entries]]

    def rows(self, start: int, scratch: Path) -> Iterator[sp.coo_array]:
        n, m = self.shape
        size = _bucket_rows(n, self.nonzeros)
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

    @property
    def T(self) -> ByEntries:
        def entries() -> Iterator[Entries]:
            return ((columns, rows, values) for rows, columns, values in self.entries())

        return ByEntries(self.shape[::-1], self.nonzeros, entries)

    def columns(self, kept: Integers) -> ByEntries:
        place = np.full(self.shape[1], -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))

        def entries() -> Iterator[Entries]:
            for rows, columns, values in self.entries():
                inside = place[columns] >= 0
                yield rows[inside], place[columns[inside]], values[inside]

        return ByEntries((self.shape[0], len(kept)), self.nonzeros, entries)


Blocks = ByRows | ByEntries


def _bucket_rows(n: int, nonzeros: int | None) -> int:
    return ROWS if not nonzeros else int(min(ROWS, max(1, BUCKET * n // nonzeros)))


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


def blocks_of(matrix: Any, start: int, scratch: Path) -> Iterator[Any]:
    """The rows of any matrix from `start` on, some at a time; read ahead if they must be read."""
    if isinstance(matrix, ByRows | ByEntries):
        rows = matrix.rows(start, scratch)
        yield from ahead(rows) if isinstance(matrix, ByEntries) or matrix.ahead else rows
        return
    if sp.issparse(matrix):
        matrix = sparse_to_csr(matrix)
    n = matrix.shape[0]
    some = matrix.iloc if hasattr(matrix, "iloc") else matrix
    for first in range(start, n, ROWS):
        yield some[first : min(first + ROWS, n)]


def ahead(items: Iterator[T], most: int = 1) -> Iterator[T]:
    """The same items, while a thread fetches the next ones: reading and encoding take turns on nothing but the disk."""
    fetched: queue.Queue[tuple[bool, Any]] = queue.Queue(most)
    stop = threading.Event()

    def put(end: bool, item: Any) -> None:
        while not stop.is_set():
            with suppress(queue.Full):
                fetched.put((end, item), timeout=0.1)
                return

    def fetch() -> None:
        try:
            for item in items:
                put(False, item)
                if stop.is_set():
                    return
            put(True, None)
        except BaseException as error:  # raised where the items are used
            put(True, error)

    thread = threading.Thread(target=fetch, daemon=True, name="unmix-reads-ahead")
    thread.start()
    try:
        while True:
            end, item = fetched.get()
            if end and item is not None:
                raise item
            if end:
                return
            yield item
    finally:
        stop.set()
        thread.join()
        if close := getattr(items, "close", None):
            close()


def csr_blocks(shape: Shape, indptr: NDArray, indices: Any, data: Any) -> ByRows:
    """Of a matrix whose offsets are in memory, and whose other arrays can be read by slices."""
    n, m = shape
    offsets = sound_offsets(indptr, n, indices.shape[0], data.shape[0])

    def read(start: int) -> Iterator[sp.csr_array]:
        for first, last in cuts(offsets, start):
            some = slice(int(offsets[first]), int(offsets[last]))
            yield sound_block(offsets[first : last + 1], indices[some], data[some], m)

    return ByRows(shape, data.shape[0], read)


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
            require(BYTES_A_NONZERO * nonzeros, f"row {start + 1:,} with {nonzeros:,} entries", "leave it out")
        yield start, stop
        start = stop
