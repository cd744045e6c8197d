"""The compiled kernels' Python face: a matrix and raw arrays in, raw arrays out.

The C++ is compiled once per instruction set; the best one that was compiled and that this CPU can run is picked here, at import
(`UNMIX_ISA=baseline`, `avx2` or `avx512` forces one, for tests). `tests/reference.py` holds a slow NumPy twin of each function.

A half-step kernel (`em`, `cd`, `newton`) updates every row of `moving`, given `fixed`, in X ≈ moving fixedᵀ:
each row minimises Σ_k cost_k b_k − Σ_j x_j log(f_j·b) − Σ_k shape_k log b_k, where cost = column sums of `fixed` + rate of the
prior, and `shape` = shape of the prior − 1, broadcast to the shape of `moving`. It returns the new rows and, if asked to
`measure`, Σ_j x log(rate) of each row at the result. Where costs differ from row to row, `cost` has a row for each of them, or
for each group if `groups` has the group of every row; a topic that costs nothing in a row becomes zero there, whatever the counts
say. `held` are columns of both factors, of topics that add to the rates and stay as they are; the other arguments are without
them. Results do not depend on the number of threads (`unmix.base.threads`), bit for bit.

A matrix is a `CSR`, whose arrays are checked once, by the first kernel that takes it. Every kernel that walks the nonzeros
works on a padded copy of the factor that stays. The copy is in the memory of a `Workspace`, which the caller keeps from call
to call, or in memory of this call's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from types import ModuleType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from unmix.base.threads import threads
from unmix.base.types import Floats

Factor = TypeVar("Factor", NDArray[np.float64], NDArray[np.float32])
Bytes = NDArray[np.uint8]

RULES = {"scd": 0, "ccd": 1, "sn": 2}


def runs(isa: str) -> bool:
    """Whether this installation has kernels for the instruction set, and this CPU runs them."""
    built = importlib.util.find_spec(f"unmix.kernels._{isa}") is not None
    return built and bool(importlib.import_module("unmix.kernels._cpu").supports(isa))


def _pick() -> tuple[str, ModuleType]:
    wanted = os.environ.get("UNMIX_ISA")
    for isa in (wanted,) if wanted else ("avx512", "avx2", "baseline"):
        if runs(isa):
            return isa, importlib.import_module(f"unmix.kernels._{isa}")
    if wanted:
        raise ImportError(
            f"UNMIX_ISA={wanted}: this CPU runs none such, or none was compiled; unset it, or choose baseline"
        )
    raise ImportError("there are no compiled kernels for this CPU; install unmix again")


isa, _native = _pick()


class CSR(NamedTuple("Arrays", [("indptr", NDArray[np.int64]), ("indices", NDArray[np.int32]), ("data", Floats)])):
    """The arrays of a sparse matrix: int64 offsets, int32 indices, float64 values. Where memory counts and all are whole
    numbers below 2^16, values may be uint16 (`Part.transposed`). Copies and pickles are of the arrays alone."""

    @cached_property
    def handle(self) -> Any:
        """What kernels take (`Matrix` in native/arrays.hpp), made when the first one asks for it; the arrays are checked
        then."""
        return _native.Matrix(*self)

    def __reduce__(self) -> tuple[type[CSR], tuple[NDArray[Any], ...]]:
        return CSR, tuple(self)


class Workspace:
    """Memory for the padded copy of a factor, one per side of a problem, kept so that its pages are touched for the first time
    only once. It goes when its owner lets it go.

    It is lent to one call at a time. A call that finds it lent (to another thread, or to the very call that a signal handler
    interrupts) takes memory of its own, and the larger of the two stays.
    """

    __slots__ = ("__weakref__", "_spare")

    def __init__(self) -> None:
        self._spare: list[Bytes] = []  # the array, unless it is lent

    def __reduce__(self) -> tuple[type[Workspace], tuple[()]]:
        return Workspace, ()  # a copy starts with nothing: what is left in memory is no one's data

    def borrow(self, size: int) -> Bytes:
        """At least `size` bytes, no one else's until they are given back."""
        try:
            spare = self._spare.pop()  # atomic, unlike a look before it
        except IndexError:
            return np.empty(size, np.uint8)
        if len(spare) >= size:
            return spare
        del spare  # freed before there is a larger one
        return np.empty(size, np.uint8)

    def give_back(self, scratch: Bytes) -> None:
        if self._spare:  # another call has left its own
            with suppress(IndexError):  # and a third may take it now
                scratch = max(scratch, self._spare.pop(), key=len)
        self._spare[:] = [scratch]  # in place of any that came meanwhile: one array is kept, not two


