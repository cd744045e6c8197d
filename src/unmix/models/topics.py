"""The map between Poisson NMF and the multinomial topic model (Carbonetto et al., definition 1 and lemma 1).

    u_k = Σ_j f_jk    f*_jk = f_jk / u_k    s_i = Σ_k l_ik u_k    l*_ik = l_ik u_k / s_i

For any L and F:  log p_Poisson(X | L, F) = log p_multinomial(X | L*, F*) + Σ_i log Poisson(t_i; s_i).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unmix.types import Floats


def poisson_to_topics(L: ArrayLike, F: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
    """Loadings and factors -> (proportions L*, topics F*, sizes s, scales u).

    Rows of L* and columns of F* sum to one; where there is nothing to normalise (an empty sample, a dead topic) they are uniform.
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
    """The way back: L = s L* / u, F = u F*, for any scales u > 0 (1 by default). Sizes t_i give the maximum-likelihood L."""
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
