"""Likelihoods equal those of scipy.stats; deviance, KKT residuals, the map between models and the prior are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import awkward_counts, dense_loss, problem_of, random_counts, random_start
from scipy import stats
from scipy.special import gammaln, xlogy

import unmix as um
from unmix import kernels
from unmix.counts.counts import Counts
from unmix.models.poisson import check_factors, expected_total
from unmix.models.problem import Problem, State
from unmix.solvers import Alternate, Newton, StopAtKKT, Trace, run

SMALL = random_counts(12, 15, seed=0)
L0, F0 = random_start(12, 15, 3)


def dense_gradients(X: np.ndarray, L: np.ndarray, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """∂loss/∂L and ∂loss/∂F from dense matrices."""
    R = X / (L @ F.T)
    return F.sum(axis=0) - R @ F, L.sum(axis=0) - R.T @ L


def solution(X: np.ndarray, K: int, prior: um.Gamma | None = None) -> tuple[np.ndarray, np.ndarray]:
    problem = problem_of(X, K, prior)
    solver = Alternate(Newton(rounds=50, tolerance=1e-13))
    state = solver.start(problem, *random_start(*X.shape, K))
    state, status = run(problem, solver, state, Trace(), max_iter=5000, tol=0, callbacks=[StopAtKKT(1e-8, every=20)])
    assert status == "converged"
    return state.L, state.F


# --- likelihoods -----------------------------------------------------------------------------------------------------


def test_poisson_loglik_equals_scipy_stats() -> None:
    each = stats.poisson.logpmf(SMALL, L0 @ F0.T)
    assert um.loglik(SMALL, L0, F0) == pytest.approx(each.sum(), rel=1e-12)
    np.testing.assert_allclose(um.loglik(SMALL, L0, F0, per_sample=True), each.sum(axis=1), rtol=1e-12)


def test_multinomial_loglik_equals_scipy_stats() -> None:
    Lstar, Fstar, _, _ = um.poisson_to_topics(L0, F0)
    each = [stats.multinomial.logpmf(x, x.sum(), p / p.sum()) for x, p in zip(SMALL, Lstar @ Fstar.T, strict=True)]
    got = um.loglik(SMALL, L0, F0, model="multinomial", per_sample=True)
    np.testing.assert_allclose(got, each, rtol=1e-10)
    assert um.loglik(SMALL, L0, F0, model="multinomial") == pytest.approx(np.sum(each), rel=1e-10)


@pytest.mark.parametrize("model", ["poisson", "multinomial"])
def test_loglik_per_sample_sums_to_the_total_with_empty_samples_between(model: Any) -> None:
    X = awkward_counts()
    L, F = random_start(*X.shape, 4)
    each = um.loglik(X, L, F, model=model, per_sample=True)
    assert each.shape == (len(X),)
    assert each.sum() == pytest.approx(um.loglik(X, L, F, model=model), rel=1e-12)
    for i in range(len(X)):
        assert each[i] == pytest.approx(um.loglik(X[[i]], L[[i]], F, model=model), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_poisson_loglik_is_multinomial_plus_that_of_the_sizes(seed: int, scale: float) -> None:
    X = random_counts(seed=seed)
    L, F = random_start(*X.shape, 3, seed)
    L *= scale
    sizes = um.poisson_to_topics(L, F)[2]
    want = um.loglik(X, L, F, model="multinomial") + stats.poisson.logpmf(X.sum(axis=1), sizes).sum()
    assert um.loglik(X, L, F) == pytest.approx(want, rel=1e-9)


def test_loglik_takes_fractional_counts() -> None:
    X = SMALL / 3
    rate = L0 @ F0.T
    assert um.loglik(X, L0, F0) == pytest.approx((xlogy(X, rate) - rate - gammaln(X + 1)).sum(), rel=1e-12)


def test_loglik_is_the_same_for_every_array_type(array_type: Any) -> None:
    assert um.loglik(array_type(SMALL), L0, F0) == um.loglik(SMALL, L0, F0)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ValueError, match='model is \'gauss\'; choose "poisson" or "multinomial"'):
        um.loglik(SMALL, L0, F0, model="gauss")  # type: ignore[arg-type]


def test_deviance_is_twice_the_loglik_lost_against_predicting_every_count() -> None:
    saturated = stats.poisson.logpmf(SMALL, SMALL).sum()
    assert um.deviance(SMALL, L0, F0) == pytest.approx(2 * (saturated - um.loglik(SMALL, L0, F0)), rel=1e-10)


def test_deviance_of_a_perfect_fit_is_zero() -> None:
    X = np.outer([1, 2, 3], [1, 2, 2])
    assert um.deviance(X, [[1], [2], [3]], [[1], [2], [2]]) == pytest.approx(0, abs=1e-12)


def test_a_rate_of_zero_at_a_count_is_impossible_and_says_so_without_warnings() -> None:
    L = L0.copy()
    L[3] = 0
    assert um.loglik(SMALL, L, F0) == -np.inf
    each = um.loglik(SMALL, L, F0, per_sample=True)
    np.testing.assert_array_equal(np.flatnonzero(np.isinf(each)), [3])
    assert um.deviance(SMALL, L, F0) == np.inf
    assert um.kkt(SMALL, L, F0) == np.inf


def test_a_feature_without_weight_is_impossible_under_both_models() -> None:
    F = F0.copy()
    F[2] = 0
    assert um.loglik(SMALL, L0, F) == -np.inf
    assert um.loglik(SMALL, L0, F, model="multinomial") == -np.inf
    assert um.deviance(SMALL, L0, F) == np.inf
    assert um.kkt(SMALL, L0, F) == np.inf


def test_a_rate_of_zero_where_there_is_no_count_is_fine() -> None:
    X = SMALL.copy()
    X[3] = 0
    X[:, 2] = 0
    L, F = L0.copy(), F0.copy()
    L[3], F[2] = 0, 0
    rate = L @ F.T
    assert um.loglik(X, L, F) == pytest.approx(stats.poisson.logpmf(X, rate).sum(), rel=1e-12)
    assert np.isfinite(um.kkt(X, L, F))


# --- what is wrong with factors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("L", "F", "message"),
    [
        (L0[:-1], F0, r"L has shape \(11, 3\); 12 samples need shape \(12, n_components\)"),
        (L0, F0[:-1], r"F has shape \(14, 3\); 15 features need shape"),
        (L0[:, :2], F0, "L has 2 topics and F has 3; they must agree"),
        (L0[:, 0], F0, r"L has shape \(12,\)"),
        (np.where(np.arange(36).reshape(12, 3) == 7, -1, L0), F0, r"L\[2, 1\] is -1; .*>= 0"),
        (L0, np.where(np.arange(45).reshape(15, 3) == 4, np.nan, F0), r"F\[1, 1\] is nan"),
    ],
    ids=["L short", "F short", "topics differ", "1-D", "negative", "NaN"],
)
@pytest.mark.parametrize("measure", [um.loglik, um.deviance, um.kkt])
def test_factors_that_do_not_fit_are_refused(measure: Any, L: Any, F: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure(SMALL, L, F)


def test_check_factors_returns_copies() -> None:
    L, F = check_factors((12, 15), L0, F0)
    assert not np.shares_memory(L, L0)
    assert not np.shares_memory(F, F0)


# --- KKT -------------------------------------------------------------------------------------------------------------


def test_residuals_are_the_products_of_factors_and_gradients() -> None:
    X = Counts(SMALL)
    gradient_L, gradient_F = dense_gradients(SMALL, L0, F0)
    want = max(np.abs(L0 * gradient_L).max(), np.abs(F0 * gradient_F).max())
    assert um.kkt(SMALL, L0, F0) == pytest.approx(want, rel=1e-10)
    assert um.kkt(SMALL, L0, F0) == Problem(X, 3).kkt(State(L=L0, F=F0, loss=0.0))


def test_gradients_are_the_slopes_of_the_loss() -> None:
    gradient_L, gradient_F = dense_gradients(SMALL, L0, F0)
    step = 1e-6
    for (i, k), (j, c) in (((3, 1), (2, 0)), ((0, 2), (14, 1))):
        up, down = L0.copy(), L0.copy()
        up[i, k] += step
        down[i, k] -= step
        slope = (dense_loss(SMALL, up, F0) - dense_loss(SMALL, down, F0)) / (2 * step)
        assert slope == pytest.approx(gradient_L[i, k], rel=1e-5)
        up, down = F0.copy(), F0.copy()
        up[j, c] += step
        down[j, c] -= step
        slope = (dense_loss(SMALL, L0, up) - dense_loss(SMALL, L0, down)) / (2 * step)
        assert slope == pytest.approx(gradient_F[j, c], rel=1e-5)


def test_kkt_is_zero_at_a_solution_and_nowhere_near_it() -> None:
    L, F = solution(SMALL, 3)
    assert um.kkt(SMALL, L, F) < 1e-7
    assert min(gradient.min() for gradient in dense_gradients(SMALL, L, F)) > -1e-6
    nudged = L.copy()
    nudged[np.unravel_index(L.argmax(), L.shape)] *= 1.01
    assert um.kkt(SMALL, nudged, F) > 1e-2


def test_kkt_does_not_depend_on_how_topics_are_scaled() -> None:
    d = np.array([3.0, 1e-4, 7e5])
    assert um.kkt(SMALL, L0 * d, F0 / d) == pytest.approx(um.kkt(SMALL, L0, F0), rel=1e-10)


def test_a_wrongly_locked_zero_shows_in_the_lowest_gradient_only() -> None:
    X = np.diag([5.0, 5.0])
    L = np.array([[5.0, 0], [5.0, 0]])
    F = np.array([[0.5, 0.5], [0.5, 0.5]])
    F[:, 1] = [0, 1]
    assert um.kkt(X, L, F) < 1e-12
    A, _ = kernels.numerators(Counts(X).rows, L, F)
    assert (F.sum(axis=0) - A).min() < -0.5


def test_identities_of_the_gradients() -> None:
    X = Counts(SMALL)
    A, _ = kernels.numerators(X.rows, L0, F0)
    B, _ = kernels.numerators(X.columns, F0, L0)
    u, v = F0.sum(axis=0), L0.sum(axis=0)
    sizes = L0 @ u
    left, right = L0 * (u - A), F0 * (v - B)
    np.testing.assert_allclose(left.sum(axis=1), sizes - SMALL.sum(axis=1), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(left.sum(axis=0), right.sum(axis=0), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(left.sum(axis=0), u * v - (L0 * A).sum(axis=0), rtol=1e-10, atol=1e-10)


def test_expected_total_is_the_sum_of_all_rates() -> None:
    assert expected_total(L0, F0) == pytest.approx((L0 @ F0.T).sum(), rel=1e-13)


def test_kkt_of_a_posterior_mode_uses_the_prior() -> None:
    prior = um.Gamma(1.5, [1.0, 2.0, 3.0])
    L, F = solution(SMALL, 3, prior)
    X = Counts(SMALL)
    problem = Problem(X, 3, prior)
    assert problem.kkt(State(L=L, F=F, loss=0.0)) < 1e-7
    assert um.kkt(SMALL, L, F) > 0.1
    gradient_L, gradient_F = dense_gradients(SMALL, L0, F0)
    want = max(np.abs(L0 * gradient_L).max(), np.abs(F0 * (gradient_F + np.array([1, 2, 3])) - 0.5).max())
    assert problem.kkt(State(L=L0, F=F0, loss=0.0)) == pytest.approx(want, rel=1e-9)


def test_the_reported_kkt_of_a_map_fit_is_that_of_the_posterior() -> None:
    prior = um.Gamma(1.5, 2.0)
    model = um.PoissonNMF(3, init=(L0, F0), prior=prior, max_iter=300, tol=0).fit(SMALL)
    fit = model.result_
    want = Problem(Counts(SMALL), 3, prior).kkt(State(L=fit.L, F=fit.F, loss=0.0))
    assert fit.kkt == pytest.approx(want, rel=1e-3, abs=1e-9)
    assert fit.kkt < 1e-3 * um.kkt(SMALL, fit.L, fit.F)


# --- the map between the models --------------------------------------------------------------------------------------


def test_topics_and_back_is_the_identity() -> None:
    Lstar, Fstar, sizes, scales = um.poisson_to_topics(L0, F0)
    np.testing.assert_allclose(Lstar.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(Fstar.sum(axis=0), 1, rtol=1e-14)
    np.testing.assert_allclose(scales, F0.sum(axis=0), rtol=1e-14)
    np.testing.assert_allclose(sizes, (L0 @ F0.T).sum(axis=1), rtol=1e-13)
    L, F = um.topics_to_poisson(Lstar, Fstar, sizes, scales)
    np.testing.assert_allclose(L, L0, rtol=1e-12)
    np.testing.assert_allclose(F, F0, rtol=1e-12)


def test_scales_move_factors_but_not_rates() -> None:
    Lstar, Fstar, sizes, _ = um.poisson_to_topics(L0, F0)
    L, F = um.topics_to_poisson(Lstar, Fstar, sizes)
    np.testing.assert_allclose(F, Fstar, rtol=1e-15)
    np.testing.assert_allclose(L.sum(axis=1), sizes, rtol=1e-13)
    np.testing.assert_allclose(L @ F.T, L0 @ F0.T, rtol=1e-12)
    again = um.topics_to_poisson(Lstar, Fstar, sizes, scales=[2.0, 3.0, 1e-3])
    np.testing.assert_allclose(again[0] @ again[1].T, L0 @ F0.T, rtol=1e-12)


def test_an_empty_sample_has_uniform_proportions_and_size_zero() -> None:
    L = L0.copy()
    L[4] = 0
    Lstar, Fstar, sizes, scales = um.poisson_to_topics(L, F0)
    np.testing.assert_array_equal(Lstar[4], np.full(3, 1 / 3))
    assert sizes[4] == 0
    back, _ = um.topics_to_poisson(Lstar, Fstar, sizes, scales)
    np.testing.assert_array_equal(back[4], 0)


def test_a_dead_topic_is_uniform_and_plays_no_part() -> None:
    F = F0.copy()
    F[:, 1] = 0
    Lstar, Fstar, sizes, scales = um.poisson_to_topics(L0, F)
    np.testing.assert_array_equal(Fstar[:, 1], np.full(15, 1 / 15))
    np.testing.assert_array_equal(Lstar[:, 1], 0)
    np.testing.assert_allclose(Lstar.sum(axis=1), 1, rtol=1e-14)
    assert scales[1] == 0
    L, back = um.topics_to_poisson(Lstar, Fstar, sizes, scales)
    np.testing.assert_allclose(L @ back.T, L0 @ F.T, rtol=1e-12)
    assert np.isfinite(L).all()


# --- the Gamma prior -------------------------------------------------------------------------------------------------

SHAPES = {
    "a number": 1.5,
    "one per topic": np.array([1.25, 2.0, 3.0]),
    "one per feature": 1 + np.arange(15.0)[:, None],
    "one an entry": 1 + np.arange(45.0).reshape(15, 3) / 10,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_penalty_is_minus_log_density_up_to_a_constant(shape: str) -> None:
    prior = um.Gamma(SHAPES[shape], [0.5, 2.0, 3.0])
    other = random_start(12, 15, 3, seed=9)[1]
    density = stats.gamma(a=np.broadcast_to(SHAPES[shape], F0.shape), scale=1 / np.array([0.5, 2.0, 3.0]))
    change = density.logpdf(F0).sum() - density.logpdf(other).sum()
    assert prior.penalty(other) - prior.penalty(F0) == pytest.approx(change, rel=1e-10)
    extra = np.broadcast_to(SHAPES[shape], F0.shape) - 1
    assert prior.penalty(F0) == pytest.approx((-extra * np.log(F0) + F0 * [0.5, 2.0, 3.0]).sum(), rel=1e-12)


def test_a_shape_of_one_takes_a_zero_factor() -> None:
    prior = um.Gamma(np.array([1.0, 2.0])[:, None])
    assert prior.penalty(np.array([[0.0], [1.0]])) == 1.0


def test_best_scales_minimise_the_penalty_of_every_column() -> None:
    prior = um.Gamma(SHAPES["one an entry"], [0.5, 2.0, 3.0])
    best = prior.best_scales(F0)
    at_best = F0 * best / F0.sum(axis=0)
    for factor in (0.99, 1.01):
        for k in range(3):
            moved = at_best.copy()
            moved[:, k] *= factor
            assert prior.penalty(moved) > prior.penalty(at_best)


@pytest.mark.parametrize("shape", [0.5, 1.0, -2.0, np.nan, np.inf, [2.0, 0.9], np.ones((15, 3))])
def test_a_shape_without_posterior_mode_is_refused(shape: Any) -> None:
    with pytest.raises(
        ValueError, match=r"(?s)Gamma shape .*a posterior mode needs shape >= 1 everywhere and > 1 somewhere"
    ):
        um.Gamma(shape)


@pytest.mark.parametrize("rate", [0.0, -1.0, np.nan, np.inf, [1.0, 0.0], np.ones((2, 2))])
def test_a_rate_that_is_no_rate_is_refused(rate: Any) -> None:
    with pytest.raises(ValueError, match=r"(?s)Gamma rate .*use a positive number, or one per topic"):
        um.Gamma(2.0, rate)


def test_a_prior_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit 15 rows × 3 topics"):
        um.Gamma([2.0, 2.0]).broadcast(15, 3)
    with pytest.raises(ValueError, match="does not fit 3 topics"):
        um.Gamma(2.0, [1.0, 1.0]).broadcast(15, 3)


def test_a_topic_with_shape_one_for_all_features_is_refused() -> None:
    with pytest.raises(ValueError, match="Gamma shape is 1 everywhere in topic 1: no posterior mode"):
        um.Gamma([2.0, 1.0, 3.0]).broadcast(15, 3)
    with pytest.raises(ValueError, match="everywhere in topic 1"):
        um.PoissonNMF(3, prior=um.Gamma([2.0, 1.0, 3.0]), random_state=0).fit(SMALL)


def test_sparse_and_dense_counts_measure_alike() -> None:
    X = sp.csr_array(SMALL)
    assert um.deviance(X, L0, F0) == um.deviance(SMALL, L0, F0)
    assert um.kkt(X, L0, F0) == um.kkt(SMALL, L0, F0)
