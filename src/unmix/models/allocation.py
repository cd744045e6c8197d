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

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, gammaln

from unmix import kernels
from unmix.base import memory
from unmix.base.types import Floats, Integers, Record
from unmix.counts.counts import Counts
from unmix.counts.data import Data, Engine
from unmix.counts.sides import Side, Sides
from unmix.kernels import Labels, digamma, log_gamma
from unmix.models.poisson import logliks, match_to_first
from unmix.models.priors import positive, positive_number
from unmix.models.problem import Estimate, Iterate


@dataclass(frozen=True)
class Allocation:
    """The hyper-parameters: sizes ~ Gamma(a, rate b), topics ~ Dirichlet(alpha), proportions ~ Dirichlet(beta)."""

    a: float
    b: float
    alpha: Floats  # one per feature
    beta: Floats  # one per topic

    @classmethod
    def for_data(cls, X: Data, n_topics: int, a: Any, b: Any, alpha: ArrayLike, beta: ArrayLike) -> Self:
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

    def topics(self, by_feature: Floats, logs: bool = False) -> Floats:
        """Moments of f*_k given S, one topic a column."""
        return dirichlet_moments(self.alpha[:, None] + by_feature, -2, logs)

    def proportions(self, by_sample: Floats, logs: bool = False) -> Floats:
        """Moments of l*_i given S, one sample a row."""
        return dirichlet_moments(self.beta + by_sample, -1, logs)

    def posterior(self, by_feature: Floats, by_sample: Floats) -> dict[str, Floats]:
        """Dirichlet parameters of topics and proportions given S, and their priors, in the form of the variational models."""
        q, p = self.alpha[:, None] + by_feature, self.beta + by_sample
        return {"L": p, "L_prior": self.beta, "F": q, "F_prior": self.alpha[:, None]}

    def sizes(self, totals: Floats) -> Floats:
        """Means of s_i given t_i."""
        return (self.a + totals) / (self.b + 1)


def dirichlet_moments(parameters: Floats, axis: int, logs: bool) -> Floats:
    """Means, mean squares, and with `logs` mean logarithms: stacked on a new first axis."""
    total = parameters.sum(axis=axis, keepdims=True)
    mean = parameters / total
    moments = [mean, mean * (parameters + 1) / (total + 1)]
    return np.stack([*moments, digamma(parameters) - digamma(total)] if logs else moments)


class Modes(NamedTuple):
    """W*, H* and L* of a best latent decomposition: the modes of topics, proportions and sizes given S, and for each topic and
    each sample whether there is one. Where there is none (a parameter below 1), the posterior mean is in its place."""

    topics: Floats  # m × K
    proportions: Floats  # n × K
    sizes: Floats  # n
    topic_modes: NDArray[np.bool_]  # K
    proportion_modes: NDArray[np.bool_]  # n
    size_modes: NDArray[np.bool_]  # n


