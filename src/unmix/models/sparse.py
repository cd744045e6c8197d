"""An l1 penalty on loadings, with topics held to norm one:  minimise  KL(X ‖ L Fᵀ) + weight · Σ l_ik,   ‖f_k‖_p = 1.

Equivalently, without the constraint, the penalty is weight · Σ_k ‖f_k‖_p Σ_i l_ik (Geiger and Park, theorem F.1).

With p = 1 it does nothing but shrink: KL(X ‖ L/(1+ω), F) + ω ‖L‖₁/(1+ω) = KL(X ‖ L, F) + N log(1+ω) for all L and F, so the
solution is the unpenalised one divided by 1 + ω (their lemma 6.1). With p = 2 loadings do become sparse, as broad topics cost
less than narrow ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from unmix.sides import column_sums
from unmix.types import Factor, Floats


@dataclass(frozen=True)
class Sparsity:
    weight: float
    norm: Literal["l1", "l2"]

    def norms(self, F: Factor) -> Floats:
        """‖f_k‖_p of every topic."""
        return column_sums(F) if self.norm == "l1" else np.sqrt(np.einsum("jk,jk->k", F, F))

    def penalty(self, L: Factor, F: Factor) -> float:
        return float(self.weight * self.norms(F) @ column_sums(L))

    def gradients(self, L: Factor, F: Factor) -> tuple[Floats, Floats]:
        """Of the penalty, by L and by F."""
        norms, sums = self.norms(F), column_sums(L)
        slope = np.ones_like(F) if self.norm == "l1" else F / np.where(norms > 0, norms, 1.0)
        return np.broadcast_to(self.weight * norms, L.shape), self.weight * sums * slope
