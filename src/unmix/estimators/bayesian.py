"""Bayesian members of the family: LDA, GammaPoisson, BayesianPoissonNMF, all by variational inference."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from unmix.counts import Counts
from unmix.estimators.base import generator, thread_count
from unmix.estimators.likelihood import PoissonNMF
from unmix.estimators.posterior import PosteriorEstimator
from unmix.fit import Fit
from unmix.models.bayes import gamma_gamma
from unmix.models.beliefs import Belief, Gammas
from unmix.models.gamma_poisson import gamma_poisson
from unmix.models.lda import lda
from unmix.models.maps import poisson_to_gamma_gamma, poisson_to_lda
from unmix.models.poisson import check_factors
from unmix.models.priors import positive, positive_number
from unmix.models.variational import Variational, restore
from unmix.solvers import Problem, ProgressBar
from unmix.solvers import init as starts
from unmix.solvers.online import Online, StochasticVI, spread, start_weight
from unmix.solvers.run import Callback, Trace, left_by, make_fit, run
from unmix.solvers.vi import CAVI, Beliefs, Inference

Floats = NDArray[np.float64]

ENOUGH = 1e-4  # a row's inner iterations end once they change it by less than this part of its sum


class VariationalEstimator(PosteriorEstimator):
    """Fit by coordinate ascent on the evidence lower bound, or by mini-batches; see `LDA` for the parameters."""

    inner: int

    # What a member of the family says of itself

    @abstractmethod
    def _model(self, X: Counts) -> Variational:
        """The priors, checked, for data of this shape."""

    @abstractmethod
    def _beliefs(self, task: Inference, L: Floats, F: Floats) -> tuple[Belief, Belief]:
        """q(L) and q(F) from maximum-likelihood factors."""

    def _topics_keep_their_place(self) -> bool:
        """Whether hyper-parameters differ by topic."""
        return False

    def _check_online(self) -> None:
        """Raises if the model cannot be learned from mini-batches."""

    # What they share

    def _fit(self, X: Any, left_off: Fit | None) -> Self:
        self._check_common(inner=0)
        counts = self._checked_counts(X, reset=True)
        task = Inference(counts, self._model(counts), thread_count(self.n_jobs))
        trace = Trace(task, params=self._about())
        rng = generator(self.random_state)
        solver = self._solver(rng)
        with ExitStack() as stack:
            callbacks = list(self.callbacks)
            if self.verbose:
                callbacks.append(stack.enter_context(ProgressBar(self.max_iter, self.tol)))
            if left_off is None:
                state, note = self._start(task, solver, rng, trace)
                trace.add(state, "start", note)
            else:
                trace.go_on_from(left_off)
                state = _left_off(task, solver, left_off)
            state, status = run(task, solver, state, trace, max_iter=self.max_iter, tol=self.tol, callbacks=callbacks)
        self._keep(make_fit(task, solver, state, trace, status), trace)
        return self

    @available_if(lambda self: self._check_online() is None)
    def partial_fit(self, X: Any, y: None = None) -> Self:
        """Learn from one more batch of samples (online variational inference).

        Only the topics are kept from batch to batch, so memory does not depend on the number of samples. `result_` then
        describes the samples of the last batch.
        """
        self._check_common(inner=0)
        counts = self._checked_counts(X, reset=not hasattr(self, "stream_"))
        threads = thread_count(self.n_jobs)
        # priors that were chosen by the data stay those of the first batch
        model = restore(self.result_.posterior, threads)[0] if hasattr(self, "stream_") else self._model(counts)
        task = Inference(counts, model, threads)
        solver = StochasticVI(self.online or Online(), 0, max(self.inner, 1), ENOUGH, start_weight(self.init))

        def first() -> Any:
            problem = Problem(counts, self.n_components, None, task.threads)
            (L, F), _ = self._first_factors(problem, generator(self.random_state))
            return solver.start(task, *self._beliefs(task, L, spread(F)))

        self._absorb(task, solver, first)
        return self

    @property
    def elbo_(self) -> float:
        """The evidence lower bound at the end of the fit, all constants included."""
        check_is_fitted(self)
        return float(self.result_.trace["objective"].iloc[-1])

    def _solver(self, rng: np.random.Generator) -> Any:
        if self.online is None:
            return CAVI(inner=self.inner, enough=ENOUGH)
        self._check_online()
        return StochasticVI(self.online, int(rng.integers(2**31)), max(self.inner, 1), ENOUGH, start_weight(self.init))

    def _start(self, task: Inference, solver: Any, rng: np.random.Generator, trace: Trace) -> tuple[Any, str]:
        if isinstance(self.init, Fit) and (resumed := _resumed(task, solver, self.init)) is not None:
            trace.heaviest_first = bool((self.init.state or {}).get("heaviest_first"))
            return resumed, "resumed"
        problem = Problem(task.X, self.n_components, None, task.threads)
        (L, F), note = self._first_factors(problem, rng)
        trace.heaviest_first = isinstance(self.init, str) and not self._topics_keep_their_place()
        return solver.start(task, *self._beliefs(task, L, F)), note

    def _first_factors(self, problem: Problem, rng: np.random.Generator) -> tuple[tuple[Floats, Floats], str]:
        if self.init == "random":
            return starts.almost_even(problem, rng), "random"
        if self.init == "topic-score":
            return starts.topic_score_or_random(problem, rng)
        if isinstance(self.init, str):
            quick = PoissonNMF(self.n_components, init="topic-score", n_jobs=self.n_jobs, random_state=rng)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # it need not converge
                warnings.filterwarnings("ignore", "Topic-SCORE")  # a random start will do
                fit = quick.set_params(prefit=4, max_iter=10, tol=1e-6).fit(problem.X).result_
            if fit.status == "interrupted":
                raise KeyboardInterrupt
            return (fit.L, fit.F), "maximum likelihood"
        L, F = (self.init.L, self.init.F) if isinstance(self.init, Fit) else self.init
        return check_factors(problem.X.shape, L, F, problem.n_topics), "given"


def _resumed(task: Inference, solver: Any, fit: Fit) -> Beliefs | None:
    """The state in which the same solver left this fit of the same data, if it did."""
    state = left_by(solver, fit)
    if state is None:
        return None
    (n, m), K = task.X.shape, len(task.model.left.shape)
    L, F = state.get("L"), state.get("F")
    if L is None or F is None or L.shape != (n, K) or F.shape != (m, K):
        return None
    try:
        resumed = solver.restore(task, state)
    except (KeyError, ValueError):
        return None  # a damaged state
    same = abs(resumed.loss - float(state.get("loss", np.nan))) <= 1e-9 * abs(resumed.loss)
    learned = getattr(solver, "learn_alpha", False)
    return resumed if same and _same_priors(task.model, resumed.model, but_left=learned) else None


def _left_off(task: Inference, solver: Any, fit: Fit) -> Beliefs:
    """The state in which a fit was left off, which must be this solver's and fit the data."""
    state = _resumed(task, solver, fit)
    if state is None:
        raise ValueError(f"the fit to go on with was not left off by {solver!r}, or its state is damaged; start anew")
    return state


