"""Opening files: compressed or not, as bytes or as text in any encoding, with errors that say which line is at fault."""

from __future__ import annotations

import codecs
import gzip
import importlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file, decompressed if its name ends in .gz."""
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


@contextmanager
def opened_text(path: Path, encoding: str | None = None) -> Iterator[IO[str]]:
    """The text of a file, in UTF-8 unless said otherwise, with or without a byte order mark; line ends as they are."""
    wanted = "utf-8-sig" if encoding is None else checked_encoding(encoding)
    try:
        with opened(path) as file, io.TextIOWrapper(file, encoding=wanted, newline="") as text:
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
        raise ValueError(f"encoding={encoding!r} is unknown; give utf-8, latin-1, cp1252, utf-16, …") from error
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
    return f"line {number} is not UTF-8; say what it is, such as encoding={guess!r}, or save the file again as UTF-8"


def lines_of(path: Path, encoding: str | None = None) -> list[str]:
    """The lines of a file without their ends; an empty last line is none."""
    with opened_text(path, encoding) as file:
        lines = file.read().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


@contextmanager
def opened_hdf5(path: Path, kind: str) -> Iterator[Any]:
    """An HDF5 file that should be of this kind."""
    h5py = extra("h5py", f"reading {path.suffix.lower()}", "anndata")
    complaint = f"not a readable {kind} file ({{}}); it may be cut short"
    with unless_damaged(complaint, ValueError, MemoryError), h5py.File(path, "r") as file:
        yield file


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
