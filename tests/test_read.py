"""Every format becomes the same Counts; what people write is understood, and what is uncertain is said."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

import unmix as um
from unmix.data.read import READERS, ending_of, read
from unmix.data.write import write_counts

MATRIX = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [5, 0, 0, 7]])
SAMPLES, FEATURES = ["x", "y", "z"], ["ant", "bee", "cat", "dog"]
TABLE = pd.DataFrame(MATRIX, index=SAMPLES, columns=FEATURES)
METADATA = pd.DataFrame({"stage": ["early", "late", "late"], "site": ["lung", "skin", "lung"]})


def write(path: Path, content: str | bytes) -> None:
    """A file, compressed if its name says so."""
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def save_neighbours(path, table, metadata):
    write(path.parent / "features.txt", "\n".join(table.columns) + "\n")
    metadata.assign(sample=table.index).to_csv(path.parent / "samples.csv", index=False)


def save_npz(path, table, metadata):
    write_counts(um.Counts(table, metadata=metadata), path)


def save_plain_npz(path, table, metadata):
    sp.save_npz(path, sp.csc_array(table.to_numpy()))
    save_neighbours(path, table, metadata)


def save_npy(path, table, metadata):
    np.save(path, table.to_numpy())
    save_neighbours(path, table, metadata)


def mtx_text(matrix) -> bytes:
    from io import BytesIO

    scipy.io.mmwrite(buffer := BytesIO(), sp.coo_array(matrix), field="integer")
    return buffer.getvalue()


def save_mtx(path, table, metadata):
    write(path, mtx_text(table.to_numpy()))
    save_neighbours(path, table, metadata)


def save_csv(path, table, metadata):
    write(path, pd.concat([metadata.set_axis(table.index), table], axis=1).to_csv())


def save_tsv(path, table, metadata):
    write(path, pd.concat([metadata.set_axis(table.index), table], axis=1).to_csv(sep="\t"))


def save_transposed(path, table, metadata):
    write(path, table.T.rename_axis("gene").to_csv(sep="\t" if ".tsv" in path.name else ","))


def save_long(path, table, metadata):
    """Every pair, the zeros too, so that all names are there in order."""
    long = table.rename_axis("cell").reset_index().melt("cell", var_name="gene", value_name="count")
    write(path, long.to_csv(sep="\t" if ".tsv" in path.name else ",", index=False))


def save_parquet(path, table, metadata):
    pd.concat([metadata.set_axis(table.index), table], axis=1).to_parquet(path)


def save_long_parquet(path, table, metadata):
    table.rename_axis("cell").reset_index().melt("cell", var_name="gene", value_name="count").to_parquet(path)


def save_h5ad(path, table, metadata, **elements):
    import anndata

    anndata.AnnData(
        sp.csr_matrix(table.to_numpy()), metadata.set_axis(table.index), pd.DataFrame(index=table.columns), **elements
    ).write_h5ad(path)


def save_dense_h5ad(path, table, metadata):
    import anndata

    obs = metadata.set_axis(table.index)
    anndata.AnnData(table.to_numpy().astype("float32"), obs, pd.DataFrame(index=table.columns)).write_h5ad(path)


def save_10x_h5(path, table, metadata=None, *, version=3, genomes=("GRCh38",), types=None):
    h5py = pytest.importorskip("h5py")
    csr = sp.csr_array(table.to_numpy())
    ids = [f"id{j}" for j in range(table.shape[1])]
    with h5py.File(path, "w") as file:
        for genome in genomes if version == 2 else ("matrix",):
            group = file.create_group(genome)
            group["data"], group["indices"], group["indptr"] = csr.data, csr.indices, csr.indptr
            group["shape"] = np.array(table.shape[::-1])
            group["barcodes"] = np.array(list(table.index), dtype="S")
            if version == 2:
                group["genes"], group["gene_names"] = np.array(ids, dtype="S"), np.array(list(table.columns), dtype="S")
            else:
                group["features/id"], group["features/name"] = (
                    np.array(list(n), dtype="S") for n in (ids, table.columns)
                )
                group["features/feature_type"] = np.array(types or ["Gene Expression"] * len(ids), dtype="S")


def save_10x_v2_h5(path, table, metadata):
    save_10x_h5(path, table, version=2)


def save_10x(folder, table, metadata=None, *, endings=("", "", ""), version=3, prefix="", types=None):
    folder.mkdir()
    columns = [[f"id{j}" for j in range(table.shape[1])], list(table.columns)]
    if version == 3:
        columns.append(types or ["Gene Expression"] * table.shape[1])
    rows = "".join("\t".join(cells) + "\n" for cells in zip(*columns, strict=True))
    features = "genes.tsv" if version == 2 else "features.tsv"
    write(folder / f"{prefix}matrix.mtx{endings[0]}", mtx_text(table.to_numpy().T))
    write(folder / f"{prefix}{features}{endings[1]}", rows)
    write(folder / f"{prefix}barcodes.tsv{endings[2]}", "".join(f"{name}\n" for name in table.index))


def save_old_10x(path, table, metadata):
    save_10x(path, table, version=2)


def save_new_10x(path, table, metadata):
    save_10x(path, table, endings=(".gz", ".gz", ".gz"))


def save_mixed_10x(path, table, metadata):
    save_10x(path, table, endings=("", ".gz", ""), prefix="GSM1_")


# name of the file or folder: how to make it, and whether it has room for metadata
LAYOUTS = {
    "own.npz": (save_npz, True),
    "scipy.npz": (save_plain_npz, True),
    "array.npy": (save_npy, True),
    "matrix.mtx": (save_mtx, True),
    "matrix.mtx.gz": (save_mtx, True),
    "wide.csv": (save_csv, True),
    "wide.csv.gz": (save_csv, True),
    "wide.tsv": (save_tsv, True),
    "wide.tsv.gz": (save_tsv, True),
    "wide.parquet": (save_parquet, True),
    "transposed.csv": (save_transposed, False),
    "transposed.tsv.gz": (save_transposed, False),
    "long.csv": (save_long, False),
    "long.csv.gz": (save_long, False),
    "long.tsv": (save_long, False),
    "long.parquet": (save_long_parquet, False),
    "sparse.h5ad": (save_h5ad, True),
    "dense.h5ad": (save_dense_h5ad, True),
    "v3.h5": (save_10x_h5, False),
    "v2.h5": (save_10x_v2_h5, False),
    "10x-old": (save_old_10x, False),
    "10x-new": (save_new_10x, False),
    "10x-mixed": (save_mixed_10x, False),
}
EXPECTED_NOTES = {"wide": "hold text: metadata", "transposed": "rows look like features"}


def read_quietly(path, **options):
    """Counts, and what was said about them."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        counts = read(path, **options)
    return counts, [str(warning.message) for warning in said]


