"""The allocation model: kernels against their twins, formulas against the exact enumerator, samplers against the posterior."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import reference
from conftest import examples, random_counts, random_start
from hypothesis import given
from hypothesis import strategies as st
from oracle import Oracle
from scipy import stats
from scipy.special import gammaln, psi
from sklearn.exceptions import ConvergenceWarning

import unmix as um
from unmix import kernels
from unmix.base import memory
from unmix.base.threads import use_threads
from unmix.counts.counts import Counts
from unmix.kernels import Labels
from unmix.models.allocation import Allocation, AllocationTask, check_labels, sd
from unmix.models.poisson import match_to_first
from unmix.solvers.allocation import ICM, FactoredBLD, FreeBLD, labels_of, parts, rounded, shares
from unmix.solvers.sampling import compositions, diagnose

TINY = Oracle(
    np.array([[2, 0, 1], [1, 2, 0]]), alpha=np.array([0.5, 0.7, 1.1]), beta=np.array([1.2, 0.4]), a=2.3, b=0.8
)
TINY_MODEL = Allocation(2.3, 0.8, TINY.alpha, TINY.beta)


def labelled(X: Counts, K: int, chains: int = 1, seed: int = 0) -> Labels:
    labels = np.random.default_rng(seed).integers(K, size=(chains, int(X.total)), dtype=np.uint16)
    return Labels.of(X.rows, X.shape, K, labels)


def log_joint(X: Counts, model: Allocation, state: Labels) -> float:
    by_feature, by_sample = (table[0, :, : state.topics].astype(float) for table in (state.by_feature, state.by_sample))
    return model.log_joint(by_feature, by_sample, float(kernels.log_factorials(X.rows, state)[0]))


def equal(one: Labels, other: Labels) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.arrays, other.arrays, strict=True))


# --- kernels and their twins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [1, 3, 4, 7, 10, 16, 17, 30, 64, 70, 150])
def test_gibbs_draws_what_its_twin_draws(K: int) -> None:
    X = Counts(random_counts(8, 9, seed=K))
    rng = np.random.default_rng(K)
    alpha, beta, random = rng.uniform(0.05, 2, 9), rng.uniform(0.05, 2, K), kernels.seeds(rng, 2)
    fast, slow = labelled(X, K, 2, K), labelled(X, K, 2, K)
    fast_random, slow_random = random.copy(), random.copy()
    kernels.gibbs(X.rows, alpha, beta, fast, fast_random, sweeps=2)
    reference.gibbs(X.rows, alpha, beta, slow, slow_random, sweeps=2)
    assert equal(fast, slow)
    np.testing.assert_array_equal(fast_random, slow_random)
    assert K == 1 or not np.array_equal(fast.labels, labelled(X, K, 2, K).labels)
    assert equal(fast, Labels.of(X.rows, X.shape, K, fast.labels))  # the tables are those of the labels


@pytest.mark.parametrize("K", [6, 40])
def test_any_number_of_threads_gives_the_same_chains(K: int) -> None:
    X = um.datasets.correlated_topics("A")
    random = kernels.seeds(np.random.default_rng(0), 3)
    alpha, beta = np.full(X.shape[1], 0.1), np.full(K, 0.5)
    states = []
    for n in (1, 2, 3):
        states.append(labelled(X, K, 3))
        with use_threads(n):
            kernels.gibbs(X.rows, alpha, beta, states[-1], random.copy(), sweeps=2)
    assert equal(states[0], states[1])
    assert equal(states[0], states[2])
    alone = Labels.of(X.rows, X.shape, K, labelled(X, K, 3).labels[1:2].copy())
    kernels.gibbs(X.rows, alpha, beta, alone, random[1:2].copy(), sweeps=2)
    np.testing.assert_array_equal(alone.labels[0], states[0].labels[1])


@pytest.mark.parametrize("K", [1, 2, 5, 18])
def test_icm_and_greedy_move_what_their_twins_move(K: int) -> None:
    X = Counts(random_counts(8, 9, seed=K))
    rng = np.random.default_rng(K)
    alpha, beta, order = rng.uniform(0.05, 2, 9), rng.uniform(0.5, 2, K), rng.permutation(X.nnz)
    fast, slow = (Labels.empty(X.rows, X.shape, K, 1) for _ in range(2))
    kernels.greedy(X.rows, alpha, beta, order, fast)
    reference.greedy(X.rows, alpha, beta, order, slow)
    assert equal(fast, slow)
    fast, slow = labelled(X, K), labelled(X, K)
    assert kernels.icm(X.rows, alpha, beta, fast) == reference.icm(X.rows, alpha, beta, slow)
    assert equal(fast, slow)
    got, want = kernels.log_factorials(X.rows, fast), reference.log_factorials(X.rows, slow)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_digamma_and_log_gamma_are_those_of_scipy() -> None:
    x = np.concatenate([np.geomspace(1e-8, 1e8, 20_001), np.arange(1, 50.0)])
    for n in (1, 3):
        with use_threads(n):
            np.testing.assert_allclose(kernels.digamma(x), reference.digamma(x), rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(kernels.log_gamma(x), reference.log_gamma(x), rtol=1e-12, atol=1e-13)
    assert kernels.digamma(np.ones((2, 3))).shape == (2, 3)


def test_kernels_refuse_labels_that_do_not_fit() -> None:
    X = Counts(random_counts(5, 6))
    state, random = labelled(X, 3), kernels.seeds(np.random.default_rng(0), 1)
    with pytest.raises(ValueError, match="the tables do not fit"):
        kernels.gibbs(X.rows, np.ones(6), np.ones(5), state, random)
    with pytest.raises(ValueError, match="generator to every chain"):
        kernels.gibbs(X.rows, np.ones(6), np.ones(3), state, random[:0])
    state.labels[0, 0] = 3
    with pytest.raises(ValueError, match="not the number of a topic"):
        kernels.gibbs(X.rows, np.ones(6), np.ones(3), state, random)


# --- the model -------------------------------------------------------------------------------------------------------


def test_log_joint_is_that_of_every_tensor() -> None:
    for S in TINY.tensors:
        got = TINY_MODEL.log_joint(S.sum(axis=0) * 1.0, S.sum(axis=1) * 1.0, gammaln(S + 1.0).sum())
        assert got == pytest.approx(TINY.log_joint(S), abs=1e-11)


def test_posteriors_given_s_have_the_moments_of_draws() -> None:
    S = TINY.tensors[7]
    rng = np.random.default_rng(0)
    topics, proportions = TINY_MODEL.topics(S.sum(axis=0)), TINY_MODEL.proportions(S.sum(axis=1))
    np.testing.assert_allclose(topics[0], TINY.topics_given(S), rtol=1e-12)
    np.testing.assert_allclose(proportions[0], TINY.proportions_given(S), rtol=1e-12)
    draws = rng.dirichlet(TINY.alpha + S.sum(axis=0)[:, 1], 40_000)
    np.testing.assert_allclose(sd(*topics)[:, 1], draws.std(axis=0), rtol=0.02)
    draws = rng.dirichlet(TINY.beta + S[0].sum(axis=0), 40_000)
    np.testing.assert_allclose(sd(*proportions)[0], draws.std(axis=0), rtol=0.02)
    sizes, totals = TINY_MODEL.sizes(np.array([3.0, 3.0])), rng.gamma(2.3 + 3, 1 / 1.8, 40_000)
    assert sizes[0] == pytest.approx(totals.mean(), rel=0.01)


def test_rate_of_the_sizes_follows_the_data() -> None:
    X = Counts(random_counts())
    model = Allocation.for_data(X, 3, 2.0, None, 1.0, 1.0)
    assert model.a / model.b == pytest.approx(X.sample_totals.mean())


# --- BLD -------------------------------------------------------------------------------------------------------------


def task_of(X: np.ndarray, K: int, beta: float | np.ndarray = 1.5, alpha: float = 0.3) -> AllocationTask:
    counts = Counts(X)
    return AllocationTask(counts, Allocation.for_data(counts, K, 1.0, None, alpha, beta))


def test_gradient_is_the_difference_of_its_parts() -> None:
    task = task_of(random_counts(8, 9), 3, np.array([1.0, 2.0, 5.0]))
    rho = np.random.default_rng(0).dirichlet(np.ones(3), task.X.nnz)
    state = FreeBLD().start(task, rho)
    plus, minus = task.gradients(state)
    x, owner = task.X.rows.data, task.sides.left.owners
    pos, neg = parts(x, rho, plus[owner], minus[task.X.rows.indices])
    assert pos.min() >= 0
    assert neg.min() >= 0

    def ell(scores: np.ndarray) -> float:
        moved = np.exp(scores)
        return -FreeBLD().start(task, moved / moved.sum(axis=1, keepdims=True)).loss

    scores, h = np.log(rho), 1e-5
    for p, k in ((0, 0), (5, 2), (17, 1)):  # by log ρ, before normalising
        up, down = scores.copy(), scores.copy()
        up[p, k] += h
        down[p, k] -= h
        want = x[p] * rho[p, k] * (pos - neg)[p, k]
        assert (ell(up) - ell(down)) / (2 * h) == pytest.approx(want, rel=1e-5, abs=1e-6)


def test_factored_gradient_is_the_difference_of_its_parts() -> None:
    task = task_of(random_counts(8, 9), 3)
    P, Q = random_start(8, 9, 3)
    state = FactoredBLD().begin(task, P, Q)
    plus, minus = task.gradients(state)
    rows, owner = task.X.rows, task.sides.left.owners
    rho = shares(P[owner], Q[rows.indices])
    pos, neg = parts(rows.data, rho, plus[owner], minus[rows.indices])
    S, h = rows.data[:, None] * rho, 1e-6
    for moving, index, which in ((P, (2, 1), owner == 2), (Q, (4, 2), rows.indices == 4)):
        up, down = moving.copy(), moving.copy()
        up[index] += h
        down[index] -= h
        pairs = [(up, Q), (down, Q)] if moving is P else [(P, up), (P, down)]
        slope = (FactoredBLD().begin(task, *pairs[1]).loss - FactoredBLD().begin(task, *pairs[0]).loss) / (2 * h)
        want = (S * (pos - neg))[which, index[1]].sum() / moving[index]
        assert slope == pytest.approx(want, rel=1e-5, abs=1e-5)


def test_below_one_a_part_of_the_gradient_is_negative() -> None:
    task = task_of(np.array([[3.0, 0], [0, 2]]), 2, beta=0.3)
    rho = np.full((2, 2), 0.5)
    plus, minus = task.gradients(FreeBLD().start(task, rho))
    assert (plus - psi(task.X.rows.data[:, None] * rho + 1)).min() < 0
    assert minus.min() >= 0


@examples(25)
@given(
    seed=st.integers(0, 10**6), K=st.integers(1, 5), alpha=st.floats(0.01, 3), beta=st.floats(1, 20), free=st.booleans()
)
def test_bld_never_falls(seed: int, K: int, alpha: float, beta: float, free: bool) -> None:
    task = task_of(random_counts(7, 8, seed=seed), K, beta, alpha)
    P, Q = random_start(7, 8, K, seed)
    solver: Any = FreeBLD() if free else FactoredBLD()
    state = solver.begin(task, P, Q)
    first = state.loss
    for _ in range(8):
        new = solver.step(task, state)
        assert new.loss <= state.loss
        np.testing.assert_allclose(new.by_sample.sum(axis=1), task.X.sample_totals, rtol=1e-9)
        np.testing.assert_allclose(new.by_feature.sum(axis=1), task.X.feature_totals, rtol=1e-9)
        state = new
    assert K == 1 or state.loss < first  # nor does it stand still


@pytest.mark.parametrize("method", ["bld", "factored-bld"])
def test_bld_on_speeches_rises_and_means_what_it_says(method: Any) -> None:
    X = um.datasets.sotu()
    model = um.AllocationModel(
        5, alpha=0.1, beta=1.2, method=method, init="random", max_iter=6, tol=0, random_state=0
    ).fit(X)
    objective = model.result_.trace["objective"].to_numpy()
    assert (np.diff(objective) > 0).all()
    assert model.log_joint_ == pytest.approx(objective[-1])
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-12)
    fit = model.result_
    np.testing.assert_allclose(fit.proportions, fit.posterior["L"] / fit.posterior["L"].sum(axis=1)[:, None])
    np.testing.assert_allclose(fit.topics, fit.posterior["F"] / fit.posterior["F"].sum(axis=0))
    assert (np.diff(fit.shares) <= 0).all()  # heaviest first


def test_bld_ends_at_a_stationary_point() -> None:
    """Where ρ > 0 the gradient is the same for all topics of a nonzero."""
    task = task_of(random_counts(8, 9), 3, 2.0)
    rho = np.random.default_rng(0).dirichlet(np.ones(3), task.X.nnz)
    state = FreeBLD().start(task, rho)
    for _ in range(800):
        state = FreeBLD().step(task, state)
    plus, minus = task.gradients(state)
    rows = task.X.rows
    pos, neg = parts(rows.data, state.rho, plus[task.sides.left.owners], minus[rows.indices])
    assert np.abs(state.rho * (pos - neg)).max() < 1e-3


def test_factored_work_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    task, (P, Q) = task_of(random_counts(8, 9), 3), random_start(8, 9, 3)
    whole = FactoredBLD().step(task, FactoredBLD().begin(task, P, Q))
    monkeypatch.setattr("unmix.solvers.allocation.BLOCK", 7)
    cut = FactoredBLD().step(task, FactoredBLD().begin(task, P, Q))
    np.testing.assert_allclose(cut.P, whole.P, rtol=1e-12)
    np.testing.assert_allclose(cut.Q, whole.Q, rtol=1e-12)
    assert cut.loss == pytest.approx(whole.loss, rel=1e-13)


# --- ICM -------------------------------------------------------------------------------------------------------------


@examples(25)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 5), alpha=st.floats(0.01, 3), beta=st.floats(0.01, 5))
def test_icm_never_falls_and_ends_where_no_single_move_gains(seed: int, K: int, alpha: float, beta: float) -> None:
    X = Counts(random_counts(5, 6, seed=seed, mean=2))
    model = Allocation.for_data(X, K, 1.0, None, alpha, beta)
    task, solver = AllocationTask(X, model), ICM()
    state = solver.greedy(task, np.random.default_rng(seed))
    assert -state.loss == pytest.approx(log_joint(X, model, state.held), abs=1e-9)
    for _ in range(200):
        new = solver.step(task, state)
        assert new.loss <= state.loss + 1e-9
        state = new
        if state.final:
            break
    assert state.final
    assert state.note == "0 moved"
    tokens = range(0, int(X.total), 5)
    for t in tokens:  # moving any one token lowers log p(S), or leaves it
        for k in range(K):
            labels = state.held.labels.copy()
            labels[0, t] = k
            other = log_joint(X, model, Labels.of(X.rows, X.shape, K, labels))
            assert other <= -state.loss + 1e-8


def test_icm_finds_a_mode_of_the_enumerated_posterior() -> None:
    model = um.AllocationModel(2, a=2.3, b=0.8, alpha=TINY.alpha, beta=TINY.beta, method="icm", random_state=0).fit(
        TINY.X
    )
    assert np.abs(TINY.log_joints - model.log_joint_).min() < 1e-10
    assert (TINY.log_joints > model.log_joint_).mean() < 0.2


def test_rounding_keeps_sums_and_whole_numbers() -> None:
    rng = np.random.default_rng(0)
    x, rho = rng.integers(1, 30, 200).astype(float), rng.dirichlet(np.full(4, 0.3), 200)
    S = rounded(x, rho)
    np.testing.assert_array_equal(S.sum(axis=1), x)
    assert np.abs(S - x[:, None] * rho).max() < 1 + 1e-9
    np.testing.assert_array_equal(rounded(x, S / x[:, None]), S)
    assert labels_of(np.array([[0, 2], [1, 1]])).tolist() == [1, 1, 0, 1]


# --- Gibbs -----------------------------------------------------------------------------------------------------------


def conditional(oracle: Oracle, labels: tuple[int, ...], t: int) -> np.ndarray:
    """p(label of token t | labels of all others), K, from the joint probabilities alone.

    All labellings of one S are equally likely, and there are Π x_ij! / Π S_ijk! of them.
    """
    cells = [(i, j) for i, j in np.argwhere(oracle.X > 0) for _ in range(oracle.X[i, j])]
    scores = []
    for k in range(len(oracle.beta)):
        S = np.zeros((*oracle.X.shape, len(oracle.beta)), dtype=int)
        for (i, j), label in zip(cells, (*labels[:t], k, *labels[t + 1 :]), strict=True):
            S[i, j, label] += 1
        scores.append(oracle.log_joint(S) + gammaln(S + 1.0).sum())
    chances = np.exp(np.array(scores) - max(scores))
    return chances / chances.sum()


@pytest.mark.parametrize("first", [(0, 0, 0, 0, 0, 0), (1, 0, 1, 1, 0, 1)])
@pytest.mark.parametrize("K", [2, 3])
def test_a_sweep_draws_every_token_by_its_exact_conditional(K: int, first: tuple[int, ...]) -> None:
    """From known labels, token t is drawn given the new labels before it and the old ones after it; so the chance of every
    outcome of a sweep is a product of conditionals, and many chains have to end in each as often as it says."""
    oracle = Oracle(TINY.X, TINY.alpha, np.array([1.2, 0.4, 0.7])[:K], TINY.a, TINY.b)
    X, chains = Counts(oracle.X), 100_000
    labels = np.tile(np.array(first, dtype=np.uint16), (chains, 1))
    state = Labels.of(X.rows, X.shape, K, labels)
    kernels.gibbs(X.rows, oracle.alpha, oracle.beta, state, kernels.seeds(np.random.default_rng(1), chains))
    seen = np.bincount(np.ravel_multi_index(state.labels.T, (K,) * len(first)), minlength=K ** len(first))

    chances: dict[tuple[int, ...], float] = {(): 1.0}
    for t in range(len(first)):
        chances = {
            (*done, k): chance * share
            for done, chance in chances.items()
            for k, share in enumerate(conditional(oracle, (*done, *first[t:]), t))
        }
    expected = chains * np.array([chances[outcome] for outcome in product(range(K), repeat=len(first))])
    often = expected >= 10  # the rare ones together
    seen, expected = (np.append(values[often], values[~often].sum()) for values in (seen, expected))
    assert stats.chisquare(*(values[expected > 0] for values in (seen, expected))).pvalue > 1e-3


@pytest.mark.parametrize("K", [2, 3])
def test_the_kernel_samples_the_posterior(K: int) -> None:
    """Frequencies of all tensors in a long run, and so of everything else, are their exact probabilities."""
    oracle = Oracle(TINY.X, TINY.alpha, np.array([1.2, 0.4, 0.7])[:K], TINY.a, TINY.b)
    X = Counts(oracle.X)
    chains, sweeps = 200, 150
    state, random = labelled(X, K, chains), kernels.seeds(np.random.default_rng(1), chains)
    place = {S[oracle.X > 0].astype(np.int64).tobytes(): q for q, S in enumerate(oracle.tensors)}
    seen = np.zeros(len(place))
    cells = np.split(np.arange(int(X.total)), np.cumsum(X.rows.data.astype(int))[:-1])
    for sweep in range(sweeps):
        kernels.gibbs(X.rows, oracle.alpha, oracle.beta, state, random)
        if sweep >= 10:
            S = np.stack([[(state.labels[:, cell] == k).sum(axis=1) for k in range(K)] for cell in cells])
            for tensor in np.ascontiguousarray(S.transpose(2, 0, 1)).astype(np.int64):
                seen[place[tensor.tobytes()]] += 1
    variation = 0.5 * np.abs(seen / seen.sum() - oracle.posterior).sum()
    noise = 0.5 * np.sqrt(2 / np.pi * oracle.posterior * (1 - oracle.posterior) / seen.sum()).sum()
    assert variation < 1.5 * noise  # of independent draws; sweeps are a little correlated


@pytest.mark.slow
def test_long_gibbs_fits_give_exact_posterior_means_and_deviations() -> None:
    model = um.AllocationModel(
        2,
        a=2.3,
        b=0.8,
        alpha=TINY.alpha,
        beta=TINY.beta,
        method="gibbs",
        sweeps=4000,
        burn_in=20,
        thin=1,
        chains=8,
        random_state=0,
    ).fit(TINY.X)
    fit = model.result_
    np.testing.assert_allclose(fit.topics, TINY.topics, atol=0.01)
    np.testing.assert_allclose(fit.proportions, TINY.proportions, atol=0.01)
    squares = TINY.mean(lambda S: TINY_MODEL.topics(S.sum(axis=0))[1])
    np.testing.assert_allclose(fit.posterior["F_sd"], np.sqrt(squares - TINY.topics**2), atol=0.01)
    np.testing.assert_allclose(fit.posterior["F"] - TINY.alpha[:, None], TINY.mean(lambda S: S.sum(axis=0)), atol=0.04)
    assert model.log_joint_ == pytest.approx(float(TINY.posterior @ TINY.log_joints), abs=0.02)
    assert model.diagnostics_.rhat < 1.01
    assert model.diagnostics_.ess > 2000


def test_averages_ignore_the_names_of_topics() -> None:
    """With one beta for all, E Σ_k l_0k l_1k is what a symmetric posterior can tell."""
    oracle = Oracle(TINY.X, TINY.alpha, np.array([0.8, 0.8]), 1.0, 0.5)
    want = oracle.mean(lambda S: oracle.proportions_given(S)[0] @ oracle.proportions_given(S)[1])
    X = Counts(oracle.X)
    state, random = labelled(X, 2, 500), kernels.seeds(np.random.default_rng(3), 500)
    total = 0.0
    kernels.gibbs(X.rows, oracle.alpha, oracle.beta, state, random, sweeps=10)
    for _ in range(60):
        kernels.gibbs(X.rows, oracle.alpha, oracle.beta, state, random)
        proportions = oracle.beta + state.by_sample[:, :, :2]
        proportions = proportions / proportions.sum(axis=2, keepdims=True)
        total += (proportions[:, 0] * proportions[:, 1]).sum(axis=1).mean() / 60
    assert total == pytest.approx(float(want), abs=0.005)


def test_chains_are_matched_before_they_are_averaged() -> None:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), 5).T
    order = rng.permutation(5)
    places = match_to_first(np.stack([topics, topics[:, order]]))
    np.testing.assert_array_equal(topics[:, order][:, places[1]], topics)


def test_gibbs_recovers_topics_and_reports_its_sweeps() -> None:
    X = um.datasets.correlated_topics("A")
    model = um.AllocationModel(
        6, alpha=0.1, beta=0.2, method="gibbs", init="topic-score", sweeps=20, burn_in=15, thin=4, random_state=0
    ).fit(X)
    assert len(model.samples_) == 2 * 35
    assert model.samples_["kept"].sum() == 2 * 20
    assert model.samples_.groupby("chain")["log_joint"].last().min() > model.samples_["log_joint"].iloc[0]
    similarity = np.sqrt(X.truth.F).T @ np.sqrt(model.result_.topics)
    assert similarity.max(axis=1).min() > 0.8
    again = um.AllocationModel(
        6,
        alpha=0.1,
        beta=0.2,
        method="gibbs",
        init="topic-score",
        sweeps=20,
        burn_in=15,
        thin=4,
        random_state=0,
        n_jobs=1,
    ).fit(X)
    assert again.result_.F.tobytes() == model.result_.F.tobytes()
    assert again.samples_.equals(model.samples_)


# --- diagnostics -----------------------------------------------------------------------------------------------------


def autoregressive(phi: float, chains: int, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = np.empty((chains, n))
    x[:, 0] = rng.normal(0, 1, chains) / np.sqrt(1 - phi**2)
    for t in range(1, n):
        x[:, t] = phi * x[:, t - 1] + rng.normal(0, 1, chains)
    return x


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_effective_size_of_autoregressive_chains_is_known(phi: float) -> None:
    got = diagnose(autoregressive(phi, 4, 5000))
    assert got.ess == pytest.approx(4 * 5000 * (1 - phi) / (1 + phi), rel=0.15)
    assert got.rhat == pytest.approx(1, abs=0.01)


def test_rhat_sees_chains_apart_and_chains_that_drift() -> None:
    apart = autoregressive(0.5, 4, 1000) + 5 * np.arange(4)[:, None]
    assert diagnose(apart).rhat > 2
    assert diagnose(apart).ess < 20
    drift = autoregressive(0.5, 2, 1000) + np.linspace(0, 10, 1000)
    assert diagnose(drift).rhat > 1.5
    assert np.isnan(diagnose(np.zeros((2, 4))).rhat)
    assert diagnose(np.zeros((2, 40))).rhat == 1
    assert diagnose(np.repeat([[0.0], [1.0]], 40, axis=1)).rhat == np.inf


# --- evidence --------------------------------------------------------------------------------------------------------


def evidence_model(oracle: Oracle, **options: Any) -> um.AllocationModel:
    return um.AllocationModel(len(oracle.beta), a=oracle.a, b=oracle.b, alpha=oracle.alpha, beta=oracle.beta, **options)


def test_exact_evidence_is_the_oracles() -> None:
    for oracle in (TINY, Oracle(np.array([[3, 1, 0], [0, 0, 0]]), TINY.alpha, np.array([0.5, 0.1, 2.0]), 1.5, 3.0)):
        evidence = evidence_model(oracle).log_evidence(oracle.X, "exact")
        assert float(evidence) == pytest.approx(oracle.log_evidence, abs=1e-10)
        assert evidence.standard_error == 0


def test_all_compositions_come_once() -> None:
    ways = compositions(4, 3)
    assert len(np.unique(ways, axis=0)) == len(ways) == 15
    assert (ways.sum(axis=1) == 4).all()
    assert compositions(3, 1).tolist() == [[3]]


@pytest.mark.parametrize("particles", [1, 5, 64])
def test_particle_filter_is_unbiased(particles: int) -> None:
    runs = 4000 if particles < 64 else 400
    got = evidence_model(TINY, n_jobs=1).log_evidence(TINY.X, particles=particles, runs=runs, random_state=2)
    assert abs(np.expm1(float(got) - TINY.log_evidence)) < 3 * got.standard_error
    assert got.standard_error < 0.02


def test_particle_filter_resamples_and_does_not_depend_on_threads() -> None:
    X = random_counts(3, 4, seed=2, mean=2)
    X = np.minimum(X, 2)
    oracle = Oracle(X.astype(int), np.full(4, 0.1), np.array([0.2, 0.3]), 1.0, 0.5)
    got = [
        evidence_model(oracle, n_jobs=threads).log_evidence(X, particles=50, runs=40, random_state=0)
        for threads in (1, 2)
    ]
    assert got[0] == got[1]
    assert abs(float(got[0]) - oracle.log_evidence) < 3 * got[0].standard_error
    assert 0 < got[0].standard_error < 0.2


def test_more_counts_than_can_be_enumerated_are_refused() -> None:
    with pytest.raises(ValueError, match=r'would need about 10\^\d+ tensors, more than 1,000,000; use method="smc"'):
        um.AllocationModel(5).log_evidence(random_counts(), "exact")
    with pytest.raises(ValueError, match="would need 2,097,152 tensors"):
        um.AllocationModel(2).log_evidence(np.ones((3, 7)), "exact")


# --- the estimator ---------------------------------------------------------------------------------------------------

SMALL: dict[str, dict[str, Any]] = {
    "bld": {"max_iter": 20},
    "factored-bld": {"max_iter": 20},
    "gibbs": {"sweeps": 6, "burn_in": 2, "thin": 2},
    "icm": {"max_iter": 20},
}


@pytest.mark.parametrize("method", SMALL)
def test_threads_and_array_types_change_nothing(method: str) -> None:
    X = random_counts(30, 25, seed=4)
    options = {**SMALL[method], "method": method, "random_state": 0, "tol": 0}
    one, two = (um.AllocationModel(3, n_jobs=n, **options).fit(data) for n, data in ((1, X), (2, Counts(X).csr)))
    assert one.result_.F.tobytes() == two.result_.F.tobytes()
    assert one.result_.L.tobytes() == two.result_.L.tobytes()
    np.testing.assert_array_equal(one.transform(X), two.transform(X))


@pytest.mark.parametrize("method", ["bld", "factored-bld"])
def test_ten_and_ten_iterations_are_twenty(method: str) -> None:
    X = random_counts(20, 15, seed=4)
    options: dict[str, Any] = {"method": method, "tol": 0, "random_state": 0}
    twenty = um.AllocationModel(3, max_iter=20, **options).fit(X)
    ten = um.AllocationModel(3, max_iter=10, **options).fit(X)
    more = um.AllocationModel(3, max_iter=10, init=ten.result_, **options).fit(X)
    np.testing.assert_allclose(more.result_.F, twenty.result_.F, rtol=1e-12)


def test_topics_keep_their_place_where_beta_or_a_start_tells_them_apart() -> None:
    X = um.datasets.correlated_topics("A")
    L, F = X.truth.L, X.truth.F + 1e-6
    model = um.AllocationModel(6, alpha=0.1, init=(L, F), max_iter=5, tol=0).fit(X)
    similarity = np.sqrt(F / F.sum(axis=0)).T @ np.sqrt(model.result_.topics)
    np.testing.assert_array_equal(similarity.argmax(axis=1), np.arange(6))


def test_transform_is_a_fixed_point_and_treats_every_sample_alone() -> None:
    X = random_counts(20, 15, seed=4)
    X[3] = 0
    model = um.AllocationModel(3, beta=[2.0, 1.0, 1.5], alpha=0.2, max_iter=50, tol=0, random_state=0).fit(X)
    got = model.transform(X)
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(got[3], np.array([2.0, 1.0, 1.5]) / 4.5)
    np.testing.assert_allclose(np.vstack([model.transform(X[[i]]) for i in range(20)]), got, rtol=1e-9)
    gamma = got * (4.5 + X.sum(axis=1))[:, None]
    weights = np.exp(psi(gamma))
    tau = model.result_.posterior["F"]
    F = np.exp(psi(tau) - psi(tau.sum(axis=0)))
    want = model.beta + weights * ((X / (weights @ F.T)) @ F)
    np.testing.assert_allclose(gamma, want, rtol=1e-6)


def test_score_prefers_the_model_of_the_data() -> None:
    X, other = random_counts(30, 25, seed=4), random_counts(30, 25, seed=5)
    fits = [um.AllocationModel(3, max_iter=30, tol=0, random_state=0).fit(data) for data in (X, other)]
    assert fits[0].score(X) > fits[1].score(X)


def test_a_fit_can_be_saved_and_loaded(tmp_path: Any) -> None:
    for method, options in SMALL.items():
        model = um.AllocationModel(3, method=method, tol=0, random_state=0, **options).fit(random_counts())
        model.result_.save(tmp_path / "m.safetensors", resumable=True)
        again = um.load(tmp_path / "m.safetensors")
        for name, array in model.result_.posterior.items():
            np.testing.assert_array_equal(again.posterior[name], array)
        np.testing.assert_array_equal(um.AllocationModel.from_fit(again).allocation_, model.allocation_)


# --- S, the answer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SMALL)
def test_the_allocation_is_that_of_the_answer(method: Any) -> None:
    """Its rows sum to the counts, its sums are those of the posterior, and log p(S) is that of the fit."""
    X = um.Counts(random_counts(9, 10, seed=4))
    model = um.AllocationModel(3, alpha=0.3, method=method, tol=0, random_state=0, **SMALL[method]).fit(X)
    S, fit = model.allocation_, model.result_
    assert S.shape == (X.nnz, 3)
    np.testing.assert_allclose(S.sum(axis=1), X.csr.data, rtol=1e-12)
    by_feature = np.stack([np.bincount(X.csr.indices, S[:, k], X.shape[1]) for k in range(3)], axis=1)
    np.testing.assert_allclose(by_feature, fit.posterior["F"] - 0.3, atol=1e-9)
    by_sample = np.stack([part.sum(axis=0) for part in np.split(S, X.csr.indptr[1:-1])])
    np.testing.assert_allclose(by_sample, fit.posterior["L"] - 1, atol=1e-9)
    np.testing.assert_allclose(fit.responsibilities(X), S / X.csr.data[:, None], rtol=1e-12)
    if method == "gibbs":
        return
    prior = Allocation.for_data(X, 3, 1.0, None, 0.3, 1.0)
    assert model.log_joint_ == pytest.approx(prior.log_joint(by_feature, by_sample, gammaln(S + 1.0).sum()), rel=1e-12)
    assert (S.dtype.kind == "i") == (method == "icm")


@pytest.mark.slow
def test_gibbs_averages_the_exact_means_of_s() -> None:
    options: Any = {"alpha": TINY.alpha, "beta": TINY.beta, "sweeps": 4000, "burn_in": 20, "thin": 1, "chains": 8}
    S = um.AllocationModel(2, a=2.3, b=0.8, method="gibbs", random_state=0, **options).fit(TINY.X).allocation_
    np.testing.assert_allclose(S, TINY.mean(lambda S: S[TINY.X > 0]), atol=0.02)


def test_icm_s_is_the_mode_of_the_enumerated_posterior_from_some_start() -> None:
    options: Any = {"a": 2.3, "b": 0.8, "alpha": TINY.alpha, "beta": TINY.beta, "method": "icm", "init": "random"}
    found = [um.AllocationModel(2, random_state=seed, **options).fit(TINY.X) for seed in range(10)]
    best = max(found, key=lambda model: model.log_joint_)
    np.testing.assert_array_equal(best.allocation_, TINY.tensors[int(np.argmax(TINY.log_joints))][TINY.X > 0])


def test_modes_maximise_the_posterior_given_s_and_say_where_there_are_none() -> None:
    X = um.Counts(random_counts(9, 10, seed=4))
    model = um.AllocationModel(3, a=3.0, b=0.5, alpha=1.5, beta=1.2, tol=0, max_iter=50, random_state=0).fit(X)
    modes, fit, rng = model.modes(), model.result_, np.random.default_rng(0)
    assert all(exist.all() for exist in modes[3:])
    for k in range(3):
        law = stats.dirichlet(fit.posterior["F"][:, k])
        best = law.logpdf(modes.topics[:, k])
        assert all(law.logpdf(rng.dirichlet(1 + 50 * modes.topics[:, k])) < best for _ in range(50))
    law = stats.dirichlet(fit.posterior["L"][0])
    assert law.logpdf(modes.proportions[0]) > law.logpdf(fit.proportions[0])
    law = stats.gamma(3.0 + X.sample_totals, scale=1 / 1.5)
    assert (law.logpdf(modes.sizes) > np.maximum(law.logpdf(0.99 * modes.sizes), law.logpdf(1.01 * modes.sizes))).all()
    sparse = um.AllocationModel(3, alpha=0.05, tol=0, max_iter=50, random_state=0).fit(X)
    assert not sparse.modes().topic_modes.any()
    np.testing.assert_allclose(sparse.modes().topics, sparse.result_.topics, rtol=1e-12)
    sampled = um.AllocationModel(3, method="gibbs", random_state=0, **SMALL["gibbs"]).fit(X)
    assert not any(exist.any() for exist in sampled.modes()[3:])
    np.testing.assert_allclose(sampled.modes().proportions, sampled.result_.proportions)


def test_an_interrupted_run_keeps_what_it_has() -> None:
    def stop(progress: Any) -> str | None:
        return "interrupted" if progress.row["iteration"] == 3 else None

    model = um.AllocationModel(3, method="gibbs", burn_in=10, sweeps=10, callbacks=[stop], random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped early, after 3"):
        model.fit(random_counts())
    assert len(model.samples_) == 6
    assert not model.samples_["kept"].any()
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"a": 0}, "a=0; use a positive number"),
        ({"a": "x"}, "a='x'; use a positive number"),
        ({"b": -1}, "b=-1; use a positive number"),
        ({"alpha": 0}, "alpha=0; it must be positive and finite"),
        ({"alpha": [1, 2]}, r"alpha has shape \(2,\); use a positive number, or one per feature \(15\)"),
        ({"alpha": "x"}, "alpha='x'; use a positive number, or one per feature"),
        ({"beta": [1, 1]}, r"beta has shape \(2,\); use a positive number, or one per topic \(3\)"),
        ({"beta": [1, np.nan, 1]}, "beta=.*; it must be positive and finite"),
        ({"beta": [1, 0.5, 1]}, 'beta=0.5: .*use method="gibbs" or "icm", or beta >= 1'),
        ({"method": "vb"}, "method='vb'; choose one of bld, factored-bld, icm, gibbs"),
        ({"method": "gibbs", "sweeps": 0}, "sweeps=0; use a whole number >= 1"),
        ({"method": "gibbs", "sweeps": 3, "thin": 4}, "thin=4 keeps none of the 3 sweeps"),
        ({"chains": 0}, "chains=0; use a whole number >= 1"),
        ({"init": "x"}, "init='x'; choose one of"),
        ({"init": (np.ones((2, 3)), np.ones((15, 3)))}, r"L has shape \(2, 3\); 12 samples need shape"),
    ],
)
def test_bad_parameters_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        um.AllocationModel(3, **options).fit(random_counts())


def test_bad_questions_about_the_evidence_are_explained() -> None:
    model = um.AllocationModel(2)
    with pytest.raises(ValueError, match="choose one of smc, exact"):
        model.log_evidence(TINY.X, "guess")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="particles=0; use a whole number >= 1"):
        model.log_evidence(TINY.X, particles=0)
    with pytest.raises(ValueError, match=r"runs=1\.5; use a whole number >= 1"):
        model.log_evidence(TINY.X, runs=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["gibbs", "icm"])
def test_fractions_cannot_be_labelled(method: Any) -> None:
    X = random_counts()
    X[4, 7] = 2.5
    with pytest.raises(
        ValueError, match=r'method="\w+" needs whole numbers: the entry at row 4, column 7 is 2.5; use raw counts'
    ):
        um.AllocationModel(3, method=method).fit(X)
    X[4, 7] = 3e9
    with pytest.raises(
        ValueError, match=r"3,000,\d{3},\d{3} counts and 2 topics; it labels up to 2,147,483,647 counts"
    ):
        check_labels(Counts(X), 2, 1, "it")


def test_what_memory_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1000)
    X = random_counts()
    with pytest.raises(ValueError, match=r"S of \d+ nonzeros × 3 topics would need .* MB of memory, .*factored-bld"):
        um.AllocationModel(3).fit(X)
    with pytest.raises(ValueError, match=r"2 chain\(s\) of \d+ labels would need"):
        um.AllocationModel(3, method="gibbs").fit(X)
    monkeypatch.setattr(memory, "available", lambda: 100_000)
    with pytest.raises(
        ValueError, match=r"the averages of 2 chain\(s\) and the trace of 2,000,200 sweeps would need 1\.9 GB"
    ):
        um.AllocationModel(3, method="gibbs", sweeps=2_000_000).fit(X)
    with pytest.raises(
        ValueError, match=r"1,000,000 particles of 15 features × 3 topics would need .* use fewer particles"
    ):
        um.AllocationModel(3).log_evidence(X, particles=10**6)


def test_memory_is_known() -> None:
    assert memory.available() > 2**20
    assert memory.gigabytes(3 * 2**30) == "3.0 GB"


@pytest.mark.parametrize(
    "options", [{}, {"method": "factored-bld"}, {"method": "icm"}, {"method": "gibbs", "sweeps": 4, "thin": 2}]
)
def test_a_fit_of_other_data_is_no_state_to_go_on_from(options: dict[str, Any]) -> None:
    X = random_counts(10, 9, seed=1)
    fit = um.AllocationModel(3, random_state=0, max_iter=3, tol=0, **options).fit(X).result_
    with pytest.raises(ValueError, match=r"L has shape \(10, 3\); 7 samples need shape"):
        um.AllocationModel(3, init=fit, max_iter=3, tol=0, **options).fit(X[:7])
    with pytest.raises(ValueError, match="need shape"):
        um.AllocationModel(2, init=fit, max_iter=3, tol=0, **options).fit(X)
    fewer = X.copy()
    fewer[0] = 1
    started = um.AllocationModel(3, init=fit, max_iter=3, tol=0, random_state=0, **options).fit(fewer).result_
    note = (
        "resumed" if options.get("method") == "factored-bld" else "given"
    )  # P and Q are as good a start for any counts of this shape
    assert started.trace["note"][0] == note
