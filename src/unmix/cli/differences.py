"""`unmix differences`: what sets the topics of a model apart, as tables, pictures and a section of its page."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from unmix.cli import options, show
from unmix.cli.answers import write_page_again
from unmix.cli.commands import app, examples
from unmix.cli.fitting import INTERRUPTED, read_model
from unmix.cli.options import InputPath, Json, Quiet
from unmix.cli.reading import METADATA, read_counts, reads

if TYPE_CHECKING:
    from unmix.analysis import Differences

WORDS_SHOWN = 6

Against = Annotated[
    str,
    options.asking(
        metavar="next|least|rest|average|NUMBER",
        help="Compare each topic with the next that uses a feature most, with the one most alike, with all others, "
        "with all samples, or with one topic.",
    ),
]
Errors = Annotated[
    str, options.asking(metavar="robust|poisson", help="Errors by how samples scatter, or of Poisson counts.")
]
Groups = Annotated[
    str | None, options.asking(metavar="COLUMN", help="Metadata that tells which samples belong together: donors.")
]
HeldOut = Annotated[
    float | None,
    options.asking(metavar="PART", help="Find topics in the other counts, and test these: 0.5. Takes another fit."),
]
Pseudocount = Annotated[
    float, options.asking(metavar="COUNTS", help="Counts of belief that topics use a feature alike.")
]
Folder = Annotated[
    Path | None,
    options.results("-o", "--output", metavar="DIR", help="Folder of the results.", show_default="that of MODEL"),
]
Lfsr = Annotated[
    float,
    options.results(
        "--lfsr",
        metavar="RATE",
        min=0,
        max=1,
        help="Write rows of the table with a smaller false sign rate; 1 for all.",
    ),
]


@app.command(
    epilog=examples(
        "unmix differences cells-k12 cells.h5ad --layer counts --groups donor",
        "unmix differences speeches-k8 speeches/ --held-out 0.5 -o speeches-differences",
    ),
)
@reads(METADATA)
def differences(
    model: options.ModelPath,
    input: InputPath,
    output: Folder = None,
    against: Against = "next",
    errors: Errors = "robust",
    groups: Groups = None,
    held_out: HeldOut = None,
    pseudocount: Pseudocount = 1.0,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    lfsr: Lfsr = 0.05,
    force: options.Force = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """What sets topics apart: log fold changes with errors.

    Writes differences.csv, differences.safetensors, a heat map and a volcano
    plot for each topic. In a fit's own folder its page is written again, with
    a section for them.
    """
    from unmix.analysis import differences as find

    show.speak(quiet=quiet, json=json)
    known = read_model(model)
    folder = output or (model if model.is_dir() else model.parent)
    _check_folder(folder, force)
    counts = read_counts(input, **reading, like=known)
    with show.working(f"comparing {show.plural(counts.shape[1], 'feature')}") as status:

        def tell(done: int, of: int, left: float | None) -> None:
            if status is not None:
                status.update(f"{done} of {of} parts" + ("" if left is None else f", about {left:.0f} s left"))

        found = find(
            known,
            counts,
            against=cast("Any", int(against) if against.isdecimal() else against),
            errors=cast("Any", errors),
            groups=groups,
            held_out=held_out,
            pseudocount=pseudocount,
            random_state=seed,
            n_jobs=threads,
            tell=tell,
        )
    tell_differences(found)
    with show.working(f"writing {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in files_of(found, lfsr, volcanoes=True).items():
            _written(folder / name, write)
        write_page_again(folder, known)
    show.say(f"wrote {folder}{os.sep}: differences.csv and pictures")
    show.answer(as_json(found) | {"output": str(folder)})
    if found.status == "interrupted":
        sys.exit(INTERRUPTED)


def files_of(found: Differences, lfsr: float = 0.05, *, volcanoes: bool = False) -> dict[str, Callable[[Path], None]]:
    """Names of files, and what writes them to a path."""
    from unmix import plot
    from unmix.data.write import DIFFERENCES_FILE

    files: dict[str, Callable[[Path], None]] = {
        DIFFERENCES_FILE: found.save,
        "differences.csv": lambda path: _write_table(found, lfsr, path),
        "differences.png": picture(partial(plot.differences, found)),
    }
    if volcanoes:
        for topic in range(1, found.n_topics + 1):
            files[f"volcano-{topic}.png"] = picture(partial(plot.volcano, found, topic))
    return files


def picture(draw: Callable[[], Any]) -> Callable[[Path], None]:
    """What writes the picture that is drawn then."""

    def write(path: Path) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a font without the letter: the tables have it
            draw().figure.canvas.figure.savefig(path, dpi=150, format="png")

    return write


def tell_differences(found: Differences) -> None:
    """One line per topic: how many features surely differ, and those that it uses most more; then advice."""
    for topic in range(1, found.n_topics + 1):
        top = found.top(topic, WORDS_SHOWN)
        sure = int((found.lfsr[:, topic - 1] < 0.05).sum())
        words = ", ".join(f"{row.feature} {row.lfc:+.1f}" for row in top.itertuples())
        show.say(f" topic {topic:<3} {sure:>7,} surely different{': ' + words if words else ''}")
    for text in found.advice():
        show.note(text)


def as_json(found: Differences) -> dict[str, Any]:
    return {
        "against": found.against,
        "errors": found.errors,
        "held_out": found.held_out,
        "status": found.status,
        "topics": [
            {
                "topic": topic,
                "surely_different": int((found.lfsr[:, topic - 1] < 0.05).sum()),
                "top": found.top(topic, WORDS_SHOWN)[["feature", "lfc", "lfsr"]].to_dict("records"),
            }
            for topic in range(1, found.n_topics + 1)
        ],
    }


def _write_table(found: Differences, lfsr: float, path: Path) -> None:
    """The surest changes of each topic, or all, from the most more to the most less."""
    from unmix.data.spreadsheet import write_csv

    table = found.table
    table = table if lfsr >= 1 else table[table["lfsr"] < lfsr]
    table = table.sort_values(["topic", "lfc"], ascending=[True, False], kind="stable")
    write_csv(table, path, float_format="%.6g")


def _written(path: Path, write: Callable[[Path], None]) -> None:
    from unmix.files import replacing

    with replacing(path) as temporary:
        write(temporary)


def _check_folder(folder: Path, force: bool) -> None:
    """Where results may be written is known before the work begins."""
    from unmix.data.write import DIFFERENCES_FILE, MODEL_FILE

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; give a folder for the results")
    if not folder.is_dir() or force or not any(folder.iterdir()):
        return
    if not any((folder / name).is_file() for name in (MODEL_FILE, DIFFERENCES_FILE)):
        raise ValueError(
            f"{folder}: holds files that are neither a fit's nor differences; give another folder, or add --force"
        )
