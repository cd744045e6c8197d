"""Recommendations: which features a sample would have next, by its expected counts s_i Σ_k p_ik f_jk, and how good lists are.

With r_1, r_2, … the recommended features of a sample, n of them, and R those that it has among counts held back,

    recall    |{r_1 … r_n} ∩ R| / |R|
    precision |{r_1 … r_n} ∩ R| / n
    ndcg      Σ_{t ≤ n} [r_t ∈ R] / log2 (t + 1),  divided by what a list of members of R alone would have
                                                                                   (Järvelin and Kekäläinen 2002, binary gains)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from unmix.analysis.application import FitLike, counts_in_memory, fit_of, refuse_multipliers, transform
from unmix.base.checks import whole
from unmix.base.types import Floats, Integers, numbered
from unmix.counts.counts import Counts, CountsLike
from unmix.estimators.features import match_features
from unmix.fit import Fit

ENTRIES = 8_000_000  # of the table of scores that is in memory at a time


def recommend(fit: FitLike, X: Any, n: int = 10, exclude_seen: bool = True) -> pd.DataFrame:
    """The features that samples would have next: for each the n with the largest expected counts.

    Samples may be new (cold start): their proportions are inferred from what they have so far, as by `transform`. Of a sample
    without counts nothing is known, and it gets the most popular features.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    X : Counts, array-like, AnnData or path
        What samples have so far, such as users × items. Features are found by name where both sides have names.
    n : int, default=10
        How many features to recommend.
    exclude_seen : bool, default=True
        Whether to omit features that the sample has already.

    Returns
    -------
    DataFrame
        Up to n rows per sample: `sample`, `rank`, `feature`, and `score`, its part of the sample's expected counts.

    Raises
    ------
    ValueError
        If n is not a whole number >= 1, X is shards (give one of `shards.parts()` at a time), or no feature has a name that the
        fit knows.

    See Also
    --------
    Fit.recommend, analysis.ranking, analysis.transform

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[5, 4, 0, 0], [4, 0, 1, 0], [0, 0, 3, 5], [0, 1, 4, 4]], features=["ant", "bee", "cat", "dog"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> um.analysis.recommend(fit, um.Counts([[3, 0, 0, 0]], features=X.features), n=1)["feature"].tolist()
    ['bee']
    """
    fit = fit_of(fit)
    refuse_multipliers(fit, "recommend")
    counts, proportions = _known(fit, X)
    places, scores = top_lists(proportions, fit.topics, counts if exclude_seen else None, n)
    rows, ranks = np.nonzero(places >= 0)
    return pd.DataFrame(
        {
            "sample": numbered(counts.samples, "sample", len(counts))[rows],
            "rank": ranks + 1,
            "feature": fit.feature_names[places[rows, ranks]],
            "score": scores[rows, ranks],
        }
    )


def top_lists(
    loadings: ArrayLike, factors: ArrayLike, seen: CountsLike | None = None, n: int = 10
) -> tuple[Integers, Floats]:
    """The best features of each sample by any factorisation, Σ_k l_ik f_jk, of this library or of another.

    Parameters
    ----------
    loadings : array-like, samples × K
        Of samples, such as users.
    factors : array-like, features × K
        Of features, such as items.
    seen : Counts or array-like, default=None
        Counts whose nonzeros are omitted.
    n : int, default=10
        Length of the lists.

    Returns
    -------
    tuple of two arrays, samples × n
        Places of features, the best first and −1 where there are no more, and their scores.

    Raises
    ------
    ValueError
        If n is not a whole number >= 1.

    See Also
    --------
    analysis.ranking

    Examples
    --------
    >>> import unmix as um
    >>> um.analysis.top_lists([[1, 0], [1, 2]], [[3, 0], [2, 1], [0, 4]], seen=[[1, 0, 0], [0, 0, 0]], n=2)[0]
    array([[1, 2],
           [2, 1]])
    """
    L, F = np.asarray(loadings, dtype=np.float64), np.asarray(factors, dtype=np.float64)
    n, counts = min(whole("n", n, 1), len(F)), None if seen is None else Counts(seen).csr
    places, best = np.empty((len(L), n), dtype=np.intp), np.empty((len(L), n))
    step = max(1, ENTRIES // len(F))
    for first in range(0, len(L), step):
        block = slice(first, first + step)
        scores = L[block] @ F.T
        if counts is not None:
            scores[counts[block].nonzero()] = -np.inf
        some = np.argpartition(-scores, n - 1, axis=1)[:, :n]
        found = np.take_along_axis(scores, some, axis=1)
        order = np.lexsort((some, -found), axis=1)  # of the same score the first
        places[block], best[block] = (np.take_along_axis(array, order, axis=1) for array in (some, found))
    places[np.isneginf(best)] = -1
    return places, best


def ranking(
    recommended: FitLike | Integers, X: CountsLike, held_out: CountsLike, n: int | Iterable[int] = (5, 10, 20)
) -> pd.DataFrame:
    """How good recommendations are: recall, precision and NDCG of lists, by features that samples have among counts held back.

    Parameters
    ----------
    recommended : Fit, estimator, path or array of int
        A model, whose recommendations omit what is in X; or lists that `top_lists` or another library made, samples × places
        of features, the best first, −1 for none.
    X : Counts or array-like
        What was known of the samples. Their features of `held_out` are new: those also in X do not count.
    held_out : Counts or array-like
        Counts of the same samples and features that were held back: `X, held_out = counts.thinned(2, rng)`.
    n : int or iterable of int, default=(5, 10, 20)
        Lengths of lists.

    Returns
    -------
    DataFrame
        One row per length: `n`, the means of `recall`, `precision` and `ndcg` over samples that have something new, their
        standard errors `recall_error`, `precision_error` and `ndcg_error`, and the number of such `samples`.

    Raises
    ------
    ValueError
        If shapes differ, lists are shorter than n, or no sample has anything new.

    See Also
    --------
    analysis.recommend, analysis.perplexity

    Examples
    --------
    >>> import numpy as np
    >>> import unmix as um
    >>> X, held_out = [[1, 0, 0, 0], [0, 1, 0, 0]], [[0, 1, 1, 0], [0, 0, 0, 1]]
    >>> um.analysis.ranking(np.array([[1, 3], [2, 3]]), X, held_out, n=2)[["recall", "ndcg"]].round(3).to_numpy().tolist()
    [[0.75, 0.622]]
    """
    lengths = [whole("n", one, 1) for one in np.ravel(np.asarray(n, dtype=object))]
    known, rest = counts_in_memory(X, "ranking"), counts_in_memory(held_out, "ranking")
    if known.shape != rest.shape:
        raise ValueError(f"held_out has the shape {rest.shape}, X {known.shape}; use the same samples and features")
    if isinstance(recommended, np.ndarray):
        places = recommended
        if places.ndim != 2 or len(places) != len(known) or places.shape[1] < min(max(lengths), known.shape[1]):
            raise ValueError(f"recommended has the shape {places.shape}; use {max(lengths)} features per sample")
    else:
        fit = fit_of(recommended)
        refuse_multipliers(fit, "ranking")
        known, proportions = _known(fit, known)
        rest = match_features(rest, fit).counts
        places, _ = top_lists(proportions, fit.topics, known, max(lengths))
    new = rest.csr.astype(bool).astype(np.int8)
    new = (new - new.multiply(known.csr.astype(bool).astype(np.int8))).tocsr()
    new.eliminate_zeros()
    several = np.diff(new.indptr)
    if not (several > 0).any():
        raise ValueError("no sample has features in held_out that it does not have in X; hold other counts back")
    hits = np.zeros(places.shape)
    for i in np.flatnonzero(several):
        hits[i] = np.isin(places[i], new.indices[new.indptr[i] : new.indptr[i + 1]])
    hits, several = hits[several > 0], several[several > 0]
    gains = 1 / np.log2(np.arange(2, max(lengths) + 2))
    rows = []
    for length in lengths:
        found = hits[:, :length]
        most = np.cumsum(gains)[np.minimum(several, length) - 1]
        values = {
            "recall": found.sum(axis=1) / several,
            "precision": found.sum(axis=1) / length,
            "ndcg": found @ gains[: found.shape[1]] / most,
        }
        means = {name: float(each.mean()) for name, each in values.items()}
        errors = {f"{name}_error": float(each.std() / np.sqrt(len(each))) for name, each in values.items()}
        rows.append({"n": length} | means | errors | {"samples": len(several)})
    return pd.DataFrame(rows)


def _known(fit: Fit, X: Any) -> tuple[Counts, Floats]:
    """Counts with the features of the fit, and proportions: the fit's own of its own counts, inferred ones of others; of
    samples without counts, the shares of topics."""
    counts = match_features(counts_in_memory(X, "recommend", like=fit), fit).counts
    own = counts.shape[0] == len(fit.L) and counts.facts["checksum"] == fit.data.get("checksum")
    proportions = np.asarray(fit.proportions) if own else transform(fit, counts)
    return counts, np.where(counts.sample_totals[:, None] > 0, proportions, fit.shares)
