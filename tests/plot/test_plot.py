"""Pictures show what they claim, on any Axes, without a display."""

import os
import subprocess
import sys
import warnings
from io import BytesIO
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

import unmix as um
from unmix.plot import (
    convergence,
    embedding,
    entropies,
    loadings_scatter,
    palette,
    similarity,
    structure,
    top_features,
    topic_colors,
    topic_features,
    topic_order,
)
from unmix.plot.samples import MOST_SAMPLES
from unmix.plot.style import use_fonts


def make_fit(n=30, n_topics=3, metadata=None, features=None, seed=0):
    rng = np.random.default_rng(seed)
    L, F = rng.dirichlet(np.full(n_topics, 0.3), n), rng.dirichlet(np.ones(8), n_topics).T
    trace = pd.DataFrame({"iteration": [0, 1, 2], "seconds": [0.1, 0.2, 0.4], "loglik": [-90.0, -20.0, -10.0 - seed]})
    return um.Fit(L, F, trace, "converged", -10.0, metadata=metadata, features=features)


def oklab(color):
    """Coordinates in which distance is about as the eye sees it (Ottosson 2020)."""
    to_lms = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
    to_lab = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    return np.array(to_lab) @ np.cbrt(np.array(to_lms) @ linear(color))


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


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("n", [2, 5, 8, 9, 12, 20, 37, 64, 100])
def test_neighbours_in_a_palette_are_distinct(n, dark):
    colors = palette(n, dark=dark)
    assert len(colors) == n
    assert min(difference(one, other) for one, other in pairwise(colors)) > 0.15


