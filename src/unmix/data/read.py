"""Files -> Counts: one small function a format, and one dictionary from a file's ending to its function.

Whatever is wrong with a file is a ValueError that begins with its name and says what is wrong, where, and what to do.
Nothing here unpickles.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.counts import Counts

FEATURES_FILE, SAMPLES_FILE = "features.txt", "samples.csv"  # may lie beside a matrix
SAMPLE_COLUMNS = ("sample", "Unnamed: 0")  # of samples.csv: where the names are; pandas' word for an empty header cell
INDEX_WORDS = {"id", "index", "row", "sample", "sample_id", "name", "doc", "doc_id", "document", "cell", "barcode"}
ONLY_EMPTY_IS_MISSING: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}  # "NA" is a name like any other


def read(path: str | os.PathLike[str]) -> Counts:
    """Counts from a file, samples × features; the ending of its name tells the format.

    - `.npz`: a sparse matrix saved by `scipy.sparse.save_npz`. A `features.txt` (one name a line) and a `samples.csv`
      (one row a sample; a column `sample`, if any, has their names) in the same folder come along if their lengths fit.
    - `.mtx`: MatrixMarket.
    - `.csv`: a table with feature names in the first row. The first column has sample names if its header cell is empty
      or if it holds text; otherwise it is the first feature.
    """
    path = Path(path)
    ending = ending_of(path)
    if ending is None:
        raise ValueError(f"{path}: unknown kind of file; unmix reads {', '.join(READERS)}")
    if path.is_dir():
        raise ValueError(f"{path}: a folder, not a {ending} file")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; check the name and the folder")
    try:
        return READERS[ending](path)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error
    except MemoryError as error:
        raise ValueError(f"{path}: too large for this machine's memory, or damaged") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def ending_of(path: Path) -> str | None:
    """Which of the known endings this name has."""
    return next((ending for ending in READERS if path.name.lower().endswith(ending)), None)


def _read_npz(path: Path) -> Counts:
    try:
        with path.open("rb") as file:
            matrix = sp.load_npz(file)  # scipy loads with allow_pickle=False
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)  # load_npz trusts the indices, and the kernels trust us
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive can fail in any way
        reason = _first_line(error).replace(f" {file}", "")
        raise ValueError(
            f"no sparse matrix that can be read ({reason}); save one with scipy.sparse.save_npz"
        ) from error
    counts = Counts(matrix)
    features = _beside(path.parent / FEATURES_FILE, _read_lines, counts.shape[1])
    metadata = _beside(path.parent / SAMPLES_FILE, _read_metadata, counts.shape[0])
    samples = None
    if metadata is not None and (column := next((name for name in metadata if name in SAMPLE_COLUMNS), None)):
        samples = metadata.pop(column)
    return Counts(counts, samples=samples, features=features, metadata=metadata)


def _beside(file: Path, load: Callable[[Path], Any], expected: int) -> Any:
    """What a file beside the matrix holds, if it is there, can be read and has as many rows as expected."""
    if not file.is_file():
        return None
    try:
        rows = load(file)
    except (ValueError, OSError) as error:
        problem = f"cannot be read ({_first_line(error)})"
    else:
        if len(rows) == expected:
            return rows
        problem = f"has {len(rows):,} rows for {expected:,}"
    warnings.warn(f"{file}: left aside, it {problem}", UserWarning, stacklevel=4)
    return None


def _read_lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")


def _read_metadata(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, encoding="utf-8-sig", **ONLY_EMPTY_IS_MISSING)


def _read_mtx(path: Path) -> Counts:
    try:
        matrix = scipy.io.mmread(path)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"not a readable MatrixMarket file ({_first_line(error)}); it may be cut short") from error
    return Counts(matrix)


def _read_csv(path: Path) -> Counts:
    header, table = _csv_parts(path)
    width = table.shape[1]
    if len(header) == width - 1:  # R's write.table leaves out the header of the row names
        header = ["", *header]
    if len(header) != width:
        raise ValueError(f"the first row has {len(header)} cells, the second {width}; every row needs as many")
    first = table[0]
    named = header[0].strip() == "" or not pd.api.types.is_numeric_dtype(first)
    samples = first.astype(str).where(first.notna(), "") if named else None
    features, table = header[int(named) :], table.iloc[:, int(named) :]
    if not features:
        raise ValueError("one column only, and it holds names; the columns of the table must be separated by commas")
    if len(set(features)) < len(features) and all(_is_number(name) for name in features):
        raise ValueError("the first row holds counts; put a row with the names of the features above it")
    counts = Counts(_checked_cells(table, samples, features), samples=samples, features=features)
    if not named and header[0].strip().lower() in INDEX_WORDS:
        warnings.warn(
            f"{path}: the first column, {header[0]!r}, holds numbers and is taken as counts; "
            "if they are names of samples, leave its header cell empty",
            UserWarning,
            stacklevel=3,
        )
    return counts


def _csv_parts(path: Path) -> tuple[list[str], pd.DataFrame]:
    """The first row as text, and the others as pandas understands them."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = next(csv.reader(file), [])
        table = pd.read_csv(
            path, header=None, skiprows=1, encoding="utf-8-sig", low_memory=False, **ONLY_EMPTY_IS_MISSING
        )
    except UnicodeDecodeError as error:
        raise ValueError("not text in UTF-8; save it again as a CSV file in UTF-8") from error
    except pd.errors.EmptyDataError as error:
        missing = "nothing below the names of the features" if header else "nothing in it"
        raise ValueError(f"there is {missing}; unmix needs one row a sample") from error
    except (csv.Error, pd.errors.ParserError) as error:
        raise ValueError(f"not a table separated by commas ({_first_line(error)})") from error
    return header, table


def _checked_cells(table: pd.DataFrame, samples: pd.Series | None, features: list[str]) -> NDArray[np.float64]:
    """The cells as numbers, or an error that names the first that is not a count."""
    values = np.empty(table.shape)
    for column, (_, cells) in enumerate(table.items()):
        values[:, column] = pd.to_numeric(cells, errors="coerce")
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~((values[:, column] >= 0) & (values[:, column] < np.inf)))
        if bad.size:
            row = int(bad[0])
            name = "" if samples is None else f" ({samples.iloc[row]!r})"
            cell = "empty" if pd.isna(cells.iloc[row]) else repr(cells.tolist()[row])
            raise ValueError(
                f"row {row + 1}{name}, column {column + 1} ({features[column]!r}) is {cell}; "
                "unmix needs finite counts >= 0 in every cell, 0 for none"
            )
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line.removeprefix("Error tokenizing data. C error: ").rstrip(".")


READERS: dict[str, Callable[[Path], Counts]] = {
    ".npz": _read_npz,
    ".mtx": _read_mtx,
    ".csv": _read_csv,
}
