"""From words on the command line to a fitted model, and on to its folder: checkpoints, resumption, results."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unmix as um
from unmix.cli import show
from unmix.cli.show import matching, writing
from unmix.registry import WORDS, estimator_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unmix.analysis.results import Result
    from unmix.counts.counts import Counts
    from unmix.counts.shards import Shards
    from unmix.engines import Dask
    from unmix.estimators.base import CountsEstimator
    from unmix.estimators.features import Matched
    from unmix.fit import Fit
    from unmix.io.write import Failures


INTERRUPTED = 130
INCOMPLETE = 1  # the model is written, and something beside it is not


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
        settable = sorted(set(known) - {"callbacks", "init", "n_components", "n_jobs", "random_state", "verbose"})
        words = {"n_init": "--starts"}
        raise ValueError(
            f"--model {model} has no parameter {words.get(unknown[0], unknown[0])}; it has {', '.join(settable)}"
        )
    return kind(**parameters)


def check_cluster(word: str) -> None:
    """A wrong word is best said before a large file is read; and what passes over a network can be read there."""
    from unmix.engines import check_address, is_open

    check_address(word)
    if is_open(word):
        show.note(
            f"--dask {word}: neither encrypted nor closed: everyone who reaches the scheduler, on its machine or over a network, "
            "can run code there as you; use tls://"
        )


@contextmanager
def on_cluster(address: str | None, counts: Counts | Shards) -> Iterator[Dask | None]:
    """The Dask cluster at an address, for a fit of these shards. What it keeps lies beside them, where all workers see it."""
    if address is None:
        yield None
        return
    folder = getattr(counts, "folder", None)
    if folder is None:
        raise ValueError(f"--dask {address} fits shards, and these counts are in memory; make shards with unmix shard")
    with um.engines.connect(address, folder.absolute().with_name(f"{folder.absolute().name}.run")) as engine:
        yield engine


def read_model(path: Path, otherwise: str = "give a fit's folder or its model.safetensors") -> Fit:
    """The model in a file, or in a fit's folder."""
    file = path / writing.MODEL_FILE if path.is_dir() else path
    if not file.is_file():
        problem = f"a folder without {writing.MODEL_FILE}" if path.is_dir() else "no such file"
        raise ValueError(f"{path}: {problem}; {otherwise}")
    return um.load(file)


def fitted(
    estimator: CountsEstimator,
    counts: Counts | Shards,
    checkpoint: Path,
    checkpoint_seconds: float,
    resume_from: Fit | None = None,
) -> Fit:
    """The fit, from the start or from an earlier one, with a checkpoint every so many seconds."""
    from unmix.estimators.base import NO_COUNTS
    from unmix.fit import quietly

    # of shards a residual costs a pass: that of the end will do
    measuring = [um.solvers.MeasureKKT()] if counts.in_memory else []
    # in the end there is the model itself; one of several starts cannot be gone on with
    on_the_way = [] if estimator.n_init > 1 else [um.solvers.Checkpoint(checkpoint, checkpoint_seconds).__call__]
    estimator.set_params(callbacks=[*measuring, *on_the_way], verbose=show.reports())
    with quietly():  # among the advice, as is what the next line is of
        warnings.filterwarnings("ignore", f".*{NO_COUNTS}")
        return (estimator.fit(counts) if resume_from is None else estimator.resume(counts, resume_from)).result_


def write_proportions_of_shards(shards: Shards, known: Fit, output: Path, missing: str | None) -> tuple[Matched, int]:
    """Shard by shard, features matched by name; how they were, and how many samples are empty."""
    from unmix.estimators import from_fit

    estimator, empty = from_fit(known), 0
    with writing.proportions_file(output, len(shards), known.labels) as write:
        for i in range(shards.n_shards):
            counts = shards.shard(i)
            matched = matching.match_features(counts, known, missing)  # in the same way for every shard
            empty += int((matched.counts.sample_totals == 0).sum())
            write(matching.proportions_of(estimator, matched), counts.samples)
    return matched, empty


def to_resume_in(folder: Path, estimator: CountsEstimator, counts: Counts | Shards) -> Fit | None:
    """The latest fit in the folder that this command can go on with, which is said. None if there is no fit at all; if none of
    them is of this model and these data, the error says what differs."""
    files = [file for name in (writing.CHECKPOINT_FILE, writing.MODEL_FILE) if (file := folder / name).is_file()]
    problems = []
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True):
        try:
            fit = um.load(file)
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


