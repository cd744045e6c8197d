"""Freedom: between which values proportions and topics can move while every rate, and so the likelihood, stays as it is.

For every invertible A with L A >= 0 and F A⁻ᵀ >= 0 the fit (L A, F A⁻ᵀ) has the rates of (L, F). With a pure sample and a feature
of its own for every topic only A = I is left; without them a region of answers fits equally well, and which of them a program
returns is an accident of its start. `transformations.py` goes to the ends of that region. Every end is reached: it is a fit, with
factors >= 0 and the same rates. That nothing lies beyond is certain for two topics; for more, ends are local optima, and ranges
may be a little short. With `loss` the ends are those at that price in log-likelihood (`price.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unmix.analysis.price import PARTS, paid, room
from unmix.analysis.ranges import Freedom
from unmix.analysis.results import Finished, Tell, in_parts
from unmix.analysis.transformations import FEATURES, SAMPLES, SIDES, Point, Region, Target, explored, spread_rows
from unmix.counts import Counts, CountsLike
from unmix.fit import Fit
from unmix.format import Arrays
from unmix.models.problem import Problem
from unmix.types import Floats

CHECKED = 8  # samples, and features, that are looked at once more, to see what the others miss


def freedom(
    fit: Fit,
    X: CountsLike | None = None,
    *,
    loss: float = 0.0,
    probes: int = 24,
    keep: str | os.PathLike[str] | None = None,
    tell: Tell | None = None,
) -> Freedom:
    """Between which values each proportion, and each feature of each topic, can move at the same rates.

    Where that is much, say so beside every proportion you report: the data do not decide, whatever the fit says.

    Parameters
    ----------
    fit : Fit
        Only its rates count: where a prior or a penalty decided between answers, this says what it had to decide.
    X : Counts or array-like, default=None
        The counts of the fit; needed for a `loss`.
    loss : float, default=0.0
        How much log-likelihood ends may cost. 0: none, which needs no counts; 2 is about what a 95% interval for one number
        allows. Ends at a price are those where all samples move together; what single samples may do is for `intervals`.
    probes : int, default=24
        How many samples, and features, have both ends of every topic sought: those that differ most. All others get the ends
        of the same transformations.
    keep : str or PathLike, default=None
        A file in which finished topics are kept, so that the same call goes on with the rest after Ctrl-C.
    tell : callable, default=None
        Called with topics done, of how many, and seconds left.

    Returns
    -------
    Freedom
        `low` and `high` of every proportion, and a `table` with a row a topic.

    Raises
    ------
    ValueError
        If an option does not mean anything, or a `loss` comes without the counts of the fit.

    See Also
    --------
    intervals : How sure the rest is.
    plot.freedom : The picture.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(500 * rng.dirichlet([3, 3], 20) @ (rng.dirichlet(np.ones(30), 2) + 0.01))
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> freedom = um.freedom(fit)
    >>> bool((freedom.low <= fit.proportions).all() and (fit.proportions <= freedom.high).all())
    True
    >>> freedom.table.columns.to_list()
    ['topic', 'share', 'mean_width', 'widest', 'sample', 'change']
    """
    if probes < 1:
        raise ValueError(f"probes={probes!r}; give a whole number >= 1")
    if not 0 <= loss < np.inf:
        raise ValueError(f"loss={loss!r}; give a number >= 0")
    parts = _Parts.of(fit)
    counts = None if loss == 0 else _counts_of(fit, X)
    rows = [spread_rows(parts.P, probes), spread_rows(parts.G, probes)]
    regions = _regions(fit, parts, counts, loss)
    pairs = [(region, k) for region in regions for k in range(parts.P.shape[1])]

    def ends(pair: tuple[Region, int]) -> Arrays:
        own = Region(parts.P, parts.G, pair[0].room)  # so that a part's ends do not depend on those before it
        return {"A": np.array([point.A for point in explored(own, _targets(rows, [pair[1]]), [own.identity])])}

    about = {"of": parts.summary(), "probes": probes, "loss": loss}
    pieces, status = in_parts(pairs, ends, keep=keep, of=about, tell=tell)
    found = [Point.of(np.eye(parts.P.shape[1]))]
    found += [Point.of(A) for piece in pieces if piece is not None for A in piece["A"][1:]]
    missed = 0.0
    if regions and status == "finished" and loss == 0:
        try:  # once more, each from the best of all
            found = explored(regions[0], _targets(rows, range(parts.P.shape[1])), found)
            found, missed = _checked(regions[0], rows, found)
        except KeyboardInterrupt:
            status = "interrupted"
    whole = [parts.whole(point.A, fit.n_topics) for point in found]
    if counts is None:
        return parts.result(fit, whole, missed, status)
    return parts.result_at_price(fit, counts, whole, loss, status)


def glimpse(fit: Fit) -> tuple[int, float]:
    """The number of a topic whose proportions can move at the same rates, and how far, at the least, in the sample that is most
    mixed. A few programs, for those who want a warning and not the ranges."""
    parts = _Parts.of(fit)
    region = Region(parts.P, parts.G)
    if parts.P.shape[1] == 1 or (B := region.a_move()) is None:
        return 1, 0.0
    row = int((parts.P**2).sum(axis=1).argmin())
    k = int(np.abs(parts.P[row] @ B).argmax())
    ends = [Target(SAMPLES, row, k, sign) for sign in (-1, 1)]
    width = sum(region.value(region.furthest(region.identity, end, steps=3), end) for end in ends)
    return int(np.flatnonzero(parts.topics)[k]) + 1, width


@dataclass(frozen=True)
class _Parts:
    """What can move: topics with any weight, samples with any counts, features of any topic."""

    P: Floats
    G: Floats
    samples: NDArray[np.bool_]
    features: NDArray[np.bool_]
    topics: NDArray[np.bool_]

    @classmethod
    def of(cls, fit: Fit) -> _Parts:
        samples, topics = fit.sizes > 0, (fit.sizes @ fit.proportions) > 0
        if not topics.any():
            raise ValueError("the fit has no counts to explain, so everything is left open; give a fit of some counts")
        F = fit.topics[:, topics]
        features = F.sum(axis=1) > 0
        G = F[features] / F[features].sum(axis=1, keepdims=True)
        return cls(fit.proportions[np.ix_(samples, topics)], G, samples, features, topics)

    def summary(self) -> list[float]:
        """Tells one fit from another."""
        weights = np.sin(np.arange(len(self.P)) + 1.0), np.sin(np.arange(len(self.G)) + 1.0)
        return [*(weights[0] @ self.P).tolist(), *(weights[1] @ self.G).tolist()]

    def whole(self, A: Floats, n_topics: int) -> Floats:
        """A transformation of all topics, of which those without weight stay as they are."""
        full, moving = np.eye(n_topics), np.flatnonzero(self.topics)
        full[np.ix_(moving, moving)] = A
        return full

    def result(self, fit: Fit, found: list[Floats], missed: float, status: Finished) -> Freedom:
        """The ranges of everything, over all transformations found."""
        pairs = ((fit.proportions @ A, fit.topics @ np.linalg.inv(A).T) for A in found)
        return replace(self._ranges(fit, pairs), transformations=np.array(found), missed=missed, status=status)

    def result_at_price(self, fit: Fit, X: Counts, found: list[Floats], loss: float, status: Finished) -> Freedom:
        """The same over all that could be paid for."""
        problem = Problem(X, fit.n_topics)
        allowed = problem.loss(fit.L.astype(np.float64), fit.F.astype(np.float64)) + loss
        pairs = [pair for A in found if (pair := paid(problem, fit, Point.of(A), allowed)) is not None]
        return replace(self._ranges(fit, pairs), loss=loss, status=status)

    def _ranges(self, fit: Fit, pairs: Iterable[tuple[Floats, Floats]]) -> Freedom:
        low, high = fit.proportions.copy(), fit.proportions.copy()
        topics_low, topics_high = fit.topics.copy(), fit.topics.copy()
        changes, rows = np.zeros(fit.n_topics), self.samples
        for P, F in pairs:
            P, F = np.clip(P[rows], 0, 1), np.clip(F, 0, 1)
            low[rows], high[rows] = np.minimum(low[rows], P), np.maximum(high[rows], P)
            topics_low, topics_high = np.minimum(topics_low, F), np.maximum(topics_high, F)
            changes = np.maximum(changes, np.abs(F - fit.topics).sum(axis=0) / 2)
        return Freedom(
            low=low,
            high=high,
            topics_low=topics_low,
            topics_high=topics_high,
            proportions=fit.proportions,
            shares=fit.shares,
            changes=changes,
            transformations=np.eye(fit.n_topics)[None],
            missed=0.0,
            samples=fit.samples,
        )


def _regions(fit: Fit, parts: _Parts, counts: Counts | None, loss: float) -> list[Region]:
    """In which something moves: at the same rates and, with counts, with the room that a loss makes."""
    regions = [Region(parts.P, parts.G)]
    if counts is not None:
        samples, features = room(counts, fit.proportions, fit.topics, fit.sizes, loss)
        P, G = samples[np.ix_(parts.samples, parts.topics)], features[np.ix_(parts.features, parts.topics)]
        regions += [Region(parts.P, parts.G, (part * P, part * G)) for part in PARTS]
    return [region for region in regions if parts.P.shape[1] > 1 and region.a_move() is not None]


def _counts_of(fit: Fit, X: CountsLike | None) -> Counts:
    if X is None:
        raise ValueError("a loss of log-likelihood needs the counts: give X")
    counts = X if isinstance(X, Counts) else Counts(X)
    if counts.shape != (len(fit.L), len(fit.F)):
        raise ValueError(
            f"X is {counts.shape[0]} × {counts.shape[1]}, the fit {len(fit.L)} × {len(fit.F)}; give its counts"
        )
    return counts


def _targets(rows: list[NDArray[np.intp]], topics: range | list[int]) -> list[Target]:
    """Both ends of every topic at these samples and features."""
    return [Target(side, int(row), k, sign) for k in topics for side in SIDES for row in rows[side] for sign in (-1, 1)]


def _checked(region: Region, rows: list[NDArray[np.intp]], found: list[Point]) -> tuple[list[Point], float]:
    """With the ends at some rows that were left out, and what they gained."""
    rng, more = np.random.default_rng(0), []
    for shares, known in zip((region.P, region.G), rows, strict=True):
        rest = np.setdiff1d(np.arange(len(shares)), known)
        more.append(rng.choice(rest, min(CHECKED, len(rest)), replace=False))
    if not any(len(part) for part in more):
        return found, 0.0

    def widths(points: list[Point]) -> Floats:
        P, G = region.P[more[SAMPLES]], region.G[more[FEATURES]]
        shares = [np.concatenate([P @ point.A, G @ point.V.T]) for point in points]
        return np.max(shares, axis=0) - np.min(shares, axis=0)

    before = widths(found)
    found = explored(region, _targets(more, range(region.P.shape[1])), found)
    return found, float((widths(found) - before).max())
