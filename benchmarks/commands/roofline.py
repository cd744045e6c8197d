"""`roofline`: how far one pass of each kernel is from what this machine can do, on one thread.

Three limits are measured, not looked up: reading memory in order, multiply-adds in vectors of 32 bytes, and gathering rows of
the fixed factor one nonzero after the other. A kernel can be no faster than the slowest of the three for what it must do:

    bytes     index, count and offsets once; the moving factor read and written; the fixed factor read
    flops     two a topic for a rate and two for a sum (EM: one of each; Newton: two of each, and about K² for the curvature;
              coordinate descent: what EM takes, then six a topic and sweep)
    gathers   one row of the fixed factor a nonzero
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.data import load_counts, load_start, make_case
from benchmarks.measure import in_fresh_process
from benchmarks.table import publish

WARM_UP = 10  # extrapolated iterations before a pass is timed: zeros have formed
STREAM = 1 << 26  # bytes read in order, more than any cache holds
SWEEPS = 4


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--repetitions", type=int, default=9, help="runs of each kernel; the least CPU time counts (9)")


def main(arguments: Namespace) -> None:
    case = make_case(arguments.data, arguments.k, arguments.data_folder, arguments.out)
    limits, rows = in_fresh_process(
        "benchmarks.commands.roofline:measure",
        threads=1,
        matrix=str(case.matrix),
        start=str(case.start),
        repetitions=arguments.repetitions,
    )
    remark = "The limits: " + ", ".join(f"{name} {value:.3g}" for name, value in limits.items()) + "."
    publish(
        rows,
        f"Passes and their limits, one thread: {case.title}",
        f"roofline_{case.name}_k{case.K}",
        arguments.out,
        remark,
    )


def least(run: Callable[[], object], repetitions: int) -> float:
    """CPU seconds of the fastest of several runs: what others do on the machine only adds."""
    seconds = []
    for _ in range(repetitions):
        begin = time.thread_time()
        run()
        seconds.append(time.thread_time() - begin)
    return min(seconds)


def machine_limits(repetitions: int) -> dict[str, float]:
    """Of reading in order, and of multiply-adds in double precision by BLAS, on a product that stays in cache."""
    stream = np.ones(STREAM // 8)
    A = np.ones((256, 256))
    out = np.empty_like(A)
    return {
        "GB / s": STREAM / least(stream.sum, repetitions) / 1e9,
        "double GFLOP / s": 2 * 256**3 / least(lambda: np.matmul(A, A, out=out), 10 * repetitions) / 1e9,
    }


def gather_seconds(indices: np.ndarray, fixed: np.ndarray, repetitions: int) -> float:
    """Seconds to copy the fixed factor's row of every nonzero, as float32, a block that stays in cache at a time."""
    rows = np.ascontiguousarray(fixed, dtype=np.float32)
    out = np.empty((4096, rows.shape[1]), np.float32)
    blocks = [indices[begin : begin + 4096].astype(np.intp) for begin in range(0, len(indices), 4096)]

    def gather() -> None:
        for block in blocks:
            np.take(rows, block, axis=0, out=out[: len(block)], mode="clip")

    return least(gather, repetitions)


def measure(matrix: str, start: str, repetitions: int) -> tuple[dict[str, float], list[dict]]:
    import unmix as um
    from benchmarks.peers.unmix_solvers import fixed_run
    from unmix.base.threads import use_threads

    counts = um.Counts(load_counts(matrix))
    fit = fixed_run(counts, load_start(start), WARM_UP)
    K, sides = fit.L.shape[1], counts.sides()
    limits = machine_limits(repetitions)
    kernels = {
        "em": (um.solvers.EM(), 4 * K),
        "newton": (um.solvers.Newton(), 8 * K + K * (K + 1)),
        "scd": (um.solvers.SCD(SWEEPS), 4 * K + 6 * K * SWEEPS),
    }
    rows = []
    with use_threads(1):
        for side, fixed, moving, name in ((sides.left, fit.F, fit.L, "L"), (sides.right, fit.L, fit.F, "F")):
            nonzeros = len(side.rows.data)
            passed = sum(array.nbytes for array in side.rows) + fixed.nbytes + 2 * moving.nbytes
            streaming = passed / limits["GB / s"] / 1e9
            gathering = gather_seconds(side.rows.indices, fixed, repetitions)
            for kernel, (half, flops) in kernels.items():
                seconds = least(partial(half, side, fixed, moving), repetitions)
                computing = nonzeros * flops / limits["double GFLOP / s"] / 1e9
                rows.append(
                    {
                        "pass": f"{kernel}, {name}",
                        "ms": 1e3 * seconds,
                        "ns / nonzero": 1e9 * seconds / nonzeros,
                        "bytes / nonzero": passed / nonzeros,
                        "streaming ms": 1e3 * streaming,
                        "flops ms": 1e3 * computing,
                        "gathers ms": 1e3 * gathering,
                        "× the limit": seconds / max(streaming, computing, gathering),
                    }
                )
    return limits, rows
