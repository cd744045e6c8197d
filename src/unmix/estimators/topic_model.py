"""TopicModel: the Poisson NMF that a multinomial topic model is equivalent to, read as one."""

from __future__ import annotations

import os

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unmix.counts import CountsLike
from unmix.estimators import streamed
from unmix.estimators.likelihood import PoissonNMF, make_solver
from unmix.models.priors import Dirichlet
from unmix.models.topics import poisson_to_topics
from unmix.registry import named
from unmix.shards import Shards
from unmix.solvers import PLSA
from unmix.solvers.base import AnySolver
from unmix.types import Floats


class TopicModel(PoissonNMF):
    """The multinomial topic model (PLSA): x_i ~ Multinomial(t_i, Σ_k l*_ik f*_k), fitted through the equivalent Poisson NMF.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    solver : str or solver, default="newton"
        {solvers}, or a solver object such as
        `unmix.solvers.SCD(sweeps=10)`.
    extrapolate : bool, default=True
        Whether to accelerate the solver by extrapolation with restarts.
    init : str, pair of arrays or Fit, default="auto"
        "auto" (a search: several starts, whose topics are put together), "topic-score", "random", a pair of arrays (L0, F0),
        or a `Fit` (a warm start: 10 + 10 iterations equal 20).
    n_init : int, default=1
        Fits to choose from, each from a start of its own: the one that ends highest is kept. `result_.starts` tells how far
        apart they ended, which is how much the data leave open. Ctrl-C keeps the best so far; what is broken off is not
        resumed. Has no effect where `init` gives the start.
    prefit : int, default=10
        EM iterations before the solver takes over, unless a search or another fit came before.
    max_iter : int, default=500
        Most iterations, each of which updates L, then F.
    tol : float, default=1e-6
        The fit ends once what is left to gain, `result_.remaining_gain`, is at most `tol` per count: with the default, a unit
        of log-likelihood per million counts. 0 runs exactly `max_iter` iterations.
    refine : int, default=0
        Moves to try after convergence, to leave a poor local optimum: each puts the topics together with those of another fit.
    prior : Gamma or Dirichlet, default=None
        `unmix.Gamma(shape, rate)` on F, or `unmix.Dirichlet(concentration)` on topics, which is the same: MAP instead of
        maximum likelihood.
    loadings_prior : Gamma or Dirichlet, default=None
        For `PoissonNMF` a `unmix.Gamma` on L, for `TopicModel` a `unmix.Dirichlet` on the proportions of a sample. The latter
        is fitted by joint EM, whatever the solver.
    online : Online, default=None
        `unmix.Online(...)`: iterations are passes in mini-batches, with steps of Robbins and Monro, instead of those of
        `solver`. `partial_fit` learns from one batch after the other.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    engine : str, default=None
        Who goes over `Shards`: None for this machine, or the one of `with unmix.engines.…`; a Dask cluster by the address of
        its scheduler (`"tcp://…"`, `"tls://…"`), its scheduler file (.json), or "local:2" for two processes here. The result
        does not depend on it.
    dtype : str, default="float64"
        "float64", or "float32" to store the factors in half the memory (sums and objective stay in double precision).
    random_state : int, Generator or RandomState, default=None
        Seed of all that is random; give a number for the same fit again.
    verbose : bool, default=False
        Show a progress bar.
    callbacks : sequence of callables, default=()
        Functions called with a `unmix.solvers.Progress` after every iteration; one that returns a status ends the fit.

    Attributes
    ----------
    components_ : array, K × m
        The topics; rows sum to one.
    result_ : Fit
        All that was found, with `proportions`, `topics` and `sizes`.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    LDA : With a prior of proportions, and their posterior.
    choose_topics : How many topics.
    fit_path : Many numbers of topics.

    Examples
    --------
    >>> import unmix as um
    >>> model = um.TopicModel(3, random_state=0).fit(um.datasets.correlated_topics("A"))
    >>> model.components_.sum(axis=1).round(12)
    array([1., 1., 1.])
    >>> model.result_.proportions.shape
    (100, 3)
    """

    _totals_given = True

    def transform(self, X: CountsLike | Shards, out: str | os.PathLike[str] | None = None) -> Floats:
        """Proportions of samples, given the fitted topics.

        Parameters
        ----------
        X : Counts, array-like or Shards
            Samples with the features of the fit.
        out : str or PathLike, default=None
            For `Shards`, which are gone through shard by shard: a .npy file for the answer.

        Returns
        -------
        array, n × K
            Rows sum to one.

        Raises
        ------
        ValueError
            If features are others than those of the fit.

        See Also
        --------
        Fit.transform : Features matched by name, and texts.

        Examples
        --------
        >>> import unmix as um
        >>> um.TopicModel.from_factors([[1, 0], [0, 1], [0, 1]]).transform([[6, 1, 1], [0, 4, 4]]).round(2)
        array([[0.75, 0.25],
               [0.  , 1.  ]])
        """
        if isinstance(X, Shards):
            return streamed.transform(self, X, out)
        _, L, F = self._loadings(X)
        return poisson_to_topics(L, F)[0]

    def inverse_transform(self, X: CountsLike) -> Floats:
        """The distributions over features of samples with these proportions.

        Parameters
        ----------
        X : array-like, n × K
            Proportions, as `transform` gives them.

        Returns
        -------
        array, n × m
            Rows sum to one. Dense: mind its size.

        Raises
        ------
        NotFittedError
            If there is no fit yet.

        Examples
        --------
        >>> import unmix as um
        >>> um.TopicModel.from_factors([[8, 0], [2, 5], [0, 5]]).inverse_transform([[0.5, 0.5]]).round(2)
        array([[0.4 , 0.35, 0.25]])
        """
        return super().inverse_transform(X)

    def _check_loadings_prior(self) -> None:
        if not isinstance(self.loadings_prior, Dirichlet | None):
            raise ValueError(
                f"loadings_prior={self.loadings_prior!r}; give None or unmix.Dirichlet(concentration) on proportions "
                "(a Gamma is for the loadings of PoissonNMF)"
            )

    def _solver(self) -> AnySolver:
        chosen = super()._solver()
        return chosen if self.loadings_prior is None else make_solver(PLSA(), self.extrapolate)

    @property
    def components_(self) -> Floats:
        """array, K × m: the topics; rows sum to one."""
        check_is_fitted(self, "result_")
        return np.ascontiguousarray(self.result_.topics.T)


TopicModel.__doc__ = named(TopicModel.__doc__)
