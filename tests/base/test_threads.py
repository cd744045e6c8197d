"""Reading ahead in a thread keeps the order, passes errors on, and ends when nobody needs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextvars import ContextVar

import psutil
import pytest

from unmix.base import memory
from unmix.base.threads import prefetch, threads, use_threads


@pytest.fixture(autouse=True)
def _before() -> None:
    BEFORE[:] = threading.enumerate()


BEFORE: list[threading.Thread] = []


def alive() -> list[threading.Thread]:
    """Threads that a test has started to read ahead."""
    new = [thread for thread in threading.enumerate() if thread not in BEFORE]
    return [thread for thread in new if thread.name.startswith("unmix-prefetch")]  # libraries have threads of their own


@pytest.mark.parametrize("n", [1, 3])
def test_items_come_in_their_order_and_the_thread_ends_with_them(n: int) -> None:
    assert list(prefetch(iter(range(50)), n)) == list(range(50))
    assert list(prefetch([], n)) == []
    assert not alive()


def test_an_error_comes_where_its_item_would_have_come() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("three")

    ahead = prefetch(items(), 5)
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(KeyError, match="three"):
        next(ahead)
    assert not alive()


def test_who_leaves_early_ends_the_thread_and_closes_the_source() -> None:
    fetched, closed = [], []

    def items() -> Iterator[int]:
        try:
            for i in range(1000):
                fetched.append(i)
                yield i
        finally:
            closed.append(True)

    ahead = prefetch(items(), 2)
    assert next(ahead) == 0
    ahead.close()
    assert not alive()
    assert closed == [True]
    assert len(fetched) <= 4  # the one that was taken, two that waited, one at hand


def test_the_thread_works_in_the_context_of_the_consumer() -> None:
    word: ContextVar[str] = ContextVar("word", default="")
    word.set("here")
    with use_threads(3):
        assert list(prefetch((word.get(), threads()) for _ in range(2))) == [("here", 3)] * 2


def test_free_memory_is_less_than_what_is_installed_on_every_system() -> None:
    assert 0 < memory.available() < psutil.virtual_memory().total
