"""What solvers share: the problem, its two sides, the state, and the two protocols.

With F fixed, every row of L is a small Poisson regression on that row's nonzeros; the same code on the transpose updates F.
So there is one kind of half-step, and it is told which `Side` of the problem it is on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unmix import kernels
from unmix.counts import Counts, Rows
from unmix.models.poisson import column_sums, expected_total, residuals
from unmix.models.priors import Dirichlet, Gamma
from unmix.models.scales import best_scales
from unmix.models.sparse import Sparsity

Floats = NDArray[Any]

NEGLIGIBLE = 1e-12  # a topic with a smaller share of a sample (or feature) is reported as absent


@dataclass(frozen=True)
class Side:
    """The row problems of one side: X ≈ moving fixedᵀ, and the prior on `moving`, if any."""

    rows: Rows
    threads: int
    shape: NDArray[np.float64] | None = None  # shape − 1 of the Gamma prior, broadcast
    rate: NDArray[np.float64] | None = None

    def cost(self, fixed: Floats) -> NDArray[np.float64]:
        """What a unit of each topic's loading costs: the column sums of the fixed factor, plus the prior's rate."""
        sums = column_sums(fixed)
        return sums if self.rate is None else sums + self.rate


@dataclass(frozen=True)
class Problem:
    """minimise  loss(L, F) = Σ λ − Σ x log λ − log prior(F) − log prior(L) + penalty(L, F)   over L, F >= 0,   λ = L Fᵀ."""

    X: Counts
    n_topics: int
    prior: Gamma | None = None  # on F
    threads: int = 1
    loadings_prior: Gamma | Dirichlet | None = None
    sparsity: Sparsity | None = None

    @cached_property
    def left(self) -> Side:
        """With a Dirichlet prior or a penalty, for factors that are normalised as those ask for."""
        if self.loadings_prior is not None:
            return Side(self.X.rows, self.threads, *self.loadings_prior.broadcast(self.X.shape[0], self.n_topics))
        if self.sparsity is not None:
            return Side(self.X.rows, self.threads, rate=np.full(self.n_topics, self.sparsity.weight))
        return Side(self.X.rows, self.threads)

    @cached_property
    def right(self) -> Side:
        if self.prior is None:
            return Side(self.X.columns, self.threads)
        return Side(self.X.columns, self.threads, *self.prior.broadcast(self.X.shape[1], self.n_topics))

    @property
    def plain(self) -> bool:
        """Whether it is maximum likelihood and nothing else."""
        return self.prior is None and self.loadings_prior is None and self.sparsity is None

    @property
    def normalised(self) -> bool:
        """Whether it is one for factors held to a norm, which half-steps do not keep."""
        return self.sparsity is not None or isinstance(self.loadings_prior, Dirichlet)

    def penalty(self, L: Floats, F: Floats) -> float:
        """What is added to the negative log-likelihood."""
        total = self.prior.penalty(F) if self.prior else 0.0
        total += self.loadings_prior.penalty(L) if self.loadings_prior else 0.0
        return total + (self.sparsity.penalty(L, F) if self.sparsity else 0.0)

    def loss(self, L: Floats, F: Floats, xlog: float | None = None) -> float:
        """`xlog` is Σ x log λ where the caller has it already."""
        if xlog is None:
            xlog = float(kernels.xlogs(self.X.rows, L, F, threads=self.threads).sum())
        return expected_total(L, F) - xlog + self.penalty(L, F)

    def rescale(self, L: Floats, F: Floats) -> tuple[Floats, Floats]:
        """Scales topics alike on both sides, or as the priors like them best, in place. Rates stay the same."""
        scale = self._scales(L, F)
        L /= scale.astype(L.dtype)
        F *= scale.astype(F.dtype)
        return L, F

    def _scales(self, L: Floats, F: Floats) -> NDArray[np.float64]:
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

    def figures(self, state: State) -> dict[str, float]:
        objective = -state.loss - self.X.log_factorials
        return {"loglik": objective + self.penalty(state.L, state.F), "objective": objective}

    def kkt(self, state: State) -> float:
        if isinstance(self.loadings_prior, Dirichlet):
            return np.nan  # its constraints are others
        more = self.sparsity.gradients(state.L, state.F) if self.sparsity else None
        return residuals(self.X, state.L, state.F, self.threads, self.prior, self.loadings_prior, more).max

    def result(self, state: State) -> Result:
        L, F = self._without_traces(state)
        return Result(L, F, self.figures(state)["loglik"])

    def _without_traces(self, state: State) -> tuple[Floats, Floats]:
        """Entries that the solvers' floor keeps just above zero become zero, unless the likelihood hangs on them, as it may
        where counts differ by many orders of magnitude."""
        L, F = cleared(state.L, state.F), cleared(state.F, state.L)
        no_prior = self.prior is None and self.loadings_prior is None
        harmless = no_prior and abs(self.loss(L, F) - state.loss) <= 1e-9 * abs(state.loss)
        return (L, F) if harmless else (state.L, state.F)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A point on the way, whatever is optimised. A kind of problem, or a solver, extends it by what it needs to go on."""

    loss: float
    conclusive: bool = True  # False if a small gain says nothing, as after a rejected extrapolation
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, kw_only=True)
class State(Stage):
    """Of a `Problem`: the best factors so far and their loss. `paths` names the fields that hold many factors, along two axes in
    front; all other arrays have the shape of one, or a number a topic."""

    paths: ClassVar[tuple[str, ...]] = ()
    L: Floats
    F: Floats


@dataclass(frozen=True)
class Result:
    """What is left of the last state in a `Fit`: loadings and factors, their Poisson log-likelihood, and for a Bayesian model
    its posterior as arrays, topics (where there are any) on the last axis."""

    L: Floats
    F: Floats
    loglik: float
    posterior: dict[str, Floats] = field(default_factory=dict)


class Task(Protocol):
    """What the loop needs to know of that which is optimised: a `Problem`, an inference, an allocation."""

    @property
    def X(self) -> Counts: ...

    @property
    def threads(self) -> int: ...

    def figures(self, state: Any) -> dict[str, float]:
        """Columns of the trace: "loglik" (Poisson, NaN where it would cost too much) and "objective", which rises."""
        ...

    def kkt(self, state: Any) -> float:
        """The largest KKT residual; NaN where there is no such thing."""
        ...

    def result(self, state: Any) -> Result: ...


class Stepper(Protocol):
    """What the loop needs of a solver."""

    def step(self, problem: Any, state: Any) -> Any: ...


class HalfStep(Protocol):
    """One factor given the other: (side, fixed, moving) -> (moving, Σ x log λ at the result if asked to measure)."""

    def __call__(
        self, side: Side, fixed: Floats, moving: Floats, *, measure: bool = False
    ) -> tuple[Floats, float | None]: ...


@runtime_checkable
class Solver(Protocol):
    """`start` makes a state of a pair of factors; `step` makes one iteration. `state_type` is what both return."""

    state_type: ClassVar[type[State]]

    def start(self, problem: Problem, L: Floats, F: Floats) -> State: ...

    def step(self, problem: Problem, state: Any) -> State: ...


def cleared(moving: Floats, fixed: Floats) -> Floats:
    """`moving` with entries of a negligible share of their row set to zero."""
    weights = moving * column_sums(fixed)
    return np.where(weights < NEGLIGIBLE * weights.sum(axis=1, keepdims=True), 0, moving).astype(
        moving.dtype, copy=False
    )
