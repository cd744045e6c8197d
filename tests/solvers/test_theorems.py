"""The theorems behind the solvers, one test each, named after it.

Carbonetto et al., "Non-negative matrix factorization algorithms greatly improve topic model fits"; Geiger and Park on
normalised KL-NMF, PLSA and joint updates; Zhang et al. on NMF and PLSI. Each test compares the library with a dense NumPy
listing of the algorithm, or the library's own algorithms with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from conftest import dense_loss, never_rises, problem_of, random_counts, random_start, shared_data
from oracle import ways
from scipy import stats
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize_scalar
from scipy.special import digamma, gammaln, xlogy

import unmix as um
from unmix.maps import (
    gamma_poisson_to_lda,
    lda_to_gamma_poisson,
    lda_to_poisson,
    plsi_to_poisson,
    poisson_to_gamma_gamma,
    poisson_to_lda,
    poisson_to_plsi,
)
from unmix.models.problem import best_scales
from unmix.models.variational import Beliefs, Inference, Variational, gamma_poisson, lda, log_total
from unmix.solvers import EM, PLSA, PLSI, SN, Alternate, Joint, Newton, Normalized, Problem
from unmix.solvers.vi import CAVI

X = random_counts(12, 15, K=3, seed=0)
T, N = X.sum(axis=1), X.sum()
L0, F0 = random_start(12, 15, 3)
PROBLEM = problem_of(X, 3)

WITH_GAPS = random_counts(20, 9, K=3, seed=5)
WITH_GAPS[[3, 11]] = 0
WITH_GAPS[:, 4] = 0

Floats = np.ndarray


def ratio(X: Floats, L: Floats, F: Floats) -> Floats:
    rate = L @ F.T
    return np.divide(X, rate, out=np.zeros_like(rate), where=X > 0)


def lee_seung_left(X: Floats, L: Floats, F: Floats) -> Floats:
    return L * (ratio(X, L, F) @ F) / F.sum(axis=0)


def lee_seung_right(X: Floats, L: Floats, F: Floats) -> Floats:
    return lee_seung_left(X.T, F, L)


def by_column(A: Floats) -> Floats:
    return A / A.sum(axis=0)


def by_row(A: Floats) -> Floats:
    return A / A.sum(axis=1, keepdims=True)


def plsa_algorithm_6(X: Floats, Lstar: Floats, Fstar: Floats) -> tuple[Floats, Floats]:
    R = ratio(X, Lstar, Fstar)
    return by_row(Lstar * (R @ Fstar)), by_column(Fstar * (R.T @ Lstar))


def kl(X: Floats, L: Floats, F: Floats) -> float:
    rate = L @ F.T
    return float((xlogy(X, X) - xlogy(X, rate) - X + rate).sum())


def multinomial_loss(X: Floats, Lstar: Floats, Fstar: Floats) -> float:
    return -float(xlogy(X, Lstar @ Fstar.T).sum())


def em_half(problem: Problem, L: Floats, F: Floats) -> Floats:
    return EM()(problem.left, F, L)[0]


# --- Carbonetto et al. -----------------------------------------------------------------------------------------------


def test_carbonetto_definition_1_the_map_to_topics_has_an_inverse() -> None:
    L, F = um.topics_to_poisson(*um.poisson_to_topics(L0, F0))
    np.testing.assert_allclose(L, L0, rtol=1e-12)
    np.testing.assert_allclose(F, F0, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_carbonetto_lemma_1_poisson_is_multinomial_times_sizes(seed: int) -> None:
    L, F = random_start(12, 15, 3, seed)
    sizes = um.poisson_to_topics(L, F)[2]
    want = um.loglik(X, L, F, model="multinomial", per_sample=True) + stats.poisson.logpmf(T, sizes)
    np.testing.assert_allclose(um.loglik(X, L, F, per_sample=True), want, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_carbonetto_corollary_1_sizes_equal_to_totals_never_hurt(seed: int) -> None:
    L, F = random_start(12, 15, 3, seed)
    Lstar, Fstar, sizes, scales = um.poisson_to_topics(L, F)
    assert not np.allclose(sizes, T)
    assert um.loglik(X, *um.topics_to_poisson(Lstar, Fstar, T, scales)) >= um.loglik(X, L, F)


@pytest.mark.parametrize("half", [EM(), SN(), Newton()], ids=repr)
def test_carbonetto_corollary_1_sizes_equal_totals_at_convergence(half: Callable) -> None:
    solver = Alternate(half)
    state = solver.start(PROBLEM, L0, F0)
    for _ in range(3000):
        state = solver.step(PROBLEM, state)
    np.testing.assert_allclose(um.poisson_to_topics(state.L, state.F)[2], T, rtol=1e-6)


ALPHA = 1 + np.random.default_rng(3).gamma(1, 1, (15, 3))
BETA = np.array([0.5, 2.0, 1.3])


def posterior_mode(half: Callable, rescale: bool, iterations: int) -> tuple[Floats, Floats]:
    """Alternate half-steps under the prior, with or without the library's rescaling (which knows the corollary)."""
    problem = problem_of(X, 3, um.Gamma(ALPHA, BETA))
    L, F = L0, F0
    for _ in range(iterations):
        L, _ = half(problem.left, F, L)
        F, _ = half(problem.right, L, F)
        if rescale:
            L, F = problem.rescale(L, F)
    return L, F


