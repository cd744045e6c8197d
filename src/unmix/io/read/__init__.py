"""Files and folders -> Counts: one small function per format, and one dictionary from a file's ending to its function.

Whatever is wrong with a file is a ValueError that begins with its name and says what is wrong, where, and what to do.
Nothing here unpickles.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from unmix.base.checks import parameter, warn
from unmix.base.memory import BYTES_PER_NONZERO
from unmix.counts.counts import Counts
from unmix.counts.shards import Shards
from unmix.counts.stores import JOURNAL, MANIFEST
from unmix.io.options import ReadKeywords, ReadOptions, TextKeywords, listed
from unmix.io.read import cells, matrices, rds, sheets, text
from unmix.io.read.files import errors_about, require_file, require_inside
from unmix.io.read.names import FEATURES_FILE, add_neighbours, join_metadata, number_texts, settle_names, writable_name
from unmix.io.read.raw_counts import RawCounts, checked

__all__ = ["READERS", "ending_of", "is_shards", "kind_of", "load", "name_of", "read", "read_catalogue"]


class Reader(NamedTuple):
    """What files with an ending are, how they are read, which options of `read` mean something for them, and what refuses those
    that declare more than would fit into memory as a whole, where reading would take long to find out."""

    kind: str
    load: Callable[[Path, ReadOptions], RawCounts]
    options: frozenset[str]
    require_room: Callable[[Path], None] = lambda path: None


TEXT = frozenset({"text_column", "id_column", "title_column", "snippets", "encoding"})
OF_TABLES = frozenset({"transpose", "layout", "long_columns", "metadata_columns"})
FOLDER, LINES = frozenset({"encoding", "skip_bad", "snippets"}), OF_TABLES | {"encoding", "snippets"}
MATRIX, TABLE, SHEET = (frozenset({"transpose"}), TEXT | OF_TABLES, TEXT - {"encoding"} | OF_TABLES)
BY_FORMAT = ("layer", "raw", *sorted(OF_TABLES | TEXT | FOLDER))  # options that mean something for some formats only
OF_TEXTS = (
    "min_df",
    "max_df",
    "stop_words",
    "ngrams",
    "phrases",
    "tokenizer",
)  # and for texts only, wherever they come from

READERS = {
    ".npz": Reader("sparse matrix of scipy", matrices.read_npz, MATRIX),
    ".npy": Reader("array of numpy", matrices.read_npy, MATRIX),
    ".mtx": Reader("MatrixMarket file", cells.read_mtx, MATRIX),
    ".mm": Reader("MatrixMarket file", cells.read_mtx, MATRIX),
    ".ldac": Reader("LDA-C file", matrices.read_ldac, frozenset()),
    ".h5": Reader("10x HDF5 file", cells.read_h5, frozenset({"layer"})),
    ".h5ad": Reader("AnnData file", cells.read_h5ad, frozenset({"layer", "raw"})),
    ".h5mu": Reader("MuData file", cells.read_h5mu, frozenset({"layer", "raw"})),
    ".loom": Reader("loom file", cells.read_loom, frozenset({"layer"})),
    ".rds": Reader("R object", rds.read_rds, SHEET | {"layer"}),
    ".csv": Reader("CSV table", sheets.read_csv, TABLE),
    ".tsv": Reader("TSV table", sheets.read_tsv, TABLE),
    ".all": Reader("TSV table of SigProfiler", sheets.read_tsv, TABLE),
    ".parquet": Reader("Parquet table", sheets.read_parquet, SHEET, sheets.require_room),
    ".xlsx": Reader("Excel table", sheets.read_xlsx, SHEET),
    ".txt": Reader("text, one document a line", text.read_txt, LINES),
    ".jsonl": Reader("JSON lines", text.read_jsonl, TEXT),
}
# Of these the number of nonzeros is known before the matrix is read.
SIZE_KNOWN = {READERS[ending].kind for ending in (".npz", ".h5", ".h5ad")}

BYTES_PER_COUNT = 10  # of a text or a table: words of six letters, of which many are omitted or come again
GZIPPED = 4  # bytes of text for one

OTHER_ENDINGS = {  # and what to do
    ".json": "write one record per line, as .jsonl",
    ".xls": "save it as .xlsx",
    ".rdata": "write one object with saveRDS(object, 'counts.rds')",
    ".biom": "convert it with: biom convert -i FILE -o table.tsv --to-tsv",
    **dict.fromkeys(
        (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"), "unpack it, and read what is in it"
    ),
} | dict.fromkeys((".vcf", ".maf"), "count the types of mutations first, such as with SigProfilerMatrixGenerator")
PICKLES = (".pkl", ".pickle", ".joblib")
COMPRESSED = (".mtx", ".mm", ".ldac", ".csv", ".tsv", ".txt", ".jsonl")  # may end in .gz as well
READERS |= {f"{ending}.gz": READERS[ending]._replace(kind=READERS[ending].kind + " (gzip)") for ending in COMPRESSED}


def read(
    path: str | os.PathLike[str], *, metadata: str | os.PathLike[str] | None = None, **options: Unpack[ReadKeywords]
) -> Counts | Shards:
    r"""Counts from a file or folder, samples × features; its name and contents decide the format.

    Matrices
        `.npz` (saved by `scipy.sparse.save_npz`), `.npy` (two dimensions), `.mtx[.gz]` or `.mm` (MatrixMarket), `.ldac`
        (Blei's LDA-C). A `features.txt` or `vocab.txt` (one name per line; or a `.vocab` of the same name) and a
        `samples.csv` (one row per sample; a column `sample`, if any, has their names) in the same folder come along if
        their lengths fit.
    Single cells
        `.h5ad` or a store of zarr: `X`, or `layer="counts"`, or `raw=True`; obs becomes the metadata. `.h5mu`: one of its
        modalities, `layer="rna"`. `.loom`: `matrix` or a layer. `.rds` of R: the counts of a Seurat object or of a
        SingleCellExperiment, or those of `layer="RNA/counts"`; also matrices and data frames. A 10x folder (matrix.mtx,
        barcodes.tsv, and features.tsv or genes.tsv, each perhaps with .gz) or 10x `.h5` file: gene symbols become the
        names, other types of features than Gene Expression are omitted; `layer` chooses among several genomes.
    Tables
        `.csv[.gz]`, `.tsv[.gz]`, `.parquet`, `.xlsx` (its first sheet). Wide: feature names in the first row; the first
        column has sample names if its header is empty or indicates them (such as `id`, `sample`), or if it holds text; further
        columns of text are metadata. Where labels say for certain that rows are features (the header `gene`, mutation
        types, cell barcodes on top …) the table is transposed, with a warning. Long: columns whose headers say sample,
        feature and count (or cell, gene, umi; user, item, rating; …), or two columns of identifiers that repeat and one of
        numbers; times are omitted. Without numbers every row is one count. `long_columns` names the columns of any other.
        Years, totals and the like are metadata of a wide table, and `metadata_columns` names more of them. A `.txt` of numbers
        between tabs or blanks is a table too. Lines of comments, with #, may precede the header.
        Where types of mutations are in two columns, "C>A" and "ACA", they become A[C>A]A. SigProfiler's `.SBS96.all` and
        the like are tables between tabs.
    Texts
        A folder of `.txt` files, or of folders of them; a `.txt[.gz]` with one document per line; `.jsonl[.gz]` with a
        field `text`; a table with a column `text` or one that holds sentences. A column such as `id` or `doc_id` names the
        documents, or else one such as `title`; titles and all other columns are metadata. Addresses on the web and of e-mail
        are not counted.
    Shards
        A folder made by `unmix.shard` gives `unmix.Shards`.

    Where two readings of a table are plausible, it is refused with the options that choose, `layout`, `text_column`, …; the
    attribute `reading` of the result says how it was read. Text is UTF-8 unless `encoding` says otherwise. Names that come
    twice are distinguished with -1, -2, …, with a warning.

    Parameters
    ----------
    path : str or PathLike
        The file or folder.
    metadata : str or PathLike, default=None
        A CSV or TSV file with more about the samples, matched by a column with their names, or else row by row.
    **options : ReadOptions
        How to read it: `layer` of an `.h5ad` file, `transpose`, `text_column`, `stop_words` and more.
        `unmix.ReadOptions` explains all of them.

    Returns
    -------
    Counts or Shards
        With names and metadata, as far as the file has them.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it cannot be read as counts; it names the file, the place and the remedy. Or if an option does not apply.
    ImportError
        If the format needs a package that is not installed; it says which.

    See Also
    --------
    ReadOptions : What every option means.
    read_texts : Texts in memory.
    shard : What does not fit into memory.

    Examples
    --------
    >>> import pathlib, tempfile, unmix as um
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "counts.csv")
    ...     _ = path.write_text("sample,ant,bee\na,3,0\nb,1,2\n")
    ...     um.read(path)
    Counts(2 samples × 2 features, 3 nonzeros, total 6)
    """
    path, settings = existing(path), ReadOptions(**options)
    if is_shards(path):
        for name in settings.given(*BY_FORMAT, *OF_TEXTS):
            raise ValueError(
                f"{path}: {parameter(name)} does not apply to shards, whose reading is finished; remove it"
            )
        for file in path.iterdir():
            with errors_about(path), errors_about(Path(file.name)):
                require_inside(path, file)
        return Shards(path) if metadata is None else _described(Shards(path), Path(metadata), settings.encoding)
    with errors_about(path):
        _reader(path).require_room(path)
        raw_counts = load(path, settings)
    if metadata is not None:
        with errors_about(Path(metadata)):
            join_metadata(raw_counts, Path(metadata), settings.encoding)
    number_texts(raw_counts)
    with errors_about(path):
        counts = _settled(raw_counts)
    counts.reading = raw_counts.reading
    for note in raw_counts.notes:
        warn(f"{path}: {note}")
    return counts


def _settled(raw: RawCounts) -> Counts:
    """Counts with names of their own, all in memory."""
    settle_names(raw)
    counts = checked(raw)
    if raw.text is not None and (empty := int((counts.sample_totals == 0).sum())):
        raw.notes.append(text.about_empty(empty, len(counts)))
    return counts


def _described(shards: Shards, metadata: Path, encoding: str | None) -> Shards:
    names = None if shards.samples is None else shards.samples.tolist()
    raw = RawCounts(shards, names, metadata=shards.metadata)
    with errors_about(metadata):
        join_metadata(raw, metadata, encoding)
    for note in raw.notes:
        warn(f"{metadata}: {note}")
    return shards.with_metadata(raw.metadata)


def read_texts(
    texts: Iterable[Any],
    *,
    samples: ArrayLike | None = None,
    metadata: pd.DataFrame | None = None,
    dictionary: Any = None,
    **options: Unpack[TextKeywords],
) -> Counts:
    """Counts of the words in texts that are in memory.

    Parameters
    ----------
    texts : iterable of str, of lists of tokens, or of bags of words
        A list of strings, a column of a DataFrame, …; lists of tokens, which are counted as they are; or bags of words,
        which have their counts already: dictionaries from words to counts, or lists of pairs (id, count) as gensim makes them.
    samples : array-like of str, default=None
        Names of the texts; of a column of a DataFrame, its index, unless that is a mere count of its rows.
    metadata : DataFrame, default=None
        Table with one row per text.
    dictionary : gensim Dictionary, mapping or list of str, default=None
        Words of the ids in bags of words.
    **options : ReadOptions
        How words are counted: `min_df`, `max_df`, `stop_words`, `ngrams`, `tokenizer`, `phrases`, `like`, and `snippets`.
        `unmix.ReadOptions` explains all of them.

    Returns
    -------
    Counts
        Its `text` remembers how words were counted.

    Raises
    ------
    ValueError
        If texts is one string, or an entry is none; if the model `like` made its words otherwise; or an option is
        invalid.

    See Also
    --------
    ReadOptions : What every option means.
    read : Texts in files.

    Examples
    --------
    >>> import unmix as um
    >>> um.read_texts(["Red roses and red wine", "White wine", "White roses"]).features.tolist()
    ['red', 'roses', 'white', 'wine']
    >>> um.read_texts([["new_york", "c++"], ["c++"]]).features.tolist()
    ['c++', 'new_york']
    >>> um.read_texts([[(0, 2), (1, 1)], [(1, 3)]], dictionary=["red", "wine"]).csr.toarray().tolist()
    [[2.0, 1.0], [0.0, 3.0]]
    """
    settings = ReadOptions(**options)
    for name in settings.given(*(name for name in BY_FORMAT if name != "snippets")):
        raise ValueError(
            f"{parameter(name, getattr(settings, name))} is for files, and these are texts in memory; remove it"
        )
    if isinstance(texts, str):
        raise ValueError("texts is one string; use a list of them, or read a file with unmix.read")
    if samples is None and isinstance(texts, pd.Series) and not isinstance(texts.index, pd.RangeIndex):
        samples = texts.index
    found = text.from_memory(list(texts), settings, dictionary, metadata)
    _refuse_text_options(settings, found)
    if samples is not None:
        found.samples = [str(name) for name in np.asarray(samples, dtype=object).ravel().tolist()]
    counts = _settled(found)
    for note in found.notes:
        warn(note)
    return counts


def is_shards(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds shards, perhaps unfinished ones."""
    return any((Path(path) / name).is_file() for name in (MANIFEST, JOURNAL))


