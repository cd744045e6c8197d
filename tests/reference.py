"""A slow, readable NumPy twin of every compiled kernel: same signatures, a few lines, the equation above the code.

Tests compare the two. A row of a half-step is solved in shares, as in `native/regression.hpp`: with t = Σ_j x_j,

    b_k = l_k cost_k / t,   y_j = x_j / t,   m_jk = f_jk / cost_k,   s_k = shape_k / t
    minimise  φ(b) = Σ_k b_k − Σ_j y_j log(m_j·b) − Σ_k s_k log b_k   over  b_k >= FLOOR

Where costs differ from row to row, `cost` is a multiple of those of the row, and Σ_k b_k becomes Σ_k w_k b_k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, log_ndtr, psi

from unmix.base.types import Factor, Floats, Integers
from unmix.kernels import CSR, Assigned, Hierarchy, Labels, Posteriors, Spread

Half = tuple[Factor, Floats | None]
Shape = Floats | None
Held = tuple[Factor, Factor] | None
Ints = NDArray[np.int32]

FLOOR = 1e-15  # the least share of a topic in a row
FULL_STEP = 0.6838  # root of z² + z + log(1 − z): up to this decrement a full Newton step descends
QUADRATIC_SWEEPS = 8  # of coordinate descent on Newton's quadratic model
BOX_SWEEPS = 32  # the same for the step of sums


def em(
    rows: CSR,
    fixed: Factor,
    moving: Factor,
    cost: Floats,
    shape: Shape,
    *,
    steps: int,
    groups: Ints | None = None,
    held: Held = None,
    measure: bool = False,
) -> Half:
    """b_k ← max(FLOOR, (b_k Σ_j y_j m_jk / (m_j·b) + s_k) / w_k), `steps` times."""

    def solve(y: Floats, m: Floats, b: Floats, s: Floats, w: Floats, o: Floats, total: float) -> Floats:
        for _ in range(steps):
            b = _em_step(y, m, b, s, w, o)
        return b

    return _half(rows, fixed, moving, cost, shape, groups, held, measure, solve)


def cd(
    rows: CSR,
    fixed: Factor,
    moving: Factor,
    cost: Floats,
    shape: Shape,
    *,
    sweeps: int,
    rule: str,
    rest: bool = True,
    groups: Ints | None = None,
    held: Held = None,
    measure: bool = False,
) -> Half:
    """One EM step, then b_k ← max(FLOOR, b_k − g/h), a topic at a time, with a_j = m_jk / rate_j:

    g = w_k − Σ_j y_j a_j − s_k / b_k,   h = Σ_j y_j a_j² + s_k / b_k²
    """

    def solve(y: Floats, m: Floats, b: Floats, s: Floats, w: Floats, o: Floats, total: float) -> Floats:
        b = _em_step(y, m, b, s, w, o)
        resting = w == 0  # topics that are not allowed, or at the floor and want to stay there, are left alone
        for _ in range(sweeps):
            for k in np.flatnonzero(~resting).tolist():
                resting[k] = _coordinate(y, m, b, s, w, o, k, rule) and rest
        return b

    return _half(rows, fixed, moving, cost, shape, groups, held, measure, solve)


def newton(
    rows: CSR,
    fixed: Factor,
    moving: Factor,
    cost: Floats,
    shape: Shape,
    *,
    rounds: int,
    tolerance: float,
    groups: Ints | None = None,
    held: Held = None,
    measure: bool = False,
) -> Half:
    """One EM step, then up to `rounds` times, for each block of <= 64 topics, b ← b + length · d. d nearly minimises

    g·d + ½ dᵀHd  over  b + d >= FLOOR
    g = w − Σ_j y_j m_j / rate_j − s/b,   H = Σ_j y_j m_j m_jᵀ / rate_j² + diag(s/b²)

    and `length` keeps every rate (and every share with a prior) above 1 − 0.6838 of itself.
    """

    def solve(y: Floats, m: Floats, b: Floats, s: Floats, w: Floats, o: Floats, total: float) -> Floats:
        b = _em_step(y, m, b, s, w, o)
        for _ in range(rounds):
            gain = 0.0
            for block in _blocks(len(b)):
                rate = m @ b + o
                scaled = np.sqrt(y)[:, None] * m[:, block] / rate[:, None]
                g = w[block] - scaled.T @ np.sqrt(y) - s[block] / b[block]
                g[w[block] == 0] = 1
                H = scaled.T @ scaled
                ridge = 1e-6 * np.trace(H)
                H += np.diag(s[block] / b[block] ** 2 + ridge)
                d = _quadratic_step(g, H, FLOOR - b[block])
                curvature, slope = d @ H @ d, g @ d
                if not (curvature > 0 and slope < 0):
                    continue
                d *= min(1.0, float(-slope / curvature))
                gain += total * float(d @ H @ d)
                changes = np.append(m[:, block] @ d / rate, np.where(s[block] > 0, d / b[block], 0.0))
                length = min(1.0, FULL_STEP / max(-changes.min(), 1e-300))
                b[block] = np.maximum(FLOOR, b[block] + length * d)
            if gain <= tolerance * min(1.0, total):
                break
        return b

    return _half(rows, fixed, moving, cost, shape, groups, held, measure, solve)


def xlogs(rows: CSR, left: Factor, right: Factor) -> Floats:
    """Σ_j x_ij log(l_i·f_j)"""
    x, rate, i = _at_nonzeros(rows, left, right)
    return np.bincount(i, x * np.log(rate), len(left)).astype(np.float64)


def ratios(rows: CSR, left: Factor, right: Factor) -> Floats:
    """x_ij / (l_i·f_j)"""
    x, rate, _ = _at_nonzeros(rows, left, right)
    return x / rate


def numerators(rows: CSR, left: Factor, right: Factor) -> tuple[Floats, Floats]:
    """A_ik = Σ_j x_ij f_jk / (l_i·f_j), and Σ_j x_ij log(l_i·f_j)"""
    x, rate, i = _at_nonzeros(rows, left, right)
    A = np.zeros(left.shape)
    np.add.at(A, i, (x / rate)[:, None] * right[rows.indices].astype(np.float64))
    return A, xlogs(rows, left, right)


def both_numerators(
    rows: CSR, columns: CSR, column_order: NDArray[np.int64], left: Factor, right: Factor
) -> tuple[Floats, Floats, Floats]:
    """A_ik = Σ_j r_ij f_jk,   B_jk = Σ_i r_ij l_ik,   r = x / rate, and Σ_j x_ij log(l_i·f_j)"""
    x, rate, i = _at_nonzeros(rows, left, right)
    A, xlog = numerators(rows, left, right)
    B = np.zeros(right.shape)
    np.add.at(B, rows.indices, (x / rate)[:, None] * left[i].astype(np.float64))
    return A, B, xlog


def log_means(shape: Floats, offset: Floats, prior: Floats) -> tuple[Floats, Floats, float]:
    """E_ik = ψ(g_ik) + offset_k: exp(E − its row's maximum), the maxima, and Σ log Γ(g) + (prior − g) ψ(g)"""
    E = psi(shape) + offset
    shift = E.max(axis=1)
    return np.exp(E - shift[:, None]), shift, float((gammaln(shape) + (prior - shape) * psi(shape)).sum())


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
) -> Floats:
    """g_k ← prior_k + b_k Σ_j x_j m_jk / (m_j·b),   b = exp(ψ(g) − max ψ(g)), divided by ξ + cost with a hierarchy"""
    out = np.tile(prior, (len(start), 1))
    for i in np.flatnonzero(np.diff(rows.indptr)):
        nonzeros = slice(rows.indptr[i], rows.indptr[i + 1])
        x, m, g = rows.data[nonzeros], fixed[rows.indices[nonzeros]] * scale, start[i]
        for _ in range(steps):
            b = np.exp(psi(g) - psi(g).max())
            if hierarchy is not None:
                of_row = hierarchy._replace(cost=np.broadcast_to(hierarchy.cost, start.shape)[i])
                b /= means_of_rates(g[None], of_row)[0] + of_row.cost
            last, g = g, prior + b * (m.T @ (x / (m @ b)))
            if np.abs(g - last).sum() <= tolerance * g.sum():
                break
        out[i] = g
    return out


