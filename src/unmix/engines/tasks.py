"""Tasks that workers do, and what must agree wherever a fit runs, so that its bits do.

What must be equal wherever a fit runs, for its bits to be: the library, the instruction set, the shards. And a canary, which
catches what no one thought of: a small problem whose result is compared bit by bit.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import distributed
import numpy as np

from unmix import __version__, kernels
from unmix.base.threads import available, use_threads
from unmix.base.types import Floats
from unmix.counts.data import Arrays, Part, Tree, Visit, added
from unmix.counts.shards import Shards, splitmix64
from unmix.counts.sides import FeatureSums, Sides, column_sums
from unmix.counts.stores import MANIFEST
from unmix.engines.local import Kept
from unmix.kernels import CSR
from unmix.storage.files import replacing
from unmix.storage.tensors import digest, parsed, read_bytes, serialized


class Facts(NamedTuple):
    version: str
    isa: str
    canary: str
    manifest: str  # checksum


def facts_of(shards: str) -> Facts:
    """Of this process, and of the shards as it sees them."""
    manifest = Path(shards) / MANIFEST
    try:
        content = manifest.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot see {manifest} ({error.strerror})") from None
    return Facts(__version__, kernels.isa, canary(), hashlib.sha256(content).hexdigest())


def difference(here: Facts, wanted: Facts) -> str:
    """As text, and what to do."""
    if here.version != wanted.version:
        return f"has unmix {here.version}, not {wanted.version}; install the same version everywhere"
    if here.manifest != wanted.manifest:
        return "sees other shards in this folder; use one that all machines share"
    if here.isa != wanted.isa:
        least = min(here.isa, wanted.isa, key=["baseline", "avx2", "avx512"].index)
        return f"computes with {here.isa}, not {wanted.isa}; use machines of one kind, or set UNMIX_ISA={least} on all"
    return "gives other bits for the same small problem; use machines of one kind, and the same libraries"


@cache
def canary() -> str:
    """A hash of what a Newton half-step, the sums for the factors, and the step they allow make of 200 × 500 counts."""
    n, m, K = 200, 500, 11
    noise = splitmix64(np.arange(n * m, dtype=np.uint64)).reshape(n, m)
    counts = np.where(noise % np.uint64(16) == 0, 1 + (noise >> np.uint64(32)) % np.uint64(9), 0)
    counts[np.arange(n), np.arange(n)] = 2
    rows, columns = np.nonzero(counts)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    sides = Sides(Part(CSR(indptr, columns.astype(np.int32), counts[rows, columns].astype(np.uint16)), m))
    L, F = _positive(n, K, 1), _positive(m, K, 2)
    moved, measured = sides.left.update("newton", F, L, measure=True, rounds=3, tolerance=0.0)
    sums = FeatureSums.zeros(m, K)
    sides.right.add_sums(moved, F, sums)
    stepped = sums.step(F, column_sums(moved), counts.sum(axis=0).astype(np.float64), None)
    numbers = (moved, np.array(measured), *sums, stepped)
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in numbers)).hexdigest()[:16]


def _positive(rows: int, columns: int, seed: int) -> Floats:
    numbers = np.arange(rows * columns, dtype=np.uint64) + np.uint64(seed << 32)
    return ((splitmix64(numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 0.01).reshape(rows, columns)


# What workers do: functions of files and plain values that leave files. Anyone who does them, and however often, leaves the same.
#
# Names and checksums travel, and sums between workers; counts and loadings never do.

WAIT = 30.0  # seconds for a file that another machine wrote to be seen here

T = TypeVar("T")


@dataclass(frozen=True)
class Pass:
    """What all tasks of a pass are told."""

    token: str  # of this pass and no other
    shards: str
    folder: str
    facts: Facts  # what every worker must be like
    shared: str  # checksum
    before: int | None
    after: int | None
    busy: dict[str, int]  # threads of all workers of a host

    @property
    def shared_path(self) -> Path:
        return Path(self.folder) / f"shared-{self.token}.safetensors"

    @property
    def sums_path(self) -> Path:
        return Path(self.folder) / f"sums-{self.token}.safetensors"


class Visits(NamedTuple):
    """Of some shards that follow each other: their sums, the checksums of what was left, and addresses of who did it."""

    sums: Arrays
    left: list[str]
    workers: list[str]
    checksum: str = ""  # of the sums of all, which lie in a file


def visit_shards(
    about: Pass, visit: Visit, first: int, last: int, expected: Sequence[str], after: int | None = None
) -> Visits:
    """A visit to each of these shards. `expected` are checksums of what the pass before left there, as far as they are known;
    `after` is the shard that this worker is likely to be given next."""
    with _naming_worker():
        shards, kept, worker = _opened(about.shards, about.facts), Kept(Path(about.folder)), distributed.get_worker()
        shared = _shared(about.shared_path, about.shared)
        tree, left = Tree(), []
        visit = deepcopy(visit)  # arrays that were sent may begin anywhere, and kernels want them aligned
        busy = about.busy.get(host_of(worker.address), worker.state.nthreads)
        with use_threads(max(1, available() // busy)):
            for i in range(first, last):
                if (following := i + 1 if i + 1 < last else after) is not None:
                    shards.soon(following)
                before: Arrays = {}
                if about.before is not None:
                    path = kept.path(about.before, i)
                    before = read_checked(path, expected[i - first] if expected else None)
                visited = visit(shards.tiles(i), shared, before)
                if about.after is not None:
                    left.append(_leave(kept, about, i, visited.left, visited.sums))
                tree.add(visited.sums)
        return Visits(tree.total(), left, [worker.address])


def add_parts(*parts: Visits) -> Visits:
    """In their order. Inputs belong to Dask, which may need them again."""
    sums = {name: array.copy() for name, array in parts[0].sums.items()}
    for part in parts[1:]:
        sums = added(sums, part.sums)
    return Visits(sums, [sha for part in parts for sha in part.left], [name for part in parts for name in part.workers])


def add_all(about: Pass, *parts: Visits) -> Visits:
    """The last sums of a pass, which go to a file: so they are not sent through the scheduler."""
    with _naming_worker():
        whole = add_parts(*parts)
        return whole._replace(sums={}, checksum=write_arrays(about.sums_path, whole.sums))


def worker_facts(shards: str, folder: str, known: str) -> Facts | str:
    """What this worker is like, or which folder it cannot see."""
    if not Path(shards).is_dir():
        return f"cannot see {shards}"
    try:
        _patiently(lambda: (Path(folder) / known).read_bytes(), Path(folder), WAIT / 6)
        with replacing(Path(folder) / f"try-{os.getpid()}") as temporary:
            temporary.write_bytes(b"")
        (Path(folder) / f"try-{os.getpid()}").unlink(missing_ok=True)
    except OSError as error:
        return f"cannot see {folder}, or write there ({error.strerror})"
    try:
        return facts_of(shards)
    except (OSError, ValueError) as error:
        return str(error)


def worker_name() -> str:
    worker = distributed.get_worker()
    return worker.address if str(worker.name) == worker.address else f"{worker.name} ({worker.address})"


def host_of(address: str) -> str:
    return address.rpartition(":")[0]


def read_checked(path: Path, expected: str | None) -> Arrays:
    """Arrays that are there, or are about to be seen from here, and that are what was written."""

    def read() -> Arrays:
        arrays = parsed(read_bytes(path))
        if expected is not None and digest(arrays) != expected:
            raise ValueError(
                f"{path} is not what was written there; another fit uses the same folder, or the disk is damaged"
            )
        return arrays

    try:
        return _patiently(read, path.parent)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}); resume from the last checkpoint") from None


def write_arrays(path: Path, arrays: Arrays) -> str:
    """The checksum."""
    with replacing(path) as temporary:
        temporary.write_bytes(serialized(arrays))  # which says a full disk as an OSError
    return digest(arrays)


def _patiently(read: Callable[[], T], folder: Path, wait: float | None = None) -> T:
    """Network file systems show a new file, or the new contents of one, with some delay; a look at the folder helps."""
    end, pause = time.monotonic() + (WAIT if wait is None else wait), 0.02
    while True:
        try:
            return read()
        except (FileNotFoundError, ValueError):
            if time.monotonic() > end or not folder.is_dir():
                raise
        os.listdir(folder)
        time.sleep(pause)
        pause = min(2 * pause, 2.0)


def _leave(kept: Kept, about: Pass, i: int, left: Arrays, sums: Arrays) -> str:
    """Written, unless an earlier attempt at this task did so; then the two must agree bit for bit."""
    assert about.after is not None
    checksum = digest(left)
    mine = {"token": about.token, "left": checksum, "sums": _quick(sums), "worker": worker_name()}
    earlier = kept.about(about.after, i)
    if earlier.get("token") != about.token:
        kept.write(about.after, i, left, mine)
    elif (earlier["left"], earlier["sums"]) != (mine["left"], mine["sums"]):
        raise ValueError(
            f"workers {earlier['worker']} and {mine['worker']} give different bits for shard {i}: their CPUs or libraries "
            "differ; use one kind of machine and one environment, and resume from the last checkpoint"
        )
    return checksum


def _quick(sums: Arrays) -> str:
    """Enough to determine whether bits are the same; sums are large, and made for every shard."""
    told = []
    for name in sorted(sums):
        data = np.ascontiguousarray(sums[name]).reshape(-1).view(np.uint8)
        words = data[: len(data) // 8 * 8].view(np.uint64)
        told += [
            int(words.sum(dtype=np.uint64)),
            int(np.bitwise_xor.reduce(words, initial=0)),
            data[len(words) * 8 :].tobytes().hex(),
        ]
    return " ".join(map(str, told))


@cache
def _opened(folder: str, facts: Facts) -> Shards:
    """Once a process, for as long as they are the same. A worker may have come after all others were looked at."""
    if (here := facts_of(folder)) != facts:
        raise ValueError(f"{worker_name()} {difference(here, facts)}")
    return Shards(folder)


@lru_cache(maxsize=2)
def _shared(path: Path, checksum: str) -> Arrays:
    return read_checked(path, checksum)


@contextmanager
def _naming_worker() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"worker {worker_name()}: {error.strerror or error}", error.filename) from None
    except ValueError as error:
        raise ValueError(f"worker {worker_name()}: {error}") from None
