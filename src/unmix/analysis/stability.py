"""Which topics are recovered: `stability` and `consensus`, on one model fitted many times.

One model refitted and again, each time from scratch and to counts with noise of their own.

Two halves of the counts, each count in one of them at random, are independent data where counts are Poisson: what both have
found is not the noise of either. Resampled, x ~ Poisson(x), counts have their noise twice. As they are, only the
search differs.

    run r of seed s:   random_state = s + r,   half r mod 2 of split ⌊(r − 1) / 2⌋,   r = 1, 2, …
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from unmix.analysis.application import (
    FitLike,
    checked_by,
    counts_in_memory,
    fit_of,
    multiplied,
    refuse_known,
    refuse_multipliers,
)
from unmix.analysis.features import topic_names
from unmix.analysis.results import FileLayout, Finished, Result, columns, in_parts
from unmix.base.checks import ParameterError, choice, parameter, warn, whole
from unmix.base.progress import Progress
from unmix.base.types import Floats, Integers, Names, Record, Seed, order_by_name
from unmix.counts.counts import Counts, CountsLike
from unmix.estimators.base import CountsEstimator, generator
from unmix.estimators.known import digests_of, names_of
from unmix.estimators.likelihood import PoissonNMF, TopicModel
from unmix.fit import Fit, finished, quietly
from unmix.models.poisson import affinities, best_pairs, column_shares, loglik
from unmix.storage.tensors import Arrays

Noise = Literal["halves", "bootstrap", "none"]
FEATURES_AT_ONCE = 4096  # whose roots are in memory in double precision
NOT_OF_THE_RESULT = {"callbacks", "init", "n_jobs", "random_state", "verbose"}  # or distinguished from the others

Topics = NDArray[np.floating[Any]]


class Runs(NamedTuple):
    """A reference, as a fit of one sample that has all counts, and the topics of all finished runs, each in its order."""

    reference: Fit
    found: list[Topics]
    unfinished: int  # fits that ended before they had converged
    status: Finished


def repeated(
    X: CountsLike,
    n_components: int,
    runs: int,
    noise: Noise,
    estimator: CountsEstimator | None,
    reference: Fit | None,
    random_state: Seed,
    n_jobs: int | None,
    checkpoint: str | os.PathLike[str] | None,
    verbose: bool,
) -> Runs:
    """`runs` fits, and one of all counts as they are unless a reference is given."""
    counts = checked_counts(X, runs, noise)
    model = checked_model(estimator, n_components, n_jobs)
    if reference is not None:
        if getattr(model, "new", None) is None:  # which finds allowed topics itself
            refuse_known(reference, "stability", "allowed")
        if not names_of(model):
            refuse_known(reference, "stability without known or seeds in the estimator")
        counts = counts_like(reference, counts, n_components)
    seed = seed_of(model.random_state if random_state is None else random_state, checkpoint)
    noisy = _noisy(counts, noise, seed)

    def work(run: int) -> Arrays:
        if run == 0:
            return {} if reference is not None else _fitted(model, counts, seed)
        return _fitted(model, noisy(run), seed + run)

    # not how many: a file of fewer runs, or of more, is as good
    of = checked_by(counts) | {"noise": noise, "seed": seed, "model": _told(model)}
    parts, _ = in_parts(
        range(runs + 1), work, checkpoint=checkpoint, of=of, progress=Progress("fits") if verbose else None
    )
    done = [part for part in parts[1:] if part is not None]
    if not done:
        raise KeyboardInterrupt
    # none was kept where an earlier call was given one
    first = _arrays(reference) if reference is not None else parts[0] or _fitted(model, counts, seed)
    unfinished = sum(int(part["unfinished"][0]) for part in [first, *done])
    found = [in_order(part["topics"], first["topics"]) for part in done]
    features = counts.features if counts.features is not None or reference is None else reference.features
    names = names_of(model) if reference is None else reference.names
    whole_fit = _of_all(first, features)
    if names is not None and any(names):
        whole_fit = whole_fit.with_names([*names, *[""] * (n_components - len(names))])
    return Runs(whole_fit, found, unfinished, "finished" if len(done) == runs else "interrupted")


def in_order(topics: Topics, like: Topics) -> Topics:
    """Columns where the other matrix has those most like them; it has as many."""
    pairs = best_pairs(affinities(like.astype(np.float64), topics.astype(np.float64)))
    return topics[:, [pairs[k] for k in range(len(pairs))]]


def distances_between(found: list[Topics]) -> Floats:
    """Hellinger distances of all columns of all matrices, those of the first first."""
    wide = sum(topics.shape[1] for topics in found)
    shared = np.zeros((wide, wide))
    for start in range(0, len(found[0]), FEATURES_AT_ONCE):
        rows = slice(start, start + FEATURES_AT_ONCE)
        roots = np.sqrt(np.hstack([topics[rows].astype(np.float64) for topics in found]))
        shared += roots.T @ roots
    norms = np.sqrt(shared.diagonal())
    distances = np.sqrt(np.clip(1 - shared / norms / norms[:, None], 0, 1))
    np.fill_diagonal(distances, 0)
    return distances


def checked_model(estimator: CountsEstimator | None, n_components: int, n_jobs: int | None) -> CountsEstimator:
    """A copy of the estimator with that many topics, which starts from scratch."""
    whole("n_components", n_components, 1, "use a whole number of topics >= 1")
    model = clone(TopicModel() if estimator is None else estimator).set_params(n_components=int(n_components))
    if getattr(model, "new", None) is not None and (G := len(names_of(model))) + model.new != n_components:
        raise ParameterError("n_components", n_components, f"use {G + model.new}, {G} known topics and {model.new} new")
    if not isinstance(model.init, str):
        raise ValueError('the estimator has a start in init, in which all runs would agree; use one with init="auto"')
    return model if n_jobs is None else model.set_params(n_jobs=n_jobs)


def checked_counts(X: CountsLike, runs: int, noise: str) -> Counts:
    whole("runs", runs, 2, "use a whole number >= 2: one run has nothing to agree with")
    choice("noise", noise, get_args(Noise))
    counts = counts_in_memory(X, "stability")
    if len(counts) < 2:
        raise ValueError("there is one sample only, in which topics cannot be distinguished; use at least 2")
    if noise == "halves":
        counts.require_whole('noise="halves"', 'or give noise="bootstrap" or "none"')
    return counts


def counts_like(reference: Fit, counts: Counts, n_components: int) -> Counts:
    """The counts with their features in the order of the reference."""
    if reference.n_topics != n_components:
        raise ParameterError("n_components", n_components, f"use {reference.n_topics}, as the reference has")
    known, given = (reference.features, len(reference.F)), (counts.features, counts.shape[1])
    columns = order_by_name("feature", known, given, reorder=True)
    return counts if columns is None else counts.take(features=columns)


def seed_of(random_state: Seed, checkpoint: str | os.PathLike[str] | None) -> int:
    """The number that all runs follow from."""
    if random_state is None and checkpoint is not None:
        raise ParameterError("random_state", None, f"use a number, which {parameter('checkpoint')} needs")
    if isinstance(random_state, np.random.Generator | np.random.RandomState | None):
        return int(generator(random_state).integers(2**31))
    return int(random_state)


def _noisy(counts: Counts, noise: Noise, seed: int) -> Callable[[int], Counts]:
    """The counts of each run, from 1."""

    @lru_cache(maxsize=1)  # the second half of a split is asked for after the first
    def halves(split: int) -> list[Counts]:
        return counts.thinned(2, np.random.default_rng([seed, split]))

    def drawn(run: int) -> Counts:
        return counts.with_values(np.random.default_rng([seed, run]).poisson(counts.rows.data).astype(np.float64))

    if noise == "none":
        return lambda run: counts
    return drawn if noise == "bootstrap" else lambda run: halves((run - 1) // 2)[(run - 1) % 2]


def _fitted(model: CountsEstimator, counts: Counts, seed: int) -> Arrays:
    with quietly():  # a warning counts those of all runs
        return _arrays(finished(clone(model).set_params(random_state=seed).fit(counts).result_))


def _arrays(fit: Fit) -> Arrays:
    """What is kept of a run. In single precision, as there are many and a distance has no more than four good digits."""
    unfinished = fit.status != "converged" and fit.params.get("tol", 1) > 0
    return {
        "topics": fit.topics.astype(np.float32),
        "weights": fit.sizes @ fit.proportions,
        "loglik": np.array([fit.loglik]),
        "unfinished": np.array([int(unfinished)]),
    }


def _of_all(arrays: Arrays, features: Names | None) -> Fit:
    """All samples as one: it has the topics, their shares, their names and the log-likelihood of the fit."""
    topics = PoissonNMF.from_factors(arrays["topics"], features=features).result_
    return replace(topics, L=arrays["weights"][None], loglik=float(arrays["loglik"][0]))


def _told(model: CountsEstimator) -> dict[str, str]:
    """What the runs are runs of, by which to know them again."""
    told = {name: repr(value) for name, value in model.get_params().items() if name not in NOT_OF_THE_RESULT}
    return {"model": type(model).__name__} | told | digests_of(model)


# Which topics are recovered: in fits to halves of the counts, each from scratch.
#
# With H the Hellinger distance, c_k the topics of a reference, the fit to all counts, and f_rk that topic of run r which is
# matched with c_k (one to one, so that Σ_k H² is the smallest there is),
#
#     stability_k = mean_r 1 − H(c_k, f_rk)
#     recall_k    = share of pairs of runs r ≠ s in which none of the topics of s is nearer to f_rk than f_sk is
#     margin_k    = mean_r (b − a) / max(a, b):   a the mean distance of f_rk to the f_sk of other runs,
#                                                 b the smallest mean distance to the f_sl of any l ≠ k     (Rousseeuw 1987)
#     floor_k     = the same as stability_k, of runs that have nothing in common with the reference: features of about the same
#                   frequency are exchanged at random
#
# The reference gives the topics of runs their names, and has a part in stability alone: it shares its noise with the halves. The
# noise of rare features adds the same to all distances of a topic: it lowers stability and margin, and leaves recall as it is.

STABLE = (0.25, 0.6)  # margin and recall of a topic that is recovered: at least both
UNSTABLE = (0.1, 0.5)  # of one that is not: less than either
EMPTY = 1e-6  # of all counts: such a topic has no features of its own
ALIKE = 20  # features of about the same frequency
SHUFFLED = 5  # runs, by which the floor is known to two digits
NEIGHBOURS = 0.3  # of the runs, whose distance is the local density (Kotliar et al. 2019)


@dataclass(frozen=True, eq=False, repr=False)
class Stability(Result):
    """What `stability` found.

    Attributes
    ----------
    table : DataFrame
        One row per topic: `topic` and `name` of the reference, its `share`, `stability`, `margin`, `recall`, `floor`, and a
        `verdict`: "stable", "unsure", "unstable" or "empty".
    similarity : array, runs × K
        One less the Hellinger distance of each topic from that of each run.
    distances : array, runs K × runs K
        Between all topics of all runs, those of the first run first, each run in the order of the table.
    noise : str
        "halves", "bootstrap" or "none".
    runs : int
        Asked for; `similarity` has those that finished.
    unfinished : int
        Fits that ended before they had converged.
    status : str
        "finished", or "interrupted" by Ctrl-C.

    See Also
    --------
    stability, plot.stability, consensus

    Examples
    --------
    >>> import unmix as um
    >>> found = um.stability([[90, 10, 0], [80, 20, 10], [0, 10, 70], [10, 0, 80]], 2, runs=4, random_state=0)
    >>> found.similarity.shape, found.table["verdict"].tolist()
    ((4, 2), ['stable', 'stable'])
    """

    LAYOUT: ClassVar = FileLayout(
        shapes={"similarity": "rK", "distances": "tt"},
        columns={"table": columns("topic share stability margin recall floor", texts="name verdict")},
    )

    table: pd.DataFrame
    similarity: Floats  # 1 − H of each run (rows) and topic (columns)
    distances: Floats  # between all topics of all runs, those of the first run first, each in the order of the table
    noise: Noise
    runs: int  # asked for; `similarity` has those that finished
    unfinished: int  # fits that ended before they had converged
    status: Finished

    VERDICTS: ClassVar = ("stable", "unsure", "unstable", "empty")

    @property
    def density(self) -> Floats:
        """array, runs K: the mean distance of each topic of each run to its nearest ones; low where dense.

        The nearest are as many as 0.3 of the runs.
        """
        near = min(max(1, int(NEIGHBOURS * len(self.similarity))), len(self.distances) - 1)
        return np.sort(self.distances, axis=1)[:, 1 : near + 1].sum(axis=1) / max(1, near)

    ANSWERS: ClassVar = True

    def advice(self) -> list[str]:
        """Which topics are stable, which do not, and what to do about it.

        Returns
        -------
        list of str
            How many are recovered first, then a sentence for each topic that is not.

        Examples
        --------
        >>> import unmix as um
        >>> found = um.stability([[90, 10, 0], [80, 20, 10], [0, 10, 70], [10, 0, 80]], 2, runs=4, random_state=0)
        >>> found.advice()
        ['2 of 2 topics are recovered from halves of the counts']
        """
        verdicts, finished = self.table["verdict"], len(self.similarity)
        again = {"halves": "halves of the counts", "bootstrap": "resampled counts", "none": "other starts"}[self.noise]
        said = [f"{(verdicts == 'stable').sum()} of {len(verdicts)} topics are recovered from {again}"]
        for row in self.table.itertuples():
            if row.verdict in ("unstable", "unsure"):
                said.append(
                    f"topic {row.name} is {row.verdict}: {row.recall:.0%} of pairs of runs agree on it; "
                    f"its margin is {row.margin:.2f}"
                )
            elif row.verdict == "empty":
                said.append(f"topic {row.topic} is empty")
        if not (verdicts == "stable").all():
            said.append("with fewer topics more of them may be stable; unmix.align shows which of them were split")
        if self.noise == "none":
            halves = parameter("noise", "halves")
            said.append(f"runs differ in their starts only: a topic made of noise can be found by all; see {halves}")
        if finished < self.runs:
            said.append(f"interrupted after {finished} of {self.runs} runs; continue with {parameter('checkpoint')}")
        if self.unfinished:
            said.append(f"{self.unfinished} of the fits did not converge; raise max_iter or tol of the model")
        return said


def stability(
    X: CountsLike,
    n_components: int,
    runs: int = 20,
    *,
    noise: Noise = "halves",
    estimator: CountsEstimator | None = None,
    reference: FitLike | None = None,
    random_state: Seed = None,
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    batch: Any = None,
    opportunities: Any = None,
    verbose: bool = False,
) -> Stability:
    """Which of the topics of a model would be recovered in other data of the same kind.

    The counts are divided at random into two halves, again and again, and each half is fitted from scratch. Ctrl-C keeps the
    runs that are finished.

    Parameters
    ----------
    X : Counts, Shards or array-like
        Counts: anything that `Counts` takes. Of shards, the sample that fits start from, with a warning if it is not all.
    n_components : int
        Number of topics.
    runs : int, default=20
        Number of fits to compare.
    noise : str, default="halves"
        Counts of each fit: halves, bootstrap or none. "halves": each pair of runs has a half of the counts each, as two
        independent data sets of half the depth would be.
        "bootstrap": each run has counts resampled, x ~ Poisson(x), which given their total is the multinomial of other
        programs. "none": all counts as they are, so that runs differ in their starts only.
    estimator : estimator, default=None
        What to fit; None is `TopicModel()`.
    reference : Fit, estimator or path, default=None
        Fit whose topics the runs are compared with. None is that of the estimator to all counts, with this `random_state`.
    random_state : int, Generator or RandomState, default=None
        Seed; None is the estimator's. Run r = 1, 2, … is fitted with `random_state + r`.
    n_jobs : int, default=None
        Threads of each fit. The result does not depend on it.
    checkpoint : str or PathLike, default=None
        A file for the runs that are finished, so that the same call, or one with more runs, continues with the rest;
        `consensus` uses the same runs.
    batch : str or array-like, default=None
        A column of the metadata, or a label per sample: all runs estimate effects of
        batches, as `TopicModel.fit` does.
    opportunities : array-like, sparse matrix or DataFrame, default=None
        Known multipliers of rates, as in `TopicModel.fit`.
    verbose : bool, default=False
        Whether to write to stderr how many fits are finished, and about how long the others will take.

    Returns
    -------
    Stability
        Its `table` has one row per topic, with a verdict.

    Raises
    ------
    ValueError
        If there are fewer than two runs or samples, halves are asked of fractions, or the reference is of other features.

    See Also
    --------
    consensus : A fit of the topics that are stable.
    plot.stability : The figure.
    choose_topics : How many topics there are.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[90, 10, 0], [80, 20, 10], [0, 10, 70], [10, 0, 80]]
    >>> um.stability(X, 2, runs=4, random_state=0).table[["topic", "recall", "verdict"]]
       topic  recall verdict
    0      1     1.0  stable
    1      2     1.0  stable
    """
    known = None if reference is None else fit_of(reference)
    X = counts_in_memory(X, "stability", sample=True)
    X = multiplied(checked_model(estimator, n_components, n_jobs), X, batch, opportunities)
    if known is not None and known.rates and X.multipliers is None:
        refuse_multipliers(known, "stability without batch or opportunities")
    done = repeated(X, n_components, runs, noise, estimator, known, random_state, n_jobs, checkpoint, verbose)
    similarity, _ = likeness(done.reference.topics, done.found)
    distances = distances_between(done.found)
    table = pd.DataFrame(
        {
            "topic": np.arange(1, n_components + 1),
            "name": topic_names(done.reference),
            "share": done.reference.shares,
            "stability": similarity.mean(axis=0),
            "margin": silhouettes(distances, n_components),
            "recall": recalls(distances, n_components),
            "floor": unrelated(done.reference, done.found),
        }
    )
    table["verdict"] = verdicts(table)
    found = Stability(table, similarity, distances, noise, int(runs), done.unfinished, done.status)
    if done.unfinished:
        warn(found.advice()[-1], ConvergenceWarning)
    return found


def likeness(reference: Floats, found: list[Topics]) -> tuple[Floats, NDArray[np.bool_]]:
    """Of topics in the reference's order: 1 − H, runs × K, and whether none of the reference is nearer than their own."""
    centres = np.sqrt(reference)
    similarity, nearest = [], []
    for topics in found:
        roots = np.sqrt(topics.astype(np.float64))
        shared = centres.T @ roots
        similarity.append(1 - np.sqrt(np.clip(((centres - roots) ** 2).sum(axis=0) / 2, 0, 1)))
        nearest.append(shared.diagonal() >= shared.max(axis=0))
    return np.array(similarity), np.array(nearest)


