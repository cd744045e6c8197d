"""What the loop needs to know of that which is optimised, whatever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints

from unmix.base.types import Factor, Floats, Record
from unmix.counts.data import Data, Engine

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Iterate:
    """A point on the way. Each kind of task, and each solver, extends it by what it needs to go on."""

    loss: float
    numbers: ClassVar[frozenset[int]] = frozenset()  # of the passes whose leavings are still needed, if there are such
    conclusive: bool = True  # False if a small gain says nothing, as after a rejected extrapolation
    final: bool = False  # no further step would change anything
    note: str = ""

    @property
    def point(self) -> Iterate:
        """What the task measures: the iterate itself, or the best one that it carries along."""
        return self

    def save(self) -> Record:
        """Arrays and plain values from which the solver's `restore` makes it again."""
        return to_record(self)


def to_record(value: Any) -> Record:
    """The fields of a dataclass; of those that are dataclasses, their fields."""
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: to_record(one) if is_dataclass(one) else one for name, one in values.items()}


def from_record(kind: type[R], saved: Record) -> R:
    """What `to_record` was taken from; of what is saved besides, nothing."""
    hints = get_type_hints(kind)
    values = {field.name: saved[field.name] for field in fields(kind) if field.name in saved}  # type: ignore[arg-type]
    nested = {name: from_record(hints[name], one) for name, one in values.items() if is_dataclass(hints[name])}
    return kind(**values | nested)


S = TypeVar("S", bound=Iterate)
S_contra = TypeVar("S_contra", bound=Iterate, contravariant=True)


@dataclass(frozen=True)
class Estimate:
    """What is left of the last iterate in a `Fit`: loadings and factors, their Poisson log-likelihood, and for a Bayesian model
    its posterior as arrays, topics (where there are any) on the last axis, and the kinds of its priors."""

    L: Factor
    F: Factor
    loglik: float
    posterior: Mapping[str, Floats] = field(default_factory=dict)
    priors: dict[str, str] = field(default_factory=dict)


class Task(Protocol[S_contra]):
    """A likelihood to maximise, a posterior to infer, counts to allocate. Its loss falls as a solver steps on."""

    @property
    def X(self) -> Data: ...

    def metrics(self, state: S_contra) -> dict[str, float]:
        """Columns of the trace: "loglik" (Poisson, NaN where it would cost too much) and "objective", which rises."""
        ...

    @property
    def engine(self) -> Engine:
        """What visits the parts of the data."""
        ...

    def kkt(self, state: S_contra) -> float:
        """The largest KKT residual; NaN where there is no such thing."""
        ...

    def result(self, state: S_contra) -> Estimate: ...
