"""What --help says: commands in groups by what people want to do, so that all of them fit a screen, and options likewise, a line
each where there is room. Typer's own help draws a frame around each group and a column for types, which takes twice the lines."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import cleandoc
from typing import Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from unmix.cli import show

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
        for paragraph in cleandoc(self.help or "").split("\n\n"):
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
