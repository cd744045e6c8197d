"""SQUAREM and DAAREM, which the papers are compared with: solvers of `reproduce` that keep what every solver promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import never_rises, problem_of, random_start, wild_start
from reproduce import accelerate
from reproduce.accelerate import DAAREM, SQUAREM
from test_solvers import PROBLEMS, START, X0, path

import unmix as um
from unmix.solvers import EM, SCD, Alternate, Newton, Problem

pytestmark = pytest.mark.reproduce


@pytest.mark.parametrize("half", [EM(), SCD(), Newton()], ids=repr)
@pytest.mark.parametrize("scheme", [SQUAREM, DAAREM])
@pytest.mark.parametrize("problem_name", PROBLEMS)
def test_accelerated_em_never_makes_the_loss_rise(problem_name: str, scheme: Any, half: Any) -> None:
    X, K = PROBLEMS[problem_name]
    for start in (random_start, wild_start):
        assert never_rises(path(problem_of(X, K), scheme(half), *start(*X.shape, K), 30)[1])


def test_daarem_is_far_ahead_of_em() -> None:
    """Where EM needs hundreds of iterations, one of whose maps a step of DAAREM is."""
    X = um.datasets.correlated_topics("A", seed=0)
    problem, start = Problem(X, 6), random_start(*X.shape, 6)
    em = path(problem, Alternate(EM()), *start, 300)[1]
    state, losses = path(problem, DAAREM(), *start, 100)
    assert losses[-1] < em[-1]
    assert state.trust > 20
    assert state.loss == pytest.approx(problem.loss(state.L, state.F), rel=1e-12)


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


@pytest.mark.parametrize("solver", [SQUAREM(), DAAREM()], ids=str)
def test_a_resumed_fit_ends_with_the_same_bits(solver: Any, tmp_path: Path) -> None:
    options = {"solver": solver, "extrapolate": False, "prefit": 3, "tol": 0}
    twenty = um.PoissonNMF(3, init=START, max_iter=20, **options).fit(X0).result_
    um.PoissonNMF(3, init=START, max_iter=10, **options).fit(X0).result_.save(tmp_path / "ten", resumable=True)
    fit = um.PoissonNMF(3, init=um.load(tmp_path / "ten"), max_iter=10, **options).fit(X0).result_
    assert (fit.L.tobytes(), fit.loglik) == (twenty.L.tobytes(), twenty.loglik)


@pytest.mark.parametrize("algorithm", [SQUAREM(), DAAREM()], ids=str)
def test_a_step_leaves_the_state_before_it_as_it_was(algorithm: Any) -> None:
    problem = problem_of(X0, 3)
    state = algorithm.start(problem, *(factor.copy() for factor in START))
    for _ in range(22):
        before = {key: np.copy(value) for key, value in state.save().items()}
        new = algorithm.step(problem, state)
        for key, value in state.save().items():
            np.testing.assert_array_equal(value, before[key])
        state = new
