"""Spoil files until the time is over, or show a case again: `python -m fuzz --seconds 600`, `python -m fuzz --case NAME`."""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from fuzz.corpus import subjects
from fuzz.guard import BATCH, Case, attempt, run
from fuzz.mutate import ways


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", default="", help="subjects whose names match this pattern")
    parser.add_argument("--seed", type=int, default=None, help="of the cases; by default by the clock")
    parser.add_argument("--case", help="one case, as it was printed; errors are shown whole")
    asked = parser.parse_args()
    known = {name: one for name, one in subjects().items() if re.search(asked.only, name)}
    if asked.case:
        known = {Case.parsed(asked.case).subject: subjects()[Case.parsed(asked.case).subject]}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        sound = {}
        for name, one in known.items():
            sound[name] = Path(place) / "sound" / name
            sound[name].mkdir(parents=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                one.make(sound[name])
                copy = Path(place) / "copy" / name
                shutil.copytree(sound[name], copy)
                for act in one.tries:  # what is sound is not refused; and children need not import again
                    act(copy)
        if asked.case:
            case = Case.parsed(asked.case)
            problem = attempt(case, known[case.subject], sound[case.subject], Path(place))
            print(problem or "nothing is wrong any more")
            return int(problem is not None)
        return _search(known, sound, asked.seconds, int(time.time()) if asked.seed is None else asked.seed)


def _search(known: dict, sound: dict[str, Path], seconds: float, seed: int) -> int:
    rng, end = random.Random(seed), time.monotonic() + seconds
    files = [(name, file, way) for name, one in known.items() for file in one.files(sound[name]) for way in ways(file)]
    tried, failed, told = Counter[str](), Counter[str](), set[str]()
    print(f"{len(files)} ways to spoil files of {len(known)} kinds, seed {seed}, {seconds:.0f} s", flush=True)
    while time.monotonic() < end:
        cases = [Case(*rng.choice(files), rng.randrange(2**32)) for _ in range(BATCH)]
        for case, problem in run(cases, known, sound):
            tried[case.subject] += 1
            if problem is not None:
                failed[case.subject] += 1
                if (kind := re.sub(r"\d+", "N", problem)[:120]) not in told:
                    told.add(kind)
                    print(f"{problem}\n    python -m fuzz --case '{case}'", flush=True)
    for name in sorted(tried):
        print(f"{name:24} {tried[name]:7,} tried {failed[name]:5,} failed")
    print(f"{sum(tried.values()):,} files tried, {sum(failed.values()):,} failed, in {len(told)} ways")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
