"""A folder of shards works, or is refused in one line that names the folder, the file and the remedy: whatever its numbers,
names and tables say, and with checksums that agree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import random_counts
from test_saved_fits import COLUMNS, X0, table

import unmix as um
from unmix.counts import shards as shards_module
from unmix.storage import fit_file, tensors

DEEP = b"[" * 100_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three shards of up to eight samples."""
    monkeypatch.setattr(shards_module, "SHARD", 8)
    monkeypatch.setattr(shards_module, "TILE", 4)
    X = um.Counts(random_counts(21, 7), [f"s{i}" for i in range(21)], [f"f{j}" for j in range(7)])
    um.shard(X, tmp_path / "cells.shards", metadata=pd.DataFrame({"place": range(21)}))
    return tmp_path / "cells.shards"


def used(folder: Path) -> um.Fit:
    """Everything that is read for a fit and its file."""
    fit = um.TopicModel(2, max_iter=2, tol=0, random_state=0).fit(um.Shards(folder)).result_
    assert np.isfinite(fit.loglik)
    fit.save(folder.parent / "model.safetensors")
    return um.load(folder.parent / "model.safetensors")


def change_manifest(folder: Path, change: Callable[[Any], None]) -> None:
    manifest = json.loads((folder / "shards.json").read_text())
    change(manifest)
    (folder / "shards.json").write_text(json.dumps(manifest))


def change_file(folder: Path, name: str, **arrays: Any) -> None:
    """Other arrays in a file, and a manifest that agrees with them."""
    known = {key: array.copy() for key, array in tensors.parsed((folder / name).read_bytes()).items()}
    given = {
        key: np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value for key, value in arrays.items()
    }
    content = tensors.serialized(known | given)
    (folder / name).write_bytes(content)

    def agree(manifest: Any) -> None:
        stem = name.partition(".")[0]
        entry = manifest["shards"][int(stem)] if stem.isdigit() else manifest[stem]
        entry |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    change_manifest(folder, agree)


def in_all(**changes: Any) -> Callable[[Any], None]:
    return lambda manifest: manifest.update(changes)


def in_shard(**changes: Any) -> Callable[[Any], None]:
    return lambda manifest: manifest["shards"][1].update(changes)


def swapped(name: str) -> Callable[[Any], None]:
    """Two shards' numbers, of the same sum."""

    def swap(manifest: Any) -> None:
        one, two = manifest["shards"][0], manifest["shards"][1]
        one[name], two[name] = two[name], one[name]

    return swap


NUMBERS: dict[str, tuple[Callable[[Any], None], str]] = {
    "an infinite total": (in_all(total=float("inf")), "total is inf, not a finite number"),
    "a total that is none": (in_all(total=float("nan")), "total is nan, not a number >= 0"),
    "a total of text": (in_all(total="81"), "total is '81', not a number"),
    "another total": (in_all(total=1.0), "another total than"),
    "no total": (lambda manifest: manifest.pop("total"), "no 'total'"),
    "other nonzeros": (in_all(nonzeros=1), "another number of nonzeros than"),
    "an infinite total of a shard": (in_shard(total=float("inf")), r"shards\[1\]\.total is inf, not a finite number"),
    "a negative total of a shard": (in_shard(total=-1.0), r"shards\[1\]\.total is -1\.0, not a number >= 0"),
    "a total of a shard that is none": (in_shard(total=float("nan")), r"shards\[1\]\.total is nan, not a number"),
    "a total of a shard of text": (in_shard(total="12"), r"shards\[1\]\.total is '12', not a number"),
    "a total of a shard beyond all bounds": (
        in_shard(total=10**400),
        r"total is a number beyond all bounds, not a",
    ),
    "logarithms that are none": (in_shard(log_factorials=float("nan")), "log_factorials is nan, not a finite number"),
    "infinite logarithms": (in_shard(log_factorials=float("-inf")), "log_factorials is -inf, not a finite number"),
    "logarithms of nothing": (in_shard(log_factorials=None), "log_factorials is None, not a number"),
    "more nonzeros than there is room for": (in_shard(nonzeros=57), "more nonzeros, empty samples or fractions"),
    "more empty samples than samples": (in_shard(empty_samples=9), "more nonzeros, empty samples or fractions"),
    "more fractions than counts": (in_shard(fractional=10**6), "more nonzeros, empty samples or fractions"),
    "other rows": (in_shard(rows=7), r"000001\.safetensors: 7 samples where 8 should be"),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_a_manifest_whose_numbers_are_no_sums_is_refused(what: str, folder: Path) -> None:
    change, said = NUMBERS[what]
    change_manifest(folder, change)
    with pytest.raises(ValueError, match=rf"cells\.shards: shards\.json .*{said}.*build the shards again") as refused:
        used(folder)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        swapped("total"),
        swapped("log_factorials"),
        in_shard(log_factorials=1e6),
        in_shard(empty_samples=3),
        in_shard(fractional=2),
    ],
    ids=["total", "swapped logarithms", "logarithms", "empty samples", "fractions"],
)
def test_a_shard_with_other_sums_than_the_manifest_says_is_refused_when_it_is_read(
    change: Callable[[Any], None], folder: Path
) -> None:
    change_manifest(folder, change)
    said = r"cells\.shards: 00000[01]\.safetensors \(samples .*\) is damaged: it holds other counts than shards\.json says; build"
    with pytest.raises(ValueError, match=said):
        used(folder)


