"""From words on the command line to a fitted model, and on to its folder: checkpoints, resumption, results."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unmix as um
from unmix.base.checks import InputError, ParameterError, choice, parameter
from unmix.cli import show
from unmix.cli.analyses import INCOMPLETE, INTERRUPTED, asked, files_of, picture
from unmix.cli.options import UsageError, parsed
from unmix.cli.show import matching, writing
from unmix.registry import WORDS, Analysis, estimator_class

if TYPE_CHECKING:
    import pandas as pd

    from unmix.analysis.results import Result
    from unmix.counts.counts import Counts
    from unmix.counts.shards import Shards
    from unmix.engines import Dask
    from unmix.estimators.base import CountsEstimator
    from unmix.estimators.features import Matched
    from unmix.fit import Fit
    from unmix.io.write import Failures


def parameters_in(settings: list[str]) -> dict[str, Any]:
    """["alpha=0.1", "method=gibbs"] as parameters: numbers where they are numbers, lists of them where there are commas."""
    parameters: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.isidentifier():
            raise ParameterError("settings", setting, "use a parameter and its value, such as alpha=0.1")
        parameters[name] = parsed(text)
    return parameters


def estimator_of(model: str, **parameters: Any) -> CountsEstimator:
    """The estimator behind a name, or an error that says which parameters it has."""
    model = next((word for word, name in WORDS.items() if model.lower() in (word, name.lower())), model)
    kind = estimator_class(WORDS[choice("model", model, list(WORDS))])
    known = kind().get_params()
    if unknown := [name for name in parameters if name not in known]:
        settable = sorted(set(known) - {"callbacks", "init", "n_components", "n_jobs", "random_state", "verbose"})
        have = [word for word, name in WORDS.items() if unknown[0] in estimator_class(name)().get_params()]
        others = f" ({', '.join(have)} {'has' if len(have) == 1 else 'have'} it)" if have else ""
        remedy = f"it has no parameter {parameter(unknown[0])}{others}, only {', '.join(settable)}"
        raise ParameterError("model", model, remedy)
    return kind(**parameters)


def number_of_topics(given: int | None, known: Path | None, new: int | None) -> int:
    """That of the fit: as it is given, or known topics and new ones."""
    if new is not None and known is not None:
        if given is not None:
            raise ParameterError("n_components", given, "give this number, or --new N, not both")
        from unmix.estimators.known import catalogue_of

        return len(catalogue_of(str(known)).names) + new
    if given is None:
        if new is not None:
            raise ParameterError("new", new, "use --known FILE with it, or -k in place of it")
        raise UsageError("Missing option '-k' / '--n-components'.")
    return given


def multiplied(
    estimator: CountsEstimator, counts: Any, batch: str | None, opportunities: Path | None, allowed: str | None = None
) -> Any:
    """The counts with their batches and opportunities, as `fit` takes them."""
    given = {"batch": batch, "opportunities": None if opportunities is None else opportunities_in(opportunities)}
    return estimator._multiplied(counts, given | {"allowed": allowed})


def opportunities_in(file: Path) -> pd.DataFrame:
    """A table with a row per label, the first column, whose head may be the name of a column of metadata."""
    import pandas as pd

    if not file.is_file():
        raise FileNotFoundError(f"{file}: no such file; use a table of opportunities, .csv or .tsv")
    try:
        table = pd.read_csv(file, sep="," if file.suffix.lower() == ".csv" else "\t", index_col=0)
        numbers = table.astype(float)
    except (ValueError, UnicodeDecodeError) as error:
        problem = f"not a table of numbers with a label in the first column ({error})"
        raise InputError(file, problem, "use a row per label and a column per feature") from None
    name = str(numbers.index.name or "")
    return numbers.rename_axis(None if name.startswith("Unnamed") or not name else name)


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
    """The Dask cluster at an address, for a fit of these shards. What it keeps is next to them, where all workers see it."""
    if address is None:
        yield None
        return
    folder = getattr(counts, "folder", None)
    if folder is None:
        raise ParameterError("dask", address, "these counts are in memory: make shards of them with unmix shard")
    with um.engines.connect(address, folder.absolute().with_name(f"{folder.absolute().name}.run")) as engine:
        yield engine


def fitted(
    estimator: CountsEstimator,
    counts: Counts | Shards,
    checkpoint: Path,
    checkpoint_seconds: float,
    resume_from: Fit | None = None,
) -> Fit:
    """The fit, from the start or from an earlier one, with a checkpoint every this many seconds."""
    from unmix.estimators.base import NO_COUNTS
    from unmix.fit import quietly

    # of shards a residual costs a pass: that of the end will do
    measuring = [um.solvers.MeasureKKT()] if counts.in_memory else []
    # in the end there is the model itself; one of several starts cannot be resumed
    on_the_way = [] if estimator.n_init > 1 else [um.solvers.Checkpoint(checkpoint, checkpoint_seconds).__call__]
    estimator.set_params(callbacks=[*measuring, *on_the_way], verbose=show.reports())
    with quietly():  # among the advice, as is what the next line is of
        warnings.filterwarnings("ignore", f".*{NO_COUNTS}")
        return (estimator.fit(counts) if resume_from is None else estimator.resume(counts, resume_from)).result_


def write_proportions(
    data: Counts | Shards, known: Fit, output: Path, missing: str | None
) -> tuple[Matched, int, list[pd.DataFrame]]:
    """Shard by shard, features matched by name; how they were, how many samples are empty, and how well each fits."""
    from unmix.estimators import from_fit

    estimator, empty, n = from_fit(known), 0, data.shape[0]
    explained: list[pd.DataFrame] = []
    with (
        writing.proportions_file(output, n, known.labels) as write,
        writing.proportions_file(writing.fit_beside(output), n, matching.EXPLAINED) as write_fit,
    ):
        for counts in data.parts():
            matched = matching.match_features(counts, known, missing)  # in the same way for every shard
            empty += int((matched.counts.sample_totals == 0).sum())
            write(proportions := matching.proportions_of(estimator, matched), counts.samples)
            write_fit((found := matching.goodness(known, matched, proportions)).to_numpy(), counts.samples)
            explained.append(found)
    return matched, empty, explained


def check_stays(folder: Path, *read: str | Path | None) -> None:
    """What the command reads is not in the folder under the name of a result, which would replace it."""
    for file in (Path(one) for one in read if one is not None):
        replaced = file.name == PATH_FILE or not writing.stays(file.name)
        if replaced and file.resolve().parent == folder.resolve():
            raise ParameterError(
                "output", str(folder), f"a result would replace {file.name}, which is read: use a new folder"
            )


def to_resume_in(folder: Path, estimator: CountsEstimator, counts: Counts | Shards) -> Fit | None:
    """The latest fit in the folder that this command can resume, which is said. None if there is no fit at all; if none of
    them is of this model and these data, the error says what differs."""
    files = [file for name in (writing.CHECKPOINT_FILE, writing.MODEL_FILE) if (file := folder / name).is_file()]
    problems = []
    for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True):
        try:
            fit = um.load(file)
            estimator.check_resumable(counts, fit)
        except ValueError as problem:
            problems.append(f"{file}: {str(problem).removeprefix(f'{file}: ')}")
        else:
            show.say(f"resuming after {show.plural(fit.trace['iteration'].iloc[-1], 'iteration')}")
            return fit
    if problems:
        raise ValueError(problems[0])
    show.note(f"nothing to resume in {folder}; starting again")
    return None


def write_and_tell(
    result: Fit,
    output: Path,
    *,
    force: bool = False,
    rows: Sequence[Analysis] = (),
    ask: Callable[[Fit], tuple[dict[str, Result], Failures]] = lambda fit: ({}, {}),
    **about: str,
) -> None:
    """Write the model and its tables, show the topics, then add the analyses to `ask` for, figures and the report.
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
            {
                name: write
                for row in rows
                if row.stem in answers
                for name, write in files_of(row, answers[row.stem], {"fit": result}, each=False).items()
            }
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
        show.note("kept the best fit so far" + ("" if several else "; the same command with --resume continues it"))
    problems = [*failed.values(), *unanswered.values()]
    if result.status == "interrupted" or any(isinstance(problem, KeyboardInterrupt) for problem in problems):
        sys.exit(INTERRUPTED)
    if problems:
        sys.exit(INCOMPLETE)


