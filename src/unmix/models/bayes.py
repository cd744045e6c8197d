"""Bayesian Poisson factorisation (Paisley's notes):  l_ik ~ Gamma(a, b),  f_jk ~ Gamma(c, d), shapes and rates."""

from __future__ import annotations

import numpy as np

from unmix.models.beliefs import Gammas
from unmix.models.variational import Variational


def gamma_gamma(n_topics: int, a: float, b: float, c: float, d: float) -> Variational:
    ones = np.ones(n_topics)
    return Variational(Gammas(a * ones, b * ones), Gammas(c * ones, d * ones))
