"""Files of tables: `.csv`, `.tsv` and the like, whatever separates their cells; Excel's `.xlsx`, whose first sheet is read;
Parquet.

Of a sheet only cells that are in the file are read, wherever they are: it may declare 17 thousand million of them and hold two.
"""

from __future__ import annotations

import base64
import csv
import re
import zipfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from unmix.base.memory import require
from unmix.io.options import ReadOptions, listed
from unmix.io.read.blocks import SMALLER, part_size
from unmix.io.read.files import ONLY_EMPTY_IS_MISSING, extra, first_line, opened_text, unless_damaged
from unmix.io.read.names import FEATURE_WORDS, is_number, names_samples, words_in
from unmix.io.read.raw_counts import RawCounts
from unmix.io.read.tables import CELLS, Part, Table, from_table, size_of
from unmix.io.write import unguarded_table

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
MOST_COMMENTS = 1_000  # lines above a header


def read_csv(path: Path, options: ReadOptions) -> RawCounts:
    return _separated(path, ",;\t|", options)


def read_tsv(path: Path, options: ReadOptions, separators: str = "\t,;|") -> RawCounts:
    return _separated(path, separators, options)


def _separated(path: Path, separators: str, options: ReadOptions) -> RawCounts:
    return from_table(Table(lambda texts: _rows_in_parts(path, separators, options.encoding, texts)), options)


