"""How many topics? As many as foretell best what the fit has not seen.

Every count is given to one of R folds at random, once for all K (`Counts.thinned`). For every fold and K, a fit of the other
folds, of rates λ, foretells the counts of the fold. Each is foretold once; those of sample i have the log probability

    s_i(K) = Σ_r Σ_j x_ij^(r) log[(λ_ij + κ q_j) / (λ_i+ + κ)],        q_j ∝ ½ + Σ_i x_ij of the other folds

One count a sample, κ = 1, of what all samples have in common keeps what a topic lacks from being impossible, for all K alike.
Fits of a fold are a path that begins in that fold: one that began with a fit of all counts would have seen what it foretells.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from numbers import Integral, Real
from time import perf_counter
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from unmix.analysis.choice import Choice, compared
from unmix.analysis.dispersion import Dispersion, around_fit, estimated_overdispersion
from unmix.analysis.results import in_parts
from unmix.counts import Counts, CountsLike
from unmix.estimators.allocation import AllocationModel
from unmix.estimators.base import CountsEstimator, generator
from unmix.estimators.path import fits_downwards, numbers_of_topics
from unmix.estimators.topic_model import TopicModel
from unmix.fit import Fit
from unmix.format import Arrays
from unmix.shards import Shards
from unmix.threads import use_threads
from unmix.types import Floats, Record, Seed

POOLED = 1.0  # κ
FINE_ENOUGH = 1e-5  # what is left to gain, per count, where no model is given
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
    keep: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> Choice:
    """How well fits with more and more topics foretell counts that they have not seen, and which number that suggests.

    Of an `AllocationModel` the table has the evidence log p(X) too, where counts are few enough for it to be worked out.
    Ctrl-C ends it with what the finished folds say; `status` is then "interrupted".

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
        Parts into which the counts are dealt, each foretold from the others. With 1, a fifth of the counts is foretold, once.
    overdispersion : float or "estimate", default=None
        b, if the variance of a count of mean μ is μ + μ²/b: without it, what such counts have in common in all folds passes for
        topics. "estimate" finds b from samples and features that no fit has seen. None for Poisson counts.
    worth : float, default=0.01
        `worthwhile` is the number after which one more topic gains less than this part of what the first gained.
    random_state : int, Generator or RandomState, default=None
        Seed of how counts are dealt and of the fits.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    keep : str or PathLike, default=None
        A file in which finished folds are kept, so that the same call goes on with the rest.
    verbose : bool, default=False
        Show a progress bar.

    Returns
    -------
    Choice
        `suggested`, `best`, `table`, and `advice()` in words.

    Raises
    ------
    ValueError
        If counts are not whole numbers, a number of topics is not one, or `keep` has no seed to go on with, or holds other
        folds.

    See Also
    --------
    plot.choice : The picture.
    stability : Which of the topics hold.
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
    if keep is not None and random_state is None:
        raise ValueError("random_state=None with keep: give a number, or nobody could go on with what is kept")
    seed = int(generator(random_state).integers(2**31))
    with _quiet(), _Bar(verbose, numbers, folds) as bar:
        b = _overdispersion(overdispersion, counts, numbers, model.n_jobs, seed)
        study = _Study(counts, numbers, model, folds, b, seed, bar)
        of = study.about() | {"overdispersion": overdispersion}
        parts, status = in_parts(range(folds), study.fold, keep=keep, of=of)
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
    bar: _Bar

    def about(self) -> Record:
        """What a file of finished folds has to agree with."""
        given = {name: str(value) for name, value in self.model.get_params().items() if name not in IRRELEVANT}
        return {
            "data": self.X.facts["checksum"],
            "topics": self.numbers,
            "model": type(self.model).__name__,
            "parameters": given,
            "folds": self.folds,
            "seed": self.seed,
        }

    def fold(self, place: int) -> Arrays:
        """What this fold says of every K, in their order."""
        shares = HELD_OUT_ONCE if self.folds == 1 else self.folds
        labels = np.random.default_rng([self.seed, 0])
        test = self.X.thinned(shares, labels, overdispersion=self.b)[place]
        train = _rest(self.X, test)
        if train.total == 0:
            raise ValueError(f"fold {place + 1} holds all counts; give more counts, or fewer folds")
        model = clone(self.model).set_params(random_state=self.seed + 1 + place)
        found: dict[int, Arrays] = {}
        began = perf_counter()
        for K, fit in fits_downwards(train, self.numbers, model):
            with use_threads(self.model.n_jobs):
                found[K] = self._judged(fit, train, test)
            self.bar.advance(place, K)
            found[K]["seconds"] = np.array(perf_counter() - began)
            began = perf_counter()
        largest = found[max(found)]
        kept = {name: np.stack([found[K][name] for K in self.numbers]) for name in found[min(found)] if name in KEPT}
        return kept | {"dispersion": largest["dispersion"], "held_out": np.array([test.total])}

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
            found["dispersion"] = np.array(around_fit(train, fit.L, fit.F))
        return found


IRRELEVANT = ("n_jobs", "n_components", "random_state", "verbose", "callbacks", "engine")
KEPT = ("scores", "loglik", "shares", "seconds", "converged")


