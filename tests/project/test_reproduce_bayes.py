"""The pieces behind EM against variational inference: the simulation, the exact sampler, and the prediction of unseen counts."""

from __future__ import annotations

import numpy as np
import pytest
from reproduce import bayes
from reproduce.common import Job

import unmix as um

pytestmark = pytest.mark.reproduce


def truth_as_fit(data: bayes.Drawn) -> um.Fit:
    return um.PoissonNMF(data.L.shape[1], init=(data.L, data.F), prefit=0, max_iter=1, tol=0).fit(data.X + 1e-9).result_


def test_a_draw_has_the_depth_it_was_asked_for() -> None:
    depths = [bayes.draw(1.2, 200, seed).X.sum(axis=1).mean() for seed in range(20)]
    assert np.mean(depths) == pytest.approx(200, rel=0.05)


def test_intervals_of_the_exact_posterior_hold_the_truth_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over draws from the model, 70% intervals of its posterior hold 70% of the truth; those of half the spread would not."""
    monkeypatch.setattr(bayes, "SWEEPS", 400)
    monkeypatch.setattr(bayes, "BURN_IN", 100)
    held = []
    for seed in range(12):
        data = bayes.draw(1.2, 100, seed, n=12, m=14, topics=2)
        held.append(bayes.exact_coverage(data, bayes.posterior_draws(data, truth_as_fit(data), seed), 0.7))
    for of in ("loadings", "factors"):
        assert np.mean([one[of] for one in held]) == pytest.approx(0.7, abs=0.1)


def test_scales_are_drawn_from_their_density() -> None:
    data = bayes.draw(1.2, 100, 0, n=6, m=9, topics=1)
    rng = np.random.default_rng(0)
    draws = np.array([bayes.new_scales(rng, data, data.L, data.F)[0] for _ in range(1000)])
    z = np.geomspace(1e-2, 1e2, 20_001)
    power = data.shape * (6 - 9)
    log_density = power * np.log(z) - data.rate * (z * data.L.sum() + data.F.sum() / z)  # over log z
    density = np.exp(log_density - log_density.max())
    assert np.log(draws).mean() == pytest.approx((density @ np.log(z)) / density.sum(), abs=0.03)


def test_the_truth_is_at_almost_no_distance_of_itself_and_every_estimate_is_farther() -> None:
    data = bayes.draw(0.3, 300, 1)
    models = bayes.estimates(data)
    truth = bayes.distance(data, um.Fit(data.L, data.F, models["ML"].result_.trace, "converged", 0.0))
    assert 0 <= truth < 0.005
    for model in models.values():
        assert bayes.distance(data, model.result_) > truth


def test_coverage_matches_topics_by_what_they_are() -> None:
    data = bayes.draw(0.3, 300, 1)
    turned = [2, 0, 3, 1]
    ends = {
        "loadings": (data.L[:, turned] - 1e-9, data.L[:, turned] + 1e-9),
        "factors": (data.F * 0 - 1, data.F * 0 - 1),
    }
    assert bayes.coverage(data, ends, data.F[:, turned]) == {"loadings": 1.0, "factors": 0.0}


def test_shown_and_foreseen_counts_add_up_to_the_samples_left_out() -> None:
    X = um.datasets.correlated_topics("A", seed=0)
    known, shown, foreseen = bayes.split(X, seed=0)
    assert (known.shape[0], shown.shape[0]) == (80, 20)
    assert known.total + shown.total + foreseen.total == X.total
    assert foreseen.total / (shown.total + foreseen.total) == pytest.approx(0.5, abs=0.05)


def test_one_topic_predicts_by_overall_frequency() -> None:
    X = um.datasets.correlated_topics("A", seed=0)
    parts = bayes.split(X, seed=0)
    found = bayes.perplexity(um.PoissonNMF(1).fit(parts[0]), *parts)
    frequency = (parts[0].feature_totals + 1) / (parts[0].total + X.shape[1])
    x = parts[2].csr.toarray().sum(axis=0)
    assert found["unseen"] == pytest.approx(np.exp(-(x @ np.log(frequency)) / x.sum()), rel=0.01)
    assert found["seen"] < found["unseen"] * 1.1


def test_a_section_is_made_of_small_data(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bayes, "DEPTHS", (30, 40, 50, 60))
    monkeypatch.setattr(bayes, "NUMBERS", (1, 2))
    monkeypatch.setattr(bayes, "BURN_IN", 5)
    monkeypatch.setattr(bayes, "SWEEPS", 10)
    monkeypatch.setattr(bayes, "data_sets", lambda job: {"small": um.datasets.correlated_topics("A", seed=0)})
    monkeypatch.setattr(bayes, "simulate", lambda job, *_, run=bayes.simulate: run(job, 1, 1))
    section = bayes.main(Job("bayes", folder=tmp_path))
    assert "`small`, perplexity of counts not seen" in section.text
    assert {file.name for file in tmp_path.iterdir()} == {
        f"bayes-{what}.{ending}" for what in ("simulated", "prediction") for ending in ("csv", "png")
    }
