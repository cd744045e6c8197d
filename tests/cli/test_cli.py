"""The command line: results in a folder, or one line that says what was wrong."""

import inspect
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import ROOT, random_counts

import unmix as um
from unmix.cli import main, options, program
from unmix.cli.commands import fit as fit_command
from unmix.registry import WORDS
from unmix.solvers import Extrapolate

FILES = [
    "exposures.csv",
    "model.safetensors",
    "proportions.csv",
    "report.html",
    "structure.png",
    "top_features.csv",
    "topics.csv",
    "trace.csv",
]
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    RNG.poisson(RNG.dirichlet(np.full(2, 0.3), 20) @ RNG.gamma(0.5, 20, (2, 12))),
    index=[f"sample {i}" for i in range(20)],
    columns=[f"word{j}" for j in range(12)],
)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys):
    """Run a command: its exit code, and what it said on stdout and stderr."""

    def command(*arguments):
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        return exit.value.code, *capsys.readouterr()

    return command


@pytest.fixture
def counts():
    TABLE.to_csv("counts.csv")
    return "counts.csv"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit's folder, made once; tests get copies of it."""
    folder = tmp_path_factory.mktemp("fitted")
    TABLE.to_csv(folder / "counts.csv")
    with pytest.raises(SystemExit, match="0"):
        main(["fit", str(folder / "counts.csv"), "-k", "2", "-o", str(folder / "model")])
    return folder / "model"


@pytest.fixture
def model(fitted):
    shutil.copytree(fitted, "model")
    return "model"


def listing(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def proportions(path):
    return pd.read_csv(path, index_col="sample")


def test_version(run):
    assert run("--version") == (0, f"unmix {um.__version__}\n", "")


def test_the_package_is_the_program_too(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["unmix", "--version"])
    with pytest.raises(SystemExit) as exit:
        runpy.run_module("unmix", run_name="__main__")
    assert (exit.value.code, capsys.readouterr().out) == (0, f"unmix {um.__version__}\n")


def test_without_arguments_it_helps(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert all(command in out for command in ("demo", "fit", "transform", "info", "simulate"))


def test_demo_fits_the_embedded_data_and_says_where_to_look(run):
    code, out, err = run("demo", "-o", "demo")
    assert (code, err) == (0, "")
    assert "233 documents × 10,065 words" in out
    assert "(0 at an optimum)." in out, "what KKT means"
    assert out.count("■") == 8
    assert "converged after" in out
    assert f"open {Path('demo/report.html')} in a browser" in out
    assert listing("demo") == FILES


def test_fit_writes_a_folder_named_after_its_input(counts, run):
    code, out, err = run("fit", counts, "-k", 2)
    assert (code, err) == (0, "")
    assert listing("counts-k2") == FILES
    assert f"wrote counts-k2{os.sep}" in out
    np.testing.assert_allclose(proportions("counts-k2/proportions.csv").sum(axis=1), 1)


def test_the_table_has_the_heaviest_topic_first(counts, run):
    _, out, _ = run("fit", counts, "-k", 3)
    shares = [float(line.split()[2].rstrip("%")) for line in out.splitlines() if "■" in line]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_the_same_seed_gives_the_same_fit(counts, run):
    for folder in ("one", "two"):
        assert run("fit", counts, "-k", 2, "--seed", 7, "--init", "random", "-o", folder)[0] == 0
    assert Path("one/proportions.csv").read_bytes() == Path("two/proportions.csv").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "poisson-nmf"],
        ["--solver", "scd"],
        ["--init", "topic-score"],
        ["--refine", "1", "--threads", "1"],
        ["--init", "model"],
        ["--init", "model/model.safetensors"],
    ],
)
def test_options_reach_the_estimator(options, counts, model, run):
    assert run("fit", counts, "-k", 2, "-o", "out", *options)[0] == 0
    params = um.load("out/model.safetensors").params
    expected = {"--model": ("model", "PoissonNMF"), "--solver": ("solver", "scd"), "--refine": ("refine", 1)}
    if options[0] in expected:
        name, value = expected[options[0]]
        assert params[name] == value


