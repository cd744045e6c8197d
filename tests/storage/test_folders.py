"""A folder of results is whole at every moment, old or new; what a killed process left is put in order; one writer at a time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import unmix as um
from unmix.cli import main
from unmix.io.write import CHECKPOINT_FILE, claim, write_counts, write_fit
from unmix.storage import files
from unmix.storage.files import replacing

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills its children"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
TABLES = {"model.safetensors", "proportions.csv", "exposures.csv", "topics.csv", "top_features.csv", "trace.csv"}
EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "os.listdir", "os.scandir"}
EXCHANGES = [True, False]
KILLS = 25  # at random moments


def a_fit(seed: int) -> um.Fit:
    X = np.random.default_rng(0).poisson(3, (12, 9))
    return um.PoissonNMF(2, random_state=seed, max_iter=2, tol=0, init="random").fit(X).result_


OLD, NEW = a_fit(0), a_fit(1)


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "exchange", lambda one, other: False)


def killed(work, at: int) -> bool:
    """Whether a child that does this work was killed at the given touch of a file; False if it came to its end before."""
    child = os.fork()
    if child == 0:
        touches = 0

        def touch(event: str, args: tuple) -> None:
            nonlocal touches
            if event in EVENTS or event == "ctypes.call_function":
                touches += 1
                if touches == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(touch)
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def is_whole(folder: Path) -> bool:
    """All of the old or all of the new: every table is of the same fit as the model."""
    if not {file.name for file in folder.iterdir()} >= TABLES:
        return False
    fit = um.load(folder / "model.safetensors")
    one = next((one for one in (OLD, NEW) if np.array_equal(one.L, fit.L)), None)
    first = (folder / "trace.csv").read_text().splitlines()[-1].split(",")[2]
    return one is not None and float(first) == pytest.approx(one.trace["loglik"].iloc[-1])


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.kills)])
@pytest.mark.parametrize("exchange", EXCHANGES, ids=["exchange", "two renames"])
def test_a_kill_at_any_touch_of_a_file_leaves_old_or_new_results_and_the_next_run_clears_up(
    exchange: bool, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        without_exchange(monkeypatch)
    folder = tmp_path / "results"
    kills, gone = 0, 0
    for at in range(1, 400, step):
        write_fit(OLD, folder, force=True)
        (folder / "notes.txt").write_text("mine")
        if not killed(lambda: write_fit(NEW, folder), at):
            break
        kills += 1
        if folder.exists():
            assert is_whole(folder)
        else:
            gone += 1
        with claim(folder):  # what the next run begins with, --resume too
            assert is_whole(folder)
            assert (folder / "notes.txt").read_text() == "mine"
        assert [path.name for path in tmp_path.iterdir()] == ["results"]
        assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert kills * step >= 50
    if exchange and files.exchange(*_two(tmp_path)):
        assert not gone, "there is no moment without results"


def _two(folder: Path) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (folder / name).mkdir(exist_ok=True)
    return folder / "a", folder / "b"


def test_results_that_were_complete_and_had_no_place_yet_get_it(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    at = 1
    while killed(lambda: write_fit(NEW, folder), at):
        hidden = list(tmp_path.glob(".results-*/done"))
        with claim(folder):
            assert folder.exists() or not hidden
            assert not folder.exists() or is_whole(folder)
        assert {path.name for path in tmp_path.iterdir()} <= {"results"}
        if folder.exists():
            break
        at += 1


def test_a_file_that_a_killed_process_did_not_finish_goes_with_the_next_write(tmp_path: Path) -> None:
    def half() -> None:
        with replacing(tmp_path / "table.csv") as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

    killed(half, 0)
    (left,) = tmp_path.iterdir()
    with replacing(tmp_path / "other.csv") as temporary:
        temporary.write_text("whole")
    assert left.exists(), "another file's"
    with replacing(tmp_path / "table.csv") as temporary, replacing(tmp_path / "table.csv") as beside:
        assert not left.exists()
        temporary.write_text("one")
        beside.write_text("two")
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", "other.csv"}


def test_of_two_writers_one_wins_and_the_other_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results"
    X = um.Counts(np.random.default_rng(0).poisson(3, (12, 9)))
    write_counts(X, tmp_path / "x.npz")
    write_fit(OLD, folder)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with claim(folder):
            os.write(writer, b".")
            signal.pause()
    os.read(reader, 1)
    try:
        with pytest.raises(FileExistsError, match="another process is writing results there"):
            write_fit(NEW, folder)
        with pytest.raises(SystemExit) as end:
            main(["fit", str(tmp_path / "x.npz"), "-k", "2", "-o", str(folder), "--quiet"])
        said = capsys.readouterr().err
        assert end.value.code == 2
        assert said.count("\n") == 1
        assert "another process is writing results there; wait for it, or use a different folder" in said
        assert is_whole(folder)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    write_fit(NEW, folder)
    assert {path.name for path in tmp_path.iterdir()} == {"results", "x.npz"}


def test_who_holds_a_folder_may_write_to_it_and_a_thread_beside_may_not(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with claim(tmp_path / "results"):
        write_fit(OLD, tmp_path / "results")
        with ThreadPoolExecutor(1) as beside, pytest.raises(FileExistsError, match="another process"):
            beside.submit(write_fit, NEW, tmp_path / "results").result()


RUN = """
import sys, numpy as np, unmix as um
from unmix.cli import main
print("ready", flush=True)
main(sys.argv[1:])
"""


@pytest.mark.kills
def test_fits_killed_at_random_moments_leave_whole_results_and_nothing_hidden(tmp_path: Path) -> None:
    X = um.Counts(np.random.default_rng(0).poisson(3, (300, 60)))
    write_counts(X, tmp_path / "x.npz")
    folder, rng = tmp_path / "results", random.Random(0)
    command = [
        "fit",
        str(tmp_path / "x.npz"),
        "-k",
        "3",
        "-o",
        str(folder),
        "--quiet",
        "--checkpoint-interval",
        "0",
        "--max-iter",
    ]
    for attempt in range(KILLS):
        more = [str(30 + attempt), "--tol", "0", *(["--resume"] if folder.exists() else [])]
        run = subprocess.Popen([sys.executable, "-c", textwrap.dedent(RUN), *command, *more], stdout=subprocess.PIPE)
        assert run.stdout is not None
        run.stdout.readline()
        time.sleep(rng.uniform(0.02, 1.5))
        run.kill()
        run.communicate()
        for file in (folder / "model.safetensors", folder / CHECKPOINT_FILE):
            assert not file.exists() or um.load(file).n_topics == 3
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RUN), *command, "40", "--tol", "0"], check=True, capture_output=True
    )
    assert um.load(folder / "model.safetensors").n_topics == 3
    assert not [path for place in (tmp_path, folder) for path in place.iterdir() if path.name.startswith(".")]
