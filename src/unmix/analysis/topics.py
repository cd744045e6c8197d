"""How every table and every picture orders and numbers topics."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Protocol

import numpy as np

from unmix.fit import Fit
from unmix.types import Integers


class HasTopics(Protocol):
    """A fit, or what was found of one."""

    @property
    def n_topics(self) -> int: ...


def topic_order(fit: Fit) -> Integers:
    """Topics from the heaviest to the lightest: the order in which every view shows them.

    Parameters
    ----------
    fit : Fit
        Whose topics.

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
    return np.argsort(-fit.shares, kind="stable")


def topic_place(fit: HasTopics, number: int) -> int:
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
    """A name of at most so many letters."""
    return name if len(name) <= longest else name[: longest - 1] + "…"
