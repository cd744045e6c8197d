"""Which engine goes over shards. It changes where and how long a fit runs and never its result, so it is said once, around all
that follows, like the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from unmix.engines.base import Engine
from unmix.engines.local import Local

_chosen: ContextVar[Engine | None] = ContextVar("engine", default=None)


def engine() -> Engine:
    """What was said last, or one of this machine for the occasion."""
    return _chosen.get() or Local()


@contextmanager
def use_engine(chosen: Engine) -> Iterator[Engine]:
    token = _chosen.set(chosen)
    try:
        yield chosen
    finally:
        _chosen.reset(token)
