"""How many threads the kernels use. It changes how long a result takes and never the result, so it is no parameter of anything
below the estimators: whoever knows the number says it once, around all that follows.

    with use_threads(4):
        ...

And `prefetch`, which reads ahead in a thread.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
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
    remedy = "give a number of threads >= 1, or None or -1 for all cores"
    token = _chosen.set(None if n_jobs is None or n_jobs == -1 else whole("n_jobs", n_jobs, 1, remedy))
    try:
        yield
    finally:
        _chosen.reset(token)


def prefetch(items: Iterable[T], n: int = 1) -> Generator[T, None, None]:
    """The same items in the same order, while a thread fetches the next `n`. An error is raised where its item would have come.
    The thread ends with the items, or when the consumer leaves."""
    fetched: queue.Queue[tuple[bool, Any]] = queue.Queue(n)
    stop = threading.Event()

    def put(last: bool, item: Any) -> None:
        while not stop.is_set():
            with suppress(queue.Full):
                fetched.put((last, item), timeout=0.1)
                return

    def fetch() -> None:
        try:
            for item in items:
                put(False, item)
                if stop.is_set():
                    return
            put(True, None)
        except BaseException as error:
            put(True, error)

    thread = threading.Thread(target=copy_context().run, args=(fetch,), daemon=True, name="unmix-prefetch")
    thread.start()
    try:
        while True:
            last, item = fetched.get()
            if last and item is not None:
                raise item
            if last:
                return
            yield item
    finally:
        stop.set()
        thread.join()
        if close := getattr(items, "close", None):
            close()
