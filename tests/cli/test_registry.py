"""A new analysis is its module, its row and, if it draws more than a table, a script: all else follows."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import msgspec
import pandas as pd
import pytest
from conftest import random_counts

import unmix as um
from unmix.cli import analyses, main, options
from unmix.io.write import write_counts
from unmix.registry import ANALYSES, Analysis

X = um.Counts(random_counts(20, 15, K=3, seed=1, mean=6.0), features=[f"f{j}" for j in range(15)])


# A new analysis, in a copy of the package: its module, its row and its script are added, and nothing else is touched.

MODULE = '''
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from unmix.analysis.application import FitLike, counts_of, fit_of
from unmix.analysis.results import Result
from unmix.base.checks import share


@dataclass(frozen=True, eq=False, repr=False)
class Heaviest(Result):
    table: pd.DataFrame
    above: float

    def advice(self) -> list[str]:
        return [f"{len(self.table)} topics have samples above {self.above:.0%}"]


def heaviest(fit: FitLike, X: Any, *, above: float = 0.5, verbose: bool = False) -> Heaviest:
    """How many samples have more than half of their counts in a topic.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    X : Counts or array-like
        Counts of the fit.
    above : float, default=0.5
        Part of a sample. It is between 0 and 1.
    verbose : bool, default=False
        Whether to report progress.

    Returns
    -------
    Heaviest
        One row per topic.
    """
    share("above", above)
    fit = fit_of(fit)
    counts_of(fit, X, "heaviest")
    many = (fit.proportions > above).sum(axis=0)
    return Heaviest(pd.DataFrame({"topic": np.arange(1, fit.n_topics + 1), "samples": many}), above)
'''
ROW = """        Analysis("heaviest", "heaviest", "Heaviest", "How many samples each topic dominates.", "Heaviest samples",
                 ("fit", "X"), section=True, asks_fit=True, examples=("unmix heaviest counts-k3 counts.npz",)),
"""
SCRIPT = "sections.heaviest = ({ rows }, card) => card.append(el('p', {}, `${rows.length} drawn by its own script`));\n"
# Runs each command that it is told of in the copy, and says how each ended.
DRIVER = """
import contextlib, io, json, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
sys.path.insert(0, "package")
from unmix.cli import main
ends = []
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as end:
            ends.append((int(end.code or 0), out.getvalue(), err.getvalue()))
