"""How much more counts vary than Poisson ones: var x = λ + λ²/b.

    φ = Σ (x − λ)² / Σ λ        b = Σ λ² / (Σ (x − λ)² − Σ λ)        φ = 1 + (Σ λ² / Σ λ) / b

over all entries, zeros too. The sums need the nonzeros and two Gram matrices only: Σ λ² = Σ_kl (LᵀL)_kl (FᵀF)_kl, and
Σ (x − λ)² = Σ x² − 2 Σ x λ + Σ λ². Every count weighs alike in φ. Pearson's Σ (x − λ)² / λ, in which every entry does, stays at 1
where most entries are expected to be zero, however much the others vary.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from unmix.counts import Counts
from unmix.estimators.likelihood import PoissonNMF
from unmix.estimators.path import fits_downwards
from unmix.models.problem import Problem
from unmix.solvers.init import known_factors
from unmix.threads import use_threads
from unmix.types import Factor, Floats, Integers

ROUGH = 1e-4  # tolerance of what b is estimated from


class Dispersion(NamedTuple):
    """The three sums. Those of several fits, or parts of the data, can be added up."""

    squares: float  # Σ (x − λ)²
    rates: float  # Σ λ
    squared_rates: float  # Σ λ²

    @classmethod
    def added(cls, several: Iterable[Iterable[float]]) -> Dispersion:
        return cls(*(float(sum(terms)) for terms in zip(*several, strict=True)))

    @property
    def phi(self) -> float:
        return self.squares / self.rates if self.rates > 0 else float("nan")

    @property
    def inverse(self) -> float:
        """1 / b, no less than 0."""
        return max(self.squares - self.rates, 0) / self.squared_rates if self.squared_rates > 0 else 0.0


def dispersion(X: Counts, L: Factor, F: Factor, weights: Floats | None = None) -> Dispersion:
    """Of counts around the rates L Fᵀ; samples may have weights."""
    L, F = L.astype(np.float64, copy=False), F.astype(np.float64, copy=False)
    left = X.sides().left
    w = np.ones(len(L)) if weights is None else weights
    squared_rates = float((((w[:, None] * L).T @ L) * (F.T @ F)).sum())
    x, weighted = X.rows.data, w[left.owners] * X.rows.data
    with np.errstate(divide="ignore"):
        rates = x / left.ratios(L, F)  # of a rate of zero the ratio is infinite
    squares = float(weighted @ x) - 2 * float(weighted @ rates) + squared_rates
    return Dispersion(max(squares, 0.0), float(w @ (L @ F.sum(axis=0))), squared_rates)


def around_fit(X: Counts, L: Factor, F: Factor) -> Dispersion:
    """The same around rates that were fitted to these counts, which took away some of their variation."""
    (n, m), K, found = X.shape, L.shape[1], dispersion(X, L, F)
    taken = n * m / (max(n - K, 1) * max(m - K, 1))
    return found._replace(squares=taken * found.squares)


def estimated_overdispersion(
    X: Counts, numbers: Iterable[int], rng: np.random.Generator, n_jobs: int | None = None
) -> float | None:
    """b, from counts that no fit has seen; None where they vary no more than Poisson ones.

    Factors are fitted to half of the samples. Of the others, loadings are found from half of the features, and counts of the
    rest are compared with their rates; and with halves exchanged. Topics that are missing, and topics made of noise, both leave
    more variation than there is, so the number of topics that leaves least is taken.
    """
    one, two = (X.take(np.sort(rows)) for rows in np.array_split(rng.permutation(X.shape[0]), 2))
    most = min(len(one), len(two), X.shape[1] // 2)
    tried = [K for K in numbers if most >= K] or [1]
    model = PoissonNMF(tol=ROUGH, n_jobs=n_jobs, random_state=int(rng.integers(2**31)))
    found: dict[int, list[Dispersion]] = {K: [] for K in tried}
    for fitted, others in ((one, two), (two, one)):
        features = rng.permutation(np.flatnonzero(fitted.feature_totals > 0))
        halves = [np.sort(half) for half in np.array_split(features, 2)]
        for K, fit in fits_downwards(fitted, tried, model):
            with use_threads(n_jobs):
                found[K] += [_unseen(others, fit.F, *pair) for pair in (halves, halves[::-1])]
    least = min(Dispersion.added(parts).inverse for parts in found.values())
    return 1 / least if least > 0 else None


def _unseen(X: Counts, F: Factor, known: Integers, foretold: Integers) -> Dispersion:
    """Of some features around rates from others. Samples weigh 1 / (t + median t)²: a few large ones, with topics of their own,
    would be all there is to see."""
    shown, hidden = (Counts.trusted(X.csr[:, columns]) for columns in (known, foretold))
    factors: Floats = F.astype(np.float64, copy=False)
    L = known_factors(Problem(shown, F.shape[1]), factors[known], rounds=30, tolerance=ROUGH)
    weights = (X.sample_totals + max(float(np.median(X.sample_totals)), 1.0)) ** -2
    return dispersion(hidden, L, factors[foretold], weights)
