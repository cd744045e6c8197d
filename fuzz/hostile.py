"""Well-formed files with hostile meaning: they name codecs that run code, lie in other files, declare more than there is memory,
or hold what no table should. Chance chooses which array, which codec, which link, which size; all of it from one generator.

A payload that ran leaves a folder CANARY behind. The files outside that links lead to hold the SECRETS.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import unmix as um
from fuzz import corpus
from fuzz import hostile_files as files
from fuzz import hostile_stores as stores
from fuzz.traps import CANARY


@dataclass(frozen=True)
class Hostile:
    """`make` writes files into a folder and gives the name of what is to be read. `says` is a part of every refusal, where there
    must be one; what may be read, but must do no harm, has none."""

    make: Callable[[Path, Random], str]
    says: str | None = None

    @property
    def tries(self) -> tuple[Callable[[Path], object], ...]:
        return (_read, _shard, _info)


def _name(folder: Path) -> Path:
    return folder / (folder / "name").read_text()


def _read(folder: Path) -> object:
    return shown(um.read(_name(folder)))


def _shard(folder: Path) -> object:
    return shown(um.shard(_name(folder), folder / "made.shards"))


def _info(folder: Path) -> object:
    return corpus.terminal("info", str(_name(folder)))


def shown(counts: Any) -> str:
    """All that a user could see."""
    csr = counts.csr if isinstance(counts, um.Counts) else counts.shard(0).csr
    table = [] if counts.metadata is None else [*counts.metadata, *counts.metadata.to_numpy().ravel()]
    names = [name for of in (counts.samples, counts.features) if of is not None for name in of[:1000].tolist()]
    return " ".join(
        [f"{value:.0f}" for value in csr.data[:1000]] + [str(cell)[:100] for cell in [*names, *table[:1000]]]
    )


def prepare(hostile: Hostile, folder: Path, chance: Random) -> None:
    """Make the files, and forget what may have happened meanwhile."""
    (folder / "name").write_text(hostile.make(folder, chance))
    shutil.rmtree(folder / CANARY, ignore_errors=True)


HOSTILE: dict[str, Hostile] = {
    "zarr-codec": Hostile(stores.zarr_codec, "the codec '(evil|pickle)'|repeats the metadata"),
    "zarr-blosc": Hostile(stores.zarr_blosc, "holds more than it should, or is cut short|compressed twice"),
    "zarr-texts": Hostile(stores.zarr_texts, "claims more texts than there can be"),
    "zarr-bomb": Hostile(stores.zarr_bomb, "holds more than it should"),
    "zarr-shards": Hostile(stores.zarr_shards, "claims more texts than there can be|chunks outside of itself"),
    "zarr-consolidated": Hostile(stores.zarr_consolidated),
    "zarr-type": Hostile(stores.zarr_type, "the type .* is not one that only holds numbers or text"),
    "zarr-part": Hostile(stores.zarr_part, "is not one that only holds numbers or text"),
    "zarr-link": Hostile(stores.zarr_link, "a link to .* outside the folder; copy"),
    "zarr-pipe": Hostile(stores.zarr_pipe, "not a regular file"),
    "zarr-size": Hostile(stores.zarr_size, "would need .* of memory"),
    "hdf5-external": Hostile(stores.replaced(stores.external), "are in a different file; write them into this one"),
    "hdf5-virtual": Hostile(stores.replaced(stores.virtual), "are in a different file; write them into this one"),
    "hdf5-link": Hostile(stores.replaced(stores.linked), "is a link to another place or file"),
    "hdf5-filter": Hostile(
        stores.replaced(stores.filtered), "is compressed with filter .* write the file again with gzip"
    ),
    "hdf5-type": Hostile(stores.replaced(stores.of_type), "unmix needs numbers"),
    "hdf5-size": Hostile(
        stores.replaced(stores.declared, only=("_index", "year", "codes", "barcodes", "name")),
        "would need .* of memory",
    ),
    "hdf5-repeated": Hostile(
        stores.replaced(stores.repeated, only=("_index", "barcodes", "name")), "has more text than the file has bytes"
    ),
    "hdf5-bomb": Hostile(
        stores.replaced(stores.bomb, only=("data", "indices", "year", "codes")), "longer than it was before"
    ),
    "hdf5-lengths": Hostile(
        stores.replaced(stores.lengths, only=("_index", "barcodes", "name", "categories")),
        "has more text than the file has bytes",
    ),
    "anndata-path": Hostile(stores.anndata_path, "which it announces|is of kind"),
    "anndata-wide": Hostile(stores.wide_chunk),
    "parquet-extension": Hostile(files.parquet_extension, "an extension type of Arrow"),
    "parquet-repeated": Hostile(files.parquet_repeated),
    "parquet-bytes": Hostile(files.parquet_bytes, "bytes in"),
    "parquet-prefix": Hostile(files.parquet_prefix, "encoded as DELTA_BYTE_ARRAY; write it with a dictionary"),
    "parquet-pandas": Hostile(files.parquet_pandas),
    "xlsx": Hostile(files.xlsx),
    "npz-pickled": Hostile(files.npz_pickled, "never unpickles"),
    "npy-pickled": Hostile(files.npy_pickled, "never unpickles"),
    "pickled": Hostile(files.pickled),
    "npz-form": Hostile(files.npz_form),
    "sized": Hostile(files.sized),
    "nul": Hostile(files.nul, "NUL character"),
    "text-link": Hostile(files.text_link, "a link to .* outside the folder.*; copy"),
    "text-pipe": Hostile(files.text_pipe, "not a regular file"),
    "10x-link": Hostile(files.tenx_link, "a link to .* outside the folder; copy"),
    "neighbour-link": Hostile(files.neighbour_link),
    "shards-link": Hostile(files.shards_link),
    "pipe": Hostile(files.pipe, "not a regular file"),
    "bytes-in-names": Hostile(files.bytes_in_names),
}
