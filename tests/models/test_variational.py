"""Variational inference: bounds that are bounds and never fall, steps that equal the listings, posteriors one can ask.

Dense NumPy listings (with the responsibilities φ stored), quadrature and scipy.stats are the judges.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from conftest import examples, never_rises, random_counts, random_start
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import digamma, gammaln, logsumexp, polygamma, xlogy
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score

import unmix as um
from unmix import kernels
from unmix.counts.counts import Counts
from unmix.maps import poisson_to_gamma_gamma, poisson_to_lda
from unmix.models.beliefs import Belief, DirichletRows, PointTopics, best_concentration, log_shares
from unmix.models.variational import (
    Beliefs,
    Inference,
    Variational,
    gamma_gamma,
    gamma_poisson,
    lda,
    log_total,
    restore,
)
from unmix.solvers.vi import CAVI, infer

Floats = np.ndarray
Parameters = tuple[Floats, Floats | None]  # of one belief: shapes or Dirichlet parameters, and rates

X = random_counts(12, 15, K=3, seed=0)
GAPS = random_counts(20, 9, K=3, seed=5)
GAPS[[3, 11]] = 0
GAPS[:, 4] = 0
X0 = random_counts(30, 25, K=3, seed=4)
START = L0, F0 = random_start(30, 25, 3)

ALPHA, ETA = np.array([0.6, 1.3, 2.1]), np.linspace(0.2, 0.9, 15)
SHAPE, RATE = ALPHA, np.array([0.5, 1.0, 4.0])
A, B, C, D = 0.4, 0.9, 0.6, 2.2


MODELS: dict[str, Variational] = {
    "LDA": lda(ALPHA, None),
    "smoothed LDA": lda(ALPHA, ETA),
    "Gamma–Poisson": gamma_poisson(SHAPE, RATE),
    "smoothed Gamma–Poisson": gamma_poisson(SHAPE, RATE, ETA),
    "Gamma–Gamma": gamma_gamma(3, A, B, C, D),
}
FAMILY: dict[str, Callable[..., Any]] = {
    "LDA": partial(um.LDA, alpha=0.4),
    "smoothed LDA": partial(um.LDA, alpha=0.4, eta=0.3),
    "LDA, learned alpha": partial(um.LDA, alpha="auto"),
    "Gamma–Poisson": partial(um.GammaPoisson, shape=0.5),
    "smoothed Gamma–Poisson": partial(um.GammaPoisson, shape=0.5, rate=0.1, eta=0.3),
    "Gamma–Gamma": um.BayesianPoissonNMF,
    "hierarchical": partial(um.BayesianPoissonNMF, rate_shape=0.3),
}


@pytest.fixture(params=FAMILY)
def kind(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return FAMILY[request.param]


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Variational:
    return MODELS[request.param]


def by_column(values: Floats) -> Floats:
    return values / values.sum(axis=0)


def is_gamma(prior: Any) -> bool:
    return hasattr(prior, "rate")


def has_point_topics(model: Variational) -> bool:
    return not hasattr(model.right, "shape")


def random_parameters(model: Variational, n: int, m: int, seed: int = 1, spread: float = 1) -> tuple[Parameters, ...]:
    """Of q(L) and q(F), at random; the larger `spread`, the wilder."""
    rng, K = np.random.default_rng(seed), len(model.left.shape)
    left, right = (np.exp(spread * rng.normal(0, 1, (rows, K))) for rows in (n, m))
    rates = [np.exp(spread * rng.normal(0, 1, K)) for _ in range(2)]
    if has_point_topics(model):
        right = by_column(right)
    return (left, rates[0] if is_gamma(model.left) else None), (right, rates[1] if is_gamma(model.right) else None)


def start(model: Variational, counts: Floats, q: tuple[Parameters, ...], solver: CAVI | None = None):
    """Task, solver and the state at these parameters."""
    task = Inference(Counts(counts), model)
    solver = solver or CAVI()
    return task, solver, solver.from_beliefs(task, model.left.belief(*q[0]), model.right.belief(*q[1]))


def bound(model: Variational, counts: Floats, q: tuple[Parameters, ...]) -> float:
    return -start(model, counts, q)[2].loss


def best_bound(model: Variational, counts: Floats, iterations: int = 500, seed: int = 1) -> float:
    task, solver, state = start(model, counts, random_parameters(model, *counts.shape, seed))
    for _ in range(iterations):
        state = solver.step(task, state)
    return -state.loss


# --- listings --------------------------------------------------------------------------------------------------------


def log_mean(prior: Any, q: Parameters, axis: int = 1) -> Floats:
    """E log of every entry; `axis` is that along which a Dirichlet's entries sum to one."""
    shape, rates = q
    if is_gamma(prior):
        return digamma(shape) - np.log(rates)
    return digamma(shape) - digamma(shape.sum(axis=axis, keepdims=True)) if hasattr(prior, "shape") else np.log(shape)


def mean(prior: Any, q: Parameters, axis: int = 1) -> Floats:
    return q[0] / q[1] if is_gamma(prior) else q[0] / q[0].sum(axis=axis, keepdims=True)


def divergence(prior: Any, q: Parameters, axis: int = 1) -> float:
    """KL(q ‖ prior), from the densities' own formulas."""
    g, rates = q
    if is_gamma(prior):
        a, b = prior.shape, prior.rate
        return float(
            ((g - a) * digamma(g) - gammaln(g) + gammaln(a) + a * np.log(rates / b) + g * (b / rates - 1)).sum()
        )
    if not hasattr(prior, "shape"):
        return 0.0
    a = np.broadcast_to(prior.shape if axis == 1 else prior.shape[:, None], g.shape)
    normalisers = gammaln(g.sum(axis=axis)) - gammaln(a.sum(axis=axis)) + (gammaln(a) - gammaln(g)).sum(axis=axis)
    return float(normalisers.sum() + ((g - a) * log_mean(prior, q, axis)).sum())


def listed_bound(model: Variational, counts: Floats, q: tuple[Parameters, ...]) -> float:
    """E log p(X, counts by topic | L, F) + entropy of the responsibilities − KL(q(L) ‖ prior) − KL(q(F) ‖ prior)."""
    logs = log_mean(model.left, q[0])[:, None] + log_mean(model.right, q[1], 0)[None]
    phi = np.exp(logs - logsumexp(logs, axis=2, keepdims=True))
    by_topic = counts[:, :, None] * phi
    value = (by_topic * logs - xlogy(by_topic, phi)).sum() - gammaln(counts + 1).sum()
    if model.totals_given:
        value += gammaln(counts.sum(axis=1) + 1).sum()
    else:
        value -= mean(model.left, q[0]).sum(axis=0) @ mean(model.right, q[1], 0).sum(axis=0)
    return float(value - divergence(model.left, q[0]) - divergence(model.right, q[1], 0))


def listed_step(
    model: Variational, counts: Floats, q: tuple[Parameters, ...], *, jacobi: bool = False, slip: bool = False
) -> tuple[Parameters, ...]:
    """Geiger and Park's algorithm 3 for every pair of priors, with φ stored. Paisley's eq. 35 is the rate of F: `slip` takes
    his b for d, `jacobi` the loadings of before."""
    logs = log_mean(model.left, q[0])[:, None] + log_mean(model.right, q[1], 0)[None]
    by_topic = counts[:, :, None] * np.exp(logs - logsumexp(logs, axis=2, keepdims=True))
    left = model.left.shape + by_topic.sum(axis=1)
    left_rates = model.left.rate + mean(model.right, q[1], 0).sum(axis=0) if is_gamma(model.left) else None
    of_topics = by_topic.sum(axis=0)
    if is_gamma(model.right):
        loadings = mean(model.left, q[0]) if jacobi else left / left_rates
        rate = model.left.rate if slip else model.right.rate
        return (left, left_rates), (model.right.shape + of_topics, rate + loadings.sum(axis=0))
    right = by_column(of_topics) if has_point_topics(model) else model.right.shape[:, None] + of_topics
    return (left, left_rates), (right, None)


