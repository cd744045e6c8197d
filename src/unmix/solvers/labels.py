"""Labels to start from: by the shares of topics in each nonzero, or as they were saved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unmix.counts import Counts
from unmix.kernels.sampling import Labels
from unmix.models.allocating import AllocationTask
from unmix.solvers.bld import blocks, check_shape
from unmix.types import Floats, Record

Ints = NDArray[np.int64]


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


def labels_by_shares(
    X: Counts, shares: Callable[[slice], Floats], assign: Callable[[Floats, Floats], Ints]
) -> NDArray[np.uint16]:
    """`assign(x, rho)` makes whole numbers of the shares `shares(block)` of each block of nonzeros."""
    return np.concatenate(
        [labels_of(assign(X.rows.data[block], shares(block))) for block in blocks(X.nnz)] or [np.zeros(0, np.uint16)]
    )


def restored_labels(task: AllocationTask, saved: Record, chains: int) -> Labels:
    labels = saved["labels"]
    check_shape("labels", labels, (chains, int(task.X.total)))
    if labels.dtype != np.uint16 or labels.max(initial=0) >= task.model.n_topics:
        raise ValueError(f"labels are not numbers of {task.model.n_topics} topics")
    return task.labels(labels.copy())
