"""Maximum likelihood and MAP: `PoissonNMF`, `TopicModel`, `SparsePoissonNMF`. Parameters in, `Fit` out; no mathematics here."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from unmix import solvers
from unmix.base.checks import ParameterError, choice, parameter, real, warn, whole
from unmix.base.threads import use_threads
from unmix.base.types import Factor, Floats, Pair, Record, as_names
from unmix.counts.counts import Counts, CountsLike, as_counts
from unmix.counts.data import Data
from unmix.counts.shards import Shards
from unmix.estimators.base import (
    OF_SAMPLES,
    SMOOTHING,
    CountsEstimator,
    as_data,
    check_smoothing,
    checked_finite,
    estimator,
    generator,
    parts_of,
    where_online,
)
from unmix.estimators.features import Missing
from unmix.estimators.known import Knowing, beside_catalogue, known_topics, named_only, refuse_new
from unmix.estimators.plans import correcting, refining, strength_of
from unmix.fit import Fit
from unmix.models.poisson import check_factors, proportions_and_sizes
from unmix.models.priors import Dirichlet, Gamma
from unmix.models.problem import Problem, Sparsity, State, drop_negligible
from unmix.registry import SOLVERS, named
from unmix.solvers import EM, PLSA, Alternate, Extrapolate, run
from unmix.solvers import init as starts
from unmix.solvers.base import AnySolver, FactorSolver, HalfStep, refuse_unsupported
from unmix.solvers.joint import SparseL1, SparseL2
from unmix.solvers.online import Online, OnlineEM, OnlineState, spread, start_weight
from unmix.solvers.run import COLUMNS, Phase, Plan
from unmix.solvers.search import Search, merge_down
from unmix.solvers.search import search as search_factors

PREFIT = Alternate(EM(), learns=False)
SolverLike = str | HalfStep | AnySolver


def make_solver(solver: SolverLike, extrapolate: bool) -> AnySolver:
    """A user's word, or object, to a solver that `run` can use."""
    if isinstance(solver, str) and solver in SOLVERS:
        return make_solver(getattr(solvers, SOLVERS[solver])(), extrapolate)
    if isinstance(solver, type | str) or not (callable(solver) or isinstance(solver, FactorSolver)):
        other = "" if isinstance(solver, str) else ", or a solver object of unmix.solvers"
        remedy = f"choose one of {', '.join(SOLVERS)}{other}"
        raise ParameterError("solver", solver, remedy)
    if isinstance(solver, Extrapolate | Alternate):
        return solver
    if extrapolate:
        return Extrapolate(solver)
    return solver if isinstance(solver, FactorSolver) else Alternate(solver)


def _known_factors(fit: Fit) -> starts.Known:
    return starts.Known.of(fit.F.astype(np.float64, copy=False))


def _known_topics(fit: Fit) -> starts.Known:
    return starts.Known.of(fit.topics)


