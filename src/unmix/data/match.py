"""New counts brought to the features of a model, by name where both have names and by position otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unmix.counts import Counts
from unmix.fit import Fit


@dataclass(frozen=True)
class Matched:
    """Counts whose columns are the model's features; how many of those were missing, and how many others unknown."""

    counts: Counts
    missing: int
    unknown: int


def match_features(counts: Counts, fit: Fit) -> Matched:
    """Missing features count 0 everywhere; unknown ones are left out."""
    if counts.features is None or fit.features is None or np.array_equal(counts.features, fit.features):
        if counts.shape[1] != len(fit.F):
            raise ValueError(
                f"{counts.shape[1]:,} features for a model of {len(fit.F):,}; "
                "without names on both sides they must be the same, in the same order"
            )
        return Matched(counts, 0, 0)
    place = {name: j for j, name in enumerate(fit.features)}
    if len(place) < len(fit.features):
        raise ValueError("features of the model share a name; give counts with the same features in the same order")
    to = np.array([place.get(name, -1) for name in counts.features])
    known = np.flatnonzero(to >= 0)
    if not known.size:
        raise ValueError(
            f"no feature has a name that the model knows (such as {fit.features[0]!s}); compare the spelling"
        )
    moved = counts.with_features(to, fit.features)
    return Matched(moved, len(fit.F) - len(set(to[known])), counts.shape[1] - known.size)
