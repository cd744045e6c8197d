"""Data of any size: what may be asked of it, visits to its parts, and how the sums of visits are added up.

A visit is a pure function of the counts of a part, of what all visits of a pass share, and of what the visit before left for
this part. It leaves arrays for the next one, and returns sums. Sums are added in a tree whose shape follows from the number of
parts alone, so they are the same bit for bit on every engine, in whatever order the visits are made. Counts in memory are one
part (`Memory`); shards have one part per shard, and the engines of `unmix.engines` visit them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar, Token
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeGuard, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from unmix.base.memory import BYTES_PER_NONZERO, available, room
from unmix.base.types import Factor, Floats, Integers, Names, Record
from unmix.counts.canonical import arrays_of, as_scipy
from unmix.kernels import CSR, transpose

if TYPE_CHECKING:
    import pandas as pd

    from unmix.counts.counts import Counts
    from unmix.counts.multipliers import Multipliers
    from unmix.counts.sides import Sides

F = TypeVar("F", bound=np.floating[Any])
Arrays = dict[str, NDArray[Any]]
Before = int | Arrays | None  # a pass, or arrays with one row per sample

BRANCHES = 8  # of the tree of sums
LARGEST = "largest_"  # sums whose name begins so are maxima


LOOKED_AT = 1 << 22  # nonzeros
MANY = 100  # features of a sample, on average, or nonzeros
GATHERED = 4  # times less memory than is available, for some features of all samples


class Facts(UserDict[str, Any]):
    """What a fit remembers of its data. Values that cost a pass over them, as a checksum does, are functions, each called when
    it is first asked for."""

    @classmethod
    def of(cls, data: Data, empty_samples: int, checksum: Callable[[], str]) -> Facts:
        return cls(
            {
                "nonzeros": data.nnz,
                "total": data.total,
                "empty_samples": empty_samples,
                "empty_features": int((data.feature_totals == 0).sum()),
                "fractional": data.fractional,
                "checksum": checksum,
            }
            | ({"pattern": pattern} if (pattern := pattern_of(data.sample)) else {})
        )

    def __getitem__(self, name: str) -> Any:
        if callable(value := self.data[name]):
            value = self.data[name] = value()
        return value

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[Record]]:
        return dict, (dict(self),)


def pattern_of(counts: Part) -> str:
    """What values that no count process leaves are like: "binary" if all are 1, though samples have many features; "even" if
    even ones are more frequent than the odd ones before them, as reads of ATAC are, which come in pairs. Empty for all
    others."""
    values = counts.rows.data[:LOOKED_AT]
    if len(values) >= MANY * max(1, counts.shape[0]) and (values == 1).all():
        return "binary"
    few = np.bincount(values[(values <= 4) & (values % 1 == 0)].astype(np.int64), minlength=5)
    return (
        "even"
        if few[2] + few[4] >= MANY and few[2] > few[1] and few[4] > few[3] and 2 * few.sum() > len(values)
        else ""
    )


class Data(Protocol):
    """What models, solvers and estimators may ask of data. `Counts` are data in memory, `Shards` are data of any size."""

    text: Record | None  # how words were counted, if these are counts of words
    multipliers: Multipliers | None  # of rates, where a fit was given some

    @property
    def in_memory(self) -> bool:
        """Whether `sides`, `sample_totals` and `batches` are at hand; if not, all goes through `parts` and `engine`."""
        ...

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def nnz(self) -> int: ...
    @property
    def total(self) -> float: ...
    @property
    def feature_totals(self) -> Floats: ...
    @property
    def log_factorials(self) -> float: ...
    @property
    def fractional(self) -> float: ...
    @property
    def facts(self) -> Facts: ...
    @property
    def samples(self) -> Names | None: ...
    @property
    def features(self) -> Names | None: ...
    @property
    def metadata(self) -> pd.DataFrame | None: ...
    @property
    def sample(self) -> Counts:
        """The samples that a fit starts from, in memory."""
        ...

    def parts(self) -> Iterator[Counts]:
        """All samples in order, as much at a time as fits into memory."""
        ...

    def engine(self, n_topics: int) -> Engine:
        """What visits the parts, and keeps what visits leave; an error if it could not do a fit of this size."""
        ...

    def take(self, rows: Integers) -> Counts: ...
    def with_multipliers(self, given: Multipliers | None) -> Self:
        """The same counts, of which this is known."""
        ...

    def some(self, most: int) -> tuple[Integers, Counts]:
        """Up to this many samples, evenly spaced among those that a fit starts from: their numbers, and they themselves."""
        ...

    # In memory alone

    @property
    def sample_totals(self) -> Floats: ...
    def sides(self) -> Sides: ...
    def batches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Integers, Counts]]: ...
    def matvec(self, v: Floats) -> Floats: ...
    def rmatvec(self, v: Floats) -> Floats: ...


def evenly(n: int, most: int) -> Integers:
    """Up to this many of n places, evenly spaced."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


