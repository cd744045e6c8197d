"""Tables of mutations whose types stand in two columns, as SigProfiler writes them: "C>A" and "ACA" are A[C>A]A."""

from __future__ import annotations

import re

import pandas as pd

SUBSTITUTION = re.compile(r"[CT]>[ACGT]")
CONTEXT = re.compile(r"[ACGT][CT][ACGT]")
JOINED = re.compile(r"[ACGT]\[[CT]>[ACGT]\][ACGT]")
FIRST = 3  # columns, among which the two are looked for


def with_mutation_types(header: list[str], table: pd.DataFrame) -> tuple[list[str], pd.DataFrame]:
    """A table that begins with the types of mutations in one column, if they stood in two; any other as it is.

    COSMIC's second version has a third column with both already, which is as good.

    >>> table = pd.DataFrame([["C>A", "ACA", 5], ["T>G", "GTC", 7]])
    >>> header, table = with_mutation_types(["Mutation type", "Trinucleotide", "Tumour 1"], table)
    >>> header, table[0].tolist()
    (['Mutation type', 'Tumour 1'], ['A[C>A]A', 'G[T>G]C'])
    """
    said = {}
    for column in range(min(FIRST, len(header))):
        for pattern in (SUBSTITUTION, CONTEXT, JOINED):
            if pattern not in said and _all(pattern, table[column]):
                said[pattern] = column
    if SUBSTITUTION not in said or CONTEXT not in said:
        return header, table
    pairs = list(zip(table[said[SUBSTITUTION]], table[said[CONTEXT]], strict=True))
    if any(context[1] != substitution[0] for substitution, context in pairs):
        return header, table
    types = [f"{context[0]}[{substitution}]{context[2]}" for substitution, context in pairs]
    others = [column for column in range(len(header)) if column not in said.values()]
    joined = pd.concat([pd.Series(types, index=table.index, dtype=object), table[others]], axis=1)
    return [header[said[SUBSTITUTION]], *(header[j] for j in others)], joined.set_axis(range(len(others) + 1), axis=1)


def _all(pattern: re.Pattern[str], cells: pd.Series) -> bool:
    """Whether all cells are such, the first ones of most tables telling that they are not."""
    return len(cells) > 0 and all(isinstance(cell, str) and pattern.fullmatch(cell) for cell in cells)
