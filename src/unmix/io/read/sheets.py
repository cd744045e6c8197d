"""Excel workbooks, `.xlsx`: the first sheet is a table as any other.

Only cells that are in the file are read, wherever they are: a sheet may declare 17 thousand million of them and hold two.
"""

from __future__ import annotations

import base64
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unmix.base.memory import require
from unmix.io.read.blocks import SMALLER, part_size
from unmix.io.read.files import extra, first_line, unless_damaged
from unmix.io.read.raw_counts import RawCounts, ReadOptions, listed
from unmix.io.read.tables import CELLS, Part, Table, from_table

BYTES_A_BYTE = 10  # of memory, for one of a sheet's XML
Cell = tuple[int, int, Any]  # row, column, value


def read_xlsx(path: Path, options: ReadOptions) -> RawCounts:
    extra("openpyxl", "reading .xlsx")
    with unless_damaged("not a readable .xlsx file ({}); it may be cut short", MemoryError, PermissionError):
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        require(BYTES_A_BYTE * size, "its sheets", SMALLER)
        sheets, cells = _read(path)
    part = _table(cells)
    raw = from_table(Table(lambda texts: iter([part])), options)
    if len(sheets) > 1:
        raw.notes.append(f"the sheet {sheets[0]!r} was read; omitted: {listed(sheets[1:])}")
    return raw


def _read(path: Path) -> tuple[list[str], list[Cell]]:
    """The names of the sheets, and the cells of the first one that are not empty."""
    import openpyxl
    from openpyxl.worksheet._reader import WorkSheetParser

    book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    try:
        if not book.worksheets:
            raise ValueError("no sheet in it")
        sheet = book.worksheets[0]
        # What openpyxl's own loop over rows reads from; that loop makes all cells in between.
        with sheet._get_source() as source:
            parser = WorkSheetParser(
                source,
                sheet._shared_strings,
                data_only=True,
                epoch=book.epoch,
                date_formats=book._date_formats,
                timedelta_formats=book._timedelta_formats,
            )
            cells = [
                (cell["row"], cell["column"], _whole(cell["value"]))
                for _, row in parser.parse()
                for cell in row
                if cell["value"] not in (None, "") and cell["data_type"] != "e"
            ]
        return [str(name) for name in book.sheetnames], cells
    finally:
        book.close()


