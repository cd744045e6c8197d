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
