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
from unmix.models.allocating import AllocationTask, Labelled
from unmix.solvers.labels import restored_labels
from unmix.types import Record


@dataclass(frozen=True)
class ICM:
    def start(self, task: AllocationTask, held: Labels) -> Labelled:
        return Labelled(loss=-task.log_joints(held)[0], held=held)

    def restore(self, task: AllocationTask, saved: Record) -> Labelled:
        return self.start(task, restored_labels(task, saved, chains=1))

    def greedy(self, task: AllocationTask, rng: np.random.Generator) -> Labelled:
        """A first assignment: nonzeros in random order, each token where it gains most."""
        X, model = task.X, task.model
        held = Labels.empty(X.rows, X.shape, model.n_topics, 1)
        sampling.greedy(X.rows, model.alpha, model.beta, rng.permutation(X.nnz), held)
        return self.start(task, held)

    def step(self, task: AllocationTask, state: Labelled) -> Labelled:
        """A sweep over all tokens; final once none moves."""
        held, model = state.held.copy(), task.model
        moved = sampling.icm(task.X.rows, model.alpha, model.beta, held)
        return Labelled(loss=-task.log_joints(held)[0], held=held, final=moved == 0, note=f"{moved} moved")
