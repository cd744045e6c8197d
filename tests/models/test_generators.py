"""Counts drawn from every model of the family have the moments of the model, and exact inference is calibrated on them.

Calibration by simulation (Talts et al.): if parameters are drawn from the prior, counts from the parameters, and draws from the
posterior given the counts, then the rank of any number of the truth among the same number of the draws is uniform. Here the
number is log p(S), and the draws are sweeps of the collapsed sampler, thinned until they are as good as independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import unmix as um
from unmix.models.allocation import Allocation
from unmix.models.beliefs import Gammas, HierarchicalGammas

ALPHA, BETA = np.array([0.6, 0.9, 1.4]), np.array([0.5, 1.1])  # of topics and of proportions
MODELS: dict[str, dict[str, Any]] = {
    "allocation": {"a": 6.0, "b": 1.0, "alpha": ALPHA, "beta": BETA},
    "lda": {"alpha": BETA, "eta": ALPHA, "total": [4, 7, 5]},
    "gamma-poisson": {"shape": BETA, "rate": 0.25, "eta": ALPHA},
}
DRAWS, RUNS = 9, 200


def log_joint(X: Any, S: np.ndarray, model: Allocation) -> float:
    i, j = X.csr.tocoo().coords
    by_sample, by_feature = np.zeros((X.shape[0], 2)), np.zeros((X.shape[1], 2))
    np.add.at(by_sample, i, S)
    np.add.at(by_feature, j, S)
    return model.log_joint(by_feature, by_sample, float(gammaln(S + 1.0).sum()))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_sampler_is_calibrated_on_counts_of_the_model(name: str) -> None:
    """Given X, all three have the same posterior of S: that of LDA. A start with other labels or a wrong prior shows."""
    ranks = []
    rng = np.random.default_rng(0)
    for seed in range(RUNS):
        X = um.datasets.simulate(name, n=3, m=3, n_components=2, seed=seed, **MODELS[name])  # type: ignore[arg-type]
        if X.total == 0:
            continue
        options: Any = {"sweeps": 8 * DRAWS, "burn_in": 30, "thin": 8, "chains": 1}
        model = um.AllocationModel(
            2, a=6.0, b=1.0, alpha=ALPHA, beta=BETA, method="gibbs", random_state=seed, **options
        )
        sampled = model.fit(X).samples_
        draws = sampled.loc[sampled["kept"], "log_joint"].to_numpy()[7::8]
        truth = log_joint(X, X.allocation, Allocation(6.0, 1.0, ALPHA, BETA))
        below, same = (draws < truth - 1e-9).sum(), (np.abs(draws - truth) <= 1e-9).sum()
        ranks.append(below + rng.integers(same + 1))  # S that are equally probable are ranked at random
    assert len(draws) == DRAWS
    assert stats.chisquare(np.bincount(ranks, minlength=DRAWS + 1)).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("rate_shape", [None, 1.5])
def test_the_conditionals_of_the_gamma_gamma_model_are_calibrated_on_its_counts(rate_shape: float | None) -> None:
    """Gibbs sampling of S, L and F, by φ and by the beliefs of `Gammas`, which are exact given S and the other factor; with
    `rate_shape` of the rates of rows, too, by their q in `HierarchicalGammas`. Ranked are the log-likelihood, which no scale of a
    topic changes, and the log density of the prior, which it does."""
    a, c, b, d = np.array([0.8, 1.5]), np.array([1.2, 0.9]), np.array([0.7, 1.0]), np.array([0.6, 0.8])
    if rate_shape is not None:
        b, d = b[[0, 0]], d[[0, 0]]  # which are then of all topics
    runs, burn_in, thin = (
        (RUNS, 40, 20) if rate_shape is None else (RUNS // 2, 200, 40)
    )  # with rates of rows, chains are slower
    rng, truth_ranks = np.random.default_rng(0), []

    def draw(shape: np.ndarray, rate: np.ndarray, last: np.ndarray, counts: np.ndarray, cost: np.ndarray) -> np.ndarray:
        prior, added = Gammas(shape, rate), cost
        if rate_shape is not None:
            prior = HierarchicalGammas(shape, rate, np.full(2, rate_shape))
            p, s = prior._of_rates
            added = cost + rng.gamma(p, 1 / (s + last.sum(axis=1)))[:, None]
            belief = prior.belief(shape + counts, added)
        else:
            belief = prior.update(counts, cost)
        return np.maximum(prior.quantile(belief, rng.random(counts.shape)), 1e-150)  # type: ignore[arg-type]

    def log_prior(values: np.ndarray, shape: np.ndarray, rate: np.ndarray) -> float:
        if rate_shape is None:
            return float(stats.gamma.logpdf(values, shape, scale=1 / rate).sum())
        p, s = rate_shape + shape.sum(), rate_shape / rate[0]  # up to a constant, the rates of rows integrated out
        return float(((shape - 1) * np.log(values)).sum() - p * np.log(s + values.sum(axis=1)).sum())

    def measures(X: um.Counts, L: np.ndarray, F: np.ndarray) -> list[float]:
        return [um.loglik(X, L, F), log_prior(L, a, b) + log_prior(F, c, d)]

    hyper: Any = {
        "a": a,
        "b": b[0] if rate_shape else b,
        "c": c,
        "d": d[0] if rate_shape else d,
        "rate_shape": rate_shape,
    }
    for seed in range(runs):
        X = um.datasets.simulate("gamma-gamma", n=3, m=3, n_components=2, seed=seed, **hyper)
        (i, j), x = X.csr.tocoo().coords, X.csr.data.astype(np.int64)
        L, F = rng.gamma(1.0, size=(3, 2)), rng.gamma(1.0, size=(3, 2))
        draws = []
        for sweep in range(1, burn_in + thin * DRAWS + 1):
            S = rng.multinomial(x, X.sides().left.responsibilities(L, F))
            L = draw(a, b, L, np.stack([np.bincount(i, S[:, k], 3) for k in range(2)], axis=1), F.sum(axis=0))
            F = draw(c, d, F, np.stack([np.bincount(j, S[:, k], 3) for k in range(2)], axis=1), L.sum(axis=0))
            if sweep > burn_in and sweep % thin == 0:
                draws.append(measures(X, L, F))
        truth_ranks.append((np.array(draws) < measures(X, *X.truth)).sum(axis=0).tolist())
    for ranks in np.transpose(truth_ranks):
        assert stats.chisquare(np.bincount(ranks, minlength=DRAWS + 1)).pvalue > 1e-3


@pytest.mark.parametrize("name", ["plsa", "lda", "gamma-poisson", "gamma-gamma", "allocation"])
def test_counts_add_up_to_their_topics_and_have_the_rates_of_the_truth(name: Any) -> None:
    X = um.datasets.simulate(name, n=30, m=40, n_components=3, seed=1)
    (L, F), S = X.truth, X.allocation
    assert S is not None
    np.testing.assert_array_equal(S.sum(axis=1), X.csr.data)
    again = um.datasets.simulate(name, n=30, m=40, n_components=3, seed=1)
    np.testing.assert_array_equal(again.csr.toarray(), X.csr.toarray())
    tokens = name in ("plsa", "lda")  # whose number is given, so that they vary less
    rates = (500.0 if tokens else 1.0) * L @ F.T
    draws = [um.datasets.simulate(name, L=L, F=F, seed=seed).csr.toarray() for seed in range(60)]
    seen = rates > 1
    variance = rates * (1 - rates / 500) if tokens else rates
    z = ((np.mean(draws, axis=0) - rates)[seen]) / np.sqrt(variance[seen] / 60)
    assert np.abs(z).max() < 5
    assert z.std() == pytest.approx(1, abs=0.15)


def test_parameters_have_the_moments_of_their_priors() -> None:
    X = um.datasets.simulate("gamma-gamma", n=3000, m=5, n_components=2, a=2.0, b=[0.5, 4.0], c=3.0, d=1.5)
    np.testing.assert_allclose(X.truth.L.mean(axis=0), [4, 0.5], rtol=0.1)
    np.testing.assert_allclose(X.truth.L.var(axis=0), [8, 0.125], rtol=0.2)
    X = um.datasets.simulate("gamma-gamma", n=9000, m=5, n_components=2, a=2.0, b=0.5, rate_shape=5.0)
    np.testing.assert_allclose(
        X.truth.L.mean(axis=0), 2 / 0.5 * 5 / 4, rtol=0.1
    )  # the mean of 1 / rate is 1 / b · 5 / (5 − 1)
    assert np.corrcoef(X.truth.L.T)[0, 1] > 0.2  # topics of a sample share its rate
    X = um.datasets.simulate("allocation", n=2000, m=5, n_components=2, a=4.0, b=0.1, beta=[1.0, 3.0])
    np.testing.assert_allclose(X.truth.L.sum(axis=1).mean(), 40, rtol=0.05)
    np.testing.assert_allclose((X.truth.L / X.truth.L.sum(axis=1, keepdims=True)).mean(axis=0), [0.25, 0.75], atol=0.02)
    X = um.datasets.simulate("gamma-poisson", n=2000, m=5, n_components=2, shape=[1.0, 3.0], rate=0.1)
    np.testing.assert_allclose(X.truth.L.mean(axis=0), [10, 30], rtol=0.1)
    np.testing.assert_allclose(X.truth.F.sum(axis=0), 1)


def test_unknown_models_and_parameters_are_named() -> None:
    wrong: Any = "hdp"
    with pytest.raises(ValueError, match="model='hdp'; choose one of plsa, lda"):
        um.datasets.simulate(wrong)
    with pytest.raises(ValueError, match="'beta' is not a parameter of 'lda'; choose one of alpha, eta, total"):
        um.datasets.simulate("lda", beta=1.0)
