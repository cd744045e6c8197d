"""Excel workbooks, `.xlsx`: the first sheet is a table as any other."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pandas as pd

from unmix.data.read.files import extra, unless_damaged
from unmix.data.read.matrices import ONLY_EMPTY_IS_MISSING
from unmix.data.read.raw_counts import SMALLER, RawCounts, ReadOptions, listed
from unmix.data.read.tables import from_table
from unmix.memory import require

BYTES_A_BYTE = 10  # of memory, for one of a sheet's XML


def read_xlsx(path: Path, options: ReadOptions) -> RawCounts:
    extra("openpyxl", "reading .xlsx", "excel")
    with unless_damaged("not a readable .xlsx file ({}); it may be cut short", MemoryError, PermissionError):
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        require(BYTES_A_BYTE * size, "its sheets", SMALLER)
        with pd.ExcelFile(path, engine="openpyxl") as book:
            sheets = [str(name) for name in book.sheet_names]
            cells = pd.read_excel(book, sheet_name=0, header=None, **ONLY_EMPTY_IS_MISSING)
    header, table = _table(cells)
    raw = from_table(header, table, options)
    if len(sheets) > 1:
        raw.notes.append(f"the sheet {sheets[0]!r} was read; left out: {listed(sheets[1:])}")
    return raw


def _table(cells: pd.DataFrame) -> tuple[list[str], pd.DataFrame]:
    """The first row that is not empty, and what stands below it; empty rows and columns, which Excel likes to keep, aside."""
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    if len(cells) < 2:
        raise ValueError("its first sheet has no table; unmix needs a row of names and one row a sample")
    header = ["" if pd.isna(name) else str(name) for name in cells.iloc[0]]
    table = cells.iloc[1:].set_axis(range(len(header)), axis=1).reset_index(drop=True)
    return header, table.infer_objects()
