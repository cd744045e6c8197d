"""Differences between topics: the kernel equals its twin, the posterior is right by closed forms, quadrature and sampling, errors
survive what is not Poisson, and what is nothing is not found."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest
import reference
from conftest import awkward_counts, random_counts
from scipy.special import gammaln, psi

import unmix as um
from unmix import kernels
from unmix.analysis.results import Result
from unmix.base.progress import Step, watching
from unmix.base.threads import use_threads
from unmix.counts.counts import Counts
from unmix.kernels import Posteriors
from unmix.models.differences import (
    Design,
    LogFactors,
    against_average,
    against_least,
    against_next,
    against_rest,
    against_topic,
    features_at_once,
    spread_of,
)

LOG2 = np.log(2)
STUDY = import_module("unmix.analysis.differences")  # the function has the same name


def random_weights(n: int, K: int, seed: int = 1, alpha: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.uniform(50, 500, (n, 1)) * rng.dirichlet(np.full(K, alpha), n)


def found_in(W: np.ndarray, X: np.ndarray, c: float = 1.0, labels: np.ndarray | None = None, robust: bool = True):
    """The posteriors of all features, what is believed of them, and their pooled rates."""
    W, counts = np.asarray(W, dtype=float), Counts(np.asarray(X, dtype=float))
    design = Design(W, c, spread_of(W, labels) if robust else None)
    pooled = counts.feature_totals / W.sum()
    found = design.posteriors(counts.sides().right, 0, pooled)
    return found, LogFactors.of(found), pooled


def arguments(n: int, m: int, K: int, spread: str, X: np.ndarray | None = None, c: float = 1.0):
    W = random_weights(n, K)
    counts = Counts(random_counts(n, m, seed=2) if X is None else X)
    labels = (np.arange(n) * 7 % 5).astype(np.int32)
    how = {"none": None, "samples": spread_of(W, None), "groups": spread_of(W, labels)}[spread]
    start = float(np.exp(psi(c)))
    rates = start / np.where(counts.feature_totals > 0, counts.feature_totals / W.sum(), 1.0)
    return (counts.transposed, W, W.sum(axis=0), rates), {"shape": c, "start": start, "spread": how}


def same(one: Posteriors, two: Posteriors, rtol: float) -> None:
    for name in ("modes", "covariances", "thirds", "robust", "pearson"):
        a, b = getattr(one, name), getattr(two, name)
        if a is None or b is None:
            assert a is None
            assert b is None
            continue
        scale = np.abs(b).max(axis=-1, keepdims=True) if b.ndim > 1 else np.abs(b)
        np.testing.assert_allclose(a / scale, b / scale, atol=rtol, rtol=0, err_msg=name)


# ---- the kernel


@pytest.mark.parametrize("spread", ["none", "samples", "groups"])
@pytest.mark.parametrize("K", [2, 3, 4, 5, 8, 11, 16, 20, 70])
def test_the_kernel_equals_its_reference(K: int, spread: str) -> None:
    args, options = arguments(40, 9, K, spread)
    same(kernels.posteriors(*args, **options), reference.posteriors(*args, **options), 1e-8)


@pytest.mark.parametrize("c", [0.05, 0.5, 1.0, 20.0])
def test_the_kernel_equals_its_reference_on_awkward_counts_and_any_prior(c: float) -> None:
    """Features without counts, with one, with a huge one, with parts of one."""
    args, options = arguments(14, 17, 5, "samples", awkward_counts(), c)
    same(kernels.posteriors(*args, **options), reference.posteriors(*args, **options), 1e-6)


@pytest.mark.parametrize("spread", ["none", "samples", "groups"])
@pytest.mark.parametrize("K", [3, 10, 20])
def test_any_number_of_threads_gives_the_same_bytes(K: int, spread: str) -> None:
    args, options = arguments(300, 900, K, spread)
    found = []
    for n in (1, 2, 3):
        with use_threads(n):
            found.append(b"".join(part.tobytes() for part in kernels.posteriors(*args, **options) if part is not None))
    assert found[0] == found[1] == found[2]


def test_counts_of_two_bytes_give_the_same_bytes() -> None:
    (columns, *rest), options = arguments(40, 30, 5, "samples")
    assert columns.data.dtype == np.uint16
    wide = columns._replace(data=columns.data.astype(np.float64))
    narrow, whole = kernels.posteriors(columns, *rest, **options), kernels.posteriors(wide, *rest, **options)
    assert all(np.array_equal(a, b) for a, b in zip(narrow, whole, strict=True))


def test_features_in_blocks_are_those_of_the_whole() -> None:
    W, X = random_weights(40, 4), Counts(random_counts(40, 23))
    design, pooled = Design(W, 1.0, spread_of(W, None)), X.feature_totals / W.sum()
    side = X.sides().right
    whole = design.posteriors(side, 0, pooled)
    parts = [design.posteriors(side, begin, pooled[begin:end]) for begin, end in ((0, 10), (10, 11), (11, 23))]
    for name in Posteriors._fields:
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))


def test_arrays_that_do_not_fit_are_refused() -> None:
    (columns, W, sums, rates), options = arguments(40, 9, 3, "groups")
    with pytest.raises(ValueError, match="prior does not fit"):
        kernels.posteriors(columns, W, sums[:2], rates, **options)
    with pytest.raises(ValueError, match="fewer rows than the matrix has columns"):
        kernels.posteriors(columns, W[:5], sums, rates, **options)
    groups = options["spread"]
    for wrong, message in (
        (groups.labels + 1, "not the number of a group"),
        (groups.labels[1:], "do not fit the weights"),
    ):
        with pytest.raises(ValueError, match=message):
            kernels.posteriors(columns, W, sums, rates, **options | {"spread": groups._replace(labels=wrong)})


@pytest.mark.parametrize("c", [0.3, 1.0, 4.0])
def test_no_eigenvalue_of_the_curvature_is_below_the_pseudocount(c: float) -> None:
    """Topics that are alike, topics that nobody has, fewer samples than topics: the prior holds."""
    W = random_weights(4, 6)
    W[:, 1] = W[:, 0]
    W[:, 3] = 0
    found, beliefs, _ = found_in(W, random_counts(4, 30), c)
    for S in beliefs.covariance:
        assert np.linalg.eigvalsh(S).max() <= (1 + 1e-9) / c
    assert (found.rounds < 60).all()
    assert np.isfinite(beliefs.mean).all()


def test_few_steps_lead_to_the_mode() -> None:
    for K, mean in ((4, 0.3), (8, 4.0), (12, 300.0)):
        rng = np.random.default_rng(K)
        W = random_weights(400, K, seed=K, alpha=0.2)
        X = rng.poisson(W @ (rng.gamma(0.3, 1, (K, 60)) * mean / 100))
        found, _, _ = found_in(W, X)
        assert np.median(found.rounds) <= 12
        assert found.rounds.max() <= 40


def test_the_mode_is_where_the_gradient_is_zero() -> None:
    W, X = random_weights(60, 5), random_counts(60, 20)
    found, _, pooled = found_in(W, X)
    b = np.exp(psi(1.0)) / pooled
    for j, f in enumerate(found.modes):
        p = W * f / (W @ f)[:, None]
        np.testing.assert_allclose((W.sum(axis=0) + b[j]) * f, X[:, j] @ p + 1, rtol=1e-8)


# ---- the posterior


def test_samples_of_one_topic_each_have_the_posterior_of_gammas() -> None:
    """f_k | x ~ Gamma(x_k + 1, N_k + b)"""
    found, beliefs, pooled = found_in([[1000, 0], [0, 3000]], [[4], [0]], robust=False)
    pair, average = against_topic(beliefs, 1), against_average(beliefs, pooled)
    assert np.exp(psi(1)) / pooled[0] == pytest.approx(561.4595, abs=1e-3)
    assert pair.mean[0, 0] / LOG2 == pytest.approx(4.19519, abs=1e-4)
    assert pair.sd[0, 0] / LOG2 == pytest.approx(1.97088, abs=1e-4)
    np.testing.assert_allclose(average.mean[0] / LOG2, [1.52997, -2.66521], atol=1e-4)
    assert np.log2(found.modes[0, 0] / found.modes[0, 1]) == pytest.approx(3.51150, abs=1e-4)


def quadrature(W: np.ndarray, x: np.ndarray, b: float) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Mean and sd of log f_1 − log f_2, and of each log f, from a fine grid over both."""
    grid = np.linspace(-14, 2, 1601)
    one, two = np.meshgrid(grid, grid, indexing="ij")
    log_density = one + two - b * (np.exp(one) + np.exp(two))
    for w, count in zip(W, x, strict=True):
        rate = w[0] * np.exp(one) + w[1] * np.exp(two)
        log_density += count * np.log(rate) - rate - gammaln(count + 1)
    p = np.exp(log_density - log_density.max())
    p /= p.sum()
    mean, square = ((one - two) * p).sum(), ((one - two) ** 2 * p).sum()
    means = np.array([(one * p).sum(), (two * p).sum()])
    sds = np.sqrt(np.array([(one**2 * p).sum(), (two**2 * p).sum()]) - means**2)
    return mean, np.sqrt(square - mean**2), means, sds


