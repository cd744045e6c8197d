"""What the words of a file must be: small checks that are put together to a schema, and the schema of a model.

    SIZE = table({"rows": whole(), "names": listed(text)}, needed=("rows",))
    SIZE({"rows": -1}, "size")     # ValueError: size.rows is -1, not a whole number >= 0

Files come from anywhere. What has been checked here need not be mistrusted elsewhere: it is of the types, and within the limits,
that the library itself writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from unmix.base.types import STATUSES, WIDEST

Check = Callable[[Any, str], None]
LARGEST = 2**63 - 1  # whole number that anything is counted with
TRACE = ("iteration", "seconds", "loglik", "objective", "kkt", "stage", "note")


def parsed(content: str | bytes) -> Any:
    """JSON, or a ValueError: one that is nested too deeply is another error to Python."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def brief(value: Any) -> str:
    """A value in a few letters, whatever it is."""
    if isinstance(value, np.ndarray):
        return "an array"
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'table'} of {len(value):,}"
    if isinstance(value, int) and abs(value) >= WIDEST:
        return "a number beyond all bounds"
    shown = ascii(value)
    return shown if len(shown) <= 40 else f"{shown[:36]}…"


def _check(what: str, right: Callable[[Any], bool]) -> Check:
    def check(value: Any, place: str) -> None:
        if not right(value):
            raise ValueError(f"{place} is {brief(value)}, not {what}")

    return check


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float)


def whole(least: int = 0) -> Check:
    return _check(f"a whole number >= {least}", lambda value: _is_whole(value) and value >= least)


def at_least(least: float) -> Check:
    return _check(f"a number >= {least:g}", lambda value: _is_number(value) and least <= value < math.inf)


text = _check("text", lambda value: isinstance(value, str))
truth = _check("true or false", lambda value: isinstance(value, bool))
number = _check("a number", _is_number)
nothing = _check("nothing", lambda value: value is None)
plain = _check(
    "a number or text",
    lambda value: value is None or isinstance(value, str | float) or (isinstance(value, int) and abs(value) < WIDEST),
)  # what stands in a cell


def anything(value: Any, place: str) -> None:
    """What JSON can say, in numbers that are numbers to others too; and arrays of finite ones."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"{place} has entries that are not finite numbers")
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        anything(inner, f"{place}.{key}")
    if not isinstance(value, dict | list):
        plain(value, place)


def random_state(value: Any, place: str) -> None:
    """Of any generator of numpy: whole numbers of up to 128 bits, by their names."""
    if isinstance(value, dict):
        table({}, others=random_state)(value, place)
    elif not isinstance(value, np.ndarray) and not (isinstance(value, int) and 0 <= value < WIDEST):
        raise ValueError(f"{place} is {brief(value)}, not a whole number >= 0")


def one_of(*known: Any) -> Check:
    words = " or ".join(map(str, known))
    return _check(words, lambda value: isinstance(value, str | int) and value in known and not isinstance(value, bool))


def either(first: Check, *others: Check) -> Check:
    """Right if one of them finds it so; what is wrong is what the last one says."""

    def check(value: Any, place: str) -> None:
        for attempt in (first, *others[:-1]):
            try:
                return attempt(value, place)
            except ValueError:
                continue
        return others[-1](value, place)

    return check


def listed(inner: Check, length: int | None = None) -> Check:
    def check(value: Any, place: str) -> None:
        if not isinstance(value, list) or (length is not None and len(value) != length):
            raise ValueError(f"{place} is {brief(value)}, not a list{'' if length is None else f' of {length}'}")
        for i, entry in enumerate(value):
            inner(entry, f"{place}[{i}]")

    return check


def table(known: Mapping[str, Check], *, needed: Sequence[str] = (), others: Check = anything) -> Check:
    """Names with values: those that are `known` by their own checks, all others by one."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{place} is {brief(value)}, not a table")
        if missing := [name for name in needed if name not in value]:
            raise ValueError(f"{place} has no {missing[0]!r}")
        for name, entry in value.items():
            known.get(name, others)(entry, f"{place}.{name}" if name in known else f"{place}.{brief(name)}")

    return check


def rows(
    cell: Check = anything,
    columns: Mapping[str, Check] | None = None,
    needed: Sequence[str] = (),
    *,
    unique: bool = False,
) -> Check:
    """A table of rows as `format.table_to_json` writes it."""
    columns = columns or {}

    def check(value: Any, place: str) -> None:
        table({"columns": listed(text), "data": listed(listed(unseen))}, needed=("columns", "data"))(value, place)
        names = value["columns"]
        if (unique or needed) and len(set(names)) < len(names):
            raise ValueError(f"{place} has a column twice")
        if value["data"] and (missing := [name for name in needed if name not in names]):
            raise ValueError(f"{place} has no column {missing[0]!r}")
        for i, row in enumerate(value["data"]):
            if len(row) != len(names):
                raise ValueError(f"{place} has {len(row)} cells in row {i + 1}, and {len(names)} columns")
            for name, entry in zip(names, row, strict=True):
                columns.get(name, cell)(entry, f"{place}, column {name!r}, row {i + 1}")

    return check


def unseen(value: Any, place: str) -> None:
    """Not looked at here."""


_gap = either(nothing, number)
COUNTERS = table(
    {"phase": text, "done": whole(), "losses": listed(number), "remaining_gain": _gap}, needed=("phase", "done")
)
RANDOM = table({"bit_generator": text}, needed=("bit_generator", "state"), others=random_state)
SESSION = table(
    {
        "heaviest_first": truth,
        "status": one_of(*STATUSES),
        "last_row": table({"loglik": _gap, "kkt": _gap}, others=_gap),
        "counters": COUNTERS,
        "random": RANDOM,
    },
    needed=("heaviest_first", "status", "last_row", "counters"),
)
TEXT = table(
    {
        "rules": whole(),
        "stop_words": either(nothing, text, listed(text)),
        "ngrams": listed(whole(1), 2),
        "min_df": at_least(0),
        "max_df": at_least(0),
        "text_column": either(nothing, text),
        "title_column": either(nothing, text),
    },
    needed=("rules", "stop_words", "ngrams", "min_df", "max_df"),
)
FACTS = table(
    {
        **dict.fromkeys(("nonzeros", "empty_samples", "empty_features", "shards"), whole()),
        **dict.fromkeys(("total", "fractional"), at_least(0)),
        **dict.fromkeys(("checksum", "source", "title", "python"), text),
        "command": either(text, listed(text)),
        "starts": table(
            {
                "objective": listed(number),
                "loglik": listed(number),
                "iterations": listed(whole()),
                "status": listed(one_of(*STATUSES)),
                "difference": listed(number),
            }
        ),
    }
)
_tolerance = _check("a number >= 0", lambda value: isinstance(value, int | float) and value >= 0)
_trace = {"iteration": whole(), "seconds": at_least(0)} | dict.fromkeys(("stage", "note"), either(nothing, text))
MODEL = table(
    {
        "format": whole(),
        "trace": rows(_gap, _trace, unique=True),
        "status": one_of(*STATUSES),
        "loglik": number,
        "remaining_gain": number,
        "params": table({"model": text, "tol": _tolerance}),
        "priors": table({}, others=text),
        "versions": table({}, others=text),
        "data": FACTS,
        "text": either(nothing, TEXT),
        "state": either(nothing, table({"solver": text, "session": SESSION}, needed=("solver",))),
    },
    needed=("format", "trace", "status", "loglik", "params", "priors", "versions", "data", "text"),
)
