"""The data sets are what they say, and the simulated ones show what the paper saw in them."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import shared_data
from sklearn.datasets import load_digits

import unmix as um

# --- data sets -------------------------------------------------------------------------------------------------------


def test_sotu_is_the_embedded_collection() -> None:
    X = um.datasets.sotu()
    assert X.shape == (233, 10_065)
    assert X.nnz == 323_413
    assert X.samples is not None
    assert X.features is not None
    assert X.samples[0] == "1790 George Washington"
    assert len(set(X.features.tolist())) == 10_065
    assert "government" in X.features
    assert X.metadata is not None
    assert {"year", "president", "party"} <= set(X.metadata.columns)
    assert (X.metadata["year"].min(), X.metadata["year"].max()) == (1790, 2021)
    parties = set(X.metadata["party"])
    assert {"d", "r", "w", "f", "n", "dr", "nu"} <= parties
    explained = um.datasets.sotu.__doc__ or ""
    assert [party for party in parties if not re.search(rf"\b{party} \w", explained)] == []
    assert X.sample_totals.min() > 0
    assert X.feature_totals.min() > 0
    documents = np.bincount(X.rows.indices)
    assert documents.min() >= 5


def test_sotu_equals_its_source() -> None:
    source = sp.load_npz(shared_data("sotu/counts.npz"))
    X = um.datasets.sotu()
    assert (X.csr != sp.csr_array(source)).nnz == 0


def test_digits_are_those_of_scikit_learn() -> None:
    X = um.datasets.digits()
    assert X.shape == (1797, 64)
    np.testing.assert_array_equal(X.csr.toarray(), load_digits().data)
    assert X.metadata is not None
    np.testing.assert_array_equal(X.metadata["digit"], load_digits().target)


def test_swimmer_has_17_disjoint_parts_and_rank_13() -> None:
    X = um.datasets.swimmer()
    lit = X.csr.toarray()
    assert lit.shape == (256, 1024)
    assert set(np.unique(lit)) == {0, 50}
    np.testing.assert_array_equal((lit > 0).sum(axis=1), 36)
    assert len(np.unique(lit, axis=0)) == 256
    assert np.linalg.matrix_rank(lit) == 13
    parts = X.truth.F > 0
    assert parts.shape == (1024, 17)
    assert parts.sum(axis=1).max() == 1
    assert sorted(parts.sum(axis=0)) == [6] * 16 + [12]
    torso = parts[:, 16].reshape(32, 32)
    assert torso.sum() == 12
    assert torso[10:22, 16].all()


def test_swimmer_is_its_truth_exactly() -> None:
    X = um.datasets.swimmer(counts_per_pixel=3)
    L, F = X.truth
    np.testing.assert_allclose(L.sum(axis=1), 1, rtol=1e-13)
    np.testing.assert_allclose(F.sum(axis=0), 1, rtol=1e-13)
    np.testing.assert_allclose(X.sample_totals[:, None] * (L @ F.T), X.csr.toarray(), rtol=1e-12)
    assert X.csr.max() == 3
    np.testing.assert_array_equal((L > 0).sum(axis=1), 5)


def test_swimmer_refuses_fewer_counts_than_one_a_pixel() -> None:
    with pytest.raises(ValueError, match="counts_per_pixel=0"):
        um.datasets.swimmer(0)


@pytest.mark.parametrize("name", ["A", "B"])
@pytest.mark.parametrize("seed", [0, 5])
def test_correlated_topics_have_their_truth(name: Literal["A", "B"], seed: int) -> None:
    X = um.datasets.correlated_topics(name, seed)
    L, F = X.truth
    n, m = X.shape
    assert n == 100
    assert 360 <= m <= 400
    assert (L.shape, F.shape) == ((100, 6), (m, 6))
    np.testing.assert_allclose(L.sum(axis=1), 1, rtol=1e-12)
    assert (F.sum(axis=0) > 0.99).all()
    assert (F.sum(axis=0) < 1 + 1e-12).all()
    assert X.feature_totals.min() > 0
    expected = X.sample_totals[:, None] * (L @ F.T)
    pearson = ((X.csr.toarray() - expected) ** 2 / expected).mean()
    assert pearson == pytest.approx(1, abs=0.1)


def test_correlated_topics_are_repeatable_and_differ_by_seed() -> None:
    one, two, other = (um.datasets.correlated_topics("A", seed) for seed in (3, 3, 4))
    assert (one.csr != two.csr).nnz == 0
    assert one.shape != other.shape or (one.csr != other.csr).nnz > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_and_b_share_topics_and_sizes(seed: int) -> None:
    A, B = (um.datasets.correlated_topics(name, seed) for name in ("A", "B"))
    np.testing.assert_array_equal(A.sample_totals, B.sample_totals)
    assert A.features is not None
    assert B.features is not None
    shared, in_a, in_b = np.intersect1d(A.features, B.features, return_indices=True)
    assert len(shared) > 350
    np.testing.assert_array_equal(A.truth.F[in_a], B.truth.F[in_b])
    assert not np.allclose(A.truth.L, B.truth.L)


def test_topics_5_and_6_come_together_in_b_only() -> None:
    # log(l5 / l6) is a difference of normals: its variance is 2 · 11 − 2 · covariance, which is −2 or 8
    for name, variance in (("A", 26), ("B", 6)):
        truths = [um.datasets.correlated_topics(name, seed).truth.L for seed in range(20)]
        differences = np.concatenate([np.log(L[:, 4] / L[:, 5]) for L in truths])
        assert np.var(differences) == pytest.approx(variance, rel=0.1)
        others = np.concatenate([np.log(L[:, 0] / L[:, 1]) for L in truths])
        assert np.var(others) == pytest.approx(26, rel=0.1)


def test_document_lengths_are_log_normal_around_a_thousand() -> None:
    totals = np.concatenate([um.datasets.correlated_topics("A", seed).sample_totals for seed in range(10)])
    assert np.mean(np.log10(totals)) == pytest.approx(3, abs=0.02)
    assert np.std(np.log10(totals)) == pytest.approx(0.2, abs=0.02)


def test_an_unknown_simulation_is_refused() -> None:
    with pytest.raises(ValueError, match="name='C'; choose one of A, B"):
        um.datasets.correlated_topics("C")  # type: ignore[arg-type]


# --- coordinate descent against EM -----------------------------------------------------------------------------------


def fit_from(X: Any, start: tuple[np.ndarray, np.ndarray], solver: str, extrapolate: bool, iterations: int) -> um.Fit:
    model = um.PoissonNMF(
        start[0].shape[1],
        solver=solver,
        extrapolate=extrapolate,
        init=start,
        prefit=0,
        tol=0,
        max_iter=iterations,
    )
    return model.fit(X).result_


def test_on_the_papers_own_draw_of_b_coordinate_descent_is_done_long_before_em() -> None:
    with np.load(shared_data("smallsim/B.npz"), allow_pickle=False) as file:
        X, start = file["X"], (file["pre_L"], file["pre_F"])
    scd = fit_from(X, start, "scd", True, 100)
    em = fit_from(X, start, "em", False, 950)
    assert um.loglik(X, scd.L, scd.F, model="multinomial") >= -31_921.8
    assert um.loglik(X, em.L, em.F, model="multinomial") < -33_600


def test_on_the_papers_own_draw_of_b_lda_ends_far_higher_from_coordinate_descent_than_from_em() -> None:
    """Carbonetto et al., figure 1 (B4): α = 1, no smoothing, 400 iterations from each start."""
    with np.load(shared_data("smallsim/B.npz"), allow_pickle=False) as file:
        X, after_50_em = file["X"], (file["pre_L"], file["pre_F"])
    scd = fit_from(X, after_50_em, "scd", False, 950)
    ends = [
        um.LDA(6, alpha=1.0, init=start, max_iter=400, tol=0, extrapolate=False).fit(X).elbo_
        for start in (after_50_em, (scd.L, scd.F))
    ]
    assert ends[1] >= ends[0] + 1000


@pytest.mark.parametrize("name", ["A", "B"])
def test_on_fresh_draws_coordinate_descent_ends_no_lower_than_em(name: Literal["A", "B"]) -> None:
    as_good = 0
    for seed in range(10):
        X = um.datasets.correlated_topics(name, seed)
        warm = um.PoissonNMF(
            6, solver="em", extrapolate=False, init="random", prefit=0, tol=0, max_iter=20, random_state=seed
        ).fit(X)
        start = (warm.result_.L, warm.result_.F)
        scd = fit_from(X, start, "scd", True, 100)
        em = fit_from(X, start, "em", False, 100)
        as_good += scd.loglik >= em.loglik - 0.1
    assert as_good >= 9


def test_a_default_fit_finds_the_topics_behind_the_data() -> None:
    X = um.datasets.correlated_topics("A", seed=0)
    fit = um.TopicModel(6, random_state=0).fit(X).result_
    truth = um.topics_to_poisson(*X.truth, X.sample_totals)
    assert fit.loglik > um.loglik(X, *truth)
    similarity = np.corrcoef(fit.proportions.T, X.truth.L.T)[:6, 6:]
    assert (similarity.max(axis=0) > 0.9).all()
