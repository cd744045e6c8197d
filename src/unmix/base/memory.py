"""How much memory there is, asked before something large is made; and arrays that need none, for they lie in a file."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import psutil

from unmix.base.checks import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

BYTES_PER_NONZERO = 48  # at most at a time, from reading counts to the end of a fit in memory
IN_MEMORY = 16 << 30  # bytes: a fit that needs more goes over shards, unless the user says otherwise
LEAST = 1 << 20  # bytes that may be asked for: less is a missing unit
LARGE = 1 << 30  # bytes, beyond which an array is in a file
ROWS = 1 << 16  # of such an array that are in memory at a time
BLOCK = 1 << 20  # bytes
UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # by the file system


_limit: ContextVar[tuple[float, int] | None] = ContextVar("memory", default=None)  # bytes, and those in use before


@contextmanager
def limited(most: float | str | None) -> Iterator[None]:
    """In this block, no more than this many bytes ("1GB") are available, beyond those in use when it begins. None is no
    limit."""
    most = parsed(most) if isinstance(most, str) else most
    token = _limit.set(None if most is None else (most, _in_use()))
    try:
        yield
    finally:
        _limit.reset(token)


def besides(size: float) -> None:
    """This many bytes, which a caller has to keep, do not count among those that `limited` allows."""
    if (limit := _limit.get()) is not None:
        _limit.set((limit[0] + size, limit[1]))


def available() -> int:
    """Bytes that could be used without swapping, and that are left of what `limited` allows."""
    free = psutil.virtual_memory().available
    if (limit := _limit.get()) is not None:
        free = min(free, max(0, int(limit[0]) - max(0, _in_use() - limit[1])))
    return int(free)


def _in_use() -> int:
    return int(psutil.Process().memory_info().rss)


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
    size = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0
    if size < LEAST:
        raise ParameterError("memory", text, "use an amount such as 4GB or 500MB, at least 1MB")
    return size


def gigabytes(size: float) -> str:
    return f"{size / 2**30:,.1f} GB" if size >= 0.05 * 2**30 else f"{size / 2**20:,.1f} MB"


def room(shape: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
    """An empty array; a large one is in a temporary file, which goes when the array does."""
    import numpy as np

    size = np.dtype(dtype).itemsize * shape[0] * shape[1]
    if size <= LARGE:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="unmix-") as file:
        try:
            reserve(file, size)
        except OSError as error:
            needed = f"{error.strerror}: a temporary file of {gigabytes(size)} is needed; set TMPDIR to a larger folder"
            raise OSError(error.errno, needed, tempfile.gettempdir()) from error
        return np.memmap(file, dtype, "r+", shape=shape)


def reserve(file: IO[bytes], size: int) -> None:
    """Blocks of the disk for all of a file that is going to be mapped. A write to a map that finds the disk full kills the
    process; here it is an OSError."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
    for first in range(0, size, BLOCK):
        file.write(bytes(min(BLOCK, size - first)))
    file.flush()


@contextmanager
def npy_rows(path: Path, shape: tuple[int, int], name: str) -> Iterator[Callable[[NDArray[Any]], None]]:
    """A function that appends rows to a new .npy file, which will have this shape in the end. The file is written in order and
    not mapped, so that a full disk is an OSError, about the file of this name."""
    import numpy as np

    with errors_about(name):
        file = path.open("wb")

    def append(rows: NDArray[Any]) -> None:
        with errors_about(name):
            file.write(np.ascontiguousarray(rows, dtype="<f8").data)
            file.flush()

    try:
        with errors_about(name):
            np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        yield append
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    with errors_about(name):
        file.close()


@contextmanager
def errors_about(name: str) -> Iterator[None]:
    """Errors of the system name this file, rather than a temporary one or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not of the system
            raise
        raise OSError(error.errno, error.strerror, name) from error


def closed(array: NDArray[Any]) -> NDArray[Any]:
    """If it is in a file: the same array, which can no longer be written to."""
    import numpy as np

    if isinstance(array, np.memmap):
        array.flags.writeable = False
    return array


def reordered(array: NDArray[Any], order: NDArray[np.intp]) -> NDArray[Any]:
    """Columns in a different order: another array, or for one that is in a file the same."""
    import numpy as np

    if not isinstance(array, np.memmap):
        return np.ascontiguousarray(array[..., order])
    array.flags.writeable = True
    for first in range(0, len(array), ROWS):
        array[first : first + ROWS] = array[first : first + ROWS, order]
    return closed(array)
