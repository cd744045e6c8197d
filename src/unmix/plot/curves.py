"""Curves and marks of fits: how they converge, their entropies, held-out counts by numbers of topics, mean proportions by group
and over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.analysis.application import FitLike, fit_of
from unmix.analysis.application import entropies as measured
from unmix.analysis.choose import Choice
from unmix.analysis.effects import Effects
from unmix.analysis.features import topic_places
from unmix.analysis.prevalence import Prevalence
from unmix.base import checks
from unmix.base.checks import short
from unmix.counts.counts import CountsLike
from unmix.fit import Fit
from unmix.plot.style import (
    QUIET,
    figure_of,
    in_order,
    legend_beside,
    literal,
    new_axes,
    new_grid,
    palette,
    panels_for,
    sentence,
    shades,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_POINTS = 30  # each gets a mark

Fits = FitLike | Sequence[FitLike] | Mapping[str, FitLike]


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
        place on a log scale. "kkt": the largest residual of the conditions of an optimum, where it was
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
    named = _named(fits, "solver")
    if what is not None:
        checks.choice("what", what, ("gap", "kkt"), "choose gap, kkt, or None for both")
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


def _named(fits: Fits, by: str) -> dict[str, Fit]:
    """Fits by their names, or by their numbers and one of their parameters."""
    if isinstance(fits, Mapping):
        named = {name: fit_of(fit) for name, fit in fits.items()}
    else:
        several = map(fit_of, fits if isinstance(fits, Sequence) and not isinstance(fits, str) else [fits])
        named = {f"{i}: {fit.params.get(by, 'fit')}": fit for i, fit in enumerate(several, 1)}
    if not named:
        raise ValueError("there are no fits to compare; use at least one")
    return named


def _draw(ax: Axes, named: Mapping[str, Fit], what: Literal["gap", "kkt"]) -> None:
    curves, title = _gaps(named) if what == "gap" else (_known(named, "kkt"), "KKT residual")
    lines = {}
    for (name, curve), color in zip(curves.items(), palette(len(curves)), strict=True):
        curve = curve[(curve > 0) & (curve.index > 0)]  # what a log scale can show
        if len(curve):
            mark = "o" if len(curve) <= FEW_POINTS else None
            (lines[name],) = ax.plot(curve.index, curve, color=color, linewidth=1.8, marker=mark, markersize=4)
    tidy(ax, grid="both")
    ax.set_xlabel("seconds")
    ax.set_ylabel(title)
    if not lines:
        nothing = "all points are the best" if what == "gap" else "the KKT residual was not computed"
        sentence(ax, nothing if any(map(len, curves.values())) or what == "kkt" else "nothing was recorded")
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


# Four entropies: how uncertain the topic of a count is, whatever else of it is known.

KNOWN = {  # and what a probable S of the allocation model makes of each
    "topics": ("nothing", "high: topics of one size"),
    "samples": ("its sample", "low: few topics per sample"),
    "features": ("its feature", "low: few topics per feature"),
    "cells": ("both", "high: counts divided between topics"),
}


def entropies(fits: Fits, X: CountsLike, ax: Axes | None = None) -> Axes:
    """How uncertain the topic of a count is where nothing, its sample, its feature or both are known: a mark for each fit.

    A line for each of the four entropies of `unmix.analysis.entropies`, less that of counts: from 0 to log K, the dotted line.
    The first and the last are high and the two between them low where S is probable under the allocation model.

    Parameters
    ----------
    fits : Fit, sequence or mapping of Fit
        One fit or several, of any models; a mapping gives the marks their names.
    X : Counts, Shards or array-like
        The counts that they are fits of.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        What it was drawn in.

    Raises
    ------
    ValueError
        If there are no fits, or X has other features than they have.

    See Also
    --------
    analysis.entropies, AllocationModel

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> best = um.AllocationModel(2, alpha=0.1, random_state=0, max_iter=50, tol=0).fit(X)
    >>> um.plot.entropies({"BLD": best, "KL-NMF": um.PoissonNMF(2, random_state=0).fit(X)}, X).get_xlabel()
    'entropy of the topic of a count (nats)'
    """
    named = _named(fits, "model")
    ax = new_axes(7, 3) if ax is None else ax
    for i, ((name, fit), color) in enumerate(zip(named.items(), palette(len(named)), strict=True)):
        values = measured(fit, X)["conditional"][[*KNOWN]]
        heights = np.arange(len(KNOWN)) + 0.16 * (i - (len(named) - 1) / 2)
        ax.hlines(heights, 0, values, color=color, linewidth=1.6)
        ax.plot(values, heights, "o", color=color, markersize=6, label=name)
        ax.axvline(np.log(fit.n_topics), color=QUIET, linestyle=":", linewidth=1)
    highest = np.log(max(2, *(fit.n_topics for fit in named.values())))
    for height, (_, wanted) in enumerate(KNOWN.values()):
        ax.text(1.03 * highest, height, wanted, va="center", fontsize=8.5, color=QUIET)
    tidy(ax, grid="x")
    ax.set(xlim=(0, 1.02 * highest), ylim=(len(KNOWN) - 0.5, -0.5), xlabel="entropy of the topic of a count (nats)")
    ax.set_yticks(range(len(KNOWN)), [known for known, _ in KNOWN.values()])
    ax.tick_params(axis="y", length=0)
    ax.set_ylabel("what is known of it")
    if len(named) > 1:
        place: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": min(4, len(named))}
        literal(ax.legend(frameon=False, fontsize=9, **place).get_texts())
    return ax


# How many topics: what held-out counts say of every number tried, and how large the topics are.

SEEN, CHOSEN = "#0072B2", "#D55E00"
NEAR = 6.0  # the curve is drawn to scale within this many times the gap that decides, and logarithmically beyond


def choice(
    choice: Choice, stability: Mapping[int, Any] | None = None, ax: Axes | None = None, *, shares: bool = False
) -> Axes | NDArray[np.object_]:
    """Prediction of held-out counts by number of topics, with a band of one standard error and the suggested number.

    Log-likelihood per 1,000 held-out counts, less that of the best number, with its standard error paired by sample. A vertical
    line marks the suggested number; the best and the last worthwhile number are named where they differ from it.

    Parameters
    ----------
    choice : Choice
        Of `unmix.choose_topics`.
    stability : mapping of int to Stability, default=None
        Results of `unmix.stability` by number of topics: a second panel shows their means and minima.
    ax : Axes, default=None
        Where to draw the curve alone; by default a new figure with all panels.
    shares : bool, default=False
        Whether a last panel shows the shares of topics and that of the lightest.

    Returns
    -------
    Axes or array of Axes
        The panels, or the one Axes if `ax` is given.

    See Also
    --------
    choose_topics, report.write_result

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]] * 5
    >>> panels = um.plot.choice(um.choose_topics(X, range(1, 4), folds=2, random_state=0))
    """
    if ax is not None:
        _curve(ax, choice)
        ax.set_xlabel("number of topics")
        return ax
    panels = new_grid(1 + (stability is not None) + shares, 1, (7, 3.2), sharex=True)
    _curve(panels[0], choice)
    if stability is not None:
        _stability(panels[1], choice, stability)
    if shares:
        _shares(panels[-1], choice)
    panels[-1].set_xlabel("number of topics")
    return panels


def _curve(ax: Axes, choice: Choice) -> None:
    table, per = choice.table, 1000 / choice.held_out
    places, delta, error = np.arange(len(table)), table["delta"] * per, table["error"].fillna(0) * per
    ax.fill_between(places, delta - error, delta + error, color=SEEN, alpha=0.18, linewidth=0)
    ax.plot(places, delta, color=SEEN, marker="o", markersize=4.5, linewidth=1.6)
    tidy(ax, grid="y")
    ax.margins(x=0.04, y=0.08)
    ax.yaxis.set_major_formatter(lambda value, _: "best" if value == 0 else f"{value:,.10g}".replace("-", "−"))
    ax.set_ylabel("prediction of held-out counts\n(log-likelihood per 1,000)")
    numbers = table["topics"].tolist()
    _mark(ax, choice, numbers, delta.to_numpy())
    step = -(-len(numbers) // 25)  # at most 25 names
    ax.set_xticks(places[::step], [str(K) for K in numbers[::step]])


def _mark(ax: Axes, choice: Choice, numbers: list[int], delta: Any) -> None:
    """A line at the suggested number with its text above the panel; rings around the best and the last worthwhile, if
    others."""

    def write(text: str, x: float, y: float, points: float, above: bool = False, **look: Any) -> None:
        where: Any = ((x, y), (0, points), ("data", "axes fraction") if above else "data", "offset points")
        ax.annotate(text, *where, ha="center", va="bottom" if above else "top", **look)

    at = numbers.index(choice.suggested)
    ax.axvline(at, color=CHOSEN, linewidth=1.2, zorder=0.9)
    best = ", best" if choice.best == choice.suggested else ""
    write(f"suggested: {choice.suggested}{best}", at, 1, 4, above=True, fontsize=9, color=CHOSEN, weight="bold")
    for name, number in (("best", choice.best), ("last worthwhile", choice.worthwhile)):
        if number is None or number == choice.suggested or (name == "last worthwhile" and number > choice.suggested):
            continue
        place = numbers.index(number)
        ax.plot(place, delta[place], "o", markersize=11, markerfacecolor="none", color=QUIET)
        write(name, place, delta[place], -11, fontsize=8.5, color=QUIET)


def _shares(ax: Axes, choice: Choice) -> None:
    places = np.arange(len(choice.table))
    floor = np.zeros(len(places))
    colors = shades(SEEN)(np.linspace(0.9, 0.15, choice.shares.shape[1]))  # by rank: topics of fits are not matched
    for rank, color in enumerate(colors):
        ax.bar(places, choice.shares[:, rank], 0.8, floor, color=color, edgecolor="white", linewidth=0.5)
        floor += choice.shares[:, rank]
    for place, lightest in enumerate(choice.table["lightest"]):
        ax.text(place, 1.01, checks.percent(lightest), ha="center", fontsize=7.5, color=QUIET)
    tidy(ax)
    ax.set_ylim(0, 1.09)
    ax.yaxis.set_major_formatter("{x:.0%}")
    ax.set_ylabel("shares of topics\n(number: lightest)")
    ax.set_yticks([0, 0.5, 1])


def _stability(ax: Axes, choice: Choice, stability: Mapping[int, Any]) -> None:
    values = {K: np.asarray(getattr(one, "table", one)["stability"], dtype=float) for K, one in stability.items()}
    numbers = sorted(values)
    places = np.interp(numbers, choice.table["topics"], np.arange(len(choice.table)))
    for name, measure, style in (("mean", np.nanmean, "-"), ("minimum", np.nanmin, "--")):
        ax.plot(places, [measure(values[K]) for K in numbers], style, color=SEEN, marker="o", markersize=4, label=name)
    tidy(ax, grid="y")
    ax.set_ylim(0, 1.02)
    ax.set_ylabel("stability of topics")
    ax.legend(frameon=False, fontsize=8, loc="lower left")


# Mean proportions by group, or over time: a panel for every topic.

LONGEST_GROUP, MOST_LINES = 28, 12


def prevalence(
    found: Prevalence,
    topics: int | Iterable[int] | None = None,
    ax: Axes | None = None,
    colors: Sequence[str] | None = None,
) -> Axes | NDArray[np.object_]:
    """Draw what `unmix.prevalence` found: means by group with their intervals, or lines over time with bands.

    Parameters
    ----------
    found : Prevalence
        The result.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Where to draw one topic; by default a new figure with one panel per topic.
    colors : sequence of str, default=None
        Of the topics; by default `topic_colors`. Lines of several groups over time have colours of their own.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If there is no such topic, `ax` is given for several, or there are too many lines to distinguish.

    See Also
    --------
    prevalence, plot.structure

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(um.datasets.sotu()).result_
    >>> panels = um.plot.prevalence(um.prevalence(fit, by="party"))
    """
    chosen = topic_places(found, topics)
    groups = found.table["group"].unique().tolist()
    if found.over and len(groups) > MOST_LINES:
        raise ValueError(
            f"{len(groups)} lines of {found.by} are too many to distinguish; use at most {MOST_LINES} groups"
        )
    height = 1.9 if found.over else 0.75 + 0.2 * len(groups)
    panels = panels_for(chosen, ax, 4 if found.over else 3, (2.9, height))
    paint = in_order(palette(found.n_topics), topic_places(found, None)) if colors is None else colors
    for panel, k in zip(panels, chosen, strict=True):
        own = found.table[found.table["topic"] == k + 1]
        (_lines(panel, own, groups, paint[k], dates=found.dates) if found.over else _ranges(panel, own, paint[k]))
        panel.set_title(short(own["name"].iloc[0], 38), loc="left", fontsize=8.5, parse_math=False)
        panel.tick_params(labelsize=8)
    if ax is None and found.over and len(groups) > 1:
        legend = figure_of(panels[0]).legend(
            *panels[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=min(len(groups), 8),
            frameon=False,
            fontsize=8,
        )
        literal(legend.get_texts())
    if ax is None:
        where = f"mean proportion{f', by {found.by}' if found.by else ''}{f', over {found.over}' if found.over else ''}"
        figure_of(panels[0]).suptitle(f"{where}; {found.level:.0%} intervals", fontsize=9, parse_math=False)
    return panels if ax is None else ax


def effects(
    found: Effects,
    variable: str | None = None,
    topics: int | Iterable[int] | None = None,
    ax: Axes | None = None,
    colors: Sequence[str] | None = None,
) -> Axes | NDArray[np.object_]:
    """Draw what `unmix.effects` found of one variable: means by level with their intervals, or a curve with its band.

    Parameters
    ----------
    found : Effects
        The result.
    variable : str, default=None
        A variable of its formula; by default the first one.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Where to draw one topic; by default a new figure with one panel per topic.
    colors : sequence of str, default=None
        Colors of the topics; by default `palette`.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If there is no such topic or variable, or `ax` is given for several topics.

    See Also
    --------
    effects, plot.prevalence

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.sotu()
    >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
    >>> panels = um.plot.effects(um.effects(fit, X, "~ s(year, df=4)", groups="president"))
    """
    chosen = topic_places(found, topics)
    variables = found.predictions["variable"].unique().tolist()
    if not variables:
        raise ValueError("the formula has no variable; there is nothing to draw")
    variable = variables[0] if variable is None else checks.choice("variable", variable, variables)
    rows = found.predictions[found.predictions["variable"] == variable].rename(
        columns={"estimate": "mean", "value": "group"}
    )
    curve = bool(rows["at"].notna().all())
    panels = panels_for(chosen, ax, 4 if curve else 3, (2.9, 1.9 if curve else 0.75 + 0.2 * rows["group"].nunique()))
    paint = in_order(palette(found.n_topics), topic_places(found, None)) if colors is None else colors
    for panel, k in zip(panels, chosen, strict=True):
        own = rows[rows["topic"] == k + 1]
        _lines(panel, own, [""], paint[k], marker=None) if curve else _ranges(panel, own, paint[k])
        panel.set_title(short(found.names[k], 38), loc="left", fontsize=8.5, parse_math=False)
        panel.tick_params(labelsize=8)
    if ax is None:
        title = f"mean proportion by {variable}, given {found.formula}; {found.level:.0%} intervals"
        figure_of(panels[0]).suptitle(title, fontsize=9, parse_math=False)
    return panels if ax is None else ax


def _ranges(ax: Axes, own: pd.DataFrame, color: str) -> None:
    """A point for each group, the first one on top, and a line as long as its interval."""
    heights = -np.arange(len(own))
    ax.hlines(heights, own["low"], own["high"], color=color, linewidth=2.2, alpha=0.55)
    ax.scatter(own["mean"], heights, color=color, s=22, zorder=3, clip_on=False)
    texts = [f"{short(group, LONGEST_GROUP)} ({n:,.0f})" for group, n in zip(own["group"], own["samples"], strict=True)]
    ax.set_yticks(heights, texts, parse_math=False)
    ax.set_ylim(-len(own) + 0.4, 0.6)
    ax.set_xlim(*_limits(own))
    ax.xaxis.set_major_formatter(_percents)
    tidy(ax, grid="x")


def _lines(
    ax: Axes, own: pd.DataFrame, groups: list[str], color: str, *, dates: bool = False, marker: str | None = "o"
) -> None:
    """A line for each group through the means of its bins, and a band as wide as their intervals."""
    for group, shade in zip(groups, [color] if len(groups) == 1 else palette(len(groups)), strict=True):
        part = own[own["group"] == group]
        ax.fill_between(part["at"], part["low"], part["high"], color=shade, alpha=0.25, linewidth=0)
        ax.plot(part["at"], part["mean"], color=shade, linewidth=1.4, marker=marker, markersize=2.5, label=group)
    ax.set_ylim(*_limits(own))
    ax.yaxis.set_major_formatter(_percents)
    if dates:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=6)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    else:
        ax.locator_params(axis="x", nbins=5)
    tidy(ax, grid="y")


def _limits(own: pd.DataFrame) -> tuple[float, float]:
    """From 0, or below it where an interval of a regression is, to a little above the highest; above 1 only for a mean."""
    low, high = float(np.nanmin(own[["mean", "low"]])), float(np.nanmax(own[["mean", "high"]]))
    return min(0.0, 1.08 * low), min(max(1.02, low, 1.02 * float(np.nanmax(own["mean"]))), 1.08 * high) + 1e-9


def _percents(value: float, _: Any) -> str:
    return f"{100 * value:.3g}%"


# Effects of batches: the features whose rates differ most between batches.

MOST_BATCHES = 12  # with different colours


def batch_effects(fit: FitLike, n: int = 20, ax: Axes | None = None, colors: Sequence[str] | None = None) -> Axes:
    """Effects of batches on the features on which they are largest, in log2, with two errors to each side.

    Parameters
    ----------
    fit : Fit, estimator or path
        Fitted with `batch`.
    n : int, default=20
        Number of features.
    ax : Axes, default=None
        Where to draw; a new figure by default.
    colors : sequence of str, default=None
        A colour for each batch.

    Returns
    -------
    Axes
        What was drawn on.

    Raises
    ------
    ValueError
        If the fit has no effects of batches, or there are more than 12 of them.

    See Also
    --------
    Fit.batch_effects, analysis.batch_summary

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(2 * np.exp(rng.normal(0, 0.5, (2, 600)))[np.arange(40) % 2])
    >>> fit = um.PoissonNMF(1, random_state=0).fit(X, batch=np.arange(40) % 2).result_
    >>> um.plot.batch_effects(fit).get_xlabel()
    'effect of the batch (log2), ± two errors'
    """
    fit, n = fit_of(fit), checks.whole("n", n, 1)
    table = fit.batch_effects
    if table.empty:
        raise ValueError("this fit has no effects of batches; fit with batch=...")
    batches = fit.rates["batches"].tolist()
    if len(batches) > MOST_BATCHES:
        raise ValueError(
            f"{len(batches)} batches are more than one figure shows ({MOST_BATCHES}); use fit.batch_effects"
        )
    colors = palette(len(batches)) if colors is None else colors
    logs = table["log2"].to_numpy().reshape(len(batches), -1)
    errors = (2 / np.log(2) * table["error"].to_numpy()).reshape(logs.shape)
    sure = np.maximum(np.abs(logs) - errors, 0).max(axis=0)  # what is left of an effect beyond two errors
    places = np.lexsort((-np.abs(logs).max(axis=0), -sure))[:n]
    ax = new_axes(6.5, 1.2 + 0.28 * len(places)) if ax is None else ax
    height = np.arange(len(places))[::-1].astype(float)
    for b, (batch, color) in enumerate(zip(batches, colors, strict=False)):
        shift = 0.3 * (b / (len(batches) - 1) - 0.5) if len(batches) > 1 else 0.0
        look: dict[str, Any] = {"fmt": "o", "markersize": 4, "color": color, "elinewidth": 1.2}
        ax.errorbar(logs[b, places], height - shift, xerr=errors[b, places], label=short(str(batch), 30), **look)
    ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_yticks(height, [short(str(fit.feature_names[j]), 30) for j in places])
    ax.set_xlabel("effect of the batch (log2), ± two errors")
    tidy(ax, grid="x")
    legend_beside(ax, ax.get_legend_handles_labels()[0], [short(str(batch), 30) for batch in batches], title="batch")
    return ax
