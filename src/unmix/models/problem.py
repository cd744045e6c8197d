"""Maximum likelihood, or the posterior mode:

minimise  loss(L, F) = Σ λ − Σ x log λ − log prior(F) − log prior(L) + penalty(L, F)   over L, F >= 0,   λ = L Fᵀ
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from unmix.counts import Data
from unmix.deprecation import renamed_arguments
from unmix.models.poisson import expected_total, residuals
from unmix.models.priors import Dirichlet, Gamma
from unmix.models.scales import best_scales
from unmix.models.sparse import Sparsity
from unmix.models.task import Iterate, Result
from unmix.sides import Side, Sides, column_sums
from unmix.types import Factor, Floats, Pair

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


@renamed_arguments(threads=None)
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

    def result(self, state: State) -> Result:
        L, F = self._without_traces(state)
        return Result(L, F, self.metrics(state)["loglik"])

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
