"""Quality of topics: coherence, exclusivity, diversity.

Whether the top features of a topic occur together: coherence, by the samples that have both of a pair.

With D_a the samples that have feature a, D_ab those that have both, of n, and P = D / n, over pairs of the top features,

    u_mass         Σ log (D_ab + 1) / D_b,  b the heavier of the two                             (Mimno et al. 2011)
    npmi           mean of log (P_ab / (P_a P_b)) / −log P_ab                                     (Bouma 2009)
    cv_documents   mean over a of cos(u_a, Σ_b u_b),  u_a the row of npmi, with npmi(a, a) = 1    (after Röder et al. 2015)

    c_v            the same of windows that slide over running texts, as gensim 4.4 computes it      (Röder et al. 2015)

In the limits, npmi is −1 for features that are never together and 0 for those that are in every sample, which says nothing.
c_v needs running text, which counts do not keep. gensim's P_ab has 1e-12 added, and a word that leaves a window at its left end
counts as gone, even if it stands elsewhere in the window, until it comes in again at the right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from unmix.analysis.application import FitLike, counts_of, data_of, fit_of, refuse_multipliers
from unmix.analysis.compare import topic_distances
from unmix.analysis.features import distinctive_features, topic_names
from unmix.analysis.results import FileLayout, Result, columns
from unmix.base.checks import choice, warn, whole
from unmix.base.types import Floats, Integers, Record
from unmix.counts.counts import Counts, CountsLike
from unmix.estimators.features import match_features
from unmix.fit import Fit
from unmix.models.poisson import column_shares

By = Literal["frequency", "distinctive"]
TINY = 1e-12  # gensim's


def coherence(
    fit: FitLike,
    X: CountsLike,
    top: int = 10,
    by: By = "frequency",
    texts: Iterable[str | Sequence[str]] | None = None,
    window: int = 110,
) -> pd.DataFrame:
    """How often the top features of each topic are together in the same samples.

    Parameters
    ----------
    fit : Fit, estimator or path
        Whose topics.
    X : Counts, Shards or array-like
        The samples to count in: those of the fit, or better others; features are found by name where both have names.
    top : int, default=10
        How many features of each topic.
    by : str, default="frequency"
        "frequency": those of the largest share in the topic, as in the literature. "distinctive": those of `top_features`.
    texts : iterable of str or of lists of str, default=None
        Running texts, or their tokens, for `c_v`, which asks whether words are near each other: the value of gensim's
        `CoherenceModel(coherence="c_v")` for the same words and tokens.
    window : int, default=110
        Number of tokens of a window.

    Returns
    -------
    DataFrame
        One row per topic: `topic`, `u_mass`, `npmi`, `cv_documents`, with texts `c_v`, the number of `pairs`, how many of the
        top features no sample has (`unseen`, which are omitted), and the part of pairs that nearly every sample has
        (`everywhere`), which say little.

    Raises
    ------
    ValueError
        If `top` or `by` is invalid.

    See Also
    --------
    analysis.quality : This and more.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> fit = um.TopicModel(4, tol=1e-4, random_state=0).fit(X).result_
    >>> um.coherence(fit, X)[["topic", "npmi"]].shape
    (4, 2)
    """
    fit = fit_of(fit)
    top = checked_top(fit, top)
    choice("by", by, ("frequency", "distinctive"))
    data = data_of(X, "coherence", fit)
    chosen = distinctive_features(fit, top) if by == "distinctive" else frequent_features(fit, top)
    used, places = np.unique(np.concatenate(chosen), return_inverse=True)
    together = np.sum([cooccurrences(match_features(part, fit).counts, used) for part in data.parts()], axis=0)
    ends = np.cumsum([len(features) for features in chosen])
    rows = [
        _of_one(together, places[end - len(own) : end], data.shape[0]) for own, end in zip(chosen, ends, strict=True)
    ]
    table = pd.DataFrame([{"topic": k + 1} | row for k, row in enumerate(rows)])
    if texts is not None:
        near, n = _in_windows(texts, fit.feature_names[used].tolist(), whole("window", window, 2))
        values = [_c_v(near, places[end - len(own) : end], n) for own, end in zip(chosen, ends, strict=True)]
        table.insert(4, "c_v", values)
    return table


def _in_windows(texts: Iterable[str | Sequence[str]], names: list[str], size: int) -> tuple[Floats, int]:
    """How many windows of this many tokens have both of each two words, and how many windows there are."""
    from unmix.io.read.words import words

    number = {name: place for place, name in enumerate(names)}
    together, n = np.zeros((len(names), len(names))), 0
    for text in texts:
        tokens = words(text) if isinstance(text, str) else text
        places: dict[int, list[int]] = {}
        for i, token in enumerate(tokens):
            if token in number:
                places.setdefault(number[token], []).append(i)
        windows = max(1, len(tokens) - size + 1)
        n += windows
        steps = np.zeros((windows + 1, len(places)), dtype=np.int32)
        for column, at in enumerate(map(np.array, places.values())):
            enters, leaves = np.maximum(at - size + 1, 0), np.minimum(at + 1, windows)  # numbers of windows
            ends = leaves[np.searchsorted(at + 1, enters, side="right")]
            np.add.at(steps[:, column], enters, 1)
            np.add.at(steps[:, column], ends if windows > 1 else windows, -1)
        present = (steps.cumsum(axis=0)[:-1] > 0).astype(np.float32)
        there = list(places)
        together[np.ix_(there, there)] += present.T @ present
    return together, n


def _c_v(together: Floats, features: Integers, n: int) -> float:
    D = together[np.ix_(features, features)]
    D = D[np.ix_(D.diagonal() > 0, D.diagonal() > 0)]
    if len(D) < 2:
        return float("nan")
    P = D / n
    npmi = np.log((P + TINY) / np.outer(P.diagonal(), P.diagonal())) / -np.log(P + TINY)
    return float(_cosines(npmi, npmi.sum(axis=0)).mean())


def frequent_features(fit: Fit, top: int) -> list[Integers]:
    """Per topic the rows of its heaviest features, the heaviest first; none without weight in the topic."""
    order = np.argsort(-fit.topics, axis=0, kind="stable")[:top]
    return [order[fit.F[order[:, k], k] > 0, k] for k in range(fit.n_topics)]


def cooccurrences(counts: Counts, features: Integers) -> Floats:
    """D: how many samples have both of each two of the features; on the diagonal, how many have the one."""
    present = counts.csr[:, features].astype(bool).astype(np.float64)
    return np.asarray((present.T @ present).todense())


def checked_top(fit: Fit, top: int) -> int:
    top = whole("top", top, 2, "use a whole number of features >= 2")
    if top > len(fit.F):
        warn(f"top={top} is more than the {len(fit.F)} features; all of them are taken")
    return min(top, len(fit.F))


def _of_one(together: Floats, features: Integers, n: int) -> dict[str, float]:
    """Of features in the order of their weight."""
    D = together[np.ix_(features, features)]
    seen = D.diagonal() > 0
    D, unseen = D[np.ix_(seen, seen)], int((~seen).sum())
    M = len(D)
    if M < 2:
        nothing = dict.fromkeys(("u_mass", "npmi", "cv_documents"), np.nan)
        return {**nothing, "pairs": 0, "unseen": unseen, "everywhere": np.nan}
    lighter, heavier = np.tril_indices(M, -1)
    alone = D.diagonal()
    npmi = normalised_information(D / n)
    rows = npmi + np.diag(1 - npmi.diagonal())
    return {
        "u_mass": float(np.log((D[lighter, heavier] + 1) / alone[heavier]).sum()),
        "npmi": float(npmi[lighter, heavier].mean()),
        "cv_documents": float(_cosines(rows, rows.sum(axis=0)).mean()),
        "pairs": len(lighter),
        "unseen": unseen,
        "everywhere": float((D[lighter, heavier] > 0.9 * n).mean()),
    }


def normalised_information(P: Floats) -> Floats:
    """npmi of each two features, from the parts of samples that have both; on the diagonal, those that have the one."""
    alone = P.diagonal()
    never, always = P == 0, P >= 1
    safe = np.where(never | always, 0.5, P)
    values = np.log(safe / np.outer(alone, alone)) / -np.log(safe)
    return np.where(never, -1.0, np.where(always, 0.0, values))


def _cosines(rows: Floats, other: Floats) -> Floats:
    """Of each row and another vector; 0 where one of them is zero."""
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(other)
    return np.divide(rows @ other, norms, out=np.zeros(len(rows)), where=norms > 0)


# How good each topic is, in one table: coherent, exclusive, spread over many features or few, unlike the others, and there in
# counts that the fit has not seen.
#
#     exclusivity   mean over the top features of 1 / (0.7 / e + 0.3 / f),  e and f the ranks of f_jk / Σ_l f_jl and of f_jk among
#                   all features, from 0 to 1                                                   (FREX: Bischof and Airoldi 2012)
#     effective     e^entropy: as many features, or samples, as would have the same entropy if all had the same part
#     lift          log of how many times as often held-back counts of the samples that have the topic are of its top features, as
#                   held-back counts of all samples are. Noise has none: the counts that made it are not among those held back.
#
# No number here says how many topics there are: coherence is the highest for few, exclusivity for many.

EXCLUSIVE = 0.7  # the weight of exclusivity in addition of frequency
PERSISTENCE = 0.9  # of a reader who continues to the next feature of two lists (Webber, Moffat and Zobel 2010)
EVERYWHERE = 0.5  # of the pairs: beyond that co-occurrence says little


@dataclass(frozen=True, eq=False, repr=False)
class Quality(Result):
    """What `quality` found.

    Attributes
    ----------
    table : DataFrame
        One row per topic: `topic`, `name`, `share`, the columns of `coherence`, `exclusivity`, `effective_features`,
        `effective_samples`, `from_background` and `nearest` (Hellinger distances to the frequencies of all samples, and to
        the nearest other topic), and where counts were held back `lift` and its standard error `lift_error`.
    diversity : dict
        That of all topics, as `diversity` says it.
    top : int
        How many features of each topic it is about.

    See Also
    --------
    analysis.quality, plot.quality

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> found = um.TopicModel(2, random_state=0).fit(X).result_.quality(X, top=2)
    >>> bool(found.table["effective_features"].between(1, 3).all())
    True
    """

    LAYOUT: ClassVar = FileLayout(columns={"table": columns("topic share everywhere unseen", texts="name")})

    table: pd.DataFrame
    diversity: Record
    top: int

    def advice(self) -> list[str]:
        """Which topics are not coherent, or like another one or all samples; what the table says, as text.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
        >>> found = um.TopicModel(2, random_state=0).fit(X).result_.quality(X, top=2)
        >>> all(isinstance(sentence, str) for sentence in found.advice())
        True
        """
        said = []
        if self.table["everywhere"].mean() > EVERYWHERE:
            said.append(
                "most pairs of top features are in more than 90% of the samples: coherence is not informative here; "
                "unmix.differences shows what distinguishes topics"
            )
        if unseen := int(self.table["unseen"].sum()):
            said.append(f"{unseen} of the top features are in none of the samples and were omitted")
        if {"lift", "lift_error"} <= {*self.table}:
            for row in self.table[~(self.table["lift"] > 2 * self.table["lift_error"])].itertuples():
                said.append(f"topic {row.name} has no lift in the counts held back: it may be noise")
        return said


def quality(
    fit: FitLike, X: CountsLike, top: int = 10, by: By = "frequency", held_out: CountsLike | None = None
) -> Quality:
    """One row per topic: coherence, exclusivity, how wide it is, how unlike others, and what held-back counts say.

    Parameters
    ----------
    fit : Fit, estimator or path
        Whose topics.
    X : Counts, Shards or array-like
        The samples to count co-occurrences in, as in `coherence`.
    top : int, default=10
        How many features of each topic.
    by : str, default="frequency"
        "frequency" or "distinctive": which features, as in `coherence`.
    held_out : Counts or array-like, default=None
        Counts of the fit's samples that it has not seen: `fitted, held_out = X.thinned(2, rng)`.

    Returns
    -------
    Quality
        Its `table` has one row per topic.

    Raises
    ------
    ValueError
        If `top` or `by` is invalid, or `held_out` is of other samples.

    See Also
    --------
    coherence, diversity, analysis.exclusivity, analysis.held_out_lift, plot.quality

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> fit = um.TopicModel(4, tol=1e-4, random_state=0).fit(X).result_
    >>> um.analysis.quality(fit, X).table[["topic", "npmi", "exclusivity", "effective_features"]].shape
    (4, 4)
    """
    fit = fit_of(fit)
    top = checked_top(fit, top)
    about = pd.DataFrame({"topic": np.arange(1, fit.n_topics + 1), "name": topic_names(fit), "share": fit.shares})
    table = about.merge(coherence(fit, X, top, by), on="topic")
    table["exclusivity"] = exclusivity(fit, top)
    table["effective_features"] = _effective(fit.topics)
    table["effective_samples"] = _effective(column_shares(fit.sizes[:, None] * fit.proportions, 1 / len(fit.L)))
    table["from_background"] = np.sqrt(np.clip(1 - np.sqrt(fit.topics).T @ np.sqrt(fit.topics @ fit.shares), 0, 1))
    table["nearest"] = _nearest(fit)
    if held_out is not None:
        table["lift"], table["lift_error"] = held_out_lift(fit, held_out, top)
    return Quality(table, diversity(fit, min(25, len(fit.F))), top)


def exclusivity(fit: FitLike, top: int = 10) -> Floats:
    """For each topic the mean FREX score of its heaviest features: high where they are frequent in the topic and rare in
    others.

    Parameters
    ----------
    fit : Fit, estimator or path
        Whose topics.
    top : int, default=10
        How many features of each topic.

    Returns
    -------
    array, K
        Between 0 and 1.

    Raises
    ------
    ValueError
        If `top` is not a whole number of features, at least 2.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> bool((um.analysis.exclusivity(fit, top=2) > 0.3).all())
    True
    """
    fit = fit_of(fit)
    top = checked_top(fit, top)
    topics, m = fit.topics, len(fit.F)
    own = topics / np.maximum(topics.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    exclusive, frequent = rankdata(own, axis=0) / m, rankdata(topics, axis=0) / m
    scores = 1 / (EXCLUSIVE / exclusive + (1 - EXCLUSIVE) / frequent)
    return np.array(
        [scores[rows, k].mean() if len(rows) else np.nan for k, rows in enumerate(frequent_features(fit, top))]
    )


def diversity(fit: FitLike, top: int = 25) -> dict[str, float]:
    """How unlike the topics of a fit are, all together.

    Parameters
    ----------
    fit : Fit, estimator or path
        Whose topics.
    top : int, default=25
        How many features of each topic.

    Returns
    -------
    dict of str to float
        `distinct`: the part of all K · top features that are different ones; `inverted_rbo`: one less the mean rank-biased
        overlap of two lists; `mean_distance` and `least_distance` of two topics, by Hellinger. All but the first are NaN for
        a single topic.

    Raises
    ------
    ValueError
        If `top` is not a whole number of features, at least 2.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.PoissonNMF.from_factors([[8, 0], [2, 0], [0, 3], [0, 7]]).result_
    >>> um.diversity(fit, top=2)["distinct"]
    1.0
    """
    fit = fit_of(fit)
    top = checked_top(fit, top)
    lists, (one, two) = frequent_features(fit, top), np.triu_indices(fit.n_topics, 1)
    overlaps = [_overlap(lists[a], lists[b], top) for a, b in zip(one, two, strict=True)]
    distances = topic_distances(fit)[one, two]
    several = fit.n_topics > 1
    return {
        "distinct": len(np.unique(np.concatenate(lists))) / max(1, sum(map(len, lists))),
        "inverted_rbo": float(1 - np.mean(overlaps)) if several else np.nan,
        "mean_distance": float(distances.mean()) if several else np.nan,
        "least_distance": float(distances.min()) if several else np.nan,
    }


class Lift(NamedTuple):
    """Of each topic, in natural logarithms, and its standard error over samples."""

    lift: Floats
    error: Floats


def held_out_lift(fit: FitLike, held_out: CountsLike, top: int = 10) -> Lift:
    """How many times as often a topic's top features are among counts that the fit has not seen, in samples that have it.

    In logarithms: about zero for a topic that is made of noise.

    Parameters
    ----------
    fit : Fit, estimator or path
        A fit to a part of the counts.
    held_out : Counts or array-like
        Other counts of the same samples and features: `fitted, held_out = X.thinned(2, rng)`. They are found by name where
        both have names.
    top : int, default=10
        How many features of each topic.

    Returns
    -------
    named tuple of two arrays, K
        `lift` and its standard `error` over samples.

    Raises
    ------
    ValueError
        If the samples are others, or `top` is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import unmix as um
    >>> fitted, held_out = um.datasets.correlated_topics("A").thinned(2, np.random.default_rng(0))
    >>> fit = um.TopicModel(4, tol=1e-4, random_state=0).fit(fitted).result_
    >>> bool((um.analysis.held_out_lift(fit, held_out).lift > 0).all())
    True
    """
    fit = fit_of(fit)
    top = checked_top(fit, top)
    refuse_multipliers(fit, "held_out_lift")
    counts = counts_of(fit, held_out, "held_out_lift", "held_out")
    totals, lifts, errors = counts.sample_totals, [], []
    for k, features in enumerate(frequent_features(fit, top)):
        own = np.asarray(counts.csr[:, features].sum(axis=1)).ravel()
        weights = fit.proportions[:, k]
        inside, outside = (weights @ own, weights @ totals), (own.sum(), totals.sum())
        if min(*inside, *outside) <= 0:
            lifts.append(np.nan if min(inside[1], outside[0]) <= 0 else -np.inf)
            errors.append(np.nan)
            continue
        lifts.append(np.log(inside[0] / inside[1] * outside[1] / outside[0]))
        # by the delta method: what one sample more or less changes
        change = weights * (own / inside[0] - totals / inside[1]) - (own / outside[0] - totals / outside[1])
        errors.append(np.sqrt((change**2).sum()))
    return Lift(np.array(lifts), np.array(errors))


def _nearest(fit: Fit) -> Floats:
    """The distance of each topic to the nearest other one."""
    if fit.n_topics == 1:
        return np.array([np.nan])
    return (topic_distances(fit) + np.diag(np.full(fit.n_topics, np.inf))).min(axis=0)


def _effective(parts: Floats) -> Floats:
    """e^entropy of each column."""
    logs = np.log(parts, out=np.zeros_like(parts), where=parts > 0)
    return np.exp(-(parts * logs).sum(axis=0))


def _overlap(one: Integers, two: Integers, top: int) -> float:
    """Rank-biased overlap of two lists, cut after `top` and divided by what two equal lists would have."""
    weights = PERSISTENCE ** np.arange(top)
    shared = [len(np.intersect1d(one[:depth], two[:depth])) / depth for depth in range(1, top + 1)]
    return float(weights @ shared / weights.sum())
