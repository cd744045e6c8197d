"""A finished fit is never lost by what comes after it; private results stay private; two fits never mix; one writer."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unmix as um
from unmix.cli import main
from unmix.io.write import claim, write_counts

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="modes, signals and locks of POSIX"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
TABLES = {"model.safetensors", "proportions.csv", "exposures.csv", "topics.csv", "top_features.csv", "trace.csv"}
FILES = TABLES | {"structure.png", "report.html"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with counts to fit, in which commands run."""
    rng = np.random.default_rng(0)
    X = um.Counts(rng.poisson(3, (14, 9)), [f"s{i}" for i in range(14)], [f"f{j}" for j in range(9)])
    write_counts(X, tmp_path / "x.npz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return int(end.value.code or 0)


def fit(*more: object, k: int = 2, output: str = "out") -> int:
    return run("fit", "x.npz", "-k", k, "-o", output, "--max-iter", 3, "--tol", 0, "--quiet", *more)


def names(folder: str = "out") -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


# Printing


def started(*words: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    code = "import sys; from unmix.cli import main; main(sys.argv[1:])"
    return subprocess.run([sys.executable, "-c", code, *words], stderr=subprocess.PIPE, check=False, **how)


def test_a_terminal_that_lacks_letters_does_not_lose_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = (TextIOWrapper(BytesIO(), encoding="ascii") for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert run("fit", "x.npz", "-k", "2", "-o", "out") == 0
    for stream in (out, err):
        stream.flush()
    assert err.buffer.getvalue() == b""  # type: ignore[attr-defined]
    assert names() == FILES
    assert b"top features" in out.buffer.getvalue()  # type: ignore[attr-defined]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_below_the_log_does_not_lose_the_fit() -> None:
    with open("/dev/full", "wb") as full:
        done = started("fit", "x.npz", "-k", "2", "-o", "out", stdout=full)
        assert done.returncode == 0
        assert done.stderr.count(b"standard output cannot be written (No space left on device)") == 1
        assert names() == FILES
        done = started("simulate", "swimmer", "-o", "swimmer.npz", "--json", stdout=full)
        assert (done.returncode, done.stderr.count(b"error: ")) == (2, 1), "an answer that is not there is an error"
        assert Path("swimmer.npz").is_file()


def test_a_closed_pipe_does_not_lose_the_fit() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert started("fit", "x.npz", "-k", "2", "-o", "out", stdout=writer).returncode == 0
    finally:
        os.close(writer)
    assert names() == FILES


# What comes after the model


def fail(*_: object, **__: object) -> None:
    raise RuntimeError("no font")


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


AFTER = {
    "structure.png": "unmix.cli.fitting.draw_structure",
    "report.html": "unmix.write_report",
    "topics.csv": "unmix.io.write._by_topic",
    "top_features.csv": "unmix.fit.Fit.top_features",
}


@pytest.mark.parametrize("file", AFTER)
def test_what_fails_after_the_model_is_said_and_the_rest_is_there(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(k=3)
    with monkeypatch.context() as patch:
        patch.setattr(AFTER[file], fail)
        assert fit() == 1
    said = capsys.readouterr().err
    assert f"{Path('out') / file}: could not be written (no font); the model is there" in said
    assert "Traceback" not in said
    assert um.load("out/model.safetensors").n_topics == 2
    assert file not in names(), "nothing of the fit before it stays"
    assert names() >= {"model.safetensors", "trace.csv"}
    assert fit("--resume") == 0
    assert names() == FILES


@pytest.mark.parametrize("file", ["structure.png", "report.html"])
def test_ctrl_c_while_pictures_are_drawn_keeps_the_fit(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(AFTER[file], interrupt)
    assert fit() == 130
    assert "interrupted before" in capsys.readouterr().err
    assert names() >= TABLES
    assert file not in names()


def test_ctrl_c_while_the_model_is_written_keeps_it_as_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("unmix.io.write.write_each", interrupt)
        assert fit() == 130
    assert f"the fit is kept in {Path('out') / 'checkpoint.safetensors'}" in capsys.readouterr().err
    assert fit("--resume") == 0
    assert names() == FILES


@pytest.mark.parametrize("analysis", ["differences", "stability", "freedom"])
def test_an_analysis_that_fails_leaves_the_fit_and_the_others(
    analysis: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others = {"differences", "freedom"} - {analysis}
    monkeypatch.setattr(import_module(f"unmix.analysis.{analysis}"), analysis, fail)
    assert fit(*(f"--{name}" for name in sorted({analysis, *others})), "--stability-runs", 2) == 1
    assert f"--{analysis} failed (no font); the fit is kept" in capsys.readouterr().err
    assert names() >= FILES | {f"{name}.csv" for name in others}


# Results of two fits


def test_a_new_fit_takes_the_analyses_of_the_old_one_away_and_leaves_your_files() -> None:
    assert fit("--differences", "--stability", "--stability-runs", 2, "--freedom", k=3) == 0
    assert run("differences", "out", "x.npz", "--quiet") == 0
    Path("out/notes.txt").write_text("mine")
    Path("out/volcano.png").write_text("mine")
    old = names()
    assert {"differences.csv", "volcano-3.png", "stability.csv", "stability.png", "freedom.csv"} <= old
    assert fit() == 0
    assert names() == FILES | {"notes.txt", "volcano.png"}


def test_new_names_of_topics_leave_the_analyses_of_the_same_topics() -> None:
    assert fit("--differences", "--freedom") == 0
    before = names()
    assert run("report", "out", "--names", "1=sun", "--quiet") == 0
    assert names() == before
    assert "sun" in Path("out/proportions.csv").read_text().splitlines()[0]


# Permissions


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


REPLACE: dict[str, Callable[[], int]] = {
    "fit": fit,
    "names": lambda: run("report", "out", "--names", "1=sun", "--quiet"),
    "report": lambda: run("report", "out", "--quiet"),
    "transform": lambda: run("transform", "out", "x.npz", "-o", "out/new.csv", "--quiet"),
    "array": lambda: run("transform", "out", "x.npz", "-o", "out/new.npy", "--quiet"),
    "differences": lambda: run("differences", "out", "x.npz", "--quiet"),
    "freedom": lambda: run("freedom", "out", "-o", "out/freedom.safetensors", "--quiet"),
}


@pytest.mark.parametrize("command", REPLACE)
def test_private_results_stay_private(command: str) -> None:
    fit()
    REPLACE[command]()
    os.chmod("out", 0o700)
    for path in Path("out").iterdir():
        os.chmod(path, 0o600)
    assert REPLACE[command]() == 0
    assert mode("out") == 0o700
    assert {mode(path) for path in Path("out").iterdir()} == {0o600}


def test_a_device_or_a_pipe_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "answer.npy")
    (tmp_path / "link.npy").symlink_to("answer.npy")
    for name in ("answer.npy", "link.npy"):
        with pytest.raises(OSError, match=rf"is not a regular file; use the name of a file: .*{name}"):
            um.TopicModel.from_factors(np.eye(2)).result_.save(tmp_path / name)
    assert {path.name for path in tmp_path.iterdir()} >= {"answer.npy", "link.npy"}
    assert (tmp_path / "answer.npy").is_fifo()
    assert (tmp_path / "link.npy").is_symlink()


def test_shared_results_stay_shared() -> None:
    before = os.umask(0o077)
    try:
        fit()
        os.chmod("out", 0o2775)
        for path in Path("out").iterdir():
            os.chmod(path, 0o664)
        assert fit() == 0
    finally:
        os.umask(before)
    assert mode("out") == 0o2775
    assert {mode(path) for path in Path("out").iterdir()} == {0o664}


def test_what_is_being_written_is_for_its_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    save = um.Fit.save

    def spy(self: um.Fit, path: Path, **how: Any) -> None:
        save(self, path, **how)
        seen.append(min(mode(folder) for folder in Path(path).parents if folder.name.startswith(".out-")))

    monkeypatch.setattr(um.Fit, "save", spy)
    fit()
    assert seen == [0o700]


ACL = "system.posix_acl_access"


def test_access_control_lists_are_kept() -> None:
    fit()
    # user::rw- user:65534:r-- group::--- mask::r-- other::---
    entries = [(1, 6, 2**32 - 1), (2, 4, 65534), (4, 0, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1)]
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr("out/model.safetensors", ACL, listed)
    except (OSError, AttributeError):
        pytest.skip("there are no access control lists here")
    assert fit() == 0
    assert os.getxattr("out/model.safetensors", ACL) == listed


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root has groups to give")
def test_the_group_is_kept() -> None:
    fit()
    for path in (Path("out"), *Path("out").iterdir()):
        os.chown(path, -1, 12345)
    assert fit() == 0
    assert {path.stat().st_gid for path in (Path("out"), *Path("out").iterdir())} == {12345}


# One writer

WRITERS: dict[str, list[str]] = {
    "fit": ["fit", "x.npz", "-k", "2", "-o", "out"],
    "path": ["path", "x.npz", "-k", "1,2", "-o", "out", "--force"],
    "report": ["report", "out"],
    "names": ["report", "out", "--names", "1=sun"],
    "page": ["report", "mine", "-o", "out/mine.html"],
    "differences": ["differences", "out", "x.npz"],
    "differences of another": ["differences", "mine", "x.npz", "-o", "out"],
    "stability": ["stability", "x.npz", "-k", "2", "--runs", "2", "-o", "out"],
    "choose": ["choose", "x.npz", "-k", "1-2", "--folds", "2", "-o", "out", "--force"],
    "align": ["align", "mine", "mine", "-o", "out"],
    "freedom": ["freedom", "mine", "-o", "out/freedom.safetensors"],
    "intervals": ["intervals", "mine", "x.npz", "--sweeps", "5", "--burn-in", "1", "-o", "out/intervals.csv"],
    "transform": ["transform", "mine", "x.npz", "-o", "out/new.csv"],
    "compare": ["compare", "mine", "mine", "-o", "out/pairs.csv"],
    "simulate": ["simulate", "A", "-o", "out/a.npz"],
}


@pytest.fixture
def held() -> Iterator[None]:
    """Another process writes to `out`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with claim("out"):
            os.write(writer, b".")
            signal.pause()
    os.read(reader, 1)
    yield
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("out").iterdir()}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_command_that_writes_to_results_respects_another_writer(
    writer: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    fit()
    shutil.copytree("out", "mine")
    before = contents()
    request.getfixturevalue("held")
    assert run(*WRITERS[writer], "--quiet") == 2
    assert "another process is writing results there; wait for it" in capsys.readouterr().err
    assert contents() == before


def test_the_first_fit_of_a_folder_is_respected_too(request: pytest.FixtureRequest) -> None:
    fit(output="mine")
    Path("out").mkdir()
    request.getfixturevalue("held")
    assert run(*WRITERS["transform"], "--quiet") == 2
    assert not names()


# Files in the way


OVERWRITING = {
    "transform out x.npy -o x.npy": "that file is read by the command",
    "transform out x.npz -o x.csv --metadata x-fit.csv": "-o x-fit.csv; that file is read by the command",
    "transform out x.npz -o out/proportions.csv": "that file belongs to a fit",
    "intervals out x.npz -o out/model.safetensors": "that file belongs to a fit",
    "differences out x.npz -o saved.safetensors": "that file belongs to a fit",
    "compare out x.csv -o x.csv": "that file is read by the command",
    "report out -o two/report.html": "that file belongs to a fit",
    "quality out x.npz -o out/report.html": "that file belongs to a fit",
    "choose own/choice.npz -k 1-2 -o own --force": "that file is read by the command",
    "fit own/topics.csv -k 2 -o own --force": "a result would replace topics.csv, which is read",
    "fit x.npz -k 2 -o own --force --metadata own/trace.csv": "a result would replace trace.csv, which is read",
    "path own/path.csv -k 1-2 -o own --force": "a result would replace path.csv, which is read",
}


@pytest.mark.parametrize("command", OVERWRITING)
def test_no_command_overwrites_what_it_reads_or_a_fit(
    command: str, capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    assert fit() == 0
    shutil.copytree("out", "two")
    shutil.copy("out/model.safetensors", "saved.safetensors")
    Path("own").mkdir()
    shutil.copy("x.npz", "own/choice.npz")
    np.save("x.npy", um.read("x.npz").csr.toarray())
    for name in ("x.csv", "x-fit.csv", "own/topics.csv", "own/trace.csv", "own/path.csv"):
        Path(name).write_text("sample,f0,f1\ns0,1,2\ns1,2,1\n")
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert run(*command.split(), "--quiet") == 2
    assert OVERWRITING[command] in capsys.readouterr().err
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_an_answer_does_not_take_the_place_of_a_fit(place: Path) -> None:
    assert fit() == 0
    with pytest.raises(ValueError, match=r"model\.safetensors: not written, as a fit is there"):
        um.compare("out", "out").save("out/model.safetensors")
    assert um.load("out").n_topics == 2
    um.compare("out", "out").save("one.safetensors")
    um.compare("out", "out").save("one.safetensors")
