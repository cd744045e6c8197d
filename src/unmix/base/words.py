"""Figures and words for people, made in one place, so that terminal, page and `repr` say the same."""

from __future__ import annotations

ENDS = {"converged": "converged", "max_iter": "not converged", "interrupted": "interrupted"}


def plural(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def size(samples: int, features: int, *, text: bool) -> str:
    """
    >>> size(233, 10_065, text=False)
    '233 samples × 10,065 features'
    """
    sample, feature = ("document", "word") if text else ("sample", "feature")
    return f"{plural(samples, sample)} × {plural(features, feature)}"


def brief(number: float) -> str:
    """A figure for a line of text: whole where it is large, two digits where it is small."""
    return f"{number:,.0f}" if abs(number) >= 10 else f"{number:.2g}"


def objective(value: float) -> str:
    """A log-likelihood, or a bound of one.

    >>> objective(-975690.6213)
    '-975,690.6'
    """
    return f"{value:,.1f}"


def percent(part: float) -> str:
    """The share of a topic in all counts, or in a sample.

    >>> percent(0.19779)
    '19.8%'
    """
    return f"{part:.1%}"
