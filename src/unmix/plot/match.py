"""Which topic of one fit is which of another. Needs no matplotlib."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Floats = NDArray[np.float64]


def matched(closeness: Floats) -> dict[int, int]:
    """For rows of a matrix their columns: the pairs, each row and each column in one at most, of the largest sum."""
    rows, columns = linear_sum_assignment(closeness, maximize=True)
    return dict(zip(rows.tolist(), columns.tolist(), strict=True))


def match_proportions(one: Floats, two: Floats) -> dict[int, int]:
    """For topics of fit one those of fit two that bring the proportions closest, in sum of squared Hellinger distances.

    As Σ (√p − √q)² = Σ p + Σ q − 2 Σ √(p q), and a topic without a partner costs its own Σ p, that is the matching of the
    largest Σ √(p q).
    """
    return matched(np.sqrt(one).T @ np.sqrt(two))


def similarities(one: Floats, two: Floats) -> Floats:
    """1 − √(1 − Σ √(f g)), 1 minus the Hellinger distance, for each topic f of fit one (rows) and g of fit two."""
    overlap = np.sqrt(one).T @ np.sqrt(two)
    return 1 - np.sqrt(np.clip(1 - overlap, 0, 1))


def check_same(
    what: str, sizes: tuple[int, int], names: tuple[NDArray[np.str_] | None, NDArray[np.str_] | None]
) -> None:
    """Two fits have the same samples, or features (`what`): as many, and of the same names where both have names."""
    if sizes[0] != sizes[1]:
        raise ValueError(f"fit one has {sizes[0]} {what}s and fit two {sizes[1]}; give fits of the same {what}s")
    one, two = names
    if one is not None and two is not None and len(different := np.flatnonzero(one != two)):
        i = different[0]
        raise ValueError(
            f"{what} {i + 1} is {str(one[i])!r} in fit one and {str(two[i])!r} in fit two; "
            f"give fits of the same {what}s in the same order"
        )
