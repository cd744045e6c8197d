"""What a file may say: Structs that both writers and readers hold it to, and types of the fields of dataclasses.

    class Size(Struct):
        rows: Whole
        names: list[str] = []

    checked({"rows": -1}, Size, "size")     # ValueError: size.rows is -1, not a whole number >= 0

Files come from anywhere. What has passed a check here is of the types, and within the limits, that the library itself writes.
Tables that are open to other names (parameters, facts, states) stay dictionaries: their Structs say what the known names hold.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from unmix.base.types import STATUSES, WIDEST

LARGEST, MOST = 2**63 - 1, sys.float_info.max  # whole number that anything is counted with; finite number
TRACE = ("iteration", "seconds", "loglik", "objective", "kkt", "stage", "note")

Whole = Annotated[int, Meta(ge=0, le=LARGEST)]
Size = Annotated[int, Meta(ge=1, le=LARGEST)]
Finite = Annotated[float, Meta(ge=-MOST, le=MOST)]
Amount = Annotated[float, Meta(ge=0, le=MOST)]
Status = Annotated[str, Meta(pattern=rf"\A({'|'.join(STATUSES)})\Z")]
Gap = float | None  # a number, where there is one

T = TypeVar("T")
_WORDS = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}
_WORDS |= {"array": "a list", "object": "a table", "null": "nothing"}


def brief(value: Any) -> str:
    """A value in a few letters, whatever it is."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'table'} of {len(value):,}"
    if isinstance(value, int) and abs(value) >= WIDEST:
        return "a number beyond all bounds"
    if not isinstance(value, str | int | float | NoneType):
        return f"a {type(value).__name__}"
    shown = ascii(value)
    return shown if len(shown) <= 40 else f"{shown[:36]}…"


def kind_of(meta: Mapping[str, Any]) -> str:
    """What a file says that it holds: the name of a class."""
    kind = meta.get("kind", "Fit")
    return kind if isinstance(kind, str) and kind.isidentifier() and len(kind) < 40 else brief(kind)


