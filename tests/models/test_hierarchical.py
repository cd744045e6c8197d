"""Hierarchical Poisson factorisation: iterates of the paper's listing, a bound that is one and never falls, rates of new samples.

    l_ik ~ Gamma(a, ξ_i),  ξ_i ~ Gamma(a', a'/b'),   f_jk ~ Gamma(c, η_j),  η_j ~ Gamma(c', c'/d')

(Gopalan, Hofman and Blei 2015; here a' = c' = `rate_shape`, b' = b, d' = d). Dense NumPy with φ stored is the judge.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from conftest import never_rises, random_counts, random_start
from scipy.special import digamma, gammaln, logsumexp, xlogy

import unmix as um
from unmix.counts.counts import Counts
from unmix.models.beliefs import Belief, Gammas, HierarchicalGammas
from unmix.models.variational import Inference, Variational, gamma_gamma, hierarchical, restore
from unmix.solvers import CAVI, ExtrapolatedVI

Floats = np.ndarray
A, B, C, D, S, K = 0.4, 0.9, 0.6, 2.2, 0.7, 3
X = random_counts(12, 15, K=3, seed=0)
X[3], X[:, 4] = 0, 0
X0 = random_counts(30, 25, K=3, seed=4)


class Side(NamedTuple):
    """Shapes and rates of q of one factor, and rates of q of its rows' rates."""

    shape: Floats
    rates: Floats
    of_rows: Floats

    @property
    def mean(self) -> Floats:
        return self.shape / self.rates


def printed(counts: Floats, left: Side, right: Side, rounds: int = 1) -> tuple[Side, Side]:
    """The listing of the paper: φ; then shape, rate and κ rate of every user; then those of every item. `rounds` times rate and
    κ rate, which the paper does once."""
    logs = [digamma(side.shape) - np.log(side.rates) for side in (left, right)]
    joint = logs[0][:, None] + logs[1][None]
    by_topic = counts[:, :, None] * np.exp(joint - logsumexp(joint, axis=2, keepdims=True))
    left = updated(left, A, B, by_topic.sum(axis=1), right.mean.sum(axis=0), rounds)
    return left, updated(right, C, D, by_topic.sum(axis=0), left.mean.sum(axis=0), rounds)


def updated(side: Side, shape: float, mean_rate: float, counts: Floats, cost: Floats, rounds: int) -> Side:
    side = side._replace(shape=shape + counts)
    for _ in range(rounds):
        side = side._replace(rates=((S + K * shape) / side.of_rows)[:, None] + cost)
        side = side._replace(of_rows=S / mean_rate + side.mean.sum(axis=1))
    return side


def listed_bound(counts: Floats, left: Side, right: Side) -> float:
    """E log p(X, φ | L, F) − KL of q(L, ξ) − KL of q(F, η), by the formulas of Gamma distributions."""
    logs = [digamma(side.shape) - np.log(side.rates) for side in (left, right)]
    joint = logs[0][:, None] + logs[1][None]
    phi = np.exp(joint - logsumexp(joint, axis=2, keepdims=True))
    by_topic = counts[:, :, None] * phi
    value = (by_topic * joint - xlogy(by_topic, phi)).sum() - gammaln(counts + 1).sum()
    value -= left.mean.sum(axis=0) @ right.mean.sum(axis=0)
    for side, log, shape, mean_rate in ((left, logs[0], A, B), (right, logs[1], C, D)):
        p, s = S + K * shape, S / mean_rate
        rate, log_rate = (p / side.of_rows)[:, None], (digamma(p) - np.log(side.of_rows))[:, None]
        value += (shape * log_rate - gammaln(shape) + (shape - 1) * log - rate * side.mean).sum()
        g, r = side.shape, side.rates
        value += (g - np.log(r) + gammaln(g) + (1 - g) * digamma(g)).sum()
        value += (S * np.log(s) - gammaln(S) + (S - 1) * log_rate - s * rate).sum()
        value += (p - np.log(side.of_rows) + gammaln(p) + (1 - p) * digamma(p)).sum()
    return float(value)


def random_side(prior: HierarchicalGammas, rows: int, rng: np.random.Generator) -> tuple[Side, Belief]:
    shape, rates = (np.exp(rng.normal(0, 1, (rows, K))) for _ in range(2))
    of_rows = S / prior.rate[0] + (shape / rates).sum(axis=1)  # as the last update left it
    return Side(shape, rates, of_rows), prior.belief(shape, rates)


