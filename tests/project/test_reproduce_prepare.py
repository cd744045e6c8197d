"""Raw files of the papers' data sets, small ones of the same formats, become what the commands read."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from reproduce import prepare
from reproduce.prepare import RawDataError, Source

import unmix as um

WORDS = ["apple", "pear", "rare", "plum"]
DOCUMENTS = np.array([[2, 1, 0, 0], [0, 3, 1, 1], [1, 0, 0, 4]])  # "rare" is in one document
GROUPS = ["sci.fruit", "rec.trees", "sci.fruit"]


def newsgroups(folder: Path) -> Path:
    """As 20news-bydate-matlab.tgz unpacks: train has the first two documents."""
    inside = folder / "20news-bydate" / "matlab"
    inside.mkdir(parents=True)
    (folder / "vocabulary.txt").write_text("\n".join(WORDS) + "\n")
    (inside / "train.map").write_text("sci.fruit 1\nrec.trees 2\n")
    for part, rows, labels in (("train", DOCUMENTS[:2], "1\n2\n"), ("test", DOCUMENTS[2:], "1\n")):
        lines = [f"{i + 1} {j + 1} {rows[i, j]}" for i, j in np.argwhere(rows)]
        (inside / f"{part}.data").write_text("\n".join(lines) + "\n")
        (inside / f"{part}.label").write_text(labels)
    return folder


def nips(folder: Path) -> Path:
    """As nips_1-17.mat: words × papers, names as a cell array; the last paper has one word."""
    words = np.empty((4, 1), dtype=object)
    words[:, 0] = WORDS
    counts = np.vstack([DOCUMENTS, [5, 0, 0, 0]]).T
    scipy.io.savemat(folder / "nips_1-17.mat", {"counts": sp.csc_matrix(counts.astype(float)), "words": words})
    return folder / "nips_1-17.mat"


def pbmc68k(folder: Path) -> Path:
    """As filtered_matrices_mex/hg19: genes × cells; the last gene is in no cell."""
    inside = folder / "hg19"
    inside.mkdir()
    scipy.io.mmwrite(inside / "matrix.mtx", sp.coo_matrix(np.vstack([DOCUMENTS.T, [0, 0, 0]])))
    (inside / "genes.tsv").write_text("".join(f"ENSG{i}\t{name}\n" for i, name in enumerate([*WORDS, "unseen"])))
    (inside / "barcodes.tsv").write_text("AAA-1\nAAC-1\nAAG-1\n")
    return inside


def trachea(folder: Path) -> Path:
    """As on GEO: the first line has one name fewer than the others have columns; the last gene is in no cell."""
    lines = ["\t".join(["M1_GCTT_Club", "M1_GGAA_Basal", "M2_TTTT_Tuft"])]
    lines += [
        "\t".join([name, *map(str, row)])
        for name, row in zip([*WORDS, "unseen"], [*DOCUMENTS.T, [0, 0, 0]], strict=True)
    ]
    file = folder / "GSE103354_Trachea_droplet_UMIcounts.txt.gz"
    file.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return file


CASES = {
    "newsgroups": (newsgroups, DOCUMENTS[:, [0, 1, 3]], ["apple", "pear", "plum"]),
    "nips": (nips, DOCUMENTS, WORDS),
    "pbmc68k": (pbmc68k, DOCUMENTS, WORDS),
    "trachea": (trachea, DOCUMENTS, WORDS),
}


@pytest.mark.parametrize("name", CASES)
def test_raw_files_become_counts_that_unmix_reads(name: str, tmp_path: Path, monkeypatch, capsys) -> None:
    make, expected, features = CASES[name]
    counts = sp.csr_matrix(expected)
    reader = prepare.SOURCES[name].read
    monkeypatch.setitem(prepare.SOURCES, name, Source(reader, expected.shape, prepare.checksum(counts)))
    (tmp_path / "raw").mkdir()
    assert prepare.main([name, str(make(tmp_path / "raw")), "--to", str(tmp_path)]) == 0
    assert f"{expected.shape[0]} × {expected.shape[1]}" in capsys.readouterr().out
    X = um.read(tmp_path / name / "counts.npz")
    assert (X.csr.toarray() == expected).all()
    assert X.features is not None
    assert X.features.tolist() == features
    assert not list((tmp_path / name).glob("unfinished-*"))


def test_labels_of_samples_are_kept(tmp_path: Path) -> None:
    for name in ("newsgroups", "trachea"):
        (tmp_path / name).mkdir()
        prepare.write(prepare.SOURCES[name].read(CASES[name][0](tmp_path / name)), tmp_path / "out" / name)
    for name, column, labels in (("newsgroups", "group", GROUPS), ("trachea", "cell_type", ["Club", "Basal", "Tuft"])):
        metadata = um.read(tmp_path / "out" / name / "counts.npz").metadata
        assert metadata is not None
        assert metadata[column].tolist() == labels


def test_other_data_than_the_papers_are_told(tmp_path: Path, monkeypatch, capsys) -> None:
    assert prepare.main(["newsgroups", str(newsgroups(tmp_path / "raw")), "--to", str(tmp_path)]) == 1
    assert "3 × 3, where the paper has 18,774 × 55,911" in capsys.readouterr().out
    monkeypatch.setitem(prepare.SOURCES, "newsgroups", Source(prepare.newsgroups, (3, 3), "0" * 16))
    assert prepare.main(["newsgroups", str(tmp_path / "raw"), "--to", str(tmp_path)]) == 1
    assert "the paper's counts have 0000000000000000" in capsys.readouterr().out


def test_the_checksum_sees_counts_and_places_and_not_how_they_are_stored() -> None:
    counts = sp.csr_matrix(DOCUMENTS)
    shuffled = sp.csr_matrix(sp.csc_matrix(counts))
    assert prepare.checksum(shuffled.astype(np.int64)) == prepare.checksum(counts.astype(np.float64))
    other = DOCUMENTS.copy()
    other[0, 0] += 1
    moved = DOCUMENTS[:, [1, 0, 2, 3]]
    assert len({prepare.checksum(sp.csr_matrix(each)) for each in (DOCUMENTS, other, moved)}) == 3


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda raw: (raw / "vocabulary.txt").unlink(), "has no vocabulary.txt"),
        (lambda raw: (raw / "20news-bydate/matlab/test.label").write_text("1\n1\n"), "3 documents and 4 labels"),
        (lambda raw: (raw / "20news-bydate/matlab/test.data").write_text("1 9 1\n"), "outside 1 to 4"),
    ],
)
def test_spoilt_files_are_refused(spoil, message: str, tmp_path: Path) -> None:
    raw = newsgroups(tmp_path)
    spoil(raw)
    with pytest.raises(RawDataError, match=message):
        prepare.newsgroups(raw)


def test_a_file_that_is_no_mat_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nips_1-17.mat").write_bytes(b"no")
    with pytest.raises(RawDataError, match=r"is not nips_1-17\.mat"):
        prepare.nips(tmp_path / "nips_1-17.mat")
