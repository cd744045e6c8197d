"""Counts: the one validated form of data.

Everything a user may hand over (dense array, any scipy sparse matrix or array, DataFrame) becomes a canonical CSR matrix
of float64 counts with names. Nothing behind this point checks data again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from unmix.base.checks import parameter, warn
from unmix.base.kinds import size
from unmix.base.memory import BYTES_PER_NONZERO, IN_MEMORY, gigabytes, require
from unmix.base.types import Floats, Integers, Names, Record, as_names, check_names, with_unique_columns
from unmix.counts.canonical import arrays_of, canonical, narrowed, sparse_to_csr
from unmix.counts.data import Facts, Memory, Part, evenly
from unmix.counts.multipliers import Multipliers
from unmix.counts.sides import Sides
from unmix.kernels import CSR

CountsLike: TypeAlias = "ArrayLike | sp.sparray | sp.spmatrix | pd.DataFrame | Counts"


class Counts(Part):
    """n samples × m features of non-negative counts, with names: what every function here makes of the data it is given.

    Parameters
    ----------
    matrix : array-like, sparse matrix, DataFrame, AnnData or Counts
        Dense array, scipy sparse matrix or array, DataFrame (its index and columns become the names), AnnData (its X, with its
        names and obs), or `Counts`.
    samples, features : array-like of str, default=None
        Names; by default those of the DataFrame, or none.
    metadata : DataFrame, default=None
        A table with one row per sample, carried along. Columns that share a name get a number after it.
    text : dict, default=None
        If the counts are of words in texts: how they were counted (as `unmix.read` says it), so that new texts can be
        treated equally.

    Attributes
    ----------
    shape : tuple of int
        (n, m).
    samples, features : array of str, or None
        Names.
    metadata : DataFrame or None
        One row per sample.
    text : dict or None
        How words were counted.
    reading : str
        How the file was read, in one line; empty where there was no choice.

    Raises
    ------
    ValueError
        If a count is negative or not finite, there are no samples or features, or too few or too many names; the place is
        named.

    See Also
    --------
    read : Counts from a file.
    read_texts : Counts of words.
    Shards : Counts larger than memory.

    Examples
    --------
    >>> Counts([[1, 0, 2], [0, 3, 0]], features=["ant", "bee", "cat"])
    Counts(2 samples × 3 features, 3 nonzeros, total 6)
    """

    in_memory: ClassVar[bool] = True
    samples: Names | None
    features: Names | None
    metadata: pd.DataFrame | None
    text: Record | None
    reading: str = ""
    unknown: Floats | None = None  # words of each text that are not in the vocabulary of a fit
    multipliers: Multipliers | None = None  # of rates, where a fit was given some

    def __init__(
        self,
        matrix: CountsLike,
        samples: ArrayLike | None = None,
        features: ArrayLike | None = None,
        metadata: pd.DataFrame | None = None,
        text: Record | None = None,
    ) -> None:
        matrix = from_anndata(matrix)
        if isinstance(matrix, Counts):
            samples = matrix.samples if samples is None else samples
            features = matrix.features if features is None else features
            metadata = matrix.metadata if metadata is None else metadata
            text = matrix.text if text is None else text
            self.multipliers = matrix.multipliers
            self.rows, self.shape = matrix.rows, matrix.shape
        else:
            if isinstance(matrix, pd.DataFrame):
                samples = matrix.index if samples is None else samples
                features = matrix.columns if features is None else features
            csr = canonical(matrix)
            self.shape = csr.shape
            self.rows = arrays_of(csr)
        n, m = self.shape
        self.samples = _names(samples, n, "samples")
        self.features = _names(features, m, "features")
        if metadata is not None and not hasattr(metadata, "columns"):
            raise ValueError(f"metadata is a {type(metadata).__name__}; use a DataFrame with one row per sample")
        if metadata is not None and len(metadata) != n:
            raise ValueError(f"metadata has {len(metadata)} rows for {n} samples; use one row per sample")
        self.metadata = with_unique_columns(metadata)
        self.text = text

    def __repr__(self) -> str:
        shape = size(*self.shape, text=bool(self.text), names=(self.samples, self.features))
        return f"Counts({shape}, {self.nnz:,} nonzeros, total {amount(self.total)})"

    def __len__(self) -> int:
        return self.shape[0]

    @classmethod
    def trusted(
        cls,
        csr: sp.csr_array,
        samples: Names | None = None,
        features: Names | None = None,
        metadata: pd.DataFrame | None = None,
        text: Record | None = None,
    ) -> Self:
        """Of a CSR matrix that is canonical by construction: positive, finite, sorted, float64. Nothing is looked at again."""
        counts = object.__new__(cls)
        counts.rows, counts.shape = arrays_of(csr), csr.shape
        counts.samples, counts.features, counts.metadata, counts.text = samples, features, metadata, text
        return counts

    def take(self, rows: ArrayLike | None = None, features: ArrayLike | None = None) -> Self:
        """These samples with their names and metadata, and these features, in this order.

        Parameters
        ----------
        rows : array-like of int or bool, default=None
            Places of samples, or a truth value for each; all of them by default.
        features : array-like of str, int or bool, default=None
            Names of features, their places, or a truth value for each; all of them by default.

        Returns
        -------
        Self
            A copy.

        Raises
        ------
        ValueError
            If there is no such feature.

        Examples
        --------
        >>> Counts([[1, 0, 2], [0, 3, 0]], features=["ant", "bee", "cat"]).take(features=["cat", "ant"]).csr.toarray()
        array([[2., 1.],
               [0., 0.]])
        """
        csr, samples, metadata, names = self.csr, self.samples, self.metadata, self.features
        given = self.multipliers
        if rows is not None:
            rows = np.asarray(rows)
            given = None if given is None else given.take(rows)
            csr, samples = csr[rows], None if samples is None else samples[rows]
            metadata = None if metadata is None else metadata.iloc[rows]
        if features is not None:
            places = self._places(np.asarray(features))
            csr, names = csr[:, places], None if names is None else names[places]
            csr.sort_indices()
            if given is not None and given.known is not None:
                given = replace(given, known=given.known[:, places])
        return self.trusted(csr, samples, names, metadata, self.text).with_multipliers(given)

    def _places(self, wanted: NDArray[Any]) -> Integers:
        """Where features stand that are given by name, by place or by truth values."""
        m = self.shape[1]
        if wanted.dtype.kind == "b" and wanted.shape == (m,):
            return np.flatnonzero(wanted)
        if wanted.ndim == 1 and wanted.dtype.kind in "iu":
            if wanted.size and not (wanted.min() >= -m and wanted.max() < m):
                raise ValueError(
                    f"features: {wanted[(wanted < -m) | (wanted >= m)][0]} is out of range: use 0 to {m - 1}"
                )
            return wanted % m
        if wanted.ndim != 1 or wanted.dtype.kind not in "UO":
            raise ValueError(f"features: use their names, their places, or {m:,} truth values")
        if self.features is None:
            raise ValueError("features: these counts have no names of features; use places")
        place = {name: j for j, name in enumerate(self.features.tolist())}
        if unknown := [str(name) for name in wanted.tolist() if str(name) not in place]:
            more = f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else ""
            raise ValueError(f"features: there is no {', '.join(map(repr, unknown[:3]))}{more}; compare the spelling")
        if len(place) < m:
            twice = next((name for name in map(str, wanted.tolist()) if (self.features == name).sum() > 1), None)
            if twice is not None:
                raise ValueError(f"features: several are called {twice!r}; use places")
        return np.array([place[str(name)] for name in wanted.tolist()], dtype=np.int64)

    def with_values(self, values: Floats) -> Self:
        """Other values >= 0 in place of the nonzeros; entries that become zero are dropped."""
        csr = self.with_data(values).copy()
        csr.eliminate_zeros()
        counts = self.trusted(csr, self.samples, self.features, self.metadata, self.text)
        return counts.with_multipliers(self.multipliers)

    def with_multipliers(self, given: Multipliers | None) -> Self:
        """The same counts, of which this is known."""
        if given is None and self.multipliers is None:
            return self
        other = copy(self)
        other.multipliers = given
        return other

    def thinned(
        self, shares: int | Sequence[float], rng: np.random.Generator, *, overdispersion: float | Floats | None = None
    ) -> list[Self]:
        """Parts that add up to these counts: each count goes to one of them at random. Entries that become zero are dropped.

        Where counts are Poisson, or multinomial with given totals of samples, parts are independent of each other. Where their
        variance is μ + μ²/b they are so if every entry has shares of its own, drawn from a Dirichlet distribution of weight b.

        Parameters
        ----------
        shares : int or sequence of float
            Probabilities of the parts, which are made to sum to one, or a number of parts of equal shares.
        rng : Generator
            What draws.
        overdispersion : float or array, default=None
            b, for all features or one each; None for Poisson counts.

        Returns
        -------
        list of Self
            One per part, with the same names.

        Raises
        ------
        ValueError
            If counts are not whole numbers, or 2^63 and more.

        Examples
        --------
        >>> fitted, held_out = Counts([[4, 0, 2], [0, 6, 0]]).thinned(2, np.random.default_rng(0))
        >>> fitted.total + held_out.total
        12.0
        """
        self.require_whole("thinning")
        weights = np.ones(shares) if isinstance(shares, int) else np.asarray(shares, dtype=float)
        if weights.ndim != 1 or len(weights) < 1 or not np.isfinite(weights).all() or (weights <= 0).any():
            raise ValueError(f"shares={shares!r}; use a number of parts >= 1, or their probabilities > 0")
        weights = weights / weights.sum()
        b = None if overdispersion is None else np.asarray(overdispersion, dtype=float)
        if b is not None and (b.shape not in ((), (self.shape[1],)) or not (b > 0).all()):
            raise ValueError(f"overdispersion={overdispersion!r}; use numbers > 0, one or one for each feature")
        if b is not None and b.ndim:
            b = b[self.rows.indices]
        if self.nnz and (most := self.rows.data.max()) >= 2.0**63:
            raise ValueError(f"thinning needs counts below 2^63, and the largest is {most:g}; divide all by a constant")
        rest = self.rows.data.astype(np.int64)
        parts = []
        for place, weight in enumerate(weights[:-1]):
            later = weights[place + 1 :].sum()
            p = weight / (weight + later) if b is None else _beta(rng, b * weight, b * later, rest.size)
            part = rng.binomial(rest, p)
            rest -= part
            parts.append(self.with_values(part.astype(np.float64)))
        return [*parts, self.with_values(rest.astype(np.float64))]

    def with_features(self, places: Integers, features: Names) -> Self:
        """Columns moved to their `places` among other features, those with a place of −1 omitted, those that share one
        added."""
        known = np.flatnonzero(places >= 0)
        move = sp.csr_array((np.ones(known.size), (known, places[known])), shape=(self.shape[1], len(features)))
        csr = self.csr @ move
        csr.sort_indices()
        given = None if self.multipliers is None else self.multipliers.with_features(places, len(features))
        return self.trusted(csr, self.samples, features, self.metadata).with_multipliers(given)

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Integers, Self]]:
        """All samples in random order: their places, and they themselves, in batches of about equal size."""
        order = rng.permutation(self.shape[0])
        for rows in np.array_split(order, max(1, round(len(order) / size))):
            yield rows, self.take(rows)

    @property
    def sample(self) -> Self:
        """Counts: the samples that a fit starts from, which are all of them."""
        return self

    def some(self, most: int) -> tuple[Integers, Self]:
        """Up to this many samples, evenly spaced: their numbers, and they themselves."""
        rows = evenly(self.shape[0], most)
        return rows, self.take(rows)

    def parts(self) -> Iterator[Self]:
        """All samples, in one part."""
        yield self

    def engine(self, n_topics: int) -> Memory:
        """What visits the one part."""
        return Memory()

    def sides(self) -> Sides:
        """Its rows and its columns, as solvers ask them."""
        return Sides(self)

    def matvec(self, v: Floats) -> Floats:
        """X v."""
        return self.csr @ v

    def rmatvec(self, v: Floats) -> Floats:
        """Xᵀ v."""
        return self.csr.T @ v

    @property
    def nnz(self) -> int:
        """int: how many counts are not zero."""
        return len(self.rows.data)

    @cached_property
    def total(self) -> float:
        """float: the sum of all counts."""
        return float(self.rows.data.sum())

    @property
    def csr(self) -> sp.csr_array:
        """csr_array: the counts as a scipy CSR array that shares this object's memory."""
        return self.with_data(self.rows.data)

    @cached_property
    def columns(self) -> CSR:
        """The rows of the transpose, built once, when first asked for."""
        return arrays_of(self.csr.tocsc())

    @cached_property
    def transposed(self) -> CSR:
        """The same for kernels alone: whole numbers below 2^16 take two bytes instead of eight."""
        data = self.rows.data
        narrow = narrowed(data)
        return self.columns if narrow is data else arrays_of(self.with_data(narrow).tocsc())

    @cached_property
    def sample_totals(self) -> Floats:
        """array, n: the sum of each sample."""
        return np.asarray(self.csr.sum(axis=1)).ravel()

    @cached_property
    def feature_totals(self) -> Floats:
        """array, m: the sum of each feature."""
        return np.asarray(self.csr.sum(axis=0)).ravel()

    @cached_property
    def fractional(self) -> float:
        """float: the share of the nonzeros that are not whole numbers."""
        return float((self.rows.data % 1 != 0).mean()) if self.nnz else 0.0

    @cached_property
    def facts(self) -> Facts:
        """mapping: what a fit remembers of its data: size, oddities, and a checksum by which to know them again."""
        remembered = cache(partial(checksum, self.shape, self.rows))  # holds the counts, and not what is made of them
        return Facts.of(self, int((self.sample_totals == 0).sum()), remembered)

    def require_whole(self, purpose: str, remedy: str = "") -> None:
        """Raises if an entry is not a whole number, naming the first."""
        bad = np.flatnonzero(self.rows.data % 1 != 0)
        if bad.size:
            row, column = self.sides().left.place(bad[0])
            raise ValueError(
                f"{purpose} needs whole numbers: the entry at row {row}, column {column} "
                f"is {self.rows.data[bad[0]]:.10g}; use raw counts, or round them first{', ' if remedy else ''}{remedy}"
            )

    @cached_property
    def log_factorials(self) -> float:
        """Σ log Γ(x + 1), the constant of every likelihood here."""
        table = gammaln(np.arange(1 << 12) + 1.0)
        total = 0.0
        for start in range(0, self.nnz, 1 << 18):  # in blocks, for memory; from a table, for speed
            x = self.rows.data[start : start + (1 << 18)]
            small = x.max() < len(table) and np.array_equal(x, whole := x.astype(np.int32))
            total += float((table[whole] if small else gammaln(x + 1)).sum())
        return total


