"""Bayesian Poisson factorisation (Paisley's notes):  l_ik ~ Gamma(a, b),  f_jk ~ Gamma(c, d), shapes and rates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmix.models.beliefs import Gammas
from unmix.models.poisson import column_sums
from unmix.models.variational import Variational

Floats = NDArray[np.float64]


def gamma_gamma(n_topics: int, a: float, b: float, c: float, d: float) -> Variational:
    ones = np.ones(n_topics)
    return Variational(Gammas(a * ones, b * ones), Gammas(c * ones, d * ones), totals_given=False)


def best_scales(L: Floats, F: Floats, a: float, b: float, c: float, d: float) -> Floats:
    """z that maximises the prior density of (L/z, F z), topic by topic: d u z² − [(c−1)m − (a−1)n] z − b v = 0."""
    u, v = column_sums(F), column_sums(L)
    middle = (c - 1) * len(F) - (a - 1) * len(L)
    root = np.sqrt(middle**2 + 4 * b * d * u * v)
    # two forms of the same root, each free of cancellation on its side of zero
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (middle + root) / (2 * d * u) if middle >= 0 else 2 * b * v / (root - middle)
    return np.where((u > 0) & (v > 0), z, 1.0)
