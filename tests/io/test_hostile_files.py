"""No data file runs code, shows other files, or takes more memory or disk than there is; and names can always be written."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import shutil
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from fuzz import corpus
from fuzz.hostile import HOSTILE, prepare, shown
from fuzz.hostile_files import pickled
from fuzz.traps import CANARY, SECRETS, Payload

import unmix as um
from unmix.io.read import READERS, name_of
from unmix.io.read.names import writable_name

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no links and pipes there"),
]
SEEDS = 3  # and a fourth in `test_fuzz.py`
RUNS_CODE = [
    "zarr-codec",
    "zarr-consolidated",
    "zarr-type",
    "zarr-part",
    "hdf5-filter",
    "hdf5-type",
    "anndata-path",
    "parquet-extension",
    "parquet-pandas",
    "npz-pickled",
    "npy-pickled",
    "pickled",
]
SHOWS_FILES = [
    "hdf5-external",
    "hdf5-virtual",
    "hdf5-link",
    "zarr-link",
    "zarr-blosc",
    "text-link",
    "10x-link",
    "neighbour-link",
    "shards-link",
    "zarr-pipe",
    "text-pipe",
    "pipe",
]
FILLS_MEMORY = [
    "zarr-size",
    "zarr-texts",
    "zarr-bomb",
    "zarr-shards",
    "hdf5-size",
    "hdf5-repeated",
    "hdf5-bomb",
    "hdf5-lengths",
    "anndata-wide",
    "parquet-repeated",
    "parquet-bytes",
    "parquet-prefix",
    "xlsx",
    "sized",
    "npz-form",
]
CANNOT_BE_WRITTEN = ["nul", "bytes-in-names"]


def made(kind: str, seed: int, folder: Path) -> Path:
    """A hostile file."""
    for prefix, module in (
        ("zarr", "zarr"),
        ("hdf5", "h5py"),
        ("anndata", "anndata"),
        ("parquet", "pyarrow"),
        ("xlsx", "openpyxl"),
    ):
        if kind.startswith(prefix):
            pytest.importorskip(module)
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepare(HOSTILE[kind], folder, random.Random(f"{kind}:{seed}"))
    return folder / (folder / "name").read_text()


def outcome(read: Callable[[], Any]) -> str:
    """All that can be seen of it, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return shown(read())
        except (ValueError, OSError) as error:
            return f"error: {error}"


def check(kind: str, folder: Path) -> None:
    """What the kind promises, in `read`, in `shard` and in the terminal."""
    for seed in range(SEEDS):
        path = made(kind, seed, folder / str(seed))
        seen = {
            "read": outcome(lambda path=path: um.read(path)),
            "shard": outcome(lambda path=path, seed=seed: um.shard(path, folder / f"{seed}.shards")),
            "info": corpus.terminal("info", str(path)),
        }
        assert not (path.parents[len(path.relative_to(folder / str(seed)).parts) - 1] / CANARY).exists(), (
            "a payload ran"
        )
        for how, text in seen.items():
            assert not any(secret in text for secret in SECRETS), how
            if HOSTILE[kind].says is not None:
                assert re.search(HOSTILE[kind].says, text), (seed, how, text)
        if seen["shard"].startswith("error: "):
            assert seen["shard"].startswith(f"error: {path}: ")
            assert not (folder / f"{seed}.shards").exists()
        assert not seen["read"].startswith("error: ") or seen["read"].startswith(f"error: {path}: ")


@pytest.mark.parametrize("kind", RUNS_CODE)
def test_no_data_file_runs_code(kind: str, tmp_path: Path) -> None:
    check(kind, tmp_path)


@pytest.mark.parametrize("kind", SHOWS_FILES)
def test_no_data_file_shows_other_files_or_waits_for_a_pipe(kind: str, tmp_path: Path) -> None:
    check(kind, tmp_path)


@pytest.mark.parametrize("kind", FILLS_MEMORY)
def test_no_data_file_takes_more_memory_than_there_is(kind: str, tmp_path: Path) -> None:
    check(kind, tmp_path)


@pytest.mark.parametrize("kind", CANNOT_BE_WRITTEN)
def test_names_that_cannot_be_written_are_refused_or_escaped(kind: str, tmp_path: Path) -> None:
    check(kind, tmp_path)


def test_every_hostile_kind_has_a_promise() -> None:
    assert sorted([*RUNS_CODE, *SHOWS_FILES, *FILLS_MEMORY, *CANNOT_BE_WRITTEN]) == sorted(HOSTILE)