def means_of_rates(parameters: Floats, hierarchy: Hierarchy) -> Floats:
    """The root of  rate ξ + Σ_k g_k ξ / (ξ + cost_k) = shape  for each row g"""
    cost, shape, rate = hierarchy
    if shape == 0:
        return np.zeros(len(parameters))

    def excess(xi: float, g: Floats) -> float:
        return float(rate * xi + (g * xi / (xi + cost)).sum() - shape)

    return np.array([brentq(excess, 0, shape / rate, args=(g,), xtol=1e-300, rtol=1e-15) for g in parameters])


def add_sums(
    columns: CSR,
    left: Factor,
    right: Factor,
    numerators: Floats,
    curvature: NDArray[np.float32],
    *,
    held: Held = None,
) -> None:
    """B_jk += Σ_i x_ij l_ik / λ_ij;   H_j += r_j² Σ_i x_ij l_i l_iᵀ / λ_ij², r_j = max_k f_jk, a lower triangle a block."""
    for j, f in enumerate(right):
        some = slice(columns.indptr[j], columns.indptr[j + 1])
        x, near, largest = columns.data[some].astype(float), left[columns.indices[some]], f.max()
        if not len(x) or largest <= 0:
            continue
        rates = near @ f
        if held is not None:
            rates += held[0][columns.indices[some]] @ held[1][j]
        numerators[j] += (x / rates) @ near
        H = largest**2 * np.einsum("p,pk,pl->kl", x / rates**2, near, near)
        curvature[j] += np.concatenate([H[part, part][np.tril_indices(len(H[part]))] for part in _blocks(len(f))])


