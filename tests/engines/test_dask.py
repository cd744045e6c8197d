"""The Dask engine: the same bits as on one machine, whatever happens to workers, scheduler and client."""

from __future__ import annotations

import http.client
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import numpy as np
import pandas as pd
import psutil
import pytest
from conftest import ROOT, random_counts

import unmix as um
from unmix.counts import shards as shards_module
from unmix.engines import Local

distributed = pytest.importorskip("distributed", reason="the extra unmix[dask] is not installed")

import dask  # noqa: E402
from distributed import Client, LocalCluster, Security, Status, Worker, WorkerPlugin  # noqa: E402

from unmix.cli import main  # noqa: E402
from unmix.engines import Dask, connect, is_open, local, local_cluster, passes, tasks  # noqa: E402
from unmix.io.write import write_counts as um_write  # noqa: E402
from unmix.solvers import Checkpoint  # noqa: E402

# one process of pytest-xdist makes all of these tests, with one cluster
pytestmark = [
    pytest.mark.xdist_group("dask"),
    pytest.mark.skipif(os.name != "posix", reason="signals"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # sockets of the dead
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SETTINGS = {"distributed.scheduler.allowed-failures": 1, "distributed.comm.timeouts.connect": "5s"}
PASSES = 8
KILLS = 25  # at random moments


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 samples in 19 shards of 16, which are 3 groups of 8."""
    path = tmp_path_factory.mktemp("data") / "counts.shards"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards_module, "SHARD", 16)
        patch.setattr(shards_module, "TILE", 8)
        um.shard(um.Counts(random_counts(300, 40)), path)
    return path


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with (
        suppress(KeyError),  # a worker that died is unknown to the cluster when that closes
        dask.config.set(SETTINGS),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as made,
    ):
        over = threading.Event()
        keeper = threading.Thread(target=keep_alive, args=(made, over))
        keeper.start()
        yield made
        over.set()
        keeper.join()


def keep_alive(cluster: LocalCluster, over: threading.Event) -> None:
    """A nanny whose worker was killed while it started does not start another one. Where no worker is left for ten seconds, all
    are made anew, as whoever runs a cluster would see to."""
    gone = 0
    while not over.wait(1):
        gone = 0 if cluster.scheduler.workers else gone + 1
        if gone == 10:
            cluster.scale(0)
            cluster.scale(2)
            gone = 0


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster, set_as_default=False) as made:
        yield made


def whole(cluster: LocalCluster, client: Client) -> None:
    """Both workers are there; a nanny whose worker was killed while it started does not start another one."""
    try:
        client.wait_for_workers(2, timeout=10)
    except distributed.TimeoutError:
        cluster.scale(0)
        cluster.scale(2)
        client.wait_for_workers(2, timeout=120)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "BACK_OFF", 0.1)


def model(**parameters: Any) -> um.PoissonNMF:
    return um.PoissonNMF(
        **{"n_components": 3, "random_state": 0, "max_iter": PASSES, "tol": 0, "init": "random", **parameters}
    )


def fitted(folder: Path, engine: Any, resume: um.Fit | None = None, **parameters: Any) -> um.Fit:
    with engine:
        shards, estimator = um.Shards(folder), model(**parameters)
        return (estimator.fit(shards) if resume is None else estimator.resume(shards, resume)).result_


@pytest.fixture(scope="module")
def expected(folder: Path) -> um.Fit:
    return fitted(folder, Local())


def assert_same(one: um.Fit, two: um.Fit) -> None:
    np.testing.assert_array_equal(one.F, two.F)
    np.testing.assert_array_equal(one.L, two.L)
    assert one.trace["objective"].tolist() == two.trace["objective"].tolist()


def test_topics_of_a_catalogue_are_assigned_as_in_memory(folder: Path, client: Client, tmp_path: Path) -> None:
    known = np.random.default_rng(0).dirichlet(np.full(40, 0.5), 6).T
    shards, groups = um.Shards(folder), np.arange(300) % 2
    answers = [um.assign(X, known, group=groups, random_state=0) for X in (um.Counts(random_counts(300, 40)), shards)]
    with Dask(client, folder=tmp_path / "run"):
        answers.append(um.assign(shards, known, group=groups, random_state=0))
    for other in answers[1:]:
        for name in ("exposures", "probabilities", "allowed", "p", "prevalences"):
            np.testing.assert_array_equal(getattr(answers[0], name), getattr(other, name), err_msg=name)
        assert answers[0].samples.drop(columns="sample").equals(other.samples.drop(columns="sample"))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_bits_do_not_depend_on_where_nor_on_how_many_shards_a_task_covers(
    depth: int, folder: Path, client: Client, expected: um.Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dask, "_depth", lambda *_: depth)
    assert_same(fitted(folder, Dask(client, tmp_path)), expected)


FAMILY: dict[str, Callable[[], Any]] = {
    "LDA": lambda: um.LDA(3, alpha="auto", eta=0.1, random_state=0, max_iter=PASSES, tol=0, init="random"),
    "GammaPoisson": lambda: um.GammaPoisson(3, random_state=0, max_iter=PASSES, tol=0, init="random"),
    "BayesianPoissonNMF": lambda: um.BayesianPoissonNMF(3, random_state=0, max_iter=PASSES, tol=0, init="random"),
    "hierarchical": lambda: um.BayesianPoissonNMF(3, rate_shape=0.3, random_state=0, max_iter=PASSES, tol=0),
}


@pytest.mark.filterwarnings("ignore:effects of batches are estimated from")
@pytest.mark.parametrize("given", [{"batch": np.arange(300) % 3}, {"opportunities": np.arange(1, 41)}])
@pytest.mark.parametrize("kind", [um.TopicModel, um.GammaPoisson, um.BayesianPoissonNMF])
def test_multipliers_of_rates_go_to_the_workers(
    kind: Any, given: Any, folder: Path, client: Client, tmp_path: Path, fault: Any
) -> None:
    options = {"random_state": 0, "max_iter": 22, "tol": 0, "init": "random"}
    with Local():
        here = kind(3, **options).fit(um.Shards(folder), **given).result_
    struck = fault("after rename")
    with Dask(client, tmp_path / "run"):
        there = kind(3, **options).fit(um.Shards(folder), **given).result_
    assert_same(there, here)
    np.testing.assert_array_equal(there.multipliers, here.multipliers)
    assert struck() == 1


def test_known_topics_and_sets_go_to_the_workers(folder: Path, client: Client, tmp_path: Path) -> None:
    known = np.random.default_rng(0).dirichlet(np.ones(40), 2).T
    allowed = np.arange(300)[:, None] % 3 != np.arange(3)
    options = {"known": known, "random_state": 0, "max_iter": 22, "tol": 0, "init": "random"}
    with Local():
        here = um.PoissonNMF(3, **options).fit(um.Shards(folder), allowed=allowed).result_
    with Dask(client, tmp_path / "run"):
        there = um.PoissonNMF(3, **options).fit(um.Shards(folder), allowed=allowed).result_
    assert_same(there, here)
    np.testing.assert_array_equal(there.F[:, :2], known)
    assert not there.L[~allowed].any()


@pytest.mark.parametrize("name", FAMILY)
def test_bits_of_the_whole_family_do_not_depend_on_where(
    name: str, folder: Path, client: Client, tmp_path: Path, fault: Any
) -> None:
    with Local():
        here = FAMILY[name]().fit(um.Shards(folder)).result_
    struck = fault("after rename") if name == "LDA" else None
    with Dask(client, tmp_path / "run"):
        assert_same(FAMILY[name]().fit(um.Shards(folder)).result_, here)
    assert struck is None or struck() == 1


def test_covariates_go_to_the_workers(folder: Path, client: Client, tmp_path: Path) -> None:
    table = pd.DataFrame({"group": list("abc") * 100, "z": np.linspace(-1, 1, 300)})
    model = um.GammaPoisson(3, prevalence="~ group + z", random_state=0, max_iter=12, tol=0)
    with Local():
        here = model.fit(um.Shards(folder).with_metadata(table)).result_
    with Dask(client, tmp_path / "run"):
        there = model.fit(um.Shards(folder).with_metadata(table)).result_
    assert_same(there, here)
    np.testing.assert_array_equal(there.posterior["L_coefficients"], here.posterior["L_coefficients"])


def test_priors_go_to_the_workers(folder: Path, client: Client, tmp_path: Path) -> None:
    priors = {"prior": um.Gamma(1.5, 2.0), "loadings_prior": um.Gamma(np.array([1.1, 1.2, 1.3]), np.ones(3))}
    assert_same(fitted(folder, Dask(client, tmp_path), **priors), fitted(folder, Local(), **priors))


def test_a_task_covers_more_shards_where_there_are_many(client: Client, tmp_path: Path) -> None:
    depth = Dask(client, tmp_path)._depth
    assert [depth(shards, 2) for shards in (1, 63, 64, 511, 512, 10**6)] == [0, 0, 1, 1, 2, 2]


def test_only_what_a_checkpoint_needs_stays_in_the_folder(folder: Path, client: Client, tmp_path: Path) -> None:
    engine = Dask(client, tmp_path / "run")
    result = fitted(folder, engine)
    kept = {local.NAME.fullmatch(path.name).group(1) for path in (tmp_path / "run").rglob("*") if path.is_file()}  # type: ignore[union-attr]
    assert {int(number) for number in kept} == set(result.state["loadings"]["numbers"])  # type: ignore[index]
    fitted(folder, other := Dask(client, tmp_path / "other"), max_iter=200, tol=1e-3)
    assert not list(other.folder.iterdir())


def test_counts_in_memory_are_refused_with_what_to_do(client: Client, tmp_path: Path) -> None:
    with Dask(client, tmp_path), pytest.raises(ValueError, match=r"um\.shard\(counts, folder\)"):
        model().fit(um.Shards.of(um.Counts(random_counts())))


# Faults


class Fault(WorkerPlugin):
    """Kills its worker at a point of its work, `times` times in all; files say how often it has."""

    def __init__(self, point: str, marks: Path, times: int = 1, after: int = 2, shard: int | None = None) -> None:
        self.point, self.marks, self.times, self.after = point, str(marks), times, after
        self.shard = shard  # before reading this one only
        self.name = f"fault-{marks}"

    def setup(self, worker: Worker) -> None:
        owner, name = {
            "before read": (tasks.Shards, "tiles"),
            "after read": (tasks, "read_checked"),
            "half-written": (Path, "write_bytes"),
            "after rename": (local.Kept, "write"),
            "in a sum": (tasks, "added"),
            "before the last return": (tasks, "write_arrays"),
        }[self.point]
        self.owner, self.attribute, self.original = owner, name, getattr(owner, name)
        late, calls = self.point in ("after read", "after rename", "before the last return"), [0]

        @wraps(self.original)
        def dying(*arguments: Any, **named: Any) -> Any:
            calls[0] += 1
            done = self.original(*arguments, **named) if late else None
            here = self.shard is None or self.shard in arguments
            if here and calls[0] > self.after and self._mine():
                if self.point == "half-written":
                    with arguments[0].open("wb") as file:
                        file.write(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
            return done if late else self.original(*arguments, **named)

        setattr(owner, name, dying)

    def teardown(self, worker: Worker) -> None:
        setattr(self.owner, self.attribute, self.original)

    def _mine(self) -> bool:
        for time_of_death in range(self.times):
            try:
                os.close(os.open(f"{self.marks}-{time_of_death}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False


@pytest.fixture
def fault(client: Client, cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[..., Callable[[], int]]]:
    """Registers faults; each is a function that tells how often it struck."""
    names = []

    def register(point: str, **how: int) -> Callable[[], int]:
        plugin = Fault(point, marks := tmp_path / f"fault{len(names)}", **how)
        names.append(plugin.name)
        client.register_plugin(plugin)
        return lambda: len(list(marks.parent.glob(f"{marks.name}-*")))

    yield register
    whole(cluster, client)
    for name in names:
        client.unregister_worker_plugin(name)


POINTS = ["before read", "after read", "half-written", "after rename", "in a sum", "before the last return"]


KILLED = [pytest.param(point, after, marks=pytest.mark.kills) for point in POINTS for after in (0, 1, 2)]


@pytest.mark.parametrize(("point", "after"), [("half-written", 2), *KILLED])
def test_a_worker_that_is_killed_changes_nothing(
    point: str, after: int, folder: Path, client: Client, expected: um.Fit, tmp_path: Path, fault: Any
) -> None:
    struck = fault(point, after=after)
    assert_same(fitted(folder, Dask(client, tmp_path / "run")), expected)
    assert struck() == 1


@pytest.mark.kills
def test_random_kills_change_nothing(folder: Path, client: Client, cluster: LocalCluster, tmp_path: Path) -> None:
    rng, threads, struck = random.Random(0), list[threading.Timer](), list[int]()

    def strike() -> None:
        pids = [worker.pid for worker in cluster.workers.values() if worker.pid and worker.status == Status.running]
        with suppress(IndexError, ProcessLookupError):  # all are dead at the moment, or this one has just died
            os.kill(pid := rng.choice(pids), signal.SIGKILL)
            struck.append(pid)

    def kill(progress: Any) -> None:
        if progress.row["iteration"] % 3 == 1 and len(threads) < KILLS:
            threads.append(threading.Timer(rng.uniform(0, 0.3), strike))
            threads[-1].start()

    long = {"max_iter": 3 * KILLS + 3}
    disturbed = fitted(folder, Dask(client, tmp_path), callbacks=[kill], **long)
    for thread in threads:
        thread.join()
    assert len(threads) == KILLS
    assert struck
    assert_same(disturbed, fitted(folder, Local(), **long))


@pytest.mark.kills
def test_a_task_that_ends_several_workers_is_tried_again(
    folder: Path, client: Client, expected: um.Fit, tmp_path: Path, fault: Any
) -> None:
    struck = fault("before read", times=4, after=0, shard=3)
    assert_same(fitted(folder, Dask(client, tmp_path / "run")), expected)
    assert struck() == 4


ALONE = ("--nthreads", "1", "--no-nanny")


def started(what: str, file: Path, environment: dict[str, str], *more: str) -> subprocess.Popen[bytes]:
    module = f"distributed.cli.dask_{what}"
    command = [sys.executable, "-m", module, "--scheduler-file", str(file), "--no-dashboard", *more]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


@contextmanager
def processes(file: Path, workers: int = 1) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A scheduler and workers that nobody starts again, the scheduler first."""
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1", "PYTHONPATH": path}
    there = [started("scheduler", file, environment, "--port", "0")]
    try:
        there += [started("worker", file, environment, *ALONE) for _ in range(workers)]
        deadline = time.monotonic() + 120
        while not file.is_file():
            assert time.monotonic() < deadline, "the scheduler did not come"
            time.sleep(0.1)
        yield there
    finally:
        for process in there:
            process.kill()
            process.wait()


def test_a_task_that_ends_all_workers_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "TRIES", 1)
    file = tmp_path / "scheduler.json"
    with processes(file, 2), Client(scheduler_file=str(file), set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)
        client.register_plugin(Fault("before read", tmp_path / "fault", times=2, after=0, shard=3))
        # Dask blames any task that a dead worker had been given, of which one waits beside the one at work
        with pytest.raises(ConnectionError, match=r"visit to shards from \d+ on ended 2 workers.*memory.*resume"):
            fitted(folder, Dask(client, tmp_path / "run"))


@pytest.mark.kills
def test_a_fit_waits_for_the_worker_that_comes_after_all_are_dead(
    folder: Path, expected: um.Fit, tmp_path: Path
) -> None:
    file = tmp_path / "scheduler.json"
    with processes(file) as there, Client(scheduler_file=str(file), set_as_default=False) as client:

        def kill(progress: Any) -> None:
            if progress.row["iteration"] == 3:
                there[1].kill()
                late = threading.Timer(3, lambda: there.append(started("worker", file, dict(os.environ), *ALONE)))
                late.start()

        assert_same(fitted(folder, Dask(client, tmp_path / "run", patience=2), callbacks=[kill]), expected)
        assert len(there) == 3


def test_a_worker_that_hangs_is_done_without(
    folder: Path, client: Client, cluster: LocalCluster, expected: um.Fit, tmp_path: Path
) -> None:
    whole(cluster, client)
    stopped = next(worker.pid for worker in cluster.workers.values() if worker.pid)

    def stop(progress: Any) -> None:
        if progress.row["iteration"] == 3:
            os.kill(stopped, signal.SIGSTOP)

    try:
        assert_same(fitted(folder, Dask(client, tmp_path, patience=2), callbacks=[stop]), expected)
    finally:
        os.kill(stopped, signal.SIGKILL)


def test_a_retried_task_with_other_bits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, sums = local.Kept(tmp_path), {"v": np.ones(3)}
    about = tasks.Pass("token", "", str(tmp_path), tasks.Facts("", "", "", ""), "", None, 7, {})
    monkeypatch.setattr(tasks, "worker_name", lambda: "tcp://one:1")
    checksum = tasks._leave(kept, about, 4, {"L": np.ones((2, 3))}, sums)
    assert tasks._leave(kept, about, 4, {"L": np.ones((2, 3))}, sums) == checksum
    monkeypatch.setattr(tasks, "worker_name", lambda: "tcp://two:2")
    for left, others in (
        ({"L": np.full((2, 3), 1 + 1e-16 + 2**-52)}, sums),
        ({"L": np.ones((2, 3))}, {"v": np.full(3, 2.0)}),
    ):
        with pytest.raises(ValueError, match=r"tcp://one:1 and tcp://two:2 give different bits for shard 4"):
            tasks._leave(kept, about, 4, left, others)


# Client and scheduler

SCRIPT = """
import os, signal, sys
import unmix as um
from unmix.engines import Dask
from unmix.solvers import Checkpoint
from distributed import Client, LocalCluster

def die(progress):
    if progress.row["iteration"] == 5:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    folder, run, checkpoint, passes = sys.argv[1:]
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        with Dask(client, run):
            model = um.PoissonNMF(3, random_state=0, max_iter=int(passes), tol=0, init="random")
            model.set_params(callbacks=[Checkpoint(checkpoint, 0), die]).fit(um.Shards(folder))
"""


def test_a_fit_whose_client_and_scheduler_were_killed_is_resumed_with_the_same_bits(
    folder: Path, client: Client, expected: um.Fit, tmp_path: Path
) -> None:
    script, checkpoint = tmp_path / "script.py", tmp_path / "checkpoint.safetensors"
    script.write_text(SCRIPT)
    ended = subprocess.run([sys.executable, script, folder, tmp_path / "run", checkpoint, str(PASSES)], check=False)
    assert ended.returncode == -signal.SIGKILL
    left = um.load(checkpoint)
    assert left.trace["iteration"].iloc[-1] == 5
    assert_same(fitted(folder, Local(), resume=left), expected)
    assert_same(fitted(folder, Dask(client, tmp_path / "elsewhere"), resume=left), expected)
    assert_same(fitted(folder, Dask(client, tmp_path / "run"), resume=left), expected)


def test_a_scheduler_that_is_gone_is_said_and_the_fit_resumed(folder: Path, expected: um.Fit, tmp_path: Path) -> None:
    file, checkpoint = tmp_path / "scheduler.json", tmp_path / "checkpoint.safetensors"
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        processes(file) as (scheduler, _),
        Client(scheduler_file=str(file), set_as_default=False) as client,
    ):

        def kill(progress: Any) -> None:
            if progress.row["iteration"] == 4:
                scheduler.kill()

        with pytest.raises(ConnectionError, match=r"scheduler is gone.*resume"):
            fitted(folder, Dask(client, tmp_path / "run"), callbacks=[Checkpoint(checkpoint, 0), kill])
    assert_same(fitted(folder, Local(), resume=um.load(checkpoint)), expected)


