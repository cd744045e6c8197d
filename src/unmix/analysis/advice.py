"""A fit at a glance, as text and numbers: what terminal and page show of how it ended and of what it reached."""

from __future__ import annotations

from math import isnan

import numpy as np
import pandas as pd

from unmix.analysis.application import FitLike, fit_of
from unmix.analysis.freedom import WIDE, glimpse
from unmix.analysis.prevalence import batch_remarks, effect_remarks
from unmix.base.checks import ENDS, analysis, brief, objective, parameter, plural
from unmix.base.types import Integers
from unmix.fit import Fit
from unmix.models.poisson import column_shares
from unmix.solvers.search import MOVE


def ended(fit: Fit) -> str:
    """How, after how many iterations, and in which time."""
    if not len(fit.trace):
        return ENDS[fit.status]
    last = fit.trace.iloc[-1]
    iterations = plural(int(last.get("iteration", len(fit.trace) - 1)), "iteration")
    seconds = last.get("seconds", float("nan"))
    return f"{ENDS[fit.status]} after {iterations}{'' if isnan(seconds) else f', {seconds:.1f} s'}"


def figures(fit: Fit) -> dict[str, str]:
    """What is known of how the fit went, by name."""
    trace = fit.trace
    known = {"ended": ended(fit)}
    if not isnan(fit.remaining_gain):
        known["remaining gain"] = f"about {brief(fit.remaining_gain)}"
    if starts := [note for note in _notes(trace, "start") if note]:
        known["started from"] = ", ".join(starts)
    if fit.objective and len(trace) and "objective" in trace:
        known[fit.objective] = objective(trace["objective"].iloc[-1])
    if not isnan(fit.loglik):
        known["Poisson log-likelihood"] = objective(fit.loglik)
    if "kkt" in trace and not isnan(fit.kkt):
        known["KKT residual"] = f"{brief(fit.kkt)} (0 at an optimum)"
    if moves := [note for note in _notes(trace, "refine") if note.startswith(MOVE)]:
        known["moves to leave a poor optimum"] = f"{len(moves)} tried, {sum(': kept' in note for note in moves)} kept"
    return known


def outcome(fit: Fit) -> str:
    """How the fit ended and what it reached, in one line."""
    known = figures(fit)
    gain = f", remaining gain {known['remaining gain']}" if "remaining gain" in known else ""
    names = [name for name in (fit.objective, "Poisson log-likelihood", "KKT residual") if name in known]
    reached = ", ".join(f"{name} {known[name]}" for name in names)
    return f"{known['ended']}{gain}{': ' + reached if reached else ''}."


def _notes(trace: pd.DataFrame, stage: str) -> list[str]:
    if "stage" not in trace or "note" not in trace:
        return []
    return trace.loc[trace["stage"] == stage, "note"].fillna("").tolist()


# Sentences about a fit.

SMALL_SHARE = 0.05  # of the average topic's
FEW, SMALL = 8, 20_000  # topics, and numbers in both factors: up to there freedom is looked at without being asked for
SHORT, MANY = 20, 500  # counts of a sample, and samples: where whole samples say little of topics, and all do
ALIKE = 0.01  # units of the objective
PATTERNS = {
    "binary": "all counts are 1, as after binarisation; unmix models how often a feature occurs: use the counts from before "
    "(for ATAC, the fragments in each peak)",
    # Martens et al. (2024), Modeling fragment counts improves single-cell ATAC-seq analysis, Nature Methods 21
    "even": "even counts are more frequent than odd ones, as where both ends of an ATAC fragment are counted; fit fragments "
    "instead: half of each count, rounded up",
}


def advice(fit: FitLike) -> list[str]:
    """One sentence for each thing that a user may want to know or do about this fit.

    Parameters
    ----------
    fit : Fit, estimator or path
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
    fit, said = fit_of(fit), []
    if empty := fit.data.get("empty_samples", 0):
        said.append(f"{empty:,} sample{'s' * (empty > 1)} without any counts; all topics get the same proportion there")
    if fractional := fit.data.get("fractional", 0):
        said.append(f"{fractional:.1%} of the values are not whole numbers; unmix models counts")
    if pattern := PATTERNS.get(fit.data.get("pattern", "")):
        said.append(pattern)
    if len(light := unneeded(fit)):
        counts = brief(float((fit.sizes @ fit.proportions)[light].max()))
        which = f"topic {light[0] + 1} has" if len(light) == 1 else f"{len(light)} topics each have at most"
        said.append(f"{which} {counts} counts, which the other topics explain about as well: K may be too large")
    mean = fit.data.get("total", np.inf) / max(len(fit.L), 1)
    if mean < SHORT and len(fit.L) >= MANY and fit.params.get("model") != "AllocationModel":
        said.append(
            f"samples are short, {mean:.1f} counts on average: Gibbs sampling often finds better topics there "
            '(AllocationModel(method="gibbs"); --model allocation --set method=gibbs)'
        )
    said += batch_remarks(fit) + effect_remarks(fit)
    if len(fit.starts) > 1:
        said.append(_spread(fit))
    if fit.status == "max_iter" and fit.params.get("tol", 0) > 0 and "objective" in fit.trace:
        gains = fit.trace["objective"].diff()
        last = gains[gains > 0].iloc[-1:].sum()
        left = "" if isnan(fit.remaining_gain) else f", and the remaining gain is about {fit.remaining_gain:.2g}"
        said.append(f"not converged: the last iteration gained {last:.2g}{left}; increase {parameter('max_iter')}")
    small = fit.n_topics <= FEW and (len(fit.L) + len(fit.F)) * fit.n_topics <= SMALL
    told = fit.data.get("known") or "allowed" in fit.data
    if small and fit.status == "converged" and fit.sizes.any() and not told and not _has_a_prior(fit):
        topic, width = glimpse(fit)
        if width >= WIDE:
            said.append(
                f"the data leave topic {topic} open: at the same likelihood its proportion moves by {width:.0%} at least in "
                f"a mixed sample; {analysis('freedom')} gives the ranges of all"
            )
    return said


def unneeded(fit: Fit) -> Integers:
    """Columns of topics of a small share whose counts N f do not distinguish them from all others together, of shares g: twice
    their log-likelihood ratio, N Σ_j f_j log (f_j / g_j), is less than the number of entries that the topic has in both
    factors."""
    counts = fit.sizes @ fit.proportions
    rest = (fit.topics @ counts)[:, None] - fit.topics * counts
    rest = column_shares(np.maximum(rest, 0), 1 / len(rest)) + np.finfo(float).tiny
    ratios = np.log(np.where(fit.topics > 0, fit.topics / rest, 1.0))
    gains = 2 * counts * (fit.topics * ratios).sum(axis=0)
    entries = (fit.L > 0).sum(axis=0) + (fit.F > 0).sum(axis=0)
    return np.flatnonzero((fit.shares < SMALL_SHARE / fit.n_topics) & (gains <= entries))


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
