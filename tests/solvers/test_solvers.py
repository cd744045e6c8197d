"""Solvers × problems: no solver makes a fit worse, all agree where they end, and every way to stop or to go on works."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import awkward_counts, never_rises, problem_of, random_counts, random_start, wild_start
from sklearn.exceptions import ConvergenceWarning

import unmix as um
from unmix.solvers import (
    CCD,
    EM,
    PLSA,
    PLSI,
    SCD,
    SN,
    Alternate,
    Checkpoint,
    Extrapolate,
    Joint,
    Newton,
    Normalized,
    Problem,
    Progress,
    Side,
    Solver,
    State,
    StopAfter,
    StopAtKKT,
    Trace,
    run,
    search,
)
from unmix.solvers import init as starts

SOLVERS: dict[str, Any] = {
    "em": EM(),
    "em 4": EM(steps=4),
    "joint": Joint(),
    "plsa": PLSA(),
    "plsi": PLSI(),
    "plsi as printed": PLSI(new_weights=False),
    "normalized": Normalized(),
    "sn": SN(),
    "newton": Newton(),
    "scd": SCD(),
    "ccd": CCD(),
}
NAMED = ["em", "joint", "plsa", "plsi", "normalized", "sn", "newton", "scd", "ccd"]  # those a user can name

PROBLEMS: dict[str, tuple[np.ndarray, int]] = {
    "random": (random_counts(), 3),
    "larger": (random_counts(30, 40, K=4, seed=5), 4),
    "awkward": (awkward_counts(), 4),
    "tall": (random_counts(60, 8, seed=2), 4),
    "wide": (random_counts(7, 50, seed=3), 5),
    "one topic": (random_counts(), 1),
    "more topics than rank": (random_counts(4, 5, seed=6), 8),
    "fractions": (random_counts(seed=7) / 7, 3),
}


def plain(name: str) -> Solver:
    solver = SOLVERS[name]
    return solver if isinstance(solver, Solver) else Alternate(solver)


def path(problem: Problem, solver: Solver, L: np.ndarray, F: np.ndarray, iterations: int) -> tuple[State, list[float]]:
    """The state after so many iterations, and the loss before the first and after each of them."""
    state = solver.start(problem, L, F)
    losses = [state.loss]
    for _ in range(iterations):
        state = solver.step(problem, state)
        losses.append(state.loss)
    return state, losses


def prefitted(problem: Problem, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    state, _ = path(problem, Alternate(EM()), *random_start(*problem.X.shape, problem.n_topics, seed), 20)
    return state.L, state.F


# --- never worse -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [random_start, wild_start], ids=["random start", "wild start"])
@pytest.mark.parametrize("problem_name", PROBLEMS)
@pytest.mark.parametrize("name", SOLVERS)
def test_the_loss_never_rises(name: str, problem_name: str, start: Callable) -> None:
    X, K = PROBLEMS[problem_name]
    problem = problem_of(X, K)
    state, losses = path(problem, plain(name), *start(*X.shape, K), 60)
    assert np.isfinite(losses).all()
    assert never_rises(losses)
    assert losses[-1] < losses[0]
    assert state.loss == pytest.approx(problem.loss(state.L, state.F), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(2, 10))
@pytest.mark.parametrize("name", ["em", "joint", "plsi", "normalized", "sn", "newton"])
def test_the_loss_never_rises_from_other_wild_starts(name: str, seed: int) -> None:
    X = awkward_counts(seed=seed)
    assert never_rises(path(problem_of(X, 5), plain(name), *wild_start(*X.shape, 5, seed), 30)[1])


@pytest.mark.parametrize("start", [random_start, wild_start], ids=["random start", "wild start"])
@pytest.mark.parametrize("problem_name", PROBLEMS)
@pytest.mark.parametrize("name", SOLVERS)
def test_extrapolated_best_so_far_never_rises(name: str, problem_name: str, start: Callable) -> None:
    X, K = PROBLEMS[problem_name]
    problem = problem_of(X, K)
    state, losses = path(problem, Extrapolate(SOLVERS[name]), *start(*X.shape, K), 60)
    assert np.isfinite(losses).all()
    assert never_rises(losses)
    assert state.loss == pytest.approx(problem.loss(state.L, state.F), rel=1e-9, abs=1e-9)


# tall and wide ones are left out: so small problems have many optima, and which one a fit finds is a matter of luck
@pytest.mark.parametrize("problem_name", [name for name in PROBLEMS if name not in ("tall", "wide")])
@pytest.mark.parametrize("name", NAMED)
def test_extrapolated_fit_is_no_worse(name: str, problem_name: str) -> None:
    X, K = PROBLEMS[problem_name]
    problem = problem_of(X, K)
    differences = []
    for seed in range(1, 4):
        L, F = prefitted(problem, seed)
        without, _ = path(problem, plain(name), L, F, 200)
        with_it, _ = path(problem, Extrapolate(SOLVERS[name]), L, F, 200)
        differences.append((with_it.loss - without.loss) / abs(without.loss))
    assert np.sort(differences)[1] <= 1e-7, differences  # another optimum may be met once in three


@pytest.mark.parametrize("name", ["em", "scd", "newton"])
def test_extrapolation_speeds_a_solver_up(name: str) -> None:
    problem = problem_of(random_counts(60, 80, K=6, seed=0, mean=1), 6)
    L, F = prefitted(problem)
    without, _ = path(problem, plain(name), L, F, 60)
    with_it, _ = path(problem, Extrapolate(SOLVERS[name]), L, F, 60)
    assert with_it.loss < without.loss - 0.5


def test_an_extrapolated_solver_uses_and_rejects_extrapolation() -> None:
    X = random_counts(30, 40, K=4, seed=5)
    problem = problem_of(X, 4)
    solver = Extrapolate(SCD())
    state = solver.start(problem, *prefitted(problem))
    notes, betas = [], []
    for _ in range(100):
        state = solver.step(problem, state)
        notes.append(state.note)
        betas.append(state.momentum.beta)
        if state.note == "rejected":
            assert not state.conclusive
    assert notes[19::20] == ["plain"] * 5
    assert "rejected" in notes
    assert notes.count("") > 50
    assert max(betas) <= 0.99


# --- all agree -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def near_a_solution() -> tuple[Problem, np.ndarray, np.ndarray]:
    X = random_counts(12, 15, K=3, seed=1)
    problem = problem_of(X, 3)
    solver = Extrapolate(Newton(rounds=20, tolerance=1e-13))
    state = solver.start(problem, *random_start(12, 15, 3))
    state, status = run(problem, solver, state, Trace(), max_iter=20_000, tol=0, callbacks=[StopAtKKT(1e-9, every=20)])
    assert status == "converged"
    rng = np.random.default_rng(0)
    L, F = (A * rng.uniform(0.97, 1.03, A.shape) + 1e-3 * A.mean() for A in (state.L, state.F))
    return problem, L, F


@pytest.mark.parametrize("extrapolate", [False, True], ids=["plain", "extrapolated"])
@pytest.mark.parametrize("name", SOLVERS)
def test_all_solvers_reach_one_solution(
    near_a_solution: tuple[Problem, np.ndarray, np.ndarray], name: str, extrapolate: bool
) -> None:
    problem, L, F = near_a_solution
    solver = Extrapolate(SOLVERS[name]) if extrapolate else plain(name)
    newton = Alternate(Newton(rounds=20, tolerance=1e-13))
    want, _ = path(problem, newton, L, F, 2000)
    state = solver.start(problem, L, F)
    state, status = run(problem, solver, state, Trace(), max_iter=30_000, tol=0, callbacks=[StopAtKKT(9e-7, every=100)])
    assert status == "converged"
    assert problem.kkt(state) < 1e-6
    assert state.loss == pytest.approx(want.loss, rel=1e-9)


# --- coordinate descent ----------------------------------------------------------------------------------------------


def overshooting(seed: int) -> tuple[Problem, np.ndarray, np.ndarray]:
    """A start from which full coordinate steps raise the loss within a few iterations; found by search."""
    rng = np.random.default_rng(seed)
    n, m, K = (int(rng.integers(low, high)) for low, high in ((1, 6), (2, 8), (2, 5)))
    X = random_counts(n, m, K=2, seed=seed, mean=float(rng.choice([1, 4, 50])))
    return problem_of(X, K), *wild_start(n, m, K, seed)


@pytest.mark.parametrize(("half", "seed"), [(SCD(4), 390), (CCD(1), 287)], ids=["scd", "ccd"])
def test_a_coordinate_descent_iteration_that_would_raise_the_loss_is_redone_with_sn(half: Any, seed: int) -> None:
    problem, L, F = overshooting(seed)
    solver = Alternate(half)
    state = solver.start(problem, L, F)
    redone = 0
    for _ in range(6):
        new_L, _ = half(problem.left, state.F, state.L)
        new_F, _ = half(problem.right, new_L, state.F)
        unguarded = problem.loss(new_L, new_F)
        new = solver.step(problem, state)
        assert new.loss <= state.loss + 1e-10 * abs(state.loss)
        if unguarded > state.loss + 1e-10 * abs(state.loss):
            redone += 1
            safe = Alternate(SN(half.sweeps)).step(problem, state)
            np.testing.assert_array_equal(new.L, safe.L)
            np.testing.assert_array_equal(new.F, safe.F)
        else:
            assert new.loss == pytest.approx(unguarded, rel=1e-12)
        state = new
    assert redone > 0


def test_a_solver_that_is_safe_by_itself_is_not_run_twice() -> None:
    calls = []

    class Worse:
        safe = None

        def __call__(self, side: Side, fixed: Any, moving: Any, *, measure: bool = False) -> tuple[Any, float | None]:
            calls.append(1)
            return 3 * moving, None

    problem = problem_of(random_counts(), 3)
    solver = Alternate(Worse())  # type: ignore[arg-type]
    solver.step(problem, solver.start(problem, *random_start(12, 15, 3)))
    assert len(calls) == 2


@pytest.mark.parametrize("half", [SCD(200), CCD(200), SN(200)], ids=repr)
def test_given_factors_two_hundred_sweeps_satisfy_the_kkt_conditions(half: Any) -> None:
    X = random_counts()
    problem = problem_of(X, 3)
    L, F = random_start(12, 15, 3)
    got, xlog = half(problem.left, F, L, measure=True)
    gradient = F.sum(axis=0) - (X / (got @ F.T)) @ F
    assert np.abs(got * gradient).max() < 1e-8
    assert gradient.min() > -1e-7
    np.testing.assert_allclose(got @ F.sum(axis=0), X.sum(axis=1), rtol=1e-9)
    slow, _ = EM(steps=20_000)(problem.left, F, L)
    assert problem.loss(got, F, xlog) == pytest.approx(problem.loss(slow, F), abs=1e-7)


@pytest.mark.parametrize("half", [SCD(30), SN(60), Newton(30, tolerance=1e-13)], ids=repr)
def test_a_sample_with_one_feature_goes_to_the_topic_that_likes_it_best(half: Any) -> None:
    X = np.zeros((2, 6))
    X[0, 2], X[1] = 5, 1
    problem = problem_of(X, 3)
    L, F = random_start(2, 6, 3)
    got, _ = half(problem.left, F, L)
    u = F.sum(axis=0)
    want = np.zeros(3)
    best = np.argmax(F[2] / u)
    want[best] = 5 / u[best]
    np.testing.assert_allclose(got[0], want, atol=1e-6)


@pytest.mark.parametrize("counts", [random_counts(), awkward_counts()], ids=["random", "awkward"])
def test_known_factors_solves_to_kkt(counts: np.ndarray) -> None:
    problem = problem_of(counts, 4)
    _, F = random_start(*counts.shape, 4, seed=8)
    L = starts.known_factors(problem, F)
    rate = L @ F.T
    ratio = np.divide(counts, rate, out=np.zeros_like(rate), where=counts > 0)
    gradient = F.sum(axis=0) - ratio @ F
    totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    assert (np.abs(L * gradient) / totals).max() < 1e-6
    filled = counts.sum(axis=1) > 0
    assert gradient[filled].min() > -1e-4
    np.testing.assert_allclose(L @ F.sum(axis=0), counts.sum(axis=1), rtol=1e-7)
    assert not L[~filled].any()


def test_known_factors_recovers_the_loadings_of_noise_free_data() -> None:
    L, F = random_start(12, 15, 3)
    got = starts.known_factors(problem_of(L @ F.T, 3), F)
    np.testing.assert_allclose(got, L, rtol=1e-5)


# --- MAP -------------------------------------------------------------------------------------------------------------

PRIORS = {
    "flat": um.Gamma(1.2, 1.0),
    "by topic": um.Gamma(2.0, [0.5, 2.0, 10.0]),
    "by feature": um.Gamma(1 + np.arange(15.0)[:, None] / 5, 3.0),
}


@pytest.mark.parametrize("extrapolate", [False, True], ids=["plain", "extrapolated"])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("solver", ["em", "scd", "ccd", "sn", "newton"])
def test_the_posterior_never_falls(solver: str, prior: str, extrapolate: bool) -> None:
    X = random_counts()
    for start in (random_start, wild_start):
        model = um.PoissonNMF(
            3,
            solver=solver,
            extrapolate=extrapolate,
            prior=PRIORS[prior],
            init=start(12, 15, 3),
            prefit=2,
            max_iter=60,
            tol=0,
        ).fit(X)
        trace = model.result_.trace
        assert never_rises(-trace["objective"].to_numpy())
        fit = model.result_
        assert trace["loglik"].iloc[-1] == pytest.approx(um.loglik(X, fit.L, fit.F), rel=1e-9)
        assert trace["objective"].iloc[-1] == pytest.approx(fit.loglik - PRIORS[prior].penalty(fit.F), rel=1e-9)


@pytest.mark.parametrize("solver", ["joint", "plsi", "normalized"])
def test_solvers_without_prior_say_so(solver: str) -> None:
    with pytest.raises(ValueError, match="does not support a prior on factors; use em, scd, ccd, sn or newton"):
        um.PoissonNMF(3, solver=solver, prior=um.Gamma(2.0), random_state=0).fit(random_counts())


# --- rescaling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [None, um.Gamma(1.5, 2.0)], ids=["ml", "map"])
def test_rescaling_leaves_the_rates(prior: um.Gamma | None) -> None:
    problem = problem_of(random_counts(), 3, prior)
    L0, F0 = random_start(12, 15, 3)
    L0, F0 = L0 * [1e-6, 1.0, 1e8], F0 * [5.0, 1e3, 1e-4]
    L, F = problem.rescale(L0.copy(), F0.copy())
    np.testing.assert_allclose(L @ F.T, L0 @ F0.T, rtol=1e-13)
    if prior is None:
        np.testing.assert_allclose(L.mean(axis=0), F.mean(axis=0), rtol=1e-13)
    else:
        np.testing.assert_allclose(F.sum(axis=0), prior.best_scales(F), rtol=1e-13)


def test_rescaling_leaves_a_dead_topic_alone() -> None:
    problem = problem_of(random_counts(), 3)
    L0, F0 = random_start(12, 15, 3)
    F0[:, 1] = 0
    L, F = problem.rescale(L0.copy(), F0.copy())
    np.testing.assert_array_equal(L[:, 1], L0[:, 1])
    np.testing.assert_allclose(L @ F.T, L0 @ F0.T, rtol=1e-13)


# --- stopping --------------------------------------------------------------------------------------------------------

X0 = random_counts(20, 25, seed=9)
START = random_start(20, 25, 3)


def test_a_fit_leaves_its_start_as_it_was() -> None:
    start = tuple(factor.copy() for factor in START)
    fit = um.PoissonNMF(3, init=start, tol=0, max_iter=5).fit(X0).result_
    before = fit.L.copy(), fit.F.copy(), fit.state["L"].copy(), fit.state["F"].copy()
    for solver in ("newton", "em"):  # one resumes, the other starts from the factors
        um.PoissonNMF(3, solver=solver, init=fit, tol=0, max_iter=25, refine=1, random_state=0).fit(X0)
    for one, two in zip((*start, fit.L, fit.F, fit.state["L"], fit.state["F"]), (*START, *before), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_step_leaves_the_state_before_it_as_it_was(solver: str) -> None:
    problem = problem_of(X0, 3)
    for algorithm in (plain(solver), Extrapolate(SOLVERS[solver])):
        state = algorithm.start(problem, *(factor.copy() for factor in START))
        for _ in range(22):
            before = {key: np.copy(value) for key, value in state.save().items()}
            new = algorithm.step(problem, state)
            for key, value in state.save().items():
                np.testing.assert_array_equal(value, before[key])
            state = new


@pytest.mark.parametrize("max_iter", [1, 7, 200])
def test_tol_zero_runs_exactly_max_iter(max_iter: int) -> None:
    model = um.PoissonNMF(3, init=START, prefit=0, tol=0, max_iter=max_iter).fit(X0)
    fit = model.result_
    assert fit.status == "max_iter"
    assert len(fit.trace) == max_iter + 1
    assert fit.trace["iteration"].tolist() == list(range(max_iter + 1))
    assert model.n_iter_ == max_iter


def test_prefit_iterations_come_on_top_and_are_marked() -> None:
    trace = um.PoissonNMF(3, init=START, prefit=4, tol=0, max_iter=6).fit(X0).result_.trace
    assert trace["stage"].tolist() == ["start"] + ["prefit"] * 4 + ["fit"] * 6


def test_a_small_gain_ends_the_fit_and_a_smaller_tol_ends_it_later() -> None:
    fits = [um.PoissonNMF(3, init=START, tol=tol, max_iter=5000).fit(X0).result_ for tol in (1e-4, 1e-10)]
    assert [fit.status for fit in fits] == ["converged"] * 2
    assert len(fits[0].trace) < len(fits[1].trace)
    assert fits[0].loglik < fits[1].loglik
    gains = np.diff(fits[0].trace["loglik"])[-3:]
    assert (gains < 1e-4 * X0.sum()).all()


def test_too_few_iterations_are_warned_about() -> None:
    with pytest.warns(ConvergenceWarning, match="not converged after 3 iterations"):
        um.PoissonNMF(3, init=START, max_iter=3, tol=1e-12).fit(X0)


def test_a_fit_may_stop_by_its_kkt_residual() -> None:
    fit = um.PoissonNMF(3, init=START, tol=0, max_iter=5000, callbacks=[StopAtKKT(1e-3, every=7)]).fit(X0).result_
    assert fit.status == "converged"
    assert (len(fit.trace) - 1) % 7 == 0
    assert fit.kkt <= 1e-3
    assert um.kkt(X0, fit.L, fit.F) == pytest.approx(fit.kkt, rel=1e-3, abs=1e-9)
    earlier = fit.trace["kkt"].iloc[:-1].dropna()
    assert len(earlier) > 0
    assert (earlier > 1e-3).all()


@pytest.mark.parametrize("prefit", [0, 10])
def test_a_fit_may_stop_by_time(prefit: int) -> None:
    def slow(progress: Progress) -> None:
        time.sleep(0.02)

    model = um.PoissonNMF(3, init=START, prefit=prefit, tol=0, max_iter=10**6, callbacks=[slow, StopAfter(0.2)])
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        model.fit(X0)
    fit = model.result_
    assert fit.status == "interrupted"
    assert 3 < len(fit.trace) < 30
    assert fit.trace["seconds"].iloc[-1] >= 0.2
    assert np.isfinite(fit.kkt)


def test_a_callback_ends_the_fit_by_returning_a_status() -> None:
    seen = []

    def enough(progress: Progress) -> str | None:
        seen.append((progress.row["iteration"], progress.gain))
        return "converged" if len(seen) == 5 else None

    fit = um.PoissonNMF(3, init=START, prefit=0, tol=0, max_iter=100, callbacks=[enough]).fit(X0).result_
    assert fit.status == "converged"
    assert [iteration for iteration, _ in seen] == [1, 2, 3, 4, 5]
    np.testing.assert_allclose([gain for _, gain in seen], np.diff(fit.trace["loglik"]), rtol=1e-6, atol=1e-6)


def test_a_callback_with_an_unknown_status_is_refused() -> None:
    model = um.PoissonNMF(3, init=START, prefit=0, tol=0, max_iter=100, callbacks=[lambda progress: "enough"])
    with pytest.raises(
        ValueError, match="a callback returned 'enough'; return None to continue, or one of converged, "
    ):
        model.fit(X0)
    assert not hasattr(model, "result_")


# --- going on --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extrapolate", [False, True], ids=["plain", "extrapolated"])
@pytest.mark.parametrize("solver", NAMED)
def test_ten_and_ten_iterations_are_twenty(solver: Any, extrapolate: bool, tmp_path: Path) -> None:
    options = {"solver": solver, "extrapolate": extrapolate, "prefit": 3, "tol": 0}
    twenty = um.PoissonNMF(3, init=START, max_iter=20, **options).fit(X0).result_
    ten = um.PoissonNMF(3, init=START, max_iter=10, **options).fit(X0).result_
    ten.save(tmp_path / "ten.safetensors", resumable=True)
    for start in (ten, um.load(tmp_path / "ten.safetensors")):
        fit = um.PoissonNMF(3, init=start, max_iter=10, **options).fit(X0).result_
        assert fit.L.tobytes() == twenty.L.tobytes()
        assert fit.F.tobytes() == twenty.F.tobytes()
        assert fit.loglik == twenty.loglik
        assert fit.trace["loglik"].iloc[1:].tolist() == twenty.trace["loglik"].iloc[-10:].tolist()


@pytest.mark.parametrize(("solver", "field"), [("newton", "L"), ("newton", "Ln")], ids=str)
def test_a_state_of_other_shapes_is_not_gone_on_with(solver: Any, field: str) -> None:
    model = um.PoissonNMF(3, init=START, solver=solver, extrapolate=solver == "newton", tol=0, max_iter=5)
    fit = model.fit(X0).result_
    array = fit.state[field]
    longer = np.stack([array, array])
    with pytest.raises(ValueError, match="or is damaged"):
        model.resume(X0, replace(fit, state=fit.state | {field: longer}))


@pytest.mark.parametrize("init", ["random", "topic-score", "auto"])
def test_ten_and_ten_iterations_are_twenty_from_a_start_by_name(init: str) -> None:
    options = {"tol": 0, "random_state": 0}
    twenty = um.PoissonNMF(3, init=init, max_iter=20, **options).fit(X0).result_
    ten = um.PoissonNMF(3, init=init, max_iter=10, **options).fit(X0).result_
    again = um.PoissonNMF(3, init=ten, max_iter=10, **options).fit(X0).result_
    assert again.L.tobytes() == twenty.L.tobytes()
    assert again.F.tobytes() == twenty.F.tobytes()


def test_ten_and_ten_iterations_are_twenty_in_single_precision_and_with_a_prior() -> None:
    options = {"dtype": "float32", "prior": um.Gamma(1.5, 2.0), "prefit": 3, "tol": 0}
    twenty = um.PoissonNMF(3, init=START, max_iter=20, **options).fit(X0).result_
    ten = um.PoissonNMF(3, init=START, max_iter=10, **options).fit(X0).result_
    again = um.PoissonNMF(3, init=ten, max_iter=10, **options).fit(X0).result_
    assert again.L.dtype == np.float32
    assert again.L.tobytes() == twenty.L.tobytes()
    assert again.F.tobytes() == twenty.F.tobytes()


def test_a_fit_without_the_solvers_state_is_a_start_like_any_pair(tmp_path: Path) -> None:
    ten = um.PoissonNMF(3, init=START, tol=0, max_iter=10).fit(X0).result_
    ten.save(tmp_path / "ten.safetensors")
    trace = um.PoissonNMF(3, init=um.load(tmp_path / "ten.safetensors"), tol=0, max_iter=5).fit(X0).result_.trace
    assert trace["loglik"].iloc[0] == pytest.approx(ten.loglik, rel=1e-9)
    assert never_rises(-trace["loglik"].to_numpy())


def test_another_solver_goes_on_from_the_factors() -> None:
    ten = um.PoissonNMF(3, solver="em", init=START, tol=0, max_iter=10).fit(X0).result_
    trace = um.PoissonNMF(3, solver="scd", init=ten, tol=0, max_iter=5).fit(X0).result_.trace
    assert trace["loglik"].iloc[0] == pytest.approx(ten.loglik, rel=1e-9)
    assert trace["loglik"].iloc[-1] > ten.loglik


@pytest.mark.parametrize("solver", ["newton", "em", "joint"])
def test_a_warm_start_from_a_fit_of_other_data_forgets_the_old_loss(solver: str) -> None:
    fit = um.PoissonNMF(3, solver=solver, init=START, tol=0, max_iter=5).fit(X0).result_
    other = X0.copy()
    other[0, 0] += 1
    trace = um.PoissonNMF(3, solver=solver, init=fit, tol=0, max_iter=5).fit(other).result_.trace
    assert trace["loglik"].iloc[0] == pytest.approx(um.loglik(other, fit.L, fit.F), rel=1e-10)
    assert never_rises(-trace["loglik"].to_numpy())
    assert trace["loglik"].iloc[-1] > trace["loglik"].iloc[0]


def test_a_warm_start_with_another_prior_forgets_the_old_loss() -> None:
    first, second = um.Gamma(1.5, 2.0), um.Gamma(3.0, 1.0)
    fit = um.PoissonNMF(3, prior=first, init=START, tol=0, max_iter=5).fit(X0).result_
    for prior in (second, None):
        model = um.PoissonNMF(3, prior=prior, init=fit, tol=0, max_iter=50).fit(X0)
        trace = model.result_.trace
        assert trace["loglik"].iloc[0] == pytest.approx(fit.loglik, rel=1e-9)
        penalty = prior.penalty(model.result_.F) if prior else 0.0
        end = trace.iloc[-1]
        assert end["objective"] == pytest.approx(um.loglik(X0, model.result_.L, model.result_.F) - penalty, rel=1e-9)
        assert never_rises(-trace["objective"].to_numpy())
    assert end["loglik"] > fit.loglik  # maximum likelihood is freer than the prior


def test_a_maximum_likelihood_fit_is_a_start_under_a_prior() -> None:
    fit = um.PoissonNMF(3, init=START, max_iter=2000).fit(X0).result_
    assert (fit.F == 0).any()
    model = um.PoissonNMF(3, prior=um.Gamma(1.5, 2.0), init=fit, tol=0, max_iter=50).fit(X0)
    assert never_rises(-model.result_.trace["objective"].to_numpy()[1:])
    assert (model.result_.F > 0).all()


def test_a_checkpoint_resumes_where_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.safetensors"
    options = {"prefit": 3, "tol": 0, "random_state": 0}
    um.PoissonNMF(3, init=START, max_iter=10, callbacks=[Checkpoint(file, seconds=0).__call__], **options).fit(X0)
    saved = um.load(file)
    assert saved.status == "interrupted"  # as it was on the way
    assert saved.trace["iteration"].iloc[-1] == 13
    whole = um.PoissonNMF(3, init=START, max_iter=25, **options).fit(X0).result_
    rest = um.PoissonNMF(3, init=saved, max_iter=15, **options).fit(X0).result_
    assert rest.L.tobytes() == whole.L.tobytes()
    assert rest.F.tobytes() == whole.F.tobytes()


def test_a_checkpoint_is_written_no_more_often_than_asked(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.safetensors"
    written = []
    checkpoint = Checkpoint(file, seconds=3600)
    look = [checkpoint, lambda progress: written.append(file.exists())]
    um.PoissonNMF(3, init=START, max_iter=5, tol=0, callbacks=look).fit(X0)
    assert not any(written)
    assert um.load(file).status == "max_iter"  # in the end


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


def interrupting(monkeypatch: pytest.MonkeyPatch, half: type, calls: int) -> None:
    """The given half-step raises KeyboardInterrupt when it has been called so often."""
    original, count = half.__call__, iter(range(10**9))

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if next(count) >= calls:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr(half, "__call__", step)


@pytest.mark.parametrize(("half", "calls"), [(EM, 3), (Newton, 100)], ids=["in a start", "in a node"])
def test_ctrl_c_during_the_search_keeps_where_it_was(monkeypatch: pytest.MonkeyPatch, half: type, calls: int) -> None:
    expected = um.PoissonNMF(3, random_state=0).fit(X0).result_
    with monkeypatch.context() as patch:
        interrupting(patch, half, calls)
        with pytest.warns(ConvergenceWarning, match="stopped early"):
            left = um.PoissonNMF(3, random_state=0).fit(X0).result_
    assert set(left.trace["stage"]) <= {"start", "search"}
    assert um.loglik(X0, left.L, left.F) == pytest.approx(left.loglik, rel=1e-9)
    resumed = um.PoissonNMF(3, random_state=0).resume(X0, left).result_
    assert resumed.L.tobytes() == expected.L.tobytes()


@pytest.mark.parametrize("prefit", [0, 5], ids=["fit", "prefit"])
def test_ctrl_c_during_the_fit_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch, prefit: int) -> None:
    interrupting(monkeypatch, EM if prefit else Newton, 7)  # half-steps: in the fourth iteration
    model = um.PoissonNMF(3, init=START, prefit=prefit, tol=0, max_iter=50)
    with pytest.warns(ConvergenceWarning, match="stopped early, after 3 iterations; kept the best so far"):
        model.fit(X0)
    fit = model.result_
    assert fit.status == "interrupted"
    assert len(fit.trace) == 4
    assert um.loglik(X0, fit.L, fit.F) == pytest.approx(fit.loglik, rel=1e-9)
    assert fit.loglik > um.loglik(X0, *START)


def test_ctrl_c_during_refinement_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_fit = um.PoissonNMF(3, init=START, tol=1e-6, max_iter=500).fit(X0).result_

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "recombine", interrupted)
    model = um.PoissonNMF(3, init=START, tol=1e-6, max_iter=500, refine=5)
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        model.fit(X0)
    assert model.result_.status == "interrupted"
    assert model.result_.loglik == plain_fit.loglik
