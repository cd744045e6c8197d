"""Whether the top features of a topic occur together: coherence, by the samples that have both of a pair.

With D_a the samples that have feature a, D_ab those that have both, of n, and P = D / n, over pairs of the top features,

    u_mass         Σ log (D_ab + 1) / D_b,  b the heavier of the two                             (Mimno et al. 2011)
    npmi           mean of log (P_ab / (P_a P_b)) / −log P_ab                                     (Bouma 2009)
    cv_documents   mean over a of cos(u_a, Σ_b u_b),  u_a the row of npmi, with npmi(a, a) = 1    (after Röder et al. 2015)

In the limits, npmi is −1 for features that are never together and 0 for those that are in every sample, which says nothing. The
published c_v slides a window over running text, which counts do not keep: its numbers are others.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Literal

import numpy as np
import pandas as pd

from unmix.analysis.features import distinctive_features
from unmix.counts import Counts, CountsLike
from unmix.data.match import match_features
from unmix.fit import Fit
from unmix.types import Floats, Integers

By = Literal["frequency", "distinctive"]


def coherence(fit: Fit, X: CountsLike, top: int = 10, by: By = "frequency") -> pd.DataFrame:
    """How often the top features of each topic are together in the same samples.

    Parameters
    ----------
    fit : Fit
        Whose topics.
    X : Counts or array-like
        The samples to count in: those of the fit, or better others; features are found by name where both have names.
    top : int, default=10
        How many features of each topic.
    by : str, default="frequency"
        "frequency": those of the largest share in the topic, as in the literature. "distinctive": those of `top_features`.

    Returns
    -------
    DataFrame
        A row a topic: `topic`, `u_mass`, `npmi`, `cv_documents`, the number of `pairs`, how many of the top features no
        sample has (`unseen`, which are left out), and the part of pairs that nearly every sample has (`everywhere`), which
        say little.

    Raises
    ------
    ValueError
        If `top` or `by` does not mean anything.

    See Also
    --------
    analysis.quality : This and more.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> fit = um.TopicModel(4, tol=1e-4, random_state=0).fit(X).result_
    >>> um.coherence(fit, X)[["topic", "npmi"]].shape
    (4, 2)
    """
    top = checked_top(fit, top)
    if by not in ("frequency", "distinctive"):
        raise ValueError(f"by={by!r}; choose 'frequency' or 'distinctive'")
    counts = match_features(X if isinstance(X, Counts) else Counts(X), fit).counts
    chosen = distinctive_features(fit, top) if by == "distinctive" else frequent_features(fit, top)
    used, places = np.unique(np.concatenate(chosen), return_inverse=True)
    together = cooccurrences(counts, used)
    ends = np.cumsum([len(features) for features in chosen])
    rows = [_of_one(together, places[end - len(own) : end], len(counts)) for own, end in zip(chosen, ends, strict=True)]
    return pd.DataFrame([{"topic": k + 1} | row for k, row in enumerate(rows)])


def frequent_features(fit: Fit, top: int) -> list[Integers]:
    """Per topic the rows of its heaviest features, the heaviest first; none without weight in the topic."""
    order = np.argsort(-fit.topics, axis=0, kind="stable")[:top]
    return [order[fit.F[order[:, k], k] > 0, k] for k in range(fit.n_topics)]


def cooccurrences(counts: Counts, features: Integers) -> Floats:
    """D: how many samples have both of each two of the features; on the diagonal, how many have the one."""
    present = counts.csr[:, features].astype(bool).astype(np.float64)
    return np.asarray((present.T @ present).todense())


def checked_top(fit: Fit, top: int) -> int:
    if not isinstance(top, Integral) or isinstance(top, bool) or top < 2:
        raise ValueError(f"top={top!r}; give a whole number of features >= 2")
    if top > len(fit.F):
        warnings.warn(
            f"top={top} is more than the {len(fit.F)} features; all of them are taken", UserWarning, stacklevel=3
        )
    return min(int(top), len(fit.F))


def _of_one(together: Floats, features: Integers, n: int) -> dict[str, float]:
    """Of features in the order of their weight."""
    D = together[np.ix_(features, features)]
    seen = D.diagonal() > 0
    D, unseen = D[np.ix_(seen, seen)], int((~seen).sum())
    M = len(D)
    if M < 2:
        nothing = dict.fromkeys(("u_mass", "npmi", "cv_documents"), np.nan)
        return {**nothing, "pairs": 0, "unseen": unseen, "everywhere": np.nan}
    lighter, heavier = np.tril_indices(M, -1)
    alone = D.diagonal()
    npmi = normalised_information(D / n)
    rows = npmi + np.diag(1 - npmi.diagonal())
    return {
        "u_mass": float(np.log((D[lighter, heavier] + 1) / alone[heavier]).sum()),
        "npmi": float(npmi[lighter, heavier].mean()),
        "cv_documents": float(_cosines(rows, rows.sum(axis=0)).mean()),
        "pairs": len(lighter),
        "unseen": unseen,
        "everywhere": float((D[lighter, heavier] > 0.9 * n).mean()),
    }


def normalised_information(P: Floats) -> Floats:
    """npmi of each two features, from the parts of samples that have both; on the diagonal, those that have the one."""
    alone = P.diagonal()
    never, always = P == 0, P >= 1
    safe = np.where(never | always, 0.5, P)
    values = np.log(safe / np.outer(alone, alone)) / -np.log(safe)
    return np.where(never, -1.0, np.where(always, 0.0, values))


def _cosines(rows: Floats, other: Floats) -> Floats:
    """Of each row and another vector; 0 where one of them is zero."""
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(other)
    return np.divide(rows @ other, norms, out=np.zeros(len(rows)), where=norms > 0)
