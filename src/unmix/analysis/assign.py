"""Which topics of a catalogue each sample has, such as mutational signatures that a tumour shows.

A refit of all topics gives every sample a little of nearly everything. `assign` finds the set of topics of each sample whose
evidence is largest, given how common topics are among the samples (`models/assignment.py`), and says how sure that is: the
probability of each topic over all sets that were tried, p-values of tests that omit a topic, and a test of what the fit leaves of
the counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from scipy.stats import chi2

from unmix.analysis.application import FitLike, counts_in_memory, known_topics, opened
from unmix.analysis.results import FileLayout, Result, columns
from unmix.analysis.samples import column_or_values
from unmix.analysis.samples import groups as groups_of
from unmix.base.checks import ParameterError, choice, parameter, percent, plural, positive, real, share, warn
from unmix.base.types import Floats, Integers, Names, Seed, as_names, numbered
from unmix.counts.data import is_data
from unmix.estimators.base import generator
from unmix.estimators.likelihood import PoissonNMF
from unmix.fit import Fit
from unmix.models.assignment import (
    LEAST,
    MOST,
    Assign,
    Rule,
    expected_prevalence,
    learned_prevalence,
    odds_of,
    price_by_held_out,
    price_of_level,
)

POOR, UNEXPLAINED = 0.01, 0.03  # the p of the residual test, and the share of counts, of samples that advice speaks of
UNSURE = (0.2, 0.8)  # probabilities of topics that may replace each other
PAIRS = 3  # that advice names
ALL = "all samples"  # the group of all, where no groups are given


@dataclass(frozen=True, eq=False, repr=False)
class Assignment(Result):
    """What `assign` found.

    Attributes
    ----------
    table : DataFrame
        One row per sample and topic that it has: `sample`, `topic`, `exposure` (counts), `share` of the sample, `probability`
        that the sample has it, and `p` of the likelihood ratio test that omits it.
    samples : DataFrame
        One row per sample: `sample`, `group`, `counts`, number of `topics`, `cosine` of counts and fit, `dispersion`, share of
        counts that is `unexplained` beyond noise, and `p` of the residual test.
    exposures : array, n × K
        Counts of each topic; 0 for topics that a sample does not have.
    probabilities : array, n × K
        That a sample has a topic; of a sample without counts the prevalence.
    allowed : array of bool, n × K
        The topics that each sample has; of a sample without counts all.
    p : array, n × K
        Of the test that omits a topic; missing where a sample does not have it.
    topics : array, m × K
        The catalogue; columns sum to one.
    names, features, sample_names, groups : array of str or None
        Of topics, features, samples and groups.
    prevalences : array, groups × K
        How common topics are; `prevalence` has names too.
    rule : str
        "evidence", "price" or "test".
    price : float or None
        What a topic had to add to the log-likelihood; None for "evidence".
    loglik : float
        The Poisson log-likelihood of the counts, all constants included.
    metadata : DataFrame or None
        That of the samples.

    See Also
    --------
    assign, plot.assignment

    Examples
    --------
    >>> import numpy as np, pandas as pd, unmix as um
    >>> known = pd.DataFrame({"one": [8, 1, 1, 0], "two": [0, 5, 5, 0], "three": [0, 0, 5, 5]}, index=list("abcd"))
    >>> found = um.assign(um.Counts([[80, 9, 11, 0], [0, 49, 70, 21]], features=list("abcd")), known)
    >>> found.table["topic"].tolist()
    ['one', 'two', 'three']
    """

    LAYOUT: ClassVar = FileLayout(
        shapes={
            "exposures": "nK",
            "probabilities": "nK",
            "allowed": "nK",
            "p": "nK",
            "topics": "mK",
            "names": "K",
            "features": "m",
            "sample_names": "n",
            "groups": "g",
            "prevalences": "gK",
            "metadata": "nc",
        },
        columns={
            "table": columns("exposure share probability p", "sample topic"),
            "samples": columns("counts topics cosine dispersion unexplained p", "sample group"),
        },
    )

    table: pd.DataFrame
    samples: pd.DataFrame
    exposures: Floats
    probabilities: Floats
    allowed: NDArray[np.bool_]
    p: Floats
    topics: Floats
    names: Any
    features: Any
    sample_names: Any
    groups: Any
    prevalences: Floats
    rule: str
    price: float | None
    loglik: float
    metadata: pd.DataFrame | None

    @property
    def n_topics(self) -> int:
        """int: the number of topics K of the catalogue."""
        return self.topics.shape[1]

    @property
    def prevalence(self) -> pd.DataFrame:
        """DataFrame: how common topics are, with a row per group and a column per topic."""
        return pd.DataFrame(
            self.prevalences, index=pd.Index(self.groups.tolist(), name="group"), columns=self.names.tolist()
        )

    @property
    def fit(self) -> Fit:
        """Fit: a PoissonNMF whose factors are the catalogue and whose loadings are the exposures."""
        known = PoissonNMF.from_factors(self.topics, self.features).result_.with_names(self.names.tolist())
        L = self.exposures / known.F.sum(axis=0)
        about = {"assigned": f"um.assign(X, catalogue, rule={self.rule!r})"}
        own = {"samples": self.sample_names, "metadata": self.metadata, "loglik": self.loglik, "data": about}
        return replace(known, L=L, **own)

    @property
    def reported(self) -> Fit | None:
        """Fit or None: the same of the topics that some sample has, which the report shows."""
        used = np.flatnonzero(self.exposures.any(axis=0))
        return self.fit.select(used + 1) if used.size else None

    @property
    def by_sample(self) -> pd.DataFrame:
        """DataFrame: exposures, with a row per sample and a column per topic that some sample has."""
        used = self.exposures.any(axis=0)
        table = pd.DataFrame(self.exposures[:, used], columns=self.names[used].tolist())
        table.insert(0, "sample", self.samples["sample"], allow_duplicates=True)
        return table

    @property
    def summary(self) -> pd.DataFrame:
        """DataFrame: one row per topic that some sample has, the most frequent first: how many `samples` have it, the
        `expected` number, its `share` of all counts, and its mean `probability` where it was found."""
        has = np.where(self.exposures.sum(axis=1, keepdims=True) > 0, self.allowed, False)
        many, total = has.sum(axis=0), self.exposures.sum()
        found = pd.DataFrame(
            {
                "topic": self.names.tolist(),
                "samples": many,
                "expected": self.probabilities[has.any(axis=1)].sum(axis=0),
                "share": self.exposures.sum(axis=0) / (total if total > 0 else 1),
                "probability": (self.probabilities * has).sum(axis=0) / np.maximum(many, 1),
            }
        )
        found = found[found["samples"] > 0]
        return found.sort_values(["samples", "share"], ascending=False, kind="stable", ignore_index=True)

    def advice(self) -> list[str]:
        """Which samples the catalogue does not explain, and which topics replace each other.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.Counts([[80, 9, 11, 0], [1, 49, 70, 21]])
        >>> um.assign(X, [[0.8, 0, 0], [0.1, 0.5, 0], [0.1, 0.5, 0.5], [0, 0, 0.5]]).advice()
        []
        """
        said = []
        poor = self.samples[(self.samples["p"] <= POOR) & (self.samples["unexplained"] > UNEXPLAINED)]
        if len(poor):
            worst = poor.sort_values("unexplained", ascending=False, kind="stable")
            first = worst.iloc[0]
            used = int(self.exposures.any(axis=0).sum())
            remedy = f"unmix.PoissonNMF({used + 1}, known=assignment.reported).fit(X)"
            said.append(
                f"the catalogue does not explain {plural(len(poor), 'sample')} ({first['sample']}: "
                f"{percent(first['unexplained'])} of its counts); fit a new topic in addition, {remedy}"
            )
        low, high = UNSURE
        some: NDArray[np.bool_] = np.asarray(self.exposures.any(axis=1))
        doubtful = (self.probabilities > low) & (self.probabilities < high) & some[:, None]
        pairs = []
        for k, c in combinations(np.flatnonzero(doubtful.any(axis=0)).tolist(), 2):
            both = doubtful[:, k] & doubtful[:, c]
            sums = self.probabilities[both][:, [k, c]].sum(axis=1)
            many = int((np.abs(sums - 1) < low).sum())
            if many > 1:
                pairs.append((many, k, c))
        for many, k, c in sorted(pairs, key=lambda pair: -pair[0])[:PAIRS]:
            said.append(
                f"{self.names[k]} and {self.names[c]} replace each other in {plural(many, 'sample')}: "
                "one of them is there, and the counts do not say which"
            )
        return said


def assign(
    X: Any,
    catalogue: FitLike | pd.DataFrame | ArrayLike,
    group: str | ArrayLike | None = None,
    rule: Literal["evidence", "price", "test"] = "evidence",
    *,
    price: float | Literal["held-out"] | None = None,
    level: float | None = None,
    dispersion: float | None = None,
    expected: float = 3,
    cohort: bool = True,
    prevalence: pd.DataFrame | ArrayLike | None = None,
    random_state: Seed = None,
) -> Assignment:
    """Which topics of a catalogue each sample has, with exposures, probabilities and tests.

    Each sample gets the set of topics with the largest evidence; all others have exposure 0. How common topics are is learned
    from all samples, or from those of each group.

    Parameters
    ----------
    X : Counts, Shards, array-like, AnnData or path
        Counts, such as mutations of tumours by type.
    catalogue : DataFrame, array-like, Fit, estimator or path
        Features × topics, such as a table of COSMIC. On any scale; features are found by name, in any order, where both sides
        have names.
    group : str or array-like, default=None
        Metadata column, such as the tissue. Or one value per sample: how common topics are is learned by group.
    rule : {"evidence", "price", "test"}, default="evidence"
        Rule: evidence, price or test. What decides: the evidence; the log-likelihood less `price` per topic; or likelihood
        ratio tests at `level`.
    price : float or "held-out", default=None
        For "price": gain of a topic. What it must add to the log-likelihood; 0 is the refit of all topics. "held-out" takes
        the price that predicts half of the counts best from the other half.
    level : float, default=None
        For "test": of every single test. 0.05 divided by the number of topics by default.
    dispersion : float, default=None
        Variance of counts relative to Poisson counts. By default it is fitted for every sample, at least 1; 1 for "price".
    expected : float, default=3
        Number of topics that a sample has before it is seen.
    cohort : bool, default=True
        Learn from the samples how common topics are, instead of taking each sample alone.
    prevalence : array-like, default=None
        How common topics are, where that is known: `Assignment.prevalence` of other samples, or a number per topic.
    random_state : int, Generator or RandomState, default=None
        For the draws of the residual test, and for held-out counts.

    Returns
    -------
    Assignment
        With `table`, `samples`, `exposures`, `probabilities`, `allowed`, `prevalence`, `fit`, `advice` and `plot`.

    Raises
    ------
    ValueError
        If the catalogue has other features, entries below zero, a topic without weight on the features of X or two of one
        name, or an option does not go with the rule.

    See Also
    --------
    analysis.transform : The refit of all topics.
    match_catalogue : What fitted topics are like.
    plot.assignment

    Notes
    -----
    Probabilities are those given the catalogue: a topic that is not in it cannot be found, and one that is not quite right
    makes others appear. The fitted dispersion allows for small errors. Unexplained counts say where something is missing.

    Examples
    --------
    >>> import numpy as np, pandas as pd, unmix as um
    >>> rng = np.random.default_rng(0)
    >>> known = pd.DataFrame(rng.dirichlet(np.full(24, 0.3), 6).T, columns=list("ABCDEF"))
    >>> X = rng.poisson(400 * known[["A", "D"]] @ rng.dirichlet([2, 2], 30).T).T
    >>> um.assign(X, known, random_state=0).summary["topic"].head(2).tolist()
    ['D', 'A']
    """
    choice("rule", rule, ("evidence", "price", "test"))
    X = opened(X)
    data = X if is_data(X) else counts_in_memory(X, "assign")
    if data.multipliers is not None:
        raise ValueError(
            "assign does not support multipliers of rates (batch, opportunities, sample_weight); use counts without"
        )
    n, m = data.shape
    F, names = known_topics(catalogue, data.features, m)
    lost = float(data.feature_totals[~F.any(axis=1)].sum())
    if lost:
        warn(f"{percent(lost / data.total)} of the counts are of features that no topic of the catalogue has: ignored")
    titles, labels = [ALL], np.zeros(n, np.intp)
    if group is not None:
        titles, labels = groups_of(column_or_values(data.metadata, group, parameter("group"), n))
    rng = generator(random_state)
    asked = (rule, price, level, dispersion, expected, cohort, prevalence)
    how, odds, shares, cost = _judged(data, F, titles, names, labels, rng, *asked)
    engine = data.engine(F.shape[1])
    seed = int(rng.integers(2**63))
    shared = {"catalogue": F, "odds": odds}
    engine.over(data, Assign(how, seed), shared, before={"groups": labels.astype(np.int32)}, after=0)
    parts = list(engine.left(data, 0))
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    engine.keep_only(set())
    return _result(data, F, names, titles, labels, found, shares, rule, cost)


def _judged(
    data: Any,
    F: Floats,
    titles: list[str],
    names: Names,
    labels: Integers,
    rng: np.random.Generator,
    rule: str,
    price: float | str | None,
    level: float | None,
    dispersion: float | None,
    expected: float,
    cohort: bool,
    prevalence: Any,
) -> tuple[Rule, Floats, Floats | None, float | None]:
    """The rule, the odds against each topic in each group, prevalences if the rule has them, and the price if it has one."""
    K, of = F.shape[1], (("price", price, "price"), ("level", level, "test"), ("prevalence", prevalence, "evidence"))
    for name, value, belongs in of:
        if value is not None and rule != belongs:
            raise ParameterError(name, value, f"use it with {parameter('rule', belongs)}, or remove it")
    phi = 0.0 if dispersion is None else real("dispersion", dispersion, 1)
    if rule == "evidence":
        how, expected = Rule(dispersion=phi), positive("expected", expected)
        if prevalence is not None:
            shares = _given(prevalence, titles, names)
        elif cohort:
            shares = learned_prevalence(data, F, labels, len(titles), how, expected)
        else:
            shares = expected_prevalence(expected, len(titles), K)
        return how, odds_of(shares), shares, None
    if rule == "test":
        cost = price_of_level(share("level", 0.05 / K if level is None else level))
        how = Rule(evidence=False, dispersion=phi)
    else:
        if price is None:
            raise ParameterError("rule", rule, f"use it with {parameter('price')}, a number or 'held-out'")
        how = Rule(evidence=False, dispersion=phi or 1.0)
        remedy = "use a number >= 0, or 'held-out'"
        cost = price_by_held_out(data, F, how, rng) if price == "held-out" else real("price", price, 0, remedy)
        how = replace(how, everything=cost == 0)
    return how, np.full((len(titles), K), cost), None, cost


def _given(prevalence: Any, titles: list[str], names: Names) -> Floats:
    """Prevalences of groups and topics, from a table with their names, or a number per topic."""
    shape = (len(titles), len(names))
    if isinstance(prevalence, pd.DataFrame):
        if missing := [name for name in names.tolist() if name not in prevalence.columns]:
            raise ValueError(f"prevalence has no column for topic {missing[0]}; use a column per topic")
        rows = [ALL] * len(titles) if len(prevalence) == 1 and titles != [ALL] else titles
        prevalence = prevalence.set_axis([ALL], axis=0) if len(prevalence) == 1 and rows[0] == ALL else prevalence
        if absent := [title for title in rows if title not in prevalence.index]:
            raise ValueError(f"prevalence has no row for group {absent[0]}; use a row per group")
        prevalence = prevalence.loc[rows, names.tolist()]
    table = np.asarray(prevalence, dtype=np.float64)
    if table.shape not in (shape, shape[1:]):
        raise ValueError(f"prevalence has shape {table.shape}; use a number per topic ({shape[1]}), or a row per group")
    if not ((table >= 0) & (table <= 1)).all():
        raise ValueError("prevalence: use shares between 0 and 1")
    return np.clip(np.broadcast_to(table, shape), LEAST, MOST)


def _result(
    data: Any,
    F: Floats,
    names: Names,
    titles: list[str],
    labels: Integers,
    found: dict[str, NDArray[Any]],
    shares: Floats | None,
    rule: str,
    cost: float | None,
) -> Assignment:
    n, K = found["exposures"].shape
    exposures, chosen, counts = found["exposures"], found["chosen"].astype(bool), found["totals"]
    empty = exposures.sum(axis=1) == 0
    _, dispersions, _, _ = found["numbers"].T
    p, unexplained, cosine = (np.where(empty, np.nan, column) for column in found["tests"].T)
    with np.errstate(invalid="ignore", divide="ignore"):
        leave = chi2.sf(2 * np.maximum(found["gains"], 0) / dispersions[:, None], 1) / 2
    leave = np.where(chosen & np.isfinite(found["gains"]), leave, np.where(np.isposinf(found["gains"]), 0.0, np.nan))
    if shares is None:  # how often topics were found
        members = [(labels == g) & ~empty for g in range(len(titles))]
        shares = np.array([chosen[rows].mean(axis=0) if rows.any() else np.zeros(K) for rows in members])
    probabilities = np.where(empty[:, None], shares[labels], found["probabilities"])
    called = numbered(data.samples, "sample", n)
    i, k = np.nonzero(chosen)
    totals = np.maximum(exposures.sum(axis=1), np.finfo(float).tiny)
    table = pd.DataFrame(
        {
            "sample": called[i].tolist(),
            "topic": names[k].tolist(),
            "exposure": exposures[i, k],
            "share": exposures[i, k] / totals[i],
            "probability": probabilities[i, k],
            "p": leave[i, k],
        }
    )
    samples = pd.DataFrame(
        {
            "sample": called.tolist(),
            "group": [titles[g] for g in labels],
            "counts": counts,
            "topics": chosen.sum(axis=1),
            "cosine": cosine,
            "dispersion": np.where(empty, np.nan, dispersions),
            "unexplained": unexplained,
            "p": p,
        }
    )
    return Assignment(
        table,
        samples,
        exposures,
        probabilities,
        chosen | empty[:, None],
        leave,
        F,
        names,
        data.features,
        data.samples,
        as_names(titles),
        shares,
        rule,
        cost,
        _loglik(data, exposures, F),
        data.metadata,
    )


def _loglik(data: Any, exposures: Floats, F: Floats) -> float:
    """Of the counts of features that some topic has."""
    total, first = 0.0, 0
    known: NDArray[np.bool_] = np.asarray(F.any(axis=1))
    for part in data.parts():
        X, L = part.csr, exposures[first : first + part.shape[0]]
        first += part.shape[0]
        i, j = X.nonzero()
        here = known[j]
        i, j, x = i[here], j[here], X.data[here]
        with np.errstate(divide="ignore"):
            total += float(x @ np.log(np.einsum("pk,pk->p", L[i], F[j])) - gammaln(x + 1).sum() - L.sum())
    return total
