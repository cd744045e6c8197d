"""Do two fits agree? The proportions of all samples in one against those in the other, topic by topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from unmix.analysis import match_topics, topic_names
from unmix.analysis.topics import topic_places
from unmix.fit import Fit
from unmix.plot.palette import topic_colours
from unmix.plot.style import MANY_POINTS, literal, new_grid, shades, tidy
from unmix.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS, PANEL = 5, 2.6


@overload
def loadings_scatter(
    one: Fit, two: Fit, topics: int | Iterable[int] | None = None, ax: None = None
) -> NDArray[np.object_]: ...
@overload
def loadings_scatter(one: Fit, two: Fit, topics: int | Iterable[int] | None = None, *, ax: Axes) -> Axes: ...
def loadings_scatter(
    one: Fit, two: Fit, topics: int | Iterable[int] | None = None, ax: Axes | None = None
) -> Axes | NDArray[np.object_]:
    """A point a sample: its proportion of a topic in fit one (across) and of the matching topic in fit two (up).

    Topics are matched one to one so that the proportions of the samples agree best. What agrees lies on the diagonal; r is
    the correlation. Topics that have no match, because the other fit has fewer topics, are not shown. Of more than 2,000
    samples the density is shown.

    Parameters
    ----------
    topics
        Numbers of topics of fit one; by default all, the heaviest first.
    ax
        Draw all these topics into it, each in its colour; by default a new figure with a panel a topic.

    Returns an array of Axes, one a topic, or the one given.
    """
    partners = match_topics(one, two, by="samples")
    shown = [k for k in topic_places(one, topics) if k in partners]
    if not shown:
        raise ValueError("none of these topics has a match, as the other fit has fewer topics; choose others")
    colours, names = topic_colours(one), topic_names(one, 2)
    pairs = [
        Pair(names[k], partners[k] + 1, colours[k], one.proportions[:, k], two.proportions[:, partners[k]])
        for k in shown
    ]
    if ax is not None:
        _all_in_one(ax, pairs)
        return ax
    panels = new_grid(len(pairs), COLUMNS, (PANEL, PANEL + 0.35), sharex=True, sharey=True)
    for panel, pair in zip(panels, pairs, strict=True):
        _one_panel(panel, pair)
    _name_outer_axes(panels)
    return panels


class Pair(NamedTuple):
    """A topic of fit one, the number of its match in fit two, and the proportions of both."""

    name: str
    match: int
    colour: str
    x: Floats
    y: Floats

    @property
    def correlation(self) -> str:
        if self.x.std() == 0 or self.y.std() == 0:
            return "r undefined"
        return f"r = {np.corrcoef(self.x, self.y)[0, 1]:.2f}"


def _one_panel(ax: Axes, pair: Pair) -> None:
    if len(pair.x) > MANY_POINTS:
        cells: dict[str, Any] = {"gridsize": 40, "extent": (0, 1, 0, 1), "mincnt": 1, "linewidths": 0.1}
        ax.hexbin(pair.x, pair.y, bins="log", cmap=shades(pair.colour), **cells)
    else:
        ax.scatter(pair.x, pair.y, s=9, color=pair.colour, alpha=0.6, linewidths=0)
    _frame(ax)
    title = f"{pair.name}\nwith {pair.match} of fit two, {pair.correlation}"
    ax.set_title(title, fontsize=8.5, loc="left", parse_math=False)


def _all_in_one(ax: Axes, pairs: list[Pair]) -> None:
    for pair in pairs:
        many = len(pair.x) > MANY_POINTS
        look: dict[str, Any] = {"color": pair.colour, "alpha": 0.5, "linewidths": 0, "rasterized": many}
        ax.scatter(pair.x, pair.y, s=3 if many else 10, label=f"{pair.name} ({pair.correlation})", **look)
    _frame(ax)
    ax.set_xlabel("proportion in fit one")
    ax.set_ylabel("proportion in fit two")
    legend = ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.03), frameon=False, fontsize=8, markerscale=2)
    literal(legend.get_texts())


def _frame(ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], color="0.3", linewidth=0.6, zorder=3)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    tidy(ax)


def _name_outer_axes(panels: NDArray[np.object_]) -> None:
    columns = panels[0].get_subplotspec().get_gridspec().ncols
    for ax in panels[::columns]:
        ax.set_ylabel("in fit two", fontsize=9)
    for ax in panels[-columns:]:  # also those above the gap of a last row that is not full
        ax.set_xlabel("in fit one", fontsize=9)
        ax.tick_params(labelbottom=True)
