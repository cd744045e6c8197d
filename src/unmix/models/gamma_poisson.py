"""Gamma–Poisson (Geiger and Park, algorithm 7; Canny's GaP):  l_ik ~ Gamma(shape_k, rate_k),  columns of F sum to one
(estimated, or believed with a Dirichlet(η) prior).

With equal rates it is LDA with α = shape and a negative binomial for the sample totals (their lemmas E.1 and E.3).
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from unmix.models.beliefs import DirichletColumns, Gammas, PointTopics
from unmix.models.variational import Variational
from unmix.types import Floats


def gamma_poisson(shape: Floats, rate: Floats, eta: Floats | None = None) -> Variational:
    return Variational(Gammas(shape, rate), PointTopics() if eta is None else DirichletColumns(eta))


def log_total(totals: Floats, shape: Floats, rate: float) -> Floats:
    """log p(t_i): the negative binomial by which Gamma–Poisson with equal rates differs from LDA (lemma E.1)."""
    A = np.sum(shape)
    return gammaln(A + totals) - gammaln(A) - gammaln(totals + 1) + A * np.log(rate) - (A + totals) * np.log1p(rate)
