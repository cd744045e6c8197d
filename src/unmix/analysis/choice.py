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

    `best` foretells them best; `suggested` is the least number within one standard error of it; `worthwhile`, None where that is
    none of those tried, the number after which one more topic gains less than the part `worth` of what the first one gained.

    `table` has a row for every number of topics:

    - perplexity: of held-out counts, exp(−mean log probability); lower is better
    - delta: their log probability, less that of the best; error: its standard error, paired by sample
    - gain: by each topic more than in the row before, per 1,000 held-out counts
    - loglik: of the counts that were fitted, the mean of the folds
    - lightest: the least share of a topic
    - converged: part of the fits that were
    - seconds: of all folds
    - evidence, evidence_error: log p(X) of all counts and its standard error, of an `AllocationModel` and few counts
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
        """What the table says, and what it cannot say."""
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
