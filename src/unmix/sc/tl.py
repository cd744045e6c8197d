"""Tools: fit topics to the counts of an AnnData, find the same topics in others, and what distinguishes them."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from unmix.analysis import Differences, Effects, Prevalence
from unmix.analysis import differences as find
from unmix.analysis import effects as effects_of
from unmix.analysis import prevalence as means_of
from unmix.analysis.application import fit_of
from unmix.base.checks import ParameterError, choice, warn, whole
from unmix.base.types import Integers
from unmix.counts.counts import Counts
from unmix.counts.shards import Shards
from unmix.estimators import from_fit
from unmix.estimators.base import NO_COUNTS, CountsEstimator
from unmix.estimators.features import Missing, doubts, goodness, match_features, proportions_of, scales_of
from unmix.fit import Fit
from unmix.models.poisson import topics_to_poisson
from unmix.plot import topic_colors
from unmix.registry import WORDS, estimator_class, named
from unmix.sc.slots import colors_of, counts_of, fittable, to_fit, without_none, write

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["differences", "effects", "prevalence", "project", "topics"]


def topics(
    adata: AnnData,
    n_topics: int | None = None,
    *,
    model: str | CountsEstimator = "topics",
    layer: str | None = None,
    use_raw: bool = False,
    mask_var: str | NDArray[np.bool_] | None = None,
    batch_key: str | None = None,
    opportunities: Any = None,
    key_added: str = "topics",
    random_state: Any = 0,
    copy: bool = False,
    **options: Any,
) -> AnnData | None:
    """Fit topics to raw counts and keep them in `adata`.

    Parameters
    ----------
    adata : AnnData
        Annotated counts, cells × genes. In backed mode only the chosen matrix is read; if it would take more than half of the
        free memory, it is fitted from shards in a temporary folder.
    n_topics : int, default=None
        Number of topics; None is 10, or that of the estimator.
    model : str or estimator, default="topics"
        {models} ("topics" is the multinomial topic model); or an
        estimator such as `unmix.LDA(10, alpha=0.1)`, which then brings its own options and is fitted itself.
    layer : str, default=None
        Where the counts are; by default in `adata.X`.
    use_raw : bool, default=False
        Whether they are in `adata.raw` (of which the genes of `adata` are taken).
    mask_var : str or array of bool, default=None
        Fit some of the genes only: a column of `adata.var`, such as "highly_variable", or True and False for each gene.
        Unlike PCA in scanpy, all genes are taken by default.
    batch_key : str, default=None
        A column of `adata.obs`: effects of each batch on each gene are estimated with the topics.
    opportunities : array-like or DataFrame, default=None
        Known multipliers of rates, as in `TopicModel.fit`.
    key_added : str, default="topics"
        Under which name to keep the results.
    random_state : int, Generator or RandomState, default=0
        Seed of all that is random.
    copy : bool, default=False
        Leave `adata` as it is, and return a copy with the results. (Of a file that is open, a copy in memory.)
    **options : dict
        Further parameters of the estimator, such as `tol=1e-6`, `refine=4`, `alpha=0.1`, `n_jobs=4`.

    Returns
    -------
    AnnData or None
        The copy, if asked for.

    Raises
    ------
    ValueError
        If what is there are not counts, genes share names, or an option is invalid.

    See Also
    --------
    sc.tl.project : The same topics in other cells.
    sc.tl.differences : What distinguishes topics.
    sc.to_fit : The `Fit`.

    Notes
    -----
    These are set, for `key_added="topics"`:

    - `obsm["X_topics"]`, `varm["topics"]`: proportions, cells × topics, rows sum to one, as for
      `sc.pp.neighbors(use_rep="X_topics")`; topics, genes × topics, columns sum to one.
    - `obs["topics"]`, `uns["topics_colors"]`: the largest topic of each cell, "1" to "K" (missing for cells without
      counts), and the colours of topics in every figure of unmix, which scanpy uses.
    - `uns["topics"]`: "params", "trace", "status", "loglik", "kkt", "remaining_gain", "shares", "versions", "data", and what
      `to_fit` needs.
    - `obsm["topics_loadings"]`, `varm["topics_factors"]`: L and F of X ≈ L Fᵀ. Bayesian models also keep their posteriors:
      `obsm["topics_posterior_L"]` and `varm["topics_posterior_F"]`.
    - `varm["topics_batch_effects"]`, with `batch_key`: effects, genes × batches, in the order of
      `uns["topics"]["rates"]["batches"]`.
    - `obsm["topics_rates_groups"]`, `varm["topics_rates_…"]`: what `to_fit` needs of multipliers, where there are some.
    - `var["topics_mask"]`: which genes were fitted, if not all. The others have zeros in `varm`.

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> adata.obsm["X_topics"].shape, adata.varm["topics"].shape
    ((4, 2), (3, 2))
    """
    estimator = _estimator(model, n_topics, random_state, options)
    _check_writable(adata, copy, key_added)
    genes = _genes(adata, mask_var)
    with fittable(adata, layer, use_raw, genes) as counts:
        _warn_of_empty_cells(counts)
        with warnings.catch_warnings():
            if counts.in_memory:  # `counts_of` has said it, and where counts are
                warnings.filterwarnings("ignore", f".*{NO_COUNTS}")
            batch = None if batch_key is None else _labels(adata, batch_key)
            fit = estimator.fit(counts, batch=batch, opportunities=opportunities).result_
    column = mask_var if isinstance(mask_var, str) else None
    source = {"layer": layer, "use_raw": use_raw or None, "mask_var": column}
    places = np.arange(adata.n_vars) if genes is None else genes
    write(adata := _target(adata, copy), fit, key_added, places, source)
    return adata if copy else None


topics.__doc__ = named(topics.__doc__)


def _labels(adata: AnnData, batch_key: str) -> pd.Series:
    if batch_key not in adata.obs:
        raise ValueError(
            f"batch_key={batch_key!r}: adata.obs has no such column; it has {', '.join(map(str, adata.obs))}"
        )
    return adata.obs[batch_key]


def project(
    adata: AnnData,
    model: AnnData | Fit | CountsEstimator | str | os.PathLike[str],
    *,
    layer: str | None = None,
    use_raw: bool = False,
    missing: Missing | None = None,
    batch_key: str | None = None,
    key: str = "topics",
    key_added: str = "topics",
    copy: bool = False,
) -> AnnData | None:
    """Find the topics of a model in the cells of `adata`.

    Genes are matched by name. A warning says how many genes of the model `adata` does not have, and how many genes the model
    does not know, which are omitted.

    Parameters
    ----------
    adata : AnnData
        Cells to look at, with raw counts.
    model : AnnData, Fit, estimator, str or PathLike
        An AnnData that has been through `tl.topics`, a `Fit`, a fitted estimator, or the path of a saved fit or its folder.
    layer : str, default=None
        Where the counts are; by default in `adata.X`.
    use_raw : bool, default=False
        Whether they are in `adata.raw`.
    missing : {"unmeasured", "zero"}, default=None
        Genes of the model that `adata` does not have: "unmeasured" finds topics from the other genes, "zero" takes their counts
        as 0 in every cell. By default they are "unmeasured".
    batch_key : str, default=None
        A column of `adata.obs`, if the model has effects of batches: batches that it does not know have none.
    key : str, default="topics"
        If the model is an AnnData: under which name it keeps its topics.
    key_added : str, default="topics"
        Under which name to keep the results.
    copy : bool, default=False
        Leave `adata` as it is, and return a copy with the results.

    Returns
    -------
    AnnData or None
        The copy, if asked for. The same is set as by `tl.topics`, so that the same figures can be drawn; topics and colours
        are those of the model, there is no trace, and loadings are proportions times the counts of the cell. `obs` says how
        well each cell is explained, as `unmix.analysis.goodness_of_fit` has it: "topics_known", "topics_misfit" and
        "topics_rank". A warning reports this if half of the cells, or more, do not fit the model.

    Raises
    ------
    ValueError
        If what is there are not counts, or no gene has a name that the model knows.
    TypeError
        If the model is none of these.

    See Also
    --------
    sc.tl.topics, Fit.transform

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> query = anndata.AnnData(np.array([[5.0, 1, 0]]))
    >>> um.sc.tl.project(query, adata)
    >>> query.obs["topics"].tolist()
    ['1']
    """
    estimator, colors = _fitted(model, key)
    _check_writable(adata, copy, key_added)
    counts = counts_of(adata, layer, use_raw)
    batch = None if batch_key is None else _labels(adata, batch_key)
    counts = estimator._multiplied_as_in_fit(counts, batch, None)
    known = estimator.result_
    places = np.arange(len(known.F)) if known.features is None else adata.var_names.get_indexer(known.features)
    matched = match_features(counts, known, missing)
    if notes := matched.notes("gene", "adata", "the model"):
        warn("; ".join(notes))
    _warn_of_empty_cells(matched.counts)
    proportions = proportions_of(estimator, matched)
    explained = goodness(known, matched, proportions)
    if notes := doubts(known, [explained], "the model"):
        warn("; ".join(notes))
    fit = replace(
        known,
        L=topics_to_poisson(proportions, known.topics, matched.counts.sample_totals, scales_of(known))[0],
        trace=known.trace.iloc[:0],
        loglik=float("nan"),
        remaining_gain=float("nan"),
        samples=counts.samples,
        metadata=None,
        posterior={},
        priors={},
        rates={},
        data=matched.counts.facts,
        state=None,
    )
    genes = {"missing_genes": matched.missing, "unknown_genes": matched.unknown, "missing": matched.taken}
    source = {"layer": layer, "use_raw": use_raw or None, "projected": True, **genes}
    write(adata := _target(adata, copy), fit, key_added, places, source, colors)
    for name, values in explained.items():
        adata.obs[f"{key_added}_{name}"] = values.to_numpy()
    return adata if copy else None


def _estimator(
    model: str | CountsEstimator, n_topics: int | None, random_state: Any, options: dict[str, Any]
) -> CountsEstimator:
    if isinstance(model, CountsEstimator):
        if options:
            raise ValueError(f"{next(iter(options))}: pass options to the estimator itself")
        if n_topics not in (None, model.n_components):
            raise ValueError(f"n_topics={n_topics}, but the estimator has n_components={model.n_components}; use one")
        return model
    choice("model", model, tuple(WORDS), f"choose one of {', '.join(WORDS)}, or use an estimator of unmix")
    n_topics = whole("n_topics", 10 if n_topics is None else n_topics, 1, "use a whole number of topics >= 1")
    kind = estimator_class(WORDS[model])
    known = kind().get_params()
    if unknown := [name for name in options if name not in known]:
        own = ", ".join(sorted(set(known) - {"n_components", "random_state"}))
        raise ValueError(f"model {model!r} has no option {unknown[0]!r}; it has {own}")
    return kind(n_components=n_topics, random_state=random_state, **options)


def _fitted(
    model: AnnData | Fit | CountsEstimator | str | os.PathLike[str], key: str
) -> tuple[CountsEstimator, list[str]]:
    """An estimator that can transform, and the colours of its topics, from whatever holds a fit."""
    from anndata import AnnData

    if isinstance(model, AnnData):
        fit = to_fit(model, key)
        if model.uns[key]["params"].get("projected"):  # from the model of other cells
            raise ValueError(f"the topics under {key!r} were projected themselves; use the model they came from")
        return from_fit(fit), colors_of(model, key)
    if not isinstance(model, str | os.PathLike | Fit | CountsEstimator):
        kind = type(model).__name__
        raise TypeError(f"model is {kind}; use an AnnData with topics, a Fit, a fitted estimator, or a path")
    fit = fit_of(model)
    return model if isinstance(model, CountsEstimator) else from_fit(fit), topic_colors(fit)


def _genes(adata: AnnData, mask_var: str | NDArray[np.bool_] | None) -> Integers | None:
    """The places of the genes to fit, or None for all."""
    if mask_var is None:
        return None
    if isinstance(mask_var, str) and mask_var not in adata.var:
        known = ", ".join(map(repr, adata.var)) or "none"
        raise ValueError(f"mask_var: there is no column {mask_var!r} in adata.var; there are: {known}")
    given: Any = adata.var[mask_var] if isinstance(mask_var, str) else mask_var
    if isinstance(getattr(given, "dtype", None), pd.BooleanDtype):
        given = given.fillna(False).astype(bool)
    mask = np.asarray(given)
    if mask.dtype != np.bool_ or mask.shape != (adata.n_vars,):
        raise ValueError(
            f"mask_var is {mask.dtype} of shape {mask.shape}; use True or False for each of the {adata.n_vars:,} genes"
        )
    if not mask.any():
        raise ValueError("mask_var is False for every gene; there is nothing to fit")
    return np.flatnonzero(mask)


def _check_writable(adata: AnnData, copy: bool = False, key_added: str | None = None) -> None:
    """What would fail after the work is best said before it, or later: a file of AnnData with such a key cannot be read again."""
    if "/" in (key_added or ""):
        raise ParameterError("key_added", key_added, "use a name without /")
    if adata.isbacked and adata.is_view and not copy:
        raise ValueError("a view of a file that is open cannot keep results; use copy=True, or adata.to_memory() first")


def _warn_of_empty_cells(counts: Counts | Shards) -> None:
    if empty := counts.facts["empty_samples"]:
        warn(
            f"{empty:,} cell{'s have' if empty > 1 else ' has'} no counts in these genes, and so no topics; "
            "filter such cells out first"
        )


def _target(adata: AnnData, copy: bool) -> AnnData:
    """What results are kept in. A view becomes an AnnData of its own when it is changed, and anndata reports this."""
    return adata if not copy else adata.to_memory() if adata.isbacked else adata.copy()


# What distinguishes topics, kept as scanpy's `tl.rank_genes_groups` keeps its results.


def differences(
    adata: AnnData,
    *,
    against: Any = "next",
    layer: str | None = None,
    use_raw: bool = False,
    key: str = "topics",
    key_added: str | None = None,
    random_state: Any = 0,
    copy: bool = False,
    **options: Any,
) -> AnnData | None:
    """How much more, or less, each topic uses each gene than other topics do: `unmix.differences`, for scanpy's own plots.

    Parameters
    ----------
    adata : AnnData
        Cells that have been through `tl.topics`. All of its genes are tested, also those that the topics were not fitted to.
    against : str or int, default="next"
        What each topic is compared with: "next", the other topic that uses the gene most; "least", the one that uses it most
        alike; "rest", all others by their shares; "average", all cells; or one topic, by its number.
    layer : str, default=None
        Where the counts are; by default where `tl.topics` took them from.
    use_raw : bool, default=False
        Whether they are in `adata.raw`.
    key : str, default="topics"
        Under which name `tl.topics` or `tl.project` kept the topics.
    key_added : str, default=None
        Under which name to keep the results; by default `key` and "_differences".
    random_state : int, Generator or RandomState, default=0
        Decides what is held out.
    copy : bool, default=False
        Leave `adata` as it is, and return a copy with the results.
    **options : dict
        Other options of `unmix.differences`: `groups`, a column of `adata.obs` such as the donor, `held_out`, `errors`,
        `pseudocount`, `sizes`, `n_jobs`.

    Returns
    -------
    AnnData or None
        The copy, if asked for. `uns["topics_differences"]` is set, in the layout of `sc.tl.rank_genes_groups`, topics "1" to
        "K" being the groups and genes standing by their scores: "names", "scores" (z), "logfoldchanges" (log₂, shrunk),
        "pvals" (s-values: the part of wrong signs among all that are at least as sure), "pvals_adj" (local false sign rates,
        which are never smaller), "params", and "advice". Of genes without counts nothing is known: they come last, with a
        score of 0 and a rate of 1.
        So `sc.get.rank_genes_groups_df(adata, "3", key="topics_differences")` and `sc.pl.rank_genes_groups(adata,
        key="topics_differences")` work.

    Raises
    ------
    ValueError
        If there are no topics under that name, counts are not where they should be, or an option is invalid.

    See Also
    --------
    differences, sc.tl.topics

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> um.sc.tl.differences(adata)
    >>> adata.uns["topics_differences"]["names"].dtype.names
    ('1', '2')
    """
    _check_writable(adata, key_added=key_added)
    fit = to_fit(adata, key)
    source = adata.uns[key]["params"]
    if layer is None and not use_raw:
        layer, use_raw = source.get("layer"), bool(source.get("use_raw"))
    found = find(fit, counts_of(adata, layer, use_raw), against, random_state=random_state, **options)
    adata = _target(adata, copy)
    params = {"groupby": key, "reference": str(found.against), "method": "unmix.differences", "use_raw": use_raw}
    params |= {"errors": found.errors, "pseudocount": found.pseudocount, "corr_method": "lfsr"}
    params |= without_none({"layer": layer, "held_out": found.held_out})
    adata.uns[key_added or f"{key}_differences"] = _ranked(found) | {"params": params, "advice": found.advice()}
    return adata if copy else None


def _ranked(found: Differences) -> dict[str, Any]:
    """Record arrays with a field a topic, genes by their scores, the highest first."""
    scores = np.where(np.isfinite(found.z), found.z, 0.0)
    order = np.argsort(np.where(np.isfinite(found.z), -found.z, np.inf), axis=0, kind="stable")
    topics = [str(k + 1) for k in range(found.n_topics)]

    def records(values: np.ndarray, kind: str) -> np.recarray:
        columns = {topic: values[order[:, k], k] for k, topic in enumerate(topics)}
        return pd.DataFrame(columns).to_records(index=False, column_dtypes=dict.fromkeys(topics, kind))

    names = np.repeat(np.array(found.names, dtype=object)[:, None], found.n_topics, axis=1)
    return {
        "names": records(names, "O"),
        "scores": records(scores, "float32"),
        "logfoldchanges": records(np.nan_to_num(found.lfc), "float32"),
        "pvals": records(np.where(np.isfinite(found.z), found.svalue, 1.0), "float64"),
        "pvals_adj": records(found.lfsr, "float64"),
    }


def prevalence(
    adata: AnnData,
    groupby: str | ArrayLike | None = None,
    over: str | ArrayLike | None = None,
    *,
    groups: str | ArrayLike | None = None,
    key: str = "topics",
    key_added: str | None = None,
    **options: Any,
) -> Prevalence:
    """Mean proportions of topics by a column of `obs`, over another, or both, with intervals.

    Parameters
    ----------
    adata : AnnData
        That has been through `tl.topics` or `tl.project`.
    groupby : str or array-like, default=None
        Groups to compare, such as "condition": a column of `adata.obs`, or one value per cell.
    over : str or array-like, default=None
        Numbers or dates along which means are a trend, such as "pseudotime": a column of `adata.obs`, or one value per cell.
    groups : str or array-like, default=None
        What makes cells dependent, such as "donor". Intervals then take donors instead of cells to differ independently.
    key : str, default="topics"
        Under which name `tl.topics` or `tl.project` kept the topics.
    key_added : str, default=None
        Name in `adata.uns` under which the table is kept; by default "topics_prevalence".
    **options : dict
        Further parameters of `unmix.prevalence`, such as `level=0.95`.

    Returns
    -------
    Prevalence
        What `unmix.prevalence` gives; `um.plot.prevalence` draws it.

    Raises
    ------
    ValueError
        If there are no topics under that name, or there is no such column.

    See Also
    --------
    prevalence, plot.prevalence

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> adata.obs["condition"] = ["a", "a", "b", "b"]
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> um.sc.tl.prevalence(adata, "condition").table["samples"].tolist()
    [2, 2, 2, 2]
    """
    _check_writable(adata, key_added=key_added)
    found = means_of(to_fit(adata, key), groupby, over, groups, **options)
    adata.uns[key_added or f"{key}_prevalence"] = found.table.copy()
    return found


def effects(
    adata: AnnData,
    formula: str | ArrayLike,
    groups: str | ArrayLike | None = None,
    *,
    key: str = "topics",
    key_added: str | None = None,
    **options: Any,
) -> Effects:
    """How topics change with columns of `obs`, with tests that allow for cells of one donor being alike.

    Parameters
    ----------
    adata : AnnData
        That has been through `tl.topics` or `tl.project`.
    formula : str or array-like
        Such as "~ condition + s(age)": columns of `adata.obs`; or covariates, one row per cell.
    groups : str or array-like, default=None
        Which cells belong together, such as "donor": a column of `adata.obs`, or one value per cell.
    key : str, default="topics"
        Under which name `tl.topics` or `tl.project` kept the topics.
    key_added : str, default=None
        Name in `adata.uns` under which the table is kept; by default "topics_effects".
    **options : dict
        Further parameters of `unmix.effects`, such as `scale="log"`.

    Returns
    -------
    Effects
        What `unmix.effects` gives; `um.plot.effects` draws it.

    Raises
    ------
    ValueError
        If there are no topics under that name, or the formula cannot be fitted.

    See Also
    --------
    effects, plot.effects

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> adata.obs["condition"] = ["a", "a", "b", "b"]
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> um.sc.tl.effects(adata, "~ condition").tests["term"].tolist()
    ['condition', 'condition']
    """
    _check_writable(adata, key_added=key_added)
    fit = to_fit(adata, key)
    source = adata.uns[key]["params"]
    counts = counts_of(adata, source.get("layer"), bool(source.get("use_raw")))
    found = effects_of(fit, counts, formula, groups, **options)
    adata.uns[key_added or f"{key}_effects"] = found.table.copy()
    return found


def __dir__() -> list[str]:
    return __all__
