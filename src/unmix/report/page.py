"""The page: a template, a style, a script and the data of a fit, put together in one file that asks nothing of a network.

The script and the style are admitted by their hash, and nothing else is: even if a name from the data were ever taken for
markup, a browser would neither run it nor fetch anything for it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from unmix.analysis import Differences, Freedom, Stability
from unmix.analysis.results import Result
from unmix.files import replacing
from unmix.fit import Fit
from unmix.report.encode import clean, embeddable_json
from unmix.report.names import named_topics
from unmix.report.payload import payload
from unmix.report.sections import SECTIONS

SCRIPTS = (
    *("data", "copy", "dom", "state"),
    *("structure", "axis", "walk", "sample", "topics", "map", "time", "fit", "reproduce"),
    *SECTIONS,
    "main",
)  # one scope, in this order


def write_report(
    fit: Fit,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    differences: Differences | None = None,
    stability: Stability | None = None,
    freedom: Freedom | None = None,
    names: Sequence[str] | Mapping[int, str] | None = None,
) -> None:
    """Write one HTML file that shows a fit: who has which topics, what is in them, how they were found.

    The file works offline and from disk, and holds all it needs, in at most 15 MB: of more than 20,000 samples a fair part,
    and of the topics all weights above 1e-6 (more, where that would be too much; the page says so). Proportions are rounded
    to 1/65535, weights of features to 0.03 %.

    Parameters
    ----------
    fit : Fit
        Of any model.
    path : str or PathLike
        Where to, such as "report.html".
    title : str, default=None
        What the page is called.
    differences : Differences, default=None
        From `unmix.differences`: also shows what sets topics apart, and marks the features that surely do.
    stability : Stability, default=None
        From `unmix.stability`, with this fit as `reference`: also shows which topics are found again, and marks their cards.
    freedom : Freedom, default=None
        From `unmix.freedom`: also shows between which values proportions can move, and marks the cards of topics.
    names : list of str, or mapping of int to str, default=None
        What topics are called: one for each, or those of some by their numbers, from 1. Names that are given on the page are
        kept in the copy that it saves.

    Raises
    ------
    ValueError
        If an analysis is of another fit, or names do not fit.
    OSError
        If it cannot be written; what was there is then as it was.

    See Also
    --------
    Fit.with_names, plot.structure, report.write_choice

    Examples
    --------
    >>> import unmix as um, tempfile, pathlib
    >>> fit = um.TopicModel(2, random_state=0).fit([[9, 1, 0], [8, 2, 1], [0, 1, 7], [1, 0, 8]]).result_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(fit, pathlib.Path(folder, "report.html"), title="Animals")
    ...     pathlib.Path(folder, "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    """
    text = page(
        fit, title, names=names, results={"differences": differences, "stability": stability, "freedom": freedom}
    )
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", errors="replace"))


def page(
    fit: Fit,
    title: str | None = None,
    results: Mapping[str, Result | None] | None = None,
    names: Sequence[str] | Mapping[int, str] | None = None,
) -> str:
    """The text of the page; `results` are those of further analyses, by the names in `SECTIONS`."""
    title = clean(title if title is not None else fit.data.get("title") or fit.data.get("source") or "Topics")
    names = fit.names.tolist() if names is None and fit.names is not None else names
    style = _static("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_static(f"{name}.js") for name in SCRIPTS) + "})();\n"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "title": html.escape(title),
        "policy": policy,
        "style": style,
        "script": script,
        "data": embeddable_json(payload(fit, title, results=results) | {"names": named_topics(names, fit.n_topics)}),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _static("template.html"))


def _static(name: str) -> str:
    return files("unmix.report").joinpath("static", name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
