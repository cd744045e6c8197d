"""`startup`: how long `import unmix` takes beyond what it imports, and how long a person waits for the demo."""

import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.measure import TaskError, timed
from benchmarks.table import publish

BASE = "import numpy, scipy.sparse, sklearn.base"
STATEMENTS = {
    "nothing": "pass",
    "numpy + scipy + scikit-learn": BASE,
    "the same + unmix": f"{BASE}, unmix; unmix.TopicModel",
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--repetitions", type=int, default=7, help="fresh interpreters for each import (default 7)")


def main(arguments: Namespace) -> None:
    measured = {name: [] for name in STATEMENTS}
    for _ in range(arguments.repetitions + 1):
        for name, statement in STATEMENTS.items():
            measured[name].append(timed(run, sys.executable, "-c", statement)[0])
    # The first round fills the file cache.
    seconds = {name: float(np.median(values[1:])) for name, values in measured.items()}
    rows = [
        {"interpreter with": name, "s": value, "s beyond the line above": np.nan} for name, value in seconds.items()
    ]
    for above, row in pairwise(rows):
        row["s beyond the line above"] = row["s"] - above["s"]
    publish(rows, "Import time", "startup_import", arguments.out)
    program = shutil.which("unmix", path=Path(sys.executable).parent)
    if program is None:
        print("unmix demo skipped: the command is not installed beside this interpreter")
        return
    demo = [timed(run_demo, program)[0] for _ in range(3)]
    publish(
        [{"command": "unmix demo", "s, median of 3": float(np.median(demo))}], "Demo", "startup_demo", arguments.out
    )


def run(*command: str) -> None:
    outcome = subprocess.run(command, capture_output=True, text=True)
    if outcome.returncode:
        raise TaskError(f"{' '.join(command)} failed: {outcome.stderr.strip()[-300:]}")


def run_demo(program: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(program, "demo", "-o", f"{folder}/demo")