def rescaled(model: Variational, q: tuple[Parameters, ...]) -> tuple[Parameters, ...]:
    """With Gammas on both sides, the scale of each topic that maximises the bound."""
    if not is_gamma(model.right):
        return q
    (left, left_rates), (right, right_rates) = q
    u, v = mean(model.right, q[1], 0).sum(axis=0), mean(model.left, q[0]).sum(axis=0)
    middle = model.right.shape * len(right) - model.left.shape * len(left)
    quadratics = zip(model.right.rate * u, -middle, -model.left.rate * v, strict=True)
    z = np.array([np.roots(coefficients).max() for coefficients in quadratics])
    return (left, left_rates * z), (right, right_rates / z)


def parameters(state: Beliefs) -> tuple[Parameters, ...]:
    return tuple(
        (q.parameters, q.rates if is_gamma(prior) else None)
        for prior, q in ((state.model.left, state.left), (state.model.right, state.right))
    )


def assert_same(got: tuple[Parameters, ...], want: tuple[Parameters, ...], rtol: float) -> None:
    for (shape, rates), (want_shape, want_rates) in zip(got, want, strict=True):
        np.testing.assert_allclose(shape, want_shape, rtol=rtol, atol=1e-300)
        assert (rates is None) == (want_rates is None)
        if rates is not None:
            np.testing.assert_allclose(rates, want_rates, rtol=rtol)


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_the_one_in_the_books(model: Variational, seed: int) -> None:
    q = random_parameters(model, 12, 15, seed, spread=2)
    assert bound(model, X, q) == pytest.approx(listed_bound(model, X, q), rel=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_one_step_equals_the_listing(model: Variational, seed: int) -> None:
    q = random_parameters(model, 12, 15, seed)
    task, solver, state = start(model, X, q)
    for _ in range(3):
        state, q = solver.step(task, state), rescaled(model, listed_step(model, X, q))
        assert_same(parameters(state), q, rtol=1e-12)


def test_without_the_block_of_scales_the_iterates_are_those_of_the_lecture() -> None:
    """Paisley, equations 34 to 36: with it, rates are others after some iterations."""
    model = MODELS["Gamma–Gamma"]
    q = random_parameters(model, 12, 15)
    task, solver, state = start(model, X, q, CAVI(rescale=False))
    scaled = start(model, X, q)[2]
    for _ in range(8):
        state, scaled, q = solver.step(task, state), CAVI().step(task, scaled), listed_step(model, X, q)
        assert_same(parameters(state), q, rtol=1e-12)
    assert np.abs(scaled.right.rates / state.right.rates - 1).max() > 0.01


def test_paisleys_bound_is_that_of_a_model_with_latent_counts() -> None:
    """His last remark: Jensen's φ is q(Y) = Multinomial(x, φ) of counts by topic, y_ijk ~ Poisson(l_ik f_jk).
    E log p(X, Y, L, F) − E log q(Y, L, F), with every y summed over, is the same bound."""
    model = MODELS["Gamma–Gamma"]
    counts = np.random.default_rng(1).poisson(1.2, (3, 4))
    q: Any = random_parameters(model, 3, 4)
    (g, b), (h, d) = q
    logs_L, logs_F, K = digamma(g) - np.log(b), digamma(h) - np.log(d), len(b)
    latent = 0.0
    for i, j in np.ndindex(*counts.shape):
        phi = np.exp(logs_L[i] + logs_F[j])
        phi /= phi.sum()
        latent -= (g[i] / b) @ (h[j] / d)
        for y in product(range(counts[i, j] + 1), repeat=K):
            if sum(y) == counts[i, j]:
                log_q = stats.multinomial.logpmf(y, counts[i, j], phi)
                log_p = np.asarray(y) @ (logs_L[i] + logs_F[j]) - gammaln(np.add(y, 1)).sum()
                latent += np.exp(log_q) * (log_p - log_q)
    for prior, shape, rate in ((model.left, g, b), (model.right, h, d)):
        means, logs = shape / rate, digamma(shape) - np.log(rate)
        a, r = prior.shape, prior.rate  # type: ignore[attr-defined]
        latent += (a * np.log(r) - gammaln(a) + (a - 1) * logs - r * means).sum()
        latent += stats.gamma.entropy(shape, scale=1 / rate).sum()
    assert bound(model, counts, q) == pytest.approx(latent, rel=1e-12)


def test_the_scale_of_a_topic_is_the_best_for_the_bound() -> None:
    model = MODELS["Gamma–Gamma"]
    (left, left_rates), (right, right_rates) = rescaled(model, random_parameters(model, 12, 15))
    for k in range(len(left_rates)):

        def loss(log_scale: float, k: int = k) -> float:
            z = np.ones(len(left_rates))
            z[k] = np.exp(log_scale)
            return -bound(model, X, ((left, left_rates * z), (right, right_rates / z)))

        assert minimize_scalar(loss, bracket=(-1, 1)).x == pytest.approx(0, abs=1e-5)


def test_one_step_with_inner_iterations_equals_the_listing(model: Variational) -> None:
    """The loadings alone again and again; then the topics from responsibilities at the last of them."""
    q = random_parameters(model, 12, 15)
    task, solver, state = start(model, X, q, CAVI(inner=4, tolerance=0.0))
    state = solver.step(task, state)
    for step in range(5):
        left, right = listed_step(model, X, q)
        if step < 4:
            q = (left, q[1])
    if is_gamma(model.right):  # the rate goes with the loadings as they are, not one step on
        right = (right[0], model.right.rate + mean(model.left, q[0]).sum(axis=0))
    assert_same(parameters(state), rescaled(model, (q[0], right)), rtol=1e-10)


def test_the_rate_of_the_factors_uses_the_new_loadings_and_the_old_ones_would_lower_the_bound() -> None:
    model = MODELS["Gamma–Gamma"]

    def bounds(jacobi: bool) -> Floats:
        (L, L_rates), right = random_parameters(model, 12, 15, seed=5)
        q: tuple[Parameters, ...] = (L, L_rates / 30), right
        values = [bound(model, X, q)]
        for _ in range(20):
            q = listed_step(model, X, q, jacobi=jacobi)
            values.append(bound(model, X, q))
        return np.array(values)

    assert never_rises(-bounds(jacobi=False))
    assert not never_rises(-bounds(jacobi=True), 1e-3)


def test_paisleys_equation_35_with_b_for_d_ends_at_a_lower_bound() -> None:
    model = MODELS["Gamma–Gamma"]
    right = wrong = random_parameters(model, 12, 15)
    for _ in range(300):
        right, wrong = listed_step(model, X, right), listed_step(model, X, wrong, slip=True)
    assert bound(model, X, wrong) < bound(model, X, right) - 0.1


@pytest.mark.parametrize("inner", [0, 1, 20])
def test_parameters_of_a_sample_add_up_to_prior_and_counts_after_one_step(model: Variational, inner: int) -> None:
    gaps = X.copy()
    gaps[[3, 7]] = 0
    task, solver, state = start(model, gaps, random_parameters(model, 12, 15), CAVI(inner=inner))
    gamma = solver.step(task, state).left.parameters
    np.testing.assert_allclose(gamma.sum(axis=1), model.left.shape.sum() + gaps.sum(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(gamma[[3, 7]], np.tile(model.left.shape, (2, 1)))


# --- bounds are bounds -----------------------------------------------------------------------------------------------

ROW = np.array([[3.0, 0, 2, 1]])
TWO_TOPICS = by_column(np.random.default_rng(2).gamma(1, 1, (4, 2)))
ALPHA_2, RATE_2 = np.array([0.7, 1.6]), 1.8


def integral(log_density: Callable[[Floats, Floats], Floats]) -> float:
    """log ∫∫ over two positive numbers: a sum over an even grid of their logarithms, where the integrand has no poles."""
    grid = np.linspace(-45, 6, 600)
    u, v = grid[:, None], grid[None]
    return float(logsumexp(log_density(np.exp(u), np.exp(v)) + u + v) + 2 * np.log(grid[1] - grid[0]))


@cache
def exact_lda() -> float:
    """log p(x | t) by an integral over the simplex of two topics."""

    def density(share: float) -> float:
        pmf = stats.multinomial.pmf(ROW[0], 6, TWO_TOPICS @ [share, 1 - share])
        return float(stats.beta.pdf(share, *ALPHA_2) * pmf)

    return float(np.log(quad(density, 0, 1, limit=400, epsabs=1e-14)[0]))


@cache
def exact_gamma_poisson(*rates: float) -> float:
    """log p(x) by an integral over two loadings."""

    def log_density(one: Floats, two: Floats) -> Floats:
        prior = sum(stats.gamma.logpdf(v, a, scale=1 / r) for v, a, r in zip((one, two), ALPHA_2, rates, strict=True))
        for x, f in zip(ROW[0], TWO_TOPICS, strict=True):
            prior = prior + stats.poisson.logpmf(x, one * f[0] + two * f[1])
        return prior

    return integral(log_density)


def row_bounds(model: Variational, *, anywhere: bool) -> list[float]:
    """Of the row: at 200 random beliefs, or at the end of the coordinate ascent."""
    q_left = [random_parameters(model, 1, 4, seed, spread=2)[0] for seed in range(200 if anywhere else 1)]
    if anywhere:
        return [bound(model, ROW, (q, (TWO_TOPICS, None))) for q in q_left]
    q = q_left[0]
    for _ in range(500):
        q = listed_step(model, ROW, (q, (TWO_TOPICS, None)))[0]
    return [bound(model, ROW, (q, (TWO_TOPICS, None)))]


def assert_bounds(model: Variational, exact: float, gap: float) -> None:
    assert max(row_bounds(model, anywhere=True)) <= exact + 1e-7
    assert exact - gap < row_bounds(model, anywhere=False)[0] <= exact + 1e-7


def test_the_bound_of_lda_is_below_the_exact_likelihood() -> None:
    assert_bounds(lda(ALPHA_2, None), exact_lda(), gap=0.8)


def test_the_bound_of_gamma_poisson_is_below_the_exact_likelihood() -> None:
    exact = exact_lda() + log_total(np.array([6.0]), ALPHA_2, RATE_2)[0]
    assert exact_gamma_poisson(RATE_2, RATE_2) == pytest.approx(exact, abs=1e-7)  # lemma E.1
    assert_bounds(gamma_poisson(ALPHA_2, np.full(2, RATE_2)), exact, gap=0.8)


def test_the_bound_of_gamma_poisson_with_unequal_rates_is_below_the_exact_likelihood() -> None:
    rates = (0.4, 2.5)
    assert_bounds(gamma_poisson(ALPHA_2, np.array(rates)), exact_gamma_poisson(*rates), gap=0.8)


def test_the_bound_of_bayesian_factorisation_is_below_the_exact_likelihood_of_one_count() -> None:
    def log_density(l: Floats, f: Floats) -> Floats:  # noqa: E741
        priors = stats.gamma.logpdf(l, A, scale=1 / B) + stats.gamma.logpdf(f, C, scale=1 / D)
        return priors + stats.poisson.logpmf(3, l * f)

    exact = integral(log_density)
    model, one = gamma_gamma(1, A, B, C, D), np.array([[3.0]])
    anywhere = [bound(model, one, random_parameters(model, 1, 1, seed, spread=2)) for seed in range(200)]
    assert max(anywhere) <= exact + 1e-7
    assert exact - 1.5 < best_bound(model, one) <= exact + 1e-7


def test_the_bound_of_bayesian_factorisation_is_below_the_likelihood_by_draws_from_the_prior() -> None:
    counts, rng = np.array([[2.0, 0], [1, 3]]), np.random.default_rng(6)
    L, F = rng.gamma(A, 1 / B, (200_000, 2, 2)), rng.gamma(C, 1 / D, (200_000, 2, 2))
    rates = np.maximum(np.einsum("sik,sjk->sij", L, F), 1e-300)
    logs = (xlogy(counts, rates) - rates - gammaln(counts + 1)).sum(axis=(1, 2))
    exact = logsumexp(logs) - np.log(len(logs))  # two standard errors are 0.05
    model = gamma_gamma(2, A, B, C, D)
    anywhere = [bound(model, counts, random_parameters(model, 2, 2, seed, spread=2)) for seed in range(200)]
    assert max(anywhere) <= exact + 0.05
    best = max(best_bound(model, counts, seed=seed) for seed in range(4))
    assert exact - 4 < best <= exact + 0.05


def test_lda_is_dirichlet_poisson_plus_a_constant() -> None:
    model = MODELS["LDA"]
    q = random_parameters(model, 12, 15)

    class Poisson(DirichletRows):
        proportions = False

    poisson = Variational(Poisson(ALPHA), model.right)
    constant = gammaln(X.sum(axis=1) + 1).sum() + len(X)
    assert bound(model, X, q) == pytest.approx(bound(poisson, X, q) + constant, rel=1e-12)
    assert bound(poisson, X, q) == pytest.approx(listed_bound(poisson, X, q), rel=1e-10)


# --- the bound never falls -------------------------------------------------------------------------------------------

COUNT = st.one_of(st.just(0.0), st.integers(1, 9).map(float), st.sampled_from([1e-3, 0.5, 2.25, 250.0, 1e4]))
WEIGHT = st.sampled_from([0.05, 0.5, 1.0, 7.0])


@st.composite
def counts(draw: st.DrawFn, entry: st.SearchStrategy[float] = COUNT) -> Floats:
    """1 × 1 up to 8 × 8, often with empty or one-nonzero rows and empty columns, never all zero."""
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    matrix = np.array(draw(st.lists(entry, min_size=n * m, max_size=n * m))).reshape(n, m)
    matrix[draw(st.lists(st.integers(0, n - 1), max_size=2))] = 0
    matrix[:, draw(st.lists(st.integers(0, m - 1), max_size=2))] = 0
    for i in draw(st.lists(st.integers(0, n - 1), max_size=1)):
        matrix[i] = 0
        matrix[i, draw(st.integers(0, m - 1))] = draw(st.sampled_from([1e-3, 1.0, 250.0]))
    if matrix.sum() == 0:
        matrix[draw(st.integers(0, n - 1)), draw(st.integers(0, m - 1))] = draw(st.sampled_from([1e-3, 1.0, 250.0]))
    return matrix


def numbers(draw: st.DrawFn, length: int) -> float | list[float]:
    return draw(st.one_of(WEIGHT, st.lists(WEIGHT, min_size=length, max_size=length)))


@st.composite
def estimators(draw: st.DrawFn, name: str, shape: tuple[int, int]) -> Any:
    """With K from 1 to 5 and hyper-parameters of every form."""
    K = draw(st.integers(1, 5))
    options: dict[str, Any] = {"n_components": K, "random_state": draw(st.integers(0, 3)), "n_jobs": 1}
    if name == "BayesianPoissonNMF":
        options |= {key: draw(WEIGHT) for key in "ac"} | {key: draw(st.one_of(st.none(), WEIGHT)) for key in "bd"}
        return um.BayesianPoissonNMF(**options)
    options["eta"] = None if draw(st.booleans()) else numbers(draw, shape[1])
    if name == "LDA":
        return um.LDA(alpha="auto" if draw(st.booleans()) else numbers(draw, K), **options)
    rate = None if draw(st.booleans()) else numbers(draw, K)
    return um.GammaPoisson(shape=numbers(draw, K), rate=rate, **options)


def fitted_quietly(estimator: Any, matrix: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components=.* is more than", category=UserWarning)
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        return estimator.fit(matrix)


def assert_sound(estimator: Any, matrix: Floats, size: float) -> None:
    """Finite, of the right shape, and a bound that does not fall by more than rounding, relative to it and `size`."""
    fit, K = estimator.result_, estimator.n_components
    assert fit.L.shape == (matrix.shape[0], K)
    assert fit.F.shape == (matrix.shape[1], K)
    for values in (fit.L, fit.F, *fit.posterior.values()):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
    objective = fit.trace["objective"].to_numpy()
    assert np.isfinite(objective).all()
    assert np.all(np.diff(objective) >= -1e-10 * (np.abs(objective[:-1]) + size))
    loadings = estimator.transform(matrix)
    assert np.isfinite(loadings).all()
    assert np.isfinite(estimator.score(matrix))


@pytest.mark.parametrize("inner", [0, 1, 20])
@pytest.mark.parametrize("name", ["LDA", "GammaPoisson", "BayesianPoissonNMF"])
@examples(15)
@given(data=st.data())
def test_the_bound_never_falls(name: str, inner: int, data: st.DataObject) -> None:
    matrix = data.draw(counts())
    estimator = data.draw(estimators(name, matrix.shape))
    estimator.set_params(inner=inner, extrapolate=data.draw(st.booleans()), init="random", max_iter=12, tol=0)
    assert_sound(fitted_quietly(estimator, matrix), matrix, size=1)


@pytest.mark.parametrize("name", ["LDA", "GammaPoisson", "BayesianPoissonNMF"])
@examples(15)
@given(data=st.data())
def test_counts_of_all_sizes_are_no_problem(name: str, data: st.DataObject) -> None:
    matrix = data.draw(counts(st.sampled_from([0.0, 1e-9, 1.0, 1e6, 1e12])))
    estimator = data.draw(estimators(name, matrix.shape))
    estimator.set_params(inner=data.draw(st.sampled_from([0, 20])), max_iter=10, tol=0, init="random")
    # terms of the size of the counts times their logarithms cancel in the bound
    size = 1 + matrix.sum() * (1 + abs(np.log(matrix.max())))
    assert_sound(fitted_quietly(estimator, matrix), matrix, size)


@pytest.mark.parametrize(("inner", "extrapolate"), [(0, True), (20, False)])
def test_the_bound_never_falls_on_the_state_of_the_union(
    kind: Callable[..., Any], inner: int, extrapolate: bool
) -> None:
    options = {"init": "random", "inner": inner, "extrapolate": extrapolate, "max_iter": 10, "tol": 0}
    fit = kind(4, random_state=0, **options).fit(um.datasets.sotu()).result_
    assert never_rises(-fit.trace["objective"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LDA", "BayesianPoissonNMF"])
def test_extrapolation_speeds_inference_up(name: str) -> None:
    X = um.datasets.sotu()
    options = {"random_state": 0, "max_iter": 25, "tol": 0} | ({"alpha": 0.1, "eta": 0.1} if name == "LDA" else {})
    options["inner"] = 0 if name == "BayesianPoissonNMF" else 2
    plain = getattr(um, name)(6, extrapolate=False, **options).fit(X)
    faster = getattr(um, name)(6, **options).fit(X)
    assert faster.elbo_ > plain.elbo_ + 1


def test_a_step_that_would_lower_the_bound_is_taken_back_and_a_plain_one_follows() -> None:
    X = um.datasets.sotu()
    trace = um.LDA(8, alpha=0.1, eta=0.1, random_state=0, max_iter=60, tol=0).fit(X).result_.trace
    rejected = np.flatnonzero(trace["note"] == "rejected")
    gains = trace["objective"].diff().to_numpy()
    assert len(rejected) > 0
    assert (gains[rejected] == 0).all()
    after = rejected[rejected + 1 < len(trace)] + 1
    assert (gains[after] > 0).all()


@pytest.mark.parametrize("seed", [534, 3584, 11080, 11329])
@pytest.mark.parametrize("inner", [0, 1, 2])
def test_the_bound_does_not_fall_while_rates_change_much(inner: int, seed: int) -> None:
    """Here expected counts under the new rates of L, instead of the old ones, lower the bound in the second iteration."""
    rng = np.random.default_rng(seed)
    K, m, n = int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    matrix = np.ceil(np.exp(rng.normal(1, 2, (n, m))))
    model = gamma_gamma(K, *np.exp(rng.normal(0, 1.5, 4)))
    q = random_parameters(model, n, m, seed, spread=2.5)
    for _ in range(20):
        q = ((listed_step(model, matrix, q)[0][0], q[0][1]), q[1])
    task, solver, state = start(model, matrix, q, CAVI(inner=inner))
    losses = [state.loss]
    for _ in range(5):
        state = solver.step(task, state)
        losses.append(state.loss)
    assert never_rises(losses)


# --- alpha -----------------------------------------------------------------------------------------------------------


def inverse_digamma(y: Floats) -> Floats:
    x = np.where(y >= -2.22, np.exp(y) + 0.5, -1 / (y - digamma(1)))
    for _ in range(8):
        x = x - (digamma(x) - y) / polygamma(1, x)
    return x


def some_belief(seed: int, n: int = 50, K: int = 4) -> Belief:
    rng = np.random.default_rng(seed)
    gamma = rng.dirichlet([0.3, 0.5, 1, 2][:K], n) * rng.gamma(2, 20, (n, 1)) + 0.1
    return DirichletRows(np.ones(K)).belief(gamma)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("first", [0.01, 1.0, 300.0])
def test_newtons_alpha_is_that_of_the_fixed_point(first: float, seed: int) -> None:
    belief = some_belief(seed)
    gamma = belief.parameters
    average = (digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))).mean(axis=0)
    want = np.ones(4)
    for _ in range(1000):
        want = inverse_digamma(digamma(want.sum()) + average)
    np.testing.assert_allclose(
        best_concentration(np.full(4, first), len(belief.parameters), log_shares(belief.parameters)), want, rtol=1e-5
    )


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 1e3])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_alpha_never_lowers_the_bound(n: int, first: float) -> None:
    belief = some_belief(0, n)
    before = DirichletRows(np.full(4, first)).belief(belief.parameters).bound
    alpha = best_concentration(np.full(4, first), len(belief.parameters), log_shares(belief.parameters))
    assert (alpha > 0).all()
    assert DirichletRows(alpha).belief(belief.parameters).bound > before - 1e-10 * abs(before)


def test_alpha_of_a_single_topic_is_left_alone() -> None:
    fit = um.LDA(1, alpha="auto", random_state=0).fit(X)
    np.testing.assert_array_equal(fit.alpha_, [1.0])
    assert np.isfinite(fit.elbo_)


def test_learned_alpha_beats_the_one_it_began_with() -> None:
    fixed = um.LDA(3, alpha=1.0, init=START).fit(X0)
    learned = um.LDA(3, alpha="auto", init=START).fit(X0)
    assert learned.elbo_ > fixed.elbo_ + 1
    assert np.ptp(learned.alpha_) > 0.1
    again = um.LDA(3, alpha=learned.alpha_, init=learned.result_, max_iter=1, tol=0).fit(X0)
    np.testing.assert_array_equal(again.alpha_, learned.alpha_)


# --- the posterior ---------------------------------------------------------------------------------------------------


def beta_of(parameters: Floats, axis: int) -> Any:
    """Marginals of Dirichlets."""
    return stats.beta(parameters, parameters.sum(axis=axis, keepdims=True) - parameters)


def posteriors() -> dict[str, tuple[Any, str, Any]]:
    smooth = um.LDA(3, alpha=0.4, eta=0.3, init=START, max_iter=30, tol=0).fit(X0)
    gap = um.GammaPoisson(3, shape=[0.2, 0.5, 1], rate=[0.1, 0.3, 0.2], eta=0.5, init=START, max_iter=30, tol=0).fit(X0)
    both = um.BayesianPoissonNMF(3, init=START, max_iter=30, tol=0).fit(X0)
    rates = both.result_.posterior["F_rate"]
    return {
        "LDA loadings": (smooth, "loadings", beta_of(smooth.gamma_, 1)),
        "LDA factors": (smooth, "factors", beta_of(smooth.result_.posterior["F"], 0)),
        "GammaPoisson loadings": (gap, "loadings", stats.gamma(gap.shape_, scale=1 / gap.rate_)),
        "GammaPoisson factors": (gap, "factors", beta_of(gap.result_.posterior["F"], 0)),
        "BayesianPoissonNMF factors": (both, "factors", stats.gamma(both.result_.posterior["F"], scale=1 / rates)),
    }


POSTERIORS = posteriors()


@pytest.mark.parametrize("which", POSTERIORS)
def test_means_deviations_and_intervals_are_those_of_the_posterior(which: str) -> None:
    estimator, of, q = POSTERIORS[which]
    np.testing.assert_allclose(estimator.standard_deviations(of), q.std(), rtol=1e-9)
    fit, totals = estimator.result_, X0.sum(axis=1, keepdims=True)
    means = fit.F if of == "factors" else fit.L / totals if isinstance(estimator, um.LDA) else fit.L
    np.testing.assert_allclose(means, q.mean(), rtol=1e-12)
    for level in (0.5, 0.9, 0.99):
        low, high = estimator.credible_intervals(of, level)
        np.testing.assert_allclose(low, q.ppf((1 - level) / 2), rtol=1e-6, atol=1e-300)
        np.testing.assert_allclose(high, q.ppf((1 + level) / 2), rtol=1e-6)
        np.testing.assert_allclose(q.cdf(high) - q.cdf(low), level, rtol=1e-6)


@pytest.mark.parametrize("which", POSTERIORS)
def test_wider_levels_have_wider_intervals(which: str) -> None:
    estimator, of, _ = POSTERIORS[which]
    intervals = [estimator.credible_intervals(of, level) for level in (0.1, 0.5, 0.9, 0.99)]
    for (low, high), (wider_low, wider_high) in pairwise(intervals):
        assert (wider_low < low).all()
        assert (high < wider_high).all()


def test_a_single_topic_has_all_of_every_sample_for_certain() -> None:
    estimator = um.LDA(1, random_state=0).fit(X0)
    assert (estimator.standard_deviations() == 0).all()
    for end in estimator.credible_intervals():
        assert (end == 1).all()


@pytest.mark.parametrize("point", [um.LDA(3, init=START), um.GammaPoisson(3, init=START)], ids=["LDA", "GammaPoisson"])
def test_point_topics_have_no_spread(point: Any) -> None:
    point.set_params(max_iter=3, tol=0).fit(X0)
    for ask in (point.standard_deviations, point.credible_intervals):
        with pytest.raises(ValueError, match=r"topics are point estimates and have no spread; set eta"):
            ask("factors")
        ask("loadings")


def test_questions_that_have_no_answer_are_refused(kind: Callable[..., Any]) -> None:
    estimator = kind(3, init=START, max_iter=2, tol=0).fit(X0)
    for ask in (estimator.standard_deviations, estimator.credible_intervals):
        with pytest.raises(ValueError, match="of='topics'; choose one of loadings, factors"):
            ask("topics")
    for level in (0, 1, -0.5, 1.5, float("nan"), 90):
        with pytest.raises(ValueError, match=f"level={level}; use a probability between 0 and 1"):
            estimator.credible_intervals(level=level)


# --- starts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("init", "note"),
    [("auto", "maximum likelihood"), ("topic-score", "topic-score"), ("random", "random"), (START, "given")],
    ids=["auto", "topic-score", "random", "pair"],
)
def test_every_start_works(init: Any, note: str, kind: Callable[..., Any]) -> None:
    data = um.datasets.correlated_topics("A") if isinstance(init, str) else X0
    fit = kind(3, init=init, max_iter=5, tol=0, random_state=0).fit(data).result_
    assert fit.trace["note"][0] == note
    assert fit.trace["objective"].iloc[-1] > fit.trace["objective"][0]
    assert len(fit.trace) == 6


def test_the_automatic_start_ends_hardly_lower_than_a_random_one(kind: Callable[..., Any]) -> None:
    data = um.datasets.correlated_topics("A")
    ends = {
        init: kind(6, init=init, max_iter=100, tol=0, random_state=0).fit(data).elbo_ for init in ("auto", "random")
    }
    assert ends["auto"] >= ends["random"] - 5e-3 * abs(ends["random"])


@cache
def converged() -> um.Fit:
    return um.TopicModel(3, random_state=0, max_iter=3000).fit(X0).result_


@pytest.mark.parametrize("eta", [None, 0.3])
def test_lda_starts_from_a_maximum_likelihood_fit_where_the_map_says(eta: float | None) -> None:
    ml, alpha, t = converged(), np.full(3, 0.4), X0.sum(axis=1)
    etas = None if eta is None else np.full(25, eta)
    q = tuple((values, None) for values in poisson_to_lda(ml.L, ml.F, t, alpha, etas))
    np.testing.assert_allclose(q[0][0], 0.4 + t[:, None] * ml.proportions, rtol=1e-12)
    fit = um.LDA(3, alpha=0.4, eta=eta, init=ml, extrapolate=False, max_iter=1, tol=0).fit(X0).result_
    assert fit.trace["note"][0] == "given"
    assert fit.trace["objective"][0] == pytest.approx(listed_bound(lda(alpha, etas), X0, q), rel=1e-10)


def test_bayesian_factorisation_starts_from_a_maximum_likelihood_fit_where_the_map_says() -> None:
    ml = converged()
    L, L_rates, F, F_rates = poisson_to_gamma_gamma(X0, ml.L, ml.F, A, B, C, D)
    fit = um.BayesianPoissonNMF(3, a=A, b=B, c=C, d=D, init=ml, max_iter=1, tol=0).fit(X0).result_
    want = listed_bound(MODELS["Gamma–Gamma"], X0, ((L, L_rates), (F, F_rates)))
    assert fit.trace["objective"][0] == pytest.approx(want, rel=1e-10)


def test_a_start_gives_topics_their_place(kind: Callable[..., Any]) -> None:
    topics = kind(3, init=START, max_iter=20, tol=0, extrapolate=False).fit(X0).components_
    order = [2, 0, 1]
    moved = kind(3, init=(L0[:, order], F0[:, order]), max_iter=20, tol=0, extrapolate=False).fit(X0).components_
    np.testing.assert_allclose(moved, topics[order], rtol=1e-8)


def test_hyperparameters_that_differ_by_topic_keep_their_topics() -> None:
    for estimator in (um.LDA(3, alpha=[0.1, 5, 0.3]), um.GammaPoisson(3, shape=[0.1, 5, 0.3])):
        estimator.set_params(init="random", random_state=0, max_iter=10, tol=0).fit(X0)
        np.testing.assert_array_equal(estimator.result_.posterior["L_prior"], [0.1, 5, 0.3])


def test_topics_come_heaviest_first_and_their_posterior_with_them(kind: Callable[..., Any]) -> None:
    estimator = kind(4, init="random", random_state=0, max_iter=40, tol=0).fit(X0)
    fit = estimator.result_
    assert (np.diff(fit.shares) <= 1e-12).all()
    loadings = fit.L / X0.sum(axis=1, keepdims=True) if isinstance(estimator, um.LDA) else fit.L
    np.testing.assert_allclose(posterior_means(estimator), loadings, rtol=1e-12)


# --- warm starts -----------------------------------------------------------------------------------------------------


def assert_same_bits(one: um.Fit, two: um.Fit) -> None:
    assert one.L.tobytes() == two.L.tobytes()
    assert one.F.tobytes() == two.F.tobytes()
    assert one.loglik == two.loglik
    assert one.posterior.keys() == two.posterior.keys()
    for key, values in one.posterior.items():
        assert values.tobytes() == two.posterior[key].tobytes()
    assert one.trace["objective"].iloc[-1] == two.trace["objective"].iloc[-1]


@pytest.mark.parametrize("init", ["random", "pair"])
@pytest.mark.parametrize("inner", [0, 5])
def test_ten_and_ten_iterations_are_twenty(kind: Callable[..., Any], inner: int, init: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_components": 3, "inner": inner, "tol": 0}
    first: Any = START if init == "pair" else "random"
    twenty = kind(**options, init=first, max_iter=20, random_state=0).fit(X0).result_
    ten = kind(**options, init=first, max_iter=10, random_state=0).fit(X0).result_
    more = kind(**options, init=ten, max_iter=10).fit(X0).result_
    assert more.trace["note"][0] == "resumed"
    assert_same_bits(more, twenty)
    ten.save(tmp_path / "ten.safetensors", resumable=True)
    assert_same_bits(kind(**options, init=um.load(tmp_path / "ten.safetensors"), max_iter=10).fit(X0).result_, twenty)


def test_a_fit_that_is_not_resumable_or_of_other_data_still_starts_another(
    kind: Callable[..., Any], tmp_path: Path
) -> None:
    ten = kind(3, init=START, max_iter=10, tol=0).fit(X0).result_
    ten.save(tmp_path / "ten.safetensors")
    again = kind(3, init=um.load(tmp_path / "ten.safetensors"), max_iter=1, tol=0).fit(X0).result_
    other = kind(3, init=ten, max_iter=1, tol=0).fit(X0 + 1).result_
    for fit in (again, other):
        assert fit.trace["note"][0] == "given"


@pytest.mark.parametrize(
    "other",
    [
        um.LDA(3, alpha=0.9),
        um.LDA(3, alpha=0.4, eta=0.1),
        um.LDA(3, alpha="auto"),
        um.GammaPoisson(3),
        um.BayesianPoissonNMF(3, inner=20),
        um.BayesianPoissonNMF(3, a=0.5, inner=20),
    ],
    ids=repr,
)
def test_a_warm_start_has_the_model_that_was_asked_for(other: Any, kind: Callable[..., Any]) -> None:
    fit = kind(3, inner=20, init=START, max_iter=5, tol=0).fit(X0).result_
    warm = other.set_params(init=fit, max_iter=1, tol=0).fit(X0).result_
    pair = other.set_params(init=(fit.L, fit.F)).fit(X0).result_
    if warm.trace["note"][0] == "given":  # and not resumed, which only the same model may be
        assert_same_bits(warm, pair)
    else:
        assert kind is FAMILY["Gamma–Gamma"] or other.get_params().get("alpha") == "auto"
    assert warm.posterior.keys() == pair.posterior.keys()
    for key in set(warm.posterior) & {"L_prior_rate", "F_prior", "F_prior_rate"}:
        np.testing.assert_array_equal(warm.posterior[key], pair.posterior[key])


# --- new samples -----------------------------------------------------------------------------------------------------


def posterior_means(estimator: Any) -> Floats:
    q = estimator.result_.posterior
    of_rows = estimator.sample_rates_[:, None] if "L_rate_shape" in q else 0.0
    return q["L"] / (of_rows + q["L_rate"] if "L_rate" in q else q["L"].sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    "estimator",
    [
        um.LDA(3, alpha=1.2),
        um.LDA(3, alpha=1.2, eta=0.3),
        um.GammaPoisson(3, shape=1.2),
        um.GammaPoisson(3, shape=1.2, eta=0.3),
        um.BayesianPoissonNMF(3, a=1.2),
    ],
    ids=repr,
)
def test_transform_of_the_fitted_samples_is_their_posterior_mean(estimator: Any) -> None:
    fitted_quietly(estimator.set_params(init=START, max_iter=2000, tol=1e-11), X0)
    want = posterior_means(estimator)
    np.testing.assert_allclose(estimator.transform(X0), want, atol=1e-4 * want.max())


def test_the_posterior_of_the_fitted_samples_stands_still(kind: Callable[..., Any]) -> None:
    """Shapes below one allow several optima, and `transform` may find another; but where the fit ended is one."""
    fit = fitted_quietly(kind(3, init=START, inner=20, max_iter=2000, tol=1e-11), X0).result_
    model, left, right = restore(fit.priors, fit.posterior)
    again = infer(Inference(Counts(X0), model), model, right, left, 5, 0.0)
    np.testing.assert_allclose(again.parameters, left.parameters, atol=1e-3 * X0.sum(axis=1).max())


def test_transform_treats_every_sample_alone_and_takes_empty_ones(kind: Callable[..., Any]) -> None:
    estimator = kind(3, init=START, max_iter=20, tol=0).fit(X0)
    new = random_counts(6, 25, seed=9)
    new[2] = 0
    together = estimator.transform(new)
    np.testing.assert_allclose(np.vstack([estimator.transform(row[None]) for row in new]), together, rtol=1e-12)
    q, cost = estimator.result_.posterior, estimator.result_.F.sum(axis=0)
    rate = q["L_prior_rate"] + cost if "L_prior_rate" in q else q["L_prior"].sum()
    if "L_rate_shape" in q:  # of which the mean goes with the loadings
        shape, mean = q["L_rate_shape"][0], q["L_prior_rate"][0]
        hierarchy = kernels.Hierarchy(cost, shape + q["L_prior"].sum(), shape / mean)
        rate = reference.means_of_rates(q["L_prior"][None], hierarchy) + cost
    np.testing.assert_allclose(together[2], q["L_prior"] / rate, rtol=1e-12)
    if isinstance(estimator, um.LDA):
        np.testing.assert_allclose(together.sum(axis=1), 1, rtol=1e-12)
    assert estimator.score(np.zeros((2, 25))) == 0


def test_transform_is_that_of_the_topics_in_another_order(kind: Callable[..., Any]) -> None:
    estimator = kind(3, init=START, max_iter=20, tol=0).fit(X0)
    want, score, order = estimator.transform(X0), estimator.score(X0), [2, 0, 1]
    fit = estimator.result_
    moved = {key: values[..., order] if values.shape[-1] == 3 else values for key, values in fit.posterior.items()}
    estimator.result_ = replace(fit, L=fit.L[:, order], F=fit.F[:, order], posterior=moved)
    np.testing.assert_allclose(estimator.transform(X0), want[:, order], rtol=1e-6)
    assert estimator.score(X0) == pytest.approx(score, rel=1e-9)


@pytest.mark.parametrize("name", ["LDA", "LDA, learned alpha", "Gamma–Poisson"])
def test_features_without_weight_are_left_aside_with_a_warning(name: str) -> None:
    estimator = FAMILY[name](3, init=(START[0][:20], START[1][:9]), max_iter=20, tol=0).fit(GAPS)
    new = GAPS.copy()
    new[:5, 4] = 3
    with pytest.warns(UserWarning, match="1 features with counts have no weight in any topic.*ignored"):
        got = estimator.transform(new)
    np.testing.assert_array_equal(got, estimator.transform(GAPS))


@pytest.mark.parametrize("name", ["smoothed LDA", "smoothed Gamma–Poisson", "Gamma–Gamma"])
def test_believed_topics_have_weight_on_features_never_seen(name: str) -> None:
    estimator = FAMILY[name](3, init=(START[0][:20], START[1][:9]), max_iter=20, tol=0).fit(GAPS)
    new = GAPS.copy()
    new[:5, 4] = 3
    assert (estimator.components_ > 0).all()
    assert np.isfinite(estimator.score(new))
    assert estimator.score(new) < estimator.score(GAPS)


@pytest.mark.parametrize("inner", [0, 20])
def test_any_number_of_threads_gives_the_same_bytes(kind: Callable[..., Any], inner: int) -> None:
    data = random_counts(1500, 40, seed=2)  # more than one block of rows
    fits = [
        kind(5, init="random", inner=inner, max_iter=3, tol=0, random_state=0, n_jobs=threads).fit(data)
        for threads in (1, 3)
    ]
    assert_same_bits(fits[0].result_, fits[1].result_)
    assert fits[0].transform(data).tobytes() == fits[1].transform(data).tobytes()
    assert fits[0].score(data) == fits[1].score(data)


def test_the_score_is_below_the_log_likelihood_and_per_count(kind: Callable[..., Any]) -> None:
    estimator = kind(3, init=START, max_iter=200, tol=0).fit(X0)
    new = random_counts(10, 25, K=3, seed=4)
    ml = um.PoissonNMF(3, init=(L0, estimator.result_.F), max_iter=1, tol=0).fit(X0)
    ml.result_ = replace(ml.result_, F=estimator.result_.F)
    best = ml.transform(new)  # the loadings under which these samples are likeliest, given the same factors
    model = "multinomial" if isinstance(estimator, um.LDA) else "poisson"
    likelihood = um.loglik(new, best, estimator.result_.F, model=model)
    assert estimator.score(new) * new.sum() < likelihood
    assert estimator.score(new) * new.sum() > 3 * likelihood
    twice = np.vstack([new, new])
    assert estimator.score(twice) == pytest.approx(estimator.score(new), rel=1e-12)


@pytest.mark.parametrize("estimator", [um.LDA(3, alpha=1.2), um.GammaPoisson(3, shape=1.2)], ids=repr)
def test_the_score_of_the_fitted_samples_is_the_bound_per_count_if_topics_are_points(estimator: Any) -> None:
    fitted_quietly(estimator.set_params(init=START, max_iter=2000, tol=1e-11), X0)
    assert estimator.score(X0) * X0.sum() == pytest.approx(estimator.elbo_, rel=1e-6)


def test_a_saved_and_loaded_fit_keeps_its_posterior(kind: Callable[..., Any], tmp_path: Path) -> None:
    estimator = kind(3, init=START, max_iter=5, tol=0).fit(X0)
    want = estimator.transform(X0), estimator.standard_deviations(), estimator.score(X0)
    estimator.result_.save(tmp_path / "fit.safetensors")
    loaded = um.load(tmp_path / "fit.safetensors")
    assert_same_bits(loaded, estimator.result_)
    estimator.result_ = loaded
    np.testing.assert_array_equal(estimator.transform(X0), want[0])
    np.testing.assert_array_equal(estimator.standard_deviations(), want[1])
    assert estimator.score(X0) == want[2]


def test_the_result_is_the_posterior_mean_on_the_poisson_scale(kind: Callable[..., Any]) -> None:
    estimator = kind(3, init=START, max_iter=30, tol=0).fit(X0)
    fit, means = estimator.result_, posterior_means(estimator)
    t = X0.sum(axis=1, keepdims=True) if isinstance(estimator, um.LDA) else 1.0
    np.testing.assert_allclose(fit.L, t * means, rtol=1e-12)
    np.testing.assert_array_equal(estimator.components_, fit.F.T)
    if not isinstance(estimator, um.BayesianPoissonNMF):
        np.testing.assert_allclose(estimator.components_.sum(axis=1), 1, rtol=1e-12)
    assert fit.loglik == pytest.approx(um.loglik(X0, fit.L, fit.F), rel=1e-12)
    assert estimator.elbo_ == fit.trace["objective"].iloc[-1]
    assert estimator.elbo_ < um.loglik(
        X0, fit.L, fit.F, model="multinomial" if isinstance(estimator, um.LDA) else "poisson"
    )


def test_automatic_rates_expect_the_counts_that_there_are() -> None:
    gap = um.GammaPoisson(3, shape=[0.2, 1, 3], init=START, max_iter=1, tol=0).fit(X0).result_.posterior
    assert (gap["L_prior"] / gap["L_prior_rate"]).sum() * 30 == pytest.approx(X0.sum())
    for chosen in ({}, {"b": 0.1}, {"d": 7.0}):
        q = um.BayesianPoissonNMF(3, a=0.5, c=2.0, init=START, max_iter=1, tol=0, **chosen).fit(X0).result_.posterior
        expected = (q["L_prior"] / q["L_prior_rate"] * q["F_prior"] / q["F_prior_rate"]).sum() * 30 * 25
        assert expected == pytest.approx(X0.sum())
        assert all(q[{"b": "L_prior_rate", "d": "F_prior_rate"}[name]][0] == value for name, value in chosen.items())


# --- bad parameters --------------------------------------------------------------------------------------------------

NUMBERS: dict[type, dict[str, int]] = {  # their hyper-parameters, and how many they may be
    um.LDA: {"alpha": 3, "eta": 25},
    um.GammaPoisson: {"shape": 3, "rate": 3, "eta": 25},
    um.BayesianPoissonNMF: {"a": 1, "b": 1, "c": 1, "d": 1},
}
NO_NUMBERS: dict[str, Any] = {
    "zero": 0.0,
    "negative": -1.0,
    "NaN": float("nan"),
    "infinite": float("inf"),
    "text": "much",
    "complex": 1j,
    "a table": [[1.0, 1.0]],
    "nothing": [],
    "too many": [1.0] * 26,
    "mixed": [1.0, "a", 2.0],
    "ragged": [[1.0], [1.0, 2.0]],
}


@pytest.mark.parametrize("what", NO_NUMBERS)
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NUMBERS.items() for name in names])
def test_a_bad_hyperparameter_is_named(kind: type, name: str, what: str) -> None:
    model = kind(3, init=START, **{name: NO_NUMBERS[what]})
    with pytest.raises(ValueError, match=rf"^{name}(=| has shape)[^\n]*(positive|finite)[^\n]*$"):
        model.fit(X0)
    assert not hasattr(model, "result_")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NUMBERS.items() for name in names])
