"""SQUAREM, DAAREM and quasi-Newton EM, rivals that the papers name: they keep what every solver promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import never_rises, problem_of, random_start, wild_start
from reproduce import accelerate
from reproduce.accelerate import DAAREM, SQUAREM, QuasiNewton
from test_solvers import PROBLEMS, START, X0, path

import unmix as um
from unmix.solvers import EM, SCD, Alternate, Newton, Problem

pytestmark = pytest.mark.reproduce


@pytest.mark.parametrize("half", [EM(), SCD(), Newton()], ids=repr)
@pytest.mark.parametrize("scheme", [SQUAREM, DAAREM, QuasiNewton])
@pytest.mark.parametrize("problem_name", PROBLEMS)
def test_accelerated_em_never_makes_the_loss_rise(problem_name: str, scheme: Any, half: Any) -> None:
    X, K = PROBLEMS[problem_name]
    for start in (random_start, wild_start):
        assert never_rises(path(problem_of(X, K), scheme(half), *start(*X.shape, K), 30)[1])


def test_squarem_leaps_by_its_formula_and_is_far_ahead_of_em() -> None:
    """A step is M at θ − 2αr + α²w, not three plain iterations."""
    X = um.datasets.correlated_topics("A", seed=0)
    problem, start = Problem(X, 6), random_start(*X.shape, 6)
    solver, plain = SQUAREM(), Alternate(EM())
    state, leaps = solver.start(problem, *start), 0
    for _ in range(40):
        one = plain.step(problem, plain.start(problem, state.L, state.F))
        two = plain.step(problem, one)
        zero, first, second = (np.vstack([at.L, at.F]) for at in (state, one, two))
        r, w = first - zero, second - 2 * first + zero
        alpha = -max(1, np.linalg.norm(r) / np.linalg.norm(w))  # one step length for L and F
        leap = np.split(np.maximum(zero - 2 * alpha * r + alpha**2 * w, 0.5 * second), [len(state.L)])
        three = plain.step(problem, plain.start(problem, *leap))
        state = solver.step(problem, state)
        kept = three.loss <= two.loss
        leaps += kept and np.abs(leap[0] - two.L).max() > 1e-3 * two.L.max()
        np.testing.assert_allclose(
            state.L @ state.F.T, (three if kept else two).L @ (three if kept else two).F.T, rtol=1e-9
        )
    assert leaps > 10
    assert state.loss < path(problem, plain, *start, 200)[1][-1]  # three maps a step: 120 against 200


def test_daarem_is_far_ahead_of_em() -> None:
    """Where EM needs hundreds of iterations, one of whose maps a step of DAAREM is."""
    X = um.datasets.correlated_topics("A", seed=0)
    problem, start = Problem(X, 6), random_start(*X.shape, 6)
    em = path(problem, Alternate(EM()), *start, 300)[1]
    state, losses = path(problem, DAAREM(), *start, 100)
    assert losses[-1] < em[-1]
    assert state.trust > 20
    assert state.loss == pytest.approx(problem.loss(state.L, state.F), rel=1e-12)


def test_quasi_newton_finds_the_fixed_point_of_a_linear_map_with_as_many_secants_as_dimensions() -> None:
    rng = np.random.default_rng(0)
    A, b = 0.5 * rng.normal(size=(4, 4)), rng.normal(size=4)
    points = rng.normal(size=(4, 4))
    U = points @ A.T + b - points
    found = accelerate.quasi_newton(U, U @ A.T, points[-1], points[-1] @ A.T + b)
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(4) - A, b))
    assert (accelerate.quasi_newton(0 * U, 0 * U, b, 2 * b) == 2 * b).all()


@pytest.mark.parametrize("scheme", [SQUAREM(), QuasiNewton()], ids=str)
def test_leaps_are_made_and_gain(scheme: Any) -> None:
    """With the same number of EM maps, more is gained than by EM, and many leaps are kept."""
    X = um.datasets.correlated_topics("A", seed=0)
    problem, start = Problem(X, 6), random_start(*X.shape, 6)
    maps = 3 if isinstance(scheme, SQUAREM) else 2
    em = path(problem, Alternate(EM()), *start, 60 * maps)[1]
    state, notes = scheme.start(problem, *start), []
    for _ in range(60):
        state = scheme.step(problem, state)
        notes.append(state.note)
    assert state.loss < em[-1] - 1
    assert notes.count("") > 15


@pytest.mark.parametrize("share", [0.9, 0.3, 0.01])
def test_daarem_damps_by_ridge_regression(share: float) -> None:
    rng = np.random.default_rng(0)
    changes, f = rng.normal(size=(4, 30)), rng.normal(size=30)
    gamma = accelerate._damped(changes, f, share)
    free = np.linalg.lstsq(changes.T, f, rcond=None)[0]
    assert gamma @ gamma == pytest.approx(share * free @ free)
    pull = changes @ (f - gamma @ changes)  # of a ridge regression: ρ γ
    np.testing.assert_allclose(pull / gamma, pull[0] / gamma[0], rtol=1e-6)
    assert pull[0] / gamma[0] > 0
    repeated = accelerate._damped(np.vstack([changes, changes]), f, share)
    assert np.isfinite(repeated).all()
    assert (accelerate._damped(0 * changes, f, share) == 0).all()


@pytest.mark.parametrize("solver", [SQUAREM(), DAAREM(), QuasiNewton()], ids=str)
def test_a_resumed_fit_ends_with_the_same_bits(solver: Any, tmp_path: Path) -> None:
    options = {"solver": solver, "extrapolate": False, "prefit": 3, "tol": 0}
    twenty = um.PoissonNMF(3, init=START, max_iter=20, **options).fit(X0).result_
    um.PoissonNMF(3, init=START, max_iter=10, **options).fit(X0).result_.save(tmp_path / "ten", resumable=True)
    fit = um.PoissonNMF(3, init=um.load(tmp_path / "ten"), max_iter=10, **options).fit(X0).result_
    assert (fit.L.tobytes(), fit.loglik) == (twenty.L.tobytes(), twenty.loglik)


@pytest.mark.parametrize("algorithm", [SQUAREM(), DAAREM(), QuasiNewton()], ids=str)
def test_a_step_leaves_the_state_before_it_as_it_was(algorithm: Any) -> None:
    problem = problem_of(X0, 3)
    state = algorithm.start(problem, *(factor.copy() for factor in START))
    for _ in range(22):
        before = {key: np.copy(value) for key, value in state.save().items()}
        new = algorithm.step(problem, state)
        for key, value in state.save().items():
            np.testing.assert_array_equal(value, before[key])
        state = new
