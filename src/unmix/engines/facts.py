"""What must be alike wherever a fit runs, for its bits to be: the library, the instruction set, the shards. And a canary, which
catches what nobody thought of: a small problem whose result is compared bit by bit."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unmix import kernels
from unmix._version import __version__
from unmix.shard_files import MANIFEST
from unmix.shards import Tile, splitmix64
from unmix.sides import FeatureSums, Sides, column_sums
from unmix.types import CSR, Floats


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
    """In words, and what to do."""
    if here.version != wanted.version:
        return f"has unmix {here.version}, not {wanted.version}; install the same version everywhere"
    if here.manifest != wanted.manifest:
        return "sees other shards in this folder; give one that all machines share"
    if here.isa != wanted.isa:
        least = _least(here, wanted)
        return f"computes with {here.isa}, not {wanted.isa}; use machines of one kind, or set UNMIX_ISA={least} on all"
    return "gives other bits for the same small problem; use machines of one kind, and the same libraries"


def _least(*facts: Facts) -> str:
    order = ["baseline", "avx2", "avx512"]
    return min((fact.isa for fact in facts), key=lambda isa: order.index(isa) if isa in order else 0)


@cache
def canary() -> str:
    """A hash of what a Newton half-step, the sums for the factors, and the step they allow make of 200 × 500 counts."""
    n, m, K = 200, 500, 11
    noise = splitmix64(np.arange(n * m, dtype=np.uint64)).reshape(n, m)
    counts = np.where(noise % np.uint64(16) == 0, 1 + (noise >> np.uint64(32)) % np.uint64(9), 0)
    counts[np.arange(n), np.arange(n)] = 2
    rows, columns = np.nonzero(counts)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    sides = Sides(Tile(0, (n, m), CSR(indptr, columns.astype(np.int32), counts[rows, columns].astype(np.uint16))))
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
