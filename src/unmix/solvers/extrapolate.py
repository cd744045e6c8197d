"""L from X, then F from Xᵀ with the new L."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from unmix.base.types import Factor
from unmix.models.problem import Problem, State
from unmix.solvers.base import AnySolver, HalfStep, Solver

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

FIRST, CEILING = 0.6, 0.99  # β to begin with, and at most
GROWTH, CEILING_GROWTH, SHRINKAGE = 1.05, 1.05, 0.75
KEPT = 0.5  # an extrapolated entry keeps this part of the plain one: a multiplicative step could not bring it back from zero


@dataclass(frozen=True, kw_only=True)
class Momentum(State):
    """L, F are the best pair so far; n marks the last plain results and y the extrapolated ones."""

    Ln: Factor
    Fn: Factor
    Ly: Factor
    Fy: Factor
    beta: float = FIRST
    proven: float = FIRST  # the last β that was accepted
    ceiling: float = CEILING
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
class Extrapolate(Solver[Momentum]):
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
    state_type: ClassVar[type[State]] = Momentum

    @property
    def plain(self) -> AnySolver:
        return self.inner if isinstance(self.inner, Solver) else Alternate(self.inner)

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> Momentum:
        return _gathered(self.plain.start(problem, L, F, loss), iteration=0)

    def step(self, problem: Problem, state: Momentum) -> Momentum:
        iteration = state.iteration + 1
        if iteration % self.period == 0:
            best = self.plain.step(problem, self.plain.start(problem, state.L, state.F, state.loss))
            gathered = _gathered(best, iteration)
            return replace(gathered, beta=state.beta, proven=state.proven, ceiling=state.ceiling, note="plain")
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
                beta=min(state.ceiling, GROWTH * state.beta),
                proven=state.beta,
                ceiling=min(CEILING, CEILING_GROWTH * state.ceiling),
                reference=new.loss,
                conclusive=better,
                note="",
            )
        return replace(
            state,
            Ly=new.Ln,
            Fy=new.Fn,
            beta=SHRINKAGE * state.beta,
            ceiling=state.proven,
            reference=problem.loss(new.Ln, new.Fn),
            conclusive=False,
            note="rejected",
        )

    def _advance(self, problem: Problem, s: Momentum) -> Advance:
        if isinstance(self.inner, Solver):
            new = self.inner.step(problem, self.inner.start(problem, s.Ly, s.Fy))
            Ly, Fy = beyond(new.L, s.Ln, s.beta), beyond(new.F, s.Fn, s.beta)
            return Advance(new.L, Ly, new.F, Fy, new.L, new.loss)
        Ln, _ = self.inner(problem.left, s.Fy, s.Ly)
        Ly = beyond(Ln, s.Ln, s.beta)
        Fn, xlog = self.inner(problem.right, Ly, s.Fy, measure=True)
        return Advance(Ln, Ly, Fn, beyond(Fn, s.Fn, s.beta), Ly, problem.loss(Ly, Fn, xlog))


def _gathered(s: State, iteration: int) -> Momentum:
    """All pairs at one point."""
    return Momentum(L=s.L, F=s.F, loss=s.loss, Ln=s.L, Fn=s.F, Ly=s.L, Fy=s.F, reference=s.loss, iteration=iteration)


def beyond(new: Factor, old: Factor, beta: float) -> Factor:
    """max(new + β (new − old), KEPT new), block by block so that what is between stays in cache"""
    out = np.empty_like(new)
    for start in range(0, len(new), 2048):
        rows = slice(start, start + 2048)
        ahead = new[rows] - old[rows]
        ahead *= beta
        ahead += new[rows]
        np.maximum(ahead, KEPT * new[rows], out=out[rows])
    return out