def memory_for(path: str | os.PathLike[str], **asked: Any) -> float | None:
    """About how many bytes a fit of this file takes if it is read as a whole; None where only reading it would tell. The
    options are those of `read`. Of text it is known by experience."""
    path = existing(path)
    try:
        reader, files = _reader(path), text.text_files(path) if path.is_dir() else [path]
        if reader.kind not in SIZE_KNOWN and "encoding" in reader.options:
            sizes = (file.stat().st_size * (GZIPPED if file.suffix.lower() == ".gz" else 1) for file in files)
            return BYTES_PER_NONZERO * sum(sizes) / BYTES_PER_COUNT
        if reader.kind not in SIZE_KNOWN:
            return None
        matrix = load(path, ReadOptions(**asked)).matrix
    except (ValueError, OSError, MemoryError, KeyError):
        return None  # `read` will say what is wrong
    nonzeros = getattr(matrix, "nonzeros", None)
    return None if nonzeros is None else float(BYTES_PER_NONZERO * nonzeros)


def ending_of(path: str | os.PathLike[str]) -> str | None:
    """Which of the known endings this file's name has, such as ".csv.gz"; None for a folder."""
    path = Path(path)
    return None if path.is_dir() else _known_ending(path.name)


def name_of(path: str | os.PathLike[str]) -> str:
    """A file's name without its known ending, a folder's whole name but for ".shards": "counts.csv.gz" is "counts". What
    Cell Ranger calls the same for everyone ("filtered_feature_bc_matrix", "hg19") is called by the folder it is in."""
    path = Path(path)
    ending = ending_of(path)
    own = path.resolve().name.removesuffix(".shards") if ending is None else path.name[: -len(ending)] or path.name
    of_tenx = ending in (".h5", ".mtx", ".mtx.gz") or (path.is_dir() and cells.holds_matrix(path))
    return writable_name(cells.told_name(path.resolve(), own) if of_tenx else own)


