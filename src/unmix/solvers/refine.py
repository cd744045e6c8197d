"""Moves that leave a poor optimum: the topics of another fit, put together with those of this one.

Each move makes a fit anew, from some starts on parts of the samples as the search of `init="auto"` does, and recombines it with
the best so far. The model's own solver then goes on from there for some iterations, and from the new fit as it was, and the move
is kept if the objective has risen above what it was before: so a model of any kind can be refined on its own objective, be it a
likelihood or a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unmix.models.problem import Problem
from unmix.models.task import Iterate, Task
from unmix.solvers.base import Stepper
from unmix.solvers.recombine import recombine
from unmix.solvers.run import Progress, run
from unmix.solvers.search import Search, search
from unmix.types import Factor, Record

# iterations of a trial; after the least, a move that could not catch up at its pace is given up
LEAST_TRIAL, TRIAL = 6, 40
OTHER = Search(starts=4)  # where the other topics come from


@dataclass(frozen=True, kw_only=True)
class Refining(Iterate):
    """The best iterate so far, in the state in which the solver left it."""

    best: Any
    seed: int
    moves: int = 0
    kept: bool = False

    @property
    def point(self) -> Any:
        return self.best

    def save(self) -> Record:
        return super().save() | {"best": self.best.save()}


@dataclass(frozen=True)
class Refine:
    """One move an iteration; the loss never rises. `begin` makes the solver's first iterate of loadings and factors."""

    solver: Stepper[Any, Any]
    begin: Callable[[Factor, Factor], Iterate] = field(repr=False)

    def start(self, best: Iterate, rng: np.random.Generator) -> Refining:
        return Refining(loss=best.loss, best=best, seed=int(rng.integers(2**31)))

    def restore(self, task: Task[Any], saved: Record) -> Refining:
        return Refining(**saved | {"best": self.solver.restore(task, saved["best"])})

    def step(self, task: Task[Any], state: Refining) -> Refining:
        here = task.result(state.best)
        problem = Problem(task.X, here.L.shape[1])
        other = search(problem, np.random.default_rng([state.seed, state.moves]), OTHER)
        child = recombine(problem, [(here.L, here.F), other])
        best = state.best
        for pair in (child, other):
            best = self._tried(task, best, self.begin(*pair))
        kept = best is not state.best
        note = f"put together with another fit: {f'kept, {state.loss - best.loss:+,.0f}' if kept else 'no'}"
        return Refining(
            loss=best.loss, best=best, seed=state.seed, moves=state.moves + 1, kept=kept or state.kept, note=note
        )

    def _tried(self, task: Task[Any], old: Iterate, start: Iterate) -> Iterate:
        """The iterate after the move if it is better, the old one if not."""
        losses = [start.loss]

        def judge(progress: Progress) -> str | None:
            losses.append(progress.state.loss)
            done = len(losses) - 1
            if done < LEAST_TRIAL:
                return None
            pace = (losses[-5] - losses[-1]) / 4
            behind = losses[-1] - old.loss
            return "interrupted" if behind < 0 or behind > (TRIAL - done) * pace else None

        end, _ = run(task, self.solver, start, max_iter=TRIAL, tol=0, catch_interrupt=False, callbacks=[judge])
        return end if end.loss < old.loss else old
