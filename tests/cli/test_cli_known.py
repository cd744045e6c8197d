"""`unmix fit --known`, `--new`, `--seeds` and `--allowed`: the same as in Python, and what follows from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.cli import main

SEEDS = {"one": ["g1", "g2"], "two": ["g5*"]}


def run(capsys: Any, *words: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as exit:
        main([str(word) for word in words])
    return int(exit.value.code or 0), capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counts of three known topics and one that is new, the known ones, seeds, and labels of some samples."""
    path, rng = tmp_path_factory.mktemp("known"), np.random.default_rng(0)
    F, L = rng.dirichlet(np.full(30, 0.3), 4).T, rng.gamma(0.5, 60, (60, 4))
    names, samples = [f"g{j}" for j in range(30)], [f"s{i}" for i in range(60)]
    pd.DataFrame(F[:, :3], index=names, columns=["A", "B", "C"]).to_csv(path / "known.csv")
    pd.DataFrame(rng.poisson(L @ F.T), index=samples, columns=names).to_csv(path / "counts.csv")
    (path / "seeds.yaml").write_text("one: [g1, g2]\ntwo:\n- g5*\n")
    labels = pd.DataFrame(
        {"kind": ["A" if i % 3 == 0 else "" for i in range(60)]}, index=pd.Index(samples, name="sample")
    )
    labels.to_csv(path / "metadata.csv")
    return path


def test_known_and_new_topics_are_those_of_python(folder: Path, capsys: Any) -> None:
    table = pd.read_csv(folder / "known.csv", index_col=0)
    words = ("fit", folder / "counts.csv", "--known", folder / "known.csv")
    code, err = run(capsys, *words, "--new", 1, "-o", folder / "new", "--freedom")
    assert code == 2, err
    assert "--freedom; it does not support known topics; remove it" in err
    code, err = run(capsys, *words, "--new", 1, "-o", folder / "new", "--stability", "--stability-runs", 2)
    assert code == 0, err
    fit = um.load(folder / "new")
    python = um.TopicModel(known=table, new=1, random_state=0).fit(um.read(folder / "counts.csv")).result_
    np.testing.assert_array_equal(fit.F, python.F)
    np.testing.assert_allclose(fit.topics[:, :3], table, rtol=1e-12)
    assert fit.labels == ["A", "B", "C", "new 1"]
    assert "new 1" in (folder / "new" / "report.html").read_text(encoding="utf-8")
    code, err = run(capsys, *words, "--known-weight", 1000, "-k", 5, "-o", folder / "partly")
    assert code == 0, err
    assert um.load(folder / "partly").labels == ["A", "B", "C", "topic 4", "topic 5"]
    code, err = run(capsys, *words, "-k", 2, "-o", folder / "no")
    assert (code, (folder / "no").exists()) == (2, False)
    assert "known has 3 topics and -k 2; use at least 3" in err
    assert "--new 2; use --known FILE with it" in run(capsys, "fit", folder / "counts.csv", "--new", 2)[1]


def test_a_fit_with_known_topics_is_resumed(folder: Path, capsys: Any) -> None:
    words = ("fit", folder / "counts.csv", "--known", folder / "known.csv", "-k", 4, "--tol", 0, "-o", folder / "again")
    assert run(capsys, *words, "--max-iter", 5)[0] == 0
    assert run(capsys, *words, "--max-iter", 9, "--resume")[0] == 0
    table = pd.read_csv(folder / "known.csv", index_col=0)
    model = um.TopicModel(4, known=table, tol=0, max_iter=9, random_state=0).fit(um.read(folder / "counts.csv"))
    np.testing.assert_array_equal(um.load(folder / "again").F, model.result_.F)


@pytest.mark.parametrize("model", ["topics", "lda"])
def test_seeds_are_those_of_python(folder: Path, model: str, capsys: Any) -> None:
    words = ("fit", folder / "counts.csv", "-k", 4, "--seeds", folder / "seeds.yaml", "--model", model)
    code, err = run(capsys, *words, "-o", folder / f"seeds-{model}")
    assert code == 0, err
    fit = um.load(folder / f"seeds-{model}")
    kind = um.LDA if model == "lda" else um.TopicModel
    np.testing.assert_array_equal(
        fit.F, kind(4, seeds=SEEDS, random_state=0).fit(um.read(folder / "counts.csv")).result_.F
    )
    assert fit.labels[:2] == ["one", "two"]
    assert fit.data["known"]["seeds"]["one"] == ["g1", "g2"]


def test_labels_say_which_topics_are_allowed(folder: Path, capsys: Any) -> None:
    words = (
        "fit",
        folder / "counts.csv",
        "--metadata",
        folder / "metadata.csv",
        "--known",
        folder / "known.csv",
        "-k",
        4,
    )
    code, err = run(capsys, *words, "--allowed", "kind", "-o", folder / "allowed")
    assert code == 0, err
    fit = um.load(folder / "allowed")
    assert not fit.L[::3, 1:3].any()
    assert fit.L[1::3, 1:3].any()
    code, err = run(capsys, *words, "--allowed", "sort", "-o", folder / "no")
    assert (code, (folder / "no").exists()) == (2, False)
    assert "there is no column sort" in err or "no such column" in err
