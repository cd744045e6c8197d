"""What every analysis gives back: a frozen `Result` with a table, advice as text, and a file.

An analysis of many fits goes through its parts with `in_parts`: what is finished survives Ctrl-C, and the end of the program
where there is a file to keep it in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from html import escape
from operator import attrgetter
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from msgspec import Meta, Struct
from numpy.typing import NDArray

from unmix.base.progress import Progress
from unmix.base.types import Record, as_names, as_plain
from unmix.registry import ANALYSES, public
from unmix.storage import tensors
from unmix.storage.fit_file import is_fit, table_from_json, table_to_json
from unmix.storage.schema import Gap, Whole, check_bounds, check_fields, check_rows, checked, kind_of
from unmix.storage.tensors import Arrays, as_bytes, from_json

FORMAT = 1
# A table in a notebook or a session: one screen, numbers with the digits that a reader compares.
SHOWN: Any = {
    "max_rows": 12,
    "index": False,
    "na_rep": "–",
    "float_format": lambda x: f"{x:,.0f}" if abs(x) >= 1e3 else f"{x:.4g}",
}
WIDTH = 92
Finished = Literal["finished", "interrupted"]


@dataclass(frozen=True)
class FileLayout:
    """What a file must hold besides fields of the right types: shapes of arrays, letters standing for equal sizes ("nK", "mK"),
    and types of the columns of tables."""

    shapes: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by the names of tables
    places: Mapping[str, str] = field(default_factory=dict)  # arrays of places, −1 for none, and of what: a letter


def shapes(text: str) -> dict[str, str]:
    """Shapes by the names of arrays.

    >>> shapes("nK low high, m eta")
    {'low': 'nK', 'high': 'nK', 'eta': 'm'}
    """
    parts = [part.split() for part in text.split(", ")]
    return {name: shape for shape, *names in parts for name in names}


def columns(numbers: str, texts: str = "") -> dict[str, Any]:
    """Columns by their names, separated by blanks; every cell may be missing."""
    return dict.fromkeys(numbers.split(), Gap) | dict.fromkeys(texts.split(), str | None)


class Header(Struct):
    """What a file of a result says besides its arrays: which of these are JSON, and all other fields."""

    format: Whole
    kinds: dict[str, Annotated[str, Meta(pattern=r"\A(table|names)\Z")]]
    plain: dict[str, Any]


class Parts(Struct):
    """The same of a file of finished parts."""

    done: list[Whole]


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Arrays of numbers, names, tables, and what JSON can say; subclasses are frozen dataclasses of such fields, with a
    `table`."""

    LAYOUT: ClassVar[FileLayout] = FileLayout()
    ROW: ClassVar[str] = ""  # the result of its row in the registry, where that is a different class
    ANSWERS: ClassVar[bool] = False  # whether the first sentence of advice is the answer itself

    @property
    def summary(self) -> pd.DataFrame:
        """DataFrame: what fits one screen; the table itself, unless that is long."""
        return attrgetter("table")(self)

    @property
    def facts(self) -> Record:
        """dict: what it says in single numbers and words, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: as_plain(value)
            for name, value in values.items()
            if np.ndim(value) == 0 and not hasattr(value, "keys") and name not in self.LAYOUT.shapes
        }

    def _headline(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.facts.items())})"

    def __repr__(self) -> str:
        rows = self.summary.to_string(**SHOWN, max_colwidth=40, line_width=WIDTH)
        return "\n".join([self._headline(), rows, *(f"- {text}" for text in self.advice())])

    def _repr_html_(self) -> str:
        rows = self.summary.to_html(**SHOWN, border=0)
        said = "".join(f"<li>{escape(text)}</li>" for text in self.advice())
        return f"<p>{escape(self._headline())}</p>{rows}<ul>{said}</ul>"

    def plot(self, *given: Any, **how: Any) -> Any:
        """Draw it, by the function of `unmix.plot` for results of its kind.

        Parameters
        ----------
        *given : Any
            Passed on, such as the fit where the figure needs it.
        **how : Any
            Passed on, such as `ax`.

        Returns
        -------
        Axes or array of Axes
            What it was drawn in.

        Raises
        ------
        NotImplementedError
            If there is no such figure.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[90, 10, 0], [80, 20, 10], [0, 10, 70], [10, 0, 80]]
        >>> um.stability(X, 2, runs=2, random_state=0).plot(what="topics").get_xlabel()
        'stability: ...'
        """
        for row in ANALYSES.values():
            if row.result == (self.ROW or type(self).__name__) and row.pictures:
                return public(f"plot.{row.pictures[0]}")(self, *given, **how)
        raise NotImplementedError(f"there is no figure of a {type(self).__name__}; plot its table")

    def advice(self) -> list[str]:
        """What a user may want to know or do, as text.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.
        """
        return []

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one file, atomically; the class's `load` reads it.

        Parameters
        ----------
        path : str or PathLike
            Where to; by custom it ends in ".safetensors".

        Raises
        ------
        OSError
            If it cannot be written; what was there is then as it was.
        ValueError
            If something in it is not of its type, and so could not be read again.

        Examples
        --------
        >>> import tempfile, unmix as um
        >>> fit = um.PoissonNMF.from_factors([[8, 0], [2, 5], [0, 5]]).result_
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     um.compare(fit, fit).save(f"{folder}/comparison.safetensors")
        ...     um.Comparison.load(f"{folder}/comparison.safetensors").table["cosine"].round(6).tolist()
        [1.0, 1.0]
        """
        arrays: Arrays = {}
        kinds: dict[str, str] = {}
        plain: Record = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, pd.DataFrame):
                arrays[one.name], kinds[one.name] = as_bytes(table_to_json(value)), "table"
            elif isinstance(value, np.ndarray) and value.dtype.kind in "USO":
                arrays[one.name], kinds[one.name] = as_bytes(value.tolist()), "names"
            elif isinstance(value, np.ndarray):
                arrays[one.name] = value
            else:
                plain[one.name] = value
        meta = as_plain({"kind": type(self).__name__, "format": FORMAT, "kinds": kinds, "plain": plain})
        try:
            self._restored(arrays, meta)
        except UNFIT as error:
            raise ValueError(f"{path}: not written, as a file of this could not be read again ({error})") from None
        if is_fit(Path(path)):
            raise ValueError(f"{path}: not written, as a fit is there; use a different name")
        tensors.write(path, arrays, meta)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or PathLike
            The file.

        Returns
        -------
        Self
            A result of this class, as it was saved.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it holds something else, is damaged, or was written by a later version.

        Examples
        --------
        >>> import tempfile, unmix as um
        >>> fit = um.PoissonNMF.from_factors([[8, 0], [2, 5], [0, 5]]).result_
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     um.compare(fit, fit).save(f"{folder}/comparison.safetensors")
        ...     len(um.Comparison.load(f"{folder}/comparison.safetensors").table)
        2
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"{path}: no such file; use one written by {cls.__name__}.save")
        arrays, meta = tensors.read(path)
        if (kind := kind_of(meta)) != cls.__name__:
            raise ValueError(f"{path}: holds a {kind}, not a {cls.__name__}; read it with the `load` of that")
        try:
            return cls._restored(arrays, meta)
        except UNFIT as error:
            raise ValueError(f"{path}: damaged or of a different version ({error})") from None

    @classmethod
    def _restored(cls, arrays: Arrays, meta: Record) -> Self:
        """What arrays and a header say, once they are what a file of this class holds."""
        header = checked(meta, Header, "the header")
        if header.format != FORMAT:
            raise ValueError(f"format {header.format}, this version of unmix reads {FORMAT}; upgrade unmix")
        check_bounds(header.plain, "the header")
        values = {name: _read(array, name, header.kinds.get(name), cls.LAYOUT) for name, array in arrays.items()}
        found = cls(**header.plain | values)
        check_fields(found)
        _check_layout(found)
        return found


