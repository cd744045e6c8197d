"""`choose`: the fits behind `choose_topics` beside independent default fits of the same folds: how long, how good for each K."""

import time
from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from benchmarks.data import find_matrix, load_counts, title
from benchmarks.measure import poisson_loglik
from benchmarks.table import publish


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--topics", type=int, nargs="+", default=list(range(1, 17)), help="default 1 to 16")
    parser.add_argument("--folds", type=int, default=5, help="folds that the counts are dealt into (default 5)")
    parser.add_argument("--samples", type=int, help="at most so many samples, drawn at random")
    parser.add_argument("--fit", type=int, default=1, help="how many of the folds are fitted (default 1)")


def main(arguments: Namespace) -> None:
    import unmix as um
    from unmix.analysis.choose import FINE_ENOUGH, foretold
    from unmix.estimators.likelihood import fits_downwards

    matrix, simulated = find_matrix(arguments.data, arguments.data_folder, arguments.out)
    X = um.Counts(load_counts(matrix))
    if arguments.samples and len(X) > arguments.samples:
        X = X.take(np.sort(np.random.default_rng(0).permutation(len(X))[: arguments.samples]))
    um.TopicModel(2, max_iter=20, random_state=0, n_jobs=arguments.threads).fit(X.csr[:100])
    rows = []
    for place, test in enumerate(X.thinned(arguments.folds, np.random.default_rng(0))[: arguments.fit]):
        train = um.Counts(X.csr - test.csr)
        common = {"random_state": place, "n_jobs": arguments.threads}
        path = fits_downwards(train, arguments.topics, um.TopicModel(tol=FINE_ENOUGH, **common))
        for _ in arguments.topics:  # one of the path, one alone, by turns: both have the machine as it is
            together = took(lambda path=path: next(path))
            K, fit = together.pop("result")
            alone = took(lambda K=K, train=train, common=common: um.TopicModel(K, **common).fit(train).result_)
            other = alone.pop("result")
            rows.append(
                {
                    "fold": place + 1,
                    "K": K,
                    "path s": together["s"],
                    "alone s": alone["s"],
                    "path CPU s": together["CPU s"],
                    "alone CPU s": alone["CPU s"],
                    "fitted, path − alone": poisson_loglik(train.csr, fit.L, fit.F)
                    - poisson_loglik(train.csr, other.L, other.F),
                    "held out, path − alone": foretold(fit, train, test).sum() - foretold(other, train, test).sum(),
                    "held out, alone": foretold(other, train, test).sum(),
                }
            )
            print(rows[-1], flush=True)
    sums = {name: sum(row[name] for row in rows) for name in rows[0] if name.endswith(" s")}
    remark = (
        f"in all {sums['path s']:.1f} s, independent default fits {sums['alone s']:.1f} s: "
        f"{sums['path s'] / sums['alone s']:.2f} of the time, {sums['path CPU s'] / sums['alone CPU s']:.2f} of the CPU time"
    )
    name = f"choose_{arguments.data}"
    publish(rows, f"Fits to choose from: {title(arguments.data, simulated)}", name, arguments.out, remark)


def took(function: Any) -> dict:
    """Its result, and seconds, of the clock and of all threads: the latter say more on a busy machine."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return {"result": result, "s": time.perf_counter() - wall, "CPU s": time.process_time() - cpu}
