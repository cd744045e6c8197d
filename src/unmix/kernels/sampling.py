"""Kernels of the allocation model: labels of single counts (tokens), and digamma and log-gamma on whole arrays.

Tokens stand in row order, the x_ij tokens of a nonzero side by side. `Labels` holds several independent chains: threads take a
chain each, so results do not depend on their number; nor do they depend on the instruction set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unmix.base.threads import threads
from unmix.base.types import Floats
from unmix.kernels import CSR, _native


@dataclass(frozen=True)
class Labels:
    """One label a token, and how many tokens of each feature, of each sample and in all have label k, for every chain.

    The tables have K columns, padded with zeros to a multiple of 4. Kernels change all four arrays in place.
    """

    topics: int
    labels: NDArray[np.uint16]  # chains × tokens
    by_feature: NDArray[np.int32]  # chains × m × padded K
    by_sample: NDArray[np.int32]  # chains × n × padded K
    by_topic: NDArray[np.int32]  # chains × padded K

    @classmethod
    def empty(cls, rows: CSR, shape: tuple[int, int], topics: int, chains: int) -> Self:
        """All labels 0, all tables zero, as `greedy` wants them."""
        padded = -(-topics // 4) * 4
        return cls(
            topics,
            np.zeros((chains, int(rows.data.sum())), np.uint16),
            np.zeros((chains, shape[1], padded), np.int32),
            np.zeros((chains, shape[0], padded), np.int32),
            np.zeros((chains, padded), np.int32),
        )

    @classmethod
    def of(cls, rows: CSR, shape: tuple[int, int], topics: int, labels: NDArray[np.uint16]) -> Self:
        """With tables counted from the labels (chains × tokens), which are taken as they are, not copied."""
        none = cls.empty(rows._replace(data=rows.data[:0]), shape, topics, len(labels))
        held = cls(topics, labels, *none.tables)
        _native.tally(rows.handle, topics, *held.arrays, threads())
        return held

    @property
    def chains(self) -> int:
        return len(self.labels)

    @property
    def tables(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        return self.by_feature, self.by_sample, self.by_topic

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.labels, *self.tables

    def copy(self) -> Self:
        return type(self)(self.topics, *(array.copy() for array in self.arrays))


def seeds(rng: np.random.Generator, chains: int) -> NDArray[np.uint64]:
    """The states of `chains` generators xoshiro256++, which `gibbs` and `particle_filter` move on."""
    return rng.integers(1, 2**64, (chains, 4), dtype=np.uint64)


def gibbs(
    rows: CSR,
    alpha: Floats,
    beta: Floats,
    state: Labels,
    random: NDArray[np.uint64],
    *,
    sweeps: int = 1,
) -> None:
    """`sweeps` of the collapsed sampler: each token is taken out and put back with probability in proportion to
    (α_j + n_jk)(β_k + n_ik) / (α₊ + n_k), counts without it."""
    _native.gibbs(rows.handle, alpha, beta, *state.arrays, random, sweeps, threads())


def icm(rows: CSR, alpha: Floats, beta: Floats, state: Labels) -> int:
    """One sweep that moves each token to the topic that raises log p(S) most, if any does; returns how many moved."""
    return int(_native.icm(rows.handle, alpha, beta, *state.arrays))


def greedy(rows: CSR, alpha: Floats, beta: Floats, order: NDArray[np.int64], state: Labels) -> None:
    """Fills an empty state: nonzeros come in this order, and each of their tokens goes where log p(S) gains most."""
    _native.greedy(rows.handle, alpha, beta, order, *state.arrays)


def log_factorials(rows: CSR, state: Labels) -> Floats:
    """Σ_ijk log S_ijk! of every chain."""
    out = np.empty(state.chains)
    _native.log_factorials(rows.handle, state.topics, state.labels, out, threads())
    return out


def particle_filter(
    token_rows: NDArray[np.int64],
    token_columns: NDArray[np.int32],
    alpha: Floats,
    beta: Floats,
    random: NDArray[np.uint64],
    *,
    particles: int,
) -> Floats:
    """log of unbiased estimates, one a generator, of the probability of the tokens (given how many each sample has).

    The tokens of a sample must come side by side.
    """
    out = np.empty(len(random))
    _native.filter(token_rows, token_columns, alpha, beta, random, out, particles, threads())
    return out


def digamma(x: Floats) -> Floats:
    """ψ(x), x > 0."""
    return _elementwise(_native.digamma, x)


def log_gamma(x: Floats) -> Floats:
    """log Γ(x), x > 0."""
    return _elementwise(_native.log_gamma, x)


def _elementwise(kernel: Callable[..., None], x: Floats) -> Floats:
    x = np.ascontiguousarray(x, dtype=np.float64)
    out = np.empty(x.shape)
    kernel(x.reshape(-1), out.reshape(-1), threads())
    return out
