"""Every source of shards gives what `um.read` gives, however it was cut; and a build that was broken off goes on."""

from __future__ import annotations

import errno
import gzip
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from conftest import random_counts

import unmix as um
from unmix.base import memory
from unmix.base.progress import Step, watching
from unmix.counts import shards
from unmix.counts.shards import Shards
from unmix.io import building
from unmix.io import read as reading
from unmix.io.options import ReadKeywords, StopWords
from unmix.io.read import blocks, cells, matrices, sheets, tables, text
from unmix.storage.fit_file import table_to_json

N, M = 37, 11
SAMPLES, FEATURES = [f"s{i}" for i in range(N)], [f"f{j}" for j in range(M)]
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "the", "of", "zeta", "don't", "café", "1984"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that every source comes in many blocks, and none of them ends where a shard does."""
    for module, name, value in (
        (shards, "SHARD", 8),
        (shards, "TILE", 4),
        (shards, "START", 10),
        (blocks, "ROWS", 3),
        (blocks, "NONZEROS", 25),
        (blocks, "BUCKET", 60),
        (sheets, "CELLS", 8),
        (text, "BATCH", 5),
        (matrices, "LINES", 17),
        (cells, "SAMPLE", 20),
    ):
        monkeypatch.setattr(module, name, value)


def matrix() -> np.ndarray:
    X = random_counts(N, M, mean=1.0)
    X[3] = 0
    X[5, 2], X[20, 1], X[30, 4] = 0.5, 1e9, 300
    return X


def frame() -> pd.DataFrame:
    return pd.DataFrame(matrix(), SAMPLES, FEATURES)


def anndata(X: Any, **more: Any) -> Any:
    module = pytest.importorskip("anndata")
    index = pd.DataFrame(index=pd.Index(SAMPLES, dtype=object)), pd.DataFrame(index=pd.Index(FEATURES, dtype=object))
    return module.AnnData(X, *index, **more)


def long() -> pd.DataFrame:
    coo = sp.coo_array(matrix())
    order = np.random.default_rng(1).permutation(coo.nnz)
    order = np.concatenate([order, order[:9]])  # some pairs come twice
    names = {"word": np.array(FEATURES)[coo.col[order]], "doc": np.array(SAMPLES)[coo.row[order]]}
    return pd.DataFrame(names | {"n": coo.data[order]})


def documents() -> list[str]:
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(WORDS, 12)) for _ in range(N)] + ["", "The of"]


def write_h5(path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    X = sp.csr_matrix(matrix())
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(X, name)
        group["shape"], group["barcodes"] = [M, N], [name.encode() for name in SAMPLES]
        features = group.create_group("features")
        features["name"] = [name.encode() for name in FEATURES]
        features["feature_type"] = [b"Antibody Capture" if j == 2 else b"Gene Expression" for j in range(M)]


def write_10x(path: Path) -> None:
    path.mkdir()
    scipy.io.mmwrite(path / "matrix.mtx", sp.coo_matrix(matrix().T))
    (path / "barcodes.tsv").write_text("".join(f"{name}\n" for name in SAMPLES))
    kinds = ["Antibody Capture" if j == 2 else "Gene Expression" for j in range(M)]
    lines = [f"id{name}\t{name}\t{kind}\n" for name, kind in zip(FEATURES, kinds, strict=True)]
    (path / "features.tsv").write_text("".join(lines))


def write_mtx_gz(path: Path) -> None:
    entries = np.random.default_rng(0).permutation(np.argwhere(matrix()))
    lines = [f"{i + 1} {j + 1} {matrix()[i, j]:.17g}" for i, j in entries]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(["%%MatrixMarket matrix coordinate real general", f"{N} {M} {len(lines)}", *lines]))


def write_npy_with_names(path: Path) -> None:
    np.save(path, matrix())
    (path.parent / "features.txt").write_text("\n".join(FEATURES))
    (path.parent / "samples.csv").write_text("\n".join(["sample,kind", *(f"{name},x" for name in SAMPLES)]))


def write_texts(path: Path) -> None:
    for i, document in enumerate(documents()):
        (path / f"part{i % 2}").mkdir(parents=True, exist_ok=True)
        (path / f"part{i % 2}" / f"{i}.txt").write_text(document)


def write_jsonl(path: Path) -> None:
    records = [{"text": text, "id": f"d{i}", "tags": [i], "year": 1} for i, text in enumerate(documents())]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(json.dumps(record) for record in records))


def text_table() -> pd.DataFrame:
    return pd.DataFrame({"text": documents(), "title": [f"t{i}" for i in range(N + 2)], "year": 1})


def write_duplicates(path: Path) -> None:
    X = sp.csr_matrix(matrix())
    indices = np.concatenate([X.indices, X.indices[-3:]])  # the last row has some features twice, and unsorted
    indptr = X.indptr.copy()
    indptr[-1] += 3
    data = np.concatenate([X.data, np.zeros(1), np.ones(2)])
    np.savez(path, format=b"csr", shape=(N, M), data=data, indices=indices, indptr=indptr)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csr.h5ad": lambda path: anndata(sp.csr_matrix(matrix())).write_h5ad(path),
    "float32.h5ad": lambda path: anndata(sp.csr_matrix(matrix().astype(np.float32))).write_h5ad(
        path, compression="gzip"
    ),
    "csc.h5ad": lambda path: anndata(sp.csc_matrix(matrix())).write_h5ad(path),
    "dense.h5ad": lambda path: anndata(matrix()).write_h5ad(path),
    "csr.zarr": lambda path: anndata(sp.csr_matrix(matrix())).write_zarr(path),
    "csc.zarr": lambda path: anndata(sp.csc_matrix(matrix())).write_zarr(path),
    "cells.h5": write_h5,
    "10x": write_10x,
    "x.mtx": lambda path: scipy.io.mmwrite(path, sp.coo_matrix(matrix())),
    "dense.mtx": lambda path: scipy.io.mmwrite(path, matrix()),
    "unsorted.mtx.gz": write_mtx_gz,
    "csr.npz": lambda path: sp.save_npz(path, sp.csr_matrix(matrix())),
    "plain.npz": lambda path: sp.save_npz(path, sp.csr_array(matrix().astype(np.int32)), compressed=False),
    "csc.npz": lambda path: sp.save_npz(path, sp.csc_matrix(matrix())),
    "coo.npz": lambda path: sp.save_npz(path, sp.coo_matrix(matrix())),
    "dia.npz": lambda path: sp.save_npz(path, sp.dia_matrix(matrix())),
    "duplicates.npz": write_duplicates,
    "named.npz": lambda path: um_write(path),
    "x.npy": write_npy_with_names,
    "fortran.npy": lambda path: np.save(path, np.asfortranarray(matrix().astype(np.float32))),
    "wide.csv": lambda path: frame().to_csv(path),
    "wide.tsv.gz": lambda path: frame().to_csv(path, sep="\t"),
    "described.csv": lambda path: frame().assign(kind="a word").to_csv(path),
    "genes.csv": lambda path: frame().T.rename_axis("gene").to_csv(path),
    "unnamed.csv": lambda path: frame().to_csv(path, index=False),
    "late.csv": lambda path: frame().set_axis([f"{i:02}" for i in range(N - 1)] + ["x"]).to_csv(path),
    "wide.parquet": lambda path: frame().to_parquet(path),
    "unnamed.parquet": lambda path: frame().reset_index(drop=True).to_parquet(path),
    "long.csv": lambda path: long().to_csv(path, index=False),
    "long.parquet": lambda path: long().to_parquet(path),
    "lines.txt": lambda path: path.write_text("\n".join(documents()) + "\n"),
    "ends.txt.gz": lambda path: path.write_bytes(gzip.compress("\r\n".join(documents()).encode())),
    "texts": write_texts,
    "texts.jsonl.gz": write_jsonl,
    "texts.csv": lambda path: text_table().to_csv(path),
    "texts.parquet": lambda path: text_table().to_parquet(path),
}


def um_write(path: Path) -> None:
    from unmix.io.write import write_counts

    write_counts(um.Counts(frame()), path)


def made(name: str, tmp_path: Path) -> Path:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    if name.endswith(".zarr"):
        pytest.importorskip("zarr")
    SOURCES[name](tmp_path / name)
    return tmp_path / name


def same(disk: Shards, counts: um.Counts | Shards) -> None:
    assert isinstance(counts, um.Counts)
    memory = Shards.of(counts)
    assert disk.facts == memory.facts
    assert disk.feature_totals.tobytes() == memory.feature_totals.tobytes()
    assert disk.text == counts.text
    for mine, theirs in ((disk.samples, counts.samples), (disk.features, counts.features)):
        assert (None if mine is None else mine.tolist()) == (None if theirs is None else theirs.tolist())
    assert all(map(np.array_equal, disk.sample.rows, memory.sample.rows))
    assert told(disk.metadata) == told(counts.metadata)
    assert told(disk.sample.metadata) == told(memory.sample.metadata)


def told(table: pd.DataFrame | None) -> Any:
    """What a file of a fit would say of it."""
    return None if table is None else (table_to_json(table), [str(dtype) for dtype in table.dtypes])


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


quietly = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

# --- bounded memory ---------------------------------------------------------------------------------------------------

WIDE = 400  # rows of the tables below, of which 16 are to be in memory at a time

TURNING: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "item numbers first and text later": lambda i: (f"s{i % 7}", f"{i % 9:02}" if i < 300 else f"x{i % 4}", i % 5 + 1),
    "item whole first and fractions later": lambda i: (f"s{i % 7}", i % 9 if i < 300 else f"{i % 9}.5", i % 5 + 1),
    "item numbers first and true or false later": lambda i: (f"s{i % 7}", i % 9 if i < 300 else "True", i % 5 + 1),
    "texts numbers first": lambda i: (
        f"d{i}",
        1900 + i if i < 150 else " ".join(WORDS[i % 3 :: 2]),
        "07" if i < 300 else "x",
    ),
}


@quietly
@pytest.mark.parametrize("what", TURNING)
def test_a_table_whose_columns_turn_to_text_is_read_in_pieces(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = ("id", "text", "code") if what.startswith("texts") else ("sample", "item", "count")
    rows = [",".join(map(str, row)) for row in (header, *map(TURNING[what], range(WIDE)))]
    (tmp_path / "x.csv").write_text("\n".join(rows))
    whole = um.read(tmp_path / "x.csv")  # in one piece
    monkeypatch.setattr(sheets, "CELLS", 8)
    monkeypatch.setattr(blocks, "KEPT", 0)
    at_once, known = [], sheets.unguarded_table
    monkeypatch.setattr(
        sheets, "unguarded_table", lambda header, table: at_once.append(len(table)) or known(header, table)
    )
    same(um.shard(tmp_path / "x.csv", tmp_path / "out"), whole)
    in_pieces = um.read(tmp_path / "x.csv")
    assert max(at_once) == 16
    assert isinstance(whole, um.Counts)
    assert isinstance(in_pieces, um.Counts)
    assert in_pieces.facts == whole.facts
    assert told(in_pieces.metadata) == told(whole.metadata)
    if not what.startswith("texts"):
        assert whole.features is not None
        assert {"00", "0.0", "0"} & {*whole.features} == {"0.0" if "whole" in what else "00" if "text" in what else "0"}


def test_what_was_read_once_is_kept_if_it_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    times = []

    def read() -> Iterator[int]:
        times.append(1)
        yield from range(3)

    for size, kept in ((5, True), (200, False)):
        times.clear()
        monkeypatch.setattr(blocks, "KEPT", 100)
        items = blocks.Again(read, lambda _, size=size: size)  # type: ignore[misc]
        assert next(iter(items)) == 0  # who does not go through all of them leaves nothing
        assert [[*items] for _ in range(3)] == [[0, 1, 2]] * 3
        assert len(times) == (2 if kept else 4)


DECLARED = ["csr.npz", "csc.npz", "coo.npz", "x.npy", "x.mtx", "dense.mtx", "csr.h5ad", "dense.h5ad", "cells.h5"]


@quietly
@pytest.mark.parametrize("name", DECLARED)
def test_what_a_file_declares_is_compared_with_memory_before_it_is_read_whole(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(name, tmp_path)
    monkeypatch.setattr(blocks, "require", lambda needed, *more: memory.require(1e12 * needed, *more))
    monkeypatch.setattr(blocks.Blocks, "rows", lambda *_: pytest.fail("read"))
    with pytest.raises(ValueError, match=rf"{name}: a matrix of .* would need .*fit it from shards"):
        um.read(path)


def test_the_cells_that_a_parquet_table_declares_are_compared_with_memory_before_its_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made("wide.parquet", tmp_path)
    monkeypatch.setattr(memory, "available", lambda: 3000)
    monkeypatch.setattr(sheets, "_parts", lambda _: pytest.fail("read"))
    with pytest.raises(ValueError, match=r"wide\.parquet: 37 × 12 cells would need"):
        um.read(path)


# --- every source -----------------------------------------------------------------------------------------------------


@quietly
@pytest.mark.parametrize("name", SOURCES)
def test_a_file_becomes_the_shards_of_what_read_reads(name: str, tmp_path: Path) -> None:
    path = made(name, tmp_path)
    same(um.shard(path, tmp_path / "out"), um.read(path))


@quietly
@pytest.mark.parametrize(
    "name", [name for name in SOURCES if name.partition(".")[2] in ("npz", "npy", "mtx", "mtx.gz", "csv", "parquet")]
)
def test_a_file_the_other_way_round_as_well(name: str, tmp_path: Path) -> None:
    path = made(name, tmp_path)
    if name.startswith("texts"):
        with pytest.raises(ValueError, match="transpose is for counts, and these are texts"):
            um.shard(path, tmp_path / "out", transpose=True)
        assert not (tmp_path / "out").exists()
    else:
        same(um.shard(path, tmp_path / "out", transpose=True), um.read(path, transpose=True))


@quietly
@pytest.mark.parametrize("name", ["csr.h5ad", "csc.npz", "long.csv", "lines.txt", "unsorted.mtx.gz"])
def test_how_a_source_was_cut_leaves_no_trace(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(name, tmp_path)
    um.shard(path, tmp_path / "many")
    for module, size in ((blocks, "ROWS"), (blocks, "NONZEROS"), (blocks, "BUCKET"), (matrices, "LINES")):
        monkeypatch.setattr(module, size, 1 << 20)
    um.shard(path, tmp_path / "few")
    assert contents(tmp_path / "many") == contents(tmp_path / "few")


@quietly
def test_options_of_texts_mean_what_they_mean_to_read(tmp_path: Path) -> None:
    path = made("lines.txt", tmp_path)
    for i, options in enumerate(
        ({"min_df": 3, "max_df": 0.8}, {"stop_words": ["alpha"], "ngrams": 2}, {"min_df": 1, "stop_words": None})
    ):
        same(um.shard(path, tmp_path / str(i), **options), um.read(path, **options))  # type: ignore[arg-type]
    fit = um.TopicModel(2, max_iter=2, tol=0).fit(um.read(path)).result_
    new = tmp_path / "new.txt"
    new.write_text("alpha beta\nnothing known\n")
    same(um.shard(new, tmp_path / "like", like=fit), um.read(new, like=fit))
    with pytest.raises(ValueError, match=r"lines\.txt: no word is in at least 99"):
        um.shard(path, tmp_path / "none", min_df=99)
    with pytest.raises(ValueError, match=r"lines\.txt: layer='x' does not apply"):
        um.shard(path, tmp_path / "none", layer="x")
    assert not (tmp_path / "none").exists()


@quietly
def test_layers_and_raw_of_anndata_are_found(tmp_path: Path) -> None:
    adata = anndata(sp.csr_matrix(matrix() / 3), layers={"counts": sp.csr_matrix(matrix())})
    adata.raw = anndata(sp.csr_matrix(matrix() + 1))
    adata.write_h5ad(tmp_path / "a.h5ad")
    for i, options in enumerate(({"layer": "counts"}, {"raw": True})):
        same(um.shard(tmp_path / "a.h5ad", tmp_path / f"file{i}", **options), um.read(tmp_path / "a.h5ad", **options))
        same(um.shard(adata, tmp_path / f"object{i}", **options), um.read(tmp_path / "a.h5ad", **options))
    with pytest.raises(ValueError, match=r"there is no layer 'other' in it; it has X, layer 'counts', raw$"):
        um.shard(adata, tmp_path / "none", layer="other")
    adata.raw = None
    with pytest.raises(ValueError, match=r"there is no raw in it; it has X, layer 'counts'$"):
        um.shard(adata, tmp_path / "none", raw=True)


def test_names_that_come_twice_are_told_apart_as_by_read(tmp_path: Path) -> None:
    frame().set_axis(["same"] * 2 + SAMPLES[2:]).to_csv(tmp_path / "x.csv")
    with pytest.warns(UserWarning, match="1 sample had the name of an earlier sample"):
        disk = um.shard(tmp_path / "x.csv", tmp_path / "out")
    assert disk.samples is not None
    assert disk.samples[:2].tolist() == ["same", "same-1"]


def lazy(X: Any) -> Any:
    return pytest.importorskip("dask.array").from_array(X, chunks=(5, 4))


OBJECTS: dict[str, Callable[[], Any]] = {
    "array": lambda: matrix(),
    "CSR": lambda: sp.csr_array(matrix()),
    "CSC": lambda: sp.csc_matrix(matrix()),
    "list": lambda: [matrix()[:7], matrix()[7:]],
    "generator of CSR": lambda: (sp.csr_array(matrix()[i : i + 5]) for i in range(0, N, 5)),
    "generator of rows": lambda: (matrix()[i : i + 1] for i in range(N)),
    "dask array": lambda: lazy(matrix()),
    "dask array of CSR": lambda: lazy(matrix()).rechunk((5, -1)).map_blocks(sp.csr_array),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects_without_names_become_shards(kind: str, tmp_path: Path) -> None:
    same(um.shard(OBJECTS[kind](), tmp_path / "out"), um.Counts(matrix()))
    disk = um.shard(OBJECTS[kind](), tmp_path / "named", features=FEATURES, samples=SAMPLES)
    same(disk, um.Counts(frame()))


@quietly
@pytest.mark.parametrize("kind", ["memory", "backed", "dask"])
def test_anndata_becomes_shards_wherever_it_lies(kind: str, tmp_path: Path) -> None:
    adata = anndata(sp.csr_matrix(matrix()))
    if kind == "backed":
        adata.write_h5ad(tmp_path / "a.h5ad")
        adata = sys.modules["anndata"].read_h5ad(tmp_path / "a.h5ad", backed="r")
    if kind == "dask":
        adata.X = lazy(matrix())
    same(um.shard(adata, tmp_path / "out"), um.Counts(frame()))


def test_counts_data_frames_and_shards_keep_their_names(tmp_path: Path) -> None:
    disk = um.shard(frame(), tmp_path / "frame")
    same(disk, um.Counts(frame()))
    same(um.shard(um.Counts(frame()), tmp_path / "counts"), um.Counts(frame()))
    same(um.shard(disk, tmp_path / "again"), um.Counts(frame()))


def test_empty_blocks_do_no_harm_and_no_block_at_all_is_refused(tmp_path: Path) -> None:
    parts = [matrix()[:0], matrix()[:9], matrix()[:0], matrix()[9:]]
    same(um.shard(parts, tmp_path / "out"), um.Counts(matrix()))
    for nothing in ([], [matrix()[:0]]):
        with pytest.raises(ValueError, match=r"no block|at least one"):
            um.shard(nothing, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_blocks_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    for wrong, said in (
        ([matrix()[:9], matrix()[9:, :5]], r"from row 9 on; there are 11 features"),
        ([matrix()[:9], matrix()[9]], r"a block of shape \(11,\)"),
        ([[1, 2], [3]], "must be arrays or sparse matrices"),
    ):
        with pytest.raises(ValueError, match=said):
            um.shard(wrong, tmp_path / "out")
    with pytest.raises(ValueError, match="3 names for 11 features"):
        um.shard(matrix(), tmp_path / "out", features=["a", "b", "c"])
    with pytest.raises(ValueError, match="3 names for 37 samples"):
        um.shard(iter([matrix()]), tmp_path / "out", samples=["a", "b", "c"])
    assert not (tmp_path / "out").exists()


def test_the_start_can_be_chosen_by_a_column_of_obs(tmp_path: Path) -> None:
    adata = anndata(sp.csr_matrix(np.floor(matrix())))
    adata.obs["type"] = ["rare" if i in (7, 30) else "common" for i in range(N)]
    adata.write_h5ad(tmp_path / "a.h5ad")
    for source in (tmp_path / "a.h5ad", adata):
        disk = um.shard(source, tmp_path / f"out{source is adata}", sample=5, sample_by="type")
        assert disk.sample.samples is not None
        assert {"s7", "s30"} < set(disk.sample.samples)
        with pytest.raises(ValueError, match="no column 'sort'"):
            um.shard(source, tmp_path / "none", sample_by="sort")


# --- bad values -------------------------------------------------------------------------------------------------------


@quietly
@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("kind", ["npy", "npz", "h5ad", "csc", "csv", "mtx", "blocks"])
def test_a_bad_value_deep_inside_is_named_by_its_row_and_leaves_nothing(
    kind: str, value: float, tmp_path: Path
) -> None:
    X = np.floor(matrix())
    X[33, 6] = value
    source: Any = tmp_path / f"x.{'h5ad' if kind == 'csc' else kind}"
    said = r"row 34 \('s33'\), column 7 \('f6'\)"
    if kind == "npy":
        np.save(source, X)
        said = "at row 33, column 6"
    elif kind == "npz":
        sp.save_npz(source, sp.csr_matrix(X))
        said = "at row 33, column 6"
    elif kind in ("h5ad", "csc"):
        anndata((sp.csr_matrix if kind == "h5ad" else sp.csc_matrix)(X)).write_h5ad(source)
    elif kind == "csv":
        pd.DataFrame(X, SAMPLES, FEATURES).to_csv(source, na_rep="")
    elif kind == "mtx":
        if not np.isfinite(value):
            pytest.skip("not a number of MatrixMarket")
        scipy.io.mmwrite(source, sp.coo_matrix(X))
        said = "at row 33, column 6"
    else:
        source, said = iter(np.array_split(X, 7)), "at row 33, column 6"
    with pytest.raises(ValueError, match=said):
        um.shard(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_text_among_the_counts_is_named_by_its_row(tmp_path: Path) -> None:
    table = frame().astype(object)
    table.iloc[33, 6] = "many"
    table.to_csv(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"x\.csv: row 34 \('s33'\), column 7 \('f6'\) is 'many'"):
        um.shard(tmp_path / "x.csv", tmp_path / "out")
    with pytest.raises(ValueError, match="text"):
        um.shard(iter([matrix().astype(object), table.to_numpy()]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@quietly
@pytest.mark.parametrize(
    "name", ["csr.h5ad", "csr.npz", "unsorted.mtx.gz", "wide.parquet", "ends.txt.gz", "wide.tsv.gz"]
)
def test_a_source_that_is_cut_short_is_refused_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    path = made(name, tmp_path)
    path.write_bytes(path.read_bytes()[: -path.stat().st_size // 3])
    with pytest.raises(ValueError, match=rf"{name}: "):
        um.shard(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@quietly
def test_indices_outside_the_matrix_are_refused(tmp_path: Path) -> None:
    X = sp.csr_matrix(matrix())
    arrays = {"format": b"csr", "shape": (N, M), "data": X.data, "indices": X.indices, "indptr": X.indptr}
    outside, unordered = X.indices.copy(), X.indptr.copy()
    outside[-1], unordered[3] = M, unordered[-1]
    for name, array in (("indices", outside), ("indptr", unordered), ("data", X.data[:-1])):
        np.savez(tmp_path / "x.npz", **(arrays | {name: array}))
        with pytest.raises(ValueError, match=r"x\.npz: .*(damaged|do not go with)"):
            um.shard(tmp_path / "x.npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- broken off -------------------------------------------------------------------------------------------------------


class Stop(Exception):  # noqa: N818 - no error
    pass


def stop_after(shards_written: int) -> Callable[[Step], None]:
    calls = iter(range(100))

    def stop(step: Step) -> None:
        if next(calls) + 1 == shards_written:
            raise Stop

    return stop


@quietly
@pytest.mark.parametrize(
    "name", ["csr.h5ad", "csc.h5ad", "csr.npz", "long.csv", "wide.csv", "lines.txt", "x.npy", "10x"]
)
@pytest.mark.parametrize("finished", [1, 3])
def test_a_build_that_was_broken_off_goes_on_and_ends_with_the_same_files(
    name: str, finished: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, folder = made(name, tmp_path), tmp_path / "out"
    um.shard(path, tmp_path / "undisturbed")
    with pytest.raises(Stop), watching(stop_after(finished)):
        um.shard(path, folder, verbose=True)
    assert len(list(folder.glob("0*.safetensors"))) == finished
    with pytest.raises(ValueError, match="not finished"):
        Shards(folder)
    written: list[str] = []
    known = building.write_durably
    monkeypatch.setattr(
        building, "write_durably", lambda file, content: (written.append(file.name), known(file, content))
    )
    um.shard(path, folder)
    assert contents(folder) == contents(tmp_path / "undisturbed")
    assert not [file for file in written if file[0] == "0" and int(file[:6]) < finished]


@pytest.mark.slow
def test_a_kill_leaves_what_the_same_command_goes_on_from(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", matrix())
    um.shard(tmp_path / "x.npy", tmp_path / "undisturbed")
    folder = tmp_path / "out"
    script = f"""
