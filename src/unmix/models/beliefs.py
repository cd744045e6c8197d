"""Beliefs of variational inference: q of one factor, the priors that make it of expected counts, facts about Dirichlet laws.

Facts about Dirichlet distributions: how far an entry spreads, which concentration explains beliefs or counts best, and
quantiles of an entry of which mean and mean logarithm are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, digamma, gammaincinv, gammaln, polygamma, xlogy

from unmix import kernels
from unmix.base.types import Factor, Floats, Record
from unmix.counts.sides import FeatureSums, Side, column_sums
from unmix.kernels import Hierarchy

if TYPE_CHECKING:
    from unmix.counts.counts import Counts

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
    """The quantile of the Beta distribution with this mean and mean logarithm: ψ(a) − ψ(a / mean) = log_mean, solved for log a
    by Newton's method from the solution for a Gamma distribution (Minka)."""
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


# What variational inference believes of one factor, and the priors that turn expected counts into beliefs.
#
# All models here share one bound. With l̃ = exp E log l and f̃ = exp E log f,
#
#     ELBO = Σ x log Σ_k l̃_ik f̃_jk − Σ log Γ(x+1) − Σ_k (Σ_i E l_ik)(Σ_j E f_jk) + bound(q(L)) + bound(q(F))
#
# where bound(q) = E log prior − E log q. It is maximal in q(L) if that is `update(counts, cost)`, counts being the expected
# counts l̃_ik Σ_j x_ij f̃_jk / λ_ij of each topic, and cost the sums Σ_j E f_jk of the other factor. A model is a pair of priors.

LEAST_SHARE = 1e-8  # of a feature in a topic to begin with: a zero would stay zero forever
# of an even share, for a feature that momentum moves out of a topic: from 2^-t it would take t steps to come back
LEAST_MOVED = 1e-7


@dataclass(frozen=True, eq=False)
class Belief:
    """q of one factor: its parameters, and what the bound and the pass over the nonzeros need of it."""

    parameters: Floats  # of each entry: the shape of a Gamma, the parameter of a Dirichlet, or the value itself
    # of each topic, for a Gamma, or of each entry where rates of counts have multipliers; ones otherwise. With rates of rows too,
    # what is added to those; or of each entry
    rates: Floats
    geometric: Floats  # exp E log, each row divided by exp(shift)
    shifts: Floats
    sums: Floats  # column sums of the mean
    bound: float  # E log prior − E log q


class ScaleTerms(NamedTuple):
    """What the prior of a factor says of the scale of its topics: entries ~ Gamma(shape_k, rate_k)."""

    shape: Floats
    rate: Floats