def begun(seed: int = 1) -> tuple[Inference, tuple[Side, Side], tuple[Belief, Belief]]:
    model, rng = hierarchical(K, A, B, C, D, S), np.random.default_rng(seed)
    (left, q_left), (right, q_right) = (
        random_side(p, n, rng) for p, n in zip((model.left, model.right), X.shape, strict=True)
    )
    return Inference(Counts(X), model), (left, right), (q_left, q_right)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_that_of_all_four_kinds_of_variables(seed: int) -> None:
    task, sides, (left, right) = begun(seed)
    assert -task.loss(task.model, left, right) == pytest.approx(listed_bound(X, *sides), rel=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_printed_iterates_are_those_of_the_paper(seed: int) -> None:
    task, sides, beliefs = begun(seed)
    solver = CAVI(rescale=False)
    state = solver.from_beliefs(task, *beliefs)
    for _ in range(8):
        state, sides = solver.step(task, state), printed(X, *sides)
        for side, belief, prior in zip(
            sides, (state.left, state.right), (task.model.left, task.model.right), strict=True
        ):
            np.testing.assert_allclose(belief.parameters, side.shape, rtol=1e-12)
            np.testing.assert_allclose(belief.rates, side.rates, rtol=1e-12)
            np.testing.assert_allclose(prior._of_rates[0] / prior.mean_rates(belief), side.of_rows, rtol=1e-12)
        assert -state.loss == pytest.approx(listed_bound(X, *sides), rel=1e-11)


def test_updates_are_the_paper_s_with_both_lines_of_rates_repeated() -> None:
    """Of rows and of their entries together, until neither changes: a further block, so the bound is never lower."""
    task, sides, beliefs = begun()
    state = CAVI().from_beliefs(task, *beliefs)
    for _ in range(4):
        once, sides = printed(X, *sides), printed(X, *sides, rounds=3000)
        assert listed_bound(X, *sides) >= listed_bound(X, *once) - 1e-9
        state = CAVI().step(task, state)
        for side, belief, prior in zip(
            sides, (state.left, state.right), (task.model.left, task.model.right), strict=True
        ):
            np.testing.assert_allclose(belief.parameters, side.shape, rtol=1e-11)
            np.testing.assert_allclose(prior.entry_rates(belief.parameters, belief.rates), side.rates, rtol=1e-11)


SOLVERS = [CAVI(), CAVI(inner=5), CAVI(rescale=False), ExtrapolatedVI(), ExtrapolatedVI(inner=3)]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("one_sided", [False, True])
def test_the_bound_never_falls(solver: CAVI | ExtrapolatedVI, one_sided: bool) -> None:
    model = hierarchical(K, A, B, C, D, S)
    if one_sided:
        model = Variational(model.left, gamma_gamma(K, A, B, C, D).right)
    task = Inference(Counts(X), model)
    state = solver.start(task, *random_start(12, 15, 3))
    losses = [state.loss]
    for _ in range(60):
        state = solver.step(task, state)
        losses.append(state.loss)
    assert never_rises(losses)
    assert losses[-1] < losses[0] - 5


def test_printed_and_default_updates_end_at_the_same_bound() -> None:
    task, _, beliefs = begun()
    losses = []
    for solver in (CAVI(), CAVI(rescale=False)):
        state = solver.from_beliefs(task, *beliefs)
        for _ in range(4000):
            state = solver.step(task, state)
        losses.append(state.loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-7)


def test_the_bound_is_below_the_likelihood_by_draws_from_the_prior() -> None:
    counts, rng, draws = np.array([[2.0, 0], [1, 3]]), np.random.default_rng(6), 400_000
    model = hierarchical(2, A, B, C, D, S)
    rates = [rng.gamma(S, mean / S, (draws, 2, 1)) + 1e-300 for mean in (B, D)]
    L, F = (rng.gamma(shape, 1 / rate, (draws, 2, 2)) for shape, rate in zip((A, C), rates, strict=True))
    lam = np.maximum(np.einsum("sik,sjk->sij", L, F), 1e-300)
    logs = (xlogy(counts, lam) - lam - gammaln(counts + 1)).sum(axis=(1, 2))
    exact = logsumexp(logs) - np.log(draws)  # two standard errors are 0.05
    task = Inference(Counts(counts), model)
    best = -np.inf
    for seed in range(20):
        rng = np.random.default_rng(seed)
        state = CAVI().from_beliefs(
            task,
            *(
                p.belief(np.exp(rng.normal(0, 2, (2, 2))), np.exp(rng.normal(0, 2, 2)))
                for p in (model.left, model.right)
            ),
        )
        assert -state.loss <= exact + 0.05
        for _ in range(300):
            state = CAVI().step(task, state)
        best = max(best, -state.loss)
    assert exact - 6 < best <= exact + 0.05


def test_rates_that_hardly_differ_are_those_of_bayesian_poisson_nmf() -> None:
    rng, shape, cost = np.random.default_rng(0), np.full(K, A), np.array([0.5, 3.0, 20.0])
    plain, near = Gammas(shape, np.full(K, B)), HierarchicalGammas(shape, np.full(K, B), np.full(K, 1e7))
    counts = rng.gamma(1, 3, (40, K))
    one, two = plain.update(counts, cost), near.update(counts, cost)
    np.testing.assert_allclose(near.mean_rates(two), B, rtol=1e-5)
    assert two.bound == pytest.approx(one.bound, rel=1e-5)
    for ask in ("mean", "standard_deviation"):
        np.testing.assert_allclose(getattr(near, ask)(two), getattr(plain, ask)(one), rtol=1e-5)
    np.testing.assert_allclose(near.quantile(two, 0.1), plain.quantile(one, 0.1), rtol=1e-5)


def test_rates_are_lower_the_larger_samples_and_the_more_frequent_features() -> None:
    rng = np.random.default_rng(0)
    sizes, popularity = np.exp(rng.normal(0, 1.5, (60, 1))), np.exp(rng.normal(0, 1.5, (1, 40)))
    counts = rng.poisson(sizes * popularity * (rng.gamma(1, 1, (60, 6)) @ rng.gamma(1, 1, (6, 40))))
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    model = um.BayesianPoissonNMF(6, rate_shape=0.3, random_state=0, tol=1e-4).fit(counts)
    for axis, rates in ((1, model.sample_rates_), (0, model.feature_rates_)):
        assert np.corrcoef(np.log(counts.sum(axis=axis)), np.log(rates))[0, 1] < -0.9
    with pytest.raises(AttributeError, match="rate_shape"):
        _ = um.BayesianPoissonNMF(2, random_state=0).fit(X0).sample_rates_


def test_new_samples_find_rates_of_their_own() -> None:
    model = um.BayesianPoissonNMF(3, rate_shape=0.3, random_state=0, tol=1e-12, max_iter=5000).fit(X0)
    again = model.transform(X0)
    np.testing.assert_allclose(again, model.result_.L, rtol=1e-3, atol=1e-6 * model.result_.L.max())
    small, large = model.transform(np.vstack([X0[0], 50 * X0[0]]))
    assert large.sum() > 30 * small.sum()
    assert np.abs(large / large.sum() - small / small.sum()).max() < 0.1
    low, high = model.credible_intervals("loadings")
    assert ((low < model.result_.L) & (high > model.result_.L)).mean() > 0.95
    assert (model.standard_deviations("factors") > 0).all()
    assert -5 < model.score(X0) < 0


def test_it_is_saved_loaded_and_resumed(tmp_path: Path) -> None:
    options = {"rate_shape": 0.3, "random_state": 0, "tol": 0}
    with um.fit.quietly():
        whole = um.BayesianPoissonNMF(3, max_iter=20, **options).fit(X0)
        part = um.BayesianPoissonNMF(3, max_iter=8, **options).fit(X0)
        part.result_.save(tmp_path / "part.safetensors", resumable=True)
        again = um.BayesianPoissonNMF(3, max_iter=20, **options).resume(X0, um.load(tmp_path / "part.safetensors"))
        with pytest.raises(ValueError, match="rate_shape"):
            um.BayesianPoissonNMF(3, max_iter=20, **options | {"rate_shape": 0.4}).resume(
                X0, um.load(tmp_path / "part.safetensors")
            )
    assert again.result_.F.tobytes() == whole.result_.F.tobytes()
    assert again.result_.priors == {"L": "HierarchicalGammas", "F": "HierarchicalGammas"}
    loaded = um.load(tmp_path / "part.safetensors")
    model, left, _ = restore(loaded.priors, loaded.posterior)
    np.testing.assert_array_equal(model.left.mean_rates(left), part.sample_rates_)
    np.testing.assert_allclose(loaded.transform(X0), part.result_.transform(X0))


def test_a_shape_that_is_not_positive_is_refused() -> None:
    for shape in (0, -1.0, np.nan, "auto"):
        with pytest.raises((ValueError, TypeError), match="rate_shape"):
            um.BayesianPoissonNMF(3, rate_shape=shape).fit(X0)
