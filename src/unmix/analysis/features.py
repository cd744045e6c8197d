"""What sets a topic apart, by one formula wherever features are listed or named: tables, terminal, pictures, page.

With f the share of a feature in the topic, g that in all other topics together, N the expected counts of the topic or of the
others, whichever are fewer, and c = 1 count

    lift = (N f + c) / (N g + c)        score = f log lift

So c counts are added to what the topic has, and to what it would have if it were like the others: features with many counts
hardly change, and those with few, whose shares are mostly chance, go to a lift of one.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from unmix.analysis.topics import short, topic_place
from unmix.fit import Fit
from unmix.types import Floats, Integers

LONGEST_FEATURE = 16  # letters, in the name of a topic
NO_FEATURES = "no features"  # the name of a topic that is empty


def lifts(fit: Fit, pseudocount: float = 1.0) -> Floats:
    """How many times as much each topic uses each feature as the other topics do, m × K; 1 throughout if there is one topic."""
    counts = fit.sizes @ fit.proportions
    others = counts.sum() - counts
    rest = np.maximum((fit.topics @ counts)[:, None] - fit.topics * counts, 0) / np.maximum(
        others, np.finfo(float).tiny
    )
    return _lift(fit.topics, rest, np.minimum(counts, others), pseudocount)


def _lift(f: Floats, g: Floats, counts: Floats, pseudocount: float) -> Floats:
    if pseudocount <= 0:
        raise ValueError(f"pseudocount: {pseudocount} is not above 0, where absent features have no logarithm")
    return (counts * f + pseudocount) / (counts * g + pseudocount)


def distinctive_features(fit: Fit, n: int | None = None) -> list[Integers]:
    """Per topic the rows of its n most distinctive features, the most distinctive first; none without weight in the topic."""
    scores = fit.topics * np.log(lifts(fit))
    best = []
    for k in range(fit.n_topics):
        present = np.flatnonzero(fit.F[:, k] > 0)
        best.append(present[np.lexsort((-fit.topics[present, k], -scores[present, k]))[:n]])
    return best


def top_features(fit: Fit, n: int = 10) -> pd.DataFrame:
    """The n most distinctive features of each topic: the largest share in the topic × log lift.

    So what is merely frequent everywhere comes last. The lift says how many times as frequent a feature is in the topic as in
    the others, one count added on both sides.
    """
    best = distinctive_features(fit, n)
    topics, places = np.repeat(np.arange(fit.n_topics), [len(rows) for rows in best]), np.concatenate(best)
    return pd.DataFrame(
        {
            "topic": topics + 1,
            "rank": np.concatenate([np.arange(1, len(rows) + 1) for rows in best]),
            "feature": np.array(feature_names(fit))[places],
            "share": fit.topics[places, topics],
            "lift": lifts(fit)[places, topics],
        }
    )


def log_fold_change(
    fit: Fit, topic: int, against: Literal["rest", "next"] = "rest", pseudocount: float = 1.0
) -> Floats:
    """log₂ lift of each feature in a topic, given by its number.

    Against "next" the share g, and the counts N, are those of that other topic which uses the feature most.
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
    g = fit.topics[np.arange(len(nearest)), nearest]
    return np.log2(_lift(fit.topics[:, k], g, np.minimum(counts[k], counts[nearest]), pseudocount))


def topic_names(fit: Fit, n_features: int = 3) -> list[str]:
    """ "4: war, peace, nations": the number of each topic and its most distinctive features."""
    names = feature_names(fit)
    cut = [[short(names[j], LONGEST_FEATURE) for j in rows] for rows in distinctive_features(fit, n_features)]
    return [f"{k + 1}: {', '.join(features) or NO_FEATURES}" for k, features in enumerate(cut)]


def feature_names(fit: Fit) -> list[str]:
    return [f"feature {j}" for j in range(len(fit.F))] if fit.features is None else fit.features.tolist()
