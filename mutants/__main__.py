"""`python -m mutants`: run the tests of every mutant, and say which mutants survive. `python -m mutants 3 17` tries some."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from argparse import ArgumentParser

from mutants.listed import MUTANTS, ROOT

QUIET = ["-n", "0", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "reproduce or not reproduce"]


def main(words: list[str]) -> int:
    parser = ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="of mutants in the list; all by default")
    numbers = parser.parse_args(words).numbers or range(len(MUTANTS))
    survivors = []
    for test in sorted({MUTANTS[number].tests for number in numbers}):
        if tried(test, None)[0] != 0:
            raise SystemExit(f"{' '.join(test)} fails without any mutant; mend that first")
    for number in numbers:
        mutant, began = MUTANTS[number], time.perf_counter()
        status, output = tried(mutant.tests, number)
        killed = status == 1 and "\nFAILED " in output
        if not killed:
            survivors.append(number)
        verdict = (
            f"killed by {killer(output)}" if killed else "SURVIVED" if status == 0 else f"NOT RUN: {output[-500:]}"
        )
        print(f"{number:2}  {mutant.claim}: {verdict} ({time.perf_counter() - began:.0f} s)", flush=True)
    print(f"{len(numbers) - len(survivors)} of {len(numbers)} mutants killed; survivors: {survivors or 'none'}")
    return 1 if survivors else 0


def tried(tests: tuple[str, ...], number: int | None) -> tuple[int, str]:
    """The exit status and output of the tests, with a mutant or without."""
    environment = os.environ | ({} if number is None else {"UNMIX_MUTANT": str(number)})
    command = [sys.executable, "-m", "pytest", "-p", "mutants.plugin", *QUIET, *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def killer(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("FAILED ")]
    return lines[0].removeprefix("FAILED ").partition(" - ")[0] if lines else "?"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
