"""Every line of the README does what it says, on data of its kind."""

import re
import warnings

import anndata
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import ROOT

import unmix as um
from unmix.cli import main
from unmix.cli.options import COMMANDS

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.S)
TERMINAL = re.findall(r"^unmix [^\n]*", README, flags=re.M)
TABLE = README.partition("| task | Python | command | guide |")[2].partition("\n\n")[0]
WORDS = [
    "war",
    "peace",
    "tax",
    "trade",
    "bank",
    "gold",
    "corn",
    "wheat",
    "river",
    "land",
    "law",
    "court",
    "vote",
    "army",
    "navy",
    "school",
    "road",
    "farm",
]


def cells(path=None, n=60, m=18):
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.3, 1, (n, 4)) @ rng.gamma(0.3, 1, (4, m)) * 40 + 0.2)
    obs = pd.DataFrame({"cell_type": pd.Categorical(rng.choice(["B", "T"], n))}, index=[f"cell{i}" for i in range(n)])
    adata = anndata.AnnData(sp.csr_matrix(X, dtype=np.float32), obs, pd.DataFrame(index=WORDS[:m]))
    adata.layers["counts"] = adata.X.copy()
    if path is not None:
        adata.write_h5ad(path)
    return adata


@pytest.fixture
def _few_words(monkeypatch):
    """The speeches have only every 60th of their words, since all of them would take long."""
    X = um.datasets.sotu()
    seeds = np.flatnonzero(np.isin(X.features, ["tax", "taxes", "business", "banks", "army", "navy", "enemy"]))
    few = X.take(features=np.union1d(np.argsort(-X.feature_totals)[::60], seeds))
    monkeypatch.setattr(um.datasets, "sotu", lambda: few)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the README speaks of."""
    monkeypatch.chdir(tmp_path)
    for name in ("cells.h5ad", "new.h5ad", "atlas.h5ad"):
        cells(tmp_path / name)
    rng = np.random.default_rng(1)
    (tmp_path / "speeches").mkdir()
    for i in range(12):
        (tmp_path / "speeches" / f"{i}.txt").write_text(" ".join(rng.choice(WORDS[i % 3 * 6 :][:6], 60)))
    X = cells().to_df().astype(int)
    X.to_csv(tmp_path / "mutations.csv", index_label="sample")
    plays = X.rename_axis("user").reset_index().melt("user", var_name="item", value_name="count")
    plays[plays["count"] > 0].to_csv(tmp_path / "plays.csv", index=False)
    pd.DataFrame({"sample": X.index, "age": range(len(X))}).to_csv(tmp_path / "tumours.csv", index=False)
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(X.to_numpy()))
    return tmp_path


def test_the_commands_of_the_readme_run_as_they_stand(folder):
    run = [line.partition("#")[0].split() for line in TERMINAL]
    assert len(run) == 9
    for words in run:
        with pytest.raises(SystemExit) as ended:
            main([word.strip("'") for word in words[1:]] + (["--quiet"] if words[1] in ("fit", "transform") else []))
        assert ended.value.code == 0, words
    assert (folder / "cells-k12" / "report.html").is_file()
    assert len(pd.read_csv(folder / "proportions.csv")) == 60


# Blocks without a language are shown, not run, where the site is built. A cluster of that name is nowhere, and
# only R writes its objects; test_rds.py has some.
SHOWN = {
    str(page.relative_to(ROOT / "docs")): [
        line.partition("#")[0].split()[1:]
        for kind, block in re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for line in re.findall(r"^unmix [^\n]*", block, flags=re.M)
        if not kind and "tls://" not in line and ".rds" not in line
    ]
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "generated" not in page.parts
}
SHOWN = {page: lines for page, lines in SHOWN.items() if lines}


@pytest.fixture
def results(folder):
    """Further files that the pages speak of: shards, texts in a table, a fit's folder, a saved model."""
    texts = [" ".join(WORDS[i % 3 * 6 :][:6] * 4) for i in range(12)]
    pd.DataFrame({"text": texts}).to_csv(folder / "speeches.csv", index=False)
    features = cells().to_df().columns
    pd.DataFrame(np.eye(len(features), 4) + 0.1, features, list("abcd")).to_csv(folder / "catalogue.txt", sep="\t")
    ages = pd.read_csv(folder / "tumours.csv")
    ages.assign(tissue=np.where(ages["age"] < 5, "one", "another")).to_csv(folder / "tumours.csv", index=False)
    um.shard(folder / "new.h5ad", folder / "new.shards")
    um.shard(folder / "atlas.h5ad", folder / "atlas.shards", layer="counts")
    with pytest.raises(SystemExit):
        main(["fit", "cells.h5ad", "-k", "12", "--layer", "counts", "--quiet"])
    return folder


