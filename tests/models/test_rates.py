"""Rates with a multiplier, x_ij ~ Poisson(e_gj Σ_k l_ik f_jk): optima known from an independent optimiser, and theorems.

Log-likelihoods have all constants; of estimated effects they are marginal, effects integrated out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import never_rises, random_counts, random_start
from scipy.stats import nbinom, poisson

import unmix as um
from unmix.counts.multipliers import Multipliers, with_multipliers
from unmix.models.problem import Problem
from unmix.models.rates import Rates

pytestmark = pytest.mark.filterwarnings("ignore:effects of batches are estimated from")

D = np.array([[8, 30, 1, 12, 6], [2, 5, 1, 2, 2], [0] * 5, [1, 5, 1, 5, 0], [13, 11, 8, 58, 8], [6, 3, 2, 15, 3]])
UNMEASURED = np.repeat([[1, 1, 1, 1, 0], [1, 1, 1, 0, 1]], 3, axis=0)
E = [
    [14, 2, 0, 0, 4, 12], [19, 8, 8, 4, 13, 55], [2, 1, 0, 1, 3, 10], [4, 4, 5, 4, 5, 33],
    [2, 7, 7, 1, 0, 7], [8, 3, 1, 0, 3, 22], [4, 2, 2, 0, 1, 6], [21, 4, 3, 6, 16, 66],
]  # fmt: skip
G = [
    [23, 44, 31, 21, 23, 22, 33, 64, 17, 22, 43, 30], [25, 30, 22, 20, 30, 11, 41, 70, 20, 17, 49, 38],
    [36, 15, 32, 46, 12, 25, 8, 13, 7, 21, 22, 32], [45, 17, 34, 44, 12, 14, 11, 18, 11, 30, 17, 45],
    [41, 35, 1, 18, 24, 26, 19, 27, 18, 19, 66, 16], [25, 32, 9, 24, 26, 26, 14, 23, 15, 18, 45, 13],
]  # fmt: skip
B = [[4, 0, 2], [1, 3, 5], [7, 1, 1], [2, 2, 2]]

X = random_counts(n=40, m=30, seed=3)
BATCH = np.random.default_rng(0).integers(0, 3, 40).astype(str)
OPPORTUNITIES = np.random.default_rng(1).choice([0.25, 0.5, 1, 2], (3, 30))
BY_SAMPLE = OPPORTUNITIES[BATCH.astype(int)]


def best(X: Any, K: int, starts: int = 1, batch_prior: Any = "auto", **given: Any) -> um.Fit:
    options = {"tol": 1e-12, "max_iter": 500, "init": "random", "batch_prior": batch_prior}
    fits = [um.PoissonNMF(K, random_state=seed, **options).fit(np.array(X), **given).result_ for seed in range(starts)]
    return max(fits, key=lambda fit: fit.trace["objective"].iloc[-1])


def objective(fit: um.Fit) -> float:
    return float(fit.trace["objective"].iloc[-1])


def test_case_a_loadings_of_known_factors() -> None:
    F = [[0.6, 0.1], [0.3, 0.2], [0.1, 0.3], [0, 0.4]]
    e = np.array([[1, 1, 1, 1], [2, 0.5, 1, 0.25]])[[0, 1, 1]]
    counts = [[6, 3, 2, 4], [6, 3, 2, 4], [12, 1, 0, 1]]
    model = um.TopicModel.from_factors(F)
    L = um.PoissonNMF.from_factors(F).transform(counts, opportunities=e)
    expected = [[7.38798, 7.61202], [2.25584, 16.75577], [8.47441, 2.44587]]
    np.testing.assert_allclose(L, expected, atol=1e-5)
    assert poisson.logpmf(counts, e * (L @ np.transpose(F))).sum() == pytest.approx(-22.269802, abs=1e-5)
    proportions = model.transform(counts, opportunities=e)
    np.testing.assert_allclose(proportions[:, 0], [0.492532, 0.118656, 0.776025], atol=1e-6)
    observed = L * (e @ np.array(F))
    np.testing.assert_allclose(observed[:, 0] / observed.sum(axis=1), [0.492532, 0.218064, 0.877707], atol=1e-6)


def test_cases_b_and_c_one_topic_with_known_and_with_estimated_multipliers() -> None:
    known = best(B, 1, opportunities=np.array([[1, 2, 0.5], [3, 1, 1]])[[0, 0, 1, 1]])
    np.testing.assert_allclose(known.topics.ravel(), [0.309119, 0.135644, 0.555237], atol=1e-6)
    assert known.loglik == objective(known) == pytest.approx(-22.118560, abs=1e-6)
    effects = best(B, 1, batch=list("aabb"), batch_prior=2)
    np.testing.assert_allclose(effects.topics.ravel(), [0.469867, 0.199919, 0.330214], atol=1e-6)
    expected = [[0.754340, 0.980904, 1.264756], [1.245660, 1.019096, 0.735244]]
    np.testing.assert_allclose(effects.multipliers, expected, atol=1e-6)
    assert objective(effects) == pytest.approx(-24.059538, abs=1e-6)


def test_cases_d_and_f_two_topics_with_opportunities_and_with_features_that_were_not_measured() -> None:
    e = np.repeat([[1, 1, 1, 1, 1], [0.5, 2, 1, 3, 0.25]], 3, axis=0)
    assert best(D, 2, 3, opportunities=e).loglik == pytest.approx(-42.961141, abs=1e-5)
    assert best(D * UNMEASURED, 2, 4, opportunities=UNMEASURED).loglik == pytest.approx(-32.224258, abs=1e-5)


def test_case_e_two_topics_with_effects_of_batches() -> None:
    fit = best(E, 2, 4, batch=list("01" * 4), batch_prior=4)
    assert objective(fit) == pytest.approx(-95.776295, abs=1e-5)
    expected = [1.196042, 1.202196, 1.056119, 0.791262, 0.931996, 0.822386]
    np.testing.assert_allclose(fit.multipliers[0], expected, atol=1e-5)


def test_case_g_the_strength_of_effects_is_learned_and_then_corrected() -> None:
    fit = best(G, 1, batch=list("001122"))
    learned = fit.trace[fit.trace["stage"] == "fit"].iloc[-1]
    assert learned["batch_prior"] == pytest.approx(7.37876, abs=1e-4)
    assert learned["objective"] == pytest.approx(-252.173536, abs=1e-6)
    assert fit.batch_prior == pytest.approx(7.37876 * 2 / 3, abs=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", ["em", "scd", "ccd", "sn", "newton"])
def test_the_loss_never_rises_by_any_half_step(solver: str, dtype: Any) -> None:
    for given in ({"opportunities": BY_SAMPLE}, {"batch": BATCH}, {"batch": BATCH, "opportunities": BY_SAMPLE}):
        options = {"extrapolate": False, "tol": 0, "max_iter": 25, "dtype": dtype, "init": random_start(40, 30, 4)}
        fit = um.PoissonNMF(4, solver=solver, batch_prior=2.0, **options).fit(X, **given).result_
        assert never_rises(-fit.trace["objective"], 1e-10 if dtype == "float64" else 1e-7), given
        assert objective(fit) > fit.trace["objective"].iloc[0] + 100


def test_learning_the_strength_never_raises_the_loss_and_the_best_is_kept() -> None:
    options = {"tol": 0, "max_iter": 45, "init": random_start(40, 30, 4)}
    plain = um.PoissonNMF(4, extrapolate=False, **options).fit(X, batch=BATCH).result_
    fast = um.PoissonNMF(4, **options).fit(X, batch=BATCH).result_
    for fit in (plain, fast):
        trace = fit.trace[fit.trace["stage"] != "corrected"]
        assert never_rises(-trace["objective"])
        assert trace["batch_prior"].iloc[-1] != 1


def test_multipliers_of_one_are_no_multipliers_at_all() -> None:
    model = um.TopicModel(3, tol=0, max_iter=12, random_state=0)
    plain, ones = (model.fit(X, **given).result_ for given in ({}, {"opportunities": np.ones(X.shape)}))
    np.testing.assert_array_equal(plain.L, ones.L)
    np.testing.assert_array_equal(plain.F, ones.F)
    inf = um.TopicModel(3, tol=0, max_iter=12, random_state=0, batch_prior=np.inf).fit(X, batch=BATCH).result_
    np.testing.assert_array_equal(plain.F, inf.F)


def test_means_of_effects_are_one_at_convergence() -> None:
    fit = um.TopicModel(3, batch_prior=3, tol=1e-11, max_iter=2000, random_state=0).fit(X, batch=BATCH).result_
    effects = fit.multipliers
    assert effects.std() > 0.05
    np.testing.assert_allclose(effects.mean(axis=0), 1, atol=1e-9)
    np.testing.assert_allclose(effects.mean(axis=1), 1, atol=1e-9)


def test_scales_of_multipliers_are_scales_of_factors_bit_for_bit() -> None:
    L0, F0 = random_start(40, 30, 4)
    groups = np.where(BATCH == "1", 4.0, 1.0)[:, None]
    features = np.where(np.arange(30) % 3 == 0, 8.0, 1.0)[:, None]
    for solver in ("em", "scd", "newton"):
        options = {"solver": solver, "tol": 0, "max_iter": 25}
        one = um.PoissonNMF(4, init=(L0, F0), **options).fit(X, opportunities=BY_SAMPLE).result_
        given = {"opportunities": BY_SAMPLE * groups * features.T}
        other = um.PoissonNMF(4, init=(L0 / groups, F0 / features), **options).fit(X, **given).result_
        np.testing.assert_array_equal(other.L, one.L / groups)
        np.testing.assert_array_equal(other.F, one.F / features)


def test_opportunities_of_zero_leave_features_out() -> None:
    e = np.ones(X.shape)
    e[:, 20:] = 0
    counts, options = X * (e > 0), {"tol": 1e-10, "max_iter": 500}
    L0, F0 = random_start(40, 30, 3)
    all_ = um.PoissonNMF(3, init=(L0, F0), **options).fit(counts, opportunities=e).result_
    without = um.PoissonNMF(3, init=(L0, F0[:20]), **options).fit(counts[:, :20]).result_
    assert all_.loglik == pytest.approx(without.loglik, abs=1e-4)
    np.testing.assert_array_equal(all_.F[20:], 0)


def test_labels_permuted_and_groups_split_change_nothing() -> None:
    start = random_start(40, 30, 3)
    model = um.PoissonNMF(3, init=start, batch_prior=3, tol=0, max_iter=15)
    one = model.fit(X, batch=BATCH).result_
    names = np.array(["zebra", "ant", "mole"])
    two = model.fit(X, batch=names[BATCH.astype(int)]).result_
    np.testing.assert_allclose(one.F, two.F, rtol=1e-9)
    np.testing.assert_allclose(one.multipliers, two.multipliers[[2, 0, 1]], rtol=1e-9)
    assert two.batch_labels.tolist() == sorted(names)
    counts = um.Counts(X)
    known = with_multipliers(counts, None, BY_SAMPLE)
    given = known.multipliers
    split = Multipliers(
        given.groups + 3 * (np.arange(40) % 2).astype(np.int32), np.array(list("abcdef")), np.tile(given.known, (2, 1))
    )
    L, F = start
    for one_loss in (Problem(known, 3), Problem(counts.with_multipliers(split), 3)):
        assert one_loss.loss(L, F) == pytest.approx(Problem(known, 3).loss(L, F), rel=1e-14)


def test_weights_are_repeats() -> None:
    weights = np.random.default_rng(4).integers(1, 4, 40)
    rows = np.repeat(np.arange(40), weights)
    L0, F0 = random_start(40, 30, 3)
    for batch in (None, BATCH):
        repeated = None if batch is None else batch[rows]
        options = {"tol": 1e-11, "max_iter": 1500, "batch_prior": 3.0}
        weighted = um.PoissonNMF(3, init=(L0 * weights[:, None], F0), **options)
        one = weighted.fit(X, batch=batch, sample_weight=weights).result_
        two = um.PoissonNMF(3, init=(L0[rows], F0), **options).fit(X[rows], batch=repeated).result_
        assert objective(one) == pytest.approx(objective(two), abs=1e-5)
        np.testing.assert_allclose(one.proportions[rows], two.proportions, atol=2e-4)
        np.testing.assert_allclose(one.sizes[rows], two.sizes, rtol=1e-3)


def test_groups_of_one_sample_have_the_likelihood_of_a_negative_binomial() -> None:
    counts = um.Counts(X)
    n, tau = len(X), 2.5
    own = np.arange(n, dtype=np.int32)
    labels = own.astype(str)
    problem = Problem(counts.with_multipliers(Multipliers(own, labels, None, own, labels)), 4, batch_prior=tau)
    L, F = random_start(40, 30, 4)
    rates = L @ F.T
    expected = nbinom.logpmf(X, tau, tau / (tau + rates)).sum()
    assert -problem.loss(L, F) - counts.log_factorials == pytest.approx(expected, rel=1e-12)


def test_the_marginal_likelihood_is_that_of_gamma_effects_integrated_out() -> None:
    """By quadrature over e, for one feature and one batch at a time."""
    counts = with_multipliers(um.Counts(B), list("aabb"))
    L, F = random_start(4, 3, 1)
    problem = Problem(counts, 1, batch_prior=2.0)
    e, w = np.polynomial.laguerre.laggauss(120)
    total, rates = 0.0, L @ F.T
    for group in ([0, 1], [2, 3]):
        for j in range(3):
            inside = np.exp(
                poisson.logpmf(np.array(B)[group, j][:, None], rates[group, j][:, None] * e / 2).sum(axis=0)
            )
            total += np.log(w @ (inside * e))  # Gamma(2, 2) at e / 2: e exp(-e)
    assert -problem.loss(L, F) - counts.log_factorials == pytest.approx(total, rel=1e-9)


def test_expected_counts_of_samples_and_features_are_those_observed() -> None:
    fit = um.TopicModel(3, tol=1e-10, max_iter=1000, random_state=0).fit(X, opportunities=BY_SAMPLE).result_
    np.testing.assert_allclose(fit.exposures.sum(axis=1), X.sum(axis=1), rtol=1e-4)
    rates = BY_SAMPLE * (fit.L @ fit.F.T)
    np.testing.assert_allclose(rates.sum(axis=0), X.sum(axis=0), rtol=1e-4)
    assert fit.loglik == pytest.approx(poisson.logpmf(X, rates).sum(), abs=1e-4)
    # lemma 1, with the topics of each group
    groups, multipliers = fit.rates["groups"], fit.multipliers
    for g in range(3):
        c = multipliers[g] @ fit.F
        topics = multipliers[g][:, None] * fit.F / c
        shares = fit.L[groups == g] * c
        np.testing.assert_allclose(shares @ topics.T, rates[groups == g], rtol=1e-12)
    np.testing.assert_allclose(fit.shares, fit.exposures.sum(axis=0) / X.sum(), rtol=1e-4)


def test_the_poisson_log_likelihood_has_the_posterior_means_in_place_of_effects() -> None:
    fit = um.PoissonNMF(3, batch_prior=4, random_state=0).fit(X, batch=BATCH, opportunities=BY_SAMPLE).result_
    rates = fit.multipliers[fit.rates["groups"]] * (fit.L @ fit.F.T)
    assert fit.loglik == pytest.approx(poisson.logpmf(X, rates).sum(), abs=1e-3)
    effects = fit.batch_effects
    assert list(effects) == ["feature", "batch", "effect", "log2", "error", "counts", "expected"]
    row = effects[(effects["batch"] == "1") & (effects["feature"] == "feature 4")].iloc[0]
    assert row["counts"] == X[BATCH == "1", 3].sum()
    assert row["expected"] == pytest.approx((BY_SAMPLE * (fit.L @ fit.F.T))[BATCH == "1", 3].sum())
    assert row["effect"] == pytest.approx((row["counts"] + 4) / (row["expected"] + 4))
    assert row["error"] == pytest.approx((row["counts"] + 4) ** -0.5)


@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    fits = [
        um.TopicModel(3, n_jobs=n, tol=0, max_iter=22, random_state=0).fit(X, batch=BATCH).result_ for n in (1, threads)
    ]
    np.testing.assert_array_equal(fits[0].L, fits[1].L)
    np.testing.assert_array_equal(fits[0].F, fits[1].F)


@pytest.mark.parametrize("given", [{"opportunities": BY_SAMPLE}, {"batch": BATCH}])
def test_shards_end_where_memory_ends(given: Any) -> None:
    options = {"tol": 1e-9, "max_iter": 1000, "random_state": 0, "batch_prior": 5.0}
    memory = um.TopicModel(3, **options).fit(X, **given).result_
    shards = um.TopicModel(3, **options).fit(um.Shards.of(um.Counts(X)), **given).result_
    assert objective(shards) == pytest.approx(objective(memory), abs=1e-3)
    assert shards.loglik == pytest.approx(memory.loglik, abs=0.05)
    assert shards.kkt < 0.01
    np.testing.assert_allclose(shards.multipliers, memory.multipliers, atol=1e-3)


def test_a_streamed_fit_of_effects_never_loses() -> None:
    fit = um.TopicModel(3, extrapolate=False, tol=0, max_iter=45, init=random_start(40, 30, 3)).fit(
        um.Shards.of(um.Counts(X)), batch=BATCH
    )
    trace = fit.result_.trace
    for stage in ("fit", "corrected"):
        assert never_rises(-trace["objective"][trace["stage"] == stage])


def test_merging_topics_changes_the_first_term_by_what_is_said() -> None:
    L, F = random_start(40, 30, 4)
    for given in ((None, BY_SAMPLE), (BATCH, None), (BATCH, BY_SAMPLE)):
        rates = Problem(with_multipliers(um.Counts(X), *given), 4, batch_prior=2.0).rates
        assert isinstance(rates, Rates)
        U, merged = rates.sums(L), (F[:, 0] + 2 * F[:, 2]) / 3
        L2, F2 = np.column_stack([L[:, 0] + L[:, 2], L[:, [1, 3]]]), np.column_stack([merged, F[:, [1, 3]]])
        change = rates.merging(U, F, 0, 2, merged, rates.by_batch(rates.expected(U, F)))
        assert change == pytest.approx(rates.first_term(rates.sums(L2), F2) - rates.first_term(U, F), abs=1e-8)
