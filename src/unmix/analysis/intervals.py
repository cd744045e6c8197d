"""Credible intervals of proportions and topics, from sampled labels.

Every single count is labelled with a topic, and labels are sampled (`solvers/sampling.py`) from

    x_i ~ Multinomial(l*_i F*ᵀ),    l*_i ~ Dirichlet(alpha),    f*_k ~ Dirichlet(eta),

in chains that start at the fit. Given labels both are Dirichlet, so mean, mean square and mean logarithm of every number are
averages of closed forms over the sweeps. The ends of an interval are those of Beta distributions: the upper one of that with
the mean and the variance that came out, the lower one of that with the mean and the mean logarithm, which knows more of the
way to zero. Priors that a fit does not have are learned while chains warm up: those under which the labels are most probable
(Minka),

    alpha_k ← alpha_k Σ_i [ψ(alpha_k + S_ik) − ψ(alpha_k)] / Σ_i [ψ(alpha₊ + S_i) − ψ(alpha₊)]      (eta alike)

**Local**: a proportion means something next to its topics only. So labels are drawn with the topics of the fit, and what comes
out are intervals of what the fit estimates. Topics are held by this many counts of their own in the tables of the sampler that
labels do not move them. The topics' own intervals are those given such labels: their variance is V = V_c + V_l, that with
labels known and that of the labels. As these would move with the topics, it is V_c / (1 − r) with r = V_l / V_c: by the
missing information principle (Louis 1982) V_c + V_l are the first two terms of that series. Where a density is the largest at
0 or 1, the interval ends there: a fit of maximum likelihood has many such numbers.

**Full**: topics move too, as far as the data and the priors let them, and that may be to another solution than the fit's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from unmix.analysis.application import FitLike, counts_of, fit_of, refuse_known, refuse_multipliers, with_samples
from unmix.analysis.results import FileLayout, Finished, Result, shapes
from unmix.analysis.samples import by_sample_and_topic
from unmix.base.checks import ParameterError, analysis, choice, parameter, share, whole
from unmix.base.progress import Progress
from unmix.base.threads import use_threads
from unmix.base.types import Floats, Seed
from unmix.counts.counts import Counts, CountsLike
from unmix.fit import Fit
from unmix.kernels import Labels, seeds
from unmix.models.allocation import Allocation, AllocationTask, Averages, check_labels, matched_quantile, sd
from unmix.models.beliefs import beta_quantile, most_probable
from unmix.models.poisson import match_to_first
from unmix.solvers.allocation import labels_by_shares
from unmix.solvers.sampling import Sampler, moments_rhat

LEARN_EVERY = 5  # sweeps of the warming up
EVEN = 0.02  # of every topic in the labels to start from, so that none is out of reach
AGREE = 1.1  # up to this R̂ chains agree
HOLDING = 2**29  # counts of each topic, by which it is held: tables are of 32-bit integers
MOST_MISSING = 0.9  # of the information about a topic that labels may lack
LARGE = 0.1  # proportions that are compared with their intervals

Posterior = Literal["local", "full"]


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(Result):
    """Credible intervals, made by `intervals`. Arrays are in the order of the columns of the fit.

    Attributes
    ----------
    low, high : array, n × K
        Of proportions: ends of the central intervals.
    mean, sd, log_mean : array, n × K
        Of proportions: mean, standard deviation, and mean of the logarithm, by the posterior.
    topics_low, topics_high, topics_mean, topics_sd, topics_log_mean : array, m × K
        The same of features in topics.
    level : float
        The probability with which each interval holds its number.
    alpha : array, K
        The prior of the proportions, one number per topic.
    eta : array, m
        The prior of the topics, one number per feature.
    rhat : float
        How much chains differ beyond what they differ from themselves, of proportions; near 1 where they agree.
    draws : int
        Sweeps averaged, over all chains.
    outside : float
        The part of the fit's proportions above 10% that lie outside their own intervals.
    posterior : str
        "local" or "full".
    samples, names : array of str, or None
        Names of samples and of topics, such as those of known signatures, if they have any.
    status : str
        "finished", or "interrupted" if Ctrl-C ended the sampling.

    See Also
    --------
    intervals, freedom, LDA.credible_intervals

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> found = um.intervals(fit, X, sweeps=50, burn_in=20, random_state=0)
    >>> found.low.shape, found.topics_low.shape, found.draws
    ((4, 2), (3, 2), 20)
    """

    LAYOUT: ClassVar = FileLayout(
        shapes(
            "nK low high mean sd log_mean, mK topics_low topics_high topics_mean topics_sd topics_log_mean, K alpha names, "
            "m eta, n samples"
        )
    )

    low: Floats
    high: Floats
    mean: Floats
    sd: Floats
    log_mean: Floats
    topics_low: Floats
    topics_high: Floats
    topics_mean: Floats
    topics_sd: Floats
    topics_log_mean: Floats
    level: float
    alpha: Floats
    eta: Floats
    rhat: float
    draws: int
    outside: float = 0.0
    posterior: Posterior = "local"
    samples: NDArray[np.str_] | None = None
    names: NDArray[np.str_] | None = None
    status: Finished = "finished"

    def _headline(self) -> str:
        n, K = self.low.shape
        width = (self.high - self.low).mean()
        return f"Intervals({n} samples, {K} topics, {self.level:.0%}, mean width {width:.3f}, R̂ {self.rhat:.2f})"

    @property
    def table(self) -> pd.DataFrame:
        """DataFrame: one row per topic, with its `name` where topics have names.

        Mean proportion, mean and largest width of its intervals, and the mean width of those of its features, as a part of
        their means, weighted by these.
        """
        width, topics_width = self.high - self.low, self.topics_high - self.topics_low
        return pd.DataFrame(
            {
                "topic": np.arange(1, width.shape[1] + 1),
                **({} if self.names is None else {"name": self.names}),
                "proportion": self.mean.mean(axis=0),
                "mean_width": width.mean(axis=0),
                "widest": width.max(axis=0),
                "features_width": topics_width.sum(axis=0) / self.topics_mean.sum(axis=0),
            }
        )

    @property
    def by_sample(self) -> pd.DataFrame:
        """DataFrame: one row per sample and topic: mean and standard deviation of the proportion, and its interval."""
        return by_sample_and_topic(self.samples, self.names, mean=self.mean, sd=self.sd, low=self.low, high=self.high)

    def at(self, level: float) -> Intervals:
        """The same posterior at another level.

        Parameters
        ----------
        level : float
            The probability with which each interval shall hold its number.

        Returns
        -------
        Intervals
            A copy; nothing is sampled again.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
        >>> found = um.intervals(um.TopicModel(2, random_state=0).fit(X).result_, X, sweeps=50, burn_in=20, random_state=0)
        >>> bool((found.at(0.5).high <= found.high).all())
        True
        """
        return _with_ends(self, share("level", level))

    def advice(self) -> list[str]:
        """Whether the chains can be trusted.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
        >>> found = um.intervals(um.TopicModel(2, random_state=0).fit(X).result_, X, sweeps=50, burn_in=20, random_state=0)
        >>> all(isinstance(sentence, str) for sentence in found.advice())
        True
        """
        said = []
        if self.status == "interrupted":
            said.append(f"interrupted after {self.draws} draws; intervals are rough")
        if np.isnan(self.rhat):
            said.append(f"a single chain does not show whether it has converged; use {parameter('chains', 2)} or more")
        elif not self.rhat <= AGREE:
            said.append(
                f"chains have not converged (R̂ = {self.rhat:.2f}): intervals may be too narrow; increase {parameter('sweeps')} "
                f"and {parameter('burn_in')}, or see {analysis('freedom')}: chains are slow where topics are not identified"
            )
        if self.outside > 2 * (1 - self.level):
            local = f"; {parameter('posterior', 'local')} keeps to the topics of the fit" * (self.posterior == "full")
            said.append(
                f"{self.outside:.0%} of the fit's proportions above {LARGE:.0%} lie outside their intervals: the posterior is of "
                f"a solution that differs from the fit, so report its mean with its intervals, not the fit's proportions{local}"
            )
        return said


def intervals(
    fit: FitLike,
    X: CountsLike,
    level: float = 0.9,
    *,
    posterior: Posterior = "local",
    alpha: ArrayLike | None = None,
    eta: ArrayLike | None = None,
    sweeps: int = 500,
    burn_in: int = 200,
    thin: int = 5,
    chains: int = 2,
    n_jobs: int | None = None,
    random_state: Seed = None,
    verbose: bool = False,
) -> Intervals:
    """Intervals that cover each proportion, and each feature of each topic, with probability `level`.

    Those of variational inference treat each number as if all others were known, and are too short. These come from sampled
    labels of all counts, and cost hundreds of sweeps over them.

    Parameters
    ----------
    fit : Fit, estimator or path
        Where chains start, and what names topics. Of any model: a Bayesian one gives its priors too. Or a model of known
        factors (`from_factors`, or the path of a catalogue table): X are then its new samples, and topics have no intervals.
    X : Counts or array-like
        The counts of the fit: whole numbers. Samples and features are found by name where both have names.
    level : float, default=0.9
        Probability that an interval covers its number.
    posterior : str, default="local"
        Posterior: local or full. "local": intervals of what the fit estimates, its proportions given its topics, and its
        topics nearby. "full": topics move too, as far as data and priors let them; the posterior may then be of another
        solution than the fit's, and its mean is what its intervals are of.
    alpha : float or array-like, default=None
        Dirichlet prior of proportions. A number, or one per topic; by default the fit's, or learned if it has none.
    eta : float or array-like, default=None
        Dirichlet prior of topics. A number, or one per feature; by default the fit's, or learned if it has none.
    sweeps : int, default=500
        Sweeps of each chain that are averaged. More make ends steadier.
    burn_in : int, default=200
        Sweeps of each chain before those.
    thin : int, default=5
        Number of sweeps per average.
    chains : int, default=2
        Number of chains. With two or more, `rhat` shows whether they agree.
    n_jobs : int, default=None
        Threads, at most one per chain; None or −1 for all available cores. The result does not depend on it.
    random_state : int, Generator or RandomState, default=None
        Seed of the chains.
    verbose : bool, default=False
        Whether to write to stderr how many sweeps are finished, and about how long the others will take.

    Returns
    -------
    Intervals
        `low` and `high` of every proportion, and a `table` with one row per topic.

    Raises
    ------
    ValueError
        If X is not the counts of the fit, has fractions, or an option is invalid.

    See Also
    --------
    freedom : What the data do not decide at all.
    LDA.credible_intervals : Quicker, and too short.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A").csr[:40]
    >>> fit = um.TopicModel(3, random_state=0).fit(X).result_
    >>> found = um.intervals(fit, X, sweeps=50, burn_in=20, random_state=0)
    >>> bool((found.low < found.mean).all() and (found.mean < found.high).all())
    True
    """
    fit = fit_of(fit)
    from unmix.estimators.base import generator

    share("level", level)
    choice("posterior", posterior, ("local", "full"))
    whole("burn_in", burn_in, 0)
    for name, number in {"sweeps": sweeps, "thin": thin, "chains": chains}.items():
        whole(name, number, 1)
    if thin > sweeps:
        raise ParameterError("thin", thin, f"use at most {sweeps}, the number of sweeps")
    known_factors = not len(fit.L)
    if known_factors and posterior == "full":
        raise ParameterError("posterior", posterior, "the topics of this fit are known; use 'local'")
    refuse_multipliers(fit, "intervals")
    refuse_known(fit, "intervals", "allowed")
    if posterior == "full":
        refuse_known(fit, f"intervals with {parameter('posterior', 'full')}")
    fit = with_samples(fit, X, "intervals") if known_factors else fit
    counts = counts_of(fit, X, "intervals")
    check_labels(counts, fit.n_topics, chains, "sampling")
    if posterior == "local" and counts.total >= HOLDING:
        raise ValueError(
            f"{counts.total:,.0f} counts; local intervals are of fewer than {HOLDING:,}: take some samples"
        )
    known = _priors(fit)
    priors = [known[0] if alpha is None else alpha, known[1] if eta is None else eta]
    learned = [prior is None for prior in priors]
    with use_threads(n_jobs):
        sampler = _started(fit, counts, priors, chains, generator(random_state))
        held = _Held.at(fit.topics) if posterior == "local" else _Held(np.zeros(fit.topics.shape, np.int32))
        status: Finished = "finished"
        try:
            _run(sampler, held, learned, sweeps, burn_in, thin, Progress("sweeps") if verbose else None)
        except KeyboardInterrupt:
            if sampler.averages is None:
                raise
            status = "interrupted"
        found = _found(fit, sampler, level, posterior, status)
    if not known_factors:
        return found
    with np.errstate(divide="ignore"):
        logs = np.log(fit.topics)
    found = replace(found, topics_mean=fit.topics, topics_sd=np.zeros(fit.F.shape), topics_log_mean=logs)
    return _with_ends(found, level)


class _Held(NamedTuple):
    """Counts by which the tables of a sampler hold topics; zeros let them move."""

    counts: NDArray[np.int32]  # m × K

    @classmethod
    def at(cls, topics: Floats) -> _Held:
        return cls(np.rint(HOLDING * topics).astype(np.int32))

    def add(self, held: Labels, sign: int = 1) -> None:
        held.by_feature[:, :, : held.topics] += sign * self.counts
        held.by_topic[:, : held.topics] += sign * self.counts.sum(axis=0, dtype=np.int32)


def _started(fit: Fit, X: Counts, priors: list[ArrayLike | None], chains: int, rng: np.random.Generator) -> Sampler:
    """Labels drawn from the fit's own shares of the topics in every count; a prior to be learned is 1 at first."""
    alpha, eta = (1.0 if prior is None else prior for prior in priors)
    task = AllocationTask(X, Allocation.for_data(X, fit.n_topics, 1.0, None, eta, alpha))
    random, (P, F) = seeds(rng, chains), (fit.proportions, fit.topics)
    P, F = (1 - EVEN) * P + EVEN / P.shape[1], (1 - EVEN) * F + EVEN / len(F)
    return Sampler(task, labels_by_shares(task, P, F, chains, rng), random)