def kind_of(path: str | os.PathLike[str]) -> str:
    """What a file or folder is, in a few words; the matrix in it is not read."""
    path = existing(path)
    with errors_about(path):
        reader = _reader(path)
        return "TSV table" if reader.load is text.read_txt and text.is_table(path) else reader.kind


def contents(path: Path) -> tuple[dict[str, str], list[str]]:
    """Of a file of several matrices: each with its size and what its values look like, and the columns of the metadata."""
    load = _reader(path).load
    if load in (cells.read_h5ad, cells.read_h5mu):
        return cells.contents(path)
    return rds.contents(path) if load is rds.read_rds else ({}, [])


def existing(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; check the name and the folder")
    if not path.is_dir():
        with errors_about(path):
            require_file(path)
    return path


def _known_ending(name: str) -> str | None:
    return next((ending for ending in READERS if name.lower().endswith(ending)), None)


def load(path: Path, options: ReadOptions) -> RawCounts:
    """What is in a file or folder, the way round that was asked for."""
    reader = _reader(path)
    for name in options.given(*BY_FORMAT):
        if name not in reader.options:
            what = "a folder" if path.is_dir() else f"a {ending_of(path)} file"
            raise ValueError(f"{parameter(name, getattr(options, name))} does not apply to {what}; remove it")
    raw = reader.load(path, options)
    if raw.bare and options.transpose:
        raw = raw.transposed()
    if raw.bare:
        add_neighbours(raw, path)
    _refuse_text_options(options, raw)
    return raw


def _reader(path: Path) -> Reader:
    """How to read a folder, by what is in it, or a file, by its ending."""
    if path.is_dir():
        return _folder_reader(path)
    if (ending := _known_ending(path.name)) is None:
        if path.suffix.lower() in PICKLES:
            raise ValueError(
                "unmix never reads pickles, which can run code; save the matrix as .npz, or the table as .csv"
            )
        known = (f"{ending}[.gz]" if ending in COMPRESSED else ending for ending in READERS if ".gz" not in ending)
        remedy = OTHER_ENDINGS.get(path.suffix.lower(), "rename tables to .csv or .tsv, and text to .txt")
        raise ValueError(
            f"unknown kind of file; {remedy}. unmix reads {', '.join(known)}, and folders of .txt or of 10x"
        )
    return READERS[ending]


def _folder_reader(path: Path) -> Reader:
    """Shards, files of 10x, a store of zarr, or texts."""
    if is_shards(path):
        return Reader("folder of shards", _refuse_shards, frozenset())
    if (files := cells.folder_of(path)) is not None:
        return Reader(f"10x folder (v{files.version})", lambda path, options: cells.read_folder(files), frozenset())
    if cells.is_zarr(path):
        return Reader("AnnData store (zarr)", cells.read_h5ad, READERS[".h5ad"].options)
    if (path / "model.safetensors").is_file():
        raise ValueError("a fit's folder, not counts; use the file or folder that the fit was made from")
    others = sorted(
        name for name in os.listdir(path) if (known := _known_ending(name)) and not known.startswith(".txt")
    )
    texts = [file for file in text.text_files(path) if not (others and file.name == FEATURES_FILE)]
    if len(texts) > len(others):
        kind = f"folder of {len(texts):,} text file{'s' * (len(texts) > 1)}"
        return Reader(kind, lambda path, options: text.read_text_folder(path, texts, options), FOLDER)
    if others:
        raise ValueError(f"a folder; use one of the files in it: {listed(others)}")
    kind = "a folder" if (ending := _known_ending(path.name)) is None else f"a folder, not a {ending} file,"
    raise ValueError(f"{kind} with nothing that unmix reads; it reads folders of .txt files and those of 10x")


def _refuse_shards(path: Path, options: ReadOptions) -> RawCounts:
    raise ValueError("holds shards already; open them with um.Shards or um.read")


def _refuse_text_options(options: ReadOptions, raw: RawCounts) -> None:
    """How to count words can only be said of texts, and not if a model says it already."""
    given = options.given(*OF_TEXTS)
    if raw.text is None:
        for name in [*given, *options.given("id_column", "title_column", "snippets")]:
            raise ValueError(f"{parameter(name)} is for texts, and these are counts; remove it")
    given = [name for name in given if name != "tokenizer"]  # of which a model has the name alone
    if given and options.like is not None:
        raise ValueError(f"{parameter(given[0])}: the model determines how words are counted; remove it")
    if options.transpose is not None and raw.text is not None:
        raise ValueError(f"{parameter('transpose')} is for counts, and these are texts; remove it")


# Catalogues of known factors, such as COSMIC's signatures: a table features × factors, as a DataFrame or a text file.

TRINUCLEOTIDE = re.compile(r"[ACGT][CT][ACGT]")


def read_catalogue(catalogue: pd.DataFrame | str | os.PathLike[str]) -> pd.DataFrame:
    """Features × factors, with the names of both. A file ends in .csv, or its columns are divided by tabs.

    Of the columns those that are not numbers name the features: one, or a substitution and its trinucleotide, C>A and ACA.
    """
    if isinstance(catalogue, pd.DataFrame):
        table, where = catalogue, "the catalogue"
        numeric = [pd.api.types.is_numeric_dtype(column) for _, column in table.items()]
        if any(numeric) and not all(numeric):
            table = _with_named_rows(table, where)
    else:
        where = str(catalogue)
        if not Path(catalogue).is_file():
            raise ValueError(f"{where}: no such file; use a catalogue, a table of features × factors")
        table = pd.read_csv(catalogue, sep="," if Path(catalogue).suffix.lower() == ".csv" else "\t")
        table = _with_named_rows(table, where)
    if not len(table) or not len(table.columns):
        raise ValueError(f"{where}: holds no table; use features × factors")
    for name, column in table.items():
        if not pd.api.types.is_numeric_dtype(column) or column.isna().any() or (column < 0).any():
            raise ValueError(f"{where}: the column {str(name)!r} has entries that are not numbers >= 0")
    table = table.set_axis([str(name) for name in table.index], axis=0).set_axis([str(name) for name in table], axis=1)
    if not table.index.is_unique:
        raise ValueError(
            f"{where}: two rows are called {table.index[table.index.duplicated()][0]!r}; names must be unique"
        )
    return table.astype(float)


def _with_named_rows(table: pd.DataFrame, where: str) -> pd.DataFrame:
    words = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    if len(words) == 2:
        change, around = (table[name].astype(str) for name in words)
        if around.map(lambda text: bool(TRINUCLEOTIDE.fullmatch(text))).all():
            names = [f"{bases[0]}[{one}]{bases[2]}" for one, bases in zip(change, around, strict=True)]
            return table.drop(columns=words).set_axis(names, axis=0)
    if len(words) > 1:
        raise ValueError(f"{where}: the column {str(words[1])!r} does not hold numbers; use features × factors")
    return table.set_index(words[0] if words else table.columns[0])
