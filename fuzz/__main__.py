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

from fuzz.corpus import Subject, subjects
from fuzz.guard import BATCH, Case, Subjects, attempt, run
from fuzz.hostile import HOSTILE, Hostile
from fuzz.mutate import ways


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", default="", help="subjects whose names match this pattern")
    parser.add_argument("--seed", type=int, default=None, help="of the cases; by default by the clock")
    parser.add_argument("--case", help="one case, as it was printed; errors are shown whole")
    asked = parser.parse_args()
    everything: Subjects = {**subjects(), **{f"hostile-{name}": one for name, one in HOSTILE.items()}}
    known = {name: one for name, one in everything.items() if re.search(asked.only, name)}
    if asked.case:
        known = {Case.parsed(asked.case).subject: everything[Case.parsed(asked.case).subject]}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        sound = {}
        for name, one in known.items():
            if not isinstance(one, Subject):
                continue
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
            problem = attempt(case, known[case.subject], sound.get(case.subject, Path(place)), Path(place))
            print(problem or "nothing is wrong any more")
            return int(problem is not None)
        return _search(known, sound, asked.seconds, int(time.time()) if asked.seed is None else asked.seed)


def _search(known: Subjects, sound: dict[str, Path], seconds: float, seed: int) -> int:
    rng, end = random.Random(seed), time.monotonic() + seconds
    ways_of = {name: _ways(one, sound.get(name)) for name, one in known.items()}
    names = sorted(ways_of)
    tried, failed, told = Counter[str](), Counter[str](), set[str]()
    print(
        f"{sum(map(len, ways_of.values()))} ways to spoil or to abuse files of {len(known)} kinds, seed {seed}, {seconds:.0f} s",
        flush=True,
    )
    while time.monotonic() < end:
        chosen = [rng.choice(names) for _ in range(BATCH)]  # a kind of many files is not tried more often
        cases = [Case(name, *rng.choice(ways_of[name]), rng.randrange(2**32)) for name in chosen]
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


def _ways(subject: Subject | Hostile, sound: Path | None) -> list[tuple[str, str]]:
    """Files and ways to spoil them; a hostile subject makes its own."""
    if isinstance(subject, Hostile) or sound is None:
        return [("-", "-")]
    return [(file, way) for file in subject.files(sound) for way in ways(file)]


if __name__ == "__main__":
    sys.exit(main())
