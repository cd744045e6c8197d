"""The models as scikit-learn estimators: parameters in, `Fit` out."""

from unmix.estimators.allocation import AllocationModel
from unmix.estimators.bayesian import LDA, BayesianPoissonNMF, GammaPoisson
from unmix.estimators.likelihood import PoissonNMF, SparsePoissonNMF, TopicModel

__all__ = ["LDA", "AllocationModel", "BayesianPoissonNMF", "GammaPoisson", "PoissonNMF", "SparsePoissonNMF", "TopicModel"]