def silhouettes(distances: Floats, K: int) -> Floats:
    """(b − a) / max(a, b), the mean over runs, for each of K topics; NaN where there is one topic, or one run."""
    runs = len(distances) // K
    if K == 1 or runs == 1:
        return np.full(K, np.nan)
    means = distances.reshape(runs, K, runs, K).sum(axis=2)  # of each topic of each run to each cluster
    own = means[:, np.arange(K), np.arange(K)] / (runs - 1)
    means[:, np.arange(K), np.arange(K)] = np.inf
    other = means.min(axis=2) / runs
    larger = np.maximum(own, other)
    return (np.divide(other - own, larger, out=np.zeros_like(own), where=larger > 0)).mean(axis=0)


def recalls(distances: Floats, K: int) -> Floats:
    """The share of pairs of runs in which the topic of one is the nearest of all to that of the other; NaN for a single run."""
    runs = len(distances) // K
    if runs == 1:
        return np.full(K, np.nan)
    between = distances.reshape(runs, K, runs, K).transpose(0, 2, 1, 3)  # run, other run, topic, other topic
    found = between.diagonal(axis1=2, axis2=3) <= between.min(axis=3)
    return (found.sum(axis=(0, 1)) - runs) / (runs * (runs - 1))  # a run finds its own


def unrelated(reference: Fit, found: list[Topics]) -> Floats:
    """What `likeness` would be, on average, if runs had nothing but the frequencies of features in common with the
    reference."""
    rng = np.random.default_rng(0)
    pooled = reference.topics @ reference.shares
    ranks = np.argsort(-pooled, kind="stable")
    total = np.zeros(reference.n_topics)
    for topics in found[:SHUFFLED]:
        shuffled = np.empty_like(topics)
        for k in range(reference.n_topics):
            shuffled[ranks, k] = topics[ranks[_among_alike(len(ranks), rng)], k]
        total += likeness(reference.topics, [in_order(shuffled, reference.topics)])[0][0]
    return total / len(found[:SHUFFLED])


