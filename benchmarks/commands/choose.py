"""`choose`: the fits behind `choose_topics` beside independent default fits of the same folds: how long, how good for each K."""

from argparse import ArgumentParser, Namespace

import numpy as np

from benchmarks.data import find_matrix, load_counts, title
from benchmarks.measure import poisson_loglik, timed
from benchmarks.table import publish


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--topics", type=int, nargs="+", default=list(range(1, 17)), help="default 1 to 16")
    parser.add_argument("--folds", type=int, default=5, help="folds that the counts are dealt into (default 5)")
    parser.add_argument("--fit", type=int, default=1, help="how many of the folds are fitted (default 1)")


def main(arguments: Namespace) -> None:
    import unmix as um
    from unmix.analysis.choosing import foretold

    matrix, simulated = find_matrix(arguments.data, arguments.data_folder, arguments.out)
    X = um.Counts(load_counts(matrix))
    um.TopicModel(2, max_iter=20, random_state=0, n_jobs=arguments.threads).fit(X.csr[:100])
    rows = []
    for place, test in enumerate(X.thinned(arguments.folds, np.random.default_rng(0))[: arguments.fit]):
        train = um.Counts(X.csr - test.csr)
        common = {"random_state": place, "n_jobs": arguments.threads}
        whole, path = timed(lambda train=train, common=common: um.fit_path(train, arguments.topics, **common))
        print(f"fold {place + 1}: the path took {whole:.1f} s", flush=True)
        for K, fit in path.items():
            alone_seconds, alone = timed(lambda K=K, train=train, common=common: default_fit(K, train, common))
            rows.append(
                {
                    "fold": place + 1,
                    "K": K,
                    "path s": fit.trace["seconds"].iloc[-1],
                    "alone s": alone_seconds,
                    "fitted, path − alone": poisson_loglik(train.csr, fit.L, fit.F)
                    - poisson_loglik(train.csr, alone.L, alone.F),
                    "held out, path − alone": (foretold(fit, train, test) - foretold(alone, train, test)).sum(),
                    "held out, alone": foretold(alone, train, test).sum(),
                    "path in all s": whole,
                }
            )
            print(rows[-1], flush=True)
    alone = sum(row["alone s"] for row in rows)
    together = sum({row["fold"]: row["path in all s"] for row in rows}.values())
    remark = f"path {together:.1f} s, independent default fits {alone:.1f} s: {together / alone:.2f} of the time"
    publish(
        rows,
        f"Fits to choose from: {title(arguments.data, simulated)}",
        f"choose_{arguments.data}",
        arguments.out,
        remark,
    )


def default_fit(K: int, train, common: dict):
    import unmix as um

    return um.TopicModel(K, **common).fit(train).result_
