"""What is wrong in a file is named by its place and its value, and fields are held to their types."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from msgspec import Struct

from unmix.base.types import Factor, Floats, Integers, Names
from unmix.storage import schema
from unmix.storage.schema import Amount, Size, Status, Whole, check_fields, checked


class Inner(Struct):
    rows: Whole
    total: Amount = 0.0


class Outer(Struct):
    name: str
    inner: list[Inner] = []
    words: dict[str, str] = {}
    pair: tuple[Size, Size] = (1, 1)
    status: Status = "converged"
    either: str | list[str] | None = None
    number: float = 0.0


WRONG: dict[str, tuple[Any, str]] = {
    "no table": ([], "it is a list of 0, not a table"),
    "nothing": ({}, "it has no 'name'"),
    "a number": ({"name": 3}, "it.name is 3, not text"),
    "a long text": ({"name": "x", "number": "y" * 99}, f"it.number is '{'y' * 35}…, not a number"),
    "below": ({"name": "x", "inner": [{"rows": 1}, {"rows": -1}]}, "it.inner[1].rows is -1, not a whole number >= 0"),
    "half": ({"name": "x", "inner": [{"rows": 1.5}]}, "it.inner[0].rows is 1.5, not a whole number"),
    "truth": ({"name": "x", "inner": [{"rows": True}]}, "it.inner[0].rows is True, not a whole number"),
    "missing": ({"name": "x", "inner": [{}]}, "it.inner[0] has no 'rows'"),
    "infinite": (
        {"name": "x", "inner": [{"rows": 1, "total": math.inf}]},
        "it.inner[0].total is inf, not a finite number",
    ),
    "under a name": ({"name": "x", "words": {"a": 3}}, "it.words[...] is int, not text"),
    "three": ({"name": "x", "pair": [1, 2, 3]}, "it.pair is a list of 3, not a list of length 2"),
    "a word": ({"name": "x", "status": "happy"}, "it.status is 'happy', not converged or max_iter or interrupted"),
    "a word and a line": (
        {"name": "x", "status": "converged\n"},
        r"it.status is 'converged\n', not converged or max_iter or interrupted",
    ),
    "neither": ({"name": "x", "either": 3}, "it.either is 3, not text or a list or nothing"),
    "an array": ({"name": "x", "number": np.ones(2)}, "it.number is an array of float64, not a number"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_named_by_place_value_and_what_it_should_be(what: str) -> None:
    value, said = WRONG[what]
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - compared below
        checked(value, Outer, "it")
    assert str(refused.value) == said


def test_whole_numbers_stand_for_numbers_and_what_is_unknown_is_passed_over() -> None:
    found = checked({"name": "\ud800", "number": 10**30, "pair": [1, 2], "more": 3}, Outer, "it")
    assert found == Outer("\ud800", number=1e30, pair=(1, 2))
    assert math.isnan(checked({"name": "", "number": math.nan}, Outer).number)


def test_rows_are_checked_by_the_types_of_their_columns() -> None:
    table = {"columns": ["a", "b"], "data": [[1, "x"], [None, 2.5]]}
    assert schema.check_rows(table, "it", {"a": schema.Gap}).columns == ["a", "b"]
    for columns, said in (
        ({"b": schema.Gap}, "it, column 'b', row 1 is 'x', not a number or nothing"),
        ({"b": str | None}, "it, column 'b', row 2 is 2.5, not text or nothing"),
        ({"a": float}, "it, column 'a', row 2 is None, not a number"),
    ):
        with pytest.raises(ValueError, match=said):
            schema.check_rows(table, "it", columns)
    for change, said in (
        ({"columns": ["a", "a"]}, "it has a column twice"),
        ({"columns": ["a", "c"]}, "it has no column 'b'"),
        ({"data": [[1]]}, "it has 1 cells in row 1, and 2 columns"),
        ({"data": [[1, 2**128]]}, "it, column 'b', row 1 is a number beyond all bounds"),
        ({"data": 3}, "it.data is 3, not a list"),
    ):
        with pytest.raises(ValueError, match=said):
            schema.check_rows(table | change, "it", {}, ["b"])


def test_values_nested_deeper_than_python_goes_are_looked_at() -> None:
    value: Any = 2**200
    for _ in range(50_000):
        value = [value]
    with pytest.raises(ValueError, match="a number beyond all bounds"):
        schema.check_bounds(value, "it")


@dataclass(frozen=True)
class Node:
    height: int
    L: Factor


@dataclass(frozen=True)
class Record:
    floats: Floats
    whole: Integers
    names: Names | None
    factor: Factor
    mask: np.ndarray
    count: int
    number: float
    sure: bool
    word: Literal["a", "b"]
    table: pd.DataFrame
    places: list[Whole]
    node: Node
    nodes: tuple[Node, ...] = ()
    either: str | int = "x"
    pair: tuple[int, str] = (1, "x")
    more: dict[str, Any] = field(default_factory=dict)
    anything: Any = None


NODE = Node(1, np.ones((2, 2), "f4"))
RECORD = Record(
    np.ones(2),
    np.arange(2),
    np.array(["a"]),
    np.ones(2, "f4"),
    np.ones(1, bool),
    1,
    2,
    True,
    "a",
    pd.DataFrame(),
    [0, 1],
    NODE,
)
UNFIT: dict[str, list[Any]] = {
    "floats": [None, 1.0, [1.0], np.arange(2), np.ones(2) * 1j],
    "whole": [np.ones(2), np.ones(2, bool)],
    "names": ["a", np.arange(2), ["a"]],
    "factor": [np.arange(2)],
    "mask": [None, True],
    "count": [1.0, True, "1", None],
    "number": [True, "1", None, np.ones(1)],
    "sure": [1, None],
    "word": ["c", 1, None],
    "table": [None, {}, np.ones(2)],
    "places": [(0,), [1.5], [True], [-1], None, 3],
    "node": [None, 3, replace(NODE, height="1"), replace(NODE, L=None)],
    "nodes": [[NODE], (NODE, 3), (NODE, replace(NODE, height=1.5)), 3],
    "either": [1.5, None, True],
    "pair": [(1,), (1, 2), [1, "x"], ("x", 1)],
    "more": [None, []],
}


def test_fields_are_held_to_their_types() -> None:
    check_fields(RECORD)
    for change in (
        {"names": None},
        {"names": np.array(["a"], object)},
        {"number": 1.5},
        {"nodes": (NODE, NODE)},
        {"either": 3},
    ):
        check_fields(replace(RECORD, **change))
    for name, values in UNFIT.items():
        for value in values:
            with pytest.raises(ValueError, match=rf"^({name}|height|L) is "):
                check_fields(replace(RECORD, **{name: value}))
