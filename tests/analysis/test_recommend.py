"""Recommendations are the largest expected counts of what a sample does not have; ranking metrics are those of scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import random_counts
from sklearn.metrics import ndcg_score

import unmix as um

X = um.Counts(
    random_counts(30, 20, K=3, seed=1, mean=0.8),
    samples=[f"u{i}" for i in range(30)],
    features=[f"item {j}" for j in range(20)],
)
FIT = um.TopicModel(3, random_state=0).fit(X).result_


@pytest.mark.parametrize("exclude", [True, False])
def test_the_largest_expected_counts_come_first(exclude) -> None:
    table = FIT.recommend(X, n=4, exclude_seen=exclude)
    scores = pd.DataFrame(FIT.proportions @ FIT.topics.T, index=X.samples, columns=X.features)
    if exclude:
        scores = scores.mask(X.csr.toarray() > 0)
    for name, own in table.groupby("sample", sort=False):
        expected = scores.loc[name].nlargest(4)
        np.testing.assert_allclose(own["score"], expected, rtol=1e-10)
        np.testing.assert_allclose(scores.loc[name, own["feature"]], own["score"], rtol=1e-10)
        assert own["rank"].tolist() == list(range(1, len(own) + 1))


def test_new_samples_are_inferred_by_name_and_those_without_counts_get_what_is_popular() -> None:
    new = um.Counts([[3.0, 0, 1], [0, 0, 0]], features=["item 7", "other", "item 2"], samples=["a", "b"])
    table = FIT.recommend(new, n=20)
    assert table.groupby("sample").size().to_dict() == {"a": 18, "b": 20}  # what a has is left out
    assert not {"item 7", "item 2"} & {*table.query("sample == 'a'")["feature"]}
    known = np.zeros((1, 20))
    known[0, [7, 2]] = 3, 1
    P = FIT.transform(um.Counts(known, features=X.features))
    expected = pd.Series((P @ FIT.topics.T)[0], index=X.features)
    own = table.query("sample == 'a'")
    np.testing.assert_allclose(own["score"], expected[own["feature"]], rtol=1e-6)
    popular = pd.Series(FIT.topics @ FIT.shares, index=X.features)
    own = table.query("sample == 'b'")
    np.testing.assert_allclose(own["score"], popular[own["feature"]], rtol=1e-10)


def test_lists_end_where_nothing_is_left_and_do_not_depend_on_blocks(monkeypatch) -> None:
    full = np.ones((2, 20))
    full[1, 4] = 0
    places, _ = um.analysis.top_lists(FIT.proportions[:2], FIT.topics, full, n=3)
    assert places.tolist() == [[-1, -1, -1], [4, -1, -1]]
    assert len(FIT.recommend(um.Counts(full, features=X.features), n=3)) == 1
    whole = um.analysis.top_lists(FIT.proportions, FIT.topics, X, n=5)
    monkeypatch.setitem(um.analysis.top_lists.__globals__, "ENTRIES", 60)
    for one, other in zip(whole, um.analysis.top_lists(FIT.proportions, FIT.topics, X, n=5), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [1, 5, 20])
def test_metrics_are_those_of_scikit_learn(n) -> None:
    known, rest = X.thinned(2, np.random.default_rng(0))
    fit = um.LDA(3, eta=0.1, random_state=0).fit(known).result_  # no two scores are the same
    row = um.analysis.ranking(fit, known, rest, n=n).iloc[0]
    seen, new = known.csr.toarray() > 0, rest.csr.toarray() > 0
    scores = np.where(seen, -1.0, fit.proportions @ fit.topics.T)
    relevant = new & ~seen
    users = relevant.any(axis=1)
    assert row["samples"] == users.sum()
    assert row["ndcg"] == pytest.approx(ndcg_score(relevant[users], scores[users], k=n), rel=1e-6)
    top = np.argsort(-scores, axis=1)[:, :n]
    hits = np.take_along_axis(relevant & ~seen, top, axis=1).sum(axis=1)[users]
    assert row["recall"] == pytest.approx((hits / relevant[users].sum(axis=1)).mean())
    assert row["precision"] == pytest.approx((hits / n).mean())
    assert row["recall_error"] == pytest.approx((hits / relevant[users].sum(axis=1)).std() / np.sqrt(users.sum()))


def test_lists_of_other_libraries_are_measured_too() -> None:
    known, rest = X.thinned(2, np.random.default_rng(0))
    fit = um.TopicModel(3, random_state=0, tol=1e-3).fit(known).result_
    places, _ = um.analysis.top_lists(fit.L, fit.F, known, n=10)
    ours = um.analysis.ranking(fit, known, rest, n=(5, 10))
    pd.testing.assert_frame_equal(um.analysis.ranking(places, known, rest, n=(5, 10)), ours)
    perfect = np.array(
        [
            [*np.flatnonzero((rest.csr.toarray() > 0)[i] & ~(known.csr.toarray() > 0)[i]), *[-1] * 20][:20]
            for i in range(30)
        ]
    )
    best = um.analysis.ranking(perfect, known, rest, n=20).iloc[0]
    assert (best["recall"], best["ndcg"]) == pytest.approx((1, 1))


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="n=0; use a whole number >= 1"):
        FIT.recommend(X, n=0)
    with pytest.raises(ValueError, match="the same samples and features"):
        um.analysis.ranking(FIT, X, np.ones((3, 20)))
    with pytest.raises(ValueError, match="no sample has features in held_out that it does not have in X"):
        um.analysis.ranking(FIT, X, X)
    with pytest.raises(ValueError, match="use 5 features per sample"):
        um.analysis.ranking(np.zeros((30, 2), dtype=int), X, np.ones((30, 20)), n=5)
    with pytest.raises(ValueError, match="recommend takes counts in memory, and these are shards"):
        FIT.recommend(um.Shards.of(X))


def test_topics_recommend_what_a_taste_likes() -> None:
    rng = np.random.default_rng(0)
    F = np.repeat(np.eye(4), 25, axis=0) + 0.02
    counts = um.Counts(sp.csr_array(rng.poisson(30 * rng.dirichlet([0.1] * 4, 300) @ (F / F.sum(axis=0)).T).clip(0, 1)))
    known, rest = counts.thinned(2, rng)
    fit = um.TopicModel(4, random_state=0).fit(known)
    popular = np.tile(np.argsort(-known.csr.sum(axis=0)), (300, 1))
    ours, theirs = (um.analysis.ranking(one, known, rest, n=10).iloc[0] for one in (fit, popular))
    assert ours["recall"] > 3 * theirs["recall"]
