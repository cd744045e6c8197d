"""Plain matrices: `.npz` (scipy), `.npy`, MatrixMarket and LDA-C. Their names may lie in files next to them."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.memory import require
from unmix.counts.canonical import sparse_to_csr
from unmix.io.options import ReadOptions, listed
from unmix.io.read.blocks import NONZEROS, ROWS, SMALLER, Blocks, Entries, cuts, slices, sound_block, sound_offsets
from unmix.io.read.files import (
    ONLY_EMPTY_IS_MISSING,
    WithoutNul,
    first_line,
    lines_of,
    opened,
    opened_text,
    require_inside,
    unless_damaged,
)
from unmix.io.read.names import vocabulary_beside
from unmix.io.read.raw_counts import RawCounts

NAMES = ("samples", "features")  # members of a .npz written by `write_counts`: JSON as bytes
NOT_SCIPY = "no sparse matrix that can be read ({}); save one with scipy.sparse.save_npz"
METADATA = "metadata"  # another: a CSV table as bytes
IN_STEP = ("data", "indices", "row", "col")  # members that need not be in memory as a whole


def read_npz(path: Path, options: ReadOptions) -> RawCounts:
    members = _npz_members(path)
    if "format" not in members:
        raise ValueError(
            f"holds {listed(members) if members else 'nothing'} but no sparse matrix of scipy; "
            "save one with scipy.sparse.save_npz, or an array with numpy.save as .npy"
        )
    require(2 * sum(size for name, size in members.items() if name not in IN_STEP), "the arrays it declares", SMALLER)
    with unless_damaged(NOT_SCIPY, MemoryError):
        matrix = _npz_blocks(path)
        if matrix is None:
            require(2 * sum(members.values()), "the arrays it declares", SMALLER)
            matrix = _npz_matrix(path)
        with np.load(path, allow_pickle=False) as archive:
            stored = {key: archive[key].tobytes().decode() for key in (*NAMES, METADATA) if key in members}
        if "\0" in stored.get(METADATA, ""):
            raise ValueError("its metadata have a NUL character")
        names = {key: [str(name) for name in json.loads(stored[key])] for key in NAMES if key in stored}
        metadata = pd.read_csv(StringIO(stored[METADATA]), **ONLY_EMPTY_IS_MISSING) if METADATA in stored else None
    return RawCounts(matrix, names.get("samples"), names.get("features"), metadata, bare=not names)


def _npz_matrix(path: Path) -> Any:
    with path.open("rb") as file:
        matrix = sp.load_npz(file)  # scipy loads with allow_pickle=False
    n, m = matrix.shape
    require(24 * matrix.nnz + 16 * (n + m), f"a matrix of {n:,} × {m:,}", SMALLER)
    return sparse_to_csr(matrix)


def _npz_blocks(path: Path) -> Blocks | None:
    """The matrix of a .npz, whose arrays are read in step, compressed or not; None for rare forms, which are read whole."""
    with np.load(path, allow_pickle=False) as archive:
        form, (n, m) = archive["format"].item(), (int(size) for size in archive["shape"])
        form = form if isinstance(form, str) else form.decode()
        if form not in ("csr", "csc", "coo") or (form == "coo" and not {"row", "col"} <= {*archive.files}):
            return None
        indptr = None if form == "coo" else archive["indptr"]
    with zipfile.ZipFile(path) as archive, archive.open("data.npy") as file:
        (nonzeros,), _ = _npy_header(file)
    if indptr is None:
        return Blocks((n, m), nonzeros, entries=lambda: _npz_entries(path, (n, m), nonzeros))
    rows, columns = (n, m) if form == "csr" else (m, n)
    offsets = sound_offsets(indptr, rows, nonzeros, nonzeros)
    matrix = Blocks((rows, columns), nonzeros, lambda start: _npz_rows(path, offsets, columns, start))
    return matrix if form == "csr" else matrix.T


def _npz_rows(path: Path, offsets: NDArray[np.int64], m: int, start: int) -> Iterator[sp.csr_array]:
    with _members(path, "indices", "data") as arrays:
        for array in arrays:
            array.skip(int(offsets[start]))
        for first, last in cuts(offsets, start):
            indices, data = (array.next(int(offsets[last] - offsets[first])) for array in arrays)
            yield sound_block(offsets[first : last + 1], indices, data, m)


def _npz_entries(path: Path, shape: tuple[int, int], nonzeros: int) -> Iterator[Entries]:
    with _members(path, "row", "col", "data") as arrays:
        for first in range(0, nonzeros, NONZEROS):
            row, column, values = (array.next(min(NONZEROS, nonzeros - first)) for array in arrays)
            for numbers, length in ((row, shape[0]), (column, shape[1])):
                if not (numbers.min() >= 0 and numbers.max() < length):
                    raise ValueError(f"its indices are damaged ({numbers.max()} of {length})")
            yield row, column, values


@dataclass
class _Member:
    """An array of one dimension in a .npz, read from its beginning to its end."""

    file: IO[bytes]
    dtype: np.dtype

    def next(self, length: int) -> NDArray:
        content = self.file.read(length * self.dtype.itemsize)
        if len(content) != length * self.dtype.itemsize:
            raise ValueError("it is cut short")
        return np.frombuffer(content, self.dtype)

    def skip(self, length: int) -> None:
        self.file.seek(length * self.dtype.itemsize, 1)


@contextmanager
def _members(path: Path, *names: str) -> Iterator[list[_Member]]:
    with unless_damaged(NOT_SCIPY, MemoryError, ValueError), ExitStack() as stack:
        archive, members = stack.enter_context(zipfile.ZipFile(path)), []
        for name in names:
            file = stack.enter_context(archive.open(f"{name}.npy"))
            shape, dtype = _npy_header(file)
            if len(shape) != 1:
                raise ValueError(f"{name} has {len(shape)} dimensions")
            members.append(_Member(file, dtype))
        yield members


def _npz_members(path: Path) -> dict[str, int]:
    """The arrays in a .npz, once their headers have shown that they hold numbers, and how many bytes they declare."""
    sizes: dict[str, int] = {}
    with unless_damaged(NOT_SCIPY, MemoryError, PermissionError), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                shape, dtype = _npy_header(file)
            name = member.filename.removesuffix(".npy")
            sizes[name] = sizes.get(name, 0) + math.prod(shape) * dtype.itemsize
    return sizes


def read_npy(path: Path, options: ReadOptions) -> RawCounts:
    with unless_damaged("no array that can be read ({}); save one with numpy.save", OSError), path.open("rb") as file:
        shape, dtype = _npy_header(file)
        start = file.tell()
    if len(shape) != 2:
        raise ValueError(
            f"an array of {len(shape)} dimension(s), shape {shape}; unmix needs a table of samples × features"
        )
    promised, present = shape[0] * shape[1] * dtype.itemsize, path.stat().st_size - start
    if promised != present:
        raise ValueError(f"its header promises {promised:,} bytes, {present:,} are there; it may be cut short")

    def read(start: int) -> Iterator[NDArray]:
        return slices(np.load(path, mmap_mode="r", allow_pickle=False), shape[0], start)

    return RawCounts(Blocks((shape[0], shape[1]), None, read, size=2.0 * promised), bare=True)


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of the array in a .npy, without its values."""
    version = np.lib.format.read_magic(file)
    known = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in known:
        raise ValueError(f"version {version[0]}.{version[1]} of the format holds no plain numbers")
    shape, _, dtype = known[version](file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which unmix never unpickles (allow_pickle=False)")
    return shape, dtype


# MatrixMarket files (https://math.nist.gov/MatrixMarket/formats.html).
#
# Read with pandas rather than `scipy.io.mmread`, which takes 1.5 for 1 in a file that says `integer` and brings Python down
# over some damaged files (scipy issue 19949 is one such).

BANNER = b"%%matrixmarket"
FIELDS, SYMMETRIES = ("real", "integer", "pattern", "double"), ("general", "symmetric")
MARKET: dict[str, Any] = {"sep": r"\s+", "header": None, "na_filter": False, "low_memory": False}
LINES = 1 << 21  # that are read at once where the whole is not


class Header(NamedTuple):
    """What the first lines promise. A dense matrix ("array") lists all its values, column by column."""

    dense: bool
    pattern: bool
    symmetric: bool
    shape: tuple[int, int]
    entries: int


def read_market(path: Path) -> Blocks:
    """The matrix in a MatrixMarket file, entry by entry."""
    with opened(path) as file:
        header = _header(file)

    def entries() -> Iterator[Entries]:
        lines, width = 0, 0
        with opened(path) as file:
            _header(file)
            try:
                size = min(LINES, header.entries + 1)
                with _without_nul(file) as text, pd.read_csv(text, **MARKET, chunksize=size) as tables:
                    for table in tables:
                        lines, width = lines + len(table), table.shape[1]
                        _check_size(min(lines, header.entries + 1), width, header, more=True)
                        yield _coordinates(table, header)
            except pd.errors.EmptyDataError:
                pass
            except pd.errors.ParserError as error:
                problem = f"not a readable MatrixMarket file ({first_line(error)} below its header)"
                raise ValueError(problem) from error
        _check_size(lines, width, header)

    return Blocks(header.shape, header.entries * (1 + header.symmetric), entries=entries)


def _without_nul(file: IO[bytes]) -> IO[str]:
    """What follows the header, as text that knows its lines."""
    place = file.tell()
    file.seek(0)
    text = WithoutNul(file, encoding="latin-1", newline="")
    text.line += file.read(place).count(b"\n")
    return text


def _check_size(lines: int, width: int, header: Header, *, more: bool = False) -> None:
    """Whether there is as much as the header says, if no more comes."""
    if lines > header.entries or (lines < header.entries and not more):
        raise ValueError(f"its header promises {header.entries:,} entries, {lines:,} are there")
    expected = 1 if header.dense else 2 if header.pattern else 3
    if header.entries and width != expected:
        raise ValueError(f"its entries have {width} numbers each, its header says {expected}")


def _header(file: IO[bytes]) -> Header:
    words = file.readline(1000).lower().split()
    if len(words) != 5 or words[:2] != [BANNER, b"matrix"]:
        raise ValueError("not a MatrixMarket file; its first line must begin with %%MatrixMarket matrix")
    layout, field, symmetry = (word.decode("latin-1") for word in words[2:])
    dense = layout == "array"
    known = layout in ("array", "coordinate") and field in FIELDS and symmetry in SYMMETRIES[: 1 if dense else 2]
    if not known or (dense and field == "pattern"):
        raise ValueError(f"a MatrixMarket file of kind {layout} {field} {symmetry}, which holds no counts")
    while (line := file.readline(1000)) and (line.startswith(b"%") or not line.strip()):
        pass
    try:
        rows, columns, *rest = (int(number) for number in line.split())
        entries = rows * columns if dense else rest.pop()
    except (ValueError, IndexError) as error:
        raise ValueError("its header lacks the line with numbers of rows, columns and entries") from error
    if rest or min(rows, columns, entries) < 0:
        raise ValueError(f"its header says {line.decode('latin-1').strip()!r}; rows, columns and entries must be there")
    return Header(dense, field == "pattern", symmetry == "symmetric", (rows, columns), entries)


def _coordinates(table: pd.DataFrame, header: Header) -> Entries:
    if header.dense:  # column by column
        columns, rows = np.divmod(table.index.to_numpy(), header.shape[0])
        return rows, columns, _numbers(table, 0, "value")
    rows = _positions(table, 0, "row", header.shape[0])
    columns = _positions(table, 1, "column", header.shape[1])
    values = np.ones(len(table)) if header.pattern else _numbers(table, 2, "value")
    if header.symmetric:  # one of the two triangles is in the file
        off = np.flatnonzero(rows != columns)
        rows, columns = np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])
        values = np.concatenate([values, values[off]])
        if header.shape[0] != header.shape[1]:
            raise ValueError(f"symmetric, but {header.shape[0]:,} × {header.shape[1]:,}")
    return rows, columns, values


