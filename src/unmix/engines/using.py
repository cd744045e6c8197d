"""The engine that a fit uses."""

from __future__ import annotations

from unmix.engines.base import Engine, chosen_engine
from unmix.engines.local import Local
from unmix.shards import Shards


def engine(shards: Shards, n_topics: int) -> Engine:
    """What was said last, or one of this machine for the occasion; an error if it could not do this fit."""
    chosen = chosen_engine() or Local()
    chosen.require(shards, n_topics)
    return chosen
