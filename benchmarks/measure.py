"""Clean measurements: one timed thing in one fresh process, its peak memory, and a log-likelihood of our own.

The log-likelihood is computed here in plain NumPy over the nonzeros, so that no program marks its own work:

    log p(X | L, F) = Σ_nonzero (x log λ − log x!) − Σ_k (Σ_i L_ik)(Σ_j F_jk),    λ = (L Fᵀ)_ij

and so is the lower bound of LDA, `lda_bound`.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import digamma, gammaln

PROJECT_ROOT = Path(__file__).resolve().parents[1]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Fixing glibc's threshold returns every large freed block to the system; otherwise it hides inside the next peak.
RETURN_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1048576"}
BLOCK = 200_000
FLOOR = 1e-8


class TaskError(RuntimeError):
    """A task raised, crashed or took too long; the message is fit to print."""


def in_fresh_process(
    task: str,
    *,
    threads: int,
    timeout: float | None = None,
    environment: dict[str, str] | None = None,
    **arguments: Any,
) -> Any:
    """Call `task`, given as "package.module:function", with JSON arguments in a new interpreter; its JSON result."""
    limits = dict.fromkeys(THREAD_VARIABLES, str(threads))
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        try:
            process = subprocess.run(
                [sys.executable, "-m", "benchmarks.worker", task, str(answer)],
                input=json.dumps(arguments),
                text=True,
                cwd=PROJECT_ROOT,
                env=os.environ | limits | (environment or {}),
                timeout=timeout,
                stdout=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            raise TaskError(f"gave no answer within {timeout:.0f} s") from error
        if not answer.exists():
            raise TaskError(f"the process ended with code {process.returncode}")
        content = json.loads(answer.read_text())
    if "failure" in content:
        raise TaskError(content["failure"])
    return content["result"]


def attempt(name: str, task: str, **arguments: Any) -> Any:
    """The same, or None, with the reason printed, if the task fails: a peer may not be installed."""
    try:
        return in_fresh_process(task, **arguments)
    except TaskError as failure:
        print(f"{name} skipped: {failure}", flush=True)
        return None


def threads_allowed() -> int:
    """The number of threads this process was started with, for libraries that want it as a parameter."""
    return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)


class PeakMemory:
    """Context manager: `extra_bytes` is the peak resident memory above that on entry.

    A thread samples every millisecond. Code that holds the interpreter lock hides from it, but not from the process's
    own high-water mark, which counts whenever it rose.
    """

    extra_bytes: int = 0

    def __enter__(self) -> Self:
        import psutil

        self._process = psutil.Process()
        self._mark_before = high_water_mark()
        self._before = self._peak = self._process.memory_info().rss
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    def _sample(self) -> None:
        while not self._done.wait(0.001):
            self._peak = max(self._peak, self._process.memory_info().rss)

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._sampler.join()
        mark = high_water_mark()
        if mark > self._mark_before:
            self._peak = max(self._peak, mark)
        self.extra_bytes = self._peak - self._before


def high_water_mark() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def timed(function: Any, *arguments: Any) -> tuple[float, Any]:
    """Seconds taken, and the result."""
    begin = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - begin, result


def rates_at_nonzeros(X: sp.csr_matrix, L: np.ndarray, F: np.ndarray) -> np.ndarray:
    rows = np.repeat(np.arange(X.shape[0], dtype=np.int32), np.diff(X.indptr))
    rates = np.empty(X.nnz)
    for begin in range(0, X.nnz, BLOCK):
        block = slice(begin, begin + BLOCK)
        rates[block] = np.einsum("ik,ik->i", L[rows[block]], F[X.indices[block]])
    return rates


def poisson_loglik(X: sp.csr_matrix, L: np.ndarray, F: np.ndarray) -> float:
    """Poisson log-likelihood, all constants included; −inf when a positive count has rate zero."""
    L, F = np.asarray(L, dtype=np.float64), np.asarray(F, dtype=np.float64)
    counts = X.data.astype(np.float64)
    with np.errstate(divide="ignore"):
        fitted = counts @ np.log(rates_at_nonzeros(X, L, F))
    return float(fitted - gammaln(counts + 1).sum() - L.sum(axis=0) @ F.sum(axis=0))


def lda_bound(X: sp.csr_matrix, gamma: np.ndarray, tau: np.ndarray, alpha: float, eta: float) -> float:
    """Evidence lower bound of log p(X | sample totals), all constants included.

    q: proportions of sample i ~ Dirichlet(gamma[i]), topic k ~ Dirichlet(tau[:, k]). With l̃ = exp E log l, f̃ = exp E log f:

        Σ_nonzero (x log Σ_k l̃_ik f̃_jk − log x!) + Σ_i log t_i! + Σ_i D(gamma[i], alpha) + Σ_k D(tau[:, k], eta)
    """
    log_l, log_f = expected_log(gamma), expected_log(tau.T)
    counts, totals = X.data.astype(np.float64), np.asarray(X.sum(axis=1)).ravel()
    fitted = counts @ np.log(rates_at_nonzeros(X, np.exp(log_l), np.exp(log_f.T)))
    constants = gammaln(totals + 1.0).sum() - gammaln(counts + 1).sum()
    return float(fitted + constants + dirichlet_gap(gamma, log_l, alpha) + dirichlet_gap(tau.T, log_f, eta))


def expected_log(parameters: np.ndarray) -> np.ndarray:
    return digamma(parameters) - digamma(parameters.sum(axis=1, keepdims=True))


def dirichlet_gap(parameters: np.ndarray, logs: np.ndarray, prior: float) -> float:
    """D = E log p − E log q of every row, summed: p the symmetric Dirichlet, q the one with these parameters."""
    rows, columns = parameters.shape
    normaliser_p = rows * (gammaln(columns * prior) - columns * gammaln(prior))
    normaliser_q = gammaln(parameters.sum(axis=1)).sum() - gammaln(parameters).sum()
    return float(normaliser_p - normaliser_q + ((prior - parameters) * logs).sum())


def score(X: sp.csr_matrix, L: np.ndarray, F: np.ndarray) -> tuple[float, bool]:
    """Log-likelihood, and whether the factors had to be floored for it to be finite.

    Some libraries give rate zero to positive counts. Then every entry of a factor is raised to at least
    1e-8 of its column's mean, for scoring only.
    """
    loglik = poisson_loglik(X, L, F)
    if np.isfinite(loglik):
        return loglik, False
    return poisson_loglik(X, np.maximum(L, FLOOR * L.mean(axis=0)), np.maximum(F, FLOOR * F.mean(axis=0))), True
