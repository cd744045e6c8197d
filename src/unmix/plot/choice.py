"""Pictures of `choose_topics`, and of what splitting the counts does to tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unmix.analysis import Differences
from unmix.analysis.choose import Choice
from unmix.plot.style import MANY_POINTS, QUIET, new_axes, new_grid, shades, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def held_out(naive: Differences, honest: Differences, ax: Axes | None = None) -> Axes:
    """One point per feature and topic: its z where counts are used twice, and where some were held out for the test.

    What is real lies along the dashed line, which is less steep than the dotted one as there are fewer counts; what noise made
    has no z left and lies along the axis.

    Parameters
    ----------
    naive, honest : Differences
        What `unmix.differences` found without and with `held_out`, of the same features and topics.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If the two are of different features or topics, or the second was not held out.

    See Also
    --------
    differences

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> model = um.TopicModel(3, tol=1e-4, random_state=0).fit(X)
    >>> ax = um.plot.held_out(um.differences(model, X), um.differences(model, X, held_out=0.5, random_state=0))
    """
    if naive.z.shape != honest.z.shape:
        raise ValueError(
            f"z of shapes {naive.z.shape} and {honest.z.shape}; give differences of the same features and topics"
        )
    if honest.held_out is None:
        raise ValueError("the second of the two was not held out; give one from differences(..., held_out=0.5)")
    known = np.isfinite(naive.z) & np.isfinite(honest.z)
    across, up = naive.z[known], honest.z[known]
    ax = new_axes(5.5, 5.2) if ax is None else ax
    ends = np.array([-1.0, 1.0]) * float(np.abs(np.concatenate([across, up, [1.0]])).max()) * 1.05
    ax.axhspan(-1.96, 1.96, color="0.94", linewidth=0, zorder=0)
    ax.plot(ends, ends, color="0.5", linewidth=0.8, linestyle=":")
    ax.plot(ends, np.sqrt(honest.held_out) * ends, color="0.5", linewidth=0.8, linestyle="--")
    ax.scatter(across, up, s=5, color="#0072B2", alpha=0.4, linewidths=0, rasterized=len(up) > MANY_POINTS)
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
    tidy(ax)
    beyond = [float((np.abs(z) > 1.96).mean()) if len(z) else 0.0 for z in (across, up)]
    ax.set_xlabel(f"z from the counts that made the topics ({beyond[0]:.0%} beyond ±1.96)")
    ax.set_ylabel(f"z from counts held out ({beyond[1]:.0%} beyond ±1.96)")
    return ax


# How many topics: what held-out counts say of every number tried, and how large the topics are.

SEEN, CHOSEN = "#0072B2", "#D55E00"
NEAR = 6.0  # the curve is drawn to scale within so many times the gap that decides, and logarithmically beyond


def choice(
    choice: Choice, stability: Mapping[int, Any] | None = None, ax: Axes | None = None
) -> Axes | NDArray[np.object_]:
    """Held-out log-likelihood against the number of topics, with errors of one standard deviation; below, shares of topics.

    A dot for every number tried: log-likelihood per 1,000 held-out counts, less that of the best, with its standard error
    paired by sample. The scale is linear near the best and logarithmic far below. The best, the suggested and the last
    worthwhile number are marked. The thin grey line is the same of the counts that were fitted, which always rises.

    Parameters
    ----------
    choice : Choice
        Of `unmix.choose_topics`.
    stability : mapping of int to Stability, default=None
        What `unmix.stability` found for some numbers of topics, by number: its mean and its least get a panel.
    ax : Axes, default=None
        Where to draw the curve alone; by default a new figure with all panels.

    Returns
    -------
    Axes or array of Axes
        The panels, or the one Axes if `ax` is given.

    See Also
    --------
    choose_topics, report.write_choice

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]] * 5
    >>> panels = um.plot.choice(um.choose_topics(X, range(1, 4), folds=2, random_state=0))
    """
    if ax is not None:
        _curve(ax, choice)
        ax.set_xlabel("topics")
        return ax
    return panels_of(choice, stability)


def panels_of(choice: Choice, stability: Mapping[int, Any] | None = None) -> NDArray[np.object_]:
    """All panels, of a new figure."""
    panels = new_grid(2 if stability is None else 3, 1, (7, 2.9), sharex=True)
    _curve(panels[0], choice)
    if stability is not None:
        _stability(panels[1], choice, stability)
    _shares(panels[-1], choice)
    panels[-1].set_xlabel("topics")
    return panels


def _curve(ax: Axes, choice: Choice) -> None:
    table = choice.table
    per, places = 1000 / choice.held_out, np.arange(len(table))
    delta, error = table["delta"] * per, table["error"] * per
    fitted = table["loglik"] - table["loglik"][table["topics"] == choice.best].iloc[0]
    # folds that are fitted have more counts than the one held out
    fitted = fitted * 1000 / (choice.held_out / choice.folds_done * (choice.folds - 1 if choice.folds > 1 else 4))
    linear = max(NEAR * float(np.median(error)), 1e-6)
    ax.plot(places, fitted, color="0.7", linewidth=1, label="fitted")
    look: dict[str, Any] = {"color": SEEN, "marker": "o", "markersize": 4.5, "linewidth": 1.6, "capsize": 2.5}
    ax.errorbar(places, delta, error, label="held out", **look)
    lowest = 1.5 * min(float(delta.min()), -linear)
    ax.set_yscale("symlog", linthresh=linear)
    ax.set_ylim(lowest, 1.5 * linear)
    powers = 10.0 ** np.arange(np.ceil(np.log10(linear)), np.floor(np.log10(-lowest)) + 1)
    ax.set_yticks([0, *-powers], ["0", *(f"−{power:,.10g}" for power in powers)], minor=False)
    ax.minorticks_off()
    _mark(ax, choice, delta)
    tidy(ax, grid="y")
    ax.set_ylabel("log-likelihood\nper 1,000 counts")
    _numbers(ax, choice)
    ax.legend(frameon=False, fontsize=8, loc="best")  # wherever the lines leave room


def _mark(ax: Axes, choice: Choice, delta: Any) -> None:
    """A ring around each suggestion, and what it is, one above the other."""
    numbers = choice.table["topics"].tolist()
    told = {choice.suggested: ["suggested"]}
    told.setdefault(choice.best, []).append("best")
    if choice.worthwhile is not None and choice.worthwhile < choice.suggested:
        told[choice.worthwhile] = ["last worthwhile"]
    for height, K in enumerate(sorted(told)):
        colour = CHOSEN if choice.suggested == K else QUIET
        place = numbers.index(K), delta[numbers.index(K)]
        ax.plot(*place, marker="o", markersize=11, markerfacecolor="none", color=colour, linestyle="none")
        ax.annotate(
            f"{K}: {', '.join(told[K])}",
            place,
            xytext=(0, 11 + 13 * height),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=colour,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8},
        )


def _shares(ax: Axes, choice: Choice) -> None:
    places = np.arange(len(choice.table))
    floor = np.zeros(len(places))
    colours = shades(SEEN)(np.linspace(0.9, 0.15, choice.shares.shape[1]))  # by rank: topics of fits are not matched
    for place, colour in enumerate(colours):
        ax.bar(places, choice.shares[:, place], 0.8, floor, color=colour, edgecolor="white", linewidth=0.5)
        floor += choice.shares[:, place]
    tidy(ax)
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter("{x:.0%}")
    ax.set_ylabel("shares of topics")
    ax.set_yticks([0, 0.5, 1])


def _stability(ax: Axes, choice: Choice, stability: Mapping[int, Any]) -> None:
    values = {K: np.asarray(getattr(one, "table", one)["stability"], dtype=float) for K, one in stability.items()}
    numbers = sorted(values)
    places = np.interp(numbers, choice.table["topics"], np.arange(len(choice.table)))
    for name, measure, style in (("mean", np.nanmean, "-"), ("least", np.nanmin, "--")):
        ax.plot(places, [measure(values[K]) for K in numbers], style, color=SEEN, marker="o", markersize=4, label=name)
    tidy(ax, grid="y")
    ax.set_ylim(0, 1.02)
    ax.set_ylabel("stability of topics")
    ax.legend(frameon=False, fontsize=8, loc="lower left")


def _numbers(ax: Axes, choice: Choice) -> None:
    numbers = choice.table["topics"].tolist()
    step = -(-len(numbers) // 25)  # at most 25 names
    ax.set_xticks(range(len(numbers))[::step], [str(K) for K in numbers[::step]])
