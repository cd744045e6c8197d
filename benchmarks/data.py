"""The data of the benchmarks and the starts of the fits: real counts where there are any, simulated ones otherwise.

A case is stored as two files in the output folder, so that every fresh process reads the same matrix and start.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import PROJECT_ROOT, rates_at_nonzeros

# samples, features, nonzeros
SHAPES = {
    "newsgroups": (18_774, 55_911, 2_429_942),
    "nips": (2_483, 14_036, 1_304_438),
    "pbmc_facs": (3_774, 16_791, 2_702_861),
}


def default_folder() -> Path:
    return Path(os.environ.get("UNMIX_DATA") or PROJECT_ROOT.parent / "shared" / "data")


@dataclass(frozen=True)
class Case:
    """A matrix and a start of K topics, both in files; `stored_start` when the start came with the data."""

    name: str
    K: int
    matrix: Path
    start: Path
    simulated: bool
    stored_start: bool

    @property
    def title(self) -> str:
        return f"{title(self.name, self.simulated)}, K = {self.K}"


def title(name: str, simulated: bool) -> str:
    return f"{name} (simulated)" if simulated else name


def find_matrix(name: str, folder: Path, out: Path) -> tuple[Path, bool]:
    """The file of the matrix, and whether it had to be simulated, under `out`."""
    matrix = folder / name / "counts.npz"
    if matrix.exists():
        return matrix, False
    matrix = out / f"{name}_simulated.npz"
    if not matrix.exists():
        print(f"{name} is not in {folder}: simulating a matrix of its shape and density")
        out.mkdir(parents=True, exist_ok=True)
        sp.save_npz(matrix, simulate(*SHAPES[name]))
    return matrix, True


def make_case(name: str, K: int, folder: Path, out: Path) -> Case:
    """The case, with whatever has to be simulated or prefitted saved under `out`."""
    out.mkdir(parents=True, exist_ok=True)
    matrix, simulated = find_matrix(name, folder, out)
    start = folder / name / f"start_k{K}.npz"
    stored_start = start.exists() and not simulated
    if not stored_start:
        start = out / f"{matrix.stem if simulated else name}_start_k{K}.npz"
        if not start.exists():
            L, F = em_start(load_counts(matrix), K)
            np.savez(start, L=L, F=F)
    return Case(name, K, matrix, start, simulated, stored_start)


def load_counts(matrix: str | Path) -> sp.csr_matrix:
    return sp.csr_matrix(sp.load_npz(matrix))


def load_start(start: str | Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(start) as arrays:
        return arrays["L"], arrays["F"]


def simulate(n: int, m: int, nnz: int, K: int = 10, seed: int = 0) -> sp.csr_matrix:
    """Counts of a topic model with about `nnz` nonzeros, drawn token by token: never an n x m array."""
    rng = np.random.default_rng(seed)
    # Frequencies fall as a power of the rank, and every topic ranks the features in its own order.
    popularity = 1.0 / np.arange(10, m + 10)
    topics = np.stack([popularity * rng.gamma(0.3, size=m) for _ in range(K)])
    proportions = rng.dirichlet(np.full(K, 0.2), size=n)
    sizes = rng.lognormal(sigma=0.7, size=n)
    topic_weights = sizes @ proportions
    X = sp.csr_matrix((n, m), dtype=np.int32)
    while X.nnz < 0.99 * nnz:
        tokens = max(2 * (nnz - X.nnz) // 3, 1000)
        rows, columns = [], []
        for k, tokens_of_topic in enumerate(rng.multinomial(tokens, topic_weights / topic_weights.sum())):
            rows.append(draw(sizes * proportions[:, k], tokens_of_topic, rng))
            columns.append(draw(topics[k], tokens_of_topic, rng))
        ones = np.ones(tokens, dtype=np.int32)
        X = X + sp.csr_matrix((ones, (np.concatenate(rows), np.concatenate(columns))), shape=(n, m))
    X.sort_indices()
    return X


def draw(weights: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Indices drawn in proportion to the weights."""
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")


def random_start(X: sp.csr_matrix, K: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Uniform factors whose rates sum to the total count."""
    rng = np.random.default_rng(seed)
    L, F = rng.uniform(0.1, 1.0, (X.shape[0], K)), rng.uniform(0.1, 1.0, (X.shape[1], K))
    return L, F * (X.sum() / (L.sum(axis=0) @ F.sum(axis=0)))


def em_start(X: sp.csr_matrix, K: int, iterations: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """EM (multiplicative updates) from a random start, in plain NumPy: L ← L ∘ (X/LFᵀ) F / colsum(F), then F alike."""
    L, F = random_start(X, K, seed)
    ratio = X.astype(np.float64)
    for _ in range(iterations):
        ratio.data = X.data / rates_at_nonzeros(X, L, F)
        L = L * (ratio @ F) / F.sum(axis=0)
        ratio.data = X.data / rates_at_nonzeros(X, L, F)
        F = F * (ratio.T @ L) / L.sum(axis=0)
    return L, F
