"""Labelled tokens as stages of the loop: what ICM and Gibbs share.

A state of labels stands for the tensor S_ijk = number of tokens of (i, j) with label k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmix import memory
from unmix.counts import Counts
from unmix.kernels.sampling import Labels
from unmix.models.allocation import Allocation, check_labelable
from unmix.solvers.base import Stage
from unmix.solvers.bld import blocks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Labelled(Stage):
    """Every token has a label. A fit remembers the labels; the tables can be counted again."""

    held: Labels

    def as_dict(self) -> dict[str, Any]:
        return {"loss": self.loss, "conclusive": self.conclusive, "note": self.note, "labels": self.held.labels}


def check_labels(X: Counts, n_topics: int, chains: int, purpose: str) -> None:
    """Refuse counts that cannot be labelled, and more labels than memory can hold."""
    check_labelable(X, purpose)
    if X.total >= 2**31 or n_topics >= 2**16:
        raise ValueError(
            f"{X.total:,.0f} counts and {n_topics:,} topics; {purpose} labels up to {2**31 - 1:,} counts with "
            f'{2**16 - 1:,} topics: use method="bld"'
        )
    padded = -(-n_topics // 4) * 4
    needed = 2 * chains * (2 * X.total + 4 * padded * (sum(X.shape) + 1))  # the state before and the one after
    memory.require(needed, f"{chains} chain(s) of {X.total:,.0f} labels", 'use fewer chains or topics, or method="bld"')


def by_feature(held: Labels, chain: int = 0) -> Floats:
    return held.by_feature[chain, :, : held.topics].astype(np.float64)


def by_sample(held: Labels, chain: int = 0) -> Floats:
    return held.by_sample[chain, :, : held.topics].astype(np.float64)


def labels_of(S: NDArray[np.integer]) -> NDArray[np.uint16]:
    """Labels of the tokens of nonzeros, from how many of each nonzero's tokens have each label (nonzeros × K)."""
    topics = np.tile(np.arange(S.shape[1], dtype=np.uint16), len(S))
    return np.repeat(topics, S.ravel())


def rounded(x: Floats, rho: Floats) -> Ints:
    """x ρ to whole numbers with the same sums, by largest remainders."""
    target = x[:, None] * rho
    whole = np.floor(target + 1e-9)
    missing = np.rint(x - whole.sum(axis=1)).astype(np.int64)
    rank = np.argsort(np.argsort(whole - target, axis=1, kind="stable"), axis=1)
    S = whole.astype(np.int64) + (rank < missing[:, None])
    for row in np.flatnonzero(S.sum(axis=1) != x):  # the floor was helped over a whole number that was not there
        S[row, S[row].argmax()] += int(x[row]) - S[row].sum()
    return S


def random_labels(model: Allocation, tokens: int, chains: int, rng: np.random.Generator) -> NDArray[np.uint16]:
    return rng.integers(model.n_topics, size=(chains, tokens), dtype=np.uint16)


def labels_by_shares(
    X: Counts, shares: Callable[[slice], Floats], assign: Callable[[Floats, Floats], Ints]
) -> NDArray[np.uint16]:
    """`assign(x, rho)` makes whole numbers of the shares `shares(block)` of each block of nonzeros."""
    return np.concatenate(
        [labels_of(assign(X.rows.data[block], shares(block))) for block in blocks(X.nnz)] or [np.zeros(0, np.uint16)]
    )
