"""The names of models and solvers, and what the rooms above need to know of each before it is imported.

A new model is named here and in `__init__.pyi`: the command line, `unmix.sc` and saved fits all look here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple


class Model(NamedTuple):
    """Where an estimator lives, what it is called in the terminal, and what it maximises if that is not the likelihood (with a
    prior, perhaps)."""

    home: str
    word: str
    objective: str | None = None


BOUND = "lower bound of log p(X)"
MODELS = {
    "TopicModel": Model("unmix.estimators.likelihood", "topics"),
    "PoissonNMF": Model("unmix.estimators.likelihood", "poisson-nmf"),
    "SparsePoissonNMF": Model("unmix.estimators.likelihood", "sparse"),
    "LDA": Model("unmix.estimators.variational", "lda", BOUND),
    "GammaPoisson": Model("unmix.estimators.variational", "gamma-poisson", BOUND),
    "BayesianPoissonNMF": Model("unmix.estimators.variational", "bayes", BOUND),
    "AllocationModel": Model("unmix.estimators.allocation", "allocation", "log p(S)"),
}
WORDS = {model.word: name for name, model in MODELS.items()}

# What a user may call a solver, and its class in `unmix.solvers`
SOLVERS = {
    "newton": "Newton",
    "scd": "SCD",
    "ccd": "CCD",
    "sn": "SN",
    "em": "EM",
    "joint": "Joint",
    "plsi": "PLSI",
    "normalized": "Normalized",
}
STARTS = ("auto", "topic-score", "random")
NAMES = {"solvers": SOLVERS, "models": WORDS}


def estimator_class(name: str) -> Any:
    """The class of this name, imported now."""
    return getattr(import_module(MODELS[name].home), name)


def named(text: str | None) -> str:
    """A docstring with the names of solvers and models filled in."""
    quoted = {key: ", ".join(f'"{name}"' for name in names) for key, names in NAMES.items()}
    return (text or "").format(**quoted)
