"""Topics as the page takes them: of each its most distinctive and heaviest features and all above a threshold, names once."""

from __future__ import annotations

import numpy as np

from unmix.analysis import distinctive_features, lifts
from unmix.analysis.features import feature_names
from unmix.fit import Fit
from unmix.report.encode import Json, clean, packed, quantised_weights, size_of

DISTINCTIVE = 30  # features of each topic that the page lists, in the order of `Fit.top_features`
HEAVIEST = 300  # features of each topic that are sent whatever their weight
SMALLEST_WEIGHT = 1e-6
BYTES_OF_ENTRY = 32 / 3  # two uint16 and a float32 as base64


def topics_payload(fit: Fit, room: float) -> Json:
    """The weights of features in topics, in at most about `room` bytes: a lower bound on weights is raised until they fit.

    Each topic is a run of entries in the order of the features: the distance from the last feature to this one, the
    quantised weight, and the lift. A distance that uint16 cannot hold is bridged by an entry without weight.
    """
    topics, all_names, best = fit.topics, feature_names(fit), distinctive_features(fit, DISTINCTIVE)
    heaviest = np.argpartition(-topics, min(HEAVIEST, len(topics) - 1), axis=0)[:HEAVIEST]
    always = np.zeros(topics.shape, dtype=bool)
    np.put_along_axis(always, heaviest, True, axis=0)
    always &= quantised_weights(topics) > 0
    for k, rows in enumerate(best):
        always[rows, k] = True
    smallest = SMALLEST_WEIGHT
    while True:
        kept = always | (topics > smallest)
        used = np.flatnonzero(kept.any(axis=1))
        names = [clean(all_names[j]) for j in used]
        if BYTES_OF_ENTRY * kept.sum() + 3 * len(used) + size_of(names) <= room or smallest >= 1:
            break
        smallest *= 10**0.5
    times = lifts(fit)[used]
    bridges = np.arange(65535, len(used), 65535)
    entries = []
    for k in range(fit.n_topics):
        places = np.union1d(np.flatnonzero(kept[used, k]), bridges)
        codes = np.where(kept[used[places], k], quantised_weights(topics[used[places], k]), 0).astype(np.uint16)
        entries.append((np.diff(places, prepend=0).astype(np.uint16), codes, times[places, k].astype(np.float32)))
    steps, weights, entry_lifts = (packed(np.concatenate(parts)) for parts in zip(*entries, strict=True))
    return {
        "names": names,
        "distinctive": [np.searchsorted(used, rows).tolist() for rows in best],
        "overall": packed(quantised_weights(topics[used] @ fit.shares)),
        "counts": [len(steps) for steps, _, _ in entries],
        "steps": steps,
        "weights": weights,
        "lifts": entry_lifts,
        "smallest": float(f"{smallest:.2g}"),
        "left_out": int((topics > 0).sum() - kept.sum()),
    }
