"""Files of arrays: safetensors, with what JSON can say in the header or as bytes, and checksums of arrays. Only here.

    eight bytes     length of the header
    header          JSON: type, shape, first and last byte of every array; texts by name under "__metadata__", and
                    among them a checksum of the file, made with zeros in its place
    arrays          one after the other, without gaps

The safetensors library serialises what fits in memory. It can neither write an array without a copy of it, nor map one, nor
read one from a buffer without a copy: this is done here, and nothing is mapped or allocated before the header agrees with the
file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from unmix.base.memory import LARGE
from unmix.base.types import Record, as_plain
from unmix.storage.files import replacing
from unmix.storage.schema import Whole

Arrays = dict[str, NDArray[Any]]
PathLike = str | os.PathLike[str]

DTYPES = {f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}") for kind in "fiu" for size in (2, 4, 8)}
DTYPES |= {"I8": np.dtype("i1"), "U8": np.dtype("u1"), "BOOL": np.dtype("?")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
HEADER, LARGEST_HEADER = "unmix.header", 1 << 25  # a longer text of the header is an array of this name
LONGEST = 10**8  # bytes of a header that the format allows
BLOCK = 1 << 24  # numbers that are written at a time
CHECKSUM = '"crc32": "{:08x}"'  # in the header


class _Entry(msgspec.Struct):
    dtype: str
    shape: list[Whole]
    data_offsets: tuple[Whole, Whole]


class Block(NamedTuple):
    """An array in a file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    first: int  # byte

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Header(NamedTuple):
    """What a file says of its arrays, once it agrees with the length of the file."""

    blocks: dict[str, Block]
    about: dict[str, str]

    @classmethod
    def of(cls, read: Callable[[int, int], bytes], length: int) -> Header:
        """`read(first, last)` gives bytes of a file of that length."""
        start = 8 + int.from_bytes(read(0, 8), "little")
        if length < 8 or start > min(LONGEST, length):
            raise ValueError("its header is longer than the file")
        try:
            header = msgspec.json.decode(read(8, start), type=dict[str, msgspec.Raw])
            about = msgspec.json.decode(header.pop("__metadata__", b"{}"), type=dict[str, str])
            entries = {name: msgspec.json.decode(entry, type=_Entry) for name, entry in header.items()}
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"its header is damaged: {error}") from None
        blocks, end = {}, 0
        for name, (dtype, shape, (first, last)) in sorted(
            ((name, msgspec.structs.astuple(entry)) for name, entry in entries.items()), key=lambda item: item[1][2]
        ):
            if dtype not in DTYPES:
                raise ValueError(f"{name} holds numbers of the type {dtype[:20]}, which unmix never writes")
            blocks[name] = block = Block(DTYPES[dtype], tuple(shape), start + first)
            if first != end or last - first != block.size:
                raise ValueError(f"{name} has impossible offsets")
            end = last
        if start + end != length:
            raise ValueError(f"its arrays end at byte {start + end:,} of {length:,}")
        return cls(blocks, about)

    @classmethod
    def of_file(cls, file: IO[bytes]) -> Header:
        return cls.of(lambda first, last: _bytes(file, first, last), os.fstat(file.fileno()).st_size)


def _bytes(file: IO[bytes], first: int, last: int) -> bytes:
    file.seek(first)
    return file.read(last - first)


# Arrays that fit in memory.


def serialized(arrays: Arrays, about: dict[str, str] | None = None) -> bytes:
    """The bytes of a file of arrays."""
    return safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, about)


def parsed(buffer: bytes | memoryview) -> Arrays:
    """The arrays in the bytes of a file, which they share. Whatever its header says, none reaches beyond them."""
    header = Header.of(lambda first, last: bytes(buffer[first:last]), len(buffer))
    return {
        name: np.require(np.frombuffer(buffer, dtype, math.prod(shape), first).reshape(shape), requirements="A")
        for name, (dtype, shape, first) in header.blocks.items()
    }


def read_bytes(path: Path, expected: int | None = None) -> memoryview:
    """A file that should have this many bytes. NumPy asks for large pages, of which few have to be touched for the first
    time."""
    with path.open("rb", buffering=0) as file:
        expected = os.fstat(file.fileno()).st_size if expected is None else expected
        content, length = np.empty(expected + 1, np.uint8).data, 0
        while some := file.readinto(content[length:]):
            length += some
    if length != expected:
        raise ValueError(f"it has {'more than' if length > expected else 'but'} {length:,} bytes")
    return content[:expected]


