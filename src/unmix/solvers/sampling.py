"""Gibbs sampling of labels: chains, averages, diagnostics, and evidence by particle filters.

Did the chains mix? Split R̂ and the effective sample size of a traced number (Gelman et al., BDA3, chapter 11).

Chains are cut in half, so that a slow drift shows as a difference between halves. With W the mean variance within the halves
and B their variance between, V = (n−1)/n W + B/n, and ρ_t the autocorrelation at lag t,

    R̂ = sqrt(V / W)        ESS = c n / (1 + 2 Σ_t ρ_t),

the sum taken while pairs ρ_2t + ρ_2t+1 stay positive, and kept from rising (Geyer's initial monotone sequence).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb, prod
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

from unmix import kernels
from unmix.base import memory
from unmix.base.checks import parameter
from unmix.base.threads import threads
from unmix.base.types import Floats, Record
from unmix.counts.counts import Counts
from unmix.kernels import Labels
from unmix.models.allocation import Allocation, AllocationTask, Averages, Chains, check_labels
from unmix.solvers.allocation import restored_labels
from unmix.solvers.base import Stepper

FEWEST = 8  # draws per chain, to say anything


@dataclass(frozen=True)
class Diagnostics:
    """`ess`: independent draws that log p(S) of the kept sweeps is worth; `rhat`: near 1 where chains agree (< 1.05, say)."""

    ess: float
    rhat: float


def diagnose(draws: ArrayLike) -> Diagnostics:
    """Of chains × draws; NaN where there are too few to decide."""
    draws = np.atleast_2d(np.asarray(draws, dtype=np.float64))
    n = draws.shape[1] // 2  # an odd draw in the middle is omitted
    if n < FEWEST // 2:
        return Diagnostics(np.nan, np.nan)
    halves = np.vstack([draws[:, :n], draws[:, -n:]])
    within = float(halves.var(axis=1, ddof=1).mean())
    variance = (n - 1) / n * within + float(halves.mean(axis=1).var(ddof=1))
    if variance <= 0 or within <= 0:
        same = variance <= 0  # constant chains: all the same, or each stuck at its own value
        return Diagnostics(float(halves.size) if same else 1.0, 1.0 if same else np.inf)
    covariance = np.mean([_autocovariance(half) for half in halves], axis=0)
    rho = 1 - (within - covariance * n / (n - 1)) / variance
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    time = 2 * np.minimum.accumulate(pairs[: max(positive, 1)]).sum() - 1
    return Diagnostics(float(halves.size / max(time, 1 / np.log10(halves.size))), float(np.sqrt(variance / within)))


def _autocovariance(chain: Floats) -> Floats:
    n = len(chain)
    spectrum = np.fft.rfft(chain - chain.mean(), 2 * n)
    return np.fft.irfft(spectrum * spectrum.conj())[:n] / n


# Collapsed Gibbs sampling of the labels, several chains at once (Griffiths and Steyvers; LDA's sampler).
#
# Topics, proportions and sizes are integrated out; `models/allocation.py` says what is averaged over sweeps.


@dataclass
class Sampler:
    """Chains of labels, which sweeps change in place, and sums over the sweeps that were kept."""

    task: AllocationTask
    held: Labels
    random: NDArray[np.uint64]
    averages: Averages | None = None

    def sweep(self, count: int = 1) -> None:
        task, model = self.task, self.task.model
        kernels.gibbs(task.X.rows, model.alpha, model.beta, self.held, self.random, sweeps=count)

    def keep(self, logs: bool = False, allocation: bool = False) -> None:
        now = self.task.moments(self.held, logs, allocation)
        self.averages = now if self.averages is None else self.averages + now


def moments_rhat(mean: Floats, square: Floats) -> float:
    """√((within + between) / within), of variances summed over all numbers; chains come first. NaN of a single chain."""
    if len(mean) == 1:
        return float("nan")
    within, between = (square - mean**2).mean(axis=0).sum(), mean.var(axis=0, ddof=1).sum()
    return float(np.sqrt(1 + between / within)) if within > 0 else 1.0


@dataclass(frozen=True)
class Gibbs(Stepper[AllocationTask, Chains]):
    """One sweep of every chain a step. With `thin`, every thin-th sweep is kept; without, none: the burn-in."""

    thin: int | None = field(default=None, repr=False)
    chains: int = field(default=1, repr=False)

    def start(self, task: AllocationTask, held: Labels, random: NDArray[np.uint64]) -> Chains:
        loss = -float(np.mean(task.log_joints(held)))
        return Chains(loss=loss, held=held, random=random, history=[], sweeps=0, burnt=0)

    def restore(self, task: AllocationTask, saved: Record) -> Chains:
        return Chains(
            loss=saved["loss"],
            held=restored_labels(task, saved, self.chains),
            random=saved["random"],
            history=[tuple(sweep) for sweep in saved["history"].tolist()],
            sweeps=len(saved["history"]),
            burnt=saved["burnt"],
            averages=Averages(**saved["averages"]) if "averages" in saved else None,
        )

    def step(self, task: AllocationTask, state: Chains) -> Chains:
        sampler = Sampler(task, state.held.copy(), state.random.copy(), state.averages)
        sampler.sweep()
        log_joints, sweeps = task.log_joints(sampler.held), state.sweeps + 1
        state.history[state.sweeps :] = [log_joints]
        if self.thin is not None and (sweeps - state.burnt) % self.thin == 0:
            sampler.keep(allocation=True)
        loss, burnt = -float(np.mean(log_joints)), sweeps if self.thin is None else state.burnt
        state = replace(state, loss=loss, sweeps=sweeps, burnt=burnt)
        return replace(state, held=sampler.held, random=sampler.random, averages=sampler.averages)


def samples_table(state: Chains) -> pd.DataFrame:
    """log p(S) of every chain after every sweep; `kept` is False in the burn-in."""
    sweep, chain = (places.T.ravel() + 1 for places in np.indices(state.log_joints.shape))
    columns = {"chain": chain, "sweep": sweep, "log_joint": state.log_joints.T.ravel(), "kept": sweep > state.burnt}
    return pd.DataFrame(columns)


# The evidence log p(X) of the allocation model: by a particle filter over tokens, or exactly where X is tiny.
#
#     p(X) = Π_i p(t_i) t_i! / Π x! · p(tokens),     p(tokens) = Σ over labelings of Pólya's urn
#
# The filter labels the tokens one after another; the mean of its particles' weights is unbiased for p(tokens).
# Exactly: p(X) = Σ_S p(S) over all Π C(x + K − 1, K − 1) tensors.

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


def smc_evidence(X: Counts, model: Allocation, *, particles: int, runs: int, rng: np.random.Generator) -> Evidence:
    """log of the mean of `runs` independent unbiased estimates of p(X). Samples, and tokens within them, come in random
    order."""
    check_labels(X, model.n_topics, 1, "the particle filter")
    padded = -(-model.n_topics // 4) * 4
    at_once = min(runs, threads())
    memory.require(
        at_once * 4.0 * particles * padded * (X.shape[1] + 2) + 12 * X.total,
        f"{particles:,} particles of {X.shape[1]:,} features × {model.n_topics} topics",
        f"use fewer particles (more runs instead), or {parameter('n_jobs', 1)}",
    )
    rows, columns = _shuffled_tokens(X, rng)
    random = kernels.seeds(rng, runs)
    logs = kernels.particle_filter(rows, columns, model.alpha, model.beta, random, particles=particles)
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
    """All ways to write x as a sum of `parts` whole numbers >= 0, one per row: bars among x + parts − 1 places."""
    bars = np.array(list(combinations(range(x + parts - 1), parts - 1)), dtype=np.int32)
    ends = np.full((len(bars), 1), x + parts - 1, np.int32)
    return (np.diff(np.hstack([np.full_like(ends, -1), bars, ends]), axis=1) - 1).astype(np.int32)
