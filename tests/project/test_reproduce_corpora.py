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

pytestmark = pytest.mark.reproduce

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
    for module in (records, corpora):
        monkeypatch.setattr(module, "paper_logliks", lambda: paper)
    return tmp_path


def test_all_algorithms_start_at_the_same_point_and_none_falls_below_it() -> None:
    fits = corpora.race(X, 4, before=10, after=15)
    assert list(fits) == list(corpora.ALGORITHMS)
    traces = [fit.trace for fit in fits.values()]
    starts = [trace["loglik"].iloc[0] for trace in traces]
    np.testing.assert_allclose(starts, starts[0], rtol=1e-12)
    for trace in traces:
        assert len(trace) == 16
        assert trace["loglik"].iloc[-1] > starts[0]
        assert trace["kkt"].notna().sum() > 5


def test_an_algorithm_stops_when_nothing_is_left_to_gain() -> None:
    fits = corpora.race(X, 2, before=10, after=3000)
    assert len(fits["newton+ex"].trace) < 3000
    assert fits["newton+ex"].trace["kkt"].iloc[-1] <= corpora.SOLVED


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
    row = records.beside_the_paper(corpora.paper_logliks()).iloc[0]
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
    pictures = {f"corpora-{what}-{of}.png" for what in ("loglik", "kkt", "proportions") for of in corpora.CORPORA}
    assert pictures == {path.name for path in results.glob("*.png")}
    assert all(picture in section.text for picture in pictures)
    table = pd.read_csv(results / "corpora.csv")
    assert len(table) == len(corpora.CORPORA) * 2 * len(corpora.ALGORITHMS)
    assert (table.query("algorithm == 'scd+ex'")["moved"] == 0).all()
    assert table.query("algorithm == 'em'")["moved"].between(1e-9, 1).all()
    theirs = {"em": "−9,000,000,000", "scd": "−8,000,000,000"}
    cells = " | ".join(theirs.get(name, "–") for name in corpora.ALGORITHMS)
    assert f"| NeurIPS | 4 | the paper | {cells} |" in section.text
    ours = thousands(table.query("dataset == 'nips' and K == 4")["loglik"])
    assert f"| NeurIPS | 4 | ours | {' | '.join(ours)} |" in section.text
    default = pd.read_csv(results / "corpora-default.csv")
    assert f"{default['loglik'][0]:,.1f}".replace("-", "−") in section.text
    for name in ("found", "race", "default_fits", "paper_logliks"):
        monkeypatch.setattr(corpora, name, None)  # the section is a function of its tables alone
    assert corpora.main(Job("corpora", folder=results, written=True)) == section


def outcome(K: int, logliks: list[float], slowness: float = 1.0) -> pd.DataFrame:
    """A case as the result tabulates it: 100 iterations of a hundredth of a second, those of SCD slower. Both rules of
    extrapolation end alike."""
    names = list(corpora.ALGORITHMS)
    five = dict(zip(("em", "em+ex", "scd", "scd+ex", "newton+ex"), logliks, strict=True))
    logliks = [five[name.replace("+ag", "+ex")] for name in names]
    pace = [slowness if name.startswith("scd") else 1.0 for name in names]
    return pd.DataFrame(
        {"dataset": "nips", "K": K, "algorithm": names, "loglik": logliks, "seconds": pace, "iterations": 100}
    )


def test_claims_that_did_not_hold_are_listed() -> None:
    held = outcome(2, [-10.0, -9.0, -8.0, -7.0, -7.0])
    assert corpora.unconfirmed(held) == []
    (doubt,) = corpora.unconfirmed(pd.concat([held, outcome(4, [-10.0, -9.0, -12.0, -9.0, -8.0])]))
    assert "In 1 of 2 cases em ended above scd" in doubt
    assert "NeurIPS K = 4 (2.0)" in doubt
    (slow,) = corpora.unconfirmed(outcome(2, [-10.0, -9.0, -8.0, -7.0, -7.0], slowness=3.0))
    assert "takes 3.0 to 3.0 times as long" in slow


def test_what_held_is_counted() -> None:
    table = pd.concat([outcome(2, [-10.0, -9.0, -8.0, -7.0, -7.05]), outcome(4, [-10.0, -9.0, -12.0, -9.5, -8.0])])
    text = corpora.verdict(table.assign(moved=0.25))
    assert "SCD extrapolated by the published rule is the best, to 0.1 units, in 1 of 2 cases" in text
    assert "SCD ends above EM in 1 and below it in 1. Of the two rules, ours ends higher in 0 cases" in text
    assert "newton+ex is the best of all in 2." in text
    assert "| NeurIPS | 4 | 2.0 | 1.0 | 1.0 | 4.0 | 1.5 | 1.5 | 0.0 | 25.0% |" in text


def test_cases_are_told_apart_by_the_three_patterns() -> None:
    good, slow, other = (outcome(K, [-10.0 - gap, -9.0, -8.0, -7.0, -7.0]) for K, gap in ((2, 0), (3, 500), (4, 500)))
    text = corpora.patterns(pd.concat([good.assign(moved=0.2), slow.assign(moved=0.01), other.assign(moved=0.2)]))
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][2:]
    assert [row[1:] for row in rows] == [["1", f"NeurIPS K = {K} |"] for K in (2, 3, 4)]


def test_the_page_has_the_sections_in_order_with_their_stamps_and_the_doubts_at_the_end(results, monkeypatch) -> None:
    made = {"plsi": Section("about PLSI", ["a doubt"]), "simulations": Section("about simulations")}
    monkeypatch.setattr(page, "import_module", lambda name: type("M", (), {"main": lambda job: made[job.name]}))
    for name in made:
        page.make(name, full=name == "plsi")
    page.write_page()
    text = (results / "README.md").read_text(encoding="utf-8")
    assert text.index("about simulations") < text.index("about PLSI") < text.index("- a doubt")
    stamp = json.loads((results / "plsi.json").read_text())
    assert f"`python -m reproduce plsi --full` · unmix {um.__version__}, {stamp['date']}" in text


def test_what_lacks_its_data_is_skipped_and_said(results, monkeypatch, capsys) -> None:
    def missing(job):
        raise MissingDataError("nips is not in the folder")

    monkeypatch.setattr(page, "import_module", lambda name: type("M", (), {"main": missing}))
    assert page.main(["plsi", "swimmer"]) == 0
    assert "skipped swimmer: nips is not in the folder" in capsys.readouterr().out


def test_numbers_and_tables_of_the_page() -> None:
    assert thousands([-12384999.3, 0.5, np.nan], 1) == ["−12,384,999.3", "0.5", "–"]
    assert markdown(pd.DataFrame({"a": [1], "b": ["x"]})) == "| a | b |\n| --- | --- |\n| 1 | x |"


def test_numbers_are_read_back_as_they_were(tmp_path) -> None:
    values = {"a": 0.1 + 0.2, "b": ["x", 3], "c": {"k": None}, "d": True}
    assert Job("test", folder=tmp_path).numbers(lambda: values) == values
    assert Job("test", folder=tmp_path, written=True).numbers(lambda: {"not": "called"}) == values
