"""Hostile tables, matrices and folders: pickles, types that run code, sizes, links that leave a folder, and pipes."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp

import unmix as um
from fuzz import corpus
from fuzz.traps import CANARY, HUGE, Payload, secret
from unmix.io.read import READERS

# ---- tables and matrices


def parquet_extension(folder: Path, chance: Random) -> str:
    import pyarrow
    from pyarrow import parquet

    class Evil(pyarrow.ExtensionType):
        def __init__(self, where: str) -> None:
            self.where = where
            super().__init__(pyarrow.float64(), "fuzz.evil")

        def __arrow_ext_serialize__(self) -> bytes:
            return self.where.encode()

        @classmethod
        def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Any:
            os.makedirs(serialized.decode(), exist_ok=True)
            return cls(serialized.decode())

    try:
        pyarrow.register_extension_type(Evil(str(folder / CANARY)))
    except pyarrow.ArrowKeyError:  # by an earlier case
        pyarrow.unregister_extension_type("fuzz.evil")
        pyarrow.register_extension_type(Evil(str(folder / CANARY)))
    frame = corpus.frame().reset_index()
    table = pyarrow.Table.from_pandas(frame)
    place = chance.randrange(1, len(frame.columns))
    values = pyarrow.ExtensionArray.from_storage(Evil(str(folder / CANARY)), pyarrow.array(frame.iloc[:, place]))
    name = "n" * chance.randrange(1, 9)  # so that the words in the schema begin anywhere
    parquet.write_table(table.set_column(place, name, values), folder / "x.parquet")
    return "x.parquet"


def parquet_repeated(folder: Path, chance: Random) -> str:
    """One long text in every row, which is in the file once."""
    import pyarrow
    from pyarrow import parquet

    rows, length = 4000, chance.choice((1, 2)) << 20
    text = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), ["x" * length])
    columns = {"sample": [f"s{i}" for i in range(rows)], "note": text, "ant": [1.0] * rows, "bee": [2.0] * rows}
    how: dict[str, Any] = {"store_schema": False, "write_statistics": False, "dictionary_pagesize_limit": 1 << 24}
    parquet.write_table(pyarrow.table(columns), folder / "x.parquet", **how)
    return "x.parquet"


def parquet_bytes(folder: Path, chance: Random) -> str:
    """One long value of bytes in every row, which is in the file once."""
    import pyarrow
    from pyarrow import parquet

    rows, length = 4000, 1 << 16
    kind = chance.choice((pyarrow.binary(), pyarrow.binary(length)))
    columns = {"sample": [f"s{i}" for i in range(rows)], "note": pyarrow.array([bytes(length)] * rows, kind)}
    parquet.write_table(pyarrow.table(columns | {"ant": [1.0] * rows}), folder / "x.parquet")
    return "x.parquet"


def parquet_prefix(folder: Path, chance: Random) -> str:
    """Texts that are stored as what each adds to the one before."""
    import pyarrow
    from pyarrow import parquet

    place, start = chance.choice(("sample", "note")), "x" * (1 << 20)
    columns = {name: [f"{start if name == place else ''}{i}" for i in range(100)] for name in ("sample", "note")}
    how: dict[str, Any] = {"use_dictionary": False, "column_encoding": {place: "DELTA_BYTE_ARRAY"}}
    parquet.write_table(pyarrow.table(columns | {"ant": [1.0] * 100}), folder / "x.parquet", **how)
    return "x.parquet"


def parquet_pandas(folder: Path, chance: Random) -> str:
    """What pandas says of its columns, spoiled: other types, and an index that is not there."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pandas(corpus.frame())
    said = json.loads(table.schema.metadata[b"pandas"])
    match chance.randrange(4):
        case 0:
            said["columns"][chance.randrange(8)]["numpy_type"] = chance.choice(
                ("object", "category", "evil", "O8", "Int64")
            )
        case 1:
            said["index_columns"] = chance.choice((["gone"], [None], {}, "sample", [["ant"]], ["ant", "bee"]))
        case 2:
            said["column_indexes"] = [{"pandas_type": "evil", "numpy_type": "evil", "name": None}]
        case 3:
            said = chance.choice(([], None, {"columns": None}))
    parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(said)}), folder / "x.parquet")
    return "x.parquet"


