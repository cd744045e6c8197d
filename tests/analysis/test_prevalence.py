"""Mean proportions by group and over time: what they are, what their intervals hold, where they can be asked for."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import unmix as um
from unmix.analysis.prevalence import _means
from unmix.fit import Fit


def fit_with(proportions: np.ndarray, metadata: pd.DataFrame | None = None, sizes: float | np.ndarray = 50.0) -> Fit:
    """A fit of exactly these proportions."""
    n, K = proportions.shape
    L, F = um.topics_to_poisson(proportions, np.full((6, K), 1 / 6), np.broadcast_to(sizes, n).astype(float))
    names = np.array([f"s{i}" for i in range(n)])
    return Fit(L, F, pd.DataFrame(), "converged", -1.0, samples=names, metadata=metadata)


@pytest.fixture(scope="module")
def fit() -> Fit:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"party": np.repeat(["b", "a", "c"], [20, 30, 10]), "year": np.arange(1900, 1960)})
    return fit_with(rng.dirichlet([1.0, 0.5, 0.2], 60), table)


def test_means_of_groups_are_those_of_pandas_and_errors_those_of_the_mean(fit: Fit) -> None:
    found = um.prevalence(fit, by="party", level=0.8)
    assert found.table["group"].unique().tolist() == ["a", "b", "c"]
    frame = pd.DataFrame(fit.proportions).groupby(fit.metadata["party"])
    for k in range(3):
        own = found.table[found.table["topic"] == k + 1].set_index("group")
        np.testing.assert_allclose(own["mean"], frame.mean()[k], rtol=1e-10)
        assert own["samples"].tolist() == [30, 20, 10]
        # on the logit scale, by the delta method
        m, s, n = own["mean"], frame.sem()[k], own["samples"]
        reach = stats.t.ppf(0.9, n - 1) * s / (m * (1 - m))
        np.testing.assert_allclose(own["high"], 1 / (1 + np.exp(-np.log(m / (1 - m)) - reach)), rtol=1e-9)
        np.testing.assert_allclose(own["low"], 1 / (1 + np.exp(-np.log(m / (1 - m)) + reach)), rtol=1e-9)


@pytest.mark.parametrize(("alpha", "n"), [([2.0] * 4, 8), ([0.3] * 5, 20), ([0.1, 0.1, 2.0], 100)])
def test_intervals_hold_what_they_promise(alpha: list[float], n: int) -> None:
    rng, truth, held = np.random.default_rng(1), np.array(alpha) / np.sum(alpha), []
    for _ in range(400):
        found = _means(rng.dirichlet(alpha, n), np.zeros(n, dtype=np.intp), np.arange(n), 0.9)
        held.append((found["low"][0] <= truth) & (truth <= found["high"][0]))
    assert 0.86 <= np.mean(held) <= 0.94


def test_intervals_by_donor_hold_where_those_by_cell_do_not() -> None:
    rng, truth, held = np.random.default_rng(2), np.full(3, 1 / 3), {"cells": [], "donors": []}
    units = np.repeat(np.arange(12), 30)
    for _ in range(300):
        cells = np.vstack([rng.dirichlet(20 * centre, 30) for centre in rng.dirichlet([3.0, 3, 3], 12)])
        for name, unit in {"cells": np.arange(360), "donors": units}.items():
            found = _means(cells, np.zeros(360, dtype=np.intp), unit, 0.9)
            held[name].append((found["low"][0] <= truth) & (truth <= found["high"][0]))
    assert 0.86 <= np.mean(held["donors"]) <= 0.94
    assert np.mean(held["cells"]) < 0.6


def test_a_trend_is_means_of_bins(fit: Fit) -> None:
    found = um.prevalence(fit, over="year", bins=6)
    own = found.table[found.table["topic"] == 2]
    assert own["bin"].tolist() == [f"{year}–{year + 9}" for year in range(1900, 1960, 10)]
    np.testing.assert_allclose(own["mean"], fit.proportions[:, 1].reshape(6, 10).mean(axis=1))
    np.testing.assert_allclose(own["at"], np.arange(1904.5, 1960, 10))
    both = um.prevalence(fit, by="party", over="year", bins=6)
    assert len(both.table) == 3 * 6  # groups lie in different years here
    assert both.summary.columns.tolist() == ["name", "group", "first", "last", "peak"]
    dates = um.prevalence(fit, over=pd.date_range("2020-01-01", periods=60, freq="30D"), bins=10)
    assert dates.dates
    assert dates.table["at"].iloc[0] == pytest.approx(np.mean(np.arange(0, 180, 30)) + 18262, abs=31)


def test_what_has_no_counts_or_no_date_is_left_out_and_said() -> None:
    P, when = np.array([[1.0, 0], [0, 1], [0.5, 0.5], [0.2, 0.8]]), [1, 2, np.nan, 1]
    fit = fit_with(P, pd.DataFrame({"year": when, "party": list("aabb")}), np.array([9.0, 9, 9, 0]))
    found = um.prevalence(fit, over="year")
    assert found.table.query("topic == 1")["mean"].tolist() == [1, 0]
    assert found.table["low"].isna().all()  # one sample cannot tell how samples differ
    assert found.advice()[:2] == ["1 sample without year are omitted", "1 sample without counts are omitted"]
    assert um.prevalence(fit, by="party").table.query("topic == 1")["mean"].tolist() == [0.5, 0.5]


def test_metadata_are_found_by_name_wherever_they_lie(fit: Fit, tmp_path: Path) -> None:
    expected = um.prevalence(fit, by="party").table
    table = fit.metadata.set_axis(fit.samples, axis=0).sample(frac=1, random_state=0)
    bare = fit_with(fit.proportions)
    table.rename_axis("sample").reset_index().to_csv(tmp_path / "about.csv", index=False)
    X = um.Counts(np.ones((60, 6)), samples=fit.samples, metadata=fit.metadata)
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(np.ones((60, 6)), obs=table)
    for given in (table, tmp_path / "about.csv", X, adata):
        pd.testing.assert_frame_equal(um.prevalence(bare, by="party", metadata=given).table, expected)
    with pytest.raises(ValueError, match="there is no metadata"):
        um.prevalence(bare)
    with pytest.raises(ValueError, match="there is no column 'sex'; choose one of party, year"):
        um.prevalence(fit, by="sex")
    with pytest.raises(ValueError, match="use numbers or dates; texts are groups, by"):
        um.prevalence(fit, over="party")
    with pytest.raises(ValueError, match="by='samples'; use at most 100 groups, not 120; or numbers as over"):
        um.prevalence(fit_with(np.full((120, 2), 0.5)), by=pd.Series(np.arange(120), name="samples"))


def test_shards_have_the_same_means(tmp_path: Path) -> None:
    X = um.Counts(um.datasets.sotu()).take(np.arange(80), np.arange(300))
    folder = um.shard(X, tmp_path / "shards")
    start = (np.full((80, 3), 0.5), np.random.default_rng(0).random((300, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = um.TopicModel(3, init=start, max_iter=5, tol=0)
        streamed = model.fit(folder.with_metadata(X.metadata)).result_
    found = um.prevalence(streamed, by="president", groups="party")
    frame = pd.DataFrame(np.asarray(streamed.proportions)).groupby(X.metadata["president"].to_numpy()).mean()
    own = found.table.query("topic == 2").set_index("group")["mean"]
    np.testing.assert_allclose(own, frame.loc[own.index, 1], rtol=1e-10)


def test_examples_are_typical_samples_with_their_texts() -> None:
    X = um.read_texts(["red wine red wine", "red roses", "white snow snow", "white ice snow"], snippets=True)
    fit = um.TopicModel(2, random_state=0).fit(X).result_
    found = um.prevalence(fit, by=pd.Series(list("aabb"), name="kind"), examples=2)
    assert found.by == "kind"
    assert found.examples["rank"].tolist() == [1, 2, 1, 2]
    assert {*found.examples["group"]} == {"a", "b"}
    row = found.examples.iloc[0]
    assert row["snippet"] == X.metadata["snippet"][int(row["sample"].split()[-1]) - 1]
    assert not len(um.prevalence(fit, by=list("aabb"), examples=0).examples)


def test_it_is_kept_in_a_file(fit: Fit, tmp_path: Path) -> None:
    found = um.prevalence(fit, by="party", over="year")
    found.save(tmp_path / "p.safetensors")
    again = um.Prevalence.load(tmp_path / "p.safetensors")
    pd.testing.assert_frame_equal(again.table, found.table)
    assert (again.facts, again.advice()) == (found.facts, found.advice())


def test_topics_in_an_anndata_by_columns_of_obs() -> None:
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(np.random.default_rng(0).poisson(3.0, (40, 6)).astype(float))
    adata.obs["condition"] = pd.Categorical(np.repeat(["sick", "well"], 20), categories=["well", "sick"])
    adata.obs["donor"] = np.tile(list("abcde"), 8)
    um.sc.tl.topics(adata, n_topics=2)
    found = um.sc.tl.prevalence(adata, "condition", groups="donor")
    assert found.table["group"].tolist() == ["well", "sick"] * 2
    pd.testing.assert_frame_equal(adata.uns["topics_prevalence"], found.table)
    np.testing.assert_allclose(found.table["mean"].iloc[1], adata.obsm["X_topics"][:20, 0].mean())


def test_pictures_show_means_and_intervals(fit: Fit) -> None:
    found = um.prevalence(fit, by="party")
    panels = um.plot.prevalence(found)
    assert len(panels) == 3
    heaviest = int(np.argmax(fit.shares))
    own = found.table[found.table["topic"] == heaviest + 1]
    np.testing.assert_allclose(panels[0].collections[1].get_offsets()[:, 0], own["mean"])
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["a (30)", "b (20)", "c (10)"]
    lines = um.plot.prevalence(um.prevalence(fit, by="party", over="year"), topics=2, ax=panels[0])
    assert [line.get_label() for line in lines.get_lines()] == ["a", "b", "c"]


def test_the_command_writes_tables_for_latex_and_pictures(
    fit: Fit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from unmix.cli import main

    fit.with_names({1: "50% & more_"}).save(tmp_path / "model.safetensors")
    files = [tmp_path / f"out.{ending}" for ending in ("tex", "csv", "svg", "pdf")]
    with pytest.raises(SystemExit, match="0"):
        main(["prevalence", str(tmp_path / "model.safetensors"), "--by", "party", *(f"-o{file}" for file in files)])
    assert "50% & more_" in capsys.readouterr().out
    lines = files[0].read_text(encoding="utf-8").splitlines()
    assert lines[:3] == [r"\begin{tabular}{llll}", r"\toprule", r"name & a & b & c \\"]
    assert lines[4].startswith(r"1: 50\% \& more\_ & ")
    assert len(pd.read_csv(files[1])) == 9
    assert files[2].read_text(encoding="utf-8").startswith("<?xml")
    assert files[3].read_bytes().startswith(b"%PDF")


def batches(strength: float, columns: dict[str, np.ndarray] | None = None) -> Fit:
    """A topic of its own for the second of two batches, with this mean proportion there."""
    rng = np.random.default_rng(5)
    batch = np.repeat([0, 1], [120, 80])
    proportions = rng.dirichlet([1.0, 1.0, 0.5], 200)
    own = rng.beta(20 * strength + 1e-9, 20 * (1 - strength), 200) * (batch == 1) + 1e-3
    proportions = np.column_stack([proportions * (1 - own)[:, None], own])
    table = {"batch": np.where(batch, "stim", "ctrl"), "donor": rng.permutation(np.repeat(list("abcd"), 50))}
    return fit_with(proportions, pd.DataFrame(table | (columns or {})))


def test_a_topic_of_one_batch_is_named_with_its_ratio_and_the_batch_is_predicted() -> None:
    fit = batches(0.4)
    table = um.analysis.batch_topics(fit)
    assert table["column"].unique().tolist() == ["batch", "donor"]
    row = table.query("column == 'batch' and topic == 4").iloc[0]
    inside = fit.metadata["batch"].to_numpy() == "stim"
    mean, elsewhere = fit.proportions[inside, 3].mean(), fit.proportions[~inside, 3].mean()
    assert row["value"] == "stim"
    np.testing.assert_allclose([row["mean"], row["elsewhere"], row["ratio"]], [mean, elsewhere, mean / elsewhere])
    assert row["auc"] > 0.99
    assert table.query("column == 'donor'")["auc"].between(0.4, 0.6).all()
    said = [text for text in fit.advice() if "heavier" in text]
    assert len(said) == 1
    assert said[0].startswith(
        f"batch: topic 4 is {mean / elsewhere:,.0f} times heavier in stim than elsewhere; proportions"
    )


def test_batches_without_topics_of_their_own_are_not_mentioned() -> None:
    assert not any("batch" in text or "donor" in text for text in batches(0.0).advice())


@pytest.mark.parametrize("seed", range(20))
def test_random_labels_are_not_mentioned(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, K = 150, int(rng.integers(2, 12))
    labels = rng.integers(rng.integers(2, 9), size=n)
    fit = fit_with(rng.dirichlet(np.full(K, 0.3), n), pd.DataFrame({"library": labels.astype(str), "plate": labels}))
    assert not any("library" in text or "plate" in text for text in fit.advice())


def test_any_column_can_be_asked_for_and_small_batches_are_ignored() -> None:
    fit = batches(0.4, {"condition": np.repeat(["x", "y", "z"], [100, 95, 5])})
    assert set(um.analysis.batch_topics(fit, by="condition")["value"]) <= {"x", "y"}
    assert um.analysis.batch_topics(fit_with(fit.proportions)).empty
    with pytest.raises(ValueError, match="lane"):
        um.analysis.batch_topics(fit, by="lane")
