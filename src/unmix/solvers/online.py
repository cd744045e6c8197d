"""Online learning: topics from one mini-batch of samples at a time (Hoffman et al. 2010; Cappé and Moulines 2009).

The loadings of a batch are found with the topics fixed; their expected counts, scaled up to all samples, are averaged into a
running total with steps of Robbins and Monro, and the topics are what the prior makes of that total:

    C ← (1 − ρ_t) C + ρ_t (n / |batch|) Y_batch,     q(F) = believe(C),     ρ_t = (offset + t)^−decay

For conjugate priors averaging counts is averaging natural parameters. A batch of all samples with ρ = 1 is the batch step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unmix import kernels
from unmix.counts import Counts
from unmix.models.beliefs import Belief, Columns, Prior
from unmix.models.poisson import column_sums
from unmix.models.variational import restore
from unmix.solvers.base import Floats, Problem, State
from unmix.solvers.newton import Newton
from unmix.solvers.vi import Beliefs, Inference, infer


@dataclass(frozen=True)
class Online:
    """Mini-batches of `batch_size` samples; steps (offset + t)^−decay, decay in (0.5, 1].

    `total_samples`: how many samples a stream for `partial_fit` will have; None for as many as were seen so far.
    """

    batch_size: int = 2048
    offset: float = 10.0
    decay: float = 0.7
    total_samples: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.batch_size, Integral) or self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size!r}; give a whole number of samples >= 1")
        if not isinstance(self.offset, Real) or not 0 <= self.offset < np.inf:
            raise ValueError(f"offset={self.offset!r}; give a number >= 0")
        if not isinstance(self.decay, Real) or not 0.5 < self.decay <= 1:
            raise ValueError(f"decay={self.decay!r}; the steps converge for decay in (0.5, 1]")
        known = isinstance(self.total_samples, Real) and 0 < self.total_samples < np.inf
        if self.total_samples is not None and not known:
            raise ValueError(f"total_samples={self.total_samples!r}; give a positive number, or None")

    def step_size(self, batches: int) -> float:
        """Of the next batch, after so many."""
        return min(1.0, float((self.offset + batches + 1) ** -self.decay))


def start_weight(init: Any) -> float:
    """Of a start in the running total. All of its counts, for a start that knows something of the data; a random one would
    outweigh what the first batches say."""
    return 0.1 if isinstance(init, str) and init == "random" else 1.0


@dataclass(frozen=True, eq=False)
class Stream:
    """What is kept between batches: its size does not depend on the number of samples."""

    right: Belief
    counts: NDArray[np.float64]  # m × K expected counts, scaled to all samples
    sums: NDArray[np.float64]  # Σ_i E l_ik likewise
    batches: int = 0
    samples: int = 0

    def as_dict(self, rates: bool) -> dict[str, Any]:
        """As arrays and numbers; with the rates of `right`, if they are not all ones."""
        numbers = {"batches": self.batches, "samples": self.samples}
        arrays = {"counts": self.counts, "sums": self.sums, "right": self.right.parameters}
        return {"stream": numbers | arrays | ({"rates": self.right.rates} if rates else {})}

    @classmethod
    def from_dict(cls, prior: Prior, left: dict[str, Any], threads: int) -> Stream:
        right = prior.at(left["right"], left.get("rates"), threads)
        return cls(right, left["counts"], left["sums"], left["batches"], left["samples"])

    @classmethod
    def beginning(cls, right: Belief, sums: Floats, L: Floats, F: Floats, weight: float) -> Stream:
        """From loadings and factors whose expected counts, as at any maximum-likelihood fit, are f_jk Σ_i l_ik. `weight` is
        what they are worth: little, if they are random."""
        return cls(right, weight * F * column_sums(L), weight * sums)

    def before(self, batch: Counts) -> Stream:
        """With some weight on all features, if the batch has one that no topic has: a step of one forgets all before it."""
        if not ((self.right.geometric.sum(axis=1) == 0) & (batch.feature_totals > 0)).any():
            return self
        F = spread(self.right.parameters)
        return replace(self, right=replace(self.right, parameters=F, geometric=F))

    def absorb(
        self, batch: Counts, prior: Prior, geometric: Floats, sums: Floats, total: float, step: float, threads: int
    ) -> Stream:
        """`geometric` and `sums` are those of the batch's loadings, given `right`; `total` is the number of all samples."""
        weight = total / batch.shape[0]
        B, _ = kernels.numerators(batch.columns, self.right.geometric, geometric, threads=threads)
        counts = (1 - step) * self.counts + (step * weight) * (self.right.geometric * B)
        sums = (1 - step) * self.sums + (step * weight) * sums
        right = prior.believe(counts, sums, threads)
        return Stream(right, counts, sums, self.batches + 1, self.samples + batch.shape[0])


def spread(F: Floats) -> Floats:
    """Topics with a tenth of their weight on all features alike: a later batch may have features that the first had not."""
    return 0.9 * F / F.sum(axis=0) + 0.1 / len(F)


