"""What the results share: where data and pictures lie, the look of pictures, tables, progress, and a section of the page.

Every number of the page comes from a table in docs/results: a result computes and writes its tables, reads them back, and its
section is a function of what it read. So the page can be written again, and tested, without computing anything.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import unmix as um

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
DATA = Path(os.environ.get("UNMIX_DATA") or ROOT.parent / "shared" / "data")
THREADS = min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)

# One colour per algorithm, the same in every picture; mostly Okabe and Ito's, safe for the colour-blind.
COLOURS = {
    "em": "#0072B2",
    "em+ag": "#7B6FD0",
    "em+ex": "#56B4E9",
    "scd": "#D55E00",
    "scd+ag": "#8B4513",
    "scd+ex": "#E69F00",
    "newton+ex": "#009E73",
}
GREY = "#7F7F7F"


WHERE = "docs/results/data.md says where to get it; UNMIX_DATA names the folder"


class MissingDataError(Exception):
    """A result that cannot be made here; the message says why."""


@dataclass
class Section:
    """What a result has to say: Markdown for the page, and the claims of a paper that our runs did not confirm."""

    text: str
    unconfirmed: list[str] = field(default_factory=list)


Rows = Iterable[dict[str, Any]] | pd.DataFrame


@dataclass
class Job:
    """One result being made: whether at full length, and where to put things. `name` begins the names of its files.

    With `written`, the tables of an earlier run are read, and nothing is computed or drawn.
    """

    name: str
    full: bool = False
    folder: Path = RESULTS
    written: bool = False
    _since: float = field(default_factory=time.perf_counter, repr=False)

    def say(self, what: str) -> None:
        """A line of progress."""
        if not self.written:
            print(f"  {time.perf_counter() - self._since:6.1f} s  {what}", flush=True)

    def save(self, draw: Callable[[], Figure], what: str = "", alt: str = "") -> str:
        """The picture as PNG; what to write on the page for it."""
        file = self._file(what, ".png")
        if not self.written:
            draw().savefig(file, dpi=130)
        return f"![{alt or self.name}]({file.name})"

    def table(self, make: Callable[[], Rows] | Rows, what: str = "") -> pd.DataFrame:
        """The table as CSV, and as it is read back from there."""
        if not self.written:
            rows = make() if callable(make) else make
            table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
            table.to_csv(self._file(what, ".csv"), index=False, lineterminator="\n")
        return self.read(what)

    def read(self, what: str = "") -> pd.DataFrame:
        """A table that was written."""
        return pd.read_csv(self._file(what, ".csv"), float_precision="round_trip")

    def numbers(self, make: Callable[[], dict[str, Any]], what: str = "numbers") -> dict[str, Any]:
        """Single values that stand in no other table, as a table of names and values."""
        self.table(
            lambda: [{"name": name, "value": json.dumps(value, ensure_ascii=False)} for name, value in make().items()],
            what,
        )
        table = pd.read_csv(self._file(what, ".csv"), dtype=str, keep_default_na=False)
        return {name: json.loads(value) for name, value in zip(table["name"], table["value"], strict=True)}

    def _file(self, what: str, ending: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{self.name}{'-' if what else ''}{what}{ending}"


def counts(name: str) -> um.Counts:
    """A data set of the folder of real data, or an error that says what is missing."""
    path = DATA / name / "counts.npz"
    if not path.exists():
        raise MissingDataError(f"{name} is not in {DATA}; {WHERE}")
    return um.read(path)


def stored(path: str) -> dict[str, np.ndarray]:
    """The arrays of a file of the folder of real data, or an error that says what is missing."""
    file = DATA / path
    if not file.exists():
        raise MissingDataError(f"{path} is not in {DATA}; {WHERE}")
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def paper_logliks() -> pd.DataFrame:
    """Final Poisson log-likelihoods of the runs behind figures A2 and A3 of Carbonetto et al."""
    file = DATA / "paper_loglik.csv"
    if not file.exists():
        raise MissingDataError(f"paper_loglik.csv is not in {DATA}; {WHERE}")
    return pd.read_csv(file)


def markdown(table: pd.DataFrame) -> str:
    """A table of the page; numbers as they are, so format them first."""
    lines = [list(map(str, table.columns)), ["---"] * len(table.columns), *table.astype(str).to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def thousands(values: Iterable[float], digits: int = 0) -> list[str]:
    """−12,384,999: with a true minus sign, and a dash for what is not known."""
    return ["–" if pd.isna(value) else f"{value:,.{digits}f}".replace("-", "−") for value in values]


@contextmanager
def style() -> Iterator[None]:
    """The look of all pictures."""
    look = {
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "0.92",
        "grid.linewidth": 0.8,
        "legend.frameon": False,
        "lines.linewidth": 1.6,
    }
    with mpl.rc_context(look):
        yield


def panels(
    rows: int, columns: int, size: tuple[float, float] = (3.4, 2.6), **options: Any
) -> tuple[Figure, np.ndarray]:
    """A figure and its Axes, rows × columns."""
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def legend_below(figure: Figure, ax: Axes, columns: int | None = None) -> None:
    """The lines of one Axes explained once, for all."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns or len(labels))


def gap(trace: pd.DataFrame, best: float, floor: float, column: str = "loglik") -> np.ndarray:
    """How far each iteration is below the best; what is closer than the floor is drawn at the floor."""
    return np.maximum(best - trace[column].to_numpy(), floor)


def run_from(
    X: Any,
    start: tuple[np.ndarray, np.ndarray] | um.Fit,
    solver: Any,
    iterations: int,
    *,
    extrapolate: bool = False,
    callbacks: Sequence[Any] = (),
) -> um.Fit:
    """So many iterations of a solver of Poisson NMF from a start, unless a callback ends it."""
    factors = (start.L, start.F) if isinstance(start, um.Fit) else start
    model = um.PoissonNMF(
        factors[0].shape[1],
        solver=solver,
        extrapolate=extrapolate,
        init=factors,
        prefit=0,
        max_iter=iterations,
        tol=0,
        n_jobs=THREADS,
        callbacks=list(callbacks),
    )
    return model.fit(X).result_
