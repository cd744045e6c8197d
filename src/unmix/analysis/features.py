"""Features and places of topics: the most distinctive features, orders of samples, a map of topics.

Places for samples and topics: an order of samples with like next to like, and a map of topics.

Both rest on the Hellinger distance (`unmix.models.poisson`) between proportions, or topics, p and q:

    H(p, q) = ‖√p − √q‖ / √2,   0 where they are equal, 1 where they have nothing in common.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Literal, Protocol, cast

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import leaves_list, linkage

from unmix.analysis.application import FitLike, fit_of
from unmix.analysis.samples import fair_sample
from unmix.base.checks import choice, positive, short
from unmix.base.types import Floats, Integers

LANDMARKS = 500  # samples in the tree; its best order of leaves takes cubic time
SAMPLES_AT_ONCE = 4096  # whose distances to all landmarks are in memory
ROUNDS = 300  # of stress majorisation


def similarity_order(proportions: Floats) -> Integers:
    """All samples, in an order in which like samples are together.

    A fair part of them, the landmarks, stand as the leaves of a tree, turned so that neighbours are as near as they can be.
    Every other sample stands with its nearest landmark, on the side of the neighbour that it leans to.

    Parameters
    ----------
    proportions : array, n × K
        As `Fit.proportions`.

    Returns
    -------
    array of int, n
        Places of samples.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> order = um.analysis.similarity_order(np.array([[1, 0], [0, 1], [0.9, 0.1], [0.1, 0.9]]))
    >>> sorted(order[:2].tolist()) in ([0, 2], [1, 3])
    True
    """
    points = np.sqrt(proportions)
    landmarks = fair_sample(proportions.argmax(axis=1), LANDMARKS)
    if len(landmarks) < 3:
        return np.argsort(-proportions[:, 0], kind="stable")
    tree = linkage(points[landmarks], method="ward", optimal_ordering=True)
    line = points[landmarks[leaves_list(tree)]]
    halves = (line**2).sum(axis=1) / 2
    blocks = [points[start : start + SAMPLES_AT_ONCE] for start in range(0, len(points), SAMPLES_AT_ONCE)]
    nearest = np.concatenate([np.argmax(block @ line.T - halves, axis=1) for block in blocks])  # max of p·c − ‖c‖²/2
    padded = np.vstack([line[:1], line, line[-1:]])
    leaning = np.einsum("ij,ij->i", points - line[nearest], (padded[2:] - padded[:-2])[nearest])
    return np.lexsort([leaning, nearest])


def topic_map(distances: Floats) -> Floats:
    """Places of the topics in the plane whose distances are near the given ones (metric multidimensional scaling).

    From the two leading axes of the centred squared distances, by rounds of stress majorisation (de Leeuw 1977): each
    topic moves to the average of the places where the others would have it.

    Parameters
    ----------
    distances : array, K × K
        As `topic_distances` gives them.

    Returns
    -------
    array, K × 2
        Places.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> places = um.analysis.topic_map(np.array([[0, 3, 4], [3, 0, 5], [4, 5, 0]]))
    >>> float(np.linalg.norm(places[1] - places[2]).round(3))
    5.0
    """
    K = len(distances)
    centring = np.eye(K) - 1 / K
    values, vectors = leading_axes(-0.5 * centring @ distances**2 @ centring)
    places = vectors * np.sqrt(np.maximum(values, 0))
    for _ in range(ROUNDS if K > 2 else 0):
        between = places[:, None] - places[None]
        apart = np.maximum(np.sqrt((between**2).sum(axis=-1)), 1e-9)
        places = ((distances / apart)[..., None] * between).sum(axis=1) / K
    return places


def leading_axes(matrix: Floats) -> tuple[Floats, Floats]:
    """The two largest eigenvalues of a symmetric matrix and their vectors, zeros for the second where there is one only."""
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1][:2], vectors[:, ::-1][:, :2]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), range(len(values))])  # which eigenvectors do not have
    absent = 2 - len(values)
    return np.pad(values, (0, absent)), np.pad(vectors * signs, ((0, 0), (0, absent)))


# How every table and every figure orders and numbers topics.


class HasTopics(Protocol):
    """A fit, or what was found of one."""

    @property
    def n_topics(self) -> int: ...

    @property
    def shares(self) -> Floats: ...


def topic_order(fit: HasTopics | FitLike) -> Integers:
    """Topics from the heaviest to the lightest: the order in which every view shows them.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.

    Returns
    -------
    array of int, K
        Columns of the fit.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> um.analysis.topic_order(fit).tolist()
    [0, 1]
    """
    return np.argsort(-as_topics(fit).shares, kind="stable")


def as_topics(fit: HasTopics | FitLike) -> HasTopics:
    return cast("HasTopics", fit) if hasattr(fit, "shares") else fit_of(cast("FitLike", fit))


def topic_place(fit: HasTopics, number: int) -> int:
    """The column of a topic, by the number it has in tables and figures."""
    try:
        place = index(number) - 1
    except TypeError:
        raise ValueError(f"a topic is given by its number, 1 to {fit.n_topics}, not by {number!r}") from None
    if not 0 <= place < fit.n_topics:
        raise ValueError(f"there is no topic {number}; this fit has topics 1 to {fit.n_topics}")
    return place


def topic_places(fit: HasTopics, numbers: int | Iterable[int] | None) -> list[int]:
    """The columns of several topics in the order given; of all of them, heaviest first, if none are."""
    if numbers is None:
        return topic_order(fit).tolist()
    places = [topic_place(fit, number) for number in (numbers if isinstance(numbers, Iterable) else [numbers])]
    if not places:
        raise ValueError("topics: the list is empty; use at least one number, or None for all topics")
    return places


# What sets a topic apart, by one formula wherever features are listed or named: tables, terminal, figures, page.
#
# With f the share of a feature in the topic, g that in all other topics together, N the expected counts of the topic or of the
# others, whichever are fewer, and c = 1 count
#
#     lift = (N f + c) / (N g + c)        score = √f log lift
#
# So c counts are added to what the topic has, and to what it would have if it were like the others: features with many counts
# are almost unchanged, and those with few counts, whose shares are mostly chance, go to a lift of one. As the logarithm of n
# counts has an error of about 1/√n, features are by how many errors their log lift is above zero.

ROUNDING = 1e-9  # of a lift: in equal topics all are 1
LONGEST_FEATURE = 16  # letters, in the name of a topic
LONGEST_NAME = 48  # letters of a name that a topic was given


def lifts(fit: FitLike, pseudocount: float = 1.0) -> Floats:
    """How many times as much each topic uses each feature as the other topics do.

    Parameters
    ----------
    fit : Fit, estimator or path
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
    fit = fit_of(fit)
    counts = fit.sizes @ fit.proportions
    others = counts.sum() - counts
    fewer = np.minimum(counts, others)
    in_others = np.maximum((fit.topics @ counts)[:, None] - fit.topics * counts, 0)
    return _lift(fewer * fit.topics, fewer / np.maximum(others, np.finfo(float).tiny) * in_others, pseudocount)


