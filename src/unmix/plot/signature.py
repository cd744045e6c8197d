"""Mutational signatures as the field draws them: a bar a type of mutation, in its order and its colours."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from unmix.analysis.topics import short, topic_places
from unmix.fit import Fit
from unmix.plot.mutations import Layout, layout_of
from unmix.plot.style import QUIET, figure_of, new_grid, tidy
from unmix.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAR = 0.104  # inches for a bar, so that what is written below it has room
PANEL_HEIGHT = 1.35
STRIP, ABOVE = 11.0, 3.0  # points: of the coloured boxes, and between them and the bars
LONGEST_TITLE = 60


@overload
def signature(fit: Fit, topics: int | Iterable[int] | None = None, ax: None = None) -> NDArray[np.object_]: ...


@overload
def signature(fit: Fit, topics: int | Iterable[int] | None, ax: Axes) -> Axes: ...


def signature(
    fit: Fit, topics: int | Iterable[int] | None = None, ax: Axes | None = None
) -> Axes | NDArray[np.object_]:
    """Bars of the types of mutations in each topic, in the field's order whatever the order of the features.

    Parameters
    ----------
    fit : Fit
        Its features are 96 single base substitutions ("A[C>A]A"), 78 doublets ("AC>CA"), 83 insertions and deletions
        ("1:Del:C:0"), 48 classes of copy number ("2:LOH:1Mb-10Mb") or 32 of structural variants ("clustered_del_1-10Kb"), or
        some of one kind. For a catalogue: `unmix.PoissonNMF.from_factors(table).result_`.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Where to draw one topic; by default a new figure with one panel per topic.

    Returns
    -------
    Axes or array of Axes
        One per topic, or the one given.

    Raises
    ------
    ValueError
        If features have no names, or none of mutations, or `ax` is to hold several topics.

    See Also
    --------
    match_catalogue

    Examples
    --------
    >>> import numpy as np, pandas as pd, unmix as um
    >>> types = [f"{a}[{change}]{b}" for change in ("C>A", "C>G", "C>T", "T>A", "T>C", "T>G") for a in "ACGT" for b in "ACGT"]
    >>> flat = um.PoissonNMF.from_factors(pd.DataFrame({"flat": np.ones(96)}, index=types)).result_
    >>> len(um.plot.signature(flat)[0].patches)
    96
    """
    if fit.features is None:
        raise ValueError("the features of this fit have no names; give them, such as A[C>A]A, to draw signatures")
    layout = layout_of(fit.features.tolist())
    places = topic_places(fit, topics)
    if ax is not None and len(places) != 1:
        raise ValueError(f"ax holds one topic, and {len(places)} were asked for; give one, as topics=3, or no ax")
    width = 0.8 + max(6.0, BAR * len(layout.features))
    panels = np.array([ax], dtype=object) if ax is not None else new_grid(len(places), 1, (width, PANEL_HEIGHT))
    for k, panel in zip(places, panels, strict=True):
        _bars(panel, layout, _ordered(fit, layout, fit.topics[:, k]))
        share = f"  {fit.shares[k]:.1%}" if len(fit.L) else ""
        title = short(fit.labels[k], LONGEST_TITLE)
        panel.annotate(
            title + share,
            (0, 1),
            (5, -3),
            "axes fraction",
            "offset points",
            va="top",
            size=9,
            weight="bold",
            parse_math=False,
        )
    _boxes(panels[0], layout)
    for panel in panels[:-1]:
        panel.set_xticks([])
    _below(panels[-1], layout)
    if ax is not None:
        ax.set_ylabel("share of mutations", fontsize=8.5)
        return ax
    figure_of(panels[0]).supylabel("share" if len(panels) == 1 else "share of mutations", fontsize=8.5)
    return panels


def _ordered(fit: Fit, layout: Layout, shares: Floats) -> Floats:
    """In the order of the layout, 0 for types that the fit does not have."""
    known = dict(zip(fit.features.tolist() if fit.features is not None else [], shares.tolist(), strict=True))
    return np.array([known.get(feature, 0.0) for feature in layout.features])


def _bars(ax: Axes, layout: Layout, heights: Floats) -> None:
    colours = [colour for group in layout.groups for colour in group.colours]
    ax.bar(np.arange(len(heights)), heights, width=0.62, color=colours, linewidth=0)
    ax.set_xlim(-0.7, len(heights) - 0.3)
    ax.set_ylim(0, 1.28 * max(heights.max(), 1e-3))  # so that the name stands over the bars
    ax.locator_params(axis="y", nbins=4)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    ax.tick_params(axis="y", labelsize=7.5)
    ax.tick_params(axis="x", length=0)
    tidy(ax, grid="y")
    for _, last in _spans([len(group.features) for group in layout.groups])[:-1]:
        ax.axvline(last + 0.5, color="0.92", linewidth=0.8, zorder=0.4)


def _boxes(ax: Axes, layout: Layout) -> None:
    """A coloured box over each group, its label in it, and headings over several."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    middle = ABOVE + STRIP / 2
    raised = ScaledTranslation(0, middle / 72, ax.figure.dpi_scale_trans)
    where = blended_transform_factory(ax.transData, ax.transAxes) + raised
    limits = ax.get_xlim()
    for group, (first, last) in zip(
        layout.groups, _spans([len(group.features) for group in layout.groups]), strict=True
    ):
        colour = group.colours[-1]
        (line,) = ax.plot(
            [first - 0.4, last + 0.4], [1, 1], color=colour, linewidth=STRIP, transform=where, clip_on=False
        )
        line.set_solid_capstyle("butt")
        letters = "0.1" if _light(colour) else "white"
        _written(ax, (first + last) / 2, middle, group.label, letters, "center", 8, above=True)
    ax.set_xlim(limits)
    for heading, first, last in _runs(layout, "heading"):
        _written(ax, (first + last) / 2, ABOVE + STRIP + 2, heading, "0.1", "bottom", 8, above=True)


