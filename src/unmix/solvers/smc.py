"""The evidence log p(X) of the allocation model: by a particle filter over tokens, or exactly where X is tiny.

    p(X) = Π_i p(t_i) t_i! / Π x! · p(tokens),     p(tokens) = Σ over labelings of Pólya's urn

The filter labels the tokens one after another; the mean of its particles' weights is unbiased for p(tokens).
Exactly: p(X) = Σ_S p(S) over all Π C(x + K − 1, K − 1) tensors.
"""

from __future__ import annotations

from itertools import combinations
from math import comb, prod
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from unmix import memory
from unmix.counts import Counts
from unmix.kernels import sampling
from unmix.models.allocating import check_labels
from unmix.models.allocation import Allocation
from unmix.threads import threads

MOST_TENSORS = 10**6


class Evidence(float):
    """log p(X), a number, with the standard error of the estimate on this scale (0 if exact, NaN if there was a single run)."""

    standard_error: float
    runs: tuple[float, ...]  # the estimate of each

    def __new__(cls, value: float, standard_error: float, runs: tuple[float, ...] = ()) -> Self:
        evidence = super().__new__(cls, value)
        evidence.standard_error, evidence.runs = standard_error, runs
        return evidence

    def __repr__(self) -> str:
        return f"Evidence({float(self):.4f} ± {self.standard_error:.2g})"

    @property
    def value(self) -> float:
        return float(self)


def smc_evidence(X: Counts, model: Allocation, *, particles: int, runs: int, rng: np.random.Generator) -> Evidence:
    """log of the mean of `runs` independent unbiased estimates of p(X). Samples, and tokens within them, come in random order."""
    check_labels(X, model.n_topics, 1, "the particle filter")
    padded = -(-model.n_topics // 4) * 4
    at_once = min(runs, threads())
    memory.require(
        at_once * 4.0 * particles * padded * (X.shape[1] + 2) + 12 * X.total,
        f"{particles:,} particles of {X.shape[1]:,} features × {model.n_topics} topics",
        "use fewer particles (more runs instead), or n_jobs=1",
    )
    rows, columns = _shuffled_tokens(X, rng)
    random = sampling.seeds(rng, runs)
    logs = sampling.particle_filter(rows, columns, model.alpha, model.beta, random, particles=particles)
    logs += model.log_sizes(X.sample_totals) - X.log_factorials
    value = float(logsumexp(logs) - np.log(runs))
    relative = np.exp(logs - value)
    error = float(relative.std(ddof=1) / np.sqrt(runs)) if runs > 1 else np.nan
    return Evidence(value, error, tuple(logs.tolist()))


def _shuffled_tokens(X: Counts, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    counts = X.rows.data.astype(np.int64)
    rows, columns = np.repeat(X.sides().left.owners, counts), np.repeat(X.rows.indices, counts)
    order = rng.permutation(len(rows))
    order = order[np.argsort(rng.permutation(X.shape[0])[rows[order]], kind="stable")]
    return rows[order].astype(np.int64), columns[order]


def exact_evidence(X: Counts, model: Allocation) -> Evidence:
    """By enumeration of every tensor S."""
    check_labels(X, model.n_topics, 1, "the exact sum")
    K = model.n_topics
    tensors = prod(comb(int(x) + K - 1, K - 1) for x in X.rows.data)
    if tensors > MOST_TENSORS:
        size = f"{tensors:,}" if tensors < 10**15 else f"about 10^{len(str(tensors)) - 1}"
        raise ValueError(
            f'the exact evidence would need {size} tensors, more than {MOST_TENSORS:,}; use method="smc", or less data'
        )
    n, m = X.shape
    tables = np.zeros((1, (n + m) * K), np.int32)  # S_ik, then S_jk, of every tensor so far
    factorials = np.zeros(1)
    for i, j, x in zip(X.sides().left.owners, X.rows.indices, X.rows.data, strict=True):
        ways = compositions(int(x), K)
        tables = np.repeat(tables, len(ways), axis=0)
        added = np.tile(ways, (len(factorials), 1))
        tables[:, i * K : (i + 1) * K] += added
        tables[:, (n + j) * K : (n + j + 1) * K] += added
        factorials = np.add.outer(factorials, gammaln(ways + 1.0).sum(axis=1)).ravel()
    logs = []
    for start in range(0, len(tables), 1 << 14):
        block = slice(start, start + (1 << 14))
        by_sample = tables[block, : n * K].reshape(-1, n, K)
        by_feature = tables[block, n * K :].reshape(-1, m, K)
        ell = gammaln(model.beta + by_sample).sum(axis=(1, 2)) + gammaln(model.alpha[:, None] + by_feature).sum(
            axis=(1, 2)
        )
        ell -= gammaln(model.alpha.sum() + by_feature.sum(axis=1)).sum(axis=1) + factorials[block]
        logs.append(logsumexp(ell))
    return Evidence(float(logsumexp(logs)) + model.log_constant(X.sample_totals), 0.0)


def compositions(x: int, parts: int) -> NDArray[np.int32]:
    """All ways to write x as a sum of `parts` whole numbers >= 0, one a row: bars among x + parts − 1 places."""
    bars = np.array(list(combinations(range(x + parts - 1), parts - 1)), dtype=np.int32)
    ends = np.full((len(bars), 1), x + parts - 1, np.int32)
    return (np.diff(np.hstack([np.full_like(ends, -1), bars, ends]), axis=1) - 1).astype(np.int32)
