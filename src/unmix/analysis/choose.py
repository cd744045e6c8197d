"""How many topics: held-out prediction by document completion, `choose_topics`, and its result `Choice`.

Document completion: how well a model predicts counts that it was not shown.

Each count is hidden with some probability. The loadings of a sample are found from what is left, and the hidden counts are
predicted from them by the multinomial (1 − ε) Σ_k l_ik f_jk / Σ_jk l_ik f_jk + ε q_j, q the overall frequencies of features:

    perplexity = exp(−mean log probability).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import xlogy
from sklearn.base import clone

from unmix.analysis.application import checked_by, counts_in_memory, multiplied, opened
from unmix.analysis.results import FileLayout, Finished, Result, columns, in_parts
from unmix.base.checks import ParameterError, parameter, plural, positive, share, warn, whole
from unmix.base.progress import Progress
from unmix.base.threads import use_threads
from unmix.base.types import Factor, Floats, Integers, Record, Seed
from unmix.counts.counts import Counts, CountsLike, as_counts
from unmix.counts.data import Data, is_data
from unmix.estimators.allocation import AllocationModel
from unmix.estimators.base import CountsEstimator, generator
from unmix.estimators.known import digests_of, refuse_new
from unmix.estimators.likelihood import PoissonNMF, TopicModel, fits_downwards, numbers_of_topics
from unmix.fit import Fit, quietly
from unmix.models.poisson import frequencies, with_background
from unmix.models.problem import Problem
from unmix.solvers.init import known_factors
from unmix.storage.tensors import Arrays


def perplexity(
    model: CountsEstimator,
    X: CountsLike | Data | Iterator[Counts],
    *,
    held_out: float,
    smoothing: float = 0.0,
    rng: np.random.Generator,
) -> float:
    """Held-out perplexity of counts, perhaps in parts, by document completion; `perplexity` of estimators calls it.

    Parameters
    ----------
    model : estimator
        A fitted one.
    X : Counts, Shards, array-like, AnnData, path or iterator of Counts
        Whole numbers.
    held_out : float
        The probability with which a count is held out.
    smoothing : float, default=0.0
        The share ε of the overall frequencies of features in every prediction.
    rng : Generator
        Decides what is held out.

    Returns
    -------
    float
        exp(−mean log probability of held-out counts); lower is better.

    Raises
    ------
    ValueError
        If `held_out` is not between 0 and 1, or counts are not whole numbers.

    See Also
    --------
    TopicModel.perplexity, choose_topics

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
    >>> model = um.TopicModel(2, random_state=0).fit(X)
    >>> rng = np.random.default_rng(0)
    >>> um.analysis.perplexity(model, X, held_out=0.5, smoothing=0.001, rng=rng) > 1
    True
    """
    share("held_out", held_out)
    X = opened(X)
    parts = X if isinstance(X, Iterator) else X.parts() if is_data(X) else [as_counts(X)]
    logliks, totals = zip(*(_foreseen(model, part, held_out, smoothing, rng) for part in parts), strict=True)
    return float(np.exp(-sum(logliks) / sum(totals))) if sum(totals) > 0 else 1.0


def _foreseen(
    model: CountsEstimator, X: Counts, held_out: float, smoothing: float, rng: np.random.Generator
) -> tuple[float, float]:
    """The log probability of the hidden counts, and how many they are."""
    X.require_whole("document completion")
    predicted, shown = X.thinned((held_out, 1 - held_out), rng)
    L, F = model._transformed(shown), np.ascontiguousarray(model.components_.T)
    L[L.sum(axis=1) == 0] = 1.0  # nothing is known of the sample
    known = model.result_
    L, F = with_background(L, F, predicted.sample_totals, frequencies(known.L, known.F), smoothing)
    sides, given, expected = predicted.sides(), predicted.multipliers, L @ F.sum(axis=0)
    xlog = sides.left.xlogs(L, F).sum()
    if given is not None and given.known is not None:
        expected = (L * (given.known @ F)[given.groups]).sum(axis=1)
        x, places = predicted.rows.data, predicted.rows.indices
        xlog += xlogy(x, given.known[given.groups[sides.left.owners], places]).sum()
        expected = np.where(predicted.sample_totals > 0, expected, 1.0)
    return float(xlog - predicted.sample_totals @ np.log(expected)), predicted.total


# How much more counts vary than Poisson ones: var x = λ + λ²/b.
#
#     φ = Σ (x − λ)² / Σ λ        b = Σ λ² / (Σ (x − λ)² − Σ λ)        φ = 1 + (Σ λ² / Σ λ) / b
#
# over all entries, zeros too. The sums need the nonzeros and two Gram matrices only: Σ λ² = Σ_kl (LᵀL)_kl (FᵀF)_kl, and Σ (x −
# λ)² = Σ x² − 2 Σ x λ + Σ λ². Every count weighs equally in φ. Pearson's Σ (x − λ)² / λ, in which every entry does, stays at 1
# where most entries are expected to be zero, however much the others vary.

ROUGH = 1e-4  # tolerance of what b is estimated from


class Dispersion(NamedTuple):
    """The three sums. Those of several fits, or parts of the data, can be added up."""

    squares: float  # Σ (x − λ)²
    rates: float  # Σ λ
    squared_rates: float  # Σ λ²

    @classmethod
    def added(cls, several: Iterable[Iterable[float]]) -> Dispersion:
        return cls(*(float(sum(terms)) for terms in zip(*several, strict=True)))

    @property
    def phi(self) -> float:
        return self.squares / self.rates if self.rates > 0 else float("nan")

    @property
    def inverse(self) -> float:
        """1 / b, no less than 0."""
        return max(self.squares - self.rates, 0) / self.squared_rates if self.squared_rates > 0 else 0.0


def dispersion(
    X: Counts, L: Factor, F: Factor, weights: Floats | None = None, given: Mapping[str, NDArray[Any]] | None = None
) -> Dispersion:
    """Of counts around the rates L Fᵀ, times multipliers if there are `given` ones; samples may have weights."""
    L, F = L.astype(np.float64, copy=False), F.astype(np.float64, copy=False)
    left = X.sides().left
    w = np.ones(len(L)) if weights is None else weights
    x, weighted = X.rows.data, w[left.owners] * X.rows.data
    with np.errstate(divide="ignore"):
        rates = x / left.ratios(L, F)  # of a rate of zero the ratio is infinite
    if given:
        e, groups = given["multipliers"], given["groups"]
        rates *= e[groups[left.owners], X.rows.indices]
        scaled = [(w * (groups == g), F * e[g][:, None]) for g in range(len(e))]
    else:
        scaled = [(w, F)]
    squared_rates = float(sum((((one[:, None] * L).T @ L) * (own.T @ own)).sum() for one, own in scaled))
    squares = float(weighted @ x) - 2 * float(weighted @ rates) + squared_rates
    return Dispersion(max(squares, 0.0), float(sum(one @ (L @ own.sum(axis=0)) for one, own in scaled)), squared_rates)


def around_fit(X: Counts, L: Factor, F: Factor, given: Mapping[str, NDArray[Any]] | None = None) -> Dispersion:
    """The same around rates that were fitted to these counts, which took away some of their variation."""
    (n, m), K, found = X.shape, L.shape[1], dispersion(X, L, F, None, given)
    taken = n * m / (max(n - K, 1) * max(m - K, 1))
    return found._replace(squares=taken * found.squares)


def estimated_overdispersion(
    X: Counts, numbers: Iterable[int], rng: np.random.Generator, n_jobs: int | None = None
) -> float | None:
    """b, from counts that no fit has seen; None where they vary no more than Poisson ones.

    Factors are fitted to half of the samples. Of the others, loadings are found from half of the features, and counts of the
    rest are compared with their rates; and with halves exchanged. Topics that are missing, and topics made of noise, both leave
    more variation than there is, so the number of topics that leaves least is taken.
    """
    one, two = (X.take(np.sort(rows)) for rows in np.array_split(rng.permutation(X.shape[0]), 2))
    most = min(len(one), len(two), X.shape[1] // 2)
    tried = [K for K in numbers if most >= K] or [1]
    model = PoissonNMF(tol=ROUGH, n_jobs=n_jobs, random_state=int(rng.integers(2**31)))
    found: dict[int, list[Dispersion]] = {K: [] for K in tried}
    for fitted, others in ((one, two), (two, one)):
        features = rng.permutation(np.flatnonzero(fitted.feature_totals > 0))
        halves = [np.sort(half) for half in np.array_split(features, 2)]
        for K, fit in fits_downwards(fitted, tried, model):
            with use_threads(n_jobs):
                found[K] += [_unseen(others, fit.F, *pair) for pair in (halves, halves[::-1])]
    least = min(Dispersion.added(parts).inverse for parts in found.values())
    return 1 / least if least > 0 else None


def _unseen(X: Counts, F: Factor, known: Integers, foretold: Integers) -> Dispersion:
    """Of some features around rates from others. Samples weigh 1 / (t + median t)²: a few large ones, with topics of their own,
    would be all there is to see."""
    shown, hidden = (Counts.trusted(X.csr[:, columns]) for columns in (known, foretold))
    factors: Floats = F.astype(np.float64, copy=False)
    L = known_factors(Problem(shown, F.shape[1]), factors[known], rounds=30, tolerance=ROUGH)
    weights = (X.sample_totals + max(float(np.median(X.sample_totals)), 1.0)) ** -2
    return dispersion(hidden, L, factors[foretold], weights)


# What held-out counts say of numbers of topics, next to each other, and as text.
#
# With s_i(K) the log probability of the held-out counts of sample i, d_i = s_i(K) − s_i(best), and
#
#     delta = Σ_i d_i        error = √n sd(d_i)
#
# paired by sample, because samples differ far more from each other than numbers of topics do. The suggestion is the smallest K
# whose delta is no further below zero than its error.

FEW_SAMPLES = 30  # with fewer, errors are taken from folds
OVERDISPERSED = 1.2  # φ from which it is said


@dataclass(frozen=True, eq=False, repr=False)
class Choice(Result):
    """How well every number of topics predicts held-out counts; made by `choose_topics`.

    Attributes
    ----------
    table : DataFrame
        A row for every number of `topics`: `perplexity` of held-out counts, exp(−mean log probability), lower is better;
        `delta`, their log probability less that of the best, and its standard `error`, paired by sample; the `gain` by each
        topic more than in the row before, per 1,000 held-out counts; `loglik` of the counts that were fitted, the mean of the
        folds; the share of the `lightest` topic; the part of the fits that `converged`; `seconds` of all folds; of an
        `AllocationModel` and few counts also `evidence` and `evidence_error`, log p(X) of all counts and its standard error.
    best : int
        The number that predicts held-out counts best.
    suggested : int
        The smallest number within one standard error of the best.
    worthwhile : int or None
        The number after which one more topic gains less than the part `worth` of what the first one gained; None where that
        is none of those tried.
    worth : float
        That part.
    shares : array, rows of the table × largest K
        Shares of topics, the heaviest first.
    scores : array, rows of the table × samples
        Log probability of the held-out counts of each sample.
    held_out : float
        How many counts were predicted.
    folds, folds_done : int
        How many there were to be, and how many are in the table.
    status : str
        "finished", or "interrupted" by Ctrl-C.
    dispersion : float
        How many times as much counts vary as Poisson ones would.
    overdispersion : float or None
        The b with which counts were split, given or estimated.
    model : str
        The name of the estimator.
    samples : int
        How many have counts.
    seed : int
        By which counts were split.

    See Also
    --------
    choose_topics, plot.choice, report.write_result

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]] * 5
    >>> choice = um.choose_topics(X, range(1, 4), folds=2, random_state=0)
    >>> choice.suggested, choice.table["topics"].tolist()
    (2, [1, 2, 3])
    """

    LAYOUT: ClassVar = FileLayout(
        shapes={"shares": "tk", "scores": "tn"},
        columns={"table": columns("topics perplexity delta error gain loglik lightest converged seconds")},
    )

    table: pd.DataFrame
    best: int
    suggested: int
    worthwhile: int | None
    worth: float
    shares: Floats = field(repr=False)  # of topics, the heaviest first, a row for each row of the table
    scores: Floats = field(repr=False)  # s_i(K), a row for each row of the table
    held_out: float  # counts
    folds: int
    folds_done: int
    status: Finished
    dispersion: float  # φ: counts vary this many times as much as Poisson ones
    overdispersion: float | None  # b, with which they were thinned
    model: str
    samples: int
    seed: int = field(repr=False)

    ANSWERS: ClassVar = True

    def _headline(self) -> str:
        numbers = self.table["topics"]
        return (
            f"Choice({numbers.min()} to {numbers.max()} topics: {self.suggested} suggested, {self.best} best, "
            f"{self.folds_done} of {self.folds} folds)"
        )

    def advice(self) -> list[str]:
        """What the table says, and what it cannot say.

        Returns
        -------
        list of str
            The suggestion first, then a sentence for each thing to know about it.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]] * 5
        >>> len(um.choose_topics(X, range(1, 4), folds=2, random_state=0).advice()) > 0
        True
        """
        numbers, unfinished = self.table["topics"], 1 - self.table["converged"].mean()
        if self.best == 1:
            said = ["a single topic predicts held-out counts best: this model finds no topics in these counts"]
        elif self.suggested == self.best:
            said = ["they predict held-out counts best, and no smaller number is within one standard error"]
        else:
            said = [
                f"no smaller number is within one standard error of {self.best}, which predict held-out counts best"
            ]
        if self.best > 1:
            said[0] = f"{plural(self.suggested, 'topic')} suggested: {said[0]}"
        if self.best == numbers.max() and len(numbers) > 1:
            said.append(f"the best is the largest number tried, {self.best}; try more")
        elif self.best == numbers.min() and self.best > 1:
            said.append(f"the best is the smallest number tried, {self.best}; try fewer")
        within = numbers[self.table["delta"] >= -self.table["error"]].tolist()
        if len(within) >= min(3, max(2, len(numbers))):
            some = f"{', '.join(map(str, within[:-1]))} and {within[-1]} topics"
            which = "all numbers tried" if len(within) == len(numbers) else some
            said.append(f"{which} are within one standard error of the best: these counts cannot distinguish them")
        if self.worthwhile is not None and self.worthwhile < self.suggested:
            said.append(
                f"after {plural(self.worthwhile, 'topic')}, one more gains less than {self.worth:.2g} of what the first gained: "
                "a smaller number to consider, if topics are to be read"
            )
        if "evidence" in self.table:
            highest = int(numbers[self.table["evidence"].idxmax()])
            said.append(f"the evidence log p(X) is highest with {plural(highest, 'topic')}")
        if self.overdispersion is not None:
            b = f"{self.overdispersion:.3g}" if self.overdispersion < 100 else f"{self.overdispersion:,.0f}"
            said.append(f"counts were taken to vary as μ + μ²/{b}, φ = {self.dispersion:.2f}")
        elif self.dispersion > OVERDISPERSED:
            said.append(
                f"counts vary {self.dispersion:.2g} times as much as Poisson ones, which favours too many topics; "
                f"use {parameter('overdispersion', 'estimate')}"
            )
        if self.folds_done < self.folds:
            said.append(f"{self.folds_done} of {self.folds} folds are finished")
        if unfinished > 0:
            said.append(f"{unfinished:.0%} of the fits did not converge; raise max_iter or tol of the model")
        return said


def compared(
    numbers: list[int], scores: Floats, *, held_out: float, fits: dict[str, Floats], worth: float, about: Record
) -> Choice:
    """Of scores by fold, K and sample, and of what the fits of every fold and K came to."""
    by_sample = scores.sum(axis=0)
    totals = by_sample.sum(axis=1)
    top = int(np.argmax(totals))  # the first, and so the smallest, of equals
    errors = paired_errors(scores, top)
    delta = totals - totals[top]
    gains = np.append(np.nan, np.diff(totals) / np.diff(numbers)) / held_out * 1000
    table = pd.DataFrame(
        {
            "topics": numbers,
            "perplexity": np.exp(-totals / held_out),
            "delta": delta,
            "error": errors,
            "gain": gains,
            "loglik": fits["loglik"].mean(axis=0),
            "lightest": [row[:, K - 1].mean() for K, row in zip(numbers, fits["shares"].swapaxes(0, 1), strict=True)],
            "converged": fits["converged"].mean(axis=0),
            "seconds": fits["seconds"].sum(axis=0),
        }
    )
    within = one_standard_error(delta, errors)
    return Choice(
        table=table,
        best=numbers[top],
        suggested=numbers[within],
        worthwhile=_last_worth(numbers, gains, worth),
        worth=worth,
        shares=fits["shares"].mean(axis=0),
        scores=by_sample,
        held_out=held_out,
        folds_done=len(scores),
        **about,
    )


def paired_errors(scores: Floats, top: int) -> Floats:
    """Of every K's total less that of the top one: by sample, or by fold where samples are few."""
    differences = scores - scores[:, [top]]
    folds, _, n = differences.shape
    apart = differences.sum(axis=0) if n >= FEW_SAMPLES or folds == 1 else differences.sum(axis=2).T
    return np.sqrt(apart.shape[1]) * apart.std(axis=1, ddof=1)


