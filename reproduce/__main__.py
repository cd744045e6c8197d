"""`python -m reproduce`: make the results, quick or full, all or some, and put the page docs/results/README.md together."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from importlib import import_module

from reproduce.common import RESULTS, Job, MissingDataError, Section, style

RESULT_MODULES = {
    "simulations": "Coordinate descent against EM on simulated topics",
    "corpora": "NeurIPS and newsgroups: four algorithms from one start, and records",
    "structure": "Structure plots, and what defines a topic",
    "joint": "Joint against sequential updates; what an l1 penalty does",
    "plsi": "Do NMF, PLSI and normalised NMF reach the same solution?",
    "swimmer": "Swimmer: the parts of images",
    "bayes": "EM against variational inference as K grows",
    "peers": "Beside other libraries",
}
INTRODUCTION = """# The papers, made again
Every picture and table here is made by `python -m reproduce NAME` (quick) or `python -m reproduce NAME --full`;
`make reproduce` makes them all. Results are whatever came out: where a claim of a paper did not hold in our runs, the page says
so, and the list at the end collects it. Seconds are those of a shared machine with two cores: compare them within a picture only.
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
    arguments = parser.parse_args(words)
    if unknown := [name for name in arguments.names if name not in RESULT_MODULES]:
        parser.error(f"there is no result {unknown[0]!r}; choose among {', '.join(RESULT_MODULES)}")
    arguments.names = arguments.names or list(RESULT_MODULES)
    return arguments


def make(name: str, *, full: bool) -> None:
    """One result: its pictures and tables, and its section."""
    module = import_module(f"reproduce.{name}")
    with style():
        section: Section = module.main(Job(name, full))
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"text": section.text.strip(), "unconfirmed": section.unconfirmed, "full": full}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def write_page() -> None:
    """All sections there are, also those of earlier runs, in the order of the list."""
    parts, doubts = [INTRODUCTION], []
    for name, title in RESULT_MODULES.items():
        file = RESULTS / f"{name}.json"
        if not file.exists():
            continue
        section = json.loads(file.read_text(encoding="utf-8"))
        command = f"python -m reproduce {name}{' --full' if section['full'] else ''}"
        parts.append(f"## {title}\n`{command}`\n\n{section['text']}\n")
        doubts += section["unconfirmed"]
    if doubts:
        parts.append(
            "## What the papers claim and our runs did not confirm\n" + "\n".join(f"- {d}" for d in doubts) + "\n"
        )
    (RESULTS / "README.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
