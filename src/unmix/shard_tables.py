"""A table with a row a sample in a file of shards, column by column: numbers as they are, all else as codes of its values.

0000            f8, i8 or u1 (truth values); or i4, the places of a column's values in its list, -1 for none
0000.values     that list, JSON as bytes
columns         what columns are called and what they are: JSON as bytes
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from unmix.shard_files import Arrays, as_bytes

NUMBERS = {"float": "<f8", "int": "<i8", "bool": "u1"}
CODES = {"values": "<i4", "category": "<i4"}


def encoded(table: pd.DataFrame) -> Arrays:
    columns, arrays = list[tuple[str, str]](), Arrays()
    for place, (name, column) in enumerate(table.items()):
        kind, array, values = _encoded(column)
        columns.append((str(name), kind))
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
        return "category", column.cat.codes.to_numpy().astype("<i4"), [_plain(value) for value in dtype.categories]
    codes, values = pd.factorize(column.astype(object))
    return "values", codes.astype("<i4"), [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """As JSON has it: dates and the like in words."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)


def decoded(arrays: Arrays, rows: int) -> pd.DataFrame:
    """Raises ValueError if the arrays are not those of a table of so many rows."""
    try:
        columns = json.loads(arrays["columns"].tobytes())
        found = [_decoded(arrays, f"{place:04d}", kind, rows) for place, (_, kind) in enumerate(columns)]
        names = [str(name) for name, _ in columns]
    except (KeyError, TypeError, IndexError, RecursionError) as error:
        raise ValueError(f"it holds no table ({type(error).__name__})") from None
    table = pd.concat(found, axis=1) if found else pd.DataFrame(index=range(rows))
    return table.set_axis(names, axis=1)


def _decoded(arrays: Arrays, place: str, kind: str, rows: int) -> pd.Series:
    array = arrays[place]
    if len(array) != rows or array.dtype != np.dtype((NUMBERS | CODES)[kind]):
        raise ValueError(f"its column {place} is none of {rows:,} rows")
    if kind in NUMBERS:
        return pd.Series(array.astype(bool if kind == "bool" else NUMBERS[kind]))
    values = json.loads(arrays[f"{place}.values"].tobytes())
    if not isinstance(values, list) or (rows and not -1 <= array.min() <= array.max() < len(values)):
        raise ValueError(f"its column {place} has values that are not in its list")
    if kind == "category":
        return pd.Series(pd.Categorical.from_codes(array, pd.Index(values)))
    if (array < 0).any() and all(type(value) is int for value in values):
        known = pd.array([*values, None], dtype="Int64")  # of which pandas would make fractions
        return pd.Series(known[array])
    return pd.Series(np.array([*values, None], dtype=object)[array]).infer_objects()
