"""`unmix stability` and `unmix align`: which topics hold, and what becomes of them from fit to fit."""

from __future__ import annotations

import json as json_module
import os
import sys
import warnings
from enum import StrEnum
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmix.cli import options, show
from unmix.cli.answers import write_page_again
from unmix.cli.commands import DEFAULT_MODEL, app, examples
from unmix.cli.fitting import INTERRUPTED, estimator_of, parsed, read_model
from unmix.cli.options import InputPath, Json, Quiet, asking, results, stopping
from unmix.cli.reading import WORDS, read_counts, reads
from unmix.files import replacing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from unmix.analysis.stability import Stability

RUNS_FILE, CONSENSUS_FILE = "runs.safetensors", "consensus.safetensors"

Noise = StrEnum("Noise", [("halves", "halves"), ("bootstrap", "bootstrap"), ("none", "none")])
HALVES = Noise("halves")


@app.command(
    epilog=examples(
        "unmix stability counts.npz -k 10",
        "unmix stability cells.h5ad -k 12 --layer counts --runs 40 -o cells-stability",
        "unmix stability counts.npz -k 10 --reference counts-k10",
        "unmix stability counts.npz -k 10 --resume",
    ),
)
@reads(WORDS)
def stability(
    input: InputPath,
    topics: options.Topics,
    output: Annotated[
        Path | None,
        results("-o", "--output", metavar="DIR", help="Folder of the results.", show_default="INPUT-kK-stability"),
    ] = None,
    runs: Annotated[int, asking(metavar="N", min=2, help="Fits to compare.")] = 20,
    noise: Annotated[
        Noise,
        asking(
            metavar="halves|bootstrap|none",
            help="What each fit sees: a half of the counts, counts drawn anew, or all as they are (other starts).",
        ),
    ] = HALVES,
    reference: Annotated[
        Path | None, asking(metavar="MODEL", help="The fit to ask about.", show_default="a fit of all counts")
    ] = None,
    consensus: Annotated[
        bool, results("--consensus", help=f"Write {CONSENSUS_FILE} too: a model of the topics that runs agree on.")
    ] = False,
    model: options.ModelName = DEFAULT_MODEL,
    settings: options.Settings = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    resume: Annotated[bool, stopping("--resume", help="Go on with the runs of an interrupted command.")] = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Which of K topics are found again in random halves of the counts.

    The folder has stability.csv, a row a topic, stability.png and the result.
    In the folder of --reference its page is written again, with a section for it.
    Ctrl-C keeps the runs that are finished; --resume goes on with the rest.
    """
    from unmix import plot
    from unmix.analysis import consensus as agreed
    from unmix.analysis import stability as measured
    from unmix.data.read import name_of
    from unmix.data.write import ANSWER_FILES

    show.speak(quiet=quiet, json=json)
    estimator = estimator_of(model, n_components=topics, n_jobs=threads, random_state=seed, **parsed(settings or []))
    asked = None if reference is None else read_model(reference)
    folder = _folder(Path(f"{name_of(input)}-k{topics}-stability") if output is None else output)
    counts = read_counts(input, **reading)
    kept = folder / RUNS_FILE
    if not resume:
        kept.unlink(missing_ok=True)
    elif not kept.is_file():
        show.note(f"nothing to resume in {folder}; starting anew")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = measured(
            counts,
            topics,
            runs,
            noise=noise.value,
            estimator=estimator,
            reference=asked,
            random_state=seed,
            keep=kept,
            verbose=show.lively(),
        )
    except ValueError as error:
        raise ValueError(f"{input}: {error}") from error
    found.save(folder / ANSWER_FILES["stability"])
    _write(folder / "stability.csv", found.table)
    _draw(folder / "stability.png", plot.stability(found)[0])  # type: ignore[index]
    if asked is not None:
        write_page_again(folder, asked)
    if consensus and found.status == "finished":
        with show.working("putting runs together"):
            common = agreed(counts, topics, runs, noise=noise.value, estimator=estimator, random_state=seed, keep=kept)
        common.save(folder / CONSENSUS_FILE)
    if found.status == "finished":
        kept.unlink()
    _tell(found, folder)


@app.command(
    epilog=examples(
        "unmix align counts-k8 counts-k10 counts-k12 -o alignment", "unmix align seed-1 seed-2 seed-3 -o seeds"
    ),
)
def align(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL MODEL…", help="Fits' folders, or their model.safetensors.")
    ],
    output: Annotated[Path, results("-o", "--output", metavar="DIR", help="Folder of the results.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Which topics of one fit become which of the next.

    The folder has topics.csv, flows.csv and alignment.png.
    """
    from unmix import plot
    from unmix.analysis import align as aligned

    show.speak(quiet=quiet, json=json)
    folder, fits = _folder(output), [read_model(path) for path in models]
    names = [_name(path.absolute()) for path in models]
    found = aligned(dict(zip(names, fits, strict=True)) if len(set(names)) == len(names) else fits)
    folder.mkdir(parents=True, exist_ok=True)
    found.save(folder / "alignment.safetensors")
    _write(folder / "topics.csv", found.table)
    _write(folder / "flows.csv", found.flows)
    _draw(folder / "alignment.png", plot.alignment(found))
    for text in found.advice():
        show.note(text)
    show.say(f"wrote {folder}{os.sep}: topics.csv, flows.csv, alignment.png")
    show.answer(
        {"output": str(folder), "fits": found.fits.tolist(), "topics": _rows(found.table), "notes": found.advice()}
    )


def _name(model: Path) -> str:
    """Of a fit's folder, or of the folder of its model, or of a model of another name."""
    if model.suffix != ".safetensors":
        return model.name
    return model.parent.name if model.name == "model.safetensors" else model.stem


def _tell(found: Stability, folder: Path) -> None:
    first, *notes = found.advice()
    show.say(f"{first}.")
    _show(found.table)
    for text in notes:
        show.note(text)
    show.say(f"wrote {folder}{os.sep}: stability.csv, stability.png")
    show.answer(
        {
            "output": str(folder),
            "runs": len(found.similarity),
            "status": found.status,
            "topics": _rows(found.table),
            "notes": found.advice(),
        }
    )
    if found.status == "interrupted":
        show.note("kept the runs so far; the same command with --resume goes on with the rest")
        sys.exit(INTERRUPTED)


def _show(table: pd.DataFrame) -> None:
    """One line per topic."""
    if show.silent():
        return
    from rich.table import Table
    from rich.text import Text

    lines = Table(box=None, pad_edge=False)
    for heading in ("", "stability", "recall", "margin"):
        lines.add_column(heading, justify="right" if heading else "left")
    lines.add_column("topic: top features", no_wrap=True, overflow="ellipsis")
    for row in table.itertuples():
        margin = "" if isnan(row.margin) else f"{row.margin:.2f}"
        words = (row.verdict, f"{row.stability:.2f}", f"{row.recall:.0%}", margin, show.printable(row.name))
        lines.add_row(*map(Text, words))
    show.console().print(lines)


def _folder(output: Path) -> Path:
    """Whether results may be written there is known before the work begins."""
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output}: is a file; give a folder for the results")
    parent = next(parent for parent in (output, *output.absolute().parents) if parent.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ValueError(f"{output}: no permission to write in {parent}; give another folder")
    return output


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return json_module.loads(table.to_json(orient="records"))


def _write(path: Path, table: pd.DataFrame) -> None:
    from unmix.data.spreadsheet import write_csv

    with replacing(path) as temporary:
        write_csv(table, temporary)


def _draw(path: Path, ax: Axes) -> None:
    with replacing(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a font without the letter: the tables have it
        ax.figure.canvas.figure.savefig(temporary, dpi=150)
