"""The commands: each parses, calls and writes, and leaves errors to `main`."""

from __future__ import annotations

import os
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmix.cli import show

if TYPE_CHECKING:
    from unmix.counts import Counts
    from unmix.estimators.base import CountsEstimator
    from unmix.fit import Fit

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Take matrices of counts apart into topics.",
)

INTERRUPTED = 130
STARTS = ("auto", "random", "topic-score")
TIME_COLUMNS = ("year", "date", "time")  # a numeric column of this name orders the Structure plot


class Model(StrEnum):
    topics = "topics"
    poisson_nmf = "poisson-nmf"
    sparse = "sparse"
    lda = "lda"
    gamma_poisson = "gamma-poisson"
    bayes = "bayes"
    allocation = "allocation"


ESTIMATORS = {
    Model.topics: "TopicModel",
    Model.poisson_nmf: "PoissonNMF",
    Model.sparse: "SparsePoissonNMF",
    Model.lda: "LDA",
    Model.gamma_poisson: "GammaPoisson",
    Model.bayes: "BayesianPoissonNMF",
    Model.allocation: "AllocationModel",
}


class Simulation(StrEnum):
    A = "A"
    B = "B"
    swimmer = "swimmer"


InputFile = Annotated[Path, typer.Argument(metavar="INPUT", help="Counts, samples × features: .npz, .mtx or .csv.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A fit's folder, or its model.safetensors.")]


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


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the results.")] = Path("sotu-k8"),
) -> None:
    """Fit 8 topics to the State of the Union addresses, 1790-2021, that come with unmix."""
    from unmix.data import datasets
    from unmix.data.write import check_folder

    check_folder(output)
    counts = datasets.sotu()
    show.say(f"State of the Union addresses, 1790–2021: {show.described(counts)}")
    tell_and_write(counts, fitted(estimator_of(Model.topics, n_components=8, random_state=0), counts), output)
    show.say(f"look at {output / 'structure.png'} first: the topics of 232 years at a glance")


@app.command()
def fit(
    input: InputFile,
    topics: Annotated[int, typer.Option("-k", "--topics", min=1, help="Number of topics.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder of the results.", show_default="INPUT-kK")
    ] = None,
    model: Annotated[Model, typer.Option(help="What to fit.")] = Model.topics,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the model, such as alpha=0.1 or alpha=auto."),
    ] = None,
    solver: Annotated[
        str | None, typer.Option(help="newton, scd, ccd, sn, em, joint, plsi or normalized.", show_default="newton")
    ] = None,
    init: Annotated[str, typer.Option(help="auto, random, topic-score, or a model to go on from.")] = "auto",
    refine: Annotated[
        int | None, typer.Option(min=0, help="Split-merge moves to try after convergence.", show_default="0")
    ] = None,
    max_iter: Annotated[int | None, typer.Option(min=1, help="Most iterations.", show_default="the model's")] = None,
    tol: Annotated[
        float | None,
        typer.Option(min=0, help="Stop at a smaller gain per count; 0 for never.", show_default="the model's"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random starts.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads.", show_default="all cores")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that holds other things.")] = False,
) -> None:
    """Fit topics to counts and write a folder of results."""
    from unmix.data.read import ending_of
    from unmix.data.write import check_folder
    from unmix.estimators.likelihood import make_solver

    options = {"solver": solver, "refine": refine, "max_iter": max_iter, "tol": tol}
    options = {name: value for name, value in options.items() if value is not None} | parsed(settings or [])
    estimator = estimator_of(model, n_components=topics, n_jobs=threads, random_state=seed, **options)
    if solver is not None:
        make_solver(solver, extrapolate=True)  # a wrong name is best said before a large file is read
    start = init if init in STARTS else read_model(Path(init), f"--init: choose one of {', '.join(STARTS)}, or a model")
    if output is None:
        stem = input.name[: len(input.name) - len(ending_of(input) or "")]
        output = Path(f"{stem}-k{topics}")
    check_folder(output, force=force)
    counts = read_counts(input)
    try:
        result = fitted(estimator.set_params(init=start), counts)
    except ValueError as error:
        raise ValueError(f"{input}: {error}") from error
    tell_and_write(counts, result, output, force=force)


