"""Fits -> matplotlib pictures. Each takes an Axes or makes one, and none needs a display.

Pictures of one panel return their Axes; those of several return an array of Axes, and one Axes where one is given.
Topics are numbered from 1, as in every table. matplotlib itself is imported when something is drawn, so that the colours
and the order of topics cost nothing.
"""

from unmix.analysis import topic_order
from unmix.plot.convergence import convergence
from unmix.plot.embedding import embedding
from unmix.plot.loadings_scatter import loadings_scatter
from unmix.plot.palette import palette, topic_colours
from unmix.plot.signature import signature
from unmix.plot.similarity import similarity
from unmix.plot.structure import structure
from unmix.plot.top_features import top_features
from unmix.plot.topic_features import topic_features

__all__ = [
    "convergence",
    "embedding",
    "loadings_scatter",
    "palette",
    "signature",
    "similarity",
    "structure",
    "top_features",
    "topic_colours",
    "topic_features",
    "topic_order",
]
