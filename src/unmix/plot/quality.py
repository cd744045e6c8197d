"""Topics by how coherent and how exclusive they are: a point for each, as large as its share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unmix.analysis import Quality
from unmix.analysis.topics import short
from unmix.plot.labels import place_labels
from unmix.plot.palette import palette
from unmix.plot.style import new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_NAME = 34  # letters
LARGEST = 900  # the area of a point, in points², of a topic that has half of all counts


def quality(found: Quality, ax: Axes | None = None) -> Axes:
    """Draw what `fit.quality(X)` found: coherence (npmi) across, exclusivity up; a good topic is above and to the right.

    Parameters
    ----------
    found : Quality
        The result.
    ax : Axes, default=None
        Where to draw; by default a new figure.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    See Also
    --------
    analysis.quality

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.quality(fit.quality(X, top=2))
    """
    table = found.table
    known = table[np.isfinite(table["npmi"]) & np.isfinite(table["exclusivity"])].sort_values("share", ascending=False)
    ax = new_axes(7.5, 5) if ax is None else ax
    sizes = np.maximum(2 * LARGEST * known["share"], 12)
    ax.scatter(known["npmi"], known["exclusivity"], s=sizes, c=palette(len(known)), alpha=0.75, linewidths=0)
    ax.margins(0.18)
    tidy(ax, grid="both")
    ax.set_xlabel(f"coherence: npmi of the top {found.top} features")
    ax.set_ylabel("exclusivity")
    names = [short(name, LONGEST_NAME) for name in known["name"]]
    place_labels(ax, known["npmi"], known["exclusivity"], names, sizes=np.sqrt(sizes))
    return ax
