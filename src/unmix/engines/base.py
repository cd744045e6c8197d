"""What goes over shards: a visit, and how the sums of visits are added up.

A visit is a pure function of a shard's counts, of what is shared by all visits of a pass, and of what the visit before left for
this shard. It leaves arrays for the next one, and returns sums. Sums are added in a tree whose shape follows from the number of
shards alone, so they are the same to the last bit whoever made the visits, and in whatever order.
"""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from unmix.base.types import Record
from unmix.counts.shards import Shards, Tile
from unmix.storage import tensors
from unmix.storage.files import replacing
from unmix.storage.tensors import Arrays

BRANCHES = 8  # of the tree of sums
LARGEST = "largest_"  # sums whose name begins so are maxima


class Visited(NamedTuple):
    """What a visit leaves for the next one of this shard, and its sums.

    Parameters
    ----------
    left : dict of str to array
        For the next visit.
    sums : dict of str to array
        To be added up over all shards; those whose name begins with "largest_" are maxima.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> um.engines.Visited(left={}, sums={"counts": np.array([3.0])}).sums
    {'counts': array([3.])}
    """

    left: Arrays
    sums: Arrays


class Visit(ABC):
    """What is done with a shard. Subclasses are frozen dataclasses of plain values, fit to be sent to another process.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> class Count(um.engines.Visit):
    ...     def __call__(self, tiles, shared, before):
    ...         return um.engines.Visited({}, {"nonzeros": np.array([sum(len(tile.rows.data) for tile in tiles)])})
    >>> um.engines.Local().over(um.Shards.of(um.Counts([[1, 0, 2], [0, 3, 0]])), Count(), {})
    {'nonzeros': array([3])}
    """

    @abstractmethod
    def __call__(self, tiles: Iterable[Tile], shared: Arrays, before: Arrays) -> Visited:
        """Visit a shard.

        Parameters
        ----------
        tiles : iterable of Tile
            The samples of the shard, some thousand at a time.
        shared : dict of str to array
            What all visits of this pass share.
        before : dict of str to array
            What the visit before left for this shard.

        Returns
        -------
        Visited
            What it leaves, and its sums.
        """


class Engine(Protocol):
    """Who makes visits, and keeps what they leave: under a number a pass, until it is let go.

    Examples
    --------
    >>> import unmix as um
    >>> with um.engines.Local(memory="1GB") as engine:
    ...     engine.require(um.Shards.of(um.Counts([[1, 0, 2], [0, 3, 0]])), n_topics=2)
    """

    def require(self, shards: Shards, n_topics: int) -> None:
        """Raises if a fit of these shards could not end well here.

        Parameters
        ----------
        shards : Shards
            The data.
        n_topics : int
            Number of topics.

        Raises
        ------
        ValueError
            That says what is missing.
        """
        ...

    def over(
        self, shards: Shards, visit: Visit, shared: Arrays, *, before: int | None = None, after: int | None = None
    ) -> Arrays:
        """The sums of a visit to every shard.

        Parameters
        ----------
        shards : Shards
            The data.
        visit : Visit
            What is done with each.
        shared : dict of str to array
            What all visits share.
        before : int, default=None
            The pass whose leavings each visit is given; None for none.
        after : int, default=None
            The number under which what it leaves is kept; None to let it go.

        Returns
        -------
        dict of str to array
            Added up in a fixed order, so that they are the same to the last bit on every engine.
        """
        ...

    def left(self, shards: Shards, number: int) -> Iterator[Arrays]:
        """What a pass left, shard by shard.

        Parameters
        ----------
        shards : Shards
            The data.
        number : int
            Of the pass.

        Yields
        ------
        dict of str to array
            One a shard, in their order.
        """
        ...

    def keep_only(self, numbers: set[int]) -> None:
        """Let go of what all other passes left.

        Parameters
        ----------
        numbers : set of int
            The passes to keep.
        """
        ...

    def save(self, shards: Shards, numbers: set[int]) -> Record:
        """Arrays and plain values from which `restore` has these passes again.

        Parameters
        ----------
        shards : Shards
            The data.
        numbers : set of int
            The passes.

        Returns
        -------
        dict
            What a file of a fit can keep.
        """
        ...

    def restore(self, shards: Shards, saved: Record) -> None:
        """Have the passes again that `save` was asked for.

        Parameters
        ----------
        shards : Shards
            The data.
        saved : dict
            What `save` gave.
        """
        ...


def added(one: Arrays, two: Arrays) -> Arrays:
    """In place of the first."""
    for name, value in two.items():
        if name.startswith(LARGEST):
            np.maximum(one[name], value, out=one[name])
        else:
            one[name] += value
    return one


