"""The loop: a plan of phases, one iteration after the other, the trace, stopping, resuming, and the `Fit` in the end.

A fit under way: its trace, how far it has come, and all else that it needs in order to continue, or to end as a `Fit`.

What remains to be gained is told from the losses so far. With G the gain of the last third of t iterations, and ρ its ratio to
the gain of the iterations from 4/9 t to 2/3 t,

    remaining gain = G · max(1, ρ / (1 − ρ)),

which is exact where the gap falls as a power of t, t^−p with p < 1.7, and too much where it falls faster. Gains of single
iterations say nothing: extrapolation makes them uneven, and a slow tail of small ones adds up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from unmix.base.checks import parameter
from unmix.base.memory import reordered
from unmix.base.types import STATUSES, Record, Status
from unmix.counts.sides import column_sums
from unmix.fit import Fit
from unmix.models.poisson import REFERENCE, reference
from unmix.models.problem import Iterate, Task
from unmix.solvers.base import Stepper, identifier
from unmix.storage.schema import check_fields

FEWEST = 20  # iterations, to say what is left; one period of `Extrapolate`
WINDOW = 1.5  # from t / 1.5 to t, and before that from t / 1.5²
MOST = 10.0  # times what the last third gained is not predicted, even where gains do not fall at all

REMEDY = "Divide or multiply all counts by a constant, give priors of moderate numbers, or dtype='float64'"
COLUMNS = ["iteration", "seconds", "loglik", "objective", "kkt", "stage", "note"]

AnyTask = Task[Any]
AnyStepper = Stepper[Any, Any]


class NotFiniteError(ValueError):
    """What is optimised is not a finite number."""


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


def _is_finite(saved: Record) -> bool:
    """Whether a fit can continue from what is saved: a solver may carry along more than the iterate itself."""
    for value in saved.values():
        if isinstance(value, dict) and not _is_finite(value):
            return False
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
            return False
    return True


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
    """How far a phase has come: its iterations, the lowest loss after each (that of its start first), and what remains to be
    gained as of the last conclusive one."""

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
    def restore(cls, saved: Record) -> Counters:
        left = saved["remaining_gain"]
        losses = tuple(saved["losses"])
        return cls(saved["phase"], saved["done"], losses, float("nan") if left is None else left)


@dataclass
class Session:
    """A fit under way: all that it needs in order to continue, besides the iterate itself.

    `heaviest_first` numbers the topics of the fit by weight; who gives a start knows them by their place in it. `params` are
    the estimator's, `rng` its random numbers, `status` is how the last phase that decides ended. Without `recording`, no one
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
        """Add a row to the trace; an error if what is optimised is not finite there. All iterates come past here."""
        metrics = self.task.metrics(state.point) if self.recording else {}
        self._check_finite(stage, state.loss, *(value for name, value in metrics.items() if name != "loglik"))
        if self.recording:
            self.trace.add(metrics, stage, note)

    def _check_finite(self, stage: str, *values: float) -> None:
        if np.isfinite(values).all():
            return
        done = self.counters.done if stage == self.counters.phase else 0
        before = (
            f" The {done} iterations before were finite: {parameter('max_iter', done)} ends with them." if done else ""
        )
        raise NotFiniteError(
            f"the objective is {values[np.flatnonzero(~np.isfinite(values))[0]]} in the phase {stage!r}: these counts and "
            f"parameters lead to numbers that are too large or too small.{before} {REMEDY}"
        )

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
        self.counters = Counters.restore(saved["counters"])
        if "random" in saved:
            self.rng.bit_generator.state = saved["random"]

    def fit(self, solver: AnyStepper, state: Iterate, status: Status, resumable: bool = True) -> Fit:
        """The frozen result as it is; the session is unchanged. The KKT residual of the point is always in the
        trace."""
        X, result, trace = self.task.X, self.task.result(state.point), self.trace.table()
        self._check_finite("end", result.loglik, *result.L.sum(axis=0), *result.F.sum(axis=0))
        last = trace.index[-1]
        if np.isnan(trace.loc[last, "kkt"]):
            trace.loc[last, "kkt"] = self.task.kkt(state.point)
        trace.loc[last, "loglik"] = result.loglik
        L, F, posterior, S = result.L, result.F, result.posterior, result.allocation
        if self.heaviest_first:
            order = np.argsort(-L.sum(axis=0) * F.sum(axis=0), kind="stable")
            L, F, S = reordered(L, order), reordered(F, order), None if S is None else reordered(S, order)
            posterior = {
                name: reordered(array, order) if array.shape[-1] == len(order) else array
                for name, array in posterior.items()
            }
        facts, known, names = X.facts, getattr(self.task, "known", None), None
        if known is not None:
            facts, names = facts | {"known": known.facts}, known.topic_names(F.shape[1])
        if X.multipliers is not None and X.multipliers.sets is not None:
            facts = facts | {"allowed": X.multipliers.digest}
        if X.multipliers is None:
            rows, few = X.some(REFERENCE)  # kept as they are, and looked at when someone asks
            facts = facts | {"reference": partial(reference, few, L[rows], F, column_sums(L) * column_sums(F))}
        facts = facts | result.told
        saved: Record | None = None
        if resumable:
            saved = {"solver": identifier(solver), "session": self.save()} | state.save()
            saved |= {"loadings": self.task.engine.save(X, set(state.numbers))} if state.numbers else {}
        return Fit(
            L=L,
            F=F,
            trace=trace,
            status=status,
            loglik=result.loglik,
            posterior=posterior,
            priors=result.priors,
            allocation=S,
            rates=result.multipliers,
            samples=X.samples,
            features=X.features,
            metadata=X.metadata,
            data=facts,
            names=names,
            text=X.text,
            params=self.params,
            state=saved if saved is not None and _is_finite(saved) else None,
            remaining_gain=self.counters.remaining_gain,
        )


