"""Searches: the tree of starts of `init="auto"`, the moves of `refine`, and the recombination of fits that both use.

Two fits of the same data into one that has the topics of both: put them side by side, and merge until K are left.

A local optimum is mostly right: it lacks a topic or two, and has others twice. Two optima seldom lack the same ones. Side by
side, their 2 K topics describe the data better than either; merging, again and again, the pairs whose difference the data
miss least then does away with what both have, and keeps what one of them had found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil, log2
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from unmix.base.types import Factor, Floats, Integers, Pair, Record
from unmix.counts.data import Data
from unmix.models.poisson import poisson_to_topics
from unmix.models.problem import Iterate, Problem, State, Task
from unmix.solvers import init as starts
from unmix.solvers.base import Stepper
from unmix.solvers.extrapolate import Alternate, Extrapolate
from unmix.solvers.halfsteps import Newton
from unmix.solvers.run import NotFiniteError, Progress, run

NEWTON = Alternate(Newton(rounds=1), learns=False)
LOOKED_AT = 30_000  # nonzeros by which merges are judged
NEIGHBOURS = 16  # a topic may merge with this many that are most like it
POSITIVE = 1e-12  # of the largest entry of a column: less could not grow again


def recombine(problem: Problem, parents: list[Pair]) -> Pair:
    """K topics out of those of all parents, a list that is emptied. In single precision: there are twice as many topics to
    begin with, and memory is short."""
    several = [tuple(factor.astype(np.float32) for factor in in_counts(*pair)) for pair in parents]
    parents.clear()
    if (G := problem.placed_topics) == 0:
        L, F = (np.hstack(factors) for factors in zip(*several, strict=True))
    else:  # topics that have a place are there once
        totals = np.stack([L[:, :G].sum(axis=0) for L, _ in several])
        weights = np.where(totals.sum(axis=0) > 0, totals, 1)
        weights /= weights.sum(axis=0)
        mean = sum(F[:, :G] * weight for (_, F), weight in zip(several, weights, strict=True))
        L = np.hstack([sum(L[:, :G] for L, _ in several), *(L[:, G:] for L, _ in several)]).astype(np.float32)
        F = np.hstack([mean, *(F[:, G:] for _, F in several)]).astype(np.float32)
    L /= len(several)
    del several
    state = moved_topics(problem, L, F)
    del L, F
    state = merge_down(problem, state.L, state.F)
    return state.L.astype(np.float64), state.F.astype(np.float64)


def merge_down(problem: Problem, L: Factor, F: Factor) -> State:
    """Merge topics until there are as many as the problem has. Several pairs at once, but of the surplus never more than half,
    and two iterations in between: topics that have moved are judged from scratch."""
    if L.shape[1] <= problem.n_topics:
        raise ValueError(f"{L.shape[1]} topics cannot be merged into {problem.n_topics}")
    while (K := L.shape[1]) > problem.n_topics:
        L, F = (factor.astype(L.dtype) for factor in in_counts(L, F))
        pairs = cheapest(merge_costs(problem, L, F), (K - problem.n_topics + 1) // 2)
        any_two = (0, 1) if problem.known is None else (K - 2, K - 1)  # where numbers are too small to tell
        state = moved_topics(problem, *merged(L, F, pairs or [any_two], problem.held))
        L, F = state.L, state.F
    return state


def moved_topics(problem: Problem, L: Factor, F: Factor) -> State:
    """Two iterations of Newton's method on as many topics as there are."""
    problem = problem.with_topics(L.shape[1])
    L, F = positive(L), positive(F)
    if problem.held is not None and problem.known is not None:  # which have a scale of their own
        L[:, : problem.placed_topics] /= np.where(problem.known.held, problem.known.columns.sum(axis=0), 1)
    state = NEWTON.start(problem, *problem.rescale(*problem.with_known(L, F)))
    for _ in range(2):
        state = NEWTON.step(problem, state)
    return state


def in_counts(L: Factor, F: Factor) -> Pair:
    """The same rates with columns of F summing to one, so that loadings are counts."""
    _, topics, _, scales = poisson_to_topics(L, F)
    return L * scales, topics


