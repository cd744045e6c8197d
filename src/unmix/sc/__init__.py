"""Topics for AnnData, in the manner of scanpy, which itself is not needed.

    import unmix as um

    um.sc.tl.topics(adata, n_topics=10, layer="counts")     # fit
    um.sc.pl.structure(adata, groupby="cell_type")          # look
    um.sc.tl.project(other, adata, layer="counts")          # the same topics in other cells
    um.sc.to_fit(adata)                                     # the `Fit`, with all that unmix can tell of it
    um.sc.from_fit(fit)                                     # an AnnData that holds a fit

Where things are kept, for the default key "topics":

    obsm["X_topics"]            proportions, cells × topics, rows sum to one; sc.pp.neighbors(use_rep="X_topics")
    varm["topics"]              topics, genes × topics, columns sum to one; genes that took no part have zeros
    obs["topics"]               the largest topic of each cell, "1" to "K"; missing for cells without counts
    uns["topics"]               "params", "trace", "loglik", "kkt", "status", "shares", "versions", "data", ...
    uns["topics_colors"]        the colours of topics in every picture of unmix, which scanpy takes up
    obsm["topics_loadings"], varm["topics_factors"]     L and F of the Poisson NMF X ≈ L Fᵀ
    var["topics_mask"]          if only some genes were fitted: which

Bayesian models also keep their posteriors, as obsm["topics_posterior_L"] and varm["topics_posterior_F"].
All of it is cut with the AnnData, and written with it.
"""

try:
    import anndata  # noqa: F401 - so that its absence is told once, here
except ImportError:
    raise ImportError("unmix.sc needs anndata; install it with: pip install 'unmix[anndata]'") from None

from unmix.sc import pl, tl
from unmix.sc.slots import from_fit, to_fit

__all__ = ["from_fit", "pl", "tl", "to_fit"]
