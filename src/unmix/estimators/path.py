"""Fits of many numbers of topics for little more than one: the largest is fitted, the others are merged from it, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from numbers import Integral
from typing import Any

from sklearn.base import clone

from unmix.base.checks import ParameterError, warn
from unmix.base.threads import use_threads
from unmix.counts.counts import Counts, CountsLike, as_counts
from unmix.estimators.base import CountsEstimator
from unmix.estimators.likelihood import PoissonNMF, TopicModel
from unmix.fit import Fit
from unmix.models.problem import Problem
from unmix.solvers.search import merge_down


def fit_path(
    X: CountsLike, topics: Iterable[int] = range(1, 11), estimator: CountsEstimator | None = None, **parameters: Any
) -> dict[int, Fit]:
    """One `Fit` for every number of topics, by that number.

    The fit with most topics is made as usual. Each of the others starts from the next larger one, in which the topics are
    merged that the data miss least as two; so fits are nested, more or less, and topics keep their places until they are
    merged. Ctrl-C ends it with the fits that are finished.

    Parameters
    ----------
    X : Counts or array-like
        Counts: anything that `Counts` takes.
    topics : iterable of int, default=range(1, 11)
        Numbers of topics, in any order.
    estimator : estimator, default=None
        None is `TopicModel()`. Models that are not fitted by maximum likelihood start from the path of one that is.
    **parameters : dict
        Of the estimator, such as `random_state=0`.

    Returns
    -------
    dict of int to Fit
        The smallest number first.

    Raises
    ------
    ValueError
        If a number of topics is not one.

    See Also
    --------
    align : What becomes of topics as there are more of them.
    choose_topics : Which number predicts held-out counts best.

    Examples
    --------
    >>> import unmix as um
    >>> fits = um.fit_path(um.datasets.correlated_topics("A"), range(1, 6), random_state=0)
    >>> [fit.n_topics for fit in fits.values()]
    [1, 2, 3, 4, 5]
    >>> all(fits[K].loglik < fits[K + 1].loglik for K in range(1, 5))
    True
    """
    model = clone(TopicModel() if estimator is None else estimator).set_params(**parameters)
    counts = as_counts(X)
    numbers = numbers_of_topics(topics)
    fits: dict[int, Fit] = {}
    try:
        for K, fit in fits_downwards(counts, numbers, model):
            fits[K] = fit
    except KeyboardInterrupt:
        if not fits:
            raise
        warn(f"interrupted: {len(fits)} of {len(numbers)} fits are finished, and given back")
    return dict(sorted(fits.items()))


def fits_downwards(
    X: Counts,
    numbers: Iterable[int],
    model: CountsEstimator,
    finished: Callable[[CountsEstimator], Fit | None] = lambda one: None,
) -> Iterator[tuple[int, Fit]]:
    """The fits of a path, each when it is made, the largest first. Ctrl-C ends all of it, and not one of the fits. `finished`
    returns the fit of an estimator if an earlier run has made it."""

    def made(one: CountsEstimator) -> Fit:
        if (earlier := finished(one)) is not None:
            return earlier
        fit = one.fit(X).result_
        if fit.status == "interrupted" and not one.callbacks:  # which may end a fit, and not the path
            raise KeyboardInterrupt
        return fit

    likely = isinstance(model, PoissonNMF) and "prefit" in model.get_params()
    plain = model if likely else PoissonNMF(n_jobs=model.n_jobs, random_state=model.random_state)
    above: Fit | None = None
    for K in sorted(numbers, reverse=True):
        one = clone(plain).set_params(n_components=K)
        if above is not None:
            with use_threads(model.n_jobs):
                merged = merge_down(Problem(X, K), above.L, above.F)
            one.set_params(init=(merged.L, merged.F), prefit=0)
        above = made(one)
        yield K, above if likely else made(clone(model).set_params(n_components=K, init=above))


def numbers_of_topics(topics: Iterable[int]) -> list[int]:
    """Each once, in order."""
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise ParameterError("topics", topics, "use several numbers of topics, such as range(1, 21)")
    numbers = list(topics)
    for K in numbers:
        if not isinstance(K, Integral) or isinstance(K, bool) or K < 1:
            raise ParameterError("topics", K, "use whole numbers >= 1")
    return sorted({int(K) for K in numbers})
