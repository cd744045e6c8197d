"""Names for the arrays that rooms hand to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Numbers in double precision."""

Factor = NDArray[np.floating[Any]]
"""L or F as a fit keeps it, in single or double precision."""

Integers = NDArray[np.intp]
"""Whole numbers that point at rows or columns."""
