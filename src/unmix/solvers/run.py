"""The only loop: step, measure, tell, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from unmix.fit import STATUSES, Fit
from unmix.models.poisson import column_sums, residuals
from unmix.solvers.base import Floats, Problem, Solver, State

# A gain below `tol` this many times in a row ends a fit; so many iterations without a conclusive gain do as well.
SMALL_GAINS, IDLE = 3, 12
NEGLIGIBLE = 1e-12  # a topic with a smaller share of a sample (or feature) is reported as absent

COLUMNS = ["iteration", "seconds", "loglik", "objective", "kkt", "stage", "note"]


@dataclass
class Trace:
    """What happened, one row an iteration. `seconds` run from the creation of the trace, set-up included.

    `heaviest_first` numbers the topics of the fit by weight; who gives a start knows them by their place in it.
    """

    problem: Problem
    heaviest_first: bool = False
    started: float = field(default_factory=time.perf_counter)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, state: State, stage: str, note: str = "", kkt: float = np.nan) -> dict[str, Any]:
        prior = self.problem.prior
        objective = -state.loss - self.problem.X.log_factorials
        row = {
            "iteration": len(self.rows),
            "seconds": time.perf_counter() - self.started,
            "loglik": objective + (prior.penalty(state.F) if prior else 0.0),
            "objective": objective,
            "kkt": kkt,
            "stage": stage,
            "note": note,
        }
        self.rows.append(row)
        return row

    def table(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows, columns=COLUMNS)


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each iteration. It may fill in `row["kkt"]`, and return a status to end the fit."""

    problem: Problem
    solver: Solver
    state: State
    trace: Trace
    gain: float  # of the log-likelihood (or posterior) in this iteration

    @property
    def row(self) -> dict[str, Any]:
        return self.trace.rows[-1]

    def fit(self, status: str = "interrupted", **about: Any) -> Fit:
        """The fit as it stands."""
        return make_fit(self.problem, self.solver, self.state, self.trace, status, **about)


Callback = Callable[[Progress], str | None]


def run(
    problem: Problem,
    solver: Solver,
    state: State,
    trace: Trace,
    *,
    max_iter: int,
    tol: float,
    stage: str = "fit",
    keep: bool = True,
    callbacks: Sequence[Callback] = (),
) -> tuple[State, str]:
    """Iterate until the gain per count stays below `tol`, a callback says stop, Ctrl-C, or `max_iter`.

    `tol=0` runs exactly `max_iter` iterations. With `keep=False` Ctrl-C is passed on, for runs that are part of another.
    Returns the last state and one of the statuses of `Fit`.
    """
    small = idle = 0
    for _ in range(max_iter):
        try:
            new = solver.step(problem, state)
        except KeyboardInterrupt:
            if not keep:
                raise
            return state, "interrupted"
        gain = state.loss - new.loss
        state = new
        trace.add(state, stage, state.note)
        if verdict := ask(callbacks, Progress(problem, solver, state, trace, gain)):
            return state, verdict
        if tol > 0:
            idle = 0 if state.conclusive else idle + 1
            if state.conclusive:
                small = small + 1 if gain < tol * problem.X.total else 0
            if small >= SMALL_GAINS or idle >= IDLE:
                return state, "converged"
    return state, "max_iter"


def ask(callbacks: Sequence[Callback], progress: Progress) -> str | None:
    """Tell every callback in turn; the first status that one returns ends the fit."""
    for tell in callbacks:
        if verdict := tell(progress):
            if verdict not in STATUSES:
                raise ValueError(
                    f"a callback returned {verdict!r}; return None to go on, or one of {', '.join(STATUSES)}"
                )
            return verdict
    return None


def make_fit(
    problem: Problem,
    solver: Solver,
    state: State,
    trace: Trace,
    status: str,
    **about: Any,
) -> Fit:
    """The frozen result. The KKT residual of the final point is always in its trace."""
    X = problem.X
    final = trace.rows[-1]
    if np.isnan(final["kkt"]):
        final["kkt"] = residuals(X, state.L, state.F, problem.threads, problem.prior).max
    L, F = _without_traces(problem, state)
    if trace.heaviest_first:
        order = np.argsort(-L.sum(axis=0) * F.sum(axis=0), kind="stable")
        L, F = np.ascontiguousarray(L[:, order]), np.ascontiguousarray(F[:, order])
    return Fit(
        L=L,
        F=F,
        trace=trace.table(),
        status=status,
        loglik=final["loglik"],
        samples=X.samples,
        features=X.features,
        state={"solver": repr(solver), "heaviest_first": trace.heaviest_first} | state.as_dict(),
        **about,
    )


def _without_traces(problem: Problem, state: State) -> tuple[Floats, Floats]:
    """Entries that the solvers' floor keeps just above zero become zero, unless the likelihood hangs on them, as it may
    where counts differ by many orders of magnitude."""
    L, F = cleared(state.L, state.F), cleared(state.F, state.L)
    harmless = problem.prior is None and abs(problem.loss(L, F) - state.loss) <= 1e-9 * abs(state.loss)
    return (L, F) if harmless else (state.L, state.F)


def cleared(moving: Floats, fixed: Floats) -> Floats:
    """`moving` with entries of a negligible share of their row set to zero."""
    weights = moving * column_sums(fixed)
    return np.where(weights < NEGLIGIBLE * weights.sum(axis=1, keepdims=True), 0, moving).astype(
        moving.dtype, copy=False
    )
