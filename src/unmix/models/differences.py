"""Differences between topics: what counts say of the rate of every feature in every topic, given what samples are made of.

With proportions π_ik of samples, their sizes s_i, and f0_j = Σ_i x_ij / Σ_i s_i the pooled rate of feature j,

    x_ij ~ Poisson(Σ_k w_ik f_jk),   w_ik = s_i π_ik,   f_jk ~ Gamma(c, b_j),   b_j = e^ψ(c) / f0_j

The prior is c counts at the pooled rate: E log f_jk = log f0_j, so that a topic that says nothing of a feature has a log fold
change of zero, however rare the feature and however light the topic. At the mode of g_j = log f_j let S be the inverse of the
curvature and T_k the third derivative along S_:k / S_kk (`native/posterior.hpp`). The marginal of g_k is then taken to be the
generalised log-gamma distribution of the same mode, curvature and third derivative:

    r = −T_k S_kk,   α = 1 / (S_kk r²),   E g_k = ĝ_k + (ψ(α) − log α) / r,   sd g_k = √ψ'(α) / r,   correlations those of S

It is exact (r = 1) where every sample is of one topic. A log fold change is a contrast a·g, of variance aᵀ Cov a. Where errors
are robust its sd is multiplied by √max(1, aᵀ S' a / aᵀ S a), S' being the covariance of ĝ that the residuals themselves show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma, psi

from unmix.kernels.posterior import Posteriors, Spread
from unmix.sides import Side, column_sums
from unmix.types import Floats, Integers

LEAST_BEND, MOST_BEND = (
    0.3,
    5.0,
)  # of r, beyond which the marginal would say more of its third derivative than of its curvature
NUMBERS_AT_ONCE = 1_000_000  # of K × K matrices in memory, each


Form = Callable[[Floats], Floats]  # of features × topics × topics, features × topics


class Changes(NamedTuple):
    """Log fold changes of features (rows) in topics (columns), natural logarithms."""

    mean: Floats
    sd: Floats
    rival: Integers  # the topic compared with; −1 where it is not one


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What is believed of log f: means, standard deviations, and S and S' as K × K matrices for every feature."""

    mean: Floats
    sd: Floats
    covariance: Floats
    robust: Floats | None

    @classmethod
    def of(cls, found: Posteriors) -> Beliefs:
        K = found.modes.shape[1]
        S = _unpacked(found.covariances, K)
        variance = np.einsum("jkk->jk", S)
        bend = np.clip(-found.thirds * variance, LEAST_BEND, MOST_BEND)
        shape = 1 / (variance * bend**2)
        mean = np.log(found.modes) + (psi(shape) - np.log(shape)) / bend
        robust = None if found.robust is None else _unpacked(found.robust, K)
        return cls(mean, np.sqrt(polygamma(1, shape)) / bend, S, robust)

    @cached_property
    def scaled(self) -> Floats:
        """Cov g: correlations of S, standard deviations of the marginals."""
        scale = self.sd / np.sqrt(np.einsum("jkk->jk", self.covariance))
        return self.covariance * scale[:, :, None] * scale[:, None, :]

    def spread(self, form: Form) -> Floats:
        """Standard deviations of contrasts a·g, by the errors that were asked for; `form` makes aᵀ C a of matrices C."""
        variance = form(self.scaled)
        if self.robust is not None:
            curved = form(self.covariance)
            variance *= np.maximum(1, np.divide(form(self.robust), curved, out=np.ones_like(curved), where=curved > 0))
        return np.sqrt(np.maximum(variance, 0))


@dataclass(frozen=True, eq=False)
class Design:
    """What is known before any feature is looked at: weights w of samples, and how their residuals are added up."""

    weights: Floats
    pseudocount: float = 1.0
    spread: Spread | None = None

    @cached_property
    def sums(self) -> Floats:
        """N_k: the expected counts of every topic."""
        return column_sums(self.weights)

    @property
    def alive(self) -> NDArray[np.bool_]:
        return self.sums > 0

    def posteriors(self, side: Side, begin: int, end: int, pooled: Floats) -> Posteriors:
        """Of features from `begin` to `end`, whose pooled rates f0 are given; of those without counts only the prior is left."""
        start = float(np.exp(psi(self.pseudocount)))
        rates = start / np.where(pooled > 0, pooled, 1.0)
        return side.posteriors(
            begin, end, self.weights, self.sums, rates, shape=self.pseudocount, start=start, spread=self.spread
        )


def spread_of(weights: Floats, labels: NDArray[np.int32] | None) -> Spread:
    """How residuals are added up: of all samples, or of groups of them."""
    if labels is None:
        return Spread(gram=weights.T @ weights)
    sums = np.zeros((int(labels.max()) + 1, weights.shape[1]))
    np.add.at(sums, labels, weights)
    return Spread(labels=labels, group_sums=sums)


