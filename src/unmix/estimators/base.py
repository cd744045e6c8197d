"""What every estimator shares, and the best of several fits."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from difflib import get_close_matches
from functools import partial, wraps
from inspect import Signature, getdoc, signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, cast, dataclass_transform, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from unmix.base import checks
from unmix.base.checks import ParameterError, parameter, warn
from unmix.base.memory import npy_rows
from unmix.base.threads import use_threads
from unmix.base.types import WIDEST, Floats, Record, Seed, as_plain, order_by_name
from unmix.counts.counts import Counts, CountsLike, fitting, from_anndata, with_names
from unmix.counts.data import Data, is_data, joined
from unmix.counts.multipliers import weighted, with_multipliers, with_sets
from unmix.counts.shards import Shards
from unmix.estimators.features import (
    Matched,
    Missing,
    as_proportions,
    doubts,
    goodness,
    loadings_of,
    match_features,
    multiplied_as_in_fit,
    refuse_equal_names,
    warn_of_turned,
)
from unmix.estimators.known import allowed_topics, known_topics, names_of
from unmix.estimators.plans import best_of, correcting
from unmix.fit import Fit, finished, quietly
from unmix.models.poisson import check_factors
from unmix.models.problem import Iterate, Problem
from unmix.models.variational import Inference
from unmix.registry import STARTS
from unmix.solvers import ProgressBar
from unmix.solvers.base import Solver, refuse_unsupported
from unmix.solvers.online import Learner, Online, OnlineBeliefs, OnlineState, Stream
from unmix.solvers.run import REMEDY, Callback, Counters, Phase, Plan, Session, restored, resume, run_phases
from unmix.storage.files import replacing
from unmix.storage.schema import Text, checked

E = TypeVar("E", bound="CountsEstimator")
T = TypeVar("T", bound=Problem | Inference)
S = TypeVar("S", bound=Iterate)
Q = TypeVar("Q")

# What every estimator here shares: scikit-learn's conventions, the check of data and parameters, and the closing words.

Init = str | tuple[ArrayLike, ArrayLike] | Fit
Method = TypeVar("Method", bound=Callable[..., object])
Numbers = TypeVar("Numbers", float, Floats)

ALIKE = {"PoissonNMF", "TopicModel"}  # two ways to read one fit
MOST_FRACTIONS = 0.5  # of the values; a matrix with more is not a matrix of counts
NO_COUNTS = (
    "of the values are not whole numbers, as after tf-idf, logarithms or normalisation; unmix models counts: "
    "use raw counts"
)
SMOOTHING = 1e-3  # of the overall frequencies of features, in predictions
LEAST_TOL = 1e-5  # of the fit of a sample, whose optimum differs from that of all
MIXED = 0.01  # of the whole, in every topic of a sample: it may lack features
LOOKED_AT, FEWEST = 200, 4  # samples of a part, to see whether they fit; and how many there must be to tell
OTHER_NAMES = dict.fromkeys(("k", "n_topics", "num_topics", "topics", "rank", "n_clusters"), "n_components")
OTHER_NAMES |= {
    "seed": "random_state",
    "n_iter": "max_iter",
    "iterations": "max_iter",
    "n_threads": "n_jobs",
}  # of other libraries
OF_SAMPLES = ("batch", "opportunities", "sample_weight", "allowed")  # what `fit` may be given for samples
TAKERS = "TopicModel, PoissonNMF, GammaPoisson or BayesianPoissonNMF"
MAY_CHANGE = {"max_iter", "n_jobs", "verbose"}  # between a fit and its resumption


@dataclass(eq=False, repr=False)
class Parameters:
    """What every estimator takes; each lists only what it has besides, or has another default of."""

    n_components: int = 10
    _: KW_ONLY
    init: Init = "auto"
    max_iter: int = 500
    tol: float = 1e-5
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: bool = False
    callbacks: Sequence[Callback] = ()


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def estimator(cls: type[E]) -> type[E]:
    """The class with its fields, and those of its bases, as parameters, in the order in which its docstring explains them."""
    made, text = dataclass(eq=False, repr=False, kw_only=True)(cls), getdoc(cls) or ""
    parameters = signature(made.__init__).parameters.values()
    ordered = sorted(parameters, key=lambda one: (one.kind, text.find(f"\n{one.name} : ")))
    given, names = made.__init__, [one.name for one in parameters]

    @wraps(given)
    def init(self: E, *values: Any, **named: Any) -> None:
        for name in named.keys() - set(names):
            usual = OTHER_NAMES.get(name.lower()) or next(iter(get_close_matches(name, names, 1)), None)
            meant = f"did you mean {usual}?" if usual in names else f"it has {', '.join(names[1:])}"
            raise TypeError(f"{type(self).__name__} has no parameter {name!r}; {meant}")
        given(self, *values, **named)

    init.__dict__["__signature__"] = Signature(ordered)
    made.__init__ = init  # type: ignore[method-assign, assignment]
    return made


class CountsEstimator(Parameters, TransformerMixin, BaseEstimator, ABC):
    """An estimator that takes counts and learns `result_`, a `Fit`.

    A kind of estimator says what is optimised and in which phases, and where the first of them starts.
    """

    __metadata_request__transform: ClassVar = {"out": UNUSED, "missing": UNUSED}  # they do not describe samples
    __metadata_request__fit: ClassVar = {"sample_weight": None}  # not in the signature: see docs/decisions.md
    takes: ClassVar[frozenset[str]] = frozenset()  # what of `OF_SAMPLES` it has

    n_init: int = 1
    online: Online | None = None
    stream_: Stream
    result_: Fit
    n_features_in_: int
    n_iter_: int

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raises if one of them is not what it should be."""

    @abstractmethod
    def _plan(self, X: Data, rng: np.random.Generator) -> Plan:
        """What is optimised for these data, in which phases, and from where."""

    def _topics_keep_their_place(self) -> bool:
        """Whether hyper-parameters differ by topic; if not, and if no start is given, topics are numbered by weight."""
        return False

    @abstractmethod
    def _transformed(self, part: CountsLike) -> Floats:
        """What `transform` gives of some samples, in memory."""

    def transform(
        self,
        X: CountsLike | Shards,
        out: str | os.PathLike[str] | None = None,
        *,
        missing: Missing | None = None,
        batch: Any = None,
        opportunities: Any = None,
    ) -> Floats:
        """What of each topic is in samples.

        Parameters
        ----------
        X : Counts, array-like or Shards
            Samples. Features of `Counts`, an AnnData or `Shards` are found by name, in any order, where both sides have names.
        out : str or PathLike, default=None
            For `Shards`: a .npy file for the answer, which is then read from there as needed.
        missing : {"unmeasured", "zero"}, default=None
            Features of the fit that X, matched by name, does not have: "unmeasured" omits them, "zero" takes their counts
            as 0. By default "zero" for a fit of texts and "unmeasured" for others; a warning says which.
        batch : str or array-like, default=None
            Where the fit has effects of batches, the batch of each sample: a column of the metadata, or labels. Effects of
            batches that the fit does not know are one.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            Known multipliers of rates, as in `fit`.

        Returns
        -------
        array, n × K
            One row per sample.
        """
        check_is_fitted(self)
        parts = self._transformed_parts(self._multiplied_as_in_fit(X, batch, opportunities), missing)
        if out is None:
            return joined(list(parts))
        path = Path(out)
        if path.suffix != ".npy":
            raise ValueError(f"out={str(out)!r}; use a file that ends in .npy")
        shape = (X.shape[0] if hasattr(X, "shape") else len(X), self.result_.n_topics)  # type: ignore[arg-type]
        with replacing(path) as temporary, npy_rows(temporary, shape, str(path)) as append:
            for rows in parts:
                append(rows)
        return np.load(path, mmap_mode="r")

    def _multiplied_as_in_fit(self, X: Any, batch: Any, opportunities: Any) -> Any:
        """New samples with their multipliers: of batches, those that the fit has."""
        for name, value in {"batch": batch, "opportunities": opportunities}.items():
            if value is not None and name not in self.takes:
                raise ValueError(f"{type(self).__name__} does not support {name}; use {TAKERS}")
        if isinstance(X, pd.DataFrame) and hasattr(self, "feature_names_in_"):
            self._checked_counts(X, reset=False)
        return multiplied_as_in_fit(X, self.result_, batch, opportunities)

    def _transformed_parts(self, X: CountsLike | Shards, missing: Missing | None) -> Iterator[Floats]:
        fit, tables = self.result_, list[pd.DataFrame]()
        for i, part in enumerate(parts_of(X)):
            counts = self._named_counts(part)
            if counts is None:
                loadings = np.asarray(self._transformed(part), dtype=np.float64)
                matched = Matched(cast(Counts, as_data(from_anndata(part))))
            else:
                matched = match_features(counts, fit, missing)
                if i == 0 and (notes := matched.notes()):
                    warn("; ".join(notes))
                loadings = loadings_of(self, matched)
            if len(loadings) >= FEWEST:
                tables.append(goodness(fit, *matched.some(as_proportions(self, loadings), LOOKED_AT)))
            yield loadings
        if tables and (notes := doubts(fit, tables)):
            warn("; ".join(notes))

    def _named_counts(self, part: CountsLike) -> Counts | None:
        """Counts whose features are found by name; None if a side has no names. After a fit of a DataFrame another one must
        have the same columns, which is scikit-learn's rule."""
        part = from_anndata(part)
        if isinstance(part, pd.DataFrame) and not hasattr(self, "feature_names_in_"):
            part = Counts(part)
        return None if self.result_.features is None else with_names(part)

    @classmethod
    def from_fit(cls, fit: Fit) -> Self:
        """The estimator that made a fit, such as one that `unmix.load` read: ready to `transform` and `score` new samples.

        Parameters
        ----------
        fit : Fit
            Of this kind of model. `PoissonNMF` and `TopicModel` take each other's.

        Returns
        -------
        Self
            With the parameters of the fit, and the fit as its `result_`.

        Raises
        ------
        ValueError
            If another kind of model made it.

        See Also
        --------
        load, Fit.transform

        Examples
        --------
        >>> import unmix as um
        >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
        >>> um.TopicModel.from_fit(fit).transform([[5, 1, 0]]).round()
        array([[1., 0.]])
        """
        made_by = str(fit.params.get("model", "TopicModel"))
        if made_by != cls.__name__ and not {made_by, cls.__name__} <= ALIKE:
            raise ValueError(f"the fit was made by {made_by}; use unmix.{made_by}.from_fit, or fit.transform")
        known = {name: value for name, value in fit.params.items() if name in cls._get_param_names()}
        model = cls(**known | {"n_components": fit.n_topics, "init": "auto"})
        model._check_parameters()
        model.result_, model.n_features_in_ = fit, len(fit.F)
        return model

    def fit(
        self, X: CountsLike | Shards, y: None = None, *, batch: Any = None, opportunities: Any = None, **weights: Any
    ) -> Self:
        """Fit the model to counts.

        Parameters
        ----------
        X : Counts, array-like, AnnData or Shards
            Anything that `Counts` takes, an AnnData (its X), or `Shards`. What is not in memory yet, a backed AnnData or a
            dask array, is read if it fits, and otherwise fitted from shards in a temporary folder.
        y : None, default=None
            Ignored; scikit-learn's pipelines pass it.
        batch : str or array-like, default=None
            A column of the metadata, or a label per sample: effects of each batch on each feature are estimated with the topics.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            Known multipliers of rates, 0 where a feature was not measured: a number per feature, a row per sample (in a sparse
            matrix, 1 where nothing is stored), or a DataFrame with a row per sample, per batch, or per value of the column of
            metadata that its index is named after.
        **weights : dict
            `sample_weight`, an array: how many samples each one represents. `allowed`, for maximum likelihood: the topics that
            each sample may have, true or false, n × K; or a label per sample, or a column of labels, that names a known or
            seeded topic (topics without a name are open to all, and a sample without a label may have all). Without known
            topics, labels are topics.

        Returns
        -------
        Self
            The estimator itself; what was found is `result_`. Ctrl-C keeps the best so far, with a warning.

        Raises
        ------
        ValueError
            If the data are not finite numbers >= 0, most are not counts, or a parameter is invalid.

        See Also
        --------
        Counts, read, shard, Fit

        Examples
        --------
        >>> import unmix as um
        >>> um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_.status
        'converged'
        """
        with fitting(X) as counts:
            return self._fit(counts, None, {"batch": batch, "opportunities": opportunities} | weights)

    def resume(
        self, X: CountsLike | Shards, fit: Fit, *, batch: Any = None, opportunities: Any = None, **weights: Any
    ) -> Self:
        """Go on with a fit of the same data that was interrupted, and end where it would have ended: equal bit for bit.

        Parameters
        ----------
        X : Counts, array-like, AnnData or Shards
            The same data.
        fit : Fit
            As it was left off: that of `result_`, one that `unmix.solvers.Checkpoint` saved on its way, or that was saved with
            `resumable=True`. `max_iter` may be larger now than it was.
        batch : str or array-like, default=None
            As in `fit`; the same as there.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            As in `fit`.
        **weights : dict
            As in `fit`.

        Returns
        -------
        Self
            The estimator itself.

        Raises
        ------
        ValueError
            If the fit is of other data or parameters, or without its state.

        See Also
        --------
        solvers.Checkpoint : Save a fit while it runs.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.datasets.correlated_topics("A")
        >>> half = um.TopicModel(3, max_iter=5, tol=0, random_state=0).fit(X).result_
        >>> whole = um.TopicModel(3, max_iter=10, tol=0, random_state=0)
        >>> whole.resume(X, half).result_.loglik == whole.fit(X).result_.loglik
        True
        """
        with fitting(X) as counts:
            return self._fit(counts, fit, {"batch": batch, "opportunities": opportunities} | weights)

    def _fit(self, X: CountsLike | Shards, resume_from: Fit | None, of_samples: Record) -> Self:
        """All fits, from the beginning or from where one was left off."""
        self._check_parameters()
        counts = self._multiplied(self._checked_counts(X, reset=True), of_samples)
        if (fractional := counts.fractional) > MOST_FRACTIONS:
            warn(f"{fractional:.0%} {NO_COUNTS}")
        warn_of_turned(counts)
        if resume_from is not None:
            self.check_resumable(counts, resume_from)
            if resume_from.status == "converged":
                self._keep(resume_from)
                return self
        elif self._starts() > 1:
            return self._fit_often(counts)
        rng = generator(self.random_state)
        with use_threads(self.n_jobs):
            plan = self._plan(counts, rng)
            session = Session(plan.task, self._about(), rng)
            with self._listeners() as callbacks:
                state = self._begin(plan, session) if resume_from is None else resume(session, plan.phases, resume_from)
                solver, state, status = run_phases(session, plan.phases, state, callbacks)
            # a fit that has converged is its result and no more; a chain that was sampled long enough can be sampled longer
            resumable = status != "converged" or plan.phases[-1].status == "converged"
            result = session.fit(solver, state, status, resumable)
        self._learn(state)
        self._end(result)
        return self

    def _multiplied(self, counts: Data, of_samples: Record) -> Data:
        """The counts with what was given for their samples, which the data carry from here on."""
        given = {name: value for name, value in of_samples.items() if value is not None}
        carried = counts.multipliers
        if carried is not None and not carried.plain:  # by data that an analysis hands on
            given |= {"batch" if carried.owners is not None else "opportunities": None}
        if unknown := given.keys() - set(OF_SAMPLES):
            raise TypeError(f"fit has no parameter {min(unknown)!r}; it takes y, {', '.join(OF_SAMPLES)}")
        for name in given:
            if name not in self.takes or self.online is not None:
                who = "online learning" if name in self.takes else type(self).__name__
                takers = "TopicModel or PoissonNMF" if name in ("sample_weight", "allowed") else TAKERS
                raise ValueError(f"{who} does not support {name}; use {takers}, in memory or on shards")
        weights, allowed = given.pop("sample_weight", None), given.pop("allowed", None)
        if any(value is not None for value in given.values()):
            counts = with_multipliers(counts, **given, estimated=getattr(self, "batch_prior", None) != np.inf)
        counts = counts if weights is None else weighted(counts, weights)
        if allowed is None:
            return counts
        return with_sets(counts, *allowed_topics(counts, allowed, names_of(self), self.n_components))

    def _end(self, result: Fit) -> None:
        """Notify the callbacks that want to know, and keep the result."""
        for callback in self.callbacks:
            if hasattr(callback, "end"):
                callback.end(result)
        self._keep(result)

    def _starts(self) -> int:
        """How many fits there are to choose from; where a start is given, or there is one topic, they would all be equal."""
        return self.n_init if isinstance(self.init, str) and self.n_components > 1 else 1

    def _fit_often(self, counts: Data) -> Self:
        """The best of several fits, and what it learned."""
        best, result = best_of(self, counts, generator(self.random_state), self._starts())
        given = {*self.get_params(deep=False), "n_features_in_", "feature_names_in_"}
        for name, value in vars(best).items():
            if name not in given:
                setattr(self, name, value)
        self._end(replace(result, params=self._about()))
        return self

    def _begin(self, plan: Plan, session: Session) -> Iterate:
        """The first iterate, which is recorded: one to continue from, or a new start."""
        placed = getattr(plan.task, "known", None) is not None or getattr(plan.task, "sets", None) is not None
        session.heaviest_first = isinstance(self.init, str) and not placed and not self._topics_keep_their_place()
        state, note = None, "resumed"
        if isinstance(self.init, Fit) and self.init.n_topics == self.n_components:
            state = restored(plan.phases[0].solver, plan.task, self.init)
            state = None if state is None else plan.warm(state)
        if state is None:
            state, note = plan.first()
        elif isinstance(self.init, Fit):
            session.heaviest_first = bool((self.init.state or {}).get("session", {}).get("heaviest_first"))
        session.record(state, "start", note)
        session.counters = Counters(plan.phases[0].name)
        return state

    def _streamed_plan(self, task: T, solver: Solver[T, Iterate], rng: np.random.Generator) -> Plan:
        """The fit of data that are not in memory: one phase, from a fit of their sample."""
        X = task.X
        refuse_unsupported(solver, X, task.needs, type(self).__name__)
        task.engine  # noqa: B018 - which says now if it cannot do it

        def first() -> tuple[Iterate, str]:
            dtype, given = getattr(self, "dtype", "float64"), self.init
            if not isinstance(given, str):
                L, F = (given.L, given.F) if isinstance(given, Fit) else given
                L, F = check_factors(X.shape, L, F, self.n_components)
                return solver.start(task, L.astype(dtype), F.astype(dtype)), "given"
            fit = self._sample_fit(X.sample, rng)
            F = fit.F / np.maximum(fit.F.sum(axis=0), np.finfo(float).tiny)
            F = (1 - MIXED) * F + MIXED * (X.feature_totals / X.total)[:, None]
            note = f"fit of a sample of {len(X.sample):,}: {fit.trace['note'].iloc[0]}"
            return solver.start(task, np.empty((0, self.n_components)), F.astype(dtype)), note

        fit = partial(Phase, solver=solver, max_iter=self.max_iter, tol=self.tol)
        return Plan(
            task, [fit("fit"), *(correcting(task, fit) if isinstance(task, Problem | Inference) else [])], first
        )

    def _sample_fit(self, sample: Counts, rng: np.random.Generator) -> Fit:
        """The same estimator on the sample, in memory. How long it runs does not depend on how long the fit of all may, which
        can be resumed with more iterations."""
        most = signature(type(self)).parameters["max_iter"].default
        others = {"callbacks": (), "verbose": False, "random_state": rng, "max_iter": most}
        model = type(self)(**self.get_params(deep=False) | others | {"tol": max(self.tol, LEAST_TOL)})
        with quietly():  # it need not converge
            return finished(model.fit(sample).result_)

    @contextmanager
    def _listeners(self) -> Iterator[list[Callback]]:
        if not self.verbose:
            yield list(self.callbacks)
            return
        with ProgressBar(self._most_iterations(), self.tol) as bar:
            yield [*self.callbacks, bar]

    def _most_iterations(self) -> int:
        return self.max_iter

    def _learn(self, state: Iterate) -> None:
        """Attributes besides `result_` that come from the last iterate."""

    def fit_transform(self, X: CountsLike, y: None = None, **fit_params: Any) -> Floats:
        """`fit(X).transform(X)`.

        Parameters
        ----------
        X : Counts or array-like
            Counts.
        y : None, default=None
            Ignored; scikit-learn's pipelines pass it.
        **fit_params : dict
            What `fit` takes: `batch`, `opportunities`, `sample_weight`.

        Returns
        -------
        array, n × K
            What `transform` gives.

        Examples
        --------
        >>> import unmix as um
        >>> um.TopicModel(2, random_state=0).fit_transform([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).shape
        (4, 2)
        """
        given = {name: fit_params[name] for name in ("batch", "opportunities") if fit_params.get(name) is not None}
        return self.fit(X, **fit_params).transform(X, **given)

    def inverse_transform(self, X: CountsLike) -> Floats:
        """Expected counts of samples with these loadings.

        Parameters
        ----------
        X : array-like, n × K
            Loadings, as `transform` gives them.

        Returns
        -------
        array, n × m
            Dense: mind its size.

        Raises
        ------
        NotFittedError
            If it is not fitted yet.

        Examples
        --------
        >>> import unmix as um
        >>> um.PoissonNMF.from_factors([[0.8, 0], [0.2, 0.5], [0, 0.5]]).inverse_transform([[10, 20]])
        array([[ 8., 12., 10.]])
        """
        check_is_fitted(self)
        return np.asarray(X, dtype=np.float64) @ self.components_

    def perplexity(
        self,
        X: CountsLike | Shards,
        *,
        held_out: float = 0.5,
        smoothing: float = SMOOTHING,
        random_state: Seed = 0,
        batch: Any = None,
        opportunities: Any = None,
    ) -> float:
        """Held-out perplexity by document completion: lower is better.

        Each count is held out with probability `held_out`. The loadings of a sample are found from what is left, and the
        held-out counts are predicted from them: exp(−mean log probability), by the multinomial Σ_k l_ik f_jk / Σ_jk l_ik f_jk.
        No held-out count takes part in finding its own loadings, which is what makes perplexities of models comparable.

        Parameters
        ----------
        X : Counts, array-like or Shards
            Whole numbers, with the features of the fit.
        held_out : float, default=0.5
            The probability with which a count is held out.
        smoothing : float, default=0.001
            The share of the overall frequencies of features, half a count added to each, in every prediction: without it, the
            perplexity is infinite if a held-out count is impossible by the model, as maximum likelihood often has it.
        random_state : int, Generator or RandomState, default=0
            Decides what is held out.
        batch : str or array-like, default=None
            As in `transform`.
        opportunities : array-like, sparse matrix or DataFrame, default=None
            As in `transform`.

        Returns
        -------
        float
            At least 1; the number of features if nothing is known.

        Raises
        ------
        ValueError
            If counts are not whole numbers, or a share is not one.

        See Also
        --------
        choose_topics : Perplexities of many numbers of topics.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.datasets.correlated_topics("A")
        >>> um.TopicModel(3, tol=1e-4, random_state=0).fit(X).perplexity(X) < X.shape[1]
        True
        """
        check_smoothing(smoothing)
        check_is_fitted(self)
        X = self._multiplied_as_in_fit(X, batch, opportunities)
        return self._perplexity(X, held_out, smoothing, random_state)

    def _perplexity(
        self,
        X: CountsLike | Shards,
        held_out: float,
        smoothing: float,
        random_state: Seed,
        prepared: Callable[[Counts], Counts] = lambda counts: counts,
    ) -> float:
        import unmix

        check_is_fitted(self)
        parts = (prepared(self._checked_counts(part, reset=False)) for part in parts_of(X))
        rng = generator(random_state)
        with use_threads(self.n_jobs), warnings.catch_warnings():
            # they are predicted all the same
            warnings.filterwarnings("ignore", "[0-9]+ features with counts have no weight")
            found = unmix.analysis.perplexity(self, parts, held_out=held_out, smoothing=smoothing, rng=rng)
        return checked_finite(found, "perplexity") if smoothing > 0 else found

    @property
    def components_(self) -> Floats:
        """array, K × m: the factors Fᵀ, or their posterior means; topics, whose rows sum to one, where the model has such."""
        check_is_fitted(self, "result_")
        return np.ascontiguousarray(self.result_.F.T)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """The names of topics, as in every table: "topic 1", … or those that they were given. `set_output` shows them.

        Parameters
        ----------
        input_features : array-like, default=None
            Ignored; scikit-learn's pipelines pass it.

        Returns
        -------
        array of object, K
            Names.

        Raises
        ------
        NotFittedError
            If it is not fitted yet.

        Examples
        --------
        >>> import unmix as um
        >>> um.PoissonNMF.from_factors([[8, 0], [2, 5], [0, 5]]).get_feature_names_out().tolist()
        ['topic 1', 'topic 2']
        """
        check_is_fitted(self)
        return np.array(self.result_.labels, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "result_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags

    @overload
    def _checked_counts(self, X: CountsLike, *, reset: Literal[False]) -> Counts: ...
    @overload
    def _checked_counts(self, X: CountsLike | Data, *, reset: bool) -> Data: ...
    def _checked_counts(self, X: CountsLike | Data, *, reset: bool) -> Data:
        """`Counts` or `Shards`. `reset` when fitting: then features are learned, and data that cannot be fitted are refused."""
        X = from_anndata(X)
        refuse_equal_names(X)
        counts = as_data(X)
        named = counts is X and counts.features is not None
        seen = hasattr(self, "feature_names_in_")
        hidden = not reset and (named or (self.result_.features is not None and not seen))
        if not (hidden and seen):  # by scikit-learn; names that it does not see are compared below
            validate_data(self, counts if hidden else X, reset=reset, skip_check_array=True)
        if not reset:
            counts = self._in_own_order(cast(Counts, counts))
        if reset and counts.text is not None:
            folder = "" if getattr(counts, "folder", None) is None else f"{counts.folder}: "  # type: ignore[attr-defined]
            checked(as_plain(counts.text), Text, f"{folder}text (how words were counted)")
        if reset and counts.total == 0:
            raise ValueError("the matrix holds no counts at all (every entry is zero); there is nothing to fit")
        if reset and min(counts.shape) < self.n_components:
            warn(
                f"{parameter('n_components', self.n_components)} is more than the {counts.shape[0]} samples "
                f"or {counts.shape[1]} features; "
                "some topics will be empty or almost equal"
            )
        return counts

    def _in_own_order(self, counts: Counts) -> Counts:
        """The features of the fit, by their names where both sides have names; others are refused."""
        known = (self.result_.features, len(self.result_.F))
        order = order_by_name("feature", known, (counts.features, counts.shape[1]), reorder=True)
        return counts if order is None else counts.take(None, order)

    def _possible(self, counts: Counts) -> Counts:
        """Without counts in features that no topic has: given the fitted factors they are impossible."""
        impossible = self.result_._prepared(_weightless) & (counts.feature_totals > 0)
        if not impossible.any():
            return counts
        warn(
            f"{impossible.sum()} features with counts have no weight in any topic (they had no counts in the fit); "
            "their counts are ignored"
        )
        return counts.with_values(np.where(impossible[counts.rows.indices], 0, counts.rows.data))

    def _mean_over_counts(self, X: CountsLike | Data, of: Callable[[CountsLike], tuple[float, float]]) -> float:
        """What `of` gives of every part, a sum and a total: all sums by all totals."""
        check_is_fitted(self)
        sums = [of(part) for part in parts_of(X)]
        total = sum(count for _, count in sums)
        return sum(value for value, _ in sums) / total if total > 0 else 0.0

    def _about(self) -> Record:
        """What a `Fit` remembers of the parameters."""
        about: Record = {"model": type(self).__name__}
        for name, value in self.get_params().items():
            if name in ("known", "seeds"):
                continue  # what is kept of them is in the facts
            if isinstance(value, str | bool | np.bool_ | Integral | Real):
                about[name] = as_plain(float(value) if not isinstance(value, str | Integral | np.bool_) else value)
            elif (
                isinstance(value, list | tuple | np.ndarray)
                and name not in ("callbacks", "init")
                and np.ndim(value) == 1
            ):
                about[name] = np.asarray(value, dtype=float).tolist()
        return about

    def check_resumable(self, X: Data, fit: Fit) -> None:
        """Raises if `resume` could not resume this fit.

        Parameters
        ----------
        X : Counts or Shards
            The data.
        fit : Fit
            As it was left off.

        Raises
        ------
        ValueError
            If it is one of a different model, of other data or parameters, or without its state.

        Examples
        --------
        >>> import unmix as um
        >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
        >>> half = um.TopicModel(2, max_iter=3, tol=0, random_state=0).fit(X).result_
        >>> um.TopicModel(2, max_iter=9, tol=0, random_state=0).check_resumable(X, half)
        """
        here, defaults = (
            self._about(),
            {name: parameter.default for name, parameter in signature(type(self)).parameters.items()},
        )
        for name in sorted((here.keys() | fit.params.keys()) - MAY_CHANGE):
            # a parameter that there was none of when the fit was saved is as it is by default
            was, is_now = (params.get(name, defaults.get(name)) for params in (fit.params, here))
            if was != is_now:
                raise ValueError(
                    f"the fit to resume had {parameter(name, was)}, this one has {parameter(name, is_now)}; "
                    "use the same parameters, or start again"
                )
        given, kept = X.multipliers, fit.rates
        if (given is not None and not given.plain) != bool(kept) or (
            given is not None and kept and not given.made(kept)
        ):
            raise ValueError("the interrupted fit had other multipliers of rates; use the same batch and opportunities")
        with quietly():
            known = known_topics(self, X)
        if (known.facts["digest"] if known else "") != (fit.data.get("known") or {}).get("digest", ""):
            raise ValueError("the interrupted fit had other known topics or seeds; use the same known and seeds")
        if (given.digest if given else "") != fit.data.get("allowed", ""):
            raise ValueError("the interrupted fit had other allowed topics; use the same")
        if X.facts["checksum"] != fit.data.get("checksum"):
            raise ValueError("the fit to resume is of other data; use the same data, or start again without it")
        order_by_name("sample", (fit.samples, len(fit.L)), (X.samples, X.shape[0]))
        order_by_name("feature", (fit.features, len(fit.F)), (X.features, X.shape[1]))
        if fit.status == "interrupted" and "starts" in fit.data:
            raise ValueError(
                f"the fit to resume is the best of {len(fit.starts)} of {parameter('n_init', self.n_init)} starts, "
                f"and the others are not kept; start again, or continue it alone: {parameter('n_init', 1)} and init=fit"
            )
        if fit.status != "converged" and "session" not in (fit.state or {}):
            raise ValueError(
                "the fit to resume was saved without its solver's state; save it with resumable=True, or start again "
                "with init=fit"
            )

    def _keep(self, result: Fit) -> None:
        """Take the fit as the result, and warn if it did not end well."""
        self.result_ = result
        self.__dict__.pop("stream_", None)  # a stream that `partial_fit` began ends here
        self.n_iter_ = max(len(result.trace) - 1, 1)
        if result.status == "max_iter" and self.tol > 0:
            left = result.remaining_gain
            known = f"the last one gained {result.trace['objective'].diff().iloc[-1]:.3g}"
            known += "" if np.isnan(left) else f", remaining gain about {left:.2g}"
            message = f"not converged after {self.max_iter} iterations ({known}); raise max_iter or tol"
        elif result.status == "interrupted":
            message = f"fit stopped early, after {self.n_iter_} iterations; kept the best so far"
        else:
            return
        warn(message, ConvergenceWarning)

    def _absorb(self, task: T, solver: Learner[T, S, Q], first: Callable[[], OnlineState | OnlineBeliefs]) -> None:
        """One step of online learning; `first` makes the state that the first batch starts from."""
        stream = self.stream_ if hasattr(self, "stream_") else first().stream
        total = solver.online.total_samples or stream.samples + task.X.shape[0]
        self.stream_, loadings = solver.absorb(task, stream, None, total)
        session, state = Session(task, self._about()), solver.at(task, loadings, self.stream_)
        session.record(state, "online", f"batch {self.stream_.batches}")
        self.result_ = session.fit(solver, state, "max_iter")
        self.n_iter_ = self.stream_.batches

    def _check_common(self, **whole: int) -> None:
        """The parameters that all estimators have; `whole` names others that are whole numbers, with their least values."""
        checks.whole("n_components", self.n_components, 1, "use a whole number of topics >= 1")
        for name, least in {"max_iter": 1, "n_init": 1, **whole}.items():
            checks.whole(name, getattr(self, name), least)
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Integral) and abs(int(value)) >= WIDEST:
                raise ValueError(
                    f"{name} has more than 128 bits, which no file of a fit can hold; use a smaller number"
                )
        if not isinstance(self.tol, Real) or not self.tol >= 0:
            raise ParameterError("tol", self.tol, "use a number >= 0")
        is_pair = isinstance(self.init, tuple | list) and len(self.init) == 2
        if not (isinstance(self.init, Fit) or is_pair or (isinstance(self.init, str) and self.init in STARTS)):
            raise ParameterError("init", self.init, f"choose one of {', '.join(STARTS)}, a pair (L0, F0), or a Fit")
        if not isinstance(self.online, Online | None):
            raise ParameterError("online", self.online, "use None or unmix.Online(batch_size=...)")


def _weightless(fit: Fit) -> NDArray[np.bool_]:
    return fit.F.sum(axis=1) == 0


def where_online(method: Method) -> Method:
    """A method that an estimator has only where its parameters allow for online learning. `available_if` forgets its type."""
    return available_if(lambda self: self._check_online() is None)(method)


def checked_finite(values: Numbers, what: str) -> Numbers:
    """Numbers of an answer, or an error if one is not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"the {what} would not be finite: these counts are too large or too small for this fit. {REMEDY}"
        )
    return values


def as_data(X: CountsLike | Data) -> Data:
    """Data as they are, or `Counts` of anything else."""
    return X if is_data(X) else Counts(X)


def parts_of(X: CountsLike | Data) -> Iterator[CountsLike]:
    """What can be asked part by part: parts of data of any size, or all of anything else."""
    return X.parts() if is_data(X) and not X.in_memory else iter([X])


def check_smoothing(smoothing: float) -> None:
    checks.share("smoothing", smoothing, "use a share >= 0 and below 1", zero=True)


def generator(random_state: Seed) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, Integral):
        return np.random.default_rng(None if random_state is None else int(random_state))
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