def tell_failures(failed: Failures, folder: Path) -> None:
    """What could not be written next to a fit, one note for each, and one for all that Ctrl-C prevented."""
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
        raise InputError(place, str(problem), rescue) from error


def _rescued(result: Fit, checkpoint: Path) -> str:
    """Keep at least the model of a fit whose folder could not be written."""
    try:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        result.save(checkpoint, resumable=True)
    except OSError:
        return "nothing was written, earlier results are as they were"
    return f"the fit is kept in {checkpoint}: free some space, and run the same command with --resume"


def draw_structure(fit: Fit, path: Path) -> None:
    """The figure that the report shows first."""
    from unmix.analysis.samples import first_view

    picture(um.plot.structure(fit, **first_view(fit.metadata)), path)


# Fits of several numbers of topics, `unmix path`

PATH_FILE = "path.csv"


def write_path(
    estimator: CountsEstimator, counts: Counts, numbers: list[int], folder: Path, *, resume: bool, **about: str
) -> pd.DataFrame:
    """A folder for each fit, and a table of all, written again after each. Ctrl-C leaves with 130; what is finished is kept."""
    import pandas as pd

    from unmix.estimators.likelihood import fits_downwards

    about["command"] = show.command_line()
    table = pd.DataFrame({"topics": [], "folder": []})
    estimator.set_params(callbacks=[um.solvers.MeasureKKT()], verbose=show.reports())
    reused: set[int] = set()

    def finished(one: CountsEstimator) -> Fit | None:
        file = folder / f"k{one.n_components}" / writing.MODEL_FILE
        if not resume or not file.is_file():
            return None
        fit, wanted = um.load(file), one.get_params()
        if fit.params.get("model") != type(one).__name__ or fit.params.get("prefit") != wanted.get("prefit"):
            return None  # the start of a different model, or it was the largest fit of a path that is longer now
        try:
            one.check_resumable(counts, fit)
        except ValueError as problem:
            raise ValueError(f"{file}: {problem}") from None
        if fit.status == "interrupted" or (fit.status == "max_iter" and fit.params["max_iter"] != wanted["max_iter"]):
            return None
        reused.add(fit.n_topics)
        return fit

    try:
        for K, fit in fits_downwards(counts, numbers, estimator, finished):
            place = folder / f"k{K}"
            if K not in reused:
                fit = replace(fit, data=fit.data | about)
                failed = writing.write_fit(fit, place, force=True)
                failed |= writing.write_each(
                    place, {"structure.png": partial(draw_structure, fit), "report.html": partial(um.write_report, fit)}
                )
                tell_failures(failed, place)
            last = fit.trace.iloc[-1]
            row = {
                "topics": K,
                "folder": place.name,
                "status": fit.status,
                "iterations": int(last["iteration"]),
                "loglik": fit.loglik,
                "remaining_gain": fit.remaining_gain,
                "smallest_share": float(fit.shares.min()),
            }
            table = pd.DataFrame([row, *table.to_dict("records")], columns=list(row))
            writing.write_csv(table, folder / PATH_FILE, float_format="%.10g")
    except KeyboardInterrupt:
        done = f"interrupted; kept {len(table)} of {show.plural(len(numbers), 'fit')} in {folder}"
        show.note(f"{done}; the same command with --resume continues")
        sys.exit(INTERRUPTED)
    return table


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
            raise ParameterError("names", f"{number}={name}", f"this fit has topics 1 to {known.n_topics}")
        names[int(number) - 1] = name
    return names


