"""Importing unmix and its rooms loads no library that is used by some people or functions only."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import unmix, unmix.engines, unmix.estimators, unmix.plot, unmix.plot.samples
unmix.analysis.top_features
print(sorted({"anndata", "dask", "distributed", "h5py", "matplotlib", "umap"} & sys.modules.keys()))
"""


def test_rooms_are_imported_without_the_libraries_that_they_may_need_later() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("arguments", [[], ["fit"], ["info"], ["stability"], ["differences"]])
def test_help_imports_no_library_of_numbers(arguments: list[str]) -> None:
    program = f"""
import sys
from unmix.cli import main
try:
    main({[*arguments, "--help"]})
except SystemExit:
    print(sorted({{"numpy", "pandas", "scipy", "sklearn"}} & sys.modules.keys()), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
