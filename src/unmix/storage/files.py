"""Files are written under a temporary name and renamed, so that a reader never sees half of one.

What replaces a file or a folder has its permissions: mode, group and access control lists. Private results stay private.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# .stem-host-process-chance.ending: who writes a file is known by its name while it is not finished
TEMPORARY = re.compile(r"\.(?P<stem>.*)-(?P<host>[0-9a-f]{6})-(?P<process>\d+)-[0-9a-f]{8}(\..*)?", re.DOTALL)
LONGEST = 120  # letters of a name that its temporary one keeps


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]


@contextmanager
def replacing(path: str | os.PathLike[str], like: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, remove it if not.

    The temporary name keeps the ending of `path`, because writers choose a format by it. If `path` exists, or else a file that it
    is to be `like`, there is an empty temporary file with the same permissions. What processes left that were killed while they
    wrote the same file is removed.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        problem = "is a folder" if target.is_dir() else "is not a regular file"
        raise OSError(errno.EEXIST, f"{problem}; give the name of a file", str(path))
    stem, ending = target.stem[-LONGEST:], "".join(target.suffixes)[-LONGEST:]
    _sweep(target.parent, stem)
    temporary = target.with_name(f".{stem}-{_host()}-{os.getpid()}-{secrets.token_hex(4)}{ending}")
    try:
        if known := next((file for file in (target, like) if file is not None and file.is_file()), None):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            copy_permissions(known, temporary)
        yield temporary
        temporary.replace(target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def copy_permissions(source: Path, target: Path) -> None:
    """Give a file or folder the group, the mode and the access control lists of another, as far as the system allows. Where the
    group cannot be kept, the other group gets no permissions."""
    known = source.stat()
    mode = stat.S_IMODE(known.st_mode)
    if hasattr(os, "chown") and target.stat().st_gid != known.st_gid:
        try:
            os.chown(target, -1, known.st_gid)
        except OSError:
            mode &= ~stat.S_IRWXG
    with suppress(OSError):
        os.chmod(target, mode)
    with suppress(OSError, AttributeError):  # systems and file systems without access control lists
        for name in os.listxattr(source):
            if name.startswith("system.posix_acl_"):
                os.setxattr(target, name, os.getxattr(source, name))


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
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if os.name == "posix":  # the name lies in the folder, which has a cache of its own
        folder = os.open(Path(path).parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
