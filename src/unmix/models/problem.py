"""What is optimised. What the loop needs to know of it, whatever it is; and maximum likelihood, or a posterior mode, for data
of any size: loss, priors, scales, KKT residual, result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from unmix.base.memory import closed, reordered
from unmix.base.types import Factor, Floats, Pair, Record
from unmix.counts.data import Arrays, Data, Engine, Part, Visit, Visited, gathered, joined, with_rows
from unmix.counts.sides import Side, Sides, column_sums
from unmix.models.known import Known
from unmix.models.poisson import expected_total, poisson_to_topics, residual
from unmix.models.priors import Dirichlet, Gamma
from unmix.models.rates import Rates, group_sums

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Iterate:
    """A point on the way. Each kind of task, and each solver, extends it by what it needs to continue."""

    loss: float
    conclusive: bool = True  # False if a small gain says nothing, as after a rejected extrapolation
    final: bool = False  # no further step would change anything
    note: str = ""

    @property
    def numbers(self) -> frozenset[int]:
        """Of the passes whose leavings are still needed, if there are such."""
        return frozenset()

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
    its posterior as arrays, topics (where there are any) on the last axis, and the kinds of its priors; and of an allocation
    model S, nonzeros × K."""

    L: Factor
    F: Factor
    loglik: float
    posterior: Mapping[str, Floats] = field(default_factory=dict)
    priors: dict[str, str] = field(default_factory=dict)
    allocation: Floats | None = None
    multipliers: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # of rates, as `Rates.arrays` gives them
    told: Record = field(default_factory=dict)  # what a fit remembers besides of its data


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


def bound_scales(
    on_L: tuple[Floats, Floats], on_F: tuple[Floats, Floats], n: float, m: int, L_sums: Floats, F_sums: Floats
) -> Floats:
    """z for which the bound is best if q becomes that of (L/z, F z), topic by topic: d u z² − (c m − a n) z − b v = 0.

    (a, b) and (c, d) are shapes and rates of the priors; u the sums of E f over the m features, v those of E l over the n
    samples. The rates of X stay, so this costs no pass over the data; without it topics creep towards their scale, iteration by
    iteration.
    """
    (a, b), (c, d) = on_L, on_F
    return _root(d * F_sums, m * c - n * a, b * L_sums)


def shared_scales(a: Floats, c: Floats, n: float, m: int, pulls: tuple[Floats, Floats], curvature: float) -> Floats:
    """The same where rates of the priors belong to rows, whose beliefs follow. `pulls` are Σ_i E ξ_i E l_ik and Σ_j E η_j E
    f_jk.

    All topics together by Newton's step, along which rates of rows move too; then apart, as if those stood still.
    """
    V, U = pulls
    apart = np.log(_root(U, m * c - n * a, V))
    together = (V.sum() - n * a.sum() + m * c.sum() - U.sum()) / curvature
    return np.exp(np.clip(together, -1, 1) + apart - apart.mean())


def best_scales(L: Factor, F: Factor, a: ArrayLike, b: ArrayLike, c: ArrayLike, d: ArrayLike) -> Floats:
    """z that maximises the prior density of (L/z, F z), topic by topic: d u z² − [Σ(c−1) − Σ(a−1)] z − b v = 0.

    Shapes a and c are broadcast to L and F, rates b and d to the topics.
    """
    u, v = column_sums(F), column_sums(L)
    extra = [np.broadcast_to(np.asarray(s) - 1.0, factor.shape).sum(axis=0) for s, factor in ((c, F), (a, L))]
    middle = extra[0] - extra[1]
    return _root(np.asarray(d) * u, middle, np.asarray(b) * v)


