"""Multiplicative updates for the l1 penalty on loadings; see `models/sparse.py`. Both are monotone.

    l1-normalised topics:  the joint update with l_ik ← Z_ik / (1 + ω)
    l2-normalised topics:  l_ik ← l_ik A_ik / (u_k + ω ρ_k),  ρ_k = ‖f_k‖₂
                           f_jk ← 2 Y_jk / (v_k + sqrt(v_k² + 4 ω v_k Y_jk / ρ_k)),  then columns of F to norm one

The second update of F minimises EM's bound with the norm replaced by a quadratic that lies above it and touches it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unmix.models.problem import Problem, State
from unmix.models.sparse import Sparsity
from unmix.sides import column_sums
from unmix.solvers.base import Solver
from unmix.solvers.joint import Expected, Joint
from unmix.types import Factor, Floats


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

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> Expected:
        scales = column_sums(F) / (1 + _sparsity(problem).weight)
        return self._at(problem, L * scales, F / column_sums(F))

    def loadings(self, problem: Problem, state: Expected) -> Factor:
        return super().loadings(problem, state) / (1 + _sparsity(problem).weight)


@dataclass(frozen=True, kw_only=True)
class LeftExpected(State):
    A: Floats  # the numerators at L, F, which came with the loss


@dataclass(frozen=True)
class SparseL2(Solver[LeftExpected]):
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
