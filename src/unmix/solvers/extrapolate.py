"""Solvers made of half-steps: `Alternate` (L from X, then F from Xᵀ with the new L), `Extrapolate`, which moves further, and
`Streamed`, their relative for data that are not in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from unmix.base.checks import choice
from unmix.base.types import Factor, Record
from unmix.counts.data import Arrays, Data, Part, Visit, Visited, by_tile, joined
from unmix.counts.sides import FeatureSums, Sides, column_sums
from unmix.kernels import Workspace
from unmix.models.priors import Dirichlet, Gamma
from unmix.models.problem import Problem, State, StreamedPoint, from_record, left_side
from unmix.solvers.base import FIRST, LIKELIHOOD, AnySolver, FactorSolver, HalfStep, Momentum, Solver, beyond
from unmix.solvers.halfsteps import Newton

ROUNDING = 1e-10  # a rise of the loss by a smaller part is none
LEAST = 1e-15  # of an entry that the published rule extrapolates


@dataclass(frozen=True)
class Alternate(FactorSolver[State]):
    """One half-step on each side. A half-step that gives no guarantee names a `safe` one to redo the iteration with.

    Parameters
    ----------
    half : HalfStep
        What updates a factor.

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

    @property
    def name(self) -> str:
        return type(self.half).__name__

    @property
    def supports(self) -> frozenset[str]:
        return LIKELIHOOD

    def for_data(self, X: Data) -> Solver[Problem, Any]:
        return self if X.in_memory or not isinstance(self.half, HalfStep) else Streamed(self.half, extrapolate=False)

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> State:
        return State(L=L, F=F, loss=problem.loss(L, F) if loss is None else loss)

    def step(self, problem: Problem, state: State) -> State:
        new = self._step(self.half, problem, state)
        safe = self.half.safe if isinstance(self.half, HalfStep) else None  # any callable may be one
        if safe is not None and new.loss > state.loss + ROUNDING * abs(state.loss):
            new = self._step(safe, problem, state)
        return new

    @staticmethod
    def _step(half: HalfStep, problem: Problem, state: State) -> State:
        L, _ = half(problem.left, state.F, state.L)
        F, xlog = half(problem.right, L, state.F, measure=True)
        problem.rescale(L, F)
        return State(L=L, F=F, loss=problem.loss(L, F, xlog))


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
        return self.plain.supports

    def for_data(self, X: Data) -> Solver[Problem, Any]:
        streams = isinstance(self.inner, HalfStep) and not self.published
        return self if X.in_memory or not streams else Streamed(self.inner)  # type: ignore[arg-type]

    @property
    def published(self) -> bool:
        choice("rule", self.rule, ("unmix", "ang-gillis"))
        return self.rule == "ang-gillis"

    @property
    def plain(self) -> AnySolver:
        return self.inner if isinstance(self.inner, FactorSolver) else Alternate(self.inner)

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> ExtrapolatedState:
        first = _gathered(self.plain.start(problem, L, F, loss), iteration=0)
        return replace(first, momentum=Momentum(0.5, 0.5)) if self.published else first

    def step(self, problem: Problem, state: ExtrapolatedState) -> ExtrapolatedState:
        iteration = state.iteration + 1
        if iteration % self.period == 0:
            best = self.plain.step(problem, self.plain.start(problem, state.L, state.F, state.loss))
            gathered = _gathered(best, iteration)
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
        return Advance(Ln, Ly, Fn, ahead(Fn, s.Fn), Ly, problem.loss(Ly, Fn, xlog))


def _gathered(s: State, iteration: int) -> ExtrapolatedState:
    """All pairs at one point."""
    return ExtrapolatedState(
        L=s.L, F=s.F, loss=s.loss, Ln=s.L, Fn=s.F, Ly=s.L, Fy=s.F, reference=s.loss, iteration=iteration
    )


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
        return frozenset({"shards", "a prior on factors", "a prior on loadings"})

    def start(self, task: Problem, L: Factor, F: Factor) -> StreamedState:
        """Loadings for these factors, from those given or from even shares, and the first step of the factors."""
        visit = LoadingsStep(FROM_EVEN, task.loadings_prior, even=not len(L))
        before = {"L": L} if len(L) else None
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