def checksum(shape: tuple[int, int], rows: CSR) -> str:
    """Of the counts alone."""
    digest = hashlib.sha256(repr(shape).encode())
    for array in rows:
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return f"sha256:{digest.hexdigest()}"


def amount(total: float) -> str:
    """A sum of counts for users: whole, but for a small one that is not.

    >>> amount(319_044.2382), amount(1234.0), amount(12.3456)
    ('319,044', '1,234', '12.3')
    """
    return f"{total:,.0f}" if total % 1 == 0 or abs(total) >= 100 else f"{total:.3g}"


def _beta(rng: np.random.Generator, one: Floats, other: Floats, size: int) -> Floats:
    """Drawn through gammas, as a share of two that are both zero to the last digit is a toss of a coin with their means."""
    first, second = rng.standard_gamma(one, size), rng.standard_gamma(other, size)
    both = first + second
    tossed = rng.random(size) < one / (one + other)
    return np.where(both > 0, first / np.where(both > 0, both, 1), tossed)


def _names(names: ArrayLike | None, expected: int, what: str) -> Names | None:
    if names is None:
        return None
    plain = names if isinstance(names, list) else np.asarray(names, dtype=object).ravel().tolist()
    texts = list(map(str, plain))
    if len(texts) != expected:
        raise ValueError(f"{len(texts)} names for {expected} {what}; use one name each")
    check_names(texts, what)
    return as_names(texts)


