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
        """Posterior means of the proportions, or loadings, of samples, given the fitted topics.

        Parameters
        ----------
        X : Counts, array-like or Shards
            Samples with the features of the fit.
        out : str or PathLike, default=None
            For `Shards`, which are gone through shard by shard: a .npy file for the answer.

        Returns
        -------
        array, n × K
            A row a sample; those of `LDA` and `AllocationModel` sum to one.

        Raises
        ------
        ValueError
            If features are others than those of the fit.

        See Also
        --------
        Fit.transform : Features matched by name, and texts.

        Examples
        --------
        >>> import unmix as um
        >>> model = um.LDA(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
        >>> model.transform([[5, 1, 0]]).sum(axis=1).round(6)
        array([1.])
        """
        if isinstance(X, Shards):
            return streamed.transform(self, X, out)
        with use_threads(self.n_jobs):
            task, left, _ = self._infer(X)
        return task.model.left.mean(left)

    def score(self, X: CountsLike | Shards, y: None = None) -> float:
        """A lower bound of the log-likelihood per count of samples, given the fitted topics; higher is better.

        Parameters
        ----------
        X : Counts, array-like or Shards
            Samples with the features of the fit.
        y : None, default=None
            Ignored; scikit-learn's searches pass it.

        Returns
        -------
        float
            Below 0.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
        >>> um.LDA(2, random_state=0).fit(X).score(X) < 0
        True
        """
        if isinstance(X, Shards):
            return streamed.mean_of(X, self.score)
        with use_threads(self.n_jobs):
            task, left, right = self._infer(X)
            bound = -task.loss(task.model, left, right) - right.bound
        return bound / task.X.total if task.X.total > 0 else 0.0

    def standard_deviations(self, of: Literal["loadings", "factors"] = "loadings") -> Floats:
        """Standard deviations of the posterior.

        Parameters
        ----------
        of : str, default="loadings"
            "loadings": of what `transform` gives of the samples of the fit. "factors": of the factors or topics.

        Returns
        -------
        array, n × K or m × K
            A row a sample, or a feature.

        Raises
        ------
        ValueError
            If `of` is neither, or asks for topics that were estimated, without `eta`, and so have no spread.

        Examples
        --------
        >>> import unmix as um
        >>> model = um.LDA(2, eta=0.1, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
        >>> model.standard_deviations().shape, model.standard_deviations("factors").shape
        ((4, 2), (3, 2))
        """
        prior, belief = self._belief_of(of)
        return prior.standard_deviation(belief)

    def credible_intervals(
        self, of: Literal["loadings", "factors"] = "loadings", level: float = 0.9
    ) -> tuple[Floats, Floats]:
        """Ends of central intervals that hold each entry with probability `level`, by the posterior.

        Variational inference treats each number as if all others were known, so these are too short; `unmix.intervals` are not.

        Parameters
        ----------
        of : str, default="loadings"
            "loadings": of what `transform` gives of the samples of the fit. "factors": of the factors or topics.
        level : float, default=0.9
            The probability.

        Returns
        -------
        tuple of two arrays, n × K or m × K
            Lower and upper ends.

        Raises
        ------
        ValueError
            If `of` is neither, or asks for topics that were estimated, without `eta`; if the level is not between 0 and 1.

        See Also
        --------
        intervals : From the exact posterior.

        Examples
        --------
        >>> import unmix as um
        >>> model = um.LDA(2, eta=0.1, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
        >>> low, high = model.credible_intervals("factors", level=0.8)
        >>> bool((low < high).all())
        True
        """
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
