"""What an AnnData holds: its counts, and a Fit, which `write` puts there and `to_fit` takes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from unmix.analysis.application import FitLike, fit_of
from unmix.base.checks import warn
from unmix.base.types import Factor, Floats, Integers, as_names
from unmix.counts import counts as any_counts
from unmix.counts.counts import Counts, in_memory
from unmix.counts.shards import Shards
from unmix.estimators.base import MOST_FRACTIONS
from unmix.estimators.features import EXPLAINED, rescaled, scales_of
from unmix.fit import Fit
from unmix.plot import topic_colors

if TYPE_CHECKING:
    from anndata import AnnData

# What uns[key]["params"] says next to the parameters of the model
SOURCE = ("layer", "use_raw", "mask_var", "projected", "missing_genes", "unknown_genes", "missing")


def write(
    adata: AnnData,
    fit: Fit,
    key: str,
    places: Integers,
    source: Mapping[str, object],
    colors: Sequence[str] | None = None,
) -> None:
    """Keep a fit of the cells of `adata` under `key`.

    `places` says where each feature of the fit stands among the genes of `adata`; −1 where it is not among them.
    `source` says where the counts came from: those of `SOURCE` that apply. `colors` are by default those of the fit.
    """
    _clear(adata, key)
    adata.obsm[f"X_{key}"] = fit.proportions.copy()
    adata.obsm[f"{key}_loadings"] = fit.L.copy()
    adata.varm[key] = _by_gene(fit.topics, places, adata.n_vars)
    adata.varm[f"{key}_factors"] = _by_gene(fit.F, places, adata.n_vars)
    others = {}
    for name, array in fit.posterior.items():
        if array.ndim != 2:  # of topics alone
            others[name] = array.copy()
        elif name.startswith("L"):
            adata.obsm[f"{key}_posterior_{name}"] = array.copy()
        else:
            adata.varm[f"{key}_posterior_{name}"] = _by_gene(array, places, adata.n_vars)
    for name, array in fit.rates.items():
        if name == "groups":
            adata.obsm[f"{key}_rates_{name}"] = array[:, None].copy()
        elif array.ndim > 1:
            adata.varm[f"{key}_rates_{name}"] = _by_gene(array.T, places, adata.n_vars)
    if "batches" in fit.rates:
        effects = fit.batch_effects["effect"].to_numpy().reshape(-1, len(fit.F))
        adata.varm[f"{key}_batch_effects"] = _by_gene(effects.T, places, adata.n_vars)
    largest = np.where(fit.sizes > 0, fit.proportions.argmax(axis=1), -1)  # missing where there are not counts
    adata.obs[key] = pd.Categorical.from_codes(largest, [str(k + 1) for k in range(fit.n_topics)])
    fitted = np.isin(np.arange(adata.n_vars), places)
    if not fitted.all():
        adata.var[f"{key}_mask"] = fitted
    palette = np.array(topic_colors(fit) if colors is None else colors, dtype=object)
    adata.uns[key] = {
        "params": dict(fit.params) | without_none(source),
        "trace": fit.trace.copy(),
        "status": fit.status,
        "loglik": float(fit.loglik),
        "kkt": fit.kkt,
        "remaining_gain": float(fit.remaining_gain),
        "shares": fit.shares,
        "scales": scales_of(fit),
        "versions": dict(fit.versions),
        "data": dict(fit.data),
        "colors": palette,
    }
    adata.uns[key] |= without_none(
        {
            "priors": dict(fit.priors) or None,
            "posterior": others or None,
            "rates": {name: array for name, array in fit.rates.items() if array.ndim < 2 and name != "groups"} or None,
            "text": None
            if fit.text is None
            else json.dumps(fit.text),  # it may hold None, which AnnData's files do not
            "names": None if fit.names is None else np.array(fit.names, dtype=object),
        }
    )
    adata.uns[f"{key}_colors"] = palette.copy()


def without_none(values: Mapping[str, object]) -> dict[str, object]:
    """Those that are not None, which AnnData's files cannot hold."""
    return {name: value for name, value in values.items() if value is not None}


