"""What can be computed from a fit, and nothing drawn: distinctive features, matched topics, typical samples, advice.

Topics are given by their numbers, from 1, as in every table; arrays that come back are in the order of the columns of L and F.
"""
# ruff: noqa: F401 - it exports what it imports

from unmix.analysis.advice import advice
from unmix.analysis.align import Alignment, align, fit_table
from unmix.analysis.application import entropies, goodness_of_fit, responsibilities, transform
from unmix.analysis.assign import Assignment, assign
from unmix.analysis.choose import Choice, perplexity
from unmix.analysis.compare import CatalogueMatch, Comparison, compare, match_catalogue, match_topics, topic_distances
from unmix.analysis.differences import Differences, differences
from unmix.analysis.effects import Effects, effects
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
from unmix.analysis.prevalence import Prevalence, batch_summary, batch_topics, prevalence
from unmix.analysis.quality import Quality, coherence, diversity, exclusivity, held_out_lift, quality
from unmix.analysis.recommend import ranking, recommend, top_lists
from unmix.analysis.samples import fair_sample, typical_samples
from unmix.analysis.stability import Stability, consensus, stability
from unmix.base.types import public_names

__all__ = public_names(globals())
