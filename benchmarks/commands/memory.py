"""`memory`: the peak of a default fit, beyond the matrix already loaded, against the bound unmix promises.

2.5 × bytes of the CSR matrix (int32 indices, float64 data, int64 indptr) + 6 × bytes of the factors
"""

from argparse import ArgumentParser, Namespace

from benchmarks.data import load_counts, make_case
from benchmarks.measure import RETURN_FREED_MEMORY, PeakMemory, in_fresh_process
from benchmarks.table import publish

TIMES_MATRIX, TIMES_FACTORS = 2.5, 6.0
MEGABYTE = 1e6


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--iterations", type=int, help="most iterations of the fit (default: as unmix decides)")


def main(arguments: Namespace) -> None:
    case = make_case(arguments.data, arguments.k, arguments.data_folder, arguments.out)
    row = in_fresh_process(
        "benchmarks.commands.memory:peak_of_fit",
        threads=arguments.threads,
        environment=RETURN_FREED_MEMORY,
        matrix=str(case.matrix),
        K=case.K,
        iterations=arguments.iterations,
    )
    publish([row], f"Peak extra memory of a default fit: {case.title}", f"memory_{case.name}_k{case.K}", arguments.out)


def peak_of_fit(matrix: str, K: int, iterations: int | None) -> dict:
    """A tiny fit comes first, so that libraries loaded on demand do not count as memory of the fit."""
    from benchmarks.peers.unmix_solvers import poisson_nmf

    X = load_counts(matrix)
    poisson_nmf(X[:50], 2, max_iter=5, tol=0, random_state=0)
    limits = {} if iterations is None else {"max_iter": iterations}
    with PeakMemory() as memory:
        poisson_nmf(X, K, random_state=0, **limits)
    csr_bytes = X.nnz * (4 + 8) + 8 * (X.shape[0] + 1)
    factor_bytes = 8 * K * sum(X.shape)
    bound = TIMES_MATRIX * csr_bytes + TIMES_FACTORS * factor_bytes
    return {
        "CSR MB": csr_bytes / MEGABYTE,
        "factors MB": factor_bytes / MEGABYTE,
        "peak extra MB": memory.extra_bytes / MEGABYTE,
        "bound MB": bound / MEGABYTE,
        "peak ÷ bound": memory.extra_bytes / bound,
        "verdict": "within" if memory.extra_bytes <= bound else "ABOVE",
    }