class Prior(ABC):
    """The prior of one factor. A kind of prior is a subclass, and nothing outside of it knows which kinds there are.

    `arrays` and `restore` are inverse to each other: a saved fit holds the arrays, and the name of the class.
    """

    kinds: ClassVar[dict[str, type[Prior]]] = {}
    proportions: ClassVar[bool] = False  # whether, as prior of loadings, it is one of shares of totals that are given
    own_scale: ClassVar[bool] = False  # whether entries have a scale of their own; if not, rows or columns sum to one
    rates_of_rows: ClassVar[bool] = (
        False  # whether rates of beliefs differ from row to row: rescaling a topic is then no exact block
    )
    regressed: ClassVar[bool] = False  # whether, as prior of factors, `moved` goes further than an update
    fits: ClassVar[bool] = (
        False  # whether, as prior of loadings, it is `learned` in every iteration, and moves on with beliefs
    )
    told: ClassVar[Record] = {}  # what a fit keeps of it besides arrays, among what it remembers of its data

    def __init_subclass__(cls) -> None:
        Prior.kinds[cls.__name__] = cls

    # What the bound and the solvers need

    @abstractmethod
    def update(self, counts: Floats, cost: Floats) -> Belief:
        """The best belief, given the expected counts of each topic and what a unit of it costs."""

    def printed(self, counts: Floats, cost: Floats, last: Belief) -> Belief:
        """The update as its paper prints it, from the last belief, where that is a different one."""
        return self.update(counts, cost)

    @abstractmethod
    def belief(self, parameters: Floats, rates: Floats | None = None) -> Belief:
        """The belief with these parameters."""

    def start(self, shares: Floats, totals: Floats, cost: Floats) -> Belief:
        """The belief to begin with at a maximum-likelihood fit, whose expected counts are `shares` · `totals`."""
        return self.update(totals * shares, cost)

    def shape_and_rates(self, cost: Floats) -> tuple[Floats, Floats]:
        """As prior of loadings: its shape, and the rates of beliefs if a unit costs this, a number per topic each."""
        raise ValueError(f"{type(self).__name__} cannot be a prior on loadings")

    def row_rates(self, rates: Floats) -> tuple[Floats, Hierarchy | None]:
        """As prior of loadings, where beliefs have these rates: what to multiply q of the factors by, and how rows differ."""
        return 1 / rates, None

    def rates_of(self, belief: Belief) -> Floats:
        """As prior of loadings: what a count of each topic is divided by, per topic or per entry."""
        return np.ones(belief.parameters.shape[1])

    def infer(
        self,
        side: Side,
        other: Belief,
        start: Belief | Floats | None,
        totals: Floats,
        *,
        steps: int,
        tolerance: float,
        cost: Floats | None = None,
    ) -> Belief:
        """As prior of loadings: the best belief given q of the factors, by up to `steps` updates γ ← prior + expected counts of
        each row. From a belief, from parameters (with the rates that are best now), or (None) from counts spread evenly. `cost`
        is what a unit costs, the sums of q of the factors if it is not given."""
        prior, rates = self.shape_and_rates(other.sums if cost is None else cost)

        def loop(parameters: Floats, rates: Floats, steps: int) -> Floats:
            scale, hierarchy = self.row_rates(rates)
            return side.infer(
                other.geometric, scale, parameters, prior, steps=steps, tolerance=tolerance, hierarchy=hierarchy
            )

        if start is None:
            start = prior + totals[:, None] / len(prior)
        elif isinstance(start, Belief):
            # the first expected counts are those under the old rates, or the bound might fall
            old, start = start.rates, start.parameters
            if not np.array_equal(old, rates):
                start, steps = loop(start, old, 1), steps - 1
        return self.belief(loop(start, rates, steps) if steps else start, rates)

    def moved(self, side: Side, other: Belief, belief: Belief, counts: Floats, cost: Floats | None = None) -> Belief:
        """As prior of factors: a belief that is better given q of the loadings, `counts` being the expected ones. An `update`,
        or a longer step, which the caller has to check: the bound may fall."""
        return self.update(counts, other.sums if cost is None else cost)

    def stepped(self, sums: FeatureSums, belief: Belief, totals: Floats, cost: Floats) -> Belief:
        """The same where data are visited in parts, from sums with exp E log of the loadings; only where it is `regressed`."""
        raise ValueError(f"{type(self).__name__} has no step but an update")

    def beyond(self, new: Belief, old: Belief, beta: float) -> Belief:
        """The belief with parameters that are `further` along the last change."""
        return self.belief(further(new, old, beta), new.rates)

    def statistics(self, belief: Belief) -> Floats:
        """What `learned` needs to know of beliefs, added up over samples."""
        return np.zeros(0)

    def learned(self, n: int, statistics: Floats) -> Self:
        """With the hyper-parameters that make the bound highest at beliefs of n samples that have these statistics."""
        raise ValueError(f"the parameters of {type(self).__name__} are not learned; use them")

    @property
    def penalty(self) -> float:
        """Minus the logarithm of the density of what is `learned`, up to a constant."""
        return 0.0

    # Where a prior of loadings differs from sample to sample

    @property
    def of_samples(self) -> dict[str, Floats]:
        """Arrays with one row per sample that it follows from, for `at`."""
        return {}

    def at(self, arrays: Mapping[str, Floats]) -> Self:
        """Of the samples with these rows of `of_samples`."""
        return self

    def compact(self, cost: Floats) -> Floats:
        """The rates of beliefs if a unit costs this, where samples are elsewhere; there, they are `expanded`."""
        return self.shape_and_rates(cost)[1]

    def expanded(self, rates: Floats) -> Floats:
        """Rates of the beliefs of the samples at hand, from compact ones."""
        return rates

    def at_start(self, sample: Counts, F: Factor) -> Self:
        """What it is to begin with, at topics F, from a sample of the data."""
        return self

    def ahead(self, last: Self, beta: float) -> Self:
        """With what is `learned` β times further along the last change."""
        return self

    def scale_terms(self) -> ScaleTerms | None:
        """Where entries have a scale of their own, that of beliefs being 1 / rates: what the prior says of it."""
        return None

    def scale_sums(self, belief: Belief) -> Floats:
        """Where there are `scale_terms`, what the best scale depends on, added up over rows: Σ_i E l_ik."""
        return belief.sums

    def conditioned(self, factors: Floats) -> Floats:
        """As prior of factors without a scale: what of them sums to one in every topic."""
        return factors

    def matches(self, other: Prior, values: bool = True) -> bool:
        """Whether it is of the same kind, with hyper-parameters of the same shapes, and of the same values if asked."""
        same = np.array_equal if values else lambda one, two: np.shape(one) == np.shape(two)
        return type(self) is type(other) and all(same(value, vars(other)[name]) for name, value in vars(self).items())

    # What can be asked of a belief

    @abstractmethod
    def mean(self, belief: Belief) -> Floats: ...

    @abstractmethod
    def standard_deviation(self, belief: Belief) -> Floats: ...

    @abstractmethod
    def quantile(self, belief: Belief, probability: float) -> Floats: ...

    # What is kept of it

    @abstractmethod
    def arrays(self, belief: Belief) -> dict[str, Floats]:
        """All that is needed to have prior and belief back; topics, if any, on the last axis. "" are the parameters."""

    @classmethod
    @abstractmethod
    def restore(cls, arrays: Mapping[str, Floats]) -> tuple[Self, Belief]:
        """The prior and the belief that `arrays` was taken from."""

    @classmethod
    def without_rows(cls, arrays: Mapping[str, Floats], lost: Floats) -> dict[str, Floats]:
        """`arrays` of topics from which rows were cut, which once summed to `lost` times what is left of them."""
        return dict(arrays)


