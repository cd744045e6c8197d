"""Adaptive shrinkage (Stephens 2017, "False discovery rates: a new deal"): many estimates with known errors, of effects of which
most may be nothing and none is known to be.

    b_i ~ N(β_i, s_i²),   β_i ~ Σ_g π_g N(0, σ_g²),   σ_0 = 0 a point mass, the others a grid that doubles every two steps

The weights π are those of the largest posterior Σ_i log Σ_g π_g A_ig + (null weight − 1) log π_0, A_ig = N(b_i; 0, s_i² + σ_g²),
Σ π = 1. As Σ_g of π_g times the slope of that is n₁ = n + null weight − 1, the same π minimise, over all π ≥ 0,

    n₁ Σ_g π_g − Σ_i log (Aπ)_i − (null weight − 1) log π_0

At any π that sum to one, no other π is better by more than the steepest slope that is still open, Σ_i A_ig / (Aπ)_i (and that of
the null weight) − n₁, as the logarithm is concave: that is the certificate of the solution.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls
from scipy.special import ndtr

from unmix.types import Floats

FINEST = 0.1  # of the smallest error: where the grid begins
CERTAIN = 1e-6  # per estimate, what the log-likelihood may lack
MOST_ROUNDS = 200
FULL_STEP = 0.6838  # root of z² + z + log(1 − z): no likelihood may fall by more than this part of itself
RIDGE = 1e-10
IN_CACHE = 1024
MANY, COARSER = 4000, 8  # estimates, of which every eighth says where to begin
NEGLIGIBLE = (
    1e-9  # at most n₁ π_g is the part of component g in any posterior, as no slope is open; less than this is left out
)


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
        raise ValueError(f"null_weight={null_weight!r}; give a number >= 1, which is no weight")
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
    """Standard deviations of the components, the narrowest first: from a tenth of the smallest error, or a little less, to twice
    what the largest estimate needs."""
    finest = FINEST * s.min()
    excess = (b**2 - s**2).max()
    widest = 2 * np.sqrt(excess) if excess > 0 else 8 * finest
    steps = int(np.ceil(2 * np.log2(max(widest / finest, 1.0)) - 1e-9))
    scales = widest * 2.0 ** (-np.arange(steps, -1, -1) / 2)
    return np.concatenate([[0.0], scales]) if point_mass else scales


def mixture(A: Floats, extra: float) -> tuple[Floats, float]:
    """The weights of the components, and what they may lack, per estimate.

    Newton's method: a quadratic model over π ≥ 0 of the components that have weight or want some is minimised, and the step to
    its minimiser taken as far as it surely does not lower the likelihood (see `native/newton.hpp`). Of many estimates every
    eighth alone says where to begin.
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
    """The least of ½ pᵀHp − (2 slopes − n₁)·p over p ≥ 0, by least squares. H is the curvature, H · weights the slopes."""
    H = scaled.T @ scaled
    if extra:
        H[0, 0] += extra / weights[0] ** 2
    H += RIDGE * np.trace(H) * np.eye(len(H))  # components may be alike to the last digit
    root = cholesky(H)
    try:
        best, _ = nnls(root, solve_triangular(root, 2 * slopes - n1, trans="T"), maxiter=100 * len(H))
    except RuntimeError:  # it went round in circles: a step of EM, which is never worse
        return weights * slopes / n1
    return best


def _likelihoods(b: Floats, s: Floats, scales: Floats) -> Floats:
    """A_ig = N(b_i; 0, s_i² + σ_g²), each row divided by that of the widest component, under which no estimate is improbable."""
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
