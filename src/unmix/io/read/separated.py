"""Text files of tables, `.csv`, `.tsv` and the like: what separates their cells, comments above the header, rows in parts."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from unmix.io.read.blocks import part_size
from unmix.io.read.files import ONLY_EMPTY_IS_MISSING, first_line, opened_text
from unmix.io.read.names import FEATURE_WORDS, names_samples, words_in
from unmix.io.read.raw_counts import RawCounts, ReadOptions
from unmix.io.read.tables import CELLS, Part, Table, from_table, is_number, size_of
from unmix.io.write import unguarded_table

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
MOST_COMMENTS = 1_000  # lines above a header


def read_csv(path: Path, options: ReadOptions) -> RawCounts:
    return _separated(path, ",;\t|", options)


def read_tsv(path: Path, options: ReadOptions) -> RawCounts:
    return _separated(path, "\t", options)


def _separated(path: Path, separators: str, options: ReadOptions) -> RawCounts:
    return from_table(Table(lambda texts: _parts(path, separators, options.encoding, texts)), options)


def _parts(path: Path, separators: str, encoding: str | None, texts: frozenset[int]) -> Iterator[Part]:
    """The first row as text, and the others as pandas understands them, some at a time; what may be names stays text."""
    with _parsed(path, separators, encoding, texts) as (header, separator, file, rules):
        most, short = max(16, CELLS // max(1, len(header))), False
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
                if not short and table[width - 1].isna().any():  # pandas fills up short rows
                    _refuse_short_rows(path, separator, width, encoding, separators)
                    short = True  # all rows have been looked at
                yield unguarded_table(header, table)


def _rows_of(path: Path, encoding: str | None) -> int:
    """How many rows have about as many letters as are read at once, as the first lines show."""
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
    """How many lines of comments stand above the header, and what separates its cells: blanks only if numbers stand between
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


def _refuse_short_rows(path: Path, separator: str, width: int, encoding: str | None, separators: str) -> None:
    comments, _ = head_of(path, encoding, separators)
    with opened_text(path, encoding) as file:
        deque(islice(file, comments), maxlen=0)
        reader = csv.reader(file, delimiter=separator)
        next(reader)
        row = 0
        with suppress(csv.Error):  # a cell too long for Python's reader, though not for that of pandas
            for cells in reader:
                row += bool(cells)
                if 0 < len(cells) < width:
                    raise ValueError(
                        f"row {row} (line {reader.line_num + comments}) has {len(cells)} cells, others {width}; "
                        "every row needs the same number"
                    )
