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
from typing import Any

from distributed import Client

from unmix.base.types import Record
from unmix.counts.data import BRANCHES, Arrays, Before, Engine, Visit
from unmix.counts.shards import Shards
from unmix.engines.local import Kept, cut
from unmix.engines.passes import Cluster, Run
from unmix.engines.tasks import Facts, Pass, read_checked, write_arrays
from unmix.storage.tensors import digest

TASKS_A_WORKER = 4  # at least, where there are shards enough
DEEPEST = 2  # a task covers at most 8² shards, for little to be lost with it


class Dask(Engine):
    """The workers of a Dask cluster. Needs the package distributed.

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
        # the folder of each pass, and a checksum a shard if they are known
        self._passes: dict[int, tuple[Kept, list[str]]] = {}
        self._folders: list[Kept] = []
        self._checked: tuple[Shards, Facts] | None = None

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
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
            kept, expected = (self._new_folder(), []) if before is None else self._passes[before]
            places = secrets.token_hex(8), str(_folder(shards)), str(kept.folder)
            about = Pass(*places, facts, digest(shared), before, after, busy)
            size = BRANCHES ** self._depth(shards.n_shards, sum(busy.values()))
            spans = [(first, min(first + size, shards.n_shards)) for first in range(0, shards.n_shards, size)]
            try:
                write_arrays(about.shared_path, shared)
                part = Run(self._cluster, about, visit, spans, expected).result()
                sums = read_checked(about.sums_path, part.checksum)
            finally:
                about.shared_path.unlink(missing_ok=True)
                about.sums_path.unlink(missing_ok=True)
        if after is not None:
            self._passes[after] = kept, part.left
        return sums

    def left(self, shards: Shards, number: int) -> Iterator[Arrays]:
        kept, checksums = self._passes[number]
        for i in range(shards.n_shards):
            yield read_checked(kept.path(number, i), checksums[i] if checksums else None)

    def keep_only(self, numbers: set[int]) -> None:
        self._passes = {number: known for number, known in self._passes.items() if number in numbers}
        for kept in list(self._folders):
            there = {number for number, (folder, _) in self._passes.items() if folder is kept}
            kept.keep_only(there)
            if not there and not kept.saved:
                kept.remove_if_empty()
                self._folders.remove(kept)

    def save(self, shards: Shards, numbers: set[int]) -> Record:
        """The folder they are in, and checksums."""
        kept, _ = self._passes[max(numbers)]
        for number in numbers:
            self._take(shards, number, kept, *self._passes[number])
        kept.saved = set(numbers)
        checksums = {str(number): known for number in numbers if (known := self._passes[number][1])}
        return {"folder": str(kept.folder), "numbers": sorted(numbers), "checksums": checksums}

    def _take(self, shards: Shards, number: int, kept: Kept, source: Kept, checksums: list[str]) -> None:
        """A pass into a folder, from another one if it is not there."""
        for i in range(shards.n_shards if source is not kept else 0):
            kept.take(source, number, i)
        self._passes[number] = kept, checksums

    def restore(self, shards: Shards, saved: Record) -> None:
        if "folder" not in saved:
            kept = self._new_folder()
            for number, arrays in saved.items():
                lefts = [cut(shards, arrays, i) for i in range(shards.n_shards)]
                for i, left in enumerate(lefts):
                    kept.write(int(number), i, left)
                self._passes[int(number)] = kept, [digest(left) for left in lefts]
            return
        source, numbers = Kept(Path(saved["folder"])), saved["numbers"]
        paths = [source.path(number, i) for number in numbers for i in range(shards.n_shards)]
        if missing := [path for path in paths if not path.is_file()]:
            raise ValueError(f"{missing[0]}: loadings of the fit are gone; start again")
        kept = source
        if source.folder.parent == self.folder:
            source.saved = set(numbers)
            self._folders.append(source)
        else:
            kept = self._new_folder()
        for number in numbers:
            self._take(shards, number, kept, source, list(saved.get("checksums", {}).get(str(number), [])))

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
        kept.folder.mkdir(parents=True)
        return kept

    def _facts(self, shards: Shards) -> Facts:
        if self._checked is None or self._checked[0] is not shards:
            self._checked = shards, self._cluster.facts(str(_folder(shards)), self.folder)
        return self._checked[1]


def _folder(shards: Shards) -> Path:
    if shards.folder is None:
        raise ValueError(
            "the counts are in the memory of this process, where workers cannot see them; write them to a folder that all "
            "workers see with um.shard(counts, folder), and fit um.Shards(folder)"
        )
    return shards.folder.absolute()
