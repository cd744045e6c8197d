"""Hypothesis finds no matrix that gives NaN, a crash or a falling objective."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import unmix as um

COUNT = st.one_of(
    st.just(0.0),
    st.integers(1, 9).map(float),
    st.sampled_from([1e-9, 1e-3, 0.5, 1e6, 1e12]),
)


@st.composite
def counts(draw: st.DrawFn) -> np.ndarray:
    """1 × 1 up to 8 × 8, often with zero rows and columns, never all zero."""
    n, m = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    X = np.array(draw(st.lists(COUNT, min_size=n * m, max_size=n * m))).reshape(n, m)
    X[draw(st.lists(st.integers(0, n - 1), max_size=2))] = 0
    X[:, draw(st.lists(st.integers(0, m - 1), max_size=2))] = 0
    if X.sum() == 0:
        X[draw(st.integers(0, n - 1)), draw(st.integers(0, m - 1))] = draw(st.sampled_from([1e-9, 1.0, 1e12]))
    return X


def dense(X: np.ndarray) -> Any:
    return X


def single(X: np.ndarray) -> Any:
    return X.astype(np.float32)


def messy(X: np.ndarray) -> sp.csr_matrix:
    """Every count split in two, columns in descending order, explicit zeros between."""
    rows = [np.repeat(np.arange(X.shape[1])[::-1], 2) for _ in X]
    data = [np.repeat(row[::-1] / 2, 2) for row in X]
    indptr = np.arange(len(X) + 1) * 2 * X.shape[1]
    return sp.csr_matrix((np.concatenate(data), np.concatenate(rows), indptr), shape=X.shape)


@pytest.mark.parametrize("extrapolate", [False, True], ids=["plain", "extrapolated"])
@pytest.mark.parametrize("solver", ["em", "scd", "sn", "newton"])
@examples(13)
@given(
    X=counts(),
    form=st.sampled_from([dense, single, messy]),
    K=st.integers(1, 5),
    dtype=st.sampled_from(["float64", "float32"]),
    seed=st.integers(0, 3),
)
def test_no_matrix_gives_nan_a_crash_or_a_falling_objective(
    solver: str, extrapolate: bool, X: np.ndarray, form: Any, K: int, dtype: str, seed: int
) -> None:
    model = um.PoissonNMF(
        K,
        solver=solver,
        extrapolate=extrapolate,
        init="random",
        prefit=2,
        max_iter=25,
        tol=0,
        dtype=dtype,
        random_state=seed,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_components=.* is more than", category=UserWarning)
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        model.fit(form(X))
        proportions = um.TopicModel.from_fit(model.result_).transform(form(X))
    fit = model.result_
    assert fit.L.shape == (X.shape[0], K)
    assert fit.F.shape == (X.shape[1], K)
    for values in (fit.L, fit.F, fit.proportions, fit.topics, proportions):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
    np.testing.assert_allclose(proportions.sum(axis=1), 1, rtol=1e-6)
    assert np.all(fit.L[X.sum(axis=1) == 0] == 0)
    assert np.all(fit.F[X.sum(axis=0) == 0] == 0)
    objective = fit.trace["objective"].to_numpy()
    assert np.isfinite(objective).all()
    # the loss holds Σλ and Σ x log λ, each of the size of the counts: that is what rounding is relative to
    size = np.abs(objective[:-1]) + X.sum() * (1 + abs(np.log(X.max())))
    assert np.all(np.diff(objective) >= -(1e-10 if dtype == "float64" else 1e-6) * size)
    assert um.loglik(form(X), fit.L, fit.F) == pytest.approx(fit.loglik, rel=1e-6, abs=1e-6 * size[-1])
