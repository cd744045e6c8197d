"""Swimmer: 256 images of a torso and four limbs, 17 parts in all, which BLD tells apart and KL-NMF does not.

Of a part q and a topic k, share[q, k] is the part of the counts on the pixels of q that S gives to k. Topics are given to parts,
one each, so that the shares of the pairs have the largest sum. The purity of a part is its share in its topic; a part has a topic
of its own if its purity is above one half. The torso is the last part, and the last topic's beta is the one that fits it.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import unmix as um

pytestmark = pytest.mark.slow
X = um.datasets.swimmer()
PARTS = X.truth.F > 0  # pixels × parts
BETA = np.append(np.full(16, 10.0), 60.0)


def purities(by_feature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The purity of every part and the topic it was given, from the counts S_jk."""
    share = np.stack([by_feature[PARTS[:, q]].sum(axis=0) / X.feature_totals[PARTS[:, q]].sum() for q in range(17)])
    part, topic = linear_sum_assignment(-share)
    return share[part, topic], topic


def finds_all_parts(seed: int, free: bool) -> bool:
    model = um.AllocationModel(17, a=100, b=1, alpha=0.05, beta=BETA, free=free, random_state=seed, n_jobs=1)
    model.fit(X)
    purity, topic = purities(model.result_.posterior["F"] - 0.05)
    return bool((purity > 0.5).all() and purity.mean() >= 0.97 and topic[16] == 16 and purity[16] >= 0.95)


# All ten seeds do with the newest libraries, nine with the lowest, where last digits of the start are others. The factored form
# costs twice as much.
@pytest.mark.parametrize(
    ("seeds", "free"), [(3, True), (2, False), pytest.param(10, True, marks=pytest.mark.reproduce)]
)
def test_default_starts_find_all_parts_but_for_one_at_most(seeds: int, free: bool) -> None:
    missed = 0
    for seed in range(seeds):
        missed += not finds_all_parts(seed, free)
        if seed + 1 - missed == seeds - 1:  # the last one does not matter any more
            break
    assert missed <= 1


def test_likelihood_alone_does_not_mind_a_ghost_of_the_torso_in_the_limbs() -> None:
    """Two default fits, equally likely: one has a torso of its own, the other divides it between limbs."""
    ghosts, logliks = [], []
    for seed in (0, 1):
        fit = um.PoissonNMF(17, random_state=seed, n_jobs=1).fit(X).result_
        counts = fit.topics * (fit.sizes @ fit.proportions)
        assert counts.sum() == pytest.approx(X.total, rel=1e-6)
        torso = counts[PARTS[:, 16]].sum(axis=0)
        limbs = counts[PARTS[:, :16].any(axis=1)].sum(axis=0)
        ghosts.append(torso[limbs > 0.5 * (torso + limbs)].sum() / torso.sum())  # in topics that are mostly limb
        logliks.append(fit.loglik)
    assert logliks[0] == pytest.approx(logliks[1], abs=0.1)
    assert min(ghosts) < 0.1
    assert max(ghosts) > 0.3