def dirichlet_modes(parameters: Floats, axis: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Along an axis: the mode where all parameters are at least 1 and one is above, the mean elsewhere; and where it is
    which."""
    total = parameters.sum(axis=axis, keepdims=True)
    spare = total - parameters.shape[axis]
    exists = (parameters.min(axis=axis, keepdims=True) >= 1) & (spare > 0)
    modes = np.where(exists, (parameters - 1) / np.where(exists, spare, 1), parameters / total)
    return modes, exists.squeeze(axis)


def sd(mean: Floats, square: Floats) -> Floats:
    """Standard deviations, from means and mean squares."""
    return np.sqrt(np.maximum(square - mean**2, 0))


def matched_quantile(mean: Floats, sd: Floats, probability: float) -> Floats:
    """Of the Beta distribution with this mean and standard deviation."""
    with np.errstate(divide="ignore", invalid="ignore"):
        concentration = mean * (1 - mean) / sd**2 - 1
        quantile = betaincinv(mean * concentration, (1 - mean) * concentration, probability)
    return np.where(sd > 0, quantile, mean)


# The task of allocating counts to topics, and its iterates: sums of a real S, or a label for every single token.
#
# Labels stand for the tensor S_ijk = number of tokens of (i, j) with label k. Of sampled labels the posterior means and variances
# are averages of closed forms (Rao–Blackwell), not of draws:
#
#     E f*_jk ≈ mean of (α_j + S_jk) / (α₊ + S_k),      E f*_jk² ≈ mean of (α_j + S_jk)(α_j + S_jk + 1) / ((α₊ + S_k)(α₊ + S_k +
# 1))
#
# Topics have no order of their own: where β is the same for all, each chain's topics are matched to the first chain's before
# chains are averaged. If topics change places within a chain, no matching helps: look at R̂, and at the chains apart.


@dataclass(frozen=True, kw_only=True)
class Sums(Iterate, ABC):
    """What log p(S) needs of S besides the counts themselves: S_jk and S_ik."""

    by_feature: Floats
    by_sample: Floats

    @abstractmethod
    def allocation(self, side: Side) -> Floats:
        """S, nonzeros × K."""


@dataclass(frozen=True, kw_only=True)
class Labelled(Iterate):
    """Every token has a label. A fit remembers the labels; the tables can be counted again."""

    held: Labels

    def save(self) -> Record:
        return {"loss": self.loss, "conclusive": self.conclusive, "note": self.note, "labels": self.held.labels}


@dataclass(frozen=True)
class Averages:
    """Sums over kept sweeps, of S_jk and of the moments given S, and how many sweeps they are."""

    kept: int
    allocation: NDArray[Any]  # S, whole numbers: chains × nonzeros × K, or no nonzeros where it is not asked for
    counts: Floats  # chains × m × K
    topics: Floats  # moments × chains × m × K
    proportions: Floats  # moments × chains × n × K

    def __add__(self, other: Averages) -> Averages:
        return Averages(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def ordered(self, orders: list[Integers]) -> Averages:
        """The topics of each chain in its order."""

        def placed(sums: NDArray[Any]) -> NDArray[Any]:
            return np.stack([sums[..., c, :, :][..., order] for c, order in enumerate(orders)], axis=-3)

        return Averages(self.kept, *(placed(getattr(self, name)) for name in [*self.__dataclass_fields__][1:]))


@dataclass(frozen=True, kw_only=True)
class Chains(Labelled):
    random: NDArray[np.uint64]
    # log p(S) of every chain after every sweep; one list, which grows with the last state
    history: list[tuple[float, ...]]
    sweeps: int  # this many of them are of this state
    burnt: int  # sweeps before the first that counts
    averages: Averages | None = None

    @property
    def log_joints(self) -> Floats:
        """Of all sweeps, sweeps × chains."""
        return np.array(self.history[: self.sweeps]).reshape(self.sweeps, self.held.chains)

    def save(self) -> Record:
        chains = {"random": self.random, "history": self.log_joints, "burnt": self.burnt}
        return super().save() | chains | ({} if self.averages is None else {"averages": vars(self.averages)})


@dataclass(frozen=True)
class AllocationTask:
    """maximise log p(S) over S >= 0 with Σ_k S_ijk = x_ij. The loss of an iterate is −log p(S)."""

    X: Counts
    model: Allocation

    @cached_property
    def engine(self) -> Engine:
        return self.X.engine(self.model.n_topics)

    @cached_property
    def sides(self) -> Sides:
        return self.X.sides()

    @cached_property
    def constant(self) -> float:
        return self.model.log_constant(self.X.sample_totals)

    @cached_property
    def over_rows(self) -> sp.csr_array:
        """n × nonzeros: turns ρ into S_ik."""
        rows = self.X.rows
        return sp.csr_array((rows.data, np.arange(self.X.nnz), rows.indptr), shape=(self.X.shape[0], self.X.nnz))

    @cached_property
    def over_columns(self) -> sp.csr_array:
        """m × nonzeros: turns ρ into S_jk."""
        columns, order = self.X.columns, self.X.column_order
        return sp.csr_array((columns.data, order, columns.indptr), shape=(self.X.shape[1], self.X.nnz))

    def loss(self, by_feature: Floats, by_sample: Floats, log_factorials: float) -> float:
        return -self.constant - self.model.ell(by_feature, by_sample, log_factorials)

    def gradients(self, state: Sums) -> tuple[Floats, Floats]:
        """ψ(β_k + S_ik), n × K, and G⁻, m × K."""
        model = self.model
        below = digamma(model.alpha[:, None] + state.by_feature)
        above = digamma(model.alpha.sum() + state.by_feature.sum(axis=0))
        return digamma(model.beta + state.by_sample), above - below

    def labels(self, labels: NDArray[np.uint16]) -> Labels:
        """With tables counted from the labels (chains × tokens), which are taken as they are, not copied."""
        return Labels.of(self.X.rows, self.X.shape, self.model.n_topics, labels)

    def log_joints(self, held: Labels) -> tuple[float, ...]:
        """log p(S) of every chain."""
        factorials = kernels.log_factorials(self.X.rows, held)
        return tuple(-self.loss(*chain) for chain in zip(*tables(held), factorials, strict=True))

    def moments(self, held: Labels, logs: bool = False, allocation: bool = False) -> Averages:
        """Of the present sweep alone."""
        features, samples = tables(held)
        S = self.allocation(held) if allocation else np.zeros((held.chains, 0, held.topics), np.int32)
        return Averages(1, S, features, self.model.topics(features, logs), self.model.proportions(samples, logs))

    def allocation(self, held: Labels) -> NDArray[np.int32]:
        """S of every chain, chains × nonzeros × K: how many tokens of a nonzero have each label."""
        S = np.zeros((held.chains, self.X.nnz, held.topics), np.int32)
        owners = np.repeat(np.arange(self.X.nnz), self.X.rows.data.astype(np.int64))
        for chain, labels in zip(S, held.labels, strict=True):
            np.add.at(chain, (owners, labels), 1)
        return S

    def metrics(self, state: Iterate) -> dict[str, float]:
        return {"loglik": np.nan, "objective": -state.loss}

    def kkt(self, state: Iterate) -> float:
        return np.nan

    def result(self, state: Sums | Labelled) -> Estimate:
        """Posterior means given S: topics as F, proportions times sizes as L. For samples, means over kept sweeps and matched
        chains (the present sweep if none has been kept)."""
        if isinstance(state, Chains):
            return self._mean_result(state)
        if isinstance(state, Sums):
            features, samples, S = state.by_feature, state.by_sample, state.allocation(self.sides.left)
        else:
            features, samples = (table[0] for table in tables(state.held))
            S = self.allocation(state.held)[0].astype(np.float64)
        topics, proportions = self.model.topics(features)[0], self.model.proportions(samples)[0]
        return self._result(topics, proportions, self.model.posterior(features, samples), S)

    def _mean_result(self, state: Chains) -> Estimate:
        X, model = self.X, self.model
        sums = state.averages or self.moments(state.held, allocation=True)
        if np.ptp(model.beta) == 0:
            sums = sums.ordered(match_to_first(sums.topics[0]))
        F, L = sums.topics.mean(axis=1) / sums.kept, sums.proportions.mean(axis=1) / sums.kept
        counts = L[0] * (model.beta.sum() + X.sample_totals)[:, None] - model.beta
        posterior = model.posterior(sums.counts.mean(axis=0) / sums.kept, counts)
        S = sums.allocation.mean(axis=0) / sums.kept
        return self._result(F[0], L[0], posterior | {"L_sd": sd(*L), "F_sd": sd(*F)}, S)

    def _result(self, topics: Floats, proportions: Floats, posterior: dict[str, Floats], S: Floats) -> Estimate:
        L = proportions * self.model.sizes(self.X.sample_totals)[:, None]
        loglik = float(logliks(self.X, L, topics).sum())
        return Estimate(L, topics, loglik, posterior, {"L": "DirichletRows", "F": "DirichletColumns"}, S)


def tables(held: Labels) -> tuple[Floats, Floats]:
    """S_jk and S_ik of every chain."""
    by_feature, by_sample = (table[:, :, : held.topics].astype(np.float64) for table in held.tables[:2])
    return by_feature, by_sample


def check_labels(X: Counts, n_topics: int, chains: int, purpose: str) -> None:
    """Refuse counts that are not whole numbers, or too many, and more labels than memory can hold."""
    X.require_whole(purpose, 'or use method="bld"')
    if X.total >= 2**31 or n_topics >= 2**16:
        raise ValueError(
            f"{X.total:,.0f} counts and {n_topics:,} topics; {purpose} labels up to {2**31 - 1:,} counts with "
            f'{2**16 - 1:,} topics: use method="bld"'
        )
    padded = -(-n_topics // 4) * 4
    needed = 2 * chains * (2 * X.total + 4 * padded * (sum(X.shape) + 1))  # the state before and the one after
    memory.require(needed, f"{chains} chain(s) of {X.total:,.0f} labels", 'use fewer chains or topics, or method="bld"')
