"""Rates with a multiplier, x_ij ~ Poisson(e_gj Σ_k l_ik f_jk), g the group of sample i. At the nonzeros e cancels out of gradient
and curvature; what is left of it are costs that differ from row to row. With u_gk = Σ_{i in g} l_ik, s_gj = Σ_k u_gk f_jk:

    known e        Σ e s − Σ x log(l·f) − Σ x log e
    estimated      Σ_gj [(X+τ) log(s+τ) − log Γ(X+τ) + log Γ(τ) − τ log τ] − Σ x log(l·f)

The second is for e ~ Gamma(τ, τ), integrated out; X_gj are the counts of a group. Its slope in s is ē = (X+τ)/(s+τ), the
posterior mean of e, and its first term is concave in s. So a half-step whose costs

    c_gk = Σ_j e_gj f_jk   of loadings,      d_jk = Σ_g e_gj u_gk   of factors

come from ē at the pair where it starts is majorise–minimise: the loss never rises. With both, s becomes s times what is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma, xlogy

from unmix.base.types import Factor, Floats
from unmix.counts.data import Arrays, Data, Engine, Part, Visit, Visited, with_rows
from unmix.counts.multipliers import Multipliers
from unmix.counts.sides import column_sums

Pull = tuple[Floats, Floats, Floats]  # of a prior at scales: Σ shapes, Σ rate · mean, and their curvature
FIRST_STRENGTH = 1.0  # of effects, before it is learned: too small a one does little harm
LEAST_STRENGTH, LARGEST_STRENGTH = 1e-3, 1e7
STEPS = 30  # of Newton's method for it
TOPIC_STEPS = 50  # towards the single topic of `average_multipliers`


@dataclass(frozen=True, eq=False)
class Rates:
    """The multipliers of a problem. `logs` is Σ x log of what is known; `totals` are X, batches × features, where effects are
    estimated.

    `strength` is τ, 0 where nothing is estimated; `learned` says whether it is."""

    given: Multipliers
    logs: float = 0.0
    totals: Floats | None = None
    strength: float = 0.0
    learned: bool = False
    _constants: dict[float, float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, X: Data, engine: Engine, strength: float | None) -> Rates:
        """Of counts with multipliers; `strength` None to learn it."""
        given = X.multipliers
        assert given is not None
        effects = given.owners is not None
        shared: Arrays = {} if given.known is None else {"known": given.known}
        if effects:
            shared["owners"] = given.owners  # type: ignore[assignment]
        sums = engine.over(X, Totals(len(given.batches) if effects else 0), shared, before={"groups": given.groups})  # type: ignore[arg-type]
        if not effects:
            return cls(given, float(sums["logs"][0]))
        totals = np.ascontiguousarray(sums["totals"])
        return cls(given, float(sums["logs"][0]), totals, strength or FIRST_STRENGTH, strength is None)

    @property
    def groups(self) -> NDArray[np.int32]:
        """The group of every sample."""
        return self.given.groups

    @property
    def estimated(self) -> bool:
        """Whether there are effects of batches."""
        return self.totals is not None

    def with_strength(self, strength: float) -> Rates:
        return replace(self, strength=strength)

    @cached_property
    def _members(self) -> sp.csr_array:
        return members(self.groups, len(self.given.labels))

    def sums(self, L: Factor) -> Floats:
        """u, groups × K."""
        return np.asarray(self._members @ L.astype(np.float64, copy=False))

    def arrays(self, U: Floats, F: Factor) -> dict[str, NDArray[Any]]:
        """What a fit keeps: groups, multipliers and labels; of effects their strength, counts and what is expected without."""
        given = self.given
        kept: dict[str, NDArray[Any]] = {"groups": self.groups, "labels": given.labels}
        kept["multipliers"] = self.multipliers(U, F)
        if given.known is not None and self.estimated:
            kept["known"] = given.known
        if self.totals is not None and given.owners is not None and given.batches is not None:
            kept |= {"owners": given.owners, "batches": given.batches, "strength": np.array([self.strength])}
            kept |= {"counts": self.totals, "expected": self.by_batch(self.expected(U, F))}
        return kept

    def expected(self, U: Floats, F: Factor) -> Floats:
        """s, groups × features, times what is known."""
        s = U @ F.T.astype(np.float64, copy=False)
        return s if self.given.known is None else s * self.given.known

    def by_batch(self, s: Floats) -> Floats:
        """Of groups added up by batch; as they are where nothing is estimated."""
        owners = self.given.owners
        if owners is None or self.totals is None:
            return s
        if len(owners) == len(self.totals):  # each batch is a group
            return s
        out = np.zeros(self.totals.shape)
        np.add.at(out, owners, s)
        return out

    def effects(self, s: Floats) -> Floats:
        """ē of every batch and feature, from `expected`."""
        assert self.totals is not None
        return (self.totals + self.strength) / (self.by_batch(s) + self.strength)

    def multipliers(self, U: Floats, F: Factor) -> Floats:
        """e, groups × features: what is known times what is estimated."""
        known = self.given.known
        if not self.estimated:
            assert known is not None
            return known
        effects = self.effects(self.expected(U, F))[self.given.owners]
        return effects if known is None else effects * known

    def costs_of_loadings(self, U: Floats | None, F: Factor) -> Floats:
        """c, groups × K; U is None where effects are not known yet."""
        known = self.given.known
        F = F.astype(np.float64, copy=False)
        if U is None and self.estimated:
            return np.tile(F.sum(axis=0), (len(self.given.labels), 1)) if known is None else known @ F
        return (known if U is None else self.multipliers(U, F)) @ F  # type: ignore[operator]

    def costs_of_factors(self, U: Floats, F: Factor) -> Floats:
        """d, features × K."""
        return self.multipliers(U, F).T @ U

    def for_loadings(self, fixed: Factor, moving: Factor) -> tuple[Floats, NDArray[np.int32]]:
        """As `Side.costs`: of the half-step of loadings, at the pair where it starts."""
        return self.costs_of_loadings(self.sums(moving) if self.estimated else None, fixed), self.groups

    def for_factors(self, fixed: Factor, moving: Factor) -> tuple[Floats, None]:
        """As `Side.costs`: of the half-step of factors."""
        return self.costs_of_factors(self.sums(fixed), moving), None

    def first_term(self, U: Floats, F: Factor) -> float:
        """What takes the place of Σ λ in the loss, constants included."""
        s = self.expected(U, F)
        if not self.estimated:
            return float(s.sum()) - self.logs
        X, tau = self.totals, self.strength
        assert X is not None
        return float(((X + tau) * np.log(self.by_batch(s) + tau)).sum()) + self._constant - self.logs

    @cached_property
    def _values(self) -> tuple[Floats, Floats]:
        """The different counts of batches, and how often each occurs: for sums of special functions."""
        assert self.totals is not None
        values, times = np.unique(self.totals, return_counts=True)
        return values, times.astype(np.float64)

    @property
    def _constant(self) -> float:
        tau = self.strength
        if tau not in self._constants:
            assert self.totals is not None
            values, times = self._values
            own = self.totals.size * (gammaln(tau) - tau * np.log(tau))
            self._constants[tau] = float(own - times @ gammaln(values + tau))
        return self._constants[tau]

    def plugged_in(self, U: Floats, F: Factor) -> float:
        """How much larger the Poisson log-likelihood with ē in place of e is than minus the loss."""
        s = self.expected(U, F)
        effects = self.effects(s)
        more = float(xlogy(self.totals, effects).sum() - (effects * self.by_batch(s)).sum())
        return self.first_term(U, F) + self.logs + more

    def expected_total(self, U: Floats, F: Factor) -> float:
        """Σ λ − Σ x log e with ē in place of e: what the Poisson log-likelihood has for the total without multipliers."""
        return self.first_term(U, F) - (self.plugged_in(U, F) if self.estimated else 0.0)

    def merging(self, U: Floats, F: Factor, a: int, b: int, merged: Floats, expected: Floats | None) -> float:
        """By how much the first term grows if topics a and b are replaced by their sum, with these factors; `expected` is s of
        batches."""
        change = np.outer(U[:, a] + U[:, b], merged) - np.outer(U[:, a], F[:, a]) - np.outer(U[:, b], F[:, b])
        known = self.given.known
        change = change if known is None else change * known
        if not self.estimated:
            return float(change.sum())
        assert self.totals is not None
        assert expected is not None
        old, X = expected + self.strength, self.totals + self.strength
        return float((X * np.log1p(np.maximum(self.by_batch(change) / old, -1 + 1e-12))).sum())

    def scales(self, U: Floats, F: Factor, features: bool, batches: bool) -> tuple[Floats, Floats]:
        """c of features, and a of groups: with (f_j c_j, l_i a_g) rates are those of effects e / (c a), whose means are closer to
        one. Only the prior of effects decides between them, and it never likes them less."""
        S = self.by_batch(self.expected(U, F))
        c, a = np.ones(S.shape[1]), np.ones(len(S))
        assert self.totals is not None
        X, tau = self.totals + self.strength, self.strength
        for _ in range(2):
            if features:
                more = (X / (S + tau)).mean(axis=0)
                c, S = c * more, S * more
            if batches:
                of_batch = (X / (S + tau)).mean(axis=1)
                a, S = a * of_batch, S * of_batch[:, None]
        return c, a[self.given.owners]

    def scales_under(self, U: Floats, F: Factor, on_F: Pull, on_L: Pull) -> tuple[Floats, Floats]:
        """The same where factors and loadings have Gamma priors, which decide too: of each feature and batch, Σ shapes, Σ rate ·
        mean of what is scaled, and the curvature of this, or a bound of it. By Newton's method in log c:

            τ (Σ_g ē − G) + shapes − c rates = 0
        """
        S, X, tau = self.by_batch(self.expected(U, F)), self.totals, self.strength
        assert X is not None

        def best(axis: int, shapes: Floats, costs: Floats, bends: Floats, S: Floats) -> Floats:
            log = np.zeros(S.shape[1 - axis])
            for _ in range(3):
                scale = np.exp(log)
                s = S * (scale if axis == 0 else scale[:, None])
                effects = (X + tau) / (s + tau)
                slope = tau * (effects - 1).sum(axis=axis) + shapes - scale * costs
                bend = tau * (effects * s / (s + tau)).sum(axis=axis) + scale * bends
                log += np.clip(np.divide(slope, bend, out=np.zeros_like(slope), where=bend > 0), -1, 1)
            return np.exp(log)

        c = best(0, *on_F, S)
        return c, best(1, *on_L, S * c)[self.given.owners]

    def moved_logs(self, c: Floats, a: Floats) -> float:
        """What Σ x log λ gains by these scales."""
        assert self.totals is not None
        of_batches = np.ones(len(self.totals))
        of_batches[self.given.owners] = a
        return float(self.totals.sum(axis=0) @ np.log(c) + self.totals.sum(axis=1) @ np.log(of_batches))

    def best_strength(self, U: Floats, F: Factor) -> float:
        """τ of the largest marginal likelihood, by Newton's method in log τ from the one that is."""
        S, X = self.by_batch(self.expected(U, F)), self.totals
        assert X is not None
        tau, (values, times) = self.strength, self._values

        def slopes(tau: float) -> tuple[float, float]:
            both, size = S + tau, X.size
            ratio = (X + tau) / both
            first = times @ digamma(values + tau) - size * (digamma(tau) - np.log(tau) - 1)
            second = times @ polygamma(1, values + tau) - size * (polygamma(1, tau) - 1 / tau)
            first -= (np.log(both) + ratio).sum()
            return float(first), float(second + ((ratio - 2) / both).sum())

        low, high = np.log(LEAST_STRENGTH), np.log(LARGEST_STRENGTH)
        at = float(np.log(tau))
        for _ in range(STEPS):
            first, second = slopes(np.exp(at))
            slope, bend = first * np.exp(at), first * np.exp(at) + second * np.exp(2 * at)
            if slope > 0:
                low = at
            else:
                high = at
            to = at - slope / bend if bend < 0 else np.inf
            to = (
                to
                if low < to < high and abs(to - at) < 3
                else (min(at + 3, (at + high) / 2 + 1e-9) if slope > 0 else max(at - 3, (at + low) / 2))
            )
            if abs(to - at) < 1e-9 or high - low < 1e-9:
                break
            at = to
        found = self.with_strength(float(np.exp(at)))
        return found.strength if found.first_term(U, F) <= self.first_term(U, F) else tau

    def corrected(self, tau: float) -> float:
        """As every feature's mean is fitted, τ is too large by about G / (G − 1)."""
        n = int((self.totals.sum(axis=1) > 0).sum())  # type: ignore[union-attr]
        return tau * (n - 1) / n if n > 1 else tau


