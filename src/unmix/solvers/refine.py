"""Split–merge moves: leave a poor local optimum by merging two topics and splitting a third.

Both halves of a move are judged before it is tried, each by what the log-likelihood changes at once:

    merging a and b:  one topic with their summed counts takes their place;
    splitting c:      two topics take its place that were fitted to its counts alone, S_··c = x l_ic f_jc / λ_ij.

The moves with the best sum are tried: all topics are fitted for some iterations, and the move is kept if the log-likelihood
has risen above what it was before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix import kernels
from unmix.counts import Counts
from unmix.models.topics import poisson_to_topics
from unmix.solvers.base import Floats, Problem, Solver, State
from unmix.solvers.extrapolate import Extrapolate
from unmix.solvers.newton import Newton
from unmix.solvers.run import Callback, Pace, Progress, Trace, ask, run

LEAST_TRIAL, TRIAL = (
    10,
    40,
)  # iterations on all topics; after the least, a move that could not catch up at its pace is given up
CARED_FOR = 0.05  # counts of which a topic explains a smaller part do not take part in its split


@dataclass(frozen=True)
class Split:
    """Two topics in place of one: how each sample divides its loading, the two columns of F*, and what is gained."""

    parts: NDArray[np.float64]  # n × 2, rows sum to one
    columns: NDArray[np.float64]  # m × 2, columns sum to one
    gain: float


@dataclass
class Search:
    """What is known of moves: what each topic's split would gain and each merge would cost, of topics that no move has changed
    since, and which moves failed since the last that won."""

    status: str  # of the fit before
    done: int = 0
    kept: bool = False
    splits: dict[int, Split] = field(default_factory=dict)
    costs: dict[tuple[int, int], float] = field(default_factory=dict)
    tried: set[tuple[int, int, int]] = field(default_factory=set)

    def next_move(
        self, problem: Problem, state: State, rng: np.random.Generator
    ) -> tuple[tuple[int, int, int], float] | None:
        """The most promising move, merge a and b and split c, and what it may gain."""
        for c in range(problem.n_topics):
            if c not in self.splits:
                self.splits[c] = split_topic(problem, state, c, rng)
        for a, b in combinations(range(problem.n_topics), 2):
            if (a, b) not in self.costs:
                self.costs[a, b] = merge_cost(problem, state, a, b)
        return _most_promising(self.costs, self.splits, self.tried)

    def learn(self, move: tuple[int, int, int], won: bool) -> None:
        self.done += 1
        self.kept |= won
        if won:
            self.splits = {k: split for k, split in self.splits.items() if k not in move}
            self.costs = {pair: cost for pair, cost in self.costs.items() if not set(move) & set(pair)}
            self.tried.clear()
        else:
            self.tried.add(move)

    def as_dict(self, rng: np.random.Generator) -> dict[str, Any]:
        """All of it, and the random numbers that come next, as a trace keeps it."""
        known = list(self.splits.values())
        return {
            "status": self.status,
            "done": self.done,
            "kept": self.kept,
            "topics": list(self.splits),
            "gains": [split.gain for split in known],
            "costs": [[*pair, cost] for pair, cost in self.costs.items()],
            "tried": sorted(self.tried),
            "random": rng.bit_generator.state,
        } | (
            {"parts": np.stack([s.parts for s in known]), "columns": np.stack([s.columns for s in known])}
            if known
            else {}
        )

    @classmethod
    def from_dict(cls, left: dict[str, Any]) -> Self:
        splits = {
            c: Split(left["parts"][i], left["columns"][i], left["gains"][i]) for i, c in enumerate(left["topics"])
        }
        costs = {(a, b): cost for a, b, cost in left["costs"]}
        return cls(left["status"], left["done"], left["kept"], splits, costs, {(a, b, c) for a, b, c in left["tried"]})


def refine(
    problem: Problem,
    solver: Solver,
    state: State,
    trace: Trace,
    rng: np.random.Generator,
    status: str,
    *,
    moves: int,
    max_iter: int,
    tol: float,
    callbacks: Sequence[Callback] = (),
) -> tuple[State, str]:
    """Try up to `moves` moves from a fit that ended with `status`, then fit again. The log-likelihood never falls.

    A search that the trace remembers goes on where it was left off.
    """
    if problem.n_topics < 3:
        return state, status
    search = Search(status) if trace.search is None else Search.from_dict(trace.search)
    if trace.pace.stage != "refit":
        trace.pace = Pace("refine")
    whole = state, len(trace.rows)  # after the last move that is complete
    try:
        while search.done < moves and trace.pace.stage == "refine":
            trace.search = search.as_dict(rng)
            move = search.next_move(problem, state, rng)
            if move is None:
                break
            (a, b, c), estimate = move
            new = _try(problem, solver, state, a, b, search.splits[c], c)
            won = new is not state
            gain, state = state.loss - new.loss, new
            search.learn((a, b, c), won)
            note = f"merge {a + 1}+{b + 1}, split {c + 1}: {'kept' if won else 'no'} (estimated {estimate:+.0f})"
            trace.add(state, "refine", note)
            trace.search, whole = search.as_dict(rng), (state, len(trace.rows))
            if verdict := ask(callbacks, Progress(problem, solver, state, trace, gain)):
                return state, verdict
    except KeyboardInterrupt:
        state, rows = whole
        del trace.rows[rows:]
        return state, "interrupted"
    if not search.kept:
        return state, search.status
    return run(problem, solver, state, trace, stage="refit", max_iter=max_iter, tol=tol, callbacks=callbacks)


def merge_cost(problem: Problem, state: State, a: int, b: int) -> float:
    """What the log-likelihood loses when topics a and b are replaced by their sum, before anything is fitted again."""
    L, F = _merged(*_in_counts(state), a, b)
    return _loss(problem, np.delete(L, b, axis=1), np.delete(F, b, axis=1)) - _present_loss(problem, state)


def split_topic(problem: Problem, state: State, c: int, rng: np.random.Generator) -> Split:
    """Two topics fitted to the counts that topic c explains, and what they gain before anything else is fitted again."""
    counts, left_out = _allocated(problem, state, c)
    L, F = _in_counts(state)
    if counts.total == 0:
        return Split(np.full((len(L), 2), 0.5), F[:, [c, c]], 0.0)
    parts, columns = _fit_two(Problem(counts, 2, None, problem.threads), rng)
    weights = counts.sample_totals @ parts
    columns = columns * weights + np.outer(left_out, weights / weights.sum())  # what was left out goes to both alike
    columns /= columns.sum(axis=0)
    after = _loss(
        problem,
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
        ends.append(run(problem, solver, start, Trace(problem), max_iter=15, tol=1e-6, keep=False)[0])
    best = min(ends, key=lambda end: end.loss)
    proportions, topics, _, _ = poisson_to_topics(best.L, best.F)
    return proportions, topics


def _allocated(problem: Problem, state: State, c: int) -> tuple[Counts, Floats]:
    """S_··c without the counts in which topic c plays next to no part, and the sums of those by feature."""
    X = problem.X
    ratio = kernels.ratios(X.rows, state.L, state.F, threads=problem.threads)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.rows.indptr))
    allocated = ratio * state.L[rows, c] * state.F[X.rows.indices, c]
    keep = allocated > CARED_FOR * X.rows.data
    left_out = np.bincount(X.rows.indices[~keep], allocated[~keep], X.shape[1])
    return Counts(sp.csr_array((allocated[keep], (rows[keep], X.rows.indices[keep])), shape=X.shape)), left_out


def _loss(problem: Problem, L: Floats, F: Floats) -> float:
    """Of the likelihood alone: moves change the number of topics, which a prior may not fit."""
    return replace(problem, prior=None, loadings_prior=None).loss(L, F)


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


def _most_promising(
    costs: dict[tuple[int, int], float], splits: dict[int, Split], tried: set[tuple[int, int, int]]
) -> tuple[tuple[int, int, int], float] | None:
    estimates = {
        (a, b, c): split.gain - cost
        for (a, b), cost in costs.items()
        for c, split in splits.items()
        if c not in (a, b) and (a, b, c) not in tried
    }
    if not estimates:
        return None
    best = max(estimates, key=lambda move: estimates[move])
    return best, estimates[best]


def _try(problem: Problem, solver: Solver, state: State, a: int, b: int, split: Split, c: int) -> State:
    """The state after the move if it is better, the old state if not."""
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

    end, _ = run(problem, solver, start, Trace(problem), max_iter=TRIAL, tol=0, keep=False, callbacks=[judge])
    return end if end.loss < state.loss else state
