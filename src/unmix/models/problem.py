"""The best scale of each topic under Gamma priors on both factors: (L/z, F z) has the same rates for every z."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from unmix.base.types import Factor, Floats, Pair
from unmix.counts.counts import Data
from unmix.counts.sides import Side, Sides, column_sums
from unmix.models.poisson import expected_total, residuals
from unmix.models.priors import Dirichlet, Gamma
from unmix.models.task import Estimate, Iterate


def bound_scales(
    on_L: tuple[Floats, Floats], on_F: tuple[Floats, Floats], n: float, m: int, L_sums: Floats, F_sums: Floats
) -> Floats:
    """z for which the bound is best if q becomes that of (L/z, F z), topic by topic: d u z² − (c m − a n) z − b v = 0.

    (a, b) and (c, d) are shapes and rates of the priors; u the sums of E f over the m features, v those of E l over the n
    samples. The rates of X stay, so this costs no pass over the data; without it topics creep towards their scale, iteration by
    iteration.
    """
    (a, b), (c, d) = on_L, on_F
    return _root(d * F_sums, m * c - n * a, b * L_sums)


def best_scales(L: Factor, F: Factor, a: ArrayLike, b: ArrayLike, c: ArrayLike, d: ArrayLike) -> Floats:
    """z that maximises the prior density of (L/z, F z), topic by topic: d u z² − [Σ(c−1) − Σ(a−1)] z − b v = 0.

    Shapes a and c are broadcast to L and F, rates b and d to the topics.
    """
    u, v = column_sums(F), column_sums(L)
    extra = [np.broadcast_to(np.asarray(s) - 1.0, factor.shape).sum(axis=0) for s, factor in ((c, F), (a, L))]
    middle = extra[0] - extra[1]
    return _root(np.asarray(d) * u, middle, np.asarray(b) * v)


def scaled_counts(
    sides: Sides, L: Factor, F: Factor, a: ArrayLike, b: ArrayLike, c: ArrayLike, d: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    """Expected counts of each topic in samples (n × K) and features (m × K), each with the column sums of the other factor,
    once topics are scaled as Gamma(a, b) on L and Gamma(c, d) on F like them best."""
    z = best_scales(L, F, a, b, c, d)
    L, F = L / z, F * z
    A, B, xlog = sides.both_numerators(L, F)
    if not np.isfinite(xlog):
        raise ValueError(
            "a count has a rate of zero, so it is impossible; give its sample and feature some weight in init"
        )
    return L * A, column_sums(F), F * B, column_sums(L)


def _root(square: Floats, middle: Floats, constant: Floats) -> Floats:
    """The positive root of square z² − middle z − constant = 0; 1 for a topic that has nothing on one side."""
    root = np.sqrt(middle**2 + 4 * square * constant)
    # two forms of the same root, each free of cancellation on its side of zero
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(middle >= 0, (middle + root) / (2 * square), 2 * constant / (root - middle))
    return np.where((square > 0) & (constant > 0), z, 1.0)


# An l1 penalty on loadings, with topics held to norm one:  minimise  KL(X ‖ L Fᵀ) + weight · Σ l_ik,   ‖f_k‖_p = 1.
#
# Equivalently, without the constraint, the penalty is weight · Σ_k ‖f_k‖_p Σ_i l_ik (Geiger and Park, theorem F.1).
#
# With p = 1 it does nothing but shrink: KL(X ‖ L/(1+ω), F) + ω ‖L‖₁/(1+ω) = KL(X ‖ L, F) + N log(1+ω) for all L and F, so the
# solution is the unpenalised one divided by 1 + ω (their lemma 6.1). With p = 2 loadings do become sparse, as broad topics cost
# less than narrow ones.


@dataclass(frozen=True)
class Sparsity:
    weight: float
    norm: Literal["l1", "l2"]

    def norms(self, F: Factor) -> Floats:
        """‖f_k‖_p of every topic."""
        return column_sums(F) if self.norm == "l1" else np.sqrt(np.einsum("jk,jk->k", F, F))

    def penalty(self, L: Factor, F: Factor) -> float:
        return float(self.weight * self.norms(F) @ column_sums(L))

    def gradients(self, L: Factor, F: Factor) -> tuple[Floats, Floats]:
        """Of the penalty, by L and by F."""
        norms, sums = self.norms(F), column_sums(L)
        slope = np.ones_like(F) if self.norm == "l1" else F / np.where(norms > 0, norms, 1.0)
        return np.broadcast_to(self.weight * norms, L.shape), self.weight * sums * slope


# Maximum likelihood, or the posterior mode:
#
# minimise  loss(L, F) = Σ λ − Σ x log λ − log prior(F) − log prior(L) + penalty(L, F)   over L, F >= 0,   λ = L Fᵀ

NEGLIGIBLE = 1e-12  # a topic with a smaller share of a sample (or feature) is reported as absent


@dataclass(frozen=True, kw_only=True)
class State(Iterate):
    """The best factors so far and their loss: what a solver goes on from.

    `paths` names the fields that hold many factors, along two axes in front; all other arrays have the shape of one, or a
    number per topic.

    Parameters
    ----------
    loss : float
        Of these factors.
    conclusive : bool, default=True
        False if a small gain says nothing, as after a rejected extrapolation.
    final : bool, default=False
        Whether no further step would change anything.
    note : str, default=""
        For the trace.
    L : array, n × K
        Loadings.
    F : array, m × K
        Factors.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> um.solvers.State(loss=1.5, L=np.ones((4, 2)), F=np.ones((3, 2))).loss
    1.5
    """

    paths: ClassVar[tuple[str, ...]] = ()
    L: Factor
    F: Factor


@dataclass(frozen=True, eq=False)
class Problem:
    """The loss of loadings and factors: Σ λ − Σ x log λ − log priors + penalty, λ = L Fᵀ.

    Parameters
    ----------
    X : Counts
        The data.
    n_topics : int
        Number of topics.
    prior : Gamma, default=None
        On F.
    loadings_prior : Gamma or Dirichlet, default=None
        On L, or on proportions.
    sparsity : Sparsity, default=None
        The penalty of `SparsePoissonNMF`.

    See Also
    --------
    solvers.run, solvers.Side

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> problem = um.solvers.Problem(um.Counts([[2, 4]]), 1)
    >>> round(problem.loss(np.array([[2.0]]), np.array([[1.0], [2.0]])), 3)
    -0.931
    """

    X: Data
    n_topics: int
    prior: Gamma | None = None  # on F
    loadings_prior: Gamma | Dirichlet | None = None
    sparsity: Sparsity | None = None

    @cached_property
    def sides(self) -> Sides:
        return self.X.sides()

    @cached_property
    def left(self) -> Side:
        """With a Dirichlet prior or a penalty, for factors that are normalised as those ask for."""
        side = self.sides.left
        if self.loadings_prior is not None:
            return side.with_prior(*self.loadings_prior.broadcast(self.X.shape[0], self.n_topics))
        if self.sparsity is not None:
            return side.with_prior(None, np.full(self.n_topics, self.sparsity.weight))
        return side

    @cached_property
    def right(self) -> Side:
        side = self.sides.right
        return side if self.prior is None else side.with_prior(*self.prior.broadcast(self.X.shape[1], self.n_topics))

    def both_numerators(self, L: Factor, F: Factor) -> tuple[Floats, Floats, float]:
        return self.sides.both_numerators(L, F)

    @property
    def plain(self) -> bool:
        """Whether it is maximum likelihood and nothing else."""
        return self.prior is None and self.loadings_prior is None and self.sparsity is None

    @property
    def normalised(self) -> bool:
        """Whether it is one for factors held to a norm, which half-steps do not keep."""
        return self.sparsity is not None or isinstance(self.loadings_prior, Dirichlet)

    def penalty(self, L: Factor, F: Factor) -> float:
        """What is added to the negative log-likelihood."""
        total = self.prior.penalty(F) if self.prior else 0.0
        total += self.loadings_prior.penalty(L) if self.loadings_prior else 0.0
        return total + (self.sparsity.penalty(L, F) if self.sparsity else 0.0)

    def loss(self, L: Factor, F: Factor, xlog: float | None = None) -> float:
        """`xlog` is Σ x log λ where the caller has it already."""
        return self.likelihood_loss(L, F, xlog) + self.penalty(L, F)

    def likelihood_loss(self, L: Factor, F: Factor, xlog: float | None = None) -> float:
        """Without priors and penalty, for any number of topics."""
        if xlog is None:
            xlog = float(self.left.xlogs(L, F).sum())
        return expected_total(L, F) - xlog

    def allowed(self, L: Factor, F: Factor) -> Pair:
        """With all entries above zero where a prior rules out zeros."""
        if self.prior is not None:
            F = np.maximum(F, 1e-12 * F.max(axis=0))
        if self.loadings_prior is not None:
            L = np.maximum(L, 1e-12 * L.max(axis=0))
        return L, F

    def rescale(self, L: Factor, F: Factor) -> Pair:
        """Scales topics alike on both sides, or as the priors like them best, in place. Rates stay the same."""
        scale = self._scales(L, F)
        L /= scale.astype(L.dtype)
        F *= scale.astype(F.dtype)
        return L, F

    def _scales(self, L: Factor, F: Factor) -> Floats:
        u, v = column_sums(F), column_sums(L)
        on_L = self.loadings_prior if isinstance(self.loadings_prior, Gamma) else None
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.prior and on_L:
                scale = best_scales(L, F, on_L.shape, on_L.rate, self.prior.shape, self.prior.rate)
            elif self.prior:
                scale = self.prior.best_scales(F) / u
            elif on_L:
                scale = v / on_L.best_scales(L)
            else:
                scale = np.sqrt((v / len(L)) / (u / len(F)))
        return np.where((u > 0) & (v > 0), scale, 1.0)

    def metrics(self, state: State) -> dict[str, float]:
        objective = -state.loss - self.X.log_factorials
        return {"loglik": objective + self.penalty(state.L, state.F), "objective": objective}

    def kkt(self, state: State) -> float:
        if isinstance(self.loadings_prior, Dirichlet):
            return np.nan  # its constraints are others
        more = self.sparsity.gradients(state.L, state.F) if self.sparsity else None
        return residuals(self.sides, state.L, state.F, self.prior, self.loadings_prior, more).max

    def result(self, state: State) -> Estimate:
        L, F = self._without_traces(state)
        return Estimate(L, F, self.metrics(state)["loglik"])

    def _without_traces(self, state: State) -> Pair:
        """Entries that the solvers' floor keeps just above zero become zero, unless the likelihood hangs on them, as it may
        where counts differ by many orders of magnitude."""
        if self.prior is not None or self.loadings_prior is not None:
            return state.L, state.F
        L, F = drop_negligible(state.L, state.F), drop_negligible(state.F, state.L)
        harmless = abs(self.loss(L, F) - state.loss) <= 1e-9 * abs(state.loss)
        return (L, F) if harmless else (state.L, state.F)


def drop_negligible(moving: Factor, fixed: Factor) -> Factor:
    """`moving` with entries of a negligible share of their row set to zero."""
    weights = moving * column_sums(fixed)
    few = weights < NEGLIGIBLE * weights.sum(axis=1, keepdims=True)
    return np.where(few, 0, moving).astype(moving.dtype, copy=False)