def test_defaults_of_the_command_are_those_of_the_estimator(counts, run):
    assert inspect.signature(fit_command).parameters["init"].default == um.TopicModel().init
    assert run("fit", counts, "-k", 2, "-o", "out")[0] == 0
    params, defaults = um.load("out/model.safetensors").params, um.TopicModel().get_params()
    for name in ("solver", "refine", "max_iter", "tol", "prefit", "extrapolate"):
        assert params[name] == defaults[name]


@pytest.mark.parametrize("name", WORDS)
def test_every_model_is_fitted_described_and_used(name, counts, run):
    code, out, _ = run("fit", counts, "-k", 2, "-o", "out", "--model", name)
    assert code == 0
    assert sorted(path.name for path in Path("out").iterdir()) == FILES
    fit = um.load("out/model.safetensors")
    assert fit.params["model"] == WORDS[name]
    assert "nan" not in out
    code, out, _ = run("info", "out")
    assert code == 0
    assert fit.params["model"] in out
    assert "nan" not in out
    assert run("transform", "out", counts, "-o", "new.csv")[0] == 0
    again, fitted = (pd.read_csv(file, index_col=0) for file in ("new.csv", "out/proportions.csv"))
    np.testing.assert_allclose(again.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(again, fitted, atol=0.02)


def test_parameters_of_a_model_are_set_by_name(counts, run):
    settings = ["--set", "alpha=0.5,0.25", "--set", "eta=0.1", "--set", "inner=3"]
    assert run("fit", counts, "-k", 2, "-o", "out", "--model", "lda", *settings)[0] == 0
    fit = um.load("out/model.safetensors")
    assert fit.posterior["L_prior"].tolist() == [0.5, 0.25]
    assert (fit.params["eta"], fit.params["inner"]) == (0.1, 3)
    assert run("fit", counts, "-k", 2, "-o", "two", "--model", "lda", "--set", "alpha=auto")[0] == 0
    assert um.load("two/model.safetensors").params["alpha"] == "auto"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--model", "lda", "--set", "alfa=1"],
            "--model lda; it has no parameter alfa, only alpha, collapsed, eta, extrapolate, inner",
        ),
        (["--model", "lda", "--solver", "scd"], "--model lda; it has no parameter --solver"),
        (["--set", "alpha"], "--set alpha; use a parameter and its value"),
        (["--model", "lda", "--set", "alpha=-1"], "counts.csv: alpha=-1; it must be positive"),
        (["--model", "bayes", "--set", "a=many"], "a='many'; use a positive number"),
        (["--model", "sparse", "--set", "penalty=-2"], "penalty=-2; use a number >= 0"),
    ],
)
def test_a_wrong_setting_is_one_line(options, message, counts, run):
    code, _, err = run("fit", counts, "-k", 2, "-o", "out", *options)
    assert code == 2
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert not Path("out").exists()


def test_a_fit_that_did_not_converge_says_what_to_do(counts, run):
    code, out, err = run("fit", counts, "-k", 3, "--max-iter", 1, "--init", "random")
    assert code == 0
    assert "\nnot converged after " in out
    assert err.startswith("note: not converged: the last iteration gained")
    assert "increase --max-iter" in err
    assert err.count("\n") == 1


def test_notes_are_single_lines_without_python_in_them(run):
    sp.save_npz("holes.npz", sp.csr_array(np.vstack([np.eye(4) * 2.5, np.zeros((2, 4))])))
    code, _, err = run("fit", "holes.npz", "-k", 5)
    assert code == 2
    assert err.startswith(
        "error: holes.npz: 100% of the values are not whole numbers, as after tf-idf, logarithms or norm"
    )
    assert err.endswith("; unmix models counts: use raw counts, or fit these with --force\n")
    assert not Path("holes-k5").exists()
    code, _, err = run("fit", "holes.npz", "-k", 5, "--force")
    assert code == 0
    assert "note: 2 samples without any counts" in err
    assert "note: 100.0% of the values are not whole numbers" in err
    assert "note: -k 5 is more than" in err
    assert all(line.startswith("note: ") for line in err.splitlines())
    assert "; unmix freedom gives the ranges" in err
    assert ".py" not in err
    assert "(fit)" not in err


