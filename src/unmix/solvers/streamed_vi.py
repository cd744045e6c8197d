"""Variational inference, one pass over the shards an iteration: coordinate ascent as in `vi`, with momentum on q(F) alone.

Each visit finds q(L) of its samples given q(F), and returns sums; the bound at both is exact, and free. Then q(F) takes the
longest step that its prior knows from them, and moves on along its last change. Where the bound fell, the next step is without
momentum; where it fell again, it is coordinate ascent's, after which it cannot fall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from unmix.engines.base import Arrays
from unmix.models.beliefs import Belief
from unmix.models.scales import bound_scales
from unmix.models.streaming_inference import Infer, StreamedBeliefs, StreamedInference
from unmix.models.variational import Variational
from unmix.sides import FeatureSums
from unmix.solvers.vi import CEILING, FIRST, GROWTH, SHRINKAGE
from unmix.types import Floats, Record

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
