"""The l1 penalty on loadings: with l1-normalised topics it only rescales (lemma 6.1), with l2-normalised ones it makes sparse."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import examples, never_rises, random_counts, random_start
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

import unmix as um
from unmix.models.problem import Sparsity
from unmix.solvers import Joint, Problem, SparseL1, SparseL2

X = random_counts(20, 25, K=4, seed=2)
L0, F0 = random_start(20, 25, 3)
N = X.sum()
ONLY_SCALES = "ignore:with norm=.l1. the penalty only divides:UserWarning"


def sparse_problem(weight: float, norm: Any, counts: Any = X, K: int = 3) -> Problem:
    return Problem(um.Counts(counts), K, sparsity=Sparsity(weight, norm))


def iterates(solver: Any, problem: Problem, steps: int, start: Any = (L0, F0)) -> list[Any]:
    states = [solver.start(problem, *start)]
    for _ in range(steps):
        states.append(solver.step(problem, states[-1]))
    return states


# --- lemma 6.1 and theorem F.1 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.1, 1.0, 30.0])
def test_geiger_park_lemma_61_the_penalty_is_a_constant_after_shrinking(weight: float) -> None:
    F = F0 / F0.sum(axis=0)
    shrunk = um.deviance(X, L0 / (1 + weight), F) / 2 + weight * L0.sum() / (1 + weight)
    assert shrunk == pytest.approx(um.deviance(X, L0, F) / 2 + N * np.log1p(weight), rel=1e-10)


@pytest.mark.parametrize("weight", [0.1, 1.0, 30.0])
def test_geiger_park_lemma_61_the_iterates_are_those_of_joint_nmf_divided(weight: float) -> None:
    problem = Problem(um.Counts(X), 3)
    plain = iterates(Joint(), problem, 60)
    for a, b in zip(plain, iterates(SparseL1(), sparse_problem(weight, "l1"), 60), strict=True):
        np.testing.assert_allclose(b.L * (1 + weight), a.L, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(b.F, a.F, rtol=1e-10, atol=1e-14)
        assert b.loss == pytest.approx(a.loss + N * np.log1p(weight), rel=1e-10)


@pytest.mark.filterwarnings(ONLY_SCALES)
def test_geiger_park_lemma_61_no_penalty_makes_a_fit_sparser() -> None:
    options = {"norm": "l1", "init": (L0, F0), "max_iter": 300, "tol": 0, "extrapolate": False}
    fits = [um.SparsePoissonNMF(3, penalty=weight, **options).fit(X).result_ for weight in (0.0, 1.0, 100.0)]
    assert len({(fit.proportions < 1e-4).sum() for fit in fits}) == 1
    for weight, fit in zip((0.0, 1.0, 100.0), fits, strict=True):
        np.testing.assert_allclose(fit.L * (1 + weight), fits[0].L, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_geiger_park_theorem_f1_the_penalised_value_does_not_depend_on_the_scale_of_topics(norm: Any) -> None:
    problem = sparse_problem(0.7, norm)
    scale = np.array([2.0, 3.0, 0.1])
    assert problem.loss(L0 / scale, F0 * scale) == pytest.approx(problem.loss(L0, F0), rel=1e-12)
    norms = Sparsity(0.7, norm).norms(F0)
    constrained = um.deviance(X, L0 * norms, F0 / norms) / 2 + 0.7 * (L0 * norms).sum()
    free = um.deviance(X, L0, F0) / 2 + 0.7 * norms @ L0.sum(axis=0)
    assert constrained == pytest.approx(free, rel=1e-12)


def beta_divergence(X: np.ndarray, rates: np.ndarray, beta: float) -> float:
    """D_β; half the squared error for β = 2, the Kullback–Leibler divergence for β → 1."""
    if beta == 1:
        return float((xlogy(X, X) - xlogy(X, rates) - X + rates).sum())
    terms = X**beta + (beta - 1) * rates**beta - beta * X * rates ** (beta - 1)
    return float(terms.sum() / (beta * (beta - 1)))


@pytest.mark.parametrize("p", [0.3, 0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("penalty", ["l1", "powers", "squares", "log"])
@pytest.mark.parametrize("beta", [0.5, 1, 2])
def test_geiger_park_theorem_f1_holds_for_any_norm_penalty_and_divergence(p: float, penalty: str, beta: float) -> None:
    """min D + R(L) with ‖f_k‖_p = 1 is min D + R(L diag ‖f_k‖_p) without: values agree, and the second ignores scales. Its
    examples: R = Σ l^q makes it Σ_k ‖f_k‖_p^q ‖l_k‖_q^q, and (38) has a β-divergence."""
    q = {"l1": 1.0, "powers": 0.4, "squares": 2.0}.get(penalty)
    R: Any = (lambda L: np.log1p(L).sum()) if q is None else (lambda L: (L**q).sum())

    def free(L: np.ndarray, F: np.ndarray) -> float:
        norms = (F**p).sum(axis=0) ** (1 / p)
        weight = R(L * norms) if q is None else (norms**q) @ (L**q).sum(axis=0)
        return beta_divergence(X, L @ F.T, beta) + float(weight)

    norms = (F0**p).sum(axis=0) ** (1 / p)
    L, F = L0 * norms, F0 / norms
    np.testing.assert_allclose((F**p).sum(axis=0), 1, rtol=1e-12)
    assert beta_divergence(X, L @ F.T, beta) + float(R(L)) == pytest.approx(free(L0, F0), rel=1e-12)
    scale = np.array([2.0, 3.0, 0.1])
    assert free(L0 / scale, F0 * scale) == pytest.approx(free(L0, F0), rel=1e-12)
    if p in (1.0, 2.0) and penalty == "l1" and beta == 1:  # which the library has
        assert beta_divergence(X, L @ F.T, 1) == pytest.approx(um.deviance(X, L, F) / 2, rel=1e-10)
        problem = sparse_problem(1.0, "l1" if p == 1 else "l2")
        change = problem.loss(L0, F0) - problem.loss(L0, 2 * F0)
        assert change == pytest.approx(free(L0, F0) - free(L0, 2 * F0), rel=1e-9)


# --- the l2 variant --------------------------------------------------------------------------------------------------


@examples(40)
@given(seed=st.integers(0, 10_000), weight=st.floats(0, 50), K=st.integers(1, 4), norm=st.sampled_from(["l1", "l2"]))
def test_the_penalised_loss_never_rises(seed: int, weight: float, K: int, norm: Any) -> None:
    counts = random_counts(9, 8, K=3, seed=seed, mean=2.0)
    counts[3] = 0
    counts[:, 2] = 0
    if counts.sum() == 0:
        return
    solver = SparseL1() if norm == "l1" else SparseL2()
    states = iterates(solver, sparse_problem(weight, norm, counts, K), 40, random_start(9, 8, K, seed))
    assert never_rises([state.loss for state in states])
    assert states[-1].loss < states[0].loss  # nor does it stand still


def test_columns_have_norm_one_at_every_iteration() -> None:
    for state in iterates(SparseL2(), sparse_problem(2.0, "l2"), 20):
        np.testing.assert_allclose(np.linalg.norm(state.F, axis=0), 1, rtol=1e-12)
        assert state.loss == pytest.approx(
            um.deviance(X, state.L, state.F) / 2 + 2.0 * state.L.sum() - _constant(X), rel=1e-10
        )


def _constant(counts: np.ndarray) -> float:
    seen = counts[counts > 0]
    return float((seen * np.log(seen)).sum() - seen.sum())


def test_the_update_of_a_factor_minimises_its_bound() -> None:
    weight, solver = 1.7, SparseL2()
    problem = sparse_problem(weight, "l2")
    old = solver.start(problem, L0, F0)
    new = solver.step(problem, old)
    L = old.L * ((X / (old.L @ old.F.T)) @ old.F) / (old.F.sum(axis=0) + weight)  # topics have norm one
    v, Y = L.sum(axis=0), old.F * ((X / (L @ old.F.T)).T @ L)
    best = np.empty_like(Y)
    for j, k in np.ndindex(*Y.shape):
        bound = minimize_scalar(
            lambda f, v=v[k], y=Y[j, k]: v * f - y * np.log(f) + weight * v * f**2 / 2,
            bounds=(1e-9, 10),
            options={"xatol": 1e-12},
        )
        best[j, k] = bound.x
    np.testing.assert_allclose(new.F, best / np.linalg.norm(best, axis=0), atol=1e-6)


@pytest.mark.slow
def test_zeros_grow_with_the_penalty() -> None:
    digits = um.datasets.digits()
    shares = []
    for weight in (0.0, 3.0, 30.0):
        model = um.SparsePoissonNMF(8, penalty=weight, random_state=0, tol=1e-3).fit(digits)
        shares.append(float((model.transform(digits) == 0).mean()))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > shares[0] + 0.1


def test_a_fit_ends_near_a_kkt_point() -> None:
    model = um.SparsePoissonNMF(3, penalty=2.0, init=(L0, F0), max_iter=5000, tol=0, extrapolate=False).fit(X)
    assert model.result_.kkt < 1e-6
    np.testing.assert_allclose(model.transform(X), model.result_.L, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1, rtol=1e-12)


def test_without_a_penalty_it_is_poisson_nmf() -> None:
    sparse = um.SparsePoissonNMF(3, penalty=0, init=(L0, F0), max_iter=4000, tol=0, extrapolate=False).fit(X)
    plain = um.PoissonNMF(3, solver="em", extrapolate=False, init=(L0, F0), prefit=0, max_iter=4000, tol=0).fit(X)
    np.testing.assert_allclose(
        sparse.inverse_transform(sparse.result_.L), plain.inverse_transform(plain.result_.L), rtol=1e-6
    )
    assert sparse.result_.loglik == pytest.approx(plain.result_.loglik, rel=1e-9)


# --- what a user is told ---------------------------------------------------------------------------------------------


def test_a_useless_penalty_is_pointed_out() -> None:
    with pytest.warns(UserWarning, match='only divides the loadings by 3; use norm="l2"'):
        um.SparsePoissonNMF(2, penalty=2, norm="l1", random_state=0).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": -1}, "penalty=-1; use a number >= 0"),
        ({"penalty": np.nan}, "penalty=nan"),
        ({"penalty": "much"}, "penalty='much'"),
        ({"norm": "l3"}, "norm='l3'; choose"),
        ({"max_iter": 0}, "max_iter=0"),
    ],
)
def test_bad_parameters_are_explained(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        um.SparsePoissonNMF(2, **parameters).fit(X)


def test_its_solvers_refuse_other_problems() -> None:
    with pytest.raises(ValueError, match="for problems with a sparsity penalty"):
        SparseL2().start(Problem(um.Counts(X), 3), L0, F0) and SparseL2().step(Problem(um.Counts(X), 3), None)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 5.0])
def test_exposures_are_in_counts(norm: Any, penalty: float, tmp_path: Path) -> None:
    def fitted(X: Any, K: int) -> um.Fit:
        with warnings.catch_warnings(action="ignore"):  # of norm="l1"
            return um.SparsePoissonNMF(K, penalty=penalty, norm=norm, tol=1e-9, random_state=0).fit(X).result_

    np.testing.assert_allclose(fitted([[50, 50], [30, 30]], 1).exposures, [[100], [60]], rtol=1e-6)
    counts = um.datasets.correlated_topics("A").csr.toarray()
    fit = fitted(counts, 3)
    np.testing.assert_allclose(fit.exposures.sum(axis=1), counts.sum(axis=1), rtol=1e-3)
    assert ((fit.exposures == 0) == (fit.L == 0)).all()
    rates = fit.L @ fit.F.T
    ratios = np.divide(counts, rates, out=np.zeros(counts.shape), where=counts > 0)
    expected = fit.L * (ratios @ fit.F)  # of every count, the part of each topic
    np.testing.assert_allclose(fit.exposures, expected, atol=0.01 * counts.sum(axis=1).max())
    fit.save(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(um.load(tmp_path / "fit.safetensors").exposures, fit.exposures)