class LikelihoodEstimator(CountsEstimator):
    """Fits by maximum likelihood, or to the mode of a posterior."""

    __metadata_request__score: ClassVar = {"smoothing": UNUSED}
    refine: int = 0
    dtype: Literal["float64", "float32"] = "float64"

    @classmethod
    def from_factors(cls, F: ArrayLike | pd.DataFrame, features: ArrayLike | None = None, **parameters: Any) -> Self:
        """A model with known factors, such as mutational signatures or gene programs, ready to `transform` counts into
        loadings.

        Parameters
        ----------
        F : array-like or DataFrame, m × K
            One column per topic, on any scale. The rows of a DataFrame name the features, or its column of text does, such as
            `Type` of COSMIC's tables. Its columns name the topics: "SBS1" is then "SBS1" in tables and figures too.
        features : array-like of str, default=None
            Names of the features. Counts that have names are matched by them, in any order.
        **parameters : dict
            Of the estimator, such as `n_jobs`; the number of topics is that of F.

        Returns
        -------
        Self
            A fitted model. Its `result_` has no samples, and can be saved and used like that of any fit.

        Raises
        ------
        ValueError
            If F is not such a matrix of numbers >= 0, a topic has no weight, or there are too few or too many names.

        See Also
        --------
        match_catalogue : Which known factors fitted ones are like.

        Examples
        --------
        >>> import unmix as um
        >>> signatures = [[0.8, 0.0], [0.2, 0.5], [0.0, 0.5]]
        >>> um.PoissonNMF.from_factors(signatures).transform([[8, 12, 10]]).round(6)
        array([[10., 20.]])
        """
        topics = None
        if isinstance(F, pd.DataFrame):
            words = [name for name in F if not pd.api.types.is_numeric_dtype(F[name])]
            if len(words) > 1:
                raise ValueError(
                    f"the columns {words[0]!r} and {words[1]!r} of F are text; keep one, with the names of features"
                )
            F = F.set_index(words[0]) if words else F
            features = F.index if features is None else features
            topics = None if pd.api.types.is_numeric_dtype(F.columns) else [str(name) for name in F.columns]
        F = np.asarray(F, dtype=np.float64)
        if F.ndim != 2 or 0 in F.shape:
            raise ValueError(f"F has shape {F.shape}; use features × topics, at least one of each")
        nobody, F = check_factors((0, len(F)), np.empty((0, F.shape[1])), F)
        if (dead := np.flatnonzero(F.sum(axis=0) == 0)).size:
            raise ValueError(f"column {dead[0]} of F is all zero; a topic needs some weight")
        names = None if features is None else as_names([str(name) for name in np.asarray(features, dtype=object)])
        if names is not None and len(names) != len(F):
            raise ValueError(f"{len(names)} names for {len(F)} features; use one name each")
        model = cls(n_components=F.shape[1], **parameters)
        model._check_parameters()
        F = model._normalised(F)
        trace = pd.DataFrame([(0, 0.0, 0.0, 0.0, np.nan, "start", "known factors")], columns=COLUMNS)
        fit = Fit(nobody, F, trace, "converged", loglik=0.0, features=names, params=model._about())
        model.result_ = fit.with_names(topics)
        model.n_features_in_, model.n_iter_ = len(F), 0
        return model

    def transform(
        self,
        X: CountsLike | Shards,
        out: str | os.PathLike[str] | None = None,
        *,
        missing: Missing | None = None,
        batch: Any = None,
        opportunities: Any = None,
    ) -> Floats:
        """Loadings of samples, given the fitted factors.

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
            Where the fit has effects of batches, the batch of each sample: a column of the metadata, or labels. Effects of
            batches that the fit does not know are one.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            Known multipliers of rates, as in `fit`.

        Returns
        -------
        array, n × K
            The most likely ones, or those of the highest density where there is a prior.

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
        >>> um.PoissonNMF.from_factors([[0.8, 0], [0.2, 0.5], [0, 0.5]]).transform([[8, 12, 10], [4, 1, 0]]).round(6)
        array([[10., 20.],
               [ 5.,  0.]])
        """
        return super().transform(X, out, missing=missing, batch=batch, opportunities=opportunities)

    def _transformed(self, part: CountsLike) -> Floats:
        return self._loadings(part)[0]

    def score(
        self,
        X: CountsLike | Shards,
        y: None = None,
        *,
        smoothing: float = SMOOTHING,
        batch: Any = None,
        opportunities: Any = None,
    ) -> float:
        """Mean log-likelihood per held-out count, by document completion: higher is better.

        Half of the counts are held out at random, the same ones at every call. Loadings of samples are found from the other
        half, and the held-out counts are predicted from them. No count takes part in finding its own loadings, so more topics
        score higher only if they predict better: `GridSearchCV` can choose the number of topics by it. It is the negative
        logarithm of `perplexity`.

        Parameters
        ----------
        X : Counts, array-like or Shards
            Samples with the features of the fit. Entries that are not whole numbers are rounded up or down at random.
        y : None, default=None
            Ignored; scikit-learn's searches pass it.
        smoothing : float, default=0.001
            The share of the overall frequencies of features, half a count added to each, in every prediction: by maximum
            likelihood, what a topic never had is impossible, and would score −inf where a new sample has it. 0 for none.
        batch : str or array-like, default=None
            As in `transform`.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            As in `transform`.

        Returns
        -------
        float
            Higher is better.

        Raises
        ------
        ValueError
            If the smoothing is not a share, or features are others than those of the fit.

        See Also
        --------
        choose_topics : Which number of topics, with errors.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.datasets.correlated_topics("A")
        >>> scores = [um.TopicModel(K, random_state=0).fit(X.csr[:80]).score(X.csr[80:]) for K in (1, 6, 40)]
        >>> scores.index(max(scores))
        1
        """
        check_smoothing(smoothing)
        rng = np.random.default_rng(0)

        def whole(counts: Counts) -> Counts:
            x = counts.rows.data
            return counts.with_values(np.floor(x + rng.random(x.size))) if counts.fractional else counts

        check_is_fitted(self)
        X = self._multiplied_as_in_fit(X, batch, opportunities)
        return -float(np.log(self._perplexity(X, 0.5, smoothing, 0, whole)))

    def _loadings(self, X: CountsLike) -> tuple[Floats, starts.Known]:
        """The most likely loadings of samples, and the factors that these belong to."""
        check_is_fitted(self)
        counts = self._checked_counts(X, reset=False)
        problem = replace(self._problem(self._possible(counts)), prior=None, n_topics=self.result_.n_topics)
        # with a Dirichlet prior loadings are proportions times a size
        known = self.result_._prepared(
            _known_topics if isinstance(problem.loadings_prior, Dirichlet) else _known_factors
        )
        with use_threads(self.n_jobs):
            cost = known.sums
            if problem.rates is not None:
                cost = problem.rates.costs_of_loadings(None, known.F)[problem.rates.groups]
            L = drop_negligible(starts.known_factors(problem, known), cost)
        return checked_finite(L.astype(np.float64, copy=False), "loadings"), known

    def _normalised(self, F: Floats) -> Floats:
        """Known factors on the scale of the model."""
        return F

    @abstractmethod
    def _problem(self, X: Data) -> Problem:
        """What is optimised."""

    @abstractmethod
    def _solver(self) -> AnySolver:
        """How, in memory."""

    def _prefit(self) -> int:
        """EM iterations before the solver takes over."""
        return 0

    def _plan(self, X: Data, rng: np.random.Generator) -> Plan:
        problem, solver = self._with_known(self._problem(X)), self._solver()
        if self.online is not None:
            solver = OnlineEM(self.online, int(rng.integers(2**31)), start_weight(self.init))
        if not X.in_memory:
            return self._streamed_plan(problem, solver.for_data(X), rng)
        refuse_unsupported(solver, X, problem.needs, type(self).__name__)
        prefit = 0 if isinstance(self.init, Fit) else self._prefit()

        def start(L: Factor, F: Factor) -> State:
            return solver.start(problem, *self._ready(problem, *problem.placed(L, F)))

        def go_on(s: State) -> State:
            return solver.start(problem, s.L, s.F, s.loss)

        def first() -> tuple[State, str]:
            if searches:
                state: State = search.start(problem, rng)
                return state, state.note
            state, note = self._first_state(problem, rng)
            return state if prefit else go_on(state), note

        searches, search = self.init == "auto" and problem.searchable, Search.of(problem)  # else all starts are equal
        fit = partial(Phase, solver=solver, max_iter=self.max_iter, tol=self.tol)
        if searches:
            phases = [Phase("search", search, search.steps, status=None, climbs=False)]
        else:
            phases = [Phase("prefit", PREFIT, prefit, status=None)] if prefit else []
        phases += [fit("fit", begin=(lambda s: start(s.L, s.F)) if searches else go_on)]
        if self.refine and self.n_components > 1:
            phases += refining(solver, start, fit, self.refine, rng)
        phases += correcting(problem, fit)
        # a state that another fit left may have other known topics, or loadings that are not allowed
        plain = problem.known is None and problem.sets is None
        return Plan(problem, phases, first, lambda s: s if s.F.dtype == self.dtype and plain else None)

    def _with_known(self, problem: Problem) -> Problem:
        """With what is known of topics, and its prior."""
        known, given = known_topics(self, problem.X), problem.X.multipliers
        if known is None and given is not None and given.set_names:
            known = named_only(problem.X, list(given.set_names))
        if known is None:
            return problem
        return replace(problem, known=known, prior=known.prior(self.n_components, problem.prior))

    def _first_state(self, problem: Problem, rng: np.random.Generator) -> tuple[State, str]:
        """A state of `PREFIT`, and what it is."""
        if isinstance(self.init, Fit):
            pair: Pair = check_factors(problem.X.shape, self.init.L, self.init.F, problem.n_topics)
            note = "given"
        elif isinstance(self.init, str):
            pair, note = self._named_start(problem, rng)
            pair = problem.placed(*pair)
        else:
            pair, note = self._given_start(problem), "given"
        state = PREFIT.start(problem, *self._ready(problem, *pair))
        self._check_rates(problem, state)
        return state, note

    def _ready(self, problem: Problem, L: Factor, F: Factor) -> Pair:
        """Factors as the solver takes them: of the type asked for, on the problem's scale, positive where a prior wants it."""
        return problem.rescale(*problem.allowed(L.astype(self.dtype), F.astype(self.dtype)))

    def _named_start(self, problem: Problem, rng: np.random.Generator) -> tuple[Pair, str]:
        if problem.known is not None or problem.sets is not None:
            if self.init == "topic-score":
                raise ValueError(
                    'init="topic-score" finds all topics itself; use "auto" or "random" with what is known'
                )
            return starts.beside(problem, rng), "beside what is known"
        if problem.normalised:  # half-steps do not hold the factors to a norm
            problem = replace(problem, prior=None, loadings_prior=None, sparsity=None)
        if self.init == "auto":  # of a single topic, or of a stream, which starts with its first batch
            return search_factors(problem, rng), "search"
        return (
            starts.topic_score_or_random(problem, rng)
            if self.init == "topic-score"
            else (starts.random(problem, rng), "random")
        )

    def _given_start(self, problem: Problem) -> Pair:
        L0, F0 = cast(tuple[ArrayLike, ArrayLike], self.init)
        L, F = check_factors(problem.X.shape, L0, F0, problem.n_topics)
        for name, factor in (("L0", L), ("F0", F)):
            if (dead := np.flatnonzero(factor.sum(axis=0) == 0)).size:
                raise ValueError(
                    f"column {dead[0]} of {name} in init is all zero; a topic needs some weight to start from"
                )
        return L, F

    @staticmethod
    def _check_rates(problem: Problem, state: State) -> None:
        if np.isfinite(state.loss):
            return
        ratios = problem.left.ratios(state.L, state.F)
        row, column = problem.left.place(int(np.flatnonzero(~np.isfinite(ratios))[0]))
        raise ValueError(
            f"init gives the count at row {row}, column {column} a rate of zero, so it is impossible; "
            "set a positive weight for that sample or feature"
        )


