"""Shards: the same counts, tile by tile, wherever they lie; and a damaged folder says what is damaged."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import awkward_counts, examples, random_counts
from hypothesis import given
from hypothesis import strategies as st

import unmix as um
from unmix.counts import shards, stores
from unmix.counts.shards import Shards
from unmix.counts.sides import Sides
from unmix.io.write import write_counts
from unmix.storage import tensors


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", 8)
    monkeypatch.setattr(shards, "TILE", 4)
    monkeypatch.setattr(shards, "START", 10)


def named(X: Any, text: dict | None = None) -> um.Counts:
    n, m = X.shape
    return um.Counts(X, [f"sample {i}" for i in range(n)], [f"feature {j}" for j in range(m)], text=text)


def fractions() -> np.ndarray:
    return np.where(random_counts(21, 9) > 2, random_counts(21, 9) / 3, 0)


def wide() -> sp.csr_array:
    rng = np.random.default_rng(0)
    places = rng.integers(0, 19, 400), rng.integers(0, 70_000, 400)
    return sp.coo_array((rng.poisson(1, 400) + 1.0, places), shape=(19, 70_000)).tocsr()


def huge() -> np.ndarray:
    X = random_counts(30, 40)
    X[::7, 3] = 1e9
    X[2, 5] = 300
    X[17, 0] = 1e17
    return X


KINDS = {
    "one sample": lambda: random_counts(1, 5),
    "one tile": lambda: random_counts(4, 5),
    "one shard": lambda: random_counts(8, 5),
    "an odd number": lambda: random_counts(21, 7),
    "awkward": awkward_counts,
    "fractions": fractions,
    "fractions of two": lambda: fractions() * 3 / 2,
    "counts of 1e9": huge,
    "empty": lambda: np.zeros((11, 3)),
    "empty at the end": lambda: np.pad(random_counts(9, 6), ((0, 9), (0, 2))),
    "more than 2^16 features": wide,
}


@pytest.fixture(params=list(KINDS))
def counts(request: pytest.FixtureRequest) -> um.Counts:
    return named(KINDS[request.param]())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    um.shard(named(random_counts(21, 7)), tmp_path / "cells.shards", metadata=pd.DataFrame({"place": range(21)}))
    return tmp_path / "cells.shards"


def same(one: um.Counts, other: um.Counts) -> bool:
    names = all(np.array_equal(getattr(one, what), getattr(other, what)) for what in ("samples", "features"))
    return names and one.shape == other.shape and all(map(np.array_equal, one.rows, other.rows))


# --- one form in memory and on disk ---------------------------------------------------------------------------------


def test_shards_in_memory_and_on_disk_are_the_same_to_the_last_bit(counts: um.Counts, tmp_path: Path) -> None:
    memory, disk = Shards.of(counts), um.shard(counts, tmp_path / "out")
    assert memory.facts == disk.facts
    assert repr(memory) == repr(disk)
    assert (memory.total, memory.log_factorials, memory.nnz) == (disk.total, disk.log_factorials, disk.nnz)
    assert memory.feature_totals.tobytes() == disk.feature_totals.tobytes()
    assert memory.sample_nnz == disk.sample_nnz == disk.sample.nnz
    assert same(memory.sample, disk.sample)
    assert np.array_equal(memory.samples, disk.samples)
    assert memory.n_shards == disk.n_shards
    for i in range(disk.n_shards):
        assert memory.bounds(i) == disk.bounds(i)
        for one, other in zip(memory.tiles(i), disk.tiles(i), strict=True):
            assert one.shape == other.shape
            for mine, theirs in zip((*one.rows, *one.transposed), (*other.rows, *other.transposed), strict=True):
                assert mine.dtype == theirs.dtype
                assert mine.tobytes() == theirs.tobytes()


def test_what_is_written_is_what_was_given(counts: um.Counts, tmp_path: Path) -> None:
    disk = um.shard(counts, tmp_path / "out")
    assert same(disk.take(np.arange(len(counts))), counts)
    assert [len(disk.shard(i)) for i in range(disk.n_shards)] == [
        b - a for a, b in map(disk.bounds, range(disk.n_shards))
    ]
    assert all(same(disk.shard(i), counts.take(np.arange(*disk.bounds(i)))) for i in range(disk.n_shards))
    assert disk.facts["nonzeros"] == counts.nnz
    ours = {key: counts.facts[key] for key in ("empty_samples", "empty_features", "fractional")}
    assert {key: disk.facts[key] for key in ours} == pytest.approx(ours)
    np.testing.assert_allclose(disk.feature_totals, counts.feature_totals)
    np.testing.assert_allclose(disk.log_factorials, counts.log_factorials)
    disk.verify()


@examples(15)
@given(
    n=st.integers(1, 30),
    m=st.integers(1, 12),
    values=st.lists(st.sampled_from([0, 0, 1, 2, 255, 256, 65_535, 65_536, 0.5, 1e9, 1e-300, 1e150]), min_size=1),
)
def test_any_counts_survive_the_encoding(n: int, m: int, values: list[float]) -> None:
    counts = um.Counts(np.resize(np.array(values, dtype=float), (n, m)))
    encoder = stores.Encoder(m)
    encoder.add(counts.rows)
    arrays = tensors.parsed(tensors.serialized(encoder.arrays()))
    decoded = stores.Encoded.checked(arrays, n, counts.nnz, m, thoroughly=True).rows(0, n)
    assert all(map(np.array_equal, decoded, counts.rows))


def test_tiles_cover_the_samples_in_order_and_are_narrow_where_counts_are(tmp_path: Path) -> None:
    X = huge()
    X[4, 4] = 0.5
    disk = um.shard(X, tmp_path / "out")
    tiles = [tile for i in range(disk.n_shards) for tile in disk.tiles(i)]
    assert [tile.shape[0] for tile in tiles] == [4] * 7 + [2]
    for first, tile in zip(range(0, 30, 4), tiles, strict=True):
        rows = X[first : first + tile.shape[0]]
        narrow = rows.max() < 1 << 16 and (rows % 1 == 0).all()
        assert tile.rows.data.dtype == tile.transposed.data.dtype == (np.uint16 if narrow else np.float64)
        assert (tile.rows.indptr.dtype, tile.rows.indices.dtype) == (np.int64, np.int32)
        np.testing.assert_allclose(tile.sample_totals, rows.sum(axis=1), rtol=1e-14)


def test_solvers_can_ask_a_tile_what_they_ask_counts() -> None:
    counts = named(random_counts(3, 7))
    (tile,) = Shards.of(counts).tiles(0)
    L, F = np.ones((3, 2)), np.arange(1.0, 15).reshape(7, 2)
    ours, theirs = Sides(tile), counts.sides()
    for one, other in zip(ours.both_numerators(L, F), theirs.both_numerators(L, F), strict=True):
        np.testing.assert_array_equal(one, other)
    assert ours.left.numerators(L, F)[1] == theirs.left.numerators(L, F)[1]
    np.testing.assert_array_equal(ours.right.numerators(F, L)[0], theirs.right.numerators(F, L)[0])


def test_a_few_samples_come_in_the_order_asked_for_with_their_names(folder: Path) -> None:
    disk, counts = Shards(folder), named(random_counts(21, 7))
    rows = np.array([20, 3, 3, 11, 0])
    assert same(disk.take(rows), counts.take(rows))
    mask = np.arange(21) % 5 == 1
    assert same(disk.take(mask), counts.take(np.flatnonzero(mask)))
    assert len(disk.take(np.array([], dtype=int))) == 0
    for outside in (21, -1):
        with pytest.raises(IndexError, match="of 21"):
            disk.take(np.array([outside]))
    with pytest.raises(IndexError):
        disk.bounds(3)


def test_names_and_settings_of_texts_come_along(tmp_path: Path) -> None:
    disk = um.shard(named(random_counts(9, 4), text={"rules": 1}), tmp_path / "named")
    assert (disk.text, disk.metadata, len(disk)) == ({"rules": 1}, None, 9)
    assert disk.sample.text == disk.shard(1).text == {"rules": 1}
    assert disk.features is not None
    assert disk.features.tolist() == [f"feature {j}" for j in range(4)]
    bare = um.shard(random_counts(9, 4), tmp_path / "bare")
    assert bare.samples is None
    assert bare.features is None
    assert bare.sample.samples is None


def test_the_checksum_is_of_the_counts_alone() -> None:
    X = random_counts(21, 7)
    checksum = Shards.of(um.Counts(X)).facts["checksum"]
    assert checksum == Shards.of(named(X)).facts["checksum"]
    X[13, 2] += 1
    assert checksum != Shards.of(um.Counts(X)).facts["checksum"]
    assert checksum != Shards.of(um.Counts(np.pad(random_counts(21, 7), ((0, 0), (0, 1))))).facts["checksum"]


def test_ordinary_counts_take_about_three_bytes_a_nonzero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", 16_384)
    X = sp.random_array((2_000, 1_000), density=0.1, rng=np.random.default_rng(0), format="csr")
    X.data = np.random.default_rng(1).geometric(0.5, X.nnz).astype(float)
    um.shard(X, tmp_path / "out")
    assert (tmp_path / "out" / "000000.safetensors").stat().st_size < 3.1 * X.nnz


def test_shards_have_fewer_samples_where_the_first_tile_is_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shards, "MOST_IN_TILE", 20)
    monkeypatch.setattr(shards, "MOST_IN_SHARD", 40)
    X = np.ones((9, 10))
    memory, disk = Shards.of(um.Counts(X)), um.shard(iter(np.split(X, 3)), tmp_path / "out")
    assert memory.rows_per_shard == disk.rows_per_shard == 4
    assert memory.facts == disk.facts
    X[:4, 5:] = 0
    assert Shards.of(um.Counts(X)).rows_per_shard == 8
    assert shards.rows_per_shard(1, 1_000) == 1


# --- the samples to start from --------------------------------------------------------------------------------------


def test_the_start_has_the_samples_with_the_smallest_hashes(folder: Path) -> None:
    hashes = shards.splitmix64(np.arange(21, dtype=np.uint64))
    chosen = np.sort(np.argsort(hashes)[:10])
    assert same(Shards(folder).sample, named(random_counts(21, 7)).take(chosen))


def test_the_start_can_be_larger_and_is_everything_if_there_is_no_more(tmp_path: Path) -> None:
    counts = named(random_counts(21, 7))
    assert len(um.shard(counts, tmp_path / "more", sample=15).sample) == len(Shards.of(counts, 15).sample) == 15
    assert same(um.shard(counts, tmp_path / "all", sample=50).sample, counts)
    with pytest.raises(ValueError, match=r"sample=0; use a number of samples"):
        um.shard(counts, tmp_path / "none", sample=0)


def test_a_start_by_labels_has_all_of_the_rare_ones(tmp_path: Path) -> None:
    counts = named(random_counts(60, 7))
    labels = np.array(["common"] * 52 + ["rare"] * 3 + ["other"] * 5)
    disk = um.shard(counts, tmp_path / "out", sample=12, sample_by=labels)
    assert disk.sample.samples is not None
    rows = [int(name.removeprefix("sample ")) for name in disk.sample.samples]
    assert rows == sorted(rows)
    assert dict(zip(*np.unique(labels[rows], return_counts=True), strict=True)) == {"common": 5, "other": 4, "rare": 3}
    assert same(disk.sample, Shards.of(counts, 12, labels).sample)
    with pytest.raises(ValueError, match="sample_by has 59 labels for 60 samples"):
        um.shard(counts, tmp_path / "fewer", sample_by=labels[1:])


# --- damage -----------------------------------------------------------------------------------------------------------

SHARD_FILE = "000001.safetensors"


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 16
    file.write_bytes(content)


def cut_short(folder: Path) -> None:
    (folder / SHARD_FILE).write_bytes((folder / SHARD_FILE).read_bytes()[:-7])


def made_longer(folder: Path) -> None:
    (folder / SHARD_FILE).write_bytes((folder / SHARD_FILE).read_bytes() + b" ")


DAMAGE = {
    "cut short": cut_short,
    "made longer": made_longer,
    "emptied": lambda folder: (folder / SHARD_FILE).write_bytes(b""),
    "gone": lambda folder: (folder / SHARD_FILE).unlink(),
    "a folder": lambda folder: ((folder / SHARD_FILE).unlink(), (folder / SHARD_FILE).mkdir()),
    "a bit of its counts": lambda folder: flip(folder / SHARD_FILE, -40),
    "a bit of its header": lambda folder: flip(folder / SHARD_FILE, 12),
    "the length of its header": lambda folder: flip(folder / SHARD_FILE, 7),
    "another one's place": lambda folder: shutil.copy(folder / "000000.safetensors", folder / SHARD_FILE),
}


def visit(folder: Path) -> None:
    disk = Shards(folder)
    for i in range(disk.n_shards):
        list(disk.tiles(i))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_shard_names_itself_its_samples_and_what_to_do(damage: str, folder: Path) -> None:
    DAMAGE[damage](folder)
    said = r"cells\.shards: 000001\.safetensors \(samples 8 to 15\) .*; build the shards again"
    for read in (visit, lambda folder: Shards(folder).verify(), lambda folder: Shards(folder).take(np.array([9]))):
        with pytest.raises(ValueError, match=said):
            read(folder)


def test_swapped_shards_are_told(folder: Path) -> None:
    one, two = (folder / f"00000{i}.safetensors" for i in (0, 1))
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)
    with pytest.raises(ValueError, match=r"000000\.safetensors \(samples 0 to 7\)"):
        visit(folder)


@pytest.mark.parametrize("name", ["features.safetensors", "sample.safetensors", "metadata.safetensors"])
def test_damage_beside_the_shards_is_told_as_well(name: str, folder: Path) -> None:
    flip(folder / name, -3)
    with pytest.raises(ValueError, match=rf"{name} is damaged: its checksum"):
        _ = Shards(folder).sample
    (folder / name).unlink()
    with pytest.raises(ValueError, match=rf"{name} cannot be read .*; build the shards again"):
        Shards(folder)


def manifest_with(folder: Path, **changes: Any) -> None:
    manifest = json.loads((folder / "shards.json").read_text())
    (folder / "shards.json").write_text(json.dumps(manifest | changes))


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/etc/passwd", "000000.safetensors", "1.safetensors", 7, None]
)
def test_a_manifest_cannot_point_anywhere_else(name: Any, folder: Path) -> None:
    shutil.copy(folder / SHARD_FILE, folder.parent / "outside.safetensors")
    entries = json.loads((folder / "shards.json").read_text())["shards"]
    manifest_with(folder, shards=[entries[0], entries[1] | {"file": name}, entries[2]])
    with pytest.raises(
        ValueError, match=r"shards\.json is damaged .*( where '000001\.safetensors' should be|shards\[1\]\.file is)"
    ):
        Shards(folder)


CHANGES: dict[str, dict[str, Any]] = {
    "another format": {"format": 2},
    "no shape": {"shape": None},
    "a shape of text": {"shape": ["a", "b"]},
    "a negative shape": {"shape": [-21, 7]},
    "fewer samples": {"shape": [20, 7]},
    "more samples": {"shape": [29, 7]},
    "other features": {"shape": [21, 8]},
    "no shards": {"shards": []},
    "shards that are none": {"shards": [1, 2, 3]},
    "no samples a shard": {"rows_per_shard": 0},
    "other samples a shard": {"rows_per_shard": 7},
    "half a sample": {"rows_per_shard": 7.5},
    "another checksum": {"checksum": "sha256:0"},
    "texts that are none": {"text": "english"},
    "no sample": {"sample": {}},
    "half a nonzero": {"sample": {"size": 1, "sha256": "", "rows": 1, "nonzeros": 0.5}},
    "features without a checksum": {"features": {"size": 1}},
    "a checksum that is none": {"features": {"size": 1, "sha256": None}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_manifest_that_makes_no_sense_is_refused(change: str, folder: Path) -> None:
    manifest_with(folder, **CHANGES[change])
    with pytest.raises(ValueError, match=r"cells\.shards: shards\.json is damaged"):
        Shards(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_manifest_that_is_none_is_refused(content: bytes, folder: Path) -> None:
    (folder / "shards.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"cells\.shards: shards\.json is damaged"):
        Shards(folder)


def rewritten(folder: Path, **arrays: Any) -> None:
    """Shard 1 with other arrays, and a manifest that agrees with them: what only an ill-meaning person would make."""
    content = tensors.serialized({name: array for name, array in arrays.items() if array is not None})
    (folder / SHARD_FILE).write_bytes(content)
    manifest = json.loads((folder / "shards.json").read_text())
    manifest["shards"][1] |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "shards.json").write_text(json.dumps(manifest))


def arrays_of(folder: Path) -> dict[str, np.ndarray]:
    known = tensors.parsed((folder / SHARD_FILE).read_bytes())
    return {name: array.copy() for name, array in known.items()}


def test_a_shard_that_would_lead_a_kernel_astray_is_refused_whatever_its_checksum(folder: Path) -> None:
    good = arrays_of(folder)
    indptr, indices, values = good["indptr"], good["indices"], good["values"]
    nnz, one = len(values), np.array([0], dtype="<u4")
    bad: dict[str, dict[str, Any]] = {
        "a feature 7 of 7": {"indices": np.where(np.arange(nnz) == 3, 7, indices).astype("<u2")},
        "rows are out of order": {"indptr": np.concatenate([indptr[:3], indptr[1:2], indptr[4:]])},
        "arrays do not go together": {"indices": indices.astype("<u4")},
        "do not go together": {"values": values[:-1]},
        "arrays do not": {"indptr": indptr[:-1]},
        "not go": {"indices": None},
        "exceptions are out of place": {"exception_at": one, "exception": np.array([300.0])},
        "it contains a value that is not a count": {
            "exception_at": None,
            "exception": None,
            "values": -values.astype("<f4"),
        },
        "not a count": {"exception_at": None, "exception": None, "values": values.astype("<f8") * np.nan},
        "it holds zeros": {"values": np.where(np.arange(nnz) == 2, 0, values).astype("u1")},
        "features are out of order": {"indices": np.concatenate([indices[1::-1], indices[2:]])},
        "its arrays do not go together": {"values": values.astype("<i2")},
    }
    assert indptr[1] > 1
    for said, arrays in bad.items():
        rewritten(folder, **(good | arrays))
        with pytest.raises(ValueError, match=rf"000001\.safetensors \(samples 8 to 15\) is damaged: .*{said}"):
            visit(folder)
    rewritten(folder, **good)
    visit(folder)


def test_a_shard_that_changes_after_its_first_visit_cannot_lead_a_kernel_astray(folder: Path) -> None:
    disk = Shards(folder)
    list(disk.tiles(1))
    indices = arrays_of(folder)["indices"]
    content = (folder / SHARD_FILE).read_bytes()
    (folder / SHARD_FILE).write_bytes(content.replace(indices.tobytes(), np.full_like(indices, 60_000).tobytes()))
    with pytest.raises(ValueError, match="it has a feature 60,000 of 7"):
        list(disk.tiles(1))


def test_verify_compares_the_manifest_with_the_counts(folder: Path) -> None:
    Shards(folder).verify()
    entries = json.loads((folder / "shards.json").read_text())["shards"]
    swapped = [entries[0] | {"total": entries[1]["total"]}, entries[1] | {"total": entries[0]["total"]}]
    manifest_with(folder, shards=[*swapped, *entries[2:]])
    with pytest.raises(
        ValueError, match=r"000000\.safetensors \(samples 0 to 7\) is damaged: it holds other counts than shards\.json"
    ):
        Shards(folder).verify()


def test_a_folder_without_a_manifest_is_none_of_shards(folder: Path) -> None:
    (folder / "shards.json").unlink()
    with pytest.raises(ValueError, match=r"no folder of shards: there is no shards\.json in it"):
        Shards(folder)
    (folder / "building.json").write_text("{}")
    with pytest.raises(
        ValueError, match="its shards are not finished; run the command that began them again to continue"
    ):
        um.read(folder)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        Shards(folder / "nowhere")


# --- reading ----------------------------------------------------------------------------------------------------------


def test_read_opens_shards_and_refuses_options_that_come_too_late(folder: Path) -> None:
    disk = um.read(folder)
    assert isinstance(disk, Shards)
    assert disk.shape == (21, 7)
    for options in ({"layer": "counts"}, {"transpose": True}, {"snippets": True}, {"min_df": 2}):
        with pytest.raises(ValueError, match="does not apply to shards"):
            um.read(folder, **options)


TABLE = pd.DataFrame(
    {
        "type": pd.Categorical(["B", None, "T"] * 7, categories=["T", "B", "NK"]),
        "donor": ["anne", "", None] * 7,
        "depth": np.arange(21) / 3,
        "genes": np.arange(21),
        "doublet": [True, False, False] * 7,
        "year": pd.array([1984, None, 2001] * 7, dtype="Int64"),
        "mixed": ["x", 1, 2.5] * 7,
        "day": pd.to_datetime(["2020-01-01", "2021-02-03", None] * 7),
    }
)


def test_what_describes_the_samples_comes_along_and_becomes_that_of_a_fit(tmp_path: Path) -> None:
    counts = um.Counts(random_counts(21, 7), metadata=TABLE)
    disk = um.shard(counts, tmp_path / "out")
    found = disk.metadata
    assert found is not None
    assert list(found) == list(TABLE)
    assert found["day"].fillna("none").tolist() == ["2020-01-01 00:00:00", "2021-02-03 00:00:00", "none"] * 7
    pd.testing.assert_frame_equal(found.drop(columns="day"), TABLE.drop(columns="day"))
    rows = np.array([20, 0, 9])
    pd.testing.assert_frame_equal(disk.take(rows).metadata, found.iloc[rows].reset_index(drop=True))  # type: ignore[arg-type]
    part = disk.shard(1).metadata
    assert part is not None
    assert part["genes"].tolist() == list(range(*disk.bounds(1)))
    fit = um.PoissonNMF(2, max_iter=2, tol=0).fit(disk).result_
    assert fit.metadata is not None
    assert fit.metadata["donor"].tolist() == TABLE["donor"].tolist()
    um.plot.structure(fit, group="type")
    pd.testing.assert_frame_equal(um.shard(disk, tmp_path / "again").metadata, found)  # type: ignore[arg-type]


def test_a_table_can_be_given_with_the_counts_or_once_there_are_shards(tmp_path: Path) -> None:
    counts = named(random_counts(21, 7))
    assert counts.samples is not None
    file = tmp_path / "samples.csv"
    pd.DataFrame({"sample": counts.samples[::-1], "place": np.arange(21)[::-1]}).to_csv(file, index=False)
    disk = um.shard(counts, tmp_path / "out", metadata=file)
    assert disk.metadata is not None
    assert disk.metadata["place"].tolist() == list(range(21))
    bare = um.shard(counts, tmp_path / "bare")
    assert bare.metadata is None
    read = um.read(tmp_path / "bare", metadata=file)
    assert read.metadata is not None
    assert read.metadata["place"].tolist() == list(range(21))
    given = um.shard(counts, tmp_path / "given", metadata=TABLE)
    assert given.metadata is not None
    assert list(given.metadata) == list(TABLE)
    with pytest.raises(ValueError, match="metadata has 3 rows for 21 samples"):
        um.shard(counts, tmp_path / "short", metadata=TABLE[:3])
    assert not (tmp_path / "short").exists()
    with pytest.raises(ValueError, match="metadata has 3 rows for 21 samples"):
        bare.with_metadata(TABLE[:3])


def test_shards_without_a_word_of_metadata_are_refused_and_the_same_command_adds_it(tmp_path: Path) -> None:
    counts = um.Counts(random_counts(21, 7), metadata=TABLE)
    write_counts(counts, tmp_path / "counts.npz")
    out = tmp_path / "out"
    um.shard(tmp_path / "counts.npz", out)
    kept = {file.name: file.stat().st_mtime_ns for file in out.glob("0*.safetensors")}
    manifest = json.loads((out / "shards.json").read_text())
    del manifest["metadata"]
    (out / "shards.json").write_text(json.dumps(manifest))
    (out / "metadata.safetensors").unlink()
    with pytest.raises(ValueError, match=r"shards\.json is damaged \(has no 'metadata'\)"):
        Shards(out)
    again = um.shard(tmp_path / "counts.npz", out)
    assert again.metadata is not None
    assert again.metadata["genes"].tolist() == list(range(21))
    assert {file.name: file.stat().st_mtime_ns for file in out.glob("0*.safetensors")} == kept


@pytest.mark.parametrize(
    "change",
    [
        {"columns": b"[]]"},
        {"columns": b'[["type", "category"]]', "0000": np.zeros(20, "<i4"), "0000.values": b'["B"]'},
        {"columns": b'[["type", "category"]]', "0000": np.ones(21, "<i4"), "0000.values": b'["B"]'},
        {"columns": b'[["type", "float"]]', "0000": np.zeros(21, "<i4")},
        {"columns": b'[["type", "sort"]]', "0000": np.zeros(21, "<i4")},
        {"columns": b"[3]"},
        {},
    ],
)
def test_a_table_that_is_none_is_refused_whatever_its_checksum(change: dict[str, Any]) -> None:
    arrays = {k: np.frombuffer(v, np.uint8) if isinstance(v, bytes) else v for k, v in change.items()}
    with pytest.raises(ValueError, match=r"holds no table|its columns?\b|Extra data"):
        stores.decoded(arrays, 21)


def test_sample_names_are_read_only_when_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, read = Shards(folder), []
    known = tensors.read_bytes
    monkeypatch.setattr(tensors, "read_bytes", lambda path, size: read.append(path.name) or known(path, size))
    assert (disk.nnz, disk.n_shards, len(disk.facts["checksum"])) == (Shards(folder).nnz, 3, 71)
    assert not [name for name in read if name[0] == "0"]
    assert disk.samples is not None
    assert disk.samples[[0, 20]].tolist() == ["sample 0", "sample 20"]
