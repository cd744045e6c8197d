"""What differences between topics are tested on, checked: proportions of samples, their counts, sizes and groups."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from unmix.analysis.samples import groups as groups_of
from unmix.counts import Counts, CountsLike, Names
from unmix.data.match import match_features
from unmix.estimators import from_fit
from unmix.estimators.base import CountsEstimator, generator
from unmix.fit import Fit
from unmix.models.differences import WORDS
from unmix.models.matching import affinities, match_columns
from unmix.shards import Shards
from unmix.types import Floats, Seed

FEW_GROUPS = 5  # cannot tell how much groups differ

Known = Fit | CountsEstimator | ArrayLike


class Material(NamedTuple):
    """Samples of a size above zero: what they are made of, and counts that are tested."""

    proportions: Floats
    counts: Counts
    sizes: Floats
    labels: NDArray[np.int32] | None  # of groups
    likeness: Floats | None  # of topics that were found in the counts that are not held out to those of the fit, 0 to 1

    @property
    def pooled(self) -> Floats:
        """f0: the rate of each feature in all samples."""
        return self.counts.feature_totals / self.sizes.sum()

    @property
    def n_groups(self) -> int:
        return 0 if self.labels is None else int(self.labels.max()) + 1

    @property
    def fractional(self) -> float:
        """The part of the values that are not whole numbers."""
        values = self.counts.rows.data
        return float((values % 1 != 0).mean()) if len(values) else 0.0


def checked(fit: Known, X: CountsLike) -> tuple[int, Counts]:
    """The number of topics, and the counts, of the same samples."""
    if isinstance(X, Shards):
        raise ValueError(
            "X is shards; differences are found in memory: fit shards.sample, or shards.take(rows), and ask with that fit"
        )
    counts = X if isinstance(X, Counts) else Counts(X)
    return proportions_of(fit, counts).shape[1], counts


def material_of(
    fit: Known,
    counts: Counts,
    groups: ArrayLike | None,
    held_out: float | None,
    sizes: ArrayLike | None,
    random_state: Seed,
) -> Material:
    """All that is known, or found in the counts that are not held out."""
    labels, size = labels_of(fit, groups, counts), sizes_of(sizes, counts)
    if held_out is None:
        proportions, likeness = proportions_of(fit, counts), None
    else:
        proportions, counts, likeness = split(fit, counts, held_out, random_state)
        size = counts.sample_totals if sizes is None else size
    kept = np.flatnonzero(size > 0)
    if len(kept) < 2:
        raise ValueError("fewer than 2 samples have a size above 0; there is nothing to compare")
    if len(kept) < len(size):
        counts, size, proportions = counts.take(kept), size[kept], proportions[kept]
        labels = None if labels is None else np.unique(labels[kept], return_inverse=True)[1].astype(np.int32)
    if labels is not None and not labels.any():
        raise ValueError("groups: all samples with a size above 0 are of one group; give at least 2")
    return Material(proportions, counts, size, labels, likeness)


def column_of(against: str | int, topics: int) -> str | int:
    """The word, or the column of the topic."""
    if topics < 2:
        raise ValueError("there is one topic only, and none to compare it with; fit at least 2")
    if against in WORDS:
        return str(against)
    if isinstance(against, str) or not isinstance(against, Integral) or not 1 <= against <= topics:
        words = ", ".join(map(repr, WORDS))
        raise ValueError(f"against={against!r}; choose one of {words}, or the number of a topic, 1 to {topics}")
    return int(against) - 1


def proportions_of(fit: Known, counts: Counts) -> Floats:
    """Of the samples, which must be those of the fit."""
    if isinstance(fit, CountsEstimator):
        fit = fit.result_
    if isinstance(fit, Fit):
        proportions = fit.proportions
        if fit.samples is not None and counts.samples is not None:
            _check_names(fit.samples, counts.samples)
    else:
        proportions = np.asarray(fit, dtype=float)
        if proportions.ndim != 2 or not np.isfinite(proportions).all() or (proportions < 0).any():
            raise ValueError("proportions are not a table of finite numbers >= 0; give samples × topics, or a Fit")
        sums = proportions.sum(axis=1)
        if len(off := np.flatnonzero(np.abs(sums - 1) > 1e-3)):
            raise ValueError(f"row {off[0]} of the proportions sums to {sums[off[0]]:.4g}; divide each row by its sum")
        proportions = proportions / sums[:, None]
    if len(proportions) != len(counts):
        raise ValueError(
            f"there are proportions of {len(proportions)} samples and counts of {len(counts)}; give the same"
        )
    return proportions


def _check_names(known: Names, given: Names) -> None:
    if len(known) == len(given) and len(different := np.flatnonzero(known != given)):
        i = different[0]
        raise ValueError(
            f"sample {i + 1} is {str(known[i])!r} in the fit and {str(given[i])!r} in X; "
            "give the samples of the fit in the same order"
        )


def sizes_of(given: ArrayLike | None, counts: Counts) -> Floats:
    if given is None:
        return counts.sample_totals
    sizes = np.asarray(given, dtype=float)
    if sizes.shape != (len(counts),) or not np.isfinite(sizes).all() or (sizes < 0).any():
        raise ValueError(
            f"sizes of shape {sizes.shape}; give a finite number >= 0 for each of the {len(counts)} samples"
        )
    return sizes


def labels_of(fit: Known, groups: ArrayLike | None, counts: Counts) -> NDArray[np.int32] | None:
    """The number of the group of each sample."""
    if groups is None:
        return None
    values: pd.Series
    if isinstance(groups, str):
        held = fit.result_ if isinstance(fit, CountsEstimator) else fit
        tables = [held.metadata if isinstance(held, Fit) else None, counts.metadata]
        table = next((one for one in tables if one is not None and groups in one), None)
        if table is None:
            raise ValueError(f"groups: there is no column {groups!r} in the metadata; give a group for each sample")
        values = table[groups]
    else:
        values = pd.Series(groups) if isinstance(groups, pd.Series | pd.Categorical) else pd.Series(np.asarray(groups))
    if len(values) != len(counts):
        raise ValueError(f"groups: {len(values)} values for {len(counts)} samples; give one for each")
    if values.isna().any():
        raise ValueError(f"groups: {int(values.isna().sum())} samples have none; give one for each, or leave them out")
    names, labels = groups_of(values)
    if len(names) < 2:
        raise ValueError("groups: all samples are of one group, which cannot tell how groups differ; give at least 2")
    if len(names) < FEW_GROUPS:
        warnings.warn(
            f"{len(names)} groups are too few to tell how much groups differ; errors are rough guesses",
            UserWarning,
            stacklevel=3,
        )
    return labels.astype(np.int32)


def split(fit: Known, counts: Counts, held_out: float, random_state: Seed) -> tuple[Floats, Counts, Floats]:
    """Proportions by topics that are found in one part of the counts; the other part; and how much in the same samples these
    topics are as those of the fit whose numbers they have."""
    if not isinstance(held_out, Real) or not 0 < held_out < 1:
        raise ValueError(
            f"held_out={held_out!r}; give a part of the counts between 0 and 1, such as 0.5, or leave it out"
        )
    if not isinstance(fit, Fit | CountsEstimator):
        raise ValueError("held_out needs a Fit or an estimator, to fit it again to a part of the counts; give one")
    counts.require_whole("held_out", "or leave held_out away")
    known = fit if isinstance(fit, Fit) else fit.result_
    model = from_fit(fit) if isinstance(fit, Fit) else clone(fit)
    rng = generator(random_state)
    tested, shown = counts.thinned((held_out, 1 - held_out), rng)
    model.set_params(init="auto", random_state=int(rng.integers(2**31)), callbacks=[], verbose=False)
    matched = match_features(shown, known)
    if matched.missing:
        raise ValueError(f"{matched.missing} features of the fit are not in X; held_out fits them again: give them too")
    found = model.fit(matched.counts).result_
    partners = match_columns(known.topics, found.topics)
    proportions = found.proportions[:, [partners[k] for k in range(known.n_topics)]]
    return (
        proportions,
        tested,
        np.diag(affinities(*(_by_topic(known.sizes, p) for p in (known.proportions, proportions)))),
    )


def _by_topic(sizes: Floats, proportions: Floats) -> Floats:
    """The part of each topic that is in each sample."""
    weights = sizes[:, None] * proportions
    return weights / np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
