"""A model for variational inference: a prior on L and one on F. Every member of the family is such a pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from unmix.base.types import Factor, Floats, Record
from unmix.counts.counts import Data
from unmix.counts.sides import Sides, column_sums
from unmix.models.beliefs import Belief, DirichletColumns, DirichletRows, Gammas, PointTopics, Prior
from unmix.models.poisson import expected_total, poisson_to_topics
from unmix.models.problem import bound_scales, scaled_counts
from unmix.models.task import Estimate, Iterate


@dataclass(frozen=True, eq=False)
class Variational:
    """A prior on L and one on F."""

    left: Prior
    right: Prior

    @property
    def totals_given(self) -> bool:
        """Whether the bound is one of log p(X | sample totals), as in LDA, and not of log p(X)."""
        return self.left.proportions

    def elbo(self, X: Data, left: Belief, right: Belief, xlog: float) -> float:
        """With all constants. `xlog` is Σ x log Σ_k l̃_ik f̃_jk for l̃, f̃ divided by exp(shift)."""
        shifted = xlog + X.sample_totals @ left.shifts + X.feature_totals @ right.shifts
        value = shifted - X.log_factorials - left.sums @ right.sums + left.bound + right.bound
        if self.totals_given:
            value += gammaln(X.sample_totals + 1).sum() + X.shape[0]
        return float(value)

    def start(self, sides: Sides, X: Data, L: Factor, F: Factor) -> tuple[Belief, Belief]:
        """q(L) and q(F) to begin with at maximum-likelihood factors."""
        on_L, on_F = self.left.scale_terms(), self.right.scale_terms()
        if on_L is not None and on_F is not None:
            Z, u, Y, v = scaled_counts(sides, L, F, *on_L, *on_F)
            return self.left.update(Z, u), self.right.update(Y, v)
        proportions, topics, _, _ = poisson_to_topics(L, F)
        totals = X.sample_totals[:, None]
        right = self.right.start(topics, column_sums(totals * proportions), np.ones(topics.shape[1]))
        return self.left.start(proportions, totals, right.sums), right

    def rescaled(self, left: Belief, right: Belief, n: float, sums: Floats) -> tuple[Belief, Belief, Floats]:
        """Where both sides have a scale: q with the best one of each topic, for n samples whose E l sum to `sums`; and by what
        the loadings were divided."""
        on_L, on_F = self.left.scale_terms(), self.right.scale_terms()
        if on_L is None or on_F is None:
            return left, right, np.ones(len(sums))
        z = bound_scales(on_L, on_F, n, len(right.parameters), sums, right.sums)
        left = self.left.belief(left.parameters, left.rates * z)
        return left, self.right.belief(right.parameters, right.rates / z), z

    def factors(self, X: Data, left: Belief, right: Belief) -> tuple[Floats, Floats]:
        """Posterior means on the Poisson scale."""
        L = self.left.mean(left)
        return L * X.sample_totals[:, None] if self.totals_given else L, self.right.mean(right)

    @property
    def kinds(self) -> dict[str, str]:
        """The names of the priors' classes; with `arrays`, all that `restore` needs."""
        return {"L": type(self.left).__name__, "F": type(self.right).__name__}

    def arrays(self, left: Belief, right: Belief) -> dict[str, Floats]:
        """Model and beliefs as arrays, under names that begin with L and F."""
        named = {"L": self.left.arrays(left), "F": self.right.arrays(right)}
        return {name + key: array for name, arrays in named.items() for key, array in arrays.items()}


def restore(kinds: Mapping[str, str], arrays: Mapping[str, Floats]) -> tuple[Variational, Belief, Belief]:
    """The model, q(L) and q(F) that `kinds` and `arrays` of a `Variational` were taken from."""
    (left, q_left), (right, q_right) = (
        Prior.kinds[kinds[side]].restore(
            {name[1:]: array for name, array in arrays.items() if name[:1] == side and name[1:2] in ("", "_")}
        )
        for side in ("L", "F")
    )
    return Variational(left, right), q_left, q_right


