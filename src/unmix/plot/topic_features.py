"""What sets a topic apart: how much more it uses each feature than other topics do, against how frequent it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from unmix.fit import Fit
from unmix.plot.labels import place_labels
from unmix.plot.match import Floats
from unmix.plot.style import MANY_POINTS, new_axes, tidy
from unmix.plot.topics import feature_names, short, topic_colours, topic_names, topic_place

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_LABEL = 20


def topic_features(
    fit: Fit,
    topic: int,
    against: Literal["rest", "next"] = "rest",
    n: int = 25,
    pseudocount: float = 1.0,
    ax: Axes | None = None,
) -> Axes:
    """A point a feature: its frequency in all samples (across), and log₂ of how much more the topic uses it (up).

    Parameters
    ----------
    topic
        The number of the topic, from 1.
    against
        "rest": compared with the other topics, weighted by their shares. "next": with that one of them that uses the
        feature most, which only features of this topic alone survive.
    n
        The most distinctive features get their names, as far as there is room.
    pseudocount
        Counts added to both sides of the comparison. The larger, the closer to zero are features with few counts, whose
        frequencies are mostly noise. See `log_fold_change`.
    ax
        Where to draw; by default a new figure.
    """
    k = topic_place(fit, topic)
    changes, overall = log_fold_change(fit, k, against, pseudocount), fit.topics @ fit.shares
    seen = np.flatnonzero(overall > 0)
    # The most distinctive ones are far up, and more so the more counts there are to prove it.
    strength = np.where(changes > 0, changes * np.sqrt(fit.topics[:, k]), 0)
    named = np.argsort(-strength, kind="stable")[: max(n, 0)]
    named = named[strength[named] > 0]
    ax = new_axes(8, 5.5) if ax is None else ax
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0.5)
    many = len(seen) > MANY_POINTS
    ax.scatter(overall[seen], changes[seen], s=6, color="0.75", linewidths=0, rasterized=many)
    ax.scatter(overall[named], changes[named], s=18, color=topic_colours(fit)[k], linewidths=0, zorder=2)
    ax.set_xscale("log")
    ax.margins(x=0.06, y=0.06)
    tidy(ax)
    ax.set_title("topic " + topic_names(fit)[k], loc="left", fontsize=11, parse_math=False)
    ax.set_xlabel("frequency in all samples")
    ax.set_ylabel("log₂ of frequency in the topic / in " + {"rest": "the others", "next": "the next"}[against])
    names = feature_names(fit)
    place_labels(ax, overall[named], changes[named], [short(names[j], LONGEST_LABEL) for j in named])
    return ax


def log_fold_change(fit: Fit, k: int, against: Literal["rest", "next"] = "rest", pseudocount: float = 1.0) -> Floats:
    """log₂ (N f + c) / (N g + c) for each feature, c the pseudocount.

    f is the frequency of the feature in topic k and g that in what it is compared with. N is the number of counts of the
    topic or of the other side, whichever has fewer. So c counts are added to what the topic has, and to what it would have
    if it were like the other side: features with many counts hardly change, those with few go to zero.
    """
    if fit.n_topics == 1:
        raise ValueError("the fit has one topic only; there is none to compare it with")
    if pseudocount <= 0:
        raise ValueError(f"pseudocount: {pseudocount} is not above 0, where absent features have no logarithm")
    counts, f = fit.sizes @ fit.proportions, fit.topics[:, k]
    others = np.delete(np.arange(fit.n_topics), k)
    if against == "rest":
        total = counts[others].sum()
        g = fit.topics[:, others] @ (counts[others] / max(total, np.finfo(float).tiny))
        N = np.minimum(counts[k], total)
    elif against == "next":
        nearest = others[fit.topics[:, others].argmax(axis=1)]
        g = fit.topics[np.arange(len(f)), nearest]
        N = np.minimum(counts[k], counts[nearest])
    else:
        raise ValueError(f"against: {against!r} is unknown; choose 'rest' or 'next'")
    return np.log2((N * f + pseudocount) / (N * g + pseudocount))
