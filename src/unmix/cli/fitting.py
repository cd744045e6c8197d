"""From words on the command line to a fitted model, and on to its folder: checkpoints, resumption, results."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmix.cli import show
from unmix.registry import WORDS, estimator_class

if TYPE_CHECKING:
    from unmix.analysis.results import Result
    from unmix.counts import Counts
    from unmix.estimators.base import CountsEstimator
    from unmix.fit import Fit
    from unmix.shards import Shards

INTERRUPTED = 130


Model = StrEnum("Model", [(word.replace("-", "_"), word) for word in WORDS])  # type: ignore[misc]


def parsed(settings: list[str]) -> dict[str, Any]:
    """["alpha=0.1", "method=gibbs"] as parameters: numbers where they are numbers, lists of them where there are commas."""
    parameters: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"--set {setting}: give a parameter and its value, such as alpha=0.1")
        values = [_value(part) for part in text.split(",")]
        parameters[name] = values if len(values) > 1 else values[0]
    return parameters


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def estimator_of(model: str, **parameters: Any) -> CountsEstimator:
    """The estimator behind a name, or an error that says which parameters it has."""
    kind = estimator_class(WORDS[model])
    known = kind().get_params()
    if unknown := [name for name in parameters if name not in known]:
        settable = sorted(
            set(known) - {"callbacks", "engine", "init", "n_components", "n_jobs", "random_state", "verbose"}
        )
        words = {"n_init": "--starts"}
        raise ValueError(
            f"--model {model} has no parameter {words.get(unknown[0], unknown[0])}; it has {', '.join(settable)}"
        )
    return kind(**parameters)


def check_cluster(word: str) -> None:
    """A wrong word is best said before a large file is read; and what passes over a network can be read there."""
    from unmix.engines.naming import check_word, is_open

    try:
        check_word(word)
    except ValueError as error:
        raise ValueError(str(error).replace("engine=", "--dask ")) from None
    if is_open(word):
        show.note(
            f"--dask {word}: not encrypted, and whoever reaches the scheduler runs code on it; use tls:// on other networks"
        )


def read_model(path: Path, otherwise: str = "give a fit's folder or its model.safetensors") -> Fit:
    """The model in a file, or in a fit's folder."""
    from unmix.data.write import MODEL_FILE
    from unmix.fit import load

    file = path / MODEL_FILE if path.is_dir() else path
    if not file.is_file():
        problem = f"a folder without {MODEL_FILE}" if path.is_dir() else "no such file"
        raise ValueError(f"{path}: {problem}; {otherwise}")
    return load(file)


def fitted(
    estimator: CountsEstimator,
    counts: Counts | Shards,
    checkpoint: Path,
    checkpoint_seconds: float,
    resume_from: Fit | None = None,
) -> Fit:
    """The fit, from the start or from an earlier one, with a checkpoint every so many seconds."""
    from sklearn.exceptions import ConvergenceWarning

    from unmix.estimators.base import NO_COUNTS
    from unmix.shards import Shards
    from unmix.solvers import Checkpoint, MeasureKKT

    # of shards a residual costs a pass: that of the end will do
    measuring = [] if isinstance(counts, Shards) else [MeasureKKT()]
    # in the end there is the model itself; one of several starts cannot be gone on with
    on_the_way = [] if estimator.n_init > 1 else [Checkpoint(checkpoint, checkpoint_seconds).__call__]
    estimator.set_params(callbacks=[*measuring, *on_the_way], verbose=show.lively())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told later, in the words of the command line
        warnings.filterwarnings("ignore", f".*{NO_COUNTS}")  # among the advice
        return (estimator.fit(counts) if resume_from is None else estimator.resume(counts, resume_from)).result_


def write_proportions_of_shards(shards: Shards, known: Fit, output: Path) -> tuple[int, int, int]:
    """Shard by shard, features matched by name; how many of them were missing and unknown, and how many samples are empty."""
    from unmix.analysis.application import proportions_of
    from unmix.data.match import match_features
    from unmix.data.write import proportions_file

    missing = unknown = empty = 0
    with proportions_file(output, len(shards), known.labels) as write:
        for i in range(shards.n_shards):
            counts = shards.shard(i)
            matched = match_features(counts, known)
            missing, unknown = matched.missing, matched.unknown  # the same for every shard
            empty += int((matched.counts.sample_totals == 0).sum())
            write(proportions_of(known, matched.counts), counts.samples)
    return missing, unknown, empty


def to_resume_in(folder: Path, estimator: CountsEstimator, counts: Counts | Shards) -> Fit | None:
    """The latest fit in the folder that this command can go on with, which is said. None if there is no fit at all; if none of
    them is of this model and these data, the error says what differs."""
    from unmix.data.write import CHECKPOINT_FILE, MODEL_FILE
    from unmix.fit import load

    files = [file for name in (CHECKPOINT_FILE, MODEL_FILE) if (file := folder / name).is_file()]
    problems = []
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True):
        try:
            fit = load(file)
            estimator.check_resumable(counts, fit)
        except ValueError as problem:
            problems.append(f"{file}: {problem}")
        else:
            show.say(f"going on after {show.plural(fit.trace['iteration'].iloc[-1], 'iteration')}")
            return fit
    if problems:
        raise ValueError(problems[0])
    show.note(f"nothing to resume in {folder}; starting anew")
    return None


def tell_and_write(
    result: Fit, output: Path, *, force: bool = False, answers: Mapping[str, Result] | None = None, **about: str
) -> None:
    """Show the topics and write the folder, with answers by the names of sections. A fit ended by Ctrl-C is written too, and
    leaves with 130."""
    from unmix.analysis.summary import outcome
    from unmix.cli.answers import files_of
    from unmix.data.write import CHECKPOINT_FILE, write_fit
    from unmix.report import write_report

    result = replace(result, data=result.data | about | {"command": show.command_line()})
    show.topics(result)
    show.say(outcome(result))
    for text in result.advice():
        show.note(text)
    answers = answers or {}
    for text in (text for answer in answers.values() for text in answer.advice()):
        show.note(text)
    pictures = {
        "structure.png": lambda path: draw_structure(result, path),
        "report.html": lambda path: write_report(result, path, **answers),  # type: ignore[arg-type]
        **files_of(answers),
    }
    try:
        with show.working(f"writing {output}"):
            write_fit(result, output, pictures=pictures, force=force)
    except OSError as error:
        rescue = _rescued(result, output / CHECKPOINT_FILE)
        raise ValueError(f"{error.filename or output}: {error.strerror or error}; {rescue}") from error
    show.say(f"wrote {output}{os.sep}; open {output / 'report.html'} in a browser")
    if show.Invocation.json:
        show.answer(show.fit_as_json(result) | {"output": str(output)})
    if result.status == "interrupted":
        several = "starts" in result.data
        show.note("kept the best fit so far" + ("" if several else "; the same command with --resume goes on from it"))
        sys.exit(INTERRUPTED)


def _rescued(result: Fit, checkpoint: Path) -> str:
    """Keep at least the model of a fit whose folder could not be written."""
    try:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        result.save(checkpoint, resumable=True)
    except OSError:
        return "nothing was written, earlier results are as they were"
    return f"the fit is kept in {checkpoint}: make room, and run the same command with --resume"


def draw_structure(fit: Fit, path: Path) -> None:
    """The picture that the page shows first."""
    from unmix.plot.structure import structure
    from unmix.report.metadata import first_view

    figure = structure(fit, **first_view(fit.metadata)).figure.canvas.figure
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a font without the letter: the tables have it
        figure.savefig(path, dpi=150)
