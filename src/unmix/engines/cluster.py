"""Who is there: the workers of a Dask cluster, whether they live, and whether they are all alike."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client, Future

from unmix.engines.facts import Facts, difference, facts_of
from unmix.engines.tasks import host_of, worker_facts

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
            if isinstance(error, OSError):
                self._let_notice()
            self.check_scheduler()
            raise

    def _let_notice(self) -> None:
        """A connection may break some time before the client knows that the scheduler is gone."""
        end = time.monotonic() + NOTICE
        while self.client.status == "running" and time.monotonic() < end:
            time.sleep(0.05)

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
            busy[host_of(address)] = busy.get(host_of(address), 0) + threads
        return busy

    def facts(self, shards: str, folder: Path) -> Facts:
        """Of this process, once no worker was found to differ. One that comes, or answers, later is looked at with its first
        task."""
        wanted, known = facts_of(shards), folder / f"look-{secrets.token_hex(6)}"
        folder.mkdir(parents=True, exist_ok=True)
        known.write_bytes(b"")
        try:
            there = self._some_workers()
            told = {address: self._asked(address, shards, folder, known.name) for address in there}
            self._wait(told)
            for address, future in told.items():
                if future.status == "error":
                    raise ValueError(
                        f"worker {address} cannot run unmix {wanted.version} ({future.exception()!r}); install it there"
                    )
                if future.status == "finished" and (here := future.result()) != wanted:
                    raise ValueError(f"worker {address} {here if isinstance(here, str) else difference(here, wanted)}")
        finally:
            known.unlink(missing_ok=True)
        return wanted

    def _asked(self, address: str, shards: str, folder: Path, known: str) -> Future:
        asked = worker_facts, shards, str(folder), known
        return self.client.submit(*asked, workers=[address], pure=False, priority=10)

    def _wait(self, told: dict[str, Future]) -> None:
        """For those that live, and not for ever."""
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
