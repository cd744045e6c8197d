"""The report holds what it claims, in a form that no name can break out of. What it does in a browser: test_report_browser."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.analysis import typical_samples
from unmix.counts.columns import column_of, columns_of
from unmix.plot import topic_colors, topic_order
from unmix.report import write_report
from unmix.report.page import page
from unmix.report.payload import payload, topics_payload
from unmix.report.sections import (
    LOG_STEP,
    embeddable_json,
    quantised_proportions,
    quantised_weights,
    taken,
    timeline,
)

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>window.canary=1</script>",
    '"><img src=x onerror="window.canary=1">',
    "javascript:alert(1)",
    "{{data}}",
    "<!-- <script>",
    "line\u2028separator\u2029and & ampersand",
    "=HYPERLINK(1)",
    "",
]


def make_fit(n=40, m=30, n_topics=3, seed=0, **given):
    rng = np.random.default_rng(seed)
    L = rng.dirichlet(np.full(n_topics, 0.4), n) * rng.integers(20, 200, (n, 1))
    F = rng.dirichlet(np.full(m, 0.3), n_topics).T
    trace = pd.DataFrame(
        {
            "iteration": [0, 1, 2],
            "seconds": [0.1, 0.2, 0.4],
            "loglik": [-90.0, -20.0, -10.0],
            "objective": [-90.0, -20.0, -10.0],
            "kkt": [np.nan, np.nan, 0.01],
            "stage": ["start", "fit", "fit"],
            "note": ["random", "", ""],
        }
    )
    return um.Fit(L, F, trace, "converged", -10.0, **given)


class Blocks(HTMLParser):
    """The elements of a page as a browser sees them: scripts with their text, and every tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.inside = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = (tag, dict(attributes).get("type")) if tag in ("script", "style", "title") else self.inside

    def handle_endtag(self, tag):
        if self.inside and tag == self.inside[0]:
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside] = self.texts.get(self.inside, "") + data


def data_of(text):
    return json.loads(Blocks(text).texts["script", "application/json"])


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def sent_topics(features, n_topics):
    """The weights of features in topics, m × K, as the page decodes them."""
    steps, codes = unpacked(features["steps"], "<u2").astype(int), unpacked(features["weights"], "<u2")
    weights, start = np.zeros((len(features["names"]), n_topics)), 0
    for k, count in enumerate(features["counts"]):
        run = slice(start, start + count)
        weights[steps[run].cumsum(), k] = np.where(codes[run] > 0, np.exp(-(codes[run] - 1.0) * LOG_STEP), 0)
        start += count
    return weights


def test_proportions_survive_the_page_to_one_part_in_65535(tmp_path):
    fit = make_fit()
    write_report(fit, tmp_path / "report.html")
    data = data_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    sent = unpacked(data["samples"]["proportions"], "<u2").reshape(40, 3) / 65535
    assert np.abs(sent - fit.proportions).max() <= 0.5 / 65535 + 1e-12
    np.testing.assert_allclose(unpacked(data["samples"]["sizes"], "<f4"), fit.sizes, rtol=1e-6)


def test_weights_survive_quantisation_to_a_thousandth():
    weights = np.append(10.0 ** np.linspace(-12, 0, 2000), 0.0)
    codes = quantised_weights(weights)
    back = np.where(codes > 0, np.exp(-(codes - 1.0) * LOG_STEP), 0)
    np.testing.assert_allclose(back, weights, rtol=3e-4)
    assert back[-1] == 0


def test_all_weights_above_the_threshold_and_the_heaviest_are_sent():
    fit = make_fit(m=2_000, seed=3)
    features = topics_payload(fit, room=1e9)
    assert features["names"][0].startswith("feature ")
    kept = [int(name.split()[1]) - 1 for name in features["names"]]
    sent, true = sent_topics(features, 3), fit.topics[kept]
    expected = true > 1e-6
    np.testing.assert_allclose(sent[expected], true[expected], rtol=3e-4)
    np.testing.assert_allclose(
        np.exp(-(unpacked(features["overall"], "<u2") - 1.0) * LOG_STEP), true @ fit.shares, rtol=3e-4
    )
    left_out = fit.topics.copy()
    left_out[kept] -= np.where(sent > 0, true, 0)
    assert left_out.max() <= 1e-6
    assert features["left_out"] == (fit.topics > 0).sum() - (sent > 0).sum()


