"""Multipliers of rates, x_ij ~ Poisson(e_gj Σ_k l_ik f_jk), g the group of sample i: which group each sample is in, what is known
of e, and which groups have effects that a fit estimates. They travel with the counts, as names and metadata do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from unmix.base.checks import parameter, short, warn
from unmix.base.types import Floats, Integers, Names, as_names, numbered, order_by_name
from unmix.counts.columns import columns_of

if TYPE_CHECKING:
    from unmix.counts.data import Data

MOST_NUMBERS, PER_NONZERO = 10_000_000, 4  # of a table of opportunities
FEW_FEATURES = 500  # to estimate effects from
SAID = 3  # columns of metadata that a warning names


@dataclass(frozen=True, eq=False)
class Multipliers:
    """What is known of the multipliers of samples.

    `groups` has the group of every sample, `labels` what groups are called. `known` is groups × features, None where all are
    one. `owners` has the batch of every group, and `batches` what batches are called; None where nothing is estimated.
    `weights` is how many samples each one represents; counts have been multiplied by it. `sets` are the different sets of topics
    that samples may have, and the number of each sample's; None where all topics are allowed.
    """

    groups: NDArray[np.int32]
    labels: Names
    known: Floats | None = None
    owners: NDArray[np.int32] | None = None
    batches: Names | None = None
    weights: Floats | None = None
    sets: tuple[NDArray[np.bool_], NDArray[np.int32]] | None = None
    set_names: tuple[str, ...] = ()  # of topics that the labels of samples name

    @property
    def plain(self) -> bool:
        """Whether all multipliers are one."""
        return self.known is None and self.owners is None

    @property
    def checksum(self) -> str:
        """Of all that decides rates."""
        sums = sha256()
        for array in (self.groups, self.known, self.owners):
            sums.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        return sums.hexdigest()[:16]

    @property
    def digest(self) -> str:
        """Of the topics that samples may have; "" where all may have all."""
        sets = b"" if self.sets is None else b"".join(np.ascontiguousarray(array).tobytes() for array in self.sets)
        return sha256(sets).hexdigest()[:16] if sets else ""

    def take(self, rows: Any) -> Self:
        weights = None if self.weights is None else self.weights[rows]
        sets = None if self.sets is None else (self.sets[0], self.sets[1][rows])
        return replace(self, groups=self.groups[rows], weights=weights, sets=sets)

    def with_features(self, places: Integers, features: int) -> Self:
        """Of features that have moved to these places, without those at −1; others have multiplier one."""
        if self.known is None:
            return self
        known, there = np.ones((len(self.known), features)), places >= 0
        known[:, places[there]] = self.known[:, there]
        return replace(self, known=known)

    def times(self, table: Floats, codes: Integers) -> Self:
        """These times the row of a table for each sample, given by its number."""
        pairs, groups = np.unique(np.column_stack([self.groups, codes]), axis=0, return_inverse=True)
        known = table[pairs[:, 1]] if self.known is None else table[pairs[:, 1]] * self.known[pairs[:, 0]]
        labels = as_names([str(self.labels[group]) for group in pairs[:, 0]])
        return replace(self, groups=groups.ravel().astype(np.int32), labels=labels, known=known)

    def made(self, kept: Mapping[str, NDArray[Any]]) -> bool:
        """Whether a fit that keeps this, as `Rates.arrays` has it, is one with these multipliers."""
        known = kept.get("known", None if "owners" in kept else kept["multipliers"])
        pairs = ((self.groups, kept["groups"]), (self.known, known), (self.owners, kept.get("owners")))
        for one, two in (*pairs, (self.batches, kept.get("batches"))):
            if (one is None) != (two is None) or (one is not None and two is not None and not np.array_equal(one, two)):
                return False
        return True


def with_multipliers(X: Any, batch: Any = None, opportunities: Any = None, *, estimated: bool = True) -> Any:
    """Data with what is known of their multipliers; an error if they have counts that these make impossible."""
    given = given_multipliers(X, batch, opportunities, estimated)
    other = X.with_multipliers(given)
    if given is not None and given.known is not None and not given.known.all():
        for part in other.parts():
            here, rows = part.multipliers, part.rows
            i = np.repeat(np.arange(len(part)), np.diff(rows.indptr))
            bad = np.flatnonzero(here.known[here.groups[i], rows.indices] == 0)
            if bad.size:
                row, j, x = i[bad[0]], rows.indices[bad[0]], rows.data[bad[0]]
                name, feature = numbered(part.samples, "sample", len(part))[row], part.features
                feature = str(feature[j]) if feature is not None else f"number {j + 1}"
                raise ValueError(
                    f"{_sample(name)} has {x:g} counts of feature {feature}, which was not measured there; set its "
                    "opportunity above 0, or remove the counts"
                )
    return other


def with_sets(X: Any, allowed: NDArray[np.bool_], names: list[str] | None = None) -> Any:
    """Data whose samples may have these topics, n × K, which have names."""
    n, (table, of) = X.shape[0], np.unique(allowed, axis=0, return_inverse=True)
    if (none := np.flatnonzero(~allowed.any(axis=1))).size:
        name = numbered(X.samples, "sample", n)[none[0]]
        raise ValueError(f"{_sample(name)} may have no topic; allow at least one")
    none_given = Multipliers(np.zeros(n, np.int32), as_names([""]))
    given = X.multipliers or none_given
    sets = (np.ascontiguousarray(table), of.ravel().astype(np.int32))
    return X.with_multipliers(replace(given, sets=sets, set_names=tuple(names or ())))


def weighted(X: Any, weights: Any) -> Any:
    """Counts of which each sample represents several: multiplied by that number. Loadings are divided by it in the end."""
    if not X.in_memory:
        raise ValueError("sample_weight is for counts in memory; repeat samples when you make the shards")
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (X.shape[0],):
        raise ValueError(f"sample_weight has shape {w.shape}; use a number per sample ({X.shape[0]:,})")
    if not np.isfinite(w).all() or (w <= 0).any():
        place = int(np.flatnonzero(~(np.isfinite(w) & (w > 0)))[0])
        name = numbered(X.samples, "sample", X.shape[0])[place]
        raise ValueError(f"the weight of {_sample(name)} is {w[place]:g}; use weights > 0, and remove other samples")
    given = X.multipliers
    none = Multipliers(np.zeros(X.shape[0], np.int32), as_names([""]))
    of_counts = w[X.sides().left.owners]
    other = X.with_values(X.rows.data * of_counts).with_multipliers(replace(given or none, weights=w))
    x = X.rows.data
    # so that log-likelihoods are those of the samples, as often as they count
    other.__dict__["log_factorials"] = float((of_counts * (gammaln(x + 1) + xlogy(x, of_counts))).sum())
    other.__dict__["facts"] = X.facts | {"checksum": other.facts["checksum"]}
    return other


def given_multipliers(X: Data, batch: Any, opportunities: Any, estimated: bool = True) -> Multipliers | None:
    """From what a user gives; None if all are one. Without `estimated`, labels of batches say only which opportunities are
    theirs."""
    n = X.shape[0]
    names = None if batch is None else labels_of(X, batch, "batch")
    batches, codes = (None, np.zeros(n, np.int64)) if names is None else np.unique(names, return_inverse=True)
    table, rows, titles = (None, None, None) if opportunities is None else _opportunities(X, opportunities, names)
    if table is not None and (table == 1).all():
        table = None
    if names is not None and batches is not None and estimated:
        _check_batches(X, names, batches, codes)
    effects = batches is not None and estimated
    if table is None and not effects:
        return None
    if table is None:
        own = np.arange(len(batches), dtype=np.int32)  # type: ignore[arg-type]
        return Multipliers(codes.astype(np.int32), as_names(batches.tolist()), None, own, as_names(batches.tolist()))  # type: ignore[union-attr]
    assert rows is not None
    assert titles is not None
    if not effects:
        return Multipliers(rows.astype(np.int32), as_names(titles), table)
    assert batches is not None
    pairs, groups = np.unique(np.column_stack([codes, rows]), axis=0, return_inverse=True)
    single = len(pairs) == len(batches)
    labels = [str(batches[b]) if single else f"{batches[b]}, {titles[o]}" for b, o in pairs]
    return Multipliers(
        groups.ravel().astype(np.int32),
        as_names(labels),
        table[pairs[:, 1]],
        pairs[:, 0].astype(np.int32),
        as_names(batches.tolist()),
    )


def labels_of(X: Data, given: Any, what: str) -> Names:
    """A label for every sample, from a column of the metadata or as they are given."""
    n = X.shape[0]
    if isinstance(given, str):
        table = X.metadata
        if table is None or given not in table:
            columns = "there is no metadata" if table is None else f"it has {', '.join(map(str, table.columns[:8]))}"
            raise ValueError(
                f"{parameter(what, given)}: the metadata has no such column ({columns}); use one, or a label per sample"
            )
        given = table[given]
    values = pd.Series(np.asarray(given, dtype=object) if not isinstance(given, pd.Series) else given.to_numpy(object))
    if np.ndim(values.to_numpy()) != 1 or len(values) != n:
        raise ValueError(f"{what} has {len(values):,} labels for {n:,} samples; use one label per sample")
    texts = values.map(lambda value: str(int(value)) if isinstance(value, float) and value.is_integer() else str(value))
    missing = values.isna() | (texts.str.strip() == "")
    if missing.any():
        name = numbered(X.samples, "sample", n)[int(np.flatnonzero(missing)[0])]
        raise ValueError(f"the {what} of {_sample(name)} is missing; use a name such as unknown")
    return as_names(texts.tolist())


def _sample(name: str) -> str:
    return name if str(name).startswith("sample ") else f"sample {name}"


def _check_batches(X: Data, labels: Names, batches: Names, codes: Integers) -> None:
    """Refuse labels from which nothing can be learned, and warn where little can."""
    n = len(codes)
    if len(batches) == 1:
        raise ValueError("all samples are of one batch; leave batch out")
    if len(batches) == n:
        raise ValueError("every sample is a separate batch: that is overdispersion; use labels that samples share")
    single = np.flatnonzero(np.bincount(codes) == 1)
    if single.size:
        warn(
            f"batch {batches[single[0]]} has one sample; its effects cannot be separated from what that sample is made of"
        )
    if X.shape[1] < FEW_FEATURES:
        warn(
            f"effects of batches are estimated from {X.shape[1]} features, which is few: topics can take the place of "
            "effects; use opportunities if the multipliers are known"
        )
    table = X.metadata
    own = [] if table is None else [name for name in table if table[name].astype(str).tolist() == labels.tolist()]
    columns = columns_of(table if table is None else table.drop(columns=own))
    nested = [
        column.name for column in columns if column.can_group and column.distinct > 1 and _nested(column.values, codes)
    ]
    for name in nested[:SAID]:
        warn(f"{name}: every value is found in one batch alone; its differences count as batch effects")


def _nested(values: Floats, codes: Integers) -> bool:
    known = ~np.isnan(values)
    pairs = np.unique(np.column_stack([values[known], codes[known]]), axis=0)
    return len(pairs) == len(np.unique(pairs[:, 0])) and len(np.unique(pairs[:, 1])) > 1


def _opportunities(X: Data, given: Any, batch: Names | None) -> tuple[Floats, Integers, list[str]]:
    """Different rows of opportunities, the number of the row of each sample, and what rows are called."""
    n, m = X.shape
    if isinstance(given, pd.DataFrame):
        return _labelled(X, given, batch)
    if sp.issparse(given):
        given = sp.csr_array(given)
        if given.shape != (n, m):
            raise ValueError(f"opportunities has shape {given.shape}; a sparse table is {n:,} samples × {m:,} features")
        given.sort_indices()
        rows, firsts = _different(
            given.indices[slice(*given.indptr[i : i + 2])].tobytes()
            + given.data[slice(*given.indptr[i : i + 2])].tobytes()
            for i in range(n)
        )
        _check_size(X, len(firsts))
        table = np.ones((len(firsts), m))
        for place, i in enumerate(firsts):
            stored = slice(*given.indptr[i : i + 2])
            table[place, given.indices[stored]] = given.data[stored]
        return _checked(X, table), rows, _numbered(len(firsts))
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "opportunities are not numbers; use a number per feature, a row per sample, or a DataFrame"
        ) from None
    if array.shape == (m,):
        return _checked(X, array[None]), np.zeros(n, np.int64), _numbered(1)
    if array.shape != (n, m):
        raise ValueError(
            f"opportunities has shape {array.shape}; use {m:,} numbers, {n:,} samples × {m:,} features, or a DataFrame with "
            "a row per label"
        )
    array = np.ascontiguousarray(array)
    rows, firsts = _different(row.tobytes() for row in array)
    _check_size(X, len(firsts))
    return _checked(X, array[firsts]), rows, _numbered(len(firsts))


def _labelled(X: Data, table: pd.DataFrame, batch: Names | None) -> tuple[Floats, Integers, list[str]]:
    """A row per label: of a column of the metadata that the index is named after, of batches, or of samples."""
    n, m = X.shape
    index = [str(label) for label in table.index]
    if len({*index}) < len(index):
        twice = next(label for label in index if index.count(label) > 1)
        raise ValueError(f"opportunities has two rows for {twice}; use one row per label")
    column = table.index.name
    if column is not None and X.metadata is not None and column in X.metadata:
        labels, what = labels_of(X, str(column), str(column)), str(column)
    elif batch is not None and {*index} >= {*batch.tolist()}:
        labels, what = batch, "batch"
    elif X.samples is not None and {*index} & {*X.samples.tolist()}:
        labels, what = X.samples, "sample"
    elif len(table) == 1:
        labels, what = as_names(index * n), "row"
    elif len(table) == n and isinstance(table.index, pd.RangeIndex):
        labels, what = as_names(index), "sample"
    else:
        raise ValueError(
            f"the rows of opportunities ({', '.join(short(label, 40) for label in index[:3])}, …) are neither samples nor "
            "batches; name the index after the column of metadata that holds these labels"
        )
    place = {label: row for row, label in enumerate(index)}
    if absent := [label for label in np.unique(labels).tolist() if label not in place]:
        raise ValueError(f"opportunities has no row for {what} {absent[0]}; use one row per label")
    columns = as_names([str(name) for name in table.columns])
    known = None if isinstance(table.columns, pd.RangeIndex) else columns
    order = order_by_name("feature", (X.features, m), (known, table.shape[1]), reorder=True)
    try:
        array = table.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("opportunities are not numbers; use a table of numbers >= 0") from None
    array = np.ascontiguousarray(array if order is None else array[:, order])
    used = np.unique(labels)
    of_label, firsts = _different(array[place[label]].tobytes() for label in used.tolist())
    _check_size(X, len(firsts))
    rows = of_label[np.searchsorted(used, labels)]
    titles = used.tolist() if len(firsts) == len(used) else _numbered(len(firsts))
    return _checked(X, array[[place[str(used[first])] for first in firsts]]), rows, titles


def _numbered(n: int) -> list[str]:
    return [f"opportunities {place + 1}" for place in range(n)]


def _different(rows: Iterable[bytes]) -> tuple[Integers, list[int]]:
    """The number of each row among different ones, and where each of those is first."""
    seen: dict[bytes, int] = {}
    firsts: list[int] = []
    numbers = []
    for place, row in enumerate(rows):
        if row not in seen:
            seen[row] = len(firsts)
            firsts.append(place)
        numbers.append(seen[row])
    return np.array(numbers, dtype=np.int64), firsts


def _check_size(X: Data, different: int) -> None:
    if (numbers := different * X.shape[1]) > max(MOST_NUMBERS, PER_NONZERO * X.nnz):
        raise ValueError(
            f"opportunities of {different:,} different rows × {X.shape[1]:,} features are {numbers:,} numbers, more than "
            f"{PER_NONZERO} per count that is not zero; use rows that samples share, one per label"
        )


def _checked(X: Data, table: Floats) -> Floats:
    bad = ~(np.isfinite(table) & (table >= 0))
    if bad.any():
        row, j = np.argwhere(bad)[0]
        feature = numbered(X.features, "feature", X.shape[1])[j]
        raise ValueError(f"opportunities of {feature} are {table[row, j]:g} in row {row + 1}; use finite numbers >= 0")
    return table
