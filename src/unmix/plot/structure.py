"""The Structure plot: one thin column per sample, stacked by topic, the heaviest topic at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmix.analysis import fair_sample, similarity_order, topic_names, topic_order
from unmix.analysis.samples import Scale, groups, means_along, scale, values_of
from unmix.analysis.topics import short
from unmix.fit import Fit
from unmix.plot.palette import topic_colours
from unmix.plot.sample_axis import MOST_NAMES, label_groups, label_samples, label_scale, told
from unmix.plot.style import literal, new_axes, tidy
from unmix.types import Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SAMPLES = 2000  # more columns than that do not show in a picture
MOST_SINGLE, BARS = 500, 100  # of more samples along a scale means are drawn, in about so many bars
LEGEND_ROWS = 40


def structure(
    fit: Fit,
    group: str | ArrayLike | None = None,
    order: str | ArrayLike | None = None,
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Draw the proportions of all samples: one thin column per sample, stacked by topic.

    Up to 60 samples with names have them below. Of more than 500 along a scale the bars are means: of samples that follow each
    other, and of all that have the same number or date. Of more than 2,000 without a scale a fair part is shown: the same share
    of each group, the same ones every time.

    Parameters
    ----------
    fit : Fit
        Of any model.
    group : str or array-like, default=None
        Samples with the same value stand together: a column of `fit.metadata`, or one value per sample.
    order : str or array-like, default=None
        Samples stand by this number or date (within their group): a column of `fit.metadata`, or one value per sample; dates
        may be text, as "2021-03-01" or "1 March 2021". By default similar samples stand side by side.
    ax : Axes, default=None
        Where to draw; by default a new figure.
    colours : sequence of str, default=None
        Of the topics; by default `topic_colours`.

    Returns
    -------
    Axes
        Its `figure` saves it: `.figure.savefig("picture.png")`.

    Raises
    ------
    ValueError
        If there is no such column, there are too few or too many values, or the order is not of numbers or dates.

    See Also
    --------
    write_report, sc.pl.structure

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> ax = um.plot.structure(fit, group=["insects", "insects", "cats", "cats"])
    """
    names, labels = [""], np.zeros(len(fit.L), dtype=np.intp)
    if group is not None:
        names, labels = groups(values_of(fit, group, "group"))
    places = None if order is None else scale(values_of(fit, order, "order"))
    if order is not None and places is None:
        what = repr(order) if isinstance(order, str) else "the given values"
        raise ValueError(
            f"order: {what} does not hold numbers or dates; give a column of numbers or dates, or use it as group"
        )
    shown = fair_sample(labels, MOST_SAMPLES if places is None else len(labels))
    size = 1 if places is None or len(shown) <= MOST_SINGLE else -(-len(shown) // BARS)
    members = [shown[labels[shown] == g] for g in range(len(names))]
    if places is None:
        members = [block[similarity_order(fit.proportions[block])] for block in members]
    else:
        members = [block[np.argsort(places.numbers[block], kind="stable")] for block in members]
    along = None if places is None or size == 1 else places.numbers
    blocks = [_bars(fit.proportions[block], None if along is None else along[block], size) for block in members]
    if ax is None:
        columns, rows = 1 + (fit.n_topics - 1) // LEGEND_ROWS, min(fit.n_topics, LEGEND_ROWS)
        ax = new_axes(9 + 3 * columns, max(4, 0.19 * rows))
    ends = _stack(ax, fit, blocks, topic_colours(fit) if colours is None else colours)
    about = _axis_title(group, order)
    if fit.samples is not None and len(labels) <= MOST_NAMES:
        label_samples(ax, _sample_labels(fit.samples, members, places), ends)
        if group is not None:
            label_groups(ax, names, ends, above=True)
    elif group is not None:
        label_groups(ax, names, ends)
    elif places is not None:
        label_scale(ax, Scale(places.numbers[members[0]], places.dates))
    else:
        ax.set_xticks([])
    if size > 1:
        about += f" (means of {len(labels):,} samples)"
    elif len(shown) < len(labels):
        about += f" ({len(shown):,} of {len(labels):,} samples)"
    ax.set_xlabel(about, parse_math=False)
    ax.set_ylabel("proportion")
    return ax


class Bars(NamedTuple):
    """What stands side by side: proportions, and of how many samples."""

    proportions: Floats
    widths: Integers


def _bars(proportions: Floats, places: Floats | None, size: int) -> Bars:
    """Every sample, or where their places on a scale are given means of at least `size`, and of all at the same place: else the
    order among them, which means nothing, would show."""
    if places is None:
        return Bars(proportions, np.ones(len(proportions), dtype=np.intp))
    starts = means_along(places, size)
    widths = np.diff(starts, append=len(places))
    return Bars(np.add.reduceat(proportions, starts, axis=0) / widths[:, None], widths)


def _sample_labels(samples: NDArray[np.str_], members: Sequence[Integers], places: Scale | None) -> list[str]:
    """Names in the order of the picture, with where they stand on its scale."""
    rows = np.concatenate(members)
    names = [short(str(name), 24) for name in samples[rows]]
    if places is None:
        return names
    return [f"{name} · {told(places, i)}" for name, i in zip(names, rows, strict=True)]


def _stack(ax: Axes, fit: Fit, blocks: list[Bars], colours: Sequence[str]) -> list[tuple[float, float]]:
    """Draw the blocks with a gap between them, and a legend; the ends of each block along the axis."""
    topics = topic_order(fit)
    sizes = np.array([block.widths.sum() for block in blocks])
    gap = sizes.sum() / max(250, 10 * len(blocks))
    lefts = np.concatenate([[0], (sizes + gap).cumsum()[:-1]])
    edges = np.concatenate(
        [left + np.concatenate([[0], block.widths.cumsum()]) for left, block in zip(lefts, blocks, strict=True)]
    )
    nothing = np.zeros((1, len(topics)))  # the height of the gap that follows each block
    heights = np.vstack([part for block in blocks for part in (block.proportions[:, topics].cumsum(axis=1), nothing)])
    # From the full height down, each area over the last and with sharp edges: no other colour can shine through.
    areas = [
        ax.fill_between(
            edges, heights[:, place], step="post", color=colours[topics[place]], linewidth=0, antialiased=False
        )
        for place in reversed(range(len(topics)))
    ]
    ax.set_xlim(0, edges[-1])
    ax.set_ylim(0, 1)
    tidy(ax)
    names = topic_names(fit)
    legend = ax.legend(
        areas,
        [names[k] for k in reversed(topics)],
        title="topic: its top features" if fit.names is None else "topic",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.03),
        frameon=False,
        fontsize=9 if len(topics) <= 16 else 7,
        ncols=1 + (len(topics) - 1) // LEGEND_ROWS,
        handlelength=1.0,
        handleheight=1.0,
        alignment="left",
    )
    literal(legend.get_texts())
    return list(zip(lefts, lefts + sizes, strict=True))


def _axis_title(group: str | ArrayLike | None, order: str | ArrayLike | None) -> str:
    """What the samples stand by."""
    by = order if isinstance(order, str) else "given order" if order is not None else None
    if group is None:
        return by or "samples, like beside like"
    name = group if isinstance(group, str) else "group"
    return f"{name}, each by {by}" if by else name
