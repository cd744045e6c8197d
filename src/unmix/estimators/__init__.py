"""The models as scikit-learn estimators: parameters in, `Fit` out."""

from unmix.estimators.allocation import AllocationModel
from unmix.estimators.likelihood import PoissonNMF, TopicModel

__all__ = ["AllocationModel", "PoissonNMF", "TopicModel"]
