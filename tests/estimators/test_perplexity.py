"""Held-out perplexity by document completion: no count helps to predict itself, and the true model does best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import random_counts, random_start
from sklearn.model_selection import GridSearchCV

import unmix as um

X = random_counts(30, 25, K=3, seed=4, mean=8.0)
START = random_start(30, 25, 3)
MODELS = [
    um.PoissonNMF(3, prior=um.Gamma(1.2), random_state=0),
    um.TopicModel(3, prior=um.Dirichlet(1.2), random_state=0),
    um.LDA(3, eta=0.3, random_state=0),
    um.GammaPoisson(3, eta=0.3, random_state=0),
    um.BayesianPoissonNMF(3, random_state=0),
    um.AllocationModel(3, random_state=0, max_iter=50, tol=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_it_is_what_its_description_says(model: Any) -> None:
    model.fit(X)
    hidden = np.random.default_rng(0).binomial(X[X > 0].astype(int), 0.5)
    held = np.zeros_like(X)
    held[X > 0] = hidden
    rates = model.transform(X - held) @ model.components_
    chances = rates / rates.sum(axis=1, keepdims=True)
    overall = model.result_.L.sum(axis=0) @ model.result_.F.T + 0.5
    for smoothing in (0, 1e-3, 0.2):
        smooth = (1 - smoothing) * chances + smoothing * overall / overall.sum()
        want = np.exp(-(held[held > 0] * np.log(smooth[held > 0])).sum() / held.sum())
        assert model.perplexity(X, smoothing=smoothing) == pytest.approx(want, rel=1e-6)


def test_one_topic_knows_only_how_frequent_features_are() -> None:
    model = um.TopicModel(1).fit(X)
    frequency = X.sum(axis=0) / X.sum()
    draws = [model.perplexity(X, random_state=seed) for seed in range(20)]
    assert np.mean(draws) == pytest.approx(np.exp(-(frequency * np.log(frequency)).sum()), rel=0.02)


def test_held_out_counts_do_not_help_to_predict_themselves() -> None:
    """Topics of a single feature each: a held-out feature whose count was not shown at all cannot be foreseen."""
    topics = 0.999 * np.eye(4) + 0.001 / 4
    model = um.LDA(4, eta=0.1, init=(np.ones((4, 4)), topics.T), max_iter=1, tol=0).fit(np.eye(4) * 50)
    once = np.eye(4)[np.repeat(np.arange(4), 50)]  # one count a sample: shown or held out, never both
    assert model.perplexity(once) == pytest.approx(4, rel=0.05)


def test_the_model_of_the_data_predicts_better_than_others() -> None:
    data = um.datasets.correlated_topics("A", seed=1)
    train, test = data.take(np.arange(70)), data.take(np.arange(70, 100))
    values = [um.LDA(K, eta=0.1, alpha=0.5, random_state=0).fit(train).perplexity(test) for K in (1, 6)]
    rates = data.truth.L[70:] @ data.truth.F.T
    x = test.csr.toarray()
    truth = np.exp(-(x * np.log(rates)).sum() / x.sum())
    assert truth < values[1] < 0.8 * values[0]


def test_a_seed_decides_what_is_held_out() -> None:
    model = MODELS[2].fit(X)
    assert model.perplexity(X, random_state=1) == model.perplexity(X, random_state=1)
    assert model.perplexity(X, random_state=1) != model.perplexity(X, random_state=2)


def test_samples_of_which_nothing_is_shown_are_predicted_too() -> None:
    for model in MODELS[:3]:
        assert np.isfinite(model.fit(X).perplexity(np.eye(25)))


@pytest.mark.parametrize("held_out", [0, 1, -0.5, 2, "half"])
def test_a_share_that_is_no_share_is_refused(held_out: Any) -> None:
    with pytest.raises(ValueError, match=f"held_out={held_out!r}; use a probability between 0 and 1"):
        MODELS[2].fit(X).perplexity(X, held_out=held_out)


@pytest.mark.parametrize("smoothing", [1, -0.5, "much"])
def test_smoothing_that_is_no_share_is_refused(smoothing: Any) -> None:
    with pytest.raises(ValueError, match=f"smoothing={smoothing!r}; use a share"):
        MODELS[2].fit(X).perplexity(X, smoothing=smoothing)
    with pytest.raises(ValueError, match=f"smoothing={smoothing!r}; use a share"):
        MODELS[1].fit(X).score(X, smoothing=smoothing)


@pytest.mark.parametrize("kind", [um.PoissonNMF, um.TopicModel])
def test_what_maximum_likelihood_has_never_seen_is_rare_and_not_impossible(kind: Any) -> None:
    model = kind(3, random_state=0).fit(X * (np.arange(25) > 0))  # nothing of feature 0
    assert np.isfinite(model.score(X))
    assert model.score(X, smoothing=0) == -np.inf
    assert np.isfinite(model.perplexity(X))
    assert model.perplexity(X, smoothing=0) == np.inf


@pytest.mark.parametrize(("kind", "seed"), [(um.PoissonNMF, 0), (um.TopicModel, 1), (um.TopicModel, 2)])
def test_a_grid_search_finds_the_number_of_topics_by_score(kind: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    topics, proportions = rng.dirichlet(np.full(60, 0.2), 3), rng.dirichlet(np.full(3, 0.5), 120)
    counts = rng.poisson(100 * proportions @ topics)
    found = GridSearchCV(kind(random_state=0), {"n_components": [1, 2, 3, 4, 6, 10]}, cv=3).fit(counts)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.best_params_ == {"n_components": 3}


def test_fractions_cannot_be_held_out() -> None:
    other = X.copy()
    other[3, 5] = 1.5
    with pytest.raises(
        ValueError, match=r"document completion needs whole numbers: the entry at row 3, column 5 is 1\.5"
    ):
        MODELS[2].fit(X).perplexity(other)
