"""`um.shard`: anything that counts may come from -> a folder of shards, in one pass and in little memory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, Unpack

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmix.base.checks import ParameterError, warn
from unmix.base.memory import limited
from unmix.base.progress import Progress
from unmix.base.types import Record
from unmix.counts.counts import Counts, CountsLike, chosen, in_memory, is_anndata, is_dask, matrices_of
from unmix.counts.shards import Shards, start_sample
from unmix.io import read as reading
from unmix.io.building import build
from unmix.io.options import ReadKeywords, ReadOptions
from unmix.io.read.blocks import Blocks, slices
from unmix.io.read.names import (
    FEATURES_FILE,
    SAMPLES_FILE,
    VOCABULARY_FILE,
    join_metadata,
    number_texts,
    settle_names,
    writable_name,
)
from unmix.io.read.raw_counts import RawCounts
from unmix.io.read.text import about_empty
from unmix.io.read.words import name_of_tokenizer

Source: TypeAlias = "str | os.PathLike[str] | CountsLike | Iterable[Any]"


class ShardOptions(ReadOptions):
    """Letters of what is kept with every sample have a limit."""

    longest: ClassVar[int | None] = 1_000


def shard(
    source: Source,
    folder: str | os.PathLike[str],
    *,
    samples: ArrayLike | None = None,
    features: ArrayLike | None = None,
    metadata: pd.DataFrame | str | os.PathLike[str] | None = None,
    sample: int | None = None,
    sample_by: ArrayLike | str | None = None,
    verbose: bool = False,
    memory: float | str | None = None,
    **options: Unpack[ReadKeywords],
) -> Shards:
    """Write counts of any size as shards: a folder of files of about three bytes a nonzero, which a fit goes through one by
    one.

    The source is read a part at a time, texts and tables more than once, and need not fit into memory. If the work is
    interrupted by a full disk or a kill, the same call continues after the last finished shard; if all is there and sound, it
    returns it; if a shard was damaged since, it is written again. Counts that are not finite numbers >= 0 are refused with
    their row and column, and leave nothing behind.

    Parameters
    ----------
    source : str, PathLike, Counts, array, sparse matrix, DataFrame, AnnData or iterable of blocks
        A file or folder, as `unmix.read` takes it, or a .zarr store of AnnData; `Counts`, an array, a sparse matrix, a
        DataFrame; AnnData in memory, backed or lazy; a dask array; or any iterable of blocks of samples × features, sparse or
        dense.
    folder : str or PathLike
        Where to write: a new folder, or one in which the same source was begun.
    samples, features : array-like of str, default=None
        Names, if the source has none or others are wanted.
    metadata : DataFrame, str or PathLike, default=None
        A table with one row per sample, or its file as in `unmix.read`, next to what the source itself says of them, such as
        obs.
    sample : int, default=None
        How many samples a fit shall start from, in memory: 16,384 unless given. More of them show rarer topics.
    sample_by : array-like or str, default=None
        A label for every sample, or the name of a column of the metadata: the samples to start from have as many of every label
        as there are, or as fit. So rare ones are not missed.
    verbose : bool, default=False
        Whether to report progress after every shard.
    memory : float or str, default=None
        What reading may take: bytes, or words such as "1GB". With less memory a source may be read twice. None: about 1 GB,
        or an eighth of what is free, besides the names and the metadata of samples.
    **options : ReadOptions
        How to read the source, as in `unmix.read`: `layer` of an AnnData, `transpose`, `text_column`, `stop_words` and
        more. `unmix.ReadOptions` explains all of them.

    Returns
    -------
    Shards
        What every estimator can fit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it cannot be read as counts, or the folder holds something else.

    See Also
    --------
    ReadOptions, Shards, engines.Local, engines.Dask

    Examples
    --------
    >>> import tempfile, unmix as um
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shards = um.shard(um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]), f"{folder}/animals.shards")
    ...     um.TopicModel(2, tol=0, max_iter=5, random_state=0).fit(shards).result_.L.shape
    (4, 2)
    """
    settings = ShardOptions(**options)
    for name in settings.given("snippets"):
        raise ParameterError(name, settings.snippets, "shards do not keep the beginnings of texts; remove it")
    start_sample(0, sample)
    progress = Progress(f"samples in {folder}") if verbose else None
    if not isinstance(source, str | os.PathLike):

        def given() -> RawCounts:
            return _described(_renamed(_in_python(source, settings), samples, features), metadata, settings.encoding)

        with limited(memory):
            return build(Path(folder), None, given, sample=sample, sample_by=sample_by, progress=progress)
    path, notes, reading_as = Path(source), list[str](), list[str]()
    reading.existing(path)
    choices = {"samples": samples, "features": features, "sample": sample, "sample_by": sample_by}
    if isinstance(metadata, str | os.PathLike):
        choices["metadata"] = [str(value) for value in _of_path(reading.existing(metadata)).values()]
    elif metadata is not None:
        choices["metadata"] = metadata.to_csv()
    fingerprint = _of_path(path) | {"options": _plain(settings, choices)}

    def opened() -> RawCounts:
        found = _renamed(reading.load(path, settings), samples, features)
        _described(found, metadata, settings.encoding)
        number_texts(found)
        settle_names(found)
        notes.extend(found.notes)
        reading_as.append(found.reading)
        return found

    how: dict[str, Any] = {"about": path, "sample": sample, "sample_by": sample_by, "progress": progress}
    with limited(memory):
        shards = build(Path(folder), fingerprint, opened, **how)
    shards.reading = "".join(reading_as[:1])
    if shards.text is not None and (empty := shards.facts["empty_samples"]):
        notes.append(about_empty(empty, len(shards)))
    for note in notes:
        warn(f"{path}: {note}")
    return shards


def _renamed(found: RawCounts, samples: ArrayLike | None, features: ArrayLike | None) -> RawCounts:
    n, m = found.matrix.shape
    found.samples = found.samples if samples is None else _names(samples, n, "samples")
    found.features = found.features if features is None else _names(features, m, "features")
    return found


def _described(
    found: RawCounts, metadata: pd.DataFrame | str | os.PathLike[str] | None, encoding: str | None
) -> RawCounts:
    if isinstance(metadata, str | os.PathLike):
        with reading.errors_about(Path(metadata)):
            join_metadata(found, Path(metadata), encoding)
    elif metadata is not None:
        fresh = metadata.reset_index(drop=True)
        known = [] if found.metadata is None else [found.metadata.drop(columns=fresh.columns, errors="ignore")]
        found.metadata = pd.concat([*known, fresh], axis=1)
    return found


def _names(names: ArrayLike, expected: int | None, what: str) -> list[str]:
    given = [str(name) for name in np.asarray(names, dtype=object).ravel().tolist()]
    if expected is not None and len(given) != expected:
        raise ValueError(f"{len(given):,} names for {expected:,} {what}; use one name each")
    return given


def _of_path(path: Path) -> Record:
    """By what to know a file again, or a folder and all that is in it, and the names next to a matrix."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    if not path.is_dir():
        files += [
            file for name in (FEATURES_FILE, VOCABULARY_FILE, SAMPLES_FILE) if (file := path.parent / name).is_file()
        ]
    told = [(file.name, (known := file.stat()).st_size, known.st_mtime_ns) for file in files]
    contents = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    return {"name": writable_name(path.resolve().name), "bytes": sum(size for _, size, _ in told), "files": contents}


