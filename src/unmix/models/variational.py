"""A model for variational inference: a prior on L and one on F. Every member of the family is such a pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from unmix.counts import Counts
from unmix.models.beliefs import Belief, Columns, DirichletColumns, DirichletRows, Gammas, Prior
from unmix.models.scales import bound_scales

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Variational:
    """`totals_given`: the bound is one of log p(X | sample totals), as in LDA, and not of log p(X)."""

    left: Gammas | DirichletRows
    right: Prior
    totals_given: bool

    def elbo(self, X: Counts, left: Belief, right: Belief, xlog: float) -> float:
        """With all constants. `xlog` is Σ x log Σ_k l̃_ik f̃_jk for l̃, f̃ divided by exp(shift)."""
        shifted = xlog + X.sample_totals @ left.shifts + X.feature_totals @ right.shifts
        value = shifted - X.log_factorials - left.sums @ right.sums + left.bound + right.bound
        if self.totals_given:
            value += gammaln(X.sample_totals + 1).sum() + X.shape[0]
        return float(value)

    def rescaled(
        self, left: Belief, right: Belief, n: float, sums: Floats, threads: int = 1
    ) -> tuple[Belief, Belief, Floats]:
        """With Gammas on both sides: q with the best scale of each topic, for n samples whose E l sum to `sums`; and by what the
        loadings were divided."""
        if not (isinstance(self.left, Gammas) and isinstance(self.right, Gammas)):
            return left, right, np.ones(len(sums))
        z = bound_scales(self.left, self.right, right, n, sums)
        left = self.left.at(left.parameters, left.rates * z, threads)
        return left, self.right.at(right.parameters, right.rates / z, threads), z

    def factors(self, X: Counts, left: Belief, right: Belief) -> tuple[Floats, Floats]:
        """Posterior means on the Poisson scale."""
        L = self.left.mean(left)
        return L * X.sample_totals[:, None] if self.totals_given else L, self.right.mean(right)

    def arrays(self, left: Belief, right: Belief) -> dict[str, Floats]:
        """Model and beliefs as arrays, under names that begin with L and F; `restore` takes them back."""
        named = {"L": self.left.arrays(left), "F": self.right.arrays(right)}
        return {name + key: array for name, arrays in named.items() for key, array in arrays.items()}


def restore(arrays: dict[str, Floats], threads: int = 1) -> tuple[Variational, Belief, Belief]:
    """The model, q(L) and q(F) that `Variational.arrays` was taken from."""
    left: Gammas | DirichletRows = DirichletRows(arrays["L_prior"])
    right: Prior = Columns()
    if "L_prior_rate" in arrays:
        left = Gammas(arrays["L_prior"], arrays["L_prior_rate"])
    if "F_prior_rate" in arrays:
        right = Gammas(arrays["F_prior"], arrays["F_prior_rate"])
    elif "F_prior" in arrays:
        right = DirichletColumns(arrays["F_prior"].ravel())
    model = Variational(left, right, totals_given=isinstance(left, DirichletRows))
    q_left = left.at(arrays["L"], arrays.get("L_rate"), threads)
    return model, q_left, right.at(arrays["F"], arrays.get("F_rate"), threads)
