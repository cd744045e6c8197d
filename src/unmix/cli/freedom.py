"""`unmix freedom`: between which values the proportions of a model can move."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from unmix.cli import options, show
from unmix.cli.answers import write_page_again
from unmix.cli.commands import app, check_file
from unmix.cli.commands import examples as examples
from unmix.cli.fitting import INTERRUPTED, read_model
from unmix.cli.options import Json, Quiet
from unmix.cli.reading import read_counts
from unmix.words import percent

RangesFile = Annotated[
    Path,
    options.results(
        "-o",
        "--output",
        metavar="FILE",
        help="File of the ranges: .csv, a row a sample and topic; .safetensors for the page.",
    ),
]
Picture = Annotated[Path | None, options.results(metavar="FILE", help="Draw them too: .png, .svg or .pdf.")]
Loss = Annotated[
    float, options.asking(metavar="UNITS", min=0, help="Units of log-likelihood that ends may cost; needs --counts.")
]
CountsPath = Annotated[
    Path | None, options.asking("--counts", metavar="INPUT", help="The counts of the fit, for --loss.")
]
Probes = Annotated[
    int, options.asking(metavar="N", min=1, help="Samples and features whose ends are sought one by one.")
]


@app.command(
    epilog=examples(
        "unmix freedom counts-k10 -o ranges.csv",
        "unmix freedom counts-k10 -o counts-k10/freedom.safetensors",
        "unmix freedom signatures-k4 -o ranges.csv --picture ranges.png",
    ),
)
def freedom(
    model: options.ModelPath,
    output: RangesFile,
    picture: Picture = None,
    loss: Loss = 0.0,
    counts: CountsPath = None,
    probes: Probes = 24,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Between which values proportions can move at the same likelihood.

    For every sample and topic: the proportion, and the least and the largest
    that other factors with exactly the same rates give it; with --loss, those
    that cost no more. Ctrl-C writes what is known by then, and leaves with 130.
    """
    from unmix.analysis import freedom as ranges
    from unmix.analysis.ranges import moves
    from unmix.data.match import match_features
    from unmix.data.spreadsheet import write_csv
    from unmix.files import replacing

    show.speak(quiet=quiet, json=json)
    check_file(output, ".csv", ".safetensors")
    if picture is not None:
        check_file(picture, ".png", ".svg", ".pdf")
    if loss > 0 and counts is None:
        raise ValueError(f"--loss {loss:g} needs the counts of the fit: give --counts INPUT")
    fit = read_model(model)
    X = match_features(read_counts(counts), fit).counts if loss > 0 and counts is not None else None
    with show.working("looking for other factors with the same rates") as status:

        def tell(done: int, of: int, left: float | None) -> None:
            if status is not None:
                status.update(f"{done} of {of} parts" + (f", about {left:.0f} s left" if left else ""))

        found = ranges(fit, X, loss=loss, probes=probes, tell=tell)
    if output.suffix.lower() == ".safetensors":
        found.save(output)
        write_page_again(output.parent, fit)
    else:
        with replacing(output) as temporary:
            write_csv(found.by_sample, temporary)
    if picture is not None:
        from unmix.plot import freedom as draw
        from unmix.plot.style import figure_of

        with replacing(picture) as temporary:
            figure_of(draw(found, fit)[0]).savefig(temporary, dpi=150)
    for k, words in enumerate(moves(found)):
        show.say(f"topic {k + 1}, {percent(found.shares[k])} of all counts: {words}")
    for text in found.advice():
        show.note(text)
    show.say(f"wrote {output}" + ("" if picture is None else f" and {picture}"))
    show.answer({"output": str(output), "topics": found.table.to_dict("records"), "notes": found.advice()})
    if found.status == "interrupted":
        sys.exit(INTERRUPTED)
