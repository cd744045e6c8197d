"""`reading`: peak memory and seconds of `um.shard` of drawn texts, one per row of a table, by how much memory it may take; and of
the command `unmix fit`, from its start to its end."""

import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from benchmarks.measure import RETURN_FREED_MEMORY, PeakMemory, attempt
from benchmarks.table import publish

WORDS, LENGTH, BATCH = 60_000, 100, 1_000
MEGABYTE = 1e6


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--megabytes", type=int, default=200, help="of texts (default 200)")
    parser.add_argument("--memory", nargs="*", default=["300MB", "1GB"], help="limits, beside none (default 300MB 1GB)")


def main(arguments: Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.csv"
        draw(texts, arguments.megabytes * MEGABYTE)
        rows = [
            attempt(
                limit or "no limit",
                "benchmarks.commands.reading:peak_of_reading",
                threads=arguments.threads,
                environment=RETURN_FREED_MEMORY,
                texts=str(texts),
                limit=limit,
            )
            for limit in (None, *arguments.memory)
        ]
        rows += [
            attempt(
                limit or "no limit",
                "benchmarks.commands.reading:peak_of_fit",
                threads=arguments.threads,
                texts=str(texts),
                limit=limit,
            )
            for limit in arguments.memory
        ]
    publish(
        [row for row in rows if row],
        f"Shards of {arguments.megabytes} MB of texts",
        f"reading_{arguments.megabytes}",
        arguments.out,
    )


def draw(path: Path, size: float) -> None:
    """Texts of words whose frequencies fall as 1 / rank."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(letters[rng.integers(0, 26, rng.integers(3, 10))]) for _ in range(WORDS)])
    shares = 1 / np.arange(1, WORDS + 1) ** 1.05
    with path.open("w") as file:
        file.write("id,year,text\n")
        while (number := file.tell()) < size:
            for i, drawn in enumerate(words[rng.choice(WORDS, (BATCH, LENGTH), p=shares / shares.sum())]):
                file.write(f"{number}-{i},{1900 + i % 100},{' '.join(drawn)}\n")


def peak_of_reading(texts: str, limit: str | None) -> dict:
    import unmix as um

    warnings.simplefilter("ignore")
    um.read_texts(["a few words"], min_df=1)  # what is imported on demand does not count
    with tempfile.TemporaryDirectory() as folder, PeakMemory() as memory:
        start = time.perf_counter()
        shards = um.shard(texts, Path(folder) / "out", memory=limit)
        seconds = time.perf_counter() - start
    return {
        "command": "um.shard",
        "limit": limit or "none",
        "texts": len(shards),
        "nonzeros": shards.nnz,
        "s": seconds,
        "peak extra MB": memory.extra_bytes / MEGABYTE,
    }


def peak_of_fit(texts: str, limit: str) -> dict:
    """Of a process of its own, imports and all."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "unmix",
            "fit",
            texts,
            "-k",
            "10",
            "--memory",
            limit,
            "--max-iter",
            "3",
            "--quiet",
        ]
        subprocess.run([*command, "-o", "fit"], check=True, cwd=folder, env=os.environ | RETURN_FREED_MEMORY)
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"command": "unmix fit, whole process", "limit": limit, "s": seconds, "peak extra MB": peak / MEGABYTE}
