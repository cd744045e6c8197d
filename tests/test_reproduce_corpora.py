"""The race of algorithms, the records and the page: claims on small data, without the corpora."""

import json

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts
from reproduce import __main__ as page
from reproduce import corpora, records
from reproduce.common import Job, MissingDataError, Section, markdown, thousands

import unmix as um

X = um.Counts(random_counts(60, 80, 6, seed=5))


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results of its own, and small data under the names of the corpora."""
    monkeypatch.setattr(records, "FILE", tmp_path / "records.csv")
    monkeypatch.setattr(records, "ATTEMPTS", tmp_path / "records-attempts.csv")
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    for module in (records, corpora):
        monkeypatch.setattr(module, "counts", lambda name: X)
    paper = pd.DataFrame({"dataset": ["nips"] * 2, "K": [4, 4], "method": ["em", "scd"], "final_loglik": [-9e9, -8e9]})
    monkeypatch.setattr(records, "paper_logliks", lambda: paper)
    return tmp_path


def test_all_algorithms_start_at_the_same_point_and_none_falls_below_it() -> None:
    traces = corpora.race(X, 4, before=10, after=15)
    assert list(traces) == list(corpora.ALGORITHMS)
    starts = [trace["loglik"].iloc[0] for trace in traces.values()]
    np.testing.assert_allclose(starts, starts[0], rtol=1e-12)
    for trace in traces.values():
        assert len(trace) == 16
        assert trace["loglik"].iloc[-1] > starts[0]
        assert trace["kkt"].notna().sum() > 5


def test_a_search_keeps_the_best_attempt_as_the_record_and_never_repeats_one(results, capsys) -> None:
    records.main(["--search", "nips", "4", "--seeds", "0", "1", "2", "--refine", "0", "--init", "random"])
    tried, best = records.attempts(), records.records()
    assert tried["seed"].tolist() == [0, 1, 2]
    assert best["loglik"].tolist() == [tried["loglik"].max()]
    capsys.readouterr()
    records.search("nips", 4, [0, 1, 2], "random", 0)
    assert capsys.readouterr().out == ""
    assert len(records.attempts()) == 3


def test_a_record_comes_out_the_same_when_it_is_fitted_again(results, capsys) -> None:
    records.search("nips", 4, [0], "auto", 2)
    assert records.main(["--check", "nips", "4"]) == 0
    assert "(+0.00)" in capsys.readouterr().out
    table = records.records()
    table["loglik"] += 100
    table.to_csv(results / "records.csv", index=False)
    assert records.main(["--check", "nips", "4"]) == 1
    with pytest.raises(SystemExit, match="no record of nips with K = 7"):
        records.main(["--check", "nips", "7"])


def test_records_are_compared_as_the_paper_measures(results) -> None:
    records.search("nips", 4, [0], "auto", 0)
    row = records.beside_the_paper().iloc[0]
    record = records.records().iloc[0]
    fit = (
        um.TopicModel(4, tol=records.TOL, max_iter=records.MAX_ITER, random_state=0, n_jobs=2, init="auto")
        .fit(X)
        .result_
    )
    rates = (fit.L @ fit.F.T)[X.csr.toarray() > 0]
    counts = X.csr.toarray()[X.csr.toarray() > 0]
    expected = fit.loglik + (counts * (np.log(rates + 1e-8) - np.log(rates))).sum()
    assert record["as_paper"] == pytest.approx(expected, abs=0.006)
    assert row["above"] == pytest.approx(record["as_paper"] + 8e9)


def test_the_result_writes_pictures_tables_and_a_section(results, monkeypatch) -> None:
    monkeypatch.setattr(corpora, "race", lambda X, K, before, after, race=corpora.race: race(X, K, 3, 4))
    records.search("nips", 4, [0], "auto", 0)
    section = corpora.main(Job("corpora", folder=results))
    assert {"corpora.csv", "corpora-loglik.png", "corpora-kkt.png"} <= {path.name for path in results.iterdir()}
    table = pd.read_csv(results / "corpora.csv")
    assert len(table) == 2 * 2 * 5
    assert "| NeurIPS | 4 |" in section.text
    default = pd.read_csv(results / "corpora-default.csv")
    assert f"{default['loglik'][1]:,.1f}".replace("-", "−") in section.text


def test_claims_that_did_not_hold_are_listed() -> None:
    table = pd.DataFrame(
        {"dataset": "nips", "K": 4, "algorithm": list(corpora.ALGORITHMS), "loglik": [-10.0, -9.0, -12.0, -9.0, -8.0]}
    )
    (doubt,) = corpora.unconfirmed(table)
    assert "plain EM ended 2.0 units above SCD" in doubt


def test_the_page_has_the_sections_in_order_and_the_doubts_at_the_end(results, monkeypatch) -> None:
    made = {"plsi": Section("about PLSI", ["a doubt"]), "simulations": Section("about simulations")}
    monkeypatch.setattr(page, "import_module", lambda name: type("M", (), {"main": lambda job: made[job.name]}))
    for name in made:
        page.make(name, full=name == "plsi")
    page.write_page()
    text = (results / "README.md").read_text(encoding="utf-8")
    assert text.index("about simulations") < text.index("about PLSI") < text.index("- a doubt")
    assert "`python -m reproduce plsi --full`" in text
    assert json.loads((results / "plsi.json").read_text())["full"]


def test_what_lacks_its_data_is_skipped_and_said(results, monkeypatch, capsys) -> None:
    def missing(job):
        raise MissingDataError("nips is not in the folder")

    monkeypatch.setattr(page, "import_module", lambda name: type("M", (), {"main": missing}))
    assert page.main(["plsi", "swimmer"]) == 0
    assert "skipped swimmer: nips is not in the folder" in capsys.readouterr().out


def test_numbers_and_tables_of_the_page() -> None:
    assert thousands([-12384999.3, 0.5, np.nan], 1) == ["−12,384,999.3", "0.5", "–"]
    assert markdown(pd.DataFrame({"a": [1], "b": ["x"]})) == "| a | b |\n| --- | --- |\n| 1 | x |"
