"""`sure`: how long freedom and intervals take, and how much of the truth intervals hold."""

from argparse import ArgumentParser, Namespace

import numpy as np

from benchmarks.measure import timed
from benchmarks.table import publish

SIZES = ((21, 96, 4), (200, 96, 6), (200, 1000, 6))  # samples, features, topics


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=8, help="draws of each kind of data (default 8)")


def main(arguments: Namespace) -> None:
    publish(
        [freedom_of_sotu(), *(freedom_row(*size) for size in SIZES)],
        "Freedom: seconds",
        "sure_freedom",
        arguments.out,
        "Factors without pure samples and zeros, for which much is left open; the speeches have both, and nothing is. "
        "`first look`: whether anything moves at all.",
    )
    publish(
        coverage(arguments.seeds, arguments.threads),
        "The share of the truth in 90% intervals",
        "sure_intervals",
        arguments.out,
        "Data drawn from the model as in `python -m reproduce bayes`, 60 × 80, K = 4. VI: those of `LDA` with the true priors. "
        "`given`: `intervals` of that fit; `learned`: `intervals` of a maximum-likelihood fit, which knows no priors.",
    )


def freedom_of_sotu() -> dict[str, object]:
    import unmix as um

    return row_of("State of the Union", um.TopicModel(8, random_state=0).fit(um.datasets.sotu()).result_)


def freedom_row(n: int, m: int, K: int) -> dict[str, object]:
    import pandas as pd

    import unmix as um

    rng = np.random.default_rng(0)
    L, F = rng.dirichlet(np.ones(K), n) + 0.1 / K, rng.dirichlet(np.full(m, 0.5), K).T + 0.1 / m
    return row_of("open", um.Fit(L=L, F=F, trace=pd.DataFrame(), status="converged", loglik=0.0))


def row_of(name: str, fit: object) -> dict[str, object]:
    import unmix as um
    from unmix.analysis.freedom import glimpse

    look, _ = timed(lambda: glimpse(fit))
    seconds, found = timed(lambda: um.freedom(fit, probes=16))
    n, K = found.low.shape
    return {
        "data": name,
        "samples": n,
        "features": len(found.topics_low),
        "K": K,
        "first look s": look,
        "ranges s": seconds,
        "ends": len(found.transformations),
        "mean width": float(found.width.mean()),
    }


def coverage(seeds: int, threads: int) -> list[dict[str, object]]:
    from reproduce.bayes import DEPTHS, SHAPES

    rows = []
    for kind, shape in SHAPES.items():
        for depth in DEPTHS:
            draws = [shares_held(shape, depth, seed, threads) for seed in range(seeds)]
            rows.append(
                {"topics": kind, "counts a sample": depth}
                | {name: float(np.mean([draw[name] for draw in draws])) for name in draws[0]}
            )
    return rows


def shares_held(shape: float, depth: int, seed: int, threads: int) -> dict[str, float]:
    """Of true proportions and topics, in intervals of each kind, for one draw."""
    from reproduce.bayes import draw, matching

    import unmix as um

    data = draw(shape, depth, seed)
    K, common = data.L.shape[1], {"random_state": 0, "n_jobs": threads}
    truth = um.poisson_to_topics(data.L, data.F)[:2]
    ml = um.PoissonNMF(K, **common).fit(data.X).result_
    lda = um.LDA(K, alpha=shape, eta=shape, init=ml, **common).fit(data.X)
    kinds = {"VI": (lda.credible_intervals("loadings"), lda.credible_intervals("factors"), lda.result_.F)}
    for name, fit in (("given", lda.result_), ("learned", ml)):
        found = um.intervals(fit, data.X, **common)
        kinds[name] = (found.low, found.high), (found.topics_low, found.topics_high), found.topics_mean
    shares = {}
    for name, (proportions, topics, F) in kinds.items():
        order = matching(data, F)
        for of, (low, high), true in zip(("proportions", "topics"), (proportions, topics), truth, strict=True):
            shares[f"{of}, {name}"] = float(((low[:, order] <= true) & (true <= high[:, order])).mean())
    return shares