def test_names_that_look_like_markup_or_escapes_are_shown_harmlessly(run):
    pd.DataFrame([[5, 0], [0, 5]], index=["a", "b"], columns=["[red]x[/]", "\x1b[31my"]).to_csv("odd.csv")
    code, out, _ = run("fit", "odd.csv", "-k", 2)
    assert code == 0
    assert "[red]x[/]" in out
    assert "\x1b" not in out


BAD_ARGUMENTS = {
    "no input": (["fit", "-k", "2"], "Missing argument 'INPUT'"),
    "unknown command": (["guess"], "guess"),
    "unknown model": (["fit", "counts.csv", "-k", "2", "--model", "magic"], "magic"),
    "unknown solver": (["fit", "counts.csv", "-k", "2", "--solver", "magic"], "choose one of newton, scd"),
    "unknown start": (
        ["fit", "counts.csv", "-k", "2", "--init", "magic"],
        "magic: no such file; --init: choose one of",
    ),
    "start of another size": (["fit", "counts.csv", "-k", "3", "--init", "model"], "counts.csv: L has shape (20, 2)"),
    "folder in use": (["fit", "counts.csv", "-k", "2", "-o", "."], ".: cannot be replaced while it is in use"),
    "folder of others": (["fit", "counts.csv", "-k", "2", "-o", "thesis"], "thesis: holds files that are not a fit's"),
    "demo there": (["demo", "-o", "thesis"], "thesis: holds files that are not a fit's"),
    "a file as folder": (["fit", "counts.csv", "-k", "2", "-o", "counts.csv"], "counts.csv: is a file"),
    "no model": (["transform", "none", "counts.csv", "-o", "p.csv"], "none: no such file"),
    "folder of something": (["info", "thesis"], "thesis: a folder with nothing that unmix reads"),
    "folder without model": (["report", "thesis"], "thesis: a folder without model.safetensors"),
    "page of another kind": (["report", "model", "-o", "page.pdf"], "-o page.pdf; use a name that ends in .html"),
    "no part of documents": (["fit", "counts.csv", "-k", "2", "--min-df", "few"], "--min-df few; use a number"),
    "text options for counts": (["fit", "counts.csv", "-k", "2", "--ngrams", "2"], "counts.csv: --ngrams is for texts"),
    "foreign model": (["info", "foreign.safetensors"], "foreign.safetensors: not a readable safetensors file"),
    "no folder for the result": (
        ["transform", "model", "counts.csv", "-o", "no/p.csv"],
        "the folder no does not exist",
    ),
    "result of another kind": (["simulate", "A", "-o", "a.csv"], "-o a.csv; use a name that ends in .npz"),
    "unknown simulation": (["simulate", "C", "-o", "a.npz"], "'C'"),
    "features that no one knows": (
        ["transform", "model", "other.csv", "-o", "p.csv"],
        "other.csv: no feature has a name",
    ),
    "features without names": (
        ["transform", "model", "plain.npz", "-o", "p.csv"],
        "plain.npz: the matrix has 3 features and the model has 12",
    ),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments_end_with_one_line_and_nothing_written(case, counts, model, run):
    arguments, message = BAD_ARGUMENTS[case]
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").write_text("years of work")
    Path("foreign.safetensors").write_text("junk")
    Path("other.csv").write_text(",unheard\nx,1\n")
    sp.save_npz("plain.npz", sp.csr_array(np.eye(3)))
    before = listing("."), listing("thesis"), listing("model")
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert (listing("."), listing("thesis"), listing("model")) == before


def test_forced_results_stand_beside_what_was_there(counts, run):
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").write_text("years of work")
    assert run("fit", counts, "-k", 2, "-o", "thesis", "--force")[0] == 0
    assert listing("thesis") == sorted([*FILES, "chapter.tex"])


def test_ctrl_c_keeps_the_best_fit_so_far(counts, run, monkeypatch):
    step, calls = Extrapolate.step, []

    def interrupted_at_the_third(self, problem, state):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return step(self, problem, state)

    monkeypatch.setattr(Extrapolate, "step", interrupted_at_the_third)
    code, out, err = run("fit", counts, "-k", 3, "--tol", 0, "-o", "out")
    assert code == 130
    assert "interrupted after" in out
    assert err == "note: kept the best fit so far; the same command with --resume continues it\n"
    assert um.load("out/model.safetensors").status == "interrupted"
    monkeypatch.undo()


def test_ctrl_c_before_there_is_a_fit_writes_nothing(counts, run, monkeypatch):
    def interrupt(self, X, left_off, rates):
        raise KeyboardInterrupt

    monkeypatch.setattr(um.PoissonNMF, "_fit", interrupt)
    code, _, err = run("fit", counts, "-k", 2, "-o", "out")
    assert (code, err) == (130, "error: interrupted; nothing was written\n")
    assert listing(".") == [counts]


def test_transform_of_the_same_samples_gives_the_proportions_of_the_fit(counts, model, run):
    assert run("transform", model, counts, "-o", "p.csv")[0] == 0
    pd.testing.assert_frame_equal(proportions("p.csv"), proportions("model/proportions.csv"), atol=1e-3)


def test_transform_finds_features_by_name(counts, model, run):
    TABLE.iloc[:, ::-1].to_csv("permuted.csv")
    assert run("transform", model, counts, "-o", "straight.csv")[0] == 0
    code, _, err = run("transform", f"{model}/model.safetensors", "permuted.csv", "-o", "permuted_p.csv")
    assert (code, err) == (0, "")
    pd.testing.assert_frame_equal(proportions("permuted_p.csv"), proportions("straight.csv"))


def test_transform_says_how_many_features_are_missing_or_unknown(model, run):
    zeroed = TABLE.assign(word0=0, word5=0)
    zeroed.to_csv("zeroed.csv")
    TABLE.drop(columns=["word0", "word5"]).assign(unheard=9).to_csv("partial.csv")
    assert run("transform", model, "zeroed.csv", "-o", "zeroed_p.csv")[0] == 0
    code, _, err = run("transform", model, "partial.csv", "-o", "partial_p.csv", "--missing", "zero")
    assert code == 0
    assert "note: 2 features of the model are not in partial.csv: taken as 0 in every sample" in err
    assert "note: 1 feature of partial.csv is unknown to the model: ignored" in err
    code, out, err = run("transform", model, "partial.csv", "-o", "other_p.csv", "--json")
    assert (code, json.loads(out)["missing"]) == (0, "unmeasured")
    assert "taken as not measured, topics are found by the others (--missing zero changes that)" in err
    assert np.abs(proportions("other_p.csv") - proportions("zeroed_p.csv")).to_numpy().max() > 1e-6
    assert (
        "is not one of 'unmeasured', 'zero'"
        in run("transform", model, "partial.csv", "-o", "p.csv", "--missing", "no")[2]
    )
    pd.testing.assert_frame_equal(proportions("partial_p.csv"), proportions("zeroed_p.csv"))


def test_transform_writes_how_well_samples_fit_and_says_if_they_do_not(counts, model, run):
    code, out, err = run("transform", model, counts, "-o", "p.csv", "--json")
    answer = json.loads(out)
    assert (code, err, answer["fits"], answer["goodness_of_fit"]) == (0, "", True, "p-fit.csv")
    table = pd.read_csv("p-fit.csv", index_col=0)
    assert table.columns.tolist() == ["known", "misfit", "rank"]
    assert table.index.tolist() == proportions("p.csv").index.tolist()
    pd.testing.assert_frame_equal(table, um.analysis.goodness_of_fit(model, um.read(counts)), rtol=1e-6)
    assert run("shard", counts, "-o", "x.shards", "--quiet")[0] == 0
    assert run("transform", model, "x.shards", "-o", "q.npy")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv("q-fit.csv", index_col=0), table, rtol=1e-6)
    drawn = random_counts(160, 60, seed=3)
    sp.save_npz("many.npz", sp.csr_array(drawn[:120]))
    sp.save_npz("alike.npz", sp.csr_array(drawn[120:]))
    sp.save_npz("other.npz", sp.csr_array(random_counts(40, 60, seed=4)))
    assert run("fit", "many.npz", "-k", 3, "-o", "many", "--seed", 0)[0] == 0
    for name, fits in (("alike", True), ("other", False)):
        code, out, err = run("transform", "many", f"{name}.npz", "-o", "p.csv", "--json")
        assert (code, json.loads(out)["fits"]) == (0, fits)
        assert ("note: these samples do not fit the model" in err) == (not fits)


