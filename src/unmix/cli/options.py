"""What --help says: commands in groups by what people want to do, so that all of them fit a screen, and options likewise, a line
each where there is room. Typer's own help draws a frame around each group and a column for types, which takes twice the lines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

import unmix as um
from unmix.base.memory import IN_MEMORY, gigabytes
from unmix.cli import show
from unmix.cli.fitting import Model
from unmix.cli.show import readers
from unmix.registry import SOLVERS, STARTS, WORDS

if TYPE_CHECKING:
    from unmix.counts.counts import Counts
    from unmix.counts.shards import Shards

# Commands by what people want to do; every command is in one of these groups.
COMMANDS = {
    "Start here": ("demo", "fit", "choose"),
    "Use a fit": ("info", "report", "transform"),
    "Ask a fit": ("differences", "stability", "freedom", "intervals", "compare", "align"),
    "Prepare data": ("shard", "simulate"),
}
# Options by what they decide, in this order.
GROUPS = (
    *("What to fit", "How to ask", "Where it stops", "What it may take", "How to read INPUT", "If INPUT is text"),
    *("Further questions", "Results"),
)
MOST_OF_NAMES = 26  # columns
WIDEST = 110  # columns; longer lines are hard to read

Rows = Sequence[tuple[str, str]]


class Command(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Usage, what the command does, arguments, options by group, examples."""
        params: list[Any] = [param for param in self.get_params(ctx) if not getattr(param, "hidden", False)]
        arguments = [param for param in params if param.param_type_name == "argument"]
        needed = [param for param in params if param.param_type_name == "option" and param.required]
        usage = [*map(_metavar, arguments), *(f"{param.opts[0]} {_metavar(param)}" for param in needed)]
        _print(Text("Usage: ", style="bold") + Text(" ".join([ctx.command_path, *usage, "[options]"])))
        for paragraph in inspect.cleandoc(self.help or "").split("\n\n"):
            _print(Text(), Text(" ".join(paragraph.split())))
        _print(Text())
        _section("", [(_metavar(param), param.help or "") for param in arguments])
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for param in params:
            if param.param_type_name == "option" and param.name != "help":
                groups[param.rich_help_panel].append((_names(param), _told(param)))
        widest = max(len(name) for rows in groups.values() for name, _ in rows)
        for title, rows in groups.items():
            _section(title, rows, widest)
        if self.epilog:
            _print(Text("Examples", style="bold"))
            for line in self.epilog.splitlines():
                show.console().print(Text(f"  {line}"), soft_wrap=True)


class Commands(TyperGroup):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        """All commands, a line each."""
        widest = max(map(len, self.commands))
        _print(Text("Usage: ", style="bold") + Text(f"{ctx.command_path} COMMAND …     {self.help}"))
        for title, names in COMMANDS.items():
            _section(title, [(name, _first_sentence(self.commands[name].help or "")) for name in names], widest)
        _print(
            Text(),
            Text("Options", style="bold") + Text(":  --version  --install-completion  --show-completion  --help"),
        )
        _print(Text("unmix COMMAND --help says more. Start with unmix demo."))


class App(typer.Typer):
    """Commands whose --help is the one above."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Commands, **settings)

    def command(self, *names: Any, **settings: Any) -> Any:
        return super().command(*names, **{"cls": Command} | settings)


def examples(*lines: str) -> str:
    """For the end of a command's help, a line each."""
    return "\n".join(lines)


def _first_sentence(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split()).rstrip(".")


def _metavar(param: Any) -> str:
    return param.metavar or param.name.upper()


def _names(param: Any) -> str:
    """-k, --topics N; --[no-]transpose"""
    long = [name for name in param.opts if name.startswith("--")]
    short = [name for name in param.opts if name not in long]
    if param.secondary_opts:
        long = [f"--[no-]{name[2:]}" for name in long]
    value = "" if param.is_flag else f" {_metavar(param)}"
    return ", ".join([*short, *long]) + value


def _told(param: Any) -> str:
    """What it is for, whether it must be given, or what it is otherwise."""
    given, default = param.show_default, getattr(param.default, "value", param.default)
    if param.required:
        return f"{param.help} [required]"
    if isinstance(given, str):
        return f"{param.help} [{given}]"
    return f"{param.help} [{default}]" if given and default is not None and not param.is_flag else str(param.help)


