"""R's `.rds` files: matrices, data frames, Seurat objects and SingleCellExperiments.

The package rdata turns the bytes into a tree of vectors with attributes; slots of S4 objects are attributes, too. Nothing in it
is run. What is read here: Matrix's sparse classes, matrices of R, data frames, lists of matrices, Seurat objects with assays of
version 3 to 5, and SummarizedExperiment with its heirs. Objects of single cells are features × cells, and are transposed.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.checks import parameter
from unmix.base.memory import require
from unmix.counts.counts import are_counts, elsewhere
from unmix.io.options import ReadOptions, listed
from unmix.io.read.blocks import Blocks, csr_blocks, slices
from unmix.io.read.files import extra, require_file, unless_damaged
from unmix.io.read.names import rows_are_features
from unmix.io.read.raw_counts import RawCounts
from unmix.io.read.tables import Table, from_table

AGAIN = "write it again in R with saveRDS(object, file)"
DENSE = "convert it in R with as(x, 'CsparseMatrix') and write it again"
OPENERS = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
LARGE = STEP = 1 << 20  # bytes: of an array whose space is checked, and after how many of a file free memory is
SPARE = 1 << 27  # bytes that must be free all the time
SAMPLE = 10_000  # values by which to distinguish counts from what was normalised
REPEATED = 1 << 20  # parts of a function that come again, for which rdata makes space at once
COUNTS = "counts"
SEQUENCES = (b"compact_intseq", b"compact_realseq")
NUMBERS = ("INT", "REAL", "LGL")
OF_FRAMES = "layout", "long_columns", "metadata_columns", "text_column", "id_column", "title_column", "snippets"


def read_rds(path: Path, options: ReadOptions) -> RawCounts:
    thing = _parsed(path)
    with unless_damaged(f"an R object that unmix cannot make sense of ({{}}); {AGAIN}", ValueError, MemoryError):
        if _is_frame(thing):
            _refuse(options, "a data frame", "layer")
            header, table, named = _table(thing)
            return from_table(Table(lambda texts: iter([(header, table)]), named or None), options)
        what = _class(thing) or thing.info.type.name
        _refuse(options, f"an R object of class {what}", *OF_FRAMES)
        if _is_matrix(thing):
            _refuse(options, "a matrix", "layer")
            return _alone(_matrix(thing), options)
        matrices, metadata = _contents(thing)
        if not matrices:
            raise ValueError(f"an R object of class {what} without a matrix; unmix reads matrices, data frames, Seurat objects "
                             "and SingleCellExperiments")  # fmt: skip
        if thing.info.type.name == "VEC":
            return _alone(_matrix(matrices[_chosen(matrices, options.layer)].thing), options)
        _refuse(options, f"an R object of class {what}", "transpose")
        name = _chosen(matrices, options.layer)
        matrix = matrices[name].read()
        if metadata is not None and matrix.columns is not None and metadata.index.dtype == object:
            metadata = metadata.reindex(matrix.columns)
        elif metadata is not None and len(metadata) != matrix.blocks.shape[0]:
            metadata = None
        raw = RawCounts(
            matrix.blocks, matrix.columns, matrix.rows, None if metadata is None else metadata.reset_index(drop=True)
        )
        if (values := matrices[name].values()).size and not are_counts(values):
            found = elsewhere({f"layer {key!r}": one for key, one in matrices.items()}, f"layer {name!r}", Layer.values)
            raw.notes.append(f"{name} holds numbers that are not counts, probably normalised{found}")
        raw.reading = f"{what}, {name}"
        return raw


def contents(path: Path) -> tuple[dict[str, str], list[str]]:
    """The matrices of an object of several, each with its size and what its values look like, and the columns of its
    metadata."""
    thing = _parsed(path)
    if _is_frame(thing) or _is_matrix(thing):
        return {}, []
    matrices, metadata = _contents(thing)
    return {name: one.described() for name, one in matrices.items()}, [] if metadata is None else [*map(str, metadata)]


# The tree


def _parsed(path: Path) -> Any:
    """The object in a file, if it is whole and fits into memory."""
    extra("rdata", "reading .rds")
    xdr = extra("rdata.parser._xdr", "reading .rds")
    from rdata.parser import DEFAULT_ALTREP_MAP

    class Parser(xdr.ParserXDR):  # type: ignore[name-defined]
        """Reads from a stream, and refuses lengths for which there is no space."""

        def __init__(self, file: Stream) -> None:
            known = {
                name: _checked_sequence(made) if name in SEQUENCES else made
                for name, made in DEFAULT_ALTREP_MAP.items()
            }
            super().__init__(memoryview(b""), expand_altrep=True, altrep_constructor_dict=known)
            self.file = file

        def _parse_bytecode(self, reference_list: Any, bytecode_rep_list: Any = None) -> Any:
            if bytecode_rep_list is not None:
                return super()._parse_bytecode(reference_list, bytecode_rep_list)
            repeated = self.parse_int()
            if repeated > REPEATED:
                raise ValueError(f"a function of {repeated:,} parts")
            self.file.unread(repeated)
            return super()._parse_bytecode(reference_list)

    require_file(path)
    with path.open("rb") as file:
        opener = OPENERS.get(file.read(2))
    complaint = f"not a readable .rds file ({{}}); it may be cut short: {AGAIN}"
    with unless_damaged(complaint, RefusedError, MemoryError), (opener or open)(path, "rb") as file:  # type: ignore[operator]
        start = file.read(2)
        if start == b"RD":
            raise RefusedError("an .RData file, which save() writes; write one object in R with saveRDS(object, file)")
        if start != b"X\n":
            raise RefusedError(f"not a file that saveRDS writes by default (it begins with {start!r}); {AGAIN}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _resolved(Parser(Stream(file)).parse_all().object)


class RefusedError(ValueError):
    """What is wrong is known."""


class Stream:
    """Bytes of a file, as many as are asked for or an error; free memory is looked at on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.seen, self.pending = file, 0, b""

    def read(self, size: int) -> bytes:
        if self.pending:
            again, self.pending = self.pending, b""
            return again
        if size < 0:
            raise ValueError("a negative length")
        if size > LARGE:
            _require(3 * size, "an array in it")
        found = self.file.read(size)
        if len(found) < size:
            raise EOFError(f"it ends {size - len(found):,} bytes too early")
        self.seen += size
        if self.seen > STEP:
            self.seen = 0
            _require(SPARE, "what is in it")
        return found

    def unread(self, number: int) -> None:
        """The next four bytes are those of this number."""
        self.pending = number.to_bytes(4, "big", signed=True)


