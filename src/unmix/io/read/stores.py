"""HDF5 files, opened once it is known that all they hold lies in the file itself, and that HDF5 can decode it on its own.

A dataset may be in other files (external storage, virtual datasets, links), so that the bytes of any file would come as counts
or names; and it may ask for filters, for which HDF5 loads libraries that it finds on the machine.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unmix.base.memory import require
from unmix.io.read.files import extra, require_file, require_inside, unless_damaged

FILTERS = frozenset(
    {1, 2, 3, 4, 5, 6, 32000}
)  # gzip, shuffle, fletcher32, szip, nbit, scaleoffset; lzf, which h5py brings
PLUGINS = "hdf5plugin"  # a package with more filters, which are allowed once it is imported


@contextmanager
def opened_hdf5(path: Path, kind: str) -> Iterator[Any]:
    """An HDF5 file that should be of this kind."""
    h5py = extra("h5py", f"reading {path.suffix.lower()}", "anndata")
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
        raise ValueError(f"the values of {place!r} are in another file; write them into this one")
    known = FILTERS | set(getattr(sys.modules.get(PLUGINS), "FILTERS", {}).values())
    for number in range(created.get_nfilters()):
        code, _, _, name = created.get_filter(number)
        if code not in known:
            called = f"{code} ({name.decode('utf-8', 'backslashreplace')})" if name else str(code)
            raise ValueError(
                f"{place!r} is compressed with filter {called}, which HDF5 has not built in; "
                f"write the file again with gzip, or import {PLUGINS} first if it is one of its filters"
            )


# Zarr stores, opened once their metadata have shown that nothing in them runs code or lies elsewhere.
#
# Metadata name what decodes an array by words that any installed package may have registered, and one of them, `pickle`, runs
# whatever the array says. So only codecs that compress numbers or hold text are let through, before zarr looks one up.
# Consolidated metadata, which may say something else, are not used.

NODES = ("zarr.json", ".zarray")  # what says how an array is decoded, in format 3 and 2
METADATA = (*NODES, ".zgroup", ".zattrs", ".zmetadata")
BYTES_A_BYTE = 50  # of memory, for one of JSON
COMPRESSORS = {"blosc", "zstd", "lz4", "zlib", "gzip", "bz2", "lzma"}
OF_NUMBERS = {"shuffle", "delta", "bytes", "endian", "transpose", "sharding_indexed"}
CHECKSUMS = {"crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"}
OF_TEXT = "vlen-utf8"
BLOSC, BLOSC_HEADER = "blosc", 16  # bytes, the last four of which say how long a chunk is
CODECS = COMPRESSORS | OF_NUMBERS | CHECKSUMS | {OF_TEXT}
INNER = ("codecs", "index_codecs")  # of sharding_indexed
OF_ARRAYS = ("compressor", "filters", "codecs", "dtype", "data_type", "storage_transformers")
PARTS = {"chunk_grid": {"regular"}, "chunk_key_encoding": {"default", "v2"}}
NUMBER = re.compile(r"[<>|=]?[biufSUmM]\d+(\[\w+\])?")  # types of format 2
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
    require(BYTES_A_BYTE * file.stat().st_size, place, "give a smaller store")
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
        _check_blosc(metadata, file, place)
        _check_texts(metadata, file, place)


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


def _check_blosc(metadata: dict[str, Any], file: Path, place: str) -> None:
    """Refuse chunks that are not as long as they say: numcodecs would read what lies behind them in memory, or crash."""
    chain = _chain(metadata, file)
    uses = list(_codecs(chain)).count(BLOSC)
    if uses and (uses > 1 or BLOSC not in _names(chain[-1])):
        raise ValueError(
            f"{place}: blosc inside of another codec or of shards; write the store again with zstd or gzip"
        )
    for chunk in _chunks(file.parent) if uses else ():
        with chunk.open("rb") as content:
            header = content.read(BLOSC_HEADER)
        if len(header) < BLOSC_HEADER or int.from_bytes(header[-4:], "little") != chunk.stat().st_size:
            raise ValueError(f"{place}: the chunk {chunk.name} is not as long as it says; it may be cut short")


def _check_texts(metadata: dict[str, Any], file: Path, place: str) -> None:
    """Refuse chunks that claim more texts than there can be: numcodecs would make room for all of them."""
    import numcodecs

    chain = _chain(metadata, file)
    names = [_names(codec)[0] for codec in chain]
    if OF_TEXT not in names:
        return
    around = chain[names.index(OF_TEXT) + 1 :]
    shape = metadata["chunks"] if file.name == ".zarray" else metadata["chunk_grid"]["configuration"]["chunk_shape"]
    for chunk in _chunks(file.parent):
        content = chunk.read_bytes()
        for codec in reversed(around):
            config = codec if file.name == ".zarray" else {"id": _names(codec)[0]}
            content = (
                content[:-4] if _names(codec) == ["crc32c"] else bytes(numcodecs.get_codec(config).decode(content))
            )
        if int.from_bytes(content[:4], "little") > math.prod(shape):
            raise ValueError(f"{place}: the chunk {chunk.name} claims more texts than there can be; it may be damaged")


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
    """The name of a part, which may have a configuration beside it."""
    return str(metadata.get("name") if isinstance(metadata, dict) else metadata)


def _unknown(what: str, name: object, place: str) -> ValueError:
    return ValueError(
        f"{place}: the {what} {name!r} is not one that only holds numbers or text; write the store again with the usual "
        "types, and zstd or gzip"
    )
