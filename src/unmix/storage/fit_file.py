"""The file of a fit: safetensors (L, F, and names as UTF-8 JSON) with JSON metadata (status, trace, parameters, versions).

A file holds numbers and text only; nothing in it is ever executed.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Set
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors
from numpy.typing import NDArray

from unmix.base.memory import LARGE
from unmix.base.types import Record, as_names, as_plain, nullable_integers, unique_names
from unmix.storage import schema
from unmix.storage.files import replacing

FORMAT = 3
DTYPES = {f"<{kind}{size}": f"{kind.upper()}{8 * size}" for kind in "fiu" for size in (2, 4, 8)}
DTYPES |= {"|i1": "I8", "|u1": "U8", "|b1": "BOOL"}
NUMBERS = ("loglik", "remaining_gain")
BLOCK = 1 << 24  # numbers that are written at a time
HEADER, LARGEST_HEADER = (
    "unmix.header",
    1 << 25,
)  # safetensors reads headers of up to 10^8 bytes; a longer one is an array

Arrays = dict[str, NDArray[Any]]


def write(path: str | os.PathLike[str], record: Record) -> None:
    """Write the fields of a `Fit` to one file, atomically; those that are None are left out. What `read` would refuse is refused
    here, so that every file that is written can be read."""
    tensors, meta = _encoded(record)
    try:
        _record(as_plain(meta), tensors)
    except ValueError as error:
        raise ValueError(f"{path}: not written, as a file of this fit could not be read again ({error})") from None
    write_tensors(path, tensors, meta)


def _encoded(record: Record) -> tuple[Arrays, Record]:
    """The arrays of a file, and its header."""
    tensors: Arrays = {"L": record["L"], "F": record["F"]}
    for key in ("samples", "features", "names"):
        if (names := record[key]) is not None:
            tensors[key] = as_bytes(names.tolist())
    if record["metadata"] is not None:
        tensors["metadata"] = as_bytes(table_to_json(record["metadata"]))
    tensors |= {f"posterior.{key}": value for key, value in record["posterior"].items()}
    plain = ("status", "loglik", "params", "priors", "versions", "data", "text")
    meta = {"format": FORMAT, "trace": table_to_json(record["trace"])} | {name: record[name] for name in plain}
    if not np.isnan(record["remaining_gain"]):
        meta["remaining_gain"] = record["remaining_gain"]
    if record["state"] is not None:
        meta["state"] = _without_arrays(record["state"], tensors, "state")
    return {key: np.asarray(array, array.dtype.newbyteorder("<")) for key, array in tensors.items()}, as_plain(meta)


def write_tensors(path: str | os.PathLike[str], tensors: Arrays, meta: Record) -> None:
    """Arrays and what JSON can say about them as one safetensors file, atomically and without a copy in memory: eight bytes with
    the length of the header, the header, arrays one after the other, those of the largest items first."""
    arrays = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
    about = json.dumps(as_plain(meta))
    if len(about) > LARGEST_HEADER:
        arrays[HEADER], about = np.frombuffer(about.encode(), dtype=np.uint8), "null"
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))
    header: Record = {"__metadata__": {"unmix": about}}
    end = 0
    for key, array in arrays.items():
        if array.dtype.str not in DTYPES:
            raise ValueError(f"{path}: not written, as {key} has the type {array.dtype}; give numbers of up to 64 bits")
        begin, end = end, end + array.nbytes
        header[key] = {"dtype": DTYPES[array.dtype.str], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            for first in range(0, array.size, BLOCK):
                file.write(array.reshape(-1)[first : first + BLOCK].data)


def read(path: str | os.PathLike[str]) -> Record:
    """The fields of the `Fit` in a file, or an error that says what is wrong with it."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file; give a model written by Fit.save or `unmix fit`")
    tensors, meta = read_tensors(path)
    if kind := meta.get("kind"):
        raise ValueError(f"{path}: not a model but what unmix.{kind} found; read it with unmix.{kind}.load")
    try:
        return _record(meta, tensors)
    except ValueError as error:
        raise ValueError(f"{path}: damaged or foreign model file ({error})") from None


