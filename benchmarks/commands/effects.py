"""`effects`: what intervals of `um.effects` cover, how often its tests reject where nothing differs, and seconds of a large one.

Samples are drawn from five topics with two effects of a covariate (+0.125 and −0.075 of proportions), and fitted as a user would.
Then donors differ and a condition is the donor's; and presidents of the State of the Union addresses exchange parties.
"""

import time
from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from benchmarks.data import find_matrix, load_counts
from benchmarks.table import publish

K, FEATURES = 5, 300
CASES = {  # samples, their counts, how much of every topic is common to all
    "600 × 20 counts": (600, 20, 0.0),
    "300 × 100 counts": (300, 100, 0.0),
    "200 × 500 counts": (200, 500, 0.0),
    "300 × 100 counts, topics half alike": (300, 100, 0.5),
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=40, help="of each case (default 40)")
    parser.add_argument("--permutations", type=int, default=200, help="of parties (default 200)")


def main(arguments: Namespace) -> None:
    publish(
        [covered(name, *case, arguments.draws) for name, case in CASES.items()],
        "Effects of a covariate",
        "effects-covered",
        arguments.out,
        f"{arguments.draws} draws of each, 90% intervals, tests at 5%; covariates of the null are permuted",
    )
    publish(
        [lengths(arguments.draws)],
        "Lengths that go with the covariate, which has no effect",
        "effects-lengths",
        arguments.out,
        f"{arguments.draws} draws of 300 samples of 15 or 150 counts, topics half alike; share of p < 5% (worst topic, all)",
    )
    publish(
        [donors(n, equal, arguments.draws) for n in (6, 10, 20) for equal in (True, False)],
        "Donors that differ, and a condition without effect",
        "effects-donors",
        arguments.out,
        f"{arguments.draws} draws of {K} topics each, some 30 cells per donor, tests at 5%",
    )
    publish(
        [parties(arguments.permutations)],
        "State of the Union: parties exchanged among presidents",
        "effects-parties",
        arguments.out,
        f"{arguments.permutations} permutations, 8 topics as fitted once, share of p < 5%",
    )
    publish([seconds(arguments)], "Seconds", "effects-seconds", arguments.out, "five covariates, K = 10, one thread")


def drawn(
    P: np.ndarray, sizes: np.ndarray, rng: np.random.Generator, common: float = 0
) -> tuple[np.ndarray, np.ndarray]:
    F = rng.dirichlet(np.full(FEATURES, 0.1), K).T
    if common:
        F = (1 - common) * F + common * rng.dirichlet(np.full(FEATURES, 0.1))[:, None]
    return np.array([rng.multinomial(t, F @ p) for t, p in zip(sizes, P, strict=True)]), F


def matched(X: np.ndarray, F: np.ndarray) -> tuple[Any, np.ndarray]:
    """A fit, and which of its topics is which of the true ones."""
    from scipy.optimize import linear_sum_assignment

    import unmix as um

    fit = um.TopicModel(K, random_state=0, n_jobs=1).fit(X).result_
    likeness = np.sqrt(fit.topics).T @ np.sqrt(F)
    return fit, linear_sum_assignment(-likeness)[1]


def covered(name: str, n: int, t: int, common: float, draws: int) -> dict[str, Any]:
    import unmix as um

    truth = np.array([0.125, -0.075, -0.05, 0, 0])
    estimates, hits, rejected = [], [], []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        w = rng.integers(0, 2, n)
        mean = 0.2 + np.outer(w - 0.5, truth)
        P = np.array([rng.dirichlet(1.5 * row) for row in mean])
        X, F = drawn(P, np.full(n, t), rng, common)
        fit, true = matched(X, F)
        found = um.effects(fit, X, w.astype(float)).table.query("term == 'x1'")
        goal = truth[true]
        estimates.append((found["estimate"].to_numpy(), goal))
        hits.append(((found["low"] <= goal) & (goal <= found["high"])).to_numpy()[np.abs(goal) > 0.06])
        null = um.effects(fit, X, rng.permutation(w).astype(float)).table.query("term == 'x1'")
        rejected.append((null["p"] < 0.05).mean())
    found, goal = (np.concatenate(part) for part in zip(*estimates, strict=True))
    return {
        "case": name,
        "slope on the truth": found @ goal / (goal @ goal),
        "covered": np.concatenate(hits).mean(),
        "null": np.mean(rejected),
    }


