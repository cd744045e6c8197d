"""Best latent decomposition step by step: the factored ascent is the paper's listing, and a step that would fall is halved."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import random_counts, random_start
from scipy.special import psi

from unmix.counts.counts import Counts
from unmix.models.allocation import Allocation, AllocationTask
from unmix.solvers.allocation import FactoredBLD, Free, backtrack

ALPHA, BETA = np.linspace(0.2, 2.0, 9), np.array([1.0, 2.0, 5.0])
X = random_counts(8, 9, seed=4)


def shared(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    rho = P[:, None, :] * Q[None]
    return rho / rho.sum(axis=2, keepdims=True)


def sides(rho: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S, and its gradient in two parts (the paper's equations 14 and 15), samples × features × topics."""
    S = X[:, :, None] * rho
    up = psi(BETA + S.sum(axis=1))[:, None, :] - psi(S + 1)
    down = psi(ALPHA.sum() + S.sum(axis=(0, 1))) - psi(ALPHA[:, None] + S.sum(axis=0))[None] + 0 * up
    return S, up + (rho * down).sum(axis=2, keepdims=True), down + (rho * up).sum(axis=2, keepdims=True)


def test_a_factored_step_is_the_papers_listing() -> None:
    counts = Counts(X)
    task = AllocationTask(counts, Allocation(1.0, 1.0, ALPHA, BETA))
    P, Q = random_start(8, 9, 3)
    old = FactoredBLD().begin(task, P, Q)
    new = FactoredBLD().step(task, old)
    S, pos, neg = sides(shared(P, Q))
    P = P * (S * pos).sum(axis=1) / (S * neg).sum(axis=1)
    S, pos, neg = sides(shared(P, Q))
    Q = Q * (S * pos).sum(axis=0) / (S * neg).sum(axis=0)
    assert new.loss < old.loss
    np.testing.assert_allclose(shared(new.P, new.Q), shared(P, Q), rtol=1e-12)


@pytest.mark.parametrize(("bad", "kept"), [(1.5, 1.0), (0.9, 0.5), (0.3, 0.25), (1e-9, None)])
def test_a_step_that_would_fall_is_halved_until_it_does_not(bad: float, kept: float | None) -> None:
    """Steps longer than `bad` fall."""

    def at(loss: float) -> Free:
        return Free(loss=loss, by_feature=np.zeros(1), by_sample=np.zeros(1), rho=np.ones((1, 1)))

    def attempt(exponent: float) -> Free:
        return at(1.0 if exponent > bad else -exponent)

    assert backtrack(at(0.0), attempt).loss == (0.0 if kept is None else -kept)
