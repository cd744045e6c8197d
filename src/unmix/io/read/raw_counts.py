"""What passes from the readers of single formats to `read`: the counts of a file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from unmix.base.memory import require
from unmix.base.types import Floats, Names
from unmix.counts.canonical import NotACountError
from unmix.counts.counts import Counts
from unmix.io.options import listed
from unmix.io.read.blocks import SMALLER, Blocks
from unmix.io.read.files import texts_in

BYTES_A_TEXT = 100  # in memory, a short one
TEXTS = 1 << 28  # bytes of texts that are looked at together, at most


@dataclass
class RawCounts:
    """What a file holds, samples × features; `read` gives it unique names, checks it and makes it Counts.

    `notes` are what the user should know; `read` says them once all went well. `bare` is a matrix whose names may lie
    in files next to it.
    """

    matrix: Any  # `Blocks`; or what is in memory, an array or a sparse matrix
    samples: list[str] | None = None
    features: list[str] | Names | None = None  # an array: those of a model, which can be written and are all different
    metadata: pd.DataFrame | None = None
    text: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    bare: bool = False
    reading: str = ""  # how the file was read, in one line
    unknown: Floats | None = None  # words of each text that the model `like` does not know

    def __post_init__(self) -> None:
        if self.metadata is not None and not len(self.metadata.columns):
            self.metadata = None

    def transposed(self) -> RawCounts:
        """Rows become columns. A table that described the rows has no place then, and is omitted."""
        notes = list(self.notes)
        if self.metadata is not None:
            notes.append(f"omitted, as features keep only a name: {listed(self.metadata.columns)}")
        reading = f"{self.reading}; transposed" if self.reading else ""
        samples = None if self.features is None else list(self.features)
        return RawCounts(self.matrix.T, samples, self.samples, None, self.text, notes, self.bare, reading)


def require_numbers(arrays: Iterable[Any]) -> None:
    """Refuse arrays of HDF5 or zarr that are stable something else."""
    for array in arrays:
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{array.name} holds values of type {array.dtype}; unmix needs numbers there")


def require_plain(arrays: Sequence[Any], what: str) -> None:
    """Refuse arrays of HDF5 or zarr, which are to be read whole, unless they hold numbers or texts that fit into memory. An
    array declares its shape, and need not hold a value for that."""
    needed = 0
    for array in arrays:
        if not _is_plain(array.dtype):
            raise ValueError(f"{array.name} holds values of type {array.dtype}; unmix needs numbers or text there")
        size = BYTES_A_TEXT if array.dtype.kind in "OT" else array.dtype.itemsize
        needed += size * max(math.prod(array.shape), math.prod(array.chunks or ()))
    require(2 * needed, what, SMALLER)
    for array in arrays:
        if array.dtype.kind == "O" and array.ndim == 1 and hasattr(array, "asstr"):
            _refuse_shared_texts(array)


def _is_plain(dtype: Any) -> bool:
    if dtype.names:
        return all(_is_plain(dtype[name]) for name in dtype.names)
    if dtype.kind == "O":  # of HDF5 texts, references or lists, as h5py says; of zarr texts, by their codecs
        return (dtype.metadata or {"vlen": str}).get("vlen") in (str, bytes)
    return dtype.subdtype is None and dtype.kind in "biufSUTmM"


def _refuse_shared_texts(texts: Any) -> None:
    """Texts of HDF5 are in the file one by one. But many rows may refer to one long text, which would be read for each."""
    size, total = os.path.getsize(texts.file.filename), 0
    for lengths in texts_in(texts):
        total += int(lengths.sum(dtype=np.int64))
        if total > size:
            raise ValueError(f"{texts.name} has more text than the file has bytes; write the file again")
    total = 0
    step = min(max(64, TEXTS // size), 1 << 16)  # texts at a time, as none is longer than the file
    for first in range(0, len(texts), step):
        total += sum(len(text) for text in texts[first : first + step].tolist() if isinstance(text, bytes))
        if total > size:
            raise ValueError(f"{texts.name} has more text than the file has bytes; write the file again")


def checked(raw: RawCounts) -> Counts:
    """Counts, or an error about a value that names its sample and feature."""
    with errors_by_name(raw):
        matrix = raw.matrix.whole() if isinstance(raw.matrix, Blocks) else raw.matrix
        if isinstance(raw.features, list | None):
            return Counts(matrix, raw.samples, raw.features, raw.metadata, raw.text)
        counts = Counts(matrix, raw.samples, None, raw.metadata, raw.text)
        counts.features, counts.unknown = raw.features, raw.unknown
        return counts


@contextmanager
def errors_by_name(raw: RawCounts) -> Iterator[None]:
    """Where a value is not a count, name its sample and feature if their names are known."""
    try:
        yield
    except NotACountError as error:
        if raw.samples is None or raw.features is None:
            raise
        sample, feature = raw.samples[error.row], raw.features[error.column]
        raise ValueError(
            f"row {error.row + 1} ({sample!r}), column {error.column + 1} ({feature!r}) is {error.value:g}; "
            "unmix needs finite counts >= 0"
        ) from None
