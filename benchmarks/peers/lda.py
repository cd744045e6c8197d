"""LDA by several libraries, for `lda` and `online`. Priors are 1/K on both sides, what scikit-learn takes by default.

Whatever program found the topics, q(F) = Dirichlet(τ), they are judged alike: by `around`, which finds the rest of q.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import lda_bound, threads_allowed


def unmix_lda(X: Any, K: int, **parameters: Any) -> Any:
    return _unmix(K, **parameters).fit(X)


def unmix_stream(batches: Iterable[Any], K: int) -> Any:
    model = _unmix(K, init="random")
    for batch in batches:
        model.partial_fit(batch)
    return model


def _unmix(K: int, **parameters: Any) -> Any:
    import unmix as um

    given = {"random_state": 0, "n_jobs": threads_allowed()} | parameters
    return um.LDA(K, alpha=1 / K, eta=1 / K, **given)


def sklearn_lda(K: int, **parameters: Any) -> Any:
    """Not fitted yet. Its `components_` are τᵀ."""
    from sklearn.decomposition import LatentDirichletAllocation

    return LatentDirichletAllocation(K, n_jobs=threads_allowed(), random_state=0, **parameters)


def gensim_lda(documents: Any, m: int, K: int, passes: int) -> Any:
    """Fitted by as many worker processes as there may be threads, each on one core."""
    from gensim.models import LdaMulticore

    return LdaMulticore(
        documents,
        num_topics=K,
        id2word={j: str(j) for j in range(m)},
        workers=threads_allowed(),
        passes=passes,
        alpha=1 / K,
        eta=1 / K,
        eval_every=None,
        random_state=0,
    )


def around(X: sp.csr_matrix, tau: np.ndarray) -> Any:
    """unmix's LDA with these topics (τ, m × K), as if fitted to X: q(L) is inferred until every sample stands still."""
    import unmix as um
    from unmix.base.threads import use_threads
    from unmix.estimators.variational import INFERENCE_TOLERANCE, STEPS
    from unmix.solvers.run import Session
    from unmix.solvers.vi import CAVI, infer

    estimator, solver = _unmix(tau.shape[1]), CAVI(inner=1)
    with use_threads(threads_allowed()):
        task = estimator._plan(um.Counts(X), np.random.default_rng(0)).task
        right = task.model.right.belief(np.ascontiguousarray(tau, dtype=np.float64))
        left = infer(task, task.model, right, None, STEPS, INFERENCE_TOLERANCE)
        session, state = Session(task), solver.from_beliefs(task, left, right)
        session.record(state, "given")
        estimator.result_ = session.fit(solver, state, "max_iter")
    return estimator


def judged(X: sp.csr_matrix, tau: np.ndarray) -> dict[str, float]:
    """The bound at these topics, in plain NumPy, and how far off unmix's own value for the same q is."""
    return judgement(X, around(X, tau))


def judgement(X: sp.csr_matrix, fitted: Any) -> dict[str, float]:
    tau = fitted.result_.posterior["F"]
    value = lda_bound(X, fitted.gamma_, tau, 1 / tau.shape[1], 1 / tau.shape[1])
    return {"ELBO": value, "off": fitted.elbo_ - value}
