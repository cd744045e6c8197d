"""What sets a topic apart, by one formula wherever features are listed or named: tables, terminal, pictures, page.

With f the share of a feature in the topic, g that in all other topics together, N the expected counts of the topic or of the
others, whichever are fewer, and c = 1 count

    lift = (N f + c) / (N g + c)        score = √f log lift

So c counts are added to what the topic has, and to what it would have if it were like the others: features with many counts
hardly change, and those with few, whose shares are mostly chance, go to a lift of one. As the logarithm of n counts has an
error of about 1/√n, features stand by how many errors their log lift is above zero.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from unmix.analysis.topics import short, topic_place
from unmix.fit import Fit
from unmix.types import Floats, Integers

LONGEST_FEATURE = 16  # letters, in the name of a topic
LONGEST_NAME = 48  # letters of a name that a topic was given


def lifts(fit: Fit, pseudocount: float = 1.0) -> Floats:
    """How many times as much each topic uses each feature as the other topics do.

    Parameters
    ----------
    fit : Fit
        Whose topics.
    pseudocount : float, default=1.0
        Counts added to both sides. The larger, the closer to one are features with few counts, whose shares are mostly noise.

    Returns
    -------
    array, m × K
        1 throughout if there is one topic.

    Raises
    ------
    ValueError
        If the pseudocount is not above 0.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> (um.analysis.lifts(fit) > 1)[[0, 2]].tolist()
    [[True, False], [False, True]]
    """
    counts = fit.sizes @ fit.proportions
    others = counts.sum() - counts
    fewer = np.minimum(counts, others)
    in_others = np.maximum((fit.topics @ counts)[:, None] - fit.topics * counts, 0)
    return _lift(fewer * fit.topics, fewer / np.maximum(others, np.finfo(float).tiny) * in_others, pseudocount)


def _lift(own: Floats, other: Floats, pseudocount: float) -> Floats:
    """(N f + c) / (N g + c)"""
    if pseudocount <= 0:
        raise ValueError(f"pseudocount: {pseudocount} is not above 0, where absent features have no logarithm")
    return (own + pseudocount) / (other + pseudocount)


def distinctiveness(shares: Floats, lift: Floats) -> Floats:
    """√share × log lift: above zero for what a topic uses more than the others do, and more so the more counts show it."""
    return np.sqrt(shares) * np.log(lift)


def distinctive_features(fit: Fit, n: int | None = None) -> list[Integers]:
    """Per topic the rows of its most distinctive features, the most distinctive first.

    Parameters
    ----------
    fit : Fit
        Whose topics.
    n : int, default=None
        How many of each topic; None for all.

    Returns
    -------
    list of arrays of int
        One a topic; features without weight in the topic are in none.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> [rows.tolist() for rows in um.analysis.distinctive_features(fit, 1)]
    [[0], [2]]
    """
    scores = distinctiveness(fit.topics, lifts(fit))
    best = []
    for k in range(fit.n_topics):
        present = np.flatnonzero(fit.F[:, k] > 0)
        best.append(present[np.lexsort((-fit.topics[present, k], -scores[present, k]))[:n]])
    return best


def top_features(fit: Fit, n: int = 10) -> pd.DataFrame:
    """The n most distinctive features of each topic: those of the largest √share × log lift.

    So neither what is frequent everywhere nor what is rare leads. The lift says how many times as frequent a feature is in the
    topic as in the others, one count added on both sides.

    Parameters
    ----------
    fit : Fit
        Whose topics.
    n : int, default=10
        How many of each topic.

    Returns
    -------
    DataFrame
        A row a feature: `topic`, `rank`, `feature`, `share` and `lift`.

    See Also
    --------
    differences : The same question with errors.
    plot.top_features : The picture.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> um.analysis.top_features(fit, 1)[["topic", "feature"]].values.tolist()
    [[1, 'ant'], [2, 'cat']]
    """
    best = distinctive_features(fit, n)
    topics, places = np.repeat(np.arange(fit.n_topics), [len(rows) for rows in best]), np.concatenate(best)
    named = {} if fit.names is None else {"name": np.array(fit.labels, dtype=object)[topics]}
    return pd.DataFrame(
        {
            "topic": topics + 1,
            **named,
            "rank": np.concatenate([np.arange(1, len(rows) + 1) for rows in best]),
            "feature": np.array(feature_names(fit), dtype=object)[places],
            "share": fit.topics[places, topics],
            "lift": lifts(fit)[places, topics],
        }
    )


def log_fold_change(
    fit: Fit, topic: int, against: Literal["rest", "next"] = "rest", pseudocount: float = 1.0
) -> Floats:
    """log₂ lift of each feature in a topic.

    Parameters
    ----------
    fit : Fit
        Whose topics; at least two.
    topic : int
        Its number, from 1.
    against : str, default="rest"
        "rest": all other topics together. "next": the share g, and the counts N, are those of that other topic which uses the
        feature most.
    pseudocount : float, default=1.0
        Counts added to both sides.

    Returns
    -------
    array, m
        Above 0 for what the topic uses more.

    Raises
    ------
    ValueError
        If there is no such topic, or no other one; if `against` or the pseudocount does not mean anything.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> (um.analysis.log_fold_change(fit, 1) > 0).tolist()
    [True, True, False]
    """
    k = topic_place(fit, topic)
    if fit.n_topics == 1:
        raise ValueError("the fit has one topic only; there is none to compare it with")
    if against == "rest":
        return np.log2(lifts(fit, pseudocount)[:, k])
    if against != "next":
        raise ValueError(f"against: {against!r} is unknown; choose 'rest' or 'next'")
    others, counts = np.delete(np.arange(fit.n_topics), k), fit.sizes @ fit.proportions
    nearest = others[fit.topics[:, others].argmax(axis=1)]
    fewer = np.minimum(counts[k], counts[nearest])
    in_nearest = fit.topics[np.arange(len(nearest)), nearest]
    return np.log2(_lift(fewer * fit.topics[:, k], fewer * in_nearest, pseudocount))


def topic_names(fit: Fit, n_features: int = 3) -> list[str]:
    """ "4: war, peace, nations": the number of each topic and its most distinctive features, or the name that it was given.

    Parameters
    ----------
    fit : Fit
        Whose topics.
    n_features : int, default=3
        How many features make up a name.

    Returns
    -------
    list of str
        One a topic.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> um.analysis.topic_names(um.TopicModel(2, random_state=0).fit(X).result_, n_features=1)
    ['1: ant', '2: cat']
    """
    names = feature_names(fit)
    cut = [[short(names[j], LONGEST_FEATURE) for j in rows] for rows in distinctive_features(fit, n_features)]
    given = [""] * fit.n_topics if fit.names is None else [short(name, LONGEST_NAME) for name in fit.names]
    return [f"{k + 1}: {given[k] or ', '.join(features) or 'no features'}" for k, features in enumerate(cut)]


def feature_names(fit: Fit) -> list[str]:
    """The names of all features; "feature 0", "feature 1", ... where the fit has none."""
    return [f"feature {j}" for j in range(len(fit.F))] if fit.features is None else fit.features.tolist()
