"""WHAT is optimised: likelihoods, priors, and the maps between models."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["maps"])
