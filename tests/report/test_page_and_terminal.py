"""Terminal, page, JSON, tables and `repr` say the same of a fit, in the same words and figures."""

import json
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.analysis.advice import figures, outcome
from unmix.analysis.freedom import moves
from unmix.base.checks import parameters_as
from unmix.cli import main, option
from unmix.cli.show import WORDS_SHOWN, Invocation
from unmix.io.write import write_counts

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RNG = np.random.default_rng(0)
COUNTS = um.Counts(
    RNG.poisson(2000 * RNG.dirichlet([1, 1, 1], 30) @ RNG.dirichlet(np.full(40, 0.5), 3)),
    samples=[f"tumour {i}" for i in range(30)],
    features=[f"type {j}" for j in range(40)],
)
FITS = {
    "converged": ("-k", 3, "--tol", "1e-3"),
    "not converged": ("-k", 3, "--max-iter", 2),
    "lda": ("-k", 3, "--model", "lda", "--set", "alpha=0.3", "--tol", "1e-2"),
    "several starts": ("-k", 3, "--tol", "1e-3", "--n-init", 2),
    "refined": ("-k", 3, "--tol", "1e-3", "--refine", 1),
    "one topic": ("-k", 1),
}


class Shown:
    """What a fit shows: in the terminal, as a model, on its page, and as JSON."""

    def __init__(self, *options):
        write_counts(COUNTS, "counts.npz")
        self.code, self.out, self.err = run("fit", "counts.npz", *options, "-o", "made")
        self.fit = um.load("made/model.safetensors")
        self.folder = Path("made").resolve()
        text = (self.folder / "report.html").read_text(encoding="utf-8")
        data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1]
        self.page = json.loads(data)
        self.info = run("info", "made")[1]
        self.json = json.loads(run("info", "made", "--json")[1])


def run(*arguments):
    with pytest.raises(SystemExit) as left, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        main(list(map(str, arguments)))
    return left.value.code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module", params=FITS)
