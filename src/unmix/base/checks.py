"""Checks of values that a user gives, the error that names the parameter, its value and the remedy, and words for users.

    folds=0; use a whole number >= 1          in Python
    --folds 0; use a whole number >= 1        on the command line

Each check returns the value as a plain int, float or str. `parameter` names a parameter inside any other text: a message, a
note, an advice.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from numbers import Integral, Real
from typing import Any

NAME_ONLY: Any = object()
THROUGH = frozenset(["unmix", "contextlib", "sklearn"])  # of which frames a warning does not speak


def in_python(name: str, value: Any = NAME_ONLY) -> str:
    if value is NAME_ONLY:
        return name
    is_array = hasattr(value, "shape") and getattr(value, "size", 1) > 1  # which no message shows
    return f"{name}=<{type(value).__name__}>" if is_array else f"{name}={value!r}"


_form: Callable[..., str] = in_python  # of all threads: a program has either Python callers or a command line


def parameter(name: str, value: Any = NAME_ONLY) -> str:
    """A parameter, alone or with a value, as the user would type it.

    >>> parameter("layer", "counts"), parameter("layer")
    ("layer='counts'", 'layer')
    """
    return _form(name, value)


def analysis(name: str, **options: Any) -> str:
    """An analysis of a fit, as the user would request it: "unmix.freedom(fit)", or "unmix freedom"."""
    if _form is in_python:
        return f"unmix.{name}({', '.join(['fit', *('X' for _ in options), *(in_python(*one) for one in options.items())])})"
    return " ".join([f"unmix {name}", *(f"--{key.replace('_', '-')} {value}" for key, value in options.items())])


@contextmanager
def parameters_as(form: Callable[..., str]) -> Iterator[None]:
    """In this block, texts name parameters by `form(name, value)`, or `form(name, NAME_ONLY)`."""
    global _form
    before, _form = _form, form
    try:
        yield
    finally:
        _form = before


class ParameterError(ValueError):
    """A parameter has a value that it cannot have.

    >>> str(ParameterError("folds", 0, "give a whole number >= 1"))
    'folds=0; give a whole number >= 1'
    """

    def __init__(self, name: str, value: Any, remedy: str) -> None:
        super().__init__(name, value, remedy)
        self.name, self.value, self.remedy = name, value, remedy

    def __str__(self) -> str:
        return f"{parameter(self.name, self.value)}; {self.remedy}"


class InputError(ValueError):
    """A file or a folder is not what it should be.

    >>> str(InputError("model.npz", "not a fit", "use the folder of one"))
    'model.npz: not a fit; use the folder of one'
    """

    def __init__(self, path: Any, problem: str, remedy: str) -> None:
        super().__init__(path, problem, remedy)
        self.path, self.problem, self.remedy = path, problem, remedy

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}; {self.remedy}"


def whole(name: str, value: Any, least: int, remedy: str = "") -> int:
    """A whole number >= least; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(name, value, remedy or f"use a whole number >= {least}")
    return int(value)


def real(name: str, value: Any, least: float, remedy: str = "") -> float:
    """A finite number >= least."""
    if not _is_finite(value) or value < least:
        raise ParameterError(name, value, remedy or f"use a number >= {least:g}")
    return float(value)


def positive(name: str, value: Any, remedy: str = "") -> float:
    """A finite number > 0."""
    if not _is_finite(value) or value <= 0:
        raise ParameterError(name, value, remedy or "use a positive number")
    return float(value)


def share(name: str, value: Any, remedy: str = "", *, zero: bool = False) -> float:
    """A number > 0, or >= 0 where zero is allowed, and < 1."""
    if not _is_finite(value) or not (0 < value < 1 or (zero and value == 0)):
        raise ParameterError(
            name, value, remedy or f"use a {'number >= 0 and < 1' if zero else 'probability between 0 and 1'}"
        )
    return float(value)


def choice(name: str, value: Any, choices: Sequence[str], remedy: str = "") -> str:
    """One of several words."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(name, value, remedy or f"choose one of {', '.join(choices)}")
    return value


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


# Figures and words for users, made in one place, so that terminal, page and `repr` say the same.

ENDS = {"converged": "converged", "max_iter": "not converged", "interrupted": "interrupted"}


def plural(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """
    >>> listed(["1", "2", "5"])
    '1, 2 and 5'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def warn(message: str, kind: type[Warning] = UserWarning) -> None:
    """A warning that names the line of the user: the first one outside of unmix and of what it calls itself through."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in THROUGH:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def short(name: str, longest: int) -> str:
    """A name of at most this many letters."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


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
