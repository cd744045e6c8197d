"""The algorithms as the papers print them, written down in NumPy: each iterate of the solver of that name is the listing's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import problem_of, random_counts, random_start

import unmix as um
from unmix.maps import poisson_to_plsi
from unmix.solvers import CCD, EM, PLSI, SCD, SN, Alternate, Extrapolate, Joint

X = random_counts(12, 15, K=3, seed=0, mean=20)
L0, F0 = random_start(12, 15, 3)
PROBLEM = problem_of(X, 3)
Floats = np.ndarray


def ratio(L: Floats, F: Floats, X: Floats = X) -> Floats:
    return X / (L @ F.T)


def same_rates(state: Any, L: Floats, F: Floats) -> None:
    np.testing.assert_allclose(state.L @ state.F.T, L @ F.T, rtol=1e-12)


def test_plsa_by_name_is_geiger_and_parks_algorithm_6() -> None:
    L, F = L0 / L0.sum(axis=1, keepdims=True), F0 / F0.sum(axis=0)
    for iterations in range(1, 8):
        R = ratio(L, F)
        L, F = L * (R @ F), F * (R.T @ L)
        L, F = L / L.sum(axis=1, keepdims=True), F / F.sum(axis=0)
        start = L0 / L0.sum(axis=1, keepdims=True), F0 / F0.sum(axis=0)
        model = um.TopicModel(3, solver="plsa", extrapolate=False, prefit=0, init=start, tol=0, max_iter=iterations)
        fit = model.fit(X).result_
        order = [int(np.argmin(np.abs(fit.topics - F[:, [k]]).sum(axis=0))) for k in range(3)]
        np.testing.assert_allclose(fit.topics[:, order], F, rtol=1e-12)
        np.testing.assert_allclose(fit.proportions[:, order], L, rtol=1e-12)


def test_joint_is_the_em_of_zhang_1_to_3_and_of_paisley_19_20() -> None:
    """One φ, from the last iterate, for all factors. Zhang: X/N ≈ C diag(w) Hᵀ. Paisley: W and V, one after the other."""
    C, w, H = poisson_to_plsi(L0, F0)
    W, V = L0.copy(), F0.copy()
    state = Joint().start(PROBLEM, L0, F0)
    for _ in range(7):
        state = Joint().step(PROBLEM, state)
        P = w * C[:, None] * H[None]
        counts = X[:, :, None] / X.sum() * P / P.sum(axis=2, keepdims=True)
        C, w, H = counts.sum(axis=1), counts.sum(axis=(0, 1)), counts.sum(axis=0)
        C, H = C / w, H / w
        phi = W[:, None] * V[None]
        counts = X[:, :, None] * phi / phi.sum(axis=2, keepdims=True)
        W = counts.sum(axis=1) / V.sum(axis=0)
        V = counts.sum(axis=0) / W.sum(axis=0)
        same_rates(state, X.sum() * C * w, H)
        same_rates(state, W, V)


def printed_plsi(C: Floats, w: Floats, H: Floats, late: bool) -> tuple[Floats, Floats, Floats]:
    """Algorithm 2 of Zhang et al.; its line 4 has the weights of the step before, `late` the new ones."""
    share = X / X.sum()
    C = C * (ratio(C * w, H, share) @ H)
    C /= C.sum(axis=0)
    R = ratio(C * w, H, share)
    new = w * (C * (R @ H)).sum(axis=0)
    H = H * ((ratio(C * new, H, share) if late else R).T @ C)
    return C, new, H / H.sum(axis=0)


@pytest.mark.parametrize("late", [False, True])
def test_plsi_is_zhangs_algorithm_2_with_the_weights_before_or_the_new_ones(late: bool) -> None:
    solver, triple = PLSI(new_weights=late), poisson_to_plsi(L0, F0)
    state = solver.start(PROBLEM, L0, F0)
    for _ in range(10):
        state, triple = solver.step(PROBLEM, state), printed_plsi(*triple, late)
        for got, want in zip((state.C, state.w, state.H), triple, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
    other = printed_plsi(*poisson_to_plsi(L0, F0), not late)
    assert np.abs(other[2] - PLSI(late).step(PROBLEM, PLSI(late).start(PROBLEM, L0, F0)).H).max() > 1e-4  # not the same


def printed_row(y: Floats, M: Floats, b: Floats, rule: str, sweeps: int) -> Floats:
    """An EM step, then coordinate descent on Σ_k u_k b_k − Σ_j y_j log (M b)_j, as in the paper's section 3.2.2."""
    u = M.sum(axis=0)
    M, y = M[y > 0], y[y > 0]
    b = b * (M.T @ (y / (M @ b))) / u
    for _ in range(sweeps):
        for k in range(len(b)):
            for _ in range(2 if rule == "ccd" else 1):
                a = M[:, k] / (M @ b)
                g, h = u[k] - y @ a, y @ a**2
                new = max(1e-15 * y.sum() / u[k], b[k] - g / h)
                nu = np.sqrt(h / y.min()) * abs(new - b[k])
                if rule == "sn" and g > 0 and nu > 0.6838:
                    new = b[k] + (new - b[k]) / (1 + nu)
                moved, b[k] = abs(new - b[k]) >= 0.5 * b[k], new
                if not moved:
                    break
    return b


@pytest.mark.parametrize("half", [SCD(rest=False), CCD(rest=False), SN(rest=False)], ids=["scd", "ccd", "sn"])
def test_coordinate_descent_without_resting_is_that_of_the_paper(half: Any) -> None:
    solver = Alternate(half)
    state, L, F = solver.start(PROBLEM, L0, F0), L0, F0
    for _ in range(5):
        state = solver.step(PROBLEM, state)
        L = np.stack([printed_row(y, F, b, half.rule, 4) for y, b in zip(X, L, strict=True)])
        F = np.stack([printed_row(y, L, b, half.rule, 4) for y, b in zip(X.T, F, strict=True)])
        same_rates(state, L, F)