def keep_names(known: Fit, path: Path) -> Failures:
    """A fit whose topics have new names, in place of the old one: its file, or all tables and figures of its folder. Analyses
    stay: they are of the same topics. What could not be written is returned."""
    if not path.is_dir():
        known.save(path, resumable=True)
        return {}
    failed = writing.write_fit(known, path, answers=True)
    return failed | writing.write_each(path, {"structure.png": partial(draw_structure, known)})


# Further analyses of a fit, `unmix fit --NAME`


def require_counts(counts: Counts | Shards, input: Path, *, force: bool) -> None:
    """Refuse what is plainly not counts, such as logarithms, unless it is to be fitted all the same."""
    from unmix.estimators.base import MOST_FRACTIONS, NO_COUNTS

    if counts.fractional > MOST_FRACTIONS and not force:
        elsewhere = " (--layer NAME or --raw)" if input.suffix in (".h5ad", ".zarr") else ""
        raise ValueError(f"{input}: {counts.fractional:.0%} {NO_COUNTS}{elsewhere}, or fit these with --force")


def check_replaced(folder: Path, counts: Counts | Shards, python: str, *, force: bool) -> None:
    """A fit of other counts, such as of a different layer, is not replaced unasked."""
    file = folder / writing.MODEL_FILE
    if force or not file.is_file():
        return
    earlier = um.load(file).data
    if earlier.get("checksum", known := counts.facts["checksum"]) != known:
        of = f", {earlier['python']}" if earlier.get("python", python) != python else ""
        raise InputError(
            folder, f"holds a fit of other counts{of}", "use a different folder, or replace it with --force"
        )