def batches(X: Counts, size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The samples in random order, cut into batches of about equal size."""
    order = rng.permutation(X.shape[0])
    return np.array_split(order, max(1, round(len(order) / size)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Streamed(Beliefs):
    stream: Stream

    def as_dict(self) -> dict[str, Any]:
        return super().as_dict() | self.stream.as_dict(rates=True)


@dataclass(frozen=True)
class StochasticVI:
    """An iteration is one pass over all samples in mini-batches. The bound may fall a little now and then."""

    online: Online
    seed: int
    inner: int
    enough: float
    start_weight: float = 1.0

    def start(self, task: Inference, left: Belief, right: Belief) -> Streamed:
        L, F = task.model.factors(task.X, left, right)
        return self.at(task, left, Stream.beginning(right, left.sums, L, F, self.start_weight))

    def restore(self, task: Inference, arrays: dict[str, Any]) -> Streamed:
        """The state that `as_dict` was taken from."""
        model, left, right = restore(arrays, task.threads)
        stream = Stream.from_dict(model.right, arrays["stream"], task.threads)
        return self.at(task, left, replace(stream, right=right))

    def step(self, task: Inference, s: Streamed) -> Streamed:
        stream, parameters = s.stream, s.left.parameters.copy()
        for rows in batches(task.X, self.online.batch_size, np.random.default_rng([self.seed, stream.batches])):
            batch = replace(task, X=task.X.take(rows))
            stream, left = self.absorb(batch, stream, parameters[rows], task.X.shape[0])
            parameters[rows] = left.parameters
        return self.at(task, task.model.left.at(parameters, left.rates, task.threads), stream)

    def absorb(self, batch: Inference, stream: Stream, start: Floats | None, total: float) -> tuple[Stream, Belief]:
        """The stream after one more batch, of `total` samples in all, and q of the batch's loadings."""
        model, threads, stream = batch.model, batch.threads, stream.before(batch.X)
        left = infer(batch.X, model, stream.right, start, self.inner, self.enough, threads)
        step = self.online.step_size(stream.batches)
        stream = stream.absorb(batch.X, model.right, left.geometric, left.sums, total, step, threads)
        left, right, scale = model.rescaled(left, stream.right, total, stream.sums, threads)
        return replace(stream, right=right, sums=stream.sums / scale), left

    def at(self, task: Inference, left: Belief, stream: Stream) -> Streamed:
        xlog = kernels.xlogs(task.X.rows, left.geometric, stream.right.geometric, threads=task.threads).sum()
        loss = -task.model.elbo(task.X, left, stream.right, float(xlog))
        return Streamed(model=task.model, left=left, right=stream.right, loss=loss, stream=stream)


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedFactors(State):
    stream: Stream

    def as_dict(self) -> dict[str, Any]:
        return {"L": self.L, "F": self.F, "loss": self.loss} | self.stream.as_dict(rates=False)


@dataclass(frozen=True)
class OnlineEM:
    """The same for maximum likelihood (or the mode under a prior on F): an iteration is one pass in mini-batches."""

    online: Online
    seed: int
    start_weight: float = 1.0
    state_type: ClassVar[type[State]] = StreamedFactors

    def start(self, problem: Problem, L: Floats, F: Floats) -> StreamedFactors:
        scales = column_sums(F)
        L, F = L * scales, F / scales
        return self.at(
            problem, L, Stream.beginning(topics_prior(problem).at(F), column_sums(L), L, F, self.start_weight)
        )

    def restore(self, problem: Problem, arrays: dict[str, Any]) -> StreamedFactors:
        """The state that `as_dict` was taken from."""
        stream = Stream.from_dict(topics_prior(problem), arrays["stream"], problem.threads)
        return StreamedFactors(L=arrays["L"], F=arrays["F"], loss=arrays["loss"], stream=stream)

    def step(self, problem: Problem, s: StreamedFactors) -> StreamedFactors:
        stream, L = s.stream, s.L * column_sums(s.F)
        for rows in batches(problem.X, self.online.batch_size, np.random.default_rng([self.seed, stream.batches])):
            batch = replace(problem, X=problem.X.take(rows))
            stream, L[rows] = self.absorb(batch, stream, L[rows], problem.X.shape[0])
        return self.at(problem, _loadings(problem, stream.right.parameters, L), stream)

    def absorb(self, batch: Problem, stream: Stream, start: Floats | None, total: float) -> tuple[Stream, Floats]:
        """The stream after one more batch, of `total` samples in all, and the batch's loadings."""
        stream = stream.before(batch.X)
        F = stream.right.parameters
        L = _loadings(batch, F, batch.X.sample_totals[:, None] / np.ones(F.shape[1]) if start is None else start)
        step = self.online.step_size(stream.batches)
        return stream.absorb(batch.X, topics_prior(batch), L, column_sums(L), total, step, batch.threads), L

    def at(self, problem: Problem, L: Floats, stream: Stream) -> StreamedFactors:
        L, F = problem.rescale(L, stream.right.parameters.copy())
        return StreamedFactors(L=L, F=F, loss=problem.loss(L, F), stream=stream)


def topics_prior(problem: Problem) -> Columns:
    """The prior on F as the Dirichlet on topics that it is equivalent to."""
    return Columns(None if problem.prior is None else problem.right.shape)


def _loadings(problem: Problem, F: Floats, start: Floats) -> Floats:
    """Nearly at their optimum: one EM and at most three Newton steps a row."""
    return Newton(rounds=3, enough=1e-6)(problem.left, F, start)[0]
