"""Where shards lie: in a folder, whose files are checked against its manifest, or in memory, as counts cut into pieces.

A shard is known by what the manifest says of it (`Part`), which is measured tile by tile, in their order, wherever it is made.
Files hold thousands samples each, as safetensors, in about three bytes a nonzero:

    indptr          u32, where each row begins
    indices         u16 where there are at most 2^16 features, otherwise u32
    values          u8, 0 for "see the exceptions", as canonical counts are never 0
    exception_at    u32, and `exception` f64: counts above 255, and those that are not whole numbers
    names           of the samples, if they have any: JSON as bytes

Where more than a sixteenth would be exceptions, `values` are f32, or f64 if that is not exact, and there are none. So the
encoding follows from the counts alone, and so do the checksums. A file is numbers and text, read whole rather than mapped, and
checked before it is trusted.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from msgspec import Meta, Struct
from msgspec.structs import replace
from numpy.typing import NDArray
from scipy.special import gammaln

from unmix.base.types import Floats, Integers, Record, as_names, as_plain, nullable_integers, unique_names
from unmix.counts.canonical import as_scipy, narrowed
from unmix.counts.counts import Counts
from unmix.kernels import CSR
from unmix.storage import tensors
from unmix.storage.schema import Amount, Finite, Size, Whole, brief, checked
from unmix.storage.tensors import Arrays, as_bytes, from_json

MANIFEST, FEATURES, SAMPLE = "shards.json", "features.safetensors", "sample.safetensors"
METADATA = "metadata.safetensors"
FILE_NAME = re.compile(r"\d{6}\.safetensors")
# All but the names, in the order of the checksum
COUNTED = ("indptr", "indices", "values", "exception_at", "exception")


def file_name(shard: int) -> str:
    return f"{shard:06d}.safetensors"


def index_type(features: int) -> np.dtype:
    return np.dtype("<u2" if features <= 1 << 16 else "<u4")


class Shard(ABC):
    """A shard at hand: some of its rows at a time, as kernels take them."""

    length: int

    @abstractmethod
    def rows(self, first: int, last: int) -> CSR:
        """Rows from `first` up to `last`; counts as two bytes each if all are whole and below 2^16, as in memory."""

    def tiles(self, size: int) -> Iterator[tuple[int, CSR]]:
        """This many rows at a time, and which is the first of them."""
        for first in range(0, self.length, size):
            yield first, self.rows(first, min(first + size, self.length))


class Encoded(Shard):
    """The rows of a file as they lie there."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays, self.length = arrays, len(arrays["indptr"]) - 1

    @classmethod
    def checked(cls, arrays: Arrays, rows: int, nonzeros: int, features: int, *, thoroughly: bool) -> Encoded:
        """Once no row begins before another and no index is outside: a kernel would read beyond its arrays. `thoroughly`
        also looks for what would only be wrong: zeros, and features that are out of order or twice in a row."""
        given = {name: (array.dtype, len(array)) for name, array in arrays.items() if name not in ("names", "rows")}
        known = {"indptr": ("<u4", rows + 1), "indices": (index_type(features).str, nonzeros)}
        few = len(arrays.get("exception", ()))
        bytewise = {"values": ("u1", nonzeros), "exception_at": ("<u4", few), "exception": ("<f8", few)}
        kinds = bytewise, {"values": ("<f4", nonzeros)}, {"values": ("<f8", nonzeros)}
        if not any(given == known | kind for kind in kinds):
            raise ValueError("its arrays do not go together")
        indptr, indices, values = arrays["indptr"], arrays["indices"], arrays["values"]
        if indptr[0] != 0 or indptr[-1] != nonzeros or (indptr[1:] < indptr[:-1]).any():
            raise ValueError("its rows are out of order")
        if nonzeros and int(indices.max()) >= features:
            raise ValueError(f"it has a feature {int(indices.max()):,} of {features:,}")
        at, exception = arrays.get("exception_at", _NONE), arrays.get("exception", _NONE)
        if len(at) and (int(at.max()) >= nonzeros or (at[1:] <= at[:-1]).any() or values[at].any()):
            raise ValueError("its exceptions are out of place")
        counts = values if values.dtype.kind == "f" else exception
        if len(counts) and not (counts.min() > 0 and counts.max() < np.inf):
            raise ValueError("it contains a value that is not a count")
        if thoroughly:
            if values.dtype.kind == "u" and np.count_nonzero(values) + len(at) != nonzeros:
                raise ValueError("it holds zeros")
            falls = np.flatnonzero(indices[1:] <= indices[:-1]) + 1
            if not np.isin(falls, indptr).all():
                raise ValueError("its features are out of order")
        return cls(arrays)

    def rows(self, first: int, last: int) -> CSR:
        offsets = self.arrays["indptr"][first : last + 1].astype(np.int64)
        a, b = int(offsets[0]), int(offsets[-1])
        values, indices = self.arrays["values"][a:b], self.arrays["indices"][a:b].astype(np.int32)
        offsets -= a
        if values.dtype.kind == "f":
            return CSR(offsets, indices, narrowed(values.astype(np.float64)))
        at = self.arrays["exception_at"]
        some = slice(*np.searchsorted(at, (a, b)))
        exceptions = narrowed(self.arrays["exception"][some].astype(np.float64))
        data = values.astype(exceptions.dtype)
        data[at[some].astype(np.int64) - a] = exceptions
        return CSR(offsets, indices, data)


