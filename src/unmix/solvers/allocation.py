"""Solvers of the allocation model: BLD (free and factored), ICM, and labels to start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix import kernels
from unmix.base.types import Floats, Record
from unmix.counts.sides import Side
from unmix.kernels import Labels, digamma, log_gamma
from unmix.models.allocation import AllocationTask, Labelled, Sums
from unmix.solvers.base import Stepper


def labels_of(S: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Labels of the tokens of nonzeros, from how many of each nonzero's tokens have each label (nonzeros × K)."""
    topics = np.tile(np.arange(S.shape[1], dtype=np.uint16), len(S))
    return np.repeat(topics, S.ravel())


def rounded(x: Floats, rho: Floats) -> NDArray[np.int64]:
    """x ρ to whole numbers with the same sums, by largest remainders."""
    target = x[:, None] * rho
    whole = np.floor(target + 1e-9)
    missing = np.rint(x - whole.sum(axis=1)).astype(np.int64)
    rank = np.argsort(np.argsort(whole - target, axis=1, kind="stable"), axis=1)
    S = whole.astype(np.int64) + (rank < missing[:, None])
    for row in np.flatnonzero(S.sum(axis=1) != x):  # the floor was helped over a whole number that was not there
        S[row, S[row].argmax()] += int(x[row]) - S[row].sum()
    return S


def labels_by_shares(
    task: AllocationTask, P: Floats, Q: Floats, chains: int = 1, rng: np.random.Generator | None = None
) -> Labels:
    """Labels with topics in the shares ρ ∝ P Q of each nonzero: drawn for each chain, or without `rng` rounded."""

    def of_chain() -> NDArray[np.uint16]:
        found = [np.zeros(0, np.uint16)]
        for x, i, j, _ in nonzeros(task.sides.left):
            rho = shares(P[i], Q[j])
            found.append(labels_of(rounded(x, rho) if rng is None else rng.multinomial(x.astype(np.int64), rho)))
        return np.concatenate(found)

    return task.labels(np.stack([of_chain() for _ in range(chains)]))


def restored_labels(task: AllocationTask, saved: Record, chains: int) -> Labels:
    labels = saved["labels"]
    check_shape("labels", labels, (chains, int(task.X.total)))
    if labels.dtype != np.uint16 or labels.max(initial=0) >= task.model.n_topics:
        raise ValueError(f"labels are not numbers of {task.model.n_topics} topics")
    return task.labels(labels.copy())


# Best latent decomposition: the S, real instead of whole, of the highest log p(S).
#
# With S_ijk = x_ij ρ_ijk, Σ_k ρ_ijk = 1, the gradient of ℓ(S) by S_ijk is a difference of two parts, none negative if β >= 1:
#
#     G⁺_ijk = ψ(β_k + S_ik) − ψ(S_ijk + 1)         G⁻_jk = ψ(α₊ + S_k) − ψ(α_j + S_jk)
#     pos_ijk = G⁺_ijk + Σ_c ρ_ijc G⁻_jc            neg_ijk = G⁻_jk + Σ_c ρ_ijc G⁺_ijc
#
#     free       ρ_ijk ← ρ_ijk (pos / neg)^ε, then normalised; ρ is stored, nonzeros × K
#     factored   ρ_ijk ∝ P_ik Q_jk;   P_ik ← P_ik (Σ_j S pos / Σ_j S neg)^ε, then Q_jk likewise with sums over i
#
# ε = 1 is halved until ℓ does not fall, so it never falls. It rises for a small ε, since (pos − neg) log(pos / neg) >= 0.

BLOCK = 1 << 16  # nonzeros taken together, for memory
LEAST_EXPONENT = 1e-4
TINY = 1e-150  # the smallest share of a topic in a count, so that no topic is lost for good

M = TypeVar("M", bound=Sums)


@dataclass(frozen=True, kw_only=True)
class Free(Sums):
    """`rho` is the share of each topic in each nonzero."""

    rho: Floats

    def allocation(self, side: Side) -> Floats:
        return side.rows.data[:, None] * self.rho


@dataclass(frozen=True, kw_only=True)
class Factored(Sums):
    P: Floats
    Q: Floats

    def allocation(self, side: Side) -> Floats:
        S = side.responsibilities(self.P, self.Q)
        S *= side.rows.data[:, None]
        return S


def parts(x: Floats, rho: Floats, plus: Floats, minus: Floats) -> tuple[Floats, Floats]:
    """pos and neg of nonzeros, given ψ(β_k + S_ik) and G⁻_jk of each."""
    plus = plus - digamma(x[:, None] * rho + 1)
    pos = plus + (rho * minus).sum(axis=1, keepdims=True)
    neg = minus + (rho * plus).sum(axis=1, keepdims=True)
    return pos, neg


def log_factorials(x: Floats, rho: Floats) -> float:
    return float(log_gamma(x[:, None] * rho + 1).sum())


