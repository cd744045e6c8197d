"""EM for Poisson NMF, which is Lee and Seung's multiplicative update:  l_ik ← l_ik Σ_j (x_ij / λ_ij) f_jk / u_k."""

from __future__ import annotations

from dataclasses import dataclass

from unmix import kernels
from unmix.solvers.base import Floats, Side


@dataclass(frozen=True)
class EM:
    """`steps` EM updates of one factor. The loss never rises."""

    steps: int = 1

    def __call__(
        self, side: Side, fixed: Floats, moving: Floats, *, measure: bool = False
    ) -> tuple[Floats, float | None]:
        return kernels.em(
            side.rows,
            fixed,
            moving,
            side.cost(fixed),
            side.shape,
            steps=self.steps,
            threads=side.threads,
            measure=measure,
        )
