"""Shards: counts of any size, thousands samples at a time, from a folder or from memory.

A fit on shards goes through tiles of 4,096 samples, in shards of 16,384, and adds up what they say in their order. So what it
ends with depends on the counts alone: not on where they lie, on how much memory there is, nor on who adds them up.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unmix.base.checks import plural
from unmix.base.kinds import size
from unmix.base.types import Floats, Integers, Names, Record, as_names, with_unique_columns
from unmix.counts.counts import Counts, CountsLike, amount
from unmix.counts.data import Engine, Facts, Part, chosen_engine, evenly
from unmix.counts.multipliers import Multipliers
from unmix.counts.stores import InMemory, OnDisk, checksum, file_name, in_doubles, read_manifest

SHARD, TILE = 16_384, 4_096  # samples. Bits depend on them: they are no options
START = 16_384  # samples of the start
MOST_IN_TILE, MOST_IN_SHARD = 1 << 24, 1 << 26  # nonzeros; with more in the first tile, shards have fewer samples


class Shards:
    """Counts of any size, in a folder made by `unmix.shard` or in memory.

    Sizes of files are checked at once, each file's checksum when it is first read. `Shards.of` takes `Counts`: a fit of them
    and a fit of their shards on disk are equal bit for bit.

    Parameters
    ----------
    folder : str or PathLike
        A folder of shards.

    Attributes
    ----------
    shape : tuple of int
        (n, m).
    features : array of str, or None
        Names.
    text : dict or None
        How words were counted, as in `Counts`.
    reading : str
        How the file was read, in one line, if `unmix.shard` has just read it.
    rows_per_shard, rows_per_tile : int
        How many samples a shard has, except the last, and a tile.
    folder : Path or None
        Where they are; None in memory.

    Raises
    ------
    ValueError
        If it is no such folder, unfinished, or a file does not have its size.

    See Also
    --------
    shard : Make them.
    engines.Local, engines.Dask : Who goes over them.

    Examples
    --------
    >>> Shards.of(Counts([[1, 0, 2], [0, 3, 0]]))
    Shards(2 samples × 3 features, 3 nonzeros, total 6, in 1 shard)
    """

    in_memory: ClassVar[bool] = False
    shape: tuple[int, int]
    features: Names | None
    text: Record | None
    multipliers: Multipliers | None = None
    reading: str = ""
    rows_per_shard: int
    rows_per_tile: int
    folder: Path | None

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        manifest = read_manifest(self.folder)
        self.shape = manifest.shape
        self.rows_per_shard, self.rows_per_tile = manifest.rows_per_shard, manifest.rows_per_tile
        self.text = manifest.text
        self._store: InMemory | OnDisk = (store := OnDisk(self.folder, manifest))
        self.features = store.features

    @classmethod
    def of(cls, counts: CountsLike, sample: int | None = None, sample_by: ArrayLike | None = None) -> Shards:
        """The same in memory.

        Parameters
        ----------
        counts : Counts or array-like
            All of them: anything that `Counts` takes.
        sample : int, default=None
            How many samples a fit shall start from, as in `unmix.shard`.
        sample_by : array-like, default=None
            A label for every sample, as in `unmix.shard`.

        Returns
        -------
        Shards
            Fits of them equal those of the shards on disk.

        Examples
        --------
        >>> Shards.of(Counts([[1, 0, 2], [0, 3, 0]])).shape
        (2, 3)
        """
        counts, shards = counts if isinstance(counts, Counts) else Counts(counts), object.__new__(cls)
        shards.folder, shards.shape, shards.features, shards.text = None, counts.shape, counts.features, counts.text
        first = min(TILE, counts.shape[0])
        shards.rows_per_shard = rows_per_shard(first, int(counts.rows.indptr[first]))
        shards.rows_per_tile = TILE
        chosen = start_sample(counts.shape[0], sample, sample_by)
        shards._store = InMemory(counts, shards.rows_per_shard, shards.rows_per_tile, chosen)
        return shards

    def __repr__(self) -> str:
        shape = size(*self.shape, text=bool(self.text), names=(None, self.features))
        parts = plural(self.n_shards, "shard")
        return f"Shards({shape}, {self.nnz:,} nonzeros, total {amount(self.total)}, in {parts})"

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Anyone who takes counts in memory alone asks for this."""
        raise ValueError(
            "these are shards, and counts are needed in memory; use shards.sample, the samples that fits start from, or "
            "shards.take(rows), and where a fit of the same samples is needed, a fit of those"
        )

    def sides(self) -> Any:
        """Rows and columns of all counts are not at hand: an error."""
        return self.__array__()

    def batches(self, size: int, rng: np.random.Generator) -> Any:
        """Samples in random order are not at hand: an error."""
        return self.__array__()

    def parts(self) -> Iterator[Counts]:
        """All samples in order, one shard at a time.

        Yields
        ------
        Counts
            A shard.

        Examples
        --------
        >>> import unmix as um
        >>> [len(part) for part in um.Shards.of(um.Counts([[1, 0, 2], [0, 3, 0]])).parts()]
        [2]
        """
        return map(self.shard, range(self.n_shards))

    def engine(self, n_topics: int) -> Engine:
        """What visits the shards: the engine of the innermost `with`, or one of this machine.

        Parameters
        ----------
        n_topics : int
            Number of topics of the fit.

        Returns
        -------
        Engine
            One that can do it.

        Raises
        ------
        ValueError
            If it cannot.

        Examples
        --------
        >>> import unmix as um
        >>> with um.engines.Local(memory="1GB") as local:
        ...     um.Shards.of(um.Counts([[1, 0, 2], [0, 3, 0]])).engine(2) is local
        True
        """
        engine = chosen_engine()
        engine.require(self, n_topics)
        return engine

    def matvec(self, v: Floats) -> Floats:
        """X v."""
        return np.concatenate([part.matvec(v) for part in self.parts()])

    def rmatvec(self, v: Floats) -> Floats:
        """Xᵀ v."""
        parts = ((part, slice(*self.bounds(i))) for i, part in enumerate(self.parts()))
        return np.sum([part.rmatvec(v[rows]) for part, rows in parts], axis=0)

    @cached_property
    def sample_totals(self) -> Floats:
        """array, n: the sum of each sample."""
        return np.concatenate([part.sample_totals for part in self.parts()])

    @property
    def n_shards(self) -> int:
        """int: how many there are."""
        return -(-self.shape[0] // self.rows_per_shard)

    def bounds(self, i: int) -> tuple[int, int]:
        """Which samples a shard has.

        Parameters
        ----------
        i : int
            The shard, from 0.

        Returns
        -------
        tuple of two int
            The number of its first sample, and of the first one after it.

        Raises
        ------
        IndexError
            If there is no such shard.

        Examples
        --------
        >>> Shards.of(Counts([[1, 0, 2], [0, 3, 0]])).bounds(0)
        (0, 2)
        """
        if not 0 <= i < self.n_shards:
            raise IndexError(f"shard {i} of {self.n_shards}")
        return i * self.rows_per_shard, min((i + 1) * self.rows_per_shard, self.shape[0])

    @cached_property
    def nnz(self) -> int:
        """int: how many counts are not zero."""
        return sum(part.nonzeros for part in self._store.parts)

    @cached_property
    def total(self) -> float:
        """float: the sum of all counts."""
        return float(sum(part.total for part in self._store.parts))

    @cached_property
    def log_factorials(self) -> float:
        """Σ log Γ(x + 1), the constant of every likelihood here; shard by shard."""
        return float(sum(part.log_factorials for part in self._store.parts))

    @cached_property
    def feature_totals(self) -> Floats:
        """array, m: the sum of each feature."""
        return self._store.feature_totals

    @cached_property
    def samples(self) -> Names | None:
        """array of str, or None: the names of all samples, read when first asked for."""
        if not self._store.named:
            return None
        return as_names([name for i in range(self.n_shards) for name in self._store.names(i)])

    @cached_property
    def metadata(self) -> pd.DataFrame | None:
        """A table with one row per sample, if there is one, read when first asked for."""
        return self._store.metadata

    def with_multipliers(self, given: Multipliers | None) -> Self:
        """The same counts, of which this is known."""
        other = copy.copy(self)
        other.__dict__.pop("_sampled", None)
        other.__dict__.pop("sample", None)
        other.multipliers = given
        return other

    def with_metadata(self, table: pd.DataFrame | None) -> Shards:
        """The same counts with another table."""
        if table is not None and len(table) != len(self):
            raise ValueError(f"metadata has {len(table):,} rows for {len(self):,} samples; use one row per sample")
        other = copy.copy(self)
        other.metadata = with_unique_columns(table)
        return other

    @cached_property
    def fractional(self) -> float:
        """float: the share of the nonzeros that are not whole numbers."""
        return sum(part.fractional for part in self._store.parts) / self.nnz if self.nnz else 0.0

    @cached_property
    def facts(self) -> Facts:
        """mapping: what a fit remembers of its data: size, oddities, and a checksum by which to know them again, anywhere."""
        parts = self._store.parts
        empty = sum(part.empty_samples for part in parts)
        return Facts.of(self, empty, partial(checksum, self.shape, parts)) | {"shards": self.n_shards}

    @cached_property
    def sample(self) -> Counts:
        """Counts: the samples that a fit starts from, in memory: those whose numbers have the smallest hashes, in their
        order."""
        return self._sampled[1]

    @cached_property
    def _sampled(self) -> tuple[Integers, Counts]:
        rows, counts = self._store.sample()
        return rows, self._described(counts, rows)

    def some(self, most: int) -> tuple[Integers, Counts]:
        """Up to this many samples, evenly spaced among those that a fit starts from.

        Parameters
        ----------
        most : int
            Maximum number of samples.

        Returns
        -------
        tuple of array and Counts
            Their numbers, from 0, and they themselves.

        Examples
        --------
        >>> Shards.of(Counts([[1, 0, 2], [0, 3, 0]])).some(1)[0]
        array([0])
        """
        rows, counts = self._sampled
        places = evenly(len(rows), most)
        return rows[places], counts.take(places)

    @property
    def sample_nnz(self) -> int:
        """int: the nonzeros of `sample`, which is not read for that."""
        return self._store.sample_nonzeros

    def tiles(self, i: int) -> Iterator[Part]:
        """The samples of a shard, 4,096 at a time.

        Parameters
        ----------
        i : int
            The shard, from 0.

        Yields
        ------
        Part
            Some of its samples.

        Examples
        --------
        >>> len(list(Shards.of(Counts([[1, 0, 2], [0, 3, 0]])).tiles(0)))
        1
        """
        self.bounds(i)
        for _, rows in self._store.shard(i).tiles(self.rows_per_tile):
            yield Part(rows, self.shape[1])

    def soon(self, i: int) -> None:
        """This shard will be asked for: let the system fetch it meanwhile, where it can."""
        if self.folder is not None and hasattr(os, "posix_fadvise"):
            with suppress(OSError), (self.folder / file_name(i)).open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)

    def shard(self, i: int) -> Counts:
        """One shard, in memory, with names.

        Parameters
        ----------
        i : int
            The shard, from 0.

        Returns
        -------
        Counts
            Its samples.

        Examples
        --------
        >>> Shards.of(Counts([[1, 0, 2], [0, 3, 0]])).shard(0)
        Counts(2 samples × 3 features, 3 nonzeros, total 6)
        """
        first, last = self.bounds(i)
        rows = in_doubles(self._store.shard(i).rows(0, last - first), self.shape[1])
        names = as_names(self._store.names(i)) if self._store.named else None
        return self._described(Counts.trusted(rows, names, self.features, None, self.text), slice(first, last))

    def take(self, rows: Integers) -> Counts:
        """These samples, in this order, in memory; only the shards that contain them are read.

        Parameters
        ----------
        rows : array of int
            Numbers of samples, from 0.

        Returns
        -------
        Counts
            With names.

        Raises
        ------
        IndexError
            If there is no such sample.

        Examples
        --------
        >>> Shards.of(Counts([[1, 0, 2], [0, 3, 0]])).take(np.array([1])).csr.toarray()
        array([[0., 3., 0.]])
        """
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows, dtype=np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.shape[0]):
            raise IndexError(f"sample {rows.min() if rows.min() < 0 else rows.max()} of {self.shape[0]}")
        wanted, place = np.unique(rows, return_inverse=True)
        found, names = [sp.csr_array((0, self.shape[1]))], []
        for i in np.unique(wanted // self.rows_per_shard).tolist():
            first, last = self.bounds(i)
            here = wanted[slice(*np.searchsorted(wanted, (first, last)))] - first
            shard = self._store.shard(i)
            for start in (np.unique(here // self.rows_per_tile) * self.rows_per_tile).tolist():
                stop = min(start + self.rows_per_tile, last - first)
                tile = in_doubles(shard.rows(start, stop), self.shape[1])
                found.append(tile[here[slice(*np.searchsorted(here, (start, stop)))] - start])
            if self._store.named:
                of_shard = self._store.names(i)
                names += [of_shard[row] for row in here.tolist()]
        matrix, samples = sp.vstack(found, format="csr"), as_names(names) if self._store.named else None
        if not np.array_equal(place, np.arange(len(wanted))):
            matrix, samples = matrix[place], None if samples is None else samples[place]
        return self._described(Counts.trusted(matrix, samples, self.features, None, self.text), rows)

    def _described(self, counts: Counts, rows: Integers | slice) -> Counts:
        """With their rows of the table."""
        counts.metadata = None if self.metadata is None else self.metadata.iloc[rows].reset_index(drop=True)
        counts.multipliers = None if self.multipliers is None else self.multipliers.take(rows)
        return counts

    def verify(self) -> None:
        """Read everything.

        Raises
        ------
        ValueError
            At the first file that is not as it was built.

        Examples
        --------
        >>> Shards.of(Counts([[1, 0, 2], [0, 3, 0]])).verify()
        """
        if isinstance(self._store, OnDisk):
            self._store.verify()


def rows_per_shard(first: int, nonzeros: int) -> int:
    """Of counts whose `first` samples (a tile of them) have this many nonzeros: fewer where they are this many that a shard
    would be large. It follows from the counts alone."""
    rows = SHARD
    while nonzeros > MOST_IN_TILE and rows * nonzeros > MOST_IN_SHARD * first and rows > 1:
        rows //= 2
    return rows


def start_sample(n: int, size: int | None = None, by: ArrayLike | None = None) -> Integers:
    """The numbers of the samples to start from, in order: those with the smallest hashes, of all or of every label `by`
    alike."""
    size = START if size is None else size
    if size < 1:
        raise ValueError(f"sample={size}; use a number of samples, 1 or more")
    if by is not None and len(np.asarray(by)) != n:
        raise ValueError(f"sample_by has {len(np.asarray(by)):,} labels for {n:,} samples; use one label each")
    if size >= n:
        return np.arange(n)
    order = np.argsort(splitmix64(np.arange(n, dtype=np.uint64)), kind="stable")
    if by is not None:
        _, labels = np.unique(np.asarray(by)[order].astype(str), return_inverse=True)
        within = np.argsort(labels, kind="stable")
        rank = np.empty(n, dtype=np.int64)  # how many of its label come before a sample
        rank[within] = np.arange(n) - np.searchsorted(labels[within], labels[within])
        order = order[np.argsort(rank, kind="stable")]
    return np.sort(order[:size])


def splitmix64(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Steele, Lea and Flood (2014): numbers in, what looks like chance out; the same everywhere.

    >>> splitmix64(np.arange(2, dtype=np.uint64))
    array([16294208416658607535, 10451216379200822465], dtype=uint64)
    """
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
