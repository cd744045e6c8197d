"""Poisson NMF and the topic model: the map between them, likelihoods, deviance, KKT residuals, checks and matching of factors.

The map between Poisson NMF and the multinomial topic model (Carbonetto et al., definition 1 and lemma 1).

    u_k = Σ_j f_jk    f*_jk = f_jk / u_k    s_i = Σ_k l_ik u_k    l*_ik = l_ik u_k / s_i

For any L and F:  log p_Poisson(X | L, F) = log p_multinomial(X | L*, F*) + Σ_i log Poisson(t_i; s_i).
"""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, xlogy

from unmix.base.threads import use_threads
from unmix.base.types import Factor, Floats, Integers
from unmix.counts.counts import Counts, CountsLike
from unmix.counts.sides import column_sums


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
    proportions, sizes = proportions_and_sizes(L, scales)
    with np.errstate(divide="ignore", invalid="ignore"):
        topics = np.where(scales > 0, F / scales, 1 / len(F))
    return proportions, topics, sizes, scales


def proportions_and_sizes(L: Floats, scales: Floats) -> tuple[Floats, Floats]:
    """Of loadings, given the column sums of the factors."""
    weights = L * scales
    sizes = weights.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sizes[:, None] > 0, weights / sizes[:, None], 1 / L.shape[1]), sizes


def column_shares(weights: Floats, otherwise: float | Floats) -> Floats:
    """Columns divided by their sums; `otherwise` in those without weight."""
    totals = weights.sum(axis=0)
    return np.where(totals > 0, weights / np.where(totals > 0, totals, 1), otherwise)


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


# Poisson NMF, x_ij ~ Poisson(Σ_k l_ik f_jk), and what is measured of a fit: likelihoods, deviance, KKT residuals.
#
# loss   = Σ_k u_k v_k − Σ x log λ         (the negative log-likelihood without constants)
# loglik = −loss − Σ log Γ(x + 1)
# KKT    : gradients ∂loss/∂L = u − A, ∂loss/∂F = v − B are >= 0, and 0 where L, F > 0


def expected_total(L: Factor, F: Factor) -> float:
    """Σ_ij λ_ij, without visiting a single zero."""
    return float(column_sums(L) @ column_sums(F))


@overload
def loglik(
    X: CountsLike,
    L: ArrayLike,
    F: ArrayLike,
    model: Literal["poisson", "multinomial"] = ...,
    per_sample: Literal[False] = ...,
    n_jobs: int | None = ...,
) -> float: ...
@overload
def loglik(
    X: CountsLike,
    L: ArrayLike,
    F: ArrayLike,
    model: Literal["poisson", "multinomial"] = ...,
    *,
    per_sample: Literal[True],
    n_jobs: int | None = ...,
) -> Floats: ...
def loglik(
    X: CountsLike,
    L: ArrayLike,
    F: ArrayLike,
    model: Literal["poisson", "multinomial"] = "poisson",
    per_sample: bool = False,
    n_jobs: int | None = None,
) -> float | Floats:
    """Log-likelihood of counts X given loadings and factors, all constants included.

    Parameters
    ----------
    X : Counts or array-like, n × m
        Counts.
    L : array-like, n × K
        Loadings.
    F : array-like, m × K
        Factors.
    model : str, default="poisson"
        "poisson", or "multinomial": that of the topic model that L and F are equivalent to (sample totals taken as known).
    per_sample : bool, default=False
        Whether to give one number a sample instead of their sum.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.

    Returns
    -------
    float or array, n
        −inf where a count is impossible.

    Raises
    ------
    ValueError
        If shapes do not fit, or there is no such model.

    Examples
    --------
    >>> import unmix as um
    >>> round(um.loglik([[1, 0]], [[1.0]], [[1.0], [1.0]]), 6)
    -2.0
    """
    if model not in ("poisson", "multinomial"):
        raise ValueError(f'model is {model!r}; choose "poisson" or "multinomial"')
    with use_threads(n_jobs):
        values = logliks(*_checked(X, L, F), multinomial=model == "multinomial")
    return values if per_sample else float(values.sum())


def logliks(X: Counts, L: Floats, F: Floats, *, multinomial: bool = False) -> Floats:
    """Of every sample, for factors that are known to fit the data."""
    if multinomial:
        L, F, _, _ = poisson_to_topics(L, F)
    values = X.sides().left.xlogs(L, F)
    values -= _row_sums(X, gammaln(X.rows.data + 1))
    values += gammaln(X.sample_totals + 1) if multinomial else -(L @ F.sum(axis=0))
    return values


def deviance(X: CountsLike, L: ArrayLike, F: ArrayLike, n_jobs: int | None = None) -> float:
    """2 KL(X ‖ L Fᵀ): twice the log-likelihood lost against a model that predicts every count exactly.

    Parameters
    ----------
    X : Counts or array-like, n × m
        Counts.
    L : array-like, n × K
        Loadings.
    F : array-like, m × K
        Factors.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.

    Returns
    -------
    float
        0 where every count is predicted exactly, inf where one is impossible.

    Raises
    ------
    ValueError
        If shapes do not fit.

    Examples
    --------
    >>> import unmix as um
    >>> um.deviance([[2, 4]], [[2.0]], [[1.0], [2.0]])
    0.0
    """
    X, L, F = _checked(X, L, F)
    with use_threads(n_jobs):
        xlog = X.sides().left.xlogs(L, F).sum()
    return 2 * float(xlogy(X.rows.data, X.rows.data).sum() - xlog - X.total + expected_total(L, F))