@dataclass(frozen=True, eq=False)
class Gammas(Prior):
    """Entries ~ Gamma(shape_k, rate_k). Beliefs are Gamma(shape_k + counts, rate_k + cost_k)."""

    shape: Floats
    rate: Floats
    own_scale: ClassVar[bool] = True

    def update(self, counts: Floats, cost: Floats) -> Belief:
        return self.belief(self.shape + counts, self.rate + cost)

    def belief(self, parameters: Floats, rates: Floats | None = None) -> Belief:
        if rates is None:
            raise ValueError("a Gamma belief needs rates")
        rows = len(parameters)
        if rates.ndim == 2:
            return self._of_entries(parameters, rates)
        geometric, shifts, term = kernels.log_means(parameters, -np.log(rates), self.shape)
        sums = column_sums(parameters)
        prior = rows * (self.shape * np.log(self.rate / rates) - gammaln(self.shape)).sum()
        bound = term + prior + sums @ (1 - self.rate / rates)
        return Belief(parameters, rates, geometric, shifts, sums / rates, float(bound))

    def _of_entries(self, parameters: Floats, rates: Floats) -> Belief:
        """Where every entry has a rate; without rows they are rates of groups."""
        if not len(parameters):
            return Belief(parameters, rates, parameters, np.zeros(0), np.zeros(len(self.shape)), 0.0)
        geometric, shifts, term = kernels.log_means(parameters, -np.log(rates), self.shape)
        means = parameters / rates
        prior = (self.shape * np.log(self.rate / rates)).sum() - len(parameters) * gammaln(self.shape).sum()
        bound = term + prior + (parameters - self.rate * means).sum()
        return Belief(parameters, rates, geometric, shifts, column_sums(means), float(bound))

    def shape_and_rates(self, cost: Floats) -> tuple[Floats, Floats]:
        return self.shape, self.rate + cost

    def row_rates(self, rates: Floats) -> tuple[Floats, Hierarchy | None]:
        return super().row_rates(rates) if rates.ndim == 1 else (np.ones(len(self.shape)), Hierarchy(rates))

    def scale_terms(self) -> ScaleTerms:
        return ScaleTerms(self.shape, self.rate)

    def entry_rates(self, parameters: Floats, rates: Floats) -> Floats:
        """Of the beliefs with these parameters and rates: a rate per topic, or per entry."""
        return rates

    def rates_of(self, belief: Belief) -> Floats:
        return self.entry_rates(belief.parameters, belief.rates)

    def mean(self, belief: Belief) -> Floats:
        return belief.parameters / self.entry_rates(belief.parameters, belief.rates)

    def standard_deviation(self, belief: Belief) -> Floats:
        return np.sqrt(belief.parameters) / self.entry_rates(belief.parameters, belief.rates)

    def quantile(self, belief: Belief, probability: float) -> Floats:
        return gammaincinv(belief.parameters, probability) / self.entry_rates(belief.parameters, belief.rates)

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        return {"": belief.parameters, "_rate": belief.rates, "_prior": self.shape, "_prior_rate": self.rate}

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats]) -> tuple[Self, Belief]:
        prior = cls(arrays["_prior"], arrays["_prior_rate"])
        return prior, prior.belief(arrays[""], arrays["_rate"])


