"""The look that all figures share, and the one place where figures are made."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil, cos, radians, sin
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmix.analysis import topic_order
from unmix.analysis.application import FitLike
from unmix.analysis.features import HasTopics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation, Text


MANY_POINTS = 2000  # beyond that a vector figure would grow slow: points become pixels
QUIET = "0.45"  # the grey of words that matter less


def new_figure(width: float, height: float) -> Figure:
    """A figure of pyplot where that is in use, in a notebook or a program that has imported it, which shows and saves it as its
    own; elsewhere one without a display or a state."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None or "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        return pyplot.figure(figsize=(width, height), layout="constrained")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_axes(width: float, height: float) -> Axes:
    """The Axes of a new figure."""
    return new_grid(1, 1, (width, height))[0]


def panels_for(
    topics: Sequence[int], ax: Axes | None, most_columns: int, size: tuple[float, float]
) -> NDArray[np.object_]:
    """A panel for each topic; or the one Axes that is given, for one."""
    if ax is None:
        return new_grid(len(topics), most_columns, size)
    if len(topics) != 1:
        raise ValueError(f"ax holds one topic, and {len(topics)} were asked for; use one, as topics=3, or no ax")
    return np.array([ax], dtype=object)


def new_grid(
    n: int, most_columns: int, panel: tuple[float, float], *, sharex: bool = False, sharey: bool = False
) -> NDArray[np.object_]:
    """n panels of a size in inches, row by row and in rows as even as can be, of one new figure."""
    rows = ceil(n / most_columns)
    columns = ceil(n / rows)
    figure = new_figure(columns * panel[0], rows * panel[1])
    panels = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey).ravel()
    for unused in panels[n:]:
        unused.remove()
    return panels[:n]


def figure_of(ax: Axes) -> Figure:
    return ax.figure.canvas.figure


def lay_out(ax: Axes) -> None:
    """Find out where everything will be, without drawing it."""
    use_fonts(figure_of(ax))
    with letters_missing():
        figure_of(ax).draw_without_rendering()


def use_fonts(figure: Figure) -> str:
    """Give texts whose letters the usual font lacks other fonts of this machine. Returns the letters that none of them has."""
    from matplotlib import font_manager
    from matplotlib.text import Text

    def letters_of(file: str) -> Container[int]:
        return font_manager.get_font(file).get_charmap()

    usual, texts = letters_of(font_manager.findfont(font_manager.FontProperties())), figure.findobj(Text)
    texts = [text for text in texts if not all(ord(letter) in usual or letter.isspace() for letter in text.get_text())]
    missing = {
        letter for text in texts for letter in text.get_text() if ord(letter) not in usual and not letter.isspace()
    }
    regular = [
        font for font in font_manager.fontManager.ttflist if font.style == "normal" and "Last Resort" not in font.name
    ]
    families = []
    for font in sorted(regular, key=lambda font: ("Sans" not in font.name, font.weight != 400, font.name)):
        known = {letter for letter in missing if ord(letter) in letters_of(font.fname)} if missing else set()
        families += [font.name] if known else []
        missing -= known
    for text in texts:
        text.set_fontfamily([*text.get_fontfamily(), *families])
    return "".join(sorted(missing, key=lambda letter: (not letter.isalpha(), letter)))


@contextmanager
def letters_missing() -> Iterator[None]:
    """While text is measured, nothing is said of letters that the font lacks; it is when the figure is drawn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def tidy(ax: Axes, grid: str = "") -> None:
    """No frame but the two lines that are read; `grid` is "x", "y", "both" or none, and is behind the figure."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid:
        ax.grid(axis=grid, color="0.9", linewidth=0.8)  # type: ignore[arg-type]
    ax.set_axisbelow(True)


def bare(ax: Axes) -> None:
    """Neither a frame nor marks at the axes, as around a table of coloured cells."""
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def color_bar(ax: Axes, image: ScalarMappable, label: str) -> Colorbar:
    bar = figure_of(ax).colorbar(image, ax=ax, shrink=0.8)
    bar.set_label(label, parse_math=False)
    bar.outline.set_visible(False)
    return bar


