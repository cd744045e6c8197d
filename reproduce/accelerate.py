"""Accelerations of a fixed-point map M, here one EM iteration on θ = (L, F). Rivals of `Extrapolate`.

SQUAREM (Varadhan and Roland 2008), squared extrapolation:
    r = Mθ − θ,   w = M²θ − Mθ − r,   α = −max(1, ‖r‖/‖w‖),   θ' = M(θ − 2αr + α²w)

DAAREM (Henderson and Varadhan 2019), damped Anderson acceleration with restarts:
    f = Mθ − θ,   θ' = Mθ − ΔMᵀ γ,   γ = argmin ‖f − ΔFᵀ γ‖² + ρ ‖γ‖²
where the rows of ΔM and ΔF are the last changes of Mθ and f.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from unmix.base.types import Factor, Floats
from unmix.models.problem import Problem, State
from unmix.solvers.base import KEPT, FactorSolver, HalfStep
from unmix.solvers.extrapolate import Alternate
from unmix.solvers.halfsteps import EM


@dataclass(frozen=True)
class SQUAREM(FactorSolver[State]):
    """Three plain iterations a step; kept only if the loss is no worse than after the second, so it never rises.

    Parameters
    ----------
    half : HalfStep, default=EM()
        What a plain iteration is made of.
    """

    half: HalfStep = field(default_factory=EM)

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> State:
        return Alternate(self.half).start(problem, L, F, loss)

    def step(self, problem: Problem, state: State) -> State:
        plain = Alternate(self.half)
        first = plain.step(problem, state)
        second = plain.step(problem, first)
        L, F = _leap(state.L, first.L, second.L), _leap(state.F, first.F, second.F)
        third = plain.step(problem, plain.start(problem, L, F))
        if third.loss <= second.loss:
            return third
        return State(L=second.L, F=second.F, loss=second.loss, note="rejected")


def _leap(zero: Factor, one: Factor, two: Factor) -> Factor:
    r, w = one - zero, two - 2 * one + zero
    bend = np.linalg.norm(w)
    alpha = -max(1.0, float(np.linalg.norm(r) / bend)) if bend > 0 else -1.0
    return np.maximum(zero - 2 * alpha * r + alpha**2 * w, KEPT * two).astype(zero.dtype, copy=False)


@dataclass(frozen=True, kw_only=True)
class History(State):
    """θ and Mθ of the last iterations, the oldest first; `trust` counts the leaps that were kept."""

    paths: ClassVar[tuple[str, ...]] = ("L_path", "F_path")
    L_path: Factor  # 2 × iterations × n × K
    F_path: Factor
    trust: int = 0


@dataclass(frozen=True)
class DAAREM(FactorSolver[History]):
    """One plain iteration a step, and a leap from the changes of the last ones, which are then forgotten.

    A leap that makes the loss rise gives way to the plain iteration (the original lets it rise by 0.01). Damping, by ρ,
    leaves γ a share 1 / (1 + 1.2^(25 − trust)) of its squared norm: leaps grow bolder the more of them were kept.

    Parameters
    ----------
    half : HalfStep, default=EM()
        What a plain iteration is made of.
    order : int, default=10
        How many changes a leap is made of, at most.
    """

    half: HalfStep = field(default_factory=EM)
    order: int = 10
    state_type: ClassVar[type[State]] = History

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> History:
        nothing = (np.empty((2, 0, *factor.shape), factor.dtype) for factor in (L, F))
        loss = problem.loss(L, F) if loss is None else loss
        return History(L=L, F=F, loss=loss, L_path=next(nothing), F_path=next(nothing))

    def step(self, problem: Problem, state: History) -> History:
        plain = Alternate(self.half).step(problem, state)
        paths = self._longer(state.L_path, state.L, plain.L), self._longer(state.F_path, state.F, plain.F)
        here, there = np.concatenate([path.reshape(*path.shape[:2], -1) for path in paths], axis=2, dtype=np.float64)
        L, F, loss, trust, note = plain.L, plain.F, plain.loss, state.trust, ""
        if len(here) > 1:
            f = there - here
            gamma = _damped(np.diff(f, axis=0), f[-1], share=1 / (1 + 1.2 ** (25 - trust)))
            leap = problem.rescale(*_factors(there[-1] - gamma @ np.diff(there, axis=0), plain))
            ahead = problem.loss(*leap)
            if ahead <= state.loss:
                (L, F), loss, trust = leap, ahead, trust + 1
            else:
                note = "rejected"
        return History(L=L, F=F, loss=loss, trust=trust, note=note, L_path=paths[0], F_path=paths[1])

    def _longer(self, path: Factor, here: Factor, there: Factor) -> Factor:
        """With one iteration more, or with that one alone."""
        now = np.stack([here, there])[:, None]
        return now if path.shape[1] > self.order else np.concatenate([path, now], axis=1)


def _factors(theta: Floats, plain: State) -> tuple[Factor, Factor]:
    """θ as L and F; an entry keeps a part of the plain one, as in `Extrapolate`."""
    L, F = (
        np.maximum(part.reshape(like.shape), KEPT * like).astype(like.dtype)
        for part, like in ((theta[: plain.L.size], plain.L), (theta[plain.L.size :], plain.F))
    )
    return L, F


def _damped(changes: Floats, f: Floats, share: float) -> Floats:
    """argmin ‖f − changesᵀ γ‖² + ρ ‖γ‖², with the ρ that leaves ‖γ‖² this share of what it is without."""
    V, d, U = np.linalg.svd(changes, full_matrices=False)
    kept = d > 1e-10 * d[0] if d[0] > 0 else d > 0
    V, d, along = V[:, kept], d[kept], (U @ f)[kept]
    target = share * np.sum((along / d) ** 2)
    if not target > 0:
        return np.zeros(len(changes))

    def excess(log_rho: float) -> float:
        return float(np.sum((d * along / (d**2 + np.exp(log_rho))) ** 2) / target - 1)

    least, most = 2 * np.log(d[-1]) - 30, 2 * np.log(d[0]) + 80
    rho = np.exp(brentq(excess, least, most)) if excess(least) > 0 else 0.0
    return V @ (d * along / (d**2 + rho))