def against_next(beliefs: Beliefs, alive: NDArray[np.bool_]) -> Changes:
    """g_k − max_{l≠k} g_l"""
    others = np.where(alive, beliefs.mean, -np.inf)[:, None, :] + _not_itself(len(alive))
    return _pairs(beliefs, others.argmax(axis=2))


def against_least(beliefs: Beliefs, alive: NDArray[np.bool_]) -> Changes:
    """g_k − g_l, l being the topic whose rate is nearest"""
    apart = np.abs(beliefs.mean[:, :, None] - beliefs.mean[:, None, :])
    return _pairs(beliefs, (np.where(alive, apart, np.inf) - _not_itself(len(alive))).argmin(axis=2))


def against_topic(beliefs: Beliefs, place: int) -> Changes:
    """g_k − g_l for one l; unknown for itself"""
    changes = _pairs(beliefs, np.full(beliefs.mean.shape, place))
    for numbers in (changes.mean, changes.sd):
        numbers[:, place] = np.nan
    return changes


def against_rest(beliefs: Beliefs, sums: Floats) -> Changes:
    """g_k − log Σ_{l≠k} ω_l e^{g_l}, ω ∝ N; with u_l = ω_l e^{E g_l} / Σ

    mean E g_k − log Σ ω_l e^{E g_l} − ½ (Σ u_l Var g_l − uᵀ Cov u),   variance of the contrast a_k = 1, a_l = −u_l
    """
    K = len(sums)
    with np.errstate(divide="ignore"):
        logs = (beliefs.mean + np.log(sums))[:, None, :] + _not_itself(K)
        rest = np.log(sums.sum() - sums)  # the sum of ω_l is one over all topics but k
    largest = logs.max(axis=2, keepdims=True)
    u = np.exp(logs - largest)
    total = u.sum(axis=2, keepdims=True)
    u /= total
    bent = np.einsum("jkl,jl->jk", u, beliefs.sd**2) - _quadratic(u)(beliefs.scaled)
    mean = beliefs.mean - (np.log(total) + largest)[:, :, 0] + rest - bent / 2
    return Changes(mean, beliefs.spread(_quadratic(np.eye(K) - u)), np.full(mean.shape, -1))


def against_average(beliefs: Beliefs, pooled: Floats) -> Changes:
    """g_k − log f0"""
    mean = beliefs.mean - np.log(np.where(pooled > 0, pooled, 1.0))[:, None]
    return Changes(mean, beliefs.spread(lambda C: np.einsum("jkk->jk", C).copy()), np.full(mean.shape, -1))


def comparison(against: str | int, design: Design) -> Callable[[Beliefs, Floats], Changes]:
    """What makes changes of beliefs and pooled rates. `against` is one of the words, or the column of a topic."""
    ways: dict[str, Callable[[Beliefs, Floats], Changes]] = {
        "next": lambda beliefs, _: against_next(beliefs, design.alive),
        "least": lambda beliefs, _: against_least(beliefs, design.alive),
        "rest": lambda beliefs, _: against_rest(beliefs, design.sums),
        "average": against_average,
    }
    return ways[against] if isinstance(against, str) else lambda beliefs, _: against_topic(beliefs, against)


WORDS = ("next", "least", "rest", "average")


def features_at_once(topics: int) -> int:
    """So many that their matrices are no burden to memory."""
    return max(1, NUMBERS_AT_ONCE // topics**2)


def _pairs(beliefs: Beliefs, rivals: Integers) -> Changes:
    """g_k − g_l, l = rivals_jk"""

    def form(C: Floats) -> Floats:
        own = np.einsum("jkk->jk", C)
        both = np.take_along_axis(C, rivals[:, :, None], axis=2)[:, :, 0]
        return own + np.take_along_axis(own, rivals, axis=1) - 2 * both

    mean = beliefs.mean - np.take_along_axis(beliefs.mean, rivals, axis=1)
    return Changes(mean, beliefs.spread(form), rivals)


def _not_itself(K: int) -> Floats:
    """K × K: −∞ on the diagonal, 0 elsewhere."""
    return np.where(np.eye(K, dtype=bool), -np.inf, 0.0)


def _quadratic(contrasts: Floats) -> Form:
    """aᵀ C a for contrasts a (features × contrasts × topics), with the matrix C of each feature."""
    return lambda C: np.einsum("jkl,jkl->jk", contrasts @ C, contrasts)


def _unpacked(packed: Floats, K: int) -> Floats:
    """Whole symmetric matrices from rows of their lower triangles."""
    rows, columns = np.maximum.outer(range(K), range(K)), np.minimum.outer(range(K), range(K))
    return packed[:, rows * (rows + 1) // 2 + columns]