@estimator
class PoissonNMF(Knowing, LikelihoodEstimator):
    """Poisson NMF: x_ij ~ Poisson(Σ_k l_ik f_jk), fitted by maximum likelihood (KL-NMF), or MAP with a prior.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    solver : str or solver, default="newton"
        {solvers}, or a solver object such as
        `unmix.solvers.SCD(sweeps=10)`.
    extrapolate : bool, default=True
        Whether to accelerate the solver by extrapolation with restarts.
    init : str, pair of arrays or Fit, default="auto"
        "auto" (a search: several starts, whose topics are combined), "topic-score", "random", a pair of arrays (L0, F0),
        or a `Fit` (a warm start: 10 + 10 iterations equal 20).
    n_init : int, default=1
        Number of initialisations; the fit with the highest objective is kept. `result_.starts` shows how far
        apart they ended, which is how much the data do not identify. Ctrl-C keeps the best so far; an interrupted run is not
        resumed. Has no effect where `init` gives the start.
    prefit : int, default=10
        EM iterations before the solver takes over, unless a search or another fit came before.
    max_iter : int, default=500
        Maximum number of iterations, each of which updates L, then F.
    tol : float, default=1e-6
        The fit ends once what remains to be gained, `result_.remaining_gain`, is at most `tol` per count: with the default, a
        unit of log-likelihood per million counts. 0 runs exactly `max_iter` iterations.
    refine : int, default=0
        Moves to try after convergence, to leave a poor local optimum: each puts the topics together with those of a different
        fit.
    prior : Gamma or Dirichlet, default=None
        `unmix.Gamma(shape, rate)` on F, or `unmix.Dirichlet(concentration)` on topics, which is the same: MAP instead of
        maximum likelihood.
    loadings_prior : Gamma or Dirichlet, default=None
        For `PoissonNMF` a `unmix.Gamma` on L, for `TopicModel` a `unmix.Dirichlet` on the proportions of a sample. The latter
        is fitted by joint EM, the solver "plsa", which takes the place of the default; other solvers refuse it.
    known : array, DataFrame, Fit or path, default=None
        Topics that are known, features × topics: the first ones of the fit, under the names that they have. Features are found by
        name. `n_components` counts them.
    known_weight : float or sequence of floats, default=float("inf")
        How much they are trusted: inf holds them as they are, bit for bit; a number is that many counts of the topic that
        were seen before. One for all, or one per topic. 0 is a fit without them.
    seeds : dict or path, default=None
        Words of topics, {{"economy": ["tax*", "jobs"]}}: features that shall be frequent in the topic of that name. A star stands
        for any letters. Or a .yaml, .csv or .gmt file of such lists. Seeded topics follow the known ones.
    seed_weight : float, default=0.1
        How many counts each count of a seed is worth in the prior of its topic. Topics start at their seeds whatever it is.
    new : int, default=None
        With a whole catalogue as `known`: how many new topics to find, in place of `n_components`. Each sample gets few
        known topics, by `unmix.assign`, before and after new ones are found, since all of a catalogue explains nearly anything.
    batch_prior : float or str, default="auto"
        Strength τ of the prior Gamma(τ, τ) of effects of batches, where `fit` is given some: "auto" learns it, a larger one holds
        effects closer to 1, inf allows for none. What belongs to samples, `batch` and `opportunities`, is given to `fit`.
    online : Online, default=None
        `unmix.Online(...)`: iterations are passes in mini-batches, with steps of Robbins and Monro, instead of those of
        `solver`. `partial_fit` learns from one batch after the other.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    dtype : str, default="float64"
        "float64", or "float32" to store the factors in half the memory (sums and objective stay in double precision).
    random_state : int, Generator or RandomState, default=None
        Seed of the random numbers; use an integer for reproducible results.
    verbose : bool, default=False
        Show a progress bar.
    callbacks : sequence of callables, default=()
        Functions called with a `unmix.solvers.Progress` after every iteration; one that returns a status ends the fit.

    Attributes
    ----------
    components_ : array, K × m
        The factors Fᵀ.
    result_ : Fit
        All that was found.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    TopicModel : The same fit, read as topics and proportions.
    BayesianPoissonNMF : With the posterior of both factors.
    SparsePoissonNMF : With a penalty that empties loadings.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> model = um.PoissonNMF(2, random_state=0).fit(X)
    >>> model.components_.shape, model.transform(X).shape
    ((2, 3), (4, 2))
    >>> um.PoissonNMF(2, solver=um.solvers.SCD(sweeps=10), refine=2, random_state=0).fit(X).result_.status
    'converged'
    """

    solver: SolverLike = "newton"
    extrapolate: bool = True
    n_init: int = 1
    prefit: int = 10
    tol: float = 1e-6
    refine: int = 0
    prior: Gamma | Dirichlet | None = None
    loadings_prior: Gamma | Dirichlet | None = None
    batch_prior: float | Literal["auto"] = "auto"
    online: Online | None = None
    dtype: Literal["float64", "float32"] = "float64"
    new: int | None = None
    takes: ClassVar[frozenset[str]] = frozenset(OF_SAMPLES)

    def _fit(self, X: CountsLike | Shards, resume_from: Fit | None, of_samples: Record) -> Self:
        if self.new is None:
            return super()._fit(X, resume_from, of_samples)
        whole("new", self.new, 1)
        if self.known is None or resume_from is not None or of_samples.get("allowed") is not None:
            what = "needs known=, a catalogue" if self.known is None else "finds allowed topics, and is not resumed"
            raise ValueError(f"{parameter('new', self.new)} {what}; use n_components instead")
        counts = as_data(X)
        best, result = beside_catalogue(self, counts, of_samples)
        self._checked_counts(counts, reset=True)
        self._end(replace(result, params=self._about() | {"n_components": best.n_components}))
        return self

    def _problem(self, X: Data) -> Problem:
        prior = self.prior.on_topics() if isinstance(self.prior, Dirichlet) else self.prior
        return Problem(X, self.n_components, prior, self.loadings_prior, batch_prior=strength_of(self.batch_prior))

    def _prefit(self) -> int:
        return 0 if isinstance(self.loadings_prior, Dirichlet) else self.prefit

    @where_online
    def partial_fit(self, X: CountsLike | Shards, y: None = None) -> Self:
        """Learn from one more batch of samples (online EM).

        Only the factors are kept from batch to batch, so memory does not depend on the number of samples. `result_` then
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
            If features are others than those of the first batch, or there is a prior on loadings.

        See Also
        --------
        Online : Batch sizes and steps.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.datasets.correlated_topics("A").csr
        >>> model = um.TopicModel(3, random_state=0)
        >>> for start in (0, 50):
        ...     _ = model.partial_fit(X[start : start + 50])
        >>> model.n_iter_, model.result_.L.shape
        (2, (50, 3))
        """
        self._check_parameters()
        if self.known is not None or self.seeds is not None:
            raise ValueError("partial_fit does not support known or seeds; use fit, which takes shards of any size")
        solver = OnlineEM(self.online or Online(), 0, start_weight(self.init))
        for part in parts_of(X):
            problem = self._problem(self._checked_counts(part, reset=not hasattr(self, "stream_")))

            def first(problem: Problem = problem) -> OnlineState:
                state, _ = self._first_state(problem, generator(self.random_state))
                state, _ = run(problem, PREFIT, state, max_iter=self._prefit(), tol=0, catch_interrupt=False)
                return solver.start(problem, state.L, spread(state.F))

            with use_threads(self.n_jobs):
                self._absorb(problem, solver, first)
        return self

    def _check_parameters(self) -> None:
        self._check_common(prefit=0, refine=0)
        choice("dtype", self.dtype, ("float64", "float32"))
        if not isinstance(self.prior, Gamma | Dirichlet | None):
            remedy = "use None, unmix.Gamma(shape, rate) or unmix.Dirichlet(concentration)"
            raise ParameterError("prior", self.prior, remedy)
        strength_of(self.batch_prior)
        self._check_loadings_prior()
        self._solver()

    def _check_loadings_prior(self) -> None:
        if not isinstance(self.loadings_prior, Gamma | None):
            raise ValueError(
                f"loadings_prior={self.loadings_prior!r}; use None or unmix.Gamma(shape, rate) "
                "(a Dirichlet is for the proportions of TopicModel)"
            )

    def _topics_keep_their_place(self) -> bool:
        on_topics = self.prior if isinstance(self.prior, Gamma) else None  # a Dirichlet is the same for all
        return any(prior is not None and prior.by_topic for prior in (on_topics, self.loadings_prior))

    def _check_online(self) -> None:
        if self.loadings_prior is not None:
            raise ValueError("online learning takes no prior on loadings; use loadings_prior=None, or LDA")

    def _solver(self) -> AnySolver:
        return make_solver(self.solver, self.extrapolate)