def _run(
    sampler: Sampler, held: _Held, learned: list[bool], sweeps: int, burn_in: int, thin: int, progress: Progress | None
) -> None:
    began, done, end = perf_counter(), 0, burn_in + sweeps
    while done < end:
        more = min(LEARN_EVERY, burn_in - done) if done < burn_in else min(thin, end - done)
        held.add(sampler.held)
        sampler.sweep(more)
        held.add(sampler.held, -1)
        done += more
        if done <= burn_in:
            _learn(sampler, *learned)
        elif more == thin:
            sampler.keep(logs=True)
        if progress is not None:
            progress(done, end, (perf_counter() - began) / done * (end - done))


def _learn(sampler: Sampler, learn_alpha: bool, learn_eta: bool) -> None:
    """The priors that are not given, made those under which the labels are most probable."""
    task, held = sampler.task, sampler.held
    alpha, eta, K = task.model.beta, task.model.alpha, held.topics
    if learn_alpha and K > 1:
        alpha = most_probable(alpha, held.by_sample[:, :, :K].reshape(-1, K))
    if learn_eta:
        eta = most_probable(eta, held.by_feature[:, :, :K].swapaxes(1, 2).reshape(-1, len(eta)), same=True)
    sampler.task = AllocationTask(task.X, replace(task.model, alpha=eta, beta=alpha))


