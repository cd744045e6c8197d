"""The only loop: step, measure, tell, stop. A fit is a list of phases, each of which the loop runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from unmix.deprecation import renamed_arguments
from unmix.fit import Fit
from unmix.models.task import Iterate, Task
from unmix.solvers.base import Stepper
from unmix.solvers.session import AnyStepper, AnyTask, Counters, Session, Trace
from unmix.types import STATUSES, Record, Status

S = TypeVar("S", bound=Iterate)
T = TypeVar("T", bound=Task[Any])

# what a damaged state may fail with, and what the fields of a sound one hold, by their annotations
DAMAGED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
TYPES: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
TYPES |= dict.fromkeys(("Factor", "Floats"), (np.ndarray,))


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
class Progress:
    """What a callback is told after each iteration.

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
        """The fit as it stands.

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
    """Iterate until what is left to gain is at most `tol` per count, a callback says stop, Ctrl-C, or `max_iter`.

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
        Most iterations.
    tol : float
        Ends once so much per count is left to gain; 0 runs exactly `max_iter` iterations.
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
            raise ValueError(f"a callback returned {verdict!r}; return None to go on, or one of {', '.join(STATUSES)}")
    return None


def restored(solver: Stepper[T, S], task: T, fit: Fit) -> S | None:
    """The iterate in which this solver left this fit of the same data; None if it did not, or if what is left is damaged."""
    saved = fit.state or {}
    if saved.get("solver") != repr(solver):
        return None
    try:
        state = solver.restore(
            task, {name: value for name, value in saved.items() if name not in ("solver", "session")}
        )
        check_types(state)
    except DAMAGED:
        return None
    return state


def check_types(state: Any) -> None:
    """Raises if a number, a word or an array of an iterate, or of what it carries along, is none."""
    for field in fields(state):
        value, kinds = getattr(state, field.name), TYPES.get(str(field.type), (object,))
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds and object not in kinds):
            raise TypeError(f"{field.name} is {type(value).__name__}, not {field.type}")
        if is_dataclass(value):
            check_types(value)


def resume(session: Session, phases: Sequence[Phase], fit: Fit) -> Any:
    """Make the session that of a fit that was left off; the iterate of the phase it was in."""
    try:
        session.restore(fit)
    except DAMAGED as error:
        raise ValueError(f"the state of the fit to go on with is damaged ({error}); start anew") from error
    phase = next((phase for phase in phases if phase.name == session.counters.phase), phases[-1])
    state = restored(phase.solver, session.task, fit)
    if state is None:
        raise ValueError(
            f"the fit to go on with was not left off by {phase.solver!r}, or its state is damaged; start anew"
        )
    return state
