"""Where fits start, and how split–merge moves leave a poor optimum."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from conftest import awkward_counts, never_rises, problem_of, random_counts, random_start
from scipy.optimize import linear_sum_assignment

import unmix as um
from unmix.counts import Counts
from unmix.solvers import EM, Alternate, Extrapolate, Newton, Problem, Progress, State, Trace, run
from unmix.solvers import init as starts
from unmix.solvers.refine import Refine, merge_cost, split_topic


def anchored(K: int, seed: int = 0, n: int = 80, m: int = 120, anchors: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Expected counts of a topic model in which each topic has `anchors` features of its own, and its topics."""
    rng = np.random.default_rng(seed)
    F = rng.gamma(2, 1, (m, 1)) * rng.dirichlet(np.full(K, 20.0), m)
    F[: K * anchors] = 0
    for k in range(K):
        F[k * anchors : (k + 1) * anchors, k] = rng.uniform(0.5, 1.5, anchors)
    F /= F.sum(axis=0)
    L = rng.dirichlet(np.full(K, 0.4), n) * rng.integers(200, 2000, n)[:, None]
    return L @ F.T, F


def distance(one: np.ndarray, two: np.ndarray) -> float:
    """The largest total variation (× 2) between topics, matched as well as can be."""
    between = np.abs(one[:, :, None] - two[:, None, :]).sum(axis=0)
    return float(between[linear_sum_assignment(between)].max())


# --- Topic-SCORE -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantile", [0.0, 1.0])
@pytest.mark.parametrize("K", [2, 3, 4, 6, 12])
def test_topic_score_recovers_the_topics_of_noise_free_anchored_data(K: int, quantile: float) -> None:
    X, F = anchored(K)
    got = starts.score_topics(Counts(X), K, np.random.default_rng(0), quantile)
    np.testing.assert_allclose(got.sum(axis=0), 1, rtol=1e-12)
    assert distance(got, F) < 1e-6


def test_topic_score_comes_close_on_noisy_data() -> None:
    X, F = anchored(4)
    noisy = np.random.default_rng(1).poisson(X)
    assert distance(starts.score_topics(Counts(noisy), 4, np.random.default_rng(0)), F) < 0.3
    random_topics = random_start(80, 120, 4)[1]
    assert distance(random_topics / random_topics.sum(axis=0), F) > 0.5


def test_topic_score_gives_features_without_counts_no_weight() -> None:
    X, F = anchored(3)
    X[:, [7, 50]] = 0
    got = starts.score_topics(Counts(X), 3, np.random.default_rng(0))
    assert not got[[7, 50]].any()
    F[[7, 50]] = 0
    assert distance(got, F / F.sum(axis=0)) < 1e-6


def test_a_topic_score_start_makes_no_count_impossible() -> None:
    X, _ = anchored(4)
    noisy = np.random.default_rng(1).poisson(X / 20)
    problem = problem_of(noisy, 4)
    L, F = starts.topic_score(problem, np.random.default_rng(0))
    assert (F[noisy.sum(axis=0) > 0] > 0).all()
    assert np.isfinite(problem.loss(L, F))
    np.testing.assert_allclose(L @ F.sum(axis=0), noisy.sum(axis=1), rtol=1e-3)


@pytest.mark.parametrize(
    ("counts", "K", "reason"),
    [
        (random_counts(), 1, r"needs 2 <= topics < 12"),
        (random_counts(5, 30), 6, r"needs 2 <= topics < 5"),
        (random_counts(30, 5), 5, r"needs 2 <= topics < 5"),
        (awkward_counts(20, 17)[:, [0, 1, 13]], 3, r"needs 2 <= topics < 2"),
        (random_counts(40, 8, seed=2), 3, "fewer than 9 distinct features"),
        (np.tile(random_counts(40, 5, seed=2), (1, 4)), 3, "fewer than 9 distinct features"),
    ],
    ids=["one topic", "few samples", "few features", "few used features", "few points", "copied features"],
)
def test_topic_score_says_why_it_cannot_work(counts: np.ndarray, K: int, reason: str) -> None:
    with pytest.raises(starts.ScoreError, match=reason):
        starts.score_topics(Counts(counts), K, np.random.default_rng(0))


def test_the_estimator_falls_back_to_a_random_start_and_says_why() -> None:
    X = random_counts(40, 8, seed=2)
    model = um.TopicModel(3, init="topic-score", random_state=0)
    with pytest.warns(
        UserWarning, match=r"Topic-SCORE cannot start this fit: fewer than 9 distinct.*Starting at random"
    ):
        model.fit(X)
    assert model.result_.trace["note"].iloc[0] == "random"
    assert um.TopicModel(3, init="random", random_state=0).fit(X).result_.trace["note"].iloc[0] == "random"