_NONE = np.zeros(0)


FORMAT = 1
JOURNAL = "building.json"
MOST_NONZEROS = 2**32 - 1  # of a file, whose offsets have four bytes
EXCEPTIONAL = 16  # a larger part than 1/16 of exceptions, and the values are kept as they are
BLOCK = 1 << 16  # counts that are looked at a time, for memory
LOG_FACTORIALS = gammaln(np.arange(256) + 1.0)
AGAIN = "build the shards again with um.shard or `unmix shard`"


class Part(Struct, frozen=True):
    """What is known of a shard without reading it."""

    rows: Whole
    nonzeros: Whole
    total: Amount
    log_factorials: Finite
    empty_samples: Whole
    fractional: Whole  # nonzeros that are not whole numbers
    data: str  # checksum of the counts
    size: Whole = 0  # bytes
    sha256: str = ""  # of the file
    file: str = ""  # its name


class File(Struct):
    size: Size
    sha256: str


class SampleFile(File):
    rows: Size
    nonzeros: Whole


class Manifest(Struct):
    """What a folder of shards says of itself."""

    format: Whole
    shape: tuple[Size, Annotated[int, Meta(ge=1, lt=2**31)]]
    nonzeros: Whole
    total: Amount
    checksum: str
    rows_per_shard: Size
    rows_per_tile: Size
    indices: str
    named: bool
    features: File
    sample: SampleFile
    metadata: File | None
    source: Any
    text: Record | None
    shards: list[Part]

    def files(self) -> dict[str, File | Part]:
        """By their names."""
        found: dict[str, File | Part] = {FEATURES: self.features, SAMPLE: self.sample}
        if self.metadata is not None:
            found[METADATA] = self.metadata
        return found | {part.file: part for part in self.shards}


