"""The best scale of each topic under Gamma priors on both factors: (L/z, F z) has the same rates for every z."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmix.models.beliefs import Belief, Gammas
from unmix.models.poisson import column_sums

Floats = NDArray[np.float64]


def bound_scales(left: Gammas, right: Gammas, q_right: Belief, n: float, sums: Floats) -> Floats:
    """z for which the bound is best if q becomes that of (L/z, F z), topic by topic: d u z² − (c m − a n) z − b v = 0.

    u are the sums of E f over the m features, v = `sums` those of E l over the n samples. The rates of X stay, so this costs no
    pass over the data; without it topics creep towards their scale, iteration by iteration.
    """
    middle = len(q_right.parameters) * right.shape - n * left.shape
    return _root(right.rate * q_right.sums, middle, left.rate * sums)


def best_scales(L: Floats, F: Floats, a: ArrayLike, b: ArrayLike, c: ArrayLike, d: ArrayLike) -> Floats:
    """z that maximises the prior density of (L/z, F z), topic by topic: d u z² − [Σ(c−1) − Σ(a−1)] z − b v = 0.

    Shapes a and c are broadcast to L and F, rates b and d to the topics.
    """
    u, v = column_sums(F), column_sums(L)
    extra = [np.broadcast_to(np.asarray(s) - 1.0, factor.shape).sum(axis=0) for s, factor in ((c, F), (a, L))]
    middle = extra[0] - extra[1]
    return _root(np.asarray(d) * u, middle, np.asarray(b) * v)


def _root(square: Floats, middle: Floats, constant: Floats) -> Floats:
    """The positive root of square z² − middle z − constant = 0; 1 for a topic that has nothing on one side."""
    root = np.sqrt(middle**2 + 4 * square * constant)
    # two forms of the same root, each free of cancellation on its side of zero
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(middle >= 0, (middle + root) / (2 * square), 2 * constant / (root - middle))
    return np.where((square > 0) & (constant > 0), z, 1.0)
