"""Maps between the models: how a fit of one is read as, or starts, another. `docs/background/models.md` has the diagram.

The map between Poisson NMF and the topic model, on which all others build, is in `topics.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unmix.base.threads import use_threads
from unmix.base.types import Floats
from unmix.counts.counts import CountsLike, as_counts
from unmix.counts.sides import column_sums
from unmix.models.beliefs import point_topics
from unmix.models.poisson import poisson_to_topics
from unmix.models.problem import scaled_counts


def poisson_to_plsi(L: ArrayLike, F: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The triple X/N ≈ C diag(w) Hᵀ of Zhang et al.

    Parameters
    ----------
    L : array-like, n × K
        Loadings.
    F : array-like, m × K
        Factors.

    Returns
    -------
    tuple of three arrays
        C (n × K), w (K) and H (m × K): columns of C and H, and w, sum to one.

    Examples
    --------
    >>> import unmix as um
    >>> C, w, H = um.maps.poisson_to_plsi([[1.0, 3.0]], [[2.0, 0.0], [0.0, 2.0]])
    >>> w
    array([0.25, 0.75])
    """
    L, F = np.asarray(L, dtype=np.float64), np.asarray(F, dtype=np.float64)
    u, v = column_sums(F), column_sums(L)
    return L / v, u * v / (u @ v), F / u


def plsi_to_poisson(C: ArrayLike, w: ArrayLike, H: ArrayLike, total: float) -> tuple[Floats, Floats]:
    """L = N C diag(w), F = H.

    Parameters
    ----------
    C : array-like, n × K
        Columns sum to one.
    w : array-like, K
        Weights of topics, which sum to one.
    H : array-like, m × K
        Columns sum to one.
    total : float
        N, the sum of all counts.

    Returns
    -------
    tuple of two arrays
        L (n × K) and F (m × K).

    Examples
    --------
    >>> import unmix as um
    >>> um.maps.plsi_to_poisson([[1.0, 1.0]], [0.25, 0.75], [[1.0, 0.0], [0.0, 1.0]], total=8)[0]
    array([[2., 6.]])
    """
    return total * np.asarray(C, dtype=np.float64) * np.asarray(w), np.asarray(H, dtype=np.float64)


