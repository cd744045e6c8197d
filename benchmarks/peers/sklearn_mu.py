"""scikit-learn's NMF with the Kullback-Leibler loss and multiplicative updates."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass
class Problem:
    X: sp.csr_matrix
    L0: np.ndarray
    F0: np.ndarray
    L: np.ndarray | None = None
    F: np.ndarray | None = None


class ScikitLearnMU:
    name = "sklearn-mu"
    requires = "sklearn.decomposition"
    note = "same start"

    def prepare(self, X: sp.csr_matrix, L0: np.ndarray, F0: np.ndarray) -> Problem:
        return Problem(X, L0, F0)

    def run(self, problem: Problem, iterations: int) -> None:
        from sklearn.decomposition import NMF

        model = NMF(
            n_components=problem.L0.shape[1],
            solver="mu",
            beta_loss="kullback-leibler",
            init="custom",
            tol=0,
            max_iter=iterations,
        )
        # Both starts are overwritten in place by scikit-learn.
        problem.L = model.fit_transform(problem.X, W=problem.L0.copy(), H=problem.F0.T.copy())
        problem.F = model.components_.T

    def factors(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        return problem.L, problem.F


PEERS = (ScikitLearnMU(),)