def one_standard_error(delta: Floats, errors: Floats) -> int:
    """The place of the first, so the least, K that is no further below the best than its error."""
    return int(np.flatnonzero(delta >= -errors)[0])


def _last_worth(numbers: list[int], gains: Floats, worth: float) -> int | None:
    """The number after which gains are small next to the first one."""
    if len(numbers) < 3 or not gains[1] > 0:
        return None
    small = np.flatnonzero(gains[2:] < worth * gains[1])
    return numbers[small[0] + 1] if len(small) else None


# How many topics? As many as predict best what the fit has not seen.
#
# Every count is given to one of R folds at random, once for all K (`Counts.thinned`). For every fold and K, a fit of the other
# folds, of rates λ, predicts the counts of the fold. Each is predicted once; those of sample i have the log probability
#
#     s_i(K) = Σ_r Σ_j x_ij^(r) log[(λ_ij + κ q_j) / (λ_i+ + κ)],        q_j ∝ ½ + Σ_i x_ij of the other folds
#
# One count per sample, κ = 1, of what all samples have in common keeps what a topic lacks from being impossible, for all K
# equally. Fits of a fold are a path that begins in that fold: one that began with a fit of all counts would have seen what it
# predicts.

POOLED = 1.0  # κ
FINE_ENOUGH = 1e-5  # what remains to be gained, per count, where no model is given
HELD_OUT_ONCE = (1, 4)  # of a single fold: what is held out, and what is fitted
LARGEST_TAKES = 5  # times as long as the next one: it is searched for, the others are merged
COUNTS_A_FOLD = 10
AFFORDABLE = 1e6  # counts × topics whose evidence is worked out


