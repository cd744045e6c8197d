"""Solvers made of half-steps: `Alternate` (L from X, then F from Xᵀ with the new L), `Extrapolate`, which moves further, and
`Streamed`, their relative for data that are not in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmix.base.checks import choice
from unmix.base.types import Factor, Floats, Record
from unmix.counts.data import Arrays, Data, Part, Visit, Visited, joined, with_rows
from unmix.counts.sides import FeatureSums, Sides, column_sums
from unmix.kernels import Workspace
from unmix.models.priors import Dirichlet, Gamma
from unmix.models.problem import Problem, State, StreamedPoint, from_record, left_side
from unmix.models.rates import group_sums
from unmix.solvers.base import (
    FIRST,
    KNOWN,
    LIKELIHOOD,
    MULTIPLIERS,
    AnySolver,
    FactorSolver,
    HalfStep,
    Momentum,
    Solver,
    beyond,
)
from unmix.solvers.halfsteps import Newton

ROUNDING = 1e-10  # a rise of the loss by a smaller part is none
LEAST = 1e-15  # of an entry that the published rule extrapolates
LEARNING = 20  # iterations after which the prior of effects is learned again


@dataclass(frozen=True)
class Alternate(FactorSolver[State]):
    """One half-step on each side. A half-step that gives no guarantee names a `safe` one to redo the iteration with.

    Parameters
    ----------
    half : HalfStep
        What updates a factor.
    learns : bool, default=True
        Whether the prior of effects of batches, where it is to be learned, is learned after every iteration.

    See Also
    --------
    solvers.Extrapolate : Faster.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.Alternate(um.solvers.EM()), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    half: HalfStep
    learns: bool = field(default=True, repr=False)  # the prior of effects, after every iteration

    @property
    def name(self) -> str:
        return type(self.half).__name__

    @property
    def supports(self) -> frozenset[str]:
        return LIKELIHOOD

    def for_data(self, X: Data) -> Solver[Problem, Any]:
        return self if X.in_memory or not isinstance(self.half, HalfStep) else Streamed(self.half, extrapolate=False)

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> State:
        return State(L=L, F=F, loss=problem.loss(L, F) if loss is None else loss, strength=problem.strength)

    def step(self, problem: Problem, state: State) -> State:
        here = problem.at(state)
        new = self._step(self.half, here, state)
        safe = self.half.safe if isinstance(self.half, HalfStep) else None  # any callable may be one
        if safe is not None and new.loss > state.loss + ROUNDING * abs(state.loss):
            new = self._step(safe, here, state)
        return problem.learned(new) if self.learns else new

    @staticmethod
    def _step(half: HalfStep, problem: Problem, state: State) -> State:
        L, _ = half(problem.left, state.F, state.L)
        F, xlog = half(problem.right, L, state.F, measure=True)
        problem.rescale(L, F)
        xlog = problem.settled([(L, F)], L, F, xlog)
        loss = problem.loss(L, F, xlog)
        return State(L=L, F=F, loss=loss, strength=state.strength, corrected=state.corrected)


# Extrapolation with restarts (after Ang and Gillis, and fastTopics): move a little further along the last change.
#
# Each half-step starts from the extrapolated factors and its result is extrapolated again, L_y = L_n + β (L_n − last L_n).
# If the loss falls, β grows. If it does not, β shrinks and the next iteration starts from the new plain pair, without momentum;
# the best pair so far is kept aside. Every 20th iteration is a plain one from the best pair; all pairs are set to it, and
# rescaled, so differences never mix scales.
#
# Continuing from the *new* plain pair after a rejection is our rule: it saves the iteration's work, and on real text ends at
# better optima; see docs/decisions.md. `rule="ang-gillis"` goes back to the old pair and rescales each pair by itself:
#
#     β ← min(β̄, 1.1 β), β₀ ← β, β̄ ← min(0.99, 1.05 β̄)  if the loss falls;     β̄ ← β₀, β ← 0.75 β  if not


@dataclass(frozen=True, kw_only=True)
class ExtrapolatedState(State):
    """L, F are the best pair so far; n marks the last plain results and y the extrapolated ones."""

    Ln: Factor
    Fn: Factor
    Ly: Factor
    Fy: Factor
    momentum: Momentum = FIRST
    reference: float
    iteration: int = 0


class Advance(NamedTuple):
    """New plain and extrapolated factors, and the loss of a pair of them, L and Fn."""

    Ln: Factor
    Ly: Factor
    Fn: Factor
    Fy: Factor
    L: Factor
    loss: float


