"""Progress in one form: one line in a terminal, lines at intervals in a log, JSON for machines."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from conftest import random_counts

import unmix as um
from unmix.analysis.results import in_parts
from unmix.base import progress
from unmix.base.progress import Progress, Step, watching, working

LOG, MACHINE = progress.LOG, progress.MACHINE


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "perf_counter", clock)
    monkeypatch.setattr(progress, "LOG", LOG)
    monkeypatch.setattr(progress, "MACHINE", MACHINE)
    return clock


def run(clock: Clock, seconds: int) -> None:
    report, began = Progress("fits"), clock.now
    for second in range(1, seconds + 1):
        clock.now = began + second
        report(second, seconds, float(seconds - second))


def test_a_log_has_a_line_after_ten_seconds_and_then_one_every_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    run(clock, 200)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "10 of 200 fits, 10 s, about 3 min remaining",
        "70 of 200 fits, 70 s, about 2 min remaining",
        "130 of 200 fits, 2 min, about 70 s remaining",
        "190 of 200 fits, 3 min, about 10 s remaining",
    ]


def test_short_work_writes_nothing_to_a_log(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    run(clock, 9)
    assert capsys.readouterr().err == ""


def test_machines_get_lines_of_json(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with watching(machine=True):
        run(clock, 12)
    steps = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [step["done"] for step in steps] == [5, 10]
    assert steps[0] == {"progress": "fits", "done": 5, "of": 12, "seconds": 5.0, "remaining": 7.0, "figures": ""}


def test_a_terminal_keeps_one_line_up_to_date(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    run(clock, 3)
    shown = capsys.readouterr().err
    assert [part.rstrip(" ") for part in shown.split("\r")] == [
        "",
        "1 of 3 fits, about 2 s remaining",
        "2 of 3 fits, about 1 s remaining",
        "3 of 3 fits" + " " * 48 + "\n",
    ]


def test_work_without_parts_is_reported_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG", (0.0, 1e6))
    steps: list[Step] = []
    with watching(steps.append), working("reading a.csv"):
        while not steps:
            pass
    assert str(steps[0]) == "reading a.csv"
    with working("reading a.csv"):
        while not (shown := capsys.readouterr().err):
            pass
    assert re.fullmatch(r"reading a.csv, \d s\n", shown)


def test_a_log_has_lines_while_a_single_part_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG", (0.0, 1e6))

    def work(part: int) -> dict[str, np.ndarray]:
        said.append(line(capsys))
        return {}

    said: list[str] = []
    in_parts([1], work, progress=Progress("fits"))
    with um.solvers.ProgressBar(20):
        said.append(line(capsys))
    assert [re.sub(r"\d+ s\n", "", text) for text in said] == ["0 of 1 fits, ", "0 iterations, "]
    monkeypatch.setattr(progress, "LOG", (0.3, 1e6))
    report = Progress("fits")
    report(3, 4, 600.0, "slow")
    with report:
        assert re.fullmatch(r"3 of 4 fits, slow, \d+ s, about 10 min remaining\n", line(capsys))
    assert report.last.remaining is not None
    assert report.last.remaining + report.last.seconds == pytest.approx(600.0, abs=30)


def line(capsys: pytest.CaptureFixture[str]) -> str:
    while not (shown := capsys.readouterr().err):
        pass
    return shown


def test_fits_and_shards_report_in_the_same_form(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG", (0.0, 0.0))
    um.TopicModel(2, tol=0, max_iter=30, random_state=0, verbose=True).fit(random_counts())
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("0 iterations")]
    assert re.fullmatch(r"1 iterations, -[\d,.]+ \(.*/it\).*, \d+ s", lines[0])
    assert re.fullmatch(r"\d+ iterations, .*, \d+ s, about \d+ s remaining", lines[-1])
