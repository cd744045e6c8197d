"""Plain matrices: `.npz` (scipy) and `.npy`. Their names may lie in files beside them."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.memory import require
from unmix.counts.canonical import sparse_to_csr
from unmix.io.read.blocks import NONZEROS, SMALLER, Blocks, Entries, cuts, slices, sound_block, sound_offsets
from unmix.io.read.files import unless_damaged
from unmix.io.read.raw_counts import RawCounts, ReadOptions, listed

ONLY_EMPTY_IS_MISSING: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}  # "NA" is a name like any other
NAMES = ("samples", "features")  # members of a .npz written by `write_counts`: JSON as bytes
NOT_SCIPY = "no sparse matrix that can be read ({}); save one with scipy.sparse.save_npz"
METADATA = "metadata"  # another: a CSV table as bytes
IN_STEP = ("data", "indices", "row", "col")  # members that need not be in memory as a whole


def read_npz(path: Path, options: ReadOptions) -> RawCounts:
    members = _npz_members(path)
    if "format" not in members:
        raise ValueError(
            f"holds {listed(members) if members else 'nothing'} but no sparse matrix of scipy; "
            "save one with scipy.sparse.save_npz, or an array with numpy.save as .npy"
        )
    require(2 * sum(size for name, size in members.items() if name not in IN_STEP), "the arrays it declares", SMALLER)
    with unless_damaged(NOT_SCIPY, MemoryError):
        matrix = _npz_blocks(path)
        if matrix is None:
            require(2 * sum(members.values()), "the arrays it declares", SMALLER)
            matrix = _npz_matrix(path)
        with np.load(path, allow_pickle=False) as archive:
            stored = {key: archive[key].tobytes().decode() for key in (*NAMES, METADATA) if key in members}
        if "\0" in stored.get(METADATA, ""):
            raise ValueError("its metadata have a NUL character")
        names = {key: [str(name) for name in json.loads(stored[key])] for key in NAMES if key in stored}
        metadata = pd.read_csv(StringIO(stored[METADATA]), **ONLY_EMPTY_IS_MISSING) if METADATA in stored else None
    return RawCounts(matrix, names.get("samples"), names.get("features"), metadata, bare=not names)


def _npz_matrix(path: Path) -> Any:
    with path.open("rb") as file:
        matrix = sp.load_npz(file)  # scipy loads with allow_pickle=False
    n, m = matrix.shape
    require(24 * matrix.nnz + 16 * (n + m), f"a matrix of {n:,} × {m:,}", SMALLER)
    return sparse_to_csr(matrix)


def _npz_blocks(path: Path) -> Blocks | None:
    """The matrix of a .npz, whose arrays are read in step, compressed or not; None for rare forms, which are read whole."""
    with np.load(path, allow_pickle=False) as archive:
        form, (n, m) = archive["format"].item(), (int(size) for size in archive["shape"])
        form = form if isinstance(form, str) else form.decode()
        if form not in ("csr", "csc", "coo") or (form == "coo" and not {"row", "col"} <= {*archive.files}):
            return None
        indptr = None if form == "coo" else archive["indptr"]
    with zipfile.ZipFile(path) as archive, archive.open("data.npy") as file:
        (nonzeros,), _ = _npy_header(file)
    if indptr is None:
        return Blocks((n, m), nonzeros, entries=lambda: _npz_entries(path, (n, m), nonzeros))
    rows, columns = (n, m) if form == "csr" else (m, n)
    offsets = sound_offsets(indptr, rows, nonzeros, nonzeros)
    matrix = Blocks((rows, columns), nonzeros, lambda start: _npz_rows(path, offsets, columns, start))
    return matrix if form == "csr" else matrix.T


def _npz_rows(path: Path, offsets: NDArray[np.int64], m: int, start: int) -> Iterator[sp.csr_array]:
    with _members(path, "indices", "data") as arrays:
        for array in arrays:
            array.skip(int(offsets[start]))
        for first, last in cuts(offsets, start):
            indices, data = (array.next(int(offsets[last] - offsets[first])) for array in arrays)
            yield sound_block(offsets[first : last + 1], indices, data, m)


def _npz_entries(path: Path, shape: tuple[int, int], nonzeros: int) -> Iterator[Entries]:
    with _members(path, "row", "col", "data") as arrays:
        for first in range(0, nonzeros, NONZEROS):
            row, column, values = (array.next(min(NONZEROS, nonzeros - first)) for array in arrays)
            for numbers, length in ((row, shape[0]), (column, shape[1])):
                if not (numbers.min() >= 0 and numbers.max() < length):
                    raise ValueError(f"its indices are damaged ({numbers.max()} of {length})")
            yield row, column, values


@dataclass
class _Member:
    """An array of one dimension in a .npz, read from its beginning to its end."""

    file: IO[bytes]
    dtype: np.dtype

    def next(self, length: int) -> NDArray:
        content = self.file.read(length * self.dtype.itemsize)
        if len(content) != length * self.dtype.itemsize:
            raise ValueError("it is cut short")
        return np.frombuffer(content, self.dtype)

    def skip(self, length: int) -> None:
        self.file.seek(length * self.dtype.itemsize, 1)


@contextmanager
def _members(path: Path, *names: str) -> Iterator[list[_Member]]:
    with unless_damaged(NOT_SCIPY, MemoryError, ValueError), ExitStack() as stack:
        archive, members = stack.enter_context(zipfile.ZipFile(path)), []
        for name in names:
            file = stack.enter_context(archive.open(f"{name}.npy"))
            shape, dtype = _npy_header(file)
            if len(shape) != 1:
                raise ValueError(f"{name} has {len(shape)} dimensions")
            members.append(_Member(file, dtype))
        yield members


def _npz_members(path: Path) -> dict[str, int]:
    """The arrays in a .npz, once their headers have shown that they hold numbers, and how many bytes they declare."""
    sizes: dict[str, int] = {}
    with unless_damaged(NOT_SCIPY, MemoryError, PermissionError), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                shape, dtype = _npy_header(file)
            name = member.filename.removesuffix(".npy")
            sizes[name] = sizes.get(name, 0) + math.prod(shape) * dtype.itemsize
    return sizes


def read_npy(path: Path, options: ReadOptions) -> RawCounts:
    with unless_damaged("no array that can be read ({}); save one with numpy.save", OSError), path.open("rb") as file:
        shape, dtype = _npy_header(file)
        start = file.tell()
    if len(shape) != 2:
        raise ValueError(
            f"an array of {len(shape)} dimension(s), shape {shape}; unmix needs a table of samples × features"
        )
    promised, present = shape[0] * shape[1] * dtype.itemsize, path.stat().st_size - start
    if promised != present:
        raise ValueError(f"its header promises {promised:,} bytes, {present:,} are there; it may be cut short")

    def read(start: int) -> Iterator[NDArray]:
        return slices(np.load(path, mmap_mode="r", allow_pickle=False), shape[0], start)

    return RawCounts(Blocks((shape[0], shape[1]), None, read, size=2.0 * promised), bare=True)


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of the array in a .npy, without its values."""
    version = np.lib.format.read_magic(file)
    known = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in known:
        raise ValueError(f"version {version[0]}.{version[1]} of the format holds no plain numbers")
    shape, _, dtype = known[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which unmix never unpickles (allow_pickle=False)")
    return shape, dtype