def test_two_topics_of_three_samples_are_what_quadrature_says() -> None:
    W, x = np.array([[100.0, 0], [50, 50], [0, 100]]), np.array([12.0, 7, 1])
    found, beliefs, pooled = found_in(W, x[:, None], robust=False)
    np.testing.assert_allclose(found.modes[0], [0.120354, 0.018516], atol=1e-5)
    np.testing.assert_allclose(found.covariances[0], [0.05571, -0.02121, 0.47879], atol=1e-4)
    pair = against_topic(beliefs, 1)
    assert pair.mean[0, 0] / LOG2 == pytest.approx(3.0609, abs=1e-3)
    assert pair.sd[0, 0] / LOG2 == pytest.approx(1.2442, abs=1e-3)
    mean, sd, means, sds = quadrature(W, x, float(np.exp(psi(1)) / pooled[0]))
    assert mean / LOG2 == pytest.approx(3.0343, abs=1e-3)
    assert pair.mean[0, 0] == pytest.approx(mean, rel=0.03)
    assert pair.sd[0, 0] == pytest.approx(sd, rel=0.03)
    np.testing.assert_allclose(beliefs.mean[0], means, atol=0.03)
    np.testing.assert_allclose(beliefs.sd[0], sds, rtol=0.03)


@pytest.mark.parametrize("seed", range(6))
def test_two_overlapping_topics_are_what_quadrature_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    W = random_weights(12, 2, seed, alpha=0.7)
    x = rng.poisson(W @ np.exp(rng.normal(-5, 1, 2)))
    x[0] += 2
    _, beliefs, pooled = found_in(W, x[:, None], robust=False)
    pair = against_topic(beliefs, 1)
    mean, sd, *_ = quadrature(W, x, float(np.exp(psi(1)) / pooled[0]))
    assert pair.mean[0, 0] == pytest.approx(mean, abs=0.08 * sd + 0.02)
    assert pair.sd[0, 0] == pytest.approx(sd, rel=0.12)


