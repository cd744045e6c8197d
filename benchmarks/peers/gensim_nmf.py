"""gensim's online NMF. Its loss is the Frobenius norm, so its rates are rescaled before they are scored.

Row i of the rates is multiplied by t_i / Σ_j rate_ij, with t_i the row's total count: the best Poisson size for
gensim's mixture of topics.
"""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp


@dataclass
class Problem:
    documents: sp.csc_matrix
    totals: np.ndarray
    n_topics: int
    vocabulary: dict[int, str]
    model: object = field(default=None)


class GensimNmf:
    name = "gensim"
    requires = "gensim.models.nmf"
    note = "own random start; Frobenius loss, rows rescaled to their totals before scoring; iteration = one pass"

    def prepare(self, X: sp.csr_matrix, L0: np.ndarray, F0: np.ndarray) -> Problem:
        totals = np.asarray(X.sum(axis=1)).ravel()
        vocabulary = {j: str(j) for j in range(X.shape[1])}
        return Problem(sp.csc_matrix(X.T), totals, L0.shape[1], vocabulary)

    def run(self, problem: Problem, iterations: int) -> None:
        from gensim.models.nmf import Nmf

        problem.model = Nmf(
            problem.documents,
            num_topics=problem.n_topics,
            id2word=problem.vocabulary,
            passes=iterations,
            normalize=False,
            eval_every=None,
            random_state=0,
        )

    def factors(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        F = problem.model.get_topics(normalize=False).T
        # What `get_document_topics` does for one document, for all of them at once.
        L = problem.model._solveproj(problem.documents, F, v_max=np.inf).T
        L = np.where(L.sum(axis=1, keepdims=True) > 0, L, 1.0)
        return L * (problem.totals / (L @ F.sum(axis=0)))[:, None], F


PEERS = (GensimNmf(),)
