"""The measures behind the Swimmer result, on decompositions whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from reproduce import swimmer as result

pytestmark = pytest.mark.reproduce

X = result.swimmer(5)
TRUE = (X.truth.F > 0) * X.feature_totals[:, None]  # S_jk of the 17 parts


def test_true_parts_are_pure_and_have_no_ghosts() -> None:
    parts = result.parts_of(X, TRUE)
    assert (parts.found, parts.purity, parts.torso, parts.ghost, parts.ghosts) == (17, 1, 1, 0, 0)
    assert parts.pixels == pytest.approx((16 * 6 + 12) / 17)


def test_a_torso_shared_out_to_the_limbs_is_a_ghost_in_each() -> None:
    S = TRUE.astype(float)
    S[:, :16] += S[:, [16]] / 16
    S[:, 16] = 0
    S[0, 16] = 1e-9
    parts = result.parts_of(X, S)
    assert parts.found == 16
    assert parts.ghosts == 16
    assert parts.ghost == pytest.approx(1)
    assert parts.torso < 0.1


@pytest.mark.parametrize(("part", "pixels"), [(0.5, 1), (0.6, 2), (0.95, 3), (1.0, 3)])
def test_pixels_holding_a_part(part: float, pixels: int) -> None:
    assert result.pixels_holding(np.array([1.0, 0, 4, 3]), part) == pixels


def test_log_probability_of_the_truth_is_that_of_a_fit_at_the_truth() -> None:
    made = result.decompose(X, init=(X.truth.L + 1e-12, X.truth.F + 1e-12), max_iter=40, tol=0)
    assert result.parts_of(X, made.by_pixel).found == 17
    assert abs(made.above_truth) < 0.02 * X.total


def test_sizes_have_no_say_in_the_decomposition() -> None:
    assert result.sizes_matter(X, max_iter=3) == 0


def test_slices_of_an_image_sum_to_it() -> None:
    for made in (result.decompose(X, max_iter=2, tol=0), result.factorise(X, 0)):
        image = X.csr[[result.IMAGE]].toarray().ravel()
        np.testing.assert_allclose(result.slices(X, made, result.IMAGE).sum(axis=1), image, rtol=1e-9)
