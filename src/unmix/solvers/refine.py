"""Split–merge moves: leave a poor local optimum by merging two topics and splitting a third.

Both halves of a move are judged before it is tried, each by what the log-likelihood changes at once:

    merging a and b:  one topic with their summed counts takes their place;
    splitting c:      two topics take its place that were fitted to its counts alone, S_··c = x l_ic f_jc / λ_ij.

The moves with the best sum are tried: all topics are fitted for some iterations, and the move is kept if the log-likelihood
has risen above what it was before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Self

import numpy as np

from unmix.models.problem import Problem, State
from unmix.models.topics import poisson_to_topics
from unmix.solvers.base import AnySolver
from unmix.solvers.extrapolate import Extrapolate
from unmix.solvers.newton import Newton
from unmix.solvers.run import Progress, run
from unmix.types import Floats, Record

# iterations on all topics; after the least, a move that could not catch up at its pace is given up
LEAST_TRIAL, TRIAL = 10, 40
CARED_FOR = 0.05  # counts of which a topic explains a smaller part do not take part in its split

Move = tuple[int, int, int]  # merge a and b, split c


@dataclass(frozen=True)
class Split:
    """Two topics in place of one: how each sample divides its loading, the two columns of F*, and what is gained."""

    parts: Floats  # n × 2, rows sum to one
    columns: Floats  # m × 2, columns sum to one
    gain: float


@dataclass(frozen=True)
class Search:
    """What is known of moves: what each topic's split would gain and each merge would cost, of topics that no move has changed
    since, and which moves failed since the last that won. `random` is the state of the random numbers that come next."""

    random: Record
    kept: bool = False
    splits: dict[int, Split] = field(default_factory=dict)
    costs: dict[tuple[int, int], float] = field(default_factory=dict)
    tried: frozenset[Move] = frozenset()

    def complete(self, problem: Problem, state: State) -> Search:
        """With the splits and merges of all topics."""
        rng = _generator(self.random)
        splits = {
            c: self.splits[c] if c in self.splits else split_topic(problem, state, c, rng)
            for c in [*self.splits, *(c for c in range(problem.n_topics) if c not in self.splits)]
        }
        pairs = combinations(range(problem.n_topics), 2)
        missing = {pair: merge_cost(problem, state, *pair) for pair in pairs if pair not in self.costs}
        return replace(self, random=dict(rng.bit_generator.state), splits=splits, costs=self.costs | missing)

    def best_move(self) -> tuple[Move, float]:
        """The most promising one, and what it may gain."""
        estimates = {
            (a, b, c): split.gain - cost
            for (a, b), cost in self.costs.items()
            for c, split in self.splits.items()
            if c not in (a, b) and (a, b, c) not in self.tried
        }
        best = max(estimates, key=lambda move: estimates[move])
        return best, estimates[best]

    def after(self, move: Move, won: bool) -> Search:
        if not won:
            return replace(self, tried=self.tried | {move})
        splits = {k: split for k, split in self.splits.items() if k not in move}
        costs = {pair: cost for pair, cost in self.costs.items() if not set(move) & set(pair)}
        return replace(self, kept=True, splits=splits, costs=costs, tried=frozenset())

    def save(self) -> Record:
        known = list(self.splits.values())
        arrays = {name: np.stack([getattr(split, name) for split in known]) for name in ("parts", "columns") if known}
        return {
            "random": self.random,
            "kept": self.kept,
            "topics": list(self.splits),
            "gains": [split.gain for split in known],
            "costs": [[*pair, cost] for pair, cost in self.costs.items()],
            "tried": sorted(self.tried),
        } | arrays

    @classmethod
    def restore(cls, saved: Record) -> Self:
        splits = {
            c: Split(saved["parts"][i], saved["columns"][i], saved["gains"][i]) for i, c in enumerate(saved["topics"])
        }
        costs = {(a, b): cost for a, b, cost in saved["costs"]}
        return cls(saved["random"], saved["kept"], splits, costs, frozenset((a, b, c) for a, b, c in saved["tried"]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Searching(State):
    """The best factors so far, in the state in which the solver left them, and the search for moves."""

    best: State
    search: Search

    def save(self) -> Record:
        return self.best.save() | {"search": self.search.save()}


@dataclass(frozen=True)
class Refine:
    """One split–merge move an iteration. The loss never rises; it is final once no move is left to try."""

    solver: AnySolver

    def start(self, best: State, rng: np.random.Generator) -> Searching:
        return self._at(best, Search(dict(rng.bit_generator.state)))

    def restore(self, problem: Problem, saved: Record) -> Searching:
        best = self.solver.restore(problem, {name: value for name, value in saved.items() if name != "search"})
        return self._at(best, Search.restore(saved["search"]))

    def step(self, problem: Problem, state: Searching) -> Searching:
        search = state.search.complete(problem, state.best)
        move, estimate = search.best_move()
        new = _try(problem, self.solver, state.best, move, search.splits[move[2]])
        won = new is not state.best
        a, b, c = (k + 1 for k in move)
        note = f"merge {a}+{b}, split {c}: {'kept' if won else 'no'} (estimated {estimate:+.0f})"
        return self._at(new, search.after(move, won), note)

    @staticmethod
    def _at(best: State, search: Search, note: str = "") -> Searching:
        K = best.L.shape[1]
        final = len(search.tried) >= K * (K - 1) * (K - 2) // 2
        return Searching(L=best.L, F=best.F, loss=best.loss, note=note, final=final, best=best, search=search)


def merge_cost(problem: Problem, state: State, a: int, b: int) -> float:
    """What the log-likelihood loses when topics a and b are replaced by their sum, before anything is fitted again."""
    L, F = _merged(*_in_counts(state), a, b)
    after = problem.likelihood_loss(np.delete(L, b, axis=1), np.delete(F, b, axis=1))
    return after - _present_loss(problem, state)


def split_topic(problem: Problem, state: State, c: int, rng: np.random.Generator) -> Split:
    """Two topics fitted to the counts that topic c explains, and what they gain before anything else is fitted again."""
    part, left_out = _allocated(problem, state, c)
    L, F = _in_counts(state)
    if part.X.total == 0:
        return Split(np.full((len(L), 2), 0.5), F[:, [c, c]], 0.0)
    parts, columns = _fit_two(part, rng)
    weights = part.X.sample_totals @ parts
    columns = columns * weights + np.outer(left_out, weights / weights.sum())  # what was left out goes to both alike
    columns /= columns.sum(axis=0)
    after = problem.likelihood_loss(
        np.hstack([np.delete(L, c, axis=1), L[:, [c]] * parts]),
        np.hstack([np.delete(F, c, axis=1), columns]),
    )
    return Split(parts, columns, _present_loss(problem, state) - after)


def _fit_two(problem: Problem, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Proportions and topics of the better of two short fits of two topics."""
    X = problem.X
    solver = Extrapolate(Newton(rounds=1))
    ends = []
    for _ in range(2):
        share = rng.beta(0.5, 0.5, X.shape[0])
        L = X.sample_totals[:, None] * np.column_stack([share, 1 - share])
        F = X.feature_totals[:, None] * rng.uniform(0.5, 1.5, (X.shape[1], 2))
        start = solver.start(problem, _positive(L), _positive(F / F.sum(axis=0)))
        ends.append(run(problem, solver, start, max_iter=15, tol=1e-6, catch_interrupt=False)[0])
    best = min(ends, key=lambda end: end.loss)
    proportions, topics, _, _ = poisson_to_topics(best.L, best.F)
    return proportions, topics