@pytest.mark.parametrize(("half", "iterations"), [(EM(), 60_000), (Newton(), 20_000)], ids=["em", "newton"])
def test_carbonetto_corollary_2_scales_at_the_posterior_mode(half: Callable, iterations: int) -> None:
    L, F = posterior_mode(half, rescale=False, iterations=iterations)
    np.testing.assert_allclose(F.sum(axis=0), (ALPHA - 1).sum(axis=0) / BETA, rtol=1e-5)
    np.testing.assert_allclose(um.poisson_to_topics(L, F)[2], T, rtol=1e-6)


@pytest.mark.parametrize(("half", "iterations"), [(EM(), 20_000), (SN(), 4000), (Newton(), 4000)], ids=str)
def test_carbonetto_corollary_2_the_mode_is_fixed_under_dirichlet_map_em(half: Callable, iterations: int) -> None:
    L, F = posterior_mode(half, rescale=True, iterations=iterations)
    Lstar, Fstar, _, _ = um.poisson_to_topics(L, F)
    R = ratio(X, Lstar, Fstar)
    np.testing.assert_allclose(by_row(Lstar * (R @ Fstar)), Lstar, atol=1e-5)
    np.testing.assert_allclose(by_column(Fstar * (R.T @ Lstar) + ALPHA - 1), Fstar, atol=1e-5)


def test_carbonetto_a32_one_em_iteration_is_lee_and_seungs_update() -> None:
    want_L = lee_seung_left(X, L0, F0)
    want_F = lee_seung_right(X, want_L, F0)
    L, _ = EM()(PROBLEM.left, F0, L0)
    F, _ = EM()(PROBLEM.right, L, F0)
    np.testing.assert_allclose(L, want_L, rtol=1e-12)
    np.testing.assert_allclose(F, want_F, rtol=1e-12)
    solver = Alternate(EM())
    state = solver.step(PROBLEM, solver.start(PROBLEM, L0, F0))
    d = np.sqrt(want_L.mean(axis=0) / want_F.mean(axis=0))
    np.testing.assert_allclose(state.L, want_L / d, rtol=1e-12)
    np.testing.assert_allclose(state.F, want_F * d, rtol=1e-12)


def test_carbonetto_a32_one_em_iteration_of_the_estimator_is_lee_and_seungs_update() -> None:
    options = {"solver": "em", "extrapolate": False, "prefit": 0, "tol": 0}
    model = um.PoissonNMF(3, init=(L0, F0), max_iter=1, **options).fit(X)
    L = lee_seung_left(X, L0, F0)
    F = lee_seung_right(X, L, F0)
    np.testing.assert_allclose(model.result_.L @ model.result_.F.T, L @ F.T, rtol=1e-12)
    np.testing.assert_allclose(model.result_.topics, by_column(F), rtol=1e-12)


def test_carbonetto_a32_em_by_responsibilities_is_the_same_update() -> None:
    expected = X[:, :, None] * L0[:, None] * F0[None] / (L0 @ F0.T)[:, :, None]
    np.testing.assert_allclose(em_half(PROBLEM, L0, F0), expected.sum(axis=1) / F0.sum(axis=0), rtol=1e-12)


