"""Bayesian Poisson factorisation (Paisley's notes):  l_ik ~ Gamma(a, b),  f_jk ~ Gamma(c, d), shapes and rates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmix.models.beliefs import Gammas
from unmix.models.poisson import column_sums
from unmix.models.variational import Variational

Floats = NDArray[np.float64]


def gamma_gamma(n_topics: int, a: float, b: float, c: float, d: float) -> Variational:
    ones = np.ones(n_topics)
    return Variational(Gammas(a * ones, b * ones), Gammas(c * ones, d * ones), totals_given=False)


def best_scales(L: Floats, F: Floats, a: ArrayLike, b: ArrayLike, c: ArrayLike, d: ArrayLike) -> Floats:
    """z that maximises the prior density of (L/z, F z), topic by topic: d u z² − [Σ(c−1) − Σ(a−1)] z − b v = 0.

    Shapes a and c are broadcast to L and F, rates b and d to the topics.
    """
    u, v = column_sums(F), column_sums(L)
    extra = [np.broadcast_to(np.asarray(s) - 1.0, factor.shape).sum(axis=0) for s, factor in ((c, F), (a, L))]
    middle = extra[0] - extra[1]
    d, b = np.asarray(d, dtype=np.float64), np.asarray(b, dtype=np.float64)
    root = np.sqrt(middle**2 + 4 * b * d * u * v)
    # two forms of the same root, each free of cancellation on its side of zero
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(middle >= 0, (middle + root) / (2 * d * u), 2 * b * v / (root - middle))
    return np.where((u > 0) & (v > 0), z, 1.0)