@pytest.mark.parametrize("data", ["sotu", "random"])
def test_the_page_has_the_features_the_order_and_the_lifts_of_top_features(data):
    fit = make_fit(m=60, n_topics=4, seed=5)
    if data == "sotu":
        X = um.datasets.sotu()
        fit = um.TopicModel(8, max_iter=20, tol=0, random_state=0).fit(X).result_
    features = payload(fit, "t")["features"]
    steps, lifts, start = unpacked(features["steps"], "<u2").astype(int), unpacked(features["lifts"], "<f4"), 0
    for k, rows in fit.top_features(30).groupby("topic"):
        run = slice(start, start := start + features["counts"][k - 1])
        sent = dict(zip(steps[run].cumsum(), lifts[run], strict=True))
        listed = features["distinctive"][k - 1]
        assert [features["names"][j] for j in listed] == rows["feature"].tolist()
        np.testing.assert_allclose([sent[j] for j in listed], rows["lift"], rtol=1e-6)


def test_features_further_apart_than_sixteen_bits_are_bridged():
    m = 150_000
    F = np.zeros((m, 2))
    F[[0, 149_999], 0], F[[70_000, 70_001], 1] = 0.5, 0.5
    F[np.arange(0, m, 2), 1] += 1e-4
    fit = um.Fit(np.ones((3, 2)), F, pd.DataFrame(), "converged", 0.0)
    features = topics_payload(fit, room=1e9)
    kept = [int(name.split()[1]) - 1 for name in features["names"]]
    np.testing.assert_allclose(sent_topics(features, 2), fit.topics[kept], rtol=3e-4)


def test_a_page_that_would_be_too_large_leaves_out_small_weights_and_says_so():
    fit = make_fit(m=5_000, n_topics=4, features=np.array([f"name {j}" for j in range(5_000)]))
    whole, small = payload(fit, "t"), payload(fit, "t", largest=90_000)
    assert len(embeddable_json(small)) <= 95_000 < len(embeddable_json(whole))
    assert small["features"]["smallest"] > whole["features"]["smallest"]
    assert any(f"below {small['features']['smallest']:g}" in note for note in small["notes"])
    assert min(small["features"]["counts"]) >= 300


def test_metadata_that_would_crowd_out_the_topics_are_dropped_largest_first(monkeypatch):
    monkeypatch.setattr("unmix.report.payload.BYTES_FOR_TOPICS", 20_000)
    table = pd.DataFrame({"party": ["a", "b"] * 20, "text": [f"{i} " + "x" * 190 for i in range(40)]})
    page = payload(make_fit(metadata=table), "t", largest=29_000)
    assert [column["name"] for column in page["columns"]] == ["party"]
    assert "To limit its size, the report omits these columns of metadata: text." in page["notes"]


def test_of_many_samples_a_fair_part_is_sent_and_typical_ones_always_are():
    fit = make_fit(n=900)
    page = payload(fit, "t", most_samples=100)
    names = page["samples"]["names"]
    assert 95 <= len(names) <= 100 + sum(map(len, typical_samples(fit)))
    typical = [[int(names[i].split()[1]) - 1 for i in row] for row in page["samples"]["typical"]]
    assert typical == [rows.tolist() for rows in typical_samples(fit)]
    assert f"The report shows {len(names)} of the 900 samples" in page["notes"][0]
    assert page["shape"] == [900, 30, 3]


