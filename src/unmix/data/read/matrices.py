"""Plain matrices: `.npz` (scipy) and `.npy`. Their names may lie in files beside them."""

from __future__ import annotations

import json
import zipfile
from io import StringIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from unmix.data.read.files import unless_damaged
from unmix.data.read.raw_counts import SMALLER, RawCounts, ReadOptions, listed, require_room, with_sound_indices
from unmix.memory import require

ONLY_EMPTY_IS_MISSING: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}  # "NA" is a name like any other
NAMES = ("samples", "features")  # members of a .npz written by `write_counts`: JSON as bytes
NOT_SCIPY = "no sparse matrix that can be read ({}); save one with scipy.sparse.save_npz"
METADATA = "metadata"  # another: a CSV table as bytes


def read_npz(path: Path, options: ReadOptions) -> RawCounts:
    members = _npz_members(path)
    if "format" not in members:
        raise ValueError(
            f"holds {listed(members) if members else 'nothing'} but no sparse matrix of scipy; "
            "save one with scipy.sparse.save_npz, or an array with numpy.save as .npy"
        )
    with unless_damaged(NOT_SCIPY, MemoryError):
        with path.open("rb") as file:
            matrix = sp.load_npz(file)  # scipy loads with allow_pickle=False
        n, m = matrix.shape
        require_room(n, m, matrix.nnz)
        with_sound_indices(matrix)
        with np.load(path, allow_pickle=False) as archive:
            stored = {key: archive[key].tobytes().decode() for key in (*NAMES, METADATA) if key in members}
        names = {key: [str(name) for name in json.loads(stored[key])] for key in NAMES if key in stored}
        metadata = pd.read_csv(StringIO(stored[METADATA]), **ONLY_EMPTY_IS_MISSING) if METADATA in stored else None
    return RawCounts(matrix, names.get("samples"), names.get("features"), metadata, bare=not names)


def _npz_members(path: Path) -> list[str]:
    """The names of the arrays in a .npz, once their headers have shown that they hold numbers that fit into memory."""
    size, names = 0, []
    with unless_damaged(NOT_SCIPY, MemoryError, PermissionError), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                shape, dtype = _npy_header(file)
            size += int(np.prod([float(length) for length in shape])) * dtype.itemsize
            names.append(member.filename.removesuffix(".npy"))
    require(2 * size, "the arrays it declares", SMALLER)
    return names


def read_npy(path: Path, options: ReadOptions) -> RawCounts:
    with unless_damaged("no array that can be read ({}); save one with numpy.save", OSError), path.open("rb") as file:
        shape, dtype = _npy_header(file)
        start = file.tell()
    if len(shape) != 2:
        raise ValueError(
            f"an array of {len(shape)} dimension(s), shape {shape}; unmix needs a table of samples × features"
        )
    promised, present = shape[0] * shape[1] * dtype.itemsize, path.stat().st_size - start
    require(2 * promised, f"a matrix of {shape[0]:,} × {shape[1]:,}", SMALLER)
    if promised != present:
        raise ValueError(f"its header promises {promised:,} bytes, {present:,} are there; it may be cut short")
    return RawCounts(np.load(path, allow_pickle=False), bare=True)


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
