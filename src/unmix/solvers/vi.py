"""Coordinate ascent for every variational model: one pass over the nonzeros, then a prior around each factor's counts.

    joint  (inner=0):  counts of both factors from one pass; q(L), then q(F), from them        (Geiger & Park, algorithms 3, 5, 7)
    VEM    (inner>0):  q(L) again and again, each row until it stands still; then q(F)

Both maximise the bound over one block at a time, so it never falls. Where both factors have a scale, that of each topic is one
more block. `ExtrapolatedVI` is the same with momentum.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from unmix.base.types import Floats, Record
from unmix.counts.sides import FeatureSums
from unmix.engines.base import Arrays
from unmix.models.beliefs import Belief, further
from unmix.models.problem import bound_scales
from unmix.models.streaming import Infer, StreamedBeliefs, StreamedInference
from unmix.models.variational import Beliefs, Inference, Variational, restore

B = TypeVar("B", bound=Beliefs)

FIRST, CEILING, GROWTH, SHRINKAGE = 0.8, 0.99, 1.05, 0.75  # of β, by which `ExtrapolatedVI` moves on


@dataclass(frozen=True)
class CAVI:
    """Coordinate ascent for every variational model: q(L), then q(F). The bound never falls.

    Parameters
    ----------
    inner : int, default=0
        Most iterations for a row of L before F moves; 0: both move together.
    tolerance : float, default=1e-4
        A row ends its inner iterations once it changes by less than this part of its sum.
    learn_prior : bool, default=False
        Whether the prior of the rows is fitted too.

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
    >>> beliefs = task.model.start(task.sides, X, rng.random((4, 2)), rng.random((3, 2)))
    >>> solver = um.solvers.CAVI(inner=5)
    >>> _, status = um.solvers.run(task, solver, solver.start(task, *beliefs), max_iter=5, tol=0)
    >>> status
    'max_iter'
    """

    inner: int = 0
    tolerance: float = 1e-4
    learn_prior: bool = False

    def start(self, task: Inference, left: Belief, right: Belief) -> Beliefs:
        return self._at(task, task.model, left, right)

    def restore(self, task: Inference, saved: Record) -> Beliefs:
        state = self._at(task, *restored_beliefs(task, saved, learned=self.learn_prior))
        return check_loss(state, saved)

    def step(self, task: Inference, s: Beliefs) -> Beliefs:
        model = s.model
        if self.inner:
            left = infer(task, model, s.right, s.left, self.inner, self.tolerance)
            B, _ = task.sides.right.numerators(s.right.geometric, left.geometric)
        else:
            assert s.A is not None
            assert s.B is not None
            left = model.left.update(s.left.geometric * s.A, s.right.sums)
            B = s.B
        counts = s.right.geometric * B
        if self.learn_prior:
            model = replace(model, left=model.left.learned(len(left.parameters), model.left.statistics(left)))
            left = model.left.belief(left.parameters, left.rates)
        right = model.right.update(counts, left.sums)
        left, right, _ = model.rescaled(left, right, task.X.shape[0], left.sums)
        return self._at(task, model, left, right)

    def _at(self, task: Inference, model: Variational, left: Belief, right: Belief) -> Beliefs:
        A = B = xlog = None
        if not self.inner:
            A, B, xlog = task.sides.both_numerators(left.geometric, right.geometric)
        return Beliefs(model=model, left=left, right=right, A=A, B=B, loss=task.loss(model, left, right, xlog))


@dataclass(frozen=True, kw_only=True, eq=False)
class Extrapolated(Beliefs):
    """q(L) and q(F) that were extrapolated, and the plain ones before that; `plain_steps` without momentum come next."""

    last_left: Belief
    last_right: Belief
    beta: float = FIRST
    plain_steps: int = 0

    def save(self) -> Record:
        last = {"L": self.last_left.parameters, "L_rate": self.last_left.rates}
        last |= {"F": self.last_right.parameters, "F_rate": self.last_right.rates}
        return super().save() | {"last": last, "beta": self.beta, "plain_steps": self.plain_steps}


@dataclass(frozen=True)
class ExtrapolatedVI:
    """`CAVI` that moves on along its last change, q(F) + β (q(F) − last q(F)) in parameters, and q(L) alike.

    With inner iterations, q(F) takes as long a step as its prior knows (`Prior.moved`). Where the bound falls, the step is
    taken back and the next one is without momentum, with a smaller β; where that falls too, it is `CAVI`'s: so the bound
    never falls.

    Parameters
    ----------
    inner : int, default=0
        Most iterations for a row of L before F moves; 0: both move together.
    tolerance : float, default=1e-4
        A row ends its inner iterations once it changes by less than this part of its sum.
    settling : int, default=0
        The first so many steps are without momentum.

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
    >>> beliefs = task.model.start(task.sides, X, rng.random((4, 2)), rng.random((3, 2)))
    >>> solver = um.solvers.ExtrapolatedVI()
    >>> _, status = um.solvers.run(task, solver, solver.start(task, *beliefs), max_iter=5, tol=0)
    >>> status
    'max_iter'
    """

    inner: int = 0
    tolerance: float = 1e-4
    settling: int = field(default=0, repr=False)

    def start(self, task: Inference, left: Belief, right: Belief) -> Extrapolated:
        return replace(self._at(task, left, right, left, right), plain_steps=self.settling)

    def restore(self, task: Inference, saved: Record) -> Extrapolated:
        model, left, right = restored_beliefs(task, saved)
        last = saved["last"]
        last_left = model.left.belief(last["L"], last["L_rate"])
        last_right = model.right.belief(last["F"], last["F_rate"])
        state = self._at(task, left, right, last_left, last_right)
        return check_loss(replace(state, beta=saved["beta"], plain_steps=saved["plain_steps"]), saved)

    def step(self, task: Inference, s: Extrapolated) -> Extrapolated:
        if s.plain_steps == 0:
            new = self._advance(task, s, s.beta)
            if new.loss > s.loss:
                return replace(s, beta=SHRINKAGE * s.beta, plain_steps=1, conclusive=False, note="rejected")
            return replace(new, beta=min(CEILING, GROWTH * s.beta))
        new = self._advance(task, s)
        if new.loss > s.loss:
            new = self._advance(task, s, safe=True)
        return replace(new, beta=s.beta, plain_steps=s.plain_steps - 1)

    def _advance(self, task: Inference, s: Extrapolated, beta: float = 0.0, safe: bool = False) -> Extrapolated:
        """What the numerators at hand make of the beliefs, or, of q(F), the prior with a longer step if it need not be `safe`;
        moved on by β."""
        model, left = task.model, s.left
        assert s.B is not None
        counts = s.right.geometric * s.B
        if s.A is not None:
            left = model.left.update(left.geometric * s.A, s.right.sums)
        if safe or s.A is not None:
            right = model.right.update(counts, left.sums)
        else:
            right = model.right.moved(task.sides.right, left, s.right, counts)
        left, right, _ = model.rescaled(left, right, task.X.shape[0], left.sums)
        new_right = model.right.beyond(right, s.last_right, beta) if beta else right
        if self.inner:
            begin = further(left, s.last_left, beta) if beta else left
            new_left = infer(task, model, new_right, begin, self.inner, self.tolerance)
        else:
            new_left = model.left.beyond(left, s.last_left, beta) if beta else left
        return self._at(task, new_left, new_right, left, right)

    def _at(self, task: Inference, left: Belief, right: Belief, last_left: Belief, last_right: Belief) -> Extrapolated:
        A = None
        if self.inner:
            B, xlog = task.sides.right.numerators(right.geometric, left.geometric)
        else:
            A, B, xlog = task.sides.both_numerators(left.geometric, right.geometric)
        return Extrapolated(
            model=task.model,
            left=left,
            right=right,
            A=A,
            B=B,
            loss=task.loss(task.model, left, right, xlog),
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
) -> Belief:
    """q(L) given q(F), from a belief, from parameters, or from nothing; see `Prior.infer`."""
    totals = task.X.sample_totals
    return model.left.infer(task.sides.left, right, start, totals, steps=steps, tolerance=tolerance)


def restored_beliefs(task: Inference, saved: Record, learned: bool = False) -> tuple[Variational, Belief, Belief]:
    """The model and the beliefs of a saved iterate, which must be those of the task's priors; if those of L were learned, of
    their kind."""
    model, left, right = restore(task.model.kinds, saved)
    (n, m), K = task.X.shape, left.parameters.shape[1]
    if left.parameters.shape != (n, K) or right.parameters.shape != (m, K):
        raise ValueError(f"L has shape {left.parameters.shape} and F {right.parameters.shape}")
    if not (task.model.right.matches(model.right) and task.model.left.matches(model.left, values=not learned)):
        raise ValueError("the priors are others")
    return model, left, right


def check_loss(state: B, saved: Record) -> B:
    if not abs(state.loss - float(saved["loss"])) <= 1e-9 * abs(state.loss):
        raise ValueError("the bound is another")
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
    """The best pass so far; the next one is made at `ahead`, from the loadings of pass `last` and their rates; `stride` is the
    kind of step that led there."""

    ahead: Belief
    next_model: Variational
    plain: Belief
    last: int
    last_rates: Floats
    reference: float
    beta: float = FIRST
    stride: Stride = "long"

    @property
    def numbers(self) -> set[int]:
        return {self.number, self.last}

    def plain_values(self) -> Record:
        beliefs = {name: vars(self)[name] for name in ("ahead", "plain")}
        arrays = {name: {"F": q.parameters, "F_rate": q.rates} for name, q in beliefs.items()}
        prior = {"next_prior": self.next_model.left.shape} if self.task.learns_prior else {}  # type: ignore[attr-defined]
        more = {"last": self.last, "last_rates": self.last_rates, "reference": self.reference, "beta": self.beta}
        return super().plain_values() | arrays | prior | more | {"stride": self.stride}


@dataclass(frozen=True)
class StreamedVI:
    """`inner` most updates of a sample's loadings in a pass, fewer once they change by less than `tolerance` of their sum."""

    inner: int
    tolerance: float = 1e-4
    extrapolate: bool = True

    def start(self, task: StreamedInference, right: Belief) -> StreamedVIState:
        model, rates = task.model, task.model.left.shape_and_rates(right.sums)[1]
        visit = Infer(model, FIRST_STEPS, self.tolerance, task.learns_prior, first=True)
        sums = task.engine.over(task.X, visit, {"F": right.parameters, "F_rate": right.rates}, after=0)
        loss, stride = task.loss(right, sums), self._first_stride()
        new, next_model, last_rates = self._next(task, model, right, sums, rates, stride)
        return StreamedVIState(
            model=model,
            right=right,
            rates=rates,
            number=0,
            loss=loss,
            task=task,
            ahead=new,
            plain=new,
            next_model=next_model,
            last=0,
            last_rates=last_rates,
            reference=loss,
            stride=stride,
        )

    def step(self, task: StreamedInference, s: StreamedVIState) -> StreamedVIState:
        number, at, model = s.last + 1, s.ahead, s.next_model
        visit = Infer(model, self.inner, self.tolerance, task.learns_prior)
        shared = {"F": at.parameters, "F_rate": at.rates, "rates": s.last_rates}
        sums = task.engine.over(task.X, visit, shared, before=s.last, after=number)
        loss, rates = task.loss(at, sums), model.left.shape_and_rates(at.sums)[1]
        better, accepted = loss < s.loss, loss <= s.reference
        if better:
            s = replace(s, model=model, right=at, rates=rates, number=number, loss=loss)
        beta = min(CEILING, GROWTH * s.beta) if accepted else SHRINKAGE * s.beta
        stride = self._stride(s.stride, accepted)
        new, next_model, last_rates = self._next(task, model, at, sums, rates, stride)
        ahead = model.right.beyond(new, s.plain, beta) if stride == "momentum" else new
        s = replace(
            s,
            ahead=ahead,
            plain=new,
            next_model=next_model,
            last=number,
            last_rates=last_rates,
            reference=loss,
            beta=beta if s.stride == "momentum" else s.beta,
            stride=stride,
            conclusive=better,
            note="" if accepted else "rejected",
        )
        task.engine.keep_only(s.numbers)
        return s

    def restore(self, task: StreamedInference, saved: Record) -> StreamedVIState:
        right = task.model.right
        if saved["F"].shape[0] != task.X.shape[1]:
            raise ValueError(f"F has shape {saved['F'].shape}")

        def belief(arrays: Record) -> Belief:
            return right.belief(arrays["F"], arrays["F_rate"])

        def model(name: str) -> Variational:
            left = task.model.left
            return replace(task.model, left=replace(left, shape=saved[name])) if task.learns_prior else task.model  # type: ignore[type-var]

        task.engine.restore(task.X, saved["loadings"])
        plain = {
            name: saved[name]
            for name in ("loss", "number", "rates", "last", "last_rates", "reference", "beta", "stride")
        }
        return StreamedVIState(
            task=task,
            model=model("L_prior"),
            next_model=model("next_prior"),
            right=belief(saved),
            ahead=belief(saved["ahead"]),
            plain=belief(saved["plain"]),
            **plain,
        )

    def _first_stride(self) -> Stride:
        return "long" if self.extrapolate else "safe"

    def _stride(self, last: Stride, accepted: bool) -> Stride:
        """Of the next step, after one of this kind."""
        if not self.extrapolate or (last != "momentum" and not accepted):
            return "safe"
        return "long" if last == "safe" or not accepted else "momentum"

    @staticmethod
    def _next(
        task: StreamedInference, model: Variational, at: Belief, sums: Arrays, rates: Floats, stride: Stride
    ) -> tuple[Belief, Variational, Floats]:
        """q(F), the model with the prior it has learned, and the rates of q(L) once both are scaled best."""
        n, m = task.X.shape
        if task.learns_prior:
            model = replace(model, left=model.left.learned(n, sums["statistics"]))
        if model.right.regressed and stride != "safe":
            right = model.right.stepped(FeatureSums(sums["B"], sums["H"]), at, task.X.feature_totals)
        else:
            right = model.right.update(at.geometric * sums["B"], sums["v"])
        on_L, on_F = model.left.scale_terms(), model.right.scale_terms()
        if on_L is None or on_F is None:
            return right, model, rates
        z = bound_scales(on_L, on_F, n, m, sums["v"], right.sums)
        return model.right.belief(right.parameters, right.rates / z), model, rates * z
