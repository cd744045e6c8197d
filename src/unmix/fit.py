"""Fit: the frozen result of a fit."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unmix.base.checks import ENDS, brief, objective, percent, plural, warn
from unmix.base.kinds import size
from unmix.base.types import Factor, Floats, Names, Record, Status, as_names, check_names, numbered
from unmix.counts.data import Facts
from unmix.models.poisson import poisson_to_topics
from unmix.models.problem import Sparsity
from unmix.models.variational import restore
from unmix.registry import MODELS, public
from unmix.storage import fit_file

if TYPE_CHECKING:
    from unmix.analysis.quality import Quality
    from unmix.counts.counts import CountsLike
    from unmix.estimators.features import Missing

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Fit:
    """A Poisson NMF X ≈ L Fᵀ, also read as a topic model: what every model here leaves, `load` reads and `unmix.analysis` asks.

    Attributes
    ----------
    L : array, n × K
        Loadings of samples.
    F : array, m × K
        Factors: weights of features.
    trace : DataFrame
        A row per iteration: `iteration`, `seconds`, `loglik`, `objective`, `kkt` (NaN where it was not measured), `stage`,
        `note`.
    status : str
        "converged", "max_iter", or "interrupted" by Ctrl-C or a callback.
    loglik : float
        The Poisson log-likelihood, all constants included.
    samples, features : array of str, or None
        Names.
    metadata : DataFrame or None
        One row per sample.
    posterior : mapping of str to array
        A Bayesian model's parameters, topics on the last axis; empty otherwise.
    priors : dict
        The kinds of its priors on "L" and "F".
    params : dict
        The "model", and the parameters of its estimator.
    versions : dict
        Of unmix, python, numpy and scipy.
    data : mapping
        `Counts.facts`, and where the counts came from. Its checksum is computed when it is first asked for, as `save` does.
    text : dict or None
        How words were counted, as in `Counts`.
    state : dict or None
        What is needed to continue exactly where the fit stopped; None once it has converged.
    remaining_gain : float
        An estimate of what the objective would still gain if the fit went on, in its units; NaN if unknown.
    allocation : array, nonzeros × K, or None
        Of an `AllocationModel`: the counts of each nonzero that are of each topic, S, in the order of `Counts.csr`.
    names : array of str, or None
        Topic names given by the user, "" for those without a name; see `with_names`.
    rates : mapping of str to array
        Where rates have multipliers: groups of samples, and what their multipliers follow from; empty otherwise.

    See Also
    --------
    load : Read a fit from a file.
    analysis.top_features, analysis.transform, differences, write_report

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
    >>> fit = um.TopicModel(2, random_state=0).fit(X).result_
    >>> fit
    Fit(4 samples × 3 features, 2 topics, converged, remaining gain about ..., Poisson log-likelihood -...)
    >>> fit.proportions.sum(axis=1).round(12)
    array([1., 1., 1., 1.])
    """

    L: Factor
    F: Factor
    trace: pd.DataFrame
    status: Status
    loglik: float
    samples: NDArray[np.str_] | None = None
    features: NDArray[np.str_] | None = None
    metadata: pd.DataFrame | None = field(default=None, repr=False)  # one row per sample
    # a Bayesian model's parameters, topics on the last axis, and the kinds of its priors on "L" and "F"
    posterior: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    priors: dict[str, str] = field(default_factory=dict, repr=False)
    params: Record = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=lambda: versions())
    data: Record | Facts = field(default_factory=dict, repr=False)  # `Counts.facts`, and where the counts came from
    text: Record | None = field(default=None, repr=False)  # how words were counted, as in `Counts`
    # what is needed to continue exactly where the fit stopped; None once it has converged
    state: Record | None = field(default=None, repr=False)
    # an estimate of what the objective would still gain if the fit went on, in its units; NaN if unknown
    remaining_gain: float = float("nan")
    allocation: Floats | None = field(default=None, repr=False)
    # topic names given by the user, one name each, "" for those without; see `with_names`
    names: NDArray[np.str_] | None = field(default=None, repr=False)
    # of rates with multipliers: groups of samples, their multipliers and labels; of effects of batches all they follow from
    rates: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        left = "" if np.isnan(self.remaining_gain) else f", remaining gain about {brief(self.remaining_gain)}"
        reached = "" if np.isnan(self.loglik) else f", Poisson log-likelihood {objective(self.loglik)}"
        shape = size(len(self.L), len(self.F), text=bool(self.text), names=(self.samples, self.features))
        return f"Fit({shape}, {plural(self.n_topics, 'topic')}, {ENDS[self.status]}{left}{reached})"

    def _repr_html_(self) -> str:
        features = self.top_features(8).groupby("topic")["feature"].agg(", ".join)
        colors, rows = public("plot.topic_colors")(self), []
        for k in public("analysis.topic_order")(self):
            cells = [str(k + 1), percent(self.shares[k]), features.get(k + 1, "")]
            if self.names is not None:
                cells.insert(1, self.names[k])
            texts = "".join(f'<td style="text-align: left">{escape(text)}</td>' for text in cells)
            rows.append(f'<tr><td style="background: {colors[k]}"></td>{texts}</tr>')
        names = [] if self.names is None else ["name"]
        heads = "".join(
            f'<th style="text-align: left">{head}</th>' for head in ("", "topic", *names, "share", "features")
        )
        return (
            f"<p>{escape(repr(self))}</p><table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        )

    def show(self, *, title: str | None = None, height: int = 720, **results: Any) -> Any:
        """The HTML report inside a notebook.

        Parameters
        ----------
        title : str, default=None
            Title of the report.
        height : int, default=720
            Height in pixels.
        **results : Result
            Results of further analyses of this fit, as in `write_report`.

        Returns
        -------
        InlineReport
            What Jupyter displays.

        Raises
        ------
        ValueError
            If a result is of a different fit.

        See Also
        --------
        write_report

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
        >>> fit.show(height=500)
        InlineReport('Topics of 4 samples × 3 features', height=500)
        """
        return import_module("unmix.report.page").inline(self, title, height, results)

    def __getstate__(self) -> Record:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without what is prepared

    def _prepared(self, make: Callable[[Fit], T]) -> T:
        """make(self), once, as a fit does not change. Two threads that ask at the same moment may both make it."""
        kept = self.__dict__.setdefault("_kept", {})
        if make not in kept:
            kept[make] = make(self)
        return kept[make]

    @property
    def n_topics(self) -> int:
        """int: the number of topics K."""
        return int(self.L.shape[1])

    @property
    def sample_names(self) -> Names:
        """array of str: the names of the samples; "sample 1", "sample 2", … where they have none."""
        return numbered(self.samples, "sample", len(self.L))

    @property
    def feature_names(self) -> Names:
        """array of str: the names of the features; "feature 1", "feature 2", … where they have none."""
        return numbered(self.features, "feature", len(self.F))

    @cached_property
    def _topics(self) -> tuple[Floats, Floats, Floats, Floats]:
        return poisson_to_topics(self.L, self.F)

    @property
    def proportions(self) -> Floats:
        """array, n × K: the proportions of topics in samples, L*; rows sum to one."""
        return self._topics[0]

    @property
    def topics(self) -> Floats:
        """array, m × K: the topics as distributions over features, F*; columns sum to one."""
        return self._topics[1]

    @property
    def sizes(self) -> Floats:
        """array, n: the expected total of each sample, s."""
        return self._topics[2]

    @property
    def exposures(self) -> Floats:
        """array, n × K: how many of a sample's counts each topic accounts for; of signatures, the exposures or activities.

        A row sums to the counts of its sample, as closely as the fit has converged. That holds for `SparsePoissonNMF` too, whose
        penalty makes loadings smaller than what they account for. Where rates have multipliers, these are counts as they were
        observed, and `proportions` are those that samples would show at multiplier one.
        """
        if self.rates:
            return self.L * (self.rates["multipliers"] @ self.F)[self.rates["groups"]]
        if self.params.get("model") != "SparsePoissonNMF":
            return self.sizes[:, None] * self.proportions
        # at an optimum l_ik (u_k + ω ‖f_k‖) = Σ_j x_ij l_ik f_jk / λ_ij
        by_loading, _ = Sparsity(self.params["penalty"], self.params["norm"]).gradients(np.zeros(self.n_topics), self.F)
        return self.L * (self.F.sum(axis=0) + by_loading)

    @property
    def labels(self) -> list[str]:
        """list of str: the heading of a topic's column in every table: its name, or "topic 3" if it has none."""
        names = [""] * self.n_topics if self.names is None else self.names.tolist()
        return [name or f"topic {k + 1}" for k, name in enumerate(names)]

    @property
    def multipliers(self) -> Floats | None:
        """array, groups × features, or None: multipliers of rates, what is known times what is estimated, in the order of
        `batch_labels`; None for a fit without."""
        return self.rates.get("multipliers")

    @property
    def batch_labels(self) -> Names | None:
        """array of str, or None: what the groups of samples with the same multipliers are called; `rates["groups"]` has the group
        of each sample."""
        return self.rates.get("labels")

    @property
    def batch_effects(self) -> pd.DataFrame:
        """DataFrame: the effect of each batch on each feature, one row each; without rows for a fit without effects.

        Columns: `feature`, `batch`, `effect` (the posterior mean of the multiplier), its logarithm `log2`, its relative `error`
        1 / √(counts + τ), the `counts`, and those that are `expected` without effects. Of features without counts nothing is
        known: their effects are 1.
        """
        columns = ["feature", "batch", "effect", "log2", "error", "counts", "expected"]
        if "batches" not in self.rates:
            return pd.DataFrame({name: pd.Series(dtype=object if name in columns[:2] else float) for name in columns})
        X, S, batches = (self.rates[name] for name in ("counts", "expected", "batches"))
        tau = float(self.rates["strength"][0])
        effects = (X + tau) / (S + tau)
        data: Record = {"feature": np.tile(self.feature_names, len(batches)), "batch": np.repeat(batches, len(self.F))}
        data |= {"effect": effects.ravel(), "log2": np.log2(effects).ravel(), "error": 1 / np.sqrt(X + tau).ravel()}
        return pd.DataFrame(data | {"counts": X.ravel(), "expected": S.ravel()})[columns]

    @property
    def batch_prior(self) -> float | None:
        """float or None: the strength τ of the prior of effects of batches, learned or given; None for a fit without."""
        return float(self.rates["strength"][0]) if "strength" in self.rates else None

    @property
    def kkt(self) -> float:
        """float: the largest KKT residual at the end of the fit; NaN if it was not measured."""
        known = self.trace.get("kkt", pd.Series(dtype=float)).dropna()
        return float(known.iloc[-1]) if len(known) else float("nan")

    @property
    def objective(self) -> str | None:
        """str or None: what the model maximises, as text, if it is not the likelihood (with a prior, perhaps)."""
        known = MODELS.get(str(self.params.get("model")))
        return None if known is None else known.objective

    @property
    def starts(self) -> pd.DataFrame:
        """DataFrame: the starts of a fit that is the best of several (`n_init`), one per row; without rows otherwise.

        Columns: `objective`, `loglik`, `iterations`, `status`, and `difference`, that of its proportions from those of the
        best: the mean absolute one over samples and matched topics.
        """
        columns = ["objective", "loglik", "iterations", "status", "difference"]
        table = pd.DataFrame(dict(self.data.get("starts", {})), columns=columns)
        return table.set_axis(pd.RangeIndex(1, len(table) + 1, name="start"), axis=0)

    @property
    def shares(self) -> Floats:
        """array, K: the part of all expected counts that each topic explains; sums to one."""
        weights = self.exposures.sum(axis=0) if self.rates else self.sizes @ self.proportions
        return weights / weights.sum() if weights.sum() > 0 else np.full(self.n_topics, 1 / self.n_topics)

    def with_names(self, names: Sequence[str] | Mapping[int, str] | None) -> Fit:
        """The same fit with topics that have names, in tables, figures and the saved file.

        Parameters
        ----------
        names : list of str, mapping of int to str, or None
            One for each topic, or those of some by their numbers, from 1; None to take all names away.

        Returns
        -------
        Fit
            A copy; this fit is unchanged.

        Raises
        ------
        ValueError
            If there is no such topic, too few or too many names, or two that are equal.

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.PoissonNMF.from_factors([[8, 0, 1], [2, 5, 0], [0, 5, 9]]).result_
        >>> fit.with_names({2: "round"}).labels
        ['topic 1', 'round', 'topic 3']
        """
        if names is None:
            return replace(self, names=None)
        if isinstance(names, Mapping):
            if unknown := [number for number in names if number not in range(1, self.n_topics + 1)]:
                raise ValueError(f"there is no topic {unknown[0]!r}; this fit has topics 1 to {self.n_topics}")
            names = [names.get(k + 1, "") for k in range(self.n_topics)]
        check_names([*map(str, names)], "topics")
        named = replace(self, names=as_names([str(name).strip() for name in names]))
        if isinstance(names, str) or len(names) != self.n_topics:
            raise ValueError(f"{len(names)} names for {self.n_topics} topics; use one each, or a mapping for some")
        labels = named.labels
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(f"two topics would be called {twice[0]!r}; use different names")
        return named

    def select(self, topics: Iterable[int]) -> Fit:
        """These topics alone, in this order; proportions are taken over them and sum to one again.

        What the other topics account for is omitted: `sizes` are what these topics expect of each sample. Topics are numbered
        again, from 1, and keep the names they were given. A Bayesian model's posterior, an allocation and the trace are
        not kept: the result holds point estimates, and `transform` finds proportions by maximum likelihood.

        Parameters
        ----------
        topics : iterable of int
            Numbers of topics, from 1.

        Returns
        -------
        Fit
            A copy; this fit is unchanged.

        Raises
        ------
        ValueError
            If there is no such topic, a number comes twice, or there are none.

        See Also
        --------
        Fit.without, Fit.merge

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel(3, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8], [0, 9, 1]]).result_
        >>> fit.select([3, 1]).proportions.sum(axis=1).round(6).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0]
        """
        return self._recombined([[place] for place in self._places(topics)])

    def without(self, topics: int | Iterable[int]) -> Fit:
        """All topics but these, such as one of background words: `select` of the others.

        Parameters
        ----------
        topics : int or iterable of int
            Numbers of topics, from 1.

        Returns
        -------
        Fit
            A copy; this fit is unchanged.

        Raises
        ------
        ValueError
            If there is no such topic, a number comes twice, or no topic remains.

        See Also
        --------
        Fit.select, Fit.merge

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.PoissonNMF.from_factors([[8, 0, 1], [2, 5, 0], [0, 5, 9]]).result_
        >>> fit.without(2).n_topics
        2
        """
        gone = self._places([topics] if isinstance(topics, int | np.integer) else topics)
        return self.select([place + 1 for place in range(self.n_topics) if place not in gone])

    def merge(self, *topics: Iterable[int], name: str = "") -> Fit:
        """These topics as one, at the place of the first: loadings add, and features have the mean of their weights.

        Topics are weighted by the counts that they account for, so that the expected total of every sample and of every feature
        stays as it is. Single rates l·f stay where merged topics use the same features or occur in the same samples in the same
        ratio; otherwise one topic says less than two. What else `select` says of numbers, names and posteriors holds here.

        Parameters
        ----------
        *topics : iterable of int
            Numbers of topics, from 1, at least two: `fit.merge([2, 5])`; or several such lists, each of which becomes one
            topic.
        name : str, default=""
            What to call the merged topic, if there is one list; by default the names of its parts, joined by " + ".

        Returns
        -------
        Fit
            A copy; this fit is unchanged.

        Raises
        ------
        ValueError
            If there is no such topic, or a number comes twice.

        See Also
        --------
        Fit.select, Fit.without, align

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel(3, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8], [0, 9, 1]]).result_
        >>> merged = fit.merge([1, 3], name="both")
        >>> merged.labels, bool(abs(merged.sizes - fit.sizes).max() < 1e-9)
        (['both', 'topic 2'], True)
        """
        parts = [self._places(numbers) for numbers in topics]
        self._places([place + 1 for part in parts for place in part])  # none is in two lists
        if not parts or min(map(len, parts)) < 2:
            raise ValueError("use at least two topics to merge, such as fit.merge([2, 5])")
        if name and len(parts) > 1:
            raise ValueError(f"name={name!r} is for one list of topics; use with_names for several")
        first = {part[0]: part for part in parts}
        rest = {place for part in parts for place in part[1:]}
        found = self._recombined([first.get(place, [place]) for place in range(self.n_topics) if place not in rest])
        if not name:
            return found
        place = next(iter(first)) - sum(gone < next(iter(first)) for gone in rest)
        names = [""] * found.n_topics if found.names is None else found.names.tolist()
        return found.with_names([*names[:place], name, *names[place + 1 :]])

    def _places(self, topics: Iterable[int]) -> list[int]:
        numbers = [int(number) for number in topics]
        if unknown := [number for number in numbers if number not in range(1, self.n_topics + 1)]:
            raise ValueError(f"there is no topic {unknown[0]!r}; this fit has topics 1 to {self.n_topics}")
        if len({*numbers}) < len(numbers) or not numbers:
            raise ValueError(f"topics {numbers}; use at least one number, and each once")
        return [number - 1 for number in numbers]

    def _recombined(self, parts: Sequence[Sequence[int]]) -> Fit:
        """A topic for each list of columns, with their counts e_ik = l_ik u_k added and their topics averaged by them."""
        scales = self.F.sum(axis=0, dtype=np.float64)
        weights = self.L.sum(axis=0, dtype=np.float64) * scales
        L, F = (np.empty((len(array), len(parts)), array.dtype) for array in (self.L, self.F))
        for k, part in enumerate(parts):
            columns = list(part)
            own = weights[columns] if weights[columns].sum() > 0 else np.ones(len(columns))
            scale = own @ scales[columns] / own.sum()
            shares = self.topics[:, columns] @ (own / own.sum())
            single = len(columns) == 1
            L[:, k] = self.L[:, columns[0]] if single else self.L[:, columns] @ scales[columns] / (scale or 1.0)
            F[:, k] = self.F[:, columns[0]] if single else shares * scale
        if lost := int(((L.sum(axis=1) <= 0) & (self.L.sum(axis=1) > 0)).sum()):
            text = f"{plural(lost, 'sample')} had none of these topics: their proportions are even, and their sizes 0"
            warn(text)
        names = [""] * self.n_topics if self.names is None else self.names.tolist()
        joined = [" + ".join(names[place] for place in part if names[place]) for part in parts]
        plain = self.objective is None and self.params.get("model") != "SparsePoissonNMF"
        return replace(
            self,
            L=L,
            F=F,
            trace=self.trace.iloc[:0],
            posterior={},
            priors={},
            params=(self.params if plain else {"model": "TopicModel"}) | {"n_components": len(parts)},
            names=as_names(joined) if any(joined) else None,
            loglik=float("nan"),
            remaining_gain=float("nan"),
            state=None,
            allocation=None,
        )

    def top_features(self, n: int = 10) -> pd.DataFrame:
        """The most distinctive features of each topic: `unmix.analysis.top_features`.

        Parameters
        ----------
        n : int, default=10
            How many of each topic.

        Returns
        -------
        DataFrame
            One row per feature: `topic`, `rank`, `feature`, its `share` of the topic, and its `lift` over the other topics.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
        >>> um.TopicModel(2, random_state=0).fit(X).result_.top_features(1)["feature"].tolist()
        ['ant', 'cat']
        """
        import unmix

        return unmix.analysis.top_features(self, n)

    def transform(
        self, X: Any, *, missing: Missing | None = None, batch: Any = None, opportunities: Any = None
    ) -> Floats:
        """Proportions of the topics in new samples, counts or texts, by the model's own inference: `unmix.analysis.transform`.

        Parameters
        ----------
        X : Counts, array-like, AnnData or iterable of str
            New samples. Features are found by name where both sides have names; texts are counted as those of the fit were.
        missing : {"unmeasured", "zero"}, default=None
            Features of the fit that X does not have: "unmeasured" finds proportions from the others, "zero" takes their counts
            as 0. By default "zero" for a fit of texts and "unmeasured" for others; a warning says which.
        batch : str or array-like, default=None
            Where the fit has effects of batches, the batch of each sample: a column of the metadata, or labels.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            Known multipliers of rates, as in `TopicModel.fit`.

        Returns
        -------
        array, n × K
            Rows sum to one.

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel.from_factors([[1, 0], [0, 1], [0, 1]]).result_
        >>> fit.transform([[6, 1, 1], [0, 4, 4]]).round(2)
        array([[0.75, 0.25],
               [0.  , 1.  ]])
        """
        import unmix

        return unmix.analysis.transform(self, X, missing=missing, batch=batch, opportunities=opportunities)

    def recommend(self, X: Any, n: int = 10, exclude_seen: bool = True) -> pd.DataFrame:
        """The features that samples, seen or new, would have next, such as items of users: `unmix.analysis.recommend`.

        Parameters
        ----------
        X : Counts, array-like, AnnData or path
            What samples have so far. Features are found by name where both sides have names.
        n : int, default=10
            How many features to recommend.
        exclude_seen : bool, default=True
            Whether to omit features that the sample has already.

        Returns
        -------
        DataFrame
            Up to n rows per sample: `sample`, `rank`, `feature`, and `score`, its part of the sample's expected counts.

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel.from_factors([[4, 0], [3, 0], [0, 1], [0, 2]], features=["ant", "bee", "cat", "dog"]).result_
        >>> fit.recommend([[3, 0, 0, 0], [0, 0, 2, 0]], n=1)["feature"].tolist()
        ['bee', 'dog']
        """
        import unmix

        return unmix.analysis.recommend(self, X, n, exclude_seen)

    def responsibilities(self, X: Any) -> Floats:
        """The probability that a count is of each topic, φ_ijk = l_ik f_jk / λ_ij: `unmix.analysis.responsibilities`.

        Parameters
        ----------
        X : Counts, array-like, AnnData or iterable of str
            Samples of the fit, or new ones, with its features; or texts. Of `Shards`, one of `shards.parts()` at a time.

        Returns
        -------
        array, nonzeros × K
            A row per nonzero, in the order of `unmix.Counts(X).csr`; rows sum to one.

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel.from_factors([[1, 0], [0, 1], [1, 1]]).result_
        >>> fit.responsibilities([[6, 2, 4]]).round(2)
        array([[1.  , 0.  ],
               [0.  , 1.  ],
               [0.75, 0.25]])
        """
        import unmix

        return unmix.analysis.responsibilities(self, X)

    def quality(self, X: CountsLike, top: int = 10, held_out: CountsLike | None = None) -> Quality:
        """How coherent, exclusive, wide and unlike the others each topic is: `unmix.analysis.quality`.

        Parameters
        ----------
        X : Counts or array-like
            The samples to count co-occurrences in.
        top : int, default=10
            How many features of each topic.
        held_out : Counts or array-like, default=None
            Counts of the fit's samples that it has not seen, which say whether a topic is more than noise.

        Returns
        -------
        Quality
            One row per topic in its `table`.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]], features=["ant", "bee", "cat"])
        >>> um.TopicModel(2, random_state=0).fit(X).result_.quality(X, top=2).table["topic"].tolist()
        [1, 2]
        """
        import unmix

        return unmix.analysis.quality(self, X, top, held_out=held_out)

    def advice(self) -> list[str]:
        """What a user may want to know or do about this fit: `unmix.analysis.advice`.

        Returns
        -------
        list of str
            A sentence for each thing; none if there is nothing to say.

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
        >>> all(isinstance(sentence, str) for sentence in fit.advice())
        True
        """
        import unmix

        return unmix.analysis.advice(self)

    def save(self, path: str | os.PathLike[str], *, resumable: bool = False) -> None:
        """Write the fit to one file, atomically, which `unmix.load` reads.

        Parameters
        ----------
        path : str or PathLike
            Where to; by custom it ends in ".safetensors".
        resumable : bool, default=False
            Whether to add what is needed to resume it (nothing, once it has converged), so that a warm start from the
            loaded fit continues exactly where this one stopped. It makes the file larger.

        Raises
        ------
        OSError
            If it cannot be written; what was there is then as it was.
        ValueError
            If something in it, such as numbers that are not finite, could not be read again.

        Examples
        --------
        >>> import tempfile, unmix as um
        >>> fit = um.PoissonNMF.from_factors([[8, 0], [2, 5], [0, 5]]).result_
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(f"{folder}/signatures.safetensors")
        ...     um.load(f"{folder}/signatures.safetensors").n_topics
        2
        """
        try:
            _check_posterior(self)
        except UNFIT as error:
            raise ValueError(f"{path}: not written, as the posterior of this fit is none ({error})") from None
        record = self.__getstate__()
        fit_file.write(path, record if resumable else record | {"state": None})


