"""Samples: what is known about each (its group, a number, a date), a fair part of many samples, and those typical of a
topic."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from unmix.analysis.application import FitLike, fit_of
from unmix.base.checks import parameter
from unmix.base.types import Floats, Integers, Names, as_names, numbered, order_by_name
from unmix.counts.columns import column_of, natural, understood
from unmix.fit import Fit


class Scale(NamedTuple):
    """A number for each sample, NaN where unknown; dates are days since 1970, as matplotlib counts them."""

    numbers: Floats
    dates: bool


def fair_sample(labels: Integers, at_most: int, *, equal: bool = False) -> Integers:
    """At most this many of the samples, in their order: the same share of each group, but at least one of each.

    Parameters
    ----------
    labels : array of int
        The group of each sample.
    at_most : int
        How many.
    equal : bool, default=False
        The same number of each group instead, or all of a group that has fewer.

    Returns
    -------
    array of int
        Their places, the same ones every time.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> len(um.analysis.fair_sample(np.repeat([0, 1], [90, 10]), 20))
    20
    """
    if len(labels) <= at_most and not equal:
        return np.arange(len(labels))
    rng = np.random.default_rng(0)
    kept, present = [], np.unique(labels)
    for label in present:
        members = np.flatnonzero(labels == label)
        quota = min(len(members), max(1, at_most // len(present) if equal else len(members) * at_most // len(labels)))
        kept.append(rng.choice(members, quota, replace=False))
    return np.sort(np.concatenate(kept))


def typical_samples(fit: FitLike, n: int = 12) -> list[Integers]:
    """The samples most typical of each topic, the most typical first.

    By proportion, shrunk towards the share of the topic as if each sample had a few more counts of the usual kind, as many as
    a small sample has (a, the lower quartile of sizes s): (s p + a share) / (s + a). So a sample of three words does not win.
    Samples with less of a topic than its share in all counts are not typical of it.

    Parameters
    ----------
    fit : Fit, estimator or path
        With samples.
    n : int, default=12
        How many of each topic.

    Returns
    -------
    list of array of int
        Their row numbers, from 0, for each topic; at most `n` of them.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> [rows.tolist() for rows in um.analysis.typical_samples(fit, 2)]
    [[0, 1], [2, 3]]
    """
    fit = fit_of(fit)
    sizes = fit.sizes[:, None]
    extra = max(float(np.quantile(sizes, 0.25)), np.finfo(float).tiny)
    scores = (sizes * fit.proportions + extra * fit.shares) / (sizes + extra)
    found = []
    for p, score, share in zip(fit.proportions.T, scores.T, fit.shares, strict=True):
        best = np.argsort(-score, kind="stable")[:n]
        found.append(best[p[best] >= share * (1 - 1e-9)])
    return found


def values_of(fit: Fit, given: str | ArrayLike, what: str) -> pd.Series:
    """One value per sample: a column of the fit's metadata, or the values given. `what` names them in errors."""
    return column_or_values(fit.metadata, given, what, len(fit.L))


def column_or_values(table: pd.DataFrame | None, given: str | ArrayLike, what: str, n: int) -> pd.Series:
    """The same of any n samples and their metadata."""
    if isinstance(given, str):
        if table is None or given not in table:
            known = "there is no metadata" if table is None else f"choose one of {', '.join(map(str, table))}"
            raise ValueError(f"{what}: there is no column {given!r}; {known}")
        return table[given]
    values = pd.Series(given) if isinstance(given, pd.Series | pd.Categorical) else pd.Series(np.asarray(given))
    if len(values) != n:
        raise ValueError(f"{what}: {len(values)} values for {n} samples; use one per sample")
    return values


def by_sample_and_topic(samples: Names | None, names: Names | None = None, **values: Floats) -> pd.DataFrame:
    """A row for each sample and topic, of arrays that have one row per sample and a column per topic; `names` are those of
    topics."""
    n, K = next(iter(values.values())).shape
    places = {"sample": np.repeat(numbered(samples, "sample", n), K), "topic": np.tile(np.arange(1, K + 1), n)}
    named = {} if names is None else {"name": np.tile(names, n)}
    return pd.DataFrame(places | named | {name: array.ravel() for name, array in values.items()})


