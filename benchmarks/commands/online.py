"""`online`: mini-batch LDA beside batch LDA: seconds a pass, perplexity after so many passes, memory of a stream."""

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from benchmarks.commands.memory import MEGABYTE
from benchmarks.data import find_matrix, load_counts, title
from benchmarks.measure import RETURN_FREED_MEMORY, PeakMemory, attempt, in_fresh_process, timed
from benchmarks.table import publish

PASSES, SEEN_AFTER = 6, (1, 5)
TIMES = (1, 4)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--batch-size", type=int, default=2048, help="samples of a mini-batch (default 2048)")
    parser.add_argument("--repetitions", type=int, default=3, help="interleaved runs of unmix (default 3)")


def main(arguments: Namespace) -> None:
    matrix, simulated = find_matrix(arguments.data, arguments.data_folder, arguments.out)
    given = {"matrix": str(matrix), "K": arguments.k, "batch_size": arguments.batch_size}
    heading = f"{title(arguments.data, simulated)}, K = {arguments.k}, alpha = eta = 1/K, {arguments.threads} threads"
    name = f"{arguments.data}_k{arguments.k}"

    task = "benchmarks.commands.online:passes_of_unmix"
    rows = in_fresh_process(task, threads=arguments.threads, repetitions=arguments.repetitions, **given)
    batch, mini = rows
    remark = (
        f"Mini-batch ÷ batch: {mini['s / pass'] / batch['s / pass']:.2f} a pass, "
        f"{mini['first pass s'] / batch['first pass s']:.2f} the first. "
    )
    task = "benchmarks.commands.online:passes_of_sklearn"
    if peer := attempt("scikit-learn", task, threads=arguments.threads, **given):
        rows.append(peer)
        remark += (
            f"scikit-learn ÷ unmix, mini-batch: {peer['s / pass'] / mini['s / pass']:.1f} a pass, "
            f"{peer['first pass s'] / mini['first pass s']:.1f} the first. "
        )
    remark += (
        f"`s / pass` is the median of passes 2 to {PASSES}. Perplexity by document completion on a tenth of the samples, "
        "which no program saw, by the same function for all; all programs start at random."
    )
    publish(rows, f"Mini-batches of {arguments.batch_size}: {heading}", f"online_{name}", arguments.out, remark)

    streams = [
        in_fresh_process(
            "benchmarks.commands.online:stream_memory",
            threads=arguments.threads,
            environment=RETURN_FREED_MEMORY,
            times=times,
            **given,
        )
        for times in TIMES
    ]
    ratio = streams[-1]["peak extra MB"] / streams[0]["peak extra MB"]
    remark = f"{TIMES[-1]} times the samples: {ratio:.2f} times the memory."
    publish(streams, f"Memory of `partial_fit`: {heading}", f"online_memory_{name}", arguments.out, remark)


def split(X: sp.csr_matrix, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Nine tenths to learn from, in random order, and a tenth to be judged by."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    tenth = X.shape[0] // 10
    return X[order[tenth:]], X[order[:tenth]]


def row(program: str, passes: list[float], perplexities: dict[int, float]) -> dict:
    """`passes`: seconds of each."""
    return {
        "program": program,
        "first pass s": passes[0],
        "s / pass": float(np.median(passes[1:])),
    } | {f"perplexity after {after}": value for after, value in perplexities.items()}


def passes_of_unmix(matrix: str, K: int, batch_size: int, repetitions: int) -> list[dict]:
    """Batch and mini-batch fits by turns; medians over the repetitions, pass by pass."""
    import unmix as um
    from benchmarks.peers.lda import unmix_lda

    learn, held_out = split(load_counts(matrix))
    programs = {"unmix, batch": None, "unmix, mini-batch": um.Online(batch_size=batch_size)}

    def fit(X: object, program: str, passes: int) -> object:
        return unmix_lda(X, K, init="random", online=programs[program], tol=0, max_iter=passes)

    for program in programs:
        fit(learn[:50], program, 2)
    seconds = {program: [] for program in programs}
    for _ in range(repetitions):
        for program, measured in seconds.items():
            # `Counts` afresh, since what a fit caches in it is part of the first pass
            measured.append(np.diff(fit(um.Counts(learn), program, PASSES).result_.trace["seconds"]))
    return [
        row(
            program,
            np.median(measured, axis=0).tolist(),
            {after: fit(learn, program, after).perplexity(held_out) for after in SEEN_AFTER},
        )
        for program, measured in seconds.items()
    ]


def passes_of_sklearn(matrix: str, K: int, batch_size: int) -> dict:
    """By `partial_fit`, which does what `fit` does with learning_method="online" but for an E-step at the end."""
    from benchmarks.peers.lda import around, sklearn_lda

    learn, held_out = split(load_counts(matrix))
    model = sklearn_lda(K, batch_size=batch_size, total_samples=learn.shape[0])
    sklearn_lda(K, max_iter=1).fit(learn[:50])
    seconds, perplexities = [], dict.fromkeys(SEEN_AFTER, math.nan)
    for done in range(1, PASSES + 1):
        seconds.append(timed(model.partial_fit, learn)[0])
        if done in perplexities:
            perplexities[done] = around(held_out, model.components_.T).perplexity(held_out)
    return row("scikit-learn, mini-batch", seconds, perplexities)


def batches_of(X: sp.csr_matrix, size: int, times: int) -> Iterator[sp.csr_matrix]:
    for _ in range(times):
        for begin in range(0, X.shape[0], size):
            yield X[begin : begin + size]


def stream_memory(matrix: str, K: int, batch_size: int, times: int) -> dict:
    """The peak beyond the loaded matrix of learning from a stream that holds it so many times over."""
    from benchmarks.peers.lda import unmix_stream

    X = load_counts(matrix)
    unmix_stream(batches_of(X[:50], 25, 1), 2)
    with PeakMemory() as memory:
        model = unmix_stream(batches_of(X, batch_size, times), K)
    return {
        "samples": model.stream_.samples,
        "batches": model.stream_.batches,
        "topics MB": 8 * K * X.shape[1] / MEGABYTE,
        "peak extra MB": memory.extra_bytes / MEGABYTE,
    }