def _lift(own: Floats, other: Floats, pseudocount: float) -> Floats:
    """(N f + c) / (N g + c)"""
    positive("pseudocount", pseudocount)
    return (own + pseudocount) / (other + pseudocount)


def distinctiveness(shares: Floats, lift: Floats) -> Floats:
    """√share × log lift: above zero for what a topic uses more than the others do, and more so the more counts show it."""
    return np.sqrt(shares) * np.log(lift)


def distinctive_features(fit: FitLike, n: int | None = None) -> list[Integers]:
    """Per topic the rows of its most distinctive features, the most distinctive first.

    Parameters
    ----------
    fit : Fit, estimator or path
        Whose topics.
    n : int, default=None
        How many of each topic; None for all.

    Returns
    -------
    list of arrays of int
        One per topic; features without weight in the topic are in none.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> [rows.tolist() for rows in um.analysis.distinctive_features(fit, 1)]
    [[0], [2]]
    """
    fit = fit_of(fit)
    lift = lifts(fit)
    scores, best = distinctiveness(fit.topics, lift), []
    for k in range(fit.n_topics):
        present = np.flatnonzero((fit.F[:, k] > 0) & (lift[:, k] > 1 - ROUNDING))
        best.append(present[np.lexsort((-fit.topics[present, k], -scores[present, k]))[:n]])
    return best


