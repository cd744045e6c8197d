"""`unmix compare`: two fits, or a fit and a catalogue, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmix.cli import options, show
from unmix.cli.commands import app, check_file, examples
from unmix.cli.fitting import read_model
from unmix.cli.options import Json, ModelPath, Quiet

if TYPE_CHECKING:
    import pandas as pd

    from unmix.fit import Fit

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
    known = read_model(model)
    if catalogue:
        _with_catalogue(known, other, output)
    else:
        _with_fit(known, read_model(other), output)


def _with_fit(known: Fit, other: Fit, output: Path | None) -> None:
    from unmix.analysis.compare import compare as compared

    found = compared(known, other)
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
        from unmix.files import replacing
        from unmix.plot.similarity import similarity
        from unmix.plot.style import figure_of

        with replacing(output) as temporary:
            figure_of(similarity(known, other)).savefig(temporary, dpi=150)
    _end(found, output, {"samples": found.samples, "proportions": _records(found.proportions)})


def _with_catalogue(known: Fit, catalogue: Path, output: Path | None) -> None:
    from unmix.analysis.catalogue import match_catalogue

    found = match_catalogue(known, catalogue)
    show.table(found.table.drop(columns=["label"] if known.names is None else []))
    _end(found, output, {})


def _end(found: Any, output: Path | None, more: dict[str, Any]) -> None:
    """Advice, the file, and the answer for machines."""
    from unmix.data.write import write_table

    for text in found.advice():
        show.note(text)
    if output is not None:
        if output.suffix.lower() == ".csv":
            write_table(found.table, output)
        show.say(f"wrote {output}")
    written = {} if output is None else {"output": str(output)}
    show.answer({"topics": _records(found.table), **more, "notes": found.advice(), **written})


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    plain = table.astype(object).where(table.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]
