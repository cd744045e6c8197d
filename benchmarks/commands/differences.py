"""`differences`: what sets topics apart, of all features: seconds, and what takes them.

Each data set has its topics from a fit of a few iterations; times do not depend on how good they are. Growth is that of the
kernel: with the topics, and with the nonzeros (samples twice over).
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks.data import load_counts
from benchmarks.measure import attempt
from benchmarks.table import publish

TOPICS = {"pbmc_facs": 6, "newsgroups": 10, "nips": 8, "sotu": 8}
REPEATS = 3


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--sets", nargs="+", choices=list(TOPICS), default=list(TOPICS), help="data sets (default all)")


def main(arguments: Namespace) -> None:
    rows = []
    for name in arguments.sets:
        outcome = attempt(
            name,
            "benchmarks.commands.differences:times",
            threads=arguments.threads,
            data_set=name,
            folder=str(arguments.data_folder),
            topics=TOPICS[name],
            cores=arguments.threads,
        )
        if outcome:
            rows.append({"data": name, "K": TOPICS[name]} | outcome)
    publish(
        rows,
        f"What sets topics apart: seconds on {arguments.threads} threads, the least of {REPEATS}",
        "differences",
        arguments.out,
        "`seconds`: against the next topic; CPU: seconds of all threads together. `kernel`: posteriors of all features; "
        "`shrinkage`: of all changes. `K x 2`, `nonzeros x 2`: how many times as long the kernel takes.",
    )


def least(work: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    """Seconds of the fastest of a few."""
    seconds = []
    for _ in range(REPEATS):
        began = clock()
        work()
        seconds.append(clock() - began)
    return min(seconds)


def times(data_set: str, folder: str, topics: int, cores: int) -> dict:
    """Runs in a process of its own."""
    import scipy.sparse as sp

    import unmix as um
    from unmix.base.threads import use_threads
    from unmix.models.differences import Design, spread_of

    loaded = um.datasets.sotu().csr if data_set == "sotu" else load_counts(Path(folder) / data_set / "counts.npz")
    counts = um.Counts(loaded)
    fit = um.TopicModel(topics, init="random", max_iter=10, tol=0, random_state=0, n_jobs=cores).fit(counts).result_
    more = um.TopicModel(2 * topics, init="random", max_iter=3, tol=0, random_state=0, n_jobs=cores).fit(counts).result_
    twice = um.Counts(sp.vstack([counts.csr, counts.csr]).tocsr())

    def kernel(X: um.Counts, proportions: np.ndarray) -> None:
        weights = X.sample_totals[:, None] * proportions
        design = Design(weights, 1.0, spread_of(weights, None))
        design.posteriors(X.sides().right, 0, X.shape[1], X.feature_totals / weights.sum())

    found = um.differences(fit, counts, n_jobs=cores)
    with use_threads(cores):
        alone = least(lambda: kernel(counts, fit.proportions))
        wide = least(lambda: kernel(counts, more.proportions))
        tall = least(lambda: kernel(twice, np.vstack([fit.proportions, fit.proportions])))
    return {
        "features": counts.shape[1],
        "nonzeros": counts.nnz,
        "seconds": least(lambda: um.differences(fit, counts, n_jobs=cores)),
        "CPU": least(lambda: um.differences(fit, counts, n_jobs=cores), process_time),
        "kernel": alone,
        "shrinkage": least(lambda: [um.shrink(b, s) for b, s in zip(found.lfc_raw.T, found.sd.T, strict=True)]),
        "K x 2": wide / alone,
        "nonzeros x 2": tall / alone,
    }
