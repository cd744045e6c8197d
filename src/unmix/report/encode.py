"""How numbers and names travel inside the page: quantised arrays as base64, text as JSON that cannot end its script."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmix.analysis.topics import short
from unmix.types import Floats

Json = dict[str, Any]  # an object of JSON
PARTS = 65535  # proportions are sent as whole multiples of 1/PARTS
LOG_STEP = 27.7 / 65534  # weights are sent as whole multiples of this step on a log scale, down to about 1e-12
LONGEST_NAME = 200  # letters; a longer name is a text, not a name


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


def clean(name: object) -> str:
    """A name as text of bounded length."""
    return short(str(name), LONGEST_NAME)


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