def test_transform_goes_by_position_where_there_are_no_names(counts, model, run):
    sp.save_npz("plain.npz", sp.csr_array(TABLE.to_numpy()))
    assert run("transform", model, counts, "-o", "named.csv")[0] == 0
    assert run("transform", model, "plain.npz", "-o", "plain.csv")[0] == 0
    np.testing.assert_array_equal(proportions("plain.csv"), proportions("named.csv"))


def test_info_describes_data(counts, run):
    code, out, err = run("info", counts)
    assert (code, err) == (0, "")
    assert f"{int(TABLE.to_numpy().sum()):,}" in out
    assert "20 (sample 0, sample 1, sample 2, …)" in out
    assert "looks like counts  yes" in out


def test_info_tells_what_is_not_counts(run):
    sp.save_npz("weights.npz", sp.csr_array(np.diag([0.5, 2, 3, 4])))
    assert "no: 25.0% of the nonzeros are not whole numbers" in run("info", "weights.npz")[1]


def test_shards_are_written_described_and_verified(counts, run):
    code, out, err = run("shard", counts, "-o", "cells.shards")
    total = int(TABLE.to_numpy().sum())
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote cells.shards: 20 samples × 12 features, {total:,} counts, 1 shard\n")
    assert re.search("read as: wide, one column per feature, 12 in all: .* and 8 more; sample names: a column", out)
    assert run("shard", counts, "--quiet") == (0, "", "")
    assert um.Shards("counts.shards").facts == um.Shards.of(um.read(counts)).facts
    code, out, err = run("info", "cells.shards", "--verify")
    assert (code, err) == (0, "")
    for told in ("folder of shards", "20 (sample 0, sample 1, sample 2, …)", f"{total:,}", "yes", "bytes a nonzero"):
        assert told in out
    assert "all of it is as it was written" in out
    described, made = (json.loads(run(*words, "--json")[1]) for words in (["info", "cells.shards"], ["shard", counts]))
    assert made.pop("output") == "counts.shards"
    assert described == made | {"kind": "folder of shards"}
    assert (described["samples"], described["shards"], described["start"]) == (20, 1, 20)


