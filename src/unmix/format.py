"""The file of a fit: safetensors (L, F, and names as UTF-8 JSON) with JSON metadata (status, trace, parameters, versions).

A file holds numbers and text only; nothing in it is ever executed. Files of earlier formats are read as if written today.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors
from numpy.typing import NDArray

from unmix import schema
from unmix.files import replacing
from unmix.memory import LARGE
from unmix.types import Record, as_names

FORMAT = 3
DTYPES = {f"<{kind}{size}": f"{kind.upper()}{8 * size}" for kind in "fiu" for size in (2, 4, 8)}
DTYPES |= {"|i1": "I8", "|u1": "U8", "|b1": "BOOL"}
NUMBERS = ("loglik", "remaining_gain")
BLOCK = 1 << 24  # numbers that are written at a time

Arrays = dict[str, NDArray[Any]]


def write(path: str | os.PathLike[str], record: Record) -> None:
    """Write the fields of a `Fit` to one file, atomically; those that are None are left out."""
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
    write_tensors(path, tensors, meta)


def write_tensors(path: str | os.PathLike[str], tensors: Arrays, meta: Record) -> None:
    """Arrays and what JSON can say about them as one safetensors file, atomically and without a copy in memory: eight bytes with
    the length of the header, the header, arrays one after the other, those of the largest items first."""
    arrays = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))
    header: Record = {"__metadata__": {"unmix": json.dumps(meta, default=str)}}
    end = 0
    for key, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[key] = {"dtype": DTYPES[array.dtype.str], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as temporary:
        try:
            with temporary.open("xb") as file:
                file.write(len(text).to_bytes(8, "little") + text)
                for array in arrays.values():
                    for first in range(0, array.size, BLOCK):
                        file.write(array.reshape(-1)[first : first + BLOCK].data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error


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
        meta = schema.parsed(header)
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
    if meta.get("format") not in (2, FORMAT):
        raise ValueError(f"format {meta.get('format')}, this version of unmix reads up to {FORMAT}; upgrade unmix")
    factors = _factors(tensors)
    L, F, posterior = factors["L"], factors["F"], _within(tensors, "posterior.")
    if meta.get("state") is not None:
        _add_arrays(meta["state"], _within(tensors, "state."))
    if meta["format"] == 2:
        meta = _of_format_2(meta, posterior)
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
        if factor in ("L", "F") and array.shape != tensors[factor].shape:
            raise ValueError(
                f"posterior {factor} of shape {array.shape} does not go with {factor} of {tensors[factor].shape}"
            )
    return {"L": L, "F": F}


def _metadata(tensors: Arrays, n: int) -> pd.DataFrame | None:
    if "metadata" not in tensors:
        return None
    told = schema.parsed(tensors["metadata"].tobytes())
    schema.rows()(told, "metadata")
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


def kinds_by_arrays(posterior: Mapping[str, NDArray[Any]]) -> dict[str, str]:
    """The kinds of priors of a posterior from before they were written down: by the arrays that each kind has."""
    if not posterior:
        return {}
    left = "Gammas" if "L_prior_rate" in posterior else "DirichletRows"
    right = "DirichletColumns" if "F_prior" in posterior else "PointTopics"
    return {"L": left, "F": "Gammas" if "F_prior_rate" in posterior else right}


def _of_format_2(meta: Record, posterior: Arrays) -> Record:
    """As it would be written today."""
    try:
        params = dict(meta["params"])
        if params.get("model") in ("LDA", "GammaPoisson", "BayesianPoissonNMF"):
            params.setdefault("extrapolate", False)  # as all inference was then
        state = meta.get("state")
        state = state if state is None else _state_of_format_2(dict(state), params)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(f"what format 2 has in it is not there: {error}") from None
    return meta | {"params": params, "priors": kinds_by_arrays(posterior), "state": state}


def _state_of_format_2(state: Record, params: Record) -> Record:
    """Names have changed since, and `refine` is a phase with a state of its own."""
    way, heaviest_first = state.pop("way"), state.pop("heaviest_first")
    solver, search, pace = state["solver"], way.get("search"), way["pace"]
    for old, new in {"enough=": "tolerance=", "learn_alpha=": "learn_prior=", "Shrunk(": "SparseL1("}.items():
        solver = solver.replace(old, new)
    solver = re.sub(r"\bSparse\(", "SparseL2(", solver)
    counters = {"phase": pace["stage"]} | {name: pace[name] for name in ("done", "small", "idle")}
    session = {"heaviest_first": heaviest_first, "status": "max_iter", "last_row": {}, "counters": counters}
    session |= {"random": way["random"]} if way.get("random") is not None else {}
    if search is not None:
        session["status"] = search.pop("status")
        done = search.pop("done")
        if pace["stage"] == "refine":
            # what was known of splits and merges is of no use to the moves of today
            best, seed = (
                {name: state.pop(name) for name in [*state] if name != "solver"},
                search["random"]["state"]["state"],
            )
            state |= {"best": best, "loss": best["loss"], "seed": seed % 2**31, "moves": done, "kept": search["kept"]}
            solver, counters["done"] = f"Refine(solver={solver})", done
    if params.get("method") == "gibbs" and pace["stage"] == "fit":
        counters["phase"] = "sample"
    return state | {"solver": solver, "session": session}


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
    return np.frombuffer(json.dumps(value, default=str).encode(), dtype=np.uint8)


def table_to_json(table: pd.DataFrame) -> Record:
    values = table.astype(object).where(table.notna(), None).to_numpy()
    return {"columns": [str(column) for column in table.columns], "data": values.tolist()}


def table_from_json(table: Record) -> pd.DataFrame:
    frame = pd.DataFrame(table["data"], columns=table["columns"])
    for place in range(len(table["columns"])):
        values = [row[place] for row in table["data"]]
        known = [value for value in values if value is not None]
        # whole numbers with gaps, of which pandas would make fractions
        if known and len(known) < len(values) and all(type(value) is int for value in known):
            frame.isetitem(place, pd.array(values, dtype="Int64"))
    return frame
