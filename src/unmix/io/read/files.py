"""Opening files: compressed or not, as bytes or as text in any encoding, with errors that say which line is at fault.

Only regular files are opened, as a pipe may never end. Of a folder, only what lies in it is read: a link in it may be a
stranger's, and show the contents of any file.
"""

from __future__ import annotations

import codecs
import gzip
import importlib
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from unmix.base.checks import parameter

ONLY_EMPTY_IS_MISSING: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}  # "NA" is a name like any other


def require_file(path: Path) -> None:
    """Refuse pipes, devices and sockets. A link that the user named is followed."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("not a regular file (a pipe, a device or a socket); save its contents as a file first")


def require_inside(folder: Path, file: Path) -> None:
    """Refuse a link in a folder that leads out of it."""
    target = os.path.realpath(file)
    if not Path(target).is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"a link to {target}, which is outside the folder; copy what it points to into the folder")


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file, decompressed if its name ends in .gz."""
    require_file(path)
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


class WithoutNul(io.TextIOWrapper):
    """Text without NUL characters, at which some versions of pandas end a cell."""

    line = 1

    def read(self, size: int | None = -1, /) -> str:
        return self._checked(super().read(size))

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        return self._checked(super().readline(size))

    def _checked(self, text: str) -> str:
        before, nul, _ = text.partition("\0")
        self.line += before.count("\n")
        if nul:
            raise ValueError(f"line {self.line} has a NUL character; remove it")
        return text


@contextmanager
def opened_text(path: Path, encoding: str | None = None, *, nul: bool = True) -> Iterator[IO[str]]:
    """The text of a file, in UTF-8 unless said otherwise, with or without a byte order mark; line ends as they are. NUL
    characters are refused where `nul` is False."""
    wanted = "utf-8-sig" if encoding is None else checked_encoding(encoding)
    kind = io.TextIOWrapper if nul else WithoutNul
    try:
        with opened(path) as file, kind(file, encoding=wanted, newline="") as text:
            yield text
    except UnicodeError as error:
        if encoding is not None:
            raise ValueError(f"not in {encoding} ({first_line(error)}); try another encoding") from error
        raise ValueError(_not_utf8(path)) from error


def checked_encoding(encoding: str) -> str:
    """The name of an encoding, once it is known to be one of text."""
    try:
        known = "".encode(encoding) is not None and codecs.lookup(encoding).name
    except LookupError as error:
        raise ValueError(
            f"{parameter('encoding', encoding)} is unknown; give utf-8, latin-1, cp1252, utf-16, …"
        ) from error
    return "utf-8-sig" if known == "utf-8" else encoding


def _not_utf8(path: Path) -> str:
    """Where a file stops being UTF-8, and what it may be instead."""
    number, guess = 0, "cp1252"
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                guess = "utf-16"
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                break
    return f"line {number} is not UTF-8; say what it is, such as {parameter('encoding', guess)}, or save the file again as UTF-8"


def lines_of(path: Path, encoding: str | None = None) -> list[str]:
    """The lines of a file without their ends; an empty last line is none."""
    with opened_text(path, encoding) as file:
        lines = file.read().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


@contextmanager
def unless_damaged(complaint: str, *clear: type[Exception]) -> Iterator[None]:
    """A damaged file can fail in any way. What is not one of the `clear` errors becomes the complaint, with itself for {}."""
    try:
        yield
    except clear:
        raise
    except Exception as error:
        raise ValueError(complaint.format(first_line(error))) from error


def extra(module: str, purpose: str, extras: str) -> Any:
    """An optional dependency, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ValueError(f"{purpose} needs {package}; install it with: pip install 'unmix[{extras}]'") from error


def first_line(error: BaseException) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line.removeprefix("Error tokenizing data. C error: ").rstrip(".")


@contextmanager
def errors_about(path: Path, *, keep: type[Exception] | tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Whatever goes wrong, but for what is to `keep`, becomes a ValueError that begins with the name of the file."""
    try:
        yield
    except gzip.BadGzipFile as error:
        raise ValueError(f"{path}: damaged, or cut short ({first_line(error)})") from error
    except keep:
        raise
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or first_line(error)})") from error
    except (EOFError, zlib.error) as error:
        raise ValueError(f"{path}: damaged, or cut short ({first_line(error)})") from error
    except MemoryError as error:
        raise ValueError(f"{path}: too large for this machine's memory, or damaged") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