# Machado, Oliveira and Fernandes (2009), severity 1, for linear RGB.
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(color):
    rgb = np.array(to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def cielab(color, sight):
    """L*, a*, b* (D65) of a colour as seen."""
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    xyz = np.array(to_xyz) @ np.clip(np.array(SIGHTS[sight]) @ linear(color), 0, 1) / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("sight", SIGHTS)
def test_any_two_of_twelve_topics_differ_for_every_kind_of_sight(sight, dark):
    colors = [cielab(color, sight) for color in palette(12, dark=dark)]
    assert min(np.linalg.norm(one - other) for one, other in combinations(colors, 2)) >= 11  # ΔE*ab


def test_colours_of_topics_show_on_light_and_dark_surfaces():
    def contrast(one, other):
        low, high = sorted(linear(color) @ [0.2126, 0.7152, 0.0722] for color in (one, other))
        return (high + 0.05) / (low + 0.05)

    assert min(contrast(color, "#171b21") for color in palette(12, dark=True)) >= 3
    low = [color for color in palette(12) if contrast(color, "#ffffff") < 3]
    assert low == ["#E69F00", "#56B4E9", "#E0D040"], "three of Okabe and Ito's, which have outlines in the report"


@pytest.mark.parametrize("dark", [False, True])
def test_palette_is_stable_when_topics_are_added(dark):
    assert all(palette(n, dark=dark) == palette(60, dark=dark)[:n] for n in range(61))


ONE_PANEL = {
    "structure": structure,
    "structure in groups": lambda fit, ax=None: structure(fit, group=np.arange(30) % 3, ax=ax),
    "gap": lambda fit, ax=None: convergence(fit, what="gap", ax=ax),
    "kkt": lambda fit, ax=None: convergence(fit, what="kkt", ax=ax),
    "topic_features": lambda fit, ax=None: topic_features(fit, 1, ax=ax),
    "similarity": similarity,
    "similarity of two": lambda fit, ax=None: similarity(fit, make_fit(n_topics=4), ax=ax),
    "embedding": embedding,
    "entropies": lambda fit, ax=None: entropies(fit, np.ones((30, 8)), ax=ax),
    "embedding by topic": lambda fit, ax=None: embedding(fit, color=2, ax=ax),
}
SEVERAL_PANELS = {
    "convergence": (convergence, 2),
    "loadings_scatter": (lambda fit, ax=None: loadings_scatter(fit, make_fit(n_topics=2), ax=ax), 2),
    "top_features": (lambda fit, ax=None: top_features(fit, topics=None if ax is None else 2, ax=ax), 3),
}


@pytest.mark.parametrize("draw", ONE_PANEL.values(), ids=ONE_PANEL.keys())
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


@pytest.mark.parametrize(("draw", "n"), SEVERAL_PANELS.values(), ids=SEVERAL_PANELS.keys())
def test_pictures_of_several_panels_return_them_all_and_take_one(draw, n, tmp_path):
    fit = make_fit()
    ax = Figure().subplots()
    assert draw(fit, ax=ax) is ax
    made = draw(fit)
    assert [type(panel) for panel in made] == [Axes] * n
    assert made[0].figure.axes == list(made)
    made[0].figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


@pytest.mark.filterwarnings("ignore:Glyph")  # the font lacks letters, and says so when the picture is drawn
@pytest.mark.parametrize("draw", [*ONE_PANEL.values(), *(draw for draw, _ in SEVERAL_PANELS.values())])
def test_names_are_shown_as_they_are_whatever_is_in_them(draw):
    names = np.array(["$x", r"$\frac$", "_b^{", "名前", "Ünï", "", "line\nbreak", "long " * 30])
    made = draw(make_fit(features=names))
    ax = made if isinstance(made, Axes) else made[0]
    ax.figure.savefig(BytesIO(), format="svg")
    named = [text for text in ax.figure.findobj(Text) if "$x" in text.get_text() or "frac" in text.get_text()]
    assert not any(text.get_parse_math() for text in named)


def test_pyplot_has_new_pictures_where_it_is_in_use_and_is_left_alone_elsewhere():
    code = """
import sys
import numpy as np, pandas as pd
import unmix as um
fit = um.Fit(np.ones((4, 2)), np.ones((3, 2)), pd.DataFrame({"seconds": [1.0]}), "converged", 0.0)
um.plot.structure(fit)
assert "matplotlib.pyplot" not in sys.modules
import matplotlib.pyplot as plt
axes = um.plot.top_features(fit)
assert plt.gcf() is axes[0].figure
from matplotlib.figure import Figure
um.plot.structure(fit, ax=Figure().subplots())
assert plt.get_fignums() == [1]
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"MPLBACKEND": "agg"})


def test_the_room_shows_its_public_names_and_each_can_be_called():
    assert all(callable(getattr(um.plot, name)) for name in um.plot.__all__)


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


@pytest.mark.parametrize(
    "as_dates",
    [
        pd.to_datetime,
        list,
        lambda text: [None if day == "2021-01-08" else day for day in text],
        lambda text: pd.to_datetime(text).tz_localize("UTC").tz_convert("Asia/Tokyo"),
        lambda text: pd.PeriodIndex(text, freq="D"),
        lambda text: [f"{day}T00:00:00" for day in text],
    ],
    ids=["datetime64", "ISO text", "one unknown", "time zone", "periods", "with hours"],
)
def test_samples_stand_in_the_order_of_dates(as_dates):
    days = np.arange("2020-12-10", "2021-01-09", dtype="datetime64[D]")
    shuffled = np.random.default_rng(1).permutation(30)
    fit = make_fit(metadata=pd.DataFrame({"day": pd.Series(as_dates(days[shuffled].astype(str)))}))
    ax = structure(fit, order="day")
    np.testing.assert_allclose(drawn(ax)[0], fit.proportions[:, topic_order(fit)[0]][np.argsort(shuffled)])
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert "2021-01-05" in labels
    np.testing.assert_allclose(ax.get_xticks(), [np.searchsorted(days, np.datetime64(label)) + 0.5 for label in labels])


def test_dates_survive_the_file_of_a_fit(tmp_path):
    fit = make_fit(metadata=pd.DataFrame({"day": pd.date_range("1990-01-01", periods=30, freq="YS")}))
    fit.save(tmp_path / "fit.safetensors")
    before, after = (structure(one, order="day") for one in (fit, um.load(tmp_path / "fit.safetensors")))
    labels = [label.get_text() for label in after.get_xticklabels()]
    assert "2000" in labels
    assert labels == [label.get_text() for label in before.get_xticklabels()]


def test_ticks_keep_apart_where_numbers_leave_gaps():
    fit = make_fit(n=60)
    ax = structure(fit, order=np.r_[np.arange(50), np.arange(10) * 1000])
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert len(boxes) > 1
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


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
    assert [topic_colors(fit)[k] for k in topic_order(fit)] == palette(5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "year"}, "group: there is no column 'year'; choose one of party"),
        ({"order": "party"}, "order: 'party' does not hold numbers or dates"),
        ({"order": [1, 2]}, "order: 2 values for 30 samples"),
    ],
)
def test_what_cannot_be_drawn_says_why(options, message):
    with pytest.raises(ValueError, match=message):
        structure(make_fit(metadata=pd.DataFrame({"party": ["w"] * 30})), **options)


def test_a_picture_of_many_samples_says_how_many_it_shows():
    fit = make_fit(n=MOST_SAMPLES + 100)
    ax = structure(fit)
    assert ax.get_xlabel() == "samples, sorted by similarity (2,000 of 2,100 samples)"
    assert ax.get_xlim() == (0, MOST_SAMPLES)


def with_trace(seconds, **columns):
    trace = pd.DataFrame({"iteration": range(len(seconds)), "seconds": seconds} | columns)
    return um.Fit(np.ones((3, 2)), np.ones((4, 2)), trace, "converged", 0.0)


def test_entropies_are_drawn_where_they_are():
    X = np.random.default_rng(0).poisson(3, (30, 8))
    fits = {"one": make_fit(), "two": make_fit(n_topics=4, seed=1)}
    ax = entropies(fits, X)
    marks = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert [mark.get_label() for mark in marks] == ["one", "two"]
    for mark, fit in zip(marks, fits.values(), strict=True):
        rows = [row.get_text() for row in ax.get_yticklabels()]
        assert rows == ["nothing", "its sample", "its feature", "both"]
        found = um.analysis.entropies(fit, X)["conditional"]
        np.testing.assert_allclose(mark.get_xdata(), found[["topics", "samples", "features", "cells"]])
        assert (mark.get_xdata() <= ax.get_xlim()[1]).all()
    with pytest.raises(ValueError, match="no fits"):
        entropies({}, X)


def test_convergence_shows_the_gap_to_the_best_of_all_fits():
    ax = convergence({"good": make_fit(seed=0), "worse": make_fit(seed=5)}, what="gap")
    good, worse = ax.get_lines()
    np.testing.assert_allclose(good.get_ydata(), [80, 10])
    np.testing.assert_allclose(worse.get_ydata(), [80, 10, 5])
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["good", "worse"]


def test_long_spans_of_time_are_on_a_log_scale():
    gap, _ = convergence(with_trace([0, 0.1, 0.2, 5, 9], loglik=[-9.0, -8, -3, -2, -1]))
    assert gap.get_xscale() == "log"
    np.testing.assert_allclose(gap.get_lines()[0].get_xdata(), [0.1, 0.2, 5])


def test_kkt_is_drawn_where_it_is_known():
    fit = with_trace([1.0, 2, 3, 4], loglik=[-9.0, -8, -3, -2], kkt=[np.nan, 0.5, np.nan, 1e-3])
    gap, kkt = convergence(fit)
    (line,) = kkt.get_lines()
    np.testing.assert_allclose(line.get_xydata(), [[2, 0.5], [4, 1e-3]])
    assert kkt.get_yscale() == "log"
    assert gap.get_shared_x_axes().joined(gap, kkt)


def test_an_unknown_kkt_is_said_to_be_unknown():
    ax = convergence(make_fit(), what="kkt")
    assert not ax.get_lines()
    assert "KKT residual was not computed" in ax.texts[0].get_text()


def test_a_fit_whose_log_likelihood_was_not_followed_shows_its_objective():
    unknown = [np.nan, np.nan, -5.0]
    bound = with_trace([1.0, 2, 3], loglik=unknown, objective=[-30.0, -20, -10])
    followed = with_trace([1.0, 2, 3], loglik=[-8.0, -6, -4], objective=[-8.0, -6, -4])
    ax = convergence(bound, what="gap")
    assert ax.get_ylabel() == "objective below the best"
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), [20, 10])
    ax = convergence({"bound": bound, "followed": followed}, what="gap")
    assert ax.get_ylabel() == "log-likelihood below the best", "a bound and a likelihood are not to be compared"
    np.testing.assert_allclose(ax.get_lines()[0].get_xydata(), [[3, 1]])


def test_what_convergence_cannot_draw_says_why():
    with pytest.raises(ValueError, match="use at least one"):
        convergence([])
    with pytest.raises(ValueError, match="what='loss'; choose gap, kkt, or None for both"):
        convergence(make_fit(), what="loss")


def test_letters_that_the_usual_font_lacks_are_drawn_with_another_or_told():
    figure = Figure()
    plain, other = figure.text(0, 0, "bees"), figure.text(0, 0, "\U000f0001 ᶁ")
    lacking = use_fonts(figure)
    assert "\U000f0001" in lacking, "no font has what is for private use"
    assert "ᶁ" not in lacking
    assert plain.get_fontfamily() == ["sans-serif"]
    assert other.get_fontfamily()[0] == "sans-serif"
    assert len(other.get_fontfamily()) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.set_text("ᶁ")
        figure.savefig(BytesIO(), format="png")