def box_step(
    factor: Factor, numerators: Floats, curvature: NDArray[np.float32], cost: Floats, totals: Floats, shape: Shape
) -> Factor:
    """f + d: d minimises g·d + ½ dᵀHd over d >= −FULL_STEP f, block by block, H being multiplied by the number of blocks."""
    out, blocks, costs = np.empty_like(factor), _blocks(factor.shape[1]), np.broadcast_to(cost, factor.shape)
    for j, f in enumerate(factor):
        cost = costs[j]
        s, largest = np.zeros(len(f)) if shape is None else shape[j], f.max()
        if largest <= 0 or totals[j] <= 0:
            out[j] = np.divide(s, cost, out=np.zeros(len(f)), where=cost > 0)
            continue
        b = f / largest
        g = (cost - numerators[j]) * largest - np.divide(s, b, out=np.zeros(len(f)), where=s > 0)
        d, at = np.zeros(len(f)), 0
        for part in blocks:
            size = len(b[part])
            H, triangle = np.zeros((size, size)), size * (size + 1) // 2
            H[np.tril_indices(size)] = len(blocks) * curvature[j, at : at + triangle].astype(float)
            at += triangle
            H += np.tril(H, -1).T
            H += np.diag(1e-7 * np.trace(H) + len(blocks) * np.divide(s, b**2, out=np.zeros(len(f)), where=s > 0)[part])
            d[part] = _box_minimum(g[part], H, -FULL_STEP * b[part])
        with np.errstate(divide="ignore"):
            floor = np.where(cost > 0, FLOOR * totals[j] / cost, 0)
        out[j] = np.maximum(largest * (b + d), floor)
    return out


def _box_minimum(g: Floats, H: Floats, low: Floats) -> Floats:
    """Coordinate descent until it stands still, then scaled so that g·d <= −dᵀHd."""
    d, before = np.zeros(len(g)), 0.0
    for sweep in range(BOX_SWEEPS):
        moved = 0.0
        for k in np.flatnonzero(np.diag(H) > 0):
            change = max(low[k], d[k] - (g + H @ d)[k] / H[k, k]) - d[k]
            d[k] += change
            moved += change**2 * H[k, k]
        before = moved if sweep == 0 else before
        if not moved > 1e-8 * before:
            break
    gd, dHd = float(g @ d), float(d @ H @ d)
    return d * (min(1.0, -gd / dHd) if dHd > 0 and gd < 0 else 0.0)


def transpose(rows: CSR, n_columns: int) -> CSR:
    """Entries sorted by column, in each by row."""
    owners = np.repeat(np.arange(len(rows.indptr) - 1, dtype=np.int32), np.diff(rows.indptr))
    order = np.argsort(rows.indices, kind="stable")
    ends = np.cumsum(np.bincount(rows.indices, minlength=n_columns))
    return CSR(np.concatenate([[0], ends]).astype(np.int64), owners[order], rows.data[order])


