"""Files are written under a temporary name and renamed, so that a reader never sees half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, remove it if not.

    The temporary name keeps the ending of `path`, because writers choose a format by it. There is no file yet, so that Ctrl-C
    before the block begins leaves none.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.stem}-{secrets.token_hex(6)}{''.join(target.suffixes)}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_durably(path: str | os.PathLike[str], content: bytes) -> None:
    """The file is there whole, and on the disk rather than on its way, once this returns."""
    with replacing(path) as temporary, temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if os.name == "posix":  # the name lies in the folder, which has a cache of its own
        folder = os.open(Path(path).parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
