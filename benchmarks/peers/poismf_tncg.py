"""poismf: Poisson matrix factorisation by truncated Newton conjugate gradients, row by row."""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import threads_allowed


@dataclass
class Problem:
    X: sp.coo_matrix
    L0: np.ndarray
    F0: np.ndarray
    model: object = field(default=None)


class PoisMFTruncatedNewton:
    """`reuse_prev=True` and no penalty: without them poismf falls below its own start on sparse text."""

    name = "poismf"
    requires = "poismf"
    note = "same start; tncg, l2_reg=0, reuse_prev=True, float64"

    def prepare(self, X: sp.csr_matrix, L0: np.ndarray, F0: np.ndarray) -> Problem:
        return Problem(sp.coo_matrix(X), L0, F0)

    def run(self, problem: Problem, iterations: int) -> None:
        from poismf import PoisMF

        class StartedPoisMF(PoisMF):
            """poismf has no parameter for a start, and its `fit_unsafe`, which takes one, fails on a new object."""

            def _initialize_matrices(self) -> None:
                self.A, self.B = problem.L0.copy(), problem.F0.copy()

        problem.model = StartedPoisMF(
            k=problem.L0.shape[1],
            method="tncg",
            l2_reg=0.0,
            niter=iterations,
            reuse_prev=True,
            early_stop=False,
            use_float=False,
            nthreads=threads_allowed(),
        ).fit(problem.X)

    def factors(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        return problem.model.A, problem.model.B


PEERS = (PoisMFTruncatedNewton(),)
