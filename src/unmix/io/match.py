"""New counts brought to the features of a model, by name where both have names and by position otherwise."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from unmix.base.types import in_place
from unmix.counts.counts import Counts
from unmix.fit import Fit


@dataclass(frozen=True)
class Matched:
    """Counts whose columns are the model's features; how many of those were missing, and how many others unknown."""

    counts: Counts
    missing: int
    unknown: int


def match_features(counts: Counts, fit: Fit) -> Matched:
    """Missing features count 0 everywhere; unknown ones are left out."""
    if in_place("feature", (fit.features, len(fit.F)), (counts.features, counts.shape[1]), where="the matrix"):
        return Matched(counts, 0, 0)
    assert counts.features is not None
    place = {name: j for j, name in enumerate(fit.feature_names)}
    if len(place) < len(fit.F):
        raise ValueError("features of the model share a name; give counts with the same features in the same order")
    to = np.array([place.get(name, -1) for name in counts.features])
    known = np.flatnonzero(to >= 0)
    if not known.size:
        raise ValueError(
            f"no feature has a name that the model knows (such as {fit.feature_names[0]!s}); compare the spelling"
        )
    moved = counts.with_features(to, fit.feature_names)
    return Matched(moved, len(fit.F) - len(set(to[known])), counts.shape[1] - known.size)


# Catalogues of known factors, such as COSMIC's signatures: a table features × factors, as a DataFrame or a text file.

TRINUCLEOTIDE = re.compile(r"[ACGT][CT][ACGT]")


def read_catalogue(catalogue: pd.DataFrame | str | os.PathLike[str]) -> pd.DataFrame:
    """Features × factors, with the names of both. A file ends in .csv, or its columns are divided by tabs.

    Of the columns those that are not numbers name the features: one, or a substitution and its trinucleotide, C>A and ACA.
    """
    if isinstance(catalogue, pd.DataFrame):
        table, where = catalogue, "the catalogue"
    else:
        where = str(catalogue)
        if not Path(catalogue).is_file():
            raise ValueError(f"{where}: no such file; give a catalogue, a table of features × factors")
        table = pd.read_csv(catalogue, sep="," if Path(catalogue).suffix.lower() == ".csv" else "\t")
        table = _with_named_rows(table, where)
    if not len(table) or not len(table.columns):
        raise ValueError(f"{where}: holds no table; give features × factors")
    for name, column in table.items():
        if not pd.api.types.is_numeric_dtype(column) or column.isna().any() or (column < 0).any():
            raise ValueError(f"{where}: the column {str(name)!r} has entries that are not numbers >= 0")
    table = table.set_axis([str(name) for name in table.index], axis=0).set_axis([str(name) for name in table], axis=1)
    if not table.index.is_unique:
        raise ValueError(f"{where}: two rows are called {table.index[table.index.duplicated()][0]!r}; give each once")
    return table.astype(float)


def _with_named_rows(table: pd.DataFrame, where: str) -> pd.DataFrame:
    words = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    if len(words) == 2:
        change, around = (table[name].astype(str) for name in words)
        if around.map(lambda text: bool(TRINUCLEOTIDE.fullmatch(text))).all():
            names = [f"{bases[0]}[{one}]{bases[2]}" for one, bases in zip(change, around, strict=True)]
            return table.drop(columns=words).set_axis(names, axis=0)
    if len(words) > 1:
        raise ValueError(f"{where}: the column {str(words[1])!r} does not hold numbers; give features × factors")
    return table.set_index(words[0] if words else table.columns[0])
