"""Blocks of counts -> a folder of shards: cut anew, and written one by one. How a source was cut into blocks leaves no trace."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmix import shards
from unmix.canonical import canonical
from unmix.data.building import Building, as_arrays, require_disk, sha256_of
from unmix.data.read.blocks import blocks_of
from unmix.data.read.raw_counts import RawCounts
from unmix.files import write_durably
from unmix.shard_files import MANIFEST
from unmix.shard_stores import JOURNAL, Making, Part, beside
from unmix.shards import Shards
from unmix.types import Record

Progress = Callable[[int, int | None], None]  # samples written, and of how many if that is known


def build(
    folder: Path,
    source: Record | None,
    opened: Callable[[], RawCounts],
    *,
    about: Path | None = None,
    sample: int | None = None,
    sample_by: ArrayLike | str | None = None,
    progress: Progress | None = None,
) -> Shards:
    """Shards of what `opened` gives, in a folder; from there on if some of them are there already."""
    if source is not None and (done := _finished(folder, source)) is not None:
        return done
    building = Building(folder, source, about)
    building.begin()
    scratch, raw = folder / f".scratch-{secrets.token_hex(6)}", None
    try:
        with building.errors():
            raw = opened()
            labels = _labels(sample_by, raw)
            if labels is not None and raw.matrix.shape[0] is not None:
                shards.start_sample(raw.matrix.shape[0], sample, labels)  # what is wrong with them is best said first
        m = _write_all(building, raw, scratch, progress)
        building.finish(raw, m, sample, labels)
    except (OSError, MemoryError) as error:
        if building.source is None or not building.parts:
            building.abandon()
            raise
        goes_on = f"{len(building.parts):,} shards are kept: make room, and the same command goes on from there"
        if isinstance(error, MemoryError):
            raise ValueError(f"{folder}: not enough memory; {goes_on}") from error
        raise OSError(error.errno, f"{error.strerror or error}; {goes_on}", str(error.filename or folder)) from error
    except ValueError:
        if raw is not None or not building.resumed:  # otherwise the source could not even be opened: shards are kept
            building.abandon()
        raise
    except BaseException:
        if building.source is None:
            building.abandon()
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Shards(folder)


def _finished(folder: Path, source: Record) -> Shards | None:
    """Shards that are there, if they are what is asked for and not damaged. If they are damaged, the manifest becomes a journal
    again: what is sound stays."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["source"] != source:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    with suppress(OSError, ValueError):
        found = Shards(folder)
        told = beside(manifest) | {entry["file"]: entry for entry in manifest["shards"]}
        sound = all(sha256_of(folder / name) == entry["sha256"] for name, entry in told.items())
        if sound and "metadata" in manifest:  # earlier versions kept none: all but the shards is written again
            (folder / JOURNAL).unlink(missing_ok=True)  # of a process that was killed at the very end
            return found
    entries = [entry for entry in manifest.get("shards") or () if isinstance(entry, dict)]
    parts = [{name: entry.get(name) for name in Part._fields} for entry in entries]
    journal = {"format": manifest.get("format"), "source": source, "rows_per_shard": manifest.get("rows_per_shard")}
    write_durably(folder / JOURNAL, json.dumps(journal | {"shards": parts}).encode())
    (folder / MANIFEST).unlink()
    return None


def _write_all(building: Building, raw: RawCounts, scratch: Path, progress: Progress | None) -> int:
    """All shards that are not there yet; the number of features."""
    expected, m = raw.matrix.shape
    nonzeros = getattr(raw.matrix, "nonzeros", None)
    start = sum(part.rows for part in building.parts)
    if nonzeros is not None and expected:
        require_disk(building.folder, nonzeros * (1 - start / expected), m)
    written, shard = start, Making(m)

    def write() -> None:
        nonlocal written, shard
        names = None if raw.samples is None else raw.samples[written : written + shard.rows]
        building.add(shard, names)
        written, shard = written + shard.rows, Making(m)
        if progress is not None:
            progress(written, expected)

    for tile in _tiles(building, raw, start, scratch):
        shard.add(as_arrays(tile))
        if shard.rows == building.rows_per_shard:
            write()
    if shard.rows:
        write()
    if (expected is not None and written != expected) or not building.parts:
        raise ValueError(f"{written:,} samples came, {expected or 'at least one'} were announced")
    for names, size, what in ((raw.samples, written, "samples"), (raw.features, m, "features")):
        if names is not None and len(names) != size:
            raise ValueError(f"{len(names):,} names for {size:,} {what}; give one name each")
    if raw.metadata is not None and len(raw.metadata) != written:
        raise ValueError(f"metadata has {len(raw.metadata):,} rows for {written:,} samples; give one row a sample")
    return m


