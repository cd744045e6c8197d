"""The tasks of one pass over shards, given to a cluster again and again until there is a result, or no hope of one."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import distributed
from distributed import Future, KilledWorker
from distributed.client import FutureCancelledError

from unmix.engines.base import BRANCHES, Visit
from unmix.engines.cluster import Cluster
from unmix.engines.tasks import Part, Pass, add_all, add_parts, visit_shards

TRIES = 5  # in each of which Dask itself gives a task to several workers
BACK_OFF = 1.0  # seconds before the second try, twice that before the third, and so on
LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)  # errors that another try would not mend


@dataclass
class _Group:
    """Up to eight tasks, and the one that adds them up."""

    spans: list[tuple[int, int]]
    visits: list[Future] = field(default_factory=list)
    total: Future | None = None


class Run:
    """The tasks of one pass, until there is a result."""

    def __init__(
        self, cluster: Cluster, about: Pass, visit: Visit, spans: list[tuple[int, int]], expected: Sequence[str]
    ) -> None:
        self.cluster, self.client, self.about, self.visit, self.expected = (
            cluster,
            cluster.client,
            about,
            visit,
            expected,
        )
        self.groups = [_Group(spans[at : at + BRANCHES]) for at in range(0, len(spans), BRANCHES)]
        self.attempt = 0
        self.ended: dict[str, int] = {}  # workers, by what they died of

    def result(self) -> Part:
        root: Future | None = None
        try:
            while True:
                root = self._submitted()
                problem = self._wait(root)
                if problem is None:
                    part: Part = root.result()
                    self._remember(part)
                    return part
                self._judge(problem)
                self.attempt += 1
        except BaseException:
            self._cancel(root)
            raise

    def _submitted(self) -> Future:
        """All that is not done, or under way, on workers that live."""
        live = self.cluster.workers()
        only: dict[str, Any] = {"workers": live, "allow_other_workers": False} if self.cluster.silent and live else {}
        lost = self._lost()
        for at, group in enumerate(self.groups):
            if group.total is not None and group.total.status == "finished" and group.total.key not in lost:
                continue
            if self.attempt == 0 or not group.visits:
                group.visits = [self._visit(span, only) for span in group.spans]
            else:
                group.visits = [
                    visit if visit.status == "finished" and visit.key not in lost else self._visit(span, only)
                    for visit, span in zip(group.visits, group.spans, strict=True)
                ]
            if len(self.groups) > 1:
                group.total = self._add(f"0-{at}", group.visits, only)
                group.total.add_done_callback(_releaser(group))
        return self._tree(only)

    def _tree(self, only: dict[str, Any]) -> Future:
        if len(self.groups) == 1:
            parts = self.groups[0].visits
        else:
            parts, level = [group.total for group in self.groups if group.total is not None], 1
            while len(parts) > BRANCHES:
                ranges = range(0, len(parts), BRANCHES)
                parts = [self._add(f"{level}-{at}", parts[at : at + BRANCHES], only) for at in ranges]
                level += 1
        return self.client.submit(add_all, self.about, *parts, key=self._key("all"), **only)

    def _visit(self, span: tuple[int, int], only: dict[str, Any]) -> Future:
        owner = self.cluster.owners.get(span)
        there = only or ({"workers": [owner], "allow_other_workers": True} if owner else {})
        expected = self.expected[slice(*span)]
        return self.client.submit(
            visit_shards, self.about, self.visit, *span, expected, key=self._key(f"visit-{span[0]}"), **there
        )

    def _add(self, name: str, parts: Sequence[Future], only: dict[str, Any]) -> Future:
        return self.client.submit(add_parts, *parts, key=self._key(f"add-{name}"), **only)

    def _key(self, name: str) -> str:
        return f"unmix-{name}-{self.about.token}-{self.attempt}"

    def _wait(self, root: Future) -> BaseException | None:
        """None once there is a result, or what came in between."""
        silent, alone_since = self.cluster.silent, None
        while True:
            try:
                distributed.wait([root], timeout=max(self.cluster.patience / 4, 0.1))
            except distributed.TimeoutError:
                if self.client.status == "closed":
                    raise self._scheduler_gone() from None
                live = self.cluster.workers()
                if self.cluster.silent - silent:
                    return _SilenceError()
                now = time.monotonic()
                alone_since = None if live else alone_since or now
                if alone_since is not None and now - alone_since > 10 * self.cluster.patience:
                    raise ConnectionError(
                        "the Dask cluster has lost all its workers; resume from the last checkpoint"
                    ) from None
                continue
            except FutureCancelledError as error:
                return error
            if root.status == "finished":
                return None
            if root.status == "error":
                return root.exception()
            return FutureCancelledError(root.key, "lost")

    def _judge(self, problem: BaseException) -> None:
        """Raises if trying again would not help."""
        if isinstance(problem, _SilenceError):
            return
        if isinstance(problem, KilledWorker):
            name = _task(problem.task)
            self.ended[name] = self.ended.get(name, 0) + getattr(problem, "allowed_failures", 3) + 1
            if self.attempt + 1 >= TRIES:
                raise ConnectionError(
                    f"{name} ended {self.ended[name]} workers, the last one {_where(problem)}: too little memory? "
                    "See the worker's log; give workers more memory, and resume from the last checkpoint"
                ) from None
        elif isinstance(problem, FutureCancelledError):
            self._reconnected()
        elif not isinstance(problem, OSError) or problem.errno in LASTING:
            raise problem
        if self.attempt + 1 >= TRIES:
            raise problem
        time.sleep(BACK_OFF * 2**self.attempt)

    def _reconnected(self) -> None:
        """Waits while the client looks for its scheduler."""
        while self.client.status in ("connecting", "closing"):
            time.sleep(0.1)
        if self.client.status != "running":
            raise self._scheduler_gone()

    def _scheduler_gone(self) -> ConnectionError:
        return ConnectionError(
            f"the Dask scheduler is gone ({self.cluster.address}); start the cluster again, and resume from the last checkpoint"
        )

    def _lost(self) -> set[Any]:
        """Keys of results that only silent workers have."""
        if not self.cluster.silent or self.attempt == 0:
            return set()
        futures = [
            f for group in self.groups for f in (*group.visits, group.total) if f is not None and f.status == "finished"
        ]
        who = self.client.who_has(futures) if futures else {}
        return {future.key for future in futures if set(who.get(future.key, ())) <= self.cluster.silent}

    def _remember(self, part: Part) -> None:
        """Who visited what."""
        spans = [span for group in self.groups for span in group.spans]
        for span, name in zip(spans, part.workers, strict=True):
            self.cluster.owners[span] = name.rpartition("(")[2].rstrip(")")

    def _cancel(self, root: Future | None) -> None:
        futures = [f for group in self.groups for f in (*group.visits, group.total)] + [root]
        if self.client.status == "running":
            self.client.cancel([future for future in futures if future is not None])


class _SilenceError(Exception):
    """A worker has not been heard of for a while."""


def _releaser(group: _Group) -> Any:
    """Sums that were added up need not stay in memory; if they are needed after all, Dask makes them again."""

    def release(total: Future) -> None:
        if total.status == "finished" and total is group.total:
            group.visits = []

    return release


def _task(key: Any) -> str:
    """A key in words."""
    parts = str(key).split("-")
    return f"the visit to shards from {parts[2]} on" if "visit" in parts else "the sum of parts"


def _where(problem: KilledWorker) -> str:
    return str(getattr(problem.last_worker, "address", problem.last_worker))
