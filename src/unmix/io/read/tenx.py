"""What 10x Genomics' Cell Ranger writes: a folder with a matrix, barcodes and features, or one `.h5` file.

The matrix is features × barcodes, so it is transposed. Gene symbols become the names. Where there are several types of
features, as with antibodies, only "Gene Expression" is kept, as scanpy does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from unmix.base.checks import parameter
from unmix.io.read.blocks import Blocks, Entries, csr_blocks
from unmix.io.read.files import first_line, lines_of, require_inside
from unmix.io.read.matrices import read_market
from unmix.io.read.raw_counts import RawCounts, ReadOptions, listed, require_numbers, require_plain
from unmix.io.read.stores import opened_hdf5

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
        raise ValueError(f"holds several matrices ({listed(matrices)}); put each into a folder of its own")
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
        raise ValueError(f"a 10x folder without {missing} (or .gz) beside {folder.matrix.name}")
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
    """Any MatrixMarket file; one that lies among the files of 10x is read with them."""
    if _ends(path.name, MATRIX) and options.transpose is None:
        folder = folder_of(path.parent, _prefix(path.name, MATRIX))
        if folder is not None and folder.barcodes is not None and folder.features is not None:
            raw = read_folder(folder._replace(matrix=path.resolve()))
            raw.notes.insert(0, f"read as 10x, features × barcodes, with {listed([folder.barcodes.name])} beside it")
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
    """The genes among the features; where the types of all are known, others are left out."""
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
        raw.notes.append(f"features of type {listed(others)} are left out; {len(kept):,} of Gene Expression stay")
    return raw
