"""Collapsed Gibbs sampling of the labels, several chains at once (Griffiths and Steyvers; LDA's sampler).

Topics, proportions and sizes are integrated out. Given the labels of a kept sweep they are Dirichlet, so their posterior means
and variances are averages of closed forms (Rao–Blackwell), not of draws:

    E f*_jk ≈ mean of (α_j + S_jk) / (α₊ + S_k),      E f*_jk² ≈ mean of (α_j + S_jk)(α_j + S_jk + 1) / ((α₊ + S_k)(α₊ + S_k + 1))

Topics have no order of their own: where β is the same for all, each chain's topics are matched to the first chain's before
chains are averaged. If topics change places within a chain, no matching helps: look at R̂, and at the chains apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from unmix.kernels import sampling
from unmix.kernels.sampling import Labels
from unmix.models.poisson import loglik
from unmix.solvers.base import Result
from unmix.solvers.diagnostics import Diagnostics, diagnose
from unmix.solvers.icm import LabelTask
from unmix.solvers.labels import Labelled, by_feature, by_sample

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Averages:
    """Sums over kept sweeps of the first and second moments given S, of S_jk, and how many they are. Chains come first."""

    kept: int
    topics: Floats  # chains × m × K
    topics_squared: Floats
    counts: Floats
    proportions: Floats  # chains × n × K
    proportions_squared: Floats

    def __add__(self, other: Averages) -> Averages:
        return Averages(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


@dataclass(frozen=True, kw_only=True)
class Chains(Labelled):
    random: NDArray[np.uint64]
    history: list[
        tuple[float, ...]
    ]  # log p(S) of every chain after every sweep; one list, which grows with the last state
    sweeps: int  # so many of them are of this state
    burnt: int  # sweeps before the first that counts
    averages: Averages | None = None

    def as_dict(self) -> dict[str, Any]:
        history = np.array(self.history[: self.sweeps]).reshape(self.sweeps, self.held.chains)
        chains = {"random": self.random, "history": history, "burnt": self.burnt}
        return super().as_dict() | chains | ({} if self.averages is None else {"averages": vars(self.averages)})


@dataclass(frozen=True)
class GibbsTask(LabelTask):
    def log_joints(self, held: Labels) -> tuple[float, ...]:
        factorials = sampling.log_factorials(self.X.rows, held, threads=self.threads)
        return tuple(-self.loss(by_feature(held, c), by_sample(held, c), factorials[c]) for c in range(held.chains))

    def moments(self, held: Labels) -> Averages:
        """Of the present sweep alone."""
        f = self.model.alpha[:, None] + held.by_feature[:, :, : held.topics]
        g = self.model.beta + held.by_sample[:, :, : held.topics]
        f_total, g_total = f.sum(axis=1, keepdims=True), g.sum(axis=2, keepdims=True)
        topics, proportions = f / f_total, g / g_total
        return Averages(
            1,
            topics,
            topics * (f + 1) / (f_total + 1),
            held.by_feature[:, :, : held.topics].astype(np.float64),
            proportions,
            proportions * (g + 1) / (g_total + 1),
        )

    def result(self, state: Chains) -> Result:  # type: ignore[override]
        """Means over kept sweeps and matched chains; the present sweep if none has been kept."""
        X, model = self.X, self.model
        sums = state.averages or self.moments(state.held)
        order = matching(sums.topics) if np.ptp(model.beta) == 0 else [np.arange(model.n_topics)] * state.held.chains
        mean = partial(_mean, kept=sums.kept, order=order)
        topics, proportions = mean(sums.topics), mean(sums.proportions)
        L = proportions * model.sizes(X.sample_totals).mean[:, None]
        by_sample = proportions * (model.beta.sum() + X.sample_totals)[:, None] - model.beta
        posterior = model.posterior(mean(sums.counts), by_sample) | {
            "L_sd": _sd(mean(sums.proportions_squared), proportions),
            "F_sd": _sd(mean(sums.topics_squared), topics),
        }
        return Result(L, topics, float(loglik(X, L, topics)), posterior)


@dataclass(frozen=True)
class Gibbs:
    """One sweep of every chain a step. With `thin`, every thin-th sweep is kept; without, none: the burn-in."""

    thin: int | None = field(default=None, repr=False)

    def start(self, task: GibbsTask, held: Labels, random: NDArray[np.uint64]) -> Chains:
        loss = -float(np.mean(task.log_joints(held)))
        return Chains(loss=loss, held=held, random=random, history=[], sweeps=0, burnt=0)

    def restore(self, task: GibbsTask, held: Labels, left: dict[str, Any]) -> Chains:
        """The state that `as_dict` was taken from, given its labels."""
        return Chains(
            loss=left["loss"],
            held=held,
            random=left["random"],
            history=[tuple(sweep) for sweep in left["history"].tolist()],
            sweeps=len(left["history"]),
            burnt=left["burnt"],
            averages=Averages(**left["averages"]) if "averages" in left else None,
        )

    def step(self, task: GibbsTask, state: Chains) -> Chains:
        held, random = state.held.copy(), state.random.copy()
        sampling.gibbs(task.X.rows, task.model.alpha, task.model.beta, held, random, threads=task.threads)
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


def matching(topics: Floats) -> list[NDArray[np.intp]]:
    """For every chain the order that puts its topics (m × K) where the first chain has those most like them:
    the largest sum of Σ_j sqrt(f_jk g_jk)."""
    first = np.sqrt(topics[0])
    return [linear_sum_assignment(-(first.T @ np.sqrt(chain)))[1] for chain in topics]


def _mean(sums: Floats, kept: int, order: list[NDArray[np.intp]]) -> Floats:
    return np.mean([chain[:, places] for chain, places in zip(sums, order, strict=True)], axis=0) / kept


def _sd(second: Floats, mean: Floats) -> Floats:
    return np.sqrt(np.maximum(second - mean**2, 0))


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
