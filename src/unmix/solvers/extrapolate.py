"""Solvers made of half-steps: `Alternate` (L from X, then F from Xᵀ with the new L), and `Extrapolate`, which moves further."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from unmix.base.types import Factor
from unmix.counts.data import Data
from unmix.models.problem import Problem, State
from unmix.solvers.base import FIRST, LIKELIHOOD, AnySolver, HalfStep, Momentum, Solver, beyond
from unmix.solvers.streamed import Streamed

ROUNDING = 1e-10  # a rise of the loss by a smaller part is none


@dataclass(frozen=True)
class Alternate(Solver[State]):
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

    def for_data(self, X: Data) -> Any:
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
# Going on from the *new* plain pair after a rejection is ours (fastTopics goes back to the old one): it saves the iteration's
# work, and on real text ends at better optima; see docs/decisions.md.


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
class Extrapolate(Solver[ExtrapolatedState]):
    """Moves on along the last change, and takes that back where the loss rises: what `extrapolate=True` does.

    Parameters
    ----------
    inner : HalfStep or Solver
        A half-step (each factor extrapolated as soon as it is updated) or any other solver (both after its step).
    period : int, default=20
        Every so many iterations one is a plain one, from the best factors so far.

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
    state_type: ClassVar[type[State]] = ExtrapolatedState

    @property
    def name(self) -> str:
        return self.plain.name

    @property
    def supports(self) -> frozenset[str]:
        return self.plain.supports

    def for_data(self, X: Data) -> Any:
        return self if X.in_memory or not isinstance(self.inner, HalfStep) else Streamed(self.inner)

    @property
    def plain(self) -> AnySolver:
        return self.inner if isinstance(self.inner, Solver) else Alternate(self.inner)

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> ExtrapolatedState:
        return _gathered(self.plain.start(problem, L, F, loss), iteration=0)

    def step(self, problem: Problem, state: ExtrapolatedState) -> ExtrapolatedState:
        iteration = state.iteration + 1
        if iteration % self.period == 0:
            best = self.plain.step(problem, self.plain.start(problem, state.L, state.F, state.loss))
            gathered = _gathered(best, iteration)
            return replace(gathered, momentum=state.momentum, note="plain")
        new = self._advance(problem, state)
        better, accepted = new.loss < state.loss, new.loss < state.reference
        if better:
            state = replace(state, L=new.L, F=new.Fn, loss=new.loss)
        state = replace(state, iteration=iteration, Ln=new.Ln, Fn=new.Fn)
        if accepted:
            return replace(
                state,
                Ly=new.Ly,
                Fy=new.Fy,
                momentum=state.momentum.accepted(),
                reference=new.loss,
                conclusive=better,
                note="",
            )
        return replace(
            state,
            Ly=new.Ln,
            Fy=new.Fn,
            momentum=state.momentum.rejected(),
            reference=problem.loss(new.Ln, new.Fn),
            conclusive=False,
            note="rejected",
        )

    def _advance(self, problem: Problem, s: ExtrapolatedState) -> Advance:
        beta = s.momentum.beta
        if isinstance(self.inner, Solver):
            new = self.inner.step(problem, self.inner.start(problem, s.Ly, s.Fy))
            return Advance(new.L, beyond(new.L, s.Ln, beta), new.F, beyond(new.F, s.Fn, beta), new.L, new.loss)
        Ln, _ = self.inner(problem.left, s.Fy, s.Ly)
        Ly = beyond(Ln, s.Ln, beta)
        Fn, xlog = self.inner(problem.right, Ly, s.Fy, measure=True)
        return Advance(Ln, Ly, Fn, beyond(Fn, s.Fn, beta), Ly, problem.loss(Ly, Fn, xlog))


def _gathered(s: State, iteration: int) -> ExtrapolatedState:
    """All pairs at one point."""
    return ExtrapolatedState(
        L=s.L, F=s.F, loss=s.loss, Ln=s.L, Fn=s.F, Ly=s.L, Fy=s.F, reference=s.loss, iteration=iteration
    )
