"""`starts`: where LDA ends when it starts from a better maximum-likelihood fit (Carbonetto et al. 2022, section 4).

Each draw of data sets A and B: 50 EM iterations; from there so many more of EM, or of SCD; and LDA from each of the three.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from benchmarks.measure import in_fresh_process
from benchmarks.table import publish

K, PREFIT = 6, 50
MORE = {"A": 100, "B": 950}
PAPER = "the paper's"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=10, help="fresh draws of each data set (default 10)")
    parser.add_argument("--iterations", type=int, default=400, help="iterations of LDA (default 400)")


def main(arguments: Namespace) -> None:
    for name in MORE:
        stored = arguments.data_folder / "smallsim" / f"{name}.npz"
        draws: list[tuple[str, dict]] = [(f"seed {seed}", {"seed": seed}) for seed in range(arguments.draws)]
        if stored.exists():
            draws.insert(0, (PAPER, {"stored": str(stored)}))
        else:
            print(f"{name}, {PAPER} draw skipped: there is no {stored}")
        rows = [
            {"draw": draw}
            | in_fresh_process(
                "benchmarks.commands.starts:bounds",
                threads=arguments.threads,
                name=name,
                iterations=arguments.iterations,
                **source,
            )
            for draw, source in draws
        ]
        gains = [row["SCD − EM 50"] for row in rows if row["draw"] != PAPER]
        publish(rows, f"ELBO of LDA by its start: data set {name}", f"starts_{name}", arguments.out, summary(gains))


def summary(gains: list[float]) -> str:
    if not gains:
        return ""
    return (
        f"SCD − EM {PREFIT} over {len(gains)} fresh draws: "
        f"min {min(gains):+,.1f}, median {np.median(gains):+,.1f}, max {max(gains):+,.1f}."
    )


def bounds(name: str, iterations: int, seed: int | None = None, stored: str | None = None) -> dict[str, float]:
    """Final ELBO from each start, for one draw; runs in a process of its own."""
    import unmix as um
    from benchmarks.peers.unmix_solvers import fixed_run

    em, scd = ({"solver": solver, "extrapolate": False} for solver in (um.solvers.EM(steps=4), "scd"))
    X, start = stored_draw(Path(stored)) if stored else fresh_draw(name, seed, em)

    def bound(factors: tuple[np.ndarray, np.ndarray]) -> float:
        model = um.LDA(K, alpha=1.0, inner=20, extrapolate=False, max_iter=iterations, tol=0, init=factors, n_jobs=1)
        return model.fit(X).elbo_

    fits = {label: fixed_run(X, start, MORE[name], **solver) for label, solver in (("EM", em), ("SCD", scd))}
    ends = {f"EM {PREFIT}": bound(start)} | {label: bound((fit.L, fit.F)) for label, fit in fits.items()}
    return ends | {f"SCD − {label}": ends["SCD"] - ends[label] for label in (f"EM {PREFIT}", "EM")}


def stored_draw(path: Path) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    with np.load(path) as arrays:
        return arrays["X"], (arrays["pre_L"], arrays["pre_F"])


def fresh_draw(name: str, seed: int, em: dict) -> tuple[object, tuple[np.ndarray, np.ndarray]]:
    import unmix as um
    from benchmarks.peers.unmix_solvers import poisson_nmf

    X = um.datasets.correlated_topics(name, seed)
    fit = poisson_nmf(X, K, init="random", random_state=seed, prefit=0, tol=0, max_iter=PREFIT, **em)
    return X, (fit.L, fit.F)
