"""The allocation model (Cemgil et al.): every count is labelled with the topic it came from.

    s_i ~ Gamma(a, b)    f*_k ~ Dirichlet(α)    l*_i ~ Dirichlet(β)    S_ijk ~ Poisson(s_i l*_ik f*_jk)    x_ij = Σ_k S_ijk

Sizes, topics and proportions integrate out. With S_jk, S_ik, S_k the sums of S, t_i = Σ_j x_ij, N = Σ x, α₊ = Σα, β₊ = Σβ:

    log p(S) = log C + ℓ(S)
    log C = K [logΓ(α₊) − Σ_j logΓ(α_j)] + n [logΓ(β₊) − Σ_k logΓ(β_k) + a log b − logΓ(a)]
            − (a n + N) log(b + 1) + Σ_i [logΓ(a + t_i) − logΓ(β₊ + t_i)]
    ℓ(S)  = Σ_jk logΓ(α_j + S_jk) + Σ_ik logΓ(β_k + S_ik) − Σ_k logΓ(α₊ + S_k) − Σ_ijk logΓ(S_ijk + 1)

and given S they are independent:  f*_k ~ Dirichlet(α + S_·k),   l*_i ~ Dirichlet(β + S_i·),   s_i ~ Gamma(a + t_i, b + 1).
Mind the letters: α belongs to topics and β to proportions here, the other way round than in LDA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from unmix.counts import Counts
from unmix.kernels.sampling import log_gamma

Floats = NDArray[np.float64]


class Moments(NamedTuple):
    """Posterior mean and standard deviation."""

    mean: Floats
    sd: Floats


@dataclass(frozen=True)
class Allocation:
    """The hyper-parameters: sizes ~ Gamma(a, rate b), topics ~ Dirichlet(alpha), proportions ~ Dirichlet(beta)."""

    a: float
    b: float
    alpha: Floats  # one a feature
    beta: Floats  # one a topic

    @classmethod
    def for_data(cls, X: Counts, n_topics: int, a: Any, b: Any, alpha: ArrayLike, beta: ArrayLike) -> Self:
        """Numbers become vectors, and `b=None` the rate at which the prior expects samples of the size they have."""
        shape = _positive("a", a)
        mean = X.total / X.shape[0]
        rate = _positive("b", b) if b is not None else shape / mean if mean > 0 else 1.0
        return cls(
            shape,
            rate,
            _vector("alpha", alpha, X.shape[1], "feature"),
            _vector("beta", beta, n_topics, "topic"),
        )

    @property
    def n_topics(self) -> int:
        return len(self.beta)

    def log_sizes(self, totals: Floats) -> float:
        """Σ_i log p(t_i) + log t_i!: what the sizes of samples contribute to log p(X)."""
        a, b = self.a, self.b
        return float((gammaln(a + totals) - gammaln(a) + a * np.log(b / (b + 1)) - totals * np.log1p(b)).sum())

    def log_constant(self, totals: Floats) -> float:
        """log C."""
        n, total_alpha, total_beta = len(totals), self.alpha.sum(), self.beta.sum()
        topics = self.n_topics * (gammaln(total_alpha) - gammaln(self.alpha).sum())
        proportions = n * (gammaln(total_beta) - gammaln(self.beta).sum()) - gammaln(total_beta + totals).sum()
        return float(topics + proportions) + self.log_sizes(totals)

    def ell(self, by_feature: Floats, by_sample: Floats, log_factorials: float, *, threads: int = 1) -> float:
        """ℓ(S) from S_jk (m × K), S_ik (n × K) and Σ logΓ(S_ijk + 1)."""
        topics = by_feature.sum(axis=0)
        features = log_gamma(self.alpha[:, None] + by_feature, threads=threads).sum()
        samples = log_gamma(self.beta + by_sample, threads=threads).sum()
        return float(features + samples - log_gamma(self.alpha.sum() + topics).sum() - log_factorials)

    def log_joint(self, by_feature: Floats, by_sample: Floats, log_factorials: float) -> float:
        """log p(S)."""
        return self.log_constant(by_sample.sum(axis=1)) + self.ell(by_feature, by_sample, log_factorials)

    def topics(self, by_feature: Floats) -> Moments:
        """Of f*_k given S, one topic a column."""
        return dirichlet_moments(self.alpha[:, None] + by_feature, axis=0)

    def proportions(self, by_sample: Floats) -> Moments:
        """Of l*_i given S, one sample a row."""
        return dirichlet_moments(self.beta + by_sample, axis=1)

    def sizes(self, totals: Floats) -> Moments:
        """Of s_i given t_i."""
        shape, rate = self.a + totals, self.b + 1
        return Moments(shape / rate, np.sqrt(shape) / rate)


def dirichlet_moments(parameters: Floats, axis: int) -> Moments:
    total = parameters.sum(axis=axis, keepdims=True)
    mean = parameters / total
    return Moments(mean, np.sqrt(mean * (1 - mean) / (total + 1)))


def check_whole(X: Counts, purpose: str) -> None:
    """Labels go to whole counts: say where there is another, and what to do."""
    data = X.rows.data
    if len(data) and data.max() >= 2**31:
        bad, why = int(data.argmax()), "is too large to label"
    elif (fractions := data != np.floor(data)).any():
        bad, why = int(np.argmax(fractions)), "is not a whole number"
    else:
        return
    row = int(np.searchsorted(X.rows.indptr, bad, side="right")) - 1
    raise ValueError(
        f"the count {data[bad]:.10g} at row {row}, column {X.rows.indices[bad]} {why}; {purpose} labels single counts: "
        'give raw counts, or round them first, or use method="bld"'
    )


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not np.isscalar(value) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{name}={value!r}; give a number > 0")
    if not 0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r}; give a finite number > 0")
    return float(value)


def _vector(name: str, value: ArrayLike, size: int, what: str) -> Floats:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r}; give a number > 0, or one a {what}") from None
    if array.ndim > 1 or array.size not in (1, size):
        raise ValueError(f"{name} has shape {array.shape} for {size} {what}s; give a number, or one a {what}")
    if not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(
            f"{name} holds {array.ravel()[~(np.isfinite(array) & (array > 0)).ravel()][0]:g}; it must be > 0"
        )
    return np.ascontiguousarray(np.broadcast_to(array.ravel(), (size,)).copy() if array.size == 1 else array)
