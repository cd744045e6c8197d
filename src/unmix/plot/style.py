"""The look that all pictures share, and the one place where figures are made."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.text import Text

MANY_POINTS = 2000  # beyond that a vector picture would grow slow: points become pixels
QUIET = "0.45"  # the grey of words that matter less


def new_figure(width: float, height: float) -> Figure:
    """A figure of pyplot where that is in use, in a notebook or a program that has imported it, which shows and saves it as its
    own; elsewhere one without a display or a state."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None or "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        return pyplot.figure(figsize=(width, height), layout="constrained")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_axes(width: float, height: float) -> Axes:
    """The Axes of a new figure."""
    return new_grid(1, 1, (width, height))[0]


def new_grid(
    n: int, most_columns: int, panel: tuple[float, float], *, sharex: bool = False, sharey: bool = False
) -> NDArray[np.object_]:
    """n panels of a size in inches, row by row and in rows as even as can be, of one new figure."""
    rows = ceil(n / most_columns)
    columns = ceil(n / rows)
    figure = new_figure(columns * panel[0], rows * panel[1])
    panels = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey).ravel()
    for unused in panels[n:]:
        unused.remove()
    return panels[:n]


def figure_of(ax: Axes) -> Figure:
    return ax.figure.canvas.figure


def lay_out(ax: Axes) -> None:
    """Find out where everything will stand, without drawing it."""
    with letters_missing():
        figure_of(ax).draw_without_rendering()


@contextmanager
def letters_missing() -> Iterator[None]:
    """While text is measured, nothing is said of letters that the font lacks; it is when the picture is drawn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def tidy(ax: Axes, grid: str = "") -> None:
    """No frame but the two lines that are read; `grid` is "x", "y", "both" or none, and lies behind the picture."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid:
        ax.grid(axis=grid, color="0.9", linewidth=0.8)  # type: ignore[arg-type]
    ax.set_axisbelow(True)


def literal(texts: Iterable[Text]) -> None:
    """A "$" in a name is a "$"."""
    for text in texts:
        text.set_parse_math(False)


def shades(colour: str) -> Colormap:
    """From almost white to a colour, and to a darker one where most is."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    most = np.array(to_rgb(colour))
    return LinearSegmentedColormap.from_list(colour, [np.full(3, 0.94), most, 0.55 * most])
