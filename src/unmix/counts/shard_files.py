"""The files of shards: some thousand samples each, as safetensors, in about three bytes a nonzero.

    indptr          u32, where each row begins
    indices         u16 where there are at most 2^16 features, otherwise u32
    values          u8, 0 for "see the exceptions", as canonical counts are never 0
    exception_at    u32, and `exception` f64: counts above 255, and those that are not whole numbers
    names           of the samples, if they have any: JSON as bytes

Where more than a sixteenth would be exceptions, `values` are f32, or f64 if that is not exact, and there are none. So the
encoding follows from the counts alone, and so do the checksums. A file is numbers and text, read whole rather than mapped, and
checked before it is trusted.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.base.types import as_plain, nullable_integers, unique_names
from unmix.kernels import CSR
from unmix.storage.schema import checked
from unmix.storage.tensors import Arrays, as_bytes, from_json

MANIFEST, FEATURES, SAMPLE = "shards.json", "features.safetensors", "sample.safetensors"
METADATA = "metadata.safetensors"
FILE_NAME = re.compile(r"\d{6}\.safetensors")
COUNTED = (
    "indptr",
    "indices",
    "values",
    "exception_at",
    "exception",
)  # all but the names, in the order of the checksum


def file_name(shard: int) -> str:
    return f"{shard:06d}.safetensors"


def index_type(features: int) -> np.dtype:
    return np.dtype("<u2" if features <= 1 << 16 else "<u4")


def names_of(content: Any) -> list[str]:
    """From JSON as bytes."""
    return checked(from_json(content), list[str], "the list of its names")


@dataclass(frozen=True, eq=False)
class Encoded:
    """The rows of a file as they lie there; some of them at a time become what kernels take."""

    arrays: Arrays

    @classmethod
    def checked(cls, arrays: Arrays, rows: int, nonzeros: int, features: int, *, thoroughly: bool) -> Encoded:
        """Once no row begins before another and no index lies outside: a kernel would read beyond its arrays. `thoroughly`
        also looks for what would only be wrong: zeros, and features that are out of order or twice in a row."""
        given = {name: (array.dtype, len(array)) for name, array in arrays.items() if name not in ("names", "rows")}
        known = {"indptr": ("<u4", rows + 1), "indices": (index_type(features).str, nonzeros)}
        few = len(arrays.get("exception", ()))
        bytewise = {"values": ("u1", nonzeros), "exception_at": ("<u4", few), "exception": ("<f8", few)}
        if not any(_same(given, known | kind) for kind in (bytewise, *({"values": (f, nonzeros)} for f in FLOATS))):
            raise ValueError("its arrays do not go together")
        indptr, indices, values = arrays["indptr"], arrays["indices"], arrays["values"]
        if indptr[0] != 0 or indptr[-1] != nonzeros or (indptr[1:] < indptr[:-1]).any():
            raise ValueError("its rows are out of order")
        if nonzeros and int(indices.max()) >= features:
            raise ValueError(f"it has a feature {int(indices.max()):,} of {features:,}")
        at, exception = arrays.get("exception_at", _NONE), arrays.get("exception", _NONE)
        if len(at) and (int(at.max()) >= nonzeros or (at[1:] <= at[:-1]).any() or values[at].any()):
            raise ValueError("its exceptions are out of place")
        counts = values if values.dtype.kind == "f" else exception
        if len(counts) and not (counts.min() > 0 and counts.max() < np.inf):
            raise ValueError("it holds what is no count")
        if thoroughly:
            if values.dtype.kind == "u" and np.count_nonzero(values) + len(at) != nonzeros:
                raise ValueError("it holds zeros")
            falls = np.flatnonzero(indices[1:] <= indices[:-1]) + 1
            if not np.isin(falls, indptr).all():
                raise ValueError("its features are out of order")
        return cls(arrays)

    def rows(self, first: int, last: int) -> CSR:
        """Rows from `first` up to `last`; counts as two bytes each if all are whole and below 2^16, as in memory."""
        offsets = self.arrays["indptr"][first : last + 1].astype(np.int64)
        a, b = int(offsets[0]), int(offsets[-1])
        values, indices = self.arrays["values"][a:b], self.arrays["indices"][a:b].astype(np.int32)
        offsets -= a
        if values.dtype.kind == "f":
            return CSR(offsets, indices, narrowed(values.astype(np.float64)))
        at = self.arrays["exception_at"]
        some = slice(*np.searchsorted(at, (a, b)))
        exceptions = narrowed(self.arrays["exception"][some].astype(np.float64))
        data = values.astype(exceptions.dtype)
        data[at[some].astype(np.int64) - a] = exceptions
        return CSR(offsets, indices, data)


FLOATS = ("<f4", "<f8")
_NONE = np.zeros(0)


def _same(given: Mapping[str, tuple[np.dtype, int]], known: Mapping[str, tuple[str, int]]) -> bool:
    return given == {name: (np.dtype(code), length) for name, (code, length) in known.items()}


def narrowed(data: NDArray[Any]) -> NDArray[Any]:
    """Counts as uint16 if that is exact, otherwise as they are."""
    if data.size and not data.max() < 1 << 16:
        return data
    narrow = data.astype(np.uint16)
    return narrow if np.array_equal(narrow, data) else data


def read_soon(path: Path) -> None:
    """Let the system fetch a file while there is other work, where it can."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError), path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)


