"""A fit under way: its trace, how far it has come, and all else that it needs in order to go on, or to end as a `Fit`.

What is left to gain is told from the losses so far. With G the gain of the last third of t iterations, and ρ its ratio to the
gain of the iterations from 4/9 t to 2/3 t,

    remaining gain = G · max(1, ρ / (1 − ρ)),

which is exact where the gap falls as a power of t, t^−p with p < 1.7, and too much where it falls faster. Gains of single
iterations tell nothing: extrapolation makes them uneven, and a slow tail of small ones adds up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from unmix.fit import Fit
from unmix.memory import reordered
from unmix.models.task import Iterate, Task
from unmix.solvers.base import Stepper
from unmix.types import Record, Status

FEWEST = 20  # iterations, to say what is left; one period of `Extrapolate`
WINDOW = 1.5  # from t / 1.5 to t, and before that from t / 1.5²
MOST = 10.0  # times what the last third gained is not foreseen, even where gains do not fall at all

COLUMNS = ["iteration", "seconds", "loglik", "objective", "kkt", "stage", "note"]

AnyTask = Task[Any]
AnyStepper = Stepper[Any, Any]


@dataclass
class Trace:
    """What happened, one row per iteration.

    Parameters
    ----------
    rows : list of dict, default=[]
        Those so far.
    started : float, default=now
        When: `seconds` run from the creation of the trace, set-up included.

    Examples
    --------
    >>> import unmix as um
    >>> trace = um.solvers.Trace()
    >>> trace.add({"loglik": -2.0, "objective": -2.0}, "fit")
    >>> trace.table()["objective"].tolist()
    [-2.0]
    """

    rows: list[Record] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def add(self, metrics: Mapping[str, float], stage: str, note: str = "") -> None:
        """Add a row.

        Parameters
        ----------
        metrics : mapping of str to float
            "loglik" and "objective", and perhaps more columns.
        stage : str
            The phase of the fit.
        note : str, default=""
            What to say of this iteration.

        Examples
        --------
        >>> import unmix as um
        >>> trace = um.solvers.Trace()
        >>> trace.add({"loglik": -2.0, "objective": -2.0}, "fit", note="start")
        >>> len(trace.rows)
        1
        """
        row: Record = {"iteration": len(self.rows), "seconds": time.perf_counter() - self.started}
        self.rows.append(row | dict(metrics) | {"kkt": np.nan, "stage": stage, "note": note})

    def table(self) -> pd.DataFrame:
        """All rows.

        Returns
        -------
        DataFrame
            As `Fit.trace`.

        Examples
        --------
        >>> import unmix as um
        >>> um.solvers.Trace().table().columns.tolist()
        ['iteration', 'seconds', 'loglik', 'objective', 'kkt', 'stage', 'note']
        """
        more = [name for name in self.rows[0] if name not in COLUMNS] if self.rows else []
        return pd.DataFrame(self.rows, columns=COLUMNS + more)


def remaining_gain(losses: Sequence[float]) -> float:
    """What further iterations would gain, given the lowest loss after each so far, that of the start first; NaN if too few."""
    t = len(losses) - 1
    if t < FEWEST:
        return float("nan")
    earlier, middle, last = losses[round(t / WINDOW**2)], losses[round(t / WINDOW)], losses[t]
    gain, before = middle - last, earlier - middle
    return gain * (min(MOST, max(1.0, gain / (before - gain))) if before > gain else MOST)


@dataclass(frozen=True)
class Counters:
    """How far a phase has come: its iterations, the lowest loss after each (that of its start first), and what is left to gain
    as of the last conclusive one."""

    phase: str = ""
    done: int = 0
    losses: tuple[float, ...] = ()
    remaining_gain: float = float("nan")

    def after(self, state: Iterate, before: float, climbs: bool) -> Counters:
        """One more iteration, from a loss of `before`. One that is not conclusive says nothing of what is left; nor does one of
        a phase that does not climb to an optimum."""
        if not climbs:
            return replace(self, done=self.done + 1)
        losses = self.losses or (before,)
        losses += (min(losses[-1], state.loss),)
        left = (0.0 if state.final else remaining_gain(losses)) if state.conclusive else self.remaining_gain
        return Counters(self.phase, self.done + 1, losses, left)

    def save(self) -> Record:
        left = self.remaining_gain
        return asdict(self) | {"losses": list(self.losses), "remaining_gain": None if np.isnan(left) else left}

    @classmethod
    def restore(cls, saved: Record, rows: Sequence[Record]) -> Counters:
        """`rows` of the trace stand for losses where those were not kept yet; they differ by a constant."""
        phase, done = saved["phase"], saved["done"]
        if "losses" not in saved:
            values = np.array([row["objective"] for row in rows[-done - 1 :]], dtype=float)
            losses = tuple((-np.maximum.accumulate(values)).tolist()) if done else ()
            return cls(phase, done, losses, remaining_gain(losses))
        left = saved["remaining_gain"]
        return cls(phase, done, tuple(saved["losses"]), float("nan") if left is None else left)


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
            self.trace.add(self.task.metrics(state.point), stage, note)

    def save(self) -> Record:
        """What `restore` needs besides the fit's trace, whose last row has more than the session knew at that time."""
        last = self.trace.rows[-1]
        return {
            "heaviest_first": self.heaviest_first,
            "status": self.status,
            "last_row": {name: None if np.isnan(last[name]) else last[name] for name in ("loglik", "kkt")},
            "counters": self.counters.save(),
            "random": self.rng.bit_generator.state,
        }

    def restore(self, fit: Fit) -> None:
        """Be the session that this fit was made in, at that point."""
        saved = (fit.state or {})["session"]
        rows = [{str(name): value for name, value in row.items()} for row in fit.trace.to_dict("records")]
        rows[-1] |= {name: np.nan if value is None else value for name, value in saved["last_row"].items()}
        self.trace = Trace(rows, time.perf_counter() - rows[-1]["seconds"])
        self.heaviest_first, self.status = bool(saved["heaviest_first"]), saved["status"]
        self.counters = Counters.restore(saved["counters"], rows)
        if "random" in saved:
            self.rng.bit_generator.state = saved["random"]

    def fit(self, solver: AnyStepper, state: Iterate, status: Status, resumable: bool = True) -> Fit:
        """The frozen result as it stands; the session is left as it is. The KKT residual of the point is always in the trace."""
        X, result, trace = self.task.X, self.task.result(state.point), self.trace.table()
        last = trace.index[-1]
        if np.isnan(trace.loc[last, "kkt"]):
            trace.loc[last, "kkt"] = self.task.kkt(state.point)
        trace.loc[last, "loglik"] = result.loglik
        L, F, posterior = result.L, result.F, result.posterior
        if self.heaviest_first:
            order = np.argsort(-L.sum(axis=0) * F.sum(axis=0), kind="stable")
            L, F = reordered(L, order), reordered(F, order)
            posterior = {
                name: reordered(array, order) if array.shape[-1] == len(order) else array
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
            remaining_gain=self.counters.remaining_gain,
        )