# Hierarchical Poisson factorisation (Gopalan, Hofman, Blei 2015). With p = rate_shape + Σ_k shape_k and s = rate_shape / rate,
#
#     l_ik ~ Gamma(shape_k, ξ_i)                 q = Gamma(g_ik, E ξ_i + cost_k),  g = shape + counts
#     ξ_i ~ Gamma(rate_shape, s), mean `rate`    q = Gamma(p, s + Σ_k E l_ik)
#
# Given g and cost, both are best at once for one E ξ_i, the root of one equation (`kernels.means_of_rates`): so a belief is its g
# and the cost, and nothing of ξ has to be kept. In the paper they take turns: q(l) by the last q(ξ), then q(ξ) (`printed`).


@dataclass(frozen=True, eq=False)
class HierarchicalGammas(Gammas):
    """Entries ~ Gamma(shape_k, rate of their row); rates of rows ~ Gamma(rate_shape, rate_shape / rate). `rate` and
    `rate_shape` are one number, written for every topic. Rates of beliefs are the cost, to which the mean rate of the row is
    to be added."""

    rate_shape: Floats
    rates_of_rows: ClassVar[bool] = True

    @property
    def _of_rates(self) -> tuple[float, float]:
        """Shape of q of the rate of a row, and the rate of its prior."""
        return float(self.rate_shape[0] + self.shape.sum()), float(self.rate_shape[0] / self.rate[0])

    def mean_rates(self, belief: Belief) -> Floats:
        """E ξ of every row."""
        shape, rate = self._of_rates
        return shape / (rate + self.mean(belief).sum(axis=1))

    def scale_sums(self, belief: Belief) -> Floats:
        """Σ_i E ξ_i E l_ik of every topic; then, with M_i = Σ_k E l_ik, the curvature Σ_i p s M_i / (s + M_i)² along a scale
        that all topics share, with which ξ moves."""
        means, (shape, rate) = self.mean(belief), self._of_rates
        sums = rate + means.sum(axis=1)
        return np.append((shape / sums) @ means, (shape * rate * (sums - rate) / sums**2).sum())

    def update(self, counts: Floats, cost: Floats) -> Belief:
        return self.belief(self.shape + counts, cost)

    def printed(self, counts: Floats, cost: Floats, last: Belief) -> Belief:
        return self.belief(self.shape + counts, self.mean_rates(last)[:, None] + cost)

    def belief(self, parameters: Floats, rates: Floats | None = None) -> Belief:
        if rates is None:
            raise ValueError("a Gamma belief needs rates")
        entries = self.entry_rates(parameters, rates)
        logs = np.log(entries)
        geometric, shifts, term = kernels.log_means(parameters, -logs, self.shape)
        means = parameters / entries
        shape, rate = self._of_rates
        constant = gammaln(shape) - gammaln(self.shape).sum() - gammaln(self.rate_shape[0])
        constant += self.rate_shape[0] * np.log(rate)
        of_rows = constant - shape * np.log(rate + means.sum(axis=1)) + parameters.sum(axis=1) - logs @ self.shape
        return Belief(parameters, rates, geometric, shifts, column_sums(means), float(term + of_rows.sum()))

    def entry_rates(self, parameters: Floats, rates: Floats) -> Floats:
        if rates.ndim == 2:
            return rates
        return kernels.means_of_rates(parameters, Hierarchy(rates, *self._of_rates))[:, None] + rates

    def shape_and_rates(self, cost: Floats) -> tuple[Floats, Floats]:
        return self.shape, cost

    def row_rates(self, rates: Floats) -> tuple[Floats, Hierarchy | None]:
        return np.ones(len(rates)), Hierarchy(rates, *self._of_rates)

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        return super().arrays(belief) | {"_rate_shape": self.rate_shape}

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats]) -> tuple[Self, Belief]:
        prior = cls(arrays["_prior"], arrays["_prior_rate"], arrays["_rate_shape"])
        return prior, prior.belief(arrays[""], arrays["_rate"])


