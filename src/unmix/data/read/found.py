"""What passes between `read` and the readers of single formats: what was asked for, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from unmix.memory import require

SMALLER = "take fewer samples or features"


@dataclass(frozen=True)
class Asked:
    """The options of `read`, as the user gave them."""

    layer: str | None = None
    raw: bool = False
    transpose: bool | None = None
    text_column: str | None = None
    min_df: int | float | None = None
    max_df: int | float | None = None
    stop_words: Any = "english"
    ngrams: Any = 1
    like: Any = None


@dataclass
class Found:
    """What a file holds, samples × features; `read` gives it unique names, checks it and makes it Counts.

    `notes` are what the user should know; `read` says them once all went well. `bare` is a matrix whose names may lie
    in files beside it.
    """

    matrix: Any
    samples: list[str] | None = None
    features: list[str] | None = None
    metadata: pd.DataFrame | None = None
    text: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    bare: bool = False

    def transposed(self) -> Found:
        """Rows become columns. A table that described the rows has no place then, and is left out."""
        notes = list(self.notes)
        if self.metadata is not None and len(self.metadata.columns):
            notes.append(f"{listed(self.metadata.columns)} describe features, which have no place for them: left out")
        return Found(self.matrix.T, self.features, self.samples, None, self.text, notes, self.bare)


def require_room(samples: int, features: int, nonzeros: int) -> None:
    """Refuse what a header declares if it is larger than memory, before any of it is made."""
    # 8 bytes a value and 4 an index, once as read and once as kept; 8 bytes for the start of each row and column
    require(24 * nonzeros + 16 * (samples + features), f"a matrix of {samples:,} × {features:,}", SMALLER)


def with_sound_indices(matrix: Any) -> Any:
    """A matrix from a file, once its indices are known to lie inside it: the kernels trust us."""
    if hasattr(matrix, "check_format"):
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"its indices are damaged ({error})") from error
    return matrix


def listed(names: Any, most: int = 4) -> str:
    """'a', 'b', 'c', 'd' and 3 more."""
    names = list(names)
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")
