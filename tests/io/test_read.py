"""Every format becomes the same Counts; what people write is understood, and what is uncertain is said."""

from __future__ import annotations

import csv
import gzip
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from conftest import ANY_SIZE, examples, shared_data
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import unmix as um
from unmix.io.read import READERS, contents, ending_of, kind_of, name_of, read
from unmix.io.write import write_counts

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


def save_ldac(path, table, metadata):
    rows = [[f"{j}:{x}" for j, x in enumerate(row) if x] for row in table.to_numpy().tolist()]
    write(path, "".join(" ".join([str(len(row)), *row]) + "\n" for row in rows))
    save_neighbours(path, table, metadata)


def save_xlsx(path, table, metadata):
    pd.concat([metadata.set_axis(table.index), table], axis=1).to_excel(path)


def save_csv(path, table, metadata):
    """As R does, names in quotes: without, a name with a carriage return breaks its row."""
    write(path, pd.concat([metadata.set_axis(table.index), table], axis=1).to_csv(quoting=csv.QUOTE_NONNUMERIC))


def save_tsv(path, table, metadata):
    write(
        path, pd.concat([metadata.set_axis(table.index), table], axis=1).to_csv(sep="\t", quoting=csv.QUOTE_NONNUMERIC)
    )


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


def save_h5mu(path, table, metadata):
    """As mudata writes it: an AnnData for each modality, in a group of `mod`."""
    h5py = pytest.importorskip("h5py")
    others = table.add_prefix("protein-") + 1
    with h5py.File(path, "w") as file:
        for name, one in (("rna", table), ("prot", others)):
            save_h5ad(path.with_suffix(".h5ad"), one, metadata, layers={"twice": sp.csr_matrix(2 * one.to_numpy())})
            with h5py.File(path.with_suffix(".h5ad")) as modality:
                group = file.create_group(f"mod/{name}")
                for key in modality:
                    modality.copy(key, group)
        file.copy("mod/rna/obs", "obs")


