"""Collapsed inference of new samples, in which every count is left out when it is assigned."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

import unmix as um
from unmix.solvers import vi

pytestmark = pytest.mark.filterwarnings("ignore:these samples do not fit")
RNG = np.random.default_rng(0)
TOPICS = RNG.dirichlet(np.full(30, 0.1), 3).T
SHARES = RNG.dirichlet(np.full(3, 0.3), 200)
X = np.array([RNG.multinomial(t, TOPICS @ p) for t, p in zip(RNG.integers(0, 9, 200), SHARES, strict=True)])
MODELS = {
    "LDA": um.LDA(3, alpha="auto", eta=0.1, random_state=0),
    "GammaPoisson": um.GammaPoisson(3, shape=0.3, rate=[0.5, 1.0, 2.0], random_state=0),
}


def both(model: um.LDA | um.GammaPoisson, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    fitted = model.fit(X)
    return fitted.set_params(collapsed=False).transform(samples), fitted.set_params(collapsed=True).transform(samples)


@pytest.mark.parametrize("name", MODELS)
def test_a_sample_of_one_count_has_its_exact_posterior(name: str) -> None:
    """With nothing else in the sample, φ ∝ f · prior: the exact posterior, which mean-field does not have."""
    model = MODELS[name]
    once = np.eye(30)[X.any(axis=0)]
    variational, found = both(model, once)
    topics = model.result_.topics[X.any(axis=0)]
    shape = model.result_.posterior["L_prior"]
    rates = model.result_.posterior["L_rate"] if name == "GammaPoisson" else np.ones(3)
    labels = topics * shape / rates
    labels /= labels.sum(axis=1, keepdims=True)
    exact = (shape + labels) / rates
    exact = exact / exact.sum(axis=1, keepdims=True) if name == "LDA" else exact
    assert_allclose(found, exact, rtol=1e-9)
    assert np.abs(variational - exact).max() > 1e-3


def test_short_samples_are_closer_to_their_exact_posterior_than_by_mean_field() -> None:
    """The exact one of four words, over all 81 labellings of each."""
    model = um.LDA(3, alpha="auto", eta=0.1, random_state=0)
    words = RNG.choice(np.flatnonzero(X.any(axis=0)), (40, 4))
    samples = np.array([np.bincount(row, minlength=30) for row in words])
    variational, found = both(model, samples)
    alpha, topics = model.alpha_, model.result_.topics
    exact = []
    for row in words:
        mean, total = np.zeros(3), 0.0
        for labels in product(range(3), repeat=4):
            counts = np.bincount(labels, minlength=3)
            weight = np.prod(topics[row, labels]) * np.exp((gammaln(alpha + counts) - gammaln(alpha)).sum())
            mean, total = mean + weight * (alpha + counts), total + weight
        exact.append(mean / total / (alpha.sum() + 4))
    errors = [np.abs(one - np.array(exact)).mean() for one in (variational, found)]
    assert errors[1] < errors[0] / 3


def test_blocks_do_not_matter_and_a_loaded_fit_goes_on_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["LDA"].set_params(collapsed=True).fit(X)
    whole = model.transform(X)
    assert_allclose(whole.sum(axis=1), 1)
    assert_allclose(model.result_.transform(X), whole)
    assert model.score(X) == um.LDA.from_fit(model.result_).set_params(collapsed=False).score(X)  # a bound is a bound
    monkeypatch.setattr(vi, "ENTRIES", 60)
    assert_allclose(model.transform(X), whole, atol=1e-5)
    assert_allclose(model.transform(um.Shards.of(um.Counts(X))), whole, atol=1e-5)