def choose_topics(
    X: CountsLike,
    topics: Iterable[int] = range(1, 21),
    estimator: CountsEstimator | None = None,
    *,
    folds: int = 5,
    overdispersion: float | Literal["estimate"] | None = None,
    worth: float = 0.01,
    random_state: Seed = None,
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    batch: Any = None,
    opportunities: Any = None,
    verbose: bool = False,
) -> Choice:
    """How well fits with more and more topics predict counts that they have not seen, and which number that suggests.

    Ctrl-C keeps the finished folds; `status` is then "interrupted".

    Parameters
    ----------
    X : Counts or array-like
        Counts: anything that `Counts` takes; whole numbers.
    topics : iterable of int, default=range(1, 21)
        Numbers of topics to try, in any order.
    estimator : estimator, default=None
        None is `TopicModel(tol=1e-5)`: fits need not be finer than errors. The answer is one for this model: one with smooth
        topics, such as `LDA(eta=0.1)`, bears more.
    folds : int, default=5
        Number of cross-validation folds. Each part of the counts is predicted from the others; with 1, a fifth is, once.
    overdispersion : float or "estimate", default=None
        B or "estimate", for counts of variance μ + μ²/B. Without it, what such counts have in common in all folds passes for
        topics. "estimate" finds b from samples and features that no fit has seen. None for Poisson counts.
    worth : float, default=0.01
        Fraction of the first gain that one more topic must gain. `worthwhile` is the number after which it gains less.
    random_state : int, Generator or RandomState, default=None
        Seed of how counts are split and of the fits.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    checkpoint : str or PathLike, default=None
        A file in which finished folds are kept, so that the same call continues with the rest.
    batch : str or array-like, default=None
        A column of the metadata, or a label per sample: fits of all numbers estimate effects of
        batches, as `TopicModel.fit` does.
    opportunities : array-like, sparse matrix or DataFrame, default=None
        Known multipliers of rates, as in `TopicModel.fit`.
    verbose : bool, default=False
        Whether to write to stderr how many fits are finished, and about how long the others will take.

    Returns
    -------
    Choice
        `suggested`, `best`, `table`, and `advice()` as text. Of an `AllocationModel` the table has the evidence log p(X) too,
        where counts are few enough for it to be worked out.

    Raises
    ------
    ValueError
        If counts are not whole numbers, a number of topics is not one, or `checkpoint` has no seed to resume with, or holds
        other folds.

    See Also
    --------
    plot.choice : The figure.
    stability : Which of the topics are stable.
    fit_path : The fits themselves.

    Examples
    --------
    >>> import unmix as um
    >>> choice = um.choose_topics(um.datasets.correlated_topics("A"), range(4, 9), folds=2, random_state=0)
    >>> choice.suggested, choice.best
    (6, 6)
    """
    counts, numbers = _checked(X, topics, folds, worth)
    folds, model = int(folds), _model(estimator, n_jobs)
    counts = multiplied(model, counts, batch, opportunities)
    if counts.multipliers is not None and overdispersion == "estimate":
        raise ValueError('overdispersion="estimate" does not support batch or opportunities; use None or a number')
    if checkpoint is not None and random_state is None:
        raise ParameterError("random_state", None, f"use a number, which {parameter('checkpoint')} needs")
    seed = int(generator(random_state).integers(2**31))
    with quietly():
        b = _overdispersion(overdispersion, counts, numbers, model.n_jobs, seed)
        progress = Progress("fits").begun(0, folds * len(numbers)) if verbose else None
        study = _Study(counts, numbers, model, folds, b, seed, progress)
        of = study.about() | {"overdispersion": overdispersion}
        with nullcontext() if progress is None else progress:
            parts, status = in_parts(range(folds), study.fold, checkpoint=checkpoint, of=of)
    done = [part for part in parts if part is not None]
    phi = Dispersion.added(part["dispersion"] for part in done).phi
    if b is None:  # the other folds have fewer counts, and so vary less: φ − 1 is in proportion to them
        phi = 1 + (phi - 1) * (1 + 1 / (folds - 1) if folds > 1 else sum(HELD_OUT_ONCE) / HELD_OUT_ONCE[1])
    choice = compared(
        numbers,
        np.stack([part["scores"] for part in done]),
        held_out=float(sum(part["held_out"][0] for part in done)),
        fits={name: np.stack([part[name] for part in done]) for name in ("loglik", "shares", "seconds", "converged")},
        worth=float(worth),
        about={
            "folds": folds,
            "status": status,
            "dispersion": phi,
            "overdispersion": b,
            "model": type(model).__name__,
            "samples": counts.shape[0],
            "seed": seed,
        },
    )
    if isinstance(model, AllocationModel) and counts.total * sum(numbers) <= AFFORDABLE:
        return replace(choice, table=choice.table.assign(**_evidence(counts, numbers, model, seed)))
    return choice


