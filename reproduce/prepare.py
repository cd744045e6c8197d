"""Turn the public raw files of the papers' data sets into what the commands read: `python -m reproduce.prepare NAME RAW`.

NAME is newsgroups, nips, pbmc68k or trachea; RAW is the downloaded file or folder (docs/results/data.md says from where).
The filters are those of Carbonetto et al.: words in at least two posts; papers with at least two different words; genes that are
seen in a cell. What comes out is compared with their table 1, and, for the two corpora, with a checksum of the counts.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp
from scipy.io.matlab import MatReadError

import unmix as um
from reproduce.common import DATA


class RawDataError(Exception):
    """Raw files that are not what they should be; the message says how."""


@dataclass(frozen=True)
class Prepared:
    """Counts, one row per sample, with the names of the features and what is known of the samples."""

    counts: sp.csr_matrix
    features: list[str]
    samples: pd.DataFrame | None = None

    def kept(self, rows: np.ndarray, columns: np.ndarray) -> Prepared:
        """The samples and features where these are true."""
        samples = None if self.samples is None else self.samples[rows].reset_index(drop=True)
        features = [name for name, keep in zip(self.features, columns, strict=True) if keep]
        return Prepared(sp.csr_matrix(self.counts[rows][:, columns]), features, samples)


@dataclass(frozen=True)
class Source:
    """How a data set is read, and what must come out: rows and columns by table 1, and a checksum where we have one."""

    read: Callable[[Path], Prepared]
    shape: tuple[int, int]
    checksum: str = ""


# --- reading and filtering ---------------------------------------------------------------------------------------------


def newsgroups(folder: Path) -> Prepared:
    """20news-bydate-matlab: `document word count` by line, numbers from 1, train and test apart; and vocabulary.txt."""
    words = file_in(folder, "vocabulary.txt").read_text(encoding="latin-1").split()
    names = [
        line.split()[0] for line in file_in(folder, "train.map").read_text(encoding="latin-1").splitlines() if line
    ]
    parts, labels = [], []
    for part in ("train", "test"):
        parts.append(triples(file_in(folder, f"{part}.data"), len(words)))
        labels += [names[int(label) - 1] for label in file_in(folder, f"{part}.label").read_text().split()]
    counts = sp.csr_matrix(sp.vstack(parts))
    if counts.shape[0] != len(labels):
        raise RawDataError(f"{folder} has {counts.shape[0]:,} documents and {len(labels):,} labels; download it again")
    seen_in = np.asarray((counts > 0).sum(axis=0)).ravel()
    data = Prepared(counts, words, pd.DataFrame({"group": labels}))
    return data.kept(np.ones(counts.shape[0], bool), seen_in >= 2)


def triples(file: Path, n_words: int) -> sp.csr_matrix:
    table = pd.read_csv(file, sep=r"\s+", header=None, names=["document", "word", "count"], dtype=np.int64)
    if len(table) and (table.min().min() < 1 or table["word"].max() > n_words):
        raise RawDataError(f"{file} has numbers outside 1 to {n_words:,}, or counts below 1; download it again")
    shape = (int(table["document"].max()) if len(table) else 0, n_words)
    return sp.csr_matrix((table["count"], (table["document"] - 1, table["word"] - 1)), shape=shape)


def nips(file: Path) -> Prepared:
    """nips_1-17.mat: `counts`, words × papers, and `words`."""
    try:
        held = scipy.io.loadmat(file, variable_names=["counts", "words"])
        counts, words = sp.csr_matrix(held["counts"]).T, [str(word.item()) for word in held["words"].ravel()]
    except (KeyError, ValueError, NotImplementedError, OSError, MatReadError) as error:
        raise RawDataError(f"{file} is not nips_1-17.mat ({error}); download it again") from None
    counts = sp.csr_matrix(counts)
    different = np.asarray((counts > 0).sum(axis=1)).ravel()
    return Prepared(counts, words).kept(different > 1, np.ones(len(words), bool))


def pbmc68k(folder: Path) -> Prepared:
    """The folder filtered_matrices_mex/hg19 of "Fresh 68k PBMCs (Donor A)": matrix.mtx, genes.tsv, barcodes.tsv."""
    X = um.read(folder)
    names = X.features if X.features is not None else np.arange(X.shape[1]).astype(str)
    return seen_genes(Prepared(sp.csr_matrix(X.csr), [str(name) for name in names]))


def trachea(file: Path) -> Prepared:
    """GSE103354_Trachea_droplet_UMIcounts.txt.gz: genes × cells, tab-separated; cells are named mouse_barcode_type. The first
    line may lack a name for the column of genes."""
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
        cells = next(lines).rstrip("\n").split("\t")
        genes, blocks = [], []
        for some, block in rows_of(lines):
            genes += some
            blocks.append(block)
    if not genes:
        raise RawDataError(f"{file} has no genes; download it again")
    counts = sp.csr_matrix(sp.vstack(blocks)).T
    cells = cells[-counts.shape[0] :]
    parts = [name.strip('"').split("_") for name in cells]
    samples = pd.DataFrame({"mouse": [part[0] for part in parts], "cell_type": [part[-1] for part in parts]})
    return seen_genes(Prepared(sp.csr_matrix(counts), genes, samples))


def rows_of(lines: Iterator[str], at_once: int = 1000) -> Iterator[tuple[list[str], sp.csr_matrix]]:
    """Names and counts of a table's rows, some at a time, so that it is never dense as a whole."""
    names, values = [], []
    for line in lines:
        name, *cells = line.rstrip("\n").split("\t")
        names.append(name.strip('"'))
        values.append(np.array(cells, dtype=np.int32))
        if len(names) == at_once:
            yield names, sp.csr_matrix(np.array(values))
            names, values = [], []
    if names:
        yield names, sp.csr_matrix(np.array(values))


