"""One call of every kernel on counts of any size, as bytes: what must not depend on threads, signals or who else is computing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unmix import kernels
from unmix.counts.counts import Counts


class Problem(NamedTuple):
    X: Counts
    L: np.ndarray
    F: np.ndarray
    workspace: kernels.Workspace

    @property
    def halves(self) -> tuple:
        return self.X.rows, self.F, self.L, self.F.sum(axis=0), None

    def labels(self) -> kernels.Labels:
        tokens = np.arange(int(self.X.rows.data.sum()))
        labels = np.stack([tokens % self.K, tokens // 3 % self.K]).astype(np.uint16)
        return kernels.Labels.of(self.X.rows, self.X.shape, self.K, labels)

    @property
    def K(self) -> int:
        return self.L.shape[1]

    @property
    def priors(self) -> tuple[np.ndarray, np.ndarray]:
        return np.full(self.X.shape[1], 0.1), np.full(self.K, 0.3)


def problem(rows: int = 60, columns: int = 40, K: int = 10, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    X = Counts(rng.poisson(1.0, (rows, columns)))
    return Problem(X, rng.random((rows, K)), rng.random((columns, K)), kernels.Workspace())


def sums(p: Problem) -> tuple[np.ndarray, ...]:
    B, H = np.zeros(p.F.shape), np.zeros((len(p.F), kernels.curvature_size(p.K)), np.float32)
    kernels.add_sums(p.X.columns, p.L, p.F, B, H, workspace=p.workspace)
    return B, H


def gibbs(p: Problem) -> tuple[np.ndarray, ...]:
    state, random = p.labels(), kernels.seeds(np.random.default_rng(0), 2)
    kernels.gibbs(p.X.rows, *p.priors, state, random, sweeps=2)
    return *state.arrays, random


def icm(p: Problem) -> tuple[np.ndarray, ...]:
    state = p.labels()
    kernels.icm(p.X.rows, *p.priors, state)
    return state.arrays


def greedy(p: Problem) -> tuple[np.ndarray, ...]:
    state = kernels.Labels.empty(p.X.rows, p.X.shape, p.K, 1)
    kernels.greedy(p.X.rows, *p.priors, np.arange(len(p.X.rows.data))[::-1].copy(), state)
    return state.arrays


def particles(p: Problem) -> tuple[np.ndarray, ...]:
    columns = p.X.rows.indices[:500]
    rows, random = np.arange(len(columns)) // 20, kernels.seeds(np.random.default_rng(0), 2)
    return (kernels.particle_filter(rows, columns, *p.priors, random, particles=max(4, len(p.L) // 4)),)


def posteriors(p: Problem) -> tuple[np.ndarray, ...]:
    spread = kernels.Spread(gram=p.L.T @ p.L)
    rates = np.ones(len(p.F))
    where = {"spread": spread, "workspace": p.workspace}
    return kernels.posteriors(p.X.columns, p.L, p.L.sum(axis=0), rates, shape=0.5, start=1.0, **where)


def box_step(p: Problem) -> tuple[np.ndarray, ...]:
    totals = np.asarray(p.X.csr.sum(axis=0), dtype=np.float64).ravel()
    return (kernels.box_step(p.F, *sums(p), p.L.sum(axis=0), totals, None),)


def both(p: Problem) -> tuple[np.ndarray, ...]:
    return kernels.both_numerators(p.X.rows, p.X.columns, p.X.column_order, p.L, p.F, workspace=p.workspace)


def infer(p: Problem) -> tuple[np.ndarray, ...]:
    given = (p.F, np.ones(p.K), p.L, np.full(p.K, 0.3))
    return (kernels.infer(p.X.rows, *given, steps=20, tolerance=0.0, workspace=p.workspace),)


def means_of_rates(p: Problem) -> tuple[np.ndarray, ...]:
    return (kernels.means_of_rates(p.L, kernels.Hierarchy(p.F.sum(axis=0), 0.5 + p.K, 0.3)),)


def log_means(p: Problem) -> tuple[np.ndarray, ...]:
    geometric, shift, term = kernels.log_means(p.L, np.zeros(p.K), np.ones(p.K))
    return geometric, shift, np.array(term)


def assigned(p: Problem) -> tuple[np.ndarray, ...]:
    F = p.F[:, : min(p.K, 6)] / p.F[:, : min(p.K, 6)].sum(axis=0)
    found = kernels.assign_topics(p.X.rows, F, np.ones((1, F.shape[1])))
    return *found, kernels.residuals(p.X.rows, F, found.exposures, found.chosen, 1, draws=3)


CALLS: dict[str, Callable[[Problem], tuple[np.ndarray | None, ...]]] = {
    "em": lambda p: kernels.em(*p.halves, steps=20, measure=True, workspace=p.workspace),
    "cd": lambda p: kernels.cd(*p.halves, sweeps=4, rule="scd", measure=True, workspace=p.workspace),
    "newton": lambda p: kernels.newton(*p.halves, rounds=4, tolerance=0.0, measure=True, workspace=p.workspace),
    "both_numerators": both,
    "infer": infer,
    "log_means": log_means,
    "means_of_rates": means_of_rates,
    "add_sums": sums,
    "box_step": box_step,
    "transpose": lambda p: kernels.transpose(p.X.rows, p.X.shape[1]),
    "posteriors": posteriors,
    "assign_topics": assigned,
    "gibbs": gibbs,
    "icm": icm,
    "greedy": greedy,
    "particle_filter": particles,
    "digamma": lambda p: (kernels.digamma(p.L),),
}


def answer(name: str, p: Problem) -> bytes:
    return b"".join(np.asarray(part).tobytes() for part in CALLS[name](p) if part is not None)