def _positions(table: pd.DataFrame, column: int, what: str, size: int) -> NDArray[np.int64]:
    """Numbers of rows or columns, counted from 0, all inside the matrix."""
    numbers = _numbers(table, column, what)
    bad = np.flatnonzero(~((numbers >= 1) & (numbers <= size) & (numbers % 1 == 0)))
    if bad.size:
        raise ValueError(f"entry {table.index[bad[0]] + 1:,} is in {what} {numbers[bad[0]]:.10g} of {size:,}")
    return numbers.astype(np.int64) - 1


def _numbers(table: pd.DataFrame, column: int, what: str) -> NDArray[np.float64]:
    numbers = pd.to_numeric(table[column], errors="coerce").to_numpy(dtype=np.float64)
    bad = np.flatnonzero(np.isnan(numbers))
    if bad.size:
        entry, cell = table.index[bad[0]] + 1, table[column].tolist()[bad[0]]
        raise ValueError(f"entry {entry:,} has {cell!r} for its {what}; use a number")
    return numbers


# LDA-C, the format of Blei's program and of gensim's BleiCorpus: a document a line, "M term:count term:count …", where M is the
# number of terms that follow, and terms are counted from 0.

Document = tuple[list[int], list[float]]  # terms and their counts


def read_ldac(path: Path, options: ReadOptions) -> RawCounts:
    """The counts, and the words of a vocabulary next to it, if no document has a term beyond its end."""
    n, terms, nonzeros = _size(path)
    if not n:
        raise ValueError("there is nothing in it; unmix needs a document a line")
    vocabulary = _vocabulary(path, terms)
    m = terms if vocabulary is None else len(vocabulary)

    def read(start: int) -> Iterator[sp.csr_array]:
        documents = islice(_documents(path), start, None)
        for first in documents:
            yield _rows([first, *islice(documents, ROWS - 1)], m)

    return RawCounts(Blocks((n, m), nonzeros, read), None, vocabulary, bare=True)


