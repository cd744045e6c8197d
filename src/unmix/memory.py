"""How much memory there is, asked before something large is made; and arrays that need none, for they lie in a file."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LARGE = 1 << 30  # bytes, beyond which an array lies in a file
ROWS = 1 << 16  # of such an array that are in memory at a time


def available() -> int:
    """Bytes that could be used without swapping; where the system does not tell, all that is installed."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def require(needed: float, what: str, remedy: str) -> None:
    """Refuse what would not fit, and say how much it would need."""
    if needed > (free := available()):
        raise ValueError(f"{what} would need {gigabytes(needed)} of memory, {gigabytes(free)} are free; {remedy}")


def parsed(text: str) -> float:
    """ "4GB", "500 MB" or a number of bytes.

    >>> parsed("4GB"), parsed("1.5 MB")
    (4294967296.0, 1572864.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text!r} is no amount of memory; give one such as 4GB or 500MB")
    return float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")


def gigabytes(size: float) -> str:
    return f"{size / 2**30:,.1f} GB" if size >= 0.05 * 2**30 else f"{size / 2**20:,.1f} MB"


def room(shape: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
    """An empty array; a large one lies in a temporary file, which goes when the array does."""
    if np.dtype(dtype).itemsize * shape[0] * shape[1] <= LARGE:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="unmix-") as file:
        return np.memmap(file, dtype, "w+", shape=shape)


def closed(array: NDArray[Any]) -> NDArray[Any]:
    """If it lies in a file: the same array, which can no longer be written to."""
    if isinstance(array, np.memmap):
        array.flags.writeable = False
    return array


def reordered(array: NDArray[Any], order: NDArray[np.intp]) -> NDArray[Any]:
    """Columns in another order: another array, or for one that lies in a file the same."""
    if not isinstance(array, np.memmap):
        return np.ascontiguousarray(array[..., order])
    array.flags.writeable = True
    for first in range(0, len(array), ROWS):
        array[first : first + ROWS] = array[first : first + ROWS, order]
    return closed(array)