def test_topics_have_the_colours_and_the_order_of_every_other_picture():
    fit = make_fit(n_topics=12)
    page = payload(fit, "t")
    assert [topic["colour"] for topic in page["topics"]] == topic_colors(fit)
    assert page["order"] == topic_order(fit).tolist()


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_can_leave_its_place(name):
    table = pd.DataFrame({name or "column": [name, "other"] * 20})
    fit = make_fit(
        samples=np.array([name] * 40),
        features=np.array([name] * 30),
        metadata=table,
        data={"source": name, "command": f"unmix fit {name}"},
        params={"model": name},
        versions={name: name},
    )
    text = page(fit, name)
    usual, blocks = Blocks(page(make_fit(), "usual")), Blocks(text)
    assert [tag for tag, _ in blocks.tags] == [tag for tag, _ in usual.tags], "the same elements, and no other"
    assert blocks.texts["script", None] == usual.texts["script", None]
    raw = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1]
    assert not set("<>&\u2028\u2029") & set(raw)
    data = json.loads(raw)
    assert data["samples"]["names"][0] == data["features"]["names"][0] == data["title"] == name
    assert f"<title>{html.escape(name)} · unmix</title>" in text


def test_a_name_that_is_not_proper_unicode_is_written_all_the_same(tmp_path):
    write_report(make_fit(samples=np.array(["lone \udc80"] * 40)), tmp_path / "report.html", title="\udc80")
    assert "lone ?" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_policy_admits_the_one_script_and_the_one_style_and_no_address():
    text = page(make_fit())
    blocks = Blocks(text)
    policy = next(attributes["content"] for tag, attributes in blocks.tags if attributes.get("http-equiv"))
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(blocks.texts[kind, None].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    addresses = [a[key] for _, a in blocks.tags for key in ("src", "href") if key in a]
    assert all(address.startswith("data:") for address in addresses)
    assert "style" not in {key for _, attributes in blocks.tags for key in attributes}


def test_kinds_of_columns():
    table = pd.DataFrame(
        {
            "year": [1990, 1991, 1992, 1993],
            "party": ["w", None, "d", "w"],
            "grade": pd.Categorical(["low", "high", "low", None], ["low", "mid", "high"], ordered=True),
            "size": [1.5, np.nan, np.inf, 2.5],
            "when": pd.to_datetime(["2020-01-01", None, "2020-03-01", "2021-01-01"]),
            "iso": ["2020-01-01T10:00", "2020-01-02T10:00", None, "2020-01-02T10:00"],
            "flag": [True, False, True, True],
            "mixed": [1, "a", None, (2, 3)],
            "nothing": [None] * 4,
            "cluster": pd.array([2, 10, None, 2], dtype="Int64"),
        }
    )
    columns = {column.name: column for column in columns_of(table)}
    assert {name: column.kind for name, column in columns.items()} == {
        "year": "number",
        "party": "text",
        "grade": "text",
        "size": "number",
        "when": "date",
        "iso": "date",
        "flag": "text",
        "mixed": "text",
        "cluster": "number",
    }
    assert columns["grade"].levels == ("low", "high"), "categories keep their order"
    assert np.nan_to_num(columns["party"].values, nan=-1).tolist() == [1, -1, 0, 1]
    assert columns["size"].known.tolist() == [1.5, 2.5]
    assert {name for name, column in columns.items() if column.can_group} >= {
        "party",
        "grade",
        "flag",
        "cluster",
        "iso",
    }
    assert not columns["year"].can_group
    assert {name for name, column in columns.items() if column.tells_time} == {"year", "when"}


def test_columns_as_sent_can_be_decoded():
    column = column_of("party", pd.Series(["cluster 10", None, "cluster 2", "cluster 10"]))
    sent = taken(column, np.array([0, 1, 3]))
    assert (sent["levels"], unpacked(sent["codes"], "<u2").tolist()) == (["cluster 10"], [0, 65535, 0])
    assert taken(column, np.arange(4))["levels"] == ["cluster 2", "cluster 10"]


def test_means_over_time_weigh_samples_alike_and_leave_gaps():
    years = pd.Series([1990, 1990, 1993, 1991, np.nan])
    P = np.array([[1, 0], [0, 1], [0.25, 0.75], [1, 0], [0, 1]], dtype=float)
    line = timeline(column_of("year", years), P)
    assert line["labels"] == ["1990", "1991", "1992", "1993"]
    assert line["samples"] == [2, 1, 0, 1]
    means = unpacked(line["means"], "<u2").reshape(4, 2) / 65535
    np.testing.assert_allclose(means, [[0.5, 0.5], [1, 0], [0, 0], [0.25, 0.75]], atol=1e-5)


@pytest.mark.parametrize(
    ("values", "first", "last", "bins"),
    [
        (pd.Series(range(1790, 2022)), "1790–1794", "2020–2024", 47),
        (pd.Series(np.linspace(0, 1, 200)), "0–0.02", "1–1.02", 51),
        (pd.Series(pd.date_range("2020-01-01", "2020-02-10")), "2020-01-01", "2020-02-10", 41),
        (pd.Series(pd.date_range("2020-01-05", "2021-12-31")), "2020-01", "2021-12", 24),
        (pd.Series(pd.date_range("2000-01-05", "2009-12-31")), "2000-01 – 2000-03", "2009-10 – 2009-12", 40),
        (pd.Series(pd.date_range("1965-01-05", "2009-12-31")), "1965", "2009", 45),
        (pd.Series(pd.date_range("2020-01-01", "2020-01-02", freq="h")), "2020-01-01T00", "2020-01-02T00", 25),
    ],
)
def test_bins_of_time_are_round_and_few(values, first, last, bins):
    line = timeline(column_of("time", values), np.ones((len(values), 1)))
    assert (line["labels"][0], line["labels"][-1], len(line["labels"])) == (first, last, bins)
    assert sum(line["samples"]) == len(values)


def test_one_sample_one_topic_no_names_no_metadata():
    data = data_of(page(um.TopicModel(1, random_state=0).fit(um.Counts([[3, 4, 0, 1]])).result_))
    assert data["samples"]["names"] == ["sample 1"]
    assert data["shape"] == [1, 4, 1]
    assert data["columns"] == data["time"] == data["notes"] == []


def test_a_fit_put_together_by_hand_has_a_page_too():
    data = data_of(
        page(um.Fit(np.ones((4, 2)), np.ones((5, 2)), pd.DataFrame(), "max_iter", np.nan, params={"tol": 1e-8}))
    )
    assert data["glance"] == ["4 samples × 5 features", "2 topics", "not converged"]
    assert data["figures"] == [["ended", "not converged"]]
    assert data["trace"]["values"] == []


def test_samples_without_counts_are_shown_and_told():
    X = np.random.default_rng(0).poisson(2, (12, 9))
    X[4] = 0
    data = data_of(page(um.TopicModel(2, random_state=0).fit(X).result_))
    assert data["advice"] == ["1 sample without any counts; all topics get the same proportion there"]
    assert unpacked(data["samples"]["proportions"], "<u2").reshape(12, 2)[4].tolist() == [32768, 32768]
    assert 4 not in [row[0] for row in data["samples"]["typical"]]


def test_bayesian_fits_show_what_they_maximise():
    fit = um.LDA(2, random_state=0).fit(np.random.default_rng(0).poisson(2, (20, 9))).result_
    data = data_of(page(fit))
    assert data["trace"]["name"] == "lower bound of log p(X)"
    assert dict(data["figures"])["lower bound of log p(X)"] == f"{fit.trace['objective'].iloc[-1]:,.1f}"
    assert None not in data["trace"]["values"]
    assert data["reproduce"]["python"].endswith(
        "model = um.LDA(n_components=2, random_state=0).fit(X)\nfit = model.result_"
    )


def test_names_that_are_whole_texts_are_cut_and_the_page_says_so():
    data = data_of(page(make_fit(samples=np.array(["x" * 500] * 40))))
    assert len(data["samples"]["names"][0]) == 200
    assert data["notes"] == ["Names are cut after 200 letters."]


def test_numbers_are_time_only_if_they_look_like_years_or_are_called_so():
    def is_time(name, values):
        return column_of(name, pd.Series(values)).tells_time

    assert is_time("x", [1990, 1991, 1995])
    assert is_time("collection date", pd.Series(["2020-01", "2020-02", "2020-03"], index=[7, 7, 7]))
    assert is_time("pseudotime", [0.1, 0.2, 0.7])
    assert not is_time("candidate", [1, 2, 3])
    assert not is_time("x", [1990.5, 1991, 1995])


def test_moves_are_in_the_trace_and_long_traces_are_thinned():
    rows = 10_000
    trace = pd.DataFrame(
        {"iteration": range(rows), "seconds": np.linspace(0, 9, rows), "objective": np.linspace(-9, 0, rows)}
    )
    trace["stage"], trace["note"] = "fit", ""
    trace.loc[7_777, ["stage", "note"]] = ["refine", "merge 1+2, split 3: kept (estimated +9)"]
    fit = um.Fit(np.ones((4, 2)), np.ones((5, 2)), trace, "converged", 0.0)
    sent = data_of(page(fit))["trace"]
    assert len(sent["seconds"]) < 2_000
    assert (sent["iterations"][0], sent["iterations"][-1]) == (0, rows - 1)
    assert sent["notes"][sent["stages"].index("refine")].startswith("merge 1+2, split 3: kept")


def test_the_recipe_fits_the_same_model_again():
    X = um.datasets.digits()
    fit = um.TopicModel(3, solver="scd", max_iter=4, tol=0, init="random", random_state=5).fit(X).result_
    fit = replace(fit, data=fit.data | {"source": "it's.csv", "command": ["unmix", "fit", "it's.csv"]})
    recipe = data_of(page(fit))["reproduce"]
    assert recipe["command"] == """unmix fit 'it'"'"'s.csv'"""
    assert ["checksum", fit.data["checksum"]] in recipe["data"]
    names = {"um": um}
    exec(recipe["python"].replace('um.read("it\'s.csv")', "um.datasets.digits()"), names)
    np.testing.assert_array_equal(names["fit"].L, fit.L)


def test_the_title_is_that_given_else_the_source():
    fit = make_fit(data={"source": "speeches.csv"})
    assert (data_of(page(fit, "Mine"))["title"], data_of(page(fit))["title"]) == ("Mine", "speeches.csv")
    assert data_of(page(make_fit()))["title"] == "Topics of 40 samples × 30 features"


def test_a_failed_write_leaves_the_old_page(tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old")
    with pytest.raises(TypeError, match="NoneType is not a fit"):
        write_report(None, target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_quantised_proportions_cover_the_whole_range():
    assert quantised_proportions(np.array([0.0, 0.5, 1.0, 1 + 1e-12])).tolist() == [0, 32768, 65535, 65535]


def test_topics_say_what_was_known_of_them() -> None:
    rng = np.random.default_rng(0)
    F = rng.dirichlet(np.full(30, 0.3), 3).T
    X = um.Counts(rng.poisson(rng.gamma(0.5, 60, (40, 3)) @ F.T), features=[f"g{j}" for j in range(30)])
    model = um.PoissonNMF(3, known=F[:, :1], seeds={"words": [f"g{j}" for j in range(10)]}, tol=1e-3, random_state=0)
    words = "seeds: g0, g1, g2, g3, g4, g5, g6, g7, …"
    topics = payload(model.fit(X).result_, "t")["topics"]
    assert [topic.get("known") for topic in topics] == ["known, and held as it is", words, None]
    model.set_params(known_weight=10)
    assert payload(model.fit(X).result_, "t")["topics"][0]["known"] == "partly known"
    plain = payload(um.PoissonNMF(3, tol=1e-3, random_state=0).fit(X).result_, "t")["topics"]
    assert not any("known" in topic for topic in plain)
