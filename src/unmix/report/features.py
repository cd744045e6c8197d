"""Topics as the page takes them: of each its heaviest features and all above a threshold, quantised, names once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmix.fit import Fit
from unmix.report.encode import clean, embeddable_json, packed, quantised_weights

ALWAYS = 300  # features of each topic that are sent whatever their weight
SMALLEST_WEIGHT = 1e-6
BYTES = 16 / 3  # of an entry: two uint16 as base64


def topics_payload(fit: Fit, room: float) -> dict[str, Any]:
    """The weights of features in topics, in at most about `room` bytes: a lower bound on weights is raised until they fit.

    Each topic is a run of entries in the order of the features: the distance from the last feature to this one, and the
    quantised weight. A distance that uint16 cannot hold is bridged by an entry without weight.
    """
    topics = fit.topics
    heaviest, some = _heaviest(topics), quantised_weights(topics) > 0
    smallest = SMALLEST_WEIGHT
    while True:
        kept = (heaviest | (topics > smallest)) & some
        used = np.flatnonzero(kept.any(axis=1))
        names = [clean(fit.features[j]) if fit.features is not None else f"feature {j}" for j in used]
        size = BYTES * kept.sum() + 3 * len(used) + len(embeddable_json(names).encode(errors="replace"))
        if size <= room or smallest >= 1:
            break
        smallest *= 10**0.5
    entries = [_run(topics[used, k], kept[used, k]) for k in range(topics.shape[1])]
    overall = topics[used] @ fit.shares
    return {
        "names": names,
        "overall": packed(quantised_weights(overall)),
        "counts": [len(steps) for steps, _ in entries],
        "steps": packed(np.concatenate([steps for steps, _ in entries])),
        "weights": packed(np.concatenate([weights for _, weights in entries])),
        "smallest": float(f"{smallest:.2g}"),
        "left_out": int((topics > 0).sum() - kept.sum()),
    }


def _heaviest(topics: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which features are among the heaviest of each topic."""
    heaviest = np.zeros(topics.shape, dtype=bool)
    best = np.argpartition(-topics, min(ALWAYS, len(topics) - 1), axis=0)[:ALWAYS]
    np.put_along_axis(heaviest, best, True, axis=0)
    return heaviest


def _run(weights: NDArray[np.float64], kept: NDArray[np.bool_]) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    places = np.union1d(np.flatnonzero(kept), np.arange(65535, len(weights), 65535))  # the second are the bridges
    codes = np.where(kept[places], quantised_weights(weights[places]), 0).astype(np.uint16)
    return np.diff(places, prepend=0).astype(np.uint16), codes