def write_and_tell(
    result: Fit,
    output: Path,
    *,
    force: bool = False,
    ask: Callable[[Fit], tuple[dict[str, Result], Failures]] = lambda fit: ({}, {}),
    **about: str,
) -> None:
    """Write the model and its tables, show the topics, then add the analyses to `ask` for, pictures and the report.
    after the model is said, and leaves with 1. A fit ended by Ctrl-C is written too, and leaves with 130."""
    from unmix.analysis.advice import outcome

    result = replace(result, data=result.data | about | {"command": show.command_line()})
    failed = _keep(result, output, force)
    show.topics(result)
    show.say(outcome(result))
    for text in result.advice():
        show.note(text)
    answers, unanswered = ask(result)
    for text in (text for answer in answers.values() for text in answer.advice()):
        show.note(text)
    with show.working(f"writing {output}"):
        failed |= writing.write_each(
            output,
            files_of(answers)
            | {
                "structure.png": lambda path: draw_structure(result, path),
                "report.html": lambda path: um.write_report(result, path, **answers),  # type: ignore[arg-type]
            },
        )
    tell_failures(failed, output)
    show.say(f"wrote {output}{os.sep}; open {output / 'report.html'} in a browser")
    if show.Invocation.json:
        show.answer(show.fit_as_json(result) | {"output": str(output), "failed": sorted(failed | unanswered)})
    if result.status == "interrupted":
        several = "starts" in result.data
        show.note("kept the best fit so far" + ("" if several else "; the same command with --resume goes on from it"))
    problems = [*failed.values(), *unanswered.values()]
    if result.status == "interrupted" or any(isinstance(problem, KeyboardInterrupt) for problem in problems):
        sys.exit(INTERRUPTED)
    if problems:
        sys.exit(INCOMPLETE)


def tell_failures(failed: Failures, folder: Path) -> None:
    """What could not be written beside a fit, one note for each, and one for all that Ctrl-C prevented."""
    left = [name for name, error in failed.items() if isinstance(error, KeyboardInterrupt)]
    for name, error in failed.items():
        if name not in left:
            problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
            show.note(f"{folder / name}: could not be written ({problem}); the model is there")
    if left:
        show.note(f"interrupted before {', '.join(left)} in {folder}; the model is there")


def _keep(result: Fit, output: Path, force: bool) -> Failures:
    """Model and tables in the folder; if not even the model can be put there, it is kept as a checkpoint."""
    try:
        with show.working(f"writing {output}"):
            return writing.write_fit(result, output, force=force)
    except KeyboardInterrupt:
        show.note(f"interrupted; {_rescued(result, output / writing.CHECKPOINT_FILE)}")
        sys.exit(INTERRUPTED)
    except Exception as error:
        rescue = _rescued(result, output / writing.CHECKPOINT_FILE)
        place, problem = getattr(error, "filename", None) or output, getattr(error, "strerror", None) or error
        raise ValueError(f"{place}: {problem}; {rescue}") from error


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
    from unmix.report.metadata import first_view

    picture(um.plot.structure(fit, **first_view(fit.metadata)), path)


def picture(drawn: Axes, path: Path) -> None:
    from unmix.plot.style import letters_missing, use_fonts

    if letters := use_fonts(drawn.figure.canvas.figure):
        show.note(
            f"no font of this machine has {letters[:3]!r}: pictures show boxes instead; install one that has, such as Noto "
            "Sans of their script. report.html needs none"
        )
    with letters_missing():
        drawn.figure.canvas.figure.savefig(path, dpi=150)


# Names of topics from the command line, and into all of a fit's folder.


def names_of(text: str, known: Fit) -> list[str]:
    """ "clock,sun,smoke" for all topics, "2=sun,3=smoke" for some, or a .json or .csv file of such names."""
    from unmix.report.payload import read_names

    given: Any
    if text.lower().endswith((".json", ".csv")):
        given = read_names(Path(text))
    else:
        parts = [part.strip() for part in text.split(",")]
        pairs = [part.partition("=") for part in parts]
        numbered = all(equals and number.strip().isdigit() for number, equals, _ in pairs)
        given = {number: name for number, _, name in pairs} if numbered else parts
    if isinstance(given, list):
        return given
    names = [""] * known.n_topics if known.names is None else known.names.tolist()
    for number, name in given.items():
        if not str(number).strip().isdigit() or not 1 <= int(number) <= known.n_topics:
            raise ValueError(f"--names: there is no topic {number}; this fit has topics 1 to {known.n_topics}")
        names[int(number) - 1] = name
    return names


def keep_names(known: Fit, path: Path) -> Failures:
    """A fit whose topics have new names, in place of the old one: its file, or all tables and pictures of its folder. Analyses
    stay: they are of the same topics. What could not be written is returned."""
    if not path.is_dir():
        known.save(path, resumable=True)
        return {}
    failed = writing.write_fit(known, path, answers=True)
    return failed | writing.write_each(path, {"structure.png": partial(draw_structure, known)})


