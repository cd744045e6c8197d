"""The only loop: step, measure, tell, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from unmix.fit import STATUSES, Fit
from unmix.solvers.base import Stage, Stepper, Task

# A gain below `tol` this many times in a row ends a fit; so many iterations without a conclusive gain do as well.
SMALL_GAINS, IDLE = 3, 12

COLUMNS = ["iteration", "seconds", "loglik", "objective", "kkt", "stage", "note"]


@dataclass
class Trace:
    """What happened, one row an iteration. `seconds` run from the creation of the trace, set-up included.

    `heaviest_first` numbers the topics of the fit by weight; who gives a start knows them by their place in it.
    """

    problem: Task
    heaviest_first: bool = False
    started: float = field(default_factory=time.perf_counter)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, state: Stage, stage: str, note: str = "") -> dict[str, Any]:
        row: dict[str, Any] = {"iteration": len(self.rows), "seconds": time.perf_counter() - self.started}
        row |= self.problem.figures(state) | {"kkt": np.nan, "stage": stage, "note": note}
        self.rows.append(row)
        return row

    def table(self) -> pd.DataFrame:
        more = [name for name in self.rows[0] if name not in COLUMNS] if self.rows else []
        return pd.DataFrame(self.rows, columns=COLUMNS + more)


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each iteration. It may fill in `row["kkt"]`, and return a status to end the fit."""

    problem: Task
    solver: Stepper
    state: Any
    trace: Trace
    gain: float  # of the objective in this iteration

    @property
    def row(self) -> dict[str, Any]:
        return self.trace.rows[-1]

    def fit(self, status: str = "interrupted", **about: Any) -> Fit:
        """The fit as it stands."""
        return make_fit(self.problem, self.solver, self.state, self.trace, status, **about)


Callback = Callable[[Progress], str | None]


def run(
    problem: Task,
    solver: Stepper,
    state: Any,
    trace: Trace,
    *,
    max_iter: int,
    tol: float,
    stage: str = "fit",
    keep: bool = True,
    callbacks: Sequence[Callback] = (),
) -> tuple[Any, str]:
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
    problem: Task,
    solver: Stepper,
    state: Any,
    trace: Trace,
    status: str,
    **about: Any,
) -> Fit:
    """The frozen result. The KKT residual of the final point is always in its trace."""
    X = problem.X
    final = trace.rows[-1]
    if np.isnan(final["kkt"]):
        final["kkt"] = problem.kkt(state)
    result = problem.result(state)
    final["loglik"] = result.loglik
    L, F, posterior = result.L, result.F, result.posterior
    if trace.heaviest_first:
        order = np.argsort(-L.sum(axis=0) * F.sum(axis=0), kind="stable")
        L, F = np.ascontiguousarray(L[:, order]), np.ascontiguousarray(F[:, order])
        posterior = {
            name: np.ascontiguousarray(array[..., order]) if array.shape[-1] == len(order) else array
            for name, array in posterior.items()
        }
    return Fit(
        L=L,
        F=F,
        trace=trace.table(),
        status=status,
        loglik=result.loglik,
        posterior=posterior,
        samples=X.samples,
        features=X.features,
        metadata=X.metadata,
        data=X.facts,
        text=X.text,
        state={"solver": repr(solver), "heaviest_first": trace.heaviest_first} | state.as_dict(),
        **about,
    )
