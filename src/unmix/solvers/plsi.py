"""The PLSI triple X/N ≈ C diag(w) Hᵀ (Zhang et al.), columns of C and H and the weights w each summing to one.

With R the ratios at the current triple and q_k whatever makes a column sum to one:

    PLSI       (algorithm 2)    C ← C∘(R H)/q;   w ← w∘Σ_i C∘(R H) with new R;   H ← H∘(RᵀC)/q with new R
    normalised (algorithm 3)    G = C∘(R H), q = Σ_i G, C ← G/q, w ← w∘q;   the same for H with new R

L = N C diag(w) and F = H, so the ratios are those of the Poisson problem. `Normalized` follows `EM` exactly, rate by rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unmix.models.maps import plsi_to_poisson, poisson_to_plsi
from unmix.models.problem import Problem, State
from unmix.solvers.base import Solver
from unmix.solvers.joint import refuse_prior
from unmix.types import Factor, Floats


@dataclass(frozen=True, kw_only=True)
class Triple(State):
    C: Floats
    w: Floats
    H: Floats
    RH: Floats  # the numerators at the triple, which came with the loss


class _TripleSolver(Solver[Triple]):
    state_type: ClassVar[type[State]] = Triple

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> Triple:
        refuse_prior(self, problem)
        return self._at(problem, *poisson_to_plsi(L, F))

    def _at(self, problem: Problem, C: Floats, w: Floats, H: Floats) -> Triple:
        L, H = plsi_to_poisson(C, w, H, problem.X.total)
        RH, xlog = problem.left.numerators(L, H)
        return Triple(L=L, F=H, C=C, w=w, H=H, RH=RH, loss=problem.loss(L, H, xlog))

    def _right(self, problem: Problem, C: Floats, w: Floats, H: Floats) -> Floats:
        """RᵀC at the triple; a topic without weight has none."""
        RL, _ = problem.right.numerators(H, problem.X.total * C * w)
        weight = problem.X.total * w
        return np.divide(RL, weight, out=np.zeros_like(RL), where=weight > 0)


@dataclass(frozen=True)
class PLSI(_TripleSolver):
    """For the triple C diag(w) Hᵀ of Zhang, Ding and Tang, algorithm 2: the weights have an update of their own.

    See Also
    --------
    solvers.Normalized, maps.poisson_to_plsi

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.PLSI(), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    def step(self, problem: Problem, state: Triple) -> Triple:
        C = _normalised(state.C * state.RH)
        half = self._at(problem, C, state.w, state.H)
        w = state.w * (C * half.RH).sum(axis=0)
        H = _normalised(state.H * self._right(problem, C, w, state.H))
        return self._at(problem, C, w / w.sum(), H)


@dataclass(frozen=True)
class Normalized(_TripleSolver):
    """For the triple C diag(w) Hᵀ of Zhang, Ding and Tang, algorithm 3: the weights collect what normalising takes from C and H.

    See Also
    --------
    solvers.PLSI

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=um.solvers.Normalized(), tol=0, max_iter=20, random_state=0).fit(X).result_.status
    'max_iter'
    """

    def step(self, problem: Problem, state: Triple) -> Triple:
        G = state.C * state.RH
        C, w = _normalised(G), state.w * G.sum(axis=0)
        G = state.H * self._right(problem, C, w, state.H)
        H, w = _normalised(G), w * G.sum(axis=0)
        return self._at(problem, C, w / w.sum(), H)


def _normalised(G: Floats) -> Floats:
    sums = G.sum(axis=0)
    return np.divide(G, sums, out=np.full_like(G, 1 / len(G)), where=sums > 0)
