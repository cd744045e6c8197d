"""What sets the topics in an AnnData apart, kept as `sc.tl.rank_genes_groups` keeps its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from unmix.analysis import Differences
from unmix.analysis import differences as find
from unmix.sc.counts import counts_of
from unmix.sc.slots import to_fit

if TYPE_CHECKING:
    from anndata import AnnData


def differences(
    adata: AnnData,
    *,
    against: Any = "next",
    errors: Any = "robust",
    groups: str | ArrayLike | None = None,
    held_out: float | None = None,
    pseudocount: float = 1.0,
    layer: str | None = None,
    use_raw: bool = False,
    key: str = "topics",
    key_added: str | None = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
    copy: bool = False,
) -> AnnData | None:
    """How much more, or less, each topic uses each gene than other topics do: `unmix.differences`, for scanpy's own plots.

    Parameters
    ----------
    adata : AnnData
        Cells that have been through `tl.topics`. All of its genes are tested, also those that the topics were not fitted to.
    against : str or int, default="next"
        What each topic is compared with: "next", the other topic that uses the gene most; "least", the one that uses it most
        alike; "rest", all others by their shares; "average", all cells; or one topic, by its number.
    errors : str, default="robust"
        "robust": as large as residuals of cells say, but no smaller than those of Poisson counts. "poisson": those alone.
    groups : str or array-like, default=None
        A column of `adata.obs`, such as the donor, or one value per cell: cells of a group are not independent of each other.
    held_out : float, default=None
        Part of the counts (0.5 is usual) that are kept from finding the topics and alone are tested.
    pseudocount : float, default=1.0
        How many counts' worth of belief there is, before any is seen, that all topics use a gene alike.
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
    n_jobs : int, default=None
        Threads; None or −1 for all available cores. The result does not depend on it.
    copy : bool, default=False
        Leave `adata` as it is, and return a copy with the results.

    Returns
    -------
    AnnData or None
        The copy, if asked for. `uns["topics_differences"]` is set, in the layout of `sc.tl.rank_genes_groups`, topics "1" to
        "K" being the groups and genes standing by their scores: "names", "scores" (z), "logfoldchanges" (log₂, shrunk),
        "pvals" (local false sign rates), "pvals_adj" (s-values: the part of wrong signs among all that are at least as sure),
        "params", and "advice". Of genes without counts nothing is known: they come last, with a score of 0 and a rate of 1.
        So `sc.get.rank_genes_groups_df(adata, "3", key="topics_differences")` and `sc.pl.rank_genes_groups(adata,
        key="topics_differences")` work.

    Raises
    ------
    ValueError
        If there are no topics under that name, counts are not where they should be, or an option does not mean anything.

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
    fit = to_fit(adata, key)
    source = adata.uns[key]["params"]
    if layer is None and not use_raw:
        layer, use_raw = source.get("layer"), bool(source.get("use_raw"))
    found = find(
        fit,
        counts_of(adata, layer, use_raw),
        against,
        errors,
        groups=groups,
        held_out=held_out,
        pseudocount=pseudocount,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    params = {"groupby": key, "reference": str(found.against), "method": "unmix.differences", "use_raw": use_raw}
    params |= {"errors": found.errors, "pseudocount": found.pseudocount, "corr_method": "svalue"}
    params |= {} if layer is None else {"layer": layer}
    params |= {} if held_out is None else {"held_out": held_out}
    adata.uns[key_added or f"{key}_differences"] = ranked(found) | {"params": params, "advice": found.advice()}
    return adata if copy else None


def ranked(found: Differences) -> dict[str, Any]:
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
        "pvals": records(found.lfsr, "float64"),
        "pvals_adj": records(found.svalue, "float64"),
    }
