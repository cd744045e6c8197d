"""The only loop: step, measure, tell, stop. A fit is a list of phases, each of which the loop runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from unmix.deprecation import renamed_arguments
from unmix.fit import Fit
from unmix.models.task import Iterate, Task
from unmix.solvers.base import Stepper
from unmix.types import STATUSES, Record, Status

# A gain below `tol` this many times in a row ends a phase; so many iterations without a conclusive gain do as well.
SMALL_GAINS, IDLE = 3, 12

COLUMNS = ["iteration", "seconds", "loglik", "objective", "kkt", "stage", "note"]

S = TypeVar("S", bound=Iterate)
T = TypeVar("T", bound=Task[Any])
AnyTask = Task[Any]
AnyStepper = Stepper[Any, Any]


@dataclass
class Trace:
    """What happened, one row per iteration. `seconds` run from the creation of the trace, set-up included."""

    rows: list[Record] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def add(self, metrics: Mapping[str, float], stage: str, note: str = "") -> None:
        row: Record = {"iteration": len(self.rows), "seconds": time.perf_counter() - self.started}
        self.rows.append(row | dict(metrics) | {"kkt": np.nan, "stage": stage, "note": note})

    def table(self) -> pd.DataFrame:
        more = [name for name in self.rows[0] if name not in COLUMNS] if self.rows else []
        return pd.DataFrame(self.rows, columns=COLUMNS + more)


@dataclass(frozen=True)
class Counters:
    """How far a phase has come, and how many small or inconclusive gains running it has seen."""

    phase: str = ""
    done: int = 0
    small: int = 0
    idle: int = 0

    def after(self, state: Iterate, little: bool) -> Counters:
        """One more iteration; one that is not conclusive says nothing of how small the gains have become."""
        if not state.conclusive:
            return replace(self, done=self.done + 1, idle=self.idle + 1)
        return replace(self, done=self.done + 1, idle=0, small=self.small + 1 if little else 0)


@dataclass(frozen=True)
class Phase:
    """A part of a fit: a solver, and how long it runs. `begin` makes its first iterate of the last one of the phase before, or
    None to leave the phase out. `status` is what it means that all iterations were made; None if the phase does not decide how
    the fit ended."""

    name: str
    solver: AnyStepper
    max_iter: int
    tol: float = 0.0
    begin: Callable[[Any], Iterate | None] = lambda state: state
    status: Status | None = "max_iter"


@dataclass
class Session:
    """A fit under way: all that it needs in order to go on, besides the iterate itself.

    `heaviest_first` numbers the topics of the fit by weight; who gives a start knows them by their place in it. `params` are
    the estimator's, `rng` its random numbers, `status` is how the last phase that decides ended. Without `recording`, nobody
    looks at the trace, and nothing is measured for it.
    """

    task: AnyTask
    params: Record = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    heaviest_first: bool = False
    trace: Trace = field(default_factory=Trace)
    counters: Counters = field(default_factory=Counters)
    status: Status = "max_iter"
    recording: bool = True

    def record(self, state: Iterate, stage: str, note: str = "") -> None:
        if self.recording:
            self.trace.add(self.task.metrics(state), stage, note)

    def save(self) -> Record:
        """What `restore` needs besides the fit's trace, whose last row has more than the session knew at that time."""
        last = self.trace.rows[-1]
        return {
            "heaviest_first": self.heaviest_first,
            "status": self.status,
            "last_row": {name: None if np.isnan(last[name]) else last[name] for name in ("loglik", "kkt")},
            "counters": asdict(self.counters),
            "random": self.rng.bit_generator.state,
        }

    def restore(self, fit: Fit) -> None:
        """Be the session that this fit was made in, at that point."""
        saved = (fit.state or {})["session"]
        rows = [{str(name): value for name, value in row.items()} for row in fit.trace.to_dict("records")]
        rows[-1] |= {name: np.nan if value is None else value for name, value in saved["last_row"].items()}
        self.trace = Trace(rows, time.perf_counter() - rows[-1]["seconds"])
        self.heaviest_first, self.status = bool(saved["heaviest_first"]), saved["status"]
        self.counters = Counters(**saved["counters"])
        if "random" in saved:
            self.rng.bit_generator.state = saved["random"]

    def fit(self, solver: AnyStepper, state: Iterate, status: Status, resumable: bool = True) -> Fit:
        """The frozen result as it stands; the session is left as it is. The KKT residual of the point is always in the trace."""
        X, result, trace = self.task.X, self.task.result(state), self.trace.table()
        last = trace.index[-1]
        if np.isnan(trace.loc[last, "kkt"]):
            trace.loc[last, "kkt"] = self.task.kkt(state)
        trace.loc[last, "loglik"] = result.loglik
        L, F, posterior = result.L, result.F, result.posterior
        if self.heaviest_first:
            order = np.argsort(-L.sum(axis=0) * F.sum(axis=0), kind="stable")
            L, F = np.ascontiguousarray(L[:, order]), np.ascontiguousarray(F[:, order])
            posterior = {
                name: np.ascontiguousarray(array[..., order]) if array.shape[-1] == len(order) else array
                for name, array in posterior.items()
            }
        return Fit(
            L=L,
            F=F,
            trace=trace,
            status=status,
            loglik=result.loglik,
            posterior=posterior,
            priors=result.priors,
            samples=X.samples,
            features=X.features,
            metadata=X.metadata,
            data=X.facts,
            text=X.text,
            params=self.params,
            state={"solver": repr(solver), "session": self.save()} | state.save() if resumable else None,
        )


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each iteration. It may fill in `row["kkt"]`, and return a status to end the fit."""

    session: Session
    solver: AnyStepper
    state: Any
    gain: float  # of the objective in this iteration

    @property
    def problem(self) -> AnyTask:
        return self.session.task

    @property
    def trace(self) -> Trace:
        return self.session.trace

    @property
    def row(self) -> Record:
        return self.trace.rows[-1]

    def fit(self, status: Status = "interrupted") -> Fit:
        """The fit as it stands."""
        return self.session.fit(self.solver, self.state, status)


Callback = Callable[[Progress], str | None]


@renamed_arguments(stage="phase", keep="catch_interrupt")
def run(
    task: T,
    solver: Stepper[T, S],
    state: S,
    trace: Trace | None = None,
    *,
    max_iter: int,
    tol: float,
    phase: str = "fit",
    catch_interrupt: bool = True,
    callbacks: Sequence[Callback] = (),
) -> tuple[S, Status]:
    """Iterate until the gain per count stays below `tol`, a callback says stop, Ctrl-C, or `max_iter`.

    `tol=0` runs exactly `max_iter` iterations. With `catch_interrupt=False` Ctrl-C is passed on, for runs that are part of
    another. Returns the last iterate and one of the statuses of `Fit`; rows are added to the trace, if one is given.
    """
    recording = trace is not None or bool(callbacks)
    session = Session(task, trace=Trace() if trace is None else trace, recording=recording)
    end, status, _ = iterate(session, Phase(phase, solver, max_iter, tol), state, callbacks, catch_interrupt)
    return end, status


def run_phases(
    session: Session, phases: Sequence[Phase], state: Any, callbacks: Sequence[Callback] = ()
) -> tuple[AnyStepper, Any, Status]:
    """From the phase that the session is in, `state` being an iterate of its solver, to the last: the solver that was last at
    work, its iterate, and how it ended. A callback that says stop, or Ctrl-C, ends all of it."""
    first = [phase.name for phase in phases].index(session.counters.phase)
    solver = phases[first].solver
    for phase in phases[first:]:
        if phase.name != session.counters.phase:
            try:
                begun = phase.begin(state)
            except KeyboardInterrupt:
                return solver, state, "interrupted"
            if begun is None:
                continue
            state, session.counters = begun, Counters(phase.name)
        solver = phase.solver
        state, status, stopped = iterate(session, phase, state, callbacks)
        if stopped:
            return solver, state, status
        if phase.status is not None:
            session.status = phase.status if status == "max_iter" else status
    return solver, state, session.status


def iterate(
    session: Session, phase: Phase, state: S, callbacks: Sequence[Callback], catch_interrupt: bool = True
) -> tuple[S, Status, bool]:
    """One phase: the last iterate, how it ended, and whether that was by a callback or Ctrl-C."""
    task, counters, trace = session.task, session.counters, session.trace
    little = phase.tol * task.X.total
    whole = state, counters, len(trace.rows)  # after the last iteration that is complete
    try:
        while True:
            if state.final or (phase.tol > 0 and (counters.small >= SMALL_GAINS or counters.idle >= IDLE)):
                return state, "converged", False
            if counters.done >= phase.max_iter:
                return state, "max_iter", False
            new = phase.solver.step(task, state)
            gain = state.loss - new.loss
            state, counters = new, counters.after(new, gain < little)
            session.record(state, phase.name, state.note)
            session.counters = counters
            whole = state, counters, len(trace.rows)
            if verdict := _ask(callbacks, Progress(session, phase.solver, state, gain)):
                return state, verdict, True
    except KeyboardInterrupt:
        if not catch_interrupt:
            raise
        state, session.counters, rows = whole
        del trace.rows[rows:]
        return state, "interrupted", True


def _ask(callbacks: Sequence[Callback], progress: Progress) -> Status | None:
    """Tell every callback in turn; the first status that one returns ends the fit."""
    for tell in callbacks:
        if verdict := tell(progress):
            for status in STATUSES:
                if verdict == status:
                    return status
            raise ValueError(f"a callback returned {verdict!r}; return None to go on, or one of {', '.join(STATUSES)}")
    return None


def restored(solver: Stepper[T, S], task: T, fit: Fit) -> S | None:
    """The iterate in which this solver left this fit of the same data; None if it did not, or if what is left is damaged."""
    saved = fit.state or {}
    if saved.get("solver") != repr(solver):
        return None
    try:
        return solver.restore(task, {name: value for name, value in saved.items() if name not in ("solver", "session")})
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def resume(session: Session, phases: Sequence[Phase], fit: Fit) -> Any:
    """Make the session that of a fit that was left off; the iterate of the phase it was in."""
    session.restore(fit)
    phase = next((phase for phase in phases if phase.name == session.counters.phase), phases[-1])
    state = restored(phase.solver, session.task, fit)
    if state is None:
        raise ValueError(
            f"the fit to go on with was not left off by {phase.solver!r}, or its state is damaged; start anew"
        )
    return state