# The only loop: step, measure, tell, stop. A fit is a list of phases, each of which the loop runs.

S = TypeVar("S", bound=Iterate)
T = TypeVar("T", bound=Task[Any])

# what a damaged state may fail with
DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)


@dataclass(frozen=True)
class Phase:
    """A part of a fit: a solver, and how long it runs. `begin` makes its first iterate of the last one of the phase before, or
    None to leave the phase out. `status` is what it means that all iterations were made; None if the phase does not decide how
    the fit ended. `climbs`: whether its iterations lead to an optimum, and so say how far that is."""

    name: str
    solver: AnyStepper
    max_iter: int
    tol: float = 0.0
    begin: Callable[[Any], Iterate | None] = lambda state: state
    status: Status | None = "max_iter"
    climbs: bool = True


@dataclass(frozen=True)
class Plan:
    """A whole fit: what is optimised, the phases that run, and what makes the first iterate of the first of them, with a word
    on what it is. `warm` turns the iterate in which the same solver left another fit into one to begin with; None to do
    without."""

    task: AnyTask
    phases: Sequence[Phase]
    first: Callable[[], tuple[Iterate, str]]
    warm: Callable[[Any], Iterate | None] = lambda state: state


@dataclass(frozen=True)
class Progress:
    """What a callback receives after each iteration.

    It may fill in `row["kkt"]`, and return a status to end the fit: "converged", "max_iter" or "interrupted".

    Parameters
    ----------
    session : Session
        The fit under way.
    solver : Solver
        What is at work.
    state : State
        Its last iterate.
    gain : float
        Of the objective in this iteration.

    See Also
    --------
    solvers.StopAtKKT, solvers.Checkpoint

    Examples
    --------
    >>> import unmix as um
    >>> def enough(progress: um.solvers.Progress) -> str | None:
    ...     return "converged" if progress.gain < 1e-3 and progress.row["stage"] == "fit" else None
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, tol=0, random_state=0, callbacks=[enough]).fit(X).result_.status
    'converged'
    """

    session: Session
    solver: AnyStepper
    state: Any
    gain: float  # of the objective in this iteration

    @property
    def problem(self) -> AnyTask:
        """Problem: what is optimised."""
        return self.session.task

    @property
    def trace(self) -> Trace:
        """Trace: all rows so far."""
        return self.session.trace

    @property
    def row(self) -> Record:
        """dict: the last row of the trace: `iteration`, `seconds`, `loglik`, `objective`, `kkt`, `stage`, `note`."""
        return self.trace.rows[-1]

    def fit(self, status: Status = "interrupted") -> Fit:
        """The fit as it is.

        Parameters
        ----------
        status : str, default="interrupted"
            What it shall say of itself.

        Returns
        -------
        Fit
            That could be resumed.

        Examples
        --------
        >>> import unmix as um
        >>> fits = []
        >>> model = um.TopicModel(2, tol=0, max_iter=3, random_state=0, callbacks=[lambda progress: fits.append(progress.fit())])
        >>> model.fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_.loglik == fits[-1].loglik
        True
        """
        return self.session.fit(self.solver, self.state, status)


