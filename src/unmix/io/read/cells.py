"""Single cells: what Cell Ranger of 10x Genomics writes, a folder or one `.h5` file; and AnnData, in `.h5ad` or zarr."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.memory import require
from unmix.counts.counts import are_counts, chosen, elsewhere
from unmix.io.options import ReadOptions, listed
from unmix.io.read.blocks import NONZEROS, ROWS, SMALLER, Blocks, Entries, csr_blocks
from unmix.io.read.files import extra, first_line, lines_of, opened_hdf5, opened_zarr, require_inside
from unmix.io.read.matrices import read_market
from unmix.io.read.raw_counts import RawCounts, require_numbers, require_plain

# 10x: the matrix is features × barcodes, so it is transposed. Gene symbols become the names. Where there are several types of
# features, as with antibodies, only "Gene Expression" is kept, as scanpy does.

MATRIX, BARCODES, FEATURES, GENES = "matrix.mtx", "barcodes.tsv", "features.tsv", "genes.tsv"
EXPRESSION = "Gene Expression"
# What Cell Ranger calls the same for everyone, and genomes, the folders of which lie inside.
GENERIC = re.compile(
    r"((sample_)?(filtered|raw)_)?(feature|gene|peak)s?_bc_matri(x|ces)(_h5)?|matrix|outs|count|hg\d+|GRC[hm]\d+\w*|mm\d+",
    re.IGNORECASE,
)
T = TypeVar("T")


class Folder(NamedTuple):
    """The three files of a 10x folder; the features of version 2 are called genes. None where one is missing."""

    matrix: Path
    barcodes: Path | None
    features: Path | None

    @property
    def version(self) -> int:
        return 2 if self.features is not None and GENES in self.features.name.lower() else 3


def folder_of(place: Path, prefix: str | None = None) -> Folder | None:
    """The 10x files in a folder, perhaps compressed and with a prefix that is the same for all; None if it has none."""
    names = sorted(entry.name for entry in place.iterdir() if entry.is_file())
    matrices = [name for name in names if _ends(name, MATRIX) and prefix in (None, _prefix(name, MATRIX))]
    if not matrices:
        return None
    prefixes = {_prefix(name, MATRIX) for name in matrices}
    if len(prefixes) > 1:
        raise ValueError(f"holds several matrices ({listed(matrices)}); put each into a separate folder")
    (same,) = prefixes

    def one(*endings: str) -> Path | None:
        fitting = (name for ending in endings for name in names if _ends(name, ending))
        return next((place / name for name in fitting if name.startswith(same)), None)

    return Folder(place / matrices[0], one(BARCODES), one(FEATURES, GENES))


def _ends(name: str, ending: str) -> bool:
    return name.lower().endswith((ending, f"{ending}.gz"))


def _prefix(name: str, ending: str) -> str:
    return name[: name.lower().rindex(ending)]


def holds_matrix(place: Path) -> bool:
    return any(_ends(entry.name, MATRIX) for entry in place.iterdir())


def told_name(path: Path, own: str) -> str:
    """What to call a matrix of 10x: by its own name, or by the nearest folder above that has one of its own."""
    if not GENERIC.fullmatch(own):
        return own
    return next((above.name for above in path.parents if above.name and not GENERIC.fullmatch(above.name)), own)


def read_folder(folder: Folder) -> RawCounts:
    if folder.barcodes is None or folder.features is None:
        missing = BARCODES if folder.barcodes is None else f"{FEATURES} or {GENES}"
        raise ValueError(f"a 10x folder without {missing} (or .gz) next to {folder.matrix.name}")
    barcodes = [line.split("\t")[0] for line in _loaded(folder.barcodes, lines_of)]
    features = [line.split("\t") for line in _loaded(folder.features, lines_of)]
    matrix = _loaded(folder.matrix, read_market)
    symbols = [cells[1] if len(cells) > 1 else cells[0] for cells in features]
    types = [cells[2] for cells in features if len(cells) > 2]
    return _gene_expression(replace(matrix, entries=lambda: _named(folder.matrix, matrix)).T, barcodes, symbols, types)


def _named(file: Path, matrix: Blocks) -> Iterator[Entries]:
    """The entries in one of several files; an error says in which."""
    assert matrix.entries is not None
    with _errors_in(file):
        yield from matrix.entries()


def read_mtx(path: Path, options: ReadOptions) -> RawCounts:
    """Any MatrixMarket file; one that is among the files of 10x is read with them."""
    if _ends(path.name, MATRIX) and options.transpose is None:
        folder = folder_of(path.parent, _prefix(path.name, MATRIX))
        if folder is not None and folder.barcodes is not None and folder.features is not None:
            raw = read_folder(folder._replace(matrix=path.resolve()))
            raw.notes.insert(0, f"read as 10x, features × barcodes, with {listed([folder.barcodes.name])}")
            return raw
    return RawCounts(read_market(path), bare=True)


def _loaded(file: Path, load: Callable[[Path], T]) -> T:
    with _errors_in(file):
        require_inside(file.parent, file)
        return load(file)


@contextmanager
def _errors_in(file: Path) -> Iterator[None]:
    """Errors say in which of several files they are."""
    try:
        yield
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{file.name}: {first_line(error)}") from error


def read_h5(path: Path, options: ReadOptions) -> RawCounts:
    with opened_hdf5(path, "10x") as file:
        return _read_group(_matrix_group(file, options.layer), path)


def _matrix_group(file: Any, genome: str | None) -> Any:
    """`matrix` since version 3; before, a group for each genome."""
    if "matrix" in file and "barcodes" in file["matrix"]:
        if genome is not None:
            raise ValueError(f"{parameter('layer', genome)}: a 10x file of version 3 has one matrix; leave layer out")
        return file["matrix"]
    genomes = [name for name, group in file.items() if hasattr(group, "keys") and {"barcodes", "genes"} <= {*group}]
    if not genomes:
        raise ValueError(f"no 10x matrix in it (no group 'matrix'; it has {listed(file) or 'nothing'})")
    if genome is None and len(genomes) > 1:
        raise ValueError(f"holds several genomes: {listed(genomes)}; choose one with {parameter('layer', genomes[0])}")
    if genome is not None and genome not in genomes:
        raise ValueError(f"no genome {genome!r} in it; there is {listed(genomes)}")
    return file[genome or genomes[0]]


def _read_group(group: Any, path: Path) -> RawCounts:
    """The counts of a group, which are read from the file later."""
    known = group.get("features", group)
    names = known["name"] if "name" in known else known["gene_names"]
    barcodes, types = group["barcodes"], known.get("feature_type")
    require_plain([group["shape"], barcodes, names, *([] if types is None else [types])], "its names")
    m, n = (int(size) for size in group["shape"][:])
    data, indices, indptr = group["data"], group["indices"], group["indptr"]
    require_numbers([data, indices, indptr])
    if len(indptr) != n + 1 or len(data) != len(indices):
        raise ValueError(
            f"the shape {m:,} × {n:,} does not go with {len(indptr):,} starts of columns, {len(indices):,} indices "
            f"and {len(data):,} values"
        )
    texts = _strings(barcodes), _strings(names), [] if types is None else _strings(types)
    return _gene_expression(stored_rows(lambda: opened_hdf5(path, "10x"), group, (n, m)), *texts)


def stored_rows(opened: Callable[[], AbstractContextManager[Any]], group: Any, shape: tuple[int, int]) -> Blocks:
    """The CSR matrix of a group, whose file is opened whenever rows are asked for."""
    place = group.name

    def read(start: int) -> Iterator[Any]:
        with opened() as file:
            arrays = file[place]
            require_plain([arrays["indptr"]], "the starts of its rows")
            yield from csr_blocks(shape, arrays["indptr"][:], arrays["indices"], arrays["data"], start)

    return Blocks(shape, max(group["data"].shape[0], group["indices"].shape[0]), read)


def _strings(dataset: Any) -> list[str]:
    return [
        value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value) for value in dataset[:]
    ]


def _gene_expression(matrix: Blocks, barcodes: list[str], symbols: list[str], types: list[str]) -> RawCounts:
    """The genes among the features; where the types of all are known, others are omitted."""
    n, m = matrix.shape
    for names, size, what in ((barcodes, n, "barcodes"), (symbols, m, "features")):
        if len(names) != size:
            raise ValueError(f"{len(names):,} {what} for a matrix of {size:,}; the files do not belong together")
    raw = RawCounts(matrix, barcodes, symbols)
    others = sorted(set(types) - {EXPRESSION})
    if len(types) == m and EXPRESSION in types and others:
        kept = np.flatnonzero(np.array(types) == EXPRESSION)
        raw.matrix = matrix.columns(kept)
        raw.features = [symbols[j] for j in kept]
        raw.notes.append(f"features of type {listed(others)} are omitted; {len(kept):,} of Gene Expression stay")
    return raw


# AnnData in files: of a `.h5ad`, or a store of zarr, only the matrix asked for, obs and the names of var are read.

SAMPLE = 10_000  # values by which to distinguish counts from what was normalised
WIDEST = 1 << 20  # features that are looked at for that
LOOM_GENES = ("Gene", "var_names", "gene", "Accession")  # names of names
LOOM_CELLS = ("CellID", "obs_names", "cell_id", "Barcode")
# What anndata writes for a column; a name that another package has registered would run its reader.
COLUMNS = ("array", "string-array", "categorical", "nullable-integer", "nullable-boolean", "nullable-string-array")


# AnnData files from before version 0.7 of anndata, which wrote them in a different form.
#
# obs and var are arrays of records, whose field `index` has the names; categories of obs lie in uns as `<column>_categories`;
# a sparse matrix says what it is in `h5sparse_format` and `h5sparse_shape`; raw is in `raw.X` and `raw.var`.


def is_old(frame: Any) -> bool:
    """Whether obs or var is an array of records."""
    return not hasattr(frame, "keys")


def names_of(frame: Any) -> list[str]:
    """The names in obs or var."""
    fields = frame.dtype.names or ()
    if not fields:
        raise ValueError("its obs or var is no table; it may be damaged")
    return [str(name) for name in _plain(frame["index" if "index" in fields else fields[0]])]


def table_of(frame: Any, uns: Any) -> pd.DataFrame:
    """obs with its categories, by the names of the samples."""
    fields = [name for name in frame.dtype.names if name not in ("index", frame.dtype.names[0])]
    columns = {name: _column(frame[name], name, uns) for name in fields}
    return pd.DataFrame(columns, index=pd.Index(names_of(frame), dtype=object))


def _column(values: NDArray, name: str, uns: Any) -> Any:
    plain = _plain(values)
    place = f"{name}_categories"
    if place not in uns or plain.dtype.kind not in "iu":
        return plain
    known = [str(level) for level in np.atleast_1d(_plain(uns[place][()]))]
    return pd.Categorical.from_codes(plain.astype(np.int64), known)


def _plain(values: Any) -> NDArray:
    """Numbers as they are, bytes as text."""
    array = np.atleast_1d(np.asarray(values))
    if array.dtype.kind not in "SO":
        return array
    return np.array([cell.decode() if isinstance(cell, bytes) else cell for cell in array.tolist()], dtype=object)


def form_of(element: Any) -> tuple[str, tuple[int, int]]:
    """'csr' or 'csc', and the shape, of a sparse matrix that an AnnData file of any age holds."""
    told = element.attrs
    kind = str(told.get("encoding-type", told.get("h5sparse_format", ""))).removesuffix("_matrix")
    if kind not in ("csr", "csc"):
        raise ValueError(f"its matrix is of kind {kind!r}, which unmix does not know")
    n, m = (int(size) for size in (told["shape"] if "shape" in told else told["h5sparse_shape"]))
    return kind, (n, m)


def read_h5mu(path: Path, options: ReadOptions) -> RawCounts:
    """One of the modalities of a MuData file, each of which is an AnnData: `layer` is its name, or "rna/counts"."""
    with opened_hdf5(path, "MuData") as file:
        names = [str(name) for name in file.get("mod", ())]
    default = "rna" if "rna" in names else names[0] if len(names) == 1 else ""
    modality, _, layer = (options.layer or default).partition("/")
    if modality not in names:
        asked = f"no modality {modality!r} in it" if modality else "holds several modalities" if names else "holds none"
        remedy = f"choose one with {parameter('layer', 'NAME')}, or one of its layers with {parameter('layer', 'NAME/counts')}"
        raise ValueError(f"{asked}; there is {listed(names) or 'no group mod'}: {remedy}")
    raw = read_h5ad(path, replace(options, layer=layer or None), f"mod/{modality}")
    raw.reading = f"modality {modality!r}"
    return raw


def read_h5ad(path: Path, options: ReadOptions, place: str = "") -> RawCounts:
    """The matrix that is asked for, which is read later, with the names of var and obs; of the AnnData at a place of the
    file."""
    extra("anndata", f"reading {path.suffix.lower()}")
    from anndata.io import read_elem

    with opened_anndata(path) as whole:
        file = whole[place] if place else whole
        matrices = _matrices(file)
        name = chosen(matrices, options.layer, options.raw)
        obs, variables = file["obs"], file["var"]
        if options.raw:
            variables = file["raw/var" if "raw/var" in file else "raw.var"]
        note = _not_counts(name, matrices)
        _require_table(variables, "var", whole=False)
        _require_table(obs, "obs", whole=True)
        metadata = table_of(obs, file.get("uns", ())) if is_old(obs) else read_elem(obs)
        samples, metadata = metadata.index.tolist(), metadata.reset_index(drop=True)
        matrix = _blocks(path, matrices[name])
        return RawCounts(matrix, samples, _names(variables), metadata, notes=[note] if note else [])


@contextmanager
def opened_anndata(path: Path) -> Iterator[Any]:
    """A .h5ad file or a store of zarr, which are asked alike."""
    with opened_zarr(path) if path.is_dir() else opened_hdf5(path, "AnnData") as file:
        yield file


def is_zarr(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("zarr.json", ".zgroup"))


def _require_table(frame: Any, what: str, *, whole: bool) -> None:
    """Refuse obs or var unless its names, or all its columns, are in it, are of kinds that are known, and fit into memory."""
    if is_old(frame):
        return require_plain([frame], what)
    there = set(frame.keys())
    columns = [frame.attrs["_index"], *(frame.attrs["column-order"] if whole else ())]
    if lost := [str(name) for name in columns if not (isinstance(name, str) and name in there)]:
        raise ValueError(f"{what} has no column {lost[0]!r}, which it announces; write the file again")
    for name in columns:
        if (kind := frame[name].attrs.get("encoding-type", "array")) not in COLUMNS:
            raise ValueError(f"{what}/{name} is of kind {kind!r}; unmix reads {', '.join(COLUMNS)}")
    require_plain([array for name in columns for array in _arrays_in(frame[name])], what)
    return None


def _arrays_in(column: Any) -> list[Any]:
    """Those that make up a column, such as the codes and the categories."""
    return [column[name] for name in column] if _is_sparse(column) else [column]


def _names(frame: Any) -> list[str]:
    """The names in obs or var."""
    from anndata.io import read_elem

    return names_of(frame) if is_old(frame) else read_elem(frame[frame.attrs["_index"]]).tolist()


def contents(path: Path) -> tuple[dict[str, str], list[str]]:
    """What a file holds, without reading more than a little: each matrix with its size and what its values look like, and the
    columns of obs."""
    with opened_anndata(path) as file:
        places = {f"{name}: ": one for name, one in file.get("mod", {}).items()} or {"": file}
        told = {
            f"{modality}{name}": _described(element)
            for modality, one in places.items()
            for name, element in _matrices(one).items()
        }
        obs = file["obs"]
        columns = list(obs.dtype.names or ()) if is_old(obs) else list(obs.attrs.get("column-order", obs.keys()))
    return told, [str(name) for name in columns if name not in ("index", "_index")]


def _described(element: Any) -> str:
    n, m = form_of(element)[1] if _is_sparse(element) else element.shape
    values = _values(element)
    if not values.size or values.dtype.kind not in "iuf":
        look = "no numbers"
    elif are_counts(values):
        look = "whole numbers: counts"
    else:
        look = "negative numbers: scaled, no counts" if (values < 0).any() else "fractions: normalised, no counts"
    return f"{n:,} × {m:,}, {look}"


def read_loom(path: Path, options: ReadOptions) -> RawCounts:
    """`matrix` or a layer, genes × cells, with an attribute of rows and one of columns as names, and the others of columns."""
    with opened_hdf5(path, "loom") as file:
        if not {"matrix", "row_attrs", "col_attrs"} <= {*file}:
            raise ValueError(
                f"no loom file (it needs matrix, row_attrs and col_attrs; it has {listed(file) or 'nothing'})"
            )
        matrices = {"X": file["matrix"]} | {f"layer {name!r}": file["layers"][name] for name in file.get("layers", ())}
        name = chosen(matrices, options.layer, False)
        element, note = matrices[name], _not_counts(name, matrices)
        require_numbers([element])
        m, n = (int(size) for size in element.shape)
        genes, cells = _named_by(file["row_attrs"], m, LOOM_GENES), _named_by(file["col_attrs"], n, LOOM_CELLS)
        others = ((key, one) for key, one in file["col_attrs"].items() if cells is None or one != cells)
        about = {key: one for key, one in others if getattr(one, "shape", ()) == (n,)}
        require_plain([*(one for one in (genes, cells) if one is not None), *about.values()], "its names")
        features, samples = (None if one is None else _strings(one) for one in (genes, cells))
        metadata = pd.DataFrame({key: _plain(one[:]) for key, one in about.items()})
        matrix = _dense(lambda: opened_hdf5(path, "loom"), element, turned=True)
        return RawCounts(matrix, samples, features, metadata, notes=[note] if note else [])


def _named_by(attributes: Any, size: int, usual: tuple[str, ...]) -> Any:
    return next((attributes[name] for name in usual if name in attributes and attributes[name].shape == (size,)), None)


def _dense(opened: Callable[[], AbstractContextManager[Any]], element: Any, *, turned: bool = False) -> Blocks:
    """A dense matrix of a file, or its transpose, some rows at a time."""
    n, m = (int(size) for size in (element.shape[::-1] if turned else element.shape))
    place, step = element.name, max(1, min(ROWS, NONZEROS // max(1, m)))

    def read(start: int) -> Iterator[NDArray]:
        with opened() as file:
            for first in range(start, n, step):
                some = slice(first, min(first + step, n))
                yield file[place][:, some].T if turned else file[place][some]

    return Blocks((n, m), None, read, size=2.0 * element.size * element.dtype.itemsize)


def _blocks(path: Path, element: Any) -> Blocks:
    """A matrix of a file, block by block: rows as they lie there, columns sorted into rows."""
    require_numbers([element[name] for name in ("data", "indices", "indptr")] if _is_sparse(element) else [element])
    if _is_sparse(element):
        kind, (n, m) = form_of(element)
        rows = stored_rows(lambda: opened_anndata(path), element, (n, m) if kind == "csr" else (m, n))
        return rows if kind == "csr" else rows.T
    return _dense(lambda: opened_anndata(path), element)


def _matrices(file: Any) -> dict[str, Any]:
    """The matrices in a file by the words for them: X, layer 'counts', raw."""
    matrices = {"X": file["X"]} if "X" in file and file["X"].attrs.get("encoding-type") != "null" else {}
    matrices |= {f"layer {name!r}": file["layers"][name] for name in file.get("layers", ())}
    raw = next((file[place] for place in ("raw/X", "raw.X") if place in file), None)
    return matrices | ({} if raw is None else {"raw": raw})


def _is_sparse(element: Any) -> bool:
    return hasattr(element, "keys")


def _values(element: Any) -> NDArray:
    """Some of the values, from the beginning of a matrix."""
    array = element["data"] if _is_sparse(element) else element
    if array.dtype.kind not in "biuf":
        return np.zeros(0)
    require(math.prod(array.chunks or ()) * array.dtype.itemsize, f"a chunk of {array.name}", SMALLER)
    rows = SAMPLE if array.ndim == 1 else max(1, SAMPLE // max(1, array.shape[-1]))
    return array[(slice(rows), slice(WIDEST))[: array.ndim]]


def _not_counts(name: str, matrices: dict[str, Any]) -> str:
    """What is wrong with the values of a matrix, and which other one in the file holds counts; empty if nothing is."""
    values = _values(matrices[name])
    if not values.size or values.dtype.kind not in "iuf" or are_counts(values):
        return ""
    negative = bool((values < 0).any())
    problem = f"{name} holds {'negative numbers, probably scaled' if negative else 'fractions, probably normalised'}"
    problem += elsewhere(matrices, name, _values)
    if negative:
        raise ValueError(f"{problem}; unmix needs counts >= 0")
    return problem
