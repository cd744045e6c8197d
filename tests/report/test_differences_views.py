"""Differences where people see them: pictures, the terminal, AnnData, the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.cli import main
from unmix.plot.differences import CLASSES, most_different
from unmix.report.page import page
from unmix.report.payload import payload

HOSTILE = "</script><script>window.canary=1</script>"


def drawn(n: int = 60, m: int = 230, K: int = 3, seed: int = 0) -> um.Counts:
    rng = np.random.default_rng(seed)
    F = rng.gamma(0.4, 1, (m, K))
    X = rng.poisson(300 * rng.dirichlet(np.full(K, 0.3), n) @ (F / F.sum(axis=0)).T)
    X[0] += X.sum(axis=0) == 0
    X[:, 5] = 0
    names = [HOSTILE if j == 3 else f"word {j}" for j in range(m)]
    donors = pd.DataFrame({"donor": [f"d{i % 6}" for i in range(n)]})
    return um.Counts(X, samples=[f"text {i}" for i in range(n)], features=names, metadata=donors)


@pytest.fixture(scope="module")
def made() -> tuple[um.Fit, um.Counts, um.Differences]:
    X = drawn()
    fit = um.TopicModel(3, random_state=0, tol=1e-3).fit(X).result_
    return fit, X, um.differences(fit, X)


# ---- pictures


def points_of(ax) -> np.ndarray:
    return np.concatenate([np.asarray(dots.get_offsets()) for dots in ax.collections])


def test_a_volcano_has_a_point_for_every_feature_that_is_known(made) -> None:
    _, _, d = made
    ax = um.plot.volcano(d, 2)
    points = points_of(ax)
    assert len(points) == 229
    np.testing.assert_allclose(sorted(points[:, 0]), sorted(np.delete(d.lfc[:, 1], 5)))
    np.testing.assert_allclose(sorted(points[:, 1]), sorted(np.abs(np.delete(d.z[:, 1], 5))))
    words = {text.get_text() for text in ax.texts}
    assert words <= {d.names[j] for j in most_different(d, 1, 20)} | {HOSTILE[:19] + "…"}
    assert "log₂" in ax.get_xlabel()


def test_points_are_coloured_by_how_sure_their_sign_is(made) -> None:
    _, _, d = made
    ax = um.plot.volcano(d, 1)
    known = np.delete(d.lfsr[:, 0], 5)
    sizes = [len(dots.get_offsets()) for dots in ax.collections]
    bounds = [bound for bound, _ in CLASSES]
    expected = [(known >= 0.05).sum()] + [
        ((known < bound) & (known >= low)).sum()
        for bound, low in zip(bounds[::-1], [*bounds[::-1][1:], -1], strict=True)
    ]
    assert sizes == expected


def test_what_is_too_high_is_a_triangle_at_the_top(made) -> None:
    _, _, d = made
    high = int((np.abs(d.z[:, 0]) > 5).sum())
    assert high > 0
    points = points_of(um.plot.volcano(d, 1, ymax=5.0))
    assert (points[:, 1] == 5).sum() == high
    assert points[:, 1].max() == 5


def test_up_may_be_the_frequency(made) -> None:
    _, _, d = made
    ax = um.plot.volcano(d, 1, y="frequency")
    assert ax.get_yscale() == "log"
    np.testing.assert_allclose(sorted(points_of(ax)[:, 1]), sorted(np.delete(d.frequency, 5)))
    with pytest.raises(ValueError, match="y='height'; choose one of z, frequency"):
        um.plot.volcano(d, 1, y="height")


def test_the_heat_map_shows_the_top_of_every_topic(made) -> None:
    _, _, d = made
    ax = um.plot.differences(d, n=4)
    names = [label.get_text() for label in ax.get_yticklabels()]
    for topic in (1, 2, 3):
        assert {name if name != HOSTILE else HOSTILE[:21] + "…" for name in d.top(topic, 4)["feature"]} <= set(names)
    order = [int(label.get_text()) - 1 for label in ax.get_xticklabels()]
    assert (np.diff(d.shares[order]) <= 0).all()
    assert um.plot.differences(d, n=2, topics=[3, 1]).get_xticklabels()[0].get_text() == "3"


def test_nothing_different_is_a_picture_too(made) -> None:
    _, _, d = made
    nothing = replace(d, lfsr=np.ones_like(d.lfsr))
    assert "no significant difference" in [text.get_text() for text in um.plot.differences(nothing).texts]
    um.plot.volcano(nothing, 1)
    unknown = replace(d, lfc=np.full_like(d.lfc, np.nan), z=np.full_like(d.z, np.nan), lfsr=np.ones_like(d.lfsr))
    um.plot.volcano(unknown, 1).figure.canvas.draw()
    um.plot.differences(unknown).figure.canvas.draw()


def test_naive_and_held_out_tests_stand_side_by_side(made) -> None:
    fit, X, d = made
    honest = um.differences(fit, X, held_out=0.5, random_state=0)
    ax = um.plot.held_out(d, honest)
    known = np.isfinite(d.z) & np.isfinite(honest.z)
    assert len(points_of(ax)) >= known.sum()
    assert "beyond ±1.96" in ax.get_ylabel()
    with pytest.raises(ValueError, match="not held out"):
        um.plot.held_out(d, d)
    with pytest.raises(ValueError, match="same features and topics"):
        um.plot.held_out(replace(d, z=d.z[:5]), honest)


# ---- the terminal


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        return exit.value.code, *capsys.readouterr()

    return command


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    """A fit's folder and its counts, made once."""
    from unmix.io.write import write_counts, write_fit

    place = tmp_path_factory.mktemp("made")
    write_fit(made[0], place / "model")
    write_counts(made[1], place / "counts.npz")
    return place