@pytest.mark.parametrize("passes", [4, *(pytest.param(n, marks=pytest.mark.kills) for n in range(1, PASSES) if n != 4)])
def test_a_fit_goes_on_where_another_engine_left_it(
    passes: int, folder: Path, client: Client, expected: um.Fit, tmp_path: Path
) -> None:
    def stop(progress: Any) -> str | None:
        return "max_iter" if progress.row["iteration"] == passes else None

    here = fitted(folder, Local(), callbacks=[stop])
    there = fitted(folder, Dask(client, tmp_path), callbacks=[stop])
    assert_same(fitted(folder, Dask(client, tmp_path), resume=here), expected)
    assert_same(fitted(folder, Local(), resume=there), expected)


# Guards


def test_workers_that_would_give_other_bits_are_refused_by_name(folder: Path, client: Client, tmp_path: Path) -> None:
    if um.kernels.isa == "baseline":
        pytest.skip("this CPU knows the baseline only")
    early, shards = Dask(client, tmp_path), um.Shards(folder)
    with early:
        model(max_iter=1).fit(shards)
    command = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        client.scheduler.address,
        "--nthreads",
        "1",
        "--name",
        "odd",
    ]
    environment = os.environ | {"UNMIX_ISA": "baseline"}
    odd = subprocess.Popen([*command, "--no-nanny", "--no-dashboard"], env=environment, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not any(known["name"] == "odd" for known in client.scheduler_info(n_workers=-1)["workers"].values()):
            assert time.monotonic() < deadline, "the odd worker did not come"
            time.sleep(0.1)
        with pytest.raises(ValueError, match=r"worker tcp://.* computes with baseline, not .*UNMIX_ISA=baseline"):
            fitted(folder, Dask(client, tmp_path))
        with early, pytest.raises(ValueError, match=r"odd \(tcp://.*\) computes with baseline"):
            model().fit(shards)  # all were looked at before this one came
    finally:
        odd.terminate()
        odd.wait()


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs /proc")
def test_a_folder_that_a_worker_cannot_see_is_named(
    folder: Path, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "WAIT", 0.1)
    monkeypatch.chdir(folder.parent)  # workers are elsewhere, so that the names below are other places for them
    with pytest.raises(ValueError, match=r"worker tcp://\S+ cannot see /proc/self/cwd/counts\.shards"):
        fitted(Path("/proc/self/cwd/counts.shards"), Dask(client, tmp_path))
    (folder.parent / "run").mkdir(exist_ok=True)
    with pytest.raises(ValueError, match=r"worker tcp://\S+ cannot see /proc/self/cwd/run"):
        fitted(folder, Dask(client, "/proc/self/cwd/run"))


def test_the_canary_is_the_same_every_time_and_hears_of_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    first = tasks.canary()
    tasks.canary.cache_clear()
    assert tasks.canary() == first
    tasks.canary.cache_clear()
    step = tasks.FeatureSums.step
    monkeypatch.setattr(tasks.FeatureSums, "step", lambda *given: step(*given) * (1 + 2**-52))
    assert tasks.canary() != first
    tasks.canary.cache_clear()


# By a word


@pytest.mark.parametrize("address", ["local:0", "local", "nothing.json", "8 workers"])
def test_what_is_not_an_address_is_refused(address: str, tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"is not the address of a Dask cluster.*tcp://host:8786"),
        connect(address, tmp_path),
    ):
        pass