def residual(factor: Factor, gradient: Floats) -> float:
    """The largest |factor ∘ gradient|, 0 at a solution; infinite where a count has a rate of zero."""
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(np.abs(factor * gradient), nan=np.inf).max(initial=0))


def kkt(X: CountsLike, L: ArrayLike, F: ArrayLike, n_jobs: int | None = None) -> float:
    """The largest KKT residual max(|L ∘ (u − A)|, |F ∘ (v − B)|): how far a fit is from a solution, on any scale of its topics.

    Parameters
    ----------
    X : Counts or array-like, n × m
        Counts.
    L : array-like, n × K
        Loadings.
    F : array-like, m × K
        Factors.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.

    Returns
    -------
    float
        0 at a solution.

    Raises
    ------
    ValueError
        If shapes do not fit.

    See Also
    --------
    solvers.StopAtKKT : End a fit by it.

    Examples
    --------
    >>> import unmix as um
    >>> um.kkt([[2, 4]], [[2.0]], [[1.0], [2.0]])
    0.0
    """
    X, L, F = _checked(X, L, F)
    with use_threads(n_jobs):
        sides = X.sides()
        left = residual(L, column_sums(F) - sides.left.numerators(L, F)[0])
        return max(left, residual(F, column_sums(L) - sides.right.numerators(F, L)[0]))


def _row_sums(X: Counts, values: Floats) -> Floats:
    starts = X.rows.indptr[:-1]
    filled = np.diff(X.rows.indptr) > 0
    sums = np.zeros(X.shape[0])
    if filled.any():
        sums[filled] = np.add.reduceat(values, starts[filled])
    return sums


def _checked(X: CountsLike, L: ArrayLike, F: ArrayLike) -> tuple[Counts, Floats, Floats]:
    X = X if isinstance(X, Counts) else Counts(X)
    return X, *check_factors(X.shape, L, F)


def check_factors(
    shape: tuple[int, int], L: ArrayLike, F: ArrayLike, n_topics: int | None = None
) -> tuple[Floats, Floats]:
    """L and F as C-ordered float64 arrays that fit a matrix of this shape, or an error that says what does not."""
    out = []
    for name, factor, rows, axis in (("L", L, shape[0], "samples"), ("F", F, shape[1], "features")):
        array = np.array(factor, dtype=np.float64, order="C", ndmin=1)
        if array.ndim != 2 or array.shape[0] != rows or (n_topics is not None and array.shape[1] != n_topics):
            want = f"({rows}, {n_topics if n_topics is not None else 'n_components'})"
            raise ValueError(f"{name} has shape {array.shape}; {rows} {axis} need shape {want}")
        if not np.isfinite(array).all() or (array < 0).any():
            row, column = np.argwhere(~(np.isfinite(array) & (array >= 0)))[0]
            raise ValueError(
                f"{name}[{row}, {column}] is {array[row, column]:g}; loadings and factors are finite and >= 0"
            )
        out.append(array)
    if out[0].shape[1] != out[1].shape[1]:
        raise ValueError(f"L has {out[0].shape[1]} topics and F has {out[1].shape[1]}; they must agree")
    return out[0], out[1]


# Which topic is which: the columns of two matrices, paired one to one so that pairs are most alike.
#
# For columns f and g that each sum to one
#
#     affinity Σ_j √(f_j g_j)     1 where they are the same, 0 where they have nothing in common
#     Hellinger distance √(1 − affinity) = ‖√f − √g‖ / √2
#
# As Σ (√f − √g)² = Σ f + Σ g − 2 Σ √(f g), and a column without a partner costs its own Σ f, the pairs of the largest sum of
# affinities are those of the smallest sum of squared distances, also where columns do not sum to one.


def affinities(one: Floats, two: Floats) -> Floats:
    """Of each column of one matrix (rows of the result) and each of the other (columns of the result)."""
    return np.sqrt(one).T @ np.sqrt(two)


def hellinger_distances(one: Floats, two: Floats) -> Floats:
    """Between each column of one matrix and each of the other, both with columns that sum to one."""
    return np.sqrt(np.clip(1 - affinities(one, two), 0, 1))


def best_pairs(closeness: Floats) -> dict[int, int]:
    """For rows of a matrix their columns: the pairs, each row and each column in one at most, of the largest sum."""
    rows, columns = linear_sum_assignment(closeness, maximize=True)
    return dict(zip(rows.tolist(), columns.tolist(), strict=True))


def match_columns(one: Floats, two: Floats) -> dict[int, int]:
    """For columns of one matrix those of the other with which they have the largest sum of affinities."""
    return best_pairs(affinities(one, two))


def match_to_first(matrices: Floats) -> list[Integers]:
    """For each of several matrices of one shape the order of columns that puts them where the first has those most like them."""
    return [linear_sum_assignment(affinities(matrices[0], matrix), maximize=True)[1] for matrix in matrices]
