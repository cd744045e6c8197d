"""Two facts about Dirichlet distributions: how far an entry spreads, and which concentration explains beliefs best."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from unmix.types import Floats


def dirichlet_sd(parameters: Floats, axis: int) -> Floats:
    """Standard deviations. One entry of a Dirichlet is Beta(parameter, sum of the others)."""
    total = parameters.sum(axis=axis, keepdims=True)
    share = parameters / total
    return np.sqrt(share * (1 - share) / (total + 1))


def log_shares(gamma: Floats) -> Floats:
    """g_k = Σ_i [ψ(γ_ik) − ψ(Σ_k γ_ik)]: what beliefs γ of many samples say of the concentration they share."""
    return (digamma(gamma) - digamma(gamma.sum(axis=1))[:, None]).sum(axis=0)


def best_concentration(alpha: Floats, n: int, g: Floats) -> Floats:
    """Maximises the bound over α, given `log_shares` of n samples: Newton's method in O(K) (Minka), which never makes it worse.

    objective = n [log Γ(Σα) − Σ log Γ(α_k)] + Σ_k α_k g_k
    """
    if len(alpha) == 1:
        return alpha  # a single topic has all of every sample, whatever α is

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
