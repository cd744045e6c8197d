"""Files and folders -> Counts: one small function a format, and one dictionary from a file's ending to its function.

Whatever is wrong with a file is a ValueError that begins with its name and says what is wrong, where, and what to do.
Nothing here unpickles.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmix.counts import Counts
from unmix.data.read import h5ad, matrices, tables, tenx, text
from unmix.data.read.files import first_line
from unmix.data.read.found import Asked, Found, listed
from unmix.data.read.names import FEATURES_FILE, add_neighbours, join_metadata, make_unique

__all__ = ["READERS", "ending_of", "kind_of", "name_of", "read"]


class Reader(NamedTuple):
    """What files with an ending are, how they are read, and which options of `read` mean something for them."""

    kind: str
    load: Callable[[Path, Asked], Found]
    options: frozenset[str]


MATRIX, TABLE, TEXT = frozenset({"transpose"}), frozenset({"transpose", "text_column"}), frozenset({"text_column"})

READERS = {
    ".npz": Reader("sparse matrix of scipy", matrices.read_npz, MATRIX),
    ".npy": Reader("array of numpy", matrices.read_npy, MATRIX),
    ".mtx": Reader("MatrixMarket file", tenx.read_mtx, MATRIX),
    ".h5": Reader("10x HDF5 file", tenx.read_h5, frozenset({"layer"})),
    ".h5ad": Reader("AnnData file", h5ad.read_h5ad, frozenset({"layer", "raw"})),
    ".csv": Reader("CSV table", tables.read_csv, TABLE),
    ".tsv": Reader("TSV table", tables.read_tsv, TABLE),
    ".parquet": Reader("Parquet table", tables.read_parquet, TABLE),
    ".txt": Reader("text, one document a line", text.read_txt, MATRIX),
    ".jsonl": Reader("JSON lines", text.read_jsonl, TEXT),
}
COMPRESSED = (".mtx", ".csv", ".tsv", ".txt", ".jsonl")  # may end in .gz as well
READERS |= {f"{ending}.gz": READERS[ending]._replace(kind=READERS[ending].kind + " (gzip)") for ending in COMPRESSED}


def read(
    path: str | os.PathLike[str],
    *,
    layer: str | None = None,
    raw: bool = False,
    transpose: bool | None = None,
    metadata: str | os.PathLike[str] | None = None,
    text_column: str | None = None,
    min_df: int | float | None = None,
    max_df: int | float | None = None,
    stop_words: Any = "english",
    ngrams: int | tuple[int, int] = 1,
    like: Any = None,
) -> Counts:
    """Counts from a file or folder, samples × features; its name and contents tell the format.

    Matrices
        `.npz` (saved by `scipy.sparse.save_npz`), `.npy` (two dimensions), `.mtx[.gz]` (MatrixMarket). A `features.txt`
        (one name a line) and a `samples.csv` (one row a sample; a column `sample`, if any, has their names) in the same
        folder come along if their lengths fit.
    Single cells
        `.h5ad`: `X`, or `layer="counts"`, or `raw=True`; obs becomes the metadata. A 10x folder (matrix.mtx,
        barcodes.tsv, and features.tsv or genes.tsv, each perhaps with .gz) or 10x `.h5` file: gene symbols become the
        names, other types of features than Gene Expression are left out; `layer` chooses among several genomes.
    Tables
        `.csv[.gz]`, `.tsv[.gz]`, `.parquet`. Wide: feature names in the first row; the first column has sample names
        if its header is empty or says so (such as `id`, `sample`), or if it holds text; further columns of text are
        metadata. Where labels say for certain that rows are features (the header `gene`, mutation types, cell barcodes
        on top …) the table is transposed, with a warning. Long: three columns whose headers say sample, feature and
        count (or cell, gene, umi; doc, word, n; …). A `.txt` of numbers between tabs is a table too.
    Texts
        A folder of `.txt` files, or of folders of them; a `.txt[.gz]` with one document a line; `.jsonl[.gz]` with a
        field `text`; a table with a column `text`. Fields `id`, `name` or `title` name the documents, the others are
        metadata.

    Text is UTF-8 throughout. Names that come twice are told apart with -1, -2, …, with a warning.

    Parameters
    ----------
    transpose
        True if the rows of a table or matrix are features, False if they are samples; None decides by the labels.
    metadata
        A CSV or TSV file with more about the samples, matched by a column with their names, or else row by row.
    text_column
        The column or field that holds the texts, if it is not called `text`.
    min_df, max_df
        Words in fewer or more documents than this are left out: numbers of documents, or shares if they are floats.
        By default none is too frequent, and a word must be in 1, 2 or 5 documents where there are fewer than 10, fewer
        than 100, or more.
    stop_words
        "english", None, a list, or a file with one word a line: words not to count.
    ngrams
        2 counts pairs of neighbouring words as well as words, (2, 2) pairs alone.
    like
        A fit made from texts: new texts are counted in the same way, and the columns are the features of the fit.
        It has no effect on tables of counts and matrices.
    """
    path = Path(path)
    asked = Asked(layer, raw, transpose, text_column, min_df, max_df, stop_words, ngrams, like)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; check the name and the folder")
    found = _with_name(path, lambda: _found(path, asked))
    if metadata is not None:
        table = Path(metadata)
        _with_name(table, lambda: join_metadata(found, table))
    make_unique(found)
    counts = _with_name(path, lambda: _checked(found))
    for note in found.notes:
        warnings.warn(f"{path}: {note}", UserWarning, stacklevel=2)
    return counts


def ending_of(path: str | os.PathLike[str]) -> str | None:
    """Which of the known endings this file's name has, such as ".csv.gz"; None for a folder."""
    path = Path(path)
    return None if path.is_dir() else _known_ending(path.name)


