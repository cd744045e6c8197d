"""The seam between data and arithmetic: what solvers and models may ask of data, and the one place that calls kernels for it.

With F fixed, every row of L is a small Poisson regression on that row's nonzeros; the same code on the transpose updates F.
So data have two sides, and each answers the same few questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmix import kernels
from unmix.base import memory
from unmix.base.types import Factor, Floats, Integers
from unmix.counts.data import Part
from unmix.kernels import CSR, Hierarchy, Posteriors, Spread

BLOCK = 1 << 16  # nonzeros × K taken together, for memory
FEW = 8  # counts are few if there are this many times as many rows of the fixed factor


Costs = Callable[[Factor, Factor], tuple[Floats, NDArray[np.int32] | None]]


@dataclass(frozen=True, eq=False)
class Side:
    """One side of the data: X ≈ moving fixedᵀ, a row of `moving` for each row of X (or of its transpose), and its prior, if
    any.

    Parameters
    ----------
    rows : CSR
        The counts, as kernels take them.
    shape : array, default=None
        Shape − 1 of the Gamma prior on `moving`, broadcast.
    rate : array, default=None
        Its rate.
    sums : array, default=None
        Column sums of the fixed factor, where they are known.
    costs : callable, default=None
        Where rates have multipliers: what topics cost in each row, or in each group of rows, and the groups; of the fixed
        factor and of `moving` where the half-step starts.
    held : array of bool, default=None
        Topics whose columns of `moving` stay as they are.
    sets : tuple of arrays, default=None
        Different sets of topics, one per row, and the number of the set that each row of X may have.
    workspace : Workspace, default=Workspace()
        Scratch space of the kernels.

    See Also
    --------
    solvers.HalfStep, solvers.Problem

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> left = um.Counts([[2, 4]]).sides().left
    >>> left.xlogs(np.array([[2.0]]), np.array([[1.0], [2.0]])).round(3)
    array([6.931])
    """

    rows: CSR
    shape: Floats | None = None  # shape − 1 of the Gamma prior, broadcast
    rate: Floats | None = None
    sums: Floats | None = None
    costs: Costs | None = field(default=None, repr=False)
    held: NDArray[np.bool_] | None = field(default=None, repr=False)
    sets: tuple[NDArray[np.bool_], NDArray[np.int32]] | None = field(default=None, repr=False)
    workspace: kernels.Workspace = field(default_factory=kernels.Workspace, repr=False)

    def with_prior(self, shape: Floats | None, rate: Floats) -> Side:
        return replace(self, shape=shape, rate=rate)

    def cost(self, fixed: Factor) -> Floats:
        """What a unit of each topic's loading costs: the column sums of the fixed factor, plus the prior's rate."""
        sums = column_sums(fixed) if self.sums is None else self.sums
        return sums if self.rate is None else sums + self.rate

    def update(
        self,
        kernel: Literal["em", "cd", "newton"],
        fixed: Factor,
        moving: Factor,
        *,
        measure: bool = False,
        **options: Any,
    ) -> tuple[Factor, float | None]:
        """The half-step of this name on every row, and Σ x log(rate) at the result if asked to measure it."""
        given = {"measure": measure, "workspace": self.workspace, **options}
        if self.costs is None:
            cost = self.cost(fixed)
        else:
            cost, given["groups"] = self.costs(fixed, moving)
            cost = cost if self.rate is None else cost + self.rate
        if self.sets is not None:  # what is not allowed costs nothing: kernels leave it at zero
            table, of = self.sets
            if cost.ndim == 1:
                cost, given["groups"] = cost * table, of
            else:
                cost = cost[given.get("groups", slice(None))] * table[of]
                given["groups"] = None
        rows, fixed = self._used(fixed)
        if self.held is None:
            moved, xlogs = kernels.half_step(kernel, rows, fixed, moving, cost, self.shape, **given)
        else:
            moved, xlogs = self._beside_held(kernel, rows, fixed, moving, cost, given)
        return moved, None if xlogs is None else float(xlogs.sum())

    def _beside_held(
        self, kernel: str, rows: CSR, fixed: Factor, moving: Factor, cost: Floats, given: dict[str, Any]
    ) -> tuple[Factor, Floats | None]:
        """The half-step of topics that are not held: those add to the rates, and are not visited."""
        assert self.held is not None
        free, out = ~self.held, moving.copy()
        if not free.any():
            return out, kernels.xlogs(rows, moving, fixed, workspace=self.workspace) if given["measure"] else None
        shape = None if self.shape is None else np.ascontiguousarray(self.shape[:, free])
        free_ones = (fixed[:, free], moving[:, free], np.ascontiguousarray(cost[..., free]), shape)
        others = (fixed[:, self.held], moving[:, self.held])
        out[:, free], xlogs = kernels.half_step(kernel, rows, *free_ones, held=others, **given)
        return out, xlogs

    def numerators(self, moving: Factor, fixed: Factor) -> tuple[Floats, float]:
        """A_ik = Σ_j x_ij f_jk / λ_ij, and Σ x log λ."""
        A, xlogs = kernels.numerators(self.rows, moving, fixed, workspace=self.workspace)
        return A, float(xlogs.sum())

    def xlogs(self, moving: Factor, fixed: Factor) -> Floats:
        """Σ_j x_ij log λ_ij of every row."""
        return kernels.xlogs(self.rows, moving, fixed, workspace=self.workspace)

    def ratios(self, moving: Factor, fixed: Factor) -> Floats:
        """x_ij / λ_ij of every nonzero."""
        return kernels.ratios(self.rows, moving, fixed, workspace=self.workspace)

    def responsibilities(self, moving: Factor, fixed: Factor) -> Floats:
        """φ_ijk = l_ik f_jk / λ_ij of every nonzero, nonzeros × K; even where a rate is 0."""
        phi = memory.room((len(self.rows.data), moving.shape[1]), np.float64)
        for start in range(0, len(phi), BLOCK):
            block = slice(start, start + BLOCK)
            rates = moving[self.owners[block]].astype(np.float64) * fixed[self.rows.indices[block]]
            total = rates.sum(axis=1, keepdims=True)
            phi[block] = np.where(total > 0, rates / np.where(total > 0, total, 1.0), 1 / moving.shape[1])
        return phi

    def infer(
        self,
        fixed: Floats,
        scale: Floats,
        start: Floats,
        prior: Floats,
        *,
        steps: int,
        tolerance: float,
        hierarchy: Hierarchy | None = None,
    ) -> Floats:
        """Shapes g_ik of the loadings' Gammas (or parameters of their Dirichlets), each row until it converges."""
        rows, fixed = self._used(fixed)
        return kernels.infer(
            rows,
            fixed,
            scale,
            start,
            prior,
            steps=steps,
            tolerance=tolerance,
            hierarchy=hierarchy,
            workspace=self.workspace,
        )

    def _used(self, fixed: Factor) -> tuple[CSR, Any]:
        """The counts, and the fixed factor, which kernels copy: where counts are few, without the rows that none of them
        uses."""
        if not 0 < FEW * len(self.rows.data) < len(fixed):
            return self.rows, fixed
        rows, places = self._occurring
        return rows, fixed[places]

    @cached_property
    def _occurring(self) -> tuple[CSR, Integers]:
        places, indices = np.unique(self.rows.indices, return_inverse=True)
        return CSR(self.rows.indptr, indices.astype(np.int32), self.rows.data), places.astype(np.intp)

    def add_sums(self, fixed: Factor, moving: Factor, sums: FeatureSums) -> None:
        """As the side of features: what these samples, with these loadings, say of the factors, or of those that are not held."""
        if self.held is None:
            kernels.add_sums(self.rows, fixed, moving, *sums, workspace=self.workspace)
        elif not self.held.all():
            free, others = ~self.held, (fixed[:, self.held], moving[:, self.held])
            kernels.add_sums(self.rows, fixed[:, free], moving[:, free], *sums, held=others, workspace=self.workspace)

    def posteriors(
        self,
        begin: int,
        weights: Floats,
        sums: Floats,
        rates: Floats,
        *,
        shape: float,
        start: float,
        spread: Spread | None,
    ) -> Posteriors:
        """As the side of features, of those from `begin` on, one per rate: what their counts say of their rates in each
        topic."""
        data = (self.rows, weights, sums, rates)
        return kernels.posteriors(*data, shape=shape, start=start, begin=begin, spread=spread, workspace=self.workspace)

    def some(self, most: int) -> tuple[Integers, Integers, Floats]:
        """Rows, columns and counts of up to this many nonzeros, evenly spaced."""
        nnz = len(self.rows.data)
        places = np.arange(nnz) if nnz <= most else np.arange(most) * nnz // most
        rows = np.searchsorted(self.rows.indptr, places, side="right") - 1
        return rows, self.rows.indices[places].astype(np.intp), self.rows.data[places]

    def place(self, nonzero: int) -> tuple[int, int]:
        """Row and column of a nonzero."""
        row = int(np.searchsorted(self.rows.indptr, nonzero, side="right")) - 1
        return row, int(self.rows.indices[nonzero])

    @cached_property
    def owners(self) -> NDArray[np.intp]:
        """The row of every nonzero."""
        return np.repeat(np.arange(len(self.rows.indptr) - 1), np.diff(self.rows.indptr))


