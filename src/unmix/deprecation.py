"""Public names that have changed keep working for one release, with a warning that says what to write instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

C = TypeVar("C", bound=Callable[..., Any])


def warn(what: str, instead: str, stacklevel: int = 3) -> None:
    warnings.warn(f"{what} will go in the next release; {instead}", FutureWarning, stacklevel=stacklevel)


def renamed_arguments(**renamed: str | None) -> Callable[[C], C]:
    """For a function, or the constructor of a class: old argument = new one, or None if it no longer means anything."""

    def decorate(callable_: C) -> C:
        function: Callable[..., Any] = getattr(callable_, "__init__") if isinstance(callable_, type) else callable_  # noqa: B009

        @wraps(function)
        def accepting(*args: Any, **kwargs: Any) -> Any:
            for old in renamed.keys() & kwargs.keys():
                value, new = kwargs.pop(old), renamed[old]
                warn(f"the argument {old}=", "leave it out" if new is None else f"write {new}=")
                if new is not None:
                    kwargs[new] = value
            return function(*args, **kwargs)

        if not isinstance(callable_, type):
            return accepting  # type: ignore[return-value]
        callable_.__init__ = accepting  # type: ignore[misc]
        return callable_

    return decorate


def renamed_names(module: str, renamed: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a module of which names have changed: old name = new one in the same module."""

    def getattr_(name: str) -> Any:
        if name not in renamed:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        import sys

        warn(f"{module}.{name}", f"write {module}.{renamed[name]}")
        return getattr(sys.modules[module], renamed[name])

    return getattr_