class Encoder:
    """A shard in the making, tile by tile: its arrays never lie in memory as kernels take them, and sums are taken in this
    order wherever it is made, so that fractions add up to the same bits."""

    def __init__(self, features: int) -> None:
        self.features = features
        self.rows, self.nonzeros, self.empty, self.total, self.log_factorials = 0, 0, 0, 0.0, 0.0
        self.tiles: list[
            tuple[NDArray[Any], ...]
        ] = []  # lengths of rows, indices, values, exceptions: where, and which

    def add(self, tile: CSR) -> None:
        data, lengths = tile.data, np.diff(tile.indptr)
        counts = Counts.trusted(in_doubles(tile, self.features))
        self.rows += len(lengths)
        self.empty += int((lengths == 0).sum())
        self.total += counts.total
        self.log_factorials += counts.log_factorials
        with np.errstate(invalid="ignore"):
            values = data.astype(np.uint8)  # what does not fit is not equal below
        at = np.flatnonzero(values != data)
        values[at] = 0
        indices = tile.indices.astype(index_type(self.features))
        self.tiles.append((lengths, indices, values, at + self.nonzeros, data[at].astype(np.float64)))
        self.nonzeros += len(data)

    def arrays(self) -> Arrays:
        """The arrays of a file, but for the names."""
        if self.nonzeros > MOST_NONZEROS:
            raise ValueError(f"{self.nonzeros:,} nonzeros in one shard are too many")
        lengths, indices, values, at, exception = map(np.concatenate, zip(*self.tiles, strict=True))
        arrays: Arrays = {"indptr": np.concatenate([[0], lengths]).cumsum().astype("<u4"), "indices": indices}
        if EXCEPTIONAL * at.size <= self.nonzeros:
            return arrays | {"values": values, "exception_at": at.astype("<u4"), "exception": exception.astype("<f8")}
        with np.errstate(over="ignore"):
            single = exception.astype("<f4")
        whole = values.astype("<f4" if (single == exception).all() else "<f8")
        whole[at] = exception
        return arrays | {"values": whole}

    def part(self, arrays: Arrays, content: bytes = b"", file: str = "") -> Part:
        """What there is to know of it, once it has become arrays and perhaps a file."""
        others = arrays.get("exception", arrays["values"])  # only among them are fractions
        fractional = int(np.count_nonzero(others != np.floor(others)))
        known = self.rows, self.nonzeros, self.total, self.log_factorials, self.empty, fractional
        sha256 = hashlib.sha256(content).hexdigest() if content else ""
        return Part(*known, tensors.digest(arrays, COUNTED), len(content), sha256, file)


def measured(shard: Shard, tile: int, features: int) -> Part:
    """What there is to know of a shard, from its counts alone."""
    encoder = Encoder(features)
    for _, rows in shard.tiles(tile):
        encoder.add(rows)
    return encoder.part(encoder.arrays())


def add_feature_totals(totals: Floats, shard: Shard, tile: int) -> None:
    """Tile by tile, in order, so that fractions add up to the same bits everywhere."""
    for _, rows in shard.tiles(tile):
        totals += np.bincount(rows.indices, rows.data, minlength=len(totals))


def checksum(shape: tuple[int, int], parts: list[Part]) -> str:
    return f"sha256:{hashlib.sha256(repr((shape, [part.data for part in parts])).encode()).hexdigest()}"


def in_doubles(rows: CSR, features: int) -> sp.csr_array:
    """As `Counts` hold them."""
    rows = CSR(rows.indptr, rows.indices, rows.data.astype(np.float64, copy=False))
    return as_scipy(rows, (len(rows.indptr) - 1, features))