@dataclass(frozen=True)
class FreeBLD(Stepper[AllocationTask, Free]):
    """ρ stored: nonzeros × K numbers."""

    def begin(self, task: AllocationTask, P: Floats, Q: Floats) -> Free:
        """At ρ ∝ P Q."""
        return self.start(task, task.sides.left.responsibilities(P, Q))

    def start(self, task: AllocationTask, rho: Floats) -> Free:
        return self._at(task, np.maximum(rho, TINY))

    def restore(self, task: AllocationTask, saved: Record) -> Free:
        check_shape("rho", saved["rho"], (task.X.nnz, task.model.n_topics))
        return self.start(task, saved["rho"])

    def step(self, task: AllocationTask, state: Free) -> Free:
        plus, minus = task.gradients(state)
        ratio = np.ones_like(state.rho)
        for x, i, j, block in nonzeros(task.sides.left):
            pos, neg = parts(x, state.rho[block], plus[i], minus[j])
            np.divide(pos, neg, out=ratio[block], where=neg != 0)  # where there is one feature, nothing can gain
        np.maximum(ratio, 0, out=ratio)  # ψ(β) is negative for small β: such entries go to the floor
        return backtrack(state, lambda exponent: self._moved(task, state, ratio, exponent))

    def _moved(self, task: AllocationTask, state: Free, ratio: Floats, exponent: float) -> Free:
        rho = state.rho * (ratio if exponent == 1 else ratio**exponent)
        np.maximum(rho, TINY, out=rho)
        rho /= rho.sum(axis=1, keepdims=True)
        return self._at(task, rho)

    def _at(self, task: AllocationTask, rho: Floats) -> Free:
        by_feature, by_sample = task.over_columns @ rho, task.over_rows @ rho
        factorials = sum(log_factorials(x, rho[block]) for x, _, _, block in nonzeros(task.sides.left))
        loss = task.loss(by_feature, by_sample, factorials)
        return Free(loss=loss, rho=rho, by_feature=by_feature, by_sample=by_sample)


@dataclass(frozen=True)
class FactoredBLD(Stepper[AllocationTask, Factored]):
    """ρ ∝ P Q: (n + m) × K numbers, and a block of nonzeros × K at a time (the paper's section 3)."""

    def begin(self, task: AllocationTask, P: Floats, Q: Floats) -> Factored:
        return self._at(task, np.maximum(P, TINY), np.maximum(Q, TINY))

    def restore(self, task: AllocationTask, saved: Record) -> Factored:
        (n, m), K = task.X.shape, task.model.n_topics
        check_shape("P", saved["P"], (n, K))
        check_shape("Q", saved["Q"], (m, K))
        return self.begin(task, saved["P"], saved["Q"])

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
        above, below = np.zeros_like(moving), np.zeros_like(moving)
        for x, i, j, _ in nonzeros(side):
            rho = shares(moving[i], fixed[j])
            pos, neg = parts(x, rho, *((other[j], own[i]) if transposed else (own[i], other[j])))
            gather = sp.csr_array((x, (i, np.arange(len(x)))), shape=(len(moving), len(x)))
            above += gather @ (rho * pos)
            below += gather @ (rho * neg)
        counted = below > 0  # not samples and features without counts
        return np.maximum(np.divide(above, below, out=np.ones_like(moving), where=counted), 0)

    @staticmethod
    def _at(task: AllocationTask, P: Floats, Q: Floats) -> Factored:
        A, B, _ = task.sides.both_numerators(P, Q)
        by_sample, by_feature = P * A, Q * B
        factorials = sum(log_factorials(x, shares(P[i], Q[j])) for x, i, j, _ in nonzeros(task.sides.left))
        loss = task.loss(by_feature, by_sample, factorials)
        return Factored(loss=loss, P=P, Q=Q, by_feature=by_feature, by_sample=by_sample)


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


def nonzeros(side: Side) -> Iterator[tuple[Floats, NDArray[np.intp], NDArray[np.int32], slice]]:
    """Some nonzeros at a time: counts, samples, features, and where they are."""
    for start in range(0, len(side.owners), BLOCK):
        block = slice(start, min(start + BLOCK, len(side.owners)))
        yield side.rows.data[block], side.owners[block], side.rows.indices[block], block


# Iterated conditional modes: single tokens move while log p(S) rises.
#
# Without the token, topic k would multiply p(S) by
#
#     (α_j + S_jk)(β_k + S_ik) / ((α₊ + S_k)(S_ijk + 1)).
#
# A token moves only if another topic beats its own, so log p(S) rises with every move and the moves come to an end.
# Without 1/(S_ijk + 1) this would optimise labels, not the tensor S, for which Π x! / Π S! labelings stand.


@dataclass(frozen=True)
class ICM(Stepper[AllocationTask, Labelled]):
    def begin(self, task: AllocationTask, P: Floats, Q: Floats) -> Labelled:
        """At counts in the shares ρ ∝ P Q, rounded."""
        return self.start(task, labels_by_shares(task, P, Q))

    def start(self, task: AllocationTask, held: Labels) -> Labelled:
        return Labelled(loss=-task.log_joints(held)[0], held=held)

    def restore(self, task: AllocationTask, saved: Record) -> Labelled:
        return self.start(task, restored_labels(task, saved, chains=1))

    def greedy(self, task: AllocationTask, rng: np.random.Generator) -> Labelled:
        """A first assignment: nonzeros in random order, each token where it gains most."""
        X, model = task.X, task.model
        held = Labels.empty(X.rows, X.shape, model.n_topics, 1)
        kernels.greedy(X.rows, model.alpha, model.beta, rng.permutation(X.nnz), held)
        return self.start(task, held)

    def step(self, task: AllocationTask, state: Labelled) -> Labelled:
        """A sweep over all tokens; final once none moves."""
        held, model = state.held.copy(), task.model
        moved = kernels.icm(task.X.rows, model.alpha, model.beta, held)
        return Labelled(loss=-task.log_joints(held)[0], held=held, final=moved == 0, note=f"{moved} moved")
