"""What the arrays are called in signatures, the few words that a value may be, and what files can say of any value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from types import ModuleType
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Factor = NDArray[np.floating[Any]]  # loadings or factors, stored in double or single precision
Integers = NDArray[np.intp]
Pair = tuple[Factor, Factor]  # L and F
Names = NDArray[np.str_]  # or of Python's strings, where one is much longer than the others
Record = dict[str, Any]  # arrays and plain values by name, as a file keeps them
Seed = int | np.random.Generator | np.random.RandomState | None

Status = Literal["converged", "max_iter", "interrupted"]
STATUSES: tuple[Status, ...] = ("converged", "max_iter", "interrupted")


ROOM_FOR_NAMES = 1 << 24  # bytes that names may take in any case


def as_names(texts: Sequence[str]) -> Names:
    """An array of names. In an array of numpy's own text each takes as much space as the longest: where that would be many
    times what they need, they stay Python's.

    >>> as_names(["ant", "bee"])
    array(['ant', 'bee'], dtype='<U3')
    """
    lengths = [len(text) for text in texts]
    if 4 * max(lengths, default=0) * len(lengths) <= ROOM_FOR_NAMES + 16 * sum(lengths):
        return np.array(texts, dtype=str)
    names: Any = np.empty(len(texts), dtype=object)
    names[:] = texts
    return names


WIDEST = 2**128  # beyond all whole numbers in parameters, tables and random generators
DEEPEST = 20  # lists within lists


def as_plain(value: Any, depth: int = 0) -> Any:
    """What JSON can say of a value, such that `schema.anything` takes it: all but numbers, lists and tables becomes text."""
    kind = type(value)
    if kind is str or kind is float or kind is bool or value is None:
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        number = int(value)
        return number if abs(number) < WIDEST else hex(number)
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if depth < DEEPEST and isinstance(value, Mapping):
        return {str(key): as_plain(inner, depth + 1) for key, inner in value.items()}
    if depth < DEEPEST and (isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim)):
        return [as_plain(inner, depth + 1) for inner in value]
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    try:
        return str(value)
    except (ValueError, RecursionError):
        return f"a {kind.__name__}"


def numbered(names: Names | None, what: str, n: int, first: int = 1) -> Names:
    """The names, or "sample 1", "sample 2", … where there are none.

    >>> numbered(None, "sample", 2).tolist()
    ['sample 1', 'sample 2']
    """
    return np.array([f"{what} {i}" for i in range(first, first + n)], dtype=str) if names is None else names


def unique_names(names: Sequence[str]) -> list[str]:
    """The same names, with a number after those that come again.

    >>> unique_names(["a", "b", "a", "a-1"])
    ['a', 'b', 'a-2', 'a-1']
    """
    taken, found = set(names), dict[str, None]()
    for name in names:
        chosen, again = name, 0
        while chosen in found or (again and chosen in taken):
            again += 1
            chosen = f"{name}-{again}"
        found[chosen] = None
    return list(found)


def with_unique_columns(table: pd.DataFrame | None) -> pd.DataFrame | None:
    """The same table; a name that columns share would not say which of them is meant."""
    if table is None or table.columns.is_unique:
        return table
    return table.set_axis(unique_names([str(name) for name in table.columns]), axis=1)


def public_names(scope: Mapping[str, Any]) -> list[str]:
    """The names of a package that are not modules, for its `__all__`."""
    return sorted(
        name
        for name, value in scope.items()
        if name[0] != "_" and not isinstance(value, ModuleType) and value is not public_names
    )


def check_names(texts: Sequence[str], what: str) -> None:
    """Raises if a name has a NUL character, which NumPy's text loses."""
    if nul := next((text for text in texts if "\0" in text), None):
        raise ValueError(
            f"the name {nul[:40]!r} among the {what} has a NUL character, which no file can hold; remove it"
        )


Named = tuple[Names | None, int]  # names, if there are any, and their number


def in_place(what: str, known: Named, given: Named, *, where: str = "X", model: str = "the model") -> bool:
    """Whether both have the same names in the same order; without names on one side, places count, and numbers must agree."""
    (names, n), (others, size) = known, given
    unnamed = names is None or others is None
    if unnamed and n != size:
        raise ValueError(f"{where} has {size:,} {what}s and {model} has {n:,}; use the same {what}s")
    return unnamed or names is others or np.array_equal(names, others)  # type: ignore[arg-type]


def order_by_name(
    what: str, known: Named, given: Named, *, where: str = "X", model: str = "the model", reorder: bool = False
) -> Integers | None:
    """Whether counts are of the samples, or the features, of a fit. Every function that takes a fit and counts asks this.

    Parameters
    ----------
    what
        "sample" or "feature".
    known, given
        Names and number of those of the fit, and of those of the counts. Without names on both sides, places count.
    where, model
        What the counts and the fit are called in errors.
    reorder
        Whether the same names may stand in a different order.

    Returns
    -------
    array or None
        Where those of the fit stand in the counts; None if that is their own place.

    Raises
    ------
    ValueError
        If they are others, or in a different order that is not allowed, or in which names that several share are not clear.
    """
    (names, n), (others, size) = known, given
    in_place(what, (None, n), (None, size), where=where, model=model)  # there are as many
    if in_place(what, known, given):
        return None
    assert names is not None
    assert others is not None
    place = int(np.flatnonzero(names != others)[0])
    found = f"{where}: {what} {place + 1} is {str(others[place])!r}, {model} has {str(names[place])!r} there"
    position = {name: i for i, name in enumerate(others.tolist())}
    if position.keys() != set(names.tolist()):
        raise ValueError(f"{found}: the names differ; use the same {what}s")
    if len(position) < size:
        raise ValueError(f"{found}: the names are in a different order, and some occur twice; reorder them")
    if not reorder:
        raise ValueError(f"{found}: the names are in a different order; reorder them")
    return np.array([position[name] for name in names.tolist()], dtype=np.intp)


def nullable_integers(values: list[int | None]) -> Any:
    """An array of whole numbers, some of them missing, of which pandas would make fractions."""
    known = [value for value in values if value is not None]
    least, most = min(known, default=0), max(known, default=0)
    if least >= -(2**63) and most < 2**63:
        return pd.array(values, dtype="Int64")
    return pd.array(values, dtype="UInt64" if least >= 0 and most < 2**64 else object)