def to_fit(adata: AnnData, key: str = "topics") -> Fit:
    """The `Fit` that is kept under `key`, with `obs` as its metadata.

    Of an AnnData cut since then, it is the fit of the cells and genes that are left: topics are taken over those genes,
    and proportions are as they were.

    Parameters
    ----------
    adata : AnnData
        That has been through `tl.topics` or `tl.project`.
    key : str, default="topics"
        Under which name it keeps the topics.

    Returns
    -------
    Fit
        With all that unmix knows of it.

    Raises
    ------
    ValueError
        If there are no topics under that name, or none of their genes are left.

    Examples
    --------
    >>> import anndata, numpy as np, unmix as um
    >>> adata = anndata.AnnData(np.array([[9.0, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]))
    >>> um.sc.tl.topics(adata, n_topics=2)
    >>> um.sc.to_fit(adata).n_topics
    2
    """
    record = adata.uns.get(key)
    if f"{key}_loadings" not in adata.obsm or f"{key}_factors" not in adata.varm or not isinstance(record, Mapping):
        raise ValueError(
            f"there are no topics under {key!r} in this AnnData; run unmix.sc.tl.topics(adata, key_added={key!r}) first"
        )
    mask = f"{key}_mask"
    genes = np.flatnonzero(adata.var[mask]) if mask in adata.var else np.arange(adata.n_vars)
    if not len(genes):
        raise ValueError(f"none of the genes of the topics under {key!r} are left in this AnnData")
    posterior = _posterior(adata, key, genes)
    fit = Fit(
        L=np.array(adata.obsm[f"{key}_loadings"]),
        F=np.asarray(adata.varm[f"{key}_factors"])[genes],
        trace=record["trace"].reset_index(drop=True),
        status=record["status"],
        loglik=float(record["loglik"]),
        samples=as_names([str(name) for name in adata.obs_names]),
        features=as_names([str(name) for name in adata.var_names[genes]]),
        metadata=adata.obs,
        posterior=posterior,
        priors=_plain(record.get("priors", {})),
        params={name: value for name, value in _plain(record["params"]).items() if name not in SOURCE},
        versions=_plain(record["versions"]),
        data=_plain(record["data"]),
        text=json.loads(record["text"]) if "text" in record else None,
        remaining_gain=float(record.get("remaining_gain", np.nan)),
        names=as_names([str(name) for name in record["names"]]) if "names" in record else None,
        rates=_rates(adata, key, genes),
    )
    return rescaled(fit, record["scales"])


def from_fit(fit: FitLike, key: str = "topics") -> AnnData:
    """An AnnData without X that holds a fit: its samples are the cells, its features the genes, its metadata `obs`.

    Parameters
    ----------
    fit : Fit, estimator or path
        Of any model.
    key : str, default="topics"
        Under which name to keep it.

    Returns
    -------
    AnnData
        As `tl.topics` would leave it.

    Examples
    --------
    >>> import unmix as um
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> um.sc.from_fit(fit).obsm["X_topics"].shape
    (4, 2)
    """
    from anndata import AnnData

    fit = fit_of(fit)
    table = pd.DataFrame(index=range(len(fit.L))) if fit.metadata is None else fit.metadata
    obs = table.set_axis(pd.Index(fit.sample_names.tolist(), dtype=object), axis=0).rename(columns=str)
    adata = AnnData(obs=obs, var=pd.DataFrame(index=pd.Index(fit.feature_names.tolist(), dtype=object)))
    write(adata, fit, key, np.arange(len(fit.F)), {})
    return adata


def colors_of(adata: AnnData, key: str) -> list[str]:
    """The colours of all topics: those of the fit, or those that have been put in their place since, for scanpy."""
    colors = {str(k + 1): str(color) for k, color in enumerate(adata.uns[key]["colors"])}
    chosen = adata.uns.get(f"{key}_colors", [])
    if key in adata.obs and isinstance(adata.obs[key].dtype, pd.CategoricalDtype):
        categories = adata.obs[key].cat.categories  # anndata drops those without cells, and their colours with them
        if len(chosen) == len(categories):
            colors |= {name: str(color) for name, color in zip(categories, chosen, strict=True) if name in colors}
    return list(colors.values())


def _clear(adata: AnnData, key: str) -> None:
    """What an earlier fit of a different kind left under the same key would not be overwritten."""
    for axis in ("obsm", "varm"):
        kept = (f"{key}_posterior_", f"{key}_rates_", f"{key}_batch_effects")
        for name in [name for name in getattr(adata, axis) if name.startswith(kept)]:
            del getattr(adata, axis)[name]  # looked up again: a view is replaced when it is changed
    if f"{key}_mask" in adata.var:
        adata.var = adata.var.drop(columns=f"{key}_mask")
    if adata.uns.get(key, {}).get("params", {}).get("projected"):
        adata.obs = adata.obs.drop(columns=[f"{key}_{name}" for name in EXPLAINED], errors="ignore")


def _by_gene(array: Factor, places: Integers, n_genes: int) -> Factor:
    """Rows at their places; zeros elsewhere, as scanpy leaves them for genes that took no part."""
    spread = np.zeros((n_genes, array.shape[1]), dtype=array.dtype)
    spread[places[places >= 0]] = array[places >= 0]
    return spread


def _posterior(adata: AnnData, key: str, genes: Integers) -> dict[str, Floats]:
    prefix = f"{key}_posterior_"
    found = {name: np.asarray(array) for name, array in adata.uns[key].get("posterior", {}).items()}
    found |= {name.removeprefix(prefix): np.array(adata.obsm[name]) for name in adata.obsm if name.startswith(prefix)}
    return found | {
        name.removeprefix(prefix): np.asarray(adata.varm[name])[genes] for name in adata.varm if name.startswith(prefix)
    }