def _evidence(X: Counts, numbers: list[int], model: AllocationModel, seed: int) -> dict[str, list[float]]:
    """log p(X) of all counts, everything but K integrated out, and its standard error."""
    found = [
        clone(model).set_params(n_components=K).log_evidence(X, random_state=np.random.default_rng([seed, 2, K]))
        for K in numbers
    ]
    return {"evidence": [float(one) for one in found], "evidence_error": [one.standard_error for one in found]}


def foretold(fit: Fit, train: Counts, test: Counts, pooled: float = POOLED) -> Floats:
    """The log probability of each sample's counts in `test`, given a fit of `train`: what all have in common is a topic more."""
    common = train.feature_totals + 0.5
    L = np.column_stack([fit.L, np.full(len(fit.L), pooled)])
    F = np.column_stack([fit.F, common / common.sum()])
    return test.sides().left.xlogs(L, F) - test.sample_totals * np.log(L @ F.sum(axis=0))


def _rest(X: Counts, part: Counts) -> Counts:
    """What is left of counts without a part of them."""
    rest = X.csr - part.csr
    rest.eliminate_zeros()
    return Counts.trusted(rest, X.samples, X.features)


def _overdispersion(given: Any, X: Counts, numbers: list[int], n_jobs: int | None, seed: int) -> float | None:
    if given is None:
        return None
    if isinstance(given, int | float | np.number) and not isinstance(given, bool) and 0 < given < inf:
        return float(given)
    if not isinstance(given, str) or given != "estimate":
        raise ValueError(f'overdispersion={given!r}; give None, a number b > 0, or "estimate"')
    return estimated_overdispersion(X, numbers, np.random.default_rng([seed, 1]), n_jobs)


def _model(estimator: CountsEstimator | None, n_jobs: int | None) -> CountsEstimator:
    if not isinstance(estimator, CountsEstimator | None):
        raise ValueError(f"estimator={estimator!r}; give one of unmix, such as unmix.TopicModel()")
    model = TopicModel(tol=FINE_ENOUGH) if estimator is None else clone(estimator)
    if not isinstance(model.init, str):
        raise ValueError(
            "the estimator has an init made elsewhere, which may have seen the counts that are held out; leave init alone"
        )
    quiet = {"callbacks": (), "verbose": False} | ({} if n_jobs is None else {"n_jobs": n_jobs})
    return model.set_params(**quiet)


def _checked(X: CountsLike, topics: Iterable[int], folds: int, worth: float) -> tuple[Counts, list[int]]:
    if isinstance(X, Shards):
        raise ValueError("choose_topics takes counts in memory; give shards.sample, the samples that fits start from")
    if isinstance(topics, Integral | str) or not isinstance(topics, Iterable):
        raise ValueError(f"topics={topics!r}; give several numbers of topics, such as range(1, 21)")
    given = list(topics)
    numbers = numbers_of_topics(given)
    if not numbers:
        raise ValueError("topics is empty; give numbers of topics to try, such as range(1, 21)")
    if len(numbers) < len(given):
        again = next(K for K in numbers if given.count(K) > 1)
        raise ValueError(f"topics has {again} twice; give every number once")
    if not isinstance(folds, Integral) or isinstance(folds, bool) or folds < 1:
        raise ValueError(f"folds={folds!r}; give a whole number >= 1")
    if not isinstance(worth, Real) or not 0 <= worth < 1:
        raise ValueError(f"worth={worth!r}; give a part of the first gain, between 0 and 1")
    counts = X if isinstance(X, Counts) else Counts(X)
    counts.require_whole("choosing a number of topics")
    n, m = counts.shape
    if n < 2:
        raise ValueError("there is one sample; a number of topics is chosen by comparing samples, so give at least two")
    if counts.total < COUNTS_A_FOLD * folds:
        raise ValueError(
            f"there are {counts.total:g} counts in all, for folds={folds}; give at least {COUNTS_A_FOLD} counts a fold"
        )
    possible = [K for K in numbers if min(n, m) >= K]
    if not possible:
        raise ValueError(f"topics has no number up to {min(n, m)}, of {n} samples and {m} features; give smaller ones")
    if len(possible) < len(numbers):
        left = ", ".join(map(str, numbers[len(possible) :]))
        warnings.warn(f"topics {left} left out: there are {n} samples and {m} features", UserWarning, stacklevel=3)
    return counts, possible


@contextmanager
def _quiet() -> Iterator[None]:
    """Fits that were not finished are counted, and told of in the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


class _Bar:
    """A line in the terminal: which fold, which K, time spent and about how much is left."""

    def __init__(self, wanted: bool, numbers: list[int], folds: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        takes = {K: K + 1.0 for K in numbers} | {max(numbers): LARGEST_TAKES * (max(numbers) + 1.0)}
        self._takes, self._folds = takes, folds
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
        left = TimeRemainingColumn(elapsed_when_finished=False)
        self._bar = Progress(
            *columns,
            left,
            TextColumn("left"),
            console=Console(stderr=True, quiet=not wanted),  # rich 13 ends even a disabled bar with a line
            transient=True,
            disable=not wanted,
            speed_estimate_period=3600,  # fits are far apart
        )
        self._task = self._bar.add_task("starting", total=folds * sum(takes.values()))

    def advance(self, fold: int, K: int) -> None:
        before = fold * sum(self._takes.values())
        done = before + sum(takes for other, takes in self._takes.items() if other >= K)
        self._bar.update(
            self._task, completed=done, description=f"fold {fold + 1} of {self._folds}, {K} topic{'s' * (K > 1)} done"
        )

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
