"""Topics side by side: how far apart they are, and which topic of one fit is which of another."""

from __future__ import annotations

from typing import Literal

import numpy as np

from unmix.fit import Fit
from unmix.models.matching import hellinger_distances, match_columns
from unmix.types import Floats


def match_topics(one: Fit, two: Fit, by: Literal["samples", "features"] = "features") -> dict[int, int]:
    """Which topic of fit two is which of fit one.

    Σ √(p q) over all pairs is the largest there is.

    Parameters
    ----------
    one, two : Fit
        Of the same features, or samples, in the same order.
    by : str, default="features"
        By the "features" of topics, or by the proportions of "samples".

    Returns
    -------
    dict of int to int
        For columns of topics of fit one their partners in fit two, one to one; of the larger fit some have none.

    Raises
    ------
    ValueError
        If the features, or samples, are not the same.

    See Also
    --------
    compare : The same with distances, by names.

    Examples
    --------
    >>> import unmix as um
    >>> one = um.PoissonNMF.from_factors([[8, 0], [2, 5], [0, 5]]).result_
    >>> two = um.PoissonNMF.from_factors([[0, 9], [4, 1], [6, 0]]).result_
    >>> um.analysis.match_topics(one, two)
    {0: 1, 1: 0}
    """
    _check_same(one, two, by)
    if by == "samples":
        return match_columns(one.proportions, two.proportions)
    return match_columns(one.topics, two.topics)


def topic_distances(one: Fit, two: Fit | None = None) -> Floats:
    """Hellinger distances between topics.

    Parameters
    ----------
    one : Fit
        Its topics are the rows.
    two : Fit, default=None
        Its topics are the columns; None for those of fit one.

    Returns
    -------
    array, K × K of the other
        0 for the same, 1 for topics without a feature in common.

    Raises
    ------
    ValueError
        If the features are not the same.

    Examples
    --------
    >>> import unmix as um
    >>> um.analysis.topic_distances(um.PoissonNMF.from_factors([[8, 0], [2, 0], [0, 5]]).result_)
    array([[0., 1.],
           [1., 0.]])
    """
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
