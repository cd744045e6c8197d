"""Counts that are not in memory yet: an AnnData whose matrix lies in a file, or a dask array.

They are read whole if a fit needs at most 16 GB, and otherwise fitted as shards in a temporary folder. Fits of counts and of
shards are two algorithms, so the size of the data decides, never what happens to be free.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted

from unmix.base.memory import BYTES_PER_NONZERO, IN_MEMORY, gigabytes, require
from unmix.base.threads import use_threads
from unmix.base.types import WIDEST, Floats, Record, Seed, as_plain, order_by_name
from unmix.counts.counts import Counts, CountsLike
from unmix.counts.shards import Shards
from unmix.fit import Fit
from unmix.models.matching import match_to_first
from unmix.registry import STARTS
from unmix.solvers import ProgressBar
from unmix.solvers.online import Online, Stream
from unmix.solvers.run import REMEDY, Callback, Counters, Phase, Session, restored, resume, run_phases
from unmix.storage.schema import Text, checked


@contextmanager
def fitting(X: Any) -> Iterator[Any]:
    """What to fit: X itself, or as long as this lasts `Shards` of it, if it is not in memory and too large for it."""
    if fits_in_memory(needed := memory_of(X)):
        yield X
        return
    with temporary_shards(X, needed) as shards:
        yield shards


def fits_in_memory(needed: float) -> bool:
    """Whether a fit of so many bytes is one in memory; an error if it is, and the memory is not free."""
    if needed > IN_MEMORY:
        return False
    require(needed, "a fit of these counts in memory", "write them with unmix.shard, and fit the shards")
    return True


@contextmanager
def temporary_shards(source: Any, needed: float, **options: Any) -> Iterator[Any]:
    """`unmix.shard` into a folder that goes in the end, and a word about it."""
    import unmix

    with TemporaryDirectory(prefix="unmix-") as folder:
        warnings.warn(
            f"a fit of these counts in memory would need {gigabytes(needed)}, more than {gigabytes(IN_MEMORY)}: they are written "
            f"as shards to a temporary folder, {folder}, and fitted from there; unmix.shard keeps them for the next time",
            UserWarning,
            stacklevel=6,
        )
        yield unmix.shard(source, Path(folder) / "counts.shards", **options)


def layer_names(adata: Any) -> list[str]:
    """The layers that have a name; from anndata 0.13 on X is among the layers too, as None."""
    return [name for name in adata.layers if name is not None]


def memory_of(X: Any) -> float:
    """Bytes of a fit of counts that are not in memory yet; 0 for all others."""
    matrix = X.X if is_anndata(X) else X
    if hasattr(matrix, "group") and "data" in matrix.group:  # a sparse matrix in a file
        return float(BYTES_PER_NONZERO * matrix.group["data"].shape[0])
    if type(matrix).__module__.partition(".")[0] in ("dask", "h5py", "zarr") and hasattr(matrix, "shape"):
        return float(BYTES_PER_NONZERO * np.prod(matrix.shape, dtype=float))  # at most
    return 0.0


def counts_of(adata: Any) -> Counts:
    """X of an AnnData, with names and obs."""
    matrix = adata.X
    if matrix is None:
        raise ValueError("this AnnData has no X; give one of its layers, such as adata.layers['counts']")
    matrix = matrix.to_memory() if hasattr(matrix, "to_memory") else matrix.compute() if is_dask(matrix) else matrix
    matrix = matrix if sp.issparse(matrix) else np.asarray(matrix)
    return Counts(matrix, samples=adata.obs_names, features=adata.var_names, metadata=adata.obs)


def is_anndata(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "anndata" and hasattr(X, "obs_names")


def is_dask(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "rechunk")


# The best of several fits, each from a start of its own, and how far apart they end.
#
# The first start is that of the fit without `n_init`, so that more starts are never worse; seeds of the others come from it.
# They run one after the other, each with all threads. The spread says what the data leave open: with P_s the proportions of
# start s, its topics matched with those of the best, b,
#
#     difference_s = mean_ik |P_s,ik − P_b,ik|


def generators(first: np.random.Generator, n: int) -> list[np.random.Generator]:
    """The random numbers of n starts: those of a single fit, and others that follow from them."""
    seeds = deepcopy(first).integers(2**63, size=n - 1)
    return [first, *(np.random.default_rng(int(seed)) for seed in seeds)]


def best_of(model: Any, counts: Any, first: np.random.Generator, n: int) -> tuple[Any, Fit]:
    """The estimator that ended highest, and its fit, with the spread of all in `data["starts"]`.

    Ctrl-C, and a callback that says stop, end the start under way; the best so far is then kept, as interrupted.
    """
    ended: list[Any] = []
    stopped = False
    for rng in generators(first, n):
        one = type(model)(**model.get_params(deep=False) | {"n_init": 1, "random_state": rng})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # told of the best one, in the end
                ended.append(one.fit(counts))
        except KeyboardInterrupt:
            if not ended:
                raise
            stopped = True
        stopped = stopped or ended[-1].result_.status == "interrupted"
        if stopped:
            break
    best = max(ended, key=lambda one: objective_of(one.result_))  # of equals the first
    spread = spread_of([one.result_ for one in ended], ended.index(best))
    fit: Fit = replace(best.result_, data=best.result_.data | {"starts": spread})
    return best, replace(fit, status="interrupted") if stopped else fit


def objective_of(fit: Fit) -> float:
    return float(fit.trace["objective"].iloc[-1])


def spread_of(fits: list[Fit], best: int) -> Record:
    """What `Fit.starts` shows: of each start how high it ended, and how far from the best."""
    others = [fits[best], *fits]
    orders = match_to_first(np.stack([fit.topics for fit in others]))[1:]
    return {
        "objective": [objective_of(fit) for fit in fits],
        "loglik": [fit.loglik for fit in fits],
        "iterations": [int(fit.trace["iteration"].iloc[-1]) for fit in fits],
        "status": [fit.status for fit in fits],
        "difference": [
            float(np.abs(fit.proportions[:, order] - fits[best].proportions).mean())
            for fit, order in zip(fits, orders, strict=True)
        ],
    }


# What every estimator here shares: scikit-learn's conventions, the check of data and parameters, and the closing words.

Init = str | tuple[ArrayLike, ArrayLike] | Fit
Method = TypeVar("Method", bound=Callable[..., Any])

ALIKE = {"PoissonNMF", "TopicModel"}  # two ways to read one fit
MOST_FRACTIONS = 0.5  # of the values; a matrix with more is no matrix of counts
NO_COUNTS = (
    "of the values are not whole numbers, as after tf-idf, logarithms or normalisation; unmix models counts: give those"
)
SMOOTHING = 1e-3  # of the overall frequencies of features, in predictions
MAY_CHANGE = {"max_iter", "n_jobs", "verbose"}  # between a fit and its resumption


class CountsEstimator(TransformerMixin, BaseEstimator, ABC):
    """An estimator that takes counts and learns `result_`, a `Fit`.

    A kind of estimator says what is optimised and in which phases, and where the first of them starts.
    """

    __metadata_request__transform: ClassVar = {"out": UNUSED}  # a file is no metadata of samples

    n_components: int
    init: Init
    n_init: int = 1
    max_iter: int
    tol: float
    n_jobs: int | None
    random_state: Seed
    verbose: bool
    callbacks: Sequence[Callback]
    online: Online | None
    stream_: Stream
    result_: Fit
    n_features_in_: int
    n_iter_: int

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raises if one of them is not what it should be."""

    @abstractmethod
    def _task(self, X: Any) -> Any:
        """What is optimised, for these data."""

    @abstractmethod
    def _phases(self, task: Any, session: Session) -> list[Phase]: ...

    @abstractmethod
    def _start(self, task: Any, phases: list[Phase], rng: np.random.Generator) -> tuple[Phase, Any, str]:
        """The phase to begin with, its first iterate, and what that is."""

    def _topics_keep_their_place(self) -> bool:
        """Whether hyper-parameters differ by topic; if not, and if no start is given, topics are numbered by weight."""
        return False

    def _warm(self, task: Any, solver: Any, state: Any, rng: np.random.Generator) -> Any:
        """What to make of the iterate in which the same solver left the fit that is given as `init`; None to do without."""
        return state

    @abstractmethod
    def transform(self, X: CountsLike | Shards, out: str | os.PathLike[str] | None = None) -> Floats:
        """What of each topic is in samples.

        Parameters
        ----------
        X : Counts, array-like or Shards
            Samples with the features of the fit.
        out : str or PathLike, default=None
            For `Shards`: a .npy file for the answer, which is then read from there as needed.

        Returns
        -------
        array, n × K
            A row a sample.
        """

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

    def fit(self, X: CountsLike | Shards, y: None = None) -> Self:
        """Fit the model to counts.

        Parameters
        ----------
        X : Counts, array-like, AnnData or Shards
            Anything that `Counts` takes, an AnnData (its X), or `Shards`. What is not in memory yet, a backed AnnData or a
            dask array, is read if it fits, and otherwise fitted from shards in a temporary folder.
        y : None, default=None
            Ignored; scikit-learn's pipelines pass it.

        Returns
        -------
        Self
            The estimator itself; what was found is `result_`. Ctrl-C keeps the best so far, with a warning.

        Raises
        ------
        ValueError
            If the data are not finite numbers >= 0, most are no counts, or a parameter does not mean anything.

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
            return self._fit(counts, None)

    def resume(self, X: CountsLike | Shards, fit: Fit) -> Self:
        """Go on with a fit of the same data that was interrupted, and end where it would have ended: equal to the last bit.

        Parameters
        ----------
        X : Counts, array-like, AnnData or Shards
            The same data.
        fit : Fit
            As it was left off: that of `result_`, one that `unmix.solvers.Checkpoint` saved on its way, or that was saved with
            `resumable=True`. `max_iter` may be larger now than it was.

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
            return self._fit(counts, fit)

    def _fit(self, X: CountsLike | Shards, resume_from: Fit | None) -> Self:
        """All fits, from the beginning or from where one was left off."""
        self._check_parameters()
        counts = self._checked_counts(X, reset=True)
        if (fractional := counts.facts["fractional"]) > MOST_FRACTIONS:
            warnings.warn(f"{fractional:.0%} {NO_COUNTS}", UserWarning, stacklevel=3)
        if resume_from is not None:
            self.check_resumable(counts, resume_from)
            if resume_from.status == "converged":
                self._keep(resume_from)
                return self
        elif self._starts() > 1:
            return self._fit_often(counts)
        with use_threads(self.n_jobs):
            task = self._task(counts)
            session = Session(task, self._about(), generator(self.random_state))
            phases = self._phases(task, session)
            with self._listeners() as callbacks:
                left = None if resume_from is None else resume(session, phases, resume_from)
                state = self._begin(task, session, phases) if left is None else left
                solver, state, status = run_phases(session, phases, state, callbacks)
            # a fit that has converged is its result and no more; a chain that was sampled long enough can be sampled longer
            resumable = status != "converged" or phases[-1].status == "converged"
            result = session.fit(solver, state, status, resumable)
            for callback in self.callbacks:
                if hasattr(callback, "end"):
                    callback.end(result)
        self._learn(state)
        self._keep(result)
        return self

    def _starts(self) -> int:
        """How many fits there are to choose from; where a start is given, or there is one topic, they would all be alike."""
        return self.n_init if isinstance(self.init, str) and self.n_components > 1 else 1

    def _fit_often(self, counts: Any) -> Self:
        """The best of several fits, and what it learned."""
        best, result = best_of(self, counts, generator(self.random_state), self._starts())
        given = {*self.get_params(deep=False), "n_features_in_", "feature_names_in_"}
        for name, value in vars(best).items():
            if name not in given:
                setattr(self, name, value)
        result = replace(result, params=self._about())
        for callback in self.callbacks:
            if hasattr(callback, "end"):
                callback.end(result)
        self._keep(result)
        return self

    def _begin(self, task: Any, session: Session, phases: list[Phase]) -> Any:
        """The first iterate, which is recorded: one to go on from, or a new start."""
        phase, note, state = next(phase for phase in phases if phase.name not in ("search", "prefit")), "resumed", None
        session.heaviest_first = isinstance(self.init, str) and not self._topics_keep_their_place()
        if isinstance(self.init, Fit) and self.init.n_topics == self.n_components:
            left = restored(phase.solver, task, self.init)
            state = None if left is None else self._warm(task, phase.solver, left, session.rng)
        if state is None:
            phase, state, note = self._start(task, phases, session.rng)
        elif isinstance(self.init, Fit):
            session.heaviest_first = bool((self.init.state or {}).get("session", {}).get("heaviest_first"))
        session.record(state, "start", note)
        session.counters = Counters(phase.name)
        return state

    @contextmanager
    def _listeners(self) -> Iterator[list[Callback]]:
        if not self.verbose:
            yield list(self.callbacks)
            return
        with ProgressBar(self._most_iterations(), self.tol) as bar:
            yield [*self.callbacks, bar]

    def _most_iterations(self) -> int:
        return self.max_iter

    def _learn(self, state: Any) -> None:
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
            Ignored, as well.

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
        return self.fit(X).transform(X)

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
            If there is no fit yet.

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
        import unmix

        check_is_fitted(self)
        check_smoothing(smoothing)
        parts = [X] if not isinstance(X, Shards) else map(X.shard, range(X.n_shards))
        counts = (self._checked_counts(part, reset=False) for part in parts)
        rng = generator(random_state)
        with use_threads(self.n_jobs), warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "[0-9]+ features with counts have no weight"
            )  # they are predicted all the same
            found = unmix.analysis.perplexity(self, counts, held_out=held_out, smoothing=smoothing, rng=rng)
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
            If there is no fit yet.

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

    def _counts(self, X: CountsLike | Shards) -> Any:
        return X if isinstance(X, Counts | Shards) else Counts(X)

    def _checked_counts(self, X: CountsLike | Shards, *, reset: bool) -> Any:
        """`Counts` or `Shards`. `reset` when fitting: then features are learned, and data that cannot be fitted are refused."""
        X = counts_of(X) if is_anndata(X) else X
        counts = self._counts(X)
        if reset or not self._names_from_counts(X):
            _check_feature_names(self, X, reset=reset)
        _check_n_features(self, counts.csr if isinstance(X, Counts) else X, reset=reset)
        if not reset:
            self._check_same_features(counts)
        if reset and counts.text is not None:
            folder = f"{counts.folder}: " if isinstance(counts, Shards) and counts.folder is not None else ""
            checked(as_plain(counts.text), Text, f"{folder}text (how words were counted)")
        if reset and counts.total == 0:
            raise ValueError("the matrix holds no counts at all (every entry is zero); there is nothing to fit")
        if reset and min(counts.shape) < self.n_components:
            warnings.warn(
                f"n_components={self.n_components} is more than the {counts.shape[0]} samples or {counts.shape[1]} features; "
                "some topics will be empty or alike",
                UserWarning,
                stacklevel=4,
            )
        return counts

    def _names_from_counts(self, X: CountsLike | Shards) -> bool:
        """Whether names are on a side that scikit-learn does not see, and so would miss: `Counts`, or the fit of some."""
        learned = not hasattr(self, "feature_names_in_") and self.result_.features is not None
        return learned or (isinstance(X, Counts | Shards) and X.features is not None)

    def _check_same_features(self, counts: Counts | Shards) -> None:
        """Names on both sides must agree: the same counts in another order would be wrong loadings, silently."""
        fit = self.result_
        order_by_name("feature", (fit.features, len(fit.F)), (counts.features, counts.shape[1]))

    def _possible(self, counts: Counts, aloud: bool = True) -> Counts:
        """Without counts in features that no topic has: given the fitted factors they are impossible."""
        impossible = (self.result_.F.sum(axis=1) == 0) & (counts.feature_totals > 0)
        if not impossible.any():
            return counts
        if aloud:
            warnings.warn(
                f"{impossible.sum()} features with counts have no weight in any topic (they had no counts in the fit); "
                "their counts are left aside",
                UserWarning,
                stacklevel=4,
            )
        return counts.with_values(np.where(impossible[counts.rows.indices], 0, counts.rows.data))

    def _about(self) -> Record:
        """What a `Fit` remembers of the parameters."""
        about: Record = {"model": type(self).__name__}
        for name, value in self.get_params().items():
            if isinstance(value, str | bool | np.bool_ | Integral | Real):
                about[name] = as_plain(float(value) if not isinstance(value, str | Integral | np.bool_) else value)
            elif (
                isinstance(value, list | tuple | np.ndarray)
                and name not in ("callbacks", "init")
                and np.ndim(value) == 1
            ):
                about[name] = np.asarray(value, dtype=float).tolist()
        return about

    def check_resumable(self, X: Counts | Shards, fit: Fit) -> None:
        """Raises if `resume` could not go on with this fit.

        Parameters
        ----------
        X : Counts or Shards
            The data.
        fit : Fit
            As it was left off.

        Raises
        ------
        ValueError
            If it is one of another model, of other data or parameters, or without its state.

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
                    f"the fit to go on with had {name}={was}, this one has {name}={is_now}; "
                    "give the same parameters, or start anew"
                )
        if X.facts["checksum"] != fit.data.get("checksum"):
            raise ValueError("the fit to go on with is of other data; give the same data, or start again without it")
        order_by_name("sample", (fit.samples, len(fit.L)), (X.samples, X.shape[0]))
        order_by_name("feature", (fit.features, len(fit.F)), (X.features, X.shape[1]))
        if fit.status == "interrupted" and "starts" in fit.data:
            raise ValueError(
                f"the fit to go on with is the best of {len(fit.starts)} of n_init={self.n_init} starts, and the others are not "
                "kept; start anew, or go on with it alone: n_init=1 and init=fit"
            )
        if fit.status != "converged" and "session" not in (fit.state or {}):
            raise ValueError(
                "the fit to go on with was saved without its solver's state; save it with resumable=True, or start anew "
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
            known += "" if np.isnan(left) else f", about {left:.2g} are left to gain"
            message = f"not converged after {self.max_iter} iterations ({known}); raise max_iter or tol"
        elif result.status == "interrupted":
            message = f"fit stopped early, after {self.n_iter_} iterations; kept the best so far"
        else:
            return
        warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _absorb(self, task: Any, solver: Any, first: Callable[[], Any]) -> None:
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
        if not isinstance(self.n_components, Integral) or isinstance(self.n_components, bool) or self.n_components < 1:
            raise ValueError(f"n_components={self.n_components!r}; give a whole number of topics >= 1")
        for name, least in {"max_iter": 1, "n_init": 1, **whole}.items():
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name}={value!r}; give a whole number >= {least}")
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Integral) and abs(int(value)) >= WIDEST:
                raise ValueError(
                    f"{name} has more than 128 bits, which no file of a fit can hold; give a smaller number"
                )
        if not isinstance(self.tol, Real) or not self.tol >= 0:
            raise ValueError(f"tol={self.tol!r}; give a number >= 0")
        is_pair = isinstance(self.init, tuple | list) and len(self.init) == 2
        if not (isinstance(self.init, Fit) or is_pair or (isinstance(self.init, str) and self.init in STARTS)):
            raise ValueError(f"init={self.init!r}; choose one of {', '.join(STARTS)}, a pair (L0, F0), or a Fit")
        if not isinstance(getattr(self, "online", None), Online | None):
            raise ValueError(f"online={self.online!r}; give None or unmix.Online(batch_size=...)")


def where_online(method: Method) -> Method:
    """A method that an estimator has only where its parameters allow for online learning. `available_if` forgets its type."""
    return available_if(lambda self: self._check_online() is None)(method)


def checked_finite(values: Any, what: str) -> Any:
    """Numbers of an answer, or an error if one is not finite."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"the {what} would not be finite: these counts are too large or too small for this fit. {REMEDY}"
        )
    return values


def check_smoothing(smoothing: float) -> None:
    if not isinstance(smoothing, Real) or not 0 <= smoothing < 1:
        raise ValueError(f"smoothing={smoothing!r}; give a share >= 0 and below 1")


def generator(random_state: Seed) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, Integral):
        return np.random.default_rng(None if random_state is None else int(random_state))
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
