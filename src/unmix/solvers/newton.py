"""Newton's method on each row: one EM step, then up to `rounds` steps to the minimiser of the row's quadratic model.

    minimise  g·d + ½ dᵀHd   subject to  b + d >= floor,     g = u − Σ_j x_j f_j / λ_j,   H = Σ_j x_j f_j f_jᵀ / λ_j²

Topics are taken in blocks of up to 64, so that beyond those the cost is linear in their number. A step is shortened so that no
rate falls by more than 68% of itself; up to there (z − log(1 + z) <= z²) the quadratic model guarantees descent, and no line
search is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from unmix.deprecation import renamed_arguments
from unmix.sides import Side
from unmix.solvers.base import HalfStep
from unmix.types import Factor


@renamed_arguments(enough="tolerance")
@dataclass(frozen=True)
class Newton(HalfStep):
    """The default: one EM step, then Newton steps on each row. The loss never rises.

    Parameters
    ----------
    rounds : int, default=1
        Most Newton steps on a row, every iteration.
    tolerance : float, default=0.1
        A row ends its rounds when a step promises less than so many units of log-likelihood.

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
