"""Fits and tables -> files.

A fit's folder is written beside its place and then swapped in: a reader sees old or new results, never a mixture.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.counts import Counts
from unmix.data.spreadsheet import write_csv
from unmix.files import is_temporary, replacing
from unmix.fit import Fit
from unmix.folders import claimed, replacing_folder

MODEL_FILE, CHECKPOINT_FILE = "model.safetensors", "checkpoint.safetensors"
# Answers to further questions about a fit, by their names.
ANSWER_FILES = {name: f"{name}.safetensors" for name in ("differences", "stability", "freedom")}
DIFFERENCES_FILE = ANSWER_FILES["differences"]
TOP_FEATURES = 20  # per topic, in top_features.csv


def write_fit(
    fit: Fit,
    folder: str | os.PathLike[str],
    *,
    pictures: Mapping[str, Callable[[Path], None]] | None = None,
    force: bool = False,
) -> None:
    """Write model.safetensors, proportions.csv, exposures.csv, topics.csv, top_features.csv, trace.csv and the pictures to a
    folder. Exposures are proportions times sizes: how many counts of a sample each topic accounts for.

    An earlier fit in that folder is replaced once the new one is complete; other files in it stay. A folder that holds
    something else is refused unless `force` is set. `pictures` maps file names to functions that draw to a path.
    """
    target = check_folder(folder, force=force)
    with replacing_folder(target, stays) as fresh:
        _write_files(fit, fresh)
        for name, draw in (pictures or {}).items():
            with replacing(fresh / name) as temporary:
                draw(temporary)


def claim(folder: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """Nobody else writes a fit to this folder in the meantime; what a killed process left there is put in order first."""
    return claimed(Path(folder).resolve(), stays)


def stays(name: str) -> bool:
    """Whether a file of an earlier fit's folder goes over into the new one: all but the checkpoint, which has served its purpose,
    answers about topics that are no more, and what a process that was killed did not finish."""
    return name not in (CHECKPOINT_FILE, *ANSWER_FILES.values()) and not is_temporary(name)


def check_folder(
    folder: str | os.PathLike[str], *, force: bool = False, files: Sequence[str] = (MODEL_FILE, CHECKPOINT_FILE)
) -> Path:
    """The absolute path of a folder to which results may be written, one that is new, empty, or known by one of these files as
    holding earlier ones; otherwise an error that says why not."""
    target = Path(folder).resolve()
    if target.is_dir():
        if Path.cwd().is_relative_to(target) or target.is_mount():
            raise FileExistsError(f"{folder}: cannot be replaced while it is in use; give a new folder inside it")
        earlier = any((target / name).is_file() for name in files)
        if not force and any(target.iterdir()) and not earlier:
            whose = "a fit's" if MODEL_FILE in files else "such results"
            raise FileExistsError(
                f"{folder}: holds files that are not {whose}; give another folder, or add to this one with --force"
            )
    elif target.exists():
        raise FileExistsError(f"{folder}: is a file; give a folder for the results")
    parent = next(parent for parent in target.parents if parent.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder}: no permission to write in {parent}; give another folder")
    return target


def write_proportions(
    proportions: NDArray, samples: NDArray | None, path: str | os.PathLike[str], labels: Sequence[str]
) -> None:
    """Samples × topics: with names as CSV, or as .npy without them. `labels` are those of the topics."""
    with proportions_file(path, len(proportions), labels) as write:
        write(proportions, samples)


@contextmanager
def proportions_file(
    path: str | os.PathLike[str], n: int, labels: Sequence[str]
) -> Iterator[Callable[[NDArray, NDArray | None], None]]:
    """A function that appends proportions, and names, of some samples after others, n in all; the file is there in the end."""
    written = 0
    with replacing(path) as temporary:
        array = None
        if Path(path).suffix.lower() == ".npy":
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float64, shape=(n, len(labels)))

        def write(proportions: NDArray, samples: NDArray | None) -> None:
            nonlocal written
            if array is not None:
                array[written : written + len(proportions)] = proportions
            else:
                table = _by_topic(proportions, labels, samples, "sample", written)
                write_csv(table, temporary, index=True, mode="a", header=not written)
            written += len(proportions)

        yield write
        if array is not None:
            array.flush()
            del array


def write_counts(counts: Counts, path: str | os.PathLike[str]) -> None:
    """A `.npz` file of scipy with further members: names as JSON and metadata as CSV, both as bytes in UTF-8."""
    named = {name: getattr(counts, name) for name in ("samples", "features")}
    members = {name: json.dumps(names.tolist()) for name, names in named.items() if names is not None}
    if counts.metadata is not None and len(counts.metadata.columns):
        members["metadata"] = counts.metadata.to_csv(index=False, lineterminator="\n")
    with replacing(path) as temporary:
        sp.save_npz(temporary, counts.csr)
        with zipfile.ZipFile(temporary, "a", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                with archive.open(f"{name}.npy", "w") as file:
                    np.lib.format.write_array(file, np.frombuffer(content.encode(), np.uint8), allow_pickle=False)


def _write_files(fit: Fit, folder: Path) -> None:
    fit.save(folder / MODEL_FILE, resumable=fit.status != "converged")
    write_proportions(fit.proportions, fit.samples, folder / "proportions.csv", fit.labels)
    write_proportions(fit.exposures, fit.samples, folder / "exposures.csv", fit.labels)
    _write_table(_by_topic(fit.topics, fit.labels, fit.features, "feature"), folder / "topics.csv")
    _write_table(fit.top_features(TOP_FEATURES).set_index("topic"), folder / "top_features.csv")
    _write_table(fit.trace.set_index("iteration"), folder / "trace.csv")


def _by_topic(values: NDArray, labels: Sequence[str], names: NDArray | None, what: str, first: int = 0) -> pd.DataFrame:
    rows = names if names is not None else [f"{what} {first + i}" for i in range(len(values))]
    return pd.DataFrame(values, index=pd.Index(rows, name=what), columns=list(labels))


def write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """As CSV, without the index."""
    _write_table(table.set_index(table.columns[0]), path)


def _write_table(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    with replacing(path) as temporary:
        write_csv(table, temporary, index=True)
