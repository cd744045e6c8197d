"""`short`: topics of short texts, some words of each post, beside tomotopy: bound, coherence, and how well groups are found."""

import math
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.data import load_counts
from benchmarks.measure import attempt, threads_allowed, timed
from benchmarks.table import publish

ALPHA, ETA = 0.1, 0.05  # of proportions and of topics
COMMON, RARE = 0.05, 100  # words in more than this share of posts, and in fewer posts than this, are left out
SWEEPS = 700
PROGRAMS = {
    "TopicModel": ("run_topic_model", {}),
    "LDA(), as it started before": ("run_lda", {"alpha": 1.0, "before": True}),
    "LDA()": ("run_lda", {"alpha": 1.0}),
    "LDA(alpha=0.1), as it started before": ("run_lda", {"alpha": ALPHA, "before": True}),
    "LDA(alpha=0.1)": ("run_lda", {"alpha": ALPHA}),
    "AllocationModel, Gibbs": ("run_gibbs", {}),
    "tomotopy": ("run_tomotopy", {}),
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--words", type=int, default=6, help="words of a text (default 6)")
    parser.add_argument("--texts", type=int, default=10_000, help="number of texts (default 10,000)")


def main(arguments: Namespace) -> None:
    posts = arguments.data_folder / "newsgroups"
    if not (posts / "counts.npz").exists():
        raise SystemExit(f"there are no newsgroups in {arguments.data_folder}; give --data-folder")
    arguments.out.mkdir(parents=True, exist_ok=True)
    matrix, whole = arguments.out / f"short_{arguments.words}.npz", arguments.out / "short_whole.npz"
    groups = shorten(posts, matrix, whole, arguments.texts, arguments.words)
    X = load_counts(matrix)
    rows = []
    for name, (function, options) in PROGRAMS.items():
        given = {"matrix": str(matrix), "whole": str(whole), "groups": groups, "K": arguments.k} | options
        outcome = attempt(name, f"benchmarks.commands.short:{function}", threads=arguments.threads, **given)
        if outcome:
            rows.append({"program": name} | outcome)
            print(rows[-1], flush=True)
    publish(
        rows,
        f"Short texts: {X.shape[0]:,} texts of {X.sum() / X.shape[0]:.1f} words of newsgroups, K = {arguments.k}",
        f"short_{arguments.words}_k{arguments.k}",
        arguments.out,
        "`ELBO`: at the end of the fit; comparable between the rows of one prior. `NPMI`: of the ten most distinctive words, in "
        "whole posts. `NMI`: of the heaviest topic of a text and its newsgroup.",
    )


def shorten(posts: Path, matrix: Path, whole: Path, texts: int, words: int) -> list[int]:
    """Files of some words of some posts, drawn without replacement, and of all posts; the groups of the former."""
    import pandas as pd

    rng, X = np.random.default_rng(0), load_counts(posts / "counts.npz").tocsr()
    posts_with = np.diff(X.tocsc().indptr)
    X = sp.csr_matrix(X[:, (posts_with >= RARE) & (posts_with < COMMON * X.shape[0])])
    sp.save_npz(whole, X)
    posted = rng.permutation(X.shape[0])[:texts]
    drawn = []
    for post in posted:
        cells = slice(X.indptr[post], X.indptr[post + 1])
        tokens = np.repeat(X.indices[cells], X.data[cells].astype(int))
        drawn.append(rng.choice(tokens, min(words, len(tokens)), replace=False))
    rows = np.repeat(np.arange(len(posted)), [len(tokens) for tokens in drawn])
    short = sp.csr_array((np.ones(len(rows)), (rows, np.concatenate(drawn))), shape=(len(posted), X.shape[1]))
    some = np.flatnonzero(short.sum(axis=1) >= 2)
    sp.save_npz(matrix, sp.csr_matrix(short[some]))
    labels = pd.read_csv(posts / "samples.csv").iloc[:, -1]
    return pd.factorize(labels)[0][posted[some]].tolist()


def measured(whole: str, groups: list[int], seconds: float, fit, elbo: float = math.nan) -> dict:
    """One row of the table, the same for every program."""
    from sklearn.metrics import normalized_mutual_info_score

    npmi = fit.quality(load_counts(whole)).table["npmi"].mean()
    found = normalized_mutual_info_score(groups, fit.proportions.argmax(axis=1))
    return {"s": seconds, "ELBO": elbo, "NPMI": float(npmi), "NMI": float(found)}


def run_topic_model(matrix: str, whole: str, groups: list[int], K: int) -> dict:
    import unmix as um

    seconds, model = timed(um.TopicModel(K, n_jobs=threads_allowed(), random_state=0).fit, load_counts(matrix))
    return measured(whole, groups, seconds, model.result_)


def run_lda(matrix: str, whole: str, groups: list[int], K: int, alpha: float, before: bool = False) -> dict:
    import unmix as um

    X = load_counts(matrix)
    quick = um.PoissonNMF(K, init="topic-score", prefit=4, max_iter=20, tol=0, n_jobs=threads_allowed(), random_state=0)
    init = quick.fit(X).result_ if before else "auto"
    seconds, model = timed(um.LDA(K, alpha=alpha, init=init, n_jobs=threads_allowed(), random_state=0).fit, X)
    return measured(whole, groups, seconds, model.result_, model.elbo_)


def run_gibbs(matrix: str, whole: str, groups: list[int], K: int) -> dict:
    import unmix as um

    model = um.AllocationModel(K, alpha=ETA, beta=ALPHA, method="gibbs", chains=1, random_state=0)
    seconds, model = timed(model.set_params(burn_in=200, sweeps=SWEEPS - 200).fit, load_counts(matrix))
    return measured(whole, groups, seconds, model.result_)


def run_tomotopy(matrix: str, whole: str, groups: list[int], K: int) -> dict:
    import tomotopy

    import unmix as um

    X = load_counts(matrix)
    words = np.array([str(j) for j in range(X.shape[1])], dtype=object)
    model = tomotopy.LDAModel(k=K, alpha=ALPHA, eta=ETA, rm_top=0, seed=1)
    model.optim_interval = 0
    for i in range(X.shape[0]):
        cells = slice(X.indptr[i], X.indptr[i + 1])
        model.add_doc(np.repeat(words[X.indices[cells]], X.data[cells].astype(int)).tolist())
    seconds, _ = timed(lambda: model.train(SWEEPS, workers=threads_allowed()))
    topics = np.zeros((X.shape[1], K))
    places = [int(word) for word in model.used_vocabs]
    for k in range(K):
        topics[places, k] = model.get_topic_word_dist(k)
    fit = um.TopicModel.from_factors(topics).result_
    proportions = np.array([document.get_topic_dist() for document in model.docs])
    return measured(
        whole, groups, seconds, replace(fit, L=proportions * np.asarray(X.sum(axis=1)).reshape(-1, 1), F=topics)
    )
