"""The only loop: step, measure, tell, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from unmix.fit import STATUSES, Fit
from unmix.solvers.base import Stage, Stepper, Task

# A gain below `tol` this many times in a row ends a fit; so many iterations without a conclusive gain do as well.
SMALL_GAINS, IDLE = 3, 12

BESIDES = ("solver", "heaviest_first", "way")  # in `Fit.state`, besides the solver's own
COLUMNS = ["iteration", "seconds", "loglik", "objective", "kkt", "stage", "note"]


@dataclass(frozen=True)
class Pace:
    """How far a run has come, and how many small or inconclusive gains running it has seen."""

    stage: str = ""
    done: int = 0
    small: int = 0
    idle: int = 0


@dataclass
class Trace:
    """What happened, one row an iteration, and where on its way the fit is. `seconds` run from the creation of the trace,
    set-up included.

    `heaviest_first` numbers the topics of the fit by weight; who gives a start knows them by their place in it. `params` are
    the estimator's, `rng` its random numbers, and `search` what a search between runs (split–merge) has found so far.
    """

    problem: Task
    heaviest_first: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    rng: np.random.Generator | None = None
    started: float = field(default_factory=time.perf_counter)
    rows: list[dict[str, Any]] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)
    search: dict[str, Any] | None = None
    resuming: bool = False

    def go_on_from(self, fit: Fit) -> None:
        """Be the trace that this fit was made with, at that point."""
        way = (fit.state or {})["way"]
        self.rows = [{str(name): value for name, value in row.items()} for row in fit.trace.to_dict("records")]
        self.started = time.perf_counter() - self.rows[-1]["seconds"]
        self.heaviest_first = bool((fit.state or {})["heaviest_first"])
        self.pace, self.search, self.resuming = Pace(**way["pace"]), way.get("search"), True
        if self.rng is not None and way.get("random") is not None:
            self.rng.bit_generator.state = way["random"]

    def way(self) -> dict[str, Any]:
        """What `go_on_from` needs besides the rows. A search keeps the state of `rng` that belongs to it."""
        way: dict[str, Any] = {"pace": asdict(self.pace)}
        if self.search is not None:
            way["search"] = self.search
        if self.rng is not None:
            way["random"] = (self.search or {}).get("random") or self.rng.bit_generator.state
        return way

    def begin(self, stage: str) -> Pace:
        """The pace of a run that begins, or that goes on where it was left."""
        if not (self.resuming and self.pace.stage == stage):
            self.pace = Pace(stage)
        self.resuming = False
        return self.pace

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

    def fit(self, status: str = "interrupted") -> Fit:
        """The fit as it stands."""
        return make_fit(self.problem, self.solver, self.state, self.trace, status)


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
    pace = trace.begin(stage)
    whole = state, pace, len(trace.rows)  # after the last iteration that is complete
    try:
        while True:
            if tol > 0 and (pace.small >= SMALL_GAINS or pace.idle >= IDLE):
                return state, "converged"
            if pace.done >= max_iter:
                return state, "max_iter"
            new = solver.step(problem, state)
            gain = state.loss - new.loss
            state, pace = new, _paced(pace, new, gain < tol * problem.X.total)
            trace.add(state, stage, state.note)
            trace.pace = pace
            whole = state, pace, len(trace.rows)
            if verdict := ask(callbacks, Progress(problem, solver, state, trace, gain)):
                return state, verdict
    except KeyboardInterrupt:
        if not keep:
            raise
        state, trace.pace, rows = whole
        del trace.rows[rows:]
        return state, "interrupted"


def _paced(pace: Pace, state: Any, little: bool) -> Pace:
    """After one more iteration; one that is not conclusive says nothing of how small the gains have become."""
    if not state.conclusive:
        return replace(pace, done=pace.done + 1, idle=pace.idle + 1)
    return replace(pace, done=pace.done + 1, idle=0, small=pace.small + 1 if little else 0)


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
        params=trace.params,
        state={"solver": repr(solver), "heaviest_first": trace.heaviest_first, "way": trace.way()} | state.as_dict(),
    )


def left_by(solver: Any, fit: Fit) -> dict[str, Any] | None:
    """What `as_dict` gave of the state in which this solver left the fit, if it was this solver."""
    state = dict(fit.state or {})
    same = state.get("solver") == repr(solver)
    return {name: value for name, value in state.items() if name not in BESIDES} if same else None
