"""Nothing is lost: a fit that is interrupted, killed or out of disk space goes on, and ends with the same bytes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import random_counts

import unmix as um
from unmix.cli import main

TABLES = ["proportions.csv", "topics.csv", "top_features.csv"]
FIT = ["fit", "counts.npz", "-k", "5", "--tol", "0", "--max-iter", "600", "--refine", "0", "--quiet"]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with counts and, in `whole`, the fit that nothing disturbed."""
    folder = tmp_path_factory.mktemp("resume")
    sp.save_npz(folder / "counts.npz", sp.csr_array(random_counts(60, 50, 5, seed=1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(*FIT, "-o", "whole") == 0
    return folder


def run(*arguments):
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    return exit.value.code


def start(*arguments, **options):
    """The command in a process of its own."""
    program = [sys.executable, "-c", "from unmix.cli import main; main()", *arguments]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def wait_for(path, process):
    deadline = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def assert_same(one, two):
    for name in TABLES:
        assert (one / name).read_bytes() == (two / name).read_bytes()
    first, second = (um.load(folder / "model.safetensors") for folder in (one, two))
    assert first.L.tobytes() == second.L.tobytes()
    assert first.F.tobytes() == second.F.tobytes()
    assert (first.status, first.loglik, len(first.trace)) == (second.status, second.loglik, len(second.trace))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_fit_resumes_to_the_same_bytes(how, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    output = tmp_path / "out"
    process = start(*FIT, "-o", str(output), "--checkpoint-interval", "0")
    wait_for(output / "checkpoint.safetensors", process)
    process.send_signal(how)
    _, err = process.communicate(timeout=120)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert err == "note: kept the best fit so far; the same command with --resume continues it\n"
        assert sorted(path.name for path in output.iterdir()) == sorted(path.name for path in Path("whole").iterdir())
        left = um.load(output / "model.safetensors")
    else:
        assert process.returncode == -signal.SIGKILL
        left = um.load(output / "checkpoint.safetensors")
    assert left.status == "interrupted"
    assert len(left.trace) < 600
    assert run(*FIT, "-o", output, "--resume") == 0
    assert_same(output, Path("whole"))
    assert not (output / "checkpoint.safetensors").exists()


def test_resuming_what_is_complete_leaves_it_as_it_is(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for _ in range(2):
        assert run("fit", "counts.npz", "-k", 3, "-o", tmp_path / "out", "--resume") == 0
    out, err = capsys.readouterr()
    assert err == f"note: nothing to resume in {tmp_path / 'out'}; starting again\n"
    assert "resuming after" in out


def test_more_iterations_go_on_from_a_fit_that_had_too_few(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    assert run(*FIT, "--max-iter", 40, "-o", tmp_path / "out") == 0
    assert run(*FIT, "-o", tmp_path / "out", "--resume") == 0
    assert_same(tmp_path / "out", Path("whole"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (["--seed", "1"], "had --seed 0, this one has --seed 1"),
        (["--solver", "em"], "had --solver newton, this one has --solver em"),
    ],
)
def test_another_command_does_not_resume(change, problem, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    fit = ["fit", "counts.npz", "-k", "3", "--max-iter", "5", "--tol", "0", "-o", str(tmp_path / "out"), "--quiet"]
    assert run(*fit) == 0
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    assert run(*fit, "--resume", *change) == 2
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before


def test_a_full_disk_is_one_clear_line_and_earlier_results_stay(folder, tmp_path, monkeypatch):
    """The size of files is limited, which the system reports just as it reports a full disk: when they are written."""
    import resource

    monkeypatch.chdir(folder)
    output = tmp_path / "out"
    assert run("fit", "counts.npz", "-k", 2, "-o", output, "--quiet") == 0
    before = {path.name: path.read_bytes() for path in output.iterdir()}
    process = start(
        *["fit", "counts.npz", "-k", "3", "-o", str(output), "--checkpoint-interval", "0", "--quiet"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    _, err = process.communicate(timeout=120)
    *notes, error = err.splitlines()
    assert process.returncode == 2
    assert error.startswith("error: ")
    assert "File too large; nothing was written, earlier results are as they were" in error
    assert len(notes) == 1
    assert "the checkpoint could not be written (File too large); the fit continues without it" in notes[0]
    assert {path.name: path.read_bytes() for path in output.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_damaged_checkpoint_is_said_and_not_used(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    output = tmp_path / "out"
    output.mkdir()
    (output / "checkpoint.safetensors").write_bytes(b"junk")
    assert run("fit", "counts.npz", "-k", 3, "-o", output, "--resume", "--quiet") == 2
    assert "checkpoint.safetensors: not a readable safetensors file" in capsys.readouterr().err
    assert run("fit", "counts.npz", "-k", 3, "-o", output, "--quiet") == 0  # anew
    assert not (output / "checkpoint.safetensors").exists()
    np.testing.assert_allclose(um.load(output / "model.safetensors").proportions.sum(axis=1), 1)
