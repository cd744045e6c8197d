"""How a fit was made, so that it can be made again: command, Python, parameters, versions, data."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping

from unmix.fit import Fit
from unmix.registry import MODELS, estimator_class
from unmix.report.encode import Json, clean

FACTS = {
    "source": "source",
    "nonzeros": "nonzeros",
    "total": "total of all counts",
    "empty_samples": "samples without counts",
    "empty_features": "features without counts",
    "checksum": "checksum",
}


def recipe(fit: Fit) -> Json:
    command = fit.data.get("command")
    if isinstance(command, list | tuple):
        command = shlex.join(map(str, command))
    return {
        "command": None if command is None else str(command),
        "python": python_snippet(fit),
        "params": _pairs({key: value for key, value in fit.params.items() if key != "model"}),
        "versions": _pairs(fit.versions),
        "data": _pairs({label: fit.data[key] for key, label in FACTS.items() if fit.data.get(key) is not None}),
    }


def python_snippet(fit: Fit) -> str:
    """Lines that fit the same model again; only parameters that differ from their defaults are spelled out."""
    source = fit.data.get("source")
    data = fit.data.get("python") or (f"um.read({str(source)!r})" if source else "um.read(...)  # the counts")
    name = str(fit.params.get("model", ""))
    if name not in MODELS:
        return f'import unmix as um\n\nX = {data}\nfit = um.load("model.safetensors")'
    known = inspect.signature(estimator_class(name)).parameters
    arguments = f"n_components={fit.n_topics!r}"
    for key, value in fit.params.items():
        if key in known and key not in ("n_components", "verbose") and value != known[key].default:
            arguments += f", {key}={value!r}"
    return f"import unmix as um\n\nX = {data}\nmodel = um.{name}({arguments}).fit(X)\nfit = model.result_"


def _pairs(facts: Mapping[str, object]) -> list[list[str]]:
    return [[clean(key), _shown(value)] for key, value in facts.items()]


def _shown(value: object) -> str:
    if isinstance(value, float) and value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and value > 9999 else clean(value)
