"""The models as scikit-learn estimators: parameters in, `Fit` out."""

from __future__ import annotations

from unmix.estimators.allocation import AllocationModel
from unmix.estimators.base import CountsEstimator
from unmix.estimators.bayesian import LDA, BayesianPoissonNMF, GammaPoisson
from unmix.estimators.likelihood import PoissonNMF, TopicModel
from unmix.estimators.sparse import SparsePoissonNMF
from unmix.fit import Fit

__all__ = [
    "LDA",
    "AllocationModel",
    "BayesianPoissonNMF",
    "GammaPoisson",
    "PoissonNMF",
    "SparsePoissonNMF",
    "TopicModel",
    "restored",
]

KINDS: tuple[type[CountsEstimator], ...] = (
    LDA,
    AllocationModel,
    BayesianPoissonNMF,
    GammaPoisson,
    PoissonNMF,
    SparsePoissonNMF,
    TopicModel,
)


def restored(fit: Fit) -> CountsEstimator:
    """An estimator of the kind that made this fit, ready to transform new samples."""
    kind = {kind.__name__: kind for kind in KINDS}.get(fit.params.get("model", ""), TopicModel)
    known = {name: value for name, value in fit.params.items() if name in kind._get_param_names()}
    model = kind(**known | {"n_components": fit.n_topics, "init": "auto"})
    model.result_ = fit
    return model