# Counts that are not in memory yet: an AnnData whose matrix is in a file, or a dask array. And which matrix of an AnnData to
# take, in memory or in a file.
#
# They are read whole if a fit needs at most 16 GB, and otherwise fitted as shards in a temporary folder. Fits of counts and of
# shards are two algorithms, so the size of the data decides, never what happens to be free.


@contextmanager
def fitting(X: Any) -> Iterator[Any]:
    """What to fit: X itself, or as long as this lasts `Shards` of it, if it is not in memory and too large for it."""
    if fits_in_memory(needed := memory_of(X)):
        yield X
        return
    with temporary_shards(X, needed) as shards:
        yield shards


def fits_in_memory(needed: float) -> bool:
    """Whether a fit of this many bytes is one in memory; an error if it is, and the memory is not free."""
    if needed > IN_MEMORY:
        return False
    require(needed, "a fit of these counts in memory", "write them with unmix.shard, and fit the shards")
    return True


@contextmanager
def temporary_shards(source: Any, needed: float, **options: Any) -> Iterator[Any]:
    """`unmix.shard` into a folder that goes in the end, and a word about it."""
    import unmix

    with TemporaryDirectory(prefix="unmix-") as folder:
        warn(
            f"a fit of these counts in memory would need {gigabytes(needed)}, more than {gigabytes(IN_MEMORY)}: they are written "
            f"as shards to a temporary folder, {folder}, and fitted from there; unmix.shard keeps them for the next time"
        )
        yield unmix.shard(source, Path(folder) / "counts.shards", **options)