@dataclass(frozen=True)
class _Study:
    """All folds are of one labelling; each has a seed of its own."""

    X: Counts
    numbers: list[int]
    model: CountsEstimator
    folds: int
    b: float | None
    seed: int
    progress: Progress | None

    def about(self) -> Record:
        """What a file of finished folds has to agree with."""
        given = {name: str(value) for name, value in self.model.get_params().items() if name not in IRRELEVANT}
        given |= digests_of(self.model)
        about = checked_by(self.X) | {"model": type(self.model).__name__, "parameters": given}
        return about | {"topics": self.numbers, "folds": self.folds, "seed": self.seed}

    @cached_property
    def parts(self) -> list[Counts]:
        """The counts of each fold."""
        shares = HELD_OUT_ONCE if self.folds == 1 else self.folds
        return self.X.thinned(shares, np.random.default_rng([self.seed, 0]), overdispersion=self.b)

    def fold(self, place: int) -> Arrays:
        """What this fold says of every K, in their order."""
        test = self.parts[place]
        train = _rest(self.X, test)
        if train.total == 0:
            raise ValueError(f"fold {place + 1} holds all counts; use more counts, or fewer folds")
        model = clone(self.model).set_params(random_state=self.seed + 1 + place)
        found: dict[int, Arrays] = {}
        began = perf_counter()
        for K, fit in fits_downwards(train, self.numbers, model):
            with use_threads(self.model.n_jobs):
                found[K] = self._judged(fit, train, test)
            found[K]["seconds"] = np.array(perf_counter() - began)
            began = perf_counter()
            if self.progress is not None:
                self.progress(place * len(self.numbers) + len(found), *self._remaining(place, found))
        largest = found[max(found)]
        kept = {name: np.stack([found[K][name] for K in self.numbers]) for name in found[min(found)] if name in KEPT}
        return kept | {"dispersion": largest["dispersion"], "held_out": np.array([test.total])}

    def _remaining(self, place: int, found: dict[int, Arrays]) -> tuple[int, float]:
        """How many fits there are in all, and about how many seconds those that are not finished will take."""
        takes = {K: K + 1.0 for K in self.numbers} | {max(self.numbers): LARGEST_TAKES * (max(self.numbers) + 1.0)}
        done, seconds = (sum(value) for value in zip(*((takes[K], found[K]["seconds"]) for K in found), strict=True))
        left = (self.folds - place) * sum(takes.values()) - done
        return self.folds * len(self.numbers), float(seconds / done * left)

    def _judged(self, fit: Fit, train: Counts, test: Counts) -> Arrays:
        shares = np.zeros(max(self.numbers))
        shares[: fit.n_topics] = np.sort(fit.shares)[::-1]
        found = {
            "scores": foretold(fit, train, test),
            "loglik": np.array(fit.loglik),
            "shares": shares,
            "converged": np.array(fit.status == "converged"),
        }
        if fit.n_topics == max(self.numbers):
            found["dispersion"] = np.array(around_fit(train, fit.L, fit.F, fit.rates))
        return found


