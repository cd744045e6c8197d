"""What distinguishes topics: `differences`, its checks and its result."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from numbers import Integral
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from sklearn.base import clone

from unmix.analysis.application import counts_in_memory, data_of, fit_of, refuse_known, refuse_multipliers
from unmix.analysis.features import topic_place
from unmix.analysis.results import FileLayout, Finished, Result, in_parts, shapes
from unmix.analysis.samples import column_or_values
from unmix.analysis.samples import groups as groups_of
from unmix.base.checks import ParameterError, analysis, choice, parameter, positive, share, warn
from unmix.base.progress import Progress
from unmix.base.threads import threads, use_threads
from unmix.base.types import Floats, Integers, Seed, numbered, order_by_name
from unmix.counts.counts import Counts, CountsLike
from unmix.counts.data import Data, feature_ranges, gathered_features
from unmix.counts.sides import Sides
from unmix.estimators import from_fit
from unmix.estimators.base import CountsEstimator, generator
from unmix.estimators.features import match_features
from unmix.estimators.known import names_of
from unmix.fit import Fit, finished
from unmix.models.differences import WORDS, Design, LogFactors, comparison, features_at_once, shrink, spread_of
from unmix.models.poisson import affinities, column_shares, match_columns
from unmix.storage.tensors import Arrays

FEW_GROUPS = 5  # cannot determine how much groups differ

Known = Fit | CountsEstimator | ArrayLike


@dataclass(frozen=True)
class Material:
    """Samples of a size above zero: what they are made of, and counts that are tested."""

    proportions: Floats
    counts: Data  # of all samples
    kept: NDArray[np.bool_] | None  # those that are of a size above zero; None for all
    sizes: Floats
    labels: NDArray[np.int32] | None  # of groups
    likeness: Floats | None  # of topics that were found in the counts that are not held out to those of the fit, 0 to 1

    @cached_property
    def feature_totals(self) -> Floats:
        """In samples that are kept."""
        totals = self.counts.feature_totals
        return totals if self.kept is None else totals - self.counts.take(np.flatnonzero(~self.kept)).feature_totals

    @property
    def pooled(self) -> Floats:
        """f0: the rate of each feature in all samples."""
        return self.feature_totals / self.sizes.sum()


def material_of(
    fit: Known,
    proportions: Floats,
    counts: Data,
    groups: ArrayLike | None,
    held_out: float | None,
    sizes: ArrayLike | None,
    random_state: Seed,
) -> Material:
    """All that is known, or found in the counts that are not held out."""
    labels, size, likeness = labels_of(fit, groups, counts), sizes_of(sizes, counts), None
    if held_out is not None:
        proportions, counts, likeness = split(fit, counts, held_out, random_state)
        size = counts.sample_totals if sizes is None else size
    kept = size > 0
    if kept.sum() < 2:
        raise ValueError("fewer than 2 samples have a size above 0; there is nothing to compare")
    if not kept.all():
        size, proportions = size[kept], proportions[kept]
        labels = None if labels is None else np.unique(labels[kept], return_inverse=True)[1].astype(np.int32)
    if labels is not None and not labels.any():
        raise ValueError("groups: all samples with a size above 0 are of one group; use at least 2")
    return Material(proportions, counts, None if kept.all() else kept, size, labels, likeness)


def column_of(against: str | int, topics: int) -> str | int:
    """The word, or the column of the topic."""
    if topics < 2:
        raise ValueError("there is one topic only, and none to compare it with; fit at least 2")
    if against in WORDS:
        return str(against)
    if isinstance(against, str) or not isinstance(against, Integral) or not 1 <= against <= topics:
        words = ", ".join(map(repr, WORDS))
        raise ParameterError("against", against, f"choose one of {words}, or the number of a topic, 1 to {topics}")
    return int(against) - 1


def proportions_of(fit: Known, counts: Data) -> Floats:
    """Of the samples, which must be those of the fit."""
    if isinstance(fit, CountsEstimator):
        fit = fit.result_
    if isinstance(fit, Fit):
        proportions = fit.proportions
        order_by_name("sample", (fit.samples, len(fit.L)), (counts.samples, counts.shape[0]))
    else:
        proportions = np.asarray(fit, dtype=float)
        if proportions.ndim != 2 or not np.isfinite(proportions).all() or (proportions < 0).any():
            raise ValueError("proportions are not a table of finite numbers >= 0; use samples × topics, or a Fit")
        sums = proportions.sum(axis=1)
        if len(off := np.flatnonzero(np.abs(sums - 1) > 1e-3)):
            raise ValueError(f"row {off[0]} of the proportions sums to {sums[off[0]]:.4g}; divide each row by its sum")
        proportions = proportions / sums[:, None]
    if len(proportions) != (n := counts.shape[0]):
        raise ValueError(f"there are proportions of {len(proportions)} samples and counts of {n}; use the same")
    return proportions


def sizes_of(given: ArrayLike | None, counts: Data) -> Floats:
    if given is None:
        return counts.sample_totals
    sizes, n = np.asarray(given, dtype=float), counts.shape[0]
    if sizes.shape != (n,) or not np.isfinite(sizes).all() or (sizes < 0).any():
        raise ValueError(f"sizes of shape {sizes.shape}; use a finite number >= 0 for each of the {n} samples")
    return sizes


def labels_of(fit: Known, groups: ArrayLike | None, counts: Data) -> NDArray[np.int32] | None:
    """The number of the group of each sample."""
    if groups is None:
        return None
    held = fit.result_ if isinstance(fit, CountsEstimator) else fit
    tables = [held.metadata if isinstance(held, Fit) else None, counts.metadata]
    table = next((one for one in tables if one is not None and isinstance(groups, str) and groups in one), tables[1])
    values = column_or_values(table, groups, "groups", counts.shape[0])
    if values.isna().any():
        raise ValueError(
            f"groups: {int(values.isna().sum())} samples have none; use one for each, or remove these samples"
        )
    names, labels = groups_of(values)
    if len(names) < 2:
        raise ValueError(
            "groups: all samples are of one group, so differences between groups cannot be estimated; use at least 2"
        )
    if len(names) < FEW_GROUPS:
        warn(f"{len(names)} groups are too few to estimate how much groups differ; standard errors are unreliable")
    return labels.astype(np.int32)


def split(fit: Known, data: Data, held_out: float, random_state: Seed) -> tuple[Floats, Counts, Floats]:
    """Proportions by topics that are found in one part of the counts; the other part; and how much in the same samples these
    topics are as those of the fit whose numbers they have."""
    share("held_out", held_out, "use a fraction of the counts between 0 and 1, such as 0.5, or remove it")
    if not isinstance(fit, Fit | CountsEstimator):
        raise ValueError(
            f"{parameter('held_out')} needs a Fit or an estimator, to fit it again to a part of the counts; pass one"
        )
    counts = counts_in_memory(data, f"differences with {parameter('held_out')}")
    counts.require_whole(parameter("held_out"), "or remove it")
    known = fit if isinstance(fit, Fit) else fit.result_
    model = from_fit(fit) if isinstance(fit, Fit) else clone(fit)
    again = names_of(model) and not isinstance(fit, Fit)  # a Fit does not have the catalogue or the words
    refuse_known(known, f"differences with {parameter('held_out')}", *(["allowed"] if again else []))
    rng = generator(random_state)
    tested, shown = counts.thinned((held_out, 1 - held_out), rng)
    model.set_params(init="auto", random_state=int(rng.integers(2**31)), callbacks=[], verbose=False)
    matched = match_features(shown, known)
    if matched.missing:
        raise ValueError(
            f"{matched.missing} features of the fit are not in X, and {parameter('held_out')} needs all; include them"
        )
    found = finished(model.fit(matched.counts).result_)
    partners = match_columns(known.topics, found.topics)
    proportions = found.proportions[:, [partners[k] for k in range(known.n_topics)]]
    return (
        proportions,
        tested,
        np.diag(affinities(*(_by_topic(known.sizes, p) for p in (known.proportions, proportions)))),
    )


def _by_topic(sizes: Floats, proportions: Floats) -> Floats:
    """The part of each topic that is in each sample."""
    return column_shares(sizes[:, None] * proportions, 0)


# What distinguishes topics, with errors: log fold changes of every feature in every topic, shrunk, and how sure their signs are.
#
# The mathematics is in `unmix.models.differences`. Topics that were found from the same counts
# look more different than they are, as noise has had its say in what they are. `held_out` splits the counts: topics are found
# in one part and tested in the other. If all topics use a feature equally, its expected counts are s_i f_j for any proportions
# whatever, so the test is right however wrong the topics are; all it needs is that the parts are independent, as parts of
# Poisson counts are.

LEVEL = 0.9  # of the intervals in tables
SURE = 0.05  # a local false sign rate below which a change is counted
FEW_FEATURES = 200  # with fewer all topics are shrunk together
UNLIKE = 0.8  # similarity of topics, below which they are others
MOST_NAMED = 6  # features of a topic in one line
FEWEST = 10  # changes that can determine what changes are like; fewer are not shrunk
OVERDISPERSED = 1.5  # of Pearson's φ: what Poisson errors do not bear

Against = Literal["next", "least", "rest", "average"] | int
Errors = Literal["robust", "poisson"]


@dataclass(frozen=True, eq=False, repr=False)
class Differences(Result):
    """Log₂ fold changes of features (rows) in topics (columns); NaN where there is nothing to report. Made by `differences`.

    Attributes
    ----------
    lfc : array, m × K
        Changes, shrunk by as much as all of them together say is right.
    lfc_raw : array, m × K
        Changes as estimated.
    sd : array, m × K
        The error of `lfc_raw`.
    z : array, m × K
        `lfc_raw` / `sd`.
    lfsr : array, m × K
        The local false sign rate: how probable it is that a change has not the sign it seems to have.
    rate : array, m × K
        Of the feature in the topic: exp E log f.
    frequency : array, m
        Of the feature in all samples.
    counts : array, m
        Of the feature.
    dispersion : array, m
        Pearson's φ of the feature: 1 for Poisson counts.
    rival : array of int, m × K
        The column of the topic compared with; −1 where it is not one.
    shares : array, K
        Of the topics.
    features : array of str, or None
        Names.
    against : str or int
        What topics are compared with; a topic by its number.
    errors : str
        "robust" or "poisson".
    groups : int
        How many groups of samples had their residuals added up; 0 for none.
    held_out : float or None
        The part of the counts that were kept from finding the topics.
    likeness : array, K, or None
        How like the topics found without what is held out are to those of the fit, 0 to 1.
    pseudocount : float
        How many counts' worth of belief there was that all topics use a feature equally.
    fractional : float
        The part of the values that are not whole numbers.
    status : str
        "finished", or "interrupted" by Ctrl-C.

    See Also
    --------
    differences, plot.volcano, plot.differences, write_report

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> d = um.differences(um.TopicModel(2, random_state=0).fit(X), X)
    >>> d.summary["topic"].tolist()
    [1, 2]
    >>> d.lfc.shape
    (3, 2)
    """

    LAYOUT: ClassVar = FileLayout(
        shapes("mK lfc lfc_raw sd z lfsr rate rival, m frequency counts dispersion features, K shares")
        | {"likeness": "K"},
        places={"rival": "K"},
    )

    lfc: Floats
    lfc_raw: Floats
    sd: Floats
    z: Floats
    lfsr: Floats
    rate: Floats  # of the feature in the topic: exp E log f
    frequency: Floats  # of the feature in all samples
    counts: Floats  # of the feature
    dispersion: Floats  # Pearson's φ of the feature: 1 for Poisson counts
    rival: Integers  # the column of the topic compared with, −1 where it is not one
    shares: Floats  # of the topics
    features: NDArray[np.str_] | None = None
    against: str | int = "next"  # a topic by its number
    errors: str = "robust"
    groups: int = 0  # of samples whose residuals are added up; 0 for none
    held_out: float | None = None
    likeness: Floats | None = None  # of the topics found without what is held out to those of the fit, 0 to 1
    pseudocount: float = 1.0
    fractional: float = 0.0  # part of the values that are not whole numbers
    status: Finished = "finished"

    def _headline(self) -> str:
        m, K = self.lfc.shape
        sure = int((self.lfsr < SURE).sum())
        twice = "counts used twice" if self.used_twice else f"held out {self.held_out:.0%}"
        return f"Differences({m:,} features × {K} topics against {self.against}, {sure:,} with lfsr < {SURE}, {twice})"

    @property
    def n_topics(self) -> int:
        """int: the number of topics K."""
        return self.lfc.shape[1]

    @property
    def used_twice(self) -> bool:
        """bool: whether the counts that are tested may have taken part in finding the topics."""
        return self.held_out is None

    @cached_property
    def svalue(self) -> Floats:
        """array, m × K: the part of wrong signs among what is at least as sure.

        That is the mean of all lfsr of the topic that are not larger.
        """
        order = np.argsort(self.lfsr, axis=0, kind="stable")
        means = np.cumsum(np.take_along_axis(self.lfsr, order, axis=0), axis=0) / np.arange(1, len(order) + 1)[:, None]
        svalue = np.empty_like(means)
        np.put_along_axis(svalue, order, means, axis=0)
        return svalue

    @property
    def other(self) -> str:
        """str: what topics are compared with: `against`, or "topic 3"."""
        return self.against if isinstance(self.against, str) else f"topic {self.against}"

    @cached_property
    def names(self) -> list[str]:
        """list of str: of the features; "feature 1", "feature 2", … where they have none."""
        return numbered(self.features, "feature", len(self.lfc)).tolist()

    @cached_property
    def table(self) -> pd.DataFrame:
        """DataFrame: all of it, a row for each feature in each topic, topic by topic.

        `low` and `high` are the 90% interval of `lfc_raw`.
        """
        m, K = self.lfc.shape
        wide = float(ndtri((1 + LEVEL) / 2)) * self.sd
        rivals = np.where(self.rival < 0, self.against if isinstance(self.against, str) else "", self.rival + 1)
        columns = {
            **{"lfc": self.lfc, "lfc_raw": self.lfc_raw, "sd": self.sd, "z": self.z},
            **{"lfsr": self.lfsr, "svalue": self.svalue, "low": self.lfc_raw - wide, "high": self.lfc_raw + wide},
        }
        each = {"counts": self.counts, "frequency": self.frequency, "dispersion": self.dispersion}
        return pd.DataFrame(
            {
                "feature": np.tile(np.array(self.names, dtype=object), K),
                "topic": np.repeat(np.arange(1, K + 1), m),
                **{name: array.T.ravel() for name, array in columns.items()},
                "rate": self.rate.T.ravel(),
                **{name: np.tile(array, K) for name, array in each.items()},
                "against": rivals.T.ravel().astype(str),
            }
        )

    @property
    def summary(self) -> pd.DataFrame:
        """DataFrame: one row per topic, with the number of features that differ significantly, and those it uses most
        more."""
        top = [self.top(topic, MOST_NAMED) for topic in range(1, self.n_topics + 1)]
        named = [", ".join(f"{row.feature} {row.lfc:+.1f}" for row in rows.itertuples()) for rows in top]
        sure = (self.lfsr < SURE).sum(axis=0)
        return pd.DataFrame({"topic": range(1, self.n_topics + 1), "significant": sure, "most": named})

    def surest(self, lfsr: float = SURE) -> pd.DataFrame:
        """The rows of the table that are sure, from the largest change of each topic to the least.

        Parameters
        ----------
        lfsr : float, default=0.05
            Local false sign rate below which rows are given; 1 for all rows.

        Returns
        -------
        DataFrame
            Rows of `table`.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
        >>> d = um.differences(um.TopicModel(2, random_state=0).fit(X), X)
        >>> len(d.surest(1.0)), len(d.surest(0.0))
        (6, 0)
        """
        rows = self.table if lfsr >= 1 else self.table[self.table["lfsr"] < lfsr]
        return rows.sort_values(["topic", "lfc"], ascending=[True, False], kind="stable")

    def top(self, topic: int, n: int | None = 20, lfsr: float = SURE) -> pd.DataFrame:
        """The features that a topic uses more, the largest change first.

        Parameters
        ----------
        topic : int
            Its number, from 1.
        n : int, default=20
            At most this many; None for all.
        lfsr : float, default=0.05
            Only those with a local false sign rate below it.

        Returns
        -------
        DataFrame
            Rows of `table`.

        Raises
        ------
        ValueError
            If there is no such topic.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
        >>> d = um.differences(um.TopicModel(2, random_state=0).fit(X), X)
        >>> d.top(1, n=1, lfsr=0.5)["feature"].tolist()
        ['ant']
        """
        k = topic_place(self, topic)
        rows = self.table.iloc[k * len(self.lfc) : (k + 1) * len(self.lfc)]
        rows = rows[(rows["lfsr"] < lfsr) & (rows["lfc"] > 0)]
        return rows.sort_values(["lfc", "z"], ascending=False, kind="stable").head(n).reset_index(drop=True)

    def ranked(self, topic: int, by: Literal["z", "lfc"] = "z") -> pd.Series:
        """All features from those that a topic uses most beyond the others to those it uses least: the input of gene-set tests.

        Parameters
        ----------
        topic : int
            Its number, from 1.
        by : str, default="z"
            "z": estimates divided by their errors, as GSEA expects. "lfc": shrunk log2 fold changes.

        Returns
        -------
        Series
            Scores by feature, the highest first; features without one are omitted. `gseapy.prerank` takes it as it is, and
            `.to_csv("topic.rnk", sep="\t", header=False)` writes what fgsea and GSEA read.

        Raises
        ------
        ValueError
            If there is no such topic or score.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
        >>> um.differences(um.TopicModel(2, random_state=0).fit(X), X).ranked(1).index.tolist()
        ['ant', 'bee', 'cat']
        """
        choice("by", by, ("z", "lfc"))
        k = topic_place(self, topic)
        scores = pd.Series(getattr(self, by)[:, k], index=pd.Index(self.names, name="feature"), name=f"topic {topic}")
        return scores[np.isfinite(scores)].sort_values(ascending=False, kind="stable")

    def advice(self) -> list[str]:
        """One sentence for each thing that a user may want to know or do about these differences.

        Returns
        -------
        list of str
            Whether counts were used twice, groups are few, something was interrupted, and the like.

        Examples
        --------
        >>> import unmix as um
        >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
        >>> len(um.differences(um.TopicModel(2, random_state=0).fit(X), X).advice()) > 0
        True
        """
        said = []
        if self.status == "interrupted":
            undone = int((np.isnan(self.dispersion) & (self.counts > 0)).sum())
            said.append(f"interrupted: {undone:,} of {len(self.lfc):,} features are not finished, and NaN")
        if self.used_twice:
            said.append(
                "topics were found and tested on the same counts, so significance is overstated; "
                f"{analysis('differences', held_out=0.5)} finds topics in one half of the counts and tests them in the other"
            )
        for k, likeness in enumerate([] if self.likeness is None else self.likeness):
            if likeness < UNLIKE:
                said.append(
                    f"without the held-out counts, topic {k + 1} differs (similarity {likeness:.2f}, 1 is the same); "
                    "what is said of it is not said of that of the fit"
                )
        if empty := int((self.counts == 0).sum()):
            said.append(f"{empty:,} feature{'s' * (empty > 1)} without counts: nothing can be said, and lfsr is 1")
        if len(dead := np.flatnonzero(self.shares == 0)):
            said.append(f"no sample has any of topic {', '.join(str(k + 1) for k in dead)}: nothing can be said of it")
        if self.fractional:
            said.append(f"{self.fractional:.1%} of the values are not whole numbers; errors are those of counts")
        known = np.isfinite(self.dispersion) & (self.counts > 0)
        phi = float(np.average(self.dispersion[known], weights=self.counts[known])) if known.any() else 1.0
        if self.errors == "poisson" and phi > OVERDISPERSED:
            said.append(f"counts scatter {phi:.1f} times as much as Poisson counts do; use errors='robust'")
        if 0 < self.groups < FEW_GROUPS:
            said.append(
                f"{self.groups} groups are too few to estimate how much groups differ; standard errors are unreliable"
            )
        alive = np.flatnonzero(self.shares > 0)
        without = [str(k + 1) for k in alive if not (self.lfsr[:, k] < SURE).any()]
        if without and self.status == "finished":
            which = f"topic {without[0]}" if len(without) == 1 else f"topics {', '.join(without)}"
            said.append(f"no feature differs significantly (lfsr < {SURE}) in {which}")
        return said


def differences(
    fit: Known,
    X: CountsLike,
    against: Against = "next",
    errors: Errors = "robust",
    *,
    groups: ArrayLike | None = None,
    held_out: float | None = None,
    sizes: ArrayLike | None = None,
    pseudocount: float = 1.0,
    random_state: Seed = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Differences:
    """How much more, or less, each topic uses each feature than others do, with errors and local false sign rates.

    Ctrl-C keeps the features that are finished.

    Parameters
    ----------
    fit : Fit, estimator, path or array
        A `Fit`, a fitted estimator, the path of a model, or proportions of topics (samples × topics, rows that sum to one),
        which are taken as known.
    X : Counts, Shards or array-like
        Counts of the same samples; of shards, as many features at a time as fit into memory. Features may be others than those
        of the fit: topics may be found in some and tested in all.
    against : str or int, default="next"
        Comparison: next, least, rest, average, or a topic. Feature by feature, "next" is the other topic that uses the
        feature most; "least", the one whose rate is most similar; "rest", all others by their shares; "average", all samples;
        or one topic, by its number.
    errors : str, default="robust"
        Standard errors: robust or poisson. "robust": as large as residuals of samples say, but no smaller than those of
        Poisson counts. "poisson": those alone.
    groups : array-like or str, default=None
        Groups of samples, such as donors. A label for each sample, or the column of metadata that has it: residuals are then
        added up by group, as samples of one group are not independent of each other.
    held_out : float, default=None
        Fraction of the counts held out for the tests, such as 0.5. They are kept from finding the topics. The same kind of model
        is fitted to the rest, from the beginning; its topics take the numbers of those of `fit` that they are most like.
    sizes : array-like, default=None
        Of samples, to which expected counts are proportional; by default the totals of X. Samples of size 0 are omitted.
    pseudocount : float, default=1.0
        Strength of the prior towards equal rates, in counts.
    random_state : int, Generator or RandomState, default=None
        Decides what is held out.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    verbose : bool, default=False
        Whether to write to stderr how many parts of the work are finished, and about how long the others will take.

    Returns
    -------
    Differences
        Its `table` has a row for each topic and feature; `top` gives the most significant features of a topic.

    Raises
    ------
    ValueError
        If there is one topic only, samples are not those of the fit, or an option is invalid.

    See Also
    --------
    plot.volcano, plot.differences : Figures.
    analysis.top_features : The most distinctive features, without errors.
    sc.tl.differences : The same for AnnData.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> um.differences(fit, X).top(2, n=1, lfsr=0.5)["feature"].tolist()
    ['cat']
    """
    fit = fit_of(fit) if isinstance(fit, str | os.PathLike) else fit
    refuse_multipliers(fit, "differences")
    choice("errors", errors, ("robust", "poisson"))
    if groups is not None and errors == "poisson":
        raise ValueError("groups do not apply to errors='poisson'; use errors='robust', or remove groups")
    pseudocount = positive("pseudocount", pseudocount)
    with use_threads(n_jobs):
        counts = data_of(X, "differences", fit if isinstance(fit, Fit) else None)
        proportions = proportions_of(fit, counts)
        place = column_of(against, proportions.shape[1])
        material = material_of(fit, proportions, counts, groups, held_out, sizes, random_state)
        weights = material.sizes[:, None] * material.proportions
        spread = spread_of(weights, material.labels) if errors == "robust" else None
        design = Design(weights, pseudocount, spread)
        arrays, status = _changes(design, material, place, Progress("parts") if verbose else None)
        raw, sd = arrays["lfc_raw"], arrays["sd"]
        lfc, lfsr = _shrunk(raw, sd)
    return Differences(
        **arrays,
        lfc=lfc,
        lfsr=lfsr,
        z=np.divide(raw, sd, out=np.full(lfc.shape, np.nan), where=sd > 0),
        frequency=material.pooled,
        counts=material.feature_totals,
        shares=design.sums / design.sums.sum(),
        features=material.counts.features,
        against=place + 1 if isinstance(place, int) else place,
        errors=errors,
        groups=0 if material.labels is None else int(material.labels.max()) + 1,
        held_out=held_out,
        likeness=material.likeness,
        pseudocount=pseudocount,
        fractional=material.counts.fractional,
        status=status,
    )


def _changes(
    design: Design, material: Material, place: str | int, progress: Progress | None
) -> tuple[Arrays, Finished]:
    """Raw changes of all features, block by block; NaN for features without counts and for topics that no sample has."""
    n, m, pooled = len(material.sizes), material.counts.shape[1], material.pooled
    K, size, compare = len(design.sums), features_at_once(len(design.sums)), comparison(place, design)
    side = lru_cache(1)(lambda ends: Sides(gathered_features(material.counts, ends, material.kept)).right)

    def work(block: tuple[tuple[int, int], int]) -> Arrays:
        ends, begin = block
        rates = pooled[begin : begin + size][: ends[1] - begin]
        found = design.posteriors(side(ends), begin - ends[0], rates)
        beliefs = LogFactors.of(found)
        known, changes = design.alive & (rates > 0)[:, None], compare(beliefs, rates)
        return {
            "rate": np.where(known, np.exp(beliefs.mean), np.nan),
            "dispersion": np.where(rates > 0, found.pearson / max(n - K, 1), np.nan),
            "lfc_raw": np.where(known, changes.mean, np.nan) / np.log(2),
            "sd": np.where(known, changes.sd, np.nan) / np.log(2),
            "rival": changes.rival,
        }

    blocks = [(ends, begin) for ends in feature_ranges(material.counts) for begin in range(*ends, size)]
    parts, status = in_parts(blocks, work, progress=progress)
    whole: Arrays = {name: np.full((m, K), np.nan) for name in ("rate", "lfc_raw", "sd")}
    whole |= {"dispersion": np.full(m, np.nan), "rival": np.full((m, K), -1)}
    for (_, begin), part in zip(blocks, parts, strict=True):
        for name, array in (part or {}).items():
            whole[name][begin : begin + len(array)] = array
    return whole, status


def _shrunk(raw: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Shrunk changes and lfsr: topic by topic, as their changes may be of other sizes, but together where features are few."""
    known = np.isfinite(raw) & (sd > 0)
    if known.sum() < FEWEST:
        z = np.divide(raw, sd, out=np.zeros_like(raw), where=known)
        return raw.copy(), np.where(known, ndtr(-np.abs(z)), 1.0)
    if len(raw) < FEW_FEATURES:
        together = shrink(raw, sd)
        return together.mean, together.lfsr
    with ThreadPoolExecutor(threads()) as pool:
        topics = list(pool.map(shrink, raw.T, sd.T))
    return np.column_stack([one.mean for one in topics]), np.column_stack([one.lfsr for one in topics])
