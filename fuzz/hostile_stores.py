"""Hostile stores of zarr and files of HDF5: codecs, types and filters that run code, and arrays that lie elsewhere."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz import corpus
from fuzz.traps import CANARY, HUGE, NUMBER, WORD, Payload

DATASETS = (
    "X/data",
    "X/indices",
    "X/indptr",
    "obs/_index",
    "obs/year",
    "obs/site/codes",
    "obs/site/categories",
    "var/_index",
)
OF_TENX = ("matrix/data", "matrix/indices", "matrix/indptr", "matrix/barcodes", "matrix/features/name")


# ---- zarr


def _store(folder: Path, chance: Random) -> tuple[Path, int]:
    version = chance.choice(corpus.zarr_formats())
    corpus.anndata_zarr(folder / "x.zarr", version)
    return folder / "x.zarr", version


def _register() -> None:
    """Codecs as another package may have registered them: the first that builds one finds the canary."""
    import numcodecs
    from numcodecs.abc import Codec

    class Evil(Codec):
        codec_id = "evil"

        def __init__(self, where: str = "") -> None:
            self.where = where

        def encode(self, buf: Any) -> Any:
            return buf

        def decode(self, buf: Any, out: Any = None) -> Any:
            os.makedirs(self.where, exist_ok=True)
            return buf

    numcodecs.register_codec(Evil)
    if 3 not in corpus.zarr_formats():
        return
    from zarr.abc.codec import BytesBytesCodec
    from zarr.registry import register_codec

    class EvilBytes(BytesBytesCodec):
        @classmethod
        def from_dict(cls, data: Any) -> Any:
            os.makedirs(data["configuration"]["where"], exist_ok=True)
            raise ValueError("too late")

    register_codec("evil", EvilBytes)


def _metadata_of(version: int) -> str:
    return "zarr.json" if version == 3 else ".zarray"


def _array(store: Path, version: int, chance: Random) -> tuple[Path, dict[str, Any]]:
    """The metadata of one of its arrays, by file."""
    file = store / chance.choice(DATASETS) / _metadata_of(version)
    return file, json.loads(file.read_text())


def _chunks(array: Path) -> list[Path]:
    return [
        file for file in array.rglob("*") if file.is_file() and file.name not in ("zarr.json", ".zarray", ".zattrs")
    ]


def zarr_codec(folder: Path, chance: Random) -> str:
    _register()
    store, version = _store(folder, chance)
    file, metadata = _array(store, version, chance)
    kind, where = chance.choice(("evil", "pickle")), str(folder / CANARY)
    if kind == "pickle":
        for chunk in _chunks(file.parent):
            chunk.write_bytes(pickle.dumps(Payload(folder)))
    if version == 2:
        codec = {"id": kind} | ({"protocol": 5} if kind == "pickle" else {"where": where})
        if chance.random() < 0.5:
            metadata["compressor"] = codec
        else:
            metadata["compressor"], metadata["filters"] = None, [*(metadata["filters"] or []), codec]
    else:
        name = chance.choice((kind, f"numcodecs.{kind}"))
        codecs = [*metadata["codecs"], {"name": name, "configuration": {"where": where}}]
        shards = {"chunk_shape": metadata["shape"], "codecs": codecs, "index_codecs": metadata["codecs"][:1]}
        metadata["codecs"] = chance.choice((codecs, [{"name": "sharding_indexed", "configuration": shards}]))
        if chance.random() < 0.3:
            _announce(file, metadata)
            return store.name
    file.write_text(json.dumps(metadata))
    return store.name


def _announce(file: Path, metadata: dict[str, Any]) -> None:
    """The same, in the metadata of the group above, which may speak of what is in it."""
    above = file.parent.parent / "zarr.json"
    group = json.loads(above.read_text())
    nodes = {"kind": "inline", "must_understand": False, "metadata": {file.parent.name: metadata}}
    above.write_text(json.dumps(group | {"consolidated_metadata": nodes}))


def zarr_blosc(folder: Path, chance: Random) -> str:
    """Chunks of blosc that claim to be longer than they are, by themselves or inside of another codec."""
    from numcodecs import Blosc

    store, version = _store(folder, chance)
    file, metadata = _array(store, version, chance)
    chunk = bytearray(Blosc(cname="lz4").encode(np.arange(chance.choice((9, 1000)))))
    chunk[12:16] = chance.choice((len(chunk) + 1, 10**6, 2**31 - 1, 2**32 - 1)).to_bytes(4, "little")
    blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle" if version == 3 else 1, "typesize": 4, "blocksize": 0}
    inside = chance.random() < 0.4
    if version == 2:
        codec = {"id": "blosc"} | {key: value for key, value in blosc.items() if key != "typesize"}
        filters = [*(metadata["filters"] or []), codec] if inside else metadata["filters"]
        metadata |= {"compressor": {"id": "zlib", "level": 1} if inside else codec, "filters": filters}
    else:
        codecs = [*metadata["codecs"][:1], {"name": "blosc", "configuration": blosc}]
        metadata["codecs"] = [*codecs, {"name": "crc32c"}] if inside else codecs
    file.write_text(json.dumps(metadata))
    for place in _chunks(file.parent):
        place.write_bytes(chunk)
    return store.name


def zarr_texts(folder: Path, chance: Random) -> str:
    """Chunks that claim thousands of millions of texts and hold none."""
    from numcodecs import get_codec

    store, version = _store(folder, chance)
    file = store / chance.choice(("obs/_index", "obs/site/categories", "var/_index")) / _metadata_of(version)
    metadata = json.loads(file.read_text())
    chunk = chance.choice((2**31 - 1, 2**32 - 1)).to_bytes(4, "little") + bytes(8)
    if version == 2:
        chunk = bytes(chunk if metadata["compressor"] is None else get_codec(metadata["compressor"]).encode(chunk))
    else:
        for codec in metadata["codecs"][1:]:
            chunk = bytes(get_codec({"id": codec["name"]}).encode(chunk))
    for place in _chunks(file.parent):
        place.write_bytes(chunk)
    return store.name


def zarr_bomb(folder: Path, chance: Random) -> str:
    """Chunks of a hundred kilobytes or less that hold a hundred megabytes."""
    from numcodecs import get_codec

    store, version = _store(folder, chance)
    file = store / chance.choice(("X/data", "X/indices", "obs/year", "obs/site/codes")) / _metadata_of(version)
    metadata = json.loads(file.read_text())
    kind = chance.choice(("gzip", "zstd", "blosc", "zlib", "lz4") if version == 2 else ("gzip", "zstd"))
    chunk = bytes(get_codec({"id": kind}).encode(bytes(100 << 20)))
    if version == 2:
        metadata["compressor"] = {"id": kind}
    else:
        configuration = {"level": 1} | ({"checksum": False} if kind == "zstd" else {})
        metadata["codecs"] = [*metadata["codecs"][:1], {"name": kind, "configuration": configuration}]
    file.write_text(json.dumps(metadata))
    for place in _chunks(file.parent):
        place.write_bytes(chunk)
    return store.name


def zarr_shards(folder: Path, chance: Random) -> str:
    """Shards whose chunks claim more texts than there can be, or are outside of the shard."""
    if 3 not in corpus.zarr_formats():
        return zarr_texts(folder, chance)
    import zarr

    corpus.anndata_zarr(folder / "x.zarr", 3)
    group = zarr.open_group(str(folder / "x.zarr"), mode="r+")
    place = chance.choice(("obs/_index", "var/_index"))
    texts, attributes = np.array(group[place][:], dtype=object), dict(group[place].attrs)
    del group[place]
    size = texts.shape
    array = group.create_array(place, shape=size, dtype="str", chunks=size, shards=size, compressors=None)
    array[:] = texts
    array.attrs.update(attributes)
    (shard,) = _chunks(folder / "x.zarr" / place)
    content = bytearray(shard.read_bytes())
    if chance.random() < 0.5:
        content[:4] = b"\xf0\xff\xff\xff"
    else:
        content[-12:-4] = (2**40).to_bytes(8, "little")
    shard.write_bytes(content)
    return "x.zarr"


def zarr_consolidated(folder: Path, chance: Random) -> str:
    """Consolidated metadata that say something else than the arrays; nothing uses them."""
    _register()
    store, version = _store(folder, chance)
    file, metadata = _array(store, version, chance)
    if version == 3:
        metadata["codecs"].append({"name": "evil", "configuration": {"where": str(folder / CANARY)}})
        root = json.loads((store / "zarr.json").read_text())
        nodes = {"kind": "inline", "must_understand": False, "metadata": {"obs/_index": metadata}}
        (store / "zarr.json").write_text(json.dumps(root | {"consolidated_metadata": nodes}))
        return store.name
    metadata["compressor"] = {"id": "evil", "where": str(folder / CANARY)}
    place = f"{file.parent.relative_to(store).as_posix()}/.zarray"
    (store / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": {place: metadata}}))
    return store.name


def zarr_type(folder: Path, chance: Random) -> str:
    store, version = _store(folder, chance)
    file, metadata = _array(store, version, chance)
    if version == 2:
        metadata["dtype"] = chance.choice(("|O", "|V8", [["a", "|O"]], None, "evil"))
        metadata["filters"] = None
    else:
        metadata["data_type"] = chance.choice(("evil", {"name": "evil", "configuration": {}}, "r64", None, ["int8"]))
    file.write_text(json.dumps(metadata))
    return store.name


def zarr_part(folder: Path, chance: Random) -> str:
    if 3 not in corpus.zarr_formats():
        return zarr_type(folder, chance)
    store = folder / "x.zarr"
    corpus.anndata_zarr(store, 3)
    file, metadata = _array(store, 3, chance)
    part, other = chance.choice(
        (
            ("storage_transformers", [{"name": "evil"}]),
            ("chunk_grid", {"name": "evil", "configuration": {}}),
            ("chunk_key_encoding", {"name": "evil"}),
        )
    )
    file.write_text(json.dumps(metadata | {part: other}))
    return store.name


def zarr_link(folder: Path, chance: Random) -> str:
    store, version = _store(folder, chance)
    file, _ = _array(store, version, chance)
    place = chance.choice((file, file.parent, chance.choice(_chunks(file.parent))))
    outside = folder / "kept" / place.name
    outside.parent.mkdir(exist_ok=True)
    shutil.move(place, outside)
    place.symlink_to(outside)
    return store.name


def zarr_pipe(folder: Path, chance: Random) -> str:
    store, version = _store(folder, chance)
    file, _ = _array(store, version, chance)
    place = chance.choice((file, chance.choice(_chunks(file.parent))))
    place.unlink()
    os.mkfifo(place)
    return store.name


def zarr_size(folder: Path, chance: Random) -> str:
    store, version = _store(folder, chance)
    file = (
        store
        / chance.choice(("obs/_index", "obs/year", "obs/site/codes", "var/_index"))
        / (".zarray" if version == 2 else "zarr.json")
    )
    metadata = json.loads(file.read_text())
    metadata["shape"] = [chance.choice(HUGE)]
    file.write_text(json.dumps(metadata))
    return store.name


# ---- HDF5


def _hdf5(folder: Path, chance: Random) -> tuple[str, tuple[str, ...]]:
    if chance.random() < 0.6:
        corpus.FORMATS["cells.h5ad"](folder / "x.h5ad")
        return "x.h5ad", DATASETS
    corpus.FORMATS["v3.h5"](folder / "x.h5")
    return "x.h5", OF_TENX


def _other_hdf5(folder: Path, length: int) -> Path:
    import h5py

    (folder / "kept").mkdir(exist_ok=True)
    file = folder / "kept" / "elsewhere.h5"
    with h5py.File(file, "w") as other:
        other["words"], other["numbers"] = np.array([WORD] * length, dtype="S16"), np.full(length, NUMBER)
    return file


def replaced(
    change: Callable[[Any, str, Any, Path, Random], None], *, only: tuple[str, ...] = ()
) -> Callable[[Path, Random], str]:
    """A file of which one dataset is made again by `change(file, name, what it was, folder, chance)`."""

    def make(folder: Path, chance: Random) -> str:
        import h5py

        name, datasets = _hdf5(folder, chance)
        with h5py.File(folder / name, "r+") as file:
            place = chance.choice([one for one in datasets if not only or one.rpartition("/")[2] in only])
            was, attributes = file[place][()], dict(file[place].attrs)
            del file[place]
            change(file, place, was, folder, chance)
            if file.get(place, getlink=True).__class__ is h5py.HardLink:
                file[place].attrs.update(attributes)
        return name

    return make


def external(file: Any, place: str, was: Any, folder: Path, chance: Random) -> None:
    import h5py

    (folder / "kept").mkdir(exist_ok=True)
    text = was.dtype.kind in "OS"
    (folder / "kept" / "elsewhere.bin").write_bytes(
        np.array([WORD] * len(was), "S16").tobytes() if text else np.full(len(was), NUMBER).tobytes()
    )
    where = [(str(folder / "kept" / "elsewhere.bin"), 0, h5py.h5f.UNLIMITED)]
    file.create_dataset(place, was.shape, "S16" if text else "f8", external=where)


def virtual(file: Any, place: str, was: Any, folder: Path, chance: Random) -> None:
    import h5py

    text = was.dtype.kind in "OS"
    layout = h5py.VirtualLayout(was.shape, "S16" if text else "f8")
    layout[:] = h5py.VirtualSource(_other_hdf5(folder, len(was)), "words" if text else "numbers", was.shape)
    file.create_virtual_dataset(place, layout)


def linked(file: Any, place: str, was: Any, folder: Path, chance: Random) -> None:
    import h5py

    other = _other_hdf5(folder, len(was))
    if chance.random() < 0.3:
        file["elsewhere"] = was
        file[place] = h5py.SoftLink("/elsewhere")
    else:
        file[place] = h5py.ExternalLink(other, "words" if was.dtype.kind in "OS" else "numbers")


def filtered(file: Any, place: str, was: Any, folder: Path, chance: Random) -> None:
    """Compressed with a filter for which HDF5 would look for a library."""
    from h5py import h5d, h5p, h5s, h5t, h5z

    created = h5p.create(h5p.DATASET_CREATE)
    created.set_chunk((len(was),))
    created.set_filter(chance.choice((32001, 32004, 32015, 400, 65000)), h5z.FLAG_OPTIONAL, (1, 2))
    values = was.astype("S16") if was.dtype.kind in "OS" else was
    space = h5s.create_simple(values.shape)
    made = h5d.create(file.id, place.encode(), h5t.py_create(values.dtype), space, created)
    made.write_direct_chunk((0,), values.tobytes(), 0)


def of_type(file: Any, place: str, was: Any, folder: Path, chance: Random) -> None:
    """References, lists and bytes of any meaning."""
    import h5py

    match chance.randrange(3):
        case 0:
            file[place] = np.array([file.ref] * len(was), dtype=h5py.ref_dtype)
        case 1:
            file[place] = np.array([np.void(pickle.dumps(Payload(folder)))] * len(was))
        case 2:
            lists = file.create_dataset(place, (len(was),), dtype=h5py.vlen_dtype(np.float64))
            lists[:] = [np.zeros(3)] * len(was)


def declared(file: Any, place: str, was: Any, folder: Path, chance: Random) -> None:
    """A size without a value."""
    import h5py

    kinds = (h5py.string_dtype(), "S1000") if was.dtype.kind in "OS" else ("f8", "i8")
    file.create_dataset(place, (chance.choice(HUGE),), dtype=chance.choice(kinds), chunks=(1000,))


def bomb(file: Any, place: str, was: Any, folder: Path, chance: Random) -> None:
    """A chunk of a hundred kilobytes that holds a hundred megabytes."""
    made = file.create_dataset(place, data=was, chunks=was.shape, compression="gzip")
    made.id.write_direct_chunk((0,), zlib.compress(bytes(100 << 20), 1), 0)


def lengths(file: Any, place: str, was: Any, folder: Path, chance: Random) -> None:
    """Texts that say they are of thousands of millions of letters, in one piece or in chunks."""
    import h5py

    if chance.random() < 0.5:
        made = file.create_dataset(place, data=was, dtype=h5py.string_dtype())
        file.flush()
        with open(file.filename, "r+b") as content:
            content.seek(made.id.get_offset() + 16 * chance.randrange(len(was)))
            content.write((2**31).to_bytes(4, "little"))
        return
    made = file.create_dataset(
        place, data=was, dtype=h5py.string_dtype(), chunks=was.shape, compression="gzip", shuffle=chance.random() < 0.5
    )
    _, chunk = made.id.read_direct_chunk((0,))
    content = bytearray(zlib.decompress(chunk))
    content[3 * (len(was) if made.shuffle else 1)] = 0x80
    made.id.write_direct_chunk((0,), zlib.compress(bytes(content)), 0)


def repeated(file: Any, place: str, was: Any, folder: Path, chance: Random) -> None:
    """One text of two megabytes, which every row of a large table refers to."""
    import h5py

    text = file.create_dataset(place, (200_000,), dtype=h5py.string_dtype(), chunks=(200_000,), compression="gzip")
    text[0] = "x" * (2 << 20)
    row = bytearray(16 * 200_000)
    _, chunk = text.id.read_direct_chunk((0,))
    first = zlib.decompress(chunk)[:16]
    row[:] = first * 200_000
    text.id.write_direct_chunk((0,), zlib.compress(bytes(row)), 0)


def anndata_path(folder: Path, chance: Random) -> str:
    """obs or var that announce columns which are elsewhere in the file, or of a kind that another package reads."""
    import h5py

    corpus.FORMATS["cells.h5ad"](folder / "x.h5ad")
    with h5py.File(folder / "x.h5ad", "r+") as file:
        match chance.randrange(3):
            case 0:
                file["elsewhere"] = np.array([WORD] * 12, dtype="S16")
                file[chance.choice(("obs", "var"))].attrs["_index"] = chance.choice(("/elsewhere", "../elsewhere"))
            case 1:
                file["obs"].attrs["column-order"] = ["year", "/elsewhere"]
            case 2:
                file["obs/year"].attrs["encoding-type"] = chance.choice(
                    ("awkward-array", "anndata", "evil", "rec-array")
                )
    return "x.h5ad"


def wide_chunk(folder: Path, chance: Random) -> str:
    """A dense matrix with more columns than there is memory."""
    import h5py

    corpus.FORMATS["cells.h5ad"](folder / "x.h5ad")
    with h5py.File(folder / "x.h5ad", "r+") as file:
        del file["X"]
        made = file.create_dataset("X", (12, chance.choice(HUGE)), "f4", chunks=(1, 1000))
        made.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    return "x.h5ad"
