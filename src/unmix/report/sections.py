"""Sections that the report has where further analyses were made, and numbers encoded for the report.

A section follows from the row of its analysis: title, table and advice. `BUILDERS` gives those more that draw more: the script
of the same name in `static/` says `sections.name = (content, card) => …`, and the markup in the template of id `section-name`
of `template.html`, if there is one, takes its place in the report.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from unmix.analysis import Assignment, Choice, Differences, Effects, Freedom, Prevalence, Stability
from unmix.analysis.features import topic_names, topic_order
from unmix.analysis.freedom import moves
from unmix.analysis.results import Result
from unmix.base.checks import percent
from unmix.base.types import Floats, Integers
from unmix.counts.columns import Column, bins_of, clean
from unmix.counts.data import evenly
from unmix.fit import Fit
from unmix.plot.differences import CLASSES
from unmix.registry import ANALYSES

SURE = CLASSES[-1][0]  # the lfsr below which features are marked
MOST_POINTS = 30_000  # of all topics together
FEWEST_POINTS = 300  # of a topic, where there are this many
MOST_RANGES = 200  # of a topic, evenly by proportion
MOST_TOPICS = 40  # of an assignment, the heaviest


def section(name: str, fit: Fit, result: Result) -> Json:
    """What the report shows of a result: title, table and advice, and what its builder adds."""
    row = next((row for row in ANALYSES.values() if row.section and row.stem == name), None)
    if row is None:
        known = ", ".join(row.stem for row in ANALYSES.values() if row.section)
        raise TypeError(f"the report has no section {name}; it has {known}")
    heads, rows = cells(result.summary)
    content = {"title": row.title, "advice": result.advice(), "heads": heads, "rows": rows}
    return content | (BUILDERS[name](fit, result) if name in BUILDERS else {})


def cells(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table, as texts for users."""
    return [clean(str(name).replace("_", " ")) for name in table], [
        [_cell(value) for value in row] for row in table.to_numpy(object)
    ]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}".replace("-", "−")
    return clean(str(value))


def choice(fit: Fit, found: Choice) -> Json:
    """The curve."""
    rows = found.table[["topics", "delta", "error"]].assign(delta=-found.table["delta"])
    return {"suggested": found.suggested, "curve": rows.fillna(0).to_dict("records")}