def _rows_in_parts(path: Path, separators: str, encoding: str | None, texts: frozenset[int]) -> Iterator[Part]:
    """The first row as text, and the others as pandas understands them, some at a time; what may be names stays text."""
    with _parsed(path, separators, encoding, texts) as (header, separator, file, rules):
        most, looked_at = max(16, CELLS // max(1, len(header))), False
        with pd.read_csv(file, iterator=True, **rules) as tables:
            rows = min(most, _rows_of(path, encoding))
            while (table := _next_rows(tables, rows)) is not None:
                rows = max(
                    16, min(most, int(len(table) * part_size() / max(1, size_of(table))))
                )  # texts may become longer
                table.index = pd.RangeIndex(len(table))
                width = table.shape[1]
                if len(header) == width - 1:  # R's write.table omits the header of the row names
                    header = ["", *header]
                if len(header) != width:
                    problem = f"the first row has {len(header)} cells, the second {width}"
                    raise ValueError(f"{problem}; every row needs the same number")
                if not looked_at and (table[width - 1].isna().any() or _has_lines(table)):
                    _refuse_odd_rows(path, separator, width, encoding, separators)
                    looked_at = True  # at all rows
                if table[0].isna().any():
                    table = table.dropna(how="all", ignore_index=True)
                if len(table):
                    yield unguarded_table(header, table)


def _rows_of(path: Path, encoding: str | None) -> int:
    """How many rows have about the number of letters that is read at once, as the first lines show."""
    with opened_text(path, encoding, nul=False) as file:
        sample = file.read(1 << 20)
    return max(16, int(part_size()) * (sample.count("\n") + 1) // max(1, len(sample)))


def _next_rows(tables: Any, rows: int) -> pd.DataFrame | None:
    try:
        return tables.get_chunk(rows)
    except StopIteration:
        return None


@contextmanager
def _parsed(
    path: Path, separators: str, encoding: str | None, texts: frozenset[int]
) -> Iterator[tuple[list[str], str, IO[str], dict[str, Any]]]:
    """The header of a table, what separates its cells, the file after its header, and how pandas is to read that."""
    comments, separator = head_of(path, encoding, separators)
    with opened_text(path, encoding, nul=False) as file:
        deque(islice(file, comments), maxlen=0)
        header: list[str] = []
        try:
            reader = csv.reader(file, delimiter=separator)
            header = next(reader, [])
            names = {j: str for j, name in enumerate(header) if j == 0 or _may_be_names(name)}
            names |= dict.fromkeys(texts, str)
            rules = {"sep": separator, "header": None, "dtype": names, "low_memory": False}
            yield header, separator, file, rules | ONLY_EMPTY_IS_MISSING
        except pd.errors.EmptyDataError as error:
            missing = "nothing below the names of the features" if header else "nothing in it"
            raise ValueError(f"there is {missing}; unmix needs one row per sample") from error
        except (csv.Error, pd.errors.ParserError) as error:
            if ragged := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
                expected, line, cells = map(int, ragged.groups())
                raise ValueError(
                    f"line {line + reader.line_num + comments} has {cells} cells, those before it {expected}; "
                    "every row needs the same number"
                ) from error
            raise ValueError(f"not a table separated by {SEPARATORS[separator]} ({first_line(error)})") from error


def head_of(path: Path, encoding: str | None, separators: str) -> tuple[int, str]:
    """How many lines of comments are above the header, and what separates its cells: blanks only if numbers are between
    those of the next line, as R's write.table writes them."""
    with opened_text(path, encoding) as file:
        lines = [file.readline(csv.field_size_limit())]
        while lines[-1].startswith("#") and len(lines) <= MOST_COMMENTS:
            lines.append(file.readline(csv.field_size_limit()))
        lines.append(file.readline(csv.field_size_limit()))
    separator = next((one for one in separators if len(cells_of(lines[-2], one)) > 1), "")
    if not separator:
        separator = " " if between_blanks(*lines[-2:]) else separators[0]
    comments = len(lines) - 2
    if comments:  # the last of them may be a header, such as #OTU ID
        above, below = (len(cells_of(line, separator)) for line in lines[-3:-1])
        comments -= above > 1 and below - above in (0, 1)
    return comments, separator


def cells_of(line: str, separator: str) -> list[str]:
    with suppress(csv.Error):
        return next(csv.reader([line.rstrip("\r\n")], delimiter=separator), [])
    return []


def between_blanks(header: str, below: str) -> bool:
    """Whether blanks separate the cells of a table, whose second line has numbers after a name."""
    names, cells = (cells_of(line, " ") for line in (header, below))
    numbers = len(cells) > 1 and all(map(is_number, cells[1:]))
    return numbers and len(names) > 1 and len(cells) - len(names) in (0, 1) and not all(map(is_number, names))


def _may_be_names(header: str) -> bool:
    return header.strip() != "" and (names_samples(header) or bool(words_in(header) & FEATURE_WORDS))


def _has_lines(table: pd.DataFrame) -> bool:
    """Whether a cell has several lines, as one does whose quotation mark is not closed."""
    texts = (column for _, column in table.items() if column.dtype.kind not in "biuf")
    return any(isinstance(cell, str) and "\n" in cell for column in texts for cell in column)


def _refuse_odd_rows(path: Path, separator: str, width: int, encoding: str | None, separators: str) -> None:
    """Rows that are short, which pandas fills up, and quotation marks that are not closed: pandas takes rows below for a cell."""
    comments, _ = head_of(path, encoding, separators)
    with opened_text(path, encoding) as file:
        deque(islice(file, comments), maxlen=0)
        reader, row, last = csv.reader(file, delimiter=separator, strict=True), -1, 0
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if "expected after" not in str(
                    error
                ):  # too long a cell for Python's reader, though not for that of pandas
                    return
                if reader.line_num > last + 1:
                    raise ValueError(
                        f"line {last + 1 + comments} opens a quotation mark that is closed within a cell, in line "
                        f"{reader.line_num + comments}: the rows between would be a text; write such marks twice"
                    ) from error
                cells = [""] * width
            row, last = row + bool(cells), reader.line_num
            if row > 0 and 0 < len(cells) < width:
                raise ValueError(
                    f"row {row} (line {reader.line_num + comments}) has {len(cells)} cells, others {width}; "
                    "every row needs the same number"
                )


# Excel workbooks

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
    return from_table(Table(lambda texts: _parts(path), len(_index(schema)) or None), options)


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
    header = ["" if name in index[:1] and UNNAMED.fullmatch(name) else name for name in (names[j] for j in order)]
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
