"""Fits -> matplotlib figures. Each takes an Axes or makes one, and none needs a display.

Figures of one panel return their Axes; those of several return an array of Axes, and one Axes where one is given.
Topics are numbered from 1, as in every table. matplotlib itself is imported when something is drawn, so that the colours
and the order of topics cost nothing.
"""
# ruff: noqa: F401 - it exports what it imports

from unmix.analysis import topic_order
from unmix.base.types import public_names
from unmix.plot.curves import batch_effects, choice, convergence, effects, entropies, prevalence
from unmix.plot.differences import differences, held_out, volcano
from unmix.plot.samples import embedding, freedom, loadings_scatter, structure, usage
from unmix.plot.signature import signature
from unmix.plot.stability import alignment, quality, stability
from unmix.plot.style import palette, topic_colors
from unmix.plot.topics import assignment, matches, similarity, top_features, topic_features

__all__ = public_names(globals())