def test_damaged_shards_are_told_in_one_line(counts, run):
    run("shard", counts, "-o", "cells.shards")
    file = Path("cells.shards/000000.safetensors")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    code, out, err = run("info", "cells.shards", "--verify")
    assert (code, out) == (2, "")
    assert err.startswith("error: cells.shards: 000000.safetensors (samples 0 to 19) is damaged: its checksum")
    assert err.endswith("build the shards again with um.shard or `unmix shard`\n")
    code, _, err = run("info", counts, "--verify")
    assert (code, err) == (2, "error: --verify; counts.csv is not a folder of shards; remove it\n")


def test_ctrl_c_keeps_the_shards_that_are_finished(counts, run, monkeypatch):
    from unmix.counts import shards
    from unmix.io import building

    monkeypatch.setattr(shards, "SHARD", 8)
    written, known = [], building.Building.add

    def add(building, shard, names):
        known(building, shard, names)
        written.append(shard.rows)
        if sum(written) == 16:
            raise KeyboardInterrupt

    monkeypatch.setattr(building.Building, "add", add)
    code, out, err = run("shard", counts)
    assert (code, out) == (130, "")
    assert err == "note: interrupted; the same command continues after the finished shards in counts.shards\n"
    assert run("shard", counts)[0] == 0
    assert written == [8, 8, 4]


def test_info_describes_a_model(model, run):
    code, out, _ = run("info", model)
    assert code == 0
    assert "TopicModel with 2 topics" in out
    assert f"{um.load('model/model.safetensors').loglik:,.1f}" in out
    assert f"unmix {um.__version__}" in out
    assert out.count("■") == 2


