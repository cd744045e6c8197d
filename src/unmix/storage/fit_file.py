"""The file of a fit: safetensors (L, F, and names as UTF-8 JSON) with JSON metadata (status, trace, parameters, versions).

A file holds numbers and text only; nothing in it is ever executed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.base.types import Record, as_names, as_plain, nullable_integers, unique_names
from unmix.storage import schema, tensors
from unmix.storage.tensors import Arrays, as_bytes, from_json

FORMAT = 3
MODEL_FILE = "model.safetensors"  # in the folder that `unmix fit` writes
LABELS = ("labels", "batches")  # of groups of samples with the same multipliers, and of batches


def write(path: str | os.PathLike[str], record: Record) -> None:
    """Write the fields of a `Fit` to one file, atomically; those that are None are omitted. What `read` would refuse is refused
    here, so that every file that is written can be read."""
    arrays, meta = _encoded(record)
    try:
        _record(as_plain(meta), arrays)
    except ValueError as error:
        raise ValueError(f"{path}: not written, as a file of this fit could not be read again ({error})") from None
    tensors.write(path, arrays, meta)


def _encoded(record: Record) -> tuple[Arrays, Record]:
    """The arrays of a file, and its header."""
    arrays: Arrays = {"L": record["L"], "F": record["F"]}
    for key in ("samples", "features", "names"):
        if (names := record[key]) is not None:
            arrays[key] = as_bytes(names.tolist())
    if record["metadata"] is not None:
        arrays["metadata"] = as_bytes(table_to_json(record["metadata"]))
    if record["allocation"] is not None:
        arrays["allocation"] = record["allocation"]
    arrays |= {f"posterior.{key}": value for key, value in record["posterior"].items()}
    for key, value in record["rates"].items():
        arrays[f"rates.{key}"] = as_bytes(value.tolist()) if key in LABELS else value
    plain = ("status", "loglik", "params", "priors", "versions", "data", "text")
    meta = {"format": FORMAT, "trace": table_to_json(record["trace"])} | {name: record[name] for name in plain}
    if not np.isnan(record["remaining_gain"]):
        meta["remaining_gain"] = record["remaining_gain"]
    if record["state"] is not None:
        meta["state"] = _without_arrays(record["state"], arrays, "state")
    return {key: np.asarray(array, array.dtype.newbyteorder("<")) for key, array in arrays.items()}, as_plain(meta)


def read(path: str | os.PathLike[str]) -> Record:
    """The fields of the `Fit` in a file, or an error that says what is wrong with it."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file; use a model written by Fit.save or `unmix fit`")
    arrays, meta = tensors.read(path)
    if (kind := schema.kind_of(meta)) != "Fit":
        raise ValueError(f"{path}: not a model but what unmix.{kind} found; read it with unmix.{kind}.load")
    try:
        return _record(meta, arrays)
    except ValueError as error:
        raise ValueError(f"{path}: damaged or foreign model file ({error})") from None


def is_fit(path: Path) -> bool:
    """Whether there is such a file."""
    try:
        return path.suffix == ".safetensors" and path.is_file() and schema.kind_of(tensors.read(path)[1]) == "Fit"
    except ValueError:
        return False


def _record(meta: Record, arrays: Arrays) -> Record:
    if meta.get("format") != FORMAT:
        given = schema.brief(meta.get("format"))
        raise ValueError(f"format {given}, this version of unmix reads up to {FORMAT}; upgrade unmix")
    factors, posterior = _factors(arrays), _within(arrays, "posterior.")
    L, F = factors["L"], factors["F"]
    if meta.get("state") is not None:
        _add_arrays(meta["state"], _within(arrays, "state."))
    model = schema.check_model(meta)
    sizes = {"samples": len(L), "features": len(F), "names": L.shape[1]}
    names = {key: _names(arrays, key, size) for key, size in sizes.items()}
    trace = _trace(meta["trace"])
    if meta.get("state") is not None and not len(trace):
        raise ValueError("there is a state to resume, but no trace")
    plain = ("status", "params", "priors", "versions", "data", "text")
    record = factors | {
        "trace": trace,
        "posterior": posterior,
        "state": meta.get("state"),
        "rates": _rates(arrays, L, F),
    }
    record |= {name: meta[name] for name in plain} | {"loglik": model.loglik, "remaining_gain": model.remaining_gain}
    return record | names | {"metadata": _metadata(arrays, len(L))}


def _trace(told: Record) -> pd.DataFrame:
    """With all columns that a trace has, anyone who made the fit."""
    trace = table_from_json(told)
    blank = {"iteration": range(len(trace)), "seconds": 0.0, "stage": "", "note": ""}
    for name in schema.TRACE:
        if name not in trace:
            trace[name] = blank.get(name, np.nan)
    return trace.astype({column: float for column in trace.columns if column not in ("iteration", "stage", "note")})