import unmix
assert unmix.__file__.endswith("package/unmix/__init__.py")
json.dump(ends, sys.stdout)
"""


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("added")
    package = folder / "package" / "unmix"
    shutil.copytree(Path(um.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for module in [module for name, module in sys.modules.items() if name.startswith("unmix.kernels._")]:
        shutil.copy(str(module.__file__), package / "kernels")
    (package / "analysis" / "heaviest.py").write_text(MODULE)
    registry = (package / "registry.py").read_text(encoding="utf-8")
    head, rows, rest = registry.partition("ANALYSES = {\n    row.name: row\n    for row in (\n")
    (package / "registry.py").write_text(head + rows + ROW + rest, encoding="utf-8")
    (package / "report" / "static" / "heaviest.js").write_text(SCRIPT)
    write_counts(X, folder / "counts.npz")
    return folder


def in_copy(folder: Path, *commands: str) -> list[tuple[int, str, str]]:
    asked = json.dumps([command.split() for command in commands])
    done = subprocess.run([sys.executable, "-c", DRIVER], cwd=folder, input=asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [tuple(end) for end in json.loads(done.stdout)]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0), *capsys.readouterr()


def section(page: Path) -> dict[str, Any]:
    text = page.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    return json.loads(data[1])["heaviest"]


def test_an_analysis_is_added_by_its_module_its_row_and_its_script(added: Path) -> None:
    fitted, asked, answered, refused, undrawn, helped, listed = in_copy(
        added,
        "fit counts.npz -k 3 --heaviest -q -o fitted",
        "heaviest fitted counts.npz --above 0.6",
        "heaviest fitted counts.npz --json -o only.csv",
        "heaviest fitted counts.npz --above 2",
        "heaviest nowhere counts.npz -o picture.png",
        "heaviest --help",
        "--help",
    )
    assert fitted[0] == 0
    assert (asked[0], asked[2]) == (0, "note: 3 topics have samples above 60%\n")
    assert "wrote fitted" in asked[1]
    assert {"heaviest.safetensors", "heaviest.csv"} <= {path.name for path in (added / "fitted").iterdir()}
    assert section(added / "fitted" / "report.html")["heads"] == ["topic", "samples"]
    assert section(added / "fitted" / "report.html")["advice"] == ["3 topics have samples above 60%"]
    assert SCRIPT in (added / "fitted" / "report.html").read_text(encoding="utf-8")
    answer = json.loads(answered[1])
    assert (answer["analysis"], answer["above"], len(answer["table"])) == ("heaviest", 0.5, 3)
    assert len(pd.read_csv(added / "only.csv")) == 3
    assert refused[0] == undrawn[0] == 2
    assert "--above 2.0; use a probability between 0 and 1" in refused[2]
    assert "-o picture.png; use a name that ends in .csv or .tex or .safetensors or .html" in undrawn[2]
    assert "Part of a sample. [0.5]" in helped[1]
    assert "unmix heaviest counts-k3 counts.npz" in helped[1]
    assert "heaviest" in listed[1]


@pytest.mark.parametrize("row", ANALYSES.values(), ids=lambda row: row.name)
def test_the_sketch_of_an_analysis_has_its_signature_and_docstring(row: Analysis) -> None:
    kind = row.here(row.result)
    real = [row.here(row.function), *(one for name in row.tables if callable(one := getattr(kind, name, None)))]
    for sketch, function in zip(row.sketches(), real, strict=True):
        one, other = (inspect.signature(thing).parameters for thing in (sketch, function))
        assert [(name, p.kind, p.default) for name, p in one.items()] == [
            (name, p.kind, p.default) for name, p in other.items()
        ]
        assert inspect.getdoc(sketch) == inspect.getdoc(function)


# --- the answers for machines ---------------------------------------------------------------------------------------


Fields = dict[str, Any]
COMMON: Fields = {"analysis": str, "output": list[str], "notes": list[str], "table": list[dict[str, Any]]}
STATUS: Fields = {"status": Literal["finished", "interrupted"]}
OF_ROWS: dict[str, tuple[list[str], Fields]] = {
    "choose": (
        ["counts.npz", "-k", "1-2", "--folds", "2"],
        STATUS
        | dict.fromkeys(("suggested", "best", "folds", "folds_done", "samples", "seed"), int)
        | {"worthwhile": int | None, "worth": float, "held_out": float, "dispersion": float, "model": str}
        | {"overdispersion": float | None},
    ),
    "differences": (
        ["model", "counts.npz"],
        STATUS
        | {"errors": str, "against": str, "groups": int, "held_out": float | None}
        | {"pseudocount": float, "fractional": float},
    ),
    "stability": (
        ["counts.npz", "-k", "3", "--runs", "2"],
        STATUS | {"noise": str, "runs": int, "unfinished": int},
    ),
    "freedom": (["model", "--probes", "2"], STATUS | {"loss": float, "missed": float}),
    "intervals": (
        ["model", "counts.npz", "--sweeps", "10", "--burn-in", "5"],
        STATUS | {"level": float, "rhat": float, "draws": int, "outside": float, "posterior": str},
    ),
    "quality": (["model", "counts.npz", "--top", "3"], {"top": int}),
    "prevalence": (
        ["model", "--by", "kind", "--metadata", "about.csv"],
        {"by": str, "over": str, "groups": str, "level": float},
    ),
    "effects": (
        ["model", "counts.npz", "--metadata", "about.csv", "--formula", "~ kind"],
        dict.fromkeys(("formula", "groups", "scale"), str)
        | dict.fromkeys(("level", "spread", "noise_per_count", "reliability"), float),
    ),
    "assign": (["counts.npz", "--catalogue", "model"], {"rule": str, "price": float | None, "loglik": float}),
    "compare": (["model", "model"], {"samples": int}),
    "align": (["model", "model"], {}),
}
SIZE: Fields = {"samples": int, "features": int}
DATA: Fields = (
    SIZE
    | {"nonzeros": int, "total": float, "empty_samples": int, "empty_features": int, "fractional": float}
    | {"checksum": str, "looks_like_counts": bool, "metadata": list[str]}
)
COUNTS: Fields = DATA | {"read_as": str, "sample_names": bool, "feature_names": bool}
TOPIC = msgspec.defstruct("Topic", [("topic", int), ("name", str), ("share", float), ("top_features", list[str])])
OTHERS: dict[str, tuple[list[str], Fields]] = {
    "fit": (
        ["counts.npz", "-k", "2"],
        SIZE
        | {"model": str, "n_topics": int, "iterations": int, "topics": list[TOPIC]}  # type: ignore[valid-type]
        | dict.fromkeys(("seconds", "loglik", "objective", "kkt", "remaining_gain"), float)
        | {"status": Literal["converged", "max_iter", "interrupted"], "notes": list[str], "parameters": dict}
        | {"data": dict, "versions": dict[str, str], "output": str, "failed": list[str]},
    ),
    "transform": (
        ["model", "counts.npz", "-o", "p.csv"],
        {"output": str, "samples": int, "topics": int, "missing_features": int, "unknown_features": int}
        | {"goodness_of_fit": str, "fits": bool, "missing": str, "empty_samples": int},
    ),
    "path": (["counts.npz", "-k", "1,2"], {"output": str, "fits": list[dict[str, Any]]}),
    "info": (["counts.npz"], COUNTS | {"kind": str}),
    "report": (["model"], {"output": str, "bytes": int}),
    "shard": (["counts.npz"], DATA | {"output": str, "shards": int, "rows_per_shard": int, "start": int}),
    "simulate": (["swimmer", "-o", "s.npz"], COUNTS | {"output": str}),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("json")
    write_counts(X, folder / "counts.npz")
    pd.DataFrame({"kind": list("ab") * 10}).to_csv(folder / "about.csv")
    with pytest.raises(SystemExit, match="0"):
        main(["fit", str(folder / "counts.npz"), "-k", "3", "-q", "-o", str(folder / "model")])
    return folder


def test_every_command_has_a_schema() -> None:
    assert OF_ROWS.keys() == ANALYSES.keys()
    assert OF_ROWS.keys() | OTHERS.keys() | {"demo"} == options.COMMANDS.keys()  # that of `demo` is that of `fit`


@pytest.mark.parametrize("name", [*OF_ROWS, *OTHERS])
def test_json_of_every_command_follows_its_schema(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    arguments, fields = (OF_ROWS | OTHERS)[name]
    needed = fields | (COMMON if name in OF_ROWS else {})
    schema = msgspec.defstruct("Answer", list(needed.items()), forbid_unknown_fields=True)
    code, out, _ = run(capsys, name, *arguments, "--json")
    assert code == 0
    msgspec.json.decode(out, type=schema)  # all of these fields, of these types, and no others


@pytest.mark.parametrize("name", [name for name, row in ANALYSES.items() if row.asks_fit])
def test_results_in_the_folder_of_a_fit_are_about_that_fit(
    name: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    um.TopicModel(2, random_state=0).fit(X).result_.save(tmp_path / "model.safetensors")
    arguments = [name, *OF_ROWS[name][0], *(["--reference", "model"] if name == "stability" else [])]
    for output in (tmp_path, tmp_path / f"{ANALYSES[name].stem}.safetensors"):
        code, _, err = run(capsys, *arguments, "-o", str(output))
        assert code == 2
        assert "it holds another fit than model: use another folder" in err
        assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("output", ["kept", "kept/stability.safetensors"])
def test_stability_beside_a_fit_is_about_its_topics(
    output: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(place / "model", "kept")
    write_counts(um.Counts(random_counts(20, 15, K=3, seed=5), features=X.features), "others.npz")
    assert run(capsys, "stability", "others.npz", "-k", "3", "--runs", "2", "-q", "-o", output)[0] == 0
    assert run(capsys, "report", "kept")[0] == 0
    text = Path("kept/report.html").read_text(encoding="utf-8")
    assert '"stability": {' in text or '"stability":{' in text


# --- one vocabulary ---------------------------------------------------------------------------------------------------

PARAMETERS = {
    "n_components": {"-k", "--n-components"},
    "n_jobs": {"--n-jobs", "--threads"},
    "random_state": {"--seed", "--random-state"},
    "output": {"-o", "--output"},
    "force": {"--force"},
    "json": {"--json"},
    "quiet": {"-q", "--quiet"},
    "checkpoint": {"--resume"},
}


def test_a_parameter_has_one_option_in_all_commands() -> None:
    names: dict[str, set[tuple[str, ...]]] = {}
    for command in options.program().commands.values():
        for param in command.params:
            if param.param_type_name == "option":
                names.setdefault(param.name, set()).add(tuple(sorted(param.opts)))
    assert not {name: several for name, several in names.items() if len(several) > 1}
    for name, expected in PARAMETERS.items():
        assert set(*names[name]) == expected


def test_the_page_of_the_command_line_has_the_vocabulary() -> None:
    from conftest import ROOT

    page = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE))
    for name, expected in PARAMETERS.items():
        if name in rows:
            assert set(re.findall(r"`(-[^`]+)`", rows[name])) == expected
    assert {"n_components", "n_jobs", "random_state", "checkpoint"} <= rows.keys()


@pytest.mark.parametrize("name", ANALYSES)
def test_the_help_says_where_results_go(name: str) -> None:
    row = ANALYSES[name]
    folder, _ = analyses._places(row, {"fit": Path("a-k2"), "X": Path("a.npz"), "n_components": 2}, [])
    text = analyses.command_of(row).__doc__ or ""
    assert ("With -o, writes" in text) == (folder is None)
    assert ("into the folder of MODEL" in text) == (folder == Path("."))