PoissonNMF.__doc__ = named(PoissonNMF.__doc__)


# TopicModel: the Poisson NMF that a multinomial topic model is equivalent to, read as one.


class TopicModel(PoissonNMF):
    """The multinomial topic model (PLSA): x_i ~ Multinomial(t_i, Σ_k l*_ik f*_k), fitted through the equivalent Poisson NMF.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    solver : str or solver, default="newton"
        {solvers}, or a solver object such as
        `unmix.solvers.SCD(sweeps=10)`.
    extrapolate : bool, default=True
        Whether to accelerate the solver by extrapolation with restarts.
    init : str, pair of arrays or Fit, default="auto"
        "auto" (a search: several starts, whose topics are combined), "topic-score", "random", a pair of arrays (L0, F0),
        or a `Fit` (a warm start: 10 + 10 iterations equal 20).
    n_init : int, default=1
        Number of initialisations; the fit with the highest objective is kept. `result_.starts` shows how far
        apart they ended, which is how much the data do not identify. Ctrl-C keeps the best so far; an interrupted run is not
        resumed. Has no effect where `init` gives the start.
    prefit : int, default=10
        EM iterations before the solver takes over, unless a search or another fit came before.
    max_iter : int, default=500
        Maximum number of iterations, each of which updates L, then F.
    tol : float, default=1e-6
        The fit ends once what remains to be gained, `result_.remaining_gain`, is at most `tol` per count: with the default, a
        unit of log-likelihood per million counts. 0 runs exactly `max_iter` iterations.
    refine : int, default=0
        Moves to try after convergence, to leave a poor local optimum: each puts the topics together with those of a different
        fit.
    prior : Gamma or Dirichlet, default=None
        `unmix.Gamma(shape, rate)` on F, or `unmix.Dirichlet(concentration)` on topics, which is the same: MAP instead of
        maximum likelihood.
    loadings_prior : Gamma or Dirichlet, default=None
        For `PoissonNMF` a `unmix.Gamma` on L, for `TopicModel` a `unmix.Dirichlet` on the proportions of a sample. The latter
        is fitted by joint EM, the solver "plsa", which takes the place of the default; other solvers refuse it.
    known : array, DataFrame, Fit or path, default=None
        Topics that are known, features × topics: the first ones of the fit, under the names that they have. Features are found by
        name. `n_components` counts them.
    known_weight : float or sequence of floats, default=float("inf")
        How much they are trusted: inf holds them as they are, bit for bit; a number is that many counts of the topic that
        were seen before. One for all, or one per topic. 0 is a fit without them.
    seeds : dict or path, default=None
        Words of topics, {{"economy": ["tax*", "jobs"]}}: features that shall be frequent in the topic of that name. A star stands
        for any letters. Or a .yaml, .csv or .gmt file of such lists. Seeded topics follow the known ones.
    seed_weight : float, default=0.1
        How many counts each count of a seed is worth in the prior of its topic. Topics start at their seeds whatever it is.
    new : int, default=None
        With a whole catalogue as `known`: how many new topics to find, in place of `n_components`. Each sample gets few
        known topics, by `unmix.assign`, before and after new ones are found, since all of a catalogue explains nearly anything.
    batch_prior : float or str, default="auto"
        Strength τ of the prior Gamma(τ, τ) of effects of batches, where `fit` is given some: "auto" learns it, a larger one holds
        effects closer to 1, inf allows for none. What belongs to samples, `batch` and `opportunities`, is given to `fit`.
    online : Online, default=None
        `unmix.Online(...)`: iterations are passes in mini-batches, with steps of Robbins and Monro, instead of those of
        `solver`. `partial_fit` learns from one batch after the other.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    dtype : str, default="float64"
        "float64", or "float32" to store the factors in half the memory (sums and objective stay in double precision).
    random_state : int, Generator or RandomState, default=None
        Seed of the random numbers; use an integer for reproducible results.
    verbose : bool, default=False
        Show a progress bar.
    callbacks : sequence of callables, default=()
        Functions called with a `unmix.solvers.Progress` after every iteration; one that returns a status ends the fit.

    Attributes
    ----------
    components_ : array, K × m
        The topics; rows sum to one.
    result_ : Fit
        All that was found, with `proportions`, `topics` and `sizes`.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    LDA : With a prior of proportions, and their posterior.
    choose_topics : How many topics.
    fit_path : Many numbers of topics.

    Examples
    --------
    >>> import unmix as um
    >>> model = um.TopicModel(3, random_state=0).fit(um.datasets.correlated_topics("A"))
    >>> model.components_.sum(axis=1).round(12)
    array([1., 1., 1.])
    >>> model.result_.proportions.shape
    (100, 3)
    """

    def transform(
        self,
        X: CountsLike | Shards,
        out: str | os.PathLike[str] | None = None,
        *,
        missing: Missing | None = None,
        batch: Any = None,
        opportunities: Any = None,
    ) -> Floats:
        """Proportions of samples, given the fitted topics.

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
            Where the fit has effects of batches, the batch of each sample: a column of the metadata, or labels. Effects of
            batches that the fit does not know are one.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            Known multipliers of rates, as in `fit`.

        Returns
        -------
        array, n × K
            Rows sum to one.

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
        >>> um.TopicModel.from_factors([[1, 0], [0, 1], [0, 1]]).transform([[6, 1, 1], [0, 4, 4]]).round(2)
        array([[0.75, 0.25],
               [0.  , 1.  ]])
        """
        return super().transform(X, out, missing=missing, batch=batch, opportunities=opportunities)

    def _transformed(self, part: CountsLike) -> Floats:
        L, known = self._loadings(part)
        return proportions_and_sizes(L, known.scales)[0]

    def inverse_transform(self, X: CountsLike) -> Floats:
        """The distributions over features of samples with these proportions.

        Parameters
        ----------
        X : array-like, n × K
            Proportions, as `transform` gives them.

        Returns
        -------
        array, n × m
            Rows sum to one. Dense: mind its size.

        Raises
        ------
        NotFittedError
            If it is not fitted yet.

        Examples
        --------
        >>> import unmix as um
        >>> um.TopicModel.from_factors([[8, 0], [2, 5], [0, 5]]).inverse_transform([[0.5, 0.5]]).round(2)
        array([[0.4 , 0.35, 0.25]])
        """
        return super().inverse_transform(X)

    def _check_loadings_prior(self) -> None:
        if not isinstance(self.loadings_prior, Dirichlet | None):
            raise ValueError(
                f"loadings_prior={self.loadings_prior!r}; use None or unmix.Dirichlet(concentration) on proportions "
                "(a Gamma is for the loadings of PoissonNMF)"
            )

    def _solver(self) -> AnySolver:
        by_default = self.loadings_prior is not None and self.solver == "newton"
        return make_solver(PLSA(), self.extrapolate) if by_default else super()._solver()

    @property
    def components_(self) -> Floats:
        """array, K × m: the topics; rows sum to one."""
        check_is_fitted(self, "result_")
        return np.ascontiguousarray(self.result_.topics.T)


