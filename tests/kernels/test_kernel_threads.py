"""Kernels and whoever else is running: their own threads, other Python threads, signal handlers, forks. Bits never change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import ROOT
from kernel_calls import CALLS, Problem, answer, problem

from unmix.base.threads import use_threads

pytestmark = pytest.mark.slow

# Sanitizers map terabytes of addresses of their own, and that of threads does not understand threads after a fork.
watched = "san.so" in os.environ.get("LD_PRELOAD", "")
limits_memory = pytest.mark.skipif(sys.platform != "linux" or watched, reason="memory cannot be limited like this here")


def run_program(program: str, *before: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"} | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", CALLS)
def test_python_threads_that_share_data_and_workspace_do_not_disturb_each_other(name: str) -> None:
    p, others = problem(300, 50), problem(200, 80, K=17, seed=1)
    others = others._replace(workspace=p.workspace)
    wants = [answer(name, p), answer(name, others)]
    together = threading.Barrier(4)

    def run(which: int) -> bool:
        together.wait()
        with use_threads(2):
            return all(answer(name, (p, others)[which]) == wants[which] for _ in range(3))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, [0, 1, 0, 1]))
    assert len(p.workspace._spare) <= 1


def lasting(name: str, seconds: float) -> tuple[Problem, bytes]:
    """A problem that keeps the kernel busy for at least so long, and its answer."""
    rows = 500
    while True:
        p = problem(rows, 60, K=10)
        begin = time.perf_counter()
        want = answer(name, p)
        if (lasted := time.perf_counter() - begin) > seconds:
            return p, want
        rows = int(rows * min(16, max(2, 1.5 * seconds / lasted)))


# Kernels look for signals every 100 ms. No kernel keeps anything between calls but the workspace, so of those without one the
# sampler is enough; those that need millions of rows to last that long are left out, too.
LASTING = ["em", "cd", "newton", "both_numerators", "infer", "posteriors", "gibbs"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of this kind are POSIX")
@pytest.mark.parametrize("name", LASTING)
def test_a_signal_handler_may_run_kernels_during_a_kernel(name: str) -> None:
    handled: list[bool] = []
    seconds = 0.3
    before = signal.getsignal(signal.SIGALRM)
    try:
        while len(handled) < 3:  # the first may have come before the kernel began, and the last when it was done
            p, want = lasting(name, seconds)
            small = problem(30, 60)._replace(workspace=p.workspace)
            smalls = {other: answer(other, small) for other in CALLS}

            def handler(*_, small=small, smalls=smalls) -> None:
                handled.append(all(answer(other, small) == right for other, right in smalls.items()))
                signal.setitimer(signal.ITIMER_REAL, 0.001)

            signal.signal(signal.SIGALRM, handler)
            handled.clear()
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            got = answer(name, p)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert got == want
            assert all(handled)
            seconds *= 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


INTERRUPTED_PROGRAM = """
import numpy as np
from unmix import kernels
from unmix.counts.counts import Counts
rng = np.random.default_rng(0)
X = Counts(rng.poisson(1.0, (30_000, 200)))
L, F = rng.random((30_000, 10)), rng.random((200, 10))
print("ready", flush=True)
kernels.em(X.rows, F, L, F.sum(axis=0), None, steps=2_000)
print("finished", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
def test_ctrl_c_interrupts_a_long_kernel() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    try:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode != 0
    assert "finished" not in rest
    assert "KeyboardInterrupt" in errors


# In stacks of 256 MB: room for two and a half of them, so that some of the 63 threads asked for start and the next one cannot.
FEW_THREADS_PROGRAM = """
import resource
import threading
from kernel_calls import CALLS, answer, problem
from unmix.base.threads import use_threads
p = problem(3_000, 40)
def run(name, threads):
    with use_threads(threads):
        return answer(name, p)
wants = {name: run(name, 1) for name in CALLS}
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (640 << 20), resource.RLIM_INFINITY))
done, waiting = threading.Event(), []
try:
    for _ in range(63):
        waiting.append(threading.Thread(target=done.wait))
        waiting[-1].start()
except RuntimeError:
    print("started", len(waiting) - 1, flush=True)
    waiting.pop()
done.set()
for thread in waiting:
    thread.join()
print("other", [name for name in CALLS if run(name, 64) != wants[name]], flush=True)
"""


@limits_memory
def test_threads_that_cannot_be_started_are_done_without() -> None:
    done = run_program(FEW_THREADS_PROGRAM, "sh", "-c", 'ulimit -s 262144 && exec "$@"', "sh")
    if "ulimit" in done.stderr:
        pytest.skip("stacks of this size are not allowed here")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["started", "2", "other", "[]"]


# A row of two million nonzeros needs some 50 MB in every thread; there are 20.
NO_MEMORY_PROGRAM = """
import resource
import numpy as np
from unmix import kernels
from unmix.base.threads import use_threads
size = 2_000_000
rows = kernels.CSR(np.array([0, size]), np.zeros(size, np.int32), np.ones(size))
F, L = np.ones((1, 4)), np.ones((1, 4))
def run():
    with use_threads(2):
        return kernels.cd(rows, F, L, np.ones(4), None, sweeps=1, rule="scd")[0]
want = run()
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (20 << 20), resource.RLIM_INFINITY))
try:
    run()
except MemoryError:
    print("refused", flush=True)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("same", np.array_equal(run(), want), flush=True)
"""


@limits_memory
def test_memory_that_cannot_be_had_within_a_kernel_is_an_error_like_any_other() -> None:
    done = run_program(NO_MEMORY_PROGRAM, MALLOC_ARENA_MAX="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused", "same", "True"]


# Forks while three threads are inside kernels; each child runs every kernel, with threads of its own.
FORKING_PROGRAM = """
import os, sys, threading
from kernel_calls import CALLS, answer, problem
from unmix.base.threads import use_threads
p, small = problem(5_000, 60), problem()
wants = {name: answer(name, small) for name in CALLS}
right = {name: answer(name, p) for name in ("em", "gibbs", "posteriors")}
stop, wrong = threading.Event(), []
def work(name):
    while not stop.is_set():
        if answer(name, p) != right[name]:
            wrong.append(name)
threads = [threading.Thread(target=work, args=(name,)) for name in right]
for thread in threads:
    thread.start()
codes = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        with use_threads(2):
            os._exit(sum(answer(name, small) != want for name, want in wants.items()))
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
print(codes, wrong)
"""


@pytest.mark.skipif(not hasattr(os, "fork") or watched, reason="there is no fork here, or none that may be watched")
def test_a_process_forked_while_kernels_run_computes_the_same() -> None:
    done = run_program(FORKING_PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{[0] * 8} []"
