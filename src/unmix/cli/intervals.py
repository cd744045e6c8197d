"""`unmix intervals`: credible intervals of the proportions of a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from unmix.cli import options, show
from unmix.cli.commands import app, check_file
from unmix.cli.commands import examples as examples
from unmix.cli.fitting import INTERRUPTED, read_model
from unmix.cli.options import InputPath, Json, Quiet
from unmix.cli.reading import read_counts, reads

IntervalsFile = Annotated[
    Path,
    options.results("-o", "--output", metavar="FILE", help="File of the intervals, .csv: a row a sample and topic."),
]
Level = Annotated[
    float, options.asking(metavar="PART", help="The probability with which each interval holds its number.")
]
Sweeps = Annotated[
    int,
    options.asking(metavar="N", min=5, help="Sweeps over all counts that are averaged, after as many as --burn-in."),
]
BurnIn = Annotated[int, options.asking("--burn-in", metavar="N", min=0, help="Sweeps before those.")]
Chains = Annotated[int, options.asking(metavar="N", min=1, help="Independent chains, a thread each.")]


@app.command(
    epilog=examples(
        "unmix intervals counts-k10 counts.npz -o intervals.csv",
        "unmix intervals cells-k12 cells.h5ad --layer counts -o intervals.csv --level 0.95 --sweeps 2000",
    ),
)
@reads()
def intervals(
    model: options.ModelPath,
    input: InputPath,
    output: IntervalsFile,
    level: Level = 0.9,
    sweeps: Sweeps = 500,
    burn_in: BurnIn = 200,
    chains: Chains = 2,
    seed: Annotated[int, options.asking(metavar="N", min=0, help="Seed of the chains.")] = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Credible intervals of the proportions of a model, by sampling.

    INPUT are the counts of the fit. For every sample and topic: mean and
    standard deviation of the posterior, and the ends of the interval. Ctrl-C
    writes what is known by then, and leaves with 130.
    """
    from unmix.analysis import intervals as sampled
    from unmix.data.match import match_features
    from unmix.data.spreadsheet import write_csv
    from unmix.files import replacing

    show.speak(quiet=quiet, json=json)
    check_file(output, ".csv")
    fit = read_model(model)
    counts = read_counts(input, **reading, like=fit)
    with show.working("sampling") as status:

        def tell(done: int, of: int, left: float | None) -> None:
            if status is not None:
                status.update(f"{done:,} of {of:,} sweeps, about {left or 0:.0f} s left")

        X = match_features(counts, fit).counts
        found = sampled(fit, X, level, sweeps=sweeps, burn_in=burn_in, chains=chains, random_state=seed, tell=tell)
    with replacing(output) as temporary:
        write_csv(found.by_sample, temporary)
    for row in found.table.itertuples():
        show.say(
            f"topic {row.topic}: mean {row.proportion:.1%}, {level:.0%} intervals {row.mean_width:.1%} wide on average"
        )
    for text in found.advice():
        show.note(text)
    show.say(f"wrote {output}")
    show.answer(
        {"output": str(output), "topics": found.table.to_dict("records"), "rhat": found.rhat, "notes": found.advice()}
    )
    if found.status == "interrupted":
        sys.exit(INTERRUPTED)