def _run(kernel: Callable[..., None], workspace: Workspace | None, fixed: NDArray[Any], *arguments: Any) -> None:
    """Calls the kernel with memory for the padded copy of `fixed`."""
    size = _native.scratch_bytes(fixed.shape[0], fixed.shape[-1], fixed.itemsize)
    if workspace is None:
        kernel(np.empty(size, np.uint8), *arguments)
        return
    scratch = workspace.borrow(size)
    try:
        kernel(scratch, *arguments)
    finally:
        workspace.give_back(scratch)


# em: `steps` EM (multiplicative) updates of every row.
# cd: one EM step, then `sweeps` rounds of coordinate descent by `rule` ("scd", "ccd" or "sn"). With `rest`, as by default, a
#     topic that stays at the floor is not visited again.
# newton: one EM step, then up to `rounds` Newton steps; a row stops once a step promises a gain below `tolerance`.
HALF_STEPS = {"em": ("steps",), "cd": ("sweeps", "rule", "rest"), "newton": ("rounds", "tolerance")}


def half_step(
    kernel: str,
    rows: CSR,
    fixed: Factor,
    moving: Factor,
    cost: Floats,
    shape: Floats | None,
    *,
    groups: NDArray[np.int32] | None = None,
    held: tuple[Factor, Factor] | None = None,
    measure: bool = False,
    workspace: Workspace | None = None,
    **options: Any,
) -> tuple[Factor, Floats | None]:
    """The half-step of this name, with its options."""
    weights = None
    if cost.ndim == 2:
        cost, weights = _relative(cost)
    fixed, moving = np.ascontiguousarray(fixed), np.ascontiguousarray(moving)
    out = np.empty(moving.shape, moving.dtype)
    xlog = np.empty(len(moving)) if measure else None
    options = {"rest": True} | options
    given = [RULES[options[name]] if name == "rule" else options[name] for name in HALF_STEPS[kernel]]
    run, costs = getattr(_native, kernel), (cost, shape, weights, groups)
    _run(run, workspace, fixed, rows.handle, fixed, moving, out, *costs, *_contiguous(held), xlog, threads(), *given)
    return out, xlog


def _contiguous(held: tuple[Factor, Factor] | None) -> tuple[Factor | None, Factor | None]:
    return (None, None) if held is None else (np.ascontiguousarray(held[0]), np.ascontiguousarray(held[1]))


def _relative(cost: Floats) -> tuple[Floats, Floats]:
    """Costs of rows, or of groups, as a cost that all share times weights. The sizes of rows do not change what is shared."""
    size = cost.mean(axis=1, keepdims=True)
    shared = np.divide(cost, size, out=np.zeros(cost.shape), where=size > 0).mean(axis=0)
    return shared, np.divide(cost, shared, out=np.zeros(cost.shape), where=shared > 0)


em, cd, newton = (partial(half_step, kernel) for kernel in HALF_STEPS)


def xlogs(rows: CSR, left: Factor, right: Factor, *, workspace: Workspace | None = None) -> Floats:
    """Σ_j x_ij log(l_i·f_j) of every row i."""
    xlog = np.empty(len(left))
    _pass(rows, left, right, workspace, xlog=xlog)
    return xlog


