"""Prevalence: mean proportions of topics by group of samples, over time, or both, with intervals.

Every sample counts equally. The mean m of the n samples of a cell (a group, a bin of time, or both) has the standard error s of
their sums by unit, G units of which differ independently (samples themselves, or the `groups` that are given),

    s² = G / (G − 1) · Σ_g (Σ_{i in g} (p_i − m))² / n²,

and the interval  logit⁻¹(logit m ± t_{G−1} s / (m (1 − m))).  On the logit scale it stays between 0 and 1; in simulations its
90% intervals covered 84 to 93%, mostly more than plain t intervals (Dirichlet proportions of 5 to 100 samples); of rare topics
in 5 to 10 samples they covered 72 to 77%. The uncertainty of the fit itself is not included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from scipy.stats import t as student

from unmix.analysis.application import FitLike, fit_of
from unmix.analysis.features import topic_names
from unmix.analysis.results import FileLayout, Result, columns
from unmix.analysis.samples import (
    column_of_groups,
    column_or_values,
    fair_sample,
    first_view,
    metadata_of,
    typical_samples,
)
from unmix.analysis.samples import groups as groups_of
from unmix.base.checks import ParameterError, listed, parameter, percent, plural, share, whole
from unmix.base.types import Floats, Integers, as_names
from unmix.counts.columns import DAY, Column, bins_of, clean, column_of, columns_of
from unmix.fit import Fit
from unmix.models.poisson import column_shares

MOST_GROUPS = 100
FEW = 5  # samples, or units: their interval is a rough guess
MOST_COLUMNS = 8  # groups next to each other in a summary


@dataclass(frozen=True, eq=False, repr=False)
class Prevalence(Result):
    """What `prevalence` found.

    Attributes
    ----------
    table : DataFrame
        One row per topic, group and bin: `topic`, `name`, `group` ("all" without `by`), `bin` and `at` (its label, and the
        mean of the values in it, days since 1970 for dates; empty without `over`), number of `samples`, `mean` proportion,
        `low` and `high` end of its interval.
    examples : DataFrame
        The most typical samples of each topic: `topic`, `name`, `rank`, `sample`, `proportion`, `group`, `bin`, and `snippet`
        where the metadata have one, how the text begins.
    by, over, groups : str
        The columns, "" for none; of values their name, or "given".
    level : float
        Of the intervals.
    dates : bool
        Whether `over` is dates.
    shares : array, K
        Of topics in all counts.
    remarks : list of str
        What `advice` says.

    See Also
    --------
    prevalence, plot.prevalence

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.sotu()
    >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
    >>> found = um.prevalence(fit, over="year", groups="president")
    >>> found.table.columns.tolist()
    ['topic', 'name', 'group', 'bin', 'at', 'samples', 'mean', 'low', 'high']
    """

    LAYOUT: ClassVar = FileLayout(
        shapes={"shares": "K"},
        columns={
            "table": columns("topic at samples mean low high", "name group bin"),
            "examples": columns("topic rank proportion", "name sample group bin"),
        },
    )

    table: pd.DataFrame
    examples: pd.DataFrame
    by: str
    over: str
    groups: str
    level: float
    dates: bool
    shares: Floats
    remarks: list[str]

    @property
    def n_topics(self) -> int:
        """int: the number of topics K."""
        return len(self.shares)

    @property
    def facts(self) -> dict[str, Any]:
        """dict: what it says in single numbers and words, by name."""
        return {name: getattr(self, name) for name in ("by", "over", "groups", "level")}

    @property
    def summary(self) -> pd.DataFrame:
        """DataFrame: one row per topic, and per group over time: means with intervals, or how they began, ended and peaked."""
        told = self.table.assign(
            words=[_words(*row) for row in self.table[["mean", "low", "high"]].astype(float).to_numpy()]
        )
        if not self.over:
            if self.table["group"].nunique() > MOST_COLUMNS:
                return self.table.drop(columns=["bin", "at"])
            wide = told.pivot_table("words", ["topic", "name"], "group", aggfunc="first")[told["group"].unique()]
            return wide.reset_index("name").rename_axis(columns=None)
        rows = []
        for (_, name, group), part in told.groupby(["topic", "name", "group"], sort=False):
            peak = part.loc[part["mean"].idxmax()]
            ends = {"first": part.iloc[0], "last": part.iloc[-1], "peak": peak}
            row = {"name": name} | ({"group": group} if self.by else {})
            rows.append(row | {end: f"{one['bin']}: {one['words']}" for end, one in ends.items()})
        return pd.DataFrame(rows)

    def advice(self) -> list[str]:
        """What the intervals do not know: few samples, samples that belong together, samples omitted.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.datasets.sotu()
        >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
        >>> um.prevalence(fit, by="party").advice()[-1]
        "samples with the same president have the same party and may be dependent; groups='president' allows for that"
        """
        return list(self.remarks)


def _words(mean: float, low: float, high: float) -> str:
    return percent(mean) if low != low else f"{percent(mean)} ({percent(low)} to {percent(high)})"


def prevalence(
    fit: FitLike,
    by: str | ArrayLike | None = None,
    over: str | ArrayLike | None = None,
    groups: str | ArrayLike | None = None,
    *,
    metadata: Any = None,
    bins: int = 20,
    level: float = 0.9,
    examples: int = 3,
) -> Prevalence:
    """Mean proportions of topics by group of samples, over time, or both, with intervals.

    Intervals say how exact a mean is, given the topics, if other samples had been drawn: t intervals on the logit scale.
    Without a column, the first column of the metadata with times or groups is used. Samples without counts are omitted.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    by : str or array-like, default=None
        Column of the metadata whose values are the groups to compare, such as party; or one value per sample.
    over : str or array-like, default=None
        Column of numbers or dates along which means are a trend, such as year; or one value per sample.
    groups : str or array-like, default=None
        Column of what makes samples dependent, such as the donor or the author. Intervals then take groups instead of samples
        to differ independently.
    metadata : DataFrame, Counts, AnnData, str or PathLike, default=None
        Table with one row per sample, found by name where there are names. By default that of the fit.
    bins : int, default=20
        Maximum number of bins of `over`. They have equal, round widths.
    level : float, default=0.9
        Probability that an interval covers the mean.
    examples : int, default=3
        Number of typical samples to list per topic.

    Returns
    -------
    Prevalence
        With `table`, `examples` and `advice`.

    Raises
    ------
    ValueError
        If there is no such column, `over` is text, or `by` has more than 100 values.

    See Also
    --------
    plot.prevalence, analysis.typical_samples, sc.tl.prevalence

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.sotu()
    >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
    >>> um.prevalence(fit, by="party").table.query("topic == 1 and group == 'd'")["samples"].tolist()
    [90]
    """
    fit, level = fit_of(fit), share("level", level)
    bins, examples = whole("bins", bins, 2), whole("examples", examples, 0)
    table = metadata_of(metadata, fit.metadata, fit.samples, len(fit.L))
    if by is None and over is None:
        by, over = _first(table)
    proportions, counted, remarks = fit.proportions, fit.sizes > 0, []
    names, group = ["all"], np.zeros(len(fit.L), dtype=np.intp)
    if by is not None:
        names, group = groups_of(column_or_values(table, by, parameter("by"), len(fit.L)))
        if len(names) > MOST_GROUPS:
            raise ParameterError(
                "by",
                _called(by),
                f"use at most {MOST_GROUPS} groups, not {len(names)}; or numbers as {parameter('over')}",
            )
    column, place, labels = None, np.full(len(fit.L), -1 if over is not None else 0), [""]
    if over is not None:
        column = _scale(table, over, len(fit.L))
        known = ~np.isnan(column.values)
        counted &= known
        place[known], labels = bins_of(column, bins)
        if not known.all():
            remarks.append(f"{plural(int((~known).sum()), 'sample')} without {_called(over)} are omitted")
    unit = np.arange(len(fit.L))
    if groups is not None:
        unit = groups_of(column_or_values(table, groups, parameter("groups"), len(fit.L)))[1]
    if empty := int((fit.sizes <= 0).sum()):
        remarks.append(f"{plural(empty, 'sample')} without counts are omitted")
    if not counted.any():
        raise ValueError(f"no sample has counts and a value of {_called(over)}; nothing to average")
    cell = (group * len(labels) + place)[counted]
    used, cells = np.unique(cell, return_inverse=True)
    means = _means(proportions[counted], cells, unit[counted], level)
    units = means.pop("units")
    if int(units.min()) < FEW:
        what = "samples" if groups is None else f"values of {_called(groups)}"
        few = int((units < FEW).sum())
        remarks.append(
            f"{few} of {len(units)} means are of fewer than {FEW} {what}: their intervals are rough, or missing"
        )
    if (
        groups is None
        and by is not None
        and table is not None
        and (outer := column_of_groups(table, _called(by), group))
    ):
        with_option = parameter("groups", outer)
        remarks.append(
            f"samples with the same {outer} have the same {_called(by)} and may be dependent; {with_option} allows for that"
        )
    K, topics = fit.n_topics, topic_names(fit)
    sizes = np.bincount(cells)
    scale = 1 / DAY if column is not None and column.kind == "date" else 1.0
    at = np.full(len(used), np.nan) if column is None else np.bincount(cells, column.values[counted]) / sizes * scale  # noqa: PD011
    long = {
        "topic": np.repeat(np.arange(1, K + 1), len(used)),
        "name": np.repeat(as_names(topics), len(used)),
        "group": np.tile(as_names(names)[used // len(labels)], K),
        "bin": np.tile(as_names(labels)[used % len(labels)], K),
        "at": np.tile(at, K),
        "samples": np.tile(sizes, K),
    }
    said = {"group": as_names(names)[group], "bin": np.where(place < 0, "", as_names(labels)[place])}
    said |= {} if table is None or "snippet" not in table else {"snippet": table["snippet"].to_numpy()}
    return Prevalence(
        pd.DataFrame(long | {name: values.T.ravel() for name, values in means.items()}),
        _examples(fit, topics, examples, said),
        _called(by),
        _called(over),
        _called(groups),
        level,
        column is not None and column.kind == "date",
        fit.shares,
        remarks,
    )


def _means(proportions: Floats, cells: Integers, units: Integers, level: float) -> dict[str, Any]:
    """Means of cells with their intervals, cells × topics, and the number of units in each."""
    pairs, pair = np.unique(np.column_stack([cells, units]), axis=0, return_inverse=True)
    n, counts = np.bincount(cells), np.bincount(pair.ravel())

    def summed(rows: Integers, values: Floats) -> Floats:
        return sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows))))) @ values

    mean = summed(cells, proportions) / n[:, None]
    rests = summed(pair.ravel(), proportions) - counts[:, None] * mean[pairs[:, 0]]
    G = np.bincount(pairs[:, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt((G / (G - 1))[:, None] * summed(pairs[:, 0], rests**2)) / n[:, None]
        reach = student.ppf((1 + level) / 2, np.maximum(G - 1, 1))[:, None] * error / (mean * (1 - mean))
        reach[G < 2] = np.nan
        low, high = expit(logit(mean) - reach), expit(logit(mean) + reach)
    return {"units": G, "mean": mean, "low": low, "high": high}


def _examples(fit: Fit, topics: list[str], n: int, said: dict[str, Any]) -> pd.DataFrame:
    places = typical_samples(fit, n)
    k, rows = np.repeat(np.arange(fit.n_topics), list(map(len, places))), np.concatenate(places)
    rank = np.concatenate([np.arange(len(some)) for some in places])
    found = {"topic": k + 1, "name": as_names(topics)[k], "rank": rank + 1, "sample": fit.sample_names[rows]}
    found |= {"proportion": fit.proportions[rows, k]} | {name: values[rows] for name, values in said.items()}
    return pd.DataFrame(found)


def _called(given: Any) -> str:
    """The column, or what the values given are called."""
    return "" if given is None else given if isinstance(given, str) else str(getattr(given, "name", None) or "given")


def _scale(table: pd.DataFrame | None, over: Any, n: int) -> Column:
    column = column_of(clean(_called(over)), column_or_values(table, over, parameter("over"), n))
    if column.kind == "text" or not column.distinct:
        raise ParameterError("over", _called(over), f"use numbers or dates; texts are groups, {parameter('by')}")
    return column


def _first(table: pd.DataFrame | None) -> tuple[str | None, str | None]:
    """The first column that shows time, or else the first that groups samples, at its place."""
    view = first_view(table)
    if not view:
        known = "there is no metadata" if table is None else f"there are {', '.join(map(str, table))}"
        raise ValueError(
            f"{parameter('by')}, {parameter('over')}: no column groups samples or has times ({known}); name one"
        )
    return view.get("group"), view.get("order")


# Batches: which topics occur in one value of a column only, and how well proportions predict the column.

BATCH = re.compile(
    r"batch|donor|patient|subject|individual|participant|sample|librar|replicate|dataset|cohort|chemistry|platform|technology|"
    r"sequencer|instrument|experiment|orig.?ident|(?<![a-z])(lane|plate|study|site|run|lab|cent(er|re)|pool|chip)(?![a-z])",
    re.IGNORECASE,
)
FEW_IN_BATCH, MOST_IN_PREDICTION = 10, 2_000  # samples
HEAVIER, NOTABLE, CERTAIN = 5.0, 0.01, 4.0  # ratio of means, mean proportion, standard errors between means
PREDICTED = 0.9  # AUC


def batch_topics(fit: FitLike, by: str | None = None) -> pd.DataFrame:
    """Topics that occur mainly in one batch, donor, sample or library, and how well proportions predict it.

    Parameters
    ----------
    fit : Fit, estimator or path
        With metadata.
    by : str, default=None
        Column of the metadata. By default all columns whose name contains a word for a batch, such as batch, donor, library
        or plate.

    Returns
    -------
    DataFrame
        One row per column and topic: `column`, `topic`, `name`, the `value` of the column with the highest mean proportion of
        the topic, the number of `samples` that have it, their `mean` proportion, the mean `elsewhere`, the `ratio` of the two,
        the difference of means in standard errors `z`, and `auc`, the area under the ROC curve with which proportions predict
        the values of the column (linear discriminant analysis, cross-validated, 0.5 at chance). Values with fewer than 10
        samples are ignored.

    See Also
    --------
    prevalence, analysis.advice

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.sotu()
    >>> fit = um.TopicModel(3, tol=1e-3, random_state=0).fit(X).result_
    >>> um.analysis.batch_topics(fit, by="party")["value"].tolist()
    ['dr', 'r', 'd']
    """
    fit = fit_of(fit)
    if by is None:
        columns = [column for column in columns_of(fit.metadata) if BATCH.search(column.name) and column.can_group]
    else:
        columns = [column_of(clean(by), column_or_values(fit.metadata, by, parameter("by"), len(fit.L)))]
    parts = [part for column in columns if (part := _batches(fit, column)) is not None]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=BATCH_COLUMNS)


BATCH_COLUMNS = ["column", "topic", "name", "value", "samples", "mean", "elsewhere", "ratio", "z", "auc"]


def _batches(fit: Fit, column: Column) -> pd.DataFrame | None:
    """The rows of one column; None if fewer than two values have enough samples."""
    known = ~np.isnan(column.values)
    counted = (fit.sizes > 0) & known
    values, labels, sizes = np.unique(column.known[counted[known]], return_inverse=True, return_counts=True)
    enough = sizes >= FEW_IN_BATCH
    if enough.sum() < 2:
        return None
    p = fit.proportions[counted]
    one = sp.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    sums, squares, n = one @ p, one @ p**2, sizes[:, None]
    rest, rest_squares, others = sums.sum(axis=0) - sums, squares.sum(axis=0) - squares, len(labels) - n
    mean, elsewhere = sums / n, np.maximum(rest / others, 0)
    variances = np.maximum(squares / n - mean**2, 0) / n + np.maximum(rest_squares / others - elsewhere**2, 0) / others
    value = np.argmax(np.where(enough[:, None], mean, -1), axis=0)
    at = (value, np.arange(fit.n_topics))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, z = (mean / elsewhere)[at], ((mean - elsewhere) / np.sqrt(variances))[at]
    names = column.levels or [f"{value:g}" for value in values]
    codes = values.astype(np.intp) if column.levels else np.arange(len(values))
    rows = {
        "column": column.name,
        "topic": np.arange(1, fit.n_topics + 1),
        "name": topic_names(fit),
        "value": [names[codes[place]] for place in value],
        "samples": sizes[value],
        "mean": mean[at],
        "elsewhere": elsewhere[at],
        "ratio": ratio,
        "z": z,
        "auc": _auc(p[enough[labels]], labels[enough[labels]]),
    }
    return pd.DataFrame(rows, columns=BATCH_COLUMNS)


def _auc(p: Floats, labels: Integers) -> float:
    """Of one value against the others, weighted by samples."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    some = fair_sample(labels, MOST_IN_PREDICTION)
    p, labels = p[some], labels[some]
    kept = np.bincount(labels)[labels] >= 5
    values, labels = np.unique(labels[kept], return_inverse=True)
    if len(values) < 2 or p.shape[1] < 2 or not np.ptp(p[kept], axis=0).any():
        return 0.5
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    scores = cross_val_predict(model, p[kept], labels, cv=folds, method="predict_proba")
    if len(values) == 2:
        return float(roc_auc_score(labels, scores[:, 1]))
    return float(roc_auc_score(np.eye(len(values))[labels], scores, average="weighted"))


