"""A Gamma prior on the factors, which makes a maximum-likelihood fit a MAP fit.

    f_jk ~ Gamma(shape α_jk, rate β_k):   −log p(F) = −Σ (α_jk − 1) log f_jk + Σ β_k f_jk + const

With a flat prior on L this is the topic model with f*_k ~ Dirichlet(α_·k) (Carbonetto et al., corollary 2);
β moves only the scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Gamma:
    """Gamma(shape, rate) on each factor f_jk: `shape` a number or broadcastable to m × K (use (m, 1) for one a feature),
    `rate` a number or one a topic.

    A posterior mode exists only if shape >= 1 everywhere and somewhere > 1.
    """

    shape: ArrayLike
    rate: ArrayLike = 1.0

    def __post_init__(self) -> None:
        shape, rate = np.asarray(self.shape, dtype=np.float64), np.asarray(self.rate, dtype=np.float64)
        if not np.isfinite(shape).all() or (shape < 1).any() or (shape == 1).all():
            raise ValueError(
                f"Gamma shape {_few(shape)}: a posterior mode needs shape >= 1 everywhere and > 1 somewhere; "
                "use prior=None for maximum likelihood"
            )
        if not np.isfinite(rate).all() or (rate <= 0).any() or rate.ndim > 1:
            raise ValueError(f"Gamma rate {_few(rate)}: give a positive number, or one a topic")

    def broadcast(self, n_features: int, n_topics: int) -> tuple[Floats, Floats]:
        """(shape − 1) as a read-only m × K view, and the rate of each topic."""
        try:
            extra = np.broadcast_to(np.asarray(self.shape, dtype=np.float64) - 1, (n_features, n_topics))
            rate = np.broadcast_to(np.asarray(self.rate, dtype=np.float64), (n_topics,)).copy()
        except ValueError as error:
            raise ValueError(f"the prior does not fit {n_features} features × {n_topics} topics: {error}") from None
        if (flat := np.flatnonzero(extra.sum(axis=0) <= 0)).size:
            raise ValueError(
                f"Gamma shape is 1 for every feature of topic {flat[0]}: no posterior mode; give some shape > 1"
            )
        return extra, rate

    def penalty(self, F: Floats) -> float:
        """−log p(F) without its constant."""
        extra, rate = self.broadcast(*F.shape)
        return float(F.sum(axis=0, dtype=np.float64) @ rate - xlogy(extra, F).sum())

    def log_density(self, F: Floats) -> float:
        """log p(F), constants included."""
        extra, rate = self.broadcast(*F.shape)
        return float(-self.penalty(F) + ((extra + 1) * np.log(rate) - gammaln(extra + 1)).sum())

    def best_scales(self, F: Floats) -> Floats:
        """The column sums Σ_j (α_jk − 1) / β_k that every posterior mode has."""
        extra, rate = self.broadcast(*F.shape)
        return extra.sum(axis=0) / rate


def positive(name: str, value: ArrayLike, length: int, what: str) -> Floats:
    """A hyper-parameter as an array of this length: a positive number for all, or one a `what`."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r}; give a positive number, or one a {what}") from None
    if array.ndim > 1 or (array.ndim == 1 and len(array) != length):
        raise ValueError(f"{name} has shape {array.shape}; give a positive number, or one a {what} ({length})")
    if not np.isfinite(array).all() or (array <= 0).any():
        raise ValueError(f"{name}={_few(array)}; it must be positive and finite")
    return np.broadcast_to(array, (length,)).copy()


def _few(values: Floats) -> str:
    return (
        f"{values:g}"
        if values.ndim == 0
        else f"between {values.min(initial=np.inf):g} and {values.max(initial=-np.inf):g}"
    )
