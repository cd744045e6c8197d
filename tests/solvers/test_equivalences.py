"""Geiger and Park: functions that majorise the objective, models with the same likelihood, shared fixed points; and remarks."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from conftest import problem_of, random_counts, random_start
from oracle import tensors
from scipy import stats
from scipy.special import logsumexp, xlogy

import unmix as um
from unmix.counts.counts import Counts
from unmix.models.maps import gamma_poisson_to_lda, lda_to_gamma_poisson
from unmix.models.variational import Inference, gamma_poisson, lda
from unmix.solvers import EM, PLSA, Joint
from unmix.solvers.vi import CAVI

X = random_counts(12, 15, K=3, seed=0)
PROBLEM = problem_of(X, 3)
L0, F0 = random_start(12, 15, 3)

# --- appendix A: auxiliary functions -----------------------------------------------------------------------------------


def majorised(L: np.ndarray, F: np.ndarray, at: tuple[np.ndarray, np.ndarray]) -> float:
    """G of equations 3, 5 and 8: Σ λ − Σ x Σ_k φ_k log(l_k f_k / φ_k), φ being the shares of topics at another point."""
    phi = at[0][:, None, :] * at[1][None]
    phi /= phi.sum(axis=2, keepdims=True)
    terms = L[:, None, :] * F[None]
    return float(terms.sum() - (X[:, :, None] * (xlogy(phi, terms) - xlogy(phi, phi))).sum())


def test_geiger_park_lemma_a1_to_a3_an_auxiliary_function_lies_above_the_objective_and_touches_it() -> None:
    assert majorised(L0, F0, (L0, F0)) == pytest.approx(PROBLEM.loss(L0, F0), rel=1e-12)
    for seed in range(20):
        L, F = random_start(12, 15, 3, seed + 2)
        assert majorised(L, F, (L0, F0)) > PROBLEM.loss(L, F)


def test_geiger_park_equations_7_and_8_an_em_half_step_minimises_the_auxiliary_function() -> None:
    L = EM()(PROBLEM.left, F0, L0)[0]
    best = majorised(L, F0, (L0, F0))
    for seed in range(20):
        other = L * np.exp(0.02 * np.random.default_rng(seed).normal(size=L.shape))
        assert majorised(other, F0, (L0, F0)) > best


def test_geiger_park_equations_27_to_29_a_joint_step_minimises_it_over_normalised_topics() -> None:
    old = Joint().start(PROBLEM, L0, F0)
    new = Joint().step(PROBLEM, old)
    best = majorised(new.L, new.F, (old.L, old.F))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        L, F = (factor * np.exp(0.02 * rng.normal(size=factor.shape)) for factor in (new.L, new.F))
        assert majorised(L, F / F.sum(axis=0), (old.L, old.F)) > best


# --- appendix D: models with the same likelihood -----------------------------------------------------------------------

COUNTS = np.array([2, 1, 2])
W, H = np.random.default_rng(3).gamma(1, 1, (2, 3, 2))[0], np.array([0.7, 1.9])  # features × topics, topics


def latent(log_probability: Any) -> float:
    """log Σ p(z) over all z whose sums over topics are the counts."""
    return float(logsumexp([log_probability(np.asarray(z)[0]) for z in tensors(COUNTS[None], 2)]))


def test_geiger_park_lemma_d1_poisson_counts_are_sums_of_poisson_counts() -> None:
    with_latent = latent(lambda z: stats.poisson.logpmf(z, W * H).sum())
    assert um.loglik(COUNTS[None], H[None], W) == pytest.approx(with_latent, rel=1e-12)


def test_geiger_park_lemma_d2_multinomial_counts_are_sums_of_multinomial_counts_and_of_tokens() -> None:
    ours = um.loglik(COUNTS[None], H[None], W, model="multinomial")
    shares = W * H / (W * H).sum()
    assert ours == pytest.approx(latent(lambda z: stats.multinomial.logpmf(z.ravel(), 5, shares.ravel())), rel=1e-12)
    topics, weights = W / W.sum(axis=0), H * W.sum(axis=0) / (H * W.sum(axis=0)).sum()
    word = topics @ weights  # of a token: a topic, then a word of it
    tokens = [seq for seq in product(range(3), repeat=5) if (np.bincount(seq, minlength=3) == COUNTS).all()]
    assert ours == pytest.approx(logsumexp([np.log(word[list(seq)]).sum() for seq in tokens]), rel=1e-12)


def test_geiger_park_lemma_d3_with_normalised_parameters_poisson_and_multinomial_differ_by_a_constant() -> None:
    gaps = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        topics, weights = rng.dirichlet(np.ones(3), 2).T, rng.dirichlet(np.ones(2))
        poisson, multinomial = (
            um.loglik(COUNTS[None], weights[None], topics, model=m) for m in ("poisson", "multinomial")
        )
        gaps.append(poisson - multinomial)
    np.testing.assert_allclose(gaps, stats.poisson.logpmf(5, 1), rtol=1e-12)


# --- shared fixed points -----------------------------------------------------------------------------------------------


def moved(solver: Any, L: np.ndarray, F: np.ndarray) -> float:
    """The largest change of a rate, as a part of all, by one iteration from here."""
    new = solver.step(PROBLEM, solver.start(PROBLEM, L, F))
    return float(np.abs(new.L @ new.F.T - L @ F.T).max() / (L @ F.T).sum())


@pytest.mark.parametrize(("first", "other"), [(Joint(), PLSA()), (PLSA(), Joint())], ids=["joint", "plsa"])
def test_geiger_park_corollary_b2_joint_nmf_and_plsa_share_their_fixed_points(first: Any, other: Any) -> None:
    state = first.start(PROBLEM, L0, F0)
    for iteration in range(5_000):
        if iteration == 5:
            assert moved(other, state.L, state.F) > 1e-5  # on the way it does move
        state = first.step(PROBLEM, state)
    assert moved(first, state.L, state.F) < 1e-10
    assert moved(other, state.L, state.F) < 1e-10


def test_geiger_park_corollary_e4_lda_and_gamma_poisson_share_their_fixed_points() -> None:
    shapes, rate = np.array([0.5, 1.0, 2.0]), 1.7
    tasks = {
        "lda": Inference(Counts(X), lda(shapes, None)),
        "gamma-poisson": Inference(Counts(X), gamma_poisson(shapes, np.full(3, rate))),
    }
    for here, there in (("lda", "gamma-poisson"), ("gamma-poisson", "lda")):
        state = CAVI().start(tasks[here], L0, F0)
        for _ in range(3_000):
            state = CAVI().step(tasks[here], state)
        model = tasks[there].model
        if there == "lda":
            left = model.left.belief(gamma_poisson_to_lda(state.left.parameters))
        else:
            left = model.left.belief(*lda_to_gamma_poisson(state.left.parameters, rate))
        mapped = CAVI().from_beliefs(tasks[there], left, model.right.belief(state.right.parameters))
        new = CAVI().step(tasks[there], mapped)
        np.testing.assert_allclose(new.left.parameters, state.left.parameters, rtol=1e-7)
        np.testing.assert_allclose(new.right.parameters, state.right.parameters, atol=1e-6)
        start = CAVI().start(tasks[there], L0, F0)
        assert np.abs(CAVI().step(tasks[there], start).left.parameters - start.left.parameters).max() > 1e-2


# --- remarks without a number ------------------------------------------------------------------------------------------


def test_geiger_park_equation_23_without_a_constraint_an_l1_penalty_vanishes_by_rescaling() -> None:
    scales = np.array([1.0, 1e3, 1e6])
    penalised = [um.deviance(X, L0 / c, F0 * c) / 2 + (L0 / c).sum() for c in scales]
    assert penalised[0] > penalised[1] > penalised[2]
    assert penalised[2] == pytest.approx(um.deviance(X, L0, F0) / 2, rel=1e-6)


def test_plsa_is_the_mode_of_lda_under_a_uniform_dirichlet() -> None:
    """As concentrations approach one, iterates of the mode become those of maximum likelihood."""
    options: dict[str, Any] = {
        "solver": PLSA(),
        "extrapolate": False,
        "init": (L0, F0),
        "prefit": 0,
        "max_iter": 30,
        "tol": 0,
    }
    plain = um.TopicModel(3, **options).fit(X).result_
    gaps = []
    for above in (1e-1, 1e-4, 1e-8):
        prior = um.Dirichlet(1 + above)
        mode = um.TopicModel(3, prior=prior, loadings_prior=prior, **options).fit(X).result_
        gaps.append(max(np.abs(mode.topics - plain.topics).max(), np.abs(mode.proportions - plain.proportions).max()))
    assert gaps[0] > 1e-3 > gaps[1] > gaps[2]
    assert gaps[2] < 1e-7


def test_paisley_page_5_more_m_steps_under_one_phi_only_move_the_scale_of_topics() -> None:
    A, B, _ = PROBLEM.both_numerators(L0, F0)
    Z, Y = L0 * A, F0 * B  # expected counts, under φ of this point
    L, F = L0, F0
    rates = []
    for _ in range(4):
        L = Z / F.sum(axis=0)
        F = Y / L.sum(axis=0)
        rates.append(L @ F.T)
        np.testing.assert_allclose(L / L.sum(axis=0), Z / Z.sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(F / F.sum(axis=0), Y / Y.sum(axis=0), rtol=1e-12)
    for later in rates[1:]:
        np.testing.assert_allclose(later, rates[0], rtol=1e-12)
    joint = Joint().step(PROBLEM, Joint().start(PROBLEM, L0, F0))
    np.testing.assert_allclose(joint.L @ joint.F.T, rates[0], rtol=1e-12)
