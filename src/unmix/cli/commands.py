"""The commands: each parses, calls and writes, and leaves errors to `main`."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

import unmix as um
from unmix.base.checks import ParameterError
from unmix.base.memory import IN_MEMORY, gigabytes
from unmix.base.memory import parsed as parsed_memory
from unmix.cli import fitting, options, show
from unmix.cli.analyses import INCOMPLETE, INTERRUPTED, check_file, is_model, numbers_in, read_counts, results_in
from unmix.cli.options import PREPARE, START, USE, WORD_OPTIONS, InputPath, Json, Quiet, command, into, results
from unmix.cli.show import matching, readers, writing
from unmix.registry import ANALYSES, STARTS
from unmix.storage.files import replacing

if TYPE_CHECKING:
    from unmix.counts.counts import Counts
    from unmix.counts.shards import Shards

LOADINGS = ".loadings"  # in the folder of results, what a fit of shards keeps on disk while it runs
ASKABLE = {row.name: row for row in ANALYSES.values() if row.asks_fit}
USUAL = ("differences", "stability")  # of these, what --help shows
FURTHER = {
    name: options.option_of(name, False, "bool", row.summary, options.QUESTIONS, hidden=name not in USUAL)
    for name, row in ASKABLE.items()
}


@command(START, "unmix demo")
def demo(
    output: Annotated[Path, into(metavar="DIR", help="Folder of the results.", default="sotu-k8")] = Path("sotu-k8"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit the included State of the Union addresses.

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


@command(
    START,
    "unmix fit counts.npz -k 10",
    "unmix fit cells.h5ad -k 12 --layer counts --refine 4 -o cells",
    "unmix fit speeches/ -k 8 --min-df 5 --ngrams 2",
    "unmix fit counts.npz -k 10 --model lda --set alpha=auto --set eta=0.1",
    reads=(),
    more=FURTHER,
)
def fit(
    input: InputPath,
    n_components: options.TopicsOrNew = None,
    model: options.Model = "topics",
    settings: options.Settings = None,
    solver: options.Solver = None,
    init: options.Init = "auto",
    n_init: options.Starts = None,
    refine: options.Refine = None,
    known: options.Known = None,
    known_weight: options.KnownWeight = None,
    new: options.New = None,
    seeds: options.Seeds = None,
    allowed: options.Allowed = None,
    batch: options.Batch = None,
    batch_prior: options.BatchPrior = None,
    opportunities: options.Opportunities = None,
    covariates: options.Covariates = None,
    max_iter: options.MaxIter = None,
    tol: options.Tol = None,
    random_state: options.Seed = 0,
    n_jobs: options.Jobs = None,
    memory: options.Memory = None,
    dask: options.DaskCluster = None,
    resume: options.Resume = False,
    checkpoint_interval: options.CheckpointInterval = 60,
    stability_runs: Annotated[
        int, options.questions(metavar="N", min=2, help="Fits of --stability.", hidden=True)
    ] = 20,
    output: options.FitFolder = None,
    title: options.Title = None,
    force: options.Force = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    more: dict[str, Any],
    reading: dict[str, Any],
) -> None:
    """Fit topics to counts or text, and write a folder of results.

    The folder has report.html (an interactive report), a figure, tables and the model. Ctrl-C keeps the best fit so
    far; --resume continues it.
    """
    from unmix.analysis.application import fit_of
    from unmix.estimators.likelihood import make_solver
    from unmix.io.read.names import writable_name

    show.speak(quiet=quiet, json=json)
    given = {"solver": solver, "n_init": n_init, "refine": refine, "max_iter": max_iter, "tol": tol}
    given |= {"batch_prior": batch_prior, "prevalence": covariates}
    given |= {"known_weight": known_weight, "new": new}
    given |= {"known": None if known is None else str(known), "seeds": None if seeds is None else str(seeds)}
    n_components = fitting.number_of_topics(n_components, known, new)
    parameters = {name: value for name, value in given.items() if value is not None}
    parameters |= fitting.parameters_in(settings or []) | {"n_jobs": n_jobs, "random_state": random_state}
    estimator = fitting.estimator_of(model, n_components=n_components, **parameters)
    if dask is not None:
        fitting.check_cluster(dask)
    if solver is not None:
        make_solver(solver, extrapolate=True)  # a wrong name is best said before a large file is read
    start = init if init in STARTS else fit_of(init, f"--init: choose one of {', '.join(STARTS)}, or a model")
    if output is None:
        output = Path(f"{readers.name_of(input)}-k{n_components}")
    writing.check_folder(output, force=force)
    fitting.check_stays(output, input, opportunities, reading.get("metadata"))
    room = None if memory is None else parsed_memory(memory)
    python, counts = counts_or_shards(input, reading, room)
    fitting.require_counts(counts, input, force=force)
    with show.errors_about(input):
        counts = fitting.multiplied(estimator, counts, batch, opportunities, allowed)
    asked = [row for name, row in ASKABLE.items() if more[name]]
    held = known is not None and known_weight in (None, float("inf"))
    fitting.check_askable(asked, counts, n_components, held=held)
    fitting.check_replaced(output, counts, python, force=force or resume)
    estimator.set_params(init=start)
    about = {"source": writable_name(input.name), "title": title or readers.name_of(input), "python": python}
    runs = {"stability": {"runs": stability_runs}}
    ask = partial(fitting.answers_to, rows=asked, counts=counts, estimator=estimator, given=runs)
    with writing.claim(output):
        earlier = fitting.to_resume_in(output, estimator, counts) if resume else None
        engine = um.engines.Local(room, output / LOADINGS)
        with show.errors_about(input), engine, fitting.on_cluster(dask, counts) as cluster:
            result = fitting.fitted(
                estimator, counts, output / writing.CHECKPOINT_FILE, checkpoint_interval, resume_from=earlier
            )
            if cluster is not None and result.status == "converged":
                cluster.forget()
        if result.status == "converged":
            shutil.rmtree(output / LOADINGS, ignore_errors=True)
        fitting.write_and_tell(result, output, force=force, rows=asked, ask=ask, **about)


@command(
    START,
    "unmix path counts.npz -k 2-12",
    "unmix path cells.h5ad -k 5,10,20 --layer counts -o cells-path",
    "unmix align cells-path/k5 cells-path/k10 cells-path/k20",
    reads=(),
)
def path(
    input: InputPath,
    topics: options.Numbers = "1-10",
    model: options.Model = "topics",
    settings: options.Settings = None,
    random_state: options.Seed = 0,
    n_jobs: options.Jobs = None,
    resume: options.Resume = False,
    output: Annotated[Path | None, into(metavar="DIR", help="Folder of the fits.", default="INPUT-path")] = None,
    force: options.Force = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Fit several numbers of topics, for little more than one.

    The largest fit is made first; each of the others starts from the next larger one, with its closest topics merged. DIR has
    a folder for each (k2, k3, …), as unmix fit writes it, and a table, path.csv. unmix align shows how their topics are
    related; unmix choose compares their predictions. Ctrl-C keeps finished fits; --resume continues.
    """
    from unmix.io.read.names import writable_name

    show.speak(quiet=quiet, json=json)
    numbers = numbers_in(topics)
    parameters = fitting.parameters_in(settings or []) | {"n_jobs": n_jobs, "random_state": random_state}
    estimator = fitting.estimator_of(model, **parameters)
    folder = output or Path(f"{readers.name_of(input)}-path")
    kept = (fitting.PATH_FILE, *(f"k{K}/{writing.MODEL_FILE}" for K in numbers))
    writing.check_folder(folder, force=force, files=kept)
    fitting.check_stays(folder, input, reading.get("metadata"))
    counts = read_counts(input, **reading)
    fitting.require_counts(counts, input, force=force)
    python = in_python("um.read", [input], reading)
    about = {"source": writable_name(input.name), "title": readers.name_of(input), "python": python}
    with writing.claim(folder), show.errors_about(input):
        folder.mkdir(parents=True, exist_ok=True)
        if resume and not any((folder / name).is_file() for name in kept):
            show.note(f"nothing to resume in {folder}; starting again")
        table = fitting.write_path(estimator, counts, numbers, folder, resume=resume, **about)
    show.table(table)
    show.say(f"wrote {folder}{os.sep}")
    show.answer({"output": str(folder), "fits": show.rows(table)})


