"""Sets of topics of samples: the search equals its NumPy twin, finds what enumeration finds, and scores are log evidence."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import reference
from reference import Sets

from unmix import kernels
from unmix.base.threads import use_threads
from unmix.counts.counts import Counts
from unmix.models.assignment import odds_of

CATALOGUE = np.array([[0.6, 0.2, 0.1, 0.05, 0.05], [0.05, 0.05, 0.1, 0.6, 0.2], [0.1, 0.1, 0.5, 0.1, 0.2], [0.2] * 5]).T
FIVE = Counts(np.array([[12.0, 5, 9, 20, 10], [4, 3, 5, 4, 4]]))


def drawn(K: int, m: int, total: int, n: int, seed: int = 0) -> tuple[Counts, np.ndarray]:
    rng = np.random.default_rng(seed)
    F = rng.dirichlet(np.full(m, 0.3), K).T
    few = [rng.choice(K, min(K, rng.integers(1, 4)), replace=False) for _ in range(n)]
    return Counts(np.array([rng.multinomial(total, F[:, S] @ rng.dirichlet(np.ones(len(S)))) for S in few])), F


@pytest.mark.parametrize("volume", [True, False])
@pytest.mark.parametrize("dispersion", [0.0, 1.5])
@pytest.mark.parametrize(("K", "m", "total"), [(1, 5, 20), (3, 6, 40), (7, 20, 60), (9, 24, 3_000), (12, 13, 400)])
def test_the_search_equals_its_reference(K: int, m: int, total: int, dispersion: float, volume: bool) -> None:
    X, F = drawn(K, m, total, 5)
    odds = odds_of(np.random.default_rng(1).uniform(0.01, 0.5, (2, K)))
    how = {"groups": np.array([0, 1, 1, 0, 1], np.int32), "dispersion": dispersion, "volume": volume, "most": 5}
    ours = kernels.assign_topics(X.rows, F, odds, **how)
    twin = reference.assign_topics(X.rows, F, odds, **how)
    np.testing.assert_array_equal(ours.chosen, twin.chosen)
    for name, tolerance in (("exposures", 1e-4), ("probabilities", 1e-6), ("gains", 1e-5), ("numbers", 1e-5)):
        np.testing.assert_allclose(
            getattr(ours, name), getattr(twin, name), rtol=tolerance, atol=tolerance, err_msg=name
        )


def test_given_sets_are_refitted_and_nothing_else() -> None:
    X, F = drawn(6, 12, 300, 4)
    given = np.array([[1, 1, 0, 0, 0, 0], [1] * 6, [0, 0, 0, 0, 1, 0], [0, 1, 1, 1, 0, 0]], np.uint8)
    ours = kernels.assign_topics(X.rows, F, np.zeros((1, 6)), given=given)
    twin = reference.assign_topics(X.rows, F, np.zeros((1, 6)), given=given)
    np.testing.assert_allclose(ours.exposures, twin.exposures, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(ours.chosen, given)


def test_reference_cases_of_prices_and_probabilities() -> None:
    """Maxima by SciPy from 40 starts; probabilities by quadrature over all subsets of at most three."""
    full = kernels.assign_topics(FIVE.rows, CATALOGUE, np.zeros((1, 4)), given=np.ones((2, 4), np.uint8))
    np.testing.assert_allclose(full.exposures[0], [15.256364, 31.568988, 9.174648, 0], atol=5e-7)
    for price, exposures in ((1.0, (15.256364, 31.568988, 9.174648, 0)), (2.5, (18.387833, 37.612167, 0, 0))):
        found = kernels.assign_topics(FIVE.rows, CATALOGUE, np.full((1, 4), price), volume=False, dispersion=1.0)
        np.testing.assert_allclose(found.exposures[0], exposures, atol=5e-7)
        rates = CATALOGUE @ found.exposures[0]
        value = float(FIVE.rows.data[:5] @ np.log(rates) - rates.sum())
        assert value == pytest.approx(84.471099 if price == 1 else 83.241014, abs=5e-7)
    found = kernels.assign_topics(FIVE.rows, CATALOGUE, np.full((1, 4), np.log(2)), dispersion=1.0, most=3)
    np.testing.assert_allclose(
        found.probabilities, [[0.636, 0.957, 0.236, 0.598], [0.202, 0.212, 0.352, 0.899]], atol=0.05
    )


def test_the_p_of_leaving_a_topic_out_is_that_of_the_reference_case() -> None:
    F = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]).T
    found = kernels.assign_topics(Counts([[4, 2, 6]]).rows, F, np.full((1, 2), 0.1), volume=False, dispersion=1.0)
    assert 2 * found.gains[0, 1] == pytest.approx(5.288025, abs=5e-7)


@pytest.mark.parametrize("total", [60, 2_000, 50_000])
def test_no_set_of_all_is_better_than_the_one_that_is_found(total: int) -> None:
    K = 8
    X, F = drawn(K, 30, total, 12, seed=total)
    odds = np.full(K, np.log(3.0))
    found = kernels.assign_topics(X.rows, F, odds[None])
    for i, x in enumerate(X.csr.toarray()):
        every = Sets(x, F, odds, True, 0.0, 30, K)
        sets = [S for size in range(1, K + 1) for S in combinations(range(K), size)]
        best = max(sets, key=lambda S: every.fitted[every.fit(S)][3])
        assert tuple(np.flatnonzero(found.chosen[i])) == best


def test_the_score_is_the_log_evidence_by_quadrature() -> None:
    """Beyond a constant of the counts: the mean likelihood over flat proportions."""
    u = (np.arange(2000) + 0.5) / 2000
    errors = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        F = rng.dirichlet(np.ones(12), 2).T
        x = rng.multinomial(30, F @ rng.dirichlet([1, 1])).astype(float)
        if not (x[:, None] <= 1e9 * F).all():
            continue
        fit = Sets(x, F, np.zeros(2), True, 1.0, 12, 2)
        score = kernels.assign_topics(
            Counts(x[None]).rows, F, np.zeros((1, 2)), given=np.ones((1, 2), np.uint8), dispersion=1.0
        )
        logs = np.log(30 * (np.outer(u, F[:, 0]) + np.outer(1 - u, F[:, 1]))) @ x - 30
        saturated = x[x > 0] @ np.log(x[x > 0]) - 30
        errors.append(score.numbers[0, 2] - (np.log(np.mean(np.exp(logs - logs.max()))) + logs.max() - saturated))
        assert score.numbers[0, 2] == pytest.approx(fit.fitted[fit.fit((0, 1))][3], abs=1e-6)
    assert np.std(errors) < 0.12
    assert np.max(np.abs(errors)) < 0.4


def test_two_topics_that_are_the_same_do_not_count_as_evidence() -> None:
    F = np.column_stack([CATALOGUE[:, 0], CATALOGUE[:, 0] + 1e-13, CATALOGUE[:, 1]])
    found = kernels.assign_topics(Counts([[120, 40, 20, 10, 10]]).rows, F / F.sum(axis=0), np.zeros((1, 3)))
    assert found.chosen[0].sum() == 1
    assert np.isfinite(found.numbers).all()


def test_counts_of_features_without_topics_change_nothing() -> None:
    F = np.vstack([CATALOGUE, np.zeros(4)])
    one, other = (
        kernels.assign_topics(Counts(x).rows, F, np.ones((1, 4)))
        for x in ([[12, 5, 9, 20, 10, 0]], [[12, 5, 9, 20, 10, 33]])
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_count_that_no_topic_of_a_set_explains_forces_another_topic() -> None:
    F = np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]).T
    found = kernels.assign_topics(Counts([[500, 480, 1, 0]]).rows, F, np.full((1, 2), 5.0), dispersion=1.0)
    np.testing.assert_allclose(found.exposures, [[980, 1]], rtol=1e-6)


def test_draws_do_not_depend_on_where_a_sample_stands_or_on_threads() -> None:
    X, F = drawn(6, 40, 500, 400)
    found = kernels.assign_topics(X.rows, F, np.full((1, 6), 1.0))
    tests = kernels.residuals(X.rows, F, found.exposures, found.chosen, 7)
    order = np.random.default_rng(0).permutation(400)
    moved = X.take(order)
    for threads in (1, 3):
        with use_threads(threads):
            again = kernels.residuals(moved.rows, F, found.exposures[order], found.chosen[order], 7)
            np.testing.assert_array_equal(again, tests[order])
    assert (kernels.residuals(X.rows, F, found.exposures, found.chosen, 8) != tests).any()


def test_the_residual_test_is_fair_and_sees_what_is_missing() -> None:
    X, F = drawn(8, 60, 3_000, 600)
    found = kernels.assign_topics(X.rows, F, np.full((1, 8), 1.0))
    p, unexplained, cosine = kernels.residuals(X.rows, F, found.exposures, found.chosen, 0).T
    assert 0.02 < (p <= 0.05).mean() < 0.09
    assert 0.4 < p.mean() < 0.62
    assert unexplained.max() < 0.03
    assert cosine.min() > 0.97
    one, other = F[:, :6], F[:, 6]
    rng = np.random.default_rng(1)
    Y = Counts(np.array([rng.multinomial(3_000, 0.8 * one @ w + 0.2 * other) for w in rng.dirichlet(np.ones(6), 50)]))
    found = kernels.assign_topics(Y.rows, one, np.full((1, 6), 1.0))
    p, unexplained, _ = kernels.residuals(Y.rows, one, found.exposures, found.chosen, 0).T
    assert (p <= 0.01).all()
    assert unexplained.min() > 0.03


@pytest.mark.parametrize("mean", [0.3, 4.0, 9.9, 10.1, 60.0, 5_000.0, 1e7])
def test_drawn_counts_are_poisson(mean: float) -> None:
    """Deviances of draws are as large as those of counts that NumPy draws, whichever way a mean of this size is drawn."""
    y = np.random.default_rng(0).poisson(mean, (400, 40))
    F, found = np.full((40, 1), 1 / 40), y.sum(axis=1, keepdims=True).astype(float)
    tests = kernels.residuals(Counts(y).rows, F, found, np.ones((400, 1), np.uint8), 3)
    assert 0.45 < tests[:, 0].mean() < 0.6
    assert 0.01 < (tests[:, 0] <= 0.05).mean() < 0.1
