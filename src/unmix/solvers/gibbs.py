"""Collapsed Gibbs sampling of the labels, several chains at once (Griffiths and Steyvers; LDA's sampler).

Topics, proportions and sizes are integrated out; `models/allocating.py` says what is averaged over sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.kernels import sampling
from unmix.kernels.sampling import Labels
from unmix.models.allocating import AllocationTask, Averages, Chains
from unmix.solvers.diagnostics import Diagnostics, diagnose
from unmix.solvers.labels import restored_labels
from unmix.types import Record


@dataclass(frozen=True)
class Gibbs:
    """One sweep of every chain a step. With `thin`, every thin-th sweep is kept; without, none: the burn-in."""

    thin: int | None = field(default=None, repr=False)
    chains: int = field(default=1, repr=False)

    def start(self, task: AllocationTask, held: Labels, random: NDArray[np.uint64]) -> Chains:
        loss = -float(np.mean(task.log_joints(held)))
        return Chains(loss=loss, held=held, random=random, history=[], sweeps=0, burnt=0)

    def restore(self, task: AllocationTask, saved: Record) -> Chains:
        return Chains(
            loss=saved["loss"],
            held=restored_labels(task, saved, self.chains),
            random=saved["random"],
            history=[tuple(sweep) for sweep in saved["history"].tolist()],
            sweeps=len(saved["history"]),
            burnt=saved["burnt"],
            averages=Averages(**saved["averages"]) if "averages" in saved else None,
        )

    def step(self, task: AllocationTask, state: Chains) -> Chains:
        held, random, model = state.held.copy(), state.random.copy(), task.model
        sampling.gibbs(task.X.rows, model.alpha, model.beta, held, random)
        log_joints = task.log_joints(held)
        history, sweeps = state.history, state.sweeps + 1
        history[state.sweeps :] = [log_joints]
        averages = state.averages
        if self.thin is not None and (sweeps - state.burnt) % self.thin == 0:
            now = task.moments(held)
            averages = now if averages is None else averages + now
        return Chains(
            loss=-float(np.mean(log_joints)),
            held=held,
            random=random,
            history=history,
            sweeps=sweeps,
            burnt=sweeps if self.thin is None else state.burnt,
            averages=averages,
        )


def samples_table(state: Chains) -> pd.DataFrame:
    """log p(S) of every chain after every sweep; `kept` is False in the burn-in."""
    history = np.array(state.history[: state.sweeps]).reshape(state.sweeps, state.held.chains)
    sweep, chain = np.indices(history.shape)
    return pd.DataFrame(
        {
            "chain": chain.T.ravel() + 1,
            "sweep": sweep.T.ravel() + 1,
            "log_joint": history.T.ravel(),
            "kept": sweep.T.ravel() >= state.burnt,
        }
    )


def diagnostics(state: Chains) -> Diagnostics:
    """Of log p(S) after the burn-in."""
    history = np.array(state.history[state.burnt : state.sweeps]).reshape(-1, state.held.chains)
    return diagnose(history.T)
