"""Coordinate ascent for every variational model: one pass over the nonzeros, then a prior around each factor's counts.

    joint  (inner=0):  counts of both factors from one pass; q(L), then q(F), from them        (Geiger & Park, algorithms 3, 5, 7)
    VEM    (inner>0):  q(L) again and again, each row until it stands still; then q(F)

Both maximise the bound over one block at a time, so it never falls. With Gammas on both sides the scale of each topic is one
more block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmix import kernels
from unmix.counts import Counts
from unmix.models.beliefs import Belief, DirichletRows
from unmix.models.lda import best_alpha
from unmix.models.poisson import loglik
from unmix.models.variational import Variational, restore
from unmix.solvers.base import Result, Stage

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Inference:
    """Find the posterior of a variational model of these counts."""

    X: Counts
    model: Variational
    threads: int = 1

    def figures(self, state: Beliefs) -> dict[str, float]:
        return {"loglik": np.nan, "objective": -state.loss, "elbo": -state.loss}

    def kkt(self, state: Beliefs) -> float:
        return np.nan

    def result(self, state: Beliefs) -> Result:
        L, F = state.model.factors(self.X, state.left, state.right)
        value = loglik(self.X, L, F)
        assert isinstance(value, float)
        return Result(L, F, value, state.model.arrays(state.left, state.right))


@dataclass(frozen=True, kw_only=True, eq=False)
class Beliefs(Stage):
    """q(L) and q(F), and the numerators at them that came with the bound (none after inner iterations)."""

    model: Variational
    left: Belief
    right: Belief
    A: Floats | None = None
    B: Floats | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"loss": self.loss} | self.model.arrays(self.left, self.right)


@dataclass(frozen=True)
class CAVI:
    """`inner` most iterations for a row of L before F moves (0: both move together), fewer once a row changes by less than
    `enough` of its sum. `learn_alpha`: the Dirichlet prior of the rows is fitted too."""

    inner: int = 0
    enough: float = 1e-4
    learn_alpha: bool = False

    def start(self, task: Inference, left: Belief, right: Belief) -> Beliefs:
        return self._at(task, task.model, left, right)

    def restore(self, task: Inference, arrays: dict[str, Any]) -> Beliefs:
        """The state that `as_dict` was taken from."""
        return self._at(task, *restore(arrays, task.threads))

    def step(self, task: Inference, s: Beliefs) -> Beliefs:
        X, threads, model = task.X, task.threads, s.model
        if self.inner:
            left = infer(X, model, s.right, s.left, self.inner, self.enough, threads)
            B, _ = kernels.numerators(X.columns, s.right.geometric, left.geometric, threads=threads)
        else:
            assert s.A is not None
            assert s.B is not None
            left = model.left.believe(s.left.geometric * s.A, s.right.sums, threads)
            B = s.B
        counts = s.right.geometric * B
        if self.learn_alpha:
            assert isinstance(model.left, DirichletRows)
            model = replace(model, left=DirichletRows(best_alpha(model.left.shape, left)))
            left = model.left.at(left.parameters, threads=threads)
        right = model.right.believe(counts, left.sums, threads)
        left, right, _ = model.rescaled(left, right, X.shape[0], left.sums, threads)
        return self._at(task, model, left, right)

    def _at(self, task: Inference, model: Variational, left: Belief, right: Belief) -> Beliefs:
        X = task.X
        if self.inner:
            A = B = None
            xlog = float(kernels.xlogs(X.rows, left.geometric, right.geometric, threads=task.threads).sum())
        else:
            A, B, xlog = kernels.both_numerators(
                X.rows, X.columns, X.column_order, left.geometric, right.geometric, threads=task.threads
            )
        return Beliefs(model=model, left=left, right=right, A=A, B=B, loss=-model.elbo(X, left, right, xlog))


def infer(
    X: Counts,
    model: Variational,
    right: Belief,
    start: Belief | Floats | None,
    steps: int,
    enough: float,
    threads: int,
) -> Belief:
    """q(L) given q(F): the loop γ ← prior + expected counts, row by row, from a belief, from parameters (with the rates that
    are best now), or from counts spread evenly."""
    prior = model.left.shape
    rates = np.ones(len(prior)) if isinstance(model.left, DirichletRows) else model.left.rate + right.sums

    def loop(parameters: Floats, rates: Floats, steps: int) -> Floats:
        return kernels.infer(
            X.rows, right.geometric, 1 / rates, parameters, prior, steps=steps, enough=enough, threads=threads
        )

    if start is None:
        start = prior + X.sample_totals[:, None] / len(prior)
    elif isinstance(start, Belief):
        # the first expected counts are those under the old rates, or the bound might fall
        old, start = start.rates, start.parameters
        if not np.array_equal(old, rates):
            start, steps = loop(start, old, 1), steps - 1
    return model.left.at(loop(start, rates, steps) if steps else start, rates, threads)
