"""Golden values with tolerances: what estimators and analyses computed when golden_values.json was written, on every machine.

    PYTHONPATH=tests python tests/project/test_golden_values.py    writes the file anew, after a change that should change results

`test_golden.py` compares bits where processor and libraries allow it; these numbers hold to about five digits elsewhere. Tables
and the report are compared word by word, and the numbers in them within the same tolerance.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, random_counts
from test_golden import NAMES, TOGETHER, fitted

import unmix as um
from unmix.io.write import write_fit

FILE = ROOT / "tests" / "golden_values.json"
RTOL, ATOL = 1e-5, 1e-8
# The data do not decide these: there are more topics than samples, and a search that ends where it finds no better point.
UNDECIDED = {"33 topics": 0.01, "freedom loss": 0.2}
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def digest(*arrays: Any) -> list[float]:
    """Three numbers that change with any entry of any array: the size of all, and two projections."""
    values = np.concatenate([np.asarray(array, dtype=float).ravel() for array in arrays])
    values = np.nan_to_num(values, nan=-1.0, posinf=-2.0, neginf=-3.0)
    place = np.arange(1, len(values) + 1)
    return [float(np.sqrt(np.mean(values**2))), *(float(values @ np.sin(place * step)) for step in (0.7, 1.3))]


def numbers(table: pd.DataFrame) -> list[float]:
    return digest(table.drop(columns="seconds", errors="ignore").select_dtypes("number").to_numpy(dtype=float))


@cache
def counts() -> um.Counts:
    metadata = pd.DataFrame({"group": ["a", "b"] * 20, "year": np.arange(1980, 2020)})
    names = [f"s{i}" for i in range(40)], [f"f{j}" for j in range(30)]
    return um.Counts(random_counts(40, 30, seed=3), *names, metadata)


@cache
def a_fit(K: int = 4) -> um.Fit:
    return um.TopicModel(K, random_state=0, tol=1e-8).fit(counts()).result_


def _shards(kind: Any, **options: Any) -> list[float]:
    shards = um.Shards.of(counts())
    model = kind(3, random_state=0, max_iter=6, tol=0, **options).fit(shards)
    return digest(model.result_.L, model.result_.F, model.transform(shards), [model.score(shards)])


def _choice() -> list[float]:
    return numbers(um.choose_topics(counts(), [1, 2, 4], folds=2, random_state=0).table)


def _differences(**options: Any) -> list[float]:
    found = um.differences(a_fit(), counts(), random_state=0, **options)
    return digest(found.lfc, found.lfc_raw, found.sd, found.z, found.lfsr)


def _freedom(**options: Any) -> list[float]:
    found = um.freedom(a_fit(), **options)
    return digest(found.low, found.high)


def _applied(kind: Any, **options: Any) -> list[float]:
    model = kind(3, random_state=0, max_iter=8, tol=0, **options).fit(counts())
    new = random_counts(9, 30, seed=11)
    more = [model.perplexity(new, random_state=0)] if hasattr(model, "perplexity") else []
    return digest(model.transform(new), [model.score(new), *more])


def _path() -> list[float]:
    return digest(*(fit.loglik for fit in um.fit_path(counts(), [2, 3, 4], random_state=0).values()))


ANALYSES: dict[str, Callable[[], list[float]]] = {
    **{
        f"transform, score {kind.__name__}": lambda kind=kind: _applied(kind)
        for kind in (um.PoissonNMF, um.TopicModel, um.LDA, um.GammaPoisson, um.BayesianPoissonNMF, um.SparsePoissonNMF)
    },
    "transform, score AllocationModel": lambda: _applied(um.AllocationModel),
    **{
        f"shards {kind.__name__}": lambda kind=kind: _shards(kind)
        for kind in (um.PoissonNMF, um.TopicModel, um.LDA, um.GammaPoisson, um.BayesianPoissonNMF)
    },
    "differences": _differences,
    "differences least": lambda: _differences(against="least", errors="poisson"),
    "differences groups": lambda: _differences(against="rest", groups="group"),
    "differences held out": lambda: _differences(held_out=0.5),
    "choose": _choice,
    "stability": lambda: numbers(um.stability(counts(), 3, 4, random_state=0).table),
    "consensus": lambda: digest(um.consensus(counts(), 3, 4, random_state=0).F),
    "intervals": lambda: numbers(um.intervals(a_fit(), counts(), sweeps=40, burn_in=10, random_state=0).table),
    "freedom": _freedom,
    "freedom loss": lambda: _freedom(X=counts(), loss=2.0),
    "align": lambda: numbers(um.align([a_fit(2), a_fit(3), a_fit(4)]).flows),
    "compare": lambda: numbers(um.compare(a_fit(3), a_fit(4)).table),
    "quality": lambda: numbers(a_fit().quality(counts()).table),
    "top features": lambda: numbers(a_fit().top_features(8)),
    "path": _path,
    "shrink": lambda: digest(um.shrink(np.linspace(-2, 3, 40), np.linspace(0.1, 1, 40)).mean),
    "loglik, deviance, kkt": lambda: digest(
        *(of(counts(), a_fit().L, a_fit().F) for of in (um.loglik, um.deviance, um.kkt))
    ),
}


def plain_fit() -> um.Fit:
    """A fit that was typed, so that tables and pages of it are the same everywhere."""
    L = (np.arange(36) * 7 % 11).reshape(12, 3) + 1.0
    F = (np.arange(30) * 5 % 13).reshape(10, 3) + 0.5
    columns = {
        "iteration": [0, 1],
        "seconds": [0.0, 0.5],
        "loglik": [-9.0, -8.5],
        "objective": [-9.0, -8.5],
        "kkt": [1.0, 0.25],
    }
    trace = pd.DataFrame(columns | {"stage": ["start", "fit"], "note": ["given", ""]})
    metadata = pd.DataFrame({"group": ["a", "b", "c"] * 4, "year": range(1990, 2002)})
    names = {"samples": np.array([f"s{i}" for i in range(12)]), "features": np.array([f"f{j}" for j in range(10)])}
    about = {"metadata": metadata, "params": {"model": "PoissonNMF", "n_components": 3}, "versions": {"unmix": "0"}}
    return um.Fit(L, F, trace, "converged", -8.5, **names, **about)


def texts() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "fit")
        write_fit(plain_fit(), folder)
        um.write_report(plain_fit(), folder / "report.html", title="Plain")
        return {
            file.name: file.read_text(encoding="utf-8")
            for file in sorted(folder.iterdir())
            if file.suffix != ".safetensors"
        }


def worded(text: str) -> dict[str, Any]:
    """The words of a text by their hash, and its numbers by their digest."""
    found = [float(number) for number in NUMBER.findall(text)]
    words = hashlib.sha256(NUMBER.sub("#", text).encode()).hexdigest()[:20]
    return {"words": words, "numbers": digest(found) if found else []}


def value(name: str) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in ANALYSES:
            return ANALYSES[name]()
        fit = fitted(name)[0].result_
        return digest([fit.loglik], fit.trace["objective"].iloc[-1:], fit.proportions, fit.topics)


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return json.loads(FILE.read_text())


@pytest.mark.parametrize("name", [*ANALYSES, *TOGETHER])
def test_results_are_those_that_were_written_down_on_every_machine(name: str, golden: dict[str, Any]) -> None:
    np.testing.assert_allclose(value(name), golden["values"][name], rtol=UNDECIDED.get(name, RTOL), atol=ATOL)


def test_tables_and_the_report_of_a_fixed_fit_say_what_they_said(golden: dict[str, Any]) -> None:
    found = {name: worded(text) for name, text in texts().items()}
    assert found.keys() == golden["texts"].keys()
    for name, known in golden["texts"].items():
        assert found[name]["words"] == known["words"], name
        np.testing.assert_allclose(found[name]["numbers"], known["numbers"], rtol=RTOL, atol=ATOL, err_msg=name)


def test_every_golden_value_is_compared(golden: dict[str, Any]) -> None:
    assert sorted(golden["values"]) == sorted([*ANALYSES, *NAMES])


if __name__ == "__main__":
    written = {name: value(name) for name in (*ANALYSES, *NAMES)}
    pages = {name: worded(text) for name, text in texts().items()}
    FILE.write_text(json.dumps({"values": written, "texts": pages}, indent=1) + "\n")
    print(f"wrote {len(written)} values to {FILE}", file=sys.stderr)
