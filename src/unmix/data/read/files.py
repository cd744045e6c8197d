"""Opening files: compressed or not, as bytes or as text in UTF-8, with errors that say which line is at fault."""

from __future__ import annotations

import gzip
import importlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file, decompressed if its name ends in .gz."""
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


@contextmanager
def opened_text(path: Path) -> Iterator[IO[str]]:
    """The text of a file in UTF-8, with or without a byte order mark; line ends as they are."""
    try:
        with opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as error:
        raise ValueError(f"line {_line_not_utf8(path)} is not UTF-8; save the file again as UTF-8") from error


def _line_not_utf8(path: Path) -> int:
    number = 0
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return number


def lines_of(path: Path) -> list[str]:
    """The lines of a file without their ends; an empty last line is none."""
    with opened_text(path) as file:
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