def average_multipliers(X: Data) -> Floats | None:
    """Known multipliers of features in all samples, m × 1: by what is found in each group if there is a single topic, for which
    samples are as large as their counts. None where none are known."""
    given = X.multipliers
    if given is None or given.known is None:
        return None
    t, x, e = np.bincount(given.groups, X.sample_totals, len(given.known)), X.feature_totals, given.known
    f = x / x.sum()
    for _ in range(TOPIC_STEPS):
        size = e @ f
        u = np.divide(t, size, out=np.zeros_like(t), where=size > 0)
        cost = u @ e
        f = np.divide(x, cost, out=np.zeros_like(cost), where=cost > 0)
    return np.asarray((u @ e / u.sum())[:, None])


def members(groups: NDArray[np.int32], n_groups: int) -> sp.csr_array:
    """Groups × samples, 1 where a sample is of a group."""
    n = len(groups)
    return sp.csr_array((np.ones(n), (groups, np.arange(n))), shape=(n_groups, n))


def group_sums(L: Factor, groups: NDArray[np.int32] | None, n_groups: int) -> Floats:
    """Of the loadings of a part, by group; without groups, of all samples."""
    if groups is None:
        return column_sums(L)
    return np.asarray(members(groups, n_groups) @ L.astype(np.float64, copy=False))


@dataclass(frozen=True)
class Totals(Visit):
    """The counts of every batch, and Σ x log of what is known."""

    batches: int

    def __call__(self, tiles: Iterable[Part], shared: Arrays, before: Arrays) -> Visited:
        totals, logs = np.zeros((0, 0)), 0.0
        for tile, rows in with_rows(tiles, before):
            groups = rows["groups"]
            if self.batches:
                codes = shared["owners"][groups]
                own = np.asarray((members(codes, self.batches) @ tile.with_data(tile.rows.data)).todense())
                totals = own if not totals.size else totals + own
            if "known" in shared:
                i = np.repeat(np.arange(len(groups)), np.diff(tile.rows.indptr))
                logs += float(xlogy(tile.rows.data, shared["known"][groups[i], tile.rows.indices]).sum())
        return Visited({}, {"totals": totals, "logs": np.array([logs])})