@command(
    USE,
    "unmix transform counts-k10 new.npz -o proportions.csv",
    "unmix transform speeches-k8 new_speeches/ -o new.csv",
    reads=(*WORD_OPTIONS, "snippets", "metadata"),
)
def transform(
    model: options.ModelPath,
    input: InputPath,
    output: Annotated[Path, into(metavar="FILE", help="A .csv file, or .npy for many samples.")],
    missing: options.Missing = None,
    batch: options.Batch = None,
    opportunities: options.Opportunities = None,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Proportions of the topics of a model in new samples.

    Features are matched by name, in any order: those unknown to the model are
    ignored. Those that INPUT lacks count as 0 if the model is of texts, and
    as not measured otherwise. Text is treated as the model's was. How well
    each sample fits the model is written to NAME-fit.csv.
    """
    from unmix.analysis.application import fit_of
    from unmix.estimators import from_fit

    show.speak(quiet=quiet, json=json)
    for file in (output, writing.fit_beside(output)):
        check_file(file, ".csv", ".npy", reads=[input, opportunities, reading.get("metadata")])
    known = fit_of(model)
    table = None if opportunities is None else fitting.opportunities_in(opportunities)
    data = um.read(input, **reading) if readers.is_shards(input) else read_counts(input, like=known, **reading)
    with show.errors_about(input), writing.adding_to(output.parent):
        data = from_fit(known)._multiplied_as_in_fit(data, batch, table)
        matched, empty, explained = fitting.write_proportions(data, known, output, missing)
    for note in matched.notes(where=str(input), model="the model"):
        show.note(note)
    if empty:
        show.note(f"{show.plural(empty, 'sample')} without any counts; all topics get the same proportion there")
    for doubt in (doubts := matching.doubts(known, explained, "the model")):
        show.note(doubt)
    beside, n = writing.fit_beside(output), data.shape[0]
    show.say(f"wrote {output}: {n:,} samples × {known.n_topics} topics; {beside.name}: how well each fits")
    about = {"output": str(output), "samples": n, "topics": known.n_topics, "goodness_of_fit": str(beside)}
    about |= {"fits": not doubts, "missing_features": matched.missing, "unknown_features": matched.unknown}
    show.answer(about | {"missing": matched.taken, "empty_samples": empty})


@command(
    PREPARE,
    "unmix shard cells.h5ad -o cells.shards --layer counts",
    "unmix shard speeches.jsonl -o speeches.shards --min-df 20",
    "unmix info cells.shards --verify",
    reads=("snippets",),
)
def shard(
    input: InputPath,
    output: Annotated[Path | None, into(metavar="DIR", help="Folder of the shards.", default="INPUT.shards")] = None,
    sample: Annotated[
        int | None, results(min=1, metavar="N", help="Samples that fits start from, in memory.", default="16384")
    ] = None,
    sample_by: Annotated[
        str | None, results(metavar="COLUMN", help="Metadata column; draw the same number of samples per label.")
    ] = None,
    memory: Annotated[str | None, results(metavar="SIZE", help="Memory limit while reading, such as 1GB.")] = None,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Write counts as shards, which need not fit into memory.

    After an interruption (Ctrl-C, a kill or a full disk) the same command continues
    after the last finished shard.
    """
    show.speak(quiet=quiet, json=json)
    if output is None:
        output = Path(f"{readers.name_of(input)}.shards")
    how: dict[str, Any] = {"sample": sample, "sample_by": sample_by, "memory": memory, "verbose": show.reports()}
    try:
        shards = um.shard(input, output, **reading, **how)
    except KeyboardInterrupt:
        show.note(f"interrupted; the same command continues after the finished shards in {output}")
        sys.exit(INTERRUPTED)
    show.say(f"wrote {output}: {show.described(shards)}, {show.plural(shards.n_shards, 'shard')}")
    show.say_reading(shards)
    show.answer({"output": str(output)} | show.data_as_json(shards))


@command(
    USE,
    "unmix info cells.h5ad",
    "unmix info counts-k10 --json",
    "unmix info cells.shards --verify",
    reads=(*WORD_OPTIONS, "snippets", "metadata"),
)
def info(
    file: Annotated[
        Path, typer.Argument(metavar="INPUT|MODEL", help="Counts or text, shards, a fit's folder or model.")
    ],
    verify: Annotated[bool, results("--verify", help="Read all of the shards, and check every checksum.")] = False,
    json: Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Describe counts, text, shards or a model.

    For data it also reports whether they look like counts.
    """
    from unmix.analysis.application import fit_of

    show.speak(json=json)
    if is_model(file):
        known = fit_of(file)
        show.facts(show.describe_fit(known))
        show.topics(known)
        show.answer(show.fit_as_json(known))
        return
    shards, matrices, obs, verified = readers.is_shards(file), dict[str, str](), list[str](), {}
    if verify and not shards:
        raise ParameterError("verify", True, f"{file} is not a folder of shards; remove it")
    kind = readers.kind_of(file)
    if verify:
        with show.working(f"reading all of {file}"):
            um.Shards(file).verify()
        verified = {"verified": "all of it is as it was written"}
    if not shards:
        with suppress(ValueError, OSError, KeyError, MemoryError):  # `read` will say what is wrong
            matrices, obs = readers.contents(file)
    try:
        data = um.Shards(file) if shards else read_counts(file, say=False, **reading)
    except ValueError as error:
        if not matrices:
            raise
        show.facts({"file": kind} | matrices | {"obs": ", ".join(obs) or "no columns"})
        show.note(str(error))
        show.answer({"kind": kind, "matrices": matrices, "metadata": obs, "problem": str(error)})
        return
    show.facts({"file": kind} | show.describe_data(data) | matrices | verified)
    more = {"matrices": matrices} if matrices else {"verified": True} if verified else {}
    show.answer({"kind": kind} | show.data_as_json(data) | more)


@command(
    USE,
    "unmix report counts-k10",
    "unmix report counts-k10 --title 'Blood cells' -o cells.html",
    "unmix report counts-k10 --names '2=B cells'",
)
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A fit's folder, or its model.safetensors.")],
    output: Annotated[Path | None, into(metavar="FILE", help="An .html file.", default="DIR/report.html")] = None,
    title: Annotated[str | None, results(metavar="TEXT", help="Title of the report.", default="as before")] = None,
    names: Annotated[
        str | None,
        results(
            metavar="NAMES",
            help="Topic names: a list (clock,sun), pairs (2=sun), or a .json or .csv file.",
            default="as before",
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Rebuild report.html from the folder of a fit."""
    from unmix.analysis.application import fit_of

    show.speak(quiet=quiet, json=json)
    place = folder if folder.is_dir() else folder.parent
    if output is None:
        output = place / "report.html"
    check_file(output, ".html", own=output.parent.resolve() == place.resolve())
    with writing.adding_to(place), writing.adding_to(output.parent):
        known = fit_of(folder)
        if names is not None:
            known = known.with_names(fitting.names_of(names, known))
            failed = fitting.keep_names(known, folder)
        with replacing(output, like=place / writing.MODEL_FILE) as temporary:
            um.write_report(known, temporary, title=title, **results_in(place))  # type: ignore[arg-type]
    show.say(f"wrote {output}")
    show.answer({"output": str(output), "bytes": output.stat().st_size})
    if names is not None and failed:
        fitting.tell_failures(failed, folder)
        sys.exit(INCOMPLETE)


@command(PREPARE, "unmix simulate A -o a.npz", "unmix simulate swimmer -o swimmer.npz")
def simulate(
    name: Annotated[
        Literal["A", "B", "swimmer"], typer.Argument(metavar="NAME", help="A, B: correlated topics; swimmer: images.")
    ],
    output: Annotated[Path, into(metavar="FILE", help="A .npz file.")],
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
    show.answer({"output": str(output)} | show.data_as_json(counts))


# What INPUT is


def counts_or_shards(path: Path, reading: dict[str, Any], allowed: float | None) -> tuple[str, Counts | Shards]:
    """What to fit, and the call in Python that reads it: a folder of shards as it is, and a file whose fit would need more
    memory than `allowed` (16 GB by default) as shards of it, made in the current folder. Free memory has no say: fits of
    counts and of shards are two algorithms."""
    if readers.is_shards(path):
        shards = cast("Shards", um.read(path, **reading))
        show.say(f"opened {path}: {show.described(shards)}, {show.plural(shards.n_shards, 'shard')}")
        return in_python("um.read", [path], reading), shards
    options = {name: value for name, value in reading.items() if name != "snippets"}
    most = IN_MEMORY if allowed is None else allowed
    known = {name: value for name, value in options.items() if name != "metadata"}
    needed, folder = readers.memory_for(path, **known), Path(f"{readers.name_of(path)}.shards")
    if needed is None or needed <= most:
        return in_python("um.read", [path], reading), read_counts(path, **reading)
    show.say(
        f"a fit of {path} in memory would need {gigabytes(needed)}, more than {gigabytes(most)}: making shards of it, {folder}"
    )
    if reading["snippets"]:
        show.note("shards keep no beginnings of texts: --snippets is ignored")
    shards = um.shard(path, folder, memory=allowed, verbose=show.reports(), **options)
    show.say(f"wrote {folder}: {show.described(shards)}, {show.plural(shards.n_shards, 'shard')}")
    show.say_reading(shards)
    return in_python("um.shard", [path, folder], options), shards


def in_python(function: str, paths: list[Path], reading: dict[str, Any]) -> str:
    """The call that gives the same counts; options at their defaults are omitted."""
    words = {name: str(value) if isinstance(value, Path) else value for name, value in reading.items()}
    given = [f"{name}={value!r}" for name, value in words.items() if value != getattr(um.ReadOptions, name, None)]
    return f"{function}({', '.join([*(repr(str(path)) for path in paths), *given])})"