@pytest.mark.parametrize("page", SHOWN)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_commands_that_a_page_shows_run_as_they_stand(results, page):
    for words in SHOWN[page]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0, words


# Pages with cells run where the site is built. Blocks of other pages need objects of R, gensim, gseapy or a cluster.
RECIPES = {
    f"{page.parent.name}/{page.name}": re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), flags=re.M | re.S)
    for pattern in ("how-to/*", "guide/*", "coming-from/recommenders", "coming-from/scikit-learn", "api/solvers")
    for page in sorted((ROOT / "docs").glob(f"{pattern}.md"))
    if "{code-cell}" not in page.read_text("utf-8")
}


def test_there_are_twenty_recipes():
    index = (ROOT / "docs" / "how-to" / "index.md").read_text("utf-8")
    assert len(re.findall(r"^- \[", index, flags=re.M)) == 20


@pytest.mark.parametrize("page", [page for page, blocks in RECIPES.items() if blocks])
@pytest.mark.usefixtures("_few_words")
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_the_python_of_a_recipe_runs_as_it_stands(results, page):
    X = um.datasets.sotu()
    fit = um.TopicModel(4, random_state=0, tol=1e-3).fit(X).result_
    fit.save("speeches.safetensors")
    differences = um.differences(fit, X)
    names = {"um": um, "X": X, "fit": fit, "differences": differences, "adata": cells()}
    for block in RECIPES[page]:
        exec(block.replace("range(2, 13)", "range(2, 4)"), names)
    plt.close("all")


@pytest.mark.usefixtures("_few_words")
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_the_python_of_the_readme_runs_as_it_stands(folder):
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in PYTHON:  # what the README shows, and nothing else
            exec(block.replace("range(2, 13)", "range(2, 5)"), names)
    plt.close("all")
    assert (folder / "speeches.safetensors").is_file()
    assert (folder / "report.html").is_file()


@pytest.mark.usefixtures("_few_words")
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_what_the_table_of_the_readme_says_to_write_can_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = um.datasets.sotu()
    fit = um.TopicModel(8, random_state=0, tol=1e-2).fit(X).result_
    pd.DataFrame(fit.topics, X.features, fit.labels).to_csv("catalogue.csv")
    rows = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in TABLE.splitlines()[2:]]
    assert len(rows) == 9
    for _, python, command, guide in rows:
        for code in re.findall(r"`([^`]+)`", python):
            short = re.sub(r"range\(2, \d+\)", "range(2, 4)", code).replace(
                "stability(X, 8)", "stability(X, 8, runs=2)"
            )
            assert eval(short, {"um": um, "X": X, "fit": fit, "adata": cells()}) is not None or ".sc." in code
        assert all(name.split()[-1] in COMMANDS for name in re.findall(r"`([^`]+)`", command))
        assert re.fullmatch(r"\[.+\]\(docs/guide/[\w-]+\.md\)", guide)


def test_the_readme_is_short_and_begins_with_the_two_commands():
    lines = README.splitlines()
    assert len(lines) <= 120
    assert [line.partition(" #")[0].strip() for line in lines[3:5]] == ["make demo", "make test"]


def test_a_checkpoint_is_there_in_the_end_however_short_the_fit(tmp_path):
    X, path = um.datasets.digits(), tmp_path / "run.safetensors"
    model = um.TopicModel(3, random_state=0, callbacks=[um.solvers.Checkpoint(path)]).fit(X)
    np.testing.assert_array_equal(um.load(path).L, model.result_.L)
    np.testing.assert_array_equal(um.TopicModel(3, random_state=0).resume(X, um.load(path)).result_.L, model.result_.L)
