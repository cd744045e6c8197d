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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls
from scipy.special import ndtr, polygamma, psi

from unmix.base.types import Floats, Integers
from unmix.counts.sides import Side, column_sums
from unmix.kernels import Posteriors, Spread

# of r, beyond which the marginal would say more of its third derivative than of its curvature
LEAST_BEND, MOST_BEND = 0.3, 5.0
NUMBERS_AT_ONCE = 1_000_000  # of K × K matrices in memory, each


Form = Callable[[Floats], Floats]  # of features × topics × topics, features × topics


class Changes(NamedTuple):
    """Log fold changes of features (rows) in topics (columns), natural logarithms."""

    mean: Floats
    sd: Floats
    rival: Integers  # the topic compared with; −1 where it is not one


@dataclass(frozen=True, eq=False)
class LogFactors:
    """What is believed of log f: means, standard deviations, S and S' as K × K matrices for every feature, and the modes of
    f."""

    mean: Floats
    sd: Floats
    covariance: Floats
    robust: Floats | None
    modes: Floats

    @classmethod
    def of(cls, found: Posteriors) -> LogFactors:
        K = found.modes.shape[1]
        S = _unpacked(found.covariances, K)
        variance = np.einsum("jkk->jk", S)
        bend = np.clip(-found.thirds * variance, LEAST_BEND, MOST_BEND)
        shape = 1 / (variance * bend**2)
        mean = np.log(found.modes) + (psi(shape) - np.log(shape)) / bend
        robust = None if found.robust is None else _unpacked(found.robust, K)
        return cls(mean, np.sqrt(polygamma(1, shape)) / bend, S, robust, found.modes)

    def witnesses(self, alive: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Features × topics × other topics: whether the other one is known well enough to be compared with.

        With f its rate, of an error σ, and f_k that of the topic: σ <= f / 2, as where four counts show it; or σ <= f_k / 100,
        so that if it used the feature as the topic does, a hundred counts would show it; or σ is at most three times that of
        the best known. One that is none of these has little but its prior to say, which is that it is like all others together.
        """
        others = alive & ~np.eye(len(alive), dtype=bool)
        error = (self.modes * self.spread(lambda C: np.einsum("jkk->jk", C).copy()))[:, None, :]
        least = np.where(others, error, np.inf).min(axis=2, keepdims=True)
        enough = np.maximum(np.maximum(self.modes[:, None, :] / 2, self.modes[:, :, None] / 100), 3 * least)
        return others & (error <= enough)

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

    def posteriors(self, side: Side, begin: int, pooled: Floats) -> Posteriors:
        """Of features from `begin` on, whose pooled rates f0 are given; of those without counts only the prior is left."""
        start = float(np.exp(psi(self.pseudocount)))
        rates = start / np.where(pooled > 0, pooled, 1.0)
        return side.posteriors(
            begin, self.weights, self.sums, rates, shape=self.pseudocount, start=start, spread=self.spread
        )


def spread_of(weights: Floats, labels: NDArray[np.int32] | None) -> Spread:
    """How residuals are added up: of all samples, or of groups of them."""
    if labels is None:
        return Spread(gram=weights.T @ weights)
    sums = np.zeros((int(labels.max()) + 1, weights.shape[1]))
    np.add.at(sums, labels, weights)
    return Spread(labels=labels, group_sums=sums)


def against_next(beliefs: LogFactors, alive: NDArray[np.bool_]) -> Changes:
    """g_k − max_{l≠k} g_l, over topics that are known well enough"""
    others = np.where(beliefs.witnesses(alive), beliefs.mean[:, None, :], -np.inf)
    return _pairs(beliefs, others.argmax(axis=2))


def against_least(beliefs: LogFactors, alive: NDArray[np.bool_]) -> Changes:
    """g_k − g_l, l being the topic whose rate is nearest, of those that are known well enough"""
    apart = np.abs(beliefs.mean[:, :, None] - beliefs.mean[:, None, :])
    return _pairs(beliefs, np.where(beliefs.witnesses(alive), apart, np.inf).argmin(axis=2))


def against_topic(beliefs: LogFactors, place: int) -> Changes:
    """g_k − g_l for one l; unknown for itself"""
    changes = _pairs(beliefs, np.full(beliefs.mean.shape, place))
    for numbers in (changes.mean, changes.sd):
        numbers[:, place] = np.nan
    return changes


def against_rest(beliefs: LogFactors, sums: Floats) -> Changes:
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


def against_average(beliefs: LogFactors, pooled: Floats) -> Changes:
    """g_k − log f0"""
    mean = beliefs.mean - np.log(np.where(pooled > 0, pooled, 1.0))[:, None]
    return Changes(mean, beliefs.spread(lambda C: np.einsum("jkk->jk", C).copy()), np.full(mean.shape, -1))


def comparison(against: str | int, design: Design) -> Callable[[LogFactors, Floats], Changes]:
    """What makes changes of beliefs and pooled rates. `against` is one of the words, or the column of a topic."""
    ways: dict[str, Callable[[LogFactors, Floats], Changes]] = {
        "next": lambda beliefs, _: against_next(beliefs, design.alive),
        "least": lambda beliefs, _: against_least(beliefs, design.alive),
        "rest": lambda beliefs, _: against_rest(beliefs, design.sums),
        "average": against_average,
    }
    return ways[against] if isinstance(against, str) else lambda beliefs, _: against_topic(beliefs, against)


WORDS = ("next", "least", "rest", "average")


def features_at_once(topics: int) -> int:
    """This many that their matrices are no burden to memory."""
    return max(1, NUMBERS_AT_ONCE // topics**2)


def _pairs(beliefs: LogFactors, rivals: Integers) -> Changes:
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


# Adaptive shrinkage (Stephens 2017, "False discovery rates: a new deal"): many estimates with known errors, of effects of which
# most may be nothing and none is known to be.
#
#     b_i ~ N(β_i, s_i²),   β_i ~ Σ_g π_g N(0, σ_g²),   σ_0 = 0 a point mass, the others a grid that doubles every two steps
#
# The weights π are those of the largest posterior Σ_i log Σ_g π_g A_ig + (null weight − 1) log π_0, A_ig = N(b_i; 0, s_i² +
# σ_g²), Σ π = 1. As Σ_g of π_g times the slope of that is n₁ = n + null weight − 1, the same π minimise, over all π ≥ 0,
#
#     n₁ Σ_g π_g − Σ_i log (Aπ)_i − (null weight − 1) log π_0
#
# At any π that sum to one, no other π is better by more than the steepest slope that is still open, Σ_i A_ig / (Aπ)_i (and that
# of the null weight) − n₁, as the logarithm is concave: that is the certificate of the solution.

FINEST = 0.1  # of the smallest error: where the grid begins
CERTAIN = 1e-6  # per estimate, what the log-likelihood may lack
MOST_ROUNDS = 200
FULL_STEP = 0.6838  # root of z² + z + log(1 − z): no likelihood may fall by more than this part of itself
RIDGE = 1e-10
IN_CACHE = 1024
MANY, COARSER = 4000, 8  # estimates, of which every eighth says where to begin
# at most n₁ π_g is the part of component g in any posterior, as no slope is open; less than this is omitted
NEGLIGIBLE = 1e-9


class Shrunk(NamedTuple):
    """What is believed of each effect, and the mixture that all come from."""

    mean: Floats
    sd: Floats
    lfsr: Floats
    weights: Floats  # of the components
    scales: Floats  # their standard deviations
    lack: float  # at most so much is missing to the best log-likelihood, per estimate


def shrink(estimates: ArrayLike, errors: ArrayLike, point_mass: bool = True, null_weight: float = 10) -> Shrunk:
    """Shrink estimates towards zero by as much as they themselves, all together, say is right.

    Parameters
    ----------
    estimates, errors : array-like
        Estimates of effects and their standard errors, of any one shape. Where either is not finite, or an error not above
        zero, nothing is believed: NaN, and an lfsr of 1.
    point_mass : bool, default=True
        Whether effects may be exactly zero.
    null_weight : float, default=10
        How many estimates' worth of belief there is, before any is seen, that effects are zero; at least 1, which is none.
        Without a point mass the narrowest component has it.

    Returns
    -------
    named tuple
        `mean` and `sd` of each effect, `lfsr` (local false sign rate: how probable it is that the effect has not the sign it
        seems to have), `weights` and `scales` of the mixture, and `lack`, at most which per estimate its log-likelihood is
        below the best.

    Raises
    ------
    ValueError
        If the two have different shapes, or `null_weight` is below 1.

    See Also
    --------
    differences : Where it is used.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> effects = np.where(np.arange(1000) < 100, rng.normal(0, 3, 1000), 0)
    >>> shrunk = shrink(effects + rng.normal(0, 1, 1000), np.ones(1000))
    >>> bool(shrunk.weights[0] > 0.8), int((shrunk.lfsr[:100] < 0.05).sum() > 20), int((shrunk.lfsr[100:] < 0.05).sum())
    (True, 1, 0)
    """
    b, s = np.broadcast_arrays(np.asarray(estimates, dtype=float), np.asarray(errors, dtype=float))
    if not np.isfinite(null_weight) or null_weight < 1:
        raise ValueError(f"null_weight={null_weight!r}; use a number >= 1, which is no weight")
    known = np.isfinite(b) & np.isfinite(s) & (s > 0)
    mean, sd, lfsr = np.full(b.shape, np.nan), np.full(b.shape, np.nan), np.ones(b.shape)
    if not known.any():
        return Shrunk(mean, sd, lfsr, np.ones(1), np.zeros(1), 0.0)
    b, s = b[known], s[known]
    scales = grid(b, s, point_mass)
    A = _likelihoods(b, s, scales)
    weights, lack = mixture(A, null_weight - 1)
    used = weights * (len(b) + null_weight) > NEGLIGIBLE
    parts = [_posterior(b[some], s[some], A[some, used] * weights[used], scales[used]) for some in _in_cache(len(b))]
    mean[known], sd[known], lfsr[known] = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Shrunk(mean, sd, lfsr, weights, scales, lack)


def grid(b: Floats, s: Floats, point_mass: bool) -> Floats:
    """Standard deviations of the components, the narrowest first: from a tenth of the smallest error, or a little less, to
    twice what the largest estimate needs."""
    finest = FINEST * s.min()
    excess = (b**2 - s**2).max()
    widest = 2 * np.sqrt(excess) if excess > 0 else 8 * finest
    steps = int(np.ceil(2 * np.log2(max(widest / finest, 1.0)) - 1e-9))
    scales = widest * 2.0 ** (-np.arange(steps, -1, -1) / 2)
    return np.concatenate([[0.0], scales]) if point_mass else scales


def mixture(A: Floats, extra: float) -> tuple[Floats, float]:
    """The weights of the components, and what they may lack, per estimate.

    Newton's method: a quadratic model over π ≥ 0 of the components that have weight or want some is minimised, and the step to
    its minimiser taken as far as it certainly does not lower the likelihood (see `native/newton.hpp`). Of many estimates
    every eighth alone says where to begin.
    """
    n, n1 = len(A), len(A) + extra
    weights = mixture(A[::COARSER], extra)[0] if n > MANY else np.full(A.shape[1], 1 / A.shape[1])
    for _ in range(MOST_ROUNDS):
        rates = np.einsum("ig,g->i", A, weights)  # not by BLAS, whose threads would get into each other's way here
        slopes = np.einsum("i,ig->g", 1 / rates, A)
        slopes[0] += extra / weights[0] if extra else 0.0
        lack = max(float(slopes.max()) - n1, 0.0) / n
        if lack <= CERTAIN:
            break
        used = (weights > 0) | (slopes > n1)
        scaled = A[:, used] / rates[:, None]
        step = _best(scaled, weights[used], slopes[used], extra, n1) - weights[used]
        falls = np.append(np.einsum("ig,g->i", scaled, step), step[0] / weights[0] if extra else 0.0)
        weights[used] += min(1.0, FULL_STEP / max(-falls.min(), 1e-300)) * step
        weights /= weights.sum()
    return weights, lack


def _best(scaled: Floats, weights: Floats, slopes: Floats, extra: float, n1: float) -> Floats:
    """The smallest of ½ pᵀHp − (2 slopes − n₁)·p over p ≥ 0, by least squares. H is the curvature, H · weights the slopes."""
    H = scaled.T @ scaled
    if extra:
        H[0, 0] += extra / weights[0] ** 2
    H += RIDGE * np.trace(H) * np.eye(len(H))  # components may be equal to the last digit
    root = cholesky(H)
    try:
        best, _ = nnls(root, solve_triangular(root, 2 * slopes - n1, trans="T"), maxiter=100 * len(H))
    except RuntimeError:  # it went round in circles: a step of EM, which is never worse
        return weights * slopes / n1
    return best


def _likelihoods(b: Floats, s: Floats, scales: Floats) -> Floats:
    """A_ig = N(b_i; 0, s_i² + σ_g²), each row divided by that of the widest component, under which no estimate is
    improbable."""
    A = np.empty((len(b), len(scales)))
    for some in _in_cache(len(b)):
        precision = 1 / (s[some, None] ** 2 + scales**2)
        widest = precision[:, -1:].copy()
        np.multiply(precision - widest, -0.5 * b[some, None] ** 2, out=A[some])
        np.exp(A[some], out=A[some])
        precision /= widest
        A[some] *= np.sqrt(precision, out=precision)
    return A


def _in_cache(n: int) -> Iterator[slice]:
    """Blocks of estimates that stay in a processor's cache while they are worked on: several times as fast."""
    return (slice(begin, begin + IN_CACHE) for begin in range(0, n, IN_CACHE))


def _posterior(b: Floats, s: Floats, share: Floats, scales: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, sd and lfsr = min(P(β ≤ 0), P(β ≥ 0)), given how probable each component is."""
    share = share / share.sum(axis=1, keepdims=True)
    kept = scales**2 / (s[:, None] ** 2 + scales**2)  # of the estimate
    means, variances = b[:, None] * kept, s[:, None] ** 2 * kept
    mean = (share * means).sum(axis=1)
    sd = np.sqrt(np.maximum((share * (variances + means**2)).sum(axis=1) - mean**2, 0))
    wide = scales > 0
    zero = share[:, ~wide].sum(axis=1)
    negative = (share[:, wide] * ndtr(-means[:, wide] / np.sqrt(variances[:, wide]))).sum(axis=1)
    return mean, sd, np.clip(np.minimum(zero + negative, 1 - negative), 0, 1)
