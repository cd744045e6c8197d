"""Credible intervals that hold: from draws of the exact posterior."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts
from scipy.special import betaincinv, digamma, gammaln, polygamma
from scipy.stats import beta
from sklearn.exceptions import ConvergenceWarning

import unmix as um
from unmix.base.progress import Step, watching
from unmix.cli import main
from unmix.models.beliefs import beta_quantile, most_probable
from unmix.models.poisson import match_columns

FAST = {"sweeps": 60, "burn_in": 20, "random_state": 0}
FULL = {"posterior": "full"}
KINDS = ("local", "full")


def drawn(
    seed: int, shape: float = 0.5, n: int = 40, m: int = 50, K: int = 3, size: int = 120
) -> tuple[np.ndarray, ...]:
    """Counts from the model, with the proportions and topics they came from."""
    rng = np.random.default_rng(seed)
    P, F = rng.dirichlet(np.full(K, shape), n), rng.dirichlet(np.full(m, shape), K).T
    return np.array([rng.multinomial(size, p) for p in P @ F.T]), P, F


def held(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    return float(((low <= truth) & (truth <= high)).mean())


def test_on_data_drawn_from_the_model_they_hold_and_those_of_variational_inference_do_not() -> None:
    shares: dict[str, list[float]] = {name: [] for name in ("proportions", "topics", "VI proportions", "VI topics")}
    for seed in range(4):
        X, P, F = drawn(seed)
        model = um.LDA(3, alpha=0.5, eta=0.5, random_state=0).fit(X)
        order = list(match_columns(F, model.result_.topics).values())
        found = um.intervals(model.result_, X, random_state=0, **FULL)
        shares["proportions"].append(held(found.low[:, order], found.high[:, order], P))
        shares["topics"].append(held(found.topics_low[:, order], found.topics_high[:, order], F))
        for name, of, truth in (("VI proportions", "loadings", P), ("VI topics", "factors", F)):
            low, high = model.credible_intervals(of, 0.9)
            shares[name].append(held(low[:, order], high[:, order], truth))
    mean = {name: np.mean(values) for name, values in shares.items()}
    assert 0.85 < mean["proportions"] < 0.95
    assert 0.85 < mean["topics"] < 0.95
    assert mean["VI proportions"] < 0.8
    assert mean["VI topics"] < 0.8


@pytest.mark.parametrize("model", [um.LDA(3, alpha=0.5, eta=0.5), um.TopicModel(3)], ids=["LDA", "TopicModel"])
def test_local_intervals_hold_the_truth_and_the_fit(model: Any) -> None:
    """An interval around the fit's own proportions, of 90%: 84% of the truth or more, and hardly a proportion outside."""
    truth, fits = [], []
    for seed in range(3):
        X, P, F = drawn(seed)
        fit = model.set_params(random_state=0).fit(X).result_
        order = list(match_columns(F, fit.topics).values())
        found = um.intervals(fit, X, sweeps=150, burn_in=50, random_state=0)
        truth.append(held(found.low[:, order], found.high[:, order], P))
        fits.append(found.outside)
    assert 0.84 < np.mean(truth) < 0.95
    assert np.mean(fits) < 0.06


def test_given_the_topics_of_the_fit_they_are_the_exact_posterior() -> None:
    """Two topics and one sample: the posterior of one proportion, by quadrature."""
    F = np.array([[0.7, 0.1], [0.2, 0.3], [0.1, 0.6]])
    X = np.array([[6, 3, 4], [1, 2, 9]])
    model = um.TopicModel(2, init=(np.ones((2, 2)), F), max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning):
        fit = replace(model.fit(X).result_, F=F)
    found = um.intervals(fit, X, alpha=0.8, eta=0.5, sweeps=20_000, burn_in=50, thin=2, random_state=0)
    p = (np.arange(20_000) + 0.5) / 20_000
    for i, x in enumerate(X):
        density = np.exp(x @ np.log(np.outer(F[:, 0], p) + np.outer(F[:, 1], 1 - p))) * (p * (1 - p)) ** (0.8 - 1)
        density /= density.sum()
        mean = density @ p
        assert found.mean[i, 0] == pytest.approx(mean, abs=0.01)
        assert found.sd[i, 0] == pytest.approx(np.sqrt(density @ (p - mean) ** 2), rel=0.05)


