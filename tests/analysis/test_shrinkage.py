"""Adaptive shrinkage: its weights are the best there are, its means and sign rates what a mixture of normals says."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

import unmix as um
from unmix.counts.counts import Counts
from unmix.counts.sides import column_sums
from unmix.models.differences import CERTAIN, _likelihoods, grid, mixture

B = np.array([-3.2, -0.4, 0.1, 0.3, 0.8, 2.5, 4, -0.05])
S = np.array([0.5, 0.5, 0.4, 1, 0.6, 0.8, 1, 0.3])


def drawn(n: int, real: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Effects, of which a part is not zero, estimates of them, and errors of those."""
    rng = np.random.default_rng(seed)
    s = rng.gamma(2, 0.5, n) + 0.05
    effects = np.where(rng.random(n) < real, rng.normal(0, 2, n), 0)
    return effects, effects + rng.normal(0, s), s


def test_eight_estimates_are_shrunk_as_two_other_solvers_shrink_them() -> None:
    shrunk = um.shrink(B, S)
    assert len(shrunk.scales) == 19
    np.testing.assert_allclose(shrunk.scales[[0, 1, -1]], [0, 0.021395, 7.745967], atol=1e-6)
    np.testing.assert_allclose(shrunk.weights[shrunk.weights > 1e-3], [0.8163, 0.1837], atol=1e-4)
    means = [-3.0968, -0.0202, 0.0032, 0.0197, 0.0772, 1.9584, 3.4905, -0.0012]
    np.testing.assert_allclose(shrunk.mean, means, atol=2e-4)
    np.testing.assert_allclose(shrunk.lfsr, [0, 0.9590, 0.9806, 0.9546, 0.9086, 0.1509, 0.0111, 0.9863], atol=2e-4)


@pytest.mark.parametrize("extra", [0.0, 9.0])
def test_weights_sum_to_one_without_being_told_to(extra: float) -> None:
    """The half-step of the fits, given n₁ as the cost of every component, ends at the same weights, of the sum of one."""
    _, b, s = drawn(1000, 0.5)
    A = _likelihoods(b, s, grid(b, s, True)[::4])
    weights, lack = mixture(A, extra)
    n, prior = len(A), np.zeros((1, A.shape[1]))
    prior[0, 0] = extra
    side = Counts.trusted(sp.csr_array(np.ones((1, n)))).sides().left.with_prior(prior, n + extra - column_sums(A))
    other = np.full((1, A.shape[1]), 0.02)
    for _ in range(200):
        other, _ = side.update("newton", A, other, rounds=20, tolerance=0.0)
    assert lack <= CERTAIN
    assert other.sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(weights, other[0], atol=1e-3)