def posteriors(
    columns: CSR,
    weights: Floats,
    sums: Floats,
    rates: Floats,
    *,
    shape: float,
    start: float,
    spread: Spread | None = None,
) -> Posteriors:
    """Newton steps u = (cI + M)⁻¹ (q + c − (N + b) f), M = Σ x p pᵀ, q = Σ x p, p = w f / λ, to the mode; then, along
    v = S_:k / S_kk,

    T_k = −c Σ v³ − 3 Σ x (p·v²)(p·v) + 2 Σ x (p·v)³,   and S (cI + R) S with R = Σ_i (x − λ)² p pᵀ over all samples, or by groups
    """
    m, K, c = len(rates), weights.shape[1], shape
    lower = np.tril_indices(K)
    robust = None if spread is None else np.empty((m, len(lower[0])))
    out = Posteriors(
        np.empty((m, K)), np.empty((m, len(lower[0]))), np.empty((m, K)), robust, np.empty(m), np.zeros(m, np.int32)
    )
    for j, b in enumerate(rates):
        x = np.zeros(len(weights))
        some = slice(columns.indptr[j], columns.indptr[j + 1])
        x[columns.indices[some]] = columns.data[some]
        f, u = np.full(K, start / b), np.ones(K)
        while True:
            rate = weights @ f
            p = weights * f / rate[:, None]
            S = np.linalg.inv(c * np.eye(K) + (p.T * x) @ p)
            if np.abs(u).max() <= 1e-12 or out.rounds[j] == 500:
                break
            u = S @ (x @ p + c - (sums + b) * f)
            f = f * (1 + min(1.0, FULL_STEP / max(-u.min(), 1e-300)) * u)
            out.rounds[j] += 1
        v = S / np.diag(S)
        mean, square = p @ v, p @ v**2
        out.modes[j], out.covariances[j] = f, S[lower]
        out.thirds[j] = -c * (v**3).sum(axis=0) + x @ (2 * mean**3 - 3 * square * mean)
        out.pearson[j] = ((x - rate) ** 2 / rate).sum()
        if robust is not None and spread is not None:
            h = p * (x - rate)[:, None]
            if spread.labels is not None:
                G = spread.labels.max() + 1
                h = np.sqrt(G / (G - 1)) * np.array([h[spread.labels == a].sum(axis=0) for a in range(G)])
            robust[j] = (S @ (c * np.eye(K) + h.T @ h) @ S)[lower]
    return out


# --- sets of topics: native/assign.hpp -----------------------------------------------------------------------------------------

LEAK, ADDITIONS, SWAPS, EXPANDED, NEAR = 1e-12, 4, 2, 40, 3.0
Set = tuple[int, ...]


def assign_topics(
    rows: CSR,
    catalogue: Floats,
    odds: Floats,
    *,
    groups: Ints | None = None,
    given: NDArray[np.uint8] | None = None,
    volume: bool = True,
    dispersion: float = 0.0,
    most: int = 64,
) -> Assigned:
    """The set of topics of each row with the largest score, by additions, removals and swaps, each refitted exactly."""
    n, K = len(rows.indptr) - 1, catalogue.shape[1]
    out = Assigned(*(np.zeros((n, K)) for _ in range(3)), np.zeros((n, 4)), np.zeros((n, K), np.uint8))
    out.gains[:] = np.nan
    some = catalogue.any(axis=1)
    for i in range(n):
        x = np.zeros(len(catalogue))
        x[rows.indices[rows.indptr[i] : rows.indptr[i + 1]]] = rows.data[rows.indptr[i] : rows.indptr[i + 1]]
        x[~some] = 0
        if not x.any():
            continue
        search = Sets(x, catalogue, odds[0 if groups is None else groups[i]], volume, dispersion, some.sum(), most)
        best = search.best() if given is None else search.fit(tuple(np.flatnonzero(given[i]).tolist()))
        found = search.fitted[best]
        out.exposures[i, list(best)], out.chosen[i, list(best)] = found[0], 1
        out.gains[i, list(best)] = np.inf
        for k in best if given is None and len(best) > 1 else ():
            out.gains[i, k] = (search.fitted[search.fit(tuple(c for c in best if c != k))][1] - found[1]) / 2
        weights = {one: np.exp(fit[3] - found[3]) for one, fit in search.fitted.items()}
        for one, weight in weights.items():
            out.probabilities[i, list(one)] += weight / sum(weights.values())
        out.numbers[i] = found[1], search.phi(found[1]), found[3], len(weights)
    return out