@dataclass(frozen=True, kw_only=True, eq=False)
class Beliefs(Iterate):
    """q(L) and q(F), and the numerators at them that came with the bound (none after inner iterations)."""

    model: Variational
    left: Belief
    right: Belief
    A: Floats | None = None
    B: Floats | None = None

    def save(self) -> Record:
        return {"loss": self.loss} | self.model.arrays(self.left, self.right)


@dataclass(frozen=True, eq=False)
class Inference:
    """Find the posterior of a variational model of these counts: the task that `CAVI` and its relatives solve.

    Parameters
    ----------
    X : Counts
        The data.
    model : Variational
        A prior on L and one on F.

    See Also
    --------
    solvers.CAVI, LDA

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> from unmix.models.beliefs import DirichletColumns, DirichletRows
    >>> from unmix.models.variational import Variational
    >>> X, rng = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]), np.random.default_rng(0)
    >>> task = um.solvers.Inference(X, Variational(DirichletRows(np.full(2, 0.5)), DirichletColumns(np.full(3, 0.1))))
    >>> beliefs = task.model.start(task.sides, X, rng.random((4, 2)), rng.random((3, 2)))
    >>> solver = um.solvers.CAVI()
    >>> _, status = um.solvers.run(task, solver, solver.start(task, *beliefs), max_iter=5, tol=0)
    >>> status
    'max_iter'
    """

    X: Data
    model: Variational

    @cached_property
    def sides(self) -> Sides:
        return self.X.sides()

    def loss(self, model: Variational, left: Belief, right: Belief, xlog: float | None = None) -> float:
        """`xlog` is Σ x log Σ_k l̃ f̃ where the caller has it already."""
        if xlog is None:
            xlog = float(self.sides.left.xlogs(left.geometric, right.geometric).sum())
        return -model.elbo(self.X, left, right, xlog)

    def metrics(self, state: Beliefs) -> dict[str, float]:
        return {"loglik": np.nan, "objective": -state.loss, "elbo": -state.loss}

    def kkt(self, state: Beliefs) -> float:
        return np.nan

    def result(self, state: Beliefs) -> Estimate:
        L, F = state.model.factors(self.X, state.left, state.right)
        loglik = float(self.sides.left.xlogs(L, F).sum()) - self.X.log_factorials - expected_total(L, F)
        return Estimate(L, F, loglik, state.model.arrays(state.left, state.right), state.model.kinds)


# Latent Dirichlet allocation, in the Dirichlet–Poisson form of Geiger and Park.
#
#     l*_i ~ Dirichlet(α),   f*_k ~ Dirichlet(η) or estimated,   x_i | t_i ~ Multinomial(t_i, Σ_k l*_ik f*_k)
#
# Given the totals t_i this is x_ij ~ Poisson(Σ_k l*_ik f*_jk) up to the constant Σ_i log t_i! + n.


def lda(alpha: Floats, eta: Floats | None) -> Variational:
    return Variational(DirichletRows(alpha), PointTopics() if eta is None else DirichletColumns(eta))


# Gamma–Poisson (Geiger and Park, algorithm 7; Canny's GaP):  l_ik ~ Gamma(shape_k, rate_k),  columns of F sum to one
# (estimated, or believed with a Dirichlet(η) prior).
#
# With equal rates it is LDA with α = shape and a negative binomial for the sample totals (their lemmas E.1 and E.3).


def gamma_poisson(shape: Floats, rate: Floats, eta: Floats | None = None) -> Variational:
    return Variational(Gammas(shape, rate), PointTopics() if eta is None else DirichletColumns(eta))


def log_total(totals: Floats, shape: Floats, rate: float) -> Floats:
    """log p(t_i): the negative binomial by which Gamma–Poisson with equal rates differs from LDA (lemma E.1)."""
    A = np.sum(shape)
    return gammaln(A + totals) - gammaln(A) - gammaln(totals + 1) + A * np.log(rate) - (A + totals) * np.log1p(rate)


# Bayesian Poisson factorisation (Paisley's notes):  l_ik ~ Gamma(a, b),  f_jk ~ Gamma(c, d), shapes and rates.


def gamma_gamma(n_topics: int, a: float, b: float, c: float, d: float) -> Variational:
    ones = np.ones(n_topics)
    return Variational(Gammas(a * ones, b * ones), Gammas(c * ones, d * ones))
