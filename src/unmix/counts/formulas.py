"""Formulas such as "~ party + s(year)": from columns of metadata to a matrix of numbers with named columns.

    formula  =  ["~"] part {"+" part}
    part     =  "0" | "1" | product of factors by "*" (with all lower products) or ":" (alone)
    factor   =  column | C(column) | s(column [, df=6])

Names that are not words stand in backquotes. Nothing in a formula is ever evaluated: there are no other functions.

Numbers are one column, dates numbers of years. Texts (and numbers in `C`) have one column for each level but the first, unless
no simpler term spans their sum; a term such as `a:b` without `a` and `b` has the columns of `b`, and those of `a` within levels
of `b`. `s` is a natural cubic spline with knots at quantiles: with u = (x − first) / (last − first)
and knots 0 = κ_0 < … < κ_df = 1 its columns are u and d_j(u) − d_{df−1}(u), where

    d_j(u) = ((u − κ_j)³₊ − (u − κ_df)³₊) / (κ_df − κ_j),    j = 0, …, df − 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from unmix.base.checks import ParameterError, listed, plural
from unmix.base.types import Floats, Integers, Record
from unmix.counts.columns import DAY, Column, clean, column_of

INTERCEPT = "intercept"
TOKEN = re.compile(r"\s*(?:(`[^`]+`|[^\W\d][\w.]*)|(\d+)|(\S))")
GRAMMAR = "use names of columns, +, :, *, C(x), s(x, df=6) and 0"
YEAR = 365.2425 * DAY
DF = 6
COLLINEAR = 1e-9  # of the length of a column: what others leave of it


class Factor(NamedTuple):
    """A column, and what is made of it: "" as it is, "C" levels, "s" a spline of `df` columns."""

    column: str
    form: str = ""
    df: int = 0

    @property
    def label(self) -> str:
        extra = f", df={self.df}" if self.form == "s" and self.df != DF else ""
        return f"{self.form}({self.column}{extra})" if self.form else self.column


Term = tuple[Factor, ...]


@dataclass(frozen=True)
class Code:
    """How a factor becomes columns: by levels (the first of which is omitted, or not), by knots, or as a number."""

    factor: Factor
    levels: tuple[str, ...] = ()
    full: bool = False
    knots: Floats | None = None

    @property
    def labels(self) -> list[str]:
        if self.levels:
            return [f"{self.factor.label}[{level}]" for level in self.levels[0 if self.full else 1 :]]
        return [self.factor.label] if self.knots is None else [f"{self.factor.label}[{j + 1}]" for j in range(self.df)]

    @property
    def df(self) -> int:
        return 1 if self.knots is None else len(self.knots) - 1

    def columns(self, values: Floats) -> Floats:
        """One row per value: a number, or the place of a level."""
        if self.levels:
            return (values[:, None] == np.arange(len(self.levels))[0 if self.full else 1 :]).astype(np.float64)
        return values[:, None] if self.knots is None else _spline(values, self.knots)


def _spline(values: Floats, knots: Floats) -> Floats:
    first, last = knots[0], knots[-1]
    u, inner = (values - first) / (last - first), (knots - first) / (last - first)
    cubes = np.maximum(u[:, None] - inner, 0) ** 3
    d = (cubes[:, :-1] - cubes[:, -1:]) / (1 - inner[:-1])
    return np.column_stack([u, d[:, :-1] - d[:, -1:]])


@dataclass(frozen=True)
class Design:
    """A matrix with a row per sample; what its columns are called, and which of them belong to which term."""

    matrix: Floats
    names: list[str]
    terms: dict[str, slice]
    variables: dict[str, Column]  # of the formula, by name, with numbers of years for dates
    blocks: dict[str, list[tuple[Code, ...]]]  # of columns, of each term but the intercept: products of these

    @property
    def codes(self) -> list[Code]:
        return [code for blocks in self.blocks.values() for codes in blocks for code in codes]

    def means_at(self, variable: str, values: Floats) -> Floats:
        """Rows of the matrix with one value of a variable for all samples, averaged over samples: one row per value."""
        rows = np.tile(self.matrix.mean(axis=0), (len(values), 1))
        for term, blocks in self.blocks.items():
            columns = []
            for codes in blocks:
                own = [code.columns(values) if code.factor.column == variable else None for code in codes]
                rest = [_coded(c, self.variables) if one is None else None for c, one in zip(codes, own, strict=True)]
                columns += [
                    _product(own, at) * np.mean(_product(rest, at)) * np.ones(len(values)) for at in _places(codes)
                ]
            rows[:, self.terms[term]] = np.column_stack(columns)
        return rows

    def places_of(self, code: Code) -> Integers:
        """The number of the level of each sample."""
        return _values(code, self.variables).astype(np.intp)

    def levels_of(self, variable: str) -> tuple[str, ...]:
        """Of a variable of the formula; none of a number."""
        of = (code.levels for code in self.codes if code.factor.column == variable)
        return next(filter(None, of), ())

    def part(self, rows: Any) -> Design:
        """The design of some samples; levels and knots stay those of all."""
        variables = {name: replace(one, values=one.values[rows]) for name, one in self.variables.items()}  # noqa: PD011
        return replace(self, matrix=self.matrix[rows], variables=variables)


def design(formula: Any, table: pd.DataFrame | None, n: int, name: str = "formula", all_levels: bool = False) -> Design:
    """The matrix of a formula and columns of a table; or of all columns of a DataFrame, or of an array of numbers.

    An array or DataFrame gets an intercept, unless one of its columns is constant. With `all_levels` factors have a column for
    each, so that columns depend on each other, and no level is a reference.
    """
    intercept = True
    if not isinstance(formula, str):
        table = _table_of(formula, n, name)
        terms: list[Term] = [(Factor(str(column)),) for column in table]
        intercept = not any((table[column] == table[column].iloc[0]).all() for column in table)
        formula = f"{len(terms)} columns"
    else:
        terms, intercept = parse(formula, name)
    variables = {f.column: _variable(f, table, formula, name) for term in terms for f in term}
    for column in variables.values():
        if missing := int(np.isnan(column.values).sum()):
            first = int(np.flatnonzero(np.isnan(column.values))[0])
            raise ParameterError(
                name,
                formula,
                f"{column.name} is missing in {plural(missing, 'sample')} (the first is sample {first + 1}); "
                "fill it in, or leave these samples out",
            )
    codes = _codes(terms, intercept, variables, formula, name, all_levels)
    blocks = {INTERCEPT: np.ones((n, 1))} if intercept else {}
    names = [INTERCEPT] if intercept else []
    for term, of_term in codes.items():
        blocks[term] = _columns(of_term, variables)
        for coded in of_term:
            names += [":".join(code.labels[j] for code, j in zip(coded, at, strict=True)) for at in _places(coded)]
    ends = np.cumsum([0, *(block.shape[1] for block in blocks.values())])
    slices = {term: slice(int(a), int(b)) for term, a, b in zip(blocks, ends[:-1], ends[1:], strict=True)}
    if not blocks:
        raise ParameterError(name, formula, f"there is nothing in it; {GRAMMAR}")
    return Design(np.hstack(list(blocks.values())), names, slices, variables, codes)


def check_rank(matrix: Floats, names: Sequence[str], formula: str, name: str = "formula") -> None:
    """Raises if a column is a combination of those before it, and names them."""
    lengths = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.where(lengths > 0, lengths, 1)
    for j in range(matrix.shape[1]):
        weights = np.linalg.lstsq(scaled[:, :j], scaled[:, j], rcond=None)[0] if j else np.zeros(0)
        if lengths[j] == 0 or np.linalg.norm(scaled[:, j] - scaled[:, :j] @ weights) < COLLINEAR:
            others = [names[int(i)] for i in np.flatnonzero(np.abs(weights) > COLLINEAR**0.5)]
            what = f"is a combination of {listed(others)}" if others else "is 0 in all samples"
            raise ParameterError(name, formula, f"column {names[j]} {what}; leave one of them out")


# From texts to terms


def parse(formula: str, name: str = "formula") -> tuple[list[Term], bool]:
    """The terms, simple ones first, and whether there is an intercept.

    >>> terms, intercept = parse("~ party * t + s(year, df=4)")
    >>> [":".join(factor.label for factor in term) for term in terms], intercept
    (['party', 't', 's(year, df=4)', 'party:t'], True)
    """
    tokens: list[Any] = [found.groups() for found in TOKEN.finditer(formula)]
    if tokens and tokens[0][2] == "~":
        tokens = tokens[1:]
    reader = _Reader(tokens, formula, name)
    intercept, terms = True, list[Term]()
    while True:
        if (number := reader.number()) is not None:
            if number not in (0, 1):
                reader.fail(str(number))
            intercept = number == 1
        else:
            terms += reader.product()
        if not reader.sign("+"):
            break
    if reader.tokens:
        reader.fail("".join(filter(None, reader.tokens[0])))
    unique = {frozenset(term): term for term in reversed(terms)}
    ordered = [term for term in dict.fromkeys(terms) if unique.get(frozenset(term)) == term]
    return sorted(ordered, key=len), intercept


class _Reader:
    """Tokens of a formula, read from the left."""

    def __init__(self, tokens: Sequence[tuple[str, str, str]], formula: str, name: str) -> None:
        self.tokens, self.formula, self.name = list(tokens), formula, name

    def fail(self, what: str = "") -> None:
        problem = f"{what!r} is not understood" if what else "it ends too early"
        raise ParameterError(self.name, self.formula, f"{problem}; {GRAMMAR}")

    def sign(self, *signs: str) -> str:
        """The next token, if it is one of these."""
        return self.tokens.pop(0)[2] if self.tokens and self.tokens[0][2] in signs else ""

    def expect(self, sign: str) -> None:
        if not self.sign(sign):
            self.fail("".join(filter(None, self.tokens[0])) if self.tokens else "")

    def number(self) -> int | None:
        return int(self.tokens.pop(0)[1]) if self.tokens and self.tokens[0][1] else None

    def word(self) -> str:
        if not self.tokens or not self.tokens[0][0]:
            self.fail("".join(filter(None, self.tokens[0])) if self.tokens else "")
        return self.tokens.pop(0)[0].strip("`")

    def product(self) -> list[Term]:
        """Of factors by ":", or by "*": a * b is a + b + a:b."""
        terms: list[Term] = [self.interaction()]
        while self.sign("*"):
            right = self.interaction()
            terms += [right, *(_joined(left, right) for left in terms)]
        return terms

    def interaction(self) -> Term:
        term: Term = (self.factor(),)
        while self.sign(":"):
            term = _joined(term, (self.factor(),))
        return term

    def factor(self) -> Factor:
        word = self.word()
        if not self.sign("("):
            return Factor(word)
        if word not in ("C", "s"):
            self.fail(f"{word}(")
        column, df = self.word(), DF if word == "s" else 0
        if word == "s" and self.sign(","):
            if self.word() != "df":
                self.fail(",")
            self.expect("=")
            df = self.number() or 0
            if df < 1:
                raise ParameterError(self.name, self.formula, f"s({column}): df is a whole number >= 1")
        self.expect(")")
        return Factor(column, word, df)


def _joined(left: Term, right: Term) -> Term:
    return (*left, *(factor for factor in right if factor not in left))


# From terms to columns


def _table_of(given: Any, n: int, name: str) -> pd.DataFrame:
    if not isinstance(given, pd.DataFrame):
        values = np.asarray(given)
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or values.dtype.kind not in "biuf":
            raise ParameterError(
                name, given, "use a text such as '~ party + s(year)', a DataFrame, or an array of numbers"
            )
        given = pd.DataFrame(values.astype(np.float64), columns=[f"x{j + 1}" for j in range(values.shape[1])])
    if len(given) != n:
        raise ParameterError(name, given, f"it has {plural(len(given), 'row')}, and there are {plural(n, 'sample')}")
    return given


def _variable(factor: Factor, table: pd.DataFrame | None, formula: str, name: str) -> Column:
    """A column of numbers, or of texts; dates become numbers of years."""
    if table is None or factor.column not in {*map(str, table.columns)}:
        known = "there is no metadata" if table is None else f"there are {', '.join(map(str, table.columns))}"
        raise ParameterError(name, formula, f"there is no column {factor.column!r}; {known}")
    place = [str(column) for column in table.columns].index(factor.column)
    column = column_of(clean(factor.column), table.iloc[:, place])
    if column.kind == "date":
        column = replace(column, values=1970 + column.values / YEAR)  # noqa: PD011
    return column


def _codes(
    terms: Sequence[Term],
    intercept: bool,
    variables: Mapping[str, Column],
    formula: str,
    name: str,
    all_levels: bool = False,
) -> dict[str, list[tuple[Code, ...]]]:
    """What the columns of each term are products of. Levels of a factor are complete where nothing spans their sum so far."""
    spanned, found = {frozenset[Factor]()} if intercept else set(), {}
    for term in terms:
        codes = {factor: _code(factor, variables[factor.column], formula, name) for factor in term}
        if all_levels:
            found[_label(term)] = [tuple(replace(code, full=True) for code in codes.values())]
            continue
        numbers = {factor for factor in term if not codes[factor].levels}
        # a product of complete levels spans those of fewer factors: such parts that nothing spans yet are combined
        subsets = [numbers | {*some} for q in range(len(term) + 1) for some in combinations(codes.keys() - numbers, q)]
        order = sorted(subsets, key=lambda part: (len(part), [term.index(factor) for factor in term if factor in part]))
        parts = [(frozenset(part), frozenset[Factor]()) for part in order if frozenset(part) not in spanned]
        spanned |= {frozenset(part) for part in subsets}
        while pair := _absorbed(parts):
            few, many = pair
            parts[parts.index(many)] = (many[0], many[1] | (many[0] - few[0]))
            parts.remove(few)
        found[_label(term)] = [
            tuple(replace(codes[factor], full=factor in full) for factor in term if factor in part)
            for part, full in parts
        ]
    return found


def _label(term: Term) -> str:
    return ":".join(factor.label for factor in term)


Part = tuple[frozenset[Factor], frozenset[Factor]]  # factors, and those of them with all levels


def _absorbed(parts: Sequence[Part]) -> tuple[Part, Part] | None:
    """A part, and one that has a factor more, whose levels can be complete instead."""
    for few, many in combinations(parts, 2):
        if few[0] < many[0] and len(many[0] - few[0]) == 1 and few[1] == many[1]:
            return few, many
    return None


def _code(factor: Factor, column: Column, formula: str, name: str) -> Code:
    if factor.form == "s":
        return Code(factor, knots=_knots(factor, column, formula, name))
    if factor.form != "C" and column.kind != "text":
        return Code(factor)
    if len(levels := _levels(column)) < 2:
        raise ParameterError(name, formula, f"{factor.column} is {levels[0]} in all samples; remove it")
    return Code(factor, levels)


def _levels(column: Column) -> tuple[str, ...]:
    return column.levels or tuple(f"{value:.12g}" for value in np.unique(column.values))


def _knots(factor: Factor, column: Column, formula: str, name: str) -> Floats:
    if column.kind == "text":
        raise ParameterError(
            name, formula, f"{factor.label}: {factor.column} is text; only numbers and dates have splines"
        )
    knots = np.quantile(column.values, np.linspace(0, 1, factor.df + 1))
    if len(np.unique(knots)) <= factor.df:
        raise ParameterError(
            name,
            formula,
            f"{factor.label}: {plural(column.distinct, 'different value')} are too few; use a smaller df",
        )
    return knots


def _columns(blocks: Sequence[Sequence[Code]], variables: Mapping[str, Column]) -> Floats:
    columns = []
    for codes in blocks:
        parts = [_coded(code, variables) for code in codes]
        columns += [_product(parts, at) for at in _places(codes)]
    return np.column_stack(columns)


def _coded(code: Code, variables: Mapping[str, Column]) -> Floats:
    return code.columns(_values(code, variables))


def _values(code: Code, variables: Mapping[str, Column]) -> Floats:
    """Numbers, or places of levels, also of numbers that are levels."""
    column = variables[code.factor.column]
    values = column.values  # noqa: PD011
    if code.levels and code.levels != column.levels:  # numbers as levels, or a table with other levels
        places = {level: float(place) for place, level in enumerate(code.levels)}
        labels = [column.levels[int(v)] if column.levels else f"{v:.12g}" for v in np.nan_to_num(values)]
        return np.where(np.isnan(values), np.nan, [places.get(label, np.nan) for label in labels])
    return values


def _places(codes: Sequence[Code]) -> list[tuple[int, ...]]:
    """Which column of each factor a column of their product is made of."""
    return list(product(*(range(len(code.labels)) for code in codes)))


def _product(parts: Sequence[Floats | None], at: Sequence[int]) -> Any:
    return prod(part[:, j] for part, j in zip(parts, at, strict=True) if part is not None)


# Columns of a prior: centred and scaled, with all levels, as a fit keeps them for new samples.


def standardised(formula: str, table: pd.DataFrame | None, n: int, name: str) -> tuple[Record, Floats]:
    """What `rows_of` needs to make the same columns for new samples, in plain values; and the columns, without an intercept."""
    if not isinstance(formula, str):
        raise ParameterError(name, formula, "use a formula such as '~ party + s(year)', of columns of the metadata")
    if not parse(formula, name)[1]:
        raise ParameterError(name, formula, "a prior always has an intercept; remove 0")
    made = design(formula, table, n, name, all_levels=True)
    matrix = made.matrix[:, 1:]
    if not matrix.shape[1]:
        raise ParameterError(name, formula, f"it has no columns; {GRAMMAR}")
    scale = matrix.std(axis=0)
    told: Record = {
        "formula": formula,
        "columns": made.names[1:],
        "levels": {code.factor.label: list(code.levels) for code in made.codes if code.levels},
        "knots": {code.factor.label: code.knots.tolist() for code in made.codes if code.knots is not None},
        "means": matrix.mean(axis=0).tolist(),
        "scales": np.where(scale > 0, scale, 1).tolist(),
    }
    return told, (matrix - told["means"]) / told["scales"]


def rows_of(told: Record, table: pd.DataFrame | None, n: int, name: str) -> tuple[Floats, list[str]]:
    """The same columns of other samples. What is missing or unknown there is taken as the mean; with a remark on each."""
    columns, remarks = [], dict[str, None]()
    for term in parse(told["formula"], name)[0]:
        codes, variables = [], {}
        for factor in term:
            levels, knots = told["levels"].get(factor.label, ()), told["knots"].get(factor.label)
            codes.append(Code(factor, tuple(levels), True, None if knots is None else np.array(knots)))
            if table is None or factor.column not in {*map(str, table.columns)}:
                remarks[f"there is no {factor.column}"] = None
                variables[factor.column] = Column(factor.column, "number", np.full(n, np.nan))
                continue
            column = variables[factor.column] = _variable(factor, table, told["formula"], name)
            if column.kind == "text" and not levels:
                raise ParameterError(
                    name, told["formula"], f"{factor.column} is a number in the fit, and text in these samples"
                )
            if unknown := int(np.isnan(_values(codes[-1], variables)).sum()):
                remarks[f"{factor.column} is missing or unknown to the fit in {plural(unknown, 'sample')}"] = None
        block = _columns([codes], variables)
        for code in codes:
            block[np.isnan(_values(code, variables))] = np.nan
        columns.append(block)
    matrix = (np.hstack(columns) - told["means"]) / told["scales"]
    return np.where(np.isnan(matrix), 0, matrix), list(remarks)