def _size(path: Path) -> tuple[int, int, int]:
    """Documents, terms and entries."""
    n = terms = nonzeros = 0
    for found, _ in _documents(path):
        n, nonzeros, terms = n + 1, nonzeros + len(found), max(terms, max(found, default=-1) + 1)
    if n and not terms:
        raise ValueError("none of its documents has a term")
    return n, terms, nonzeros


def _vocabulary(path: Path, terms: int) -> list[str] | None:
    """The words next to the file, if there are enough of them; if not, they are ignored as next to any matrix."""
    if (file := vocabulary_beside(path)) is None:
        return None
    try:
        require_inside(file.parent, file)
        words = lines_of(file)
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from error
    return words if len(words) >= terms else None


def _documents(path: Path) -> Iterator[Document]:
    with opened_text(path) as file:
        for number, line in enumerate(file, start=1):
            yield _document(line.split(), number)


def _document(parts: list[str], number: int) -> Document:
    try:
        promised, pairs = int(parts[0]), [part.split(":") for part in parts[1:]]
        terms, counts = [int(term) for term, _ in pairs], [float(count) for _, count in pairs]
    except (ValueError, IndexError):
        raise ValueError(
            f"line {number} is not of the form 2 0:1 7:3, a number of terms and that many term:count"
        ) from None
    if promised != len(terms) or any(term < 0 for term in terms):
        problem = (
            f"promises {promised} terms, {len(terms)} are there" if promised != len(terms) else "has a term below 0"
        )
        raise ValueError(f"line {number} {problem}")
    return terms, counts


def _rows(documents: list[Document], m: int) -> sp.csr_array:
    rows = np.repeat(np.arange(len(documents)), [len(terms) for terms, _ in documents])
    terms, counts = (np.array([value for one in documents for value in one[part]]) for part in (0, 1))
    entries = counts.astype(np.float64), (rows, terms.astype(np.int64))
    return sp.coo_array(entries, shape=(len(documents), m)).tocsr()
