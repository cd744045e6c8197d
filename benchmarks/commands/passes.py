"""`passes`: how many passes over shards a fit needs, beside the iterations of Newton's method in memory, from the same starts.

Both begin after five EM iterations from a random point. What is counted is the way to a level that both reach: the lower of the
two ends, less so much a count. Where they end in different optima the one with the better is there soon, so the way of each to
its own end is counted, too.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import em_start, find_matrix, load_counts
from benchmarks.table import publish

TOPICS = {"newsgroups": 10, "nips": 8, "pbmc_facs": 10, "sotu": 8, "cells": 12}
LEVELS = (1e-4, 1e-5, 1e-6)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--sets", nargs="+", choices=list(TOPICS), default=list(TOPICS), help="data sets (default all)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="default 0 1 2")
    parser.add_argument("--iterations", type=int, default=150, help="of each (default 150)")


def main(arguments: Namespace) -> None:
    from unmix.base.threads import use_threads

    rows = []
    with use_threads(arguments.threads):
        for name in arguments.sets:
            X, told = load(name, arguments.data_folder, arguments.out)
            for seed in arguments.seeds:
                start = em_start(X, TOPICS[name], iterations=5, seed=seed)
                rows.append(
                    {"data, K": f"{told} {TOPICS[name]}", "seed": seed} | compared(X, start, arguments.iterations)
                )
                print(rows[-1], flush=True)
    ratios = {name: np.median([row.pop(f"÷ {name}") for row in rows]) for name in map(str, (*LEVELS, "own"))}
    publish(
        rows,
        f"Iterations in memory and passes over shards, {arguments.iterations} of each",
        "passes",
        arguments.out,
        "Iterations, passes. `newton − streamed`: log-likelihood in the end. Median of passes ÷ iterations: "
        + ", ".join(f"{name} {value:.3g}" for name, value in ratios.items()),
    )


def load(name: str, folder: Path, out: Path) -> tuple[Any, str]:
    """The counts, and what to call them."""
    import scipy.sparse as sp

    import unmix as um

    if name == "sotu":
        return sp.csr_matrix(um.datasets.sotu().csr), name
    if name == "cells":
        return sp.csr_matrix(sp.vstack(list(um.datasets.Cells(8_192, n_genes=10_000, n_topics=12)))), "simulated cells"
    matrix, simulated = find_matrix(name, folder, out)
    return load_counts(matrix), f"{name} (simulated)" if simulated else name


def compared(X: Any, start: tuple[np.ndarray, np.ndarray], iterations: int) -> dict[str, Any]:
    import unmix as um
    from unmix.models.problem import Problem
    from unmix.solvers import Extrapolate, Newton
    from unmix.solvers.streamed import Streamed

    counts, K = um.Counts(X), start[0].shape[1]
    problem, solver = Problem(counts, K), Extrapolate(Newton())
    with um.engines.Local(memory=1e12):
        task = Problem(um.Shards.of(counts), K)
        task.engine  # noqa: B018 - is the one of this `with`
    streamed = Streamed(Newton())
    newton, s_newton = losses(lambda state: solver.step(problem, state), solver.start(problem, *start), iterations)
    passes, s_passes = losses(lambda state: streamed.step(task, state), streamed.start(task, *start), iterations)
    row, ways, end = dict[str, Any](), (newton, passes), max(newton[-1], passes[-1])
    for name, level, ends in (
        *((level, level, (end, end)) for level in LEVELS),
        ("own", 1e-6, (newton[-1], passes[-1])),
    ):
        one, other = (int(np.argmax(way <= to + level * counts.total)) for way, to in zip(ways, ends, strict=True))
        row |= {f"{name}" if name != "own" else "1e-06, own end": f"{one}, {other}", f"÷ {name}": other / max(one, 1)}
    return row | {"newton − streamed": passes[-1] - newton[-1], "s a pass ÷ s an iteration": s_passes / s_newton}


def losses(step: Callable[[Any], Any], state: Any, iterations: int) -> tuple[np.ndarray, float]:
    """The least loss so far, from the start on, and the seconds of an iteration."""
    found, seconds = [state.loss], []
    for _ in range(iterations):
        began = time.perf_counter()
        state = step(state)
        seconds.append(time.perf_counter() - began)
        found.append(state.loss)
    return np.minimum.accumulate(found), float(np.median(seconds))