@dataclass(frozen=True, eq=False)
class Dirichlets(Prior):
    """Rows or columns ~ Dirichlet(shape). Beliefs are Dirichlet(shape + counts)."""

    shape: Floats
    axis: ClassVar[int]  # along which entries sum to one

    @property
    def prior(self) -> Floats:
        """The shape, as it is added to counts."""
        return self.shape if self.axis or self.shape.ndim == 2 else self.shape[:, None]

    def update(self, counts: Floats, cost: Floats) -> Belief:
        return self.belief(self.prior + counts)

    def _bound(self, term: float, totals: Floats) -> float:
        total = self.shape.sum(axis=0)
        times = 1 if self.shape.ndim == 2 else len(totals)
        prior = times * (gammaln(total) - gammaln(self.shape).sum(axis=0)).sum()
        return float(term + prior - gammaln(totals).sum() - (total - totals) @ digamma(totals))

    def mean(self, belief: Belief) -> Floats:
        parameters = belief.parameters
        return parameters / (parameters.sum(axis=1, keepdims=True) if self.axis else column_sums(parameters))

    def standard_deviation(self, belief: Belief) -> Floats:
        return dirichlet_sd(belief.parameters, self.axis)

    def quantile(self, belief: Belief, probability: float) -> Floats:
        return _beta_quantile(belief.parameters, self.axis, probability)

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        return {"": belief.parameters, "_prior": self.prior}

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats]) -> tuple[Self, Belief]:
        shape = arrays["_prior"]
        prior = cls(shape.ravel() if cls.axis or shape.shape[1] == 1 else shape)
        return prior, prior.belief(arrays[""])


