"""Which topics of a catalogue each sample has: the score of a set of topics, how common topics are, and a visit that finds sets.

With S a set of s topics, l the exact Poisson refit of a sample's counts x on S, t their total, m the features and G the deviance,

    score(S) = −½ (m log φ + G / φ) + log V_S − Σ_{k ∈ S} log((1 − π_k) / π_k),        φ = max(1, G / m)

is the log evidence of S with flat proportions: V_S is the volume of proportions that fit about as well (`native/assign.hpp` has
the formula, and the search), φ the dispersion, and π_k the prevalence of topic k, learned over samples by EM:

    P_ik = Σ_{S ∋ k} exp score_i(S) / Σ_S exp score_i(S)        π_k = (Σ_i P_ik + e / K) / (n + 1)

with e topics expected in a sample. π_k stays between 10⁻⁶ and ½: a cohort may make a topic credible, never free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from unmix.base.types import Floats, Integers
from unmix.counts.counts import Counts
from unmix.counts.data import Arrays, Data, Part, Visit, Visited, joined, with_rows
from unmix.kernels import LEAK, assign_topics, residuals

LEAST, MOST = 1e-6, 0.5  # of a prevalence
FEWEST = 5  # samples of a group from which its prevalences are learned
LEARNED_FROM = 1_000  # samples of a group
ROUNDS, SETTLED = 10, 1e-3  # of EM, and the change of a prevalence that ends it
LARGEST = 64  # topics of a set
DRAWS = 99  # of the residual test
PRICES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)  # that held-out counts choose from


@dataclass(frozen=True)
class Rule:
    """How sets are judged: by their evidence, or by the likelihood less a price per topic. A dispersion of 0 is fitted."""

    evidence: bool = True
    dispersion: float = 0.0
    everything: bool = False  # the refit on all topics, which needs no search

    def found(self, counts: Part, F: Floats, odds: Floats, groups: NDArray[np.int32] | None = None) -> Arrays:
        given = np.ones((counts.shape[0], F.shape[1]), np.uint8) if self.everything else None
        how = {"volume": self.evidence, "dispersion": self.dispersion, "most": LARGEST}
        found = assign_topics(counts.rows, F, odds, groups=groups, given=given, **how)._asdict()  # type: ignore[arg-type]
        if self.everything:
            found["chosen"] = (found["exposures"] > 0).astype(np.uint8)
        return found


@dataclass(frozen=True)
class Assign(Visit):
    """Finds the sets of samples, and tests what they leave of the counts. `before` has their `groups`."""

    rule: Rule
    seed: int

    def __call__(self, tiles: Iterable[Part], shared: Arrays, before: Arrays) -> Visited:
        F, left = np.ascontiguousarray(shared["catalogue"]), []
        for tile, rows in with_rows(tiles, before):
            found = self.rule.found(tile, F, shared["odds"], np.ascontiguousarray(rows["groups"]))
            found["tests"] = residuals(tile.rows, F, found["exposures"], found["chosen"], self.seed, DRAWS)
            left.append(found | {"totals": tile.sample_totals})
        return Visited({name: joined([one[name] for one in left]) for name in left[0]}, {})


def odds_of(prevalence: Floats) -> Floats:
    """The logarithm of the odds against each topic."""
    return np.log1p(-prevalence) - np.log(prevalence)


def expected_prevalence(expected: float, groups: int, topics: int) -> Floats:
    """The same for all topics, before samples are seen."""
    return np.full((groups, topics), np.clip(expected / topics, LEAST, MOST))


def learned_prevalence(data: Data, F: Floats, labels: Integers, groups: int, rule: Rule, expected: float) -> Floats:
    """Of each group and topic, by EM over up to `LEARNED_FROM` samples of every group, evenly spaced."""
    prior = expected_prevalence(expected, groups, F.shape[1])
    rows = np.concatenate([_some(np.flatnonzero(labels == group)) for group in range(groups)])
    few, own = data.take(rows), labels[rows].astype(np.int32)
    counted = np.bincount(own[few.sample_totals > 0], minlength=groups)
    prevalence = prior
    for _ in range(ROUNDS):
        probabilities = rule.found(few, F, odds_of(prevalence), own)["probabilities"]
        sums = np.zeros_like(prior)
        np.add.at(sums, own, probabilities)
        new = np.clip((sums + expected / F.shape[1]) / (counted + 1)[:, None], LEAST, MOST)
        new[counted < FEWEST] = prior[counted < FEWEST]
        change, prevalence = float(np.abs(new - prevalence).max()), new
        if change < SETTLED:
            break
    return prevalence


def _some(rows: Integers) -> Integers:
    return rows if len(rows) <= LEARNED_FROM else rows[np.arange(LEARNED_FROM) * len(rows) // LEARNED_FROM]


def price_of_level(level: float) -> float:
    """What a topic must add to the log-likelihood so that, without it, ½χ²₀ + ½χ²₁ rejects at this level."""
    return float(chi2.isf(2 * level, 1)) / 2


def price_by_held_out(data: Data, F: Floats, rule: Rule, rng: np.random.Generator) -> float:
    """The price whose sets, found from a half of the counts, predict the other half best."""
    few = data.take(_some(np.arange(data.shape[0])))
    fitted, held_out = few.thinned(2, rng)
    return max(PRICES, key=lambda price: _predicted(fitted, held_out, F, rule, price))


def _predicted(fitted: Counts, held_out: Counts, F: Floats, rule: Rule, price: float) -> float:
    """The log-likelihood of the held-out counts at the rates of the fitted ones."""
    rule = Rule(evidence=False, dispersion=rule.dispersion, everything=price == 0)
    exposures = rule.found(fitted, F, np.full((1, F.shape[1]), price))["exposures"]
    i, j = held_out.csr.nonzero()
    rates = np.einsum("pk,pk->p", exposures[i], F[j]) + LEAK * np.maximum(fitted.sample_totals, 1)[i]
    return float(held_out.csr.data @ np.log(rates) - exposures.sum())
