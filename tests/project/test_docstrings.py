"""The reference: every public name says what it takes, gives and refuses, in the form of numpydoc, and shows it at work.

Parameters stand in the order of the signature, each with its type and, where there is one, its default; what is returned has a
type; what is raised is named; every class, function and method has an example, which the doctests run. Texts are written out
where they are read, in the class or function itself, so that an editor shows them; what several estimators have in common is
told in the same words.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import cached_property
from itertools import pairwise
from types import FunctionType
from typing import Any, NamedTuple

import pytest
from numpydoc.docscrape import NumpyDocString
from sklearn.base import BaseEstimator
from test_docs import documented, found, public

import unmix as um
from unmix.analysis.results import Result
from unmix.registry import SOLVERS

SECTIONS = ["Parameters", "Attributes", "Returns", "Yields", "Raises", "See Also", "Notes", "Examples"]
DEFAULT = re.compile(r"(?:^|, )default=(.+)$")


class Entry(NamedTuple):
    """A public name, what it means, and the name of the class if it is a member of one."""

    name: str
    thing: Any
    owner: Any = None

    @property
    def is_class(self) -> bool:
        return inspect.isclass(self.thing)

    @property
    def is_property(self) -> bool:
        return isinstance(self.thing, property | cached_property)

    @property
    def function(self) -> Callable[..., Any]:
        if isinstance(self.thing, classmethod | staticmethod):
            return self.thing.__func__
        return getattr(self.thing, "fn", self.thing)  # of `available_if`

    @property
    def text(self) -> str:
        if self.is_property and (text := self.thing.__doc__):
            return inspect.cleandoc(text)
        return inspect.getdoc(self.thing if self.owner is None else getattr(self.owner, self.name.split(".")[-1])) or ""

    @property
    def doc(self) -> NumpyDocString:
        return NumpyDocString(self.text)

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """Those that a person gives: not `self`, nor what begins with an underscore."""
        target = self.thing if self.is_class else self.function
        given = list(inspect.signature(target).parameters.values())
        given = given[1:] if self.owner is not None and not isinstance(self.thing, staticmethod) else given
        return [parameter for parameter in given if not parameter.name.startswith("_")]


def entries() -> Iterator[Entry]:
    """All that the pages of the reference show, each thing once."""
    seen: set[Any] = set()
    pages = documented()
    names = public() | pages.keys() | {f"unmix.engines.{name}" for name in um.engines.__all__}
    for name in sorted(names):
        thing = found(name)
        if inspect.ismodule(thing):
            continue
        if thing not in seen:
            seen.add(thing)
            yield Entry(name, thing)
        for member in sorted(pages.get(name, ())):
            at = inspect.getattr_static(thing, member, None)
            if at is not None and at not in seen:
                seen.add(at)
                yield Entry(f"{name}.{member}", at, thing)


ENTRIES = list(entries())
PROPERTIES = [entry for entry in ENTRIES if entry.is_property]
CALLABLES = [entry for entry in ENTRIES if not entry.is_property and callable(entry.function)]
BY_NAME = {entry.name: entry for entry in ENTRIES}


def each(some: list[Entry]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", some, ids=[entry.name.removeprefix("unmix.") for entry in some])


def is_abstract(entry: Entry) -> bool:
    """A promise that others keep, to which the example of its class belongs."""
    kind = entry.thing if entry.owner is None else entry.owner
    return getattr(entry.function, "__isabstractmethod__", False) or getattr(kind, "_is_protocol", False)


def default_of(parameter: inspect.Parameter) -> object:
    return () if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) else parameter.default


def stated(kind: str) -> tuple[str, str | None]:
    """The type, and the default as it is written."""
    match = DEFAULT.search(kind)
    return (kind, None) if match is None else (kind[: match.start()], match[1])


def test_there_is_a_reference_to_hold() -> None:
    assert len(ENTRIES) > 200
    expected = {
        "unmix.Fit",
        "unmix.Fit.save",
        "unmix.LDA",
        "unmix.engines.Local",
        "unmix.plot.structure",
        "unmix.sc.tl.topics",
    }
    assert expected <= BY_NAME.keys()
    assert {entry.name for entry in PROPERTIES} >= {"unmix.Fit.topics", "unmix.Counts.total"}


@each(ENTRIES)
def test_a_docstring_opens_with_a_sentence_and_has_its_sections_in_order(entry: Entry) -> None:
    lines = entry.text.split("\n")
    assert lines[0].strip()
    titles = [line for line, rule in pairwise(lines) if re.fullmatch("-{3,}", rule)]
    assert titles == [title for title in SECTIONS if title in titles]
    for title in titles:
        rule = lines[lines.index(title) + 1]
        assert len(rule) == len(title)
    outside, _, examples = entry.text.partition("\nExamples\n")
    assert ">>>" not in outside
    assert entry.doc["Summary"]
    assert bool(examples) == bool(entry.doc["Examples"])


@each([entry for entry in CALLABLES if not (entry.is_class and is_abstract(entry))])
def test_parameters_are_those_of_the_signature_in_order_with_types_and_defaults(entry: Entry) -> None:
    section = entry.doc["Parameters"]
    if entry.is_class and not section and is_dataclass(entry.thing):
        section = entry.doc["Attributes"]  # of what a function makes: nobody gives them
        assert section or not entry.parameters
        names = [name for item in section for name in item.name.split(", ")]
        assert names == [parameter.name for parameter in entry.parameters]
        assert all(item.type and item.desc for item in section)
        return
    told = [(name.lstrip("*"), item) for item in section for name in item.name.split(", ")]
    assert [name for name, _ in told] == [parameter.name for parameter in entry.parameters]
    for (_, item), parameter in zip(told, entry.parameters, strict=True):
        kind, default = stated(item.type)
        assert kind, item
        assert "".join(item.desc).strip(), item
        value = default_of(parameter)
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or value is inspect.Parameter.empty:
            assert default is None, item
        elif default is not None and repr(value) != "<factory>":
            assert eval(default, {"range": range, "um": um}) == value, item
        else:
            assert default is not None, item


@each([entry for entry in CALLABLES if not entry.is_class])
def test_what_is_returned_has_a_type(entry: Entry) -> None:
    gives = inspect.signature(entry.function).return_annotation
    section = entry.doc["Returns"] + entry.doc["Yields"]
    assert bool(section) == (gives not in ("None", None)), gives
    for item in section:
        assert item.type
        assert item.desc


def own_errors(function: Callable[..., Any]) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    names = {call.func.id for call in raised if isinstance(call.func, ast.Name) and call.func.id.endswith("Error")}
    return {"ValueError" if name == "ParameterError" else name for name in names}


@each(CALLABLES)
def test_errors_that_a_function_raises_itself_are_named(entry: Entry) -> None:
    function = entry.function
    if entry.is_class:
        function = vars(entry.thing).get("__post_init__" if is_dataclass(entry.thing) else "__init__")
    raised = own_errors(inspect.unwrap(function)) if inspect.isfunction(function) and not is_abstract(entry) else set()
    assert raised <= {item.type for item in entry.doc["Raises"]}
    assert all(item.desc for item in entry.doc["Raises"])


@each([entry for entry in CALLABLES if entry.is_class or not is_abstract(entry)])
def test_there_is_an_example(entry: Entry) -> None:
    assert any(line.startswith(">>> ") for line in entry.doc["Examples"])


@each(PROPERTIES)
def test_a_property_says_its_type_and_what_it_is(entry: Entry) -> None:
    kind, colon, meaning = entry.text.split("\n")[0].partition(": ")
    assert kind
    assert colon
    assert meaning


@each([entry for entry in ENTRIES if entry.doc["See Also"]])
def test_what_is_seen_also_exists(entry: Entry) -> None:
    for names, _ in entry.doc["See Also"]:
        for name, _ in names:
            assert found(name if name.startswith("unmix.") else f"unmix.{name}") is not None


RESULTS = [entry.thing for entry in CALLABLES if entry.is_class and issubclass(entry.thing, um.Fit | Result)]


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_every_property_and_method_of_a_result_is_in_the_reference(kind: type) -> None:
    told = {member for name, members in documented().items() if found(name) is kind for member in members}
    deprecated = {"to_anndata"}
    callables_and_properties = {
        at
        for at in dir(kind)
        if at[0] != "_"
        and isinstance(inspect.getattr_static(kind, at), FunctionType | classmethod | property | cached_property)
    }
    assert callables_and_properties - deprecated == told


ESTIMATORS = [entry for entry in CALLABLES if entry.is_class and issubclass(entry.thing, BaseEstimator)]
OWN_WORDS = {"init", "inner", "max_iter", "tol", "a", "b", "alpha", "extrapolate", "refine", "online"}


def test_what_estimators_share_is_told_in_the_same_words() -> None:
    told: dict[str, set[str]] = {}
    for entry in ESTIMATORS:
        for item in entry.doc["Parameters"]:
            told.setdefault(item.name, set()).add(" ".join(item.desc))
    assert len(ESTIMATORS) == 7
    assert not {name: words for name, words in told.items() if len(words) > 1 and name not in OWN_WORDS}


@pytest.mark.parametrize("name", ["PoissonNMF", "TopicModel"])
def test_a_docstring_names_every_solver(name: str) -> None:
    told = next(item for item in BY_NAME[f"unmix.{name}"].doc["Parameters"] if item.name == "solver")
    assert all(f'"{solver}"' in " ".join(told.desc) for solver in SOLVERS)
