"""What engines share: use within a `with`, and files that keep what visits leave."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from unmix.counts.data import Arrays, Before, use_engine
from unmix.counts.shards import Shards
from unmix.storage import tensors
from unmix.storage.files import replacing


class Usable:
    """An engine that is used by fits within its `with`."""

    _uses: list[AbstractContextManager[Any]]

    def _numbered(self, shards: Shards, before: Before) -> int | None:
        """The pass that visits go on from; arrays of all samples become one."""
        if not isinstance(before, dict):
            return before
        self.restore(shards, {"-1": before})  # type: ignore[attr-defined]
        return -1

    def __enter__(self) -> Self:
        use = use_engine(self)  # type: ignore[arg-type]
        use.__enter__()
        self.__dict__.setdefault("_uses", []).append(use)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._uses.pop().__exit__(kind, error, trace)


# What visits leave, in a folder: a file for every pass and shard, written under a temporary name and renamed.

NAME = re.compile(r"\.?(-?\d{5,})-(\d{6})(-[0-9a-f]{12})?\.safetensors")  # the last part is that of a broken-off write


class Kept:
    """Files `PASS-SHARD.safetensors` in a folder of their own, which is made unless `there` says that it is."""

    def __init__(self, folder: Path, there: bool = False) -> None:
        self.folder = folder
        self.saved: set[int] = set()  # passes that a checkpoint may name
        if not there:
            folder.mkdir(parents=True, exist_ok=True)

    def path(self, number: int, i: int) -> Path:
        return self.folder / f"{number:06d}-{i:06d}.safetensors"

    def write(self, number: int, i: int, left: Arrays, about: dict[str, str] | None = None) -> None:
        content = tensors.serialized(left, about)
        try:
            with replacing(self.path(number, i)) as temporary:
                temporary.write_bytes(content)
        except OSError as error:
            problem = (
                f"{error.strerror}: loadings are kept here between passes; give the engine a larger folder, or TMPDIR"
            )
            raise OSError(error.errno, problem, str(self.folder)) from error

    def read(self, number: int, i: int) -> Arrays:
        path = self.path(number, i)
        try:
            return tensors.parsed(tensors.read_bytes(path))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: loadings of pass {number} cannot be read ({error}); start anew") from None

    def about(self, number: int, i: int) -> dict[str, str]:
        """What was said of a file when it was written; nothing if there is none."""
        try:
            with self.path(number, i).open("rb") as file:
                return tensors.Header.of_file(file).about
        except (OSError, ValueError):
            return {}

    def take(self, other: Kept, number: int, i: int) -> None:
        """A file of another folder: the same one under two names where the file system can, otherwise a copy."""
        source = other.path(number, i)
        try:
            with replacing(self.path(number, i)) as temporary:
                try:
                    os.link(source, temporary)
                except OSError:
                    shutil.copyfile(source, temporary)
        except OSError as error:
            raise ValueError(f"{source}: loadings of pass {number} cannot be read ({error}); start anew") from None

    def keep_only(self, numbers: set[int]) -> None:
        """Of these passes, and of those of the last checkpoint."""
        for path in self.folder.iterdir():
            if (match := NAME.fullmatch(path.name)) and int(match.group(1)) not in numbers | self.saved:
                path.unlink(missing_ok=True)

    def remove_if_empty(self) -> None:
        with suppress(OSError):
            self.folder.rmdir()


def cutter(shards: Shards, arrays: Arrays) -> Callable[[int], Arrays]:
    """From arrays of all samples to those of a shard."""
    return lambda i: {name: np.ascontiguousarray(array[slice(*shards.bounds(i))]) for name, array in arrays.items()}
