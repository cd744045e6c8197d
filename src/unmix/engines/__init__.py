"""Who goes over shards: this machine (`Local`). A fit uses the one that was said last:

with um.engines.Local(memory="4GB"):
    model.fit(shards)
"""

from unmix.engines.base import Engine, Visit, Visited, use_engine
from unmix.engines.local import Local

__all__ = ["Engine", "Local", "Visit", "Visited", "use_engine"]
