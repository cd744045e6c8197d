"""The compiled kernels' Python face: raw arrays in, raw arrays out.

The C++ is compiled once per instruction set; the best one this CPU can run is picked here, at import
(`UNMIX_ISA=baseline`, `avx2` or `avx512` forces one, for tests). `reference.py` holds a slow NumPy twin of each function.

A half-step kernel (`em`, `cd`, `newton`) updates every row of `moving`, given `fixed`, in X ≈ moving fixedᵀ:
each row minimises Σ_k cost_k b_k − Σ_j x_j log(f_j·b) − Σ_k shape_k log b_k, where cost = column sums of `fixed` + rate of the
prior, and `shape` = shape of the prior − 1, broadcast to the shape of `moving`. It returns the new rows and, if asked to
`measure`, Σ x log(rate) at the result. Results do not depend on the number of threads, bit for bit.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unmix.counts import Rows

Factor = TypeVar("Factor", NDArray[np.float64], NDArray[np.float32])
Floats = NDArray[np.float64]

RULES = {"scd": 0, "ccd": 1, "sn": 2}


def _pick() -> tuple[str, ModuleType]:
    baseline = importlib.import_module("unmix.kernels._baseline")
    wanted = os.environ.get("UNMIX_ISA")
    for isa in (wanted,) if wanted else ("avx512", "avx2", "baseline"):
        if baseline.cpu_supports(isa):
            return isa, importlib.import_module(f"unmix.kernels._{isa}")
    raise ImportError(f"UNMIX_ISA={wanted}: this CPU runs none such; unset it, or choose baseline")


isa, _native = _pick()


def em(
    rows: Rows,
    fixed: Factor,
    moving: Factor,
    cost: Floats,
    shape: Floats | None,
    *,
    steps: int,
    threads: int,
    measure: bool = False,
) -> tuple[Factor, float | None]:
    """`steps` EM (multiplicative) updates of every row."""
    return _half(_native.em, rows, fixed, moving, cost, shape, threads, measure, steps)


def cd(
    rows: Rows,
    fixed: Factor,
    moving: Factor,
    cost: Floats,
    shape: Floats | None,
    *,
    sweeps: int,
    rule: str,
    threads: int,
    measure: bool = False,
) -> tuple[Factor, float | None]:
    """One EM step, then `sweeps` rounds of coordinate descent by `rule` ("scd", "ccd" or "sn")."""
    return _half(_native.cd, rows, fixed, moving, cost, shape, threads, measure, sweeps, RULES[rule])


def newton(
    rows: Rows,
    fixed: Factor,
    moving: Factor,
    cost: Floats,
    shape: Floats | None,
    *,
    rounds: int,
    enough: float,
    threads: int,
    measure: bool = False,
) -> tuple[Factor, float | None]:
    """One EM step, then up to `rounds` Newton steps; a row stops once a step promises a gain below `enough`."""
    return _half(_native.newton, rows, fixed, moving, cost, shape, threads, measure, rounds, enough)


def _half(kernel, rows, fixed, moving, cost, shape, threads, measure, *options):
    fixed, moving = np.ascontiguousarray(fixed), np.ascontiguousarray(moving)
    out = np.empty(moving.shape, moving.dtype)
    xlog = np.empty(len(moving)) if measure else None
    kernel(*rows, fixed, moving, out, cost, shape, xlog, threads, *options)
    return out, None if xlog is None else float(xlog.sum())


def xlogs(rows: Rows, left: Factor, right: Factor, *, threads: int) -> Floats:
    """Σ_j x_ij log(l_i·f_j) of every row i."""
    xlog = np.empty(len(left))
    _pass(rows, left, right, threads, xlog=xlog)
    return xlog


def ratios(rows: Rows, left: Factor, right: Factor, *, threads: int) -> Floats:
    """x_ij / (l_i·f_j) of every nonzero."""
    ratio = np.empty(len(rows.data))
    _pass(rows, left, right, threads, ratio=ratio)
    return ratio


def numerators(rows: Rows, left: Factor, right: Factor, *, threads: int) -> tuple[Floats, float]:
    """A_ik = Σ_j x_ij f_jk / (l_i·f_j), and Σ x log(rate)."""
    out, xlog = np.empty(left.shape), np.empty(len(left))
    _pass(rows, left, right, threads, numerators=out, xlog=xlog)
    return out, float(xlog.sum())


def both_numerators(
    rows: Rows, columns: Rows, column_order: NDArray[np.int64], left: Factor, right: Factor, *, threads: int
) -> tuple[Floats, Floats, float]:
    """A_ik = Σ_j r_ij f_jk and B_jk = Σ_i r_ij l_ik from one evaluation of the ratios r = x / rate, and Σ x log(rate)."""
    left_out, right_out = np.empty(left.shape), np.empty(right.shape)
    xlog, ratio = np.empty(len(left)), np.empty(len(rows.data))
    _pass(rows, left, right, threads, numerators=left_out, xlog=xlog, ratio=ratio)
    left = np.ascontiguousarray(left)
    _native.gather_rows(columns.indptr, columns.indices, column_order, ratio, left, right_out, threads)
    return left_out, right_out, float(xlog.sum())


def log_means(shape: Floats, offset: Floats, prior: Floats, *, threads: int) -> tuple[Floats, Floats, float]:
    """exp E log of Gamma variables: E_ik = ψ(shape_ik) + offset_k; exp(E − max of its row), those maxima, and
    Σ_ik [log Γ(shape) + (prior − shape) ψ(shape)]. `prior` is broadcast to the shape of `shape`."""
    shape = np.ascontiguousarray(shape)
    geometric, shift, term = np.empty(shape.shape), np.empty(len(shape)), np.empty(len(shape))
    _native.log_means(shape, offset, np.broadcast_to(prior, shape.shape), geometric, shift, term, threads)
    return geometric, shift, float(term.sum())


def infer(
    rows: Rows, fixed: Floats, scale: Floats, start: Floats, prior: Floats, *, steps: int, enough: float, threads: int
) -> Floats:
    """g_ik ← prior_k + b_ik Σ_j x_ij m_jk / (m_j·b_i), b = exp ψ(g), m = fixed · scale, up to `steps` times a row, or until
    a row changes by at most `enough` of its sum."""
    out = np.empty(start.shape)
    _native.infer(
        *rows, np.ascontiguousarray(fixed), scale, np.ascontiguousarray(start), out, prior, steps, enough, threads
    )
    return out


def _pass(rows, left, right, threads, *, numerators=None, xlog=None, ratio=None) -> None:
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    _native.pass_rows(*rows, left, right, numerators, xlog, ratio, threads)
