"""`words`: what leaving out addresses costs while words are counted, beside the rules before."""

from argparse import ArgumentParser, Namespace

import numpy as np

import unmix as um
from benchmarks.measure import timed
from benchmarks.table import publish
from unmix.io.read.raw_counts import ReadOptions
from unmix.io.read.words import settings_of, vectorizer_of

TEXTS, WORDS = 3_000, 300
ADDRESSES = " http://t.co/abc and/or jo@hive.org"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--repetitions", type=int, default=7, help="of each, taken in turn (default 7)")


def main(arguments: Namespace) -> None:
    rng, known = np.random.default_rng(0), um.datasets.sotu().features
    plain = [" ".join(rng.choice(known, WORDS)) for _ in range(TEXTS)]
    rows = []
    for what, texts in {"without addresses": plain, "two in each": [text + ADDRESSES for text in plain]}.items():
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(arguments.repetitions):
            for rules, measured in seconds.items():
                settings = settings_of(ReadOptions(), TEXTS, None, None) | {"rules": rules}
                measured.append(timed(vectorizer_of(settings, None).fit_transform, texts)[0])
        before, now = (min(measured) for measured in seconds.values())
        rows.append({"texts": what, "rules 1, s": before, "rules 2, s": now, "ratio": now / before})
    publish(rows, "Words", "words", arguments.out)
