"""A fit at a glance, in words and figures: what terminal and page show of how it ended and of what it reached."""

from __future__ import annotations

from math import isnan

import pandas as pd

from unmix.fit import Fit
from unmix.words import ENDS, brief, objective, plural


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
        known["left to gain"] = f"about {brief(fit.remaining_gain)}"
    if starts := [note for note in _notes(trace, "start") if note]:
        known["started from"] = ", ".join(starts)
    if fit.objective and len(trace) and "objective" in trace:
        known[fit.objective] = objective(trace["objective"].iloc[-1])
    if not isnan(fit.loglik):
        known["Poisson log-likelihood"] = objective(fit.loglik)
    if "kkt" in trace and not isnan(fit.kkt):
        known["KKT residual"] = f"{brief(fit.kkt)} (0 at an optimum)"
    if moves := [note for note in _notes(trace, "refine") if note.startswith("merge")]:
        known["moves to leave a poor optimum"] = f"{len(moves)} tried, {sum(': kept' in note for note in moves)} kept"
    return known


def outcome(fit: Fit) -> str:
    """How the fit ended and what it reached, in one line."""
    known = figures(fit)
    left = f", {known['left to gain']} left to gain" if "left to gain" in known else ""
    names = [name for name in (fit.objective, "Poisson log-likelihood", "KKT residual") if name in known]
    reached = ", ".join(f"{name} {known[name]}" for name in names)
    return f"{known['ended']}{left}{': ' + reached if reached else ''}."


def _notes(trace: pd.DataFrame, stage: str) -> list[str]:
    if "stage" not in trace or "note" not in trace:
        return []
    return trace.loc[trace["stage"] == stage, "note"].fillna("").tolist()