def load(path: str | os.PathLike[str]) -> Fit:
    """Read a fit written by `Fit.save`. Nothing is unpickled or run.

    Parameters
    ----------
    path : str or PathLike
        The file, or the folder that `unmix fit` wrote.

    Returns
    -------
    Fit
        As it was saved; fits of earlier versions are read too.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it holds something else, is damaged, or was written by a later version.

    See Also
    --------
    Fit.save, Fit.transform
    TopicModel.from_fit : An estimator of a fit.

    Examples
    --------
    >>> import tempfile, unmix as um
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     um.TopicModel.from_factors([[8, 0], [2, 5], [0, 5]]).result_.save(f"{folder}/topics.safetensors")
    ...     fit = um.load(f"{folder}/topics.safetensors")
    >>> fit.transform([[8, 2, 0], [0, 3, 3]]).round(2)
    array([[1., 0.],
           [0., 1.]])
    """
    path = Path(path) / fit_file.MODEL_FILE if Path(path).is_dir() else path
    fit = Fit(**fit_file.read(path))
    try:
        _check_posterior(fit)
    except UNFIT as error:
        raise ValueError(f"{path}: damaged or foreign model file (its posterior is not one: {error})") from None
    return fit


UNFIT = (KeyError, TypeError, ValueError, IndexError, AttributeError)  # what a posterior that is none may fail with


def _check_posterior(fit: Fit) -> None:
    """Raises if the model needs a posterior and has not that of a pair of priors. One row of each factor shows."""
    if not fit.priors:
        if fit.objective is not None:
            raise ValueError(f"a fit of {fit.params['model']} has one, and this has none")
        return
    row = {name: array[:1] if array.ndim == 2 else array for name, array in fit.posterior.items()}
    _, left, right = restore(fit.priors, row)
    for name, belief in {"L": left, "F": right}.items():
        if belief.parameters.shape != (1, fit.n_topics) or belief.geometric.shape != (1, fit.n_topics):
            raise ValueError(f"that of {name} is not of {fit.n_topics} topics")


@contextmanager
def quietly() -> Iterator[None]:
    """Fits in this block may end before they have converged, without a warning: `status` reports this."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def finished(fit: Fit) -> Fit:
    """The fit of a step in a longer work. Ctrl-C, which a fit keeps to itself as its status, is passed on."""
    if fit.status == "interrupted":
        raise KeyboardInterrupt
    return fit


def versions() -> dict[str, str]:
    import scipy

    import unmix

    return {
        "unmix": unmix.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