IRRELEVANT = ("n_jobs", "n_components", "random_state", "verbose", "callbacks")
KEPT = ("scores", "loglik", "shares", "seconds", "converged")


def _evidence(X: Counts, numbers: list[int], model: AllocationModel, seed: int) -> dict[str, list[float]]:
    """log p(X) of all counts, everything but K integrated out, and its standard error."""
    found = [
        clone(model).set_params(n_components=K).log_evidence(X, random_state=np.random.default_rng([seed, 2, K]))
        for K in numbers
    ]
    return {"evidence": [float(one) for one in found], "evidence_error": [one.standard_error for one in found]}


def foretold(fit: Fit, train: Counts, test: Counts, pooled: float = POOLED) -> Floats:
    """The log probability of each sample's counts in `test`, given a fit of `train`: what all have in common is a topic
    more."""
    common = train.feature_totals + 0.5
    L = np.column_stack([fit.L, np.full(len(fit.L), pooled)])
    F = np.column_stack([fit.F, common / common.sum()])
    left, e = test.sides().left, fit.multipliers
    if e is None:
        return left.xlogs(L, F) - test.sample_totals * np.log(L @ F.sum(axis=0))
    groups, n = fit.rates["groups"], len(fit.L)
    of_counts = xlogy(test.rows.data, e[groups[left.owners], test.rows.indices])
    sizes = (L * (e @ F)[groups]).sum(axis=1)
    return left.xlogs(L, F) + np.bincount(left.owners, of_counts, n) - test.sample_totals * np.log(sizes)