def sampled(W: np.ndarray, x: np.ndarray, b: float, chains: int = 200, sweeps: int = 300) -> np.ndarray:
    """Draws of log f by Gibbs: every count is given to a topic, then every rate is a gamma."""
    rng = np.random.default_rng(0)
    f, kept = np.full((chains, W.shape[1]), x.sum() / W.sum()), []
    for sweep in range(sweeps):
        p = W * f[:, None, :]
        z = rng.multinomial(x, p / p.sum(axis=2, keepdims=True)).sum(axis=1)
        f = rng.gamma(1 + z, 1 / (b + W.sum(axis=0)))
        if sweep >= 50:
            kept.append(np.log(f))
    return np.concatenate(kept)


def test_four_topics_are_what_sampling_says() -> None:
    """From 4 to 144 counts of a feature: means within a quarter of an sd and mostly within a tenth, sds within a fifth."""
    off, wide = [], []
    for seed in (0, 1, 2, 5, 7):
        rng = np.random.default_rng(seed)
        W = random_weights(30, 4, seed, alpha=0.4)
        x = rng.poisson(W @ (rng.gamma(0.7, 1, 4) * [0.02, 0.1, 0.4, 2][seed % 4] / W.mean()) + 0.1)
        _, beliefs, pooled = found_in(W, x[:, None], robust=False)
        draws, share = sampled(W, x, float(np.exp(psi(1)) / pooled[0])), W.sum(axis=0)
        rest, pairs = against_rest(beliefs, share), [against_topic(beliefs, other) for other in range(4)]
        average = against_average(beliefs, pooled)
        for k in range(4):
            others = np.delete(np.arange(4), k)
            together = np.log(np.exp(draws[:, others]) @ share[others] / share[others].sum())
            compared = {"average": (average, draws[:, k] - np.log(pooled[0])), "rest": (rest, draws[:, k] - together)}
            compared |= {str(other): (pairs[other], draws[:, k] - draws[:, other]) for other in others}
            for changes, drawn in compared.values():
                off.append((changes.mean[0, k] - drawn.mean()) / drawn.std())
                wide.append(np.log(changes.sd[0, k] / drawn.std()))
    assert np.abs(off).max() < 0.25
    assert np.abs(off).mean() < 0.1
    assert np.abs(wide).max() < 0.2
    assert np.abs(np.mean(wide)) < 0.05


def test_a_topic_that_says_nothing_has_no_change() -> None:
    """The mean of its log rate is that of the prior: the pooled rate's."""
    W = np.array([[200.0, 0], [300, 0], [100, 1e-9]])
    _, beliefs, pooled = found_in(W, random_counts(3, 6))
    change = against_average(beliefs, pooled)
    np.testing.assert_allclose(change.mean[:, 1], 0, atol=1e-6)
    np.testing.assert_allclose(change.sd[:, 1], np.pi / np.sqrt(6), rtol=1e-6)


def test_topics_are_compared_with_whom_they_should_be() -> None:
    W = np.kron(np.eye(3), np.full((4, 1), 1000.0))
    X = np.kron([[90.0], [30.0], [2.0]], np.ones((4, 1)))
    _, beliefs, _ = found_in(W, X, robust=False)
    alive = np.ones(3, dtype=bool)
    assert against_next(beliefs, alive).rival.tolist() == [[1, 0, 0]]
    assert against_least(beliefs, alive).rival.tolist() == [[1, 0, 1]]
    assert against_next(beliefs, np.array([True, False, True])).rival.tolist() == [[2, 0, 0]]
    rest = against_rest(beliefs, W.sum(axis=0))
    expected = beliefs.mean[0, 0] - np.log(np.exp(beliefs.mean[0, 1:]).mean())
    assert rest.mean[0, 0] == pytest.approx(expected, abs=0.01)


def test_the_rest_of_two_topics_is_the_other_one() -> None:
    _, beliefs, _ = found_in(W := random_weights(20, 2), random_counts(20, 8))
    rest, other = against_rest(beliefs, W.sum(axis=0)), against_next(beliefs, np.ones(2, dtype=bool))
    np.testing.assert_allclose(rest.mean, other.mean)
    np.testing.assert_allclose(rest.sd, other.sd)


