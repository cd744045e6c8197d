"""Plain matrices: `.npz` (scipy), `.npy` and MatrixMarket. Their names may lie in files beside them."""

from __future__ import annotations

import json
import zipfile
from io import StringIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp

from unmix.data.read.files import first_line, opened
from unmix.data.read.found import SMALLER, Asked, Found, listed, require_room, with_sound_indices
from unmix.memory import require

ONLY_EMPTY_IS_MISSING: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}  # "NA" is a name like any other
NAMES = ("samples", "features")  # members of a .npz written by `write_counts`: JSON as bytes
METADATA = "metadata"  # another: a CSV table as bytes


def read_npz(path: Path, asked: Asked) -> Found:
    members = _npz_members(path)
    if "format" not in members:
        raise ValueError(
            f"holds {listed(members) if members else 'nothing'} but no sparse matrix of scipy; "
            "save one with scipy.sparse.save_npz, or an array with numpy.save as .npy"
        )
    try:
        with path.open("rb") as file:
            matrix = sp.load_npz(file)  # scipy loads with allow_pickle=False
        n, m = matrix.shape
        require_room(n, m, matrix.nnz)
        with_sound_indices(matrix)
        with np.load(path, allow_pickle=False) as archive:
            stored = {key: archive[key].tobytes().decode() for key in (*NAMES, METADATA) if key in members}
        names = {key: [str(name) for name in json.loads(stored[key])] for key in NAMES if key in stored}
        metadata = pd.read_csv(StringIO(stored[METADATA]), **ONLY_EMPTY_IS_MISSING) if METADATA in stored else None
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive can fail in any way
        raise _not_scipy(error) from error
    return Found(matrix, names.get("samples"), names.get("features"), metadata, bare=not names)


def _npz_members(path: Path) -> list[str]:
    """The names of the arrays in a .npz, once their headers have shown that they hold numbers that fit into memory."""
    size, names = 0, []
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                with archive.open(member) as file:
                    shape, dtype = _npy_header(file)
                size += int(np.prod([float(length) for length in shape])) * dtype.itemsize
                names.append(member.filename.removesuffix(".npy"))
    except (MemoryError, PermissionError):
        raise
    except Exception as error:
        raise _not_scipy(error) from error
    require(2 * size, "the arrays it declares", SMALLER)
    return names


def _not_scipy(error: Exception) -> ValueError:
    return ValueError(f"no sparse matrix that can be read ({first_line(error)}); save one with scipy.sparse.save_npz")


def read_npy(path: Path, asked: Asked) -> Found:
    try:
        with path.open("rb") as file:
            shape, dtype = _npy_header(file)
            start = file.tell()
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"no array that can be read ({first_line(error)}); save one with numpy.save") from error
    if len(shape) != 2:
        raise ValueError(
            f"an array of {len(shape)} dimension(s), shape {shape}; unmix needs a table of samples × features"
        )
    promised, present = shape[0] * shape[1] * dtype.itemsize, path.stat().st_size - start
    require(2 * promised, f"a matrix of {shape[0]:,} × {shape[1]:,}", SMALLER)
    if promised != present:
        raise ValueError(f"its header promises {promised:,} bytes, {present:,} are there; it may be cut short")
    return Found(np.load(path, allow_pickle=False), bare=True)


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


def load_mtx(path: Path) -> Any:
    """The matrix in a MatrixMarket file, after its size line has been found to fit into memory."""
    with opened(path) as file:
        banner, header = file.readline(1000), b""
        words = banner.lower().split()
        if len(words) != 5 or words[0] != b"%%matrixmarket":
            raise ValueError("not a MatrixMarket file; its first line must begin with %%MatrixMarket matrix")
        while (line := file.readline()) and (line.startswith(b"%") or not line.strip()):
            header += line
        try:
            rows, columns, *nonzeros = map(int, line.split())
        except ValueError as error:
            raise ValueError(
                "not a readable MatrixMarket file: no line with numbers of rows, columns and entries"
            ) from error
        if min(rows, columns, *nonzeros) >= 0:  # the other case is mmread's to explain
            require_room(rows, columns, nonzeros[0] if nonzeros else rows * columns)
        # as "integer", scipy would cut 1.5 down to 1 without a word
        banner = banner.lower().replace(b"integer", b"real").replace(b"%%matrixmarket", b"%%MatrixMarket")
        try:
            return scipy.io.mmread(_Joined(banner + header + line, file))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"not a readable MatrixMarket file ({first_line(error)}); it may be cut short") from error


class _Joined:
    """A file whose first bytes have been read already."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self.head, self.rest = head, rest

    def read(self, size: int = -1) -> bytes:
        head, self.head = self.head, b""
        return head or self.rest.read(size)