def _plain(options: ReadOptions, given: Record) -> Record:
    """The options as JSON, those that were left alone omitted; what is long by its checksum."""
    said = {name: getattr(options, name) for name in options.given(*(field.name for field in fields(options)))}
    said |= {name: value for name, value in given.items() if value is not None}
    if options.tokenizer is not None:
        said["tokenizer"] = name_of_tokenizer(options.tokenizer)
    if options.like is not None:
        said["like"] = [options.like.text, None if options.like.features is None else options.like.features.tolist()]
    plain = {}
    for name, value in said.items():
        known = value if isinstance(value, str | int | float | bool) else None
        listed = np.asarray(value, dtype=object).ravel().tolist() if known is None and name != "like" else value
        text = json.dumps(listed, default=str)
        plain[name] = known if known is not None else json.loads(text) if len(text) < 200 else _checksum(text)
    return plain


def _checksum(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _in_python(source: Any, options: ReadOptions) -> RawCounts:
    """An object with counts in it."""
    for name in options.given(*reading.TEXT, *reading.FOLDER, *reading.OF_TEXTS, "like"):
        raise ValueError(f"{name} is for files of texts; remove it")
    if is_anndata(source):
        return _of_anndata(source, options)
    for name in options.given("layer", "raw"):
        raise ValueError(f"{name} is for AnnData; remove it")
    raw = _of_object(source)
    return raw.transposed() if options.transpose else raw


def _of_object(source: Any) -> RawCounts:
    if isinstance(source, Counts):
        samples, features = (None if names is None else names.tolist() for names in (source.samples, source.features))
        table = None if source.metadata is None else source.metadata.reset_index(drop=True)
        return RawCounts(source.csr, samples, features, table, source.text)
    if isinstance(source, Shards):
        samples, features = (None if names is None else names.tolist() for names in (source.samples, source.features))
        shards = (source.shard(i).csr for i in range(source.n_shards))
        return RawCounts(_in_order(source.shape, shards), samples, features, source.metadata, source.text)
    if isinstance(source, pd.DataFrame):
        return RawCounts(source, [str(name) for name in source.index], [str(name) for name in source.columns])
    if is_dask(source):
        return RawCounts(_of_dask(source))
    if isinstance(source, np.ndarray) or sp.issparse(source):
        if source.ndim != 2:
            raise ValueError(f"an array of {source.ndim} dimension(s); unmix needs samples × features")
        return RawCounts(source)
    if isinstance(source, Iterable):
        return RawCounts(_of_iterable(iter(source)))
    return RawCounts(Counts(source).csr)


def _in_order(shape: tuple[int | None, int], blocks: Iterable[Any]) -> Blocks:
    """Blocks of an object, which come once, and in the thread of the object."""
    return Blocks(shape, read=lambda start: iter(blocks), ahead=False)


def _of_iterable(blocks: Iterator[Any]) -> Blocks:
    """The first block says how many features there are."""
    first = next(blocks, None)
    if first is None:
        raise ValueError("no block of counts came; there is nothing to write")
    if getattr(first, "ndim", 2) != 2 or not hasattr(first, "shape"):
        raise ValueError("the blocks must be arrays or sparse matrices of samples × features")
    return _in_order((None, int(first.shape[1])), chain([first], blocks))


def _of_dask(matrix: Any) -> Blocks:
    """Chunks of whole rows, computed one after the other."""
    if matrix.ndim != 2 or any(size != size for size in matrix.shape):
        raise ValueError("use a dask array of two dimensions whose sizes are known (compute_chunk_sizes)")
    whole = matrix.rechunk({1: -1}) if len(matrix.chunks[1]) > 1 else matrix
    chunks = (whole.blocks[i, 0].compute() for i in range(len(whole.chunks[0])))
    return _in_order((int(matrix.shape[0]), int(matrix.shape[1])), chunks)


def _of_anndata(adata: Any, options: ReadOptions) -> RawCounts:
    """In memory, backed by a file, or lazy."""
    matrices = matrices_of(adata)
    matrix = matrices[chosen(matrices, options.layer, options.raw)]
    variables = adata.raw.var_names if options.raw else adata.var_names
    if is_dask(matrix):
        matrix = _of_dask(matrix)
    elif not (sp.issparse(matrix) or isinstance(matrix, np.ndarray)):
        rows = (in_memory(block) for block in slices(matrix, adata.n_obs))
        matrix = _in_order((adata.n_obs, len(variables)), rows)
    obs = adata.obs if isinstance(adata.obs, pd.DataFrame) else adata.obs.to_memory()  # the latter of a lazy one
    names = [str(name) for name in adata.obs_names], [str(name) for name in variables]
    return RawCounts(matrix, *names, obs.reset_index(drop=True))
