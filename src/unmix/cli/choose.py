"""`unmix choose`: how many topics, as a folder with a page, a picture and a table."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import unmix as um
from unmix.cli import options, show
from unmix.cli.commands import DEFAULT_MODEL, app, check_file
from unmix.cli.fitting import INTERRUPTED, estimator_of, parsed, picture, read_model
from unmix.cli.options import (
    TEXTS,
    InputPath,
    Json,
    ModelPath,
    Quiet,
    asking,
    examples,
    fitting,
    read_counts,
    reads,
    results,
    stopping,
)
from unmix.cli.show import readers, writing
from unmix.storage.files import replacing

if TYPE_CHECKING:
    from unmix.fit import Fit


CHOICE_FILE, FOLDS_FILE = "choice.safetensors", "folds.safetensors"
FEW_TOPICS = "1-20"

Numbers = Annotated[
    str, fitting("-k", "--topics", metavar="NUMBERS", help="Numbers of topics to try, such as 1-12,16,20.")
]
Folds = Annotated[int, asking(metavar="N", min=1, help="Parts of the counts, each foretold from the others.")]
Overdispersion = Annotated[
    str | None,
    asking(metavar="B|estimate", help="For counts of variance μ + μ²/B.", show_default="Poisson counts"),
]
ChoiceFolder = Annotated[
    Path | None, results("-o", "--output", metavar="DIR", help="Folder of the results.", show_default="INPUT-choice")
]
ResumeFolds = Annotated[bool, stopping("--resume", help="Go on with the finished folds of the same command.")]


@app.command(
    epilog=examples(
        "unmix choose counts.npz",
        "unmix choose cells.h5ad -k 2-12,16,20 --layer counts --overdispersion estimate",
        "unmix choose speeches/ -k 2-20 --model lda --set alpha=auto --set eta=0.1",
        "unmix choose counts.npz --resume",
    ),
)
@reads(TEXTS)
def choose(
    input: InputPath,
    topics: Numbers = FEW_TOPICS,
    output: ChoiceFolder = None,
    model: options.ModelName = DEFAULT_MODEL,
    settings: options.Settings = None,
    folds: Folds = 5,
    overdispersion: Overdispersion = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    resume: ResumeFolds = False,
    title: options.Title = None,
    force: options.Force = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Say how many topics counts or text have, and why.

    Fits with each number of topics foretell counts that were held out. The
    folder has choice.html, a page to read and to share, choice.png, choice.csv
    and the result, choice.safetensors.

    Ctrl-C keeps what is finished. The same command with --resume goes on.
    """
    show.speak(quiet=quiet, json=json)
    numbers, varied = numbers_in(topics), dispersion_in(overdispersion)
    given = parsed(settings or [])
    estimator = None if model == DEFAULT_MODEL and not given else estimator_of(model, **given)
    if output is None:
        output = Path(f"{readers.name_of(input)}-choice")
    writing.check_folder(output, force=force, files=(CHOICE_FILE, FOLDS_FILE))
    with writing.claim(output):
        counts = _counts(input, reading)
        output.mkdir(parents=True, exist_ok=True)
        keep = output / FOLDS_FILE
        if not resume:
            keep.unlink(missing_ok=True)
        elif not keep.is_file():
            show.note(f"nothing to resume in {output}; starting anew")
        try:
            with show.errors_about(input):
                choice = um.choose_topics(
                    counts,
                    numbers,
                    estimator,
                    folds=folds,
                    overdispersion=varied,
                    random_state=seed,
                    n_jobs=threads,
                    checkpoint=keep,
                    verbose=show.reports(),
                )
        finally:
            if not any(output.iterdir()):
                output.rmdir()
        _write(choice, output, title or f"{readers.name_of(input)}: how many topics?")
        if choice.status != "interrupted":
            keep.unlink(missing_ok=True)
    _tell(choice)
    show.say(f"wrote {output}{os.sep}; open {output / 'choice.html'} in a browser")
    show.answer(_as_json(choice) | {"output": str(output)})
    if choice.status == "interrupted":
        show.note("kept the finished folds; the same command with --resume goes on")
        sys.exit(INTERRUPTED)


