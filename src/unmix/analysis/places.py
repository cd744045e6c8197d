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
SAMPLES_AT_ONCE = 4096  # whose distances to all landmarks are in memory
ROUNDS = 300  # of stress majorisation


def similarity_order(proportions: Floats) -> Integers:
    """All samples, in an order in which like samples stand together.

    A fair part of them, the landmarks, stand as the leaves of a tree, turned so that neighbours are as near as they can be.
    Every other sample stands with its nearest landmark, on the side of the neighbour that it leans to.

    Parameters
    ----------
    proportions : array, n × K
        As `Fit.proportions`.

    Returns
    -------
    array of int, n
        Places of samples.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> order = um.analysis.similarity_order(np.array([[1, 0], [0, 1], [0.9, 0.1], [0.1, 0.9]]))
    >>> sorted(order[:2].tolist()) in ([0, 2], [1, 3])
    True
    """
    points = np.sqrt(proportions)
    landmarks = fair_sample(proportions.argmax(axis=1), LANDMARKS)
    if len(landmarks) < 3:
        return np.argsort(-proportions[:, 0], kind="stable")
    tree = linkage(points[landmarks], method="ward", optimal_ordering=True)
    line = points[landmarks[leaves_list(tree)]]
    halves = (line**2).sum(axis=1) / 2
    blocks = [points[start : start + SAMPLES_AT_ONCE] for start in range(0, len(points), SAMPLES_AT_ONCE)]
    nearest = np.concatenate([np.argmax(block @ line.T - halves, axis=1) for block in blocks])  # max of p·c − ‖c‖²/2
    padded = np.vstack([line[:1], line, line[-1:]])
    leaning = np.einsum("ij,ij->i", points - line[nearest], (padded[2:] - padded[:-2])[nearest])
    return np.lexsort([leaning, nearest])


def topic_map(distances: Floats) -> Floats:
    """Places of the topics in the plane whose distances are near the given ones (metric multidimensional scaling).

    From the two leading axes of the centred squared distances, by rounds of stress majorisation (de Leeuw 1977): each
    topic moves to the average of the places where the others would have it.

    Parameters
    ----------
    distances : array, K × K
        As `topic_distances` gives them.

    Returns
    -------
    array, K × 2
        Places.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> places = um.analysis.topic_map(np.array([[0, 3, 4], [3, 0, 5], [4, 5, 0]]))
    >>> float(np.linalg.norm(places[1] - places[2]).round(3))
    5.0
    """
    K = len(distances)
    centring = np.eye(K) - 1 / K
    values, vectors = leading_axes(-0.5 * centring @ distances**2 @ centring)
    places = vectors * np.sqrt(np.maximum(values, 0))
    for _ in range(ROUNDS if K > 2 else 0):
        between = places[:, None] - places[None]
        apart = np.maximum(np.sqrt((between**2).sum(axis=-1)), 1e-9)
        places = ((distances / apart)[..., None] * between).sum(axis=1) / K
    return places


def leading_axes(matrix: Floats) -> tuple[Floats, Floats]:
    """The two largest eigenvalues of a symmetric matrix and their vectors, zeros for the second where there is one only."""
    values, vectors = np.linalg.eigh(matrix)
    values, vectors = values[::-1][:2], vectors[:, ::-1][:, :2]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), range(len(values))])  # which eigenvectors do not have
    absent = 2 - len(values)
    return np.pad(values, (0, absent)), np.pad(vectors * signs, ((0, 0), (0, absent)))
