"""Best latent decomposition: the S, real instead of whole, of the highest log p(S).

With S_ijk = x_ij ρ_ijk, Σ_k ρ_ijk = 1, the gradient of ℓ(S) by S_ijk is a difference of two parts, none negative if β >= 1:

    G⁺_ijk = ψ(β_k + S_ik) − ψ(S_ijk + 1)         G⁻_jk = ψ(α₊ + S_k) − ψ(α_j + S_jk)
    pos_ijk = G⁺_ijk + Σ_c ρ_ijc G⁻_jc            neg_ijk = G⁻_jk + Σ_c ρ_ijc G⁺_ijc

    free       ρ_ijk ← ρ_ijk (pos / neg)^ε, then normalised; ρ is stored, nonzeros × K
    factored   ρ_ijk ∝ P_ik Q_jk;   P_ik ← P_ik (Σ_j S pos / Σ_j S neg)^ε, then Q_jk likewise with sums over i

ε = 1 is halved until ℓ does not fall, so it never falls. It rises for a small ε, since (pos − neg) log(pos / neg) >= 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.kernels.sampling import digamma, log_gamma
from unmix.models.allocating import AllocationTask, Sums
from unmix.sides import Side
from unmix.types import Floats, Record

BLOCK = 1 << 16  # nonzeros taken together, for memory
LEAST_EXPONENT = 1e-4
TINY = 1e-150  # the least share of a topic in a count, so that no topic is lost for good

M = TypeVar("M", bound=Sums)


@dataclass(frozen=True, kw_only=True)
class Free(Sums):
    """`rho` is the share of each topic in each nonzero."""

    rho: Floats


@dataclass(frozen=True, kw_only=True)
class Factored(Sums):
    P: Floats
    Q: Floats


def parts(x: Floats, rho: Floats, plus: Floats, minus: Floats) -> tuple[Floats, Floats]:
    """pos and neg of nonzeros, given ψ(β_k + S_ik) and G⁻_jk of each."""
    plus = plus - digamma(x[:, None] * rho + 1)
    pos = plus + (rho * minus).sum(axis=1, keepdims=True)
    neg = minus + (rho * plus).sum(axis=1, keepdims=True)
    return pos, neg


def log_factorials(x: Floats, rho: Floats) -> float:
    return float(log_gamma(x[:, None] * rho + 1).sum())


@dataclass(frozen=True)
class FreeBLD:
    """ρ stored: nonzeros × K numbers."""

    def start(self, task: AllocationTask, rho: Floats) -> Free:
        return self._at(task, np.maximum(rho, TINY))

    def restore(self, task: AllocationTask, saved: Record) -> Free:
        check_shape("rho", saved["rho"], (task.X.nnz, task.model.n_topics))
        return self.start(task, saved["rho"])

    def step(self, task: AllocationTask, state: Free) -> Free:
        plus, minus = task.gradients(state)
        ratio = np.empty_like(state.rho)
        rows, owner = task.X.rows, task.sides.left.owners
        for block in blocks(task.X.nnz):
            pos, neg = parts(rows.data[block], state.rho[block], plus[owner[block]], minus[rows.indices[block]])
            np.divide(pos, neg, out=ratio[block])
        return backtrack(state, lambda exponent: self._moved(task, state, ratio, exponent))

    def _moved(self, task: AllocationTask, state: Free, ratio: Floats, exponent: float) -> Free:
        rho = state.rho * (ratio if exponent == 1 else ratio**exponent)
        np.maximum(rho, TINY, out=rho)
        rho /= rho.sum(axis=1, keepdims=True)
        return self._at(task, rho)

    def _at(self, task: AllocationTask, rho: Floats) -> Free:
        by_feature, by_sample = task.over_columns @ rho, task.over_rows @ rho
        x = task.X.rows.data
        factorials = sum(log_factorials(x[block], rho[block]) for block in blocks(task.X.nnz))
        loss = task.loss(by_feature, by_sample, factorials)
        return Free(loss=loss, rho=rho, by_feature=by_feature, by_sample=by_sample)


@dataclass(frozen=True)
class FactoredBLD:
    """ρ ∝ P Q: (n + m) × K numbers, and a block of nonzeros × K at a time."""

    def start(self, task: AllocationTask, P: Floats, Q: Floats) -> Factored:
        return self._at(task, np.maximum(P, TINY), np.maximum(Q, TINY))

    def restore(self, task: AllocationTask, saved: Record) -> Factored:
        (n, m), K = task.X.shape, task.model.n_topics
        check_shape("P", saved["P"], (n, K))
        check_shape("Q", saved["Q"], (m, K))
        return self.start(task, saved["P"], saved["Q"])

    def step(self, task: AllocationTask, state: Factored) -> Factored:
        """P, then Q from the new P."""
        plus, minus = task.gradients(state)
        ratio = self._ratio(task.sides.left, state.P, state.Q, plus, minus)
        state = backtrack(state, lambda exponent: self._at(task, scaled(state.P, ratio, exponent), state.Q))
        plus, minus = task.gradients(state)
        ratio_q = self._ratio(task.sides.right, state.Q, state.P, minus, plus, transposed=True)
        return backtrack(state, lambda exponent: self._at(task, state.P, scaled(state.Q, ratio_q, exponent)))

    @staticmethod
    def _ratio(
        side: Side, moving: Floats, fixed: Floats, own: Floats, other: Floats, transposed: bool = False
    ) -> Floats:
        """Σ S pos / Σ S neg over the nonzeros of each row of `moving`; `own` and `other` are the gradients by its rows and by
        those of `fixed`."""
        rows = side.rows
        ratio = np.ones_like(moving)
        for some in row_blocks(rows.indptr):
            cells = slice(rows.indptr[some.start], rows.indptr[some.stop])
            x, j = rows.data[cells], rows.indices[cells]
            starts = rows.indptr[some.start : some.stop + 1] - rows.indptr[some.start]
            i = np.repeat(np.arange(some.start, some.stop), np.diff(starts))
            rho = shares(moving[i], fixed[j])
            plus, minus = (other[j], own[i]) if transposed else (own[i], other[j])
            pos, neg = parts(x, rho, plus, minus)
            gather = sp.csr_array((x, np.arange(len(x)), starts), shape=(some.stop - some.start, len(x)))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio[some] = (gather @ (rho * pos)) / (gather @ (rho * neg))
        ratio[~np.isfinite(ratio)] = 1  # samples and features without counts
        return ratio

    @staticmethod
    def _at(task: AllocationTask, P: Floats, Q: Floats) -> Factored:
        X = task.X
        A, B, _ = task.sides.both_numerators(P, Q)
        by_sample, by_feature = P * A, Q * B
        factorials, owner = 0.0, task.sides.left.owners
        for block in blocks(X.nnz):
            rho = shares(P[owner[block]], Q[X.rows.indices[block]])
            factorials += log_factorials(X.rows.data[block], rho)
        return Factored(
            loss=task.loss(by_feature, by_sample, factorials), P=P, Q=Q, by_feature=by_feature, by_sample=by_sample
        )


def check_shape(name: str, array: NDArray[Any], shape: tuple[int, int]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")


def backtrack(state: M, attempt: Callable[[float], M]) -> M:
    """The attempt with the largest exponent 1, ½, ¼, … that loses nothing; the old state if there is none."""
    exponent = 1.0
    while exponent >= LEAST_EXPONENT:
        new = attempt(exponent)
        if new.loss <= state.loss:
            return new
        exponent /= 2
    return state


def scaled(factor: Floats, ratio: Floats, exponent: float) -> Floats:
    """factor · ratio^ε, rows divided by their largest entry, which ρ does not notice."""
    moved = factor * ratio**exponent
    return np.maximum(moved / moved.max(axis=1, keepdims=True), TINY)


def shares(left: Floats, right: Floats) -> Floats:
    rho = left * right
    rho /= rho.sum(axis=1, keepdims=True)
    return rho


def blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, BLOCK):
        yield slice(start, min(start + BLOCK, size))


def row_blocks(indptr: NDArray[np.int64]) -> Iterator[slice]:
    """Runs of rows with about `BLOCK` nonzeros, one row at least."""
    start, n = 0, len(indptr) - 1
    while start < n:
        stop = int(np.searchsorted(indptr, indptr[start] + BLOCK, side="right")) - 1
        stop = min(max(stop, start + 1), n)
        yield slice(start, stop)
        start = stop
