"""Newton's method on each row: one EM step, then up to `rounds` steps to the minimiser of the row's quadratic model.

    minimise  g·d + ½ dᵀHd   subject to  b + d >= floor,     g = u − Σ_j x_j f_j / λ_j,   H = Σ_j x_j f_j f_jᵀ / λ_j²

Topics are taken in blocks of up to 16, so the cost is linear in their number. A step is shortened so that no rate falls by more
than 68% of itself; up to there (z − log(1 + z) <= z²) the quadratic model guarantees descent, and no line search is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from unmix import kernels
from unmix.solvers.base import Floats, Side


@dataclass(frozen=True)
class Newton:
    """The loss never rises. A row ends its rounds when a step promises less than `enough` units of log-likelihood."""

    rounds: int = 1
    enough: float = 0.1

    def __call__(
        self, side: Side, fixed: Floats, moving: Floats, *, measure: bool = False
    ) -> tuple[Floats, float | None]:
        return kernels.newton(
            side.rows,
            fixed,
            moving,
            side.cost(fixed),
            side.shape,
            rounds=self.rounds,
            enough=self.enough,
            threads=side.threads,
            measure=measure,
        )
