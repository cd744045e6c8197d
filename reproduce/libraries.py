"""The libraries of `reproduce.peers`, each called as its documentation would have it: from counts to proportions and topics.

What `benchmarks.peers` already knows how to call is called from there. A library is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmarks.data import random_start
from benchmarks.measure import threads_allowed

K = 10
Factors = tuple[np.ndarray, np.ndarray, str]  # n × K and m × K, on any scale, and the iterations in words


@dataclass(frozen=True)
class Program:
    """One way to call one library. `requires` is imported before the clock starts; `kind` says what it optimises."""

    name: str
    library: str
    kind: str
    requires: str
    call: Callable[..., Factors]
    settings: str
    parameters: dict[str, Any] = field(default_factory=dict)
    only_full: bool = False


def unmix_topics(X: sp.csr_matrix) -> Factors:
    import unmix as um

    return of_unmix(um.TopicModel(K, random_state=0, n_jobs=threads_allowed()).fit(X))


def unmix_lda(X: sp.csr_matrix, **priors: float) -> Factors:
    import unmix as um

    return of_unmix(um.LDA(K, random_state=0, n_jobs=threads_allowed(), **priors).fit(X))


def of_unmix(model: Any) -> Factors:
    fit = model.result_
    return fit.proportions, fit.topics, f"{model.n_iter_} ({fit.status.replace('_', ' ')})"


def sklearn_nmf(X: sp.csr_matrix) -> Factors:
    from sklearn.decomposition import NMF

    model = NMF(K, solver="mu", beta_loss="kullback-leibler", random_state=0)
    L = model.fit_transform(X)
    return L, model.components_.T, str(model.n_iter_)


def sklearn_lda(X: sp.csr_matrix) -> Factors:
    from benchmarks.peers import lda

    model = lda.sklearn_lda(K)
    L = model.fit_transform(X)
    return L, (model.components_ / model.components_.sum(axis=1, keepdims=True)).T, str(model.n_iter_)


def gensim_lda(X: sp.csr_matrix, passes: int) -> Factors:
    from benchmarks.peers import lda
    from gensim.matutils import Sparse2Corpus

    documents = Sparse2Corpus(sp.csc_matrix(X.T))
    model = lda.gensim_lda(documents, X.shape[1], K, passes)
    gamma, _ = model.inference(documents)
    return gamma / gamma.sum(axis=1, keepdims=True), model.get_topics().T, str(passes)


def gensim_nmf(X: sp.csr_matrix, passes: int) -> Factors:
    from benchmarks.peers.gensim_nmf import GensimNmf

    return of_peer(GensimNmf(), X, passes)


def tomotopy_lda(X: sp.csr_matrix, sweeps: int) -> Factors:
    """A sample without counts cannot be added; it keeps proportions of zero."""
    import tomotopy

    words = np.array([str(j) for j in range(X.shape[1])], dtype=object)
    model = tomotopy.LDAModel(k=K, seed=1)
    filled = np.flatnonzero(np.diff(X.indptr))
    for i in filled:
        document = slice(X.indptr[i], X.indptr[i + 1])
        model.add_doc(np.repeat(words[X.indices[document]], X.data[document]).tolist())
    model.train(sweeps, workers=threads_allowed())
    L, F = np.zeros((X.shape[0], K)), np.zeros((X.shape[1], K))
    L[filled] = [document.get_topic_dist() for document in model.docs]
    F[[int(word) for word in model.used_vocabs]] = np.stack([model.get_topic_word_dist(k) for k in range(K)], axis=1)
    return L, F, str(sweeps)


def poismf_default(X: sp.csr_matrix, iterations: int) -> Factors:
    from poismf import PoisMF

    model = PoisMF(k=K, niter=iterations, nthreads=threads_allowed()).fit(sp.coo_matrix(X))
    return model.A, model.B, f"at most {iterations}"


def poismf_unpenalised(X: sp.csr_matrix, iterations: int) -> Factors:
    from benchmarks.peers.poismf_tncg import PoisMFTruncatedNewton

    return of_peer(PoisMFTruncatedNewton(), X, iterations)


def of_peer(peer: Any, X: sp.csr_matrix, iterations: int) -> Factors:
    """A peer of the benchmarks, from a random start if it takes one."""
    problem = peer.prepare(X, *random_start(X, K))
    peer.run(problem, iterations)
    return *peer.factors(problem), str(iterations)


PROGRAMS = (
    Program(
        "unmix TopicModel",
        "unmix",
        "likelihood",
        "unmix.estimators",
        unmix_topics,
        "defaults: Newton, extrapolated, to convergence within 1e-8 per count",
    ),
    Program(
        "unmix LDA",
        "unmix",
        "LDA",
        "unmix.estimators",
        unmix_lda,
        "defaults: alpha = 1, no prior on topics, to convergence within 1e-6 per count",
    ),
    Program(
        "unmix LDA (priors 1/K)",
        "unmix",
        "LDA",
        "unmix.estimators",
        unmix_lda,
        "the priors of scikit-learn and gensim, alpha = eta = 1/K",
        {"alpha": 1 / K, "eta": 1 / K},
    ),
    Program(
        "scikit-learn NMF",
        "scikit-learn",
        "likelihood",
        "sklearn.decomposition",
        sklearn_nmf,
        "multiplicative updates, Kullback–Leibler loss; defaults (NNDSVDa start, at most 200 iterations)",
    ),
    Program(
        "scikit-learn LDA",
        "scikit-learn",
        "LDA",
        "sklearn.decomposition",
        sklearn_lda,
        "defaults: batch, 10 iterations, priors 1/K",
    ),
    Program(
        "gensim LdaMulticore",
        "gensim",
        "LDA",
        "gensim.models",
        gensim_lda,
        "defaults: one pass in batches of 2,000, priors 1/K; 2 worker processes",
        {"passes": 1},
    ),
    Program(
        "gensim LdaMulticore (10 passes)",
        "gensim",
        "LDA",
        "gensim.models",
        gensim_lda,
        "as gensim LdaMulticore, but 10 passes, for one is little for collections of this size",
        {"passes": 10},
        only_full=True,
    ),
    Program(
        "gensim Nmf",
        "gensim",
        "squares",
        "gensim.models.nmf",
        gensim_nmf,
        "defaults: least squares, one pass; on one core but for its linear algebra",
        {"passes": 1},
    ),
    Program(
        "tomotopy LDAModel",
        "tomotopy",
        "LDA",
        "tomotopy",
        tomotopy_lda,
        "defaults: Gibbs sampling, alpha = 0.1 at first, then learned, eta = 0.01; 100 sweeps, the last one taken",
        {"sweeps": 100},
    ),
    Program(
        "tomotopy LDAModel (1,000 sweeps)",
        "tomotopy",
        "LDA",
        "tomotopy",
        tomotopy_lda,
        "as tomotopy LDAModel, but 1,000 sweeps",
        {"sweeps": 1000},
        only_full=True,
    ),
    Program(
        "poismf",
        "poismf",
        "likelihood",
        "poismf",
        poismf_default,
        "defaults: truncated Newton, l2 penalty 1,000, at most 10 iterations, single precision",
        {"iterations": 10},
        only_full=True,
    ),
    Program(
        "poismf (no penalty)",
        "poismf",
        "likelihood",
        "poismf",
        poismf_unpenalised,
        "no penalty, 10 iterations, each from the last one's result, double precision",
        {"iterations": 10},
    ),
)
