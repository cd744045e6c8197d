"""The kernels of variational inference equal their NumPy twins, and their special functions those of scipy."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from conftest import awkward_counts, random_counts, random_start
from scipy.special import digamma, gammaln

from unmix import kernels
from unmix.base.threads import use_threads
from unmix.counts.counts import Counts

TOPICS = (1, 3, 4, 5, 10, 17, 33)
Floats = np.ndarray


def wide(*shape: int, low: float = 1e-6, high: float = 1e8, seed: int = 0) -> Floats:
    """Parameters over many orders of magnitude."""
    return np.exp(np.random.default_rng(seed).uniform(np.log(low), np.log(high), shape))


def one_by_one(values: Floats, prior: Floats | float) -> tuple[Floats, Floats]:
    """ψ(g), and log Γ(g) + (prior − g) ψ(g), of every value by itself, from matrices of one entry."""
    priors = np.broadcast_to(prior, values.shape)
    results = [
        kernels.log_means(np.array([[g]]), np.zeros(1), np.array([[p]])) for g, p in zip(values, priors, strict=True)
    ]
    return np.array([shift[0] for _, shift, _ in results]), np.array([term for _, _, term in results])


# --- log_means -------------------------------------------------------------------------------------------------------


def log_means_arguments(K: int, n: int = 40) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(K)
    return wide(n, K, seed=K), rng.normal(0, 3, K), rng.gamma(1, 1, (n, K))


@pytest.mark.parametrize("K", TOPICS)
def test_log_means_equal_their_reference(K: int) -> None:
    arguments = log_means_arguments(K)
    geometric, shift, term = kernels.log_means(*arguments)
    want_geometric, want_shift, want_term = reference.log_means(*arguments)
    assert not np.isnan(geometric).any()
    np.testing.assert_allclose(shift, want_shift, rtol=1e-12, atol=1e-13)
    # the exponent may be −1e6, of which rounding alone takes 1e-10; e^−700 and less is zero
    np.testing.assert_allclose(geometric, want_geometric, rtol=1e-10, atol=1e-300)
    np.testing.assert_array_equal(geometric.max(axis=1), 1)
    assert term == pytest.approx(want_term, rel=1e-12)


@pytest.mark.parametrize("high", [1e-3, 1.0])
def test_log_means_of_tiny_parameters_do_not_underflow(high: float) -> None:
    g = wide(30, 4, low=1e-6, high=high)
    geometric, shift, term = kernels.log_means(g, np.zeros(4), np.ones((1, 1)))
    assert (np.exp(digamma(g)).max(axis=1) == 0).any() == (high == 1e-3)  # without the shifts they would
    assert (geometric.max(axis=1) == 1).all()
    assert np.isfinite(shift).all()
    assert np.isfinite(term)


@pytest.mark.parametrize("K", [1, 3, 5, 17])
def test_the_prior_of_log_means_may_be_broadcast_strided_or_transposed(K: int) -> None:
    g, offset, full = log_means_arguments(K)
    want = [reference.log_means(g, offset, prior)[2] for prior in (full[0], full[:, :1], full)]
    strided = np.repeat(np.repeat(full, 2, axis=0), 3, axis=1)[::2, ::3]
    forms = [(full[0], 0), (full[:, :1], 1), (full, 2), (strided, 2), (np.asfortranarray(full), 2)]
    for prior, which in forms:
        assert kernels.log_means(g, offset, prior)[2] == pytest.approx(want[which], rel=1e-12)
    got = kernels.log_means(np.asfortranarray(g), offset, full)[2]
    assert got == pytest.approx(want[2], rel=1e-12)


def test_digamma_is_that_of_scipy() -> None:
    values = np.concatenate([wide(3000), np.linspace(1e-3, 20, 2000), [8.0, np.nextafter(8, 0), 1.0, 2.0, 1e12]])
    got, _ = one_by_one(values, values)
    # near its zero at 1.4616 only the absolute error can be small
    np.testing.assert_allclose(got, digamma(values), rtol=1e-12, atol=2e-14)
    away = np.abs(values - 1.46163) > 0.05
    np.testing.assert_allclose(got[away], digamma(values)[away], rtol=1e-12)


def test_log_gamma_is_that_of_scipy() -> None:
    values = np.concatenate([wide(3000), np.linspace(1e-3, 20, 2000), [8.0, np.nextafter(8, 0), 1.0, 2.0, 1e12]])
    _, got = one_by_one(values, values)  # a prior equal to the parameter leaves log Γ alone
    np.testing.assert_allclose(got, gammaln(values), rtol=1e-12, atol=3e-14)
    away = (np.abs(values - 1) > 0.05) & (np.abs(values - 2) > 0.05)
    np.testing.assert_allclose(got[away], gammaln(values)[away], rtol=1e-12)


# --- infer -----------------------------------------------------------------------------------------------------------


def infer_arguments(K: int, seed: int = 5):
    X = Counts(awkward_counts())
    n, m = X.shape
    rng = np.random.default_rng(seed)
    return (
        X.rows,
        random_start(n, m, K, seed)[1],
        rng.gamma(2, 1, K),
        wide(n, K, high=1e3, seed=seed),
        rng.gamma(1, 1, K),
    )


def hierarchy(K: int, seed: int = 5) -> kernels.Hierarchy:
    rng = np.random.default_rng(seed)
    return kernels.Hierarchy(wide(K, low=1e-3, high=1e3, seed=seed), rng.gamma(2, 1) + K, rng.gamma(1, 1))


def costs_of_rows(K: int, seed: int = 5) -> kernels.Hierarchy:
    """As where rates of counts have multipliers."""
    return kernels.Hierarchy(wide(len(awkward_counts()), K, low=1e-3, high=1e3, seed=seed))


@pytest.mark.parametrize("K", TOPICS)
def test_means_of_rates_are_roots(K: int) -> None:
    """Whatever the sizes of parameters, costs and hyper-parameters."""
    g = wide(50, K, seed=K)
    for seed in range(5):
        for shape, rate in ((0.3, 1e-3), (5.0, 1.0), (1e3, 1e-6), (0.1 + K, 1e4)):
            of = kernels.Hierarchy(wide(K, low=1e-6, high=1e6, seed=seed), shape, rate)
            got = kernels.means_of_rates(g, of)
            np.testing.assert_allclose(got, reference.means_of_rates(g, of), rtol=1e-10)


@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("K", TOPICS)
@pytest.mark.parametrize(
    "rates", [None, hierarchy, costs_of_rows], ids=["rates of topics", "a hierarchy", "costs of rows"]
)
def test_infer_equals_its_reference(K: int, steps: int, rates) -> None:
    arguments, of = infer_arguments(K), rates and rates(K)
    got = kernels.infer(*arguments, steps=steps, tolerance=0.0, hierarchy=of)
    want = reference.infer(*arguments, steps=steps, tolerance=0.0, hierarchy=of)
    np.testing.assert_allclose(
        got / want.sum(axis=1, keepdims=True), want / want.sum(axis=1, keepdims=True), atol=1e-10
    )
    np.testing.assert_allclose(got, want, rtol=1e-7)


@pytest.mark.parametrize("K", [1, 3, 5, 17])
def test_infer_stops_a_row_where_its_reference_does(K: int) -> None:
    arguments = infer_arguments(K)
    got = kernels.infer(*arguments, steps=1000, tolerance=1e-3)
    want = reference.infer(*arguments, steps=1000, tolerance=1e-3)
    np.testing.assert_allclose(got, want, rtol=1e-7)
    further = kernels.infer(*arguments, steps=1000, tolerance=1e-9)
    assert K == 1 or np.abs(further - got).max() > 1e-4


@pytest.mark.parametrize("prior", [1e-6, 1e-3, 1.0, 1e8])
def test_infer_takes_tiny_and_large_priors(prior: float) -> None:
    rows, fixed, scale, _, _ = infer_arguments(5)
    priors = np.full(5, prior)
    start = priors + awkward_counts().sum(axis=1, keepdims=True) / 5
    got = kernels.infer(rows, fixed, scale, start, priors, steps=3, tolerance=0.0)
    want = reference.infer(rows, fixed, scale, start, priors, steps=3, tolerance=0.0)
    np.testing.assert_allclose(got, want, rtol=1e-8)
    assert (got >= prior).all()


@pytest.mark.parametrize("K", [1, 4, 17])
def test_infer_adds_a_rows_counts_to_the_prior_and_gives_an_empty_row_the_prior(K: int) -> None:
    arguments = infer_arguments(K)
    prior = arguments[-1]
    got = kernels.infer(*arguments, steps=2, tolerance=0.0)
    np.testing.assert_allclose(got.sum(axis=1), prior.sum() + awkward_counts().sum(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(got[[2, 7]], np.tile(prior, (2, 1)))


def test_infer_does_not_mind_the_scale_of_a_feature_nor_the_memory_order() -> None:
    rows, fixed, scale, start, prior = infer_arguments(5)
    options = {"steps": 4, "tolerance": 0.0}
    want = kernels.infer(rows, fixed, scale, start, prior, **options)
    scaled = fixed * 2.0 ** np.arange(-8, 9)[:, None]
    np.testing.assert_allclose(kernels.infer(rows, scaled, scale, start, prior, **options), want, rtol=1e-12)
    ordered = kernels.infer(rows, np.asfortranarray(fixed), scale, np.asfortranarray(start), prior, **options)
    np.testing.assert_array_equal(ordered, want)


# --- both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [1, 3, 10, 20])
def test_any_number_of_threads_gives_the_same_bytes(K: int) -> None:
    X = Counts(random_counts(2000, 60, seed=2))  # more than one block of rows
    fixed, start, prior = random_start(2000, 60, K)[1], wide(2000, K, high=100), np.full(K, 0.3)

    def everything() -> bytes:
        parts = kernels.log_means(start, np.zeros(K), prior)
        inferred = kernels.infer(X.rows, fixed, np.ones(K), start, prior, steps=20, tolerance=1e-4)
        return b"".join(np.asarray(part).tobytes() for part in (*parts, inferred))

    found = []
    for n in (1, 2, 3):
        with use_threads(n):
            found.append(everything())
    assert found[0] == found[1] == found[2]


def test_arrays_that_do_not_fit_are_refused() -> None:
    rows, fixed, scale, start, prior = infer_arguments(3)
    good = {"fixed": fixed, "scale": scale, "start": start, "prior": prior}
    bad = [
        {"fixed": fixed[:-1]},
        {"fixed": fixed[:, :2]},
        {"scale": scale[:2]},
        {"start": start[:-1]},
        {"start": start[:, :2]},
        {"prior": prior[:2]},
    ]
    for change in bad:
        with pytest.raises(ValueError, match=r"\w{4,}"):
            kernels.infer(rows, *(good | change).values(), steps=1, tolerance=0.0)
    with pytest.raises(ValueError, match="broadcast"):
        kernels.log_means(start, np.zeros(2), prior)
    with pytest.raises(ValueError, match="broadcast"):
        kernels.log_means(start, np.zeros(3), np.ones((2, 3)))