class DirichletRows(Dirichlets):
    """Each row ~ Dirichlet(shape): proportions of the topics; a number per topic."""

    axis: ClassVar[int] = 1
    proportions: ClassVar[bool] = True

    def belief(self, parameters: Floats, rates: Floats | None = None) -> Belief:
        ones, totals = np.ones(len(self.shape)), parameters.sum(axis=1)
        geometric, shifts, term = kernels.log_means(parameters, 0 * ones, self.shape)
        means = np.einsum("ik,i->k", parameters, 1 / totals)
        return Belief(parameters, ones, geometric, shifts - digamma(totals), means, self._bound(term, totals))

    def shape_and_rates(self, cost: Floats) -> tuple[Floats, Floats]:
        return self.shape, np.ones(len(self.shape))

    def statistics(self, belief: Belief) -> Floats:
        return log_shares(belief.parameters)

    def learned(self, n: int, statistics: Floats) -> Self:
        return type(self)(best_concentration(self.shape, n, statistics))


class DirichletColumns(Dirichlets):
    """Each column ~ Dirichlet(shape): topics over features; a number per feature, or one per entry."""

    axis: ClassVar[int] = 0

    def belief(self, parameters: Floats, rates: Floats | None = None) -> Belief:
        totals = column_sums(parameters)
        geometric, shifts, term = kernels.log_means(parameters, -digamma(totals), self.prior)
        ones = np.ones(len(totals))
        return Belief(parameters, ones, geometric, shifts, ones, self._bound(term, totals))


