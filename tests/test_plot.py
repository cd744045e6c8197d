"""Pictures show what they claim, on any Axes, without a display."""

import sys
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import unmix as um
from unmix.plot import convergence, palette, structure, topic_colours, topic_order
from unmix.plot.structure import MOST_SAMPLES, fair_sample


def make_fit(n=30, n_topics=3, metadata=None, features=None, seed=0):
    rng = np.random.default_rng(seed)
    L, F = rng.dirichlet(np.full(n_topics, 0.3), n), rng.dirichlet(np.ones(8), n_topics).T
    trace = pd.DataFrame({"iteration": [0, 1, 2], "seconds": [0.1, 0.2, 0.4], "loglik": [-90.0, -20.0, -10.0 - seed]})
    return um.Fit(L, F, trace, "converged", -10.0, metadata=metadata, features=features)


def oklab(colour):
    """Coordinates in which distance is about as the eye sees it (Ottosson 2020)."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_lms = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
    to_lab = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    return np.array(to_lab) @ np.cbrt(np.array(to_lms) @ linear)


def difference(one, other):
    return float(np.linalg.norm(oklab(one) - oklab(other)))


def drawn(ax):
    """The height to which each topic reaches in each column, from the bottom topic up, as drawn."""
    middles = np.arange(ax.get_xlim()[1])[:, None] + 0.5
    tops = []
    for area in reversed(ax.collections):
        x, y = area.get_paths()[0].vertices.T
        spans = (np.minimum(x[1:], x[:-1]) < middles) & (middles < np.maximum(x[1:], x[:-1]))
        tops.append(np.where(spans, y[1:], 0).max(axis=1))
    return np.array(tops)


@pytest.mark.parametrize("n", [2, 5, 8, 9, 12, 20, 37, 64, 100])
def test_neighbours_in_a_palette_are_distinct(n):
    colours = palette(n)
    assert len(set(colours)) == n
    assert min(difference(one, other) for one, other in pairwise(colours)) > 0.15


def test_colours_of_up_to_eight_topics_all_differ_and_show_on_white():
    colours = palette(8)
    assert min(difference(one, other) for one, other in combinations(colours, 2)) > 0.1
    assert min(difference(colour, "#FFFFFF") for colour in colours) > 0.2


def test_palette_is_stable_when_topics_are_added():
    assert palette(4) == palette(8)[:4]
    assert palette(1) == palette(8)[:1]


@pytest.mark.parametrize(
    "draw", [structure, convergence, lambda fit, ax=None: structure(fit, group=np.arange(30) % 3, ax=ax)]
)
def test_pictures_return_their_axes_and_take_one(draw, tmp_path):
    fit = make_fit()
    ax = Figure().subplots()
    assert draw(fit, ax=ax) is ax
    made = draw(fit)
    assert isinstance(made, Axes)
    assert made.get_xlabel()
    assert made.get_ylabel()
    made.figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_pictures_leave_the_global_state_of_matplotlib_alone():
    structure(make_fit())
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_the_heaviest_topic_is_at_the_bottom_and_columns_reach_one():
    fit = make_fit(metadata=pd.DataFrame({"year": np.arange(30)}))
    tops = drawn(structure(fit, order="year"))
    np.testing.assert_allclose(tops[0], fit.proportions[:, np.argmax(fit.shares)])
    np.testing.assert_allclose(tops[-1], 1)


def test_samples_stand_in_the_order_of_a_column():
    years = np.random.default_rng(1).permutation(np.arange(1790, 1820))
    fit = make_fit(metadata=pd.DataFrame({"year": years}))
    ax = structure(fit, order="year")
    heaviest = fit.proportions[:, topic_order(fit)[0]]
    np.testing.assert_allclose(drawn(ax)[0], heaviest[np.argsort(years)])
    assert ax.get_xlabel() == "year"


def test_years_get_round_ticks_at_their_places():
    fit = make_fit(n=232, metadata=pd.DataFrame({"year": np.arange(1790, 2022)}))
    ax = structure(fit, order="year")
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == [str(year) for year in range(1800, 2021, 20)]
    np.testing.assert_allclose(ax.get_xticks(), [int(label) - 1790 + 0.5 for label in labels])


def test_groups_stand_together_in_natural_order_under_their_names():
    groups = np.array([f"cluster {1 + i % 11}" for i in range(33)])
    ax = structure(make_fit(n=33), group=groups)
    labels = {place: label.get_text() for place, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)}
    assert [labels[place] for place in sorted(labels)] == [f"cluster {g}" for g in range(1, 12)]
    assert np.ptp(np.diff(sorted(labels))) < 1e-9, "groups of one size have one width"


def test_samples_without_a_group_are_shown_last():
    fit = make_fit(metadata=pd.DataFrame({"party": ["w", None, "f"] * 10}))
    assert [label.get_text() for label in structure(fit, group="party").get_xticklabels()] == ["f", "w", "(none)"]


def test_similar_samples_stand_side_by_side():
    L = np.eye(2)[np.arange(40) % 2] + 0.01
    fit = um.Fit(L, np.ones((4, 2)) / 4, pd.DataFrame(), "converged", 0.0)
    assert (np.abs(np.diff(drawn(structure(fit))[0])) > 0.5).sum() == 1


def test_legend_names_topics_by_their_top_features_even_odd_ones():
    fit = make_fit(features=np.array(["$a$", "_b", "c^{", "d", "e", "f", "g", "a very long name of a feature"]))
    ax = structure(fit)
    ax.figure.draw_without_rendering()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [int(label.split(":")[0]) - 1 for label in labels] == topic_order(fit)[::-1].tolist()
    assert all(label.count(", ") == 2 for label in labels)


def test_topics_have_the_colours_of_the_palette_from_the_heaviest_on():
    fit = make_fit(n_topics=5)
    assert [topic_colours(fit)[k] for k in topic_order(fit)] == palette(5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "year"}, "group: there is no column 'year'; choose one of party"),
        ({"order": "party"}, "order: 'party' does not hold numbers"),
        ({"order": [1, 2]}, "order: 2 values for 30 samples"),
    ],
)
def test_what_cannot_be_drawn_says_why(options, message):
    with pytest.raises(ValueError, match=message):
        structure(make_fit(metadata=pd.DataFrame({"party": ["w"] * 30})), **options)


def test_large_data_are_sampled_fairly_and_the_same_each_time():
    labels = np.repeat([0, 1, 2], [9_000, 990, 10])
    chosen = fair_sample(labels, MOST_SAMPLES)
    assert len(chosen) <= MOST_SAMPLES
    np.testing.assert_array_equal(np.bincount(labels[chosen]), [1800, 198, 2])
    np.testing.assert_array_equal(chosen, fair_sample(labels, MOST_SAMPLES))
    assert len(fair_sample(np.append(labels, 3), MOST_SAMPLES)) > 0
    assert 3 in np.append(labels, 3)[fair_sample(np.append(labels, 3), MOST_SAMPLES)], "a rare group is not lost"


def test_a_picture_of_many_samples_says_how_many_it_shows():
    fit = make_fit(n=MOST_SAMPLES + 100)
    ax = structure(fit, order=np.arange(MOST_SAMPLES + 100))
    assert ax.get_xlabel() == "given order (2,000 of 2,100 samples)"
    assert ax.get_xlim() == (0, MOST_SAMPLES)


def test_convergence_shows_the_gap_to_the_best_of_all_fits():
    ax = convergence({"good": make_fit(seed=0), "worse": make_fit(seed=5)})
    good, worse = ax.get_lines()
    np.testing.assert_allclose(good.get_ydata(), [80, 10])
    np.testing.assert_allclose(worse.get_ydata(), [80, 10, 5])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["good", "worse"]


def test_convergence_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="give at least one"):
        convergence([])
