"""unmix itself: the default, and each solver with and without extrapolation. No other file calls `PoissonNMF`."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import threads_allowed


def poisson_nmf(X: Any, K: int, **parameters: Any) -> Any:
    """The `Fit` of `PoissonNMF(K, **parameters)`, on as many threads as the process may use."""
    import unmix as um

    return um.PoissonNMF(K, **{"n_jobs": threads_allowed()} | parameters).fit(X).result_


def fixed_run(X: Any, start: tuple[np.ndarray, np.ndarray], iterations: int, **parameters: Any) -> Any:
    """The `Fit` after exactly this many iterations from the start."""
    return poisson_nmf(X, start[0].shape[1], init=start, prefit=0, tol=0, max_iter=iterations, **parameters)


def seconds_per_iteration(fit: Any) -> float:
    """Median over the iterations of one run, its set-up left out."""
    return float(np.median(np.diff(fit.trace["seconds"])))


@dataclass
class Problem:
    counts: Any
    start: tuple[np.ndarray, np.ndarray]
    fit: Any = field(default=None)


@dataclass
class Unmix:
    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    requires: str = "unmix"
    note: str = "same start"

    def prepare(self, X: sp.csr_matrix, L0: np.ndarray, F0: np.ndarray) -> Problem:
        import unmix as um

        return Problem(um.Counts(X), (L0, F0))

    def run(self, problem: Problem, iterations: int) -> None:
        problem.fit = fixed_run(problem.counts, problem.start, iterations, **self.parameters)

    def factors(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        return problem.fit.L, problem.fit.F

    def trace(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        trace = problem.fit.trace
        return trace["seconds"].to_numpy(), trace["loglik"].to_numpy()


def variants(solver: str) -> tuple[Unmix, Unmix]:
    return (
        Unmix(f"unmix-{solver}", {"solver": solver, "extrapolate": True}),
        Unmix(f"unmix-{solver}-plain", {"solver": solver, "extrapolate": False}, note="same start; no extrapolation"),
    )


PEERS = (Unmix("unmix", note="same start; default solver"), *variants("scd"), *variants("newton"), *variants("em"))
