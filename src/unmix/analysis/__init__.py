"""What can be computed from a fit, and nothing drawn: distinctive features, matched topics, typical samples, advice.

Topics are given by their numbers, from 1, as in every table; arrays that come back are in the order of the columns of L and F.
"""

from unmix.analysis.advice import advice
from unmix.analysis.align import Alignment, align
from unmix.analysis.application import transform
from unmix.analysis.choose import Choice, perplexity
from unmix.analysis.compare import CatalogueMatch, Comparison, compare, match_catalogue, match_topics, topic_distances
from unmix.analysis.differences import Differences, differences
from unmix.analysis.features import (
    distinctive_features,
    lifts,
    log_fold_change,
    similarity_order,
    top_features,
    topic_map,
    topic_names,
    topic_order,
)
from unmix.analysis.freedom import Freedom, freedom
from unmix.analysis.intervals import Intervals, intervals
from unmix.analysis.quality import Quality, coherence, diversity, exclusivity, held_out_lift, quality
from unmix.analysis.samples import fair_sample, typical_samples
from unmix.analysis.stability import Stability, consensus, stability

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
