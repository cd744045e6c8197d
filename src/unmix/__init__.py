"""unmix takes matrices of counts apart into topics: X ≈ L Fᵀ.

Poisson NMF, the multinomial topic model and their relatives share one likelihood, and here one set of fast solvers.

>>> import unmix as um
>>> model = um.TopicModel(n_components=8, random_state=0).fit(um.datasets.sotu())
>>> model.result_.status
'converged'
"""

from importlib import import_module
from typing import Any

from unmix import solvers
from unmix._version import __version__
from unmix.counts import Counts
from unmix.data import datasets
from unmix.data.read import read
from unmix.estimators import (
    LDA,
    AllocationModel,
    BayesianPoissonNMF,
    GammaPoisson,
    PoissonNMF,
    SparsePoissonNMF,
    TopicModel,
)
from unmix.fit import Fit, load
from unmix.models import maps
from unmix.models.poisson import deviance, kkt, loglik
from unmix.models.priors import Dirichlet, Gamma
from unmix.models.topics import poisson_to_topics, topics_to_poisson
from unmix.solvers.online import Online

__all__ = [
    "LDA",
    "AllocationModel",
    "BayesianPoissonNMF",
    "Counts",
    "Dirichlet",
    "Fit",
    "Gamma",
    "GammaPoisson",
    "Online",
    "PoissonNMF",
    "SparsePoissonNMF",
    "TopicModel",
    "__version__",
    "datasets",
    "deviance",
    "kkt",
    "load",
    "loglik",
    "maps",
    "plot",
    "poisson_to_topics",
    "read",
    "sc",
    "solvers",
    "topics_to_poisson",
    "write_report",
]

ON_DEMAND = {"plot": "unmix.plot", "sc": "unmix.sc", "write_report": "unmix.report"}  # rooms that import much


def __getattr__(name: str) -> Any:
    if name not in ON_DEMAND:
        raise AttributeError(f"module 'unmix' has no attribute {name!r}")
    room = import_module(ON_DEMAND[name])
    return getattr(room, name, room)
