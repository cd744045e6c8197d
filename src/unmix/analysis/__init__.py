"""What can be computed from a fit, and nothing drawn: distinctive features, matched topics, typical samples, advice.

Topics are given by their numbers, from 1, as in every table; arrays that come back are in the order of the columns of L and F.
"""

from unmix.analysis.advice import advice
from unmix.analysis.alignment import Alignment, align
from unmix.analysis.application import transform
from unmix.analysis.catalogue import CatalogueMatch, match_catalogue
from unmix.analysis.choice import Choice
from unmix.analysis.coherence import coherence
from unmix.analysis.compare import Comparison, compare
from unmix.analysis.comparison import match_topics, topic_distances
from unmix.analysis.completion import perplexity
from unmix.analysis.consensus import consensus
from unmix.analysis.differences import Differences, differences
from unmix.analysis.features import distinctive_features, lifts, log_fold_change, top_features, topic_names
from unmix.analysis.freedom import freedom
from unmix.analysis.intervals import Intervals, intervals
from unmix.analysis.places import similarity_order, topic_map
from unmix.analysis.quality import Quality, diversity, exclusivity, held_out_lift, quality
from unmix.analysis.ranges import Freedom
from unmix.analysis.samples import fair_sample, typical_samples
from unmix.analysis.stability import Stability, stability
from unmix.analysis.topics import topic_order

__all__ = [
    "Alignment",
    "CatalogueMatch",
    "Choice",
    "Comparison",
    "Differences",
    "Freedom",
    "Intervals",
    "Quality",
    "Stability",
    "advice",
    "align",
    "coherence",
    "compare",
    "consensus",
    "differences",
    "distinctive_features",
    "diversity",
    "exclusivity",
    "fair_sample",
    "freedom",
    "held_out_lift",
    "intervals",
    "lifts",
    "log_fold_change",
    "match_catalogue",
    "match_topics",
    "perplexity",
    "quality",
    "similarity_order",
    "stability",
    "top_features",
    "topic_distances",
    "topic_map",
    "topic_names",
    "topic_order",
    "transform",
    "typical_samples",
]
