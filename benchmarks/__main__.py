"""The command line of the benchmarks; a bare `python -m benchmarks` is `python -m benchmarks fit`."""

import os
import sys
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

from benchmarks.data import SHAPES, default_folder
from benchmarks.measure import TaskError

OPTIONS = {
    "data": {"choices": list(SHAPES), "default": "newsgroups", "help": "data set"},
    "data-folder": {"type": Path, "default": default_folder(), "help": "or set UNMIX_DATA"},
    "k": {"type": int, "default": 10, "help": "number of topics (default 10)"},
    "threads": {"type": int, "default": 2, "help": "threads of every program (default 2)"},
}
# Which of these each command takes
COMMANDS = {
    "fit": OPTIONS.keys(),
    "kernels": OPTIONS.keys(),
    "roofline": ("data", "data-folder", "k"),
    "topics": ("data-folder", "threads"),
    "memory": OPTIONS.keys(),
    "reading": ("threads",),
    "startup": (),
    "service": ("k", "threads"),
    "lda": OPTIONS.keys(),
    "online": OPTIONS.keys(),
    "gibbs": ("data", "data-folder", "threads"),
    "short": ("data-folder", "k", "threads"),
    "door": OPTIONS.keys(),
    "texts": ("threads",),
    "ends": ("data-folder", "threads"),
    "scale": ("threads",),
    "million": ("data-folder", "threads"),
    "choose": ("data", "data-folder", "threads"),
    "stability": OPTIONS.keys(),
    "batches": OPTIONS.keys(),
    "differences": ("data-folder", "threads"),
    "effects": ("data-folder",),
    "prevalence": ("data-folder", "k", "threads"),
    "assign": ("data-folder",),
    "recommend": ("data-folder", "k", "threads"),
    "known": ("data-folder", "threads"),
}
BUSY = 0.5
DEFAULT_OUTPUT = Path(__file__).parent / "out"


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True)
    for command, options in COMMANDS.items():
        module = import_module(f"benchmarks.commands.{command}")
        subparser = subparsers.add_parser(command, help=module.__doc__.splitlines()[0], description=module.__doc__)
        subparser.set_defaults(main=module.main)
        subparser.add_argument("--out", type=Path, default=DEFAULT_OUTPUT, help="folder of tables and pictures")
        for option in options:
            subparser.add_argument(f"--{option}", **OPTIONS[option])
        module.add_arguments(subparser)
    return parser


def main(words: list[str]) -> None:
    asks_for_help = bool(words) and words[0] in ("-h", "--help")
    if not asks_for_help and (not words or words[0] not in COMMANDS):
        words = ["fit", *words]
    arguments = build_parser().parse_args(words)
    load = os.getloadavg()[0]
    if load > BUSY:
        print(
            f"The machine is busy (load {load:.1f}): even ratios may be off, those between thread counts most of all."
        )
    try:
        arguments.main(arguments)
    except TaskError as error:
        raise SystemExit(f"{arguments.command}: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