@examples(25)
@given(
    n=st.integers(1, 60),
    real=st.floats(0, 1),
    scale=st.floats(-6, 6),
    null_weight=st.sampled_from([1.0, 10.0, 100.0]),
    point_mass=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_no_other_weights_are_better_by_more_than_the_certificate_says(
    n: int, real: float, scale: float, null_weight: float, point_mass: bool, seed: int
) -> None:
    _, b, s = drawn(n, real, seed)
    shrunk = um.shrink(10**scale * b, 10**scale * s, point_mass, null_weight)
    assert shrunk.lack <= CERTAIN
    assert shrunk.weights.sum() == pytest.approx(1)
    assert (shrunk.weights >= 0).all()
    A = _likelihoods(10**scale * b, 10**scale * s, shrunk.scales)

    def objective(weights: np.ndarray) -> float:
        return float(np.log(A @ weights).sum() + (null_weight - 1) * np.log(weights[0] + 1e-300))

    for other in np.random.default_rng(seed).dirichlet(np.full(len(shrunk.scales), 0.3), 20):
        assert objective(other) <= objective(shrunk.weights) + CERTAIN * n + 1e-9


def test_of_many_estimates_all_have_their_say_not_every_eighth_alone() -> None:
    _, b, s = drawn(20_000, 0.3)
    weights, lack = mixture(_likelihoods(b, s, scales := grid(b, s, True)), 9.0)
    coarse, _ = mixture(_likelihoods(b[::8], s[::8], scales), 9.0)
    assert lack <= CERTAIN
    assert np.abs(weights - coarse).max() > 1e-4


def test_a_step_that_cannot_be_solved_is_one_of_em(monkeypatch) -> None:
    from unmix.models import differences

    _, b, s = drawn(500, 0.3)
    whole, calls = um.shrink(b, s), []
    solve = differences.nnls

    def sometimes(*arguments, **options):
        calls.append(1)
        if len(calls) <= 3:
            raise RuntimeError("too many iterations")
        return solve(*arguments, **options)

    monkeypatch.setattr(differences, "nnls", sometimes)
    again = um.shrink(b, s)
    assert len(calls) > 3
    assert again.lack <= CERTAIN
    np.testing.assert_allclose(again.mean, whole.mean, atol=1e-2)


@pytest.mark.parametrize("point_mass", [True, False])
def test_estimates_that_are_all_zero_stay_zero_and_nothing_is_sure(point_mass: bool) -> None:
    shrunk = um.shrink(np.zeros(500), np.random.default_rng(0).gamma(2, 1, 500) + 0.1, point_mass)
    np.testing.assert_allclose(shrunk.mean, 0, atol=1e-12)
    assert (shrunk.lfsr >= 0.5 - 1e-12).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_of_ten_thousand_estimates_of_nothing_hardly_one_is_sure(seed: int) -> None:
    _, b, s = drawn(10_000, 0, seed)
    shrunk = um.shrink(b, s)
    assert shrunk.lack <= CERTAIN
    assert (shrunk.lfsr < 0.05).sum() <= 5


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("real", [0.1, 0.5])
def test_signs_are_as_often_wrong_as_is_said(real: float, seed: int) -> None:
    effects, b, s = drawn(10_000, real, seed)
    shrunk = um.shrink(b, s)
    sure = shrunk.lfsr < 0.05
    wrong = np.sign(effects[sure]) != np.sign(b[sure])
    said = shrunk.lfsr[sure].sum()
    assert sure.sum() > 100
    assert wrong.sum() <= said + 4 * np.sqrt(said) + 1
    near = (shrunk.lfsr > 0.2) & (shrunk.lfsr < 0.4)
    often = (np.sign(effects[near]) != np.sign(b[near])).mean()
    assert often == pytest.approx(shrunk.lfsr[near].mean(), abs=4 * np.sqrt(0.25 / near.sum()))


def test_shrinking_comes_closer_to_the_effects() -> None:
    effects, b, s = drawn(5000, 0.2)
    assert np.square(um.shrink(b, s).mean - effects).mean() < 0.5 * np.square(b - effects).mean()


def test_the_posterior_is_that_of_the_mixture() -> None:
    """By quadrature over the effects."""
    shrunk = um.shrink(B, S)
    effects = np.linspace(-30, 30, 600_001)
    wide = shrunk.scales[1:]
    density = (shrunk.weights[1:] * np.exp(-0.5 * (effects[:, None] / wide) ** 2) / wide).sum(axis=1) / np.sqrt(
        2 * np.pi
    )
    for i in (0, 4, 5):
        likelihood = np.exp(-0.5 * ((B[i] - effects) / S[i]) ** 2)
        weights = density * likelihood * (effects[1] - effects[0])
        zero = shrunk.weights[0] * np.exp(-0.5 * (B[i] / S[i]) ** 2)
        total = weights.sum() + zero
        negative = weights[effects < 0].sum() / total
        assert (weights * effects).sum() / total == pytest.approx(shrunk.mean[i], abs=1e-4)
        assert min(zero / total + negative, 1 - negative) == pytest.approx(shrunk.lfsr[i], abs=1e-4)


def test_what_is_not_known_stays_unknown_and_leaves_the_others_alone() -> None:
    b, s = np.append(B, [np.nan, 1, 1, np.inf]), np.append(S, [1, np.nan, 0, 1])
    shrunk, alone = um.shrink(b, s), um.shrink(B, S)
    np.testing.assert_array_equal(shrunk.mean[:8], alone.mean)
    assert np.isnan(shrunk.mean[8:]).all()
    assert (shrunk.lfsr[8:] == 1).all()
    nothing = um.shrink([np.nan, np.nan], [1, 1])
    assert np.isnan(nothing.mean).all()


def test_estimates_of_any_shape_come_back_in_it() -> None:
    table = um.shrink(B.reshape(2, 4), S.reshape(2, 4))
    np.testing.assert_array_equal(table.mean.ravel(), um.shrink(B, S).mean)


def test_without_a_point_mass_signs_are_surer() -> None:
    assert (um.shrink(B, S, point_mass=False).lfsr <= um.shrink(B, S).lfsr + 1e-12).all()
    assert um.shrink(B, S, point_mass=False).scales[0] > 0


def test_one_wide_component_is_ridge_regression() -> None:
    """With equal errors and effects of one size, the mixture is nearly that normal distribution."""
    rng = np.random.default_rng(0)
    effects = rng.normal(0, 3, 20_000)
    b = effects + rng.normal(0, 1, 20_000)
    shrunk = um.shrink(b, np.ones(20_000), point_mass=False, null_weight=1)
    np.testing.assert_allclose(shrunk.mean, 0.9 * b, atol=0.15 * np.abs(b).max())
    middle = np.abs(b) < 5
    np.testing.assert_allclose(shrunk.mean[middle], 0.9 * b[middle], atol=0.15)
    np.testing.assert_allclose(shrunk.lfsr[middle], ndtr(-np.abs(0.9 * b[middle]) / np.sqrt(0.9)), atol=0.03)


@pytest.mark.parametrize("null_weight", [0.5, -1, np.nan, np.inf])
def test_a_null_weight_below_one_is_refused(null_weight: float) -> None:
    with pytest.raises(ValueError, match="null_weight"):
        um.shrink(B, S, null_weight=null_weight)
