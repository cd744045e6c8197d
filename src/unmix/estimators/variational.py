"""Estimators with a posterior: `LDA`, `GammaPoisson`, `BayesianPoissonNMF`, and what they share with `AllocationModel`."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from unmix.base.checks import ParameterError, choice, listed, parameter, share, warn
from unmix.base.memory import reordered
from unmix.base.threads import use_threads
from unmix.base.types import Factor, Floats, Pair
from unmix.counts.counts import CountsLike
from unmix.counts.data import Data
from unmix.counts.formulas import INTERCEPT, rows_of
from unmix.counts.shards import Shards
from unmix.estimators.base import CountsEstimator, checked_finite, estimator, generator, parts_of, where_online
from unmix.estimators.features import Missing
from unmix.estimators.known import Knowing, known_topics
from unmix.estimators.likelihood import PoissonNMF
from unmix.estimators.plans import correcting, refining, strength_of
from unmix.fit import Fit, finished, quietly
from unmix.models.beliefs import Belief, Gammas, HierarchicalGammas, PointTopics, Prior
from unmix.models.covariates import CovariateGammas, rows_with
from unmix.models.known import Known
from unmix.models.poisson import check_factors
from unmix.models.priors import positive, positive_number
from unmix.models.problem import Problem
from unmix.models.rates import average_multipliers
from unmix.models.variational import (
    Beliefs,
    Inference,
    Variational,
    gamma_gamma,
    gamma_poisson,
    gamma_poisson_given,
    hierarchical,
    lda,
    restore,
)
from unmix.solvers import init as starts
from unmix.solvers.online import Online, OnlineBeliefs, StochasticVI, spread, start_weight
from unmix.solvers.run import Phase, Plan, run
from unmix.solvers.vi import CAVI, ExtrapolatedVI, collapsed, infer

# most updates of a new sample, and the change, as a part of its sum, that ends them
STEPS, INFERENCE_TOLERANCE = 1000, 1e-7


class PosteriorEstimator(CountsEstimator):
    """`result_` has the arrays of a variational model and the kinds of its priors."""

    collapsed: bool = False

    def transform(
        self,
        X: CountsLike | Shards,
        out: str | os.PathLike[str] | None = None,
        *,
        missing: Missing | None = None,
        batch: Any = None,
        opportunities: Any = None,
    ) -> Floats:
        """Posterior means of the proportions, or loadings, of samples, given the fitted topics.

        Parameters
        ----------
        X : Counts, array-like or Shards
            Samples. Features of `Counts`, an AnnData or `Shards` are found by name, in any order, where both sides have names.
        out : str or PathLike, default=None
            For `Shards`, which are gone through shard by shard: a .npy file for the answer.
        missing : {"unmeasured", "zero"}, default=None
            Features of the fit that X, matched by name, does not have: "unmeasured" omits them, "zero" takes their counts
            as 0. By default "zero" for a fit of texts and "unmeasured" for others; a warning says which.
        batch : str or array-like, default=None
            For models with multipliers of rates, as in `TopicModel.transform`; others refuse it.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            For models with multipliers of rates; others refuse it.

        Returns
        -------
        array, n × K
            One row per sample; those of `LDA` and `AllocationModel` sum to one.

        Raises
        ------
        ValueError
            If no feature is one of the fit.

        See Also
        --------
        Fit.transform : Proportions for any model, and texts.

        Examples
        --------
        >>> import unmix as um
        >>> model = um.LDA(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
        >>> model.transform([[5, 1, 0]]).sum(axis=1).round(6)
        array([1.])
        """
        return super().transform(X, out, missing=missing, batch=batch, opportunities=opportunities)

    def _transformed(self, part: CountsLike) -> Floats:
        with use_threads(self.n_jobs):
            task, left, right = self._infer(part)
            if self.collapsed:
                left = collapsed(task, task.model, left, right, INFERENCE_TOLERANCE)
            return task.model.left.mean(left)

    def score(self, X: CountsLike | Shards, y: None = None, *, batch: Any = None, opportunities: Any = None) -> float:
        """A lower bound of the log-likelihood per count of samples, given the fitted topics; higher is better.

        Parameters
        ----------
        X : Counts, array-like or Shards
            Samples with the features of the fit.
        y : None, default=None
            Ignored; scikit-learn's searches pass it.
        batch : str or array-like, default=None
            As in `transform`.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            As in `transform`.

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

        def bound(part: CountsLike) -> tuple[float, float]:
            with use_threads(self.n_jobs):
                task, left, right = self._infer(part)
                return task.model.left.penalty - task.loss(task.model, left, right) - right.bound, task.X.total

        check_is_fitted(self)
        X = self._multiplied_as_in_fit(X, batch, opportunities)
        return checked_finite(self._mean_over_counts(X, bound), "score")

    def standard_deviations(self, of: Literal["loadings", "factors"] = "loadings") -> Floats:
        """Standard deviations of the posterior.

        Parameters
        ----------
        of : str, default="loadings"
            "loadings": of what `transform` gives of the samples of the fit. "factors": of the factors or topics.

        Returns
        -------
        array, n × K or m × K
            One row per sample, or a feature.

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
        """Limits of central intervals that cover each entry with probability `level`, by the posterior.

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
        share("level", level)
        prior, belief = self._belief_of(of)
        return prior.quantile(belief, (1 - level) / 2), prior.quantile(belief, (1 + level) / 2)

    def _belief_of(self, of: str) -> tuple[Prior, Belief]:
        check_is_fitted(self)
        with use_threads(self.n_jobs):
            model, left, right = restore(self.result_.priors, self.result_.posterior)
        choice("of", of, ("loadings", "factors"))
        return (model.left, left) if of == "loadings" else (model.right, right)

    def _infer(self, X: CountsLike) -> tuple[Inference, Belief, Belief]:
        """The counts that the model can explain, with the model, and q of their loadings and of the fitted factors."""
        check_is_fitted(self)
        counts = self._possible(self._checked_counts(X, reset=False))
        model, right = self.result_._prepared(_model_of)
        model = self._of_samples(model, counts)
        task = Inference(counts, model)
        left = infer(task, model, right, None, STEPS, INFERENCE_TOLERANCE, task.cost_of_loadings(None, right))
        checked_finite(left.parameters, "posterior")
        return task, left, right

    def _of_samples(self, model: Variational, counts: Data) -> Variational:
        """With the covariates of these samples, where the prior has such; the means of what is not known."""
        if not model.left.fits:
            return model
        told = self.result_.data["covariates"]
        rows, remarks = rows_of(told, counts.metadata, counts.shape[0], "prevalence")
        if remarks:
            warn(f"{listed(remarks)}; covariates that are not known are taken as their means in the fit")
        left = model.left.at({"rows": rows_with(rows, counts.sample_totals)})
        assert isinstance(left, CovariateGammas)
        return replace(model, left=replace(left, told={"covariates": told}))


def _model_of(fit: Fit) -> tuple[Variational, Belief]:
    """The priors, and q of the factors."""
    one_sample = {
        name: array[:1] if name.startswith("L") and array.ndim == 2 else array for name, array in fit.posterior.items()
    }
    model, _, right = restore(fit.priors, one_sample)
    return model, right


# What the Bayesian members of the family share: a bound on the evidence, raised by variational inference.

TOLERANCE = 1e-4  # a row's inner iterations end once they change it by less than this part of its sum
# most inner iterations where the user does not decide it: where topics are believed and move on anyway, loadings need not stand
# still in between; topics that are estimated take Newton steps, which do not suit loadings that lag behind
INNER, INNER_BELIEVED = 20, 2
SHORT, TRIAL = (
    20,
    10,
)  # counts per sample below which there are two starts; iterations after which the better one is taken
SETTLING = (
    20  # plain iterations after a random start: with momentum topics would settle before they have found their place
)


@dataclass(eq=False, repr=False, kw_only=True)
class VariationalEstimator(PosteriorEstimator):
    """Fit by coordinate ascent on the evidence lower bound, or by mini-batches; see `LDA` for the parameters."""

    n_init: int = 1
    inner: int | None = None
    extrapolate: bool = True
    max_iter: int = 1000
    refine: int = 0
    online: Online | None = None
    newton_iterations: ClassVar[int] = 20  # of the maximum-likelihood fit to start from

    # What a member of the family says of itself

    @abstractmethod
    def _model(self, X: Data, known: Known | None = None) -> Variational:
        """The priors, checked, for data of this shape."""

    def _check_online(self) -> None:
        """Raises if the model cannot be learned from mini-batches."""

    def _learns_prior(self) -> bool:
        """Whether the prior of the loadings is fitted too."""
        return False

    def _prior_weights(self) -> ArrayLike | None:
        """What the prior expects of each topic in a sample, where that differs from topic to topic."""
        return None

    def _topics_keep_their_place(self) -> bool:
        return self._prior_weights() is not None

    # What they share

    def _check_parameters(self) -> None:
        self._check_common(refine=0, **{} if self.inner is None else {"inner": 0})
        strength_of(getattr(self, "batch_prior", "auto"))

    def _plan(self, X: Data, rng: np.random.Generator) -> Plan:
        known = known_topics(self, X, distributions=True)
        if known is not None and X.multipliers is not None and not X.multipliers.plain:
            raise ValueError(
                f"{type(self).__name__} with known or seeds takes no batch or opportunities; use PoissonNMF"
            )
        strength = strength_of(getattr(self, "batch_prior", "auto"))
        task = Inference(X, self._model(X, known), strength, known=known)
        solver = self._solver(task).for_data(X)
        if self.online is not None:
            self._check_online()
            solver = self._online_solver(int(rng.integers(2**31)))
        if not X.in_memory:
            return self._streamed_plan(task, solver, rng)

        def start(L: Factor, F: Factor) -> Beliefs:
            return solver.start(task, L, F)

        def first() -> tuple[Beliefs, str]:
            problem = Problem(X, self.n_components)
            if known is not None:
                problem = replace(problem, known=known, prior=known.prior(self.n_components))
            pair, note = self._first_factors(problem, rng)
            state = start(*pair)
            if (
                known is not None
                or self.init != "auto"
                or self.n_components == 1
                or X.fractional
                or X.total >= SHORT * X.shape[0]
            ):
                return state, note
            states = {note: state, "Gibbs sampling": start(*self._placed(*starts.sampled(problem, rng)))}
            for name, one in states.items():
                states[name], _ = run(task, solver, one, max_iter=TRIAL, tol=0, catch_interrupt=False)
            note = min(states, key=lambda name: states[name].loss)
            return states[note], note

        fit = partial(Phase, solver=solver, max_iter=self.max_iter, tol=self.tol)
        moves = self.refine if self.online is None and self.n_components > 1 else 0
        phases = [fit("fit"), *(refining(solver, start, fit, moves, rng) if moves else []), *correcting(task, fit)]
        return Plan(task, phases, first)

    def _solver(self, task: Inference) -> CAVI | ExtrapolatedVI:
        inner, in_memory = self.inner, task.X.in_memory
        if inner is None:
            plain = task.model.right.regressed or self._learns_prior() or not self.extrapolate
            inner = INNER if plain or not in_memory else INNER_BELIEVED
        if not in_memory:
            inner = inner or INNER  # both factors cannot move together: loadings come first
        if not self.extrapolate:
            return CAVI(inner, TOLERANCE, self._learns_prior())
        settling = SETTLING if isinstance(self.init, str) and self.init == "random" else 0
        return ExtrapolatedVI(inner, TOLERANCE, settling, self._learns_prior())

    def _online_solver(self, seed: int) -> StochasticVI:
        inner = INNER if self.inner is None else max(self.inner, 1)
        return StochasticVI(self.online or Online(), seed, inner, TOLERANCE, start_weight(self.init))

    @where_online
    def partial_fit(self, X: CountsLike | Shards, y: None = None) -> Self:
        """Learn from one more batch of samples (online variational inference).

        Only the topics are kept from batch to batch, so memory does not depend on the number of samples. `result_` then
        describes the samples of the last batch.

        Parameters
        ----------
        X : Counts, array-like or Shards
            The batch; `Shards` are one batch per shard.
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
        self._check_parameters()
        if getattr(self, "known", None) is not None or getattr(self, "seeds", None) is not None:
            raise ValueError("partial_fit does not support known or seeds; use fit, which takes shards of any size")
        solver = self._online_solver(0)
        for part in parts_of(X):
            started = hasattr(self, "stream_")
            counts = self._checked_counts(part, reset=not started)
            with use_threads(self.n_jobs):
                # priors that were chosen by the data stay those of the first batch
                model = restore(self.result_.priors, self.result_.posterior)[0] if started else self._model(counts)
                model = self._of_samples(model, counts) if started else model
                task = Inference(counts, model)

                def first(task: Inference = task) -> OnlineBeliefs:
                    (L, F), _ = self._first_factors(Problem(task.X, self.n_components), generator(self.random_state))
                    return solver.start(task, L, spread(F))

                self._absorb(task, solver, first)
        return self

    @property
    def elbo_(self) -> float:
        """float: the evidence lower bound at the end of the fit, all constants included."""
        check_is_fitted(self)
        return float(self.result_.trace["objective"].iloc[-1])

    def _first_factors(self, problem: Problem, rng: np.random.Generator) -> tuple[Pair, str]:
        pair, note = self._found_factors(problem, rng)
        return self._placed(*pair) if isinstance(self.init, str) else pair, note

    def _placed(self, L: Factor, F: Factor) -> Pair:
        """The heaviest topic where the prior expects most, and so on; as they are, if it expects the same of all."""
        if (
            (expected := self._prior_weights()) is None
            or getattr(self, "known", None) is not None
            or getattr(self, "seeds", None)
        ):
            return L, F
        order = np.empty(self.n_components, dtype=np.intp)
        order[np.argsort(-np.asarray(expected), kind="stable")] = np.argsort(
            -L.sum(axis=0) * F.sum(axis=0), kind="stable"
        )
        return reordered(L, order), reordered(F, order)

    def _found_factors(self, problem: Problem, rng: np.random.Generator) -> tuple[Pair, str]:
        if problem.known is not None and isinstance(self.init, str):
            if self.init == "topic-score":
                raise ValueError(
                    'init="topic-score" finds all topics itself; use "auto" or "random" with what is known'
                )
            return starts.beside(problem, rng), "beside what is known"
        if self.init == "random":
            return starts.almost_even(problem, rng), "random"
        if self.init == "topic-score":
            return starts.topic_score_or_random(problem, rng)
        if isinstance(self.init, str):
            quick = PoissonNMF(self.n_components, init="topic-score", n_jobs=self.n_jobs, random_state=rng)
            with quietly():  # it need not converge
                warnings.filterwarnings("ignore", "Topic-SCORE")  # a random start will do
                quick.set_params(prefit=4, max_iter=self.newton_iterations, tol=0)
                fit = finished(quick.fit(problem.X).result_)
            return (fit.L, fit.F), "maximum likelihood"
        L, F = (self.init.L, self.init.F) if isinstance(self.init, Fit) else self.init
        return check_factors(problem.X.shape, L, F, problem.n_topics), "given"


# LDA: Dirichlet proportions; topics are estimated, or Dirichlet, too.


@estimator
class LDA(Knowing, VariationalEstimator):
    """Latent Dirichlet allocation: l*_i ~ Dirichlet(alpha), x_i ~ Multinomial(t_i, Σ_k l*_ik f*_k), by variational inference.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    alpha : float, array-like or "auto", default=1.0
        Dirichlet parameter of the proportions: a number, one per topic, or "auto" to learn one per topic.
    eta : float or array-like, default=None
        None: topics are estimated by maximum likelihood. A number, or one per feature: topics ~ Dirichlet(eta).
    collapsed : bool, default=False
        Whether `transform` finds proportions of new samples by collapsed inference (CVB0), in which each count is assigned by all
        others. For samples of few counts it predicts better where the prior fits, as one that was learned does.
    init : str, pair of arrays or Fit, default="auto"
        "auto": from a short maximum-likelihood fit, which ends at better optima than a random start (Carbonetto et al.,
        section 4); where samples have fewer than 20 counts on average, from there or from Gibbs sampling, whichever leads
        higher. Or "random" (almost equal topics), "topic-score", a pair (L0, F0), or a `Fit` of any model here, the best
        choice of all if it was fitted long: it starts from its factors.
    n_init : int, default=1
        Number of initialisations; the fit with the highest objective is kept. `result_.starts` shows how far
        apart they ended, which is how much the data do not identify. Ctrl-C keeps the best so far; an interrupted run is not
        resumed. Has no effect where `init` gives the start.
    inner : int, default=None
        Most updates of a sample's proportions before the topics move; a sample that converges ends earlier. None: 20, or
        2 with extrapolation and `eta`. 0: proportions and topics move together.
    extrapolate : bool, default=True
        Whether to accelerate by moving on along the last change; the bound never falls either way. Not where a prior is
        learned, or in mini-batches.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        The fit ends once what remains to be gained, `result_.remaining_gain`, is at most `tol` per count: with the default, ten
        units of the bound per million counts. 0 runs exactly `max_iter` iterations.
    refine : int, default=0
        Moves to try after convergence, to leave a poor local optimum: each puts the topics together with those of a different
        fit, and is kept if the bound rises.
    known : array, DataFrame, Fit or path, default=None
        Topics that are known, features × topics: the first ones of the fit, under the names that they have. Features are found by
        name. `n_components` counts them.
    known_weight : float or sequence of floats, default=float("inf")
        How much they are trusted: inf holds them as they are, bit for bit; a number is that many counts of the topic that
        were seen before. One for all, or one per topic. 0 is a fit without them.
    seeds : dict or path, default=None
        Words of topics, {"economy": ["tax*", "jobs"]}: features that shall be frequent in the topic of that name. A star stands
        for any letters. Or a .yaml, .csv or .gmt file of such lists. Seeded topics follow the known ones.
    seed_weight : float, default=0.1
        How many counts each count of a seed is worth in the prior of its topic. Topics start at their seeds whatever it is.
    online : Online, default=None
        `unmix.Online(...)`: iterations are passes in mini-batches, with steps of Robbins and Monro.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    random_state : int, Generator or RandomState, default=None
        Seed of the random numbers; use an integer for reproducible results.
    verbose : bool, default=False
        Show a progress bar.
    callbacks : sequence of callables, default=()
        Functions called with a `unmix.solvers.Progress` after every iteration; one that returns a status ends the fit.

    Attributes
    ----------
    components_ : array, K × m
        The (mean) topics; rows sum to one.
    gamma_ : array, n × K
        The Dirichlet parameters of the proportions.
    alpha_ : array, K
        The prior, learned or given.
    elbo_ : float
        Lower bound of log p(X | sample totals), all constants included.
    result_ : Fit
        All that was found.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    TopicModel : Without priors.
    GammaPoisson : LDA that models sample sizes too.
    AllocationModel : The same model, sampled.
    intervals : How sure proportions and topics are.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> model = um.LDA(3, alpha=0.5, eta=0.1, tol=1e-4, random_state=0).fit(X)
    >>> model.components_.shape, model.gamma_.shape
    ((3, 381), (100, 3))
    >>> len(um.LDA(3, alpha="auto", init=model.result_, tol=1e-4).fit(X).alpha_)
    3
    """

    alpha: ArrayLike | Literal["auto"] = 1.0
    eta: ArrayLike | None = None
    collapsed: bool = False

    @property
    def gamma_(self) -> Floats:
        """array, n × K: the Dirichlet parameters of the proportions."""
        check_is_fitted(self)
        return self.result_.posterior["L"]

    @property
    def alpha_(self) -> Floats:
        """array, K: the Dirichlet prior of the proportions, learned or given."""
        check_is_fitted(self)
        return self.result_.posterior["L_prior"]

    def _learns_prior(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "auto"

    def _model(self, X: Data, known: Known | None = None) -> Variational:
        alpha = 1.0 if self._learns_prior() else self.alpha
        eta = None if self.eta is None else positive("eta", self.eta, X.shape[1], "feature")
        return lda(positive("alpha", alpha, self.n_components, "topic"), eta, known)

    def _prior_weights(self) -> ArrayLike | None:
        return self.alpha if np.ndim(self.alpha) else None

    def _check_online(self) -> None:
        if self._learns_prior():
            raise ValueError('alpha="auto" is learned from all samples; use a number for online learning')


# GammaPoisson: Gamma loadings, LDA that models the sizes of samples, too.


@estimator
class GammaPoisson(Knowing, VariationalEstimator):
    """Gamma–Poisson: l_ik ~ Gamma(shape, rate), x_ij ~ Poisson(Σ_k l_ik f*_jk), columns of F* sum to one.

    LDA that also models how many counts per sample has: with one rate for all topics the two have the same iterates.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    shape : float or array-like, default=None
        Shape of the Gamma prior of loadings: a number, or one per topic. None: 1; or, with `prevalence`, what the variance of
        proportions suggests (moments at the start of the fit).
    rate : float or array-like, default=None
        Its rate: a number, or one per topic. None makes the prior expect samples of the mean size.
    eta : float or array-like, default=None
        None: topics are estimated by maximum likelihood. A number, or one per feature: topics ~ Dirichlet(eta).
    collapsed : bool, default=False
        Whether `transform` finds proportions of new samples by collapsed inference (CVB0), in which each count is assigned by all
        others. For samples of few counts it predicts better where the prior fits, as one that was learned does.
    prevalence : str, default=None
        Covariates of which the expected loadings depend, as a formula of columns of the metadata such as "~ party + s(year)":
        l_ik ~ Gamma with mean (total of sample i) · exp(w_i · β_k). It helps to find proportions of short samples. For tests use
        `unmix.effects`.
    init : str, pair of arrays or Fit, default="auto"
        "auto": from a short maximum-likelihood fit, which ends at better optima than a random start (Carbonetto et al.,
        section 4); where samples have fewer than 20 counts on average, from there or from Gibbs sampling, whichever leads
        higher. Or "random" (almost equal topics), "topic-score", a pair (L0, F0), or a `Fit` of any model here, the best
        choice of all if it was fitted long: it starts from its factors.
    n_init : int, default=1
        Number of initialisations; the fit with the highest objective is kept. `result_.starts` shows how far
        apart they ended, which is how much the data do not identify. Ctrl-C keeps the best so far; an interrupted run is not
        resumed. Has no effect where `init` gives the start.
    inner : int, default=None
        Most updates of a sample's proportions before the topics move; a sample that converges ends earlier. None: 20, or
        2 with extrapolation and `eta`. 0: proportions and topics move together.
    extrapolate : bool, default=True
        Whether to accelerate by moving on along the last change; the bound never falls either way. Not where a prior is
        learned, or in mini-batches.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        The fit ends once what remains to be gained, `result_.remaining_gain`, is at most `tol` per count: with the default, ten
        units of the bound per million counts. 0 runs exactly `max_iter` iterations.
    refine : int, default=0
        Moves to try after convergence, to leave a poor local optimum: each puts the topics together with those of a different
        fit, and is kept if the bound rises.
    batch_prior : float or str, default="auto"
        Strength τ of the prior Gamma(τ, τ) of effects of batches, where `fit` is given some: "auto" learns it, a larger one holds
        effects closer to 1, inf allows for none. What belongs to samples, `batch` and `opportunities`, is given to `fit`.
    known : array, DataFrame, Fit or path, default=None
        Topics that are known, features × topics: the first ones of the fit, under the names that they have. Features are found by
        name. `n_components` counts them.
    known_weight : float or sequence of floats, default=float("inf")
        How much they are trusted: inf holds them as they are, bit for bit; a number is that many counts of the topic that
        were seen before. One for all, or one per topic. 0 is a fit without them.
    seeds : dict or path, default=None
        Words of topics, {"economy": ["tax*", "jobs"]}: features that shall be frequent in the topic of that name. A star stands
        for any letters. Or a .yaml, .csv or .gmt file of such lists. Seeded topics follow the known ones.
    seed_weight : float, default=0.1
        How many counts each count of a seed is worth in the prior of its topic. Topics start at their seeds whatever it is.
    online : Online, default=None
        `unmix.Online(...)`: iterations are passes in mini-batches, with steps of Robbins and Monro.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    random_state : int, Generator or RandomState, default=None
        Seed of the random numbers; use an integer for reproducible results.
    verbose : bool, default=False
        Show a progress bar.
    callbacks : sequence of callables, default=()
        Functions called with a `unmix.solvers.Progress` after every iteration; one that returns a status ends the fit.

    Attributes
    ----------
    components_ : array, K × m
        The (mean) topics; rows sum to one.
    shape_ : array, n × K
        Shapes of the Gamma posterior of the loadings.
    rate_ : array, K or n × K
        Its rates: of each sample where rates of counts have multipliers, or with `prevalence`.
    coefficients_ : DataFrame
        With `prevalence`: columns `topic`, `term` and `estimate`, β of each topic per unit of a column. The intercept is that of
        a sample whose covariates are the means.
    elbo_ : float
        Lower bound of log p(X), all constants included.
    result_ : Fit
        All that was found.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    LDA : Given the totals of samples.
    BayesianPoissonNMF : Gamma priors on both sides.

    Examples
    --------
    >>> import unmix as um
    >>> model = um.GammaPoisson(2, shape=0.5, eta=0.1, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
    >>> model.shape_.shape, model.rate_.shape
    ((4, 2), (2,))
    """

    shape: ArrayLike | None = None
    rate: ArrayLike | None = None
    eta: ArrayLike | None = None
    prevalence: str | None = None
    collapsed: bool = False
    batch_prior: float | Literal["auto"] = "auto"
    takes: ClassVar[frozenset[str]] = frozenset({"batch", "opportunities"})

    @property
    def shape_(self) -> Floats:
        """array, n × K: shapes of the Gamma posterior of the loadings."""
        check_is_fitted(self)
        return self.result_.posterior["L"]

    @property
    def rate_(self) -> Floats:
        """array, K or n × K: rates of the Gamma posterior of the loadings."""
        check_is_fitted(self)
        return self.result_.posterior["L_rate"]

    def _model(self, X: Data, known: Known | None = None) -> Variational:
        if self.prevalence is not None:
            return self._given_covariates(X, known)
        shape = positive("shape", 1.0 if self.shape is None else self.shape, self.n_components, "topic")
        rate = shape.sum() * X.shape[0] / X.total if self.rate is None else self.rate
        rate = positive("rate", rate, self.n_components, "topic")
        if X.multipliers is None or X.multipliers.plain:
            return gamma_poisson(
                shape, rate, None if self.eta is None else positive("eta", self.eta, X.shape[1], "feature"), known
            )
        if self.eta is not None:
            raise ValueError(
                "GammaPoisson with eta does not support batch or opportunities; use eta=None, or BayesianPoissonNMF"
            )
        return Variational(Gammas(shape, rate), PointTopics(weights=average_multipliers(X)))

    def _given_covariates(self, X: Data, known: Known | None) -> Variational:
        if self.rate is not None:
            raise ParameterError(
                "rate", self.rate, f"with {parameter('prevalence')} it follows from covariates; use None"
            )
        if X.multipliers is not None and not X.multipliers.plain:
            raise ValueError(f"{parameter('prevalence')} does not support batch or opportunities; use only one of them")
        K = self.n_components
        shape = None if self.shape is None else positive("shape", self.shape, K, "topic")
        eta = None if self.eta is None else positive("eta", self.eta, X.shape[1], "feature")
        return gamma_poisson_given(self.prevalence, X, K, shape, eta, known)  # type: ignore[arg-type]

    @property
    def coefficients_(self) -> pd.DataFrame:
        """DataFrame: β of each topic, with `prevalence`."""
        check_is_fitted(self)
        if "L_coefficients" not in self.result_.posterior:
            raise AttributeError("coefficients are those of a fit with prevalence; use a formula")
        told, beta = self.result_.data["covariates"], self.result_.posterior["L_coefficients"][0]
        beta = beta / np.append(1.0, told["scales"])[:, None]
        rows, K = [INTERCEPT, *told["columns"]], beta.shape[1]
        topic = np.repeat(np.arange(1, K + 1), len(rows))
        return pd.DataFrame({"topic": topic, "term": rows * K, "estimate": beta.T.ravel()})

    def _prior_weights(self) -> ArrayLike | None:
        means = np.divide(1.0 if self.shape is None else self.shape, 1.0 if self.rate is None else self.rate)
        return means if np.ndim(means) else None


# BayesianPoissonNMF: Gamma priors on both sides.


@estimator
class BayesianPoissonNMF(VariationalEstimator):
    """Bayesian Poisson factorisation: l_ik ~ Gamma(a, b), f_jk ~ Gamma(c, d) (shapes and rates), x_ij ~ Poisson(Σ_k l_ik f_jk).

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    a : float, default=0.3
        Shape of the prior of loadings. Below 1 it favours few topics a sample.
    b : float, default=None
        Rate of the prior of loadings. None: such that the prior expects the number of counts that there are.
    c : float, default=0.3
        Shape of the prior of factors. Below 1 it favours few features a topic.
    d : float, default=None
        Rate of the prior of factors. None: such that the prior expects the number of counts that there are.
    rate_shape : float, default=None
        None: the rates b and d are those of all samples and features. A number: hierarchical Poisson factorisation (Gopalan,
        Hofman and Blei 2015). Each sample has a rate of its own ~ Gamma(rate_shape, rate_shape / b), and each feature one
        ~ Gamma(rate_shape, rate_shape / d), so that b and d are their means. Samples may then differ in size, and features
        in frequency, as much as they like. The paper has a = c = rate_shape = 0.3 and b = d = 1.
    init : str, pair of arrays or Fit, default="auto"
        "auto": from a short maximum-likelihood fit, which ends at better optima than a random start (Carbonetto et al.,
        section 4); where samples have fewer than 20 counts on average, from there or from Gibbs sampling, whichever leads
        higher. Or "random" (almost equal topics), "topic-score", a pair (L0, F0), or a `Fit` of any model here, the best
        choice of all if it was fitted long: it starts from its factors.
    n_init : int, default=1
        Number of initialisations; the fit with the highest objective is kept. `result_.starts` shows how far
        apart they ended, which is how much the data do not identify. Ctrl-C keeps the best so far; an interrupted run is not
        resumed. Has no effect where `init` gives the start.
    inner : int, default=0
        Most updates of a sample's loadings before the factors move; a sample that converges ends earlier. 0: both move
        together.
    extrapolate : bool, default=True
        Whether to accelerate by moving on along the last change; the bound never falls either way. Not where a prior is
        learned, or in mini-batches.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-5
        The fit ends once what remains to be gained, `result_.remaining_gain`, is at most `tol` per count: with the default, ten
        units of the bound per million counts. 0 runs exactly `max_iter` iterations.
    refine : int, default=0
        Moves to try after convergence, to leave a poor local optimum: each puts the topics together with those of a different
        fit, and is kept if the bound rises.
    batch_prior : float or str, default="auto"
        Strength τ of the prior Gamma(τ, τ) of effects of batches, where `fit` is given some: "auto" learns it, a larger one holds
        effects closer to 1, inf allows for none. What belongs to samples, `batch` and `opportunities`, is given to `fit`.
    online : Online, default=None
        `unmix.Online(...)`: iterations are passes in mini-batches, with steps of Robbins and Monro.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    random_state : int, Generator or RandomState, default=None
        Seed of the random numbers; use an integer for reproducible results.
    verbose : bool, default=False
        Show a progress bar.
    callbacks : sequence of callables, default=()
        Functions called with a `unmix.solvers.Progress` after every iteration; one that returns a status ends the fit.

    Attributes
    ----------
    components_ : array, K × m
        Posterior means of the factors.
    elbo_ : float
        Lower bound of log p(X), all constants included.
    result_ : Fit
        All that was found; its `posterior` has shapes `L`, `F` and rates `L_rate`, `F_rate`. With `rate_shape`, `sample_rates_`
        and `feature_rates_` have to be added to those.
    sample_rates_ : array, n
        Posterior means of the samples' rates, with `rate_shape`. Samples with few counts have high ones.
    feature_rates_ : array, m
        The same of the features.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    PoissonNMF : The best fit alone.
    GammaPoisson : Topics that sum to one.

    Examples
    --------
    >>> import unmix as um
    >>> model = um.BayesianPoissonNMF(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
    >>> model.result_.posterior["F"].shape
    (3, 2)
    >>> model = um.BayesianPoissonNMF(2, rate_shape=0.3, random_state=0).fit([[9, 1, 0], [90, 9, 0], [0, 1, 7], [1, 0, 8]])
    >>> model.sample_rates_.argmin()  # the sample with most counts
    np.int64(1)
    """

    newton_iterations = 10  # twice as many led higher on one of two data sets, and lower on the other

    a: float = 0.3
    b: float | None = None
    c: float = 0.3
    d: float | None = None
    rate_shape: float | None = None
    inner: int | None = 0
    batch_prior: float | Literal["auto"] = "auto"
    takes: ClassVar[frozenset[str]] = frozenset({"batch", "opportunities"})

    @property
    def sample_rates_(self) -> Floats:
        """array, n: posterior means of the samples' rates."""
        return self._mean_rates("loadings")

    @property
    def feature_rates_(self) -> Floats:
        """array, m: posterior means of the features' rates."""
        return self._mean_rates("factors")

    def _mean_rates(self, of: Literal["loadings", "factors"]) -> Floats:
        prior, belief = self._belief_of(of)
        if not isinstance(prior, HierarchicalGammas):
            raise AttributeError(
                "rates of samples and features are those of a fit with rate_shape; use it, such as 0.3"
            )
        return prior.mean_rates(belief)

    def _model(self, X: Data, known: Known | None = None) -> Variational:
        a, c = (positive_number(name, getattr(self, name)) for name in "ac")
        (n, m), K = X.shape, self.n_components
        given = X.multipliers
        if given is not None and not given.plain and self.rate_shape is not None:
            raise ValueError(
                "BayesianPoissonNMF with rate_shape does not support batch or opportunities; use rate_shape=None"
            )
        average = 1.0 if given is None or given.known is None else given.known.sum(axis=1)[given.groups].sum() / (n * m)
        product = K * a * c * n * m / X.total * average  # b d for which the prior expects this total
        b, d = (None if (value := getattr(self, name)) is None else positive_number(name, value) for name in "bd")
        if b is None:
            b = np.sqrt(product) if d is None else product / d
        d = product / b if d is None else d
        if self.rate_shape is None:
            return gamma_gamma(K, a, b, c, d)
        return hierarchical(K, a, b, c, d, positive_number("rate_shape", self.rate_shape))