@dataclass(frozen=True)
class Extrapolate(FactorSolver[ExtrapolatedState]):
    """Moves on along the last change, and takes that back where the loss rises: what `extrapolate=True` does.

    Parameters
    ----------
    inner : HalfStep or Solver
        A half-step (each factor extrapolated as soon as it is updated) or any other solver (both after its step).
    period : int, default=20
        Every this many iterations one is a plain one, from the best factors so far.
    rule : str, default="unmix"
        What follows a step that is taken back. "unmix": the new plain pair, and an entry loses at most half of itself by
        extrapolation. "ang-gillis": the plain pair before, the published rule as in fastTopics; not for shards.

    See Also
    --------
    solvers.Alternate

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.Extrapolate(um.solvers.EM()), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    inner: HalfStep | AnySolver
    period: int = 20
    rule: Literal["unmix", "ang-gillis"] = "unmix"
    state_type: ClassVar[type[State]] = ExtrapolatedState

    @property
    def name(self) -> str:
        return self.plain.name

    @property
    def supports(self) -> frozenset[str]:
        return self.plain.supports - ({"effects of batches"} if self.published else set())

    def for_data(self, X: Data) -> Solver[Problem, Any]:
        streams = isinstance(self.inner, HalfStep) and not self.published
        return self if X.in_memory or not streams else Streamed(self.inner)  # type: ignore[arg-type]

    @property
    def published(self) -> bool:
        choice("rule", self.rule, ("unmix", "ang-gillis"))
        return self.rule == "ang-gillis"

    @property
    def plain(self) -> AnySolver:
        return self.inner if isinstance(self.inner, FactorSolver) else Alternate(self.inner, learns=False)

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> ExtrapolatedState:
        first = _gathered(problem.learned(self.plain.start(problem, L, F, loss)), iteration=0)
        return replace(first, momentum=Momentum(0.5, 0.5)) if self.published else first

    def step(self, problem: Problem, state: ExtrapolatedState) -> ExtrapolatedState:
        iteration, learning, problem = state.iteration + 1, problem, problem.at(state)
        if iteration % self.period == 0:
            start = replace(self.plain.start(problem, state.L, state.F, state.loss), corrected=state.corrected)
            gathered = _gathered(learning.learned(self.plain.step(problem, start)), iteration)
            return replace(gathered, momentum=state.momentum, note="plain")
        new, m = self._advance(problem, state), state.momentum
        better, accepted = new.loss < state.loss, new.loss < state.reference
        if better:
            state = replace(state, L=new.L, F=new.Fn, loss=new.loss)
        pairs, moved, reference = (new.Ln, new.Fn, new.Ly, new.Fy), m.accepted(), new.loss
        if accepted and self.published:
            beta = min(m.ceiling, 1.1 * m.beta)
            moved = Momentum(beta, beta, min(0.99, 1.05 * m.ceiling))
        elif self.published:
            pairs, moved = (state.Ln, state.Fn, state.Ln, state.Fn), m.rejected()
        elif not accepted:
            pairs, moved, reference = (new.Ln, new.Fn, new.Ln, new.Fn), m.rejected(), problem.loss(new.Ln, new.Fn)
        if self.published:
            pairs = (*problem.rescale(*map(np.copy, pairs[:2])), *problem.rescale(*map(np.copy, pairs[2:])))
        Ln, Fn, Ly, Fy = pairs
        state = replace(state, Ln=Ln, Fn=Fn, Ly=Ly, Fy=Fy, momentum=moved, reference=reference, iteration=iteration)
        return replace(state, conclusive=accepted and better, note="" if accepted else "rejected")

    def _advance(self, problem: Problem, s: ExtrapolatedState) -> Advance:
        def ahead(new: Factor, old: Factor) -> Factor:
            beta = s.momentum.beta
            return np.maximum(new + beta * (new - old), LEAST) if self.published else beyond(new, old, beta)

        if isinstance(self.inner, Solver):
            new = self.inner.step(problem, self.inner.start(problem, s.Ly, s.Fy))
            return Advance(new.L, ahead(new.L, s.Ln), new.F, ahead(new.F, s.Fn), new.L, new.loss)
        Ln, _ = self.inner(problem.left, s.Fy, s.Ly)
        Ly = ahead(Ln, s.Ln)
        Fn, xlog = self.inner(problem.right, Ly, s.Fy, measure=True)
        Fy = ahead(Fn, s.Fn)
        xlog = problem.settled([(Ln, Fn), (Ly, Fy)], Ly, Fn, xlog)  # all pairs, or momentum runs along the scales
        return Advance(Ln, Ly, Fn, Fy, Ly, problem.loss(Ly, Fn, xlog))


def _gathered(s: State, iteration: int) -> ExtrapolatedState:
    """All pairs at one point."""
    pairs: Record = {"Ln": s.L, "Fn": s.F, "Ly": s.L, "Fy": s.F, "reference": s.loss, "iteration": iteration}
    return ExtrapolatedState(L=s.L, F=s.F, loss=s.loss, strength=s.strength, corrected=s.corrected, **pairs)


# Streamed Newton: one pass over the shards per iteration.
#
# Each visit moves the loadings of its samples by a half-step and adds up, for every feature, the gradient and the curvature of
# the loss there. The sums of all shards allow one step of every feature to the minimiser of its quadratic model,
#
#     minimise  g·d + ½ dᵀHd   subject to  d_k >= −0.6838 f_k,
#
# which never raises the loss, and needs neither a line search nor another pass: see `native/sums.hpp`. The loss at the loadings
# is exact, and free. Factors, but not loadings, then move on along their last change: loadings follow them within the next
# visit, and no history of them has to be kept.

FROM_EVEN = Newton(rounds=5)  # the half-step for loadings that start from even shares


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedState(StreamedPoint):
    """F and `number` are of the best pass so far; the next one is made at `ahead`, from the loadings of pass `last`."""

    ahead: Factor
    plain: Factor  # the last factors before they moved on
    last: int
    reference: float  # the loss of the last pass
    momentum: Momentum = FIRST
    # where rates have multipliers: sums of the loadings of the last pass, by group; by what those shall be multiplied
    sums: Floats | None = None
    scales: Floats | None = None
    iteration: int = 0

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset({self.number, self.last})


@dataclass(frozen=True)
class Streamed(Solver[Problem, StreamedState]):
    """`half` is the half-step of loadings. Without `extrapolate` the loss never rises."""

    half: HalfStep
    extrapolate: bool = True
    version: ClassVar[int] = 2

    @property
    def supports(self) -> frozenset[str]:
        return frozenset({"shards", "a prior on factors", "a prior on loadings"}) | MULTIPLIERS | KNOWN

    def start(self, task: Problem, L: Factor, F: Factor) -> StreamedState:
        """Loadings for these factors, from those given or from even shares, and the first step of the factors."""
        visit = replace(self._visit(task, FROM_EVEN), even=not len(L))
        before: Arrays = {"L": L} if len(L) else {}
        if task.sets is not None:
            before["sets"] = task.sets[1]
        F = F if task.known is None else task.known.placed(F)
        shared, rates = {"F": F}, task.rates
        if rates is not None:
            before["groups"] = rates.groups
            shared["costs"] = rates.costs_of_loadings(rates.sums(L) if len(L) else None, F)
        sums = task.engine.over(task.X, visit, shared, before=before or None, after=0)
        task.engine.keep_only({0})
        if rates is not None and rates.learned:
            task = task.with_strength(rates.best_strength(sums["v"], F))
        loss, penalty = task.loss_from(F, sums)
        new, scales = self._step(task, F, sums)
        first = StreamedState(F=F, number=0, loss=loss, penalty=penalty, ahead=new, plain=new, last=0, reference=loss)
        return first if rates is None else replace(first, sums=sums["v"], scales=scales, strength=task.strength)

    def step(self, task: Problem, s: StreamedState) -> StreamedState:
        number, visit = s.last + 1, self._visit(task, self.half)
        if (iteration := s.iteration + 1) % LEARNING == 0:
            s = self._learned(task, s)
        task = task.at(s)
        shared = {"F": s.ahead}
        if task.rates is not None:
            assert s.sums is not None
            assert s.scales is not None
            shared |= {"costs": task.rates.costs_of_loadings(s.sums * s.scales[:, None], s.ahead), "scales": s.scales}
        sums = task.engine.over(task.X, visit, shared, before=s.last, after=number)
        loss, penalty = task.loss_from(s.ahead, sums)
        new, scales = self._step(task, s.ahead, sums)
        better, accepted = loss < s.loss, loss < s.reference
        # without momentum the loss falls, unless nothing but rounding is left of what could be gained
        conclusive = better or not (accepted or np.any(s.ahead != s.plain))
        if better:
            s = replace(s, F=s.ahead, number=number, loss=loss, penalty=penalty)
        s = replace(s, last=number, reference=loss, conclusive=conclusive, note="" if accepted else "rejected")
        if task.rates is not None:
            s = replace(s, sums=sums["v"], scales=scales, iteration=iteration)
        ahead = new
        if self.extrapolate:
            s = replace(s, momentum=s.momentum.accepted() if accepted else s.momentum.rejected())
            ahead = beyond(new, s.plain, s.momentum.beta) if accepted else new
        if task.rates is not None and task.rates.estimated:
            c, scales = self._scales(task, ahead, sums["v"])
            ahead, new = ((factor * c[:, None]).astype(factor.dtype) for factor in (ahead, new))
            s = replace(s, scales=scales)
        s = replace(s, ahead=ahead, plain=new)
        task.engine.keep_only(set(s.numbers))
        return s

    @staticmethod
    def _visit(task: Problem, half: HalfStep) -> LoadingsStep:
        return LoadingsStep(half, task.loadings_prior, held=task.held, sets=None if task.sets is None else task.sets[0])

    @staticmethod
    def _scales(task: Problem, F: Factor, sums: Floats) -> tuple[Floats, Floats]:
        """Of features, and of the groups of the loadings that the next visit takes."""
        assert task.rates is not None
        on_L = task.loadings_prior is not None
        if on_L and task.prior is not None:
            return np.ones(len(F)), np.ones(len(sums))
        return task.rates.scales(sums, F, task.prior is None, not on_L)

    @staticmethod
    def _learned(task: Problem, s: StreamedState) -> StreamedState:
        """With the most likely prior of effects at the best point, if it is learned."""
        rates = task.at(s).rates
        if rates is None or not rates.learned or s.corrected:
            return s
        return task.with_other_strength(s, rates.best_strength(task.sums(s), s.F))

    def restore(self, task: Problem, saved: Record) -> StreamedState:
        state = from_record(StreamedState, saved)
        for name in ("F", "ahead", "plain"):
            if (shape := getattr(state, name).shape) != (task.X.shape[1], task.n_topics):
                raise ValueError(f"{name} has shape {shape}")
        if task.rates is not None:
            groups = len(task.rates.given.labels)
            sums, scales = (np.empty(0) if array is None else array for array in (state.sums, state.scales))
            if sums.shape != (groups, task.n_topics) or scales.shape != (groups,):
                raise ValueError(f"sums have shape {sums.shape}")
        return state

    def _step(self, task: Problem, F: Factor, sums: Arrays) -> tuple[Factor, Floats]:
        """New factors, and one as the scale of every group."""
        shape, rate = (None, 0.0) if task.prior is None else task.prior.broadcast(*F.shape)
        cost = sums["v"] if task.rates is None else task.rates.costs_of_factors(sums["v"], F)
        new = FeatureSums(sums["B"], sums["H"]).step(F, cost + rate, task.X.feature_totals, shape, task.held)
        return new, np.ones(len(sums["v"]))


@dataclass(frozen=True)
class LoadingsStep(Visit):
    """A half-step of the loadings, those that the last visit left or, if `even`, such that all topics have the same share; and
    what they say of the factors."""

    half: HalfStep
    prior: Gamma | Dirichlet | None
    even: bool = False
    held: NDArray[np.bool_] | None = None
    sets: NDArray[np.bool_] | None = None

    def __call__(self, tiles: Iterable[Part], shared: Arrays, before: Arrays) -> Visited:
        F = shared["F"]
        m, K = F.shape
        costs, workspace = shared.get("costs"), Workspace()
        u = column_sums(F) if costs is None else costs
        free = K if self.held is None else int((~self.held).sum())
        sums, v, xlog, penalty, loadings = FeatureSums.zeros(m, free), np.zeros(u.shape), 0.0, 0.0, []
        even = np.divide(1 / K, u, out=np.zeros(u.shape), where=u > 0)
        for tile, rows in with_rows(tiles, before):
            sides, groups = Sides(tile, workspace), rows.get("groups")
            if self.even:
                start = (tile.sample_totals[:, None] * (even if groups is None else even[groups])).astype(
                    F.dtype, copy=False
                )
            else:
                start = rows["L"]
                if "scales" in shared:
                    start = (start * shared["scales"][groups][:, None]).astype(start.dtype)
            sets = None if self.sets is None else (self.sets, rows["sets"])
            side = left_side(sides, self.prior, K, costs, groups, sets)
            L, measured = self.half(side, F, start, measure=True)
            assert measured is not None
            replace(sides.right, held=self.held).add_sums(L, F, sums)
            v += group_sums(L, groups, len(v))
            xlog += measured
            penalty += self.prior.penalty(L) if self.prior is not None else 0.0
            loadings.append(L)
        added: Arrays = {"B": sums.numerators, "H": sums.curvature, "v": v, "xlog_penalty": np.array([xlog, penalty])}
        kept = {name: before[name] for name in ("groups", "sets") if name in before}
        return Visited({"L": joined(loadings)} | kept, added)
