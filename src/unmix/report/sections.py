"""Sections that the page has where further analyses were made.

A section is a row of `SECTIONS`: what of a result goes into the page, and what is known of its features. The script of the same
name in `static/` says `sections.name = (content) => …`; before it is called, the markup in the template of id `section-name` of
`template.html` takes its place in the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from unmix.analysis import Differences, Freedom, Stability
from unmix.analysis.freedom import moves
from unmix.base.checks import percent
from unmix.base.types import Floats, Integers
from unmix.fit import Fit
from unmix.plot.differences import CLASSES
from unmix.report.metadata import Json, clean, packed, quantised_proportions, rounded

SURE = CLASSES[-1][0]  # the lfsr below which features are marked
MOST_POINTS = 30_000  # of all topics together
FEWEST_POINTS = 300  # of a topic, where there are so many
MOST_RANGES = 200  # of a topic, evenly by proportion


class Section(NamedTuple):
    """What the page is told of a result, and, for each topic, which of the page's features it marks, if it does."""

    of: Callable[[Fit, Any], Json]
    marks: Callable[[Any, Sequence[str]], list[str]] | None = None


def differences(fit: Fit, found: Differences) -> Json:
    """Of each topic the most different features and an even part of the others: change, interval, z, lfsr and frequency."""
    if found.n_topics != fit.n_topics:
        raise ValueError(
            f"differences of {found.n_topics} topics do not go with a fit of {fit.n_topics}; give those of this fit"
        )
    most = max(FEWEST_POINTS, MOST_POINTS // found.n_topics)
    shown = [_shown(found, k, most) for k in range(found.n_topics)]
    used = np.unique(np.concatenate(shown))
    columns = (found.lfc, found.lfc_raw, found.sd, found.z, found.lfsr)
    numbers = [np.column_stack([column[rows, k] for column in columns]) for k, rows in enumerate(shown)]
    return {
        "against": found.other,
        "used_twice": found.used_twice,
        "errors": found.errors,
        "advice": found.advice(),
        "names": [clean(found.names[j]) for j in used],
        "frequency": _single(found.frequency[used]),
        "sure": [int((found.lfsr[:, k] < SURE).sum()) for k in range(found.n_topics)],
        "topics": [
            {
                "places": packed(np.searchsorted(used, rows).astype(np.uint32)),
                "numbers": _single(table),  # change, raw change, its error, z, lfsr of each
                "left_out": int(np.isfinite(found.lfc[:, k]).sum()) - len(rows),
            }
            for k, (rows, table) in enumerate(zip(shown, numbers, strict=True))
        ],
    }


def marked(found: Differences, names: Sequence[str]) -> list[str]:
    """A bit for each of the page's features: whether the topic surely uses it more."""
    place = {clean(name): j for j, name in enumerate(found.names)}
    rows = np.array([place.get(name, -1) for name in names], dtype=np.intp)
    sure = (found.lfsr < SURE) & (found.lfc > 0)
    return [packed(np.packbits(np.where(rows >= 0, sure[rows, k], False))) for k in range(found.n_topics)]


def _shown(found: Differences, k: int, most: int) -> Integers:
    """Rows of at most so many features: half of them the most different, the others evenly from the rest, by how different."""
    scores = np.abs(found.lfc[:, k] * found.z[:, k])
    order = np.argsort(-np.where(np.isfinite(scores), scores, -1), kind="stable")[: int(np.isfinite(scores).sum())]
    if len(order) <= most:
        return order
    first = most // 2
    rest = order[first:]
    return np.concatenate([order[:first], rest[np.arange(most - first) * len(rest) // (most - first)]])


def _single(values: Floats) -> str:
    return packed(values.astype(np.float32))


def stability(fit: Fit, found: Stability) -> Json:
    """The table, topic by topic."""
    shares = found.table["share"].to_numpy()
    if len(shares) != fit.n_topics or not np.allclose(shares, fit.shares, atol=1e-6):
        raise ValueError("stability is of the topics of another fit; give unmix.stability this one as reference")
    numbers = {name: rounded(found.table[name], 4) for name in ("stability", "margin", "recall", "floor")}
    return {
        "noise": found.noise,
        "runs": len(found.similarity),
        "advice": found.advice(),
        "topics": [
            {"verdict": verdict} | {name: values[k] for name, values in numbers.items()}
            for k, verdict in enumerate(found.table["verdict"])
        ],
    }


def freedom(fit: Fit, found: Freedom) -> Json:
    """Of each topic its widths, and the ranges in some samples, evenly from the least proportion to the largest."""
    if found.low.shape != fit.proportions.shape or not np.allclose(found.proportions, fit.proportions, atol=1e-6):
        raise ValueError("freedom is of the proportions of another fit; give unmix.freedom this one")
    n, table = len(fit.L), found.table
    places = np.unique(np.linspace(0, n - 1, min(n, MOST_RANGES)).astype(np.intp))
    shown = np.argsort(fit.proportions, axis=0, kind="stable")[places]
    used = np.unique(shown)
    ranges = [np.take_along_axis(part, shown, axis=0).T for part in (fit.proportions, found.low, found.high)]
    return {
        "loss": found.loss,
        "advice": found.advice(),
        "names": [clean(name) for name in fit.sample_names[used]],
        "places": packed(np.searchsorted(used, shown).T.astype(np.uint32)),
        "ranges": packed(quantised_proportions(np.stack(ranges, axis=2))),  # topics × samples × (proportion, low, high)
        "topics": [
            {"mean": mean, "widest": widest, "said": said, "mark": percent(width)}
            for mean, widest, said, width in zip(
                rounded(table["mean_width"], 4),
                rounded(table["widest"], 4),
                moves(found),
                table["mean_width"],
                strict=True,
            )
        ],
    }


SECTIONS = {
    "differences": Section(differences, marked),
    "stability": Section(stability),
    "freedom": Section(freedom),
}
