"""Did the chains mix? Split R̂ and the effective sample size of a traced number (Gelman et al., BDA3, chapter 11).

Chains are cut in half, so that a slow drift shows as a difference between halves. With W the mean variance within the halves
and B their variance between, V = (n−1)/n W + B/n, and ρ_t the autocorrelation at lag t,

    R̂ = sqrt(V / W)        ESS = c n / (1 + 2 Σ_t ρ_t),

the sum taken while pairs ρ_2t + ρ_2t+1 stay positive, and kept from rising (Geyer's initial monotone sequence).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unmix.types import Floats

FEWEST = 8  # draws per chain, to say anything


@dataclass(frozen=True)
class Diagnostics:
    """`ess`: independent draws that log p(S) of the kept sweeps is worth; `rhat`: near 1 where chains agree (< 1.05, say)."""

    ess: float
    rhat: float


def diagnose(draws: ArrayLike) -> Diagnostics:
    """Of chains × draws; NaN where there are too few to tell."""
    halves = split(draws)
    if halves.shape[1] < FEWEST // 2:
        return Diagnostics(np.nan, np.nan)
    within, variance = _variances(halves)
    if variance <= 0 or within <= 0:
        same = variance <= 0  # constant chains: all the same, or each stuck at its own value
        return Diagnostics(float(halves.size) if same else 1.0, 1.0 if same else np.inf)
    return Diagnostics(effective_size(halves), float(np.sqrt(variance / within)))


def split(draws: ArrayLike) -> Floats:
    """First and second half of every chain; an odd draw in the middle is left out."""
    draws = np.atleast_2d(np.asarray(draws, dtype=np.float64))
    half = draws.shape[1] // 2
    return np.vstack([draws[:, :half], draws[:, draws.shape[1] - half :]])


def effective_size(chains: Floats) -> float:
    count, n = chains.shape
    within, variance = _variances(chains)
    covariance = np.mean([_autocovariance(chain) for chain in chains], axis=0)
    rho = 1 - (within - covariance * n / (n - 1)) / variance
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    time = 2 * np.minimum.accumulate(pairs[: max(positive, 1)]).sum() - 1
    return float(count * n / max(time, 1 / np.log10(count * n)))


def _variances(chains: Floats) -> tuple[float, float]:
    """W, and V."""
    count, n = chains.shape
    within = float(chains.var(axis=1, ddof=1).mean())
    between = float(chains.mean(axis=1).var(ddof=1)) if count > 1 else 0.0  # this is B / n
    return within, (n - 1) / n * within + between


def _autocovariance(chain: Floats) -> Floats:
    n = len(chain)
    spectrum = np.fft.rfft(chain - chain.mean(), 2 * n)
    return np.fft.irfft(spectrum * spectrum.conj())[:n] / n
