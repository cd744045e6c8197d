"""Who goes over shards: this machine (`Local`). A fit uses the one that was said last:

with um.engines.Local(memory=4e9):
    model.fit(shards)
"""

from unmix.engines.base import Engine, Visit, Visited, tree
from unmix.engines.local import Local
from unmix.engines.using import engine, use_engine

__all__ = ["Engine", "Local", "Visit", "Visited", "engine", "tree", "use_engine"]
