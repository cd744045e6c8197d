"""Figures of mutational signatures.

The types of mutations that signatures are made of, by the names, in the order and in the colours that the field gives them.

96 single base substitutions, 78 doublet substitutions, 83 small insertions and deletions (Alexandrov et al., Nature 2020), 48
classes of copy number segments (Steele et al., Nature 2022) and 32 of structural variants (Nik-Zainal et al., Nature 2016), as
COSMIC and SigProfiler name them: "A[C>A]A", "AC>CA", "1:Del:C:0", "2:LOH:1Mb-10Mb", "clustered_del_1-10Kb". `base.kinds` knows
the spellings of other programs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.analysis.application import FitLike, fit_of
from unmix.analysis.compare import CatalogueMatch
from unmix.analysis.features import topic_places
from unmix.base.checks import percent, short
from unmix.base.kinds import DOUBLETS, mutation_types
from unmix.base.types import Floats
from unmix.fit import Fit
from unmix.plot.style import QUIET, figure_of, panels_for, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BASES = "ACGT"


@dataclass(frozen=True)
class Group:
    """Types that share one box: its label, the heading over its neighbours and itself, what is under their bars."""

    label: str
    features: tuple[str, ...]
    ticks: tuple[str, ...]
    colors: tuple[str, ...]  # of the bars; the box has the last one
    heading: str = ""
    below: str = ""


@dataclass(frozen=True)
class Layout:
    """All types of a kind of mutation, group by group."""

    kind: str
    groups: tuple[Group, ...]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(feature for group in self.groups for feature in group.features)

    @property
    def colors(self) -> tuple[str, ...]:
        return tuple(color for group in self.groups for color in group.colors)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first and the last place of each group."""
        sizes = [len(group.features) for group in self.groups]
        return [(int(end) - size, int(end) - 1) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]


@cache
def layouts() -> tuple[Layout, ...]:
    return _substitutions(), _doublets(), _indels(), _copy_numbers(), _rearrangements()


def layout_of(features: Iterable[str]) -> Layout:
    """The layout that has all these features; not all of its own need be among them."""
    names = mutation_types(features)
    best = max(layouts(), key=lambda layout: len(set(names) & set(layout.features)))
    foreign = [name for name in names if name not in set(best.features)]
    if not foreign:
        return best
    known = ", ".join(f"{len(layout.features)} {layout.kind} ({layout.features[0]} …)" for layout in layouts())
    raise ValueError(f"the feature {foreign[0]!r} is not a type of mutation; signatures are drawn of {known}")


# The field's colours, those below a contrast of 3 on white made darker.
SUBSTITUTIONS = (
    *(("C>A", "#0295BC"), ("C>G", "#010101"), ("C>T", "#E42926")),
    *(("T>A", "#8F8F8F"), ("T>C", "#6B9E2F"), ("T>G", "#CC7A85")),
)


def _substitutions() -> Layout:
    around = [(left, right) for left in BASES for right in BASES]
    groups = []
    for change, color in SUBSTITUTIONS:
        ticks = tuple(f"{left}{change[0]}{right}" for left, right in around)
        features = tuple(f"{left}[{change}]{right}" for left, right in around)
        groups.append(Group(change, features, ticks, (color,) * 16))
    return Layout("single base substitutions", tuple(groups))


DOUBLET_COLOURS = (
    "#03BDEF",
    "#0366CC",
    "#A2CF63",
    "#016601",
    "#FF9999",
    "#E42926",
    "#FFB266",
    "#FF8001",
    "#CC99FF",
    "#4C0199",
)


def _doublets() -> Layout:
    pairs = zip(DOUBLETS.items(), DOUBLET_COLOURS, strict=True)
    groups = [_group(f"{pair}>NN", f"{pair}>*", ends, color) for (pair, ends), color in pairs]
    return Layout("doublet base substitutions", tuple(groups))


# Of indels: what changes, as text, the ticks, colours of single bases C and T, and of 2, 3, 4 and more bases at repeats.
INDELS = (
    ("Del", "deletion", "1 2 3 4 5 6+", ("#FDBE6F", "#FF8002"), ("#FDCAB5", "#FC8A6A", "#F14432", "#BC191A")),
    ("Ins", "insertion", "0 1 2 3 4 5+", ("#B0DD8B", "#36A12E"), ("#D0E1F2", "#94C4DF", "#4A98C9", "#1764AB")),
)
MICROHOMOLOGY = (("1", "#E2E2EF"), ("1 2", "#B6B6D8"), ("1 2 3", "#8683BD"), ("1 2 3 4 5", "#62409B"))


