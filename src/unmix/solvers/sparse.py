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
from numpy.typing import NDArray

from unmix import kernels
from unmix.models.poisson import column_sums
from unmix.models.sparse import Sparsity
from unmix.solvers.base import Floats, Problem, State
from unmix.solvers.joint import Expected, Joint


@dataclass(frozen=True)
class Shrunk(Joint):
    """For l1-normalised topics."""

    def start(self, problem: Problem, L: Floats, F: Floats) -> Expected:
        scales = column_sums(F) / (1 + _sparsity(problem).weight)
        return self._at(problem, L * scales, F / column_sums(F))

    def loadings(self, problem: Problem, state: Expected) -> Floats:
        return super().loadings(problem, state) / (1 + _sparsity(problem).weight)


@dataclass(frozen=True, kw_only=True)
class LeftExpected(State):
    A: NDArray[np.float64]  # the numerators at L, F, which came with the loss


@dataclass(frozen=True)
class Sparse:
    """For l2-normalised topics."""

    state_type: ClassVar[type[State]] = LeftExpected

    def start(self, problem: Problem, L: Floats, F: Floats) -> LeftExpected:
        norms = _sparsity(problem).norms(F)
        return self._at(problem, L * norms, F / norms)

    def step(self, problem: Problem, s: LeftExpected) -> LeftExpected:
        sparsity = _sparsity(problem)
        norms = sparsity.norms(s.F)
        L = s.L * s.A / (column_sums(s.F) + sparsity.weight * norms)
        B, _ = kernels.numerators(problem.X.columns, s.F, L, threads=problem.threads)
        Y, v = s.F * B, column_sums(L)
        with np.errstate(divide="ignore", invalid="ignore"):
            F = np.where(v > 0, 2 * Y / (v + np.sqrt(v**2 + 4 * sparsity.weight * v * Y / norms)), s.F)
        norms = sparsity.norms(F)
        norms = np.where(norms > 0, norms, 1.0)
        return self._at(problem, L * norms, F / norms)

    @staticmethod
    def _at(problem: Problem, L: Floats, F: Floats) -> LeftExpected:
        A, xlog = kernels.numerators(problem.X.rows, L, F, threads=problem.threads)
        return LeftExpected(L=L, F=F, A=A, loss=problem.loss(L, F, xlog))


def _sparsity(problem: Problem) -> Sparsity:
    if problem.sparsity is None:
        raise ValueError("this solver is for problems with a sparsity penalty; use em, scd, sn or newton")
    return problem.sparsity