def shown(request, tmp_path_factory):
    """Made once, for all that is asked of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("shown"))
        patch.setenv("COLUMNS", "200")
        return Shown(*FITS[request.param])


@pytest.fixture(name="run")
def run_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write_counts(COUNTS, "counts.npz")
    return run


def test_the_end_of_a_fit_is_told_in_the_same_words(shown):
    known = figures(shown.fit)
    assert outcome(shown.fit) in shown.out.splitlines()
    assert shown.page["figures"] == [list(pair) for pair in known.items()]
    for name, value in known.items():
        assert re.search(rf"^{re.escape(name)} +{re.escape(value)} *$", shown.info, re.MULTILINE)
    assert known["ended"].startswith(shown.page["glance"][-1])
    assert all(text in repr(shown.fit) for text in shown.page["glance"])
    assert f"read counts.npz: {shown.page['glance'][0]}, " in shown.out
    assert shown.json["iterations"] == shown.fit.trace["iteration"].iloc[-1]
    assert f"{shown.json['loglik']:,.1f}" == known["Poisson log-likelihood"]


def test_moves_to_leave_a_poor_optimum_are_counted(run):
    fit = Shown(*FITS["refined"]).fit
    assert figures(fit)["moves to leave a poor optimum"].startswith("1 tried, ")


def test_topics_have_one_order_and_share_and_list_the_same_features(shown):
    lines = [line.split() for line in shown.out.splitlines() if line.startswith(" ■")]
    order, features = shown.page["order"], shown.page["features"]
    table = pd.read_csv(shown.folder / "top_features.csv")
    assert [int(line[1]) - 1 for line in lines] == order
    for k, line in zip(order, lines, strict=True):
        best = [features["names"][j] for j in features["distinctive"][k]][:WORDS_SHOWN]
        assert line[2] == shown.page["topics"][k]["said"]["share"] == f"{shown.json['topics'][k]['share']:.1%}"
        assert " ".join(line[3:]) == ", ".join(best)
        assert shown.json["topics"][k]["top_features"] == best
        assert table[table["topic"] == k + 1]["feature"].tolist()[:WORDS_SHOWN] == best


def test_advice_is_the_same_in_terminal_page_and_json(shown):
    said = [line.removeprefix("note: ") for line in shown.err.splitlines()]
    elsewhere = [text.replace("increase --max-iter", "increase --max-iter of unmix fit") for text in said]
    assert said == shown.page["advice"]
    assert shown.json["notes"] == elsewhere  # `unmix info` has no such option
    with parameters_as(option):
        assert shown.fit.advice() in (said, elsewhere)


def test_a_fit_without_an_end_names_the_option_and_not_the_parameter(run):
    shown = Shown(*FITS["not converged"])
    assert shown.page["glance"][-1] == "not converged"
    assert any(text.endswith("increase --max-iter") for text in shown.page["advice"])
    um.write_report(shown.fit, "python.html")
    assert "increase max_iter" in Path("python.html").read_text(encoding="utf-8")


def test_further_answers_are_told_in_the_same_words(run):
    shown = Shown("-k", 3, "--tol", "1e-3", "--differences", "--stability", "--stability-runs", 4, "--freedom")
    said = [line.removeprefix("note: ") for line in shown.err.splitlines()]
    own = [text for name in ("differences", "stability", "freedom") for text in shown.page[name]["advice"]]
    assert said == shown.page["advice"] + own
    run("freedom", "made", "-o", "ranges.safetensors")
    found = um.analysis.Freedom.load("ranges.safetensors")
    assert [topic["said"] for topic in shown.page["freedom"]["topics"]] == moves(found)
    rows = json.loads(run("differences", "made", "counts.npz", "-o", "apart", "--json")[1])["table"]
    assert [row["significant"] for row in rows] == shown.page["differences"]["sure"]


def test_parameters_are_called_as_the_terminal_calls_them(monkeypatch):
    monkeypatch.setattr(Invocation, "arguments", ["fit"])
    named = {"n_components": 50, "n_init": 2, "layer": "a b", "raw": True, "transpose": False, "stop_words": None}
    said = [option(name, value) for name, value in named.items()]
    assert said == ["-k 50", "--n-init 2", "--layer 'a b'", "--raw", "--no-transpose", "--stop-words none"]
    assert [option("max_iter"), option("alpha", 0.1)] == ["--max-iter", "alpha=0.1"]


def test_a_parameter_error_names_the_option_of_its_command(run):
    run("fit", "counts.npz", "-k", 2, "--tol", "1e-2", "-o", "made")
    code, _, said = run("intervals", "made", "counts.npz", "-o", "i.csv", "--level", 2)
    assert (code, said) == (2, "error: --level 2.0; use a probability between 0 and 1\n")
    assert "--errors x; choose one of robust, poisson" in run("differences", "made", "counts.npz", "--errors", "x")[2]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.xdist_group("browser")
def test_the_browser_shows_these_very_words(run):
    playwright = pytest.importorskip("playwright.sync_api")
    shown = Shown(*FITS["refined"])
    with playwright.sync_playwright() as p:
        page = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]).new_page()
        page.goto(Path("made/report.html").absolute().as_uri())
        page.wait_for_selector("body[data-ready]")
        plain = lambda texts: [text.replace("−", "-") for text in texts]  # noqa: E731
        assert plain(page.locator("#facts li").all_text_contents()) == shown.page["glance"]
        assert plain(page.locator("#fit-facts dd").all_text_contents()) == [value for _, value in shown.page["figures"]]
        shares = [shown.page["topics"][k]["said"]["share"] for k in shown.page["order"]]
        assert page.locator("#topics .share").all_text_contents() == shares
        assert page.locator("#topic-all .topic-known .share").all_text_contents() == [
            f"{x} of all counts" for x in shares
        ]
