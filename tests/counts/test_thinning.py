"""`Counts.thinned`: parts that add up, and are independent where theory says so."""

import numpy as np
import pytest

import unmix as um


def drawn(rng, size=100_000, b=None):
    means = np.full((size, 1), 7.0)
    return um.Counts(rng.poisson(means if b is None else rng.gamma(b, means / b)))


def correlation(X, rng, **options):
    one, two = (part.csr.toarray().ravel() for part in X.thinned(2, rng, **options))
    return np.corrcoef(one, two)[0, 1]


@pytest.mark.parametrize("shares", [1, 2, 5, (0.2, 0.8), (1, 2, 3)])
@pytest.mark.parametrize("b", [None, 0.5, 1e-3, "features"])
def test_parts_add_up_to_the_counts_exactly(shares, b):
    rng = np.random.default_rng(0)
    X = um.Counts(rng.poisson(3.0, (40, 30)))
    parts = X.thinned(shares, rng, overdispersion=np.linspace(0.1, 9, 30) if b == "features" else b)
    assert len(parts) == (shares if isinstance(shares, int) else len(shares))
    np.testing.assert_array_equal(sum(part.csr for part in parts).toarray(), X.csr.toarray())
    assert all((part.rows.data > 0).all() for part in parts)


def test_parts_have_their_shares_of_the_counts():
    rng = np.random.default_rng(1)
    X = drawn(rng)
    for b in (None, 2.0):
        totals = np.array([part.total for part in X.thinned((1, 2, 7), rng, overdispersion=b)])
        np.testing.assert_allclose(totals / X.total, (0.1, 0.2, 0.7), atol=0.005)


def test_parts_of_poisson_counts_are_uncorrelated():
    rng = np.random.default_rng(2)
    assert abs(correlation(drawn(rng), rng)) < 0.02


def test_parts_of_overdispersed_counts_are_uncorrelated_only_with_their_dispersion():
    rng = np.random.default_rng(3)
    X = drawn(rng, b=7.0)
    assert correlation(X, rng) == pytest.approx(1 / 3, abs=0.02)
    assert abs(correlation(X, rng, overdispersion=7.0)) < 0.02


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shares": 0}, "shares=0; use a number of parts >= 1"),
        ({"shares": (0.5, -0.5)}, "shares=.*probabilities > 0"),
        ({"shares": 2, "overdispersion": 0.0}, "overdispersion=0.0; use numbers > 0"),
        ({"shares": 2, "overdispersion": np.ones(7)}, "one or one for each feature"),
    ],
)
def test_what_cannot_be_thinned_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        um.Counts(np.ones((3, 2))).thinned(rng=np.random.default_rng(0), **options)


def test_counts_that_are_not_whole_are_refused():
    with pytest.raises(ValueError, match="thinning needs whole numbers"):
        um.Counts(np.full((3, 2), 0.5)).thinned(2, np.random.default_rng(0))