def test_of_speeches_the_fits_proportions_lie_in_their_intervals_and_those_of_the_full_posterior_do_not() -> None:
    X = um.datasets.sotu().take(np.arange(0, 233, 4))
    fit = um.TopicModel(5, tol=1e-4, random_state=0).fit(X).result_
    local, full = (um.intervals(fit, X, posterior=kind, sweeps=40, burn_in=20, random_state=0) for kind in KINDS)
    assert local.outside < 0.1
    assert not any("outside" in text for text in local.advice())
    assert full.outside > 0.3
    assert any("outside their intervals" in text and "posterior='local'" in text for text in full.advice())
    assert np.abs(local.mean - fit.proportions).max() < 0.2


def test_of_known_factors_they_hold_the_true_exposures_and_topics_have_none(tmp_path: Path) -> None:
    """The same as of a fit of these samples with the same topics; X is found by name, and a catalogue table will do."""
    rng = np.random.default_rng(3)
    F, P = rng.dirichlet(np.full(30, 0.3), 4), rng.dirichlet(np.ones(4), 60)
    features = [f"type {j}" for j in range(30)]
    X = um.Counts(rng.poisson(400 * P @ F), samples=[f"tumour {i}" for i in range(60)], features=features)
    table = pd.DataFrame(F.T, index=features, columns=["a", "b", "c", "d"])
    table.to_csv(tmp_path / "known.csv")
    options = {"level": 0.9, "sweeps": 200, "burn_in": 100, "random_state": 0}
    found = um.intervals(tmp_path / "known.csv", X.take(None, rng.permutation(30)), **options)
    assert 0.85 < held(found.low, found.high, P) < 0.96
    assert found.samples is not None
    assert found.samples.tolist() == X.samples.tolist()
    for known in (found.topics_low, found.topics_high, found.at(0.5).topics_high):
        np.testing.assert_allclose(known, F.T, rtol=1e-9)
    assert found.table["name"].tolist() == list("abcd")
    found.save(tmp_path / "intervals.safetensors")
    assert um.Intervals.load(tmp_path / "intervals.safetensors").by_sample["name"].tolist() == list("abcd") * 60
    model = um.PoissonNMF.from_factors(table)
    np.testing.assert_array_equal(um.intervals(model, X, **options).low, found.low)
    with pytest.raises(ValueError, match="posterior='full'; the topics of this fit are known; use 'local'"):
        um.intervals(model, X, posterior="full")
    with pytest.raises(ValueError, match="X has 29 features and the model has 30"):
        um.intervals(model, X.take(None, np.arange(29)))


def test_of_one_topic_they_are_the_closed_form() -> None:
    X = random_counts()
    fit = um.TopicModel(1).fit(X).result_
    found = um.intervals(fit, X, eta=0.7, **FAST, **FULL)
    parameters = 0.7 + X.sum(axis=0)
    exact = beta(parameters, parameters.sum() - parameters)
    np.testing.assert_allclose(found.topics_low[:, 0], exact.ppf(0.05), rtol=1e-6)
    np.testing.assert_allclose(found.topics_high[:, 0], exact.ppf(0.95), rtol=1e-6)
    np.testing.assert_array_equal(found.low, 1)