@pytest.mark.parametrize("name", ["A", "B", "swimmer"])
def test_simulated_data_can_be_read_back(name, run):
    code, out, _ = run("simulate", name, "-o", "simulated.npz")
    assert code == 0
    made = um.datasets.swimmer() if name == "swimmer" else um.datasets.correlated_topics(name)
    assert f"{made.total:,.10g} counts" in out
    assert (um.Counts(sp.load_npz("simulated.npz")).csr != made.csr).nnz == 0


def test_with_json_the_answer_is_one_object_and_nothing_else(counts, model, run):
    TABLE.drop(columns="word3").assign(unheard=1).to_csv("new.csv")
    answers = {}
    for name, arguments in {
        "fit": ["fit", counts, "-k", 2, "-o", "out"],
        "transform": ["transform", model, "new.csv", "-o", "p.csv"],
        "data": ["info", counts],
        "model": ["info", model],
        "report": ["report", model],
        "simulate": ["simulate", "A", "-o", "a.npz"],
    }.items():
        code, out, _ = run(*arguments, "--json")
        assert code == 0
        answers[name] = json.loads(out)
    fit = um.load("out/model.safetensors")
    assert answers["fit"]["output"] == "out"
    assert (answers["fit"]["loglik"], answers["fit"]["status"]) == (fit.loglik, "converged")
    assert [topic["topic"] for topic in answers["fit"]["topics"]] == [1, 2]
    assert answers["fit"]["topics"][0]["top_features"] == fit.top_features(8).query("topic == 1")["feature"].tolist()
    assert answers["fit"]["data"]["command"] == f"unmix fit {counts} -k 2 -o out --json"
    assert answers["fit"]["data"]["python"] == f"um.read('{counts}')"
    assert (answers["transform"]["missing_features"], answers["transform"]["unknown_features"]) == (1, 1)
    assert (answers["data"]["samples"], answers["data"]["looks_like_counts"]) == (20, True)
    assert answers["data"]["checksum"] == fit.data["checksum"]
    assert answers["model"]["n_topics"] == 2
    assert answers["report"]["bytes"] == Path("model/report.html").stat().st_size
    assert answers["simulate"]["samples"] == 100


def test_a_model_without_kkt_says_null_in_json(counts, run):
    _, out, _ = run("fit", counts, "-k", 2, "--model", "lda", "--json")
    assert json.loads(out)["kkt"] is None


def test_quiet_says_nothing_but_notes(counts, run):
    assert run("fit", counts, "-k", 2, "--quiet") == (0, "", "")
    code, out, err = run("fit", counts, "-k", 3, "--max-iter", 1, "--init", "random", "-q", "-o", "short")
    assert (code, out) == (0, "")
    assert err.startswith("note: not converged")


def test_the_report_is_written_again_from_the_folder(model, run):
    page = Path("model/report.html")
    page.unlink()
    code, out, _ = run("report", model, "--title", "A <b>new</b> title")
    assert (code, out) == (0, f"wrote {page}\n")
    assert "A &lt;b&gt;new&lt;/b&gt; title" in page.read_text(encoding="utf-8")
    assert run("report", f"{model}/model.safetensors", "-o", "elsewhere.html")[0] == 0
    assert Path("elsewhere.html").is_file()


def test_text_is_fitted_and_new_text_is_treated_alike(run):
    fish, bread = "the trout and the salmon swim in the river", "knead the dough, then bake the bread in an oven"
    Path("letters").mkdir()
    for i in range(12):
        Path(f"letters/{i}.txt").write_text(fish if i % 2 else bread)
    code, out, _ = run("fit", "letters/", "-k", 2, "--ngrams", 2)
    assert code == 0
    page = Path("letters-k2/report.html").read_text(encoding="utf-8")
    assert "um.read('letters', ngrams=2)" in page
    assert "unmix fit letters/ -k 2 --ngrams 2" in page
    assert "12 documents" in out
    fit = um.load("letters-k2/model.safetensors")
    assert "trout salmon" in fit.features
    Path("new.jsonl").write_text(json.dumps({"id": "a", "text": "A Salmon! Trout, and the unheard quokka"}) + "\n")
    assert run("transform", "letters-k2", "new.jsonl", "-o", "new.csv")[0] == 0
    topic_of_fish = fit.topics[list(fit.features).index("trout")].argmax()
    assert proportions("new.csv").loc["a"].argmax() == topic_of_fish
    code, _, err = run("transform", "letters-k2", "missing.txt", "-o", "new.csv")
    assert (code, err) == (2, "error: missing.txt: no such file; check the name and the folder\n")