TopicModel.__doc__ = named(TopicModel.__doc__)


# SparsePoissonNMF: maximum likelihood with an l1 penalty on loadings.


@estimator
class SparsePoissonNMF(LikelihoodEstimator):
    """Poisson NMF with an l1 penalty on loadings: minimise KL(X ‖ L Fᵀ) + penalty · Σ l_ik, columns of F held to norm one.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    penalty : float, default=1.0
        Its weight; 0 is maximum likelihood.
    norm : str, default="l2"
        "l2": columns of F have Euclidean norm one. Loadings become sparser as the penalty grows.
        "l1": columns of F sum to one. Then the penalty only divides the loadings by 1 + penalty: no topic leaves any sample
        (Geiger and Park, lemma 6.1). It is here to show that, and reports this when it is used.
    extrapolate : bool, default=True
        Whether to accelerate the solver by extrapolation with restarts.
    init : str, pair of arrays or Fit, default="auto"
        "auto" (a search: several starts, whose topics are combined), "topic-score", "random", a pair of arrays (L0, F0),
        or a `Fit` (a warm start: 10 + 10 iterations equal 20).
    max_iter : int, default=500
        Maximum number of iterations, each of which updates L, then F.
    tol : float, default=1e-5
        The fit ends once what remains to be gained, `result_.remaining_gain`, is at most `tol` per count. 0 runs exactly
        `max_iter` iterations.
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
        The factors Fᵀ, rows of norm one.
    result_ : Fit
        All that was found. Loadings are on the scale of the penalty; `result_.exposures` are in counts.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    PoissonNMF : Without the penalty.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> models = [um.SparsePoissonNMF(3, penalty=w, tol=1e-3, random_state=0).fit(X) for w in (0, 5)]
    >>> none, sparse = ((model.transform(X) == 0).mean() for model in models)
    >>> bool(sparse > none)
    True
    """

    penalty: float = 1.0
    norm: Literal["l1", "l2"] = "l2"
    extrapolate: bool = True

    def fit(
        self, X: CountsLike | Shards, y: None = None, *, batch: Any = None, opportunities: Any = None, **weights: Any
    ) -> Self:
        """Fit the model to counts.

        Parameters
        ----------
        X : Counts or array-like
            Anything that `Counts` takes.
        y : None, default=None
            Ignored; scikit-learn's pipelines pass it.
        batch : None, default=None
            Refused: this model has no multipliers of rates.
        opportunities : None, default=None
            Refused as well.
        **weights : dict
            Refused as well.

        Returns
        -------
        Self
            The estimator itself; what was found is `result_`. Ctrl-C keeps the best so far, with a warning.

        Raises
        ------
        ValueError
            If the data are not finite numbers >= 0, most are not counts, or a parameter is invalid.

        Examples
        --------
        >>> import unmix as um
        >>> um.SparsePoissonNMF(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_.status
        'converged'
        """
        super().fit(X, y, batch=batch, opportunities=opportunities, **weights)
        if self.norm == "l1" and self.penalty > 0:
            warn(
                f'with norm="l1" the penalty only divides the loadings by {1 + self.penalty:g}; '
                'use norm="l2" for sparse loadings'
            )
        return self

    def _problem(self, X: Data) -> Problem:
        return Problem(X, self.n_components, sparsity=Sparsity(float(self.penalty), self.norm))

    def _normalised(self, F: Floats) -> Floats:
        return F / Sparsity(float(self.penalty), self.norm).norms(F)

    def _check_parameters(self) -> None:
        self._check_common()
        real("penalty", self.penalty, 0)
        choice("norm", self.norm, ("l1", "l2"))

    def _solver(self) -> AnySolver:
        return make_solver(SparseL1() if self.norm == "l1" else SparseL2(), self.extrapolate)


