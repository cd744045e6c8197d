"""`prevalence`: what covariates are worth to short samples, and how their proportions are best found: nats per word of new posts.

Topics come from posts of 20 newsgroups. Of new posts a few words are seen, from which proportions are found: by variational
inference, by collapsed inference (CVB0), and by Gibbs sampling, the exact answer. The newsgroup is known, or it is not.
"""

import time
from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks.data import load_counts
from benchmarks.table import publish

SEEN, LEAST = (0, 5, 20, 100), 150  # words that are seen; words of a new post
BURN_IN, KEPT = 50, 100  # sweeps


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--train", type=int, default=3000, help="posts to learn from (default 3,000)")
    parser.add_argument("--new", type=int, default=400, help="new posts (default 400)")


def main(arguments: Namespace) -> None:
    import unmix as um

    folder = arguments.data_folder / "newsgroups"
    X, table = load_counts(folder / "counts.npz"), pd.read_csv(folder / "samples.csv")[["group"]]
    order = np.random.default_rng(0).permutation(X.shape[0])
    known, totals = order[: arguments.train], np.asarray(X.sum(axis=1)).ravel()
    new = [i for i in order[arguments.train :] if totals[i] >= LEAST][: arguments.new]
    train = um.Counts(X[known], metadata=table.iloc[known].reset_index(drop=True))
    how = {"eta": 0.05, "random_state": 0, "n_jobs": arguments.threads}
    models = {
        "GammaPoisson(shape=0.3)": um.GammaPoisson(arguments.k, shape=0.3, **how),
        "LDA(alpha='auto')": um.LDA(arguments.k, alpha="auto", max_iter=200, **how),
        "GammaPoisson(prevalence='~ group')": um.GammaPoisson(arguments.k, prevalence="~ group", **how),
    }
    took = {}
    for name, model in models.items():
        before = time.process_time()
        model.fit(train)
        took[name] = (time.process_time() - before) / model.n_iter_
    rows = []
    for seen in SEEN:
        given, rest = parted(X, new, seen)
        counts = um.Counts(given, metadata=table.iloc[new].reset_index(drop=True))
        for name, model in models.items():
            row = {"words seen": seen, "model": name}
            for label, collapsed in (("variational", False), ("collapsed", True)):
                P = model.set_params(collapsed=collapsed).transform(counts)
                row[label] = predicted(P, model.result_.topics, rest)
            if 0 < seen <= 20:
                row["Gibbs"] = predicted(sampled(model, counts), model.result_.topics, rest)
            rows.append(row)
            print(row, flush=True)
    publish(
        rows,
        f"Words of new posts: {arguments.train:,} posts to learn from, K = {arguments.k}",
        "prevalence",
        arguments.out,
        "nats per word that is not seen; Gibbs: given the topics and the prior, 100 sweeps",
    )
    publish(
        [{"model": name, "CPU s an iteration": value} for name, value in took.items()]
        + [speeches(arguments.threads, prevalence) for prevalence in (None, "~ party + s(year)")],
        "Seconds",
        "prevalence-seconds",
        arguments.out,
    )


def parted(X: sp.csr_matrix, rows: list[int], seen: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    rng, given, rest = np.random.default_rng(1), [], []
    for i in rows:
        own = slice(X.indptr[i], X.indptr[i + 1])
        words = rng.permutation(np.repeat(X.indices[own], X.data[own].astype(int)))
        given.append(np.bincount(words[:seen], minlength=X.shape[1]))
        rest.append(np.bincount(words[seen:], minlength=X.shape[1]))
    return sp.csr_matrix(np.array(given, float)), sp.csr_matrix(np.array(rest, float))


def predicted(P: np.ndarray, F: np.ndarray, rest: sp.csr_matrix) -> float:
    P, rest = P / P.sum(axis=1, keepdims=True), rest.tocoo()
    rates = np.concatenate(
        [
            (P[rest.row[at]] * F[rest.col[at]]).sum(axis=1)
            for at in np.array_split(np.arange(rest.nnz), 1 + rest.nnz // 100_000)
        ]
    )
    possible = rates > 0
    return float(rest.data[possible] @ np.log(rates[possible]) / rest.data[possible].sum())


def sampled(model: Any, counts: Any) -> np.ndarray:
    """Posterior means of proportions given topics and prior: labels of words, one after the other."""
    rng, F = np.random.default_rng(2), model.result_.topics
    task, left, _ = model._infer(counts)
    shape = task.model.left.shape_and_rates(np.ones(F.shape[1]))[0]
    rates = np.broadcast_to(task.model.left.rates_of(left), left.parameters.shape)
    X, found = task.X.csr, np.empty(left.parameters.shape)
    for i in range(X.shape[0]):
        own = slice(X.indptr[i], X.indptr[i + 1])
        f = F[np.repeat(X.indices[own], X.data[own].astype(int))] / rates[i]
        labels = rng.integers(0, len(shape), len(f))
        counted, kept = np.bincount(labels, minlength=len(shape)).astype(float), np.zeros(len(shape))
        for sweep in range(BURN_IN + KEPT):
            for t, u in enumerate(rng.random(len(f))):
                counted[labels[t]] -= 1
                ends = (f[t] * (shape + counted)).cumsum()
                labels[t] = ends.searchsorted(u * ends[-1])
                counted[labels[t]] += 1
            kept += counted * (sweep >= BURN_IN)
        found[i] = (shape + kept / KEPT) / rates[i]
    return found


def speeches(threads: int | None, prevalence: str | None) -> dict[str, Any]:
    """CPU seconds of an iteration, without and with covariates: the least of five, from one start."""
    import unmix as um

    X, times = um.datasets.sotu(), []
    X = X.take(X.metadata["party"].isin(["d", "r"]).to_numpy())
    start = um.PoissonNMF(10, max_iter=5, tol=0, random_state=0).fit(X).result_
    for _ in range(5):
        before = time.process_time()
        um.GammaPoisson(10, prevalence=prevalence, init=start, max_iter=40, tol=0, n_jobs=threads).fit(X)
        times.append((time.process_time() - before) / 40)
    return {"model": f"State of the Union, prevalence={prevalence!r}", "CPU s an iteration": min(times)}
