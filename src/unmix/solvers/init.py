"""Where a fit starts: at random, by annealed EM, by Gibbs sampling, by Topic-SCORE, or from known factors.

Topic-SCORE (Ke and Wang 2024) finds the topics of an almost noise-free corpus from the singular vectors of its count matrix:
the rows of R_j = (V_j2, …, V_jK) / V_j1 lie in a simplex whose vertices are words that belong to one topic alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from math import ceil, comb
from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.optimize import nnls
from scipy.sparse.linalg import ArpackError, LinearOperator, svds

from unmix.base.checks import warn
from unmix.base.types import Factor, Floats, Pair
from unmix.counts.data import Data
from unmix.counts.sides import column_sums
from unmix.kernels import seeds
from unmix.models.allocation import Allocation, AllocationTask
from unmix.models.problem import Problem
from unmix.solvers.extrapolate import Alternate
from unmix.solvers.halfsteps import EM, Newton
from unmix.solvers.sampling import Sampler

EM_ONLY = Alternate(EM(), learns=False)


def random(problem: Problem, rng: np.random.Generator) -> Pair:
    """Uniform(0.1, 1) entries; columns of F sum to one, rows of L to the sample totals, so that s_i = t_i."""
    n, m = problem.X.shape
    F = rng.uniform(0.1, 1, (m, problem.n_topics))
    L = rng.uniform(0.1, 1, (n, problem.n_topics))
    return L * (problem.X.sample_totals / L.sum(axis=1))[:, None], F / F.sum(axis=0)


def random_after_em(problem: Problem, rng: np.random.Generator) -> Pair:
    """A random start and 5 EM iterations, without which Newton's method chooses too soon."""
    state = EM_ONLY.start(problem, *random(problem, rng))
    for _ in range(5):
        state = EM_ONLY.step(problem, state)
    return state.L, state.F


def first_topics(problem: Problem, rng: np.random.Generator) -> Factor:
    """Topics that have a place as they are known, nothing impossible in those that are not held, and others at random around
    what all samples have."""
    (_, m), G, known = problem.X.shape, problem.placed_topics, problem.known
    overall = problem.X.feature_totals / problem.X.total
    F = rng.uniform(0.1, 1, (m, problem.n_topics)) * (overall + 1e-3 / m)[:, None]
    F /= F.sum(axis=0)
    if known is not None:
        F[:, :G] = np.where(known.held, known.columns, mixed(problem.X, known.columns))
    return F


def beside(problem: Problem, rng: np.random.Generator) -> Pair:
    """A start beside what is known of topics, and five EM iterations: from even loadings, or, where topics are held, from those
    that explain the counts best."""
    _n, K = problem.X.shape[0], problem.n_topics
    problem = problem.likelihood()
    F = first_topics(problem, rng)
    if problem.held is None:
        L = np.tile(problem.X.sample_totals[:, None] / K, K)
    else:
        L = known_factors(problem, F, rounds=5, tolerance=1e-3)
    state = EM_ONLY.start(problem, *problem.rescale(*problem.allowed(L, F)))
    for _ in range(5):
        state = EM_ONLY.step(problem, state)
    return state.L, state.F


def annealed(problem: Problem, rng: np.random.Generator, first: float = 0.8, passes: int = 20) -> Pair:
    """EM in which L and F are taken to a power that rises from `first` to one, from topics that are almost even: while it is
    below one, every count is shared more evenly between topics than it should be, and none of them can settle too soon."""
    n, m = problem.X.shape
    F = rng.gamma(100, 0.01, (m, problem.n_topics))
    L = rng.gamma(100, 0.01, (n, problem.n_topics)) * problem.X.sample_totals[:, None]
    for power in np.linspace(first, 1, passes):
        L, F = (np.maximum(factor, 1e-300) ** power for factor in (L, F / F.sum(axis=0)))
        A, B, _ = problem.both_numerators(L, F)
        if problem.rates is not None:
            (c, groups), (d, _) = problem.rates.for_loadings(F, L), problem.rates.for_factors(L, F)
            A, B = A / np.maximum(c[groups], 1e-300), B / np.maximum(d, 1e-300)
        L, F = L * A, F * B
    return L, F / F.sum(axis=0)


