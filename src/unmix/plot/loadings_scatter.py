"""Do two fits agree? The proportions of all samples in one against those in the other, topic by topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from unmix.fit import Fit
from unmix.plot.match import Floats, check_same, match_proportions
from unmix.plot.style import MANY_POINTS, literal, new_grid, shades, tidy
from unmix.plot.topics import topic_colours, topic_names, topic_places

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
    check_same("sample", (len(one.L), len(two.L)), (one.samples, two.samples))
    partners = match_proportions(one.proportions, two.proportions)
    shown = [k for k in topic_places(one, topics) if k in partners]
    if not shown:
        raise ValueError("none of these topics has a match, as the other fit has fewer topics; choose others")
    colours, names = topic_colours(one), topic_names(one, 2)
    if ax is None:
        panels = new_grid(len(shown), COLUMNS, (PANEL, PANEL + 0.35), sharex=True, sharey=True)
        for k, panel in zip(shown, panels, strict=True):
            _points(panel, one.proportions[:, k], two.proportions[:, partners[k]], colours[k])
            r = _correlation(one.proportions[:, k], two.proportions[:, partners[k]])
            title = f"{names[k]}\nwith {partners[k] + 1} of fit two, {r}"
            panel.set_title(title, fontsize=8.5, loc="left", parse_math=False)
        _name_outer_axes(panels)
        return panels
    handles = []
    for k in shown:
        x, y = one.proportions[:, k], two.proportions[:, partners[k]]
        many = len(x) > MANY_POINTS
        handles.append(
            ax.scatter(x, y, s=3 if many else 10, color=colours[k], alpha=0.5, linewidths=0, rasterized=many)
        )
    _frame(ax)
    ax.set_xlabel("proportion in fit one")
    ax.set_ylabel("proportion in fit two")
    says = [f"{names[k]} ({_correlation(one.proportions[:, k], two.proportions[:, partners[k]])})" for k in shown]
    legend = ax.legend(
        handles, says, loc="upper left", bbox_to_anchor=(1.0, 1.03), frameon=False, fontsize=8, markerscale=2
    )
    literal(legend.get_texts())
    return ax


def _points(ax: Axes, x: Floats, y: Floats, colour: str) -> None:
    if len(x) > MANY_POINTS:
        ax.hexbin(x, y, gridsize=40, extent=(0, 1, 0, 1), bins="log", mincnt=1, cmap=shades(colour), linewidths=0.1)
    else:
        ax.scatter(x, y, s=9, color=colour, alpha=0.6, linewidths=0)
    _frame(ax)


def _frame(ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], color="0.3", linewidth=0.6, zorder=3)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    tidy(ax)


def _correlation(x: Floats, y: Floats) -> str:
    if x.std() == 0 or y.std() == 0:
        return "r undefined"
    return f"r = {np.corrcoef(x, y)[0, 1]:.2f}"


def _name_outer_axes(panels: NDArray[np.object_]) -> None:
    columns = panels[0].get_subplotspec().get_gridspec().ncols
    for ax in panels[::columns]:
        ax.set_ylabel("in fit two", fontsize=9)
    for ax in panels[-columns:]:  # also those above the gap of a last row that is not full
        ax.set_xlabel("in fit one", fontsize=9)
        ax.tick_params(labelbottom=True)
