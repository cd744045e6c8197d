"""Commands and their options. A command is a function with `@command`; options that Python has too follow from signatures and
docstrings, by one vocabulary (`NAMES`). Only the command that runs is built in full: the others would be imported for nothing.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from rich.markup import escape
from typer import rich_utils
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import unmix as um
from unmix.base.checks import ParameterError
from unmix.registry import SOLVERS, STARTS, WORDS

Options = dict[str, inspect.Parameter]
rich_utils.RANGE_STRING = rich_utils.REQUIRED_LONG_STRING = ""  # errors say it, and help has space for words
PANELS = START, ASK, USE, PREPARE = "Get started", "Analyse", "Use a fit", "Prepare data"

# Options stand in these panels of the help, a line each where space permits; those that few users need are in --help-all.
FITTING, ASKING, RESULTS = "Model", "Analysis", "Running and results"
QUESTIONS, READING, TEXTS = "Additional analyses", "Reading INPUT", "Text input"


def _option(panel: str, *names: str, help: str, default: str = "", metavar: str = "", **how: Any) -> Any:
    text = escape(f"{help} [{default}]" if default else help)
    return typer.Option(*names, help=text, metavar=metavar, show_default=False, rich_help_panel=panel, **how)


fitting, asking = partial(_option, FITTING), partial(_option, ASKING)
questions, results = partial(_option, QUESTIONS), partial(_option, RESULTS)
rarely = partial(_option, FITTING, hidden=True)

# Parameters of Python whose options have other names. All others are called as in Python, with hyphens.
NAMES = {
    "n_components": ("-k", "--n-components"),
    "topics": ("-k", "--topics"),
    "n_jobs": ("--n-jobs", "--threads"),
    "random_state": ("--seed", "--random-state"),
    "checkpoint": ("--resume",),
    "output": ("-o", "--output"),
    "quiet": ("-q", "--quiet"),
    "settings": ("--set",),
    "X": ("--counts",),
}

into = partial(results, *NAMES["output"])

# Typer does not export the base of its usage errors, and its place depends on the version.
UsageError: Any = typer.BadParameter.__bases__[0]
InputPath = Annotated[Path, typer.Argument(metavar="INPUT", help="Counts or text: .npz .h5ad .csv .txt …, shards.")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A fit's folder, or its model.safetensors.")]
OtherPath = Annotated[Path, typer.Argument(metavar="OTHER", help="Another fit, or a catalogue: .csv .tsv .txt.")]
ModelPaths = Annotated[list[Path], typer.Argument(metavar="MODEL MODEL…", help="Folders of fits, or their models.")]
Topics = Annotated[int, fitting(*NAMES["n_components"], metavar="K", min=1, help="Number of topics.")]
TopicsOrNew = Annotated[
    int | None, fitting(*NAMES["n_components"], metavar="K", min=1, help="Number of topics.", default="needed")
]
Numbers = Annotated[
    str,
    fitting(*NAMES["topics"], metavar="NUMBERS", help="Numbers of topics to try, such as 1-12,16,20.", default="1-20"),
]
Model = Annotated[str, fitting(metavar="NAME", help=f"{', '.join(WORDS)}.")]
Settings = Annotated[
    list[str] | None, fitting(*NAMES["settings"], metavar="P=VALUE", help="Parameter of the model: alpha=auto.")
]
Solver = Annotated[str | None, rarely(metavar="NAME", help=f"Algorithm: {', '.join(SOLVERS)}.", default="newton")]
Init = Annotated[str, rarely(metavar="START", help=f"{', '.join(STARTS)} or a model.")]
Starts = Annotated[
    int | None, rarely(metavar="N", min=1, help="Number of initialisations; the best fit is kept.", default="1")
]
Refine = Annotated[
    int | None, rarely(metavar="N", min=0, help="Split-merge moves to try after convergence.", default="0")
]
Batch = Annotated[str | None, rarely(metavar="COLUMN", help="Column of batches, whose effects are estimated.")]
BatchPrior = Annotated[
    float | None, rarely(metavar="NUMBER", min=0, help="Strength of the prior of effects.", default="learned")
]
Known = Annotated[Path | None, rarely(metavar="FILE", help="Known topics, features × topics, or a model.")]
KnownWeight = Annotated[
    float | None,
    rarely(metavar="COUNTS", min=0, help="Counts that known topics are worth.", default="held as they are"),
]
New = Annotated[
    int | None, rarely(metavar="N", min=1, help="New topics in addition to all of --known, in place of -k.")
]
Seeds = Annotated[Path | None, rarely(metavar="FILE", help="Words of topics: .yaml .csv .gmt.")]
Allowed = Annotated[str | None, rarely(metavar="COLUMN", help="Column of labels that name the topic of a sample.")]
Opportunities = Annotated[Path | None, rarely(metavar="FILE", help="Table of multipliers of rates, a row per label.")]
Seed = Annotated[
    int, results(*NAMES["random_state"], metavar="N", min=0, help="Seed of the random numbers.", default="0")
]
MaxIter = Annotated[int | None, results(metavar="N", min=1, help="Maximum number of iterations.")]
Covariates = Annotated[
    str | None,
    fitting(
        metavar="FORMULA", help="Covariates of the prior of gamma-poisson, such as '~ party + s(year)'.", hidden=True
    ),
]
Tol = Annotated[
    float | None, results(metavar="GAIN", min=0, help="Remaining gain per count below which to stop.", hidden=True)
]
Resume = Annotated[bool, results(*NAMES["checkpoint"], help="Resume an interrupted run.")]
CheckpointInterval = Annotated[
    float, results(metavar="SECONDS", min=0, help="Time between two checkpoints.", hidden=True)
]
Jobs = Annotated[
    int | None, results(*NAMES["n_jobs"], metavar="N", min=1, help="Number of threads.", default="all cores")
]
Memory = Annotated[str | None, results(metavar="SIZE", help="Memory limit; larger data become shards.", default="16GB")]
ON_DASK = "Dask cluster to fit shards on: tcp://…, tls://…, a scheduler file, or local:N for N processes."
DaskCluster = Annotated[str | None, results(metavar="ADDRESS", help=ON_DASK, default="this machine", hidden=True)]
Missing = Annotated[
    Literal["unmeasured", "zero"] | None,
    asking(help="Features missing from INPUT: unmeasured or zero.", default="zero for texts"),
]
FitFolder = Annotated[Path | None, into(metavar="DIR", help="Folder of the results.", default="INPUT-kK")]
Outputs = Annotated[list[Path] | None, into(metavar="DIR|FILE", help="Folder, or files: .csv .png .html …")]
Title = Annotated[str | None, results(metavar="TEXT", help="Title of the report.", default="INPUT", hidden=True)]
Force = Annotated[bool, results("--force", help="Replace another fit; fit values that are not counts.")]
ForceBeside = Annotated[bool, results("--force", help="Write into a folder with other files.")]
Json = Annotated[bool, results("--json", help="Print JSON, and progress as JSON.")]
Quiet = Annotated[bool, results("--quiet", "-q", help="Print only warnings and errors.")]


# From signatures and docstrings to options


def documented(thing: Any) -> dict[str, tuple[str, str]]:
    """The parameters in a numpydoc docstring: the type of each, and the first sentence about it."""
    text = inspect.cleandoc(thing.__doc__ or "").partition("Parameters\n----------\n")[2]
    entries = re.findall(r"^(\w+) : (.*)\n((?:    .*\n?)+)", re.split(r"\n\n\w[\w ]*\n---", text)[0] + "\n", re.M)
    return {name: (kind, _first_sentence(" ".join(body.split()))) for name, kind, body in entries}


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s+(?=[A-Z`“\"0-9])", text)[0].replace("`", "")


def option_of(name: str, default: Any, kind: str, text: str, panel: str, *, hidden: bool = False) -> inspect.Parameter:
    """The option of a parameter. Its value becomes a number where the type allows numbers; `value_of` reads the rest."""
    words = set(re.findall(r"[\w-]+", kind.partition(", default=")[0])) - {"default"}
    shown: dict[str, Any] = {"help": text, "hidden": hidden}
    names = NAMES.get(name, (f"--{name.replace('_', '-')}",))
    if words == {"bool"}:
        both = names if default is False else [f"{names[0]}/--no-{names[0][2:]}"]
        return _parameter(name, default, bool | None if default is None else bool, _option(panel, *both, **shown))
    numbers = {"int": int, "float": float}
    python = numbers.get(next(iter(words)), str) if len(words) == 1 else str
    metavar = {int: "N", float: "NUMBER"}.get(python, "FILE" if "PathLike" in words else "VALUE")
    usual = default if isinstance(default, int | float | str) else None
    shown |= {"default": "" if usual is None else str(usual), "metavar": metavar}
    usual = usual if python is not str or usual is None else str(usual)
    if default is inspect.Parameter.empty:
        return _parameter(name, default, python, _option(panel, *names, **shown))
    return _parameter(name, usual, python if usual is not None else python | None, _option(panel, *names, **shown))


def _parameter(name: str, default: Any, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def value_of(name: str, text: Any, kind: str) -> Any:
    """What a user typed, as Python takes it: numbers, lists of them, true, false, none."""
    words = set(re.findall(r"[\w-]+", kind.partition(", default=")[0]))
    if not isinstance(text, str) or not words & {"int", "float", "None", "list", "tuple", "array-like", "bool"}:
        return text
    value = parsed(text) if not {"str", "PathLike"} & words or "," not in text else text
    if words <= {"int", "float", "or"} and not isinstance(value, int | float):
        raise ParameterError(name, text, f"use {'a whole number' if 'float' not in words else 'a number'}")
    return tuple(value) if isinstance(value, list) and "tuple" in words else value


def parsed(text: str) -> Any:
    """
    >>> parsed("0.1"), parsed("auto"), parsed("1,2"), parsed("none")
    (0.1, 'auto', [1, 2], None)
    """
    if "," in text:
        return [parsed(part) for part in text.split(",")]
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


WORD_OPTIONS = ("min_df", "max_df", "stop_words", "ngrams", "phrases")  # those of a model are known
TEXT_OPTIONS = ("text_column", "id_column", "title_column", "encoding", "skip_bad", "snippets", *WORD_OPTIONS)


def reading_options(without: Iterable[str] = ()) -> Options:
    """Those of `unmix.ReadOptions`, and the file of metadata."""
    known = documented(um.ReadOptions)
    own = {field.name: field.default for field in fields(um.ReadOptions)}
    options = {
        name: option_of(name, own[name], *known[name], TEXTS if name in TEXT_OPTIONS else READING, hidden=True)
        for name in own.keys() - {"like", *without}
        if "callable" not in known[name][0]
    }
    text = "Table with one row per sample, .csv or .tsv, found by name."
    options["metadata"] = option_of("metadata", None, "PathLike", text, READING, hidden=True)
    return {name: options[name] for name in ["layer", *sorted(options.keys() - {"layer"})]}


def read_words(given: dict[str, Any]) -> dict[str, Any]:
    """The reading options among what was given, taken out of it, as `unmix.read` takes them."""
    known = documented(um.ReadOptions) | {"metadata": ("PathLike", "")}
    return {name: value_of(name, given.pop(name), known[name][0]) for name in list(given) if name in known}


# Commands


@dataclass(frozen=True)
class Command:
    """What the list of commands shows of one, and what builds it in full."""

    panel: str
    help: str
    build: Callable[[], Callable[..., None]]
    examples: tuple[str, ...] = ()


COMMANDS: dict[str, Command] = {}


def command(panel: str, *examples: str, reads: Iterable[str] | None = None, more: Options | None = None) -> Any:
    """A function that is a command. With `reads`, it has the options of INPUT but for these, and gets them as `reading`; it
    gets `more` options as `more`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def build() -> Callable[..., None]:
            return with_options(function, {} if reads is None else reading_options(reads), more or {})

        text = (function.__doc__ or "").partition("\n\n")[0]
        COMMANDS[function.__name__] = Command(panel, text, build, examples)
        return function

    return decorate


