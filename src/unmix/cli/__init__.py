"""The command line: parse, call, write. `main` is the console script `unmix`.

Bad input ends with exit code 2 and one line on stderr, Ctrl-C with 130. Heavy modules are imported by the commands that
need them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from unmix.cli import analyses, choose  # noqa: F401 - each adds its commands
from unmix.cli.commands import app
from unmix.cli.fitting import INTERRUPTED
from unmix.cli.show import Invocation, complain, mute, note, write_any_text

BAD_INPUT = 2
# Typer does not export the base of its usage errors, and where it lives depends on the version.
UsageError: Any = typer.BadParameter.__bases__[0]

__all__ = ["app", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit code."""
    write_any_text()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    Invocation.arguments = arguments
    said = set()

    def once(message: object, *_: object, **__: object) -> None:
        if str(message) not in said:
            said.add(str(message))
            note(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", DeprecationWarning)  # other libraries' words to their developers
        warnings.showwarning = once
        sys.exit(_run(arguments or ["--help"]))


def _run(arguments: list[str]) -> int:
    try:
        code = app(arguments, prog_name="unmix", standalone_mode=False)
    except UsageError as error:
        complain(f"{error.format_message()} (see unmix --help)")
        return BAD_INPUT
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        try:
            sys.stdout.flush()
        except OSError:  # that was the error: an answer that could not be written
            mute(sys.stdout)
        return BAD_INPUT
    except ValueError as error:
        complain(str(error))
        return BAD_INPUT
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    if code == INTERRUPTED:
        complain("interrupted; nothing was written")
    return int(code or 0)
