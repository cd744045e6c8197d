"""Which topics are found again: in fits to halves of the counts, each from scratch.

With H the Hellinger distance, c_k the topics of a reference, the fit to all counts, and f_rk that topic of run r which is matched
with c_k (one to one, so that Σ_k H² is the smallest there is),

    stability_k = mean_r 1 − H(c_k, f_rk)
    recall_k    = share of pairs of runs r ≠ s in which none of the topics of s is nearer to f_rk than f_sk is
    margin_k    = mean_r (b − a) / max(a, b):   a the mean distance of f_rk to the f_sk of other runs,
                                                b the least mean distance to the f_sl of any l ≠ k     (Rousseeuw 1987)
    floor_k     = the same as stability_k, of runs that have nothing in common with the reference: features of about the same
                  frequency are exchanged at random

The reference gives the topics of runs their names, and has a part in stability alone: it shares its noise with the halves. The
noise of rare features adds the same to all distances of a topic: it lowers stability and margin, and leaves recall as it is.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from unmix.analysis.features import topic_names
from unmix.analysis.results import Finished, Layout, Result
from unmix.analysis.runs import Noise, Topics, distances_between, in_order, repeated
from unmix.counts import CountsLike
from unmix.estimators.base import CountsEstimator
from unmix.fit import Fit
from unmix.types import Floats, Integers, Seed

STABLE = (0.25, 0.6)  # margin and recall of a topic that is found again: at least both
UNSTABLE = (0.1, 0.5)  # of one that is not: less than either
EMPTY = 1e-6  # of all counts: such a topic has no features of its own
ALIKE = 20  # features of about the same frequency
SHUFFLED = 5  # runs, by which the floor is known to two digits
NEIGHBOURS = 0.3  # of the runs, whose distance is the local density (Kotliar et al. 2019)


@dataclass(frozen=True, eq=False)
class Stability(Result):
    """What `stability` found.

    Attributes
    ----------
    table : DataFrame
        A row a topic: `topic` and `name` of the reference, its `share`, `stability`, `margin`, `recall`, `floor`, and a
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

    LAYOUT: ClassVar = Layout(
        shapes={"similarity": "rK", "distances": "tt"},
        columns={"table": "topic name share stability margin recall floor verdict"},
        words={"noise": ("halves", "bootstrap", "none")},
    )

    table: pd.DataFrame
    similarity: Floats  # 1 − H of each run (rows) and topic (columns)
    distances: (
        Floats  # between all topics of all runs, those of the first run first, each run in the order of the table
    )
    noise: str
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

    def advice(self) -> list[str]:
        """Which topics hold, which do not, and what to do about it.

        Returns
        -------
        list of str
            How many are found again first, then a sentence for each topic that is not.

        Examples
        --------
        >>> import unmix as um
        >>> found = um.stability([[90, 10, 0], [80, 20, 10], [0, 10, 70], [10, 0, 80]], 2, runs=4, random_state=0)
        >>> found.advice()
        ['2 of 2 topics are found again in halves of the counts']
        """
        verdicts, finished = self.table["verdict"], len(self.similarity)
        again = {"halves": "halves of the counts", "bootstrap": "counts drawn anew", "none": "other starts"}[self.noise]
        said = [f"{(verdicts == 'stable').sum()} of {len(verdicts)} topics are found again in {again}"]
        for row in self.table.itertuples():
            if row.verdict in ("unstable", "unsure"):
                said.append(
                    f"topic {row.name} is {row.verdict}: when a run has found it, another one has in {row.recall:.0%} of cases; "
                    f"its margin is {row.margin:.2f}"
                )
            elif row.verdict == "empty":
                said.append(f"topic {row.topic} is empty")
        if not (verdicts == "stable").all():
            said.append("with fewer topics more of them may be stable; unmix.align shows which of them were split")
        if self.noise == "none":
            said.append(
                "runs differ in their starts only: a topic made of noise can be found by all; see noise='halves'"
            )
        if finished < self.runs:
            said.append(f"interrupted after {finished} of {self.runs} runs; the same call with keep= goes on")
        if self.unfinished:
            said.append(f"{self.unfinished} of the fits did not converge; raise max_iter of the estimator")
        return said


def stability(
    X: CountsLike,
    K: int,
    runs: int = 20,
    *,
    noise: Noise = "halves",
    estimator: CountsEstimator | None = None,
    reference: Fit | None = None,
    random_state: Seed = None,
    n_jobs: int | None = None,
    keep: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> Stability:
    """Which of K topics would be found again in other data of the same kind.

    The counts are divided at random into two halves, again and again, and each half is fitted from scratch. Ctrl-C keeps the
    runs that are finished.

    Parameters
    ----------
    X : Counts or array-like
        Counts: anything that `Counts` takes.
    K : int
        Number of topics.
    runs : int, default=20
        How many fits.
    noise : str, default="halves"
        "halves": each pair of runs has a half of the counts each, as two independent data sets of half the depth would be.
        "bootstrap": each run has counts drawn anew, x ~ Poisson(x), which given their total is the multinomial of other
        programs. "none": all counts as they are, so that runs differ in their starts only.
    estimator : estimator, default=None
        What to fit; None is `TopicModel()`.
    reference : Fit, default=None
        The fit whose topics are asked about; None is that of the estimator to all counts, with this `random_state`.
    random_state : int, Generator or RandomState, default=None
        Seed; None is the estimator's. Run r = 1, 2, … is fitted with `random_state + r`.
    n_jobs : int, default=None
        Threads of each fit. The result does not depend on it.
    keep : str or PathLike, default=None
        A file for the runs that are finished, so that the same call, or one with more runs, goes on with the rest; `consensus`
        uses the same runs.
    verbose : bool, default=False
        Tell on stderr how many are done, and how long the others will take.

    Returns
    -------
    Stability
        Its `table` has a row a topic, with a verdict.

    Raises
    ------
    ValueError
        If there are fewer than two runs or samples, halves are asked of fractions, or the reference is of other features.

    See Also
    --------
    consensus : A fit of the topics that hold.
    plot.stability : The picture.
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
    done = repeated(
        X,
        K,
        runs,
        noise,
        estimator=estimator,
        reference=reference,
        random_state=random_state,
        n_jobs=n_jobs,
        keep=keep,
        verbose=verbose,
    )
    similarity, _ = likeness(done.reference.topics, done.found)
    distances = distances_between(done.found)
    table = pd.DataFrame(
        {
            "topic": np.arange(1, K + 1),
            "name": topic_names(done.reference),
            "share": done.reference.shares,
            "stability": similarity.mean(axis=0),
            "margin": silhouettes(distances, K),
            "recall": recalls(distances, K),
            "floor": unrelated(done.reference, done.found),
        }
    )
    table["verdict"] = verdicts(table)
    if done.unfinished:
        message = f"{done.unfinished} of the fits did not converge; raise max_iter or tol of the estimator"
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return Stability(table, similarity, distances, noise, int(runs), done.unfinished, done.status)


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
    """What `likeness` would be, on average, if runs had nothing but the frequencies of features in common with the reference."""
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
    words = []
    for share, margin, recall in zip(table["share"], table["margin"], table["recall"], strict=True):
        margin = 1.0 if len(table) == 1 else margin
        if share < EMPTY:
            words.append("empty")
        elif margin >= STABLE[0] and recall >= STABLE[1]:
            words.append("stable")
        else:
            words.append("unstable" if margin < UNSTABLE[0] or recall < UNSTABLE[1] else "unsure")
    return words