# ---- code


@pytest.mark.parametrize("ending", READERS)
def test_a_pickle_is_not_unpickled_under_any_name(ending: str, tmp_path: Path) -> None:
    name = pickled(tmp_path, random.Random(ending), ending)
    outcome(lambda: um.read(tmp_path / name))
    outcome(lambda: um.shard(tmp_path / name, tmp_path / "made.shards"))
    corpus.terminal("info", str(tmp_path / name))
    assert not (tmp_path / CANARY).exists()


def test_a_pickle_is_not_unpickled_as_a_fit_an_answer_or_shards(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(pickle.dumps(Payload(tmp_path)))
    folder = tmp_path / "x.shards"
    um.shard(corpus.counts(), folder)
    shutil.copy(file, folder / "000000.safetensors")
    loads: list[Callable[[], Any]] = [lambda: um.load(file), lambda: um.Shards(folder).verify()]
    loads += [
        lambda kind=kind: kind.load(file)
        for kind in vars(um.analysis).values()
        if hasattr(kind, "load")  # type: ignore[misc]
    ]
    for load in loads:
        with pytest.raises(ValueError, match=r"\.safetensors|x\.shards"):
            load()
    assert len(loads) > 5
    assert not (tmp_path / CANARY).exists()


def test_the_usual_codecs_of_zarr_are_read(tmp_path: Path) -> None:
    zarr, _ = pytest.importorskip("zarr"), pytest.importorskip("anndata")
    for version in corpus.zarr_formats():
        corpus.anndata_zarr(tmp_path / f"{version}.zarr", version)
        assert outcome(lambda version=version: um.read(tmp_path / f"{version}.zarr")) == shown(
            um.read(corpus_h5ad(tmp_path))
        )
    if 3 in corpus.zarr_formats():  # in shards, and with metadata of all in one file
        group = zarr.open_group(str(tmp_path / "3.zarr"), mode="r+")
        data = group["X/data"][:]
        attributes = dict(group["X/data"].attrs)
        del group["X/data"]
        array = group.create_array("X/data", shape=data.shape, dtype=data.dtype, chunks=(10,), shards=(100,))
        array[:] = data
        array.attrs.update(attributes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(str(tmp_path / "3.zarr"))
        assert outcome(lambda: um.read(tmp_path / "3.zarr")) == shown(um.read(corpus_h5ad(tmp_path)))


def corpus_h5ad(folder: Path) -> Path:
    corpus.FORMATS["cells.h5ad"](folder / "sound.h5ad")
    return folder / "sound.h5ad"


def test_filters_of_hdf5_that_the_user_imported_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anndata")
    path = made("hdf5-filter", 1, tmp_path / "x")
    refused = re.search(r"filter (\d+)", outcome(lambda: um.read(path)))
    assert refused is not None
    monkeypatch.setitem(sys.modules, "hdf5plugin", types.SimpleNamespace(FILTERS={"one": int(refused[1])}))
    assert "is compressed with filter" not in outcome(lambda: um.read(path))


# ---- other files


def test_a_link_that_the_user_names_is_followed_and_so_is_one_inside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("some bees and wasps")
    (tmp_path / "texts" / "b.txt").symlink_to("a.txt")
    (tmp_path / "link").symlink_to("texts")
    assert um.read(tmp_path / "link").samples.tolist() == ["a", "b"]
    np.save(tmp_path / "x.npy", np.eye(3))
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "y.npy").symlink_to(tmp_path / "x.npy")
    assert um.read(tmp_path / "far" / "y.npy").shape == (3, 3)
    (tmp_path / "cells").mkdir()
    corpus.tenx_folder(tmp_path / "cells")
    (tmp_path / "cells" / "matrix.mtx.gz").rename(tmp_path / "far" / "matrix.mtx.gz")
    (tmp_path / "cells" / "matrix.mtx.gz").symlink_to(tmp_path / "far" / "matrix.mtx.gz")
    with pytest.warns(UserWarning, match="read as 10x"):
        assert um.read(tmp_path / "cells" / "matrix.mtx.gz").shape == (12, 8)


def test_names_beside_a_matrix_that_are_elsewhere_are_left_aside_and_it_is_said(tmp_path: Path) -> None:
    path = made("neighbour-link", 0, tmp_path / "x")
    with pytest.warns(UserWarning, match=r"ignored, it cannot be read \(a link to .* outside the folder"):
        um.read(path)


def test_shards_of_which_a_file_is_elsewhere_are_refused(tmp_path: Path) -> None:
    path = made("shards-link", 0, tmp_path / "x")
    with pytest.raises(ValueError, match=r"x\.shards: \S+: a link to .* outside the folder; copy"):
        um.read(path)


def test_texts_that_cannot_be_read_are_left_out_if_asked(tmp_path: Path) -> None:
    for kind in ("text-link", "text-pipe"):
        path = made(kind, 0, tmp_path / kind)
        with pytest.warns(UserWarning, match="1 of 2 files cannot be read"):
            assert um.read(path, skip_bad=True).samples.tolist() == ["a"]


# ---- memory and disk


def test_cells_of_a_sheet_are_read_wherever_they_are(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for i, row in enumerate((1, 500_000, 1 << 20)):
        for column, value in ((1, ["sample", "x", "y"][i]), (9, ["ant", 1, 2.5][i]), (16384, ["bee", 3, 0][i])):
            book.worksheets[0].cell(row, column, value=value)
    book.save(tmp_path / "far.xlsx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = um.read(tmp_path / "far.xlsx")
    assert (counts.samples.tolist(), counts.features.tolist()) == (["x", "y"], ["ant", "bee"])
    assert counts.csr.toarray().tolist() == [[1, 3], [2.5, 0]]


def test_rows_and_columns_far_from_each_other_are_refused_where_their_table_would_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    from unmix.base import memory

    book = openpyxl.Workbook()
    for place in range(1, 3000):
        book.worksheets[0].cell(place, place, value=1)
    book.save(tmp_path / "diagonal.xlsx")
    monkeypatch.setattr(memory, "available", lambda: 100 << 20)
    with pytest.raises(
        ValueError, match=r"diagonal\.xlsx: a sheet of 2,999 rows and 2,999 columns would need .* of memory"
    ):
        um.read(tmp_path / "diagonal.xlsx")


def test_empty_rows_count_when_disk_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = "%%MatrixMarket matrix coordinate integer general\n2000000000 3 1\n1 1 1\n"
    (tmp_path / "tall.mtx").write_text(matrix)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: types.SimpleNamespace(free=1 << 30))
    with pytest.raises(OSError, match=r"the shards would need 7\.5 GB of disk, 1\.0 GB are free"):
        um.shard(tmp_path / "tall.mtx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_long_names_that_come_again_are_compared_with_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from unmix.base import memory

    names = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 500, pyarrow.int32()), ["x" * (1 << 20)])
    table = pyarrow.table({"sample": names, "ant": [1.0] * 500, "bee": [2.0] * 500})
    parquet.write_table(table, tmp_path / "x.parquet", store_schema=False, dictionary_pagesize_limit=1 << 24)
    monkeypatch.setattr(memory, "available", lambda: 500 << 20)
    with pytest.raises(
        ValueError, match=r"x\.parquet: the names of the samples would need 1,000\.0 MB|1\.0 GB of memory"
    ):
        um.read(tmp_path / "x.parquet")


# ---- names


def test_a_nul_in_a_table_is_refused_by_its_line(tmp_path: Path) -> None:
    for name, separator in (("a.csv", ","), ("a.tsv", "\t"), ("a.csv.gz", ",")):
        rows = [["sample", "ant", "bee"], ["x", "1", "2"], ["y\0z", "3", "4"], ["w", "5", "6"]]
        corpus.packed(tmp_path / name, "\n".join(separator.join(row) for row in rows))
        for read in (um.read, lambda path: um.shard(path, tmp_path / "out")):
            with pytest.raises(ValueError, match=re.escape(f"{name}: line 3 has a NUL character; remove it")):
                read(tmp_path / name)
    matrix = "%%MatrixMarket matrix coordinate integer general\n%\n2 2 2\n1 1 1\n2 2 1\0005\n"
    for name in ("x.mtx", "x.mtx.gz"):  # pandas 2 would read 1
        corpus.packed(tmp_path / name, matrix)
        for read in (um.read, lambda path: um.shard(path, tmp_path / "out")):
            with pytest.raises(ValueError, match=re.escape(f"{name}: line 5 has a NUL character; remove it")):
                read(tmp_path / name)
    (tmp_path / "b.csv").write_text("sample,ant\nx,1\ny,2\n")
    (tmp_path / "more.csv").write_text("sample,site\nx,se\0a\ny,land\n")
    with pytest.raises(ValueError, match=r"more\.csv: line 2 has a NUL character"):
        um.read(tmp_path / "b.csv", metadata=tmp_path / "more.csv")


def test_a_nul_in_a_text_is_no_letter_and_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("bees\0wasps and\nbees and wasps\n")
    counts = um.read(tmp_path / "a.txt", snippets=True)
    assert counts.features.tolist() == ["bees", "wasps"]
    assert counts.metadata["snippet"].tolist() == ["bees wasps and", "bees and wasps"]


def test_bytes_in_the_names_of_files_are_escaped_and_a_fit_of_them_is_written(tmp_path: Path) -> None:
    path = made("bytes-in-names", 0, tmp_path / "x")
    counts = um.read(path)
    assert counts.samples.tolist() == ["caf\\xe9", "sub\\xe9/b"]
    assert counts.metadata["folder"].tolist() == [".", "sub\\xe9"]
    corpus.terminal("fit", str(path), "-k", "1", "-o", str(tmp_path / "out"))
    assert um.load(tmp_path / "out" / "model.safetensors").samples.tolist() == counts.samples.tolist()
    (tmp_path / os.fsdecode(b"caf\xe9.csv")).write_text("")
    assert name_of(tmp_path / os.fsdecode(b"caf\xe9.csv")) == "caf\\xe9"


def test_names_of_10x_that_are_not_utf8_are_escaped(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    corpus.FORMATS["v3.h5"](tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        names = file["matrix/barcodes"][()].astype("S8")
        del file["matrix/barcodes"]
        names[0] = b"caf\xe9"
        file["matrix/barcodes"] = names
    assert um.read(tmp_path / "x.h5").samples.tolist()[:2] == ["caf\\xe9", "s1"]


def test_columns_of_metadata_with_the_same_name_are_all_kept(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("sample,site,site,ant\nx,sea,red,1\ny,land,blue,3\n")
    (tmp_path / "text.csv").write_text("id,site,site,text\nx,sea,red,ants\ny,land,blue,bees\n")
    for name in ("wide.csv", "text.csv"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read, made = um.read(tmp_path / name), um.shard(tmp_path / name, tmp_path / f"{name}.shards")
        for counts in (read, made):
            assert counts.metadata.to_dict("list") == {"site": ["sea", "land"], "site-1": ["red", "blue"]}, name


def test_names_and_metadata_from_any_file_can_be_written(tmp_path: Path) -> None:
    assert writable_name("\ud800x\udcff") == "\\ud800x\\xff"
    assert writable_name("naïve 🐝") == "naïve 🐝"
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "a\udc80", "text": "bees", "no\ud800te": "\udfff"}))
    counts = um.read(tmp_path / "a.jsonl")
    assert (counts.samples.tolist(), counts.metadata.to_dict("list")) == (["a\\x80"], {"no\\ud800te": ["\\udfff"]})


def test_a_sound_table_of_parquet_is_read_as_before(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {"site": pd.Categorical(["sea", "land"]), "note": ["x", None], "ant": [1, 2]}, index=["a", "b"]
    )
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.warns(UserWarning, match="taken as metadata"):
        counts = um.read(tmp_path / "x.parquet")
    assert (counts.samples.tolist(), counts.features.tolist()) == (["a", "b"], ["ant"])
    assert counts.metadata["site"].cat.categories.tolist() == ["land", "sea"]
    assert counts.metadata["site"].tolist() == ["sea", "land"]
    assert counts.metadata["note"].dtype == object
    assert counts.metadata["note"].isna().tolist() == [False, True]
    pyarrow = pytest.importorskip("pyarrow")
    for kind in ("large_string", "string_view") if hasattr(pyarrow, "string_view") else ("large_string",):
        texts = pyarrow.array(["a", "b"], getattr(pyarrow, kind)())  # as Polars writes them
        pytest.importorskip("pyarrow.parquet").write_table(
            pyarrow.table({"sample": texts, "ant": [1, 2]}), tmp_path / "y.parquet"
        )
        assert um.read(tmp_path / "y.parquet").samples.tolist() == ["a", "b"], kind


def test_rare_forms_of_sparse_matrices_are_read(tmp_path: Path) -> None:
    matrix = np.array([[1, 0, 2, 0], [0, 3, 0, 4]])
    for form in ("bsr", "dia", "coo", "csc", "csr"):
        sp.save_npz(tmp_path / "x.npz", sp.coo_array(matrix).asformat(form))
        assert um.read(tmp_path / "x.npz").csr.toarray().tolist() == matrix.tolist()
        assert um.shard(tmp_path / "x.npz", tmp_path / form).shard(0).csr.toarray().tolist() == matrix.tolist()