def numbers_in(text: str) -> list[int]:
    """ "1-4,8" as 1, 2, 3, 4, 8."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or int(first) > int(last or first):
            raise ValueError(f"--topics {text}: give numbers and ranges such as 1-12,16,20")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def dispersion_in(text: str | None) -> Any:
    if text is None or text == "estimate":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--overdispersion {text}: give a number > 0, or estimate") from None


def _counts(path: Path, reading: dict[str, Any]) -> Any:
    """Counts in memory: of shards, the samples that fits start from."""
    if not readers.is_shards(path):
        return read_counts(path, **reading)
    shards = cast(Any, um.read(path, **reading))
    show.say(
        f"opened {path}: {show.described(shards)}; choosing by {show.plural(len(shards.sample), 'sample')} of them"
    )
    return shards.sample


def _tell(choice: Any) -> None:
    """The table and the advice."""
    if not show.silent():
        lines = [f"{'topics':>7}{'perplexity':>13}{'below the best':>16}{'±':>12}{'lightest':>10}"]
        marks = {choice.best: "best"} | {choice.suggested: "suggested"}
        for row in choice.table.itertuples():
            told = f"{row.topics:>7}{row.perplexity:>13,.2f}{row.delta:>16,.0f}{row.error:>12,.0f}{row.lightest:>10.1%}"
            lines.append(f"{told}  {marks.get(row.topics, '')}")
        show.console().print("", *lines, "", sep="\n")
    first, *more = choice.advice()
    show.say(f"{first}.")
    for sentence in more:
        show.note(sentence)


def _write(choice: Any, folder: Path, title: str) -> None:
    from unmix.plot.curves import panels_of
    from unmix.report import write_choice

    choice.save(folder / CHOICE_FILE)
    writing.write_table(choice.table, folder / "choice.csv")
    with replacing(folder / "choice.png") as temporary:
        picture(panels_of(choice)[0], temporary)
    write_choice(choice, folder / "choice.html", title=title, command=show.command_line())


def _as_json(choice: Any) -> dict[str, Any]:
    return {
        "suggested": choice.suggested,
        "best": choice.best,
        "worthwhile": choice.worthwhile,
        "status": choice.status,
        "folds": choice.folds_done,
        "dispersion": choice.dispersion,
        "overdispersion": choice.overdispersion,
        "notes": choice.advice(),
        "table": show.rows(choice.table),
    }


# `unmix compare`: two fits, or a fit and a catalogue, side by side.

TABLES = (".csv", ".tsv", ".txt", ".tab")
SAMPLES_SHOWN = 5


@app.command(
    epilog=examples(
        "unmix compare tumours-k5 tumours-k6",
        "unmix compare one.safetensors two.safetensors -o pairs.csv",
        "unmix compare one two -o pairs.png",
        "unmix compare tumours-k5 COSMIC_v3.4_SBS_GRCh37.txt",
    ),
)
def compare(
    model: ModelPath,
    other: Annotated[
        Path, typer.Argument(metavar="OTHER", help="Another fit; or a catalogue, .csv or .txt, features × signatures.")
    ],
    output: Annotated[
        Path | None,
        options.results(
            "-o", "--output", metavar="FILE", help="A .csv file of the table, or for two fits a .png of all pairs."
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Which topic of a fit is which of another, or of a catalogue.

    Topics are matched one to one; distances are 0 where they are the same, 1
    where they share nothing. With samples in common, also where the
    proportions differ most.
    """
    show.speak(quiet=quiet, json=json)
    catalogue = other.suffix.lower() in TABLES
    if output is not None:
        check_file(output, ".csv", *[] if catalogue else [".png"])
    with nullcontext() if output is None else writing.adding_to(output.parent):
        known = read_model(model)
        if catalogue:
            _with_catalogue(known, other, output)
        else:
            _with_fit(known, read_model(other), output)


def _with_fit(known: Fit, other: Fit, output: Path | None) -> None:
    found = um.compare(known, other)
    show.table(found.table.drop(columns=["label", "other_label"] if known.names is None is other.names else []))
    if found.samples:
        show.say(
            f"proportions of {show.plural(found.samples, 'sample')} in both differ by {found.mean_difference:.3f} on "
            "average; most in"
        )
        show.table(found.proportions.head(SAMPLES_SHOWN))
    else:
        show.say("the fits have no samples in common: their proportions are not compared")
    if output is not None and output.suffix.lower() == ".png":
        with replacing(output) as temporary:
            picture(um.plot.similarity(known, other), temporary)
    _end(found, output, {"samples": found.samples, "proportions": show.rows(found.proportions)})


def _with_catalogue(known: Fit, catalogue: Path, output: Path | None) -> None:
    found = um.match_catalogue(known, catalogue)
    show.table(found.table.drop(columns=["label"] if known.names is None else []))
    _end(found, output, {})


def _end(found: Any, output: Path | None, more: dict[str, Any]) -> None:
    """Advice, the file, and the answer for machines."""
    for text in found.advice():
        show.note(text)
    if output is not None:
        if output.suffix.lower() == ".csv":
            writing.write_table(found.table, output)
        show.say(f"wrote {output}")
    written = {} if output is None else {"output": str(output)}
    show.answer({"topics": show.rows(found.table), **more, "notes": found.advice(), **written})