# ---- errors


def test_robust_errors_of_one_topic_a_sample_are_sums_of_squared_residuals() -> None:
    """S' = [Σ (x_i − s_i f)² + c] / (Σ x + c)², f = (Σ x + c) / (N + b)"""
    rng = np.random.default_rng(3)
    s, c = rng.uniform(50, 200, 12), 1.5
    W = np.zeros((12, 2))
    W[np.arange(12), np.arange(12) % 2] = s
    x = rng.negative_binomial(1, 0.05, 12).astype(float)
    found, _, pooled = found_in(W, x[:, None], c)
    b = np.exp(psi(c)) / pooled[0]
    for k, packed in ((0, 0), (1, 2)):
        own = np.arange(12) % 2 == k
        f = (x[own].sum() + c) / (s[own].sum() + b)
        expected = (((x - s * f)[own] ** 2).sum() + c) / (x[own].sum() + c) ** 2
        assert found.robust[0, packed] == pytest.approx(expected, rel=1e-10)


def test_groups_of_one_sample_each_are_samples() -> None:
    """But for the factor G / (G − 1)."""
    W, X, n = random_weights(25, 3), random_counts(25, 6), 25
    alone, _, _ = found_in(W, X)
    grouped, beliefs, _ = found_in(W, X, labels=np.arange(n, dtype=np.int32))
    S2 = np.array([(S @ S)[np.tril_indices(3)] for S in beliefs.covariance])  # c I stays as it is
    np.testing.assert_allclose(grouped.robust - S2, (alone.robust - S2) * n / (n - 1), rtol=1e-8)


def test_robust_errors_are_never_smaller_than_those_of_poisson_counts() -> None:
    W = random_weights(30, 4)
    X = np.ones((30, 5))  # which scatter less
    for way in (
        lambda b: against_average(b, np.ones(5)),
        lambda b: against_topic(b, 0),
        lambda b: against_rest(b, W.sum(axis=0)),
    ):
        robust, plain = way(found_in(W, X)[1]).sd, way(found_in(W, X, robust=False)[1]).sd
        assert (robust >= plain * (1 - 1e-12))[:, 1:].all()


def null_counts(n: int, m: int, mean: float, seed: int, size: float | None = None) -> np.ndarray:
    """Features that differ in how frequent they are and in nothing else; negative binomial of that size, or Poisson."""
    rng = np.random.default_rng(seed)
    rate = rng.uniform(0.5, 2, (n, 1)) * rng.uniform(0.5, 2, m) * mean
    return rng.poisson(rate if size is None else rate * rng.gamma(size, 1 / size, (n, m)))


def test_overdispersed_counts_need_robust_errors_and_have_them() -> None:
    """|z| > 1.96 for as many of the differences that are none as should be, nearly; with Poisson errors for far more."""
    rng = np.random.default_rng(0)
    beyond = {}
    for errors in ("poisson", "robust"):
        z = []
        for seed in range(3):
            X = null_counts(300, 100, 2.0, seed, size=2.0)
            d = um.differences(rng.dirichlet(np.full(3, 0.5), 300), X, against=1, errors=errors)
            z.append(d.z[:, 1:].ravel())
        beyond[errors] = (np.abs(np.concatenate(z)) > 1.96).mean()
    assert beyond["poisson"] >= 0.11
    assert beyond["robust"] <= 0.08


def test_samples_of_few_donors_need_groups() -> None:
    """Donors differ, cells of a donor are alike; topics go with donors by chance alone."""
    rng = np.random.default_rng(0)
    donors, each, m = 12, 40, 150
    labels = np.repeat(np.arange(donors), each)
    beyond = {"none": [], "donors": []}
    for _ in range(3):
        of_donor = rng.gamma(8, 1 / 8, (donors, m))
        X = rng.poisson(2 * of_donor[labels])
        mix = rng.dirichlet(np.full(2, 1.0), donors)[labels] * 0.8 + 0.2 * rng.dirichlet(np.ones(2), donors * each)
        for name, groups in (("none", None), ("donors", labels)):
            d = um.differences(mix, X, against=1, groups=groups, sizes=np.ones(donors * each))
            beyond[name].append((np.abs(d.z[:, 1]) > 1.96).mean())
    assert np.mean(beyond["none"]) > 0.4
    assert np.mean(beyond["donors"]) < 0.2


# ---- the study


def some_fit(seed: int = 0) -> tuple[um.Fit, Counts]:
    rng = np.random.default_rng(seed)
    F = rng.gamma(0.5, 1, (250, 3))
    X = rng.poisson(200 * rng.dirichlet(np.full(3, 0.4), 120) @ (F / F.sum(axis=0)).T)
    counts = Counts(X, features=[f"word {j}" for j in range(250)], samples=[f"text {i}" for i in range(120)])
    return um.TopicModel(3, random_state=0, tol=1e-3).fit(counts).result_, counts


@pytest.fixture(scope="module")
def fitted() -> tuple[um.Fit, Counts]:
    return some_fit()


