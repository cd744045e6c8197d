"""What the tests share: small random counts, random starts, every type of array `Counts` takes, the shared data."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, settings
from scipy.special import xlogy

from unmix.counts.counts import Counts
from unmix.solvers import Problem

ROOT = Path(__file__).resolve().parent.parent

# Away from a checkout, where wheels are tried, there are no pages to read and no papers to reproduce.
if not (ROOT / "docs").is_dir():
    collect_ignore_glob = [f"project/test_{name}.py" for name in ("docs", "readme", "release", "reproduce_*")]

# In the background of a shell SIGINT is ignored, and so it would be by all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two ways to run the tests that are given examples: "fixed", few and the same every time, for `make test`, and "search",
# FUZZ_EXAMPLES random ones a test, for `make fuzz` (--hypothesis-profile=search), which keeps what failed in .hypothesis
# and prints how to see it again.
ANY_SIZE = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking would take minutes
    suppress_health_check=ANY_SIZE,
)
settings.register_profile(
    "search",
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "200")),
    derandomize=False,
    deadline=None,
    print_blob=True,
    suppress_health_check=ANY_SIZE,
)
settings.load_profile("fixed")


def examples(fixed: int) -> settings:
    """So many examples, the same every time; where the profile searches, as many as it says."""
    return settings(max_examples=fixed) if settings.default.derandomize else settings()


def random_counts(n: int = 12, m: int = 15, K: int = 3, seed: int = 0, mean: float = 4.0) -> np.ndarray:
    """Poisson counts from a random model of K topics; no row or column is empty."""
    rng = np.random.default_rng(seed)
    rate = (rng.gamma(0.5, 1, (n, K)) + 0.05) @ (rng.gamma(0.4, 1, (m, K)) + 0.02).T
    X = rng.poisson(rate / rate.mean() * mean).astype(float)
    X[X.sum(axis=1) == 0, 0] = 1
    X[0, X.sum(axis=0) == 0] = 1
    return X


def awkward_counts(n: int = 14, m: int = 17, seed: int = 3) -> np.ndarray:
    """Besides ordinary rows: two without counts, three with one nonzero, one with a huge count, an empty column."""
    X = random_counts(n, m, seed=seed)
    X[[2, 7]] = 0
    X[[4, 5, 9]] = 0
    X[4, 3], X[5, 3], X[9, 11] = 1, 250, 0.5
    X[10, 6] = 1e7
    X[:, 13] = 0
    return X


def random_start(n: int, m: int, K: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 1, (n, K)), rng.uniform(0.1, 1, (m, K))


def wild_start(n: int, m: int, K: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Entries over sixteen orders of magnitude, some of them zero in L."""
    rng = np.random.default_rng(seed)
    L, F = (10.0 ** rng.uniform(-8, 8, (size, K)) for size in (n, m))
    L[rng.random(L.shape) < 0.2] = 0
    L[:, 0] += 1e-3
    return L, F


def dense_loss(X: np.ndarray, L: np.ndarray, F: np.ndarray) -> float:
    """Σ λ − Σ x log λ, from the dense matrix of rates."""
    rate = np.asarray(L, dtype=float) @ np.asarray(F, dtype=float).T
    return float(rate.sum() - xlogy(X, rate).sum())


def problem_of(X: Any, K: int, prior: Any = None) -> Problem:
    return Problem(X if isinstance(X, Counts) else Counts(X), K, prior)


def never_rises(losses: Any, tolerance: float = 1e-10) -> bool:
    losses = np.asarray(losses)
    return bool(np.all(np.diff(losses) <= tolerance * np.abs(losses[:-1])))


def _bsr(kind: Callable[..., Any]) -> Callable[[np.ndarray], Any]:
    return lambda X: kind(X, blocksize=(1, 1))


def _frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        X, index=[f"sample {i}" for i in range(len(X))], columns=[f"feature {j}" for j in range(X.shape[1])]
    )


def _sparse_frame(X: np.ndarray) -> pd.DataFrame:
    return _frame(X).astype(pd.SparseDtype(float, 0.0))


ARRAY_TYPES: dict[str, Callable[[np.ndarray], Any]] = {
    "dense": np.array,
    "fortran": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
    "coo_matrix": sp.coo_matrix,
    "lil_matrix": sp.lil_matrix,
    "dok_matrix": sp.dok_matrix,
    "bsr_matrix": _bsr(sp.bsr_matrix),
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
    "coo_array": sp.coo_array,
    "lil_array": sp.lil_array,
    "dok_array": sp.dok_array,
    "bsr_array": _bsr(sp.bsr_array),
    "DataFrame": _frame,
    "sparse DataFrame": _sparse_frame,
    "Counts": Counts,
}


@pytest.fixture(params=list(ARRAY_TYPES))
def array_type(request: pytest.FixtureRequest) -> Callable[[np.ndarray], Any]:
    return ARRAY_TYPES[request.param]


def shared_data(name: str) -> Path:
    """A file or folder of the data that is not part of the project; the test is skipped where it is absent."""
    folder = Path(os.environ.get("UNMIX_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / name).exists():
        pytest.skip(f"{name} is not in {folder}; set UNMIX_DATA to the folder of the shared data")
    return folder / name


class Figures:
    """What a test drew with pyplot does not stay in memory. For doctests in `src` too, which see no fixtures of this file."""

    @staticmethod
    def pytest_runtest_teardown() -> None:
        if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
            pyplot.close("all")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Figures)


@pytest.fixture(autouse=True)
def _no_progress_in_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command says on stderr does not depend on how fast the machine is."""
    monkeypatch.setattr("unmix.base.progress.LOG", (1e9, 1e9))
    monkeypatch.setattr("unmix.base.progress.MACHINE", (1e9, 1e9))