def test_shells_can_complete_commands(run):
    _, out, _ = run("--help")
    assert "--install-completion" in out


# --- help -------------------------------------------------------------------------------------------------------------

PROGRAM = program()
COMMANDS = sorted(PROGRAM.commands)


SCREENS = 48  # lines of two screens of 80 × 24


def test_help_of_all_commands_fits_two_screens(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run("--help")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert len(lines) <= SCREENS
    assert max(map(len, lines)) <= 80
    for name in COMMANDS:
        assert len([line for line in lines if line.startswith(f"│ {name} ")]) == 1


def test_without_arguments_the_help_is_shown(run):
    assert run()[:2] == run("--help")[:2]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_two_screens_has_examples_and_explains_every_option(command, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= SCREENS
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    assert f"unmix {command}" in out.rpartition("╯")[2]
    _, everything, _ = run(command, "--help-all")
    for param in PROGRAM.commands[command].params:
        if param.param_type_name == "option":
            assert param.help
            assert max(param.opts, key=len) in everything
            assert param.hidden or max(param.opts, key=len) in out


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_help_are_commands_that_parse(command):
    assert options.COMMANDS[command].examples
    for line in options.COMMANDS[command].examples:
        program, name, *arguments = shlex.split(line)
        assert program == "unmix"
        PROGRAM.commands[name].make_context(name, arguments)


PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "generated"} & {*path.parts}),
]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the pages are not here, as where a wheel is tried")
def test_every_command_of_the_pages_parses() -> None:
    blocks = [block for page in PAGES for block in FENCE.findall(page.read_text(encoding="utf-8"))]
    lines = [line for block in blocks for line in re.findall(r"^[!$ ]*unmix (\w+ .*|demo)$", block, re.MULTILINE)]
    assert len(lines) > 30
    for line in lines:
        name, *arguments = shlex.split(line.partition(" | ")[0], comments=True)
        if arguments[-1:] in (["--help"], ["--help-all"]):  # which print, and exit
            continue
        PROGRAM.commands[name].make_context(name, arguments)


def test_a_fit_of_other_counts_is_not_replaced_unless_forced(run) -> None:
    for name, factor in (("a", 1), ("b", 2)):
        (TABLE * factor).to_csv(f"{name}.csv")
    assert run("fit", "a.csv", "-k", "2", "-o", "out", "-q")[0] == 0
    before = Path("out/model.safetensors").read_bytes()
    assert run("fit", "a.csv", "-k", "3", "-o", "out", "-q")[0] == 0
    before = Path("out/model.safetensors").read_bytes()
    code, _, err = run("fit", "b.csv", "-k", "2", "-o", "out", "-q")
    assert code == 2
    assert "out: holds a fit of other counts" in err
    assert "--force" in err
    assert Path("out/model.safetensors").read_bytes() == before
    assert run("fit", "b.csv", "-k", "2", "-o", "out", "-q", "--force")[0] == 0
    assert Path("out/model.safetensors").read_bytes() != before


