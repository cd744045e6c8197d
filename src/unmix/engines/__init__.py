"""Who goes over shards: this machine (`Local`), or the workers of a Dask cluster (`Dask`). A fit uses the one that was said last:

    with um.engines.Local(memory="4GB"):
        model.fit(shards)

The result is the same to the last bit.
"""

from typing import TYPE_CHECKING, Any

from unmix.counts.data import Engine, Visit, Visited, use_engine
from unmix.engines.connection import connect
from unmix.engines.local import Local

if TYPE_CHECKING:
    from unmix.engines.dask import Dask

__all__ = ["Dask", "Engine", "Local", "Visit", "Visited", "connect", "use_engine"]


def __getattr__(name: str) -> Any:
    if name != "Dask":
        raise AttributeError(f"module 'unmix.engines' has no attribute {name!r}")
    from unmix.engines.dask import Dask  # which imports distributed

    return Dask