def test_one_bad_number_among_good_ones_is_enough(kind: type, name: str) -> None:
    length = NUMBERS[kind][name]
    values = [1.0] * (length - 1) + [-1.0]
    with pytest.raises(ValueError, match=f"^{name}=.*-1.*positive"):
        kind(3, init=START, **{name: values}).fit(X0)


IMPOSSIBLE = L0.copy()
IMPOSSIBLE[4] = 0
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no topics": ({"n_components": 0}, "n_components=0; use a whole number of topics >= 1"),
    "inner": ({"inner": -1}, "inner=-1; use a whole number >= 0"),
    "fractional inner": ({"inner": 1.5}, "inner=1.5"),
    "inner as text": ({"inner": "many"}, "inner='many'"),
    "max_iter": ({"max_iter": 0}, "max_iter=0; use a whole number >= 1"),
    "tol": ({"tol": -1e-3}, "tol=-0.001; use a number >= 0"),
    "NaN tol": ({"tol": float("nan")}, "tol=nan"),
    "tol as text": ({"tol": "low"}, "tol='low'"),
    "online": ({"online": True}, r"online=True; use None or unmix.Online\(batch_size=...\)"),
    "online as a number": ({"online": 256}, "online=256"),
    "unknown init": ({"init": "nndsvd"}, r"init='nndsvd'; choose one of auto, topic-score, random, a pair \(L0, F0\)"),
    "no init": ({"init": None}, "init=None; choose one of"),
    "half a pair": ({"init": (L0,)}, "choose one of auto"),
    "L0 too short": ({"init": (L0[:-1], F0)}, r"L.* has shape \(29, 3\); 30 samples need shape \(30, 3\)"),
    "F0 too short": ({"init": (L0, F0[:-1])}, r"F.* has shape \(24, 3\); 25 features need shape \(25, 3\)"),
    "other topics": ({"init": (L0[:, :2], F0[:, :2])}, r"shape \(30, 2\); 30 samples need shape \(30, 3\)"),
    "negative L0": ({"init": (-L0, F0)}, r"L.*\[0, 0\] is -.*finite and >= 0"),
    "NaN in F0": ({"init": (L0, F0 * np.nan)}, r"F.*\[0, 0\] is nan"),
    "no threads": ({"n_jobs": 0}, "n_jobs=0; use a number of threads >= 1"),
    "random_state": ({"random_state": "seed", "init": "random"}, "'seed' cannot be used to seed"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_parameter_is_explained(what: str, kind: Callable[..., Any]) -> None:
    options, message = BAD[what]
    model = kind(**({"n_components": 3, "init": START} | options))
    with pytest.raises(ValueError, match=message):
        model.fit(X0)
    assert not hasattr(model, "result_")


def test_a_start_under_which_a_count_is_impossible_is_refused_or_mended() -> None:
    with pytest.raises(ValueError, match="a count has a rate of zero, so it is impossible; use its sample"):
        um.BayesianPoissonNMF(3, init=(IMPOSSIBLE, F0)).fit(X0)
    for kind in (um.LDA, um.GammaPoisson):  # the prior gives an empty sample even proportions
        assert np.isfinite(kind(3, init=(IMPOSSIBLE, F0), max_iter=3, tol=0).fit(X0).elbo_)


def test_alpha_is_not_learned_from_batches() -> None:
    with pytest.raises(ValueError, match='alpha="auto" is learned from all samples; use a number'):
        um.LDA(3, alpha="auto", online=um.Online()).fit(X0)
    assert not hasattr(um.LDA(3, alpha="auto"), "partial_fit")  # so scikit-learn would have it
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as error:
        um.LDA(3, alpha="auto").partial_fit(X0)
    assert "learned from all samples" in str(error.value.__cause__)


def test_momentum_moves_no_feature_so_far_out_of_a_topic_that_it_could_not_come_back() -> None:
    prior = PointTopics()
    old, new = (
        prior.belief(np.array([[0.5], [0.3], [0.2], [0.0]])),
        prior.belief(np.array([[1.0], [1e-40], [1e-9], [0.0]])),
    )
    moved = prior.beyond(new, old, 0.99).parameters
    np.testing.assert_allclose(moved.ravel(), [1.0, 2.5e-8 / 1.495, 2.5e-8 / 1.495, 0.0], rtol=1e-6)


@pytest.mark.parametrize("extra", [None, np.full((25, 3), 0.3)], ids=["maximum likelihood", "mode"])
def test_a_newton_step_of_estimated_topics_gains_more_than_an_update_and_rests_where_an_update_rests(
    extra: np.ndarray | None,
) -> None:
    prior = PointTopics(extra)
    task = Inference(um.Counts(X0), Variational(DirichletRows(np.ones(3)), prior))
    left, right = task.model.start(task.sides, task.X, L0, F0)

    def bound(right: Belief) -> float:
        return -task.loss(task.model, left, right)

    def counts(right: Belief) -> np.ndarray:
        return right.geometric * task.sides.right.numerators(right.geometric, left.geometric)[0]

    for _ in range(20):
        right = prior.update(counts(right), left.sums)
    step, update = prior.moved(task.sides.right, left, right, counts(right)), prior.update(counts(right), left.sums)
    assert bound(step) > bound(update) > bound(right)
    for _ in range(5000):
        right = prior.update(counts(right), left.sums)
    rested = prior.moved(task.sides.right, left, right, counts(right))
    np.testing.assert_allclose(rested.parameters, right.parameters, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"eta": 0.1}], ids=["estimated", "believed"])
