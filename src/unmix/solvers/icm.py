"""Iterated conditional modes: single tokens move while log p(S) rises.

Without the token, topic k would multiply p(S) by

    (α_j + S_jk)(β_k + S_ik) / ((α₊ + S_k)(S_ijk + 1)).

A token moves only if another topic beats its own, so log p(S) rises with every move and the moves come to an end.
Without 1/(S_ijk + 1) this would optimise labels, not the tensor S, for which Π x! / Π S! labelings stand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unmix.kernels import sampling
from unmix.kernels.sampling import Labels
from unmix.solvers.base import Result
from unmix.solvers.bld import AllocationTask, Sums
from unmix.solvers.labels import Labelled, by_feature, by_sample
from unmix.solvers.run import Progress


@dataclass(frozen=True, kw_only=True)
class Moved(Labelled):
    moved: int  # tokens in the last sweep


@dataclass(frozen=True)
class LabelTask(AllocationTask):
    """The same task for whole S."""

    def result(self, state: Labelled) -> Result:  # type: ignore[override]
        return super().result(self.sums(state))

    def sums(self, state: Labelled) -> Sums:
        return Sums(loss=state.loss, by_feature=by_feature(state.held), by_sample=by_sample(state.held))


@dataclass(frozen=True)
class ICM:
    def start(self, task: LabelTask, held: Labels) -> Moved:
        return self._at(task, held, -1)

    def greedy(self, task: LabelTask, rng: np.random.Generator) -> Moved:
        """A first assignment: nonzeros in random order, each token where it gains most."""
        X, model = task.X, task.model
        held = Labels.empty(X.rows, X.shape, model.n_topics, 1)
        sampling.greedy(X.rows, model.alpha, model.beta, rng.permutation(X.nnz), held)
        return self._at(task, held, -1)

    def step(self, task: LabelTask, state: Moved) -> Moved:
        held = state.held.copy()
        moved = sampling.icm(task.X.rows, task.model.alpha, task.model.beta, held)
        return self._at(task, held, moved)

    @staticmethod
    def _at(task: LabelTask, held: Labels, moved: int) -> Moved:
        factorials = float(sampling.log_factorials(task.X.rows, held)[0])
        loss = task.loss(by_feature(held), by_sample(held), factorials)
        return Moved(loss=loss, held=held, moved=moved, note="" if moved < 0 else f"{moved} moved")


def until_still(progress: Progress) -> str | None:
    """A callback that ends the run once no token moves."""
    return "converged" if progress.state.moved == 0 else None
