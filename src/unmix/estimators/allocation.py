"""The allocation model as an estimator. Parameters in, Fit out; the mathematics is in models/allocation.py and the solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from numbers import Integral
from typing import Any, Literal, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from unmix import memory
from unmix.counts import Counts
from unmix.estimators.base import generator, thread_count
from unmix.estimators.posterior import PosteriorEstimator
from unmix.fit import Fit
from unmix.kernels.sampling import Labels, seeds
from unmix.models.allocation import Allocation, matched_quantile
from unmix.models.poisson import check_factors
from unmix.models.topics import poisson_to_topics
from unmix.solvers import EM, Alternate, Extrapolate, Newton, Problem, ProgressBar
from unmix.solvers import init as starts
from unmix.solvers.bld import AllocationTask, FactoredBLD, FreeBLD, row_of_nonzeros, shares
from unmix.solvers.diagnostics import Diagnostics
from unmix.solvers.gibbs import Gibbs, GibbsTask, diagnostics, samples_table
from unmix.solvers.icm import ICM, LabelTask, until_still
from unmix.solvers.labels import check_labels, labels_by_shares, random_labels, rounded
from unmix.solvers.run import Callback, Trace, left_by, make_fit, run
from unmix.solvers.smc import Evidence, exact_evidence, smc_evidence

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

METHODS = ("bld", "gibbs", "icm")
PRIOR_SHARE = 0.1  # of the prior's mean in a start from given or fitted factors, so that no topic starts at zero


class AllocationModel(PosteriorEstimator):
    """The allocation model: sizes s_i ~ Gamma(a, b), topics f*_k ~ Dirichlet(alpha), proportions l*_i ~ Dirichlet(beta), and
    every single count has a topic of its own, S_ijk ~ Poisson(s_i l*_ik f*_jk), x_ij = Σ_k S_ijk.

    Sizes, topics and proportions are integrated out; what is fitted, or sampled, is S.

    Parameters
    ----------
    n_components
        Number of topics K.
    a, b
        Shape and rate of the sizes. `b=None`: such that the prior expects samples of the size they have.
    alpha
        Prior of topics: a number, or one a feature. Below 1 it favours topics of few features.
    beta
        Prior of proportions: a number, or one a topic; then topics keep their place. (LDA calls this alpha.)
    method
        "bld": the S of the highest probability, as real numbers, by multiplicative ascent; needs beta >= 1.
        "icm": the same in whole numbers, by moves of single counts. "gibbs": samples of S.
    free
        For "bld": whether S is stored (nonzeros × K numbers), or kept as a product of two factors.
    sweeps, burn_in, thin, chains
        For "gibbs": after `burn_in` sweeps, `sweeps` more of which every `thin`-th is averaged, in `chains` chains.
    init
        "auto": for "bld" and "icm" a maximum-likelihood fit, for "gibbs" random labels; "random", "topic-score",
        a pair (L0, F0), or a `Fit` (one of the same method goes on where it stopped).
    max_iter, tol
        For "bld" and "icm": at most `max_iter` iterations; "bld" stops once log p(S) per count rises by less than `tol` (three
        times running), "icm" once no count moves.
    n_jobs
        Threads; None or −1 for all available cores. The result does not depend on it.
    random_state
        Seed, Generator or RandomState.
    verbose
        Show a progress bar.
    callbacks
        Functions called with a `unmix.solvers.Progress` after every iteration; one that returns a status ends the fit.

    Attributes
    ----------
    components_ : K × m array, posterior mean topics; rows sum to one
    result_ : the `Fit`: F are the posterior mean topics, L the mean proportions times the mean sizes; `posterior` has the
        Dirichlet parameters of topics, "F" (m × K), and of proportions, "L" (n × K). For "gibbs" they are averages over sweeps,
        and over chains once their topics are matched to the first chain's, beside standard deviations "F_sd" and "L_sd".
    log_joint_ : log p(S) of the answer; for "gibbs" the mean over kept sweeps
    samples_ : for "gibbs", a table of log p(S) after every sweep of every chain
    diagnostics_ : for "gibbs", effective sample size and split R̂ of log p(S)
    n_iter_ : iterations run

    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> model = um.AllocationModel(6, alpha=0.1, random_state=0, max_iter=20, tol=0).fit(X)
    >>> model.components_.shape, bool(model.log_joint_ < 0)
    ((6, 381), True)
    """

    samples_: pd.DataFrame
    diagnostics_: Diagnostics
    log_joint_: float

    def __init__(
        self,
        n_components: int = 10,
        *,
        a: float = 1.0,
        b: float | None = None,
        alpha: ArrayLike = 1.0,
        beta: ArrayLike = 1.0,
        method: Literal["bld", "gibbs", "icm"] = "bld",
        free: bool = True,
        sweeps: int = 500,
        burn_in: int = 200,
        thin: int = 5,
        chains: int = 2,
        init: str | tuple[Any, Any] | Fit = "auto",
        max_iter: int = 300,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.n_components = n_components
        self.a = a
        self.b = b
        self.alpha = alpha
        self.beta = beta
        self.method = method
        self.free = free
        self.sweeps = sweeps
        self.burn_in = burn_in
        self.thin = thin
        self.chains = chains
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _fit(self, X: Any, left_off: Fit | None) -> Self:
        self._check_parameters()
        counts = self._checked_counts(X, reset=True)
        model = self._model(counts)
        self._check_data(counts, model)
        rng, threads = generator(self.random_state), thread_count(self.n_jobs)
        travel = {"bld": self._fit_bld, "icm": self._fit_icm, "gibbs": self._fit_gibbs}[self.method]
        total = self.sweeps + self.burn_in if self.method == "gibbs" else self.max_iter
        with ExitStack() as stack:
            callbacks = list(self.callbacks)
            if self.verbose:
                callbacks.append(stack.enter_context(ProgressBar(total)))
            task, solver, state, trace, status = travel(counts, model, rng, threads, callbacks, left_off)
        self._keep(make_fit(task, solver, state, trace, status), trace)
        return self

    def standard_deviations(self, of: Literal["loadings", "factors"] = "loadings") -> Floats:
        """Of the posterior: n × K for the proportions of the samples of the fit, m × K for the topics."""
        sampled = self._sampled(of)
        return super().standard_deviations(of) if sampled is None else sampled[1]

    def credible_intervals(
        self, of: Literal["loadings", "factors"] = "loadings", level: float = 0.9
    ) -> tuple[Floats, Floats]:
        """Lower and upper ends of central intervals that hold each entry with probability `level`: given S for "bld" and "icm",
        by Beta distributions with the sampled means and standard deviations for "gibbs"."""
        given = super().credible_intervals(of, level)
        sampled = self._sampled(of)
        if sampled is None:
            return given
        return matched_quantile(*sampled, (1 - level) / 2), matched_quantile(*sampled, (1 + level) / 2)

    def _sampled(self, of: str) -> tuple[Floats, Floats] | None:
        """Mean and standard deviation over kept sweeps, if there were any."""
        prior, belief = self._belief_of(of)
        sd = self.result_.posterior.get("L_sd" if of == "loadings" else "F_sd")
        return None if sd is None else (prior.mean(belief) if of == "loadings" else self.result_.F, sd)

    def log_evidence(
        self,
        X: Any,
        method: Literal["smc", "exact"] = "smc",
        *,
        particles: int = 100,
        runs: int = 10,
        random_state: Any = None,
    ) -> Evidence:
        """log p(X) under the hyper-parameters, topics and all else integrated out. Needs no fit.

        "smc": the log of the mean of `runs` unbiased estimates by particle filters, and its standard error. It costs
        particles × features × topics of memory, and much time beyond some ten thousand counts.
        "exact": the sum over all S; refused where there are more than a million.
        """
        counts = self._counts(X)
        self._check_common()
        model = self._model(counts)
        if method == "exact":
            return exact_evidence(counts, model)
        if method != "smc":
            raise ValueError(f'method={method!r}; choose "smc" or "exact"')
        for name, value in {"particles": particles, "runs": runs}.items():
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}={value!r}; give a whole number >= 1")
        rng = generator(self.random_state if random_state is None else random_state)
        return smc_evidence(
            counts, model, particles=int(particles), runs=int(runs), rng=rng, threads=thread_count(self.n_jobs)
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = self.method != "bld"  # the nearest word scikit-learn has for whole numbers
        return tags

    # --- the three methods -------------------------------------------------------------------------------------------

    def _fit_bld(
        self, X: Counts, model: Allocation, rng, threads: int, callbacks: list[Callback], left_off: Fit | None
    ):
        task = AllocationTask(X, model, threads)
        trace = self._trace(task)
        solver = FreeBLD() if self.free else FactoredBLD()
        (n, m), K = X.shape, model.n_topics
        shapes = {"rho": (X.nnz, K)} if self.free else {"P": (n, K), "Q": (m, K)}
        factors, note = self._resumable(trace, solver, shapes, left_off), "resumed"
        if factors is None:
            L, F, note = self._factors(X, model, rng, threads)
            L, F = _with_prior(L, F, model)
            factors = (shares(L[row_of_nonzeros(X.rows)], F[X.rows.indices]),) if self.free else (L, F)
        state: Any = solver.start(task, *factors)
        if left_off is None:
            trace.add(state, "start", note)
        state, status = run(task, solver, state, trace, max_iter=self.max_iter, tol=self.tol, callbacks=callbacks)
        self.log_joint_ = -state.loss
        return task, solver, state, trace, status

    def _fit_icm(
        self, X: Counts, model: Allocation, rng, threads: int, callbacks: list[Callback], left_off: Fit | None
    ):
        task = LabelTask(X, model, threads)
        trace = self._trace(task)
        solver = ICM()
        labels, note = self._resumable(trace, solver, {"labels": (1, int(X.total))}, left_off), "resumed"
        if labels is not None:
            state = solver.start(task, Labels.of(X.rows, X.shape, model.n_topics, labels[0].copy(), threads=threads))
        elif self.init == "random":
            state, note = solver.greedy(task, rng), "greedy"
        else:
            L, F, note = self._factors(X, model, rng, threads)
            state = solver.start(task, self._labels(X, model, L, F, rounded, 1, threads))
        if left_off is None:
            trace.add(state, "start", note)
        stops = [*callbacks, until_still]
        state, status = run(task, solver, state, trace, max_iter=self.max_iter, tol=0, callbacks=stops)
        self.log_joint_ = -state.loss
        return task, solver, state, trace, status

    def _fit_gibbs(
        self, X: Counts, model: Allocation, rng, threads: int, callbacks: list[Callback], left_off: Fit | None
    ):
        task = GibbsTask(X, model, threads)
        trace = self._trace(task)
        burn, sample = Gibbs(), Gibbs(thin=self.thin)
        labels, note = self._resumable(trace, sample, {"labels": (self.chains, int(X.total))}, left_off), "resumed"
        if labels is not None:
            held = Labels.of(X.rows, X.shape, model.n_topics, labels[0].copy(), threads=threads)
        elif isinstance(self.init, str) and self.init in ("auto", "random"):
            drawn, note = random_labels(model, int(X.total), self.chains, rng), "random"
            held = Labels.of(X.rows, X.shape, model.n_topics, drawn, threads=threads)
        else:
            L, F, note = self._factors(X, model, rng, threads)
            draw = lambda x, rho: rng.multinomial(x.astype(np.int64), rho)  # noqa: E731
            held = self._labels(X, model, L, F, draw, self.chains, threads)
        state: Any
        if left_off is None:
            state = burn.start(task, held, seeds(rng, held.chains))
            trace.add(state, "start", note)
        else:
            state = sample.restore(task, held, left_by(sample, left_off) or {})
        status = "max_iter"
        if self.burn_in and trace.pace.stage != "fit":
            state, status = run(
                task, burn, state, trace, max_iter=self.burn_in, tol=0, stage="burn-in", callbacks=callbacks
            )
        if status == "max_iter":
            state, status = run(task, sample, state, trace, max_iter=self.sweeps, tol=0, callbacks=callbacks)
        self.samples_, self.diagnostics_ = samples_table(state), diagnostics(state)
        kept = self.samples_.loc[self.samples_["kept"], "log_joint"]
        self.log_joint_ = float(kept.mean()) if len(kept) else -state.loss
        return task, sample, state, trace, "converged" if status == "max_iter" else status

    # --- starts ------------------------------------------------------------------------------------------------------

    def _topics_have_no_place(self, model: Allocation) -> bool:
        """Then they are numbered by weight: unless beta, or a start, tells one topic from another."""
        return isinstance(self.init, str) and bool(np.ptp(model.beta) == 0)

    def _trace(self, task: AllocationTask) -> Trace:
        return Trace(task, heaviest_first=self._topics_have_no_place(task.model), params=self._about())

    def _resumable(
        self, trace: Trace, solver: object, shapes: dict[str, tuple[int, int]], left_off: Fit | None
    ) -> tuple[Any, ...] | None:
        """What the same solver left in the fit that is to go on, or that is given as a start, of data and topics of this shape;
        none in a fit by another."""
        fit = left_off or self.init
        left = left_by(solver, fit) if isinstance(fit, Fit) and fit.n_topics == self.n_components else None
        if left is None or any(name not in left or left[name].shape != shape for name, shape in shapes.items()):
            if left_off is not None:
                raise ValueError(
                    f"the fit to go on with was not left off by {solver!r}, or its state is damaged; start anew"
                )
            return None
        assert isinstance(fit, Fit)
        if left_off is not None:
            trace.go_on_from(left_off)
        trace.heaviest_first = bool((fit.state or {}).get("heaviest_first"))
        return tuple(left[name] for name in shapes)

    def _factors(
        self, X: Counts, model: Allocation, rng: np.random.Generator, threads: int
    ) -> tuple[Floats, Floats, str]:
        """Factors to start from, and what they are."""
        if isinstance(self.init, Fit):
            return *check_factors(X.shape, self.init.L, self.init.F, self.n_components), "given"
        if not isinstance(self.init, str):
            return *check_factors(X.shape, *cast(Pair, self.init), self.n_components), "given"
        problem = Problem(X, self.n_components, None, threads)
        if self.init == "auto":
            return *_placed(*_most_likely(problem, rng), model.beta), "maximum likelihood"
        if self.init == "topic-score":
            pair, note = starts.topic_score_or_random(problem, rng)
            return *_placed(*pair, model.beta), note
        return *starts.random(problem, rng), "random"

    @staticmethod
    def _labels(
        X: Counts, model: Allocation, L: Floats, F: Floats, assign: Callable, chains: int, threads: int
    ) -> Labels:
        """Labels of all tokens by the shares of topics in each nonzero, made whole by `assign`."""
        L, F = _with_prior(L, F, model)
        owner = row_of_nonzeros(X.rows)

        def block_shares(block: slice) -> Floats:
            return shares(L[owner[block]], F[X.rows.indices[block]])

        labels = np.stack([labels_by_shares(X, block_shares, assign) for _ in range(chains)])
        return Labels.of(X.rows, X.shape, model.n_topics, labels, threads=threads)

    # --- checks ------------------------------------------------------------------------------------------------------

    def _model(self, X: Counts) -> Allocation:
        return Allocation.for_data(X, self.n_components, self.a, self.b, self.alpha, self.beta)

    def _check_parameters(self) -> None:
        self._check_common(sweeps=1, burn_in=0, thin=1, chains=1)
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise ValueError(f"method={self.method!r}; choose one of {', '.join(METHODS)}")
        if self.method == "gibbs" and self.thin > self.sweeps:
            raise ValueError(f"thin={self.thin} keeps none of the {self.sweeps} sweeps; give thin <= sweeps")

    def _check_data(self, X: Counts, model: Allocation) -> None:
        if self.method != "bld":
            check_labels(X, model.n_topics, self.chains if self.method == "gibbs" else 1, f'method="{self.method}"')
            if self.method == "gibbs":
                sweeps, (n, m) = self.burn_in + self.sweeps, X.shape
                averages = 2 * 8.0 * self.chains * model.n_topics * (3 * m + 2 * n)
                what = f"the averages of {self.chains} chain(s) and the trace of {sweeps:,} sweeps"
                memory.require(averages + 1000.0 * sweeps, what, "use fewer chains, topics or sweeps")
        elif (low := model.beta < 1).any():
            raise ValueError(
                f"beta={model.beta[low][0]:g}: BLD's gradient has no positive parts below 1; "
                'use method="gibbs" or "icm", or beta >= 1'
            )
        elif self.free:
            memory.require(
                3 * 8.0 * X.nnz * model.n_topics,  # before, after, and the step between them
                f"S of {X.nnz:,} nonzeros × {model.n_topics} topics",
                "use free=False, or fewer topics",
            )


def _most_likely(problem: Problem, rng: np.random.Generator) -> Pair:
    """A maximum-likelihood fit: the best starting point that was found for BLD."""
    L, F = starts.Contest()(problem, rng)[0]
    for solver, iterations in ((Alternate(EM()), 10), (Extrapolate(Newton()), 500)):
        start = solver.start(problem, *problem.rescale(L, F))
        state, _ = run(problem, solver, start, Trace(problem), max_iter=iterations, tol=1e-8, keep=False)
        L, F = state.L, state.F
    return L, F


def _placed(L: Floats, F: Floats, beta: Floats) -> Pair:
    """The lightest topics in the places of the largest beta: such a place draws counts from everywhere, and what it starts with
    is lost, so it gets what is missed least."""
    lightest_last = np.argsort(-L.sum(axis=0) * F.sum(axis=0), kind="stable")
    order = np.empty_like(lightest_last)
    order[np.argsort(beta, kind="stable")] = lightest_last
    return np.ascontiguousarray(L[:, order]), np.ascontiguousarray(F[:, order])


def _with_prior(L: Floats, F: Floats, model: Allocation) -> Pair:
    """Proportions and topics of L and F, each with a part of its prior's mean."""
    proportions, topics, _, _ = poisson_to_topics(L, F)
    P = (1 - PRIOR_SHARE) * proportions + PRIOR_SHARE * model.beta / model.beta.sum()
    Q = (1 - PRIOR_SHARE) * topics + PRIOR_SHARE * (model.alpha / model.alpha.sum())[:, None]
    return P, Q
