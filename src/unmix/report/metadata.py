"""Data of the report: numbers and names encoded for the page, columns of metadata, the timeline."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmix.analysis.columns import Column, bins_of
from unmix.base.types import Floats, Integers

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
    """Numbers with so many significant digits; None where they are not finite, for which JSON has no word."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def embeddable_json(value: object) -> str:
    """JSON for a <script> element: nothing in it can be read as markup, wherever its texts come from."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def size_of(value: object) -> int:
    """Bytes that it takes in the page."""
    return len(embeddable_json(value).encode(errors="replace"))


# How topics change over time: mean proportions in bins of a column of dates or numbers, every sample counting alike.

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
    """For the page, these rows alone."""
    about: Json = {"name": column.name, "kind": column.kind, "groups": column.can_group}
    values = column.values[rows]
    if column.kind != "text":
        return about | {"values": packed(values)}
    missing = np.isnan(values)
    used, places = np.unique(values[~missing].astype(np.intp), return_inverse=True)
    codes = np.full(len(rows), MISSING, dtype=np.uint16)
    codes[~missing] = places
    return about | {"levels": [column.levels[place] for place in used], "codes": packed(codes)}
