"""Every line of the README does what it says, on data of its kind."""

import re
import shutil
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

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.S)
TERMINAL = re.findall(r"^unmix [^\n]*", README, flags=re.M)
TABLE = README.partition("| to | write |")[2].partition("\n\n")[0]
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
    few = X.take(features=np.argsort(-X.feature_totals)[::60])
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
    pd.DataFrame({"sample": X.index, "age": range(len(X))}).to_csv(tmp_path / "tumours.csv", index=False)
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(X.to_numpy()))
    return tmp_path


def test_the_commands_of_the_readme_run_as_they_stand(folder):
    run = [line.partition("#")[0].split() for line in TERMINAL]
    assert len(run) == 10
    for words in run:
        with pytest.raises(SystemExit) as ended:
            main([word.strip("'") for word in words[1:]] + (["--quiet"] if words[1] in ("fit", "transform") else []))
        assert ended.value.code == 0, words
    assert (folder / "cells-k12" / "report.html").is_file()
    assert len(pd.read_csv(folder / "proportions.csv")) == 60


# Blocks without a language are shown, not run, where the site is built. A cluster of that name is nowhere.
SHOWN = {
    page.stem: [
        line.partition("#")[0].split()[1:]
        for block in re.findall(r"^```\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for line in re.findall(r"^unmix [^\n]*", block, flags=re.M)
        if "tls://" not in line
    ]
    for page in sorted((ROOT / "docs").rglob("*.md"))
}
SHOWN = {page: lines for page, lines in SHOWN.items() if lines}


@pytest.mark.parametrize("page", SHOWN)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_commands_that_a_page_shows_run_as_they_stand(folder, page):
    texts = [" ".join(WORDS[i % 3 * 6 :][:6] * 4) for i in range(12)]
    pd.DataFrame({"text": texts}).to_csv(folder / "speeches.csv", index=False)
    um.shard(folder / "new.h5ad", folder / "new.shards")
    for words in SHOWN[page]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0, words


@pytest.mark.usefixtures("_few_words")
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_the_python_of_the_readme_runs_as_it_stands(folder):
    slow = um.TopicModel(8, solver="em", random_state=0, max_iter=20, tol=0).fit(um.datasets.sotu()).result_
    names = {"slow": slow, "adata": cells(), "query": cells()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in PYTHON:  # what the README shows, and nothing else
            exec(block.replace("range(2, 13)", "range(2, 5)"), names)
    plt.close("all")
    assert (folder / "speeches.safetensors").is_file()
    assert (folder / "report.html").is_file()
    assert names["query"].obsm["X_topics"].shape == (60, 12)


@pytest.mark.usefixtures("_few_words")
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_what_the_table_of_the_readme_says_to_write_can_be_written(folder):
    X = um.Counts(cells().X, features=WORDS)
    um.TopicModel(2, random_state=0, max_iter=5).fit(um.datasets.sotu()).result_.save("speeches.safetensors")
    model = um.TopicModel(2, random_state=0, callbacks=[um.solvers.Checkpoint("run.safetensors")]).fit(X)
    shutil.rmtree(folder / "atlas.shards", ignore_errors=True)
    rows = [re.findall(r"`([^`]+)`", row) for row in TABLE.splitlines()[2:]]
    assert len(rows) == 10
    ran = 0
    for code in [code for row in rows for code in row]:
        if re.match(r'^"[\w-]+"$|^\(L0|^Fit$|^unmix', code):  # further values of the parameter before
            continue
        line = code if code.startswith(("um.", "model.")) else f"um.TopicModel(3, {code}, random_state=0).fit(X)"
        if line.startswith("model.resume"):
            model.fit(X)
        exec(line.replace("range(2, 13)", "range(2, 5)"), {"um": um, "X": X, "model": model})
        ran += 1
    assert ran >= 9


def test_a_checkpoint_is_there_in_the_end_however_short_the_fit(tmp_path):
    X, path = um.datasets.digits(), tmp_path / "run.safetensors"
    model = um.TopicModel(3, random_state=0, callbacks=[um.solvers.Checkpoint(path)]).fit(X)
    np.testing.assert_array_equal(um.load(path).L, model.result_.L)
    np.testing.assert_array_equal(um.TopicModel(3, random_state=0).resume(X, um.load(path)).result_.L, model.result_.L)
