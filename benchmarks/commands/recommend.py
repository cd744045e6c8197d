"""`recommend`: unmix beside implicit, poismf and hpfrec: how much of what users were kept from seeing is in lists of items.

Simulated as MovieLens looks: many users with few items, some with very many, items of very different popularity, tastes in
several parts: the family of models of unmix, poismf and hpfrec, so `--real newsgroups` asks the same of the words of posts.
A fifth of the items of each user is held back. All programs make lists from their factors by the same function.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.data import SHAPES, find_matrix, load_counts
from benchmarks.table import publish

Factors = tuple[np.ndarray, np.ndarray]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--real", choices=list(SHAPES), help="documents × words of this data set instead of users × items"
    )
    parser.add_argument("--users", type=int, default=6000, help="default 6,000")
    parser.add_argument("--items", type=int, default=3700, help="default 3,700")
    parser.add_argument("--tastes", type=int, default=24, help="of the simulation (default 24)")
    parser.add_argument("-n", type=int, default=20, help="length of lists (default 20)")
    parser.add_argument("--only", nargs="+", help="parts of the names of programs")


def main(arguments: Namespace) -> None:
    import unmix as um

    rng = np.random.default_rng(0)
    if arguments.real:
        X = sp.csr_array(load_counts(find_matrix(arguments.real, arguments.data_folder, arguments.out)[0]), dtype=float)
        X = X[np.sort(rng.permutation(X.shape[0])[: arguments.users])]
    else:
        X = simulated(arguments.users, arguments.items, arguments.tastes, rng)
    held = rng.random(X.nnz) < 0.2
    known, rest = (
        sp.csr_array((X.data * part, X.indices, X.indptr), shape=X.shape, copy=True) for part in (~held, held)
    )
    for part in (known, rest):
        part.eliminate_zeros()
    rows = []
    for name, (needs, fitted) in programs(known, arguments.k, arguments.threads).items():
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        if needs and find_spec(needs) is None:
            print(f"{name}: {needs} is not installed; left out")
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        L, F = fitted()
        took = {"seconds": time.perf_counter() - wall, "CPU seconds": time.process_time() - cpu}
        lists, _ = um.analysis.top_lists(L, F, known, arguments.n)
        found = um.analysis.ranking(lists, known, rest, n=arguments.n).iloc[0]
        figures = {f"{what}@{arguments.n}": found[what] for what in ("recall", "ndcg")}
        rows.append({"program": name, **figures, "error of ndcg": found["ndcg_error"], **took})
        print(rows[-1], flush=True)
    kinds = f"posts of {arguments.real} × words" if arguments.real else "users × items"
    size = f"{X.shape[0]:,} × {X.shape[1]:,} {kinds}, {known.nnz:,} known and {rest.nnz:,} held back, K = {arguments.k}"
    publish(rows, "Recommendations", "recommend", arguments.out, size)


def simulated(users: int, items: int, tastes: int, rng: np.random.Generator) -> sp.csr_array:
    """Ratings 1 to 5 that are counts; about 4% of the cells are there, as in MovieLens 1M."""
    popularity = 1 / np.arange(10, items + 10) ** 0.8
    F = rng.gamma(0.15, 1, (items, tastes)) * rng.permutation(popularity)[:, None]
    P = rng.dirichlet(np.full(tastes, 0.12), users)
    sizes = np.exp(rng.normal(4.6, 0.9, users))
    return sp.csr_array(rng.poisson(sizes[:, None] * (P @ (F / F.sum(axis=0)).T)).clip(0, 5).astype(float))


def programs(known: sp.csr_array, K: int, threads: int) -> dict[str, tuple[str, Callable[[], Factors]]]:
    """By name: what must be installed, and what gives loadings of users and factors of items."""
    import unmix as um

    def ours(model: Any) -> Factors:
        fit = model.set_params(n_components=K, random_state=0, n_jobs=threads).fit(known).result_
        return fit.L, fit.F

    def by_implicit(kind: str, **how: Any) -> Factors:
        from implicit import als, bpr

        model = getattr({"als": als, "bpr": bpr}[kind], kind_names[kind])
        model = model(factors=K, num_threads=threads, random_state=0, **how)
        model.fit(sp.csr_matrix(known), show_progress=False)
        return np.asarray(model.user_factors), np.asarray(model.item_factors)

    def by_poismf() -> Factors:
        from poismf import PoisMF

        model = PoisMF(k=K, nthreads=threads, random_state=0).fit(sp.coo_matrix(known))
        return model.A, model.B

    def by_hpfrec() -> Factors:
        from hpfrec import HPF

        model = HPF(k=K, ncores=threads, random_seed=0, verbose=False, maxiter=100, keep_all_objs=False)
        model.fit(sp.coo_matrix(known))
        return model.Theta, model.Beta

    kind_names = {"als": "AlternatingLeastSquares", "bpr": "BayesianPersonalizedRanking"}
    popular = (np.ones((known.shape[0], 1)), known.astype(bool).sum(axis=0)[:, None].astype(float))
    return {
        "popularity": ("", lambda: popular),
        "unmix TopicModel": ("", lambda: ours(um.TopicModel())),
        "unmix LDA, alpha=auto": ("", lambda: ours(um.LDA(alpha="auto", eta=0.1))),
        "unmix GammaPoisson": ("", lambda: ours(um.GammaPoisson(shape=0.3, rate=0.3))),
        "unmix BayesianPoissonNMF": ("", lambda: ours(um.BayesianPoissonNMF(a=0.3, b=0.3, c=0.3, d=0.3))),
        "unmix BayesianPoissonNMF, rate_shape=0.3": (
            "",
            lambda: ours(um.BayesianPoissonNMF(a=0.3, b=1, c=0.3, d=1, rate_shape=0.3)),
        ),
        "implicit ALS": ("implicit", lambda: by_implicit("als")),
        "implicit BPR": ("implicit", lambda: by_implicit("bpr")),
        "poismf": ("poismf", by_poismf),
        "hpfrec": ("hpfrec", by_hpfrec),
    }
