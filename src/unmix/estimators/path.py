"""Fits of many numbers of topics for little more than one: the largest is fitted, the others are merged from it, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from sklearn.base import clone

from unmix.counts import Counts, CountsLike
from unmix.estimators.base import CountsEstimator
from unmix.estimators.likelihood import PoissonNMF, TopicModel
from unmix.fit import Fit
from unmix.models.problem import Problem
from unmix.solvers.recombine import merge_down
from unmix.threads import use_threads


def fit_path(
    X: CountsLike, topics: Iterable[int] = range(1, 11), estimator: CountsEstimator | None = None, **parameters: Any
) -> dict[int, Fit]:
    """One `Fit` for every number of topics, by that number.

    The fit with most topics is made as usual. Each of the others starts from the next larger one, in which the topics are merged
    that the data miss least as two; so fits are nested, more or less, and topics keep their places until they are merged.

    Parameters
    ----------
    X
        Counts: anything that `Counts` takes.
    topics
        Numbers of topics, in any order.
    estimator
        `TopicModel()` by default. Models that are not fitted by maximum likelihood start from the path of one that is.
    parameters
        Of the estimator, such as `random_state=0`.

    >>> import unmix as um
    >>> fits = um.fit_path(um.datasets.digits(), range(1, 6), random_state=0)
    >>> [fit.n_topics for fit in fits.values()]
    [1, 2, 3, 4, 5]
    >>> all(fits[K].loglik < fits[K + 1].loglik for K in range(1, 5))
    True
    """
    numbers = list(topics)
    for K in numbers:
        if not isinstance(K, Integral) or isinstance(K, bool) or K < 1:
            raise ValueError(f"topics has {K!r}; give whole numbers >= 1")
    model = clone(TopicModel() if estimator is None else estimator).set_params(**parameters)
    counts = X if isinstance(X, Counts) else Counts(X)
    likely = isinstance(model, PoissonNMF) and "prefit" in model.get_params()
    plain = model if likely else PoissonNMF(n_jobs=model.n_jobs, random_state=model.random_state)
    fits: dict[int, Fit] = {}
    above: Fit | None = None
    for K in sorted({int(K) for K in numbers}, reverse=True):
        one = clone(plain).set_params(n_components=K)
        if above is not None:
            with use_threads(model.n_jobs):
                merged = merge_down(Problem(counts, K), above.L, above.F)
            one.set_params(init=(merged.L, merged.F), prefit=0)
        above = one.fit(counts).result_
        fits[K] = above if likely else clone(model).set_params(n_components=K, init=above).fit(counts).result_
    return dict(sorted(fits.items()))
