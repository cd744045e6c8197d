"""Words beside points, none over another: each takes the nearest free place, the first ones first.

A word that is not beside its point has a line to it, which crosses no other word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import cos, radians, sin
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unmix.plot.style import QUIET, figure_of, lay_out, letters_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

# Right, left, above, below, then between; the same further away, where a line leads back to the point.
DIRECTIONS = [(cos(radians(a)), sin(radians(a))) for a in (0, 180, 90, 270, 30, 150, 330, 210, 60, 120, 300, 240)]
NEAR = 3
DISTANCES = (NEAR, 9, 17, 27, 39, 53)  # this and all lengths below in points of 1/72 inch
LEADER: dict[str, Any] = {"arrowstyle": "-", "color": QUIET, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}
LETTER_SIZE, POINT_SIZE = 8, 4  # no label may hide a point
BETWEEN, PADDING = 1.0, 2.0  # room around a label, and inside its box
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
    """Write each name near its point, inside the Axes; those that find no free place are left out.

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
