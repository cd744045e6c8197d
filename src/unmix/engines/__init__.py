"""Who goes over shards: this machine (`Local`), or the workers of a Dask cluster (`Dask`). A fit uses the one that was said
last:

    with um.engines.Local(memory="4GB"):
        model.fit(shards)

The result is the same bit for bit.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmix.counts.data import Engine, Visit, Visited
from unmix.engines.local import Local

if TYPE_CHECKING:
    from unmix.engines.dask import Dask

__all__ = ["Dask", "Engine", "Local", "Visit", "Visited", "connect"]


def __getattr__(name: str) -> Any:
    if name != "Dask":
        raise AttributeError(f"module 'unmix.engines' has no attribute {name!r}")
    from unmix.engines.dask import Dask  # which imports distributed

    return Dask


# A Dask cluster by its address: "tcp://…", "tls://…", a scheduler file, or "local:2".

LOCAL = re.compile(r"local:([1-9]\d*)")
# Of workers here. They watch themselves less, which takes a tenth of a core otherwise, and keep freed memory for the next tile,
# whose pages would have to be fetched from the system again.
CALM = {
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.tick.interval": "1s",
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}
# A cluster of our own has no pages: anyone who reached them could read what runs there.
WITHOUT_PAGES: dict[str, Any] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss|inproc)://\S+")


def check_address(address: str) -> None:
    """Raises if this is not the address of a cluster."""
    if not (LOCAL.fullmatch(address) or ADDRESS.fullmatch(address) or _is_file(address)):
        raise ValueError(
            f"{address!r} is not the address of a Dask cluster; use that of its scheduler (tcp://host:8786, tls://…), its "
            "scheduler file (.json), or local:2 for two processes here"
        )


def is_open(word: str) -> bool:
    """Whether everyone who reaches this scheduler can run code there as its owner: it asks for no certificate. The other users
    of its machine reach it even on the loopback address."""
    if _is_file(word):
        with suppress(OSError, ValueError, AttributeError):
            word = str(json.loads(Path(word).read_text(encoding="utf-8")).get("address"))
    return word.startswith(("tcp://", "ws://", "ucx://"))


@contextmanager
def connect(address: str, folder: str | os.PathLike[str]) -> Iterator[Dask]:
    """The Dask cluster at an address, which fits of shards within this `with` use. Needs the package distributed.

    Parameters
    ----------
    address : str
        Address of a scheduler ("tcp://host:8786", "tls://…"), its scheduler file (.json), or "local:2" for two processes of
        this machine.
    folder : str or PathLike
        For what visits leave, as for `Dask`; it is removed in the end if nothing in it is needed.

    Yields
    ------
    Dask
        The engine.

    Raises
    ------
    ValueError
        If this is not an address, there is no Dask, or there are no certificates for it.
    ConnectionError
        If there is no scheduler.

    See Also
    --------
    engines.Dask : The same with a client of your own.

    Examples
    --------
    >>> import unmix as um
    >>> with um.engines.connect("tls://scheduler:8786", "/shared/visits"):  # doctest: +SKIP
    ...     um.TopicModel(20).fit(um.Shards("/shared/atlas.shards"))
    """
    check_address(address)
    try:
        from distributed import Client

        from unmix.engines.dask import Dask
    except ImportError as error:
        raise ValueError(
            f"{address} needs Dask ({error}); install it with: pip install distributed cryptography"
        ) from None
    with ExitStack() as stack:
        if here := LOCAL.fullmatch(address):
            where: dict[str, Any] = {"address": stack.enter_context(local_cluster(int(here.group(1))))}
        else:
            where = {"scheduler_file": address} if _is_file(address) else {"address": address}
        try:
            client = stack.enter_context(Client(**where, set_as_default=False))
        except TypeError as error:  # what Dask says to a tls:// address without certificates
            raise ValueError(
                f"{address}: there are no certificates to reach it with ({error}); set distributed.comm.tls of Dask's "
                "configuration, or pass a Client with its Security to unmix.engines.Dask"
            ) from None
        except (OSError, TimeoutError) as error:
            raise ConnectionError(f"{address}: there is no Dask scheduler ({error}); start one first") from None
        with Dask(client, folder) as engine:
            yield engine
        engine.remove_if_empty()


def local_cluster(workers: int) -> Any:
    """Processes of this machine, of one thread each. They talk to each other with a temporary certificate, which other users of
    the machine do not have."""
    import dask
    from distributed import LocalCluster, Security

    with dask.config.set(CALM | WITHOUT_PAGES):
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tls://",
            security=Security.temporary(),
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        )


def _is_file(word: str) -> bool:
    return word.endswith(".json") and Path(word).is_file()
