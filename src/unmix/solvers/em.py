"""EM for Poisson NMF, which is Lee and Seung's multiplicative update:  l_ik ← l_ik Σ_j (x_ij / λ_ij) f_jk / u_k."""

from __future__ import annotations

from dataclasses import dataclass

from unmix.sides import Side
from unmix.solvers.base import HalfStep
from unmix.types import Factor


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
