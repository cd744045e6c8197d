"""SparsePoissonNMF: maximum likelihood with an l1 penalty on loadings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Literal, Self

import numpy as np

from unmix.counts import CountsLike
from unmix.estimators.base import Init
from unmix.estimators.likelihood import PoissonNMF, make_solver
from unmix.models.sparse import Sparsity
from unmix.solvers.base import AnySolver
from unmix.solvers.run import Callback
from unmix.solvers.sparse import SparseL1, SparseL2
from unmix.types import Seed


class SparsePoissonNMF(PoissonNMF):
    """Poisson NMF with an l1 penalty on loadings: minimise KL(X ‖ L Fᵀ) + penalty · Σ l_ik, columns of F held to norm one.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    penalty : float, default=1.0
        Its weight; 0 is maximum likelihood.
    norm : str, default="l2"
        "l2": columns of F have Euclidean norm one. Loadings become sparser as the penalty grows.
        "l1": columns of F sum to one. Then the penalty only divides the loadings by 1 + penalty: no topic leaves any sample
        (Geiger and Park, lemma 6.1). It is here to show that, and says so when it is used.
    extrapolate : bool, default=True
        Whether to accelerate the solver by extrapolation with restarts.
    init : str, pair of arrays or Fit, default="auto"
        "auto" (a search: several starts, whose topics are put together), "topic-score", "random", a pair of arrays (L0, F0),
        or a `Fit` (a warm start: 10 + 10 iterations equal 20).
    max_iter : int, default=500
        Most iterations, each of which updates L, then F.
    tol : float, default=1e-5
        The fit ends once what is left to gain, `result_.remaining_gain`, is at most `tol` per count. 0 runs exactly `max_iter`
        iterations.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    random_state : int, Generator or RandomState, default=None
        Seed of all that is random; give a number for the same fit again.
    verbose : bool, default=False
        Show a progress bar.
    callbacks : sequence of callables, default=()
        Functions called with a `unmix.solvers.Progress` after every iteration; one that returns a status ends the fit.

    Attributes
    ----------
    components_ : array, K × m
        The factors Fᵀ, rows of norm one.
    result_ : Fit
        All that was found.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    PoissonNMF : Without the penalty.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> models = [um.SparsePoissonNMF(3, penalty=w, tol=1e-3, random_state=0).fit(X) for w in (0, 5)]
    >>> none, sparse = ((model.transform(X) == 0).mean() for model in models)
    >>> bool(sparse > none)
    True
    """

    prefit, refine, prior, loadings_prior, online = 0, 0, None, None, None
    dtype: Literal["float64", "float32"] = "float64"

    def __init__(
        self,
        n_components: int = 10,
        *,
        penalty: float = 1.0,
        norm: Literal["l1", "l2"] = "l2",
        extrapolate: bool = True,
        init: Init = "auto",
        max_iter: int = 500,
        tol: float = 1e-5,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.n_components = n_components
        self.penalty = penalty
        self.norm = norm
        self.extrapolate = extrapolate
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(self, X: CountsLike, y: None = None) -> Self:
        """Fit the model to counts.

        Parameters
        ----------
        X : Counts or array-like
            Anything that `Counts` takes.
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

        Examples
        --------
        >>> import unmix as um
        >>> um.SparsePoissonNMF(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_.status
        'converged'
        """
        super().fit(X)
        if self.norm == "l1" and self.penalty > 0:
            warnings.warn(
                f'with norm="l1" the penalty only divides the loadings by {1 + self.penalty:g}; '
                'use norm="l2" for sparse loadings',
                UserWarning,
                stacklevel=2,
            )
        return self

    def _check_online(self) -> None:
        raise AttributeError("a penalty on loadings is not learned from mini-batches; use PoissonNMF or TopicModel")

    def _solver(self) -> AnySolver:
        if not isinstance(self.penalty, Real) or not 0 <= self.penalty < np.inf:
            raise ValueError(f"penalty={self.penalty!r}; give a number >= 0")
        if self.norm not in ("l1", "l2"):
            raise ValueError(f'norm={self.norm!r}; choose "l1" or "l2"')
        return make_solver(SparseL1() if self.norm == "l1" else SparseL2(), self.extrapolate)

    def _sparsity(self) -> Sparsity:
        return Sparsity(float(self.penalty), self.norm)
