"""Which engine goes over shards. It changes where and how long a fit runs and never its result, so it is said once, around all
that follows, like the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from unmix.engines.base import Engine
from unmix.shards import Shards

_chosen: ContextVar[Engine | None] = ContextVar("engine", default=None)


def engine(shards: Shards, n_topics: int) -> Engine:
    """What was said last, or one of this machine for the occasion; an error if it could not do this fit."""
    from unmix.engines.local import Local

    chosen = _chosen.get() or Local()
    chosen.require(shards, n_topics)
    return chosen


@contextmanager
def use_engine(chosen: Engine) -> Iterator[Engine]:
    """Fits of shards within its `with` use this engine; `with engine:` says the same of those here.

    Parameters
    ----------
    chosen : Engine
        Who goes over shards.

    Yields
    ------
    Engine
        The same.

    Examples
    --------
    >>> import unmix as um
    >>> with um.engines.use_engine(um.engines.Local(memory="1GB")):
    ...     model = um.PoissonNMF(2, max_iter=3, tol=0, random_state=0).fit(um.Shards.of(um.Counts([[1, 0, 2], [0, 3, 0]])))
    """
    token = _chosen.set(chosen)
    try:
        yield chosen
    finally:
        _chosen.reset(token)


class Usable:
    """An engine that is used by fits within its `with`."""

    _uses: list[AbstractContextManager[Any]]

    def __enter__(self) -> Self:
        use = use_engine(self)  # type: ignore[arg-type]
        use.__enter__()
        self.__dict__.setdefault("_uses", []).append(use)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._uses.pop().__exit__(kind, error, trace)
