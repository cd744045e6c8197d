"""How many threads the kernels use. It changes how long a result takes and never the result, so it is no parameter of anything
below the estimators: whoever knows the number says it once, around all that follows.

    with use_threads(4):
        ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from unmix.base.checks import whole

_chosen: ContextVar[int | None] = ContextVar("threads", default=None)


def threads() -> int:
    """What was said last, or as many as there are cores for this process."""
    return _chosen.get() or available()


def available() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def use_threads(n_jobs: int | None) -> Iterator[None]:
    """None or −1 are all cores."""
    remedy = "give a number of threads >= 1, or None or -1 for all cores"
    token = _chosen.set(None if n_jobs is None or n_jobs == -1 else whole("n_jobs", n_jobs, 1, remedy))
    try:
        yield
    finally:
        _chosen.reset(token)
