"""Which topics of one fit become which of the next: fits with more and more topics, of other seeds, data or models.

Between two fits the shares of topics flow from one to the other at the smallest cost, Σ w_kl H²(f_k, g_l), with H the Hellinger
distance: exact optimal transport, a linear program with at most K + L − 1 positive flows. So a fit flows into itself unchanged.

    forward_kl = w_kl / Σ_l w_kl        the part of topic k that goes to l
    backward_kl = w_kl / Σ_k w_kl       the part of topic l that comes from k
    path          a topic of the last fit is one; every other topic is on that of the l in the next fit of the largest
                  forward_kl + backward_kl
    persistence   mean over all other fits of Σ min(forward, backward) over their topics on the same path: 1 if always there
    refinement    K · mean over later fits of Σ_l forward_kl backward_kl: K where topics are only divided, 1 where all are mixed

The last two are the coherence and the refinement of Fukuyama, Sankaran and Symul (2023), with transport that is not blurred.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from unmix.analysis.application import FitLike, fit_of
from unmix.analysis.compare import compare
from unmix.analysis.features import topic_names
from unmix.analysis.quality import coherence, diversity, exclusivity
from unmix.analysis.results import FileLayout, Result, columns
from unmix.base.checks import plural
from unmix.base.types import Floats, Integers, as_names, in_place
from unmix.counts.counts import CountsLike
from unmix.fit import Fit
from unmix.io.write import MODEL_FILE
from unmix.models.poisson import column_shares, hellinger_distances
from unmix.storage.schema import Whole

SWEEPS = 10  # down and up, of the order of topics


@dataclass(frozen=True, eq=False, repr=False)
class Alignment(Result):
    """What `align` found: every topic of every fit, and what flows from each to those of the next.

    Attributes
    ----------
    table : DataFrame
        A row for every topic of every fit: `fit` and `topic`, `name` (its top features), `share`, `path` (the number of a
        topic of the last fit), `persistence`, `refinement` (NaN in the last fit), and its `place` in a figure, from 0 at the
        top.
    flows : DataFrame
        A row for every flow from a fit to the next: `fit`, `topic`, `to` (the topic of the next), `flow`, `forward`,
        `backward`.
    fits : array of str
        The names of the fits.
    left_out : list of int
        How many features of each fit are not in all of them, and so do not count.

    See Also
    --------
    align, plot.alignment

    Examples
    --------
    >>> import unmix as um
    >>> fits = um.fit_path([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], range(1, 3), random_state=0)
    >>> um.align(fits).flows[["fit", "topic", "to"]].values.tolist()
    [['1', 1, 1], ['1', 1, 2]]
    """

    LAYOUT: ClassVar = FileLayout(
        columns={
            "table": columns("topic share path persistence refinement place", texts="fit name"),
            "flows": columns("topic to flow forward backward", texts="fit"),
        }
    )

    table: pd.DataFrame
    flows: pd.DataFrame
    fits: NDArray[np.str_]
    left_out: list[Whole]  # features of each fit that others do not have

    def advice(self) -> list[str]:
        """Which topics of the last fit last most and least, and which features were ignored.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.

        Examples
        --------
        >>> import unmix as um
        >>> fits = um.fit_path([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], range(1, 3), random_state=0)
        >>> all(isinstance(sentence, str) for sentence in um.align(fits).advice())
        True
        """
        last = self.table[self.table["fit"] == self.fits[-1]].sort_values("persistence", kind="stable")
        least, most = last.iloc[0], last.iloc[-1]
        said = [f"of the last fit, topic {most['name']} lasts most (persistence {most['persistence']:.2f})"]
        if len(last) > 1:
            said[0] += f" and topic {least['name']} least ({least['persistence']:.2f})"
        for name, missing in zip(self.fits, self.left_out, strict=True):
            if missing:
                said.append(f"{missing:,} features of fit {name} are not in all fits and were ignored")
        return said


def align(fits: Iterable[FitLike] | Mapping[Any, FitLike]) -> Alignment:
    """Topics of several fits, each followed from one fit to the next.

    Parameters
    ----------
    fits : iterable or mapping of Fit, estimator or path
        At least two, in order; a mapping, as `fit_path` gives it, says their names, and so do paths. They may have
        different numbers of topics and different samples. Features are found by name, and those that all fits have count;
        without names they must be the same.

    Returns
    -------
    Alignment
        Its `table` has one row per topic, its `flows` one for each pair of topics between which something flows.

    Raises
    ------
    ValueError
        If there are fewer than two fits, or they have no features in common.

    See Also
    --------
    fit_path : Fits of many numbers of topics.
    plot.alignment : The figure.

    Examples
    --------
    >>> import unmix as um
    >>> alignment = um.align(um.fit_path([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], range(1, 4), random_state=0))
    >>> alignment.table.groupby("fit", sort=False)["share"].sum().round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    named = _named(fits)
    topics, left_out = common_topics(list(named.values()))
    shares = [fit.shares for fit in named.values()]
    flows = {
        (a, b): transport(shares[a], shares[b], _costs(topics[a], topics[b]))
        for a, b in combinations(range(len(topics)), 2)
    }
    paths = _paths([flows[pair] for pair in pairwise(range(len(topics)))])
    places = _places([flows[pair] for pair in pairwise(range(len(topics)))], shares)
    names, rows = list(named), []
    for a, fit in enumerate(named.values()):
        shown = topic_names(fit)
        lasting, refined = _persistence(a, flows, paths), _refinement(a, fit.n_topics, flows, len(topics))
        rows += [
            (names[a], k + 1, shown[k], shares[a][k], int(paths[a][k]) + 1, lasting[k], refined[k], int(places[a][k]))
            for k in range(fit.n_topics)
        ]
    columns = ["fit", "topic", "name", "share", "path", "persistence", "refinement", "place"]
    return Alignment(pd.DataFrame(rows, columns=columns), _flow_table(flows, names), as_names(names), left_out)


