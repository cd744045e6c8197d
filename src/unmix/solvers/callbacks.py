"""What may listen to a run: stop by KKT residual or time, write to the log, show a bar, save checkpoints."""

from __future__ import annotations

import logging
import os
import time
import warnings
from dataclasses import dataclass, field

from unmix.solvers.run import Progress

logger = logging.getLogger("unmix")


@dataclass
class StopAtKKT:
    """End the fit as converged once the largest KKT residual is at most `threshold`; look every `every` iterations."""

    threshold: float
    every: int = 10

    def __call__(self, progress: Progress) -> str | None:
        if progress.row["iteration"] % self.every:
            return None
        progress.row["kkt"] = progress.problem.kkt(progress.state)
        return "converged" if progress.row["kkt"] <= self.threshold else None


@dataclass
class StopAfter:
    """End the fit once so many seconds have passed since it began."""

    seconds: float

    def __call__(self, progress: Progress) -> str | None:
        return "interrupted" if progress.row["seconds"] >= self.seconds else None


@dataclass
class Log:
    """One line every `every` iterations to the logger "unmix"."""

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
    """Save a resumable fit to `path` at most every `seconds`; `model.resume(X, um.load(path))` goes on from it.

    If it cannot be written, the fit goes on with a warning.
    """

    path: str | os.PathLike[str]
    seconds: float = 60.0
    _last: float = field(default_factory=time.monotonic, repr=False)

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._last < self.seconds:
            return
        try:
            progress.fit().save(self.path, resumable=True)
        except OSError as error:
            warnings.warn(
                f"{self.path}: the checkpoint could not be written ({error.strerror}); the fit goes on without it",
                UserWarning,
                stacklevel=2,
            )
        self._last = time.monotonic()


class ProgressBar:
    """A line in the terminal that shows iterations, log-likelihood and gain, and is gone when the fit ends."""

    def __init__(self, max_iter: int | None = None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, transient=True)
        self._task = self._bar.add_task("fitting", total=max_iter, figures="")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        row = progress.row
        figures = f"{row['iteration']} it · {row['objective']:,.2f} ({progress.gain:+.2g}/it)"
        self._bar.update(self._task, completed=row["iteration"], description=row["stage"], figures=figures)
