"""One model fitted again and again, each time from scratch and to counts with noise of their own.

Two halves of the counts, each count in one of them at random, are independent data where counts are Poisson: what both have found
is not the noise of either. Drawn anew, x ~ Poisson(x), counts have their noise twice. As they are, only the search differs.

    run r of seed s:   random_state = s + r,   half r mod 2 of split ⌊(r − 1) / 2⌋,   r = 1, 2, …
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from unmix.analysis.results import Finished, in_parts
from unmix.counts import Counts, CountsLike, Names
from unmix.estimators.base import CountsEstimator, generator
from unmix.estimators.topic_model import TopicModel
from unmix.fit import Fit
from unmix.format import Arrays
from unmix.models.matching import affinities, best_pairs
from unmix.shards import Shards
from unmix.types import Floats, Seed

Noise = Literal["halves", "bootstrap", "none"]
FEATURES_AT_ONCE = 4096  # whose roots are in memory in double precision
NOT_OF_THE_RESULT = {
    "callbacks",
    "engine",
    "init",
    "n_jobs",
    "random_state",
    "verbose",
}  # or told apart from the others

Topics = NDArray[np.floating[Any]]


class Runs(NamedTuple):
    """A reference, as a fit of one sample that has all counts, and the topics of all finished runs, each in its order."""

    reference: Fit
    found: list[Topics]
    unfinished: int  # fits that ended before they had converged
    status: Finished


def repeated(
    X: CountsLike,
    K: int,
    runs: int,
    noise: Noise,
    *,
    estimator: CountsEstimator | None,
    reference: Fit | None,
    random_state: Seed,
    n_jobs: int | None,
    keep: str | os.PathLike[str] | None,
    verbose: bool,
) -> Runs:
    """`runs` fits, and one of all counts as they are unless a reference is given."""
    model = checked_model(estimator, K, n_jobs)
    counts = checked_counts(X, runs, noise)
    if reference is not None:
        check_reference(reference, counts, K)
    seed = seed_of(model.random_state if random_state is None else random_state, keep)
    noisy = _noisy(counts, noise, seed)

    def work(run: int) -> Arrays:
        if run == 0:
            return {} if reference is not None else _fitted(model, counts, seed)
        return _fitted(model, noisy(run), seed + run)

    # not how many: a file of fewer runs, or of more, is as good
    of = {"data": counts.facts["checksum"], "noise": noise, "seed": seed, "model": _told(model)}
    parts, _ = in_parts(range(runs + 1), work, keep=keep, of=of, tell=_tell if verbose else None)
    done = [part for part in parts[1:] if part is not None]
    if not done:
        raise KeyboardInterrupt
    # none was kept where an earlier call was given one
    first = _arrays(reference) if reference is not None else parts[0] or _fitted(model, counts, seed)
    unfinished = sum(int(part["unfinished"][0]) for part in [first, *done])
    found = [in_order(part["topics"], first["topics"]) for part in done]
    features = counts.features if counts.features is not None or reference is None else reference.features
    return Runs(_of_all(first, features), found, unfinished, "finished" if len(done) == runs else "interrupted")


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


def checked_model(estimator: CountsEstimator | None, K: int, n_jobs: int | None) -> CountsEstimator:
    """A copy of the estimator with K topics, which starts from scratch."""
    if not isinstance(K, Integral) or isinstance(K, bool) or K < 1:
        raise ValueError(f"K={K!r}; give a whole number of topics >= 1")
    model = clone(TopicModel() if estimator is None else estimator).set_params(n_components=int(K))
    if not isinstance(model.init, str):
        raise ValueError('the estimator has a start in init, in which all runs would agree; give one with init="auto"')
    return model if n_jobs is None else model.set_params(n_jobs=n_jobs)


def checked_counts(X: CountsLike, runs: int, noise: str) -> Counts:
    if isinstance(X, Shards):
        raise ValueError("shards cannot be fitted again and again; give counts in memory, such as shards.sample")
    if not isinstance(runs, Integral) or isinstance(runs, bool) or runs < 2:
        raise ValueError(f"runs={runs!r}; give a whole number >= 2: one run has nothing to agree with")
    if noise not in get_args(Noise):
        raise ValueError(f"noise={noise!r}; choose one of {', '.join(get_args(Noise))}")
    counts = X if isinstance(X, Counts) else Counts(X)
    if len(counts) < 2:
        raise ValueError("there is one sample only, in which no topic can be told from another; give at least 2")
    if noise == "halves":
        counts.require_whole('noise="halves"', 'or give noise="bootstrap" or "none"')
    return counts


def check_reference(reference: Fit, counts: Counts, K: int) -> None:
    if reference.n_topics != K:
        raise ValueError(f"the reference has {reference.n_topics} topics and K={K}; give K={reference.n_topics}")
    if len(reference.F) != counts.shape[1]:
        raise ValueError(
            f"the reference has {len(reference.F)} features and the counts {counts.shape[1]}; give a fit of the same features"
        )
    if reference.features is None or counts.features is None or np.array_equal(reference.features, counts.features):
        return
    j = np.flatnonzero(reference.features != counts.features)[0]
    raise ValueError(
        f"feature {j} is {str(reference.features[j])!r} in the reference and {str(counts.features[j])!r} in the counts; "
        "give a fit of the same features in the same order"
    )


def seed_of(random_state: Seed, keep: str | os.PathLike[str] | None) -> int:
    """The number that all runs follow from."""
    if random_state is None and keep is not None:
        raise ValueError(
            f"keep={str(keep)!r} needs a random_state, such as 0, so that the same call goes on with the same runs"
        )
    plain = isinstance(random_state, Integral)
    return int(random_state) if plain else int(generator(random_state).integers(2**31))  # type: ignore[arg-type]


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told once, of all runs
        fit = clone(model).set_params(random_state=seed).fit(counts).result_
    if fit.status == "interrupted":
        raise KeyboardInterrupt
    return _arrays(fit)


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
    return Fit(
        arrays["weights"][None],
        arrays["topics"],
        pd.DataFrame({"kkt": []}),
        "converged",
        float(arrays["loglik"][0]),
        features=features,
    )


def _told(model: CountsEstimator) -> dict[str, str]:
    """What the runs are runs of, by which to know them again."""
    told = {name: repr(value) for name, value in model.get_params().items() if name not in NOT_OF_THE_RESULT}
    return {"model": type(model).__name__} | told


def _tell(done: int, of: int, left: float | None) -> None:
    done = min(done, of)  # a file may have more
    known = "" if left is None or done == of else f", about {left:.0f} s left"
    sys.stderr.write(f"\r{done} of {of} fits{known}".ljust(48) + ("\n" if done == of else ""))
    sys.stderr.flush()
