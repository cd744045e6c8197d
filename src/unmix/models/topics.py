"""The map between Poisson NMF and the multinomial topic model (Carbonetto et al., definition 1 and lemma 1).

    u_k = Σ_j f_jk    f*_jk = f_jk / u_k    s_i = Σ_k l_ik u_k    l*_ik = l_ik u_k / s_i

For any L and F:  log p_Poisson(X | L, F) = log p_multinomial(X | L*, F*) + Σ_i log Poisson(t_i; s_i).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unmix.types import Floats


def poisson_to_topics(L: ArrayLike, F: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
    """Loadings and factors as proportions, topics, sizes and scales: L = s L* / u, F = u F*.

    Parameters
    ----------
    L : array-like, n × K
        Loadings.
    F : array-like, m × K
        Factors.

    Returns
    -------
    tuple of four arrays
        Proportions L* (n × K, rows sum to one), topics F* (m × K, columns sum to one), sizes s (n) and scales u (K). Where
        there is nothing to normalise (an empty sample, a dead topic) they are uniform.

    See Also
    --------
    topics_to_poisson : The way back.
    Fit.proportions, Fit.topics, Fit.sizes : The same of a fit.

    Examples
    --------
    >>> import unmix as um
    >>> proportions, topics, sizes, scales = um.poisson_to_topics([[1.0, 3.0]], [[2.0, 0.0], [0.0, 2.0]])
    >>> proportions, sizes
    (array([[0.25, 0.75]]), array([8.]))
    """
    L, F = np.asarray(L, dtype=np.float64), np.asarray(F, dtype=np.float64)
    scales = F.sum(axis=0)
    weights = L * scales
    sizes = weights.sum(axis=1)
    n_features, n_topics = F.shape
    with np.errstate(divide="ignore", invalid="ignore"):
        topics = np.where(scales > 0, F / scales, 1 / n_features)
        proportions = np.where(sizes[:, None] > 0, weights / sizes[:, None], 1 / n_topics)
    return proportions, topics, sizes, scales


def topics_to_poisson(
    Lstar: ArrayLike, Fstar: ArrayLike, sizes: ArrayLike, scales: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Loadings and factors of a topic model: L = s L* / u, F = u F*.

    Parameters
    ----------
    Lstar : array-like, n × K
        Proportions.
    Fstar : array-like, m × K
        Topics.
    sizes : array-like, n
        Of samples; their totals t_i give the maximum-likelihood L.
    scales : array-like, K, default=None
        Any u > 0; None is 1.

    Returns
    -------
    tuple of two arrays
        L (n × K) and F (m × K).

    See Also
    --------
    poisson_to_topics : The way back.

    Examples
    --------
    >>> import unmix as um
    >>> um.topics_to_poisson([[0.25, 0.75]], [[1.0, 0.0], [0.0, 1.0]], [8.0])[0]
    array([[2., 6.]])
    """
    Lstar, Fstar = np.asarray(Lstar, dtype=np.float64), np.asarray(Fstar, dtype=np.float64)
    u = np.ones(Fstar.shape[1]) if scales is None else np.asarray(scales, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        L = np.where(u > 0, np.asarray(sizes, dtype=np.float64)[:, None] * Lstar / u, 0.0)
    return L, Fstar * u


def frequencies(L: ArrayLike, F: ArrayLike) -> Floats:
    """Of the features, as factors expect them in all samples together, half a count added to each: none is impossible."""
    totals = np.asarray(F, dtype=np.float64) @ np.asarray(L, dtype=np.float64).sum(axis=0) + 0.5
    return totals / totals.sum()


def with_background(L: Floats, F: Floats, totals: Floats, background: Floats, share: float) -> tuple[Floats, Floats]:
    """One more topic, of which every sample has this share: what was impossible is rare, and all else hardly changes. Samples
    keep their sizes; those without loadings have `totals`, all of it background."""
    if share == 0:
        return L, F
    sizes = L @ F.sum(axis=0)
    more = np.where(sizes > 0, share * sizes, totals)
    return np.column_stack([(1 - share) * L, more]), np.column_stack([F, background])