ARRAYS = ("lfc", "lfc_raw", "sd", "z", "lfsr")
KINDS = ("next", "least", "rest", "average", 2)


@pytest.mark.parametrize("against", KINDS)
def test_the_order_of_topics_samples_and_features_does_not_matter(against, fitted) -> None:
    fit, X = fitted
    d = um.differences(fit, X, against)
    rng = np.random.default_rng(1)
    topics, samples, features = np.array([2, 0, 1]), rng.permutation(120), rng.permutation(250)
    moved = 1 + int(np.flatnonzero(topics == against - 1)[0]) if isinstance(against, int) else against
    other = um.differences(fit.proportions[samples][:, topics], X.csr.toarray()[samples][:, features], moved)
    for name in ARRAYS:
        there, here = getattr(other, name), getattr(d, name)[features][:, topics]
        tolerance = 1e-7 if name in ("lfc_raw", "sd", "z") else 1e-4  # shrinkage stops within its certificate
        np.testing.assert_allclose(there, here, rtol=tolerance, atol=tolerance, err_msg=name)


def test_the_unit_of_sizes_does_not_matter(fitted) -> None:
    fit, X = fitted
    one, ten = um.differences(fit, X), um.differences(fit, X, sizes=10 * X.sample_totals)
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(ten, name), getattr(one, name), rtol=1e-8, atol=1e-9)


def test_a_sample_in_two_halves_is_the_same_sample() -> None:
    """By Poisson errors; robust ones ask how samples scatter, and halves of one scatter alike."""
    X, W = 2.0 * random_counts(20, 250), np.random.default_rng(0).dirichlet(np.full(3, 0.5), 20)
    one = um.differences(W, X, errors="poisson")
    two = um.differences(np.vstack([W, W]), np.vstack([X / 2, X / 2]), errors="poisson")
    for name in ("lfc_raw", "sd", "z"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-8)


def test_factors_of_the_fit_are_not_looked_at(fitted) -> None:
    fit, X = fitted
    other = replace(fit, F=fit.F[::-1])  # of the same column sums, so that proportions are the same
    np.testing.assert_allclose(um.differences(fit, X).z, um.differences(other, X).z, rtol=1e-9)


def test_any_number_of_jobs_gives_the_same_bytes(fitted) -> None:
    fit, X = fitted
    one, two = (um.differences(fit, X, held_out=0.5, random_state=0, n_jobs=n) for n in (1, 2))
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_features_may_be_others_than_those_of_the_fit(fitted) -> None:
    fit, X = fitted
    some = Counts(X.csr[:, ::2], features=X.features[::2], samples=X.samples)
    small = um.TopicModel(3, random_state=0, tol=1e-3).fit(some).result_
    d = um.differences(small, X)
    assert d.lfc.shape == (250, 3)
    assert um.differences(small, X, held_out=0.5, random_state=0).lfc.shape == (250, 3)
    with pytest.raises(ValueError, match="125 features of the fit are not in X"):
        um.differences(fit, some, held_out=0.5)


def test_real_topics_are_told_apart_and_signs_are_right() -> None:
    rng = np.random.default_rng(2)
    F = rng.gamma(0.5, 1, (400, 3))
    F /= F.sum(axis=0)
    W = rng.dirichlet(np.full(3, 0.3), 400)
    d = um.differences(W, rng.poisson(500 * W @ F.T), against=1)
    truth = np.log2(F / F[:, :1])
    sure = d.lfsr[:, 1:] < 0.05
    assert sure.mean() > 0.4
    assert (np.sign(truth[:, 1:]) != np.sign(d.lfc[:, 1:]))[sure].mean() < 0.02
    inside = np.abs(truth - d.lfc_raw)[:, 1:] < 1.645 * d.sd[:, 1:]
    assert inside.mean() > 0.85


def test_topics_made_of_noise_are_found_different_unless_counts_are_split() -> None:
    """500 samples of 50 features, all alike: with the counts that made the topics most of z is beyond 1.96, with others 5%."""
    naive, honest = [], []
    for seed in range(3):
        X = np.random.default_rng(seed).poisson(1.0, (500, 50))
        fit = um.TopicModel(2, random_state=seed, tol=1e-3).fit(X).result_
        naive.append(um.differences(fit, X, against=1).z[:, 1])
        honest.append(um.differences(fit, X, against=1, held_out=0.5, random_state=seed).z[:, 1])
    assert (np.abs(np.concatenate(naive)) > 1.96).mean() > 0.35
    assert (np.abs(np.concatenate(honest)) > 1.96).mean() < 0.12
    assert np.concatenate(honest).std() < 1.25


def test_rare_features_of_light_topics_are_not_made_certain() -> None:
    """Features used alike by all topics, 3 to 50 counts each, and a topic that has 1% of all counts."""
    rng = np.random.default_rng(0)
    W = np.where(rng.random(1000) < 0.01, 0.0, 1.0)
    W = np.column_stack([W, 1 - W])
    X = rng.poisson(np.repeat([3, 6, 12, 50], 60) / 1000, (1000, 240))
    d = um.differences(W, X, "average", sizes=np.ones(1000))
    assert (d.z[:, 1] > 2).mean() < 0.02
    assert np.abs(np.nanmean(d.lfc_raw[:, 1])) < 0.35
    assert not (d.lfsr < 0.05).any()


