"""`cluster`: how long a pass takes on a cluster that is not there, by a model of three terms, checked here with tasks that sleep.

    seconds of a pass = tasks / workers · (work + sums / bandwidth) + tasks · overhead

`work` is what a visit takes on a worker, `sums` the bytes of sums that a task sends on, `overhead` what the scheduler, the checks
and the files of a task cost. Overhead and bandwidth come from passes of tasks that do not sleep, with small and with large sums;
passes of tasks that do are then foreseen.
"""

import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.table import publish
from unmix.counts.data import Arrays, Visit, Visited

LITTLE = 1_000  # bytes of sums


@dataclass(frozen=True)
class Sleep(Visit):
    """Does nothing for so long, and leaves so much."""

    seconds: float
    sums: int

    def __call__(self, tiles: Iterable[Any], shared: Arrays, before: Arrays) -> Visited:
        time.sleep(self.seconds)
        return Visited({"L": np.zeros((8, 1))}, {"H": np.zeros(self.sums // 4, np.float32)})


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8], help="processes (default 2 4 8)")
    parser.add_argument("--tasks", type=int, default=256, help="shards, a task each (default 256)")
    parser.add_argument("--megabytes", type=float, default=8, help="sums of a task (default 8)")
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.2, 0.5, 1.0], help="that a task sleeps")
    parser.add_argument("--cells", type=float, default=1e8, help="of the cluster that is foreseen (default 1e8)")
    parser.add_argument("--nonzeros", type=float, default=2000, help="a cell (default 2000)")
    parser.add_argument("--topics", type=int, nargs="+", default=[10, 20, 50], help="of the fit (default 10 20 50)")
    parser.add_argument(
        "--ns",
        type=float,
        nargs="+",
        default=[31, 46, 172],
        help="of one core, a nonzero, for each number of topics: what `scale --k` measures (default 31 46 172)",
    )
    parser.add_argument("--cores", type=int, nargs=2, default=[100, 16], help="workers and cores of each")
    parser.add_argument("--gbits", type=float, default=10, help="of the network, each way (default 10)")


def main(arguments: Namespace) -> None:
    rows = [row for workers in arguments.workers for row in measured(workers, arguments)]
    publish(rows, "A pass of tasks that sleep: foreseen and measured", "cluster", arguments.out)
    overhead = max(row["overhead, ms a task"] for row in rows) / 1e3
    publish(
        [foreseen(K, ns, overhead, arguments) for K, ns in zip(arguments.topics, arguments.ns, strict=True)],
        "A pass on that cluster",
        "cluster-model",
        arguments.out,
    )


def foreseen(K: int, ns: float, overhead: float, arguments: Namespace) -> dict[str, Any]:
    """For 30,000 genes, eight shards a task."""
    workers, cores = arguments.cores
    tasks = int(np.ceil(arguments.cells / (16_384 * 8)))
    sums = 30_000 * (4 * K * (K + 1) / 2 + 8 * K)
    work = arguments.cells * arguments.nonzeros * ns * 1e-9 / (workers * cores)
    sent = tasks / workers * 2 * sums / (arguments.gbits * 1e9 / 8)
    return {
        "K": K,
        "tasks": tasks,
        "work, s": work,
        "sums, MB a task": sums / 1e6,
        "network, s": sent,
        "overhead, s": tasks * overhead,
        "a pass, s": work + sent + tasks * overhead,
    }


def measured(workers: int, arguments: Namespace) -> list[dict[str, Any]]:
    import unmix.shards as shards
    from distributed import Client, LocalCluster

    from unmix import engines, shard

    rows, large = [], int(arguments.megabytes * 1e6)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        known, shards.SHARD = shards.SHARD, 8
        try:
            small = shard(sp.eye_array(8 * arguments.tasks, 8, format="csr"), Path(folder) / "shards")
        finally:
            shards.SHARD = known
        engine = engines.Dask(client, Path(folder) / "run")
        engine._depth = lambda *_: 0

        def a_pass(seconds: float, sums: int) -> float:
            engine.over(small, Sleep(seconds, sums), {"F": np.zeros(1)}, after=0)
            began = time.perf_counter()
            engine.over(small, Sleep(seconds, sums), {"F": np.zeros(1)}, before=0, after=1)
            return time.perf_counter() - began

        overhead = a_pass(0, LITTLE) / arguments.tasks
        a_task = (a_pass(0, large) / arguments.tasks - overhead) * workers  # of sums alone
        for seconds in arguments.seconds:
            told = arguments.tasks / workers * (seconds + a_task) + arguments.tasks * overhead
            took = a_pass(seconds, large)
            rows.append(
                {
                    "workers": workers,
                    "tasks": arguments.tasks,
                    "a task sleeps, s": seconds,
                    "sums, MB": arguments.megabytes,
                    "overhead, ms a task": 1e3 * overhead,
                    "sums, ms a task": 1e3 * a_task,
                    "foreseen, s": told,
                    "measured, s": took,
                    "measured ÷ foreseen": took / told,
                }
            )
            print(rows[-1], flush=True)
    return rows