def em(L: Floats, F: Floats) -> Floats:
    return L * (ratio(L, F) @ F) / F.sum(axis=0)


def loss(L: Floats, F: Floats) -> float:
    return float((L @ F.T - X * np.log(L @ F.T)).sum())


def balanced(L: Floats, F: Floats) -> tuple[Floats, Floats]:
    d = np.sqrt(L.mean(axis=0) / F.mean(axis=0))
    return L / d, F * d


def ang_gillis(L: Floats, F: Floats, iterations: int) -> list[tuple[Floats, Floats, bool]]:
    """Algorithm 3 of Ang and Gillis as fastTopics has it: the best pair after each iteration, and whether a step was rejected."""
    Ln, Fn, Ly, Fy = L, F, L, F
    best = last = loss(L, F)
    beta = beta_0 = 0.5
    beta_max, path = 0.99, []
    for i in range(1, iterations + 1):
        rejected = False
        if i % 20 == 0:
            L = em(L, F)
            F = ratio_step(L, F)
            L, F = balanced(L, F)
            Ln, Fn, Ly, Fy = L, F, L, F
            best = last = loss(L, F)
        else:
            new_L = em(Ly, Fy)
            new_Ly = np.maximum(new_L + beta * (new_L - Ln), 1e-15)
            new_F = ratio_step(new_Ly, Fy)
            new_Fy = np.maximum(new_F + beta * (new_F - Fn), 1e-15)
            before, last = last, loss(new_Ly, new_F)
            if last < best:
                L, F, best = new_Ly, new_F, last
            if rejected := last >= before:
                Ly, Fy, beta_max, beta = Ln, Fn, beta_0, 0.75 * beta
            else:
                Ln, Fn, Ly, Fy = new_L, new_F, new_Ly, new_Fy
                beta = beta_0 = min(beta_max, 1.1 * beta)
                beta_max = min(0.99, 1.05 * beta_max)
            L, F = balanced(L, F)
            (Ln, Fn), (Ly, Fy) = balanced(Ln, Fn), balanced(Ly, Fy)
        path.append((L, F, rejected))
    return path


def ratio_step(L: Floats, F: Floats) -> Floats:
    return F * (ratio(L, F).T @ L) / L.sum(axis=0)


def test_extrapolation_by_the_published_rule_is_that_of_fasttopics() -> None:
    start = balanced(L0, F0)
    solver = Extrapolate(EM(), rule="ang-gillis")
    state, path = solver.start(PROBLEM, *start), ang_gillis(*start, 35)
    for L, F, rejected in path:
        state = solver.step(PROBLEM, state)
        same_rates(state, L, F)
        assert (state.note == "rejected") == rejected
    assert 0 < sum(rejected for *_, rejected in path) < 18


def ours(L: Floats, F: Floats, iterations: int) -> list[tuple[Floats, Floats]]:
    """The rule of unmix, whose β grows by 1.05 from 0.6: after a rejection from the *new* plain pair, and β̄ is the last β that
    was accepted; an entry keeps half of itself; one scale for all pairs, as none is changed in between."""
    Ln, Fn, Ly, Fy = L, F, L, F
    best = last = loss(L, F)
    beta = proven = 0.6
    beta_max, path = 0.99, []
    for i in range(1, iterations + 1):
        if i % 20 == 0:
            L = em(L, F)
            L, F = balanced(L, ratio_step(L, F))
            Ln, Fn, Ly, Fy = L, F, L, F
            best = last = loss(L, F)
        else:
            new_L = em(Ly, Fy)
            new_Ly = np.maximum(new_L + beta * (new_L - Ln), 0.5 * new_L)
            new_F = ratio_step(new_Ly, Fy)
            new_Fy = np.maximum(new_F + beta * (new_F - Fn), 0.5 * new_F)
            before, last = last, loss(new_Ly, new_F)
            if last < best:
                L, F, best = new_Ly, new_F, last
            Ln, Fn = new_L, new_F
            if last >= before:
                Ly, Fy, last = new_L, new_F, loss(new_L, new_F)
                beta, beta_max = 0.75 * beta, proven
            else:
                Ly, Fy, proven = new_Ly, new_Fy, beta
                beta, beta_max = min(beta_max, 1.05 * beta), min(0.99, 1.05 * beta_max)
        path.append((L, F))
    return path


def test_extrapolation_by_default_is_the_rule_that_is_stated() -> None:
    """fastTopics' rule in its place would follow another path."""
    solver: Any = Extrapolate(EM())
    state, path = solver.start(PROBLEM, L0, F0), ours(L0, F0, 35)
    for L, F in path:
        state = solver.step(PROBLEM, state)
        same_rates(state, L, F)
    published = ang_gillis(*balanced(L0, F0), 35)
    assert max(np.abs(L @ F.T - M @ G.T).max() for (L, F), (M, G, _) in zip(path, published, strict=True)) > 1e-3


def test_the_published_rule_is_refused_for_shards_and_unknown_rules_are_named() -> None:
    solver = Extrapolate(EM(), rule="ang-gillis")
    with pytest.raises(ValueError, match="does not support shards"):
        um.TopicModel(3, solver=solver, max_iter=3, tol=0).fit(um.Shards.of(X))
    wrong: Any = "nesterov"
    with pytest.raises(ValueError, match="rule='nesterov'; choose one of unmix, ang-gillis"):
        um.TopicModel(3, solver=Extrapolate(EM(), rule=wrong), max_iter=3, tol=0).fit(X)
