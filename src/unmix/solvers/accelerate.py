"""SQUAREM (Varadhan and Roland): squared extrapolation of a fixed-point map, here one EM iteration. A rival of `Extrapolate`.

r = Mθ − θ,   w = M²θ − Mθ − r,   α = −max(1, ‖r‖/‖w‖),   θ' = M(θ − 2αr + α²w)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from unmix.solvers.alternate import Alternate
from unmix.solvers.base import Floats, HalfStep, Problem, State
from unmix.solvers.em import EM
from unmix.solvers.extrapolate import LEAST


@dataclass(frozen=True)
class SQUAREM:
    """Three plain iterations a step; kept only if the loss is no worse than after the second, so it never rises."""

    half: HalfStep = field(default_factory=EM)
    state_type: ClassVar[type[State]] = State

    def start(self, problem: Problem, L: Floats, F: Floats) -> State:
        return State(L=L, F=F, loss=problem.loss(L, F))

    def step(self, problem: Problem, state: State) -> State:
        plain = Alternate(self.half)
        first = plain.step(problem, state)
        second = plain.step(problem, first)
        leap = [_leap(*thetas) for thetas in ((state.L, first.L, second.L), (state.F, first.F, second.F))]
        third = plain.step(problem, plain.start(problem, *leap))
        if third.loss <= second.loss:
            return third
        return State(L=second.L, F=second.F, loss=second.loss, note="rejected")


def _leap(zero: Floats, one: Floats, two: Floats) -> Floats:
    r, w = one - zero, two - 2 * one + zero
    bend = np.linalg.norm(w)
    alpha = -max(1.0, float(np.linalg.norm(r) / bend)) if bend > 0 else -1.0
    return np.maximum(zero - 2 * alpha * r + alpha**2 * w, LEAST * two).astype(zero.dtype, copy=False)
