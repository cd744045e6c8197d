"""L from X, then F from Xᵀ with the new L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unmix.solvers.base import Floats, HalfStep, Problem, State

# a rise of the loss below this is rounding
TOLERANCE = 1e-10


@dataclass(frozen=True)
class Alternate:
    """One half-step on each side. A half-step that gives no guarantee names a `safe` one to redo the iteration with."""

    half: HalfStep
    state_type: ClassVar[type[State]] = State

    def start(self, problem: Problem, L: Floats, F: Floats) -> State:
        return State(L=L, F=F, loss=problem.loss(L, F))

    def step(self, problem: Problem, state: State) -> State:
        new = self._step(self.half, problem, state)
        safe: HalfStep | None = getattr(self.half, "safe", None)
        if safe is not None and new.loss > state.loss + TOLERANCE * abs(state.loss):
            new = self._step(safe, problem, state)
        return new

    @staticmethod
    def _step(half: HalfStep, problem: Problem, state: State) -> State:
        L, _ = half(problem.left, state.F, state.L)
        F, xlog = half(problem.right, L, state.F, measure=True)
        problem.rescale(L, F)
        return State(L=L, F=F, loss=problem.loss(L, F, xlog))