def test_loadings_are_inferred_before_topics_move(options: dict[str, Any]) -> None:
    X = um.datasets.correlated_topics("A")
    topics = um.TopicModel(3, random_state=0).fit(X).result_.F
    flat = np.outer(X.sample_totals, np.full(3, 1 / 3))
    model = um.LDA(3, alpha=0.3, init=(flat, topics), max_iter=1, tol=0, **options).fit(X)
    start = model.result_.trace["objective"].iloc[0]
    task = Inference(X, model._model(X))
    left, right = task.model.start(task.sides, X, flat, topics)
    best = infer(task, task.model, right, left, 1000, 1e-9)
    first, last = (-task.loss(task.model, q, right) for q in (left, best))
    assert first + 0.99 * (last - first) < start <= last
    accelerated, plain = (
        um.LDA(3, alpha=0.3, init=(flat, topics), extrapolate=extrapolate, **options).fit(X)
        for extrapolate in (True, False)
    )
    assert accelerated.elbo_ > plain.elbo_ - 5


# --- short samples ---------------------------------------------------------------------------------------------------


def short_texts(words: int, seed: int = 0) -> tuple[Any, Any]:
    """Texts of so many words, nearly all of one of eight topics, and their topics."""
    rng = np.random.default_rng(seed)
    topics, labels = rng.dirichlet(np.full(200, 0.1), 8), rng.integers(8, size=1500)
    return np.stack([rng.multinomial(words, 0.9 * topics[k] + 0.1 * topics[rng.integers(8)]) for k in labels]), labels


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_short_samples_start_where_the_bound_ends_highest(alpha: float) -> None:
    X, labels = short_texts(5)
    quick = um.PoissonNMF(8, init="topic-score", prefit=4, max_iter=20, tol=0, random_state=0).fit(X).result_
    before = um.LDA(8, alpha=alpha, init=quick, random_state=0).fit(X)
    model = um.LDA(8, alpha=alpha, random_state=0).fit(X)
    assert model.result_.trace["note"].iloc[0] in ("Gibbs sampling", "maximum likelihood")
    assert model.elbo_ > before.elbo_ - 1
    found, given = (agreement(fit.result_.proportions.argmax(axis=1), labels) for fit in (model, before))
    assert found > given - 0.02
    assert found > 0.5
    assert any("samples are short, 5.0 counts on average" in sentence for sentence in model.result_.advice())


def agreement(found: Any, labels: Any) -> float:
    return float(normalized_mutual_info_score(labels, found))


def test_a_fit_that_starts_from_gibbs_sampling_can_be_resumed() -> None:
    X, _ = short_texts(5)
    model = um.LDA(8, alpha=0.1, random_state=0, max_iter=30, tol=0).fit(X)
    assert model.result_.trace["note"].iloc[0] == "Gibbs sampling"
    half = um.LDA(8, alpha=0.1, random_state=0, max_iter=10, tol=0).fit(X).result_
    again = um.LDA(8, alpha=0.1, random_state=0, max_iter=30, tol=0).resume(X, half)
    assert again.elbo_ == model.elbo_


def test_longer_samples_and_fractions_start_from_maximum_likelihood() -> None:
    assert um.LDA(8, max_iter=1, tol=0, random_state=0).fit(short_texts(30)[0]).result_.trace["note"].iloc[0] == (
        "maximum likelihood"
    )
    X = short_texts(5)[0] * 1.5
    assert um.LDA(8, max_iter=1, tol=0, random_state=0).fit(X).result_.trace["note"].iloc[0] == "maximum likelihood"
