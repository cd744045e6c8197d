"""A fit whose topics many runs agree on.

Runs, as in `stability`, are matched with centres c_k, which begin as the topics of the fit to all counts. Each run gives each
centre exactly one topic, f_rk. Two steps take turns until nothing changes:

    match       the pairs of each run that make Σ_k H²(c_k, f_rk) the smallest
    centre      √c_k ∝ Σ_r √f_rk     over the kept runs: the distribution of the smallest Σ_r H²(c_k, f_rk)

Neither can raise Σ_r Σ_k H² while all are kept. A run is kept for a topic if what it gives is nearer to that centre than to any
other, so there is no threshold to choose; a centre that no run is kept for stays where it was.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from unmix.analysis.runs import Noise, Topics, checked_counts, checked_model, in_order, repeated
from unmix.analysis.stability import likeness
from unmix.counts import Counts, CountsLike
from unmix.estimators.base import CountsEstimator
from unmix.estimators.likelihood import PoissonNMF
from unmix.fit import Fit
from unmix.models.poisson import loglik
from unmix.solvers.session import COLUMNS
from unmix.types import Floats, Record, Seed

MOST_ROUNDS = 100  # of matching; a handful is usual


def consensus(
    X: CountsLike,
    K: int,
    runs: int = 20,
    *,
    noise: Noise = "halves",
    estimator: CountsEstimator | None = None,
    polish: bool = True,
    random_state: Seed = None,
    n_jobs: int | None = None,
    keep: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> Fit:
    """A fit of K topics that were found again and again, in halves of the counts.

    Ctrl-C keeps the runs that are finished.

    Parameters
    ----------
    X : Counts or array-like
        Counts: anything that `Counts` takes.
    K : int
        Number of topics.
    runs : int, default=20
        How many fits.
    noise : str, default="halves"
        "halves", "bootstrap" or "none", as in `stability`.
    estimator : estimator, default=None
        What to fit; None is `TopicModel()`.
    polish : bool, default=True
        Whether to fit the model to all counts from the consensus on. If not, topics are the consensus itself, and loadings the
        most likely ones given these: less likely, and the mean of what runs have found.
    random_state : int, Generator or RandomState, default=None
        Seed; None is the estimator's.
    n_jobs : int, default=None
        Threads of each fit. The result does not depend on it.
    keep : str or PathLike, default=None
        A file for the runs that are finished, so that the same call goes on with the rest; `stability` uses the same runs.
    verbose : bool, default=False
        Tell on stderr how many are done, and how long the others will take.

    Returns
    -------
    Fit
        `fit.data["consensus"]` says of each topic how many runs make up its centre (`kept`), its `stability` in all of them,
        and the log-likelihoods of the fit to all counts that centres begin with, of the consensus, and of the polished fit.

    Raises
    ------
    ValueError
        If there are fewer than two runs or samples, or halves are asked of fractions.

    See Also
    --------
    stability : Which topics hold.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[90, 10, 0], [80, 20, 10], [0, 10, 70], [10, 0, 80]]
    >>> fit = um.consensus(X, 2, runs=4, random_state=0)
    >>> fit.status, fit.data["consensus"]["kept"]
    ('converged', [4, 4])
    """
    counts = checked_counts(X, runs, noise)
    done = repeated(
        counts,
        K,
        runs,
        noise,
        estimator=estimator,
        reference=None,
        random_state=random_state,
        n_jobs=n_jobs,
        keep=keep,
        verbose=verbose,
    )
    topics, kept = agreed(done.reference.topics, done.found)
    model = checked_model(estimator, K, n_jobs)
    plain = _with_topics(counts, _possible(topics, counts), n_jobs)
    logliks = {"of all counts": done.reference.loglik, "consensus": plain.loglik}
    fit = plain
    if polish:
        seed = None if not isinstance(random_state, int) else random_state
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the fit says it, and so does its advice
            fit = clone(model).set_params(init=plain, random_state=seed).fit(counts).result_
        logliks["polished"] = fit.loglik
    similarity, _ = likeness(fit.topics, [in_order(topics, fit.topics) for topics in done.found])
    about: Record = {
        "runs": len(done.found),
        "noise": noise,
        "status": done.status,
        "kept": kept.sum(axis=0).tolist(),
        "stability": similarity.mean(axis=0).tolist(),
        "loglik": logliks,
    }
    return replace(fit, data=fit.data | {"consensus": about})


def agreed(reference: Floats, found: list[Topics]) -> tuple[Floats, NDArray[np.bool_]]:
    """The centres, m × K, and which runs (rows) are kept for which of them (columns)."""
    centres, before = reference, None
    for _ in range(MOST_ROUNDS):
        found = [in_order(topics, centres) for topics in found]
        kept = likeness(centres, found)[1]
        moved = barycentres(found, kept, centres)
        if before is not None and np.array_equal(moved, before):
            break
        centres = before = moved
    return centres, kept


def barycentres(found: list[Topics], kept: NDArray[np.bool_], otherwise: Floats) -> Floats:
    """√c_k ∝ Σ √f_rk over the runs that are kept for topic k; where none is, the column of `otherwise`."""
    roots = np.zeros(otherwise.shape)
    for topics, these in zip(found, kept, strict=True):
        roots += np.sqrt(topics.astype(np.float64)) * these
    squares = roots**2
    totals = squares.sum(axis=0)
    return np.where(totals > 0, squares / np.where(totals > 0, totals, 1), otherwise)


def _possible(topics: Floats, counts: Counts) -> Floats:
    """Features that have counts and no weight in any topic, as every run missed them, get what they have in all samples."""
    missed = (topics.sum(axis=1) == 0) & (counts.feature_totals > 0)
    topics = np.where(missed[:, None], (counts.feature_totals / counts.total)[:, None], topics)
    return topics / topics.sum(axis=0)


def _with_topics(counts: Counts, topics: Floats, n_jobs: int | None) -> Fit:
    """The most likely fit that has these topics."""
    model = PoissonNMF.from_factors(topics, n_jobs=n_jobs)
    L = model.transform(counts)
    value = float(loglik(counts, L, topics, n_jobs=n_jobs))
    trace = pd.DataFrame([(0, 0.0, value, value, np.nan, "start", "consensus")], columns=COLUMNS)
    return Fit(
        L,
        topics,
        trace,
        "converged",
        value,
        samples=counts.samples,
        features=counts.features,
        metadata=counts.metadata,
        params=model.result_.params,
        data=dict(counts.facts),
        text=counts.text,
    )
