"""What variational inference believes of one factor, and the priors that turn expected counts into beliefs.

All models here share one bound. With l̃ = exp E log l and f̃ = exp E log f,

    ELBO = Σ x log Σ_k l̃_ik f̃_jk − Σ log Γ(x+1) − Σ_k (Σ_i E l_ik)(Σ_j E f_jk) + bound(q(L)) + bound(q(F))

where bound(q) = E log prior − E log q. It is maximal in q(L) if that is `believe(counts, cost)`, counts being the expected
counts l̃_ik Σ_j x_ij f̃_jk / λ_ij of each topic, and cost the sums Σ_j E f_jk of the other factor. A model is a pair of priors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, digamma, gammaincinv, gammaln, xlogy

from unmix import kernels
from unmix.models.poisson import column_sums

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Belief:
    """q of one factor: its parameters, and what the bound and the pass over the nonzeros need of it."""

    parameters: Floats  # of each entry: the shape of a Gamma, the parameter of a Dirichlet, or the value itself
    rates: Floats  # of each topic, for a Gamma; ones otherwise
    geometric: Floats  # exp E log, each row divided by exp(shift)
    shifts: Floats
    sums: Floats  # column sums of the mean
    bound: float  # E log prior − E log q


class Prior(Protocol):
    def believe(self, counts: Floats, cost: Floats, threads: int = 1) -> Belief:
        """The best belief, given the expected counts of each topic and what a unit of it costs."""
        ...

    def at(self, parameters: Floats, rates: Floats | None = None, threads: int = 1) -> Belief:
        """The belief with these parameters."""
        ...

    def mean(self, belief: Belief) -> Floats: ...

    def deviation(self, belief: Belief) -> Floats:
        """Posterior standard deviations."""
        ...

    def quantile(self, belief: Belief, probability: float) -> Floats: ...

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        """All that is needed to have prior and belief back; topics, if any, on the last axis."""
        ...


@dataclass(frozen=True, eq=False)
class Gammas:
    """Entries ~ Gamma(shape_k, rate_k). Beliefs are Gamma(shape_k + counts, rate_k + cost_k)."""

    shape: Floats
    rate: Floats

    def believe(self, counts: Floats, cost: Floats, threads: int = 1) -> Belief:
        return self.at(self.shape + counts, self.rate + cost, threads)

    def at(self, parameters: Floats, rates: Floats | None = None, threads: int = 1) -> Belief:
        assert rates is not None
        rows = len(parameters)
        geometric, shifts, term = kernels.log_means(parameters, -np.log(rates), self.shape, threads=threads)
        sums = column_sums(parameters)
        prior = rows * (self.shape * np.log(self.rate / rates) - gammaln(self.shape)).sum()
        bound = term + prior + sums @ (1 - self.rate / rates)
        return Belief(parameters, rates, geometric, shifts, sums / rates, float(bound))

    def mean(self, belief: Belief) -> Floats:
        return belief.parameters / belief.rates

    def deviation(self, belief: Belief) -> Floats:
        return np.sqrt(belief.parameters) / belief.rates

    def quantile(self, belief: Belief, probability: float) -> Floats:
        return gammaincinv(belief.parameters, probability) / belief.rates

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        return {"": belief.parameters, "_rate": belief.rates, "_prior": self.shape, "_prior_rate": self.rate}


@dataclass(frozen=True, eq=False)
class DirichletRows:
    """Each row ~ Dirichlet(shape): proportions of the topics. Beliefs are Dirichlet(shape + counts)."""

    shape: Floats

    def believe(self, counts: Floats, cost: Floats, threads: int = 1) -> Belief:
        return self.at(self.shape + counts, threads=threads)

    def at(self, parameters: Floats, rates: Floats | None = None, threads: int = 1) -> Belief:
        ones = np.ones(len(self.shape))
        geometric, shifts, term = kernels.log_means(parameters, 0 * ones, self.shape, threads=threads)
        totals, total = parameters.sum(axis=1), self.shape.sum()
        prior = len(parameters) * (gammaln(total) - gammaln(self.shape).sum())
        bound = term + prior - gammaln(totals).sum() - (total - totals) @ digamma(totals)
        means = np.einsum("ik,i->k", parameters, 1 / totals)
        return Belief(parameters, ones, geometric, shifts - digamma(totals), means, float(bound))

    def mean(self, belief: Belief) -> Floats:
        return belief.parameters / belief.parameters.sum(axis=1, keepdims=True)

    def deviation(self, belief: Belief) -> Floats:
        return dirichlet_deviation(belief.parameters, axis=1)

    def quantile(self, belief: Belief, probability: float) -> Floats:
        return _beta_quantile(belief.parameters, 1, probability)

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        return {"": belief.parameters, "_prior": self.shape}


@dataclass(frozen=True, eq=False)
class DirichletColumns:
    """Each column ~ Dirichlet(shape): topics over features. Beliefs are Dirichlet(shape + counts)."""

    shape: Floats  # a number a feature

    def believe(self, counts: Floats, cost: Floats, threads: int = 1) -> Belief:
        return self.at(self.shape[:, None] + counts, threads=threads)

    def at(self, parameters: Floats, rates: Floats | None = None, threads: int = 1) -> Belief:
        totals, total = column_sums(parameters), self.shape.sum()
        geometric, shifts, term = kernels.log_means(parameters, -digamma(totals), self.shape[:, None], threads=threads)
        prior = len(totals) * (gammaln(total) - gammaln(self.shape).sum())
        bound = term + prior - gammaln(totals).sum() - (total - totals) @ digamma(totals)
        ones = np.ones(len(totals))
        return Belief(parameters, ones, geometric, shifts, ones, float(bound))

    def mean(self, belief: Belief) -> Floats:
        return belief.parameters / column_sums(belief.parameters)

    def deviation(self, belief: Belief) -> Floats:
        return dirichlet_deviation(belief.parameters, axis=0)

    def quantile(self, belief: Belief, probability: float) -> Floats:
        return _beta_quantile(belief.parameters, 0, probability)

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        return {"": belief.parameters, "_prior": self.shape[:, None]}


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that sum to one and are estimated, not believed: by maximum likelihood, or, with a Dirichlet prior of which
    `extra` is the parameter − 1 (m × K), by its mode."""

    extra: Floats | None = None

    def believe(self, counts: Floats, cost: Floats, threads: int = 1) -> Belief:
        weights = counts if self.extra is None else counts + self.extra
        sums = column_sums(weights)
        return self.at(np.divide(weights, sums, out=np.full_like(weights, 1 / len(weights)), where=sums > 0))

    def at(self, parameters: Floats, rates: Floats | None = None, threads: int = 1) -> Belief:
        rows, topics = parameters.shape
        bound = 0.0
        if self.extra is not None:
            normaliser = gammaln((self.extra + 1).sum(axis=0)) - gammaln(self.extra + 1).sum(axis=0)
            bound = float(normaliser.sum() + xlogy(self.extra, parameters).sum())
        return Belief(parameters, np.ones(topics), parameters, np.zeros(rows), np.ones(topics), bound)

    def mean(self, belief: Belief) -> Floats:
        return belief.parameters

    def deviation(self, belief: Belief) -> Floats:
        raise ValueError(
            "the topics are estimated, not believed, and so have no spread; give eta=... to believe in them"
        )

    def quantile(self, belief: Belief, probability: float) -> Floats:
        return self.deviation(belief)

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        return {"": belief.parameters}


def dirichlet_deviation(parameters: Floats, axis: int) -> Floats:
    """One entry of a Dirichlet is Beta(parameter, sum of the others)."""
    total = parameters.sum(axis=axis, keepdims=True)
    share = parameters / total
    return np.sqrt(share * (1 - share) / (total + 1))


def _beta_quantile(parameters: Floats, axis: int, probability: float) -> Floats:
    others = parameters.sum(axis=axis, keepdims=True) - parameters
    return np.where(others > 0, betaincinv(parameters, np.where(others > 0, others, 1.0), probability), 1.0)
