"""What the Structure result measures, on topics whose groups are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from reproduce import structure as result
from reproduce.common import Job, MissingDataError

import unmix as um

pytestmark = pytest.mark.reproduce


@pytest.fixture(scope="module")
def two_groups() -> tuple[um.Counts, pd.Series]:
    """Every sample has words 0 and 1; the first half words 2 and 3 besides, the second half words 4 and 5."""
    rng = np.random.default_rng(0)
    first, second = [2, 3], [4, 5]
    rate = np.zeros((60, 6))
    rate[:, :2] = rng.uniform(5, 60, (60, 1))
    rate[:30, first] = rng.uniform(20, 80, (30, 1))
    rate[30:, second] = rng.uniform(20, 80, (30, 1))
    group = pd.Series(np.repeat(["a", "b"], 30))
    X = um.Counts(rng.poisson(rate), features=list("uvwxyz"), metadata=pd.DataFrame({"kind": group}))
    return X, group


def test_breadth_is_the_number_of_groups_in_effect() -> None:
    weights = np.array([[1.0, 1, 0.5, 0], [0, 1, 0.5, 0], [0, 1, 0, 0]])
    np.testing.assert_allclose(result.breadths(weights), [1, 3, 2, 0])


def test_breadth_of_words_does_not_depend_on_the_sizes_of_groups() -> None:
    X = um.Counts(np.array([[9, 1], [90, 10], [9, 1], [0, 10]]))
    assert result.word_breadths(X, pd.Series(["a", "a", "a", "b"]))[0] == pytest.approx(1)
    even = um.Counts(np.array([[9, 1], [90, 10]]))
    np.testing.assert_allclose(result.word_breadths(even, pd.Series(["a", "b"])), [2, 2])


def test_the_topic_everywhere_is_the_one_of_all_groups(two_groups, tmp_path) -> None:
    X, _ = two_groups

    def topics_of_words(fit, X, group, topic):
        return {"topics": {word: result.topic_of(fit, word) for word in "wxy"}}

    seen = result.look(Job("test", folder=tmp_path), X, 3, "kind", "things", "words", topics_of_words)
    assert set(seen.named["feature"].head(2)) == {"u", "v"}
    assert seen.broad["breadth"] > 1.8
    others = seen.topics[seen.topics["topic"] != seen.everywhere]
    assert (others["breadth"] < 1.5).all()
    assert set(others["most in"]) == {"a", "b"}
    topics = seen.numbers["topics"]
    assert topics["w"] == topics["x"] != topics["y"]
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "test-things-numbers.csv",
        "test-things-topics.csv",
        "test-things-words.csv",
        "test-things-words.png",
        "test-things.csv",
        "test-things.png",
    ]
    again = result.look(Job("test", folder=tmp_path, written=True), None, 3, "kind", "things", "words", topics_of_words)
    pd.testing.assert_frame_equal(again.topics, seen.topics)
    assert again.numbers == seen.numbers


def test_named_features_are_those_of_the_picture(two_groups) -> None:
    fit = um.TopicModel(3, random_state=0, n_jobs=1).fit(two_groups[0]).result_
    for topic in (1, 2, 3):
        drawn = {text.get_text() for text in um.plot.topic_features(fit, topic, n=2).texts}
        assert drawn <= {str(fit.features[j]) for j in result.distinctive(fit, topic, 2)}
        assert drawn


@pytest.mark.parametrize("gene", ["RPL13", "RPS27A", "RPL13A", "RPLP2", "RPSA", "RPS4X", "RPL36AL", "RPS4Y1"])
def test_genes_of_ribosomal_proteins_are_known(gene: str) -> None:
    assert result.RIBOSOMAL.match(gene)


@pytest.mark.parametrize("gene", ["RPA1", "RP11-620J15.3", "RPP30", "RPN1", "CD3D", "RPS6KA1", "RPS6KB2"])
def test_other_genes_are_not_taken_for_them(gene: str) -> None:
    assert not result.RIBOSOMAL.match(gene)


def test_counts_without_labels_are_told() -> None:
    with pytest.raises(MissingDataError, match="no column 'group'"):
        result.labels(um.Counts(np.ones((2, 2))), "group")


def test_without_any_data_the_result_is_not_made(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("reproduce.common.DATA", tmp_path)
    with pytest.raises(MissingDataError, match="newsgroups is not in"):
        result.main(Job("test", folder=tmp_path))
