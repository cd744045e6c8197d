"""`ends`: where default fits end, over data sets, numbers of topics and seeds, beside the best known, and how soon."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.data import load_counts
from benchmarks.measure import poisson_loglik, timed
from benchmarks.table import publish

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "results" / "records.csv"
NEAR = 50  # units of log-likelihood below the paper's best that count as reaching it


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--sets", nargs="+", default=["newsgroups", "nips", "pbmc_facs"], help="folders of the data")
    parser.add_argument("--topics", type=int, nargs="+", default=list(range(2, 13)), help="default 2 to 12")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)), help="default 0 1 2 3 4")
    parser.add_argument("--beside", type=Path, help="ends.csv of another version: the best of both counts as known")


def main(arguments: Namespace) -> None:
    import unmix as um

    rows = []
    for name in arguments.sets:
        X = load_counts(str(arguments.data_folder / name / "counts.npz"))
        um.PoissonNMF(2, max_iter=20, random_state=0, n_jobs=arguments.threads).fit(X[:100])
        for K in arguments.topics:
            for seed in arguments.seeds:
                model = um.PoissonNMF(K, random_state=seed, n_jobs=arguments.threads)
                seconds, fit = timed(lambda model=model, X=X: model.fit(X).result_)
                rows.append(
                    {
                        "data": name,
                        "K": K,
                        "seed": seed,
                        "log-likelihood": poisson_loglik(X, fit.L, fit.F),
                        "s": seconds,
                    }
                )
                print(name, K, seed, f"{rows[-1]['log-likelihood']:,.0f} {seconds:.1f} s", flush=True)
    ends = pd.DataFrame(rows)
    best = known(arguments.data_folder)
    for table in [ends] + ([pd.read_csv(arguments.beside)] if arguments.beside else []):
        best = best.combine(table.groupby(["data", "K"])["log-likelihood"].max(), np.fmax)
    paper = published(arguments.data_folder)
    cases = list(zip(ends["data"], ends["K"], strict=True))
    ends["gap"] = ends["log-likelihood"] - [best[case] for case in cases]
    ends["above paper"] = ends["log-likelihood"] - [paper.get(case, np.nan) for case in cases]
    publish(ends.to_dict("records"), "Where default fits end", "ends", arguments.out)
    publish(summary(ends), "Where default fits end, by case", "ends_by_case", arguments.out, remark(ends))


def known(folder: Path) -> pd.Series:
    """The best log-likelihood of every case: the paper's, and the records."""
    records = pd.read_csv(RECORDS).rename(columns={"dataset": "data"}).set_index(["data", "K"])["loglik"]
    return records.combine(published(folder), np.fmax)


def published(folder: Path) -> pd.Series:
    """Carbonetto et al.'s best, for even K."""
    table = pd.read_csv(folder / "paper_loglik.csv").rename(columns={"dataset": "data"})
    return table.groupby(["data", "K"])["final_loglik"].max()


def summary(ends: pd.DataFrame) -> list[dict]:
    return [
        {
            "data": name,
            "K": K,
            "median gap": case["gap"].median(),
            "worst gap": case["gap"].min(),
            "worst, %": 100 * (case["gap"] / case["log-likelihood"]).max(),
            "median above paper": case["above paper"].median(),
            "worst above paper": case["above paper"].min(),
            "median s": case["s"].median(),
        }
        for (name, K), case in ends.groupby(["data", "K"], sort=False)
    ]


def remark(ends: pd.DataFrame) -> str:
    beside, worst = ends["above paper"].dropna(), 100 * (ends["gap"] / ends["log-likelihood"]).max()
    return (
        f"{(beside >= -NEAR).sum()} of {len(beside)} fits end at the paper's best less {NEAR} units, or above it; the worst of "
        f"all {len(ends)} ends {worst:.3f}% below the best known; median {ends['s'].median():.2f} s"
    )
