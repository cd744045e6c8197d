"""Sections of the page for stability and freedom: what is in them, in the file, by the terminal, and in the browser."""

import json
import re
import shutil
from importlib import import_module

import numpy as np
import pytest

import unmix as um
from unmix.cli import main
from unmix.io.write import write_counts

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SMALL = ("-k", 3, "--tol", "1e-3", "-q")


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    X = rng.poisson(2000 * rng.dirichlet([5, 5, 5], 30) @ (rng.dirichlet(np.full(16, 2.0), 3) + 0.01))
    counts = um.Counts(X, samples=[f"tumour {i}" for i in range(30)])
    fit = um.TopicModel(3, random_state=0, tol=1e-3).fit(counts).result_
    stability = um.stability(counts, 3, runs=4, estimator=um.TopicModel(tol=1e-3), reference=fit, random_state=0)
    return fit, counts, stability, um.freedom(fit)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        with pytest.raises(SystemExit) as left:
            main(list(map(str, arguments)))
        return left.value.code

    return command


def payload(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_has_the_numbers_of_both(made, tmp_path) -> None:
    fit, _, stability, freedom = made
    um.write_report(fit, tmp_path / "page.html", stability=stability, freedom=freedom)
    page = payload(tmp_path / "page.html")
    assert [topic["verdict"] for topic in page["stability"]["topics"]] == stability.table["verdict"].to_list()
    assert [topic["recall"] for topic in page["stability"]["topics"]] == pytest.approx(
        stability.table["recall"], rel=1e-3
    )
    assert freedom.width.max() > 0.01
    assert [topic["widest"] for topic in page["freedom"]["topics"]] == pytest.approx(
        freedom.table["widest"], rel=1e-3, abs=1e-9
    )
    assert [topic["mean"] for topic in page["topics"]] == pytest.approx(fit.proportions.mean(axis=0), rel=1e-5)
    um.write_report(fit, tmp_path / "plain.html")
    assert not {"stability", "freedom"} & set(payload(tmp_path / "plain.html"))


def test_the_page_has_means_by_group(made, tmp_path) -> None:
    fit, counts, *_ = made
    found = um.prevalence(fit, by=["young", "<b>old</b>"] * 15, over=np.arange(30), bins=3)
    um.write_report(fit, tmp_path / "page.html", prevalence=found)
    content = payload(tmp_path / "page.html")["prevalence"]
    assert content["groups"] == ["<b>old</b>", "young"]
    own = found.table[found.table["topic"] == 2]
    assert [row["mean"] for row in content["topics"][1]] == pytest.approx(own["mean"].to_list(), rel=1e-4)
    assert [row["bin"] for row in content["topics"][1]] == own["bin"].to_list()
    assert [len(rows) for rows in content["examples"]] == [3, 3, 3]
    other = um.TopicModel(2, random_state=0, tol=1e-2).fit(counts).result_
    with pytest.raises(ValueError, match="prevalence is of the topics of a different fit"):
        um.write_report(other, tmp_path / "page.html", prevalence=found)


def test_answers_about_another_fit_are_refused(made, tmp_path) -> None:
    fit, counts, stability, freedom = made
    other = um.TopicModel(3, random_state=5, max_iter=1, init="random", tol=0).fit(counts).result_
    with pytest.raises(ValueError, match="stability is of the topics of a different fit"):
        um.write_report(other, tmp_path / "page.html", stability=stability)
    with pytest.raises(ValueError, match="freedom is of the proportions of a different fit"):
        um.write_report(other, tmp_path / "page.html", freedom=freedom)
    assert fit.n_topics == 3
    assert not (tmp_path / "page.html").exists()


def test_fit_answers_both_the_page_keeps_them_and_a_new_fit_drops_them(run, made, tmp_path) -> None:
    write_counts(made[1], "counts.npz")
    assert run("fit", "counts.npz", *SMALL, "-o", "model", "--stability", "--stability-runs", 2, "--freedom") == 0
    folder = tmp_path / "model"
    written = {"stability.safetensors", "stability.csv", "stability.png", "freedom.safetensors", "freedom.csv"}
    assert written <= {path.name for path in folder.iterdir()}
    assert payload(folder / "report.html")["stability"]["runs"] == 2
    assert run("report", "model", "-o", "again.html", "-q") == 0
    assert {"stability", "freedom"} <= set(payload(tmp_path / "again.html"))
    assert run("differences", "model", "counts.npz", "-q") == 0  # which writes the page, with all that is known
    assert {"stability", "freedom", "differences"} <= set(payload(folder / "report.html"))
    assert run("fit", "counts.npz", *SMALL, "-o", "model") == 0
    assert not {"stability.safetensors", "freedom.safetensors"} & {path.name for path in folder.iterdir()}
    assert not {"stability", "freedom"} & set(payload(folder / "report.html"))
    assert run("stability", "counts.npz", "-k", 3, "--runs", 2, "--set", "tol=1e-3", "-o", "model", "-q") == 0
    assert run("freedom", "model", "-o", "model/freedom.safetensors", "-q") == 0
    assert {"stability", "freedom"} <= set(payload(folder / "report.html"))


def test_ctrl_c_during_an_answer_keeps_the_fit(run, made, tmp_path, monkeypatch, capsys) -> None:
    write_counts(made[1], "counts.npz")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("unmix.analysis.stability"), "stability", interrupted)
    assert run("fit", "counts.npz", *SMALL, "-o", "model", "--stability", "--freedom") == 130
    assert "without --stability and --freedom" in capsys.readouterr().err
    assert um.load(tmp_path / "model" / "model.safetensors").n_topics == 3
    assert "stability" not in payload(tmp_path / "model" / "report.html")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")
def test_sections_and_cards_in_the_browser(made, tmp_path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    fit, _, stability, freedom = made
    um.write_report(fit, tmp_path / "page.html", stability=stability, freedom=freedom)
    complaints = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector("body[data-ready]")
        for k, row in enumerate(stability.table.itertuples()):
            cells = page.locator(f"#stability-rows tr[data-topic='{k + 1}'] td").all_inner_texts()
            assert row.verdict in cells[1]
            assert cells[3] == f"{row.stability:.2f}"
            card = page.locator(f".topic-card[aria-label='Topic {k + 1}']")
            assert f"{row.verdict}: recovered in" in card.locator(".verdict").get_attribute("title")
            assert "proportions move by" in card.locator(".freedom").get_attribute("title")
        page.locator("#ranges-topic").select_option("1")
        assert "topic=2" in page.url
        page.locator("#ranges").focus()
        page.keyboard.press("ArrowRight")
        least = int(np.argsort(fit.proportions[:, 1], kind="stable")[0])
        assert page.locator("#ranges-said").inner_text().startswith(f"tumour {least}: ")
        page.locator("#ranges-table summary").click()
        page.locator("#ranges-table tbody tr").first.wait_for()  # the table is filled when it is first opened
        assert page.locator("#ranges-table tbody tr").count() == 30
        browser.close()
    assert complaints == []
