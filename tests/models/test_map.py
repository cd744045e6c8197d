"""MAP: Gamma priors on loadings and factors, Dirichlet priors on topics and proportions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import examples, never_rises, random_counts, random_start
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize_scalar

import unmix as um
from unmix.solvers import EM, PLSA, SN, Alternate, Newton, Problem

X = random_counts(14, 12, K=3, seed=6)
T = X.sum(axis=1)
L0, F0 = random_start(14, 12, 3)
ON_L, ON_F = um.Gamma([1.3, 2.0, 1.5], 0.7), um.Gamma(1.2, [0.5, 1.0, 2.0])


def losses(solver: Any, problem: Problem, steps: int, start: Any = (L0, F0)) -> tuple[list[float], Any]:
    state = solver.start(problem, *start)
    out = [state.loss]
    for _ in range(steps):
        state = solver.step(problem, state)
        out.append(state.loss)
    return out, state


def ratio(L: np.ndarray, F: np.ndarray) -> np.ndarray:
    return np.divide(X, L @ F.T, out=np.zeros_like(X), where=X > 0)


# --- Gamma on both sides ---------------------------------------------------------------------------------------------


def log_density(prior: um.Gamma, factor: np.ndarray) -> float:
    shape, rate = np.broadcast_to(prior.shape, factor.shape), np.asarray(prior.rate)
    return float(stats.gamma.logpdf(factor, a=shape, scale=1 / rate).sum())


@pytest.mark.parametrize("half", [EM(), SN(), Newton()], ids=repr)
@pytest.mark.parametrize("priors", [(None, ON_L), (ON_F, ON_L)], ids=["loadings", "both"])
def test_the_posterior_never_falls_with_a_prior_on_loadings(half: Any, priors: Any) -> None:
    problem = Problem(um.Counts(X), 3, priors[0], priors[1])
    values, state = losses(Alternate(half), problem, 80)
    assert never_rises(values)
    assert values[-1] < values[0]
    log_posterior = um.loglik(X, state.L, state.F) + sum(
        log_density(prior, factor) for prior, factor in zip(priors, (state.F, state.L), strict=True) if prior
    )
    other = um.loglik(X, L0, F0) + sum(
        log_density(prior, factor) for prior, factor in zip(priors, (F0, L0), strict=True) if prior
    )
    start = Alternate(half).start(problem, L0, F0).loss
    assert log_posterior - other == pytest.approx(start - state.loss, rel=1e-9)


def test_the_mode_satisfies_its_equations() -> None:
    problem = Problem(um.Counts(X), 3, ON_F, ON_L)
    _, state = losses(Alternate(Newton()), problem, 3000)
    L, F = state.L, state.F
    extra_L, rate_L = ON_L.broadcast(*L.shape)
    extra_F, rate_F = ON_F.broadcast(*F.shape)
    R = ratio(L, F)
    np.testing.assert_allclose((L * (R @ F) + extra_L) / (F.sum(axis=0) + rate_L), L, atol=1e-6)
    np.testing.assert_allclose((F * (R.T @ L) + extra_F) / (L.sum(axis=0) + rate_F), F, atol=1e-6)
    assert problem.kkt(state) < 1e-5


@pytest.mark.parametrize("priors", [(None, ON_L), (ON_F, ON_L), (ON_F, None)], ids=["loadings", "both", "factors"])
def test_rescaling_finds_the_best_scale_of_every_topic(priors: Any) -> None:
    problem = Problem(um.Counts(X), 3, priors[0], priors[1])
    L, F = problem.rescale(L0.copy(), F0.copy())
    np.testing.assert_allclose(L @ F.T, L0 @ F0.T, rtol=1e-12)
    for k in range(3):

        def penalty(log_scale: float, k: int = k) -> float:
            scale = np.ones(3)
            scale[k] = np.exp(log_scale)
            return problem.penalty(L / scale, F * scale)

        assert minimize_scalar(penalty, bracket=(-1, 1)).x == pytest.approx(0, abs=1e-5)


def test_transform_finds_the_mode_of_new_loadings() -> None:
    model = um.PoissonNMF(3, loadings_prior=ON_L, init=(L0, F0), tol=1e-12, max_iter=3000).fit(X)
    np.testing.assert_allclose(model.transform(X), model.result_.L, rtol=1e-3)
    empty = model.transform(np.zeros((1, 12)))
    want = (np.array([1.3, 2.0, 1.5]) - 1) / (model.result_.F.sum(axis=0) + 0.7)
    np.testing.assert_allclose(empty[0], want, rtol=1e-10)


# --- Dirichlet on topics and proportions ----------------------------------------------------------------------------


def dirichlet_em(alpha: np.ndarray, eta: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    proportions, topics, _, _ = um.poisson_to_topics(L0, F0)
    for _ in range(steps):
        R = ratio(proportions, topics)
        Z, Y = proportions * (R @ topics) + alpha - 1, topics * (R.T @ proportions) + eta - 1
        proportions, topics = Z / Z.sum(axis=1, keepdims=True), Y / Y.sum(axis=0)
    return proportions, topics


def test_a_topic_model_with_dirichlet_priors_is_em_with_pseudo_counts() -> None:
    alpha = np.array([1.1, 1.5, 2.0])
    model = um.TopicModel(
        3,
        prior=um.Dirichlet(1.05),
        loadings_prior=um.Dirichlet(alpha),
        init=(L0, F0),
        extrapolate=False,
        max_iter=40,
        tol=0,
    ).fit(X)
    proportions, topics = dirichlet_em(alpha, 1.05, 40)
    np.testing.assert_allclose(model.result_.proportions, proportions, rtol=1e-9)
    np.testing.assert_allclose(model.result_.topics, topics, rtol=1e-9)
    np.testing.assert_allclose(model.result_.sizes, T, rtol=1e-12)


@examples(40)
@given(seed=st.integers(0, 10_000), alpha=st.floats(1.001, 20), eta=st.floats(1.001, 20))
def test_the_posterior_never_falls_with_dirichlet_priors(seed: int, alpha: float, eta: float) -> None:
    counts = random_counts(8, 7, K=3, seed=seed, mean=2.0)
    counts[2] = 0
    counts[:, 3] = 0
    problem = Problem(um.Counts(counts), 3, um.Dirichlet(eta).on_topics(), um.Dirichlet(alpha))
    values, state = losses(PLSA(), problem, 40, random_start(8, 7, 3, seed))
    assert never_rises(values)
    assert values[-1] < values[0]  # nor does it stand still
    np.testing.assert_allclose(state.F.sum(axis=0), 1, rtol=1e-12)


def test_the_objective_differs_from_the_log_posterior_by_a_constant() -> None:
    alpha, eta = np.array([1.1, 1.5, 2.0]), 1.3
    problem = Problem(um.Counts(X), 3, um.Dirichlet(eta).on_topics(), um.Dirichlet(alpha))

    def log_posterior(L: np.ndarray, F: np.ndarray) -> float:
        proportions, topics, _, _ = um.poisson_to_topics(L, F)
        on_L = sum(stats.dirichlet.logpdf(row, alpha) for row in proportions)
        on_F = sum(stats.dirichlet.logpdf(column, np.full(12, eta)) for column in topics.T)
        return um.loglik(X, L, F, model="multinomial") + on_L + on_F

    solver = PLSA()
    state = solver.start(problem, L0, F0)
    constant = log_posterior(state.L, state.F) + state.loss
    for _ in range(5):
        state = solver.step(problem, state)
        assert log_posterior(state.L, state.F) + state.loss == pytest.approx(constant, rel=1e-9)


def test_transform_finds_the_mode_of_proportions() -> None:
    model = um.TopicModel(3, loadings_prior=um.Dirichlet(1.4), init=(L0, F0), tol=1e-9, max_iter=3000).fit(X)
    np.testing.assert_allclose(model.transform(X), model.result_.proportions, atol=1e-3)
    np.testing.assert_allclose(model.transform(X).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(model.transform(np.zeros((1, 12)))[0], 1 / 3, rtol=1e-10)


def test_a_dirichlet_on_topics_is_a_gamma_on_factors() -> None:
    options = {"init": (L0, F0), "random_state": 0}
    a = um.TopicModel(3, prior=um.Dirichlet(1.3), **options).fit(X).result_
    b = um.TopicModel(3, prior=um.Gamma(1.3), **options).fit(X).result_
    np.testing.assert_array_equal(a.topics, b.topics)


def test_a_strong_prior_draws_proportions_together() -> None:
    spreads = [
        um.TopicModel(3, loadings_prior=um.Dirichlet(c), random_state=0).fit(X).result_.proportions.std()
        for c in (1.01, 3.0, 100.0)
    ]
    assert spreads[0] > spreads[1] > spreads[2]


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concentration", [1.0, 0.5, -1, np.nan, np.inf, [2.0, 0.9], [[2.0, 2.0]]])
def test_a_concentration_without_a_mode_is_refused(concentration: Any) -> None:
    with pytest.raises(ValueError, match=r"(?s)Dirichlet concentration .*posterior mode needs numbers >= 1"):
        um.Dirichlet(concentration)


@pytest.mark.parametrize(
    ("kind", "prior", "message"),
    [
        (um.PoissonNMF, um.Dirichlet(2.0), "a Dirichlet is for the proportions of TopicModel"),
        (um.TopicModel, um.Gamma(2.0), "a Gamma is for the loadings of PoissonNMF"),
        (um.PoissonNMF, um.Gamma([2.0, 2.0, 1.0]), "Gamma shape is 1 everywhere in topic 2"),
        (um.TopicModel, 2.0, "loadings_prior=2.0; use None or unmix.Dirichlet"),
        (um.TopicModel, um.Dirichlet([2.0, 2.0]), "does not fit 14 rows × 3 topics"),
    ],
)
def test_a_prior_of_the_wrong_kind_is_refused(kind: Any, prior: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(3, loadings_prior=prior, random_state=0).fit(X)


@pytest.mark.parametrize("solver", ["joint", "plsi", "normalized"])
def test_solvers_without_priors_say_so(solver: str) -> None:
    with pytest.raises(ValueError, match="does not support a prior on loadings; use loadings_prior=None"):
        um.PoissonNMF(3, solver=solver, loadings_prior=um.Gamma(2.0), random_state=0).fit(X)


@pytest.mark.parametrize("solver", ["em", "scd", "joint", "plsi", um.solvers.Newton()], ids=str)
def test_a_dirichlet_on_proportions_is_fitted_by_plsa_and_refused_by_a_solver_that_was_asked_for(solver: Any) -> None:
    options: Any = {"loadings_prior": um.Dirichlet(1.2), "random_state": 0, "max_iter": 20, "tol": 0}
    with pytest.raises(
        ValueError, match=r"TopicModel with \w+ does not support a Dirichlet prior on loadings; use plsa"
    ):
        um.TopicModel(3, solver=solver, **options).fit(X)
    default, by_name = um.TopicModel(3, **options).fit(X), um.TopicModel(3, solver="plsa", **options).fit(X)
    np.testing.assert_array_equal(default.result_.L, by_name.result_.L)


def test_online_learning_has_no_prior_on_loadings() -> None:
    model = um.TopicModel(3, loadings_prior=um.Dirichlet(1.2), online=um.Online())
    with pytest.raises(ValueError, match="OnlineEM does not support a Dirichlet prior on loadings"):
        model.fit(X)
    assert not hasattr(model, "partial_fit")
    assert not hasattr(um.SparsePoissonNMF(3), "partial_fit")


# --- priors that differ from topic to topic --------------------------------------------------------------------------


def seeded(seed: int) -> tuple[Any, Any, Any, Any]:
    """Counts, the shape of a prior that knows four words of each topic, and the truth, in the order of the prior."""
    rng, K = np.random.default_rng(seed), 5
    topics, proportions = rng.dirichlet(np.full(80, 0.2), K).T, rng.dirichlet(np.full(K, 0.4), 150)
    counts = rng.poisson(60 * proportions @ topics.T)
    used = counts.sum(axis=0) > 0
    counts, topics = counts[:, used], topics[used]
    shape = np.full(topics.shape, 1.01)
    for k in range(K):
        shape[np.argsort(-topics[:, k] / topics.sum(axis=1) * np.sqrt(topics[:, k]))[:4], k] = 30
    return counts, shape, proportions * counts.sum(axis=1, keepdims=True) + 1e-3, topics + 1e-6


def right_places(fit: um.Fit, topics: Any) -> bool:
    return all(np.corrcoef(fit.topics[:, k], topics[:, k])[0, 1] > 0.9 for k in range(fit.n_topics))


@pytest.mark.parametrize("init", ["auto", "topic-score", "random"])
@pytest.mark.parametrize("seed", range(2))
def test_topics_find_the_columns_of_a_prior_that_differs_by_topic(init: str, seed: int) -> None:
    X, shape, L, F = seeded(seed)
    prior = um.Gamma(shape=shape)
    known = um.PoissonNMF(5, prior=prior, init=(L, F)).fit(X).result_
    model = um.PoissonNMF(5, prior=prior, init=init, refine=int(init == "auto"), random_state=0).fit(X)  # type: ignore[arg-type]
    assert right_places(known, F)
    assert right_places(model.result_, F)
    assert model.result_.trace["objective"].iloc[-1] == pytest.approx(known.trace["objective"].iloc[-1], abs=1)


def test_topics_find_their_places_on_shards_and_among_several_starts() -> None:
    X, shape, _, F = seeded(0)
    model = um.TopicModel(5, prior=um.Gamma(shape=shape), n_init=2, random_state=0)
    assert right_places(model.fit(X).result_, F)
    assert right_places(model.set_params(n_init=1).fit(um.Shards.of(um.Counts(X))).result_, F)


def test_rates_and_concentrations_by_topic_keep_their_place() -> None:
    X, _, _, _ = seeded(0)
    rates = np.array([1.0, 10.0, 100.0, 3.0, 30.0])
    fit = um.PoissonNMF(5, prior=um.Gamma(1.1, rates), random_state=0).fit(X).result_
    np.testing.assert_allclose(fit.F.sum(axis=0), 0.1 * X.shape[1] / rates, rtol=1e-3)
    more = np.array([1.0, 1.0, 1.0, 200.0, 1.0])
    fit = um.TopicModel(5, loadings_prior=um.Dirichlet(more), max_iter=50, tol=0, random_state=0).fit(X).result_
    assert fit.proportions.mean(axis=0).argmax() == 3


@pytest.mark.parametrize("kind", ["LDA", "GammaPoisson"])
def test_the_heaviest_topic_starts_where_the_prior_expects_most(kind: str) -> None:
    rng, alpha = np.random.default_rng(1), np.array([0.1, 0.1, 3.0, 0.1, 0.5])
    topics = rng.dirichlet(np.full(80, 0.2), 5)
    X = rng.poisson(40 * rng.dirichlet(alpha, 150) @ topics)
    prior = {"LDA": {"alpha": alpha}, "GammaPoisson": {"shape": alpha}}[kind]
    model = getattr(um, kind)(5, eta=0.1, random_state=0, **prior).fit(X)
    assert model.result_.shares.argmax() == 2
    assert np.corrcoef(model.result_.topics[:, 2], topics[2])[0, 1] > 0.95
