"""Variational inference of counts that are visited shard by shard: the bound is that of `models.variational`.

Beliefs of loadings stay with their samples. Of them, the bound and the beliefs of factors need sums alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammaln

from unmix.engines.base import Arrays, Engine, Visit, Visited
from unmix.memory import closed
from unmix.models.beliefs import Belief
from unmix.models.streaming import by_tile, gathered
from unmix.models.task import Iterate, Result
from unmix.models.variational import Variational
from unmix.shards import Shards, Tile
from unmix.sides import FeatureSums, Sides, column_sums
from unmix.types import Factor, Floats, Record


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

    def result(self, state: StreamedBeliefs) -> Result:
        model, F = state.model, state.model.right.mean(state.right)
        shared = {"F": F, "rates": state.rates}
        sums = self.engine.over(self.X, Means(model), shared, before=state.number, after=state.number + 1)
        loglik = float(sums["xlog"][0]) - self.X.log_factorials - float(sums["v"] @ column_sums(F))
        L, parameters = (
            closed(gathered(self.engine, self.X, number, F.shape[1])) for number in (state.number + 1, state.number)
        )
        self.engine.keep_only(state.numbers)
        belief = model.left.belief(parameters, state.rates)
        return Result(L, F, loglik, model.arrays(belief, state.right), model.kinds)


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
