"""Names of topics, once given, stand wherever topics are named: tables, files, pictures, `set_output`, AnnData."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts

import unmix as um
from unmix.cli import main
from unmix.io.write import write_fit

X = um.Counts(random_counts(), features=[f"type {j}" for j in range(15)])
SIGNATURES = pd.DataFrame(
    np.random.default_rng(5).gamma(0.4, 1, (15, 3)) + 0.02, index=X.features, columns=["SBS1", "SBS2", "SBS13"]
)


def a_fit() -> um.Fit:
    return um.PoissonNMF(3, random_state=0).fit(X).result_


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match="0"):
        main(arguments)
    return capsys.readouterr().out


def test_names_of_known_factors_are_those_of_the_topics() -> None:
    for kind in (um.PoissonNMF, um.TopicModel, um.SparsePoissonNMF):
        model = kind.from_factors(SIGNATURES)
        assert model.result_.labels == ["SBS1", "SBS2", "SBS13"]
        assert list(model.set_output(transform="pandas").transform(X)) == ["SBS1", "SBS2", "SBS13"]
        assert set(model.result_.top_features(3)["name"]) == {"SBS1", "SBS2", "SBS13"}
    assert um.PoissonNMF.from_factors(SIGNATURES.to_numpy()).result_.names is None
    assert um.PoissonNMF.from_factors(pd.DataFrame(SIGNATURES.to_numpy())).result_.names is None, (
        "0, 1, 2 are not valid names"
    )


def test_samples_and_features_without_names_are_numbered_from_1_everywhere(tmp_path: Path) -> None:
    counts = random_counts()
    fit = um.PoissonNMF(3, random_state=0).fit(counts).result_
    write_fit(fit, tmp_path / "fit")
    proportions, topics = (pd.read_csv(tmp_path / "fit" / f"{name}.csv") for name in ("proportions", "topics"))
    freedom, intervals = um.freedom(fit), um.intervals(fit, counts, sweeps=5, burn_in=0, random_state=0)
    um.write_report(fit, tmp_path / "report.html", freedom=freedom)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    compared = um.compare(fit, um.PoissonNMF(3, random_state=1).fit(counts).result_).proportions["sample"]
    firsts = [
        *(table["sample"][0] for table in (proportions, freedom.by_sample, intervals.by_sample)),
        *(data["samples"]["names"][0], data["freedom"]["names"][0], fit.sample_names[0]),
    ]
    assert firsts == ["sample 1"] * 6
    assert {*compared, *freedom.table["sample"]} <= set(fit.sample_names.tolist())
    assert topics["feature"].tolist() == um.differences(fit, counts).names == fit.feature_names.tolist()
    assert fit.feature_names[0] == "feature 1"
    assert set(fit.top_features(3)["feature"]) <= set(fit.feature_names)


def test_names_go_to_every_table_and_the_saved_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit = a_fit().with_names(["clock", "sun", "smoke"])
    write_fit(fit, tmp_path / "fit")
    for name in ("proportions", "exposures", "topics"):
        assert list(pd.read_csv(tmp_path / "fit" / f"{name}.csv", index_col=0)) == ["clock", "sun", "smoke"]
    assert um.load(tmp_path / "fit" / "model.safetensors").labels == ["clock", "sun", "smoke"]
    assert "sun" in told(["info", str(tmp_path / "fit")], capsys)
    pd.DataFrame(random_counts(), columns=X.features).to_csv(tmp_path / "new.csv")
    told(["transform", str(tmp_path / "fit"), str(tmp_path / "new.csv"), "-o", str(tmp_path / "p.csv")], capsys)
    assert list(pd.read_csv(tmp_path / "p.csv", index_col=0)) == ["clock", "sun", "smoke"]
    answer = json.loads(told(["info", str(tmp_path / "fit"), "--json"], capsys))
    assert [topic["name"] for topic in answer["topics"]] == ["clock", "sun", "smoke"]


def test_the_terminal_gives_names_to_all_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = tmp_path / "fit", tmp_path / "fit.safetensors"
    write_fit(a_fit(), folder)
    a_fit().save(file)
    told(["report", str(folder), "--names", "2=sun"], capsys)
    told(["report", str(folder), "--names", "3=smoke"], capsys)
    assert list(pd.read_csv(folder / "proportions.csv", index_col=0)) == ["topic 1", "sun", "smoke"]
    assert um.load(folder / "model.safetensors").labels == ["topic 1", "sun", "smoke"]
    assert {"report.html", "structure.png"} < {path.name for path in folder.iterdir()}
    (tmp_path / "names.json").write_text(json.dumps({"1": "clock"}))
    told(["report", str(file), "--names", str(tmp_path / "names.json")], capsys)
    assert um.load(file).labels == ["clock", "topic 2", "topic 3"]
    told(["report", str(file), "--names", "a,b,c"], capsys)
    assert um.load(file).labels == ["a", "b", "c"]
    for bad, message in (
        ("4=d", "--names 4=d; this fit has topics 1 to 3"),
        ("a,b", "2 names for 3 topics"),
        ("a,a,b", "would be called"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["report", str(file), "--names", bad])
        assert message in capsys.readouterr().err
    (tmp_path / "names.json").write_text("[1, 2, 3]")
    with pytest.raises(SystemExit, match="2"):
        main(["report", str(file), "--names", str(tmp_path / "names.json")])
    assert "holds no names of topics (1 is not a valid name)" in capsys.readouterr().err
    assert um.load(file).labels == ["a", "b", "c"]


def test_names_stand_in_pictures_and_on_the_page() -> None:
    fit = a_fit().with_names({1: "clock $1", 3: "smoke"})
    assert um.analysis.topic_names(fit)[0] == "1: clock $1"
    assert "type" in um.analysis.topic_names(fit)[1]
    legend = um.plot.structure(fit).get_legend()
    assert {"1: clock $1", "3: smoke"} < {text.get_text() for text in legend.get_texts()}
    assert any(panel.get_title(loc="left").startswith("smoke") for panel in um.plot.top_features(fit))
    from unmix.report.payload import payload

    assert [topic["name"] for topic in payload(fit, "")["topics"]] == ["clock $1", "", "smoke"]


def test_names_survive_in_an_anndata() -> None:
    pytest.importorskip("anndata")
    fit = a_fit().with_names({2: "sun"})
    assert um.sc.to_fit(um.sc.from_fit(fit)).labels == ["topic 1", "sun", "topic 3"]
    assert um.sc.to_fit(um.sc.from_fit(a_fit())).names is None


def test_exposures_are_counts_and_add_up_to_those_of_the_sample() -> None:
    fit = a_fit()
    np.testing.assert_allclose(fit.exposures.sum(axis=1), random_counts().sum(axis=1), rtol=1e-3)
    np.testing.assert_allclose(fit.exposures, fit.L * fit.F.sum(axis=0))


BAD: dict[str, tuple[Any, str]] = {
    "too few": (["a", "b"], "2 names for 3 topics"),
    "a word": ("abc", "3 names for 3 topics; use one each"),
    "twice": (["a", "b", "a"], "two topics would be called 'a'"),
    "another's": ({1: "topic 2"}, "two topics would be called 'topic 2'"),
    "no such topic": ({4: "d"}, "there is no topic 4; this fit has topics 1 to 3"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_names_are_refused(case: str) -> None:
    names, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        a_fit().with_names(names)
    assert a_fit().with_names(["a", "b", "c"]).with_names(None).labels == ["topic 1", "topic 2", "topic 3"]


def test_completion_shows_the_public_names_alone() -> None:
    assert set(dir(um)) == {*um.__all__, "sc"}
    for room in (um.datasets, pytest.importorskip("unmix.sc").tl, um.sc.pl):
        assert dir(room) == sorted(room.__all__)


def test_samples_that_look_like_features_are_said_to_be_turned():
    X = np.arange(1, 13.0).reshape(4, 3)
    genes = [f"ENSG{i:011d}" for i in range(4)]
    with pytest.warns(UserWarning, match="the samples have names of Ensembl genes, .* transpose the counts"):
        um.PoissonNMF(2, max_iter=2, tol=0).fit(um.Counts(X, samples=genes))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        um.PoissonNMF(2, max_iter=20, tol=0).fit(um.Counts(X.T, features=genes))


def test_a_table_with_a_name_twice_or_without_numbers_is_refused_by_the_column():
    table = pd.DataFrame({"ant": [1, 2], "bee": [3, 4]}).set_axis(["ant", "ant"], axis=1)
    with pytest.raises(ValueError, match="several columns of the table are called 'ant'; use a different name"):
        um.PoissonNMF(1).fit(table)
    for cells, what in (("a", "text"), (pd.Timestamp("2020"), "dates")):
        with pytest.raises(ValueError, match=f"the column 'day' holds {what}; unmix needs numbers"):
            um.PoissonNMF(1).fit(pd.DataFrame({"ant": [1, 2], "day": cells}))
