"""Which topic is which: the columns of two matrices, paired one to one so that pairs are most alike.

For columns f and g that each sum to one

    affinity Σ_j √(f_j g_j)     1 where they are the same, 0 where they have nothing in common
    Hellinger distance √(1 − affinity) = ‖√f − √g‖ / √2

As Σ (√f − √g)² = Σ f + Σ g − 2 Σ √(f g), and a column without a partner costs its own Σ f, the pairs of the largest sum of
affinities are those of the smallest sum of squared distances, also where columns do not sum to one.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from unmix.base.types import Floats, Integers


def affinities(one: Floats, two: Floats) -> Floats:
    """Of each column of one matrix (rows of the result) and each of the other (columns of the result)."""
    return np.sqrt(one).T @ np.sqrt(two)


def hellinger_distances(one: Floats, two: Floats) -> Floats:
    """Between each column of one matrix and each of the other, both with columns that sum to one."""
    return np.sqrt(np.clip(1 - affinities(one, two), 0, 1))


def best_pairs(closeness: Floats) -> dict[int, int]:
    """For rows of a matrix their columns: the pairs, each row and each column in one at most, of the largest sum."""
    rows, columns = linear_sum_assignment(closeness, maximize=True)
    return dict(zip(rows.tolist(), columns.tolist(), strict=True))


def match_columns(one: Floats, two: Floats) -> dict[int, int]:
    """For columns of one matrix those of the other with which they have the largest sum of affinities."""
    return best_pairs(affinities(one, two))


def match_to_first(matrices: Floats) -> list[Integers]:
    """For each of several matrices of one shape the order of columns that puts them where the first has those most like them."""
    return [linear_sum_assignment(affinities(matrices[0], matrix), maximize=True)[1] for matrix in matrices]