def _tiles(building: Building, raw: RawCounts, start: int, scratch: Path) -> Iterator[sp.csr_array]:
    """Tiles from blocks of any size, whose first row is row `start` of the whole, which begins a shard."""
    pending: list[sp.csr_array] = []
    waiting, at = 0, start
    for block in chain(_canonical_blocks(building, raw, start, scratch), [None]):
        if block is not None:
            pending.append(block)
            waiting += block.shape[0]
        if not building.rows_per_shard and waiting and (block is None or waiting >= shards.TILE):
            building.rows_per_shard = _size(pending)
        size = building.rows_per_shard
        while size and waiting:
            rows = min(shards.TILE, size - at % size)
            if rows > waiting and block is not None:
                break
            rows = min(rows, waiting)
            yield _first_rows(pending, rows)
            at, waiting = at + rows, waiting - rows


def _canonical_blocks(building: Building, raw: RawCounts, first: int, scratch: Path) -> Iterator[sp.csr_array]:
    blocks, m = blocks_of(raw.matrix, first, scratch), raw.matrix.shape[1]
    while True:
        with building.errors():
            if (block := next(blocks, None)) is None:
                return
            if getattr(block, "ndim", 2) != 2 or block.shape[1] != m:
                raise ValueError(f"a block of shape {block.shape} from row {first:,} on; there are {m:,} features")
            checked = _checked(block, first, raw) if block.shape[0] else None
        if checked is not None:
            first += checked.shape[0]
            yield checked


def _size(pending: list[sp.csr_array]) -> int:
    first, nonzeros = 0, 0
    for block in pending:
        some = min(block.shape[0], shards.TILE - first)
        first, nonzeros = first + some, nonzeros + int(block.indptr[some])
    return shards.rows_per_shard(first, nonzeros)


def _first_rows(blocks: list[sp.csr_array], rows: int) -> sp.csr_array:
    """So many rows from the beginning of blocks, which go."""
    taken = []
    while rows:
        block = blocks.pop(0)
        if block.shape[0] > rows:
            blocks.insert(0, _rows(block, rows, block.shape[0]))
            block = _rows(block, 0, rows)
        taken.append(block)
        rows -= block.shape[0]
    return taken[0] if len(taken) == 1 else sp.vstack(taken, format="csr")


def _rows(block: sp.csr_array, first: int, last: int) -> sp.csr_array:
    """Some rows of a block, which share its memory."""
    offsets = block.indptr[first : last + 1]
    some = slice(int(offsets[0]), int(offsets[-1]))
    arrays = block.data[some], block.indices[some], offsets - offsets[0]
    return sp.csr_array(arrays, shape=(last - first, block.shape[1]), copy=False)


def _checked(block: Any, first: int, raw: RawCounts) -> sp.csr_array:
    """A canonical block, or an error about a value of the whole, by name if names are known."""
    try:
        return canonical(block, first)
    except ValueError:
        if raw.samples is not None and raw.features is not None and getattr(block, "dtype", np.dtype("O")).kind in "if":
            entries = sp.coo_array(block)
            bad = np.flatnonzero(~((entries.data >= 0) & (entries.data < np.inf)))
            if bad.size:
                row, column, value = first + entries.row[bad[0]], entries.col[bad[0]], entries.data[bad[0]]
                raise ValueError(
                    f"row {row + 1} ({raw.samples[row]!r}), column {column + 1} ({raw.features[column]!r}) "
                    f"is {value:g}; unmix needs finite counts >= 0"
                ) from None
        raise


def _labels(by: ArrayLike | str | None, raw: RawCounts) -> ArrayLike | None:
    if not isinstance(by, str):
        return by
    if raw.metadata is None or by not in raw.metadata:
        known = "" if raw.metadata is None else f"; there is {', '.join(map(str, raw.metadata))}"
        raise ValueError(f"no column {by!r} of the samples to choose the start by{known}")
    return raw.metadata[by].astype(str).to_numpy()
