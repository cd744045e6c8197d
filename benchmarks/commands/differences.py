"""`differences`: what sets topics apart, of all features: seconds, and what takes them; or calibration on drawn counts.

Each data set has its topics from a fit of a few iterations; times do not depend on how good they are. Growth is that of the
kernel: with the topics, and with the nonzeros (samples twice over).

`--calibration` draws counts whose features no topic uses more than another: 5% of |z| should be beyond 1.96, and nothing sure.
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
    parser.add_argument(
        "--calibration", type=int, metavar="DRAWS", help="calibration on so many draws, instead of times"
    )


def main(arguments: Namespace) -> None:
    if arguments.calibration:
        drawn = [calibration(seed, arguments.threads) for seed in range(arguments.calibration)]
        publish(
            [{"case": case, "how": how} | summary([draw[case, how] for draw in drawn]) for case, how in drawn[0]],
            f"What sets topics apart, where nothing does: {arguments.calibration} draws",
            "calibration",
            arguments.out,
            "Shares of all features and topics, against the next topic (a topic of 1%: against the average).",
        )
        return
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


def calibration(seed: int, cores: int) -> dict[tuple[str, str], tuple[float, float]]:
    """For every case and way to test: the shares of |z| beyond 1.96, and of lfsr below 0.05."""
    import unmix as um

    rng, found = np.random.default_rng(seed), {}

    def tested(
        case: str, how: str, fit: object, X: np.ndarray, column: int | slice = slice(None), **options: object
    ) -> None:
        found_here = um.differences(fit, um.Counts(X), n_jobs=cores, random_state=seed, **options)
        z, lfsr = found_here.z[:, column], found_here.lfsr[:, column]
        found[case, how] = float((np.abs(z) > 1.96).mean()), float((lfsr < 0.05).mean())

    for K in (2, 6):
        case, X = f"Poisson noise, {K} topics found in it", rng.poisson(1.0, (500, 300))
        fit = um.TopicModel(K, random_state=seed, n_jobs=cores).fit(X).result_
        tested(case, "naive", fit, X)
        tested(case, "held out", fit, X, held_out=0.5)
    known, size = rng.dirichlet(np.full(3, 0.3), 500), 2.0
    X = rng.poisson(rng.gamma(size, 1 / size, (500, 300)))
    case, fit = (
        "negative binomial of size 2, 3 topics",
        um.TopicModel(3, random_state=seed, n_jobs=cores).fit(X).result_,
    )
    for errors in ("poisson", "robust"):
        tested(f"{case} known", errors, known, X, errors=errors)
        tested(f"{case} found in it", f"naive, {errors}", fit, X, errors=errors)
        tested(f"{case} found in it", f"held out, {errors}", fit, X, errors=errors, held_out=0.5)
    donors = np.repeat(np.arange(20), 40)
    known = np.repeat(rng.dirichlet(np.ones(2), 20), 40, axis=0)
    X = rng.poisson(rng.gamma(4, 1 / 4, (20, 300))[donors])
    tested("20 donors of 40 cells, 2 topics known", "robust", known, X)
    tested("20 donors of 40 cells, 2 topics known", "groups", known, X, groups=donors)
    light = rng.dirichlet([0.01, 0.5, 0.49], 1_000)
    for counts in (3, 12, 50):
        X = np.column_stack([rng.multinomial(counts, np.full(1_000, 1e-3), 300).T, np.full(1_000, 1_000)])
        tested(f"a topic of 1%, features of {counts} counts", "robust", light, X, 0, against="average")
    return found


def summary(shares: list[tuple[float, float]]) -> dict[str, float]:
    beyond, sure = (np.array(column) for column in zip(*shares, strict=True))
    return {"|z| > 1.96": beyond.mean(), "least": beyond.min(), "most": beyond.max(), "lfsr < 0.05": sure.mean()}
