"""L from X, then F from Xᵀ with the new L."""

from __future__ import annotations

from dataclasses import dataclass

from unmix.models.problem import Problem, State
from unmix.solvers.base import HalfStep, Solver
from unmix.types import Factor

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
