"""The command line: parse, call, write. `main` is the console script `unmix`.

Bad input ends with exit code 2 and one line on stderr, Ctrl-C with 130. Heavy modules are imported by the commands that
need them.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from typing import Any

import typer

from unmix.base.checks import NAME_ONLY, in_python, parameters_as
from unmix.base.progress import watching
from unmix.cli import commands  # noqa: F401 - it adds its commands
from unmix.cli.analyses import INTERRUPTED
from unmix.cli.options import COMMANDS, UsageError, program
from unmix.cli.show import Invocation, complain, mute, note, write_any_text

BAD_INPUT = 2
OTHER_WORDS = {"predict": "transform", "project": "transform", "train": "fit", "plot": "report", "select": "choose"}
OTHER_OPTIONS = {  # of other programs and of earlier versions
    **dict.fromkeys(("--n-topics", "--num-topics", "--topics", "--K", "--k", "--components"), "-k"),
    **dict.fromkeys(("--iterations", "--n-iter", "--iter", "--passes"), "--max-iter"),
    **dict.fromkeys(("--jobs", "--cores", "--n-threads", "--num-threads"), "--threads"),
    **dict.fromkeys(("--alpha", "--eta", "--param", "--params"), "--set NAME=VALUE"),
    **dict.fromkeys(("--starts", "--restarts", "--n-starts"), "--n-init"),
    **dict.fromkeys(("--out", "--outdir", "--out-dir", "--dir"), "-o"),
    "--tolerance": "--tol",
    "--algorithm": "--solver",
}

__all__ = ["main", "program"]


@cache
def _options(name: str) -> dict[str, str]:
    """The options of a command, by parameter."""
    params = program(name).commands[name].params if name in COMMANDS else []
    return {param.name: param.opts[0] for param in params if param.opts[0].startswith("-")}


def option(name: str, value: Any = NAME_ONLY) -> str:
    """A parameter by its option, with its value as it would be typed; as in Python where it has none, as --set takes it."""
    options = _options(next(iter(Invocation.arguments), "fit"))
    name = (
        "covariates" if name == "prevalence" and "covariates" in options else name
    )  # of the model; it is an analysis, too
    found = options.get(name)
    if found is None and value is NAME_ONLY and name in _options("fit"):
        return f"--set {name}" if "settings" in options else f"{_options('fit')[name]} of unmix fit"
    if found is None:
        return in_python(name, value)
    if value is NAME_ONLY or value is True:
        return found
    if value is False:
        return found.replace("--", "--no-")
    return f"{found} {'none' if value is None else shlex.quote(str(value))}"


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

    with warnings.catch_warnings(), parameters_as(option), watching(machine="--json" in arguments):
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", DeprecationWarning)  # other libraries' words to their developers
        warnings.showwarning = once
        sys.exit(_run(arguments or ["--help"]))


def _usage(text: str, arguments: list[str]) -> str:
    """What was typed wrongly, with the value and a remedy."""
    if found := re.match(r"Invalid value for (.*?): .*valid (int|float|number)", text):
        typed = _typed(found[1], arguments)
        several = "; unmix choose compares several" if re.fullmatch(r"\d+[-,]\d+", typed) else ""
        return f"{typed!r} for {found[1]}: use a {'whole ' if found[2] == 'int' else ''}number{several}"
    if text.startswith("Missing option '-k'"):
        fit = "; about a fit: unmix stability INPUT -k K --reference MODEL" if arguments[0] == "stability" else ""
        return f"{text.rstrip('.')}; unmix choose INPUT suggests a number{fit}"
    if "unexpected extra argument" in text and "--set" in arguments:
        return f"{text.rstrip('.')}; --set takes NAME=VALUE, such as --set alpha=0.1"
    if (found := re.match(r"No such command '(\w+)'", text)) and found[1] in OTHER_WORDS:
        return f"No such command {found[1]!r}. Did you mean {OTHER_WORDS[found[1]]!r}?"
    if found := re.match(r"No such option:? '?(--?[\w-]+)", text):
        return _no_such_option(found[1], arguments)
    if found := re.match(r"Invalid value for (.*?): Input should be (.*)", text):
        return f"{_typed(found[1], arguments)!r} for {found[1]} should be {found[2]}"
    if text.startswith("Missing option '-o'"):
        return f"{text.rstrip('.')}; name a file for the results"
    return text


def _typed(names: str, arguments: list[str]) -> str:
    """The value that was typed for an option."""
    return next((value for name, value in pairwise(arguments) if repr(name) in names), "")


def _no_such_option(name: str, arguments: list[str]) -> str:
    """With the option of this command that was probably meant."""
    named = next((word for word in arguments if not word.startswith("-")), "")
    known = [one for param in program(named).commands[named].params for one in param.opts] if named in COMMANDS else []
    meant = OTHER_OPTIONS.get(name, "")
    if meant.partition(" ")[0] not in known:
        close = get_close_matches(name, [one for one in known if one.startswith("--")], 2, 0.75)
        meant = " or ".join(close)
    return f"No such option: {name}{f'. Did you mean {meant}?' if meant else ''}"


def _run(arguments: list[str]) -> int:
    try:
        named = next((word for word in arguments if not word.startswith("-")), "")
        wanted = None if "_UNMIX_COMPLETE" in os.environ else named
        code = program(wanted)(arguments, prog_name="unmix", standalone_mode=False)
    except UsageError as error:
        place = f"unmix {named + ' ' if named in COMMANDS else ''}--help"
        complain(f"{_usage(error.format_message(), arguments)} (see {place})")
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