def positive(factor: Factor) -> Factor:
    return np.maximum(factor, POSITIVE * factor.max(axis=0))


def merge_costs(problem: Problem, L: Factor, F: Factor) -> Floats:
    """What the log-likelihood loses if topics a < b, whose loadings are counts, are replaced by their sum, before anything is
    refitted: estimated from some of the nonzeros. The expected total stays, unless rates have multipliers. Infinite for
    pairs that are not looked at."""
    K = L.shape[1]
    rows, columns, x = problem.left.some(LOOKED_AT)
    whole = problem.X.total / x.sum()
    # rates of the merged topics in units of the rate, single precision: what decides is not in the last digits
    loads, topics = L[rows].T, F[columns].T
    loads = (loads / np.einsum("kp,kp->p", loads, topics)).astype(np.float32)
    topics, x = topics.astype(np.float32), x.astype(np.float32)
    shares = loads * topics
    weights = L.sum(axis=0)
    rates, costs = problem.rates, np.full((K, K), np.inf)
    U = None if rates is None else rates.sums(L)
    expected = None if rates is None or U is None else rates.by_batch(rates.expected(U, F))
    placed, held = problem.placed_topics, problem.held
    for a, others in enumerate(neighbours(F)):
        for b in others[others >= max(a + 1, placed)]:  # two that have a place stay two
            part = np.float32(weights[a] / max(weights[a] + weights[b], 1e-300))
            if held is not None and held[a : a + 1].any():
                part = np.float32(1)
            rate = 1 - shares[a] - shares[b] + (loads[a] + loads[b]) * (part * topics[a] + (1 - part) * topics[b])
            costs[a, b] = -whole * float(x @ np.log(np.maximum(rate, 1e-30)))
            if rates is not None and U is not None:
                costs[a, b] += rates.merging(U, F, a, b, part * F[:, a] + (1 - part) * F[:, b], expected)
    return costs


def neighbours(F: Factor) -> list[Integers]:
    """For each topic those most like it (by Σ √(f_ja f_jb)), and those to which it is."""
    K = F.shape[1]
    likeness = np.sqrt(F).T @ np.sqrt(F)
    np.fill_diagonal(likeness, -1)
    near = np.zeros((K, K), dtype=bool)
    np.put_along_axis(near, np.argsort(-likeness, axis=1, kind="stable")[:, : min(NEIGHBOURS, K - 1)], True, axis=1)
    return [np.flatnonzero(row) for row in near | near.T]


def cheapest(costs: Floats, most: int) -> list[tuple[int, int]]:
    """Up to `most` pairs that share no topic, the cheapest first."""
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for place in np.argsort(costs, axis=None, kind="stable"):
        a, b = divmod(int(place), len(costs))
        if len(pairs) == most or not costs[a, b] < np.inf:
            break
        if not taken & {a, b}:
            pairs.append((a, b))
            taken |= {a, b}
    return pairs


def merged(L: Factor, F: Factor, pairs: Sequence[tuple[int, int]], held: NDArray[np.bool_] | None = None) -> Pair:
    """Each first topic becomes the sum of both, or stays if it is held, each second one is gone; loadings are counts."""
    L, F = L.copy(), F.copy()
    for a, b in pairs:
        weights = L[:, [a, b]].sum(axis=0)
        if held is None or not held[a : a + 1].any():
            F[:, a] = F[:, [a, b]] @ (weights / weights.sum() if weights.sum() > 0 else [0.5, 0.5])
        L[:, a] += L[:, b]
    gone = [b for _, b in pairs]
    return np.delete(L, gone, axis=1), np.delete(F, gone, axis=1)


# The search of `init="auto"`: many starts, each on a sample of its own, whose topics are combined two by two.
#
# Where a single start ends is luck, and a short contest cannot recognise a good one: the order after ten iterations is not that
# of the end. So no start is thrown away. The search is a tree. Its leaves are starts, annealed and random alternating, fitted
# for some iterations to a part of the samples. A node puts the topics of its two children together (`recombine`), on the samples
# of both; the root on all of them, or on as many as `LARGEST` nonzeros allow: beyond that size a search does not take longer.

