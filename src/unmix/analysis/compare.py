"""Topics side by side: how far apart they are, and which topic of one fit is which of another."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, Union, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.analysis.application import CATALOGUES, FitLike, fit_of
from unmix.analysis.features import topic_order
from unmix.analysis.results import FileLayout, Result, columns
from unmix.base.checks import warn
from unmix.base.kinds import mutation_types
from unmix.base.types import Floats, Integers, Names, as_names, in_place, order_by_name
from unmix.fit import Fit
from unmix.io.read import read_catalogue
from unmix.models.poisson import hellinger_distances, match_columns

if TYPE_CHECKING:
    from unmix.estimators.base import CountsEstimator


def match_topics(one: FitLike, two: FitLike, by: Literal["samples", "features"] = "features") -> dict[int, int]:
    """Which topic of fit two is which of fit one.

    Σ √(p q) over all pairs is the largest there is.

    Parameters
    ----------
    one, two : Fit, estimator or path
        Of the same features, or samples, in the same order.
    by : str, default="features"
        By the "features" of topics, or by the proportions of "samples".

    Returns
    -------
    dict of int to int
        For columns of topics of fit one their partners in fit two, one to one; of the larger fit some have none.

    Raises
    ------
    ValueError
        If the features, or samples, are not the same.

    See Also
    --------
    compare : The same with distances, by names.

    Examples
    --------
    >>> import unmix as um
    >>> one = um.PoissonNMF.from_factors([[8, 0], [2, 5], [0, 5]]).result_
    >>> two = um.PoissonNMF.from_factors([[0, 9], [4, 1], [6, 0]]).result_
    >>> um.analysis.match_topics(one, two)
    {0: 1, 1: 0}
    """
    one, two = fit_of(one), fit_of(two)
    _check_same(one, two, by)
    if by == "samples":
        return match_columns(one.proportions, two.proportions)
    return match_columns(one.topics, two.topics)


def topic_distances(one: FitLike, two: FitLike | None = None) -> Floats:
    """Hellinger distances between topics.

    Parameters
    ----------
    one : Fit, estimator or path
        Its topics are the rows.
    two : Fit, estimator or path, default=None
        Its topics are the columns; None for those of fit one.

    Returns
    -------
    array, K × K of the other
        0 for the same, 1 for topics without a feature in common.

    Raises
    ------
    ValueError
        If the features are not the same.

    Examples
    --------
    >>> import unmix as um
    >>> um.analysis.topic_distances(um.PoissonNMF.from_factors([[8, 0], [2, 0], [0, 5]]).result_)
    array([[0., 1.],
           [1., 0.]])
    """
    one = fit_of(one)
    if two is not None:
        two = fit_of(two)
        _check_same(one, two, "features")
        return hellinger_distances(one.topics, two.topics)
    distances = hellinger_distances(one.topics, one.topics)
    np.fill_diagonal(distances, 0)
    return distances


def _check_same(one: Fit, two: Fit, what: Literal["samples", "features"]) -> None:
    """Two fits have the same samples, or features: as many, and of the same names where both have names."""
    first, second = (
        (fit.samples, len(fit.L)) if what == "samples" else (fit.features, len(fit.F)) for fit in (one, two)
    )
    order_by_name(what[:-1], first, second, where="fit two", model="fit one")


# Two fits side by side: which topic of one is which of the other, how far apart they are, and in which samples it matters.
#
# Topics are distributions over the features of both fits, found by name; what a fit does not have counts as 0. Pairs have the
# largest sum of affinities Σ_j √(f_j g_j) (`unmix.models.poisson`), and of each there are
#
#     Hellinger distance √(1 − Σ √(f g)) = 0 to 1        cosine Σ f g / ‖f‖ ‖g‖ = 1 to 0
#
# where the first looks at all features and the second at the most frequent ones.

Other: TypeAlias = Union[Fit, "CountsEstimator", str, os.PathLike[str], pd.DataFrame]
UNLIKE = 0.7  # a Hellinger distance at which topics share less than half: √(f g) sums to 0.51
MOST = 20  # proportions that are listed

Row = tuple[int | None, int | None, float, float, float]  # two columns, their distance, cosine and mean difference


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """What `compare` found.

    Attributes
    ----------
    table : DataFrame
        One row per pair of topics, the heaviest first, then those without a partner: `topic`, `label` and `share` in the one
        fit, `other`, `other_label` and `other_share` in the other, `hellinger` and `cosine`, and `difference`, the mean
        absolute difference of their proportions over the samples of both fits; NaN without samples in common.
    proportions : DataFrame
        The samples and topics whose proportions differ most; empty without samples in common.
    samples : int
        How many the two have in common.

    Examples
    --------
    >>> import unmix as um
    >>> one = um.PoissonNMF.from_factors([[8, 0], [2, 5], [0, 5]]).result_
    >>> two = um.PoissonNMF.from_factors([[0, 9], [4, 1], [6, 0]]).result_
    >>> um.compare(one, two).table[["topic", "other"]].values.tolist()
    [[1, 2], [2, 1]]
    """

    LAYOUT: ClassVar = FileLayout(
        columns={
            "table": columns("topic share other other_share hellinger cosine difference", texts="label other_label"),
            "proportions": columns("topic other one two difference", texts="sample"),
        }
    )

    table: pd.DataFrame
    proportions: pd.DataFrame
    samples: int  # in common

    @property
    def mean_difference(self) -> float:
        """float: the mean of all differences of proportions of matched topics, in absolute value."""
        return float(self.table["difference"].dropna().mean()) if self.samples else float("nan")

    def advice(self) -> list[str]:
        """Which topics have no like in the other fit.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.PoissonNMF.from_factors([[8, 0], [2, 5], [0, 5]]).result_
        >>> um.compare(fit, fit).advice()
        []
        """
        said = []
        alone = self.table[self.table[["topic", "other"]].isna().any(axis=1)]
        for column, fit in (("topic", "first"), ("other", "second")):
            said += [f"topic {number} of the {fit} fit has no partner" for number in alone[column].dropna()]
        far = self.table.loc[self.table["hellinger"] > UNLIKE, "topic"]
        return said + [f"topic {number} differs from its partner (distance above {UNLIKE})" for number in far]


@overload
def compare(fit: FitLike, other: Fit | CountsEstimator) -> Comparison: ...
@overload
def compare(fit: FitLike, other: Other) -> Comparison | CatalogueMatch: ...
def compare(fit: FitLike, other: Other) -> Comparison | CatalogueMatch:
    """Matched topics of two fits, with their distances, and the proportions that differ most.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    other : Fit, estimator, path or DataFrame
        Of the same or other data, model and number of topics. Features, and samples, are found by name where both have names,
        and by place otherwise. Or a catalogue, a DataFrame or a .csv, .tsv, .tab or .txt file of features × signatures, for
        `match_catalogue`.

    Returns
    -------
    Comparison or CatalogueMatch
        Its `table` has one row per pair of topics; of a catalogue, one per topic.

    Raises
    ------
    ValueError
        If the two have no features in common.

    See Also
    --------
    analysis.match_topics, plot.loadings_scatter, align

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> one, two = (um.TopicModel(3, init="random", tol=1e-4, random_state=seed).fit(X).result_ for seed in (0, 1))
    >>> list(um.compare(one, two).table["topic"])
    [1, 2, 3]
    """
    if isinstance(other, pd.DataFrame) or (
        isinstance(other, str | os.PathLike) and Path(other).suffix.lower() in CATALOGUES
    ):
        return match_catalogue(fit, other)
    fit, other = fit_of(fit), fit_of(other)
    topics = _on_all_features(fit, other)
    partners = match_columns(*topics)
    distances, cosines = hellinger_distances(*topics), cosine_similarities(*topics)
    places = common_samples(fit, other)
    first, second = fit.proportions[places[0]], other.proportions[places[1]]
    rows: list[Row] = []
    for k in (k for k in topic_order(fit).tolist() if k in partners):
        partner = partners[k]
        difference = np.abs(first[:, k] - second[:, partner]).mean() if len(first) else np.nan
        rows.append((k, partner, distances[k, partner], cosines[k, partner], difference))
    rows += [(k, None, np.nan, np.nan, np.nan) for k in topic_order(fit).tolist() if k not in partners]
    rows += [(None, k, np.nan, np.nan, np.nan) for k in topic_order(other).tolist() if k not in partners.values()]
    return Comparison(_table(fit, other, rows), _largest(fit, other, partners, places), len(first))


def cosine_similarities(one: Floats, two: Floats) -> Floats:
    """Of each column of one matrix (rows of the result) and each of the other (columns); 0 for columns of zeros."""
    lengths = np.outer(np.linalg.norm(one, axis=0), np.linalg.norm(two, axis=0))
    return np.divide(one.T @ two, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def common_samples(one: Fit, two: Fit) -> tuple[Integers, Integers]:
    """Where the samples that both fits have stand in each. A name that several samples share does not determine which is
    which."""
    if one.samples is None or two.samples is None:
        n = len(one.L) if len(one.L) == len(two.L) else 0
        return np.arange(n), np.arange(n)
    if np.array_equal(one.samples, two.samples):
        return np.arange(len(one.L)), np.arange(len(two.L))
    first, second = _places(one.samples), _places(two.samples)
    common = [name for name in first if name in second]
    return np.array([first[name] for name in common], np.intp), np.array([second[name] for name in common], np.intp)


def _places(names: Names) -> dict[str, int]:
    """Where each name stands that stands once."""
    often = Counter(names.tolist())
    return {name: place for place, name in enumerate(names.tolist()) if often[name] == 1}


def _on_all_features(one: Fit, two: Fit) -> tuple[Floats, Floats]:
    """Topics of both fits over the features that one of them has."""
    known, given = (one.features, len(one.F)), (two.features, len(two.F))
    if in_place("feature", known, given, where="the second fit", model="the first"):
        return one.topics, two.topics
    if any(len(set(fit.feature_names)) < len(fit.F) for fit in (one, two)):
        raise ValueError("features of a fit share a name; use fits of the same features in the same order")
    own, others = one.feature_names, two.feature_names
    if len(names := np.union1d(own, others)) == len(one.F) + len(two.F):
        own, others = (as_names(mutation_types(spelled)) for spelled in (own, others))
        names = np.union1d(own, others)
    if len(names) == len(one.F) + len(two.F):
        raise ValueError(
            f"the fits have no feature in common: {str(one.feature_names[0])!r} … and {str(two.feature_names[0])!r} …; "
            "compare fits of the same kind of data"
        )
    first, second = (np.zeros((len(names), fit.n_topics)) for fit in (one, two))
    first[np.searchsorted(names, own)] = one.topics
    second[np.searchsorted(names, others)] = two.topics
    return first, second


def _table(one: Fit, two: Fit, rows: list[Row]) -> pd.DataFrame:
    def numbers(place: int) -> pd.Series:
        known = pd.Series([row[place] for row in rows], dtype="Int64") + 1
        return known if known.isna().any() else known.astype(int)

    def of(place: int, values: list[str] | list[float]) -> list[str | float | None]:
        return [None if (k := row[place]) is None else values[int(k)] for row in rows]

    return pd.DataFrame(
        {
            "topic": numbers(0),
            "label": of(0, one.labels),
            "share": of(0, one.shares.tolist()),
            "other": numbers(1),
            "other_label": of(1, two.labels),
            "other_share": of(1, two.shares.tolist()),
            "hellinger": [row[2] for row in rows],
            "cosine": [row[3] for row in rows],
            "difference": [row[4] for row in rows],
        }
    )


def _largest(one: Fit, two: Fit, partners: dict[int, int], places: tuple[Integers, Integers]) -> pd.DataFrame:
    """Samples and matched topics, those first whose proportions differ most."""
    columns = np.array(list(partners)), np.array(list(partners.values()))
    first, second = (
        fit.proportions[np.ix_(rows, ks)] for fit, rows, ks in zip((one, two), places, columns, strict=True)
    )
    change = second - first
    rows, ks = np.unravel_index(np.argsort(-np.abs(change), axis=None, kind="stable")[:MOST], change.shape)
    return pd.DataFrame(
        {
            "sample": one.sample_names[places[0][rows]],
            "topic": columns[0][ks] + 1,
            "other": columns[1][ks] + 1,
            "one": first[rows, ks],
            "two": second[rows, ks],
            "difference": change[rows, ks],
        }
    )


# Topics among known ones: the entries of a catalogue that each is most like, by cosine, as the field of signatures compares.

LIKE = 0.85  # cosines below do not decide it which signature it is


@dataclass(frozen=True, eq=False, repr=False)
class CatalogueMatch(Result):
    """What `match_catalogue` found.

    Attributes
    ----------
    table : DataFrame
        One row per topic, the heaviest first: `topic`, `label`, `share`, the entry that is `best`, its `cosine`, and the
        `second` best with its `second_cosine`.
    cosines : array, K × entries
        All of them, topics in the order of the fit.
    names : array of str
        Of the entries.

    Examples
    --------
    >>> import pandas as pd, unmix as um
    >>> known = pd.DataFrame({"one": [8, 2, 0], "two": [0, 5, 5]}, index=["a", "b", "c"])
    >>> fit = um.PoissonNMF.from_factors(known).result_
    >>> um.match_catalogue(fit, known).cosines.round(2)
    array([[1.  , 0.17],
           [0.17, 1.  ]])
    """

    ROW: ClassVar = "Comparison"
    LAYOUT: ClassVar = FileLayout(shapes={"cosines": "Ks", "names": "s"})

    table: pd.DataFrame
    cosines: Floats
    names: NDArray[np.str_]

    def advice(self) -> list[str]:
        """Which topics are like nothing in the catalogue, and which are like the same entry.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.

        Examples
        --------
        >>> import pandas as pd, unmix as um
        >>> known = pd.DataFrame({"one": [8, 2, 0], "two": [0, 5, 5]}, index=["a", "b", "c"])
        >>> um.match_catalogue(um.PoissonNMF.from_factors(known).result_, known).advice()
        []
        """
        said = []
        if len(unlike := self.table.loc[self.table["cosine"] < LIKE, "topic"]):
            said.append(
                f"not clearly like anything in the catalogue (cosine below {LIKE}): topic {', '.join(map(str, unlike))}"
            )
        for name, rows in self.table[self.table["cosine"] >= LIKE].groupby("best", sort=False):
            if len(rows) > 1:
                said.append(f"topics {' and '.join(map(str, rows['topic']))} are both most like {name}")
        return said


def match_catalogue(fit: FitLike, catalogue: pd.DataFrame | str | os.PathLike[str]) -> CatalogueMatch:
    """The entries of a catalogue that each topic is most like, by cosine.

    Parameters
    ----------
    fit : Fit, estimator or path
        With names of features.
    catalogue : DataFrame, str or PathLike
        Features × known factors, such as COSMIC's signatures: a DataFrame, or a .csv or tab-separated file. Features are found
        by name, in any order; what only one side has counts as 0 on the other.

    Returns
    -------
    CatalogueMatch
        Its `table` has the best and the second best entry for each topic.

    Raises
    ------
    ValueError
        If the features of the fit have no names, or no name is in both.

    See Also
    --------
    PoissonNMF.from_factors : Loadings of the entries of a catalogue in samples.
    plot.signature : The figure.

    Examples
    --------
    >>> import pandas as pd, unmix as um
    >>> known = pd.DataFrame({"one": [8, 2, 0], "two": [0, 5, 5]}, index=["a", "b", "c"])
    >>> fit = um.PoissonNMF.from_factors([[0.1, 1], [1, 0.2], [0.9, 0]], features=["a", "b", "c"]).result_
    >>> um.match_catalogue(fit, known).table[["topic", "best"]].values.tolist()
    [[1, 'two'], [2, 'one']]
    """
    fit = fit_of(fit)
    if fit.features is None:
        raise ValueError(
            "the features of this fit have no names, by which a catalogue is matched; use counts with names"
        )
    table = read_catalogue(catalogue)
    features = [str(name) for name in fit.features]
    if not set(features) & set(table.index):
        features, table = mutation_types(features), table.set_axis(mutation_types(table.index), axis=0)
    missing = len(set(features) - set(table.index))
    if missing == len(features):
        raise ValueError(
            f"no feature of the catalogue ({table.index[0]} …) has a name that the fit knows ({fit.features[0]} …); "
            "use features × factors, and compare the spelling"
        )
    if missing:
        warn(f"{missing:,} of {len(features):,} features of the fit are not in the catalogue: taken as 0 there")
    names = list(dict.fromkeys([*features, *table.index]))
    topics = np.zeros((len(names), fit.n_topics))
    topics[: len(features)] = fit.topics
    cosines = cosine_similarities(topics, table.reindex(names, fill_value=0.0).to_numpy())
    return CatalogueMatch(_catalogue_table(fit, cosines, list(table)), cosines, np.array(list(table)))


def _catalogue_table(fit: Fit, cosines: Floats, names: list[str]) -> pd.DataFrame:
    ranked = np.argsort(-cosines, axis=1, kind="stable")
    rows = []
    for k in topic_order(fit).tolist():
        best = ranked[k, 0]
        second = ranked[k, 1] if len(names) > 1 else None
        next_best = (None, np.nan) if second is None else (names[second], cosines[k, second])
        rows.append((k + 1, fit.labels[k], fit.shares[k], names[best], cosines[k, best], *next_best))
    columns = ["topic", "label", "share", "best", "cosine", "second", "second_cosine"]
    return pd.DataFrame(rows, columns=columns)