def _below(ax: Axes, layout: Layout) -> None:
    """What each bar is; in a trinucleotide the base that changes has the colour of its group."""
    from matplotlib.colors import to_rgb

    ticks = [tick for group in layout.groups for tick in group.ticks]
    upright = max(map(len, ticks)) <= 2 and layout.groups[0].heading != ""
    coloured = not layout.groups[0].heading and len(ticks[0]) == 3
    shown = [f"{tick[0]} {tick[2]}" if coloured else tick for tick in ticks]
    style: dict[str, Any] = {"fontsize": 6, "family": "DejaVu Sans Mono"}
    ax.set_xticks(np.arange(len(ticks)), shown, rotation=0 if upright else 90, color=QUIET, **style)
    ax.tick_params(axis="x", pad=2)
    if coloured:
        twin = ax.secondary_xaxis(0)  # the same letters in their place, but only the middle ones
        twin.set_xticks(np.arange(len(ticks)), [f" {tick[1]} " for tick in ticks], rotation=90, weight="bold", **style)
        twin.tick_params(axis="x", length=0, pad=2)
        twin.spines["bottom"].set_visible(False)
        colours = [colour for group in layout.groups for colour in group.colours]
        for label, colour in zip(twin.get_xticklabels(), colours, strict=True):
            red, green, blue = (channel * (0.7 if _light(colour) else 1) for channel in to_rgb(colour))
            label.set_color((red, green, blue))
    for text, first, last in _runs(layout, "below"):
        _written(ax, (first + last) / 2, -11, text, "0.1", "top", 7.5, above=False)


def _written(ax: Axes, x: float, points: float, text: str, colour: str, va: str, size: float, *, above: bool) -> None:
    """Some points over, or under, the Axes."""
    weight = "bold" if above else "normal"
    ax.annotate(
        text,
        (x, float(above)),
        (0, points),
        ("data", "axes fraction"),
        "offset points",
        ha="center",
        va=va,
        fontsize=size,
        color=colour,
        weight=weight,
        annotation_clip=False,
    )


def _light(colour: str) -> bool:
    """Whether white letters could not be read on it."""
    from matplotlib.colors import to_rgb

    return bool(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) > 0.6)


def _spans(sizes: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last place of each of several groups of these sizes."""
    ends = np.cumsum(list(sizes))
    return [(int(end - size), int(end - 1)) for end, size in zip(ends, np.diff(ends, prepend=0), strict=True)]


def _runs(layout: Layout, name: str) -> list[tuple[str, int, int]]:
    """Neighbouring groups with the same heading, or the same words below: those words, and from where to where they reach."""
    spans = _spans([len(group.features) for group in layout.groups])
    words = [getattr(group, name) for group in layout.groups]
    headings = [group.heading for group in layout.groups]
    runs = []
    for (word, _), members in groupby(range(len(words)), key=lambda i: (words[i], headings[i])):
        places = list(members)
        if word:
            runs.append((word, spans[places[0]][0], spans[places[-1]][1]))
    return runs
