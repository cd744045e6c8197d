"""Remarks of the papers that have no number of their own, shown by the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import problem_of, random_counts, random_start

import unmix as um
from unmix.solvers import PLSA, Joint

X = random_counts(12, 15, K=3, seed=0)
PROBLEM = problem_of(X, 3)
L0, F0 = random_start(12, 15, 3)


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
