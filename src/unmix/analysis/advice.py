"""Sentences about a fit."""

from __future__ import annotations

from math import isnan

from unmix.analysis.freedom import glimpse
from unmix.analysis.ranges import WIDE
from unmix.fit import Fit

ALMOST_NO_WEIGHT = 0.05  # of the average topic's share
FEW, SMALL = 8, 20_000  # topics, and numbers in both factors: up to there freedom is looked at without being asked for
ALIKE = 0.01  # units of the objective


def advice(fit: Fit) -> list[str]:
    """One sentence for each thing that a person may want to know or do about this fit.

    Parameters
    ----------
    fit : Fit
        Of any model.

    Returns
    -------
    list of str
        None if there is nothing to say.

    Examples
    --------
    >>> import unmix as um
    >>> X = [[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]
    >>> fit = um.TopicModel(2, tol=0, max_iter=3, random_state=0).fit(X).result_
    >>> all(isinstance(sentence, str) for sentence in um.analysis.advice(fit))
    True
    """
    said = []
    if empty := fit.data.get("empty_samples", 0):
        said.append(f"{empty:,} sample{'s' * (empty > 1)} without any counts; all topics get the same proportion there")
    if fractional := fit.data.get("fractional", 0):
        said.append(f"{fractional:.1%} of the values are not whole numbers; unmix models counts")
    if len(light := (fit.shares < ALMOST_NO_WEIGHT / fit.n_topics).nonzero()[0]):
        which = f"topic {light[0] + 1} has" if len(light) == 1 else f"{len(light)} topics each have"
        said.append(f"{which} almost no weight: K may be too large")
    if len(fit.starts) > 1:
        said.append(_spread(fit))
    if fit.status == "max_iter" and fit.params.get("tol", 0) > 0 and "objective" in fit.trace:
        gains = fit.trace["objective"].diff()
        last = gains[gains > 0].iloc[-1:].sum()
        left = "" if isnan(fit.remaining_gain) else f", and about {fit.remaining_gain:.2g} in all if it goes on"
        said.append(f"not converged: the fit still gains {last:.2g} an iteration{left}; raise max_iter")
    small = fit.n_topics <= FEW and (len(fit.L) + len(fit.F)) * fit.n_topics <= SMALL
    if small and fit.status == "converged" and fit.sizes.any() and not _has_a_prior(fit):
        topic, width = glimpse(fit)
        if width >= WIDE:
            said.append(
                f"the data leave topic {topic} open: at the same likelihood its proportion moves by {width:.0%} at least in "
                "a mixed sample; unmix.freedom(fit) gives the ranges of all"
            )
    return said


def _has_a_prior(fit: Fit) -> bool:
    """Or a penalty: something else than the likelihood that decides between fits of the same rates."""
    if fit.priors or "objective" not in fit.trace or not len(fit.trace):
        return bool(fit.priors)
    return not abs(fit.trace["objective"].iloc[-1] - fit.loglik) <= 1e-6 * abs(fit.loglik)


def _spread(fit: Fit) -> str:
    """How far apart several starts ended."""
    starts = fit.starts
    below = (starts["objective"].max() - starts["objective"]).sort_values().iloc[1:]
    what = fit.objective or "log-likelihood"
    ends = (
        f"{below.iloc[0]:,.3g} to {below.iloc[-1]:,.3g} below its {what}"
        if below.iloc[-1] >= ALIKE
        else f"at the same {what}"
    )
    return (
        f"the best of {len(starts)} starts: the others end {ends}, "
        f"and their proportions differ by up to {starts['difference'].max():.2g} on average"
    )