def _rest(X: Counts, part: Counts) -> Counts:
    """What is left of counts without a part of them."""
    rest = X.csr - part.csr
    rest.eliminate_zeros()
    return Counts.trusted(rest, X.samples, X.features, X.metadata).with_multipliers(X.multipliers)


def _overdispersion(given: Any, X: Counts, numbers: list[int], n_jobs: int | None, seed: int) -> float | None:
    if given is None:
        return None
    if not isinstance(given, str) or given != "estimate":
        return positive("overdispersion", given, 'use None, a number b > 0, or "estimate"')
    return estimated_overdispersion(X, numbers, np.random.default_rng([seed, 1]), n_jobs)


def _model(estimator: CountsEstimator | None, n_jobs: int | None) -> CountsEstimator:
    if not isinstance(estimator, CountsEstimator | None):
        raise ParameterError("estimator", estimator, "use one of unmix, such as unmix.TopicModel()")
    model = TopicModel(tol=FINE_ENOUGH) if estimator is None else clone(estimator)
    if not isinstance(model.init, str):
        raise ValueError(
            "the estimator has an init made elsewhere, which may have seen the counts that are held out; leave init alone"
        )
    refuse_new(model, "choose_topics")
    quiet = {"callbacks": (), "verbose": False} | ({} if n_jobs is None else {"n_jobs": n_jobs})
    return model.set_params(**quiet)