LARGEST = 3_000_000  # nonzeros that the root of a search looks at, and all leaves together if they are many
# iterations of a leaf; of a node, once its topics are combined: at least and at most, and how many nonzeros they may visit
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
class Search(Stepper[Problem, Searching]):
    """One node an iteration, children before their parent, so that few wait at a time."""

    starts: int = 8  # a power of two
    nonzeros: int = 250_000  # of a leaf, at least
    samples: int = 600  # of a leaf, at least, if there are this many

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
        note = f"search: {self.starts} starts"
        if problem.known is not None or problem.sets is not None:
            L, F, loss = even(problem, starts.first_topics(problem, np.random.default_rng(0)))
        else:
            L, F = one_topic(problem, np.full(problem.n_topics, 1 / problem.n_topics), np.ones((1, problem.n_topics)))
            loss = one_topic_loss(problem, L, F)
        return Searching(L=L, F=F, loss=loss, seed=int(rng.integers(2**31)), note=note)

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
            whole = problem.likelihood()
            found = lifted(whole, node.F) if len(order) < problem.X.shape[0] else (node.L, node.F)
            L, F = problem.rescale(*problem.allowed(*problem.placed(*(factor.copy() for factor in found))))
            loss, nodes = problem.loss(L, F), ()
            if (
                problem.held is not None
            ):  # at its best loadings, which may be zero of new topics, it is no worse than known ones alone
                best = starts.known_factors(problem, F)
                L, loss = (best, problem.loss(best, F)) if problem.loss(best, F) < loss else (L, loss)
        elif problem.known is not None or problem.sets is not None:
            L, F, loss = even(problem, node.F)
        else:
            weights = node.L.sum(axis=0) * node.F.sum(axis=0)
            L, F = one_topic(problem, weights / weights.sum(), node.F / node.F.sum(axis=0))
            loss = one_topic_loss(problem, L, F)
        return Searching(L=L, F=F, loss=loss, seed=state.seed, made=made, nodes=nodes, note=note, final=final)

    def _size(self, X: Data, nonzeros: int | None = None) -> int:
        """Samples that have this many nonzeros (by default those of a leaf), or all."""
        n = X.shape[0]
        return min(n, max(self.samples, ceil(n * (nonzeros or self.nonzeros) / max(X.nnz, 1))))

    def _leaf(self, problem: Problem, order: Integers, place: int, seed: int) -> tuple[Node, str]:
        """The start number `place`, on samples that overlap with those of others only where there are too few."""
        size = min(len(order), self._size(problem.X))
        apart = min(size, (len(order) - size) / max(self.starts - 1, 1))
        first = round(place * apart)
        part = self._part(problem, order, first, first + size)
        kind, start = STARTS[place % len(STARTS)]
        if problem.known is not None or problem.sets is not None:
            kind, start = "beside known ones", starts.beside
        L, F = moved(part, *start(part, np.random.default_rng([seed, place])), iterations(part, *FITTING))
        return Node(0, first, first + size, L, F), f"start {place + 1} of {self.starts}, {kind}: {size:,} samples"

    def _parent(self, problem: Problem, order: Integers, one: Node, two: Node, made: int) -> tuple[Node, str]:
        """The topics of both combined, or the better of the two if that is better still."""
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
        note = f"starts {made - leaves + 1} to {made} combined: {last - first:,} samples, {gain:+,.0f}"
        return Node(one.height + 1, first, last, *(found if gain > 0 else better)), note

    @staticmethod
    def _part(problem: Problem, order: Integers, first: int, last: int) -> Problem:
        """Maximum likelihood on these samples, in their own order."""
        X = problem.X
        return problem.likelihood(X if last - first == X.shape[0] else X.take(np.sort(order[first:last])))