@dataclass(frozen=True, eq=False)
class PointTopics(Prior):
    """Topics, columns that sum to one, which are estimated, not believed: by maximum likelihood, or, with a Dirichlet prior of
    which `extra` is the parameter − 1 (m × K), by its mode. Where rates have multipliers, features cost differently, and it is
    Σ_j w_j f_jk that is one, `weights` being the multipliers of features in all samples (m × 1)."""

    extra: Floats | None = None
    weights: Floats | None = None
    regressed: ClassVar[bool] = True

    def update(self, counts: Floats, cost: Floats) -> Belief:
        counts = counts if self.extra is None else counts + self.extra
        if cost.ndim == 2:
            costs = self._costs(counts, cost)
            counts = np.divide(counts, costs, out=np.zeros_like(counts), where=counts > 0)
        return self.belief(self._normalised(counts))

    def conditioned(self, factors: Floats) -> Floats:
        return factors if self.weights is None else factors * self.weights

    def _normalised(self, topics: Floats) -> Floats:
        """Divided by what should be one; even where there is nothing."""
        sums = column_sums(self.conditioned(topics))
        even = 1 / (len(topics) if self.weights is None else self.weights.sum())
        return np.divide(topics, sums, out=np.full_like(topics, even), where=sums > 0)

    def _costs(self, counts: Floats, cost: Floats) -> Floats:
        """Of topics, or of their entries, with the multiplier μ of the condition: f = counts / costs meets it. With costs d of
        entries, Σ w counts / (d + μ w) = 1, by Newton's method on the inverse of the sum from a μ that is too small, below which
        one feature would have everything."""
        if cost.ndim == 1:
            return column_sums(counts)
        w, here = np.ones((len(counts), 1)) if self.weights is None else self.weights, counts > 0
        unit = np.divide(cost, w, out=np.zeros_like(cost), where=w > 0)
        mu = np.where(here, counts - unit, -np.inf).max(axis=0)
        mu[~here.any(axis=0)] = 0
        for _ in range(100):
            apart = np.divide(1.0, np.maximum(unit + mu, counts), out=np.zeros_like(unit), where=here)
            value, slope = (counts * apart).sum(axis=0), (counts * apart**2).sum(axis=0)
            step = np.divide(value * (value - 1), slope, out=np.zeros_like(value), where=slope > 0)
            mu = mu + step
            if (step <= 1e-15 * np.abs(mu)).all():
                break
        return np.where(here, w * np.maximum(unit + mu, counts), cost)

    def moved(self, side: Side, other: Belief, belief: Belief, counts: Floats, cost: Floats | None = None) -> Belief:
        """A Newton step on every feature: with what a topic's weights sum to as its cost (the multiplier of the condition that
        its shares sum to one), features are regressions of their own."""
        costs = self._costs(counts if self.extra is None else counts + self.extra, other.sums if cost is None else cost)
        if costs.ndim == 2:
            side = replace(side, shape=self.extra, costs=lambda fixed, moving: (costs, None))
        else:
            side = side.with_prior(self.extra, costs - column_sums(other.geometric))
        topics, _ = side.update("newton", other.geometric, belief.geometric, rounds=1, tolerance=0.1)
        return self.belief(self._normalised(topics.astype(np.float64)))

    def stepped(self, sums: FeatureSums, belief: Belief, totals: Floats, cost: Floats) -> Belief:
        counts = belief.geometric * sums.numerators
        costs = self._costs(counts if self.extra is None else counts + self.extra, cost)
        topics = sums.step(belief.geometric, costs, totals, self.extra)
        return self.belief(self._normalised(topics.astype(np.float64)))

    def belief(self, parameters: Floats, rates: Floats | None = None) -> Belief:
        rows, topics = parameters.shape
        bound = 0.0
        if self.extra is not None:
            normaliser = gammaln((self.extra + 1).sum(axis=0)) - gammaln(self.extra + 1).sum(axis=0)
            bound = float(normaliser.sum() + xlogy(self.extra, parameters).sum())
        return Belief(parameters, np.ones(topics), parameters, np.zeros(rows), np.ones(topics), bound)

    def start(self, shares: Floats, totals: Floats, cost: Floats) -> Belief:
        if self.weights is None:
            return self.belief(point_topics(shares))
        topics = point_topics(self._normalised(shares) * self.weights)
        return self.belief(np.divide(topics, self.weights, out=np.zeros_like(topics), where=self.weights > 0))

    def beyond(self, new: Belief, old: Belief, beta: float) -> Belief:
        least: float | Floats = LEAST_MOVED / len(new.parameters)
        if self.weights is not None:
            least = least / np.where(self.weights > 0, self.weights, 1.0)
        topics = np.maximum(further(new, old, beta), least * (new.parameters > 0))
        sums = column_sums(self.conditioned(topics))
        return self.belief(topics / np.where(sums > 0, sums, 1.0))

    def mean(self, belief: Belief) -> Floats:
        return belief.parameters

    def standard_deviation(self, belief: Belief) -> Floats:
        raise ValueError("topics are point estimates and have no spread; set eta to put a prior on them")

    def quantile(self, belief: Belief, probability: float) -> Floats:
        return self.standard_deviation(belief)

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        more = {"_weights": self.weights, "_extra": self.extra}
        return {"": belief.parameters} | {name: array for name, array in more.items() if array is not None}

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats]) -> tuple[Self, Belief]:
        prior = cls(arrays.get("_extra"), arrays.get("_weights"))
        return prior, prior.belief(arrays[""])

    @classmethod
    def without_rows(cls, arrays: Mapping[str, Floats], lost: Floats) -> dict[str, Floats]:
        return {"": arrays[""] * lost}


