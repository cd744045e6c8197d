"""Which topic is this count of? φ_ijk, for fits of every model, their own samples and new ones, in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import random_counts
from scipy.special import psi

import unmix as um
from unmix.counts import shards

N, M = 12, 9
X = um.Counts(random_counts(N, M, 3, mean=20), [f"s{i}" for i in range(N)], [f"f{j}" for j in range(M)])
MODELS: dict[str, Any] = {
    "TopicModel": um.TopicModel(3, random_state=0),
    "float32": um.PoissonNMF(3, dtype="float32", random_state=0),
    "LDA": um.LDA(3, eta=0.2, random_state=0),
    "GammaPoisson": um.GammaPoisson(3, random_state=0),
    "BayesianPoissonNMF": um.BayesianPoissonNMF(3, random_state=0),
    "gibbs": um.AllocationModel(3, method="gibbs", sweeps=10, burn_in=5, random_state=0),
}


def by_definition(L: np.ndarray, F: np.ndarray, counts: um.Counts) -> np.ndarray:
    i, j = counts.csr.tocoo().coords
    rates = L[i] * F[j]
    return rates / rates.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", MODELS)
def test_rows_sum_to_one_and_add_up_to_expected_counts(name: str) -> None:
    fit = MODELS[name].fit(X).result_
    phi = fit.responsibilities(X)
    assert phi.shape == (X.nnz, 3)
    np.testing.assert_allclose(phi.sum(axis=1), 1, rtol=1e-12)
    if not fit.priors:
        np.testing.assert_allclose(phi, by_definition(fit.L.astype(float), fit.F.astype(float), X), rtol=1e-12)


def test_those_of_lda_are_the_phi_of_its_bound() -> None:
    """φ ∝ exp(ψ(γ_ik) + ψ(τ_jk) − ψ(Σ_j τ_jk))."""
    fit = um.LDA(3, eta=0.2, random_state=0).fit(X).result_
    gamma, tau = fit.posterior["L"], fit.posterior["F"]
    want = by_definition(np.exp(psi(gamma)), np.exp(psi(tau) - psi(tau.sum(axis=0))), X)
    np.testing.assert_allclose(fit.responsibilities(X), want, rtol=1e-10)


def test_samples_and_features_are_found_by_name() -> None:
    fit = um.TopicModel(3, random_state=0).fit(X).result_
    phi = np.full((N, M, 3), np.nan)
    phi[X.csr.tocoo().coords] = fit.responsibilities(X)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(N)[:5], rng.permutation(M)
    some = X.take(rows, columns)
    np.testing.assert_allclose(fit.responsibilities(some), phi[np.ix_(rows, columns)][some.csr.tocoo().coords])
    with pytest.raises(ValueError, match="feature"):
        fit.responsibilities(X.take(None, columns[:4]))


@pytest.mark.parametrize("name", MODELS)
def test_new_samples_are_inferred_first(name: str) -> None:
    """A sample under another name has the loadings that `transform` finds, so at the optimum its own φ, to within tolerance."""
    fit = MODELS[name].fit(X).result_
    new = um.Counts(X.csr[:4], [f"new {i}" for i in range(4)], X.features)
    phi = fit.responsibilities(new)
    np.testing.assert_allclose(phi.sum(axis=1), 1, rtol=1e-12)
    if not fit.priors:
        np.testing.assert_allclose(phi, by_definition(fit.transform(new), fit.topics, new), rtol=1e-9, atol=1e-12)
    if name != "gibbs":  # whose own φ are averages over labels
        np.testing.assert_allclose(phi, fit.responsibilities(X)[: new.nnz], atol=0.02)


def test_shards_are_answered_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", 5)
    parts = list(um.Shards.of(X).parts())
    fit = um.TopicModel(3, random_state=0).fit(X).result_
    phi = np.concatenate([fit.responsibilities(part) for part in parts])
    assert len(parts) == 3
    np.testing.assert_allclose(phi, fit.responsibilities(X), rtol=1e-12)


def test_texts_are_counted_as_those_of_the_fit() -> None:
    texts = ["red roses red wine", "red wine wine", "white snow", "white snow snow roses"]
    fit = um.TopicModel(2, random_state=0).fit(um.read_texts(texts)).result_
    phi = fit.responsibilities(["wine and snow"])
    assert phi.shape == (2, 2)
    assert phi.max() > 0.9


def test_a_count_that_no_topic_explains_is_divided_evenly() -> None:
    fit = um.TopicModel.from_factors([[1, 0], [0, 1], [0, 0]]).result_
    with pytest.warns(UserWarning, match="no weight"):
        phi = fit.responsibilities([[3, 1, 2]])
    np.testing.assert_allclose(phi, [[1, 0], [0, 1], [0.5, 0.5]])


def test_entropies_are_those_of_the_marginals_of_s() -> None:
    model = um.AllocationModel(3, alpha=0.2, random_state=0, tol=0, max_iter=30).fit(X)
    dense = np.zeros((N, M, 3))
    dense[X.csr.tocoo().coords] = model.allocation_ / X.total
    marginals = {
        "samples": dense.sum(axis=1),
        "features": dense.sum(axis=0),
        "topics": dense.sum(axis=(0, 1)),
        "cells": dense,
    }
    found = um.analysis.entropies(model, X)
    for name, p in marginals.items():
        assert found["entropy"][name] == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), rel=1e-12)


def test_conditional_entropies_are_those_of_the_topic_of_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """H(k | i) is the mean over counts of the entropy of topics in their sample, and so on; in memory or shards."""
    fit = um.TopicModel(3, random_state=0).fit(X).result_
    S = np.zeros((N, M, 3))
    S[X.csr.tocoo().coords] = X.csr.data[:, None] * fit.responsibilities(X)

    def mean_entropy(table: np.ndarray) -> float:
        size = table.sum(axis=-1, keepdims=True)
        p = np.divide(table, size, out=np.zeros_like(table), where=size > 0)
        logs = np.log(p, out=np.zeros_like(p), where=p > 0)
        return float(-(size * p * logs).sum() / X.total)

    want = {
        "samples": mean_entropy(S.sum(axis=1)),
        "features": mean_entropy(S.sum(axis=0)),
        "topics": mean_entropy(S.sum(axis=(0, 1))),
        "cells": mean_entropy(S),
    }
    monkeypatch.setattr(shards, "SHARD", 5)
    for data in (X, um.Shards.of(X)):
        found = um.analysis.entropies(fit, data)["conditional"]
        assert found.to_dict() == pytest.approx(want, rel=1e-9)
    assert 0 < found["cells"] < min(found["samples"], found["features"]) < found["topics"] < np.log(3)


def test_the_best_decomposition_has_lower_entropies_where_its_prior_wants_them_low() -> None:
    """Low for samples and features, as the paper says, beside topics by chance."""
    counts = um.datasets.simulate("lda", n=30, m=40, n_components=3, alpha=0.2)
    model = um.AllocationModel(3, alpha=0.1, random_state=0, tol=0, max_iter=50).fit(counts)
    best = um.analysis.entropies(model, counts)["entropy"]
    rng = np.random.default_rng(0)
    chance = um.PoissonNMF(3, init=(rng.random((30, 3)), rng.random((40, 3))), tol=0, max_iter=1, prefit=0).fit(counts)
    other = um.analysis.entropies(chance, counts)["entropy"]
    assert best["samples"] < other["samples"]
    assert best["features"] < other["features"]
