"""A fit applied to new samples, by the inference of the model that made it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import pandas as pd

from unmix.counts import Counts, CountsLike
from unmix.data.match import match_features
from unmix.fit import Fit
from unmix.models.topics import poisson_to_topics
from unmix.types import Floats


def transform(fit: Fit, X: CountsLike | Iterable[str]) -> Floats:
    """Proportions of the topics of a fit in new samples.

    Parameters
    ----------
    fit : Fit
        Of any model, such as one that `unmix.load` read.
    X : Counts, array-like, AnnData or iterable of str
        Counts: anything that `Counts` takes, or an AnnData. Features are found by name where both sides have names: those that
        the fit does not know are left out, missing ones count as 0, and a warning says how many there are. Or texts, a list of
        strings or a column of a DataFrame, whose words are counted as those of the fit were.

    Returns
    -------
    array, n × K
        Rows sum to one.

    Raises
    ------
    ValueError
        If texts are given to a fit that was not made from texts, or no feature has a name that the fit knows.

    See Also
    --------
    Fit.transform, TopicModel.transform, sc.tl.project

    Examples
    --------
    >>> import unmix as um
    >>> texts = ["red roses red wine", "red wine wine", "white snow", "white snow snow roses"]
    >>> fit = um.TopicModel(2, random_state=0).fit(um.read_texts(texts)).result_
    >>> um.analysis.transform(fit, ["wine and snow"]).sum(axis=1).round(6)
    array([1.])
    """
    counts = _counted(fit, X)
    matched = match_features(counts, fit)
    said = (
        [f"{matched.missing:,} features of the fit are missing: taken as 0 in every sample"] if matched.missing else []
    )
    said += [f"{matched.unknown:,} features are unknown to the fit: left out"] if matched.unknown else []
    if said:
        warnings.warn("; ".join(said), UserWarning, stacklevel=3)
    return proportions_of(fit, matched.counts)


def proportions_of(fit: Fit, counts: Counts) -> Floats:
    """Of counts with the features of the fit."""
    from unmix.estimators import from_fit  # and scikit-learn with it

    estimator = from_fit(fit)
    return poisson_to_topics(estimator.transform(counts), estimator.components_.T)[0]


def _counted(fit: Fit, X: Any) -> Counts:
    from unmix.data.read import read_texts
    from unmix.estimators.lazy import counts_of, is_anndata

    if isinstance(X, Counts):
        return X
    if is_anndata(X):
        return counts_of(X)
    texts = isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(entry, str) for entry in X)
    if isinstance(X, str) or texts or (isinstance(X, pd.Series) and pd.api.types.is_string_dtype(X)):
        if fit.text is None:
            raise ValueError("the fit was not made from texts; give counts with its features")
        return read_texts(X, like=fit)
    if isinstance(X, pd.DataFrame):
        return Counts(X, samples=X.index, features=X.columns)
    return Counts(X)