def _among_alike(m: int, rng: np.random.Generator) -> Integers:
    """An order of m places in which each stays in its own block."""
    return np.lexsort((rng.random(m), np.arange(m) // ALIKE))


def verdicts(table: pd.DataFrame) -> list[str]:
    """A single topic has no margin, and needs none. Of a single run nothing can be said."""
    margin, recall = (1.0 if len(table) == 1 else table["margin"]), table["recall"]
    stable = (margin >= STABLE[0]) & (recall >= STABLE[1])
    unstable = (margin < UNSTABLE[0]) | (recall < UNSTABLE[1])
    return np.select([table["share"] < EMPTY, stable, unstable], ["empty", "stable", "unstable"], "unsure").tolist()


# A fit whose topics many runs agree on.
#
# Runs, as in `stability`, are matched with centres c_k, which begin as the topics of the fit to all counts. Each run gives each
# centre exactly one topic, f_rk. Two steps take turns until nothing changes:
#
#     match       the pairs of each run that make Σ_k H²(c_k, f_rk) the smallest
#     centre      √c_k ∝ Σ_r √f_rk     over the kept runs: the distribution of the smallest Σ_r H²(c_k, f_rk)
#
# Neither can raise Σ_r Σ_k H² while all are kept. A run is kept for a topic if what it gives is nearer to that centre than to any
# other, so there is no threshold to choose; a centre that no run is kept for stays where it was.

MOST_ROUNDS = 100  # of matching; a handful is usual


def consensus(
    X: CountsLike,
    n_components: int,
    runs: int = 20,
    *,
    noise: Noise = "halves",
    estimator: CountsEstimator | None = None,
    polish: bool = True,
    random_state: Seed = None,
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> Fit:
    """A fit of topics that were recovered and again, in halves of the counts.

    Ctrl-C keeps the runs that are finished.

    Parameters
    ----------
    X : Counts or array-like
        Counts: anything that `Counts` takes.
    n_components : int
        Number of topics.
    runs : int, default=20
        Number of fits to compare.
    noise : str, default="halves"
        "halves", "bootstrap" or "none", as in `stability`.
    estimator : estimator, default=None
        What to fit; None is `TopicModel()`.
    polish : bool, default=True
        Whether to fit the model to all counts from the consensus on. If not, topics are the consensus itself, and loadings the
        most likely ones given these: less likely, and the mean of what runs have found.
    random_state : int, Generator or RandomState, default=None
        Seed; None is the estimator's.
    n_jobs : int, default=None
        Threads of each fit. The result does not depend on it.
    checkpoint : str or PathLike, default=None
        A file for the runs that are finished, so that the same call continues with the rest; `stability` uses the same runs.
    verbose : bool, default=False
        Whether to write to stderr how many fits are finished, and about how long the others will take.

    Returns
    -------
    Fit
        `fit.data["consensus"]` says of each topic how many runs make up its centre (`kept`), its `stability` in all of them,
        and the log-likelihoods of the fit to all counts that centres begin with, of the consensus, and of the polished fit.

    Raises
    ------
    ValueError
        If there are fewer than two runs or samples, or halves are asked of fractions.

    See Also
    --------
    stability : Which topics are stable.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[90, 10, 0], [80, 20, 10], [0, 10, 70], [10, 0, 80]]
    >>> fit = um.consensus(X, 2, runs=4, random_state=0)
    >>> fit.status, fit.data["consensus"]["kept"]
    ('converged', [4, 4])
    """
    counts, model = checked_counts(X, runs, noise), checked_model(estimator, n_components, n_jobs)
    if names_of(model):
        raise ValueError("consensus does not support known or seeds; use stability, or an estimator without them")
    done = repeated(counts, n_components, runs, noise, estimator, None, random_state, n_jobs, checkpoint, verbose)
    topics, kept = agreed(done.reference.topics, done.found)
    plain = _with_topics(counts, _possible(topics, counts), n_jobs)
    logliks = {"of all counts": done.reference.loglik, "consensus": plain.loglik}
    fit = plain
    if polish:
        seed = random_state if isinstance(random_state, int) else None
        with quietly():
            fit = model.set_params(init=plain, random_state=seed).fit(counts).result_
        logliks["polished"] = fit.loglik
    similarity, _ = likeness(fit.topics, [in_order(topics, fit.topics) for topics in done.found])
    about: Record = {
        "runs": len(done.found),
        "noise": noise,
        "status": done.status,
        "kept": kept.sum(axis=0).tolist(),
        "stability": similarity.mean(axis=0).tolist(),
        "loglik": logliks,
    }
    return replace(fit, data=fit.data | {"consensus": about})


def agreed(reference: Floats, found: list[Topics]) -> tuple[Floats, NDArray[np.bool_]]:
    """The centres, m × K, and which runs (rows) are kept for which of them (columns)."""
    centres, before = reference, None
    for _ in range(MOST_ROUNDS):
        found = [in_order(topics, centres) for topics in found]
        kept = likeness(centres, found)[1]
        moved = barycentres(found, kept, centres)
        if before is not None and np.array_equal(moved, before):
            break
        centres = before = moved
    return centres, kept


def barycentres(found: list[Topics], kept: NDArray[np.bool_], otherwise: Floats) -> Floats:
    """√c_k ∝ Σ √f_rk over the runs that are kept for topic k; where none is, the column of `otherwise`."""
    roots = np.zeros(otherwise.shape)
    for topics, these in zip(found, kept, strict=True):
        roots += np.sqrt(topics.astype(np.float64)) * these
    return column_shares(roots**2, otherwise)


def _possible(topics: Floats, counts: Counts) -> Floats:
    """Features that have counts and no weight in any topic, as every run missed them, get what they have in all samples."""
    missed = (topics.sum(axis=1) == 0) & (counts.feature_totals > 0)
    topics = np.where(missed[:, None], (counts.feature_totals / counts.total)[:, None], topics)
    return column_shares(topics, 0)


def _with_topics(counts: Counts, topics: Floats, n_jobs: int | None) -> Fit:
    """The most likely fit that has these topics."""
    model = PoissonNMF.from_factors(topics, n_jobs=n_jobs)
    L = model.transform(counts)
    value = float(loglik(counts, L, topics, n_jobs=n_jobs))
    return replace(
        model.result_,
        L=L,
        trace=model.result_.trace.assign(loglik=value, objective=value, note="consensus"),
        loglik=value,
        samples=counts.samples,
        features=counts.features,
        metadata=counts.metadata,
        data=dict(counts.facts),
        text=counts.text,
    )
