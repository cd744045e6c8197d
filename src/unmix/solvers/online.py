"""Online learning: topics from one mini-batch of samples at a time (Hoffman et al. 2010; Cappé and Moulines 2009).

The loadings of a batch are found with the topics fixed; their expected counts, scaled up to all samples, are averaged into a
running total with steps of Robbins and Monro, and the topics are what the prior makes of that total:

    C ← (1 − ρ_t) C + ρ_t (n / |batch|) Y_batch,     q(F) = believe(C),     ρ_t = (offset + t)^−decay

For conjugate priors averaging counts is averaging natural parameters. A batch of all samples with ρ = 1 is the batch step.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np

from unmix.base.checks import ParameterError, positive, real, whole
from unmix.base.types import Factor, Floats, Record
from unmix.counts.data import Data
from unmix.counts.sides import Side, column_sums
from unmix.models.beliefs import Belief, PointTopics, Prior
from unmix.models.covariates import CovariateGammas
from unmix.models.problem import Problem, State
from unmix.models.variational import Beliefs, Inference
from unmix.solvers.base import FactorSolver, S, Stepper, T, checked
from unmix.solvers.halfsteps import Newton
from unmix.solvers.vi import BeliefSolver, check_loss, infer, restored_beliefs

Q = TypeVar("Q")  # what is found of the samples of a batch


@dataclass(frozen=True)
class Online:
    """How online learning goes: mini-batches, and steps (offset + t)^−decay that shrink.

    Parameters
    ----------
    batch_size : int, default=2048
        Samples of a mini-batch. Larger ones are steadier, smaller ones see the topics move earlier.
    offset : float, default=10.0
        Larger ones hold the first batches back.
    decay : float, default=0.7
        In (0.5, 1]: how fast steps shrink.
    total_samples : float, default=None
        How many samples a stream for `partial_fit` will have; None for as many as were seen so far.

    Raises
    ------
    ValueError
        If one of them is out of its range.

    See Also
    --------
    LDA.partial_fit, TopicModel.partial_fit

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> um.LDA(3, eta=0.1, online=um.Online(batch_size=20), max_iter=2, tol=0, random_state=0).fit(X).n_iter_
    2
    """

    batch_size: int = 2048
    offset: float = 10.0
    decay: float = 0.7
    total_samples: float | None = None

    def __post_init__(self) -> None:
        whole("batch_size", self.batch_size, 1, "use a whole number of samples >= 1")
        real("offset", self.offset, 0)
        if not 0.5 < real("decay", self.decay, 0.5, remedy := "the steps converge for decay in (0.5, 1]") <= 1:
            raise ParameterError("decay", self.decay, remedy)
        if self.total_samples is not None:
            positive("total_samples", self.total_samples, "use a positive number, or None")

    def step_size(self, batches: int) -> float:
        """Of the next batch, after this many."""
        return min(1.0, float((self.offset + batches + 1) ** -self.decay))


def start_weight(init: object) -> float:
    """Of a start in the running total. All of its counts, for a start that knows something of the data; a random one would
    outweigh what the first batches say."""
    return 0.1 if isinstance(init, str) and init == "random" else 1.0


@dataclass(frozen=True, eq=False)
class Stream:
    """What is kept between batches: its size does not depend on the number of samples."""

    right: Belief
    counts: Floats  # m × K expected counts, scaled to all samples
    sums: Floats  # Σ_i E l_ik likewise
    batches: int = 0
    samples: int = 0
    seed: int = 0  # of the order of samples
    prior: CovariateGammas | None = None  # of loadings, where it is learned
    learned: Floats = field(default_factory=lambda: np.zeros(0))  # what it is learned from

    def save(self) -> Record:
        arrays = {"counts": self.counts, "sums": self.sums, "right": self.right.parameters, "rates": self.right.rates}
        arrays |= {"learned": self.learned} if self.learned.size else {}
        return {"stream": {"batches": self.batches, "samples": self.samples, "seed": self.seed} | arrays}

    @classmethod
    def restore(cls, prior: Prior, saved: Record) -> Stream:
        right = prior.belief(saved["right"], saved.get("rates"))
        stream = cls(right, saved["counts"], saved["sums"], saved["batches"], saved["samples"], saved["seed"])
        return replace(stream, learned=saved.get("learned", np.zeros(0)))

    @classmethod
    def beginning(cls, right: Belief, sums: Floats, L: Factor, F: Factor, weight: float, seed: int) -> Stream:
        """From loadings and factors whose expected counts, as at any maximum-likelihood fit, are f_jk Σ_i l_ik. `weight` is
        what they are worth: little, if they are random."""
        return cls(right, weight * F * column_sums(L), weight * sums, seed=seed)

    def before(self, batch: Data) -> Stream:
        """With some weight on all features, if the batch has one that no topic has: a step of one forgets all before it."""
        if not ((self.right.geometric.sum(axis=1) == 0) & (batch.feature_totals > 0)).any():
            return self
        F = spread(self.right.parameters)
        return replace(self, right=replace(self.right, parameters=F, geometric=F))

    def absorb(
        self, side: Side, n: int, prior: Prior, geometric: Floats, sums: Floats, weight: float, step: float
    ) -> Stream:
        """`side` is the right one of a batch of n samples, `geometric` and `sums` are those of its loadings, given `right`. The
        batch stands for `weight` times as many samples."""
        B, _ = side.numerators(self.right.geometric, geometric)
        counts = (1 - step) * self.counts + (step * weight) * (self.right.geometric * B)
        sums = (1 - step) * self.sums + (step * weight) * sums
        right = prior.update(counts, sums)
        return replace(self, right=right, counts=counts, sums=sums, batches=self.batches + 1, samples=self.samples + n)


def spread(F: Factor) -> Floats:
    """Topics with a tenth of their weight on all features equally: a later batch may have features that the first had not."""
    return 0.9 * F / F.sum(axis=0) + 0.1 / len(F)


class Learner(Stepper[T, S], Generic[T, S, Q]):
    """A solver that learns from one batch after the other: of a task T, states S, and Q, what it finds of a batch's samples."""

    online: Online

    @abstractmethod
    def absorb(self, batch: T, stream: Stream, start: Floats | None, total: float) -> tuple[Stream, Q]:
        """The stream after one more batch, of `total` samples in all, and q of the batch's loadings, or the loadings."""

    @abstractmethod
    def at(self, task: T, left: Q, stream: Stream) -> S:
        """The iterate with these."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OnlineBeliefs(Beliefs):
    stream: Stream

    def save(self) -> Record:
        return super().save() | self.stream.save()


@dataclass(frozen=True)
class StochasticVI(Learner[Inference, OnlineBeliefs, Belief], BeliefSolver[OnlineBeliefs]):
    """Online variational inference: an iteration is one pass over all samples in mini-batches. The bound may fall now and then.

    Parameters
    ----------
    online : Online
        Batch size and steps.
    seed : int
        Of the order of samples. A fit that is resumed continues with its own.
    inner : int
        Maximum number of iterations for a row of L.
    tolerance : float
        A row ends them once it changes by less than this part of its sum.
    start_weight : float, default=1.0
        What the counts of the start are worth in the running total; little, if it is random.

    See Also
    --------
    Online, LDA

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> from unmix.models.beliefs import DirichletColumns, DirichletRows
    >>> from unmix.models.variational import Variational
    >>> X, rng = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]), np.random.default_rng(0)
    >>> task = um.solvers.Inference(X, Variational(DirichletRows(np.full(2, 0.5)), DirichletColumns(np.full(3, 0.1))))
    >>> solver = um.solvers.StochasticVI(um.Online(batch_size=2), seed=0, inner=5, tolerance=1e-4)
    >>> first = solver.start(task, rng.random((4, 2)), rng.random((3, 2)))
    >>> _, status = um.solvers.run(task, solver, first, max_iter=5, tol=0)
    >>> status
    'max_iter'
    """

    online: Online
    seed: int = field(repr=False)
    inner: int
    tolerance: float
    start_weight: float = 1.0

    @property
    def supports(self) -> frozenset[str]:
        return frozenset()

    def from_beliefs(self, task: Inference, left: Belief, right: Belief) -> OnlineBeliefs:
        L, F = task.model.factors(task.X, left, right)
        stream, prior = (
            Stream.beginning(right, left.sums, L, F, self.start_weight, self.seed),
            task.model.elsewhere.left,
        )
        return self.at(task, left, replace(stream, prior=prior if isinstance(prior, CovariateGammas) else None))

    def restore(self, task: Inference, saved: Record) -> OnlineBeliefs:
        model, left, right = restored_beliefs(task, saved)
        stream = Stream.restore(model.right, saved["stream"])
        prior = model.elsewhere.left
        stream = replace(stream, right=right, prior=prior if isinstance(prior, CovariateGammas) else None)
        return check_loss(self.at(task, left, stream), saved)

    def step(self, task: Inference, s: OnlineBeliefs) -> OnlineBeliefs:
        stream, parameters = s.stream, s.left.parameters.copy()
        rng = np.random.default_rng([stream.seed, stream.batches])
        for rows, batch in task.X.batches(self.online.batch_size, rng):
            model = s.model.of_samples({name: array[rows] for name, array in s.model.left.of_samples.items()})
            stream, left = self.absorb(replace(task, X=batch, model=model), stream, parameters[rows], task.X.shape[0])
            parameters[rows] = left.parameters
        prior = task.model.left if stream.prior is None else stream.prior.at(task.model.left.of_samples)
        rates = left.rates if stream.prior is None else prior.shape_and_rates(stream.right.sums)[1]
        return self.at(task, prior.belief(parameters, rates), stream)

    def absorb(self, batch: Inference, stream: Stream, start: Floats | None, total: float) -> tuple[Stream, Belief]:
        model, n, stream = batch.model, batch.X.shape[0], stream.before(batch.X)
        if stream.prior is not None:
            model = replace(model, left=stream.prior.at(model.left.of_samples))
        left = infer(batch, model, stream.right, start, self.inner, self.tolerance)
        step = self.online.step_size(stream.batches)
        side = batch.sides.right
        if isinstance(model.left, CovariateGammas):
            statistics = total / n * model.left.statistics(left)
            prior, learned = model.left.averaged(statistics, stream.learned, step)
            stream = replace(stream, prior=prior.at({"rows": prior.rows[:0]}), learned=learned)
        stream = stream.absorb(side, n, model.right, left.geometric, left.sums, total / n, step)
        # rates of samples are those of the batch: its word has the weight that it has for topics
        sums, share = (stream.sums, 1.0) if model.exact_scales else (total / n * model.left.scale_sums(left), step)
        left, right, scale = model.rescaled(left, stream.right, total, sums, share)
        return replace(stream, right=right, sums=stream.sums / scale), left

    def at(self, task: Inference, left: Belief, stream: Stream) -> OnlineBeliefs:
        model = task.model
        if stream.prior is not None:
            model = replace(model, left=stream.prior.at(model.left.of_samples))
            left = model.left.belief(left.parameters, left.rates)
        loss = task.loss(model, left, stream.right)
        return OnlineBeliefs(model=model, left=left, right=stream.right, loss=loss, stream=stream)


@dataclass(frozen=True, kw_only=True, eq=False)
class OnlineState(State):
    stream: Stream

    def save(self) -> Record:
        return {"L": self.L, "F": self.F, "loss": self.loss} | self.stream.save()


@dataclass(frozen=True)
class OnlineEM(Learner[Problem, OnlineState, Floats], FactorSolver[OnlineState]):
    """Online maximum likelihood (or the mode under a prior on F): an iteration is one pass in mini-batches.

    Parameters
    ----------
    online : Online
        Batch size and steps.
    seed : int
        Of the order of samples. A fit that is resumed continues with its own.
    start_weight : float, default=1.0
        What the counts of the start are worth in the running total; little, if it is random.

    See Also
    --------
    Online, TopicModel

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> solver = um.solvers.OnlineEM(um.Online(batch_size=2), seed=0)
    >>> um.TopicModel(2, online=solver.online, tol=0, max_iter=5, random_state=0).fit(X).result_.status
    'max_iter'
    """

    online: Online
    seed: int = field(repr=False)
    start_weight: float = 1.0
    state_type: ClassVar[type[State]] = OnlineState

    @property
    def supports(self) -> frozenset[str]:
        return frozenset({"a prior on factors"})

    def start(self, problem: Problem, L: Factor, F: Factor, loss: float | None = None) -> OnlineState:
        scales = column_sums(F)
        L, F = L * scales, F / scales
        right = topics_prior(problem).belief(F)
        return self.at(problem, L, Stream.beginning(right, column_sums(L), L, F, self.start_weight, self.seed))

    def restore(self, problem: Problem, saved: Record) -> OnlineState:
        stream = Stream.restore(topics_prior(problem), saved["stream"])
        return checked(problem, OnlineState(L=saved["L"], F=saved["F"], loss=saved["loss"], stream=stream))

    def step(self, problem: Problem, state: OnlineState) -> OnlineState:
        stream, L = state.stream, state.L * column_sums(state.F)
        rng = np.random.default_rng([stream.seed, stream.batches])
        for rows, batch in problem.X.batches(self.online.batch_size, rng):
            stream, L[rows] = self.absorb(replace(problem, X=batch), stream, L[rows], problem.X.shape[0])
        return self.at(problem, _loadings(problem, stream.right.parameters, L), stream)

    def absorb(self, batch: Problem, stream: Stream, start: Floats | None, total: float) -> tuple[Stream, Floats]:
        n, stream = batch.X.shape[0], stream.before(batch.X)
        F = stream.right.parameters
        L = _loadings(batch, F, batch.X.sample_totals[:, None] / np.ones(F.shape[1]) if start is None else start)
        step = self.online.step_size(stream.batches)
        return stream.absorb(batch.right, n, topics_prior(batch), L, column_sums(L), total / n, step), L

    def at(self, task: Problem, left: Factor, stream: Stream) -> OnlineState:
        L, F = task.rescale(left, stream.right.parameters.copy())
        return OnlineState(L=L, F=F, loss=task.loss(L, F), stream=stream)


def topics_prior(problem: Problem) -> PointTopics:
    """The prior on F as the Dirichlet on topics that it is equivalent to."""
    return PointTopics(None if problem.prior is None else problem.right.shape)


def _loadings(problem: Problem, F: Floats, start: Floats) -> Floats:
    """Nearly at their optimum: one EM and at most three Newton steps a row."""
    return Newton(rounds=3, tolerance=1e-6)(problem.left, F, start)[0].astype(np.float64, copy=False)