class InMemory:
    """Counts, cut into shards."""

    def __init__(self, counts: Counts, rows_per_shard: int, rows_per_tile: int, chosen: Integers) -> None:
        self.counts, self.size, self.tile, self.chosen = counts, rows_per_shard, rows_per_tile, chosen
        self.named, self.metadata = counts.samples is not None, counts.metadata

    @cached_property
    def parts(self) -> list[Part]:
        return [measured(shard, self.tile, self.counts.shape[1]) for shard in self._shards()]

    @cached_property
    def feature_totals(self) -> Floats:
        totals = np.zeros(self.counts.shape[1])
        for shard in self._shards():
            add_feature_totals(totals, shard, self.tile)
        return totals

    def _shards(self) -> Iterator[Shard]:
        return map(self.shard, range(-(-len(self.counts) // self.size)))

    def shard(self, i: int) -> Shard:
        return _Slice(self.counts.rows, i * self.size, min((i + 1) * self.size, len(self.counts)))

    def names(self, i: int) -> list[str]:
        assert self.counts.samples is not None
        return self.counts.samples[i * self.size : (i + 1) * self.size].tolist()

    @property
    def sample_nonzeros(self) -> int:
        return int(np.diff(self.counts.rows.indptr)[self.chosen].sum())

    def sample(self) -> tuple[Integers, Counts]:
        whole = len(self.chosen) == len(self.counts)
        return self.chosen, copy(self.counts) if whole else self.counts.take(self.chosen)


class _Slice(Shard):
    """Rows of a matrix."""

    def __init__(self, matrix: CSR, first: int, last: int) -> None:
        self.matrix, self.first, self.length = matrix, first, last - first

    def rows(self, first: int, last: int) -> CSR:
        offsets = self.matrix.indptr[self.first + first : self.first + last + 1]
        some = slice(int(offsets[0]), int(offsets[-1]))
        return CSR(offsets - offsets[0], self.matrix.indices[some], narrowed(self.matrix.data[some]))


class OnDisk:
    """A folder, whose files are what the manifest says or refused."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest, self.seen = folder, manifest, set[int]()
        self.m, self.size, self.named = manifest.shape[1], manifest.rows_per_shard, manifest.named
        self.parts, self.files = manifest.shards, manifest.files()
        for name, file in self.files.items():
            with self._reading(name):
                if (there := (folder / name).stat().st_size) != file.size:
                    raise ValueError(f"it has {there:,} bytes where {file.size:,} were written")
        with self._reading(FEATURES):
            arrays = self._file(FEATURES)
            self.feature_totals = totals = arrays.get("feature_totals", _NONE).astype(np.float64)
            if len(totals) != self.m:
                raise ValueError("it has no totals of the features")
            if not (totals >= 0).all() or not _near(float(totals.sum()), manifest.total):
                raise ValueError(f"it has totals of the features that do not add up to that of {MANIFEST}")
            names = _names(arrays["names"], self.m) if "names" in arrays else None
        self.features = None if names is None else as_names(names)

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """What is wrong with a file is said of it, and of its samples."""
        try:
            yield
        except (OSError, ValueError) as error:
            where = ""
            if FILE_NAME.fullmatch(name):
                first = int(name[:6]) * self.size
                last = min(first + self.size, self.manifest.shape[0]) - 1
                where = f" (samples {first:,} to {last:,})"
            what = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else f"is damaged: {error}"
            raise ValueError(f"{self.folder}: {name}{where} {what}; {AGAIN}") from None

    def shard(self, i: int) -> Shard:
        part, name, first = self.parts[i], file_name(i), i not in self.seen
        with self._reading(name):
            arrays = self._file(name, verify=first)
            shard = Encoded.checked(arrays, part.rows, part.nonzeros, self.m, thoroughly=first)
            if first and not _agrees(shard, part):
                raise ValueError(f"it holds other counts than {MANIFEST} says")
        self.seen.add(i)
        return shard

    def names(self, i: int) -> list[str]:
        if i not in self.seen:
            self.shard(i)
        with self._reading(name := file_name(i)):
            return _names(tensors.read_block(self.folder / name, "names"), self.parts[i].rows)

    @property
    def metadata(self) -> pd.DataFrame | None:
        if METADATA not in self.files:
            return None
        with self._reading(METADATA):
            return decoded(self._file(METADATA), self.manifest.shape[0])

    @property
    def sample_nonzeros(self) -> int:
        return self.manifest.sample.nonzeros

    def sample(self) -> tuple[Integers, Counts]:
        rows, nonzeros = self.manifest.sample.rows, self.manifest.sample.nonzeros
        with self._reading(SAMPLE):
            arrays = self._file(SAMPLE)
            shard = Encoded.checked(arrays, rows, nonzeros, self.m, thoroughly=True)
            names = as_names(_names(arrays.get("names"), rows)) if self.named else None
            chosen = arrays.get("rows", np.zeros(0, np.int64))
            if len(chosen) != rows or not (chosen.min() >= 0 and chosen.max() < self.manifest.shape[0]):
                raise ValueError("it lacks the numbers of its samples")
        matrix = in_doubles(shard.rows(0, rows), self.m)
        return chosen, Counts.trusted(matrix, names, self.features, None, self.manifest.text)

    def verify(self) -> None:
        """Besides checksums: that what the manifest says of the counts is so."""
        totals, tile = np.zeros(self.m), self.manifest.rows_per_tile
        for i, part in enumerate(self.parts):
            self.seen.discard(i)
            shard = self.shard(i)
            again = measured(shard, tile, self.m)
            with self._reading(file_name(i)):
                if again != replace(part, size=0, sha256="", file="", log_factorials=again.log_factorials):
                    raise ValueError(f"it is not what {MANIFEST} says of it")
            add_feature_totals(totals, shard, tile)
            if self.named:
                self.names(i)
        with self._reading(FEATURES):
            self._file(FEATURES)
            if not np.array_equal(totals, self.feature_totals):
                raise ValueError("it has other totals than the shards")
        self.sample()
        self.metadata  # noqa: B018 - read

    def _file(self, name: str, *, verify: bool = True) -> Arrays:
        content = tensors.read_bytes(self.folder / name, self.files[name].size)
        if verify and hashlib.sha256(content).hexdigest() != self.files[name].sha256:
            raise ValueError(f"its checksum is not that of {MANIFEST}")
        return tensors.parsed(content)


def _names(content: Any, expected: int) -> list[str]:
    """Of the features, or of samples, from JSON as bytes."""
    if content is None:
        raise ValueError("it lacks the names of its samples")
    names = checked(tensors.from_json(content), list[str], "the list of its names")
    if len(names) != expected:
        raise ValueError(f"it has {len(names):,} names for {expected:,}")
    return names


def _near(one: float, other: float, size: float = 0.0) -> bool:
    """Whether two sums are the same but for their rounding; `size` is that of their terms."""
    return abs(one - other) <= 1e-6 * (abs(other) + size)


def _agrees(shard: Encoded, part: Part) -> bool:
    """Whether a shard has the sums that a manifest says; sums in a different order differ in their last digits."""
    arrays = shard.arrays
    total, logs, fractional = 0.0, 0.0, 0
    for name in ("values", "exception"):
        for start in range(0, len(arrays.get(name, ())), BLOCK):
            some = arrays[name][start : start + BLOCK]
            if some.dtype.kind == "u":
                often = np.bincount(some, minlength=len(LOG_FACTORIALS))
                total += float(often @ np.arange(len(often)))
                logs += float(often @ LOG_FACTORIALS)
            else:
                counts = some.astype(np.float64)
                total += float(counts.sum())
                logs += float(gammaln(counts + 1).sum())
                fractional += int(np.count_nonzero(counts != np.floor(counts)))
    empty = int((arrays["indptr"][1:] == arrays["indptr"][:-1]).sum())
    sums = _near(total, part.total) and _near(logs, part.log_factorials, part.nonzeros)
    return sums and (empty, fractional) == (part.empty_samples, part.fractional)


def read_manifest(folder: Path) -> Manifest:
    """What a folder says of itself, once it makes sense."""
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: no such folder; make shards with um.shard or `unmix shard`")
    if not (folder / MANIFEST).is_file():
        if (folder / JOURNAL).is_file():
            raise ValueError(
                f"{folder}: its shards are not finished; run the command that began them again to continue"
            )
        raise ValueError(f"{folder}: no folder of shards: there is no {MANIFEST} in it")
    try:
        content = (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise ValueError(f"{folder}: {MANIFEST} cannot be read ({error.strerror})") from None
    try:
        return checked_manifest(tensors.from_json(content))
    except ValueError as error:
        raise ValueError(f"{folder}: {MANIFEST} is damaged ({error}); {AGAIN}") from None


def checked_manifest(told: Any) -> Manifest:
    """What a manifest says, once its parts agree; an error otherwise. Writers ask, too."""
    if isinstance(told, dict) and told.get("format", FORMAT) != FORMAT:
        raise ValueError(f"format {brief(told['format'])}, this version of unmix reads {FORMAT}")
    manifest = checked(told, Manifest)
    (n, m), size, parts = manifest.shape, manifest.rows_per_shard, manifest.shards
    for i, part in enumerate(parts):
        if part.file != file_name(i):
            raise ValueError(f"{brief(part.file)} where {file_name(i)!r} should be")
        if part.rows != min(size, n - i * size):
            raise ValueError(f"{part.file}: {part.rows:,} samples where {min(size, n - i * size):,} should be")
        if part.nonzeros > part.rows * m or part.empty_samples > part.rows or part.fractional > part.nonzeros:
            raise ValueError(f"{part.file}: more nonzeros, empty samples or fractions than there can be")
    if (rows := sum(part.rows for part in parts)) != n:
        raise ValueError(f"{rows:,} samples in shards, {n:,} in all")
    if manifest.nonzeros != (nonzeros := sum(part.nonzeros for part in parts)):
        raise ValueError(f"another number of nonzeros than the {nonzeros:,} of its shards")
    if manifest.total != (total := float(sum(part.total for part in parts))):
        raise ValueError(f"another total than the {total:g} of its shards")
    if manifest.checksum != checksum((n, m), parts):
        raise ValueError("its shards are not those of its checksum")
    return manifest


# A table with one row per sample in a file of shards, column by column: numbers as they are, all else as codes of its values.
#
# 0000            f8, i8 or u1 (truth values); or i4, the places of a column's values in its list, -1 for none
# 0000.values     that list, JSON as bytes
# columns         what columns are called and what they are: JSON as bytes

NUMBERS = {"float": "<f8", "int": "<i8", "bool": "u1"}
CODES = {"values": "<i4", "category": "<i4"}


def encoded(table: pd.DataFrame) -> Arrays:
    columns, arrays = list[tuple[str, str]](), Arrays()
    names = unique_names([str(name) for name in table.columns])
    for place, name in enumerate(names):
        kind, array, values = _encoded(table.iloc[:, place])
        columns.append((name, kind))
        arrays[f"{place:04d}"] = array
        if values is not None:
            arrays[f"{place:04d}.values"] = as_bytes(values)
    return arrays | {"columns": as_bytes(columns)}


def _encoded(column: pd.Series) -> tuple[str, Any, list[Any] | None]:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fib":
        kind = {"f": "float", "i": "int", "b": "bool"}[dtype.kind]
        return kind, column.to_numpy().astype(NUMBERS[kind]), None
    if isinstance(dtype, pd.CategoricalDtype):
        values = [as_plain(value) for value in dtype.categories]
        if None not in values and pd.Index(values).is_unique:  # as what they are in a file, too
            return "category", column.cat.codes.to_numpy().astype("<i4"), values
    return "values", *_codes(column)


def _codes(column: pd.Series) -> tuple[Any, list[Any]]:
    """Places of values in a list of those that differ. pandas would take some texts for equal that are not."""
    places, codes, values = dict[Any, int](), list[int](), list[Any]()
    for value, missing in zip(column.astype(object).tolist(), column.isna().tolist(), strict=True):
        if missing:
            codes.append(-1)
            continue
        value = as_plain(value)
        key = value if isinstance(value, str) else (json.dumps(value),)
        if key not in places:
            places[key] = len(values)
            values.append(value)
        codes.append(places[key])
    return np.array(codes, dtype="<i4"), values


def decoded(arrays: Arrays, rows: int) -> pd.DataFrame:
    """Raises ValueError if the arrays are not those of a table of this many rows."""
    try:
        columns = checked(from_json(arrays["columns"]), list[tuple[str, str]], "the list of its columns")
        found = [_decoded(arrays, f"{place:04d}", kind, rows) for place, (_, kind) in enumerate(columns)]
        names = [name for name, _ in columns]
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"it holds no table ({type(error).__name__})") from None
    if len(set(names)) < len(names):
        raise ValueError("its table has a column twice")
    table = pd.concat(found, axis=1) if found else pd.DataFrame(index=range(rows))
    return table.set_axis(names, axis=1)


def _decoded(arrays: Arrays, place: str, kind: str, rows: int) -> pd.Series:
    array = arrays[place]
    if len(array) != rows or array.dtype != np.dtype((NUMBERS | CODES)[kind]):
        raise ValueError(f"its column {place} is none of {rows:,} rows")
    if kind in NUMBERS:
        return pd.Series(array.astype(bool if kind == "bool" else NUMBERS[kind]))
    values = checked(from_json(arrays[f"{place}.values"]), list[Any], f"the list of values of its column {place}")
    if rows and not -1 <= array.min() <= array.max() < len(values):
        raise ValueError(f"its column {place} has values that are not in its list")
    if kind == "category":
        return pd.Series(pd.Categorical.from_codes(array, pd.Index(values)))
    if values and (array < 0).any() and all(type(value) is int for value in values):
        return pd.Series(nullable_integers([*values, None])[array])
    known = np.empty(len(values) + 1, dtype=object)  # the last one is None
    for number, value in enumerate(values):
        known[number] = value
    return pd.Series(known[array]).infer_objects()
