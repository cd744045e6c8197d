"""Places for samples and topics: an order of samples with like beside like, and a map of topics.

Both rest on the Hellinger distance (`unmix.models.matching`) between proportions, or topics, p and q:

    H(p, q) = ‖√p − √q‖ / √2,   0 where they are equal, 1 where they have nothing in common.
"""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

from unmix.analysis.samples import fair_sample
from unmix.types import Floats, Integers

LANDMARKS = 500  # samples in the tree; its best order of leaves takes cubic time
BLOCK = 4096  # samples whose distances to all landmarks are in memory at once


def similarity_order(proportions: Floats) -> Integers:
    """All samples, in an order in which like samples stand together.

    A fair part of them, the landmarks, stand as the leaves of a tree, turned so that neighbours are as near as they can be.
    Every other sample stands with its nearest landmark, on the side of the neighbour that it leans to.
    """
    points = np.sqrt(proportions)
    landmarks = fair_sample(proportions.argmax(axis=1), LANDMARKS)
    if len(landmarks) < 3:
        return np.argsort(-proportions[:, 0], kind="stable")
    tree = linkage(points[landmarks], method="ward", optimal_ordering=True)
    line = points[landmarks[leaves_list(tree)]]
    nearest = _nearest(points, line)
    padded = np.vstack([line[:1], line, line[-1:]])
    leaning = np.einsum("ij,ij->i", points - line[nearest], (padded[2:] - padded[:-2])[nearest])
    return np.lexsort([leaning, nearest])


def _nearest(points: Floats, centres: Floats) -> Integers:
    """The nearest centre of each point: the largest p·c − ‖c‖²/2."""
    half = (centres**2).sum(axis=1) / 2
    blocks = [points[start : start + BLOCK] for start in range(0, len(points), BLOCK)]
    return np.concatenate([np.argmax(block @ centres.T - half, axis=1) for block in blocks])


def topic_map(distances: Floats, rounds: int = 300) -> Floats:
    """Places of the topics in the plane, K × 2, whose distances are near the given ones (metric multidimensional scaling).

    From the two leading axes of the centred squared distances, by rounds of stress majorisation (de Leeuw 1977): each
    topic moves to the average of the places where the others would have it.
    """
    K = len(distances)
    places = _leading_axes(distances)
    for _ in range(rounds if K > 2 else 0):
        between = places[:, None] - places[None]
        apart = np.maximum(np.sqrt((between**2).sum(axis=-1)), 1e-9)
        places = ((distances / apart)[..., None] * between).sum(axis=1) / K
    return places


def _leading_axes(distances: Floats) -> Floats:
    K = len(distances)
    centring = np.eye(K) - 1 / K
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    leading = np.argsort(-values, kind="stable")[:2]
    axes = vectors[:, leading] * np.sqrt(np.maximum(values[leading], 0))
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])] < 0, -1, 1)  # eigenvectors have no sign
    return np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