# Effects of batches, where rates have such: how large they are, and what of the differences between batches is theirs.
#
# With p_b the frequencies of features that the fit expects in batch b, q_b those without effects, and p, q their means over
# batches, what distinguishes batches is Σ_b n_b ‖√p_b − √q_b‖² by effects and Σ_b n_b ‖√q_b − √q‖² by topics.

TWO_FOLD = float(np.log(2))
SUMMARY = ["batch", "samples", "counts", "sd", "beyond_two_fold", "up", "down"]
BY_DESIGN = "if batches differ in biology by design, effects contain it"


def batch_summary(fit: FitLike, n: int = 5) -> pd.DataFrame:
    """How large the effects of batches on features are, and on which features they are largest.

    Parameters
    ----------
    fit : Fit, estimator or path
        Fitted with `batch`.
    n : int, default=5
        Number of features to name.

    Returns
    -------
    DataFrame
        One row per batch: `batch`, its `samples` and `counts`, the standard deviation `sd` of log effects over features with
        counts, the number of features `beyond_two_fold`, and the features whose rates are most raised (`up`) and lowered
        (`down`), with their effects. Without rows for a fit without effects.

    See Also
    --------
    Fit.batch_effects : All effects, with errors.
    analysis.batch_topics : Topics that are heavier in one batch.
    plot.batch_effects

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(2 * np.exp(rng.normal(0, 0.5, (2, 600)))[np.arange(40) % 2])
    >>> fit = um.PoissonNMF(1, random_state=0).fit(X, batch=np.arange(40) % 2).result_
    >>> bool(um.analysis.batch_summary(fit)["sd"].between(0.2, 0.5).all())
    True
    """
    fit, n = fit_of(fit), whole("n", n, 1)
    if "batches" not in fit.rates:
        return pd.DataFrame(columns=SUMMARY)
    effects, counted = _effects(fit), fit.rates["counts"].sum(axis=0) > 0
    samples = np.bincount(fit.rates["owners"][fit.rates["groups"]], minlength=len(effects))
    rows = []
    for b, logs in enumerate(np.where(counted, np.log(effects), 0.0)):
        order = np.argsort(logs, kind="stable")
        up, down = (
            ", ".join(f"{fit.feature_names[j]} {effects[b, j]:.3g}" for j in places[:n] if sign * logs[j] > 0)
            for sign, places in ((1, order[::-1]), (-1, order))
        )
        sd = float(np.sqrt(np.mean(logs[counted] ** 2))) if counted.any() else 0.0
        beyond = int((np.abs(logs) > TWO_FOLD).sum())
        total = float(fit.rates["counts"][b].sum())
        rows.append((str(fit.rates["batches"][b]), int(samples[b]), total, sd, beyond, up, down))
    return pd.DataFrame(rows, columns=SUMMARY)


