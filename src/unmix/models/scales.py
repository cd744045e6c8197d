"""The best scale of each topic under Gamma priors on both factors: (L/z, F z) has the same rates for every z."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unmix.sides import Sides, column_sums
from unmix.types import Factor, Floats


def bound_scales(
    on_L: tuple[Floats, Floats], on_F: tuple[Floats, Floats], n: float, m: int, L_sums: Floats, F_sums: Floats
) -> Floats:
    """z for which the bound is best if q becomes that of (L/z, F z), topic by topic: d u z² − (c m − a n) z − b v = 0.

    (a, b) and (c, d) are shapes and rates of the priors; u the sums of E f over the m features, v those of E l over the n
    samples. The rates of X stay, so this costs no pass over the data; without it topics creep towards their scale, iteration by
    iteration.
    """
    (a, b), (c, d) = on_L, on_F
    return _root(d * F_sums, m * c - n * a, b * L_sums)


def best_scales(L: Factor, F: Factor, a: ArrayLike, b: ArrayLike, c: ArrayLike, d: ArrayLike) -> Floats:
    """z that maximises the prior density of (L/z, F z), topic by topic: d u z² − [Σ(c−1) − Σ(a−1)] z − b v = 0.

    Shapes a and c are broadcast to L and F, rates b and d to the topics.
    """
    u, v = column_sums(F), column_sums(L)
    extra = [np.broadcast_to(np.asarray(s) - 1.0, factor.shape).sum(axis=0) for s, factor in ((c, F), (a, L))]
    middle = extra[0] - extra[1]
    return _root(np.asarray(d) * u, middle, np.asarray(b) * v)


def scaled_counts(
    sides: Sides, L: Factor, F: Factor, a: ArrayLike, b: ArrayLike, c: ArrayLike, d: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    """Expected counts of each topic in samples (n × K) and features (m × K), each with the column sums of the other factor,
    once topics are scaled as Gamma(a, b) on L and Gamma(c, d) on F like them best."""
    z = best_scales(L, F, a, b, c, d)
    L, F = L / z, F * z
    A, B, xlog = sides.both_numerators(L, F)
    if not np.isfinite(xlog):
        raise ValueError(
            "a count has a rate of zero, so it is impossible; give its sample and feature some weight in init"
        )
    return L * A, column_sums(F), F * B, column_sums(L)


def _root(square: Floats, middle: Floats, constant: Floats) -> Floats:
    """The positive root of square z² − middle z − constant = 0; 1 for a topic that has nothing on one side."""
    root = np.sqrt(middle**2 + 4 * square * constant)
    # two forms of the same root, each free of cancellation on its side of zero
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(middle >= 0, (middle + root) / (2 * square), 2 * constant / (root - middle))
    return np.where((square > 0) & (constant > 0), z, 1.0)
