"""WHAT is optimised: likelihoods, priors, and the maps between models."""