def sentence(ax: Axes, text: str) -> None:
    """What is written where there is nothing to draw."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=QUIET, wrap=True)


def legend_beside(ax: Axes, *entries: Any, **options: Any) -> None:
    """A legend to the right of the figure."""
    legend = ax.legend(*entries, loc="upper left", bbox_to_anchor=(1.0, 1.03), frameon=False, **options)
    literal(legend.get_texts())


def literal(texts: Iterable[Text]) -> None:
    """A "$" in a name is a "$"."""
    for text in texts:
        text.set_parse_math(False)


def shades(color: str) -> Colormap:
    """From almost white to a colour, and to a darker one where most is."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    most = np.array(to_rgb(color))
    return LinearSegmentedColormap.from_list(color, [np.full(3, 0.94), most, 0.55 * most])


# Colours of topics, as hex strings: one palette for figures, the command line and the HTML report. Needs no matplotlib.

# The first eight are Okabe and Ito's, with yellow and black adjusted. Any two of twelve differ by ΔE*ab >= 11 in normal sight,
# protanopia, deuteranopia and tritanopia (matrices of Machado et al. 2009). On dark backgrounds five of them are lighter.
LIGHT = (
    *("#0072B2", "#E69F00", "#56B4E9", "#D55E00", "#4D4D4D", "#009E73", "#E0D040", "#CC79A7"),
    *("#7A3B12", "#9966E6", "#AA3377", "#332288"),
)
DARK = (*LIGHT[:4], "#D0D0D0", *LIGHT[5:8], "#A0522D", "#A878F0", "#C23E88", "#6655DD")
GREYS = {False: ("#ABABAB", "#DDDDDD"), True: ("#666666", "#3A3A3A")}  # of all further topics, in turn


def palette(n: int, *, dark: bool = False) -> list[str]:
    """Colours of n topics, the heaviest first: 12 that colour-blind readers can distinguish, then two greys in turn.

    A colour does not depend on n, so fits with different numbers of topics can be compared.

    Parameters
    ----------
    n : int
        Number of colours.
    dark : bool, default=False
        Colours for dark backgrounds.

    Returns
    -------
    list of str
        "#RRGGBB".

    Examples
    --------
    >>> palette(3)
    ['#0072B2', '#E69F00', '#56B4E9']
    """
    colors = list((DARK if dark else LIGHT)[:n])
    return colors + [GREYS[dark][place % 2] for place in range(n - len(colors))]


def topic_colors(fit: HasTopics | FitLike, *, dark: bool = False) -> list[str]:
    """Colour of each topic, assigned in `topic_order`, so that the heaviest topics have colours and neighbours in a stack
    differ.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    dark : bool, default=False
        Colours for dark backgrounds.

    Returns
    -------
    list of str
        "#RRGGBB", one per topic.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> um.plot.topic_colors(fit)
    ['#0072B2', '#E69F00']
    """
    order = topic_order(fit)
    return in_order(palette(len(order), dark=dark), order)


def in_order(colors: Sequence[str], order: Iterable[int]) -> list[str]:
    """The first colour at the first place of an order, and so on."""
    given = dict(zip(order, colors, strict=True))
    return [given[place] for place in sorted(given)]


# Words next to points, none over another: each takes the nearest free place, the first ones first.
#
# A word that is not next to its point has a line to it, which crosses no other word.

# Right, left, above, below, then between; the same further away, where a line leads back to the point.
DIRECTIONS = [(cos(radians(a)), sin(radians(a))) for a in (0, 180, 90, 270, 30, 150, 330, 210, 60, 120, 300, 240)]
NEAR = 3
DISTANCES = (NEAR, 9, 17, 27, 39, 53)  # this and all lengths below in points of 1/72 inch
LEADER: dict[str, Any] = {"arrowstyle": "-", "color": QUIET, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}
LETTER_SIZE, POINT_SIZE = 8, 4  # no label may hide a point
BETWEEN, PADDING = 1.0, 2.0  # space around a label, and inside its box
BOX_STYLE = f"round,pad={PADDING / LETTER_SIZE}"

Box = tuple[float, float, float, float]  # left, bottom, right, top
Line = tuple[float, float, float, float]  # x and y of one end and of the other


