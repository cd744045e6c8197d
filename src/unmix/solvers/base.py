"""The two things an algorithm can be: a half-step, which updates one factor, or a solver, which makes a whole iteration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from unmix.models.problem import Problem, State
from unmix.models.task import Iterate
from unmix.sides import Side
from unmix.types import Factor, Record

T_contra = TypeVar("T_contra", contravariant=True)
S = TypeVar("S", bound=Iterate)
P = TypeVar("P", bound=State)


class Stepper(Protocol[T_contra, S]):
    """What the loop needs of a solver, whatever the task is: one more iteration, and a way back from what was saved."""

    def step(self, task: T_contra, state: S) -> S: ...

    def restore(self, task: T_contra, saved: Record) -> S:
        """The iterate that `Iterate.save` was taken from. Raises if it is damaged, or one of other data."""
        ...


class HalfStep(ABC):
    """One factor given the other."""

    @property
    def safe(self) -> HalfStep | None:
        """If the loss may rise: a half-step to do the iteration again with, under which it never does."""
        return None

    @abstractmethod
    def __call__(
        self, side: Side, fixed: Factor, moving: Factor, *, measure: bool = False
    ) -> tuple[Factor, float | None]:
        """The new rows of `moving`, and Σ x log λ at them if asked to measure it."""


class Solver(ABC, Generic[P]):
    """One iteration on both factors. `state_type` is what `start` and `step` return."""

    state_type: ClassVar[type[State]] = State

    @abstractmethod
    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> P:
        """The first state; `loss` is that of these factors, where the caller knows it."""

    @abstractmethod
    def step(self, problem: Problem, state: P) -> P: ...

    def restore(self, problem: Problem, saved: Record) -> P:
        names = {field.name for field in fields(self.state_type)}
        state: Any = self.state_type(**{name: value for name, value in saved.items() if name in names})
        (n, m), K = problem.X.shape, problem.n_topics
        for name, array in saved.items():
            axes = 2 if name in state.paths else 0
            if isinstance(array, np.ndarray) and array.shape[axes:] not in {(n, K), (m, K), (K,)}:
                raise ValueError(f"{name} has shape {array.shape}")
        return checked(problem, state)


def checked(problem: Problem, state: P) -> P:
    """Raises if the factors do not fit the data, or do not have the loss that they had."""
    (n, m), K = problem.X.shape, problem.n_topics
    if state.L.shape != (n, K) or state.F.shape != (m, K):
        raise ValueError(f"L has shape {state.L.shape} and F {state.F.shape}")
    # single precision factors were rounded after the loss had been measured
    tolerance = 1e-9 if state.L.dtype == np.float64 else 1e-6
    if not abs(problem.loss(state.L, state.F) - state.loss) <= tolerance * abs(state.loss):
        raise ValueError("the loss is another")
    return state


AnySolver = Solver[Any]
