"""`gibbs`: tokens a second of collapsed Gibbs sampling, beside tomotopy."""

import math
from argparse import ArgumentParser, Namespace

import numpy as np

from benchmarks.data import find_matrix, load_counts, title
from benchmarks.measure import attempt, threads_allowed, timed
from benchmarks.table import publish

TOPICS = (10, 100)
PRIOR = 0.1  # of proportions and of topics
MILLION = 1e6


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--topics", type=int, nargs="+", default=list(TOPICS), help="numbers of topics (default 10 100)"
    )
    parser.add_argument("--iterations", type=int, default=20, help="timed sweeps, after one that is not (default 20)")


def main(arguments: Namespace) -> None:
    matrix, simulated = find_matrix(arguments.data, arguments.data_folder, arguments.out)
    rows = []
    for K in arguments.topics:
        for threads in sorted({1, arguments.threads}):
            given = {"threads": threads, "matrix": str(matrix), "K": K, "iterations": arguments.iterations}
            peer = attempt("tomotopy", "benchmarks.commands.gibbs:speed_of_tomotopy", **given) or math.nan
            ours = attempt("unmix", "benchmarks.commands.gibbs:speeds_of_unmix", **given) or [math.nan] * 2
            speeds = dict(zip(("tomotopy", "unmix sampler", "unmix fit"), (peer, *ours), strict=True))
            rows.append(
                {"K": K, "threads": threads}
                | {f"{name}, 10⁶ tokens/s": speed / MILLION for name, speed in speeds.items()}
                | {"sampler ÷ tomotopy": ours[0] / peer, "fit ÷ tomotopy": ours[1] / peer}
            )
    publish(
        rows,
        f"Collapsed Gibbs sampling: {title(arguments.data, simulated)}",
        f"gibbs_{arguments.data}",
        arguments.out,
        "tomotopy: as many workers as threads on one chain. unmix: a chain a thread, their tokens added up; "
        "`fit` also copies the state and measures log p(S) after every sweep. Adding documents is timed for nobody.",
    )


def speed_of_tomotopy(matrix: str, K: int, iterations: int) -> float:
    """Tokens a second with fixed priors, as ours are."""
    import tomotopy

    X = load_counts(matrix)
    words = np.array([str(j) for j in range(X.shape[1])], dtype=object)
    model = tomotopy.LDAModel(k=K, alpha=PRIOR, eta=PRIOR, rm_top=0)
    model.optim_interval = 0
    for i in range(X.shape[0]):
        document = slice(X.indptr[i], X.indptr[i + 1])
        if X.indptr[i] < X.indptr[i + 1]:
            model.add_doc(np.repeat(words[X.indices[document]], X.data[document]).tolist())
    model.train(1, workers=threads_allowed())
    seconds, _ = timed(lambda: model.train(iterations, workers=threads_allowed()))
    return iterations * model.num_words / seconds


def speeds_of_unmix(matrix: str, K: int, iterations: int) -> tuple[float, float]:
    """Tokens a second of all chains together, one a thread: of the sampler alone, and within a fit."""
    import unmix as um
    from unmix import kernels
    from unmix.base.threads import use_threads

    X, threads, rng = um.Counts(load_counts(matrix)), threads_allowed(), np.random.default_rng(0)
    tokens = threads * int(X.total)
    labels = rng.integers(K, size=(threads, int(X.total)), dtype=np.uint16)
    held = kernels.Labels.of(X.rows, X.shape, K, labels)
    random = kernels.seeds(rng, threads)
    priors = np.full(X.shape[1], PRIOR), np.full(K, PRIOR)

    def sweep(times: int) -> None:
        with use_threads(threads):
            kernels.gibbs(X.rows, *priors, held, random, sweeps=times)

    sweep(1)
    sampler, _ = timed(sweep, iterations)
    parameters = {"alpha": PRIOR, "beta": PRIOR, "burn_in": iterations + 1, "sweeps": 1, "thin": 1}
    model = um.AllocationModel(K, method="gibbs", chains=threads, n_jobs=threads, random_state=0, **parameters).fit(X)
    burn_in = np.diff(model.result_.trace["seconds"])[1 : iterations + 1]
    return tokens * iterations / sampler, tokens / float(np.median(burn_in))
