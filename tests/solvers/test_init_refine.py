"""Where fits start, how a search puts starts together, and how moves leave a poor optimum."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from conftest import awkward_counts, never_rises, problem_of, random_counts, random_start
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import unmix as um
from unmix.counts.counts import Counts
from unmix.models.poisson import poisson_to_topics
from unmix.solvers import EM, SCD, Alternate, Extrapolate, Newton, Problem, Progress, State, Trace, run
from unmix.solvers import init as starts
from unmix.solvers import search as recombination
from unmix.solvers import search as searching
from unmix.solvers.search import Refine, Search, cheapest, in_counts, merge_costs, merged, recombine


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


def test_the_corners_are_those_of_the_best_simplex_and_not_the_centres_chosen_first() -> None:
    """Far from two corners of a flat triangle lies a point inside, which comes before the third corner."""
    corners, inside = np.array([[0, 0], [10, 0], [5, 2.0]]), np.array([9.5, 0.05])
    rng = np.random.default_rng(0)
    middle = rng.dirichlet(np.full(3, 8.0), 5) @ corners
    R = np.concatenate([np.tile(np.vstack([corners, inside, middle]), (40, 1))])
    R += rng.normal(scale=1e-3, size=R.shape)
    assert ((inside - corners[:2]) ** 2).sum(axis=1).mean() > ((corners[2] - corners[:2]) ** 2).sum(axis=1).mean()
    found = starts._hunt_vertices(R, 3, rng)
    gaps = np.linalg.norm(found[:, None] - corners[None], axis=2)
    assert gaps[linear_sum_assignment(gaps)].max() < 0.01


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


def test_a_topic_score_start_fits_the_loadings_as_well_as_ten_published_sweeps() -> None:
    """Appendix A.5 has ten updates of L by coordinate descent; from the same start, the Newton steps here go at least as far."""
    X, _ = anchored(4)
    for seed in range(3):
        problem = problem_of(np.random.default_rng(seed).poisson(X / 20), 4)
        L, F = starts.topic_score(problem, np.random.default_rng(0))
        even = problem.X.sample_totals[:, None] / (4 * F.sum(axis=0))
        printed, _ = SCD(sweeps=10, rest=False)(problem.left, F, even)
        once, _ = SCD(sweeps=1, rest=False)(problem.left, F, even)
        assert problem.loss(L, F) < problem.loss(printed, F) < problem.loss(once, F) - 1


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


# --- random, annealed -------------------------------------------------------------------------------------------------


def test_a_random_start_expects_as_many_counts_as_each_sample_has() -> None:
    X = awkward_counts()
    L, F = starts.random(problem_of(X, 4), np.random.default_rng(0))
    np.testing.assert_allclose(F.sum(axis=0), 1, rtol=1e-13)
    np.testing.assert_allclose(L.sum(axis=1), X.sum(axis=1), rtol=1e-13)
    other, _ = starts.random(problem_of(X, 4), np.random.default_rng(1))
    assert not np.allclose(L, other)


def test_annealed_em_without_annealing_is_em() -> None:
    problem = problem_of(random_counts(30, 40, K=4, seed=1), 4)
    L, F = starts.annealed(problem, np.random.default_rng(0), first=1.0, passes=7)
    rng = np.random.default_rng(0)
    topics = rng.gamma(100, 0.01, (40, 4))
    loads = rng.gamma(100, 0.01, (30, 4)) * problem.X.sample_totals[:, None]
    for _ in range(7):
        topics /= topics.sum(axis=0)
        ratios = problem.X.csr.toarray() / (loads @ topics.T)
        loads, topics = loads * (ratios @ topics), topics * (ratios.T @ loads)
    np.testing.assert_allclose(L, loads, rtol=1e-9)
    np.testing.assert_allclose(F, topics / topics.sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("start", [starts.annealed, starts.random_after_em])
def test_a_start_makes_no_count_impossible_and_depends_on_its_seed_only(start: Any) -> None:
    problem = problem_of(awkward_counts(), 4)
    one, two = (start(problem, np.random.default_rng(3)) for _ in range(2))
    assert np.isfinite(problem.loss(*one))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


# --- recombination ----------------------------------------------------------------------------------------------------


def fitted(X: Any, K: int, seed: int = 0) -> tuple[Problem, State]:
    problem = problem_of(X, K)
    solver = Extrapolate(Newton())
    first = solver.start(problem, *starts.random(problem, np.random.default_rng(seed)))
    state, _ = run(problem, solver, first, Trace(), max_iter=200, tol=1e-8)
    return problem, state


def test_a_merge_costs_what_one_topic_in_place_of_two_loses() -> None:
    X = random_counts(30, 40, K=5, seed=3)
    problem, state = fitted(X, 5)
    L, F = in_counts(state.L, state.F)
    np.testing.assert_allclose(L @ F.T, state.L @ state.F.T, rtol=1e-12)
    costs = merge_costs(problem, L, F)
    fewer = problem_of(X, 4)
    for a in range(5):
        assert np.isinf(costs[a, : a + 1]).all()
        for b in range(a + 1, 5):
            want = fewer.loss(*merged(L, F, [(a, b)])) - problem.loss(L, F)
            assert costs[a, b] == pytest.approx(want, rel=1e-4, abs=1e-2)


def test_merge_costs_of_some_nonzeros_estimate_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    X = um.datasets.correlated_topics("A", seed=0)
    problem, state = fitted(X, 6)
    L, F = in_counts(state.L, state.F)
    exact = merge_costs(problem, L, F)
    monkeypatch.setattr(recombination, "LOOKED_AT", problem.X.nnz // 4)
    known = np.isfinite(exact)
    assert np.corrcoef(merge_costs(problem, L, F)[known], exact[known])[0, 1] > 0.9


def test_with_many_topics_only_those_alike_are_candidates_for_a_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recombination, "NEIGHBOURS", 2)
    X, L, F = separate_topics(6)
    L, F = np.hstack([L, L]) / 2, np.hstack([F, F])  # every topic twice
    costs = merge_costs(problem_of(X, 12), L, F + 1e-9)
    assert np.isfinite(costs).sum() < 12 * 11 / 2
    assert sorted(cheapest(costs, 6)) == [(k, k + 6) for k in range(6)]
    assert cheapest(costs, 2) == sorted(cheapest(costs, 2), key=lambda pair: costs[pair])


def test_merging_keeps_the_expected_counts_of_every_sample() -> None:
    rng = np.random.default_rng(0)
    L, F = rng.gamma(1, 1, (8, 5)), rng.dirichlet(np.ones(7), 5).T
    fewer = merged(L, F, [(3, 0), (1, 4)])
    assert (fewer[0].shape, fewer[1].shape) == ((8, 3), (7, 3))
    np.testing.assert_allclose(fewer[0].sum(axis=1), L.sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(fewer[0].sum(axis=0) @ fewer[1].T, L.sum(axis=0) @ F.T, rtol=1e-13)


def test_a_child_has_what_each_of_its_parents_lacks() -> None:
    """One parent has topics 0 and 1 in one column and 2 twice, the other 2 and 3 in one and 0 twice."""
    X, L, F = separate_topics()
    problem = problem_of(X, 4)
    solver, order = Extrapolate(Newton()), [2, 3, 0, 1]
    parents = []
    for there, back in (([0, 1, 2, 3], [0, 1, 2, 3]), (order, order)):
        start = poor_start(L[:, there], F[:, there])
        state, _ = run(problem, solver, solver.start(problem, *start), max_iter=200, tol=1e-8)
        parents.append((state.L[:, back], state.F[:, back]))
    least = min(problem.loss(*pair) for pair in parents)
    child = recombine(problem, parents)
    assert child[0].shape == (80, 4)
    assert problem.loss(*child) < least - 1000
    end, _ = run(problem, solver, solver.start(problem, *child), max_iter=200, tol=1e-9)
    assert end.loss < problem.loss(L, F)
    assert distance(poisson_to_topics(end.L, end.F)[1], F) < 0.2


# --- search -----------------------------------------------------------------------------------------------------------


SMALL = Search(starts=4, nonzeros=400, samples=10)


def searched(problem: Problem, method: Search, seed: int = 0) -> list[Any]:
    states = [method.start(problem, np.random.default_rng(seed))]
    while not states[-1].final:
        states.append(method.step(problem, states[-1]))
    return states


def test_a_search_is_a_tree_of_starts_on_parts_of_the_samples() -> None:
    problem = problem_of(random_counts(60, 40, K=5, seed=1), 5)
    states = searched(problem, SMALL)
    assert len(states) == SMALL.steps + 1 == 8
    heights = [[node.height for node in state.nodes] for state in states]
    assert heights == [[], [0], [0, 0], [1], [1, 0], [1, 0, 0], [1, 1], []]
    size = len(states[1].nodes[0].L)
    assert 10 <= size < 30
    parts = [(node.first, node.last) for node in (states[2].nodes + states[5].nodes) if node.height == 0]
    assert [last - first for first, last in parts] == [size] * 4
    assert len({first for first, _ in parts}) == 4
    assert len(states[3].nodes[0].L) == 2 * size
    assert re.fullmatch(r"start 1 of 4, annealed: \d+ samples", states[1].note)
    assert re.fullmatch(r"starts 3 to 4 combined: \d+ samples, [+-][\d,]+", states[6].note)
    assert re.fullmatch(r"starts 1 to 4 combined: 60 samples, [+-][\d,]+", states[7].note)


def test_samples_of_starts_overlap_only_as_far_as_they_must() -> None:
    problem = problem_of(random_counts(60, 40, K=5, seed=1), 3)
    states = searched(problem, Search(starts=4, nonzeros=1, samples=30))
    parts = sorted({(node.first, node.last) for state in states for node in state.nodes if node.height == 0})
    assert parts == [(0, 30), (10, 40), (20, 50), (30, 60)]
    alone = searched(problem, Search(starts=2))
    assert {(node.first, node.last) for state in alone for node in state.nodes} == {(0, 60)}


@pytest.mark.parametrize("prior", [None, um.Gamma(1.3, 0.7)], ids=["likelihood", "posterior"])
def test_until_its_end_a_search_holds_what_is_as_good_as_one_topic(prior: um.Gamma | None) -> None:
    X = awkward_counts(30, 25)
    problem = Problem(Counts(X), 3, prior)
    *before, last = searched(problem, SMALL)
    for state in [*before, last]:
        assert problem.loss(state.L, state.F) == pytest.approx(state.loss, rel=1e-12)
    for state in before:
        np.testing.assert_allclose(
            state.L @ state.F.T, np.outer(X.sum(axis=1), X.sum(axis=0)) / X.sum(), rtol=1e-9, atol=1e-4
        )
    assert last.loss < before[-1].loss


def test_fewer_starts_where_all_look_at_all_samples_or_topics_are_few() -> None:
    few, many = random_counts(30, 8), np.ones((6000, 50))
    starts = [Search.of(problem_of(X, K)).starts for X, K in ((few, 6), (many, 4), (many, 6))]
    assert starts == [4, 4, 8]


def test_a_search_looks_at_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    X = Counts(random_counts(200, 40, K=5, seed=1))
    monkeypatch.setattr(searching, "LARGEST", X.nnz // 4)
    looked_at = []
    take = Counts.take
    monkeypatch.setattr(Counts, "take", lambda self, rows: looked_at.append(len(rows)) or take(self, rows))
    *_, before, last = searched(Problem(X, 4), Search(starts=2, nonzeros=400, samples=10))
    assert max(looked_at) == 50
    assert (before.L.shape, last.L.shape) == ((200, 4), (200, 4))
    assert "50 samples" in last.note


def test_what_the_samples_of_a_start_lack_is_not_impossible() -> None:
    X = np.diag(np.arange(1, 41))  # every feature in one sample alone
    fit = um.TopicModel(3, random_state=0).fit(X).result_
    assert np.isfinite(fit.loglik)
    problem = problem_of(X, 3)
    *_, last = searched(problem, Search(starts=2, nonzeros=10, samples=10))
    assert np.isfinite(last.loss)


def test_a_search_is_told_in_the_trace_and_can_be_stopped_and_gone_on_with() -> None:
    X, _ = anchored(4)
    X = np.random.default_rng(0).poisson(X / 10)
    whole = um.TopicModel(4, random_state=0).fit(X).result_
    told = whole.trace[whole.trace["stage"] == "search"]
    assert len(told) == Search.of(problem_of(X, 4)).steps == 7
    assert whole.trace["note"].iloc[0] == "search: 4 starts"
    assert never_rises(-whole.trace["objective"].to_numpy())
    for steps in range(1, len(told) + 1):

        def enough(progress: Progress, steps: int = steps) -> str | None:
            return "interrupted" if len(progress.trace.rows) > steps else None

        with pytest.warns(ConvergenceWarning, match="stopped early"):
            stopped = um.TopicModel(4, random_state=0, callbacks=[enough]).fit(X).result_
        assert stopped.trace["stage"].iloc[-1] == "search"
        resumed = um.TopicModel(4, random_state=0).resume(X, stopped).result_
        assert resumed.L.tobytes() == whole.L.tobytes()
        assert resumed.F.tobytes() == whole.F.tobytes()


@pytest.mark.slow
def test_a_search_beats_single_random_starts_far_more_often_than_it_loses() -> None:
    """With more topics than there are, where optima abound."""
    wins = losses = 0
    for seed in (0, 1):
        X = um.datasets.correlated_topics("A", seed=seed)
        for K in (7, 9):
            auto, single = (
                np.array([um.PoissonNMF(K, init=init, random_state=s).fit(X).result_.loglik for s in seeds])
                for init, seeds in (("auto", range(6)), ("random", range(100, 110)))
            )
            wins += int((auto[:, None] > single + 1).sum())
            losses += int((auto[:, None] < single - 1).sum())
    assert wins + losses > 200  # of 240: the starts matter
    assert wins > 4 * losses


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
    assert moves["note"].iloc[0].startswith("recombined with another fit: kept, +")


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
        assert re.fullmatch(r"recombined with another fit: (kept, \+[\d,]+|no)", note)
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
    moves = Refine(solver, lambda L, F: solver.start(problem, L, F))
    end, _ = run(problem, moves, moves.start(state, np.random.default_rng(0)), max_iter=2, tol=0)
    assert end.loss < state.loss - 1000


def test_refine_does_nothing_with_one_topic() -> None:
    fits = [um.TopicModel(1, random_state=0, refine=moves).fit(random_counts()).result_ for moves in (0, 5)]
    assert fits[0].L.tobytes() == fits[1].L.tobytes()
    assert "refine" not in set(fits[1].trace["stage"])


def test_a_move_that_does_not_help_is_taken_back() -> None:
    X, L, F = separate_topics(3)
    problem, solver = problem_of(X, 3), Alternate(Newton())
    state, _ = run(problem, solver, solver.start(problem, L, F), max_iter=300, tol=1e-12)
    moves = Refine(solver, lambda L, F: solver.start(problem, L, F))
    end, _ = run(problem, moves, moves.start(state, np.random.default_rng(0)), trace := Trace(), max_iter=3, tol=0)
    assert [row["note"] for row in trace.rows] == ["recombined with another fit: no"] * 3
    assert end.best is state
    assert not end.kept


def test_a_callback_can_end_the_refinement() -> None:
    X, L, F = separate_topics()

    def after_a_move(progress: Progress) -> str | None:
        return "converged" if progress.row["stage"] == "refine" else None

    model = um.PoissonNMF(4, init=poor_start(L, F), max_iter=3000, refine=5, random_state=0, callbacks=[after_a_move])
    trace = model.fit(X).result_.trace
    assert (trace["stage"] == "refine").sum() == 1
    assert trace["stage"].iloc[-1] == "refine"


BAYESIAN = {
    "LDA": um.LDA(4, alpha=0.1, eta=0.1),
    "LDA, alpha learned": um.LDA(4, alpha="auto", eta=0.1),
    "GammaPoisson": um.GammaPoisson(4),
    "BayesianPoissonNMF": um.BayesianPoissonNMF(4),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", BAYESIAN)
def test_refine_raises_the_bound_of_bayesian_models_that_are_stuck(name: str) -> None:
    X, L, F = separate_topics()
    start = tuple(factor + 1e-6 for factor in poor_start(L, F))
    model = clone(BAYESIAN[name]).set_params(init=start, random_state=0, tol=1e-4)
    stuck = model.fit(X).result_
    refined = clone(model).set_params(refine=3).fit(X).result_
    assert never_rises(-refined.trace["objective"].to_numpy())
    assert refined.trace["objective"].iloc[-1] > stuck.trace["objective"].iloc[-1] + 500
    assert distance(refined.topics, F) < 0.3
    moves = refined.trace[refined.trace["stage"] == "refine"]
    assert len(moves) == 3
    assert "kept" in moves["note"].iloc[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["LDA", "BayesianPoissonNMF"])
def test_a_refined_bayesian_fit_can_be_stopped_between_moves_and_gone_on_with(name: str) -> None:
    X = random_counts(30, 40, K=6, seed=3)
    model = clone(BAYESIAN[name]).set_params(refine=3, random_state=1, tol=1e-3)
    whole = clone(model).fit(X).result_
    moves = whole.trace.index[whole.trace["stage"] == "refine"]

    def enough(progress: Progress) -> str | None:
        return "interrupted" if len(progress.trace.rows) > moves[1] else None

    left = clone(model).set_params(callbacks=[enough]).fit(X).result_
    assert left.trace["stage"].iloc[-1] == "refine"
    resumed = clone(model).resume(X, left).result_
    assert resumed.L.tobytes() == whole.L.tobytes()
    assert resumed.F.tobytes() == whole.F.tobytes()


def test_topics_are_merged_also_where_no_cost_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    X, (L, F) = random_counts(20, 15), random_start(20, 15, 4)
    monkeypatch.setattr(recombination, "merge_costs", lambda problem, L, F: np.full((L.shape[1],) * 2, np.nan))
    assert recombination.merge_down(Problem(Counts(X), 2), L, F).L.shape == (20, 2)


def test_moves_are_in_the_summary_of_a_fit() -> None:
    from unmix.analysis.advice import figures

    fit = (
        um.TopicModel(5, refine=2, random_state=1, init="random", tol=1e-6, max_iter=40)
        .fit(random_counts(40, 30))
        .result_
    )
    assert figures(fit)["moves to leave a poor optimum"].startswith("2 tried, ")
