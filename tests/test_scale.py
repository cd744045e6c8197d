"""What size must not change: memory, and what is said of a bad count among millions."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import unmix as um

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
    peaks = {}
    for times in (10, 40):  # 16 and 66 million nonzeros: 200 and 800 MB if they were in memory
        folder = tmp_path / f"{times}.shards"
        um.shard(blocks(times), folder, sample=512)
        done = subprocess.run([sys.executable, "-c", FIT, folder], capture_output=True, text=True, check=True)
        peaks[times] = int(done.stdout) / 1024
    assert peaks[40] < 1.05 * peaks[10], peaks
    assert peaks[40] < 700, peaks


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