def with_options(function: Callable[..., None], reading: Options, more: Options) -> Callable[..., None]:
    """A function with further options, which it gets as the dictionaries `reading` and `more`."""

    @wraps(function)
    def run(**given: Any) -> None:
        extra = {"more": {name: given.pop(name) for name in more}} if more else {}
        extra |= {"reading": read_words(given)} if reading else {}
        function(**given, **extra)

    own, hints = inspect.signature(function).parameters, get_type_hints(function, include_extras=True)
    parameters = [one.replace(annotation=hints[name]) for name, one in own.items() if name not in ("reading", "more")]
    parameters += [*more.values(), *reading.values()]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


class Program(TyperGroup):
    """All commands; its --help has no type."""

    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""
        return option


class Documented(TyperCommand):
    """A command whose --help shows what most users need, and --help-all everything."""

    def __init__(self, *given: Any, **how: Any) -> None:
        super().__init__(*given, **how)
        for param in filter(lambda param: param.param_type_name == "argument", self.params):
            vars(param)["display_type_rich"] = lambda ctx: None  # its name and its help say what it is
            vars(param)["get_usage_pieces"] = lambda ctx, word=param.metavar: [word]

    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)
        if option is not None:
            option.rich_help_panel, option.help, option.metavar = RESULTS, "Show this; more with --help-all.", ""
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help-all" in args:
            for param in self.params:
                param.hidden = False  # type: ignore[attr-defined]
            args = ["--help"]
        return super().parse_args(ctx, args)


def program(wanted: str | None = None) -> Any:
    """All commands: one of them, or all where none is named, with their options."""
    app = typer.Typer(
        cls=Program,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="Factorise matrices of counts into topics. Start with: unmix demo",
        epilog="\b\nunmix COMMAND --help shows its options.\nunmix --install-completion enables completion in your shell.",
    )
    app.callback()(_unmix)
    for name, known in sorted(COMMANDS.items(), key=lambda one: PANELS.index(one[1].panel)):
        whole = wanted in (None, name)
        function = known.build() if whole else _nothing
        epilog = escape("\n".join(["\b", "Examples:", *known.examples]))
        paragraphs = (inspect.getdoc(function) or "").split("\n\n") if whole else [known.help]
        text = escape("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))
        app.command(name, help=text, epilog=epilog, cls=Documented, rich_help_panel=known.panel)(function)
    group = get_command(app)
    for param in group.params:
        param.hidden, param.metavar = "completion" in str(param.name), ""  # type: ignore[attr-defined]
    return group


def _nothing() -> None:
    pass


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unmix {um.__version__}")
        raise typer.Exit


def _unmix(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass
