"""EM for Poisson NMF, which is Lee and Seung's multiplicative update:  l_ik ← l_ik Σ_j (x_ij / λ_ij) f_jk / u_k."""

from __future__ import annotations

from dataclasses import dataclass

from unmix.sides import Side
from unmix.solvers.base import HalfStep
from unmix.types import Factor


@dataclass(frozen=True)
class EM(HalfStep):
    """`steps` EM updates of one factor. The loss never rises."""

    steps: int = 1

    def __call__(
        self, side: Side, fixed: Factor, moving: Factor, *, measure: bool = False
    ) -> tuple[Factor, float | None]:
        return side.update("em", fixed, moving, measure=measure, steps=self.steps)
