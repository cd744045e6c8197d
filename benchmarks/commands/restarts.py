"""`restarts`: where default fits from several seeds end, with and without refinement, and what `init="auto"` buys."""

from argparse import ArgumentParser, Namespace

import numpy as np

from benchmarks.data import load_counts, make_case
from benchmarks.measure import in_fresh_process, poisson_loglik, timed
from benchmarks.table import publish

# Carbonetto et al., figures A2-A3: Topic-SCORE, 1,000 EM iterations, 1,000 of SCD.
PAPER = {("newsgroups", 10): -12_384_999.0}
SETTINGS = (
    {"init": "auto", "refine": 0},
    {"init": "auto", "refine": 4},
    {"init": "random", "refine": 0},
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)), help="default 0 1 2 3 4")


def main(arguments: Namespace) -> None:
    case = make_case(arguments.data, arguments.k, arguments.data_folder, arguments.out)
    paper = np.nan if case.simulated else PAPER.get((case.name, case.K), np.nan)
    rows, medians = [], []
    for setting in SETTINGS:
        outcomes = [
            in_fresh_process(
                "benchmarks.commands.restarts:default_fit",
                threads=arguments.threads,
                matrix=str(case.matrix),
                K=case.K,
                parameters=setting | {"random_state": seed},
            )
            for seed in arguments.seeds
        ]
        rows += [
            setting | {"seed": seed} | outcome | {"above paper": outcome["log-likelihood"] - paper}
            for seed, outcome in zip(arguments.seeds, outcomes, strict=True)
        ]
        logliks = [outcome["log-likelihood"] for outcome in outcomes]
        medians.append(
            setting
            | {
                "median log-likelihood": float(np.median(logliks)),
                "best": max(logliks),
                "worst": min(logliks),
                "median s": float(np.median([outcome["s"] for outcome in outcomes])),
                "median above paper": float(np.median(logliks)) - paper,
            }
        )
    name = f"{case.name}_k{case.K}"
    publish(rows, f"Restarts: {case.title}", f"restarts_{name}", arguments.out, paper_remark(paper))
    auto, random = medians[0]["median log-likelihood"], medians[2]["median log-likelihood"]
    remark = f'`init="auto"` over `init="random"`: {auto - random:+,.0f} units (medians, refine=0)'
    publish(medians, f"Restarts, medians: {case.title}", f"restarts_medians_{name}", arguments.out, remark)


def paper_remark(paper: float) -> str:
    return "The paper has no figure for this case." if np.isnan(paper) else f"Carbonetto et al.: {paper:,.0f}"


def default_fit(matrix: str, K: int, parameters: dict) -> dict:
    """Log-likelihood and seconds of one default fit; runs in a process of its own."""
    from benchmarks.peers.unmix_solvers import poisson_nmf

    X = load_counts(matrix)
    poisson_nmf(X[:50], 2, max_iter=5, tol=0, random_state=0)
    seconds, fit = timed(lambda: poisson_nmf(X, K, **parameters))
    return {"log-likelihood": poisson_loglik(X, fit.L, fit.F), "s": seconds, "status": fit.status}
