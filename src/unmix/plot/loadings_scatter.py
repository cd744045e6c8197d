"""Do two fits agree? The proportions of all samples in one against those in the other, topic by topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

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

MOST_COLUMNS, PANEL_WIDTH = 5, 2.6  # inches


def loadings_scatter(
    one: Fit, two: Fit, topics: int | Iterable[int] | None = None, ax: Axes | None = None
) -> Axes | NDArray[np.object_]:
    """One point per sample: its proportion of a topic in fit one (across) and of the matching topic in fit two (up).

    Topics are matched one to one so that the proportions of the samples agree best. What agrees lies on the diagonal; r is
    the correlation. Topics that have no match, because the other fit has fewer topics, are not shown. Of more than 2,000
    samples the density is shown.

    Parameters
    ----------
    one, two : Fit
        Of the same samples.
    topics : int or iterable of int, default=None
        Numbers of topics of fit one, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Draw all these topics into it, each in its colour; by default a new figure with one panel per topic.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If samples are others, or none of these topics has a match.

    See Also
    --------
    compare, plot.similarity

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> one, two = (um.TopicModel(3, init="random", tol=1e-4, random_state=seed).fit(X).result_ for seed in (0, 1))
    >>> panels = um.plot.loadings_scatter(one, two)
    """
    partners = match_topics(one, two, by="samples")
    shown = [k for k in topic_places(one, topics) if k in partners]
    if not shown:
        raise ValueError("none of these topics has a match, as the other fit has fewer topics; choose others")
    colours, names, many = topic_colours(one), topic_names(one, 2), len(one.L) > MANY_POINTS
    pairs = {k: (one.proportions[:, k], two.proportions[:, partners[k]]) for k in shown}
    if ax is not None:
        for k, (x, y) in pairs.items():
            label = f"{names[k]} ({_correlation(x, y)})"
            size = 3 if many else 10
            ax.scatter(x, y, s=size, color=colours[k], alpha=0.5, linewidths=0, rasterized=many, label=label)
        _frame(ax)
        ax.set(xlabel="proportion in fit one", ylabel="proportion in fit two")
        legend = ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.03), frameon=False, fontsize=8, markerscale=2)
        literal(legend.get_texts())
        return ax
    panels = new_grid(len(pairs), MOST_COLUMNS, (PANEL_WIDTH, PANEL_WIDTH + 0.35), sharex=True, sharey=True)
    for panel, (k, (x, y)) in zip(panels, pairs.items(), strict=True):
        if many:
            cells = shades(colours[k])
            panel.hexbin(x, y, gridsize=40, bins="log", extent=(0, 1, 0, 1), mincnt=1, linewidths=0.1, cmap=cells)
        else:
            panel.scatter(x, y, s=9, color=colours[k], alpha=0.6, linewidths=0)
        _frame(panel)
        title = f"{names[k]}\nwith {partners[k] + 1} of fit two, {_correlation(x, y)}"
        panel.set_title(title, fontsize=8.5, loc="left", parse_math=False)
    columns = panels[0].get_subplotspec().get_gridspec().ncols
    for panel in panels[::columns]:
        panel.set_ylabel("in fit two", fontsize=9)
    for panel in panels[-columns:]:  # also those above the gap of a last row that is not full
        panel.set_xlabel("in fit one", fontsize=9)
        panel.tick_params(labelbottom=True)
    return panels


def _correlation(x: Floats, y: Floats) -> str:
    return "r undefined" if x.std() == 0 or y.std() == 0 else f"r = {np.corrcoef(x, y)[0, 1]:.2f}"


def _frame(ax: Axes) -> None:
    ax.plot([0, 1], [0, 1], color="0.3", linewidth=0.6, zorder=3)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    tidy(ax)
