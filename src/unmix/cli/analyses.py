"""The commands of the analyses: `differences`, `stability`, `freedom`, `intervals`, `align`, `compare`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import unmix as um
from unmix.base.checks import percent
from unmix.cli import options, show
from unmix.cli.commands import DEFAULT_MODEL, app, check_file
from unmix.cli.fitting import INTERRUPTED, estimator_of, parsed, picture, read_model, write_page_again
from unmix.cli.options import (
    METADATA,
    TEXTS,
    InputPath,
    Json,
    Quiet,
    asking,
    examples,
    read_counts,
    reads,
    results,
    stopping,
)
from unmix.cli.show import matching, readers, writing
from unmix.storage.files import replacing

if TYPE_CHECKING:
    import pandas as pd

    from unmix.analysis import Differences
    from unmix.analysis.stability import Stability


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
    show.speak(quiet=quiet, json=json)
    folder = output or (model if model.is_dir() else model.parent)
    writing.check_folder(folder, force=force, files=(writing.MODEL_FILE, writing.DIFFERENCES_FILE))
    with writing.claim(folder):
        known = read_model(model)
        counts = read_counts(input, **reading, like=known)
        found = um.differences(
            known,
            counts,
            against=cast(Any, int(against) if against.isdecimal() else against),
            errors=cast(Any, errors),
            groups=groups,
            held_out=held_out,
            pseudocount=pseudocount,
            random_state=seed,
            n_jobs=threads,
            verbose=show.reports(),
        )
        with show.working(f"writing {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            for name, write in files_of(found, lfsr, volcanoes=True).items():
                with replacing(folder / name, like=folder / writing.MODEL_FILE) as temporary:
                    write(temporary)
            write_page_again(folder, known)
    tell_differences(found)
    show.say(f"wrote {folder}{os.sep}: differences.csv and pictures")
    show.answer(as_json(found) | {"output": str(folder)})
    if found.status == "interrupted":
        sys.exit(INTERRUPTED)


def files_of(found: Differences, lfsr: float = 0.05, *, volcanoes: bool = False) -> dict[str, Callable[[Path], None]]:
    """Names of files, and what writes them to a path."""
    files: dict[str, Callable[[Path], None]] = {
        writing.DIFFERENCES_FILE: found.save,
        "differences.csv": lambda path: _write_table(found, lfsr, path),
        "differences.png": lambda path: picture(um.plot.differences(found), path),
    }
    if volcanoes:
        for topic in range(1, found.n_topics + 1):
            files[f"volcano-{topic}.png"] = partial(_draw_volcano, found, topic)
    return files


def _draw_volcano(found: Differences, topic: int, path: Path) -> None:
    picture(um.plot.volcano(found, topic), path)


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
    table = found.table
    table = table if lfsr >= 1 else table[table["lfsr"] < lfsr]
    table = table.sort_values(["topic", "lfc"], ascending=[True, False], kind="stable")
    writing.write_csv(table, path, float_format="%.6g")


# `unmix stability` and `unmix align`: which topics hold, and what becomes of them from fit to fit.

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
@reads(TEXTS)
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
    force: options.Force = False,
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
    show.speak(quiet=quiet, json=json)
    estimator = estimator_of(model, n_components=topics, n_jobs=threads, random_state=seed, **parsed(settings or []))
    folder = Path(f"{readers.name_of(input)}-k{topics}-stability") if output is None else output
    writing.check_folder(folder, force=force, files=(writing.ANSWER_FILES["stability"], RUNS_FILE, writing.MODEL_FILE))
    with writing.claim(folder):
        asked = None if reference is None else read_model(reference)
        counts = read_counts(input, **reading)
        kept = folder / RUNS_FILE
        if not resume:
            kept.unlink(missing_ok=True)
        elif not kept.is_file():
            show.note(f"nothing to resume in {folder}; starting anew")
        same: dict[str, Any] = {"noise": noise.value, "estimator": estimator, "random_state": seed, "checkpoint": kept}
        folder.mkdir(parents=True, exist_ok=True)
        with show.errors_about(input):
            found = um.stability(counts, topics, runs, reference=asked, verbose=show.reports(), **same)
        found.save(folder / writing.ANSWER_FILES["stability"])
        writing.write_table(found.table, folder / "stability.csv")
        with replacing(folder / "stability.png") as temporary:
            picture(um.plot.stability(found)[0], temporary)  # type: ignore[index]
        if asked is not None:
            write_page_again(folder, asked)
        if consensus and found.status == "finished":
            with show.working("putting runs together"):
                um.consensus(counts, topics, runs, **same).save(folder / CONSENSUS_FILE)
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
    show.speak(quiet=quiet, json=json)
    folder = output
    writing.check_folder(folder, force=True, files=("alignment.safetensors",))
    with writing.claim(folder):
        fits = [read_model(path) for path in models]
        names = [_name(path.absolute()) for path in models]
        found = um.align(dict(zip(names, fits, strict=True)) if len(set(names)) == len(names) else fits)
        folder.mkdir(parents=True, exist_ok=True)
        found.save(folder / "alignment.safetensors")
        writing.write_table(found.table, folder / "topics.csv")
        writing.write_table(found.flows, folder / "flows.csv")
        with replacing(folder / "alignment.png") as temporary:
            picture(um.plot.alignment(found), temporary)
    for text in found.advice():
        show.note(text)
    show.say(f"wrote {folder}{os.sep}: topics.csv, flows.csv, alignment.png")
    show.answer(
        {"output": str(folder), "fits": found.fits.tolist(), "topics": show.rows(found.table), "notes": found.advice()}
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
            "topics": show.rows(found.table),
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


# `unmix freedom`: between which values the proportions of a model can move.

RangesFile = Annotated[
    Path,
    options.results(
        "-o",
        "--output",
        metavar="FILE",
        help="File of the ranges: .csv, a row a sample and topic; .safetensors for the page.",
    ),
]
Picture = Annotated[
    Path | None, options.results("--picture", metavar="FILE", help="Draw them too: .png, .svg or .pdf.")
]
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
@reads()
def freedom(
    model: options.ModelPath,
    output: RangesFile,
    drawing: Picture = None,
    loss: Loss = 0.0,
    counts: CountsPath = None,
    probes: Probes = 24,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Between which values proportions can move at the same likelihood.

    For every sample and topic: the proportion, and the least and the largest
    that other factors with exactly the same rates give it; with --loss, those
    that cost no more. Ctrl-C writes what is known by then, and leaves with 130.
    """
    from unmix.analysis.freedom import moves

    show.speak(quiet=quiet, json=json)
    check_file(output, ".csv", ".safetensors")
    if drawing is not None:
        check_file(drawing, ".png", ".svg", ".pdf")
    if loss > 0 and counts is None:
        raise ValueError(f"--loss {loss:g} needs the counts of the fit: give --counts INPUT")
    with writing.adding_to(output.parent), writing.adding_to((drawing or output).parent):
        fit = read_model(model)
        X = None
        if loss > 0 and counts is not None:
            X = matching.match_features(read_counts(counts, **reading, like=fit), fit).counts
        found = um.freedom(fit, X, loss=loss, probes=probes, verbose=show.reports())
        if output.suffix.lower() == ".safetensors":
            found.save(output)
            write_page_again(output.parent, fit)
        else:
            writing.write_table(found.by_sample, output)
        if drawing is not None:
            with replacing(drawing) as temporary:
                picture(um.plot.freedom(found, fit)[0], temporary)
    for k, words in enumerate(moves(found)):
        show.say(f"topic {k + 1}, {percent(found.shares[k])} of all counts: {words}")
    for text in found.advice():
        show.note(text)
    show.say(f"wrote {output}" + ("" if drawing is None else f" and {drawing}"))
    show.answer({"output": str(output), "topics": show.rows(found.table), "notes": found.advice()})
    if found.status == "interrupted":
        sys.exit(INTERRUPTED)


# `unmix intervals`: credible intervals of the proportions of a model.

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
    show.speak(quiet=quiet, json=json)
    check_file(output, ".csv")
    fit = read_model(model)
    counts = read_counts(input, **reading, like=fit)
    found = um.intervals(
        fit,
        matching.match_features(counts, fit).counts,
        level,
        sweeps=sweeps,
        burn_in=burn_in,
        chains=chains,
        random_state=seed,
        verbose=show.reports(),
    )
    with writing.adding_to(output.parent):
        writing.write_table(found.by_sample, output)
    for row in found.table.itertuples():
        show.say(
            f"topic {row.topic}: mean {row.proportion:.1%}, {level:.0%} intervals {row.mean_width:.1%} wide on average"
        )
    for text in found.advice():
        show.note(text)
    show.say(f"wrote {output}")
    show.answer({"output": str(output), "topics": show.rows(found.table), "rhat": found.rhat, "notes": found.advice()})
    if found.status == "interrupted":
        sys.exit(INTERRUPTED)