def transport(masses: Floats, others: Floats, costs: Floats) -> Floats:
    """The flow of the smallest cost between masses that sum to one: its rows sum to the first ones, its columns to the
    others."""
    K, L = costs.shape
    rows, columns = sp.kron(sp.eye(K), np.ones((1, L))), sp.kron(np.ones((1, K)), sp.eye(L))
    # the last row of constraints follows from all others
    solved = linprog(
        costs.ravel(),
        A_eq=sp.vstack([rows, columns]).tocsr()[:-1],
        b_eq=np.concatenate([masses, others])[:-1],
        method="highs-ds",
    )
    return np.maximum(solved.x.reshape(K, L), 0)


def common_topics(fits: list[Fit]) -> tuple[list[Floats], list[int]]:
    """Topics over the features that all fits have, in one order, and how many each has next to them."""
    known = [(fit.features, len(fit.F)) for fit in fits]
    if all(
        in_place("feature", known[0], one, where=f"fit {number}", model="fit 1") for number, one in enumerate(known, 1)
    ):
        return [fit.topics for fit in fits], [0] * len(fits)
    if nameless := [number for number, fit in enumerate(fits, 1) if fit.features is None]:
        raise ValueError(f"fit {nameless[0]} has no names of features; use fits of the same features, or with names")
    places = [{str(name): j for j, name in reversed(list(enumerate(fit.feature_names)))} for fit in fits]
    shared = [name for name in places[0] if all(name in names for names in places)]
    if not shared:
        raise ValueError("no feature has the same name in all fits; compare the spelling")
    topics = []
    for fit, own in zip(fits, places, strict=True):
        topics.append(column_shares(fit.topics[[own[name] for name in shared]], 1 / len(shared)))
    return topics, [len(fit.F) - len(shared) for fit in fits]


def _named(fits: Iterable[FitLike] | Mapping[Any, FitLike], least: int = 2) -> dict[str, Fit]:
    several = list(fits) if isinstance(fits, Iterable) and not isinstance(fits, str) else [fits]
    names = [_name_of(path) for path in several if isinstance(path, str | os.PathLike)]
    if not isinstance(fits, Mapping) and len(set(names)) == len(several):
        fits = dict(zip(names, several, strict=True))
    pairs = list(fits.items() if isinstance(fits, Mapping) else enumerate(several, 1))
    if len(pairs) < least:
        raise ValueError(f"{plural(len(pairs), 'fit')} given; use at least {least}")
    named = {str(name): fit_of(fit) for name, fit in pairs}
    if len(named) < len(pairs):
        raise ValueError("two fits have the same name; use different names")
    return named


def _name_of(path: str | os.PathLike[str]) -> str:
    """Of a fit's folder, of the folder of its model, or of a model of a different name."""
    place = Path(path).absolute()
    if place.suffix != ".safetensors":
        return place.name
    return place.parent.name if place.name == MODEL_FILE else place.stem


def _costs(one: Floats, two: Floats) -> Floats:
    return hellinger_distances(one, two) ** 2


def _parts(flow: Floats) -> tuple[Floats, Floats]:
    """Forward and backward; nothing where a topic has no share."""
    rows, columns = flow.sum(axis=1, keepdims=True), flow.sum(axis=0, keepdims=True)
    return flow / np.where(rows > 0, rows, 1), flow / np.where(columns > 0, columns, 1)


def _paths(flows: list[Floats]) -> list[Integers]:
    paths = [np.arange(flows[-1].shape[1])]
    for flow in reversed(flows):
        forward, backward = _parts(flow)
        paths.append(paths[-1][(forward + backward).argmax(axis=1)])
    return paths[::-1]


