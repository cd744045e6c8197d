"""Fits -> matplotlib pictures. Each takes an Axes or makes one, and none needs a display.

Pictures of one panel return their Axes; those of several return an array of Axes, and one Axes where one is given.
Topics are numbered from 1, as in every table. matplotlib itself is imported when something is drawn, so that the colours
and the order of topics cost nothing.
"""

from unmix.analysis import topic_order
from unmix.plot.alignment import alignment
from unmix.plot.choice import choice
from unmix.plot.convergence import convergence
from unmix.plot.differences import differences
from unmix.plot.embedding import embedding
from unmix.plot.freedom import freedom
from unmix.plot.held_out import held_out
from unmix.plot.loadings_scatter import loadings_scatter
from unmix.plot.palette import palette, topic_colours
from unmix.plot.quality import quality
from unmix.plot.signature import signature
from unmix.plot.similarity import similarity
from unmix.plot.stability import stability
from unmix.plot.structure import structure
from unmix.plot.top_features import top_features
from unmix.plot.topic_features import topic_features
from unmix.plot.volcano import volcano

__all__ = [
    "alignment",
    "choice",
    "convergence",
    "differences",
    "embedding",
    "freedom",
    "held_out",
    "loadings_scatter",
    "palette",
    "quality",
    "signature",
    "similarity",
    "stability",
    "structure",
    "top_features",
    "topic_colours",
    "topic_features",
    "topic_order",
    "volcano",
]
