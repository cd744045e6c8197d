"""What held-out counts say of numbers of topics, beside each other, and in words.

With s_i(K) the log probability of the held-out counts of sample i, d_i = s_i(K) − s_i(best), and

    delta = Σ_i d_i        error = √n sd(d_i)

paired by sample, because samples differ far more from each other than numbers of topics do. The suggestion is the least K whose
delta is no further below zero than its error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd

from unmix.analysis.results import Finished, Layout, Result
from unmix.types import Floats, Record

FEW_SAMPLES = 30  # with fewer, errors are taken from folds
OVERDISPERSED = 1.2  # φ from which it is said


@dataclass(frozen=True, eq=False)
class Choice(Result):
    """How well every number of topics foretells held-out counts; made by `choose_topics`.

    Attributes
    ----------
    table : DataFrame
        A row for every number of `topics`: `perplexity` of held-out counts, exp(−mean log probability), lower is better;
        `delta`, their log probability less that of the best, and its standard `error`, paired by sample; the `gain` by each
        topic more than in the row before, per 1,000 held-out counts; `loglik` of the counts that were fitted, the mean of the
        folds; the share of the `lightest` topic; the part of the fits that `converged`; `seconds` of all folds; of an
        `AllocationModel` and few counts also `evidence` and `evidence_error`, log p(X) of all counts and its standard error.
    best : int
        The number that foretells held-out counts best.
    suggested : int
        The least number within one standard error of the best.
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
        How many counts were foretold.
    folds, folds_done : int
        How many there were to be, and how many are in the table.
    status : str
        "finished", or "interrupted" by Ctrl-C.
    dispersion : float
        How many times as much counts vary as Poisson ones would.
    overdispersion : float or None
        The b with which counts were dealt, given or estimated.
    model : str
        The name of the estimator.
    samples : int
        How many have counts.
    seed : int
        By which counts were dealt.

    See Also
    --------
    choose_topics, plot.choice, report.write_choice

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]] * 5
    >>> choice = um.choose_topics(X, range(1, 4), folds=2, random_state=0)
    >>> choice.suggested, choice.table["topics"].tolist()
    (2, [1, 2, 3])
    """

    LAYOUT: ClassVar = Layout(
        shapes={"shares": "tk", "scores": "tn"},
        columns={"table": "topics perplexity delta error gain loglik lightest converged seconds"},
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
    dispersion: float  # φ: counts vary so many times as much as Poisson ones
    overdispersion: float | None  # b, with which they were thinned
    model: str
    samples: int
    seed: int = field(repr=False)

    def __repr__(self) -> str:
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
        return [
            sentence
            for sentence in (
                self._suggestion(),
                self._edge(),
                self._flat(),
                self._worthwhile(),
                self._evident(),
                self._overdispersed(),
                self._unfinished(),
            )
            if sentence
        ]

    def _suggestion(self) -> str:
        if self.best == 1:
            return "a single topic foretells held-out counts best: these counts show no topics to this model"
        if self.suggested == self.best:
            reason = "they foretell held-out counts best, and no smaller number comes within one standard error"
        else:
            reason = f"no fewer come within one standard error of {self.best}, which foretell held-out counts best"
        return f"{_topics(self.suggested)} suggested: {reason}"

    def _edge(self) -> str:
        numbers = self.table["topics"]
        if self.best == numbers.max() and len(numbers) > 1:
            return f"the best is the largest number tried, {self.best}; try more"
        if self.best == numbers.min() and self.best > 1:
            return f"the best is the smallest number tried, {self.best}; try fewer"
        return ""

    def _flat(self) -> str:
        within = self.table["topics"][self.table["delta"] >= -self.table["error"]].tolist()
        everything = len(within) == len(self.table)
        if len(within) < (2 if everything else 3):
            return ""
        which = "all numbers tried" if everything else f"{', '.join(map(str, within[:-1]))} and {within[-1]} topics"
        return f"{which} are within one standard error of the best: these counts do not tell them apart"

    def _worthwhile(self) -> str:
        if self.worthwhile is None or self.worthwhile >= self.suggested:
            return ""
        return (
            f"after {_topics(self.worthwhile)}, one more gains less than {self.worth:.2g} of what the first gained: a smaller "
            "number to consider, if topics are to be read"
        )

    def _evident(self) -> str:
        if "evidence" not in self.table:
            return ""
        highest = int(self.table["topics"][self.table["evidence"].idxmax()])
        return f"the evidence log p(X) is highest with {_topics(highest)}"

    def _overdispersed(self) -> str:
        if self.overdispersion is not None:
            return f"counts were taken to vary as μ + μ²/{self.overdispersion:.3g}, φ = {self.dispersion:.2f}"
        if not self.dispersion > OVERDISPERSED:
            return ""
        return (
            f"counts vary {self.dispersion:.2g} times as much as Poisson ones, which favours too many topics; "
            'give overdispersion="estimate"'
        )

    def _unfinished(self) -> str:
        told = []
        if self.folds_done < self.folds:
            told.append(f"{self.folds_done} of {self.folds} folds are finished")
        if (part := 1 - self.table["converged"].mean()) > 0:
            told.append(f"{part:.0%} of the fits did not converge; raise max_iter or tol of the estimator")
        return "; ".join(told)


def compared(
    numbers: list[int], scores: Floats, *, held_out: float, fits: dict[str, Floats], worth: float, about: Record
) -> Choice:
    """Of scores by fold, K and sample, and of what the fits of every fold and K came to."""
    by_sample = scores.sum(axis=0)
    totals = by_sample.sum(axis=1)
    top = int(np.argmax(totals))  # the first, so the least, of equals
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
    """The number after which gains are small beside the first one."""
    if len(numbers) < 3 or not gains[1] > 0:
        return None
    small = np.flatnonzero(gains[2:] < worth * gains[1])
    return numbers[small[0] + 1] if len(small) else None


def _topics(n: int) -> str:
    return f"{n} topic{'s' * (n > 1)}"
