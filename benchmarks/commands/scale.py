"""`scale`: fits of shards: bytes a nonzero, seconds a pass from disk, in memory and on Dask, growth with the cells."""

import resource
import tempfile
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import publish


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--cells", type=int, nargs="+", default=[25_000, 100_000], help="simulated cells (default 25000 100000)"
    )
    parser.add_argument("--genes", type=int, default=30_000)
    parser.add_argument("--k", type=int, default=20, help="number of topics (default 20)")
    parser.add_argument("--passes", type=int, default=6, help="passes to time (default 6)")
    parser.add_argument(
        "--workers", type=int, default=2, help="of Dask, one thread each; 0 to leave it out (default 2)"
    )
    parser.add_argument("--folder", type=Path, help="where to write shards (default: a temporary folder)")


def main(arguments: Namespace) -> None:
    import unmix as um

    rows = []
    for n in arguments.cells:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            cells = um.datasets.Cells(n, n_genes=arguments.genes, n_topics=arguments.k)
            began = time.perf_counter()
            shards = um.shard(cells, Path(folder) / "shards", features=cells.features)
            built = time.perf_counter() - began
            size = sum(file.stat().st_size for file in (Path(folder) / "shards").glob("0*.safetensors"))
            start = np.maximum(cells.topics, 1e-12)
            row: dict[str, Any] = {
                "cells": n,
                "nonzeros": shards.nnz,
                "bytes / nonzero": size / shards.nnz,
                "drawn and written, M nonzeros / s": shards.nnz / built / 1e6,
            }
            row["pass from disk, s"] = a_pass(um.engines.Local(memory=2e9), shards, start, arguments)
            row["pass in memory, s"] = a_pass(um.engines.Local(memory=1e12), shards, start, arguments)
            row["disk ÷ memory"] = row["pass from disk, s"] / row["pass in memory, s"]
            if arguments.workers:
                from distributed import Client, LocalCluster

                with (
                    LocalCluster(n_workers=arguments.workers, threads_per_worker=1, dashboard_address=":0") as cluster,
                    Client(cluster, set_as_default=False) as client,
                ):
                    engine = um.engines.Dask(client, Path(folder) / "run")
                    row[f"Dask, {arguments.workers} × 1, s"] = a_pass(engine, shards, start, arguments)
                    row["Dask ÷ disk"] = row[f"Dask, {arguments.workers} × 1, s"] / row["pass from disk, s"]
            row["ns / nonzero"] = row["pass from disk, s"] / shards.nnz * 1e9
            row["peak MB so far"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            rows.append(row)
            print({name: float(f"{value:.4g}") for name, value in row.items()}, flush=True)
    publish(rows, f"Shards, K = {arguments.k}", "scale", arguments.out)


def a_pass(engine: Any, shards: Any, start: Any, arguments: Namespace) -> float:
    """Seconds of a pass: the median of some, after the first."""
    from unmix.models.streaming import StreamedProblem
    from unmix.solvers import Newton
    from unmix.solvers.streamed import Streamed
    from unmix.threads import use_threads

    with engine, use_threads(arguments.threads):
        task, solver = StreamedProblem(shards, arguments.k, engine), Streamed(Newton())
        state, seconds = solver.start(task, None, start), []
        for _ in range(arguments.passes):
            began = time.perf_counter()
            state = solver.step(task, state)
            seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[1:]))