def test_a_cluster_by_its_address_changes_nothing(
    folder: Path, cluster: LocalCluster, expected: um.Fit, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with connect(cluster.scheduler_address, run):
        result = model().fit(um.Shards(folder)).result_
    assert_same(result, expected)
    with connect(cluster.scheduler_address, run):
        assert_same(model().resume(um.Shards(folder), result).result_, expected)
    assert run.is_dir()  # the fit can be resumed
    shutil.rmtree(run)
    with connect(cluster.scheduler_address, run) as engine:
        model(max_iter=200, tol=1e-3).fit(um.Shards(folder))
        engine.forget()
    assert not run.exists()


def test_an_encrypted_cluster_is_reached_with_the_certificates_of_dasks_configuration(
    folder: Path, expected: um.Fit, tmp_path: Path
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=unmix"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    known: dict[str, Any] = {"ca-file": certificate}
    for role in ("client", "scheduler", "worker"):
        known |= {f"{role}.cert": certificate, f"{role}.key": key}
    known = {f"distributed.comm.tls.{name}": str(file) for name, file in known.items()}
    known["distributed.comm.require-encryption"] = True
    with (
        dask.config.set(SETTINGS | known),
        LocalCluster(
            n_workers=1, threads_per_worker=1, protocol="tls://", security=Security(), dashboard_address=":0"
        ) as cluster,
    ):
        assert cluster.scheduler_address.startswith("tls://")
        with connect(cluster.scheduler_address, tmp_path / "run"):
            assert_same(model().fit(um.Shards(folder)).result_, expected)


def test_a_cluster_fits_shards_on_disk_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    um_write(um.Counts(random_counts()), tmp_path / "x.npz")
    with pytest.raises(SystemExit) as end:
        main(["fit", str(tmp_path / "x.npz"), "-k", "2", "--dask", "local:1", "-o", str(tmp_path / "out"), "--quiet"])
    assert end.value.code == 2
    assert "--dask local:1; these counts are in memory: make shards" in capsys.readouterr().err


def test_an_address_without_certificates_is_said_to_be_open(tmp_path: Path) -> None:
    (tmp_path / "scheduler.json").write_text('{"address": "tcp://10.0.0.1:8786"}')
    words = (
        "tcp://10.0.0.1:8786",
        "tcp://127.0.0.1:1",
        str(tmp_path / "scheduler.json"),
        "tls://10.0.0.1:1",
        "local:2",
    )
    assert [is_open(word) for word in words] == [True, True, True, False, False]


def _listening() -> set[Any]:
    """Where this process and its children take connections."""
    own = psutil.Process()
    connections = (one for process in (own, *own.children(recursive=True)) for one in process.net_connections("tcp"))
    return {connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN}


def _answers(place: SplitResult, context: ssl.SSLContext | None) -> bool:
    """Whether a peer that connects like this is greeted, as Dask greets everyone it takes for its own."""
    with suppress(OSError), socket.create_connection((place.hostname, place.port), timeout=5) as plain:
        if context is None:
            return bool(plain.recv(1))
        with context.wrap_socket(plain, server_hostname=place.hostname) as wrapped:
            return bool(wrapped.recv(1))
    return False


def test_a_local_cluster_lets_nobody_in_without_its_certificate(folder: Path, expected: um.Fit, tmp_path: Path) -> None:
    before = _listening()
    with local_cluster(1) as cluster:
        address = cluster.scheduler_address
        ports = {urlsplit(place).port for place in (address, *cluster.scheduler.workers)}
        assert address.startswith("tls://127.0.0.1:")
        anyone = ssl._create_unverified_context()
        stranger = Security.temporary().get_connection_args("client")["ssl_context"]  # with a certificate of its own
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        for context in (None, anyone, stranger):
            assert not _answers(urlsplit(address), context), "a scheduler without a known certificate says nothing"
        owner = cluster.security.get_connection_args("client")["ssl_context"]
        assert _answers(urlsplit(address), owner)
        listening = _listening() - before
        assert ports <= {place.port for place in listening}
        assert {place.ip for place in listening} == {"127.0.0.1"}, "reached from this machine alone"
        for place in listening:  # nor does anything answer a browser
            with (
                suppress(OSError, http.client.HTTPException),
                closing(http.client.HTTPConnection(place.ip, place.port, timeout=2)) as browser,
            ):
                browser.request("GET", "/info/main/workers.html")
                assert browser.getresponse().status == 404
    with connect("local:1", tmp_path / "run"):
        assert_same(model().fit(um.Shards(folder)).result_, expected)


def test_an_encrypted_address_without_certificates_says_what_to_set(folder: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"no certificates.*distributed\.comm\.tls"),
        connect("tls://127.0.0.1:1", folder),
    ):
        pass
