"""`calibration`: how often differences between topics that are none are found, and how often signs that seem sure are wrong.

Counts are drawn, so that the truth is known; every row is a number of draws with other seeds. `naive` tests with the counts that
made the topics, `held out` with the half that did not.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

import numpy as np

from benchmarks.measure import attempt
from benchmarks.table import publish

KINDS = ["next", "rest", "average", 1]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="default 0 1 2")


def main(arguments: Namespace) -> None:
    tables = {
        "nothing": "Features that no topic uses more: part of |z| beyond 1.96 (5% is right), and of lfsr < 0.05 (0 is right)",
        "real": "Real topics, found from the counts: what is sure (lfsr < 0.05), and how many of those signs are wrong",
    }
    for name, title in tables.items():
        rows = attempt(
            name, f"benchmarks.commands.calibration:{name}", threads=arguments.threads, seeds=arguments.seeds
        )
        if rows:
            publish(rows, title, f"calibration-{name}", arguments.out, f"{len(arguments.seeds)} draws each.")


def nothing(seeds: list[int]) -> list[dict]:
    """Runs in a process of its own, as does the next."""
    import unmix as um

    rows = []

    def add(case: str, how: str, found: Callable[[int], "um.Differences"], column: slice = slice(1, None)) -> None:
        all_found = [found(seed) for seed in seeds]
        beyond = [float(np.nanmean(np.abs(d.z[:, column]) > 1.96)) for d in all_found]
        sure = [float((d.lfsr[:, column] < 0.05).mean()) for d in all_found]
        low, high = min(beyond), max(beyond)
        rows.append(
            {
                "case": case,
                "how": how,
                "|z| > 1.96": np.mean(beyond),
                "least": low,
                "most": high,
                "lfsr < 0.05": np.mean(sure),
            }
        )

    def fitted(X: np.ndarray, K: int, seed: int) -> "um.Fit":
        return um.TopicModel(K, random_state=seed).fit(X).result_

    def noise(seed: int) -> np.ndarray:
        return np.random.default_rng(seed).poisson(1.0, (500, 300))

    for K in (2, 6):
        case = f"Poisson noise, 500 × 300, {K} topics found in it, against topic 1"
        add(case, "naive", lambda s, K=K: um.differences(fitted(noise(s), K, s), noise(s), 1))
        add(
            case,
            "held out",
            lambda s, K=K: um.differences(fitted(noise(s), K, s), noise(s), 1, held_out=0.5, random_state=s),
        )

    def scattered(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        return rng.poisson(2 * rng.gamma(2, 0.5, (500, 300)))

    def mixed(seed: int, K: int = 3) -> np.ndarray:
        return np.random.default_rng(100 + seed).dirichlet(np.full(K, 0.5), 500)

    case = "negative binomial of size 2, 3 topics known, against topic 1"
    for errors in ("poisson", "robust"):
        add(case, f"errors {errors}", lambda s, e=errors: um.differences(mixed(s), scattered(s), 1, e))
    case = "negative binomial of size 2, 3 topics found in it, against topic 1"
    for errors in ("poisson", "robust"):
        options = {"against": 1, "errors": errors}
        add(
            case, f"naive, {errors}", lambda s, o=options: um.differences(fitted(scattered(s), 3, s), scattered(s), **o)
        )
        options = options | {"held_out": 0.5}
        add(
            case,
            f"held out, {errors}",
            lambda s, o=options: um.differences(fitted(scattered(s), 3, s), scattered(s), **o, random_state=s),
        )

    donor = np.repeat(np.arange(20), 40)

    def of_donors(seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        X = rng.poisson(2 * rng.gamma(8, 1 / 8, (20, 300))[donor])
        own = rng.dirichlet(np.ones(2), 20)[donor]
        return 0.8 * own + 0.2 * rng.dirichlet(np.ones(2), len(donor)), X

    case = "20 donors of 40 cells, who differ by 35%, 2 topics known, against topic 1"
    ones = np.ones(len(donor))
    add(case, "errors robust", lambda s: um.differences(*of_donors(s), 1, sizes=ones))
    add(case, "groups by donor", lambda s: um.differences(*of_donors(s), 1, sizes=ones, groups=donor))

    for counts in (3, 12, 50):

        def light(seed: int, counts: int = counts) -> tuple[np.ndarray, np.ndarray]:
            rng = np.random.default_rng(seed)
            inside = np.where(rng.random(2000) < 0.01, 1.0, 0.0)
            return np.column_stack([1 - inside, inside]), rng.poisson(counts / 2000, (2000, 300))

        case = f"a topic of 1%, features of {counts} counts, against the average"
        add(case, "errors robust", lambda s, f=light: um.differences(*f(s), "average", sizes=np.ones(2000)))
    return rows


def real(seeds: list[int]) -> list[dict]:
    import unmix as um

    rows = []
    for size in (None, 5.0):
        draws = [drawn(seed, size) for seed in seeds]
        fits = [
            um.TopicModel(4, random_state=seed).fit(X).result_ for seed, (X, _, _) in zip(seeds, draws, strict=True)
        ]
        for how in ("true", "naive", "held out"):
            scores: dict[str | int, list[tuple[float, ...]]] = {kind: [] for kind in KINDS}
            for seed, (X, P, F), fit in zip(seeds, draws, fits, strict=True):
                partner = um.analysis.match_topics(as_fit(P, F), fit)
                order = list(range(4)) if how == "true" else [partner[k] for k in range(4)]
                given = {"held_out": 0.5, "random_state": seed} if how == "held out" else {}
                asked = [kind if isinstance(kind, str) else order[kind - 1] + 1 for kind in KINDS]
                found = um.differences(P if how == "true" else fit, X, asked, **given)
                for kind, d in zip(KINDS, found.values(), strict=True):
                    scores[kind].append(judged(d.lfc[:, order], d.lfsr[:, order], changes(F, P, kind)))
            for kind, judgements in scores.items():
                sure, wrong, said, power = np.mean(judgements, axis=0)
                counts = "Poisson" if size is None else f"negative binomial of size {size:g}"
                rows.append(
                    {
                        "counts": counts,
                        "proportions": how,
                        "against": str(kind),
                        "sure": int(sure),
                        "signs wrong": wrong,
                        "lfsr says": said,
                        "changes found": power,
                    }
                )
    return rows


def drawn(seed: int, size: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """600 samples of 4 topics that differ in a third of 900 features, twofold to eightfold; counts, proportions, rates."""
    rng = np.random.default_rng(seed)
    base = rng.gamma(0.7, 1, 900)
    F = np.repeat(base[:, None], 4, axis=1)
    for j in rng.choice(900, 300, replace=False):
        F[j, rng.integers(4)] *= 2 ** (rng.choice([-1, 1], p=[0.3, 0.7]) * rng.uniform(1, 3))
    F /= F.sum(axis=0)
    P = rng.dirichlet(np.full(4, 0.3), 600)
    rate = rng.uniform(500, 2000, (600, 1)) * (P @ F.T)
    return rng.poisson(rate if size is None else rate * rng.gamma(size, 1 / size, rate.shape)), P, F


def as_fit(P: np.ndarray, F: np.ndarray) -> object:
    import pandas as pd

    import unmix as um

    return um.Fit(P, F, pd.DataFrame(), "converged", 0.0)


def changes(F: np.ndarray, P: np.ndarray, kind: str | int) -> np.ndarray:
    """The true log₂ changes; exactly 0 where a feature is used alike."""
    g, out = np.log2(F), np.zeros(F.shape)
    share = P.mean(axis=0)
    for k in range(F.shape[1]):
        others = np.delete(np.arange(F.shape[1]), k)
        if kind == "next":
            out[:, k] = g[:, k] - g[:, others].max(axis=1)
        elif kind == "rest":
            out[:, k] = g[:, k] - np.log2(F[:, others] @ share[others] / share[others].sum())
        elif kind == "average":
            out[:, k] = g[:, k] - np.log2(F @ share)
        else:
            out[:, k] = g[:, k] - g[:, int(kind) - 1]
    return np.where(np.abs(out) < 0.03, 0.0, out)  # topics are normed, so that what is alike differs by next to nothing


def judged(lfc: np.ndarray, lfsr: np.ndarray, truth: np.ndarray) -> tuple[float, ...]:
    """How many are sure, how many of these have the wrong sign, what their lfsr says, and the part of changes that is found."""
    sure = lfsr < 0.05
    wrong = sure & (np.sign(lfc) != np.sign(truth))
    large = np.abs(truth) >= 1
    return (
        float(sure.sum()),
        wrong.sum() / max(sure.sum(), 1),
        float(lfsr[sure].mean()),
        (sure & large).sum() / large.sum(),
    )
