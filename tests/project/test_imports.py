"""Importing unmix and its rooms loads no library that is used by some people or functions only."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import unmix, unmix.engines, unmix.estimators, unmix.plot, unmix.plot.samples
unmix.analysis.top_features
print(sorted({"anndata", "dask", "distributed", "h5py", "matplotlib", "umap"} & sys.modules.keys()))
"""


def test_rooms_are_imported_without_the_libraries_that_they_may_need_later() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