def test_a_held_out_test_is_the_same_for_the_same_seed(fitted) -> None:
    fit, X = fitted
    one, two, three = (um.differences(fit, X, held_out=0.3, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.z, two.z)
    assert (one.z != three.z).any()
    assert not one.used_twice
    assert one.counts.sum() == pytest.approx(0.3 * X.total, rel=0.05)


def test_topics_of_the_held_out_test_keep_their_numbers(fitted) -> None:
    fit, X = fitted
    both = um.differences(fit, X, "average"), um.differences(fit, X, "average", held_out=0.5, random_state=0)
    agreement = np.corrcoef(*(np.nan_to_num(d.lfc_raw).T for d in both))[:3, 3:]
    assert (agreement.argmax(axis=1) == [0, 1, 2]).all()


def test_a_topic_that_is_not_found_again_is_said_to_be_another(fitted) -> None:
    fit, X = fitted
    d = um.differences(fit, X, held_out=0.5, random_state=0)
    assert (d.likeness > 0.9).all()
    assert not any("differs (similarity" in text for text in d.advice())
    lost = replace(d, likeness=np.array([1.0, 0.3, 1.0]))
    assert any("topic 2 differs (similarity 0.30" in text for text in lost.advice())
    noise = np.random.default_rng(0).poisson(1.0, (200, 60))
    made_up = um.TopicModel(6, random_state=0, tol=1e-3).fit(noise).result_
    assert um.differences(made_up, noise, held_out=0.5, random_state=0).likeness.min() < 0.8
    assert um.differences(fit, X).likeness is None


def test_an_estimator_is_fitted_again_with_its_own_parameters(fitted) -> None:
    _, X = fitted
    model = um.LDA(3, random_state=0, max_iter=30, tol=0).fit(X)
    before = model.result_
    d = um.differences(model, X, held_out=0.5, random_state=0)
    assert model.result_ is before
    again = um.differences(model.result_, X, held_out=0.5, random_state=0)
    np.testing.assert_allclose(d.z, again.z)


def test_a_table_holds_all_and_the_top_the_surest_of_a_topic(fitted) -> None:
    fit, X = fitted
    d = um.differences(fit, X)
    table = d.table
    assert isinstance(table, pd.DataFrame)
    assert len(table) == 750
    row = table[(table["feature"] == "word 7") & (table["topic"] == 2)].iloc[0]
    assert row["lfc"] == d.lfc[7, 1]
    assert row["against"] == str(d.rival[7, 1] + 1)
    assert row["low"] < row["lfc_raw"] < row["high"]
    top = d.top(2, n=5)
    assert (top["lfsr"] < 0.05).all()
    assert top["lfc"].is_monotonic_decreasing
    assert (top["topic"] == 2).all()
    with pytest.raises(ValueError, match="no topic 4"):
        d.top(4)


def test_an_svalue_is_the_mean_of_what_is_as_sure(fitted) -> None:
    d = um.differences(*fitted)
    for k in range(3):
        j = int(d.lfsr[:, k].argsort()[100])
        surer = d.lfsr[:, k][d.lfsr[:, k] <= d.lfsr[j, k]]
        assert d.svalue[j, k] == pytest.approx(surer.mean(), rel=1e-2)


@pytest.mark.parametrize("against", ["next", "rest", 3])
def test_differences_come_back_from_a_file(against, fitted, tmp_path) -> None:
    d = um.differences(*fitted, against)
    d.save(tmp_path / "d.safetensors")
    back = um.Differences.load(tmp_path / "d.safetensors")
    assert isinstance(back, Result)
    pd.testing.assert_frame_equal(back.table, d.table)
    assert back.advice() == d.advice()
    assert repr(back) == repr(d)


def test_ctrl_c_keeps_the_features_that_are_finished(fitted, monkeypatch) -> None:
    fit, X = fitted
    monkeypatch.setattr(STUDY, "features_at_once", lambda _: 60)
    told = []

    def stop(step: Step) -> None:
        told.append((step.done, step.of))
        if step.done == 2:
            raise KeyboardInterrupt

    with watching(stop):
        d = um.differences(fit, X, verbose=True)
    assert told == [(1, 5), (2, 5)]
    assert d.status == "interrupted"
    assert np.isfinite(d.z[:120]).all()
    assert np.isnan(d.z[120:]).all()
    assert any("130 of 250 features are not finished" in text for text in d.advice())


def test_blocks_keep_memory_bounded_and_results_the_same(fitted, monkeypatch) -> None:
    assert features_at_once(10) == 10_000
    assert features_at_once(5000) == 1
    whole = um.differences(*fitted)
    monkeypatch.setattr(STUDY, "features_at_once", lambda _: 17)
    parts = um.differences(*fitted)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


# ---- what can be wrong with the input


@pytest.mark.parametrize("free", [10**9, 0, 2_000])
def test_shards_have_the_same_bytes_however_few_features_fit_into_memory(free, fitted, monkeypatch) -> None:
    fit, X = fitted
    monkeypatch.setattr("unmix.counts.shards.SHARD", 16)
    monkeypatch.setattr("unmix.counts.shards.TILE", 8)
    shards = um.Shards.of(X)
    assert shards.n_shards > 2
    monkeypatch.setattr("unmix.counts.data.available", lambda: free)
    sizes = np.where(np.arange(len(X)) % 5 == 0, 0.0, X.sample_totals)  # of which some have none
    groups = np.arange(len(X)) % 6
    for options in ({}, {"groups": groups}, {"sizes": sizes, "against": "rest"}, {"sizes": sizes, "groups": groups}):
        one, other = um.differences(fit, X, **options), um.differences(fit, shards, **options)
        for name in ("lfc", "lfc_raw", "sd", "lfsr", "rate", "dispersion", "rival", "counts", "frequency"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    with pytest.raises(ValueError, match=r"differences with held_out takes counts in memory, .* use shards\.sample"):
        um.differences(fit, shards, held_out=0.5)


def test_features_without_counts_and_dead_topics_are_unknown_and_said() -> None:
    rng = np.random.default_rng(0)
    X = random_counts(40, 30)
    X[:, 4] = 0
    W = np.column_stack([rng.dirichlet([1, 1], 40), np.zeros(40)])
    for against in KINDS:
        d = um.differences(W, X, against)
        assert np.isnan(d.lfc[4]).all()
        assert (d.lfsr[4] == 1).all()
        assert np.isnan(d.z[:, 2]).all()
        assert (d.lfsr[:, 2] == 1).all()
        assert not (d.rival[:, :2] == 2).any()
        others = [0] if against == 2 else [0, 1]
        assert np.isfinite(np.delete(d.lfc, 4, axis=0)[:, others]).all()
    said = " ".join(um.differences(W, X).advice())
    assert "1 feature without counts" in said
    assert "topic 3" in said


def test_equal_topics_do_not_differ() -> None:
    half = np.random.default_rng(0).dirichlet([1, 1], 60)
    W = np.column_stack([half[:, 0] / 2, half[:, 0] / 2, half[:, 1]])
    d = um.differences(W, random_counts(60, 40), against=1)
    assert np.abs(d.z[:, 1]).max() < 1e-6


def test_samples_without_size_are_left_out(fitted) -> None:
    fit, X = fitted
    sizes = X.sample_totals.copy()
    sizes[:20] = 0
    d = um.differences(fit, X, sizes=sizes, groups=np.arange(120) % 7)
    rest = um.differences(fit.proportions[20:], X.take(np.arange(20, 120)), groups=np.arange(20, 120) % 7)
    np.testing.assert_allclose(d.z, rest.z, rtol=1e-9)


def test_fractions_are_allowed_and_said_but_not_split(fitted) -> None:
    fit, X = fitted
    halves = X.with_values(X.rows.data / 2)
    d = um.differences(fit, halves)
    assert np.isfinite(d.z).all() == np.isfinite(um.differences(fit, X).z).all()
    assert any("not whole numbers" in text for text in d.advice())
    with pytest.raises(ValueError, match="held_out needs whole numbers"):
        um.differences(fit, halves, held_out=0.5)


def test_presence_and_absence_scatter_less_than_poisson_counts() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((200, 220)) < 0.6).astype(float)
    d = um.differences(rng.dirichlet([1, 1, 1], 200), X)
    assert np.median(d.dispersion) < 0.6
    assert not (d.lfsr < 0.01).any()


def test_overdispersion_is_said_where_errors_do_not_bear_it() -> None:
    X = null_counts(200, 60, 3, 0, size=1.0)
    W = np.random.default_rng(0).dirichlet([1, 1], 200)
    assert any("use errors='robust'" in text for text in um.differences(W, X, errors="poisson").advice())
    assert not any("use errors='robust'" in text for text in um.differences(W, X).advice())


def test_few_changes_are_not_shrunk() -> None:
    W = np.random.default_rng(0).dirichlet([1, 1], 20)
    d = um.differences(W, random_counts(20, 4))
    np.testing.assert_array_equal(d.lfc, d.lfc_raw)
    assert (d.lfsr <= 0.5).all()


WRONG = {
    "against='best'": {"against": "best"},
    "against=4": {"against": 4},
    "against=0": {"against": 0},
    "against=1.5": {"against": 1.5},
    "errors='exact'": {"errors": "exact"},
    "held_out=1.5": {"held_out": 1.5},
    "held_out=0": {"held_out": 0},
    "pseudocount=0": {"pseudocount": 0},
    "pseudocount=-1": {"pseudocount": -1},
    "pseudocount=nan": {"pseudocount": float("nan")},
    "sizes of shape": {"sizes": np.ones(5)},
    "a finite number >= 0": {"sizes": np.full(120, -1.0)},
    "fewer than 2 samples": {"sizes": np.eye(1, 120)[0]},
    "5 values for 120 samples": {"groups": np.arange(5)},
    "all samples are of one group": {"groups": np.ones(120)},
    "no column 'donor'": {"groups": "donor"},
    "1 samples have none": {"groups": [None, *range(119)]},
    "n_jobs=0": {"n_jobs": 0},
    "groups do not apply": {"groups": np.arange(120), "errors": "poisson"},
    "one group; use": {"groups": np.arange(120) >= 60, "sizes": np.arange(120) < 50},
}


@pytest.mark.parametrize("message", WRONG)
@pytest.mark.filterwarnings("ignore:2 groups are too few")
def test_what_makes_no_sense_is_refused_by_name(message: str, fitted) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(">=", ">=")):
        um.differences(*fitted, **WRONG[message])