def checked(value: Any, kind: type[T], place: str = "") -> T:
    """The value as a Struct or another type of msgspec, or a ValueError that says which part of it, in what is called `place`,
    is what, and what it should be."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_problem(str(error), value, place)) from None


def _problem(error: str, value: Any, place: str) -> str:
    message, _, path = error.rpartition(" - at `$") if " - at `$" in error else (error, "", "")
    path, got = path.rstrip("`"), message.partition(", got ")[2].strip("`")
    place = f"{place}{path}" if place else path.removeprefix(".")
    if name := re.fullmatch(r"Object missing required field `(.*)`", message):
        return f"{place} has no {name[1]!r}".strip()
    for name, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path):
        if index == "...":  # msgspec does not say under which name
            shown = got or "out of range"
            break
        value = value[name or int(index)]
    else:
        shown = brief(value)
    right = re.sub(
        r"`(.*?)`", lambda found: " or ".join(_WORDS.get(word, word) for word in found[1].split(" | ")), message
    )
    right = right.removeprefix("Expected ").partition(", got ")[0]
    if words := re.search(r"matching regex .*\((.*)\)", right):
        right = words[1].replace("|", " or ")
    elif str(MOST) in right or right == "Number out of range":
        right = "a finite number"
    return f"{place} is {shown}, not {right}"


def leaves(value: Any, place: str) -> Iterator[tuple[Any, str]]:
    """All that is neither a table nor a list, and where it is."""
    stack = [(value, place)]
    while stack:
        value, place = stack.pop()
        if isinstance(value, dict):
            stack += [(inner, f"{place}.{key if len(key) < 40 else brief(key)}") for key, inner in value.items()]
        elif isinstance(value, list):
            stack += [(inner, f"{place}[{i}]") for i, inner in enumerate(value)]
        else:
            yield value, place


def check_bounds(value: Any, place: str) -> None:
    """Raises unless whole numbers are numbers to others too, and arrays finite."""
    for leaf, where in leaves(value, place):
        if isinstance(leaf, int) and abs(leaf) >= WIDEST:
            raise ValueError(f"{where} is {brief(leaf)}, not a number or text")
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
            raise ValueError(f"{where} has entries that are not finite numbers")


class Table(Struct):
    """Rows as `fit_file.table_to_json` writes them."""

    columns: list[str]
    data: list[list[Any]]


def check_rows(
    value: Any,
    place: str,
    columns: Mapping[str, Any],
    needed: Sequence[str] = (),
    others: Any = Any,
    *,
    unique: bool = True,
) -> Table:
    """A table whose rows are as long as its header, with the `needed` columns; cells are of the types that `columns` says, or
    of that of all `others`."""
    table = checked(value, Table, place)
    names = table.columns
    if unique and len(set(names)) < len(names):
        raise ValueError(f"{place} has a column twice")
    if table.data and (missing := [name for name in needed if name not in names]):
        raise ValueError(f"{place} has no column {missing[0]!r}")
    for i, row in enumerate(table.data):
        if len(row) != len(names):
            raise ValueError(f"{place} has {len(row)} cells in row {i + 1}, and {len(names)} columns")
    for column, name in enumerate(names):
        kind, cells = columns.get(name, others), [row[column] for row in table.data]
        try:
            msgspec.convert(cells, list[kind])  # type: ignore[valid-type]
            check_bounds(cells, name)
        except (ValueError, msgspec.ValidationError):
            for i, cell in enumerate(cells, start=1):
                check_bounds(checked(cell, kind, where := f"{place}, column {brief(name)}, row {i}"), where)
    return table


# The file of a fit.


class Counters(Struct):
    phase: str
    done: Whole
    losses: list[float] = []
    remaining_gain: Gap = None


class Random(Struct):
    bit_generator: str
    state: Any


class Session(Struct):
    heaviest_first: bool
    status: Status
    last_row: dict[str, Gap]
    counters: Counters
    random: Random | UnsetType = UNSET


class State(Struct):
    solver: str
    session: Session | UnsetType = UNSET


class Text(Struct):
    rules: Whole
    stop_words: str | list[str] | None
    ngrams: tuple[Size, Size]
    min_df: Amount
    max_df: Amount
    text_column: str | None = None
    title_column: str | None = None
    tokenizer: str | None = None
    phrases: list[str] | None = None
    known: Annotated[float, Meta(ge=0, le=1)] = 1.0


class Starts(Struct):
    objective: list[float] = []
    loglik: list[float] = []
    iterations: list[Whole] = []
    status: list[Status] = []
    difference: list[float] = []


class Reference(Struct):
    depth: Amount
    misfits: list[float]


class KnownTopics(Struct):
    names: list[str]
    held: list[bool]
    seeds: dict[str, list[str]] = {}
    digest: str = ""


class Covariates(Struct):
    formula: str
    columns: list[str]
    levels: dict[str, list[str]]
    knots: dict[str, list[Finite]]
    means: list[Finite]
    scales: list[Annotated[float, Meta(gt=0, le=MOST)]]


class Facts(Struct):
    nonzeros: Whole = 0
    empty_samples: Whole = 0
    empty_features: Whole = 0
    shards: Whole = 0
    total: Amount = 0.0
    fractional: Amount = 0.0
    checksum: str = ""
    source: str = ""
    title: str = ""
    python: str = ""
    command: str | list[str] = ""
    starts: Starts | UnsetType = UNSET
    reference: Reference | UnsetType = UNSET
    known: KnownTopics | UnsetType = UNSET
    allowed: str = ""
    covariates: Covariates | UnsetType = UNSET


class Params(Struct):
    model: str = ""
    tol: Annotated[float, Meta(ge=0)] | bool = 0.0


class Model(Struct):
    format: Whole
    trace: Table
    status: Status
    loglik: float
    params: Params
    priors: dict[str, str]
    versions: dict[str, str]
    data: Facts
    text: Text | None
    state: State | None = None
    remaining_gain: float = float("nan")


_TRACE = {"iteration": Whole, "seconds": Amount, "stage": str | None, "note": str | None}


def check_model(meta: dict[str, Any]) -> Model:
    """The header of a fit's file, its state with arrays; whole numbers of a random generator may have up to 128 bits."""
    model = checked(meta, Model, "the model")
    check_rows(meta["trace"], "the trace", _TRACE, others=Gap)
    for name in ("params", "data", "state"):
        check_bounds(meta.get(name), f"the model.{name}")
    session = model.state.session if model.state is not None else UNSET
    if session is not UNSET and session.random is not UNSET:
        numbers = {key: value for key, value in meta["state"]["session"]["random"].items() if key != "bit_generator"}
        for leaf, where in leaves(numbers, "the model.state.session.random"):
            if not isinstance(leaf, np.ndarray) and not (isinstance(leaf, int) and leaf >= 0):
                raise ValueError(f"{where} is {brief(leaf)}, not a whole number >= 0")
    return model


# Fields of dataclasses: arrays, numbers, words, and other dataclasses.

_ENTRIES = {np.floating: "f", np.integer: "iu", np.bool_: "b", np.str_: "UO"}  # Python's strings where one is very long


def check_fields(record: Any) -> None:
    """Raises ValueError if a field of a dataclass, or of one within it, is not of its declared type.

    Entries of arrays are distinguished as floating, whole, true or false, and text. A whole number may stand for a float.
    """
    of: Any = type(record)
    for name, kind in _hints(of).items():
        value = getattr(record, name)
        if not is_a(value, kind):
            raise ValueError(f"{name} is {brief(value)}, not {getattr(kind, '__name__', kind)}")
        for inner in value if isinstance(value, list | tuple) else (value,):
            if is_dataclass(inner):
                check_fields(inner)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind)}


def is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, as annotations spell it; what cannot be told is taken for right."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(is_a(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is Annotated:  # with limits
        try:
            return msgspec.convert(value, kind) == value
        except msgspec.ValidationError:
            return False
    if origin is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    if origin is np.ndarray and inner:
        scalar = get_args(inner[1])[0]
        scalar = get_origin(scalar) or scalar
        letters = [known for base, known in _ENTRIES.items() if isinstance(scalar, type) and issubclass(scalar, base)]
        return isinstance(value, np.ndarray) and (not letters or value.dtype.kind in letters[0])
    if origin in (list, tuple) and inner and isinstance(value, origin):
        each = inner if origin is tuple and inner[-1] is not ... else inner[:1] * len(value)
        return len(each) == len(value) and all(map(is_a, value, each))
    if origin in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if origin is float else origin)