# Fits of many numbers of topics for little more than one: the largest is fitted, the others are merged from it, one by one.


def fit_path(
    X: CountsLike, topics: Iterable[int] = range(1, 11), estimator: CountsEstimator | None = None, **parameters: Any
) -> dict[int, Fit]:
    """One `Fit` for every number of topics, by that number.

    The fit with most topics is made as usual. Each of the others starts from the next larger one, in which the topics are
    merged that the data miss least as two; so fits are nested, more or less, and topics keep their places until they are
    merged. Ctrl-C ends it with the fits that are finished.

    Parameters
    ----------
    X : Counts or array-like
        Counts: anything that `Counts` takes.
    topics : iterable of int, default=range(1, 11)
        Numbers of topics, in any order.
    estimator : estimator, default=None
        None is `TopicModel()`. Models that are not fitted by maximum likelihood start from the path of one that is.
    **parameters : dict
        Of the estimator, such as `random_state=0`.

    Returns
    -------
    dict of int to Fit
        The smallest number first.

    Raises
    ------
    ValueError
        If a number of topics is not one.

    See Also
    --------
    align : How topics split as their number grows.
    choose_topics : Which number predicts held-out counts best.

    Examples
    --------
    >>> import unmix as um
    >>> fits = um.fit_path(um.datasets.correlated_topics("A"), range(1, 6), random_state=0)
    >>> [fit.n_topics for fit in fits.values()]
    [1, 2, 3, 4, 5]
    >>> all(fits[K].loglik < fits[K + 1].loglik for K in range(1, 5))
    True
    """
    model = clone(TopicModel() if estimator is None else estimator).set_params(**parameters)
    counts = as_counts(X)
    numbers = numbers_of_topics(topics)
    fits: dict[int, Fit] = {}
    try:
        for K, fit in fits_downwards(counts, numbers, model):
            fits[K] = fit
    except KeyboardInterrupt:
        if not fits:
            raise
        warn(f"interrupted: {len(fits)} of {len(numbers)} fits are finished, and given back")
    return dict(sorted(fits.items()))


