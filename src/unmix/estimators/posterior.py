"""What an estimator with a posterior can tell: loadings of new samples, a bound of their likelihood, deviations, intervals."""

from __future__ import annotations

import os
from typing import Literal

from sklearn.utils.validation import check_is_fitted

from unmix.counts import CountsLike
from unmix.estimators import streamed
from unmix.estimators.base import CountsEstimator
from unmix.models.beliefs import Belief, Prior
from unmix.models.variational import Inference, restore
from unmix.shards import Shards
from unmix.solvers.vi import infer
from unmix.threads import use_threads
from unmix.types import Floats

STEPS, TOLERANCE = 1000, 1e-7  # most updates of a new sample, and the change, as a part of its sum, that ends them


class PosteriorEstimator(CountsEstimator):
    """`result_` has the arrays of a variational model and the kinds of its priors."""

    def transform(self, X: CountsLike | Shards, out: str | os.PathLike[str] | None = None) -> Floats:
        """n × K posterior means of samples. Of `Shards`, shard by shard, into the .npy file `out` if asked."""
        if isinstance(X, Shards):
            return streamed.transform(self, X, out)
        with use_threads(self.n_jobs):
            task, left, _ = self._infer(X)
        return task.model.left.mean(left)

    def score(self, X: CountsLike | Shards, y: None = None) -> float:
        """A lower bound of the log-likelihood per count of samples, given the fitted topics; higher is better."""
        if isinstance(X, Shards):
            return streamed.mean_of(X, self.score)
        with use_threads(self.n_jobs):
            task, left, right = self._infer(X)
            bound = -task.loss(task.model, left, right) - right.bound
        return bound / task.X.total if task.X.total > 0 else 0.0

    def standard_deviations(self, of: Literal["loadings", "factors"] = "loadings") -> Floats:
        """Of the posterior: n × K for what `transform` gives of the samples of the fit, m × K for the factors or topics."""
        prior, belief = self._belief_of(of)
        return prior.standard_deviation(belief)

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
        with use_threads(self.n_jobs):
            model, left, right = restore(self.result_.priors, self.result_.posterior)
        if of not in ("loadings", "factors"):
            raise ValueError(f'of={of!r}; choose "loadings" or "factors"')
        return (model.left, left) if of == "loadings" else (model.right, right)

    def _infer(self, X: CountsLike) -> tuple[Inference, Belief, Belief]:
        """The counts that the model can explain, with the model, and q of their loadings and of the fitted factors."""
        check_is_fitted(self)
        counts = self._possible(self._checked_counts(X, reset=False))
        model, _, right = restore(self.result_.priors, self.result_.posterior)
        task = Inference(counts, model)
        return task, infer(task, model, right, None, STEPS, TOLERANCE), right
