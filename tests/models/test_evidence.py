"""Every lower bound lies below the exact evidence of tiny matrices, and not far below it at its best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import Oracle, log_evidence_gamma_gamma

import unmix as um
from unmix.models.variational import log_total

pytestmark = pytest.mark.filterwarnings("ignore:n_components=3 is more than:UserWarning")

TINY = np.array([[2, 0, 1], [1, 2, 0]])
OTHER = np.array([[3, 1], [0, 2], [1, 1]])
ETA = np.array([0.5, 0.7, 1.1])


def best(model: Any, X: np.ndarray, starts: int = 6) -> tuple[float, list[float]]:
    """The highest bound of several random starts, and all bounds met on the way."""
    bounds = []
    for seed in range(starts):
        fit = model.set_params(init="random", random_state=seed, max_iter=150, tol=0).fit(X).result_
        bounds += fit.trace["objective"].tolist()
    return max(bounds), bounds


@pytest.mark.parametrize(
    ("X", "alpha", "eta"),
    [
        (TINY, [1.2, 0.4], ETA),
        (TINY, 0.3, 0.2),
        (TINY, [0.5, 2.0, 1.0], 1.0),
        (OTHER, 1.0, [0.3, 2.0]),
    ],
)
@pytest.mark.parametrize("inner", [0, 5])
def test_the_bound_of_lda_lies_below_the_evidence(X: np.ndarray, alpha: Any, eta: Any, inner: int) -> None:
    K = len(alpha) if np.ndim(alpha) else 2
    oracle = Oracle(X, np.broadcast_to(eta, X.shape[1]).astype(float), np.broadcast_to(alpha, K).astype(float))
    highest, bounds = best(um.LDA(K, alpha=alpha, eta=eta, inner=inner), X)
    assert max(bounds) <= oracle.log_evidence_lda + 1e-9
    assert highest > oracle.log_evidence_lda - 3


@pytest.mark.parametrize("rate", [0.5, 3.0])
def test_the_bound_of_gamma_poisson_lies_below_the_evidence(rate: float) -> None:
    shape = np.array([1.2, 0.4])
    exact = Oracle(TINY, ETA, shape).log_evidence_lda + log_total(TINY.sum(axis=1), shape, rate).sum()
    highest, bounds = best(um.GammaPoisson(2, shape=shape, rate=rate, eta=ETA), TINY)
    assert max(bounds) <= exact + 1e-9
    assert highest > exact - 3


def test_gamma_poisson_with_one_rate_is_the_allocation_model_with_sizes_of_that_shape() -> None:
    """Σ_k Gamma(β_k, b) is Gamma(Σβ, b), independent of the proportions, which are Dirichlet(β)."""
    shape, rate = np.array([1.2, 0.4]), 0.7
    exact = Oracle(TINY, ETA, shape).log_evidence_lda + log_total(TINY.sum(axis=1), shape, rate).sum()
    model = um.AllocationModel(2, a=shape.sum(), b=rate, alpha=ETA, beta=shape)
    assert float(model.log_evidence(TINY, "exact")) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("hyper", [(0.4, 0.9, 0.6, 2.2), (1.0, 1.0, 1.0, 1.0), (2.0, 0.3, 0.5, 1.5)])
@pytest.mark.parametrize(("X", "K"), [(TINY, 2), (OTHER, 1)])
def test_the_bound_of_bayesian_factorisation_lies_below_the_evidence(
    X: np.ndarray, K: int, hyper: tuple[float, ...]
) -> None:
    exact = log_evidence_gamma_gamma(X, K, *hyper)
    model = um.BayesianPoissonNMF(K, **dict(zip("abcd", hyper, strict=True)))
    highest, bounds = best(model, X)
    assert max(bounds) <= exact + 1e-7
    assert highest > exact - 4
