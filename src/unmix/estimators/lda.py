"""LDA: Dirichlet proportions; topics are estimated, or Dirichlet, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from unmix.counts import Counts
from unmix.estimators.base import Init
from unmix.estimators.variational import VariationalEstimator
from unmix.models.lda import lda
from unmix.models.priors import positive
from unmix.models.variational import Variational
from unmix.shards import Shards
from unmix.solvers.online import Online
from unmix.solvers.run import Callback
from unmix.types import Floats, Seed


class LDA(VariationalEstimator):
    """Latent Dirichlet allocation: l*_i ~ Dirichlet(alpha), x_i ~ Multinomial(t_i, Σ_k l*_ik f*_k), by variational inference.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    alpha : float, array-like or "auto", default=1.0
        Dirichlet parameter of the proportions: a number, one a topic, or "auto" to learn one a topic.
    eta : float or array-like, default=None
        None: topics are estimated by maximum likelihood. A number, or one a feature: topics ~ Dirichlet(eta).
    init : str, pair of arrays or Fit, default="auto"
        "auto": from a short maximum-likelihood fit, which ends at better optima than a random start (Carbonetto et al.,
        section 4). Or "random" (almost equal topics), "topic-score", a pair (L0, F0), or a `Fit` of any model here, the best
        choice of all if it was fitted long: it starts from its factors.
    n_init : int, default=1
        Fits to choose from, each from a start of its own: the one that ends highest is kept. `result_.starts` tells how far
        apart they ended, which is how much the data leave open. Ctrl-C keeps the best so far; what is broken off is not
        resumed. Has no effect where `init` gives the start.
    inner : int, default=None
        Most updates of a sample's proportions before the topics move; a sample that stands still ends sooner. None: 20, or
        2 with extrapolation and `eta`. 0: proportions and topics move together.
    extrapolate : bool, default=True
        Whether to accelerate by moving on along the last change; the bound never falls either way. Not where a prior is
        learned, or in mini-batches.
    max_iter : int, default=1000
        Most iterations.
    tol : float, default=1e-5
        The fit ends once what is left to gain, `result_.remaining_gain`, is at most `tol` per count: with the default, ten
        units of the bound per million counts. 0 runs exactly `max_iter` iterations.
    refine : int, default=0
        Moves to try after convergence, to leave a poor local optimum: each puts the topics together with those of another fit,
        and is kept if the bound rises.
    online : Online, default=None
        `unmix.Online(...)`: iterations are passes in mini-batches, with steps of Robbins and Monro.
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    engine : str, default=None
        Who goes over `Shards`: None for this machine, or the one of `with unmix.engines.…`; a Dask cluster by the address of
        its scheduler (`"tcp://…"`, `"tls://…"`), its scheduler file (.json), or "local:2" for two processes here. The result
        does not depend on it.
    random_state : int, Generator or RandomState, default=None
        Seed of all that is random; give a number for the same fit again.
    verbose : bool, default=False
        Show a progress bar.
    callbacks : sequence of callables, default=()
        Functions called with a `unmix.solvers.Progress` after every iteration; one that returns a status ends the fit.

    Attributes
    ----------
    components_ : array, K × m
        The (mean) topics; rows sum to one.
    gamma_ : array, n × K
        The Dirichlet parameters of the proportions.
    alpha_ : array, K
        The prior, learned or given.
    elbo_ : float
        Lower bound of log p(X | sample totals), all constants included.
    result_ : Fit
        All that was found.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    TopicModel : Without priors.
    GammaPoisson : LDA that models sample sizes too.
    AllocationModel : The same model, sampled.
    intervals : How sure proportions and topics are.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> model = um.LDA(3, alpha=0.5, eta=0.1, tol=1e-4, random_state=0).fit(X)
    >>> model.components_.shape, model.gamma_.shape
    ((3, 381), (100, 3))
    >>> len(um.LDA(3, alpha="auto", init=model.result_, tol=1e-4).fit(X).alpha_)
    3
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        alpha: ArrayLike | Literal["auto"] = 1.0,
        eta: ArrayLike | None = None,
        init: Init = "auto",
        n_init: int = 1,
        inner: int | None = None,
        extrapolate: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-5,
        refine: int = 0,
        online: Online | None = None,
        n_jobs: int | None = None,
        engine: str | None = None,
        random_state: Seed = None,
        verbose: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.eta = eta
        self.init = init
        self.n_init = n_init
        self.inner = inner
        self.extrapolate = extrapolate
        self.max_iter = max_iter
        self.tol = tol
        self.refine = refine
        self.online = online
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def gamma_(self) -> Floats:
        """array, n × K: the Dirichlet parameters of the proportions."""
        check_is_fitted(self)
        return self.result_.posterior["L"]

    @property
    def alpha_(self) -> Floats:
        """array, K: the Dirichlet prior of the proportions, learned or given."""
        check_is_fitted(self)
        return self.result_.posterior["L_prior"]

    def _learns_prior(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "auto"

    def _model(self, X: Counts | Shards) -> Variational:
        alpha = 1.0 if self._learns_prior() else self.alpha
        eta = None if self.eta is None else positive("eta", self.eta, X.shape[1], "feature")
        return lda(positive("alpha", alpha, self.n_components, "topic"), eta)

    def _topics_keep_their_place(self) -> bool:
        return np.ndim(self.alpha) > 0

    def _check_online(self) -> None:
        if self._learns_prior():
            raise ValueError('alpha="auto" is learned from all samples; give a number for online learning')
