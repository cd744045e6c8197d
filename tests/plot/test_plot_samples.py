"""Pictures of samples: on a plane, and in one fit against another."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from test_plot import make_fit

import unmix as um
from unmix.plot import embedding, loadings_scatter, palette, topic_colors, topic_order
from unmix.plot.samples import MOST_POINTS, clusters
from unmix.plot.style import MANY_POINTS


def rearranged(fit, order):
    return um.Fit(fit.L[:, order], fit.F[:, order], fit.trace, fit.status, fit.loglik)


def places(ax):
    return np.asarray(ax.collections[0].get_offsets())


def test_topics_in_another_order_are_matched_back_onto_the_diagonal():
    fit = make_fit(n=100, n_topics=6)
    order = [3, 0, 5, 1, 4, 2]
    panels = loadings_scatter(fit, rearranged(fit, order))
    for panel, k in zip(panels, topic_order(fit), strict=True):
        np.testing.assert_allclose(places(panel)[:, 0], fit.proportions[:, k])
        np.testing.assert_allclose(places(panel)[:, 0], places(panel)[:, 1])
        assert f"with {order.index(k) + 1} of fit two, r = 1.00" in panel.get_title(loc="left")


def test_matching_holds_where_fits_differ_a_little():
    fit = make_fit(n=300, n_topics=5)
    noisy = fit.L * np.random.default_rng(1).uniform(0.7, 1.3, fit.L.shape)
    order = [4, 2, 0, 1, 3]
    other = um.Fit(noisy[:, order], fit.F[:, order], fit.trace, "converged", 0.0)
    titles = [panel.get_title(loc="left") for panel in loadings_scatter(fit, other, topics=[1, 2, 3, 4, 5])]
    assert [int(title.split("with ")[1].split()[0]) for title in titles] == [order.index(k) + 1 for k in range(5)]


def test_topics_of_the_larger_fit_without_a_match_are_not_shown():
    large = make_fit(n=100, n_topics=5)
    small = um.Fit(large.L[:, [4, 1]], large.F[:, [4, 1]], large.trace, "converged", 0.0)
    assert len(loadings_scatter(small, large)) == len(loadings_scatter(large, small)) == 2


def test_all_topics_fit_into_one_panel_in_their_colours():
    fit = make_fit(n=50)
    ax = loadings_scatter(fit, fit, topics=[2, 1], ax=Figure().subplots())
    assert [to_hex(points.get_facecolor()[0]).upper() for points in ax.collections] == topic_colors(fit)[1::-1]
    assert len(ax.get_legend().get_texts()) == 2


def test_many_samples_become_a_density_that_counts_them_all():
    fit = make_fit(n=MANY_POINTS + 500)
    panel = loadings_scatter(fit, fit, topics=1)[0]
    density = panel.collections[0]
    assert density.get_array().sum() == MANY_POINTS + 500
    assert len(density.get_offsets()) < 100


def test_a_constant_proportion_has_no_correlation():
    fit = make_fit(n_topics=1)
    assert "r undefined" in loadings_scatter(fit, fit)[0].get_title(loc="left")


def test_two_topics_and_pca_keep_all_distances():
    fit = make_fit(n=40, n_topics=2)
    shown = places(embedding(fit))
    roots = np.sqrt(fit.proportions)
    drawn, true = ([np.sort(np.linalg.norm(points - point, axis=1)) for point in points] for points in (shown, roots))
    assert sorted(row[-1] for row in drawn) == pytest.approx(sorted(row[-1] for row in true))


def test_pca_shows_the_largest_spread_first():
    ax = embedding(make_fit(n=200, n_topics=6))
    across, up = places(ax).var(axis=0)
    assert across > up > 0
    total = np.sqrt(make_fit(n=200, n_topics=6).proportions).var(axis=0).sum()
    assert ax.get_xlabel() == f"principal component 1 ({across / total:.0%})"


def test_samples_have_the_colour_of_their_largest_topic_and_topics_are_named():
    L = np.eye(3)[np.arange(60) % 3] + 0.02 + 0.01 * np.random.default_rng(0).random((60, 3))
    fit = um.Fit(L, make_fit().F, make_fit().trace, "converged", 0.0)
    ax = embedding(fit)
    colors = np.array([to_hex(color).upper() for color in ax.collections[0].get_facecolor()])
    assert sorted(colors) == sorted(np.repeat(palette(3), 20))
    assert sorted(text.get_text()[:2] for text in ax.texts) == ["1:", "2:", "3:"]
    for text in ax.texts:
        color = topic_colors(fit)[int(text.get_text()[0]) - 1]
        np.testing.assert_allclose(text.xy, np.median(places(ax)[colors == color], axis=0))
        assert to_hex(text.get_bbox_patch().get_edgecolor()).upper() == color


def test_a_column_of_few_values_is_groups_and_of_many_a_scale():
    table = pd.DataFrame(
        {
            "party": list("abc") * 10,
            "cluster": np.arange(30) % 4,
            "year": np.arange(1990, 2020),
            "day": pd.date_range("2020-01-01", periods=30).astype(str),
            "known": [True, False] * 15,
        }
    )
    fit = make_fit(metadata=table)
    for column, names in {
        "party": ["a", "b", "c"],
        "cluster": ["0", "1", "2", "3"],
        "known": ["False", "True"],
    }.items():
        ax = embedding(fit, color=column)
        assert {text.get_text() for text in ax.texts} == set(names)
        assert len(ax.figure.axes) == 1
    for column in ("year", "day"):
        ax = embedding(fit, color=column)
        points = ax.collections[-1]
        assert not ax.texts
        assert np.ptp(points.get_array()) == 29, "years, or days"
        assert ax.figure.axes[1].get_ylabel() == column


def test_a_number_colours_by_that_topic():
    fit = make_fit()
    shown = embedding(fit, color=2).collections[-1].get_array()
    np.testing.assert_allclose(np.sort(shown), np.sort(fit.proportions[:, 1]))


def test_samples_without_a_value_are_grey():
    fit = make_fit(metadata=pd.DataFrame({"age": [np.nan] * 5 + list(range(25))}))
    unknown, known = embedding(fit, color="age").collections
    assert (len(unknown.get_offsets()), len(known.get_offsets())) == (5, 25)


def test_of_very_many_samples_a_fair_part_is_shown_and_said():
    n = 2 * MOST_POINTS
    rare = np.where(np.arange(n) < 10, "rare", "common")
    ax = embedding(make_fit(n=n), color=rare)
    assert len(places(ax)) == MOST_POINTS
    assert {text.get_text() for text in ax.texts} == {"rare", "common"}
    assert f"(20,000 of {n:,} samples)" in ax.get_xlabel()
    assert ax.collections[0].get_rasterized()


def test_umap_is_asked_for_by_name_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(ImportError, match=r"needs umap-learn; install it with: pip install umap-learn"):
        embedding(make_fit(), method="umap")


def test_umap_gets_roots_of_proportions_and_a_fixed_seed(monkeypatch):
    """With a stand-in, as compiling the real one takes longer than all other tests of pictures."""
    asked = {}

    class UMAP:
        def __init__(self, **options):
            asked.update(options)

        def fit_transform(self, points):
            asked["points"] = points
            return points[:, :2]

    monkeypatch.setitem(sys.modules, "umap", type(sys)("umap"))
    sys.modules["umap"].UMAP = UMAP
    ax = embedding(make_fit(n=10), method="umap")
    np.testing.assert_allclose((asked["points"] ** 2).sum(axis=1), 1)
    np.testing.assert_allclose(places(ax), asked["points"][:, :2])
    assert (asked["random_state"], asked["n_neighbors"]) == (0, 10)
    indices, distances, _ = asked["precomputed_knn"]
    np.testing.assert_array_equal(indices[:, 0], np.arange(10))
    apart = np.linalg.norm(asked["points"][:, None] - asked["points"], axis=2)
    np.testing.assert_allclose(distances, np.sort(apart, axis=1), atol=1e-7)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: loadings_scatter(make_fit(n=30), make_fit(n=31)), "fit two has 31 samples and fit one has 30"),
        (lambda: loadings_scatter(make_fit(), make_fit(), topics=9), "no topic 9; this fit has topics 1 to 3"),
        (lambda: embedding(make_fit(), method="tsne"), "method='tsne'; choose one of pca, umap"),
        (lambda: embedding(make_fit(), color="party"), "color: there is no column 'party'; there is no metadata"),
        (lambda: embedding(make_fit(), color=4), "no topic 4"),
        (lambda: embedding(make_fit(), color=["a", "b"]), "color: 2 values for 30 samples"),
    ],
)
def test_what_cannot_be_drawn_says_why(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_fits_of_other_samples_are_not_compared():
    one, two = (
        um.Fit(np.ones((2, 2)), np.ones((3, 2)), pd.DataFrame(), "converged", 0.0, samples=np.array(names))
        for names in (["a", "b"], ["a", "c"])
    )
    with pytest.raises(ValueError, match="fit two: sample 2 is 'c', fit one has 'b' there"):
        loadings_scatter(one, two)


def test_clusters_of_a_structure_plot_are_groups_of_similar_samples_with_equal_columns() -> None:
    """By k-means on proportions, the largest first; with `equal`, a large one is drawn by part."""
    rng = np.random.default_rng(0)
    L = rng.dirichlet([30, 1, 1], 2600)
    L[:40] = rng.dirichlet([1, 1, 30], 40)
    L[40:2200:3] = rng.dirichlet([1, 30, 1], len(L[40:2200:3]))
    names = clusters(L, 3)
    assert [int((names == f"cluster {k}").sum()) for k in (1, 2, 3)] == [1840, 720, 40]
    assert set(names[:40].tolist()) == {"cluster 3"}
    F = rng.dirichlet(np.ones(12), 3).T
    fit = replace(make_fit(), L=L, F=F, samples=None, features=None, metadata=None, posterior={}, names=None)
    many, even = (um.plot.structure(fit, group=3, equal=equal) for equal in (False, True))
    assert many.get_xlim()[1] > even.get_xlim()[1]  # 2,000 of all, then 666 of two and 40 of the third
    assert "1,372 of 2,600 samples" in even.get_xlabel()
    shown = um.analysis.fair_sample(np.repeat([0, 1, 2], [1840, 720, 40]), 300, equal=True)
    assert np.bincount(np.repeat([0, 1, 2], [1840, 720, 40])[shown]).tolist() == [100, 100, 40]
