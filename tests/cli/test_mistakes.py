"""The mistakes that newcomers make, at the command line and in Python: each gets the place, the value and a remedy."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unmix as um
from unmix.cli import main, options

RNG = np.random.default_rng(0)
FEW = RNG.poisson(3, (12, 6))
FILES = {
    "negative.csv": "s,w0\na,1\nb,-1\n",
    "gap.csv": "s,w0\na,1\nb,\n",
    "logs.csv": "s,w0,w1\na,0.69,1.1\nb,1.39,0.2\n",
    "empty.csv": "",
    "a.docx": "PK",
    "a.pkl": "x",
    "thesis/chapter.tex": "years of work",
    "other.csv": ",unheard\nx,1\n",
    "meta.csv": "id,year\n" + "".join(f"t{i},{i}\n" for i in range(12)),
    "part.csv": "id,year\n" + "".join(f"s{i},{i}\n" for i in range(10)),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with counts, their fit, and files of other kinds."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "thesis").mkdir()
    (folder / "nothing").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    table = pd.DataFrame(FEW, [f"s{i}" for i in range(12)], [f"w{j}" for j in range(6)])
    table.to_csv(folder / "counts.csv")
    with pytest.raises(SystemExit, match="0"):
        main(["fit", str(folder / "counts.csv"), "-k", "2", "-q", "-o", str(folder / "model")])
    return folder


@pytest.fixture
def _there(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(place, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")


FIT = "fit counts.csv -k 2"
# What is typed, what the message says, and what it says where it ends with success (a note).
TYPED = {
    "fit counts.csv": "Missing option '-k' / '--n-components'; unmix choose INPUT suggests a number (see unmix fit --help)",
    "fit missing.npz -k 2": "missing.npz: no such file; check the name and the folder",
    "fit counts.csv -k ten": "'ten' for '-k' / '--n-components': ",
    "fit counts.csv -k 3-6": "unmix choose compares several (see unmix fit --help)",
    "fit counts.csv -k 0": "'0' for '-k' / '--n-components' should be greater than or equal to 1",
    f"{FIT} --threads 0": "'0' for '--n-jobs' / '--threads' should be greater than or equal to 1",
    "fit a.docx -k 2": "a.docx: unknown kind of file; ",
    "fit a.pkl -k 2": "a.pkl: unmix never reads pickles",
    "fit empty.csv -k 2": "empty.csv: ",
    "fit negative.csv -k 2": "row 2 ('b'), column 1 ('w0') is -1; unmix needs finite counts >= 0",
    "fit gap.csv -k 2": "row 2 ('b'), column 1 ('w0') is empty",
    "fit logs.csv -k 2": "100% of the values are not whole numbers, as after tf-idf, logarithms or normalisation",
    "fit nothing -k 2": "a folder with nothing that unmix reads",
    f"{FIT} -o thesis": "thesis: holds files that are not a fit's",
    f"{FIT} --model nmf": "--model nmf; choose one of topics, poisson-nmf",
    f"{FIT} --set alpha=0.1": "it has no parameter alpha (lda, allocation have it)",
    f"{FIT} --set alpha 0.1": "--set takes NAME=VALUE, such as --set alpha=0.1",
    "fit counts.csv --n-component 3": "No such option: --n-component. Did you mean --n-components?",
    "fit counts.csv --n-topics 3": "No such option: --n-topics. Did you mean -k?",
    "fit counts.csv --K 3": "No such option: --K. Did you mean -k?",
    f"{FIT} --iterations 5": "No such option: --iterations. Did you mean --max-iter?",
    f"{FIT} --alpha 0.1": "No such option: --alpha. Did you mean --set NAME=VALUE?",
    f"{FIT} --out here": "No such option: --out. Did you mean -o?",
    f"{FIT} --fast": "No such option: --fast (see unmix fit --help)",
    "stability counts.csv -k 2 --iterations 5": "No such option: --iterations (see unmix stability --help)",
    f"{FIT} --solver mu": "--solver mu; choose one of newton, scd",
    f"{FIT} --layer counts": "counts.csv: --layer counts does not apply to a .csv file",
    f"{FIT} --metadata meta.csv": "meta.csv: no column has the names of the samples, such as 's0'",
    f"{FIT} --metadata part.csv": "10 of 12 samples are in its column 'id', not ",
    f"{FIT} --memory 4": "--memory 4; ",
    f"{FIT} --memory lots": "--memory lots; ",
    f"{FIT} --init random.npz": "random.npz: no such file; --init: choose one of auto",
    "transform model other.csv -o p.csv": "no feature has a name that the model knows (such as w0)",
    "transform model counts.csv": "Missing option '-o' / '--output'; name a file for the results",
    "transform model counts.csv -o p.xlsx": "ends in .csv or .npy",
    "transform counts.csv model -o p.csv": "model: a fit's folder, not counts",
    "transform none counts.csv -o p.csv": "none: no such file; ",
    "differences counts.csv model": "the model comes first: unmix differences model counts.csv",
    "freedom counts.csv": "counts.csv: not a fit; unmix freedom needs a fit's folder",
    "report counts.csv": "this fit has no samples, only topics",
    "stability model counts.csv": "about a fit: unmix stability INPUT -k K --reference MODEL",
    "choose counts.csv -k 3": "-k 3; ",
    "align model": "1 fit given; ",
    "predict model counts.csv": "No such command 'predict'. Did you mean 'transform'?",
    "fti counts.csv -k 2": "Did you mean 'fit'?",
    "fit": "Missing argument 'INPUT'. (see unmix fit --help)",
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def options_of(command: str) -> set[str]:
    return {one for param in options.program(command).commands[command].params for one in param.opts}


def wrong_options(command: str, text: str) -> set[str]:
    """Options that a message names and its command does not have; "--x of unmix fit" is one of fit."""
    own = options_of(command) | {"--help", "--help-all"}
    for other in re.findall(r"unmix ([a-z]+)", text):
        own |= options_of(other) if other in options.COMMANDS else set()
    return set(OPTION.findall(text)) - own


@pytest.mark.parametrize("typed", TYPED)
@pytest.mark.usefixtures("_there")
def test_a_mistake_at_the_command_line_is_named_with_its_remedy(typed: str, capsys: pytest.CaptureFixture) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    with pytest.raises(SystemExit) as exit:
        main(typed.split())
    captured = capsys.readouterr()
    assert exit.value.code == 2
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert TYPED[typed] in captured.err
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before
    if typed.split()[0] in options.COMMANDS:
        shown = re.sub(r"No such option: \S+", "", captured.err)
        assert not wrong_options(typed.split()[0], shown)


NOTED = {
    "fit counts.csv -k 9 -q -o many": "-k 9 is more than the 12 samples or 6 features",
    "fit counts.csv -k 2 -q -o short --max-iter 1": "--max-iter",
    "fit counts.csv -k 2 -q -o apart --differences": "--held-out",
    "fit counts.csv -k 2 -q -o fresh --resume": "nothing to resume",
    "stability counts.csv -k 2 --runs 2 --set max_iter=1 -q": "",
    "intervals model counts.csv --sweeps 4 --burn-in 0 --thin 1 --chains 2 -q -o i": "--sweeps",
    "differences model counts.csv -q -o d": "--held-out",
    "choose counts.csv -k 1-2 --folds 2 -q": "",
    "quality model counts.csv -q": "",
    "prevalence model --metadata prevalence.csv --by group -q": "",
}


@pytest.mark.parametrize("typed", NOTED)
@pytest.mark.usefixtures("_there")
def test_a_note_names_only_options_of_the_command_that_prints_it(typed: str, capsys: pytest.CaptureFixture) -> None:
    Path("prevalence.csv").write_text("id,group\n" + "".join(f"s{i},{i % 2}\n" for i in range(12)))
    with pytest.raises(SystemExit) as exit:
        main(typed.split())
    err = capsys.readouterr().err
    assert exit.value.code in (0, 1), err
    assert NOTED[typed] in err
    for line in err.splitlines():
        assert not wrong_options(typed.split()[0], line), line


# In Python

MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a name of other libraries": (
        lambda fit: um.TopicModel(n_topics=3),  # type: ignore[call-arg]
        "TopicModel has no parameter 'n_topics'; did you mean n_c",
    ),
    "a letter": (lambda fit: um.TopicModel(K=3), "TopicModel has no parameter 'K'; did you mean n_comp"),  # type: ignore[call-arg]
    "a slip": (lambda fit: um.LDA(3, max_itr=5), "LDA has no parameter 'max_itr'; did you mean max_iter"),  # type: ignore[call-arg]
    "a foreign parameter": (lambda fit: um.PoissonNMF(3, alpha=5), "PoissonNMF has no parameter 'alpha'; it has "),  # type: ignore[call-arg]
    "a fit for counts": (lambda fit: um.stability(fit, FEW), "stability: expected counts, got a Fit; check the order"),
    "an estimator for counts": (
        lambda fit: um.stability(um.TopicModel(2), FEW),
        "stability: expected counts, got a TopicModel; check the order",
    ),
    "swapped": (lambda fit: um.differences(FEW, fit), "differences: expected counts, got a Fit; check the order"),
    "one number": (lambda fit: um.fit_path(FEW, 5), "topics=5; .*several numbers of topics"),
    "one number to choose from": (lambda fit: um.choose_topics(FEW, 10), "topics=10; .*several numbers of topics"),
    "a path for counts": (
        lambda fit: um.TopicModel(2).fit("table.csv"),
        "'table.csv' is a name, not counts; unmix.read",
    ),
    "texts for counts": (lambda fit: um.TopicModel(2).fit(["a text"]), "these are texts, not counts; unmix.read_texts"),
    "negative": (lambda fit: um.TopicModel(2).fit(-FEW), "-.* at row 0, column 0; unmix needs finite counts >= 0"),
    "missing": (
        lambda fit: um.TopicModel(2).fit(np.full((3, 2), np.nan)),
        "nan at row 0, column 0; unmix needs finite",
    ),
    "one dimension": (lambda fit: um.TopicModel(2).fit(FEW[0]), "Expected 2D array of samples × features"),
    "another width": (lambda fit: um.TopicModel(2).fit(FEW).transform(FEW[:, :5]), "X has 5 features, .* expecting 6"),
    "not fitted": (lambda fit: um.TopicModel(2).transform(FEW), "This TopicModel instance is not fitted yet"),
    "a prior below 0": (lambda fit: um.LDA(2, alpha=-1).fit(FEW), "alpha=-1; it must be positive"),
    "topic 0": (lambda fit: um.plot.top_features(fit, topics=[0]), "there is no topic 0; this fit has topics 1 to 2"),
    "no such column": (lambda fit: um.plot.structure(fit, group="year"), "group: there is no column 'year'"),
    "no such file": (lambda fit: um.load("none"), "none: no such file; "),
    "no thread": (lambda fit: um.TopicModel(2, n_jobs=0).fit(FEW), "n_jobs=0; use a number of threads >= 1"),
    "a start of another size": (
        lambda fit: um.TopicModel(2, init=(np.ones((3, 2)), np.ones((6, 2)))).fit(FEW),
        r"L has shape \(3, 2\); 12 samples need shape \(12, 2\)",
    ),
    "a foreign solver": (lambda fit: um.TopicModel(2, solver="mu").fit(FEW), "solver='mu'; choose one of newton"),
    "an array for a number": (lambda fit: um.freedom(fit, loss=np.ones(9)), "loss=<ndarray>; use a number"),
    "one fit": (lambda fit: um.align(fit), "1 fit given; "),
    "no fit": (lambda fit: um.plot.structure(3), "int is not a fit; pass a Fit, a fitted estimator, or the path"),  # type: ignore[arg-type]
    "a report of topics alone": (
        lambda fit: um.write_report(um.PoissonNMF.from_factors([[1, 0], [0, 1]]), "x.html"),
        "this fit has no samples",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
@pytest.mark.usefixtures("_there")
def test_a_mistake_in_a_call_is_named_with_its_remedy(case: str) -> None:
    mistake, message = MISTAKES[case]
    with pytest.raises((TypeError, ValueError, OSError), match=message) as error:
        mistake(um.load("model"))
    assert "array(" not in str(error.value)


# A fit, its estimator or its path, everywhere

TAKES_A_FIT: dict[str, Callable[[Any], Any]] = {
    name: lambda fit, function=function: function(fit)
    for name, function in {
        "structure": um.plot.structure,
        "similarity": um.plot.similarity,
        "embedding": um.plot.embedding,
        "top_features": um.plot.top_features,
        "topic_colors": um.plot.topic_colors,
        "convergence": um.plot.convergence,
        "freedom": um.freedom,
        "advice": um.analysis.advice,
        "topic_order": um.analysis.topic_order,
        "topic_distances": um.analysis.topic_distances,
        "topic_names": um.analysis.topic_names,
        "features": um.analysis.top_features,
        "typical_samples": um.analysis.typical_samples,
        "lifts": um.analysis.lifts,
        "diversity": um.diversity,
        "exclusivity": um.analysis.exclusivity,
        "distinctive_features": um.analysis.distinctive_features,
    }.items()
} | {
    "topic_features": lambda fit: um.plot.topic_features(fit, 1),
    "usage": lambda fit: um.plot.usage(fit, np.ones((12, 2))),
    "loadings_scatter": lambda fit: um.plot.loadings_scatter(fit, fit),
    "match_topics": lambda fit: um.analysis.match_topics(fit, fit),
    "compare": lambda fit: um.compare(fit, fit),
    "align": lambda fit: um.align([fit, fit]),
    "differences": lambda fit: um.differences(fit, FEW),
    "intervals": lambda fit: um.intervals(fit, FEW, sweeps=8, burn_in=0, random_state=0),
    "coherence": lambda fit: um.coherence(fit, FEW, top=2),
    "quality": lambda fit: um.analysis.quality(fit, FEW, top=2),
    "log_fold_change": lambda fit: um.analysis.log_fold_change(fit, 1),
    "write_report": lambda fit: um.write_report(fit, "report.html"),
    "from_fit": um.sc.from_fit,
}


@pytest.mark.parametrize("name", TAKES_A_FIT)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_function_of_a_fit_takes_an_estimator_and_a_path_too(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = um.TopicModel(2, random_state=0).fit(FEW)
    model.result_.save("model.safetensors")
    for given in (model.result_, model, "model.safetensors", Path("model.safetensors")):
        TAKES_A_FIT[name](given)


def test_public_modules_can_be_imported_from() -> None:
    from unmix.datasets import sotu
    from unmix.maps import poisson_to_lda

    assert (sotu, poisson_to_lda) == (um.datasets.sotu, um.maps.poisson_to_lda)
