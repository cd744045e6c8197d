"""A fit under way: its trace, how far it has come, and all else that it needs in order to go on, or to end as a `Fit`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from unmix.fit import Fit
from unmix.models.task import Iterate, Task
from unmix.solvers.base import Stepper
from unmix.types import Record, Status

COLUMNS = ["iteration", "seconds", "loglik", "objective", "kkt", "stage", "note"]

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
