"""Freedom at a price: how far proportions can move if the log-likelihood may fall by a little.

A proportion that a transformation makes a little negative costs little once it is set to zero and its row makes up for it. By the
curvature of row i with topics fixed,

    H_i = s_i² Σ_j x_ij f_j f_jᵀ / λ_ij²,      price of −ε in topic k ≈ ε² / (2 (H_i⁻¹)_kk),

so with a loss δ it may be as low as −√(2 δ (H_i⁻¹)_kk), were it alone; features alike. Transformations found with so much room,
or a part of it, are then paid for: what is negative becomes zero, and Newton's method goes on from there, only until the loss is
at most δ. So all that is told is to be had at that price; more may be.
"""

from __future__ import annotations

import numpy as np

from unmix.analysis.transformations import Point
from unmix.counts import Counts
from unmix.fit import Fit
from unmix.models.matching import match_columns
from unmix.models.problem import Problem
from unmix.models.topics import poisson_to_topics, topics_to_poisson
from unmix.solvers.alternate import Alternate
from unmix.solvers.newton import Newton
from unmix.types import Floats

PARTS = (1.0, 0.1)  # of the room of one entry alone: many have to share the loss
MOST_ROOM = 0.5  # of a row, whatever the curvature says
STEPS = 12  # of Newton's method, to come within the loss


def room(X: Counts, P: Floats, F: Floats, sizes: Floats, loss: float) -> tuple[Floats, Floats]:
    """How far below zero the proportions of each sample, and of each feature, may be at this loss."""
    L = sizes[:, None] * P
    ratios = X.sides().left.ratios(L, F)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.nan_to_num(ratios**2 / X.rows.data, posinf=0.0)  # x / λ²
    W = X.with_data(weights)
    of_samples = _reach(W @ _squares(F), sizes**2, loss)
    of_features = _reach(W.T @ _squares(L), F.sum(axis=1) ** 2, loss)
    return of_samples, of_features


def paid(problem: Problem, fit: Fit, point: Point, allowed: float) -> tuple[Floats, Floats] | None:
    """Proportions and topics near those of a transformation, at no more than the allowed loss; None where they are too dear."""
    P, F = np.maximum(fit.proportions @ point.A, 0), np.maximum(fit.topics @ point.V.T, 0)
    L, F = topics_to_poisson(P / P.sum(axis=1, keepdims=True), F / F.sum(axis=0), fit.sizes)
    solver = Alternate(Newton())
    state = solver.start(problem, L, F)
    for _ in range(STEPS):
        if state.loss <= allowed:
            P, F = poisson_to_topics(state.L, state.F)[:2]
            order = [
                place for _, place in sorted(match_columns(fit.topics, F).items())
            ]  # topics may have changed places
            return P[:, order], F[:, order]
        state = solver.step(problem, state)
    return None


def _squares(factor: Floats) -> Floats:
    """Rows × K²: f_k f_l."""
    return (factor[:, :, None] * factor[:, None, :]).reshape(len(factor), -1)


def _reach(curvature: Floats, scale: Floats, loss: float) -> Floats:
    """√(2 loss (H⁻¹)_kk) of every row, H being scale × curvature."""
    K = round(curvature.shape[1] ** 0.5)
    H = curvature.reshape(-1, K, K) * scale[:, None, None]
    H = H + (1e-9 * np.trace(H, axis1=1, axis2=2)[:, None, None] + 1e-12) * np.eye(K)
    variances = np.diagonal(np.linalg.inv(H), axis1=1, axis2=2)
    return np.minimum(np.sqrt(2 * loss * np.maximum(variances, 0)), MOST_ROOM)
