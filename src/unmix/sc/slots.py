"""Where a Fit is kept in an AnnData: `write` puts it there, `to_fit` takes it back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unmix.base.types import Factor, Floats, Integers, as_names
from unmix.estimators.features import rescaled, scales_of
from unmix.fit import Fit
from unmix.plot import topic_colours

if TYPE_CHECKING:
    from anndata import AnnData

# What uns[key]["params"] says beside the parameters of the model
SOURCE = ("layer", "use_raw", "mask_var", "projected", "missing_genes", "unknown_genes", "missing")


def write(
    adata: AnnData,
    fit: Fit,
    key: str,
    places: Integers,
    source: Mapping[str, object],
    colours: Sequence[str] | None = None,
) -> None:
    """Keep a fit of the cells of `adata` under `key`.

    `places` says where each feature of the fit stands among the genes of `adata`; −1 where it is not among them.
    `source` says where the counts came from: those of `SOURCE` that apply. `colours` are by default those of the fit.
    """
    _clear(adata, key)
    adata.obsm[f"X_{key}"] = fit.proportions.copy()
    adata.obsm[f"{key}_loadings"] = fit.L.copy()
    adata.varm[key] = _by_gene(fit.topics, places, adata.n_vars)
    adata.varm[f"{key}_factors"] = _by_gene(fit.F, places, adata.n_vars)
    others = {}
    for name, array in fit.posterior.items():
        if array.ndim < 2:  # one value per topic
            others[name] = array.copy()
        elif name.startswith("L"):
            adata.obsm[f"{key}_posterior_{name}"] = array.copy()
        else:
            adata.varm[f"{key}_posterior_{name}"] = _by_gene(array, places, adata.n_vars)
    largest = np.where(fit.sizes > 0, fit.proportions.argmax(axis=1), -1)  # missing where there are no counts to tell
    adata.obs[key] = pd.Categorical.from_codes(largest, [str(k + 1) for k in range(fit.n_topics)])
    fitted = np.isin(np.arange(adata.n_vars), places)
    if not fitted.all():
        adata.var[f"{key}_mask"] = fitted
    palette = np.array(topic_colours(fit) if colours is None else colours, dtype=object)
    adata.uns[key] = {
        "params": dict(fit.params) | dict(source),
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
    if fit.priors:
        adata.uns[key]["priors"] = dict(fit.priors)
    if others:
        adata.uns[key]["posterior"] = others
    if fit.text is not None:
        adata.uns[key]["text"] = json.dumps(fit.text)  # it may hold None, which not every version can write
    if fit.names is not None:
        adata.uns[key]["names"] = np.array(fit.names, dtype=object)
    adata.uns[f"{key}_colors"] = palette.copy()


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
        With all that unmix can tell of it.

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
    )
    return rescaled(fit, record["scales"])


def was_projected(adata: AnnData, key: str) -> bool:
    """Were these topics found by `tl.project`, with the model of other cells?"""
    return bool(adata.uns[key]["params"].get("projected"))


def from_fit(fit: Fit, key: str = "topics") -> AnnData:
    """An AnnData without X that holds a fit: its samples are the cells, its features the genes, its metadata `obs`.

    Parameters
    ----------
    fit : Fit
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

    table = pd.DataFrame(index=range(len(fit.L))) if fit.metadata is None else fit.metadata
    obs = table.set_axis(pd.Index(fit.sample_names.tolist(), dtype=object), axis=0).rename(columns=str)
    adata = AnnData(obs=obs, var=pd.DataFrame(index=pd.Index(fit.feature_names.tolist(), dtype=object)))
    write(adata, fit, key, np.arange(len(fit.F)), {})
    return adata


def colours_of(adata: AnnData, key: str) -> list[str]:
    """The colours of all topics: those of the fit, or those that have been put in their place since, for scanpy."""
    colours = {str(k + 1): str(colour) for k, colour in enumerate(adata.uns[key]["colors"])}
    chosen = adata.uns.get(f"{key}_colors", [])
    if key in adata.obs and isinstance(adata.obs[key].dtype, pd.CategoricalDtype):
        categories = adata.obs[key].cat.categories  # anndata drops those without cells, and their colours with them
        if len(chosen) == len(categories):
            colours |= {name: str(colour) for name, colour in zip(categories, chosen, strict=True) if name in colours}
    return list(colours.values())


def _clear(adata: AnnData, key: str) -> None:
    """What an earlier fit of another kind left under the same key would not be overwritten."""
    for axis in ("obsm", "varm"):
        for name in [name for name in getattr(adata, axis) if name.startswith(f"{key}_posterior_")]:
            del getattr(adata, axis)[name]  # looked up again: a view is replaced when it is changed
    if f"{key}_mask" in adata.var:
        adata.var = adata.var.drop(columns=f"{key}_mask")


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


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as Python's own, as they were before they were written."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in record.items()}