@dataclass(frozen=True, eq=False)
class KnownColumns(Prior):
    """Topics of which some are held: the belief of those is the column itself, which adds nothing to the bound. `inner` is the
    prior of the others."""

    columns: Floats  # m × K, zero where a topic is not held
    held: NDArray[np.bool_]
    inner: Prior

    def _joined(self, free: Belief) -> Belief:
        """With the held columns."""
        K, held = len(self.held), self.held
        parameters, geometric = self.columns.copy(), self.columns.copy()
        rates, sums = np.ones(K), column_sums(self.columns)
        parameters[:, ~held] = free.parameters
        rates[~held], sums[~held] = free.rates, free.sums
        with np.errstate(divide="ignore"):
            largest = np.log(self.columns.max(axis=1))
        seen = free.geometric.max(axis=1, initial=0) > 0
        shifts = np.maximum(np.where(seen, free.shifts, -np.inf), largest)
        shifts[~np.isfinite(shifts)] = 0
        with np.errstate(under="ignore"):
            geometric *= np.exp(-np.where(np.isfinite(largest), shifts, 0))[:, None]
            geometric[:, ~held] = free.geometric * np.exp(np.minimum(free.shifts - shifts, 0))[:, None]
        return Belief(parameters, rates, geometric, shifts, sums, free.bound)

    def _free(self, belief: Belief) -> Belief:
        none = np.empty(0)
        return Belief(belief.parameters[:, ~self.held], belief.rates[~self.held], none, none, none, np.nan)

    def update(self, counts: Floats, cost: Floats) -> Belief:
        return self._joined(self.inner.update(counts[:, ~self.held], cost[..., ~self.held]))

    def belief(self, parameters: Floats, rates: Floats | None = None) -> Belief:
        free = ~self.held
        return self._joined(self.inner.belief(parameters[:, free], None if rates is None else rates[free]))

    def start(self, shares: Floats, totals: Floats, cost: Floats) -> Belief:
        free = ~self.held
        return self._joined(self.inner.start(shares[:, free], totals[free], cost[free]))

    def beyond(self, new: Belief, old: Belief, beta: float) -> Belief:
        return self._joined(self.inner.beyond(self._free(new), self._free(old), beta))

    def matches(self, other: Prior, values: bool = True) -> bool:
        same = isinstance(other, KnownColumns) and np.array_equal(self.held, other.held)
        return same and np.array_equal(self.columns, other.columns) and self.inner.matches(other.inner, values)  # type: ignore[attr-defined]

    def mean(self, belief: Belief) -> Floats:
        means = self.columns.copy()
        means[:, ~self.held] = self.inner.mean(self._free(belief))
        return means

    def standard_deviation(self, belief: Belief) -> Floats:
        spread = np.zeros(self.columns.shape)
        spread[:, ~self.held] = self.inner.standard_deviation(self._free(belief))
        return spread

    def quantile(self, belief: Belief, probability: float) -> Floats:
        found = self.columns.copy()
        found[:, ~self.held] = self.inner.quantile(self._free(belief), probability)
        return found

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        inner = {f"_free{key}": array for key, array in self.inner.arrays(self._free(belief)).items()}
        return {"": belief.parameters, "_held": self.held.astype(np.float64)} | inner

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats]) -> tuple[Self, Belief]:
        inner = {key.removeprefix("_free"): array for key, array in arrays.items() if key.startswith("_free")}
        kind = DirichletColumns if "_prior" in inner else PointTopics
        held = arrays["_held"] > 0
        prior = cls(np.where(held, arrays[""], 0.0), held, kind.restore(inner)[0])
        return prior, prior.belief(arrays[""])

    @classmethod
    def without_rows(cls, arrays: Mapping[str, Floats], lost: Floats) -> dict[str, Floats]:
        free = lost[arrays["_held"] == 0]
        point = {} if "_free_prior" in arrays else {"_free": arrays["_free"] * free}
        return dict(arrays) | {"": arrays[""] * lost} | point


def point_topics(shares: Floats) -> Floats:
    """F* with no share below the smallest that a multiplicative update can bring back."""
    topics = np.maximum(shares, LEAST_SHARE)
    return topics / topics.sum(axis=0)


def further(new: Belief, old: Belief, beta: float) -> Floats:
    """Parameters moved on by β times the last change; each keeps half of the new one, and can then still grow again."""
    return np.maximum(new.parameters + beta * (new.parameters - old.parameters), new.parameters / 2)


def _beta_quantile(parameters: Floats, axis: int, probability: float) -> Floats:
    """One entry of a Dirichlet is Beta(parameter, sum of the others)."""
    others = parameters.sum(axis=axis, keepdims=True) - parameters
    return np.where(others > 0, betaincinv(parameters, np.where(others > 0, others, 1.0), probability), 1.0)