def _same_priors(one: Variational, two: Variational, but_left: bool) -> bool:
    """Of the same kind with the same parameters; `but_left` leaves out those of L, which were learned."""
    pairs = [(one.right, two.right)] if but_left else [(one.left, two.left), (one.right, two.right)]
    return type(one.left) is type(two.left) and all(
        type(a) is type(b) and all(np.array_equal(value, vars(b)[name]) for name, value in vars(a).items())
        for a, b in pairs
    )


class LDA(VariationalEstimator):
    """Latent Dirichlet allocation: l*_i ~ Dirichlet(alpha), x_i ~ Multinomial(t_i, Σ_k l*_ik f*_k), by variational inference.

    Parameters
    ----------
    n_components
        Number of topics K.
    alpha
        Dirichlet parameter of the proportions: a number, one a topic, or "auto" to learn one a topic.
    eta
        None: topics are estimated by maximum likelihood. A number, or one a feature: topics ~ Dirichlet(eta).
    init
        "auto": from a short maximum-likelihood fit, which ends at better optima than a random start (Carbonetto et al.,
        section 4). Or "random" (almost equal topics), "topic-score", a pair (L0, F0), or a `Fit` of
        any model here, the best choice of all if it was fitted long: it starts from its factors.
    inner
        Most updates of a sample's proportions before the topics move; a sample that stands still ends sooner.
        0: proportions and topics move together.
    max_iter, tol
        At most `max_iter` iterations; fewer if the bound per count rises by less than `tol` (three times running).
    online
        None, or `unmix.Online(...)`: iterations are passes in mini-batches, with steps of Robbins and Monro.
    n_jobs, random_state, verbose, callbacks
        As in `PoissonNMF`.

    Attributes
    ----------
    components_ : K × m array, the (mean) topics; rows sum to one
    gamma_ : n × K array, the Dirichlet parameters of the proportions
    alpha_ : the prior, learned or given
    elbo_ : lower bound of log p(X | sample totals), all constants included
    result_ : the `Fit`

    >>> import unmix as um
    >>> model = um.LDA(5, alpha=0.5, eta=0.1, random_state=0).fit(um.datasets.digits())
    >>> model.components_.shape, model.gamma_.shape
    ((5, 64), (1797, 5))
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        alpha: ArrayLike | Literal["auto"] = 1.0,
        eta: ArrayLike | None = None,
        init: str | tuple[Any, Any] | Fit = "auto",
        inner: int = 20,
        max_iter: int = 500,
        tol: float = 1e-6,
        online: Online | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.eta = eta
        self.init = init
        self.inner = inner
        self.max_iter = max_iter
        self.tol = tol
        self.online = online
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def gamma_(self) -> Floats:
        check_is_fitted(self)
        return self.result_.posterior["L"]

    @property
    def alpha_(self) -> Floats:
        check_is_fitted(self)
        return self.result_.posterior["L_prior"]

    def _learns_alpha(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "auto"

    def _model(self, X: Counts) -> Variational:
        alpha = 1.0 if self._learns_alpha() else self.alpha
        eta = None if self.eta is None else positive("eta", self.eta, X.shape[1], "feature")
        return lda(positive("alpha", alpha, self.n_components, "topic"), eta)

    def _beliefs(self, task: Inference, L: Floats, F: Floats) -> tuple[Belief, Belief]:
        eta = getattr(task.model.right, "shape", None)
        gamma, topics = poisson_to_lda(L, F, task.X.sample_totals, task.model.left.shape, eta)
        return task.model.left.at(gamma, threads=task.threads), task.model.right.at(topics, threads=task.threads)

    def _topics_keep_their_place(self) -> bool:
        return np.ndim(self.alpha) > 0

    def _solver(self, rng: np.random.Generator) -> Any:
        if self.online is None and self._learns_alpha():
            return CAVI(inner=self.inner, enough=ENOUGH, learn_alpha=True)
        return super()._solver(rng)

    def _check_online(self) -> None:
        if self._learns_alpha():
            raise ValueError('alpha="auto" is learned from all samples; give a number for online learning')


class GammaPoisson(VariationalEstimator):
    """Gamma–Poisson: l_ik ~ Gamma(shape, rate), x_ij ~ Poisson(Σ_k l_ik f*_jk), columns of F* sum to one.

    LDA that also models how many counts a sample has: with one rate for all topics the two have the same iterates.

    Parameters
    ----------
    shape, rate
        Of the Gamma prior of loadings: a number, or one a topic. `rate=None` makes the prior expect samples of the mean size.
    eta
        None: topics are estimated by maximum likelihood. A number, or one a feature: topics ~ Dirichlet(eta).
    n_components, init, inner, max_iter, tol, online, n_jobs, random_state, verbose, callbacks
        As in `LDA`.

    Attributes
    ----------
    components_ : K × m array, the (mean) topics; rows sum to one
    shape_, rate_ : n × K and K arrays, the Gamma posterior of the loadings
    elbo_ : lower bound of log p(X), all constants included
    result_ : the `Fit`
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        shape: ArrayLike = 1.0,
        rate: ArrayLike | None = None,
        eta: ArrayLike | None = None,
        init: str | tuple[Any, Any] | Fit = "auto",
        inner: int = 20,
        max_iter: int = 500,
        tol: float = 1e-6,
        online: Online | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.n_components = n_components
        self.shape = shape
        self.rate = rate
        self.eta = eta
        self.init = init
        self.inner = inner
        self.max_iter = max_iter
        self.tol = tol
        self.online = online
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def shape_(self) -> Floats:
        check_is_fitted(self)
        return self.result_.posterior["L"]

    @property
    def rate_(self) -> Floats:
        check_is_fitted(self)
        return self.result_.posterior["L_rate"]

    def _model(self, X: Counts) -> Variational:
        shape = positive("shape", self.shape, self.n_components, "topic")
        rate = shape.sum() * X.shape[0] / X.total if self.rate is None else self.rate
        eta = None if self.eta is None else positive("eta", self.eta, X.shape[1], "feature")
        return gamma_poisson(shape, positive("rate", rate, self.n_components, "topic"), eta)

    def _beliefs(self, task: Inference, L: Floats, F: Floats) -> tuple[Belief, Belief]:
        prior = task.model.left
        assert isinstance(prior, Gammas)
        eta = getattr(task.model.right, "shape", None)
        shape, topics = poisson_to_lda(L, F, task.X.sample_totals, prior.shape, eta)
        right = task.model.right.at(topics, threads=task.threads)
        return prior.at(shape, prior.rate + right.sums, task.threads), right

    def _topics_keep_their_place(self) -> bool:
        return np.ndim(self.shape) > 0 or (self.rate is not None and np.ndim(self.rate) > 0)


