"""`stops`: where the default rule ends a fit, and where the same fit would end if it went on for 2,000 iterations.

Each fit runs once, with `tol=0`; where either rule would have stopped is read from its losses. The rule before was a gain of less
than 1e-8 (Bayesian models 1e-6) per count and iteration, three times running, or twelve iterations without a conclusive one.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from benchmarks.data import load_counts
from benchmarks.measure import attempt
from benchmarks.table import publish

TOPICS = {"newsgroups": 10, "nips": 8, "pbmc_facs": 8, "sotu": 8, "tumours": 4}
# estimator, its parameters, and the tolerance of the rule before
MODELS = {
    "TopicModel": ("TopicModel", {}, 1e-8),
    'TopicModel, "scd"': ("TopicModel", {"solver": "scd"}, 1e-8),
    'TopicModel, "em", plain': ("TopicModel", {"solver": "em", "extrapolate": False}, 1e-8),
    "LDA": ("LDA", {}, 1e-6),
    "LDA, alpha = eta = 0.1": ("LDA", {"alpha": 0.1, "eta": 0.1}, 1e-6),
    "GammaPoisson": ("GammaPoisson", {}, 1e-6),
    "BayesianPoissonNMF": ("BayesianPoissonNMF", {}, 1e-6),
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--sets", nargs="+", choices=list(TOPICS), default=list(TOPICS), help="data sets (default all)")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS), help="default all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="default 0 1 2")
    parser.add_argument("--iterations", type=int, default=2000, help="of the fit that goes on (default 2000)")


def main(arguments: Namespace) -> None:
    rows = []
    for name in arguments.sets:
        for model in arguments.models:
            for seed in arguments.seeds:
                outcome = attempt(
                    f"{name}, {model}",
                    "benchmarks.commands.stops:both_ends",
                    threads=arguments.threads,
                    data_set=name,
                    folder=str(arguments.data_folder),
                    model=model,
                    seed=seed,
                    iterations=arguments.iterations,
                )
                if outcome:
                    rows.append({"data": name, "model": model, "seed": seed} | outcome)
    publish(
        rows,
        f"Where fits stop, and what is left, in units per million counts ({arguments.iterations:,} iterations in all)",
        "stops",
        arguments.out,
        "`left`: the objective after all iterations minus that where the rule stops. `estimate`: `remaining_gain` there. "
        "`at the end`: the estimate after all iterations; where it is not small, even those were too few.",
    )


def both_ends(data_set: str, folder: str, model: str, seed: int, iterations: int) -> dict:
    """Runs in a process of its own."""
    import unmix as um
    from unmix.solvers.run import Counters

    counts = um.Counts(load(data_set, Path(folder)))
    estimator, parameters, old_tol = MODELS[model]
    gains: list[tuple[float, bool]] = []
    left: list[float] = []
    losses: list[float] = []

    def listen(progress: object) -> None:
        if progress.row["stage"] == "fit":
            gains.append((progress.gain, progress.state.conclusive))
            known: Counters = progress.session.counters
            left.append(known.remaining_gain)
            losses[:] = known.losses

    fit = getattr(um, estimator)(
        TOPICS[data_set], random_state=seed, max_iter=iterations, tol=0, callbacks=[listen], **parameters
    )
    fit.fit(counts)
    old = stop_before(gains, old_tol * counts.total)
    new = next((i + 1 for i, value in enumerate(left) if value <= 1e-6 * counts.total), len(left))
    million = counts.total / 1e6
    return {
        "stopped before": old,
        "stops now": new,
        "now ÷ before": new / old,
        "left before": (losses[old] - losses[-1]) / million,
        "left now": (losses[new] - losses[-1]) / million,
        "estimate": left[new - 1] / million,
        "at the end": left[-1] / million,
    }


def stop_before(gains: list[tuple[float, bool]], little: float) -> int:
    small = idle = 0
    for i, (gain, conclusive) in enumerate(gains):
        idle = 0 if conclusive else idle + 1
        small = small if not conclusive else small + 1 if gain < little else 0
        if small >= 3 or idle >= 12:
            return i + 1
    return len(gains)


def load(name: str, folder: Path) -> object:
    """`tumours`: 21 of the 192 tumours of PCAWG's breast cancers, every ninth, with 191,526 mutations."""
    if name != "tumours":
        return load_counts(folder / name / "counts.npz")
    with np.load(folder / "signatures" / "pcawg_breast_sbs.npz") as arrays:
        X = arrays["X"]
    offset = min(range(9), key=lambda first: abs(X[first::9][:21].sum() - 184_000))
    return X[offset::9][:21]
