"""What size must not change: memory, and what is said of a bad count among millions."""

import shutil
import subprocess
import sys
from contextlib import ExitStack, suppress

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import SafetensorError

import unmix as um
from unmix.counts import shards
from unmix.solvers import Checkpoint

pytestmark = pytest.mark.slow
FIT = """
import sys, warnings
import unmix as um
warnings.simplefilter("ignore")
with um.engines.Local(memory="700MB"):
    um.PoissonNMF(2, random_state=0, max_iter=2, tol=0, n_jobs=1).fit(um.Shards(sys.argv[1]))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def blocks(times, rows=4096, columns=2_000, each=400):
    """The same counts again and again, in little time."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, columns - each, rows)[:, None] + np.arange(each)
    values = rng.integers(1, 9, (rows, each)).astype(float)
    block = sp.csr_array((values.ravel(), places.ravel(), np.arange(0, rows * each + 1, each)), shape=(rows, columns))
    for _ in range(times):
        yield block


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for the peak of memory")
def test_memory_does_not_grow_with_the_number_of_samples(tmp_path):
    """How far the reader is ahead, a tile of 20 MB or two, is a matter of chance, hence a second run of each if need be."""
    peaks = {10: [], 40: []}  # 16 and 66 million nonzeros: 200 and 800 MB if they were in memory
    for times in peaks:
        um.shard(blocks(times), tmp_path / f"{times}.shards", sample=512)
    for _ in range(2):
        for times, found in peaks.items():
            command = [sys.executable, "-c", FIT, tmp_path / f"{times}.shards"]
            found.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024)
        if alike := min(peaks[40]) < 1.05 * max(peaks[10]):
            break
    assert alike, peaks
    assert max(peaks[40]) < 700, peaks


@pytest.mark.parametrize(("value", "said"), [(np.nan, "nan"), (-1.0, "-1"), (np.inf, "inf")])
def test_a_bad_count_among_millions_of_samples_is_named_with_its_row_and_column(value, said, tmp_path):
    row, at_a_time = 1_234_567, 1 << 17

    def cells():
        for first in range(0, 1_300_000, at_a_time):
            block = sp.eye_array(at_a_time, 7, format="csr", dtype=float)
            if first <= row < first + at_a_time:
                block = block.tolil()
                block[row - first, 3] = value
                block = block.tocsr()
            yield block

    with pytest.raises(ValueError, match=rf"{said} at row 1234567, column 3"):
        um.shard(cells(), tmp_path / "bad.shards")
    assert not (tmp_path / "bad.shards").exists()


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 1 MB of its own, where one may be made."""
    place = tmp_path / "disk"
    place.mkdir()
    made = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False
    )
    if not made or made.returncode:
        pytest.skip("no disk may be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=False)


def test_a_full_disk_is_said_and_the_same_call_goes_on_once_there_is_room(small_disk, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD", 64)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).poisson(2.0, (1_000, 300)))
    filler, out = small_disk / "filler", small_disk / "out"
    filler.write_bytes(b"0" * 500_000)
    with pytest.raises(
        OSError, match=r"No space left.*shards are kept: free some space, and the same command continues"
    ):
        um.shard(tmp_path / "x.npy", out, sample=50)
    kept = {file.name: file.stat().st_mtime_ns for file in out.glob("0*.safetensors")}
    assert kept
    filler.unlink()
    assert (
        um.shard(tmp_path / "x.npy", out, sample=50).facts == um.Shards.of(um.Counts(np.load(tmp_path / "x.npy"))).facts
    )
    assert kept.items() <= {file.name: file.stat().st_mtime_ns for file in out.glob("0*.safetensors")}.items()


@pytest.mark.xdist_group("dask")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["local", "dask"])
def test_a_fit_whose_disk_is_full_ends_with_its_last_checkpoint(kind, small_disk, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SHARD", 64)
    X = um.shard(np.random.default_rng(0).poisson(2.0, (1_000, 100)), tmp_path / "x.shards")
    filler, checkpoint = small_disk / "filler", tmp_path / "checkpoint.safetensors"

    def model(*callbacks):
        return um.PoissonNMF(8, init="random", random_state=0, max_iter=6, tol=0, callbacks=list(callbacks))

    def fill(progress):
        if progress.row["iteration"] == 3:
            with suppress(OSError):
                filler.write_bytes(b"0" * 2_000_000)

    with ExitStack() as stack:
        if kind == "local":
            engine = lambda: um.engines.Local(memory=4e5, folder=small_disk / "run")  # noqa: E731
            monkeypatch.setattr(um.engines.Local, "require", lambda *_: None)
        else:
            distributed = pytest.importorskip("distributed")
            from unmix.engines import local_cluster

            client = stack.enter_context(
                distributed.Client(stack.enter_context(local_cluster(1)), set_as_default=False)
            )
            engine = lambda: um.engines.Dask(client, small_disk / "run")  # noqa: E731
        with engine(), pytest.raises((OSError, SafetensorError), match=r"No space left|os error 28"):
            model(Checkpoint(checkpoint, 0), fill).fit(X)
        filler.unlink()
        with engine():
            went_on = model().resume(X, um.load(checkpoint)).result_
    np.testing.assert_array_equal(went_on.F, model().fit(X).result_.F)