def test_the_command_writes_tables_and_pictures(run, folder, made) -> None:
    code, out, err = run("differences", folder / "model", folder / "counts.npz", "-o", "here", "--against", "rest")
    assert code == 0
    assert "significant" in out
    assert "same counts" in err
    written = {path.name for path in __import__("pathlib").Path("here").iterdir()}
    volcanoes = {f"volcano-{k}.png" for k in (1, 2, 3)}
    assert written == {"differences.csv", "differences.html", "differences.safetensors", "differences.png", *volcanoes}
    table = pd.read_csv("here/differences.csv")
    found = um.Differences.load("here/differences.safetensors")
    assert found.against == "rest"
    assert len(table) == (found.lfsr < 0.05).sum()
    np.testing.assert_array_equal(found.z, um.differences(made[0], made[1], "rest").z)
    code, _, _ = run("differences", folder / "model", folder / "counts.npz", "-o", "here", "--lfsr", 1, "--quiet")
    assert code == 0
    assert len(pd.read_csv("here/differences.csv")) == 690


def test_the_command_takes_topics_donors_and_held_out_counts(run, folder) -> None:
    where = ("differences", folder / "model", folder / "counts.npz", "-o", "here", "--json")
    code, out, _ = run(*where, "--against", 2, "--held-out", 0.5, "--seed", 3, "--groups", "donor", "--threads", 1)
    assert code == 0
    told = json.loads(out)
    assert told["against"] == 2
    assert told["held_out"] == 0.5
    assert [row["topic"] for row in told["table"]] == [1, 2, 3]
    assert um.Differences.load("here/differences.safetensors").groups == 6


