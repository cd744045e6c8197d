"""What passes between `read` and the readers of single formats: the options of the user, and the counts of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from unmix.counts import Counts
from unmix.memory import require

if TYPE_CHECKING:
    from unmix.fit import Fit

StopWords = str | os.PathLike[str] | Iterable[str] | None
SMALLER = "take fewer samples or features"


@dataclass(frozen=True)
class ReadOptions:
    """The options of `read`, as the user gave them."""

    layer: str | None = None
    raw: bool = False
    transpose: bool | None = None
    text_column: str | None = None
    id_column: str | None = None
    title_column: str | None = None
    snippets: bool = False
    encoding: str | None = None
    skip_bad: bool = False
    min_df: int | float | None = None
    max_df: int | float | None = None
    stop_words: StopWords = "english"
    ngrams: int | tuple[int, int] = 1
    like: Fit | None = None
    streamed: bool = False  # the matrix is to come in blocks, where it may be larger than memory

    def given(self, *names: str) -> list[str]:
        """Which of these options the user gave."""
        return [name for name in names if getattr(self, name) != getattr(ReadOptions, name)]

    @property
    def earlier_text_column(self) -> str | None:
        """Where the texts of the model `like` came from."""
        return None if self.like is None or self.like.text is None else self.like.text.get("text_column")


@dataclass
class RawCounts:
    """What a file holds, samples × features; `read` gives it unique names, checks it and makes it Counts.

    `notes` are what the user should know; `read` says them once all went well. `bare` is a matrix whose names may lie
    in files beside it.
    """

    matrix: Any  # an array of numpy, a sparse one of scipy in any form, or `Blocks`
    samples: list[str] | None = None
    features: list[str] | None = None
    metadata: pd.DataFrame | None = None
    text: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    bare: bool = False

    def __post_init__(self) -> None:
        if self.metadata is not None and not len(self.metadata.columns):
            self.metadata = None

    def transposed(self) -> RawCounts:
        """Rows become columns. A table that described the rows has no place then, and is left out."""
        notes = list(self.notes)
        if self.metadata is not None:
            notes.append(f"left out, as features have no room for more than a name: {listed(self.metadata.columns)}")
        return RawCounts(self.matrix.T, self.features, self.samples, None, self.text, notes, self.bare)


def require_room(samples: int, features: int, nonzeros: int) -> None:
    """Refuse what a header declares if it is larger than memory, before any of it is made."""
    # 8 bytes per value and 4 per index, once as read and once as kept; 8 bytes for the start of each row and column
    what = f"a matrix of {samples:,} × {features:,} with {nonzeros:,} entries"
    require(24 * nonzeros + 16 * (samples + features), what, SMALLER)


def with_sound_indices(matrix: Any) -> Any:
    """A matrix from a file, once its indices are known to lie inside it: the kernels trust us."""
    if hasattr(matrix, "check_format"):
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"its indices are damaged ({error})") from error
    return matrix


def listed(names: Iterable[object]) -> str:
    """'a', 'b', 'c', 'd' and 3 more."""
    quoted = [repr(str(name)) for name in names]
    return ", ".join(quoted[:4]) + (f" and {len(quoted) - 4:,} more" if len(quoted) > 4 else "")


def checked(raw: RawCounts) -> Counts:
    """Counts, or an error about a value that speaks of it by name; Counts itself knows positions only."""
    try:
        return Counts(raw.matrix, raw.samples, raw.features, raw.metadata, raw.text)
    except ValueError:
        _refuse_value(raw)
        raise


def _refuse_value(raw: RawCounts) -> None:
    """Name the first value that is no count, if there is one and names are known."""
    values = raw.matrix.data if sp.issparse(raw.matrix) else raw.matrix
    if raw.samples is None or raw.features is None or values.dtype.kind not in "if":
        return
    entries = sp.coo_array(raw.matrix)
    bad = np.flatnonzero(~((entries.data >= 0) & (entries.data < np.inf)))
    if bad.size:
        row, column, value = entries.row[bad[0]], entries.col[bad[0]], entries.data[bad[0]]
        raise ValueError(
            f"row {row + 1} ({raw.samples[row]!r}), column {column + 1} ({raw.features[column]!r}) "
            f"is {value:g}; unmix needs finite counts >= 0"
        )
