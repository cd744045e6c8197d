"""Files are written under a temporary name and renamed, so that a reader never sees half of one.

What replaces a file or a folder has its permissions: mode, group and access control lists. Private results stay private.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import psutil

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed: that is the lock
    fcntl = None  # type: ignore[assignment]

# .stem-host-process-chance.ending: who writes a file is known by its name while it is not finished
TEMPORARY = re.compile(r"\.(?P<stem>.*)-(?P<host>[0-9a-f]{6})-(?P<process>\d{1,9})-[0-9a-f]{8}(\..*)?", re.DOTALL)
LONGEST = 120  # letters of a name that its temporary one keeps


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]


@contextmanager
def replacing(path: str | os.PathLike[str], like: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path next to `path`; rename it to `path` if the block succeeds, remove it if not.

    The temporary name keeps the ending of `path`, because writers choose a format by it. If `path` exists, or else a file that
    it is to be `like`, there is an empty temporary file with the same permissions. What processes left that were killed while
    they wrote the same file is removed.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        problem = "is a folder" if target.is_dir() else "is not a regular file"
        raise OSError(errno.EEXIST, f"{problem}; use the name of a file", str(path))
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
            if (
                found
                and found["stem"] == stem
                and found["host"] == _host()
                and not psutil.pid_exists(int(found["process"]))
            ):
                (folder / name).unlink(missing_ok=True)


def write_durably(path: str | os.PathLike[str], content: bytes) -> None:
    """The file is there whole, and on the disk rather than on its way, once this returns."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if os.name == "posix":  # the name is in the folder, which has a cache of its own
        folder = os.open(Path(path).parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# Folders are replaced whole: a new one is made next to the old one, and the two change places in one step.
#
#     .results.lock           held by the process that writes to `results`, as long as it lives
#     .results-3f2a…/new      the folder in the making
#     .results-3f2a…/done     which folder that is, once it is complete
#
# Where the system can exchange two names (Linux, macOS) there is no moment without results under the name; where it cannot, the
# old folder is moved to `old` first. Anyone who takes the lock next finishes or clears away what a killed process left. The new
# folder and the files in it have the permissions of the old ones of the same names.

AT_FDCWD, RENAME_EXCHANGE, RENAME_SWAP = -100, 2, 2
CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV}
TOKEN = 12  # letters of a temporary name

Wanted = Callable[[str], bool]  # whether a file of the old folder is to be in the new one
_held: dict[Path, int] = {}  # folders that this process writes to, and the thread that does


@contextmanager
def claimed(target: Path, stays: Wanted) -> Iterator[None]:
    """No one else writes to this folder in the meantime. What a process that was killed left of its own is put in its place, or
    cleared away. `stays` says which files of a replaced folder are no results of ours."""
    me = threading.get_ident()
    if _held.get(target) == me:
        yield
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target):
        _held[target] = me
        try:
            _recover(target, stays)
            yield
        finally:
            del _held[target]


def is_claimed(target: Path) -> bool:
    """Whether some process may be writing to this folder now."""
    return _lock_file(target).exists()


@contextmanager
def replacing_folder(target: Path, stays: Wanted) -> Iterator[Path]:
    """Yield a new empty folder that takes the place of `target` if the block succeeds, with those of its files that stay."""
    with claimed(target, stays):
        scratch = target.with_name(f".{target.name}-{secrets.token_hex(TOKEN // 2)}")
        fresh = scratch / "new"
        try:
            scratch.mkdir(mode=0o700)  # what is being written is for its owner alone
            fresh.mkdir()
            yield fresh
            _keep_permissions(target, fresh)
            with replacing(scratch / "done") as temporary:
                temporary.write_text(str(fresh.stat().st_ino))
            _put(scratch, target, stays)
        finally:
            if _replaced(scratch) is None:  # otherwise it failed to hand over what stays, which is the user's
                shutil.rmtree(scratch, ignore_errors=True)


def _keep_permissions(old: Path, new: Path) -> None:
    if not old.is_dir():
        return
    for file in new.iterdir():
        if (old / file.name).is_file():
            copy_permissions(old / file.name, file)
    copy_permissions(old, new)


def _put(scratch: Path, target: Path, stays: Wanted) -> None:
    fresh, old = scratch / "new", scratch / "old"
    if not target.exists():
        fresh.rename(target)
        return
    if not exchange(fresh, target):
        target.rename(old)
        try:
            fresh.rename(target)
        except BaseException:
            old.rename(target)
            raise
    if (replaced := _replaced(scratch)) is not None:
        _hand_over(replaced, target, stays)


def _replaced(scratch: Path) -> Path | None:
    """The folder whose place the new one has taken, if it is still there: `old`, or `new` where the two changed names."""
    fresh, old, done = scratch / "new", scratch / "old", scratch / "done"
    if old.exists():
        return old
    swapped = done.is_file() and fresh.exists() and str(fresh.stat().st_ino) != done.read_text()
    return fresh if swapped else None


def _hand_over(old: Path, target: Path, stays: Wanted) -> None:
    for entry in sorted(old.iterdir()):
        if stays(entry.name) and not (target / entry.name).exists():
            entry.rename(target / entry.name)
    shutil.rmtree(old)


def exchange(one: Path, other: Path) -> bool:
    """Let two files or folders change names, at once; False where the system cannot."""
    first, second = os.fsencode(one), os.fsencode(other)
    names: tuple[Any, ...] = AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE
    call = "renameat2"
    if sys.platform == "darwin":
        call, names = "renamex_np", (first, second, ctypes.c_uint(RENAME_SWAP))
    library = ctypes.CDLL(None, use_errno=True) if sys.platform in ("linux", "darwin") else None
    if library is None or not hasattr(library, call):
        return False
    if getattr(library, call)(*names) == 0:
        return True
    if (number := ctypes.get_errno()) in CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one))


def _recover(target: Path, stays: Wanted) -> None:
    """What processes left that were killed: we have the lock, so none of them lives."""
    for scratch in sorted(target.parent.glob(f".{_literal(target.name)}-{'[0-9a-f]' * TOKEN}")):
        with suppress(OSError):
            if (scratch / "done").is_file() and not target.exists():
                (scratch / "new").rename(target)
            if (replaced := _replaced(scratch)) is not None and target.exists():
                _hand_over(replaced, target, stays)
            if _replaced(scratch) is None:
                shutil.rmtree(scratch)


def _literal(name: str) -> str:
    """For `glob`, without its wildcards."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _lock_file(target: Path) -> Path:
    return target.with_name(f".{target.name}.lock")


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Hold the lock of a folder; it goes with the process, however that ends."""
    path = _lock_file(target)
    file = _lock(path, target)
    try:
        yield
    finally:
        if fcntl is not None:
            path.unlink(missing_ok=True)  # while it is held: anyone who waits for this file sees that it is gone
        file.close()
        with suppress(OSError):
            path.unlink(missing_ok=True) if fcntl is None else None


def _lock(path: Path, target: Path) -> IO[bytes]:
    busy = FileExistsError(
        errno.EEXIST, "another process is writing results there; wait for it, or use a different folder", str(target)
    )
    while True:
        try:
            if fcntl is None:
                path.unlink(missing_ok=True)  # fails where it is open
                return path.open("xb")
            file = path.open("ab")
        except (PermissionError, FileExistsError) as error:
            if fcntl is None:
                raise busy from error
            raise
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise busy from None
        except OSError:  # a file system without locks: as if alone
            return file
        if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return file
        file.close()
