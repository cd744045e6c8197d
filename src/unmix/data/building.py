"""A folder of shards in the making: who is at work there, what is finished, and what is left of it if nothing comes of it.

What is finished stands in a journal, so that the same command goes on after a kill or a full disk. The manifest is written last:
without it there are no shards.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmix import shard_files, shard_tables, shards
from unmix.data.read import errors_about
from unmix.data.read.raw_counts import RawCounts
from unmix.files import TEMPORARY, write_durably
from unmix.memory import gigabytes
from unmix.shard_files import FEATURES, MANIFEST, METADATA, SAMPLE, Encoded, file_name
from unmix.shard_stores import FORMAT, JOURNAL, Making, Part, add_feature_totals, as_scipy, checksum
from unmix.types import CSR, Record

ABANDONED = 600  # seconds after which a journal of another host is taken to be that of a dead process
BESIDE = (FEATURES, SAMPLE, METADATA)
BYTES_PER_NONZERO = {True: 3.2, False: 5.2}  # with and without two-byte indices


@dataclass
class Building:
    """A folder in the making. `source` tells sources apart; None is one that cannot be asked for again, such as an iterator."""

    folder: Path
    source: Record | None
    about: Path | None = None  # the file that errors in the counts are about
    parts: list[Part] = field(default_factory=list)
    rows_per_shard: int = 0
    resumed: int = 0  # shards that an earlier process finished
    made_folder: bool = False

    def errors(self) -> AbstractContextManager[None]:
        """Names the file, if there is one, in what is said about its counts. A full disk or memory is another matter."""
        return nullcontext() if self.about is None else errors_about(self.about, keep=(OSError, MemoryError))

    def begin(self) -> None:
        """Take the folder, and what an earlier process of the same source finished in it."""
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{self.folder}: is a file; give a folder for the shards")
        self.made_folder = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / MANIFEST).exists():
            raise ValueError(
                f"{self.folder}: holds shards of another source, or made with other options; give another folder, "
                "or remove this one first"
            )
        if (self.folder / JOURNAL).exists():
            self._go_on(self._journal())
        elif others := [name for name in os.listdir(self.folder) if not _temporary(name)]:
            raise ValueError(f"{self.folder}: holds other files, such as {min(others)!r}; give a new folder")
        else:
            self._claim()
        self._sweep()
        self.keep_account()

    def _claim(self) -> None:
        """A journal with our name in it, unless another process is quicker."""
        own = self.folder / f".{Path(JOURNAL).stem}-{secrets.token_hex(6)}"
        try:
            own.write_bytes(self._account())
            try:
                os.link(own, self.folder / JOURNAL)
            except FileExistsError:
                raise
            except OSError:  # a file system without links
                (self.folder / JOURNAL).open("xb").close()
        except FileExistsError:
            raise ValueError(f"{self.folder}: another process has just begun to write shards there") from None
        finally:
            own.unlink(missing_ok=True)

    def _journal(self) -> Record:
        try:
            journal = json.loads((self.folder / JOURNAL).read_text(encoding="utf-8"))
            if not isinstance(journal, dict):
                raise ValueError("no object")
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.folder}: {JOURNAL} cannot be read ({error}); remove the folder first") from None
        return journal

    def _go_on(self, journal: Record) -> None:
        if owner := _at_work(journal, self.folder / JOURNAL):
            raise ValueError(f"{self.folder}: {owner} is writing shards there; wait for it, or give another folder")
        if journal.get("source") != self.source:
            raise ValueError(
                f"{self.folder}: holds unfinished shards of another source, or made with other options; repeat the command "
                "that began them, give another folder, or remove this one first"
            )
        if self.source is None or journal.get("format") != FORMAT:
            return  # whether these are the same counts nobody can tell: from the beginning
        try:
            self.rows_per_shard = int(journal["rows_per_shard"])
            parts = [Part(**entry) for entry in journal["shards"]]
        except (KeyError, TypeError, ValueError):
            return
        for i, part in enumerate(parts):
            file = self.folder / file_name(i)
            if not file.is_file() or sha256_of(file) != part.sha256:
                break
            self.parts.append(part)
        self.resumed = len(self.parts)

    def _sweep(self) -> None:
        """What dead processes left, and what is not in the journal."""
        finished = {file_name(i) for i in range(len(self.parts))}
        for name in os.listdir(self.folder):
            path = self.folder / name
            if path.is_dir() and _temporary(name):
                shutil.rmtree(path, ignore_errors=True)
            elif _temporary(name) or (_ours(name) and name not in finished):
                path.unlink(missing_ok=True)

    def keep_account(self) -> None:
        write_durably(self.folder / JOURNAL, self._account())

    def _account(self) -> bytes:
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "started": _started(os.getpid())}
        done = {"rows_per_shard": self.rows_per_shard, "shards": [part._asdict() for part in self.parts]}
        return json.dumps({"format": FORMAT} | owner | {"source": self.source} | done).encode()

    def add(self, shard: Making, names: list[str] | None) -> None:
        """Write the next shard, and only then say so."""
        arrays = shard.encoder.arrays()
        content = shard_files.serialized(arrays | ({} if names is None else {"names": shard_files.as_bytes(names)}))
        write_durably(self.folder / file_name(len(self.parts)), content)
        self.parts.append(shard.part(arrays, content))
        self.keep_account()

    def finish(self, raw: RawCounts, m: int, sample: int | None, sample_by: ArrayLike | None) -> None:
        """The features, the sample to start from, and the manifest: a second look at what was written."""
        n = sum(part.rows for part in self.parts)
        chosen = shards.start_sample(n, sample, sample_by)
        totals, found = np.zeros(m), []
        for i, part in enumerate(self.parts):
            arrays = shard_files.tensors((self.folder / file_name(i)).read_bytes())
            shard = Encoded.checked(arrays, part.rows, part.nonzeros, m, thoroughly=False)
            add_feature_totals(totals, shard, part.rows, shards.TILE)
            first = i * self.rows_per_shard
            here = chosen[slice(*np.searchsorted(chosen, (first, first + part.rows)))] - first
            for start in range(0, part.rows, shards.TILE):
                stop = min(start + shards.TILE, part.rows)
                some = here[slice(*np.searchsorted(here, (start, stop)))] - start
                if some.size:
                    found.append(as_scipy(shard.rows(start, stop), (stop - start, m))[some])
        matrix = sp.vstack(found, format="csr")
        encoder = shard_files.Encoder(m)
        encoder.add(as_arrays(matrix))
        arrays = encoder.arrays() | {"rows": chosen.astype("<i8")}
        if raw.samples is not None:
            arrays["names"] = shard_files.as_bytes([raw.samples[row] for row in chosen.tolist()])
        about: dict[str, Any] = {"feature_totals": totals.astype("<f8")}
        if raw.features is not None:
            about["names"] = shard_files.as_bytes(list(raw.features))
        manifest = {
            "format": FORMAT,
            "shape": [n, m],
            "nonzeros": sum(part.nonzeros for part in self.parts),
            "total": float(sum(part.total for part in self.parts)),
            "checksum": checksum((n, m), self.parts),
            "rows_per_shard": self.rows_per_shard,
            "rows_per_tile": shards.TILE,
            "indices": shard_files.index_type(m).str,
            "named": raw.samples is not None,
            "features": self._write(FEATURES, about),
            "sample": self._write(SAMPLE, arrays) | {"rows": len(chosen), "nonzeros": matrix.nnz},
            "metadata": None if raw.metadata is None else self._write(METADATA, shard_tables.encoded(raw.metadata)),
            "source": self.source,
            "text": raw.text,
            "shards": [{"file": file_name(i)} | part._asdict() for i, part in enumerate(self.parts)],
        }
        write_durably(self.folder / MANIFEST, json.dumps(manifest, indent=1).encode())
        (self.folder / JOURNAL).unlink(missing_ok=True)

    def _write(self, name: str, arrays: dict[str, Any]) -> Record:
        content = shard_files.serialized(arrays)
        write_durably(self.folder / name, content)
        return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def abandon(self) -> None:
        """Leave nothing behind: there are no shards of this source."""
        for name in os.listdir(self.folder):
            if _ours(name) or _temporary(name) or name == JOURNAL:
                path = self.folder / name
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        if self.made_folder:
            with suppress(OSError):
                self.folder.rmdir()


def require_disk(folder: Path, nonzeros: float, m: int | None) -> None:
    """Refuse what would not fit on the disk, before any of it is written."""
    needed = nonzeros * BYTES_PER_NONZERO[m is None or m <= 1 << 16]
    if needed > (free := shutil.disk_usage(folder).free):
        raise OSError(28, f"the shards would need {gigabytes(needed)}, {gigabytes(free)} are free", str(folder))


def as_arrays(matrix: sp.csr_array) -> CSR:
    return CSR(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data)


def sha256_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _ours(name: str) -> bool:
    return bool(shard_files.FILE_NAME.fullmatch(name)) or name in BESIDE


def _temporary(name: str) -> bool:
    """What `replacing` makes of one of our names, or scratch space."""
    found = TEMPORARY.fullmatch(name)
    stem = name.removeprefix(".").rpartition("-")[0] if found is None else found["stem"]
    known = stem == "scratch" or stem.isdigit() or stem in {Path(one).stem for one in (*BESIDE, JOURNAL, MANIFEST)}
    return name.startswith(".") and known


def _at_work(journal: Record, file: Path) -> str | None:
    """Who is writing at this moment, as far as can be known."""
    pid, host = journal.get("pid"), journal.get("host")
    if not isinstance(pid, int) or pid == os.getpid():
        return None
    if host != socket.gethostname():
        recent = time.time() - file.stat().st_mtime < ABANDONED
        return f"process {pid} on {host}" if recent else None
    if os.name != "posix":
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return f"process {pid}" if _started(pid) == journal.get("started") else None


def _started(pid: int) -> str | None:
    """When a process began, where the system tells: numbers of processes are used again."""
    try:
        state, *told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if state == "Z" else told[18]
    except (OSError, IndexError):
        return None
