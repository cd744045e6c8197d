"""Topics side by side: how far apart they are, and which topic of one fit is which of another."""

from __future__ import annotations

from typing import Literal

import numpy as np

from unmix.fit import Fit
from unmix.models.matching import hellinger_distances, match_columns
from unmix.types import Floats


def match_topics(one: Fit, two: Fit, by: Literal["samples", "features"] = "features") -> dict[int, int]:
    """For columns of topics of fit one their partners in fit two, one to one; of the larger fit some have none.

    By the features of topics, or by the proportions of samples, Σ √(p q) over all pairs is the largest there is.
    """
    _check_same(one, two, by)
    if by == "samples":
        return match_columns(one.proportions, two.proportions)
    return match_columns(one.topics, two.topics)


def topic_distances(one: Fit, two: Fit | None = None) -> Floats:
    """Hellinger distances, 0 to 1, between each topic of fit one (rows) and each of fit two (columns), or of fit one itself."""
    if two is not None:
        _check_same(one, two, "features")
        return hellinger_distances(one.topics, two.topics)
    distances = hellinger_distances(one.topics, one.topics)
    np.fill_diagonal(distances, 0)
    return distances


def _check_same(one: Fit, two: Fit, what: Literal["samples", "features"]) -> None:
    """Two fits have the same samples, or features: as many, and of the same names where both have names."""
    sizes = (len(one.L), len(two.L)) if what == "samples" else (len(one.F), len(two.F))
    if sizes[0] != sizes[1]:
        raise ValueError(f"fit one has {sizes[0]} {what} and fit two {sizes[1]}; give fits of the same {what}")
    first, second = (one.samples, two.samples) if what == "samples" else (one.features, two.features)
    if first is not None and second is not None and len(different := np.flatnonzero(first != second)):
        i = different[0]
        raise ValueError(
            f"{what[:-1]} {i + 1} is {str(first[i])!r} in fit one and {str(second[i])!r} in fit two; "
            f"give fits of the same {what} in the same order"
        )