def seen_genes(data: Prepared) -> Prepared:
    return data.kept(np.ones(data.counts.shape[0], bool), np.asarray(data.counts.sum(axis=0)).ravel() > 0)


def file_in(folder: Path, name: str) -> Path:
    """The file of this name, in the folder or below."""
    found = sorted(folder.rglob(name))
    if not found:
        raise RawDataError(f"{folder} has no {name}; docs/results/data.md says what to download")
    return found[0]


SOURCES = {
    "newsgroups": Source(newsgroups, (18_774, 55_911), "7f334f35e217eae9"),
    "nips": Source(nips, (2_483, 14_036), "f89752862067c704"),
    "pbmc68k": Source(pbmc68k, (68_579, 20_387)),
    "trachea": Source(trachea, (7_193, 18_388)),
}


# --- checking and writing ----------------------------------------------------------------------------------------------


def checksum(counts: sp.csr_matrix) -> str:
    """The first 16 digits of a SHA-256 of the sparse matrix, rows in order and columns sorted within them."""
    counts = sp.csr_matrix(counts, copy=True)
    counts.sum_duplicates()
    digest = hashlib.sha256()
    for array in (counts.indptr, counts.indices, counts.data):
        digest.update(np.asarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()[:16]


def differences(data: Prepared, source: Source) -> list[str]:
    """What is not as it was for the paper."""
    found = []
    if data.counts.shape != source.shape:
        n, m = source.shape
        found.append(f"{data.counts.shape[0]:,} × {data.counts.shape[1]:,}, where the paper has {n:,} × {m:,}")
    elif source.checksum and checksum(data.counts) != source.checksum:
        found.append(f"checksum {checksum(data.counts)}, where the paper's counts have {source.checksum}")
    return found


def write(data: Prepared, folder: Path) -> None:
    """counts.npz, features.txt and samples.csv, each under a temporary name first."""
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[str, Callable[[Path], object]] = {
        "counts.npz": lambda file: sp.save_npz(file, data.counts.astype(np.int32)),
        "features.txt": lambda file: file.write_text("\n".join(data.features) + "\n", encoding="utf-8"),
    }
    if (samples := data.samples) is not None:
        writers["samples.csv"] = lambda file: samples.to_csv(file, index=False, lineterminator="\n")
    for name, writer in writers.items():
        unfinished = folder / f"unfinished-{name}"
        writer(unfinished)
        unfinished.replace(folder / name)


def main(words: list[str]) -> int:
    parser = ArgumentParser(prog="python -m reproduce.prepare", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=list(SOURCES))
    parser.add_argument("raw", type=Path, help="the file or folder that was downloaded")
    parser.add_argument(
        "--to", type=Path, default=DATA, help=f"folder of the data sets, {DATA} by default (UNMIX_DATA)"
    )
    asked = parser.parse_args(words)
    source = SOURCES[asked.name]
    data = source.read(asked.raw)
    write(data, asked.to / asked.name)
    n, m = data.counts.shape
    print(f"wrote {asked.to / asked.name}: {n:,} × {m:,}, {data.counts.nnz:,} nonzeros, {data.counts.sum():,} counts")
    wrong = differences(data, source)
    for difference in wrong:
        print(f"not the data of the paper: {difference}")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except (RawDataError, OSError) as reason:
        raise SystemExit(str(reason)) from None
