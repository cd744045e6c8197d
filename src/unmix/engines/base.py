"""What goes over shards: a visit, and how the sums of visits are added up.

A visit is a pure function of a shard's counts, of what is shared by all visits of a pass, and of what the visit before left for
this shard. It leaves arrays for the next one, and returns sums. Sums are added in a tree whose shape follows from the number of
shards alone, so they are the same to the last bit whoever made the visits, and in whatever order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from unmix.shards import Shards, Tile
from unmix.types import Record

Arrays = dict[str, NDArray[Any]]

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
