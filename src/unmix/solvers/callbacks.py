"""What may listen to a run: stop by KKT residual or time, write to the log, show a bar, save checkpoints."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from math import isnan, log
from pathlib import Path

from unmix.base import progress as reports
from unmix.base.checks import brief, warn
from unmix.fit import Fit
from unmix.solvers.run import WINDOW, Progress

logger = logging.getLogger("unmix")

SPAN = 5  # iterations over which the progress bar looks how fast gains fall


@dataclass
class StopAtKKT:
    """End the fit as converged once the largest KKT residual is small.

    Parameters
    ----------
    threshold : float
        How small.
    every : int, default=10
        Look every this many iterations. The fit's own rule may end it before: with `tol=0` this one alone does, or `max_iter`.

    See Also
    --------
    kkt, solvers.MeasureKKT

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, tol=0, max_iter=20, random_state=0, callbacks=[um.solvers.StopAtKKT(10, every=5)]).fit(X).result_.status
    'converged'
    """

    threshold: float
    every: int = 10

    def __call__(self, progress: Progress) -> str | None:
        if progress.row["iteration"] % self.every:
            return None
        progress.row["kkt"] = progress.problem.kkt(progress.state.point)
        return "converged" if progress.row["kkt"] <= self.threshold else None


@dataclass
class MeasureKKT:
    """Write the largest KKT residual into the trace now and then, so rarely that in all it costs little.

    Parameters
    ----------
    growth : float, default=1.5
        Every iteration to begin with, then when there are this many times as many.

    See Also
    --------
    plot.convergence

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> model = um.TopicModel(2, tol=0, max_iter=20, random_state=0, callbacks=[um.solvers.MeasureKKT()]).fit(X)
    >>> bool(model.result_.trace["kkt"].count() > 3)
    True
    """

    growth: float = 1.5
    _next: int = field(default=1, repr=False)

    def __call__(self, progress: Progress) -> None:
        iteration = progress.row["iteration"]
        if iteration == 1:  # the next of several starts
            self._next = 1
        if iteration >= self._next:
            self._next = max(iteration + 1, round(self.growth * iteration))
            progress.row["kkt"] = progress.problem.kkt(progress.state.point)


@dataclass
class StopAfter:
    """End the fit, as interrupted, once this many seconds have passed since it began.

    Parameters
    ----------
    seconds : float
        How many.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):  # it says that the fit was stopped early
    ...     um.TopicModel(2, tol=0, random_state=0, callbacks=[um.solvers.StopAfter(seconds=0)]).fit(X).result_.status
    'interrupted'
    """

    seconds: float

    def __call__(self, progress: Progress) -> str | None:
        return "interrupted" if progress.row["seconds"] >= self.seconds else None


@dataclass
class Log:
    """Lines to the logger "unmix".

    Parameters
    ----------
    every : int, default=10
        One every this many iterations.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, tol=0, max_iter=20, random_state=0, callbacks=[um.solvers.Log(every=5)]).fit(X).result_.status
    'max_iter'
    """

    every: int = 10

    def __call__(self, progress: Progress) -> None:
        row = progress.row
        if row["iteration"] % self.every == 0:
            logger.info(
                "%s %d: objective %.2f (%+.3g), %.1f s",
                row["stage"],
                row["iteration"],
                row["objective"],
                progress.gain,
                row["seconds"],
            )


@dataclass
class Checkpoint:
    """Save a resumable fit now and then, and in the end. If it cannot be written, the fit continues with a warning.

    Parameters
    ----------
    path : str or PathLike
        Where to; `model.resume(X, um.load(path))` continues from it.
    seconds : float, default=60.0
        At most every this many.

    See Also
    --------
    TopicModel.resume

    Examples
    --------
    >>> import tempfile, unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saving = um.solvers.Checkpoint(f"{folder}/run.safetensors", seconds=0)
    ...     _ = um.TopicModel(2, tol=0, max_iter=5, random_state=0, callbacks=[saving]).fit(X)
    ...     model = um.TopicModel(2, tol=0, max_iter=9, random_state=0).resume(X, um.load(saving.path))
    >>> model.n_iter_ > 9  # those of the search before it too
    True
    """

    path: str | os.PathLike[str]
    seconds: float = 60.0
    _last: float = field(default_factory=time.monotonic, repr=False)

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._last >= self.seconds:
            self.end(progress.fit())
            self._last = time.monotonic()

    def end(self, fit: Fit) -> None:
        try:
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            fit.save(self.path, resumable=True)
        except OSError as error:
            warn(f"{self.path}: the checkpoint could not be written ({error.strerror}); the fit continues without it")


class ProgressBar:
    """A line in the command line (stderr) while a fit runs, gone when it ends; what `verbose=True` shows.

    Where stderr is not a terminal, as in a log, there is a line after ten seconds, and then one every minute. It shows how far
    the fit is, iterations, objective, gain, KKT residual where it was measured, time spent and about how much is left.

    Parameters
    ----------
    max_iter : int
        Of the fit.
    tol : float, default=0.0
        Of the fit.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> with um.solvers.ProgressBar(max_iter=20) as bar:
    ...     model = um.TopicModel(2, tol=0, max_iter=20, random_state=0, callbacks=[bar]).fit(X)
    """

    def __init__(self, max_iter: int, tol: float = 0.0) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not reports.is_live())
        self._task = self._bar.add_task("starting", total=None, numbers="", left="")
        self._log = None if reports.is_live() else reports.Progress("iterations").begun(0)
        self._max_iter, self._tol = max_iter, tol

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        if self._log is not None:
            self._log.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()
        if self._log is not None:
            self._log.__exit__(*exc)

    def __call__(self, progress: Progress) -> None:
        row, rows = progress.row, progress.trace.rows
        kkt = next((past["kkt"] for past in reversed(rows) if not isnan(past["kkt"])), None)
        earlier = rows[-min(len(rows), SPAN + 1)]
        gain = (row["objective"] - earlier["objective"]) / max(1, row["iteration"] - earlier["iteration"])
        numbers = f"{row['iteration']} it · {row['objective']:,.2f} ({'+' * (gain >= 0)}{brief(gain)}/it)"
        numbers += f" · KKT {brief(kkt)}" if kkt is not None else ""
        seconds = time_left(progress, self._max_iter, self._tol)
        known = {} if seconds is None else {"total": row["seconds"] + seconds, "completed": row["seconds"]}
        left = "" if seconds is None else f"~{reports.duration(seconds)} remaining"
        if self._log is not None:
            self._log(int(row["iteration"]), None, seconds, numbers.partition(" · ")[2])
        self._bar.update(self._task, description=row["stage"], numbers=numbers, left=left, **known)


def time_left(progress: Progress, max_iter: int, tol: float) -> float | None:
    """Seconds until `tol` per count remains to be gained, and a third of all iterations has been spent on no more than that,
    if gains continue falling as they did of late; or until `max_iter`."""
    counters, rows = progress.session.counters, progress.trace.rows
    recent = [row for row in rows[-2 * SPAN - 1 :] if row["stage"] == counters.phase]
    if len(recent) < 2 * SPAN + 1:
        return None
    an_iteration = (recent[-1]["seconds"] - recent[0]["seconds"]) / (2 * SPAN)
    before = recent[SPAN]["objective"] - recent[0]["objective"]
    lately = recent[-1]["objective"] - recent[SPAN]["objective"]
    little = tol * progress.problem.X.total
    iterations: float = max_iter - counters.done
    if little > 0 and 0 < lately < before:
        left = lately**2 / (before - lately)
        more = max(0.0, SPAN * log(left / little) / log(before / lately))
        iterations = min(iterations, WINDOW * (counters.done + more) - counters.done)
    return iterations * an_iteration