def poisson_to_lda(
    L: ArrayLike, F: ArrayLike, totals: ArrayLike, alpha: ArrayLike, eta: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Where LDA starts from a maximum-likelihood fit: γ_ik = α_k + t_i l*_ik, and the topics.

    Parameters
    ----------
    L : array-like, n × K
        Loadings.
    F : array-like, m × K
        Factors.
    totals : array-like, n
        t, the totals of samples.
    alpha : float or array-like
        The prior of proportions.
    eta : float or array-like, default=None
        The prior of topics, if they have one.

    Returns
    -------
    tuple of two arrays
        γ (n × K), and the topics (m × K). Without `eta` these are F*, no share below 1e-8; with it they are
        τ_jk = η_j + n_k f*_jk, n_k = Σ_i t_i l*_ik, since at a maximum-likelihood fit n_k f*_jk are the expected counts.

    Examples
    --------
    >>> import unmix as um
    >>> um.maps.poisson_to_lda([[2.0, 6.0]], [[1.0, 0.0], [0.0, 1.0]], totals=[8], alpha=0.5)[0]
    array([[2.5, 6.5]])
    """
    proportions, topics, _, _ = poisson_to_topics(L, F)
    counts = np.asarray(totals, dtype=np.float64)[:, None] * proportions
    if eta is None:
        return np.asarray(alpha) + counts, point_topics(topics)
    return np.asarray(alpha) + counts, np.reshape(np.asarray(eta, dtype=np.float64), (-1, 1)) + column_sums(
        counts
    ) * topics


def lda_to_poisson(gamma: ArrayLike, topics: ArrayLike, totals: ArrayLike) -> tuple[Floats, Floats]:
    """Posterior means of LDA on the Poisson scale: L = t γ / Σγ.

    Parameters
    ----------
    gamma : array-like, n × K
        Dirichlet parameters of proportions.
    topics : array-like, m × K
        Topics, or the parameters of their Dirichlets.
    totals : array-like, n
        t, the totals of samples.

    Returns
    -------
    tuple of two arrays
        L (n × K), and F (m × K), the topics or the means of their Dirichlets.

    Examples
    --------
    >>> import unmix as um
    >>> um.maps.lda_to_poisson([[1.0, 3.0]], [[1.0, 0.0], [0.0, 1.0]], totals=[8])[0]
    array([[2., 6.]])
    """
    gamma, topics = np.asarray(gamma, dtype=np.float64), np.asarray(topics, dtype=np.float64)
    return np.asarray(totals)[:, None] * gamma / gamma.sum(axis=1, keepdims=True), topics / topics.sum(axis=0)


def lda_to_gamma_poisson(gamma: ArrayLike, rate: ArrayLike) -> tuple[Floats, Floats]:
    """The same q in the other model (lemma E.3): Gamma(γ_ik, 1 + rate_k).

    Parameters
    ----------
    gamma : array-like, n × K
        Dirichlet parameters of proportions.
    rate : float or array-like
        Of the Gamma prior.

    Returns
    -------
    tuple of two arrays
        Shapes (n × K) and rates (K).

    Examples
    --------
    >>> import unmix as um
    >>> shape, rate = um.maps.lda_to_gamma_poisson([[1.0, 3.0]], 0.5)
    >>> shape, rate
    (array([[1., 3.]]), array([1.5, 1.5]))
    """
    gamma = np.asarray(gamma, dtype=np.float64)
    return gamma, np.broadcast_to(1 + np.asarray(rate, dtype=np.float64), gamma.shape[1:]).copy()


def gamma_poisson_to_lda(shape: ArrayLike) -> Floats:
    """Independent Gammas of one rate, divided by their sum, are a Dirichlet: γ is the shape.

    Parameters
    ----------
    shape : array-like, n × K
        Of the Gammas.

    Returns
    -------
    array, n × K
        γ.

    Examples
    --------
    >>> import unmix as um
    >>> um.maps.gamma_poisson_to_lda([[1.0, 3.0]])
    array([[1., 3.]])
    """
    return np.array(shape, dtype=np.float64)


def lda_to_allocation(gamma: ArrayLike, tau: ArrayLike, alpha: ArrayLike, eta: ArrayLike) -> tuple[Floats, Floats]:
    """Expected counts of each topic in every sample, S_ik = γ_ik − α_k, and in every feature, S_jk = τ_jk − η_j.

    LDA's α, the prior of proportions, is the allocation model's β, and LDA's η its α.

    Parameters
    ----------
    gamma : array-like, n × K
        Dirichlet parameters of proportions.
    tau : array-like, m × K
        Dirichlet parameters of topics.
    alpha : float or array-like
        The prior of proportions.
    eta : float or array-like
        The prior of topics.

    Returns
    -------
    tuple of two arrays
        n × K and m × K.

    Examples
    --------
    >>> import unmix as um
    >>> um.maps.lda_to_allocation([[2.5, 6.5]], [[2.1, 0.1], [0.1, 6.1]], alpha=0.5, eta=0.1)[0]
    array([[2., 6.]])
    """
    counts = np.asarray(gamma, dtype=np.float64) - np.asarray(alpha)
    return counts, np.asarray(tau, dtype=np.float64) - np.reshape(np.asarray(eta, dtype=np.float64), (-1, 1))


def allocation_to_lda(
    sample_counts: ArrayLike, feature_counts: ArrayLike, alpha: ArrayLike, beta: ArrayLike
) -> tuple[Floats, Floats]:
    """The Dirichlet posteriors of proportions and topics given S: γ_ik = β_k + S_ik, τ_jk = α_j + S_jk.

    Parameters
    ----------
    sample_counts : array-like, n × K
        S_ik, the counts of each topic in every sample.
    feature_counts : array-like, m × K
        S_jk, the counts of each topic of every feature.
    alpha : float or array-like
        The prior of topics.
    beta : float or array-like
        The prior of proportions.

    Returns
    -------
    tuple of two arrays
        γ (n × K) and τ (m × K).

    Examples
    --------
    >>> import unmix as um
    >>> um.maps.allocation_to_lda([[2.0, 6.0]], [[2.0, 0.0], [0.0, 6.0]], alpha=0.1, beta=0.5)[0]
    array([[2.5, 6.5]])
    """
    tau = np.reshape(np.asarray(alpha, dtype=np.float64), (-1, 1)) + np.asarray(feature_counts)
    return np.asarray(beta, dtype=np.float64) + np.asarray(sample_counts), tau


def poisson_to_gamma_gamma(
    X: CountsLike, L: ArrayLike, F: ArrayLike, a: float, b: float, c: float, d: float, n_jobs: int | None = None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Where Bayesian factorisation starts from a maximum-likelihood fit.

    Topics are scaled as the priors like them best; â = a + expected counts, b̂ = b + Σ_j f_jk, and so on.

    Parameters
    ----------
    X : Counts or array-like, n × m
        Counts.
    L : array-like, n × K
        Loadings.
    F : array-like, m × K
        Factors.
    a, b : float
        Shape and rate of the prior of loadings.
    c, d : float
        Shape and rate of the prior of factors.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.

    Returns
    -------
    tuple of four arrays
        (â, b̂, ĉ, d̂): shapes n × K and rates K of loadings, shapes m × K and rates K of factors.

    Examples
    --------
    >>> import unmix as um
    >>> shapes, rates, _, _ = um.maps.poisson_to_gamma_gamma([[2, 4]], [[2.0]], [[1.0], [2.0]], 0.3, 1.0, 0.3, 1.0)
    >>> shapes.round(6)
    array([[6.3]])
    """
    X = as_counts(X)
    with use_threads(n_jobs):
        Z, u, Y, v = scaled_counts(X.sides(), np.asarray(L, dtype=float), np.asarray(F, dtype=float), a, b, c, d)
    return a + Z, b + u, c + Y, d + v