def _found(fit: Fit, sampler: Sampler, level: float, posterior: Posterior, status: Finished) -> Intervals:
    sums, model = cast(Averages, sampler.averages), sampler.task.model
    if posterior == "full":
        sums = sums.ordered(match_to_first(np.concatenate([fit.topics[None], sums.topics[0] / sums.kept]))[1:])
    by_chain = sums.proportions / sums.kept
    mean, square, log_mean = by_chain.mean(axis=1)
    topics_mean, topics_square, topics_log_mean = (sums.topics / sums.kept).mean(axis=1)
    topics_sd = sd(topics_mean, topics_square)
    if posterior == "local":
        labelled = sums.counts.sum(axis=1).mean(axis=0) / sums.kept + model.alpha.sum()
        known = topics_mean * (1 - topics_mean) / (labelled + 1)  # V_c
        missing = np.divide(topics_sd**2, known, out=np.ones_like(known), where=known > 0) - 1
        topics_sd = np.sqrt(known / (1 - np.clip(missing, 0, MOST_MISSING)))
    none = np.empty(0)
    found = Intervals(
        *(none, none, mean, sd(mean, square), log_mean),
        *(none, none, topics_mean, topics_sd, topics_log_mean),
        level=level,
        alpha=model.beta,
        eta=model.alpha,
        rhat=moments_rhat(*by_chain[:2]),
        draws=sums.kept * sampler.held.chains,
        posterior=posterior,
        samples=fit.samples,
        names=fit.names,
        status=status,
    )
    found, large = _with_ends(found, level), fit.proportions > LARGE
    away = (fit.proportions < found.low) | (fit.proportions > found.high)
    return replace(found, outside=float(away[large].mean()) if large.any() else 0.0)


