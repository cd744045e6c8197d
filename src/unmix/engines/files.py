"""What visits leave, in a folder: a file for every pass and shard, written under a temporary name and renamed."""

from __future__ import annotations

import re
from pathlib import Path

import safetensors.numpy
from safetensors import SafetensorError

from unmix.engines.base import Arrays
from unmix.files import replacing

NAME = re.compile(r"(\d{6,})-(\d{6})\.safetensors")


class Kept:
    """Files `PASS-SHARD.safetensors` in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, number: int, i: int) -> Path:
        return self.folder / f"{number:06d}-{i:06d}.safetensors"

    def write(self, number: int, i: int, left: Arrays) -> None:
        with replacing(self.path(number, i)) as temporary:
            safetensors.numpy.save_file(left, temporary)

    def read(self, number: int, i: int) -> Arrays:
        path = self.path(number, i)
        try:
            return safetensors.numpy.load_file(path)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{path}: loadings of pass {number} cannot be read ({error}); start anew") from None

    def keep_only(self, numbers: set[int]) -> None:
        for path in self.folder.iterdir():
            if (match := NAME.fullmatch(path.name)) and int(match.group(1)) not in numbers:
                path.unlink(missing_ok=True)