class BayesianPoissonNMF(VariationalEstimator):
    """Bayesian Poisson factorisation: l_ik ~ Gamma(a, b), f_jk ~ Gamma(c, d) (shapes and rates), x_ij ~ Poisson(Σ_k l_ik f_jk).

    Parameters
    ----------
    a, b, c, d
        Shapes and rates of the priors. `None` for b or d: such that the prior expects as many counts as there are.
    n_components, init, inner, max_iter, tol, online, n_jobs, random_state, verbose, callbacks
        As in `LDA`.

    Attributes
    ----------
    components_ : K × m array, posterior means of the factors
    elbo_ : lower bound of log p(X), all constants included
    result_ : the `Fit`; its `posterior` has shapes `L`, `F` and rates `L_rate`, `F_rate`
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        a: float = 0.3,
        b: float | None = None,
        c: float = 0.3,
        d: float | None = None,
        init: str | tuple[Any, Any] | Fit = "auto",
        inner: int = 0,
        max_iter: int = 500,
        tol: float = 1e-6,
        online: Online | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.n_components = n_components
        self.a = a
        self.b = b
        self.c = c
        self.d = d
        self.init = init
        self.inner = inner
        self.max_iter = max_iter
        self.tol = tol
        self.online = online
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _model(self, X: Counts) -> Variational:
        a, c = (positive_number(name, getattr(self, name)) for name in "ac")
        (n, m), K = X.shape, self.n_components
        product = K * a * c * n * m / X.total  # b d for which the prior expects this total
        b, d = (None if (value := getattr(self, name)) is None else positive_number(name, value) for name in "bd")
        if b is None:
            b = np.sqrt(product) if d is None else product / d
        return gamma_gamma(K, a, b, c, product / b if d is None else d)

    def _beliefs(self, task: Inference, L: Floats, F: Floats) -> tuple[Belief, Belief]:
        left, right = task.model.left, task.model.right
        assert isinstance(left, Gammas)
        assert isinstance(right, Gammas)
        a, b, c, d = (float(values[0]) for values in (left.shape, left.rate, right.shape, right.rate))
        L_shape, L_rate, F_shape, F_rate = poisson_to_gamma_gamma(task.X, L, F, a, b, c, d, task.threads)
        return left.at(L_shape, L_rate, task.threads), right.at(F_shape, F_rate, task.threads)
