"""One command per row of `unmix.registry.ANALYSES`, and one function that runs them all: read, check the folder, take its lock,
compute with progress and resumption, write, print, answer --json.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unmix as um
from unmix.base.checks import InputError, ParameterError
from unmix.cli import options, show
from unmix.cli.options import ASK, COMMANDS, WORD_OPTIONS, Command, documented, option_of, value_of
from unmix.cli.show import fits, readers, writing
from unmix.registry import ANALYSES, Analysis, public

if TYPE_CHECKING:
    from unmix.analysis.results import Result
    from unmix.fit import Fit

INTERRUPTED, INCOMPLETE = 130, 1
BESIDE_THE_FIT = (("fit",), ("fit", "X"))  # arguments of commands that write into the folder of MODEL by default
MODELS = ("fit", "other", "reference")  # parameters that are fits
ARGUMENTS = {
    "fit": options.ModelPath,
    "other": options.OtherPath,
    "fits": options.ModelPaths,
    "X": options.InputPath,
    "n_components": options.Topics,
}
ENDINGS_WITHOUT_PICTURE = (".csv", ".tex", ".safetensors", ".html")
ENDINGS = (*ENDINGS_WITHOUT_PICTURE, ".png", ".svg", ".pdf")
# Files too, which no analysis writes
OTHER_ENDINGS = (".txt", ".tsv", ".json", ".xlsx", ".parquet", ".npy", ".npz", ".jpg", ".jpeg", ".gif", ".htm")


# The command of a row


def command_of(row: Analysis) -> Callable[..., None]:
    """Its options are the parameters of its function, and of its tables where these are methods."""

    def run_row(**given: Any) -> None:
        run(row, given)

    function, known = row.sketches()[0], parameters_of(row)
    own = inspect.signature(function).parameters
    required, others = [], []
    reading = options.reading_options(["snippets", *(WORD_OPTIONS if "fit" in row.needs else ())]) if "X" in own else {}
    for name, (default, kind, text) in known.items():
        if name in reading:
            continue
        if name in ARGUMENTS and name in row.needs:
            required.append(_typed(name, ARGUMENTS[name]))
        elif name == "topics":
            others.append(_typed(name, options.Numbers, f"{own[name].default.start}-{own[name].default.stop - 1}"))
        elif name == "estimator":
            others += [_typed("model", options.Model, "topics"), _typed("settings", options.Settings, None)]
        elif name in SHARED:
            others.append(_typed(name, *SHARED[name]))
        else:
            kind = "PathLike" if name in (*MODELS, "X", "catalogue") else kind
            others.append(option_of(name, default, kind, text, options.ASKING))
    for name in row.also:
        others.append(option_of(name, False, "bool", f"Also write {name}.safetensors.", options.RESULTS))
    others += [_typed("output", options.Outputs, None), _typed("force", options.ForceBeside, False)]
    others += [_typed("title", options.Title, None)] if row.needs[0] == "X" else []
    others += [_typed("quiet", options.Quiet, False), _typed("json", options.Json, False)]
    parameters = [*required, *others, *reading.values()]
    run_row.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_row.__annotations__ = {one.name: one.annotation for one in parameters}
    where = "the folder of MODEL" if row.needs in BESIDE_THE_FIT else "a folder"
    writes = "Writes" if row.needs in BESIDE_THE_FIT or row.needs[0] == "X" else "With -o, writes"
    written = f"{writes} {row.stem}.csv, .png and .safetensors into {where}."
    run_row.__doc__ = f"{row.summary}\n\n{_paragraph(function)} {written}"
    return run_row


SHARED = {"random_state": (options.Seed, 0), "n_jobs": (options.Jobs, None), "checkpoint": (options.Resume, False)}


def _typed(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _paragraph(function: Any) -> str:
    """What the docstring says between its first line and its parameters."""
    text = (inspect.getdoc(function) or "").partition("\n\nParameters\n")[0].partition("\n\n")[2]
    return " ".join(text.replace("`", "").split())


def parameters_of(row: Analysis) -> dict[str, tuple[Any, str, str]]:
    """Of each parameter that a command can ask for: default, type and first sentence."""
    found: dict[str, tuple[Any, str, str]] = {}
    for function in row.sketches():
        texts = documented(function)
        for name, one in inspect.signature(function).parameters.items():
            kind, text = texts.get(name, ("", ""))
            given_only = kind.startswith("array-like,") or (kind.startswith("Counts") and name != "X")
            if name not in ("self", "verbose") and not given_only:
                found[name] = (one.default, kind, text)
    return found


COMMANDS.update(
    {row.name: Command(ASK, row.summary, partial(command_of, row), row.examples) for row in ANALYSES.values()}
)


# One run


def run(row: Analysis, given: dict[str, Any]) -> None:
    """The command of a row, from what was typed to the exit code."""
    from unmix.report import write_result

    show.speak(quiet=given.pop("quiet"), json=given.pop("json"))
    outputs, force, title = given.pop("output") or [], given.pop("force"), given.pop("title", None)
    also = [name for name in row.also if given.pop(name)]
    resume = given.pop("checkpoint", False)
    reading = options.read_words(given) if "X" in given else {}
    if "settings" in given:
        given["estimator"] = _estimator(given.pop("model"), given.pop("settings"))
    kinds = {name: kind for name, (_, kind, _) in parameters_of(row).items()}
    numbers = {"topics": numbers_in(given.pop("topics"))} if "topics" in given else {}
    given = {name: value_of(name, value, kinds.get(name, "")) for name, value in given.items()} | numbers
    if row.needs == ("fit", "X") and not is_model(given["fit"]) and is_model(given["X"]):
        remedy = f"the model comes first: unmix {row.name} {given['X']} {given['fit']}"
        raise InputError(given["fit"], "not a fit", remedy)
    if row.needs == ("fit",) and given["fit"].is_file() and not is_model(given["fit"]):
        raise InputError(given["fit"], "not a fit", f"unmix {row.name} needs a fit's folder or its model.safetensors")
    table_options = {name: given.pop(name) for method in row.sketches()[1:] for name in documented(method)}
    folder, files = _places(row, given, outputs)
    stem, kept = row.stem, None
    read = [*given.values(), *reading.values(), *given.get("fits", ())]
    kept_in = [file.parent for file in files if file.name == f"{stem}.safetensors"] + ([folder] if folder else [])
    beside = {place for place in kept_in if row.section and (place / writing.MODEL_FILE).is_file()}
    if beside and given.get("reference", beside) is None:
        given["reference"] = min(beside)
    for file in files:
        check_file(file, *(ENDINGS if row.pictures else ENDINGS_WITHOUT_PICTURE), reads=read)
    for file in read:
        if isinstance(file, Path) and folder is not None and file.name.startswith(stem):
            check_file(folder / file.name, file.suffix, reads=[file])
    with ExitStack() as stack:
        if folder is not None:
            writing.check_folder(
                folder, force=force, files=(f"{stem}.safetensors", checkpoint_of(row), writing.MODEL_FILE)
            )
            stack.enter_context(writing.claim(folder))
        for file in files:
            stack.enter_context(writing.adding_to(file.parent))
        pool = dict(given)
        for name in {*MODELS, "fits"} & given.keys():
            pool[name] = _fits_of(name, given[name])
        if given.get("X") is not None:
            pool["X"] = _counts(row, given["X"], reading, pool.get("fit"))
        fit = pool.get("fit", pool.get("reference"))
        for place in beside:
            check_same_fit(place, fit, given.get("fit", given.get("reference")))
        if folder is not None:
            stack.enter_context(_made(folder))
            if "checkpoint" in kinds:
                kept = pool["checkpoint"] = _checkpoint(folder / checkpoint_of(row), resume)
        about = given.get("X") or given.get("fit") or row.name
        with show.errors_about(about):
            result = asked(row, pool)
            more = {f"{name}.safetensors": asked(row, pool, name).save for name in also}
        name = readers.name_of(given["X"]) if isinstance(given.get("X"), Path) else row.name
        page = partial(write_result, result, title=title or f"{name}: {row.summary}", command=show.command_line())
        if (shown := getattr(result, "reported", None)) is not None:
            sections: Any = {row.stem: result}
            page = partial(um.write_report, shown, title=title or name, **sections)
        failed: dict[str, Any] = {}
        with show.working(f"writing {folder or ', '.join(map(str, files))}"):
            written = files_of(row, result, pool, table_options) | more
            if folder is not None:
                own = not (folder / writing.MODEL_FILE).is_file()
                failed = writing.write_each(folder, written | ({f"{stem}.html": page} if own else {}))
            for file in files:
                failed |= writing.write_each(file.parent, {file.name: _single(file, written, result, page)})
            for place in beside:
                write_page_again(place, fit)
        if kept is not None and getattr(result, "status", "") != "interrupted":
            kept.unlink(missing_ok=True)
    _print(row, result, [f"{folder}{os.sep}"] * (folder is not None) + [str(file) for file in files])
    for name, error in failed.items():
        show.note(f"{name}: could not be written ({getattr(error, 'strerror', None) or error})")
    _leave(result, failed, kept)


def _print(row: Analysis, result: Result, places: list[str]) -> None:
    show.table(result.summary)
    for number, text in enumerate(result.advice()):
        if number == 0 and result.ANSWERS:
            show.say(f"{text[:1].upper()}{text[1:]}.")
        else:
            show.note(text)
    if places:
        show.say(f"wrote {' and '.join(places)}")
    show.answer(
        {"analysis": row.name, "output": places, **result.facts}
        | {"notes": result.advice(), "table": show.rows(result.summary)}
    )


def _leave(result: Result, failed: Mapping[str, Any], kept: Path | None) -> None:
    if getattr(result, "status", "") == "interrupted":
        if kept is not None:
            show.note("kept what is finished; the same command with --resume continues")
        sys.exit(INTERRUPTED)
    if failed:
        sys.exit(INCOMPLETE)


def asked(row: Analysis, pool: Mapping[str, Any], function: Any = None, **given: Any) -> Result:
    """The answer, from what there is: the function takes of the pool what it has parameters for."""
    function = row.here(function or row.function)
    return function(**_fitting(function, pool) | given, **_fitting(function, {"verbose": show.reports()}))


def _fitting(function: Any, pool: Mapping[str, Any]) -> dict[str, Any]:
    known = inspect.signature(function).parameters
    return {
        name: value for name, value in pool.items() if name in known and not (value is None and name != "estimator")
    }


def is_model(path: Path) -> bool:
    return path.suffix == ".safetensors" or (path / writing.MODEL_FILE).is_file()


def _estimator(model: str, settings: list[str] | None) -> Any:
    from unmix.cli.fitting import estimator_of, parameters_in

    return None if model == "topics" and not settings else estimator_of(model, **parameters_in(settings or []))


def numbers_in(text: str) -> list[int]:
    """ "1-4,8" as 1, 2, 3, 4, 8."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or int(first) > int(last or first):
            raise ParameterError("topics", text, "use numbers and ranges such as 1-12,16,20")
        numbers += range(int(first), int(last or first) + 1)
    if len(numbers) < 2:
        raise ParameterError("topics", text, "use several numbers to choose from, such as 2-12")
    return numbers


