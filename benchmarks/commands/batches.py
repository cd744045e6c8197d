"""`batches`: effects of batches on features that are made by thinning sorted blood cells, so that the truth is known.

Composition differs between batches: the cell types are split 90:10 to 50:50. The yardstick is a plain fit at the same depth
without effects. A fifth of the counts is held out. Harmony on principal components stands beside, where harmonypy is installed.
And what an iteration with effects takes, over a plain one. With `--opportunities`: exomes and genomes, whose multipliers are
known.
"""

import time
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

import unmix as um
from benchmarks.data import find_matrix
from benchmarks.table import publish

SETTINGS = ("0.1x2", "0.25x2", "0.5x2", "1.0x2", "0.5x8")  # standard deviation of log effects × number of batches


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--settings", nargs="+", default=SETTINGS, help="sd x batches, such as 0.5x2")
    parser.add_argument("--cells", type=int, default=2000, help="default 2,000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--speed", action="store_true", help="only what an iteration takes, and whole fits")
    parser.add_argument(
        "--opportunities", action="store_true", help="only tumours, half of them exomes, of catalogue signatures"
    )


def main(arguments: Namespace) -> None:
    if arguments.opportunities:
        rows = [row for seed in range(5) for row in exomes(arguments, arguments.seed + seed)]
        means = pd.DataFrame(rows).groupby(["model", "opportunities"], sort=False).mean().reset_index()
        publish(
            means.to_dict("records"), "Exomes and genomes, means of 5 draws", "batches_opportunities", arguments.out
        )
        return
    matrix, _ = find_matrix(arguments.data, arguments.data_folder, arguments.out)
    X = um.read(matrix)
    if arguments.speed:
        publish(
            [speed(X, arguments, batches) for batches in (2, 10, 100)],
            f"CPU of an iteration with effects over a plain one, {arguments.data}, K = {arguments.k}",
            f"batches_speed_{arguments.data}",
            arguments.out,
        )
        return
    types = pd.read_csv(matrix.with_name("samples.csv")).iloc[:, -1].astype(str).to_numpy()
    rng = np.random.default_rng(arguments.seed)
    rows = np.sort(rng.permutation(len(X))[: arguments.cells])
    X, types = X.take(rows), types[rows]
    X = X.take(None, X.feature_totals > 0)
    found = [row for word in arguments.settings for row in setting(X, types, *word.split("x"), rng, arguments)]
    publish(found, f"Effects of batches, {len(X):,} cells, K = {arguments.k}", "batches", arguments.out)