def top_features(fit: FitLike, n: int = 10) -> pd.DataFrame:
    """The n most distinctive features of each topic: those of the largest √share × log lift.

    So neither what is frequent everywhere nor what is rare leads. The lift says how many times as frequent a feature is in the
    topic as in the others, one count added on both sides.

    Parameters
    ----------
    fit : Fit, estimator or path
        Whose topics.
    n : int, default=10
        How many of each topic.

    Returns
    -------
    DataFrame
        One row per feature: `topic`, `rank`, `feature`, `share` and `lift`.

    See Also
    --------
    differences : The same question with errors.
    plot.top_features : The figure.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> um.analysis.top_features(fit, 1)[["topic", "feature"]].values.tolist()
    [[1, 'ant'], [2, 'cat']]
    """
    fit = fit_of(fit)
    best = distinctive_features(fit, n)
    topics, places = np.repeat(np.arange(fit.n_topics), [len(rows) for rows in best]), np.concatenate(best)
    named = {} if fit.names is None else {"name": np.array(fit.labels, dtype=object)[topics]}
    return pd.DataFrame(
        {
            "topic": topics + 1,
            **named,
            "rank": np.concatenate([np.arange(1, len(rows) + 1) for rows in best]),
            "feature": fit.feature_names.astype(object)[places],
            "share": fit.topics[places, topics],
            "lift": lifts(fit)[places, topics],
        }
    )


def log_fold_change(
    fit: FitLike, topic: int, against: Literal["rest", "next"] = "rest", pseudocount: float = 1.0
) -> Floats:
    """log₂ lift of each feature in a topic.

    Parameters
    ----------
    fit : Fit, estimator or path
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
        If there is no such topic, or no other one; if `against` or the pseudocount is invalid.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> (um.analysis.log_fold_change(fit, 1) > 0).tolist()
    [True, True, False]
    """
    fit = fit_of(fit)
    k = topic_place(fit, topic)
    if fit.n_topics == 1:
        raise ValueError("the fit has one topic only; there is none to compare it with")
    if against == "rest":
        return np.log2(lifts(fit, pseudocount)[:, k])
    choice("against", against, ("rest", "next"))
    others, counts = np.delete(np.arange(fit.n_topics), k), fit.sizes @ fit.proportions
    nearest = others[fit.topics[:, others].argmax(axis=1)]
    fewer = np.minimum(counts[k], counts[nearest])
    in_nearest = fit.topics[np.arange(len(nearest)), nearest]
    return np.log2(_lift(fewer * fit.topics[:, k], fewer * in_nearest, pseudocount))


def topic_names(fit: FitLike, n_features: int = 3) -> list[str]:
    """ "4: war, peace, nations": the number of each topic and its most distinctive features, or the name that it was given.

    Parameters
    ----------
    fit : Fit, estimator or path
        Whose topics.
    n_features : int, default=3
        How many features make up a name.

    Returns
    -------
    list of str
        One per topic.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> um.analysis.topic_names(um.TopicModel(2, random_state=0).fit(X).result_, n_features=1)
    ['1: ant', '2: cat']
    """
    fit = fit_of(fit)
    names = fit.feature_names.tolist()
    cut = [[short(names[j], LONGEST_FEATURE) for j in rows] for rows in distinctive_features(fit, n_features)]
    given = [""] * fit.n_topics if fit.names is None else [short(name, LONGEST_NAME) for name in fit.names]
    return [f"{k + 1}: {given[k] or ', '.join(features) or 'no features'}" for k, features in enumerate(cut)]
