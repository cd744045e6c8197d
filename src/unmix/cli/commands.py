"""The commands: each parses, calls and writes, and leaves errors to `main`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmix.cli import show
from unmix.cli.fitting import Model, estimator_of, fitted, left_off_in, parsed, read_model, tell_and_write
from unmix.cli.options import (
    FITTING,
    OUTPUT,
    InputPath,
    Json,
    Layer,
    MaxDf,
    Metadata,
    MinDf,
    ModelPath,
    Ngrams,
    Quiet,
    Raw,
    StopWords,
    TextColumn,
    Transpose,
    text_options,
)
from unmix.registry import SOLVERS, STARTS

if TYPE_CHECKING:
    from unmix.counts import Counts

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Take matrices of counts apart into topics.",
    epilog="Start with [bold]unmix demo[/bold], then [bold]unmix fit --help[/bold].",
)


DEFAULT_MODEL = Model("topics")


class Simulation(StrEnum):
    A = "A"
    B = "B"
    swimmer = "swimmer"


def _examples(*lines: str) -> str:
    """For the end of a command's help, a line each."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(lines)


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"


def _version(asked: bool) -> None:
    if asked:
        from unmix._version import __version__

        typer.echo(f"unmix {__version__}")
        raise typer.Exit


@app.callback()
def unmix(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command(rich_help_panel="Start here")
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the results.")] = Path("sotu-k8"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit 8 topics to the State of the Union addresses, 1790-2021, that come with unmix."""
    from unmix.data import datasets
    from unmix.data.write import CHECKPOINT_FILE, check_folder

    show.speak(quiet=quiet, json=json)
    check_folder(output)
    counts = datasets.sotu()
    show.say(f"State of the Union addresses, 1790–2021: {show.described(counts)}")
    estimator = estimator_of("topics", n_components=8, random_state=0)
    result = fitted(estimator, counts, checkpoint=output / CHECKPOINT_FILE, seconds=60)
    tell_and_write(result, output, title="State of the Union 1790–2021", python="um.datasets.sotu()")


@app.command(
    rich_help_panel="Start here",
    epilog=_examples(
        "unmix fit counts.npz -k 10",
        "unmix fit cells.h5ad -k 12 --layer counts --refine 20 -o cells",
        "unmix fit speeches/ -k 8 --min-df 5 --ngrams 2",
        "unmix fit mutations.csv -k 5 --transpose --metadata tumours.csv",
        "unmix fit counts.npz -k 10 --model lda --set alpha=auto --set eta=0.1",
        "unmix fit counts.npz -k 10 --resume",
    ),
)
def fit(
    input: InputPath,
    topics: Annotated[int, typer.Option("-k", "--topics", min=1, help="Number of topics.", rich_help_panel=FITTING)],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder of the results.", show_default="INPUT-kK", rich_help_panel=OUTPUT),
    ] = None,
    model: Annotated[Model, typer.Option(help="What to fit.", rich_help_panel=FITTING)] = DEFAULT_MODEL,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the model, such as alpha=0.1 or alpha=auto.",
            rich_help_panel=FITTING,
        ),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(help=f"{_listed(SOLVERS)}.", show_default="newton", rich_help_panel=FITTING),
    ] = None,
    init: Annotated[
        str, typer.Option(help=f"{', '.join(STARTS)}, or a model to start from.", rich_help_panel=FITTING)
    ] = "auto",
    refine: Annotated[
        int | None,
        typer.Option(
            min=0, help="Split-merge moves to try after convergence.", show_default="0", rich_help_panel=FITTING
        ),
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(min=1, help="Most iterations.", show_default="the model's", rich_help_panel=FITTING),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Stop at a smaller gain per count; 0 for never.",
            show_default="the model's",
            rich_help_panel=FITTING,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random starts.", rich_help_panel=FITTING)] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads.", show_default="all cores", rich_help_panel=FITTING)
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with an interrupted fit of the same command.", rich_help_panel=FITTING),
    ] = False,
    checkpoint: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="Time between two checkpoints.", rich_help_panel=FITTING),
    ] = 60,
    layer: Layer = None,
    raw: Raw = False,
    transpose: Transpose = None,
    metadata: Metadata = None,
    text_column: TextColumn = None,
    min_df: MinDf = None,
    max_df: MaxDf = None,
    stop_words: StopWords = "english",
    ngrams: Ngrams = 1,
    title: Annotated[
        str | None, typer.Option(help="Title of the report.", show_default="INPUT", rich_help_panel=OUTPUT)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write into a folder that holds other things.", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit topics to counts or text, and write a folder of results.

    The folder has report.html, a page to explore and to share, structure.png,
    tables of proportions, topics, top features and trace, and the model.

    Ctrl-C keeps the best fit so far. The same command with --resume goes on
    from there, or from the last checkpoint, and ends where the fit would have.
    """
    from unmix.data.read import name_of
    from unmix.data.write import CHECKPOINT_FILE, check_folder
    from unmix.estimators.likelihood import make_solver

    show.speak(quiet=quiet, json=json)
    options = {"solver": solver, "refine": refine, "max_iter": max_iter, "tol": tol}
    options = {name: value for name, value in options.items() if value is not None} | parsed(settings or [])
    estimator = estimator_of(model, n_components=topics, n_jobs=threads, random_state=seed, **options)
    if solver is not None:
        make_solver(solver, extrapolate=True)  # a wrong name is best said before a large file is read
    start = init if init in STARTS else read_model(Path(init), f"--init: choose one of {', '.join(STARTS)}, or a model")
    reading: dict[str, Any] = {"layer": layer, "raw": raw, "transpose": transpose, "metadata": metadata}
    reading |= text_options(text_column, min_df, max_df, stop_words, ngrams)
    if output is None:
        output = Path(f"{name_of(input)}-k{topics}")
    check_folder(output, force=force)
    counts = read_counts(input, **reading)
    estimator.set_params(init=start)
    left_off = left_off_in(output, estimator, counts) if resume else None
    if left_off is not None:
        show.say(f"going on after {show.plural(left_off.trace['iteration'].iloc[-1], 'iteration')}")
    elif resume:
        show.note(f"nothing to resume in {output}; starting anew")
    try:
        result = fitted(estimator, counts, checkpoint=output / CHECKPOINT_FILE, seconds=checkpoint, left_off=left_off)
    except ValueError as error:
        raise ValueError(f"{input}: {error}") from error
    about = {"source": input.name, "title": title or name_of(input), "python": _in_python(input, reading)}
    tell_and_write(result, output, force=force, **about)


@app.command(
    epilog=_examples(
        "unmix transform counts-k10 new.npz -o proportions.csv", "unmix transform speeches-k8 new_speeches/ -o new.csv"
    )
)
def transform(
    model: ModelPath,
    input: InputPath,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="CSV file of the proportions.", rich_help_panel=OUTPUT)
    ],
    layer: Layer = None,
    raw: Raw = False,
    transpose: Transpose = None,
    text_column: TextColumn = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Proportions of the topics of a model in new samples.

    Features are found by name, in any order: those unknown to the model are
    left out, missing ones count as 0. Text is treated as the model's was.
    """
    from unmix.data.match import match_features
    from unmix.data.write import write_proportions
    from unmix.estimators import from_fit
    from unmix.models.topics import poisson_to_topics

    show.speak(quiet=quiet, json=json)
    check_file(output, ".csv")
    known = read_model(model)
    counts = read_counts(input, layer=layer, raw=raw, transpose=transpose, text_column=text_column, like=known)
    try:
        matched = match_features(counts, known)
    except ValueError as error:
        raise ValueError(f"{input}: {error}") from error
    if matched.missing:
        show.note(f"{show.plural(matched.missing, 'feature')} of the model not in {input}: taken as 0 in every sample")
    if matched.unknown:
        show.note(f"{show.plural(matched.unknown, 'feature')} of {input} unknown to the model: left out")
    if empty := matched.counts.facts["empty_samples"]:
        show.note(f"{show.plural(empty, 'sample')} without any counts; all topics get the same proportion there")
    estimator = from_fit(known)
    proportions, *_ = poisson_to_topics(estimator.transform(matched.counts), estimator.components_.T)
    write_proportions(proportions, counts.samples, output)
    show.say(f"wrote {output}: {counts.shape[0]:,} samples × {known.n_topics} topics")
    show.answer(
        {
            "output": str(output),
            "samples": counts.shape[0],
            "topics": known.n_topics,
            "missing_features": matched.missing,
            "unknown_features": matched.unknown,
            "empty_samples": empty,
        }
    )


@app.command(epilog=_examples("unmix info cells.h5ad", "unmix info counts-k10 --json"))
def info(
    file: Annotated[Path, typer.Argument(help="A data set, a model, or a fit's folder.")],
    layer: Layer = None,
    raw: Raw = False,
    transpose: Transpose = None,
    text_column: TextColumn = None,
    json: Json = False,
) -> None:
    """Describe a data set or a model, and say whether it looks like counts."""
    from unmix.data.read import kind_of
    from unmix.data.write import MODEL_FILE

    show.speak(json=json)
    if file.suffix == ".safetensors" or (file.is_dir() and (file / MODEL_FILE).is_file()):
        known = read_model(file)
        show.facts(show.describe_fit(known))
        show.topics(known)
        show.answer(show.fit_as_json(known))
        return
    counts = read_counts(file, aloud=False, layer=layer, raw=raw, transpose=transpose, text_column=text_column)
    show.facts({"file": kind_of(file)} | show.describe_counts(counts))
    show.answer({"kind": kind_of(file)} | show.counts_as_json(counts))


@app.command(epilog=_examples("unmix report counts-k10", "unmix report counts-k10 --title 'Blood cells' -o cells.html"))
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A fit's folder, or its model.safetensors.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="An .html file.", show_default="DIR/report.html")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="as before")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the page of a fit again, from its folder."""
    from unmix.report import write_report

    show.speak(quiet=quiet, json=json)
    known = read_model(folder)
    if output is None:
        output = (folder if folder.is_dir() else folder.parent) / "report.html"
    check_file(output, ".html")
    write_report(known, output, title=title)
    show.say(f"wrote {output}")
    show.answer({"output": str(output), "bytes": output.stat().st_size})


@app.command(epilog=_examples("unmix simulate A -o a.npz", "unmix simulate swimmer -o swimmer.npz"))
def simulate(
    name: Annotated[Simulation, typer.Argument(help="A, B: correlated topics; swimmer: images.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .npz file.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a simulated data set."""
    from unmix.data import datasets
    from unmix.data.write import write_counts

    show.speak(quiet=quiet, json=json)
    check_file(output, ".npz")
    counts = datasets.swimmer() if name == "swimmer" else datasets.correlated_topics("A" if name == "A" else "B")
    write_counts(counts, output)
    show.say(f"wrote {output}: {show.described(counts)}")
    show.answer({"output": str(output)} | show.counts_as_json(counts))


def read_counts(path: Path, *, aloud: bool = True, **options: Any) -> Counts:
    from unmix.data.read import read

    with show.working(f"reading {path}"):
        counts = read(path, **options)
    if aloud:
        show.say(f"read {path}: {show.described(counts)}")
    return counts


def _in_python(path: Path, reading: dict[str, Any]) -> str:
    """The call that reads the same counts; options that were left alone are left out."""
    from unmix.data.read import read

    usual = inspect.signature(read).parameters
    given = {name: value for name, value in reading.items() if value != usual[name].default}
    options = [
        f"{name}={str(value)!r}" if isinstance(value, Path) else f"{name}={value!r}" for name, value in given.items()
    ]
    return f"um.read({', '.join([repr(str(path)), *options])})"


def check_file(path: Path, ending: str) -> None:
    """Whether a result may be written there is known before the work begins."""
    if path.suffix.lower() != ending:
        raise ValueError(f"{path}: give a name that ends in {ending}")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path}: no permission to write in {path.parent}; give another place")