def test_results_are_written_though_nobody_reads_what_is_said(tmp_path: Path) -> None:
    """One JSON object; that of a fit, with its table of topics, is in `test_nothing_lost.py`."""
    command = [sys.executable, "-m", "unmix", "simulate", "swimmer", "-o", "swimmer.npz", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read().decode()
    assert process.returncode == 0, complaint
    assert "Error" not in complaint
    assert (tmp_path / "swimmer.npz").is_file()


def test_every_command_that_reads_an_input_reads_it_alike() -> None:
    commands = PROGRAM.commands
    readers = {name for name, command in commands.items() if any(one.metavar == "INPUT" for one in command.params)}
    assert {"fit", "choose", "transform", "shard", "differences", "stability", "intervals"} <= readers
    always = options.reading_options([*options.WORD_OPTIONS, "snippets", "metadata"])
    for name in readers:
        assert always.keys() <= {one.name for one in commands[name].params}, name


def test_texts_in_another_encoding_are_asked_about_as_they_were_fitted(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["größe", "straße", "übung", "maß", "tür", "bär"]
    lines = [" ".join(RNG.choice(words, 12)) for _ in range(30)]
    Path("texte.txt").write_bytes("\n".join(lines).encode("latin-1"))
    how = ["texte.txt", "--encoding", "latin-1", "--stop-words", "none"]
    for command in (
        ["fit", *how, "-k", "2"],
        ["choose", *how, "-k", "1-2", "--folds", "2"],
        ["stability", *how, "-k", "2", "--runs", "2"],
        ["differences", "texte-k2", *how[:3]],
    ):
        with pytest.raises(SystemExit) as left:
            main(command)
        assert left.value.code == 0, capsys.readouterr().err


def test_a_path_writes_a_folder_for_each_number_and_resumes_after_those_that_are_finished(counts, run):
    code, out, err = run("path", counts, "-k", "2-4", "--seed", 1)
    assert (code, err) == (0, "")
    assert listing("counts-path") == ["k2", "k3", "k4", "path.csv"]
    assert listing("counts-path/k3") == FILES
    table = pd.read_csv("counts-path/path.csv")
    expected = um.fit_path(um.read(counts), [2, 3, 4], random_state=1)
    assert table["topics"].tolist() == [2, 3, 4]
    for row in table.itertuples():
        fit = um.load(Path("counts-path") / row.folder)
        assert fit.L.tobytes() == expected[row.topics].L.tobytes()
        assert row.loglik == pytest.approx(fit.loglik)
    times = {K: Path(f"counts-path/k{K}/model.safetensors").stat().st_mtime_ns for K in (3, 4)}
    shutil.rmtree("counts-path/k2")
    code, out, err = run("path", counts, "-k", "2-4", "--seed", 1, "--resume", "--json")
    assert code == 0
    assert [row["topics"] for row in json.loads(out)["fits"]] == [2, 3, 4]
    assert times == {K: Path(f"counts-path/k{K}/model.safetensors").stat().st_mtime_ns for K in (3, 4)}
    again = um.load("counts-path/k2")
    assert again.F.tobytes() == expected[2].F.tobytes()


def test_a_path_of_other_data_or_parameters_is_not_resumed(counts, run):
    assert run("path", counts, "-k", "2,3", "-o", "p", "--model", "lda", "--set", "alpha=0.3")[0] == 0
    code, _, err = run("path", counts, "-k", "2,3", "-o", "p", "--model", "lda", "--set", "alpha=0.4", "--resume")
    assert code == 2
    assert "had alpha=0.3" in err
    (TABLE + 1).to_csv("other.csv")
    code, _, err = run("path", "other.csv", "-k", "2,3", "-o", "p", "--model", "lda", "--set", "alpha=0.3", "--resume")
    assert code == 2
    assert "is of other data" in err
    assert listing("p") == ["k2", "k3", "path.csv"]


def test_an_interrupted_path_keeps_what_is_finished(counts, run, monkeypatch):
    fitted_once = []
    fit = um.TopicModel.fit

    def interrupted(self, *given, **named):
        fitted_once.append(self.n_components)
        if len(fitted_once) == 2:
            raise KeyboardInterrupt
        return fit(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(um.TopicModel, "fit", interrupted)
        code, _, err = run("path", counts, "-k", "2-4")
    assert code == 130
    assert "kept 1 of 3 fits in counts-path; the same command with --resume continues" in err
    assert listing("counts-path") == ["k4", "path.csv"]
    assert run("path", counts, "-k", "2-4", "--resume")[0] == 0
    assert pd.read_csv("counts-path/path.csv")["topics"].tolist() == [2, 3, 4]