def _indels() -> Layout:
    """ "2:Del:R:0": two bases are deleted that are repeated 0 times more; "2:Del:M:1": with a microhomology of 1."""
    lengths, numbers = ("2", "3", "4", "5+"), "0 1 2 3 4 5"
    groups = []
    for change, word, ticks, single, _ in INDELS:
        for base, color in zip("CT", single, strict=True):
            heading = f"1 bp {word}"
            groups.append(_group(base, f"1:{change}:{base}:*", numbers, color, heading, "homopolymer length", ticks))
    for change, word, ticks, _, longer in INDELS:
        for length, color in zip(lengths, longer, strict=True):
            heading = f">1 bp {word} at repeats"
            groups.append(_group(length, f"{length[0]}:{change}:R:*", numbers, color, heading, "repeat units", ticks))
    for length, (ends, color) in zip(lengths, MICROHOMOLOGY, strict=True):
        ticks = ends.replace("5", "5+")
        groups.append(_group(length, f"{length[0]}:Del:M:*", ends, color, "microhomology", "length", ticks))
    return Layout("small insertions and deletions", tuple(groups))


SIZES = "0-100kb 100kb-1Mb 1Mb-10Mb 10Mb-40Mb >40Mb"
COPIES = {"1": "#5A5A5A", "2": "#6B8E23", "3-4": "#7A28B8", "5-8": "#A0522D", "9+": "#E0218A"}


def _copy_numbers() -> Layout:
    groups = [_group("0", "0:homdel:*", "0-100kb 100kb-1Mb >1Mb", "#1F3FBF", "hom. del.", shaded=True)]
    for state, heading in (("LOH", "loss of heterozygosity"), ("het", "heterozygous")):
        for copies, color in COPIES.items():
            if (state, copies) != ("het", "1"):
                groups.append(_group(copies, f"{copies}:{state}:*", SIZES, color, heading, shaded=True))
    return Layout("classes of copy number", tuple(groups))


def _rearrangements() -> Layout:
    groups = []
    for where in ("clustered", "non-clustered"):
        for event, color in (("del", "#E0218A"), ("tds", "#A0522D"), ("inv", "#7A28B8")):
            lengths = "1-10Kb 10-100Kb 100Kb-1Mb 1Mb-10Mb >10Mb"
            groups.append(_group(event, f"{where}_{event}_*", lengths, color, where, shaded=True))
        groups.append(_group("tr", f"{where}_*", "trans", "#6E6E6E", where))
    return Layout("classes of structural variants", tuple(groups))


def _group(
    label: str,
    form: str,
    ends: str,
    color: str,
    heading: str = "",
    below: str = "",
    ticks: str = "",
    shaded: bool = False,
) -> Group:
    """Features are the form with each of the ends, which are separated by blanks, in place of the *."""
    each = ends.split()
    colors = _shades(color, len(each)) if shaded else (color,) * len(each)
    features = tuple(form.replace("*", end) for end in each)
    return Group(label, features, tuple((ticks or ends).split()), colors, heading, below)


def _shades(color: str, n: int) -> tuple[str, ...]:
    """From a pale shade of a colour to the colour: the longer, the darker."""
    channels = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    strengths = [0.25 + 0.75 * i / (n - 1) for i in range(n)]
    return tuple("#" + "".join(f"{round(255 - s * (255 - c)):02X}" for c in channels) for s in strengths)


# Mutational signatures as the field draws them: a bar a type of mutation, in its order and its colours.

BAR = 0.104  # inches for a bar, so that what is written below it has space
PANEL_HEIGHT = 1.35
STRIP, ABOVE = 11.0, 3.0  # points: of the coloured boxes, and between them and the bars
LONGEST_TITLE = 60


