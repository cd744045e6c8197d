"""Coordinate descent on each row: one EM step, then `sweeps` rounds of clipped Newton steps, a topic at a time.

g = u_k − Σ_j x_j a_j,   h = Σ_j x_j a_j²,   a_j = f_jk / λ_j,   b_k ← max(floor, b_k − g/h)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unmix.sides import Side
from unmix.solvers.base import HalfStep
from unmix.types import Factor


@dataclass(frozen=True)
class _CD(HalfStep):
    sweeps: int = 4
    rule: ClassVar[str]

    def __call__(
        self, side: Side, fixed: Factor, moving: Factor, *, measure: bool = False
    ) -> tuple[Factor, float | None]:
        return side.update("cd", fixed, moving, measure=measure, sweeps=self.sweeps, rule=self.rule)


@dataclass(frozen=True)
class SN(_CD):
    """Scalar Newton (Hien and Gillis): damped by self-concordance where a full step might overshoot. The loss never rises.

    Parameters
    ----------
    sweeps : int, default=4
        Over the topics of each row, every iteration. More make an iteration dearer and go further.

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
        return SN(self.sweeps)


@dataclass(frozen=True)
class CCD(SCD):
    """Cyclic coordinate descent: as `SCD`, with a second step on a topic that moved by half its value or more.

    Parameters
    ----------
    sweeps : int, default=4
        Over the topics of each row, every iteration. More make an iteration dearer and go further.

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
