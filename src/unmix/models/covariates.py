"""Covariates of samples: one-step proportions with their noise, and the prior of loadings that covariates enter.

The topics F (columns sum to one) are given; π̄ are their shares in all counts together, with 1% of even shares. With f = F π̄,
D = diag(1 / f) and G = (FᵀDF)⁻¹ FᵀD the one-step proportions of a sample x with total t are

    p = G x / t = π̄ + (FᵀDF)⁻¹ · score(π̄),        V_k = (Σ_j G_kj² x_j / t − p_k²) / (t − 1),

one step of Fisher scoring. Given F, E p is the true proportion for every t and V its variance.

The prior: with s_i the total of a sample and w_i its columns, centred and scaled, of which the first is one,

    l_ik ~ Gamma(a_k, a_k / μ_ik),   μ_ik = s_i exp(w_i·β_k),        q(l_ik) = Gamma(a_k + counts, a_k / μ_ik + cost_k).

β_k minimises Σ_i a_k (w_i·β_k + E l_ik / μ_ik) + ½ Σ β_k², the sum without the intercept: Gamma regression with a log link and a
ridge, convex, with gradient a_k Σ w_i (1 − E l_ik / μ_ik) + Λβ and Hessian a_k Σ w_i w_iᵀ E l_ik / μ_ik + Λ. Along δ, with
R = max |w_i·δ|, curvature grows by a factor of at most e^R, so that a Newton step times log(1 + R) / R never makes it worse. The
bound would learn shapes that are far too large from short samples; so a_k = m_k (m_k (1 − m_k) / τ_k² − 1) comes from one-step
proportions: m_k is their mean, τ_k² their residual variance less noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from unmix import kernels
from unmix.base.types import Factor, Floats, Record
from unmix.counts.counts import Counts
from unmix.counts.data import Arrays
from unmix.counts.formulas import rows_of
from unmix.counts.sides import column_sums
from unmix.kernels import Hierarchy
from unmix.models.beliefs import Belief, Gammas, Prior

EVEN = 0.01  # of even shares in the pooled ones
ROUNDS = 3  # of weights
LEAST_SPREAD = 1e-3  # of the spread of proportions that is not counting noise
SHAPES = (0.01, 100.0)  # least and most of a prior
IMPOSSIBLE = -0.2  # a sum of shapes that noise does not explain
NO_COUNTS = 1e-6  # the total of a sample without any: its loadings say nothing
POOLING = 50  # steps of EM towards shares in all counts


@dataclass(frozen=True)
class OneStep:
    """Of every sample: proportions, their variances by counting noise, and totals of the features that topics have."""

    proportions: Floats
    noise: Floats
    totals: Floats

    @classmethod
    def of(cls, F: Floats, pooled: Floats, parts: Iterable[Counts]) -> OneStep:
        used: NDArray[np.bool_] = np.asarray(F.any(axis=1))
        f = F @ ((1 - EVEN) * pooled + EVEN / F.shape[1])
        scaled = np.divide(F, f[:, None], out=np.zeros_like(F), where=used[:, None])
        information = F.T @ scaled
        if np.linalg.cond(information) > 1e12:
            raise ValueError(
                "a topic is a mixture of the others, so that proportions are not determined; use fewer topics"
            )
        G = np.linalg.solve(information, scaled.T).T
        both = np.hstack([G, G**2, used[:, None]])
        sums = np.vstack([part.csr @ both for part in parts])
        K, t = F.shape[1], sums[:, -1]
        with np.errstate(divide="ignore", invalid="ignore"):
            p = sums[:, :K] / t[:, None]
            V = (sums[:, K:-1] / t[:, None] - p**2) / (t - 1)[:, None]
        p[t < 2], V[t < 2] = np.nan, np.nan
        return cls(p, V, t)


class Weighted:
    """Weights 1 / (τ² + v / t), from residuals of weighted least squares."""

    def __init__(self, W: Floats, P: Floats, V: Floats, t: Floats) -> None:
        self.noise = float(np.sum(t * (t - 1) * V.sum(axis=1)) / np.sum(t))
        self.weights = np.ones(len(t))
        for _ in range(ROUNDS):
            root = np.sqrt(self.weights)[:, None]
            R = P - W @ np.linalg.lstsq(W * root, P * root, rcond=None)[0]
            squares, w = R**2, self.weights / self.weights.sum()
            self.spreads = w @ (squares - V)  # of each topic
            total = squares.sum(axis=1)
            self.spread = max(float(w @ (total - V.sum(axis=1))), LEAST_SPREAD * float(w @ total), 1e-300)
            self.weights = 1 / (self.spread + np.maximum(self.noise, 0) / t)
        median = float(np.median(t))
        self.reliability = self.spread / (self.spread + max(self.noise, 0) / median)


def newton_step(beta: Floats, gradient: Floats, hessian: Floats, reach: Floats) -> Floats:
    """A step for every topic (columns of β, which sees `gradient` P × K and `hessian` K × P × P) that never makes it worse, if
    |w_i·δ| <= Σ_p reach_p |δ_p| for all samples."""
    delta = -np.linalg.solve(hessian, gradient.T[:, :, None])[:, :, 0].T
    R = np.maximum(reach @ np.abs(delta), 1e-300)
    return beta + delta * np.where(R > 1e-8, np.log1p(R) / R, 1.0)


@dataclass(frozen=True, eq=False)
class CovariateGammas(Gammas):
    """Entries ~ Gamma(shape_k, shape_k / μ_ik), μ_ik = s_i exp(w_i·β_k). `rows` are [w_i, s_i] of the samples at hand; the rates
    of beliefs are of each entry or, where samples are elsewhere, the cost of each topic above β (`compact`)."""

    coefficients: Floats = field(default_factory=lambda: np.zeros((1, 1)))  # β, columns × topics
    reach: Floats = field(default_factory=lambda: np.ones(1))  # the largest |w| of each column, of all samples
    rows: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    told: Record = field(default_factory=dict)  # type: ignore[misc]  # how columns are made of metadata
    by_moments: bool = True  # whether shapes come from one-step proportions
    fits: ClassVar[bool] = True

    @classmethod
    def of(cls, shape: Floats, columns: Floats, totals: Floats, told: Record, by_moments: bool) -> CovariateGammas:
        """Of samples with these columns (without that of ones) and totals. Topics have even shares so far."""
        K = len(shape)
        beta = np.zeros((columns.shape[1] + 1, K))
        beta[0] = -np.log(K)
        reach = np.append(1.0, np.abs(columns).max(axis=0, initial=0))
        told = {"covariates": told}
        return cls(shape, np.ones(K), beta, reach, rows_with(columns, totals), told, by_moments)

    # The samples at hand

    @property
    def of_samples(self) -> Arrays:
        return {"rows": self.rows}

    def at(self, arrays: Mapping[str, Floats]) -> Self:
        return replace(self, rows=arrays["rows"]) if "rows" in arrays else self

    @cached_property
    def prior_rates(self) -> Floats:
        """a_k / μ_ik"""
        return self.shape * np.exp(-(self.rows[:, :-1] @ self.coefficients)) / self.rows[:, -1:]

    def compact(self, cost: Floats) -> Floats:
        return np.vstack([cost, self.coefficients])

    def expanded(self, rates: Floats) -> Floats:
        return replace(self, coefficients=rates[1:]).prior_rates + rates[0]

    # What the bound and the solvers need

    def belief(self, parameters: Floats, rates: Floats | None = None) -> Belief:
        if rates is None:
            raise ValueError("a Gamma belief needs rates")
        if not len(parameters):
            return Belief(parameters, rates, parameters, np.zeros(0), np.zeros(len(self.shape)), 0.0)
        logs, means = np.log(rates), parameters / rates
        geometric, shifts, term = kernels.log_means(parameters, -logs, self.shape)
        if len(self.rows) != len(parameters):  # restored, and not yet `at` its samples
            return Belief(parameters, rates, geometric, shifts, column_sums(means), np.nan)
        prior = (np.log(self.prior_rates) - logs).sum(axis=0) @ self.shape - len(parameters) * gammaln(self.shape).sum()
        bound = term + prior + float((parameters - self.prior_rates * means).sum())
        return Belief(parameters, rates, geometric, shifts, column_sums(means), float(bound))

    def update(self, counts: Floats, cost: Floats) -> Belief:
        return self.belief(self.shape + counts, self.prior_rates + cost)

    def shape_and_rates(self, cost: Floats) -> tuple[Floats, Floats]:
        return self.shape, self.prior_rates + cost

    def row_rates(self, rates: Floats) -> tuple[Floats, Hierarchy | None]:
        return np.ones(len(self.shape)), Hierarchy(rates)

    def scale_terms(self) -> None:  # type: ignore[override]
        """The intercepts are what says it."""

    # What is fitted

    @property
    def penalty(self) -> float:
        return float(0.5 * (self.coefficients[1:] ** 2).sum())

    def statistics(self, belief: Belief) -> Floats:
        """Gradient and Hessian at β, added up over samples; one column of K × (1 + P) × P numbers."""
        W, ratio = self.rows[:, :-1], self.prior_rates * belief.parameters / belief.rates / self.shape
        gradient = (W.T @ (1 - ratio)).T
        hessian = np.stack([(W.T * r) @ W for r in ratio.T])
        return (np.concatenate([gradient[:, None], hessian], axis=1) * self.shape[:, None, None]).ravel()

    def learned(self, n: int, statistics: Floats) -> Self:
        """With coefficients that are a Newton step better."""
        P, K = self.coefficients.shape
        sums = statistics.reshape(K, 1 + P, P)
        ridge = np.append(0.0, np.ones(P - 1))
        gradient = sums[:, 0].T + ridge[:, None] * self.coefficients
        beta = newton_step(self.coefficients, gradient, sums[:, 1:] + np.diag(ridge), self.reach)
        return replace(self, coefficients=beta)

    def averaged(self, statistics: Floats, so_far: Floats, step: float) -> tuple[Self, Floats]:
        """Learned from one batch after the other: quadratic models of the loss are averaged, H and Hβ − gradient."""
        P, K = self.coefficients.shape
        sums, ridge = statistics.reshape(K, 1 + P, P).copy(), np.diag(np.append(0.0, np.ones(P - 1)))
        sums[:, 0] = np.einsum("kpq,qk->kp", sums[:, 1:], self.coefficients) - sums[:, 0]
        mean = sums if not so_far.size else (1 - step) * so_far + step * sums
        gradient = (mean[:, 1:] + ridge) @ self.coefficients.T[:, :, None] - mean[:, 0][:, :, None]
        reach = np.maximum(self.reach, np.abs(self.rows[:, :-1]).max(axis=0, initial=0))
        beta = newton_step(self.coefficients, gradient[:, :, 0].T, mean[:, 1:] + ridge, reach)
        return replace(self, coefficients=beta, reach=reach), mean

    def ahead(self, last: Self, beta: float) -> Self:
        return replace(self, coefficients=self.coefficients + beta * (self.coefficients - last.coefficients))

    def at_start(self, sample: Counts, F: Factor) -> Self:
        """With the shapes and intercepts that moments of one-step proportions suggest."""
        totals = F.sum(axis=0)
        F = F.astype(np.float64) / np.where(totals > 0, totals, 1)
        y, shares = sample.feature_totals, np.full(F.shape[1], 1 / F.shape[1])
        for _ in range(POOLING):
            expected = F @ shares
            shares = shares * (F.T @ np.divide(y, expected, out=np.zeros_like(y), where=expected > 0)) / y.sum()
            shares = shares / shares.sum()
        beta = self.coefficients.copy()
        beta[0] = np.log(np.maximum(shares, 1e-6))
        other = replace(self, coefficients=beta)
        if not self.by_moments:
            return other
        try:
            found = OneStep.of(F, shares, [sample])
        except ValueError:  # topics are too similar yet
            return other
        kept = found.totals >= 2
        if kept.sum() <= 2:
            return other
        W = rows_of(self.told["covariates"], sample.metadata, len(sample), "prevalence")[0]
        W = np.column_stack([np.ones(len(W)), W])[kept]
        weighted = Weighted(W, found.proportions[kept], found.noise[kept], found.totals[kept])
        m = np.clip(weighted.weights @ found.proportions[kept] / weighted.weights.sum(), 1e-6, 1 - 1e-6)
        total = m * (1 - m) / np.maximum(weighted.spreads, 1e-12) - 1
        # no proportions spread so much: topics of a random start, which say nothing yet
        return replace(other, shape=np.clip(m * np.where(total < IMPOSSIBLE, 1, total), *SHAPES))

    # What is kept

    def matches(self, other: Prior, values: bool = True) -> bool:
        """Whether it is of the same kind and size: what differs is fitted."""
        return isinstance(other, CovariateGammas) and self.coefficients.shape == other.coefficients.shape

    def arrays(self, belief: Belief) -> dict[str, Floats]:
        return {
            "": belief.parameters,
            "_rate": belief.rates if len(belief.parameters) else belief.rates[None],
            "_prior": self.shape,
            "_coefficients": self.coefficients[None],
            "_reach": self.reach[None, :, None],
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats]) -> tuple[Self, Belief]:
        shape, rates, parameters = arrays["_prior"], arrays["_rate"], arrays[""]
        prior = cls(shape, np.ones(len(shape)), arrays["_coefficients"][0], arrays["_reach"][0, :, 0])
        return prior, prior.belief(parameters, rates if rates.ndim == 2 else rates[0])


def rows_with(columns: Floats, totals: Floats) -> Floats:
    """Ones, columns and totals."""
    return np.column_stack([np.ones(len(columns)), columns, np.maximum(totals, NO_COUNTS)])