def xlsx(folder: Path, chance: Random) -> str:
    """A sheet with a cell far away, or with a row of a number that no sheet has."""
    import openpyxl

    corpus.FORMATS["wide.xlsx"](folder / "x.xlsx")
    if chance.random() < 0.6:
        book = openpyxl.load_workbook(folder / "x.xlsx")
        places = [(1 << 20, 16384), (1 << 20, 3), (5, 16384)]
        for row, column in chance.sample(places, chance.randrange(1, 3)):
            book.worksheets[0].cell(row, column, value=chance.choice((1, "x")))
        book.save(folder / "x.xlsx")
        return "x.xlsx"
    with zipfile.ZipFile(folder / "x.xlsx") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    far = str(chance.choice((10**9, 10**12, 10**15))).encode()
    members[sheet] = (
        members[sheet].replace(b'<row r="3"', b'<row r="' + far + b'"').replace(b'"A3"', b'"A' + far + b'"')
    )
    with zipfile.ZipFile(folder / "x.xlsx", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return "x.xlsx"


def npz_pickled(folder: Path, chance: Random) -> str:
    csr = sp.csr_array(np.eye(3))
    members: dict[str, Any] = {
        "format": b"csr",
        "shape": csr.shape,
        "data": csr.data,
        "indices": csr.indices,
        "indptr": csr.indptr,
    }
    members[chance.choice([*members, "samples", "metadata"])] = np.array([Payload(folder)], dtype=object)
    np.savez(folder / "x.npz", **members)
    return "x.npz"


def npy_pickled(folder: Path, chance: Random) -> str:
    payload = np.array([[Payload(folder)]], dtype=object)
    if chance.random() < 0.5:
        payload = np.array([[(1, Payload(folder))]], dtype=[("a", "i4"), ("b", "O")])
    np.save(folder / "x.npy", payload, allow_pickle=True)
    return "x.npy"


def pickled(folder: Path, chance: Random, ending: str | None = None) -> str:
    """A pickle under another name."""
    name = f"x{chance.choice(sorted(READERS)) if ending is None else ending}"
    (folder / name).write_bytes(pickle.dumps(Payload(folder), protocol=chance.choice((0, 2, 5))))
    return name


def npz_form(folder: Path, chance: Random) -> str:
    """Forms of sparse matrices that are seldom seen, with indices outside of themselves."""
    odd = chance.choice((-1, -(2**31), 2**31 - 1, 2**40, 99))
    index = np.array([0, 1, odd], dtype=np.int64)
    forms: dict[str, dict[str, Any]] = {
        "bsr": {"indices": index, "indptr": np.array([0, 1, 3]), "data": np.ones((3, 2, 3))},
        "dia": {"offsets": index, "data": np.ones((3, 9))},
        "coo": {"row": index, "col": np.arange(3), "data": np.ones(3)},
        "csc": {"indices": index, "indptr": np.array([0, odd, 2, 3]), "data": np.ones(3)},
        "csr": {"indices": index, "indptr": np.array([0, 3, 1, 3]), "data": np.ones(3)},
    }
    form = chance.choice(sorted(forms))
    shape = chance.choice(((4, 9), (3, 3), (2**40, 3), (3, 2**40), (-3, 3), (9,), (2, 2, 2)))
    np.savez(folder / "x.npz", format=form.encode(), shape=np.array(shape), **forms[form])
    return "x.npz"


def sized(folder: Path, chance: Random) -> str:
    """Headers that declare what would fill memory or a disk."""
    size = chance.choice(HUGE)
    kind = chance.choice(("mtx", "ldac", "npy", "npz", "member"))
    if kind == "mtx":
        shape = chance.choice((f"{size} 3 1", f"3 {size} 1", f"{size} {size} 1"))
        (folder / "x.mtx").write_text(f"%%MatrixMarket matrix coordinate integer general\n{shape}\n1 1 1\n")
    elif kind == "ldac":
        (folder / "x.ldac").write_text(f"1 0:1\n2 0:1 {chance.choice((size, 10**30))}:2\n")
    elif kind == "npy":
        np.lib.format.write_array_header_1_0(
            head := io.BytesIO(), {"descr": "<f8", "fortran_order": False, "shape": (size, 3)}
        )
        (folder / "x.npy").write_bytes(head.getvalue())
    else:
        entry = np.zeros(1, dtype=np.int64)
        np.savez(folder / "x.npz", format=b"coo", shape=np.array([size, 3]), row=entry, col=entry, data=np.ones(1))
        if kind == "member":
            _add_member(folder / "x.npz", chance.choice(("samples", "indptr", "metadata")), size)
    return f"x.{'npz' if kind == 'member' else kind}"


def _add_member(path: Path, name: str, size: int) -> None:
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{name}.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (size,)})