def check_askable(rows: list[Analysis], counts: Counts | Shards, n_components: int, *, held: bool) -> None:
    """What cannot be answered is best said before the fit."""
    for row in rows:
        if "X" in inspect.signature(row.here(row.function)).parameters and not counts.in_memory and not row.shards:
            raise ParameterError(row.name, True, "it is for counts in memory, and these are shards; remove it")
        if not row.multipliers and counts.multipliers is not None:
            remedy = "it does not support multipliers of rates (batch, opportunities); remove it"
            raise ParameterError(row.name, True, remedy)
        if not row.known and held:
            raise ParameterError(row.name, True, "it does not support known topics; remove it, or give --known-weight")
        if row.name == "differences" and n_components < 2:
            raise ParameterError(
                row.name, True, "it compares topics, and there is one only; remove it, or fit at least 2"
            )


def answers_to(
    result: Fit, rows: list[Analysis], counts: Any, estimator: CountsEstimator, given: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Result], Failures]:
    """Analyses of a fit that is written, by the names of sections; and those that failed or that Ctrl-C prevented, noted."""
    from unmix.fit import quietly

    pool = pool_of(result, counts, estimator)
    found: dict[str, Result] = {}
    failed: Failures = {}
    for row in rows:
        try:
            with quietly():  # its advice reports this
                found[row.stem] = asked(row, pool, **given.get(row.name, {}))
        except KeyboardInterrupt as error:
            missing = [row.name for row in rows if row.stem not in found]
            show.note(f"interrupted: the fit is kept, without --{' and --'.join(missing)}")
            return found, failed | dict.fromkeys(missing, error)
        except Exception as error:
            failed[row.name] = error
            show.note(f"--{row.name} failed ({error}); the fit is kept")
    return found, failed


def pool_of(result: Fit, counts: Any, estimator: CountsEstimator) -> dict[str, Any]:
    """What analyses may ask for. Fits of theirs start from scratch, wherever the fit itself began, and say nothing."""
    from sklearn.base import clone

    init = getattr(estimator, "init", "auto")
    plain = clone(estimator).set_params(
        callbacks=(), verbose=False, **({} if isinstance(init, str) else {"init": "auto"})
    )
    known = {"n_jobs": estimator.n_jobs, "random_state": estimator.random_state, "n_components": result.n_topics}
    return {"fit": result, "reference": result, "X": counts, "estimator": plain} | known
