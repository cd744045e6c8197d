"""A Dask cluster: workers visit shards that they all see in one folder, and leave loadings and sums in another.

Dask only says who does what. Tasks are functions of files (`engines.tasks`), so one whose worker was killed, or hangs, is done
again elsewhere, with the same result; what matters outlives workers and scheduler.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from distributed import Client

from unmix.base.types import Record
from unmix.counts.data import BRANCHES, Arrays, Before, Visit
from unmix.counts.shards import Shards
from unmix.engines.local import Kept, Usable, cutter
from unmix.engines.passes import Cluster, Run
from unmix.engines.tasks import Facts, Pass, read_checked, write_arrays
from unmix.storage.tensors import digest

TASKS_A_WORKER = 4  # at least, where there are shards enough
DEEPEST = 2  # a task covers at most 8² shards, for little to be lost with it


class Dask(Usable):
    """The workers of a Dask cluster. Needs `pip install 'unmix[dask]'`.

    Parameters
    ----------
    client : Client or str
        A `distributed.Client`, or the address of a scheduler.
    folder : str or PathLike
        For what visits leave. All workers must see it, as well as that of the shards, under the same name. Loadings that a
        checkpoint needs stay there.
    patience : float, default=60.0
        Seconds without any sign of life after which the tasks of a worker are done by others.

    See Also
    --------
    engines.Local : This machine.

    Examples
    --------
    >>> import unmix as um
    >>> with um.engines.Dask("tcp://scheduler:8786", "/shared/visits"):  # doctest: +SKIP
    ...     um.TopicModel(20).fit(um.Shards("/shared/atlas.shards"))
    """

    def __init__(self, client: Client | str, folder: str | os.PathLike[str], *, patience: float = 60.0) -> None:
        self.client = Client(client, set_as_default=False) if isinstance(client, str) else client
        self.folder, self._cluster = Path(folder).absolute(), Cluster(self.client, patience)
        self._own_client = isinstance(client, str)
        self._where: dict[int, Kept] = {}  # the folder of every pass
        self._checksums: dict[int, list[str]] = {}  # of what a pass left, a shard each
        self._folders: list[Kept] = []
        self._checked: tuple[Shards, Facts] | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if not self._uses:
            self.keep_only(set())
            if self._own_client:
                self.client.close()

    def require(self, shards: Shards, n_topics: int) -> None:
        """Shards that workers can see; their memory is theirs to watch."""
        _folder(shards)

    def over(
        self, shards: Shards, visit: Visit, shared: Arrays, *, before: Before = None, after: int | None = None
    ) -> Arrays:
        before = self._numbered(shards, before)
        with self._cluster.reached():
            facts, busy = self._facts(shards), self._cluster.busy()
            kept = self._new_folder() if before is None else self._folder_of(before)
            places = secrets.token_hex(8), str(_folder(shards)), str(kept.folder)
            about = Pass(*places, facts, digest(shared), before, after, busy)
            spans = _spans(shards.n_shards, self._depth(shards.n_shards, sum(busy.values())))
            expected = self._checksums.get(before, []) if before is not None else []
            try:
                write_arrays(about.shared_path, shared)
                part = Run(self._cluster, about, visit, spans, expected).result()
                sums = read_checked(about.sums_path, part.sums["checksum"].tobytes().hex())
            finally:
                about.shared_path.unlink(missing_ok=True)
                about.sums_path.unlink(missing_ok=True)
        if after is not None:
            self._where[after], self._checksums[after] = kept, part.left
        return sums

    def left(self, shards: Shards, number: int) -> Iterator[Arrays]:
        kept, checksums = self._folder_of(number), self._checksums.get(number)
        for i in range(shards.n_shards):
            yield read_checked(kept.path(number, i), checksums[i] if checksums else None)

    def keep_only(self, numbers: set[int]) -> None:
        for number in self._where.keys() - numbers:
            del self._where[number]
            self._checksums.pop(number, None)
        for kept in list(self._folders):
            kept.keep_only({number for number in numbers if self._where.get(number) is kept})
            if kept not in self._where.values() and not kept.saved:
                kept.remove_if_empty()
                self._folders.remove(kept)

    def save(self, shards: Shards, numbers: set[int]) -> Record:
        """The folder they are in, and checksums."""
        kept = self._folder_of(max(numbers))
        for number in numbers:
            if (other := self._folder_of(number)) is not kept:
                for i in range(shards.n_shards):
                    kept.take(other, number, i)
                self._where[number] = kept
        kept.saved = set(numbers)
        checksums = {str(number): self._checksums[number] for number in numbers if number in self._checksums}
        return {"folder": str(kept.folder), "numbers": sorted(numbers), "checksums": checksums}

    def restore(self, shards: Shards, saved: Record) -> None:
        if "folder" not in saved:
            kept = self._new_folder()
            for number, arrays in saved.items():
                cut, checksums = cutter(shards, arrays), []
                for i in range(shards.n_shards):
                    left = cut(i)
                    kept.write(int(number), i, left)
                    checksums.append(digest(left))
                self._where[int(number)], self._checksums[int(number)] = kept, checksums
            return
        source = Kept(Path(saved["folder"]), there=True)
        missing = [
            path for n in saved["numbers"] for i in range(shards.n_shards) if not (path := source.path(n, i)).is_file()
        ]
        if missing:
            raise ValueError(f"{missing[0]}: loadings of the fit are gone; start anew")
        here = source.folder.parent == self.folder
        kept = source if here else self._new_folder()
        if here:
            source.saved = set(saved["numbers"])
            self._folders.append(source)
        for number in saved["numbers"]:
            if not here:
                for i in range(shards.n_shards):
                    kept.take(source, number, i)
            self._where[number] = kept
            if told := saved.get("checksums", {}).get(str(number)):
                self._checksums[number] = list(told)

    def forget(self) -> None:
        """No checkpoint needs what is kept."""
        for kept in self._folders:
            kept.saved = set()
        self.keep_only(set())

    def remove_if_empty(self) -> None:
        with suppress(OSError):
            self.folder.rmdir()

    def _depth(self, shards: int, threads: int) -> int:
        """a, where a task covers 8^a shards. Bits do not depend on it."""
        deep = [a for a in range(DEEPEST + 1) if shards >= BRANCHES**a * TASKS_A_WORKER * threads]
        return max(deep, default=0)

    def _new_folder(self) -> Kept:
        self._folders.append(kept := Kept(self.folder / secrets.token_hex(6)))
        return kept

    def _folder_of(self, number: int) -> Kept:
        if number not in self._where:
            raise KeyError(f"nothing is kept of pass {number}")
        return self._where[number]

    def _facts(self, shards: Shards) -> Facts:
        if self._checked is None or self._checked[0] is not shards:
            self._checked = shards, self._cluster.facts(str(_folder(shards)), self.folder)
        return self._checked[1]


def _spans(shards: int, depth: int) -> list[tuple[int, int]]:
    size = BRANCHES**depth
    return [(first, min(first + size, shards)) for first in range(0, shards, size)]


def _folder(shards: Shards) -> Path:
    if shards.folder is None:
        raise ValueError(
            "the counts are in the memory of this process, where workers cannot see them; write them to a folder that all "
            "workers see with um.shard(counts, folder), and fit um.Shards(folder)"
        )
    return shards.folder.absolute()