def ratios(rows: CSR, left: Factor, right: Factor, *, workspace: Workspace | None = None) -> Floats:
    """x_ij / (l_i·f_j) of every nonzero."""
    ratio = np.empty(len(rows.data))
    _pass(rows, left, right, workspace, ratio=ratio)
    return ratio


def numerators(rows: CSR, left: Factor, right: Factor, *, workspace: Workspace | None = None) -> tuple[Floats, Floats]:
    """A_ik = Σ_j x_ij f_jk / (l_i·f_j), and Σ_j x_ij log(l_i·f_j) of every row i."""
    out, xlog = np.empty(left.shape), np.empty(len(left))
    _pass(rows, left, right, workspace, numerators=out, xlog=xlog)
    return out, xlog


def both_numerators(
    rows: CSR,
    columns: CSR,
    column_order: NDArray[np.int64],
    left: Factor,
    right: Factor,
    *,
    workspace: Workspace | None = None,
) -> tuple[Floats, Floats, Floats]:
    """A_ik = Σ_j r_ij f_jk and B_jk = Σ_i r_ij l_ik from one evaluation of the ratios r = x / rate, and Σ_j x log(rate) of
    every row. `workspace` holds `right` for A, then `left` for B."""
    left_out, right_out = np.empty(left.shape), np.empty(right.shape)
    xlog, ratio = np.empty(len(left)), np.empty(len(rows.data))
    _pass(rows, left, right, workspace, numerators=left_out, xlog=xlog, ratio=ratio)
    left = np.ascontiguousarray(left)
    _run(_native.gather_rows, workspace, left, columns.handle, column_order, ratio, left, right_out, threads())
    return left_out, right_out, xlog


def log_means(shape: Floats, offset: Floats, prior: Floats) -> tuple[Floats, Floats, float]:
    """exp E log of Gamma variables: E_ik = ψ(shape_ik) + offset_ik; exp(E − max of its row), those maxima, and
    Σ_ik [log Γ(shape) + (prior − shape) ψ(shape)]. `offset` and `prior` are broadcast to the shape of
    `shape`."""
    shape = np.ascontiguousarray(shape)
    geometric, shift, term = np.empty(shape.shape), np.empty(len(shape)), np.empty(len(shape))
    given = (np.broadcast_to(array, shape.shape) for array in (offset, prior))
    _native.log_means(shape, *given, geometric, shift, term, threads())
    return geometric, shift, float(term.sum())


class Hierarchy(NamedTuple):
    """Of rows with beliefs Gamma(g_k, ξ + cost_k), ξ being the mean of Gamma(shape, rate + Σ_k g_k / (ξ + cost_k)); 0 if the
    shape is, and then costs alone are what differs from row to row."""

    cost: Floats  # of all rows, or of each
    shape: float = 0.0
    rate: float = 0.0

    @property
    def arguments(self) -> tuple[Floats, float, float]:
        """As native code takes them."""
        return np.ascontiguousarray(np.atleast_2d(self.cost)), self.shape, self.rate


def means_of_rates(parameters: Floats, hierarchy: Hierarchy) -> Floats:
    """ξ of every row, of which these are the g."""
    parameters = np.ascontiguousarray(parameters)
    out = np.empty(len(parameters))
    _native.means_of_rates(parameters, *hierarchy.arguments, out, threads())
    return out


def infer(
    rows: CSR,
    fixed: Floats,
    scale: Floats,
    start: Floats,
    prior: Floats,
    *,
    steps: int,
    tolerance: float,
    hierarchy: Hierarchy | None = None,
    workspace: Workspace | None = None,
) -> Floats:
    """g_ik ← prior_k + b_ik Σ_j x_ij m_jk / (m_j·b_i), b = exp ψ(g), m = fixed · scale, up to `steps` times a row, or until
    a row changes by at most `tolerance` of its sum. With a hierarchy, b = exp ψ(g) / (ξ_i + cost)."""
    fixed, start = np.ascontiguousarray(fixed), np.ascontiguousarray(start)
    out = np.empty(start.shape)
    given = (prior, *(hierarchy.arguments if hierarchy else (None, 0.0, 0.0)), steps, tolerance)
    _run(_native.infer, workspace, fixed, rows.handle, fixed, scale, start, out, *given, threads())
    return out


