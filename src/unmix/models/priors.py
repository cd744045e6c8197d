"""Priors that make a maximum-likelihood fit a MAP fit: Gamma on factors or loadings, Dirichlet on topics or proportions.

    f_jk ~ Gamma(shape α_jk, rate β_k):   −log p(F) = −Σ (α_jk − 1) log f_jk + Σ β_k f_jk + const

With a flat prior on L this is the topic model with f*_k ~ Dirichlet(α_·k) (Carbonetto et al., corollary 2);
β moves only the scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from unmix.base.checks import positive as positive_number  # noqa: F401 - of models and estimators
from unmix.base.types import Factor, Floats


@dataclass(frozen=True)
class Gamma:
    """Gamma(shape, rate) on each factor f_jk, or each loading.

    Parameters
    ----------
    shape : float or array-like
        A number, or broadcastable to m × K (use (m, 1) for one per feature) or n × K. A posterior mode exists only if it is >=
        1 everywhere and somewhere > 1.
    rate : float or array-like, default=1.0
        A number, or one per topic. A topic whose shape is 1 everywhere and whose rate is 0 has no prior.

    Raises
    ------
    ValueError
        If there is no mode, or a rate is not above 0.

    See Also
    --------
    Dirichlet : The same for topics.
    PoissonNMF : Takes it as `prior` or `loadings_prior`.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> model = um.PoissonNMF(2, prior=um.Gamma(shape=1.1, rate=1), random_state=0).fit(X)
    >>> bool((model.components_ > 0).all())
    True
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
        none = np.broadcast_to((shape == 1).all(axis=0), rate.shape) if shape.ndim == 2 == rate.ndim + 1 else False
        if not np.isfinite(rate).all() or (rate < 0).any() or ((rate == 0) & ~np.asarray(none)).any() or rate.ndim > 1:
            raise ValueError(f"Gamma rate {_few(rate)}: use a positive number, or one per topic")

    def broadcast(self, rows: int, n_topics: int) -> tuple[Floats, Floats]:
        """(shape − 1) as a read-only rows × K view, and the rate of each topic."""
        extra = _extra(self.shape, rows, n_topics)
        try:
            rate = np.broadcast_to(np.asarray(self.rate, dtype=np.float64), (n_topics,)).copy()
        except ValueError as error:
            raise ValueError(f"the rate of the prior does not fit {n_topics} topics: {error}") from None
        flat = extra.sum(axis=0) <= 0
        if (flat := np.flatnonzero(flat & (rate > 0))).size:
            raise ValueError(f"Gamma shape is 1 everywhere in topic {flat[0]}: no posterior mode; use some shape > 1")
        return extra, rate

    @property
    def by_topic(self) -> bool:
        """Whether it differs from topic to topic, so that topics have places of their own."""
        return _differs(self.shape) or _differs(self.rate)

    def gradient(self, F: Factor) -> Floats:
        """Of the penalty."""
        extra, rate = self.broadcast(*F.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            return rate - np.where(extra > 0, extra / F, 0.0)

    def penalty(self, F: Factor) -> float:
        """−log p(F) without its constant."""
        extra, rate = self.broadcast(*F.shape)
        return float(F.sum(axis=0, dtype=np.float64) @ rate - xlogy(extra, F).sum())

    def best_scales(self, F: Factor) -> Floats:
        """The column sums Σ_j (α_jk − 1) / β_k that every posterior mode has."""
        extra, rate = self.broadcast(*F.shape)
        return extra.sum(axis=0) / rate


@dataclass(frozen=True)
class Dirichlet:
    """Dirichlet(concentration) on topics, or on the proportions of a sample.

    Parameters
    ----------
    concentration : float or array-like
        On topics a number, or one per feature; on proportions a number, or one per topic. A mode inside the simplex exists only
        if it is >= 1 everywhere and somewhere > 1.

    Raises
    ------
    ValueError
        If there is no mode.

    See Also
    --------
    LDA : Integrates over proportions, and takes concentrations below 1.
    TopicModel : Takes it as `prior` or `loadings_prior`.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> model = um.TopicModel(2, prior=um.Dirichlet(1.1), random_state=0).fit(X)
    >>> bool((model.components_ > 0).all())
    True
    """

    concentration: ArrayLike

    def __post_init__(self) -> None:
        c = np.asarray(self.concentration, dtype=np.float64)
        if not np.isfinite(c).all() or (c < 1).any() or (c == 1).all() or c.ndim > 1:
            raise ValueError(
                f"Dirichlet concentration {_few(c)}: a posterior mode needs numbers >= 1, some of them > 1; "
                "use no prior for maximum likelihood, or LDA for smaller ones"
            )

    def on_topics(self) -> Gamma:
        """The Gamma prior on factors with the same posterior mode of the topics (Carbonetto et al., corollary 2)."""
        c = np.asarray(self.concentration, dtype=np.float64)
        return Gamma(c if c.ndim == 0 else c[:, None])

    @property
    def by_topic(self) -> bool:
        """Whether, as the prior of proportions, it differs from topic to topic."""
        return _differs(self.concentration)

    def broadcast(self, rows: int, n_topics: int) -> tuple[Floats, Floats]:
        """As the prior of loadings of normalised topics: (concentration − 1) as a rows × K view, and no rate."""
        return _extra(self.concentration, rows, n_topics), np.zeros(n_topics)

    def penalty(self, L: Factor) -> float:
        """−log p(proportions) without its constant; a sample without counts says nothing."""
        L = L[L.sum(axis=1) > 0]
        extra, _ = self.broadcast(*L.shape)
        return -float(xlogy(extra, L / L.sum(axis=1, keepdims=True)).sum())


def _differs(values: ArrayLike) -> bool:
    """Whether they differ along their last axis, that of topics."""
    return np.ndim(values) > 0 and bool(np.ptp(values, axis=-1).any())


def _extra(shape: ArrayLike, rows: int, n_topics: int) -> Floats:
    try:
        return np.broadcast_to(np.asarray(shape, dtype=np.float64) - 1, (rows, n_topics))
    except ValueError as error:
        raise ValueError(f"the prior does not fit {rows} rows × {n_topics} topics: {error}") from None


def positive(name: str, value: ArrayLike, length: int, what: str) -> Floats:
    """A hyper-parameter as an array of this length: a positive number for all, or one a `what`."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r}; use a positive number, or one per {what}") from None
    if value is None:
        raise ValueError(f"{name}=None; use a positive number, or one per {what}")
    if array.ndim > 1 or (array.ndim == 1 and len(array) != length):
        raise ValueError(f"{name} has shape {array.shape}; use a positive number, or one per {what} ({length})")
    if not np.isfinite(array).all() or (array <= 0).any():
        raise ValueError(f"{name}={_few(array)}; it must be positive and finite")
    return np.broadcast_to(array, (length,)).copy()


def _few(values: Floats) -> str:
    return (
        f"{values:g}"
        if values.ndim == 0
        else f"between {values.min(initial=np.inf):g} and {values.max(initial=-np.inf):g}"
    )
