"""`python -m reproduce`: make the results, quick or full, all or some, and write the page docs/results/README.md.

`python -m reproduce --page` writes the page again from the tables there are.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from importlib import import_module

import unmix as um
from reproduce.common import RESULTS, THREADS, Job, MissingDataError, Section, style

RESULT_MODULES = {
    "simulations": "Coordinate descent against EM on simulated topics",
    "corpora": "Text and cells: the algorithms from one start, and records",
    "structure": "Structure plots, and what defines a topic",
    "joint": "Joint against sequential updates; what an l1 penalty does",
    "plsi": "Do NMF, PLSI and normalised NMF reach the same solution?",
    "swimmer": "Swimmer: the parts of images",
    "bayes": "EM against variational inference as K grows",
    "squares": "Squared error or divergence on counts",
    "peers": "Beside other libraries",
}
INTRODUCTION = """# Reproduced papers
Figures and tables of the papers that unmix is based on, from our own code. Each section names its command, the version and the
day; some are of an earlier version than others. `python -m reproduce NAME` makes a quick form, `--full` the length of the papers,
and `make reproduce` makes all. [From the papers to the code](../papers.md) lists every equation, algorithm and figure;
[the data](data.md) are public, and without them everything that needs only the embedded State of the Union addresses still runs.

Results are whatever came out. Where a claim of a paper did not hold in our runs, the section says so, and the last section
collects it. Every number comes from a `.csv` file in this folder, and a test compares the two. Seconds are those of a shared
machine: compare them within a picture only.
"""


def main(words: list[str]) -> int:
    arguments = parse(words)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    began, skipped = time.perf_counter(), {}
    for number, name in enumerate(arguments.names, start=1):
        print(f"[{number}/{len(arguments.names)}] {name}: {RESULT_MODULES[name]}")
        try:
            make(name, full=arguments.full)
        except MissingDataError as reason:
            skipped[name] = str(reason)
            print(f"  skipped: {reason}")
    write_page()
    minutes = (time.perf_counter() - began) / 60
    print(f"wrote {RESULTS / 'README.md'} after {minutes:.1f} minutes")
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")
    return 0


def parse(words: list[str]):
    parser = ArgumentParser(prog="python -m reproduce", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(RESULT_MODULES)}; all by default")
    parser.add_argument("--full", action="store_true", help="at the length of the papers")
    parser.add_argument("--page", action="store_true", help="only write the page again, from the tables there are")
    arguments = parser.parse_args(words)
    if unknown := [name for name in arguments.names if name not in RESULT_MODULES]:
        parser.error(f"there is no result {unknown[0]!r}; choose among {', '.join(RESULT_MODULES)}")
    arguments.names = [] if arguments.page else arguments.names or list(RESULT_MODULES)
    return arguments


def make(name: str, *, full: bool) -> None:
    """One result: its pictures and tables, and when and with what they were made."""
    with style():
        section_of(name, full=full, written=False)
    stamp = {"full": full, "version": um.__version__, "date": f"{datetime.now(UTC):%Y-%m-%d}", "threads": THREADS}
    (RESULTS / f"{name}.json").write_text(json.dumps(stamp) + "\n", encoding="utf-8")


def section_of(name: str, *, full: bool, written: bool) -> Section:
    return import_module(f"reproduce.{name}").main(Job(name, full, RESULTS, written))


def page() -> str:
    """All sections there are, also those of earlier runs, in the order of the list; from their tables alone."""
    parts, doubts = [INTRODUCTION], []
    for name, title in RESULT_MODULES.items():
        file = RESULTS / f"{name}.json"
        if not file.exists():
            continue
        stamp = json.loads(file.read_text(encoding="utf-8"))
        section = section_of(name, full=stamp["full"], written=True)
        threads = "1 thread" if stamp["threads"] == 1 else f"{stamp['threads']} threads"
        made = f"`python -m reproduce {name}{' --full' if stamp['full'] else ''}`"
        made += f" · unmix {stamp['version']}, {stamp['date']}, {threads}"
        parts.append(f"## {title}\n{made}\n\n{section.text.strip()}\n")
        doubts += section.unconfirmed
    if doubts:
        parts.append("## Claims that our runs did not confirm\n" + "\n".join(f"- {d}" for d in doubts) + "\n")
    return "\n".join(parts)


def write_page() -> None:
    (RESULTS / "README.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
