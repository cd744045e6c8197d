"""Topics from fit to fit: a column a fit, a box a topic, as high as its share, and ribbons as wide as what flows between."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unmix.analysis import Alignment
from unmix.analysis.topics import short
from unmix.plot.palette import palette
from unmix.plot.style import new_axes, tidy
from unmix.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOX = 0.13  # width, where a column is 1 wide
LONGEST_NAME = 40  # letters
GAPS = 0.35  # of the height, in the column with most topics
LOWEST_WITH_NUMBER = 0.022  # a share, below which there is no room for one


def alignment(aligned: Alignment, ax: Axes | None = None) -> Axes:
    """Draw what `unmix.align` found: how topics divide, join and last.

    Boxes and ribbons have the colour of their path, which is that of a topic of the last fit; a ribbon has that of where it
    goes. The last column is labelled with the top features of its topics.

    Parameters
    ----------
    aligned : Alignment
        The result.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    See Also
    --------
    align

    Examples
    --------
    >>> import unmix as um
    >>> fits = um.fit_path([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], range(1, 4), random_state=0)
    >>> ax = um.plot.alignment(um.align(fits))
    """
    table, fits = aligned.table, list(aligned.fits)
    most = int(table.groupby("fit").size().max())
    if ax is None:
        ax = new_axes(max(6.0, 1.35 * len(fits) + 3.2), max(3.6, 0.42 * most + 1.6))
    colours = _colours(table[table["fit"] == fits[-1]])
    gap = GAPS / max(1, most - 1)
    tops = {name: _tops(table[table["fit"] == name], gap) for name in fits}
    for x, (name, after) in enumerate(pairwise(fits)):
        _ribbons(ax, x, aligned, name, after, tops, colours)
    for x, name in enumerate(fits):
        _boxes(ax, x, table[table["fit"] == name], tops[name], colours)
    last = table[table["fit"] == fits[-1]]
    for row in last.itertuples():
        middle = tops[fits[-1]][row.topic - 1] + row.share / 2
        label = short(row.name, LONGEST_NAME)
        ax.text(len(fits) - 1 + BOX, middle, label, va="center", fontsize=8.5, parse_math=False)
    ax.set_ylim(1 + GAPS, -0.01)
    ax.set_xlim(-BOX, len(fits) - 1 + BOX)
    ax.set_xticks(range(len(fits)), fits, parse_math=False)
    ax.set_yticks([])
    tidy(ax)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    sizes = [str((table["fit"] == name).sum()) for name in fits]
    ax.set_xlabel("number of topics" if sizes == fits else "fit")
    return ax


def _colours(last: pd.DataFrame) -> dict[int, str]:
    """Of paths: neighbours in the last column differ most."""
    order = last.sort_values("place")["topic"]
    return dict(zip(order, palette(len(order)), strict=True))


def _tops(topics: pd.DataFrame, gap: float) -> Floats:
    """Where the box of each topic begins; columns are centred."""
    order = np.argsort(topics["place"].to_numpy())
    shares = topics["share"].to_numpy()[order]
    start = (GAPS - gap * (len(order) - 1)) / 2
    tops = np.empty(len(order))
    tops[order] = start + np.concatenate([[0], (shares + gap).cumsum()[:-1]])
    return tops


def _boxes(ax: Axes, x: int, topics: pd.DataFrame, tops: Floats, colours: dict[int, str]) -> None:
    from matplotlib.patches import Rectangle

    for row, top in zip(topics.itertuples(), tops, strict=True):
        ax.add_patch(Rectangle((x - BOX / 2, top), BOX, row.share, color=colours[row.path], linewidth=0, zorder=3))
        if row.share >= LOWEST_WITH_NUMBER:
            middle = top + row.share / 2
            ax.text(x, middle, str(row.topic), ha="center", va="center", fontsize=8, color="white", zorder=4)


def _ribbons(
    ax: Axes, x: int, aligned: Alignment, name: str, after: str, tops: dict[str, Floats], colours: dict[int, str]
) -> None:
    """Those that leave a box, or come to one, lie in the order of their other ends."""
    flows = aligned.flows[aligned.flows["fit"] == name].copy()
    here, there = (aligned.table[aligned.table["fit"] == fit].set_index("topic") for fit in (name, after))
    flows["from_place"], flows["to_place"] = (
        here["place"][flows["topic"]].to_numpy(),
        there["place"][flows["to"]].to_numpy(),
    )
    flows = flows.sort_values(["from_place", "to_place"])
    flows["left"] = tops[name][flows["topic"] - 1] + flows.groupby("topic")["flow"].cumsum() - flows["flow"]
    flows = flows.sort_values(["to_place", "from_place"])
    flows["right"] = tops[after][flows["to"] - 1] + flows.groupby("to")["flow"].cumsum() - flows["flow"]
    t = np.linspace(0, 1, 40)
    smooth = t * t * (3 - 2 * t)
    across = x + BOX / 2 + (1 - BOX) * t
    for row in flows.itertuples():
        upper = row.left + (row.right - row.left) * smooth
        ax.fill_between(across, upper, upper + row.flow, color=colours[there["path"][row.to]], alpha=0.42, linewidth=0)