def exact_posterior(X: np.ndarray, alpha: np.ndarray, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the proportions, by a sum over all labels of all counts."""
    tokens = [(i, j) for i, j in np.argwhere(X) for _ in range(int(X[i, j]))]
    (n, m), K, logs, firsts, seconds = X.shape, len(alpha), [], [], []
    for labels in product(range(K), repeat=len(tokens)):
        by_sample, by_feature = np.zeros((n, K)), np.zeros((m, K))
        for (i, j), k in zip(tokens, labels, strict=True):
            by_sample[i, k] += 1
            by_feature[j, k] += 1
        g = alpha + by_sample
        total = g.sum(axis=1, keepdims=True)
        logs.append(
            gammaln(g).sum() + gammaln(eta + by_feature).sum() - gammaln(m * eta + by_feature.sum(axis=0)).sum()
        )
        firsts.append(g / total)
        seconds.append(g * (g + 1) / (total * (total + 1)))
    weights = np.exp(np.array(logs) - max(logs))
    mean, square = (np.tensordot(weights / weights.sum(), values, 1) for values in (firsts, seconds))
    return mean, np.sqrt(square - mean**2)


def test_mean_and_deviation_are_those_of_the_sum_over_all_labels() -> None:
    X, alpha = np.array([[3, 1, 0], [0, 1, 3]]), np.array([4.0, 0.5])  # unlike, so that topics keep their place
    fit = um.TopicModel(2, random_state=0).fit(X).result_
    mean, sd = exact_posterior(X, alpha, 0.6)
    found = um.intervals(fit, X, alpha=alpha, eta=0.6, sweeps=20_000, thin=1, chains=1, random_state=0, **FULL)
    order = [0, 1] if found.mean[0, 0] > found.mean[0, 1] else [1, 0]  # named as the fit names them
    np.testing.assert_allclose(found.mean[:, order], mean, atol=0.01)
    np.testing.assert_allclose(found.sd[:, order], sd, rtol=0.05)


def test_where_topics_share_no_feature_they_are_those_of_known_labels() -> None:
    rng = np.random.default_rng(0)
    blocks = np.kron(np.eye(2), np.ones(6))
    X = rng.poisson(20 * rng.dirichlet([0.3, 0.3], 15) @ blocks)
    found = um.intervals(um.TopicModel(2, random_state=0).fit(X).result_, X, alpha=1.0, eta=0.001, **FAST, **FULL)
    parameters = 1 + X @ blocks.T
    parameters = parameters if found.topics_mean[0, 0] > found.topics_mean[0, 1] else parameters[:, ::-1]
    exact = beta(parameters, parameters.sum(axis=1, keepdims=True) - parameters)
    np.testing.assert_allclose(found.low, exact.ppf(0.05), atol=0.01)
    np.testing.assert_allclose(found.high, exact.ppf(0.95), atol=0.01)


@pytest.mark.parametrize(("a", "b"), [(0.02, 5.0), (0.3, 800.0), (3.0, 2.0), (400.0, 1e4), (30.0, 0.4)])
def test_a_quantile_of_a_beta_is_found_from_its_mean_and_mean_logarithm(a: float, b: float) -> None:
    mean, logs = np.array([a / (a + b)]), np.array([digamma(a) - digamma(a + b)])
    np.testing.assert_allclose(beta_quantile(mean, logs, 0.05), betaincinv(a, b, 0.05), rtol=1e-6)


def test_priors_that_are_not_given_are_learned() -> None:
    X, _, _ = drawn(1, shape=0.3, n=150, m=80, size=200)
    found = um.intervals(um.TopicModel(3, random_state=0).fit(X).result_, X, **FAST)
    assert found.alpha.mean() == pytest.approx(0.3, rel=0.3)
    assert found.eta[0] == pytest.approx(0.3, rel=0.3)
    assert np.ptp(found.eta) == 0


def test_the_most_probable_prior_is_where_the_slope_is_nought() -> None:
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(30, p) for p in rng.dirichlet([0.2, 0.5, 2], 200)])
    prior = np.ones(3)
    for _ in range(60):
        prior = most_probable(prior, counts)
    total, sums = prior.sum(), counts.sum(axis=1)
    slope = (digamma(prior + counts) - digamma(prior)).sum(axis=0) - (digamma(total + sums) - digamma(total)).sum()
    curvature = len(counts) * polygamma(1, prior)
    assert (np.abs(slope / curvature) < 1e-3 * prior).all()
    assert prior == pytest.approx([0.2, 0.5, 2], rel=0.35)


@pytest.mark.parametrize(
    "model",
    [
        um.LDA(2, alpha=0.4, eta=0.2),
        um.BayesianPoissonNMF(2, a=0.4, c=0.2),
        um.AllocationModel(2, alpha=0.2, beta=1.4, max_iter=5, tol=0),
    ],
)
def test_a_bayesian_fit_gives_its_own_priors(model: Any) -> None:
    X = random_counts(K=2)
    with np.errstate(all="ignore"):
        fit = model.set_params(random_state=0).fit(X).result_
    found = um.intervals(fit, X, **FAST)
    np.testing.assert_allclose(found.alpha, 1.4 if isinstance(model, um.AllocationModel) else 0.4)
    np.testing.assert_allclose(found.eta, 0.2)


def test_more_counts_make_intervals_shorter() -> None:
    X, _, _ = drawn(2)
    widths = []
    for times in (1, 4):
        found = um.intervals(
            um.TopicModel(3, random_state=0).fit(times * X).result_, times * X, alpha=0.5, eta=0.5, **FAST
        )
        widths.append((found.high - found.low).mean())
    assert widths[1] < 0.7 * widths[0]


def test_threads_change_nothing() -> None:
    X, _, _ = drawn(3, n=12, m=15)
    fit = um.TopicModel(3, random_state=0).fit(X).result_
    one, two = (um.intervals(fit, X, chains=3, n_jobs=jobs, **FAST) for jobs in (1, 3))
    np.testing.assert_array_equal(one.low, two.low)
    np.testing.assert_array_equal(one.topics_high, two.topics_high)


def test_topics_have_the_names_that_the_fit_gives_them() -> None:
    X, _, _ = drawn(4)
    fit = um.TopicModel(3, random_state=0).fit(X).result_
    found = um.intervals(fit, X, **FAST)
    assert list(match_columns(fit.topics, found.topics_mean).values()) == [0, 1, 2]
    assert np.abs(found.mean - fit.proportions).mean() < 0.1


def test_another_level_is_the_same_posterior_and_a_file_keeps_it(tmp_path: Path) -> None:
    X, _, _ = drawn(5, n=10, m=12)
    found = um.intervals(um.TopicModel(3, random_state=0).fit(X).result_, X, **FAST)
    half = found.at(0.5)
    assert (half.low >= found.low).all()
    assert (half.high <= found.high).all()
    np.testing.assert_array_equal(half.mean, found.mean)
    found.save(tmp_path / "intervals")
    loaded = um.Intervals.load(tmp_path / "intervals")
    np.testing.assert_array_equal(loaded.at(0.5).topics_low, half.topics_low)
    pd.testing.assert_frame_equal(loaded.table, found.table)
    assert loaded.table.columns.to_list() == ["topic", "proportion", "mean_width", "widest", "features_width"]


def test_ctrl_c_keeps_the_draws_so_far() -> None:
    X = random_counts()
    fit, told = um.TopicModel(2, random_state=0).fit(X).result_, []

    def stop(step: Step) -> None:
        told.append((step.done, step.of))
        if step.done >= 40:
            raise KeyboardInterrupt

    with watching(stop):
        found = um.intervals(fit, X, verbose=True, **FAST)
    assert found.status == "interrupted"
    assert told[-1] == (40, 80)
    assert found.draws == 2 * 4
    assert "interrupted after 8 draws" in found.advice()[0]
    with watching(lambda step: stop(step._replace(done=99))), pytest.raises(KeyboardInterrupt):
        um.intervals(fit, X, verbose=True, **FAST)


def test_chains_that_disagree_are_told() -> None:
    X = random_counts()
    found = um.intervals(um.TopicModel(2, random_state=0).fit(X).result_, X, **FAST)
    assert 1 <= found.rhat < 1.2
    assert "chains have not converged" in replace(found, rhat=1.5).advice()[0]
    alone = um.intervals(um.TopicModel(2, random_state=0).fit(X).result_, X, chains=1, **FAST)
    assert np.isnan(alone.rhat)
    assert alone.advice()[0] == "a single chain does not show whether it has converged; use chains=2 or more"
    assert repr(found).startswith("Intervals(12 samples, 2 topics, 90%")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1}, "level=1"),
        ({"posterior": "near"}, "posterior='near'"),
        ({"sweeps": 0}, "sweeps=0"),
        ({"burn_in": -1}, "burn_in=-1"),
        ({"thin": 70}, "thin=70; use at most 60"),
        ({"chains": 1.5}, "chains=1.5"),
        ({"alpha": -1.0}, "it must be positive"),
        ({"eta": [1.0, 2.0]}, "shape"),
        ({"X": np.ones((3, 3))}, "X has 3 samples and the model has 12"),
        ({"X": random_counts() + 0.5}, "whole"),
    ],
)
def test_bad_input_is_refused_in_words(options: dict[str, Any], message: str) -> None:
    X = random_counts()
    fit = um.TopicModel(2, random_state=0).fit(X).result_
    with pytest.raises(ValueError, match=message):
        um.intervals(fit, options.pop("X", X), **(FAST | options))


def test_the_command_writes_every_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X = pd.DataFrame(random_counts(), index=[f"s{i}" for i in range(12)], columns=[f"f{j}" for j in range(15)])
    fit = um.TopicModel(2, random_state=0).fit(um.Counts(X)).result_
    fit.save(tmp_path / "model.safetensors")
    X[X.columns[::-1]].to_csv(tmp_path / "counts.csv")  # features are found by name
    words = [
        "intervals",
        tmp_path,
        tmp_path / "counts.csv",
        "-o",
        tmp_path / "ends.csv",
        "--sweeps",
        50,
        "--burn-in",
        20,
    ]
    with pytest.raises(SystemExit) as exit:
        main([str(word) for word in words])
    assert exit.value.code == 0
    written = pd.read_csv(tmp_path / "ends.csv")
    found = um.intervals(fit, X, sweeps=50, burn_in=20, random_state=0)
    assert written.columns.to_list() == ["sample", "topic", "mean", "sd", "low", "high"]
    np.testing.assert_allclose(written["low"].to_numpy().reshape(12, 2), found.low, rtol=1e-9)
    assert "mean width" in capsys.readouterr().out
    with pytest.raises(SystemExit) as exit:
        main([*(str(word) for word in words), "--level", "2"])
    assert exit.value.code == 2
    assert "--level 2" in capsys.readouterr().err