def _section(title: str, rows: Rows, widest: int = 0) -> None:
    """A heading, and lines of a name and what it means; nothing if there are none."""
    if not rows:
        return
    if title:
        _print(Text(title, style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, meaning in rows:
        table.add_row(Text(name.ljust(min(widest, MOST_OF_NAMES)), style="cyan"), _with_quiet_end(meaning))
    show.console().print(Padding(table, (0, 0, 0, 2)), width=_width())


def _with_quiet_end(meaning: str) -> Text:
    text, found, default = meaning.rpartition(" [")
    return Text(text) + Text(f" [{default}", style="dim") if found and meaning.endswith("]") else Text(meaning)


def _print(*lines: Text) -> None:
    for line in lines:
        show.console().print(line, width=_width())


def _width() -> int:
    return min(show.console().width, WIDEST)


# The options of the commands, each with its help: what to read and how, how to fit, where results go and how much to say.

# Options stand in these groups of the help, by what people want to do.
fitting = partial(typer.Option, rich_help_panel="What to fit")
asking = partial(typer.Option, rich_help_panel="How to ask")
stopping = partial(typer.Option, rich_help_panel="Where it stops")
sizing = partial(typer.Option, rich_help_panel="What it may take")
reading = partial(typer.Option, rich_help_panel="How to read INPUT")
of_text = partial(typer.Option, rich_help_panel="If INPUT is text")
questions = partial(typer.Option, rich_help_panel="Further questions")
results = partial(typer.Option, rich_help_panel="Results")

InputPath = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        help="Counts or text: .npz .npy .mtx .mm .ldac .h5ad .h5 .csv .tsv .xlsx .parquet .txt .jsonl, "
        "a 10x folder, a folder of .txt, shards.",
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A fit's folder, or its model.safetensors.")]

Layer = Annotated[str | None, reading(metavar="NAME", help="Layer of an .h5ad file.", show_default="X")]
Raw = Annotated[bool, reading("--raw", help="Take .raw of an .h5ad file.")]
Transpose = Annotated[
    bool | None,
    reading("--transpose/--no-transpose", help="Whether rows of a table are features.", show_default="by its labels"),
]
Layout = Annotated[
    str | None,
    reading(metavar="long|wide", help="One row per count, or one column per feature.", show_default="by its cells"),
]
Encoding = Annotated[
    str | None, reading(metavar="NAME", help="Of texts and tables, such as latin-1.", show_default="utf-8")
]
Metadata = Annotated[Path | None, reading(metavar="FILE", help="A .csv or .tsv with a row a sample, found by name.")]

TextColumn = Annotated[
    str | None, of_text(metavar="NAME", help="Column or field that holds the text.", show_default="by its cells")
]
IdColumn = Annotated[
    str | None, of_text(metavar="NAME", help="Column or field that names the texts.", show_default="by its name")
]
TitleColumn = Annotated[
    str | None, of_text(metavar="NAME", help="Column or field with their titles.", show_default="by its name")
]
Snippets = Annotated[bool, of_text("--snippets", help="Keep how each text begins, for the page.")]
SkipBad = Annotated[bool, of_text("--skip-bad", help="Go on without the files of a folder that cannot be read.")]
MinDf = Annotated[
    str | None,
    of_text(
        metavar="N|PART",
        help="Words in fewer documents are left out.",
        show_default="1, 2 or 5 by the number of documents",
    ),
]
MaxDf = Annotated[str | None, of_text(metavar="N|PART", help="Words in more documents are left out.")]
StopWords = Annotated[
    str,
    of_text(metavar="LANGUAGE|FILE", help="Words to leave out: of english, german, …, none, or a file, one a line."),
]
Ngrams = Annotated[int, of_text(metavar="N", min=1, max=5, help="Count runs of up to so many words too.")]
Phrases = Annotated[Path | None, of_text(metavar="FILE", help="Phrases that stay whole, one per line.")]

Topics = Annotated[int, fitting("-k", "--topics", metavar="K", min=1, help="Number of topics.")]
*MOST_MODELS, LAST_MODEL = WORDS
ModelName = Annotated[Model, fitting(metavar="NAME", help=f"{', '.join(MOST_MODELS)} or {LAST_MODEL}.")]
Settings = Annotated[
    list[str] | None,
    fitting("--set", metavar="NAME=VALUE", help="A parameter of the model, such as alpha=0.1 or alpha=auto."),
]
*MOST_SOLVERS, LAST_SOLVER = SOLVERS
Solver = Annotated[
    str | None, fitting(metavar="NAME", help=f"{', '.join(MOST_SOLVERS)} or {LAST_SOLVER}.", show_default="newton")
]
Init = Annotated[str, fitting(metavar="NAME|MODEL", help=f"{', '.join(STARTS)}, or a model to start from.")]
Starts = Annotated[
    int | None, fitting("--starts", metavar="N", min=1, help="Fits to choose the best of.", show_default="1")
]
Refine = Annotated[
    int | None, fitting(metavar="N", min=0, help="Moves to leave a poor optimum, after convergence.", show_default="0")
]
MaxIter = Annotated[int | None, stopping(metavar="N", min=1, help="Most iterations.", show_default="the model's")]
Tol = Annotated[
    float | None,
    stopping(
        metavar="GAIN",
        min=0,
        help="Stop once no more is left to gain per count; 0 for never.",
        show_default="the model's",
    ),
]
Seed = Annotated[int, fitting(metavar="N", min=0, help="Seed of the random starts.")]
Threads = Annotated[int | None, sizing(metavar="N", min=1, help="Threads.", show_default="all cores")]
DaskCluster = Annotated[
    str | None,
    sizing(
        "--dask",
        metavar="ADDRESS",
        help="A Dask cluster to fit shards on: tcp://…, tls://…, a scheduler file, or local:N for N processes.",
        show_default="this machine",
    ),
]
Resume = Annotated[bool, stopping("--resume", help="Go on with an interrupted fit of the same command.")]
Memory = Annotated[
    str | None,
    sizing(
        metavar="SIZE",
        help="What the fit may take, such as 4GB; counts that need more are made into shards first, and fitted from them.",
        show_default="16GB",
    ),
]
ReadMemory = Annotated[str | None, sizing("--memory", metavar="SIZE", help="What reading may take, such as 1GB.")]
CheckpointSeconds = Annotated[float, stopping(min=0, metavar="SECONDS", help="Time between two checkpoints.")]

FitFolder = Annotated[
    Path | None, results("-o", "--output", metavar="DIR", help="Folder of the results.", show_default="INPUT-kK")
]
WithDifferences = Annotated[
    bool, questions("--differences", help="Also tell what sets topics apart; see unmix differences.")
]
WithStability = Annotated[
    bool, questions("--stability", help="Also tell which topics are found again; see unmix stability.")
]
Runs = Annotated[
    int, questions("--stability-runs", metavar="N", min=2, help="Fits to halves of the counts, for --stability.")
]
WithFreedom = Annotated[bool, questions("--freedom", help="Also tell how far proportions can move; see unmix freedom.")]
ShardsFolder = Annotated[
    Path | None, results("-o", "--output", metavar="DIR", help="Folder of the shards.", show_default="INPUT.shards")
]
Sample = Annotated[
    int | None, results(min=1, metavar="N", help="Samples that a fit starts from, in memory.", show_default="16384")
]
SampleBy = Annotated[
    str | None,
    results(metavar="COLUMN", help="Column of the metadata whose labels are to be alike in number among them."),
]
ProportionsFile = Annotated[
    Path,
    results(
        "-o",
        "--output",
        metavar="FILE",
        help="File of the proportions: .csv, or .npy, for many samples.",
    ),
]
Missing = Annotated[
    str | None,
    asking(
        metavar="WORD",
        help="Features of MODEL that INPUT lacks: unmeasured, or zero.",
        show_default="zero for texts, else unmeasured",
    ),
]
Title = Annotated[str | None, results(metavar="TEXT", help="Title of the report.", show_default="INPUT")]
Force = Annotated[bool, results("--force", help="Write into a folder that holds other things; fit what is not counts.")]
Json = Annotated[bool, results("--json", help="Print one JSON object instead of words.")]
Quiet = Annotated[bool, results("--quiet", "-q", help="Print nothing but notes and errors.")]


def documents(option: str, given: str | None) -> int | float | None:
    """A number of documents (2), or a part of all (0.5, 1.0), as scikit-learn tells them apart."""
    if given is None:
        return None
    try:
        value = float(given) if "." in given else int(given)
    except ValueError:
        raise ValueError(
            f"{option} {given}: give a number of documents such as 5, or a part of all such as 0.5"
        ) from None
    if value < 0 or (isinstance(value, float) and value > 1):
        raise ValueError(f"{option} {given}: a part of all documents is between 0.0 and 1.0")
    return value


# How INPUT is read: the options of it, the same in every command that has an INPUT, and what comes of them.

Options = dict[str, tuple[Any, Any]]  # their types and defaults, by their names in `unmix.read`

ALWAYS: Options = {
    "layer": (Layer, None),
    "raw": (Raw, False),
    "transpose": (Transpose, None),
    "layout": (Layout, None),
    "encoding": (Encoding, None),
    "text_column": (TextColumn, None),
    "id_column": (IdColumn, None),
    "title_column": (TitleColumn, None),
    "skip_bad": (SkipBad, False),
}
TEXTS: Options = {  # which are those of a model where there is one
    "min_df": (MinDf, None),
    "max_df": (MaxDf, None),
    "stop_words": (StopWords, "english"),
    "ngrams": (Ngrams, 1),
    "phrases": (Phrases, None),
}
METADATA: Options = {"metadata": (Metadata, None)}
SNIPPETS: Options = {"snippets": (Snippets, False)}


def reads(*more: Options) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with these options besides those that every INPUT has; it is given all of them as one dictionary, `reading`."""
    kinds: Options = {name: kind for group in (ALWAYS, *more) for name, kind in group.items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_reading(**given: Any) -> None:
            reading = _understood({name: given.pop(name) for name in kinds})
            command(**given, reading=reading)

        own, hints = inspect.signature(command).parameters, get_type_hints(command, include_extras=True)
        parameters = [one.replace(annotation=hints[name]) for name, one in own.items() if name != "reading"]
        for name, (kind, default) in kinds.items():
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
        with_reading.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_reading.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_reading

    return decorate


def _understood(reading: dict[str, Any]) -> dict[str, Any]:
    """What the terminal calls otherwise."""
    if "min_df" in reading:
        for name in ("min_df", "max_df"):
            reading[name] = documents(f"--{name.replace('_', '-')}", reading[name])
        reading["stop_words"] = None if reading["stop_words"] == "none" else reading["stop_words"]
    return reading


def anndata_contents(path: Path) -> tuple[dict[str, str], list[str]]:
    """The matrices and the columns of obs in an AnnData file; nothing for other files, and for what cannot be opened."""
    from unmix.io.read import cells

    if path.suffix.lower() != ".h5ad" and not (path.is_dir() and cells.is_zarr(path)):
        return {}, []
    try:
        return cells.contents(path)
    except (ValueError, OSError, KeyError, MemoryError):
        return {}, []  # `read` will say what is wrong


def read_counts(path: Path, *, aloud: bool = True, **reading: Any) -> Counts:
    with show.working(f"reading {path}"):
        counts = um.read(path, **reading)
    if isinstance(counts, um.Shards):
        raise ValueError(
            f"{path}: a folder of shards, which this command does not take; give a file of counts, such as of some of the samples"
        )
    if aloud:
        show.say(f"read {path}: {show.described(counts)}")
        show.say_reading(counts)
    return counts


def counts_or_shards(path: Path, reading: dict[str, Any], allowed: float | None) -> tuple[str, Counts | Shards]:
    """What to fit, and the call in Python that reads it: a folder of shards as it is, and a file whose fit would need more memory
    than `allowed` (16 GB by default) as shards of it, made in the current folder. Free memory has no say: fits of counts and of
    shards are two algorithms."""

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
        show.note("shards keep no beginnings of texts: --snippets is left aside")
    with show.working(f"making {folder}"):
        shards = um.shard(path, folder, memory=allowed, **options)
    show.say(f"wrote {folder}: {show.described(shards)}, {show.plural(shards.n_shards, 'shard')}")
    show.say_reading(shards)
    return in_python("um.shard", [path, folder], options), shards


def in_python(function: str, paths: list[Path], reading: dict[str, Any]) -> str:
    """The call that gives the same counts; options at their defaults are left out."""
    words = {name: str(value) if isinstance(value, Path) else value for name, value in reading.items()}
    given = [f"{name}={value!r}" for name, value in words.items() if value != getattr(um.ReadOptions, name, None)]
    return f"{function}({', '.join([*(repr(str(path)) for path in paths), *given])})"
