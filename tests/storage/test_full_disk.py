"""On a full disk every file that is written is an OSError that names it; nothing half-written stays, no process is killed.

A mapped file that finds the disk full while its pages are written kills the process (SIGBUS), so all is tried in another one:
on a file system of a megabyte, where root may mount one, and with a limit to the size of files everywhere else.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import unmix as um
from unmix.base import memory
from unmix.storage.files import replacing

SCRIPT = """
import os, sys
from pathlib import Path
import numpy as np
import unmix as um
from unmix.base import memory
from unmix.io.write import write_proportions
from unmix.engines.local import Kept

folder, limited = Path(sys.argv[1]), sys.argv[2] == "limited"
rows = np.full((100_000, 2), 0.5)
model = um.TopicModel.from_factors(np.eye(2))
shards = um.Shards.of(um.Counts(np.ones((100_000, 2))))
if limited:
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))

def room():
    memory.LARGE = 1000
    memory.room((100_000, 2), float)[:] = 0.5

actions = {
    "transform": lambda: model.transform(shards, out=folder / "answer.npy"),
    "npy": lambda: write_proportions(rows, None, folder / "answer.npy", ["a", "b"]),
    "csv": lambda: write_proportions(rows, None, folder / "answer.csv", ["a", "b"]),
    "room": room,
    "kept": lambda: Kept(folder).write(0, 0, {"L": rows}),
}
for name, action in actions.items():  # each in a process of its own, which the system might kill
    if (child := os.fork()) == 0:
        try:
            action()
            print(name, "written", flush=True)
        except OSError as error:
            print(name, type(error).__name__, error.errno, error, flush=True)
        finally:
            os._exit(0)
    ended = os.waitpid(child, 0)[1]
    print(name, "ended with", ended, "and left", [p.name for p in folder.rglob("*") if p.is_file()], flush=True)
"""
ACTIONS = {
    "transform": r"answer\.npy",
    "npy": r"answer\.npy",
    "csv": r"answer\.csv",
    "room": "a temporary file of 1.5 MB is needed; set TMPDIR to a larger folder",
    "kept": "loadings are kept here between passes; set a larger folder for the engine, or TMPDIR",
}


def mounted(folder: Path) -> bool:
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(params=["full", "limited"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with little room, and how that comes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.name != "posix":
        pytest.skip("there is no limit to the size of files")
    if request.param == "limited":
        yield folder, "limited"
        return
    if not mounted(folder):
        pytest.skip("a small file system cannot be mounted")
    yield folder, "full"
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_nothing(disk: tuple[Path, str]) -> None:
    folder, how = disk
    environment = os.environ | {"TMPDIR": str(folder)}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, str(folder), how]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    number = errno.ENOSPC if how == "full" else errno.EFBIG
    for name, words in ACTIONS.items():
        assert re.search(f"^{name} OSError {number} .*{words}", done.stdout, re.MULTILINE), done.stdout
        assert f"{name} ended with 0 and left []" in done.stdout


def test_an_error_of_the_system_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    def write() -> None:
        with replacing(tmp_path / "page.html") as temporary:
            temporary.write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"page\.html") as told:
        write()
    assert told.value.filename == str(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EDQUOT])
def test_an_array_that_has_no_room_on_the_disk_is_an_error(monkeypatch: pytest.MonkeyPatch, problem: int) -> None:
    def full(*_: object) -> None:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(memory, "LARGE", 100)
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"a temporary file of 0.0 MB is needed; set TMPDIR") as error:
        memory.room((100, 2), float)
    assert (error.value.errno, error.value.filename) == (problem, tempfile.gettempdir())


@pytest.mark.parametrize("there", ["missing", "unsupported"])
def test_an_array_in_a_file_has_all_its_room_where_blocks_cannot_be_reserved(
    monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(memory, "LARGE", 100)
    if there == "missing":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    else:
        monkeypatch.setattr(os, "posix_fallocate", unsupported, raising=False)
    array = memory.room((400_000, 1), float)
    assert isinstance(array, np.memmap)
    assert array.shape == (400_000, 1)
    array[:] = 1
    assert array.sum() == 400_000


def test_proportions_in_a_file_are_those_in_memory(tmp_path: Path) -> None:
    X = um.Counts(np.random.default_rng(0).poisson(2.0, (50, 4)))
    model, shards = um.TopicModel(2, random_state=0).fit(X), um.Shards.of(X)
    written = model.transform(shards, out=tmp_path / "answer.npy")
    np.testing.assert_array_equal(written, model.transform(shards))
    assert np.load(tmp_path / "answer.npy").dtype == np.float64
    assert [path.name for path in tmp_path.iterdir()] == ["answer.npy"]
