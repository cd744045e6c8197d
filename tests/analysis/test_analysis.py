"""What is computed from a fit: distinctive features by one formula, matched topics, places of samples and topics, advice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts
from test_plot import make_fit

import unmix as um
from unmix.analysis import (
    advice,
    distinctive_features,
    fair_sample,
    lifts,
    log_fold_change,
    match_topics,
    similarity_order,
    top_features,
    topic_distances,
    topic_map,
    topic_names,
    topic_order,
    typical_samples,
)
from unmix.analysis.features import LANDMARKS
from unmix.models.poisson import match_columns, match_to_first


def fit_of(L: Any, F: Any, **about: Any) -> um.Fit:
    return um.Fit(np.array(L, dtype=float), np.array(F, dtype=float), pd.DataFrame(), "converged", 0.0, **about)


def fit_of_counts(counts: Any, **about: Any) -> um.Fit:
    """A fit of one sample, from the expected counts of features (rows) in topics (columns)."""
    counts = np.array(counts, dtype=float)
    return fit_of([counts.sum(axis=0)], counts / counts.sum(axis=0), **about)


# --- distinctive features --------------------------------------------------------------------------------------------

TWO_TOPICS = [[30, 0], [30, 10], [0, 10]]


def test_the_lift_is_the_formula_with_the_smaller_side_as_its_size() -> None:
    # N = 20; N f = 10, 10, 0 in topic 1 and 0, 10, 10 in topic 2
    fit = fit_of_counts(TWO_TOPICS)
    np.testing.assert_allclose(lifts(fit), [[11 / 1, 1 / 11], [11 / 11, 11 / 11], [1 / 11, 11 / 1]])
    np.testing.assert_allclose(lifts(fit, pseudocount=10)[:, 0], [20 / 10, 1, 10 / 20])
    for topic in (1, 2):
        np.testing.assert_allclose(log_fold_change(fit, topic), np.log2(lifts(fit)[:, topic - 1]))


def test_the_next_topic_is_the_one_that_uses_a_feature_most() -> None:
    fit = fit_of_counts([[8, 8, 0], [4, 0, 0], [0, 4, 12]])
    # For topic 1 the next is topic 2 for the first two features and topic 3 for the last; all have 12 counts.
    np.testing.assert_allclose(log_fold_change(fit, 1, "next"), np.log2([9 / 9, 5 / 1, 1 / 13]))
    np.testing.assert_allclose(log_fold_change(fit, 1, "rest"), np.log2([9 / 5, 5 / 1, 1 / 9]))


def test_one_count_in_a_topic_does_not_beat_a_thousand() -> None:
    rare, common, _ = log_fold_change(fit_of_counts([[1, 0], [1000, 5], [4000, 5000]]), 1)
    assert 0 < rare < common


def test_top_features_are_distinctive_not_merely_frequent() -> None:
    F = [[0.5, 0.5], [0.3, 0.0], [0.2, 0.0], [0.0, 0.5]]
    table = fit_of([[10, 0], [0, 10]], F, features=np.array(["the", "ant", "bee", "cat"])).top_features(2)
    assert table["feature"].tolist() == ["ant", "bee", "cat", "the"]
    assert table["topic"].tolist() == [1, 1, 2, 2]
    assert table["rank"].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_top_features_stand_by_the_root_of_their_share_times_log_lift(seed: int) -> None:
    fit = um.TopicModel(4, random_state=seed).fit(random_counts(20, 30, K=4, seed=seed)).result_
    table = fit.top_features(30)
    counts = fit.shares * fit.sizes.sum()
    for k in range(4):
        rows = table[table["topic"] == k + 1]
        others = np.delete(np.arange(4), k)
        f, g = fit.topics[:, k], fit.topics[:, others] @ (counts[others] / counts[others].sum())
        N = min(counts[k], counts[others].sum())
        place = [int(name.split()[1]) - 1 for name in rows["feature"]]
        np.testing.assert_allclose(rows["lift"], ((N * f + 1) / (N * g + 1))[place], rtol=1e-9)
        assert (np.diff(np.sqrt(rows["share"]) * np.log(rows["lift"])) <= 1e-15).all()
        assert set(place) == set(np.flatnonzero((f > 0) & (f >= g * (1 - 1e-9)))), "all that the topic uses more"


def test_features_without_weight_in_a_topic_are_not_in_its_list() -> None:
    counts = np.array([[5, 5, 0, 0, 1], [4, 6, 0, 0, 0], [0, 0, 5, 5, 3], [0, 0, 6, 4, 4]])
    table = um.TopicModel(2, random_state=0).fit(counts).result_.top_features(5)
    assert sorted(map(sorted, table.groupby("topic")["feature"].agg(list))) == [
        ["feature 1", "feature 2"],
        ["feature 3", "feature 4", "feature 5"],
    ]
    assert (table["share"] > 0).all()


def test_an_empty_topic_lists_nothing_and_has_a_name_all_the_same() -> None:
    fit = fit_of([[4, 0], [6, 0]], [[0.5, 0], [0.5, 0]])
    assert top_features(fit)["topic"].tolist() == [1, 1]
    assert topic_names(fit) == ["1: feature 1, feature 2", "2: no features"]


def test_one_topic_alone_lists_its_most_frequent_features() -> None:
    table = top_features(fit_of([[10], [20]], [[0.2], [0.5], [0.0], [0.3]]))
    assert table["feature"].tolist() == ["feature 2", "feature 4", "feature 1"]
    assert table["lift"].tolist() == [1, 1, 1]


def test_topics_without_any_counts_have_a_lift_of_one() -> None:
    F = np.random.default_rng(0).dirichlet(np.full(40, 0.2), 3).T
    np.testing.assert_allclose(lifts(fit_of([[1e9 / 3, 1e-30, 0]], F)), 1)
    np.testing.assert_array_equal(lifts(fit_of([[0, 0, 0]], F)), 1)


def test_no_lift_is_larger_than_the_counts_that_show_it() -> None:
    X = um.datasets.sotu()
    fit = um.TopicModel(8, max_iter=20, tol=0, init="random", prefit=0, random_state=0).fit(X).result_
    table = fit.top_features(20)
    counts = (fit.shares * fit.sizes.sum())[table["topic"] - 1] * table["share"]
    assert (table["lift"] <= counts + 1).all()


def test_names_begin_with_what_top_features_lists() -> None:
    fit = make_fit(n_topics=4)
    for k, rows in top_features(fit, 2).groupby("topic"):
        assert topic_names(fit, 2)[k - 1] == f"{k}: " + ", ".join(rows["feature"])
    assert [len(rows) for rows in distinctive_features(fit, 3)] == [3] * 4


def test_what_a_topic_avoids_is_not_distinctive_of_it() -> None:
    fit = fit_of([[900, 0], [0, 900]], [[0.9, 0.2], [0.1, 0.2], [0, 0.6]])
    assert top_features(fit)[["topic", "feature"]].to_numpy().tolist() == [
        [1, "feature 1"],
        [2, "feature 3"],
        [2, "feature 2"],
    ]
    assert (top_features(make_fit(n_topics=4), 100)["lift"] > 1 - 1e-9).all()
    alike = fit_of([[5, 5]], np.full((3, 2), 1 / 3))
    assert len(top_features(alike)) == 6, "equal topics are named after what is in them"
    assert len(top_features(fit_of([[5]], np.full((3, 1), 1 / 3)))) == 3, "and so is a single one"


def test_a_light_topic_with_many_counts_of_its_own_is_needed() -> None:
    """A signature of 80,000 mutations beside ten of three million is not "almost no weight"."""
    rng = np.random.default_rng(0)
    signatures = rng.dirichlet(np.full(96, 0.3), 8).T
    exposures = rng.gamma(2, 2e4, (60, 8)) * [1, 1, 1, 1, 1, 1, 1, 0.002]
    fit = fit_of(exposures, signatures)
    assert fit.shares[-1] < 0.05 / 8
    assert not any("too large" in text for text in advice(fit))
    noise = replace(fit, L=exposures * [1, 1, 1, 1, 1, 1, 1, 1e-4])
    assert any("topic 8 has" in text and "too large" in text for text in advice(noise))


# --- matching --------------------------------------------------------------------------------------------------------


def test_chains_are_matched_to_the_first() -> None:
    rng = np.random.default_rng(0)
    chains = rng.dirichlet(np.full(12, 0.3), (4, 5)).transpose(0, 2, 1)
    chains[2] = chains[0][:, [3, 1, 4, 0, 2]]
    orders = match_to_first(chains)
    np.testing.assert_array_equal(chains[2][:, orders[2]], chains[0])


def test_a_matching_has_the_smallest_sum_of_squared_distances() -> None:
    one, two = np.random.default_rng(1).gamma(0.5, 1, (2, 7, 3))
    pairs = match_columns(one, two)

    def cost(order: list[int]) -> float:
        return float(((np.sqrt(one) - np.sqrt(two[:, order])) ** 2).sum())

    orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    assert [pairs[k] for k in range(3)] == min(orders, key=cost)


@pytest.mark.parametrize("by", ["samples", "features"])
def test_topics_in_another_order_are_found_again(by: Any) -> None:
    fit, order = make_fit(n=50, n_topics=5), [3, 0, 4, 1, 2]
    other = replace(fit, L=fit.L[:, order], F=fit.F[:, order])
    assert {k: order[match] for k, match in match_topics(fit, other, by).items()} == {k: k for k in range(5)}
    fewer = replace(fit, L=fit.L[:, order[:2]], F=fit.F[:, order[:2]])
    assert match_topics(fewer, fit, by) == {0: 3, 1: 0}


def test_hellinger_distances_by_hand_and_a_map_that_keeps_them() -> None:
    fit = fit_of(np.ones((2, 3)), [[1, 0, 0.5], [0, 1, 0.5]])
    half = np.sqrt(1 - np.sqrt(0.5))
    expected = [[0, 1, half], [1, 0, half], [half, half, 0]]
    np.testing.assert_allclose(topic_distances(fit), expected, atol=1e-12)
    np.testing.assert_allclose(topic_distances(fit, fit), expected, atol=1e-7)
    places = topic_map(topic_distances(fit))
    between = np.linalg.norm(places[:, None] - places[None], axis=-1)
    np.testing.assert_allclose(between, expected, atol=1e-3)
    np.testing.assert_array_equal(topic_map(np.zeros((1, 1))), [[0, 0]])


# --- samples ---------------------------------------------------------------------------------------------------------


def test_a_tiny_sample_is_not_the_most_typical_one() -> None:
    L = [[3, 0], [900, 30], [500, 600], [100, 900], [400, 300]]
    fit = fit_of(L, [[0.5, 0.1], [0.5, 0.9]])
    assert fit.proportions[0, 0] == 1
    assert typical_samples(fit)[0][0] == 1
    assert [len(rows) for rows in typical_samples(fit, 1)] == [1, 1]
    assert all((fit.proportions[rows, k] > fit.shares[k]).all() for k, rows in enumerate(typical_samples(fit)))


def test_like_samples_stand_together_also_beyond_the_landmarks() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.permutation(np.repeat(np.arange(4), LANDMARKS))
    proportions = 0.9 * np.eye(4)[kinds] + 0.1 * rng.dirichlet(np.ones(4), len(kinds))
    order = similarity_order(proportions)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(kinds)))
    assert (np.diff(kinds[order]) != 0).sum() == 3
    steps = np.linalg.norm(np.diff(np.sqrt(proportions[order]), axis=0), axis=1)
    shuffled = np.linalg.norm(np.diff(np.sqrt(proportions), axis=0), axis=1)
    assert steps.mean() < 0.15 * shuffled.mean()


def test_large_data_are_sampled_fairly_and_the_same_each_time() -> None:
    labels, most = np.repeat([0, 1, 2], [9_000, 990, 10]), 2_000
    chosen = fair_sample(labels, most)
    np.testing.assert_array_equal(np.bincount(labels[chosen]), [1800, 198, 2])
    np.testing.assert_array_equal(chosen, fair_sample(labels, most))
    assert 3 in np.append(labels, 3)[fair_sample(np.append(labels, 3), most)], "a rare group is not lost"


# --- topics and advice -----------------------------------------------------------------------------------------------


def test_the_heaviest_topic_comes_first() -> None:
    assert topic_order(fit_of([[1, 5, 3]], np.full((2, 3), 0.5))).tolist() == [1, 2, 0]


def test_advice_says_what_is_odd_and_nothing_where_all_is_well() -> None:
    fit = make_fit()
    assert "the data leave topic" in advice(fit)[0]
    one_of_each = np.eye(fit.n_topics)  # a pure sample and a feature of its own for every topic leave nothing open
    fit = replace(
        fit, L=np.vstack([one_of_each, fit.L[fit.n_topics :]]), F=np.vstack([one_of_each, fit.F[fit.n_topics :]])
    )
    assert advice(fit) == []
    odd = replace(
        fit,
        L=fit.L * [1, 1, 1e-4],
        status="max_iter",
        params={"tol": 1e-8},
        data={"empty_samples": 2, "fractional": 0.25},
        trace=pd.DataFrame({"objective": [-9.0, -5.0, -4.5]}),
    )
    assert odd.advice() == [
        "2 samples without any counts; all topics get the same proportion there",
        "25.0% of the values are not whole numbers; unmix models counts",
        "topic 3 has 0.0017 counts, which the other topics explain about as well: K may be too large",
        "not converged: the last iteration gained 0.5; increase max_iter",
    ]
    by_hand = replace(odd, trace=pd.DataFrame(), data={}, L=fit.L)
    assert by_hand.advice() == [], "a trace without an objective tells of no gains"


@pytest.mark.parametrize("shards", [False, True])
def test_binarised_and_paired_counts_are_noticed_and_others_are_not(shards: bool, tmp_path: Path) -> None:
    """All ones; and reads of ATAC, of which a fragment has two, but for some whose other end was lost."""
    rng = np.random.default_rng(0)
    fragments = rng.poisson(0.7, (40, 300))
    reads = 2 * fragments - rng.binomial((fragments > 0).astype(int), 0.2)
    words = {
        "binary": ((fragments > 0).astype(int), "all counts are 1"),
        "even": (reads, "even counts are more frequent"),
    }
    for pattern, (X, sentence) in (words | {"": (fragments, "")}).items():
        counts = um.Counts(X)
        counts = um.shard(X, tmp_path / f"{pattern}.shards") if shards else counts
        assert counts.facts.get("pattern", "") == pattern
        fit = um.TopicModel(2, random_state=0, max_iter=25, tol=0).fit(counts).result_
        found = [one for one in words.values() if any(one[1] in line for line in fit.advice())]
        assert [one[1] for one in found] == [sentence] * bool(pattern)
    assert um.Counts(np.eye(3)).facts.get("pattern") is None
