"""Whatever is wrong with a file is said in one line that names it, in Python and in the terminal, and nothing is written."""

from __future__ import annotations

import gzip
import os
import re
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from test_read import TABLE, save_10x, save_10x_h5, save_h5ad, save_parquet, skip_without_extras

from unmix.cli import main
from unmix.io.read import READERS, read

MTX = "%%MatrixMarket matrix coordinate integer general\n"
METADATA = pd.DataFrame(index=range(len(TABLE)))
Make = Callable[[Path], object]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def content(text: str | bytes) -> Make:
    """Writes this, compressed if the name says so."""
    data = text.encode() if isinstance(text, str) else text
    return lambda path: path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def bytes_as_they_are(data: bytes) -> Make:
    return lambda path: path.write_bytes(data)


def cut(make: Make, keep: float = 0.6) -> Make:
    """Makes a file and keeps its first part only."""

    def shortened(path: Path) -> None:
        make(path)
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])

    return shortened


class Payload:
    """Would leave a file behind if it were unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("unpickled",))


def npz(matrix) -> Make:
    return lambda path: sp.save_npz(path, sp.csr_array(matrix))


def npz_with(**arrays) -> Make:
    """A sparse matrix of scipy in which some arrays are replaced."""

    def make(path: Path) -> None:
        csr = sp.csr_array(np.eye(3))
        members = {"format": b"csr", "shape": csr.shape, "data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
        np.savez(path, **(members | arrays))

    return make


def npy_header(shape: tuple[int, ...]) -> bytes:
    buffer = BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def huge_npz(path: Path) -> None:
    sp.save_npz(path, sp.csr_array(np.eye(3)))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["indptr.npy"] = npy_header((10**14,))
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def h5(change: Callable) -> Make:
    def make(path: Path) -> None:
        import h5py

        save_10x_h5(path, TABLE)
        with h5py.File(path, "r+") as file:
            change(file)

    return make


def h5ad(change: Callable) -> Make:
    def make(path: Path) -> None:
        import h5py

        save_h5ad(path, TABLE, METADATA)
        with h5py.File(path, "r+") as file:
            change(file)

    return make


def replaced(name: str, value) -> Callable:
    def change(file) -> None:
        del file[name]
        file[name] = value

    return change


def removed(name: str) -> Callable:
    return lambda file: file.__delitem__(name)


def huge(group: str) -> Callable:
    """A dataset that declares 8 · 10¹⁴ bytes and stores none of them."""

    def change(file) -> None:
        for name in ("data", "indices"):
            del file[group][name]
            file[group].create_dataset(name, shape=(10**14,), dtype="f8", chunks=(1000,))

    return change


def tenx(change: Callable[[Path], object], **layout) -> Make:
    def make(path: Path) -> None:
        save_10x(path, TABLE, **layout)
        change(path)

    return make


def nested(path: Path) -> None:
    pd.DataFrame({"sample": ["x", "y"], "words": [[1, 2], [3]]}).to_parquet(path)


def scaled(path: Path) -> None:
    import anndata

    layers = {"counts": sp.csr_matrix(TABLE.to_numpy())}
    anndata.AnnData(np.array(TABLE) - 0.5, layers=layers).write_h5ad(path)


def folder(**files: str) -> Make:
    def make(path: Path) -> None:
        path.mkdir()
        for name, text in files.items():
            (path / name.replace("_", ".")).write_text(text)

    return make


def unreadable(path: Path) -> None:
    path.write_text(",a\nx,1\n")
    path.chmod(0)


WHOLE: dict[str, Make] = {  # a good file of each kind that is not plain text, to be cut short
    ".npz": npz(np.eye(30)),
    ".npy": lambda path: np.save(path, np.eye(30)),
    ".mtx.gz": content(MTX + "3 3 3\n1 1 1\n2 2 2\n3 3 3\n"),
    ".h5": lambda path: save_10x_h5(path, TABLE),
    ".h5ad": lambda path: save_h5ad(path, TABLE, METADATA),
    ".csv.gz": content(",a,b\nx,1,2\n"),
    ".tsv.gz": content("\ta\tb\nx\t1\t2\n"),
    ".parquet": lambda path: save_parquet(path, TABLE, METADATA),
    ".txt.gz": content("one text\nand another\n"),
    ".jsonl.gz": content('{"text": "one"}\n'),
}
FOREIGN = bytes(range(256)) * 4

BAD_FILES: dict[str, tuple[Make, str]] = {
    **{f"empty{ending}": (bytes_as_they_are(b""), "") for ending in READERS},
    **{f"foreign{ending}": (bytes_as_they_are(FOREIGN), "") for ending in READERS},
    **{f"cut{ending}": (cut(make), "") for ending, make in WHOLE.items()},
    **{
        f"plain{ending}": (bytes_as_they_are(b"plain text\n"), "Not a gzipped file")
        for ending in READERS
        if ".gz" in ending
    },
    "missing.csv": (lambda path: None, "no such file"),
    "missing-folder": (lambda path: None, "no such file"),
    "unknown.xyz": (
        content("1"),
        "unknown kind of file; rename tables to .csv or .tsv, and text to .txt. unmix reads .npz, .npy, .mtx[.gz]",
    ),
    "unreadable.csv": (unreadable, "cannot be read (Permission denied)"),
    # tables
    "text.csv": (content(",a,b\nx,1,2\ny,3,dog\n"), "row 2 ('y'), column 2 ('b') is 'dog'"),
    "no_names.csv": (content("a,b\n1,2\n3,dog\n"), "row 2, column 2 ('b') is 'dog'"),
    "mixed.csv": (content("sample,stage,a\nx,early,1\ny,2,3\n"), "row 1 ('x'), column 1 ('stage') is 'early'"),
    "negative.csv": (content(",a,b\nx,-1,2\n"), "row 1 ('x'), column 1 ('a') is -1; unmix needs finite counts >= 0"),
    "nan.tsv": (content("\ta\tb\nx\t1\tNaN\n"), "row 1 ('x'), column 2 ('b') is "),
    "infinite.csv.gz": (content(",a,b\nx,1,inf\n"), "column 2 ('b') is inf"),
    "hole.csv": (content(",a,b\nx,,2\n"), "row 1 ('x'), column 1 ('a') is empty"),
    "short.csv": (
        content(",a,b\nx,1,2\ny,3\n"),
        "row 2 (line 3) has 2 cells, others 3; every row needs the same number",
    ),
    "long.csv": (
        content(",a,b\nx,1,2\ny,3,4,5\n"),
        "line 3 has 4 cells, those before it 3; every row needs the same number",
    ),
    "wide.csv": (content(",a\nx,1,2,3\n"), "the first row has 2 cells, the second 4"),
    "header.csv": (content(",a,b\n"), "there is nothing below the names of the features"),
    "no_header.csv": (content("0,1,0\n2,3,4\n"), "the first row holds counts"),
    "names.csv": (content("sample\nx\ny\n"), "one column only, 'sample'"),
    "words.csv": (content("sample,body\nx,a text\ny,another\n"), "if 'body' holds texts, give text_column"),
    "unnamed_long.csv": (content("who,what,much\nx,a,1\ny,b,2\n"), "name the columns sample, feature and count"),
    "negative_long.csv": (content("doc,word,n\nx,a,1\ny,b,-2\n"), "row 2, column 3 ('n') is -2"),
    "nameless_long.csv": (content("doc,word,n\nx,a,1\n,b,2\n"), "row 2 has no 'doc'"),
    "latin.csv": (content(b",a,b\nx,1,2\n" + "café,3,4\n".encode("latin-1")), "line 3 is not UTF-8"),
    "latin.tsv.gz": (content(b"\ta\nx\t1\n" + "café\t3\n".encode("latin-1")), "line 3 is not UTF-8"),
    "zeros.csv": (content(",a,b\nx,0,0\n"), "no counts at all"),
    "nested.parquet": (nested, "lists or records in 'words'"),
    # matrices
    "dense.npz": (lambda path: np.savez(path, x=np.eye(2)), "holds 'x' but no sparse matrix of scipy"),
    "negative.npz": (npz([[1, 0], [0, -2]]), "-2 at row 1, column 1"),
    "nan.npz": (npz([[1, 0], [0, np.nan]]), "nan at row 1, column 1"),
    "none.npz": (npz(np.zeros((0, 3))), "0 sample(s)"),
    "range.npz": (npz_with(indices=np.array([0, 1, 7], dtype=np.int32)), "its indices are damaged"),
    "short.npz": (npz_with(data=np.ones(2)), "no sparse matrix that can be read"),
    "huge.npz": (huge_npz, "the arrays it declares would need 1,490,116.1 GB of memory"),
    "shape.npz": (npz_with(shape=np.array([2**50, 3]), format=b"coo", row=np.arange(3), col=np.arange(3)), "of memory"),
    "pickle.npz": (
        lambda path: np.savez(path, format=np.array([Payload()], dtype=object)),
        "Python objects, which unmix never unpickles",
    ),
    "pickle.npy": (
        lambda path: np.save(path, np.array([[Payload()]], dtype=object), allow_pickle=True),
        "Python objects, which unmix never unpickles",
    ),
    "cube.npy": (lambda path: np.save(path, np.ones((2, 3, 4))), "an array of 3 dimension(s), shape (2, 3, 4)"),
    "text.npy": (lambda path: np.save(path, np.array([["a", "b"]])), "unmix needs numbers"),
    "huge.npy": (
        bytes_as_they_are(npy_header((10**8, 10**8))),
        "its header promises 80,000,000,000,000,000 bytes, 0 are there",
    ),
    "promise.npy": (bytes_as_they_are(npy_header((10, 10)) + bytes(80)), "promises 800 bytes, 80 are there"),
    "foreign.mtx": (content("hello\n"), "not a MatrixMarket file"),
    "sizeless.mtx": (content(MTX + "% nothing more\n"), "lacks the line with numbers of rows, columns and entries"),
    "words.mtx": (content(MTX + "three by three\n"), "lacks the line with numbers of rows, columns and entries"),
    "below.mtx": (content(MTX + "-3 3 1\n1 1 1\n"), "its header says '-3 3 1'"),
    "complex.mtx": (content(MTX.replace("integer", "complex") + "1 1 1\n1 1 1 1\n"), "coordinate complex general"),
    "few.mtx": (content(MTX + "3 3 2\n1 1 1\n"), "its header promises 2 entries, 1 are there"),
    "no.mtx": (content(MTX + "3 3 2\n"), "its header promises 2 entries, 0 are there"),
    "many.mtx": (content(MTX + "3 3 1\n1 1 1\n2 2 2\n"), "its header promises 1 entries, 2 are there"),
    "pairs.mtx": (content(MTX + "3 3 1\n1 1\n"), "its entries have 2 numbers each, its header says 3"),
    "ragged.mtx": (content(MTX + "3 3 2\n1 1 1\n2 2 2 2\n"), "Expected 3 fields in line 2, saw 4 below its header"),
    "range.mtx.gz": (content(MTX + "3 3 1\n4 1 1\n"), "entry 1 is in row 4 of 3"),
    "nought.mtx": (content(MTX + "3 3 2\n1 1 1\n1 0 1\n"), "entry 2 is in column 0 of 3"),
    "text.mtx": (content(MTX + "3 3 1\n1 1 dog\n"), "entry 1 has 'dog' for its value; use a number"),
    "nan.mtx": (content(MTX + "3 3 1\n1 1 nan\n"), "entry 1 has 'nan' for its value; use a number"),
    "nul.mtx": (content(MTX + "3 4 3\n1 1 1\0001 3 2\n2 2 3\n"), "line 3 has a NUL character; remove it"),
    "oblong.mtx": (content(MTX.replace("general", "symmetric") + "3 4 1\n1 1 1\n"), "symmetric, but 3 × 4"),
    "negative.mtx": (content(MTX + "3 3 1\n2 1 -4\n"), "-4 at row 1, column 0"),
    "huge.mtx": (content(MTX + "3 3 99999999999999\n1 1 1\n"), "of memory"),
    "tall.mtx": (content(MTX + "999999999999999 3 1\n1 1 1\n"), "of memory"),
    # HDF5
    "no-matrix.h5": (h5(removed("matrix")), "no group 'matrix'; it has nothing"),
    "barcodes.h5": (h5(replaced("matrix/barcodes", np.array(["x"], dtype="S"))), "1 barcodes for a matrix of 3"),
    "features.h5": (h5(replaced("matrix/features/name", np.array(["a"], dtype="S"))), "1 features for a matrix of 4"),
    "shape.h5": (h5(replaced("matrix/shape", np.array([4, 9]))), "the shape 4 × 9 does not go with 4 starts"),
    "range.h5": (h5(replaced("matrix/indices", np.array([0, 2, 1, 0, 9]))), "its indices are damaged"),
    "negative.h5": (h5(replaced("matrix/data", np.array([1, 2, -3, 5, 7]))), "row 2 ('y'), column 2 ('bee') is -3"),
    "huge.h5": (h5(huge("matrix")), "would need"),
    "genomes.h5": (
        lambda path: save_10x_h5(path, TABLE, version=2, genomes=("hg19", "mm10")),
        "holds several genomes: 'hg19', 'mm10'; choose one with layer='hg19'",
    ),
    "no-x.h5ad": (h5ad(removed("X")), "there is no X in it; it has no matrix at all"),
    "no-obs.h5ad": (h5ad(removed("obs")), "not a readable AnnData file"),
    "range.h5ad": (h5ad(replaced("X/indices", np.array([0, 2, 1, 0, 9]))), "its indices are damaged"),
    "huge.h5ad": (h5ad(huge("X")), "would need"),
    "scaled.h5ad": (scaled, "X holds negative numbers, probably scaled; layer 'counts' holds whole numbers"),
    # folders
    "folder.csv": (lambda path: path.mkdir(), "a folder, not a .csv file"),
    "nothing": (folder(notes_md="# hello"), "a folder with nothing that unmix reads"),
    "blank": (folder(one_txt="", two_txt="\n"), "no words in 2 texts"),
    "matrices": (folder(counts_csv="", features_txt="a"), "a folder; use one of the files in it: 'counts.csv'"),
    "fit": (folder(model_safetensors=""), "a fit's folder, not counts"),
    "no-barcodes": (tenx(lambda path: (path / "barcodes.tsv").unlink()), "a 10x folder without barcodes.tsv"),
    "no-features": (tenx(lambda path: (path / "features.tsv").unlink()), "without features.tsv or genes.tsv"),
    "few-barcodes": (tenx(lambda path: (path / "barcodes.tsv").write_text("x\n")), "1 barcodes for a matrix of 3"),
    "few-genes": (tenx(lambda path: (path / "genes.tsv").write_text("a\n"), version=2), "1 features for a matrix of 4"),
    "latin-genes": (
        tenx(lambda path: (path / "features.tsv").write_bytes(b"a\n\xe9\n")),
        "features.tsv: line 2 is not UTF-8",
    ),
    "plain-gz": (
        tenx(lambda path: (path / "matrix.mtx.gz").write_text(MTX), endings=(".gz", "", "")),
        "matrix.mtx.gz: Not a gzipped file",
    ),
    "two-matrices": (tenx(lambda path: (path / "b_matrix.mtx").write_text(MTX)), "holds several matrices"),
    # texts
    "broken.jsonl": (content('{"text": "one"}\n\n{"text": "two"\n'), "line 3 is not JSON"),
    "list.jsonl": (content('{"text": "one"}\n[1, 2]\n'), "line 2 is not a JSON object"),
    "no-text.jsonl": (
        content('{"text": "one"}\n{"body": "two"}\n'),
        "line 2: the field 'text' is not there; it has 'body'",
    ),
    "number.jsonl.gz": (content('{"text": 1}\n'), "line 1: the field 'text' is not text"),
    "deep.jsonl": (content("[" * 100_000 + "\n"), "line 1 is not JSON"),
    "latin.txt": (content(b"one\ntwo\n" + "café\n".encode("latin-1")), "line 3 is not UTF-8"),
    "latin.txt.gz": (content(b"one\n" + "café\n".encode("latin-1")), "line 2 is not UTF-8"),
    "stop.txt": (content("the of and\nit is\n"), "no words in 2 texts, stop words and single letters aside"),
}
NEEDS_OPTIONS: dict[str, tuple[Make, dict, str]] = {
    "a.h5ad": (h5ad(lambda file: None), {"layer": "counts"}, "there is no layer 'counts' in it; it has X"),
    "b.h5ad": (h5ad(lambda file: None), {"raw": True}, "there is no raw in it; it has X"),
    "c.h5ad": (h5ad(lambda file: None), {"raw": True, "layer": "x"}, "use layer or raw=True, not both"),
    "d.csv": (content(",a\nx,1\n"), {"layer": "counts"}, "layer='counts' does not apply to a .csv file"),
    "e.csv": (content(",a\nx,1\n"), {"min_df": 2}, "min_df is for texts, and these are counts"),
    "f.csv": (content("id,a\nx,1\n"), {"text_column": "body"}, "no column 'body' to take texts from; there are 'id', 'a'"),
    "g.txt": (content("one text\n"), {"transpose": True}, "transpose is for counts, and these are texts"),
    "h.txt": (content("one text\n"), {"min_df": 0}, "min_df=0; use a number of documents"),
    "i.txt": (content("one text\n"), {"max_df": 1.5}, "max_df=1.5; use a number of documents"),
    "j.txt": (content("one text\n"), {"ngrams": 0}, "ngrams=0; use 1 for words"),
    "k.txt": (content("one text\n"), {"stop_words": "none.txt"}, "stop_words='none.txt': no such file"),
    "l.txt": (content("one text\nother words\n"), {"min_df": 2}, "no word is in at least 2 and at most 1.0 of 2 texts"),
    "m.jsonl": (content('{"text": "one"}\n'), {"text_column": "body"}, "line 1: the field 'body' is not there"),
    "n.h5": (lambda path: save_10x_h5(path, TABLE, version=2), {"layer": "mm10"}, "no genome 'mm10' in it"),
}  # fmt: skip


def listing() -> list[str]:
    return sorted(str(path) for path in Path.cwd().rglob("*"))


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line_that_names_it_and_nothing_is_written(name, capsys):
    skip_without_extras(name)
    make, message = BAD_FILES[name]
    if make is unreadable and os.geteuid() == 0:
        pytest.skip("the administrator may read everything")
    make(Path(name))
    before = listing()
    if name != "zeros.csv":  # read without complaint, but there is nothing to fit
        with pytest.raises((ValueError, FileNotFoundError), match=rf"^{re.escape(name)}: .*{re.escape(message)}"):
            read(name)
    with pytest.raises(SystemExit) as exit:
        main(["fit", name, "-k", "2", "-o", "out"])
    said = capsys.readouterr().err
    assert exit.value.code == 2
    assert said.startswith(f"error: {name}: ")
    for parameter, option in {"text_column": "--text-column", "layer='hg19'": "--layer hg19"}.items():
        message = message.replace(parameter, option)
    assert message in said
    assert said.count("\n") == 1
    assert listing() == before


@pytest.mark.parametrize("name", NEEDS_OPTIONS)
def test_options_that_do_not_fit_the_file_are_refused(name):
    skip_without_extras(name)
    make, options, message = NEEDS_OPTIONS[name]
    make(Path(name))
    with pytest.raises(ValueError, match=rf"^{re.escape(name)}: .*{re.escape(message)}"):
        read(name, **options)


def test_the_payload_would_have_left_a_trace():
    np.save("trap.npy", np.array([[Payload()]], dtype=object), allow_pickle=True)
    np.load("trap.npy", allow_pickle=True)
    assert Path("unpickled").exists()
