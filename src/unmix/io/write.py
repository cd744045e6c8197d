"""Writing: the folder of a fit, its tables, files of counts. Cells that a spreadsheet would take for a formula are escaped.

Cells that a spreadsheet would take for a formula: written so that it shows them, read as they were.

A text that begins with = + - @, a tab or a line's end is computed by a program that opens the file, and may start others
(CWE-1236; OWASP, "CSV Injection"). It is written after an apostrophe, which makes it text, and our readers take that away
again. Numbers are left alone, and so are texts that are numbers, such as +1 and -0.5. A text that begins with apostrophes
before such a letter gets another one: what was written is what is read.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.base.memory import errors_about, npy_rows
from unmix.base.types import numbered
from unmix.counts.counts import Counts
from unmix.fit import Fit
from unmix.registry import ANALYSES
from unmix.storage.files import claimed, is_claimed, is_temporary, replacing, replacing_folder
from unmix.storage.fit_file import MODEL_FILE, is_fit

FORMULA = re.compile(r"'*[=+\-@\t\r\n\0]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def guarded(text: str) -> str:
    """
    >>> [guarded(text) for text in ("=1+1", "'=1", "bee", "-log", "-1.5")]
    ["'=1+1", "''=1", 'bee', "'-log", '-1.5']
    """
    return f"'{text}" if _is_formula(text) else text


def unguarded(text: str) -> str:
    """
    >>> [unguarded(guarded(text)) for text in ("=1+1", "'=1", "bee", "'bee'", "-1.5")]
    ['=1+1', "'=1", 'bee', "'bee'", '-1.5']
    """
    return text[1:] if text[:1] == "'" and _is_formula(text[1:]) else text


def _is_formula(text: str) -> bool:
    return FORMULA.match(text) is not None and NUMBER.fullmatch(text) is None


def write_csv(table: pd.DataFrame, path: str | os.PathLike[str], *, index: bool = False, **how: Any) -> None:
    """A table as CSV in UTF-8. Every table that the library writes goes through here."""
    safe = _texts(table, guarded).rename(columns=_guarded_name)
    if index:
        safe.index = safe.index.map(_guarded_name)
    if _has_returns(safe, index):  # which pandas would write without quotes, as the end of a row
        how = {"quoting": csv.QUOTE_NONNUMERIC} | how
    safe.to_csv(Path(path), index=index, encoding="utf-8", lineterminator="\n", **how)


LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    c: f"\\{c}" for c in "&%$#_{}"
}


def write_latex(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """A table for LaTeX, with the rules of its package booktabs; numbers on the right, with four digits."""

    def cell(value: Any) -> str:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        return "" if value is None or value != value else "".join(LATEX.get(letter, letter) for letter in text)

    sides = "".join("r" if pd.api.types.is_numeric_dtype(kind) else "l" for kind in table.dtypes)
    rows = [" & ".join(map(cell, row)) + r" \\" for row in [table.columns, *table.to_numpy(object)]]
    lines = [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", rows[0], r"\midrule", *rows[1:]]
    Path(path).write_text("\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""]), encoding="utf-8")


def _has_returns(table: pd.DataFrame, index: bool) -> bool:
    texts = [column for _, column in table.items() if not pd.api.types.is_numeric_dtype(column.dtype)]
    cells = chain(table.columns, table.index if index else (), *texts)
    return any("\r" in cell for cell in cells if isinstance(cell, str))


def unguarded_table(header: list[str], table: pd.DataFrame) -> tuple[list[str], pd.DataFrame]:
    """What was read of such a file, as it was before it was written."""
    return [unguarded(name) for name in header], _texts(table, unguarded)


def _guarded_name(name: Any) -> Any:
    return guarded(name) if isinstance(name, str) else name


def _texts(table: pd.DataFrame, change: Any) -> pd.DataFrame:
    """With another text in every cell that is one; a table without any is given back as it is."""
    for place, kind in enumerate(table.dtypes):
        if pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
            continue
        column = table.iloc[:, place]
        changed = column.astype(object).map(lambda cell: change(cell) if isinstance(cell, str) else cell)
        if not changed.equals(column.astype(object)):
            table = table.copy(deep=False)
            table.isetitem(place, changed)
    return table


# Fits and tables -> files.
#
# A fit's model and tables are written next to the folder's place and then swapped in: a reader sees old or new results, never a
# mixture. What may fail comes after what must not be lost: the model, then tables, then figures and the report, each on its own.

CHECKPOINT_FILE = "checkpoint.safetensors"
TABLES = ("proportions.csv", "exposures.csv", "topics.csv", "top_features.csv", "trace.csv")
VIEWS = ("structure.png", "report.html")
# All files of analyses that may lie in the folder of a fit
STEMS = "|".join([*(row.stem for row in ANALYSES.values()), *(name for row in ANALYSES.values() for name in row.also)])
EACH = "|".join(name for row in ANALYSES.values() for name in row.pictures)
ANSWERS = re.compile(rf"({STEMS})(-\w+)?\.(safetensors|csv|png|html)|({EACH})-\d+\.png")
TOP_FEATURES = 20  # per topic, in top_features.csv

Write = Callable[[Path], None]
Failures = dict[str, BaseException]  # by the names of the files that could not be written


def write_fit(fit: Fit, folder: str | os.PathLike[str], *, force: bool = False, answers: bool = False) -> Failures:
    """Write model.safetensors, proportions.csv, exposures.csv, topics.csv, top_features.csv and trace.csv to a folder.
    Exposures are proportions times sizes: how many counts of a sample each topic accounts for.

    An earlier fit in that folder is replaced with all that belongs to it; with `answers` its analyses stay. Other files stay.
    A folder that holds something else is refused unless `force` is set. Raises if the model cannot be written; tables that
    cannot be written are returned.
    """
    target = check_folder(folder, force=force)
    with replacing_folder(target, stays) as fresh:
        fit.save(fresh / MODEL_FILE, resumable=fit.status != "converged")
        failed = write_each(fresh, _tables(fit))
        for name in os.listdir(target) if answers and target.is_dir() else ():
            if ANSWERS.fullmatch(name):
                shutil.copy2(target / name, fresh / name)
    return failed


def write_each(folder: Path, files: Mapping[str, Write]) -> Failures:
    """Write files to a fit's folder one after the other, each on its own. What fails is returned, and Ctrl-C ends it; what is
    there stays. New files have the permissions of the model."""
    failed: Failures = {}
    for name, write in files.items():
        try:
            if any(isinstance(error, KeyboardInterrupt) for error in failed.values()):
                raise KeyboardInterrupt
            with replacing(folder / name, like=folder / MODEL_FILE) as temporary:
                write(temporary)
        except (Exception, KeyboardInterrupt) as error:
            failed[name] = error
    return failed


def claim(folder: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """The lock of a folder: no other process writes to it in the meantime. What a killed process left there is put in order
    first. A folder that stands where nothing can be written has no lock: it cannot be replaced."""
    target = Path(folder).resolve()
    locked = not target.is_dir() or os.access(target.parent, os.W_OK | os.X_OK)
    return claimed(target, stays) if locked else nullcontext()


def adding_to(folder: str | os.PathLike[str]) -> AbstractContextManager[None]:
    """The lock of a folder of results, for a command that adds a file to it; none for other folders, which are never
    replaced."""
    target = Path(folder).resolve()
    results = any((target / name).is_file() for name in (MODEL_FILE, CHECKPOINT_FILE)) or is_claimed(target)
    return claim(target) if results else nullcontext()


def stays(name: str) -> bool:
    """Whether a file of an earlier fit's folder goes over into the new one: all that does not belong to that fit, such as its
    analyses, and what a killed process did not finish."""
    ours = name in (MODEL_FILE, CHECKPOINT_FILE, *TABLES, *VIEWS) or ANSWERS.fullmatch(name) is not None
    return not ours and not is_temporary(name)


def is_of_a_fit(path: Path) -> bool:
    """Whether a file is a fit, or is written and replaced together with one."""
    own = path.name in (MODEL_FILE, CHECKPOINT_FILE, *TABLES, *VIEWS)
    return (own and (path.parent / MODEL_FILE).is_file()) or is_fit(path)


def check_folder(folder: str | os.PathLike[str], *, force: bool = False, files: Sequence[str] = ()) -> Path:
    """The absolute path of a folder to which results may be written, one that is new, empty, or known by one of these files as
    holding earlier ones; otherwise an error that says why not. Without files, the folder of a fit, which is replaced."""
    target = Path(folder).resolve()
    if target.is_dir():
        if not files and (Path.cwd().is_relative_to(target) or target.is_mount()):
            raise FileExistsError(f"{folder}: cannot be replaced while it is in use; use a new folder inside it")
        earlier = any((target / name).is_file() for name in files or (MODEL_FILE, CHECKPOINT_FILE))
        if not force and any(target.iterdir()) and not earlier:
            whose = "such results" if files else "a fit's"
            raise FileExistsError(
                f"{folder}: holds files that are not {whose}; use a different folder, or add to this one with --force"
            )
    elif target.exists():
        raise FileExistsError(f"{folder}: is a file; use a folder for the results")
    parent = next(parent for parent in target.parents if parent.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder}: no permission to write in {parent}; use another folder")
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
    written, shape = 0, (n, len(labels))
    as_array = Path(path).suffix.lower() == ".npy"
    with replacing(path) as temporary, npy_rows(temporary, shape, str(path)) if as_array else nullcontext() as append:

        def write(proportions: NDArray, samples: NDArray | None) -> None:
            nonlocal written
            if append is not None:
                append(proportions)
            else:
                table = _by_topic(proportions, labels, samples, "sample", written)
                with errors_about(str(path)):
                    write_csv(table, temporary, index=True, mode="a", header=not written)
            written += len(proportions)

        yield write


def fit_beside(path: Path) -> Path:
    """The file that says how well each sample fits the model, in addition of its proportions."""
    return path.with_name(f"{path.stem}-fit.csv")


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


def _tables(fit: Fit) -> dict[str, Write]:
    """What writes each of the tables to a path."""
    return {
        "proportions.csv": lambda path: write_proportions(fit.proportions, fit.samples, path, fit.labels),
        "exposures.csv": lambda path: write_proportions(fit.exposures, fit.samples, path, fit.labels),
        "topics.csv": lambda path: write_table(
            _by_topic(fit.topics, fit.labels, fit.features, "feature"), path, index=True
        ),
        "top_features.csv": lambda path: write_table(fit.top_features(TOP_FEATURES), path),
        "trace.csv": lambda path: write_table(fit.trace, path),
    }


def _by_topic(values: NDArray, labels: Sequence[str], names: NDArray | None, what: str, first: int = 0) -> pd.DataFrame:
    rows = pd.Index(numbered(names, what, len(values), first + 1), name=what)
    return pd.DataFrame(values, index=rows, columns=list(labels))


def write_table(table: pd.DataFrame, path: str | os.PathLike[str], *, index: bool = False) -> None:
    """As CSV, whole or not there."""
    with replacing(path) as temporary:
        write_csv(table, temporary, index=index)