def _pass(
    rows: CSR,
    left: Factor,
    right: Factor,
    workspace: Workspace | None,
    *,
    numerators: Floats | None = None,
    xlog: Floats | None = None,
    ratio: Floats | None = None,
) -> None:
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    _run(_native.pass_rows, workspace, right, rows.handle, left, right, numerators, xlog, ratio, threads())


def curvature_size(topics: int) -> int:
    """Numbers that `add_sums` keeps of the curvature of a feature: a triangle for each block of topics."""
    return int(_native.curvature_size(topics))


def add_sums(
    columns: CSR,
    left: Factor,
    right: Factor,
    numerators: Floats,
    curvature: NDArray[np.float32],
    *,
    held: tuple[Factor, Factor] | None = None,
    workspace: Workspace | None = None,
) -> None:
    """Adds B_jk = Σ_i x_ij l_ik / λ_ij, and the curvature r_j² Σ_i x_ij l_ik l_il / λ_ij² with r_j = max_k f_jk, of samples
    whose transpose is `columns`, to what other samples gave. `held` are columns of other topics, as of `half_step`."""
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    given = (left, right, numerators, curvature, *_contiguous(held))
    _run(_native.add_sums, workspace, left, columns.handle, *given, threads())


def box_step(
    factor: Factor,
    numerators: Floats,
    curvature: NDArray[np.float32],
    cost: Floats,
    totals: Floats,
    shape: Floats | None,
) -> Factor:
    """The step that the sums of `add_sums` over all samples allow: it never raises the loss. `cost` is the column sums of the
    loadings plus the prior's rate, or has a row per feature, `totals` are those of the features."""
    factor = np.ascontiguousarray(factor)
    out = np.empty_like(factor)
    _native.box_step(factor, out, numerators, curvature, np.broadcast_to(cost, factor.shape), totals, shape, threads())
    return out


def transpose(rows: CSR, n_columns: int) -> CSR:
    """The rows of the transpose, each in order; values stay of their type, float64 or uint16."""
    indptr = np.empty(n_columns + 1, np.int64)
    indices, data = np.empty(len(rows.indices), np.int32), np.empty_like(rows.data)
    _native.transpose(rows.handle, indptr, indices, data, threads())
    return CSR(indptr, indices, data)


# The kernel of differences between topics: what the counts of every feature say of its rate in every topic.


class Spread(NamedTuple):
    """How residuals of samples are added up where counts may scatter more than Poisson counts do: by samples, for which the
    products WᵀW of their weights are given, or by groups of them, for which labels and sums of weights are."""

    gram: Floats | None = None  # K × K
    labels: NDArray[np.int32] | None = None  # n
    group_sums: Floats | None = None  # G × K


class Posteriors(NamedTuple):
    """Of g = log f of every feature. Matrices are packed: rows of the lower triangle, one after the other."""

    modes: Floats  # m × K: f = exp g at the mode
    covariances: Floats  # m × K(K+1)/2: S, the inverse of the curvature there
    thirds: Floats  # m × K: the third derivative along S_:k / S_kk
    robust: Floats | None  # m × K(K+1)/2: S (cI + R) S
    pearson: Floats  # m: Σ_i (x_i − λ_i)² / λ_i
    rounds: NDArray[np.int32]  # m: Newton steps that it took