def signature(
    fit: FitLike,
    topics: int | Iterable[int] | None = None,
    ax: Axes | None = None,
    *,
    match: CatalogueMatch | None = None,
) -> Axes | NDArray[np.object_]:
    """Bars of the types of mutations in each topic, in the field's order whatever the order of the features.

    Parameters
    ----------
    fit : Fit, estimator or path
        Its features are 96 single base substitutions ("A[C>A]A"), 78 doublets ("AC>CA"), 83 insertions and deletions
        ("1:Del:C:0"), 48 classes of copy number ("2:LOH:1Mb-10Mb") or 32 of structural variants ("clustered_del_1-10Kb"), or
        some of one kind, also as sigfit, MutationalPatterns and others spell them ("ACA>AAA"). For a catalogue:
        `unmix.PoissonNMF.from_factors(table).result_`.
    topics : int or iterable of int, default=None
        Numbers of topics, from 1; by default all, the heaviest first.
    ax : Axes, default=None
        Where to draw one topic; by default a new figure with one panel per topic.
    match : CatalogueMatch, default=None
        Of `unmix.match_catalogue`: titles name the most similar entry of the catalogue and its cosine similarity.

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
    fit = fit_of(fit)
    if fit.features is None:
        raise ValueError("the features of this fit have no names; use them, such as A[C>A]A, to draw signatures")
    layout = layout_of(fit.features.tolist())
    places = topic_places(fit, topics)
    panels = panels_for(places, ax, 1, (0.8 + max(6.0, BAR * len(layout.features)), PANEL_HEIGHT))
    for k, panel in zip(places, panels, strict=True):
        _bars(panel, layout, in_layout(fit, layout, fit.topics[:, k]))
        share = f" · {percent(fit.shares[k])} of {fit.sizes.sum():,.0f} mutations" if len(fit.L) else ""
        title = short(fit.labels[k], LONGEST_TITLE)
        share += "" if match is None else _most_like(match, k)
        where: Any = ((0, 1), (5, -3), "axes fraction", "offset points")
        panel.annotate(title + share, *where, va="top", size=9, weight="bold", parse_math=False)
    _boxes(panels[0], layout)
    for panel in panels[:-1]:
        panel.set_xticks([])
    _below(panels[-1], layout)
    if ax is not None:
        ax.set_ylabel("share of mutations", fontsize=8.5)
        return ax
    figure_of(panels[0]).supylabel("share" if len(panels) == 1 else "share of mutations", fontsize=8.5)
    return panels


def _most_like(match: CatalogueMatch, k: int) -> str:
    row = match.table.set_index("topic").loc[k + 1]
    return f" · most similar to {row['best']} ({row['cosine']:.2f})"


def in_layout(fit: Fit, layout: Layout, shares: Floats) -> Floats:
    """In the order of the layout, 0 for types that the fit does not have."""
    known = pd.Series(shares, index=mutation_types(fit.feature_names)).groupby(level=0).sum()
    return known.reindex(layout.features, fill_value=0.0).to_numpy()


def _bars(ax: Axes, layout: Layout, heights: Floats) -> None:
    ax.bar(np.arange(len(heights)), heights, width=0.62, color=layout.colors, linewidth=0)
    ax.set_xlim(-0.7, len(heights) - 0.3)
    ax.set_ylim(0, 1.28 * max(heights.max(), 1e-3))  # so that the name stands over the bars
    ax.locator_params(axis="y", nbins=4)
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    ax.tick_params(axis="y", labelsize=7.5)
    ax.tick_params(axis="x", length=0)
    tidy(ax, grid="y")
    for _, last in layout.spans[:-1]:
        ax.axvline(last + 0.5, color="0.92", linewidth=0.8, zorder=0.4)


def _boxes(ax: Axes, layout: Layout) -> None:
    """A coloured box over each group, its label in it, and headings over several."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    middle = ABOVE + STRIP / 2
    raised = ScaledTranslation(0, middle / 72, ax.figure.dpi_scale_trans)
    where = blended_transform_factory(ax.transData, ax.transAxes) + raised
    limits = ax.get_xlim()
    look: dict[str, Any] = {"linewidth": STRIP, "transform": where, "clip_on": False, "solid_capstyle": "butt"}
    for group, (first, last) in zip(layout.groups, layout.spans, strict=True):
        color = group.colors[-1]
        ax.plot([first - 0.4, last + 0.4], [1, 1], color=color, **look)
        letters = "0.1" if _light(color) else "white"
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
        for label, color in zip(twin.get_xticklabels(), layout.colors, strict=True):
            red, green, blue = (channel * (0.7 if _light(color) else 1) for channel in to_rgb(color))
            label.set_color((red, green, blue))
    for text, first, last in _runs(layout, "below"):
        _written(ax, (first + last) / 2, -11, text, "0.1", "top", 7.5, above=False)


def _written(ax: Axes, x: float, points: float, text: str, color: str, va: str, size: float, *, above: bool) -> None:
    """Some points over, or under, the Axes."""
    where: Any = ((x, float(above)), (0, points), ("data", "axes fraction"), "offset points", None, False)
    weight = "bold" if above else "normal"
    ax.annotate(text, *where, ha="center", va=va, fontsize=size, color=color, weight=weight)


def _light(color: str) -> bool:
    """Whether white letters could not be read on it."""
    from matplotlib.colors import to_rgb

    return bool(np.dot(to_rgb(color), (0.299, 0.587, 0.114)) > 0.6)


def _runs(layout: Layout, name: str) -> list[tuple[str, int, int]]:
    """Neighbouring groups with the same heading, or the same words below: those words, and from where to where they reach."""
    spans = zip(layout.groups, layout.spans, strict=True)
    runs = groupby(spans, key=lambda pair: (getattr(pair[0], name), pair[0].heading))
    ends = [(word, [span for _, span in members]) for (word, _), members in runs]
    return [(word, places[0][0], places[-1][1]) for word, places in ends if word]
