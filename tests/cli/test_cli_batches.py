"""`unmix fit --batch` and `--opportunities`, `unmix transform --batch`: the same as in Python, into the report, refused in words
of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts

import unmix as um
from unmix.analysis.prevalence import BY_DESIGN, effect_remarks
from unmix.cli import main
from unmix.plot import batch_effects
from unmix.report.payload import payload

pytestmark = pytest.mark.filterwarnings("ignore:effects of batches are estimated from")
X = random_counts(n=40, m=30, seed=3)
X[::2] = np.random.default_rng(0).poisson(X[::2] * np.exp(np.random.default_rng(1).normal(0, 0.7, 30)))
DONORS = np.where(np.arange(40) % 2, "one", "two")


def run(capsys: Any, *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit:
        main([str(word) for word in words])
    said = capsys.readouterr()
    return int(exit.value.code or 0), said.out, said.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("batches")
    names = [f"s{i}" for i in range(40)]
    table = pd.DataFrame(X, index=names, columns=[f"f{j}" for j in range(30)])
    table.to_csv(path / "counts.csv")
    pd.DataFrame({"donor": DONORS}, index=pd.Index(names, name="sample")).to_csv(path / "metadata.csv")
    rates = pd.DataFrame(np.arange(1.0, 61).reshape(2, 30), index=["one", "two"], columns=table.columns)
    rates.rename_axis("donor").to_csv(path / "opportunities.csv")
    return path


def test_a_fit_with_batches_is_that_of_python_and_its_report_has_a_section(folder: Path, capsys: Any) -> None:
    reading = (folder / "counts.csv", "--metadata", folder / "metadata.csv")
    code, _, err = run(capsys, "fit", *reading, "-k", 2, "--batch", "donor", "--batch-prior", 3, "-o", folder / "fit")
    assert code == 0, err
    fit = um.load(folder / "fit" / "model.safetensors")
    python = um.TopicModel(2, batch_prior=3.0, random_state=0).fit(X, batch=DONORS).result_
    np.testing.assert_allclose(fit.multipliers, python.multipliers, rtol=1e-9)
    page = (folder / "fit" / "report.html").read_text(encoding="utf-8")
    assert "Effects of batches on features" in page
    assert BY_DESIGN in page
    code, out, err = run(capsys, "transform", folder / "fit", *reading, "--batch", "donor", "-o", folder / "p.csv")
    assert code == 0, out + err
    found = pd.read_csv(folder / "p.csv", index_col=0).to_numpy()
    np.testing.assert_allclose(found, fit.transform(X, batch=DONORS), atol=1e-6)
    code, _, err = run(
        capsys, "fit", *reading, "-k", 2, "--batch", "donor", "--batch-prior", 3, "--resume", "-o", folder / "fit"
    )
    assert code == 0, err
    code, _, err = run(capsys, "fit", *reading, "-k", 2, "--batch", "doner", "-o", folder / "no")
    assert (code, "--batch doner" in err, (folder / "no").exists()) == (2, True, False)
    code, _, err = run(capsys, "fit", *reading, "-k", 2, "--batch", "donor", "--differences", "-o", folder / "no")
    assert code == 2
    assert "--differences" in err
    assert "does not support multipliers of rates" in err


def test_opportunities_come_from_a_table(folder: Path, capsys: Any) -> None:
    reading = (folder / "counts.csv", "--metadata", folder / "metadata.csv")
    given = ("--opportunities", folder / "opportunities.csv")
    code, _, err = run(capsys, "fit", *reading, "-k", 2, *given, "-o", folder / "known")
    assert code == 0, err
    fit = um.load(folder / "known" / "model.safetensors")
    np.testing.assert_array_equal(fit.multipliers, np.arange(1.0, 61).reshape(2, 30))
    assert fit.batch_labels.tolist() == ["one", "two"]
    (folder / "words.csv").write_text("donor,f0\none,many\n")
    code, _, err = run(capsys, "fit", *reading, "-k", 2, "--opportunities", folder / "words.csv", "-o", folder / "no")
    assert (code, "words.csv: not a table of numbers" in err) == (2, True)


def test_effects_are_summed_up_in_words_numbers_and_a_picture() -> None:
    fit = um.TopicModel(2, batch_prior=3.0, random_state=0).fit(um.Counts(X), batch=DONORS).result_
    table = um.analysis.batch_summary(fit, 3)
    assert table["batch"].tolist() == ["one", "two"]
    assert table["samples"].tolist() == [20, 20]
    assert table["counts"].tolist() == [X[1::2].sum(), X[::2].sum()]
    effects = fit.batch_effects.set_index("batch").loc["two"].set_index("feature")["effect"]
    raised = effects.sort_values(ascending=False).index[0]
    assert table["up"].iloc[1].startswith(f"{raised} {effects[raised]:.3g}, ")
    assert table["sd"].iloc[1] == pytest.approx(np.sqrt((np.log(effects) ** 2).mean()))
    (said,) = effect_remarks(fit)
    assert said.startswith("effects of batches: ")
    assert said in fit.advice()
    section = payload(fit, "title")
    assert section["sections"][0] == "batch_effects"
    assert section["batch_effects"]["rows"][0][0] == "one"
    json.dumps(section["batch_effects"])
    ax = batch_effects(fit, 5)
    assert len(ax.get_yticks()) == 5
    plain = um.TopicModel(2, tol=1e-3, random_state=0).fit(X).result_
    assert um.analysis.batch_summary(plain).empty
    assert effect_remarks(plain) == []
    with pytest.raises(ValueError, match="this fit has no effects of batches"):
        batch_effects(plain)
