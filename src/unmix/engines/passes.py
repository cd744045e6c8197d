"""Passes on a Dask cluster: its workers, whether they live and are equal, and how a pass survives their loss."""

from __future__ import annotations

import errno
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed
from distributed import Client, Future
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from unmix.counts.data import BRANCHES, Visit
from unmix.engines import tasks
from unmix.engines.tasks import Facts, Pass, Visits

NOTICE = 2.0  # seconds until the client has noticed that a connection is broken


class Cluster:
    """A client, and what is known of the workers behind it. `patience` is how many seconds a worker may say nothing."""

    def __init__(self, client: Client, patience: float) -> None:
        self.client, self.patience = client, patience
        self.silent: frozenset[str] = frozenset()
        self.owners: dict[tuple[int, int], str] = {}  # who visited shards last has them in its cache
        self._known: frozenset[str] = frozenset()

    @property
    def address(self) -> str:
        return str(getattr(self.client.scheduler, "address", None) or self.client._start_arg)

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Whatever goes wrong once the scheduler is gone, that is what is said."""
        try:
            yield
        except Exception as error:
            end = time.monotonic() + NOTICE  # a connection may break some time before the client knows that it is gone
            while isinstance(error, OSError) and self.client.status == "running" and time.monotonic() < end:
                time.sleep(0.05)
            self.check_scheduler()
            raise

    def check_scheduler(self) -> None:
        """Waits while the client looks for it; raises if it is gone."""
        while self.client.status in ("connecting", "closing"):
            time.sleep(0.1)
        if self.client.status != "running":
            raise ConnectionError(
                f"the Dask scheduler is gone ({self.address}); start the cluster again, and resume from the last checkpoint"
            ) from None

    def workers(self) -> list[str]:
        """Addresses of those that have shown signs of life lately; a note is made of the others."""
        known = self.client.scheduler_info(n_workers=-1)["workers"]
        seen = {address: worker.get("last_seen", 0.0) for address, worker in known.items()}
        latest = max(seen.values(), default=0.0)
        self.silent = frozenset(address for address, at in seen.items() if at < latest - self.patience)
        if self._known != seen.keys():
            self._known, self.owners = frozenset(seen), {}  # or those that come would have nothing to do
        return [address for address in seen if address not in self.silent]

    def busy(self) -> dict[str, int]:
        """Threads of all workers of a host."""
        busy: dict[str, int] = {}
        for address, threads in self.client.nthreads().items():
            busy[tasks.host_of(address)] = busy.get(tasks.host_of(address), 0) + threads
        return busy

    def facts(self, shards: str, folder: Path) -> Facts:
        """Of this process, once no worker was found to differ. One that comes, or answers, later is looked at with its first
        task."""
        wanted, known = tasks.facts_of(shards), folder / f"look-{secrets.token_hex(6)}"
        folder.mkdir(parents=True, exist_ok=True)
        known.write_bytes(b"")
        try:
            asked: Any = tasks.worker_facts, shards, str(folder), known.name
            told = {
                address: self.client.submit(*asked, workers=[address], pure=False, priority=10)
                for address in self._some_workers()
            }
            self._wait(told)
            for address, future in told.items():
                if future.status == "error":
                    raise ValueError(
                        f"worker {address} cannot run unmix {wanted.version} ({future.exception()!r}); install it there"
                    )
                if future.status == "finished" and (here := future.result()) != wanted:
                    raise ValueError(
                        f"worker {address} {here if isinstance(here, str) else tasks.difference(here, wanted)}"
                    )
        finally:
            known.unlink(missing_ok=True)
        return wanted

    def _wait(self, told: dict[str, Future]) -> None:
        """For those that live, and not forever."""
        now = time.monotonic()
        end, look = now + max(self.patience, 10), now + 1
        waiting = list(told)
        while waiting and now < end:
            time.sleep(0.01)
            waiting, now = [address for address in waiting if not told[address].done()], time.monotonic()
            if now > look:
                there, look = self.workers(), now + 1
                waiting = [address for address in waiting if address in there]

    def _some_workers(self) -> list[str]:
        end = time.monotonic() + self.patience
        while not (there := self.workers()):
            if time.monotonic() > end:
                raise ConnectionError(f"the Dask cluster at {self.address} has no workers; start some")
            time.sleep(0.1)
        return there


# The tasks of one pass over shards, given to a cluster again and again until there is a result, or no hope of one.

TRIES = 5  # in each of which Dask itself gives a task to several workers
LOOK = 5.0  # seconds between two looks at the workers, at most
BACK_OFF = 1.0  # seconds before the second try, twice that before the third, and so on
LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)  # errors that another try would not fix


@dataclass
class _Group:
    """Up to eight tasks, and the one that adds them up."""

    spans: list[tuple[int, int]]
    visits: list[Future] = field(default_factory=list)
    total: Future | None = None

    def release(self, total: Future) -> None:
        """Sums that were added up need not stay in memory; if they are needed after all, Dask makes them again."""
        if total.status == "finished" and total is self.total:
            self.visits = []


class Run:
    """The tasks of one pass, until there is a result."""

    def __init__(
        self, cluster: Cluster, about: Pass, visit: Visit, spans: list[tuple[int, int]], expected: Sequence[str]
    ) -> None:
        self.cluster, self.client = cluster, cluster.client
        self.about, self.visit, self.expected = about, visit, expected
        self.spans, self.owners = spans, {first: who for (first, _), who in cluster.owners.items()}
        self.groups = [_Group(spans[at : at + BRANCHES]) for at in range(0, len(spans), BRANCHES)]
        self.only: list[str] = []  # workers that may take part, unless all may
        self.attempt = self.failures = 0
        self.ended: dict[str, int] = {}  # workers, by the task that they died of

    def result(self) -> Visits:
        root: Future | None = None
        try:
            while True:
                root = self._submitted()
                part = self._wait(root)
                root.release()
                if isinstance(part, Visits):
                    self.cluster.owners.update(zip(self.spans, part.workers, strict=True))
                    self._release()
                    return part
                self._judge(part)
                self.attempt += 1
        except BaseException:
            self._cancel(root)
            raise

    def _submitted(self) -> Future:
        """All that is not done, on workers that live."""
        live, lost = self.cluster.workers(), self._lost()
        self.only = live if self.cluster.silent else []
        for at, group in enumerate(self.groups):
            if group.total is not None and group.total.status == "finished" and group.total.key not in lost:
                continue
            done = [visit if visit.status == "finished" and visit.key not in lost else None for visit in group.visits]
            done = done or [None] * len(group.spans)
            group.visits = [visit or self._visit(span) for visit, span in zip(done, group.spans, strict=True)]
            if group.total is not None:
                group.total.release()
            if len(self.groups) > 1:
                group.total = self._add(f"0-{at}", group.visits)
                group.total.add_done_callback(group.release)
        return self._tree()

    def _tree(self) -> Future:
        if len(self.groups) == 1:
            parts = self.groups[0].visits
        else:
            parts, level = [group.total for group in self.groups if group.total is not None], 1
            while len(parts) > BRANCHES:
                ranges = range(0, len(parts), BRANCHES)
                parts = [self._add(f"{level}-{at}", parts[at : at + BRANCHES]) for at in ranges]
                level += 1
        return self.client.submit(tasks.add_all, self.about, *parts, key=self._key("all"), **self._restricted())

    def _visit(self, span: tuple[int, int]) -> Future:
        key, owner = self._key(f"visit-{span[0]}"), self.cluster.owners.get(span)
        there = {"workers": [owner], "allow_other_workers": True} if owner and not self.only else self._restricted()
        later = (first for first, _ in self.spans if first > span[0])
        after = next((first for first in later if owner and self.owners.get(first) == owner), None)
        return self.client.submit(
            tasks.visit_shards, self.about, self.visit, *span, self.expected[slice(*span)], after, key=key, **there
        )

    def _add(self, name: str, parts: Sequence[Future]) -> Future:
        return self.client.submit(tasks.add_parts, *parts, key=self._key(f"add-{name}"), **self._restricted())

    def _restricted(self) -> dict[str, Any]:
        return {"workers": self.only, "allow_other_workers": False} if self.only else {}

    def _key(self, name: str) -> str:
        return f"unmix-{name}-{self.about.token}-{self.attempt}"

    def _wait(self, root: Future) -> Visits | Exception:
        """The result, or what came in between."""
        silent, last_seen = self.cluster.silent, time.monotonic()
        while True:
            try:
                part: Visits = root.result(timeout=max(min(self.cluster.patience / 4, LOOK), 0.1))
                return part
            except Exception as error:
                if not isinstance(error, distributed.TimeoutError) or root.status not in ("pending", "finished"):
                    return error
            live, now = self.cluster.workers(), time.monotonic()
            if self.cluster.silent - silent or (self.only and not set(self.only) & set(live)):
                return _StuckError()
            if self._forgotten() and not root.done():
                return _StuckError()
            last_seen = now if live else last_seen
            if now - last_seen > 10 * self.cluster.patience:
                raise ConnectionError("the Dask cluster has lost all its workers; resume from the last checkpoint")

    def _forgotten(self) -> bool:
        """Whether no one works at this pass although someone could. A task with a preferred worker that becomes due while all
        workers are dead is not given to those that come later."""
        works = self.client.processing()
        ours = any(self.about.token in str(key) for keys in works.values() for key in keys)
        return not ours and not all(works.values())

    def _judge(self, problem: Exception) -> None:
        """Raises if trying again would not help."""
        if isinstance(problem, _StuckError):
            return
        self.failures += 1
        if isinstance(problem, KilledWorker):
            name = _task(problem.task)
            self.ended[name] = self.ended.get(name, 0) + getattr(problem, "allowed_failures", 3) + 1
            if self.failures == TRIES:
                last = getattr(problem.last_worker, "address", problem.last_worker)
                raise ConnectionError(
                    f"{name} ended {self.ended[name]} workers, the last one {last}: too little memory? See the workers' logs, "
                    "allow them more memory, and resume from the last checkpoint"
                )
        elif isinstance(problem, FutureCancelledError):
            self.cluster.check_scheduler()
        elif not isinstance(problem, OSError) or problem.errno in LASTING:
            raise problem
        if self.failures == TRIES:
            raise problem
        time.sleep(BACK_OFF * 2 ** (self.failures - 1))

    def _lost(self) -> set[Any]:
        """Keys of results that only silent workers have."""
        if not self.cluster.silent or self.attempt == 0:
            return set()
        futures = [future for future in self._futures() if future.status == "finished"]
        who = self.client.who_has(futures) if futures else {}
        return {future.key for future in futures if set(who.get(future.key, ())) <= self.cluster.silent}

    def _release(self) -> None:
        """At once, where callbacks and errors hold on to futures; or Dask would do again what a dead worker had, for a pass
        whose files are gone."""
        for future in self._futures():
            future.release()

    def _cancel(self, root: Future | None) -> None:
        if self.client.status == "running":
            self.client.cancel(self._futures() + ([] if root is None else [root]))

    def _futures(self) -> list[Future]:
        """Of all tasks but the last."""
        return [future for group in self.groups for future in (*group.visits, group.total) if future is not None]


class _StuckError(Exception):
    """A worker has not been heard of for a while, or all of them died and others have come."""


def _task(key: Any) -> str:
    """A key as text."""
    parts = str(key).split("-")
    return f"the visit to shards from {parts[2]} on" if "visit" in parts else "the sum of parts"
