"""A folder of shards in the making: who is at work there, what is finished, and what is left of it if nothing comes of it.

What is finished is in a journal, so that the same command continues after a kill or a full disk. The manifest is written last:
without it there are no shards.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import ArrayLike

from unmix.base.memory import gigabytes, require
from unmix.base.progress import Progress
from unmix.base.types import Record
from unmix.counts import shards, stores
from unmix.counts.canonical import arrays_of, as_scipy, canonical
from unmix.counts.shards import Shards
from unmix.counts.stores import FEATURES, FORMAT, JOURNAL, MANIFEST, METADATA, SAMPLE, Encoded, Encoder, Part, file_name
from unmix.io.read import errors_about
from unmix.io.read.blocks import blocks_of
from unmix.io.read.raw_counts import RawCounts, errors_by_name
from unmix.storage import tensors
from unmix.storage.files import TEMPORARY, claimed, write_durably
from unmix.storage.schema import Whole, checked

LOCK = f".{JOURNAL}.lock"  # held by the process that writes to the folder, as long as it lives
BESIDE = (FEATURES, SAMPLE, METADATA)
BYTES_PER_NONZERO = {True: 3.2, False: 5.2}  # with and without two-byte indices
BYTES_PER_SAMPLE = 4  # of a shard, without its name
MOST = 2**31 - 1  # samples, or features


class Done(Struct):
    """What a journal says is finished."""

    rows_per_shard: Whole
    shards: list[Part]


@dataclass
class Building:
    """A folder in the making. `source` distinguishes sources; None is one that cannot be asked for again, such as an
    iterator."""

    folder: Path
    source: Record | None
    about: Path | None = None  # the file that errors in the counts are about
    parts: list[Part] = field(default_factory=list)
    rows_per_shard: int = 0
    resumed: int = 0  # shards that an earlier process finished

    def errors(self) -> AbstractContextManager[None]:
        """Names the file, if there is one, in what is said about its counts. A full disk or memory is a different matter."""
        return nullcontext() if self.about is None else errors_about(self.about, keep=(OSError, MemoryError))

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """While this lasts, no other process writes to the folder. A new folder in which nothing is left goes in the end."""
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{self.folder}: is a file; use a folder for the shards")
        new = not self.folder.exists()
        try:
            with ExitStack() as stack:
                try:
                    stack.enter_context(claimed(self.folder / JOURNAL, bool))
                except FileExistsError:
                    problem = "another process is writing shards there; wait for it, or use a different folder"
                    raise ValueError(f"{self.folder}: {problem}") from None
                yield
        finally:
            if new:
                with suppress(OSError):
                    self.folder.rmdir()

    def begin(self) -> None:
        """Take what an earlier process of the same source finished in the folder."""
        if (self.folder / MANIFEST).exists():
            raise ValueError(
                f"{self.folder}: holds shards of a different source, or made with other options; use another folder, "
                "or remove this one first"
            )
        if (self.folder / JOURNAL).exists():
            self._go_on(self._journal())
        elif others := [name for name in self._names() if not _temporary(name)]:
            raise ValueError(f"{self.folder}: holds other files, such as {min(others)!r}; use a new folder")
        finished = {file_name(i) for i in range(len(self.parts))}
        self._remove(lambda name: _temporary(name) or (_ours(name) and name not in finished))
        self.keep_account()

    def _names(self) -> list[str]:
        return [name for name in os.listdir(self.folder) if name != LOCK]

    def _remove(self, unwanted: Callable[[str], bool]) -> None:
        """What dead processes left, and what is not in the journal; or all, in the end."""
        for path in (self.folder / name for name in self._names() if unwanted(name)):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def _journal(self) -> Record:
        try:
            journal = tensors.from_json((self.folder / JOURNAL).read_bytes())
            if not isinstance(journal, dict):
                raise ValueError("no object")
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.folder}: {JOURNAL} cannot be read ({error}); remove the folder first") from None
        return journal

    def _go_on(self, journal: Record) -> None:
        if journal.get("source") != self.source:
            raise ValueError(
                f"{self.folder}: holds unfinished shards of a different source, or made with other options; repeat the command "
                "that began them, give another folder, or remove this one first"
            )
        if self.source is None or journal.get("format") != FORMAT:
            return  # whether these are the same counts no one can tell: from the beginning
        try:
            done = checked(journal, Done, JOURNAL)
        except ValueError:
            return
        self.rows_per_shard = done.rows_per_shard
        for i, part in enumerate(done.shards):
            file = self.folder / file_name(i)
            if not file.is_file() or sha256_of(file) != part.sha256:
                break
            self.parts.append(part)
        self.resumed = len(self.parts)

    def keep_account(self) -> None:
        write_durably(self.folder / JOURNAL, self._account())

    def _account(self) -> bytes:
        done = {"rows_per_shard": self.rows_per_shard, "shards": [asdict(part) for part in self.parts]}
        return json.dumps({"format": FORMAT, "source": self.source} | done).encode()

    def add(self, shard: Encoder, names: list[str] | None) -> None:
        """Write the next shard, and only then say so."""
        arrays = shard.arrays()
        content = tensors.serialized(arrays | ({} if names is None else {"names": tensors.as_bytes(names)}))
        file = file_name(len(self.parts))
        write_durably(self.folder / file, content)
        self.parts.append(shard.part(arrays, content, file))
        self.keep_account()

    def finish(self, raw: RawCounts, m: int, sample: int | None, sample_by: ArrayLike | None) -> None:
        """The features, the sample to start from, and the manifest: a second look at what was written."""
        n = sum(part.rows for part in self.parts)
        chosen = shards.start_sample(n, sample, sample_by)
        totals, found = np.zeros(m), []
        for i, part in enumerate(self.parts):
            arrays = tensors.parsed(tensors.read_bytes(self.folder / file_name(i), part.size))
            shard = Encoded.checked(arrays, part.rows, part.nonzeros, m, thoroughly=False)
            stores.add_feature_totals(totals, shard, shards.TILE)
            first = i * self.rows_per_shard
            here = chosen[slice(*np.searchsorted(chosen, (first, first + part.rows)))] - first
            for start, rows in shard.tiles(shards.TILE):
                some = here[slice(*np.searchsorted(here, (start, start + shards.TILE)))] - start
                if some.size:
                    found.append(as_scipy(rows, (len(rows.indptr) - 1, m))[some])
        matrix = sp.vstack(found, format="csr")
        encoder = Encoder(m)
        encoder.add(arrays_of(matrix))
        arrays = encoder.arrays() | {"rows": chosen.astype("<i8")}
        if raw.samples is not None:
            arrays["names"] = tensors.as_bytes([raw.samples[row] for row in chosen.tolist()])
        about: dict[str, Any] = {"feature_totals": totals.astype("<f8")}
        if raw.features is not None:
            about["names"] = tensors.as_bytes(list(raw.features))
        manifest = {
            "format": FORMAT,
            "shape": [n, m],
            "nonzeros": sum(part.nonzeros for part in self.parts),
            "total": float(sum(part.total for part in self.parts)),
            "checksum": stores.checksum((n, m), self.parts),
            "rows_per_shard": self.rows_per_shard,
            "rows_per_tile": shards.TILE,
            "indices": stores.index_type(m).str,
            "named": raw.samples is not None,
            "features": self._write(FEATURES, about),
            "sample": self._write(SAMPLE, arrays) | {"rows": len(chosen), "nonzeros": matrix.nnz},
            "metadata": None if raw.metadata is None else self._write(METADATA, stores.encoded(raw.metadata)),
            "source": self.source,
            "text": raw.text,
            "shards": [{"file": part.file} | asdict(part) for part in self.parts],
        }
        stores.checked_manifest(manifest)
        write_durably(self.folder / MANIFEST, json.dumps(manifest, indent=1).encode())
        (self.folder / JOURNAL).unlink(missing_ok=True)

    def _write(self, name: str, arrays: dict[str, Any]) -> Record:
        content = tensors.serialized(arrays)
        write_durably(self.folder / name, content)
        return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def abandon(self) -> None:
        """Leave nothing behind: there are no shards of this source."""
        self._remove(lambda name: _ours(name) or _temporary(name) or name == JOURNAL)


def require_disk(building: Building, rows: int, nonzeros: float, m: int) -> None:
    """Refuse what would not fit on the disk, before any of it is written."""
    needed = nonzeros * BYTES_PER_NONZERO[m <= 1 << 16] + rows * BYTES_PER_SAMPLE
    if needed > (free := shutil.disk_usage(building.folder).free):
        about = str(building.about or building.folder)
        raise OSError(28, f"the shards would need {gigabytes(needed)} of disk, {gigabytes(free)} are free", about)


def sha256_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _ours(name: str) -> bool:
    return bool(stores.FILE_NAME.fullmatch(name)) or name in BESIDE


def _temporary(name: str) -> bool:
    """What `replacing` makes of one of our names, or scratch space."""
    found = TEMPORARY.fullmatch(name)
    stem = name.removeprefix(".").rpartition("-")[0] if found is None else found["stem"]
    known = stem == "scratch" or stem.isdigit() or stem in {Path(one).stem for one in (*BESIDE, JOURNAL, MANIFEST)}
    return name.startswith(".") and known


# Blocks of counts -> a folder of shards: cut from scratch, and written one by one. How a source was cut into blocks leaves no
# trace.

BYTES_PER_FEATURE = 32  # in memory: its total, and a row of a dense block


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
    with building.claimed():
        building.begin()
        _fill(building, opened, sample, sample_by, progress)
    return Shards(folder)


def _fill(
    building: Building,
    opened: Callable[[], RawCounts],
    sample: int | None,
    sample_by: ArrayLike | str | None,
    progress: Progress | None,
) -> None:
    folder, raw = building.folder, None
    scratch = folder / f".scratch-{secrets.token_hex(6)}"
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
        goes_on = f"{len(building.parts):,} shards are kept: free some space, and the same command continues after them"
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


def _finished(folder: Path, source: Record) -> Shards | None:
    """Shards that are there, if they are what is asked for and not damaged. If they are damaged, the manifest becomes a journal
    again: what is sound stays."""
    try:
        manifest = tensors.from_json((folder / MANIFEST).read_bytes())
        if manifest["source"] != source:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    with suppress(OSError, ValueError):
        found = Shards(folder)
        files = stores.checked_manifest(manifest).files()
        if all(sha256_of(folder / name) == file.sha256 for name, file in files.items()):
            (folder / JOURNAL).unlink(missing_ok=True)  # of a process that was killed at the very end
            return found
    journal = {name: manifest.get(name) for name in ("format", "source", "rows_per_shard", "shards")}
    write_durably(folder / JOURNAL, json.dumps(journal).encode())
    (folder / MANIFEST).unlink()
    return None


def _write_all(building: Building, raw: RawCounts, scratch: Path, progress: Progress | None) -> int:
    """All shards that are not there yet; the number of features."""
    expected, m = raw.matrix.shape
    nonzeros = getattr(raw.matrix, "nonzeros", None) or 0
    start = sum(part.rows for part in building.parts)
    with building.errors():
        for size, what in ((expected or 0, "samples"), (m, "features")):
            if size > MOST:
                raise ValueError(f"{size:,} {what} are too many; shards hold up to {MOST:,}")
        require(BYTES_PER_FEATURE * m, f"{m:,} features", "take fewer features")
    if expected:
        require_disk(building, expected - start, nonzeros * (1 - start / expected), m)
    written, shard = start, Encoder(m)

    def write() -> None:
        nonlocal written, shard
        names = None if raw.samples is None else raw.samples[written : written + shard.rows]
        building.add(shard, names)
        written, shard = written + shard.rows, Encoder(m)
        if progress is not None:
            progress(written, expected)

    for tile in _tiles(building, raw, start, scratch):
        shard.add(arrays_of(tile))
        if shard.rows == building.rows_per_shard:
            write()
    if shard.rows:
        write()
    if (expected is not None and written != expected) or not building.parts:
        raise ValueError(f"{written:,} samples came, {expected or 'at least one'} were announced")
    for names, size, what in ((raw.samples, written, "samples"), (raw.features, m, "features")):
        if names is not None and len(names) != size:
            raise ValueError(f"{len(names):,} names for {size:,} {what}; use one name each")
    if raw.metadata is not None and len(raw.metadata) != written:
        raise ValueError(f"metadata has {len(raw.metadata):,} rows for {written:,} samples; use one row per sample")
    return m


def _tiles(building: Building, raw: RawCounts, at: int, scratch: Path) -> Iterator[sp.csr_array]:
    """Tiles from blocks of any size, whose first row is row `at` of the whole, which begins a shard."""
    pending, waiting = list[sp.csr_array](), 0
    for block in chain(_canonical_blocks(building, raw, at, scratch), [None]):
        if block is not None:
            pending.append(block)
            waiting += block.shape[0]
        if not waiting or (block is not None and waiting < shards.TILE):
            continue
        rows = pending[0] if len(pending) == 1 else sp.vstack(pending, format="csr")
        if not building.rows_per_shard:
            first = min(waiting, shards.TILE)
            building.rows_per_shard = shards.rows_per_shard(first, int(rows.indptr[first]))
        start = 0
        while start < waiting:
            stop = start + min(shards.TILE, building.rows_per_shard - at % building.rows_per_shard)
            if stop > waiting and block is not None:
                break
            yield rows[start:stop]
            at, start = at + min(stop, waiting) - start, stop
        pending, waiting = ([rows[start:]], waiting - start) if start < waiting else ([], 0)


def _canonical_blocks(building: Building, raw: RawCounts, first: int, scratch: Path) -> Iterator[sp.csr_array]:
    m = raw.matrix.shape[1]
    with closing(blocks_of(raw.matrix, first, scratch)) as blocks:  # an error leaves no thread that reads ahead
        while True:
            with building.errors():
                if (block := next(blocks, None)) is None:
                    return
                if getattr(block, "ndim", 2) != 2 or block.shape[1] != m:
                    raise ValueError(f"a block of shape {block.shape} from row {first:,} on; there are {m:,} features")
                with errors_by_name(raw):
                    checked = canonical(block, first) if block.shape[0] else None
            if checked is not None:
                first += checked.shape[0]
                yield checked


def _labels(by: ArrayLike | str | None, raw: RawCounts) -> ArrayLike | None:
    if not isinstance(by, str):
        return by
    if raw.metadata is None or by not in raw.metadata:
        known = "" if raw.metadata is None else f"; there is {', '.join(map(str, raw.metadata))}"
        raise ValueError(f"no column {by!r} of the samples to choose the start by{known}")
    return raw.metadata[by].astype(str).to_numpy()