# A table with a row a sample in a file of shards, column by column: numbers as they are, all else as codes of its values.
#
# 0000            f8, i8 or u1 (truth values); or i4, the places of a column's values in its list, -1 for none
# 0000.values     that list, JSON as bytes
# columns         what columns are called and what they are: JSON as bytes

NUMBERS = {"float": "<f8", "int": "<i8", "bool": "u1"}
CODES = {"values": "<i4", "category": "<i4"}


def encoded(table: pd.DataFrame) -> Arrays:
    columns, arrays = list[tuple[str, str]](), Arrays()
    names = unique_names([str(name) for name in table.columns])
    for place, name in enumerate(names):
        kind, array, values = _encoded(table.iloc[:, place])
        columns.append((name, kind))
        arrays[f"{place:04d}"] = array
        if values is not None:
            arrays[f"{place:04d}.values"] = as_bytes(values)
    return arrays | {"columns": as_bytes(columns)}


def _encoded(column: pd.Series) -> tuple[str, Any, list[Any] | None]:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fib":
        kind = {"f": "float", "i": "int", "b": "bool"}[dtype.kind]
        return kind, column.to_numpy().astype(NUMBERS[kind]), None
    if isinstance(dtype, pd.CategoricalDtype):
        values = [as_plain(value) for value in dtype.categories]
        if None not in values and pd.Index(values).is_unique:  # as what they are in a file, too
            return "category", column.cat.codes.to_numpy().astype("<i4"), values
    return "values", *_codes(column)


def _codes(column: pd.Series) -> tuple[Any, list[Any]]:
    """Places of values in a list of those that differ. pandas would take some texts for equal that are not."""
    places, codes, values = dict[Any, int](), list[int](), list[Any]()
    for value, missing in zip(column.astype(object).tolist(), column.isna().tolist(), strict=True):
        if missing:
            codes.append(-1)
            continue
        value = as_plain(value)
        key = value if isinstance(value, str) else (json.dumps(value),)
        if key not in places:
            places[key] = len(values)
            values.append(value)
        codes.append(places[key])
    return np.array(codes, dtype="<i4"), values


def decoded(arrays: Arrays, rows: int) -> pd.DataFrame:
    """Raises ValueError if the arrays are not those of a table of so many rows."""
    try:
        columns = checked(from_json(arrays["columns"]), list[tuple[str, str]], "the list of its columns")
        found = [_decoded(arrays, f"{place:04d}", kind, rows) for place, (_, kind) in enumerate(columns)]
        names = [name for name, _ in columns]
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"it holds no table ({type(error).__name__})") from None
    if len(set(names)) < len(names):
        raise ValueError("its table has a column twice")
    table = pd.concat(found, axis=1) if found else pd.DataFrame(index=range(rows))
    return table.set_axis(names, axis=1)


def _decoded(arrays: Arrays, place: str, kind: str, rows: int) -> pd.Series:
    array = arrays[place]
    if len(array) != rows or array.dtype != np.dtype((NUMBERS | CODES)[kind]):
        raise ValueError(f"its column {place} is none of {rows:,} rows")
    if kind in NUMBERS:
        return pd.Series(array.astype(bool if kind == "bool" else NUMBERS[kind]))
    values = checked(from_json(arrays[f"{place}.values"]), list[Any], f"the list of values of its column {place}")
    if rows and not -1 <= array.min() <= array.max() < len(values):
        raise ValueError(f"its column {place} has values that are not in its list")
    if kind == "category":
        return pd.Series(pd.Categorical.from_codes(array, pd.Index(values)))
    if values and (array < 0).any() and all(type(value) is int for value in values):
        return pd.Series(nullable_integers([*values, None])[array])
    known = np.empty(len(values) + 1, dtype=object)  # the last one is None
    for number, value in enumerate(values):
        known[number] = value
    return pd.Series(known[array]).infer_objects()