def lengths(draws: int) -> dict[str, Any]:
    """Tests of a covariate that only lengths go with, by one-step proportions and by regression on those of the fit."""
    import unmix as um

    rejected: dict[str, list[Any]] = {"one-step": [], "proportions of the fit": []}
    for seed in range(draws):
        rng = np.random.default_rng(5000 + seed)
        w = rng.integers(0, 2, 300)
        X, _ = drawn(rng.dirichlet(np.full(K, 0.3), 300), np.where(w, 150, 15), rng, 0.5)
        fit = um.TopicModel(K, random_state=0, n_jobs=1).fit(X).result_
        rejected["one-step"].append(um.effects(fit, X, w.astype(float)).tests["p"] < 0.05)
        one, two = fit.proportions[w == 0], fit.proportions[w == 1]
        z = (one.mean(axis=0) - two.mean(axis=0)) / np.sqrt(one.var(axis=0) / len(one) + two.var(axis=0) / len(two))
        rejected["proportions of the fit"].append(np.abs(z) > 1.96)
    found = {}
    for name, each in rejected.items():
        shares = np.mean(each, axis=0)
        found |= {f"{name}, worst": shares.max(), name: shares.mean()}
    return found


def donors(n: int, equal: bool, draws: int) -> dict[str, Any]:
    import unmix as um

    shares: dict[str, list[float]] = {"cells independent": [], "by donor": []}
    for seed in range(draws):
        rng = np.random.default_rng(1000 + seed)
        cells = np.full(n, 30) if equal else rng.integers(5, 56, n)
        donor = np.repeat(np.arange(n), cells)
        logs = rng.normal(0, 0.5, (n, K))[donor] + rng.normal(0, 0.7, (len(donor), K))
        P = np.exp(logs)
        X, F = drawn(P / P.sum(axis=1, keepdims=True), np.full(len(donor), 200), rng)
        condition = rng.permutation(np.arange(n) % 2)[donor].astype(float)
        for name, groups in (("cells independent", None), ("by donor", donor)):
            p = um.effects(F, X, condition, groups).tests["p"]
            shares[name].append(float((p < 0.05).mean()))
    kind = "equal" if equal else "5 to 55 cells"
    return {"donors": n, "sizes": kind} | {name: np.mean(values) for name, values in shares.items()}


def parties(permutations: int) -> dict[str, Any]:
    import unmix as um

    X = um.datasets.sotu()
    X = X.take(X.metadata["party"].isin(["d", "r"]))
    table = X.metadata
    fit = um.TopicModel(8, random_state=0, n_jobs=1).fit(X).result_
    rows: dict[str, Any] = {}
    owners = table.groupby("president")["party"].first()
    for name, groups in (("speeches independent", None), ("by president", "president")):
        tests = um.effects(fit, X, "~ party + s(year)", groups).tests
        rows[f"topics that differ, {name}"] = int((tests.query("term == 'party'")["p"] < 0.05).sum())
        rejected = []
        for seed in range(permutations):
            other = dict(zip(owners.index, np.random.default_rng(seed).permutation(owners), strict=True))
            permuted = table.assign(party=table["president"].map(other))
            tests = um.effects(fit, X, "~ party + s(year)", groups, metadata=permuted).tests
            rejected.append((tests.query("term == 'party'")["p"] < 0.05).mean())
        rows[f"permuted, {name}"] = np.mean(rejected)
    return rows


def seconds(arguments: Namespace) -> dict[str, Any]:
    import unmix as um

    X = um.Counts(load_counts(find_matrix("newsgroups", arguments.data_folder, arguments.out)[0]))
    topics = um.TopicModel(10, random_state=0, max_iter=5, tol=0).fit(X).result_.topics
    rng = np.random.default_rng(0)
    columns, groups = rng.normal(size=(len(X), 5)), rng.integers(0, 500, len(X))
    um.effects(topics, X, columns[:, :1])
    took = {}
    for name, given in (("without groups", None), ("500 groups", groups)):
        for scale in ("proportion", "log"):
            before = time.process_time()
            try:
                um.effects(topics, X, columns, given, scale)
            except ValueError as error:
                print(error)
            took[f"{scale}, {name}"] = time.process_time() - before
    return took