def _persistence(a: int, flows: dict[tuple[int, int], Floats], paths: list[Integers]) -> Floats:
    total = np.zeros(len(paths[a]))
    for b in range(len(paths)):
        if b != a:
            flow = flows[a, b] if a < b else flows[b, a].T
            forward, backward = _parts(flow)
            total += (np.minimum(forward, backward) * (paths[a][:, None] == paths[b])).sum(axis=1)
    return total / (len(paths) - 1)


def _refinement(a: int, K: int, flows: dict[tuple[int, int], Floats], n_fits: int) -> Floats:
    later = [np.multiply(*_parts(flows[a, b])).sum(axis=1) for b in range(a + 1, n_fits)]
    return K * np.mean(later, axis=0) if later else np.full(K, np.nan)


def _places(flows: list[Floats], shares: list[Floats]) -> list[Integers]:
    """Where topics are from the top in each fit, so that flows cross little: each at the middle of those that it flows from,
    or to, again and again (Sugiyama, Tagawa and Toda 1981)."""
    places = [_ranks(-share) for share in shares]
    for _ in range(SWEEPS):
        for b in range(1, len(shares)):
            places[b] = _ranks(_middles(flows[b - 1].T, places[b - 1], shares[b - 1], places[b]))
        for a in range(len(shares) - 2, -1, -1):
            places[a] = _ranks(_middles(flows[a], places[a + 1], shares[a + 1], places[a]))
    return places


def _middles(flow: Floats, places: Integers, shares: Floats, own: Integers) -> Floats:
    """The mean height of the topics that each is connected with; its own place breaks ties."""
    tops = np.empty(len(places))
    order = np.argsort(places)
    tops[order] = shares[order].cumsum() - shares[order] / 2
    weights = flow.sum(axis=1)
    return np.where(weights > 0, flow @ tops / np.where(weights > 0, weights, 1), 1.0) + 1e-9 * own


def _ranks(values: Floats) -> Integers:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable")


def _flow_table(flows: dict[tuple[int, int], Floats], names: list[str]) -> pd.DataFrame:
    rows = []
    for a in range(len(names) - 1):
        flow = flows[a, a + 1]
        forward, backward = _parts(flow)
        for k, to in np.argwhere(flow > 0):
            rows.append((names[a], k + 1, to + 1, flow[k, to], forward[k, to], backward[k, to]))
    return pd.DataFrame(rows, columns=["fit", "topic", "to", "flow", "forward", "backward"])


# Many fits in one table.


def fit_table(fits: Iterable[FitLike] | Mapping[Any, FitLike], X: CountsLike | None = None) -> pd.DataFrame:
    """Several fits side by side, one row each: how they ended, how unlike their topics are, and how like those of the first
    fit.

    Parameters
    ----------
    fits : iterable or mapping of Fit, estimator or path
        At least one, of any models; a mapping says their names, and so do paths.
    X : Counts or array-like, default=None
        Counts with which to measure the coherence of topics, such as counts that no fit has seen.

    Returns
    -------
    DataFrame
        `fit`, `model`, `topics`, `status`, `iterations`, `seconds`, `loglik`, `remaining_gain`; `distinct` and
        `least_distance` of `diversity`; `likeness`, the mean cosine of the topics of the first fit with their partners,
        weighted by their shares, 0 for those without; and with X the mean `npmi` and `exclusivity` of topics.

    Raises
    ------
    ValueError
        If there is no fit, or one has no feature in common with the first.

    See Also
    --------
    compare : Two fits, topic by topic.
    align : Several fits, topic by topic.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> um.analysis.fit_table(um.fit_path(X, range(1, 4), random_state=0))[["fit", "topics"]].to_numpy().tolist()
    [['1', 1], ['2', 2], ['3', 3]]
    """
    named = _named(fits, 1)
    first = next(iter(named.values()))
    rows = []
    for name, fit in named.items():
        pairs = compare(first, fit).table.dropna(subset=["topic"])
        spread, trace = diversity(fit, min(25, len(fit.F))), fit.trace
        row = {
            "fit": name,
            "model": fit.params.get("model", ""),
            "topics": fit.n_topics,
            "status": fit.status,
            "iterations": int(trace["iteration"].max()) if len(trace) else 0,
            "seconds": float(trace["seconds"].max()) if len(trace) else np.nan,
            "loglik": fit.loglik,
            "remaining_gain": fit.remaining_gain,
            "distinct": spread["distinct"],
            "least_distance": spread["least_distance"],
            "likeness": float((pairs["share"] * pairs["cosine"].fillna(0)).sum() / pairs["share"].sum()),
        }
        if X is not None:
            row |= {"npmi": coherence(fit, X)["npmi"].mean(), "exclusivity": exclusivity(fit).mean()}
        rows.append(row)
    return pd.DataFrame(rows)
