"""Maximum likelihood, or the posterior mode, of counts that are visited shard by shard: the loss is that of `models.problem`.

Loadings stay with their samples: what a visit leaves. Of them, only sums are ever in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import gammaln

from unmix.base.memory import closed, room
from unmix.base.types import Factor, Floats, Record
from unmix.counts.shards import Shards, Tile
from unmix.counts.sides import FeatureSums, Side, Sides, column_sums
from unmix.engines.base import Arrays, Engine, Visit, Visited
from unmix.models.beliefs import Belief
from unmix.models.priors import Gamma
from unmix.models.problem import drop_negligible
from unmix.models.task import Estimate, Iterate
from unmix.models.variational import Variational


@dataclass(frozen=True, kw_only=True, eq=False)
class Streaming(Iterate):
    """Factors, the number of the pass that left loadings for them, and what priors cost there."""

    F: Factor
    number: int
    penalty: float = 0.0
    task: StreamedProblem

    @property
    def numbers(self) -> set[int]:
        """Of the passes whose loadings are still needed."""
        return {self.number}

    def save(self) -> Record:
        record = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "task"}
        return record | {"loadings": self.task.engine.save(self.task.X, self.numbers)}


@dataclass(frozen=True, eq=False)
class StreamedProblem:
    """The loss of factors, and of the loadings that a pass left, for shards, a number of topics, and priors, if any."""

    X: Shards
    n_topics: int
    engine: Engine = field(repr=False)
    prior: Gamma | None = None  # on F
    loadings_prior: Gamma | None = None

    @cached_property
    def factor_prior(self) -> tuple[Floats | None, Floats]:
        """(shape − 1) and rates of the prior on F; None and zeros without one."""
        if self.prior is None:
            return None, np.zeros(self.n_topics)
        return self.prior.broadcast(self.X.shape[1], self.n_topics)

    def loss(self, F: Factor, sums: Arrays) -> tuple[float, float]:
        """Exact, from the sums of a visit (`visited_sums`); and what of it priors cost."""
        xlog, loadings = (float(value) for value in sums["xlog_penalty"])
        penalty = loadings + (self.prior.penalty(F) if self.prior else 0.0)
        return float(sums["v"] @ column_sums(F)) - xlog + penalty, penalty

    def metrics(self, state: Streaming) -> dict[str, float]:
        objective = -state.loss - self.X.log_factorials
        return {"loglik": objective + state.penalty, "objective": objective}

    def kkt(self, state: Streaming) -> float:
        sums = self.engine.over(self.X, ResidualSums(self.loadings_prior), {"F": state.F}, before=state.number)
        gradient = sums["v"] - sums["B"]
        if self.prior is not None:
            gradient += self.prior.gradient(state.F)
        with np.errstate(invalid="ignore"):
            right = np.nan_to_num(np.abs(state.F * gradient), nan=np.inf).max(initial=0)
        return float(max(right, sums["largest_residual"][0]))

    def result(self, state: Streaming) -> Estimate:
        """Loadings of all samples, in one array, and factors, scaled alike. Entries that the solvers' floor keeps just above zero
        become zero, unless the likelihood hangs on them."""
        F, number, loglik = state.F, state.number, self.metrics(state)["loglik"]
        if self.prior is None and self.loadings_prior is None:
            v = self._sums_of_loadings(number)
            cleared, clear = drop_negligible(F, v[None, :]), max(state.numbers) + 1
            sums = self.engine.over(self.X, Cleared(), {"F": cleared}, before=number, after=clear)
            if abs(self.loss(cleared, sums)[0] - state.loss) <= 1e-9 * abs(state.loss):
                F, number = cleared, clear
        L = gathered(self.engine, self.X, number, F.shape[1], F.dtype)
        self.engine.keep_only(state.numbers)
        if self.prior is None and self.loadings_prior is None:
            u, v = column_sums(F), column_sums(L)
            with np.errstate(divide="ignore", invalid="ignore"):
                scale = np.where((u > 0) & (v > 0), np.sqrt((v / len(L)) / (u / len(F))), 1.0)
            L /= scale.astype(L.dtype)
            F = F * scale.astype(F.dtype)
        return Estimate(closed(L), F, loglik)

    def _sums_of_loadings(self, number: int) -> Floats:
        total = np.zeros(self.n_topics)
        for left in self.engine.left(self.X, number):
            total += column_sums(left["L"])
        return total


def gathered(engine: Engine, X: Shards, number: int, columns: int, dtype: DTypeLike = np.float64) -> Factor:
    """What a pass left for the samples, one below the other: an array, or beyond some size one in a file."""
    rows = room((len(X), columns), dtype)
    for i, left in enumerate(engine.left(X, number)):
        rows[slice(*X.bounds(i))] = left["L"]
    return rows


def by_tile(tiles: Iterable[Tile], before: Arrays) -> Iterator[tuple[Tile, Factor]]:
    """Tiles of a shard, each with its part of the loadings."""
    at = 0
    for tile in tiles:
        yield tile, before["L"][at : at + tile.shape[0]]
        at += tile.shape[0]


def left_side(sides: Sides, prior: Gamma | None, n_topics: int) -> Side:
    side = sides.left
    return side if prior is None else side.with_prior(*prior.broadcast(len(side.rows.indptr) - 1, n_topics))


@dataclass(frozen=True)
class Cleared(Visit):
    """Loadings without what is negligible, and the sums of the loss there."""

    def __call__(self, tiles: Iterable[Tile], shared: Arrays, before: Arrays) -> Visited:
        F, v, xlog, cleared = shared["F"], np.zeros(shared["F"].shape[1]), 0.0, []
        for tile, loadings in by_tile(tiles, before):
            L = drop_negligible(loadings, F)
            xlog += float(Sides(tile).left.xlogs(L, F).sum())
            v += column_sums(L)
            cleared.append(L)
        return Visited({"L": np.concatenate(cleared)}, {"v": v, "xlog_penalty": np.array([xlog, 0.0])})


@dataclass(frozen=True)
class ResidualSums(Visit):
    """What KKT residuals need: the largest one of loadings, and the numerators of the factors."""

    prior: Gamma | None

    def __call__(self, tiles: Iterable[Tile], shared: Arrays, before: Arrays) -> Visited:
        F = shared["F"]
        u, B, v, largest = column_sums(F), np.zeros(F.shape), np.zeros(F.shape[1]), np.zeros(1)
        for tile, L in by_tile(tiles, before):
            sides = Sides(tile)
            gradient = u - sides.left.numerators(L, F)[0]
            if self.prior is not None:
                gradient += self.prior.gradient(L)
            with np.errstate(invalid="ignore"):
                largest = np.maximum(largest, np.nan_to_num(np.abs(L * gradient), nan=np.inf).max(initial=0))
            B += sides.right.numerators(F, L)[0]
            v += column_sums(L)
        return Visited({}, {"v": v, "B": B, "largest_residual": largest})


# Variational inference of counts that are visited shard by shard: the bound is that of `models.variational`.
#
# Beliefs of loadings stay with their samples. Of them, the bound and the beliefs of factors need sums alone.


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedBeliefs(Iterate):
    """q(F), the number of the pass that left q(L) for it, and the rates of that."""

    model: Variational
    right: Belief
    rates: Floats
    number: int
    task: StreamedInference

    @property
    def numbers(self) -> set[int]:
        """Of the passes whose beliefs are still needed."""
        return {self.number}

    def save(self) -> Record:
        return self.plain_values() | {"loadings": self.task.engine.save(self.task.X, self.numbers)}

    def plain_values(self) -> Record:
        prior = {"L_prior": self.model.left.shape} if self.task.learns_prior else {}  # type: ignore[attr-defined]
        right = {"F": self.right.parameters, "F_rate": self.right.rates}
        return {"loss": self.loss, "number": self.number, "rates": self.rates} | right | prior


@dataclass(frozen=True, eq=False)
class StreamedInference:
    """Find the posterior of a variational model of shards."""

    X: Shards
    model: Variational
    engine: Engine = field(repr=False)
    learns_prior: bool = False

    def loss(self, right: Belief, sums: Arrays) -> float:
        """Exact, from the sums of `Infer`."""
        terms = float(sums["terms"][0]) + self.X.feature_totals @ right.shifts - self.X.log_factorials
        return -float(terms - sums["v"] @ right.sums + right.bound)

    def metrics(self, state: StreamedBeliefs) -> dict[str, float]:
        return {"loglik": np.nan, "objective": -state.loss, "elbo": -state.loss}

    def kkt(self, state: StreamedBeliefs) -> float:
        return np.nan

    def result(self, state: StreamedBeliefs) -> Estimate:
        model, F = state.model, state.model.right.mean(state.right)
        shared = {"F": F, "rates": state.rates}
        sums = self.engine.over(self.X, Means(model), shared, before=state.number, after=state.number + 1)
        loglik = float(sums["xlog"][0]) - self.X.log_factorials - float(sums["v"] @ column_sums(F))
        L, parameters = (
            closed(gathered(self.engine, self.X, number, F.shape[1])) for number in (state.number + 1, state.number)
        )
        self.engine.keep_only(state.numbers)
        belief = model.left.belief(parameters, state.rates)
        return Estimate(L, F, loglik, model.arrays(belief, state.right), model.kinds)


def started(parameters: Factor, rates: Floats) -> Belief:
    """A belief to go on from: its parameters and rates, and nothing else."""
    none = np.empty(0)
    return Belief(parameters.astype(np.float64, copy=False), rates, none, none, none, np.nan)


@dataclass(frozen=True, eq=False)
class Infer(Visit):
    """q(L) of the samples, from what the last visit left or from counts spread evenly; and what the bound, q(F) and a prior that
    is learned need of it."""

    model: Variational
    steps: int
    tolerance: float
    learns_prior: bool = False
    first: bool = False

    def __call__(self, tiles: Iterable[Tile], shared: Arrays, before: Arrays) -> Visited:
        prior, right = self.model.left, self.model.right.belief(shared["F"], shared["F_rate"])
        m, K = right.parameters.shape
        v, terms, parameters = np.zeros(K), 0.0, []
        statistics = np.zeros(K if self.learns_prior else 0)
        sums = (
            FeatureSums.zeros(m, K)
            if self.model.right.regressed
            else FeatureSums(np.zeros((m, K)), np.zeros((0, 0), np.float32))
        )
        pairs = ((tile, None) for tile in tiles) if self.first else by_tile(tiles, before)
        for tile, last in pairs:
            sides, totals = Sides(tile), tile.sample_totals
            start = None if last is None else started(last, shared["rates"])
            left = prior.infer(sides.left, right, start, totals, steps=self.steps, tolerance=self.tolerance)
            if self.model.right.regressed:
                sides.right.add_sums(left.geometric, right.geometric, sums)
                xlog = float(sides.left.xlogs(left.geometric, right.geometric).sum())
            else:
                B, xlog = sides.right.numerators(right.geometric, left.geometric)
                sums.numerators[:] += B
            terms += xlog + float(totals @ left.shifts) + left.bound
            if self.model.totals_given:
                terms += float(gammaln(totals + 1).sum()) + len(totals)
            if self.learns_prior:
                statistics += prior.statistics(left)
            v += left.sums
            parameters.append(left.parameters)
        added: Arrays = {
            "B": sums.numerators,
            "H": sums.curvature,
            "v": v,
            "terms": np.array([terms]),
            "statistics": statistics,
        }
        return Visited({"L": np.concatenate(parameters)}, added)


@dataclass(frozen=True, eq=False)
class Means(Visit):
    """Posterior means of the loadings, on the Poisson scale."""

    model: Variational

    def __call__(self, tiles: Iterable[Tile], shared: Arrays, before: Arrays) -> Visited:
        F, means, v, xlog = shared["F"], [], np.zeros(shared["F"].shape[1]), 0.0
        for tile, parameters in by_tile(tiles, before):
            L = self.model.left.mean(started(parameters, shared["rates"]))
            L = L * tile.sample_totals[:, None] if self.model.totals_given else L
            xlog += float(Sides(tile).left.xlogs(L, F).sum())
            v += column_sums(L)
            means.append(L)
        return Visited({"L": np.concatenate(means)}, {"xlog": np.array([xlog]), "v": v})
