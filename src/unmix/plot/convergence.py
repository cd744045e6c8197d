"""How fits approach the best objective: the gap that remains against the time spent, both on log scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unmix.fit import Fit
from unmix.plot.palette import palette


def convergence(fits: Fit | Sequence[Fit] | Mapping[str, Fit], ax: Axes | None = None) -> Axes:
    """One line a fit: how far its log-likelihood is below the best that any of them reached, against seconds.

    For models that maximise something else, such as a lower bound of the evidence, that is what is drawn. A mapping gives
    the lines their names. Points that are the best themselves have no gap, and no place on a log scale.
    """
    named = _named(fits)
    if not named:
        raise ValueError("there are no fits to compare; give at least one")
    if ax is None:
        ax = Figure(figsize=(7, 4.5), layout="constrained").subplots()
    column = "loglik" if all(fit.trace["loglik"].notna().all() for fit in named.values()) else "objective"
    best = max(float(fit.trace[column].max()) for fit in named.values())
    lines = []
    for fit, colour in zip(named.values(), palette(len(named)), strict=True):
        gap = best - fit.trace[column]
        seen = gap > 0
        lines += ax.plot(fit.trace["seconds"][seen], gap[seen], color=colour, linewidth=1.8)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("seconds")
    ax.set_ylabel(f"{'log-likelihood' if column == 'loglik' else 'objective'} below the best")
    ax.grid(color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if len(named) > 1:
        for text in ax.legend(lines, list(named), frameon=False).get_texts():
            text.set_parse_math(False)
    return ax


def _named(fits: Fit | Sequence[Fit] | Mapping[str, Fit]) -> dict[str, Fit]:
    if isinstance(fits, Mapping):
        return dict(fits)
    several = [fits] if isinstance(fits, Fit) else list(fits)
    return {f"{i + 1}: {fit.params.get('solver', 'fit')}": fit for i, fit in enumerate(several)}
