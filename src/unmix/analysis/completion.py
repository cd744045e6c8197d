"""Document completion: how well a model foresees counts that it was not shown.

Each count is hidden with some probability. The loadings of a sample are found from what is left, and the hidden counts are
predicted from them by the multinomial (1 − ε) Σ_k l_ik f_jk / Σ_jk l_ik f_jk + ε q_j, q the overall frequencies of features:

    perplexity = exp(−mean log probability).
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from unmix.counts import Counts
from unmix.models.topics import frequencies, with_background

if TYPE_CHECKING:
    from unmix.estimators.base import CountsEstimator


def perplexity(
    model: CountsEstimator,
    X: Counts | Iterable[Counts],
    *,
    held_out: float,
    smoothing: float = 0.0,
    rng: np.random.Generator,
) -> float:
    """Held-out perplexity of counts, perhaps in parts, by document completion; `perplexity` of estimators calls it.

    Parameters
    ----------
    model : estimator
        A fitted one.
    X : Counts or iterable of Counts
        Whole numbers.
    held_out : float
        The probability with which a count is held out.
    smoothing : float, default=0.0
        The share ε of the overall frequencies of features in every prediction.
    rng : Generator
        Decides what is held out.

    Returns
    -------
    float
        exp(−mean log probability of held-out counts); lower is better.

    Raises
    ------
    ValueError
        If `held_out` is not between 0 and 1, or counts are not whole numbers.

    See Also
    --------
    TopicModel.perplexity, choose_topics

    Examples
    --------
    >>> import numpy as np, unmix as um
    >>> X = um.Counts([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]])
    >>> model = um.TopicModel(2, random_state=0).fit(X)
    >>> rng = np.random.default_rng(0)
    >>> um.analysis.perplexity(model, X, held_out=0.5, smoothing=0.001, rng=rng) > 1
    True
    """
    if not isinstance(held_out, Real) or not 0 < held_out < 1:
        raise ValueError(f"held_out={held_out!r}; give a probability between 0 and 1")
    parts = [X] if isinstance(X, Counts) else X
    logliks, totals = zip(*(_foreseen(model, part, held_out, smoothing, rng) for part in parts), strict=True)
    return float(np.exp(-sum(logliks) / sum(totals))) if sum(totals) > 0 else 1.0


def _foreseen(
    model: CountsEstimator, X: Counts, held_out: float, smoothing: float, rng: np.random.Generator
) -> tuple[float, float]:
    """The log probability of the hidden counts, and how many they are."""
    X.require_whole("document completion")
    predicted, shown = X.thinned((held_out, 1 - held_out), rng)
    L, F = model.transform(shown), np.ascontiguousarray(model.components_.T)
    L[L.sum(axis=1) == 0] = 1.0  # nothing is known of the sample
    known = model.result_
    L, F = with_background(L, F, predicted.sample_totals, frequencies(known.L, known.F), smoothing)
    xlog = predicted.sides().left.xlogs(L, F).sum()
    return float(xlog - predicted.sample_totals @ np.log(L @ F.sum(axis=0))), predicted.total