def search(problem: Problem, rng: np.random.Generator, method: Search | None = None) -> Pair:
    """The whole search at once: loadings and factors to start from."""
    if not problem.searchable:
        plain = problem.known is None and problem.sets is None
        return starts.random(problem, rng) if plain else starts.beside(problem, rng)
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
    if problem.known is not None:
        F = problem.known.placed(F)
    return problem.rescale(starts.known_factors(problem, F, rounds=3, tolerance=1e-3), F)


def even(problem: Problem, F: Factor) -> tuple[Factor, Factor, float]:
    """Topics in the same shares in all samples, where they are allowed, and the loss there."""
    L = np.outer(problem.X.sample_totals, 1 / np.maximum(F.sum(axis=0), 1e-300) / F.shape[1])
    L, F = problem.rescale(*problem.allowed(L, F.copy()))
    return L, F, problem.loss(L, F)


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


# Moves that leave a poor optimum: the topics of a different fit, combined with those of this one.
#
# Each move makes a fit from scratch, from some starts on parts of the samples as the search of `init="auto"` does, and
# recombines it with the best so far. The model's own solver then continues from there for some iterations, and from the new fit
# as it was, and the move is kept if the objective has risen above what it was before: so a model of any kind can be refined on
# its own objective, be it a likelihood or a bound.

# iterations of a trial; after the least, a move that could not catch up at its pace is given up
LEAST_TRIAL, TRIAL = 6, 40
MOVE = "recombined with another fit"  # how the note of a move begins in the trace
OTHER = Search(starts=4)  # where the other topics come from


@dataclass(frozen=True, kw_only=True)
class Refining(Iterate):
    """The best iterate so far, in the state in which the solver left it."""

    best: Any
    seed: int
    moves: int = 0
    kept: bool = False

    @property
    def point(self) -> Any:
        return self.best

    def save(self) -> Record:
        return super().save() | {"best": self.best.save()}


@dataclass(frozen=True)
class Refine(Stepper[Task[Any], Refining]):
    """One move an iteration; the loss never rises. `begin` makes the solver's first iterate of loadings and factors."""

    solver: Stepper[Any, Any]
    begin: Callable[[Factor, Factor], Iterate] = field(repr=False)

    def start(self, best: Iterate, rng: np.random.Generator) -> Refining:
        return Refining(loss=best.loss, best=best, seed=int(rng.integers(2**31)))

    def restore(self, task: Task[Any], saved: Record) -> Refining:
        return Refining(**saved | {"best": self.solver.restore(task, saved["best"])})

    def step(self, task: Task[Any], state: Refining) -> Refining:
        here = task.result(state.best)
        if isinstance(task, Problem):
            problem = task.likelihood()
        else:
            known, K = getattr(task, "known", None), here.L.shape[1]
            problem = Problem(task.X, K, None if known is None else known.prior(K), known=known)
        other = search(problem, np.random.default_rng([state.seed, state.moves]), OTHER)
        child = recombine(problem, [(here.L, here.F), other])
        best = state.best
        for pair in (child, other):
            best = self._tried(task, best, self.begin(*pair))
        kept = best is not state.best
        note = f"{MOVE}: {f'kept, {state.loss - best.loss:+,.0f}' if kept else 'no'}"
        return Refining(
            loss=best.loss, best=best, seed=state.seed, moves=state.moves + 1, kept=kept or state.kept, note=note
        )

    def _tried(self, task: Task[Any], old: Iterate, start: Iterate) -> Iterate:
        """The iterate after the move if it is better, the old one if not."""
        losses = [start.loss]

        def judge(progress: Progress) -> str | None:
            losses.append(progress.state.loss)
            done = len(losses) - 1
            if done < LEAST_TRIAL:
                return None
            pace = (losses[-5] - losses[-1]) / 4
            behind = losses[-1] - old.loss
            return "interrupted" if behind < 0 or behind > (TRIAL - done) * pace else None

        try:
            end, _ = run(task, self.solver, start, max_iter=TRIAL, tol=0, catch_interrupt=False, callbacks=[judge])
        except NotFiniteError:
            return old
        return end if end.loss < old.loss else old