def read_block(path: Path, name: str) -> bytes | None:
    """The bytes of one array, without the rest of the file; None if there is none of this name."""
    with path.open("rb") as file:
        block = Header.of_file(file).blocks.get(name)
        return None if block is None else _bytes(file, block.first, block.first + block.size)


def digest(arrays: Arrays, names: Iterable[str] | None = None) -> str:
    """A checksum of types, shapes and bits of arrays of these names, or of all, whatever file they lie in."""
    checksum = hashlib.sha256()
    for name in sorted(arrays) if names is None else names:
        if name in arrays:
            array = arrays[name]
            checksum.update(f"{name} {array.dtype.str} {'x'.join(map(str, array.shape))} ".encode())
            checksum.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return checksum.hexdigest()


# JSON as an array of bytes: names and tables may take more space than a header may have.


def as_bytes(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


def from_json(content: NDArray[Any] | bytes | str) -> Any:
    """JSON, or a ValueError: one that is nested too deeply is a different error to Python."""
    try:
        return json.loads(content.tobytes() if isinstance(content, np.ndarray) else content)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


# Arrays of any size, and what JSON can say about them, as one file.


def write(path: PathLike, arrays: Arrays, meta: Record) -> None:
    """Atomically and without a copy in memory, those of the largest items first."""
    arrays = {key: np.ascontiguousarray(value) for key, value in arrays.items()}
    about = json.dumps(as_plain(meta))
    if len(about) > LARGEST_HEADER:
        arrays[HEADER], about = np.frombuffer(about.encode(), dtype=np.uint8), "null"
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))
    header: Record = {"__metadata__": {"crc32": "0" * 8, "unmix": about}}
    end = 0
    for key, array in arrays.items():
        if array.dtype not in NAMES:
            raise ValueError(f"{path}: not written, as {key} has the type {array.dtype}; use numbers of up to 64 bits")
        begin, end = end, end + array.nbytes
        header[key] = {"dtype": NAMES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    checksum = zlib.crc32(text)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            for first in range(0, array.size, BLOCK):
                block = array.reshape(-1)[first : first + BLOCK].data
                checksum = zlib.crc32(block, checksum)
                file.write(block)
        file.seek(8)
        file.write(_with_checksum(text, 0, checksum))


def _with_checksum(header: bytes, old: int, new: int) -> bytes:
    return header.replace(CHECKSUM.format(old).encode(), CHECKSUM.format(new).encode(), 1)


def _require_checksum(file: IO[bytes], said: str) -> None:
    """Whether all bytes are those that were written. They are read, not mapped: pages that were only looked at take no room."""
    file.seek(0)
    header = file.read(int.from_bytes(file.read(8), "little"))
    checksum = zlib.crc32(_with_checksum(header, int(said, 16), 0))
    while block := file.read(BLOCK):
        checksum = zlib.crc32(block, checksum)
    if checksum != int(said, 16):
        raise ValueError("its checksum is not that of its contents")


def read(path: PathLike) -> tuple[Arrays, Record]:
    """What `write` wrote, or an error that says what is wrong with the file. Large arrays are mapped, read-only."""
    try:
        with open(path, "rb") as file:
            header = Header.of_file(file)
            if "crc32" in header.about:
                _require_checksum(file, header.about["crc32"])
            arrays = {name: _array(file, block) for name, block in header.blocks.items()}
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path}: not a readable safetensors file ({error}); it may be truncated or of a different kind"
        ) from None
    if "unmix" not in header.about:
        raise ValueError(f"{path}: a safetensors file, but not a model of unmix")
    try:
        meta = from_json(arrays.pop(HEADER) if HEADER in arrays else header.about["unmix"])
    except ValueError as error:
        raise ValueError(f"{path}: damaged or foreign model file ({error})") from None
    if not isinstance(meta, dict):
        raise ValueError(f"{path}: damaged or foreign model file (its header is not a table)")
    return arrays, meta


def _array(file: IO[bytes], block: Block) -> NDArray[Any]:
    if block.size > LARGE:
        return np.require(np.memmap(file, block.dtype, "r", block.first, block.shape), requirements="A")
    file.seek(block.first)
    return np.fromfile(file, block.dtype, math.prod(block.shape)).reshape(block.shape)
