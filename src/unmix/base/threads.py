"""How many threads the kernels use. It changes how long a result takes and never the result, so it is no parameter of anything
below the estimators: anyone who knows the number says it once, around all that follows.

    with use_threads(4):
        ...

And `prefetch`, which reads ahead in a thread.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from unmix.base.checks import whole

T = TypeVar("T")
_chosen: ContextVar[int | None] = ContextVar("threads", default=None)


def threads() -> int:
    """What was said last, or as many as there are cores for this process."""
    return _chosen.get() or available()


def available() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def use_threads(n_jobs: int | None) -> Iterator[None]:
    """None or −1 are all cores."""
    remedy = "use a number of threads >= 1, or None or -1 for all cores"
    token = _chosen.set(None if n_jobs is None or n_jobs == -1 else whole("n_jobs", n_jobs, 1, remedy))
    try:
        yield
    finally:
        _chosen.reset(token)


def prefetch(items: Iterable[T], n: int = 1) -> Generator[T, None, None]:
    """The same items in the same order, while a thread fetches the next `n`. An error is raised where its item would have come.
    The thread ends with the items, or when the consumer leaves."""
    source, end, context = iter(items), object(), copy_context()
    thread = ThreadPoolExecutor(1, "unmix-prefetch")

    def fetch() -> Future[Any]:
        return thread.submit(lambda: context.run(next, source, end))

    try:
        waiting = deque(fetch() for _ in range(n + 1))
        while (item := waiting.popleft().result()) is not end:
            waiting.append(fetch())
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
        if close := getattr(items, "close", None):
            close()
