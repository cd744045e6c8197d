"""`lda`: how long scikit-learn's batch LDA takes, and how soon unmix reaches the same evidence lower bound."""

import math
from argparse import ArgumentParser, Namespace

import scipy.sparse as sp

from benchmarks.data import find_matrix, load_counts, title
from benchmarks.measure import attempt, timed
from benchmarks.table import publish

YARDSTICK = "scikit-learn"
PROGRAMS = {
    YARDSTICK: ("run_sklearn", {}),
    "unmix": ("run_unmix", {}),
    "unmix, extrapolate=False": ("run_unmix", {"extrapolate": False}),
    'unmix, init="random"': ("run_unmix", {"init": "random"}),
    "gensim": ("run_gensim", {}),
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--passes", type=int, default=10, help="iterations of scikit-learn and gensim (default 10)")


def main(arguments: Namespace) -> None:
    matrix, simulated = find_matrix(arguments.data, arguments.data_folder, arguments.out)
    outcomes = {}
    for name, (function, parameters) in PROGRAMS.items():
        outcome = attempt(
            name,
            f"benchmarks.commands.lda:{function}",
            threads=arguments.threads,
            matrix=str(matrix),
            K=arguments.k,
            passes=arguments.passes,
            **parameters,
        )
        if outcome:
            outcomes[name] = outcome
            print(f"{name}: {outcome['s']:.1f} s, ELBO {outcome['ELBO']:,.0f}", flush=True)
    target = outcomes[YARDSTICK]["ELBO"] if YARDSTICK in outcomes else math.inf
    publish(
        [row(name, outcome, outcomes.get(YARDSTICK), target) for name, outcome in outcomes.items()],
        f"LDA: {title(arguments.data, simulated)}, K = {arguments.k}, alpha = eta = 1/K, {arguments.threads} threads",
        f"lda_{arguments.data}_k{arguments.k}",
        arguments.out,
        "`ELBO`: of the program's topics, with the proportions inferred afresh, to convergence, by the same function for all. "
        "`at the end of the fit`: with the proportions that the fit itself ended with, another optimum for some samples; "
        "the times are read from unmix's trace of this. Computed in plain NumPy; unmix's own values are checked against it. "
        f"scikit-learn: {arguments.passes} iterations of `fit`, its last E-step included.",
    )


def row(name: str, outcome: dict, yardstick: dict | None, target: float) -> dict:
    """A program without a trace is seen once, at its end."""
    curve = outcome.get("curve", [[outcome["s"], outcome["ELBO"]]])
    reached = next((seconds for seconds, bound in curve if bound >= target), math.nan)
    return {
        "program": name,
        "s": outcome["s"],
        "iterations": outcome["iterations"],
        "ELBO": outcome["ELBO"],
        "at the end of the fit": curve[-1][1] if "curve" in outcome else math.nan,
        f"s to {YARDSTICK}'s ELBO": reached,
        f"{YARDSTICK} ÷ it": yardstick["s"] / reached if yardstick else math.nan,
        "note": f"UNMIX'S OWN ELBO OFF by {outcome['off']:,.1f}" if abs(outcome["off"]) > 1.0 else "",
    }


def run_sklearn(matrix: str, K: int, passes: int) -> dict:
    """A small fit comes first, and starts the worker processes."""
    from benchmarks.peers.lda import judged, sklearn_lda

    X = load_counts(matrix)
    sklearn_lda(K, max_iter=1).fit(X[:50])
    seconds, model = timed(sklearn_lda(K, max_iter=passes, learning_method="batch").fit, X)
    return {"s": seconds, "iterations": model.n_iter_} | judged(X, model.components_.T)


def run_unmix(matrix: str, K: int, passes: int, **parameters: object) -> dict:
    """As many iterations as it wants. Reading the matrix into `Counts` counts."""
    import unmix as um
    from benchmarks.peers.lda import judged, judgement, unmix_lda

    X = load_counts(matrix)
    unmix_lda(X[:50], 2, max_iter=5, tol=0)
    set_up, counts = timed(um.Counts, X)
    seconds, model = timed(lambda: unmix_lda(counts, K, **parameters))
    trace = model.result_.trace
    curve = [[set_up + s, bound] for s, bound in zip(trace["seconds"], trace["objective"], strict=True)]
    outcome = {"s": set_up + seconds, "iterations": model.n_iter_, "curve": curve}
    as_it_ended, afresh = judgement(X, model), judged(X, model.result_.posterior["F"])
    return outcome | afresh | {"off": max(as_it_ended["off"], afresh["off"], key=abs)}


def run_gensim(matrix: str, K: int, passes: int) -> dict:
    from gensim.matutils import Sparse2Corpus

    from benchmarks.peers.lda import gensim_lda, judged

    X = load_counts(matrix)
    documents = Sparse2Corpus(sp.csc_matrix(X.T))
    seconds, model = timed(gensim_lda, documents, X.shape[1], K, passes)
    return {"s": seconds, "iterations": passes} | judged(X, model.state.get_lambda().T)