def test_ctrl_c_writes_what_is_finished_and_leaves_with_130(run, folder, monkeypatch) -> None:
    from importlib import import_module

    study = import_module("unmix.analysis.differences")
    monkeypatch.setattr(study, "features_at_once", lambda _: 100)
    whole = study.LogFactors.of

    def interrupted(found):
        if len(found.modes) < 100:  # the last block
            raise KeyboardInterrupt
        return whole(found)

    monkeypatch.setattr(study.LogFactors, "of", interrupted)
    code, _, err = run("differences", folder / "model", folder / "counts.npz", "-o", "here", "-q")
    assert code == 130
    assert "30 of 230 features are not finished" in err
    found = um.Differences.load("here/differences.safetensors")
    assert found.status == "interrupted"
    assert np.isnan(found.z[200:]).all()
    assert np.isfinite(found.z[10:200]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--against", "best"), "--against best; choose"),
        (("--against", "9"), "--against 9; choose"),
        (("--errors", "none"), "--errors none; choose"),
        (("--groups", "colour"), "no column 'colour'"),
        (("--held-out", "2"), "--held-out 2"),
        (("--pseudocount", "0"), "--pseudocount 0.0; use"),
    ],
)
def test_bad_options_end_with_one_line(run, folder, arguments, message) -> None:
    code, _, err = run("differences", folder / "model", folder / "counts.npz", "-o", "here", *arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_folder_of_other_things_is_not_written_to(run, folder, tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", encoding="utf-8")
    code, _, err = run("differences", folder / "model", folder / "counts.npz", "-o", "mine")
    assert code == 2
    assert "holds files that are not such results" in err
    assert run("differences", folder / "model", folder / "counts.npz", "-o", "mine", "--force", "-q")[0] == 0
    assert (tmp_path / "mine" / "letter.txt").is_file()


def test_fit_tells_differences_and_the_page_keeps_them(run, folder, tmp_path) -> None:
    options = ("fit", folder / "counts.npz", "-k", 3, "--tol", "1e-3", "-o", "model", "-q")
    assert run(*options, "--differences")[0] == 0
    text = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert '"differences":' in text
    assert (tmp_path / "model" / "differences.csv").is_file()
    assert run("report", "model", "-o", "again.html", "-q")[0] == 0
    assert '"differences":' in (tmp_path / "again.html").read_text(encoding="utf-8")
    assert run(*options)[0] == 0  # the topics are others now, and what set the old ones apart is gone
    assert not (tmp_path / "model" / "differences.safetensors").exists()
    assert '"differences":' not in (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert run("differences", "model", folder / "counts.npz", "-q")[0] == 0
    assert '"differences":' in (tmp_path / "model" / "report.html").read_text(encoding="utf-8")


def test_one_topic_cannot_be_compared_and_that_is_said_before_the_fit(run, folder) -> None:
    code, _, err = run("fit", folder / "counts.npz", "-k", 1, "--differences")
    assert code == 2
    assert "there is one only" in err


# ---- AnnData


@pytest.fixture
def adata(made):
    anndata = pytest.importorskip("anndata")
    _, X, _ = made
    cells = anndata.AnnData(X.csr, obs=X.metadata.set_index(pd.Index(X.samples.astype(object))))
    cells.var_names = [f"gene {j}" for j in range(X.shape[1])]
    um.sc.tl.topics(cells, n_topics=3, tol=1e-3)
    return cells


def rank_genes_groups_df(adata, group: str, key: str) -> pd.DataFrame:
    """What `scanpy.get.rank_genes_groups_df` does, for one group."""
    columns = ["names", "scores", "logfoldchanges", "pvals", "pvals_adj"]
    return pd.DataFrame({name: pd.DataFrame(adata.uns[key][name])[group] for name in columns})


def test_differences_are_kept_as_scanpy_keeps_ranked_genes(adata) -> None:
    um.sc.tl.differences(adata, against="rest", groups="donor")
    kept = adata.uns["topics_differences"]
    d = um.differences(um.sc.to_fit(adata), um.Counts(adata.X), "rest", groups=adata.obs["donor"].to_numpy())
    assert kept["params"]["groupby"] == "topics"
    assert set(kept["names"].dtype.names) == set(adata.obs["topics"].cat.categories)
    for k in range(3):
        table = rank_genes_groups_df(adata, str(k + 1), "topics_differences").set_index("names")
        assert len(table) == adata.n_vars
        assert table["scores"].is_monotonic_decreasing or table["scores"].iloc[-1] == 0
        known = table.loc[np.delete(adata.var_names, 5)]
        np.testing.assert_allclose(known["scores"], np.delete(d.z[:, k], 5), rtol=1e-5)
        np.testing.assert_allclose(known["logfoldchanges"], np.delete(d.lfc[:, k], 5), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(known["pvals_adj"], np.delete(d.lfsr[:, k], 5))
        np.testing.assert_allclose(known["pvals"], np.delete(d.svalue[:, k], 5))
        assert (table["pvals"] <= table["pvals_adj"] + 1e-12).all()
        assert table.loc["gene 5", "pvals"] == 1
        assert table.index[-1] == "gene 5"


def test_what_is_kept_survives_a_file(adata, tmp_path) -> None:
    anndata = pytest.importorskip("anndata")
    um.sc.tl.differences(adata, key_added="ranked")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    for group in ("1", "3"):
        pd.testing.assert_frame_equal(
            rank_genes_groups_df(back, group, "ranked").astype({"names": object}),
            rank_genes_groups_df(adata, group, "ranked"),
            check_dtype=False,
        )


def test_counts_are_taken_from_where_the_topics_came_from(adata) -> None:
    adata.layers["counts"] = adata.X.copy()
    adata.X = adata.X * 0.5
    um.sc.tl.topics(adata, n_topics=3, layer="counts", tol=1e-3)
    um.sc.tl.differences(adata)
    assert adata.uns["topics_differences"]["params"]["layer"] == "counts"


def test_a_copy_leaves_the_cells_alone_and_all_genes_are_tested(adata) -> None:
    um.sc.tl.topics(adata, n_topics=3, mask_var=np.arange(adata.n_vars) % 2 == 0, key_added="half", tol=1e-3)
    other = um.sc.tl.differences(adata, key="half", held_out=0.5, copy=True)
    assert "half_differences" not in adata.uns
    assert len(other.uns["half_differences"]["names"]) == adata.n_vars
    with pytest.raises(ValueError, match="no topics under 'other'"):
        um.sc.tl.differences(adata, key="other")


# ---- the page


def content_of(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_has_the_section_only_where_differences_are_given(made) -> None:
    fit, _, d = made
    assert "differences" not in content_of(page(fit))
    told = content_of(page(fit, results={"differences": d}))["differences"]
    assert told["against"] == "next"
    assert told["sure"] == [int((d.lfsr[:, k] < 0.05).sum()) for k in range(3)]
    assert len(told["topics"]) == 3
    with pytest.raises(ValueError, match="differences of 3 topics"):
        page(replace(fit, L=fit.L[:, :2], F=fit.F[:, :2]), results={"differences": d})


def test_the_page_holds_the_numbers_of_the_features_it_shows(made) -> None:
    import base64

    fit, _, d = made
    told = payload(fit, "", results={"differences": d})["differences"]
    for k, topic in enumerate(told["topics"]):
        places = np.frombuffer(base64.b64decode(topic["places"]), "<u4")
        numbers = np.frombuffer(base64.b64decode(topic["numbers"]), "<f4").reshape(-1, 5)
        rows = [d.names.index(told["names"][place]) for place in places]
        assert len(rows) == 229
        for column, values in enumerate((d.lfc, d.lfc_raw, d.sd, d.z, d.lfsr)):
            np.testing.assert_allclose(numbers[:, column], values[rows, k], rtol=1e-6)


def test_of_many_features_the_most_different_are_shown_and_an_even_part_of_the_others(made, monkeypatch) -> None:
    from unmix.report import sections

    fit, _, d = made
    monkeypatch.setattr(sections, "MOST_POINTS", 90)
    monkeypatch.setattr(sections, "FEWEST_POINTS", 10)
    topic = payload(fit, "", results={"differences": d})["differences"]["topics"][0]
    assert topic["left_out"] == 229 - 30
    rows = sections._shown(d, 0, 30)
    assert len(set(rows.tolist())) == 30
    scores = np.nan_to_num(np.abs(d.lfc[:, 0] * d.z[:, 0]))
    assert set(np.argsort(-scores)[:15].tolist()) <= set(rows.tolist())


def test_marks_are_the_features_that_a_topic_surely_uses_more(made) -> None:
    import base64

    fit, _, d = made
    told = payload(fit, "", results={"differences": d})
    for k, mark in enumerate(told["differences"]["marks"]):
        bits = np.unpackbits(np.frombuffer(base64.b64decode(mark), np.uint8))[: len(told["features"]["names"])]
        rows = [d.names.index(name) for name in told["features"]["names"]]
        np.testing.assert_array_equal(bits == 1, ((d.lfsr < 0.05) & (d.lfc > 0))[rows, k])
