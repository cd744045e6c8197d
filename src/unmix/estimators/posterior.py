"""What an estimator with a posterior can tell: loadings of new samples, a bound of their likelihood, deviations, intervals."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unmix import kernels
from unmix.counts import Counts
from unmix.estimators.base import CountsEstimator, thread_count
from unmix.models.beliefs import Belief, Prior
from unmix.models.variational import Variational, restore
from unmix.solvers.vi import infer

Floats = NDArray[np.float64]

STEPS, ENOUGH = 1000, 1e-7  # most updates of a new sample, and the change, as a part of its sum, that ends them


class PosteriorEstimator(CountsEstimator):
    """`result_.posterior` has the arrays of a variational model, as `unmix.models.variational.restore` takes them."""

    def transform(self, X: Any) -> Floats:
        """n × K posterior means of samples, given the fitted topics."""
        _, model, left, _ = self._infer(X)
        return model.left.mean(left)

    def score(self, X: Any, y: None = None) -> float:
        """A lower bound of the log-likelihood per count of samples, given the fitted topics; higher is better."""
        counts, model, left, right = self._infer(X)
        xlog = float(
            kernels.xlogs(counts.rows, left.geometric, right.geometric, threads=thread_count(self.n_jobs)).sum()
        )
        bound = model.elbo(counts, left, right, xlog) - right.bound
        return bound / counts.total if counts.total > 0 else 0.0

    def standard_deviations(self, of: Literal["loadings", "factors"] = "loadings") -> Floats:
        """Of the posterior: n × K for what `transform` gives of the samples of the fit, m × K for the factors or topics."""
        prior, belief = self._belief_of(of)
        return prior.deviation(belief)

    def credible_intervals(
        self, of: Literal["loadings", "factors"] = "loadings", level: float = 0.9
    ) -> tuple[Floats, Floats]:
        """Lower and upper ends of central intervals that hold each entry with probability `level`, by the posterior."""
        if not 0 < level < 1:
            raise ValueError(f"level={level!r}; give a probability between 0 and 1")
        prior, belief = self._belief_of(of)
        return prior.quantile(belief, (1 - level) / 2), prior.quantile(belief, (1 + level) / 2)

    def _belief_of(self, of: str) -> tuple[Prior, Belief]:
        check_is_fitted(self)
        model, left, right = restore(self.result_.posterior, thread_count(self.n_jobs))
        if of not in ("loadings", "factors"):
            raise ValueError(f'of={of!r}; choose "loadings" or "factors"')
        return (model.left, left) if of == "loadings" else (model.right, right)

    def _infer(self, X: Any) -> tuple[Counts, Variational, Belief, Belief]:
        """The counts that the model can explain, the model, and q of their loadings and of the fitted factors."""
        check_is_fitted(self)
        counts, threads = self._possible(self._checked_counts(X, reset=False)), thread_count(self.n_jobs)
        model, _, right = restore(self.result_.posterior, threads)
        return counts, model, infer(counts, model, right, None, STEPS, ENOUGH, threads), right
