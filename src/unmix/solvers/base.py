"""What an algorithm can be: a half-step, which updates one factor, or a solver, which makes a whole iteration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from unmix.base.types import Factor, Record
from unmix.counts.data import Data
from unmix.counts.sides import Side
from unmix.models.problem import Iterate, Problem, State, Task, from_record

T = TypeVar("T", bound=Task[Any])
S = TypeVar("S", bound=Iterate)
P = TypeVar("P", bound=State)


# What a fit may need of its solver, and what to use if it does not have it. A solver declares in `supports` what it has.
NEEDS = {
    "a prior on factors": "use em, scd, ccd, sn or newton",
    "a prior on loadings": "use loadings_prior=None, or LDA or GammaPoisson",
    "a prior with a row per sample": "use one with a shape per topic, or use LDA",
    "a Dirichlet prior on loadings": "use plsa, loadings_prior=None, or LDA",
    "a sparsity penalty": "use SparsePoissonNMF",
    "multipliers of rates": "use newton, scd, ccd, sn or em, without a Dirichlet prior on proportions",
    "effects of batches": "use newton, scd, ccd, sn or em",
    "known topics": "use newton, scd, ccd, sn or em; known_weight=1000 is a prior instead",
    "allowed topics": "use newton, scd, ccd, sn or em",
    "shards": "use TopicModel or PoissonNMF with newton, scd, ccd, sn or em, or LDA, or partial_fit, or fit shards.sample",
}
MULTIPLIERS = frozenset({"multipliers of rates", "effects of batches"})
KNOWN = frozenset({"known topics", "allowed topics"})
LIKELIHOOD = MULTIPLIERS | KNOWN | {"a prior on factors", "a prior on loadings", "a prior with a row per sample"}


def refuse_unsupported(solver: Stepper[Any, Any], X: Data, needs: Sequence[str] = (), who: str = "") -> None:
    """Raises if a task that `needs` these, or its data, ask for what the solver, that of an estimator `who`, does not
    support."""
    for need in needs if X.in_memory else [*needs, "shards"]:
        if need not in solver.supports:
            who = f"{who} with {solver.name}" if who else solver.name
            raise ValueError(f"{who} does not support {need}; {NEEDS[need]}")


def identifier(solver: Any) -> str:
    """A name for states to be known by: of the algorithm and its version, and its options."""
    if not is_dataclass(solver) or isinstance(solver, type):
        return repr(solver)
    options = ", ".join(
        f"{field.name}={identifier(getattr(solver, field.name))}" for field in fields(solver) if field.repr
    )
    version = getattr(solver, "version", 1)
    return f"{type(solver).__name__.lower()}/{version}({options})"


@dataclass(frozen=True)
class Momentum:
    """How far to move on along the last change: β grows as long as steps are accepted, and shrinks when one is not.

    A `moving` ceiling is, after a rejection, the last β that was accepted, and grows from there.
    """

    beta: float = 0.6
    proven: float = 0.6
    ceiling: float = 0.99
    moving: bool = True

    def accepted(self) -> Self:
        ceiling = min(0.99, 1.05 * self.ceiling) if self.moving else self.ceiling
        return replace(self, beta=min(self.ceiling, 1.05 * self.beta), proven=self.beta, ceiling=ceiling)

    def rejected(self) -> Self:
        return replace(self, beta=0.75 * self.beta, ceiling=self.proven if self.moving else self.ceiling)


FIRST = Momentum()


KEPT = 0.5  # an extrapolated entry keeps this part of the plain one: a multiplicative step could not bring it back from zero


def beyond(new: Factor, old: Factor, beta: float) -> Factor:
    """max(new + β (new − old), KEPT new), block by block so that what is between stays in cache"""
    out = np.empty_like(new)
    for start in range(0, len(new), 2048):
        rows = slice(start, start + 2048)
        ahead = new[rows] - old[rows]
        ahead *= beta
        ahead += new[rows]
        np.maximum(ahead, KEPT * new[rows], out=out[rows])
    return out


class Stepper(ABC, Generic[T, S]):
    """What the loop needs, whatever the task is: one more iteration, and a way back from what was saved."""

    version: ClassVar[int] = 1  # raised when a saved state of an earlier one would mean something else

    @property
    def name(self) -> str:
        """str: what messages call it."""
        return type(self).__name__

    @property
    def supports(self) -> frozenset[str]:
        """frozenset of str: what of `NEEDS` it has."""
        return frozenset()

    @abstractmethod
    def step(self, task: T, state: S) -> S:
        """One iteration.

        Parameters
        ----------
        task : Problem or Inference
            What is optimised.
        state : State
            What the last one returned.

        Returns
        -------
        State
            The next one.
        """

    @abstractmethod
    def restore(self, task: T, saved: Record) -> S:
        """The state that `save` was taken from.

        Parameters
        ----------
        task : Problem or Inference
            What is optimised.
        saved : dict
            Arrays and plain values.

        Returns
        -------
        State
            As it was.

        Raises
        ------
        ValueError
            If it is damaged, or one of other data.
        """


class Solver(Stepper[T, S]):
    """What fits a model of any kind, from loadings and factors on.

    See Also
    --------
    solvers.FactorSolver : For maximum likelihood.
    solvers.run : The loop.

    Examples
    --------
    >>> import unmix as um
    >>> isinstance(um.solvers.CAVI(), um.solvers.Solver), isinstance(um.solvers.Joint(), um.solvers.Solver)
    (True, True)
    """

    def for_data(self, X: Data) -> Solver[T, Any]:
        """The solver to use for these data: itself, or its relative for data that are not in memory."""
        return self

    @abstractmethod
    def start(self, task: T, L: Factor, F: Factor) -> S:
        """The first state.

        Parameters
        ----------
        task : Problem or Inference
            What is optimised.
        L : array, n × K
            Loadings to start from. A solver for data that are not in memory takes an array without rows, too, and finds them.
        F : array, m × K
            Factors to start from.

        Returns
        -------
        State
            Of the kind that `step` takes.
        """


class HalfStep(ABC):
    """One factor given the other: what most algorithms are. Subclasses are frozen dataclasses of their options.

    See Also
    --------
    solvers.Alternate : Makes a solver of a half-step.
    solvers.Extrapolate : Makes a faster one.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import unmix as um
    >>> @dataclass(frozen=True)
    ... class PatientEM(um.solvers.HalfStep):
    ...     steps: int = 3
    ...
    ...     def __call__(self, side, fixed, moving, *, measure=False):
    ...         return side.update("em", fixed, moving, measure=measure, steps=self.steps)
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.TopicModel(2, solver=PatientEM(), tol=1e-3, random_state=0).fit(X).result_.status
    'converged'
    """

    @property
    def safe(self) -> HalfStep | None:
        """HalfStep or None: where the loss may rise, a half-step to do the iteration again with, under which it never does."""
        return None

    @abstractmethod
    def __call__(
        self, side: Side, fixed: Factor, moving: Factor, *, measure: bool = False
    ) -> tuple[Factor, float | None]:
        """Move one factor.

        Parameters
        ----------
        side : Side
            The data, seen from the factor that moves.
        fixed : array, m × K or n × K
            The other factor.
        moving : array, n × K or m × K
            The factor as it is.
        measure : bool, default=False
            Whether the caller needs Σ x log λ.

        Returns
        -------
        tuple of array and float or None
            The new rows of `moving`, and Σ x log λ at them if asked to measure it.
        """


class FactorSolver(Solver[Problem, P]):
    """Maximum likelihood in memory, one iteration on both factors. `state_type` is what `start` and `step` return.

    See Also
    --------
    solvers.run : The loop.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> problem, rng = um.solvers.Problem(um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7]]), 2), np.random.default_rng(0)
    >>> solver = um.solvers.Alternate(um.solvers.EM())
    >>> state = solver.start(problem, rng.random((3, 2)), rng.random((3, 2)))
    >>> solver.step(problem, state).loss < state.loss
    True
    """

    state_type: ClassVar[type[State]] = State

    @abstractmethod
    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> P:
        """The first state.

        Parameters
        ----------
        problem : Problem
            Data, number of topics, priors.
        L : array, n × K
            Loadings to start from.
        F : array, m × K
            Factors to start from.
        loss : float, default=None
            That of these factors, where the caller knows it.

        Returns
        -------
        State
            Of `state_type`.
        """

    def restore(self, problem: Problem, saved: Record) -> P:
        """The state that `State.save` was taken from.

        Parameters
        ----------
        problem : Problem
            Data, number of topics, priors.
        saved : dict
            Arrays and plain values.

        Returns
        -------
        State
            Of `state_type`.

        Raises
        ------
        ValueError
            If it is damaged, or one of other data.

        Examples
        --------
        >>> import numpy as np, unmix as um
        >>> problem, rng = um.solvers.Problem(um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7]]), 2), np.random.default_rng(0)
        >>> solver = um.solvers.Alternate(um.solvers.EM())
        >>> state = solver.start(problem, rng.random((3, 2)), rng.random((3, 2)))
        >>> solver.restore(problem, state.save()).loss == state.loss
        True
        """
        state: Any = from_record(self.state_type, saved)
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
    if not abs(problem.at(state).loss(state.L, state.F) - state.loss) <= tolerance * abs(state.loss):
        raise ValueError("the loss has changed")
    return state


AnySolver = FactorSolver[Any]
