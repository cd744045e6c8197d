"""Variational inference: coordinate ascent, the same with momentum, and the same over shards.

Coordinate ascent for every variational model: one pass over the nonzeros, then a prior around each factor's counts.

    joint  (inner=0):  counts of both factors from one pass; q(L), then q(F), from them        (Geiger & Park, algorithms 3, 5,
    7) VEM    (inner>0):  q(L) again and again, each row until it converges; then q(F)

Both maximise the bound over one block at a time, so it never falls. Where both factors have a scale, that of each topic is one
more block. `ExtrapolatedVI` is the same with momentum.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import scipy.sparse as sp

from unmix.base.types import Factor, Floats, Record
from unmix.counts.counts import Counts
from unmix.counts.data import Arrays, Data
from unmix.counts.sides import FeatureSums
from unmix.models.beliefs import Belief, further
from unmix.models.problem import from_record, to_record
from unmix.models.variational import (
    Beliefs,
    Infer,
    Inference,
    StreamedBelief,
    StreamedBeliefs,
    Variational,
    restore,
    rowless,
)
from unmix.solvers.base import MULTIPLIERS, Momentum, Solver
from unmix.solvers.extrapolate import LEARNING

B = TypeVar("B", bound=Beliefs)

GENTLE = Momentum(0.8, moving=False)


class BeliefSolver(Solver[Inference, B]):
    """Variational inference in memory, from the beliefs that the model makes of loadings and factors, or from others."""

    @property
    def supports(self) -> frozenset[str]:
        return MULTIPLIERS

    def start(self, task: Inference, L: Factor, F: Factor) -> B:
        task = replace(task, model=task.model.at_start(task.X, F))
        return self.from_beliefs(task, *task.model.start(task.sides, task.X, L, F, task.rates))

    @abstractmethod
    def from_beliefs(self, task: Inference, left: Belief, right: Belief) -> B:
        """The first iterate, from q(L) and q(F)."""


@dataclass(frozen=True)
class CAVI(BeliefSolver[Beliefs]):
    """Coordinate ascent for every variational model: q(L), then q(F). The bound never falls.

    Parameters
    ----------
    inner : int, default=0
        Maximum number of iterations for a row of L before F moves; 0: both move together.
    tolerance : float, default=1e-4
        A row ends its inner iterations once it changes by less than this part of its sum.
    learn_prior : bool, default=False
        Whether the prior of the rows is fitted too.
    rescale : bool, default=True
        Whether the scale of each topic is one more block, where both factors have a scale. False: the published iterates.

    See Also
    --------
    solvers.ExtrapolatedVI, LDA

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> from unmix.models.beliefs import DirichletColumns, DirichletRows
    >>> from unmix.models.variational import Variational
    >>> X, rng = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]), np.random.default_rng(0)
    >>> task = um.solvers.Inference(X, Variational(DirichletRows(np.full(2, 0.5)), DirichletColumns(np.full(3, 0.1))))
    >>> solver = um.solvers.CAVI(inner=5)
    >>> first = solver.start(task, rng.random((4, 2)), rng.random((3, 2)))
    >>> _, status = um.solvers.run(task, solver, first, max_iter=5, tol=0)
    >>> status
    'max_iter'
    """

    inner: int = 0
    tolerance: float = 1e-4
    learn_prior: bool = False
    rescale: bool = True

    def for_data(self, X: Data) -> Solver[Inference, Any]:
        return (
            self if X.in_memory or not self.rescale else StreamedVI(self.inner, self.tolerance, False, self.learn_prior)
        )

    def from_beliefs(self, task: Inference, left: Belief, right: Belief) -> Beliefs:
        return self._at(task, task.model, left, right)

    def restore(self, task: Inference, saved: Record) -> Beliefs:
        effects = effects_of(saved)
        here = task.with_strength(effects.get("strength", 0.0))
        state = self._at(here, *restored_beliefs(task, saved, learned=self.learn_prior))
        return check_loss(replace(state, **effects), saved)

    def step(self, task: Inference, s: Beliefs) -> Beliefs:
        here = task.at(s)
        return task.learned(replace(self._step(here, s), corrected=s.corrected))

    def _step(self, task: Inference, s: Beliefs) -> Beliefs:
        model = s.model
        if self.inner:
            cost = task.cost_of_loadings(s.left, s.right)
            left = infer(task, model, s.right, s.left, self.inner, self.tolerance, cost)
            B, _ = task.sides.right.numerators(s.right.geometric, left.geometric)
        else:
            assert s.A is not None
            assert s.B is not None
            cost = task.cost_of_loadings(s.left, s.right)
            given = (s.left.geometric * s.A, s.right.sums if cost is None else cost)
            left = model.left.update(*given) if self.rescale else model.left.printed(*given, s.left)
            B = s.B
        counts = s.right.geometric * B
        if self.learn_prior or model.left.fits:
            model = model.learned(len(left.parameters), model.left.statistics(left))
            left = model.left.belief(left.parameters, left.rates)
        cost = task.cost_of_factors(left, s.right)
        if not self.rescale:
            return self._at(task, model, left, model.right.printed(counts, cost, s.right))
        right = model.right.update(counts, cost)
        if model.exact_scales:
            left, right, _ = model.rescaled(left, right, task.X.shape[0], model.left.scale_sums(left))
        return self._at(task, model, left, right)

    def _at(self, task: Inference, model: Variational, left: Belief, right: Belief) -> Beliefs:
        A = B = xlog = None
        if not self.inner:
            A, B, xlog = task.sides.both_numerators(left.geometric, right.geometric)
        loss = task.loss(model, left, right, xlog)
        return Beliefs(model=model, left=left, right=right, A=A, B=B, loss=loss, strength=task.strength)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtrapolatedBeliefs(Beliefs):
    """q(L) and q(F) that were extrapolated, and the plain ones before that; `plain_steps` without momentum come next."""

    last_model: Variational
    last_left: Belief
    last_right: Belief
    momentum: Momentum = GENTLE
    plain_steps: int = 0
    iteration: int = 0

    def save(self) -> Record:
        last = self.last_model.arrays(self.last_left, self.last_right)
        counted = {"plain_steps": self.plain_steps} | ({"iteration": self.iteration} if self.strength else {})
        return super().save() | {"last": last, "momentum": to_record(self.momentum)} | counted


@dataclass(frozen=True)
class ExtrapolatedVI(BeliefSolver[ExtrapolatedBeliefs]):
    """`CAVI` that moves on along its last change, q(F) + β (q(F) − last q(F)) in parameters, and q(L) likewise.

    With inner iterations, q(F) takes as long a step as its prior knows (`Prior.moved`). Where the bound falls, the step is
    taken back and the next one is without momentum, with a smaller β; where that falls too, it is `CAVI`'s: so the bound
    never falls.

    Parameters
    ----------
    inner : int, default=0
        Maximum number of iterations for a row of L before F moves; 0: both move together.
    tolerance : float, default=1e-4
        A row ends its inner iterations once it changes by less than this part of its sum.
    settling : int, default=0
        The first this many steps are without momentum.
    learn_prior : bool, default=False
        Whether the prior of the rows is fitted too.

    See Also
    --------
    solvers.CAVI

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> from unmix.models.beliefs import DirichletColumns, DirichletRows
    >>> from unmix.models.variational import Variational
    >>> X, rng = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]), np.random.default_rng(0)
    >>> task = um.solvers.Inference(X, Variational(DirichletRows(np.full(2, 0.5)), DirichletColumns(np.full(3, 0.1))))
    >>> solver = um.solvers.ExtrapolatedVI()
    >>> first = solver.start(task, rng.random((4, 2)), rng.random((3, 2)))
    >>> _, status = um.solvers.run(task, solver, first, max_iter=5, tol=0)
    >>> status
    'max_iter'
    """

    inner: int = 0
    tolerance: float = 1e-4
    settling: int = field(default=0, repr=False)
    learn_prior: bool = False

    def for_data(self, X: Data) -> Solver[Inference, Any]:
        """In memory a prior is learned without momentum, which is `CAVI`."""
        if not X.in_memory:
            return StreamedVI(self.inner, self.tolerance, True, self.learn_prior)
        return CAVI(self.inner, self.tolerance, True) if self.learn_prior else self

    def from_beliefs(self, task: Inference, left: Belief, right: Belief) -> ExtrapolatedBeliefs:
        if self.inner:  # topics move by what loadings say, and a start may know topics alone
            cost = task.cost_of_loadings(left, right)
            left = infer(task, task.model, right, left, FIRST_STEPS, self.tolerance, cost)
        at = (task.model, left, right)
        return task.learned(replace(self._at(task, *at, *at), plain_steps=self.settling))

    def restore(self, task: Inference, saved: Record) -> ExtrapolatedBeliefs:
        effects = effects_of(saved)
        here = task.with_strength(effects.get("strength", 0.0))
        state = self._at(here, *restored_beliefs(task, saved), *restored_beliefs(task, saved["last"]))
        counted = {name: saved[name] for name in ("plain_steps", "iteration") if name in saved}
        momentum = from_record(Momentum, saved["momentum"])
        return check_loss(replace(state, momentum=momentum, **counted, **effects), saved)

    def step(self, task: Inference, s: ExtrapolatedBeliefs) -> ExtrapolatedBeliefs:
        new = replace(self._step(task.at(s), s), corrected=s.corrected, iteration=s.iteration + 1)
        return task.learned(new) if new.iteration % LEARNING == 0 else new

    def _step(self, task: Inference, s: ExtrapolatedBeliefs) -> ExtrapolatedBeliefs:
        if s.plain_steps == 0:
            new = self._advance(task, s, s.momentum.beta)
            if new.loss > s.loss:
                return replace(s, momentum=s.momentum.rejected(), plain_steps=1, conclusive=False, note="rejected")
            return replace(new, momentum=s.momentum.accepted())
        new = self._advance(task, s)
        if new.loss > s.loss:
            new = self._advance(task, s, safe=True)
        return replace(new, momentum=s.momentum, plain_steps=s.plain_steps - 1)

    def _advance(
        self, task: Inference, s: ExtrapolatedBeliefs, beta: float = 0.0, safe: bool = False
    ) -> ExtrapolatedBeliefs:
        """What the numerators at hand make of the beliefs, or, of q(F), the prior with a longer step if it need not be `safe`;
        moved on by β."""
        model, left = s.model, s.left
        assert s.B is not None
        counts = s.right.geometric * s.B
        if s.A is not None:
            cost = task.cost_of_loadings(left, s.right)
            left = model.left.update(left.geometric * s.A, s.right.sums if cost is None else cost)
        if model.left.fits:
            model = model.learned(len(left.parameters), model.left.statistics(left))
            left = model.left.belief(left.parameters, left.rates)
        cost = task.cost_of_factors(left, s.right)
        if safe or s.A is not None:
            right = model.right.update(counts, cost)
        else:
            right = model.right.moved(task.sides.right, left, s.right, counts, cost)
        if model.exact_scales or not safe:
            left, right, _ = model.rescaled(left, right, task.X.shape[0], model.left.scale_sums(left))
        last_right = s.last_right
        if not safe and task.rates is not None and task.rates.estimated:
            scales = task.scales(task.rates.sums(model.left.mean(left)), right)
            assert scales is not None
            left = model.left.belief(left.parameters, left.rates / scales[1][task.rates.groups])
            right, last_right = model.scaled_right(right, scales[0]), model.scaled_right(last_right, scales[0])
        new_right = model.right.beyond(right, last_right, beta) if beta else right
        new = replace(model, left=model.left.ahead(s.last_model.left, beta)) if beta and model.left.fits else model
        if self.inner:
            begin = further(left, s.last_left, beta) if beta else left
            cost = task.cost_of_loadings(left, new_right)
            new_left = infer(task, new, new_right, begin, self.inner, self.tolerance, cost)
        else:
            new_left = new.left.beyond(left, s.last_left, beta) if beta else left
        return self._at(task, new, new_left, new_right, model, left, right)

    def _at(
        self,
        task: Inference,
        model: Variational,
        left: Belief,
        right: Belief,
        last_model: Variational,
        last_left: Belief,
        last_right: Belief,
    ) -> ExtrapolatedBeliefs:
        A = None
        if self.inner:
            B, xlog = task.sides.right.numerators(right.geometric, left.geometric)
        else:
            A, B, xlog = task.sides.both_numerators(left.geometric, right.geometric)
        return ExtrapolatedBeliefs(
            model=model,
            left=left,
            right=right,
            A=A,
            B=B,
            loss=task.loss(model, left, right, xlog),
            strength=task.strength,
            last_model=last_model,
            last_left=last_left,
            last_right=last_right,
        )


def infer(
    task: Inference,
    model: Variational,
    right: Belief,
    start: Belief | Floats | None,
    steps: int,
    tolerance: float,
    cost: Floats | None = None,
) -> Belief:
    """q(L) given q(F), from a belief, from parameters, or from nothing; see `Prior.infer`."""
    totals = task.X.sample_totals
    return model.left.infer(task.sides.left, right, start, totals, steps=steps, tolerance=tolerance, cost=cost)


LEAVING, ENTRIES = 200, 1 << 22  # most steps of `collapsed`; numbers of a block of samples


def collapsed(task: Inference, model: Variational, left: Belief, right: Belief, tolerance: float) -> Belief:
    """q(L) by CVB0 (Asuncion et al. 2009), given topics: with loadings integrated out, each count is shared out by what all other
    counts of its sample say, φ_jk ∝ f_jk (prior_k + Σ x φ − φ_jk) / rate_k. There is no bound that this raises."""
    shape, X, F = model.left.shape_and_rates(right.sums)[0], cast(Counts, task.X), model.right.mean(right)
    rates, parameters = model.left.rates_of(left), left.parameters.copy()
    places = np.arange(0, X.nnz, max(1, ENTRIES // len(shape)))
    cuts = np.unique(X.rows.indptr.searchsorted(places, side="right") - 1)
    for begin, end in zip(cuts, np.append(cuts[1:], len(X))[: len(cuts)], strict=True):
        part = X.take(np.arange(begin, end)).rows
        owners = np.repeat(np.arange(end - begin), np.diff(part.indptr))
        sums = sp.csr_array((part.data, np.arange(len(owners)), part.indptr), shape=(end - begin, len(owners)))
        f = F[part.indices] / np.broadcast_to(rates, left.parameters.shape)[begin:end][owners]
        one, phi = np.minimum(part.data, 1)[:, None], f * parameters[begin:end][owners]
        phi /= phi.sum(axis=1, keepdims=True)
        counts = sums @ phi
        for _ in range(LEAVING):
            phi = f * np.maximum((shape + counts)[owners] - one * phi, 0)
            phi /= phi.sum(axis=1, keepdims=True)
            last, counts = counts, sums @ phi
            if np.abs(counts - last).sum() <= tolerance * part.data.sum():
                break
        parameters[begin:end] = shape + counts
    return model.left.belief(parameters, left.rates)


def effects_of(saved: Record) -> Record:
    """What a state knows of the prior of effects of batches."""
    return {name: saved[name] for name in ("strength", "corrected") if name in saved}


def restored_beliefs(
    task: Inference, saved: Record, learned: bool = False, rows: int | None = None
) -> tuple[Variational, Belief, Belief]:
    """The model and the beliefs of a saved iterate, which must be those of the task's priors; if those of L were learned, of
    their kind. `rows` is how many of q(L) are saved, by default all."""
    model, left, right = restore(task.model.kinds, saved)
    (n, m), K = task.X.shape, left.parameters.shape[1]
    if left.parameters.shape != (n if rows is None else rows, K) or right.parameters.shape != (m, K):
        raise ValueError(f"L has shape {left.parameters.shape} and F {right.parameters.shape}")
    if not (task.model.right.matches(model.right) and task.model.left.matches(model.left, values=not learned)):
        raise ValueError("the priors have changed")
    if task.model.left.fits and rows is None:
        model = model.of_samples(task.model.left.of_samples)
        left = model.left.belief(left.parameters, left.rates)
    return model, left, right


def check_loss(state: B, saved: Record) -> B:
    if not abs(state.loss - float(saved["loss"])) <= 1e-9 * abs(state.loss):
        raise ValueError("the bound has changed")
    return state


# Variational inference, one pass over the shards an iteration: coordinate ascent as in `vi`, with momentum on q(F) alone.
#
# Each visit finds q(L) of its samples given q(F), and returns sums; the bound at both is exact, and free. Then q(F) takes the
# longest step that its prior knows from them, and moves on along its last change. Where the bound fell, the next step is without
# momentum; where it fell again, it is coordinate ascent's, after which it cannot fall.

FIRST_STEPS = 50  # updates of loadings that start from nothing

Stride = Literal["momentum", "long", "safe"]


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedVIState(StreamedBeliefs):
    """The next pass is made at `next`, from the loadings of its pass and their rates; `stride` is the kind of step that led
    there, `plain` is where it was before it moved on."""

    next: StreamedBelief
    plain: StreamedBelief
    reference: float  # the loss of the last pass
    momentum: Momentum = GENTLE
    stride: Stride = "long"
    sums: Floats | None = None  # of the means that the last pass left, by group, in the scales of `next`

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset({self.best.number, self.next.number})

    def save(self) -> Record:
        beliefs = {"best": self.best.save(), "next": self.next.save(), "plain": self.plain.save()}
        rest = {"reference": self.reference, "momentum": to_record(self.momentum), "stride": self.stride}
        if self.sums is not None:
            rest |= {"sums": self.sums, "strength": self.strength, "corrected": self.corrected}
        return {"loss": self.loss} | beliefs | rest


@dataclass(frozen=True)
class StreamedVI(Solver[Inference, StreamedVIState]):
    """`inner` most updates of a sample's loadings in a pass, fewer once they change by less than `tolerance` of their sum."""

    inner: int
    tolerance: float = 1e-4
    extrapolate: bool = True
    learn_prior: bool = False
    version: ClassVar[int] = 2

    @property
    def supports(self) -> frozenset[str]:
        return frozenset({"shards"}) | MULTIPLIERS

    def start(self, task: Inference, L: Factor, F: Factor) -> StreamedVIState:
        """From topics F, whose columns sum to one; loadings follow from them."""
        model, right = task.model.at_start(task.X, F).elsewhere, first_belief(task, F)
        cost = self._cost(task, None, right)
        left, visit = self._rowless(model, right, cost), self._visit(model, FIRST_STEPS, first=True)
        shared: Arrays = {"F": right.parameters, "F_rate": right.rates}
        before: Arrays | None = {**task.model.left.of_samples} or None
        if cost is not None and task.rates is not None:
            shared, before = shared | {"costs": cost}, {"groups": task.rates.groups}
        sums = task.engine.over(task.X, visit, shared, before=before, after=0)
        if task.rates is not None and task.rates.learned:
            task = task.with_strength(task.rates.best_strength(sums["v"], model.right.mean(right)))
        loss, stride = self._loss(task, model, right, sums), self._stride("safe", True)
        best = StreamedBelief(model, left, right, 0)
        following, kept, _ = self._next(task, best, sums, stride)
        return StreamedVIState(
            loss=loss,
            best=best,
            next=following,
            plain=following,
            reference=loss,
            stride=stride,
            sums=kept,
            strength=task.strength,
        )

    def step(self, task: Inference, s: StreamedVIState) -> StreamedVIState:
        model, right, number = s.next.model, s.next.right, s.next.number + 1
        rates = task.at(s).rates
        if rates is not None and rates.learned and not s.corrected and number % LEARNING == 0:
            s = task.with_other_strength(s, rates.best_strength(task.sums(s), task.factors(s)))
        task = task.at(s)
        cost = self._cost(task, s.sums, right)
        shared = {"F": right.parameters, "F_rate": right.rates, "rates": s.next.left.rates}
        visit, shared = self._visit(model, self.inner), shared | ({} if cost is None else {"costs": cost})
        sums = task.engine.over(task.X, visit, shared, before=s.next.number, after=number)
        loss = self._loss(task, model, right, sums)
        better, accepted = loss < s.loss, loss <= s.reference
        at = StreamedBelief(model, self._rowless(model, right, cost), right, number)
        if better:
            s = replace(s, best=at, loss=loss)
        moved = s.momentum.accepted() if accepted else s.momentum.rejected()
        stride = self._stride(s.stride, accepted)
        new, kept, scales = self._next(task, at, sums, stride)
        plain = s.plain
        if scales is not None:
            plain = replace(plain, right=model.scaled_right(plain.right, scales))
        s = replace(
            s,
            next=new if stride != "momentum" else new.beyond(plain, moved.beta),
            plain=new,
            reference=loss,
            momentum=moved if s.stride == "momentum" else s.momentum,
            stride=stride,
            conclusive=better,
            note="" if accepted else "rejected",
            sums=kept,
        )
        task.engine.keep_only(set(s.numbers))
        return s

    def restore(self, task: Inference, saved: Record) -> StreamedVIState:
        best, following, plain = (
            StreamedBelief(*restored_beliefs(task, saved[name], self.learn_prior, rows=0), saved[name]["number"])
            for name in ("best", "next", "plain")
        )
        return StreamedVIState(
            loss=saved["loss"],
            best=best,
            next=following,
            plain=plain,
            reference=saved["reference"],
            momentum=from_record(Momentum, saved["momentum"]),
            stride=saved["stride"],
            sums=saved.get("sums"),
            **effects_of(saved),
        )

    def _visit(self, model: Variational, steps: int, first: bool = False) -> Infer:
        return Infer(model, steps, self.tolerance, self.learn_prior or model.left.fits, first)

    @staticmethod
    def _rowless(model: Variational, right: Belief, cost: Floats | None) -> Belief:
        return rowless(model.left.compact(right.sums if cost is None else cost))

    @staticmethod
    def _cost(task: Inference, sums: Floats | None, right: Belief) -> Floats | None:
        """What a unit of each topic costs in every group, if there are such."""
        return None if task.rates is None else task.rates.costs_of_loadings(sums, task.model.right.mean(right))

    @staticmethod
    def _loss(task: Inference, model: Variational, right: Belief, sums: Arrays) -> float:
        return -model.elbo(task.X, right, sums["terms"], sums["v"], task.rates)

    def _stride(self, last: Stride, accepted: bool) -> Stride:
        """Of the next step, after one of this kind."""
        if not self.extrapolate or (last != "momentum" and not accepted):
            return "safe"
        return "long" if last == "safe" or not accepted else "momentum"

    def _next(
        self, task: Inference, at: StreamedBelief, sums: Arrays, stride: Stride
    ) -> tuple[StreamedBelief, Floats | None, Floats | None]:
        """q(F), the model with the prior it has learned, and the rates of q(L) once both are scaled best; and, if there are
        groups, the sums of E l in each then, and by what rows of F were multiplied."""
        model, n, v = at.model, task.X.shape[0], sums["v"]
        cost = v if task.rates is None else task.rates.costs_of_factors(v, model.right.mean(at.right))
        if self.learn_prior or model.left.fits:
            model = model.learned(n, sums["statistics"])
        if model.right.regressed and stride != "safe":
            right = model.right.stepped(FeatureSums(sums["B"], sums["H"]), at.right, task.X.feature_totals, cost)
        else:
            right = model.right.update(at.right.geometric * sums["B"], cost)
        left, exact, z = at.left, model.exact_scales, np.ones(v.shape[-1])
        if exact or stride != "safe":
            of_scale = (v if v.ndim == 1 else v.sum(axis=0)) if exact else sums["scale"]
            left, right, z = model.rescaled(at.left, right, n, of_scale)
        at = StreamedBelief(model, rowless(left.rates), right, at.number)
        if task.rates is None:
            return at, None, None
        scales = task.scales(v / z, right) if stride != "safe" else None
        if scales is None:
            return at, v / z, None
        left, right = rowless(left.rates / scales[1]), model.scaled_right(right, scales[0])
        return replace(at, left=left, right=right), v / z * scales[1], scales[0]


def first_belief(task: Inference, F: Factor) -> Belief:
    """q(F) to begin with at topics F, whose columns sum to one: as if all counts were spread over them evenly."""
    prior, K, (n, m) = task.model.right, F.shape[1], task.X.shape
    counts = np.full(K, task.X.total / K)
    if prior.own_scale:
        return prior.update(F * counts, np.sqrt(counts * (n / m)))
    return prior.start(F.astype(np.float64, copy=False), counts, np.ones(K))
