"""This machine: shards in order, those to come read ahead in a thread, on as many threads as there are.

Memory is bounded: a few tiles at a time, unless all of them fit into `cache` bytes, in which case they are read once. What
visits leave is kept in memory, or beyond `room` bytes in a folder.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, repeat
from operator import itemgetter
from pathlib import Path
from weakref import finalize

import numpy as np

from unmix.base.memory import available, gigabytes, parsed
from unmix.base.threads import prefetch
from unmix.base.types import Record
from unmix.counts.data import Arrays, Before, Engine, Part, Visit, tree
from unmix.counts.shards import Shards
from unmix.kernels import curvature_size
from unmix.storage import tensors
from unmix.storage.files import replacing

AHEAD = 2  # tiles that wait, decoded
BYTES_A_NONZERO = 12  # of a tile in memory, with its transpose
BYTES_TO_START = 40  # a nonzero of the sample, for a fit in memory
BYTES_OF_PROGRAM = 300 << 20  # of Python and the libraries


# What visits leave, in a folder: a file for every pass and shard, written under a temporary name and renamed.

NAME = re.compile(r"\.?(-?\d{5,})-(\d{6})(-[0-9a-f-]+)?\.safetensors")  # the last part is that of a broken-off write


@dataclass(eq=False)
class Kept:
    """Files `PASS-SHARD.safetensors` in a folder of their own."""

    folder: Path
    saved: set[int] = field(default_factory=set)  # passes that a checkpoint may name

    def path(self, number: int, i: int) -> Path:
        return self.folder / f"{number:06d}-{i:06d}.safetensors"

    def write(self, number: int, i: int, left: Arrays, about: dict[str, str] | None = None) -> None:
        content = tensors.serialized(left, about)
        try:
            with replacing(self.path(number, i)) as temporary:
                temporary.write_bytes(content)
        except OSError as error:
            problem = f"{error.strerror}: loadings are kept here between passes; set a larger folder for the engine, or TMPDIR"
            raise OSError(error.errno, problem, str(self.folder)) from error

    def read(self, number: int, i: int) -> Arrays:
        path = self.path(number, i)
        try:
            return tensors.parsed(tensors.read_bytes(path))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: loadings of pass {number} cannot be read ({error}); start again") from None

    def about(self, number: int, i: int) -> dict[str, str]:
        """What was said of a file when it was written; nothing if there is none."""
        try:
            with self.path(number, i).open("rb") as file:
                return tensors.Header.of_file(file).about
        except (OSError, ValueError):
            return {}

    def take(self, other: Kept, number: int, i: int) -> None:
        """A file of a different folder: the same one under two names where the file system can, otherwise a copy."""
        source = other.path(number, i)
        try:
            with replacing(self.path(number, i)) as temporary:
                try:
                    os.link(source, temporary)
                except OSError:
                    shutil.copyfile(source, temporary)
        except OSError as error:
            raise ValueError(f"{source}: loadings of pass {number} cannot be read ({error}); start again") from None

    def keep_only(self, numbers: set[int]) -> None:
        """Of these passes, and of those of the last checkpoint."""
        for path in self.folder.iterdir():
            if (match := NAME.fullmatch(path.name)) and int(match.group(1)) not in numbers | self.saved:
                path.unlink(missing_ok=True)

    def remove_if_empty(self) -> None:
        with suppress(OSError):
            self.folder.rmdir()


def cut(shards: Shards, arrays: Arrays, i: int) -> Arrays:
    """From arrays of all samples to those of a shard."""
    return {name: np.ascontiguousarray(array[slice(*shards.bounds(i))]) for name, array in arrays.items()}


class Local(Engine):
    """This machine: the engine that fits use by default.

    Parameters
    ----------
    memory : float or str, default=None
        What a fit may take: bytes, or words such as "4GB"; None: half of what is free. It decides what is kept in memory, never
        the result. A fit that needs more is refused before it starts.
    folder : str or PathLike, default=None
        Where to keep what does not fit into memory, and what a checkpoint needs of it; None: a folder of its own, removed in
        the end, so that checkpoints hold all loadings.

    Raises
    ------
    ValueError
        If the memory is not such an amount.

    See Also
    --------
    engines.Dask : The workers of a cluster.
    shard : Make shards.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Shards.of(um.datasets.correlated_topics("A"))
    >>> with um.engines.Local(memory="1GB"):
    ...     model = um.TopicModel(3, tol=1e-4, random_state=0).fit(X)
    """

    def __init__(self, memory: float | str | None = None, folder: str | os.PathLike[str] | None = None) -> None:
        self.memory = parsed(memory) if isinstance(memory, str) else memory
        self.folder = None if folder is None else Path(folder)
        self._in_memory: dict[tuple[int, int], Arrays] = {}  # by pass and shard
        self._on_disk: Kept | None = None
        self._cache: tuple[Shards, dict[int, list[Part]]] | None = None

    def require(self, shards: Shards, n_topics: int) -> None:
        """Refuse a fit that would not fit, and say how much it would need.

        Parameters
        ----------
        shards : Shards
            The data.
        n_topics : int
            Number of topics.

        Raises
        ------
        ValueError
            If it needs more memory than it may take.

        Examples
        --------
        >>> import unmix as um
        >>> um.engines.Local(memory="1GB").require(um.Shards.of(um.Counts([[1, 0, 2], [0, 3, 0]])), n_topics=2)
        """
        if self.memory is None:
            return
        if (need := needed(shards, n_topics)) > self.memory:
            raise ValueError(
                f"{n_topics} topics of {shards.shape[1]:,} features need {gigabytes(need)} of memory, {gigabytes(self.memory)} "
                "are available; allow more, use fewer topics, or build the shards with a smaller sample to start from"
            )

    def over(
        self, shards: Shards, visit: Visit, shared: Arrays, *, before: Before = None, after: int | None = None
    ) -> Arrays:
        before = self._numbered(shards, before)
        given = self.left(shards, before) if before is not None else repeat({})

        def parts() -> Iterator[Arrays]:
            for i, tiles in enumerate(self._tiles(shards)):
                left, sums = visit(tiles, shared, next(given))
                if after is not None:
                    self._keep(shards, after, i, left)
                yield sums

        return tree(parts())

    def left(self, shards: Shards, number: int) -> Iterator[Arrays]:
        for i in range(shards.n_shards):
            if self._on_disk is None or (number, i) in self._in_memory:
                yield self._in_memory[number, i]
            else:
                yield self._on_disk.read(number, i)

    def keep_only(self, numbers: set[int]) -> None:
        self._in_memory = {key: left for key, left in self._in_memory.items() if key[0] in numbers}
        if self._on_disk is not None:
            self._on_disk.keep_only(numbers)

    def save(self, shards: Shards, numbers: set[int]) -> Record:
        """The folder they are in, if it was given and so stays; else arrays of all samples, one below the other."""
        if self._on_disk is not None and self.folder is not None:
            self._on_disk.saved = numbers
            return {"folder": str(self._on_disk.folder), "numbers": sorted(numbers)}
        saved: Record = {}
        for number in sorted(numbers):
            leaves = list(self.left(shards, number))
            saved[str(number)] = {name: np.concatenate([left[name] for left in leaves]) for name in leaves[0]}
        return saved

    def restore(self, shards: Shards, saved: Record) -> None:
        source = Kept(Path(saved["folder"])) if "folder" in saved else None
        for number in saved if source is None else saved["numbers"]:
            for i in range(shards.n_shards):
                left = cut(shards, saved[number], i) if source is None else source.read(int(number), i)
                self._keep(shards, int(number), i, left)

    def _keep(self, shards: Shards, number: int, i: int, left: Arrays) -> None:
        """In memory, or on disk if several passes would take more than a quarter of the memory."""
        first, last = shards.bounds(i)
        size = sum(array.nbytes for array in left.values()) / max(last - first, 1) * len(shards)
        if self._on_disk is None and 3 * size <= self._budget / 4:
            self._in_memory[number, i] = left
            return
        if self._on_disk is None:
            folder = self.folder
            if folder is None:
                folder = Path(tempfile.mkdtemp(prefix="unmix-"))
                finalize(self, shutil.rmtree, folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            self._on_disk = Kept(folder.absolute())
        self._on_disk.write(number, i, left)

    @cached_property
    def _budget(self) -> float:
        return available() / 2 if self.memory is None else self.memory

    def _tiles(self, shards: Shards) -> Iterator[Iterator[Part]]:
        """The tiles of every shard. Anyone who asks for a shard has been through the one before."""
        if BYTES_A_NONZERO * shards.nnz <= self._budget / 4:
            if self._cache is None or self._cache[0] is not shards:
                self._cache = shards, {}
            known = self._cache[1]
            for i in range(shards.n_shards):
                if i not in known:
                    known[i] = list(shards.tiles(i))
                yield iter(known[i])
            return
        yield from _read_ahead(shards)


def needed(shards: Shards, n_topics: int) -> float:
    """Bytes of a fit: the larger of the start, in memory, and of a pass, with sums on levels of the tree and tiles."""
    m = shards.shape[1]
    sums = m * (4 * curvature_size(n_topics) + 8 * n_topics)
    tile = BYTES_A_NONZERO * shards.nnz / len(shards) * min(shards.rows_per_tile, len(shards))
    start = BYTES_TO_START * shards.sample_nnz
    return BYTES_OF_PROGRAM + max(start, 4 * sums + (AHEAD + 2) * tile + 3 * 8 * n_topics * m)


def _read_ahead(shards: Shards) -> Iterator[Iterator[Part]]:
    """Tiles decoded, and transposed, by another thread, `AHEAD` of them at a time."""

    def numbered() -> Iterator[tuple[int, Part]]:
        for i in range(shards.n_shards):
            for tile in shards.tiles(i):
                tile.transposed  # noqa: B018 - made here
                yield i, tile

    with closing(prefetch(numbered(), AHEAD)) as fetched:
        for _, some in groupby(fetched, key=itemgetter(0)):
            yield (tile for _, tile in some)