class Sets:
    """The sets of topics of one sample that were fitted: l, deviance, score with φ = 1, and with its own."""

    def __init__(
        self, x: Floats, F: Floats, odds: Floats, volume: bool, dispersion: float, features: int, most: int
    ) -> None:
        self.x, self.F, self.odds, self.volume, self.dispersion = x, F, odds, volume, dispersion
        self.t, self.m, self.most = x.sum(), features, most
        self.fitted: dict[Set, tuple[Floats, float, float, float]] = {}
        self.expanded: dict[Set, list[Set]] = {}

    def phi(self, deviance: float) -> float:
        return self.dispersion or max(1.0, deviance / self.m)

    def rates(self, one: Set, l: Floats) -> Floats:  # noqa: E741
        return self.F[:, list(one)] @ l + LEAK * self.t

    def fit(self, one: Set) -> Set:
        if one not in self.fitted:
            l = self._refit(list(one))  # noqa: E741
            x = self.x[self.x > 0]
            deviance = max(0.0, 2 * (x @ np.log(x / self.rates(one, l)[self.x > 0]) - self.t + l.sum()))
            against = self.odds[list(one)].sum()
            scores = [
                -(self.m * np.log(phi) + deviance / phi) / 2 + self._volume(one, l, phi) - against
                for phi in (self.dispersion or 1.0, self.phi(deviance))
            ]
            self.fitted[one] = (l, deviance, *scores)
        return one

    def _refit(self, one: list[int]) -> Floats:
        """The maximum of Σ x log(Fl) − Σ l over l >= 0: EM, then Newton on free topics up to the first that reaches zero."""
        A, l = self.F[:, one], np.full(len(one), self.t / len(one))  # noqa: E741
        for step in range(600):
            rates = A @ l + LEAK * self.t
            g = A.T @ (self.x / rates) - 1
            if step < 20:
                l = l * (1 + g)  # noqa: E741
                continue
            free = np.flatnonzero((l > 0) | (g > 0))
            H = (A * (self.x / rates**2)[:, None]).T @ A
            while True:
                d = np.zeros(len(l))
                d[free] = np.linalg.lstsq(H[np.ix_(free, free)], g[free], rcond=1e-12)[0]
                if not (falls := [k for k in free if l[k] == 0 and d[k] < 0]):
                    break
                free = np.setdiff1d(free, falls)
            ends = np.where(d < 0, -l / np.where(d < 0, d, -1), np.inf)
            length, first = min(1.0, ends.min()), int(ends.argmin()) if ends.min() < 1 else -1
            if length * (lowest := (A @ d / rates).min()) < -FULL_STEP:
                length, first = FULL_STEP / -lowest, -1
            l = np.maximum(l + length * d, 0)  # noqa: E741
            if first >= 0:
                l[first] = 0
            elif g @ d < 1e-10:
                break
        return l

    def _volume(self, one: Set, l: Floats, phi: float) -> float:  # noqa: E741
        if len(one) == 1 or not self.volume:
            return 0.0
        rates, A, big = self.rates(one, l), self.F[:, list(one)], int(l.argmax())
        rest = [k for k in range(len(one)) if k != big]
        D = A[:, rest] - A[:, [big]]
        C = phi / self.t**2 * np.linalg.inv((D * (self.x / rates**2)[:, None]).T @ D)
        slopes, sd, w = (A.T @ (self.x / rates) - 1)[rest], np.sqrt(np.diag(C)), l[rest] / self.t
        zero = w == 0
        z = np.where(zero, np.minimum(slopes, 0) * self.t * sd / phi, w / sd)
        shape = gammaln(len(one)) + (len(rest) * np.log(2 * np.pi) + np.linalg.slogdet(C)[1]) / 2
        return min(0.0, shape + float((log_ndtr(z) + np.where(zero, z**2 / 2, 0)).sum()))

    def additions(self, one: Set) -> list[int]:
        if len(one) >= self.most:
            return []
        l, deviance = self.fitted[one][:2]  # noqa: E741
        rates, free = self.rates(one, l), [k for k, value in zip(one, l, strict=True) if value > 0]
        slopes = self.F.T @ (self.x / rates) - 1
        H = (self.F * (self.x / rates**2)[:, None]).T @ self.F
        gains = {}
        for k in np.setdiff1d(np.flatnonzero((slopes > 0) & np.isfinite(self.odds)), one).tolist():
            left = H[k, k] - H[k, free] @ np.linalg.solve(H[np.ix_(free, free)], H[free, k])
            gains[k] = slopes[k] ** 2 / (2 * max(left, 1e-9 * H[k, k]) * self.phi(deviance)) - self.odds[k]
        return sorted(gains, key=lambda k: -gains[k])[:ADDITIONS]

    def neighbours(self, one: Set) -> list[Set]:
        if one not in self.expanded:
            found = [self.fit(tuple(sorted((*one, k)))) for k in self.additions(one)]
            for k in one if len(one) > 1 else ():
                found.append(smaller := self.fit(tuple(c for c in one if c != k)))
                others = [c for c in self.additions(smaller) if c != k][:SWAPS]
                found += [self.fit(tuple(sorted((*smaller, c)))) for c in others]
            self.expanded[one] = found
        return self.expanded[one]

    def best(self) -> Set:
        at = max(
            (self.fit((k,)) for k in np.flatnonzero(np.isfinite(self.odds)).tolist()), key=lambda s: self.fitted[s][2]
        )
        for score in (2, 3):
            while (new := max([*self.neighbours(at), at], key=lambda s: self.fitted[s][score])) and (
                self.fitted[new][score] > self.fitted[at][score]
            ):
                at = new
        for _ in range(EXPANDED):
            fresh = [one for one in self.fitted if one not in self.expanded]
            if not fresh:
                break
            new = max(fresh, key=lambda s: self.fitted[s][3])
            if self.fitted[new][3] < max(fit[3] for fit in self.fitted.values()) - NEAR:
                break
            self.neighbours(new)
        while (best := max(self.fitted, key=lambda s: self.fitted[s][3])) not in self.expanded:
            self.neighbours(best)
        return best


