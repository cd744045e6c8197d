"""`stability`: `unmix.stability` of 20 runs beside one default fit, and whether runs that stop sooner say the same."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

import numpy as np

import unmix as um
from benchmarks.data import find_matrix, title
from benchmarks.measure import timed
from benchmarks.table import publish

SETTINGS = ({}, {"tol": 1e-5}, {"tol": 1e-4})
FITS = 4


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=20, help="fits of halves (default 20)")
    parser.add_argument("--samples", type=int, help="a random part of so many samples")
    parser.add_argument("--sooner", action="store_true", help="also with runs that stop sooner")


def main(arguments: Namespace) -> None:
    matrix, simulated = find_matrix(arguments.data, arguments.data_folder, arguments.out)
    counts, K = um.read(matrix), arguments.k
    if arguments.samples:
        chosen = np.random.default_rng(0).choice(len(counts), arguments.samples, replace=False)
        counts = counts.take(np.sort(chosen))
    rows = []
    # where a fit ends, and so how long it takes, differs much by seed
    fits = [spent(default_fit, counts, K, arguments.threads, seed)[:2] for seed in range(FITS)]
    for setting in SETTINGS if arguments.sooner else SETTINGS[:1]:
        wall, cpu, found = spent(measured, counts, K, setting, arguments)
        table = found.table
        rows.append(
            {"tol": setting.get("tol", "default"), "s": wall, "cpu s": cpu}
            | {
                "stability": table["stability"].mean(),
                "margin": table["margin"].mean(),
                "recall": table["recall"].mean(),
            }
            | {word: int((table["verdict"] == word).sum()) for word in ("stable", "unsure", "unstable")}
        )
    wall, cpu = np.mean(fits, axis=0)
    for row in rows:
        row |= {"× one default fit": row["s"] / wall, "× by cpu": row["cpu s"] / cpu}
    remark = f"One default fit of all counts: {wall:.1f} s, {cpu:.1f} of cpu (means of {FITS} seeds)"
    name = f"Stability, {title(arguments.data, simulated)}, {len(counts):,} samples, K = {K}, {arguments.runs} runs"
    publish(rows, name, f"stability_{arguments.data}_k{K}", arguments.out, remark)
    print(table.round(2).to_string())


def spent(function: Callable[..., Any], *given: Any) -> tuple[float, float, Any]:
    """Seconds, seconds of the processor, which others who use the machine do not change, and what came of it."""
    before = time.process_time()
    wall, result = timed(function, *given)
    return wall, time.process_time() - before, result


def default_fit(counts: um.Counts, K: int, threads: int, seed: int) -> um.Fit:
    return um.TopicModel(K, random_state=seed, n_jobs=threads).fit(counts).result_


def measured(counts: um.Counts, K: int, setting: dict, arguments: Namespace) -> um.Stability:
    model = um.TopicModel(**setting)
    return um.stability(
        counts, K, arguments.runs, estimator=model, random_state=0, n_jobs=arguments.threads, verbose=True
    )
