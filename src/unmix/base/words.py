"""Figures and words for people, made in one place, so that terminal, page and `repr` say the same."""

from __future__ import annotations

import re
import shlex

ENDS = {"converged": "converged", "max_iter": "not converged", "interrupted": "interrupted"}

# Parameters by the option of the terminal: those that are called alike, and those that are not.
ALIKE = (
    *("layer", "raw", "transpose", "metadata", "encoding", "text_column", "id_column", "title_column", "snippets"),
    *("skip_bad", "min_df", "max_df", "stop_words", "ngrams", "max_iter", "burn_in", "sweeps", "held_out"),
)
OPTIONS = {name: "--" + name.replace("_", "-") for name in ALIKE} | {
    "n_components": "-k",
    "n_init": "--starts",
    "n_jobs": "--threads",
    "random_state": "--seed",
}
# a parameter, perhaps with its value, that is no part of a longer word, of the name of a file or of what stands in quotes
PARAMETER = re.compile(rf"(?<![\w'./-])(?P<name>{'|'.join(OPTIONS)})(?:=(?P<value>'[^']*'|[\w.]*\w))?(?![\w'/=]|\.\w)")
OF_THE_ESTIMATOR = re.compile(r"\b(max_iter(?: or tol)?) of the estimator")
FUNCTION = re.compile(r"\bunmix\.(\w+)\(fit\)")


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


def in_terminal_words(text: str) -> str:
    """What the library says of its parameters and functions, said of the options and commands of the terminal. Words in quotes
    are a user's.

    >>> in_terminal_words("use layer='counts', raw=True or transpose=False; name the field with text_column")
    'use --layer counts, --raw or --no-transpose; name the field with --text-column'
    >>> in_terminal_words("raise max_iter, or look at unmix.freedom(fit); or raise max_iter or tol of the estimator")
    'raise --max-iter, or look at unmix freedom; or raise max_iter or tol by --set'
    """
    parts = OF_THE_ESTIMATOR.split(FUNCTION.sub(r"unmix \1", text))
    return "".join(
        f"{part} by --set" if place % 2 else PARAMETER.sub(_option, part) for place, part in enumerate(parts)
    )


def _option(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    option = OPTIONS[name]
    if value is None:
        return option if "_" in name else found[0]  # "raw" is a word, too
    if value in ("True", "False"):
        return option if value == "True" else option.replace("--", "--no-")
    return f"{option} {'none' if value == 'None' else shlex.quote(value.strip(chr(39)))}"