def _at_nonzeros(rows: CSR, left: Factor, right: Factor) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """x, its rate l_i·f_j, and its row i, of every nonzero."""
    i = np.repeat(np.arange(len(left)), np.diff(rows.indptr))
    return rows.data, (left[i].astype(np.float64) * right[rows.indices].astype(np.float64)).sum(axis=1), i


def _half(
    rows: CSR,
    fixed: Factor,
    moving: Factor,
    cost: Floats,
    shape: Shape,
    groups: Ints | None,
    held: Held,
    measure: bool,
    solve: Callable[..., Floats],
) -> Half:
    """Every row of `moving` in shares, solved, and scaled back. A row without counts is zero, or the prior's mode."""
    (n, K), shared = moving.shape, cost.ndim == 1
    costs = np.broadcast_to(cost, (n, K)) if shared else cost[np.arange(n) if groups is None else groups]
    if not shared:
        means = cost.mean(axis=1, keepdims=True)
        cost = np.divide(cost, means, out=np.zeros_like(cost), where=means > 0).mean(axis=0)
    inverse = np.divide(1, cost, out=np.zeros_like(cost), where=cost > 0)
    scaled = (fixed * inverse).astype(fixed.dtype)
    out = np.zeros_like(moving)
    xlog = np.zeros(len(moving))
    for i in range(len(moving)):
        nonzeros = slice(rows.indptr[i], rows.indptr[i + 1])
        x, m = rows.data[nonzeros], scaled[rows.indices[nonzeros]].astype(np.float64)
        extra = np.zeros(K) if shape is None else shape[i]
        total, w = x.sum(), np.ones(K) if shared else costs[i] * inverse
        size = w.mean() if w.any() else 1.0
        if total == 0:
            out[i] = np.divide(extra, costs[i], out=np.zeros(K), where=costs[i] > 0)
            continue
        b = np.where(w > 0, np.maximum(FLOOR, moving[i] * cost * size / total), FLOOR)
        o = np.zeros(len(x))
        if held is not None:
            o = held[0][rows.indices[nonzeros]].astype(np.float64) @ held[1][i] * size / total
        b = solve(x / total, m, b, np.where(w > 0, extra / total, 0), w / size, o, total)
        b[w == 0] = 0
        out[i] = b * total / size * inverse
        xlog[i] = x @ np.log((m @ b + o) * total / size)
    return out, xlog if measure else None