def groups(values: pd.Series) -> tuple[list[str], Integers]:
    """Names of the groups in their order, and the number of the group of each sample. Those without stand last."""
    if not isinstance(values.dtype, pd.CategoricalDtype):
        key = None if pd.api.types.is_numeric_dtype(values) else natural
        values = values.astype(pd.CategoricalDtype(sorted(values.dropna().unique(), key=key)))
    values = values.cat.remove_unused_categories()
    names, labels = [str(name) for name in values.cat.categories], values.cat.codes.to_numpy(dtype=np.intp)
    return ([*names, "(none)"], np.where(labels < 0, len(names), labels)) if (labels < 0).any() else (names, labels)


def scale(values: pd.Series) -> Scale | None:
    """Numbers as they are; dates, also as text in the forms of `dates`, as days. None if the values are neither."""
    if pd.api.types.is_bool_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype):
        return None
    values = understood(values)
    if pd.api.types.is_numeric_dtype(values):
        return Scale(values.to_numpy(dtype=np.float64, na_value=np.nan), dates=False)
    if not pd.api.types.is_datetime64_any_dtype(values):
        return None
    days = (values - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return Scale(days.to_numpy(dtype=np.float64, na_value=np.nan), dates=True)


def means_along(places: Floats, size: int) -> Integers:
    """Where bars begin that are drawn as means: of at least `size` samples that follow each other, and never parting those at
    the same place. `places` are in order, NaN last.

    >>> means_along(np.array([1.0, 1, 1, 2, 3, 4, 4, np.nan, np.nan]), 2)
    array([0, 3, 5, 7])
    """
    starts = [0]
    for i in range(1, len(places)):
        apart = places[i] != places[i - 1] and not (np.isnan(places[i]) and np.isnan(places[i - 1]))
        if i - starts[-1] >= size and apart:
            starts.append(i)
    if len(starts) > 1 and len(places) - starts[-1] < size and not np.isnan(places[-1]):
        starts.pop()  # too few for a bar of their own
    return np.array(starts)


def first_view(table: pd.DataFrame | None) -> dict[str, Any]:
    """What to show first: samples in the order of a column that shows time, else by the groups of the first column of text.
    As parameters of `unmix.plot.structure`."""
    table = pd.DataFrame() if table is None else table
    columns = [column_of(name, table[name]) for name in table.columns if isinstance(name, str)]
    for column in columns:
        if column.tells_time:
            return {"order": column.name}
    for column in columns:
        if column.kind == "text" and column.can_group and column.distinct > 1:
            return {"group": column.name}
    return {}


def column_of_groups(table: pd.DataFrame, name: str, group: Integers) -> str | None:
    """A column of texts that repeat, more of them than groups, each in one group only; `name` is the column of the groups."""
    for other in table:
        column = column_of(str(other), table[other])
        if other == name or column.kind != "text" or not len(np.unique(group)) < column.distinct <= len(group) / 2:
            continue
        known = ~np.isnan(column.values)
        if len(np.unique(np.column_stack([column.known, group[known]]), axis=0)) == column.distinct:
            return str(other)
    return None


def metadata_of(given: Any, own: pd.DataFrame | None, samples: Names | None, n: int) -> pd.DataFrame | None:
    """Metadata with one row per sample, in the order of n samples: those given, found by name, or else their own."""
    if given is None:
        return own
    if isinstance(given, str | os.PathLike):
        from unmix.io.read.names import join_metadata
        from unmix.io.read.raw_counts import RawCounts

        raw = RawCounts(np.zeros((n, 1)), None if samples is None else samples.tolist(), metadata=own)
        join_metadata(raw, Path(given))
        return raw.metadata
    table, names = given, None if isinstance(given, pd.DataFrame) else getattr(given, "samples", None)
    if hasattr(given, "obs"):
        table, names = given.obs, as_names([str(name) for name in given.obs_names])
    elif not isinstance(given, pd.DataFrame):
        table = getattr(given, "metadata", None)
    elif samples is not None and {*samples.tolist()} <= {*map(str, table.index)}:
        table = table[table.index.map(str).isin(samples.tolist())]
        names = as_names([str(name) for name in table.index])
    if not isinstance(table, pd.DataFrame):
        raise ValueError(f"{parameter('metadata')}: a {type(given).__name__} without any; use a table")
    rows = order_by_name("sample", (samples, n), (names, len(table)), where="metadata", reorder=True)
    return table if rows is None else table.iloc[rows]