import time
import unmix as um
from unmix.base import memory
from unmix.base.progress import watching
from unmix.counts import shards
shards.SHARD, shards.TILE, shards.START = 8, 4, 10
def report(step):
    print(step.done, flush=True)
    time.sleep(30 if step.done == 16 else 0)
with watching(report):
    um.shard({str(tmp_path / "x.npy")!r}, {str(folder)!r}, verbose=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["8\n", "16\n"]
        with pytest.raises(ValueError, match="another process is writing shards there; wait for it"):
            um.shard(tmp_path / "x.npy", folder)
        process.send_signal(signal.SIGKILL)
    (folder / ".000002-0123456789ab.safetensors").write_bytes(b"half")  # as if it had died while writing
    (folder / ".scratch-0123456789ab").mkdir()
    um.shard(tmp_path / "x.npy", folder)
    assert contents(folder) == contents(tmp_path / "undisturbed")


def test_a_finished_shard_that_was_damaged_since_is_written_again(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", matrix())
    um.shard(tmp_path / "x.npy", tmp_path / "undisturbed")
    with pytest.raises(Stop), watching(stop_after(3)):
        um.shard(tmp_path / "x.npy", tmp_path / "out", verbose=True)
    (tmp_path / "out" / "000001.safetensors").write_bytes(b"damaged")
    um.shard(tmp_path / "x.npy", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("file", [f"{name}.safetensors" for name in ("000003", "features", "sample", "metadata")])
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_the_same_command_mends_damaged_shards(file: str, damage: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", matrix())
    pd.DataFrame({"place": range(N)}).to_csv(tmp_path / "samples.csv", index=False)
    um.shard(tmp_path / "x.npy", tmp_path / "out")
    sound = contents(tmp_path / "out")
    kept = (tmp_path / "out" / "000002.safetensors").stat().st_mtime_ns
    (tmp_path / "out" / file).write_bytes(sound[file][:-1] + b"?") if damage == "changed" else (
        tmp_path / "out" / file
    ).unlink()
    um.shard(tmp_path / "x.npy", tmp_path / "out").verify()
    assert contents(tmp_path / "out") == sound
    assert (tmp_path / "out" / "000002.safetensors").stat().st_mtime_ns == kept


def test_shards_are_kept_when_their_source_cannot_be_opened_or_memory_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unmix.io import read

    def fail(error: Exception) -> Callable[..., Any]:
        def raising(*_: Any) -> Any:
            raise error

        return raising

    np.save(tmp_path / "x.npy", matrix())
    with pytest.raises(Stop), watching(stop_after(3)):
        um.shard(tmp_path / "x.npy", tmp_path / "out", verbose=True)
    with monkeypatch.context() as context:
        context.setattr(read, "load", fail(ValueError("reading needs a library")))
        with pytest.raises(ValueError, match=r"x\.npy: reading needs a library"):
            um.shard(tmp_path / "x.npy", tmp_path / "out")
        context.undo()
        context.setattr(building, "canonical", fail(MemoryError()))
        with pytest.raises(ValueError, match="not enough memory; 3 shards are kept"):
            um.shard(tmp_path / "x.npy", tmp_path / "out")
    assert len(list((tmp_path / "out").glob("0*.safetensors"))) == 3
    same(um.shard(tmp_path / "x.npy", tmp_path / "out"), um.Counts(matrix()))


def test_a_full_disk_keeps_what_is_finished_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", matrix())
    um.shard(tmp_path / "x.npy", tmp_path / "undisturbed")
    known = building.write_durably

    def full(file: Path, content: bytes) -> None:
        if file.name == "000002.safetensors":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        known(file, content)

    with monkeypatch.context() as context:
        context.setattr(building, "write_durably", full)
        with pytest.raises(OSError, match="2 shards are kept: free some space, and the same command continues"):
            um.shard(tmp_path / "x.npy", tmp_path / "out")
    um.shard(tmp_path / "x.npy", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")


def test_room_on_the_disk_is_asked_for_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sp.save_npz(tmp_path / "x.npz", sp.csr_matrix(matrix()))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 100, 0))  # type: ignore[attr-defined]
    with pytest.raises(OSError, match=r"the shards would need 0\.0 MB of disk, 0\.0 MB are free"):
        um.shard(tmp_path / "x.npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_finished_is_not_made_again_but_another_source_is_refused(tmp_path: Path) -> None:
    path, folder = tmp_path / "x.npy", tmp_path / "out"
    np.save(path, matrix())
    um.shard(path, folder)
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    um.shard(path, folder)
    assert before == {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    changed = "holds shards of a different source, or made with other options; use another folder"
    for source, options in ((path, {"transpose": True}), (path, {"sample": 5}), (matrix(), {})):
        with pytest.raises(ValueError, match=changed):
            um.shard(source, folder, **options)  # type: ignore[arg-type]
    np.save(path, matrix() + 1)
    with pytest.raises(ValueError, match=changed):
        um.shard(path, folder)
    assert before == {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}


def test_another_source_does_not_go_on_with_unfinished_shards(tmp_path: Path) -> None:
    path, folder = tmp_path / "x.npy", tmp_path / "out"
    np.save(path, matrix())
    with pytest.raises(Stop), watching(stop_after(2)):
        um.shard(path, folder, verbose=True)
    kept = contents(folder)
    unfinished = "unfinished shards of a different source, or made with other options; repeat the command"
    for source, options in ((path, {"transpose": True}), (matrix(), {})):
        with pytest.raises(ValueError, match=unfinished):
            um.shard(source, folder, **options)  # type: ignore[arg-type]
    assert contents(folder) == kept


def test_blocks_that_come_once_leave_nothing_when_they_break_off(tmp_path: Path) -> None:
    def breaking() -> Iterator[np.ndarray]:
        yield matrix()
        raise Stop

    with pytest.raises(Stop):
        um.shard(breaking(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("dear to someone")
    with pytest.raises(ValueError, match=r"holds other files, such as 'thesis\.doc'; use a new folder"):
        um.shard(matrix(), tmp_path)
    with pytest.raises(ValueError, match="is a file; use a folder"):
        um.shard(matrix(), tmp_path / "thesis.doc")
    assert contents(tmp_path) == {"thesis.doc": b"dear to someone"}
    with pytest.raises(FileNotFoundError, match="no such file"):
        um.shard(tmp_path / "nowhere.npz", tmp_path / "out")
    um.shard(matrix(), tmp_path / "out")
    with pytest.raises(ValueError, match="holds shards already; open them"):
        um.shard(tmp_path / "out", tmp_path / "again")


def test_counts_that_are_refused_leave_no_thread_that_reads_ahead(tmp_path: Path) -> None:
    X = matrix()
    X[4, 4] = -1
    sp.save_npz(tmp_path / "x.npz", sp.csr_matrix(X))
    before = threading.enumerate()
    with pytest.raises(ValueError, match="unmix needs finite counts") as refused:
        um.shard(tmp_path / "x.npz", tmp_path / "out")
    new = [thread.name for thread in threading.enumerate() if thread not in before]
    assert not [name for name in new if name.startswith("unmix-prefetch")]
    assert refused.tb is not None  # which keeps all that was at work


def test_progress_is_told_after_every_shard(tmp_path: Path) -> None:
    told: list[tuple[int | None, int | None]] = []
    with watching(lambda step: told.append((step.done, step.of))):
        um.shard(matrix(), tmp_path / "array", verbose=True)
        um.shard(iter([matrix()[:20]]), tmp_path / "blocks", verbose=True)
    assert told == [(8, N), (16, N), (24, N), (32, N), (N, N), (8, None), (16, None), (20, None)]


def test_the_keywords_of_readers_are_the_read_options_with_the_same_types() -> None:
    names = {"StopWords": StopWords, "Fit": um.Fit}
    known = get_type_hints(um.ReadOptions, localns=names)
    assert {field.name: known[field.name] for field in fields(um.ReadOptions)} == get_type_hints(
        ReadKeywords, localns=names
    )
    own = {
        name: [one.name for one in inspect.signature(getattr(um, name)).parameters.values()]
        for name in ("read", "read_texts", "shard")
    }
    assert all(one[-1] == "options" for one in own.values())
    assert max(len(names) - 1 for names in own.values()) <= 9


def test_options_that_mean_nothing_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="snippets=True; shards do not keep the beginnings of texts"):
        um.shard(["a text"], tmp_path / "out", snippets=True)
    with pytest.raises(ValueError, match="layer='counts' is for files, and these are texts in memory"):
        um.read_texts(["a text"], layer="counts")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'layr'"):
        um.read(tmp_path, layr="counts")  # type: ignore[call-arg]


def long_texts(path: Path, n: int = 1_000) -> None:
    """Short texts at first, and then ones that are fifty times as long."""
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(300)]
    rows = [" ".join(rng.choice(words, 4 if i < n // 2 else 200)) for i in range(n)]
    pd.DataFrame({"id": [f"t{i}" for i in range(n)], "text": rows}).to_csv(path, index=False)


@pytest.mark.parametrize("limit", [None, "20MB", 200e6])
def test_texts_of_a_table_come_in_parts_of_few_bytes_and_a_limit_changes_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str | float | None
) -> None:
    path, part = tmp_path / "texts.csv", 1 << 16
    long_texts(path)
    whole = um.read(path)
    monkeypatch.setattr(sheets, "CELLS", 1 << 23)
    monkeypatch.setattr(blocks, "PART", part)
    sizes, size = list[int](), tables.size_of
    for module in (sheets, tables):
        monkeypatch.setattr(module, "size_of", lambda table: sizes.append(size(table)) or sizes[-1])
    disk = um.shard(path, tmp_path / "out", memory=limit)
    same(disk, whole)
    assert len(sizes) > 10
    assert np.quantile(sizes, 0.8) < 2 * part  # but for the part in which texts become longer, in every pass
    assert max(sizes) < 60 * part


def test_a_limit_of_memory_is_what_is_available_beyond_what_is_in_use() -> None:
    free = memory.available()
    with memory.limited("100MB"):
        assert 0 < memory.available() <= 100 * 2**20
        held = np.ones(60 * 2**20 // 8)
        assert memory.available() < (least := 60 * 2**20)
        memory.besides(held.nbytes)  # as names of samples are
        assert memory.available() > least
        with memory.limited(None):
            assert memory.available() > 0.5 * free
    assert held.size
    assert memory.available() > 0.5 * free
    with pytest.raises(ValueError, match="memory='a lot'; use an amount"), memory.limited("a lot"):
        pass


def test_what_was_too_large_to_keep_is_not_collected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "KEPT", 10)
    asked = list[int]()
    again = blocks.Again(lambda: iter(range(5)), lambda item: asked.append(item) or 4)
    assert [list(again), list(again), again.kept] == [[0, 1, 2, 3, 4]] * 2 + [None]
    assert asked == [0, 1, 2, 0]


def test_texts_whose_fit_would_need_more_memory_than_allowed_are_known_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some words\n" * 1_000)
    (tmp_path / "many").mkdir()
    for i in range(3):
        (tmp_path / "many" / f"{i}.txt").write_text("some words " * 500)
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write('{"text": "some words"}\n' * 100)
    for name, size in (
        ("a.txt", 11_000),
        ("many", 16_500),
        ("b.jsonl.gz", 4 * (tmp_path / "b.jsonl.gz").stat().st_size),
    ):
        assert reading.memory_for(tmp_path / name) == pytest.approx(4.8 * size)