def _checked(X: CountsLike, topics: Iterable[int], folds: int, worth: float) -> tuple[Counts, list[int]]:
    topics = list(topics) if isinstance(topics, Iterable) and not isinstance(topics, str) else topics
    numbers, given = numbers_of_topics(topics), list(topics)
    if not numbers:
        raise ValueError("topics is empty; use numbers of topics to try, such as range(1, 21)")
    if len(numbers) < len(given):
        again = next(K for K in numbers if given.count(K) > 1)
        raise ValueError(f"topics has {again} twice; use every number once")
    whole("folds", folds, 1)
    share("worth", worth, "use a part of the first gain, between 0 and 1", zero=True)
    counts = counts_in_memory(X, "choose_topics", sample=True)
    counts.require_whole("choosing a number of topics")
    n, m = counts.shape
    if n < 2:
        raise ValueError("there is one sample; a number of topics is chosen by comparing samples, so give at least two")
    if counts.total < COUNTS_A_FOLD * folds:
        raise ValueError(
            f"there are {counts.total:g} counts in total, for folds={folds}; use at least {COUNTS_A_FOLD} counts per fold"
        )
    possible = [K for K in numbers if min(n, m) >= K]
    if not possible:
        raise ValueError(f"topics has no number up to {min(n, m)}, of {n} samples and {m} features; use smaller ones")
    if len(possible) < len(numbers):
        left = ", ".join(map(str, numbers[len(possible) :]))
        warn(f"topics {left} ignored: there are {n} samples and {m} features")
    return counts, possible
