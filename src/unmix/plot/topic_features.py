"""What sets a topic apart: how much more it uses each feature than other topics do, against how frequent it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from unmix.analysis import log_fold_change, topic_names
from unmix.analysis.features import distinctiveness, feature_names
from unmix.analysis.topics import short, topic_place
from unmix.fit import Fit
from unmix.plot.labels import place_labels
from unmix.plot.palette import topic_colours
from unmix.plot.style import MANY_POINTS, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_LABEL = 20  # letters
LOWEST_FREQUENCY = 1e-3  # of the average one, where the picture ends


def topic_features(
    fit: Fit,
    topic: int,
    against: Literal["rest", "next"] = "rest",
    n: int = 20,
    pseudocount: float = 1.0,
    ax: Axes | None = None,
) -> Axes:
    """One point per feature: its frequency in all samples (across), and log₂ of its lift in the topic (up).

    Frequencies below a thousandth of the average are shown as that.

    Parameters
    ----------
    fit : Fit
        Of any model.
    topic : int
        The number of the topic, from 1.
    against : str, default="rest"
        "rest": compared with the other topics, weighted by their shares. "next": with that one of them that uses the
        feature most, which only features of this topic alone survive.
    n : int, default=20
        The most distinctive features, by √share × log lift, get their names, as far as there is room.
    pseudocount : float, default=1.0
        Counts added to both sides of the comparison. The larger, the closer to zero are features with few counts, whose
        frequencies are mostly noise. See `unmix.analysis.log_fold_change`.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If there is no such topic, or no other one to compare with.

    See Also
    --------
    plot.volcano : The same question with errors.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.topic_features(fit, 1)
    """
    k = topic_place(fit, topic)
    changes, overall = log_fold_change(fit, topic, against, pseudocount), fit.topics @ fit.shares
    seen = np.flatnonzero(overall > 0)
    overall = np.maximum(overall, LOWEST_FREQUENCY / len(overall))
    scores = distinctiveness(fit.topics[:, k], 2**changes)
    named = np.argsort(-scores, kind="stable")[: max(n, 0)]
    named = named[scores[named] > 0]
    ax = new_axes(8, 5.5) if ax is None else ax
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0.5)
    ax.scatter(overall[seen], changes[seen], s=6, color="0.75", linewidths=0, rasterized=len(seen) > MANY_POINTS)
    ax.scatter(overall[named], changes[named], s=18, color=topic_colours(fit)[k], linewidths=0, zorder=2)
    ax.set_xscale("log")
    ax.margins(x=0.06, y=0.06)
    tidy(ax)
    ax.set_title("topic " + topic_names(fit)[k], loc="left", fontsize=11, parse_math=False)
    ax.set_xlabel("frequency in all samples")
    ax.set_ylabel("log₂ lift: frequency in the topic / in " + {"rest": "the others", "next": "the next"}[against])
    names = feature_names(fit)
    place_labels(ax, overall[named], changes[named], [short(names[j], LONGEST_LABEL) for j in named])
    return ax
