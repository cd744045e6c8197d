"""`kernels`: the cost of one iteration of each solver, and how it grows with threads, topics, nonzeros and size."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from benchmarks.data import load_counts, make_case, random_start
from benchmarks.measure import in_fresh_process, timed
from benchmarks.table import publish

TOPICS = (5, 10, 20, 50, 100)
SHARES_OF_ROWS = (0.25, 0.5, 1.0)
WIDENING = 4
PREFIT = 20


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--repetitions", type=int, default=5, help="interleaved runs of each solver (default 5)")
    parser.add_argument("--topics", type=int, nargs="+", default=list(TOPICS), help="K of the sweep in K")


def main(arguments: Namespace) -> None:
    case = make_case(arguments.data, arguments.k, arguments.data_folder, arguments.out)

    def table(task: str, title: str, name: str, remark: str = "", **more: object) -> None:
        rows = in_fresh_process(
            f"benchmarks.commands.kernels:{task}",
            threads=arguments.threads,
            matrix=str(case.matrix),
            repetitions=arguments.repetitions,
            **more,
        )
        publish(rows, f"{title}: {case.name}", f"kernels_{name}_{case.name}", arguments.out, remark)

    K, threads = arguments.k, arguments.threads
    table("cost_of_iterations", f"One iteration, K = {K}, {threads} threads", "iteration", K=K)
    table("cost_by_threads", f"1 thread against {threads}, K = {K}", "threads", K=K, most_threads=threads)
    table(
        "cost_by_topics",
        "Number of topics",
        "topics",
        "If the cost is linear in K, the last columns stay level.",
        topics=arguments.topics,
    )
    table(
        "cost_by_rows",
        f"Share of the rows, K = {K}",
        "rows",
        "If the cost is linear in the nonzeros, the last columns stay level.",
        K=K,
    )
    table(
        "cost_by_columns",
        f"Empty columns added, K = {K}",
        "columns",
        "If the cost does not depend on n·m, the ratios are near 1.",
        K=K,
    )


def solvers() -> dict[str, object]:
    import unmix as um

    return {"em": um.solvers.EM(steps=1), "scd": um.solvers.SCD(sweeps=4), "newton": "newton"}


class Bench:
    """A matrix and a start that the solvers are timed on: 20 EM iterations from random, where zeros have formed."""

    def __init__(self, X: sp.csr_matrix, K: int) -> None:
        import unmix as um
        from benchmarks.peers.unmix_solvers import fixed_run

        self.X = X
        self.counts = um.Counts(X)
        prefit = fixed_run(self.counts, random_start(X, K), PREFIT, solver="em", extrapolate=False)
        self.start = (prefit.L, prefit.F)

    def timer(self, solver: object, **parameters: object) -> Callable[[], float]:
        """A function that runs a few iterations of the solver and returns the seconds of one."""
        from benchmarks.peers.unmix_solvers import fixed_run, seconds_per_iteration

        return lambda: seconds_per_iteration(
            fixed_run(self.counts, self.start, 8, solver=solver, extrapolate=False, **parameters)
        )

    def sklearn_timer(self) -> Callable[[], float]:
        """The same for scikit-learn's multiplicative updates: what five iterations cost beyond one, shared out."""
        from benchmarks.peers.sklearn_mu import ScikitLearnMU

        program = ScikitLearnMU()
        problem = program.prepare(self.X, *self.start)
        return lambda: (timed(program.run, problem, 5)[0] - timed(program.run, problem, 1)[0]) / 4


def interleaved_medians(timers: dict[str, Callable[[], float]], repetitions: int) -> dict[str, float]:
    """Every timer once a round, so that a slow moment of the machine falls on all of them; medians over the rounds."""
    for warm_up in timers.values():
        warm_up()
    rounds = [{name: timer() for name, timer in timers.items()} for _ in range(repetitions)]
    return {name: float(np.median([measured[name] for measured in rounds])) for name in timers}


def cost_of_iterations(matrix: str, repetitions: int, K: int) -> list[dict]:
    bench = Bench(load_counts(matrix), K)
    timers = {name: bench.timer(solver) for name, solver in solvers().items()}
    seconds = interleaved_medians(timers | {"sklearn-mu": bench.sklearn_timer()}, repetitions)
    return [
        {
            "iteration": name,
            "ms": 1e3 * value,
            "× em": value / seconds["em"],
            "× sklearn-mu": value / seconds["sklearn-mu"],
            "faster than sklearn-mu by": seconds["sklearn-mu"] / value,
        }
        for name, value in seconds.items()
    ]


def cost_by_threads(matrix: str, repetitions: int, K: int, most_threads: int) -> list[dict]:
    bench = Bench(load_counts(matrix), K)
    timers = {
        f"{name} {n_jobs}": bench.timer(solver, n_jobs=n_jobs)
        for name, solver in solvers().items()
        for n_jobs in (1, most_threads)
    }
    seconds = interleaved_medians(timers, repetitions)
    return [
        {
            "solver": name,
            "ms, 1 thread": 1e3 * seconds[f"{name} 1"],
            f"ms, {most_threads} threads": 1e3 * seconds[f"{name} {most_threads}"],
            "speed-up": seconds[f"{name} 1"] / seconds[f"{name} {most_threads}"],
            "efficiency %": 100 * seconds[f"{name} 1"] / seconds[f"{name} {most_threads}"] / most_threads,
        }
        for name in solvers()
    ]


def growth_row(X: sp.csr_matrix, K: int, repetitions: int) -> dict:
    """Milliseconds an iteration of each solver, and nanoseconds of each per nonzero and topic."""
    bench = Bench(X, K)
    seconds = interleaved_medians({name: bench.timer(solver) for name, solver in solvers().items()}, repetitions)
    return {f"{name} ms": 1e3 * value for name, value in seconds.items()} | {
        f"{name} ns/nonzero/topic": 1e9 * value / X.nnz / K for name, value in seconds.items()
    }


def cost_by_topics(matrix: str, repetitions: int, topics: list[int]) -> list[dict]:
    X = load_counts(matrix)
    return [{"K": K} | growth_row(X, K, repetitions) for K in topics]


def cost_by_rows(matrix: str, repetitions: int, K: int) -> list[dict]:
    """Random rows of the matrix; columns they leave empty are dropped, so that the shape shrinks with the data."""
    X = load_counts(matrix)
    order = np.random.default_rng(0).permutation(X.shape[0])
    rows = []
    for share in SHARES_OF_ROWS:
        part = X[np.sort(order[: int(share * X.shape[0])])]
        part = part[:, np.flatnonzero(part.getnnz(axis=0))]
        rows.append({"rows %": 100 * share, "nonzeros": part.nnz} | growth_row(part, K, repetitions))
    return rows


def cost_by_columns(matrix: str, repetitions: int, K: int) -> list[dict]:
    """The same nonzeros in a matrix four times as wide, both interleaved."""
    X = load_counts(matrix)
    wide = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], WIDENING * X.shape[1]))
    benches = {"as it is": Bench(X, K), "wide": Bench(wide, K)}
    timers = {
        f"{name} {label}": bench.timer(solver) for label, bench in benches.items() for name, solver in solvers().items()
    }
    seconds = interleaved_medians(timers, repetitions)
    return [
        {
            "solver": name,
            "ms": 1e3 * seconds[f"{name} as it is"],
            f"ms, {WIDENING}× the columns": 1e3 * seconds[f"{name} wide"],
            "ratio": seconds[f"{name} wide"] / seconds[f"{name} as it is"],
        }
        for name in solvers()
    ]