def test_other_samples_and_other_proportions_are_refused(fitted) -> None:
    fit, X = fitted
    with pytest.raises(ValueError, match="X has 100 samples and the model has 120"):
        um.differences(fit, X.take(np.arange(100)))
    with pytest.raises(ValueError, match=r"sample 1 is 'text 119', the model has 'text 0' there.*reorder"):
        um.differences(fit, X.take(np.arange(119, -1, -1)))
    with pytest.raises(ValueError, match="sums to 3"):
        um.differences(np.ones((120, 3)), X)
    with pytest.raises(ValueError, match="not a table of finite numbers"):
        um.differences(np.full((120, 3), -1.0), X)
    with pytest.raises(ValueError, match="one topic only"):
        um.differences(np.ones((120, 1)), X)
    with pytest.raises(ValueError, match="held_out needs a Fit"):
        um.differences(fit.proportions, X, held_out=0.5)


def test_few_groups_are_warned_of(fitted) -> None:
    with pytest.warns(UserWarning, match="3 groups are too few"):
        d = um.differences(*fitted, groups=np.arange(120) % 3)
    assert any("3 groups are too few" in text for text in d.advice())


def test_groups_may_be_a_column_of_the_metadata(fitted) -> None:
    fit, X = fitted
    donors = np.array(list("abcdef"))[np.arange(120) % 6]
    named = replace(fit, metadata=pd.DataFrame({"donor": donors}))
    one, two = um.differences(named, X, groups="donor"), um.differences(fit, X, groups=donors)
    np.testing.assert_array_equal(one.z, two.z)
    assert one.groups == 6