def _em_step(y: Floats, m: Floats, b: Floats, s: Floats, w: Floats, o: Floats) -> Floats:
    return np.maximum(FLOOR, np.divide(b * (m.T @ (y / (m @ b + o))) + s, w, out=np.zeros(len(b)), where=w > 0))


def _coordinate(y: Floats, m: Floats, b: Floats, s: Floats, w: Floats, o: Floats, k: int, rule: str) -> bool:
    """Moves b_k; whether it may rest for the remaining sweeps."""
    for _ in range(2):
        a = m[:, k] / (m @ b + o)
        g, h = w[k] - y @ a - s[k] / b[k], y @ a**2 + s[k] / b[k] ** 2
        old, new = b[k], max(FLOOR, b[k] - g / h) if h > 0 else FLOOR
        if rule == "sn" and g > 0:
            # self-concordant with constant 1 / sqrt(min y), or that of the prior if larger
            decrement = np.sqrt(h / min(y.min(), s[k] or np.inf)) * abs(new - old)
            new = old + (new - old) / (1 + decrement) if decrement > FULL_STEP else new
        if new == old:
            return bool(g > 0)
        b[k] = new
        if rule != "ccd" or abs(new - old) < 0.5 * old:
            return False
    return False


def _blocks(topics: int) -> list[slice]:
    """Blocks of equal size, a multiple of 8 and at most 64."""
    count = ceil(topics / 64)
    size = 8 * ceil(ceil(topics / count) / 8)
    return [slice(first, min(first + size, topics)) for first in range(0, topics, size)]


def _quadratic_step(g: Floats, H: Floats, low: Floats) -> Floats:
    """Coordinate descent on g·d + ½ dᵀHd over d >= low; after the first sweep only topics off their bound move."""
    d, q = np.zeros(len(g)), g.copy()

    def visit(k: int) -> float:
        change = max(low[k], d[k] - q[k] / H[k, k]) - d[k]
        d[k] += change
        q[:] += change * H[k]
        return float(change**2 * H[k, k])

    first = sum(visit(k) for k in range(len(g)))
    free = np.flatnonzero(d > low).tolist()
    for _ in range(1, QUADRATIC_SWEEPS):
        if sum(visit(k) for k in free) <= 1e-4 * first:
            break
    return d


# --- labels of single counts: native/sampling.hpp ------------------------------------------------------------------------------