def almost_even(problem: Problem, rng: np.random.Generator) -> Pair:
    """Every topic almost the same (10% of noise), all of them in every sample alike: a random start for Bayesian models. With
    sparse proportions, samples would at once choose between clearly different random topics, and hold on to them."""
    F = rng.gamma(100, 0.01, (problem.X.shape[1], problem.n_topics))
    return np.tile(problem.X.sample_totals[:, None] / problem.n_topics, problem.n_topics), F / F.sum(axis=0)


def sampled(problem: Problem, rng: np.random.Generator, sweeps: int = 200, draws: int = 20, every: int = 5) -> Pair:
    """The mean of draws of collapsed Gibbs sampling, after some sweeps from random labels: a start for models of short samples.
    Tokens change their topics one by one, by the topics of the others; updates of whole samples, each of a few counts, almost
    never leave a start. A single draw of so few counts is noise that such updates keep."""
    X, K = problem.X.sample, problem.n_topics
    task = AllocationTask(X, Allocation.for_data(X, K, 1.0, None, alpha=0.05, beta=0.1))
    sampler = Sampler(task, task.labels(rng.integers(K, size=(1, int(X.total)), dtype=np.uint16)), seeds(rng, 1))
    sampler.sweep(sweeps)
    L, F = np.zeros((X.shape[0], K)), np.zeros((X.shape[1], K))
    for _ in range(draws):
        sampler.sweep(every)
        now = task.moments(sampler.held)
        L, F = L + now.proportions[0, 0] / draws, F + now.topics[0, 0] / draws
    return L * X.sample_totals[:, None], F


class Known(NamedTuple):
    """Given factors, and their column sums: those that the start is made of, and those that the half-step takes."""

    F: Factor
    scales: Floats
    sums: Floats

    @classmethod
    def of(cls, F: Factor) -> Known:
        return cls(F, F.sum(axis=0), column_sums(F))


def known_factors(problem: Problem, factors: Factor | Known, rounds: int = 200, tolerance: float = 1e-11) -> Floats:
    """The maximum-likelihood loadings for given factors: a convex problem per sample, by default solved to its KKT
    conditions."""
    F, scales, sums = factors if isinstance(factors, Known) else Known.of(factors)
    totals, side = problem.X.sample_totals, replace(problem.left, sums=sums)
    start = np.divide(totals[:, None], len(scales) * scales, out=np.zeros((len(totals), len(scales))), where=scales > 0)
    L, _ = Newton(rounds=rounds, tolerance=tolerance)(side, F, start)
    return L.astype(np.float64, copy=False)


def mixed(X: Data, F: Factor) -> Floats:
    """Topics with 1% of the whole: no feature may be impossible in one, EM could not bring it back."""
    return 0.99 * F + 0.01 * (X.feature_totals / X.total)[:, None]


class ScoreError(ValueError):
    """Topic-SCORE does not work on this data."""


def topic_score(problem: Problem, rng: np.random.Generator) -> Pair:
    """Topic-SCORE for F, then L given F. Raises `ScoreError`, with the reason, where it cannot work."""
    F = mixed(problem.X, score_topics(problem.X, problem.n_topics, rng))
    return known_factors(problem, F, rounds=5, tolerance=1e-3), F


def topic_score_or_random(problem: Problem, rng: np.random.Generator) -> tuple[Pair, str]:
    """Topic-SCORE, or where it cannot work a random start and a warning; and which it was."""
    try:
        return topic_score(problem, rng), "topic-score"
    except ScoreError as reason:
        warn(f"Topic-SCORE cannot start this fit: {reason}. Starting at random")
        return random(problem, rng), "random"