def nul(folder: Path, chance: Random) -> str:
    """A NUL in a name or in the metadata."""
    kind = chance.choice(("csv", "tsv", "jsonl", "npz", "parquet", "mtx"))
    table = corpus.frame().reset_index()
    table.insert(1, "note", "fine")
    place, odd = chance.choice(("sample", "note", "column")), "a\0b"
    if place == "column":
        table = table.rename(columns={"bee": odd})
    else:
        table.loc[chance.randrange(12), place] = odd
    match kind:
        case "csv" | "tsv":
            table.to_csv(folder / f"x.{kind}", index=False, sep="," if kind == "csv" else "\t")
        case "mtx":
            matrix = "%%MatrixMarket matrix coordinate integer general\n%\n2 2 2\n1 1 1\n2 2 1"
            (folder / "x.mtx").write_text(f"{matrix}{chance.choice((chr(0), chr(0) + '5'))}\n")
        case "parquet":
            table.to_parquet(folder / "x.parquet")
        case "jsonl":
            record = {"id": "a", "note": "b", "text": "some bees"} | {"note" if place == "column" else "id": odd}
            (folder / "x.jsonl").write_text(json.dumps(record))
        case "npz":
            sp.save_npz(folder / "x.npz", corpus.counts().csr)
            names = np.frombuffer(json.dumps([odd, *corpus.NAMES[1:]]).encode(), np.uint8)
            with zipfile.ZipFile(folder / "x.npz", "a") as archive, archive.open("features.npy", "w") as file:
                np.save(file, names)
    return f"x.{kind}"


# ---- folders and special files


def text_link(folder: Path, chance: Random) -> str:
    texts = folder / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("some bees and wasps")
    if chance.random() < 0.5:
        (texts / "b.txt").symlink_to(secret(folder))
    else:
        (texts / "more").symlink_to(secret(folder).parent)
    return texts.name


def text_pipe(folder: Path, chance: Random) -> str:
    texts = folder / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text("some bees and wasps")
    os.mkfifo(texts / "b.txt")
    return texts.name


def tenx_link(folder: Path, chance: Random) -> str:
    (folder / "cells").mkdir()
    corpus.tenx_folder(folder / "cells")
    name, lines = chance.choice((("barcodes.tsv", 12), ("features.tsv", 8)))
    (folder / "cells" / f"{name}.gz").unlink()
    (folder / "cells" / name).symlink_to(secret(folder, lines))
    return chance.choice(("cells", "cells/matrix.mtx.gz"))


def neighbour_link(folder: Path, chance: Random) -> str:
    """Names beside a matrix that lie elsewhere: the matrix is read without them."""
    (folder / "data").mkdir()
    ending = chance.choice((".npy", ".npz", ".mtx"))
    matrix = corpus.counts().csr
    if ending == ".npy":
        np.save(folder / "data" / "x.npy", matrix.toarray())
    elif ending == ".npz":
        sp.save_npz(folder / "data" / "x.npz", matrix)
    else:
        corpus.FORMATS["matrix.mtx"](folder / "data" / "x.mtx")
    name, lines = chance.choice((("features.txt", 8), ("x.vocab", 8), ("samples.csv", 13)))
    (folder / "data" / name).symlink_to(secret(folder, lines))
    return f"data/x{ending}"


def shards_link(folder: Path, chance: Random) -> str:
    um.shard(corpus.counts(), folder / "x.shards")
    place = chance.choice(sorted((folder / "x.shards").iterdir()))
    (folder / "kept").mkdir()
    place.rename(folder / "kept" / place.name)
    place.symlink_to(folder / "kept" / place.name)
    return "x.shards"


def pipe(folder: Path, chance: Random) -> str:
    name = f"x{chance.choice(sorted(READERS))}"
    os.mkfifo(folder / name)
    return name


def bytes_in_names(folder: Path, chance: Random) -> str:
    """Files whose names are not UTF-8."""
    texts = folder / os.fsdecode(chance.choice((b"texts", b"te\xfft")))
    (texts / os.fsdecode(b"sub\xe9")).mkdir(parents=True)
    (texts / os.fsdecode(b"caf\xe9.txt")).write_text("some bees and wasps")
    (texts / os.fsdecode(b"sub\xe9") / "b.txt").write_text("some bees and ants")
    (folder / "link").symlink_to(texts)
    return "link"
