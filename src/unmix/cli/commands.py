"""The commands: each parses, calls and writes, and leaves errors to `main`."""

from __future__ import annotations

import os
import shutil
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import unmix as um
from unmix.base.memory import parsed as parsed_memory
from unmix.base.progress import Progress
from unmix.cli import fitting, options, show
from unmix.cli.options import (
    METADATA,
    SNIPPETS,
    TEXTS,
    App,
    InputPath,
    Json,
    Quiet,
    anndata_contents,
    counts_or_shards,
    examples,
    read_counts,
    reads,
)
from unmix.cli.show import matching, readers, writing
from unmix.registry import STARTS
from unmix.storage.files import replacing

if TYPE_CHECKING:
    from unmix.counts.shards import Shards
    from unmix.estimators.features import Matched
    from unmix.fit import Fit

LOADINGS = ".loadings"  # in the folder of results, what a fit of shards keeps on disk while it runs

app = App(pretty_exceptions_enable=False, help="Take matrices of counts apart into topics.")
DEFAULT_MODEL = fitting.Model("topics")


class Simulation(StrEnum):
    A = "A"
    B = "B"
    swimmer = "swimmer"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unmix {um.__version__}")
        raise typer.Exit


@app.callback()
def unmix(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    output: Annotated[Path, options.results("-o", "--output", metavar="DIR", help="Folder of the results.")] = Path(
        "sotu-k8"
    ),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit the State of the Union addresses that come with unmix.

    Eight topics of the addresses from 1790 to 2021.
    """
    show.speak(quiet=quiet, json=json)
    writing.check_folder(output)
    counts = um.datasets.sotu()
    show.say(f"State of the Union addresses, 1790–2021: {show.described(counts)}")
    estimator = fitting.estimator_of("topics", n_components=8, random_state=0)
    with writing.claim(output):
        result = fitting.fitted(estimator, counts, output / writing.CHECKPOINT_FILE, checkpoint_seconds=60)
        fitting.write_and_tell(result, output, title="State of the Union 1790–2021", python="um.datasets.sotu()")


@app.command(
    epilog=examples(
        "unmix fit counts.npz -k 10",
        "unmix fit cells.h5ad -k 12 --layer counts --refine 4 -o cells",
        "unmix fit speeches/ -k 8 --min-df 5 --ngrams 2",
        "unmix fit mutations.csv -k 5 --transpose --metadata tumours.csv",
        "unmix fit counts.npz -k 10 --model lda --set alpha=auto --set eta=0.1",
        "unmix fit counts.npz -k 10 --resume",
        "unmix fit cells.shards -k 20 --memory 4GB",
    ),
)
@reads(TEXTS, METADATA, SNIPPETS)
def fit(
    input: InputPath,
    topics: options.Topics,
    output: options.FitFolder = None,
    model: options.ModelName = DEFAULT_MODEL,
    settings: options.Settings = None,
    solver: options.Solver = None,
    init: options.Init = "auto",
    starts: options.Starts = None,
    refine: options.Refine = None,
    max_iter: options.MaxIter = None,
    tol: options.Tol = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    memory: options.Memory = None,
    dask: options.DaskCluster = None,
    resume: options.Resume = False,
    checkpoint: options.CheckpointSeconds = 60,
    title: options.Title = None,
    differences: options.WithDifferences = False,
    stability: options.WithStability = False,
    runs: options.Runs = fitting.RUNS,
    freedom: options.WithFreedom = False,
    force: options.Force = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Fit topics to counts or text, and write a folder of results.

    The folder has report.html, a page to explore and to share, structure.png,
    tables of proportions, exposures (counts by topic), topics, top features
    and trace, and the model.

    Ctrl-C keeps the best fit so far. The same command with --resume goes on
    from there, or from the last checkpoint, and ends where the fit would have.
    """
    from unmix.estimators.likelihood import make_solver
    from unmix.io.read.names import writable_name

    show.speak(quiet=quiet, json=json)
    given = {"solver": solver, "n_init": starts, "refine": refine, "max_iter": max_iter, "tol": tol}
    parameters = {name: value for name, value in given.items() if value is not None} | fitting.parsed(settings or [])
    estimator = fitting.estimator_of(model, n_components=topics, n_jobs=threads, random_state=seed, **parameters)
    if dask is not None:
        fitting.check_cluster(dask)
    if solver is not None:
        make_solver(solver, extrapolate=True)  # a wrong name is best said before a large file is read
    start = (
        init
        if init in STARTS
        else fitting.read_model(Path(init), f"--init: choose one of {', '.join(STARTS)}, or a model")
    )
    if output is None:
        output = Path(f"{readers.name_of(input)}-k{topics}")
    writing.check_folder(output, force=force)
    allowed = None if memory is None else parsed_memory(memory)
    python, counts = counts_or_shards(input, reading, allowed)
    fitting.require_counts(counts, input, force=force)
    fitting.check_answerable(counts, topics, differences=differences, stability=stability)
    estimator.set_params(init=start)
    about = {"source": writable_name(input.name), "title": title or readers.name_of(input), "python": python}
    ask = partial(
        fitting.answers_to,
        counts=counts,
        estimator=estimator,
        differences=differences,
        stability=stability,
        freedom=freedom,
        runs=runs,
    )
    with writing.claim(output):
        earlier = fitting.to_resume_in(output, estimator, counts) if resume else None
        engine = um.engines.Local(allowed, output / LOADINGS)
        with show.errors_about(input), engine, fitting.on_cluster(dask, counts) as cluster:
            result = fitting.fitted(
                estimator, counts, output / writing.CHECKPOINT_FILE, checkpoint, resume_from=earlier
            )
            if cluster is not None and result.status == "converged":
                cluster.forget()
        if result.status == "converged":
            shutil.rmtree(output / LOADINGS, ignore_errors=True)
        fitting.write_and_tell(result, output, force=force, ask=ask, **about)


@app.command(
    epilog=examples(
        "unmix transform counts-k10 new.npz -o proportions.csv", "unmix transform speeches-k8 new_speeches/ -o new.csv"
    )
)
@reads()
def transform(
    model: options.ModelPath,
    input: InputPath,
    output: options.ProportionsFile,
    missing: options.Missing = None,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Proportions of the topics of a model in new samples.

    Features are found by name, in any order: those unknown to the model are
    left out. Those that INPUT lacks count as 0 if the model is of texts, and
    as not measured otherwise. Text is treated as the model's was.
    """
    from unmix.estimators import from_fit

    show.speak(quiet=quiet, json=json)
    check_file(output, ".csv", ".npy")
    known = fitting.read_model(model)
    if readers.is_shards(input):
        shards = cast("Shards", um.read(input, **reading))
        with show.errors_about(input), writing.adding_to(output.parent):
            found = fitting.write_proportions_of_shards(shards, known, output, missing)
        _tell_applied(input, output, len(shards), known, *found)
        return
    counts = read_counts(input, like=known, **reading)
    with show.errors_about(input):
        matched = matching.match_features(counts, known, missing)
    proportions = matching.proportions_of(from_fit(known), matched)
    with writing.adding_to(output.parent):
        writing.write_proportions(proportions, counts.samples, output, known.labels)
    empty = matched.counts.facts["empty_samples"]
    _tell_applied(input, output, len(counts), known, matched, empty)


def _tell_applied(input: Path, output: Path, n: int, known: Fit, matched: Matched, empty: int) -> None:
    """What became of features and samples when a model was applied to new ones."""
    for note in matched.notes(where=str(input), model="the model"):
        show.note(note)
    if empty:
        show.note(f"{show.plural(empty, 'sample')} without any counts; all topics get the same proportion there")
    show.say(f"wrote {output}: {n:,} samples × {known.n_topics} topics")
    about = {
        "missing_features": matched.missing,
        "unknown_features": matched.unknown,
        "missing": matched.taken,
        "empty_samples": empty,
    }
    show.answer({"output": str(output), "samples": n, "topics": known.n_topics} | about)


@app.command(
    epilog=examples(
        "unmix shard cells.h5ad -o cells.shards --layer counts",
        "unmix shard speeches.jsonl -o speeches.shards --min-df 20",
        "unmix info cells.shards --verify",
    )
)
@reads(TEXTS, METADATA)
def shard(
    input: InputPath,
    output: options.ShardsFolder = None,
    sample: options.Sample = None,
    sample_by: options.SampleBy = None,
    memory: options.ReadMemory = None,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Write counts as shards, which need not fit into memory.

    Broken off, by Ctrl-C, a kill or a full disk, the same command goes on
    after the last finished shard.
    """
    show.speak(quiet=quiet, json=json)
    if output is None:
        output = Path(f"{readers.name_of(input)}.shards")
    progress = Progress(f"samples in {output}") if show.reports() else None
    how: dict[str, Any] = {"sample": sample, "sample_by": sample_by, "progress": progress, "memory": memory}
    try:
        shards = um.shard(input, output, **reading, **how)
    except KeyboardInterrupt:
        show.note(f"interrupted; the same command goes on with what is finished in {output}")
        sys.exit(fitting.INTERRUPTED)
    show.say(f"wrote {output}: {show.described(shards)}, {show.plural(shards.n_shards, 'shard')}")
    show.answer({"output": str(output)} | show.shards_as_json(shards))


@app.command(
    epilog=examples("unmix info cells.h5ad", "unmix info counts-k10 --json", "unmix info cells.shards --verify")
)
@reads()
def info(
    file: Annotated[
        Path,
        typer.Argument(metavar="INPUT|MODEL", help="Counts or text, a model, a fit's folder, or a folder of shards."),
    ],
    verify: Annotated[
        bool, options.reading("--verify", help="Read all of the shards, and check every checksum.")
    ] = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Describe counts, text, shards or a model.

    Of data it also says whether they look like counts.
    """
    show.speak(json=json)
    if file.suffix == ".safetensors" or (file.is_dir() and (file / writing.MODEL_FILE).is_file()):
        known = fitting.read_model(file)
        show.facts(show.describe_fit(known))
        show.topics(known)
        show.answer(show.fit_as_json(known))
        return
    if verify and not readers.is_shards(file):
        raise ValueError(f"{file}: --verify is for folders of shards; leave it out")
    if readers.is_shards(file):
        shards = um.Shards(file)
        if verify:
            with show.working(f"reading all of {file}"):
                shards.verify()
        verified = {"verified": "all of it is as it was written"} if verify else {}
        show.facts({"file": readers.kind_of(file)} | show.describe_shards(shards) | verified)
        show.answer(
            {"kind": readers.kind_of(file)} | show.shards_as_json(shards) | ({"verified": True} if verify else {})
        )
        return
    matrices, obs = anndata_contents(file)
    try:
        counts = read_counts(file, aloud=False, **reading)
    except ValueError as error:
        if not matrices:
            raise
        show.facts({"file": readers.kind_of(file)} | matrices | {"obs": ", ".join(obs) or "no columns"})
        show.note(str(error))
        show.answer({"kind": readers.kind_of(file), "matrices": matrices, "metadata": obs, "problem": str(error)})
        return
    show.facts({"file": readers.kind_of(file)} | show.describe_counts(counts) | matrices)
    more = {"matrices": matrices} if matrices else {}
    show.answer({"kind": readers.kind_of(file)} | show.counts_as_json(counts) | more)


@app.command(
    epilog=examples(
        "unmix report counts-k10",
        "unmix report counts-k10 --title 'Blood cells' -o cells.html",
        "unmix report counts-k10 --names '2=B cells'",
    )
)
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A fit's folder, or its model.safetensors.")],
    output: Annotated[
        Path | None,
        options.results("-o", "--output", metavar="FILE", help="An .html file.", show_default="DIR/report.html"),
    ] = None,
    title: Annotated[
        str | None, options.results(metavar="TEXT", help="Title of the page.", show_default="as before")
    ] = None,
    names: Annotated[
        str | None,
        options.results(
            metavar="NAMES",
            help="Of the topics, for all results in DIR: clock,sun or 2=sun, or a .json or .csv file.",
            show_default="as before",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the page of a fit again, from its folder."""
    show.speak(quiet=quiet, json=json)
    place = folder if folder.is_dir() else folder.parent
    if output is None:
        output = place / "report.html"
    check_file(output, ".html")
    with writing.adding_to(place), writing.adding_to(output.parent):
        known = fitting.read_model(folder)
        if names is not None:
            known = known.with_names(fitting.names_of(names, known))
            failed = fitting.keep_names(known, folder)
        with replacing(output, like=place / writing.MODEL_FILE) as temporary:
            um.write_report(known, temporary, title=title, **fitting.answers_in(place))  # type: ignore[arg-type]
    show.say(f"wrote {output}")
    show.answer({"output": str(output), "bytes": output.stat().st_size})
    if names is not None and failed:
        fitting.tell_failures(failed, folder)
        sys.exit(fitting.INCOMPLETE)


@app.command(epilog=examples("unmix simulate A -o a.npz", "unmix simulate swimmer -o swimmer.npz"))
def simulate(
    name: Annotated[Simulation, typer.Argument(metavar="NAME", help="A, B: correlated topics; swimmer: images.")],
    output: Annotated[Path, options.results("-o", "--output", metavar="FILE", help="A .npz file.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a simulated data set."""
    show.speak(quiet=quiet, json=json)
    check_file(output, ".npz")
    counts = um.datasets.swimmer() if name == "swimmer" else um.datasets.correlated_topics("A" if name == "A" else "B")
    with writing.adding_to(output.parent):
        writing.write_counts(counts, output)
    show.say(f"wrote {output}: {show.described(counts)}")
    show.answer({"output": str(output)} | show.counts_as_json(counts))


def check_file(path: Path, *endings: str) -> None:
    """Whether a result may be written there is known before the work begins."""
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path}: give a name that ends in {' or '.join(endings)}")
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path}: no permission to write in {path.parent}; give another place")