UNFIT = (KeyError, TypeError, ValueError)  # what values of other types may fail with
CELL = str | bool | int | float | None


def _read(array: NDArray[Any], name: str, kind: str | None, layout: FileLayout) -> Any:
    if kind is None:
        return array
    told = from_json(array)
    if kind == "names":
        return as_names(checked(told, list[str], name))
    needed = layout.columns.get(name, {})
    check_rows(told, name, needed, tuple(needed), CELL, unique=bool(needed))
    return table_from_json(told)


def _check_layout(found: Result) -> None:
    """Raises if arrays do not go together."""
    sizes: dict[str, int] = {}
    for name, shape in found.LAYOUT.shapes.items():
        array = getattr(found, name)
        if array is not None and not _fits(array, shape, sizes):
            raise ValueError(f"{name} has the shape {array.shape}")
    for name, of in found.LAYOUT.places.items():
        array = getattr(found, name)
        if not ((array >= -1) & (array < sizes[of])).all():
            raise ValueError(f"{name} has a place beyond {sizes[of]}")


def _fits(array: NDArray[Any], shape: str, sizes: dict[str, int]) -> bool:
    return array.ndim == len(shape) and all(
        sizes.setdefault(letter, size) == size for letter, size in zip(shape, array.shape, strict=True)
    )


