"""unmix takes matrices of counts apart into topics: X ≈ L Fᵀ.

Poisson NMF, the multinomial topic model and their relatives share one likelihood, and here one set of fast solvers.

>>> import unmix as um
>>> model = um.TopicModel(n_components=8, random_state=0).fit(um.datasets.sotu())
>>> model.result_.status
'converged'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unmix._version import __version__
from unmix.registry import MODELS

if TYPE_CHECKING:
    from unmix import analysis, engines, plot, solvers
    from unmix import sc as sc
    from unmix.analysis.alignment import Alignment, align
    from unmix.analysis.catalogue import CatalogueMatch, match_catalogue
    from unmix.analysis.choice import Choice
    from unmix.analysis.choosing import choose_topics
    from unmix.analysis.coherence import coherence
    from unmix.analysis.compare import Comparison, compare
    from unmix.analysis.consensus import consensus
    from unmix.analysis.differences import Differences, differences
    from unmix.analysis.freedom import freedom
    from unmix.analysis.intervals import Intervals, intervals
    from unmix.analysis.quality import Quality, diversity
    from unmix.analysis.ranges import Freedom
    from unmix.analysis.stability import Stability, stability
    from unmix.counts import Counts
    from unmix.data import datasets
    from unmix.data.read import read, read_texts
    from unmix.data.shard import shard
    from unmix.estimators.path import fit_path
    from unmix.fit import Fit, load
    from unmix.models import maps
    from unmix.models.poisson import deviance, kkt, loglik
    from unmix.models.priors import Dirichlet, Gamma
    from unmix.models.shrinkage import shrink
    from unmix.models.topics import poisson_to_topics, topics_to_poisson
    from unmix.registry import *  # noqa: F403 - the estimators
    from unmix.report import write_report
    from unmix.shards import Shards
    from unmix.solvers.online import Online

__all__ = [
    *MODELS,
    "Choice",
    "Alignment",
    "CatalogueMatch",
    "Comparison",
    "Counts",
    "Differences",
    "Dirichlet",
    "Fit",
    "Freedom",
    "Gamma",
    "Intervals",
    "Online",
    "Quality",
    "Shards",
    "Stability",
    "__version__",
    "align",
    "analysis",
    "choose_topics",
    "coherence",
    "consensus",
    "compare",
    "datasets",
    "deviance",
    "diversity",
    "differences",
    "engines",
    "fit_path",
    "freedom",
    "intervals",
    "kkt",
    "load",
    "loglik",
    "maps",
    "match_catalogue",
    "plot",
    "poisson_to_topics",
    "read",
    "read_texts",
    "shard",
    "shrink",
    "solvers",
    "stability",
    "topics_to_poisson",
    "write_report",
]

# Where each name lives. It is imported when it is first asked for, so that `unmix info` does not wait for scikit-learn.
HOMES = {
    "unmix": ["analysis", "engines", "plot", "sc", "solvers"],
    "unmix.analysis.choice": ["Choice"],
    "unmix.analysis.choosing": ["choose_topics"],
    "unmix.analysis": [
        "Alignment",
        "Quality",
        "Stability",
        "align",
        "coherence",
        "consensus",
        "diversity",
        "stability",
    ],
    "unmix.analysis.freedom": ["freedom"],
    "unmix.analysis.intervals": ["Intervals", "intervals"],
    "unmix.analysis.ranges": ["Freedom"],
    "unmix.analysis.differences": ["Differences", "differences"],
    "unmix.analysis.catalogue": ["CatalogueMatch", "match_catalogue"],
    "unmix.analysis.compare": ["Comparison", "compare"],
    "unmix.counts": ["Counts"],
    "unmix.data": ["datasets"],
    "unmix.data.read": ["read", "read_texts"],
    "unmix.data.shard": ["shard"],
    "unmix.estimators": [*MODELS],
    "unmix.estimators.path": ["fit_path"],
    "unmix.fit": ["Fit", "load"],
    "unmix.models": ["maps"],
    "unmix.models.poisson": ["deviance", "kkt", "loglik"],
    "unmix.models.priors": ["Dirichlet", "Gamma"],
    "unmix.models.shrinkage": ["shrink"],
    "unmix.models.topics": ["poisson_to_topics", "topics_to_poisson"],
    "unmix.report": ["write_report"],
    "unmix.shards": ["Shards"],
    "unmix.solvers.online": ["Online"],
}
ROOMS = {"analysis", "engines", "plot", "sc", "solvers", "datasets", "maps"}  # names that are modules


def __getattr__(name: str) -> Any:
    home = next((home for home, names in HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'unmix' has no attribute {name!r}")
    value = import_module(f"{home}.{name}") if name in ROOMS else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "sc"})