def fits_downwards(
    X: Counts,
    numbers: Iterable[int],
    model: CountsEstimator,
    finished: Callable[[CountsEstimator], Fit | None] = lambda one: None,
) -> Iterator[tuple[int, Fit]]:
    """The fits of a path, each when it is made, the largest first. Ctrl-C ends all of it, and not one of the fits. `finished`
    returns the fit of an estimator if an earlier run has made it."""

    def made(one: CountsEstimator) -> Fit:
        if (earlier := finished(one)) is not None:
            return earlier
        fit = one.fit(X).result_
        if fit.status == "interrupted" and not one.callbacks:  # which may end a fit, and not the path
            raise KeyboardInterrupt
        return fit

    likely = isinstance(model, PoissonNMF) and "prefit" in model.get_params()
    refuse_new(model, "fit_path")
    told = {name: getattr(model, name) for name in Knowing.__annotations__ if hasattr(model, name)}
    plain = model if likely else PoissonNMF(n_jobs=model.n_jobs, random_state=model.random_state, **told)
    numbers = sorted(numbers, reverse=True)
    if numbers:  # so that one too small for known topics is refused before the first fit
        known_topics(clone(plain).set_params(n_components=numbers[-1]), X)
    above: Fit | None = None
    for K in numbers:
        one = clone(plain).set_params(n_components=K)
        if above is not None:
            with use_threads(model.n_jobs):
                merged = merge_down(one._with_known(Problem(X, K)), above.L, above.F)
            one.set_params(init=(merged.L, merged.F), prefit=0)
        above = made(one)
        yield K, above if likely else made(clone(model).set_params(n_components=K, init=above))


def numbers_of_topics(topics: Iterable[int]) -> list[int]:
    """Each once, in order."""
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise ParameterError("topics", topics, "use several numbers of topics, such as range(1, 21)")
    numbers = list(topics)
    for K in numbers:
        if not isinstance(K, Integral) or isinstance(K, bool) or K < 1:
            raise ParameterError("topics", K, "use whole numbers >= 1")
    return sorted({int(K) for K in numbers})