def _factors(arrays: Arrays) -> Arrays:
    """L, F and S (if there is one), once they and what is known of their posterior are numbers >= 0 that go together."""
    if missing := [name for name in ("L", "F") if name not in arrays]:
        raise ValueError(f"there is no {missing[0]!r} in it")
    L, F = arrays["L"], arrays["F"]
    if L.ndim != 2 or F.ndim != 2 or L.shape[1] != F.shape[1] or min(F.shape) < 1:
        raise ValueError(f"L of shape {L.shape} does not go with F of shape {F.shape}")
    for name, array in arrays.items():
        if name not in ("L", "F", "allocation") and not name.startswith("posterior."):
            continue
        least = -np.inf if name == "posterior.L_coefficients" else 0
        if array.dtype.kind != "f" or not np.isfinite(array).all() or (array < least).any():
            raise ValueError(
                f"{name.replace('.', ' ')} has entries that are not finite numbers{' >= 0' * (least == 0)}"
            )
        factor = name.removeprefix("posterior.")
        known = arrays.get(factor[:1], array).shape  # "F_sd" is of the features, as F is
        if array.shape != known if factor in ("L", "F") else array.ndim == 2 and len(array) != known[0]:
            raise ValueError(f"posterior {factor} of shape {array.shape} does not go with {factor[:1]} of {known}")
    S = arrays.get("allocation")
    if S is not None and (S.ndim != 2 or S.shape[1] != L.shape[1]):
        raise ValueError(f"the allocation of shape {S.shape} does not go with {L.shape[1]} topics")
    return {"L": L, "F": F} | ({} if S is None else {"allocation": S})


def _rates(arrays: Arrays, L: Any, F: Any) -> Arrays:
    """Groups of samples and their multipliers, if there are such, once they are numbers >= 0 that go together."""
    found = _within(arrays, "rates.")
    if not found:
        return {}
    labels = {key: as_names(schema.checked(from_json(found[key]), list[str], key)) for key in LABELS if key in found}
    groups, batches, m = len(labels.get("labels", ())), len(labels.get("batches", ())), len(F)
    shapes = {"groups": (len(L),), "multipliers": (groups, m), "known": (groups, m), "owners": (groups,)}
    shapes |= {"strength": (1,), "counts": (batches, m), "expected": (batches, m)}
    needed = {"groups", "multipliers", "labels"}
    if "batches" in labels:
        needed |= {"owners", "strength", "counts", "expected"}
    if missing := needed - found.keys():
        raise ValueError(f"there is no {f'rates.{min(missing)}'!r} in it")
    for key, shape in shapes.items():
        if key not in found:
            continue
        array, whole = found[key], key in ("groups", "owners")
        if array.shape != shape or array.dtype.kind != ("i" if whole else "f"):
            raise ValueError(f"rates.{key} of shape {array.shape} does not go with {groups} groups and {m} features")
        most = (groups if key == "groups" else batches) if whole else np.inf
        if not np.isfinite(array).all() or (array < 0).any() or (array >= most).any():
            raise ValueError(f"rates.{key} has entries that are not numbers in their range")
    if "strength" in found and not found["strength"][0] > 0:
        raise ValueError("rates.strength is not above 0")
    return {key: labels.get(key, found[key]) for key in (*labels, *shapes) if key in found}


def _metadata(arrays: Arrays, n: int) -> pd.DataFrame | None:
    if "metadata" not in arrays:
        return None
    told = from_json(arrays["metadata"])
    schema.check_rows(told, "metadata", {})
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


def _names(arrays: Arrays, key: str, rows: int) -> NDArray[np.str_] | None:
    if key not in arrays:
        return None
    names = schema.checked(from_json(arrays[key]), list[str], key)
    if len(names) != rows:
        raise ValueError(f"{len(names)} names for {rows} {'topics' if key == 'names' else key}")
    return as_names(names)


def _within(arrays: Arrays, prefix: str) -> Arrays:
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def _without_arrays(tree: Record, arrays: Arrays, prefix: str) -> Record:
    """A dictionary of dictionaries without its arrays, which go to `arrays` under names like "state.search.parts"."""
    rest = {}
    for key, value in tree.items():
        if isinstance(value, np.ndarray):
            arrays[f"{prefix}.{key}"] = value
        else:
            rest[key] = _without_arrays(value, arrays, f"{prefix}.{key}") if isinstance(value, dict) else value
    return rest


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