def place_labels(
    ax: Axes,
    x: ArrayLike,
    y: ArrayLike,
    names: Sequence[str],
    boxes: Sequence[str] | None = None,
    sizes: ArrayLike | None = None,
) -> list[Annotation]:
    """Write each name near its point, inside the Axes; those that find no free place are omitted.

    `boxes` are the colours of frames around the names, which then may lie on the points, and best on their own. `sizes` are the
    diameters of points that are larger than usual, in points of 1/72 inch.
    Limits and scales of the axes must be final, and the figure must have its final size.
    """
    from matplotlib.patheffects import withStroke

    lay_out(ax)
    points = 72 / figure_of(ax).dpi  # a pixel
    places = np.column_stack([x, y]).astype(float)
    spots = (ax.transData.transform(places) * points).tolist()
    frame = tuple((np.asarray(ax.get_window_extent().extents) * points).tolist())
    boxed = boxes is not None
    wide = np.full(len(names), POINT_SIZE) if sizes is None else np.maximum(np.asarray(sizes, dtype=float), POINT_SIZE)
    taken = [] if boxed else [_box(u, v, size, size) for (u, v), size in zip(spots, wide.tolist(), strict=True)]
    style: dict[str, Any] = {"fontsize": LETTER_SIZE, "parse_math": False, "ha": "center", "va": "center"}
    if boxes is None:
        style["path_effects"] = [withStroke(linewidth=2, foreground="white")]
    room = Room(frame, taken, lines_may_cross=boxed)
    written = []
    for i, name in enumerate(names):
        width, height = (points * length + 2 * (BETWEEN + PADDING * boxed) for length in _size(ax, name))
        beyond = float(wide[i]) - POINT_SIZE
        for distance, dx, dy in _offsets(width + beyond, height + beyond, boxed):
            line = (*spots[i], spots[i][0] + dx, spots[i][1] + dy)
            if room.take(_box(line[2], line[3], width, height), line if distance > NEAR else None):
                if boxes is not None:
                    style["bbox"] = {"boxstyle": BOX_STYLE, "ec": boxes[i], "fc": (1, 1, 1, 0.85)}
                leader = LEADER if distance > NEAR else None
                style["zorder"] = 4 - i / len(names)  # earlier words lie over later lines
                written.append(
                    ax.annotate(name, places[i], (dx, dy), textcoords="offset points", arrowprops=leader, **style)
                )
                break
    return written


@dataclass
class Room:
    """What is taken inside a frame: by points, by words and by the lines that lead to them."""

    frame: Box
    points: list[Box]
    lines_may_cross: bool  # earlier words, under them: it cannot be avoided where words lie on the points
    words: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def take(self, box: Box, line: Line | None) -> bool:
        """Take the box and the line for a word, if they are free."""
        left, bottom, right, top = self.frame
        if box[0] < left or box[1] < bottom or box[2] > right or box[3] > top:
            return False
        if any(_overlap(box, other) for other in (*self.points, *self.words)):
            return False
        if any(_crosses(other, box) for other in self.lines):
            return False
        if line is not None and not self.lines_may_cross and any(_crosses(line, other) for other in self.words):
            return False
        self.words.append(box)
        self.lines += [line] if line is not None else []
        return True


def _size(ax: Axes, name: str) -> tuple[float, float]:
    """Width and height of a name in pixels."""
    text = ax.text(0, 0, name, fontsize=LETTER_SIZE, parse_math=False)
    with letters_missing():
        box = text.get_window_extent()
    text.remove()
    return box.width, box.height


def _offsets(width: float, height: float, boxed: bool) -> Iterator[tuple[float, float, float]]:
    """Distances from the point, and where the middle of the label would be from it."""
    if boxed:
        yield 0, 0, 0
    for distance in DISTANCES:
        for across, up in DIRECTIONS:
            yield distance, across * (distance + width / 2), up * (distance + height / 2)


def _box(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _crosses(line: Line, box: Box) -> bool:
    """Is a part of the line inside the box? It is where it has entered both strips that make the box, and left neither."""
    enter, leave = 0.0, 1.0
    for axis in (0, 1):
        start, length = line[axis], line[axis + 2] - line[axis]
        low, high = box[axis] - start, box[axis + 2] - start
        if length == 0:
            if not low < 0 < high:
                return False
            continue
        enter, leave = max(enter, min(low / length, high / length)), min(leave, max(low / length, high / length))
    return enter < leave
