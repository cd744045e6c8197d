"""Fits -> matplotlib pictures. Each function returns its Axes and takes one; none needs a display."""

from unmix.plot.convergence import convergence
from unmix.plot.palette import palette
from unmix.plot.structure import structure, topic_colours, topic_order

__all__ = ["convergence", "palette", "structure", "topic_colours", "topic_order"]