class FeatureSums(NamedTuple):
    """Of every feature, B_jk = Σ_i x_ij l_ik / λ_ij and the curvature, added up over samples; see `kernels.add_sums`."""

    numerators: Floats
    curvature: NDArray[np.float32]

    @classmethod
    def zeros(cls, features: int, topics: int) -> FeatureSums:
        size = kernels.curvature_size(topics) if topics else 0
        return cls(np.zeros((features, topics)), np.zeros((features, size), np.float32))

    def step(
        self,
        factor: Factor,
        cost: Floats,
        totals: Floats,
        shape: Floats | None,
        held: NDArray[np.bool_] | None = None,
    ) -> Factor:
        """Once they are the sums of all samples: factors with a lower loss, unless there are none. Held ones, of which there are
        no sums, stay."""
        if held is None:
            return kernels.box_step(factor, *self, cost, totals, shape)
        free, out = ~held, factor.copy()
        if free.any():
            shape = None if shape is None else shape[:, free]
            out[:, free] = kernels.box_step(factor[:, free], *self, cost[..., free], totals, shape)
        return out


@dataclass(frozen=True, eq=False)
class Sides:
    """Both sides of a matrix, and what takes both at once. Anyone who asked for them owns them, and the scratch space they
    share."""

    matrix: Part
    workspace: kernels.Workspace = field(default_factory=kernels.Workspace, repr=False)

    @cached_property
    def left(self) -> Side:
        return Side(self.matrix.rows, workspace=self.workspace)

    @cached_property
    def right(self) -> Side:
        return Side(self.matrix.transposed, workspace=self.workspace)

    def both_numerators(self, L: Factor, F: Factor) -> tuple[Floats, Floats, float]:
        """A_ik = Σ_j r_ij f_jk and B_jk = Σ_i r_ij l_ik from one evaluation of r = x / λ, and Σ x log λ."""
        matrix = self.matrix
        A, B, xlogs = kernels.both_numerators(
            matrix.rows, self.right.rows, matrix.column_order, L, F, workspace=self.workspace
        )
        return A, B, float(xlogs.sum())


def column_sums(factor: Factor) -> Floats:
    """In double precision. einsum does it several times faster than sum for tall, narrow arrays."""
    return np.einsum("ij->j", factor, dtype=np.float64)