def assert_same(counts, table=TABLE, metadata=None):
    np.testing.assert_array_equal(counts.csr.toarray(), table.to_numpy())
    assert counts.samples.tolist() == list(table.index)
    assert counts.features.tolist() == list(table.columns)
    if metadata is None:
        assert counts.metadata is None
    else:
        pd.testing.assert_frame_equal(counts.metadata.astype(str), metadata.astype(str))
        assert isinstance(counts.metadata.index, pd.RangeIndex)


def skip_without_extras(name):
    for ending, module in ((".h5ad", "anndata"), (".h5", "h5py"), (".parquet", "pyarrow")):
        if name.endswith(ending):
            pytest.importorskip(module)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_format_and_layout_becomes_the_same_counts(name, tmp_path):
    skip_without_extras(name)
    save, roomy = LAYOUTS[name]
    save(tmp_path / name, TABLE, METADATA)
    counts, said = read_quietly(tmp_path / name)
    assert_same(counts, metadata=METADATA if roomy else None)
    expected = EXPECTED_NOTES.get(name.partition(".")[0])
    assert [note.startswith(f"{tmp_path / name}: ") and expected in note for note in said] == [True] * bool(expected)


def test_every_known_ending_has_a_round_trip():
    texts = {".txt", ".txt.gz", ".jsonl", ".jsonl.gz"}
    assert {ending_of(name) for name in LAYOUTS} - {None} | texts == set(READERS)