def _allocated(problem: Problem, state: State, c: int) -> tuple[Problem, Floats]:
    """The problem of two topics for S_··c without the counts in which topic c plays next to no part, and the sums of those by
    feature."""
    part, left_out = problem.X.part(problem.left.allocated(state.L, state.F, c), CARED_FOR)
    return Problem(part, 2), left_out


def _present_loss(problem: Problem, state: State) -> float:
    """Of the likelihood alone, without another pass over the data."""
    return state.loss - problem.penalty(state.L, state.F)


def _in_counts(state: State) -> tuple[Floats, Floats]:
    """The same rates with columns of F summing to one, so that loadings are counts."""
    _, topics, _, scales = poisson_to_topics(state.L, state.F)
    return state.L * scales, topics


def _merged(L: Floats, F: Floats, a: int, b: int) -> tuple[Floats, Floats]:
    """Topic a becomes the sum of a and b; topic b is left for the caller to fill or drop."""
    weights = L[:, [a, b]].sum(axis=0)
    F[:, a] = F[:, [a, b]] @ (weights / weights.sum() if weights.sum() > 0 else [0.5, 0.5])
    L[:, a] += L[:, b]
    return L, F


def _positive(factor: Floats) -> Floats:
    return np.maximum(factor, 1e-12 * factor.max())


def _generator(state: Record) -> np.random.Generator:
    """Random numbers that go on from this state."""
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def _try(problem: Problem, solver: AnySolver, state: State, move: Move, split: Split) -> State:
    """The state after the move if it is better, the old state if not."""
    a, b, c = move
    L, F = _merged(*_in_counts(state), a, b)
    F[:, [b, c]] = np.maximum(split.columns, 1e-12 * split.columns.max(axis=0))
    L[:, [b, c]] = L[:, [c]] * split.parts
    start = solver.start(problem, *problem.rescale(L.astype(state.L.dtype), F.astype(state.F.dtype)))
    losses = [start.loss]

    def judge(progress: Progress) -> str | None:
        losses.append(progress.state.loss)
        done = len(losses) - 1
        if done < LEAST_TRIAL:
            return None
        pace = (losses[-5] - losses[-1]) / 4
        behind = losses[-1] - state.loss
        return "interrupted" if behind < 0 or behind > (TRIAL - done) * pace else None

    end, _ = run(problem, solver, start, max_iter=TRIAL, tol=0, catch_interrupt=False, callbacks=[judge])
    return end if end.loss < state.loss else state
