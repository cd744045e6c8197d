"""The search of `init="auto"`: many starts, each on a sample of its own, whose topics are put together two by two.

Where a single start ends is luck, and a short contest cannot tell a good one: the order after ten iterations is not that of the
end. So no start is thrown away. The search is a tree. Its leaves are starts, annealed and random by turns, fitted for some
iterations to a part of the samples. A node puts the topics of its two children together (`recombine`), on the samples of both;
the root on all of them, or on as many as `LARGEST` nonzeros allow: beyond that size a search does not take longer.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import ceil, log2
from typing import Self

import numpy as np
from scipy.special import xlogy

from unmix.counts import Data
from unmix.models.problem import Problem, State
from unmix.solvers import init as starts
from unmix.solvers.extrapolate import Extrapolate
from unmix.solvers.newton import Newton
from unmix.solvers.recombine import recombine
from unmix.types import Factor, Integers, Pair, Record

LARGEST = 3_000_000  # nonzeros that the root of a search looks at, and all leaves together if they are many
# iterations of a leaf; of a node, once its topics are put together: at least and at most, and how many nonzeros they may visit
FITTING, SETTLING = (15, 40, 3_000_000), (6, 20, 2_400_000)
LIFTING = 3  # iterations of a child on its parent's samples
FAST = Extrapolate(Newton(rounds=1))
STARTS = (("annealed", starts.annealed), ("random", starts.random_after_em))


@dataclass(frozen=True)
class Node:
    """Loadings and factors of the samples `first` to `last` in the order of the search. Leaves have height 0."""

    height: int
    first: int
    last: int
    L: Factor
    F: Factor


@dataclass(frozen=True, kw_only=True, eq=False)
class Searching(State):
    """How far the search has come: how many starts were made, and the nodes that wait for a sibling.

    Until the root is there, L and F are topics of the last node in proportions that are the same for all samples, and weighted
    so that the rates are those of a single topic: something to stop with that costs no pass over the data.
    """

    seed: int
    made: int = 0
    nodes: tuple[Node, ...] = ()

    def save(self) -> Record:
        return super().save() | {"nodes": {str(place): asdict(node) for place, node in enumerate(self.nodes)}}


@dataclass(frozen=True)
class Search:
    """One node an iteration, children before their parent, so that few wait at a time."""

    starts: int = 8  # a power of two
    nonzeros: int = 250_000  # of a leaf, at least
    samples: int = 600  # of a leaf, at least, if there are so many

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """For these data: of a feature, a leaf sees ten nonzeros in the mean. Half as many starts where they would have to look
        at too much, or at the same samples all of them, or where there are few topics to be found."""
        (n, m), nnz = problem.X.shape, problem.X.nnz
        search = cls(nonzeros=max(cls.nonzeros, 10 * m))
        size = search._size(problem.X)
        few = problem.n_topics <= 4 or size == n or search.starts * size * (nnz / n) > LARGEST
        return replace(search, starts=search.starts // 2) if few else search

    @property
    def steps(self) -> int:
        return 2 * self.starts - 1

    def start(self, problem: Problem, rng: np.random.Generator) -> Searching:
        L, F = one_topic(problem, np.full(problem.n_topics, 1 / problem.n_topics), np.ones((1, problem.n_topics)))
        note = f"search: {self.starts} starts"
        return Searching(L=L, F=F, loss=one_topic_loss(problem, L, F), seed=int(rng.integers(2**31)), note=note)

    def restore(self, problem: Problem, saved: Record) -> Searching:
        nodes = tuple(Node(**node) for node in saved["nodes"].values())
        state = Searching(**saved | {"nodes": nodes})
        (n, m), K = problem.X.shape, problem.n_topics
        if state.L.shape != (n, K) or any(F.shape != (m, K) for F in [state.F, *(node.F for node in nodes)]):
            raise ValueError(f"L has shape {state.L.shape} and F {state.F.shape}")
        return state

    def step(self, problem: Problem, state: Searching) -> Searching:
        order = np.random.default_rng(state.seed).permutation(problem.X.shape[0])[: self._size(problem.X, LARGEST)]
        made, nodes = state.made, state.nodes
        if len(nodes) >= 2 and nodes[-1].height == nodes[-2].height:
            node, note = self._parent(problem, order, nodes[-2], nodes[-1], made)
            nodes = *nodes[:-2], node
        else:
            node, note = self._leaf(problem, order, made, state.seed)
            made, nodes = made + 1, (*nodes, node)
        final = node.height == log2(self.starts)
        if final:
            whole = Problem(problem.X, problem.n_topics)
            found = lifted(whole, node.F) if len(order) < problem.X.shape[0] else (node.L, node.F)
            L, F = problem.rescale(*problem.allowed(*(factor.copy() for factor in found)))
            loss, nodes = problem.loss(L, F), ()
        else:
            weights = node.L.sum(axis=0) * node.F.sum(axis=0)
            L, F = one_topic(problem, weights / weights.sum(), node.F / node.F.sum(axis=0))
            loss = one_topic_loss(problem, L, F)
        return Searching(L=L, F=F, loss=loss, seed=state.seed, made=made, nodes=nodes, note=note, final=final)

    def _size(self, X: Data, nonzeros: int | None = None) -> int:
        """Samples that have so many nonzeros (by default those of a leaf), or all."""
        n = X.shape[0]
        return min(n, max(self.samples, ceil(n * (nonzeros or self.nonzeros) / max(X.nnz, 1))))

    def _leaf(self, problem: Problem, order: Integers, place: int, seed: int) -> tuple[Node, str]:
        """The start number `place`, on samples that overlap with those of others only where there are too few."""
        size = min(len(order), self._size(problem.X))
        apart = min(size, (len(order) - size) / max(self.starts - 1, 1))
        first = round(place * apart)
        part = self._part(problem, order, first, first + size)
        kind, start = STARTS[place % len(STARTS)]
        L, F = moved(part, *start(part, np.random.default_rng([seed, place])), iterations(part, *FITTING))
        return Node(0, first, first + size, L, F), f"start {place + 1} of {self.starts}, {kind}: {size:,} samples"

    def _parent(self, problem: Problem, order: Integers, one: Node, two: Node, made: int) -> tuple[Node, str]:
        """The topics of both put together, or the better of the two if that is better still."""
        root = one.height + 1 == log2(self.starts)
        first, last = (0, len(order)) if root else (one.first, two.last)
        part = self._part(problem, order, first, last)
        pairs = [
            (node.L, node.F)
            if (node.first, node.last) == (first, last)
            else moved(part, *lifted(part, node.F), LIFTING)
            for node in (one, two)
        ]
        better = min(pairs, key=lambda pair: part.loss(*pair))
        found = moved(part, *recombine(part, pairs), iterations(part, *SETTLING))
        gain = part.loss(*better) - part.loss(*found)
        leaves = 2 ** (one.height + 1)
        note = f"starts {made - leaves + 1} to {made} put together: {last - first:,} samples, {gain:+,.0f}"
        return Node(one.height + 1, first, last, *(found if gain > 0 else better)), note

    @staticmethod
    def _part(problem: Problem, order: Integers, first: int, last: int) -> Problem:
        """Maximum likelihood on these samples, in their own order."""
        X = problem.X
        return Problem(X if last - first == X.shape[0] else X.take(np.sort(order[first:last])), problem.n_topics)


def search(problem: Problem, rng: np.random.Generator, method: Search | None = None) -> Pair:
    """The whole search at once: loadings and factors to start from."""
    if problem.n_topics == 1:
        return starts.random(problem, rng)
    method = method or Search.of(problem)
    state = method.start(problem, rng)
    while not state.final:
        state = method.step(problem, state)
    return state.L, state.F


def iterations(problem: Problem, least: int, most: int, visited: int) -> int:
    """Small data can afford more, and need them: with few counts optima are reached slowly."""
    return max(least, min(most, visited // max(problem.X.nnz, 1)))


def moved(problem: Problem, L: Factor, F: Factor, times: int) -> Pair:
    state = FAST.start(problem, L, F)
    del L, F  # for memory
    for _ in range(times):
        state = FAST.step(problem, state)
    return state.L, state.F


def lifted(problem: Problem, F: Factor) -> Pair:
    """Topics that were found on other samples, and what these samples have of them. What those others lack gets some weight."""
    F = starts.mixed(problem.X, F / F.sum(axis=0))
    return problem.rescale(starts.known_factors(problem, F, rounds=3, tolerance=1e-3), F)


def one_topic(problem: Problem, shares: Factor, topics: Factor) -> Pair:
    """The best fit of a single topic, t_i g_j / N, divided between topics of these kinds in the same shares in all samples."""
    X = problem.X
    mixture = topics @ shares
    weights = np.divide(topics, mixture[:, None], out=np.ones((len(topics), len(shares))), where=mixture[:, None] > 0)
    L, F = np.outer(X.sample_totals, shares), weights * (X.feature_totals / X.total)[:, None]
    return problem.rescale(*problem.allowed(L, F))


def one_topic_loss(problem: Problem, L: Factor, F: Factor) -> float:
    """Of such a pair: Σ x log(t_i g_j / N) needs no pass over the data."""
    X = problem.X
    xlog = float(xlogy(X.sample_totals, X.sample_totals).sum() + xlogy(X.feature_totals, X.feature_totals).sum())
    return problem.loss(L, F, xlog - float(xlogy(X.total, X.total)))