class Tree:
    """Sums of eight neighbours added from left to right, then of eight of those, and so on."""

    def __init__(self) -> None:
        self.levels: list[tuple[int, Arrays | None]] = []

    def add(self, sums: Arrays, level: int = 0) -> None:
        while True:
            while level >= len(self.levels):
                self.levels.append((0, None))
            count, so_far = self.levels[level]
            sums = sums if so_far is None else added(so_far, sums)
            if count + 1 < BRANCHES:
                self.levels[level] = count + 1, sums
                return
            self.levels[level] = 0, None
            level += 1

    def total(self) -> Arrays:
        """Of all, what is left on low levels being carried up."""
        carried: Arrays | None = None
        for _, so_far in self.levels:
            if so_far is not None:
                carried = so_far if carried is None else added(so_far, carried)
        if carried is None:
            raise ValueError("there is nothing to add up")
        return carried


def tree(parts: Iterable[Arrays]) -> Arrays:
    sums = Tree()
    for part in parts:
        sums.add(part)
    return sums.total()


# Which engine goes over shards. It changes where and how long a fit runs and never its result, so it is said once, around all
# that follows, like the number of threads.

_chosen: ContextVar[Engine | None] = ContextVar("engine", default=None)


def engine(shards: Shards, n_topics: int) -> Engine:
    """What was said last, or one of this machine for the occasion; an error if it could not do this fit."""
    from unmix.engines.local import Local

    chosen = _chosen.get() or Local()
    chosen.require(shards, n_topics)
    return chosen


@contextmanager
def use_engine(chosen: Engine) -> Iterator[Engine]:
    """Fits of shards within its `with` use this engine; `with engine:` says the same of those here.

    Parameters
    ----------
    chosen : Engine
        Who goes over shards.

    Yields
    ------
    Engine
        The same.

    Examples
    --------
    >>> import unmix as um
    >>> with um.engines.use_engine(um.engines.Local(memory="1GB")):
    ...     model = um.PoissonNMF(2, max_iter=3, tol=0, random_state=0).fit(um.Shards.of(um.Counts([[1, 0, 2], [0, 3, 0]])))
    """
    token = _chosen.set(chosen)
    try:
        yield chosen
    finally:
        _chosen.reset(token)


class Usable:
    """An engine that is used by fits within its `with`."""

    _uses: list[AbstractContextManager[Any]]

    def __enter__(self) -> Self:
        use = use_engine(self)  # type: ignore[arg-type]
        use.__enter__()
        self.__dict__.setdefault("_uses", []).append(use)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._uses.pop().__exit__(kind, error, trace)


# What visits leave, in a folder: a file for every pass and shard, written under a temporary name and renamed.

NAME = re.compile(r"\.?(-?\d{5,})-(\d{6})(-[0-9a-f]{12})?\.safetensors")  # the last part is that of a broken-off write


class Kept:
    """Files `PASS-SHARD.safetensors` in a folder of their own, which is made unless `there` says that it is."""

    def __init__(self, folder: Path, there: bool = False) -> None:
        self.folder = folder
        self.saved: set[int] = set()  # passes that a checkpoint may name
        if not there:
            folder.mkdir(parents=True, exist_ok=True)

    def path(self, number: int, i: int) -> Path:
        return self.folder / f"{number:06d}-{i:06d}.safetensors"

    def write(self, number: int, i: int, left: Arrays, about: dict[str, str] | None = None) -> None:
        content = tensors.serialized(left, about)
        try:
            with replacing(self.path(number, i)) as temporary:
                temporary.write_bytes(content)
        except OSError as error:
            problem = (
                f"{error.strerror}: loadings are kept here between passes; give the engine a larger folder, or TMPDIR"
            )
            raise OSError(error.errno, problem, str(self.folder)) from error

    def read(self, number: int, i: int) -> Arrays:
        path = self.path(number, i)
        try:
            return tensors.parsed(tensors.read_bytes(path))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: loadings of pass {number} cannot be read ({error}); start anew") from None

    def about(self, number: int, i: int) -> dict[str, str]:
        """What was said of a file when it was written; nothing if there is none."""
        try:
            with self.path(number, i).open("rb") as file:
                return tensors.Header.of_file(file).about
        except (OSError, ValueError):
            return {}

    def take(self, other: Kept, number: int, i: int) -> None:
        """A file of another folder: the same one under two names where the file system can, otherwise a copy."""
        source = other.path(number, i)
        try:
            with replacing(self.path(number, i)) as temporary:
                try:
                    os.link(source, temporary)
                except OSError:
                    shutil.copyfile(source, temporary)
        except OSError as error:
            raise ValueError(f"{source}: loadings of pass {number} cannot be read ({error}); start anew") from None

    def keep_only(self, numbers: set[int]) -> None:
        """Of these passes, and of those of the last checkpoint."""
        for path in self.folder.iterdir():
            if (match := NAME.fullmatch(path.name)) and int(match.group(1)) not in numbers | self.saved:
                path.unlink(missing_ok=True)

    def remove_if_empty(self) -> None:
        with suppress(OSError):
            self.folder.rmdir()


def cutter(shards: Shards, arrays: Arrays) -> Callable[[int], Arrays]:
    """From arrays of all samples to those of a shard."""
    return lambda i: {name: np.ascontiguousarray(array[slice(*shards.bounds(i))]) for name, array in arrays.items()}
