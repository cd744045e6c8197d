"""The models as scikit-learn estimators: parameters in, `Fit` out."""

from unmix.estimators.likelihood import PoissonNMF, TopicModel

__all__ = ["PoissonNMF", "TopicModel"]
