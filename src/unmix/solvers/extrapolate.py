"""Extrapolation with restarts (after Ang and Gillis, and fastTopics): move a little further along the last change.

Each half-step starts from the extrapolated factors and its result is extrapolated again, L_y = L_n + β (L_n − last L_n).
If the loss falls, β grows. If it does not, β shrinks and the next iteration starts from the new plain pair, without momentum;
the best pair so far is kept aside. Every 20th iteration is a plain one from the best pair; all pairs are set to it, and
rescaled, so differences never mix scales.

Going on from the *new* plain pair after a rejection is ours (fastTopics goes back to the old one): it saves the iteration's
work, and on real text ends at better optima; see docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unmix.solvers.alternate import Alternate
from unmix.solvers.base import Floats, HalfStep, Problem, Solver, State

FIRST, CEILING = 0.6, 0.99  # β to begin with, and at most
GROWTH, CEILING_GROWTH, SHRINKAGE = 1.05, 1.05, 0.75
LEAST = 0.5  # an extrapolated entry keeps this part of the plain one: a multiplicative step could not bring it back from zero


@dataclass(frozen=True, kw_only=True)
class Momentum(State):
    """L, F are the best pair so far; n marks the last plain results and y the extrapolated ones."""

    Ln: Floats
    Fn: Floats
    Ly: Floats
    Fy: Floats
    beta: float = FIRST
    proven: float = FIRST  # the last β that was accepted
    ceiling: float = CEILING
    reference: float
    iteration: int = 0


@dataclass(frozen=True)
class Extrapolate:
    """Wraps a half-step (each factor extrapolated as soon as it is updated) or any other solver (both after its step)."""

    inner: HalfStep | Solver
    period: int = 20
    state_type: ClassVar[type[State]] = Momentum

    @property
    def plain(self) -> Solver:
        return self.inner if isinstance(self.inner, Solver) else Alternate(self.inner)

    def start(self, problem: Problem, L: Floats, F: Floats) -> Momentum:
        first = self.plain.start(problem, L, F)
        return _gathered(first, iteration=0)

    def step(self, problem: Problem, state: Momentum) -> Momentum:
        iteration = state.iteration + 1
        if iteration % self.period == 0:
            best = self.plain.step(problem, self.plain.start(problem, state.L, state.F))
            return replace(
                _gathered(best, iteration), beta=state.beta, proven=state.proven, ceiling=state.ceiling, note="plain"
            )
        Ln, Ly, Fn, Fy, candidate, loss = self._advance(problem, state)
        state = replace(state, iteration=iteration, conclusive=loss < state.loss)
        if loss < state.loss:
            state = replace(state, L=candidate[0], F=candidate[1], loss=loss)
        if loss < state.reference:
            return replace(
                state,
                Ln=Ln,
                Fn=Fn,
                Ly=Ly,
                Fy=Fy,
                beta=min(state.ceiling, GROWTH * state.beta),
                proven=state.beta,
                ceiling=min(CEILING, CEILING_GROWTH * state.ceiling),
                reference=loss,
                note="",
            )
        return replace(
            state,
            Ln=Ln,
            Fn=Fn,
            Ly=Ln,
            Fy=Fn,
            beta=SHRINKAGE * state.beta,
            ceiling=state.proven,
            reference=problem.loss(Ln, Fn),
            conclusive=False,
            note="rejected",
        )

    def _advance(
        self, problem: Problem, s: Momentum
    ) -> tuple[Floats, Floats, Floats, Floats, tuple[Floats, Floats], float]:
        """New plain and extrapolated factors, the pair whose loss is known, and that loss."""
        if isinstance(self.inner, Solver):
            new = self.inner.step(problem, self.inner.start(problem, s.Ly, s.Fy))
            return (
                new.L,
                _beyond(new.L, s.Ln, s.beta),
                new.F,
                _beyond(new.F, s.Fn, s.beta),
                (new.L, new.F),
                new.loss,
            )
        Ln, _ = self.inner(problem.left, s.Fy, s.Ly)
        Ly = _beyond(Ln, s.Ln, s.beta)
        Fn, xlog = self.inner(problem.right, Ly, s.Fy, measure=True)
        return Ln, Ly, Fn, _beyond(Fn, s.Fn, s.beta), (Ly, Fn), problem.loss(Ly, Fn, xlog)


def _gathered(s: State, iteration: int) -> Momentum:
    """All pairs at one point."""
    return Momentum(L=s.L, F=s.F, loss=s.loss, Ln=s.L, Fn=s.F, Ly=s.L, Fy=s.F, reference=s.loss, iteration=iteration)


def _beyond(new: Floats, old: Floats, beta: float) -> Floats:
    """max(new + β (new − old), LEAST new), block by block so that what is between stays in cache"""
    out = np.empty_like(new)
    for start in range(0, len(new), 2048):
        rows = slice(start, start + 2048)
        ahead = new[rows] - old[rows]
        ahead *= beta
        ahead += new[rows]
        np.maximum(ahead, LEAST * new[rows], out=out[rows])
    return out