def read_tensors(path: str | os.PathLike[str]) -> tuple[Arrays, Record]:
    """What `write_tensors` wrote, or an error that says what is wrong with the file."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get("unmix")
            told = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
            if odd := [key for key, one in told.items() if one.get_dtype() not in DTYPES.values()]:
                raise ValueError(
                    f"{odd[0]} holds numbers of the type {told[odd[0]].get_dtype()}, which unmix never writes"
                )
            sizes = {key: math.prod(one.get_shape()) for key, one in told.items()}
            tensors = {key: file.get_tensor(key) for key, size in sizes.items() if 8 * size <= LARGE}
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"{path}: not a readable safetensors file ({error}); it may be truncated or of another kind"
        ) from None
    if header is None:
        raise ValueError(f"{path}: a safetensors file, but not a model of unmix")
    tensors |= _mapped(Path(path), sizes.keys() - tensors.keys())
    try:
        meta = schema.parsed(tensors.pop(HEADER).tobytes() if HEADER in tensors else header)
    except ValueError as error:
        raise ValueError(f"{path}: damaged or foreign model file ({error})") from None
    if not isinstance(meta, dict):
        raise ValueError(f"{path}: damaged or foreign model file (its header is not a table)")
    return tensors, meta


def _mapped(path: Path, keys: Set[str]) -> Arrays:
    """Large arrays, read-only, as they lie in a file that safetensors found sound."""
    if not keys:
        return {}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    kinds = {name: dtype for dtype, name in DTYPES.items()}
    return {
        key: np.memmap(
            path,
            kinds[header[key]["dtype"]],
            "r",
            offset=8 + length + header[key]["data_offsets"][0],
            shape=tuple(header[key]["shape"]),
        )
        for key in keys
    }


def _record(meta: Record, tensors: Arrays) -> Record:
    if meta.get("format") != FORMAT:
        raise ValueError(f"format {meta.get('format')}, this version of unmix reads up to {FORMAT}; upgrade unmix")
    factors = _factors(tensors)
    L, F, posterior = factors["L"], factors["F"], _within(tensors, "posterior.")
    if meta.get("state") is not None:
        _add_arrays(meta["state"], _within(tensors, "state."))
    schema.MODEL(meta, "the model")
    sizes = {"samples": len(L), "features": len(F), "names": L.shape[1]}
    names = {key: _names(tensors, key, size) for key, size in sizes.items()}
    trace = _trace(meta["trace"])
    if meta.get("state") is not None and not len(trace):
        raise ValueError("there is a state to go on from, and no trace")
    plain = ("status", "params", "priors", "versions", "data", "text")
    record = {"L": L, "F": F, "trace": trace, "posterior": posterior, "state": meta.get("state")}
    record |= {name: meta[name] for name in plain} | {name: float(meta.get(name, np.nan)) for name in NUMBERS}
    return record | names | {"metadata": _metadata(tensors, len(L))}


def _trace(told: Record) -> pd.DataFrame:
    """With all columns that a trace has, whoever made the fit."""
    trace = table_from_json(told)
    blank = {"iteration": range(len(trace)), "seconds": 0.0, "stage": "", "note": ""}
    for name in schema.TRACE:
        if name not in trace:
            trace[name] = blank.get(name, np.nan)
    return trace.astype({column: float for column in trace.columns if column not in ("iteration", "stage", "note")})


def _factors(tensors: Arrays) -> Arrays:
    """L and F, once they and what is known of their posterior are numbers >= 0 that go together."""
    if missing := [name for name in ("L", "F") if name not in tensors]:
        raise ValueError(f"there is no {missing[0]!r} in it")
    L, F = tensors["L"], tensors["F"]
    if L.ndim != 2 or F.ndim != 2 or L.shape[1] != F.shape[1] or min(F.shape) < 1:
        raise ValueError(f"L of shape {L.shape} does not go with F of shape {F.shape}")
    for name, array in tensors.items():
        if name not in ("L", "F") and not name.startswith("posterior."):
            continue
        if array.dtype.kind != "f" or not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"{name.replace('.', ' ')} has entries that are not finite numbers >= 0")
        factor = name.removeprefix("posterior.")
        known = tensors.get(factor[:1], array).shape  # "F_sd" is of the features, as F is
        if array.shape != known if factor in ("L", "F") else array.ndim == 2 and len(array) != known[0]:
            raise ValueError(f"posterior {factor} of shape {array.shape} does not go with {factor[:1]} of {known}")
    return {"L": L, "F": F}


def _metadata(tensors: Arrays, n: int) -> pd.DataFrame | None:
    if "metadata" not in tensors:
        return None
    told = schema.parsed(tensors["metadata"].tobytes())
    schema.rows(unique=True)(told, "metadata")
    if len(told["data"]) != n:
        raise ValueError(f"{len(told['data'])} rows of metadata for {n} samples")
    return table_from_json(told)


def _add_arrays(state: Any, arrays: Arrays) -> None:
    """Put arrays where they were taken from, under names like "search.parts"."""
    for key, array in arrays.items():
        *path, name = key.split(".")
        inner: Any = state
        for part in path:
            inner = inner.setdefault(part, {}) if isinstance(inner, dict) else None
        if not isinstance(inner, dict):
            raise ValueError(f"its state has no place for {key!r}")
        inner[name] = array


def _names(tensors: Arrays, key: str, rows: int) -> NDArray[np.str_] | None:
    if key not in tensors:
        return None
    names = schema.parsed(tensors[key].tobytes())
    schema.listed(schema.text)(names, key)
    if len(names) != rows:
        raise ValueError(f"{len(names)} names for {rows} {'topics' if key == 'names' else key}")
    return as_names(names)


def _within(tensors: Arrays, prefix: str) -> Arrays:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _without_arrays(tree: Record, tensors: Arrays, prefix: str) -> Record:
    """A dictionary of dictionaries without its arrays, which go to `tensors` under names like "state.search.parts"."""
    rest = {}
    for key, value in tree.items():
        if isinstance(value, np.ndarray):
            tensors[f"{prefix}.{key}"] = value
        else:
            rest[key] = _without_arrays(value, tensors, f"{prefix}.{key}") if isinstance(value, dict) else value
    return rest


def as_bytes(value: Any) -> NDArray[np.uint8]:
    """JSON as an array of bytes; names and tables may be larger than the header of a file may be."""
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


def table_to_json(table: pd.DataFrame) -> Record:
    cells = [_cells(table.iloc[:, place]) for place in range(table.shape[1])]
    data = [list(row) for row in zip(*cells, strict=True)] if cells else [[] for _ in range(len(table))]
    return {"columns": unique_names([str(column) for column in table.columns]), "data": data}


def _cells(column: pd.Series) -> list[Any]:
    """Plain values, None for those that are missing."""
    values, missing = column.astype(object).tolist(), column.isna().tolist()
    return [None if gone else as_plain(value) for value, gone in zip(values, missing, strict=True)]


def table_from_json(table: Record) -> pd.DataFrame:
    frame = pd.DataFrame(table["data"], columns=table["columns"])
    for place in range(len(table["columns"])):
        values = [row[place] for row in table["data"]]
        known = [value for value in values if value is not None]
        # whole numbers with gaps, of which pandas would make fractions
        if known and len(known) < len(values) and all(type(value) is int for value in known):
            frame.isetitem(place, nullable_integers(values))
    return frame