def _require(needed: float, what: str) -> None:
    try:
        require(needed, what, "remove from the object what is not needed, such as DietSeurat does, and write it again")
    except ValueError as error:
        raise RefusedError(str(error)) from None


def _checked_sequence(made: Any) -> Any:
    """1:n is three numbers in a file."""

    def checked(state: Any) -> Any:
        _require(40 * float(state.value[0]), "a sequence in it")
        return made(state)

    return checked


def _resolved(thing: Any) -> Any:
    while thing.info.type.name == "REF":
        thing = thing.referenced_object
    return thing


def _pairs(place: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of a pairlist."""
    while place is not None and place.info.type.name == "LIST":
        if place.tag is not None:
            yield _text(_resolved(place.tag).value), _resolved(place.value[0])
        place = place.value[1]


def _attributes(thing: Any) -> dict[str, Any]:
    return dict(_pairs(thing.attributes))


def _text(char: Any) -> str:
    """Of a CHAR; its flags say whether it is Latin-1 (gp & 4)."""
    if char.value is None:
        return ""
    return bytes(char.value).decode("latin-1" if char.info.gp & 4 else "utf-8", "backslashreplace")


def _texts(thing: Any) -> list[str] | None:
    return [_text(one) for one in thing.value] if thing is not None and thing.info.type.name == "STR" else None


def _class(thing: Any) -> str:
    return (_texts(_attributes(thing).get("class")) or [""])[0]


def _list(thing: Any) -> dict[str, Any]:
    """A list by its names; of SimpleList and the like, what they hold."""
    own = _attributes(thing)
    if thing.info.type.name == "VEC":
        names = _texts(own.get("names")) or [str(i + 1) for i in range(len(thing.value))]
        return dict(zip(names, map(_resolved, thing.value), strict=True))
    if "listData" in own:
        return _list(own["listData"])
    if "data" in own:  # of Assays
        return _list(own["data"])
    if ".xData" in own:  # of older Assays, an environment
        space = own[".xData"].value
        buckets = space.hash_table.value or [] if space.hash_table.info.type.name == "VEC" else []
        held = dict(pair for place in [space.frame, *buckets] for pair in _pairs(place))
        return _list(held["data"])
    return {}


def _numbers(thing: Any) -> NDArray[Any]:
    """A vector; missing values are NaN."""
    if thing.info.type.name not in NUMBERS:
        raise ValueError(f"a vector of type {thing.info.type.name} where numbers should be")
    values = thing.value
    return np.ma.filled(values.astype(float), np.nan) if np.ma.isMaskedArray(values) else np.asarray(values)


# Data frames


def _is_frame(thing: Any) -> bool:
    return thing.info.type.name == "VEC" and "data.frame" in (_texts(_attributes(thing).get("class")) or [])


def _frame(columns: Mapping[str, Any], rows: list[str] | None, n: int) -> pd.DataFrame:
    """Columns of numbers, texts and factors; others are omitted."""
    found = {name: column for name, one in columns.items() if (column := _column(one)) is not None and len(column) == n}
    return pd.DataFrame(found, index=None if rows is None else pd.Index(rows, dtype=object))


def _column(thing: Any) -> Any:
    levels = _texts(_attributes(thing).get("levels"))
    if levels is not None and thing.info.type.name == "INT":
        codes = np.ma.filled(np.ma.asarray(thing.value), 0) - 1
        return pd.Categorical.from_codes(codes.astype(np.int64), levels)
    if thing.info.type.name == "STR":
        return np.array([None if one.value is None else _text(one) for one in thing.value], dtype=object)
    return _numbers(thing) if thing.info.type.name in NUMBERS else None


def _row_names(thing: Any) -> tuple[list[str] | None, int]:
    """Names of rows, and their number; those that R makes by itself are none."""
    names, columns = _attributes(thing).get("row.names"), list(_list(thing).values())
    if (texts := _texts(names)) is not None:
        return texts, len(texts)
    return None, len(columns[0].value) if columns else 0


def _table(thing: Any) -> tuple[list[str], pd.DataFrame, bool]:
    """As the tables of other formats: a header, columns by number, and whether the first has names."""
    rows, n = _row_names(thing)
    frame = _frame(_list(thing), None, n)
    if frame.empty:
        raise ValueError("a data frame without cells; unmix needs one row per sample")
    frame = frame.apply(lambda column: column.astype(object) if column.dtype == "category" else column)
    header = [*([""] if rows is not None else []), *map(str, frame.columns)]
    columns = [*([pd.Series(rows, dtype=object)] if rows is not None else []), *(frame[name] for name in frame)]
    return header, pd.concat(columns, axis=1, ignore_index=True), rows is not None


# Matrices


class Matrix(NamedTuple):
    """A matrix of R by its columns, which are the rows of the blocks, and its names."""

    blocks: Blocks
    rows: list[str] | None
    columns: list[str] | None


class Layer(NamedTuple):
    """One of several matrices of an object, and the names of its rows and columns if the object has them."""

    thing: Any
    rows: list[str] | None = None
    columns: list[str] | None = None
    others: tuple[Layer, ...] = ()  # parts with cells of their own, together with which it is one matrix

    def read(self) -> Matrix:
        if self.others:
            return _joined([one.read() for one in (self._replace(others=()), *self.others)])
        blocks, rows, columns = _matrix(self.thing)
        rows, columns = self.rows or rows, self.columns or columns
        for names, size, what in ((columns, blocks.shape[0], "columns"), (rows, blocks.shape[1], "rows")):
            if names is not None and len(names) != size:
                raise ValueError(f"{len(names):,} names for {size:,} {what} of a matrix; {AGAIN}")
        return Matrix(blocks, rows, columns)

    def values(self) -> NDArray[Any]:
        """Some of its values."""
        own = _attributes(self.thing)
        held = own.get("x", self.thing if self.thing.info.type.name in NUMBERS else None)
        return np.zeros(0) if held is None else _numbers(held)[:SAMPLE]

    def described(self) -> str:
        n, m = _shape(self.thing)
        look = "whole numbers: counts" if are_counts(self.values()) else "not counts"
        return f"{m:,} × {n:,}, {look if self.values().size else 'no numbers'}" + (
            f", and {len(self.others)} more parts" if self.others else ""
        )


def _is_matrix(thing: Any) -> bool:
    return "Dim" in (own := _attributes(thing)) or (thing.info.type.name in NUMBERS and "dim" in own)


def _shape(thing: Any) -> tuple[int, int]:
    own = _attributes(thing)
    dim = _numbers(own["Dim"] if "Dim" in own else own["dim"]).tolist()
    if len(dim) != 2 or min(dim) < 0:
        raise ValueError(f"an array of {len(dim)} dimensions; unmix needs a matrix")
    return int(dim[0]), int(dim[1])


def _matrix(thing: Any) -> Matrix:
    own, (n, m), kind = _attributes(thing), _shape(thing), _class(thing)
    names = own.get("Dimnames", own.get("dimnames"))
    rows, columns = (None, None) if names is None or names.value is None else map(_texts, map(_resolved, names.value))
    by_column = "p" in own and "i" in own and kind[1:] == "gCMatrix"
    by_row = "p" in own and "j" in own and kind[1:] == "gRMatrix"
    if by_column or by_row:
        starts, places = _numbers(own["p"]), _numbers(own["i" if by_column else "j"])
        values = _numbers(own["x"]) if "x" in own else np.ones(len(places))
        shape = (m, n) if by_column else (n, m)
        blocks = Blocks(shape, len(values), lambda start: csr_blocks(shape, starts, places, values, start))
        return Matrix(blocks if by_column else blocks.T, rows, columns)
    if kind[1:] == "gTMatrix":
        i, j = _numbers(own["i"]).astype(np.int64), _numbers(own["j"]).astype(np.int64)
        x = _numbers(own["x"]).astype(float) if "x" in own else np.ones(len(i))
        if len({len(i), len(j), len(x)}) > 1 or (
            len(i) and (min(i.min(), j.min()) < 0 or i.max() >= n or j.max() >= m)
        ):
            raise ValueError(f"its indices do not lie in a matrix of {n:,} × {m:,}; {AGAIN}")
        return Matrix(Blocks((m, n), len(x), None, lambda: iter([(j, i, x)])), rows, columns)
    if "Dim" in own and kind != "dgeMatrix":
        raise ValueError(f"a matrix of class {kind or 'unknown'}, which unmix does not read; {DENSE}")
    values = _numbers(own["x"] if "Dim" in own else thing)
    if len(values) != n * m:
        raise ValueError(f"{len(values):,} values for a matrix of {n:,} × {m:,}; {AGAIN}")
    cells = values.reshape(m, n)  # R has columns one after the other
    return Matrix(Blocks((m, n), None, lambda start: slices(cells, m, start)), rows, columns)


def _joined(parts: list[Matrix]) -> Matrix:
    """Parts with the same or other features, one after the other; a feature that a part does not have has no counts there."""
    if any(part.rows is None or part.columns is None for part in parts):
        raise ValueError("its layers have no names to join them by; run JoinLayers in R")
    features = list(dict.fromkeys(name for part in parts for name in part.rows or ()))
    cells, place = [name for part in parts for name in part.columns or ()], {name: j for j, name in enumerate(features)}
    blocks = []
    for part in parts:
        found = sp.coo_array(part.blocks.whole())
        columns = np.array([place[name] for name in part.rows or ()], dtype=np.int64)[found.col]
        blocks.append(sp.csr_array((found.data, (found.row, columns)), shape=(found.shape[0], len(features))))
    whole = sp.vstack(blocks, format="csr")
    return Matrix(Blocks(whole.shape, whole.nnz, lambda start: slices(whole, len(cells), start)), features, cells)


def _alone(matrix: Matrix, options: ReadOptions) -> RawCounts:
    """A matrix without an object around it: rows are samples, unless the option or the names say otherwise."""
    raw = RawCounts(matrix.blocks, matrix.columns, matrix.rows)
    named = options.transpose is None and matrix.rows and matrix.columns
    if named and (why := rows_are_features("", matrix.rows or [], matrix.columns or [])):
        raw.notes.append(f"rows look like features ({why}): transposed; use {parameter('transpose', False)} to keep")
        return raw
    return raw if options.transpose else raw.transposed()


# Objects of several matrices


def _contents(thing: Any) -> tuple[dict[str, Layer], pd.DataFrame | None]:
    own = _attributes(thing)
    if "assays" in own and "active.assay" in own:
        return _seurat(own)
    if "assays" in own and "colData" in own:
        return _experiment(own)
    held = _list(thing) if thing.info.type.name == "VEC" else {}
    return {name: Layer(one) for name, one in held.items() if _is_matrix(one)}, None


def _seurat(own: dict[str, Any]) -> tuple[dict[str, Layer], pd.DataFrame | None]:
    """Of the active assay first. Layers that version 5 has split, counts.1 and counts.2, are one."""
    active = (_texts(own["active.assay"]) or [""])[0]
    found: dict[str, Layer] = {}
    assays = _list(own["assays"])
    for name in sorted(assays, key=lambda name: name != active):
        slots = _attributes(assays[name])
        if "layers" in slots:
            layers = {layer: _mapped(one, layer, slots) for layer, one in _list(slots["layers"]).items()}
            whole = {layer.partition(".")[0] for layer in layers} - layers.keys()
            for stem in sorted(whole):
                first, *others = (one for layer, one in layers.items() if layer.startswith(f"{stem}."))
                layers[stem] = first._replace(others=tuple(others))
        else:
            layers = {layer: Layer(slots[layer]) for layer in (COUNTS, "data", "scale.data") if layer in slots}
        found |= {f"{name}/{layer}": one for layer, one in layers.items() if _holds_numbers(one.thing)}
    metadata = own.get("meta.data")
    return found, None if metadata is None else _frame(_list(metadata), *_row_names(metadata))


def _holds_numbers(thing: Any) -> bool:
    return not _is_matrix(thing) or min(_shape(thing)) > 0  # others are refused by name when they are chosen


def _mapped(thing: Any, layer: str, slots: dict[str, Any]) -> Layer:
    """A layer of version 5; a LogMap, names × layers, says which features and cells it has."""
    names = []
    for what in ("features", "cells"):
        table = slots[what]
        everything, layers = (_texts(_resolved(one)) or [] for one in _attributes(table)["dimnames"].value)
        there = _numbers(table).reshape(len(layers), len(everything))[layers.index(layer)].astype(bool)
        names.append([name for name, inside in zip(everything, there.tolist(), strict=True) if inside])
    return Layer(thing, names[0], names[1])


def _experiment(own: dict[str, Any]) -> tuple[dict[str, Layer], pd.DataFrame | None]:
    """SummarizedExperiment, SingleCellExperiment and others that inherit from it."""
    described = _attributes(own["colData"])
    cells = _texts(described.get("rownames"))
    ranges = _attributes(own["rowRanges"]) if "rowRanges" in own else {}
    holders = [own, *(_attributes(ranges[name]) for name in ("ranges", "partitioning") if name in ranges)]
    features = next((names for holder in holders if (names := _texts(holder.get("NAMES"))) is not None), None)
    n = int(_numbers(described["nrows"])[0]) if "nrows" in described else len(cells or ())
    layers = {name: Layer(one, features, cells) for name, one in _list(own["assays"]).items()}
    return layers, _frame(_list(own["colData"]), cells, n)


def _chosen(matrices: Mapping[str, Layer], layer: str | None) -> str:
    """By its name, "RNA/counts"; by that of its assay; or by that of a layer of the first assay. By default the counts."""
    first = next(iter(matrices)).partition("/")[0]
    wanted = [f"{first}/{COUNTS}", COUNTS] if layer is None else [layer, f"{layer}/{COUNTS}", f"{first}/{layer}"]
    for name in [*wanted, *(matrices if layer is None and len(matrices) == 1 else ())]:
        if name in matrices:
            return name
    asked = "no layer called 'counts'" if layer is None else f"no layer {layer!r}"
    raise ValueError(
        f"{asked} in it; it has {listed(matrices)}: choose one with {parameter('layer', next(iter(matrices)))}"
    )


def _refuse(options: ReadOptions, what: str, *names: str) -> None:
    for name in options.given(*names):
        raise ValueError(f"{parameter(name, getattr(options, name))} does not apply to {what}; remove it")
