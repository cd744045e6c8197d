"""`ranking`: features kept apart from samples, ranked by rate among all that each was not seen with; beside hpfrec and poismf."""

from argparse import ArgumentParser, Namespace

import numpy as np
import scipy.sparse as sp

from benchmarks.data import load_counts
from benchmarks.measure import attempt, threads_allowed, timed
from benchmarks.table import publish

HELD_OUT, TOP = 0.2, 20  # share of the nonzeros that is kept apart; length of a ranking
PROGRAMS = {
    "unmix PoissonNMF": ("run_unmix", {"model": "PoissonNMF"}),
    "unmix BayesianPoissonNMF": ("run_unmix", {"model": "BayesianPoissonNMF"}),
    "unmix BayesianPoissonNMF, rate_shape=0.3": ("run_unmix", {"model": "BayesianPoissonNMF", "rate_shape": 0.3}),
    "… with b = d = 1, as in the paper": (
        "run_unmix",
        {"model": "BayesianPoissonNMF", "rate_shape": 0.3, "b": 1.0, "d": 1.0},
    ),
    "hpfrec": ("run_hpfrec", {}),
    "poismf": ("run_poismf", {}),
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--samples", type=int, default=4_000, help="number of samples (default 4,000)")


def main(arguments: Namespace) -> None:
    matrix = str(arguments.data_folder / arguments.data / "counts.npz")
    rows = []
    for name, (function, options) in PROGRAMS.items():
        given = {"matrix": matrix, "K": arguments.k, "samples": arguments.samples} | options
        outcome = attempt(name, f"benchmarks.commands.ranking:{function}", threads=arguments.threads, **given)
        if outcome:
            rows.append({"program": name} | outcome)
            print(rows[-1], flush=True)
    publish(
        rows,
        f"Ranking: {arguments.samples:,} samples of {arguments.data}, K = {arguments.k}",
        f"ranking_{arguments.data}_k{arguments.k}",
        arguments.out,
        "A fifth of the nonzeros is kept apart. Features that a sample was not seen with are ranked by rate; `recall` is the "
        f"part of those kept apart among the first {TOP} (of at most {TOP}), `NDCG` weighs places, both means over samples.",
    )


def split(matrix: str, samples: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """What is seen and what is kept apart, over the features that somebody is seen with."""
    rng, X = np.random.default_rng(0), sp.csr_matrix(load_counts(matrix))
    X = X[rng.permutation(X.shape[0])[:samples]].tocoo()
    apart = rng.random(X.nnz) < HELD_OUT
    seen, held = (sp.csr_matrix((X.data[w], (X.row[w], X.col[w])), shape=X.shape) for w in (~apart, apart))
    known = np.flatnonzero(np.asarray(seen.sum(axis=0)).ravel() > 0)
    return seen[:, known], held[:, known]


def measured(seconds: float, L: np.ndarray, F: np.ndarray, seen: sp.csr_matrix, held: sp.csr_matrix) -> dict:
    """Recall and NDCG, the same for every program."""
    recalls, gains, discounts = [], [], 1 / np.log2(np.arange(2, TOP + 2))
    for i in np.flatnonzero((np.diff(held.indptr) > 0) & (np.diff(seen.indptr) > 0)):
        wanted = held.indices[held.indptr[i] : held.indptr[i + 1]]
        rates = F @ L[i]
        rates[seen.indices[seen.indptr[i] : seen.indptr[i + 1]]] = -np.inf
        best = np.argpartition(-rates, TOP)[:TOP]
        hits = np.isin(best[np.argsort(-rates[best], kind="stable")], wanted)
        most = min(TOP, len(wanted))
        recalls.append(hits.sum() / most)
        gains.append((hits * discounts).sum() / discounts[:most].sum())
    return {"s": seconds, f"recall@{TOP}": float(np.mean(recalls)), f"NDCG@{TOP}": float(np.mean(gains))}


def run_unmix(matrix: str, K: int, samples: int, model: str, **options: float) -> dict:
    import unmix as um

    seen, held = split(matrix, samples)
    seconds, fitted = timed(getattr(um, model)(K, n_jobs=threads_allowed(), random_state=0, **options).fit, seen)
    return measured(seconds, fitted.result_.L, fitted.result_.F, seen, held) | {"iterations": fitted.n_iter_}


def run_hpfrec(matrix: str, K: int, samples: int) -> dict:
    from hpfrec import HPF

    seen, held = split(matrix, samples)
    model = HPF(k=K, ncores=threads_allowed(), random_seed=1, verbose=False, use_float=False, check_every=10)
    seconds, _ = timed(model.fit, seen.tocoo())
    return measured(seconds, np.asarray(model.Theta), np.asarray(model.Beta), seen, held) | {"iterations": model.niter}


def run_poismf(matrix: str, K: int, samples: int) -> dict:
    from poismf import PoisMF

    seen, held = split(matrix, samples)
    model = PoisMF(k=K, nthreads=threads_allowed(), use_float=False)
    seconds, _ = timed(model.fit, seen.tocoo())
    return measured(seconds, np.asarray(model.A), np.asarray(model.B), seen, held)
