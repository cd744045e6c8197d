"""Joint updates (Geiger and Park): one evaluation of the ratios x/λ serves both factors.

With Z_ik = l_ik Σ_j r_ij f_jk and Y_jk = f_jk Σ_i r_ij l_ik, the expected counts of each topic, n_k = Σ_j Y_jk:

    normalised NMF (algorithm 4)    l_ik ← Z_ik           f*_jk ← Y_jk / n_k
    PLSA           (algorithm 6)    l*_ik ← Z_ik / t_i    f*_jk ← Y_jk / n_k

Both are EM, and their iterates are the same up to L = t L* (their lemma B.1). PLSA takes Dirichlet priors, on topics and on
proportions, by adding (concentration − 1) to the expected counts: l*_ik ∝ Z_ik + α_k − 1, f*_jk ∝ Y_jk + η_j − 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unmix.models.problem import Problem, State
from unmix.sides import column_sums
from unmix.solvers.base import Solver
from unmix.types import Factor, Floats


@dataclass(frozen=True, kw_only=True)
class Expected(State):
    """With the numerators at L, F, which the next step uses and which came with the loss."""

    A: Floats
    B: Floats


@dataclass(frozen=True)
class Joint(Solver[Expected]):
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
    takes_priors: ClassVar[bool] = False

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> Expected:
        if not self.takes_priors:
            refuse_prior(self, problem)
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

    takes_priors: ClassVar[bool] = True

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


def refuse_prior(solver: object, problem: Problem) -> None:
    if not problem.plain:
        raise ValueError(
            f"{type(solver).__name__} fits by maximum likelihood only; use em, scd, sn or newton with a prior"
        )