def posteriors(
    columns: CSR,
    weights: Floats,
    sums: Floats,
    rates: Floats,
    *,
    shape: float,
    start: float,
    begin: int = 0,
    spread: Spread | None = None,
    workspace: Workspace | None = None,
) -> Posteriors:
    """Of the features from `begin` on, one per rate: x_i ~ Poisson(w_i·f), f_k ~ Gamma(shape, rates_j), from
    f_k = start / rates_j. `sums` are the column sums N of `weights`."""
    weights = np.ascontiguousarray(weights)
    m, K = len(rates), weights.shape[1]
    packed = (m, K * (K + 1) // 2)
    robust = None if spread is None else np.empty(packed)
    out = Posteriors(
        np.empty((m, K)), np.empty(packed), np.empty((m, K)), robust, np.empty(m), np.empty(m, dtype=np.int32)
    )
    given = Spread() if spread is None else spread
    prior = (sums, rates, shape, start)
    _run(_native.posteriors, workspace, weights, columns.handle, begin, weights, *prior, *given, *out, threads())
    return out


# Which topics of a catalogue samples have (native/assign.hpp).

LEAK = 1e-12  # of a sample's counts, added to every rate: no count is impossible


class Assigned(NamedTuple):
    """Of every sample: the best set of topics, its exposures, and what was seen on the way there."""

    exposures: Floats  # n × K
    probabilities: Floats  # n × K: over all sets that were tried
    gains: Floats  # n × K: log-likelihood of the set beyond that without the topic; missing for topics that it does not have
    numbers: Floats  # n × 4: deviance, dispersion, score, sets that were tried
    chosen: NDArray[np.uint8]  # n × K


def assign_topics(
    rows: CSR,
    catalogue: Floats,
    odds: Floats,
    *,
    groups: NDArray[np.int32] | None = None,
    given: NDArray[np.uint8] | None = None,
    volume: bool = True,
    dispersion: float = 0.0,
    most: int = 64,
) -> Assigned:
    """The best set of topics of every sample, of at most `most`, or the refit of the sets that are `given`.

    `catalogue` is m × K with columns that sum to one, `odds` has −log π/(1 − π) of each topic, or a price, in a row for each
    group; `dispersion` 0 is fitted. Without `volume` the score is the likelihood less the odds."""
    catalogue = np.ascontiguousarray(catalogue)
    (_, K), n = catalogue.shape, len(rows.indptr) - 1
    tables = (np.empty((n, K)), np.empty((n, K)), np.empty((n, K)), np.empty((n, 4)))
    out = Assigned(*tables, np.empty((n, K), np.uint8))
    options = (volume, dispersion, K if given is not None else min(most, K))
    logs = np.log(catalogue + LEAK)
    _native.assign_topics(
        rows.handle, catalogue, logs, np.ascontiguousarray(odds), groups, given, *options, *out, threads()
    )
    return out


def residuals(
    rows: CSR, catalogue: Floats, exposures: Floats, chosen: NDArray[np.uint8], seed: int, draws: int = 99
) -> Floats:
    """n × 3: p of the deviance among draws from the fit, refitted on the same topics; the share of counts that is
    unexplained beyond noise; the cosine of counts and rates. What is drawn depends on the seed and the counts of the sample."""
    out = np.empty((len(rows.indptr) - 1, 3))
    _native.residuals(rows.handle, np.ascontiguousarray(catalogue), exposures, chosen, seed, draws, out, threads())
    return out


# Kernels of the allocation model: labels of single counts (tokens), and digamma and log-gamma on whole arrays.
#
# Tokens stand in row order, the x_ij tokens of a nonzero side by side. `Labels` holds several independent chains: threads take a
# chain each, so results do not depend on their number; nor do they depend on the instruction set.


@dataclass(frozen=True)
class Labels:
    """One label a token, and how many tokens of each feature, of each sample and in all have label k, for every chain.

    The tables have K columns, padded with zeros to a multiple of 4. Kernels change all four arrays in place.
    """

    topics: int
    labels: NDArray[np.uint16]  # chains × tokens
    by_feature: NDArray[np.int32]  # chains × m × padded K
    by_sample: NDArray[np.int32]  # chains × n × padded K
    by_topic: NDArray[np.int32]  # chains × padded K

    @classmethod
    def empty(cls, rows: CSR, shape: tuple[int, int], topics: int, chains: int) -> Self:
        """All labels 0, all tables zero, as `greedy` wants them."""
        padded = -(-topics // 4) * 4
        return cls(
            topics,
            np.zeros((chains, int(rows.data.sum())), np.uint16),
            np.zeros((chains, shape[1], padded), np.int32),
            np.zeros((chains, shape[0], padded), np.int32),
            np.zeros((chains, padded), np.int32),
        )

    @classmethod
    def of(cls, rows: CSR, shape: tuple[int, int], topics: int, labels: NDArray[np.uint16]) -> Self:
        """With tables counted from the labels (chains × tokens), which are taken as they are, not copied."""
        none = cls.empty(rows._replace(data=rows.data[:0]), shape, topics, len(labels))
        held = cls(topics, labels, *none.tables)
        _native.tally(rows.handle, topics, *held.arrays, threads())
        return held

    @property
    def chains(self) -> int:
        return len(self.labels)

    @property
    def tables(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        return self.by_feature, self.by_sample, self.by_topic

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.labels, *self.tables

    def copy(self) -> Self:
        return type(self)(self.topics, *(array.copy() for array in self.arrays))


def seeds(rng: np.random.Generator, chains: int) -> NDArray[np.uint64]:
    """The states of `chains` generators xoshiro256++, which `gibbs` and `particle_filter` move on."""
    return rng.integers(1, 2**64, (chains, 4), dtype=np.uint64)


def gibbs(
    rows: CSR,
    alpha: Floats,
    beta: Floats,
    state: Labels,
    random: NDArray[np.uint64],
    *,
    sweeps: int = 1,
) -> None:
    """`sweeps` of the collapsed sampler: each token is taken out and put back with probability in proportion to
    (α_j + n_jk)(β_k + n_ik) / (α₊ + n_k), counts without it."""
    _native.gibbs(rows.handle, alpha, beta, *state.arrays, random, sweeps, threads())


def icm(rows: CSR, alpha: Floats, beta: Floats, state: Labels) -> int:
    """One sweep that moves each token to the topic that raises log p(S) most, if any does; returns how many moved."""
    return int(_native.icm(rows.handle, alpha, beta, *state.arrays))


def greedy(rows: CSR, alpha: Floats, beta: Floats, order: NDArray[np.int64], state: Labels) -> None:
    """Fills an empty state: nonzeros come in this order, and each of their tokens goes where log p(S) gains most."""
    _native.greedy(rows.handle, alpha, beta, order, *state.arrays)


def log_factorials(rows: CSR, state: Labels) -> Floats:
    """Σ_ijk log S_ijk! of every chain."""
    out = np.empty(state.chains)
    _native.log_factorials(rows.handle, state.topics, state.labels, out, threads())
    return out


def particle_filter(
    token_rows: NDArray[np.int64],
    token_columns: NDArray[np.int32],
    alpha: Floats,
    beta: Floats,
    random: NDArray[np.uint64],
    *,
    particles: int,
) -> Floats:
    """log of unbiased estimates, one a generator, of the probability of the tokens (given how many each sample has).

    The tokens of a sample must come side by side.
    """
    out = np.empty(len(random))
    _native.filter(token_rows, token_columns, alpha, beta, random, out, particles, threads())
    return out


def digamma(x: Floats) -> Floats:
    """ψ(x), x > 0."""
    return _elementwise(_native.digamma, x)


def log_gamma(x: Floats) -> Floats:
    """log Γ(x), x > 0."""
    return _elementwise(_native.log_gamma, x)


def _elementwise(kernel: Callable[..., None], x: Floats) -> Floats:
    x = np.ascontiguousarray(x, dtype=np.float64)
    out = np.empty(x.shape)
    kernel(x.reshape(-1), out.reshape(-1), threads())
    return out