def save_loom(path, table, metadata):
    """genes × cells, as loompy writes it."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_group("col_attrs", track_order=True)
        file["matrix"] = table.to_numpy().T.astype("float32")
        file["layers/twice"] = 2 * table.to_numpy().T
        file["row_attrs/Gene"] = table.columns.to_numpy().astype(object)
        file["col_attrs/CellID"] = table.index.to_numpy().astype(object)
        for name in metadata:  # in the order of their creation, with CellID
            values = metadata[name].to_numpy()
            file[f"col_attrs/{name}"] = values.astype(str).astype(object) if values.dtype.kind == "O" else values


def save_rds(path, table, metadata):
    rdata = pytest.importorskip("rdata")
    rdata.write_rds(path, table)


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
    "gensim.mm": (save_mtx, True),
    "gensim.mm.gz": (save_mtx, True),
    "blei.ldac": (save_ldac, True),
    "blei.ldac.gz": (save_ldac, True),
    "wide.xlsx": (save_xlsx, True),
    "wide.csv": (save_csv, True),
    "wide.csv.gz": (save_csv, True),
    "wide.tsv": (save_tsv, True),
    "wide.tsv.gz": (save_tsv, True),
    "wide.all": (save_tsv, True),
    "wide.parquet": (save_parquet, True),
    "transposed.csv": (save_transposed, False),
    "transposed.tsv.gz": (save_transposed, False),
    "long.csv": (save_long, False),
    "long.csv.gz": (save_long, False),
    "long.tsv": (save_long, False),
    "long.parquet": (save_long_parquet, False),
    "sparse.h5ad": (save_h5ad, True),
    "dense.h5ad": (save_dense_h5ad, True),
    "cells.h5mu": (save_h5mu, True),
    "cells.loom": (save_loom, True),
    "frame.rds": (save_rds, False),
    "v3.h5": (save_10x_h5, False),
    "v2.h5": (save_10x_v2_h5, False),
    "10x-old": (save_old_10x, False),
    "10x-new": (save_new_10x, False),
    "10x-mixed": (save_mixed_10x, False),
}
EXPECTED_NOTES = {"wide": "taken as metadata, being text", "transposed": "rows look like features"}


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
    for ending, module in (
        (".h5ad", "anndata"),
        (".h5", "h5py"),
        (".parquet", "pyarrow"),
        (".xlsx", "openpyxl"),
        (".rds", "rdata"),
    ):
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


def test_endings_may_be_in_capitals(tmp_path):
    (tmp_path / "COUNTS.CSV").write_text(",a\nx,1\n")
    assert read(str(tmp_path / "COUNTS.CSV")).total == 1


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("features.txt", b"ant\nbee\n", "has 2 rows for 4"),
        ("features.txt", b"\xff\xfe\x00", "cannot be read"),
        ("samples.csv", b"year\n1790\n", "has 1 rows for 3"),
        ("samples.csv", b"a\n1\n2,3\n", "cannot be read"),
    ],
)
def test_neighbours_that_do_not_fit_are_left_aside_with_a_warning(name, content, problem, tmp_path):
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(MATRIX))
    (tmp_path / name).write_bytes(content)
    with pytest.warns(UserWarning, match=rf"counts\.npz: {name}: ignored, it {problem}"):
        counts = read(tmp_path / "counts.npz")
    assert counts.features is None
    assert counts.metadata is None


def test_a_transposed_matrix_finds_its_neighbours(tmp_path):
    save_npy(tmp_path / "counts.npy", TABLE, METADATA)
    np.save(tmp_path / "counts.npy", MATRIX.T)
    assert_same(read(tmp_path / "counts.npy", transpose=True), metadata=METADATA)


def test_a_matrix_market_file_that_says_integer_keeps_fractions(tmp_path):
    (tmp_path / "m.mtx").write_text("%%MatrixMarket matrix coordinate integer general\n1 2 2\n1 1 1.5\n1 2 2\n")
    assert read(tmp_path / "m.mtx").csr.toarray().tolist() == [[1.5, 2]]


MARKET = {
    "integer": ("coordinate integer general\n% a comment\n\n2 2 2\n1 1 1\n2 1 3\n", [[1, 0], [3, 0]]),
    "real": ("coordinate real general\n2 2 2\n 1  1  1.5e0 \n2\t1\t3\n", [[1.5, 0], [3, 0]]),
    "twice": ("coordinate real general\n2 2 2\n1 1 1\n1 1 3\n", [[4, 0], [0, 0]]),
    "pattern": ("coordinate pattern general\n2 2 2\n1 1\n2 1\n", [[1, 0], [1, 0]]),
    "symmetric": ("coordinate integer symmetric\n2 2 2\n1 1 1\n2 1 3\n", [[1, 3], [3, 0]]),
    "array": ("array integer general\n2 2\n1\n3\n0\n5\n", [[1, 0], [3, 5]]),
    "many digits": ("coordinate real general\n1 2 1\n1 2 1.000000000000000000000000000000000\n", [[0, 1]]),
    "nothing": ("coordinate real general\n1 2 0\n", [[0, 0]]),
}


@pytest.mark.parametrize("kind", MARKET)
def test_matrix_market_files_of_every_kind(kind, tmp_path):
    text, matrix = MARKET[kind]
    (tmp_path / "m.mtx").write_text("%%MatrixMarket matrix " + text)
    assert read(tmp_path / "m.mtx").csr.toarray().tolist() == matrix


CSV_LAYOUTS = {
    "pandas with an index": (",ant,bee\n0,1,2\n1,3,4\n", ["0", "1"]),
    "pandas without an index": ("ant,bee\n1,2\n3,4\n", None),
    "R's write.csv": ('"","ant","bee"\n"s1",1,2\n"s2",3,4\n', ["s1", "s2"]),
    "R's write.table, no header for row names": ("ant,bee\ns1,1,2\ns2,3,4\n", ["s1", "s2"]),
    "named column of text": ("sample,ant,bee\ns1,1,2\ns2,3,4\n", ["s1", "s2"]),
    "names that look like missing values": (",ant,bee\nNA,1,2\nnull,3,4\n", ["NA", "null"]),
    "names that look like numbers": (",ant,bee\n007,1,2\n1e3,3,4\n", ["007", "1e3"]),
    "a byte order mark and Windows line ends": ("\ufeff,ant,bee\r\ns1,1,2\r\ns2,3,4\r\n", ["s1", "s2"]),
    "quoted newlines": (',ant,bee\n"s\n1",1,2\ns2,3,4\n', ["s\n1", "s2"]),
    "blank lines": (",ant,bee\n\ns1,1,2\n\ns2,3,4\n\n", ["s1", "s2"]),
    "semicolons": (";ant;bee\ns1;1;2\ns2;3;4\n", ["s1", "s2"]),
    "tabs": ("\tant\tbee\ns1\t1\t2\ns2\t3\t4\n", ["s1", "s2"]),
    "fractions and exponents": (",ant,bee\ns1,1.0,2e0\ns2,3.00,4\n", ["s1", "s2"]),
}


@pytest.mark.parametrize("layout", CSV_LAYOUTS)
def test_csv_files_are_understood_as_people_write_them(layout, tmp_path):
    text, samples = CSV_LAYOUTS[layout]
    (tmp_path / "counts.csv").write_bytes(text.encode())
    counts = read(tmp_path / "counts.csv")
    assert counts.csr.toarray().tolist() == [[1, 2], [3, 4]]
    assert counts.features.tolist() == ["ant", "bee"]
    assert samples == (None if counts.samples is None else counts.samples.tolist())


@pytest.mark.parametrize("header", ["id", "sample", "Doc_ID", "cellBarcode"])
def test_different_numbers_under_a_header_that_says_so_are_names(header, tmp_path):
    (tmp_path / "counts.csv").write_text(f"{header},ant\n0017,5\n2,6\n")
    with pytest.warns(UserWarning, match=f"the first column, '{header}', holds numbers that are all different"):
        assert read(tmp_path / "counts.csv").samples.tolist() == ["0017", "2"]


def test_numbers_that_repeat_are_counts_but_not_silently_under_an_id(tmp_path):
    (tmp_path / "counts.csv").write_text("id,ant\n1,5\n1,6\n")
    with pytest.warns(UserWarning, match="'id', holds numbers that repeat, and is taken as counts"):
        assert read(tmp_path / "counts.csv").shape == (2, 2)


def test_names_that_come_twice_are_told_apart_and_it_is_said(tmp_path):
    (tmp_path / "counts.csv").write_text(",bee,bee,bee-1\nx,1,2,3\nx,4,5,6\n")
    counts, said = read_quietly(tmp_path / "counts.csv")
    assert counts.features.tolist() == ["bee", "bee-2", "bee-1"]
    assert counts.samples.tolist() == ["x", "x-1"]
    assert [note.partition(": ")[2] for note in said] == [
        "1 sample had the name of an earlier sample: numbered -1, -2, …",
        "1 feature had the name of an earlier feature: numbered -1, -2, …",
    ]


ROWS_ARE_FEATURES = {
    "header": ("Gene_Name,s1,s2\nfoo,1,2\nbar,3,4\n", "their header says 'Gene_Name'"),
    "mutation types": ("Mutation Types,a,b\nA[C>A]A,1,2\nT[T>G]C,3,4\n", "they have names of mutation types"),
    "double mutations": ("id,a,b\nAC>GT,1,2\nTT>NN,3,4\n", "they have names of mutation types"),
    "Ensembl": (",a,b\nENSG00000139618.2,1,2\nENSMUSG00000017167,3,4\n", "they have names of Ensembl genes"),
    "symbols": (",a,b\nGapdh,1,2\nActb,3,4\nB2m,5,6\nXkr4,0,1\n", "they have names of genes"),
    "barcodes on top": (
        ",AAACCTGAGAAACCAT-1,AAACCTGAGAAACCGC-1\np,1,2\nq,3,4\n",
        "the columns have names of cell barcodes",
    ),
    "numbers as names of genes": ("entrez,s1,s2\n672,1,2\n7157,3,4\n", "their header says 'entrez'"),
}
ROWS_ARE_SAMPLES = {
    "header": "sample,foo,bar\nGene1,1,2\nGene2,3,4\n",
    "nothing": "name,a,b\nfoo,1,2\nbar,3,4\n",
    "mutation types on top": "gene,A[C>A]A,T[T>G]C\nfoo,1,2\nbar,3,4\n",
    "barcodes below each other": "gene,a,b\nAAACCTGAGAAACCAT-1,1,2\nAAACCTGAGAAACCGC-1,3,4\n",
    "stretches of a genome": "name,ACGTACGTACGTAC,ACGTACGTACGTAG\nfoo,1,2\nbar,3,4\n",
    "capitals are not enough": ",A1,B2\nTP53,1,2\nXYZ,3,4\n",
}


@pytest.mark.parametrize("case", ROWS_ARE_FEATURES)
def test_a_table_whose_rows_are_features_for_certain_is_transposed_with_a_warning(case, tmp_path):
    text, why = ROWS_ARE_FEATURES[case]
    (tmp_path / "counts.csv").write_text(text)
    counts, said = read_quietly(tmp_path / "counts.csv")
    kept, silent = read_quietly(tmp_path / "counts.csv", transpose=False)
    assert (kept.csr != counts.csr.T).nnz == 0
    assert counts.samples.tolist() == kept.features.tolist() == text.split("\n")[0].split(",")[1:]
    assert counts.features.tolist() == kept.samples.tolist()
    told = f"rows look like features ({why}): transposed; use transpose=False to keep"
    assert [told in note for note in said][-1]
    assert not any("transposed" in note for note in silent)


@pytest.mark.parametrize("case", ROWS_ARE_SAMPLES)
def test_a_table_is_left_as_it_stands_where_its_labels_do_not_decide(case, tmp_path):
    (tmp_path / "counts.csv").write_text(text := ROWS_ARE_SAMPLES[case])
    counts = read(tmp_path / "counts.csv")
    assert counts.features.tolist() == text.split("\n")[0].split(",")[1:]
    turned = read(tmp_path / "counts.csv", transpose=True)
    assert turned.samples.tolist() == counts.features.tolist()
    assert (counts.csr != turned.csr.T).nnz == 0


def test_what_describes_features_is_left_out_and_said(tmp_path):
    (tmp_path / "counts.csv").write_text("gene,chromosome,s1,s2\nfoo,chr1,1,2\nbar,chr2,3,4\n")
    counts, said = read_quietly(tmp_path / "counts.csv")
    assert counts.csr.toarray().tolist() == [[1, 3], [2, 4]]
    assert counts.metadata is None
    assert any("omitted, as features keep only a name: 'chromosome'" in note for note in said)


def test_numbers_among_the_metadata_of_a_wide_table_are_counts_and_it_is_said(tmp_path):
    (tmp_path / "counts.csv").write_text("sample,sex,size,stage,a,b\nx,f,50,I,1,2\ny,m,60,II,3,4\n")
    counts, said = read_quietly(tmp_path / "counts.csv")
    assert [note.partition(": ")[2] for note in said] == [
        "taken as metadata, being text: 'sex', 'stage'",
        "taken as counts, being numbers, though it is among metadata: 'size'",
    ]
    assert counts.features.tolist() == ["size", "a", "b"]
    assert counts.metadata.to_dict("list") == {"sex": ["f", "m"], "stage": ["I", "II"]}


@pytest.mark.parametrize(
    "header", ["doc,word,n", "cell_id,gene,umi", "Patient,MutationType,Count", "barcode,feature,value", "id,term,freq"]
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_long_tables_are_known_by_their_headers_in_any_order(header, order, tmp_path):
    rows = [header.split(","), ["01", "ant", "2"], ["2", "bee", "3"], ["01", "bee", "1"]]
    (tmp_path / "long.csv").write_text("".join(",".join(row[i] for i in order) + "\n" for row in rows))
    counts = read(tmp_path / "long.csv")
    assert counts.samples.tolist() == ["01", "2"]
    assert counts.features.tolist() == ["ant", "bee"]
    assert counts.csr.toarray().tolist() == [[2, 1], [0, 3]]


def test_pairs_that_come_twice_in_a_long_table_are_added_and_it_is_said(tmp_path):
    (tmp_path / "long.csv").write_text("doc,word,n\nx,a,1\ny,a,5\nx,a,2\n")
    with pytest.warns(UserWarning, match="1 row names a sample and a feature that came before: counts are added"):
        assert read(tmp_path / "long.csv").csr.toarray().tolist() == [[3], [5]]


def test_numbers_may_be_names_in_a_long_table(tmp_path):
    (tmp_path / "long.csv").write_text("docID,wordID,count\n1,17,2\n2,18,4\n")
    counts = read(tmp_path / "long.csv")
    assert counts.features.tolist() == ["17", "18"]
    assert counts.csr.toarray().tolist() == [[2, 0], [0, 4]]


def test_a_text_file_of_numbers_between_tabs_is_a_table(tmp_path):
    (tmp_path / "sbs.txt").write_text("MutationType\ts1\ts2\nA[C>A]A\t1\t2\nA[C>A]C\t3\t4\n")
    counts, said = read_quietly(tmp_path / "sbs.txt")
    assert counts.samples.tolist() == ["s1", "s2"]
    assert "read as a table" in said[0]
    assert kind_of(tmp_path / "sbs.txt") == "TSV table"


def test_parquet_without_an_index_has_names_where_a_column_of_text_has_them(tmp_path):
    pytest.importorskip("pyarrow")
    TABLE.rename_axis("sample").reset_index().to_parquet(tmp_path / "a.parquet")
    assert_same(read(tmp_path / "a.parquet"))
    TABLE.reset_index(drop=True).to_parquet(tmp_path / "b.parquet")
    assert read(tmp_path / "b.parquet").samples is None


# metadata from another table


@pytest.fixture
def counts_csv(tmp_path):
    (tmp_path / "counts.csv").write_text(",ant,bee\n01,1,2\n2,3,4\n")
    return tmp_path / "counts.csv"


METADATA_TABLES = {
    "first column, other order, more rows": ("m.csv", "who,year\n3,1792\n2,1791\n01,1790\n"),
    "a later column that says so": ("m.csv", "year,Sample_ID\n1791,2\n1790,01\n"),
    "tabs": ("m.tsv", "who\tyear\n2\t1791\n01\t1790\n"),
    "compressed": ("m.csv.gz", "who,year\n2,1791\n01,1790\n"),
}


@pytest.mark.parametrize("case", METADATA_TABLES)
def test_metadata_are_joined_by_the_names_of_the_samples(case, counts_csv):
    name, text = METADATA_TABLES[case]
    write(counts_csv.parent / name, text)
    counts = read(counts_csv, metadata=counts_csv.parent / name)
    assert counts.metadata.to_dict("list") == {"year": [1790, 1791]}


def test_metadata_without_names_are_joined_by_position_and_it_is_said(counts_csv):
    (counts_csv.parent / "m.csv").write_text("year\n1790\n1791\n")
    with pytest.warns(
        UserWarning, match=r"m\.csv: no column has the names of the samples; its rows are taken in their"
    ):
        assert read(counts_csv, metadata=counts_csv.parent / "m.csv").metadata["year"].tolist() == [1790, 1791]


def test_samples_without_names_get_those_of_the_metadata(tmp_path):
    np.save(tmp_path / "counts.npy", MATRIX)
    (tmp_path / "m.csv").write_text("year,sample\n1790,x\n1791,y\n1792,z\n")
    counts = read(tmp_path / "counts.npy", metadata=tmp_path / "m.csv")
    assert counts.samples.tolist() == SAMPLES
    assert counts.metadata.to_dict("list") == {"year": [1790, 1791, 1792]}


def test_given_metadata_go_beside_those_of_the_file_and_come_first(tmp_path):
    save_csv(tmp_path / "counts.csv", TABLE, METADATA)
    (tmp_path / "m.csv").write_text("sample,stage,year\ny,new,2\nx,new,1\nz,new,3\n")
    counts, _ = read_quietly(tmp_path / "counts.csv", metadata=tmp_path / "m.csv")
    assert counts.metadata.to_dict("list") == {
        "site": ["lung", "skin", "lung"], "stage": ["new"] * 3, "year": [1, 2, 3]
    }  # fmt: skip


BAD_METADATA = {
    "other names": (
        "who,year\na,1\nb,2\n",
        "no column has the names of the samples, such as '01', '2'; add such a column",
    ),
    "other names by their header": ("year,sample\n1790,7\n1791,8\n", "no column has the names of the samples"),
    "some names": ("who,year\n2,1791\n3,1792\n", "1 of 2 samples are in its column 'who', not so '01'"),
    "no names, other length": (
        "year\n10\n20\n30\n",
        "no column has the names of the samples, such as '01', '2'; add such a column",
    ),
    "a name twice": ("who,year\n2,1\n01,2\n01,3\n", "'01' occurs twice in its column 'who'"),
    "empty": ("", "there is nothing in it"),
    "ragged": ("a\n1\n2,3\n4\n", "Expected 1 fields"),
}


@pytest.mark.parametrize("case", BAD_METADATA)
def test_metadata_that_do_not_fit_are_refused_by_their_own_name(case, counts_csv, monkeypatch):
    monkeypatch.chdir(counts_csv.parent)
    text, message = BAD_METADATA[case]
    Path("m.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"^m\.csv: .*{message}"):
        read("counts.csv", metadata="m.csv")


def test_missing_metadata_are_refused_by_their_own_name(counts_csv, monkeypatch):
    monkeypatch.chdir(counts_csv.parent)
    with pytest.raises(ValueError, match=r"^none\.csv: cannot be read \(No such file"):
        read("counts.csv", metadata="none.csv")


# single cells


def test_layers_and_raw_of_an_anndata_file(tmp_path):
    anndata = pytest.importorskip("anndata")
    raw = anndata.AnnData(np.tile(MATRIX, 2), var=pd.DataFrame(index=list("abcdefgh")))
    adata = anndata.AnnData(MATRIX / 4, layers={"counts": sp.csc_matrix(MATRIX), "twice": MATRIX * 2})
    adata.obs_names, adata.var_names = SAMPLES, FEATURES
    raw.obs_names = SAMPLES
    adata.obs["type"] = pd.Categorical(["T", "B", "T"])
    adata.raw = raw
    adata.write_h5ad(path := tmp_path / "cells.h5ad")
    counts = read(path, layer="counts")
    assert_same(counts, metadata=pd.DataFrame({"type": ["T", "B", "T"]}))
    assert isinstance(counts.metadata["type"].dtype, pd.CategoricalDtype)
    assert read(path, layer="twice").total == 2 * MATRIX.sum()
    assert read(path, raw=True).features.tolist() == list("abcdefgh")
    hint = "X holds fractions, probably normalised; layer 'counts' holds whole numbers: use layer='counts'"
    with pytest.warns(UserWarning, match=hint):
        assert read(path).total == MATRIX.sum() / 4


def test_a_modality_and_its_layers_are_chosen_by_name_and_so_are_those_of_a_loom_file(tmp_path):
    pytest.importorskip("anndata")
    save_h5mu(path := tmp_path / "cells.h5mu", TABLE, METADATA)
    assert_same(read(path, layer="prot"), TABLE.add_prefix("protein-") + 1, METADATA)
    assert_same(read(path, layer="rna/twice"), 2 * TABLE, METADATA)
    with pytest.raises(
        ValueError, match=r"cells.h5mu: no modality 'atac' in it; there is 'prot', 'rna': choose one with"
    ):
        read(path, layer="atac")
    assert [*contents(path)[0]] == ["prot: X", "prot: layer 'twice'", "rna: X", "rna: layer 'twice'"]
    save_loom(path := tmp_path / "cells.loom", TABLE, METADATA)
    assert_same(read(path, layer="twice"), 2 * TABLE, METADATA)
    with pytest.raises(ValueError, match=r"cells.loom: there is no layer 'spliced' in it; it has X, layer 'twice'"):
        read(path, layer="spliced")


def test_only_the_chosen_matrix_of_an_anndata_file_is_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    save_h5ad(tmp_path / "cells.h5ad", TABLE, METADATA, layers={"broken": sp.csr_matrix(MATRIX)})
    with h5py.File(tmp_path / "cells.h5ad", "r+") as file:
        del file["layers/broken/indices"]
    assert_same(read(tmp_path / "cells.h5ad"), metadata=METADATA)


@pytest.mark.parametrize("save", [save_10x, save_10x_h5])
def test_only_gene_expression_of_a_10x_matrix_is_kept_and_it_is_said(save, tmp_path):
    types = ["Gene Expression", "Antibody Capture", "Gene Expression", "CRISPR Guide Capture"]
    name = "counts" + (".h5" if save is save_10x_h5 else "")
    save(tmp_path / name, TABLE, types=types)
    with pytest.warns(UserWarning, match="type 'Antibody Capture', 'CRISPR Guide Capture' are omitted; 2 of Gene Expr"):
        assert_same(read(tmp_path / name), TABLE[["ant", "cat"]])


def test_features_that_are_all_of_another_type_are_kept(tmp_path):
    save_10x(tmp_path / "counts", TABLE, types=["Antibody Capture"] * 4)
    assert_same(read(tmp_path / "counts"))


def test_one_of_several_genomes_can_be_chosen(tmp_path):
    save_10x_h5(tmp_path / "counts.h5", TABLE, version=2, genomes=("hg19", "mm10"))
    assert_same(read(tmp_path / "counts.h5", layer="mm10"))


def test_the_matrix_of_a_10x_folder_is_read_with_its_names(tmp_path):
    save_10x(tmp_path / "counts", TABLE, endings=(".gz", ".gz", ""))
    with pytest.warns(UserWarning, match="read as 10x, features × barcodes, with 'barcodes.tsv'"):
        assert_same(read(tmp_path / "counts" / "matrix.mtx.gz"))


def test_an_extra_that_is_not_installed_is_asked_for(tmp_path, monkeypatch):
    for name, module in (
        ("a.h5ad", "anndata"),
        ("a.h5", "h5py"),
        ("a.parquet", "pyarrow"),
        ("a.rds", "rdata"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        (tmp_path / name).write_bytes(b"")
        needs = rf"reading {Path(name).suffix} needs {module}; install it with: pip install {module}$"
        with pytest.raises(ValueError, match=needs):
            read(tmp_path / name)


# texts

DOCUMENTS = {
    "2": "The bees’ honey: America's BEES don't rest, p53 in 1999",
    "10": "honey, honey; bees\nand cafe\u0301s",
    "b": "",
}
WORDS = ["america", "bees", "cafés", "honey", "p53", "rest"]
WORD_COUNTS = [[1, 2, 0, 1, 1, 1], [0, 1, 1, 2, 0, 0], [0, 0, 0, 0, 0, 0]]


def save_text_folder(path):
    (path / "sub").mkdir(parents=True)
    (path / ".hidden").mkdir()
    (path / ".hidden" / "x.txt").write_text("hidden")
    (path / "notes.md").write_text("not a text")
    for name, content in DOCUMENTS.items():
        (path / ("sub" if name == "b" else ".") / f"{name}.txt").write_text(content, encoding="utf-8")


def save_text_lines(path):
    write(path, "".join(text.replace("\n", " ") + "\n" for text in DOCUMENTS.values()))


def records():
    return [{"id": i, "text": text, "year": 1790, "tags": [1]} for i, text in DOCUMENTS.items()]


def save_jsonl(path):
    write(path, "".join(json.dumps(record) + "\n" for record in records()))


def save_text_table(path):
    table = pd.DataFrame(records()).drop(columns="tags")
    if path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        write(path, table.to_csv(index=False, sep="\t" if ".tsv" in path.name else ","))


TEXTS = {
    "speeches": (save_text_folder, ["2", "10", "sub/b"], {"folder": [".", ".", "sub"]}),
    "lines.txt": (save_text_lines, ["line 1", "line 2", "line 3"], None),
    "lines.txt.gz": (save_text_lines, ["line 1", "line 2", "line 3"], None),
    "a.jsonl": (save_jsonl, ["2", "10", "b"], {"year": [1790] * 3}),
    "a.jsonl.gz": (save_jsonl, ["2", "10", "b"], {"year": [1790] * 3}),
    "a.csv": (save_text_table, ["2", "10", "b"], {"year": [1790] * 3}),
    "a.tsv.gz": (save_text_table, ["2", "10", "b"], {"year": [1790] * 3}),
    "a.parquet": (save_text_table, ["2", "10", "b"], {"year": [1790] * 3}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_same_texts_in_any_format_become_the_same_counts_of_words(name, tmp_path):
    skip_without_extras(name)
    save, samples, metadata = TEXTS[name]
    save(tmp_path / name)
    counts, said = read_quietly(tmp_path / name)
    assert counts.features.tolist() == WORDS
    assert counts.csr.toarray().tolist() == WORD_COUNTS
    assert counts.samples.tolist() == samples
    assert (None if counts.metadata is None else counts.metadata.to_dict("list")) == metadata
    assert "1 of 3 documents have no word that is counted: kept, without counts" in said[-1]
    assert len(said) == 1 + ("jsonl" in name), "lists in JSON are left out, and it is said"


def test_a_column_of_texts_may_hold_numbers_and_long_texts(tmp_path):
    (tmp_path / "a.csv").write_text("text,note\n1984,x\n" + "bee " * 50_000 + ",\nwasp,y\n")
    counts, _ = read_quietly(tmp_path / "a.csv")
    assert counts.csr.toarray().tolist() == [[0, 0], [50_000, 0], [0, 1]]


def test_a_feature_called_text_is_a_feature(tmp_path):
    (tmp_path / "a.csv").write_text(",text,image\nx,1,2\ny,3,4\n")
    assert read(tmp_path / "a.csv").features.tolist() == ["text", "image"]


def texts(tmp_path, *lines):
    (tmp_path / "t.txt").write_text("".join(line + "\n" for line in lines))
    return tmp_path / "t.txt"


def test_pairs_of_words_skip_stop_words(tmp_path):
    path = texts(tmp_path, "queen of bees", "queen bees")
    assert read(path, ngrams=2).features.tolist() == ["bees", "queen", "queen bees"]
    assert read(path, ngrams=(2, 2)).features.tolist() == ["queen bees"]


def test_stop_words_from_a_list_a_file_or_none(tmp_path):
    path = texts(tmp_path, "The queen of bees isn't")
    (tmp_path / "stop.txt").write_text("Queen\nit’s\nisn't\nmany words\n")
    assert read(path, stop_words=None).features.tolist() == ["bees", "isn't", "of", "queen", "the"]
    assert read(path, stop_words=["QUEEN"]).features.tolist() == ["bees", "isn't", "of", "the"]
    counts = read(path, stop_words=tmp_path / "stop.txt")
    assert counts.features.tolist() == ["bees", "of", "the"]
    assert counts.text["stop_words"] == ["isn't", "it", "queen"], "the words themselves are remembered"


@pytest.mark.parametrize(("documents", "least"), [(9, 1), (10, 2), (99, 2), (100, 5)])
def test_rare_words_are_left_out_where_there_are_many_documents(documents, least, tmp_path):
    lines = ["common " + " ".join(f"in{k}" for k in range(1, 7) if i < k) for i in range(documents)]
    counts = read(texts(tmp_path, *lines))
    assert counts.features.tolist() == ["common", *(f"in{k}" for k in range(least, 7))]
    assert counts.text["min_df"] == least


def test_limits_of_document_frequency_are_numbers_or_shares(tmp_path):
    path = texts(tmp_path, "ant bee", "ant cat", "ant bee dog", "ant")
    assert read(path, min_df=2).features.tolist() == ["ant", "bee"]
    with pytest.warns(UserWarning, match="1 of 4 documents have no word"):
        assert read(path, max_df=0.5).features.tolist() == ["bee", "cat", "dog"]


def test_new_texts_are_counted_like_those_of_a_fit(tmp_path):
    old = tmp_path / "old.csv"
    old.write_text("id,body\na,the queen of bees\nb,the ant queen eats ants\n")
    (tmp_path / "stop.txt").write_text("the\nof\n")
    counts = read(old, text_column="body", ngrams=2, stop_words=str(tmp_path / "stop.txt"))
    fit = um.TopicModel(1, random_state=0).fit(counts).result_
    fit.save(tmp_path / "fit.safetensors")
    fit = um.load(tmp_path / "fit.safetensors")
    assert fit.text == counts.text == json.loads(json.dumps(counts.text))
    new = tmp_path / "new.csv"
    new.write_text("id,body\nc,The ant queen of bees and wasps\n")
    again = read(new, like=fit)
    assert again.features.tolist() == fit.features.tolist()
    assert [word for word, n in zip(again.features, again.csr.toarray()[0], strict=True) if n] == [
        "ant", "ant queen", "bees", "queen", "queen bees"
    ]  # fmt: skip
    assert again.text == fit.text
    assert (read(old, like=fit).csr != counts.csr).nnz == 0
    (tmp_path / "new.jsonl").write_text('{"text": "ant queen"}\n')
    assert read(tmp_path / "new.jsonl", like=fit).total == 3
    with pytest.raises(ValueError, match="min_df: the model determines how words are counted"):
        read(new, like=fit, min_df=1)


def test_like_has_no_effect_on_counts_and_refuses_texts_for_a_model_of_counts(tmp_path):
    (tmp_path / "counts.csv").write_text(",ant\nx,1\n")
    counts = read(tmp_path / "counts.csv")
    assert (read(tmp_path / "counts.csv", like=counts).csr != counts.csr).nnz == 0
    with pytest.raises(ValueError, match="the model was not made from text"):
        read(texts(tmp_path, "some text"), like=counts)


def test_names_and_titles_name_texts_only_if_no_two_are_equal(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"name": "Ann", "text": "one bee"}\n{"name": "Ann", "text": "two wasps"}\n')
    counts = read(tmp_path / "a.jsonl")
    assert counts.samples.tolist() == ["text 1", "text 2"]
    assert counts.metadata["name"].tolist() == ["Ann", "Ann"]


def test_half_characters_in_json_do_no_harm(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "\\ud800x", "text": "bee \\ud800", "note": "\\udfff"}\n')
    counts = read(tmp_path / "a.jsonl")
    assert counts.samples.tolist() == ["\\ud800x"]
    assert counts.metadata["note"].tolist() == ["\\udfff"]


# what things are called


def test_kinds_are_told_without_reading_the_matrix(tmp_path):
    for name, kind in {
        "a.npz": "sparse matrix of scipy", "a.npy": "array of numpy", "a.mtx.gz": "MatrixMarket file (gzip)",
        "a.h5": "10x HDF5 file", "a.h5ad": "AnnData file", "a.csv": "CSV table", "a.tsv.gz": "TSV table (gzip)",
        "a.rds": "R object", "a.h5mu": "MuData file", "a.loom": "loom file", "a.parquet": "Parquet table",
        "a.txt": "text, one document a line", "a.jsonl": "JSON lines",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(b"")
        if name != "a.mtx.gz":
            assert kind_of(tmp_path / name) == kind
    save_10x(tmp_path / "old", TABLE, version=2)
    save_10x(tmp_path / "new", TABLE)
    save_text_folder(tmp_path / "texts")
    kinds = [kind_of(str(tmp_path / name)) for name in ("old", "new", "texts")]
    assert kinds == ["10x folder (v2)", "10x folder (v3)", "folder of 3 text files"]
    (tmp_path / "a.xyz").write_text("")
    with pytest.raises(ValueError, match="unknown kind of file"):
        kind_of(tmp_path / "a.xyz")
    with pytest.raises(FileNotFoundError, match="no such file"):
        kind_of(tmp_path / "none.csv")


def test_names_and_endings(tmp_path, monkeypatch):
    (tmp_path / "speeches.txt").mkdir()
    assert ending_of(tmp_path / "speeches.txt") is None
    assert ending_of("COUNTS.Csv.GZ") == ".csv.gz"
    assert ending_of("counts.xyz") is None
    assert name_of("a/counts.v2.csv.gz") == "counts.v2"
    assert name_of(f"{tmp_path}/speeches.txt/") == "speeches.txt"
    monkeypatch.chdir(tmp_path)
    assert name_of(".") == tmp_path.name
    assert name_of(".csv") == ".csv"


# any names


names = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\r\t"), min_size=1, max_size=8),
    min_size=2,
    max_size=5,
    unique=True,
)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.npz", "a.parquet", "a.h5ad"])
@given(samples=names, features=names)
@settings(examples(25), suppress_health_check=[*ANY_SIZE, HealthCheck.function_scoped_fixture])
def test_any_names_survive_any_format(name, samples, features, tmp_path):
    skip_without_extras(name)
    path = tmp_path / name
    assume(not name.endswith("h5ad") or not any("/" in text or "\0" in text for text in samples + features))
    table = pd.DataFrame(np.arange(len(samples) * len(features)).reshape(len(samples), -1), samples, features)
    {".csv": save_csv, ".tsv.gz": save_tsv, ".npz": save_npz, ".parquet": save_parquet, ".h5ad": save_h5ad}[name[1:]](
        path, table, pd.DataFrame(index=range(len(samples)))
    )
    assert_same(read(path), table)


@given(ids=names)
@settings(examples(25), suppress_health_check=[*ANY_SIZE, HealthCheck.function_scoped_fixture])
def test_any_names_survive_json_lines(ids, tmp_path):
    write(
        tmp_path / "a.jsonl",
        "".join(json.dumps({"id": name, "text": "bee"}, ensure_ascii=False) + "\n" for name in ids),
    )
    assert read(tmp_path / "a.jsonl").samples.tolist() == ids


@pytest.mark.parametrize("name", ["newsgroups", "nips", "pbmc_facs", "sotu"])
def test_real_data_come_with_the_names_beside_them(name):
    counts, _ = read_quietly(shared_data(name) / "counts.npz")
    assert counts.features is not None
    assert (counts.metadata is None) == (name == "nips")
