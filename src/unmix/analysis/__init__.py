"""What can be computed from a fit, and nothing drawn: distinctive features, matched topics, typical samples, advice.

Topics are given by their numbers, from 1, as in every table; arrays that come back are in the order of the columns of L and F.
"""

from unmix.analysis.advice import advice
from unmix.analysis.application import transform
from unmix.analysis.catalogue import CatalogueMatch, match_catalogue
from unmix.analysis.compare import Comparison, compare
from unmix.analysis.comparison import match_topics, topic_distances
from unmix.analysis.completion import perplexity
from unmix.analysis.features import distinctive_features, lifts, log_fold_change, top_features, topic_names
from unmix.analysis.places import similarity_order, topic_map
from unmix.analysis.samples import fair_sample, typical_samples
from unmix.analysis.topics import topic_order

__all__ = [
    "CatalogueMatch",
    "Comparison",
    "advice",
    "compare",
    "distinctive_features",
    "fair_sample",
    "lifts",
    "log_fold_change",
    "match_catalogue",
    "match_topics",
    "perplexity",
    "similarity_order",
    "top_features",
    "topic_distances",
    "topic_map",
    "topic_names",
    "topic_order",
    "transform",
    "typical_samples",
]