def _effects(fit: Fit) -> Floats:
    tau = fit.rates["strength"]
    return (fit.rates["counts"] + tau) / (fit.rates["expected"] + tau)


def effect_remarks(fit: Fit) -> list[str]:
    """How large effects are, how much of what distinguishes batches is theirs, and what they contain; nothing without effects."""
    table = batch_summary(fit, 1)
    if table.empty:
        return []
    largest = table.iloc[int(table["sd"].argmax())]
    beyond = plural(int(table["beyond_two_fold"].max()), "feature")
    size = f"{100 * np.expm1(largest['sd']):.0f}% for a feature of {largest['batch']}, where they are largest"
    apart = _apart(fit)
    of_effects = (
        "" if np.isnan(apart) else f"; of what distinguishes batches, {apart:.0%} is effects and {1 - apart:.0%} topics"
    )
    return [f"effects of batches: {size} (up to {beyond} beyond two-fold){of_effects}; {BY_DESIGN}"]


def _apart(fit: Fit) -> float:
    """The part of effects in what distinguishes batches; NaN where nothing does."""
    S, n = fit.rates["expected"], fit.rates["counts"].sum(axis=1)
    there = (n > 0) & (S.sum(axis=1) > 0)
    q, p = (np.sqrt(column_shares(rates[there].T, 0).T) for rates in (S, S * _effects(fit)))
    pooled = np.sqrt(
        column_shares((S[there] / S[there].sum(axis=1, keepdims=True) * n[there, None]).sum(axis=0)[:, None], 0)
    )
    by_effects = n[there] @ ((p - q) ** 2).sum(axis=1)
    by_topics = n[there] @ ((q - pooled.T) ** 2).sum(axis=1)
    return float(by_effects / (by_effects + by_topics)) if by_effects + by_topics > 0 else float("nan")