def _fits_of(name: str, path: Any) -> Any:
    if path is None or name == "fits":  # which names them, too
        return path
    return path if name == "other" and path.suffix.lower() in fits.CATALOGUES else fits.fit_of(path)


def _counts(row: Analysis, path: Path, reading: dict[str, Any], like: Fit | None) -> Any:
    if row.shards and readers.is_shards(path):
        shards: Any = um.read(path, **reading)
        if row.shards == "parts":
            show.say(f"opened {path}: {show.described(shards)}")
            return shards
        show.say(f"opened {path}: {show.described(shards)}; using {show.plural(len(shards.sample), 'sample')} of them")
        return shards.sample
    return read_counts(path, **reading | ({} if like is None else {"like": like}))


def read_counts(path: Path, *, say: bool = True, **reading: Any) -> Any:
    with show.working(f"reading {path}"):
        counts = um.read(path, **reading)
    if not counts.in_memory:
        raise InputError(path, "a folder of shards, which this command does not take", "use a file of some samples")
    if say:
        show.say(f"read {path}: {show.described(counts)}")
        show.say_reading(counts)
    return counts


# Where results go


def _places(row: Analysis, given: Mapping[str, Any], outputs: list[Path]) -> tuple[Path | None, list[Path]]:
    """The folder of all results, if there is one, and single files."""
    files = [path for path in outputs if path.suffix.lower() in ENDINGS and not path.is_dir()]
    folders = [path for path in outputs if path not in files]
    for path in folders:
        if path.suffix.lower() in OTHER_ENDINGS and not path.is_dir():
            raise ParameterError("output", str(path), f"use a folder, or a file that ends in {', '.join(ENDINGS)}")
    if len(folders) > 1:
        raise ParameterError("output", str(folders[1]), "use one folder")
    if outputs:
        return (folders[0] if folders else None), files
    if row.needs in BESIDE_THE_FIT:
        return (given["fit"] if given["fit"].is_dir() else given["fit"].parent), []
    if row.needs[0] != "X":
        return None, []
    topics = f"-k{given['n_components']}" if "n_components" in row.needs else ""
    return Path(f"{readers.name_of(given['X'])}{topics}-{row.stem}"), []


