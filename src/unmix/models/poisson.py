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
from unmix.base.types import Factor, Floats, Integers, Record
from unmix.counts.counts import Counts, CountsLike, as_counts
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
    """One more topic, of which every sample has this share: what was impossible is rare, and all else is almost unchanged.
    Samples keep their sizes; those without loadings have `totals`, all of it background."""
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
        Whether to give one number per sample instead of their sum.
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
    X = as_counts(X)
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


# How well a sample is explained, whatever its depth. With y_ij = x_ij / t_i its frequencies, π_ij those of the model, and
# d_i = min(t_i, depth), where `depth` is that of the samples of the fit,
#
#     misfit_i = Σ_j ((y_ij − π_ij)² − y_ij / t_i) / (π_ij + SPARE / d_i)
#
# For Poisson counts E[(x − λ)² − x] = 0, so that it is 0 on average where the model is right, and the squared distance of the
# frequencies where it is not: of counts of other features, of bursts, of cells of a different kind.
#
# A sample of the fit had a part in its topics. As if it were new, its counts are taken out of them, by their responsibilities,
# and its proportions are recovered from the topics that are left, by a few steps of EM.

SPARE = 0.3  # counts, so that rare features do not decide
REFERENCE = 400  # samples of a fit that others are compared with
AGAIN = 5  # steps of EM
CELLS = 1 << 21  # of samples × features at a time


def misfits(X: Counts, proportions: Floats, topics: Floats, depth: float, weights: Floats | None = None) -> Floats:
    """Of every sample, NaN where it is empty. With `weights`, the counts of topics in a fit that had these samples, as if they
    were new to it."""
    n, m = X.shape
    found = np.full(n, np.nan)
    step = max(1, CELLS // m)
    for start in range(0, n, step):
        rows = np.arange(start, min(n, start + step))
        found[rows] = _misfits(X.take(rows), proportions[rows], topics, depth, weights)
    return np.where(X.sample_totals > 0, found, np.nan)


def _misfits(X: Counts, proportions: Floats, topics: Floats, depth: float, weights: Floats | None) -> Floats:
    n, totals = len(X), np.maximum(X.sample_totals, 1e-9)
    floors = SPARE / np.minimum(totals, depth)
    i, j, x = X.sides().left.owners, X.rows.indices, X.rows.data
    own = topics[j]
    if weights is not None:
        taken = x[:, None] * _shares(proportions[i] * own)
        there = np.maximum(weights - _sums(i, taken, n), 1e-9)
        own = np.maximum(own * weights - taken, 0) / there[i]
        for _ in range(AGAIN):
            proportions = _sums(i, x[:, None] * _shares(proportions[i] * own), n) / totals[:, None]
    expected, y = np.minimum(np.einsum("ik,ik->i", proportions[i], own), 1.0), x / totals[i]
    rates = proportions @ topics.T
    rates *= rates / (rates + floors[:, None])  # what a cell without counts adds
    cells = ((y - expected) ** 2 - y / totals[i]) / (expected + floors[i]) - rates[i, j]
    return rates.sum(axis=1) + np.bincount(i, cells, minlength=n)


def _shares(rates: Floats) -> Floats:
    return rates / np.maximum(rates.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def _sums(owners: Integers, values: Floats, n: int) -> Floats:
    return np.column_stack([np.bincount(owners, column, minlength=n) for column in values.T])


def reference(X: Counts, L: Factor, F: Factor, weights: Floats) -> Record:
    """The misfits of some samples of a fit, as if they were new, in order, and their depth: what `Fit.data` keeps."""
    totals = X.sample_totals[X.sample_totals > 0]
    depth = float(np.median(totals)) if totals.size else 1.0
    proportions, topics, _, _ = poisson_to_topics(L, F)
    found = misfits(X, proportions, topics, depth, weights)
    return {"depth": depth, "misfits": [float(f"{value:.4g}") for value in np.sort(found[np.isfinite(found)])]}


# Which topic is which: the columns of two matrices, paired one to one so that pairs are most similar.
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
    """For each of several matrices of one shape the order of columns that puts them where the first has those most like
    them."""
    return [linear_sum_assignment(affinities(matrices[0], matrix), maximize=True)[1] for matrix in matrices]
