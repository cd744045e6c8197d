"""Pictures of topics: their features, and how alike they are."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from test_plot import make_fit

import unmix as um
from unmix.analysis import log_fold_change
from unmix.plot import similarity, top_features, topic_colors, topic_features, topic_order
from unmix.plot.style import place_labels


def fit_of(L, F, features=None):
    return um.Fit(
        np.array(L, dtype=float), np.array(F, dtype=float), pd.DataFrame(), "converged", 0.0, features=features
    )


def text_boxes(labels):
    """Of the words alone, without the line that may lead to the point."""
    return [Text.get_window_extent(label) for label in labels]


def none_overlap(boxes):
    return not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_labels_of_crowded_points_do_not_overlap_and_stay_inside():
    ax = Figure(figsize=(5, 4), layout="constrained").subplots()
    x, y = np.random.default_rng(0).normal(0, 0.2, (2, 40))
    ax.scatter(x, y)
    ax.set(xlim=(-1, 1), ylim=(-1, 1))
    labels = place_labels(ax, x, y, [f"name {i}" for i in range(40)])
    ax.figure.draw_without_rendering()
    boxes = text_boxes(labels)
    assert len(boxes) > 15
    assert none_overlap(boxes)
    frame = ax.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1 for box in boxes)
    points = ax.transData.transform(np.column_stack([x, y]))
    assert not any(box.count_contains(points) for box in boxes), "no word hides a point"
    assert labels[0].get_text() == "name 0", "the first name has the first choice"
    leading = [label for label in labels if label.arrow_patch is not None]
    assert leading, "some had to move away"
    for label in leading:
        line = label.arrow_patch.get_path().transformed(label.arrow_patch.get_transform())
        others = [Text.get_window_extent(other) for other in labels if other is not label]
        assert not any(line.intersects_bbox(box, filled=False) for box in others), "no line crosses a word"


def test_labels_without_any_room_are_left_out_and_the_first_stay():
    ax = Figure(figsize=(3, 3)).subplots()
    labels = place_labels(
        ax, np.full(300, 0.5), np.full(300, 0.5), [f"name {i}" for i in range(300)], boxes=["0.5"] * 300
    )
    assert 1 < len(labels) < 300
    assert labels[0].get_text() == "name 0"
    assert labels[0].get_position() == (0, 0)
    ax.figure.draw_without_rendering()
    assert none_overlap(text_boxes(labels))


# Expected counts of two topics with 60 and 20 of them, features in rows.
COUNTS = np.array([[30, 0], [30, 10], [0, 10]])


def two_topics():
    return fit_of([[60, 20]], COUNTS / COUNTS.sum(axis=0))


def test_topic_features_draws_frequency_against_change():
    fit = two_topics()
    ax = topic_features(fit, 1)
    points = np.asarray(ax.collections[0].get_offsets())
    np.testing.assert_allclose(points[:, 0], [30 / 80, 40 / 80, 10 / 80])
    np.testing.assert_allclose(points[:, 1], log_fold_change(fit, 1))
    assert [text.get_text() for text in ax.texts] == ["feature 1"], "only what the topic uses more is named"
    np.testing.assert_allclose(ax.collections[1].get_facecolor()[0][:3], to_rgb(topic_colors(fit)[0]))


def test_the_features_named_are_those_that_top_features_lists():
    fit = um.TopicModel(3, random_state=0).fit(um.datasets.digits()).result_
    for topic, rows in fit.top_features(8).groupby("topic"):
        ax = topic_features(fit, topic, n=8)
        named = np.asarray(ax.collections[1].get_offsets())
        np.testing.assert_allclose(2 ** named[:, 1], rows["lift"])
        assert {text.get_text() for text in ax.texts} <= set(rows["feature"])


def test_a_feature_hardly_ever_used_does_not_stretch_the_picture():
    ax = topic_features(fit_of([[60, 20]], [[0.5, 0], [0.5, 1], [1e-200, 0], [0, 0]]), 1)
    shown = np.asarray(ax.collections[0].get_offsets())[:, 0]
    np.testing.assert_allclose(shown, [30 / 80, 50 / 80, 1e-3 / 4])


def test_many_features_get_names_that_do_not_overlap():
    rng = np.random.default_rng(0)
    names = np.array([f"word{j}" for j in range(3000)])
    fit = fit_of(rng.gamma(0.3, 300, (50, 4)), rng.dirichlet(np.full(3000, 0.1), 4).T, features=names)
    ax = topic_features(fit, 2, n=40)
    ax.figure.draw_without_rendering()
    assert len(ax.texts) > 10
    assert none_overlap(text_boxes(ax.texts))
    assert ax.collections[0].get_rasterized()


def test_bars_are_the_shares_and_ghosts_the_frequencies_in_all_samples():
    fit = make_fit(n=20)
    panels = top_features(fit, n=5)
    table, overall = fit.top_features(5), fit.topics @ fit.shares
    for panel, k in zip(panels, topic_order(fit), strict=True):
        rows = table[table["topic"] == k + 1]
        ghosts, bars = panel.containers
        np.testing.assert_allclose([bar.get_width() for bar in bars], rows["share"])
        places = [int(name.removeprefix("feature ")) - 1 for name in rows["feature"]]
        np.testing.assert_allclose([bar.get_width() for bar in ghosts], overall[places])
        assert [label.get_text() for label in panel.get_yticklabels()] == rows["feature"].tolist()
        assert panel.get_title(loc="left") == f"topic {k + 1} · {fit.shares[k]:.1%}"
        np.testing.assert_allclose(bars[0].get_facecolor()[:3], to_rgb(topic_colors(fit)[k]))


def test_top_features_shows_the_topics_asked_for_in_their_order():
    panels = top_features(make_fit(), topics=[3, 1])
    assert [panel.get_title(loc="left")[:7] for panel in panels] == ["topic 3", "topic 1"]


def test_features_a_topic_does_not_use_have_no_bar():
    fit = fit_of(np.eye(2), [[1, 0], [0, 1]])
    assert [len(panel.containers[1]) for panel in top_features(fit)] == [1, 1]


def test_one_topic_alone_has_bars_as_long_as_their_ghosts():
    (panel,) = top_features(make_fit(n_topics=1))
    ghosts, bars = panel.containers
    np.testing.assert_allclose([bar.get_width() for bar in bars], [bar.get_width() for bar in ghosts])


def test_words_of_twenty_panels_do_not_overlap():
    names = np.array([f"a long word {j}" for j in range(60)])
    F = np.random.default_rng(0).dirichlet(np.ones(60), 20).T  # so many that every topic has eight of its own
    panels = top_features(replace(make_fit(n_topics=20), F=F, features=names), n=8)
    panels[0].figure.draw_without_rendering()
    words = [text for panel in panels for text in (*panel.get_yticklabels(), panel._left_title)]
    words += [text for panel in panels for text in panel.get_xticklabels() if text.get_text()]
    assert len(words) > 200
    assert none_overlap([word.get_window_extent() for word in words])


def test_the_heat_map_of_a_fit_has_ones_on_its_diagonal_and_is_symmetric():
    fit = make_fit(n_topics=5)
    ax = similarity(fit)
    shown = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(np.diag(shown), 1, atol=1e-7)
    np.testing.assert_allclose(shown, shown.T)
    assert [int(label.get_text()) - 1 for label in ax.get_xticklabels()] == topic_order(fit).tolist()


def test_topics_of_another_fit_stand_at_their_match():
    fit = make_fit(n_topics=4)
    order = [2, 0, 3, 1]
    other = fit_of(fit.L[:, order], fit.F[:, order])
    ax = similarity(fit, other)
    np.testing.assert_allclose(np.diag(ax.images[0].get_array()), 1, atol=1e-7)
    rows, columns = (
        [int(label.get_text().split(":")[0]) - 1 for label in labels]
        for labels in (ax.get_yticklabels(), ax.get_xticklabels())
    )
    assert [order[column] for column in columns] == rows


@pytest.mark.parametrize(("K", "other"), [(2, 5), (5, 2)])
def test_topics_without_a_match_come_last(K, other):
    big = make_fit(n_topics=5)
    small = fit_of(big.L[:, [3, 1]], big.F[:, [3, 1]])
    one, two = (small, big) if K == 2 else (big, small)
    shown = np.asarray(similarity(one, two).images[0].get_array())
    assert shown.shape == (K, other)
    if K == 2:
        np.testing.assert_allclose(np.diag(shown), 1, atol=1e-7)
    assert np.isclose(shown, 1, atol=1e-7).sum() == 2


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: topic_features(make_fit(), 4), "no topic 4; this fit has topics 1 to 3"),
        (lambda: topic_features(make_fit(), 0), "no topic 0; this fit has topics 1 to 3"),
        (lambda: topic_features(make_fit(), "war"), "by its number, 1 to 3, not by 'war'"),
        (lambda: topic_features(make_fit(), 1, against="all"), "against='all'; choose one of rest, next"),
        (lambda: topic_features(make_fit(), 1, pseudocount=0), "pseudocount=0; use a positive number"),
        (lambda: topic_features(make_fit(n_topics=1), 1), "one topic only"),
        (lambda: top_features(make_fit(), topics=[1, 7]), "no topic 7"),
        (lambda: top_features(make_fit(), topics=[]), "the list is empty"),
        (lambda: top_features(make_fit(), n=0), "n=0; use a whole number"),
        (lambda: top_features(make_fit(), ax=Figure().subplots()), "ax holds one topic, and 3 were asked for"),
        (
            lambda: similarity(make_fit(), fit_of(np.ones((2, 2)), np.ones((5, 2)))),
            "fit two has 5 features and fit one has 8",
        ),
        (
            lambda: similarity(
                make_fit(features=np.array(list("abcdefgh"))), make_fit(features=np.array(list("abcdefgx")))
            ),
            "fit two: feature 8 is 'x', fit one has 'h' there",
        ),
    ],
)
def test_what_cannot_be_drawn_says_why(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_features_may_be_drawn_on_the_axes_of_the_paper() -> None:
    """Frequency in the others across, in the topic up; nothing below a millionth; the topic's own above the diagonal."""
    X = um.datasets.correlated_topics("A")
    fit = um.TopicModel(3, random_state=0, max_iter=20, tol=0).fit(X).result_
    ax = um.plot.topic_features(fit, 2, axes="frequencies")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    points = ax.collections[0].get_offsets()
    shares = fit.shares / (1 - fit.shares[1])
    others = fit.topics[:, [0, 2]] @ shares[[0, 2]]
    np.testing.assert_allclose(points[:, 0], np.maximum(others, 1e-6), rtol=1e-9)
    np.testing.assert_allclose(points[:, 1], np.maximum(fit.topics[:, 1], 1e-6))
    named = ax.collections[1].get_offsets()
    assert (named[:, 1] > named[:, 0]).all()
    wrong: Any = "lifts"
    with pytest.raises(ValueError, match="axes='lifts'; choose one of lift, frequencies"):
        um.plot.topic_features(fit, 1, axes=wrong)