@app.command()
def transform(
    model: ModelFile,
    input: InputFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="CSV file of the proportions.")],
) -> None:
    """Proportions of the topics of a model in new samples."""
    from unmix.data.match import match_features
    from unmix.data.write import write_proportions
    from unmix.estimators import restored
    from unmix.models.topics import poisson_to_topics

    check_file(output, ".csv")
    known = read_model(model)
    counts = read_counts(input)
    try:
        matched = match_features(counts, known)
    except ValueError as error:
        raise ValueError(f"{input}: {error}") from error
    if matched.missing:
        show.note(f"{show.plural(matched.missing, 'feature')} of the model not in {input}: taken as 0 in every sample")
    if matched.unknown:
        show.note(f"{show.plural(matched.unknown, 'feature')} of {input} unknown to the model: left out")
    if empty := int((matched.counts.sample_totals == 0).sum()):
        show.note(f"{show.plural(empty, 'sample')} without any counts; all topics get the same proportion there")
    estimator = restored(known)
    proportions, *_ = poisson_to_topics(estimator.transform(matched.counts), estimator.components_.T)
    write_proportions(proportions, counts.samples, output)
    show.say(f"wrote {output}: {counts.shape[0]:,} samples × {known.n_topics} topics")


@app.command()
def info(file: Annotated[Path, typer.Argument(help="A data set, a model, or a fit's folder.")]) -> None:
    """Describe a data set or a model."""
    if file.is_dir() or file.suffix == ".safetensors":
        known = read_model(file)
        show.facts(show.describe_fit(known))
        show.topics(known)
    else:
        from unmix.data.read import read

        show.facts(show.describe_counts(read(file)))


@app.command()
def simulate(
    name: Annotated[Simulation, typer.Argument(help="A, B: correlated topics; swimmer: images.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .npz file.")],
) -> None:
    """Write a simulated data set."""
    from unmix.data import datasets
    from unmix.data.write import write_counts

    check_file(output, ".npz")
    counts = datasets.swimmer() if name == "swimmer" else datasets.correlated_topics("A" if name == "A" else "B")
    write_counts(counts, output)
    show.say(f"wrote {output}: {show.described(counts)}")


def read_counts(path: Path) -> Counts:
    from unmix.data.read import read

    with show.working(f"reading {path}"):
        counts = read(path)
    show.say(f"read {path}: {show.described(counts)}")
    return counts


def read_model(path: Path, otherwise: str = "give a fit's folder or its model.safetensors") -> Fit:
    """The model in a file, or in a fit's folder."""
    from unmix.data.write import MODEL_FILE
    from unmix.fit import load

    file = path / MODEL_FILE if path.is_dir() else path
    if not file.is_file():
        problem = f"a folder without {MODEL_FILE}" if path.is_dir() else "no such file"
        raise ValueError(f"{path}: {problem}; {otherwise}")
    return load(file)


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


def parsed(settings: list[str]) -> dict[str, Any]:
    """["alpha=0.1", "method=gibbs"] as parameters: numbers where they are numbers, lists of them where there are commas."""
    parameters: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"--set {setting}: give a parameter and its value, such as alpha=0.1")
        values = [_value(part) for part in text.split(",")]
        parameters[name] = values if len(values) > 1 else values[0]
    return parameters


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def estimator_of(model: Model, **parameters: Any) -> CountsEstimator:
    """The estimator behind a name, or an error that says which parameters it has."""
    from unmix import estimators

    kind = getattr(estimators, ESTIMATORS[model])
    known = kind().get_params()
    if unknown := [name for name in parameters if name not in known]:
        choice = ", ".join(
            sorted(set(known) - {"callbacks", "init", "n_components", "n_jobs", "random_state", "verbose"})
        )
        raise ValueError(f"--model {model} has no parameter {unknown[0]}; it has {choice}")
    return kind(**parameters, verbose=sys.stdout.isatty())


def fitted(estimator: CountsEstimator, counts: Counts) -> Fit:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told later, in the words of the command line
        return estimator.fit(counts).result_


def tell_and_write(counts: Counts, result: Fit, output: Path, *, force: bool = False) -> None:
    """Show the topics and write the folder. A fit ended by Ctrl-C is written too, and leaves with 130."""
    from unmix.data.write import write_fit

    show.topics(result)
    show.say(show.outcome(result))
    for text in result.advice():
        show.note(text)
    write_fit(result, output, pictures={"structure.png": lambda path: draw_structure(result, path)}, force=force)
    show.say(f"wrote {output}{os.sep}")
    if result.status == "interrupted":
        show.note(f"kept the best fit so far; go on from it with --init {output}")
        sys.exit(INTERRUPTED)


def draw_structure(fit: Fit, path: Path) -> None:
    from pandas.api.types import is_numeric_dtype

    from unmix.plot.structure import structure

    columns = [] if fit.metadata is None else [name for name in fit.metadata if is_numeric_dtype(fit.metadata[name])]
    order = next((name for name in columns if str(name).lower() in TIME_COLUMNS), None)
    figure = structure(fit, order=order).figure.canvas.figure
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a font without the letter: the tables have it
        figure.savefig(path, dpi=150)