Callback = Callable[[Progress], str | None]


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
    """Iterate until what remains to be gained is at most `tol` per count, a callback says stop, Ctrl-C, or `max_iter`.

    What is left is estimated as in `solvers.session`, from 20 iterations on.

    Parameters
    ----------
    task : Problem or Inference
        What is optimised.
    solver : Solver
        How.
    state : State
        The first one, from `solver.start`.
    trace : Trace, default=None
        Rows are added to it, if one is given.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Ends once so much per count remains to be gained; 0 runs exactly `max_iter` iterations.
    phase : str, default="fit"
        What the rows of the trace call it.
    catch_interrupt : bool, default=True
        Whether Ctrl-C ends the run; if not it is passed on, for runs that are part of another.
    callbacks : sequence of callables, default=()
        Called with a `Progress` after every iteration.

    Returns
    -------
    tuple of State and str
        The last iterate, and "converged", "max_iter" or "interrupted".

    Raises
    ------
    ValueError
        If a callback returns something else than None or such a status.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> problem, rng = um.solvers.Problem(um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7]]), 2), np.random.default_rng(0)
    >>> solver = um.solvers.Alternate(um.solvers.Newton())
    >>> first = solver.start(problem, rng.random((3, 2)), rng.random((3, 2)))
    >>> last, status = um.solvers.run(problem, solver, first, max_iter=30, tol=0)
    >>> last.loss < first.loss, status
    (True, 'max_iter')
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
            left = float("nan") if phase.climbs else session.counters.remaining_gain
            state, session.counters = begun, Counters(phase.name, remaining_gain=left)
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
            if state.final or (phase.tol > 0 and counters.remaining_gain <= little):
                return state, "converged", False
            if counters.done >= phase.max_iter:
                return state, "max_iter", False
            new = phase.solver.step(task, state)
            gain = state.loss - new.loss
            state, counters = new, counters.after(new, state.loss, phase.climbs)
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
            raise ValueError(
                f"a callback returned {verdict!r}; return None to continue, or one of {', '.join(STATUSES)}"
            )
    return None


def restored(solver: Stepper[T, S], task: T, fit: Fit) -> S | None:
    """The iterate in which this solver left this fit of the same data; None if it did not, or if what is left is damaged."""
    saved = fit.state or {}
    if saved.get("solver") != identifier(solver):
        return None
    try:
        state = solver.restore(
            task, {name: value for name, value in saved.items() if name not in ("solver", "session", "loadings")}
        )
        check_fields(state)
        if state.numbers:
            task.engine.restore(task.X, saved["loadings"])
    except DAMAGED:
        return None
    return state


def resume(session: Session, phases: Sequence[Phase], fit: Fit) -> Any:
    """Make the session that of a fit that was left off; the iterate of the phase it was in."""
    try:
        session.restore(fit)
    except DAMAGED as error:
        raise ValueError(f"the state of the fit to resume is damaged ({error}); start again") from error
    phase = next((phase for phase in phases if phase.name == session.counters.phase), phases[-1])
    state = restored(phase.solver, session.task, fit)
    if state is None:
        raise ValueError(f"the saved state was not written by {phase.solver!r}, or is damaged; start again")
    return state