def test_em_restores_row_sums_then_column_sums() -> None:
    L = em_half(PROBLEM, L0, F0)
    F, _ = EM()(PROBLEM.right, L, F0)
    np.testing.assert_allclose(L @ F0.sum(axis=0), T, rtol=1e-12)
    np.testing.assert_allclose(F @ L.sum(axis=0), X.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("steps", [1, 4])
def test_carbonetto_a35_em_of_the_multinomial_mixture_is_the_same_update(steps: int) -> None:
    u = F0.sum(axis=0)
    want = np.empty_like(L0)
    for i, x in enumerate(X):
        share = L0[i] * u / (L0[i] @ u)
        for _ in range(steps):
            share = (x / x.sum()) @ by_row(F0 / u * share)
        want[i] = x.sum() * share / u
    np.testing.assert_allclose(EM(steps)(PROBLEM.left, F0, L0)[0], want, rtol=1e-12)


def test_carbonetto_a33_the_topic_model_of_an_em_half_step_is_a_plsa_half_step() -> None:
    Lstar, Fstar, _, _ = um.poisson_to_topics(L0, F0)
    plsa_L, plsa_F = plsa_algorithm_6(X, Lstar, Fstar)
    left = em_half(PROBLEM, L0, F0)
    right, _ = EM()(PROBLEM.right, L0, F0)
    np.testing.assert_allclose(um.poisson_to_topics(left, F0)[0], plsa_L, rtol=1e-12)
    both = um.poisson_to_topics(left, right)  # both sides from the old pair: the topics agree, the proportions do not
    np.testing.assert_allclose(both[1], plsa_F, rtol=1e-12)
    assert np.abs(both[0] - plsa_L).max() > 1e-3


@pytest.mark.parametrize("half", [EM(), SN(30), Newton(30)], ids=repr)
def test_carbonetto_algorithm_1_is_monotone_with_the_new_loadings_and_not_with_the_old(half: Callable) -> None:
    def losses(use_new: bool) -> list[float]:
        L, F = 3 * L0, F0
        out = [dense_loss(X, L, F)]
        for _ in range(8):
            new, _ = half(PROBLEM.left, F, L)
            F, _ = half(PROBLEM.right, new if use_new else L, F)
            L = new
            out.append(dense_loss(X, L, F))
        return out

    assert never_rises(losses(use_new=True), 1e-9)
    assert not never_rises(losses(use_new=False), 1e-3)


def test_one_topic_has_a_closed_form() -> None:
    problem = problem_of(X, 1)
    solver = Alternate(EM())
    state = solver.step(problem, solver.start(problem, *random_start(12, 15, 1)))
    np.testing.assert_allclose(state.L @ state.F.T, np.outer(T, X.sum(axis=0)) / N, rtol=1e-12)


# --- Geiger and Park -------------------------------------------------------------------------------------------------


def test_geiger_park_lemma_41_normalising_the_factors_leaves_the_objective() -> None:
    scales = F0.sum(axis=0)
    assert um.deviance(X, L0, F0) == pytest.approx(um.deviance(X, L0 * scales, F0 / scales), rel=1e-9)
    assert um.deviance(X, L0, F0) == pytest.approx(2 * kl(X, L0, F0), rel=1e-9)


def test_geiger_park_lemma_42_normalised_nmf_with_full_rows_is_plsa() -> None:
    Lstar, Fstar, _, _ = um.poisson_to_topics(L0, F0)
    L, F = um.topics_to_poisson(Lstar, Fstar, T)
    want = xlogy(X, X).sum() - xlogy(T, T).sum() + multinomial_loss(X, Lstar, Fstar)
    assert um.deviance(X, L, F) / 2 == pytest.approx(want, rel=1e-9)


def test_geiger_park_lemma_b1_joint_nmf_equals_plsa() -> None:
    joint, plsa = Joint(), PLSA()
    a, b = joint.start(PROBLEM, by_row(L0 * F0.sum(axis=0)) / F0.sum(axis=0), F0), plsa.start(PROBLEM, L0, F0)
    Lstar, Fstar, _, _ = um.poisson_to_topics(L0, F0)
    for _ in range(60):
        a, b = joint.step(PROBLEM, a), plsa.step(PROBLEM, b)
        Lstar, Fstar = plsa_algorithm_6(X, Lstar, Fstar)
        for state in (a, b):
            np.testing.assert_allclose(state.L, T[:, None] * Lstar, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(state.F, Fstar, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(a.L.sum(axis=1), T, rtol=1e-10)


def test_geiger_park_joint_nmf_and_plsa_descend_together() -> None:
    joint, plsa = Joint(), PLSA()
    a, b = joint.start(PROBLEM, L0, F0), plsa.start(PROBLEM, L0, F0)
    multinomial = []
    for _ in range(100):
        a, b = joint.step(PROBLEM, a), plsa.step(PROBLEM, b)
        assert a.loss == pytest.approx(b.loss, rel=1e-12)
        multinomial.append(-um.loglik(X, b.L, b.F, model="multinomial"))
    assert never_rises(multinomial)


def test_geiger_park_corollary_b2_joint_nmf_and_plsa_have_the_same_fixed_points() -> None:
    joint, plsa, newton = Joint(), PLSA(), Alternate(Newton(rounds=3, tolerance=1e-12))
    fitted = newton.start(PROBLEM, L0, F0)
    for _ in range(300):
        fitted = newton.step(PROBLEM, fitted)
    fixed = joint.start(PROBLEM, fitted.L, fitted.F)
    for _ in range(2000):
        fixed = joint.step(PROBLEM, fixed)

    def moved(solver: Joint, L: Floats, F: Floats) -> float:
        state = solver.start(PROBLEM, L, F)
        new = solver.step(PROBLEM, state)
        return float(np.abs(new.L - state.L).max() / T.max() + np.abs(new.F - state.F).max())

    np.testing.assert_allclose(fixed.L.sum(axis=1), T, rtol=1e-9)
    assert moved(joint, fixed.L, fixed.F) < 1e-9
    assert moved(plsa, fixed.L / T[:, None], fixed.F) < 1e-9  # the same point as proportions, for algorithm 6
    of_plsa = plsa.step(PROBLEM, plsa.start(PROBLEM, fixed.L, fixed.F))
    assert moved(joint, of_plsa.L, of_plsa.F) < 1e-9  # and back
    for solver in (joint, plsa):  # nothing else is: away from it both move
        assert moved(solver, fixed.L + 0.1 * L0, fixed.F) > 1e-4


# --- Geiger and Park, appendices A and D ------------------------------------------------------------------------------


def majorant(X: Floats, L: Floats, F: Floats, phi: Floats) -> float:
    """G of equations 3, 5 and 7: Σ λ − Σ x φ log(l f / φ), which lies above the loss for every φ."""
    terms = phi * (np.log(L)[:, None] + np.log(F)[None] - np.log(phi))
    return float((L @ F.T).sum() - (X[:, :, None] * terms).sum())


def test_geiger_park_the_auxiliary_function_lies_above_the_loss_and_touches_it_at_its_point() -> None:
    rng = np.random.default_rng(0)
    phi = np.full((*X.shape, 3), 1 / 3)
    phi[X > 0] = PROBLEM.left.responsibilities(L0, F0)
    at = majorant(X, L0, F0, phi)
    assert at == pytest.approx(dense_loss(X, L0, F0), rel=1e-12)
    for scale in (1e-3, 0.1, 1.0):
        for _ in range(20):
            L, F = (factor * np.exp(scale * rng.normal(size=factor.shape)) for factor in (L0, F0))
            assert majorant(X, L, F, phi) >= dense_loss(X, L, F) - 1e-9
            other = rng.dirichlet(np.ones(3), X.shape)
            assert majorant(X, L0, F0, other) > at  # any other φ is above at the point, too
    assert majorant(X, *(1.5 * L0, F0 / 1.5), phi) == pytest.approx(at, rel=1e-9)  # a scale that rates do not notice


def test_geiger_park_the_updates_minimise_the_auxiliary_function() -> None:
    """Lemmas A.1 to A.3: EM in one factor, the joint step in both, columns of F summing to one."""
    rng = np.random.default_rng(1)
    phi = np.full((*X.shape, 3), 1 / 3)
    phi[X > 0] = PROBLEM.left.responsibilities(L0, F0)
    L, _ = EM()(PROBLEM.left, F0, L0)
    best = majorant(X, L, F0, phi)
    for _ in range(30):
        assert majorant(X, L * np.exp(0.1 * rng.normal(size=L.shape)), F0, phi) > best
    solver = Joint()
    state = solver.start(PROBLEM, L0, F0)
    phi[X > 0] = PROBLEM.left.responsibilities(state.L, state.F)
    new = solver.step(PROBLEM, state)
    best = majorant(X, new.L, new.F, phi)
    for _ in range(30):
        moved = new.F * np.exp(0.1 * rng.normal(size=new.F.shape))
        assert majorant(X, new.L * np.exp(0.1 * rng.normal(size=L.shape)), by_column(moved), phi) > best


def test_geiger_park_lemmas_d1_to_d3_equivalent_generative_models() -> None:
    """Counts x of one sample, summed over all that is not seen: counts by topic z, or the topics of single tokens."""
    rng = np.random.default_rng(2)
    x = np.array([2, 0, 1, 1])
    all_z = [np.array(z) for z in product(*(list(ways(int(v), 2)) for v in x))]
    constants = []
    for _ in range(3):
        W, h = rng.uniform(0.1, 2, (4, 2)), rng.uniform(0.1, 2, 2)
        poisson = um.loglik(x[None], h[None], W)
        by_topic = sum(stats.poisson.pmf(z, W * h).prod() for z in all_z)
        assert np.log(by_topic) == pytest.approx(poisson, rel=1e-12)  # D.1
        multinomial = um.loglik(x[None], h[None], W, model="multinomial")
        p = (W * h / (W * h).sum()).ravel()
        by_topic = sum(stats.multinomial.pmf(z.ravel(), 4, p) for z in all_z)
        assert np.log(by_topic) == pytest.approx(multinomial, rel=1e-12)  # D.2, (i) and (ii)
        W, h = by_column(W), h / h.sum()
        tokens = np.repeat(np.arange(4), x)
        sequences = sum(
            np.prod([h[k] * W[v, k] for v, k in zip(tokens, labels, strict=True)])
            for labels in product(range(2), repeat=len(tokens))
        )
        orders = np.exp(gammaln(5) - gammaln(x + 1).sum())
        multinomial = um.loglik(x[None], h[None], W, model="multinomial")
        assert np.log(orders * sequences) == pytest.approx(multinomial, rel=1e-12)  # D.2, (iii)
        constants.append(multinomial - um.loglik(x[None], h[None], W))
    np.testing.assert_allclose(constants, constants[0], rtol=1e-12)  # D.3: they differ by a constant of the data alone
    assert constants[0] == pytest.approx(gammaln(5) + 1)


def test_geiger_park_joint_updates_ignore_the_row_scale_of_the_start() -> None:
    joint = Joint()
    scale = np.geomspace(0.01, 100, 12)[:, None]
    one = joint.step(PROBLEM, joint.start(PROBLEM, L0, F0))
    two = joint.step(PROBLEM, joint.start(PROBLEM, L0 * scale, F0))
    np.testing.assert_allclose(one.L, two.L, rtol=1e-12)
    np.testing.assert_allclose(one.F, two.F, rtol=1e-12)


def test_geiger_park_joint_updates_keep_the_columns_of_topics_normalised() -> None:
    for solver in (Joint(), PLSA()):
        state = solver.start(PROBLEM, L0, F0)
        for _ in range(20):
            state = solver.step(PROBLEM, state)
            np.testing.assert_allclose(state.F.sum(axis=0), 1, rtol=1e-12)
            np.testing.assert_allclose(state.L.sum(axis=1), T, rtol=1e-12)


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("source", ["klnmf", "utils"])
def test_one_joint_iteration_equals_that_of_its_authors(source: str, K: int) -> None:
    with np.load(shared_data("oracles/joint_updates.npz"), allow_pickle=False) as oracle:
        start, end = ("_init", "_joint1") if source == "klnmf" else ("", "_updated_joint")
        counts = oracle[f"{source}_counts"].T
        W, H = oracle[f"{source}_k{K}_W{start}"], oracle[f"{source}_k{K}_H{start}"]
        want_W, want_H = oracle[f"{source}_k{K}_W{end}"], oracle[f"{source}_k{K}_H{end}"]
    problem = problem_of(counts.astype(float), K)
    joint = Joint()
    state = joint.step(problem, joint.start(problem, H.T, W))
    floor = np.finfo(np.float32).eps  # the authors clip both factors there
    np.testing.assert_allclose(np.maximum(state.F, floor), want_W, rtol=1e-9)
    np.testing.assert_allclose(np.maximum(state.L, floor), want_H.T, rtol=1e-9)


# --- Zhang et al. ----------------------------------------------------------------------------------------------------


def test_zhang_theorem_1_and_corollary_3_the_topics_of_one_em_step_do_not_depend_on_who_carries_the_weights() -> None:
    C, w, H = by_column(L0), L0.sum(axis=0) * F0.sum(axis=0), by_column(F0)
    R = ratio(X, C * w, H)
    want = by_column(H * (R.T @ C))
    first, _ = EM()(PROBLEM.right, C * w, H)
    second, _ = EM()(PROBLEM.right, C, H * w)
    np.testing.assert_allclose(by_column(first), want, rtol=1e-12)
    np.testing.assert_allclose(by_column(second), want, rtol=1e-12)
    np.testing.assert_allclose(second, want * w * (C * (R @ H)).sum(axis=0), rtol=1e-12)


def test_zhang_theorem_5_the_first_c_of_plsi_is_the_normalised_first_l_of_em() -> None:
    plsi = PLSI()
    state = plsi.start(PROBLEM, L0, F0)
    for _ in range(50):  # from any triple, not only the first
        want = by_column(em_half(PROBLEM, state.L, state.F))
        state = plsi.step(PROBLEM, state)
        np.testing.assert_allclose(state.C, want, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("new_weights", [True, False], ids=["new S", "as printed"])
def test_zhang_corollary_6_the_h_of_plsi_is_the_normalised_f_of_em(new_weights: bool) -> None:
    """Of the update rules, at the same triple: that which H finds, with the new C and the new or, as printed, the old S. From the
    triple before C has moved, H of a whole iteration is that of neither."""
    plsi = PLSI(new_weights=new_weights)
    before = plsi.start(PROBLEM, L0, F0)
    after = plsi.step(PROBLEM, before)
    want, _ = EM()(PROBLEM.right, N * after.C * (after.w if new_weights else before.w), before.H)
    np.testing.assert_allclose(after.H, by_column(want), rtol=1e-12)
    earlier, _ = EM()(PROBLEM.right, N * before.C * before.w, before.H)
    assert np.abs(after.H / by_column(earlier) - 1).max() > 1e-3


@pytest.mark.parametrize("solver", [PLSI(), Normalized()], ids=repr)
def test_zhang_corollary_2_columns_and_weights_sum_to_one_at_every_iteration(solver: PLSI | Normalized) -> None:
    state = solver.start(PROBLEM, L0, F0)
    for _ in range(200):
        state = solver.step(PROBLEM, state)
        np.testing.assert_allclose(state.C.sum(axis=0), 1, rtol=1e-12)
        np.testing.assert_allclose(state.H.sum(axis=0), 1, rtol=1e-12)
        assert state.w.sum() == pytest.approx(1, rel=1e-12)
        np.testing.assert_allclose(state.L, N * state.C * state.w, rtol=1e-12)


def test_zhang_the_weights_of_plsi_sum_to_one_before_anybody_normalises_them() -> None:
    plsi = PLSI()
    state = plsi.start(PROBLEM, L0, F0)
    for _ in range(20):
        C = by_column(state.C * (ratio(X, state.L, state.F) @ state.F))
        w = state.w * (C * (ratio(X, N * C * state.w, state.H) @ state.H)).sum(axis=0)
        assert w.sum() == pytest.approx(1, rel=1e-12)
        state = plsi.step(PROBLEM, state)
        np.testing.assert_allclose(state.w, w, rtol=1e-12)


@pytest.mark.parametrize("counts", [X, WITH_GAPS], ids=["random", "with gaps"])
def test_zhang_algorithm_3_has_the_rates_of_em_at_every_iteration(counts: Floats) -> None:
    problem = problem_of(counts, 3)
    em, normalized = Alternate(EM()), Normalized()
    L, F = random_start(*counts.shape, 3)
    a, b = em.start(problem, L, F), normalized.start(problem, L, F)
    at = counts > 0
    for _ in range(100):
        a, b = em.step(problem, a), normalized.step(problem, b)
        np.testing.assert_allclose((b.L @ b.F.T)[at], (a.L @ a.F.T)[at], rtol=1e-9)


def test_zhang_algorithm_2_follows_another_path() -> None:
    normalized, plsi = Normalized(), PLSI()
    a, b = normalized.start(PROBLEM, L0, F0), plsi.start(PROBLEM, L0, F0)
    for _ in range(5):
        a, b = normalized.step(PROBLEM, a), plsi.step(PROBLEM, b)
    assert np.abs(a.L @ a.F.T - b.L @ b.F.T).max() > 1e-3


def test_zhang_theorem_4_the_limit_of_plsi_is_fixed_for_em_normalized_and_joint() -> None:
    plsi = PLSI()
    limit = plsi.start(PROBLEM, L0, F0)
    for _ in range(20_000):
        limit = plsi.step(PROBLEM, limit)
    rates = limit.L @ limit.F.T
    for solver in (Alternate(EM()), Normalized(), Joint(), PLSA(), plsi):
        state = solver.step(PROBLEM, solver.start(PROBLEM, limit.L, limit.F))
        Lstar, Fstar, _, _ = um.poisson_to_topics(state.L, state.F)
        np.testing.assert_allclose(state.L @ state.F.T, rates, atol=1e-6 * rates.max())
        np.testing.assert_allclose(Fstar, limit.H, atol=1e-6)
        np.testing.assert_allclose(Lstar, by_row(limit.L), atol=1e-6)


def test_em_is_equivariant_under_rescaling_of_topics() -> None:
    d = np.array([3.0, 0.2, 7.0])
    one, two = em_half(PROBLEM, L0, F0) @ F0.T, em_half(PROBLEM, L0 * d, F0 / d) @ (F0 / d).T
    np.testing.assert_allclose(one, two, rtol=1e-12)


# --- Geiger and Park, variational ------------------------------------------------------------------------------------

SHAPES, ONE_RATE = np.array([0.6, 1.3, 2.1]), 2.7
GAMMA0 = np.random.default_rng(7).gamma(2, 1, (12, 3)) + 0.1


def start_of(model: Variational, rates: Floats | None = None) -> tuple[Inference, Beliefs]:
    task = Inference(PROBLEM.X, model)
    return task, CAVI().from_beliefs(task, model.left.belief(GAMMA0, rates), model.right.belief(by_column(F0)))


def test_geiger_park_algorithm_3_equals_5_responsibilities_need_not_be_stored() -> None:
    task, state = start_of(lda(SHAPES, None))
    gamma, topics = GAMMA0, by_column(F0)
    for _ in range(30):
        state = CAVI().step(task, state)
        weights = np.exp(digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True)))
        stored = weights[:, None] * topics[None]
        stored *= (X / stored.sum(axis=2))[:, :, None]
        gamma, topics = SHAPES + stored.sum(axis=1), by_column(stored.sum(axis=0))
        np.testing.assert_allclose(state.left.parameters, gamma, rtol=1e-10)
        np.testing.assert_allclose(state.right.parameters, topics, rtol=1e-10, atol=1e-14)


def test_geiger_park_lemma_e1_gamma_poisson_is_lda_times_a_negative_binomial() -> None:
    shapes, topics, x = SHAPES[:2], by_column(F0[:4, :2]), np.array([3.0, 0, 2, 1])

    def given_totals(share: float) -> float:
        return stats.beta.pdf(share, *shapes) * stats.multinomial.pmf(x, 6, topics @ [share, 1 - share])

    def with_totals(log_one: float, log_two: float) -> float:
        loadings = np.exp([log_one, log_two])
        rate = topics @ loadings
        priors = shapes * np.log(ONE_RATE * loadings) - gammaln(shapes) - ONE_RATE * loadings
        return np.exp(priors.sum() + (xlogy(x, rate) - rate - gammaln(x + 1)).sum())

    totals = log_total(np.array([6.0]), shapes, ONE_RATE)[0]
    want = np.log(quad(given_totals, 0, 1, epsabs=1e-12, limit=200)[0]) + totals
    got = np.log(dblquad(with_totals, -20, 4, -20, 4, epsabs=1e-12, epsrel=1e-6)[0])
    assert got == pytest.approx(want, abs=1e-5)
    # p(t): the sum of Gammas of one rate is a Gamma, and a Poisson with such a rate a negative binomial
    A = shapes.sum()
    assert totals == pytest.approx(stats.nbinom.logpmf(6, A, ONE_RATE / (1 + ONE_RATE)), rel=1e-10)


def test_geiger_park_lemma_e3_lda_and_gamma_poisson_have_the_same_iterates() -> None:
    rates = np.full(3, ONE_RATE)
    task, a = start_of(lda(SHAPES, None))
    other, b = start_of(gamma_poisson(SHAPES, rates), 1 + rates)
    gap = log_total(T, SHAPES, ONE_RATE).sum()
    for _ in range(80):
        a, b = CAVI().step(task, a), CAVI().step(other, b)
        np.testing.assert_allclose(b.left.parameters, a.left.parameters, rtol=1e-10)
        np.testing.assert_allclose(b.right.parameters, a.right.parameters, rtol=1e-10, atol=1e-14)
        assert a.loss - b.loss == pytest.approx(gap, rel=1e-8)
    lda_like = CAVI().step(other, start_of(gamma_poisson(SHAPES, np.array([0.5, 1, 4])), np.array([1.5, 2, 5]))[1])
    assert np.abs(lda_like.left.parameters - CAVI().step(*start_of(lda(SHAPES, None))).left.parameters).max() > 1e-3


def test_geiger_park_corollary_e4_lda_and_gamma_poisson_have_the_same_fixed_points() -> None:
    rates = np.full(3, ONE_RATE)
    (task, a), (other, b) = start_of(lda(SHAPES, None)), start_of(gamma_poisson(SHAPES, rates), 1 + rates)
    for _ in range(6000):
        a = CAVI().step(task, a)

    def moved(old: Beliefs, new: Beliefs) -> float:
        pairs = zip((old.left, old.right), (new.left, new.right), strict=True)
        return max(float(np.abs(q.parameters - p.parameters).max()) for p, q in pairs)

    assert moved(a, CAVI().step(task, a)) < 1e-5  # of some hundred
    at = CAVI().from_beliefs(other, other.model.left.belief(a.left.parameters, 1 + rates), a.right)
    new = CAVI().step(other, at)
    assert moved(at, new) < 1e-5
    np.testing.assert_array_equal(new.left.rates, 1 + rates)
    assert moved(b, CAVI().step(other, b)) > 0.01
    wrong = CAVI().from_beliefs(other, other.model.left.belief(a.left.parameters, np.array([1.5, 2, 5])), a.right)
    assert moved(wrong, CAVI().step(other, wrong)) > 0.01  # with other rates b it is no fixed point


def test_geiger_park_lemma_e3_holds_for_the_estimators() -> None:
    options = {"init": (L0, F0), "max_iter": 25, "tol": 0, "extrapolate": False}
    a = um.LDA(3, alpha=SHAPES, **options).fit(X)
    b = um.GammaPoisson(3, shape=SHAPES, rate=ONE_RATE, **options).fit(X)
    np.testing.assert_allclose(b.shape_, a.gamma_, rtol=1e-10)
    np.testing.assert_allclose(b.components_, a.components_, rtol=1e-10, atol=1e-14)
    assert b.elbo_ - a.elbo_ == pytest.approx(log_total(T, SHAPES, ONE_RATE).sum(), rel=1e-8)


def test_lda_and_gamma_poisson_end_at_the_same_topics_whatever_their_steps() -> None:
    options = {"init": (L0, F0), "max_iter": 2000, "tol": 1e-12}
    a = um.LDA(3, alpha=SHAPES, **options).fit(X)
    b = um.GammaPoisson(3, shape=SHAPES, rate=ONE_RATE, **options).fit(X)
    np.testing.assert_allclose(b.components_, a.components_, atol=1e-4)
    assert b.elbo_ - a.elbo_ == pytest.approx(log_total(T, SHAPES, ONE_RATE).sum(), rel=1e-6)


# --- maps between the models -----------------------------------------------------------------------------------------


def test_the_plsi_triple_and_poisson_factors_are_the_same_rates() -> None:
    C, w, H = poisson_to_plsi(L0, F0)
    for sums in (C.sum(axis=0), H.sum(axis=0), w.sum()):
        np.testing.assert_allclose(sums, 1, rtol=1e-12)
    total = (L0 @ F0.T).sum()
    L, F = plsi_to_poisson(C, w, H, total)
    np.testing.assert_allclose(L @ F.T, L0 @ F0.T, rtol=1e-12)
    for got, want in zip(poisson_to_plsi(L, F), (C, w, H), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_lda_and_gamma_poisson_beliefs_map_to_each_other() -> None:
    shape, rates = lda_to_gamma_poisson(GAMMA0, ONE_RATE)
    np.testing.assert_array_equal(gamma_poisson_to_lda(shape), GAMMA0)
    np.testing.assert_array_equal(rates, np.full(3, 1 + ONE_RATE))
    # loadings of one rate, divided by their sums, have the moments of the Dirichlet
    draws = np.random.default_rng(0).gamma(shape[0], 1 / rates, (200_000, 3))
    shares = draws / draws.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares.mean(axis=0), stats.dirichlet.mean(GAMMA0[0]), atol=3e-3)
    np.testing.assert_allclose(shares.var(axis=0), stats.dirichlet.var(GAMMA0[0]), atol=1e-3)


def test_a_topic_model_survives_the_way_to_lda_and_back_as_alpha_vanishes() -> None:
    Lstar, Fstar, _, _ = um.poisson_to_topics(L0, F0)
    for eta in (None, np.full(15, 1e-9)):
        gamma, topics = poisson_to_lda(L0, F0, T, np.full(3, 1e-9), eta)
        L, F = lda_to_poisson(gamma, topics, T)
        np.testing.assert_allclose(L, T[:, None] * Lstar, rtol=1e-7)
        np.testing.assert_allclose(F, Fstar, rtol=1e-7)
    counts = poisson_to_lda(L0, F0, T, SHAPES, np.ones(15))
    np.testing.assert_allclose((counts[0] - SHAPES).sum(axis=1), T, rtol=1e-12)
    np.testing.assert_allclose((counts[1] - 1).sum(), N, rtol=1e-12)


def test_a_zero_of_maximum_likelihood_does_not_stay_zero_in_lda() -> None:
    F = F0.copy()
    F[2] = 0
    topics = poisson_to_lda(L0, F, T, SHAPES)[1]
    np.testing.assert_allclose(topics.sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(topics[2], 1e-8, rtol=1e-6)


@pytest.mark.parametrize("hyper", [(0.4, 0.9, 1.6, 2.2), (3.0, 0.2, 0.5, 7.0), (1.0, 1.0, 1.0, 1.0)], ids=str)
def test_the_way_to_gamma_gamma_scales_topics_as_the_priors_like_them_best(hyper: tuple[float, ...]) -> None:
    a, b, c, d = hyper
    z = best_scales(L0, F0, a, b, c, d)
    for k in range(3):

        def cost(log_z: float, k: int = k) -> float:
            L, F = L0[:, k] / np.exp(log_z), F0[:, k] * np.exp(log_z)
            return -(stats.gamma.logpdf(L, a, scale=1 / b).sum() + stats.gamma.logpdf(F, c, scale=1 / d).sum())

        assert np.log(z[k]) == pytest.approx(minimize_scalar(cost).x, abs=1e-6)
    L, L_rates, F, F_rates = poisson_to_gamma_gamma(X, L0, F0, a, b, c, d)
    R = ratio(X, L0, F0)
    np.testing.assert_allclose(L, a + L0 * (R @ F0), rtol=1e-12)
    np.testing.assert_allclose(F, c + F0 * (R.T @ L0), rtol=1e-12)
    np.testing.assert_allclose(L_rates, b + z * F0.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(F_rates, d + L0.sum(axis=0) / z, rtol=1e-12)


def test_the_way_to_gamma_gamma_does_not_mind_the_scale_of_topics() -> None:
    d = np.array([1e-3, 1.0, 50.0])
    one, two = (poisson_to_gamma_gamma(X, L0 * s, F0 / s, 0.4, 0.9, 0.6, 2.2) for s in (1.0, d))
    for got, want in zip(two, one, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


# --- the allocation model --------------------------------------------------------------------------------------------


def test_the_allocation_model_and_lda_have_the_same_posteriors_given_the_counts_of_topics() -> None:
    fit = um.AllocationModel(3, alpha=0.2, beta=[1.0, 1.5, 2.0], init=(L0, F0), max_iter=20, tol=0).fit(X).result_
    gamma, tau = fit.posterior["L"], fit.posterior["F"]
    by_sample, by_feature = um.maps.lda_to_allocation(gamma, tau, [1.0, 1.5, 2.0], 0.2 * np.ones(15))
    np.testing.assert_allclose(by_sample.sum(axis=1), T, rtol=1e-10)
    np.testing.assert_allclose(by_feature.sum(axis=1), X.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(by_sample.sum(axis=0), by_feature.sum(axis=0), rtol=1e-10)
    again = um.maps.allocation_to_lda(by_sample, by_feature, 0.2 * np.ones(15), [1.0, 1.5, 2.0])
    np.testing.assert_allclose(again[0], gamma, rtol=1e-12)
    np.testing.assert_allclose(again[1], tau, rtol=1e-12)
