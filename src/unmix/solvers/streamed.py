"""Streamed Newton: one pass over the shards an iteration.

Each visit moves the loadings of its samples by a half-step and adds up, for every feature, the gradient and the curvature of the
loss there. The sums of all shards allow one step of every feature to the minimiser of its quadratic model,

    minimise  g·d + ½ dᵀHd   subject to  d_k >= −0.6838 f_k,

which never raises the loss, and needs neither a line search nor another pass: see `native/sums.hpp`. The loss at the loadings is
exact, and free. Factors, but not loadings, then move on along their last change: loadings follow them within the next visit, and
no history of them has to be kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unmix.base.types import Factor, Record
from unmix.counts.data import Arrays, Part, Visit, Visited, by_tile, joined
from unmix.counts.sides import FeatureSums, Sides, column_sums
from unmix.kernels import Workspace
from unmix.models.priors import Dirichlet, Gamma
from unmix.models.problem import Problem, StreamedPoint, left_side
from unmix.models.task import from_record
from unmix.solvers.base import FIRST, HalfStep, Momentum, beyond
from unmix.solvers.halfsteps import Newton

FROM_EVEN = Newton(rounds=5)  # the half-step for loadings that start from even shares


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedState(StreamedPoint):
    """F and `number` are of the best pass so far; the next one is made at `ahead`, from the loadings of pass `last`."""

    ahead: Factor
    plain: Factor  # the last factors before they moved on
    last: int
    reference: float  # the loss of the last pass
    momentum: Momentum = FIRST

    @property
    def numbers(self) -> frozenset[int]:  # type: ignore[override]
        return frozenset({self.number, self.last})


@dataclass(frozen=True)
class Streamed:
    """`half` is the half-step of loadings. Without `extrapolate` the loss never rises."""

    half: HalfStep
    extrapolate: bool = True
    version: ClassVar[int] = 2
    supports: ClassVar[frozenset[str]] = frozenset({"shards", "a prior on factors", "a prior on loadings"})

    def start(self, task: Problem, L: Factor | None, F: Factor) -> StreamedState:
        """Loadings for these factors, from those given or from even shares, and the first step of the factors."""
        visit = LoadingsStep(FROM_EVEN, task.loadings_prior, even=L is None)
        before = None if L is None else {"L": L}
        sums = task.engine.over(task.X, visit, {"F": F}, before=before, after=0)
        task.engine.keep_only({0})
        loss, penalty = task.loss_from(F, sums)
        new = self._step(task, F, sums)
        return StreamedState(F=F, number=0, loss=loss, penalty=penalty, ahead=new, plain=new, last=0, reference=loss)

    def step(self, task: Problem, s: StreamedState) -> StreamedState:
        number, visit = s.last + 1, LoadingsStep(self.half, task.loadings_prior)
        sums = task.engine.over(task.X, visit, {"F": s.ahead}, before=s.last, after=number)
        loss, penalty = task.loss_from(s.ahead, sums)
        new = self._step(task, s.ahead, sums)
        better, accepted = loss < s.loss, loss < s.reference
        # without momentum the loss falls, unless nothing but rounding is left of what could be gained
        conclusive = better or not (accepted or np.any(s.ahead != s.plain))
        if better:
            s = replace(s, F=s.ahead, number=number, loss=loss, penalty=penalty)
        s = replace(s, last=number, reference=loss, conclusive=conclusive, note="" if accepted else "rejected")
        ahead = new
        if self.extrapolate:
            s = replace(s, momentum=s.momentum.accepted() if accepted else s.momentum.rejected())
            ahead = beyond(new, s.plain, s.momentum.beta) if accepted else new
        s = replace(s, ahead=ahead, plain=new)
        task.engine.keep_only(set(s.numbers))
        return s

    def restore(self, task: Problem, saved: Record) -> StreamedState:
        state = from_record(StreamedState, saved)
        for name in ("F", "ahead", "plain"):
            if (shape := getattr(state, name).shape) != (task.X.shape[1], task.n_topics):
                raise ValueError(f"{name} has shape {shape}")
        return state

    def _step(self, task: Problem, F: Factor, sums: Arrays) -> Factor:
        shape, rate = (None, 0.0) if task.prior is None else task.prior.broadcast(*F.shape)
        return FeatureSums(sums["B"], sums["H"]).step(F, sums["v"] + rate, task.X.feature_totals, shape)


@dataclass(frozen=True)
class LoadingsStep(Visit):
    """A half-step of the loadings, those that the last visit left or, if `even`, such that all topics have the same share; and
    what they say of the factors."""

    half: HalfStep
    prior: Gamma | Dirichlet | None
    even: bool = False

    def __call__(self, tiles: Iterable[Part], shared: Arrays, before: Arrays) -> Visited:
        F = shared["F"]
        m, K = F.shape
        sums, v, xlog, penalty, loadings = FeatureSums.zeros(m, K), np.zeros(K), 0.0, 0.0, []
        u, workspace = column_sums(F), Workspace()
        even = np.divide(1 / K, u, out=np.zeros(K), where=u > 0)
        pairs = (
            ((tile, np.outer(tile.sample_totals, even).astype(F.dtype, copy=False)) for tile in tiles)
            if self.even
            else by_tile(tiles, before)
        )
        for tile, start in pairs:
            sides = Sides(tile, workspace)
            L, measured = self.half(left_side(sides, self.prior, K), F, start, measure=True)
            assert measured is not None
            sides.right.add_sums(L, F, sums)
            v += column_sums(L)
            xlog += measured
            penalty += self.prior.penalty(L) if self.prior is not None else 0.0
            loadings.append(L)
        added: Arrays = {"B": sums.numerators, "H": sums.curvature, "v": v, "xlog_penalty": np.array([xlog, penalty])}
        return Visited({"L": joined(loadings)}, added)
