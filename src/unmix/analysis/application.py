"""A fit applied to new samples, by the inference of the model that made it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union, cast

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import xlogy

from unmix.base.checks import plural, warn
from unmix.base.kinds import mutation_types
from unmix.base.types import Factor, Floats, Integers, Names, Record, as_names, numbered, order_by_name
from unmix.counts.counts import Counts, CountsLike, as_counts
from unmix.counts.data import Data, is_data
from unmix.fit import Fit, load
from unmix.io.write import MODEL_FILE
from unmix.models.variational import restore

if TYPE_CHECKING:
    from unmix.estimators.base import CountsEstimator
    from unmix.estimators.features import Missing

FitLike: TypeAlias = Union[Fit, "CountsEstimator", str, os.PathLike[str]]


CATALOGUES = (".csv", ".tsv", ".tab", ".txt")  # endings of tables of known factors


def fit_of(model: FitLike, otherwise: str = "use a fit's folder or its model.safetensors") -> Fit:
    """The fit that is meant: by itself, by the estimator that made it, by its file, or by its folder. Of a table of known
    factors, such as signatures of COSMIC, that of a model with these."""
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        file = path / MODEL_FILE if path.is_dir() else path
        if not file.is_file():
            problem = f"a folder without {MODEL_FILE}" if path.is_dir() else "no such file"
            raise FileNotFoundError(f"{path}: {problem}; {otherwise}")
        if file.suffix.lower() in CATALOGUES:
            from unmix.estimators.likelihood import PoissonNMF
            from unmix.io.read import read_catalogue

            return PoissonNMF.from_factors(read_catalogue(file)).result_
        return load(file)
    if not isinstance(model, Fit) and hasattr(type(model), "fit"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model, "result_")
        return model.result_
    if not isinstance(model, Fit):
        raise TypeError(f"{type(model).__name__} is not a fit; pass a Fit, a fitted estimator, or the path of one")
    return model


def known_topics(catalogue: Any, features: Names | None, m: int, what: str = "catalogue") -> tuple[Floats, Names]:
    """Topics of a catalogue over m features in the order of the counts, columns summing to one, and their names."""
    from unmix.io.read import read_catalogue

    if isinstance(catalogue, Fit) or hasattr(type(catalogue), "fit"):
        fit = fit_of(catalogue)
        table = pd.DataFrame(fit.topics, columns=fit.labels, index=fit.features)
    elif isinstance(catalogue, str | os.PathLike) and Path(catalogue).suffix.lower() not in CATALOGUES:
        return known_topics(fit_of(catalogue), features, m, what)
    elif isinstance(catalogue, pd.DataFrame | str | os.PathLike):
        table = read_catalogue(catalogue)
        unnamed = isinstance(catalogue, pd.DataFrame) and isinstance(catalogue.index, pd.RangeIndex)
        if unnamed and table.index.tolist() == [str(place) for place in range(len(table))]:  # which are places
            table = table.reset_index(drop=True)
    else:
        table = pd.DataFrame(np.asarray(catalogue, dtype=np.float64))
        table.columns = [f"topic {k + 1}" for k in range(table.shape[1])]
    names, F = [str(name) for name in table.columns], table.to_numpy(np.float64)
    if len(set(names)) < len(names):
        raise ValueError(
            f"{what}: two topics are called {pd.Index(names)[pd.Index(names).duplicated()][0]!r}; rename one"
        )
    if not np.isfinite(F).all() or (F < 0).any():
        name = names[int(np.flatnonzero(~(np.isfinite(F) & (F >= 0)).all(axis=0))[0])]
        raise ValueError(f"{what}: topic {name} has entries that are not numbers >= 0; correct or remove it")
    if isinstance(table.index, pd.RangeIndex) or features is None:
        if len(F) != m:
            raise ValueError(
                f"{what} has {len(F):,} features and X has {m:,}; use the same, or names of features on both sides"
            )
    else:
        F = F[_rows_of_catalogue([str(name) for name in table.index], features, names, what)]
    weights = F.sum(axis=0)
    if (dead := np.flatnonzero(weights == 0)).size:
        raise ValueError(f"{what}: topic {names[dead[0]]} has no weight on the features of X; remove it")
    return F / weights, as_names(names)


def _rows_of_catalogue(known: list[str], features: Names, topics: list[str], what: str) -> Integers:
    """Rows of a catalogue in the order of the features of the counts."""
    wanted = [str(name) for name in features]
    if not set(known) & set(wanted):  # types of mutations have many spellings
        known, wanted = mutation_types(known), mutation_types(wanted)
    place = {name: j for j, name in enumerate(known)}
    if len(place) < len(known):
        raise ValueError(
            f"{what}: two rows are called {pd.Index(known)[pd.Index(known).duplicated()][0]!r}; remove one"
        )
    missing = [str(given) for given, name in zip(features, wanted, strict=True) if name not in place]
    if len(missing) == len(wanted):
        turned = " (its columns are: transpose it)" if {*topics, *mutation_types(topics)} & {*wanted} else ""
        raise ValueError(
            f"no feature of the {what} ({known[0]} …) has a name that X knows ({features[0]} …){turned}; use features × topics, "
            "and compare the spelling"
        )
    if missing:
        raise ValueError(
            f"the {what} has no row for {plural(len(missing), 'feature')} of X ({', '.join(missing[:3])}"
            f"{', …' if len(missing) > 3 else ''}); add rows, with 0 where no topic has a feature, or remove it from X"
        )
    if extra := len(known) - len(set(wanted)):
        warn(
            f"{plural(extra, 'feature')} of the {what} {'is' if extra == 1 else 'are'} not in X: taken as not measured"
        )
    return np.array([place[name] for name in wanted], dtype=np.intp)


def multiplied(model: CountsEstimator, X: Counts, batch: Any, opportunities: Any) -> Counts:
    """The counts with multipliers of rates, if the model takes those, as all fits of an analysis have them."""
    return cast(Counts, model._multiplied(X, {"batch": batch, "opportunities": opportunities}))


def checked_by(X: Counts) -> Record:
    """What a file of finished parts has to agree with, of the data."""
    given = X.multipliers
    return {"data": X.facts["checksum"]} | ({} if given is None else {"multipliers": given.checksum})


def refuse_multipliers(fit: object, what: str) -> None:
    """Raises if a fit has multipliers of rates, where `what` would take its rates for those of the counts."""
    fit = getattr(fit, "result_", fit)
    if isinstance(fit, Fit) and fit.rates:
        raise ValueError(
            f"{what} does not support fits with multipliers of rates (batch, opportunities); use a fit without them"
        )


TOLD = {"held": "known topics", "partly": "seeded or partly known topics", "allowed": "allowed topics"}


def refuse_known(fit: object, what: str, *kinds: str) -> None:
    """Raises if a fit was given knowledge of topics, of one of these kinds (of `TOLD`; all by default), that `what` ignores."""
    fit = getattr(fit, "result_", fit)
    for kind in kinds or TOLD:
        if isinstance(fit, Fit) and _is_told(fit, kind):
            raise ValueError(f"{what} does not support fits with {TOLD[kind]}; use a fit without them")


def _is_told(fit: Fit, kind: str) -> bool:
    held = (fit.data.get("known") or {}).get("held", [])
    return {"held": any(held), "partly": not all(held), "allowed": "allowed" in fit.data}[kind]


def opened(X: Any, like: Fit | None = None) -> Any:
    """What is read of a path, texts as those of the fit; all else as it is."""
    from unmix.io.read import read

    return read(X, like=like) if isinstance(X, str | os.PathLike) else X


def data_of(X: Any, what: str, like: Fit | None = None) -> Data:
    """Counts of any kind: Counts and what they take, an AnnData, a path, shards."""
    if isinstance(X, Fit) or hasattr(type(X), "fit"):
        kind = type(X).__name__
        raise TypeError(f"{what}: expected counts, got a {kind}; check the order of the arguments")
    X = opened(X, like)
    return X if is_data(X) else as_counts(X)


def counts_in_memory(X: Any, what: str, *, sample: bool = False, like: Fit | None = None) -> Counts:
    """What `data_of` takes, in memory: of shards the sample, and a warning, or an error that says `what` does not take them."""
    data = data_of(X, what, like)
    if data.in_memory:
        return next(data.parts())
    if sample:
        if (n := len(data.sample)) < data.shape[0]:
            warn(f"{what} uses {n:,} of the {data.shape[0]:,} samples of these shards: shards.sample")
        return data.sample
    raise ValueError(f"{what} takes counts in memory, and these are shards; use shards.sample, or some of them")


def transform(
    fit: FitLike,
    X: CountsLike | Iterable[str],
    *,
    missing: Missing | None = None,
    batch: Any = None,
    opportunities: Any = None,
) -> Floats:
    """Proportions of the topics of a fit in new samples.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model, such as one that `unmix.load` read.
    X : Counts, array-like, AnnData or iterable of str
        Counts: anything that `Counts` takes, or an AnnData. Features are found by name where both sides have names. Those that
        the fit does not know are omitted, and a warning says how many there are. Or texts, a list of strings or a column of
        a DataFrame, whose words are counted as those of the fit were.
    missing : {"unmeasured", "zero"}, default=None
        Features of the fit that X does not have. "unmeasured": nothing is known of them, such as of genes that another chip
        lacks, and proportions are found from the others. "zero": they were counted and did not occur, such as items that a
        long table does not list. By default "zero" for a fit of texts and "unmeasured" for others; a warning says which.
    batch : str or array-like, default=None
        Where the fit has effects of batches, the batch of each sample: a column of the metadata, or labels.
    opportunities : array-like, sparse matrix or DataFrame, default=None
        Known multipliers of rates, as in `TopicModel.fit`.

    Returns
    -------
    array, n × K
        Rows sum to one.

    Raises
    ------
    ValueError
        If texts are given to a fit that was not made from texts, or no feature has a name that the fit knows.

    See Also
    --------
    Fit.transform, TopicModel.transform, sc.tl.project

    Examples
    --------
    >>> import unmix as um
    >>> texts = ["red roses red wine", "red wine wine", "white snow", "white snow snow roses"]
    >>> fit = um.TopicModel(2, random_state=0).fit(um.read_texts(texts)).result_
    >>> um.analysis.transform(fit, ["wine and snow"]).sum(axis=1).round(6)
    array([1.])
    """
    from unmix.estimators import from_fit  # and scikit-learn with it
    from unmix.estimators.base import FEWEST, LOOKED_AT
    from unmix.estimators.features import doubts, goodness, match_features, proportions_of

    fit = fit_of(fit)
    counts = _counted(fit, X, "unmix.analysis.transform")
    counts = fit._prepared(from_fit)._multiplied_as_in_fit(counts, batch, opportunities)
    matched = match_features(counts, fit, missing)
    if notes := matched.notes():
        warn("; ".join(notes))
    proportions = proportions_of(fit._prepared(from_fit), matched)
    if len(counts) >= FEWEST and (notes := doubts(fit, [goodness(fit, *matched.some(proportions, LOOKED_AT))])):
        warn("; ".join(notes))
    return proportions


def goodness_of_fit(fit: FitLike, X: CountsLike | Iterable[str], *, missing: Missing | None = None) -> pd.DataFrame:
    """How well a fit explains samples, such as those of a query that may not belong to it.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    X : Counts, Shards, array-like, AnnData or iterable of str
        Samples, as in `transform`; of shards, one part after the other.
    missing : {"unmeasured", "zero"}, default=None
        Features of the fit that X does not have, as in `transform`.

    Returns
    -------
    DataFrame
        One row per sample. `known`: the share of its counts in features that the fit has. `misfit`: the squared distance of its
        frequencies from those of the fit, relative to these and without what chance adds; 0 on average for Poisson counts.
        `rank`: the share of the fit's own samples, taken as new ones, whose misfit is at least as large. A rank of 0.5 is
        usual, one below 0.05 is poor; NaN if the fit does not know that of its samples, as one made from given factors.

    See Also
    --------
    analysis.transform : Which warns if half of the samples, or more, are explained poorly.

    Notes
    -----
    With y = x / t the frequencies of a sample, π those of the fit, and d the smaller one of t and the median total of the fit's
    samples, the misfit is Σ ((y − π)² − y / t) / (π + 0.3 / d). It does not grow with the depth of samples, as it has mean 0
    for Poisson counts. It looks at all counts: a new kind of cell that differs in a few genes may have ranks of 0.1. Where a
    fit has fewer than 20 samples per topic, ranks are too low, and bring no warning.

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(300 * rng.dirichlet(np.ones(3), 150) @ rng.dirichlet(np.ones(20), 3))
    >>> fit = um.TopicModel(3, random_state=0).fit(X[:120]).result_
    >>> new, other = (um.analysis.goodness_of_fit(fit, Y)["rank"].median() for Y in (X[120:], X[120:, ::-1]))
    >>> bool(new > 0.2), bool(other < 0.05)
    (True, True)
    """
    from unmix.estimators import from_fit
    from unmix.estimators.features import goodness, match_features, proportions_of

    fit = fit_of(fit)
    refuse_multipliers(fit, "goodness_of_fit")
    tables: list[pd.DataFrame] = []
    names: list[str | None] = []
    for part in _parts(fit, X, "unmix.analysis.goodness_of_fit"):
        matched = match_features(part, fit, missing)
        tables.append(goodness(fit, matched, proportions_of(fit._prepared(from_fit), matched)))
        names += [None] * len(part) if part.samples is None else part.samples.tolist()
    table = pd.concat(tables)
    samples = None if None in names else np.array(names)
    return table.set_axis(pd.Index(numbered(samples, "sample", len(table)), name="sample"), axis=0)


def responsibilities(fit: FitLike, X: CountsLike | Iterable[str]) -> Floats:
    """The probability that a count is of each topic, φ_ijk = l_ik f_jk / λ_ij: which topic is this word of?

    Parameters
    ----------
    fit : Fit, estimator, str or PathLike
        Of any model, or where one was written. With a posterior, l and f are exp E log; of an `AllocationModel`, φ of its own
        counts is S / x.
    X : Counts, array-like, AnnData or iterable of str
        Samples with the features of the fit, in any order where they have names; texts, where the fit was made from texts. Of
        `Shards`, take one of `shards.parts()` at a time. Loadings are the fit's own where X has its samples (by name, or the
        same counts), and inferred as in `transform` where they are new.

    Returns
    -------
    array, nonzeros × K
        A row per nonzero, in the order of `unmix.Counts(X).csr`; rows sum to one. `numpy.split(phi, X.csr.indptr[1:-1])` has
        one array per sample.

    Raises
    ------
    ValueError
        If X has other features than the fit, or texts are given to a fit that was not made from texts.

    See Also
    --------
    Fit.responsibilities, AllocationModel

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
    >>> phi = um.analysis.responsibilities(um.TopicModel(2, random_state=0).fit(X).result_, X)
    >>> phi.shape, phi.sum(axis=1).round(6).tolist() == [1] * X.nnz
    ((9, 2), True)
    """
    fit = fit_of(fit)
    counts = _counted(fit, X, "unmix.analysis.responsibilities")
    places = order_by_name("feature", (fit.features, len(fit.F)), (counts.features, counts.shape[1]), reorder=True)
    same = places is None and counts.facts["checksum"] == fit.data.get("checksum")
    if same and fit.allocation is not None:
        return fit.allocation / counts.rows.data[:, None]
    rows: Any = slice(None) if same else _rows_of(fit, counts)
    if rows is None:
        L, F = _inferred(fit, counts if places is None else counts.take(None, places))
    elif fit.priors:
        _, left, right = restore(fit.priors, fit.posterior)
        L, F = left.geometric[rows], right.geometric
    else:
        L, F = fit.L[rows], fit.F
    return counts.sides().left.responsibilities(L, F if places is None else F[np.argsort(places)])


def entropies(fit: FitLike, X: CountsLike) -> pd.DataFrame:
    """The entropies, in nats, of the marginals of S = x φ, by which log p(S) of the allocation model can be understood.

    By Stirling's formula S is probable if counts of a sample lie in few topics and counts of a topic in few features (the first
    two are low), while topics are of one size and cells are divided between topics (the last two are high).

    Parameters
    ----------
    fit : Fit, estimator, str or PathLike
        Of any model; of an `AllocationModel`, S is its own.
    X : Counts, Shards or array-like
        Counts, as in `responsibilities`; of shards, one part after the other.

    Returns
    -------
    DataFrame
        Rows `samples` (of S_ik), `features` (of S_jk), `topics` (of S_k) and `cells` (of S_ijk), each divided by the total.
        `entropy` is theirs. `conditional` is what is left of it without the entropy of the counts themselves, which no S
        changes: how uncertain the topic of a count is if its sample, its feature, neither or both are known, from 0 to log K.

    See Also
    --------
    analysis.responsibilities, plot.entropies

    Examples
    --------
    >>> import unmix as um
    >>> X = um.Counts([[8, 0, 0], [0, 4, 4]])
    >>> um.analysis.entropies(um.TopicModel.from_factors([[1, 0], [0, 1], [0, 1]]).result_, X).round(3)
              entropy  conditional
    samples     0.693        0.000
    features    1.040        0.000
    topics      0.693        0.693
    cells       1.040        0.000
    """
    fit = fit_of(fit)
    sums: dict[str, Any] = {"samples": 0.0, "features": 0.0, "topics": 0.0, "cells": 0.0}
    total = 0.0
    for part in _parts(fit, X, "unmix.analysis.entropies"):
        x = part.csr.data[:, None]
        S = np.hstack([x * responsibilities(fit, part), x])  # the last column for the counts themselves
        i, j = part.csr.tocoo().coords
        sums["samples"] += _xlogx(pd.DataFrame(S).groupby(i).sum().to_numpy())
        sums["features"] += np.asarray(
            sp.csr_array((np.ones(len(j)), (j, np.arange(len(j)))), (part.shape[1], len(j))) @ S
        )
        sums["topics"] += S.sum(axis=0, keepdims=True)
        sums["cells"] += _xlogx(S)
        total += part.total
    sums |= {name: _xlogx(sums[name]) for name in ("features", "topics")}
    rows = {name: np.log(total) - np.array([of[:-1].sum(), of[-1]]) / total for name, of in sums.items()}
    return pd.DataFrame.from_dict(
        {name: (entropy, entropy - of_counts) for name, (entropy, of_counts) in rows.items()},
        orient="index",
        columns=["entropy", "conditional"],
    )


def _xlogx(table: Floats) -> Floats:
    return xlogy(table, table).sum(axis=0)


def _inferred(fit: Fit, counts: Counts) -> tuple[Factor, Factor]:
    """Loadings of new samples, and factors; exp E log of them where there is a posterior."""
    from unmix.estimators import from_fit
    from unmix.estimators.features import Matched, proportions_of

    if not fit.priors:
        return proportions_of(fit._prepared(from_fit), Matched(counts)), fit.topics
    _, left, right = fit._prepared(from_fit)._infer(counts)
    return left.geometric, right.geometric


def _rows_of(fit: Fit, counts: Counts) -> Integers | None:
    """Where the samples of the counts stand in the fit; None if a name is missing there, or if names are not unique."""
    if fit.samples is None or counts.samples is None or len(set(fit.samples.tolist())) < len(fit.samples):
        return None
    rows = pd.Index(fit.samples).get_indexer(counts.samples)
    return None if (rows < 0).any() else rows


def counts_of(fit: Fit, X: CountsLike, what: str, where: str = "X") -> Counts:
    """The counts of the samples and features of a fit, in its order; an error if they are of others."""
    counts = counts_in_memory(X, what, like=fit)
    rows = order_by_name(
        "sample", (fit.samples, len(fit.L)), (counts.samples, counts.shape[0]), where=where, reorder=True
    )
    columns = order_by_name(
        "feature", (fit.features, len(fit.F)), (counts.features, counts.shape[1]), where=where, reorder=True
    )
    return counts if rows is None and columns is None else counts.take(rows, columns)


def with_samples(fit: Fit, X: CountsLike, what: str) -> Fit:
    """A fit of known factors, which has no samples, with the loadings of these, found as by `transform`."""
    from unmix.estimators import from_fit
    from unmix.estimators.features import Matched, proportions_of

    counts = counts_in_memory(X, what, like=fit)
    places = order_by_name("feature", (fit.features, len(fit.F)), (counts.features, counts.shape[1]), reorder=True)
    counts = counts if places is None else counts.take(None, places)
    proportions = proportions_of(fit._prepared(from_fit), Matched(counts))
    L = counts.sample_totals[:, None] * proportions / fit.F.sum(axis=0)
    return replace(fit, L=L, samples=counts.samples, metadata=counts.metadata)


def _parts(fit: Fit, X: Any, what: str) -> Iterator[Counts]:
    """Of shards one after the other; all else in one part."""
    data = X if is_data(X) else _counted(fit, X, what, shards=True)
    return data.parts()


def _counted(fit: Fit, X: Any, what: str, *, shards: bool = False) -> Any:
    from unmix.io.read import read_texts
    from unmix.io.read.text import are_tokens

    if isinstance(X, str) and (fit.text is None or os.path.exists(X)):
        X = Path(X)
    texts = (
        isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(entry, str) or are_tokens(entry) for entry in X)
    )
    if isinstance(X, str) or texts or (isinstance(X, pd.Series) and pd.api.types.is_string_dtype(X)):
        if fit.text is None:
            raise ValueError("the fit was not made from texts; use counts with its features")
        return read_texts(X, like=fit)
    return data_of(X, what, fit) if shards else counts_in_memory(X, what, like=fit)
