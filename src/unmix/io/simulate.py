"""Simulated data: correlated topics (Carbonetto et al., data sets A and B), the Swimmer images, and cells in any number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unmix.base.checks import choice, whole
from unmix.counts.counts import Counts


class Truth(NamedTuple):
    """What simulated data were drawn from: proportions or loadings n × K, and topics or factors m × K."""

    L: NDArray[np.float64]
    F: NDArray[np.float64]


class SimulatedCounts(Counts):
    """Counts that know the truth behind them; those of `simulate` also the counts of each nonzero that are of each topic,
    nonzeros × K in the order of `Counts.csr`."""

    def __init__(self, matrix: Any, truth: Truth, allocation: NDArray[np.int64] | None = None, **names: Any) -> None:
        super().__init__(matrix, **names)
        self.truth, self.allocation = truth, allocation


def correlated_topics(name: Literal["A", "B"] = "A", seed: int = 0) -> SimulatedCounts:
    """Documents of up to 400 words from 6 topics whose proportions are correlated (Carbonetto et al. 2022, section 4).

    Proportions are softmax of a normal with variance 11 and covariance −2; in B topics 5 and 6 have covariance 8, so they come
    together. B has the topics and document lengths of A with the same seed. Words that never occur are dropped.

    Parameters
    ----------
    name : str, default="A"
        "A" or "B".
    seed : int, default=0
        For other documents of the same kind.

    Returns
    -------
    Counts
        100 documents; `truth` has the `L` and `F` they were drawn from.

    Raises
    ------
    ValueError
        If there is no data set of that name.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.correlated_topics("A")
    >>> X.shape, X.truth.F.shape
    ((100, 381), (381, 6))
    """
    choice("name", name, ("A", "B"))
    n, m, K = 100, 400, 6
    rng = np.random.default_rng(seed)
    level = np.abs(rng.normal(0, 3, m)) - 5
    spread = np.exp(-level / 3)
    spread = np.where(rng.random((m, K)) < 0.8, spread[:, None] / 10, spread[:, None])
    F = np.exp(np.maximum(rng.normal(level[:, None], spread), -5))
    F /= F.sum(axis=0)
    totals = np.ceil(10 ** rng.normal(3, 0.2, n)).astype(int)
    covariance = np.full((K, K), -2.0)
    np.fill_diagonal(covariance, 11)
    if name == "B":
        covariance[4, 5] = covariance[5, 4] = 8
    scores = rng.multivariate_normal(np.zeros(K), covariance, n, method="cholesky")
    L = np.exp(scores - scores.max(axis=1, keepdims=True))
    L /= L.sum(axis=1, keepdims=True)
    chances = L @ F.T
    X = rng.multinomial(totals, chances / chances.sum(axis=1, keepdims=True))
    seen = X.sum(axis=0) > 0
    words = np.array([f"word {j + 1}" for j in range(m)])
    return SimulatedCounts(
        X[:, seen], Truth(L, F[seen]), samples=[f"document {i + 1}" for i in range(n)], features=words[seen]
    )


# what a model draws from where nothing else is given, by the names of its estimator's parameters; `total` is of a sample
HYPER: dict[str, dict[str, Any]] = {
    "plsa": {"alpha": 1.0, "eta": 1.0, "total": 500},
    "lda": {"alpha": 0.5, "eta": 0.1, "total": 500},
    "gamma-poisson": {"shape": 0.5, "rate": 0.005, "eta": 0.1},
    "gamma-gamma": {"a": 0.5, "b": 0.1, "c": 0.3, "d": 0.6, "rate_shape": None},
    "allocation": {"a": 5.0, "b": 0.01, "alpha": 0.1, "beta": 0.5},
}


def simulate(
    model: Literal["plsa", "lda", "gamma-poisson", "gamma-gamma", "allocation"],
    n: int = 100,
    m: int = 200,
    n_components: int = 5,
    *,
    seed: int = 0,
    L: ArrayLike | None = None,
    F: ArrayLike | None = None,
    **hyper: ArrayLike,
) -> SimulatedCounts:
    """Counts drawn from a model of the family, with the truth: parameters from their priors, then counts by topic.

    Parameters
    ----------
    model : str
        "plsa" and "lda": `total` tokens per sample, each with a topic drawn from the proportions and a feature drawn from the
        topic; the proportions are Dirichlet(alpha), the topics Dirichlet(eta). "gamma-poisson": loadings are Gamma(shape,
        rate), topics Dirichlet(eta). "gamma-gamma": loadings are Gamma(a, b), factors Gamma(c, d); with `rate_shape`, of
        hierarchical Poisson factorisation, each sample and each feature has a rate of its own, Gamma distributed with this
        shape and mean b or d. "allocation": sizes are Gamma(a, b), topics Dirichlet(alpha), proportions Dirichlet(beta). The
        last three draw S_ijk ~ Poisson(l_ik f_jk).
    n : int, default=100
        Number of samples.
    m : int, default=200
        Number of features.
    n_components : int, default=5
        Number of topics.
    seed : int, default=0
        For other counts of the same kind.
    L : array-like, n × K, default=None
        Proportions or loadings to use instead of those of the prior; n is theirs.
    F : array-like, m × K, default=None
        Topics or factors to use instead of those of the prior; m is theirs.
    **hyper : float or array-like
        Parameters of the priors, by the names above: a number, or one per topic, feature or sample.

    Returns
    -------
    Counts
        `truth` has `L` and `F`; `allocation` the counts by topic, nonzeros × K in the order of `Counts.csr`.

    Raises
    ------
    ValueError
        If there is no such model or parameter.

    Examples
    --------
    >>> import unmix as um
    >>> X = um.datasets.simulate("lda", n=20, m=30, n_components=3, total=100)
    >>> X.shape, X.total, X.allocation.sum()
    ((20, 30), 2000.0, np.int64(2000))
    """
    choice("model", model, tuple(HYPER))
    if unknown := sorted(hyper.keys() - HYPER[model].keys()):
        raise ValueError(f"{unknown[0]!r} is not a parameter of {model!r}; choose one of {', '.join(HYPER[model])}")
    given = {name: np.asarray(value) for name, value in (HYPER[model] | hyper).items() if value is not None}
    rng, K = np.random.default_rng(seed), n_components
    L, F = (None if given is None else np.asarray(given, dtype=np.float64) for given in (L, F))
    n, m = n if L is None else len(L), m if F is None else len(F)
    K = K if L is None and F is None else (F if L is None else L).shape[1]  # type: ignore[union-attr]

    def gammas(rows: int, shape: str, rate: str) -> NDArray[np.float64]:
        draws = rng.gamma(np.broadcast_to(given[shape], (rows, K)))
        if "rate_shape" not in given:
            return draws / given[rate]
        return draws / (rng.gamma(given["rate_shape"], size=(rows, 1)) * given[rate] / given["rate_shape"])

    if F is None:
        on_topics = given.get("alpha" if model == "allocation" else "eta")
        F = gammas(m, "c", "d") if on_topics is None else rng.dirichlet(np.broadcast_to(on_topics, m), K).T
    if L is None and model.startswith("gamma"):
        L = gammas(n, *(("shape", "rate") if model == "gamma-poisson" else ("a", "b")))
    elif L is None:
        L = rng.dirichlet(np.broadcast_to(given["beta" if model == "allocation" else "alpha"], K), n)
        if model == "allocation":
            L *= rng.gamma(np.broadcast_to(given["a"], (n, 1))) / given["b"]
    if model in ("plsa", "lda"):
        by_topic = rng.multinomial(np.broadcast_to(given["total"], n), L / L.sum(axis=1, keepdims=True))
        S = np.stack([rng.multinomial(by_topic[:, k], F[:, k] / F[:, k].sum()) for k in range(K)], axis=2)
    else:
        S = rng.poisson(L[:, None] * F[None])
    X = S.sum(axis=2)
    return SimulatedCounts(sp.csr_array(X), Truth(L, F), S[X > 0])


def swimmer(counts_per_pixel: int = 50) -> SimulatedCounts:
    """256 images of 32 × 32 pixels: a torso and four limbs, each in one of four positions; 17 parts in all.

    Parameters
    ----------
    counts_per_pixel : int, default=50
        Where there is ink.

    Returns
    -------
    Counts
        `truth.F` has a part in each column, the torso last; `truth.L` the share of each part in an image.

    Raises
    ------
    ValueError
        If it is not a whole number >= 1.

    Examples
    --------
    >>> import unmix as um
    >>> um.datasets.swimmer().shape
    (256, 1024)
    """
    whole("counts_per_pixel", counts_per_pixel, 1)
    limbs = [(10, 15, -1, -1), (10, 17, 1, -1), (21, 15, -1, 1), (21, 17, 1, 1)]  # row, column, outwards, up or down
    parts = np.zeros((17, 32, 32))
    for limb, (row, column, out, way) in enumerate(limbs):
        for position, (dr, dc) in enumerate([(way, 0), (way, out), (0, out), (-way, out)]):
            for q in range(1, 7):
                parts[4 * limb + position, row + q * dr, column + q * dc] = 1
    parts[16, 10:22, 16] = 1
    shown = np.zeros((256, 17))
    shown[:, 16] = 1
    for image, positions in enumerate(product(range(4), repeat=4)):
        shown[image, [4 * limb + position for limb, position in enumerate(positions)]] = 1
    flat = parts.reshape(17, 1024)
    pixels = flat.sum(axis=1)
    truth = Truth(shown * pixels / (shown @ pixels)[:, None], (flat / pixels[:, None]).T)
    names = [f"row {r} column {c}" for r in range(32) for c in range(32)]
    return SimulatedCounts(counts_per_pixel * (shown @ flat), truth, features=names)


class Cells:
    """Single cells, drawn 4,096 at a time: an iterable of CSR blocks for `unmix.shard`, the same whenever it is gone through.

    Means of genes are log-normal; each of the `n_topics` programs raises 3% of them. Cells belong to one of 60 types, whose
    proportions of programs are a Dirichlet draw with few large entries, and vary around it; their depth is log-normal around
    2,600 counts. With 30,000 genes a cell has about 1,350 nonzeros.

    Parameters
    ----------
    n : int
        How many cells.
    n_genes : int, default=30_000
        Features.
    n_topics : int, default=20
        Programs.
    depth : float, default=2600
        The median of a cell's counts.
    seed : int, default=0
        For other cells of the same kind.

    Examples
    --------
    >>> cells = Cells(5_000, n_genes=1_000, n_topics=5)
    >>> [block.shape for block in cells]
    [(4096, 1000), (904, 1000)]
    """

    TYPES, BLOCK = 60, 4_096

    def __init__(self, n: int, n_genes: int = 30_000, n_topics: int = 20, depth: float = 2_600, seed: int = 0) -> None:
        self.n, self.n_genes, self.n_topics, self.depth, self.seed = n, n_genes, n_topics, depth, seed
        rng = np.random.default_rng(seed)
        means = rng.lognormal(0, 2.3, n_genes)[:, None]
        raised = rng.random((n_genes, n_topics)) < 0.03
        weights = means * np.where(raised, rng.lognormal(2, 1, (n_genes, n_topics)), 1.0)
        self.topics = weights / weights.sum(axis=0)
        self.types = rng.dirichlet(np.full(n_topics, 0.1), self.TYPES)
        self.features = np.array([f"gene {j + 1}" for j in range(n_genes)])

    def loadings(self, block: int) -> NDArray[np.float64]:
        """The truth about a block: expected counts of every program in its cells.

        Parameters
        ----------
        block : int
            Its number, from 0.

        Returns
        -------
        array, cells × programs
            One row per cell.

        Examples
        --------
        >>> Cells(5_000, n_genes=1_000, n_topics=5).loadings(1).shape
        (904, 5)
        """
        return self._loadings(block)[0]

    def __iter__(self) -> Iterator[sp.csr_array]:
        tables = [alias_table(self.topics[:, k]) for k in range(self.n_topics)]
        for block in range(-(-self.n // self.BLOCK)):
            loadings, rng = self._loadings(block)
            counts = rng.poisson(loadings)
            cells, genes = [], []
            for k, (chances, aliases) in enumerate(tables):
                tokens = int(counts[:, k].sum())
                first = rng.integers(0, self.n_genes, tokens, dtype=np.int32)
                genes.append(np.where(rng.random(tokens, dtype=np.float32) < chances[first], first, aliases[first]))
                cells.append(np.repeat(np.arange(len(counts), dtype=np.int32), counts[:, k]))
            places = (np.concatenate(cells), np.concatenate(genes))
            ones = np.ones(len(places[0]), dtype=np.float32)
            yield sp.csr_array(sp.coo_array((ones, places), shape=(len(counts), self.n_genes)))

    def _loadings(self, block: int) -> tuple[NDArray[np.float64], np.random.Generator]:
        rng = np.random.default_rng([self.seed, 1 + block])
        rows = min(self.BLOCK, self.n - block * self.BLOCK)
        shares = rng.gamma(10 * self.types[rng.integers(self.TYPES, size=rows)] + 1e-3)
        depth = rng.lognormal(np.log(self.depth), 0.5, rows)
        return depth[:, None] * shares / shares.sum(axis=1, keepdims=True), rng


def alias_table(chances: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Walker's alias method: a place drawn evenly is taken with its chance, or else its alias."""
    m = len(chances)
    scaled = chances * (m / chances.sum())
    kept, aliases = np.ones(m), np.arange(m, dtype=np.int32)
    small, large = ([*np.flatnonzero(part)] for part in (scaled < 1, scaled >= 1))
    while small and large:
        low, high = small.pop(), large[-1]
        kept[low], aliases[low] = scaled[low], high
        scaled[high] -= 1 - scaled[low]
        if scaled[high] < 1:
            small.append(large.pop())
    return kept.astype(np.float32), aliases
