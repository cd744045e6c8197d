"""Accelerations of a fixed-point map M, here one EM iteration on θ = (L, F). Rivals of `Extrapolate`.

SQUAREM (Varadhan and Roland 2008), squared extrapolation:
    r = Mθ − θ,   w = M²θ − Mθ − r,   α = −max(1, ‖r‖/‖w‖),   θ' = M(θ − 2αr + α²w)
with one step length α for all of θ.

Quasi-Newton (Zhou, Alexander and Lange 2011), which `maptpx` accelerates EM with:
    θ' = Mθ − V (UᵀU − UᵀV)⁻¹ Uᵀ (θ − Mθ)
where the columns of U and V are the last few pairs u = Mθ − θ and v = M²θ − Mθ.

DAAREM (Henderson and Varadhan 2019), damped Anderson acceleration with restarts:
    f = Mθ − θ,   θ' = Mθ − ΔMᵀ γ,   γ = argmin ‖f − ΔFᵀ γ‖² + ρ ‖γ‖²
where the rows of ΔM and ΔF are the last changes of Mθ and f.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from unmix.base.types import Factor, Floats
from unmix.models.problem import Problem, State
from unmix.solvers.base import KEPT, AnySolver, FactorSolver, HalfStep
from unmix.solvers.extrapolate import Alternate
from unmix.solvers.halfsteps import EM


@dataclass(frozen=True, kw_only=True)
class History(State):
    """Two vectors of each of the last iterations, the oldest first: for DAAREM θ and Mθ, for QuasiNewton u and v. `trust` counts
    the leaps that were kept."""

    paths: ClassVar[tuple[str, ...]] = ("L_path", "F_path")
    L_path: Factor  # 2 × iterations × n × K
    F_path: Factor
    trust: int = 0


@dataclass(frozen=True)
class SQUAREM(FactorSolver[State]):
    """Three plain iterations per step; kept only if the loss is no worse than after the second, so it never rises.

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
        zero, one, two = (_theta(s) for s in (state, first, second))
        r, w = one - zero, two - 2 * one + zero
        bend = np.linalg.norm(w)
        alpha = -max(1.0, float(np.linalg.norm(r) / bend)) if bend > 0 else -1.0
        leap = _factors(zero - 2 * alpha * r + alpha**2 * w, second)
        return _better(plain.step(problem, plain.start(problem, *leap)), second)


@dataclass(frozen=True)
class QuasiNewton(FactorSolver[History]):
    """Two plain iterations per step and a leap from the last secants, kept only if the loss is no worse than after the second.

    Parameters
    ----------
    inner : HalfStep or Solver, default=EM()
        The plain iteration M.
    secants : int, default=3
        Number of secants, the columns of U and V.
    """

    inner: HalfStep | AnySolver = field(default_factory=EM)
    secants: int = 3
    state_type: ClassVar[type[State]] = History

    @property
    def supports(self) -> frozenset[str]:
        return frozenset(_plain(self.inner).supports)

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> History:
        return _without_past(_plain(self.inner).start(problem, L, F, loss))

    def step(self, problem: Problem, state: History) -> History:
        plain = _plain(self.inner)
        first = plain.step(problem, plain.start(problem, state.L, state.F, state.loss))
        second = plain.step(problem, first)
        pairs = [
            np.stack([b - a, c - b])[:, None]
            for a, b, c in zip(*((s.L, s.F) for s in (state, first, second)), strict=True)
        ]
        paths = [
            np.concatenate([old, new], axis=1)[:, -self.secants :]
            for old, new in zip((state.L_path, state.F_path), pairs, strict=True)
        ]
        U, V = _flat(paths)
        leap = quasi_newton(U, V, _theta(state), _theta(first))
        new = _better(plain.start(problem, *problem.rescale(*_factors(leap, second))), second)
        return History(L=new.L, F=new.F, loss=new.loss, note=new.note, L_path=paths[0], F_path=paths[1])


def quasi_newton(U: Floats, V: Floats, here: Floats, there: Floats) -> Floats:
    """Mθ − V (UᵀU − UᵀV)⁻¹ Uᵀ (θ − Mθ), secants as rows; Mθ itself where they determine nothing."""
    try:
        return there - np.linalg.solve(U @ U.T - U @ V.T, U @ (here - there)) @ V
    except np.linalg.LinAlgError:
        return there


def _plain(inner: HalfStep | AnySolver) -> AnySolver:
    return inner if isinstance(inner, FactorSolver) else Alternate(inner)


def _theta(state: State) -> Floats:
    return np.concatenate([state.L.ravel(), state.F.ravel()], dtype=np.float64)


def _flat(paths: list[Factor]) -> Floats:
    """Both parts of a path, one row per entry: 2 × entries × length of θ."""
    return np.concatenate([path.reshape(*path.shape[:2], -1) for path in paths], axis=2, dtype=np.float64)


def _better(leap: State, plain: State) -> State:
    """The leap where its loss is no worse, else the plain iterate."""
    return leap if leap.loss <= plain.loss else replace(plain, note="rejected")


@dataclass(frozen=True)
class DAAREM(FactorSolver[History]):
    """One plain iteration per step, and a leap from the changes of the last ones, which are then forgotten.

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
        return _without_past(Alternate(self.half).start(problem, L, F, loss))

    def step(self, problem: Problem, state: History) -> History:
        plain = Alternate(self.half).step(problem, state)
        paths = self._longer(state.L_path, state.L, plain.L), self._longer(state.F_path, state.F, plain.F)
        here, there = _flat([*paths])
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


def _without_past(state: State) -> History:
    L, F = (np.empty((2, 0, *factor.shape), factor.dtype) for factor in (state.L, state.F))
    return History(L=state.L, F=state.F, loss=state.loss, L_path=L, F_path=F)


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