def _whole(value: Any) -> Any:
    """Excel has fractions only; whole ones are meant as such."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _table(cells: list[Cell]) -> tuple[list[str], pd.DataFrame]:
    """The first row that is not empty, and what is below it; empty rows and columns, which Excel likes to keep, aside."""
    rows, row = np.unique([cell[0] for cell in cells], return_inverse=True)
    columns, column = np.unique([cell[1] for cell in cells], return_inverse=True)
    if len(rows) < 2:
        raise ValueError("its first sheet has no table; unmix needs a row of names and one row per sample")
    require(16 * len(rows) * len(columns), f"a sheet of {len(rows):,} rows and {len(columns):,} columns", SMALLER)
    values = np.full((len(rows), len(columns)), np.nan, dtype=object)
    for i, j, cell in zip(row.tolist(), column.tolist(), cells, strict=True):
        values[i, j] = cell[2]
    header = ["" if pd.isna(name) else str(name) for name in values[0]]
    return header, pd.DataFrame(values[1:]).infer_objects()


# Parquet tables. What their schema says is read as data: numbers and text, and which columns were the index of a DataFrame.
#
# A schema may name types that other packages have registered (Arrow's extension types), whose code would be run as soon as the
# file is opened. So such a file is refused before that, by the words in its last bytes. Texts are read as Parquet stores them,
# each once with the numbers of the rows that have it: a file of a few kilobytes may repeat a long one a million times.

MAGIC = b"PAR1"
EXTENSION = b"ARROW:extension:name"  # the key of its name in the schema, which is in the file in base64
UNNAMED = re.compile(r"__index_level_\d+__")  # what pandas calls an index without a name


def read_parquet(path: Path, options: ReadOptions) -> RawCounts:
    with _opened(path) as (file, schema):
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        stored = [sum(group.column(j).total_uncompressed_size for j in range(group.num_columns)) for group in groups]
        require(max(stored, default=0), "the largest of its row groups", SMALLER)
    return from_table(Table(lambda texts: _parts(path), bool(_index(schema)) or None), options)


def require_room(path: Path) -> None:
    """Refuse a table that cannot be in memory as a whole, before its rows are read: a small file may have very many."""
    with _opened(path) as (file, _):
        size = file.metadata
        cells = f"{size.num_rows:,} × {size.num_columns:,} cells"
        require(16 * size.num_rows * size.num_columns, cells, SMALLER)


def _parts(path: Path) -> Iterator[Part]:
    """Some rows at a time."""
    pyarrow = extra("pyarrow", "reading .parquet")
    with _opened(path) as (file, schema):
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        row = max(1.0, sum(group.total_byte_size for group in groups) / max(1, file.metadata.num_rows))  # bytes
        rows = min(CELLS // max(1, file.metadata.num_columns), int(part_size() / row))
        for batch in file.iter_batches(max(16, rows)):
            yield _parquet_table(pyarrow.Table.from_batches([batch]), schema)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """A file of plain columns, whose texts come as dictionaries, and its schema."""
    pyarrow = extra("pyarrow", "reading .parquet")
    parquet = extra("pyarrow.parquet", "reading .parquet")
    try:
        _refuse_extensions(path)
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
        if nested := [field.name for field in schema if pyarrow.types.is_nested(field.type)]:
            raise ValueError(f"lists or records in {listed(nested)}; unmix needs one number or text per cell")
        if odd := [field.name for field in schema if _is_bytes(field.type)]:
            raise ValueError(f"bytes in {listed(odd)}; write them as numbers or text")
        texts = [field.name for field in schema if _is_text(field.type)]
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            _refuse_prefixes(file.metadata)
            yield file, schema
    except pyarrow.ArrowException as error:
        raise ValueError(f"not a readable Parquet file ({first_line(error)}); it may be cut short") from error
    except (ValueError, MemoryError):
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        raise ValueError(f"not a readable Parquet file ({first_line(error)})") from error
    except Exception as error:  # what pandas wrote into it about its columns may be damaged too
        raise ValueError(f"not a readable Parquet file ({first_line(error)})") from error


def _refuse_extensions(path: Path) -> None:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        end = file.read(8)
        file.seek(max(0, size - 8 - int.from_bytes(end[:4], "little")))
        schema = file.read() if end[4:] == MAGIC else b""  # pyarrow says what is wrong with others
    if any(word in schema for word in _in_base64(EXTENSION)):
        raise ValueError(
            "a column is of an extension type of Arrow, whose own code would read it; write it as numbers or text"
        )


def _refuse_prefixes(metadata: Any) -> None:
    """A text that is stored as what it adds to the one before may be of any length in a file of a few kilobytes."""
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            if "DELTA_BYTE_ARRAY" in column.encodings:
                raise ValueError(
                    f"column {column.path_in_schema!r} is encoded as DELTA_BYTE_ARRAY; write it with a dictionary"
                )


def _in_base64(word: bytes) -> list[bytes]:
    """How a word looks in base64, which depends on where it begins; without the letters that it shares with its neighbours."""
    found = []
    for before, shared in ((0, 0), (1, 2), (2, 3)):
        letters = base64.b64encode(bytes(before) + word + bytes(2))
        found.append(letters[shared : (before + len(word)) * 8 // 6])
    return found


def _is_bytes(kind: Any) -> bool:
    """Of which one long value may come again and again."""
    return "binary" in str(getattr(kind, "value_type", kind))


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _index(schema: Any) -> list[str]:
    """The columns that pandas had as an index."""
    said = schema.pandas_metadata
    columns = said.get("index_columns", []) if isinstance(said, dict) else []
    return [name for name in columns if isinstance(name, str) and name in schema.names]


def _parquet_table(table: Any, schema: Any) -> tuple[list[str], pd.DataFrame]:
    """The names of columns, and the columns by number, an index first. What else the schema says to pandas is left alone."""
    names, index = table.column_names, _index(schema)
    if not names or not len(table):
        raise ValueError("a table without cells; unmix needs one row per sample")
    order = [names.index(name) for name in index] + [j for j, name in enumerate(names) if name not in set(index)]
    header = ["" if name in index and UNNAMED.fullmatch(name) else name for name in (names[j] for j in order)]
    columns = table.select(order).rename_columns([str(j) for j in range(len(order))])
    texts = {
        j: _texts(columns.column(j), schema.field(order[j]).type) for j in range(len(order)) if _has_texts(columns, j)
    }
    others = [j for j in range(len(order)) if j not in texts]
    frame = columns.select(others).to_pandas(ignore_metadata=True).set_axis(others, axis=1)
    return header, pd.concat([frame, pd.DataFrame(texts)], axis=1)[[*range(len(order))]] if texts else frame


def _has_texts(table: Any, column: int) -> bool:
    from pyarrow import types

    kind = table.column(column).type
    return types.is_dictionary(kind) and _is_text(kind.value_type)


def _texts(column: Any, kind: Any) -> pd.Series:
    """Rows with the same text share it. `kind` is what the file says it is: categories, or texts."""
    from pyarrow import types

    chunks = column.unify_dictionaries().chunks
    known = pd.Index(chunks[0].dictionary.to_pylist(), dtype=object)
    places = np.concatenate([chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in chunks])
    if types.is_dictionary(kind):
        return pd.Series(pd.Categorical.from_codes(places, known, ordered=kind.ordered))
    return pd.Series(np.array([*known, None], dtype=object)[places], dtype=object)