def _rates(adata: AnnData, key: str, genes: Integers) -> dict[str, NDArray[Any]]:
    """What the fit keeps of multipliers."""
    prefix, found = f"{key}_rates_", dict[str, NDArray[Any]]()
    for name, array in adata.uns[key].get("rates", {}).items():
        found[name] = as_names([str(label) for label in array]) if name in ("labels", "batches") else np.asarray(array)
    for name in adata.obsm:
        if name.startswith(prefix):
            found[name.removeprefix(prefix)] = np.asarray(adata.obsm[name])[:, 0].astype(np.int32)
    for name in adata.varm:
        if name.startswith(prefix):
            found[name.removeprefix(prefix)] = np.ascontiguousarray(np.asarray(adata.varm[name])[genes].T)
    return found


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as Python's own, as they were before they were written."""
    return {
        name: _plain(value) if isinstance(value, Mapping) else value.tolist() if isinstance(value, PLAIN) else value
        for name, value in record.items()
    }


PLAIN = (np.generic, np.ndarray)

# Counts: one of the matrices of an AnnData and nothing else, with the names and `obs`; or shards of it.

CELLS_AT_A_TIME = 8192  # of a file
CELLS_LOOKED_AT = 100  # to determine whether another matrix holds counts


def counts_of(adata: AnnData, layer: str | None = None, use_raw: bool = False, genes: Integers | None = None) -> Counts:
    """The counts in `adata.X`, in a layer or in `adata.raw`, of all genes or of those at the places `genes`.

    Of a file that is open (backed mode), only that matrix is read. Warns if it plainly does not hold counts, and says
    which one does.
    """
    if not adata.var_names.is_unique:
        raise ValueError("var_names are not unique; call adata.var_names_make_unique() first")
    place, matrix, others = _chosen(adata, layer, use_raw)
    matrix = in_memory(matrix)
    places, names = _columns(adata, use_raw, genes)
    if places is not None:
        matrix = matrix[:, places]
    try:
        counts = Counts(matrix, samples=adata.obs_names, features=names, metadata=adata.obs)
    except ValueError as error:
        raise ValueError(f"{place}: {error}{others()}") from error
    if (fractional := counts.facts["fractional"]) > MOST_FRACTIONS:
        warn(
            f"{place}: {fractional:.0%} of the values are not whole numbers, as after normalisation, and topics are "
            f"models of counts{others()}"
        )
    return counts


@contextmanager
def fittable(
    adata: AnnData, layer: str | None = None, use_raw: bool = False, genes: Integers | None = None
) -> Iterator[Counts | Shards]:
    """`counts_of`, or while this lasts shards of them, if they lie in a file and are too large for memory."""
    place, matrix, _ = _chosen(adata, layer, use_raw)
    if any_counts.fits_in_memory(needed := any_counts.memory_of(matrix)):
        yield counts_of(adata, layer, use_raw, genes)
        return
    places, names = _columns(adata, use_raw, genes)

    def blocks() -> Iterator[Any]:
        for first in range(0, adata.n_obs, CELLS_AT_A_TIME):
            block = in_memory(matrix[first : first + CELLS_AT_A_TIME])
            yield block if places is None else block[:, places]

    with ExitStack() as stack:
        try:
            shards = any_counts.temporary_shards(blocks(), needed, samples=adata.obs_names, features=names)
            found = stack.enter_context(shards)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        yield found


def _columns(adata: AnnData, use_raw: bool, genes: Integers | None) -> tuple[Integers | None, Any]:
    """The places of genes in the chosen matrix, None for all as they are, and their names."""
    names = adata.var_names if genes is None else adata.var_names[genes]
    if not use_raw:
        return genes, names
    if not adata.raw.var_names.is_unique:
        raise ValueError("adata.raw: its var_names are not unique; use a layer instead")
    places = adata.raw.var_names.get_indexer(adata.var_names)
    if absent := int((places < 0).sum()):
        raise ValueError(f"adata.raw: {absent:,} genes of adata are not in it; use a layer instead")
    return (places if genes is None else places[genes]), names


def _chosen(adata: AnnData, layer: str | None, use_raw: bool) -> tuple[str, Any, Callable[[], str]]:
    """The name of a matrix, as one would type it, the matrix, and a function that says where else counts are."""
    matrices = any_counts.matrices_of(adata)
    name = any_counts.chosen(matrices, layer, use_raw, "use_raw")
    place = f"adata.{name}" if layer is None else f"adata.layers[{layer!r}]"
    return place, matrices[name], lambda: any_counts.elsewhere(matrices, name, _values, "use_raw")


def _values(matrix: Any) -> NDArray[Any]:
    first = in_memory(matrix[:CELLS_LOOKED_AT])
    return first.data if sp.issparse(first) else first
