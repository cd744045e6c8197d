"""How every view orders, colours, names and picks topics. Needs no matplotlib."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

import numpy as np
from numpy.typing import NDArray

from unmix.fit import Fit
from unmix.plot.palette import palette

LONGEST_FEATURE = 16  # letters of a name

Integers = NDArray[np.intp]


def topic_order(fit: Fit) -> Integers:
    """Topics from the heaviest to the lightest: the order in which every view shows them."""
    return np.argsort(-fit.shares, kind="stable")


def topic_colours(fit: Fit) -> list[str]:
    """The colour of each topic, given out in `topic_order` so that neighbours in a stack differ most."""
    colours = [""] * fit.n_topics
    for topic, colour in zip(topic_order(fit), palette(fit.n_topics), strict=True):
        colours[topic] = colour
    return colours


def topic_names(fit: Fit, n_features: int = 3) -> list[str]:
    """ "4: war, peace, nations": the number of each topic and its most distinctive features."""
    features = {topic: rows["feature"] for topic, rows in fit.top_features(n_features).groupby("topic")}
    return [
        f"{k + 1}: " + ", ".join(short(name, LONGEST_FEATURE) for name in features[k + 1]) for k in range(fit.n_topics)
    ]


def feature_names(fit: Fit) -> list[str]:
    return [f"feature {j}" for j in range(len(fit.F))] if fit.features is None else fit.features.tolist()


def topic_place(fit: Fit, number: int) -> int:
    """The column of a topic, by the number it has in tables and pictures."""
    try:
        place = index(number) - 1
    except TypeError:
        raise ValueError(f"a topic is given by its number, 1 to {fit.n_topics}, not by {number!r}") from None
    if not 0 <= place < fit.n_topics:
        raise ValueError(f"there is no topic {number}; this fit has topics 1 to {fit.n_topics}")
    return place


def topic_places(fit: Fit, numbers: int | Iterable[int] | None) -> list[int]:
    """The columns of several topics in the order given; of all of them, heaviest first, if none are."""
    if numbers is None:
        return topic_order(fit).tolist()
    places = [topic_place(fit, number) for number in (numbers if isinstance(numbers, Iterable) else [numbers])]
    if not places:
        raise ValueError("topics: the list is empty; give at least one number, or None for all topics")
    return places


def short(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