def scaled_counts(
    sides: Sides,
    L: Factor,
    F: Factor,
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    d: ArrayLike,
    rates: Rates | None = None,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Expected counts of each topic in samples (n × K) and features (m × K), each with the column sums of the other factor, or
    what a unit costs where rates have multipliers, once topics are scaled as Gamma(a, b) on L and Gamma(c, d) on F like."""
    z = best_scales(L, F, a, b, c, d)
    L, F = L / z, F * z
    A, B, xlog = sides.both_numerators(L, F)
    if not np.isfinite(xlog):
        raise ValueError(
            "a count has a rate of zero, so it is impossible; use its sample and feature some weight in init"
        )
    if rates is None:
        return L * A, column_sums(F), F * B, column_sums(L)
    (of_groups, groups), (of_features, _) = rates.for_loadings(F, L), rates.for_factors(L, F)
    return L * A, of_groups[groups], F * B, of_features


def _root(square: Floats, middle: Floats, constant: Floats) -> Floats:
    """The positive root of square z² − middle z − constant = 0; 1 for a topic that has nothing on one side."""
    root = np.sqrt(middle**2 + 4 * square * constant)
    # two forms of the same root, each free of cancellation on its side of zero
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(middle >= 0, (middle + root) / (2 * square), 2 * constant / (root - middle))
    return np.where((square > 0) & (constant > 0), z, 1.0)


# An l1 penalty on loadings, with topics held to norm one:  minimise  KL(X ‖ L Fᵀ) + weight · Σ l_ik,   ‖f_k‖_p = 1.
#
# Equivalently, without the constraint, the penalty is weight · Σ_k ‖f_k‖_p Σ_i l_ik (Geiger and Park, theorem F.1).
#
# With p = 1 it does nothing but shrink: KL(X ‖ L/(1+ω), F) + ω ‖L‖₁/(1+ω) = KL(X ‖ L, F) + N log(1+ω) for all L and F, so the
# solution is the unpenalised one divided by 1 + ω (their lemma 6.1). With p = 2 loadings do become sparse, as broad topics cost
# less than narrow ones.


@dataclass(frozen=True)
class Sparsity:
    weight: float
    norm: Literal["l1", "l2"]

    def norms(self, F: Factor) -> Floats:
        """‖f_k‖_p of every topic."""
        return column_sums(F) if self.norm == "l1" else np.sqrt(np.einsum("jk,jk->k", F, F))

    def penalty(self, sums: Floats, F: Factor) -> float:
        """For loadings with these column sums."""
        return float(self.weight * self.norms(F) @ sums)

    def gradients(self, sums: Floats, F: Factor) -> tuple[Floats, Floats]:
        """Of the penalty: by any row of L, and by F."""
        norms = self.norms(F)
        slope = np.ones_like(F) if self.norm == "l1" else F / np.where(norms > 0, norms, 1.0)
        return self.weight * norms, self.weight * sums * slope


# Maximum likelihood, or the posterior mode:
#
# minimise  loss(L, F) = Σ λ − Σ x log λ − log prior(F) − log prior(L) + penalty(L, F)   over L, F >= 0,   λ = L Fᵀ

TINY = np.finfo(float).tiny
NEGLIGIBLE = 1e-12  # a topic with a smaller share of a sample (or feature) is reported as absent


@dataclass(frozen=True, kw_only=True)
class State(Iterate):
    """The best factors so far and their loss: what a solver continues from.

    `paths` names the fields that contain many factors, along two axes in front; all other arrays have the shape of one, or a
    number per topic.

    Parameters
    ----------
    loss : float
        Of these factors.
    conclusive : bool, default=True
        False if a small gain says nothing, as after a rejected extrapolation.
    final : bool, default=False
        Whether no further step would change anything.
    note : str, default=""
        For the trace.
    L : array, n × K
        Loadings.
    F : array, m × K
        Factors.
    strength : float, default=0.0
        Of the prior of effects of batches; 0 for that of the problem.
    corrected : bool, default=False
        Whether the strength was corrected, and is not learned any more.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> um.solvers.State(loss=1.5, L=np.ones((4, 2)), F=np.ones((3, 2))).loss
    1.5
    """

    paths: ClassVar[tuple[str, ...]] = ()
    L: Factor
    F: Factor
    strength: float = 0.0
    corrected: bool = False

    @property
    def before(self) -> Arrays:
        """Where visits find the loadings."""
        return {"L": self.L}


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedPoint(Iterate):
    """The best factors so far, the number of the pass that left loadings for them, and what priors cost there."""

    F: Factor
    number: int
    penalty: float = 0.0
    strength: float = 0.0
    corrected: bool = False

    @property
    def before(self) -> int:
        """Where visits find the loadings."""
        return self.number


M = TypeVar("M", bound=Any)  # a state with `loss`, `strength` and `corrected`
LARGEST = float(np.finfo(float).max)


class Multiplied:
    """What tasks share whose rates may have multipliers; states carry the strength of the prior of effects."""

    X: Data
    batch_prior: float | None
    rates: Rates | None
    engine: Any

    def __post_init__(self) -> None:
        given = self.X.multipliers
        if given is None or given.plain:
            object.__setattr__(self, "rates", None)
        elif self.rates is None or self.rates.given is not given:
            object.__setattr__(self, "rates", Rates.of(self.X, self.engine, self.batch_prior))

    def sums(self, state: Any) -> Floats:
        """Column sums of the loadings, by group where there are such."""
        raise NotImplementedError

    def factors(self, state: Any) -> Factor:
        """Factors, or their posterior means."""
        raise NotImplementedError

    def with_strength(self, strength: float) -> Self:
        """With this prior of effects; what was prepared for the data stays."""
        if not strength or self.rates is None or strength == self.rates.strength:
            return self
        other = copy(self)
        object.__setattr__(other, "rates", self.rates.with_strength(strength))
        for side in ("left", "right"):
            other.__dict__.pop(side, None)
        return other

    def at(self, state: Any) -> Self:
        """With the prior of effects that a state has."""
        return self.with_strength(state.strength)

    @property
    def strength(self) -> float:
        """Of the prior of effects; 0 where there is none."""
        return 0.0 if self.rates is None else self.rates.strength

    @property
    def needs_of_rates(self) -> list[str]:
        """What a solver must support for them, in the words of `solvers.base.NEEDS`."""
        names = ["multipliers of rates"] if self.rates is not None else []
        return names + (["effects of batches"] if self.rates is not None and self.rates.estimated else [])

    def learned(self, state: M) -> M:
        """The same point with the most likely prior of effects, if it is learned; never a larger loss."""
        rates = self.at(state).rates
        if rates is None or not rates.learned or state.corrected:
            return state
        U, F = self.sums(state), self.factors(state)
        other = rates.with_strength(rates.best_strength(U, F))
        gain = rates.first_term(U, F) - other.first_term(U, F)
        return replace(state, strength=other.strength, loss=state.loss - gain)

    def corrected(self, state: M) -> M | None:
        """The same point with the prior of effects that is learned, corrected; None where it is not learned."""
        rates = self.at(state).rates
        if rates is None or not rates.learned:
            return None
        return self.with_other_strength(state, rates.corrected(rates.strength), True)

    def with_other_strength(self, state: M, strength: float, corrected: bool = False) -> M:
        """The same point under another prior of effects, where its loss differs. The next iteration is accepted anyway."""
        rates, U, F = self.at(state).rates, self.sums(state), self.factors(state)
        assert rates is not None
        more = rates.with_strength(strength).first_term(U, F) - rates.first_term(U, F)
        changed: Any = {"reference": LARGEST} if hasattr(state, "reference") else {}
        return replace(state, strength=strength, corrected=corrected, loss=state.loss + more, **changed)


@dataclass(frozen=True, eq=False)
class Problem(Multiplied):
    """The loss of loadings and factors: Σ λ − Σ x log λ − log priors + penalty, λ = L Fᵀ, times multipliers where there are some.

    Parameters
    ----------
    X : Counts or Shards
        The data.
    n_topics : int
        Number of topics.
    prior : Gamma, default=None
        On F.
    loadings_prior : Gamma or Dirichlet, default=None
        On L, or on proportions.
    sparsity : Sparsity, default=None
        The penalty of `SparsePoissonNMF`.
    known : Known, default=None
        What is known of topics; the prior of those that are not held is part of `prior`.
    batch_prior : float, default=None
        Strength of the prior of effects of batches, if the data have such; None to learn it.
    rates : Rates, default=None
        Multipliers of rates; by default those of the data.

    See Also
    --------
    solvers.run, solvers.Side

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> problem = um.solvers.Problem(um.Counts([[2, 4]]), 1)
    >>> round(problem.loss(np.array([[2.0]]), np.array([[1.0], [2.0]])), 3)
    -0.931
    """

    X: Data
    n_topics: int
    prior: Gamma | None = None  # on F
    loadings_prior: Gamma | Dirichlet | None = None
    sparsity: Sparsity | None = None
    known: Known | None = None
    batch_prior: float | None = None
    rates: Rates | None = None

    def factors(self, state: State | StreamedPoint) -> Factor:
        return state.F

    @cached_property
    def sides(self) -> Sides:
        return self.X.sides()

    @cached_property
    def engine(self) -> Engine:
        """What visits the parts of the data."""
        return self.X.engine(self.n_topics)

    @cached_property
    def left(self) -> Side:
        """With a Dirichlet prior or a penalty, for factors that are normalised as those ask for."""
        side = self.sides.left
        if self.rates is not None:
            side = replace(side, costs=self.rates.for_loadings)
        if self.sets is not None:
            side = replace(side, sets=self.sets)
        if self.loadings_prior is not None:
            return side.with_prior(*self.loadings_prior.broadcast(self.X.shape[0], self.n_topics))
        if self.sparsity is not None:
            return side.with_prior(None, np.full(self.n_topics, self.sparsity.weight))
        return side

    @cached_property
    def right(self) -> Side:
        side = self.sides.right
        if self.rates is not None:
            side = replace(side, costs=self.rates.for_factors)
        if self.held is not None:
            side = replace(side, held=self.held)
        return side if self.prior is None else side.with_prior(*self.prior.broadcast(self.X.shape[1], self.n_topics))

    @property
    def needs(self) -> list[str]:
        """What a solver must support, in the words of `solvers.base.NEEDS`."""
        on_L = self.loadings_prior
        needs = {
            "a prior on factors": self.prior is not None,
            "a prior on loadings": isinstance(on_L, Gamma),
            "a prior with a row per sample": isinstance(on_L, Gamma) and np.ndim(on_L.shape) > 1,
            "a Dirichlet prior on loadings": isinstance(on_L, Dirichlet),
            "a sparsity penalty": self.sparsity is not None,
            "known topics": self.held is not None,
            "allowed topics": self.sets is not None,
        }
        return [need for need, asked in needs.items() if asked] + self.needs_of_rates

    def likelihood(self, X: Data | None = None) -> Problem:
        """Maximum likelihood of these data, or of some of them, with the prior of effects and what is known of topics as it
        is."""
        X, known = self.X if X is None else X, self.known
        if known is not None and X is not self.X:
            known = known.of_part(X.total / self.X.total)
        prior = None if known is None else known.prior(self.n_topics)
        return Problem(X, self.n_topics, prior, known=known, batch_prior=self.strength or None, rates=self.rates)

    @cached_property
    def held(self) -> NDArray[np.bool_] | None:
        """Which topics are held; None if none is."""
        return None if self.known is None else self.known.held_of(self.n_topics)

    @property
    def sets(self) -> tuple[NDArray[np.bool_], NDArray[np.int32]] | None:
        """As `Side.sets`: the topics that samples may have."""
        given = self.X.multipliers
        if given is None or given.sets is None:
            return None
        table, of = given.sets
        # while a search has other numbers of topics, new ones are all alike
        same = table.shape[1] == self.n_topics
        return table if same else table[:, np.minimum(np.arange(self.n_topics), table.shape[1] - 1)], of

    @property
    def placed_topics(self) -> int:
        """How many topics have a place, the first ones; those after them may change places."""
        return 0 if self.known is None else len(self.known)

    @property
    def searchable(self) -> bool:
        """Whether there are topics that a search could find: more than one, of which nothing is known, in the same samples."""
        new = self.n_topics - self.placed_topics
        if self.n_topics == 1 or not new:
            return False
        return self.sets is None or bool((self.sets[0][:, -new:] == self.sets[0][:, -1:]).all())

    def with_topics(self, n_topics: int) -> Problem:
        """With other numbers of new topics."""
        prior = self.prior if self.known is None else self.known.prior(n_topics)
        return replace(self, n_topics=n_topics, prior=prior)

    def with_known(self, L: Factor, F: Factor) -> Pair:
        """With held topics as they are known, and no loadings of topics that are not allowed."""
        if self.sets is not None:
            table, of = self.sets
            L = np.where(table[of], L, 0).astype(L.dtype, copy=False)
        return L, F if self.known is None else self.known.placed(F)

    def both_numerators(self, L: Factor, F: Factor) -> tuple[Floats, Floats, float]:
        return self.sides.both_numerators(L, F)

    @property
    def plain(self) -> bool:
        """Whether it is maximum likelihood and nothing else."""
        return self.prior is None and self.loadings_prior is None and self.sparsity is None

    @property
    def normalised(self) -> bool:
        """Whether it is one for factors held to a norm, which half-steps do not keep."""
        return self.sparsity is not None or isinstance(self.loadings_prior, Dirichlet)

    def penalty(self, L: Factor, F: Factor) -> float:
        """What is added to the negative log-likelihood."""
        return self._penalty(F, column_sums(L), self.loadings_prior.penalty(L) if self.loadings_prior else 0.0)

    def loss(self, L: Factor, F: Factor, xlog: float | None = None) -> float:
        """`xlog` is Σ x log λ where the caller has it already."""
        return self.likelihood_loss(L, F, xlog) + self.penalty(L, F)

    def likelihood_loss(self, L: Factor, F: Factor, xlog: float | None = None) -> float:
        """Without priors and penalty, for any number of topics."""
        if xlog is None:
            xlog = float(self.left.xlogs(L, F).sum())
        if self.rates is not None:
            return self.rates.first_term(self.rates.sums(L), F) - xlog
        return expected_total(L, F) - xlog

    def loss_from(self, F: Factor, sums: Arrays) -> tuple[float, float]:
        """The same from sums over the samples: v = Σ_i l_ik, by group where there are such, and Σ x log λ with what the prior of
        loadings costs. And what all priors cost."""
        xlog, of_loadings = (float(value) for value in sums["xlog_penalty"])
        v = sums["v"]
        penalty = self._penalty(F, v if v.ndim == 1 else v.sum(axis=0), of_loadings)
        first = float(v @ column_sums(F)) if self.rates is None else self.rates.first_term(v, F)
        return first - xlog + penalty, penalty

    def _penalty(self, F: Factor, sums: Floats, of_loadings: float) -> float:
        total = (self.prior.penalty(F) if self.prior else 0.0) + of_loadings
        return total + (self.sparsity.penalty(sums, F) if self.sparsity else 0.0)

    def allowed(self, L: Factor, F: Factor) -> Pair:
        """With all entries above zero where a prior rules out zeros."""
        if self.prior is not None:
            F = np.maximum(F, 1e-12 * F.max(axis=0))
        if self.loadings_prior is not None:
            L = np.maximum(L, 1e-12 * L.max(axis=0))
        return self.with_known(L, F)

    @property
    def by_topic(self) -> bool:
        """Whether a prior differs from topic to topic."""
        return any(prior is not None and prior.by_topic for prior in (self.prior, self.loadings_prior))

    def placed(self, L: Factor, F: Factor) -> Pair:
        """Topics in the places where priors that differ from topic to topic make them most probable, or as they are."""
        if not self.by_topic or self.known is not None:  # then topics are in their places
            return L, F
        proportions, topics, _, _ = poisson_to_topics(L, F)
        density = np.zeros((self.n_topics, self.n_topics))  # of topics (rows) in places (columns)
        overall = (self.X.feature_totals / self.X.total)[:, None] + TINY
        # no share is zero: what a fit without the prior has not found there, one with it may
        for prior, shares, even in (
            (self.prior, topics, overall),
            (self.loadings_prior, proportions, 1 / self.n_topics),
        ):
            if prior is not None:
                density += np.log(0.9 * shares + 0.1 * even).T @ prior.broadcast(*shares.shape)[0]
        order = np.argsort(linear_sum_assignment(density, maximize=True)[1])
        return reordered(L, order), reordered(F, order)

    def rescale(self, L: Factor, F: Factor) -> Pair:
        """Scales topics equally on both sides, or as the priors like them best, in place. Rates stay the same."""
        scale = self._scales(L, F)
        L /= scale.astype(L.dtype)
        F *= scale.astype(F.dtype)
        return L, F

    def _scales(self, L: Factor, F: Factor) -> Floats:
        u, v = column_sums(F), column_sums(L)
        on_L = self.loadings_prior if isinstance(self.loadings_prior, Gamma) else None
        if self.rates is not None and not (self.prior or on_L):
            return np.ones(self.n_topics)  # what they are on is what multipliers are relative to
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.prior and on_L:
                scale = best_scales(L, F, on_L.shape, on_L.rate, self.prior.shape, self.prior.rate)
            elif self.prior:
                scale = self.prior.best_scales(F) / u
            if on_L and (not self.prior or self._flat.any()):
                alone = v / on_L.best_scales(L)
                scale = np.where(self._flat, alone, scale) if self.prior else alone
            elif not self.prior or self._flat.any():
                alone = np.sqrt((v / len(L)) / (u / len(F))) if self.rates is None else np.ones(self.n_topics)
                scale = np.where(self._flat, alone, scale) if self.prior else alone
        free = (u > 0) & (v > 0)
        return np.where(free if self.held is None else free & ~self.held, scale, 1.0)

    @cached_property
    def _flat(self) -> NDArray[np.bool_]:
        """Topics that the prior of factors says nothing of."""
        if self.known is None or self.prior is None:
            return np.zeros(self.n_topics, dtype=bool)
        extra, rate = self.prior.broadcast(self.X.shape[1], self.n_topics)
        return (rate == 0) & ~extra.any(axis=0)

    def metrics(self, state: State | StreamedPoint) -> dict[str, float]:
        objective = -state.loss - self.X.log_factorials
        penalty = self.penalty(state.L, state.F) if isinstance(state, State) else state.penalty
        found = {"loglik": objective + penalty, "objective": objective}
        rates = self.at(state).rates
        if rates is not None and rates.estimated:
            found |= {"batch_prior": rates.strength, "loglik": np.nan}  # of effects at their means: only in the end
        return found

    def settled(self, pairs: list[Pair], L: Factor, F: Factor, xlog: float | None) -> float | None:
        """Sets the scales of features and groups, which only the prior of effects decides, where it likes them better at L and F,
        in place in all pairs, L and F among them. Returns Σ x log λ of L and F then."""
        rates, on_L = self.rates, isinstance(self.loadings_prior, Gamma)
        if rates is None or not rates.estimated or (on_L and self.prior):
            return xlog
        c, a = rates.scales(rates.sums(L), F, self.prior is None, not on_L)
        done: list[int] = []
        for factors in pairs:
            for factor, scale in zip(factors, (a[rates.groups], c), strict=True):
                if id(factor) not in done:
                    factor *= scale[:, None].astype(factor.dtype)
                    done.append(id(factor))
        return None if xlog is None else xlog + rates.moved_logs(c, a)

    def kkt(self, state: State | StreamedPoint) -> float:
        if isinstance(self.loadings_prior, Dirichlet):
            return np.nan  # its constraints are others
        F, rates = state.F, self.at(state).rates
        by_row, by_F = self.sparsity.gradients(self.sums(state), F) if self.sparsity else (None, None)
        shared = {"F": F} | ({} if by_row is None else {"penalty": by_row})
        U = np.empty(0) if rates is None else self.sums(state)
        shared["u"] = column_sums(F) if rates is None else rates.costs_of_loadings(U, F)
        sums = self.engine.over(self.X, ResidualSums(self.loadings_prior), shared, before=self.before(state))
        gradient = (sums["v"] if rates is None else rates.costs_of_factors(U, F)) - sums["B"]
        if self.prior is not None:
            gradient += self.prior.gradient(F)
        if by_F is not None:
            gradient += by_F
        if self.held is not None:
            gradient[:, self.held] = 0
        return max(float(sums["largest_residual"][0]), residual(F, gradient))

    def result(self, state: State | StreamedPoint) -> Estimate:
        """Loadings of all samples in one array, and factors. Entries that the solvers' floor keeps just above zero become zero,
        unless the likelihood hangs on them, as it may where counts differ by many orders of magnitude."""
        F, before, loglik = state.F, self.before(state), self.metrics(state)["loglik"]
        if self.prior is None and self.loadings_prior is None:
            here = self.at(state)
            v, after, u = self.sums(state), 1 + max(state.numbers, default=0), column_sums(F)
            cost = v
            if here.rates is not None:
                u, cost = here.rates.costs_of_loadings(v, F), here.rates.costs_of_factors(v, F)
            cleared = drop_negligible(F, cost)
            if self.known is not None:
                cleared = self.known.placed(cleared)
            shared = {"F": cleared, "u": u}
            sums = self.engine.over(self.X, Cleared(), shared, before=before, after=after)
            if abs(here.loss_from(cleared, sums)[0] - state.loss) <= 1e-9 * abs(state.loss):
                F, before = cleared, after
        L = gathered(self.engine, self.X, before, F.shape[1], F.dtype)
        self.engine.keep_only(set(state.numbers))
        if self.plain and isinstance(state, StreamedPoint):  # whose solver does not do it as it goes
            L, F = self.rescale(L, F.copy())
        return self._estimate(L, F, loglik, state)

    def _estimate(self, L: Factor, F: Factor, loglik: float, state: State | StreamedPoint) -> Estimate:
        """With the multipliers there, and loadings as they are without weights."""
        rates, arrays, given = self.at(state).rates, dict[str, NDArray[Any]](), self.X.multipliers
        if rates is not None:
            U = rates.sums(L)
            arrays = rates.arrays(U, F)
            if rates.estimated:
                penalty = self.penalty(state.L, state.F) if isinstance(state, State) else state.penalty
                loglik = penalty - state.loss - self.X.log_factorials + rates.plugged_in(U, F)
        if given is not None and given.weights is not None:
            L = (L / given.weights[:, None]).astype(L.dtype)
        if self.held is not None and self.known is not None:  # all digits of theirs, whatever the others are stored in
            F = self.known.placed(F.astype(np.float64))
        return Estimate(closed(L), F, loglik, multipliers=arrays)

    def before(self, state: State | StreamedPoint) -> int | Arrays:
        """Where visits find the loadings, and groups of samples if there are such."""
        before = state.before
        return before | {"groups": self.rates.groups} if self.rates is not None and isinstance(before, dict) else before

    def sums(self, state: State | StreamedPoint) -> Floats:
        """Column sums of the loadings, by group where there are such."""
        if isinstance(state, State):
            return column_sums(state.L) if self.rates is None else self.rates.sums(state.L)
        if self.rates is not None:
            return self.rates.sums(gathered(self.engine, self.X, state.number, self.n_topics))
        total = np.zeros(self.n_topics)
        for left in self.engine.left(self.X, state.number):
            total += column_sums(left["L"])
        return total


def left_side(
    sides: Sides,
    prior: Gamma | Dirichlet | None,
    n_topics: int,
    costs: Floats | None = None,
    groups: Any = None,
    sets: Any = None,
) -> Side:
    """The side of the samples of a part, with the prior of their loadings, and the costs of their groups if there are such."""
    side = sides.left
    if costs is not None:
        side = replace(side, costs=lambda fixed, moving: (costs, groups))
    if sets is not None:
        side = replace(side, sets=sets)
    return side if prior is None else side.with_prior(*prior.broadcast(len(side.rows.indptr) - 1, n_topics))


@dataclass(frozen=True)
class Cleared(Visit):
    """Loadings without what is negligible, and the sums of the loss there."""

    def __call__(self, tiles: Iterable[Part], shared: Arrays, before: Arrays) -> Visited:
        F, u, xlog, cleared = shared["F"], shared["u"], 0.0, []
        v = np.zeros(u.shape)
        for tile, rows in with_rows(tiles, before):
            groups = rows.get("groups")
            L = drop_negligible(rows["L"], u if groups is None else u[groups])
            xlog += float(Sides(tile).left.xlogs(L, F).sum())
            v += group_sums(L, groups, len(u))
            cleared.append(L)
        return Visited({"L": joined(cleared)}, {"v": v, "xlog_penalty": np.array([xlog, 0.0])})


@dataclass(frozen=True)
class ResidualSums(Visit):
    """What KKT residuals need: the largest one of loadings, and the numerators of the factors."""

    prior: Gamma | None

    def __call__(self, tiles: Iterable[Part], shared: Arrays, before: Arrays) -> Visited:
        F, u = shared["F"], shared["u"]
        B, v, largest = np.zeros(F.shape), np.zeros(F.shape[1]), np.zeros(1)
        for tile, rows in with_rows(tiles, before):
            sides, L = Sides(tile), rows["L"]
            gradient = (u[rows["groups"]] if "groups" in rows else u) - sides.left.numerators(L, F)[0]
            if self.prior is not None:
                gradient += self.prior.gradient(L)
            if "penalty" in shared:
                gradient += shared["penalty"]
            largest = np.maximum(largest, residual(L, gradient))
            B += sides.right.numerators(F, L)[0]
            v += column_sums(L)
        return Visited({}, {"v": v, "B": B, "largest_residual": largest})


def drop_negligible(moving: Factor, sums: Floats) -> Factor:
    """`moving` with entries of a negligible share of their row set to zero; `sums` are column sums of the other factor."""
    weights = moving * sums
    few = weights < NEGLIGIBLE * weights.sum(axis=1, keepdims=True)
    return np.where(few, 0, moving).astype(moving.dtype, copy=False)