class Xoshiro:
    """xoshiro256++ of Blackman and Vigna, in whole numbers modulo 2^64; moves the four words it was given."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words

    def uniform(self) -> float:
        s0, s1, s2, s3 = (int(word) for word in self.words)
        result = (_rotated((s0 + s3) % 2**64, 23) + s0) % 2**64
        s2, s3 = s2 ^ s0, s3 ^ s1
        self.words[:] = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17) % 2**64, _rotated(s3, 45)]
        return (result >> 11) * 2.0**-53


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) % 2**64


def gibbs(
    rows: CSR, alpha: Floats, beta: Floats, state: Labels, random: NDArray[np.uint64], *, sweeps: int = 1
) -> None:
    """Token after token: out, then back to topic k with probability ∝ (α_j + n_jk)(β_k + n_ik) / (α₊ + n_k)."""
    alpha_sum = _serial(alpha.tolist())
    for chain in range(state.chains):
        generator = Xoshiro(random[chain])
        for _ in range(sweeps):
            for i, j, t in _tokens(rows):
                _count(state, chain, i, j, int(state.labels[chain, t]), -1)
                of_column, of_row, of_topic = (table[: state.topics] for table in _of_token(state, chain, i, j))
                weights = (alpha[j] + of_column) * ((beta + of_row) / (alpha_sum + of_topic))
                draw = _draw_few if state.topics <= 16 else _draw_many
                state.labels[chain, t] = k = draw(weights, generator.uniform())
                _count(state, chain, i, j, k, 1)


def _draw_few(weights: Floats, uniform: float) -> int:
    """The topic at which the running sum passes u; sums run within blocks of 4, and over them."""
    blocks = _padded(weights, 4).reshape(-1, 4)
    before, cumulated = 0.0, []
    for x0, x1, x2, x3 in blocks.tolist():
        running = [x0, x0 + x1, (x1 + x2) + x0, (x2 + x3) + (x0 + x1)]
        cumulated += [before + sum for sum in running]
        before += running[3]
    u = before * uniform
    return min(sum(c <= u for c in cumulated), len(weights) - 1)


def _draw_many(weights: Floats, uniform: float) -> int:
    """The 64 topics in which u falls, then the 16, the 4, the topic."""
    levels = [_padded(weights, 64)]
    for _ in range(3):
        four = levels[-1].reshape(-1, 4)
        levels.append((four[:, 0] + four[:, 1]) + (four[:, 2] + four[:, 3]))
    # the sums of 64 are added in another order than those of 4 and 16
    sixteens = levels[2].reshape(-1, 4)
    tops = (sixteens[:, 0] + sixteens[:, 2]) + (sixteens[:, 1] + sixteens[:, 3])
    u = uniform * _serial(tops.tolist())
    at = 0
    while at + 1 < len(tops) and u >= tops[at]:
        u -= tops[at]
        at += 1
    for level in (levels[2], levels[1], levels[0]):
        sums = [0.0, *accumulate(level[4 * at : 4 * at + 3].tolist())]
        lane = sum(u >= c for c in sums[1:])
        u -= sums[lane]
        at = 4 * at + lane
    return min(at, len(weights) - 1)


def icm(rows: CSR, alpha: Floats, beta: Floats, state: Labels) -> int:
    """Token after token: to the topic of the largest (α_j + S_jk)(β_k + S_ik) / ((α₊ + S_k)(S_ijk + 1)), if it gains."""
    labels, moved = state.labels[0], 0
    for i, j, first, x in _nonzeros(rows):
        here = np.bincount(labels[first : first + x], minlength=state.topics)
        for t in range(first, first + x):
            old = int(labels[t])
            _count(state, 0, i, j, old, -1)
            here[old] -= 1
            gains = _gains(alpha, beta, state, i, j, here)
            best = int(np.argmax(gains))
            now = best if gains[best] > (1 + 1e-12) * gains[old] else old
            moved += now != old
            labels[t] = now
            _count(state, 0, i, j, now, 1)
            here[now] += 1
    return moved


def greedy(rows: CSR, alpha: Floats, beta: Floats, order: NDArray[np.int64], state: Labels) -> None:
    """Nonzeros in this order, each token where it gains most."""
    nonzeros = list(_nonzeros(rows))
    for i, j, first, x in (nonzeros[p] for p in order):
        here = np.zeros(state.topics, dtype=np.int64)
        for t in range(first, first + x):
            state.labels[0, t] = k = int(np.argmax(_gains(alpha, beta, state, i, j, here)))
            _count(state, 0, i, j, k, 1)
            here[k] += 1


def log_factorials(rows: CSR, state: Labels) -> Floats:
    """Σ_ijk log S_ijk!"""
    cells = [slice(first, first + x) for _, _, first, x in _nonzeros(rows)]
    return np.array([sum(gammaln(np.bincount(chain[cell]) + 1.0).sum() for cell in cells) for chain in state.labels])


def digamma(x: Floats) -> Floats:
    return psi(x)


def log_gamma(x: Floats) -> Floats:
    return gammaln(x)


def _gains(alpha: Floats, beta: Floats, state: Labels, i: int, j: int, here: Integers) -> Floats:
    of_column, of_row, of_topic = (table[: state.topics] for table in _of_token(state, 0, i, j))
    return (alpha[j] + of_column) * (beta + of_row) / ((_serial(alpha.tolist()) + of_topic) * (here + 1))


def _nonzeros(rows: CSR) -> Iterator[tuple[int, int, int, int]]:
    """Row, column, place of the first token and number of tokens of every nonzero."""
    first = 0
    for i in range(len(rows.indptr) - 1):
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            yield i, int(rows.indices[p]), first, int(rows.data[p])
            first += int(rows.data[p])


def _tokens(rows: CSR) -> Iterator[tuple[int, int, int]]:
    return ((i, j, t) for i, j, first, x in _nonzeros(rows) for t in range(first, first + x))


def _of_token(state: Labels, chain: int, i: int, j: int) -> tuple[Ints, Ints, Ints]:
    return state.by_feature[chain, j], state.by_sample[chain, i], state.by_topic[chain]


def _count(state: Labels, chain: int, i: int, j: int, k: int, by: int) -> None:
    for table in _of_token(state, chain, i, j):
        table[k] += by


def _padded(values: Floats, multiple: int) -> Floats:
    return np.append(values, np.zeros(-len(values) % multiple))


def _serial(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total
