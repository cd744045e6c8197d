"""Facts about Dirichlet distributions: how far an entry spreads, which concentration explains beliefs or counts best, and
quantiles of an entry of which mean and mean logarithm are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, digamma, gammaln, polygamma

from unmix.types import Floats

FIXED_POINTS = 10  # steps towards a prior each time
LEAST, MOST = 1e-3, 1e3  # of a prior found that way
NEWTON_STEPS = 12  # for a quantile


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


def most_probable(prior: Floats, counts: NDArray[np.integer], same: bool = False) -> Floats:
    """A Dirichlet prior after some fixed-point steps towards the one under which rows of counts are most probable; with `same`,
    one number for all."""
    totals = counts.sum(axis=1)
    for _ in range(FIXED_POINTS):
        above = digamma(prior + counts).sum(axis=0) - len(counts) * digamma(prior)
        below = (digamma(prior.sum() + totals) - digamma(prior.sum())).sum()
        prior = prior * (above.mean() if same else above) / max(below, np.finfo(float).tiny)
        prior = np.clip(prior, LEAST, MOST)
    return prior


def beta_quantile(mean: Floats, log_mean: Floats, probability: float) -> Floats:
    """The quantile of the Beta distribution with this mean and mean logarithm: ψ(a) − ψ(a / mean) = log_mean, solved for log a by
    Newton's method from the solution for a Gamma distribution (Minka)."""
    inside = (mean > 0) & (mean < 1)
    mu = np.where(inside, mean, 0.5)
    s = np.maximum(np.log(mu) - np.where(inside, log_mean, np.log(0.5) - 0.1), 1e-12)
    a = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
    a = a * np.maximum(1 - mu, 0.1)
    for _ in range(NEWTON_STEPS):
        gap = digamma(a) - digamma(a / mu) - (np.log(mu) - s)
        slope = a * polygamma(1, a) - a / mu * polygamma(1, a / mu)
        a = a * np.exp(np.clip(-gap / slope, -2, 2))
    return np.where(inside, betaincinv(a, a * (1 / mu - 1), probability), mean)
