"""The kernel of differences between topics: what the counts of every feature say of its rate in every topic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmix.kernels import Workspace, _native, _run
from unmix.threads import threads
from unmix.types import CSR, Floats


class Spread(NamedTuple):
    """How residuals of samples are added up where counts may scatter more than Poisson counts do: by samples, for which the
    products WᵀW of their weights are given, or by groups of them, for which labels and sums of weights are."""

    gram: Floats | None = None  # K × K
    labels: NDArray[np.int32] | None = None  # n
    group_sums: Floats | None = None  # G × K


class Posteriors(NamedTuple):
    """Of g = log f of every feature. Matrices are packed: rows of the lower triangle, one after the other."""

    modes: Floats  # m × K: f = exp g at the mode
    covariances: Floats  # m × K(K+1)/2: S, the inverse of the curvature there
    thirds: Floats  # m × K: the third derivative along S_:k / S_kk
    robust: Floats | None  # m × K(K+1)/2: S (cI + R) S
    pearson: Floats  # m: Σ_i (x_i − λ_i)² / λ_i
    rounds: NDArray[np.int32]  # m: Newton steps that it took


def posteriors(
    columns: CSR,
    weights: Floats,
    sums: Floats,
    rates: Floats,
    *,
    shape: float,
    start: float,
    spread: Spread | None = None,
    workspace: Workspace | None = None,
) -> Posteriors:
    """Of rows of features: x_i ~ Poisson(w_i·f), f_k ~ Gamma(shape, rates_j), from f_k = start / rates_j. `sums` are the column
    sums N of `weights`."""
    weights = np.ascontiguousarray(weights)
    m, K = len(rates), weights.shape[1]
    packed = (m, K * (K + 1) // 2)
    robust = None if spread is None else np.empty(packed)
    out = Posteriors(
        np.empty((m, K)), np.empty(packed), np.empty((m, K)), robust, np.empty(m), np.empty(m, dtype=np.int32)
    )
    given = Spread() if spread is None else spread
    _run(_native.posteriors, workspace, weights, *columns, weights, sums, rates, shape, start, *given, *out, threads())
    return out