def setting(
    X: um.Counts, types: np.ndarray, sd: str, batches: str, rng: np.random.Generator, arguments: Namespace
) -> list[dict[str, Any]]:
    G, (n, m) = int(batches), X.shape
    codes = np.zeros(n, dtype=int)
    for t, share in zip(np.unique(types), np.linspace(0.5, 0.9, len(np.unique(types))), strict=True):
        here = np.flatnonzero(types == t)
        first = rng.random(len(here)) < share
        codes[here] = np.where(first, rng.integers(0, G // 2, len(here)), rng.integers(G // 2, G, len(here)))
    effects = np.exp(rng.normal(0, float(sd), (G, m)))
    kept = effects / effects.max(axis=0)
    x, places, owners = X.rows.data.astype(int), X.rows.indices, X.sides().left.owners
    without = X.with_values(rng.binomial(x, kept.mean(axis=0)[places]).astype(float))
    with_them = X.with_values(rng.binomial(x, kept[codes[owners], places]).astype(float))
    options = {"n_components": arguments.k, "random_state": arguments.seed, "n_jobs": arguments.threads}
    yardstick, table = None, []
    for name, counts, given in (
        ("yardstick", without, {}),
        ("plain", with_them, {}),
        ("with effects", with_them, {"batch": codes.astype(str)}),
    ):
        train, held = counts.thinned((0.8, 0.2), np.random.default_rng(1))
        before = time.process_time()
        fit = um.TopicModel(**options).fit(train, **given).result_
        took = time.process_time() - before
        yardstick = fit if yardstick is None else yardstick
        order = [j for _, j in sorted(matched(yardstick, fit).items())]
        affinity = np.sqrt(yardstick.topics * fit.topics[:, order]).sum(axis=0).mean()
        error = np.abs(yardstick.proportions - fit.proportions[:, order]).mean()
        row = {"sd": float(sd), "batches": G, "fit": name} | aucs(fit.proportions, codes, types)
        row |= {"affinity": affinity, "error": error, "held-out, a count": held_out(fit, held), "CPU s": took}
        table.append(row | ({"strength": fit.batch_prior} if given else {}))
        print(table[-1], flush=True)
    if find_spec("harmonypy") is not None:
        import harmonypy

        size = with_them.sample_totals[:, None] / np.median(with_them.sample_totals)
        logs = np.log1p(with_them.csr.toarray() / size)
        most = np.argsort(-logs.var(axis=0))[:2000]
        points = PCA(20, random_state=0).fit_transform(StandardScaler().fit_transform(logs[:, most]))
        frame = pd.DataFrame({"batch": codes.astype(str)})
        moved = np.asarray(harmonypy.run_harmony(points, frame, "batch", verbose=False).Z_corr)
        moved = moved if moved.shape[0] == n else moved.T
        table.append({"sd": float(sd), "batches": G, "fit": "Harmony on PCs"} | aucs(moved, codes, types))
        print(table[-1], flush=True)
    return table


def exomes(arguments: Namespace, seed: int, tumours: int = 200, K: int = 5) -> list[dict[str, Any]]:
    """Half of the tumours are exomes: a fiftieth of the mutations, and other frequencies of trinucleotides than the genome's."""
    rng = np.random.default_rng(seed)
    catalogue = np.load(arguments.data_folder / "signatures" / "cosmic_sbs.npz", allow_pickle=True)
    name = next(name for name in catalogue if catalogue[name].ndim == 2)
    signatures = np.asarray(catalogue[name], dtype=float)
    signatures = signatures if len(signatures) == 96 else signatures.T
    F = signatures[:, rng.permutation(signatures.shape[1])[:K]]
    F = F / F.sum(axis=0)
    P = rng.dirichlet(np.full(K, 0.5), tumours)
    kind = np.where(np.arange(tumours) % 2 == 0, "genome", "exome")
    e = np.vstack([np.ones(96), np.repeat(np.exp(rng.normal(0, 0.7, 32)), 3) / 50])
    size = np.exp(rng.normal(np.log(5000), 0.7, (tumours, 1)))
    X = um.Counts(
        rng.poisson(size * (e[(kind == "exome").astype(int)] * (P @ F.T))), metadata=pd.DataFrame({"kind": kind})
    )
    known = pd.DataFrame(e, index=["genome", "exome"]).rename_axis("kind")
    found = []
    for model in (um.TopicModel, um.GammaPoisson, um.BayesianPoissonNMF):
        for what, given in (("ignored", {}), ("estimated", {"batch": "kind"}), ("known", {"opportunities": known})):
            fit = model(K, random_state=0, n_jobs=arguments.threads).fit(X, **given).result_
            unit = [part / np.linalg.norm(part, axis=0) for part in (F, fit.topics)]
            places, order = linear_sum_assignment(unit[0].T @ unit[1], maximize=True)
            cosine = (unit[0].T @ unit[1])[places, order].mean()
            errors = np.abs(fit.proportions[:, order] - P).sum(axis=1) / 2
            shares = {f"error of {one}s": errors[kind == one].mean() for one in ("exome", "genome")}
            found.append({"model": model.__name__, "opportunities": what, "cosine": cosine} | shares)
    return found


def matched(one: um.Fit, two: um.Fit) -> dict[int, int]:
    from unmix.models.poisson import match_columns

    return match_columns(one.topics, two.topics)


def aucs(P: np.ndarray, codes: np.ndarray, types: np.ndarray) -> dict[str, float]:
    """Of the batch, from proportions by a linear model: in all cells, and within cell types."""
    inside = [
        (auc(P[here], codes[here]), here.sum())
        for t in np.unique(types)
        if np.bincount(codes[here := types == t], minlength=codes.max() + 1).min() >= 10
    ]
    values, sizes = zip(*inside, strict=True) if inside else ((np.nan,), (1,))
    return {"AUC of batch": auc(P, codes), "in-type AUC": float(np.average(values, weights=sizes))}


def auc(P: np.ndarray, codes: np.ndarray) -> float:
    model = LogisticRegression(max_iter=500)
    scores = cross_val_predict(model, StandardScaler().fit_transform(P), codes, cv=5, method="predict_proba")
    if scores.shape[1] == 2:
        return float(roc_auc_score(codes, scores[:, 1]))
    return float(roc_auc_score(codes, scores, multi_class="ovr", average="weighted"))


def held_out(fit: um.Fit, held: um.Counts) -> float:
    """Mean log probability of held-out counts; a thousandth of every prediction is the overall frequency."""
    F, e, groups = fit.F, fit.multipliers, fit.rates.get("groups")
    sizes = fit.L @ F.sum(axis=0) if e is None else (fit.L * (e @ F)[groups]).sum(axis=1)
    owners, places, x = held.sides().left.owners, held.rows.indices, held.rows.data
    rates = np.einsum("pk,pk->p", fit.L[owners], F[places])
    rates = rates if e is None else rates * e[groups[owners], places]
    common = (held.feature_totals + 0.5) / (held.feature_totals + 0.5).sum()
    p = 0.999 * rates / np.maximum(sizes[owners], 1e-300) + 0.001 * common[places]
    return float(x @ np.log(p) / x.sum())


def speed(X: um.Counts, arguments: Namespace, batches: int, times: int = 3, iterations: int = 15) -> dict[str, Any]:
    """CPU seconds, plain and with effects by turns, from the same start; the set-up is left out."""
    codes = np.random.default_rng(0).integers(0, batches, len(X)).astype(str)
    start = um.TopicModel(arguments.k, init="random", tol=0, max_iter=3, random_state=0).fit(X).result_
    start = (start.L, start.F)
    best = {}
    for _ in range(times):
        for name, given in (("plain", {}), ("with effects", {"batch": codes})):
            ends = []
            for most in (1, 1 + iterations):
                model = um.TopicModel(
                    arguments.k, init=start, prefit=0, tol=0, max_iter=most, n_jobs=arguments.threads, batch_prior=5.0
                )
                before = time.process_time()
                model.fit(X, **given)
                ends.append(time.process_time() - before)
            best[name] = min(best.get(name, np.inf), (ends[1] - ends[0]) / iterations)
    return (
        {"batches": batches}
        | {f"{name}, ms": 1e3 * value for name, value in best.items()}
        | {"ratio": best["with effects"] / best["plain"]}
    )
