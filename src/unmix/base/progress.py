"""How far long work is, in one form for fits, shards and analyses: what `verbose=True` writes to stderr.

12 of 40 fits, about 50 s remaining                                   a terminal: one line, kept up to date
12 of 40 fits, 70 s, about 50 s remaining                             a log: a line after 10 s, then every minute
{"progress": "fits", "done": 12, "of": 40, "remaining": 50.0, …}      the command line with --json: every 5 s
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple, Self

LOG, MACHINE = (10.0, 60.0), (5.0, 5.0)  # seconds until the first line, and from each to the next
SHORTEST = 0.1  # between two looks at the clock
NARROW = 60  # columns that an earlier line may have filled


class Step(NamedTuple):
    """Where some work is. Parts, their number and the seconds remaining are None where they are not known."""

    things: str
    done: int | None
    of: int | None
    seconds: float
    remaining: float | None = None
    figures: str = ""  # further ones, as text

    def __str__(self) -> str:
        amount = "" if self.done is None else f"{self.done:,} " if self.of is None else f"{self.done:,} of {self.of:,} "
        return ", ".join(filter(None, (amount + self.things, self.figures)))


_machine = False
_watch: Callable[[Step], None] | None = None  # instead of stderr


@contextmanager
def watching(watch: Callable[[Step], None] | None = None, *, machine: bool = False) -> Iterator[None]:
    """In this block, progress goes to a function, or to stderr as lines of JSON."""
    global _machine, _watch
    before, (_machine, _watch) = (_machine, _watch), (machine, watch)
    try:
        yield
    finally:
        _machine, _watch = before


def is_live() -> bool:
    """Whether someone watches stderr in a terminal, where a line can be kept up to date."""
    return _watch is None and not _machine and sys.stderr.isatty()


def duration(seconds: float) -> str:
    """
    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """Called with parts done, of how many, and seconds remaining as far as these are known.

    In its `with` block a log has its lines even while a single part takes long.
    """

    def __init__(self, things: str) -> None:
        self.things, self.began = things, perf_counter()
        first, self.pace = MACHINE if _machine else LOG
        self.due = self.began + first
        self.last, self._ended = Step(things, None, None, 0.0), threading.Event()
        self._thread: threading.Thread | None = None

    def begun(self, done: int, of: int | None = None) -> Self:
        """What is to be said before the first part is done."""
        self.last = self.last._replace(done=done, of=of)
        return self

    def __enter__(self) -> Self:
        if not is_live():
            self._thread = threading.Thread(target=self._repeat, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _repeat(self) -> None:
        while not self._ended.wait(max(SHORTEST, self.due - perf_counter())):
            if perf_counter() >= self.due:
                last, passed = self.last, perf_counter() - self.began - self.last.seconds
                left = None if last.remaining is None else max(0.0, last.remaining - passed)
                self(last.done, last.of, left, last.figures)

    def __call__(
        self, done: int | None, of: int | None = None, remaining: float | None = None, figures: str = ""
    ) -> None:
        now = perf_counter()
        if done is not None and of is not None:
            done = min(done, of)  # a file of earlier parts may have more
        step = self.last = Step(self.things, done, of, now - self.began, remaining, figures)
        due = now >= self.due
        if due:
            self.due = now + self.pace
        if _watch is not None:
            _watch(step)
        elif is_live():
            _draw(step)
        elif due:
            _write(step)


def _draw(step: Step) -> None:
    ended = step.done == step.of
    sys.stderr.write(f"\r{step}{'' if ended else _remaining(step)}".ljust(NARROW) + ("\n" if ended else ""))
    sys.stderr.flush()


def _write(step: Step) -> None:
    fields = step._asdict()
    text = json.dumps({"progress": fields.pop("things")} | fields) if _machine else f"{step}, {duration(step.seconds)}"
    sys.stderr.write(text + ("" if _machine else _remaining(step)) + "\n")
    sys.stderr.flush()


def _remaining(step: Step) -> str:
    return "" if step.remaining is None else f", about {duration(step.remaining)} remaining"


@contextmanager
def working(text: str) -> Iterator[None]:
    """Lines for a log while something takes time that does not count its parts, such as reading a file."""
    with Progress(text):
        yield