def name_of(path: str | os.PathLike[str]) -> str:
    """A file's name without its known ending, a folder's whole name: "counts.csv.gz" is "counts"."""
    path = Path(path)
    if (ending := ending_of(path)) is None:
        return path.resolve().name
    return path.name[: -len(ending)] or path.name


def kind_of(path: str | os.PathLike[str]) -> str:
    """What a file or folder is, in a few words; the matrix in it is not read."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; check the name and the folder")
    return _with_name(path, lambda: _folder(path)[0] if path.is_dir() else _file_kind(path))


def _known_ending(name: str) -> str | None:
    return next((ending for ending in READERS if name.lower().endswith(ending)), None)


def _with_name(path: Path, work: Callable[[], Any]) -> Any:
    """Whatever goes wrong becomes a ValueError that begins with the name of the file."""
    try:
        return work()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or first_line(error)})") from error
    except (EOFError, zlib.error) as error:
        raise ValueError(f"{path}: damaged, or cut short ({first_line(error)})") from error
    except MemoryError as error:
        raise ValueError(f"{path}: too large for this machine's memory, or damaged") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _found(path: Path, asked: Asked) -> Found:
    """What is in a file or folder, the way round that was asked for."""
    if path.is_dir():
        _, load = _folder(path)
        _refuse_options(asked, frozenset(), "a folder")
        found = load(asked)
    else:
        reader = _reader(path)
        _refuse_options(asked, reader.options, f"a {_known_ending(path.name)} file")
        found = reader.load(path, asked)
    if found.bare and asked.transpose:
        found = found.transposed()
    if found.bare:
        add_neighbours(found, path)
    _refuse_text_options(asked, found)
    return found


def _file_kind(path: Path) -> str:
    reader = _reader(path)
    if reader.load is text.read_txt and text.is_table(path):
        return "TSV table"
    return reader.kind


def _reader(path: Path) -> Reader:
    ending = _known_ending(path.name)
    if ending is None:
        known = (f"{ending}[.gz]" if ending in COMPRESSED else ending for ending in READERS if ".gz" not in ending)
        raise ValueError(f"unknown kind of file; unmix reads {', '.join(known)}, and folders of .txt or of 10x")
    return READERS[ending]


def _folder(path: Path) -> tuple[str, Callable[[Asked], Found]]:
    """What a folder is, and how to read it: files of 10x, or texts."""
    if (files := tenx.folder_of(path)) is not None:
        return f"10x folder (v{files.version})", lambda asked: tenx.read_folder(files)
    if (path / "model.safetensors").is_file():
        raise ValueError("a fit's folder, not counts; give the file or folder that the fit was made from")
    others = sorted(
        name for name in os.listdir(path) if (known := _known_ending(name)) and not known.startswith(".txt")
    )
    texts = [file for file in text.text_files(path) if not (others and file.name == FEATURES_FILE)]
    if len(texts) > len(others):
        return f"folder of {len(texts):,} text file{'s' * (len(texts) > 1)}", lambda asked: text.read_text_folder(
            path, texts, asked
        )
    if others:
        raise ValueError(f"a folder; give one of the files in it: {listed(others)}")
    kind = "a folder" if (ending := _known_ending(path.name)) is None else f"a folder, not a {ending} file,"
    raise ValueError(f"{kind} with nothing that unmix reads; it reads folders of .txt files and those of 10x")


def _checked(found: Found) -> Counts:
    """Counts, or an error about a value that speaks of it by name; Counts itself knows positions only."""
    try:
        return Counts(found.matrix, found.samples, found.features, found.metadata, found.text)
    except ValueError:
        _refuse_value(found)
        raise


def _refuse_value(found: Found) -> None:
    """Name the first value that is no count, if there is one and names are known."""
    values = found.matrix.data if sp.issparse(found.matrix) else found.matrix
    if found.samples is None or found.features is None or values.dtype.kind not in "if":
        return
    entries = sp.coo_array(found.matrix)
    bad = np.flatnonzero(~((entries.data >= 0) & (entries.data < np.inf)))
    if bad.size:
        row, column, value = entries.row[bad[0]], entries.col[bad[0]], entries.data[bad[0]]
        raise ValueError(
            f"row {row + 1} ({found.samples[row]!r}), column {column + 1} ({found.features[column]!r}) "
            f"is {value:g}; unmix needs finite counts >= 0"
        )


def _refuse_options(asked: Asked, fitting: frozenset[str], what: str) -> None:
    for option in ("layer", "raw", "transpose", "text_column"):
        if getattr(asked, option) != getattr(Asked(), option) and option not in fitting:
            raise ValueError(f"{option}={getattr(asked, option)!r} means nothing for {what}; leave it out")


def _refuse_text_options(asked: Asked, found: Found) -> None:
    """How to count words can only be said of texts, and not if a model says it already."""
    given = [
        name for name in ("min_df", "max_df", "stop_words", "ngrams") if getattr(asked, name) != getattr(Asked(), name)
    ]
    if given and found.text is None:
        raise ValueError(f"{given[0]} is for texts, and these are counts; leave it out")
    if given and asked.like is not None:
        raise ValueError(f"{given[0]}: the model says already how words are counted; leave it out")
    if asked.transpose is not None and found.text is not None:
        raise ValueError("transpose is for counts, and these are texts; leave it out")
