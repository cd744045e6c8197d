"""Two fits of the same data into one that has the topics of both: put them side by side, and merge until K are left.

A local optimum is mostly right: it lacks a topic or two, and has others twice. Two optima seldom lack the same ones. Side by
side, their 2 K topics describe the data better than either; merging, again and again, the pairs whose difference the data
miss least then does away with what both have, and keeps what one of them had found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unmix.models.problem import Problem, State
from unmix.models.topics import poisson_to_topics
from unmix.solvers.alternate import Alternate
from unmix.solvers.newton import Newton
from unmix.types import Factor, Floats, Integers, Pair

NEWTON = Alternate(Newton(rounds=1))
LOOKED_AT = 30_000  # nonzeros by which merges are judged
NEIGHBOURS = 16  # a topic may merge with so many that are most like it
POSITIVE = 1e-12  # of the largest entry of a column: less could not grow again


def recombine(problem: Problem, parents: list[Pair]) -> Pair:
    """K topics out of those of all parents, a list that is emptied. In single precision: there are twice as many topics to begin
    with, and memory is short."""
    several = [tuple(factor.astype(np.float32) for factor in in_counts(*pair)) for pair in parents]
    parents.clear()
    L, F = (np.hstack(factors) for factors in zip(*several, strict=True))
    L /= len(several)
    del several
    state = moved(problem, L, F)
    del L, F
    state = merge_down(problem, state.L, state.F)
    return state.L.astype(np.float64), state.F.astype(np.float64)


def merge_down(problem: Problem, L: Factor, F: Factor) -> State:
    """Merge topics until there are as many as the problem has. Several pairs at once, but of the surplus never more than half,
    and two iterations in between: topics that have moved are judged anew."""
    if L.shape[1] <= problem.n_topics:
        raise ValueError(f"{L.shape[1]} topics cannot be merged into {problem.n_topics}")
    while (K := L.shape[1]) > problem.n_topics:
        L, F = (factor.astype(L.dtype) for factor in in_counts(L, F))
        pairs = cheapest(merge_costs(problem, L, F), (K - problem.n_topics + 1) // 2)
        state = moved(problem, *merged(L, F, pairs or [(0, 1)]))  # any two, where numbers are too small to tell
        L, F = state.L, state.F
    return state


def moved(problem: Problem, L: Factor, F: Factor) -> State:
    """Two iterations of Newton's method on as many topics as there are."""
    problem = replace(problem, n_topics=L.shape[1])
    state = NEWTON.start(problem, *problem.rescale(positive(L), positive(F)))
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
    fitted again: estimated from some of the nonzeros (the expected total stays). Infinite for pairs that are not looked at."""
    K = L.shape[1]
    rows, columns, x = problem.left.some(LOOKED_AT)
    whole = problem.X.total / x.sum()
    # rates of the merged topics in units of the rate, single precision: what decides is not in the last digits
    loads, topics = L[rows].T, F[columns].T
    loads = (loads / np.einsum("kp,kp->p", loads, topics)).astype(np.float32)
    topics, x = topics.astype(np.float32), x.astype(np.float32)
    shares = loads * topics
    weights = L.sum(axis=0)
    costs = np.full((K, K), np.inf)
    for a, others in enumerate(neighbours(F)):
        for b in others[others > a]:
            part = np.float32(weights[a] / max(weights[a] + weights[b], 1e-300))
            rate = 1 - shares[a] - shares[b] + (loads[a] + loads[b]) * (part * topics[a] + (1 - part) * topics[b])
            costs[a, b] = -whole * float(x @ np.log(np.maximum(rate, 1e-30)))
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


def merged(L: Factor, F: Factor, pairs: Sequence[tuple[int, int]]) -> Pair:
    """Each first topic becomes the sum of both, each second one is gone; loadings are counts."""
    L, F = L.copy(), F.copy()
    for a, b in pairs:
        weights = L[:, [a, b]].sum(axis=0)
        F[:, a] = F[:, [a, b]] @ (weights / weights.sum() if weights.sum() > 0 else [0.5, 0.5])
        L[:, a] += L[:, b]
    gone = [b for _, b in pairs]
    return np.delete(L, gone, axis=1), np.delete(F, gone, axis=1)
