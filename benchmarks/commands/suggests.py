"""`suggests`: what `choose_topics` suggests on real data, by model, beside where scikit-learn's perplexity is lowest."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.data import load_counts
from benchmarks.measure import timed
from benchmarks.table import publish

SETS = ("sotu", "signatures", "pbmc_facs", "newsgroups")
GRID = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
WAYS = ("topics", "topics, overdispersed", "lda", "lda, overdispersed", "scikit-learn")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS, help="data sets")
    parser.add_argument("--topics", type=int, nargs="+", default=list(GRID), help="numbers of topics to try")
    parser.add_argument(
        "--ways", nargs="+", default=list(WAYS), choices=WAYS, help="models, and how counts are held out"
    )
    parser.add_argument("--folds", type=int, default=2, help="folds (default 2)")
    parser.add_argument("--samples", type=int, help="at most so many samples, drawn at random")


def main(arguments: Namespace) -> None:
    rows, curves = [], []
    for name in arguments.sets:
        X = counts_of(name, arguments.data_folder)
        if arguments.samples and X.shape[0] > arguments.samples:
            X = X[np.sort(np.random.default_rng(0).permutation(X.shape[0])[: arguments.samples])]
        topics = [K for K in arguments.topics if min(X.shape) > K]
        for way in arguments.ways:
            seconds, (row, curve) = timed(
                lambda X=X, topics=topics, way=way: (
                    by_scikit_learn(X, topics, arguments.threads)
                    if way == "scikit-learn"
                    else by_unmix(X, topics, way, arguments.folds, arguments.threads)
                )
            )
            rows.append({"data": name, "samples": X.shape[0], "way": way} | row | {"s": seconds})
            curves += [{"data": name, "way": way, "K": K, "perplexity": p} for K, p in zip(topics, curve, strict=True)]
            print(rows[-1], [f"{K}: {p:.1f}" for K, p in zip(topics, curve, strict=True)], flush=True)
    publish(curves, "Perplexity of what was held out", "suggests_curves", arguments.out)
    publish(rows, "How many topics", "suggests", arguments.out)


def counts_of(name: str, folder: Path) -> sp.csr_matrix:
    import unmix as um

    if name == "sotu":
        return sp.csr_matrix(um.datasets.sotu().csr)
    if name == "signatures":
        with np.load(folder / name / "pcawg_breast_sbs.npz") as arrays:
            return sp.csr_matrix(arrays["X"])
    return load_counts(folder / name / "counts.npz")


def by_unmix(X: sp.csr_matrix, topics: list[int], way: str, folds: int, threads: int) -> tuple[dict, list[float]]:
    import unmix as um

    model = um.LDA(alpha="auto", eta=0.1) if way.startswith("lda") else None
    overdispersion = "estimate" if "over" in way else None
    choice = um.choose_topics(
        X, topics, model, folds=folds, overdispersion=overdispersion, random_state=0, n_jobs=threads
    )
    found = {
        "best": choice.best,
        "suggested": choice.suggested,
        "last worthwhile": choice.worthwhile,
        "φ": choice.dispersion,
        "b": choice.overdispersion,
    }
    return found, choice.table["perplexity"].tolist()


def by_scikit_learn(X: sp.csr_matrix, topics: list[int], threads: int) -> tuple[dict, list[float]]:
    """A fifth of the samples unseen; defaults but for the number of topics and batch learning."""
    from sklearn.decomposition import LatentDirichletAllocation

    order = np.random.default_rng(0).permutation(X.shape[0])
    unseen, seen = np.array_split(order, [X.shape[0] // 5])
    curve = [
        LatentDirichletAllocation(K, random_state=0, n_jobs=threads, learning_method="batch")
        .fit(X[seen])
        .perplexity(X[unseen])
        for K in topics
    ]
    return {"best": topics[int(np.argmin(curve))]}, curve
