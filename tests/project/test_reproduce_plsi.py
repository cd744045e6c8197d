"""The claims of `reproduce.plsi` on data small enough for a test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import dense_loss, never_rises, random_counts
from reproduce import plsi

import unmix as um
from unmix.solvers import Problem
from unmix.solvers.init import random

pytestmark = pytest.mark.reproduce

X = um.Counts(random_counts(12, 15, K=3, seed=0))
EFFORT = plsi.Effort(tol=1e-9, max_iter=2000, jobs=1)


def start(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return random(Problem(X, 3), np.random.default_rng(seed))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return plsi.all_ends(X, 3, range(4), EFFORT).assign(data="random", K=3)


@pytest.mark.parametrize("steps", [1, 4])
def test_lee_and_seungs_updates_never_lower_the_likelihood(steps: int) -> None:
    problem, algorithm = Problem(X, 3), plsi.LeeSeung(steps)
    state = algorithm.start(problem, *start())
    losses = [state.loss]
    for _ in range(50):
        state = algorithm.step(problem, state)
        losses.append(state.loss)
        assert state.loss == pytest.approx(dense_loss(X.csr.toarray(), state.L, state.F), rel=1e-12)
    assert never_rises(losses)


def test_normalised_nmf_follows_nmf_at_every_iteration() -> None:
    assert plsi.furthest_apart(X, 3, range(2), iterations=50) < 1e-10


def test_every_start_and_algorithm_has_a_row_and_normalised_nmf_ends_with_nmf(table: pd.DataFrame) -> None:
    assert len(table) == 4 * len(plsi.ALGORITHMS)
    compared = plsi.Compared.of(table, plsi.NORMALISED)
    assert (compared.starts, compared.same_value, compared.same_rates) == (4, 4, 4)
    assert compared.largest < 1e-6
    nmf = table[table["algorithm"] == plsi.NMF]
    assert (nmf["loglik minus that of NMF"] == 0).all()
    for (_, seed), group in table.groupby(["data", "seed"]):
        logliks = group.set_index("algorithm")
        difference = logliks["loglik"] - logliks.loc[plsi.NMF, "loglik"]
        np.testing.assert_allclose(logliks["loglik minus that of NMF"], difference, atol=1e-8, err_msg=str(seed))


def test_newton_never_leads_downhill(table: pd.DataFrame) -> None:
    assert (table["loglik after Newton"] >= table["loglik"] - 1e-6).all()


def test_the_ends_are_fixed_points_of_one_another() -> None:
    steps = plsi.one_step_further(X, 3, 0, EFFORT)
    assert len(steps) == 16
    assert steps["share of counts moved"].max() < 1e-3


def test_distances_are_zero_for_the_same_and_one_for_what_does_not_overlap() -> None:
    F = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert plsi.hellinger(F, 3 * F) == 0
    assert plsi.hellinger(F, F[::-1]) == pytest.approx(1)
    problem = Problem(X, 3)
    state = plsi.LeeSeung().start(problem, *start())
    assert plsi.moved(state, state) == 0


def test_a_lost_entry_that_the_likelihood_wants_back_is_found() -> None:
    problem = Problem(X, 3)
    end, _, _ = plsi.until_it_stands(problem, plsi.ALGORITHMS[plsi.FLOORED], start(), EFFORT)
    before = plsi.locked(X, end.L, end.F)
    i, k = np.unravel_index(np.argmax(end.L), end.L.shape)
    L = end.L.copy()
    L[i, k] = 0
    assert plsi.locked(X, L, end.F) > before


def test_what_runs_contradict_is_listed_and_nothing_else() -> None:
    same = plsi.Compared(10, 10, 10, 0.001, 0, 0, 0, 0)
    other = plsi.Compared(10, 7, 6, 25.0, 1, 2, 3, 0)
    assert len(plsi.doubts(plsi=other, normalised=same, four=other, apart=1e-14)) == 3
    assert plsi.doubts(plsi=same, normalised=other, four=same, apart=1e-2) == []
    assert (
        "from 3 of 10 starts, by up to 25.0; from 3 of these"
        in plsi.doubts(plsi=other, normalised=other, four=same, apart=1.0)[0]
    )
