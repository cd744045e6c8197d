"""Cases run in children of this process, each of which is watched: a crash, a hang or gigabytes are the case's, not ours."""

from __future__ import annotations

import os
import re
import resource
import select
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzz.corpus import Subject
from fuzz.hostile import Hostile, prepare
from fuzz.mutate import ways
from fuzz.traps import CANARY, SECRETS

SECONDS = 60  # that a case may take
BYTES = 700 << 20  # more than before that it may take
BATCH = 40  # cases a child does
TRIES = 3  # of the things to do with a subject, by chance
Subjects = dict[str, Subject | Hostile]


@dataclass(frozen=True)
class Case:
    """Which file of which subject is spoiled, in which way, and by which chance. A hostile subject makes its files by chance."""

    subject: str
    file: str
    way: str
    seed: int

    def __str__(self) -> str:
        return f"{self.subject}:{self.file}:{self.way}:{self.seed}"

    @classmethod
    def parsed(cls, text: str) -> Case:
        subject, file, way, seed = text.split(":")
        return cls(subject, file, way, int(seed))


def attempt(case: Case, subject: Subject | Hostile, sound: Path, scratch: Path) -> str | None:
    """Spoil the file in a copy of a sound folder, or make a hostile one, and do some of what there is to do with it; what broke a
    promise, or None."""
    folder = scratch / "x"
    chance = Random(f"{case.file}:{case.way}:{case.seed}")
    if isinstance(subject, Hostile):
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepare(subject, folder, chance)
    else:
        shutil.copytree(sound, folder)
        file = folder / case.file
        file.write_bytes(ways(case.file)[case.way](file.read_bytes(), chance))
    before = _restart_peak()
    for number in sorted(chance.sample(range(len(subject.tries)), min(TRIES, len(subject.tries)))):
        act = subject.tries[number]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seen = str(act(folder))
        except (ValueError, OSError) as error:
            seen = str(error)  # refused, as it should be
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            return f"try {number}: {type(error).__name__} at {where}: {str(error)[:200]!r}"
        if (grown := _peak() - before) > BYTES:
            return f"try {number}: took {grown >> 20} MB"
        if isinstance(subject, Hostile) and (harm := _harm(subject, folder, seen)) is not None:
            return f"try {number}: {harm}"
    return None


def _harm(subject: Hostile, folder: Path, seen: str) -> str | None:
    if (folder / CANARY).exists():
        return "the payload ran"
    if any(secret in seen for secret in SECRETS):
        return f"another file shows in {seen[:200]!r}"
    if subject.says is not None and re.search(subject.says, seen) is None:
        return f"not refused for what it is, but {seen[:200]!r}"
    return None


def _restart_peak() -> int:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak()
    return _peak()


def _peak() -> int:
    """Bytes in memory at the worst time since the peak was reset, where the system tells."""
    try:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_of(act: Callable[[], None]) -> int:
    """By how many bytes a process grows that does this; it must end well."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = _restart_peak()
        try:
            act()
            os.write(writer, str(_peak() - before).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        grown = told.read()
    os.waitpid(child, 0)
    if not grown:
        raise AssertionError("it did not end well")
    return int(grown)


def run(cases: Sequence[Case], subjects: Subjects, sound: dict[str, Path]) -> Iterator[tuple[Case, str | None]]:
    """Every case with what went wrong, in children of up to BATCH cases; one that dies or hangs is replaced."""
    rest = list(cases)
    while rest:
        done = 0
        for case, problem in _child(rest[:BATCH], subjects, sound):
            done += 1
            yield case, problem
        rest = rest[max(1, done) :]


def _child(cases: Sequence[Case], subjects: Subjects, sound: dict[str, Path]) -> Iterator[tuple[Case, str | None]]:
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        child = os.fork()
        if child == 0:
            os.close(reader)
            _work(cases, subjects, sound, Path(scratch), writer)
        os.close(writer)
        try:
            yield from _watch(cases, reader, child)
        finally:
            os.close(reader)


def _work(cases: Sequence[Case], subjects: Subjects, sound: dict[str, Path], scratch: Path, writer: int) -> None:
    """Never returns."""
    limit = 16 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 2)
    for place, case in enumerate(cases):
        room = scratch / str(place)
        room.mkdir()
        problem = attempt(case, subjects[case.subject], sound.get(case.subject, room), room)
        shutil.rmtree(room, ignore_errors=True)
        os.write(writer, f"{'' if problem is None else ascii(problem)}\n".encode())
    os._exit(0)


def _watch(cases: Sequence[Case], reader: int, child: int) -> Iterator[tuple[Case, str | None]]:
    place, line, deadline = 0, b"", time.monotonic() + SECONDS
    while place < len(cases):
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            yield cases[place], f"no end after {SECONDS} s"
            return
        some = os.read(reader, 65536)
        if not some:
            _, status = os.waitpid(child, 0)
            yield (
                cases[place],
                f"the process died ({signal.Signals(status & 127).name if status & 127 else status >> 8})",
            )
            return
        *lines, line = (line + some).split(b"\n")
        for told in lines:
            yield cases[place], told.decode() or None
            place, deadline = place + 1, time.monotonic() + SECONDS
    os.waitpid(child, 0)
