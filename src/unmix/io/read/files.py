"""Opening files: compressed or not, as bytes or as text in any encoding, with errors that say which line is at fault; and HDF5
and zarr, once it is known that all they hold is in them and is decoded without the code of others.

Only regular files are opened, as a pipe may never end. Of a folder, only what is in it is read: a link in it may be a
stranger's, and show the contents of any file.
"""

from __future__ import annotations

import codecs
import gzip
import importlib
import io
import json
import math
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.memory import available, require

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
            f"{parameter('encoding', encoding)} is unknown; use utf-8, latin-1, cp1252, utf-16, …"
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


def extra(module: str, purpose: str) -> Any:
    """An optional dependency, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise ValueError(f"{purpose} needs {package}; install it with: pip install {package}") from error


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


# HDF5 files, opened once it is known that all they hold is in the file itself, and that HDF5 can decode it on its own.
#
# A dataset may be in other files (external storage, virtual datasets, links), so that the bytes of any file would come as counts
# or names; and it may ask for filters, for which HDF5 loads libraries that it finds on the machine.

GZIP, SHUFFLE, CHECKED = 1, 2, 3
FILTERS = frozenset({GZIP, SHUFFLE, CHECKED, 32000})  # fletcher32; lzf, which h5py brings
SMALL, LARGEST_RATIO = 1 << 29, 1032  # bytes that a chunk may come to; of gzip
PLUGINS = "hdf5plugin"  # a package with more filters, which are allowed once it is imported


@contextmanager
def opened_hdf5(path: Path, kind: str) -> Iterator[Any]:
    """An HDF5 file that should be of this kind."""
    h5py = extra("h5py", f"reading {path.suffix.lower()}")
    complaint = f"not a readable {kind} file ({{}}); it may be cut short"
    require_file(path)
    with unless_damaged(complaint, ValueError, MemoryError), h5py.File(path, "r") as file:
        _require_own(file)
        yield file


def _require_own(file: Any) -> None:
    """Refuse links, and datasets that lie in other files or need other libraries, wherever in the file they are."""
    from h5py import Dataset, h5d, h5l, h5o

    links: list[tuple[bytes, Any]] = []
    file.id.links.visit(lambda name, link: links.append((name, link.type)), info=True)  # which follows none of them
    for name, kind in links:
        place = name.decode("utf-8", "backslashreplace")
        if kind != h5l.TYPE_HARD:
            raise ValueError(f"{place!r} is a link to another place or file; write what it points to in its place")
        if isinstance(found := h5o.open(file.id, name), h5d.DatasetID):
            dataset = Dataset(found)
            _check(dataset, place)
            _check_categories(dataset, place)


def _check_categories(dataset: Any, place: str) -> None:
    """Early files refer to the categories of a column by where they are in the file, and that may be anywhere."""
    from h5py import Dataset, Reference

    if isinstance(reference := dataset.attrs.get("categories"), Reference):
        if not isinstance(referred := dataset.file[reference], Dataset):
            raise ValueError(f"{place!r}: its categories are not a dataset; write the file again")
        _check(referred, f"{place}, categories")


def _check(dataset: Any, place: str) -> None:
    from h5py import h5d

    created = dataset.id.get_create_plist()
    if created.get_external_count() or created.get_layout() == h5d.VIRTUAL:
        raise ValueError(f"the values of {place!r} are in a different file; write them into this one")
    used = [created.get_filter(number)[0] for number in range(created.get_nfilters())]
    known = FILTERS | set(getattr(sys.modules.get(PLUGINS), "FILTERS", {}).values())
    for number in range(created.get_nfilters()):
        code, _, _, name = created.get_filter(number)
        if code not in known:
            called = f"{code} ({name.decode('utf-8', 'backslashreplace')})" if name else str(code)
            raise ValueError(
                f"{place!r} is compressed with filter {called}, which is not one of the usual ones; "
                f"write the file again with gzip, or import {PLUGINS} first if it is one of its filters"
            )
    if GZIP in used:
        _check_inflated(dataset, used, place)


def _check_inflated(dataset: Any, used: list[int], place: str) -> None:
    """Refuse chunks that come to more than their size: HDF5 would make space for all of it."""
    size = math.prod(dataset.chunks) * max(16, dataset.id.get_type().get_size())  # of a text, its place
    for chunk in _stored_chunks(dataset):
        if used.count(GZIP) > 1 or chunk.size > size + size // 100 + 1024:
            raise ValueError(
                f"a chunk of {place!r} is compressed twice, or longer than it was before; write the file again"
            )
        if LARGEST_RATIO * chunk.size > max(SMALL, 8 * size) and not chunk.filter_mask:
            content = dataset.id.read_direct_chunk(chunk.chunk_offset)[1]
            if len(zlib.decompressobj().decompress(content, size + 1)) > size:
                raise ValueError(f"a chunk of {place!r} holds more than it should; write the file again")


def _stored_chunks(dataset: Any) -> list[Any]:
    """How long the chunks of a dataset are, and which filters they skip."""
    found: list[Any] = []
    if hasattr(dataset.id, "chunk_iter"):
        dataset.id.chunk_iter(found.append)
    else:
        found += [dataset.id.get_chunk_info(number) for number in range(dataset.id.get_num_chunks())]
    return found


def texts_in(dataset: Any) -> Iterator[NDArray[np.uint32]]:
    """How long the texts of a dataset say they are, without reading them; nothing where only HDF5 can tell. A text is stored as
    its length and the place in the file where it is, and HDF5 makes space for what the length says."""
    offset = dataset.id.get_offset()
    width = 8 + dataset.file.id.get_create_plist().get_sizes()[0]
    if offset is not None:
        with open(dataset.file.filename, "rb") as file:
            file.seek(offset)
            yield _lengths(file.read(width * dataset.size), width)
        return
    created = dataset.id.get_create_plist()
    used = [created.get_filter(number)[0] for number in range(created.get_nfilters())]
    if dataset.chunks is None or not {*used} <= {GZIP, SHUFFLE, CHECKED}:
        return
    size = width * math.prod(dataset.chunks)
    for chunk in _stored_chunks(dataset):
        content = dataset.id.read_direct_chunk(chunk.chunk_offset)[1]
        if GZIP in used and not chunk.filter_mask:
            content = zlib.decompressobj().decompress(content, size)
        if SHUFFLE in used and not chunk.filter_mask:
            content = np.frombuffer(content[:size], np.uint8).reshape(width, -1).T.tobytes()
        yield _lengths(content[:size], width)


def _lengths(content: bytes, width: int) -> NDArray[np.uint32]:
    rows = np.frombuffer(content[: len(content) // width * width], np.uint8).reshape(-1, width)
    return np.ascontiguousarray(rows[:, :4]).view("<u4").ravel()


# Zarr stores, opened once their metadata have shown that nothing in them runs code or is elsewhere.
#
# Metadata name what decodes an array by words that any installed package may have registered, and one of them, `pickle`, runs
# whatever the array says. So only codecs that compress numbers or hold text are let through, before zarr looks one up.
# Consolidated metadata, which may say something else, are not used.

NODES = ("zarr.json", ".zarray")  # what says how an array is decoded, in format 3 and 2
METADATA = (*NODES, ".zgroup", ".zattrs", ".zmetadata")
BYTES_A_BYTE = 50  # of memory, for one of JSON
COMPRESSORS = {"blosc", "zstd", "lz4", "zlib", "gzip"}  # those of which it is known how much a chunk holds
SHARDED, CHECKSUM, OF_TEXT = "sharding_indexed", "crc32c", "vlen-utf8"
CODECS = COMPRESSORS | {"shuffle", "delta", "bytes", "endian", "transpose", SHARDED, CHECKSUM, OF_TEXT}
FLOOR, BYTES_A_VALUE = 1 << 26, 16  # of a chunk, that are always allowed, and for each of its numbers
ABSENT = 2**64 - 1  # in the index of a shard
ZSTD, ZSTD_SKIPPABLE, ZSTD_BLOCK = 0xFD2FB528, 0x184D2A5, 1 << 17
INNER = ("codecs", "index_codecs")  # of sharding_indexed
OF_ARRAYS = ("compressor", "filters", "codecs", "dtype", "data_type", "storage_transformers")
PARTS = {"chunk_grid": {"regular"}, "chunk_key_encoding": {"default", "v2"}}
NUMBER = re.compile(r"[<>|=]?[biufSUmM]\d+(\[\w+\])?")  # types of format 2
NUMERIC = re.compile(r"bool|u?int\d+|float\d+|[<>|=]?[biuf]\d+")
TYPES = re.compile(  # and of format 3
    "bool|u?int(8|16|32|64)|float(16|32|64)|string|variable_length_utf8|fixed_length_utf32|null_terminated_bytes"
)


@contextmanager
def opened_zarr(path: Path) -> Iterator[Any]:
    """The group in a folder, to be read and nothing else."""
    try:
        import zarr
    except ImportError as error:
        raise ValueError("reading .zarr needs zarr; install it with: pip install zarr") from error
    with unless_damaged("not a readable AnnData store ({})", ValueError):
        _require_own_files(path)
        stores: Any = zarr.storage
        if hasattr(stores, "LocalStore"):
            yield zarr.open_group(stores.LocalStore(str(path), read_only=True), mode="r", use_consolidated=False)
        else:  # zarr 2, which uses consolidated metadata only if asked to
            yield zarr.open_group(stores.DirectoryStore(str(path)), mode="r")


def _require_own_files(store: Path) -> None:
    """Refuse links that leave the store, what is no file, and codecs and types that are not known, wherever they are."""
    for folder, folders, files in os.walk(store):
        for name in [*folders, *files]:
            entry = Path(folder, name)
            place = entry.relative_to(store).as_posix()
            try:
                if entry.is_symlink():
                    require_inside(store, entry)
                if name in files:
                    require_file(entry)
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
            if name in METADATA and name in files:
                _check_metadata(entry, place)


def _check_metadata(file: Path, place: str) -> None:
    require(BYTES_A_BYTE * file.stat().st_size, place, "use a smaller store")
    if file.name not in NODES:
        return
    try:
        metadata = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is not JSON ({error})") from error
    if not isinstance(metadata, dict):
        raise ValueError(f"{place} does not describe an array or a group")
    if metadata.get("consolidated_metadata") and file.name != place:  # those of the store itself are left alone
        raise ValueError(f"{place} repeats the metadata of what is in the group; consolidate the whole store")
    if any(key in metadata for key in OF_ARRAYS):
        _check_array(metadata, place)
        _check_chunks(metadata, file, place)


def _check_array(metadata: dict[str, Any], place: str) -> None:
    codecs = [name for part in ("filters", "compressor", "codecs") for name in _codecs(metadata.get(part))]
    for name in codecs:
        if name not in CODECS:
            raise _unknown("codec", name, place)
    if "dtype" in metadata:
        _check_type(metadata["dtype"], codecs, place)
    if "data_type" in metadata and not TYPES.fullmatch(kind := _name(metadata["data_type"])):
        raise _unknown("type", kind, place)
    for part, known in PARTS.items():
        if part in metadata and (name := _name(metadata[part])) not in known:
            raise _unknown(part, name, place)
    if metadata.get("storage_transformers"):
        raise _unknown("storage transformer", metadata["storage_transformers"], place)


def _check_chunks(metadata: dict[str, Any], file: Path, place: str) -> None:
    """Refuse chunks that say or hold more than their array can: numcodecs would make space for all of it, and read what is
    behind a chunk of blosc that is shorter than it says."""
    import numcodecs

    chain, shape = _chain(metadata, file), _chunk_shape(metadata, file)
    kind = str(metadata.get("dtype", metadata.get("data_type")))
    pieces = ((chunk, 0, chunk.stat().st_size) for chunk in _chunks(file.parent))
    if SHARDED in _codecs(chain):
        if list(_codecs(chain)).count(SHARDED) > 1 or len(chain) > 1:
            raise ValueError(f"{place}: shards inside a different codec; write the store again without")
        told = chain[0]["configuration"]
        pieces = (piece for chunk in _chunks(file.parent) for piece in _inner_chunks(chunk, shape, told, place))
        chain, shape = told["codecs"], told["chunk_shape"]
    names = [_names(codec)[0] for codec in chain]
    packed = [name for name in names if name in COMPRESSORS]
    behind = names[names.index(packed[0]) + 1 :] if packed else []
    odd = [
        codec for codec in chain if CHECKSUM in _names(codec) and codec.keys() - {"id", "name"}
    ]  # such as a location
    if len(packed) > 1 or behind not in ([], [CHECKSUM]) or CHECKSUM in names[:-1] or odd:
        raise ValueError(
            f"{place}: compressed twice or in an unusual order ({', '.join(names)}); write the store again"
        )
    most = FLOOR + BYTES_A_VALUE * math.prod(shape) if NUMERIC.fullmatch(kind) else available() // 8
    for chunk, first, length in pieces:
        length -= 4 * names.count(CHECKSUM)
        with chunk.open("rb", buffering=0) as content:
            content.seek(first)
            size = SIZES[packed[0]](content, length, min(most, available() // 2)) if packed else length
            if not 0 <= size <= most:
                raise ValueError(
                    f"{place}: the chunk {chunk.name} holds more than it should, or is cut short; write it again"
                )
            content.seek(first)
            if OF_TEXT in names and length >= 4:
                text = content.read(length)
                text = bytes(numcodecs.get_codec({"id": packed[0]}).decode(text)) if packed else text
                if int.from_bytes(text[:4], "little") > math.prod(shape):
                    raise ValueError(
                        f"{place}: the chunk {chunk.name} claims more texts than there can be; it may be damaged"
                    )


def _chunk_shape(metadata: dict[str, Any], file: Path) -> list[int]:
    return metadata["chunks"] if file.name == ".zarray" else metadata["chunk_grid"]["configuration"]["chunk_shape"]


def _inner_chunks(shard: Path, shape: list[int], told: dict[str, Any], place: str) -> Iterator[tuple[Path, int, int]]:
    """Where the chunks in a shard begin and how long they are, by the index at its end."""
    codecs = [_names(codec)[0] for codec in told["index_codecs"]]
    if codecs != ["bytes", CHECKSUM] or told.get("index_location", "end") != "end":
        raise ValueError(f"{place}: shards with an unusual index; write the store again")
    number = math.prod(-(-size // inner) for size, inner in zip(shape, told["chunk_shape"], strict=True))
    size = shard.stat().st_size
    with shard.open("rb") as content:
        content.seek(max(0, size - 16 * number - 4))
        index = np.frombuffer(content.read(16 * number), "<u8") if 16 * number + 4 <= size else np.zeros(0)
    if len(index) != 2 * number:
        raise ValueError(f"{place}: the shard {shard.name} is cut short")
    for first, length in index.reshape(-1, 2).tolist():
        if first + length == 2 * ABSENT:
            continue
        if first + length > size:
            raise ValueError(f"{place}: the shard {shard.name} has chunks outside of itself; it may be damaged")
        yield shard, int(first), int(length)


def _blosc_size(content: Any, length: int, most: int) -> int:
    head = content.read(16)
    if len(head) < 16 or int.from_bytes(head[12:], "little") != length:
        return -1
    return int.from_bytes(head[4:8], "little")


def _lz4_size(content: Any, length: int, most: int) -> int:
    return int.from_bytes(content.read(4), "little")


def _inflated_size(content: Any, length: int, most: int) -> int:
    """Of gzip and zlib, which do not say it: counted, up to what may be."""
    size, rest = 0, content.read(length)
    while rest and size <= most:
        stream = zlib.decompressobj(47)
        try:
            while not stream.eof and size <= most:
                part = stream.decompress(rest, 1 << 20)
                size, rest = size + len(part), stream.unconsumed_tail
                if not part and not rest:
                    return size
        except zlib.error:
            return size
        rest = stream.unused_data
    return size


def _zstd_size(content: Any, length: int, most: int) -> int:
    """What its frames say, or at most hold if they do not say it (RFC 8878)."""
    end, size = content.tell() + length, 0
    while content.tell() < end:
        magic = int.from_bytes(content.read(4), "little")
        if magic >> 4 == ZSTD_SKIPPABLE:
            content.seek(int.from_bytes(content.read(4), "little"), 1)
            continue
        flags = int.from_bytes(content.read(1), "little")
        if magic != ZSTD:
            return -1
        single = flags >> 5 & 1
        content.seek((0, 1, 2, 4)[flags & 3] + 1 - single, 1)
        width = (single, 2, 4, 8)[flags >> 6]
        told = int.from_bytes(content.read(width), "little") + 256 * (width == 2)
        held, last = 0, 0
        while not last:
            if len(head := content.read(3)) < 3:
                return -1
            block = int.from_bytes(head, "little")
            last, kind, blocks = block & 1, block >> 1 & 3, block >> 3
            held += blocks if kind < 2 else ZSTD_BLOCK
            content.seek(1 if kind == 1 else blocks, 1)
        content.seek(4 * (flags >> 2 & 1), 1)
        size += told if width else held
    return size


SIZES = {"blosc": _blosc_size, "zstd": _zstd_size, "lz4": _lz4_size, "gzip": _inflated_size, "zlib": _inflated_size}


def _chain(metadata: dict[str, Any], file: Path) -> list[Any]:
    """The codecs of an array, the last of which made the bytes in its files."""
    parts = ("filters", "compressor") if file.name == ".zarray" else ("codecs",)
    return [codec for part in parts for codec in _listed(metadata.get(part))]


def _chunks(array: Path) -> Iterator[Path]:
    return (file for file in array.rglob("*") if file.name not in METADATA and file.is_file())


def _codecs(entries: Any) -> Iterator[str]:
    """The names of codecs, and of those inside of others."""
    for entry in _listed(entries):
        yield from _names(entry)
        if isinstance(entry, dict) and isinstance(inner := entry.get("configuration"), dict):
            for key in INNER:
                yield from _codecs(inner.get(key))


def _listed(entries: Any) -> list[Any]:
    return entries if isinstance(entries, list) else [] if entries is None else [entries]


def _names(codec: Any) -> list[str]:
    """How a codec is called: by its `id` in format 2, by its `name` in format 3, or by a word alone."""
    said = [codec[key] for key in ("id", "name") if key in codec] if isinstance(codec, dict) else [codec]
    return [str(name).removeprefix("numcodecs.") for name in said or [None]]


def _check_type(metadata: Any, codecs: list[str], place: str) -> None:
    """Of format 2: numbers, texts of one length, records of these, and texts of any length with a codec for them."""
    if metadata == "|O" and OF_TEXT in codecs:
        return
    fields = [field[1] if isinstance(field, list) and len(field) > 1 else None for field in metadata or ()]
    for kind in fields if isinstance(metadata, list) else [metadata]:
        if not (isinstance(kind, str) and NUMBER.fullmatch(kind)):
            raise _unknown("type", kind, place)


def _name(metadata: Any) -> str:
    """The name of a part, which may have a configuration next to it."""
    return str(metadata.get("name") if isinstance(metadata, dict) else metadata)


def _unknown(what: str, name: object, place: str) -> ValueError:
    return ValueError(
        f"{place}: the {what} {name!r} is not one that only holds numbers or text; write the store again with the usual "
        "types, and zstd or gzip"
    )
