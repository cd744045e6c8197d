"""The allocation model as an estimator. Parameters in, Fit out; the mathematics is in models/allocation.py and the solvers."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from unmix.base import memory
from unmix.base.checks import choice, whole
from unmix.base.threads import use_threads
from unmix.base.types import Factor, Floats, Pair, Seed
from unmix.counts.counts import Counts, CountsLike, as_counts
from unmix.counts.data import Data
from unmix.estimators.base import estimator, generator
from unmix.estimators.variational import PosteriorEstimator
from unmix.fit import Fit
from unmix.kernels import seeds
from unmix.models.allocation import (
    Allocation,
    AllocationTask,
    Labelled,
    Modes,
    check_labels,
    dirichlet_modes,
    matched_quantile,
)
from unmix.models.poisson import check_factors, poisson_to_topics
from unmix.models.problem import Problem
from unmix.solvers import EM, Alternate, Extrapolate, Newton, run
from unmix.solvers import init as starts
from unmix.solvers.allocation import ICM, FactoredBLD, FreeBLD, labels_by_shares
from unmix.solvers.base import AnySolver, refuse_unsupported
from unmix.solvers.run import Phase, Plan
from unmix.solvers.sampling import Diagnostics, Evidence, Gibbs, diagnose, exact_evidence, samples_table, smc_evidence
from unmix.solvers.search import Search, search

Mode: TypeAlias = FreeBLD | FactoredBLD | ICM
# Methods that look for a mode of p(S), and how
MODES: dict[str, Mode] = {"bld": FreeBLD(), "factored-bld": FactoredBLD(), "icm": ICM()}
CANDIDATES, JUDGED = 4, 150  # maximum-likelihood fits to choose a start from, and the iterations that judge each
PRIOR_SHARE = 0.1  # of the prior's mean in a start from given or fitted factors, so that no topic starts at zero


@estimator
class AllocationModel(PosteriorEstimator):
    """The allocation model: every single count has a topic of its own, S_ijk ~ Poisson(s_i l*_ik f*_jk), x_ij = Σ_k S_ijk.

    Sizes s_i ~ Gamma(a, b), topics f*_k ~ Dirichlet(alpha) and proportions l*_i ~ Dirichlet(beta) are integrated out; what is
    fitted, or sampled, is S.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    a : float, default=1.0
        Shape of the sizes of samples.
    b : float, default=None
        Rate of the sizes of samples. None: such that the prior expects samples of the size they have.
    alpha : float or array-like, default=1.0
        Prior of topics: a number, or one per feature. Below 1 it favours topics of few features. (LDA calls this eta.)
    beta : float or array-like, default=1.0
        Prior of proportions: a number, or one per topic; then topics keep their place. (LDA calls this alpha.)
    method : str, default="bld"
        "bld": the S of the highest probability (best latent decomposition), as real numbers, by multiplicative ascent; needs
        beta >= 1. "factored-bld": the same with shares of topics that are products of two factors, as in the paper; takes
        less memory and more time. "icm": the same in whole numbers, by moves of single counts. "gibbs": samples of S.
    sweeps : int, default=500
        For "gibbs": sweeps over all counts after those of `burn_in`, in each chain.
    burn_in : int, default=200
        For "gibbs": sweeps of each chain before any is averaged.
    thin : int, default=5
        For "gibbs": every this many sweeps, one is averaged.
    chains : int, default=2
        For "gibbs": how many; with two or more, `diagnostics_` shows whether they agree.
    init : str, pair of arrays or Fit, default="auto"
        "auto": for "bld" and "icm" a maximum-likelihood fit, for "gibbs" random labels; "random", "topic-score",
        a pair (L0, F0), or a `Fit` (one of the same method continues where it stopped).
    max_iter : int, default=500
        For "bld" and "icm": maximum number of iterations.
    tol : float, default=1e-5
        For "bld": ends once what remains to be gained, `result_.remaining_gain`, is at most `tol` per count. "icm" ends once no
        count moves.
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
        Posterior mean topics; rows sum to one.
    result_ : Fit
        F are the posterior mean topics, L the mean proportions times the mean sizes; `posterior` has the Dirichlet parameters
        of topics, "F" (m × K), and of proportions, "L" (n × K). For "gibbs" they are averages over sweeps, and over chains
        once their topics are matched to the first chain's, next to standard deviations "F_sd" and "L_sd".
    allocation_ : array, nonzeros × K
        S, the counts of each nonzero of X that are of each topic, in the order of `Counts.csr`; rows sum to the counts. Real
        numbers for "bld", whole ones for "icm", means over kept sweeps and chains for "gibbs".
    log_joint_ : float
        log p(S) of the answer; for "gibbs" the mean over kept sweeps.
    samples_ : DataFrame
        For "gibbs", log p(S) after every sweep of every chain.
    diagnostics_ : Diagnostics
        For "gibbs", the effective sample size `ess` and split R̂, `rhat`, of log p(S).
    n_iter_ : int
        Iterations run.

    See Also
    --------
    LDA : The same model, by variational inference.
    intervals : Samples around a fit of any model.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> model = um.AllocationModel(2, alpha=0.1, random_state=0, max_iter=20, tol=0).fit(X)
    >>> model.components_.shape, bool(model.log_joint_ < 0)
    ((2, 3), True)
    >>> sampled = um.AllocationModel(2, method="gibbs", sweeps=20, burn_in=10, random_state=0).fit(X)
    >>> len(sampled.samples_)
    60
    """

    samples_: pd.DataFrame = field(init=False)
    diagnostics_: Diagnostics = field(init=False)
    log_joint_: float = field(init=False)

    a: float = 1.0
    b: float | None = None
    alpha: ArrayLike = 1.0
    beta: ArrayLike = 1.0
    method: Literal["bld", "factored-bld", "gibbs", "icm"] = "bld"
    sweeps: int = 500
    burn_in: int = 200
    thin: int = 5
    chains: int = 2

    def _plan(self, X: Data, rng: np.random.Generator) -> Plan:
        phases = self._phases()
        solver: Any = phases[0].solver
        refuse_unsupported(solver, X, who=type(self).__name__)
        task = AllocationTask(X.sample, self._model(X))
        self._check_data(task.X, task.model)

        def warm(state: Any) -> Any:
            """Chains start from labels, with random numbers of their own."""
            return solver.start(task, state.held, seeds(rng, self.chains)) if self.method == "gibbs" else state

        def first() -> tuple[Any, str]:
            state, note = self._first_state(task, rng)
            return warm(state), note

        return Plan(task, phases, first, warm)

    def _phases(self) -> list[Phase]:
        if self.method == "gibbs":
            sample: Phase = Phase(
                "sample", Gibbs(self.thin, self.chains), self.sweeps, status="converged", climbs=False
            )
            burn_in: Phase = Phase("burn-in", Gibbs(chains=self.chains), self.burn_in, climbs=False)
            return [burn_in, sample] if self.burn_in else [sample]
        return [Phase("fit", MODES[self.method], self.max_iter, 0.0 if self.method == "icm" else self.tol)]

    def _labels(self) -> bool:
        """Whether single counts have labels, and so must be whole numbers."""
        return self.method in ("icm", "gibbs")

    def _topics_keep_their_place(self) -> bool:
        return bool(np.ptp(self.beta) > 0)

    def _learn(self, state: Any) -> None:
        self.log_joint_ = -state.loss
        if self.method == "gibbs":
            self.samples_, self.diagnostics_ = samples_table(state), diagnose(state.log_joints[state.burnt :].T)
            kept = self.samples_.loc[self.samples_["kept"], "log_joint"]
            self.log_joint_ = float(kept.mean()) if len(kept) else -state.loss

    def _most_iterations(self) -> int:
        return self.sweeps + self.burn_in if self.method == "gibbs" else self.max_iter

    @property
    def allocation_(self) -> NDArray[np.number]:
        """array, nonzeros × K: S, the counts of each nonzero that are of each topic; rows sum to the counts."""
        check_is_fitted(self)
        S = self.result_.allocation
        if S is None:
            raise ValueError("this fit has no allocation, as one that was kept in an AnnData; fit again")
        return S.astype(np.int64) if self.method == "icm" else S

    def modes(self) -> Modes:
        """Topics W*, proportions H* and sizes L* given S: modes where there are any, posterior means elsewhere.

        A Dirichlet or Gamma distribution has a mode if its parameters are at least 1; features without counts in a topic have
        the parameter alpha, so that below alpha = 1 almost no topic has one. For "gibbs" all are means.

        Returns
        -------
        Modes
            `topics` (m × K, columns sum to one), `proportions` (n × K, rows sum to one), `sizes` (n); and `topic_modes` (K),
            `proportion_modes` (n), `size_modes` (n), which say of each topic and each sample whether it is a mode.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
        >>> modes = um.AllocationModel(2, alpha=0.1, a=2, random_state=0, max_iter=20, tol=0).fit(X).modes()
        >>> bool(modes.topic_modes.any()), bool(modes.proportion_modes.all()), bool(modes.size_modes.all())
        (False, True, True)
        """
        check_is_fitted(self)
        fit = self.result_
        if self.method == "gibbs":
            none = np.zeros(len(fit.L), bool)
            return Modes(fit.topics, fit.proportions, fit.sizes, np.zeros(fit.n_topics, bool), none, none)
        topics, of_topics = dirichlet_modes(fit.posterior["F"], 0)
        proportions, of_proportions = dirichlet_modes(fit.posterior["L"], 1)
        shape = self.a + fit.posterior["L"].sum(axis=1) - fit.posterior["L_prior"].sum()  # of a size: a + t_i
        sizes = fit.sizes * np.where(shape >= 1, (shape - 1) / shape, 1.0)
        return Modes(topics, proportions, sizes, of_topics, of_proportions, shape >= 1)

    def standard_deviations(self, of: Literal["loadings", "factors"] = "loadings") -> Floats:
        """Standard deviations of the posterior.

        Parameters
        ----------
        of : str, default="loadings"
            "loadings": of the proportions of the samples of the fit. "factors": of the topics.

        Returns
        -------
        array, n × K or m × K
            Given S for "bld" and "icm", over sweeps for "gibbs".

        Raises
        ------
        ValueError
            If `of` is neither.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
        >>> um.AllocationModel(2, random_state=0, max_iter=20, tol=0).fit(X).standard_deviations("factors").shape
        (3, 2)
        """
        sampled = self._sampled(of)
        return super().standard_deviations(of) if sampled is None else sampled[1]

    def credible_intervals(
        self, of: Literal["loadings", "factors"] = "loadings", level: float = 0.9
    ) -> tuple[Floats, Floats]:
        """Limits of central intervals that cover each entry with probability `level`.

        Given S for "bld" and "icm", by Beta distributions with the sampled means and standard deviations for "gibbs".

        Parameters
        ----------
        of : str, default="loadings"
            "loadings": of the proportions of the samples of the fit. "factors": of the topics.
        level : float, default=0.9
            The probability.

        Returns
        -------
        tuple of two arrays, n × K or m × K
            Lower and upper ends.

        Raises
        ------
        ValueError
            If `of` is neither, or the level not between 0 and 1.

        See Also
        --------
        intervals : The same for a fit of any model.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
        >>> model = um.AllocationModel(2, method="gibbs", sweeps=20, burn_in=10, random_state=0).fit(X)
        >>> low, high = model.credible_intervals(level=0.8)
        >>> bool((low <= high).all())
        True
        """
        given = super().credible_intervals(of, level)
        sampled = self._sampled(of)
        if sampled is None:
            return given
        return matched_quantile(*sampled, (1 - level) / 2), matched_quantile(*sampled, (1 + level) / 2)

    def _sampled(self, of: str) -> tuple[Floats, Floats] | None:
        """Mean and standard deviation over kept sweeps, if there were any."""
        prior, belief = self._belief_of(of)
        sd = self.result_.posterior.get("L_sd" if of == "loadings" else "F_sd")
        mean = prior.mean(belief) if of == "loadings" else np.asarray(self.result_.F, dtype=np.float64)
        return None if sd is None else (mean, sd)

    def log_evidence(
        self,
        X: CountsLike,
        method: Literal["smc", "exact"] = "smc",
        *,
        particles: int = 100,
        runs: int = 10,
        random_state: Seed = None,
    ) -> Evidence:
        """log p(X) under the hyper-parameters, topics and all else integrated out. Needs no fit.

        Parameters
        ----------
        X : Counts or array-like
            Whole numbers, and few of them.
        method : str, default="smc"
            "smc": the log of the mean of `runs` unbiased estimates by particle filters, and its standard error. It costs
            particles × features × topics of memory, and much time beyond some ten thousand counts.
            "exact": the sum over all S; refused where there are more than a million.
        particles : int, default=100
            Of each filter; more make the error smaller.
        runs : int, default=10
            How many filters; their spread gives the error.
        random_state : int, Generator or RandomState, default=None
            Seed; None is that of the estimator.

        Returns
        -------
        float
            With its `standard_error` (0 if exact, NaN after a single run) and the estimates of all `runs`.

        Raises
        ------
        ValueError
            If counts are not whole numbers, too many for "exact", or an option is invalid.

        See Also
        --------
        choose_topics : Uses it where counts are few.

        Examples
        --------
        >>> import unmix as um
        >>> model = um.AllocationModel(2, b=1.0, random_state=0)
        >>> round(float(model.log_evidence([[2, 0], [1, 1]], method="exact")), 2) < 0
        True
        """
        counts = as_counts(X)
        self._check_common()
        model = self._model(counts)
        if method == "exact":
            return exact_evidence(counts, model)
        choice("method", method, ("smc", "exact"))
        particles, runs = whole("particles", particles, 1), whole("runs", runs, 1)
        rng = generator(self.random_state if random_state is None else random_state)
        with use_threads(self.n_jobs):
            return smc_evidence(counts, model, particles=particles, runs=runs, rng=rng)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = self._labels()  # the nearest word scikit-learn has for whole numbers
        return tags

    # --- starts ------------------------------------------------------------------------------------------------------

    def _first_state(self, task: AllocationTask, rng: np.random.Generator) -> tuple[Any, str]:
        """The iterate to begin with (of a sampler: its labels), and what it is."""
        X, named = task.X, self.init if isinstance(self.init, str) else None
        if self.method == "icm" and named == "random":
            return ICM().greedy(task, rng), "greedy"
        if self.method == "gibbs" and named in ("auto", "random"):
            drawn = rng.integers(self.n_components, size=(self.chains, int(X.total)), dtype=np.uint16)
            return Labelled(loss=np.nan, held=task.labels(drawn)), "random"
        L, F, note = self._factors(task, rng)
        P, Q = _with_prior(L, F, task.model)
        if self.method == "gibbs":
            return Labelled(loss=np.nan, held=labels_by_shares(task, P, Q, self.chains, rng)), note
        return MODES[self.method].begin(task, P, Q), note

    def _factors(self, task: AllocationTask, rng: np.random.Generator) -> tuple[Factor, Factor, str]:
        """Factors to start from, and what they are."""
        X, model = task.X, task.model
        if isinstance(self.init, Fit):
            return *check_factors(X.shape, self.init.L, self.init.F, self.n_components), "given"
        if not isinstance(self.init, str):
            return *check_factors(X.shape, *cast(Pair, self.init), self.n_components), "given"
        problem = Problem(X, self.n_components)
        if self.init == "auto":
            candidates = [_placed(*_most_likely(problem, rng), model.beta) for _ in range(CANDIDATES)]
            judge = MODES["bld" if self.method == "bld" else "factored-bld"]
            return *min(candidates, key=lambda pair: _promise(task, judge, *pair)), "maximum likelihood"
        if self.init == "topic-score":
            pair, note = starts.topic_score_or_random(problem, rng)
            return *_placed(*pair, model.beta), note
        return *starts.random(problem, rng), "random"

    # --- checks ------------------------------------------------------------------------------------------------------

    def _model(self, X: Data) -> Allocation:
        return Allocation.for_data(X, self.n_components, self.a, self.b, self.alpha, self.beta)

    def _check_parameters(self) -> None:
        self._check_common(sweeps=1, burn_in=0, thin=1, chains=1)
        choice("method", self.method, (*MODES, "gibbs"))
        if self.method == "gibbs" and self.thin > self.sweeps:
            raise ValueError(f"thin={self.thin} keeps none of the {self.sweeps} sweeps; use thin <= sweeps")

    def _check_data(self, X: Counts, model: Allocation) -> None:
        if self._labels():
            check_labels(X, model.n_topics, self.chains if self.method == "gibbs" else 1, f'method="{self.method}"')
            if self.method == "gibbs":
                sweeps, (n, m) = self.burn_in + self.sweeps, X.shape
                averages = 2 * 8.0 * self.chains * model.n_topics * (3 * m + 2 * n + 0.5 * X.nnz)
                what = f"the averages of {self.chains} chain(s) and the trace of {sweeps:,} sweeps"
                memory.require(averages + 1000.0 * sweeps, what, "use fewer chains, topics or sweeps")
        elif (low := model.beta < 1).any():
            raise ValueError(
                f"beta={model.beta[low][0]:g}: BLD's gradient has no positive parts below 1; "
                'use method="gibbs" or "icm", or beta >= 1'
            )
        elif self.method == "bld":
            memory.require(
                3 * 8.0 * X.nnz * model.n_topics,  # before, after, and the step between them
                f"S of {X.nnz:,} nonzeros × {model.n_topics} topics",
                'use method="factored-bld", or fewer topics',
            )


def _most_likely(problem: Problem, rng: np.random.Generator) -> Pair:
    """A maximum-likelihood fit: the best starting point that was found for BLD."""
    L, F = search(problem, rng, Search(starts=4))
    solvers: tuple[tuple[AnySolver, int], ...] = ((Alternate(EM()), 10), (Extrapolate(Newton()), 500))
    for solver, iterations in solvers:
        start = solver.start(problem, *problem.rescale(L, F))
        state, _ = run(problem, solver, start, max_iter=iterations, tol=1e-6, catch_interrupt=False)
        L, F = state.L, state.F
    return L, F


def _promise(task: AllocationTask, solver: Any, L: Factor, F: Factor) -> float:
    """The loss to which some iterations lead from here: fits that are equally likely may be far apart in log p(S), and those
    that lead to poor optima are often ahead at first."""
    start = solver.begin(task, *_with_prior(L, F, task.model))
    return run(task, solver, start, max_iter=JUDGED, tol=0, catch_interrupt=False)[0].loss


def _placed(L: Factor, F: Factor, beta: Floats) -> Pair:
    """The lightest topics in the places of the largest beta: such a place draws counts from everywhere, and what it starts with
    is lost, so it gets what is missed least."""
    lightest_last = np.argsort(-L.sum(axis=0) * F.sum(axis=0), kind="stable")
    order = np.empty_like(lightest_last)
    order[np.argsort(beta, kind="stable")] = lightest_last
    return np.ascontiguousarray(L[:, order]), np.ascontiguousarray(F[:, order])


def _with_prior(L: Factor, F: Factor, model: Allocation) -> tuple[Floats, Floats]:
    """Proportions and topics of L and F, each with a part of its prior's mean."""
    proportions, topics, _, _ = poisson_to_topics(L, F)
    P = (1 - PRIOR_SHARE) * proportions + PRIOR_SHARE * model.beta / model.beta.sum()
    Q = (1 - PRIOR_SHARE) * topics + PRIOR_SHARE * (model.alpha / model.alpha.sum())[:, None]
    return P, Q
