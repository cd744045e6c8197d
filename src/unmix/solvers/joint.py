"""Joint updates (Geiger and Park): one evaluation of the ratios x/λ serves both factors.

With Z_ik = l_ik Σ_j r_ij f_jk and Y_jk = f_jk Σ_i r_ij l_ik, the expected counts of each topic, n_k = Σ_j Y_jk:

    normalised NMF (algorithm 4)    l_ik ← Z_ik           f*_jk ← Y_jk / n_k
    PLSA           (algorithm 6)    l*_ik ← Z_ik / t_i    f*_jk ← Y_jk / n_k

Both are EM (Zhang et al., equations 1 to 3; Paisley, 19 and 20), and their iterates are the same up to L = t L* (lemma B.1).
PLSA takes Dirichlet priors, on topics and on proportions, by adding (concentration − 1) to the expected counts:
l*_ik ∝ Z_ik + α_k − 1, f*_jk ∝ Y_jk + η_j − 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unmix.base.types import Factor, Floats
from unmix.counts.sides import column_sums
from unmix.maps import plsi_to_poisson, poisson_to_plsi
from unmix.models.problem import Problem, Sparsity, State
from unmix.solvers.base import FactorSolver, refuse_unsupported


@dataclass(frozen=True, kw_only=True)
class Expected(State):
    """With the numerators at L, F, which the next step uses and which came with the loss."""

    A: Floats
    B: Floats


@dataclass(frozen=True)
class Joint(FactorSolver[Expected]):
    """Multiplicative updates of both factors from one pass (Geiger and Park, algorithm 4): columns of F sum to one.

    See Also
    --------
    solvers.EM, solvers.PLSA

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.Joint(), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    state_type: ClassVar[type[State]] = Expected

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> Expected:
        refuse_unsupported(self, problem.X, problem.needs)
        scales = column_sums(F)
        return self._at(problem, (L * scales).astype(L.dtype, copy=False), (F / scales).astype(F.dtype, copy=False))

    def step(self, problem: Problem, state: Expected) -> Expected:
        Y = state.F * state.B
        if problem.right.shape is not None:
            Y += problem.right.shape
        return self._at(problem, self.loadings(problem, state), (Y / Y.sum(axis=0)).astype(state.F.dtype, copy=False))

    def loadings(self, problem: Problem, state: Expected) -> Factor:
        return (state.L * state.A).astype(state.L.dtype, copy=False)

    @staticmethod
    def _at(problem: Problem, L: Factor, F: Factor) -> Expected:
        A, B, xlog = problem.both_numerators(L, F)
        return Expected(L=L, F=F, A=A, B=B, loss=problem.loss(L, F, xlog))


@dataclass(frozen=True)
class PLSA(Joint):
    """`Joint` in which rows of L* = L / t sum to one, too (algorithm 6). Takes Dirichlet priors on topics and on proportions.

    See Also
    --------
    solvers.Joint

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.PLSA(), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    @property
    def supports(self) -> frozenset[str]:
        return frozenset({"a prior on factors", "a Dirichlet prior on loadings"})

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> Expected:
        state = super().start(problem, L, F)
        return self._at(problem, _with_row_sums(state.L, problem.X.sample_totals), state.F)

    def loadings(self, problem: Problem, state: Expected) -> Factor:
        Z = super().loadings(problem, state)
        if problem.left.shape is not None:
            Z = Z + problem.left.shape
        return _with_row_sums(Z, problem.X.sample_totals)


def _with_row_sums(L: Factor, totals: Floats) -> Factor:
    sums = L.sum(axis=1, dtype=np.float64)
    scale = np.divide(totals, sums, out=np.zeros_like(sums), where=sums > 0)
    return (L * scale[:, None]).astype(L.dtype, copy=False)


# The PLSI triple X/N ≈ C diag(w) Hᵀ (Zhang et al.), columns of C and H and the weights w each summing to one.
#
# With R the ratios at the current triple and q_k whatever makes a column sum to one:
#
#     PLSI       (algorithm 2)    C ← C∘(R H)/q;   w ← w∘Σ_i C∘(R H) with new R;   H ← H∘(RᵀC)/q with new R (printed: the same R)
#     normalised (algorithm 3)    G = C∘(R H), q = Σ_i G, C ← G/q, w ← w∘q;   the same for H with new R
#
# L = N C diag(w) and F = H, so the ratios are those of the Poisson problem. `Normalized` follows `EM` exactly, rate by rate.


@dataclass(frozen=True, kw_only=True)
class Triple(State):
    C: Floats
    w: Floats
    H: Floats
    RH: Floats  # the numerators at the triple, which came with the loss


class _TripleSolver(FactorSolver[Triple]):
    state_type: ClassVar[type[State]] = Triple

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> Triple:
        refuse_unsupported(self, problem.X, problem.needs)
        return self._at(problem, *poisson_to_plsi(L, F))

    def _at(self, problem: Problem, C: Floats, w: Floats, H: Floats) -> Triple:
        L, H = plsi_to_poisson(C, w, H, problem.X.total)
        RH, xlog = problem.left.numerators(L, H)
        return Triple(L=L, F=H, C=C, w=w, H=H, RH=RH, loss=problem.loss(L, H, xlog))

    def _right(self, problem: Problem, C: Floats, w: Floats, H: Floats) -> Floats:
        """RᵀC at the triple; a topic without weight has none."""
        RL, _ = problem.right.numerators(H, problem.X.total * C * w)
        weight = problem.X.total * w
        return np.divide(RL, weight, out=np.zeros_like(RL), where=weight > 0)


@dataclass(frozen=True)
class PLSI(_TripleSolver):
    """For the triple C diag(w) Hᵀ of Zhang, Ding and Tang, algorithm 2: the weights have an update of their own.

    Parameters
    ----------
    new_weights : bool, default=True
        Whether H is updated with the new weights. False is line 4 of the algorithm as it is printed, a pass cheaper.

    See Also
    --------
    solvers.Normalized, maps.poisson_to_plsi

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.PLSI(), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    new_weights: bool = True

    def step(self, problem: Problem, state: Triple) -> Triple:
        C = _normalised(state.C * state.RH)
        half = self._at(problem, C, state.w, state.H)
        w = state.w * (C * half.RH).sum(axis=0)
        H = _normalised(state.H * self._right(problem, C, w if self.new_weights else state.w, state.H))
        return self._at(problem, C, w / w.sum(), H)


