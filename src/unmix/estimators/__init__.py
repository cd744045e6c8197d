"""The models as scikit-learn estimators: parameters in, `Fit` out."""

from unmix.estimators.bayesian import LDA, BayesianPoissonNMF, GammaPoisson
from unmix.estimators.likelihood import PoissonNMF, SparsePoissonNMF, TopicModel

__all__ = ["LDA", "BayesianPoissonNMF", "GammaPoisson", "PoissonNMF", "SparsePoissonNMF", "TopicModel"]
