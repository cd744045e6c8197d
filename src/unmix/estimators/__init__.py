"""The models as scikit-learn estimators: parameters in, `Fit` out. Which there are, `unmix.registry` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unmix import registry
from unmix.estimators.base import CountsEstimator
from unmix.fit import Fit

if TYPE_CHECKING:
    from unmix.registry import *  # noqa: F403 - the estimators

__all__ = [*registry.MODELS, "from_fit"]


def __getattr__(name: str) -> Any:
    if name not in registry.MODELS:
        raise AttributeError(f"module 'unmix.estimators' has no attribute {name!r}")
    return registry.estimator_class(name)


def from_fit(fit: Fit) -> CountsEstimator:
    """An estimator of the kind that made this fit, ready to transform new samples."""
    name = fit.params.get("model", "")
    model: CountsEstimator = registry.estimator_class(name if name in registry.MODELS else "TopicModel").from_fit(fit)
    return model