@dataclass(frozen=True)
class Normalized(_TripleSolver):
    """For the triple C diag(w) Hᵀ of Zhang, Ding and Tang, algorithm 3: the weights collect what normalising takes from C and
    H.

    See Also
    --------
    solvers.PLSI

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.Normalized(), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    def step(self, problem: Problem, state: Triple) -> Triple:
        G = state.C * state.RH
        C, w = _normalised(G), state.w * G.sum(axis=0)
        G = state.H * self._right(problem, C, w, state.H)
        H, w = _normalised(G), w * G.sum(axis=0)
        return self._at(problem, C, w / w.sum(), H)


def _normalised(G: Floats) -> Floats:
    sums = G.sum(axis=0)
    return np.divide(G, sums, out=np.full_like(G, 1 / len(G)), where=sums > 0)


# Multiplicative updates for the l1 penalty on loadings; see `models/sparse.py`. Both are monotone.
#
#     l1-normalised topics:  the joint update with l_ik ← Z_ik / (1 + ω)
#     l2-normalised topics:  l_ik ← l_ik A_ik / (u_k + ω ρ_k),  ρ_k = ‖f_k‖₂
#                            f_jk ← 2 Y_jk / (v_k + sqrt(v_k² + 4 ω v_k Y_jk / ρ_k)),  then columns of F to norm one
#
# The second update of F minimises EM's bound with the norm replaced by a quadratic that is above it and touches it.


@dataclass(frozen=True)
class SparseL1(Joint):
    """What `SparsePoissonNMF` uses for l1-normalised topics.

    See Also
    --------
    SparsePoissonNMF

    Examples
    --------
    >>> import unmix as um
    >>> um.solvers.SparseL1()
    SparseL1()
    """

    @property
    def supports(self) -> frozenset[str]:
        return frozenset({"a sparsity penalty"})

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> Expected:
        scales = column_sums(F) / (1 + _sparsity(problem).weight)
        return self._at(problem, L * scales, F / column_sums(F))

    def loadings(self, problem: Problem, state: Expected) -> Factor:
        return super().loadings(problem, state) / (1 + _sparsity(problem).weight)


@dataclass(frozen=True, kw_only=True)
class LeftExpected(State):
    A: Floats  # the numerators at L, F, which came with the loss


@dataclass(frozen=True)
class SparseL2(FactorSolver[LeftExpected]):
    """What `SparsePoissonNMF` uses for l2-normalised topics.

    See Also
    --------
    SparsePoissonNMF

    Examples
    --------
    >>> import unmix as um
    >>> um.solvers.SparseL2()
    SparseL2()
    """

    state_type: ClassVar[type[State]] = LeftExpected

    @property
    def supports(self) -> frozenset[str]:
        return frozenset({"a sparsity penalty"})

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> LeftExpected:
        norms = _sparsity(problem).norms(F)
        return self._at(problem, L * norms, F / norms)

    def step(self, problem: Problem, state: LeftExpected) -> LeftExpected:
        sparsity = _sparsity(problem)
        norms = sparsity.norms(state.F)
        L = state.L * state.A / (column_sums(state.F) + sparsity.weight * norms)
        B, _ = problem.right.numerators(state.F, L)
        Y, v = state.F * B, column_sums(L)
        with np.errstate(divide="ignore", invalid="ignore"):
            F = np.where(v > 0, 2 * Y / (v + np.sqrt(v**2 + 4 * sparsity.weight * v * Y / norms)), state.F)
        norms = sparsity.norms(F)
        norms = np.where(norms > 0, norms, 1.0)
        return self._at(problem, L * norms, F / norms)

    @staticmethod
    def _at(problem: Problem, L: Factor, F: Factor) -> LeftExpected:
        A, xlog = problem.left.numerators(L, F)
        return LeftExpected(L=L, F=F, A=A, loss=problem.loss(L, F, xlog))


def _sparsity(problem: Problem) -> Sparsity:
    if problem.sparsity is None:
        raise ValueError("this solver is for problems with a sparsity penalty; use em, scd, sn or newton")
    return problem.sparsity
