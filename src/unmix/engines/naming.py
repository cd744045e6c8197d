"""An engine by a word, as an estimator or the terminal is given one: "tcp://…", "tls://…", a scheduler file, or "local:2"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from unmix.shards import Shards

if TYPE_CHECKING:
    from unmix.engines.dask import Dask

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
ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss|inproc)://\S+")


def check_word(word: Any) -> None:
    if word is None or (isinstance(word, str) and (LOCAL.fullmatch(word) or ADDRESS.fullmatch(word) or _is_file(word))):
        return
    raise ValueError(
        f'engine={word!r}; give None, the address of a Dask scheduler ("tcp://host:8786", "tls://…"), its scheduler file '
        '(.json), or "local:2" for two processes here'
    )


def is_open(word: str) -> bool:
    """Whether counts would go over a network as they are."""
    return word.startswith(("tcp://", "ws://")) and urlsplit(word).hostname not in ("localhost", "127.0.0.1", "::1")


@contextmanager
def named_engine(word: str | None, X: Any) -> Iterator[Dask | None]:
    """Used by all within; None says nothing. What it keeps lies beside the shards, which all workers see, and goes in the end
    unless a checkpoint may need it."""
    check_word(word)
    if word is None:
        yield None
        return
    if not isinstance(X, Shards):
        raise ValueError(
            f"engine={word!r} goes over shards, not counts in memory; make some with um.shard, or leave it out"
        )
    if X.folder is None:
        raise ValueError(f"engine={word!r}: workers cannot see counts in memory; write them to a folder with um.shard")
    try:
        from distributed import Client

        from unmix.engines.dask import Dask
    except ImportError as error:
        raise ValueError(f'engine={word!r} needs Dask ({error}); pip install "unmix[dask]"') from None
    run = X.folder.absolute().with_name(f"{X.folder.absolute().name}.run")
    with ExitStack() as stack:
        if here := LOCAL.fullmatch(word):
            where: dict[str, Any] = {"address": stack.enter_context(local_cluster(int(here.group(1))))}
        else:
            where = {"scheduler_file": word} if _is_file(word) else {"address": word}
        try:
            client = stack.enter_context(Client(**where, set_as_default=False))
        except (OSError, TimeoutError) as error:
            raise ConnectionError(f"engine={word!r}: there is no Dask scheduler ({error}); start one first") from None
        with Dask(client, run) as engine:
            yield engine
        engine.remove_if_empty()


def local_cluster(workers: int) -> Any:
    """Processes of this machine, of one thread each."""
    import dask
    from distributed import LocalCluster

    with dask.config.set(CALM):
        return LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")


def _is_file(word: str) -> bool:
    return word.endswith(".json") and Path(word).is_file()