def in_parts(
    parts: Sequence[Any],
    work: Callable[[Any], Arrays],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    of: Record | None = None,
    progress: Progress | None = None,
) -> tuple[list[Arrays | None], Finished]:
    """`work(part)` for every part, in order; None for those that Ctrl-C left undone.

    Parameters
    ----------
    parts
        What to do, one after the other.
    work
        Gives the arrays that a part comes to. A part's randomness is its own, so that results do not depend on where one
        stopped.
    checkpoint
        A file in which finished parts are kept, so that the same call resumes.
    of
        What the parts are of: data and parameters, in a form that JSON can say. A file of other ones is refused.
    progress
        Called after each part.
    """
    done: dict[int, Arrays] = (
        _kept(Path(checkpoint), of) if checkpoint is not None and Path(checkpoint).is_file() else {}
    )
    began, fresh = perf_counter(), 0
    try:
        with nullcontext() if progress is None else progress.begun(len(done), len(parts)):
            for place, part in enumerate(parts):
                if place not in done:
                    done[place] = work(part)
                    fresh += 1
                    if checkpoint is not None:
                        every = {f"{i}.{name}": array for i, arrays in done.items() for name, array in arrays.items()}
                        tensors.write(
                            checkpoint, every, {"kind": "parts", "format": FORMAT, "of": of, "done": sorted(done)}
                        )
                if progress is not None:
                    left = (perf_counter() - began) / fresh * (len(parts) - len(done)) if fresh else None
                    progress(len(done), len(parts), left)
    except KeyboardInterrupt:
        if not done:
            raise
    status: Finished = "finished" if len(done) == len(parts) else "interrupted"
    return [done.get(place) for place in range(len(parts))], status


def _kept(path: Path, of: Record | None) -> dict[int, Arrays]:
    arrays, meta = tensors.read(path)
    if meta.get("kind") != "parts":
        raise ValueError(f"{path}: does not hold the checkpoint of an analysis; use a different name")
    if meta.get("of") != as_plain(of):
        raise ValueError(
            f"{path}: holds a checkpoint of other data or other parameters; use a different name or remove it"
        )
    try:
        done: dict[int, Arrays] = {place: {} for place in checked(meta, Parts, "the header").done}
        for key, array in arrays.items():
            place, name = key.split(".", 1)
            done[int(place)][name] = array
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: damaged ({error}); remove it to start again") from None
    return done
