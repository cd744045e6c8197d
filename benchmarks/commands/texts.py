"""`texts`: how fast a table of texts is read and made into shards, and in how much memory.

A CSV file of generated speeches is read by `um.read`, by `um.shard`, and by pandas and CountVectorizer. The generator draws
words of the State of the Union addresses, stop words for half of them and rare words for some, with capitals and punctuation.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np

from benchmarks.measure import RETURN_FREED_MEMORY, PeakMemory, in_fresh_process
from benchmarks.table import publish

ENDS = ((".", 0.05), (",", 0.05), ("'s", 0.005), ("”", 0.003))  # of words, and how often


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--megabytes", type=int, default=200, help="size of the file (default 200)")


def main(arguments: Namespace) -> None:
    rows = []
    with TemporaryDirectory() as folder:
        path = Path(folder, "speeches.csv")
        generate(path, arguments.megabytes)
        for way in ("read", "shard", "CountVectorizer"):
            row = in_fresh_process(
                "benchmarks.commands.texts:seconds_of",
                threads=arguments.threads,
                environment=RETURN_FREED_MEMORY,
                path=str(path),
                way=way,
            )
            rows.append(row)
    publish(rows, f"Reading a table of texts, {arguments.megabytes} MB", "texts", arguments.out)


def generate(path: Path, megabytes: int) -> None:
    """Speeches of some 245 words, one per row, with an identifier, a date, a party and votes."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    import unmix as um

    rng, X = np.random.default_rng(0), um.datasets.sotu()
    stop, letters = np.array(sorted(ENGLISH_STOP_WORDS)), list("abcdefghijklmnopqrstuvwxyz")
    rare = np.array(["".join(rng.choice(letters, rng.integers(4, 12))) for _ in range(100_000)])
    zipf = [1 / np.arange(1, len(words) + 1) for words in (stop, rare)]
    chances = np.concatenate(
        [0.47 * X.feature_totals / X.total, *(s * z / z.sum() for s, z in zip((0.5, 0.03), zipf, strict=True))]
    )
    words, written, number = np.concatenate([X.features, stop, rare]).astype(object), 0, 0
    endings = np.array([""] + [end for end, _ in ENDS], dtype=object)
    shares = [1 - sum(share for _, share in ENDS)] + [share for _, share in ENDS]
    with path.open("w", encoding="utf-8") as file:
        file.write("id,date,party,speech,votes\n")
        while written < 1e6 * megabytes:
            drawn = words[rng.choice(len(words), 200_000, p=chances)] + rng.choice(endings, 200_000, p=shares)
            for speech in filter(len, np.split(drawn, np.cumsum(rng.lognormal(5.5, 0.6, 700).astype(int)))):
                line = f'{number},20{number % 22:02}-01-05,{"abc"[number % 3]},"{" ".join(speech).capitalize()}",{number % 97}\n'
                written += file.write(line)
                number += 1


def seconds_of(path: str, way: str) -> dict:
    import warnings

    import pandas as pd
    from sklearn.feature_extraction.text import CountVectorizer

    import unmix as um

    warnings.simplefilter("ignore")
    um.read_texts(["the first import takes time"])
    with PeakMemory() as memory, TemporaryDirectory() as folder:
        wall, cpu = perf_counter(), process_time()
        if way == "CountVectorizer":
            texts = pd.read_csv(path, usecols=["speech"])["speech"]
            counts = CountVectorizer(stop_words="english", min_df=5).fit_transform(texts)
        else:
            counts = um.read(path) if way == "read" else um.shard(path, f"{folder}/shards")
        wall, cpu = perf_counter() - wall, process_time() - cpu
    size = Path(path).stat().st_size / 1e6
    return {
        "way": way,
        "texts": counts.shape[0],
        "words": counts.shape[1],
        "seconds": wall,
        "CPU seconds": cpu,
        "MB / CPU second": size / cpu,
        "peak extra MB": memory.extra_bytes / 1e6,
    }