@pytest.mark.parametrize("totals", [[1.0] * 7, [np.nan] * 7, [-1.0, *[80.0] * 6], [np.inf] * 7])
def test_totals_of_features_that_do_not_add_up_are_refused(totals: list[float], folder: Path) -> None:
    change_file(folder, "features.safetensors", feature_totals=np.array(totals))
    with pytest.raises(
        ValueError, match=r"cells\.shards: features\.safetensors is damaged: it has totals .* do not add up .*; build"
    ):
        um.Shards(folder)


@pytest.mark.parametrize("names", [DEEP, b"[1, 2]", b'"abc"', b'["a"]', b"\xff", b"[" * 3])
@pytest.mark.parametrize("file", ["features.safetensors", "sample.safetensors", "000001.safetensors"])
def test_names_that_are_none_are_refused(file: str, names: bytes, folder: Path) -> None:
    change_file(folder, file, names=names)
    with pytest.raises(ValueError, match=rf"cells\.shards: {file} .*; build the shards again") as refused:
        used(folder)
    assert "\n" not in str(refused.value)


TABLES: dict[str, dict[str, Any]] = {
    "a column twice": {
        "columns": b'[["a", "int"], ["a", "int"]]',
        "0000": np.zeros(21, "<i8"),
        "0001": np.zeros(21, "<i8"),
    },
    "deep columns": {"columns": DEEP},
    "deep values": {"columns": b'[["a", "values"]]', "0000": np.zeros(21, "<i4"), "0000.values": DEEP},
    "lists as categories": {
        "columns": b'[["a", "category"]]',
        "0000": np.zeros(21, "<i4"),
        "0000.values": b"[[1], [2]]",
    },
    "categories twice": {
        "columns": b'[["a", "category"]]',
        "0000": np.zeros(21, "<i4"),
        "0000.values": b'["x", "x"]',
    },
    "values that are a table": {
        "columns": b'[["a", "values"]]',
        "0000": np.zeros(21, "<i4"),
        "0000.values": b'{"a": 1}',
    },
}


@pytest.mark.parametrize("what", TABLES)
def test_a_table_of_samples_that_is_none_is_refused(what: str, folder: Path) -> None:
    change_file(folder, "metadata.safetensors", **TABLES[what])
    with pytest.raises(
        ValueError, match=r"cells\.shards: metadata\.safetensors is damaged: .*; build the shards again"
    ):
        used(folder)


def test_settings_of_texts_that_are_none_are_refused_with_the_folder(folder: Path) -> None:
    change_manifest(folder, in_all(text={"stop_words": "english"}))
    with pytest.raises(ValueError, match=r"cells\.shards: text .* has no 'rules'"):
        used(folder)


@pytest.mark.parametrize("name", COLUMNS)
def test_metadata_of_every_type_come_back_from_shards(name: str, tmp_path: Path) -> None:
    given = pd.DataFrame({name: COLUMNS[name]})
    um.shard(um.Counts(X0, metadata=given), tmp_path / "cells.shards")
    found = um.Shards(tmp_path / "cells.shards").metadata
    assert found is not None
    expected = fit_file.table_to_json(given)
    if name in ("wide", "uint64 with gaps", "Int64"):
        assert found[name].isna().tolist() == given[name].isna().tolist()
    np.testing.assert_equal(fit_file.table_to_json(found), expected)
    fit = used(tmp_path / "cells.shards")
    assert fit.metadata is not None
    np.testing.assert_equal(fit_file.table_to_json(fit.metadata), expected)


@pytest.mark.parametrize("names", ["twice", "levels", "numbers"])
def test_columns_that_share_a_name_get_names_of_their_own(names: str, tmp_path: Path) -> None:
    columns = ["int64", "categories", "string"]
    X = um.Counts(X0, metadata=table(columns, names))
    assert X.metadata is not None
    assert X.metadata.columns.is_unique
    if names == "twice":
        assert X.metadata.columns.tolist() == ["one", "one-1", "one-2"]
    um.shard(X, tmp_path / "cells.shards")
    fit = used(tmp_path / "cells.shards")
    assert fit.metadata is not None
    assert fit.metadata.columns.tolist() == [str(name) for name in X.metadata.columns]
    assert isinstance(fit.metadata[fit.metadata.columns[0]], pd.Series)
    described = um.Shards(tmp_path / "cells.shards").with_metadata(table(columns, names))
    assert described.metadata is not None
    assert described.metadata.columns.is_unique