def is_data(X: Any) -> TypeGuard[Data]:
    """Whether it is `Counts`, `Shards` or another kind of data, and not something to make `Counts` of."""
    return hasattr(type(X), "in_memory")


class Part:
    """Some samples, such as a tile of a shard, by rows and by columns (the rows of the transpose), as visits and `Sides` take
    them."""

    rows: CSR
    shape: tuple[int, int]

    def __init__(self, rows: CSR, features: int) -> None:
        self.rows, self.shape = rows, (len(rows.indptr) - 1, features)

    def with_data(self, data: NDArray[Any]) -> sp.csr_array:
        """A CSR array with other values in place of the nonzeros."""
        return as_scipy(CSR(self.rows.indptr, self.rows.indices, data), self.shape)

    @cached_property
    def transposed(self) -> CSR:
        return transpose(self.rows, self.shape[1])

    @cached_property
    def column_order(self) -> NDArray[np.int64]:
        """Where each entry of `transposed` is in `rows`."""
        return self.with_data(np.arange(len(self.rows.data), dtype=np.int64)).tocsc().data

    @cached_property
    def sample_totals(self) -> Floats:
        """array, n: the sum of each sample."""
        owners = np.repeat(np.arange(self.shape[0]), np.diff(self.rows.indptr))
        return np.bincount(owners, self.rows.data, minlength=self.shape[0]).astype(np.float64, copy=False)


def feature_ranges(X: Data) -> list[tuple[int, int]]:
    """Ranges of features that `gathered_features` can have in memory, one after the other: all at once where counts are."""
    m = X.shape[1]
    if X.in_memory:
        return [(0, m)]
    ends = np.cumsum(np.append(0, sum(np.bincount(part.rows.indices, minlength=m) for part in X.parts())))
    most, edges = available() // (GATHERED * BYTES_PER_NONZERO), [0]
    while (first := edges[-1]) < m:
        edges.append(max(first + 1, int(np.searchsorted(ends, ends[first] + most, side="right")) - 1))
    return list(pairwise(edges))


def gathered_features(X: Data, ends: tuple[int, int], rows: NDArray[np.bool_] | None = None) -> Part:
    """The features of such a range, of all samples or of those for which `rows` is true."""
    first, last = ends
    if X.in_memory and rows is None and ends == (0, X.shape[1]):
        return next(X.parts())
    found, begin = [], 0
    for part in X.parts():
        csr, end = as_scipy(part.rows, part.shape)[:, first:last], begin + part.shape[0]
        found.append(csr if rows is None else csr[rows[begin:end]])
        begin = end
    return Part(arrays_of(sp.vstack(found, format="csr")), last - first)


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
    def __call__(self, tiles: Iterable[Part], shared: Arrays, before: Arrays) -> Visited:
        """Visit a shard.

        Parameters
        ----------
        tiles : iterable of Part
            The samples of the part, thousands at a time.
        shared : dict of str to array
            What all visits of this pass share.
        before : dict of str to array
            What the visit before left for this shard.

        Returns
        -------
        Visited
            What it leaves, and its sums.
        """


