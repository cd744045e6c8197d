"""Additive Poisson regression: the optimum, its conditions, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import unmix as um


@pytest.mark.parametrize("seed", range(6))
def test_the_answer_satisfies_the_kkt_conditions_and_beats_a_general_optimiser(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.gamma(0.5, size=(30, 4)) * (rng.random((30, 4)) < 0.6) + 1e-3
    y = rng.poisson(A @ np.array([5, 0, 2, 0.5]))

    def loss(b: np.ndarray) -> float:
        return float((A @ b).sum() - (y * np.log(A @ b)).sum())

    b = um.poisson_regression(A, y)
    gradient = A.sum(axis=0) - A.T @ (y / (A @ b))
    assert (b >= 0).all()
    assert gradient.min() > -1e-6 * A.sum()
    np.testing.assert_allclose(b * gradient, 0, atol=1e-6 * y.sum())
    other = minimize(loss, np.ones(4), bounds=[(1e-9, None)] * 4, method="L-BFGS-B")
    assert loss(np.maximum(b, 1e-300)) <= other.fun + 1e-7 * abs(other.fun)


def test_noise_free_counts_give_back_the_coefficients_and_zeros_are_exact() -> None:
    A = np.random.default_rng(0).gamma(0.5, size=(20, 3))
    np.testing.assert_allclose(um.poisson_regression(A, A @ [3.0, 0, 1.5]), [3, 0, 1.5], atol=1e-6)
    assert um.poisson_regression([[1, 0], [0, 1]], [4, 0]).tolist() == [4, 0]
    assert um.poisson_regression([[1, 0], [1, 0]], [4, 2]).tolist() == pytest.approx([3, 0])  # a column without entries
    assert um.poisson_regression([[1, 1]], [0]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("A", "y", "message"),
    [
        ([[1, 0], [0, 1]], [1, 2, 3], r"A has shape \(2, 2\) and y has 3 numbers"),
        ([[1, -1], [0, 1]], [1, 2], "finite numbers >= 0"),
        ([[1, 1], [0, 0]], [1, 2], "y is positive where a row of A is zero"),
        ([[1, 1], [0, 1]], [-1, 2], "Negative values"),
    ],
)
def test_what_has_no_answer_is_refused(A: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        um.poisson_regression(A, y)
