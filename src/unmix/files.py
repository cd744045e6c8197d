"""Files are written under a temporary name and renamed, so that a reader never sees half of one."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# .stem-host-process-chance.ending: who writes a file is known by its name while it is not finished
TEMPORARY = re.compile(r"\.(?P<stem>.*)-(?P<host>[0-9a-f]{6})-(?P<process>\d+)-[0-9a-f]{8}(\..*)?", re.DOTALL)
LONGEST = 120  # letters of a name that its temporary one keeps


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, remove it if not.

    The temporary name keeps the ending of `path`, because writers choose a format by it. There is no file yet, so that Ctrl-C
    before the block begins leaves none; what processes left that were killed while they wrote the same file is removed.
    """
    target = Path(path)
    stem, ending = target.stem[-LONGEST:], "".join(target.suffixes)[-LONGEST:]
    _sweep(target.parent, stem)
    temporary = target.with_name(f".{stem}-{_host()}-{os.getpid()}-{secrets.token_hex(4)}{ending}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that was not finished."""
    return TEMPORARY.fullmatch(name) is not None


def _sweep(folder: Path, stem: str) -> None:
    with suppress(OSError):
        for name in os.listdir(folder):
            found = TEMPORARY.fullmatch(name) if name.startswith(f".{stem}-") else None
            if found and found["stem"] == stem and found["host"] == _host() and _is_dead(int(found["process"])):
                (folder / name).unlink(missing_ok=True)


def _is_dead(process: int) -> bool:
    """Whether no process has this number; where the system does not tell, all live."""
    if os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass
    return False


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