class Engine(ABC):
    """Who makes visits, and keeps what they leave: under a number per pass, until it is let go.

    Examples
    --------
    >>> import unmix as um
    >>> with um.engines.Local(memory="1GB") as engine:
    ...     engine.require(um.Shards.of(um.Counts([[1, 0, 2], [0, 3, 0]])), n_topics=2)
    """

    _uses: list[Token[Engine | None]]

    def __enter__(self) -> Self:
        """Fits of shards within its `with` use this engine."""
        self.__dict__.setdefault("_uses", []).append(_chosen.set(self))
        return self

    def __exit__(self, *error: Any) -> None:
        _chosen.reset(self._uses.pop())

    @abstractmethod
    def require(self, X: Any, n_topics: int) -> None:
        """Raises if a fit of these shards could not end well here.

        Parameters
        ----------
        X : Shards
            The data.
        n_topics : int
            Number of topics.

        Raises
        ------
        ValueError
            That says what is missing.
        """

    @abstractmethod
    def over(self, X: Any, visit: Visit, shared: Arrays, *, before: Before = None, after: int | None = None) -> Arrays:
        """The sums of a visit to every shard.

        Parameters
        ----------
        X : Shards
            The data.
        visit : Visit
            What is done with each.
        shared : dict of str to array
            What all visits share.
        before : int or dict of str to array, default=None
            The pass whose leavings each visit is given, or arrays with one row per sample; None for none.
        after : int, default=None
            The number under which what it leaves is kept; None to let it go.

        Returns
        -------
        dict of str to array
            Added up in a fixed order, so that they are the same bit for bit on every engine.
        """

    @abstractmethod
    def left(self, X: Any, number: int) -> Iterator[Arrays]:
        """What a pass left, shard by shard.

        Parameters
        ----------
        X : Shards
            The data.
        number : int
            Of the pass.

        Yields
        ------
        dict of str to array
            One per shard, in their order.
        """

    @abstractmethod
    def keep_only(self, numbers: set[int]) -> None:
        """Let go of what all other passes left.

        Parameters
        ----------
        numbers : set of int
            The passes to keep.
        """

    @abstractmethod
    def save(self, X: Any, numbers: set[int]) -> Record:
        """Arrays and plain values from which `restore` has these passes again.

        Parameters
        ----------
        X : Shards
            The data.
        numbers : set of int
            The passes.

        Returns
        -------
        dict
            What a file of a fit can keep.
        """

    @abstractmethod
    def restore(self, X: Any, saved: Record) -> None:
        """Have the passes again that `save` was asked for.

        Parameters
        ----------
        X : Shards
            The data.
        saved : dict
            What `save` gave.
        """

    def _numbered(self, X: Data, before: Before) -> int | None:
        """The pass that visits continue from; arrays of all samples become one."""
        if not isinstance(before, dict):
            return before
        self.restore(X, {"-1": before})
        return -1


# The engine for shards changes where and how long a fit runs and never its result, so it is chosen once, around all that follows,
# like the number of threads.

_chosen: ContextVar[Engine | None] = ContextVar("engine", default=None)


def chosen_engine() -> Engine:
    """The engine of the innermost `with`, or a new one of this machine."""
    chosen = _chosen.get()
    made: Engine = import_module("unmix.engines.local").Local() if chosen is None else chosen
    return made


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


class Memory(Engine):
    """An engine for counts in memory, which are one part."""

    def __init__(self) -> None:
        self._kept: dict[int, Arrays] = {}

    def require(self, X: Data, n_topics: int) -> None:
        pass

    def over(self, X: Data, visit: Visit, shared: Arrays, *, before: Before = None, after: int | None = None) -> Arrays:
        given = self._kept[before] if isinstance(before, int) else before or {}
        left, sums = visit(X.parts(), shared, given)
        if after is not None:
            self._kept[after] = left
        return sums

    def left(self, X: Data, number: int) -> Iterator[Arrays]:
        yield self._kept[number]

    def keep_only(self, numbers: set[int]) -> None:
        self._kept = {number: left for number, left in self._kept.items() if number in numbers}

    def save(self, X: Data, numbers: set[int]) -> Record:
        return {str(number): self._kept[number] for number in sorted(numbers)}

    def restore(self, X: Data, saved: Record) -> None:
        self._kept |= {int(number): arrays for number, arrays in saved.items()}


def gathered(engine: Engine, X: Data, before: int | Arrays, columns: int, dtype: DTypeLike = np.float64) -> Factor:
    """The array "L" that a pass left, for all samples: in memory, or beyond some size in a file."""
    if not isinstance(before, int):
        return before["L"]
    rows, first = room((X.shape[0], columns), dtype), 0
    for left in engine.left(X, before):
        rows[first : first + len(left["L"])] = left["L"]
        first += len(left["L"])
    return rows


def joined(rows: list[NDArray[F]]) -> NDArray[F]:
    """One below the other."""
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def with_rows(tiles: Iterable[Part], before: Arrays) -> Iterator[tuple[Part, Arrays]]:
    """Tiles of a part, each with its rows of all arrays."""
    at = 0
    for tile in tiles:
        yield tile, {name: array[at : at + tile.shape[0]] for name, array in before.items()}
        at += tile.shape[0]


def by_tile(tiles: Iterable[Part], before: Arrays) -> Iterator[tuple[Part, Factor]]:
    """Tiles of a part, each with its rows of the array "L"."""
    return ((tile, rows["L"]) for tile, rows in with_rows(tiles, before))
