"""What the data does not identify: `freedom`, ranges of proportions and topics with the same likelihood."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.analysis.application import FitLike, counts_of, fit_of, refuse_known, refuse_multipliers
from unmix.analysis.features import topic_place
from unmix.analysis.results import FileLayout, Finished, Result, in_parts, shapes
from unmix.analysis.samples import by_sample_and_topic
from unmix.analysis.transformations import FEATURES, SAMPLES, SIDES, Point, Region, Target, explored, spread_rows
from unmix.base.checks import ParameterError, choice, parameter, percent, real, whole
from unmix.base.progress import Progress
from unmix.base.types import Floats, numbered
from unmix.counts.counts import Counts, CountsLike
from unmix.fit import Fit
from unmix.models.poisson import match_columns, poisson_to_topics, topics_to_poisson
from unmix.models.problem import Problem
from unmix.solvers.extrapolate import Alternate
from unmix.solvers.halfsteps import Newton
from unmix.storage.tensors import Arrays

WIDE = 0.05  # a mean width from which on the advice speaks of it


@dataclass(frozen=True, eq=False, repr=False)
class Freedom(Result):
    """Ranges of proportions and topics at the same rates, made by `freedom`. Arrays are in the order of the columns of the fit.

    Attributes
    ----------
    low, high : array, n × K
        The smallest and the largest proportion of each topic in each sample.
    topics_low, topics_high : array, m × K
        The same of each feature in each topic.
    proportions : array, n × K
        Those of the fit itself.
    shares : array, K
        The part of all expected counts that each topic explains.
    changes : array, K
        How far each topic can move, in total variation: 0 not at all, 1 to a topic without a feature in common.
    transformations : array, ends × K × K
        The A at which the ends are reached, the fit's own (I) first; `end` makes a fit of one.
    missed : float
        The largest width that was still gained at samples and features that were looked at only to see that; 0 if all were.
    loss : float
        The log-likelihood that ends may cost.
    samples : array of str, or None
        Their names, if they have any.
    status : str
        "interrupted" if Ctrl-C left something out; ranges may be too short then. "finished" otherwise.

    See Also
    --------
    freedom, plot.freedom, intervals

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> found = um.freedom(fit)
    >>> found.low.shape, found.topics_high.shape
    ((4, 2), (3, 2))
    """

    LAYOUT: ClassVar = FileLayout(
        shapes("nK low high proportions, mK topics_low topics_high, K shares changes, aKK transformations, n samples")
    )

    low: Floats
    high: Floats
    topics_low: Floats
    topics_high: Floats
    proportions: Floats
    shares: Floats
    changes: Floats
    transformations: Floats
    missed: float
    loss: float = 0.0
    samples: NDArray[np.str_] | None = None
    status: Finished = "finished"

    def _headline(self) -> str:
        (n, K), found = self.low.shape, len(self.transformations)
        mean, most = self.width.mean(), self.width.max()
        return f"Freedom({n} samples, {K} topics, mean width {mean:.3f}, widest {most:.3f}, {found} ends)"

    @property
    def width(self) -> Floats:
        """array, n × K: high − low."""
        return self.high - self.low

    @property
    def table(self) -> pd.DataFrame:
        """DataFrame: one row per topic.

        Its `share`, the mean and the largest width of its proportions, the `sample` that has it, and how far the topic itself
        can move.
        """
        places = self.width.argmax(axis=0)
        return pd.DataFrame(
            {
                "topic": np.arange(1, len(self.shares) + 1),
                "share": self.shares,
                "mean_width": self.width.mean(axis=0),
                "widest": self.width.max(axis=0),
                "sample": numbered(self.samples, "sample", len(self.low))[places],
                "change": self.changes,
            }
        )

    @property
    def by_sample(self) -> pd.DataFrame:
        """DataFrame: one row per sample and topic: the proportion, and its range."""
        return by_sample_and_topic(self.samples, proportion=self.proportions, low=self.low, high=self.high)

    def advice(self) -> list[str]:
        """What the data do not identify, and what would decide it.

        Returns
        -------
        list of str
            How far proportions can move, and a sentence for each thing to know about it.

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
        >>> len(um.freedom(fit).advice()) > 0
        True
        """
        said = []
        if self.status == "interrupted":
            said.append(f"interrupted: ranges may be too short; continue with {parameter('checkpoint')}")
        price = "at the same likelihood" if self.loss == 0 else f"for {self.loss:g} units of log-likelihood"
        if self.width.max() < 1e-6:
            return [*said, f"the solution is identified: there are no other proportions and topics {price}"]
        wide = self.table[self.table["mean_width"] >= WIDE].sort_values("mean_width", ascending=False)
        if len(wide):
            worst = wide.iloc[0]
            which = "" if len(wide) == 1 else f"{len(wide)} topics, most of all "
            said.append(
                f"the data do not decide the proportions of {which}topic {worst['topic']}: {price} they move by "
                f"{worst['mean_width']:.0%} of a sample on average, by {worst['widest']:.0%} in sample {worst['sample']}; a "
                "sparse penalty, known topics, or samples and features without some of the topics would"
            )
        else:
            said.append(
                f"the solution is almost identified: {price} proportions move by {self.width.mean():.1%} on average"
            )
        if self.missed > 0.01:
            said.append(
                f"ranges may be wider still: others, looked at to check, gained {self.missed:.1%}; raise probes"
            )
        return said

    def end(self, fit: Fit, sample: int, topic: int, end: Literal["low", "high"]) -> Fit:
        """The fit with the same rates at which a proportion is at an end of its range.

        Parameters
        ----------
        fit : Fit
            What `freedom` was asked of.
        sample : int
            A row of `low`, from 0.
        topic : int
            Its number, from 1.
        end : str
            "low" or "high".

        Returns
        -------
        Fit
            As likely as the given one, with other proportions and topics.

        Raises
        ------
        ValueError
            If it is a different fit, there is no such topic or end, or ends were allowed to cost something and are not kept.

        Examples
        --------
        >>> import numpy as np, unmix as um
        >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
        >>> other = um.freedom(fit).end(fit, sample=0, topic=1, end="low")
        >>> bool(np.allclose(other.L @ other.F.T, fit.L @ fit.F.T))
        True
        """
        if fit.L.shape != self.low.shape:
            raise ValueError(
                f"the fit has loadings of shape {fit.L.shape}, these ranges {self.low.shape}; use the fit they are of"
            )
        if self.loss > 0:
            raise ValueError(f"ends at a loss of {self.loss:g} are not kept as fits; ask freedom without a loss")
        choice("end", end, ("low", "high"))
        values = self.transformations[:, :, topic_place(fit, topic)] @ fit.proportions[sample]
        A = self.transformations[values.argmin() if end == "low" else values.argmax()]
        P, F = np.maximum(fit.proportions @ A, 0), np.maximum(fit.topics @ np.linalg.inv(A).T, 0)
        L, F = topics_to_poisson(P, F, fit.sizes)
        return replace(fit, L=L, F=F, state=None, posterior={}, priors={})


def moves(found: Freedom) -> list[str]:
    """As text, for each topic, how far its proportions and the topic itself can move."""
    return [
        f"proportions move by {percent(row.mean_width)} on average, by {percent(row.widest)} in {row.sample}; "
        f"the topic itself by {percent(row.change)}"
        for row in found.table.itertuples()
    ]


# Freedom at a price: how far proportions can move if the log-likelihood may fall by a little.
#
# A proportion that a transformation makes a little negative costs little once it is set to zero and its row makes up for it. By
# the curvature of row i with topics fixed,
#
#     H_i = s_i² Σ_j x_ij f_j f_jᵀ / λ_ij²,      price of −ε in topic k ≈ ε² / (2 (H_i⁻¹)_kk),
#
# so with a loss δ it may be as low as −√(2 δ (H_i⁻¹)_kk), were it alone; features equally. Transformations found with so much
# space, or a part of it, are then paid for: what is negative becomes zero, and Newton's method continues from there, only until
# the loss is at most δ. So all that is told is to be had at that price; more may be.

PARTS = (1.0, 0.1)  # of the space of one entry alone: many have to share the loss
MOST_ROOM = 0.5  # of a row, whatever the curvature says
STEPS = 12  # of Newton's method, to come within the loss


def room(X: Counts, P: Floats, F: Floats, sizes: Floats, loss: float) -> tuple[Floats, Floats]:
    """How far below zero the proportions of each sample, and of each feature, may be at this loss."""
    L = sizes[:, None] * P
    ratios = X.sides().left.ratios(L, F)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.nan_to_num(ratios**2 / X.rows.data, posinf=0.0)  # x / λ²
    W = X.with_data(weights)
    of_samples = _reach(W @ _squares(F), sizes**2, loss)
    of_features = _reach(W.T @ _squares(L), F.sum(axis=1) ** 2, loss)
    return of_samples, of_features


def paid(problem: Problem, fit: Fit, point: Point, allowed: float) -> tuple[Floats, Floats] | None:
    """Proportions and topics near those of a transformation, at no more than the allowed loss; None where they are too dear."""
    P, F = np.maximum(fit.proportions @ point.A, 0), np.maximum(fit.topics @ point.V.T, 0)
    L, F = topics_to_poisson(P / P.sum(axis=1, keepdims=True), F / F.sum(axis=0), fit.sizes)
    solver = Alternate(Newton())
    state = solver.start(problem, L, F)
    for _ in range(STEPS):
        if state.loss <= allowed:
            P, F = poisson_to_topics(state.L, state.F)[:2]
            partners = match_columns(fit.topics, F)  # topics may have changed places
            order = [partners[k] for k in range(len(partners))]
            return P[:, order], F[:, order]
        state = solver.step(problem, state)
    return None


def _squares(factor: Floats) -> Floats:
    """Rows × K²: f_k f_l."""
    return (factor[:, :, None] * factor[:, None, :]).reshape(len(factor), -1)


def _reach(curvature: Floats, scale: Floats, loss: float) -> Floats:
    """√(2 loss (H⁻¹)_kk) of every row, H being scale × curvature."""
    K = round(curvature.shape[1] ** 0.5)
    H = curvature.reshape(-1, K, K) * scale[:, None, None]
    H = H + (1e-9 * np.trace(H, axis1=1, axis2=2)[:, None, None] + 1e-12) * np.eye(K)
    variances = np.diagonal(np.linalg.inv(H), axis1=1, axis2=2)
    return np.minimum(np.sqrt(2 * loss * np.maximum(variances, 0)), MOST_ROOM)


# Freedom: between which values proportions and topics can move while every rate, and so the likelihood, stays as it is.
#
# For every invertible A with L A >= 0 and F A⁻ᵀ >= 0 the fit (L A, F A⁻ᵀ) has the rates of (L, F). With a pure sample and a
# feature of its own for every topic only A = I is left; without them a region of answers fits equally well, and which of them a
# program returns is an accident of its start. `transformations.py` goes to the ends of that region. Every end is reached: it is
# a fit, with factors >= 0 and the same rates. That nothing is beyond is certain for two topics; for more, ends are local
# optima, and ranges may be a little short. With `loss` the ends are those at that price in log-likelihood (`price.py`).

CHECKED = 8  # samples, and features, that are looked at once more, to see what the others miss


def freedom(
    fit: FitLike,
    X: CountsLike | None = None,
    *,
    loss: float = 0.0,
    probes: int = 24,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> Freedom:
    """Between which values each proportion, and each feature of each topic, can move at the same rates.

    If ranges are wide, report them with every proportion: the data do not decide.

    Parameters
    ----------
    fit : Fit, estimator or path
        Only its rates count: where a prior or a penalty decided between answers, this says what it had to decide.
    X : Counts or array-like, default=None
        Counts of the fit, needed for a `loss`. Samples and features are found by name where both have names.
    loss : float, default=0.0
        How much lower the log-likelihood of other solutions may be. 0: none, which needs no counts; 2 is about what a 95%
        interval for one number allows. All samples move together at these limits; what single samples may do is for
        `intervals`.
    probes : int, default=24
        Number of samples, and of features, whose limits are computed. They are those that differ most. All others get the ends
        of the same transformations.
    checkpoint : str or PathLike, default=None
        A file in which finished topics are kept, so that the same call continues with the rest after Ctrl-C.
    verbose : bool, default=False
        Whether to write to stderr how many parts are finished, and about how long the others will take.

    Returns
    -------
    Freedom
        `low` and `high` of every proportion, and a `table` with one row per topic.

    Raises
    ------
    ValueError
        If an option is invalid, a `loss` comes without the counts of the fit, or topics of the fit were known or not allowed
        everywhere.

    See Also
    --------
    intervals : How sure the rest is.
    plot.freedom : The figure.

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
    fit = fit_of(fit)
    whole("probes", probes, 1)
    real("loss", loss, 0)
    refuse_known(fit, "freedom", "held", "allowed")  # which transformations would change
    parts = _Parts.of(fit)
    if loss > 0 and X is None:
        raise ParameterError("loss", loss, f"it needs the counts of the fit: use {parameter('X')}")
    if loss > 0:
        refuse_multipliers(fit, "freedom with a loss")
    counts = None if loss == 0 or X is None else counts_of(fit, X, "freedom")
    rows = [spread_rows(parts.P, probes), spread_rows(parts.G, probes)]
    regions = _regions(fit, parts, counts, loss)
    pairs = [(region, k) for region in regions for k in range(parts.P.shape[1])]

    def ends(pair: tuple[Region, int]) -> Arrays:
        own = Region(parts.P, parts.G, pair[0].room)  # so that a part's ends do not depend on those before it
        return {"A": np.array([point.A for point in explored(own, _targets(rows, [pair[1]]), [own.identity])])}

    about = {"of": parts.summary(), "probes": probes, "loss": loss}
    pieces, status = in_parts(
        pairs, ends, checkpoint=checkpoint, of=about, progress=Progress("parts") if verbose else None
    )
    found = [Point.of(np.eye(parts.P.shape[1]))]
    found += [Point.of(A) for piece in pieces if piece is not None for A in piece["A"][1:]]
    missed = 0.0
    if regions and status == "finished" and loss == 0:
        try:  # once more, each from the best of all
            found = explored(regions[0], _targets(rows, range(parts.P.shape[1])), found)
            found, missed = _checked(regions[0], rows, found)
        except KeyboardInterrupt:
            status = "interrupted"
    matrices = [parts.whole(point.A, fit.n_topics) for point in found]
    if counts is None:
        reached = [(fit.proportions @ A, fit.topics @ np.linalg.inv(A).T) for A in matrices]
        return Freedom(**parts.ranges(fit, reached), transformations=np.array(matrices), missed=missed, status=status)
    problem = Problem(counts, fit.n_topics)
    allowed = problem.loss(fit.L.astype(np.float64), fit.F.astype(np.float64)) + loss
    reached = [pair for A in matrices if (pair := paid(problem, fit, Point.of(A), allowed)) is not None]
    kept = np.eye(fit.n_topics)[None]
    return Freedom(**parts.ranges(fit, reached), transformations=kept, missed=0.0, loss=loss, status=status)


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
            raise ValueError("the fit has no counts to explain, so nothing is identified; use a fit of some counts")
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

    def ranges(self, fit: Fit, pairs: list[tuple[Floats, Floats]]) -> dict[str, Any]:
        """Of everything, over all proportions and topics that were found."""
        low, high = fit.proportions.copy(), fit.proportions.copy()
        topics_low, topics_high = fit.topics.copy(), fit.topics.copy()
        changes, rows = np.zeros(fit.n_topics), self.samples
        for P, F in pairs:
            P, F = np.clip(P[rows], 0, 1), np.clip(F, 0, 1)
            low[rows], high[rows] = np.minimum(low[rows], P), np.maximum(high[rows], P)
            topics_low, topics_high = np.minimum(topics_low, F), np.maximum(topics_high, F)
            changes = np.maximum(changes, np.abs(F - fit.topics).sum(axis=0) / 2)
        topics = {"topics_low": topics_low, "topics_high": topics_high, "changes": changes, "shares": fit.shares}
        return {"low": low, "high": high, "proportions": fit.proportions, "samples": fit.samples} | topics


def _regions(fit: Fit, parts: _Parts, counts: Counts | None, loss: float) -> list[Region]:
    """In which something moves: at the same rates and, with counts, with the space that a loss makes."""
    regions = [Region(parts.P, parts.G)]
    if counts is not None:
        samples, features = room(counts, fit.proportions, fit.topics, fit.sizes, loss)
        P, G = samples[np.ix_(parts.samples, parts.topics)], features[np.ix_(parts.features, parts.topics)]
        regions += [Region(parts.P, parts.G, (part * P, part * G)) for part in PARTS]
    return [region for region in regions if parts.P.shape[1] > 1 and region.a_move() is not None]


def _targets(rows: list[NDArray[np.intp]], topics: range | list[int]) -> list[Target]:
    """Both ends of every topic at these samples and features."""
    return [Target(side, int(row), k, sign) for k in topics for side in SIDES for row in rows[side] for sign in (-1, 1)]


def _checked(region: Region, rows: list[NDArray[np.intp]], found: list[Point]) -> tuple[list[Point], float]:
    """With the ends at some rows that were omitted, and what they gained."""
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