def _priors(fit: Fit) -> tuple[ArrayLike | None, ArrayLike | None]:
    """Of the proportions and of the topics, as far as the model of the fit has them in this form."""
    kinds, arrays = fit.priors, fit.posterior
    alpha = (
        arrays["L_prior"]
        if kinds.get("L") in ("DirichletRows", "Gammas", "HierarchicalGammas", "CovariateGammas")
        else None
    )
    eta = None
    if kinds.get("F") == "DirichletColumns":
        eta = arrays["F_prior"].ravel()
    elif kinds.get("F") in ("Gammas", "HierarchicalGammas"):
        eta = arrays["F_prior"].mean()
    return alpha, eta if eta is None or np.size(eta) in (1, len(fit.F)) else None


def _with_ends(found: Intervals, level: float) -> Intervals:
    local = found.posterior == "local"
    low, high = _ends(found.mean, found.sd, found.log_mean, level, local)
    topics_low, topics_high = _ends(found.topics_mean, found.topics_sd, found.topics_log_mean, level, local)
    return replace(found, low=low, high=high, topics_low=topics_low, topics_high=topics_high, level=level)


def _ends(mean: Floats, deviation: Floats, log_mean: Floats, level: float, local: bool) -> tuple[Floats, Floats]:
    below, above = (1 - level) / 2, (1 + level) / 2
    low, high = beta_quantile(mean, log_mean, below), matched_quantile(mean, deviation, above)
    if not local:
        return low, high
    low = np.minimum(low, matched_quantile(mean, deviation, below))
    with np.errstate(divide="ignore", invalid="ignore"):
        concentration = mean * (1 - mean) / deviation**2 - 1
    low, high = np.where(mean * concentration < 1, 0.0, low), np.where((1 - mean) * concentration < 1, 1.0, high)
    return np.where(deviation > 0, low, mean), np.where(deviation > 0, high, mean)
