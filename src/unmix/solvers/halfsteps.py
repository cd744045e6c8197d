"""Half-steps: EM, coordinate descent, Newton. EM is Lee and Seung's update, l_ik ← l_ik Σ_j (x_ij / λ_ij) f_jk / u_k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from unmix.base.types import Factor, Floats
from unmix.counts.counts import Counts
from unmix.counts.sides import Side
from unmix.solvers.base import HalfStep

NOTHING = 1e-12  # a share of the counts that is taken for zero


@dataclass(frozen=True)
class EM(HalfStep):
    """EM, that is the multiplicative updates of Lee and Seung. The loss never rises.

    Parameters
    ----------
    steps : int, default=1
        Updates of one factor before the other moves.

    See Also
    --------
    solvers.Joint : Both factors at once.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.EM(steps=2), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    steps: int = 1

    def __call__(
        self, side: Side, fixed: Factor, moving: Factor, *, measure: bool = False
    ) -> tuple[Factor, float | None]:
        return side.update("em", fixed, moving, measure=measure, steps=self.steps)


# Coordinate descent on each row: one EM step, then `sweeps` rounds of clipped Newton steps, a topic at a time.
#
# g = u_k − Σ_j x_j a_j,   h = Σ_j x_j a_j²,   a_j = f_jk / λ_j,   b_k ← max(floor, b_k − g/h)


@dataclass(frozen=True)
class _CD(HalfStep):
    sweeps: int = 4
    rest: bool = True
    rule: ClassVar[str]

    def __call__(
        self, side: Side, fixed: Factor, moving: Factor, *, measure: bool = False
    ) -> tuple[Factor, float | None]:
        return side.update("cd", fixed, moving, measure=measure, sweeps=self.sweeps, rule=self.rule, rest=self.rest)


@dataclass(frozen=True)
class SN(_CD):
    """Scalar Newton (Hien and Gillis): damped by self-concordance where a full step might overshoot. The loss never rises.

    Parameters
    ----------
    sweeps : int, default=4
        Over the topics of each row, every iteration. More make an iteration dearer and go further.
    rest : bool, default=True
        Whether a topic that stays at zero is left alone in later sweeps. False is the published algorithm, and slower.

    See Also
    --------
    solvers.SCD

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.SN(sweeps=2), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    rule: ClassVar[str] = "sn"


@dataclass(frozen=True)
class SCD(_CD):
    """Sequential coordinate descent: full steps. Where the loss rises, the iteration is done again by `safe`.

    Parameters
    ----------
    sweeps : int, default=4
        Over the topics of each row, every iteration. More make an iteration dearer and go further.
    rest : bool, default=True
        Whether a topic that stays at zero is left alone in later sweeps. False is the published algorithm, and slower.

    See Also
    --------
    solvers.CCD, solvers.Newton

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.SCD(sweeps=10), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    rule: ClassVar[str] = "scd"

    @property
    def safe(self) -> SN:
        return SN(self.sweeps, self.rest)


@dataclass(frozen=True)
class CCD(SCD):
    """Cyclic coordinate descent: as `SCD`, with a second step on a topic that moved by half its value or more.

    Parameters
    ----------
    sweeps : int, default=4
        Over the topics of each row, every iteration. More make an iteration dearer and go further.
    rest : bool, default=True
        Whether a topic that stays at zero is left alone in later sweeps. False is the published algorithm, and slower.

    See Also
    --------
    solvers.SCD

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.CCD(), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    rule: ClassVar[str] = "ccd"


# Newton's method on each row: one EM step, then up to `rounds` steps to the minimiser of the row's quadratic model.
#
#     minimise  g·d + ½ dᵀHd   subject to  b + d >= floor,     g = u − Σ_j x_j f_j / λ_j,   H = Σ_j x_j f_j f_jᵀ / λ_j²
#
# Topics are taken in blocks of up to 64, so that beyond those the cost is linear in their number. A step is shortened so that no
# rate falls by more than 68% of itself; up to there (z − log(1 + z) <= z²) the quadratic model guarantees descent, and no line
# search is needed.


@dataclass(frozen=True)
class Newton(HalfStep):
    """The default: one EM step, then Newton steps on each row. The loss never rises.

    Parameters
    ----------
    rounds : int, default=1
        Most Newton steps on a row, every iteration.
    tolerance : float, default=0.1
        A row ends its rounds when a step promises less than this many units of log-likelihood.

    See Also
    --------
    solvers.SCD, solvers.EM

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.Newton(rounds=2), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    rounds: int = 1
    tolerance: float = 0.1

    def __call__(
        self, side: Side, fixed: Factor, moving: Factor, *, measure: bool = False
    ) -> tuple[Factor, float | None]:
        return side.update("newton", fixed, moving, measure=measure, rounds=self.rounds, tolerance=self.tolerance)


def poisson_regression(A: ArrayLike, y: ArrayLike) -> Floats:
    """The b >= 0 that maximises the likelihood of y ~ Poisson(A b): additive Poisson regression, a convex problem.

    It is the half-step of every fit, solved to its KKT conditions: y are the counts of a sample, A the factors.

    Parameters
    ----------
    A : array-like, N × K
        Finite numbers >= 0.
    y : array-like, N
        Counts, or other finite numbers >= 0.

    Returns
    -------
    array, K
        Exact zeros where the optimum has them. With one count in all, or columns that depend on each other, one of several.

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is negative or not finite, or y is positive where a row of A is zero.

    See Also
    --------
    TopicModel.from_factors : The same for many samples.

    Examples
    --------
    >>> import unmix as um
    >>> um.poisson_regression([[1, 0], [1, 1], [0, 2]], [3, 5, 4]).round(6)
    array([3., 2.])
    """
    A, counts = np.array(A, dtype=np.float64, ndmin=2), Counts(np.asarray(y, dtype=np.float64)[None])
    if A.ndim != 2 or len(A) != counts.shape[1] or not np.isfinite(A).all() or (A < 0).any():
        raise ValueError(
            f"A has shape {A.shape} and y has {counts.shape[1]} numbers; use N × K finite numbers >= 0 and N"
        )
    if not A[counts.rows.indices].any(axis=1).all():
        raise ValueError("y is positive where a row of A is zero, which no b explains; leave such rows out")
    sums = A.sum(axis=0)
    even = np.divide(counts.total, A.shape[1] * sums, out=np.zeros_like(sums), where=sums > 0)
    b = Newton(rounds=200, tolerance=1e-11)(counts.sides().left, A, even[None])[0][0]
    return np.where(b * sums > NOTHING * counts.total, b, 0.0)