def score_topics(X: Data, K: int, rng: np.random.Generator, quantile: float = 0.0) -> Floats:
    """F*: m × K. `quantile=0` weighs all features equally, as fastTopics does; 1 is the full form of the method."""
    n, m = X.shape
    used = np.flatnonzero(X.feature_totals > 0)
    if K < 2 or min(n, len(used)) <= K:
        raise ScoreError(f"it needs 2 <= topics < {min(n, len(used))} (samples and non-empty features)")
    means = X.feature_totals[used] / n
    weights = np.minimum(means, np.quantile(means, quantile))
    scale = np.zeros(m)
    scale[used] = weights**-0.5
    weighted = LinearOperator(
        X.shape,
        dtype=np.float64,
        matvec=lambda v: X.matvec(scale * v.ravel()),
        rmatvec=lambda v: scale * X.rmatvec(v.ravel()),
    )
    try:
        _, values, Vt = svds(weighted, k=K, v0=np.ones(min(X.shape)), return_singular_vectors="vh", tol=1e-4, rng=rng)
    except ArpackError as error:
        raise ScoreError(f"no singular vectors ({error})") from None
    V = Vt[np.argsort(-values)].T[used]
    leading = np.maximum(np.abs(V[:, 0]), 1e-12 * np.abs(V[:, 0]).max())
    R = V[:, 1:] * np.sign(V[:, 0].sum() or 1) / leading[:, None]
    if not np.isfinite(R).all():
        raise ScoreError("the singular vectors are not finite")
    heaviest = np.argsort(-X.feature_totals[used], kind="stable")[:5_000]
    vertices = _hunt_vertices(R[heaviest], K, rng)
    corners = np.column_stack([vertices, np.ones(K)])
    if np.linalg.cond(corners) > 1e10:
        raise ScoreError("the corners of the simplex coincide")
    mixture = np.maximum(np.column_stack([R, np.ones(len(R))]) @ np.linalg.inv(corners), 0)
    mixture /= np.maximum(mixture.sum(axis=1, keepdims=True), 1e-300)
    topics = (np.sqrt(weights) * leading)[:, None] * mixture
    if (topics.sum(axis=0) <= 0).any():
        raise ScoreError("a topic has no features")
    F = np.zeros((m, K))
    F[used] = topics / topics.sum(axis=0)
    return F


def _hunt_vertices(R: Floats, K: int, rng: np.random.Generator) -> Floats:
    """K corners of a simplex around most points: cluster them, keep centres far from each other, and of these the K whose
    simplex leaves the others least far outside."""
    if len(np.unique(np.round(R / max(np.abs(R).max(), 1e-300), 9), axis=0)) < 3 * K:
        raise ScoreError(f"fewer than {3 * K} distinct features")
    centres = min((_cluster(R, 3 * K, rng) for _ in range(4)), key=lambda run: run[0])[1]
    if K == 2:
        return centres[[np.argmin(centres[:, 0]), np.argmax(centres[:, 0])]]
    distance = ((centres[:, None] - centres[None]) ** 2).sum(axis=-1)
    chosen = [int(c) for c in np.unravel_index(np.argmax(distance), distance.shape)]
    n_candidates = ceil(1.5 * K) if K < 10 else K + 2 if K <= 30 else K
    while len(chosen) < n_candidates:
        score = distance[:, chosen].mean(axis=1)
        score[chosen] = -1
        chosen.append(int(np.argmax(score)))
    candidates = centres[chosen]
    if comb(n_candidates, K) > 5_000:
        return candidates[:K]

    def worst(subset: Iterable[int]) -> float:
        subset = tuple(subset)
        others = [c for c in range(n_candidates) if c not in subset]
        return max((_distance_to_simplex(candidates[c], candidates[list(subset)]) for c in others), default=0.0)

    return candidates[list(min(combinations(range(n_candidates), K), key=worst))]


def _cluster(R: Floats, clusters: int, rng: np.random.Generator) -> tuple[float, Floats]:
    """k-means: the sum of squares that is left, and the centres, after 100 iterations or once the sum almost not falls."""
    spread = np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty cluster is no harm
        centres, labels = kmeans2(R, clusters, iter=10, minit="++", rng=rng)
        for _ in range(9):
            last, spread = spread, float(((R - centres[labels]) ** 2).sum())
            if spread > (1 - 1e-3) * last:
                break
            centres, labels = kmeans2(R, centres, iter=10, minit="matrix")
    return spread, centres


def _distance_to_simplex(point: Floats, corners: Floats) -> float:
    """min ‖point − w·corners‖ over w >= 0, Σw = 1, the sum held by a heavy row of the least-squares problem."""
    heavy = 1e3 * (1 + np.abs(corners).max())
    system = np.vstack([corners.T, np.full(len(corners), heavy)])
    return float(nnls(system, np.append(point, heavy))[1])
