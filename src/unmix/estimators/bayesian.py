"""BayesianPoissonNMF: Gamma priors on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unmix.counts import Counts
from unmix.estimators.base import Init
from unmix.estimators.variational import VariationalEstimator
from unmix.models.bayes import gamma_gamma
from unmix.models.priors import positive_number
from unmix.models.variational import Variational
from unmix.shards import Shards
from unmix.solvers.online import Online
from unmix.solvers.run import Callback
from unmix.types import Seed


class BayesianPoissonNMF(VariationalEstimator):
    """Bayesian Poisson factorisation: l_ik ~ Gamma(a, b), f_jk ~ Gamma(c, d) (shapes and rates), x_ij ~ Poisson(Σ_k l_ik f_jk).

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K.
    a : float, default=0.3
        Shape of the prior of loadings. Below 1 it favours few topics a sample.
    b : float, default=None
        Rate of the prior of loadings. None: such that the prior expects as many counts as there are.
    c : float, default=0.3
        Shape of the prior of factors. Below 1 it favours few features a topic.
    d : float, default=None
        Rate of the prior of factors. None: such that the prior expects as many counts as there are.
    init : str, pair of arrays or Fit, default="auto"
        "auto": from a short maximum-likelihood fit, which ends at better optima than a random start (Carbonetto et al.,
        section 4). Or "random" (almost equal topics), "topic-score", a pair (L0, F0), or a `Fit` of any model here, the best
        choice of all if it was fitted long: it starts from its factors.
    n_init : int, default=1
        Fits to choose from, each from a start of its own: the one that ends highest is kept. `result_.starts` tells how far
        apart they ended, which is how much the data leave open. Ctrl-C keeps the best so far; what is broken off is not
        resumed. Has no effect where `init` gives the start.
    inner : int, default=0
        Most updates of a sample's loadings before the factors move; a sample that stands still ends sooner. 0: both move
        together.
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
        Posterior means of the factors.
    elbo_ : float
        Lower bound of log p(X), all constants included.
    result_ : Fit
        All that was found; its `posterior` has shapes `L`, `F` and rates `L_rate`, `F_rate`.
    n_iter_ : int
        Iterations run.

    See Also
    --------
    PoissonNMF : The best fit alone.
    GammaPoisson : Topics that sum to one.

    Examples
    --------
    >>> import unmix as um
    >>> model = um.BayesianPoissonNMF(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
    >>> model.result_.posterior["F"].shape
    (3, 2)
    """

    newton_iterations = 10  # twice as many led higher on one of two data sets, and lower on the other

    def __init__(
        self,
        n_components: int = 10,
        *,
        a: float = 0.3,
        b: float | None = None,
        c: float = 0.3,
        d: float | None = None,
        init: Init = "auto",
        n_init: int = 1,
        inner: int | None = 0,
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
        self.a = a
        self.b = b
        self.c = c
        self.d = d
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

    def _model(self, X: Counts | Shards) -> Variational:
        a, c = (positive_number(name, getattr(self, name)) for name in "ac")
        (n, m), K = X.shape, self.n_components
        product = K * a * c * n * m / X.total  # b d for which the prior expects this total
        b, d = (None if (value := getattr(self, name)) is None else positive_number(name, value) for name in "bd")
        if b is None:
            b = np.sqrt(product) if d is None else product / d
        return gamma_gamma(K, a, b, c, product / b if d is None else d)
