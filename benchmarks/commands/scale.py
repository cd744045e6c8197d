"""`scale`: fits of shards: bytes a nonzero, how fast they are written, seconds a pass from disk, in memory and on Dask, growth.

Every engine runs in a process of its own. Seconds by the clock mean something on an idle machine only; seconds of processors, of
that process and all that it started, mean something on a busy one as well.
"""

import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil

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
    parser.add_argument(
        "--in-memory", type=int, default=100_000, help="most cells to go over in memory as well (default 100000)"
    )
    parser.add_argument("--folder", type=Path, help="where shards are kept (default: a temporary folder)")


def main(arguments: Namespace) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for n in arguments.cells:
            rows.append(measured(n, arguments.folder or Path(temporary), arguments))
            print({name: float(f"{value:.4g}") for name, value in rows[-1].items()}, flush=True)
    publish(rows, f"Shards, K = {arguments.k}", "scale", arguments.out)


def measured(n: int, folder: Path, arguments: Namespace) -> dict[str, Any]:
    import unmix as um

    path, row = folder / f"cells-{n}-{arguments.genes}-{arguments.k}.shards", dict[str, Any]()
    cells, began = um.datasets.Cells(n, n_genes=arguments.genes, n_topics=arguments.k), time.perf_counter()
    there = (path / "shards.json").is_file()
    shards = um.Shards(path) if there else um.shard(cells, path, features=cells.features)
    size = sum(file.stat().st_size for file in path.glob("0*.safetensors"))
    row |= {"cells": n, "nonzeros": shards.nnz, "bytes / nonzero": size / shards.nnz}
    row["drawn and written, M nonzeros / s"] = np.nan if there else shards.nnz / (time.perf_counter() - began) / 1e6

    def alone(what: Callable[..., tuple[float, ...]], *given: Any) -> tuple[float, ...]:
        """In a process that may start others, unlike those of a Pool."""
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            return process.submit(what, *given).result()

    def passes(engine: str) -> tuple[float, ...]:
        return alone(a_pass, engine, path, cells.topics, arguments)

    row["of .h5ad, M nonzeros / s"] = row["of .h5ad, peak MB"] = np.nan
    if n <= arguments.in_memory:
        seconds, row["of .h5ad, peak MB"] = alone(from_h5ad, write_h5ad(shards, path.with_suffix(".h5ad")))
        row["of .h5ad, M nonzeros / s"] = shards.nnz / seconds / 1e6
    seconds, processor, peak = passes("disk")
    row |= {
        "disk, s": seconds,
        "disk, processor s": processor,
        "ns of a processor / nonzero": processor / shards.nnz * 1e9,
    }
    row["disk, peak MB"] = peak
    row["memory, s"] = row["disk ÷ memory"] = row["disk ÷ memory, processor"] = np.nan
    if n <= arguments.in_memory:
        row["memory, s"], in_memory, _ = passes("memory")
        row |= {"disk ÷ memory": seconds / row["memory, s"], "disk ÷ memory, processor": processor / in_memory}
    if arguments.workers:
        name = f"Dask {arguments.workers} × 1"
        row[f"{name}, s"], on_dask, _ = passes("dask")
        row |= {"Dask ÷ disk": row[f"{name}, s"] / seconds, "Dask ÷ disk, processor": on_dask / processor}
    return row


def write_h5ad(shards: Any, file: Path) -> Path:
    """The same counts, uncompressed, as float32 and int32, if they are not there."""
    if not file.is_file():
        import anndata
        import scipy.sparse as sp

        blocks = [sp.csr_matrix(shards.shard(i).csr.astype(np.float32)) for i in range(shards.n_shards)]
        anndata.AnnData(sp.vstack(blocks, format="csr")).write_h5ad(file)
    return file


def from_h5ad(file: Path) -> tuple[float, float]:
    """Seconds in which a file becomes shards, and the peak of memory in MB."""
    import anndata  # noqa: F401 - so that imports take no time below
    import scipy.sparse as sp

    import unmix as um

    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        um.shard(sp.eye_array(4, format="csr"), Path(folder) / "first")
        began = time.perf_counter()
        um.shard(file, Path(folder) / "shards")
        return time.perf_counter() - began, peak_megabytes()


def a_pass(engine: str, path: Path, topics: Any, arguments: Namespace) -> tuple[float, float, float]:
    """Seconds of a pass, and of processors: medians of some, after the first; and the peak of memory in MB."""
    import unmix as um
    from unmix.base.threads import use_threads

    shards, start = um.Shards(path), np.maximum(topics, 1e-12)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, use_threads(arguments.threads):
        if engine == "dask":
            from distributed import Client

            from unmix.engines import local_cluster

            with local_cluster(arguments.workers) as cluster, Client(cluster, set_as_default=False) as client:
                return timed(um.engines.Dask(client, folder), shards, start, arguments)
        return timed(um.engines.Local(memory=2e9 if engine == "disk" else 1e12), shards, start, arguments)


def timed(engine: Any, shards: Any, start: Any, arguments: Namespace) -> tuple[float, float, float]:
    from unmix.models.problem import Problem
    from unmix.solvers import Newton
    from unmix.solvers.extrapolate import Streamed

    with engine:
        task, solver = Problem(shards, arguments.k), Streamed(Newton())
        state, seconds = solver.start(task, np.empty((0, start.shape[1])), start), []
        for _ in range(arguments.passes):
            before = time.perf_counter(), processor_seconds()
            state = solver.step(task, state)
            seconds.append((time.perf_counter() - before[0], processor_seconds() - before[1]))
    clock, processor = np.maximum(np.median(seconds[1:] or seconds, axis=0), 1e-9)
    return float(clock), float(processor), peak_megabytes()


def peak_megabytes() -> float:
    """Of this process; `getrusage` would tell of the one that started it, too."""
    told = Path("/proc/self/status").read_text()
    return int(told.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def processor_seconds() -> float:
    """Of this process and of all that it started and that live."""
    this, spent = psutil.Process(), 0.0
    for process in (this, *this.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        spent += times.user + times.system
    return spent
