"""`million`: one fit of very many cells in little memory: passes, minutes, peak, log-likelihood, and a picture of the way.

`--source cells` are drawn from the model (`um.datasets.Cells`). `--source pbmc` are cells of pbmc_facs drawn again: a cell is
chosen at random, and each of its counts drawn from a Poisson distribution around itself. So the counts have the shape of real
ones, but there are no more than 3,774 independent cells among them.
"""

import resource
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.data import find_matrix, load_counts
from benchmarks.table import publish

BLOCK = 4_096


class Redrawn:
    """Rows of a matrix, `n` of them chosen at random, and their counts drawn again: the same whenever it is gone through."""

    def __init__(self, matrix: Any, n: int, seed: int = 0) -> None:
        self.matrix, self.n, self.seed = sp.csr_array(matrix), n, seed

    def __iter__(self) -> Iterator[sp.csr_array]:
        for block, first in enumerate(range(0, self.n, BLOCK)):
            rng = np.random.default_rng([self.seed, block])
            some = self.matrix[rng.integers(self.matrix.shape[0], size=min(BLOCK, self.n - first))]
            some.data = rng.poisson(some.data).astype(np.float64)
            some.eliminate_zeros()
            yield some


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--cells", type=int, default=1_000_000, help="how many (default 1000000)")
    parser.add_argument("--source", choices=["cells", "pbmc"], default="cells")
    parser.add_argument("--k", type=int, default=20, help="number of topics (default 20)")
    parser.add_argument("--memory", type=float, default=4, help="gigabytes that the process may take (default 4)")
    parser.add_argument("--folder", type=Path, help="where shards are kept (default: a temporary folder)")


def main(arguments: Namespace) -> None:
    import unmix as um
    from unmix.base.threads import use_threads

    resource.setrlimit(resource.RLIMIT_DATA, (int(arguments.memory * 1e9),) * 2)
    name = f"{arguments.source}-{arguments.cells}"
    with tempfile.TemporaryDirectory() as temporary, use_threads(arguments.threads):
        path, began = (arguments.folder or Path(temporary)) / f"{name}.shards", time.perf_counter()
        cells = um.datasets.Cells(arguments.cells, n_topics=arguments.k) if arguments.source == "cells" else None
        if (path / "shards.json").is_file():
            shards = um.Shards(path)
        elif cells is not None:
            shards = um.shard(cells, path, features=cells.features)
        else:
            known, simulated = find_matrix("pbmc_facs", arguments.data_folder, arguments.out)
            if simulated:
                raise SystemExit("pbmc_facs is not there; set UNMIX_DATA")
            shards = um.shard(Redrawn(load_counts(known), arguments.cells), path)
        written = time.perf_counter() - began
        spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        with um.engines.Local(memory=arguments.memory * 1e9):
            fit = um.TopicModel(arguments.k, random_state=0).fit(shards).result_
    used, trace = resource.getrusage(resource.RUSAGE_SELF), fit.trace
    passes = trace[trace["phase"] == "fit"] if "phase" in trace else trace
    row = {
        "cells": arguments.cells,
        "nonzeros": shards.nnz,
        "written, s": written,
        "passes": int(passes["iteration"].iloc[-1]),
        "fitted, s": float(trace["seconds"].iloc[-1]),
        "processor, s": used.ru_utime - spent,
        "peak MB": used.ru_maxrss / 1e3,
        "status": fit.status,
        "log-likelihood": fit.loglik,
    }
    if cells is not None:
        row["of the truth"] = truth(cells, shards)
    publish([row], f"{name}, K = {arguments.k}", f"million-{name}", arguments.out)
    trace.to_csv(arguments.out / f"million-{name}-trace.csv", index=False)
    draw(trace, shards.total, row.get("of the truth"), arguments.out / f"million-{name}.png")


def truth(cells: Any, shards: Any) -> float:
    """The log-likelihood of what the cells were drawn from."""
    total, F = -shards.log_factorials, cells.topics
    for block, counts in enumerate(cells):
        L = cells.loadings(block)
        coo = sp.coo_array(counts)
        rates = np.concatenate(
            [
                np.einsum("ij,ij->i", L[rows], F[columns])
                for rows, columns in zip(*(np.array_split(part, 64) for part in (coo.row, coo.col)), strict=True)
            ]
        )
        total += float(coo.data @ np.log(rates)) - float(L.sum(axis=0) @ F.sum(axis=0))
    return total


def draw(trace: Any, total: float, truth: float | None, path: Path) -> None:
    """How far each pass was from the end, per count, against the minutes since the beginning; and where the truth lies."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    reached = trace["loglik"].to_numpy()
    best, last = reached.max(), len(reached) - 1
    gap, minutes = (best - reached) / total, trace["seconds"].to_numpy() / 60
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    shown = np.arange(len(gap)) < last
    axes.plot(minutes[shown], np.maximum(gap[shown], 1e-9), "o-", color="#0072B2", label="each pass")
    if truth is not None and truth < best:
        axes.axhline((best - truth) / total, color="#D55E00", linestyle="--", label="what they were drawn from")
    axes.set_yscale("log")
    axes.set_xlabel(f"minutes, the start included; {last} passes in all")
    axes.set_ylabel("below the end, nats a count")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
