"""The allocation model: every count is labelled with the topic it came from.

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
from numpy.typing import ArrayLike
from scipy.special import betaincinv, gammaln

from unmix.counts import Counts
from unmix.kernels.sampling import log_gamma
from unmix.models.dirichlet import dirichlet_sd
from unmix.models.priors import positive, positive_number
from unmix.types import Floats


class Moments(NamedTuple):
    """Posterior mean and standard deviation."""

    mean: Floats
    sd: Floats


@dataclass(frozen=True)
class Allocation:
    """The hyper-parameters: sizes ~ Gamma(a, rate b), topics ~ Dirichlet(alpha), proportions ~ Dirichlet(beta)."""

    a: float
    b: float
    alpha: Floats  # one per feature
    beta: Floats  # one per topic

    @classmethod
    def for_data(cls, X: Counts, n_topics: int, a: Any, b: Any, alpha: ArrayLike, beta: ArrayLike) -> Self:
        """Numbers become vectors, and `b=None` the rate at which the prior expects samples of the size they have."""
        shape, mean = positive_number("a", a), X.total / X.shape[0]
        rate = positive_number("b", b) if b is not None else shape / mean if mean > 0 else 1.0
        return cls(
            shape, rate, positive("alpha", alpha, X.shape[1], "feature"), positive("beta", beta, n_topics, "topic")
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

    def ell(self, by_feature: Floats, by_sample: Floats, log_factorials: float) -> float:
        """ℓ(S) from S_jk (m × K), S_ik (n × K) and Σ logΓ(S_ijk + 1)."""
        topics = by_feature.sum(axis=0)
        features = log_gamma(self.alpha[:, None] + by_feature).sum()
        samples = log_gamma(self.beta + by_sample).sum()
        return float(features + samples - log_gamma(self.alpha.sum() + topics).sum() - log_factorials)

    def log_joint(self, by_feature: Floats, by_sample: Floats, log_factorials: float) -> float:
        """log p(S)."""
        return self.log_constant(by_sample.sum(axis=1)) + self.ell(by_feature, by_sample, log_factorials)

    def topics(self, by_feature: Floats) -> Moments:
        """Of f*_k given S, one topic a column."""
        parameters = self.alpha[:, None] + by_feature
        return Moments(parameters / parameters.sum(axis=0), dirichlet_sd(parameters, axis=0))

    def proportions(self, by_sample: Floats) -> Moments:
        """Of l*_i given S, one sample a row."""
        parameters = self.beta + by_sample
        return Moments(parameters / parameters.sum(axis=1, keepdims=True), dirichlet_sd(parameters, axis=1))

    def posterior(self, by_feature: Floats, by_sample: Floats) -> dict[str, Floats]:
        """Dirichlet parameters of topics and proportions given S, and their priors, in the form of the variational models."""
        q, p = self.alpha[:, None] + by_feature, self.beta + by_sample
        return {"L": p, "L_prior": self.beta, "F": q, "F_prior": self.alpha[:, None]}

    def sizes(self, totals: Floats) -> Moments:
        """Of s_i given t_i."""
        shape, rate = self.a + totals, self.b + 1
        return Moments(shape / rate, np.sqrt(shape) / rate)


def matched_quantile(mean: Floats, sd: Floats, probability: float) -> Floats:
    """Of the Beta distribution with this mean and standard deviation."""
    with np.errstate(divide="ignore", invalid="ignore"):
        concentration = mean * (1 - mean) / sd**2 - 1
        quantile = betaincinv(mean * concentration, (1 - mean) * concentration, probability)
    return np.where(sd > 0, quantile, mean)


def check_labelable(X: Counts, purpose: str) -> None:
    """Labels go to whole counts of no more than 31 bits."""
    X.require_whole(purpose, 'or use method="bld"')
    if X.nnz and X.rows.data.max() >= 2**31:
        raise ValueError(
            f'the largest count is {X.rows.data.max():.10g}; {purpose} labels single counts: use method="bld"'
        )