def checkpoint_of(row: Analysis) -> str:
    return f"{row.stem}-checkpoint.safetensors"


def _checkpoint(path: Path, resume: bool) -> Path:
    if not resume:
        path.unlink(missing_ok=True)
    elif not path.is_file():
        show.note(f"nothing to resume in {path.parent}; starting again")
    return path


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder exists; one that nothing was written to is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def check_file(path: Path, *endings: str, reads: Iterable[Any] = (), own: bool = False) -> None:
    """Whether a result may be written there is known before the work begins. Nothing that the command reads is overwritten, and
    no file of a fit, unless it is that very file that the command is for."""
    if path.suffix.lower() not in endings:
        raise ParameterError("output", str(path), f"use a name that ends in {' or '.join(endings)}")
    if path.is_dir():
        raise ParameterError("output", str(path), "that is a folder: use a file name")
    if not path.parent.is_dir():
        raise ParameterError("output", str(path), f"the folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise ParameterError("output", str(path), f"no permission to write in {path.parent}: use a different folder")
    if path.exists() and any(
        isinstance(one, str | Path) and Path(one).exists() and path.samefile(one) for one in reads
    ):
        raise ParameterError("output", str(path), "that file is read by the command: use a different name")
    if not own and writing.is_of_a_fit(path):
        raise ParameterError("output", str(path), "that file belongs to a fit: use a different name")


# Files of a result

Write = Callable[[Path], None]


def files_of(
    row: Analysis,
    result: Result,
    pool: Mapping[str, Any],
    table_options: Mapping[str, Any] | None = None,
    each: bool = True,
) -> dict[str, Write]:
    """Names of files, and what writes them: the result, its tables, its figures. With `each`, those of every topic too."""
    stem = type(result).__name__.lower()
    files: dict[str, Write] = {f"{stem}.safetensors": result.save}
    for name in row.tables:
        if hasattr(result, name):
            files[f"{stem}{'' if name == row.tables[0] else f'-{name}'}.csv"] = partial(
                _write_table, result, name, table_options or {}
            )
    for name in row.pictures:
        if "topic" not in inspect.signature(public(f"plot.{name}")).parameters:
            files[f"{stem}.png"] = partial(draw, name, result, pool)
        elif each:
            topics = range(1, result.n_topics + 1)  # type: ignore[attr-defined]
            files |= {f"{name}-{k}.png": partial(draw, name, result, {**pool, "topic": k}) for k in topics}
    return files


def _write_table(result: Result, name: str, table_options: Mapping[str, Any], path: Path) -> None:
    table = getattr(result, name)
    writing.write_csv(table(**table_options) if callable(table) else table, path, float_format="%.10g")


def draw(name: str, result: Any, pool: Mapping[str, Any], path: Path) -> None:
    """A figure of a result by `unmix.plot`, which may use the fit that it is about."""
    function = public(f"plot.{name}")
    known = inspect.signature(function).parameters
    picture(function(result, **{one: pool[one] for one in ("fit", "topic") if one in known and one in pool}), path)


def picture(drawn: Any, path: Path) -> None:
    import numpy as np

    from unmix.plot.style import letters_missing, use_fonts

    figure = np.ravel(drawn)[0].figure.canvas.figure
    if letters := use_fonts(figure):
        show.note(
            f"no font of this machine has {letters[:3]!r}: figures show boxes instead; install one that has, such as Noto "
            "Sans of their script. report.html needs none"
        )
    with letters_missing():
        figure.savefig(path, dpi=150)


def _single(file: Path, written: Mapping[str, Write], result: Result, page: Write) -> Write:
    """What writes one file, by its ending."""
    if file.suffix.lower() == ".html":
        return page
    if file.suffix.lower() == ".tex":
        return partial(writing.write_latex, result.summary)
    ending = {".svg": ".png", ".pdf": ".png"}.get(file.suffix.lower(), file.suffix.lower())
    return next(write for name, write in written.items() if name.endswith(ending))


def results_in(folder: Path) -> dict[str, Result]:
    """Those that lie in a fit's folder, by the names of their sections."""
    files = {row: folder / f"{row.stem}.safetensors" for row in ANALYSES.values() if row.section}
    return {row.stem: row.here(row.result).load(file) for row, file in files.items() if file.is_file()}


def check_same_fit(place: Path, fit: Fit | None, source: Path | None) -> None:
    """Results in the folder of a fit are about that very fit, whose report shows them. None: about counts, not about a fit."""
    if fit is None or source in (place, place / writing.MODEL_FILE):
        return
    there = fits.fit_of(place)
    if there.L.shape != fit.L.shape or not bool((there.L == fit.L).all()):
        raise ParameterError("output", str(place), f"it holds another fit than {source}: use another folder")


def write_page_again(place: Path, fit: Fit | None) -> None:
    """The report in the folder of a fit, with all results that lie there."""
    if (file := place / "report.html").is_file():
        um.write_report(fits.fit_of(place) if fit is None else fit, file, **results_in(place))  # type: ignore[arg-type]