def batch_remarks(fit: Fit) -> list[str]:
    """A sentence for each column that looks like a batch and has topics of its own, or is predicted by proportions."""
    remarks = []
    for column, rows in batch_topics(fit).groupby("column", sort=False):
        own = rows[(rows["ratio"] >= HEAVIER) & (rows["mean"] >= NOTABLE) & (rows["z"] >= CERTAIN)]
        auc = float(rows["auc"].iloc[0])
        if own.empty and auc < PREDICTED:
            continue
        places = [_heavier(str(value), part) for value, part in own.groupby("value", sort=False)]
        predicted = f"proportions predict {column} with an AUC of {auc:.2f} (chance: 0.5)"
        remarks.append(f"{'; '.join([f'{column}: {places[0]}', *places[1:], predicted] if places else [predicted])}")
    return remarks


def _heavier(value: str, rows: pd.DataFrame) -> str:
    numbers, times = [str(topic) for topic in rows["topic"]], [f"{ratio:,.0f}" for ratio in rows["ratio"]]
    if np.isinf(rows["ratio"]).any():
        return f"topic{'s' * (len(rows) > 1)} {listed(numbers)} occur{'s' * (len(rows) == 1)} mainly in {value}"
    if len(rows) == 1:
        return f"topic {numbers[0]} is {times[0]} times heavier in {value} than elsewhere"
    return f"topics {listed(numbers)} are {listed(times)} times heavier in {value} than elsewhere"