def memory_of(X: Any) -> float:
    """Bytes of a fit of counts that are not in memory yet; 0 for all others."""
    matrix = X.X if is_anndata(X) else X
    if hasattr(matrix, "group") and "data" in matrix.group:  # a sparse matrix in a file
        return float(BYTES_PER_NONZERO * matrix.group["data"].shape[0])
    if type(matrix).__module__.partition(".")[0] in ("dask", "h5py", "zarr") and hasattr(matrix, "shape"):
        return float(BYTES_PER_NONZERO * np.prod(matrix.shape, dtype=float))  # at most
    return 0.0


def is_anndata(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "anndata" and hasattr(X, "obs_names")


def is_dask(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "rechunk")


def as_counts(X: CountsLike) -> Counts:
    """The same `Counts`, with what they know of themselves, or those that are made of X."""
    return X if isinstance(X, Counts) else Counts(X)


def with_names(X: CountsLike) -> Counts | None:
    """X, if it is `Counts` whose features have names."""
    return X if isinstance(X, Counts) and X.features is not None else None


def from_anndata(X: Any) -> Any:
    """`Counts` in X of an AnnData, with names and obs; all else as it is."""
    if not is_anndata(X):
        return X
    if X.X is None:
        raise ValueError("this AnnData has no X; use one of its layers, such as adata.layers['counts']")
    return Counts(in_memory(X.X), samples=X.obs_names, features=X.var_names, metadata=X.obs)


def in_memory(matrix: Any) -> Any:
    """A sparse matrix whose arrays are sound, or an array, also if it was one of an open file or a lazy one."""
    matrix = matrix.to_memory() if hasattr(matrix, "to_memory") else matrix.compute() if is_dask(matrix) else matrix
    return sparse_to_csr(matrix) if sp.issparse(matrix) else np.asarray(matrix)


def matrices_of(adata: Any) -> dict[str, Any]:
    """The matrices of an AnnData by the words for them: X, layer 'counts', raw. From anndata 0.13 on, X is a layer None too."""
    matrices = {} if adata.X is None else {"X": adata.X}
    matrices |= {f"layer {name!r}": adata.layers[name] for name in adata.layers if name is not None}
    return matrices if adata.raw is None else matrices | {"raw": adata.raw.X}


def chosen(matrices: Mapping[str, Any], layer: str | None, raw: bool, option: str = "raw") -> str:
    """The word for the matrix that is asked for, if it is there. `option` is what the caller calls `raw`."""
    if raw and layer is not None:
        raise ValueError(f"use {parameter('layer')} or {parameter(option, True)}, not both")
    name = "raw" if raw else "X" if layer is None else f"layer {layer!r}"
    if name not in matrices:
        raise ValueError(f"there is no {name} in it; it has {', '.join(matrices) or 'no matrix at all'}")
    return name


def elsewhere(
    matrices: Mapping[str, Any], name: str, values: Callable[[Any], NDArray[Any]], option: str = "raw"
) -> str:
    """Which other matrix holds counts, as the end of a sentence; nothing if none does. `values` gives some of a matrix."""
    for other, matrix in matrices.items():
        if other != name and are_counts(values(matrix)):
            use = {"X": f"leave layer and {option} out", "raw": f"use {parameter(option, True)}"}
            remedy = use.get(other, f"use {parameter('layer', other[7:-1])}")  # of layer 'counts'
            return f"; {other} holds whole numbers: {remedy}"
    return ""


def are_counts(values: NDArray[Any]) -> bool:
    """Whether there are values, and all are whole numbers >= 0."""
    if values.dtype.kind not in "biuf" or not values.size:
        return False
    with np.errstate(invalid="ignore"):
        return bool(((values >= 0) & (values % 1 == 0)).all())
