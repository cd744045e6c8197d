"""Latent Dirichlet allocation, in the Dirichlet–Poisson form of Geiger and Park.

    l*_i ~ Dirichlet(α),   f*_k ~ Dirichlet(η) or estimated,   x_i | t_i ~ Multinomial(t_i, Σ_k l*_ik f*_k)

Given the totals t_i this is x_ij ~ Poisson(Σ_k l*_ik f*_jk) up to the constant Σ_i log t_i! + n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma

from unmix.models.beliefs import Belief, Columns, DirichletColumns, DirichletRows
from unmix.models.variational import Variational

Floats = NDArray[np.float64]


def lda(alpha: Floats, eta: Floats | None) -> Variational:
    right = Columns() if eta is None else DirichletColumns(eta)
    return Variational(DirichletRows(alpha), right, totals_given=True)


def best_alpha(alpha: Floats, belief: Belief) -> Floats:
    """Maximises the bound over α, given the beliefs γ: Newton's method in O(K) (Minka), which never makes it worse.

    objective = n [log Γ(Σα) − Σ log Γ(α_k)] + Σ_k α_k g_k,   g_k = Σ_i [ψ(γ_ik) − ψ(Σ_k γ_ik)]
    """
    if len(alpha) == 1:
        return alpha  # a single topic has all of every sample, whatever α is
    gamma = belief.parameters
    n = len(gamma)
    g = (digamma(gamma) - digamma(gamma.sum(axis=1))[:, None]).sum(axis=0)

    def objective(a: Floats) -> float:
        return float(n * (gammaln(a.sum()) - gammaln(a).sum()) + a @ g)

    value = objective(alpha)
    for _ in range(100):
        gradient = n * (digamma(alpha.sum()) - digamma(alpha)) + g
        q, z = -n * polygamma(1, alpha), n * polygamma(1, alpha.sum())
        step = (gradient - (gradient / q).sum() / (1 / z + (1 / q).sum())) / q
        length = 1.0
        while (alpha - length * step <= 0).any() or objective(alpha - length * step) < value:
            length /= 2
            if length < 1e-10:
                return alpha
        alpha = alpha - length * step
        gain, value = objective(alpha) - value, objective(alpha)
        if gain <= 1e-10 * abs(value):
            break
    return alpha
