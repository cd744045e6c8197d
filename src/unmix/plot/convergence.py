"""How fits approach an optimum: what their log-likelihood lacks of the best, and the KKT residual, against time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.base.checks import choice
from unmix.fit import Fit
from unmix.plot.style import QUIET, literal, new_axes, new_grid, palette, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_POINTS = 30  # each gets a mark

Fits = Fit | Sequence[Fit] | Mapping[str, Fit]


def convergence(
    fits: Fits, what: Literal["gap", "kkt"] | None = None, ax: Axes | None = None
) -> Axes | NDArray[np.object_]:
    """A line for each fit, on a log scale, against seconds, on a log scale too where they span more than tenfold.

    Parameters
    ----------
    fits : Fit, sequence or mapping of Fit
        One fit or several; a mapping gives the lines their names.
    what : str, default=None
        "gap": how far the log-likelihood is below the best that any of the fits reached. For models that maximise
        something else, such as a lower bound of the evidence, it is that. The best point itself has no gap, and no
        place on a log scale. "kkt": the largest residual of the conditions that hold at an optimum, where it was
        computed. By default both, in two panels.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes or array of Axes
        The two panels, or the one Axes if `what` or `ax` is given.

    Raises
    ------
    ValueError
        If there are no fits, or `what` is neither.

    See Also
    --------
    solvers.MeasureKKT : KKT residuals along the way.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> panels = um.plot.convergence({"newton": fit})
    """
    if isinstance(fits, Mapping):
        named = dict(fits)
    else:
        several = [fits] if isinstance(fits, Fit) else fits
        named = {f"{i + 1}: {fit.params.get('solver', 'fit')}": fit for i, fit in enumerate(several)}
    if not named:
        raise ValueError("there are no fits to compare; give at least one")
    if what is not None:
        choice("what", what, ("gap", "kkt"), "choose gap, kkt, or None for both")
    if what is not None or ax is not None:
        ax = new_axes(7, 4) if ax is None else ax
        _draw(ax, named, what or "gap")
        return ax
    panels = new_grid(2, 1, (7, 3), sharex=True)
    _draw(panels[0], named, "gap")
    _draw(panels[1], named, "kkt")
    panels[0].set_xlabel("")
    _, spare = sorted(panels, key=lambda panel: -len(panel.get_lines()))
    if spare.get_legend():  # one legend is enough: that of the panel with more lines
        spare.get_legend().remove()
    return panels


def _draw(ax: Axes, named: Mapping[str, Fit], what: Literal["gap", "kkt"]) -> None:
    curves, title = _gaps(named) if what == "gap" else (_known(named, "kkt"), "KKT residual")
    lines = {}
    for (name, curve), colour in zip(curves.items(), palette(len(curves)), strict=True):
        curve = curve[(curve > 0) & (curve.index > 0)]  # what a log scale can show
        if len(curve):
            mark = "o" if len(curve) <= FEW_POINTS else None
            (lines[name],) = ax.plot(curve.index, curve, color=colour, linewidth=1.8, marker=mark, markersize=4)
    tidy(ax, grid="both")
    ax.set_xlabel("seconds")
    ax.set_ylabel(title)
    if not lines:
        nothing = "all points are the best" if what == "gap" else "the KKT residual was not computed"
        sentence = nothing if any(map(len, curves.values())) or what == "kkt" else "nothing was recorded"
        ax.text(0.5, 0.5, sentence, transform=ax.transAxes, ha="center", va="center", color=QUIET, wrap=True)
        ax.set_yticks([])
        return
    seconds = np.concatenate([line.get_xdata() for line in lines.values()])
    if seconds.max() >= 10 * seconds.min():
        ax.set_xscale("log")
    ax.set_yscale("log")
    lowest, highest = np.log10(ax.get_ylim())
    if highest - lowest < 2:  # at least a whole power of ten is on the axis
        ax.set_ylim(10 ** np.floor(lowest), 10 ** np.ceil(highest))
    ax.yaxis.set_minor_formatter("")  # names at powers of ten only
    if len(named) > 1:
        literal(ax.legend(lines.values(), lines.keys(), frameon=False, fontsize=9).get_texts())


def _gaps(named: Mapping[str, Fit]) -> tuple[dict[str, pd.Series], str]:
    """best − value, of the log-likelihood where any fit followed it, else of what the fits maximised."""
    followed = any("loglik" in fit.trace and fit.trace["loglik"].notna().all() for fit in named.values())
    column, title = ("loglik", "log-likelihood") if followed else ("objective", "objective")
    curves = _known(named, column)
    best = max((float(curve.max()) for curve in curves.values() if len(curve)), default=0.0)
    return {name: best - curve for name, curve in curves.items()}, f"{title} below the best"


def _known(named: Mapping[str, Fit], column: str) -> dict[str, pd.Series]:
    """For each fit the known values of a column of its trace, by seconds."""
    empty = pd.Series(dtype=float)
    return {
        name: fit.trace.set_index("seconds")[column].dropna() if column in fit.trace else empty
        for name, fit in named.items()
    }