# --- a topic too small to testify ------------------------------------------------------------------------------------


def cells_and_a_few_others(seed: int = 0, markers: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """1,500 cells of five kinds, and 14 of a sixth, of which all others have a trace; counts and proportions.

    Features 0 to 49 are the markers of the five, ten each; all kinds use the others about alike.
    """
    rng = np.random.default_rng(seed)
    n, few, K, m = 1500, 14, 5, 300
    P = np.zeros((n + few, K + 1))
    P[np.arange(n), rng.integers(K, size=n)] = 0.897
    P[:n, :K] += 0.1 * rng.dirichlet(np.full(K, 0.3), n)
    P[:n, K] = 0.003
    P[n:, K] = 1
    F = np.repeat(rng.gamma(0.5, 1, m)[:, None], K + 1, axis=1)
    for k in range(K if markers else 0):
        F[10 * k : 10 * k + 10] = 0.001
        F[10 * k : 10 * k + 10, k] = np.linspace(0.1, 1, 10)
    return rng.poisson(rng.gamma(4, 150, n + few)[:, None] * (P @ (F / F.sum(axis=0)).T)), P


@pytest.mark.parametrize("against", ["next", "least"])
def test_a_topic_too_small_to_testify_does_not_hide_markers(against: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, P = cells_and_a_few_others()
    assert 0.005 < (X.sum(axis=1) @ P / X.sum())[-1] < 0.015
    own = np.arange(50), np.repeat(np.arange(5), 10)
    d = um.differences(P, X, against=against)
    assert (d.lfsr[own] < 0.05).mean() > 0.9
    assert (d.rival[own] != 5).all()

    def everyone(self: Any, alive: np.ndarray) -> np.ndarray:
        return np.broadcast_to(~np.eye(len(alive), dtype=bool), (len(self.mean), len(alive), len(alive)))

    monkeypatch.setattr("unmix.models.differences.LogFactors.witnesses", everyone)
    before = um.differences(P, X, against=against)
    assert (before.lfsr[own] < 0.05).mean() < 0.6
    assert (before.rival[own] == 5).mean() > 0.9
    if against == "least":
        assert before.lfsr[own].max() > 0.75


@pytest.mark.parametrize("against", ["next", "least"])
def test_where_all_topics_are_alike_a_small_one_makes_nothing_sure(against: Any) -> None:
    X, P = cells_and_a_few_others(1, markers=False)
    assert (um.differences(P, X, against=against).lfsr < 0.05).sum() <= 2


def test_a_small_topic_that_shows_its_counts_is_compared_with() -> None:
    """Of features that the few cells have too, and many of, they are the next."""
    rng = np.random.default_rng(2)
    X, P = cells_and_a_few_others()
    X[-14:, :10] = rng.poisson(20, (14, 10))
    d = um.differences(P, X)
    assert (d.rival[:10, 0] == 5).all()
