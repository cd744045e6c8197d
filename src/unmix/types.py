"""What the arrays are called in signatures, and the few words that a value may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
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


class CSR(NamedTuple):
    """The raw arrays of a sparse matrix, as kernels take them: int64 offsets, int32 indices, float64 values. Where memory counts
    and all are whole numbers below 2^16, values may be uint16 (`Matrix.transposed`)."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: Floats


ROOM_FOR_NAMES = 1 << 24  # bytes that names may take in any case


def as_names(texts: Sequence[str]) -> Names:
    """An array of names. In an array of numpy's own text each takes as much room as the longest: where that would be many times
    what they need, they stay Python's.

    >>> as_names(["ant", "bee"])
    array(['ant', 'bee'], dtype='<U3')
    """
    lengths = [len(text) for text in texts]
    if 4 * max(lengths, default=0) * len(lengths) <= ROOM_FOR_NAMES + 16 * sum(lengths):
        return np.array(texts, dtype=str)
    names: Any = np.empty(len(texts), dtype=object)
    names[:] = texts
    return names