def differences(fit: Fit, found: Differences) -> Json:
    """Of each topic the most different features and an even part of the others: change, interval, z, lfsr and frequency."""
    if found.n_topics != fit.n_topics:
        raise ValueError(
            f"differences of {found.n_topics} topics do not go with a fit of {fit.n_topics}; use those of this fit"
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
    """A bit for each of the report's features: whether the topic significantly uses it more."""
    place = {clean(name): j for j, name in enumerate(found.names)}
    rows = np.array([place.get(name, -1) for name in names], dtype=np.intp)
    sure = (found.lfsr < SURE) & (found.lfc > 0)
    return [packed(np.packbits(np.where(rows >= 0, sure[rows, k], False))) for k in range(found.n_topics)]


def _shown(found: Differences, k: int, most: int) -> Integers:
    """Rows of at most this many features: half of them the most different, the others evenly from the rest, by how
    different."""
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
        raise ValueError("stability is of the topics of a different fit; pass unmix.stability this one as reference")
    numbers = {name: rounded(found.table[name], 4) for name in ("stability", "margin", "recall", "floor")}
    return {
        "noise": found.noise,
        "runs": len(found.similarity),
        "topics": [
            {"verdict": verdict} | {name: values[k] for name, values in numbers.items()}
            for k, verdict in enumerate(found.table["verdict"])
        ],
    }


def freedom(fit: Fit, found: Freedom) -> Json:
    """Of each topic its widths, and the ranges in some samples, evenly from the smallest proportion to the largest."""
    if found.low.shape != fit.proportions.shape or not np.allclose(found.proportions, fit.proportions, atol=1e-6):
        raise ValueError("freedom is of the proportions of a different fit; pass unmix.freedom this one")
    n, table = len(fit.L), found.table
    places = np.unique(np.linspace(0, n - 1, min(n, MOST_RANGES)).astype(np.intp))
    shown = np.argsort(fit.proportions, axis=0, kind="stable")[places]
    used = np.unique(shown)
    mean, widest = rounded(table["mean_width"], 4), rounded(table["widest"], 4)
    ranges = [np.take_along_axis(part, shown, axis=0).T for part in (fit.proportions, found.low, found.high)]
    return {
        "loss": found.loss,
        "names": [clean(name) for name in fit.sample_names[used]],
        "places": packed(np.searchsorted(used, shown).T.astype(np.uint32)),
        "ranges": packed(quantised_proportions(np.stack(ranges, axis=2))),  # topics × samples × (proportion, low, high)
        "topics": [
            {"mean": mean[k], "widest": widest[k], "said": said, "mark": percent(table["mean_width"][k])}
            for k, said in enumerate(moves(found))
        ],
    }


def prevalence(fit: Fit, found: Prevalence) -> Json:
    """Of each topic its means, and its most typical samples."""
    if found.n_topics != fit.n_topics or not np.allclose(found.shares, fit.shares, atol=1e-6):
        raise ValueError("prevalence is of the topics of a different fit; pass unmix.prevalence this one")
    names = found.table["group"].unique().tolist()
    table = found.table.assign(group=found.table["group"].map(names.index))
    numbers = {name: rounded(table[name], 5) for name in ("at", "mean", "low", "high")}
    rows = table[["topic", "group", "bin", "samples"]].assign(**numbers).astype(object)
    rows = rows.where(rows.notna(), None)
    listed = found.examples.assign(
        sample=found.examples["sample"].map(clean), proportion=rounded(found.examples["proportion"])
    )
    return {
        **{name: getattr(found, name) for name in ("by", "over", "level", "dates")},
        "groups": [clean(name) for name in names],
        "topics": [_records(rows, k, ["group", "bin", "samples", *numbers]) for k in range(fit.n_topics)],
        "examples": [_records(listed, k, ["sample", "proportion"]) for k in range(fit.n_topics)],
    }


def effects(fit: Fit, found: Effects) -> Json:
    """A view for each variable, in the form of `prevalence`: means by level, or a curve."""
    if found.n_topics != fit.n_topics or found.names.tolist() != topic_names(fit):
        raise ValueError("effects is of the topics of a different fit; pass unmix.effects this one")
    views = []
    for variable, rows in found.predictions.groupby("variable", sort=False):
        levels = rows["value"].unique().tolist()
        curve = bool(rows["at"].notna().all())
        table = rows.assign(group=rows["value"].map(levels.index), bin="")
        numbers = {
            name: rounded(table[column], 5)
            for name, column in {"at": "at", "mean": "estimate", "low": "low", "high": "high"}.items()
        }
        table = table[["topic", "group", "bin", "samples"]].assign(**numbers).astype(object)
        table = table.where(table.notna(), None)
        about = f"Mean proportions by {variable}, given {found.formula}, with {found.level:.0%} intervals."
        views.append(
            {"by": clean(variable), "over": clean(variable) if curve else "", "level": found.level, "dates": False}
            | {"groups": [""] if curve else [clean(level) for level in levels], "about": about, "advice": []}
            | {"topics": [_records(table, k, ["group", "bin", "samples", *numbers]) for k in range(fit.n_topics)]}
            | {"examples": [[] for _ in range(fit.n_topics)]}
        )
    return {"views": views}


def assignment(fit: Fit, found: Assignment) -> Json:
    """Probabilities and exposures of an even part of the samples, and the table of all."""
    places = [found.names.tolist().index(name) if name in found.names else -1 for name in fit.labels]
    if len(found.exposures) != len(fit.L) or max(places) < 0:
        raise ValueError("assignment is of the samples or topics of a different fit; pass assignment.fit")
    topics = [k for k in topic_order(fit).tolist() if places[k] >= 0][:MOST_TOPICS]
    columns = [places[k] for k in topics]
    rows = evenly(len(fit.L), MOST_RANGES)
    table = found.samples.assign(sample=found.samples["sample"].map(clean), group=found.samples["group"].map(clean))
    numbers = {name: rounded(table[name], 4) for name in ("cosine", "dispersion", "unexplained", "p")}
    table = table.assign(counts=rounded(table["counts"], 1), **numbers).astype(object)
    return {
        "topics": topics,
        "names": [clean(name) for name in found.samples["sample"].iloc[rows]],
        "probabilities": packed(np.round(PARTS * found.probabilities[np.ix_(rows, columns)]).astype(np.uint16)),
        "exposures": packed(found.exposures[np.ix_(rows, columns)].astype(np.float32)),
        "table": [list(table), table.where(table.notna(), None).to_numpy().tolist()],
    }


def _records(table: pd.DataFrame, k: int, names: list[str]) -> list[Any]:
    return table.loc[table["topic"] == k + 1, names].to_dict("records")


BUILDERS: dict[str, Callable[[Fit, Any], Json]] = {
    "choice": choice,
    "differences": differences,
    "stability": stability,
    "freedom": freedom,
    "prevalence": prevalence,
    "effects": effects,
    "assignment": assignment,
}


# Numbers, columns of metadata and the timeline, encoded for the report

Json = dict[str, Any]  # an object of JSON
PARTS = 65535  # proportions are sent as whole multiples of 1/PARTS
LOG_STEP = 27.7 / 65534  # weights are sent as whole multiples of this step on a log scale, down to about 1e-12


def packed(array: NDArray[np.generic]) -> str:
    """The bytes of an array, little-endian and row by row, as base64."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little.tobytes()).decode("ascii")


def quantised_proportions(proportions: Floats) -> NDArray[np.uint16]:
    """Proportions in [0, 1] as uint16, off by at most 1/131070."""
    return np.rint(np.clip(proportions, 0, 1) * PARTS).astype(np.uint16)


def quantised_weights(weights: Floats) -> NDArray[np.uint16]:
    """Weights in [0, 1] as uint16: 0 for none, else 1 − log(weight) / LOG_STEP; off by at most 0.03 % down to 1e-12."""
    with np.errstate(divide="ignore"):
        steps = np.rint(-np.log(np.minimum(weights, 1.0)) / LOG_STEP)
    return np.where(steps <= PARTS - 1, 1 + np.minimum(steps, PARTS - 1), 0).astype(np.uint16)


def rounded(values: ArrayLike, digits: int = 6) -> list[float | None]:
    """Numbers with this many significant digits; None where they are not finite, for which JSON has no word."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def embeddable_json(value: object) -> str:
    """JSON for a <script> element: nothing in it can be read as markup, wherever its texts come from."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def size_of(value: object) -> int:
    """Bytes that it takes in the report."""
    return len(embeddable_json(value).encode(errors="replace"))


# How topics change over time: mean proportions in bins of a column of dates or numbers, every sample counting equally.

MOST_BINS = 60
MISSING = 65535  # the code of a text that is not there


def timeline(column: Column, proportions: Floats) -> Json | None:
    """Bins of equal width with their labels, numbers of samples and mean proportions; None where there is but one bin."""
    known = ~np.isnan(column.values)
    places, labels = bins_of(column, MOST_BINS)
    if places.max() == 0:
        return None
    samples = np.bincount(places, minlength=len(labels))
    sums = np.column_stack([np.bincount(places, weights, len(labels)) for weights in proportions[known].T])
    means = sums / np.maximum(samples, 1)[:, None]
    return {
        "column": column.name,
        "labels": labels,
        "samples": samples.tolist(),
        "means": packed(quantised_proportions(means)),
    }


def taken(column: Column, rows: Integers) -> Json:
    """For the report, these rows alone."""
    about: Json = {"name": column.name, "kind": column.kind, "groups": column.can_group}
    values = column.values[rows]  # noqa: PD011 - no Series
    if column.kind != "text":
        return about | {"values": packed(values)}
    missing = np.isnan(values)
    used, places = np.unique(values[~missing].astype(np.intp), return_inverse=True)
    codes = np.full(len(rows), MISSING, dtype=np.uint16)
    codes[~missing] = places
    return about | {"levels": [column.levels[place] for place in used], "codes": packed(codes)}
