"""What the Bayesian members of the family share: a bound on the evidence, raised by variational inference."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from unmix.counts import Counts, CountsLike
from unmix.engines.using import engine
from unmix.estimators import streamed
from unmix.estimators.base import generator, where_online
from unmix.estimators.likelihood import PoissonNMF
from unmix.estimators.posterior import PosteriorEstimator
from unmix.fit import Fit
from unmix.models.poisson import check_factors
from unmix.models.problem import Problem
from unmix.models.streaming_inference import StreamedInference
from unmix.models.variational import Inference, Variational, restore
from unmix.shards import Shards
from unmix.solvers import init as starts
from unmix.solvers.online import Online, StochasticVI, spread, start_weight
from unmix.solvers.refine import Refine
from unmix.solvers.run import Phase
from unmix.solvers.session import Session
from unmix.solvers.streamed_vi import StreamedVI
from unmix.solvers.vi import CAVI, ExtrapolatedVI
from unmix.threads import use_threads
from unmix.types import Pair

TOLERANCE = 1e-4  # a row's inner iterations end once they change it by less than this part of its sum
# most inner iterations where the user leaves it open: where topics are believed and move on anyway, loadings need not stand
# still in between; topics that are estimated take Newton steps, which do not suit loadings that lag behind
INNER, INNER_BELIEVED = 20, 2
SETTLING = (
    20  # plain iterations after a random start: with momentum topics would settle before they have found their place
)


class VariationalEstimator(PosteriorEstimator):
    """Fit by coordinate ascent on the evidence lower bound, or by mini-batches; see `LDA` for the parameters."""

    inner: int | None
    extrapolate: bool
    refine: int
    newton_iterations: ClassVar[int] = 20  # of the maximum-likelihood fit to start from

    # What a member of the family says of itself

    @abstractmethod
    def _model(self, X: Counts | Shards) -> Variational:
        """The priors, checked, for data of this shape."""

    def _check_online(self) -> None:
        """Raises if the model cannot be learned from mini-batches."""

    def _learns_prior(self) -> bool:
        """Whether the prior of the loadings is fitted too."""
        return False

    # What they share

    def _check_parameters(self) -> None:
        self._check_common(refine=0, **{} if self.inner is None else {"inner": 0})

    def _task(self, X: Counts | Shards) -> Inference | StreamedInference:
        if not isinstance(X, Shards):
            return Inference(X, self._model(X))
        if self.online is not None:
            raise streamed.refuse("online=", "call partial_fit(shards)")
        return StreamedInference(X, self._model(X), engine(X, self.n_components), self._learns_prior())

    def _phases(self, task: Inference | StreamedInference, session: Session) -> list[Phase]:
        if isinstance(task, StreamedInference):
            inner = self.inner or INNER  # both factors cannot move together: loadings come first
            return [Phase("fit", StreamedVI(inner, TOLERANCE, self.extrapolate), self.max_iter, self.tol)]
        if self.online is not None:
            self._check_online()
            return [Phase("fit", self._online_solver(int(session.rng.integers(2**31))), self.max_iter, self.tol)]
        solver: Any = self._solver(task.model)
        phases = [Phase("fit", solver, self.max_iter, self.tol)]
        if self.refine and self.n_components > 1:
            moves = Refine(solver, lambda L, F: solver.start(task, *task.model.start(task.sides, task.X, L, F)))
            phases += [
                Phase("refine", moves, self.refine, 0, lambda s: moves.start(s, session.rng), None, climbs=False),
                Phase("refit", solver, self.max_iter, self.tol, lambda s: s.best if s.kept else None),
            ]
        return phases

    def _solver(self, model: Variational) -> CAVI | ExtrapolatedVI:
        if not self.extrapolate or self._learns_prior():
            return CAVI(INNER if self.inner is None else self.inner, TOLERANCE, self._learns_prior())
        inner = self.inner
        if inner is None:
            inner = INNER if model.right.regressed else INNER_BELIEVED
        settling = SETTLING if isinstance(self.init, str) and self.init == "random" else 0
        return ExtrapolatedVI(inner, TOLERANCE, settling)

    def _online_solver(self, seed: int) -> StochasticVI:
        inner = INNER if self.inner is None else max(self.inner, 1)
        return StochasticVI(self.online or Online(), seed, inner, TOLERANCE, start_weight(self.init))

    def _start(
        self, task: Inference | StreamedInference, phases: list[Phase], rng: np.random.Generator
    ) -> tuple[Phase, Any, str]:
        solver: Any = phases[0].solver
        if isinstance(task, StreamedInference):
            _, F, note = streamed.first_factors(self, task.X, rng)
            return phases[0], solver.start(task, streamed.first_belief(task, F)), note
        (L, F), note = self._first_factors(Problem(task.X, self.n_components), rng)
        return phases[0], solver.start(task, *task.model.start(task.sides, task.X, L, F)), note

    @where_online
    def partial_fit(self, X: CountsLike | Shards, y: None = None) -> Self:
        """Learn from one more batch of samples (online variational inference).

        Only the topics are kept from batch to batch, so memory does not depend on the number of samples. `result_` then
        describes the samples of the last batch.

        Parameters
        ----------
        X : Counts, array-like or Shards
            The batch; `Shards` are as many batches.
        y : None, default=None
            Ignored; scikit-learn's pipelines pass it.

        Returns
        -------
        Self
            The estimator itself.

        Raises
        ------
        ValueError
            If features are others than those of the first batch, or a prior is to be learned.

        See Also
        --------
        Online : Batch sizes and steps.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.datasets.correlated_topics("A").csr
        >>> model = um.LDA(3, eta=0.1, random_state=0)
        >>> for start in (0, 50):
        ...     _ = model.partial_fit(X[start : start + 50])
        >>> model.n_iter_
        2
        """
        if isinstance(X, Shards):
            return streamed.partial_fit(self, X)
        self._check_parameters()
        counts = self._checked_counts(X, reset=not hasattr(self, "stream_"))
        solver = self._online_solver(0)
        with use_threads(self.n_jobs):
            # priors that were chosen by the data stay those of the first batch
            known = hasattr(self, "stream_")
            model = restore(self.result_.priors, self.result_.posterior)[0] if known else self._model(counts)
            task = Inference(counts, model)

            def first() -> Any:
                problem = Problem(counts, self.n_components)
                (L, F), _ = self._first_factors(problem, generator(self.random_state))
                return solver.start(task, *model.start(task.sides, counts, L, spread(F)))

            self._absorb(task, solver, first)
        return self

    @property
    def elbo_(self) -> float:
        """float: the evidence lower bound at the end of the fit, all constants included."""
        check_is_fitted(self)
        return float(self.result_.trace["objective"].iloc[-1])

    def _first_factors(self, problem: Problem, rng: np.random.Generator) -> tuple[Pair, str]:
        if self.init == "random":
            return starts.almost_even(problem, rng), "random"
        if self.init == "topic-score":
            return starts.topic_score_or_random(problem, rng)
        if isinstance(self.init, str):
            quick = PoissonNMF(self.n_components, init="topic-score", n_jobs=self.n_jobs, random_state=rng)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # it need not converge
                warnings.filterwarnings("ignore", "Topic-SCORE")  # a random start will do
                fit = quick.set_params(prefit=4, max_iter=self.newton_iterations, tol=0).fit(problem.X).result_
            if fit.status == "interrupted":
                raise KeyboardInterrupt
            return (fit.L, fit.F), "maximum likelihood"
        L, F = (self.init.L, self.init.F) if isinstance(self.init, Fit) else self.init
        return check_factors(problem.X.shape, L, F, problem.n_topics), "given"