@pytest.mark.filterwarnings("ignore:Topic-SCORE cannot start")
def test_topic_score_survives_data_of_rank_one() -> None:
    X = np.outer(np.arange(1, 30), np.arange(1, 40))
    fit = um.TopicModel(3, init="topic-score", random_state=0).fit(X).result_
    np.testing.assert_allclose(fit.L @ fit.F.T, X, rtol=1e-3)


def test_the_estimator_can_start_by_topic_score() -> None:
    X, F = anchored(3)
    fit = um.TopicModel(3, init="topic-score", random_state=0).fit(X).result_
    assert fit.trace["note"].iloc[0] == "topic-score"
    assert distance(fit.topics, F) < 0.02


def test_topic_score_depends_on_the_seed_only() -> None:
    problem = problem_of(random_counts(40, 60, seed=3), 4)
    one, two = (starts.topic_score(problem, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


# --- random, contest -------------------------------------------------------------------------------------------------


def test_a_random_start_expects_as_many_counts_as_each_sample_has() -> None:
    X = awkward_counts()
    L, F = starts.random(problem_of(X, 4), np.random.default_rng(0))
    np.testing.assert_allclose(F.sum(axis=0), 1, rtol=1e-13)
    np.testing.assert_allclose(L.sum(axis=1), X.sum(axis=1), rtol=1e-13)
    other, _ = starts.random(problem_of(X, 4), np.random.default_rng(1))
    assert not np.allclose(L, other)


def test_the_contest_picks_the_best_of_its_entrants(monkeypatch: pytest.MonkeyPatch) -> None:
    X, F = anchored(4)
    problem = problem_of(np.random.default_rng(1).poisson(X), 4)
    near = (starts.known_factors(problem, F) + 1e-3, F + 1e-6)
    bad = (near[0][::-1], np.ones_like(F))  # all topics alike, for the wrong samples

    monkeypatch.setattr(starts, "topic_score", lambda problem, rng: near)
    monkeypatch.setattr(starts, "random", lambda problem, rng: bad)
    (L, F_won), name = starts.Contest()(problem, np.random.default_rng(0))
    assert re.fullmatch(r"topic-score: best of 5, \d+ ahead", name)
    assert problem.loss(L, F_won) <= problem.loss(*near)

    monkeypatch.setattr(starts, "topic_score", lambda problem, rng: bad)
    pairs = iter([bad, bad, near, bad])
    monkeypatch.setattr(starts, "random", lambda problem, rng: next(pairs))
    _, name = starts.Contest()(problem, np.random.default_rng(0))
    assert name.startswith("random 3: best of 5")


def test_the_contest_does_without_topic_score_where_it_cannot_work() -> None:
    problem = problem_of(random_counts(40, 8, seed=2), 3)
    (L, F), name = starts.Contest()(problem, np.random.default_rng(0))
    assert name.startswith("random")
    assert np.isfinite(problem.loss(L, F))


def test_the_winner_of_the_contest_is_named_in_the_trace() -> None:
    X, _ = anchored(4)
    note = um.TopicModel(4, random_state=0).fit(X).result_.trace["note"].iloc[0]
    assert re.fullmatch(r"(topic-score|random \d): best of 5, \d+ ahead", note)


def test_the_contest_wins_against_single_random_starts_more_often_than_it_loses() -> None:
    """With more topics than there are, where optima abound. It is a matter of odds: of a pair of fits either may be better."""
    wins = losses = 0
    for seed in (0, 1):
        X = um.datasets.correlated_topics("A", seed=seed)
        for K in (7, 8, 9, 10):
            auto, single = (
                np.array([um.PoissonNMF(K, init=init, random_state=s, tol=1e-3).fit(X).result_.loglik for s in seeds])
                for init, seeds in (("auto", range(6)), ("random", range(100, 110)))
            )
            wins += int((auto[:, None] > single + 1).sum())
            losses += int((auto[:, None] < single - 1).sum())
    assert wins + losses > 400  # of 480: the starts matter
    assert wins > 1.3 * losses


# --- refine ----------------------------------------------------------------------------------------------------------


def separate_topics(K: int = 4, samples: int = 20, features: int = 12, noise: float = 0.0) -> tuple[np.ndarray, ...]:
    """Counts of K topics that share neither a feature nor a sample, but for the noise, and the truth: X, L, F."""
    rng = np.random.default_rng(0)
    L, F = np.full((K * samples, K), noise), np.full((K * features, K), noise)
    for k in range(K):
        L[k * samples : (k + 1) * samples, k] = 1
        F[k * features : (k + 1) * features, k] = rng.gamma(2, 1, features) + 0.2
    L *= rng.integers(100, 300, (len(L), 1))
    F /= F.sum(axis=0)
    return rng.poisson(L @ F.T).astype(float), L, F


def poor_start(L: np.ndarray, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The truth with topics 0 and 1 in one column, and topic 2 divided between two."""
    rng = np.random.default_rng(1)
    L2, F2 = L.copy(), F.copy()
    L2[:, 0] = L[:, 0] + L[:, 1]
    F2[:, 0] = F[:, :2] @ (L[:, :2].sum(axis=0) / L[:, :2].sum())
    part = rng.uniform(0.3, 0.7, len(L))
    L2[:, 1], L2[:, 2] = L[:, 2] * part, L[:, 2] * (1 - part)
    F2[:, [1, 2]] = F[:, [2]] * rng.uniform(0.7, 1.3, (len(F), 2))
    return L2, F2


@pytest.mark.parametrize("solver", ["em", "scd", "newton"])
def test_refine_escapes_a_planted_poor_optimum(solver: str) -> None:
    X, L, F = separate_topics()
    truth = um.loglik(X, L, F)
    options = {"solver": solver, "init": poor_start(L, F), "max_iter": 3000, "random_state": 0}
    stuck = um.PoissonNMF(4, **options).fit(X).result_
    assert stuck.status == "converged"
    assert stuck.loglik < truth - 1000
    refined = um.PoissonNMF(4, refine=3, **options).fit(X).result_
    assert refined.status == "converged"
    assert refined.loglik > truth
    assert distance(refined.topics, F) < 0.2
    moves = refined.trace[refined.trace["stage"] == "refine"]
    assert moves["note"].iloc[0].startswith("merge 2+3, split 1: kept")


@pytest.mark.parametrize("seed", range(4))
def test_refine_never_lowers_the_log_likelihood(seed: int) -> None:
    X = random_counts(30, 40, K=6, seed=seed)
    options = {"init": "random", "max_iter": 2000, "tol": 1e-7, "random_state": seed}
    without = um.PoissonNMF(6, **options).fit(X).result_
    refined = um.PoissonNMF(6, refine=5, **options).fit(X).result_
    assert refined.loglik >= without.loglik
    assert never_rises(-refined.trace["objective"].to_numpy())
    assert um.loglik(X, refined.L, refined.F) == pytest.approx(refined.loglik, rel=1e-9)


def test_refine_records_every_move_in_the_trace() -> None:
    X, L, F = separate_topics()
    trace = um.PoissonNMF(4, init=poor_start(L, F), max_iter=3000, refine=3, random_state=0).fit(X).result_.trace
    moves = trace[trace["stage"] == "refine"]
    assert len(moves) == 3
    for note in moves["note"]:
        assert re.fullmatch(r"merge \d\+\d, split \d: (kept|no) \(estimated [+-]\d+\)", note)
    rose = np.diff(trace["loglik"])[moves.index - 1] > 0
    np.testing.assert_array_equal(rose, moves["note"].str.contains("kept"))
    assert (trace["stage"].iloc[moves.index[-1] + 1 :] == "refit").all()


def test_refine_maximises_the_posterior_under_a_prior() -> None:
    X, L, F = separate_topics()
    start = tuple(factor + 1e-6 for factor in poor_start(L, F))
    options = {"init": start, "prior": um.Gamma(1.1, 1.0), "max_iter": 3000, "random_state": 0}
    stuck = um.PoissonNMF(4, **options).fit(X).result_
    refined = um.PoissonNMF(4, refine=3, **options).fit(X).result_
    assert never_rises(-refined.trace["objective"].to_numpy())
    assert refined.loglik > stuck.loglik + 1000


def test_refine_copes_with_a_topic_that_explains_nothing() -> None:
    X, L, F = separate_topics()
    L, F = poor_start(L, F)
    L, F = np.column_stack([L, np.full(len(L), 1e-9)]), np.column_stack([F, np.ones(len(F)) / len(F)])
    problem = problem_of(X, 5)
    solver = Alternate(EM())
    state = solver.start(problem, L, F)
    split = split_topic(problem, state, 4, np.random.default_rng(0))
    assert split.gain == pytest.approx(0, abs=1e-3)
    assert np.isfinite(split.parts).all()
    assert np.isfinite(split.columns).all()
    moves = Refine(solver)
    end, _ = run(problem, moves, moves.start(state, np.random.default_rng(0)), max_iter=2, tol=0)
    assert end.loss < state.loss - 1000


@pytest.mark.parametrize("K", [1, 2])
def test_refine_does_nothing_with_fewer_than_three_topics(K: int) -> None:
    fits = [um.TopicModel(K, random_state=0, refine=moves).fit(random_counts()).result_ for moves in (0, 5)]
    assert fits[0].L.tobytes() == fits[1].L.tobytes()
    assert "refine" not in set(fits[1].trace["stage"])


def test_refine_is_final_once_every_move_has_failed() -> None:
    X, L, F = separate_topics(3)
    problem, solver = problem_of(X, 3), Alternate(Newton())
    state, _ = run(problem, solver, solver.start(problem, L, F), max_iter=300, tol=1e-9)
    moves = Refine(solver)
    end, status = run(
        problem, moves, moves.start(state, np.random.default_rng(0)), trace := Trace(), max_iter=50, tol=0
    )
    assert (status, len(trace.rows)) == ("converged", 3)
    assert end.best is state


def test_a_callback_can_end_the_refinement() -> None:
    X, L, F = separate_topics()

    def after_a_move(progress: Progress) -> str | None:
        return "converged" if progress.row["stage"] == "refine" else None

    model = um.PoissonNMF(4, init=poor_start(L, F), max_iter=3000, refine=5, random_state=0, callbacks=[after_a_move])
    trace = model.fit(X).result_.trace
    assert (trace["stage"] == "refine").sum() == 1
    assert trace["stage"].iloc[-1] == "refine"


def fitted(X: Any, K: int) -> tuple[Problem, State]:
    problem = problem_of(X, K)
    solver = Extrapolate(Newton())
    first = solver.start(problem, *starts.random(problem, np.random.default_rng(0)))
    state, _ = run(problem, solver, first, Trace(), max_iter=200, tol=1e-8)
    return problem, state


SPLITTABLE = {
    "separate topics": (separate_topics()[0], 3),
    "random": (random_counts(30, 40, K=6, seed=3), 4),
    "correlated": (um.datasets.correlated_topics("A", seed=0), 6),
}


@pytest.mark.parametrize("data", SPLITTABLE)
def test_the_estimated_gain_of_a_split_is_a_lower_bound(data: str) -> None:
    X, K = SPLITTABLE[data]
    problem, state = fitted(X, K)
    one_more = problem_of(X, K + 1)
    scales = state.F.sum(axis=0)
    L, F = state.L * scales, state.F / scales
    for c in range(K):
        split = split_topic(problem, state, c, np.random.default_rng(c))
        np.testing.assert_allclose(split.parts.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(split.columns.sum(axis=0), 1, rtol=1e-12)
        rest = [k for k in range(K) if k != c]
        L_split = np.column_stack([L[:, rest], L[:, [c]] * split.parts])
        F_split = np.column_stack([F[:, rest], split.columns])
        gained = state.loss - one_more.loss(L_split, F_split)
        assert gained >= split.gain - 1e-6 * abs(state.loss)


def test_splitting_two_topics_in_one_column_gains_most() -> None:
    X, L, F = separate_topics()
    problem = problem_of(X, 4)
    solver = Alternate(Newton())
    state, _ = run(problem, solver, solver.start(problem, *poor_start(L, F)), Trace(), max_iter=200, tol=1e-8)
    gains = [split_topic(problem, state, c, np.random.default_rng(c)).gain for c in range(4)]
    assert np.argmax(gains) == 0
    assert gains[0] > 10 * max(gains[1:])


def test_merge_cost_is_what_one_topic_in_place_of_two_loses() -> None:
    X = random_counts(30, 40, K=4, seed=3)
    problem, state = fitted(X, 4)
    fewer = problem_of(X, 3)
    weights = state.L.sum(axis=0) * state.F.sum(axis=0)
    topics = state.F / state.F.sum(axis=0)
    loads = state.L * state.F.sum(axis=0)
    for a, b in ((0, 1), (1, 3)):
        rest = [k for k in range(4) if k not in (a, b)]
        merged = (weights[a] * topics[:, a] + weights[b] * topics[:, b]) / (weights[a] + weights[b])
        want = fewer.loss(
            np.column_stack([loads[:, rest], loads[:, a] + loads[:, b]]), np.column_stack([topics[:, rest], merged])
        )
        assert merge_cost(problem, state, a, b) == pytest.approx(want - state.loss, rel=1e-9)


def test_merging_the_halves_of_a_divided_topic_costs_least() -> None:
    X, L, F = separate_topics()
    problem = problem_of(X, 4)
    solver = Alternate(Newton())
    state, _ = run(problem, solver, solver.start(problem, *poor_start(L, F)), Trace(), max_iter=200, tol=1e-8)
    costs = {(a, b): merge_cost(problem, state, a, b) for a in range(4) for b in range(a + 1, 4)}
    assert min(costs, key=lambda pair: costs[pair]) == (1, 2)