# What a fit's folder may hold besides the fit: answers to further questions, each with its file and a section of the page.

RUNS = 20  # of --stability, unless told


def require_counts(counts: Counts | Shards, input: Path, *, force: bool) -> None:
    """Refuse what is plainly not counts, such as logarithms, unless it is to be fitted all the same."""
    from unmix.estimators.base import MOST_FRACTIONS, NO_COUNTS

    if counts.fractional > MOST_FRACTIONS and not force:
        elsewhere = " (--layer NAME or --raw)" if input.suffix in (".h5ad", ".zarr") else ""
        raise ValueError(f"{input}: {counts.fractional:.0%} {NO_COUNTS}{elsewhere}, or fit these with --force")


def check_answerable(counts: Counts | Shards, topics: int, *, differences: bool, stability: bool) -> None:
    """What cannot be answered is best said before the fit."""
    for asked, option in ((differences, "--differences"), (stability, "--stability")):
        if asked and not counts.in_memory:
            raise ValueError(f"{option} is for counts in memory, and these are shards; leave it out")
    if differences and topics < 2:
        raise ValueError("--differences compares topics, and there is one only; leave it out, or fit at least 2")


def answers_to(
    result: Fit,
    counts: Any,
    estimator: CountsEstimator,
    *,
    differences: bool,
    stability: bool,
    freedom: bool,
    runs: int = RUNS,
) -> tuple[dict[str, Result], Failures]:
    """Analyses of a fit that is written, by the names of sections; and those that failed or that Ctrl-C prevented, noted."""
    asked: dict[str, tuple[str, Callable[[], Result]]] = {}
    if differences:
        asked["differences"] = (
            "comparing topics",
            lambda: um.differences(result, counts, n_jobs=estimator.n_jobs),
        )
    if stability:
        asked["stability"] = ("fitting halves of the counts", lambda: _stability(result, counts, estimator, runs))
    if freedom:
        asked["freedom"] = ("looking for other factors with the same rates", lambda: um.freedom(result))
    found: dict[str, Result] = {}
    failed: Failures = {}
    for name, (doing, answer) in asked.items():
        try:
            with show.working(doing):
                found[name] = answer()
        except KeyboardInterrupt as error:
            missing = [name for name in asked if name not in found]
            show.note(f"interrupted: the fit is kept, without --{' and --'.join(missing)}")
            return found, failed | dict.fromkeys(missing, error)
        except Exception as error:
            failed[name] = error
            show.note(f"--{name} failed ({error}); the fit is kept")
    return found, failed


def _stability(result: Fit, counts: Any, estimator: CountsEstimator, runs: int) -> Result:
    """Runs start from scratch, wherever the fit itself began, and say nothing on their way."""
    from sklearn.base import clone

    from unmix.fit import quietly

    init = getattr(estimator, "init", "auto")
    plain = clone(estimator).set_params(
        callbacks=(), verbose=False, **({} if isinstance(init, str) else {"init": "auto"})
    )
    with quietly():  # its advice says so
        return um.stability(counts, result.n_topics, runs, estimator=plain, reference=result)


def answers_in(folder: Path) -> dict[str, Result]:
    """Those that were kept in a fit's folder."""
    kinds: dict[str, type[Result]] = {"differences": um.Differences, "stability": um.Stability, "freedom": um.Freedom}
    files = {name: folder / file for name, file in writing.ANSWER_FILES.items()}
    return {name: kinds[name].load(file) for name, file in files.items() if file.is_file()}


def files_of(answers: Mapping[str, Any]) -> dict[str, Callable[[Path], None]]:
    """Names of files, and what writes them to a path."""
    from unmix.cli.analyses import files_of as of_differences

    files: dict[str, Callable[[Path], None]] = {
        writing.ANSWER_FILES[name]: found.save for name, found in answers.items()
    }
    if "differences" in answers:
        files |= of_differences(answers["differences"])
    if "stability" in answers:
        files["stability.csv"] = partial(writing.write_csv, answers["stability"].table)
        files["stability.png"] = lambda path: picture(um.plot.stability(answers["stability"])[0], path)  # type: ignore[index]
    if "freedom" in answers:
        files["freedom.csv"] = partial(writing.write_csv, answers["freedom"].by_sample)
    return files


def write_page_again(folder: Path, known: Fit) -> None:
    """The page in the folder of this very model, with all answers that lie there."""
    if not (folder / "report.html").is_file() or not (folder / writing.MODEL_FILE).is_file():
        return
    there = read_model(folder)
    if there.L.shape == known.L.shape and bool((there.L == known.L).all()):
        um.write_report(known, folder / "report.html", **answers_in(folder))  # type: ignore[arg-type]
