"""Topics for AnnData, in the manner of scanpy, which itself is not needed.

    import unmix as um

    um.sc.tl.topics(adata, n_topics=10, layer="counts")     # fit
    um.sc.pl.structure(adata, groupby="cell_type")          # look
    um.sc.tl.project(other, adata, layer="counts")          # the same topics in other cells
    um.sc.tl.differences(adata)                             # what distinguishes topics, as rank_genes_groups keeps it
    um.sc.to_fit(adata)                                     # the `Fit`, with all that unmix knows of it
    um.sc.from_fit(fit)                                     # an AnnData that holds a fit

`tl.topics` says where the results are kept. All of it is cut with the AnnData, and written with it.
"""

try:
    import anndata  # noqa: F401 - so that its absence is told once, here
except ImportError:
    raise ImportError("unmix.sc needs anndata; install it with: pip install anndata") from None

from unmix.sc import pl, tl
from unmix.sc.slots import from_fit, to_fit

__all__ = ["from_fit", "pl", "tl", "to_fit"]
